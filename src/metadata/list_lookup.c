/*
 * list_lookup.c
 *		Keys of a list map, looked up one at a time.
 *
 * A list may have too many keys for the memory of a session, so a key is found
 * by its token in the index of shardlets; keys with the same token are
 * distinguished by their values.  Results are cached with the map, and
 * discarded with it when the map changes.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "metadata/map.h"

/* The size of the cache, in keys and bytes; a full cache is reset. */
#define MEMO_SIZE 8192
#define MEMO_BYTES (4 * 1024 * 1024)

typedef struct MemoEntry
{
	int64		token;			/* hash key */
	bool		is_default;		/* no entry of its own */
	Datum	   *values;			/* of the key that was looked up */
	SlShardlet	shardlet;
} MemoEntry;

/* Part of the cached map; the hash table is in "context". */
typedef struct Memo
{
	MemoryContext context;
	HTAB	   *table;
} Memo;

typedef struct Search
{
	SlMap	   *map;
	const Datum *values;
	SlShardletRow *row;
	bool		found;
} Search;

/* Writes looked-up values as text[], the form in which they are stored. */
ArrayType *
sl_map_values_to_text(SlMap *map, const Datum *values)
{
	Datum		texts[SL_MAX_KEYS];

	for (int i = 0; i < map->value_count; i++)
		texts[i] = CStringGetTextDatum(sl_key_to_text(&map->value_types[i], values[i]));
	return construct_array(texts, map->value_count, TEXTOID, -1, false, TYPALIGN_INT);
}

/* Reads stored values. */
void
sl_map_text_to_values(SlMap *map, ArrayType *stored, Datum *values)
{
	Datum	   *texts;
	int			count;

	deconstruct_array(stored, TEXTOID, -1, false, TYPALIGN_INT, &texts, NULL, &count);
	if (count != map->value_count)
		elog(ERROR, "shardlet of map \"%s\" has %d values instead of %d",
			 NameStr(map->name), count, map->value_count);
	for (int i = 0; i < count; i++)
		values[i] = sl_key_from_text(&map->value_types[i],
									 TextDatumGetCString(texts[i]));
}

static bool
same_values(SlMap *map, const Datum *a, const Datum *b)
{
	for (int i = 0; i < map->value_count; i++)
	{
		if (!sl_key_equal(&map->value_types[i], a[i], b[i]))
			return false;
	}
	return true;
}

/* Visitor: is this the row of the key? */
static bool
match_row(const SlShardletRow *row, void *context)
{
	Search	   *search = context;
	Datum		values[SL_MAX_KEYS];

	if (row->is_default || row->low == NULL)
		return true;
	sl_map_text_to_values(search->map, row->low, values);
	if (!same_values(search->map, values, search->values))
		return true;
	*search->row = *row;
	search->found = true;
	return false;
}

/* Finds the shardlet that was assigned to exactly this key. */
bool
sl_map_list_find(SlMap *map, int64 token, const Datum *values, SlShardletRow *row)
{
	Search		search = {.map = map,.values = values,.row = row};

	sl_shardlet_row_scan_token(map->id, token, match_row, &search);
	return search.found;
}

static Memo *
get_memo(SlMap *map)
{
	Memo	   *memo = map->list_memo;
	HASHCTL		control = {0};

	if (memo != NULL && hash_get_num_entries(memo->table) < MEMO_SIZE &&
		MemoryContextMemAllocated(memo->context, true) < MEMO_BYTES)
		return memo;
	if (memo != NULL)
		MemoryContextReset(memo->context);
	else
	{
		memo = MemoryContextAlloc(map->context, sizeof(Memo));
		memo->context = AllocSetContextCreate(map->context, "shardlet list memo",
											  ALLOCSET_DEFAULT_SIZES);
	}
	control.keysize = sizeof(int64);
	control.entrysize = sizeof(MemoEntry);
	control.hcxt = memo->context;
	map->list_memo = NULL;
	memo->table = hash_create("shardlet list keys", 256, &control,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	map->list_memo = memo;
	return memo;
}

static void
fill_shardlet(SlShardlet *shardlet, const SlShardletRow *row)
{
	shardlet->id = row->id;
	shardlet->version = row->version;
	shardlet->low_token = shardlet->last_token = row->low_token;
	shardlet->shard = sl_shard_by_id(row->shard_id);
	shardlet->state = row->state;
	shardlet->pinned = row->pinned;
	shardlet->is_default = false;
}

/* Caches the result for a key.  It replaces one of the same token. */
static MemoEntry *
cache_shardlet(SlMap *map, int64 token, const Datum *values, const SlShardletRow *row)
{
	Memo	   *memo = get_memo(map);
	MemoryContext old_context = MemoryContextSwitchTo(memo->context);
	Datum	   *copy = palloc(sizeof(Datum) * map->value_count);
	MemoEntry  *entry;

	/* A pointer into a TOAST table would outlive its row. */
	for (int i = 0; i < map->value_count; i++)
		copy[i] = map->value_types[i].length == -1 ?
			PointerGetDatum(PG_DETOAST_DATUM_COPY(values[i])) :
			datumCopy(values[i], map->value_types[i].by_value, map->value_types[i].length);
	entry = hash_search(memo->table, &token, HASH_ENTER, NULL);
	entry->values = copy;
	entry->is_default = row == NULL;
	if (row != NULL)
		fill_shardlet(&entry->shardlet, row);
	MemoryContextSwitchTo(old_context);
	return entry;
}

static MemoEntry *
find_cached(SlMap *map, int64 token, const Datum *values)
{
	Memo	   *memo = map->list_memo;
	MemoEntry  *entry;

	if (memo == NULL)
		return NULL;
	entry = hash_search(memo->table, &token, HASH_FIND, NULL);
	return entry != NULL && same_values(map, values, entry->values) ? entry : NULL;
}

/* Looks a key up in the index and caches the result. */
static MemoEntry *
find_and_cache(SlMap *map, int64 token, const Datum *values)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext,
											   "shardlet list look-up",
											   ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(work);
	SlShardletRow row;
	bool		found = sl_map_list_find(map, token, values, &row);
	MemoEntry  *entry = cache_shardlet(map, token, values, found ? &row : NULL);

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(work);
	return entry;
}

/*
 * Returns the shardlet of a key, the default one if no entry names the key, or
 * NULL.  It may be newer than the map: a commit becomes visible a moment
 * before its invalidation arrives.
 */
const SlShardlet *
sl_map_list_lookup(SlMap *map, const Datum *values)
{
	int64		token = sl_key_token(map->value_types, map->value_count, values);
	MemoEntry  *entry = find_cached(map, token, values);

	if (entry == NULL)
		entry = find_and_cache(map, token, values);
	if (!entry->is_default)
		return &entry->shardlet;
	return map->shardlet_count > 0 ? &map->shardlets[0] : NULL;
}
