/*
 * rebuild.h
 *		What rebuild_map() is going to do.
 */
#ifndef SL_REBUILD_H
#define SL_REBUILD_H

#include "repair/repair.h"

/* A map as it will be. */
typedef struct SlRebuild
{
	SlMapRow	row;
	bool		exists;			/* the router has it */
	List	   *maps;			/* SlKnownMap *: what each shard knows of it */
	List	   *claims;			/* SlKnownShardlet *: its shardlets */
} SlRebuild;

/* A table that has a guard on a shard, and that the router does not know. */
typedef struct SlGuardedTable
{
	const char *schema;
	const char *name;			/* qualified and quoted */
	const char *map;			/* NULL: a reference table */
	const char *key;			/* NULL: none */
} SlGuardedTable;

/* A row of the result. */
typedef struct SlRebuildAction
{
	const char *map;
	const char *action;
	int64		shardlet;		/* 0: none */
	const char *low;
	const char *high;
	const char *shard;
	const char *problem;
} SlRebuildAction;

typedef struct SlRebuildPlan
{
	List	   *maps;			/* of SlRebuild * */
	List	   *tables;			/* of SlGuardedTable * */
	List	   *actions;		/* of SlRebuildAction * */
} SlRebuildPlan;

/* rebuild_plan.c */
extern void sl_rebuild_plan(const char *only, SlRebuildPlan *plan);
extern bool sl_rebuild_is_silent(const SlShard *shard);

/* guarded_tables.c */
extern List *sl_rebuild_read_tables(SlShard *shard);

#endif							/* SL_REBUILD_H */
