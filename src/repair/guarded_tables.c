/*
 * guarded_tables.c
 *		The tables of maps, and the reference tables, that a shard has.
 *
 * The guard of a table, a trigger, has the map and the key columns as its arguments;
 * that of the copy of a reference table has none.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "repair/rebuild.h"

/* Arguments of a trigger are strings that end with a zero byte. */
static const char tables_sql[] =
"SELECT n.nspname, pg_catalog.format('%I.%I', n.nspname, c.relname), pg_catalog.encode(t.tgargs, 'hex'), p.proname"
" FROM pg_catalog.pg_trigger t"
" JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) t.tgfoid"
" JOIN pg_catalog.pg_namespace f ON f.oid OPERATOR(pg_catalog.=) p.pronamespace"
" JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.tgrelid"
" JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
" WHERE f.nspname OPERATOR(pg_catalog.=) 'shardlet_internal' AND t.tgparentid OPERATOR(pg_catalog.=) 0::pg_catalog.oid"
" AND NOT c.relispartition"
" AND (p.proname OPERATOR(pg_catalog.=) 'guard_reference'"
"  OR p.proname OPERATOR(pg_catalog.=) 'guard' AND (t.tgtype OPERATOR(pg_catalog.&) 1::pg_catalog.int2) OPERATOR(pg_catalog.<>) 0::pg_catalog.int2)"
" ORDER BY 2";

enum
{
	T_SCHEMA, T_NAME, T_ARGUMENTS, T_FUNCTION, T_COLUMNS
};

static void
read_arguments(const char *hex, SlGuardedTable *table)
{
	int			size = (int) strlen(hex) / 2;
	char	   *bytes = palloc(size + 1);
	char	   *end;
	StringInfoData key;

	bytes[hex_decode(hex, size * 2, bytes)] = '\0';
	table->map = bytes;
	end = bytes + size;
	initStringInfo(&key);
	for (char *argument = bytes + strlen(bytes) + 1; argument < end; argument += strlen(argument) + 1)
		appendStringInfo(&key, "%s%s", key.len > 0 ? ", " : "", quote_identifier(argument));
	table->key = key.len > 0 ? key.data : NULL;
}

/* Returns the tables with a guard on a shard: a list of SlGuardedTable *. */
List *
sl_rebuild_read_tables(SlShard *shard)
{
	SlTarget	target = sl_remote_target(shard);
	SlConn	   *conn;
	List	   *result = NIL;
	ListCell   *cell;

	target.plain_path = true;
	conn = sl_remote_open(&target);
	foreach(cell, sl_remote_rows(conn, tables_sql, 0, NULL, T_COLUMNS))
	{
		char	  **values = lfirst(cell);
		SlGuardedTable *table = palloc0(sizeof(SlGuardedTable));

		table->schema = values[T_SCHEMA];
		table->name = values[T_NAME];
		if (strcmp(values[T_FUNCTION], "guard") == 0)
			read_arguments(values[T_ARGUMENTS], table);
		result = lappend(result, table);
	}
	sl_conn_close(conn);
	return result;
}
