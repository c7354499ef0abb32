/*
 * copy_key.c
 *		copy_key: the rows of one key come from another database.
 *
 * The source is a restored backup, or the router of another cluster: any database that
 * has the tables under the same names.  It is read through a connection of its own, in
 * one snapshot, and its rows go as text through COPY to the shard that owns the key, as
 * part of the session's transaction.  So it is all or nothing, and triggers, foreign
 * keys and the guard of the shard see the rows as they see any others.
 *
 * One COPY for a table: foreign keys are checked at its end, so rows may refer to later
 * ones of the same table.
 *
 * As with shards, only a superuser may connect with what the server process itself has.
 */
#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "commands/key_rows.h"
#include "executor/multi_shard.h"

PG_FUNCTION_INFO_V1(shardlet_copy_key);

/* What the source is called in messages: its address may hold a password. */
#define SOURCE_NAME "source of copy_key"

/* Rows that are fetched at a time. */
#define FETCH_ROWS 1000

/* The source ---------------------------------------------------------------------------- */

static SlConn *
open_source(const char *conninfo)
{
	SlTarget	target = {.shard = SOURCE_NAME,.plain_path = true};
	SlConn	   *conn;
	ListCell   *cell;

	foreach(cell, sl_option_parse_conninfo(conninfo))
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (sl_option_is_credential(option->defname))
			target.credentials = lappend(target.credentials, option);
		else
			target.options = lappend(target.options, option);
	}
	if (!superuser() && sl_option_get(target.credentials, "password") == NULL)
		ereport(ERROR,
				errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
				errmsg("password is required to connect to the source"),
				errdetail("Only a superuser may connect without a password in the connection string."));
	conn = sl_remote_open(&target);
	conn->plain_values = true;
	(void) sl_remote_exec(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", 0, NULL);
	(void) sl_remote_exec(conn, "SET LOCAL row_security = off", 0, NULL);
	return conn;
}

/* The columns that have values of their own: names. */
static List *
copied_columns(Oid relid)
{
	Relation	relation = RelationIdGetRelation(relid);
	TupleDesc	descriptor = RelationGetDescr(relation);
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_copy_row_columns(descriptor))
		result = lappend(result, pstrdup(NameStr(TupleDescAttr(descriptor, lfirst_int(cell) - 1)->attname)));
	RelationClose(relation);
	return result;
}

static bool
has_name(List *names, const char *name)
{
	ListCell   *cell;

	foreach(cell, names)
	{
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	}
	return false;
}

static void
refuse_column(const SlKeyTable *table, const char *detail)
{
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("table %s differs in the source", table->name),
			errdetail_internal("%s", detail),
			errhint("Make the tables alike, there or here."));
}

#define COLUMNS_SQL \
	"SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1)::pg_catalog.oid" \
	" AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped AND a.attgenerated OPERATOR(pg_catalog.=) ''"

/* Fails if the source has not the same columns: values would be lost. */
static void
check_columns(SlConn *source, const SlKeyTable *table, List *columns)
{
	const char *param = table->name;
	List	   *rows = sl_remote_rows(source, COLUMNS_SQL, 1, &param, 1);
	List	   *names = NIL;
	ListCell   *cell;

	if (rows == NIL)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("table %s does not exist in the source", table->name),
				errhint("Create it there, empty if it has no rows of the key."));
	foreach(cell, rows)
	{
		const char *name = ((char **) lfirst(cell))[0];

		if (name == NULL)
			sl_protocol_refuse_null(source);
		if (!has_name(columns, name))
			refuse_column(table, psprintf("Column \"%s\" is only there, and its values would be lost.", name));
		names = lappend(names, (void *) name);
	}
	foreach(cell, columns)
	{
		if (!has_name(names, lfirst(cell)))
			refuse_column(table, psprintf("Column \"%s\" is not there.", (char *) lfirst(cell)));
	}
}

/* Rows ---------------------------------------------------------------------------------- */

/* The connections to shards do not know of the router's privileges. */
static void
check_rights(const SlKeyTable *table)
{
	if (pg_class_aclcheck(table->relid, GetUserId(), ACL_INSERT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, table->label);
	if (check_enable_rls(table->relid, InvalidOid, false) == RLS_ENABLED)
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("rows of table %s cannot be copied", table->name),
				errdetail("It has row security, which COPY does not check."),
				errhint("Use a role that bypasses row security."));
}

static char *
quote_columns(List *columns)
{
	List	   *quoted = NIL;
	ListCell   *cell;

	foreach(cell, columns)
		quoted = lappend(quoted, (void *) quote_identifier(lfirst(cell)));
	return sl_table_list_names(quoted);
}

/* Sends a batch of rows as the lines of COPY. */
static void
put_rows(SlCopyToShards *copy, SlShard *shard, List *rows, int width)
{
	StringInfoData line;
	ListCell   *cell;

	initStringInfo(&line);
	foreach(cell, rows)
	{
		char	  **values = lfirst(cell);

		resetStringInfo(&line);
		for (int i = 0; i < width; i++)
		{
			if (i > 0)
				appendStringInfoCharMacro(&line, '\t');
			sl_copy_row_put_text(&line, values[i]);
		}
		appendStringInfoCharMacro(&line, '\n');
		sl_copy_to_shards_put(copy, shard, line.data, line.len);
	}
}

/* Copies the rows of one table; returns how many the source has sent. */
static int64
copy_rows(SlConn *source, const SlKeyTable *table, SlShard *shard)
{
	List	   *columns = copied_columns(table->relid);
	char	   *names = quote_columns(columns);
	char	   *sql = psprintf("COPY %s (%s) FROM STDIN", table->name, names);
	SlCopyToShards *copy = sl_copy_to_shards_begin(sql, false, GetUserId(), NULL);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet rows of the source", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	int64		sent = 0;
	int			count;

	check_columns(source, table, columns);
	(void) sl_remote_exec(source, psprintf("DECLARE shardlet_copy_key NO SCROLL CURSOR FOR SELECT %s FROM %s WHERE %s",
										   names, table->name, table->condition), 0, NULL);
	do
	{
		List	   *rows;

		MemoryContextReset(context);
		CHECK_FOR_INTERRUPTS();
		rows = sl_remote_rows(source, psprintf("FETCH %d FROM shardlet_copy_key", FETCH_ROWS), 0, NULL, list_length(columns));
		count = list_length(rows);
		put_rows(copy, shard, rows, list_length(columns));
		sent += count;
	} while (count > 0);
	(void) sl_remote_exec(source, "CLOSE shardlet_copy_key", 0, NULL);
	MemoryContextSwitchTo(old_context);
	sl_fault("copy_key_rows");
	if ((int64) sl_copy_to_shards_end(copy) != sent)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("shard \"%s\" did not take all rows of table %s", NameStr(shard->name), table->name));
	MemoryContextDelete(context);
	return sent;
}

/* The target must have none of the key's rows, or there would be a mixture of two states. */
static void
check_no_rows(const SlKeyRows *rows)
{
	ListCell   *cell;

	foreach(cell, rows->tables)
	{
		const SlKeyTable *table = lfirst(cell);

		check_rights(table);
		if (sl_key_rows_count(table) > 0)
			ereport(ERROR,
					errcode(SL_ERR_EXISTS),
					errmsg("table %s already has rows of the key", table->name),
					errdetail("They are on shard \"%s\".", NameStr(rows->shard->name)),
					errhint("CALL shardlet.delete_key() removes all rows of a key."));
	}
}

/* What has come is there, and nothing that another session has written meanwhile. */
static void
check_count(const SlKeyTable *table, int64 sent)
{
	int64		found = sl_key_rows_count(table);

	if (found != sent)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("table %s has %lld rows of the key, and %lld were copied", table->name, (long long) found,
					   (long long) sent),
				errhint("A trigger of the shard, or another session, has written to the table; try again when the key is not used."));
}

/* copy_key(map, source, VARIADIC key) */
Datum
shardlet_copy_key(PG_FUNCTION_ARGS)
{
	SlKeyRows  *rows;
	SlConn	   *source;
	ListCell   *cell;
	int			level;
	int64	   *sent;

	sl_check_writable("shardlet.copy_key()");
	sl_check_sees_all("shardlet.copy_key()");
	rows = sl_key_rows_open(fcinfo, 2, true);
	level = sl_key_rows_begin();
	check_no_rows(rows);
	source = open_source(sl_map_arg_text(fcinfo, 1, "source"));
	sl_key_rows_warn_keyless(rows, "Its rows that refer to rows of the key are not copied.");
	sent = palloc(sizeof(int64) * Max(list_length(rows->tables), 1));
	foreach(cell, rows->tables)
		sent[foreach_current_index(cell)] = copy_rows(source, lfirst(cell), rows->shard);
	sl_conn_close(source);
	foreach(cell, rows->tables)
	{
		const SlKeyTable *table = lfirst(cell);
		int64		count = sent[foreach_current_index(cell)];

		check_count(table, count);
		ereport(NOTICE,
				errmsg_plural("table %s: %lld row copied", "table %s: %lld rows copied", (unsigned long) count,
							  table->name, (long long) count));
	}
	sl_key_rows_end(level);
	PG_RETURN_VOID();
}
