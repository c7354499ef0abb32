/*
 * snapshot.c
 *		Snapshots of several shards that agree with each other.
 *
 * With shardlet.consistent_reads the snapshots of all shards are taken between
 * two commits that concern several shards, and never across one: the fence
 * keeps the two apart.  For a statement they are taken with it, in the same
 * flight; a transaction with one snapshot for all its statements takes them of
 * all shards, with its first one.
 */
#include "postgres.h"

#include "access/xact.h"

#include "base/base.h"
#include "txn/txn.h"

static const char snapshot_sql[] = "SELECT 1";

/* The transaction's snapshots have been taken. */
static bool is_taken = false;

/* Statements whose reads must agree have numbers. */
uint64
sl_snapshot_new_statement(void)
{
	static uint64 last = 0;

	return ++last;
}

/* Do all statements of the transaction share one snapshot, of all shards? */
bool
sl_snapshot_is_shared(void)
{
	return sl_consistent_reads && IsolationUsesXactSnapshot();
}

bool
sl_snapshot_is_taken(void)
{
	return is_taken;
}

/* The transaction is over. */
void
sl_snapshot_end(void)
{
	is_taken = false;
}

static bool
any_is_fenced(const SlReply *replies, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure == NULL &&
			(pg_atomic_read_u32(&replies[i].conn->shard_slot->flags) & SL_SHARD_FENCED) != 0)
			return true;
	}
	return false;
}

/* Connects to all shards that can be reached, and holds the fence. */
static void
open_and_hold(SlReply *replies, int count)
{
	sl_broadcast_open(replies, count);
	sl_fence_hold();
	while (any_is_fenced(replies, count))
	{
		sl_fence_release();
		for (int i = 0; i < count; i++)
		{
			if (replies[i].failure == NULL)
				replies[i].failure = sl_recover_before(replies[i].shard, replies[i].conn);
		}
		sl_fence_hold();
	}
}

/*
 * Takes the snapshots of all shards, for the whole transaction.  One that
 * cannot be reached now cannot take part in it later.
 */
void
sl_snapshot_begin(void)
{
	SlTxnUse	use = {0};
	SlReply    *replies;
	ListCell   *cell;
	List	   *shards = sl_shard_all();
	int			count = 0;

	if (is_taken || !sl_snapshot_is_shared())
		return;
	replies = palloc0(sizeof(SlReply) * Max(list_length(shards), 1));
	foreach(cell, shards)
	{
		SlShard    *shard = lfirst(cell);

		if (shard->state != SL_STATE_OFFLINE)
			replies[count++].shard = shard;
	}
	open_and_hold(replies, count);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure == NULL)
			sl_txn_join(replies[i].conn, &use);
	}
	sl_broadcast_run(replies, count, snapshot_sql, 0, NULL, sl_shard_timeout);
	sl_fence_release();
	is_taken = true;
}
