/*
 * scatter.c
 *		Statements that each shard answers for its own rows.
 *
 * The whole statement travels to all shards concerned.  Rows that it sorts are
 * merged, so what it sorts by is returned as well; of a limited number of rows
 * each shard sends no more than that, and the router counts.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"

#include "compat.h"
#include "deparse/owned.h"
#include "deparse/travel.h"
#include "plan/insert.h"
#include "plan/plan.h"
#include "plan/road.h"
#include "plan/where.h"

/* Can LIMIT or OFFSET be computed on the router? */
static bool
is_evaluable(Node *count)
{
	return count == NULL || !contain_subplans(count);
}

/* Makes shards return the columns that the result is sorted by. */
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

/* The columns that come from the shards, in their order. */
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

		/* Those that only sort the rows go no further. */
		if (query->commandType == CMD_SELECT)
			entry->resjunk = lfirst_node(TargetEntry, list_nth_cell(original->targetList,
																	foreach_current_index(cell)))->resjunk;
		result = lappend(result, entry);
	}
	return result;
}

/* Which column of the result is it?  From 0. */
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

		/* cppcheck-suppress unknownEvaluationOrder */
		result = lappend(result, list_make4_oid((Oid) place_of(columns, entry), clause->sortop,
												exprCollation((Node *) entry->expr),
												clause->nulls_first ? 1 : 0));
	}
	return result;
}

PlannedStmt *
sl_scatter_plan(Query *original, const SlWhere *where, int options)
{
	SlShip		ship;
	SlRoad		road = {.name = SL_ROAD_SCATTER};
	Query	   *query;
	Query	   *travelling;
	List	   *columns;
	CustomScan *scan;

	if (!sl_finish_find_user(original, &road.user) || !is_evaluable(original->limitCount) ||
		!is_evaluable(original->limitOffset))
		return NULL;
	query = copyObject(original);
	return_order(query);
	road.limit_count = (Node *) expression_planner((Expr *) query->limitCount);
	road.limit_offset = (Node *) expression_planner((Expr *) query->limitOffset);
	query->limitCount = query->limitOffset = NULL;
	sl_travel_init(&ship, where->tables);
	ship.with_system_columns = true;
	travelling = sl_travel(&ship, sl_insert_normalise(query));
	if (travelling == NULL)
		return NULL;
	columns = returned_columns(original, query);
	road.sql = sl_owned_travel_sql(travelling, &road.owned);
	road.params = sl_finish_expressions(ship.params);
	road.programs = where->programs;
	road.expressions = sl_finish_expressions(where->expressions);
	road.result = sl_finish_result(columns);
	road.sort = merge_keys(query, columns);
	road.command = query->commandType;
	road.flags = query->commandType != CMD_SELECT ? SL_ROAD_WRITES | SL_ROAD_COUNTS : 0;
	road.relations = sl_finish_relations(query);
	scan = sl_road_plan(&road, sl_finish_target(columns));
	return sl_finish_plan(original, &scan->scan.plan, options);
}
