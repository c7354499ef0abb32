/*
 * key_tables.c
 *		Which tables have rows of one key, and in which order of foreign keys.
 *
 * The tables are those of the map, which the router knows.  Foreign keys are read on
 * the shard that owns the key: a shard may have some that the router does not know,
 * above all of tables without the key, which no map can have.  Those of the router's
 * own tables are read there.
 *
 * The tables are locked before the owner is looked up.  So a move that switches the
 * shardlet afterwards waits for this transaction before it removes rows.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "commands/key_rows.h"
#include "executor/multi_shard.h"

/* Tables ---------------------------------------------------------------------------- */

/* The condition that the key's columns have these values. */
static char *
make_condition(SlMap *map, const SlTable *table, char **values)
{
	StringInfoData sql;

	initStringInfo(&sql);
	for (int i = 0; i < table->key_count; i++)
		appendStringInfo(&sql, "%s%s OPERATOR(pg_catalog.=) %s::%s", i > 0 ? " AND " : "",
						 quote_identifier(get_attname(table->relid, table->key[i], false)), quote_literal_cstr(values[i]),
						 format_type_extended(map->key_oids[i], -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
	return sql.data;
}

static bool
is_of(const SlMap *map, const SlTable *table)
{
	return table->kind == SL_TABLE_SHARDED && !table->is_partition && strcmp(table->map, NameStr(map->name)) == 0;
}

static int
compare_names(const ListCell *a, const ListCell *b)
{
	const SlKeyTable *left = lfirst(a);
	const SlKeyTable *right = lfirst(b);
	int			order = strcmp(left->schema, right->schema);

	return order != 0 ? order : strcmp(left->label, right->label);
}

/* All tables of the map, locked, in the order of their names. */
static List *
list_tables(SlMap *map, const Datum *key, LOCKMODE lockmode)
{
	char	   *values[SL_MAX_KEYS];
	int			nest_level = sl_map_begin_plain_output();
	List	   *result = NIL;
	ListCell   *cell;

	for (int i = 0; i < map->key_count; i++)
		values[i] = sl_key_to_text(&map->key_types[i], key[i]);
	sl_map_end_plain_output(nest_level);
	foreach(cell, sl_table_all())
	{
		Oid			relid = ((const SlTable *) lfirst(cell))->relid;
		const SlTable *table;
		SlKeyTable *found;

		if (!is_of(map, lfirst(cell)))
			continue;
		LockRelationOid(relid, lockmode);
		table = sl_table_get(relid);
		if (table == NULL || !is_of(map, table))
			continue;
		found = palloc0(sizeof(SlKeyTable));
		found->relid = relid;
		found->schema = get_namespace_name(get_rel_namespace(relid));
		found->label = get_rel_name(relid);
		found->name = quote_qualified_identifier(found->schema, found->label);
		found->condition = make_condition(map, table, values);
		result = lappend(result, found);
	}
	list_sort(result, compare_names);
	return result;
}

/* Foreign keys ------------------------------------------------------------------------ */

/*
 * Each with its table and the one that it refers to; for partitions, the partitioned
 * ones.
 */
#define FOREIGN_KEY_COLUMNS 5
#define FOREIGN_KEY_SQL \
	"SELECT DISTINCT k.conname::pg_catalog.text, fn.nspname::pg_catalog.text, f.relname::pg_catalog.text, tn.nspname::pg_catalog.text, t.relname::pg_catalog.text" \
	" FROM pg_catalog.pg_constraint k" \
	" JOIN pg_catalog.pg_class f ON f.oid OPERATOR(pg_catalog.=) coalesce(pg_catalog.pg_partition_root(k.conrelid)::pg_catalog.oid, k.conrelid)" \
	" JOIN pg_catalog.pg_namespace fn ON fn.oid OPERATOR(pg_catalog.=) f.relnamespace" \
	" JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) coalesce(pg_catalog.pg_partition_root(k.confrelid)::pg_catalog.oid, k.confrelid)" \
	" JOIN pg_catalog.pg_namespace tn ON tn.oid OPERATOR(pg_catalog.=) t.relnamespace" \
	" WHERE k.contype OPERATOR(pg_catalog.=) 'f' AND k.conparentid OPERATOR(pg_catalog.=) 0::pg_catalog.oid ORDER BY 2, 3, 1"

static SlKeyTable *
find_table(const SlKeyRows *rows, const char *schema, const char *label)
{
	ListCell   *cell;

	foreach(cell, rows->tables)
	{
		SlKeyTable *table = lfirst(cell);

		if (strcmp(table->schema, schema) == 0 && strcmp(table->label, label) == 0)
			return table;
	}
	return NULL;
}

static bool
is_known(const SlKeyRows *rows, const char *name, const char *constraint)
{
	ListCell   *cell;

	foreach(cell, rows->keyless)
	{
		const SlKeylessTable *other = lfirst(cell);

		if (strcmp(other->name, name) == 0 && strcmp(other->constraint, constraint) == 0)
			return true;
	}
	return false;
}

/* Notes a foreign key that refers to a table of the map. */
static void
note_foreign_key(SlKeyRows *rows, char **values)
{
	SlKeyTable *from = find_table(rows, values[1], values[2]);
	SlKeyTable *to = find_table(rows, values[3], values[4]);
	char	   *name = quote_qualified_identifier(values[1], values[2]);
	SlKeylessTable *keyless;

	if (to == NULL)
		return;
	if (from != NULL)
	{
		from->referenced = list_append_unique_ptr(from->referenced, to);
		return;
	}
	if (is_known(rows, name, values[0]))
		return;
	keyless = palloc(sizeof(SlKeylessTable));
	keyless->name = name;
	keyless->referenced = to->name;
	keyless->constraint = values[0];
	rows->keyless = lappend(rows->keyless, keyless);
}

static void
read_keys_of_shard(SlKeyRows *rows)
{
	SlTxnUse	use = {0};
	SlReply    *replies;
	ListCell   *cell;
	int			count;

	replies = sl_command_begin(list_make1(rows->shard), false, &count);
	sl_txn_join(replies[0].conn, &use);
	foreach(cell, sl_remote_rows(replies[0].conn, FOREIGN_KEY_SQL, 0, NULL, FOREIGN_KEY_COLUMNS))
	{
		char	  **values = lfirst(cell);

		for (int i = 0; i < FOREIGN_KEY_COLUMNS; i++)
		{
			if (values[i] == NULL)
				sl_protocol_refuse_null(replies[0].conn);
		}
		note_foreign_key(rows, values);
	}
}

static void
read_keys_of_router(SlKeyRows *rows)
{
	MemoryContext context = CurrentMemoryContext;

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute(FOREIGN_KEY_SQL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not look for foreign keys");
	MemoryContextSwitchTo(context);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		char	   *values[FOREIGN_KEY_COLUMNS];

		for (int j = 0; j < FOREIGN_KEY_COLUMNS; j++)
			values[j] = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, j + 1);
		note_foreign_key(rows, values);
	}
	SPI_finish();
}

/* Order ------------------------------------------------------------------------------- */

/* Puts a table behind those that it refers to; in a circle, one has to be first. */
static List *
list_in_order(List *result, SlKeyTable *table)
{
	ListCell   *cell;

	check_stack_depth();
	if (table->is_listed)
		return result;
	table->is_listed = true;
	foreach(cell, table->referenced)
		result = list_in_order(result, lfirst(cell));
	return lappend(result, table);
}

/*
 * Returns the tables that may have rows of the key that begins at an argument, after
 * the map, which is the first argument.
 */
SlKeyRows *
sl_key_rows_open(FunctionCallInfo fcinfo, int first, bool writes)
{
	SlKeyRows  *rows = palloc0(sizeof(SlKeyRows));
	const SlShardlet *shardlet;
	SlKeyArgs	args;
	Datum		key[SL_MAX_KEYS];
	List	   *sorted = NIL;
	ListCell   *cell;

	sl_key_check_collation(PG_GET_COLLATION());
	rows->map = sl_map_get(sl_map_arg_name(fcinfo, 0, "map"));
	sl_key_args_get(fcinfo, first, &args);
	sl_map_coerce_key(rows->map, false, &args, key);
	rows->tables = list_tables(rows->map, key, writes ? RowExclusiveLock : AccessShareLock);

	/* The map may have changed while locks were waited for. */
	rows->map = sl_map_get(NameStr(rows->map->name));
	sl_map_coerce_key(rows->map, false, &args, key);
	shardlet = sl_map_lookup(rows->map, key);
	if (writes)
		sl_map_check_writable(rows->map, shardlet);
	else
		sl_map_check_readable(rows->map, shardlet);
	rows->shard = shardlet->shard;
	read_keys_of_shard(rows);
	read_keys_of_router(rows);
	foreach(cell, rows->tables)
		sorted = list_in_order(sorted, lfirst(cell));
	rows->tables = sorted;
	return rows;
}

/*
 * Names the tables that refer to rows of the key and have no key by which theirs could
 * be found.  The outcome is a sentence: what becomes of these rows.
 */
void
sl_key_rows_warn_keyless(const SlKeyRows *rows, const char *outcome)
{
	ListCell   *cell;

	foreach(cell, rows->keyless)
	{
		const SlKeylessTable *keyless = lfirst(cell);

		ereport(WARNING,
				errmsg("table %s refers to table %s and is not a table of map \"%s\"", keyless->name,
					   keyless->referenced, NameStr(rows->map->name)),
				errdetail("Foreign key \"%s\". %s", keyless->constraint, outcome));
	}
}
