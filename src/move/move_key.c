/*
 * move_key.c
 *		move_key: one key goes to another shard, with its rows of all tables.
 *
 * The key gets a pinned shardlet of its own, and that is moved online.  The two are one
 * transaction, so that what is refused leaves the map as it was.  A move that is undone
 * later leaves the shardlet, pinned where it was.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "metadata/map.h"
#include "move/move.h"

PG_FUNCTION_INFO_V1(shardlet_move_key);

/*
 * Shards are queried before the map is locked; the shardlet that the key has until now
 * stands for the one that it will get.
 */
static void
check_before(SlMap *map, const Datum *key, SlShard *to)
{
	SlShardletRow row;

	if (sl_shardlet_row_read(sl_map_lookup(map, key)->id, &row) && row.shard_id != to->id)
		sl_move_check_preconditions(map, &row, to, SL_MOVE_ONLINE, true);
}

/* move_key(map, to_shard, VARIADIC key) */
Datum
shardlet_move_key(PG_FUNCTION_ARGS)
{
	char	   *name = sl_map_arg_name(fcinfo, 0, "map");
	SlShard    *to = sl_shard_by_name(sl_map_arg_name(fcinfo, 1, "shard"), false);
	MemoryContext context = CurrentMemoryContext;
	SlMap	   *map;
	SlKeyArgs	args;
	Datum		key[SL_MAX_KEYS];
	SlShardletRow row;
	int64		move = 0;

	sl_move_begin_call(fcinfo, "shardlet.move_key()");
	MemoryContextSwitchTo(context);
	sl_key_check_collation(PG_GET_COLLATION());
	sl_key_args_get(fcinfo, 2, &args);
	map = sl_map_get(name);
	sl_map_coerce_key(map, false, &args, key);
	check_before(map, key, to);
	sl_shard_lock(to, AccessShareLock);
	map = sl_map_open_for_change(name);
	sl_map_coerce_key(map, false, &args, key);
	row = sl_map_isolate_key(map, key);
	if (row.shard_id == to->id)
		ereport(NOTICE,
				errmsg("key is already on shard \"%s\"", NameStr(to->name)),
				errdetail("Shardlet %lld has it alone, and is pinned.", (long long) row.id));
	else
	{
		CommandCounterIncrement();
		move = sl_move_record(row.id, NameStr(to->name), SL_MOVE_ONLINE, 0);
	}
	SPI_commit();
	if (move != 0)
	{
		sl_move_start_worker(move);
		sl_move_wait_for_end(move);
	}
	sl_move_end_call();
	PG_RETURN_VOID();
}
