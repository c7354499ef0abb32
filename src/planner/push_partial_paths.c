/*
 * push_partial_paths.c
 *		Paths for a remote subquery and for the upper relations on top of
 *		it.
 *
 * One path returns the rows.  Another one is a partial aggregation: shards
 * compute the transition states for their own rows, and PostgreSQL's Agg node
 * combines them, as it does for parallel workers.  For DISTINCT, and for
 * aggregates with DISTINCT, shards return each combination of values once.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "deparse/ownership_filter.h"
#include "deparse/partial_aggregate.h"
#include "deparse/shippable_query.h"
#include "planner/planner.h"
#include "planner/push_partial.h"
#include "planner/remote_scan_plan.h"

/* Costs of a remote query and of receiving one row, in the planner's unit. */
#define TRIP_COST 30.0
#define ROW_COST 0.01

/* Shards work in parallel. */
#define SHARDS_AT_A_TIME 4.0

typedef struct RemoteSubqueryPath
{
	CustomPath	path;			/* must come first */
	const SlRemoteSubquery *subquery;
	Query	   *query;			/* the remote query */
	List	   *params;
	List	   *expressions;	/* that prune the shards */
	List	   *columns;		/* of SlRemoteSubqueryColumn */
	List	   *sort;			/* OidLists to merge by, as in SlRemotePlan */
	bool		is_plain;		/* filter clauses are checked on the router */
} RemoteSubqueryPath;

static Plan *plan_remote_subquery(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *target_list,
								  List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = SL_REMOTE_PLAN_SCATTER,
	.PlanCustomPath = plan_remote_subquery,
};

static set_rel_pathlist_hook_type next_pathlist_hook = NULL;
static create_upper_paths_hook_type next_upper_hook = NULL;

/* The scan --------------------------------------------------------------------------- */

/* Returns the name of a column of a remote subquery, for EXPLAIN. */
static char *
name_of(PlannerInfo *root, const Expr *expression)
{
	const Var  *column = (const Var *) expression;

	return IsA(column, Var) && column->varattno > 0 ?
		get_rte_attribute_name(planner_rt_fetch(column->varno, root), column->varattno) : NULL;
}

static Plan *
plan_remote_subquery(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *target_list, List *clauses,
					 List *custom_plans)
{
	const RemoteSubqueryPath *path = (const RemoteSubqueryPath *) best_path;
	SlRemotePlan remote = {.name = SL_REMOTE_PLAN_SCATTER};
	CustomScan *scan;
	ListCell   *cell;

	if (path->subquery->placement->kind == SL_PLACEMENT_SINGLE_SHARD)
		remote.sql = sl_deparse_query(path->query);
	else
		remote.sql = sl_ownership_filter_query_sql(path->query, &remote.owned);
	remote.params = path->params;
	remote.programs = path->subquery->placement->programs;
	remote.expressions = path->expressions;
	remote.sort = path->sort;
	remote.flags = path->subquery->placement->kind == SL_PLACEMENT_SINGLE_SHARD ?
		SL_REMOTE_PLAN_SINGLE | SL_REMOTE_PLAN_ONE_ROW : 0;
	remote.relations = sl_planned_name_relations(path->subquery->plain);
	remote.user = path->subquery->user;
	foreach(cell, path->columns)
	{
		Expr	   *local = ((const SlRemoteSubqueryColumn *) lfirst(cell))->local;

		remote.result = lappend(remote.result,
								makeTargetEntry(local, (AttrNumber) (foreach_current_index(cell) + 1),
												path->sort != NIL ? name_of(root, local) : NULL, false));
	}
	scan = sl_remote_plan_make(&remote, target_list);
	scan->scan.plan.targetlist = target_list;
	scan->scan.plan.qual = path->is_plain ? extract_actual_clauses(clauses, false) : NIL;
	return (Plan *) scan;
}

/* Returns the arguments of the call, which are planned at this point. */
static List *
arguments_of(PlannerInfo *root, const RelOptInfo *rel)
{
	const RangeTblEntry *entry = planner_rt_fetch(rel->relid, root);
	const RangeTblFunction *function = linitial_node(RangeTblFunction, entry->functions);

	return list_copy_tail(((const FuncExpr *) function->funcexpr)->args, 1);
}

static List *
params_of(PlannerInfo *root, const RelOptInfo *rel, const SlRemoteSubquery *subquery)
{
	return list_truncate(arguments_of(root, rel), list_length(subquery->ship.params));
}

static RemoteSubqueryPath *
make_path(PlannerInfo *root, const SlRemoteSubquery *subquery, RelOptInfo *rel, PathTarget *target, Query *query,
		  List *params, List *columns, double rows)
{
	RemoteSubqueryPath *path = palloc0(sizeof(RemoteSubqueryPath));

	path->path.path.type = T_CustomPath;
	path->path.path.pathtype = T_CustomScan;
	path->path.path.parent = rel;
	path->path.path.pathtarget = target;
	path->path.path.rows = clamp_row_est(rows);
	path->path.flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->path.methods = &path_methods;
	path->subquery = subquery;
	path->query = query;
	path->params = params;
	path->expressions = list_copy_tail(arguments_of(root, rel), list_length(subquery->ship.params));
	path->columns = columns;
	return path;
}

/* "work" is the number of expressions that shards evaluate for each row. */
static void
set_cost(RemoteSubqueryPath *path, int work, bool is_grouped)
{
	Cost		finding = (path->subquery->cost + cpu_operator_cost * work * path->subquery->rows) /
	SHARDS_AT_A_TIME;

	path->path.path.startup_cost = TRIP_COST + (is_grouped ? finding : 0);
	path->path.path.total_cost = TRIP_COST + finding + (ROW_COST + cpu_tuple_cost) *
		path->path.path.rows;
}

/* The rows ----------------------------------------------------------------------------- */

static List *
add_plain_column(List *columns, Index index, AttrNumber number, Oid type, int32 modifier,
				 Oid collation)
{
	SlRemoteSubqueryColumn *column = palloc0(sizeof(SlRemoteSubqueryColumn));

	column->local = (Expr *) makeVar((int) index, number, type, modifier, collation, 0);
	return lappend(columns, column);
}

/* Returns all columns, and the whole row if it is referenced. */
static List *
plain_columns(const SlRemoteSubquery *subquery, const RelOptInfo *rel)
{
	List	   *columns = NIL;
	Bitmapset  *wanted = NULL;
	ListCell   *cell;

	foreach(cell, subquery->plain->targetList)
	{
		const TargetEntry *entry = lfirst_node(TargetEntry, cell);
		Node	   *value = (Node *) entry->expr;

		if (!entry->resjunk)
			columns = add_plain_column(columns, rel->relid, (AttrNumber) (list_length(columns) + 1),
									   exprType(value), exprTypmod(value), exprCollation(value));
	}
	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &wanted);
	if (bms_is_member(InvalidAttrNumber - FirstLowInvalidHeapAttributeNumber, wanted))
		columns = add_plain_column(columns, rel->relid, InvalidAttrNumber, RECORDOID, -1, InvalidOid);
	return columns;
}

/*
 * Adds a path for the rows.  After a subquery was pulled up, its
 * PlaceHolderVars may be evaluated at this relation.
 */
static void
add_row_path(PlannerInfo *root, RelOptInfo *rel, const SlRemoteSubquery *subquery, Query *query, List *sort)
{
	RemoteSubqueryPath *path = make_path(root, subquery, rel, rel->reltarget, query, params_of(root, rel, subquery),
										 plain_columns(subquery, rel), rel->rows);

	path->is_plain = true;
	path->sort = sort;
	path->path.path.pathkeys = sort != NIL ? root->query_pathkeys : NIL;
	set_cost(path, list_length(sort), sort != NIL);
	path->path.path.param_info = get_baserel_parampathinfo(root, rel, rel->lateral_relids);
	add_path(rel, (Path *) path);
}

static void
add_rows(PlannerInfo *root, RelOptInfo *rel, Index index, RangeTblEntry *entry)
{
	SlRemoteSubquery *subquery;
	Query	   *sorted;
	Selectivity selectivity;
	List	   *sort = NIL;

	if (next_pathlist_hook)
		next_pathlist_hook(root, rel, index, entry);
	subquery = sl_partial_find_subquery(entry);
	if (subquery == NULL)
		return;
	rel->tuples = subquery->tuples;
	selectivity = clauselist_selectivity(root, rel->baserestrictinfo, 0, JOIN_INNER, NULL);
	rel->rows = clamp_row_est(subquery->rows * selectivity);
	rel->pathlist = NIL;
	add_row_path(root, rel, subquery, subquery->query, NIL);

	/*
	 * All rows of a subquery that keeps its order are read: shards sort them.
	 */
	if (!sl_shippable_is_offset_zero(root->parse->limitOffset))
		return;
	sorted = sl_partial_push_sort(subquery, root->query_pathkeys, rel, &sort);
	if (sorted != NULL)
		add_row_path(root, rel, subquery, sorted, sort);
}

/* What shards compute of them -------------------------------------------------------------- */

typedef struct Made
{
	const SlRemoteSubquery *subquery;
	SlShippableContext ship;
	PathTarget *target;
	List	   *columns;		/* of SlRemoteSubqueryColumn, as in the target */
	List	   *clauses;
	bool		has_failed;
} Made;

/* Constants and parameters alone cannot be grouped by. */
static Expr *
ship_column(Made *made, Expr *expression)
{
	if (IsA(expression, Const) || sl_shippable_is_local(&made->ship, (Node *) expression) ||
		contain_volatile_functions((Node *) expression))
		return NULL;
	return (Expr *) sl_shippable_make_expr(&made->ship, (Node *) expression);
}

static void
add_column(Made *made, Expr *local, Expr *remote, Index group, bool is_group)
{
	SlRemoteSubqueryColumn *column = palloc0(sizeof(SlRemoteSubqueryColumn));

	if (remote == NULL)
	{
		made->has_failed = true;
		return;
	}
	column->local = local;
	column->remote = remote;
	column->is_group = is_group;
	made->columns = lappend(made->columns, column);
	add_column_to_pathtarget(made->target, local, group);
}

static void
add_groups(Made *made, PlannerInfo *root, List *clauses)
{
	ListCell   *cell;

	foreach(cell, clauses)
	{
		const SortGroupClause *clause = lfirst_node(SortGroupClause, cell);
		Expr	   *expression = get_sortgroupref_tle(clause->tleSortGroupRef, root->processed_tlist)->expr;

		add_column(made, expression, ship_column(made, expression), clause->tleSortGroupRef, true);
	}
}

static Made
begin(PlannerInfo *root, const SlRemoteSubquery *subquery, const RelOptInfo *rel)
{
	Made		made = {.subquery = subquery,.ship = subquery->ship};
	ListCell   *cell;

	made.ship.relids = bms_copy(rel->relids);
	made.ship.is_statement = false;
	made.ship.with_aggregates = true;
	made.ship.params = params_of(root, rel, subquery);
	made.target = create_empty_pathtarget();
	foreach(cell, rel->baserestrictinfo)
	{
		const RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);
		Node	   *clause;

		/* Pseudoconstant clauses are checked before any row is read. */
		if (restriction->pseudoconstant)
			continue;
		clause = sl_shippable_make_expr(&made.ship, (Node *) restriction->clause);
		made.clauses = lappend(made.clauses, clause);
		made.has_failed = made.has_failed || clause == NULL;
	}
	return made;
}

static Path *
finish(PlannerInfo *root, Made *made, RelOptInfo *rel, double rows, bool is_distinct)
{
	RemoteSubqueryPath *path = make_path(root, made->subquery, rel, set_pathtarget_cost_width(root, made->target),
										 sl_partial_push_grouping(made->subquery, rel->relid, made->columns, made->clauses,
																  is_distinct),
										 made->ship.params, made->columns, rows);

	set_cost(path, list_length(made->columns), true);
	return (Path *) path;
}

/* Every shard may have every group, or all rows are distinct. */
static double
rows_of_groups(const SlRemoteSubquery *subquery, const RelOptInfo *rel, double groups)
{
	return Min(rel->rows, groups * subquery->shard_count);
}

static double
count_groups(PlannerInfo *root, const RelOptInfo *rel, List *expressions)
{
	return expressions == NIL ? 1 : estimate_num_groups(root, expressions, rel->rows, NULL, NULL);
}

/* Aggregates in two steps ------------------------------------------------------------------ */

/*
 * Is there a column that is neither in an aggregate nor in a grouping
 * expression?
 */
static bool
needs_more(Node *node, Made *made)
{
	if (node == NULL || IsA(node, Aggref) || list_member(made->target->exprs, node))
		return false;
	if (IsA(node, Var) || IsA(node, PlaceHolderVar))
		return true;
	return expression_tree_walker(node, needs_more, (void *) made);
}

static bool
find_aggregates(Node *node, List **aggregates)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
	{
		*aggregates = lappend(*aggregates, node);
		return false;
	}
	return expression_tree_walker(node, find_aggregates, (void *) aggregates);
}

/* Adds the grouping columns.  Returns the aggregates that the target needs. */
static List *
begin_groups(Made *made, PlannerInfo *root, const RelOptInfo *output,
			 const GroupPathExtraData *extra)
{
	List	   *wanted = list_make2(output->reltarget->exprs, extra->havingQual);
	List	   *aggregates = NIL;

	add_groups(made, root, root->parse->groupClause);
	made->has_failed = made->has_failed || needs_more((Node *) wanted, made);
	(void) find_aggregates((Node *) wanted, &aggregates);
	return aggregates;
}

static void
add_state(Made *made, Aggref *aggregate)
{
	Aggref	   *partial = makeNode(Aggref);
	Node	   *shipped;

	*partial = *aggregate;
	mark_partial_aggref(partial, AGGSPLIT_INITIAL_SERIAL);
	if (list_member(made->target->exprs, partial))
		return;
	shipped = aggregate->aggdistinct != NIL || !sl_shippable_is_type(&made->ship, partial->aggtype) ? NULL :
		sl_shippable_make_expr(&made->ship, (Node *) sl_aggregate_find_origin(aggregate));
	add_column(made, (Expr *) partial, shipped == NULL ? NULL :
			   sl_aggregate_make_state(aggregate, (Aggref *) shipped, made->subquery->is_bare), 0, false);
}

static void
add_states(Made *made, List *aggregates)
{
	ListCell   *cell;

	foreach(cell, aggregates)
		add_state(made, lfirst_node(Aggref, cell));
}

/* Adds the cheapest grouping path on top of a path. */
static void
add_grouping(PlannerInfo *root, RelOptInfo *output, Path *path, AggSplit split, List *having,
			 double groups)
{
	List	   *clauses = sl_group_clauses(root);
	bool		can_hash = clauses != NIL && root->numOrderedAggs == 0 &&
	grouping_is_hashable(clauses);
	AggClauseCosts costs = {0};

	get_agg_clause_costs(root, split, &costs);
	if (can_hash)
		add_path(output, (Path *) create_agg_path(root, output, path, output->reltarget, AGG_HASHED,
												  split, clauses, having, &costs, groups));
	if (can_hash && !grouping_is_sortable(clauses))
		return;
	if (root->group_pathkeys != NIL)
		path = (Path *) create_sort_path(root, output, path, root->group_pathkeys, -1);
	add_path(output, (Path *) create_agg_path(root, output, path, output->reltarget,
											  root->parse->groupClause != NIL ? AGG_SORTED : AGG_PLAIN,
											  split, clauses, having, &costs, groups));
}

static bool
add_split(PlannerInfo *root, SlRemoteSubquery *subquery, RelOptInfo *input, RelOptInfo *output,
		  GroupPathExtraData *extra)
{
	Made		made = begin(root, subquery, input);
	List	   *expressions = get_sortgrouplist_exprs(root->parse->groupClause, root->processed_tlist);
	double		groups = count_groups(root, input, expressions);

	add_states(&made, begin_groups(&made, root, output, extra));
	if (made.has_failed || made.columns == NIL)
		return false;
	if (subquery->must_split)
		output->pathlist = NIL;
	add_grouping(root, output, finish(root, &made, input, rows_of_groups(subquery, input, groups), false),
				 AGGSPLIT_FINAL_DESERIAL, (List *) extra->havingQual, groups);
	subquery->has_split = true;
	return true;
}

/* Each combination of values once ------------------------------------------------------------ */

/* Is the aggregate independent of duplicates? */
static bool
ignores_duplicates(const Aggref *aggregate)
{
	static const char *const names[] = {
		"min", "max", "bool_and", "bool_or", "every", "bit_and", "bit_or"
	};
	const char *name;

	if (aggregate->aggkind != AGGKIND_NORMAL)
		return false;
	if (aggregate->aggdistinct != NIL)
		return true;
	if (aggregate->aggfnoid >= FirstNormalObjectId || aggregate->aggorder != NIL)
		return false;
	name = get_func_name(aggregate->aggfnoid);
	for (int i = 0; i < (int) lengthof(names); i++)
	{
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

static void
add_value(Made *made, Expr *expression)
{
	if (!IsA(expression, Const) && !list_member(made->target->exprs, expression))
		add_column(made, expression, ship_column(made, expression), 0, true);
}

/* Returns the inputs of an aggregate, as columns. */
static void
add_arguments(Made *made, const Aggref *aggregate)
{
	ListCell   *cell;

	if (!ignores_duplicates(aggregate))
		made->has_failed = true;
	foreach(cell, aggregate->args)
		add_value(made, lfirst_node(TargetEntry, cell)->expr);
	if (aggregate->aggfilter != NULL)
		add_value(made, aggregate->aggfilter);
}

static void
add_values(Made *made, List *aggregates)
{
	ListCell   *cell;

	foreach(cell, aggregates)
		add_arguments(made, lfirst_node(Aggref, cell));
}

static List *
columns_of(const Made *made)
{
	return made->target->exprs;
}

static void
add_groups_of_values(PlannerInfo *root, SlRemoteSubquery *subquery, RelOptInfo *input, RelOptInfo *output,
					 GroupPathExtraData *extra)
{
	Made		made = begin(root, subquery, input);
	List	   *expressions = get_sortgrouplist_exprs(root->parse->groupClause, root->processed_tlist);
	double		rows;

	add_values(&made, begin_groups(&made, root, output, extra));
	if (made.has_failed || made.columns == NIL)
		return;
	rows = rows_of_groups(subquery, input, count_groups(root, input, columns_of(&made)));
	add_grouping(root, output, finish(root, &made, input, rows, true), AGGSPLIT_SIMPLE,
				 (List *) extra->havingQual, count_groups(root, input, expressions));
}

static void
add_distinct(PlannerInfo *root, SlRemoteSubquery *subquery, RelOptInfo *input, RelOptInfo *output)
{
	Made		made = begin(root, subquery, input);
	List	   *clauses = root->parse->distinctClause;
	double		groups;
	Path	   *path;

	if (root->parse->hasDistinctOn || root->parse->hasTargetSRFs || !grouping_is_hashable(clauses))
		return;
	add_groups(&made, root, clauses);
	if (made.has_failed || made.columns == NIL)
		return;
	groups = count_groups(root, input, columns_of(&made));
	path = finish(root, &made, input, rows_of_groups(subquery, input, groups), true);
	add_path(output, (Path *) create_agg_path(root, output, path, root->upper_targets[UPPERREL_DISTINCT],
											  AGG_HASHED, AGGSPLIT_SIMPLE, clauses, NIL, NULL, groups));
}

/* The hook ------------------------------------------------------------------------------------- */

static void
add_made(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output,
		 void *extra)
{
	SlRemoteSubquery *subquery;

	if (next_upper_hook)
		next_upper_hook(root, stage, input, output, extra);
	if ((stage != UPPERREL_GROUP_AGG && stage != UPPERREL_DISTINCT) ||
		input->reloptkind != RELOPT_BASEREL)
		return;
	subquery = sl_partial_find_subquery(planner_rt_fetch(input->relid, root));
	if (subquery == NULL)
		return;
	if (stage == UPPERREL_DISTINCT)
		add_distinct(root, subquery, input, output);
	else if (root->parse->groupingSets == NIL && !add_split(root, subquery, input, output, extra) &&
			 !subquery->must_split)
		add_groups_of_values(root, subquery, input, output, extra);
}

void
sl_partial_init_paths(void)
{
	next_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = add_rows;
	next_upper_hook = create_upper_paths_hook;
	create_upper_paths_hook = add_made;
}
