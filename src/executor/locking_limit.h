/*
 * locking_limit.h
 *		Locking reads with LIMIT; private to locking_limit.c and locking_limit_rows.c.
 */
#ifndef SL_LOCKING_LIMIT_H
#define SL_LOCKING_LIMIT_H

#include "lib/ilist.h"

#include "executor/remote_scan.h"

#define SKIP_CLAUSE " SKIP LOCKED"
#define NOWAIT_CLAUSE " NOWAIT"

/* Columns after the wanted ones: ctid of the row, its table on the shard, the shard. */
#define PLACE_COLUMNS 3

typedef struct SlLockRow
{
	MinimalTuple tuple;
	int32		shard;			/* its id */
	char	   *place;			/* table and place in it, on the shard */
	bool		is_locked;
} SlLockRow;

/* What a shard has to do with the rows. */
typedef struct SlLockPart
{
	SlShard    *shard;
	bool		is_tentative;	/* its locks can be taken back */
	int64		found;			/* rows that it has locked */
	int64		chosen;			/* of these */
} SlLockPart;

typedef enum SlLockPolicy
{
	SL_POLICY_WAIT,
	SL_POLICY_NOWAIT,
	SL_POLICY_SKIP
} SlLockPolicy;

struct SlLockingLimit
{
	dlist_node	node;
	SubTransactionId transaction;	/* that the locks end with */
	bool		was_aborted;
	MemoryContextCallback callback;
	SlRemoteScan *scan;
	SlMultiShardSpec spec;		/* what all statements have in common */
	const char *sql;			/* without lock and limit */
	char	   *strength;		/* FOR UPDATE ... */
	SlLockPolicy policy;
	Oid			table;
	MemoryContext context;		/* of rows */
	MemoryContext work;			/* of one attempt */
	TupleTableSlot *slot;
	int64		total;			/* rows to be locked */
	SlLockPart *parts;
	int			part_count;
	SlLockRow  *rows;
	int64		row_count;
	int64		row_room;
	int64		next;			/* to be returned */
};

/* locking_limit_rows.c */
extern TupleDesc sl_locking_limit_descriptor(TupleDesc wanted);
extern SlParams sl_locking_limit_params(const SlParams *from);
extern const char *sl_locking_limit_clause(SlLockPolicy policy);
extern const char *sl_locking_limit_statement(const SlLockingLimit *lock, SlParams *params, int64 limit);
extern SlMultiShardScan *sl_locking_limit_send(SlLockingLimit *lock, List *shards, const char *sql,
											   const SlParams *params, SlParams *shard_params, int64 limit,
											   SlTxnLock kind);
extern SlMultiShardScan *sl_locking_limit_read(SlLockingLimit *lock, List *shards, int64 limit);
extern int32 sl_locking_limit_shard(const SlLockingLimit *lock);
extern bool sl_locking_limit_next_row(SlLockingLimit *lock, SlMultiShardScan *multi);
extern void sl_locking_limit_add_row(SlLockingLimit *lock, bool is_locked);
extern void sl_locking_limit_forget(SlLockingLimit *lock);
extern SlLockPart *sl_locking_limit_part(const SlLockingLimit *lock, int32 shard);
extern bool sl_locking_limit_places(SlLockingLimit *lock, SlLockRow *rows, int64 count, SlLockPolicy policy, SlTxnLock kind);

#endif							/* SL_LOCKING_LIMIT_H */
