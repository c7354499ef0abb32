/*
 * push_single_shard.c
 *		Single-shard queries: statements that one shard executes as a whole.
 *
 * The statement is deparsed by PostgreSQL itself.  The shard is determined at
 * execution: parameters stay parameters, and the plan can be cached.
 */
#include "postgres.h"


#include "compat.h"
#include "deparse/shippable_query.h"
#include "planner/insert.h"
#include "planner/planner.h"
#include "planner/query_placement.h"
#include "planner/remote_scan_plan.h"

/* Returns the columns of the statement, including junk sort columns. */
static List *
returned_columns(Query *query)
{
	return query->commandType == CMD_SELECT ? query->targetList : query->returningList;
}

static List *
without_junk(List *columns)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, columns)
	{
		if (!lfirst_node(TargetEntry, cell)->resjunk)
			result = lappend(result, lfirst(cell));
	}
	return result;
}

/* Does the statement modify or lock rows? */
static bool
writes_or_locks(const Query *query)
{
	return query->commandType != CMD_SELECT || query->hasModifyingCTE || query->hasForUpdate;
}

static bool
has_insert_target(const Query *query)
{
	ListCell   *cell;

	foreach(cell, query->cteList)
	{
		if (has_insert_target(castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery)))
			return true;
	}
	foreach(cell, query->mergeActionList)
	{
		if (lfirst_node(MergeAction, cell)->commandType == CMD_INSERT)
			return true;
	}
	return query->commandType == CMD_INSERT;
}

/*
 * Is the number of rows of the result known to be small enough for one batch?
 */
static bool
has_few_rows(const Query *query)
{
	const Const *limit = (const Const *) query->limitCount;

	if (query->commandType != CMD_SELECT)
		return false;
	if (limit != NULL && IsA(limit, Const) && query->limitOption == LIMIT_OPTION_COUNT)
		return !limit->constisnull && DatumGetInt64(limit->constvalue) <= SL_FEW_ROWS;
	return query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL &&
		!query->hasTargetSRFs;
}

PlannedStmt *
sl_push_plan_single_shard(Query *query, const SlPlacement *placement, int options)
{
	SlShippableContext ship;
	SlRemotePlan remote = {.name = SL_REMOTE_PLAN_SHIP};
	List	   *columns = without_junk(returned_columns(query));
	Query	   *shippable;
	CustomScan *scan;

	if (!sl_planned_find_user(query, &remote.user))
		return NULL;
	sl_shippable_init_query(&ship, placement->tables);
	ship.with_system_columns = true;
	ship.parameterizes = true;
	shippable = sl_shippable_make_query(&ship, sl_insert_normalise(query));
	if (shippable == NULL)
		return NULL;
	remote.sql = sl_deparse_query(shippable);
	remote.params = sl_planned_prepare_expressions(ship.params);
	remote.programs = placement->programs;
	remote.expressions = sl_planned_prepare_expressions(placement->expressions);
	remote.result = sl_planned_make_result(columns);
	remote.flags = SL_REMOTE_PLAN_SINGLE | SL_REMOTE_PLAN_ONE_ROW | (writes_or_locks(query) ? SL_REMOTE_PLAN_WRITES : 0) |
		(query->commandType != CMD_SELECT ? SL_REMOTE_PLAN_COUNTS : 0) |
		(has_insert_target(query) ? SL_REMOTE_PLAN_INSERTS : 0) | (has_few_rows(shippable) ? SL_REMOTE_PLAN_FEW_ROWS : 0);
	remote.relations = sl_planned_name_relations(query);
	scan = sl_remote_plan_make(&remote, sl_planned_make_target(columns));
	return sl_planned_make_statement(query, &scan->scan.plan, options);
}
