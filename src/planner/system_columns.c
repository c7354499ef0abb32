/*
 * system_columns.c
 *		Refuses uses of system columns that only have a meaning on a shard.
 *
 * xmin, xmax, cmin and cmax of a row are those of the shard.  Statements that
 * are pushed down as a whole return them; others would return values without
 * meaning, and an application that takes xmin for the version of a row would
 * never see it change.
 *
 * The ctid is the shard's, too, so that rows of several shards have the same
 * one.  "DELETE FROM t WHERE ctid IN (SELECT ctid FROM t LIMIT 10)" would
 * delete rows of other shards as well.  A statement for several shards may
 * return ctids and divide rows by ranges of them, but where it identifies rows
 * by ctid, it must compare their shard keys, too.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_operator_d.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "metadata/table.h"
#include "planner/planner.h"

/* The ctid is fetched, and tableoid is known. */
static bool
is_of_transactions(AttrNumber column)
{
	return column == MinTransactionIdAttributeNumber || column == MaxTransactionIdAttributeNumber ||
		column == MinCommandIdAttributeNumber || column == MaxCommandIdAttributeNumber;
}

static char *
name_of(AttrNumber column)
{
	return column == MinTransactionIdAttributeNumber ? "xmin" :
		column == MaxTransactionIdAttributeNumber ? "xmax" :
		column == MinCommandIdAttributeNumber ? "cmin" : "cmax";
}

static void
check_column(const Var *column, List *queries)
{
	const Query *query = list_nth(queries, (int) column->varlevelsup);
	const RangeTblEntry *entry = rt_fetch(column->varno, query->rtable);

	if (entry->rtekind == RTE_RELATION && sl_table_is_remote(entry->relid, entry->relkind))
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("system column \"%s\" of table \"%s\" cannot be used in this statement",
					   name_of(column->varattno), get_rel_name(entry->relid)),
				errdetail("Shards know it, and the statement is finished on the router."),
				errhint("Ask for it in a statement that shards can answer alone, such as one for one key."));
}

/*
 * "context" is the list of outer queries, innermost first.  Each query gets a
 * list of its own: lcons() modifies its argument, and expressions after a
 * subquery would be resolved in the wrong one.
 */
static bool
check_node(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, check_node, lcons(node, list_copy(context)), 0);
	if (IsA(node, Var) && is_of_transactions(((Var *) node)->varattno))
		check_column((Var *) node, context);
	return expression_tree_walker(node, check_node, context);
}

void
sl_system_columns_check(Query *query)
{
	(void) query_tree_walker(query, check_node, list_make1(query), 0);
}

/* ctid ---------------------------------------------------------------------------- */

typedef struct CtidContext
{
	List	   *queries;		/* outer queries, innermost first */
	List	   *equalities;		/* operands of "=" in conditions of the
								 * innermost one, or of the test of a SubLink */
} CtidContext;

static const RangeTblEntry *
find_entry(const CtidContext *context, const Var *column)
{
	const Query *query = list_nth(context->queries, (int) column->varlevelsup);

	return rt_fetch(column->varno, query->rtable);
}

/* Returns the sharded table of which the expression is the ctid, or NULL. */
static SlTable *
find_ctid_table(const CtidContext *context, Node *expression)
{
	Var		   *column = (Var *) strip_implicit_coercions(expression);
	const RangeTblEntry *entry;
	SlTable    *table;

	if (column == NULL || !IsA(column, Var) || column->varattno != SelfItemPointerAttributeNumber)
		return NULL;
	entry = find_entry(context, column);
	table = entry->rtekind == RTE_RELATION && sl_table_is_remote(entry->relid, entry->relkind) ?
		sl_table_get(entry->relid) : NULL;
	return table != NULL && table->kind == SL_TABLE_SHARDED ? table : NULL;
}

/* Do the expressions include the shard key of the relation that has this ctid? */
static bool
include_key(List *expressions, Node *ctid, const SlTable *table)
{
	const Var  *location = (Var *) strip_implicit_coercions(ctid);

	for (int i = 0; i < table->key_count; i++)
	{
		bool		is_found = false;
		ListCell   *cell;

		foreach(cell, expressions)
		{
			const Var  *column = (Var *) strip_implicit_coercions(lfirst(cell));

			is_found = is_found || (IsA(column, Var) && column->varno == location->varno &&
									column->varlevelsup == location->varlevelsup && column->varattno == table->key[i]);
		}
		if (!is_found)
			return false;
	}
	return table->key_count > 0;
}

/* Refuses the expression if it is a ctid, unless the shard key is in the list. */
static void
check_ctid(const CtidContext *context, Node *expression, List *beside)
{
	SlTable    *table = find_ctid_table(context, expression);

	if (table != NULL && !include_key(beside, expression, table))
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("rows of table \"%s\" cannot be identified by \"ctid\" in this statement",
					   get_rel_name(table->relid)),
				errdetail("The statement is for several shards, whose rows can have the same ctid."),
				errhint("Use the primary key, or compare the shard key, too, as in (key, ctid) IN (SELECT key, ctid ...)."));
}

/* Is it a condition on a range of ctids that does not depend on rows? */
static bool
is_ctid_range(const OpExpr *comparison)
{
	Node	   *left = linitial(comparison->args);
	Node	   *right = llast(comparison->args);

	return comparison->opno != TIDEqualOperator && comparison->opno != get_negator(TIDEqualOperator) &&
		(is_pseudo_constant_clause(left) || is_pseudo_constant_clause(right)) && !contain_subplans(left) &&
		!contain_subplans(right);
}

static bool
is_equality(const OpExpr *comparison)
{
	char	   *name = list_length(comparison->args) == 2 ? get_opname(comparison->opno) : NULL;

	return name != NULL && strcmp(name, "=") == 0;
}

/* Appends the operands of equalities that must hold. */
static bool
add_equalities(Node *node, List **equalities)
{
	if (node == NULL || IsA(node, Query))
		return false;
	if (IsA(node, BoolExpr) && ((BoolExpr *) node)->boolop != AND_EXPR)
		return false;
	if (IsA(node, OpExpr))
	{
		if (is_equality((OpExpr *) node))
			*equalities = list_concat(*equalities, ((OpExpr *) node)->args);
		return false;
	}
	return expression_tree_walker(node, add_equalities, (void *) equalities);
}

/* Since 18, grouped expressions are columns of a relation of their own. */
static List *
resolve_groups(const CtidContext *context, List *expressions)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, expressions)
	{
		Node	   *resolved = !IsA(lfirst(cell), Var) ? NULL :
		sl_group_expression(find_entry(context, lfirst(cell)), lfirst_node(Var, cell)->varattno);

		result = lappend(result, resolved != NULL ? resolved : lfirst(cell));
	}
	return result;
}

/* Checks GROUP BY, PARTITION BY or DISTINCT. */
static void
check_group(const CtidContext *context, List *clauses, List *targets)
{
	List	   *expressions = resolve_groups(context, get_sortgrouplist_exprs(clauses, targets));
	ListCell   *cell;

	foreach(cell, expressions)
		check_ctid(context, lfirst(cell), expressions);
}

static bool check_ctids(Node *node, void *context);

static bool
check_query_ctids(Query *query, const CtidContext *outer)
{
	CtidContext context = {.queries = lcons(query, list_copy(outer->queries))};
	ListCell   *cell;

	(void) add_equalities((Node *) query->jointree, &context.equalities);
	check_group(&context, query->groupClause, query->targetList);
	check_group(&context, query->distinctClause, query->targetList);
	foreach(cell, query->windowClause)
		check_group(&context, lfirst_node(WindowClause, cell)->partitionClause, query->targetList);
	return query_tree_walker(query, check_ctids, (void *) &context, 0);
}

static bool
check_ctids(Node *node, void *context)
{
	CtidContext *at = context;
	ListCell   *cell;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return check_query_ctids((Query *) node, at);
	if (IsA(node, Aggref))
		check_group(at, ((Aggref *) node)->aggdistinct, ((Aggref *) node)->args);
	else if (IsA(node, SubLink))
	{
		CtidContext test = {.queries = at->queries};

		(void) add_equalities(((SubLink *) node)->testexpr, &test.equalities);
		return check_ctids(((SubLink *) node)->testexpr, &test) || check_ctids(((SubLink *) node)->subselect, at);
	}
	else if ((IsA(node, OpExpr) && !(list_length(((OpExpr *) node)->args) == 2 && is_ctid_range((OpExpr *) node))) ||
			 IsA(node, DistinctExpr) || IsA(node, NullIfExpr))
	{
		foreach(cell, ((OpExpr *) node)->args)
			check_ctid(at, lfirst(cell), at->equalities);
	}
	else if (IsA(node, ScalarArrayOpExpr))
		check_ctid(at, linitial(((ScalarArrayOpExpr *) node)->args), at->equalities);
	return expression_tree_walker(node, check_ctids, context);
}

/*
 * Refuses a statement for several shards that identifies rows by ctid alone.
 */
void
sl_system_columns_check_ctid(Query *query)
{
	CtidContext none = {0};

	(void) check_query_ctids(query, &none);
}
