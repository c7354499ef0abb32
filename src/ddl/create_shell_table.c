/*
 * create_shell_table.c
 *		The shell table on the router for a table that the shards have: the table
 *		itself, its columns and its partitions.
 *
 * The commands are those of the shards' definition (table_definition_sql.c), checked
 * by received_ddl.c.  Tables are made as empty heaps; the caller connects them to
 * the shards.  Keys, indexes and whatever else hangs on the table come afterwards
 * (create_shell_parts.c), foreign keys last (shell_foreign_key.c).
 *
 * When an attached table is attached again, its columns are changed, partitions that
 * the shards have no more are dropped on the router, and new ones are made.  Changed
 * bounds are a partition less and a new one: there are no rows to keep.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "access/shell_access.h"
#include "base/base.h"
#include "ddl/definition.h"

/* Finds an item that is the same command, whatever it is named. */
static bool
has_command(const SlDefinition *definition, const SlDefinitionItem *wanted)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (strcmp(item->kind, wanted->kind) == 0 && item->ddl != NULL && wanted->ddl != NULL &&
			strcmp(item->ddl, wanted->ddl) == 0)
			return true;
	}
	return false;
}

/* Creating -------------------------------------------------------------------- */

/* The statement of an item; the shard must not have sent one of another kind. */
static Node *
parse_item(const SlDefinition *definition, const SlDefinitionItem *item, NodeTag tag)
{
	Node	   *statement = sl_received_parse(item->ddl, definition, InvalidOid);

	if (nodeTag(statement) != tag)
		sl_received_refuse(item->ddl, definition->schema, definition->name);
	return statement;
}

static void
run_item(const SlDefinition *definition, const SlDefinitionItem *item, NodeTag tag)
{
	sl_received_execute(parse_item(definition, item, tag), item->ddl);
}

/*
 * Creates the partitions that the router lacks, and attaches them to their parents.
 * "on_router" is NULL for a table that was just made.
 */
static void
create_partitions(const SlDefinition *definition, const SlDefinition *on_router)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (strcmp(item->kind, "partition") == 0 &&
			(on_router == NULL || sl_definition_find(on_router, "partition", item->name) == NULL))
			run_item(definition, item, T_CreateStmt);
		else if (strcmp(item->kind, "partition_bound") == 0 &&
				 (on_router == NULL || !has_command(on_router, item)))
			run_item(definition, item, T_AlterTableStmt);
	}
}

/*
 * Creates a table as the shards have it, with its partitions, as empty heaps.  The
 * definition's partitions have been found.  Returns the table.
 */
Oid
sl_shell_create_table(const SlDefinition *definition)
{
	const SlDefinitionItem *item = sl_definition_find(definition, "table", definition->name);

	if (item == NULL)
		elog(ERROR, "definition of table \"%s\" is incomplete", definition->name);
	run_item(definition, item, T_CreateStmt);
	create_partitions(definition, NULL);
	return get_relname_relid(definition->name, get_namespace_oid(definition->schema, false));
}

/* Refreshing ------------------------------------------------------------------ */

/* Returns the CREATE TABLE of a definition that the router has made itself. */
static const CreateStmt *
parse_own_table(const SlDefinition *on_router)
{
	const SlDefinitionItem *item = sl_definition_find(on_router, "table", on_router->name);

	return castNode(CreateStmt, linitial_node(RawStmt, raw_parser(item->ddl, RAW_PARSE_DEFAULT))->stmt);
}

pg_noreturn static void
refuse_change(const SlDefinition *definition, const char *what)
{
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("table \"%s\" has changed on the shards", definition->name),
			errdetail_internal("%s", what),
			errhint("SELECT shardlet.detach('%s'), and attach it again.",
					quote_qualified_identifier(definition->schema, definition->name)));
}

/* PARTITION BY cannot be changed by ALTER TABLE. */
static void
check_partition_keys(const SlDefinition *definition, const SlDefinition *on_router)
{
	const SlDefinitionItem *item = sl_definition_find(definition, "table", definition->name);
	const CreateStmt *statement = castNode(CreateStmt, parse_item(definition, item, T_CreateStmt));

	if (!equal(statement->partspec, parse_own_table(on_router)->partspec))
		refuse_change(definition, "It is partitioned in another way.");
}

static bool
is_generated(const SlDefinitionItem *item)
{
	return strstr(item->ddl, " GENERATED ALWAYS AS ") != NULL;
}

/* Before version 17 the expression of a generated column cannot be changed either. */
static void
check_generated_columns(const SlDefinition *definition, const SlDefinition *on_router)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);
		const SlDefinitionItem *other;

		if (item->level > 0 || strcmp(item->kind, "column") != 0)
			continue;
		other = sl_definition_find(on_router, "column", item->name);
		if (other != NULL && (is_generated(item) || is_generated(other)) && strcmp(item->ddl, other->ddl) != 0)
			refuse_change(definition, psprintf("Column \"%s\" is generated in another way.", item->name));
	}
}

/* The partition of an ALTER TABLE ... ATTACH PARTITION that the router has made. */
static Oid
find_attached(const SlDefinitionItem *item)
{
	const AlterTableStmt *statement =
	castNode(AlterTableStmt, linitial_node(RawStmt, raw_parser(item->ddl, RAW_PARSE_DEFAULT))->stmt);
	const AlterTableCmd *command = linitial_node(AlterTableCmd, statement->cmds);

	return RangeVarGetRelid(castNode(PartitionCmd, command->def)->name, AccessExclusiveLock, true);
}

/* Drops partitions that the shards have no more; those of a partition go with it. */
static void
drop_partitions(const SlDefinition *definition, const SlDefinition *on_router)
{
	ListCell   *cell;

	foreach(cell, on_router->items)
	{
		const SlDefinitionItem *item = lfirst(cell);
		ObjectAddress address;

		if (strcmp(item->kind, "partition_bound") != 0 || has_command(definition, item))
			continue;
		ObjectAddressSet(address, RelationRelationId, find_attached(item));
		if (!OidIsValid(address.objectId))
			continue;
		performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
		CommandCounterIncrement();
	}
}

/* Is there a column or a partition on one of the sides only, or in another form? */
static bool
lacks_any(const SlDefinition *definition, const SlDefinition *other)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (((strcmp(item->kind, "column") == 0 && item->level == 0) || strcmp(item->kind, "partition_bound") == 0) &&
			!has_command(other, item))
			return true;
	}
	return false;
}

/* Does the router lack a partition? */
static bool
lacks_partition(const SlDefinition *definition, const SlDefinition *on_router)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (strcmp(item->kind, "partition_bound") == 0 && !has_command(on_router, item))
			return true;
	}
	return false;
}

/*
 * Drops all CHECK constraints: a partition cannot be attached unless it has those
 * of its parents.  They are missing then, and create_shell_parts.c makes them again.
 */
static void
drop_checks(const SlDefinition *on_router)
{
	ListCell   *cell;

	foreach(cell, on_router->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (strcmp(item->kind, "check") == 0)
			sl_shell_drop_part(item);
	}
}

static void
refresh_open_table(Oid relid, const SlDefinition *definition, SlDefinition *on_router)
{
	drop_partitions(definition, on_router);
	sl_definition_refresh_columns(relid, definition);
	on_router = sl_definition_read_local(relid);
	if (!lacks_partition(definition, on_router))
		return;
	drop_checks(on_router);
	create_partitions(definition, on_router);
}

/*
 * Makes the columns and partitions of a shell table what they have become on the
 * shards.  New partitions are heaps, for the caller to connect.  Foreign keys are
 * dropped before a change, since PostgreSQL would check them by queries; the
 * caller creates them again.  The table is open meanwhile: ALTER TABLE may rewrite it.
 */
void
sl_shell_refresh_table(const SlTable *table, const SlDefinition *definition)
{
	Oid			relid = table->relid;
	SlDefinition *on_router = sl_definition_read_local(relid);
	List	   *tables;
	ListCell   *cell;

	check_partition_keys(definition, on_router);
	check_generated_columns(definition, on_router);
	sl_shell_drop_obsolete_parts(table, definition);
	if (!lacks_any(definition, on_router) && !lacks_any(on_router, definition))
		return;
	sl_shell_drop_foreign_keys(relid, false);
	tables = find_all_inheritors(relid, AccessExclusiveLock, NULL);
	foreach(cell, tables)
		sl_shell_open(lfirst_oid(cell));
	refresh_open_table(relid, definition, on_router);
	foreach(cell, tables)
		sl_shell_close(lfirst_oid(cell));
}
