/*
 * shard_map.h
 *		Telling shards what they own.
 */
#ifndef SL_SHARD_MAP_H
#define SL_SHARD_MAP_H

#include "map/map.h"

extern void sl_shard_map_init(void);
extern void sl_shard_map_catch_up(SlShard *shard);
extern void sl_shard_map_announce(const SlMap *map, const SlShardletRow *row, SlShard *shard);
extern void sl_shard_map_withdraw(const SlMap *map, int64 shardlet, SlShard *shard);

#endif							/* SL_SHARD_MAP_H */
