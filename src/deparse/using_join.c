/*
 * using_join.c
 *		Which joins with USING can be deparsed.
 *
 * USING with names that are aliases, or were renamed under a view, would be
 * deparsed with a list of all columns of the table.  So would a table with a
 * different column of such a name: one that has an alias in the statement, or
 * is newer than the view.  Such a list is in the order of the router's
 * columns, which may differ on a shard.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "deparse/shippable.h"

typedef struct Using
{
	List	   *rtable;
	const char *name;
} Using;

/* Does a table's column have another name than in USING? */
static bool
is_renamed(Node *node, const Using *using)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		const Var  *column = (const Var *) node;
		const RangeTblEntry *entry = rt_fetch(column->varno, using->rtable);

		return entry->rtekind == RTE_RELATION &&
			strcmp(get_attname(entry->relid, column->varattno, false), using->name) != 0;
	}
	return expression_tree_walker(node, is_renamed, (void *) using);
}

/* Returns the equalities of USING, in the order of their names. */
static List *
equalities_of(const JoinExpr *join)
{
	return join->usingClause == NIL ? NIL : make_ands_implicit((Expr *) join->quals);
}

static bool
has_column(Node *node, const Var *column)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((const Var *) node)->varno == column->varno &&
			((const Var *) node)->varattno == column->varattno;
	return expression_tree_walker(node, has_column, (void *) column);
}

/*
 * Does this join, or one below it, merge the column with others of that name?
 */
static bool
is_merged(const JoinExpr *join, const char *name, const Var *column)
{
	List	   *equalities;
	ListCell   *cell;

	if (!IsA(join, JoinExpr))
		return false;
	equalities = equalities_of(join);
	foreach(cell, join->usingClause)
	{
		if (strcmp(strVal(lfirst(cell)), name) == 0 &&
			has_column(list_nth(equalities, foreach_current_index(cell)), column))
			return true;
	}
	return is_merged((const JoinExpr *) join->larg, name, column) ||
		is_merged((const JoinExpr *) join->rarg, name, column);
}

/* Does a table in this part of the join have another column of that name? */
static bool
has_other_column(const Node *part, const JoinExpr *join, const Using *using)
{
	const RangeTblEntry *entry;
	Var			column = {0};

	if (IsA(part, JoinExpr))
		return has_other_column(((const JoinExpr *) part)->larg, join, using) ||
			has_other_column(((const JoinExpr *) part)->rarg, join, using);
	column.varno = castNode(RangeTblRef, (Node *) part)->rtindex;
	entry = rt_fetch(column.varno, using->rtable);
	if (entry->rtekind != RTE_RELATION)
		return false;
	column.varattno = get_attnum(entry->relid, using->name);
	return column.varattno != InvalidAttrNumber && !is_merged(join, using->name, &column);
}

/* Can the join be deparsed without a column list for its USING? */
bool
sl_using_is_plain(const JoinExpr *join, List *rtable)
{
	List	   *equalities = equalities_of(join);
	ListCell   *cell;

	if (list_length(equalities) != list_length(join->usingClause))
		return false;
	foreach(cell, join->usingClause)
	{
		Using		using = {.rtable = rtable,.name = strVal(lfirst(cell))};

		if (is_renamed(list_nth(equalities, foreach_current_index(cell)), &using) ||
			has_other_column((const Node *) join, join, &using))
			return false;
	}
	return true;
}
