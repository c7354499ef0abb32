/*
 * foreign_join.c
 *		Colocated joins, which are pushed down.
 *
 * Tables of one map have rows with equal keys on the same shard.  So a join
 * with an equality of the keys, among other conditions, has all its pairs
 * within a shard, and an outer join can determine on the shard that there is
 * no match.
 *
 * Joins are not pushed down if rows are locked or modified: EvalPlanQual would
 * need the rows of the single tables.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"

#include "access/access.h"
#include "compat.h"

static bool
is_column(Node *node, Index index, AttrNumber column)
{
	node = sl_pruning_strip(node);
	return node != NULL && IsA(node, Var) && ((Var *) node)->varno == (int) index &&
		((Var *) node)->varattno == column;
}

/* Does a clause demand that these columns are equal? */
static bool
has_equality(List *clauses, Index a, AttrNumber a_column, Index b, AttrNumber b_column)
{
	ListCell   *cell;

	foreach(cell, clauses)
	{
		OpExpr	   *clause = lfirst(cell);
		Node	   *left;
		Node	   *right;

		if (!IsA(clause, OpExpr) || list_length(clause->args) != 2)
			continue;
		left = linitial(clause->args);
		right = lsecond(clause->args);
		if (!op_mergejoinable(clause->opno, exprType(left)) ||
			(OidIsValid(clause->inputcollid) && !get_collation_isdeterministic(clause->inputcollid)))
			continue;
		if ((is_column(left, a, a_column) && is_column(right, b, b_column)) ||
			(is_column(right, a, a_column) && is_column(left, b, b_column)))
			return true;
	}
	return false;
}

static Var *
make_column(const SlMember *member, int key)
{
	AttrNumber	number = member->table->key[key];
	Oid			type;
	int32		typmod;
	Oid			collation;

	get_atttypetypmodcoll(member->table->relid, number, &type, &typmod, &collation);
	return makeVar((int) member->index, number, type, typmod, collation, 0);
}

/* An equivalence class may imply it, such as a constant for both. */
static bool
is_known_equal(PlannerInfo *root, const SlMember *a, const SlMember *b, int key)
{
	return sl_exprs_known_equal(root, (Node *) make_column(a, key), (Node *) make_column(b, key));
}

/* Are joined rows of the two always on the same shard? */
static bool
are_joined_on_shard(PlannerInfo *root, const SlMember *a, const SlMember *b, List *clauses,
					bool is_inner)
{
	if (a->table->kind != b->table->kind)
		return false;
	if (a->table->kind == SL_TABLE_PLACED)
		return a->table->shard_id == b->table->shard_id;
	if (strcmp(a->table->map, b->table->map) != 0 || a->table->key_count == 0 ||
		a->table->key_count != b->table->key_count)
		return false;
	for (int i = 0; i < a->table->key_count; i++)
	{
		if (!has_equality(clauses, a->index, a->table->key[i], b->index, b->table->key[i]) &&
			!(is_inner && is_known_equal(root, a, b, i)))
			return false;
	}
	return true;
}

static bool
are_colocated(PlannerInfo *root, const SlRel *outer, const SlRel *inner, List *clauses,
			  bool is_inner)
{
	ListCell   *outer_cell;
	ListCell   *inner_cell;

	foreach(outer_cell, outer->members)
	{
		foreach(inner_cell, inner->members)
		{
			if (are_joined_on_shard(root, lfirst(outer_cell), lfirst(inner_cell), clauses, is_inner))
				return true;
		}
	}
	return false;
}

/* Can the conditions be deparsed at the place of the relation in FROM? */
static bool
can_have_conditions(const RelOptInfo *rel)
{
	const SlRel *info = rel->fdw_private;

	return info->outer == NULL ||
		(info->join_type == JOIN_INNER && can_have_conditions(info->outer) &&
		 can_have_conditions(info->inner));
}

static bool
has_no_columns(JoinType type)
{
	return type == JOIN_SEMI || type == JOIN_ANTI;
}

/*
 * Can the join return the columns that the router needs?  The inner side of a
 * semijoin has none, and of an antijoin, which may have been an outer join,
 * only NULLs.
 */
static bool
can_return(const RelOptInfo *join, const RelOptInfo *inner, JoinType type)
{
	ListCell   *cell;

	foreach(cell, join->reltarget->exprs)
	{
		Var		   *column = lfirst(cell);

		if (!IsA(column, Var) || column->varattno <= 0 ||
			(has_no_columns(type) && bms_is_member(column->varno, inner->relids)))
			return false;
	}
	return true;
}

/* Does the join return what the router needs to check these conditions? */
static bool
can_return_conditions(List *restrictions)
{
	List	   *columns = pull_var_clause((Node *) sl_fdw_clauses(restrictions), PVC_RECURSE_PLACEHOLDERS);
	ListCell   *cell;

	foreach(cell, columns)
	{
		if (lfirst_node(Var, cell)->varattno <= 0)
			return false;
	}
	return true;
}

/* Does the condition follow from the antijoin? */
static bool
is_always_null(const SlRel *info, Node *clause)
{
	const NullTest *test = (const NullTest *) clause;

	return info->join_type == JOIN_ANTI && IsA(clause, NullTest) &&
		test->nulltesttype == IS_NULL && IsA(test->arg, Var) &&
		bms_is_member(((Var *) test->arg)->varno, info->inner->relids);
}

static List *
copy_members(List *members, bool is_nullable)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, members)
	{
		SlMember   *member = palloc(sizeof(SlMember));

		*member = *(const SlMember *) lfirst(cell);
		member->is_nullable = member->is_nullable || is_nullable;
		result = lappend(result, member);
	}
	return result;
}

/*
 * Can shards check it?  Not a leaky condition above policies or a security barrier:
 * the remote query has all conditions on one level.
 */
static bool
is_remote(const SlRel *info, const RestrictInfo *restriction)
{
	return (restriction->security_level == 0 || restriction->leakproof) &&
		sl_shippable_check_expr(&info->ship, (Node *) restriction->clause);
}

/* The clauses of ON are part of the join; the others are checked after it. */
static bool
check_clauses(SlRel *info, RelOptInfo *join, List *restrictions)
{
	ListCell   *cell;

	foreach(cell, restrictions)
	{
		RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);
		bool		is_possible = is_remote(info, restriction);
		bool		is_on = info->join_type == JOIN_INNER ||
		!RINFO_IS_PUSHED_DOWN(restriction, join->relids);

		if (restriction->pseudoconstant)
			return false;
		if (!is_on && is_always_null(info, (Node *) restriction->clause))
			continue;
		if (!is_on && has_no_columns(info->join_type) &&
			bms_overlap(restriction->clause_relids, info->inner->relids))
			return false;
		if (is_on && is_possible)
			info->join_clauses = lappend(info->join_clauses, restriction->clause);
		else if (is_on && info->join_type != JOIN_INNER)
			return false;
		else if (is_possible)
			info->remote_clauses = lappend(info->remote_clauses, restriction);
		else
			info->local_clauses = lappend(info->local_clauses, restriction);
	}
	return true;
}

/*
 * Initializes the context with what the shards of both sides have in common.
 */
static void
combine_contexts(SlRel *info, const RelOptInfo *join, const SlRel *outer, const SlRel *inner)
{
	info->ship = outer->ship;
	info->ship.relids = bms_copy(join->relids);
	info->ship.other_collation = outer->ship.other_collation || inner->ship.other_collation;
	info->ship.types = list_concat_unique_oid(list_copy(outer->ship.types), inner->ship.types);
	if (!equal(outer->ship.extensions, inner->ship.extensions))
		info->ship.extensions = NIL;
}

static bool
is_supported(JoinType type)
{
	return type == JOIN_INNER || type == JOIN_LEFT || type == JOIN_FULL || has_no_columns(type);
}

/* Can the sides be joined on the shards? */
static bool
can_join(PlannerInfo *root, RelOptInfo *join, RelOptInfo *outer, RelOptInfo *inner, JoinType type)
{
	const SlRel *outer_info = outer->fdw_private;
	const SlRel *inner_info = inner->fdw_private;

	if (!is_supported(type) || root->parse->commandType != CMD_SELECT || root->rowMarks != NIL ||
		!bms_is_empty(join->lateral_relids) || outer_info == NULL || inner_info == NULL ||
		!outer_info->is_whole || !inner_info->is_whole || !can_return(join, inner, type))
		return false;
	if (type == JOIN_LEFT && !can_have_conditions(inner))
		return false;
	return type != JOIN_FULL || (can_have_conditions(outer) && can_have_conditions(inner));
}

static SlRel *
make_join(PlannerInfo *root, RelOptInfo *join, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
		  List *restrictions)
{
	const SlRel *outer_info = outer->fdw_private;
	const SlRel *inner_info = inner->fdw_private;
	SlRel	   *info = palloc0(sizeof(SlRel));

	info->outer = outer;
	info->inner = inner;
	info->join_type = type;
	combine_contexts(info, join, outer_info, inner_info);
	if (!check_clauses(info, join, restrictions) || !can_return_conditions(info->local_clauses) ||
		!are_colocated(root, outer_info, inner_info, info->join_clauses, type == JOIN_INNER))
		return NULL;
	info->members = list_concat(copy_members(outer_info->members, type == JOIN_FULL),
								copy_members(inner_info->members, type != JOIN_INNER));
	info->is_whole = info->local_clauses == NIL;
	info->is_single = type == JOIN_FULL ? outer_info->is_single && inner_info->is_single :
		outer_info->is_single || (type == JOIN_INNER && inner_info->is_single);
	return info;
}

static void
add_join_path(PlannerInfo *root, RelOptInfo *join, List *keys)
{
	Cost		startup;
	Cost		total;

	sl_fdw_cost(join, join->fdw_private, join->rows, keys != NIL, &startup, &total);
	add_path(join, (Path *) sl_create_foreign_join_path(root, join, NULL, join->rows, startup, total,
														keys, join->lateral_relids, NULL, NIL));
}

void
sl_fdw_join_paths(PlannerInfo *root, RelOptInfo *join, RelOptInfo *outer, RelOptInfo *inner,
				  JoinType type, JoinPathExtraData *extra)
{
	SlRel	   *info;

	if (join->fdw_private != NULL || !can_join(root, join, outer, inner, type))
		return;
	info = make_join(root, join, outer, inner, type, extra->restrictlist);
	if (info == NULL)
		return;
	join->fdw_private = info;
	add_join_path(root, join, NIL);
	if (sl_fdw_is_order(info, root->query_pathkeys, join))
		add_join_path(root, join, root->query_pathkeys);
}
