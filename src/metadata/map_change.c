/*
 * map_change.c
 *		What every change of a map has in common.
 *
 * A change locks the map for the rest of the transaction, so that concurrent
 * changes are serialized and each sees its predecessors.  It raises the map's
 * version once, sets that version in the shardlets that it touches,
 * invalidates the cached maps of all sessions and notifies listeners; the last
 * two take effect at commit.
 *
 * Lock order: shards before maps, maps by ascending id.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "commands/async.h"
#include "storage/lmgr.h"
#include "utils/inval.h"

#include "base/base.h"
#include "base/hooks.h"
#include "metadata/map.h"
#include "metadata/shared_memory.h"

static void
lock_map(int32 id)
{
	LockDatabaseObject(sl_catalog_oid(SL_MAP_TABLE), (Oid) id, 0, ExclusiveLock);
	sl_map_note_begin();
}

/* Takes the lock that protects names of maps. */
void
sl_map_lock_names(void)
{
	lock_map(0);
}

/* Locks a map and returns its current state. */
SlMap *
sl_map_open_for_change(const char *name)
{
	SlMap	   *map = sl_map_get(name);
	int32		id = map->id;

	for (;;)
	{
		lock_map(id);
		map = sl_map_get(name);
		if (map->id == id)
			return map;

		/* Dropped and created again while waiting: lock the new one. */
		id = map->id;
	}
}

/*
 * The same for a change that adds or drops tables of the map, or needs all of
 * their rows: no shardlet may be moving.
 */
SlMap *
sl_map_open_at_rest(const char *name)
{
	SlMap	   *map = sl_map_open_for_change(name);

	if (map->orphaned_count > 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("a shardlet of map \"%s\" is being moved", name),
				errdetail("See move %lld in shardlet.moves.", (long long) map->orphaned[0].move),
				errhint("Wait for it, or stop it with CALL shardlet.cancel_move(%lld).",
						(long long) map->orphaned[0].move));
	return map;
}

/*
 * Locks the map of a shardlet and reads the shardlet's row, for the move of
 * that shardlet.
 */
SlMap *
sl_map_open_for_move(int64 shardlet, SlShardletRow *row)
{
	SlMap	   *map = NULL;

	if (sl_shardlet_row_read(shardlet, row))
	{
		lock_map(row->map_id);

		/* It may have changed, or been deleted, while waiting. */
		if (sl_shardlet_row_read(shardlet, row))
			map = sl_map_get_by_id(row->map_id);
	}
	if (map == NULL)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("shardlet %lld does not exist", (long long) shardlet),
				errhint("View shardlet.shardlets lists the shardlets."));
	return map;
}

/* The same for a change of a shardlet that is not being moved. */
SlMap *
sl_map_open_shardlet(int64 shardlet, SlShardletRow *row)
{
	SlMap	   *map = sl_map_open_for_move(shardlet, row);

	sl_map_refuse_moving(shardlet);
	return map;
}

static void
announce(const char *name, int64 version)
{
	char	   *payload = psprintf("%s %lld", name, (long long) version);

	CacheInvalidateRelcacheByRelid(sl_catalog_oid(SL_MAP_TABLE));
	Async_Notify("shardlet", payload);
	pfree(payload);
}

static void
raise_version(int32 id, const char *name, int64 version)
{
	announce(name, version + 1);
	sl_map_row_set_version(id, version + 1);
	sl_map_note_end(id);
}

/* Returns the version that a change of a locked map makes. */
int64
sl_map_next_version(const SlMap *map)
{
	return map->version + 1;
}

/*
 * Ends a change: writes the new version and announces it.  This must come
 * after the shardlets' rows were written, so that a session that reads the map
 * at the new version reads all of it.
 */
void
sl_map_finish_change(const SlMap *map)
{
	raise_version(map->id, NameStr(map->name), map->version);
}

/*
 * Gives a locked map the next version, or the one after "above" if that is higher.  No
 * shard is told.
 */
void
sl_map_raise_version(const SlMap *map, int64 above)
{
	int64		version = Max(map->version, above) + 1;

	announce(NameStr(map->name), version);
	sl_map_row_set_version(map->id, version);
}

/*
 * Ends a change that was made from what the shards know, so that they need not be told.
 * The map has the version of the row.
 */
void
sl_map_finish_rebuild(const SlMapRow *map)
{
	announce(NameStr(map->name), map->version);
	sl_map_row_set_version(map->id, map->version);
	sl_map_note_begin();
}

/* Announces that a map is being dropped; must precede the drop. */
void
sl_map_announce_drop(const SlMap *map)
{
	sl_hooks.publish_map_drop(map);
	announce(NameStr(map->name), map->version + 1);
}

/* Makes the row of a new shardlet, without bounds. */
SlShardletRow
sl_map_new_shardlet(const SlMap *map, const SlShard *shard, int64 version)
{
	SlShardletRow row = {0};

	row.id = sl_catalog_next_id(SL_SHARDLET_SEQUENCE);
	row.map_id = map->id;
	row.shard_id = shard->id;
	row.state = SL_STATE_ONLINE;
	row.version = version;
	return row;
}

/* Raises the version of every map of a changed shard. */
void
sl_map_touch_shard(int32 shard_id)
{
	ListCell   *cell;

	foreach(cell, sl_map_ids_of_shard(shard_id))
	{
		SlMapRow	row;

		lock_map(lfirst_int(cell));
		if (sl_map_row_read_id(lfirst_int(cell), &row))
			raise_version(row.id, NameStr(row.name), row.version);
	}
}

typedef struct ShardletsOfShard
{
	int32		shard_id;
	List	   *rows;
} ShardletsOfShard;

static bool
collect_shardlet(const SlShardletRow *row, void *context)
{
	ShardletsOfShard *collected = context;

	if (row->shard_id == collected->shard_id)
	{
		SlShardletRow *copy = palloc(sizeof(SlShardletRow));

		*copy = *row;
		collected->rows = lappend(collected->rows, copy);
	}
	return true;
}

/* Is the map's default, or an orphaned range of it, on the shard? */
static bool
has_default(const SlMap *map, int32 shard_id)
{
	if (map->shardlet_count > 0 && map->shardlets[0].shard->id == shard_id)
		return true;
	for (int i = 0; i < map->orphaned_count; i++)
	{
		if (map->orphaned[i].range.is_default && map->orphaned[i].shard->id == shard_id)
			return true;
	}
	return false;
}

/* Keys whose entries are removed belong to the default. */
static void
check_default(int32 map_id, int32 shard_id)
{
	const SlMap *map = sl_map_get_by_id(map_id);

	if (map->kind == SL_KIND_LIST && !has_default(map, shard_id))
		sl_map_refuse_moving_default(map);
}

/*
 * Removes a shard from all maps.  Its shardlets are deleted with it, so their
 * keys have no owner any more.
 */
void
sl_map_forget_shard(int32 shard_id)
{
	ListCell   *cell;

	foreach(cell, sl_map_ids_of_shard(shard_id))
	{
		int32		map_id = lfirst_int(cell);
		ShardletsOfShard collected = {.shard_id = shard_id};
		SlMapRow	map_row;
		ListCell   *row_cell;

		lock_map(map_id);
		if (!sl_map_row_read_id(map_id, &map_row))
			continue;
		sl_map_note_dropped(shard_id);
		sl_shardlet_row_scan(map_id, NULL, collect_shardlet, &collected);
		if (collected.rows != NIL)
			check_default(map_id, shard_id);
		foreach(row_cell, collected.rows)
			sl_shardlet_row_delete(lfirst(row_cell));
		sl_map_shard_delete(map_id, shard_id);
		raise_version(map_id, NameStr(map_row.name), map_row.version);
	}
}

/* Makes a shard one of the map's. */
void
sl_map_join_shard(SlMap *map, SlShard *shard)
{
	sl_map_shard_insert(map->id, shard->id);
	sl_hooks.add_map_tables(map, shard);
}

/* The same, unless it is in the map already. */
void
sl_map_include_shard(SlMap *map, SlShard *shard)
{
	if (!list_member_int(sl_map_shard_ids(map->id), shard->id))
		sl_map_join_shard(map, shard);
}

/*
 * Raises an error if the shard has a slot of the spread map already, or one
 * that is being moved from or to it.  The caller has opened the map for a
 * change; "move" is its own move, or 0.
 */
void
sl_map_check_slot(const SlMap *map, const SlShard *shard, int64 move)
{
	int64		other;

	if (map->kind != SL_KIND_SPREAD)
		return;
	if (sl_map_count_shardlets(shard->id, map->id) > 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shard \"%s\" already has a shardlet of spread map \"%s\"",
					   NameStr(shard->name), NameStr(map->name)),
				errdetail("Rows of a spread map have no key, so two shardlets on one shard would be indistinguishable."));
	other = sl_map_move_with(shard->id, map->id, move);
	if (other != 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("a shardlet of spread map \"%s\" is being moved from or to shard \"%s\"",
					   NameStr(map->name), NameStr(shard->name)),
				errdetail("See move %lld in shardlet.moves. Rows of a spread map have no key, so two shardlets on one shard would be indistinguishable.",
						  (long long) other),
				errhint("Wait for it, or stop it with CALL shardlet.cancel_move(%lld).", (long long) other));
}

typedef struct Candidate
{
	SlShard    *shard;
	double		load;			/* shardlets, including those placed by this
								 * call */
} Candidate;

static int
find_candidates(SlMap *map, Candidate **candidates)
{
	List	   *ids = sl_map_shard_ids(map->id);
	ListCell   *cell;
	int			count = 0;

	*candidates = palloc(sizeof(Candidate) * Max(list_length(ids), 1));
	foreach(cell, ids)
	{
		SlShard    *shard = sl_shard_by_id(lfirst_int(cell));

		if (!shard->exists || shard->state != SL_STATE_ONLINE || shard->weight <= 0)
			continue;
		sl_shard_lock(shard, AccessShareLock);
		(*candidates)[count].shard = shard;
		(*candidates)[count].load = (double) sl_map_count_shardlets(shard->id, map->id);
		count++;
	}
	if (count == 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("map \"%s\" has no shard that can take a shardlet",
					   NameStr(map->name)),
				errdetail("A shard takes shardlets if it is online and its weight is above zero."),
				errhint("Add shards with shardlet.alter_map(), or name the shard."));
	return count;
}

/*
 * Chooses shards for new shardlets: each one goes to the shard that has the
 * fewest for its weight at that point, the oldest shard first.  The choice is
 * deterministic.
 */
SlShard **
sl_map_place(SlMap *map, int count)
{
	SlShard   **result = palloc(sizeof(SlShard *) * Max(count, 1));
	Candidate  *candidates;
	int			candidate_count = find_candidates(map, &candidates);

	for (int i = 0; i < count; i++)
	{
		Candidate  *best = &candidates[0];

		for (int j = 1; j < candidate_count; j++)
		{
			Candidate  *other = &candidates[j];

			if ((other->load + 1) / other->shard->weight <
				(best->load + 1) / best->shard->weight)
				best = other;
		}
		best->load++;
		result[i] = best->shard;
	}
	return result;
}

/*
 * Returns a shard that was taken over by another router, and has a map together with this
 * one; NULL if there is none.
 */
SlShard *
sl_map_lost_shard_beside(int32 shard_id)
{
	uint64		epoch = (uint64) sl_router_get()->epoch;
	ListCell   *map;
	ListCell   *cell;

	foreach(map, sl_map_ids_of_shard(shard_id))
	{
		foreach(cell, sl_map_shard_ids(lfirst_int(map)))
		{
			SlShard    *other = sl_shard_by_id(lfirst_int(cell));

			if (other->id != shard_id && other->exists &&
				pg_atomic_read_u64(&sl_shmem_shard(other->id)->lost_epoch) == epoch)
				return other;
		}
	}
	return NULL;
}
