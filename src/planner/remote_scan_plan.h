/*
 * remote_scan_plan.h
 *		The plan node of a remote scan: one query that is sent to shards.
 *
 * "Shardlet Ship" executes a whole statement on one shard, "Shardlet Scatter"
 * on each shard for its own rows.  Both can be a whole plan, made without
 * PostgreSQL's planner, and then also modify rows; or a scan within a bigger
 * plan.
 */
#ifndef SL_REMOTE_SCAN_PLAN_H
#define SL_REMOTE_SCAN_PLAN_H

#include "nodes/plannodes.h"

#include "deparse/partial_aggregate.h"
#include "executor/remote_scan.h"
#include "executor/whole_row.h"

#define SL_REMOTE_PLAN_SHIP "Shardlet Ship"
#define SL_REMOTE_PLAN_SCATTER "Shardlet Scatter"

#define SL_REMOTE_PLAN_WRITES	SL_REMOTE_SCAN_WRITES	/* or locks rows */
#define SL_REMOTE_PLAN_COUNTS	SL_REMOTE_SCAN_COUNTS	/* es_processed is what
														 * the shards report */
#define SL_REMOTE_PLAN_SINGLE	SL_REMOTE_SCAN_SINGLE	/* one shard; more is an
														 * error */
#define SL_REMOTE_PLAN_INSERTS	SL_REMOTE_SCAN_INSERTS	/* rows with the one key
														 * of the programs */
#define SL_REMOTE_PLAN_ONE_ROW	SL_REMOTE_SCAN_ONE_ROW	/* of aggregates, even
														 * of no rows at all */
#define SL_REMOTE_PLAN_FEW_ROWS		SL_REMOTE_SCAN_FEW_ROWS /* at most SL_FEW_ROWS
															 * rows are returned */

typedef struct SlRemotePlan
{
	const char *name;			/* SL_REMOTE_PLAN_SHIP or
								 * SL_REMOTE_PLAN_SCATTER */
	char	   *sql;			/* without LIMIT and OFFSET if these are below */
	List	   *owned;			/* positions of ownership filters in it, if
								 * several shards get it: see
								 * deparse/ownership_filter.c */
	List	   *params;			/* expressions for $1, $2 ... */
	List	   *programs;		/* (Integer table's OID, program) */
	List	   *expressions;	/* that the programs refer to by number */
	List	   *result;			/* TargetEntries of the remote columns; the
								 * last one may be the whole row */
	List	   *sort;			/* OidLists (column from 0, operator,
								 * collation, nulls first), to merge by */
	Node	   *limit_count;	/* of type bigint, or NULL */
	Node	   *limit_offset;
	int			flags;			/* SL_ROAD_... */
	char	   *relations;		/* names, for EXPLAIN */
	Oid			user;			/* the user to connect as; invalid: the
								 * current one */
} SlRemotePlan;

/* Items of CustomScan.custom_private. */
enum
{
	SL_REMOTE_PLAN_SQL,			/* String */
	SL_REMOTE_PLAN_FLAGS,		/* Integer */
	SL_REMOTE_PLAN_PARAM_COUNT, /* Integer: the number of custom_exprs that
								 * are parameters */
	SL_REMOTE_PLAN_PRUNE,		/* List, as above */
	SL_REMOTE_PLAN_SORT,		/* List, as above */
	SL_REMOTE_PLAN_LIMIT,		/* IntList: indexes in custom_exprs after the
								 * parameters, or -1 */
	SL_REMOTE_PLAN_RELATIONS,	/* String */
	SL_REMOTE_PLAN_USER,		/* Integer */
	SL_REMOTE_PLAN_FILTERS		/* List, as above */
};

/* A column that is a serialized aggregate state. */
typedef struct SlRemotePlanCheck
{
	int			column;			/* from 0 */
	const SlStateFormat *format;
} SlRemotePlanCheck;

/* The executor state of a remote scan. */
typedef struct SlRemotePlanState
{
	CustomScanState css;		/* must come first */
	SlRemoteScan scan;
	SlWholeRow	whole;
	int			check_count;
	SlRemotePlanCheck *checks;
	bool		is_done;		/* all rows were returned */
} SlRemotePlanState;

/* remote_scan_plan.c */
extern void sl_remote_plan_init(void);
extern CustomScan *sl_remote_plan_make(const SlRemotePlan *remote, List *target_list);

/* remote_scan_exec.c */
extern void sl_remote_plan_begin_scan(CustomScanState *node, EState *estate, int eflags);
extern TupleTableSlot *sl_remote_plan_next_row(CustomScanState *node);
extern void sl_remote_plan_rescan(CustomScanState *node);
extern void sl_remote_plan_end_scan(CustomScanState *node);
extern void sl_remote_plan_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif							/* SL_REMOTE_SCAN_PLAN_H */
