/*
 * deparse_query.c
 *		Deparses whole statements for shards.
 *
 * pg_get_querydef() does the work; this file works around the cases in which
 * its result is not right on a shard.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/ruleutils.h"

#include "deparse/shippable_query.h"

/*
 * Makes it one line: white space outside of quotes becomes a blank.  A quote
 * within quotes is always doubled.
 */
static void
make_one_line(char *sql)
{
	char	   *to = sql;
	char		quote = '\0';
	bool		is_blank = true;

	for (const char *from = sql; *from != '\0'; from++)
	{
		bool		is_space = quote == '\0' && (*from == ' ' || *from == '\n' || *from == '\t');

		if (quote == *from)
			quote = '\0';
		else if (quote == '\0' && (*from == '\'' || *from == '"'))
			quote = *from;
		if (is_space && is_blank)
			continue;
		*to++ = is_space ? ' ' : *from;
		is_blank = is_space;
	}
	*to = '\0';
}

/*
 * Does an output column have the name of a different column of the table that
 * is in one of the clauses?
 */
static bool
hides_column(Query *query, List *clauses)
{
	RangeTblEntry *table = linitial(query->rtable);
	ListCell   *clause_cell;
	ListCell   *cell;

	foreach(clause_cell, clauses)
	{
		Node	   *column = get_sortgroupclause_expr(lfirst(clause_cell), query->targetList);
		const char *name;

		if (!IsA(column, Var) || ((Var *) column)->varattno == InvalidAttrNumber)
			continue;
		name = get_rte_attribute_name(table, ((Var *) column)->varattno);
		foreach(cell, query->targetList)
		{
			const TargetEntry *entry = lfirst(cell);

			if (!entry->resjunk && entry->resname != NULL && strcmp(entry->resname, name) == 0 &&
				!equal(entry->expr, column))
				return true;
		}
	}
	return false;
}

/*
 * ORDER BY and DISTINCT ON prefer output columns for an unqualified name, and
 * PostgreSQL deparses unqualified names for a single table.  A second relation
 * in the range table, which need not be in FROM, makes it qualify them.
 */
static Query *
qualify_columns(Query *query)
{
	RangeTblEntry *nothing;

	if (query->commandType != CMD_SELECT || list_length(query->rtable) != 1 ||
		!(hides_column(query, query->sortClause) ||
		  (query->hasDistinctOn && hides_column(query, query->distinctClause))))
		return query;
	nothing = makeNode(RangeTblEntry);
	nothing->rtekind = RTE_RESULT;
	nothing->eref = makeAlias("nothing", NIL);
	query->rtable = lappend(query->rtable, nothing);
	return query;
}

/* Deparses a statement in shippable form. */
char *
sl_deparse_query(Query *query)
{
	int			nest_level = sl_deparse_begin_plain();
	char	   *result = pg_get_querydef(qualify_columns(copyObject(query)), false);

	sl_deparse_end_plain(nest_level);
	make_one_line(result);
	return sl_deparse_strings(result);
}
