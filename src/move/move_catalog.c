/*
 * move_catalog.c
 *		Rows of catalog_move, to and from structs; the locks of a move.
 *
 * There are two locks.  A transaction that changes the row of a move holds the row's
 * lock until its end.  The process that performs a move holds another one as long as
 * it lives, so that there is only one: an advisory lock, since other locks of a
 * session go when a transaction fails.
 */
#include "postgres.h"

#include <signal.h>

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "metadata/shared_memory.h"
#include "move/move.h"

/* Columns, in the order of sql/install/50_move.sql. */
enum
{
	MOVE_ID = 1, MOVE_MAP_ID, MOVE_SHARDLET, MOVE_FROM_SHARD, MOVE_TO_SHARD, MOVE_MODE, MOVE_PHASE,
	MOVE_STATE_BEFORE, MOVE_USER, MOVE_IS_OPEN, MOVE_IS_CANCELLED, MOVE_TABLE_COUNT, MOVE_TABLES_DONE,
	MOVE_ROWS_DONE, MOVE_ROWS_ESTIMATED, MOVE_BYTES_DONE, MOVE_BYTES_ESTIMATED, MOVE_LAG, MOVE_ATTEMPTS,
	MOVE_STARTED, MOVE_CHANGED, MOVE_LAST_ERROR, MOVE_RELATIONS, MOVE_NAME, MOVE_PARALLEL,
	MOVE_COLUMNS = MOVE_PARALLEL
};

/* Distinguishes the lock of a process from advisory locks of applications. */
#define OWNER_LOCK 21326

static const char *const mode_names[] = {
	[SL_MOVE_ONLINE] = "online",
	[SL_MOVE_READ_ONLY] = "read_only",
	[SL_MOVE_OFFLINE] = "offline",
};

/* As catalog_move and the view shardlet.moves have them. */
static const char *const phase_names[] = {
	[SL_MOVE_PHASE_QUEUED] = "queued",
	[SL_MOVE_PHASE_MARK] = "mark",
	[SL_MOVE_PHASE_WAIT] = "wait",
	[SL_MOVE_PHASE_COPY] = "copy",
	[SL_MOVE_PHASE_VERIFY] = "verify",
	[SL_MOVE_PHASE_FOLLOW] = "follow",
	[SL_MOVE_PHASE_SWITCH] = "switch",
	[SL_MOVE_PHASE_DETACH] = "detach",
	[SL_MOVE_PHASE_SETTLE] = "settle",
	[SL_MOVE_PHASE_REMOVE] = "remove",
	[SL_MOVE_PHASE_FINISH] = "finish",
	[SL_MOVE_PHASE_UNDO] = "undo",
	[SL_MOVE_PHASE_UNDO_REMOVE] = "undo_remove",
	[SL_MOVE_PHASE_UNDO_FINISH] = "undo_finish",
	[SL_MOVE_PHASE_LOST] = "lost",
	[SL_MOVE_PHASE_LOST_FINISH] = "lost_finish",
	[SL_MOVE_PHASE_DONE] = "done",
	[SL_MOVE_PHASE_FAILED] = "failed",
	[SL_MOVE_PHASE_CANCELLED] = "cancelled",
};

SlMoveMode
sl_move_mode_parse(const char *name)
{
	for (int i = 0; i < (int) lengthof(mode_names); i++)
	{
		if (strcmp(mode_names[i], name) == 0)
			return (SlMoveMode) i;
	}
	ereport(ERROR,
			errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("invalid mode \"%s\"", name),
			errhint("Valid modes are \"online\", \"read_only\" and \"offline\"."));
}

const char *
sl_move_phase_name(SlMovePhase phase)
{
	return phase_names[phase];
}

static SlMovePhase
parse_phase(const char *name)
{
	for (int i = 0; i < (int) lengthof(phase_names); i++)
	{
		if (strcmp(phase_names[i], name) == 0)
			return (SlMovePhase) i;
	}
	elog(ERROR, "there is no phase \"%s\" of a move", name);
}

/* Rows ---------------------------------------------------------------------- */

static List *
read_oids(ArrayType *array)
{
	Datum	   *values;
	int			count;
	List	   *result = NIL;

	deconstruct_array(array, OIDOID, sizeof(Oid), true, TYPALIGN_INT, &values, NULL, &count);
	for (int i = 0; i < count; i++)
		result = lappend_oid(result, DatumGetObjectId(values[i]));
	return result;
}

static Datum
form_oids(List *oids)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(list_length(oids), 1));
	ListCell   *cell;

	foreach(cell, oids)
		values[foreach_current_index(cell)] = ObjectIdGetDatum(lfirst_oid(cell));
	return PointerGetDatum(construct_array(values, list_length(oids), OIDOID, sizeof(Oid), true,
										   TYPALIGN_INT));
}

static void
read_row(HeapTuple tuple, TupleDesc descriptor, SlMove *move)
{
	Datum		values[MOVE_COLUMNS];
	bool		nulls[MOVE_COLUMNS];

	memset(move, 0, sizeof(SlMove));
	heap_deform_tuple(tuple, descriptor, values, nulls);
	move->id = DatumGetInt64(values[MOVE_ID - 1]);
	move->map_id = DatumGetInt32(values[MOVE_MAP_ID - 1]);
	move->shardlet = DatumGetInt64(values[MOVE_SHARDLET - 1]);
	move->from_shard = DatumGetInt32(values[MOVE_FROM_SHARD - 1]);
	move->to_shard = DatumGetInt32(values[MOVE_TO_SHARD - 1]);
	move->mode = sl_move_mode_parse(TextDatumGetCString(values[MOVE_MODE - 1]));
	move->phase = parse_phase(TextDatumGetCString(values[MOVE_PHASE - 1]));
	move->state_before = sl_state_parse(TextDatumGetCString(values[MOVE_STATE_BEFORE - 1]));
	move->user = DatumGetObjectId(values[MOVE_USER - 1]);
	move->is_open = DatumGetBool(values[MOVE_IS_OPEN - 1]);
	move->is_cancelled = DatumGetBool(values[MOVE_IS_CANCELLED - 1]);
	move->table_count = DatumGetInt32(values[MOVE_TABLE_COUNT - 1]);
	move->tables_done = DatumGetInt32(values[MOVE_TABLES_DONE - 1]);
	move->rows_done = DatumGetInt64(values[MOVE_ROWS_DONE - 1]);
	move->rows_estimated = DatumGetInt64(values[MOVE_ROWS_ESTIMATED - 1]);
	move->bytes_done = DatumGetInt64(values[MOVE_BYTES_DONE - 1]);
	move->bytes_estimated = DatumGetInt64(values[MOVE_BYTES_ESTIMATED - 1]);
	move->lag = nulls[MOVE_LAG - 1] ? -1 : DatumGetInt64(values[MOVE_LAG - 1]);
	move->attempts = DatumGetInt32(values[MOVE_ATTEMPTS - 1]);
	move->started = DatumGetTimestampTz(values[MOVE_STARTED - 1]);
	move->changed = DatumGetTimestampTz(values[MOVE_CHANGED - 1]);
	move->last_error = nulls[MOVE_LAST_ERROR - 1] ? NULL :
		TextDatumGetCString(values[MOVE_LAST_ERROR - 1]);
	move->has_begun = !nulls[MOVE_RELATIONS - 1];
	move->relations = move->has_begun ? read_oids(DatumGetArrayTypeP(values[MOVE_RELATIONS - 1])) : NIL;
	strlcpy(move->name, TextDatumGetCString(values[MOVE_NAME - 1]), sizeof(move->name));
	move->parallel = DatumGetInt32(values[MOVE_PARALLEL - 1]);
	move->tid = tuple->t_self;
}

static HeapTuple
form_row(Relation relation, const SlMove *move)
{
	Datum		values[MOVE_COLUMNS];
	bool		nulls[MOVE_COLUMNS] = {0};

	values[MOVE_ID - 1] = Int64GetDatum(move->id);
	values[MOVE_MAP_ID - 1] = Int32GetDatum(move->map_id);
	values[MOVE_SHARDLET - 1] = Int64GetDatum(move->shardlet);
	values[MOVE_FROM_SHARD - 1] = Int32GetDatum(move->from_shard);
	values[MOVE_TO_SHARD - 1] = Int32GetDatum(move->to_shard);
	values[MOVE_MODE - 1] = CStringGetTextDatum(mode_names[move->mode]);
	values[MOVE_PHASE - 1] = CStringGetTextDatum(sl_move_phase_name(move->phase));
	values[MOVE_STATE_BEFORE - 1] = CStringGetTextDatum(sl_state_name(move->state_before));
	values[MOVE_USER - 1] = ObjectIdGetDatum(move->user);
	values[MOVE_IS_OPEN - 1] = BoolGetDatum(move->is_open);
	values[MOVE_IS_CANCELLED - 1] = BoolGetDatum(move->is_cancelled);
	values[MOVE_TABLE_COUNT - 1] = Int32GetDatum(move->table_count);
	values[MOVE_TABLES_DONE - 1] = Int32GetDatum(move->tables_done);
	values[MOVE_ROWS_DONE - 1] = Int64GetDatum(move->rows_done);
	values[MOVE_ROWS_ESTIMATED - 1] = Int64GetDatum(move->rows_estimated);
	values[MOVE_BYTES_DONE - 1] = Int64GetDatum(move->bytes_done);
	values[MOVE_BYTES_ESTIMATED - 1] = Int64GetDatum(move->bytes_estimated);
	values[MOVE_LAG - 1] = Int64GetDatum(move->lag);
	nulls[MOVE_LAG - 1] = move->lag < 0;
	values[MOVE_ATTEMPTS - 1] = Int32GetDatum(move->attempts);
	values[MOVE_STARTED - 1] = TimestampTzGetDatum(move->started);
	values[MOVE_CHANGED - 1] = TimestampTzGetDatum(move->changed);
	nulls[MOVE_LAST_ERROR - 1] = move->last_error == NULL;
	values[MOVE_LAST_ERROR - 1] = move->last_error != NULL ?
		CStringGetTextDatum(move->last_error) : (Datum) 0;
	nulls[MOVE_RELATIONS - 1] = !move->has_begun;
	values[MOVE_RELATIONS - 1] = move->has_begun ? form_oids(move->relations) : (Datum) 0;
	values[MOVE_NAME - 1] = CStringGetTextDatum(move->name);
	values[MOVE_PARALLEL - 1] = Int32GetDatum(move->parallel);
	return heap_form_tuple(RelationGetDescr(relation), values, nulls);
}

/*
 * Names what a new move creates on shards, where other routers may do the same.  The
 * name is stored with the move and never computed again: a promoted standby or a
 * restored copy of this router is another router instance, and must find the objects.
 */
void
sl_move_make_name(SlMove *move)
{
	snprintf(move->name, sizeof(move->name), "shardlet_%08x_%u_%lld", (uint32) sl_router_instance(), MyDatabaseId,
			 (long long) move->id);
}

/* Reads a move; returns false if there is none with that number. */
bool
sl_move_read(int64 id, SlMove *move)
{
	Relation	relation = sl_catalog_open(SL_MOVE_TABLE, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, MOVE_ID, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	scan = systable_beginscan(relation, sl_catalog_oid(SL_MOVE_ID_INDEX), true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		read_row(tuple, RelationGetDescr(relation), move);
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return HeapTupleIsValid(tuple);
}

void
sl_move_insert(const SlMove *move)
{
	Relation	relation = sl_catalog_open(SL_MOVE_TABLE, RowExclusiveLock);

	sl_catalog_insert(relation, form_row(relation, move));
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Writes a row that was read under its lock. */
void
sl_move_update(SlMove *move)
{
	Relation	relation = sl_catalog_open(SL_MOVE_TABLE, RowExclusiveLock);
	ItemPointerData tid = move->tid;
	HeapTuple	tuple;

	move->changed = GetCurrentTimestamp();
	tuple = form_row(relation, move);
	sl_catalog_update(relation, &tid, tuple);
	move->tid = tuple->t_self;
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Returns all moves that are not over, as SlMoves, the oldest first. */
List *
sl_move_list_open(void)
{
	Relation	relation = sl_catalog_open(SL_MOVE_TABLE, AccessShareLock);
	Relation	index = index_open(sl_catalog_oid(SL_MOVE_ID_INDEX), AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(relation, index, NULL, 0, NULL);
	List	   *result = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		SlMove	   *move = palloc(sizeof(SlMove));

		read_row(tuple, RelationGetDescr(relation), move);
		if (move->is_open)
			result = lappend(result, move);
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(relation, AccessShareLock);
	return result;
}

/* Finds any move that is not over.  Needs no index: they may be dropped already. */
bool
sl_move_find_open(SlMove *move)
{
	Relation	relation = sl_catalog_open(SL_MOVE_TABLE, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	bool		result = false;
	HeapTuple	tuple;

	while (!result && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		read_row(tuple, RelationGetDescr(relation), move);
		result = move->is_open;
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/* Locks ----------------------------------------------------------------------- */

/* Takes the right to change a move's row, until the transaction ends. */
void
sl_move_lock(int64 id)
{
	LockDatabaseObject(sl_catalog_oid(SL_MOVE_TABLE), (Oid) id, 0, ExclusiveLock);
}

/* Takes the right to take moves from the queue, until the transaction ends. */
void
sl_move_lock_queue(void)
{
	LockDatabaseObject(sl_catalog_oid(SL_MOVE_TABLE), InvalidOid, 0, ExclusiveLock);
}

static LOCKTAG
owner_tag(int64 id)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (id >> 32), (uint32) id, OWNER_LOCK);
	return tag;
}

/*
 * Makes this process the one that does a move, as long as it lives.  Returns
 * false if there is one.
 */
bool
sl_move_try_own(int64 id)
{
	LOCKTAG		tag = owner_tag(id);

	return LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
}

void
sl_move_disown(int64 id)
{
	LOCKTAG		tag = owner_tag(id);

	(void) LockRelease(&tag, ExclusiveLock, true);
}

/*
 * Interrupts the process that does a move, if there is one: what it waits for is of no
 * use any more, on the router or on a shard.
 */
void
sl_move_interrupt(int64 id)
{
	LOCKTAG		tag = owner_tag(id);
	LockData   *locks = GetLockStatusData();

	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];

		if (memcmp(&lock->locktag, &tag, sizeof(LOCKTAG)) == 0 && lock->holdMask != 0 && lock->pid != MyProcPid &&
			kill(lock->pid, SIGINT) != 0 && errno != ESRCH)
			ereport(WARNING,
					errmsg("could not interrupt process %d of move %lld: %m", lock->pid, (long long) id));
	}
}
