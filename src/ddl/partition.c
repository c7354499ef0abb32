/*
 * partition.c
 *		Partitions of distributed tables: created, attached and detached.
 *
 * A partition of a shell table is a shell table of the same options.  On the shards it
 * has no guard of its own while it is one: the triggers of the partitioned table are
 * cloned to it.  So the guard of a table is dropped there before it becomes a
 * partition, and created when it is one no more.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "deparse/deparse.h"
#include "executor/multi_shard.h"

/* Creating -------------------------------------------------------------------- */

static void
check_bounds(const SlTable *table, const List *values)
{
	ListCell   *cell;

	foreach(cell, values)
	{
		/* MINVALUE and MAXVALUE look like columns. */
		if (!IsA(lfirst(cell), ColumnRef))
			sl_privilege_check(sl_ddl_transform(table, lfirst(cell), EXPR_KIND_PARTITION_BOUND));
	}
}

/* What the shards compute, and the router never sees. */
static void
check_partition(const SlTable *table, const CreateStmt *statement)
{
	if (superuser())
		return;
	if (statement->tableElts != NIL)
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("must be superuser to create a partition of table \"%s\" with columns or constraints of its own",
					   get_rel_name(table->relid)));
	check_bounds(table, statement->partbound->listdatums);
	check_bounds(table, statement->partbound->lowerdatums);
	check_bounds(table, statement->partbound->upperdatums);
}

typedef struct NewPartition
{
	const SlTable *table;
	const RangeVar *name;
} NewPartition;

/* The router has the partition now: connects it to the shards. */
static void
finish_partition(SlDdl *ddl)
{
	const NewPartition *new = ddl->state;
	Oid			relid = RangeVarGetRelid(new->name, NoLock, false);

	/* IF NOT EXISTS may have found another table. */
	if (!get_rel_relispartition(relid) || sl_shell_is_connected(relid))
		return;
	sl_shell_copy_row(relid, new->table->relid);
	CacheInvalidateRelcacheByRelid(relid);
	CommandCounterIncrement();
	sl_privilege_check_stored(relid, NIL);
}

/* CREATE TABLE ... PARTITION OF a shell table. */
static void
create_shell_partition(SlDdl *ddl, const SlTable *table)
{
	CreateStmt *statement = castNode(CreateStmt, ddl->node);
	CreateStmt *copy = copyObject(statement);
	RangeVar   *parent = linitial(statement->inhRelations);
	NewPartition *new = palloc(sizeof(NewPartition));
	Oid			schema = RangeVarGetAndCheckCreationNamespace(copy->relation, NoLock, NULL);
	List	   *changes;

	sl_ddl_lock(parent, ShareUpdateExclusiveLock);
	check_partition(table, statement);
	if (copy->partspec == NULL)
		copy->accessMethod = SL_ACCESS_METHOD_NAME;
	new->table = table;
	new->name = copy->relation;
	ddl->state = new;
	ddl->finish = finish_partition;

	/* The default partition is scanned for rows of the new one. */
	sl_ddl_open_shell(ddl, table);
	ddl->opened = lappend_oid(ddl->opened, InvalidOid);
	sl_ddl_run_on_router(ddl, copy);
	changes = sl_ddl_rename_in(ddl, NIL, parent, sl_ddl_name(table->relid));
	changes = sl_ddl_rename_in(ddl, changes, statement->relation,
							   quote_qualified_identifier(get_namespace_name(schema), statement->relation->relname));
	sl_ddl_add_step(ddl, sl_table_homes(table), sl_ddl_changed(ddl, sl_ddl_whole(ddl), changes));
}

/* A foreign table of the common server, or of a shard, would have no rows. */
static void
refuse_foreign_table(const CreateForeignTableStmt *statement)
{
	const ForeignServer *server = GetForeignServerByName(statement->servername, true);

	if (server == NULL || server->fdwid != get_foreign_data_wrapper_oid(SL_WRAPPER_NAME, true))
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot create foreign table \"%s\" on server \"%s\"", statement->base.relation->relname,
				   statement->servername),
			errdetail("Distributed tables are ordinary tables of the router."),
			errhint("shardlet.attach() makes the table that shards have, shardlet.distribute() distributes a table, and shardlet.query() runs a query on shards."));
}

bool
sl_ddl_plan_create_table(SlDdl *ddl)
{
	CreateStmt *statement = (CreateStmt *) ddl->node;
	ListCell   *cell;

	if (IsA(ddl->node, CreateForeignTableStmt))
		refuse_foreign_table((CreateForeignTableStmt *) ddl->node);
	foreach(cell, statement->inhRelations)
	{
		SlTable    *table = sl_ddl_table(lfirst(cell));

		if (table == NULL)
			continue;
		if (statement->partbound == NULL || !IsA(ddl->node, CreateStmt))
			sl_ddl_refuse(table, "create a child of", NULL);
		if (!sl_ddl_is_remote(table))
			sl_ddl_refuse(table, "create a partition of", NULL);
		create_shell_partition(ddl, table);
		return true;
	}
	return false;
}

/* Attaching and detaching ----------------------------------------------------- */

/* Do both tables have their rows of a key on the same shard? */
static bool
is_colocated(const SlTable *table, const SlTable *other)
{
	if (table->kind != other->kind || table->key_count != other->key_count ||
		table->is_local_unique != other->is_local_unique)
		return false;
	if (table->kind == SL_TABLE_PLACED)
		return table->shard_id == other->shard_id;
	for (int i = 0; i < table->key_count; i++)
	{
		if (strcmp(get_attname(table->relid, table->key[i], false), get_attname(other->relid, other->key[i], false)) != 0)
			return false;
	}
	return strcmp(table->map, other->map) == 0;
}

/* Raises an error if a table cannot become a partition of a shell table. */
void
sl_ddl_check_attached(const SlTable *table, const RangeVar *name)
{
	const SlTable *child = sl_ddl_table(name);

	if (child != NULL && sl_ddl_is_remote(child) && is_colocated(table, child))
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot attach table \"%s\" as a partition of table \"%s\"", name->relname,
				   get_rel_name(table->relid)),
			errdetail(child == NULL ? "It is not distributed." : "It is not distributed in the same way."),
			child == NULL && table->kind == SL_TABLE_SHARDED ?
			errhint("SELECT shardlet.distribute(%s, %s%s%s%s);", quote_literal_cstr(name->relname),
					quote_literal_cstr(table->map), table->key_count > 0 ? ", " : "",
					table->key_count > 0 ? quote_literal_cstr(sl_table_list_names(sl_table_key_of(table))) : "",
					table->is_local_unique ? ", local_unique => true" : "") : 0);
}

/* The partition that a subcommand of ALTER TABLE names, or NULL. */
static const RangeVar *
find_partition(const AlterTableCmd *command, AlterTableType type)
{
	return command->subtype == type ? castNode(PartitionCmd, command->def)->name : NULL;
}

/* The partition is not a part of the table yet, and is scanned on the router, too. */
void
sl_ddl_open_attached(SlDdl *ddl, const AlterTableCmd *command)
{
	const RangeVar *name = find_partition(command, AT_AttachPartition);

	if (name != NULL && sl_ddl_table(name) != NULL)
		sl_ddl_open_shell(ddl, sl_ddl_table(name));
}

/* Before the shards attach the partition. */
void
sl_ddl_unguard_attached(const AlterTableCmd *command)
{
	const RangeVar *name = find_partition(command, AT_AttachPartition);
	const SlTable *child = name != NULL ? sl_ddl_table(name) : NULL;

	if (child != NULL && child->kind == SL_TABLE_SHARDED)
		sl_guard_trigger_drop(sl_table_homes(child), get_namespace_name(get_rel_namespace(child->relid)),
							  get_rel_name(child->relid));
}

/* After they have detached it. */
void
sl_ddl_guard_detached(SlDdl *ddl, const AlterTableCmd *command)
{
	const RangeVar *name = find_partition(command, AT_DetachPartition);
	const SlTable *child = name != NULL ? sl_ddl_table(name) : NULL;

	if (child != NULL && child->kind == SL_TABLE_SHARDED)
		sl_ddl_add_guard(ddl, child, sl_table_key_of(child));
}
