/*
 * changed_row.c
 *		On a shard: distinguishes a row that this transaction has changed
 *		from one that another transaction has changed.
 *
 * The router finds rows to be modified without locking them, by the snapshot
 * of its statement, and locks them one by one.  A row version that cannot be
 * locked any more was changed by another transaction, and then the statement
 * has to be run again; or by another part of the statement itself, and then
 * PostgreSQL leaves the row as it is.  No column of a row distinguishes these:
 * xmax may be a subtransaction's.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_am_d.h"
#include "fmgr.h"
#include "storage/bufmgr.h"
#include "storage/itemptr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(shardlet_has_changed_row);

static bool
is_heap(Relation relation)
{
	return relation->rd_rel->relkind == RELKIND_RELATION &&
		relation->rd_rel->relam == HEAP_TABLE_AM_OID && !RELATION_IS_OTHER_TEMP(relation);
}

/*
 * Was the row version updated or deleted, not only locked, by this
 * transaction?
 */
static bool
is_changed_by_current(HeapTupleHeader row)
{
	if ((row->t_infomask & HEAP_XMAX_INVALID) != 0 || HEAP_XMAX_IS_LOCKED_ONLY(row->t_infomask))
		return false;
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(row));
}

/* The relation may have been dropped, or truncated, by now. */
static bool
has_changed(Relation relation, ItemPointer place)
{
	HeapTupleData tuple = {.t_self = *place};
	Buffer		buffer;
	bool		result;

	if (!is_heap(relation) || !ItemPointerIsValid(place) ||
		ItemPointerGetBlockNumber(place) >= RelationGetNumberOfBlocks(relation) ||
		!heap_fetch(relation, SnapshotAny, &tuple, &buffer, false))
		return false;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	result = is_changed_by_current(tuple.t_data);
	UnlockReleaseBuffer(buffer);
	return result;
}

/* has_changed_row(tbl, place): has this transaction changed or deleted the row version? */
Datum
shardlet_has_changed_row(PG_FUNCTION_ARGS)
{
	Relation	relation = try_relation_open(PG_GETARG_OID(0), AccessShareLock);
	bool		result = false;

	if (relation == NULL)
		PG_RETURN_BOOL(false);
	result = has_changed(relation, (ItemPointer) PG_GETARG_POINTER(1));
	relation_close(relation, AccessShareLock);
	PG_RETURN_BOOL(result);
}
