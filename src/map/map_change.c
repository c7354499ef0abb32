/*
 * map_change.c
 *		What every change of a map has in common.
 *
 * A change locks the map for the rest of the transaction, so that two sessions
 * take turns and the second one sees what the first has done.  It raises the
 * map's version once, gives that version to the shardlets that it touches,
 * invalidates the cached maps of all sessions and notifies listeners; the last
 * two take effect when the transaction commits.
 *
 * Order of locks: shards before maps, maps in the order of their ids.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "commands/async.h"
#include "storage/lmgr.h"
#include "utils/inval.h"

#include "base/base.h"
#include "map/map.h"

static void
lock_map(int32 id)
{
	LockDatabaseObject(sl_catalog_oid(SL_MAP_TABLE), (Oid) id, 0, ExclusiveLock);
	sl_map_note_begin();
}

/* Takes the lock under which names of maps are given away. */
void
sl_map_lock_names(void)
{
	lock_map(0);
}

/* Locks a map and returns it as it is then. */
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

		/* Dropped and made again while we waited: lock the new one. */
		id = map->id;
	}
}

/*
 * The same for whoever changes which tables the map has, or needs all of their
 * rows: no shardlet may be on its way.
 */
SlMap *
sl_map_open_at_rest(const char *name)
{
	SlMap	   *map = sl_map_open_for_change(name);

	if (map->stray_count > 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("a shardlet of map \"%s\" is being moved", name),
				errdetail("See move %lld in shardlet.moves.", (long long) map->strays[0].move),
				errhint("Wait for it, or stop it with CALL shardlet.cancel_move(%lld).",
						(long long) map->strays[0].move));
	return map;
}

/*
 * Locks the map of a shardlet and reads the shardlet's row, for the move of that
 * shardlet.
 */
SlMap *
sl_map_open_for_move(int64 shardlet, SlShardletRow *row)
{
	SlMap	   *map = NULL;

	if (sl_shardlet_row_read(shardlet, row))
	{
		lock_map(row->map_id);

		/* It may have changed, or gone, while we waited. */
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

/* The same for whoever changes a shardlet that is not being moved. */
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
 * Ends a change: writes the new version and tells everyone.  This comes after
 * the shardlets' rows were written, so that whoever reads the map at the new
 * version reads all of it.
 */
void
sl_map_finish_change(const SlMap *map)
{
	raise_version(map->id, NameStr(map->name), map->version);
}

/* Tells everyone that a map is being dropped, before it is. */
void
sl_map_announce_drop(const SlMap *map)
{
	if (sl_map_publish_drop != NULL)
		sl_map_publish_drop(map);
	announce(NameStr(map->name), map->version + 1);
}

/* Begins the row of a new shardlet, with no bounds yet. */
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

/* Raises the version of every map that a changed shard takes part in. */
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

typedef struct Doomed
{
	int32		shard_id;
	List	   *rows;
} Doomed;

static bool
collect_doomed(const SlShardletRow *row, void *context)
{
	Doomed	   *doomed = context;

	if (row->shard_id == doomed->shard_id)
	{
		SlShardletRow *copy = palloc(sizeof(SlShardletRow));

		*copy = *row;
		doomed->rows = lappend(doomed->rows, copy);
	}
	return true;
}

/* Does the map's default, or what a move has left of it, go with the shard? */
static bool
has_default(const SlMap *map, int32 shard_id)
{
	if (map->shardlet_count > 0 && map->shardlets[0].shard->id == shard_id)
		return true;
	for (int i = 0; i < map->stray_count; i++)
	{
		if (map->strays[i].range.is_default && map->strays[i].shard->id == shard_id)
			return true;
	}
	return false;
}

/* Keys that are forgotten become the default's. */
static void
check_default(int32 map_id, int32 shard_id)
{
	const SlMap *map = sl_map_get_by_id(map_id);

	if (map->kind == SL_KIND_LIST && !has_default(map, shard_id))
		sl_map_refuse_moving_default(map);
}

/*
 * Takes a shard out of all maps.  Its shardlets go with it, so their keys have
 * no place any more.
 */
void
sl_map_forget_shard(int32 shard_id)
{
	ListCell   *cell;

	foreach(cell, sl_map_ids_of_shard(shard_id))
	{
		int32		map_id = lfirst_int(cell);
		Doomed		doomed = {.shard_id = shard_id};
		SlMapRow	map_row;
		ListCell   *row_cell;

		lock_map(map_id);
		if (!sl_map_row_read_id(map_id, &map_row))
			continue;
		sl_map_note_dropped(shard_id);
		sl_shardlet_row_scan(map_id, NULL, collect_doomed, &doomed);
		if (doomed.rows != NIL)
			check_default(map_id, shard_id);
		foreach(row_cell, doomed.rows)
			sl_shardlet_row_delete(lfirst(row_cell));
		sl_map_shard_delete(map_id, shard_id);
		raise_version(map_id, NameStr(map_row.name), map_row.version);
	}
}

/* Makes the map's tables on a shard that joins it; set by the area of tables. */
void		(*sl_map_add_tables) (SlMap *map, SlShard *shard) = NULL;

/* Counts rows on a shard that are in no shardlet of it; set there as well. */
int64		(*sl_map_count_misplaced) (SlMap *map, SlShard *shard) = NULL;

/* Makes a shard one of the map's. */
void
sl_map_join_shard(SlMap *map, SlShard *shard)
{
	sl_map_shard_insert(map->id, shard->id);
	if (sl_map_add_tables != NULL)
		sl_map_add_tables(map, shard);
}

/* The same, if it is not one of them yet. */
void
sl_map_include_shard(SlMap *map, SlShard *shard)
{
	if (!list_member_int(sl_map_shard_ids(map->id), shard->id))
		sl_map_join_shard(map, shard);
}

/*
 * Fails if a lane of a spread map would come to where there is one, or where one is on
 * its way from or to.  The caller has the map open for a change; the move is his own,
 * or 0.
 */
void
sl_map_check_lane(const SlMap *map, const SlShard *shard, int64 move)
{
	int64		other;

	if (map->kind != SL_KIND_SPREAD)
		return;
	if (sl_map_count_shardlets(shard->id, map->id) > 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shard \"%s\" already has a shardlet of spread map \"%s\"",
					   NameStr(shard->name), NameStr(map->name)),
				errdetail("Rows of a spread map have no key, so two shardlets on one shard could not be told apart."));
	other = sl_map_move_with(shard->id, map->id, move);
	if (other != 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("a shardlet of spread map \"%s\" is being moved from or to shard \"%s\"",
					   NameStr(map->name), NameStr(shard->name)),
				errdetail("See move %lld in shardlet.moves. Rows of a spread map have no key, so two shardlets on one shard could not be told apart.",
						  (long long) other),
				errhint("Wait for it, or stop it with CALL shardlet.cancel_move(%lld).", (long long) other));
}

typedef struct Candidate
{
	SlShard    *shard;
	double		load;			/* shardlets, those placed now included */
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
 * Chooses shards for new shardlets: one after the other goes to the shard that
 * then has the fewest for its weight, the oldest shard first.  The same map
 * gives the same choice.
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
