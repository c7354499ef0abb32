/*
 * query_level.c
 *		One query level: its relations, and the equalities between its
 *		columns.
 *
 * Join alias columns are resolved to those of the base relations.  An equality
 * holds for a relation if rows of it that violate the equality cannot
 * contribute to the result: a condition in WHERE or of an inner join for all
 * relations below it, one of an outer join for those on its nullable side.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "deparse/shard_pruning.h"
#include "deparse/shippable_query.h"
#include "planner/query_placement.h"

/* Limits the recursion: some subqueries are analyzed twice. */
#define MAX_DEPTH 12

/* Relations -------------------------------------------------------------------- */

/* Returns the base relations of FROM. */
Bitmapset *
sl_level_joined(const Node *tree)
{
	Bitmapset  *result = NULL;
	ListCell   *cell;

	if (tree == NULL)
		return NULL;
	if (IsA(tree, RangeTblRef))
		return bms_make_singleton(((const RangeTblRef *) tree)->rtindex);
	if (IsA(tree, JoinExpr))
		return bms_join(sl_level_joined(((const JoinExpr *) tree)->larg),
						sl_level_joined(((const JoinExpr *) tree)->rarg));
	foreach(cell, ((const FromExpr *) tree)->fromlist)
		result = bms_join(result, sl_level_joined(lfirst(cell)));
	return result;
}

bool
sl_level_begin(SlLevel *level, const SlLevel *outer, Query *query)
{
	level->outer = outer;
	level->query = query;
	level->joined = sl_level_joined((Node *) query->jointree);
	level->depth = outer == NULL ? 0 : outer->depth + 1;
	return level->depth < MAX_DEPTH;
}

/* Returns the table, if it is distributed and read as a whole. */
SlTable *
sl_level_table(const RangeTblEntry *entry)
{
	if (entry->rtekind != RTE_RELATION)
		return NULL;
	if (sl_table_is_remote(entry->relid, entry->relkind))
		return sl_table_get(entry->relid);
	if (entry->relkind != RELKIND_RELATION || (entry->inh && has_subclass(entry->relid)))
		return NULL;
	return sl_table_get(entry->relid);
}

/* Returns the CTE of a reference, and its query level. */
CommonTableExpr *
sl_level_with(const SlLevel *level, const RangeTblEntry *entry, const SlLevel **at)
{
	ListCell   *cell;

	for (Index i = 0; i < entry->ctelevelsup && level != NULL; i++)
		level = level->outer;
	*at = level;
	if (level == NULL)
		return NULL;
	foreach(cell, level->query->cteList)
	{
		CommonTableExpr *with = lfirst_node(CommonTableExpr, cell);

		if (strcmp(with->ctename, entry->ctename) == 0)
			return with;
	}
	return NULL;
}

/* Columns ------------------------------------------------------------------------ */

/* Returns what a column of a join or of RTE_GROUP stands for; NULL: itself. */
static Node *
stands_for(const Query *query, const Var *column)
{
	const RangeTblEntry *entry = rt_fetch(column->varno, query->rtable);

	if (column->varattno <= 0)
		return NULL;
	if (entry->rtekind == RTE_JOIN)
		return list_nth(entry->joinaliasvars, column->varattno - 1);
	return sl_group_expression(entry, column->varattno);
}

/*
 * Returns the base relation's column that a join alias column is; others
 * unchanged.
 */
Node *
sl_level_resolve(const SlLevel *level, Node *node)
{
	node = sl_pruning_strip(node);
	while (node != NULL && IsA(node, Var))
	{
		Var		   *column = (Var *) node;
		const SlLevel *at = level;
		Node	   *source;

		for (Index i = 0; i < column->varlevelsup && at != NULL; i++)
			at = at->outer;
		if (at == NULL)
			return node;
		source = stands_for(at->query, column);
		if (source == NULL)
			return node;
		source = sl_pruning_strip(copyObject(source));
		if (column->varlevelsup > 0)
			IncrementVarSublevelsUp(source, (int) column->varlevelsup, 0);
		node = source;
	}
	return node;
}

bool
sl_level_is_same(const Node *a, const Node *b)
{
	if (a == NULL || b == NULL)
		return false;
	if (IsA(a, Var) && IsA(b, Var))
		return ((const Var *) a)->varno == ((const Var *) b)->varno &&
			((const Var *) a)->varattno == ((const Var *) b)->varattno &&
			((const Var *) a)->varlevelsup == ((const Var *) b)->varlevelsup;
	return equal(a, b);
}

bool
sl_level_is_known(const SlLevel *level, List *known, Node *node)
{
	Node	   *resolved = sl_level_resolve(level, node);
	ListCell   *cell;

	foreach(cell, known)
	{
		if (sl_level_is_same(lfirst(cell), resolved))
			return true;
	}
	return false;
}

static bool
has_column(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Aggref:
		case T_GroupingFunc:
		case T_WindowFunc:
		case T_SubLink:
		case T_SetToDefault:
		case T_CurrentOfExpr:
		case T_Query:
			return true;
		case T_Param:
			return ((Param *) node)->paramkind != PARAM_EXTERN;
		default:
			return expression_tree_walker(node, has_column, context);
	}
}

/* Is it a single value that is known before execution on the shards? */
bool
sl_level_is_constant(Node *node)
{
	return node != NULL && !has_column(node, NULL) && !contain_volatile_functions(node) &&
		!expression_returns_set(node);
}

/* Returns the same expressions as seen from a deeper query level. */
List *
sl_level_raise(List *known, int levels)
{
	List	   *result = copyObject(known);

	IncrementVarSublevelsUp((Node *) result, levels, 0);
	return result;
}

/*
 * Returns the expression of an output column, from 1; NULL if there is none.
 */
Node *
sl_level_output(const SlLevel *level, int number)
{
	const Query *query = level->query;
	List	   *list = query->commandType == CMD_SELECT ? query->targetList : query->returningList;
	ListCell   *cell;

	foreach(cell, list)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (entry->resno == number && !entry->resjunk)
			return (Node *) entry->expr;
	}
	return NULL;
}

/* Equalities ---------------------------------------------------------------------- */

/* Is it an equality operator of a type that could be a key? */
static bool
is_equality(const OpExpr *clause)
{
	TypeCacheEntry *entry = lookup_type_cache(getBaseType(exprType(linitial(clause->args))),
											  TYPECACHE_BTREE_OPFAMILY | TYPECACHE_HASH_OPFAMILY);

	if (OidIsValid(clause->inputcollid) && !get_collation_isdeterministic(clause->inputcollid))
		return false;
	return (OidIsValid(entry->btree_opf) &&
			get_op_opfamily_strategy(clause->opno, entry->btree_opf) == BTEqualStrategyNumber) ||
		(OidIsValid(entry->hash_opf) &&
		 get_op_opfamily_strategy(clause->opno, entry->hash_opf) == HTEqualStrategyNumber);
}

/* Adds the equalities of ANDed conditions. */
List *
sl_level_add_equalities(const SlLevel *level, List *equalities, Node *quals, Bitmapset *filtered)
{
	ListCell   *cell;

	if (quals == NULL)
		return equalities;
	if (IsA(quals, List))
	{
		foreach(cell, (List *) quals)
			equalities = sl_level_add_equalities(level, equalities, lfirst(cell), filtered);
	}
	else if (IsA(quals, BoolExpr) && ((BoolExpr *) quals)->boolop == AND_EXPR)
		equalities = sl_level_add_equalities(level, equalities, (Node *) ((BoolExpr *) quals)->args,
											 filtered);
	else if (IsA(quals, OpExpr) && list_length(((OpExpr *) quals)->args) == 2 &&
			 is_equality((OpExpr *) quals))
	{
		SlEquality *equality = palloc(sizeof(SlEquality));

		equality->left = sl_level_resolve(level, linitial(((OpExpr *) quals)->args));
		equality->right = sl_level_resolve(level, lsecond(((OpExpr *) quals)->args));
		equality->filtered = filtered;
		equalities = lappend(equalities, equality);
	}
	return equalities;
}

static List *
add_of_tree(const SlLevel *level, List *equalities, Node *tree)
{
	ListCell   *cell;

	if (IsA(tree, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) tree;
		Bitmapset  *filtered = NULL;

		if (join->jointype == JOIN_INNER || join->jointype == JOIN_RIGHT)
			filtered = bms_join(filtered, sl_level_joined(join->larg));
		if (join->jointype == JOIN_INNER || join->jointype == JOIN_LEFT)
			filtered = bms_join(filtered, sl_level_joined(join->rarg));
		equalities = sl_level_add_equalities(level, equalities, join->quals, filtered);
		equalities = add_of_tree(level, equalities, join->larg);
		return add_of_tree(level, equalities, join->rarg);
	}
	if (!IsA(tree, FromExpr))
		return equalities;
	equalities = sl_level_add_equalities(level, equalities, ((FromExpr *) tree)->quals,
										 sl_level_joined(tree));
	foreach(cell, ((FromExpr *) tree)->fromlist)
		equalities = add_of_tree(level, equalities, lfirst(cell));
	return equalities;
}

/* Can WHERE be false before any row is read? */
bool
sl_level_may_stop(const Query *query)
{
	SlShippableContext ship = {.is_statement = true};

	return query->jointree != NULL &&
		sl_shippable_may_stop(&ship, make_ands_implicit((Expr *) query->jointree->quals));
}

/* Adds all equalities of FROM and WHERE. */
List *
sl_level_equalities(const SlLevel *level)
{
	return add_of_tree(level, NIL, (Node *) level->query->jointree);
}

/* Subqueries ------------------------------------------------------------------------- */

/*
 * Can rows be removed from the input of this query by a condition on its
 * output without a change of the remaining output?  Not with LIMIT, aggregates
 * of all rows, or windows.  With GROUP BY the column must be a grouping
 * column, which the caller checks.
 */
bool
sl_level_can_push(const Query *query)
{
	return query->commandType == CMD_SELECT && query->limitCount == NULL &&
		(query->limitOffset == NULL || sl_shippable_is_offset_zero(query->limitOffset)) &&
		!query->hasWindowFuncs && query->groupingSets == NIL && !query->hasTargetSRFs && !query->hasDistinctOn &&
		(!query->hasAggs || query->groupClause != NIL);
}
