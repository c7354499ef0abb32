/*
 * distribute.c
 *		distribute(), distribute_tables(), place(): local tables go to the shards.
 *
 * The table is made on the shards without keys and indexes, the rows are copied, then
 * comes the rest, which is faster than maintaining indexes row by row, and fires no
 * user triggers.  At last the local table becomes a shell table (shell_swap.c).  All of
 * it is one transaction, here and on the shards.
 *
 * Locks: the map, so that no shard joins it and none of its shardlets changes,
 * then the table, exclusively.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "commands/commands.h"

PG_FUNCTION_INFO_V1(shardlet_distribute);
PG_FUNCTION_INFO_V1(shardlet_distribute_tables);
PG_FUNCTION_INFO_V1(shardlet_place);

/* The server of distributed tables is created by the first add_shard(). */
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

/* A local table that is to be sharded or placed; the user may do that with it. */
static SlArrival *
make_arrival(Oid relid, List *options, const SlMap *map)
{
	SlArrival  *arrival = palloc0(sizeof(SlArrival));

	arrival->options = options;
	arrival->target = sl_table_get_as(relid, options);
	if (map != NULL)
		sl_table_check_key(arrival->target, map);
	sl_table_check_plain(arrival->target);
	arrival->homes = sl_table_homes(arrival->target);
	sl_missing_shards_check(&arrival->homes, true, false);
	arrival->definition = sl_definition_read_local(relid);
	arrival->definition->map_id = map != NULL ? map->id : 0;
	return arrival;
}

static void
send_table(const SlArrival *arrival)
{
	sl_definition_create(arrival->homes, arrival->definition, SL_PHASE_NEEDS, SL_PHASE_TABLE);
	sl_fault("distribute_before_rows");
	sl_definition_copy_as_owner(arrival->homes, true);
	(void) sl_table_send_rows(arrival->target);
	sl_definition_copy_as_owner(arrival->homes, false);
	sl_definition_create(arrival->homes, arrival->definition, SL_PHASE_KEYS, SL_PHASE_STATISTICS);
}

static void
finish_table(const SlArrival *arrival, const char *verb)
{
	const SlDefinition *definition = arrival->definition;
	const SlTable *target = arrival->target;

	sl_definition_create(arrival->homes, definition, SL_PHASE_FOREIGN_KEYS, SL_PHASE_IDENTITY);
	if (target->kind == SL_TABLE_SHARDED)
		sl_guard_trigger_create(arrival->homes, definition->schema, definition->name, target->map,
								sl_table_key_of(target));
	sl_definition_create(arrival->homes, definition, SL_PHASE_POLICIES, SL_PHASE_POLICIES);
	sl_policy_check_bypass(target->relid, arrival->homes);
	sl_shell_connect(target->relid, arrival->options, verb);
}

/*
 * Foreign keys are created when all tables exist with their keys, so that the tables
 * may reference each other.
 */
static void
move_to_shards(List *arrivals, SlDistributeOptions choices, const char *verb)
{
	ListCell   *cell;

	sl_foreign_key_plan(arrivals, choices);
	foreach(cell, arrivals)
		send_table(lfirst(cell));
	foreach(cell, arrivals)
		finish_table(lfirst(cell), verb);
	sl_fault("distribute_at_end");
}

/*
 * Distributes tables, each of which is locked by then, by one map.  "keys" has the
 * key of each of them: a list of column names, or NULL for a spread map.
 */
void
sl_distribute_tables(List *relids, List *keys, const char *map_name, SlDistributeOptions choices)
{
	SlMap	   *map;
	List	   *arrivals = NIL;
	ListCell   *cell;
	ListCell   *key;

	sl_table_check_server();
	map = sl_map_open_at_rest(map_name);
	foreach(cell, relids)
	{
		sl_table_check_own(lfirst_oid(cell));
		sl_table_check_kind(lfirst_oid(cell));
	}
	forboth(cell, relids, key, keys)
	{
		List	   *options = sl_table_options_sharded(map, lfirst(key), false);

		if (choices.local_unique)
			options = lappend(options, makeDefElem(pstrdup(SL_OPTION_LOCAL_UNIQUE), (Node *) makeString(pstrdup("true")), -1));
		arrivals = lappend(arrivals, make_arrival(lfirst_oid(cell), options, map));
	}
	move_to_shards(arrivals, choices, "distribute");
}

/* The last two arguments of both functions. */
static SlDistributeOptions
read_choices(FunctionCallInfo fcinfo)
{
	SlDistributeOptions choices = {
		.drops_foreign_keys = !PG_ARGISNULL(3) && PG_GETARG_BOOL(3),
		.local_unique = !PG_ARGISNULL(4) && PG_GETARG_BOOL(4)
	};

	return choices;
}

/* distribute(tbl, map, key, drop_foreign_keys, local_unique) */
Datum
shardlet_distribute(PG_FUNCTION_ARGS)
{
	Oid			relid = sl_table_arg(fcinfo, 0);
	char	   *map = sl_map_arg_name(fcinfo, 1, "map");
	char	   *key = PG_ARGISNULL(2) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(2));

	sl_check_writable("shardlet.distribute()");
	sl_distribute_tables(list_make1_oid(relid), list_make1(key), map, read_choices(fcinfo));
	PG_RETURN_VOID();
}

/* The tables, each once. */
static List *
read_tables(FunctionCallInfo fcinfo)
{
	Datum	   *elements;
	bool	   *nulls;
	int			count;
	List	   *result = NIL;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("tables must not be NULL"));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT,
					  &elements, &nulls, &count);
	for (int i = 0; i < count; i++)
	{
		Oid			relid = nulls[i] ? InvalidOid : DatumGetObjectId(elements[i]);

		if (get_rel_name(relid) == NULL)
			ereport(ERROR,
					errcode(ERRCODE_UNDEFINED_TABLE),
					errmsg("table number %d of the list does not exist", i + 1));
		if (list_member_oid(result, relid))
			ereport(ERROR,
					errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("table \"%s\" is in the list twice", get_rel_name(relid)));
		result = lappend_oid(result, relid);
	}
	if (result == NIL)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("list of tables is empty"));
	return result;
}

/* A key for each table: one each, one for all, or, without a list, none. */
static List *
read_keys(FunctionCallInfo fcinfo, int table_count)
{
	Datum	   *elements = NULL;
	bool	   *nulls = NULL;
	int			count = 0;
	List	   *result = NIL;

	if (!PG_ARGISNULL(2))
		deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), TEXTOID, -1, false, TYPALIGN_INT,
						  &elements, &nulls, &count);
	if (count > 1 && count != table_count)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("there are %d tables and %d keys", table_count, count),
				errhint("Give one key for each table, or one for all of them."));
	for (int i = 0; i < table_count; i++)
	{
		int			place = count > 1 ? i : 0;

		result = lappend(result, count == 0 || nulls[place] ? NULL :
						 TextDatumGetCString(elements[place]));
	}
	return result;
}

/* distribute_tables(tbls, map, keys, drop_foreign_keys, local_unique) */
Datum
shardlet_distribute_tables(PG_FUNCTION_ARGS)
{
	List	   *relids = read_tables(fcinfo);
	char	   *map = sl_map_arg_name(fcinfo, 1, "map");
	List	   *keys = read_keys(fcinfo, list_length(relids));

	sl_check_writable("shardlet.distribute_tables()");
	sl_distribute_tables(relids, keys, map, read_choices(fcinfo));
	PG_RETURN_VOID();
}

/* place(tbl, shard) */
Datum
shardlet_place(PG_FUNCTION_ARGS)
{
	Oid			relid = sl_table_arg(fcinfo, 0);
	SlShard    *shard = sl_shard_by_name(sl_map_arg_name(fcinfo, 1, "shard"), false);
	SlDistributeOptions choices = {0};
	SlArrival  *arrival;

	sl_check_writable("shardlet.place()");
	sl_table_check_server();
	sl_shard_lock(shard, AccessShareLock);
	sl_table_check_own(relid);
	sl_table_check_kind(relid);
	arrival = make_arrival(relid, sl_table_options_placed(shard, false), NULL);
	move_to_shards(list_make1(arrival), choices, "place");
	PG_RETURN_VOID();
}
