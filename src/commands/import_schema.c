/*
 * import_schema.c
 *		IMPORT FOREIGN SCHEMA: attach() for all tables of a schema.
 *
 * With OPTIONS (map 'm', key 'customer_id') the tables become sharded; the server
 * says from which shard the list of tables is taken.  Without, they are placed on the
 * shard that the server is.  PostgreSQL would run the commands that are returned, but
 * takes CREATE FOREIGN TABLE only.  So the tables are made right away, and no command
 * is returned.
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "utils/guc.h"

#include "access/access.h"
#include "base/base.h"
#include "base/hooks.h"
#include "commands/commands.h"

static const char tables_sql[] =
"SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
" WHERE n.nspname = $1::text AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
" AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')"
" ORDER BY c.relname COLLATE \"C\"";

static void
read_options(const ImportForeignSchemaStmt *statement, SlAttachment *attachment)
{
	ListCell   *cell;

	attachment->verify = true;
	foreach(cell, statement->options)
	{
		DefElem    *option = lfirst(cell);

		if (strcmp(option->defname, SL_OPTION_MAP) == 0)
			attachment->map = sl_map_open_at_rest(defGetString(option));
		else if (strcmp(option->defname, SL_OPTION_KEY) == 0)
			attachment->key = defGetString(option);
		else if (strcmp(option->defname, "verify") == 0)
			attachment->verify = defGetBoolean(option);
		else
			ereport(ERROR,
					errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					errmsg("invalid option \"%s\"", option->defname),
					errhint("Valid options in this context are: map, key, verify"));
	}
	if (attachment->map == NULL && attachment->key != NULL)
		ereport(ERROR,
				errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				errmsg("option \"key\" needs option \"map\""));
}

/* Names on router and shards are the same, schemas included. */
static void
check_schema(const ImportForeignSchemaStmt *statement)
{
	if (strcmp(statement->local_schema, statement->remote_schema) != 0)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("schema \"%s\" of the shards cannot be imported into schema \"%s\"",
					   statement->remote_schema, statement->local_schema),
				errdetail("A table has the same name on the router and on the shards, its schema included."),
				errhint("CREATE SCHEMA %s, and import INTO that.", statement->remote_schema));
}

static SlConn *
list_connection(SlAttachment *attachment, Oid server)
{
	for (int i = 0; i < attachment->count; i++)
	{
		if (attachment->replies[i].shard->server == server)
			return attachment->replies[i].conn;
	}
	return attachment->replies[0].conn;
}

static List *
list_tables(SlConn *conn, const char *schema)
{
	SlTxnUse	use = {0};
	int			level = sl_definition_begin_output();
	List	   *rows;

	sl_txn_join(conn, &use);
	rows = sl_remote_rows(conn, tables_sql, 1, &schema, 1);
	AtEOXact_GUC(true, level);
	return rows;
}

static List *
import_schema(ImportForeignSchemaStmt *statement, Oid server)
{
	SlAttachment attachment = {0};
	ListCell   *cell;

	read_options(statement, &attachment);
	check_schema(statement);
	if (attachment.map == NULL)
		attachment.shard = sl_shard_by_name(statement->server_name, false);
	sl_attach_begin(&attachment);
	foreach(cell, list_tables(list_connection(&attachment, server), statement->remote_schema))
	{
		char	  **row = lfirst(cell);

		if (row[0] == NULL || !IsImportableForeignTable(row[0], statement))
			continue;
		(void) sl_attach_create_shell(&attachment, sl_attach_read(&attachment, statement->remote_schema, row[0]));
	}
	return NIL;
}

void
sl_import_init(void)
{
	sl_hooks.import_foreign_schema = import_schema;
}
