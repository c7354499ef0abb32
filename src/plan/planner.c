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

#include "access/table.h"
#include "catalog/pg_class.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "map/table.h"
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

/* A column that may be assigned: one of the key only if there is no other. */
static Form_pg_attribute
find_assignable(const SlTable *table, TupleDesc columns)
{
	Form_pg_attribute result = NULL;

	for (int i = columns->natts - 1; i >= 0; i--)
	{
		Form_pg_attribute column = TupleDescAttr(columns, i);
		bool		is_key = false;

		for (int j = 0; j < table->key_count; j++)
			is_key = is_key || table->key[j] == column->attnum;
		if (!column->attisdropped && column->attgenerated == '\0' && (!is_key || result == NULL))
			result = column;
	}
	return result;
}

/*
 * The rewriter takes away what sets generated columns, to DEFAULT, and there is no text
 * of an UPDATE that sets nothing.  Lets it set a column to what it is.
 */
static void
complete_assignments(const Query *query, List **assignments)
{
	const RangeTblEntry *entry = rt_fetch(query->resultRelation, query->rtable);
	SlTable    *table;
	Relation	relation;
	Form_pg_attribute column;

	if (*assignments != NIL || entry->relkind != RELKIND_FOREIGN_TABLE)
		return;
	table = sl_table_get(entry->relid);
	if (table == NULL)
		return;
	relation = table_open(entry->relid, NoLock);
	column = find_assignable(table, RelationGetDescr(relation));
	if (column != NULL)
		*assignments = list_make1(makeTargetEntry((Expr *) makeVar(query->resultRelation, column->attnum,
																   column->atttypid, column->atttypmod,
																   column->attcollation, 0),
												  column->attnum, pstrdup(NameStr(column->attname)),
												  false));
	table_close(relation, NoLock);
}

/* UPDATEs are on top, and in WITH on top. */
static void
complete_updates(Query *query)
{
	ListCell   *cell;

	if (query->commandType == CMD_UPDATE)
		complete_assignments(query, &query->targetList);
	if (query->onConflict != NULL && query->onConflict->action == ONCONFLICT_UPDATE)
		complete_assignments(query, &query->onConflict->onConflictSet);
	foreach(cell, query->hasModifyingCTE ? query->cteList : NIL)
		complete_updates(castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery));
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
		complete_updates(query);
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
