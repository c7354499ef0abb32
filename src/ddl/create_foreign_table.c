/*
 * create_foreign_table.c
 *		The foreign table on the router for a table that the shards have.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "ddl/definition.h"

/* How a type of this database was made; NULL if there is none of that name. */
static char *
type_on_router(const char *name)
{
	MemoryContext context = CurrentMemoryContext;
	Oid			types[] = {TEXTOID};
	Datum		params[] = {CStringGetTextDatum(name)};
	int			level = sl_definition_begin_output();
	char	   *result = NULL;

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args(sl_definition_type_sql, lengthof(types), types, params, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the definition of type %s", name);
	if (SPI_processed > 0)
		result = MemoryContextStrdup(context, SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1));
	SPI_finish();
	AtEOXact_GUC(true, level);
	return result;
}

static void
make_type_on_router(const SlDefinition *definition, const SlDefinitionItem *item)
{
	char	   *on_router = type_on_router(item->name);

	if (on_router == NULL && item->ddl == NULL)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("type %s does not exist", item->name),
				errdetail("The shards' table uses it."),
				errhint("Create the type here first."));
	if (on_router == NULL)
		sl_received_run(item->ddl, definition->schema, definition->name);
	else if (item->ddl != NULL && strcmp(item->ddl, on_router) != 0)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("type %s differs on the shards", item->name),
				errdetail("Here: %s\nOn the shards: %s", on_router, item->ddl));
}

/* Makes the schemas and types that the table needs, where they are missing. */
void
sl_definition_make_types_on_router(const SlDefinition *definition)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (strcmp(item->kind, "schema") == 0 &&
			!OidIsValid(get_namespace_oid(item->name, true)))
			sl_received_run(item->ddl, definition->schema, definition->name);
		else if (strcmp(item->kind, "type") == 0)
			make_type_on_router(definition, item);
	}
}

/* A CHECK constraint as it stands in CREATE TABLE. */
static const char *
check_clause(const SlDefinition *definition, const SlDefinitionItem *item)
{
	char	   *start = psprintf("ALTER TABLE %s ADD ", quote_qualified_identifier(definition->schema,
																				   definition->name));

	if (strncmp(item->ddl, start, strlen(start)) != 0)
		sl_received_refuse(item->ddl, definition->schema, definition->name);
	return item->ddl + strlen(start);
}

/* A column as it stands in CREATE TABLE, with the name that NOT NULL has. */
static const char *
column_clause(const SlDefinition *definition, const SlDefinitionItem *item)
{
	const SlDefinitionItem *name = sl_definition_find(definition, "not_null_name", item->name);

	Size		length = strlen(item->ddl);
	Size		rest = strlen(" NOT NULL");

	if (name == NULL)
		return item->ddl;
	if (length < rest || strcmp(item->ddl + length - rest, " NOT NULL") != 0)
		sl_received_refuse(item->ddl, definition->schema, definition->name);
	return psprintf("%.*s%s NOT NULL", (int) (length - rest), item->ddl, name->ddl);
}

static void
add_columns(StringInfo sql, const SlDefinition *definition)
{
	bool		has_next_id = sl_definition_has_next_id();
	const char *separator = "";
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (item->level > 0 ||
			(strcmp(item->kind, "column") != 0 && strcmp(item->kind, "check") != 0))
			continue;
		appendStringInfo(sql, "%s%s", separator,
						 item->phase == SL_PHASE_CHECKS ? check_clause(definition, item) :
						 column_clause(definition, item));
		if (item->phase == SL_PHASE_COLUMNS && has_next_id &&
			sl_definition_find(definition, "id_default", item->name) != NULL)
			appendStringInfoString(sql, " DEFAULT shardlet.next_id()");
		separator = ", ";
	}
}

/* Returns the command that makes the foreign table. */
char *
sl_definition_foreign_table_sql(const SlDefinition *definition, List *options)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE FOREIGN TABLE %s (",
					 quote_qualified_identifier(definition->schema, definition->name));
	add_columns(&sql, definition);
	appendStringInfo(&sql, ") SERVER %s OPTIONS (", SL_TABLES_SERVER_NAME);
	foreach(cell, options)
	{
		DefElem    *option = lfirst(cell);

		appendStringInfo(&sql, "%s%s %s", foreach_current_index(cell) > 0 ? ", " : "",
						 quote_identifier(option->defname), quote_literal_cstr(defGetString(option)));
	}
	appendStringInfoChar(&sql, ')');
	return sql.data;
}

/* Refreshing ------------------------------------------------------------------ */

typedef struct Refresh
{
	char	   *table;			/* qualified and quoted */
	const SlDefinition *on_router;
	const SlDefinition *on_shard;
	bool		is_shell;		/* CHECK constraints are left to
								 * create_shell_parts.c */
} Refresh;

static void
alter_router_table(const Refresh *refresh, const char *action)
{
	sl_received_run(psprintf("ALTER %s %s %s", refresh->is_shell ? "TABLE" : "FOREIGN TABLE", refresh->table, action),
					refresh->on_shard->schema, refresh->on_shard->name);
}

/* The DDL of one side's item, or NULL. */
static const char *
find_item_ddl(const SlDefinition *definition, const char *kind, const char *name)
{
	const SlDefinitionItem *item = sl_definition_find(definition, kind, name);

	return item != NULL ? item->ddl : NULL;
}

static bool
item_differs(const Refresh *refresh, const char *kind, const char *name)
{
	const char *on_router = find_item_ddl(refresh->on_router, kind, name);
	const char *on_shard = find_item_ddl(refresh->on_shard, kind, name);

	return on_router == NULL || on_shard == NULL ? on_router != on_shard : strcmp(on_router, on_shard) != 0;
}

/*
 * Changes the type of a column.  A shell table has values neither to convert nor to
 * check, and any cast will do; its default is set again afterwards.
 */
static void
change_column_type(const Refresh *refresh, const char *name, const char *column)
{
	if (refresh->is_shell && find_item_ddl(refresh->on_router, "column_default", name) != NULL)
		alter_router_table(refresh, psprintf("ALTER COLUMN %s DROP DEFAULT", column));
	alter_router_table(refresh, psprintf("ALTER COLUMN %s TYPE %s%s", column, find_item_ddl(refresh->on_shard, "column_type", name),
										 refresh->is_shell ? " USING NULL" : ""));
}

static void
refresh_column(const Refresh *refresh, const char *name)
{
	char	   *column = pstrdup(quote_identifier(name));
	bool		is_changed = item_differs(refresh, "column_type", name);
	const char *value = find_item_ddl(refresh->on_shard, "column_default", name);

	if (is_changed)
		change_column_type(refresh, name, column);
	if (item_differs(refresh, "column_default", name) || (is_changed && refresh->is_shell && value != NULL))
		alter_router_table(refresh, value == NULL ? psprintf("ALTER COLUMN %s DROP DEFAULT", column) :
						   psprintf("ALTER COLUMN %s SET DEFAULT %s", column, value));
	if (item_differs(refresh, "column_not_null", name))
		alter_router_table(refresh, psprintf("ALTER COLUMN %s %s NOT NULL", column,
											 find_item_ddl(refresh->on_shard, "column_not_null", name) != NULL ? "SET" : "DROP"));
}

static void
drop_old(const Refresh *refresh)
{
	ListCell   *cell;

	foreach(cell, refresh->on_router->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (item->level > 0)
			continue;
		if (strcmp(item->kind, "check") == 0 && !refresh->is_shell && item_differs(refresh, "check", item->name))
			alter_router_table(refresh, psprintf("DROP CONSTRAINT %s", quote_identifier(item->name)));
		else if (strcmp(item->kind, "column") == 0 && find_item_ddl(refresh->on_shard, "column", item->name) == NULL)
			alter_router_table(refresh, psprintf("DROP COLUMN %s", quote_identifier(item->name)));
	}
}

static void
add_new(const Refresh *refresh)
{
	ListCell   *cell;

	foreach(cell, refresh->on_shard->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (item->level > 0)
			continue;
		if (strcmp(item->kind, "check") == 0 && !refresh->is_shell && item_differs(refresh, "check", item->name))
			alter_router_table(refresh, psprintf("ADD %s", check_clause(refresh->on_shard, item)));
		else if (strcmp(item->kind, "column") != 0)
			continue;
		else if (find_item_ddl(refresh->on_router, "column", item->name) == NULL)
			alter_router_table(refresh, psprintf("ADD COLUMN %s", item->ddl));
		else
			refresh_column(refresh, item->name);
	}
}

static void
refresh_columns(Oid relid, const SlDefinition *definition, bool is_shell)
{
	Refresh		refresh = {.on_shard = definition,.is_shell = is_shell};

	refresh.table = quote_qualified_identifier(definition->schema, definition->name);
	refresh.on_router = sl_definition_read_local(relid);
	drop_old(&refresh);
	add_new(&refresh);
}

/* Makes a foreign table what its table on the shards has become. */
void
sl_definition_refresh_on_router(Oid relid, const SlDefinition *definition)
{
	sl_primary_key_forget(relid);
	refresh_columns(relid, definition, false);
}

/* The same for the columns of a shell table, which is open. */
void
sl_definition_refresh_shell_columns(Oid relid, const SlDefinition *definition)
{
	refresh_columns(relid, definition, true);
}

/*
 * Declares the primary key that the shards' table has, in place of one that was
 * declared before.
 */
void
sl_definition_declare_key(const SlTable *table, const SlDefinition *definition)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);
		List	   *columns = NIL;
		ListCell   *name;

		if (item->level > 0 || strcmp(item->kind, "primary_key_columns") != 0)
			continue;
		foreach(name, sl_table_key_names(item->ddl))
			columns = lappend_int(columns, get_attnum(table->relid, lfirst(name)));
		sl_primary_key_forget(table->relid);
		sl_primary_key_declare(table, item->name, columns);
	}
}
