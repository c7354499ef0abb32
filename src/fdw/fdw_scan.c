/*
 * fdw_scan.c
 *		Reads rows of tables from the shards.
 *
 * Asking is done in fanout/ask.c.  Here rows get the shape that the plan wants,
 * and those that are to be changed tell where they are.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "fdw/fdw.h"
#include "fdw/fdw_scan.h"

/* Beginning ------------------------------------------------------------------------ */

/* As whom does the scan connect?  A view's tables are read as its owner. */
static Oid
find_user(ForeignScanState *node)
{
	const ForeignScan *plan = (const ForeignScan *) node->ss.ps.plan;

	return sl_scan_user(plan, node->ss.ps.state);
}

static void
add_column(TupleDesc descriptor, int number, Form_pg_attribute from)
{
	TupleDescInitEntry(descriptor, (AttrNumber) number, NameStr(from->attname), from->atttypid,
					   from->atttypmod, 0);
	TupleDescInitEntryCollation(descriptor, (AttrNumber) number, from->attcollation);
}

/*
 * What is asked for: some columns of the table, and where the row is, if that is
 * wanted.
 */
static TupleDesc
make_wanted(const SlScan *scan, TupleDesc table)
{
	bool		has_identity = (scan->ask.flags & SL_SCAN_IDENTITY) != 0;
	int			count = list_length(scan->columns);
	TupleDesc	wanted = CreateTemplateTupleDesc(count + (has_identity ? 3 : 0));
	ListCell   *cell;

	foreach(cell, scan->columns)
		add_column(wanted, foreach_current_index(cell) + 1,
				   TupleDescAttr(table, lfirst_int(cell) - 1));
	if (has_identity)
	{
		TupleDescInitEntry(wanted, (AttrNumber) (count + 1), "ctid", TIDOID, -1, 0);
		TupleDescInitEntry(wanted, (AttrNumber) (count + 2), "tableoid", INT8OID, -1, 0);
		TupleDescInitEntry(wanted, (AttrNumber) (count + 3), "shard", INT4OID, -1, 0);
	}
	return wanted;
}

/* Has a row as it comes the shape that is wanted? */
static bool
is_in_place(const SlScan *scan, TupleDesc table)
{
	ListCell   *cell;

	if ((scan->ask.flags & (SL_SCAN_IDENTITY | SL_SCAN_RETURNS)) != 0 ||
		list_length(scan->columns) != table->natts)
		return false;
	foreach(cell, scan->columns)
	{
		if (lfirst_int(cell) != foreach_current_index(cell) + 1)
			return false;
	}
	return true;
}

static void
make_shape(ForeignScanState *node, SlScan *scan)
{
	TupleDesc	table = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	bool		is_base = ((ForeignScan *) node->ss.ps.plan)->scan.scanrelid > 0;

	if (!is_base || is_in_place(scan, table))
	{
		scan->ask.wanted = table;
		scan->row = NULL;
		return;
	}
	scan->ask.wanted = make_wanted(scan, table);
	scan->row = MakeSingleTupleTableSlot(scan->ask.wanted, &TTSOpsVirtual);
}

/* Reads what the planner made. */
static SlScan *
open_scan(ForeignScanState *node)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	List	   *items = plan->fdw_private;
	SlScan	   *scan = palloc0(sizeof(SlScan));

	scan->columns = list_nth(items, SL_SCAN_COLUMNS);
	scan->ask.sql = strVal(list_nth(items, SL_SCAN_SQL));
	scan->ask.lock = strVal(list_nth(items, SL_SCAN_LOCK));
	scan->ask.owned = list_nth(items, SL_SCAN_OWNED);
	scan->ask.relations = strVal(list_nth(items, SL_SCAN_RELATIONS));
	scan->ask.flags = intVal(list_nth(items, SL_SCAN_FLAGS));
	scan->ask.param_count = intVal(list_nth(items, SL_SCAN_PARAM_COUNT));
	scan->ask.programs = list_nth(items, SL_SCAN_PRUNE);
	scan->ask.limit_place = linitial_int(list_nth(items, SL_SCAN_LIMIT));
	scan->ask.offset_place = lsecond_int(list_nth(items, SL_SCAN_LIMIT));
	sl_ask_open(&scan->ask, &node->ss.ps, plan->fdw_exprs, list_nth(items, SL_SCAN_SORT));
	return scan;
}

/*
 * Must rows be looked for that are to be changed, and not be locked then?  Where
 * rows may have come to a shard by this very statement before it is asked,
 * a lock would find these as well.
 */
static bool
is_unlocked(const SlScan *scan, const PlannedStmt *statement)
{
	return (scan->ask.flags & SL_ASK_TARGET) != 0 &&
		(scan->ask.may_repeat || (scan->ask.flags & SL_SCAN_MOVES) != 0 || statement->hasModifyingCTE);
}

/* Prepares a scan to run. */
static void
begin(ForeignScanState *node, SlScan *scan)
{
	make_shape(node, scan);
	scan->ask.shard_column = (scan->ask.flags & SL_SCAN_IDENTITY) != 0 ?
		scan->ask.wanted->natts - 1 : -1;
	sl_ask_settle(&scan->ask, find_user(node));
	scan->is_unlocked = is_unlocked(scan, node->ss.ps.state->es_plannedstmt);
	if (scan->is_unlocked)
	{
		scan->ask.flags &= ~SL_ASK_LOCKS;
		scan->ask.statement->is_unlocked = true;
	}
}

void
sl_fdw_begin_scan(ForeignScanState *node, int eflags)
{
	node->fdw_state = open_scan(node);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		begin(node, node->fdw_state);
}

/* Rows ---------------------------------------------------------------------------------- */

/* Says where the row is: the shard, its table there, and the place in that. */
static void
set_identity(const SlScan *scan, HeapTuple tuple)
{
	int			count = list_length(scan->columns);
	TupleTableSlot *row = scan->row;

	tuple->t_self = *(ItemPointer) DatumGetPointer(row->tts_values[count]);
	tuple->t_data->t_ctid = tuple->t_self;
	HeapTupleHeaderSetXmin(tuple->t_data, (TransactionId) DatumGetInt64(row->tts_values[count + 1]));
	HeapTupleHeaderSetXmax(tuple->t_data, InvalidTransactionId);
	HeapTupleHeaderSetCmin(tuple->t_data, (CommandId) DatumGetInt32(row->tts_values[count + 2]));
}

/*
 * Stores a row that has system columns.  What a direct modification returns has
 * them in its target list too, though nobody looks at them.
 */
static void
store_with_header(ForeignScanState *node, SlScan *scan, TupleTableSlot *slot)
{
	MemoryContext old_context = MemoryContextSwitchTo(node->ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	HeapTuple	tuple = heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values,
										slot->tts_isnull);

	tuple->t_tableOid = RelationGetRelid(node->ss.ss_currentRelation);
	if ((scan->ask.flags & SL_SCAN_IDENTITY) != 0)
		set_identity(scan, tuple);
	MemoryContextSwitchTo(old_context);
	ExecClearTuple(slot);
	ExecStoreHeapTuple(tuple, slot, false);
}

static void
store_row(ForeignScanState *node, SlScan *scan, TupleTableSlot *slot)
{
	ListCell   *cell;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, sizeof(bool) * slot->tts_tupleDescriptor->natts);
	foreach(cell, scan->columns)
	{
		int			from = foreach_current_index(cell);
		int			to = lfirst_int(cell) - 1;

		slot->tts_values[to] = scan->row->tts_values[from];
		slot->tts_isnull[to] = scan->row->tts_isnull[from];
	}
	if ((scan->ask.flags & (SL_SCAN_IDENTITY | SL_SCAN_RETURNS)) != 0)
		store_with_header(node, scan, slot);
	else
		ExecStoreVirtualTuple(slot);
}

TupleTableSlot *
sl_fdw_next(ForeignScanState *node)
{
	SlScan	   *scan = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (scan->row == NULL)
		return sl_ask_next(&scan->ask, slot) ? slot : ExecClearTuple(slot);
	if (!sl_ask_next(&scan->ask, scan->row))
		return ExecClearTuple(slot);
	store_row(node, scan, slot);
	return slot;
}

/* The end -------------------------------------------------------------------------------- */

void
sl_fdw_rescan(ForeignScanState *node)
{
	sl_ask_end(&((SlScan *) node->fdw_state)->ask);
}

void
sl_fdw_end_scan(ForeignScanState *node)
{
	SlScan	   *scan = node->fdw_state;

	if (scan == NULL)
		return;
	sl_ask_end(&scan->ask);
	if (scan->row != NULL)
		ExecDropSingleTupleTableSlot(scan->row);
	scan->row = NULL;
}
