/*
 * deadlock_retry.c
 *		Multi-shard writes that do not deadlock with each other.
 *
 * A statement that changes or locks rows on several shards runs on all of them at
 * a time, so two such statements can lock the same rows in opposite order, which
 * cannot happen to them on one server.  One that is all that its transaction has
 * done on shards so far, in READ COMMITTED, is therefore not the victim of such
 * a deadlock: it is rolled back on all shards and sent again with the same
 * parameters, and nothing of it was seen.  For that its rows are kept until
 * all shards have done their part.
 *
 * From then on, for a while, the table is contended (transaction/contention.c): its multi-
 * shard writes take turns until they have locked their rows.  A turn is a lock on
 * the router.  A statement that has it and waits for longer, for a transaction that
 * has nothing to do with this, gives it back, so no session is held up by what
 * others wait for; then, and when it is repeated a second time, a statement goes
 * from shard to shard in the order of their ids.  Statements that do so wait for each
 * other on the first shard where they meet, and cannot form a circle.
 *
 * Only real deadlocks make a statement begin again, because what it has done so
 * far may have taken long.  They are searched for early, since the timeouts of
 * PostgreSQL are too long for statements that take a millisecond.  One that began
 * before its table became contended, and has not run for long, is repeated without
 * a search.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "executor/shard_stream.h"

/* Milliseconds between two checks of what is waited for. */
#define LOOK_MS 50

/* How many milliseconds a turn lasts at most. */
#define TURN_MS 200

/* One that has run for less is repeated without a search if it may have to be. */
#define SHORT_US (5 * 1000 * INT64CONST(1000))

/* Milliseconds that are waited before the second repetition, and at most. */
#define FIRST_PAUSE_MS 20
#define MAX_PAUSE_MS 1000

/*
 * How often a statement is repeated.  Transactions of several statements can make
 * it the victim of another deadlock each time.
 */
#define MAX_REPEATS 20

/*
 * Has the transaction done nothing on shards yet, but take snapshots for the
 * statement?  Those that it takes when it is repeated are newer.  So are the rows
 * that PostgreSQL changes after it has waited for them.
 */
static bool
has_done_nothing(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, sl_txn_participants())
	{
		if (!dlist_container(SlConn, txn.node, iter.cur)->txn.has_only_snapshot)
			return false;
	}
	return true;
}

/* May a multi-shard statement be rolled back on all shards, and sent again? */
void
sl_retry_begin(SlMultiShardScan *scan)
{
	const SlMultiShardSpec *spec = &scan->spec;

	if (!spec->use.writes || list_length(spec->shards) < 2)
		return;
	scan->may_repeat = XactIsoLevel == XACT_READ_COMMITTED && !spec->skip_failures &&
		sl_shmem_is_shared() && has_done_nothing();
	scan->is_ordered = !scan->may_repeat && sl_contention_is_marked(spec->table);
	scan->spec.use.may_repeat = scan->may_repeat;
}

/* When to check, and when to search.  Those that are ordered rarely deadlock. */
static void
schedule_first(SlMultiShardScan *scan)
{
	scan->sent_at = GetCurrentTimestamp();
	scan->look_at = TimestampTzPlusMilliseconds(scan->sent_at, LOOK_MS);
	scan->search_after = scan->is_ordered ? sl_deadlock_timeout :
		Min(LOOK_MS, sl_deadlock_timeout);
	scan->search_at = TimestampTzPlusMilliseconds(scan->sent_at, scan->search_after);
}

static void
schedule_next(SlMultiShardScan *scan)
{
	scan->search_after = Min(2 * scan->search_after, sl_deadlock_timeout);
	scan->search_at = sl_wait_deadline(scan->search_after);
}

/* The table is contended: waits for other statements to lock their rows. */
static void
take_turn(SlMultiShardScan *scan)
{
	scan->is_ordered = scan->repeats > 1 || sl_contention_is_ordered(scan->spec.table);
	sl_contention_take_turn(scan->spec.table);
	scan->has_turn = scan->had_turn = true;
	schedule_first(scan);
}

static void
give_turn(SlMultiShardScan *scan)
{
	if (!scan->has_turn)
		return;
	scan->has_turn = false;
	sl_contention_give_turn(scan->spec.table);
}

/*
 * Does it never wait for a row?  Then it is not made to wait for its turn.  That
 * the words may stand in a constant does no harm.
 */
static bool
never_waits(const SlMultiShardScan *scan)
{
	return strstr(scan->spec.sql, " NOWAIT") != NULL ||
		strstr(scan->spec.sql, " SKIP LOCKED") != NULL;
}

/* Runs the statement on all shards, until nothing of it can deadlock any more. */
void
sl_retry_run(SlMultiShardScan *scan)
{
	schedule_first(scan);
	if (sl_contention_is_marked(scan->spec.table) && !never_waits(scan))
		take_turn(scan);
	sl_multi_shard_run_to_end(scan, scan->spec.wanted->natts > 0);
	give_turn(scan);
	scan->may_repeat = false;
}

/* Waits for streams, and no longer than until the next check. */
void
sl_retry_wait(SlMultiShardScan *scan, int count, TimestampTz deadline)
{
	if (scan->look_at == 0)
		schedule_first(scan);
	PG_TRY();
	{
		sl_deadlock_hold(true);
		sl_multi_shard_wait_for_items(scan, count, Min(deadline, scan->look_at));
	}
	PG_FINALLY();
	{
		sl_deadlock_hold(false);
	}
	PG_END_TRY();
}

/* Has everything that the transaction did on shards been done by this statement? */
static bool
began_all(const SlMultiShardScan *scan)
{
	dlist_iter	iter;

	dlist_foreach(iter, sl_txn_participants())
	{
		const SlConn *conn = dlist_container(SlConn, txn.node, iter.cur);
		bool		is_own = conn->txn.has_only_snapshot;

		for (int i = 0; i < scan->stream_count; i++)
			is_own = is_own || (scan->streams[i].conn == conn &&
								scan->streams[i].txn != STREAM_TXN_SESSION);
		if (!is_own)
			return false;
	}
	return true;
}

/* Makes the stream what it was before its statement was sent. */
static void
reset_stream(SlStream *stream)
{
	if (stream->conn != NULL && stream->txn != STREAM_TXN_SESSION)
		sl_txn_abandon(stream->conn);
	stream->state = stream->prepared != NULL ? STREAM_READY : STREAM_QUEUED;
	stream->txn = STREAM_TXN_SESSION;
	stream->answer = ANSWER_NONE;
	stream->has_retried = false;
	stream->processed = stream->waited_us = 0;
	stream->failure = NULL;
	if (stream->stat != NULL)
		stream->stat->rows = stream->stat->bytes = 0;
	if (stream->state == STREAM_QUEUED)
		sl_stream_begin(stream);
}

/*
 * A row that was given back is free for a moment, before the sessions that wait
 * for it have it: a statement that is repeated at once may take it away from them
 * again and again.
 */
static void
pause_before(const SlMultiShardScan *scan)
{
	int			doublings = Min(scan->repeats - 2, 10);
	TimestampTz end;

	if (doublings < 0)
		return;
	end = sl_wait_deadline(Min(FIRST_PAUSE_MS << doublings, MAX_PAUSE_MS) + MyProcPid % FIRST_PAUSE_MS);
	for (;;)
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), end);

		CHECK_FOR_INTERRUPTS();
		if (left <= 0)
			return;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

/*
 * Rolls the statement back on all shards; it begins again when it is its turn.
 * Returns false if that cannot be done, and nothing has happened then.
 */
bool
sl_retry_give_way(SlMultiShardScan *scan)
{
	List	   *running;

	if (!scan->may_repeat || scan->repeats == MAX_REPEATS || !began_all(scan))
		return false;
	ereport(DEBUG1,
			errmsg_internal("statement on %d shards is repeated after a deadlock",
							scan->stream_count));
	scan->repeats++;
	sl_contention_mark(scan->spec.table, GetCurrentTimestamp() - scan->sent_at);
	give_turn(scan);
	running = sl_multi_shard_release_streams(scan);
	if (running != NIL)
		sl_cancel(running);
	sl_multi_shard_end_spills(scan, false);
	scan->all_started = false;
	for (int i = 0; i < scan->stream_count; i++)
		reset_stream(&scan->streams[i]);
	pause_before(scan);
	take_turn(scan);
	return true;
}

/* Does another session use a shard where the statement is not complete? */
static bool
has_rivals(const SlMultiShardScan *scan)
{
	for (int i = 0; i < scan->stream_count; i++)
	{
		if (scan->streams[i].state == STREAM_RUNNING &&
			sl_shmem_is_used_by_others(scan->streams[i].shard->id))
			return true;
	}
	return false;
}

/* Has the table become contended since, and is little lost by repeating the statement? */
static bool
is_outdated(const SlMultiShardScan *scan)
{
	return !scan->had_turn && GetCurrentTimestamp() - scan->sent_at < SHORT_US &&
		sl_contention_is_marked(scan->spec.table);
}

static void
search_deadlock(SlMultiShardScan *scan)
{
	bool		is_on_router;
	char	   *found = sl_deadlock_to_break(&is_on_router);

	schedule_next(scan);
	if (found == NULL)
		return;

	/* Locks of the router would not be released. */
	if (is_on_router || !sl_retry_give_way(scan))
		sl_deadlock_raise(found);
	pfree(found);
}

/* Others cannot be made to wait for what this statement waits for. */
static void
end_turn(SlMultiShardScan *scan)
{
	if (!scan->has_turn ||
		GetCurrentTimestamp() - scan->sent_at < TURN_MS * INT64CONST(1000))
		return;
	sl_contention_order(scan->spec.table);
	give_turn(scan);
}

/* A stream is waited for: checks for deadlocks when it is time. */
void
sl_retry_look(SlMultiShardScan *scan)
{
	TimestampTz now = GetCurrentTimestamp();

	if (now < scan->look_at)
		return;
	scan->look_at = TimestampTzPlusMilliseconds(now, LOOK_MS);
	end_turn(scan);
	if (!has_rivals(scan))
		return;
	if (is_outdated(scan) && sl_retry_give_way(scan))
		return;
	if (now >= scan->search_at && !scan->has_turn &&
		(scan->search_after == sl_deadlock_timeout ||
		 sl_contention_claim_search(scan->spec.table)))
		search_deadlock(scan);
}

/* Is it the stream's turn, now that statements go from shard to shard? */
bool
sl_retry_is_next(const SlMultiShardScan *scan, const SlStream *stream)
{
	for (int i = 0; i < scan->stream_count; i++)
	{
		const SlStream *other = &scan->streams[i];

		if (other != stream && sl_stream_is_live(other) &&
			(other->shard->id < stream->shard->id || other->state == STREAM_RUNNING))
			return false;
	}
	return true;
}
