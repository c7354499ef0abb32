/*
 * foreign_upper.c
 *		Upper relations: GROUP BY, DISTINCT, ORDER BY and LIMIT that are
 *		pushed down.
 *
 * If the grouping columns include the shard key, each group is on one shard,
 * and so are all groups of a single-shard relation: these are computed by the
 * shards completely.  Rows that shards have sorted are merged, and with a
 * LIMIT each shard returns at most LIMIT + OFFSET rows.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"
#include "utils/selfuncs.h"

#include "access/access.h"
#include "compat.h"

/* The result -------------------------------------------------------------------------- */

/* Returns the name of a column, for EXPLAIN; other expressions have none. */
static char *
name_of(const SlRel *info, const Node *expression)
{
	const Var  *column = (const Var *) expression;

	return IsA(column, Var) && column->varattno > 0 ?
		get_rte_attribute_name(planner_rt_fetch(column->varno, info->ship.root), column->varattno) : NULL;
}

static void
add_to_target(SlRel *info, Node *expression)
{
	ListCell   *cell;

	foreach(cell, info->target)
	{
		if (equal(lfirst_node(TargetEntry, cell)->expr, expression))
			return;
	}
	info->target = lappend(info->target,
						   makeTargetEntry((Expr *) copyObject(expression),
										   (AttrNumber) (list_length(info->target) + 1),
										   name_of(info, expression), false));
}

/* Returns the parts of an expression that the router evaluates itself. */
static bool
add_parts(SlRel *info, Node *expression)
{
	List	   *parts = pull_var_clause(expression, PVC_INCLUDE_AGGREGATES |
										PVC_RECURSE_WINDOWFUNCS | PVC_INCLUDE_PLACEHOLDERS);
	ListCell   *cell;

	foreach(cell, parts)
	{
		if (!sl_shippable_check_expr(&info->ship, lfirst(cell)))
			return false;
		add_to_target(info, lfirst(cell));
	}
	return true;
}

/*
 * The whole row of a locked table is a junk column, for EvalPlanQual after a
 * concurrent update of a local table.  Without a local table, it is not used.
 */
static bool
is_unused_row(const SlRel *info, Node *expression)
{
	ListCell   *cell;
	bool		result = false;

	if (info->ship.root->rowMarks == NIL || !IsA(expression, Var) ||
		((Var *) expression)->varattno != 0)
		return false;
	foreach(cell, info->ship.root->processed_tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (!equal(entry->expr, expression))
			continue;
		if (!entry->resjunk)
			return false;
		result = true;
	}
	return result;
}

/* Adds all inputs of these expressions to the remote target list. */
static bool
add_expressions(SlRel *info, List *expressions)
{
	ListCell   *cell;

	foreach(cell, expressions)
	{
		Node	   *expression = lfirst(cell);

		if (is_unused_row(info, expression))
		{
			add_to_target(info, expression);
			continue;
		}
		if (expression_returns_set(expression))
			return false;
		if (!sl_shippable_is_local(&info->ship, expression) &&
			sl_shippable_check_expr(&info->ship, expression))
			add_to_target(info, expression);
		else if (!add_parts(info, expression))
			return false;
	}
	return true;
}

/* Initializes an upper relation from its input relation. */
static SlRel *
make_upper(RelOptInfo *input)
{
	const SlRel *from = input->fdw_private;
	SlRel	   *info = palloc0(sizeof(SlRel));

	*info = *from;
	info->input = from->input != NULL ? from->input : input;
	info->outer = info->inner = NULL;
	info->remote_clauses = info->local_clauses = info->join_clauses = NIL;
	info->target = NIL;
	return info;
}

static void
add_upper_path(PlannerInfo *root, RelOptInfo *output, SlRel *info, PathTarget *target, double rows,
			   List *keys)
{
	Cost		startup;
	Cost		total;

	output->fdw_private = info;
	sl_fdw_cost(output, info, rows, keys != NIL, &startup, &total);
	add_path(output, (Path *) sl_create_foreign_upper_path(root, output, target, rows, startup, total,
														   keys, NULL, NIL));
}

/* Do these expressions include the whole key of a table? */
static bool
contain_key(const SlRel *info, List *expressions)
{
	ListCell   *member_cell;

	foreach(member_cell, info->members)
	{
		const SlMember *member = lfirst(member_cell);
		int			found = 0;
		ListCell   *cell;

		if (member->is_nullable || member->table->key_count == 0)
			continue;
		for (int i = 0; i < member->table->key_count; i++)
		{
			foreach(cell, expressions)
			{
				Var		   *column = lfirst(cell);

				if (IsA(column, Var) && column->varno == (int) member->index &&
					column->varattno == member->table->key[i])
				{
					found++;
					break;
				}
			}
		}
		if (found == member->table->key_count)
			return true;
	}
	return false;
}

/* Groups -------------------------------------------------------------------------------- */

/* A collation that differs on a shard would make other groups. */
static bool
can_group_by(const SlRel *info, List *expressions)
{
	ListCell   *cell;

	foreach(cell, expressions)
	{
		if (IsA(lfirst(cell), Const) || sl_shippable_is_local(&info->ship, lfirst(cell)) ||
			!sl_shippable_check_expr(&info->ship, lfirst(cell)))
			return false;
	}
	return true;
}

static bool
add_having(SlRel *info, List *clauses)
{
	ListCell   *cell;

	foreach(cell, clauses)
	{
		if (sl_shippable_check_expr(&info->ship, lfirst(cell)))
			info->having = lappend(info->having, lfirst(cell));
		else
			return false;
	}
	return true;
}

static void
add_grouped(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output, GroupPathExtraData *extra)
{
	Query	   *query = root->parse;
	SlRel	   *info = make_upper(input);
	List	   *groups = get_sortgrouplist_exprs(query->groupClause, root->processed_tlist);
	double		rows;

	if (query->groupingSets != NIL || (!query->hasAggs && groups == NIL))
		return;
	info->ship.with_aggregates = true;
	info->has_groups = true;
	info->group = groups;
	if ((!info->is_single && !contain_key(info, groups)) || !can_group_by(info, groups) ||
		!add_expressions(info, output->reltarget->exprs) ||
		!add_having(info, (List *) extra->havingQual))
		return;
	rows = groups == NIL ? 1 : estimate_num_groups(root, groups, input->rows, NULL, NULL);
	add_upper_path(root, output, info, output->reltarget, rows, NIL);
}

static void
add_distinct(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output)
{
	Query	   *query = root->parse;
	SlRel	   *info = make_upper(input);
	PathTarget *target = root->upper_targets[UPPERREL_DISTINCT];
	List	   *columns = get_sortgrouplist_exprs(query->distinctClause, root->processed_tlist);
	double		rows;

	if (query->hasDistinctOn || info->has_groups || query->hasWindowFuncs || query->hasTargetSRFs ||
		(!info->is_single && !contain_key(info, columns)) || !can_group_by(info, columns) ||
		!add_expressions(info, columns) || list_length(info->target) != list_length(columns))
		return;
	info->is_distinct = true;
	rows = estimate_num_groups(root, columns, input->rows, NULL, NULL);
	add_upper_path(root, output, info, target, rows, NIL);
}

/* Order and limit -------------------------------------------------------------------------- */

static void
add_ordered(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output)
{
	SlRel	   *info = make_upper(input);
	PathTarget *target = root->upper_targets[UPPERREL_ORDERED];

	if (info->is_distinct || !add_expressions(info, target->exprs) ||
		!sl_fdw_is_order(info, root->sort_pathkeys, output))
		return;
	add_upper_path(root, output, info, target,
				   input->cheapest_total_path != NULL ? input->cheapest_total_path->rows : input->rows,
				   root->sort_pathkeys);
}

static bool
is_evaluable(Node *expression)
{
	return expression == NULL || !contain_subplans(expression);
}

static double
limited_rows(const RelOptInfo *input, const FinalPathExtraData *extra)
{
	double		rows = input->cheapest_total_path != NULL ? input->cheapest_total_path->rows :
	input->rows;

	return extra->limit_tuples > 0 ? Min(rows, extra->limit_tuples) : rows;
}

static void
add_limited(PlannerInfo *root, RelOptInfo *input, RelOptInfo *output, FinalPathExtraData *extra)
{
	Query	   *query = root->parse;
	SlRel	   *info = make_upper(input);
	PathTarget *target = root->upper_targets[UPPERREL_FINAL];
	List	   *keys = query->sortClause != NIL ? root->sort_pathkeys : NIL;

	if (!extra->limit_needed || query->limitOption == LIMIT_OPTION_WITH_TIES ||
		query->hasTargetSRFs || !is_evaluable(query->limitCount) || !is_evaluable(query->limitOffset) ||
		info->is_distinct || !add_expressions(info, target->exprs) ||
		(keys != NIL && !sl_fdw_is_order(info, keys, output)))
		return;
	info->limit_count = query->limitCount;
	info->limit_offset = query->limitOffset;

	/*
	 * A scan below the limit would lock all rows: the costs must not matter.
	 */
	if (root->rowMarks != NIL)
		output->pathlist = NIL;
	add_upper_path(root, output, info, target, limited_rows(input, extra), keys);
}

/* Locking is possible if a single table is read, without anything else. */
static bool
can_lock(PlannerInfo *root, const SlRel *from)
{
	if (root->rowMarks == NIL)
		return true;
	return list_length(root->rowMarks) == 1 && list_length(from->members) == 1 &&
		bms_membership(root->all_baserels) == BMS_SINGLETON;
}

void
sl_fdw_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
				   RelOptInfo *output, void *extra)
{
	const SlRel *from = input->fdw_private;
	Query	   *query = root->parse;

	if (from == NULL || !from->is_whole || output->fdw_private != NULL ||
		query->commandType != CMD_SELECT || !can_lock(root, from) || from->limit_count != NULL)
		return;
	switch (stage)
	{
		case UPPERREL_GROUP_AGG:
			add_grouped(root, input, output, extra);
			break;
		case UPPERREL_DISTINCT:
			add_distinct(root, input, output);
			break;
		case UPPERREL_ORDERED:
			add_ordered(root, input, output);
			break;
		case UPPERREL_FINAL:
			add_limited(root, input, output, extra);
			break;
		default:
			break;
	}
}
