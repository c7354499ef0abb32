/*
 * map_names.c
 *		Shardlets in messages.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "base/base.h"
#include "map/map.h"

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
