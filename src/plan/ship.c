/*
 * ship.c
 *		Statements that one shard answers, whatever is in them.
 *
 * The whole statement travels as PostgreSQL itself writes it.  Which shard it is
 * turns out when it runs: parameters stay parameters, and a plan can be kept.
 */
#include "postgres.h"


#include "compat.h"
#include "deparse/travel.h"
#include "plan/insert.h"
#include "plan/plan.h"
#include "plan/road.h"
#include "plan/where.h"

/* The columns that a statement returns; those that it only sorts by as well. */
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

/* Does the statement change or lock rows? */
static bool
writes(const Query *query)
{
	return query->commandType != CMD_SELECT || query->hasModifyingCTE || query->hasForUpdate;
}

static bool
inserts(const Query *query)
{
	ListCell   *cell;

	foreach(cell, query->cteList)
	{
		if (inserts(castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery)))
			return true;
	}
	return query->commandType == CMD_INSERT;
}

/* Does a query return no more rows than may come at once, whatever there is? */
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
sl_ship_plan(Query *query, const SlWhere *where, int options)
{
	SlShip		ship;
	SlRoad		road = {.name = SL_ROAD_SHIP};
	List	   *columns = without_junk(returned_columns(query));
	Query	   *travelling;
	CustomScan *scan;

	if (!sl_finish_find_user(query, &road.user))
		return NULL;
	sl_travel_init(&ship, where->tables);
	ship.with_system_columns = true;
	ship.is_shape = true;
	travelling = sl_travel(&ship, sl_insert_normalise(query));
	if (travelling == NULL)
		return NULL;
	road.sql = sl_travel_sql(travelling);
	road.params = sl_finish_expressions(ship.params);
	road.programs = where->programs;
	road.expressions = sl_finish_expressions(where->expressions);
	road.result = sl_finish_result(columns);
	road.command = query->commandType;
	road.flags = SL_ROAD_SINGLE | SL_ROAD_ONE_ROW | (writes(query) ? SL_ROAD_WRITES : 0) |
		(query->commandType != CMD_SELECT ? SL_ROAD_COUNTS : 0) |
		(inserts(query) ? SL_ROAD_INSERTS : 0) | (has_few_rows(travelling) ? SL_ROAD_FEW : 0);
	road.relations = sl_finish_relations(query);
	scan = sl_road_plan(&road, sl_finish_target(columns));
	return sl_finish_plan(query, &scan->scan.plan, options);
}
