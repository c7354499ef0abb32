/*
 * table_definition.c
 *		How a table was made, as commands that make it again.
 *
 * The same query is run on the router, through SPI, and on a shard.  Definitions are
 * compared as text, so the settings that decide how values and names are written are
 * the same for both.
 *
 * Values of a serial or identity column come from the router's sequence, so the
 * shards' tables have no such default: see create_on_shards.c.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "ddl/definition.h"

enum
{
	ITEM_PHASE, ITEM_KIND, ITEM_NAME, ITEM_DDL, ITEM_LEVEL, ITEM_COUNT
};

/*
 * Until the level ends, names are written with their schemas, and what is not
 * qualified in our own queries is PostgreSQL's: without a place for it, the
 * session's temporary schema would come first.
 */
int
sl_definition_begin_output(void)
{
	int			level = NewGUCNestLevel();

	sl_guc_set_plain();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("quote_all_identifiers", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	return level;
}

static SlDefinition *
make_definition(const char *schema, const char *name)
{
	SlDefinition *definition = palloc0(sizeof(SlDefinition));

	definition->schema = pstrdup(schema);
	definition->name = pstrdup(name);
	return definition;
}

static void
add_item(SlDefinition *definition, const char *const *values)
{
	SlDefinitionItem *item = palloc0(sizeof(SlDefinitionItem));

	item->phase = (SlPhase) strtol(values[ITEM_PHASE], NULL, 10);
	item->kind = pstrdup(values[ITEM_KIND]);
	item->name = pstrdup(values[ITEM_NAME]);
	item->ddl = values[ITEM_DDL] != NULL ? pstrdup(values[ITEM_DDL]) : NULL;
	item->level = (int) strtol(values[ITEM_LEVEL], NULL, 10);
	definition->items = lappend(definition->items, item);
}

/* Adds the items that a query of the router's catalogs returns. */
static void
read_items(SlDefinition *definition, const char *sql, int count, Oid *types, Datum *params)
{
	MemoryContext context = CurrentMemoryContext;
	int			level = sl_definition_begin_output();

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args(sql, count, types, params, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the definition of \"%s\"", definition->name);
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		const char *values[ITEM_COUNT];
		MemoryContext inner;

		for (int i = 0; i < ITEM_COUNT; i++)
			values[i] = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, i + 1);
		inner = MemoryContextSwitchTo(context);
		add_item(definition, values);
		MemoryContextSwitchTo(inner);
	}
	SPI_finish();
	AtEOXact_GUC(true, level);
}

/* Returns the definition of a table of this database. */
SlDefinition *
sl_definition_read_local(Oid relid)
{
	char	   *schema = get_namespace_name(get_rel_namespace(relid));
	char	   *name = get_rel_name(relid);
	SlDefinition *definition = make_definition(schema, name);
	Oid			types[] = {TEXTOID, TEXTOID};
	Datum		params[] = {CStringGetTextDatum(schema), CStringGetTextDatum(name)};

	read_items(definition, sl_definition_sql, lengthof(types), types, params);
	return definition;
}

/*
 * Returns an object of this database, such as a function or a type, and what it needs, as
 * items of a definition.
 */
SlDefinition *
sl_definition_read_needs(Oid class_id, Oid object_id)
{
	SlDefinition *definition = make_definition("", "");
	Oid			types[] = {OIDOID, OIDOID};
	Datum		params[] = {ObjectIdGetDatum(class_id), ObjectIdGetDatum(object_id)};

	read_items(definition, sl_definition_needs_sql, lengthof(types), types, params);
	return definition;
}

/* Commands are missing for types and functions that have to exist, and for nothing else. */
static bool
is_complete(const char *const *values)
{
	long		phase;

	if (values[ITEM_PHASE] == NULL || values[ITEM_KIND] == NULL || values[ITEM_NAME] == NULL ||
		values[ITEM_LEVEL] == NULL)
		return false;
	phase = strtol(values[ITEM_PHASE], NULL, 10);
	return values[ITEM_DDL] != NULL || phase == SL_PHASE_TYPES;
}

/*
 * Returns the definition of a table of a shard, as the session's transaction
 * sees it, or NULL if there is none of that name.
 */
SlDefinition *
sl_definition_read_remote(SlConn *conn, const char *schema, const char *name)
{
	SlDefinition *definition = make_definition(schema, name);
	const char *params[] = {schema, name};
	SlTxnUse	use = {0};
	int			level = sl_definition_begin_output();
	ListCell   *cell;

	sl_txn_join(conn, &use);
	foreach(cell, sl_remote_rows(conn, sl_definition_sql, lengthof(params), params, ITEM_COUNT))
	{
		const char **values = lfirst(cell);

		if (!is_complete(values))
			sl_protocol_refuse_null(conn);
		add_item(definition, values);
	}
	AtEOXact_GUC(true, level);
	return definition->items != NIL ? definition : NULL;
}

/* Returns the item of that kind and name, or NULL. */
SlDefinitionItem *
sl_definition_find(const SlDefinition *definition, const char *kind, const char *name)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		SlDefinitionItem *item = lfirst(cell);

		if (strcmp(item->kind, kind) == 0 && strcmp(item->name, name) == 0)
			return item;
	}
	return NULL;
}
