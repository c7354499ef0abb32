/*
 * planner_hook.c
 *		The planner hook: chooses how a statement is executed.
 *
 * PostgreSQL's planner is bypassed if one shard can execute the whole
 * statement (Ship), or each shard for its own rows (Scatter).  In other
 * statements, parts may be pushed down and PostgreSQL plans the rest
 * (push_partial.c).  Whatever remains is planned over foreign tables (Gather).
 */
#include "postgres.h"

#include "access/table.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "metadata/table.h"
#include "planner/insert.h"
#include "planner/planner.h"
#include "planner/push_partial.h"
#include "planner/query_placement.h"
#include "planner/subquery_order.h"

static planner_hook_type previous_planner = NULL;

/* Is there a sharded or placed table in it? */
static bool
has_remote_table(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_RELATION &&
			sl_table_is_remote(((RangeTblEntry *) node)->relid, ((RangeTblEntry *) node)->relkind);
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_remote_table, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, has_remote_table, context);
}

/*
 * Returns a column that may be assigned: one of the key only if there is no
 * other.
 */
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
 * The rewriter removes assignments of DEFAULT to generated columns, and an
 * UPDATE with an empty SET list cannot be deparsed.  Adds an assignment of a
 * column to itself.
 */
static void
complete_assignments(const Query *query, List **assignments)
{
	const RangeTblEntry *entry = rt_fetch(query->resultRelation, query->rtable);
	SlTable    *table;
	Relation	relation;
	Form_pg_attribute column;

	if (*assignments != NIL || !sl_table_is_remote(entry->relid, entry->relkind))
		return;
	table = sl_table_get(entry->relid);
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

/*
 * UPDATE is possible at the top level, and in a WITH clause of the top level.
 */
static void
complete_updates(Query *query)
{
	ListCell   *cell;

	if (query->commandType == CMD_UPDATE)
		complete_assignments(query, &query->targetList);
	if (query->onConflict != NULL && query->onConflict->action == ONCONFLICT_UPDATE)
		complete_assignments(query, &query->onConflict->onConflictSet);
	foreach(cell, query->mergeActionList)
	{
		MergeAction *action = lfirst_node(MergeAction, cell);

		if (action->commandType == CMD_UPDATE)
			complete_assignments(query, &action->targetList);
	}
	foreach(cell, query->hasModifyingCTE ? query->cteList : NIL)
		complete_updates(castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery));
}

/*
 * Rows of a spread map go to the shards in turn, so a row that conflicts with a new one
 * may be on any shard.
 */
static void
refuse_spread(const Query *query)
{
	const RangeTblEntry *entry = rt_fetch(query->resultRelation, query->rtable);
	const SlTable *table = sl_table_is_remote(entry->relid, entry->relkind) ? sl_table_get(entry->relid) : NULL;

	if (table == NULL || table->kind != SL_TABLE_SHARDED || table->key_count > 0 || !table->is_local_unique)
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("ON CONFLICT is not supported for table \"%s\"", get_rel_name(entry->relid)),
			errdetail("Its map \"%s\" spreads rows over the shards, and each shard sees its own rows only.", table->map),
			errhint("Make values that are unique over all shards, as shardlet.next_id() does, and leave ON CONFLICT out."));
}

/* Raises an error if no shard can tell which rows of an INSERT conflict. */
static void
check_on_conflict(Query *query)
{
	ListCell   *cell;

	if (query->commandType == CMD_INSERT && query->onConflict != NULL)
		refuse_spread(query);
	foreach(cell, query->hasModifyingCTE ? query->cteList : NIL)
		check_on_conflict(castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery));
}

/* One shard executes the whole statement. */
static PlannedStmt *
plan_single_shard(Query *query, const SlPlacement *placement, int options)
{
	if (placement == NULL || placement->kind != SL_PLACEMENT_SINGLE_SHARD)
		return NULL;
	return sl_push_plan_single_shard(query, placement, options);
}

/* Each shard executes the statement for its own rows, or inserts its rows. */
static PlannedStmt *
plan_all_shards(Query *query, const SlPlacement *placement, int options)
{
	if (placement == NULL || placement->kind == SL_PLACEMENT_SINGLE_SHARD)
		return NULL;
	if (placement->kind == SL_PLACEMENT_ALL_SHARDS && sl_scatter_statements)
		return sl_push_plan_all_shards(query, placement, options);
	if (query->commandType == CMD_INSERT && sl_ship_statements)
		return sl_insert_plan(query, options);
	return NULL;
}

/* Returns NULL if the settings disable all pushdown of statements. */
static SlPlacement *
analyze_placement(Query *query)
{
	return sl_ship_statements || sl_scatter_statements ? sl_placement_analyze(query) : NULL;
}

/* Pushes down a part and leaves the rest to PostgreSQL. */
static PlannedStmt *
plan_rest(Query *query, const char *source, int options, ParamListInfo params)
{
	return previous_planner != NULL ? previous_planner(query, source, options, params) :
		standard_planner(query, source, options, params);
}

/*
 * Plans a statement with a MERGE into a distributed table, which shards must
 * execute: PostgreSQL's planner cannot plan it.
 */
static PlannedStmt *
plan_merge(Query *query, const SlPlacement *placement, int options)
{
	PlannedStmt *result = query->commandType == CMD_MERGE ? plan_all_shards(query, placement, options) : NULL;

	if (result == NULL)
		sl_merge_refuse(query, placement);
	return result;
}

static PlannedStmt *
plan_distributed(Query *query, const char *source, int options, ParamListInfo params)
{
	SlPlacement *placement;
	Query	   *sorted;
	PlannedStmt *result;

	check_on_conflict(query);
	complete_updates(query);
	query = sl_row_security_apply(query);
	placement = analyze_placement(query);
	result = plan_single_shard(query, placement, options);
	if (result != NULL)
		return result;
	sl_system_columns_check_ctid(query);
	if (sl_merge_find_remote(query) != NULL)
		return plan_merge(query, placement, options);

	/*
	 * On a single shard, PostgreSQL itself preserves the order of subqueries.
	 */
	sorted = sl_subquery_order_keep(query);
	if (sorted != NULL)
	{
		query = sorted;
		placement = analyze_placement(query);
	}
	result = plan_all_shards(query, placement, options);
	if (result == NULL)
	{
		sl_system_columns_check(query);
		query = sl_locked_in_replace(query);
		query = sl_sample_wrap_tables(query);
	}
	if (result == NULL && sl_scatter_statements)
		result = sl_partial_plan_query(query, source, options, params, plan_rest);
	return result != NULL ? result : plan_rest(query, source, options, params);
}

static PlannedStmt *
plan_hook(Query *query, const char *source, int options, ParamListInfo params)
{
	return query->commandType != CMD_UTILITY && has_remote_table((Node *) query, NULL) ?
		plan_distributed(query, source, options, params) : plan_rest(query, source, options, params);
}

void
sl_planner_init(void)
{
	previous_planner = planner_hook;
	planner_hook = plan_hook;
	sl_partial_init();
}
