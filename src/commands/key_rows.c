/*
 * key_rows.c
 *		key_tables, delete_key, export_key: the rows of one key in all tables of its map.
 *
 * They are ordinary statements on the router's tables, each of which goes to the one
 * shard that owns the key.  So privileges, transactions, moves and shards that are away
 * are dealt with as everywhere.  Row security must not hide rows: where it would, the
 * statement is refused.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "base/base.h"
#include "commands/key_rows.h"
#include "executor/multi_shard.h"

PG_FUNCTION_INFO_V1(shardlet_key_tables);
PG_FUNCTION_INFO_V1(shardlet_delete_key);
PG_FUNCTION_INFO_V1(shardlet_export_key);

/* What a row has besides its values. */
#define ROW_HEADER 24

/* Rows of an export that are fetched at a time. */
#define EXPORT_ROWS 1000

/* The circumstances of the statements: all rows, and values that any session reads alike. */
int
sl_key_rows_begin(void)
{
	int			level = sl_map_begin_plain_output();

	(void) set_config_option("row_security", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	return level;
}

void
sl_key_rows_end(int level)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "could not disconnect from SPI");
	sl_map_end_plain_output(level);
}

/* key_tables -------------------------------------------------------------------------- */

enum
{
	KEY_TABLE, KEY_TABLE_ROWS, KEY_TABLE_BYTES, KEY_TABLE_COLUMNS
};

static List *
columns_of(Oid relid, bool only_copied)
{
	List	   *result = NIL;
	Relation	relation = RelationIdGetRelation(relid);
	TupleDesc	descriptor = RelationGetDescr(relation);

	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, i);

		if (!column->attisdropped && (!only_copied || column->attgenerated == '\0'))
			result = lappend(result, pstrdup(quote_identifier(NameStr(column->attname))));
	}
	RelationClose(relation);
	return result;
}

/* Counts rows and the bytes of their values. */
static char *
size_sql(const SlKeyTable *table)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT pg_catalog.count(*), coalesce(pg_catalog.sum(%d", ROW_HEADER);
	foreach(cell, columns_of(table->relid, false))
		appendStringInfo(&sql, " OPERATOR(pg_catalog.+) coalesce(pg_catalog.pg_column_size(%s), 0)", (char *) lfirst(cell));
	appendStringInfo(&sql, "), 0) FROM %s WHERE %s", table->name, table->condition);
	return sql.data;
}

/* key_tables(map, VARIADIC key) */
Datum
shardlet_key_tables(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SlKeyRows  *rows;
	ListCell   *cell;
	int			level;

	InitMaterializedSRF(fcinfo, 0);
	rows = sl_key_rows_open(fcinfo, 1, false);
	sl_key_rows_warn_keyless(rows, "Its rows that refer to rows of the key are not counted.");
	level = sl_key_rows_begin();
	foreach(cell, rows->tables)
	{
		const SlKeyTable *table = lfirst(cell);
		Datum		values[KEY_TABLE_COLUMNS];
		bool		nulls[KEY_TABLE_COLUMNS] = {0};
		bool		is_null;

		if (SPI_execute(size_sql(table), true, 0) != SPI_OK_SELECT || SPI_processed != 1)
			elog(ERROR, "could not count rows of table %s", table->name);
		values[KEY_TABLE] = ObjectIdGetDatum(table->relid);
		values[KEY_TABLE_ROWS] = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null);
		values[KEY_TABLE_BYTES] = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2, &is_null);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		SPI_freetuptable(SPI_tuptable);
	}
	sl_key_rows_end(level);
	return (Datum) 0;
}

/* The number of rows of the key; between sl_key_rows_begin() and _end(). */
int64
sl_key_rows_count(const SlKeyTable *table)
{
	bool		is_null;
	int64		count;

	if (SPI_execute(psprintf("SELECT pg_catalog.count(*) FROM %s WHERE %s", table->name, table->condition),
					false, 0) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "could not count rows of table %s", table->name);
	count = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null));
	SPI_freetuptable(SPI_tuptable);
	return count;
}

/* delete_key -------------------------------------------------------------------------- */

/* delete_key(map, VARIADIC key) */
Datum
shardlet_delete_key(PG_FUNCTION_ARGS)
{
	SlKeyRows  *rows;
	int			level;

	sl_check_writable("shardlet.delete_key()");
	rows = sl_key_rows_open(fcinfo, 1, true);
	sl_key_rows_warn_keyless(rows, "What becomes of its rows that refer to rows of the key is what the foreign key says: they go too, lose the reference, or keep the key from being deleted.");
	level = sl_key_rows_begin();
	for (int i = list_length(rows->tables) - 1; i >= 0; i--)
	{
		const SlKeyTable *table = list_nth(rows->tables, i);

		if (SPI_execute(psprintf("DELETE FROM %s WHERE %s", table->name, table->condition), false, 0) != SPI_OK_DELETE)
			elog(ERROR, "could not delete rows of table %s", table->name);
		ereport(NOTICE,
				errmsg_plural("table %s: %lld row deleted", "table %s: %lld rows deleted", SPI_processed,
							  table->name, (long long) SPI_processed));
	}
	sl_key_rows_end(level);
	PG_RETURN_VOID();
}

/* export_key -------------------------------------------------------------------------- */

static void
put_line(ReturnSetInfo *result, const char *line, int length)
{
	Datum		value = PointerGetDatum(cstring_to_text_with_len(line, length));
	bool		is_null = false;

	tuplestore_putvalues(result->setResult, result->setDesc, &value, &is_null);
	pfree(DatumGetPointer(value));
}

static void
put_string(ReturnSetInfo *result, const char *line)
{
	put_line(result, line, (int) strlen(line));
}

static char *
join(List *strings)
{
	return strings == NIL ? "" : sl_table_list_names(strings);
}

/* Writes fetched rows, each as a line. */
static uint64
put_rows(ReturnSetInfo *result, const SPITupleTable *fetched, uint64 count)
{
	StringInfoData line;

	initStringInfo(&line);
	for (uint64 i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		resetStringInfo(&line);
		for (int j = 1; j <= fetched->tupdesc->natts; j++)
		{
			char	   *value = SPI_getvalue(fetched->vals[i], fetched->tupdesc, j);

			if (j > 1)
				appendStringInfoCharMacro(&line, '\t');
			sl_copy_row_put_text(&line, value);
			if (value != NULL)
				pfree(value);
		}
		put_line(result, line.data, line.len);
	}
	pfree(line.data);
	return count;
}

/* A COPY of the rows that one table has, if there are any. */
static void
export_table(ReturnSetInfo *result, const SlKeyTable *table)
{
	char	   *columns = join(columns_of(table->relid, true));
	char	   *sql = psprintf("SELECT %s FROM %s WHERE %s", columns, table->name, table->condition);
	SPIPlanPtr	plan = SPI_prepare(sql, 0, NULL);
	Portal		portal;
	bool		has_rows = false;

	if (plan == NULL)
		elog(ERROR, "could not read rows of table %s", table->name);
	portal = SPI_cursor_open(NULL, plan, NULL, NULL, true);
	for (;;)
	{
		SPI_cursor_fetch(portal, true, EXPORT_ROWS);
		if (SPI_processed == 0)
			break;
		if (!has_rows)
			put_string(result, psprintf("COPY %s (%s) FROM stdin;", table->name, columns));
		has_rows = true;
		(void) put_rows(result, SPI_tuptable, SPI_processed);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(portal);
	if (has_rows)
		put_string(result, "\\.");
}

/* export_key(map, VARIADIC key) */
Datum
shardlet_export_key(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SlKeyRows  *rows;
	ListCell   *cell;
	int			level;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	rows = sl_key_rows_open(fcinfo, 1, false);
	sl_key_rows_warn_keyless(rows, "Its rows that refer to rows of the key are left out.");
	put_string(result, "-- Rows of one key, in the order of foreign keys: for psql.");
	put_string(result, "\\set ON_ERROR_STOP on");
	put_string(result, psprintf("SET client_encoding = %s;", quote_literal_cstr(pg_get_client_encoding_name())));
	put_string(result, "BEGIN;");
	put_string(result, "SET CONSTRAINTS ALL DEFERRED;");
	level = sl_key_rows_begin();
	foreach(cell, rows->tables)
		export_table(result, lfirst(cell));
	sl_key_rows_end(level);
	put_string(result, "COMMIT;");
	return (Datum) 0;
}
