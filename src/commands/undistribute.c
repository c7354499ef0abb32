/*
 * undistribute.c
 *		undistribute(): a table comes back from the shards.
 *
 * The shell table becomes an empty plain table (shell_swap.c), and the rows are read
 * from the shards as streams.  What the router's table lacks because it was attached is
 * made as the shards have it.  Then the shards' tables are dropped, unless they were
 * attached.  All of it is one transaction.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "base/base.h"
#include "base/fault_points.h"
#include "commands/commands.h"
#include "reference/reference.h"

PG_FUNCTION_INFO_V1(shardlet_undistribute);

/* Foreign keys ---------------------------------------------------------------- */

/* One of its tables stays on the shards. */
static void
warn_parted(const SlForeignKey *key, Oid staying)
{
	sl_foreign_key_warn(key, psprintf("Table \"%s\" is still distributed, and nothing could check it.",
									  get_rel_name(staying)),
						"When both tables are plain, or distributed together, again");
}

/* Is there a foreign key of the same table and name? */
static bool
is_named(List *keys, const SlForeignKey *key)
{
	ListCell   *cell;

	foreach(cell, keys)
	{
		const SlForeignKey *other = lfirst(cell);

		if (other->relid == key->relid && strcmp(other->name, key->name) == 0)
			return true;
	}
	return false;
}

/*
 * A foreign key of the router, from or to a shell table that becomes a plain one.  If
 * the other table stays on the shards, the router can check what refers to that, but
 * not what refers to the plain one.
 */
static void
keep_or_drop(const SlForeignKey *key, const SlTable *gone, SlReply *replies, int count)
{
	bool		is_own = sl_foreign_key_root(key->relid) == gone->relid;
	Oid			other = sl_foreign_key_root(is_own ? key->referenced : key->relid);

	if (other == gone->relid || !sl_table_is_remote(other, get_rel_relkind(other)) ||
		(is_own && sl_router_key_keep(key->constraint)))
		return;
	if (!is_own && !gone->is_attached)
		sl_command_everywhere(replies, count, sl_foreign_key_drop_sql(key), 0, NULL, true);
	warn_parted(key, other);
	sl_foreign_key_drop_on_router(key);
}

/*
 * Locks the distributed tables that the table refers to, as adding the foreign key
 * does, and returns them with their partitions.  A statement that was planned without
 * a check of the router must not be executed when the shards have none any more.
 */
static List *
lock_referenced(const SlTable *table)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list(table->relid))
	{
		Oid			other = sl_foreign_key_root(((const SlForeignKey *) lfirst(cell))->referenced);

		if (other == table->relid || !sl_table_is_remote(other, get_rel_relkind(other)))
			continue;
		LockRelationOid(other, ShareRowExclusiveLock);
		result = list_concat_unique_oid(result, find_all_inheritors(other, ShareRowExclusiveLock, NULL));
	}
	return result;
}

/* The function ---------------------------------------------------------------- */

/* Commands that name the table alone. */
static void
run_on_table(SlReply *replies, int count, const char *before, const SlDefinition *definition,
			 const char *after)
{
	char	   *name = quote_qualified_identifier(definition->schema, definition->name);

	sl_command_everywhere(replies, count, psprintf("%s %s%s", before, name, after), 0, NULL, true);
}

/* Foreign keys to tables that are plain by now were dropped when these came back. */
static void
restore_keys(const SlTable *gone, List *keys, const SlDefinition *definition)
{
	List	   *present = sl_foreign_key_list(gone->relid);
	ListCell   *cell;

	foreach(cell, keys)
	{
		const SlForeignKey *key = lfirst(cell);

		if (key->relid == gone->relid && OidIsValid(key->referenced) && !is_named(present, key) &&
			!sl_table_is_remote(key->referenced, get_rel_relkind(key->referenced)))
			sl_received_run(sl_foreign_key_add_sql(key), definition->schema, definition->name);
	}
}

/*
 * Rows are read by the partitions that the router knows.  One that only the shards
 * have would be lost with their table.
 */
static void
check_all_fetched(const SlDefinition *definition, uint64 rows, SlReply *replies, int count)
{
	char	   *sql = psprintf("SELECT pg_catalog.count(*) FROM %s",
							   quote_qualified_identifier(definition->schema, definition->name));
	uint64		total = 0;

	sl_command_everywhere(replies, count, sql, 0, NULL, false);
	for (int i = 0; i < count; i++)
		total += (uint64) sl_protocol_count(replies[i].conn, replies[i].value);
	if (total != rows)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("partitions of table \"%s\" differ on the shards", definition->name),
				errdetail("The shards have " UINT64_FORMAT " rows, of which " UINT64_FORMAT " are in partitions that the router has.",
						  total, rows));
}

/* What the router's table lacks because it was attached is made as the shards have it. */
static void
bring_shell_back(const SlTable *table, SlDefinition *definition, List *keys, List *owners, SlReply *replies, int count)
{
	uint64		rows;
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list(table->relid))
		keep_or_drop(lfirst(cell), table, replies, count);
	rows = sl_shell_disconnect(table->relid, owners, "undistribute");
	check_all_fetched(definition, rows, replies, count);
	if (table->is_attached)
	{
		sl_received_find_partitions(definition);
		sl_shell_restore_parts(table->relid, definition);
	}
	restore_keys(table, keys, definition);
}

static void
bring_table_back(const SlTable *table)
{
	List	   *owners = sl_table_owners(table);
	char	   *schema = get_namespace_name(get_rel_namespace(table->relid));
	char	   *name = get_rel_name(table->relid);
	List	   *referenced = lock_referenced(table);
	SlDefinition *definition;
	List	   *keys;
	ListCell   *cell;
	SlReply    *replies;
	int			count;

	replies = sl_command_begin(sl_table_homes(table), true, &count);
	if (count == 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("table \"%s\" is on no shard", name));
	definition = sl_definition_read_remote(replies[0].conn, schema, name);
	if (definition == NULL)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("table \"%s.%s\" does not exist on shard \"%s\"", schema, name,
					   NameStr(replies[0].shard->name)));
	run_on_table(replies, count, "LOCK TABLE", definition, " IN ACCESS EXCLUSIVE MODE");
	keys = sl_foreign_key_list_remote(replies[0].conn, schema, name);
	bring_shell_back(table, definition, keys, owners, replies, count);

	/* Plans that write to these must check foreign keys from now on. */
	foreach(cell, referenced)
		CacheInvalidateRelcacheByRelid(lfirst_oid(cell));
	if (!table->is_attached)
		run_on_table(replies, count, "DROP TABLE", definition, "");
	else if (table->kind == SL_TABLE_SHARDED)
		sl_guard_trigger_drop(sl_table_homes(table), schema, name);
	sl_fault("undistribute_at_end");
}

/* Shell tables have their foreign keys on the router as well. */
static void
drop_keys_of_shells(const SlTable *table)
{
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list(table->relid))
	{
		const SlForeignKey *key = lfirst(cell);
		Oid			from = sl_foreign_key_root(key->relid);

		if (!sl_table_is_remote(from, get_rel_relkind(from)))
			continue;
		if (table->is_attached)
			warn_parted(key, from);
		sl_foreign_key_drop_on_router(key);
	}
}

/*
 * A reference table stays here; foreign keys of tables that stay on the shards
 * are dropped, or its copies could not be.
 */
static void
bring_reference_back(const SlTable *table)
{
	char	   *schema = get_namespace_name(get_rel_namespace(table->relid));
	List	   *warned = NIL;
	SlReply    *replies;
	ListCell   *cell;
	int			count;

	replies = sl_command_begin(sl_shard_all(), true, &count);
	for (int i = 0; i < count && !table->is_attached; i++)
	{
		foreach(cell, sl_foreign_key_list_remote(replies[i].conn, schema, get_rel_name(table->relid)))
		{
			const SlForeignKey *key = lfirst(cell);
			const SlTable *from = OidIsValid(key->relid) ? sl_table_get(key->relid) : NULL;

			if (key->referenced != table->relid || from == NULL || from->kind == SL_TABLE_REFERENCE)
				continue;
			sl_command_everywhere(&replies[i], 1, sl_foreign_key_drop_sql(key), 0, NULL, true);
			if (!is_named(warned, key))
				warn_parted(key, key->relid);
			warned = lappend(warned, (void *) key);
		}
	}
	drop_keys_of_shells(table);
	sl_reference_undo(table->relid, !table->is_attached);
}

/* undistribute(tbl) */
Datum
shardlet_undistribute(PG_FUNCTION_ARGS)
{
	Oid			relid = sl_table_arg(fcinfo, 0);
	SlTable    *table;

	sl_check_writable("shardlet.undistribute()");
	table = sl_table_arg_distributed(relid);
	if (table->kind != SL_TABLE_REFERENCE)
		sl_check_sees_all("shardlet.undistribute()");
	if (table->kind == SL_TABLE_SHARDED)
		(void) sl_map_open_at_rest(table->map);
	sl_table_check_own(relid);
	table = sl_table_arg_distributed(relid);
	if (table->kind == SL_TABLE_REFERENCE)
		bring_reference_back(table);
	else
		bring_table_back(table);
	PG_RETURN_VOID();
}
