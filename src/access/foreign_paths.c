/*
 * foreign_paths.c
 *		Base relations and their paths.
 *
 * Each condition is checked by the shards, if it is shippable, or by the
 * router.  The number of rows is estimated from the router's own statistics,
 * which ANALYZE collects from the shards.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "optimizer/restrictinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/typcache.h"

#include "access/access.h"
#include "base/base.h"
#include "compat.h"

/* The assumed size of a table that was never analyzed, in pages. */
#define UNKNOWN_PAGES 100

static void
refuse_table(Oid table)
{
	ereport(ERROR,
			errcode(ERRCODE_WRONG_OBJECT_TYPE),
			errmsg("foreign table \"%s\" belongs to no map and no shard", get_rel_name(table)),
			errhint("Tables on servers of this wrapper are made by functions of schema shardlet."));
}

/* Prepares a context for these relations, for the table's shards. */
void
sl_fdw_ship_init(SlShippableContext *ship, PlannerInfo *root, Relids relids, const SlTable *table)
{
	sl_shippable_init(ship, list_make1((SlTable *) table));
	ship->root = root;
	ship->relids = bms_copy(relids);
}

/* Returns the clauses without their RestrictInfos. */
List *
sl_fdw_clauses(List *restrictions)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, restrictions)
	{
		RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);

		if (!restriction->pseudoconstant)
			result = lappend(result, restriction->clause);
	}
	return result;
}

/* Do these conditions select a single key, and so one shard? */
static bool
selects_single_shard(const SlRel *info, List *clauses)
{
	ListCell   *cell;

	foreach(cell, info->members)
	{
		const SlMember *member = lfirst(cell);
		List	   *expressions = NIL;
		List	   *program = sl_pruning_make(&info->ship, member->index, member->table, clauses,
											  &expressions);

		if (!member->is_nullable && sl_pruning_is_single_shard(program, member->table))
			return true;
	}
	return false;
}

/*
 * Can the shard check it?  Not a leaky condition below a security barrier, as
 * a division by zero would be: all conditions of the remote query are on one
 * level, and are checked in any order.
 */
bool
sl_fdw_is_remote(const SlShippableContext *ship, RelOptInfo *rel, RestrictInfo *restriction)
{
	return restriction_is_securely_promotable(restriction, rel) &&
		sl_shippable_check_expr(ship, (Node *) restriction->clause);
}

/*
 * A pseudoconstant condition is checked once, by a Result on top of the scan
 * of the base relation: such a relation cannot be joined on the shards.
 */
static void
sort_clauses(SlRel *info, RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->baserestrictinfo)
	{
		RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);

		if (!restriction->pseudoconstant && sl_fdw_is_remote(&info->ship, rel, restriction))
			info->remote_clauses = lappend(info->remote_clauses, restriction);
		else
			info->local_clauses = lappend(info->local_clauses, restriction);
	}
}

static void
estimate_size(PlannerInfo *root, RelOptInfo *rel)
{
	if (rel->tuples <= 0 && rel->pages == 0)
	{
		int			width = get_relation_data_width(planner_rt_fetch(rel->relid, root)->relid, NULL);

		rel->pages = UNKNOWN_PAGES;
		rel->tuples = (double) (UNKNOWN_PAGES * BLCKSZ) /
			(width + MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData));
	}
	set_baserel_size_estimates(root, rel);
}

/* Gives a whole-row Var the row type of the table. */
static void
set_row_type(Node *node, const RelOptInfo *rel, Oid type)
{
	Var		   *row = (Var *) node;

	if (IsA(row, Var) && row->varno == (int) rel->relid && row->varattno == InvalidAttrNumber)
		row->vartype = type;
}

/*
 * The planner adds the whole row of a foreign table that is modified, as a
 * record.  Whole-row Vars are matched by table only, so a condition or a value
 * that refers to the row would get that record and fail: both get the same
 * type.
 */
static void
unify_rows(PlannerInfo *root, const RelOptInfo *rel, Oid table)
{
	Oid			type = get_rel_type_id(table);
	ListCell   *cell;

	if (root->parse->resultRelation != (int) rel->relid || !OidIsValid(type))
		return;
	foreach(cell, root->processed_tlist)
		set_row_type((Node *) lfirst_node(TargetEntry, cell)->expr, rel, type);
	foreach(cell, rel->reltarget->exprs)
		set_row_type(lfirst(cell), rel, type);
}

void
sl_fdw_rel_size(PlannerInfo *root, RelOptInfo *rel, Oid table)
{
	SlRel	   *info = palloc0(sizeof(SlRel));
	SlMember   *member = palloc0(sizeof(SlMember));

	member->index = rel->relid;
	member->table = sl_table_get(table);
	if (member->table == NULL)
		refuse_table(table);
	info->members = list_make1(member);
	sl_fdw_ship_init(&info->ship, root, rel->relids, member->table);
	sort_clauses(info, rel);
	info->is_whole = info->local_clauses == NIL;
	info->is_single = selects_single_shard(info, sl_fdw_clauses(rel->baserestrictinfo));
	rel->fdw_private = info;
	unify_rows(root, rel, table);
	estimate_size(root, rel);
}

/* Sorted paths ------------------------------------------------------------------ */

/* Is it in the target of the relation? */
static bool
is_returned(const SlRel *info, const RelOptInfo *rel, Expr *expression)
{
	ListCell   *cell;

	if (info->input == NULL)
		return list_member(rel->reltarget->exprs, expression) &&
			(!IS_SIMPLE_REL(rel) || IsA(expression, Var));
	foreach(cell, info->target)
	{
		if (equal(lfirst_node(TargetEntry, cell)->expr, expression))
			return true;
	}
	return false;
}

/*
 * Returns an expression by which the shards can sort for this path key, or
 * NULL.
 */
Expr *
sl_fdw_order_expr(const SlRel *info, PathKey *key, const RelOptInfo *rel)
{
	EquivalenceClass *class = key->pk_eclass;
	ListCell   *cell;

	if (class->ec_has_volatile)
		return NULL;
	foreach(cell, class->ec_members)
	{
		EquivalenceMember *member = lfirst(cell);

		if (!member->em_is_child && !bms_is_empty(member->em_relids) &&
			bms_is_subset(member->em_relids, info->ship.relids) &&
			is_returned(info, rel, member->em_expr) &&
			sl_shippable_check_expr(&info->ship, (Node *) member->em_expr) &&
			!sl_shippable_is_local(&info->ship, (Node *) member->em_expr))
			return member->em_expr;
	}
	return NULL;
}

/* Is it the type's default order, that of ORDER BY without an operator? */
static bool
is_default_order(const PathKey *key, Node *expression)
{
	TypeCacheEntry *entry = lookup_type_cache(exprType(expression), TYPECACHE_BTREE_OPFAMILY);

	return key->pk_opfamily == entry->btree_opf;
}

/* Can the shards sort by these path keys, and the router merge? */
bool
sl_fdw_is_order(const SlRel *info, List *keys, const RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, keys)
	{
		PathKey    *key = lfirst_node(PathKey, cell);
		Expr	   *expression = sl_fdw_order_expr(info, key, rel);

		if (expression == NULL || !is_default_order(key, (Node *) expression) ||
			!sl_shippable_is_type(&info->ship, exprType((Node *) expression)) ||
			!sl_shippable_is_order(&info->ship, key->pk_eclass->ec_collation) ||
			key->pk_eclass->ec_collation != exprCollation((Node *) expression))
			return false;
	}
	return keys != NIL;
}

static void
add_path_with(PlannerInfo *root, RelOptInfo *rel, List *keys, ParamPathInfo *params)
{
	const SlRel *info = rel->fdw_private;
	double		rows = params != NULL ? params->ppi_rows : rel->rows;
	Cost		startup;
	Cost		total;

	sl_fdw_cost(rel, info, rows, keys != NIL, &startup, &total);
	add_path(rel, (Path *) sl_create_foreignscan_path(root, rel, NULL, rows, startup, total, keys,
													  params != NULL ? params->ppi_req_outer :
													  rel->lateral_relids, NULL, NIL));
}

/* Parameterized paths -------------------------------------------------------------- */

typedef struct Choice
{
	Expr	   *current;
	List	   *seen;
} Choice;

static bool
is_wanted_member(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *class,
				 EquivalenceMember *member, void *arg)
{
	Choice	   *choice = arg;

	if (choice->current != NULL)
		return equal(member->em_expr, choice->current);
	if (list_member(choice->seen, member->em_expr))
		return false;
	choice->current = member->em_expr;
	return true;
}

static List *
add_params_of(PlannerInfo *root, RelOptInfo *rel, RestrictInfo *restriction, List *params)
{
	const SlRel *info = rel->fdw_private;
	Relids		outer;

	if (!join_clause_is_movable_to(restriction, rel) ||
		!sl_fdw_is_remote(&info->ship, rel, restriction))
		return params;
	outer = bms_del_member(bms_union(restriction->clause_relids, rel->lateral_relids), rel->relid);
	if (bms_is_empty(outer))
		return params;
	return list_append_unique_ptr(params, get_baserel_parampathinfo(root, rel, outer));
}

/* One list for each set of relations that could provide parameters. */
static List *
find_params(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *params = NIL;
	ListCell   *cell;
	Choice		choice = {0};

	foreach(cell, rel->joininfo)
		params = add_params_of(root, rel, lfirst_node(RestrictInfo, cell), params);
	if (!rel->has_eclass_joins)
		return params;
	for (;;)
	{
		List	   *clauses;

		choice.current = NULL;
		clauses = generate_implied_equalities_for_column(root, rel, is_wanted_member, &choice,
														 rel->lateral_referencers);
		if (choice.current == NULL)
			return params;
		foreach(cell, clauses)
			params = add_params_of(root, rel, lfirst_node(RestrictInfo, cell), params);
		choice.seen = lappend(choice.seen, choice.current);
	}
}

void
sl_fdw_paths(PlannerInfo *root, RelOptInfo *rel, Oid table)
{
	const SlRel *info = rel->fdw_private;
	ListCell   *cell;

	add_path_with(root, rel, NIL, NULL);
	if (sl_fdw_is_order(info, root->query_pathkeys, rel))
		add_path_with(root, rel, root->query_pathkeys, NULL);
	foreach(cell, find_params(root, rel))
		add_path_with(root, rel, NIL, lfirst(cell));
}
