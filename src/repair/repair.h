/*
 * repair.h
 *		Maps of router and shards that differ.
 */
#ifndef SL_REPAIR_H
#define SL_REPAIR_H

#include "fmgr.h"

#include "connection/connection.h"
#include "metadata/map.h"

/* A shardlet as a shard knows it, or as the router does. */
typedef struct SlKnownShardlet
{
	SlShardletRow row;
	SlShard    *shard;			/* that says so; for the router, the owner */
	const char *owner;			/* NULL: that shard itself */
	int			first;			/* segments that it covers */
	int			last;			/* not included */
} SlKnownShardlet;

/* A map as one shard knows it. */
typedef struct SlKnownMap
{
	SlShard    *shard;
	SlMapRow	row;
	int64		copy_version;
	const char *shard_name;		/* what its router calls the shard */
	const char *router;			/* that it belongs to; NULL: none */
	List	   *shardlets;		/* of SlKnownShardlet * */
} SlKnownMap;

/*
 * A map cut at the borders of all that is known of it: segments in the order of keys.
 * Those of a list are one key each, and its default, the first.
 */
typedef struct SlSegments
{
	const SlMapRow *map;
	int			count;
	void	   *borders;		/* private to segments.c */
} SlSegments;

/* shard_knowledge.c */
extern List *sl_repair_read_shard(SlShard *shard);
extern List *sl_repair_read_router(const SlMapRow *map);
extern const SlKnownMap *sl_repair_find_map(List *known, const char *map);
extern List *sl_repair_map_names(List *known);
extern SlShard *sl_repair_shard_called(List *known, const char *name);

/* segments.c */
extern SlSegments sl_segments_cut(const SlMapRow *map, List *shardlets);
extern SlKnownShardlet **sl_segments_assign(const SlSegments *segments, List *shardlets);
extern const char *sl_segments_low(const SlSegments *segments, int segment);
extern const char *sl_segments_high(const SlSegments *segments, int segment);
extern void sl_segments_set_bounds(const SlSegments *segments, int first, int last, SlShardletRow *row);

#endif							/* SL_REPAIR_H */
