/*
 * planner.c
 *		Which road a statement takes.
 *
 * PostgreSQL's planner is not asked if one shard can answer the whole statement
 * (Ship), or each shard for its own rows (Scatter).  Of other statements shards may
 * answer a part; the rest is PostgreSQL's (leaf.c).  What is left is planned over
 * the tables as the foreign data wrapper reads them.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"

#include "base/base.h"
#include "compat.h"
#include "plan/leaf.h"
#include "plan/insert.h"
#include "plan/plan.h"
#include "plan/where.h"

static planner_hook_type previous_planner = NULL;

/* Is there a foreign table in it?  Most statements of a database have none. */
static bool
has_foreign_table(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_RELATION &&
			((RangeTblEntry *) node)->relkind == RELKIND_FOREIGN_TABLE;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_foreign_table, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, has_foreign_table, context);
}

static PlannedStmt *
plan_by_road(Query *query, int options)
{
	SlWhere    *where;

	if (query->commandType == CMD_UTILITY || (!sl_ship_statements && !sl_scatter_statements))
		return NULL;
	where = sl_where_find(query);
	if (where->kind == SL_WHERE_ONE)
		return sl_ship_plan(query, where, options);
	if (where->kind == SL_WHERE_SHARDS && sl_scatter_statements)
		return sl_scatter_plan(query, where, options);
	if (query->commandType == CMD_INSERT && sl_ship_statements)
		return sl_insert_plan(query, options);
	return NULL;
}

/* Leaves the rest to PostgreSQL. */
static PlannedStmt *
plan_rest(Query *query, const char *source, int options, ParamListInfo params)
{
	sl_on_conflict_hide(query);
	return previous_planner != NULL ? previous_planner(query, source, options, params) :
		standard_planner(query, source, options, params);
}

static PlannedStmt *
plan_hook(Query *query, const char *source, int options, ParamListInfo params)
{
	PlannedStmt *result;

	if (has_foreign_table((Node *) query, NULL))
	{
		result = plan_by_road(query, options);
		if (result == NULL)
			sl_system_columns_check(query);
		if (result == NULL && sl_scatter_statements && query->commandType != CMD_UTILITY)
			result = sl_leaf_plan(query, source, options, params, plan_rest);
		if (result != NULL)
			return result;
	}
	return plan_rest(query, source, options, params);
}

void
sl_planner_init(void)
{
	previous_planner = planner_hook;
	planner_hook = plan_hook;
	sl_leaf_init();
}
