/*
 * consistent_read.c
 *		Begins a multi-shard scan whose snapshots of the shards must agree.
 *
 * When all shards are connected to and have described the statement, it takes a
 * ticket among the multi-shard commits (transaction/commit_lock.c).  The statement is
 * sent to each shard when it has its turn on that shard, and the turn is over as soon
 * as the shard has taken its snapshot, however long the rows take.
 *
 * A commit that a shard has not confirmed is finished there before its snapshot
 * is taken.  That can take a while, so it is done before anything is held; if one
 * fails while its end is waited for, it is done when all other shards have their
 * snapshots, and only what concerns this shard is held up.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "base/base.h"
#include "executor/shard_stream.h"

/*
 * With shardlet.consistent_reads the shards' snapshots must agree.  A read that has
 * its own, because it is the only one of its transaction or all of these have
 * their own, takes them in its own pipeline, and they end with it.
 */
void
sl_consistent_choose(SlMultiShardSpec *spec)
{
	if (!sl_consistent_reads || spec->use.writes || list_length(spec->shards) < 2 ||
		spec->use.statement != 0 ||
		(sl_snapshot_is_shared() && spec->use.scope == SL_SCOPE_SESSION))
		return;
	spec->is_consistent = true;
	spec->use.takes_snapshot = true;
	spec->use.scope = SL_SCOPE_COMMIT;
	spec->use.statement = sl_snapshot_new_statement();
}

static bool
lacks_snapshot(const SlStream *stream)
{
	return sl_stream_is_live(stream) && !(stream->state == STREAM_RUNNING && stream->has_snapshot);
}

/* May a commit be unfinished on the shard? */
static bool
is_in_doubt(const SlStream *stream)
{
	return (pg_atomic_read_u32(&stream->conn->shard_slot->flags) & SL_SHARD_FENCED) != 0;
}

/* Finishes on all shards what is committed, while nothing is held. */
static void
finish_commits(SlMultiShardScan *scan)
{
	for (int i = 0; i < scan->stream_count; i++)
	{
		SlStream   *stream = &scan->streams[i];

		if (stream->state != STREAM_READY || !is_in_doubt(stream))
			continue;
		sl_stream_recover(stream);
		sl_multi_shard_check_failure(scan, stream);
	}
}

/* Is a stream on its way to its snapshot? */
static bool
any_is_starting(const SlMultiShardScan *scan)
{
	for (int i = 0; i < scan->stream_count; i++)
	{
		if (scan->streams[i].state != STREAM_READY && lacks_snapshot(&scan->streams[i]))
			return true;
	}
	return false;
}

/* Marks streams whose turn has not come.  Returns true if there are some. */
static bool
hold_back(SlMultiShardScan *scan)
{
	bool		result = false;

	for (int i = 0; i < scan->stream_count; i++)
	{
		SlStream   *stream = &scan->streams[i];

		if (stream->turn == TURN_OVER)
			continue;
		stream->turn = stream->state == STREAM_READY &&
			!sl_commit_lock_has_turn(stream->shard->id) ? TURN_WAITS : TURN_DUE;
		result = result || stream->turn == TURN_WAITS;
	}
	for (int i = 0; i < scan->stream_count; i++)
	{
		SlStream   *stream = &scan->streams[i];

		if (stream->state == STREAM_READY && stream->turn == TURN_DUE && is_in_doubt(stream) &&
			any_is_starting(scan))
			stream->turn = TURN_WAITS;
	}
	return result;
}

/* Ends the turns on shards that have their snapshots.  Returns true if some have not. */
static bool
end_turns(SlMultiShardScan *scan)
{
	bool		result = false;

	for (int i = 0; i < scan->stream_count; i++)
	{
		SlStream   *stream = &scan->streams[i];

		if (lacks_snapshot(stream))
			result = true;
		else if (stream->turn != TURN_OVER)
		{
			stream->turn = TURN_OVER;
			sl_commit_lock_end_turn(stream->shard->id);
		}
	}
	return result;
}

static void
wait_for_snapshots(SlMultiShardScan *scan, bool for_turns)
{
	int			count = 0;

	for (int i = 0; i < scan->stream_count; i++)
	{
		SlStream   *stream = &scan->streams[i];

		if (lacks_snapshot(stream) && sl_stream_needs_wait(stream))
			sl_multi_shard_add_item(scan, &count, stream);
	}
	sl_wait_for_latch = for_turns;
	if (count > 0)
		sl_multi_shard_wait(scan, count);
	else if (for_turns)
		sl_wait_latch();
	else
		sl_multi_shard_wait_for_some(scan);
	sl_wait_for_latch = false;
}

/* Sends the statement to all shards, and waits until all have taken its snapshot. */
static void
take_snapshots(SlMultiShardScan *scan, bool may_wait)
{
	bool		lacks_some = true;

	while (lacks_some)
	{
		bool		for_turns = may_wait && hold_back(scan);

		CHECK_FOR_INTERRUPTS();
		sl_multi_shard_start(scan);
		lacks_some = end_turns(scan);
		if (lacks_some)
			wait_for_snapshots(scan, for_turns);
	}
}

void
sl_consistent_start(SlMultiShardScan *scan)
{
	SlSnapshotSet wanted = {0};
	bool		may_wait;

	finish_commits(scan);
	sl_commit_lock_list_shards(&wanted, scan->spec.shards);
	(void) sl_commit_lock_begin_snapshot(&wanted, &may_wait);
	for (int i = 0; i < scan->stream_count; i++)
		scan->streams[i].snapshot_deadline = sl_wait_deadline(sl_connect_timeout);
	PG_TRY();
	{
		take_snapshots(scan, may_wait);
	}
	PG_CATCH();
	{
		sl_commit_lock_end();
		PG_RE_THROW();
	}
	PG_END_TRY();
	sl_commit_lock_end();
}
