/*
 * map_lookup.c
 *		From key to shardlet.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "base/base.h"
#include "metadata/map.h"

/*
 * Returns the last shardlet of a hash map that begins at or before the token,
 * or -1.
 */
static int
find_token_position(const SlMap *map, int64 token)
{
	int			low = 0;
	int			high = map->shardlet_count;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (map->low_tokens[middle] <= token)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

/*
 * Returns the last shardlet of a range map that begins at or before the value,
 * or -1.
 */
int
sl_map_find_value(SlMap *map, Datum value)
{
	int			low = 0;
	int			high = map->shardlet_count;

	while (low < high)
	{
		int			middle = (low + high) / 2;
		const SlBound *bound = &map->lows[middle];

		if (bound->unbounded ||
			sl_key_compare(&map->value_types[0], bound->value, value) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

static bool
range_ends_after(SlMap *map, int index, Datum value)
{
	const SlBound *high = &map->highs[index];

	return high->unbounded ||
		sl_key_compare(&map->value_types[0], value, high->value) < 0;
}

/*
 * Raises the error that no shardlet has the key.  "after" is the shardlet
 * before the gap, or -1.
 */
static void
refuse_unowned_key(SlMap *map, int after)
{
	const char *before_text = after >= 0 ? sl_shardlet_text(map, after) : NULL;
	const char *after_text = after + 1 < map->shardlet_count ?
	sl_shardlet_text(map, after + 1) : NULL;

	if (map->kind == SL_KIND_LIST)
		ereport(ERROR,
				errcode(SL_ERR_NO_SHARDLET),
				errmsg("map \"%s\" has no shardlet for the key", NameStr(map->name)),
				errhint("Assign it with shardlet.assign_key(), or all such keys with shardlet.assign_default()."));
	ereport(ERROR,
			errcode(SL_ERR_NO_SHARDLET),
			errmsg("map \"%s\" has no shardlet for the key", NameStr(map->name)),
			before_text && after_text ?
			errhint("It lies between shardlet %s and shardlet %s.", before_text, after_text) :
			before_text ? errhint("It lies after the last shardlet, %s.", before_text) :
			after_text ? errhint("It lies before the first shardlet, %s.", after_text) :
			errhint("The map has no shardlets."));
}

/*
 * Each of these returns NULL, and the shardlet before the gap, if there is
 * none.
 */
static const SlShardlet *
find_by_token(SlMap *map, const Datum *key, int *index)
{
	int64		token = sl_key_token(map->key_types, map->key_count, key);

	*index = find_token_position(map, token);
	if (*index < 0 || token > map->shardlets[*index].last_token)
		return NULL;
	return &map->shardlets[*index];
}

static const SlShardlet *
find_in_range(SlMap *map, Datum value, int *index)
{
	*index = sl_map_find_value(map, value);
	if (*index < 0 || !range_ends_after(map, *index, value))
		return NULL;
	return &map->shardlets[*index];
}

static const SlShardlet *
find_shardlet(SlMap *map, const Datum *key, int *index)
{
	Datum		via_value;

	*index = -1;
	if (map->kind == SL_KIND_HASH)
		return find_by_token(map, key, index);
	if (map->via != NULL)
	{
		via_value = sl_via_apply(map->via, map->key_count, key);
		key = &via_value;
	}
	return map->kind == SL_KIND_RANGE ? find_in_range(map, key[0], index) :
		sl_map_list_lookup(map, key);
}

/* Returns the shardlet of a key, or NULL if there is none. */
const SlShardlet *
sl_map_find(SlMap *map, const Datum *key)
{
	int			index;

	return find_shardlet(map, key, &index);
}

/*
 * Returns the shardlet of a key; none is an error (SL001).  The key has the
 * map's key types and no NULL.  The result is valid until the map is refreshed
 * or another key of a list map is looked up.
 */
const SlShardlet *
sl_map_lookup(SlMap *map, const Datum *key)
{
	int			index;
	const SlShardlet *shardlet = find_shardlet(map, key, &index);

	if (shardlet == NULL)
		refuse_unowned_key(map, index);
	return shardlet;
}

/*
 * Returns the next slot of a spread map that takes rows, round robin.  Every
 * session starts at another slot.
 */
const SlShardlet *
sl_map_next_slot(SlMap *map)
{
	static uint32 turn = 0;

	if (turn == 0)
		turn = (uint32) MyProcPid;
	for (int i = 0; i < map->shardlet_count; i++)
	{
		const SlShardlet *slot = &map->shardlets[turn++ % map->shardlet_count];

		if (slot->state == SL_STATE_ONLINE && slot->shard->exists &&
			slot->shard->state == SL_STATE_ONLINE)
			return slot;
	}
	ereport(ERROR,
			errcode(map->shardlet_count == 0 ? SL_ERR_NO_SHARDLET : SL_ERR_UNREACHABLE),
			errmsg("no shard of map \"%s\" takes rows", NameStr(map->name)),
			errdetail("It has %d shardlets, and none is online on a shard that is online.",
					  map->shardlet_count));
}

/* Raises an error if the shardlet, or its shard, is offline or gone. */
void
sl_map_check_readable(const SlMap *map, const SlShardlet *shardlet)
{
	const SlShard *shard = shardlet->shard;

	if (!shard->exists)
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("shardlet %lld of map \"%s\" is on a shard that does not exist any more",
					   (long long) shardlet->id, NameStr(map->name)),
				errdetail("Its id was %d.", shard->id),
				errhint("Give the shardlet to another shard with shardlet.reassign()."));
	if (shard->state == SL_STATE_OFFLINE)
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("shard \"%s\" is offline", NameStr(shard->name)),
				errhint("shardlet.alter_shard('%s', state => 'online') brings it back.",
						NameStr(shard->name)));
	if (shardlet->state == SL_STATE_OFFLINE)
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("shardlet %lld of map \"%s\" is offline",
					   (long long) shardlet->id, NameStr(map->name)),
				errhint("shardlet.alter_shardlet(%lld, state => 'online') brings it back.",
						(long long) shardlet->id));
}

/* Raises an error if the shardlet, or its shard, is not writable. */
void
sl_map_check_writable(const SlMap *map, const SlShardlet *shardlet)
{
	const SlShard *shard = shardlet->shard;
	bool		by_shard = shard->state == SL_STATE_READ_ONLY;

	if (shardlet->state != SL_STATE_READ_ONLY && !by_shard)
		return;
	ereport(ERROR,
			errcode(SL_ERR_READ_ONLY),
			errmsg("key of map \"%s\" is read-only", NameStr(map->name)),
			by_shard ?
			errdetail("It is in shardlet %lld on shard \"%s\", which is read-only.",
					  (long long) shardlet->id, NameStr(shard->name)) :
			errdetail("It is in shardlet %lld on shard \"%s\", and the shardlet is read-only.",
					  (long long) shardlet->id, NameStr(shard->name)),
			by_shard ?
			errhint("shardlet.alter_shard('%s', state => 'online') lets writes in.", NameStr(shard->name)) :
			errhint("A move ends by itself; otherwise shardlet.alter_shardlet(%lld, state => 'online') lets writes in.",
					(long long) shardlet->id));
}

/* Messages ------------------------------------------------------------------------ */

static const char *
bound_text(SlMap *map, const SlBound *bound)
{
	return bound->unbounded ? "unbounded" :
		sl_key_to_text(&map->value_types[0], bound->value);
}

/* Describes a shardlet of a hash or range map for a message. */
const char *
sl_shardlet_text(SlMap *map, int index)
{
	const SlShardlet *shardlet = &map->shardlets[index];
	StringInfoData label;

	initStringInfo(&label);
	if (map->kind == SL_KIND_RANGE)
		appendStringInfo(&label, "%lld [%s, %s) on shard \"%s\"",
						 (long long) shardlet->id,
						 bound_text(map, &map->lows[index]),
						 bound_text(map, &map->highs[index]),
						 NameStr(shardlet->shard->name));
	else
		appendStringInfo(&label, "%lld (tokens %lld to %lld) on shard \"%s\"",
						 (long long) shardlet->id,
						 (long long) shardlet->low_token,
						 (long long) shardlet->last_token,
						 NameStr(shardlet->shard->name));
	return label.data;
}
