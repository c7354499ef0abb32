/*
 * foreign_key.c
 *		Foreign keys between distributed tables: finding them, and what each needs.
 *
 * A shard checks a foreign key if both rows are always on the same shard: both
 * tables belong to one map and the key columns of the one refer to those of the
 * other, or the other is a reference table, or both are placed on one shard.  It also
 * checks one that refers to a unique constraint which each shard enforces for
 * itself (local_unique): rows that belong together have the same key then, because
 * the application gives it to them, and another shard's row is none to refer to.
 *
 * A foreign key is never off without the user's knowledge.  Tables that refer to
 * each other are distributed together (foreign_key_plan.c); one that cannot be kept
 * is dropped only if the user has asked for that, and with a WARNING.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "ddl/definition.h"

/* $1: a table.  Those that it has and those that others have to it. */
static const char find_sql[] =
"SELECT k.conname::text, k.conrelid, k.confrelid, pg_get_constraintdef(k.oid),"
" ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY c(attnum, place)"
"  JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = c.attnum ORDER BY c.place),"
" ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY c(attnum, place)"
"  JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = c.attnum ORDER BY c.place),"
" k.oid, r.relname::text"
" FROM pg_constraint k JOIN pg_class r ON r.oid = k.conrelid"
" WHERE k.contype = 'f' AND k.conparentid = 0 AND ($1 IN (k.conrelid, k.confrelid)"
"  OR k.conrelid IN (SELECT relid FROM pg_partition_tree($1::regclass))"
"  OR k.confrelid IN (SELECT relid FROM pg_partition_tree($1::regclass)))"
" ORDER BY r.relname, k.conname";

static List *
read_names(HeapTuple tuple, TupleDesc descriptor, int column)
{
	bool		is_null;
	Datum		array = SPI_getbinval(tuple, descriptor, column, &is_null);
	Datum	   *elements;
	int			count;
	List	   *names = NIL;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT,
					  &elements, NULL, &count);
	for (int i = 0; i < count; i++)
		names = lappend(names, TextDatumGetCString(elements[i]));
	return names;
}

static Oid
read_oid(HeapTuple tuple, TupleDesc descriptor, int column)
{
	bool		is_null;

	return DatumGetObjectId(SPI_getbinval(tuple, descriptor, column, &is_null));
}

static SlForeignKey *
read_key(HeapTuple tuple, TupleDesc descriptor)
{
	SlForeignKey *key = palloc0(sizeof(SlForeignKey));

	key->name = SPI_getvalue(tuple, descriptor, 1);
	key->relid = read_oid(tuple, descriptor, 2);
	key->referenced = read_oid(tuple, descriptor, 3);
	key->definition = SPI_getvalue(tuple, descriptor, 4);
	key->columns = read_names(tuple, descriptor, 5);
	key->referenced_columns = read_names(tuple, descriptor, 6);
	key->constraint = read_oid(tuple, descriptor, 7);
	return key;
}

/* Returns the foreign keys from and to a table and its partitions, in order of names. */
List *
sl_foreign_key_list(Oid relid)
{
	MemoryContext context = CurrentMemoryContext;
	Oid			types[] = {OIDOID};
	Datum		params[] = {ObjectIdGetDatum(relid)};
	List	   *result = NIL;
	int			level = sl_definition_begin_output();

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	if (SPI_execute_with_args(find_sql, lengthof(types), types, params, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not look for foreign keys");
	MemoryContextSwitchTo(context);
	for (uint64 i = 0; i < SPI_processed; i++)
		result = lappend(result, read_key(SPI_tuptable->vals[i], SPI_tuptable->tupdesc));
	SPI_finish();
	AtEOXact_GUC(true, level);
	return result;
}

/*
 * Returns the names of the columns at the other end of a foreign key, one for each of
 * the given ones; NIL if one of these is not part of it, or none was given.
 */
List *
sl_foreign_key_follow(const SlForeignKey *key, List *columns, bool to_referenced)
{
	List	   *from = to_referenced ? key->columns : key->referenced_columns;
	List	   *to = to_referenced ? key->referenced_columns : key->columns;
	List	   *result = NIL;
	ListCell   *column;

	foreach(column, columns)
	{
		char	   *found = NULL;

		for (int i = 0; i < list_length(from); i++)
		{
			if (strcmp(list_nth(from, i), lfirst(column)) == 0)
				found = list_nth(to, i);
		}
		if (found == NULL)
			return NIL;
		result = lappend(result, found);
	}
	return result;
}

/* Does the foreign key connect the key columns of two tables of one map? */
bool
sl_foreign_key_follows(const SlForeignKey *key, List *key_columns, List *referenced_key)
{
	List	   *found = sl_foreign_key_follow(key, key_columns, true);

	if (found == NIL || list_length(found) != list_length(referenced_key))
		return false;
	for (int i = 0; i < list_length(found); i++)
	{
		if (strcmp(list_nth(found, i), list_nth(referenced_key, i)) != 0)
			return false;
	}
	return true;
}

/*
 * Does a foreign key refer to a unique constraint that each shard enforces for
 * itself, since the table has local_unique and the columns referred to lack its shard
 * key?  Then the shards enforce the foreign key as well, if both tables are of one
 * map: a row's key has to be that of the row it refers to, and this is not checked
 * as long as the rows of both keys are on one shard.
 */
bool
sl_foreign_key_is_local(List *referenced_columns, bool is_local_unique, List *referenced_key)
{
	ListCell   *cell;
	ListCell   *other;

	if (!is_local_unique)
		return false;
	foreach(cell, referenced_key)
	{
		bool		is_found = false;

		foreach(other, referenced_columns)
			is_found = is_found || strcmp(lfirst(cell), lfirst(other)) == 0;
		if (!is_found)
			return true;
	}
	return false;
}

/* The names of a table's key columns. */
List *
sl_foreign_key_columns_of(const SlTable *table)
{
	List	   *names = NIL;

	for (int i = 0; i < table->key_count; i++)
		names = lappend(names, get_attname(table->relid, table->key[i], false));
	return names;
}

char *
sl_foreign_key_add_sql(const SlForeignKey *key)
{
	return psprintf("ALTER TABLE %s ADD CONSTRAINT %s %s",
					quote_qualified_identifier(get_namespace_name(get_rel_namespace(key->relid)),
											   get_rel_name(key->relid)),
					quote_identifier(key->name), key->definition);
}

/* The command that takes it away again. */
char *
sl_foreign_key_drop_sql(const SlForeignKey *key)
{
	return psprintf("ALTER TABLE %s DROP CONSTRAINT %s",
					quote_qualified_identifier(get_namespace_name(get_rel_namespace(key->relid)),
											   get_rel_name(key->relid)),
					quote_identifier(key->name));
}

/* $1, $2: a table of a shard. */
#define REMOTE_COLUMNS 8
static const char remote_sql[] =
"SELECT k.conname, fn.nspname, f.relname, tn.nspname, t.relname, pg_get_constraintdef(k.oid),"
" ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY c(attnum, place)"
"  JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = c.attnum ORDER BY c.place),"
" ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY c(attnum, place)"
"  JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = c.attnum ORDER BY c.place)"
" FROM pg_constraint k JOIN pg_class f ON f.oid = k.conrelid JOIN pg_namespace fn ON fn.oid = f.relnamespace"
" JOIN pg_class t ON t.oid = k.confrelid JOIN pg_namespace tn ON tn.oid = t.relnamespace"
" WHERE k.contype = 'f' AND k.conparentid = 0"
"  AND ((fn.nspname = $1::text AND f.relname = $2::text) OR (tn.nspname = $1::text AND t.relname = $2::text))"
" ORDER BY 2, 3, 1";

static Oid
find_on_router(const char *schema, const char *name)
{
	Oid			namespace = get_namespace_oid(schema, true);

	return OidIsValid(namespace) ? get_relname_relid(name, namespace) : InvalidOid;
}

static List *
parse_names(const char *array)
{
	FmgrInfo	input;
	Datum		value;
	Datum	   *elements;
	int			count;
	List	   *names = NIL;

	fmgr_info(F_ARRAY_IN, &input);
	value = InputFunctionCall(&input, pstrdup(array), TEXTOID, -1);
	deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT,
					  &elements, NULL, &count);
	for (int i = 0; i < count; i++)
		names = lappend(names, TextDatumGetCString(elements[i]));
	return names;
}

/*
 * Returns the foreign keys from and to a table of a shard, where the router knows
 * both tables by the same names; a side that it does not know is invalid.
 */
List *
sl_foreign_key_list_remote(SlConn *conn, const char *schema, const char *name)
{
	const char *params[] = {schema, name};
	SlTxnUse	use = {0};
	int			level = sl_definition_begin_output();
	List	   *keys = NIL;
	ListCell   *cell;

	sl_txn_join(conn, &use);
	foreach(cell, sl_remote_rows(conn, remote_sql, lengthof(params), params, REMOTE_COLUMNS))
	{
		char	  **values = lfirst(cell);
		SlForeignKey *key = palloc0(sizeof(SlForeignKey));

		for (int i = 0; i < REMOTE_COLUMNS; i++)
		{
			if (values[i] == NULL)
				sl_protocol_refuse_null(conn);
		}

		key->name = values[0];
		key->relid = find_on_router(values[1], values[2]);
		key->referenced = find_on_router(values[3], values[4]);
		key->definition = values[5];
		key->columns = parse_names(values[6]);
		key->referenced_columns = parse_names(values[7]);
		keys = lappend(keys, key);
	}
	AtEOXact_GUC(true, level);
	return keys;
}

/*
 * Says that a foreign key is gone, and how to get it back.  The reason is a whole
 * sentence.
 */
void
sl_foreign_key_warn(const SlForeignKey *key, const char *reason, const char *when)
{
	ereport(WARNING,
			errmsg("foreign key \"%s\" of table \"%s\" is dropped", key->name, get_rel_name(key->relid)),
			errdetail("%s", reason),
			errhint("%s: %s;", when, sl_foreign_key_add_sql(key)));
}
