/*
 * distribute.c
 *		distribute(), place(): a local table goes to the shards.
 *
 * The table is made on the shards without keys and indexes, the rows are copied,
 * then comes the rest, which is faster than to keep indexes up to date row by row,
 * and lets user triggers sleep.  At last the local table becomes the foreign table
 * of the same name (swap.c).  All of it is one transaction, here and on the shards.
 *
 * Locks: the map, so that no shard joins it and none of its shardlets changes,
 * then the table, exclusively.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "base/fault.h"
#include "table/table_area.h"

PG_FUNCTION_INFO_V1(shardlet_distribute);
PG_FUNCTION_INFO_V1(shardlet_place);

/* The server of our tables is made by the first add_shard(). */
void
sl_table_check_server(void)
{
	if (OidIsValid(get_foreign_server_oid(SL_TABLES_SERVER_NAME, true)))
		return;
	if (sl_shard_all() != NIL)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("foreign server \"%s\", which sharded tables have, does not exist any more", SL_TABLES_SERVER_NAME),
				errhint("CREATE SERVER %s FOREIGN DATA WRAPPER shardlet;", SL_TABLES_SERVER_NAME));
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("there is no shard yet"),
			errhint("SELECT shardlet.add_shard('s1');"));
}

static void
move_to_shards(const SlTable *target, List *options, const char *verb)
{
	List	   *homes = sl_table_homes(target);
	SlDefinition *definition = sl_definition_read_local(target->relid);

	sl_call_check_states(&homes, true, false);
	sl_foreign_key_plan_own(target, definition);
	sl_foreign_key_plan_others(target);
	sl_definition_create(homes, definition, SL_PHASE_NEEDS, SL_PHASE_TABLE);
	sl_fault("distribute_before_rows");
	(void) sl_table_send_rows(target);
	sl_definition_create(homes, definition, SL_PHASE_KEYS, SL_PHASE_IDENTITY);
	if (target->kind == SL_TABLE_SHARDED)
		sl_guarding_put(homes, definition->schema, definition->name, target->map,
						sl_table_key_of(target));
	sl_swap_to_foreign(target->relid, options, verb);
	sl_definition_declare_key(target, definition);
	sl_foreign_key_arrive(target);
	sl_fault("distribute_at_end");
}

/* distribute(tbl, map, key) */
Datum
shardlet_distribute(PG_FUNCTION_ARGS)
{
	Oid			relid = sl_table_arg(fcinfo, 0);
	char	   *map_name = sl_map_arg_name(fcinfo, 1, "map");
	char	   *key = PG_ARGISNULL(2) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(2));
	SlMap	   *map;
	List	   *options;
	SlTable    *target;

	sl_check_writable("shardlet.distribute()");
	sl_table_check_server();
	map = sl_map_open_at_rest(map_name);
	sl_table_check_own(relid);
	sl_table_check_kind(relid);
	options = sl_table_options_sharded(map, key, false);
	target = sl_table_get_as(relid, options);
	sl_table_check_key(target, map);
	sl_table_check_plain(target);
	move_to_shards(target, options, "distribute");
	PG_RETURN_VOID();
}

/* place(tbl, shard) */
Datum
shardlet_place(PG_FUNCTION_ARGS)
{
	Oid			relid = sl_table_arg(fcinfo, 0);
	SlShard    *shard = sl_shard_by_name(sl_map_arg_name(fcinfo, 1, "shard"), false);
	List	   *options;
	SlTable    *target;

	sl_check_writable("shardlet.place()");
	sl_table_check_server();
	sl_shard_lock(shard, AccessShareLock);
	sl_table_check_own(relid);
	sl_table_check_kind(relid);
	options = sl_table_options_placed(shard, false);
	target = sl_table_get_as(relid, options);
	sl_table_check_plain(target);
	move_to_shards(target, options, "place");
	PG_RETURN_VOID();
}
