/*
 * ownership_filter_query.c
 *		Deparses a whole statement, and finds the positions of ownership
 *		filters in it.
 *
 * The statement is deparsed by PostgreSQL, and only PostgreSQL knows what it
 * calls a table at some place.  So each table of the statement gets a
 * condition that marks it, (ROW('<mark>', key) IS NULL), the statement is
 * deparsed, and the marks are removed again: what remains is the SQL without
 * them, the positions, and the names of the key columns at each.
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
#include "compat.h"
#include "deparse/ownership_filter.h"
#include "deparse/shippable_query.h"

typedef struct Marking
{
	uint64		seed;			/* random, so that no constant can look like a
								 * mark */
	List	   *levels;			/* for each mark its tables */
} Marking;

/* Marking ------------------------------------------------------------------------------ */

/* Is it a sharded table of a statement, at any query level? */
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

/* Collects the sharded tables in FROM. */
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
 * Appends a mark to ANDed conditions.  If that turns a single condition into an
 * AND, the parentheses around it must be removed as well: the last character of
 * the mark says so.
 */
static Node *
add_mark(Marking *marking, Node *quals, List *members)
{
	bool		is_and = quals != NULL && is_andclause(quals);
	Expr	   *mark;

	mark = make_mark(psprintf("shardlet_%016llx_%d_%c", (unsigned long long) marking->seed,
							  list_length(marking->levels), is_and ? 'b' : 'a'), members);
	marking->levels = lappend(marking->levels, members);
	if (quals == NULL)
		return (Node *) mark;
	if (!is_and)
		return (Node *) makeBoolExpr(AND_EXPR, list_make2(quals, mark), -1);
	((BoolExpr *) quals)->args = lappend(((BoolExpr *) quals)->args, mark);
	return quals;
}

/*
 * Marks a MERGE.  The sharded tables of its source are in subqueries, because no
 * condition of MERGE removes rows of the source.  Orphaned rows of the target match
 * nothing, and so an action for rows without a match must ignore them.
 */
static void
mark_merge(Marking *marking, Query *query)
{
	RangeTblRef target = {.type = T_RangeTblRef,.rtindex = query->resultRelation};
	List	   *members = find_members(query, (Node *) &target);
	ListCell   *cell;

	if (find_members(query, (Node *) query->jointree) != NIL)
		elog(ERROR, "source of MERGE has no place for an ownership filter");
	if (members == NIL)
		return;
	sl_merge_condition(query) = add_mark(marking, sl_merge_condition(query), members);
	foreach(cell, query->mergeActionList)
	{
		MergeAction *action = lfirst_node(MergeAction, cell);

		if (sl_is_not_matched_by_source(action))
			action->qual = add_mark(marking, action->qual, members);
	}
}

/* Marks a query level. */
static void
mark_level(Marking *marking, Query *query)
{
	FromExpr   *from = query->jointree;
	List	   *members = from != NULL ? find_members(query, (Node *) from) : NIL;

	if (query->commandType == CMD_MERGE)
		mark_merge(marking, query);
	else if (members != NIL)
		from->quals = add_mark(marking, from->quals, members);
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
	const char *at;				/* in the SQL with marks */
	char		quote;
	StringInfoData sql;			/* without marks */
	int		   *open;			/* its open parentheses */
	int			depth;
	int			deepest;		/* allocated */
	List	   *places;
	Bitmapset  *found;			/* numbers of marks */
} Cutting;

/* Copies one character. */
static void
copy_character(Cutting *cutting)
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

/* Removes a suffix of the output.  Returns false if there is none. */
static bool
strip_suffix(StringInfo sql, const char *end)
{
	int			length = (int) strlen(end);

	if (sql->len < length || strcmp(sql->data + sql->len - length, end) != 0)
		return false;
	sql->len -= length;
	sql->data[sql->len] = '\0';
	return true;
}

/* Reads the names of a key: up to the end of the row, separated by commas. */
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

/* Removes an opening parenthesis; adjusts the positions after it. */
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

/*
 * Returns the tables of these key names, as made by
 * sl_ownership_filter_member().
 */
static List *
group_by_key(List *members, List *names)
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

/* Removes a mark, and records its position. */
static void
cut_mark(Cutting *cutting)
{
	char	   *end;
	long		number = strtol(cutting->at + strlen(cutting->prefix), &end, 10);
	List	   *members = list_nth(cutting->marking->levels, (int) number);
	bool		is_autocommit = end[1] == 'a';
	bool		has_where;
	List	   *names;

	cutting->found = bms_add_member(cutting->found, (int) number);

	/* _a'::text, name, name) IS NULL) */
	cutting->at = end + strlen("_a'::text");
	if (*cutting->at == ',')
		cutting->at += 2;
	names = read_names(cutting);
	cutting->at += strlen(") IS NULL)");
	has_where = strip_suffix(&cutting->sql, " AND ");
	if (!has_where && !strip_suffix(&cutting->sql, " WHERE "))
		elog(ERROR, "a mark is at a wrong place: %s", cutting->sql.data);
	if (is_autocommit && has_where && *cutting->at == ')')
	{
		close_gap(cutting);
		cutting->at++;
	}
	cutting->places = lappend(cutting->places,
							  sl_ownership_filter_place(cutting->sql.len, has_where, group_by_key(members, names)));
}

/*
 * Deparses a statement that may be sent to several shards.  Also returns the
 * positions for conditions on its tables; see ownership_filter.c.
 */
char *
sl_ownership_filter_query_sql(Query *query, List **places)
{
	Marking		marking = {.seed = pg_prng_uint64(&pg_global_prng_state)};
	Cutting		cutting = {.marking = &marking};
	Query	   *marked = copyObject(query);
	size_t		length;

	*places = NIL;
	(void) mark_levels((Node *) marked, &marking);
	cutting.at = sl_deparse_query(marked);
	cutting.prefix = psprintf("(ROW('shardlet_%016llx_", (unsigned long long) marking.seed);
	length = strlen(cutting.prefix);
	cutting.deepest = 64;
	cutting.open = palloc(sizeof(int) * cutting.deepest);
	initStringInfo(&cutting.sql);
	while (*cutting.at != '\0')
	{
		if (cutting.quote == '\0' && *cutting.at == '(' && strncmp(cutting.at, cutting.prefix, length) == 0)
			cut_mark(&cutting);
		else
			copy_character(&cutting);
	}

	/*
	 * An ORDER BY expression may be deparsed twice: as a column, and in its
	 * place.
	 */
	if (bms_num_members(cutting.found) != list_length(marking.levels))
		elog(ERROR, "%d of %d marks were found", bms_num_members(cutting.found), list_length(marking.levels));
	*places = cutting.places;
	return cutting.sql.data;
}
