/*
 * shardlet_condition.c
 *		The range of a shardlet as an SQL condition on key columns.
 *
 * It uses built-in immutable functions and operators only, so that it can be a
 * row filter of a publication and runs on any PostgreSQL.  Key columns are
 * cast to the map's types, as routing does.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "deparse/ownership_filter.h"

/* A list's default is what no key names: more keys are not written out. */
#define MAX_NAMED_KEYS 1000

/* Collatable types are compared bytewise, as the map does. */
static const char *
collation_of(const SlKeyType *type)
{
	return OidIsValid(type->order_collation) ? " COLLATE pg_catalog.\"C\"" : "";
}

static char *
type_name(Oid type)
{
	return format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

static char *
text_element(ArrayType *array, int index)
{
	Datum	   *values;
	int			count;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, NULL, &count);
	if (index >= count)
		elog(ERROR, "a bound has %d values", count);
	return TextDatumGetCString(values[index]);
}

/* Replaces $1, $2 ... of a map's "via" expression by columns. */
static char *
via_sql(const SlMap *map, List *columns)
{
	StringInfoData sql;
	char		quote = '\0';

	initStringInfo(&sql);
	for (const char *at = map->via_text; *at != '\0'; at++)
	{
		if (quote == '\0' && *at == '$' && at[1] >= '1' && at[1] <= '9')
		{
			char	   *end;
			long		number = strtol(at + 1, &end, 10);

			if (number > list_length(columns))
				elog(ERROR, "the rule of map \"%s\" names column %ld", NameStr(map->name), number);
			appendStringInfo(&sql, "(%s::%s)", (char *) list_nth(columns, (int) number - 1),
							 type_name(map->key_oids[number - 1]));
			at = end - 1;
			continue;
		}
		if (*at == '\'' || *at == '"')
			quote = quote == '\0' ? *at : quote == *at ? '\0' : quote;
		appendStringInfoChar(&sql, *at);
	}
	return sql.data;
}

/*
 * Returns the looked-up value number "index", as an expression over columns.
 */
static char *
value_sql(const SlMap *map, List *columns, int index)
{
	const SlKeyType *type = &map->value_types[index];

	return psprintf("(%s)::%s%s",
					map->via != NULL ? via_sql(map, columns) : (char *) list_nth(columns, index),
					type_name(type->type), collation_of(type));
}

static void
add_comparison(StringInfo sql, SlMap *map, List *columns, int index, const char *operator,
			   const char *value)
{
	appendStringInfo(sql, "%s%s OPERATOR(pg_catalog.%s) %s::%s", sql->len > 0 ? " AND " : "",
					 value_sql(map, columns, index), operator, quote_literal_cstr(value),
					 type_name(map->value_types[index].type));
}

static char *
tokens_sql(const SlMap *map, const SlShardletRow *range, List *columns)
{
	char	   *expressions[SL_MAX_KEYS];
	char	   *token;
	StringInfoData sql;
	ListCell   *cell;

	foreach(cell, columns)
		expressions[foreach_current_index(cell)] = lfirst(cell);
	token = sl_key_token_sql(map->key_oids, map->key_count, expressions);
	initStringInfo(&sql);
	appendStringInfo(&sql, "%s OPERATOR(pg_catalog.>=) '%lld'::pg_catalog.int8", token,
					 (long long) range->low_token);
	if (range->has_high_token)
		appendStringInfo(&sql, " AND %s OPERATOR(pg_catalog.<) '%lld'::pg_catalog.int8", token,
						 (long long) range->high_token);
	return sql.data;
}

static char *
values_sql(SlMap *map, const SlShardletRow *range, List *columns)
{
	StringInfoData sql;

	initStringInfo(&sql);
	if (range->low != NULL)
		add_comparison(&sql, map, columns, 0, ">=", text_element(range->low, 0));
	if (range->high != NULL)
		add_comparison(&sql, map, columns, 0, "<", text_element(range->high, 0));
	if (sql.len == 0)
		appendStringInfo(&sql, "%s IS NOT NULL", value_sql(map, columns, 0));
	return sql.data;
}

static char *
key_sql(SlMap *map, ArrayType *key, List *columns)
{
	StringInfoData sql;

	initStringInfo(&sql);
	for (int i = 0; i < map->value_count; i++)
		add_comparison(&sql, map, columns, i, "=", text_element(key, i));
	return sql.data;
}

typedef struct Default
{
	SlMap	   *map;
	List	   *columns;
	StringInfoData sql;
	int			count;
} Default;

static bool
leave_out(const SlShardletRow *row, void *context)
{
	Default    *rest = context;

	if (row->is_default)
		return true;
	if (++rest->count > MAX_NAMED_KEYS)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("default shardlet of map \"%s\" cannot be moved", NameStr(rest->map->name)),
				errdetail("The map has more than %d keys of its own, which a condition would have to name.",
						  MAX_NAMED_KEYS));
	appendStringInfo(&rest->sql, " AND NOT (%s)", key_sql(rest->map, row->low, rest->columns));
	return true;
}

/* A list's default: everything but the keys of the map. */
static char *
default_sql(SlMap *map, List *columns)
{
	Default		rest = {.map = map,.columns = columns};

	initStringInfo(&rest.sql);
	appendStringInfo(&rest.sql, "%s IS NOT NULL", value_sql(map, columns, 0));
	sl_shardlet_row_scan(map->id, NULL, leave_out, &rest);
	return rest.sql.data;
}

/*
 * Writes the condition that a row is in the range.  The columns, SQL
 * expressions, are those of the table's key, qualified as the statement needs
 * it.
 */
char *
sl_range_sql(SlMap *map, const SlShardletRow *range, List *columns)
{
	switch (map->kind)
	{
		case SL_KIND_HASH:
			return tokens_sql(map, range, columns);
		case SL_KIND_RANGE:
			return values_sql(map, range, columns);
		case SL_KIND_LIST:
			return range->is_default ? default_sql(map, columns) : key_sql(map, range->low, columns);
		default:
			return pstrdup("true");
	}
}
