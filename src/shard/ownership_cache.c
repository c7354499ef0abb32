/*
 * ownership_cache.c
 *		Maps as this shard knows them, in a cache of the session.
 *
 * Every change of a shard's entries invalidates the relation of its maps, so a
 * cached map is current as long as no such message was accepted; it is read
 * again as a whole.  A caller that decides by an entry calls
 * AcceptInvalidationMessages() after locking it (ownership_check.c).
 *
 * The structs are in TopMemoryContext and never freed; the content of a map is
 * in a context of its own, which is replaced.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/inval.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "shard/shard.h"

static HTAB *maps = NULL;
static Oid	watched = InvalidOid;	/* the relation of maps */
static uint64 next_load = 1;

static void
mark_outdated(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	SlGuardMap *map;

	if (maps == NULL || (OidIsValid(relid) && relid != watched))
		return;
	hash_seq_init(&status, maps);
	while ((map = hash_seq_search(&status)) != NULL)
		map->is_current = false;
}

void
sl_guard_map_init(void)
{
	CacheRegisterRelcacheCallback(mark_outdated, (Datum) 0);
}

static void
make_cache(void)
{
	HASHCTL		control = {0};

	control.keysize = NAMEDATALEN;
	control.entrysize = sizeof(SlGuardMap);
	control.hcxt = TopMemoryContext;
	maps = hash_create("shardlet guard maps", 16, &control,
					   HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

/* Reading it ------------------------------------------------------------------ */

static void
load_header(SlGuardMap *map, const SlGuardMapRow *row)
{
	MemoryContext old_context = MemoryContextSwitchTo(map->context);

	map->id = row->id;
	map->kind = row->kind;
	map->version = row->version;
	map->copy_version = row->copy_version;
	map->key_count = map->value_count = row->key_count;
	map->key_types = map->value_types = palloc0(sizeof(SlKeyType) * Max(row->key_count, 1));
	for (int i = 0; i < row->key_count; i++)
		sl_key_type_init(&map->key_types[i], row->key_oids[i], map->context);
	if (row->via != NULL)
	{
		map->via = sl_via_init(row->via, row->key_oids, row->key_count, map->context);
		map->value_count = 1;
		map->value_types = palloc0(sizeof(SlKeyType));
		sl_key_type_init(map->value_types, map->via->type, map->context);
	}
	MemoryContextSwitchTo(old_context);
}

static SlBound
read_bound(SlGuardMap *map, ArrayType *stored)
{
	SlBound		bound = {.unbounded = true};
	Datum	   *texts;
	int			count;

	if (stored == NULL || map->kind != SL_KIND_RANGE)
		return bound;
	deconstruct_array(stored, TEXTOID, -1, false, TYPALIGN_INT, &texts, NULL, &count);
	if (count != 1)
		elog(ERROR, "bound of map \"%s\" has %d values", NameStr(map->name), count);
	bound.unbounded = false;
	bound.value = sl_key_from_text(&map->value_types[0], TextDatumGetCString(texts[0]));
	return bound;
}

/* The same, to stay. */
static SlBound
load_bound(SlGuardMap *map, ArrayType *stored)
{
	SlBound		bound = read_bound(map, stored);
	MemoryContext old_context = MemoryContextSwitchTo(map->context);

	if (!bound.unbounded)
		bound.value = datumCopy(bound.value, map->value_types[0].by_value,
								map->value_types[0].length);
	MemoryContextSwitchTo(old_context);
	return bound;
}

static bool
load_row(const SlGuardRow *row, void *context)
{
	SlGuardMap *map = context;
	SlGuardEntry *entry;

	if (!row->is_own || (map->kind == SL_KIND_LIST && !row->is_default))
		return true;

	/* The array is doubled whenever the count is a power of two. */
	if (map->entry_count > 0 && (map->entry_count & (map->entry_count - 1)) == 0)
		map->entries = repalloc(map->entries, sizeof(SlGuardEntry) * map->entry_count * 2);
	entry = &map->entries[map->entry_count++];
	memset(entry, 0, sizeof(SlGuardEntry));
	entry->id = row->id;
	entry->state = row->state;
	entry->xmin = row->xmin;
	entry->low_token = row->has_low_token ? row->low_token : PG_INT64_MIN;
	entry->last_token = row->has_high_token ? row->high_token - 1 : PG_INT64_MAX;
	entry->low = load_bound(map, row->low);
	entry->high = load_bound(map, row->high);
	return true;
}

static int
compare_lows(const void *a, const void *b, void *arg)
{
	SlGuardMap *map = arg;
	const SlBound *left = &((const SlGuardEntry *) a)->low;
	const SlBound *right = &((const SlGuardEntry *) b)->low;

	if (left->unbounded || right->unbounded)
		return (int) right->unbounded - (int) left->unbounded;
	return sl_key_compare(&map->value_types[0], left->value, right->value);
}

/* The default of a list has no low token, and NULLs come last. */
static void
load_rows(SlGuardMap *map)
{
	map->entries = MemoryContextAlloc(map->context, sizeof(SlGuardEntry));
	sl_guard_row_scan(NameStr(map->name), load_row, map);
	if (map->kind == SL_KIND_RANGE)
		qsort_arg(map->entries, map->entry_count, sizeof(SlGuardEntry), compare_lows, map);
}

static void
load_content(SlGuardMap *map)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "shardlet guard loading",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(work);
	SlGuardMapRow row;

	map->is_known = sl_guard_map_row_read(NameStr(map->name), &row);
	if (map->is_known)
	{
		load_header(map, &row);
		load_rows(map);
	}
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(work);
}

/* Reads a map again if it may have changed. */
void
sl_guard_map_refresh(SlGuardMap *map)
{
	NameData	name = map->name;
	int32		id = map->id;
	LocalTransactionId held = map->held;

	if (map->is_current)
		return;
	watched = sl_catalog_oid(SL_GUARD_MAP_TABLE);
	if (map->context != NULL)
		MemoryContextDelete(map->context);
	memset(map, 0, sizeof(SlGuardMap));
	map->name = name;
	map->load = next_load++;
	map->context = AllocSetContextCreate(CacheMemoryContext, "shardlet guard map",
										 ALLOCSET_SMALL_SIZES);

	/* A change during the scan invalidates it again. */
	map->is_current = true;
	PG_TRY();
	{
		load_content(map);
	}
	PG_CATCH();
	{
		map->is_current = false;
		PG_RE_THROW();
	}
	PG_END_TRY();

	/* The lock is on the shardlet's id. */
	if (map->id == id)
		map->held = held;
}

/* Returns a map as of the last accepted invalidation. */
SlGuardMap *
sl_guard_map_get(const char *name)
{
	NameData	key;
	SlGuardMap *map;
	bool		found;

	if (maps == NULL)
		make_cache();
	namestrcpy(&key, name);
	map = hash_search(maps, NameStr(key), HASH_ENTER, &found);
	if (!found)
	{
		memset(map, 0, sizeof(SlGuardMap));
		map->name = key;
	}
	sl_guard_map_refresh(map);
	return map;
}

/*
 * The same for a name that a user gives: NULL if this shard knows no such map.
 * Such a name is not added to the cache, as that of a map with guarded tables
 * is.
 */
SlGuardMap *
sl_guard_map_get_known(const char *name)
{
	NameData	key;
	SlGuardMapRow row;
	SlGuardMap *map;

	namestrcpy(&key, name);
	if ((maps == NULL || hash_search(maps, NameStr(key), HASH_FIND, NULL) == NULL) &&
		!sl_guard_map_row_read(NameStr(key), &row))
		return NULL;
	map = sl_guard_map_get(name);
	return map->is_known ? map : NULL;
}

/* Looking up ------------------------------------------------------------------- */

static SlGuardEntry *
find_token(SlGuardMap *map, int64 token)
{
	int			low = 0;
	int			high = map->entry_count;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (map->entries[middle].low_token <= token)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && token <= map->entries[low - 1].last_token ? &map->entries[low - 1] : NULL;
}

static bool
begins_before(SlGuardMap *map, const SlBound *low, Datum value)
{
	return low->unbounded || sl_key_compare(&map->value_types[0], low->value, value) <= 0;
}

static bool
ends_after(SlGuardMap *map, const SlBound *high, Datum value)
{
	return high->unbounded || sl_key_compare(&map->value_types[0], value, high->value) < 0;
}

static SlGuardEntry *
find_value(SlGuardMap *map, Datum value)
{
	int			low = 0;
	int			high = map->entry_count;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (begins_before(map, &map->entries[middle].low, value))
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && ends_after(map, &map->entries[low - 1].high, value) ?
		&map->entries[low - 1] : NULL;
}

/* Returns the own entry of a key, or NULL. */
SlGuardEntry *
sl_guard_map_find(SlGuardMap *map, const Datum *key)
{
	Datum		via_value;

	switch (map->kind)
	{
		case SL_KIND_HASH:
			return find_token(map, sl_key_token(map->key_types, map->key_count, key));
		case SL_KIND_SPREAD:
			return map->entry_count > 0 ? &map->entries[0] : NULL;
		default:
			break;
	}
	if (map->via != NULL)
	{
		via_value = sl_via_apply(map->via, map->key_count, key);
		key = &via_value;
	}
	return map->kind == SL_KIND_RANGE ? find_value(map, key[0]) : sl_guard_list_find(map, key);
}

/* Is the key in the range of this row, of any owner?  For messages. */
bool
sl_guard_row_has(SlGuardMap *map, const SlGuardRow *row, const Datum *key)
{
	Datum		via_value;
	SlBound		low;
	SlBound		high;
	int64		token;

	if (map->kind == SL_KIND_HASH)
	{
		token = sl_key_token(map->key_types, map->key_count, key);
		return row->low_token <= token && (!row->has_high_token || token < row->high_token);
	}
	if (map->kind == SL_KIND_SPREAD)
		return false;
	if (map->via != NULL)
	{
		via_value = sl_via_apply(map->via, map->key_count, key);
		key = &via_value;
	}
	if (map->kind == SL_KIND_LIST)
		return sl_guard_list_has(map, row, key);
	low = read_bound(map, row->low);
	high = read_bound(map, row->high);
	return begins_before(map, &low, key[0]) && ends_after(map, &high, key[0]);
}
