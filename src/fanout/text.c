/*
 * text.c
 *		What a text asks for, and the text that shards get.
 *
 * The text is parsed, which tells whether each shard's result is simply a part
 * of the whole, how rows are ordered, and what LIMIT and OFFSET are.  There is
 * nothing that writes a raw parse tree back as text.  So the text is changed by
 * cutting and inserting at the positions of its tokens, as the server's own
 * scanner finds them; words that end a clause are reserved, so they are never
 * anything else when they stand outside parentheses.
 *
 * - OFFSET is left to the router, and LIMIT becomes limit + offset, as one more
 *   parameter.
 * - An expression of ORDER BY that is not in the select list is added to it, so
 *   that rows can be merged; those columns do not reach the caller.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "lib/stringinfo.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_target.h"
#include "parser/parser.h"
#include "parser/scanner.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "fanout/fanout.h"

/* A token outside parentheses: where it begins and ends. */
typedef struct Token
{
	int			start;
	int			end;
} Token;

typedef struct Tokens
{
	const char *source;
	int			count;
	Token	   *items;
} Tokens;

/* The parts of the statement that are cut or added to, as token numbers. */
typedef struct Layout
{
	Tokens		tokens;
	int			select;			/* -1: not outside parentheses */
	int			list_end;		/* the token after the select list */
	int			order;			/* ORDER, or -1 */
	int			order_end;
	int			limit[2];		/* up to two clauses, LIMIT and OFFSET */
	int			limit_end[2];
	int			limit_count;
} Layout;

static void
refuse_text(const char *detail, const char *hint)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("text cannot be run on several shards"),
			errdetail("%s", detail),
			errhint("%s", hint));
}

/* Tokens ------------------------------------------------------------------ */

/* Scans the text; tokens inside parentheses or brackets are left out. */
static Tokens
scan_tokens(const char *source)
{
	Tokens		tokens = {.source = source};
	int			allocated = 64;
	int			depth = 0;
	core_yy_extra_type extra;
	core_yyscan_t scanner = scanner_init(source, &extra, &ScanKeywords, ScanKeywordTokens);
	core_YYSTYPE value;
	YYLTYPE		location;
	int			token;

	tokens.items = palloc(sizeof(Token) * allocated);
	while ((token = core_yylex(&value, &location, scanner)) != 0)
	{
		bool		closes = token == ')' || token == ']';

		if (tokens.count > 0 && tokens.items[tokens.count - 1].end < 0)
			tokens.items[tokens.count - 1].end = location;
		if (closes)
			depth--;
		if (depth == 0 && !closes)
		{
			if (tokens.count == allocated)
				tokens.items = repalloc(tokens.items, sizeof(Token) * (allocated *= 2));
			tokens.items[tokens.count].start = location;
			tokens.items[tokens.count++].end = -1;
		}
		if (token == '(' || token == '[')
			depth++;
	}
	if (tokens.count > 0 && tokens.items[tokens.count - 1].end < 0)
		tokens.items[tokens.count - 1].end = (int) strlen(source);
	scanner_finish(scanner);
	return tokens;
}

/* Is this token the word?  A quoted one never is. */
static bool
is_word(const Tokens *tokens, int index, const char *word)
{
	size_t		length = strlen(word);
	const char *start;

	if (index < 0 || index >= tokens->count)
		return false;
	start = tokens->source + tokens->items[index].start;
	return pg_strncasecmp(start, word, length) == 0 &&
		!(isalnum((unsigned char) start[length]) || start[length] == '_' || start[length] == '$' ||
		  IS_HIGHBIT_SET(start[length]));
}

static bool
is_one_of(const Tokens *tokens, int index, const char *const *words)
{
	for (; *words != NULL; words++)
	{
		if (is_word(tokens, index, *words))
			return true;
	}
	return false;
}

static bool
is_semicolon(const Tokens *tokens, int index)
{
	return index < tokens->count && tokens->source[tokens->items[index].start] == ';';
}

/* Where a token begins; past the last one, where the text ends. */
static int
token_start(const Tokens *tokens, int index)
{
	return index < tokens->count ? tokens->items[index].start : (int) strlen(tokens->source);
}

static const char *const limit_words[] = {"LIMIT", "OFFSET", "FETCH", NULL};
static const char *const after_order[] = {"LIMIT", "OFFSET", "FETCH", "FOR", NULL};
static const char *const after_list[] = {
	"FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "UNION", "INTERSECT", "EXCEPT",
	"ORDER", "LIMIT", "OFFSET", "FETCH", "FOR", "INTO", NULL
};

/* The FROM of IS DISTINCT FROM belongs to the expression. */
static bool
ends_list(const Tokens *tokens, int index)
{
	if (is_word(tokens, index, "FROM") && is_word(tokens, index - 1, "DISTINCT") &&
		(is_word(tokens, index - 2, "IS") || is_word(tokens, index - 2, "NOT")))
		return false;
	return is_semicolon(tokens, index) || is_one_of(tokens, index, after_list);
}

static int
find_end(const Tokens *tokens, int index, const char *const *words)
{
	while (index < tokens->count && !is_semicolon(tokens, index) &&
		   !is_one_of(tokens, index, words))
		index++;
	return index;
}

static Layout
find_layout(const char *source)
{
	Layout		layout = {.select = -1,.list_end = -1,.order = -1};
	Tokens	   *tokens = &layout.tokens;

	*tokens = scan_tokens(source);
	for (int i = 0; i < tokens->count; i++)
	{
		if (layout.select < 0 && is_word(tokens, i, "SELECT"))
		{
			layout.select = i;
			layout.list_end = i + 1;
			while (layout.list_end < tokens->count && !ends_list(tokens, layout.list_end))
				layout.list_end++;
		}
		else if (is_word(tokens, i, "ORDER"))
		{
			layout.order = i;
			layout.order_end = find_end(tokens, i + 1, after_order);
		}
		else if (is_one_of(tokens, i, limit_words) && layout.limit_count < 2)
		{
			layout.limit[layout.limit_count] = i;
			layout.limit_end[layout.limit_count++] = find_end(tokens, i + 1, after_order);
		}
	}
	return layout;
}

/* Is it a part of the whole? ---------------------------------------------- */

static bool
is_aggregate_name(const char *name)
{
	CatCList   *list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
	bool		found = false;

	for (int i = 0; i < list->n_members && !found; i++)
		found = ((Form_pg_proc) GETSTRUCT(&list->members[i]->tuple))->prokind == PROKIND_AGGREGATE;
	ReleaseSysCacheList(list);
	return found;
}

/* Finds what is computed over several rows, on this level of the query. */
static bool
find_over_rows(Node *node, const char **what)
{
	if (node == NULL || IsA(node, SelectStmt) || IsA(node, SubLink))
		return false;
	if (IsA(node, FuncCall))
	{
		FuncCall   *call = (FuncCall *) node;

		if (call->over != NULL)
			*what = "A window function needs the rows of all shards.";
		else if (call->agg_star || call->agg_distinct || call->agg_order || call->agg_filter ||
				 call->agg_within_group || is_aggregate_name(strVal(llast(call->funcname))))
			*what = "An aggregate needs the rows of all shards.";
		if (*what != NULL)
			return true;
	}
	return raw_expression_tree_walker(node, find_over_rows, (void *) what);
}

static bool
has_limit_inside(const SelectStmt *select)
{
	if (select->limitCount != NULL || select->limitOffset != NULL)
		return true;
	return select->op != SETOP_NONE &&
		(has_limit_inside(select->larg) || has_limit_inside(select->rarg));
}

static const char *
why_whole_set(const SelectStmt *select)
{
	const char *reason;

	if (select->op == SETOP_NONE)
		return NULL;
	if (select->op != SETOP_UNION || !select->all)
		return "UNION, INTERSECT and EXCEPT need the rows of all shards.";
	reason = why_whole_set(select->larg);
	return reason != NULL ? reason : why_whole_set(select->rarg);
}

/* Why a shard's result is not simply a part of the whole, or NULL. */
static const char *
why_whole(const SelectStmt *select)
{
	const char *what = NULL;

	if (select->op != SETOP_NONE)
	{
		what = why_whole_set(select);
		if (what == NULL && has_limit_inside(select))
			what = "LIMIT in a set operation needs the rows of all shards.";
		if (what == NULL)
			what = why_whole(select->larg);
		return what != NULL ? what : why_whole(select->rarg);
	}
	if (select->distinctClause != NIL)
		return "DISTINCT needs the rows of all shards.";
	if (select->groupClause != NIL || select->havingClause != NULL)
		return "GROUP BY and HAVING need the rows of all shards.";
	if (!find_over_rows((Node *) select->targetList, &what))
		(void) find_over_rows((Node *) select->sortClause, &what);
	return what;
}

static bool
modifies(const SelectStmt *select)
{
	ListCell   *cell;

	if (select->lockingClause != NIL)
		return true;
	if (select->withClause == NULL)
		return false;
	foreach(cell, select->withClause->ctes)
	{
		if (!IsA(((CommonTableExpr *) lfirst(cell))->ctequery, SelectStmt))
			return true;
	}
	return false;
}

/* LIMIT and OFFSET -------------------------------------------------------- */

static SlLimit
read_limit(Node *node, const char *what)
{
	SlLimit		limit = {0};

	while (node != NULL && IsA(node, TypeCast))
		node = ((TypeCast *) node)->arg;
	if (node == NULL)
		return limit;
	limit.is_given = true;
	if (IsA(node, ParamRef))
		limit.param = ((ParamRef *) node)->number;
	else if (IsA(node, A_Const) && ((A_Const *) node)->isnull)
		limit.is_given = false;
	else if (IsA(node, A_Const) && IsA(&((A_Const *) node)->val, Integer))
		limit.value = intVal(&((A_Const *) node)->val);
	else if (IsA(node, A_Const) && IsA(&((A_Const *) node)->val, Float))
		limit.value = DatumGetInt64(DirectFunctionCall1(int8in,
														CStringGetDatum(((A_Const *) node)->val.fval.fval)));
	else
		refuse_text(psprintf("%s is an expression.", what),
					"Write a number or a parameter.");
	return limit;
}

/* ORDER BY ---------------------------------------------------------------- */

static bool
has_star(const SelectStmt *select, int before)
{
	for (int i = 0; i < before; i++)
	{
		Node	   *value = ((ResTarget *) list_nth(select->targetList, i))->val;

		if (IsA(value, ColumnRef) && IsA(llast(((ColumnRef *) value)->fields), A_Star))
			return true;
		if (IsA(value, A_Indirection) && IsA(llast(((A_Indirection *) value)->indirection), A_Star))
			return true;
	}
	return false;
}

static char *
target_name(const ResTarget *target)
{
	return target->name != NULL ? target->name : FigureColname(target->val);
}

/* The leftmost query of a set operation gives the names of its columns. */
static const SelectStmt *
leftmost(const SelectStmt *select)
{
	while (select->op != SETOP_NONE)
		select = select->larg;
	return select;
}

/* Is a name one of the select list's?  Then PostgreSQL orders by that. */
static bool
names_output(const SelectStmt *select, const char *name)
{
	ListCell   *cell;

	foreach(cell, leftmost(select)->targetList)
	{
		ResTarget  *target = lfirst(cell);

		if (!(IsA(target->val, ColumnRef) &&
			  IsA(llast(((ColumnRef *) target->val)->fields), A_Star)) &&
			strcmp(target_name(target), name) == 0)
			return true;
	}
	return false;
}

/* Which column of the select list is this expression?  -1: none for sure. */
static int
find_output(const SelectStmt *select, Node *expression)
{
	for (int i = 0; i < list_length(select->targetList); i++)
	{
		ResTarget  *target = list_nth(select->targetList, i);

		if (!has_star(select, i + 1) && equal(target->val, expression))
			return i;
	}
	return -1;
}

static const char *
bare_name(Node *node)
{
	if (!IsA(node, ColumnRef) || list_length(((ColumnRef *) node)->fields) != 1 ||
		!IsA(linitial(((ColumnRef *) node)->fields), String))
		return NULL;
	return strVal(linitial(((ColumnRef *) node)->fields));
}

static SlOrderItem *
read_order_item(SlText *query, const SelectStmt *select, SortBy *sort)
{
	SlOrderItem *item = palloc0(sizeof(SlOrderItem));
	Node	   *node = sort->node;
	const char *name;

	if (sort->sortby_dir == SORTBY_USING)
		refuse_text("ORDER BY ... USING names an operator of the shard's.",
					"Write ASC or DESC.");
	item->column = -1;
	item->descending = sort->sortby_dir == SORTBY_DESC;
	item->nulls_first = sort->sortby_nulls == SORTBY_NULLS_DEFAULT ? item->descending :
		sort->sortby_nulls == SORTBY_NULLS_FIRST;
	if (IsA(node, CollateClause))
	{
		item->collation = get_collation_oid(((CollateClause *) node)->collname, false);
		node = ((CollateClause *) node)->arg;
	}
	name = node == sort->node ? bare_name(node) : NULL;
	if (node == sort->node && IsA(node, A_Const) && IsA(&((A_Const *) node)->val, Integer))
		item->column = intVal(&((A_Const *) node)->val) - 1;
	else if (name != NULL && (names_output(select, name) || select->op != SETOP_NONE))
		item->name = pstrdup(name);
	else if ((item->column = find_output(select, node)) < 0)
		item->carried = ++query->carried_count;
	return item;
}

/* The whole ------------------------------------------------------------------ */

static void
parse_select(SlText *query, SelectStmt *select)
{
	ListCell   *cell;

	if (select->intoClause != NULL)
		refuse_text("SELECT INTO makes a table.", "Use shardlet.execute().");
	query->is_write = modifies(select);
	query->whole = why_whole(select);
	foreach(cell, select->sortClause)
		query->order = lappend(query->order, read_order_item(query, select, lfirst(cell)));
	if (query->whole != NULL)
		return;
	if (select->limitOption == LIMIT_OPTION_WITH_TIES)
		refuse_text("WITH TIES depends on the rows of all shards.", "Leave it out.");
	query->limit = read_limit(select->limitCount, "LIMIT");
	query->offset = read_limit(select->limitOffset, "OFFSET");
}

static void
explain_error(void *arg)
{
	sl_check_move_position(arg);
}

/* Parses; the position of an error is one in this text. */
static List *
parse_commands(const char *source)
{
	ErrorContextCallback callback = {.callback = explain_error};
	List	   *commands;

	callback.arg = unconstify(char *, source);
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	commands = raw_parser(source, RAW_PARSE_DEFAULT);
	error_context_stack = callback.previous;
	return commands;
}

/* Parses a text; more than one command, or none, is an error. */
SlText *
sl_text_parse(const char *source)
{
	SlText	   *query = palloc0(sizeof(SlText));
	List	   *commands = parse_commands(source);
	Node	   *command;

	query->source = source;
	query->sql = pstrdup(source);
	if (list_length(commands) != 1)
		ereport(ERROR,
				errcode(ERRCODE_SYNTAX_ERROR),
				commands == NIL ? errmsg("text is empty") :
				errmsg("text has more than one command"),
				errhint("Give one command at a time."));
	command = linitial_node(RawStmt, commands)->stmt;
	if (IsA(command, SelectStmt))
		parse_select(query, (SelectStmt *) command);
	else if (IsA(command, ExplainStmt) || IsA(command, VariableShowStmt))
		query->whole = "A utility command gives one result for each shard.";
	else
		query->is_write = true;
	return query;
}

/* Appends the source between two positions, leaving out the given clauses. */
static void
append_without(StringInfo sql, const Layout *layout, int from, int to, SlText *query, int param_count)
{
	const char *source = layout->tokens.source;

	for (int i = 0; i < layout->limit_count; i++)
	{
		int			start = token_start(&layout->tokens, layout->limit[i]);
		int			end = token_start(&layout->tokens, layout->limit_end[i]);

		if (start < from || start >= to)
			continue;
		appendBinaryStringInfo(sql, source + from, start - from);
		if (query->limit.is_given && query->limit_param == 0)
		{
			query->limit_param = param_count + 1;
			appendStringInfo(sql, "LIMIT $%d::pg_catalog.int8 ", query->limit_param);
		}
		from = end;
	}
	appendBinaryStringInfo(sql, source + from, to - from);
}

/* Where the expression of an item of ORDER BY ends, before ASC, NULLS ... */
static int
order_item_end(const Tokens *tokens, int index, int end)
{
	static const char *const words[] = {"ASC", "DESC", NULL};

	while (index < end && tokens->source[tokens->items[index].start] != ',' &&
		   !is_one_of(tokens, index, words) &&
		   !(is_word(tokens, index, "NULLS") &&
			 (is_word(tokens, index + 1, "FIRST") || is_word(tokens, index + 1, "LAST"))))
		index++;
	return index;
}

static int
next_order_item(const Tokens *tokens, int index, int end)
{
	while (index < end && tokens->source[tokens->items[index].start] != ',')
		index++;
	return index + 1;
}

/* Writes the expressions that are carried along as columns. */
static char *
carried_columns(const Layout *layout, const SlText *query, bool list_is_empty)
{
	const Tokens *tokens = &layout->tokens;
	StringInfoData columns;
	int			index = layout->order + 2;	/* after ORDER BY */
	ListCell   *cell;

	initStringInfo(&columns);
	foreach(cell, query->order)
	{
		const SlOrderItem *item = lfirst(cell);
		int			end = order_item_end(tokens, index, layout->order_end);
		int			from = token_start(tokens, index);
		int			to = token_start(tokens, end);

		if (item->carried > 0)
			appendStringInfo(&columns, "%s (%.*s) AS shardlet_order_%d ",
							 list_is_empty && columns.len == 0 ? "" : ",",
							 to - from, tokens->source + from, item->carried);
		index = next_order_item(tokens, index, layout->order_end);
	}
	return columns.data;
}

/*
 * Makes the text that shards get when rows are merged and LIMIT and OFFSET hold
 * for all shards together.  The caller has so many parameters of its own.
 */
void
sl_text_rewrite(SlText *query, int param_count)
{
	Layout		layout;
	StringInfoData sql;
	int			end = (int) strlen(query->source);
	int			at = 0;

	if (!query->limit.is_given && !query->offset.is_given && query->carried_count == 0)
		return;
	layout = find_layout(query->source);
	if ((layout.limit_count == 0 && (query->limit.is_given || query->offset.is_given)) ||
		(query->carried_count > 0 && (layout.select < 0 || layout.order < 0)))
		refuse_text("It is in parentheses.", "Leave out the outer parentheses.");
	initStringInfo(&sql);
	if (query->carried_count > 0)
	{
		char	   *columns = carried_columns(&layout, query, layout.list_end == layout.select + 1);

		at = token_start(&layout.tokens, layout.list_end);
		append_without(&sql, &layout, 0, at, query, param_count);
		query->added_at = sql.len;
		query->added_length = (int) strlen(columns);
		appendStringInfoString(&sql, columns);
	}
	append_without(&sql, &layout, at, end, query, param_count);
	query->sql = sql.data;
}
