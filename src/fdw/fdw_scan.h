/*
 * fdw_scan.h
 *		A scan of shards while it runs; private to the wrapper.
 */
#ifndef SL_FDW_SCAN_H
#define SL_FDW_SCAN_H

#include "fdw/fdw.h"

typedef struct SlScan
{
	/* from the plan */
	const char *sql;
	const char *lock;			/* what comes behind it */
	List	   *columns;		/* of the table, in the order of the result */
	int			flags;
	int			param_count;
	List	   *programs;
	List	   *expressions;
	int			limit_place;
	int			offset_place;
	const char *relations;
	int			sort_count;
	SlSortKey  *sort_keys;
	List	   *states;			/* of the expressions */
	Bitmapset  *depends_on;		/* parameters of the executor */

	/* while it runs */
	MemoryContext context;		/* of one run */
	TupleDesc	wanted;
	TupleTableSlot *row;		/* NULL: rows have the right shape */
	SlFanout   *fanout;			/* NULL: not begun */
	SlHome		home;
	SlStatement *statement;
	bool		may_repeat;
	bool		is_unlocked;	/* its rows will be locked one by one */
	bool		is_done;		/* what returns no rows */
	bool		keeps_stats;
	SlShardStat *stats;			/* of this run */
	int			stat_count;
	List	   *totals;			/* of all runs: SlShardStats */
	MemoryContextCallback callback;
} SlScan;

/* fdw_scan.c */
extern SlScan *sl_scan_open(ForeignScanState *node);
extern const char **sl_scan_params(SlScan *scan, ExprContext *context);
extern List *sl_scan_shards(SlScan *scan, ExprContext *context);
extern void sl_scan_add_total(SlScan *scan, SlShard *shard, int64 rows, MemoryContext context);
extern void sl_scan_collect(SlScan *scan, MemoryContext context);

#endif							/* SL_FDW_SCAN_H */
