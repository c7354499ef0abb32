/*
 * where_level.c
 *		One level of a query: its relations, and which of its columns are equal.
 *
 * The columns of a join are resolved to those of the relations joined.  An
 * equality counts for a relation if its other rows could be left out without a
 * change of the result: a condition of WHERE and of an inner join for all
 * relations below it, that of an outer join for those that may be filled with
 * NULLs.
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
#include "deparse/prune.h"
#include "plan/where.h"

/* Nothing nested more deeply is looked at: some things are looked at twice. */
#define MAX_DEPTH 12

/* Relations -------------------------------------------------------------------- */

/* The relations of FROM, joins aside. */
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

/* The table, if all its rows are where we know. */
SlTable *
sl_level_table(const RangeTblEntry *entry)
{
	if (entry->rtekind != RTE_RELATION ||
		(entry->relkind != RELKIND_FOREIGN_TABLE && entry->relkind != RELKIND_RELATION) ||
		(entry->inh && has_subclass(entry->relid)))
		return NULL;
	return sl_table_get(entry->relid);
}

/* What a name that WITH has made means, and on which level. */
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

/* What a column of a join, or of the groups, stands for; NULL: itself. */
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

/* The column of a relation that a column of a join is; other things as they are. */
Node *
sl_level_resolve(const SlLevel *level, Node *node)
{
	node = sl_prune_strip(node);
	while (node != NULL && IsA(node, Var))
	{
		Var		   *column = (Var *) node;
		const SlLevel *at = level;
		Node	   *behind;

		for (Index i = 0; i < column->varlevelsup && at != NULL; i++)
			at = at->outer;
		if (at == NULL)
			return node;
		behind = stands_for(at->query, column);
		if (behind == NULL)
			return node;
		behind = sl_prune_strip(copyObject(behind));
		if (column->varlevelsup > 0)
			IncrementVarSublevelsUp(behind, (int) column->varlevelsup, 0);
		node = behind;
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

/* Has it one value, which is known before a shard is asked? */
bool
sl_level_is_constant(Node *node)
{
	return node != NULL && !has_column(node, NULL) && !contain_volatile_functions(node) &&
		!expression_returns_set(node);
}

/* The same expressions, seen from queries further inside. */
List *
sl_level_raise(List *known, int levels)
{
	List	   *result = copyObject(known);

	IncrementVarSublevelsUp((Node *) result, levels, 0);
	return result;
}

/* The expression of an output column, from 1; NULL if there is none. */
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

/* Does the operator mean equal, for a type that could be a key? */
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

/* Adds the equalities that conditions demand, all of which must hold. */
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

/* Can WHERE turn out false before a row is looked at? */
bool
sl_level_may_stop(const Query *query)
{
	SlShip		ship = {.is_statement = true};

	return query->jointree != NULL &&
		sl_ship_may_stop(&ship, make_ands_implicit((Expr *) query->jointree->quals));
}

/* All that FROM and WHERE demand. */
List *
sl_level_equalities(const SlLevel *level)
{
	return add_of_tree(level, NIL, (Node *) level->query->jointree);
}

/* Subqueries ------------------------------------------------------------------------- */

/*
 * Do rows that the query above does not want make no difference in this one?
 * They do to a limit, to aggregates of all rows, and to windows.  What is grouped
 * must have the column in each group, which the caller looks at.
 */
bool
sl_level_can_push(const Query *query)
{
	return query->commandType == CMD_SELECT && query->limitCount == NULL &&
		query->limitOffset == NULL && !query->hasWindowFuncs && query->groupingSets == NIL &&
		!query->hasTargetSRFs && !query->hasDistinctOn &&
		(!query->hasAggs || query->groupClause != NIL);
}
