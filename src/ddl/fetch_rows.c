/*
 * fetch_rows.c
 *		Reads the rows of a table from the shards into a plain table of the router.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/hio.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/base.h"
#include "ddl/definition.h"

/*
 * The file is of this transaction, so no other one can see the rows before it
 * commits.  Frozen, they are visible to snapshots that are older than that, too: a
 * transaction that waited for the table with such a snapshot would find it empty
 * otherwise.
 */
#define INSERT_OPTIONS (TABLE_INSERT_FROZEN | TABLE_INSERT_SKIP_FSM)

/* The columns that have values of their own; a virtual one has none. */
static List *
stored_columns(TupleDesc descriptor)
{
	List	   *result = NIL;

	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, i);

		if (!column->attisdropped &&
			(column->attgenerated == '\0' || column->attgenerated == ATTRIBUTE_GENERATED_STORED))
			result = lappend_int(result, column->attnum);
	}
	return result;
}

static TupleDesc
wanted_shape(TupleDesc descriptor, List *columns)
{
	TupleDesc	result = CreateTemplateTupleDesc(list_length(columns));
	ListCell   *cell;

	foreach(cell, columns)
		TupleDescCopyEntry(result, (AttrNumber) (foreach_current_index(cell) + 1),
						   descriptor, (AttrNumber) lfirst_int(cell));
	return result;
}

static char *
select_sql(Relation relation, List *columns)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT");
	foreach(cell, columns)
		appendStringInfo(&sql, "%s %s", foreach_current_index(cell) == 0 ? "" : ",",
						 quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(relation),
																lfirst_int(cell) - 1)->attname)));
	appendStringInfo(&sql, " FROM %s",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
												RelationGetRelationName(relation)));
	return sql.data;
}

static uint64
insert_rows(Relation relation, List *columns, SlMultiShardScan *fanout, TupleTableSlot *row)
{
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	BulkInsertState bulk = GetBulkInsertState();
	CommandId	command = GetCurrentCommandId(true);
	uint64		rows = 0;
	ListCell   *cell;

	while (sl_multi_shard_next(fanout, row))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(row);
		ExecClearTuple(slot);
		memset(slot->tts_isnull, true, sizeof(bool) * slot->tts_tupleDescriptor->natts);
		foreach(cell, columns)
		{
			slot->tts_values[lfirst_int(cell) - 1] = row->tts_values[foreach_current_index(cell)];
			slot->tts_isnull[lfirst_int(cell) - 1] = row->tts_isnull[foreach_current_index(cell)];
		}
		ExecStoreVirtualTuple(slot);
		table_tuple_insert(relation, slot, command, INSERT_OPTIONS, bulk);
		rows++;
	}
	FreeBulkInsertState(bulk);
	table_finish_bulk_insert(relation, INSERT_OPTIONS);
	ExecDropSingleTupleTableSlot(slot);
	return rows;
}

/*
 * Reads the rows of all these shards into a table that is empty and plain.  Returns
 * their number.
 */
uint64
sl_table_fetch_rows(Oid relid, List *shards)
{
	Relation	relation = table_open(relid, NoLock);
	List	   *columns = stored_columns(RelationGetDescr(relation));
	SlMultiShardSpec spec = {0};
	TupleTableSlot *row;
	SlMultiShardScan *fanout;
	uint64		rows;

	spec.caller.transaction = GetCurrentSubTransactionId();
	spec.caller.user = GetUserId();
	spec.shards = shards;
	spec.sql = select_sql(relation, columns);
	spec.wanted = wanted_shape(RelationGetDescr(relation), columns);
	spec.shard_column = -1;
	spec.plain_values = true;
	row = MakeSingleTupleTableSlot(spec.wanted, &TTSOpsVirtual);
	fanout = sl_multi_shard_begin(&spec);
	rows = insert_rows(relation, columns, fanout, row);
	sl_multi_shard_end(fanout);
	ExecDropSingleTupleTableSlot(row);
	table_close(relation, NoLock);
	CommandCounterIncrement();
	return rows;
}
