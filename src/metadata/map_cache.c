/*
 * map_cache.c
 *		Maps as the session knows them.
 *
 * A change of a map makes PostgreSQL invalidate the relation of maps
 * (map_change.c).  The message reaches every session; the callback only marks
 * all cached maps as possibly outdated, since it must not read anything.  Such
 * a map is compared with its row, which is one index lookup, and read again
 * only if it did change.
 *
 * Version and xmin of the row are compared.  The version alone would not do: a
 * session that rolled back its own version 6 has cached it, and must not take
 * it for the version 6 that another session committed afterwards.
 *
 * Routing accepts pending invalidations itself, because a statement on tables
 * that are locked already accepts none.  The structs are in TopMemoryContext
 * and never freed, so that callers can keep a pointer; a map's content is in a
 * context of its own and is replaced as a whole.  A hash map of 65536
 * shardlets takes 4 MB.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/base.h"
#include "metadata/map.h"

typedef struct CacheEntry
{
	SlMap		map;			/* begins with the hash key */
	uint64		checked;		/* the value of "epoch" at the last comparison */
} CacheEntry;

/* What is collected while a map is read. */
typedef struct Loader
{
	SlMap	   *map;			/* being filled */
	int			allocated;
} Loader;

static HTAB *maps;
static Oid	map_relation;		/* whose invalidation is waited for */
static uint64 epoch = 1;		/* raised by every invalidation */
static uint64 next_load = 1;

static void
mark_outdated(Datum arg, Oid relid)
{
	if (!OidIsValid(relid) || relid == map_relation)
		epoch++;
}

/*
 * Marks all cached maps as possibly outdated, after a shard has refused a key:
 * it knows better than the session which shardlets it owns.  A change becomes
 * visible, and reaches the shards, a moment before its invalidation arrives.
 */
void
sl_map_invalidate_all(void)
{
	epoch++;
}

void
sl_map_init(void)
{
	CacheRegisterRelcacheCallback(mark_outdated, (Datum) 0);
}

/* Returns the entry of a map; without "make", NULL if there is none. */
static CacheEntry *
find_entry(const char *name, bool make)
{
	CacheEntry *entry;
	NameData	key;
	bool		found;

	if (maps == NULL)
	{
		HASHCTL		control = {0};

		control.keysize = NAMEDATALEN;
		control.entrysize = sizeof(CacheEntry);
		control.hcxt = TopMemoryContext;
		maps = hash_create("shardlet maps", 16, &control,
						   HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}
	namestrcpy(&key, name);
	entry = hash_search(maps, NameStr(key), make ? HASH_ENTER : HASH_FIND, &found);
	if (!found && make)
	{
		memset((char *) entry + NAMEDATALEN, 0, sizeof(CacheEntry) - NAMEDATALEN);
		entry->map.name = key;
	}
	return entry;
}

/*
 * Has the session known this version of the map, or a later one, since the
 * statement began?  Uses the cache only.
 */
bool
sl_map_is_settled(const char *name, int64 version)
{
	CacheEntry *entry = find_entry(name, false);

	return entry != NULL && entry->map.id != 0 && entry->map.version >= version &&
		ActiveSnapshotSet() && !XidInMVCCSnapshot(entry->map.xmin, GetActiveSnapshot());
}

static Datum
copy_value(const SlKeyType *type, Datum value)
{
	return datumCopy(value, type->by_value, type->length);
}

static SlBound
read_bound(SlMap *map, ArrayType *stored)
{
	SlBound		bound = {.unbounded = true};
	Datum		value;

	if (stored == NULL)
		return bound;
	sl_map_text_to_values(map, stored, &value);
	bound.unbounded = false;
	bound.value = value;
	return bound;
}

static void
enlarge(Loader *loader)
{
	SlMap	   *map = loader->map;

	loader->allocated *= 2;
	map->shardlets = repalloc(map->shardlets, sizeof(SlShardlet) * loader->allocated);
	if (map->kind == SL_KIND_HASH)
		map->low_tokens = repalloc(map->low_tokens, sizeof(int64) * loader->allocated);
	if (map->kind == SL_KIND_RANGE)
	{
		map->lows = repalloc(map->lows, sizeof(SlBound) * loader->allocated);
		map->highs = repalloc(map->highs, sizeof(SlBound) * loader->allocated);
	}
}

static void
copy_bound(SlMap *map, SlBound *to, ArrayType *stored)
{
	SlBound		bound = read_bound(map, stored);
	MemoryContext old_context = MemoryContextSwitchTo(map->context);

	*to = bound;
	if (!bound.unbounded)
		to->value = copy_value(&map->value_types[0], bound.value);
	MemoryContextSwitchTo(old_context);
}

/* Visitor: adds a row to the map.  Runs in a temporary memory context. */
static bool
add_shardlet(const SlShardletRow *row, void *context)
{
	Loader	   *loader = context;
	SlMap	   *map = loader->map;
	int			index = map->shardlet_count;
	SlShardlet *shardlet;

	if (index == loader->allocated)
		enlarge(loader);
	shardlet = &map->shardlets[index];
	shardlet->id = row->id;
	shardlet->version = row->version;
	shardlet->low_token = row->low_token;
	shardlet->last_token = row->has_high_token ? row->high_token - 1 : PG_INT64_MAX;
	shardlet->shard = sl_shard_by_id(row->shard_id);
	shardlet->state = row->state;
	shardlet->pinned = row->pinned;
	shardlet->is_default = row->is_default;
	if (map->kind == SL_KIND_HASH)
		map->low_tokens[index] = row->low_token;
	if (map->kind == SL_KIND_RANGE)
	{
		copy_bound(map, &map->lows[index], row->low);
		copy_bound(map, &map->highs[index], row->high);
	}
	map->shardlet_count++;
	return true;
}

static int
compare_lows(const void *a, const void *b, void *arg)
{
	SlMap	   *map = arg;
	const SlBound *left = &map->lows[*(const int *) a];
	const SlBound *right = &map->lows[*(const int *) b];

	if (left->unbounded || right->unbounded)
		return (int) right->unbounded - (int) left->unbounded;
	return sl_key_compare(&map->value_types[0], left->value, right->value);
}

/* Sorts the shardlets of a range map by their low bounds. */
static void
sort_ranges(SlMap *map)
{
	int			count = map->shardlet_count;
	int		   *order = palloc(sizeof(int) * Max(count, 1));
	SlShardlet *shardlets = map->shardlets;
	SlBound    *lows = map->lows;
	SlBound    *highs = map->highs;
	SlShardlet *sorted = MemoryContextAlloc(map->context, sizeof(SlShardlet) * Max(count, 1));
	SlBound    *sorted_lows = MemoryContextAlloc(map->context, sizeof(SlBound) * Max(count, 1));
	SlBound    *sorted_highs = MemoryContextAlloc(map->context, sizeof(SlBound) * Max(count, 1));

	for (int i = 0; i < count; i++)
		order[i] = i;
	qsort_arg(order, count, sizeof(int), compare_lows, map);
	for (int i = 0; i < count; i++)
	{
		sorted[i] = shardlets[order[i]];
		sorted_lows[i] = lows[order[i]];
		sorted_highs[i] = highs[order[i]];
	}
	map->shardlets = sorted;
	map->lows = sorted_lows;
	map->highs = sorted_highs;
	pfree(shardlets);
	pfree(lows);
	pfree(highs);
}

/* Copies the map's own row and prepares its key types. */
static void
load_header(SlMap *map, const SlMapRow *row)
{
	MemoryContext old_context = MemoryContextSwitchTo(map->context);

	map->kind = row->kind;
	map->key_count = row->key_count;
	memcpy(map->key_oids, row->key_oids, sizeof(row->key_oids));
	map->key_types = palloc0(sizeof(SlKeyType) * Max(row->key_count, 1));
	for (int i = 0; i < row->key_count; i++)
		sl_key_type_init(&map->key_types[i], row->key_oids[i], map->context);
	map->value_count = map->key_count;
	map->value_types = map->key_types;
	if (row->via != NULL)
	{
		map->via_text = pstrdup(row->via);
		map->via = sl_via_init(row->via, row->key_oids, row->key_count, map->context);
		map->value_count = 1;
		map->value_types = palloc0(sizeof(SlKeyType));
		sl_key_type_init(map->value_types, map->via->type, map->context);
	}
	MemoryContextSwitchTo(old_context);
}

static void
load_shardlets(SlMap *map, int32 id, Snapshot snapshot)
{
	Loader		loader = {.map = map,.allocated = 16};

	map->shardlets = MemoryContextAlloc(map->context, sizeof(SlShardlet) * loader.allocated);
	map->low_tokens = MemoryContextAlloc(map->context, sizeof(int64) * loader.allocated);
	map->lows = MemoryContextAlloc(map->context, sizeof(SlBound) * loader.allocated);
	map->highs = MemoryContextAlloc(map->context, sizeof(SlBound) * loader.allocated);

	/* Lists may have many keys; they are looked up one by one. */
	if (map->kind == SL_KIND_LIST)
		sl_shardlet_row_scan_default(id, snapshot, add_shardlet, &loader);
	else
		sl_shardlet_row_scan(id, snapshot, add_shardlet, &loader);
	if (map->kind == SL_KIND_RANGE)
		sort_ranges(map);
}

/*
 * Reads the map's content.  Runs in a temporary context; an error leaves the
 * entry without a map.
 */
static void
load_content(SlMap *map, const SlMapRow *row, Snapshot snapshot)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext,
											   "shardlet map loading",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(work);
	NameData	name = map->name;

	map->id = 0;
	if (map->context != NULL)
		MemoryContextDelete(map->context);
	memset(map, 0, sizeof(SlMap));
	map->name = name;
	map->load = next_load++;
	map->context = AllocSetContextCreate(CacheMemoryContext, "shardlet map",
										 ALLOCSET_DEFAULT_SIZES);
	load_header(map, row);
	load_shardlets(map, row->id, snapshot);
	sl_orphaned_load(map, row->id, snapshot);
	map->version = row->version;
	map->xmin = row->xmin;
	map->id = row->id;
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(work);
}

/* Compares a cached map with its row and reads it again if it has changed. */
static void
check_entry(CacheEntry *entry)
{
	SlMap	   *map = &entry->map;
	uint64		epoch_before;
	Snapshot	snapshot;
	SlMapRow	row;
	bool		found;

	map_relation = sl_catalog_oid(SL_MAP_TABLE);
	epoch_before = epoch;

	/* One snapshot for the map and its shardlets. */
	snapshot = RegisterSnapshot(GetCatalogSnapshot(map_relation));
	found = sl_map_row_read(NameStr(map->name), snapshot, &row);
	if (!found)
		map->id = 0;
	else if (map->id != row.id || map->version != row.version || map->xmin != row.xmin)
		load_content(map, &row, snapshot);
	UnregisterSnapshot(snapshot);
	entry->checked = epoch_before;
}

/*
 * A transaction that keeps its snapshots must not be routed to a shard that
 * got the rows after these were taken: it would not see them.
 */
static void
check_age(const SlMap *map)
{
	if (!IsolationUsesXactSnapshot() || !FirstSnapshotSet || map->id == 0 ||
		!sl_orphaned_is_newer(map, GetTransactionSnapshot()))
		return;
	ereport(ERROR,
			errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			errmsg("could not serialize access because rows were moved to another shard"),
			errdetail("A shardlet of map \"%s\" has moved since the transaction began.",
					  NameStr(map->name)),
			errhint("Retry the transaction."));
}

/*
 * Makes sure that a cached map is the latest committed one.  Its id is 0
 * afterwards if there is no such map any more.
 */
void
sl_map_refresh(SlMap *map)
{
	CacheEntry *entry = (CacheEntry *) map;

	/* This accepts pending invalidations too. */
	sl_shard_refresh();
	if (entry->checked != epoch || map->id == 0)
		check_entry(entry);
	if (map->orphaned_count > 0)
		check_age(map);
}

/* Returns the map of that name, as it is now. */
SlMap *
sl_map_get(const char *name)
{
	CacheEntry *entry = find_entry(name, false);
	SlMapRow	row;

	/* A name without a map is not added to the cache. */
	if (entry == NULL && sl_map_row_read(name, NULL, &row))
		entry = find_entry(name, true);
	if (entry != NULL)
		sl_map_refresh(&entry->map);
	if (entry == NULL || entry->map.id == 0)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("map \"%s\" does not exist", name),
				errhint("View shardlet.maps lists the maps."));
	return &entry->map;
}

/*
 * The same for a caller that chooses shards to read from.  A change becomes
 * visible, and is applied by the shards, a moment before its invalidation
 * arrives: a session with the old map would read from shards that do not own
 * the rows any more, though its snapshot shows the change, or others have
 * changed the rows since.  That matters for the switch of a move.  By then all
 * sessions know of the orphaned rows, so while there are any, the map is
 * compared.
 */
SlMap *
sl_map_get_now(const char *name)
{
	SlMap	   *map = sl_map_get(name);

	if (map->orphaned_count == 0)
		return map;
	check_entry((CacheEntry *) map);
	return sl_map_get(name);
}

SlMap *
sl_map_get_by_id(int32 id)
{
	SlMapRow	row;

	if (!sl_map_row_read_id(id, &row))
		elog(ERROR, "could not find map %d", id);
	return sl_map_get(NameStr(row.name));
}
