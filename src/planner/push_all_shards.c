/*
 * push_all_shards.c
 *		Statements that are pushed down to all shards.
 *
 * Each shard executes the whole statement for its own rows.  A sorted result
 * is merged, so the sort columns are returned as well; with a LIMIT each shard
 * returns at most LIMIT + OFFSET rows, and the router applies both to the
 * merged rows.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"

#include "compat.h"
#include "deparse/ownership_filter.h"
#include "deparse/shippable_query.h"
#include "planner/insert.h"
#include "planner/planner.h"
#include "planner/query_placement.h"
#include "planner/remote_scan_plan.h"

/* Can LIMIT or OFFSET be computed on the router? */
static bool
is_evaluable(Node *count)
{
	return count == NULL || !contain_subplans(count);
}

/* Makes the sort columns part of the remote output. */
static void
return_order(Query *query)
{
	ListCell   *cell;

	foreach(cell, query->sortClause)
	{
		TargetEntry *entry = get_sortgroupclause_tle(lfirst(cell), query->targetList);

		if (entry->resjunk)
		{
			entry->resjunk = false;
			entry->resname = psprintf("shardlet_order%d", foreach_current_index(cell));
		}
	}
}

/* Returns the columns that the shards return, in their order. */
static List *
returned_columns(const Query *original, const Query *query)
{
	List	   *list = query->commandType == CMD_SELECT ? query->targetList : query->returningList;
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, list)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (entry->resjunk)
			continue;
		entry = flatCopyTargetEntry(entry);

		/* Junk columns are needed for the merge only. */
		if (query->commandType == CMD_SELECT)
			entry->resjunk = lfirst_node(TargetEntry, list_nth_cell(original->targetList,
																	foreach_current_index(cell)))->resjunk;
		result = lappend(result, entry);
	}
	return result;
}

/* Returns the number of the output column, from 0. */
static int
place_of(List *columns, const TargetEntry *entry)
{
	ListCell   *cell;

	foreach(cell, columns)
	{
		if (lfirst_node(TargetEntry, cell)->resno == entry->resno)
			return foreach_current_index(cell);
	}
	return -1;
}

static List *
merge_keys(const Query *query, List *columns)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, query->sortClause)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, cell);
		TargetEntry *entry = get_sortgroupclause_tle(clause, query->targetList);

		result = lappend(result, list_make4_oid((Oid) place_of(columns, entry), clause->sortop,
												exprCollation((Node *) entry->expr),
												clause->nulls_first ? 1 : 0));
	}
	return result;
}

static Query *
make_shippable(SlShippableContext *ship, Query *query)
{
	query = sl_insert_normalise(query);
	if (query->commandType == CMD_MERGE && !sl_merge_wrap_source(query))
		return NULL;
	return sl_shippable_make_query(ship, query);
}

PlannedStmt *
sl_push_plan_all_shards(Query *original, const SlPlacement *placement, int options)
{
	SlShippableContext ship;
	SlRemotePlan remote = {.name = SL_REMOTE_PLAN_SCATTER};
	Query	   *query;
	Query	   *shippable;
	List	   *columns;
	CustomScan *scan;

	if (!sl_planned_find_user(original, &remote.user) || !is_evaluable(original->limitCount) ||
		!is_evaluable(original->limitOffset))
		return NULL;
	query = copyObject(original);
	return_order(query);
	remote.limit_count = (Node *) expression_planner((Expr *) query->limitCount);
	remote.limit_offset = (Node *) expression_planner((Expr *) query->limitOffset);
	query->limitCount = query->limitOffset = NULL;
	sl_shippable_init_query(&ship, placement->tables);
	ship.with_system_columns = true;
	shippable = make_shippable(&ship, query);
	if (shippable == NULL)
		return NULL;
	columns = returned_columns(original, query);
	remote.sql = sl_ownership_filter_query_sql(shippable, &remote.owned);
	remote.params = sl_planned_prepare_expressions(ship.params);
	remote.programs = placement->programs;
	remote.expressions = sl_planned_prepare_expressions(placement->expressions);
	remote.result = sl_planned_make_result(columns);
	remote.sort = merge_keys(query, columns);
	remote.flags = query->commandType != CMD_SELECT ? SL_REMOTE_PLAN_WRITES | SL_REMOTE_PLAN_COUNTS : 0;
	remote.relations = sl_planned_name_relations(query);
	scan = sl_remote_plan_make(&remote, sl_planned_make_target(columns));
	return sl_planned_make_statement(original, &scan->scan.plan, options);
}
