/*
 * remote_scan.h
 *		What all scans have in common whose SQL the router has deparsed.
 *
 * A plan has SQL, expressions for its parameters, programs that find the shards,
 * and limits.  They are evaluated when the first row is wanted, with the map of
 * that moment, and then the statement is sent.
 */
#ifndef SL_REMOTE_SCAN_H
#define SL_REMOTE_SCAN_H

#include "commands/explain.h"
#include "nodes/execnodes.h"

#include "executor/multi_shard.h"

#define SL_REMOTE_SCAN_LOCKS	0x01	/* rows, on the shards */
#define SL_REMOTE_SCAN_WRITES	0x02
#define SL_REMOTE_SCAN_TARGET	0x04	/* rows are found to be changed */
#define SL_REMOTE_SCAN_SINGLE	0x08	/* the plan relies on one shard having
										 * all */
#define SL_REMOTE_SCAN_ONE_ROW	0x10	/* of aggregates, even of no rows at
										 * all */
#define SL_REMOTE_SCAN_COUNTS	0x20	/* its rows are the statement's */
#define SL_REMOTE_SCAN_INSERTS	0x40	/* rows with the one key of the
										 * program */
#define SL_REMOTE_SCAN_FEW_ROWS		0x80	/* at most SL_FEW_ROWS rows come */
#define SL_REMOTE_SCAN_LIMITED	0x100	/* rows are locked up to LIMIT; see
										 * locking_limit.c */

/* Flags from here on are of one kind of scan only. */
#define SL_REMOTE_SCAN_FIRST_FREE	0x200

typedef struct SlLockingLimit SlLockingLimit;

typedef struct SlRemoteScan
{
	/* from the plan */
	const char *sql;
	const char *lock;			/* what follows it if rows are locked */
	List	   *owned;			/* where conditions may be put into it: see
								 * deparse/ownership_filter.c */
	List	   *places;			/* SL_REMOTE_SCAN_LIMITED: where in the SQL
								 * columns and conditions can be added, and
								 * the number of the table's alias */
	const char *relations;		/* for EXPLAIN */
	int			flags;
	int			param_count;
	List	   *programs;		/* (table's OID, program) */
	List	   *expressions;	/* of parameters, then all others */
	List	   *states;			/* of these */
	List	   *others;			/* without those of parameters */
	List	   *other_states;
	int			limit_place;	/* among the others, or -1 */
	int			offset_place;
	int			sort_count;
	SlSortKey  *sort_keys;
	TupleDesc	wanted;			/* what comes back */
	int			shard_column;	/* of that, for the shard's id, or -1 */

	/* Instead of programs: fills in shards and parameters, returns the SQL. */
	const char *(*choose) (struct SlRemoteScan *scan, SlMultiShardSpec *spec);

	/* while it runs */
	PlanState  *node;
	uint64		stamp;			/* the state of the maps that shards were
								 * chosen by */
	MemoryContext context;		/* of one run */
	SlMultiShardScan *multi;	/* NULL: not begun */
	SlLockingLimit *limited;	/* instead of it; NULL: not so, or not begun */
	SlCaller	caller;
	SlStatement *statement;
	bool		may_repeat;
	bool		has_restarted;	/* this run: a table had changed */
	bool		keeps_stats;
	SlShardStat *stats;			/* of this run */
	int			stat_count;
	List	   *totals;			/* of all runs: SlShardStats */
	MemoryContextCallback callback;
} SlRemoteScan;

/* remote_scan.c */
extern void sl_remote_scan_open(SlRemoteScan *scan, PlanState *node, List *expressions, List *sort);
extern void sl_remote_scan_set_user(SlRemoteScan *scan, Oid user);
extern List *sl_remote_scan_choose_shards(const SlRemoteScan *scan);
extern bool sl_remote_scan_next_row(SlRemoteScan *scan, TupleTableSlot *slot);
extern void sl_remote_scan_end(SlRemoteScan *scan);
extern void sl_remote_scan_count_rows(SlRemoteScan *scan);

/* Private to these files */
extern bool sl_remote_scan_has_fixed_limit(const SlRemoteScan *scan);

/* remote_scan_transaction.c */
extern bool sl_remote_scan_queries_often(const SlRemoteScan *scan);
extern void sl_remote_scan_set_use(const SlRemoteScan *scan, const SlMultiShardSpec *spec,
								   SlTxnUse *use);
extern void sl_remote_scan_choose_locks(SlRemoteScan *scan, const SlMultiShardSpec *spec);
extern void sl_remote_scan_hold_map(const SlRemoteScan *scan, SlTxnUse *use);

/* locking_limit.c */
extern SlLockingLimit *sl_locking_limit_begin(SlRemoteScan *scan, const SlMultiShardSpec *spec,
											  const char *sql);
extern bool sl_locking_limit_next(SlLockingLimit *lock, TupleTableSlot *slot);
extern const char *sl_locking_limit_describe(const SlRemoteScan *scan);
extern void sl_locking_limit_end_savepoint(SubTransactionId id, SubTransactionId parent,
										   bool is_rolled_back);

/* cross_shard.c */
extern void sl_cross_shard_check(const SlRemoteScan *scan, List *shards);

/* explain.c */
extern void sl_remote_scan_save_stats(SlRemoteScan *scan, SlMultiShardSpec *spec);
extern void sl_remote_scan_collect_rows(SlRemoteScan *scan);
extern void sl_remote_scan_explain(SlRemoteScan *scan, ExplainState *es);

#endif							/* SL_REMOTE_SCAN_H */
