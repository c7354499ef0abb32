/*
 * statement_text.c
 *		Cuts a statement's own text into what shards get.
 *
 * There is nothing in the server that writes utility statements, so shards get the
 * words of the user.  The server's own scanner finds where they are; the parser has
 * left the places of names and clauses in the tree.  Names of tables are replaced by
 * qualified ones, because "$user" in a search path may be another role on the shard.
 */
#include "postgres.h"

#include "common/keywords.h"
#include "nodes/pg_list.h"
#include "parser/scanner.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "ddl/ddl_internal.h"

typedef struct Token
{
	int			code;
	SlSpan		span;			/* in the source */
	int			depth;			/* of parentheses and brackets */
} Token;

typedef struct Tokens
{
	Token	   *items;
	int			count;
} Tokens;

/* Reads the tokens of a part of the source. */
static Tokens
scan_tokens(const SlDdl *ddl, SlSpan span)
{
	char	   *part = pnstrdup(ddl->source + span.start, span.end - span.start);
	Tokens		tokens = {palloc(sizeof(Token) * (strlen(part) + 1)), 0};
	core_yy_extra_type extra;
	core_yyscan_t scanner = scanner_init(part, &extra, &ScanKeywords, ScanKeywordTokens);
	core_YYSTYPE value;
	YYLTYPE		location;
	int			depth = 0;
	int			code;

	while ((code = core_yylex(&value, &location, scanner)) != 0)
	{
		Token	   *token = &tokens.items[tokens.count++];

		if (code == ')' || code == ']')
			depth--;
		token->code = code;
		token->depth = depth;
		token->span.start = span.start + location;

		/* The scanner ends the token that it has just returned with a zero. */
		token->span.end = token->span.start + (int) strlen(extra.scanbuf + location);
		if (code == '(' || code == '[')
			depth++;
	}
	scanner_finish(scanner);
	return tokens;
}

static void
check_has_text(const SlDdl *ddl)
{
	if (ddl->has_text)
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("a statement on a table whose rows are on shards cannot be part of another one"),
			errhint("Run it as a statement of its own."));
}

SlSpan
sl_ddl_whole(const SlDdl *ddl)
{
	SlSpan		span = {ddl->start, ddl->start + ddl->length};

	check_has_text(ddl);
	return span;
}

/* Returns the whole statement. */
char *
sl_ddl_text(const SlDdl *ddl)
{
	check_has_text(ddl);
	return pnstrdup(ddl->source + ddl->start, ddl->length);
}

static int
compare_changes(const ListCell *a, const ListCell *b)
{
	const SlChange *one = lfirst(a);
	const SlChange *other = lfirst(b);

	return one->span.start - other->span.start;
}

/* Returns a part of the source with some changes. */
char *
sl_ddl_changed(const SlDdl *ddl, SlSpan span, List *changes)
{
	StringInfoData result;
	int			at = span.start;
	ListCell   *cell;

	check_has_text(ddl);
	initStringInfo(&result);
	list_sort(changes, compare_changes);
	foreach(cell, changes)
	{
		const SlChange *change = lfirst(cell);

		appendBinaryStringInfo(&result, ddl->source + at, change->span.start - at);
		appendStringInfoString(&result, change->replacement);
		at = change->span.end;
	}
	appendBinaryStringInfo(&result, ddl->source + at, span.end - at);
	return result.data;
}

/* How many tokens does the name of a relation take, "a.b.c" for instance? */
static int
name_length(const Tokens *tokens)
{
	int			length = 1;

	while (length + 1 < tokens->count && tokens->items[length].code == '.')
		length += 2;
	return length;
}

/* Returns where a type is named, after ALTER TYPE or ALTER DOMAIN. */
SlSpan
sl_ddl_type_span(const SlDdl *ddl)
{
	Tokens		tokens = scan_tokens(ddl, sl_ddl_whole(ddl));
	Tokens		name = {tokens.items + 2, tokens.count - 2};
	SlSpan		span;

	if (name.count < 1)
		elog(ERROR, "no type is named in the statement");
	span.start = name.items[0].span.start;
	span.end = name.items[name_length(&name) - 1].span.end;
	return span;
}

/* Returns where a relation is named. */
static SlSpan
find_name_span(const SlDdl *ddl, const RangeVar *name)
{
	SlSpan		rest = {name->location, ddl->start + ddl->length};
	Tokens		tokens;

	check_has_text(ddl);
	if (name->location < ddl->start || name->location >= rest.end)
		elog(ERROR, "relation \"%s\" is not named in the statement", name->relname);
	tokens = scan_tokens(ddl, rest);
	rest.end = tokens.items[name_length(&tokens) - 1].span.end;
	return rest;
}

/* Adds the change that gives a relation another name. */
List *
sl_ddl_rename_in(const SlDdl *ddl, List *changes, const RangeVar *name, const char *qualified)
{
	SlChange   *change = palloc(sizeof(SlChange));

	change->span = find_name_span(ddl, name);
	change->replacement = qualified;
	return lappend(changes, change);
}

static SlSpan *
make_span(int start, int end)
{
	SlSpan	   *span = palloc(sizeof(SlSpan));

	span->start = start;
	span->end = end;
	return span;
}

/* Where do the subcommands begin, after "(name)" or "name *"? */
static int
first_subcommand(const Tokens *tokens)
{
	int			first = name_length(tokens);

	while (first < tokens->count &&
		   (tokens->items[first].code == ')' || tokens->items[first].code == '*'))
		first++;
	return first;
}

/*
 * Returns the spans of the subcommands of ALTER TABLE: what stands between
 * commas outside of parentheses, without comments around it.
 */
List *
sl_ddl_split(const SlDdl *ddl, const RangeVar *relation)
{
	SlSpan		rest = {relation->location, ddl->start + ddl->length};
	Tokens		tokens;
	List	   *result = NIL;
	int			first;
	int			depth;

	check_has_text(ddl);
	tokens = scan_tokens(ddl, rest);
	first = first_subcommand(&tokens);
	depth = first < tokens.count ? tokens.items[first].depth : 0;
	for (int i = first; i <= tokens.count; i++)
	{
		bool		is_end = i == tokens.count || tokens.items[i].code == ';';

		if (!is_end && (tokens.items[i].code != ',' || tokens.items[i].depth != depth))
			continue;
		if (i > first)
			result = lappend(result, make_span(tokens.items[first].span.start,
											   tokens.items[i - 1].span.end));
		first = i + 1;
		if (is_end)
			break;
	}
	return result;
}

char *
sl_ddl_literal(const char *value)
{
	return value != NULL ? quote_literal_cstr(value) : pstrdup("NULL");
}
