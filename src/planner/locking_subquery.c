/*
 * locking_subquery.c
 *		IN with a subquery that locks a limited number of rows.
 *
 * "UPDATE ... WHERE id IN (SELECT id ... LIMIT 10 FOR UPDATE SKIP LOCKED)" is
 * how a queue is read.  As a join, it would read all rows of the table.  As an
 * array, the subquery is an InitPlan that runs first, once, and its result
 * prunes the shards.  Both forms are true, false and NULL for the same values.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

#include "planner/planner.h"

/* Does it lock a limited number of rows, and is it uncorrelated? */
static bool
is_limited_lock(Query *query)
{
	return query->rowMarks != NIL && query->limitCount != NULL &&
		query->limitOption == LIMIT_OPTION_COUNT && !contain_vars_of_level((Node *) query, 1);
}

/*
 * Returns the operator of "x = subquery's column", or NULL for anything else.
 */
static OpExpr *
find_comparison(const SubLink *link)
{
	OpExpr	   *comparison = (OpExpr *) link->testexpr;
	const Param *column;

	if (link->subLinkType != ANY_SUBLINK || comparison == NULL || !IsA(comparison, OpExpr) ||
		list_length(comparison->args) != 2)
		return NULL;
	column = lsecond(comparison->args);
	return IsA(column, Param) && column->paramkind == PARAM_SUBLINK ? comparison : NULL;
}

/* "x = ANY (ARRAY(subquery))" for "x = ANY (subquery)". */
static Node *
to_array(const SubLink *link, OpExpr *comparison)
{
	Node	   *left = linitial(comparison->args);
	Oid			type = get_array_type(exprType(lsecond(comparison->args)));
	SubLink    *array;
	ScalarArrayOpExpr *result;

	if (!OidIsValid(type))
		return NULL;
	array = copyObject((SubLink *) link);
	array->subLinkType = ARRAY_SUBLINK;
	array->testexpr = NULL;
	array->operName = NIL;
	result = makeNode(ScalarArrayOpExpr);
	result->opno = comparison->opno;
	result->opfuncid = comparison->opfuncid;
	result->useOr = true;
	result->inputcollid = comparison->inputcollid;
	result->args = lappend(list_make1(left), array);
	result->location = comparison->location;
	return (Node *) result;
}

/* Is there such a subquery in an expression? */
static bool
has_limited_lock(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubLink) && is_limited_lock((Query *) ((SubLink *) node)->subselect))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_limited_lock, context, 0);
	return expression_tree_walker(node, has_limited_lock, context);
}

static Node *
replace(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
		return (Node *) query_tree_mutator((Query *) node, replace, context, 0);
	node = expression_tree_mutator(node, replace, context);
	if (IsA(node, SubLink) && is_limited_lock((Query *) ((SubLink *) node)->subselect))
	{
		const SubLink *link = (const SubLink *) node;
		OpExpr	   *comparison = find_comparison(link);
		Node	   *array = comparison != NULL ? to_array(link, comparison) : NULL;

		return array != NULL ? array : node;
	}
	return node;
}

/* Returns the query, or a copy of it in which such subqueries are arrays. */
Query *
sl_locked_in_replace(Query *query)
{
	return has_limited_lock((Node *) query, NULL) ?
		query_tree_mutator(query, replace, NULL, 0) : query;
}
