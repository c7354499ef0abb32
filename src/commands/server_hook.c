/*
 * server_hook.c
 *		Watches the servers that are shards.
 *
 * Servers can be changed with plain SQL.  That must not break a map: a shard in use
 * cannot be dropped, its id never changes, and a change that routing depends on
 * raises the version of every map that uses the shard.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_foreign_server.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "commands/commands.h"
#include "metadata/missed_ddl.h"
#include "reference/reference.h"

static object_access_hook_type next_object_access = NULL;
static ProcessUtility_hook_type next_utility = NULL;

/* True while add_shard or alter_shard makes or changes a server. */
bool		sl_shard_is_registering = false;

/* True while a command runs that drops the extension itself, or may. */
static bool dropping_extension = false;

static int32
shard_id_of(List *options)
{
	const char *id = sl_option_get(options, "id");

	return id != NULL ? (int32) strtol(id, NULL, 10) : 0;
}

/*
 * Returns the options in the server's row as the running command has just
 * written it, none if it is not ours.
 */
static List *
written_options(Oid server, Oid wrapper)
{
	Relation	relation = table_open(ForeignServerRelationId, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_foreign_server_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(server));
	scan = systable_beginscan(relation, ForeignServerOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) &&
		((Form_pg_foreign_server) GETSTRUCT(tuple))->srvfdw == wrapper)
	{
		bool		is_null;
		Datum		options = heap_getattr(tuple, Anum_pg_foreign_server_srvoptions,
										   RelationGetDescr(relation), &is_null);

		result = is_null ? NIL : untransformRelOptions(options);
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/* Returns the id before the running command, 0 if there was none. */
static int32
former_shard_id(Oid server, Oid wrapper)
{
	ForeignServer *row = GetForeignServerExtended(server, FSV_MISSING_OK);

	return row != NULL && row->fdwid == wrapper ? shard_id_of(row->options) : 0;
}

/*
 * A new id comes from add_shard, or from a dump that a superuser restores: a
 * server with one is a shard, and add_shard has checked it.
 */
static void
check_new_id(Oid server, int32 id)
{
	SlShard    *other = sl_shard_by_id(id);

	if (!sl_shard_is_registering && !superuser())
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("only a superuser may set option \"id\" of a server"),
				errhint("Leave the option out; shardlet.add_shard() sets it."));
	if (other->exists && other->server != server)
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("shard \"%s\" already has id %d", NameStr(other->name), id),
				errhint("Leave the option out; shardlet.add_shard() sets it."));
}

static void
server_created(Oid server, Oid wrapper)
{
	int32		id = shard_id_of(written_options(server, wrapper));

	if (id != 0)
		check_new_id(server, id);
}

/* What it missed while it was offline is put in place by alter_shard() only. */
static void
check_return(Oid server, List *options)
{
	ForeignServer *former = GetForeignServer(server);
	const char *before = sl_option_get(former->options, "state");
	const char *after = sl_option_get(options, "state");
	bool		has_copies;
	bool		is_behind;

	if (sl_shard_is_registering || before == NULL ||
		sl_state_parse(before) != SL_STATE_OFFLINE ||
		(after != NULL && sl_state_parse(after) == SL_STATE_OFFLINE))
		return;
	has_copies = sl_reference_all() != NIL;
	is_behind = sl_map_shard_is_behind(shard_id_of(options));
	if (!has_copies && !is_behind && sl_missed_ddl_list(shard_id_of(options)) == NIL)
		return;
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("shard \"%s\" has to be brought up to date before it is online",
				   former->servername),
			has_copies ? errdetail("There are reference tables, and it has missed changes of them.") :
			is_behind ? errdetail("It has missed changes of maps.") : errdetail("It has missed DDL statements."),
			errhint("SELECT shardlet.alter_shard('%s', state => 'online');", former->servername));
}

/*
 * A guard that knows no map refuses every row, so a shard that is bare no more
 * learns its maps before it is used, like one that has missed changes.
 */
static void
check_no_longer_bare(Oid server, List *options)
{
	ForeignServer *former = GetForeignServer(server);
	List	   *maps = sl_map_ids_of_shard(shard_id_of(options));
	const char *state = sl_option_get(options, "state");
	ListCell   *cell;

	if (!sl_option_is_on(former->options, "bare") || sl_option_is_on(options, "bare") || maps == NIL)
		return;
	if (state == NULL || sl_state_parse(state) != SL_STATE_OFFLINE)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("shard \"%s\" has to be offline for that", former->servername),
				errdetail("It learns its maps when it is online again."),
				errhint("SELECT shardlet.alter_shard('%s', state => 'offline');", former->servername));
	foreach(cell, maps)
		sl_map_shard_set_behind(lfirst_int(cell), shard_id_of(options), true);
}

static void
server_altered(Oid server, Oid wrapper)
{
	int32		former = former_shard_id(server, wrapper);
	List	   *options = written_options(server, wrapper);
	int32		id = shard_id_of(options);

	if (former != 0 && id != former)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("id of a shard cannot be changed"),
				errdetail("Maps refer to the shard by its id, which is %d.", former));
	if (former == 0 && id != 0)
		check_new_id(server, id);
	if (id == 0)
		return;
	if (former != 0)
	{
		check_return(server, options);
		check_no_longer_bare(server, options);
	}
	sl_map_touch_shard(id);
}

static void
server_dropped(Oid server, Oid wrapper)
{
	ForeignServer *row = GetForeignServerExtended(server, FSV_MISSING_OK);
	List	   *maps;
	SlMapRow	map;
	int32		id;

	if (dropping_extension || row == NULL || row->fdwid != wrapper)
		return;
	id = shard_id_of(row->options);
	maps = id != 0 ? sl_map_ids_of_shard(id) : NIL;
	if (maps == NIL || !sl_map_row_read_id(linitial_int(maps), &map))
		return;
	ereport(ERROR,
			errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			errmsg("cannot drop server \"%s\" because it is a shard in use", row->servername),
			errdetail("Map \"%s\" uses it.", NameStr(map.name)),
			errhint("shardlet.drop_shard() forgets a shard; it drops no database and no row."));
}

static void
watch_objects(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	Oid			wrapper;

	if (next_object_access)
		next_object_access(access, class_id, object_id, sub_id, arg);

	/* While a router is being upgraded its maps are not there yet. */
	if (class_id != ForeignServerRelationId || IsBinaryUpgrade || !sl_catalog_is_installed())
		return;
	wrapper = get_foreign_data_wrapper_oid(SL_WRAPPER_NAME, true);
	if (!OidIsValid(wrapper))
		return;
	if (access == OAT_POST_CREATE)
		server_created(object_id, wrapper);
	else if (access == OAT_POST_ALTER)
		server_altered(object_id, wrapper);
	else if (access == OAT_DROP)
		server_dropped(object_id, wrapper);
}

/*
 * DROP EXTENSION takes everything along, and so does DROP SCHEMA.  Extension
 * and schema have the same name.
 */
static bool
may_drop_extension(Node *statement)
{
	DropStmt   *drop = (DropStmt *) statement;
	ListCell   *cell;

	if (!IsA(statement, DropStmt) ||
		(drop->removeType != OBJECT_EXTENSION && drop->removeType != OBJECT_SCHEMA))
		return false;
	foreach(cell, drop->objects)
	{
		if (strcmp(strVal(lfirst(cell)), SL_WRAPPER_NAME) == 0)
			return true;
	}
	return false;
}

static void
watch_commands(PlannedStmt *statement, const char *source, bool read_only_tree,
			   ProcessUtilityContext context, ParamListInfo params,
			   QueryEnvironment *environment, DestReceiver *receiver,
			   QueryCompletion *completion)
{
	ProcessUtility_hook_type next = next_utility ? next_utility : standard_ProcessUtility;
	bool		outer = dropping_extension;

	if (!may_drop_extension(statement->utilityStmt))
	{
		next(statement, source, read_only_tree, context, params, environment, receiver,
			 completion);
		return;
	}

	/* The flag must not survive the command, however it ends. */
	dropping_extension = true;
	PG_TRY();
	{
		next(statement, source, read_only_tree, context, params, environment, receiver,
			 completion);
	}
	PG_FINALLY();
	{
		dropping_extension = outer;
	}
	PG_END_TRY();
}

void
sl_shard_hook_init(void)
{
	next_object_access = object_access_hook;
	object_access_hook = watch_objects;
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = watch_commands;
}
