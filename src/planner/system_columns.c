/*
 * system_columns.c
 *		Refuses system columns that only a shard has.
 *
 * xmin, xmax, cmin and cmax of a row are those of the shard.  Statements that
 * are pushed down as a whole return them; others would return values without
 * meaning, and an application that takes xmin for the version of a row would
 * never see it change.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

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
