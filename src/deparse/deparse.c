/*
 * deparse.c
 *		Deparses statements for the shards.
 *
 * The frame of a statement is assembled here; every expression in it is
 * deparsed by PostgreSQL, as those of a plan are for EXPLAIN, with all names
 * qualified and values in a format that does not depend on settings.
 * Relations have the aliases r1, r2 ..., by their index in the range table.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "nodes/plannodes.h"
#include "parser/parser.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "base/base.h"
#include "deparse/deparse.h"

/* Until the matching end, names are qualified and values have one format. */
int
sl_deparse_begin_plain(void)
{
	int			nest_level = NewGUCNestLevel();

	sl_guc_set_plain();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("quote_all_identifiers", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	return nest_level;
}

void
sl_deparse_end_plain(int nest_level)
{
	AtEOXact_GUC(true, nest_level);
}

/* Returns the position after the closing quote of a string. */
static const char *
end_of_string(const char *start)
{
	const char *at = start + 1;

	while (*at != '\'' || at[1] == '\'')
		at += *at == '\'' ? 2 : 1;
	return at + 1;
}

static void
write_string(StringInfo sql, const char *start, const char *end)
{
	if (memchr(start, '\\', end - start) == NULL)
	{
		appendBinaryStringInfo(sql, start, (int) (end - start));
		return;
	}
	appendStringInfoChar(sql, ESCAPE_STRING_SYNTAX);
	for (const char *at = start; at < end; at++)
	{
		if (*at == '\\' && standard_conforming_strings)
			appendStringInfoChar(sql, '\\');
		appendStringInfoChar(sql, *at);
	}
}

/*
 * PostgreSQL deparses strings for the session's standard_conforming_strings.
 * A plan may be executed under another setting, so those with a backslash
 * become E'...', which always means the same.  A quote within quotes is always
 * doubled.
 */
char *
sl_deparse_strings(char *written)
{
	StringInfoData sql;
	const char *at = written;

	if (strchr(written, '\\') == NULL)
		return written;
	initStringInfo(&sql);
	while (*at != '\0')
	{
		const char *end = at + 1;

		if (*at == '\'')
		{
			end = end_of_string(at);
			write_string(&sql, at, end);
		}
		else
		{
			if (*at == '"')
				end = strchr(end, '"') + 1;
			appendBinaryStringInfo(&sql, at, (int) (end - at));
		}
		at = end;
	}
	return sql.data;
}

static char *
name_of(Index index)
{
	return psprintf("r%u", index);
}

/* Returns the range table with the original column names of tables. */
static List *
plain_tables(List *rtable)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, rtable)
	{
		RangeTblEntry *entry = makeNode(RangeTblEntry);

		*entry = *lfirst_node(RangeTblEntry, cell);
		if (entry->rtekind == RTE_RELATION)
			entry->alias = NULL;
		result = lappend(result, entry);
	}
	return result;
}

/*
 * Prepares for deparsing; between sl_deparse_begin_plain() and
 * sl_deparse_end_plain().
 */
void
sl_deparse_init(SlDeparse *deparse, SlShippableContext *ship)
{
	PlannedStmt *frame = makeNode(PlannedStmt);
	List	   *names = NIL;

	for (int i = 1; i <= list_length(ship->root->parse->rtable); i++)
		names = lappend(names, name_of(i));
	frame->rtable = plain_tables(ship->root->parse->rtable);
	deparse->ship = ship;
	deparse->context = deparse_context_for_plan_tree(frame, names);
	initStringInfo(&deparse->sql);
}

/* Deparses an expression, which must be shippable. */
void
sl_deparse_expr(SlDeparse *deparse, Node *expression)
{
	Node	   *shipped = sl_shippable_make_expr(deparse->ship, expression);

	if (shipped == NULL)
		elog(ERROR, "could not write an expression for the shards");
	appendStringInfoString(&deparse->sql,
						   sl_deparse_strings(deparse_expression(shipped, deparse->context, true, false)));
}

/* Deparses ANDed conditions; clauses without their RestrictInfo. */
void
sl_deparse_conditions(SlDeparse *deparse, List *clauses)
{
	ListCell   *cell;

	foreach(cell, clauses)
	{
		if (foreach_current_index(cell) > 0)
			appendStringInfoString(&deparse->sql, " AND ");
		appendStringInfoChar(&deparse->sql, '(');
		sl_deparse_expr(deparse, lfirst(cell));
		appendStringInfoChar(&deparse->sql, ')');
	}
}

/* Deparses a table with its alias. */
void
sl_deparse_relation(SlDeparse *deparse, Index index)
{
	RangeTblEntry *entry = planner_rt_fetch(index, deparse->ship->root);

	appendStringInfo(&deparse->sql, "%s %s",
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(entry->relid)),
												get_rel_name(entry->relid)),
					 name_of(index));
}

void
sl_deparse_column(SlDeparse *deparse, Index index, AttrNumber column)
{
	RangeTblEntry *entry = planner_rt_fetch(index, deparse->ship->root);

	if (column == SelfItemPointerAttributeNumber)
		appendStringInfo(&deparse->sql, "%s.ctid", name_of(index));
	else
		appendStringInfo(&deparse->sql, "%s.%s", name_of(index),
						 quote_identifier(get_attname(entry->relid, column, false)));
}
