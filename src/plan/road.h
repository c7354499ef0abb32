/*
 * road.h
 *		The node of a plan by which one text goes to shards.
 *
 * "Shardlet Ship" has all of a statement answered by one shard, "Shardlet
 * Scatter" has each shard answer for its own rows.  Both can be all of a plan,
 * made without PostgreSQL's planner, and then also change rows; or a leaf of
 * a bigger plan.
 */
#ifndef SL_ROAD_H
#define SL_ROAD_H

#include "nodes/plannodes.h"

#include "fanout/ask.h"
#include "fanout/whole_row.h"

#define SL_ROAD_SHIP "Shardlet Ship"
#define SL_ROAD_SCATTER "Shardlet Scatter"

#define SL_ROAD_WRITES	SL_ASK_WRITES	/* or locks rows */
#define SL_ROAD_COUNTS	SL_ASK_COUNTS	/* es_processed is what the shards
										 * report */
#define SL_ROAD_SINGLE	SL_ASK_SINGLE	/* one shard; more is an error */
#define SL_ROAD_INSERTS	SL_ASK_INSERTS	/* rows with the one key of the
										 * programs */
#define SL_ROAD_ONE_ROW	SL_ASK_ONE_ROW	/* of aggregates, even of no rows at
										 * all */
#define SL_ROAD_FEW		SL_ASK_FEW	/* at most SL_FEW_ROWS rows come */

typedef struct SlRoad
{
	const char *name;			/* SL_ROAD_SHIP or SL_ROAD_SCATTER */
	char	   *sql;			/* without LIMIT and OFFSET if these are below */
	List	   *owned;			/* places for conditions in it, if several
								 * shards get it: see deparse/owned.c */
	List	   *params;			/* expressions for $1, $2 ... */
	List	   *programs;		/* (Integer table's OID, program) */
	List	   *expressions;	/* that the programs refer to by number */
	List	   *result;			/* TargetEntries of what the shards return;
								 * the last one may be the row as one value */
	List	   *sort;			/* OidLists (column from 0, operator,
								 * collation, nulls first), to merge by */
	Node	   *limit_count;	/* of type bigint, or NULL */
	Node	   *limit_offset;
	CmdType		command;
	int			flags;			/* SL_ROAD_... */
	char	   *relations;		/* names, for EXPLAIN */
	Oid			user;			/* as whom to connect; invalid: the current
								 * one */
} SlRoad;

/* Items of CustomScan.custom_private. */
enum
{
	SL_ROAD_SQL,				/* String */
	SL_ROAD_FLAGS,				/* Integer */
	SL_ROAD_PARAM_COUNT,		/* Integer: so many of custom_exprs are
								 * parameters */
	SL_ROAD_PRUNE,				/* List, as above */
	SL_ROAD_SORT,				/* List, as above */
	SL_ROAD_LIMIT,				/* IntList: places in custom_exprs behind
								 * parameters, or -1 */
	SL_ROAD_RELATIONS,			/* String */
	SL_ROAD_USER,				/* Integer */
	SL_ROAD_OWNED				/* List, as above */
};

/* A road that is travelled. */
typedef struct SlRoadState
{
	CustomScanState css;		/* must come first */
	SlAsk		ask;
	SlWholeRow	whole;
	bool		is_done;		/* all rows have come */
} SlRoadState;

/* road.c */
extern void sl_road_init(void);
extern CustomScan *sl_road_plan(const SlRoad *road, List *target_list);

/* road_scan.c */
extern void sl_road_begin(CustomScanState *node, EState *estate, int eflags);
extern TupleTableSlot *sl_road_next(CustomScanState *node);
extern void sl_road_rescan(CustomScanState *node);
extern void sl_road_end(CustomScanState *node);

/* road_explain.c */
extern void sl_road_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif							/* SL_ROAD_H */
