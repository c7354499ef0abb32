/*
 * foreign_key.c
 *		Foreign keys between tables that live on shards.
 *
 * A shard checks a foreign key if both rows are always on the same shard: both
 * tables belong to one map and the key columns of the one refer to those of the
 * other, or the other is a reference table, or both are placed on one shard.
 *
 * Tables are distributed one after the other, and the order must not matter.  A
 * foreign key whose other side is still a plain local table is set aside in
 * shardlet.catalog_foreign_key, with a NOTICE, and is put in place on the shards
 * as soon as that side arrives there.
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
#include "table/table_area.h"

/* $1: a table.  Those that it has and those that others have to it. */
static const char find_sql[] =
"SELECT k.conname::text, k.conrelid, k.confrelid, pg_get_constraintdef(k.oid),"
" ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY c(attnum, place)"
"  JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = c.attnum ORDER BY c.place),"
" ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY c(attnum, place)"
"  JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = c.attnum ORDER BY c.place),"
" k.oid, r.relname::text"
" FROM pg_constraint k JOIN pg_class r ON r.oid = k.conrelid"
" WHERE k.contype = 'f' AND k.conparentid = 0 AND (k.conrelid = $1 OR k.confrelid = $1"
"  OR k.conrelid IN (SELECT relid FROM pg_partition_tree($1::regclass)))"
" UNION ALL"
" SELECT p.constraint_name::text, p.tbl::oid, p.referenced::oid, p.definition, p.columns::text[], p.referenced_columns::text[],"
" 0::oid, r.relname::text"
" FROM shardlet.catalog_foreign_key p JOIN pg_class r ON r.oid = p.tbl JOIN pg_class s ON s.oid = p.referenced"
" WHERE p.tbl = $1 OR p.referenced = $1"
" ORDER BY 8, 1";

/*
 * Runs a query on our own table for a caller that has the right to call the
 * function, and none on the table.  Nothing of the caller's must be found by a name
 * in it, or it would run with all rights.
 */
static void
run_as_owner(const char *sql, int count, Oid *types, Datum *params)
{
	Oid			user;
	int			context;
	int			result;
	int			level = sl_definition_begin_output();

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, context | SECURITY_LOCAL_USERID_CHANGE);
	result = SPI_execute_with_args(sql, count, types, params, NULL, false, 0);
	SetUserIdAndSecContext(user, context);
	AtEOXact_GUC(true, level);
	if (result < 0)
		elog(ERROR, "could not use the table of foreign keys");
}

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

/* Returns where the text goes on behind a parenthesis, outside of quoted names. */
static const char *
find_outside(const char *position, char parenthesis)
{
	bool		is_quoted = false;

	for (; *position != '\0'; position++)
	{
		if (*position == '"')
			is_quoted = !is_quoted;
		else if (*position == parenthesis && !is_quoted)
			return position;
	}
	elog(ERROR, "definition of a foreign key is incomplete");
}

/* The table that it refers to may have another name than when it was set aside. */
static char *
with_current_name(const char *definition, Oid referenced)
{
	static const char word[] = " REFERENCES ";
	const char *end = find_outside(definition, ')') + 1;
	const char *columns = find_outside(end, '(');

	if (strncmp(end, word, strlen(word)) != 0)
		elog(ERROR, "definition of a foreign key is incomplete");
	return psprintf("%.*s%s%s%s", (int) (end - definition), definition, word,
					quote_qualified_identifier(get_namespace_name(get_rel_namespace(referenced)),
											   get_rel_name(referenced)), columns);
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
	if (!OidIsValid(key->constraint))
		key->definition = with_current_name(key->definition, key->referenced);
	return key;
}

/* Returns the foreign keys from and to a table, and those set aside. */
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
	run_as_owner(find_sql, lengthof(types), types, params);
	MemoryContextSwitchTo(context);
	for (uint64 i = 0; i < SPI_processed; i++)
		result = lappend(result, read_key(SPI_tuptable->vals[i], SPI_tuptable->tupdesc));
	SPI_finish();
	AtEOXact_GUC(true, level);
	return result;
}

static Datum
make_names(List *names)
{
	Datum	   *elements = palloc(sizeof(Datum) * Max(list_length(names), 1));
	int			count = 0;
	ListCell   *cell;

	foreach(cell, names)
		elements[count++] = CStringGetTextDatum(lfirst(cell));
	return PointerGetDatum(construct_array(elements, count, TEXTOID, -1, false, TYPALIGN_INT));
}

/* Keeps a foreign key for later, and says so once. */
void
sl_foreign_key_set_aside(const SlForeignKey *key)
{
	bool		is_new;
	Oid			types[] = {OIDOID, TEXTOID, OIDOID, TEXTOID, TEXTARRAYOID, TEXTARRAYOID};
	Datum		params[] = {ObjectIdGetDatum(key->relid), CStringGetTextDatum(key->name),
		ObjectIdGetDatum(key->referenced), CStringGetTextDatum(key->definition),
	make_names(key->columns), make_names(key->referenced_columns)};

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	run_as_owner("DELETE FROM shardlet.catalog_foreign_key k WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c"
				 " WHERE c.oid OPERATOR(pg_catalog.=) k.tbl) OR NOT EXISTS (SELECT FROM pg_catalog.pg_class c"
				 " WHERE c.oid OPERATOR(pg_catalog.=) k.referenced)", 0, NULL, NULL);
	run_as_owner("INSERT INTO shardlet.catalog_foreign_key VALUES ($1::pg_catalog.regclass, $2::name, $3::pg_catalog.regclass,"
				 " $4, $5::name[], $6::name[]) ON CONFLICT DO NOTHING",
				 lengthof(types), types, params);
	is_new = SPI_processed > 0;
	SPI_finish();
	if (is_new)
		ereport(NOTICE,
				errmsg("foreign key \"%s\" of table \"%s\" is set aside", key->name, get_rel_name(key->relid)),
				errdetail("It will be put in place on the shards when the other one of tables \"%s\" and \"%s\" lives there.",
						  get_rel_name(key->relid), get_rel_name(key->referenced)));
}

/* Forgets one that was set aside. */
void
sl_foreign_key_forget(const SlForeignKey *key)
{
	Oid			types[] = {OIDOID, TEXTOID};
	Datum		params[] = {ObjectIdGetDatum(key->relid), CStringGetTextDatum(key->name)};

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	run_as_owner("DELETE FROM shardlet.catalog_foreign_key WHERE tbl OPERATOR(pg_catalog.=) $1 AND constraint_name OPERATOR(pg_catalog.=) $2",
				 lengthof(types), types, params);
	SPI_finish();
}

/* Forgets all that a table has to do with. */
void
sl_foreign_key_forget_table(Oid relid)
{
	Oid			types[] = {OIDOID};
	Datum		params[] = {ObjectIdGetDatum(relid)};

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	run_as_owner("DELETE FROM shardlet.catalog_foreign_key WHERE tbl OPERATOR(pg_catalog.=) $1 OR referenced OPERATOR(pg_catalog.=) $1",
				 lengthof(types), types, params);
	SPI_finish();
}

/* Do the key columns of the one refer to those of the other, one by one? */
static bool
follows_key(const SlForeignKey *key, const SlTable *from, const SlTable *to)
{
	for (int i = 0; i < from->key_count; i++)
	{
		const char *name = get_attname(from->relid, from->key[i], false);
		const char *referenced = get_attname(to->relid, to->key[i], false);
		bool		is_found = false;
		ListCell   *cell;
		ListCell   *other;

		forboth(cell, key->columns, other, key->referenced_columns)
			is_found = is_found || (strcmp(lfirst(cell), name) == 0 &&
									strcmp(lfirst(other), referenced) == 0);
		if (!is_found)
			return false;
	}
	return from->key_count > 0;
}

/* Can shards check it: is what it refers to always on the same shard? */
bool
sl_foreign_key_holds(const SlForeignKey *key, const SlTable *from, const SlTable *to)
{
	if (to->kind == SL_TABLE_REFERENCE)
		return true;
	if (from->kind == SL_TABLE_PLACED && to->kind == SL_TABLE_PLACED)
		return from->shard_id == to->shard_id;
	return from->kind == SL_TABLE_SHARDED && to->kind == SL_TABLE_SHARDED &&
		strcmp(from->map, to->map) == 0 && follows_key(key, from, to);
}

/* How one that was set aside is given up for good. */
static char *
forget_sql(const SlForeignKey *key)
{
	char	   *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(key->relid)),
												  get_rel_name(key->relid));

	return psprintf("DELETE FROM shardlet.catalog_foreign_key WHERE tbl = %s::regclass AND constraint_name = %s;",
					quote_literal_cstr(name), quote_literal_cstr(key->name));
}

/* Refuses one that no shard could check. */
void
sl_foreign_key_refuse(const SlForeignKey *key)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("foreign key \"%s\" of table \"%s\" cannot hold across shards",
				   key->name, get_rel_name(key->relid)),
			errdetail("%s: the rows that it connects may be on different shards.", key->definition),
			errhint("Both tables must belong to one map, with the key columns part of the foreign key, or \"%s\" must be a reference table. Otherwise drop the foreign key%s%s",
					get_rel_name(key->referenced), OidIsValid(key->constraint) ? "." : ": ",
					OidIsValid(key->constraint) ? "" : forget_sql(key)));
}

/* Columns may have been renamed or dropped since it was set aside. */
static void
check_columns(const SlForeignKey *key, Oid relid, List *columns)
{
	ListCell   *cell;

	foreach(cell, columns)
	{
		if (get_attnum(relid, lfirst(cell)) == InvalidAttrNumber)
			ereport(ERROR,
					errcode(ERRCODE_UNDEFINED_COLUMN),
					errmsg("column \"%s\" of table \"%s\" does not exist, which foreign key \"%s\" needs",
						   (char *) lfirst(cell), get_rel_name(relid), key->name),
					errdetail("The foreign key was set aside, and the column renamed or dropped since."),
					errhint("Rename it back, or give the foreign key up: %s", forget_sql(key)));
	}
}

char *
sl_foreign_key_add_sql(const SlForeignKey *key)
{
	check_columns(key, key->relid, key->columns);
	check_columns(key, key->referenced, key->referenced_columns);
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
find_here(const char *schema, const char *name)
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
 * Returns the foreign keys from and to a table of a shard, where both tables are
 * known here by the same names; a side that is not is invalid.
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
	foreach(cell, sl_remote_rows(conn, remote_sql, lengthof(params), params))
	{
		char	  **values = lfirst(cell);
		SlForeignKey *key = palloc0(sizeof(SlForeignKey));

		key->name = values[0];
		key->relid = find_here(values[1], values[2]);
		key->referenced = find_here(values[3], values[4]);
		key->definition = values[5];
		key->columns = parse_names(values[6]);
		key->referenced_columns = parse_names(values[7]);
		keys = lappend(keys, key);
	}
	AtEOXact_GUC(true, level);
	return keys;
}

/* Makes one that was set aside part of the definition of its table. */
static void
add_to_definition(SlDefinition *definition, const SlForeignKey *key)
{
	SlDefinitionItem *item = palloc0(sizeof(SlDefinitionItem));
	ListCell   *cell;
	int			place = 0;

	item->phase = SL_PHASE_FOREIGN_KEYS;
	item->kind = "foreign_key";
	item->name = key->name;
	item->ddl = sl_foreign_key_add_sql(key);
	foreach(cell, definition->items)
	{
		if (((SlDefinitionItem *) lfirst(cell))->phase <= SL_PHASE_FOREIGN_KEYS)
			place++;
	}
	definition->items = list_insert_nth(definition->items, place, item);
}

/* A foreign key of the table itself; it is in the definition, or was set aside. */
static void
settle_own(const SlForeignKey *key, const SlTable *target, SlDefinition *definition)
{
	const SlTable *to = key->referenced == target->relid ? target : sl_table_get(key->referenced);
	SlDefinitionItem *item = sl_definition_find(definition, "foreign_key",
												key->relid == target->relid ? key->name :
												psprintf("%s.%s", get_rel_name(key->relid), key->name));

	if (to != NULL && !sl_foreign_key_holds(key, target, to))
		sl_foreign_key_refuse(key);
	if (to == NULL && OidIsValid(key->constraint))
	{
		sl_foreign_key_set_aside(key);
		if (item != NULL)
			item->ddl = NULL;
	}
	if (to != NULL && !OidIsValid(key->constraint))
	{
		add_to_definition(definition, key);
		sl_foreign_key_forget(key);
	}
}

static void
drop_constraint(Oid constraint)
{
	ObjectAddress address;

	ObjectAddressSet(address, ConstraintRelationId, constraint);
	performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
}

/*
 * Before a table goes to the shards: decides what becomes of each of its foreign
 * keys, and refuses those that cannot hold.
 */
void
sl_foreign_key_plan_own(const SlTable *target, SlDefinition *definition)
{
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list(target->relid))
	{
		SlForeignKey *key = lfirst(cell);

		if (key->relid == target->relid || key->referenced != target->relid)
			settle_own(key, target, definition);
	}
}

/* The same for those that other tables have to it. */
void
sl_foreign_key_plan_others(const SlTable *target)
{
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list(target->relid))
	{
		SlForeignKey *key = lfirst(cell);
		const SlTable *from;

		if (key->referenced != target->relid || key->relid == target->relid)
			continue;
		from = sl_table_get(key->relid);
		if (from != NULL && !sl_foreign_key_holds(key, from, target))
			sl_foreign_key_refuse(key);
		if (from != NULL || !OidIsValid(key->constraint))
			continue;
		sl_foreign_key_set_aside(key);
		drop_constraint(key->constraint);
		CommandCounterIncrement();
	}
}

/*
 * A table has come to the shards, with its keys: puts in place what was set
 * aside until then in tables that were there before.
 */
void
sl_foreign_key_arrive(const SlTable *table)
{
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list(table->relid))
	{
		SlForeignKey *key = lfirst(cell);
		const SlTable *from = sl_table_get(key->relid);
		SlReply    *replies;
		int			count;

		if (OidIsValid(key->constraint) || key->referenced != table->relid || from == NULL ||
			from->kind == SL_TABLE_REFERENCE)
			continue;
		if (!sl_foreign_key_holds(key, from, table))
			sl_foreign_key_refuse(key);
		replies = sl_command_begin(sl_table_homes(from), true, &count);
		sl_command_everywhere(replies, count, sl_foreign_key_add_sql(key), 0, NULL, true);
		sl_foreign_key_forget(key);
	}
}
