/*
 * direct_modify.c
 *		Direct modifications: UPDATE and DELETE that are pushed down.
 *
 * If the shards can find the rows and compute the new values, each executes
 * one statement and no row is fetched.  An UPDATE of the key is never direct:
 * rows may have to move to another shard.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "access/access.h"
#include "access/foreign_scan.h"
#include "base/base.h"
#include "compat.h"

/* Returns the scan below ModifyTable, if there is nothing else in between. */
static ForeignScan *
find_scan(ModifyTable *plan, Index index)
{
	ForeignScan *scan = (ForeignScan *) outerPlan(plan);

	if (!IsA(scan, ForeignScan) || scan->scan.scanrelid != index || scan->scan.plan.qual != NIL ||
		list_length(plan->resultRelations) != 1)
		return NULL;
	return scan;
}

static bool
is_key(const SlTable *table, int column)
{
	for (int i = 0; i < table->key_count; i++)
	{
		if (table->key[i] == column)
			return true;
	}
	return false;
}

/*
 * Can the shards compute all new values?  They are evaluated for existing rows
 * only.
 */
static bool
can_set(const SlRel *info, List *values, List *columns)
{
	const SlMember *member = linitial(info->members);
	ListCell   *value_cell;
	ListCell   *column_cell;

	forboth(value_cell, values, column_cell, columns)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, value_cell);

		if (entry->resjunk)
			continue;
		if (is_key(member->table, lfirst_int(column_cell)) ||
			!sl_shippable_check_expr(&info->ship, (Node *) entry->expr) ||
			(sl_shippable_is_local(&info->ship, (Node *) entry->expr) && sl_shippable_fails_early((Node *) entry->expr)))
			return false;
	}
	return true;
}

static void
write_set(SlDeparse *deparse, Oid table, List *values, List *columns)
{
	bool		is_first = true;
	ListCell   *value_cell;
	ListCell   *column_cell;

	forboth(value_cell, values, column_cell, columns)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, value_cell);

		if (entry->resjunk)
			continue;
		appendStringInfo(&deparse->sql, "%s %s = ", is_first ? " SET" : ",",
						 quote_identifier(get_attname(table, (AttrNumber) lfirst_int(column_cell), false)));
		sl_deparse_expr(deparse, (Node *) entry->expr);
		is_first = false;
	}
}

/*
 * Returns the columns that RETURNING needs; at least one, as the syntax
 * requires.
 */
static List *
returned_columns(Oid table, Index index, List *returning)
{
	Relation	relation = table_open(table, NoLock);
	TupleDesc	columns = RelationGetDescr(relation);
	Bitmapset  *used = NULL;
	bool		needs_all;
	List	   *result = NIL;

	pull_varattnos((Node *) returning, index, &used);
	needs_all = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, used);
	for (int pass = 0; pass < 2 && result == NIL; pass++)
	{
		for (int i = 1; i <= columns->natts; i++)
		{
			if (!TupleDescAttr(columns, i - 1)->attisdropped &&
				(needs_all || bms_is_member(i - FirstLowInvalidHeapAttributeNumber, used)))
				result = lappend_int(result, i);
		}
		needs_all = true;
	}
	table_close(relation, NoLock);
	return result;
}

/* Does RETURNING need the location of a row? */
static bool
returns_system_column(Index index, List *returning)
{
	Bitmapset  *used = NULL;

	pull_varattnos((Node *) returning, index, &used);
	for (int i = FirstLowInvalidHeapAttributeNumber + 1; i < 0; i++)
	{
		if (i != TableOidAttributeNumber && bms_is_member(i - FirstLowInvalidHeapAttributeNumber, used))
			return true;
	}
	return false;
}

static void
write_returning(SlDeparse *deparse, Index index, List *columns)
{
	ListCell   *cell;

	foreach(cell, columns)
	{
		appendStringInfoString(&deparse->sql, foreach_current_index(cell) == 0 ? " RETURNING " : ", ");
		sl_deparse_column(deparse, index, (AttrNumber) lfirst_int(cell));
	}
}

/* Deparses the statement, and stores it in the scan. */
static void
make_direct(SlShippableContext *ship, ForeignScan *scan, ModifyTable *plan, Index index, const SlMember *member,
			bool is_single, List *values, List *columns, List *returning)
{
	int			nest_level = sl_deparse_begin_plain();
	List	   *conditions = scan->fdw_recheck_quals;
	List	   *returned = NIL;
	List	   *expressions = NIL;
	List	   *owned = NIL;
	List	   *program;
	int			flags = SL_REMOTE_SCAN_WRITES;
	SlDeparse	deparse;

	sl_deparse_init(&deparse, ship);
	appendStringInfoString(&deparse.sql, plan->operation == CMD_UPDATE ? "UPDATE " : "DELETE FROM ");
	sl_deparse_relation(&deparse, index);
	write_set(&deparse, member->table->relid, values, columns);
	if (conditions != NIL)
		appendStringInfoString(&deparse.sql, " WHERE ");
	sl_deparse_conditions(&deparse, conditions);
	if (!is_single && member->table->kind == SL_TABLE_SHARDED)
		owned = list_make1(sl_ownership_filter_place(deparse.sql.len, conditions != NIL,
													 list_make1(sl_ownership_filter_member(member->table, psprintf("r%u", index)))));
	if (returning != NIL)
	{
		returned = returned_columns(member->table->relid, index, returning);
		write_returning(&deparse, index, returned);
		flags |= SL_SCAN_RETURNS;
	}
	sl_deparse_end_plain(nest_level);
	if (plan->canSetTag)
		flags |= SL_REMOTE_SCAN_COUNTS;
	program = sl_pruning_make(ship, index, member->table, conditions, &expressions);
	lfirst(list_nth_cell(scan->fdw_private, SL_SCAN_SQL)) = makeString(deparse.sql.data);
	lfirst(list_nth_cell(scan->fdw_private, SL_SCAN_COLUMNS)) = returned;
	lfirst(list_nth_cell(scan->fdw_private, SL_SCAN_FLAGS)) = makeInteger(flags);
	lfirst(list_nth_cell(scan->fdw_private, SL_SCAN_PARAM_COUNT)) =
		makeInteger(list_length(ship->params));
	lfirst(list_nth_cell(scan->fdw_private, SL_SCAN_PRUNE)) =
		list_make1(list_make2(makeInteger((int) member->table->relid), program));
	lfirst(list_nth_cell(scan->fdw_private, SL_SCAN_SORT)) = NIL;
	lfirst(list_nth_cell(scan->fdw_private, SL_SCAN_LOCK)) = makeString("");
	lfirst(list_nth_cell(scan->fdw_private, SL_SCAN_FILTERS)) = owned;
	scan->fdw_exprs = list_concat(ship->params, expressions);
	scan->operation = plan->operation;
	scan->resultRelation = index;
}

/*
 * The shard computes the new values.  The plan would evaluate them again on
 * the returned row, for RETURNING; the result is not used, but the evaluation
 * could fail.
 */
static void
forget_values(Plan *plan)
{
	List	   *targets = NIL;
	ListCell   *cell;

	foreach(cell, plan->targetlist)
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst_node(TargetEntry, cell));
		Node	   *value = (Node *) entry->expr;

		if (!entry->resjunk)
			entry->expr = (Expr *) makeNullConst(exprType(value), exprTypmod(value), exprCollation(value));
		targets = lappend(targets, entry);
	}
	plan->targetlist = targets;
}

bool
sl_fdw_plan_direct(PlannerInfo *root, ModifyTable *plan, Index index, int subplan)
{
	ForeignScan *scan = find_scan(plan, index);
	const SlRel *info;
	SlShippableContext ship;
	List	   *values = NIL;
	List	   *columns = NIL;
	List	   *returning = plan->returningLists != NIL ? list_nth(plan->returningLists, subplan) : NIL;

	if (scan == NULL || (plan->operation != CMD_UPDATE && plan->operation != CMD_DELETE))
		return false;
	info = root->simple_rel_array[index]->fdw_private;
	if (plan->operation == CMD_UPDATE)
		get_translated_update_targetlist(root, index, &values, &columns);
	if (!can_set(info, values, columns) || returns_system_column(index, returning))
		return false;
	ship = info->ship;
	ship.params = NIL;
	make_direct(&ship, scan, plan, index, linitial(info->members), info->is_single, values, columns, returning);
	forget_values(&scan->scan.plan);
	return true;
}

/* Execution ----------------------------------------------------------------------- */

/* Without RETURNING only the row counts are needed. */
static void
run_commands(ForeignScanState *node, SlScan *scan)
{
	(void) sl_fdw_next(node);
	sl_remote_scan_count_rows(&scan->scan);
}

/* Stores the next row of RETURNING where ModifyTable expects it. */
static TupleTableSlot *
next_returned(ForeignScanState *node, SlScan *scan)
{
	TupleTableSlot *slot = sl_fdw_next(node);

	if (TupIsNull(slot))
		return slot;
	if ((scan->scan.flags & SL_REMOTE_SCAN_COUNTS) != 0)
		node->ss.ps.state->es_processed++;
	node->resultRelInfo->ri_projectReturning->pi_exprContext->ecxt_scantuple = slot;
	return slot;
}

TupleTableSlot *
sl_fdw_next_direct(ForeignScanState *node)
{
	SlScan	   *scan = node->fdw_state;

	if ((scan->scan.flags & SL_SCAN_RETURNS) != 0)
		return next_returned(node, scan);
	if (!scan->is_done)
		run_commands(node, scan);
	scan->is_done = true;
	return ExecClearTuple(node->ss.ss_ScanTupleSlot);
}
