/*
 * map_tables.c
 *		The tables of a map, as a move sees them.
 *
 * Rows are compared by the sum of a hash over all columns, which does not depend
 * on their order.  A built-in type is hashed by PostgreSQL's own functions; where
 * a value could hash differently on another server, such as that of an enum,
 * its text is.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "base/base.h"
#include "deparse/ownership_filter.h"
#include "executor/multi_shard.h"
#include "move/move.h"

/* Are values of the type hashed alike on every server? */
static bool
is_hashed_alike(Oid type)
{
	Oid			element = get_element_type(type);

	if (OidIsValid(element) && !is_hashed_alike(element))
		return false;
	return type < FirstNormalObjectId && get_typtype(type) == TYPTYPE_BASE &&
		!sl_key_names_local_object(type) &&
		OidIsValid(lookup_type_cache(type, TYPECACHE_HASH_EXTENDED_PROC)->hash_extended_proc);
}

/* A column as it is hashed: an expression of that type. */
static char *
hashed_column(Form_pg_attribute column, Oid hashed_type)
{
	return psprintf("%s::%s%s", quote_identifier(NameStr(column->attname)),
					format_type_extended(hashed_type, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY),
					OidIsValid(get_typcollation(hashed_type)) ? " COLLATE pg_catalog.\"C\"" : "");
}

/*
 * Columns are hashed one by one where there is a function for that, with their
 * number as the seed: to make a record first would take half of the time.  All
 * others are a record.
 */
static char *
make_checksum(TupleDesc columns)
{
	StringInfoData sql;
	StringInfoData rest;

	initStringInfo(&sql);
	initStringInfo(&rest);
	for (int i = 0; i < columns->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(columns, i);
		Oid			hashed_type;
		const char *function;

		if (column->attisdropped)
			continue;
		hashed_type = getBaseType(column->atttypid);
		if (!is_hashed_alike(hashed_type))
			hashed_type = TEXTOID;
		function = sl_key_hash_function(hashed_type);
		if (function != NULL)
			appendStringInfo(&sql, "coalesce(pg_catalog.%s(%s, %d), %d) OPERATOR(pg_catalog.#) ", function,
							 hashed_column(column, hashed_type), i + 1, i + 1);
		else
			appendStringInfo(&rest, "%s%s", rest.len > 0 ? ", " : "", hashed_column(column, hashed_type));
	}
	if (rest.len > 0)
		appendStringInfo(&sql, "pg_catalog.hash_record_extended(ROW(%s), 0)", rest.data);
	else
		appendStringInfoString(&sql, "0::pg_catalog.int8");
	return sql.data;
}

static char *
make_columns(TupleDesc columns, List *numbers)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	foreach(cell, numbers)
		appendStringInfo(&sql, "%s%s", foreach_current_index(cell) > 0 ? ", " : "",
						 quote_identifier(NameStr(TupleDescAttr(columns, lfirst_int(cell) - 1)->attname)));
	return sql.data;
}

/* Writes strings as an array, for a parameter. */
static char *
form_text_array(List *strings)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(list_length(strings), 1));
	ListCell   *cell;

	foreach(cell, strings)
		values[foreach_current_index(cell)] = CStringGetTextDatum(lfirst(cell));
	return OidOutputFunctionCall(F_ARRAY_OUT,
								 PointerGetDatum(construct_array(values, list_length(strings), TEXTOID, -1, false,
																 TYPALIGN_INT)));
}

/* The tables' names as an array, for a parameter. */
char *
sl_move_form_table_names(List *tables)
{
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, tables)
		names = lappend(names, ((SlMoveTable *) lfirst(cell))->name);
	return form_text_array(names);
}

/* The names of all columns. */
static List *
name_columns(TupleDesc columns)
{
	List	   *result = NIL;

	for (int i = 0; i < columns->natts; i++)
	{
		if (!TupleDescAttr(columns, i)->attisdropped)
			result = lappend(result, pstrdup(NameStr(TupleDescAttr(columns, i)->attname)));
	}
	return result;
}

/* A column that has no equality to find a row by; NULL: there is none. */
static char *
find_incomparable(TupleDesc columns)
{
	for (int i = 0; i < columns->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(columns, i);

		if (!column->attisdropped && column->attgenerated == '\0' &&
			!OidIsValid(lookup_type_cache(column->atttypid, TYPECACHE_EQ_OPR)->eq_opr))
			return pstrdup(NameStr(column->attname));
	}
	return NULL;
}

static SlMoveTable *
describe_table(SlMap *map, const SlShardletRow *range, const SlTable *table)
{
	Relation	relation = table_open(table->relid, AccessShareLock);
	TupleDesc	columns = RelationGetDescr(relation);
	List	   *copied = sl_copy_row_columns(columns);
	List	   *keys = NIL;
	List	   *names = NIL;
	SlMoveTable *result = palloc0(sizeof(SlMoveTable));

	for (int i = 0; i < table->key_count; i++)
	{
		Form_pg_attribute column = TupleDescAttr(columns, table->key[i] - 1);

		names = lappend(names, pstrdup(NameStr(column->attname)));
		keys = lappend(keys, pstrdup(quote_identifier(NameStr(column->attname))));
		result->has_generated_key = result->has_generated_key || column->attgenerated != '\0';
	}
	result->column_names = form_text_array(name_columns(columns));
	result->key_names = form_text_array(names);
	result->relid = table->relid;
	result->schema = get_namespace_name(RelationGetNamespace(relation));
	result->label = pstrdup(RelationGetRelationName(relation));
	result->name = quote_qualified_identifier(result->schema, result->label);
	result->columns = make_columns(columns, copied);
	result->is_binary = copied != NIL && sl_copy_row_is_binary(sl_copy_row_make(columns, copied));
	result->checksum = make_checksum(columns);
	result->incomparable = find_incomparable(columns);
	result->condition = sl_range_sql(map, range, keys);

	/* A lock kept would make the move wait for itself. */
	table_close(relation, AccessShareLock);
	return result;
}

static bool
is_of(const SlMap *map, const SlTable *table)
{
	return table->kind == SL_TABLE_SHARDED && strcmp(table->map, NameStr(map->name)) == 0;
}

/* All tables of the map, with the condition for the range: SlMoveTables. */
List *
sl_move_list_tables(SlMap *map, const SlShardletRow *range)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		if (is_of(map, lfirst(cell)))
			result = lappend(result, describe_table(map, range, lfirst(cell)));
	}
	return result;
}

/* The OIDs of these, in order. */
List *
sl_move_list_relations(SlMap *map)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);

		if (is_of(map, table))
			result = lappend_oid(result, table->relid);
	}
	list_sort(result, list_oid_cmp);
	return result;
}
