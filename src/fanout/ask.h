/*
 * ask.h
 *		What all scans have in common whose text was written here.
 *
 * A plan has a text, expressions for its parameters, programs that find the
 * shards, and limits.  They are evaluated when the first row is wanted, with the
 * map of that moment, and then the shards are asked.
 */
#ifndef SL_ASK_H
#define SL_ASK_H

#include "commands/explain.h"
#include "nodes/execnodes.h"

#include "fanout/fanout.h"

#define SL_ASK_LOCKS	0x01	/* rows, on the shards */
#define SL_ASK_WRITES	0x02
#define SL_ASK_TARGET	0x04	/* rows are found to be changed */
#define SL_ASK_SINGLE	0x08	/* the plan relies on one shard having all */
#define SL_ASK_ONE_ROW	0x10	/* of aggregates, even of no rows at all */
#define SL_ASK_COUNTS	0x20	/* its rows are the statement's */
#define SL_ASK_INSERTS	0x40	/* rows with the one key of the program */
#define SL_ASK_FEW		0x80	/* at most SL_FEW_ROWS rows come */

/* Flags from here on are of one kind of scan only. */
#define SL_ASK_FIRST_FREE	0x100

typedef struct SlAsk
{
	/* from the plan */
	const char *sql;
	const char *lock;			/* what comes behind it if rows are locked */
	List	   *owned;			/* where conditions may be put into it: see
								 * deparse/owned.c */
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

	/* Instead of programs: fills in shards and parameters, returns the text. */
	const char *(*choose) (struct SlAsk *ask, SlFanoutSpec *spec);

	/* while it runs */
	PlanState  *node;
	uint64		stamp;			/* the state of the maps that shards were
								 * chosen by */
	MemoryContext context;		/* of one run */
	SlFanout   *fanout;			/* NULL: not begun */
	SlHome		home;
	SlStatement *statement;
	bool		may_repeat;
	bool		keeps_stats;
	SlShardStat *stats;			/* of this run */
	int			stat_count;
	List	   *totals;			/* of all runs: SlShardStats */
	MemoryContextCallback callback;
} SlAsk;

/* ask.c */
extern void sl_ask_open(SlAsk *ask, PlanState *node, List *expressions, List *sort);
extern void sl_ask_settle(SlAsk *ask, Oid user);
extern List *sl_ask_shards(const SlAsk *ask);
extern bool sl_ask_next(SlAsk *ask, TupleTableSlot *slot);
extern void sl_ask_end(SlAsk *ask);
extern void sl_ask_count(SlAsk *ask);
extern void sl_ask_collect(SlAsk *ask);

/* cross_shard.c */
extern void sl_cross_shard_check(const SlAsk *ask, List *shards);

/* ask_explain.c */
extern void sl_ask_explain(SlAsk *ask, ExplainState *es);

#endif							/* SL_ASK_H */
