/*
 * attach.c
 *		attach(), detach(): tables that the shards have already.
 *
 * No row moves, and nothing changes on a shard but that its table is guarded, if
 * the shard has the extension.  The definitions of all shards are read and
 * compared, the rows that are in the wrong place are counted, and then the router
 * gets a shell table of the same name.
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "access/xact.h"

#include "base/base.h"
#include "commands/commands.h"
#include "reference/reference.h"

PG_FUNCTION_INFO_V1(shardlet_attach);
PG_FUNCTION_INFO_V1(shardlet_detach);

/* Finds the shards, opens them, and decides about the options. */
void
sl_attach_begin(SlAttachment *attachment)
{
	SlTable		target = {0};

	sl_table_check_server();
	if (attachment->shard == NULL)
	{
		target.kind = SL_TABLE_SHARDED;
		target.map = NameStr(attachment->map->name);
		attachment->options = sl_table_options_sharded(attachment->map, attachment->key, true);
	}
	else
	{
		target.kind = SL_TABLE_PLACED;
		target.shard_id = attachment->shard->id;
		attachment->options = sl_table_options_placed(attachment->shard, true);
	}
	attachment->replies = sl_command_begin(sl_table_homes(&target), false, &attachment->count);
	if (attachment->count == 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("map \"%s\" has no shards", target.map),
				errhint("Add shards with shardlet.alter_map()."));
}

/* Lists the shards that lack the table. */
static void
refuse_missing(const SlAttachment *attachment, SlDefinition **definitions, const char *schema,
			   const char *name)
{
	StringInfoData shards;
	int			missing = 0;

	initStringInfo(&shards);
	for (int i = 0; i < attachment->count; i++)
	{
		if (definitions[i] != NULL)
			continue;
		appendStringInfo(&shards, "%s\"%s\"", missing > 0 ? ", " : "",
						 NameStr(attachment->replies[i].shard->name));
		missing++;
	}
	if (missing == 0)
		return;
	ereport(ERROR,
			errcode(missing == attachment->count ? ERRCODE_UNDEFINED_TABLE : SL_ERR_DIFFERENT),
			errmsg("table \"%s.%s\" does not exist on all shards", schema, name),
			errdetail("It is missing on %s.", shards.data),
			missing == attachment->count ?
			errhint("A name without schema means the schema in which CREATE TABLE would make it here.") :
			errhint("Create it there, or take these shards out of the map with shardlet.alter_map()."));
}

/* From now on the shards that have the extension refuse misplaced rows. */
static void
guard_table(const SlAttachment *attachment, const char *schema, const char *name, List *key)
{
	List	   *shards = NIL;

	if (attachment->map == NULL)
		return;
	for (int i = 0; i < attachment->count; i++)
		shards = lappend(shards, attachment->replies[i].shard);
	sl_guard_trigger_create(shards, schema, name, NameStr(attachment->map->name), key);
}

/*
 * Reads the definition of a table that is the same on all shards, with every
 * row where it belongs.
 */
SlDefinition *
sl_attach_read(const SlAttachment *attachment, const char *schema, const char *name)
{
	SlDefinition **definitions = palloc0(sizeof(SlDefinition *) * attachment->count);
	SlShard   **shards = palloc0(sizeof(SlShard *) * attachment->count);
	List	   *columns = sl_table_key_names(attachment->key);

	for (int i = 0; i < attachment->count; i++)
	{
		shards[i] = attachment->replies[i].shard;
		definitions[i] = sl_definition_read_remote(attachment->replies[i].conn, schema, name);
	}
	refuse_missing(attachment, definitions, schema, name);
	sl_definition_compare(definitions, shards, attachment->count);
	sl_definition_make_types_on_router(definitions[0]);
	if (attachment->map != NULL)
		sl_table_check_key_of(definitions[0], attachment->map, attachment->key);
	if (attachment->map != NULL && attachment->verify)
		sl_misplaced_check(attachment->map, schema, name, columns, attachment->replies,
						   attachment->count);
	guard_table(attachment, schema, name, columns);
	return definitions[0];
}

/* Is it the table that is attached now, or was before with the same words? */
static bool
is_same_table(const SlTable *table, const SlAttachment *attachment)
{
	const SlTable *wanted = sl_table_get_as(table->relid, attachment->options);

	if (table->kind != wanted->kind || table->shard_id != wanted->shard_id ||
		table->key_count != wanted->key_count)
		return false;
	for (int i = 0; i < table->key_count; i++)
	{
		if (table->key[i] != wanted->key[i])
			return false;
	}
	return table->kind == SL_TABLE_PLACED || strcmp(table->map, wanted->map) == 0;
}

static void
refresh_attached_table(Oid relid, const SlAttachment *attachment, const SlDefinition *definition)
{
	const SlTable *table = sl_table_get(relid);

	if (table == NULL)
		ereport(ERROR,
				errcode(ERRCODE_DUPLICATE_TABLE),
				errmsg("relation \"%s\" already exists", definition->name),
				errhint("The router's table must have the name that the table has on the shards. Rename or drop what is here."));
	sl_table_check_own(relid);
	if (!is_same_table(table, attachment))
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("table \"%s\" is attached in another way already", definition->name),
				errdetail("View shardlet.tables shows how."),
				errhint("SELECT shardlet.detach('%s');", definition->name));
	sl_shell_refresh_table(table, definition);
}

/*
 * Connects the tables that are new, all of them or partitions, to the shards, and
 * makes what hangs on them.
 */
static void
finish_shell(Oid relid, const SlAttachment *attachment, const SlDefinition *definition)
{
	const SlTable *table;
	ListCell   *cell;

	foreach(cell, find_all_inheritors(relid, AccessExclusiveLock, NULL))
	{
		if (!sl_table_is_remote(lfirst_oid(cell), get_rel_relkind(lfirst_oid(cell))))
			sl_shell_connect(lfirst_oid(cell), attachment->options, "attach");
	}
	table = sl_table_get(relid);
	sl_policy_check_attached(relid, sl_table_homes(table));
	sl_shell_refresh_parts(table, definition);
	sl_shell_refresh_foreign_keys(table, attachment->replies[0].conn);
}

/* Makes the shell table for a table that the shards have, and that the router lacks. */
Oid
sl_attach_create_shell(const SlAttachment *attachment, SlDefinition *definition)
{
	Oid			relid;

	sl_received_find_partitions(definition);
	relid = sl_shell_create_table(definition);
	finish_shell(relid, attachment, definition);
	return relid;
}

/* Makes the router's table, or what it has to be by now.  Returns it. */
static Oid
make_router_table(Oid relid, const SlAttachment *attachment, SlDefinition *definition)
{
	if (!OidIsValid(relid))
		return sl_attach_create_shell(attachment, definition);
	sl_received_find_partitions(definition);
	refresh_attached_table(relid, attachment, definition);
	finish_shell(relid, attachment, definition);
	return relid;
}

static void
attach_table(SlAttachment *attachment, const char *schema, const char *name)
{
	Oid			namespace = get_namespace_oid(schema, true);
	Oid			relid = OidIsValid(namespace) ? get_relname_relid(name, namespace) : InvalidOid;
	SlDefinition *definition;

	/* A partition of an attached table is refused before shards are asked. */
	if (OidIsValid(relid) && sl_table_get(relid) != NULL)
		(void) sl_table_arg_distributed(relid);
	sl_attach_begin(attachment);
	definition = sl_attach_read(attachment, schema, name);
	relid = make_router_table(relid, attachment, definition);
	CommandCounterIncrement();
	if (attachment->map != NULL)
		sl_table_check_key(sl_table_get(relid), attachment->map);
}

/* Splits the name; without a schema it is where CREATE TABLE would make it. */
static void
parse_name(char *given, char **schema, char **name)
{
	RangeVar   *relation = makeRangeVarFromNameList(sl_split_name(given));

	*schema = relation->schemaname != NULL ? relation->schemaname :
		get_namespace_name(RangeVarGetCreationNamespace(relation));
	*name = relation->relname;
}

static void
check_arguments(const char *map, const char *key, const char *shard)
{
	if (map != NULL && shard != NULL)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("a table is attached with a map or with a shard, not with both"));
	if (map == NULL && key != NULL)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("a key without a map has no meaning"),
				errhint("Name the map as well."));
}

static void
attach_reference(const char *schema, const char *name, bool verify)
{
	if (!OidIsValid(sl_reference_attach(schema, name, verify)))
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("reference tables cannot be attached"),
				errhint("Name a map or a shard."));
}

/* attach(tbl, map, key, shard, verify) */
Datum
shardlet_attach(PG_FUNCTION_ARGS)
{
	char	   *given = sl_map_arg_text(fcinfo, 0, "table");
	char	   *map = PG_ARGISNULL(1) ? NULL : sl_map_arg_name(fcinfo, 1, "map");
	char	   *shard = PG_ARGISNULL(3) ? NULL : sl_map_arg_name(fcinfo, 3, "shard");
	SlAttachment attachment = {0};
	char	   *schema;
	char	   *name;

	sl_check_writable("shardlet.attach()");
	attachment.key = PG_ARGISNULL(2) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(2));
	attachment.verify = PG_ARGISNULL(4) || PG_GETARG_BOOL(4);
	check_arguments(map, attachment.key, shard);
	parse_name(given, &schema, &name);
	if (map == NULL && shard == NULL)
	{
		attach_reference(schema, name, attachment.verify);
		PG_RETURN_VOID();
	}
	if (map != NULL)
		attachment.map = sl_map_open_at_rest(map);
	else
	{
		attachment.shard = sl_shard_by_name(shard, false);
		sl_shard_lock(attachment.shard, AccessShareLock);
	}
	attach_table(&attachment, schema, name);
	PG_RETURN_VOID();
}

/* detach(tbl) */
Datum
shardlet_detach(PG_FUNCTION_ARGS)
{
	Oid			relid = sl_table_arg(fcinfo, 0);
	SlTable    *table;
	ObjectAddress address;

	sl_check_writable("shardlet.detach()");
	table = sl_table_arg_distributed(relid);
	if (table->kind == SL_TABLE_SHARDED)
		(void) sl_map_open_at_rest(table->map);
	sl_table_check_own(relid);
	table = sl_table_arg_distributed(relid);
	if (table->kind == SL_TABLE_REFERENCE)
	{
		sl_reference_undo(relid, false);
		PG_RETURN_VOID();
	}
	if (table->kind == SL_TABLE_SHARDED)
		sl_guard_trigger_drop(sl_table_homes(table), get_namespace_name(get_rel_namespace(relid)),
							  get_rel_name(relid));

	/* Foreign keys of other tables to this one are the shards' own again. */
	sl_shell_drop_foreign_keys(relid, true);
	ObjectAddressSet(address, RelationRelationId, relid);
	performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	PG_RETURN_VOID();
}
