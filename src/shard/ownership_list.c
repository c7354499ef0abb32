/*
 * ownership_list.c
 *		Keys of a list map on a shard, looked up one at a time.
 *
 * As on the router a list may have too many keys for the memory of a session.
 * A key is found by its token in the index; results are cached with the map,
 * and discarded with it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "shard/shard.h"

/* The maximum number of cached keys. */
#define MEMO_SIZE 8192

/* The owner of a key's entry. */
typedef enum Verdict
{
	KEY_IS_OWN,
	KEY_IS_ELSEWHERE,
	KEY_IS_UNNAMED				/* the default's */
} Verdict;

typedef struct MemoEntry
{
	int64		token;			/* hash key */
	Datum	   *values;
	Verdict		verdict;
	SlGuardEntry entry;			/* if it is own */
} MemoEntry;

typedef struct Search
{
	SlGuardMap *map;
	const Datum *values;
	Verdict		verdict;
	SlGuardRow	row;
} Search;

/* Visitor: is this the entry of the key? */
bool
sl_guard_list_has(SlGuardMap *map, const SlGuardRow *row, const Datum *values)
{
	Datum	   *texts;
	int			count;

	if (row->low == NULL)
		return row->is_default;
	deconstruct_array(row->low, TEXTOID, -1, false, TYPALIGN_INT, &texts, NULL, &count);
	if (count != map->value_count)
		elog(ERROR, "key of map \"%s\" has %d values", NameStr(map->name), count);
	for (int i = 0; i < count; i++)
	{
		if (!sl_key_equal(&map->value_types[i], values[i],
						  sl_key_from_text(&map->value_types[i], TextDatumGetCString(texts[i]))))
			return false;
	}
	return true;
}

static bool
match_row(const SlGuardRow *row, void *context)
{
	Search	   *search = context;

	if (row->is_default || !sl_guard_list_has(search->map, row, search->values))
		return true;
	search->row = *row;
	search->verdict = row->is_own ? KEY_IS_OWN : KEY_IS_ELSEWHERE;

	/*
	 * The entry of a shardlet that left is kept when its key comes back in
	 * another.
	 */
	return !row->is_own;
}

static bool
same_values(SlGuardMap *map, const Datum *a, const Datum *b)
{
	for (int i = 0; i < map->value_count; i++)
	{
		if (!sl_key_equal(&map->value_types[i], a[i], b[i]))
			return false;
	}
	return true;
}

static void
make_memo(SlGuardMap *map)
{
	HASHCTL		control = {0};

	control.keysize = sizeof(int64);
	control.entrysize = sizeof(MemoEntry);
	control.hcxt = map->context;
	map->memo = hash_create("shardlet guard keys", 256, &control,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Caches a result; reuses a place if there are many. */
static MemoEntry *
cache_entry(SlGuardMap *map, int64 token, const Search *search)
{
	static MemoEntry spare;
	static Datum spare_values[SL_MAX_KEYS];
	MemoryContext old_context = MemoryContextSwitchTo(map->context);
	MemoEntry  *entry = &spare;

	if (map->memo == NULL)
		make_memo(map);
	if (hash_get_num_entries(map->memo) < MEMO_SIZE)
	{
		entry = hash_search(map->memo, &token, HASH_ENTER, NULL);
		entry->values = palloc(sizeof(Datum) * map->value_count);
		for (int i = 0; i < map->value_count; i++)
			entry->values[i] = map->value_types[i].length == -1 ?
				PointerGetDatum(PG_DETOAST_DATUM_COPY(search->values[i])) :
				datumCopy(search->values[i], map->value_types[i].by_value,
						  map->value_types[i].length);
	}
	else
		entry->values = spare_values;
	MemoryContextSwitchTo(old_context);
	entry->verdict = search->verdict;
	memset(&entry->entry, 0, sizeof(SlGuardEntry));
	entry->entry.id = search->row.id;
	entry->entry.state = search->row.state;
	entry->entry.xmin = search->row.xmin;
	return entry;
}

static MemoEntry *
find_entry(SlGuardMap *map, int64 token, const Datum *values)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "shardlet guard look-up",
											   ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(work);
	Search		search = {.map = map,.values = values,.verdict = KEY_IS_UNNAMED};
	MemoEntry  *entry;

	sl_guard_row_scan_token(NameStr(map->name), token, match_row, &search);
	entry = cache_entry(map, token, &search);
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(work);
	return entry;
}

/*
 * Returns the own entry of a key, the default if no entry names it, or NULL.
 */
SlGuardEntry *
sl_guard_list_find(SlGuardMap *map, const Datum *values)
{
	int64		token = sl_key_token(map->value_types, map->value_count, values);
	MemoEntry  *entry = map->memo == NULL ? NULL :
	hash_search(map->memo, &token, HASH_FIND, NULL);

	if (entry == NULL || !same_values(map, values, entry->values))
		entry = find_entry(map, token, values);
	if (entry->verdict == KEY_IS_OWN)
		return &entry->entry;
	return entry->verdict == KEY_IS_UNNAMED && map->entry_count > 0 ? &map->entries[0] : NULL;
}
