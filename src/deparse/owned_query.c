/*
 * owned_query.c
 *		Writes a whole statement, and finds where conditions on its tables can be
 *		put in.
 *
 * The text is PostgreSQL's own, and only PostgreSQL knows what it calls a table
 * at some place of it.  So each table of the statement gets a condition that marks
 * it, (ROW('<mark>', key) IS NULL), the statement is written, and the marks are
 * cut out again: what is left is the text without them, the places, and
 * the names of the keys there.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "deparse/owned.h"
#include "deparse/travel.h"

typedef struct Marking
{
	uint64		seed;			/* so that no constant can look like a mark */
	List	   *levels;			/* for each mark the tables that it is of */
} Marking;

/* Marking ------------------------------------------------------------------------------ */

/* A table of a statement, at some level of it. */
typedef struct Member
{
	Index		varno;
	const SlTable *table;
} Member;

static List *
key_columns(const Member *member)
{
	const SlTable *table = member->table;
	List	   *result = NIL;

	for (int i = 0; i < table->key_count; i++)
	{
		Oid			type;
		int32		typmod;
		Oid			collation;

		get_atttypetypmodcoll(table->relid, table->key[i], &type, &typmod, &collation);
		result = lappend(result, makeVar((int) member->varno, table->key[i], type, typmod, collation, 0));
	}
	return result;
}

static Expr *
make_mark(const char *mark, List *members)
{
	RowExpr    *row = makeNode(RowExpr);
	NullTest   *test = makeNode(NullTest);
	ListCell   *cell;

	row->args = list_make1(makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1, CStringGetTextDatum(mark), false, false));
	foreach(cell, members)
		row->args = list_concat(row->args, key_columns(lfirst(cell)));
	row->row_typeid = RECORDOID;
	row->row_format = COERCE_EXPLICIT_CALL;
	row->location = -1;
	test->arg = (Expr *) row;
	test->nulltesttype = IS_NULL;
	test->argisrow = true;
	test->location = -1;
	return (Expr *) test;
}

/* The sharded tables in FROM. */
static List *
find_members(Query *query, Node *from)
{
	List	   *result = NIL;
	ListCell   *cell;

	if (IsA(from, FromExpr))
	{
		foreach(cell, ((FromExpr *) from)->fromlist)
			result = list_concat(result, find_members(query, lfirst(cell)));
	}
	else if (IsA(from, JoinExpr))
		result = list_concat(find_members(query, ((JoinExpr *) from)->larg),
							 find_members(query, ((JoinExpr *) from)->rarg));
	else if (IsA(from, RangeTblRef))
	{
		Index		varno = (Index) ((RangeTblRef *) from)->rtindex;
		const RangeTblEntry *entry = rt_fetch(varno, query->rtable);
		const SlTable *table = entry->rtekind == RTE_RELATION ? sl_table_get(entry->relid) : NULL;

		if (table != NULL && table->kind == SL_TABLE_SHARDED)
		{
			Member	   *member = palloc(sizeof(Member));

			member->varno = varno;
			member->table = table;
			result = lappend(result, member);
		}
	}
	return result;
}

/*
 * Puts a mark behind all conditions of a level.  Where that makes two of one
 * condition, the parentheses around them must go with it: so says its last
 * letter.
 */
static void
mark_level(Marking *marking, Query *query)
{
	FromExpr   *from = query->jointree;
	List	   *members = from != NULL ? find_members(query, (Node *) from) : NIL;
	bool		is_and;
	Expr	   *mark;

	if (members == NIL)
		return;
	is_and = from->quals != NULL && is_andclause(from->quals);
	mark = make_mark(psprintf("shardlet_%016llx_%d_%c", (unsigned long long) marking->seed,
							  list_length(marking->levels), is_and ? 'b' : 'a'), members);
	marking->levels = lappend(marking->levels, members);
	if (from->quals == NULL)
		from->quals = (Node *) mark;
	else if (is_and)
		((BoolExpr *) from->quals)->args = lappend(((BoolExpr *) from->quals)->args, mark);
	else
		/* cppcheck-suppress unknownEvaluationOrder */
		from->quals = (Node *) makeBoolExpr(AND_EXPR, list_make2(from->quals, mark), -1);
}

static bool
mark_levels(Node *node, Marking *marking)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		mark_level(marking, (Query *) node);
		return query_tree_walker((Query *) node, mark_levels, (void *) marking, 0);
	}
	return expression_tree_walker(node, mark_levels, (void *) marking);
}

/* Cutting --------------------------------------------------------------------------------- */

typedef struct Cutting
{
	const Marking *marking;
	char	   *prefix;
	const char *at;				/* in the text with marks */
	char		quote;
	StringInfoData sql;			/* without */
	int		   *open;			/* parentheses in it */
	int			depth;
	int			deepest;		/* so many fit */
	List	   *places;
	Bitmapset  *found;			/* numbers of marks */
} Cutting;

/* Takes over one character. */
static void
take(Cutting *cutting)
{
	char		c = *cutting->at++;

	if (cutting->quote == c)
		cutting->quote = '\0';
	else if (cutting->quote == '\0' && (c == '\'' || c == '"'))
		cutting->quote = c;
	else if (cutting->quote == '\0' && c == '(')
	{
		if (cutting->depth == cutting->deepest)
		{
			cutting->deepest *= 2;
			cutting->open = repalloc(cutting->open, sizeof(int) * cutting->deepest);
		}
		cutting->open[cutting->depth++] = cutting->sql.len;
	}
	else if (cutting->quote == '\0' && c == ')')
		cutting->depth--;
	appendStringInfoChar(&cutting->sql, c);
}

/* Removes what the text without marks ends with.  Returns if it did. */
static bool
strip(StringInfo sql, const char *end)
{
	int			length = (int) strlen(end);

	if (sql->len < length || strcmp(sql->data + sql->len - length, end) != 0)
		return false;
	sql->len -= length;
	sql->data[sql->len] = '\0';
	return true;
}

/* Reads the names of a key: up to the end of the row, divided by commas. */
static List *
read_names(Cutting *cutting)
{
	List	   *names = NIL;
	const char *start = cutting->at;
	char		quote = '\0';

	for (;; cutting->at++)
	{
		char		c = *cutting->at;

		if (c == '\0')
			elog(ERROR, "a mark has no end");
		if (quote == c)
			quote = '\0';
		else if (quote == '\0' && c == '"')
			quote = c;
		else if (quote == '\0' && (c == ',' || c == ')'))
		{
			if (cutting->at > start)
				names = lappend(names, makeString(pnstrdup(start, cutting->at - start)));
			if (c == ')')
				return names;
			start = cutting->at + 2;
			cutting->at++;
		}
	}
}

/* Takes an opening parenthesis out; places behind it move. */
static void
close_gap(Cutting *cutting)
{
	int			at = cutting->open[--cutting->depth];
	StringInfo	sql = &cutting->sql;
	ListCell   *cell;

	memmove(sql->data + at, sql->data + at + 1, sql->len - at);
	sql->len--;
	foreach(cell, cutting->places)
	{
		Integer    *offset = linitial_node(Integer, lfirst(cell));

		if (offset->ival > at)
			offset->ival--;
	}
}

/* Whose keys are these names?  In the form of sl_owned_member(). */
static List *
divide(List *members, List *names)
{
	List	   *result = NIL;
	int			next = 0;
	ListCell   *cell;

	foreach(cell, members)
	{
		const SlTable *table = ((const Member *) lfirst(cell))->table;
		List	   *member = list_make1(makeString(pstrdup(table->map)));

		for (int i = 0; i < table->key_count; i++)
			member = lappend(member, list_nth(names, next++));
		result = lappend(result, member);
	}
	return result;
}

/* Leaves a mark out, and notes the place. */
static void
cut(Cutting *cutting)
{
	char	   *end;
	long		number = strtol(cutting->at + strlen(cutting->prefix), &end, 10);
	List	   *members = list_nth(cutting->marking->levels, (int) number);
	bool		is_alone = end[1] == 'a';
	bool		has_where;
	List	   *names;

	cutting->found = bms_add_member(cutting->found, (int) number);

	/* _a'::text, name, name) IS NULL) */
	cutting->at = end + strlen("_a'::text");
	if (*cutting->at == ',')
		cutting->at += 2;
	names = read_names(cutting);
	cutting->at += strlen(") IS NULL)");
	has_where = strip(&cutting->sql, " AND ");
	if (!has_where && !strip(&cutting->sql, " WHERE "))
		elog(ERROR, "a mark is at a wrong place: %s", cutting->sql.data);
	if (is_alone && has_where && *cutting->at == ')')
	{
		close_gap(cutting);
		cutting->at++;
	}
	cutting->places = lappend(cutting->places,
							  sl_owned_place(cutting->sql.len, has_where, divide(members, names)));
}

/*
 * Writes a statement that may travel to several shards.  Also returns the places
 * for conditions on its tables; see owned.c.
 */
char *
sl_owned_travel_sql(Query *query, List **places)
{
	Marking		marking = {.seed = pg_prng_uint64(&pg_global_prng_state)};
	Cutting		cutting = {.marking = &marking};
	Query	   *marked = copyObject(query);
	size_t		length;

	*places = NIL;
	(void) mark_levels((Node *) marked, &marking);
	cutting.at = sl_travel_sql(marked);
	cutting.prefix = psprintf("(ROW('shardlet_%016llx_", (unsigned long long) marking.seed);
	length = strlen(cutting.prefix);
	cutting.deepest = 64;
	cutting.open = palloc(sizeof(int) * cutting.deepest);
	initStringInfo(&cutting.sql);
	while (*cutting.at != '\0')
	{
		if (cutting.quote == '\0' && *cutting.at == '(' && strncmp(cutting.at, cutting.prefix, length) == 0)
			cut(&cutting);
		else
			take(&cutting);
	}

	/*
	 * An expression to sort by may be written twice: as a column, and in its
	 * place.
	 */
	if (bms_num_members(cutting.found) != list_length(marking.levels))
		elog(ERROR, "%d of %d marks were found", bms_num_members(cutting.found), list_length(marking.levels));
	*places = cutting.places;
	return cutting.sql.data;
}
