/*
 * refresh_columns.c
 *		Types that an attached table needs on the router, and its columns when
 *		the shards' table has changed.
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

/* Refreshing ------------------------------------------------------------------ */

typedef struct Refresh
{
	char	   *table;			/* qualified and quoted */
	const SlDefinition *on_router;
	const SlDefinition *on_shard;
} Refresh;

static void
alter_router_table(const Refresh *refresh, const char *action)
{
	sl_received_run(psprintf("ALTER TABLE %s %s", refresh->table, action),
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
	if (find_item_ddl(refresh->on_router, "column_default", name) != NULL)
		alter_router_table(refresh, psprintf("ALTER COLUMN %s DROP DEFAULT", column));
	alter_router_table(refresh, psprintf("ALTER COLUMN %s TYPE %s USING NULL", column,
										 find_item_ddl(refresh->on_shard, "column_type", name)));
}

static void
refresh_column(const Refresh *refresh, const char *name)
{
	char	   *column = pstrdup(quote_identifier(name));
	bool		is_changed = item_differs(refresh, "column_type", name);
	const char *value = find_item_ddl(refresh->on_shard, "column_default", name);

	if (is_changed)
		change_column_type(refresh, name, column);
	if (item_differs(refresh, "column_default", name) || (is_changed && value != NULL))
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

		if (item->level == 0 && strcmp(item->kind, "column") == 0 && find_item_ddl(refresh->on_shard, "column", item->name) == NULL)
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

		if (item->level > 0 || strcmp(item->kind, "column") != 0)
			continue;
		if (find_item_ddl(refresh->on_router, "column", item->name) == NULL)
			alter_router_table(refresh, psprintf("ADD COLUMN %s", item->ddl));
		else
			refresh_column(refresh, item->name);
	}
}

/*
 * Changes the columns of a shell table, which is open, to what the shards' table has.
 * CHECK constraints are left to create_shell_parts.c.
 */
void
sl_definition_refresh_columns(Oid relid, const SlDefinition *definition)
{
	Refresh		refresh = {.on_shard = definition};

	refresh.table = quote_qualified_identifier(definition->schema, definition->name);
	refresh.on_router = sl_definition_read_local(relid);
	drop_old(&refresh);
	add_new(&refresh);
}
