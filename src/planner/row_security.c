/*
 * row_security.c
 *		Writes row-level security policies into the conditions of a statement.
 *
 * The rewriter attaches the conditions of policies to the range table entry, where
 * the planner finds them, but not the code that deparses statements.  This moves
 * them into WHERE, or into ON for the nullable side of an outer join, so that the
 * statement can be analyzed and shipped like any other: current_user,
 * current_setting() and user-defined functions are evaluated on the router, and a
 * policy that compares the key selects the shard.
 *
 * In WHERE nothing keeps the policies' conditions before the user's: a
 * function that reveals its argument in an error message could be called
 * for rows that the user must not see.  So they are moved only if no
 * condition of the statement calls a function that is not leakproof.  What is
 * evaluated after all conditions, such as the target list, may call any function.
 * The policies themselves may be leaky, as long as there is one condition per
 * table: it precedes nothing.  All other statements are left to PostgreSQL's
 * planner, which orders conditions by security level, and to foreign scans.
 *
 * The check of an UPDATE is removed if it is also a condition on the old row, and
 * the statement assigns none of its columns.  Statements with other checks are not
 * shippable: rows are checked on the router, by the node that writes them.
 */
#include "postgres.h"

#include "access/table.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "planner/planner.h"

/* Which statements ------------------------------------------------------------------- */

/* Does an entry of this query, of any level, have conditions of policies? */
static bool
has_policies(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->securityQuals != NIL;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_policies, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, has_policies, context);
}

/* Does the query have policies that are not in its conditions? */
bool
sl_row_security_is_pending(Query *query)
{
	return has_policies((Node *) query, NULL);
}

/* Leaky functions ---------------------------------------------------------------------- */

static bool
is_leaky_function(Oid function, void *context)
{
	return !get_func_leakproof(function);
}

static bool
has_column(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_column, context, 0);
	return expression_tree_walker(node, has_column, context);
}

static bool leaks(Node *node, void *context);

/* Looks for queries in what is evaluated only for rows that satisfy all conditions. */
static bool
leaks_in_queries(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return leaks(node, context);
	return expression_tree_walker(node, leaks_in_queries, context);
}

/* A virtual generated column stands for an expression that conditions evaluate. */
static bool
has_virtual_column(const RangeTblEntry *entry)
{
	Relation	relation;
	bool		result = false;

	if (entry->rtekind != RTE_RELATION)
		return false;
	relation = table_open(entry->relid, NoLock);
	for (int i = 0; i < RelationGetNumberOfAttributes(relation); i++)
		result = result || TupleDescAttr(RelationGetDescr(relation), i)->attgenerated == 'v';
	table_close(relation, NoLock);
	return result;
}

/* Subqueries are examined whole: conditions above may refer to their columns. */
static bool
leaks_in_entries(const Query *query)
{
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (leaks((Node *) entry->subquery, NULL) || leaks((Node *) entry->functions, NULL) ||
			leaks((Node *) entry->values_lists, NULL) || entry->tablefunc != NULL || entry->tablesample != NULL ||
			(sl_is_group_entry(entry) && leaks((Node *) sl_group_exprs(entry), NULL)))
			return true;
		if (has_virtual_column(entry) ||
			(list_length(entry->securityQuals) > 1 && leaks((Node *) entry->securityQuals, NULL)) ||
			leaks_in_queries((Node *) entry->securityQuals, NULL))
			return true;
	}
	foreach(cell, query->cteList)
	{
		if (leaks(lfirst_node(CommonTableExpr, cell)->ctequery, NULL))
			return true;
	}
	return false;
}

/* Looks at conditions, and at subqueries anywhere. */
static bool
leaks_in_conditions(Query *query)
{
	return leaks_in_entries(query) || leaks((Node *) query->jointree, NULL) || leaks(query->havingQual, NULL) ||
		query_tree_walker(query, leaks_in_queries, NULL, QTW_IGNORE_RT_SUBQUERIES | QTW_IGNORE_CTE_SUBQUERIES);
}

/* Could the shards call a leaky function for rows that a policy hides? */
static bool
leaks(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Query:
			return leaks_in_conditions((Query *) node) || leaks((Node *) ((Query *) node)->targetList, NULL) ||
				leaks((Node *) ((Query *) node)->returningList, NULL);
		case T_Aggref:
		case T_GroupingFunc:
		case T_WindowFunc:

			/* Conditions on their results stay above them. */
			return expression_tree_walker(node, leaks_in_queries, context);
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_RowCompareExpr:
			if (check_functions_in_node(node, is_leaky_function, NULL) && has_column(node, NULL))
				return true;
			break;
		case T_Var:
		case T_Const:
		case T_Param:
		case T_List:
		case T_TargetEntry:
		case T_RangeTblRef:
		case T_RangeTblFunction:
		case T_JoinExpr:
		case T_FromExpr:
		case T_SubLink:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_ArrayExpr:
		case T_RowExpr:
		case T_RelabelType:
		case T_CollateExpr:
			break;
		default:
			return has_column(node, NULL);
	}
	return expression_tree_walker(node, leaks, context);
}

/* Checks of UPDATE --------------------------------------------------------------------- */

static bool
is_assigned(const Query *query, AttrNumber column)
{
	ListCell   *cell;

	foreach(cell, query->targetList)
	{
		const TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (!entry->resjunk && entry->resno == column)
			return true;
	}
	return false;
}

/* Are the columns of the target that the condition refers to the same in the new row? */
static bool
keeps_columns(const Query *query, Node *condition)
{
	Oid			relid = rt_fetch(query->resultRelation, query->rtable)->relid;
	ListCell   *cell;

	foreach(cell, pull_vars_of_level(condition, 0))
	{
		const Var  *column = lfirst(cell);

		if (!IsA(column, Var) || column->varno != query->resultRelation || column->varattno <= 0 ||
			is_assigned(query, column->varattno) || get_attgenerated(relid, column->varattno) != '\0')
			return false;
	}
	return true;
}

/* Can a trigger, which fires on the shard, change the new row? */
static bool
has_row_trigger(Oid relid)
{
	Relation	relation = table_open(relid, NoLock);
	bool		result = relation->trigdesc != NULL && relation->trigdesc->trig_update_before_row;

	table_close(relation, NoLock);
	return result;
}

/* Does the new row satisfy the check because the old row does? */
static bool
is_implied(const Query *query, const WithCheckOption *check)
{
	const RangeTblEntry *target = rt_fetch(query->resultRelation, query->rtable);

	return check->kind == WCO_RLS_UPDATE_CHECK && list_member(target->securityQuals, check->qual) &&
		!contain_volatile_functions(check->qual) && keeps_columns(query, check->qual) &&
		!has_row_trigger(target->relid);
}

static void
remove_implied_checks(Query *query)
{
	ListCell   *cell;

	if (query->commandType != CMD_UPDATE)
		return;
	foreach(cell, query->withCheckOptions)
	{
		if (is_implied(query, lfirst_node(WithCheckOption, cell)))
			query->withCheckOptions = foreach_delete_current(query->withCheckOptions, cell);
	}
}

/* Conditions ----------------------------------------------------------------------------- */

/* Is it a SELECT of one value and nothing else? */
static bool
is_value_query(const Query *query)
{
	return query->commandType == CMD_SELECT && query->rtable == NIL && query->jointree->quals == NULL &&
		query->cteList == NIL && list_length(query->targetList) == 1 && !query->hasAggs && !query->hasTargetSRFs &&
		!query->hasWindowFuncs && !query->hasSubLinks && query->limitCount == NULL && query->limitOffset == NULL &&
		query->groupingSets == NIL && query->havingQual == NULL && query->setOperations == NULL;
}

/*
 * Policies are often written with (SELECT current_setting(...)), for which PostgreSQL
 * evaluates the function once.  The router does that anyway, and can
 * prune shards by the plain expression.
 */
static Node *
replace_value_queries(Node *node, void *context)
{
	SubLink    *link = (SubLink *) node;

	if (node == NULL)
		return NULL;
	if (IsA(node, SubLink) && link->subLinkType == EXPR_SUBLINK && is_value_query((Query *) link->subselect))
	{
		Node	   *value = (Node *) linitial_node(TargetEntry, ((Query *) link->subselect)->targetList)->expr;

		if (!has_column(value, NULL) && !contain_volatile_functions(value))
			return value;
	}
	return expression_tree_mutator(node, replace_value_queries, context);
}

static Node *
add_conditions(Node *quals, List *conditions)
{
	ListCell   *cell;

	foreach(cell, conditions)
		quals = make_and_qual(quals, replace_value_queries(lfirst(cell), NULL));
	return quals;
}

static bool move_conditions(Query *query, Node *tree, Node **quals);

/*
 * Moves the conditions of the nullable side of an outer join into ON.  A join with USING
 * has no ON, and is deparsed without what else is in its quals.
 */
static bool
move_into_join(Query *query, JoinExpr *join, Node *side)
{
	Node	   *quals = NULL;

	if (!move_conditions(query, side, &quals) || (quals != NULL && join->usingClause != NIL))
		return false;
	if (quals != NULL)
		join->quals = make_and_qual(join->quals, quals);
	return true;
}

/*
 * Moves the conditions of the tables in a part of FROM into "quals".  Returns false if
 * there is no place for them: FULL JOIN has none for conditions on one side.
 */
static bool
move_conditions(Query *query, Node *tree, Node **quals)
{
	ListCell   *cell;

	if (IsA(tree, RangeTblRef))
	{
		RangeTblEntry *entry = rt_fetch(((RangeTblRef *) tree)->rtindex, query->rtable);

		*quals = add_conditions(*quals, entry->securityQuals);
		entry->securityQuals = NIL;
		return true;
	}
	if (IsA(tree, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) tree;

		if (join->jointype == JOIN_FULL)
			return !has_policies((Node *) query->rtable, NULL);
		return (join->jointype == JOIN_RIGHT ? move_into_join(query, join, join->larg) :
				move_conditions(query, join->larg, quals)) &&
			(join->jointype == JOIN_LEFT ? move_into_join(query, join, join->rarg) :
			 move_conditions(query, join->rarg, quals));
	}
	foreach(cell, ((FromExpr *) tree)->fromlist)
	{
		if (!move_conditions(query, lfirst(cell), quals))
			return false;
	}
	return true;
}

/* Entries that are not in FROM are not read. */
static void
clear_unused(Query *query)
{
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		if (foreach_current_index(cell) + 1 != query->resultRelation)
			lfirst_node(RangeTblEntry, cell)->securityQuals = NIL;
	}
}

static bool
apply_policies(Node *node, bool *has_failed)
{
	if (node == NULL || *has_failed)
		return *has_failed;
	if (!IsA(node, Query))
		return expression_tree_walker(node, apply_policies, (void *) has_failed);
	remove_implied_checks((Query *) node);
	if (!move_conditions((Query *) node, (Node *) ((Query *) node)->jointree, &((Query *) node)->jointree->quals))
		*has_failed = true;
	clear_unused((Query *) node);
	return query_tree_walker((Query *) node, apply_policies, (void *) has_failed, 0);
}

/*
 * Returns a copy of the statement with the policies in its conditions; the statement
 * itself if there are none, or if they have to stay where they are.
 */
Query *
sl_row_security_apply(Query *query)
{
	bool		has_failed = false;
	Query	   *result;

	if (!sl_row_security_is_pending(query) || query->commandType == CMD_MERGE ||
		leaks_in_conditions(query))
		return query;
	result = copyObject(query);
	(void) apply_policies((Node *) result, &has_failed);
	return has_failed || has_policies((Node *) result, NULL) ? query : result;
}
