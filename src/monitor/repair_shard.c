/*
 * repair_shard.c
 *		repair_shard(): gives a shard what it lacks of what the router knows.
 *
 * The same that a shard gets when it joins a map, or is online again: all entries of its
 * maps, in place of those that it has; tables and guards that are missing; copies of
 * reference tables, compared row by row.  Each is sent in the session's transaction,
 * under the locks that keep changes of maps and writers of reference tables away.
 *
 * rollback_prepared() ends a prepared transaction that no router knows of.  It cannot be
 * part of the session's transaction, so it has a connection of its own.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "base/hooks.h"
#include "compat.h"
#include "executor/multi_shard.h"
#include "reference/reference.h"

PG_FUNCTION_INFO_V1(shardlet_repair_shard);
PG_FUNCTION_INFO_V1(shardlet_rollback_prepared);

static void
repair_maps(SlShard *shard)
{
	sl_map_touch_shard(shard->id);
	sl_publish_all_to(shard);
}

static void
repair_tables(SlShard *shard)
{
	ListCell   *cell;

	foreach(cell, sl_map_ids_of_shard(shard->id))
		sl_hooks.add_map_tables(sl_map_get_by_id(lfirst_int(cell)), shard);
}

typedef struct Part
{
	const char *name;
	void		(*repair) (SlShard *shard);
} Part;

static const Part parts[] = {
	{"maps", repair_maps},
	{"tables", repair_tables},
	{"references", sl_reference_catch_up}
};

/* repair_shard(shard, what) */
Datum
shardlet_repair_shard(PG_FUNCTION_ARGS)
{
	char	   *name = sl_map_arg_name(fcinfo, 0, "shard");
	char	   *what = sl_map_arg_text(fcinfo, 1, "\"what\"");
	SlShard    *shard = sl_shard_by_name(name, false);
	bool		is_all = strcmp(what, "all") == 0;
	bool		is_known = is_all;

	sl_check_writable("shardlet.repair_shard()");
	if (!sl_server_ownercheck(shard->server, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, name);
	for (int i = 0; i < (int) lengthof(parts); i++)
		is_known = is_known || strcmp(what, parts[i].name) == 0;
	if (!is_known)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("invalid part of a shard \"%s\"", what),
				errhint("Valid values are \"all\", \"maps\", \"tables\" and \"references\"."));
	sl_shard_lock(shard, ShareUpdateExclusiveLock);
	for (int i = 0; i < (int) lengthof(parts); i++)
	{
		if (is_all || strcmp(what, parts[i].name) == 0)
			parts[i].repair(shard);
	}
	PG_RETURN_VOID();
}

/* rollback_prepared(shard, gid) */
Datum
shardlet_rollback_prepared(PG_FUNCTION_ARGS)
{
	char	   *name = sl_map_arg_name(fcinfo, 0, "shard");
	char	   *gid = sl_map_arg_text(fcinfo, 1, "\"gid\"");
	SlShard    *shard = sl_shard_by_name(name, false);
	SlTarget	target = sl_remote_target(shard);
	SlGid		known;
	SlConn	   *conn;

	sl_check_writable("shardlet.rollback_prepared()");
	if (!sl_server_ownercheck(shard->server, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, name);
	if (sl_gid_parse(gid, &known) && known.router_instance == sl_router_instance() &&
		known.database == MyDatabaseId && sl_gid_decision(&known) != SL_DECISION_UNKNOWN)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_IN_USE),
				errmsg("prepared transaction \"%s\" is one of this router", gid),
				errhint("shardlet.recover() finishes it as the router has decided."));
	conn = sl_remote_open(&target);
	(void) sl_remote_exec(conn, psprintf("ROLLBACK PREPARED %s", quote_literal_cstr(gid)), 0, NULL);
	sl_conn_close(conn);
	PG_RETURN_VOID();
}
