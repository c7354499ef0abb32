/*
 * foreign_scan.c
 *		Foreign scans of distributed tables.
 *
 * executor/remote_scan.c runs the query.  This file converts rows to the
 * scan's row type, and adds the location of rows that are to be modified.
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

#include "access/access.h"
#include "access/foreign_scan.h"
#include "base/base.h"
#include "compat.h"

/* Beginning ------------------------------------------------------------------------ */

/* Returns the user to connect as: for tables of a view, its owner. */
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
 * Makes the descriptor of the remote columns: some columns of the table, and
 * the location of the row, if needed.
 */
static TupleDesc
make_descriptor(const SlScan *scan, TupleDesc table)
{
	bool		has_identity = (scan->scan.flags & SL_SCAN_IDENTITY) != 0;
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

/* Do remote rows have the scan's row type already? */
static bool
has_scan_row_type(const SlScan *scan, TupleDesc table)
{
	ListCell   *cell;

	if ((scan->scan.flags & (SL_SCAN_IDENTITY | SL_SCAN_RETURNS)) != 0 ||
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
make_row_slot(ForeignScanState *node, SlScan *scan)
{
	TupleDesc	table = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	bool		is_base = ((ForeignScan *) node->ss.ps.plan)->scan.scanrelid > 0;

	if (!is_base || has_scan_row_type(scan, table))
	{
		scan->scan.wanted = table;
		scan->row = NULL;
		return;
	}
	scan->scan.wanted = make_descriptor(scan, table);
	scan->row = MakeSingleTupleTableSlot(scan->scan.wanted, &TTSOpsVirtual);
}

/* Reads the fdw_private of the plan. */
static SlScan *
open_scan(ForeignScanState *node)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	List	   *items = plan->fdw_private;
	SlScan	   *scan = palloc0(sizeof(SlScan));

	scan->columns = list_nth(items, SL_SCAN_COLUMNS);
	scan->scan.sql = strVal(list_nth(items, SL_SCAN_SQL));
	scan->scan.lock = strVal(list_nth(items, SL_SCAN_LOCK));
	scan->scan.owned = list_nth(items, SL_SCAN_FILTERS);
	scan->scan.places = list_nth(items, SL_SCAN_PLACES);
	scan->scan.relations = strVal(list_nth(items, SL_SCAN_RELATIONS));
	scan->scan.flags = intVal(list_nth(items, SL_SCAN_FLAGS));
	scan->scan.param_count = intVal(list_nth(items, SL_SCAN_PARAM_COUNT));
	scan->scan.programs = list_nth(items, SL_SCAN_PRUNE);
	scan->scan.limit_place = linitial_int(list_nth(items, SL_SCAN_LIMIT));
	scan->scan.offset_place = lsecond_int(list_nth(items, SL_SCAN_LIMIT));
	sl_remote_scan_open(&scan->scan, &node->ss.ps, plan->fdw_exprs, list_nth(items, SL_SCAN_SORT));
	return scan;
}

/* Does the statement lock rows? */
static bool
locks_rows(const PlannedStmt *statement)
{
	ListCell   *cell;

	foreach(cell, statement->rowMarks)
	{
		if (lfirst_node(PlanRowMark, cell)->strength != LCS_NONE)
			return true;
	}
	return false;
}

/*
 * Must the rows to be modified be read without locking them?  If this
 * statement may have moved rows to a shard before that shard is scanned, a
 * locking scan would find these as well.  If a subquery locks the rows that it
 * has chosen, others must be neither locked nor waited for.
 */
static bool
is_unlocked(const SlScan *scan, const PlannedStmt *statement)
{
	return (scan->scan.flags & SL_REMOTE_SCAN_TARGET) != 0 &&
		(scan->scan.may_repeat || (scan->scan.flags & SL_SCAN_MOVES) != 0 ||
		 statement->hasModifyingCTE || locks_rows(statement));
}

/* Prepares a scan to run. */
static void
begin_scan(ForeignScanState *node, SlScan *scan)
{
	scan->scan.shard_column = (scan->scan.flags & SL_SCAN_IDENTITY) != 0 ?
		scan->scan.wanted->natts - 1 : -1;
	sl_remote_scan_set_user(&scan->scan, find_user(node));
	scan->is_unlocked = is_unlocked(scan, node->ss.ps.state->es_plannedstmt);
	if (scan->is_unlocked)
	{
		scan->scan.flags &= ~SL_REMOTE_SCAN_LOCKS;
		scan->scan.statement->is_unlocked = true;
	}
}

void
sl_fdw_begin_scan(ForeignScanState *node, int eflags)
{
	node->fdw_state = open_scan(node);
	make_row_slot(node, node->fdw_state);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		begin_scan(node, node->fdw_state);
}

/* Rows ---------------------------------------------------------------------------------- */

/* Sets the location of the row: the shard, its table there, and the ctid. */
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
 * Stores a row with system columns.  Those returned by a direct modification
 * are in its target list too, although they are not used.
 */
static void
store_with_header(ForeignScanState *node, SlScan *scan, TupleTableSlot *slot)
{
	MemoryContext old_context = MemoryContextSwitchTo(node->ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	HeapTuple	tuple = heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values,
										slot->tts_isnull);

	tuple->t_tableOid = RelationGetRelid(node->ss.ss_currentRelation);
	if ((scan->scan.flags & SL_SCAN_IDENTITY) != 0)
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
	if ((scan->scan.flags & (SL_SCAN_IDENTITY | SL_SCAN_RETURNS)) != 0)
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
		return sl_remote_scan_next_row(&scan->scan, slot) ? slot : ExecClearTuple(slot);
	if (!sl_remote_scan_next_row(&scan->scan, scan->row))
		return ExecClearTuple(slot);
	store_row(node, scan, slot);
	return slot;
}

/* The end -------------------------------------------------------------------------------- */

void
sl_fdw_rescan(ForeignScanState *node)
{
	sl_remote_scan_end(&((SlScan *) node->fdw_state)->scan);
}

void
sl_fdw_end_scan(ForeignScanState *node)
{
	SlScan	   *scan = node->fdw_state;

	if (scan == NULL)
		return;
	sl_remote_scan_end(&scan->scan);
	if (scan->row != NULL)
		ExecDropSingleTupleTableSlot(scan->row);
	scan->row = NULL;
}

void
sl_fdw_explain_scan(ForeignScanState *node, ExplainState *es)
{
	SlScan	   *scan = node->fdw_state;

	if (((ForeignScan *) node->ss.ps.plan)->scan.scanrelid == 0)
		ExplainPropertyText("Relations", scan->scan.relations, es);
	sl_remote_scan_explain(&scan->scan, es);
}
