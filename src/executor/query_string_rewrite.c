/*
 * query_string_rewrite.c
 *		Rewrites a query string to the SQL that shards get.
 *
 * PostgreSQL cannot deparse a raw parse tree.  So the string is changed by cutting
 * and inserting at the positions of its tokens, as the
 * server's own scanner finds them.  Words that begin a clause are reserved, so
 * outside parentheses they are never anything else, but for a column's label
 * (after AS or a dot) and a few expressions that are looked for.
 *
 * - OFFSET is left to the router, and LIMIT becomes limit + offset, as one more
 *   parameter.
 * - An expression of ORDER BY that is not in the select list is added to it, so
 *   that rows can be merged; those columns do not reach the caller.
 *
 * What was copied from where is kept, for the positions of errors.
 */
#include "postgres.h"

#include "common/keywords.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "parser/parser.h"
#include "parser/scanner.h"

#include "base/base.h"
#include "executor/multi_shard.h"

/* The words that are looked for; 0 is any other token. */
typedef enum Word
{
	WORD_NONE,
	WORD_AS, WORD_ASC, WORD_COLLATION, WORD_DESC, WORD_DISTINCT, WORD_EXCEPT, WORD_FETCH,
	WORD_FIRST, WORD_FOR, WORD_FROM, WORD_GROUP, WORD_HAVING, WORD_INTERSECT, WORD_INTO, WORD_IS,
	WORD_LAST, WORD_LIMIT, WORD_NOT, WORD_NULLS, WORD_OFFSET, WORD_ORDER, WORD_SELECT,
	WORD_UNION, WORD_WHERE, WORD_WINDOW, WORD_COUNT
} Word;

static const char *const words[WORD_COUNT] = {
	"", "as", "asc", "collation", "desc", "distinct", "except", "fetch",
	"first", "for", "from", "group", "having", "intersect", "into", "is",
	"last", "limit", "not", "nulls", "offset", "order", "select",
	"union", "where", "window"
};

#define BIT(word) (1 << (word))
#define LIMIT_WORDS (BIT(WORD_LIMIT) | BIT(WORD_OFFSET) | BIT(WORD_FETCH))
#define AFTER_ORDER (LIMIT_WORDS | BIT(WORD_FOR))
#define AFTER_LIST \
	(AFTER_ORDER | BIT(WORD_FROM) | BIT(WORD_WHERE) | BIT(WORD_GROUP) | BIT(WORD_HAVING) | \
	 BIT(WORD_WINDOW) | BIT(WORD_UNION) | BIT(WORD_INTERSECT) | BIT(WORD_EXCEPT) | \
	 BIT(WORD_ORDER) | BIT(WORD_INTO))

/* A token: a word, or a character that stands for itself, or neither. */
typedef struct Token
{
	int			start;
	int			end;			/* of a parenthesis: of the closing one */
	int			depth;			/* parentheses that it stands in */
	Word		word;
	char		character;
	int			param;			/* number of a parameter, or 0 */
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
	Tokens		all;
	Tokens		tokens;			/* those outside parentheses, but for such as
								 * enclose the whole string */
	int			select;			/* -1: not outside parentheses */
	int			list_end;		/* the token after the select list */
	int			order;			/* ORDER, or -1 */
	int			order_end;
	int			limit[2];		/* up to two clauses, LIMIT and OFFSET */
	int			limit_end[2];
	int			limit_count;
} Layout;

/* What is put in the place of a part of the source. */
typedef struct Edit
{
	int			start;
	int			end;
	const char *replacement;
} Edit;

/* Tokens ------------------------------------------------------------------ */

static void
add_token(Tokens *tokens, int *allocated, const Token *token)
{
	if (tokens->count == *allocated)
	{
		*allocated = Max(64, *allocated * 2);
		tokens->items = tokens->items == NULL ?
			MemoryContextAllocHuge(CurrentMemoryContext, sizeof(Token) * *allocated) :
			repalloc_huge(tokens->items, sizeof(Token) * *allocated);
	}
	tokens->items[tokens->count++] = *token;
}

static Word
find_word(int code)
{
	static int	codes[WORD_COUNT];

	if (codes[WORD_COUNT - 1] == 0)
	{
		for (int i = 1; i < WORD_COUNT; i++)
			codes[i] = ScanKeywordTokens[ScanKeywordLookup(words[i], &ScanKeywords)];
	}
	for (int i = 1; i < WORD_COUNT; i++)
	{
		if (codes[i] == code)
			return (Word) i;
	}
	return WORD_NONE;
}

static Token
make_token(const char *buffer, int code, int location, int depth)
{
	Token		token = {.start = location,.depth = depth};

	/* The scanner ends the token that it has just returned with a zero. */
	token.end = location + (int) strlen(buffer + location);
	token.word = find_word(code);
	if (code < 128)
		token.character = (char) code;
	if (buffer[location] == '$' && isdigit((unsigned char) buffer[location + 1]))
		token.param = atoi(buffer + location + 1);
	return token;
}

static Tokens
scan_tokens(const char *source)
{
	Tokens		tokens = {.source = source};
	int			allocated = 0;
	int			depth = 0;
	core_yy_extra_type extra;
	core_yyscan_t scanner = scanner_init(source, &extra, &ScanKeywords, ScanKeywordTokens);
	core_YYSTYPE value;
	YYLTYPE		location;
	int			code;

	while ((code = core_yylex(&value, &location, scanner)) != 0)
	{
		Token		token;

		if (code == ')' || code == ']')
			depth--;
		token = make_token(extra.scanbuf, code, location, depth);
		add_token(&tokens, &allocated, &token);
		if (code == '(' || code == '[')
			depth++;
	}
	scanner_finish(scanner);
	return tokens;
}

/* How many parentheses enclose the whole string? */
static int
outer_depth(const Tokens *tokens)
{
	int			end = tokens->count;
	int			first = 0;
	int			last;
	int			depth;

	while (end > 0 && tokens->items[end - 1].character == ';')
		end--;
	while (first < end && tokens->items[first].character == '(')
		first++;
	last = end;
	while (last > first && tokens->items[last - 1].character == ')')
		last--;
	depth = Min(first, end - last);
	for (int i = first; i < last; i++)
		depth = Min(depth, tokens->items[i].depth);
	return depth;
}

/* Is this word one that only looks as if it began a clause? */
static bool
is_other_use(const Tokens *tokens, int index)
{
	const Token *token = &tokens->items[index];
	const Token *before = index > 0 ? token - 1 : NULL;

	if (before == NULL)
		return false;
	if (before->word == WORD_AS || before->character == '.')
		return true;
	if (token->word == WORD_FOR)
		return before->word == WORD_COLLATION;
	return token->word == WORD_FROM && before->word == WORD_DISTINCT && index > 1 &&
		(before[-1].word == WORD_IS || before[-1].word == WORD_NOT);
}

/* The tokens outside parentheses; one that opens lasts until it is closed. */
static Tokens
outer_tokens(const Tokens *all)
{
	Tokens		result = {.source = all->source};
	int			allocated = 0;
	int			depth = outer_depth(all);

	for (int i = 0; i < all->count; i++)
	{
		Token		token = all->items[i];

		if (token.depth != depth || token.character == ';')
			continue;
		if (token.character == ')' || token.character == ']')
		{
			result.items[result.count - 1].end = token.end;
			continue;
		}
		add_token(&result, &allocated, &token);
		if (is_other_use(&result, result.count - 1))
			result.items[result.count - 1].word = WORD_NONE;
	}
	return result;
}

/* Layout ------------------------------------------------------------------- */

static int
find_end(const Tokens *tokens, int index, int ends)
{
	while (index < tokens->count && (BIT(tokens->items[index].word) & ends) == 0)
		index++;
	return index;
}

static Layout
find_layout(const char *source)
{
	Layout		layout = {.select = -1,.list_end = -1,.order = -1};
	Tokens	   *tokens = &layout.tokens;

	layout.all = scan_tokens(source);
	*tokens = outer_tokens(&layout.all);
	for (int i = 0; i < tokens->count; i++)
	{
		Word		word = tokens->items[i].word;

		if (layout.select < 0 && word == WORD_SELECT)
		{
			layout.select = i;
			layout.list_end = find_end(tokens, i + 1, AFTER_LIST);
		}
		else if (word == WORD_ORDER)
		{
			layout.order = i;
			layout.order_end = find_end(tokens, i + 1, AFTER_ORDER);
		}
		else if ((BIT(word) & LIMIT_WORDS) != 0 && layout.limit_count < 2)
		{
			layout.limit[layout.limit_count] = i;
			layout.limit_end[layout.limit_count++] = find_end(tokens, i + 1, AFTER_ORDER);
		}
	}
	return layout;
}

/* Edits -------------------------------------------------------------------- */

/* Appends a part of the source, and keeps where it went. */
static void
copy_piece(SlQueryString *query, StringInfo sql, int start, int end)
{
	SlPiece    *piece = palloc(sizeof(SlPiece));

	piece->source_at = start;
	piece->sql_at = sql->len;
	piece->length = end - start;
	query->pieces = lappend(query->pieces, piece);
	appendBinaryStringInfo(sql, query->source + start, end - start);
}

static void
apply_edits(SlQueryString *query, const Edit *edits, int count)
{
	StringInfoData sql;
	int			at = 0;

	initStringInfo(&sql);
	query->pieces = NIL;
	for (int i = 0; i < count; i++)
	{
		copy_piece(query, &sql, at, edits[i].start);
		appendStringInfoString(&sql, edits[i].replacement);
		at = edits[i].end;
	}
	copy_piece(query, &sql, at, (int) strlen(query->source));
	query->sql = sql.data;
}

/*
 * Where in the source is a position of the SQL that shards get?  Both count
 * characters from 1; 0 is nowhere.
 */
int
sl_query_string_position(const SlQueryString *query, int position)
{
	int			at = 0;
	ListCell   *cell;

	if (query->pieces == NIL || position <= 0)
		return position;
	for (int i = 1; i < position && query->sql[at] != '\0'; i++)
		at += pg_mblen(query->sql + at);
	foreach(cell, query->pieces)
	{
		const SlPiece *piece = lfirst(cell);

		if (at >= piece->sql_at && at <= piece->sql_at + piece->length)
			return pg_mbstrlen_with_len(query->source, piece->source_at + at - piece->sql_at) + 1;
	}
	return 0;
}

/* ORDER BY ------------------------------------------------------------------ */

/* Where the expression of an item of ORDER BY ends, before ASC, NULLS ... */
static int
order_item_end(const Tokens *tokens, int index, int end)
{
	for (; index < end; index++)
	{
		const Token *token = &tokens->items[index];

		if (token->character == ',' || token->word == WORD_ASC || token->word == WORD_DESC)
			break;
		if (token->word == WORD_NULLS && index + 1 < end &&
			(token[1].word == WORD_FIRST || token[1].word == WORD_LAST))
			break;
	}
	return index;
}

static int
next_order_item(const Tokens *tokens, int index, int end)
{
	while (index < end && tokens->items[index].character != ',')
		index++;
	return index + 1;
}

/* Writes the expressions that are carried along as columns. */
static char *
carried_columns(const Layout *layout, const SlQueryString *query)
{
	const Tokens *tokens = &layout->tokens;
	bool		list_is_empty = layout->list_end == layout->select + 1;
	StringInfoData columns;
	int			index = layout->order + 2;	/* after ORDER BY */
	ListCell   *cell;

	initStringInfo(&columns);
	foreach(cell, query->order)
	{
		const SlOrderItem *item = lfirst(cell);
		int			end = order_item_end(tokens, index, layout->order_end);

		if (item->carried > 0 && end > index)
			appendStringInfo(&columns, "%s (%.*s) AS shardlet_order_%d",
							 list_is_empty && columns.len == 0 ? "" : ",",
							 tokens->items[end - 1].end - tokens->items[index].start,
							 tokens->source + tokens->items[index].start, item->carried);
		index = next_order_item(tokens, index, layout->order_end);
	}
	appendStringInfoChar(&columns, ' ');
	return columns.data;
}

static Edit
carry_columns(const Layout *layout, const SlQueryString *query)
{
	Edit		edit;

	edit.start = edit.end = layout->tokens.items[layout->list_end - 1].end;
	edit.replacement = carried_columns(layout, query);
	return edit;
}

/* LIMIT --------------------------------------------------------------------- */

/* The parameter that is added must not be one that the query uses. */
static void
check_params(const Layout *layout, int param_count)
{
	for (int i = 0; i < layout->all.count; i++)
	{
		const Token *token = &layout->all.items[i];

		if (token->param > param_count)
			ereport(ERROR,
					errcode(ERRCODE_UNDEFINED_PARAMETER),
					errmsg("there is no parameter $%d", token->param),
					internalerrquery(layout->all.source),
					internalerrposition(pg_mbstrlen_with_len(layout->all.source, token->start) + 1));
	}
}

/* Does anything but LIMIT and OFFSET use the parameter? */
static bool
is_used_elsewhere(const Layout *layout, int param)
{
	for (int i = 0; i < layout->all.count; i++)
	{
		const Token *token = &layout->all.items[i];
		bool		is_inside = false;

		for (int k = 0; k < layout->limit_count; k++)
			is_inside = is_inside ||
				(token->start >= layout->tokens.items[layout->limit[k]].start &&
				 token->end <= layout->tokens.items[layout->limit_end[k] - 1].end);
		if (token->param == param && !is_inside)
			return true;
	}
	return false;
}

static Edit
replace_limit(const Layout *layout, SlQueryString *query, int clause, int param_count)
{
	Edit		edit = {.replacement = ""};

	edit.start = layout->tokens.items[layout->limit[clause]].start;
	edit.end = layout->tokens.items[layout->limit_end[clause] - 1].end;
	if (query->limit.is_given && clause == 0)
	{
		query->limit_param = param_count + 1;
		edit.replacement = psprintf("LIMIT $%d::pg_catalog.int8", query->limit_param);
	}
	return edit;
}

/* The whole ------------------------------------------------------------------ */

static void
check_layout(const Layout *layout, const SlQueryString *query)
{
	if ((layout->limit_count == 0 && (query->limit.is_given || query->offset.is_given)) ||
		(query->carried_count > 0 && layout->order < 0))
		sl_query_string_refuse("Parts of it are in parentheses.", "Leave out the outer parentheses.");
	if (query->carried_count > 0 && layout->select < 0)
		sl_query_string_refuse("It is ordered by what is not among its columns.",
							   "Write SELECT outside parentheses, or add the expression to the columns.");
}

/*
 * Returns the query up to ORDER BY, with the columns that are carried along.  It
 * can be a subquery in FROM.
 */
char *
sl_query_string_unordered(const SlQueryString *query)
{
	Layout		layout = find_layout(query->source);
	int			start = layout.tokens.items[0].start;
	int			at;

	check_layout(&layout, query);
	if (layout.order < 0)
		sl_query_string_refuse("ORDER BY is in parentheses.", "Leave out the outer parentheses.");
	at = layout.tokens.items[layout.order].start;
	if (query->carried_count > 0)
	{
		Edit		edit = carry_columns(&layout, query);

		return psprintf("%.*s%s%.*s", edit.start - start, query->source + start,
						edit.replacement, at - edit.end, query->source + edit.end);
	}
	return pnstrdup(query->source + start, at - start);
}

/*
 * Makes the SQL that shards get when rows are merged and LIMIT and OFFSET hold for
 * all shards together.  param_count: parameters of the caller's.
 */
void
sl_query_string_rewrite(SlQueryString *query, int param_count)
{
	Layout		layout;
	Edit		edits[3];
	int			count = 0;

	if (!query->limit.is_given && !query->offset.is_given && query->carried_count == 0)
		return;
	layout = find_layout(query->source);
	check_layout(&layout, query);
	if (query->limit.is_given)
		check_params(&layout, param_count);
	if (query->carried_count > 0)
		edits[count++] = carry_columns(&layout, query);
	for (int i = 0; i < layout.limit_count; i++)
		edits[count++] = replace_limit(&layout, query, i, param_count);
	query->limit.is_used = is_used_elsewhere(&layout, query->limit.param);
	query->offset.is_used = is_used_elsewhere(&layout, query->offset.param);
	apply_edits(query, edits, count);
}
