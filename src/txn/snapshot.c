/*
 * snapshot.c
 *		Snapshots of several shards that agree with each other.
 *
 * With shardlet.consistent_reads the snapshots of all shards are taken between
 * two commits that concern several shards, and never across one: the fence
 * keeps the two apart.  For a statement they are taken with it, in the same
 * flight; a transaction with one snapshot for all its statements takes them of
 * all shards, with its first one.
 *
 * And snapshots for later: a cursor does not see what is written after it was
 * opened, though it asks the shards when the first row is fetched.
 */
#include "postgres.h"

#include "access/xact.h"

#include "base/base.h"
#include "txn/txn.h"

static const char snapshot_sql[] = "SELECT 1";

/* The transaction's snapshots have been taken, at this level; 0: not yet. */
static int	taken_level = 0;

static uint64 last_statement = 0;

static dlist_head readers = DLIST_STATIC_INIT(readers);

/* Statements whose reads must agree have numbers. */
uint64
sl_snapshot_new_statement(void)
{
	return ++last_statement;
}

void
sl_snapshot_open_reader(SlReader *reader)
{
	reader->statement = sl_snapshot_new_statement();
	dlist_push_tail(&readers, &reader->node);
}

void
sl_snapshot_close_reader(SlReader *reader)
{
	dlist_delete(&reader->node);
}

/* Is there one of which the shard has not heard? */
static bool
has_new_reader(const SlConn *conn, const SlReader *writer)
{
	dlist_iter	iter;

	dlist_foreach(iter, &readers)
	{
		/* cppcheck-suppress nullPointer */
		const SlReader *reader = dlist_container(SlReader, node, iter.cur);

		if (reader->may_ask && reader != writer && reader->statement > conn->txn.kept_readers)
			return true;
	}
	return false;
}

/*
 * Goes ahead of a write: the shard takes a snapshot for all that have begun and
 * may ask it yet.  It forgets those of others, so all are named whenever there is
 * a new one.  A bare shard cannot do that.
 */
void
sl_snapshot_keep(SlConn *conn, const SlReader *writer)
{
	StringInfoData numbers;
	const char *params[1];
	dlist_iter	iter;

	if (conn->is_bare || !has_new_reader(conn, writer))
		return;
	initStringInfo(&numbers);
	dlist_foreach(iter, &readers)
	{
		/* cppcheck-suppress nullPointer */
		SlReader   *reader = dlist_container(SlReader, node, iter.cur);

		if (!reader->may_ask || reader == writer)
			continue;
		appendStringInfo(&numbers, "%c%llu", numbers.len == 0 ? '{' : ',',
						 (unsigned long long) reader->statement);
		reader->is_kept = true;
	}
	appendStringInfoChar(&numbers, '}');
	params[0] = numbers.data;
	sl_flight_prelude(conn, "SELECT shardlet.keep_snapshots($1)", lengthof(params), params);
	pfree(numbers.data);
	conn->txn.kept_readers = last_statement;
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
	return taken_level > 0;
}

/* The transaction is over. */
void
sl_snapshot_end(void)
{
	taken_level = 0;
}

/* A savepoint is over.  Rolled back, it takes the snapshots along. */
void
sl_snapshot_end_level(int level, bool is_rolled_back)
{
	if (taken_level >= level)
		taken_level = is_rolled_back ? 0 : level - 1;
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

/* Takes the snapshots of all shards that can be reached. */
static void
take_all(const SlTxnUse *use)
{
	int			count;
	SlReply    *replies = sl_broadcast_make(sl_shard_all(), false, &count);

	open_and_hold(replies, count);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure == NULL)
			sl_txn_join(replies[i].conn, use);
	}
	sl_broadcast_run(replies, count, snapshot_sql, 0, NULL, sl_connect_timeout);
	sl_fence_release();
}

/*
 * Takes the snapshots for the whole transaction, if it has one for all its
 * statements.  A shard that cannot be reached now cannot take part in it later.
 */
void
sl_snapshot_begin(void)
{
	SlTxnUse	use = {0};

	if (taken_level > 0 || !sl_snapshot_is_shared())
		return;
	take_all(&use);
	taken_level = GetCurrentTransactionNestLevel();
}

/* Takes them for a statement that asks several times. */
void
sl_snapshot_begin_statement(uint64 statement)
{
	static uint64 last = 0;
	SlTxnUse	use = {.statement = statement};

	if (!sl_consistent_reads || IsolationUsesXactSnapshot() || statement == last)
		return;
	take_all(&use);
	last = statement;
}
