/*
 * leaf_path.c
 *		Paths by which the planner gets at a leaf, and at what shards make of it.
 *
 * The rows themselves are one path.  Groups of them are another: shards compute the
 * states of the aggregates for their own rows, and PostgreSQL's node for aggregates
 * puts the states together, as it does for parallel workers.  Where aggregates
 * see each value once, or DISTINCT is asked for, shards need to send a combination of
 * values only once.
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

#include "agg/agg.h"
#include "compat.h"
#include "deparse/owned.h"
#include "deparse/travel.h"
#include "plan/leaf.h"
#include "plan/plan.h"
#include "plan/road.h"

/* Asking the shards, and taking in a row, in the planner's unit. */
#define TRIP_COST 30.0
#define ROW_COST 0.01

/* Shards work at the same time. */
#define SHARDS_AT_A_TIME 4.0

typedef struct LeafPath
{
	CustomPath	path;			/* must come first */
	const SlLeaf *leaf;
	Query	   *query;			/* what shards run */
	List	   *params;
	List	   *expressions;	/* that decide on the shards */
	List	   *columns;		/* of SlLeafColumn */
	bool		is_plain;		/* conditions are left to the router */
} LeafPath;

static Plan *plan_leaf(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *target_list,
					   List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = SL_ROAD_SCATTER,
	.PlanCustomPath = plan_leaf,
};

static set_rel_pathlist_hook_type next_pathlist_hook = NULL;
static create_upper_paths_hook_type next_upper_hook = NULL;

/* The scan --------------------------------------------------------------------------- */

static Plan *
plan_leaf(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *target_list, List *clauses,
		  List *custom_plans)
{
	const LeafPath *path = (const LeafPath *) best_path;
	SlRoad		road = {.name = SL_ROAD_SCATTER,.command = CMD_SELECT};
	CustomScan *scan;
	ListCell   *cell;

	if (path->leaf->where->kind == SL_WHERE_ONE)
		road.sql = sl_travel_sql(path->query);
	else
		road.sql = sl_owned_travel_sql(path->query, &road.owned);
	road.params = path->params;
	road.programs = path->leaf->where->programs;
	road.expressions = path->expressions;
	road.flags = path->leaf->where->kind == SL_WHERE_ONE ? SL_ROAD_SINGLE | SL_ROAD_ONE_ROW : 0;
	road.relations = sl_finish_relations(path->leaf->plain);
	road.user = path->leaf->user;
	foreach(cell, path->columns)
		road.result = lappend(road.result,
							  makeTargetEntry(((const SlLeafColumn *) lfirst(cell))->local,
											  (AttrNumber) (foreach_current_index(cell) + 1), NULL, false));
	scan = sl_road_plan(&road, target_list);
	scan->scan.plan.targetlist = target_list;
	scan->scan.plan.qual = path->is_plain ? extract_actual_clauses(clauses, false) : NIL;
	return (Plan *) scan;
}

/* The arguments of the call, which are planned by now. */
static List *
arguments_of(PlannerInfo *root, const RelOptInfo *rel)
{
	const RangeTblEntry *entry = planner_rt_fetch(rel->relid, root);
	const RangeTblFunction *function = linitial_node(RangeTblFunction, entry->functions);

	return list_copy_tail(((const FuncExpr *) function->funcexpr)->args, 1);
}

static List *
params_of(PlannerInfo *root, const RelOptInfo *rel, const SlLeaf *leaf)
{
	return list_truncate(arguments_of(root, rel), list_length(leaf->ship.params));
}

static LeafPath *
make_path(PlannerInfo *root, const SlLeaf *leaf, RelOptInfo *rel, PathTarget *target, Query *query,
		  List *params, List *columns, double rows)
{
	LeafPath   *path = palloc0(sizeof(LeafPath));

	path->path.path.type = T_CustomPath;
	path->path.path.pathtype = T_CustomScan;
	path->path.path.parent = rel;
	path->path.path.pathtarget = target;
	path->path.path.rows = clamp_row_est(rows);
	path->path.flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->path.methods = &path_methods;
	path->leaf = leaf;
	path->query = query;
	path->params = params;
	path->expressions = list_copy_tail(arguments_of(root, rel), list_length(leaf->ship.params));
	path->columns = columns;
	return path;
}

/* Shards look at "work" expressions for each row; with groups, before they send any. */
static void
set_cost(LeafPath *path, int work, bool is_grouped)
{
	Cost		finding = (path->leaf->cost + cpu_operator_cost * work * path->leaf->rows) /
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
	SlLeafColumn *column = palloc0(sizeof(SlLeafColumn));

	column->local = (Expr *) makeVar((int) index, number, type, modifier, collation, 0);
	return lappend(columns, column);
}

/* All columns, and the row as one value if somebody wants that. */
static List *
plain_columns(const SlLeaf *leaf, const RelOptInfo *rel)
{
	List	   *columns = NIL;
	Bitmapset  *wanted = NULL;
	ListCell   *cell;

	foreach(cell, leaf->plain->targetList)
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

static void
add_rows(PlannerInfo *root, RelOptInfo *rel, Index index, RangeTblEntry *entry)
{
	SlLeaf	   *leaf;
	LeafPath   *path;
	Selectivity selectivity;

	if (next_pathlist_hook)
		next_pathlist_hook(root, rel, index, entry);
	leaf = sl_leaf_find(entry);
	if (leaf == NULL)
		return;
	rel->tuples = leaf->tuples;
	selectivity = clauselist_selectivity(root, rel->baserestrictinfo, 0, JOIN_INNER, NULL);
	rel->rows = clamp_row_est(leaf->rows * selectivity);
	path = make_path(root, leaf, rel, rel->reltarget, leaf->query, params_of(root, rel, leaf),
					 plain_columns(leaf, rel), rel->rows);
	path->is_plain = true;
	set_cost(path, 0, false);

	/*
	 * A subquery that was pulled up may want columns of its neighbours
	 * computed here.
	 */
	path->path.path.param_info = get_baserel_parampathinfo(root, rel, rel->lateral_relids);
	rel->pathlist = NIL;
	add_path(rel, (Path *) path);
}

/* What shards compute of them -------------------------------------------------------------- */

typedef struct Made
{
	const SlLeaf *leaf;
	SlShip		ship;
	PathTarget *target;
	List	   *columns;		/* of SlLeafColumn, as in the target */
	List	   *clauses;
	bool		has_failed;
} Made;

/* Of constants and parameters alone nothing can be grouped. */
static Expr *
ship_column(Made *made, Expr *expression)
{
	if (IsA(expression, Const) || sl_ship_is_local(&made->ship, (Node *) expression) ||
		contain_volatile_functions((Node *) expression))
		return NULL;
	return (Expr *) sl_ship(&made->ship, (Node *) expression);
}

static void
add_column(Made *made, Expr *local, Expr *remote, Index group, bool is_group)
{
	SlLeafColumn *column = palloc0(sizeof(SlLeafColumn));

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
begin(PlannerInfo *root, const SlLeaf *leaf, const RelOptInfo *rel)
{
	Made		made = {.leaf = leaf,.ship = leaf->ship};
	ListCell   *cell;

	made.ship.relids = bms_copy(rel->relids);
	made.ship.is_statement = false;
	made.ship.with_aggregates = true;
	made.ship.params = params_of(root, rel, leaf);
	made.target = create_empty_pathtarget();
	foreach(cell, rel->baserestrictinfo)
	{
		const RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);
		Node	   *clause;

		/* What is the same for all rows is checked before any is read. */
		if (restriction->pseudoconstant)
			continue;
		clause = sl_ship(&made.ship, (Node *) restriction->clause);
		made.clauses = lappend(made.clauses, clause);
		made.has_failed = made.has_failed || clause == NULL;
	}
	return made;
}

static Path *
finish(PlannerInfo *root, Made *made, RelOptInfo *rel, double rows, bool is_distinct)
{
	LeafPath   *path = make_path(root, made->leaf, rel, set_pathtarget_cost_width(root, made->target),
								 sl_leaf_group(made->leaf, rel->relid, made->columns, made->clauses,
											   is_distinct),
								 made->ship.params, made->columns, rows);

	set_cost(path, list_length(made->columns), true);
	return (Path *) path;
}

/* Each shard has each group, or its rows are all different. */
static double
rows_of_groups(const SlLeaf *leaf, const RelOptInfo *rel, double groups)
{
	return Min(rel->rows, groups * leaf->shard_count);
}

static double
count_groups(PlannerInfo *root, const RelOptInfo *rel, List *expressions)
{
	return expressions == NIL ? 1 : estimate_num_groups(root, expressions, rel->rows, NULL, NULL);
}

/* Aggregates in two steps ------------------------------------------------------------------ */

/* Is there a column that is neither in an aggregate nor in a group's expression? */
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

/* Adds the columns of groups.  Returns the aggregates that are wanted of these. */
static List *
begin_groups(Made *made, PlannerInfo *root, const RelOptInfo *output,
			 const GroupPathExtraData *extra)
{
	/* cppcheck-suppress unknownEvaluationOrder */
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
	shipped = aggregate->aggdistinct != NIL || !sl_ship_is_type(&made->ship, partial->aggtype) ? NULL :
		sl_ship(&made->ship, (Node *) sl_agg_origin(aggregate));
	add_column(made, (Expr *) partial, shipped == NULL ? NULL :
			   sl_agg_state(aggregate, (Aggref *) shipped, made->leaf->is_bare), 0, false);
}

static void
add_states(Made *made, List *aggregates)
{
	ListCell   *cell;

	foreach(cell, aggregates)
		add_state(made, lfirst_node(Aggref, cell));
}

/* Groups of what a path returns, by the cheapest way that there is. */
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
add_split(PlannerInfo *root, SlLeaf *leaf, RelOptInfo *input, RelOptInfo *output,
		  GroupPathExtraData *extra)
{
	Made		made = begin(root, leaf, input);
	List	   *expressions = get_sortgrouplist_exprs(root->parse->groupClause, root->processed_tlist);
	double		groups = count_groups(root, input, expressions);

	add_states(&made, begin_groups(&made, root, output, extra));
	if (made.has_failed || made.columns == NIL)
		return false;
	if (leaf->must_split)
		output->pathlist = NIL;
	add_grouping(root, output, finish(root, &made, input, rows_of_groups(leaf, input, groups), false),
				 AGGSPLIT_FINAL_DESERIAL, (List *) extra->havingQual, groups);
	leaf->has_split = true;
	return true;
}

/* Each combination of values once ------------------------------------------------------------ */

/* Does it make no difference how often the aggregate sees a value? */
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

/* What an aggregate looks at, as columns. */
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
add_groups_of_values(PlannerInfo *root, SlLeaf *leaf, RelOptInfo *input, RelOptInfo *output,
					 GroupPathExtraData *extra)
{
	Made		made = begin(root, leaf, input);
	List	   *expressions = get_sortgrouplist_exprs(root->parse->groupClause, root->processed_tlist);
	double		rows;

	add_values(&made, begin_groups(&made, root, output, extra));
	if (made.has_failed || made.columns == NIL)
		return;
	rows = rows_of_groups(leaf, input, count_groups(root, input, columns_of(&made)));
	add_grouping(root, output, finish(root, &made, input, rows, true), AGGSPLIT_SIMPLE,
				 (List *) extra->havingQual, count_groups(root, input, expressions));
}

static void
add_distinct(PlannerInfo *root, SlLeaf *leaf, RelOptInfo *input, RelOptInfo *output)
{
	Made		made = begin(root, leaf, input);
	List	   *clauses = root->parse->distinctClause;
	double		groups;
	Path	   *path;

	if (root->parse->hasDistinctOn || root->parse->hasTargetSRFs || !grouping_is_hashable(clauses))
		return;
	add_groups(&made, root, clauses);
	if (made.has_failed || made.columns == NIL)
		return;
	groups = count_groups(root, input, columns_of(&made));
	path = finish(root, &made, input, rows_of_groups(leaf, input, groups), true);
	add_path(output, (Path *) create_agg_path(root, output, path, root->upper_targets[UPPERREL_DISTINCT],
											  AGG_HASHED, AGGSPLIT_SIMPLE, clauses, NIL, NULL, groups));
}

/* The hook ------------------------------------------------------------------------------------- */

static void
add_made(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input, RelOptInfo *output,
		 void *extra)
{
	SlLeaf	   *leaf;

	if (next_upper_hook)
		next_upper_hook(root, stage, input, output, extra);
	if ((stage != UPPERREL_GROUP_AGG && stage != UPPERREL_DISTINCT) ||
		input->reloptkind != RELOPT_BASEREL)
		return;
	leaf = sl_leaf_find(planner_rt_fetch(input->relid, root));
	if (leaf == NULL)
		return;
	if (stage == UPPERREL_DISTINCT)
		add_distinct(root, leaf, input, output);
	else if (root->parse->groupingSets == NIL && !add_split(root, leaf, input, output, extra) &&
			 !leaf->must_split)
		add_groups_of_values(root, leaf, input, output, extra);
}

void
sl_leaf_path_init(void)
{
	next_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = add_rows;
	next_upper_hook = create_upper_paths_hook;
	create_upper_paths_hook = add_made;
}
