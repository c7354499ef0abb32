/*
 * shardlet_sizes.h
 *		How much each shardlet of a map has.
 */
#ifndef SL_SHARDLET_SIZES_H
#define SL_SHARDLET_SIZES_H

#include "metadata/table.h"

typedef struct SlShardletSize
{
	SlShardletRow row;
	double		rows;
	double		bytes;			/* of the values of all tables */
	double		load;			/* statements; only if asked for */
} SlShardletSize;

/* shardlet_sizes.c */
extern SlShardletSize *sl_shardlet_sizes_read(SlMap *map, List *shards, int *count, List **missing);
extern void sl_shardlet_sizes_add_load(SlMap *map, SlShardletSize *sizes, int count);

#endif							/* SL_SHARDLET_SIZES_H */
