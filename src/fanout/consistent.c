/*
 * consistent.c
 *		Begins a fan-out whose snapshots of the shards must agree.
 *
 * The statement is sent to all shards while the fence is held, and the fence is
 * let go as soon as each has taken its snapshot, however long the rows take.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "base/base.h"
#include "fanout/stream.h"

static bool
lacks_snapshot(const SlStream *stream)
{
	return sl_stream_is_live(stream) && !(stream->state == STREAM_RUNNING && stream->has_snapshot);
}

/* A commit that a shard has not finished must be, before its snapshot is taken. */
static bool
is_fenced(const SlFanout *fanout)
{
	for (int i = 0; i < fanout->stream_count; i++)
	{
		const SlStream *stream = &fanout->streams[i];

		if (stream->state == STREAM_READY &&
			(pg_atomic_read_u32(&stream->conn->shard_slot->flags) & SL_SHARD_FENCED) != 0)
			return true;
	}
	return false;
}

static void
hold_fence(SlFanout *fanout)
{
	sl_fence_hold();
	while (is_fenced(fanout))
	{
		sl_fence_release();
		for (int i = 0; i < fanout->stream_count; i++)
		{
			SlStream   *stream = &fanout->streams[i];

			if (stream->state == STREAM_READY)
				sl_stream_recover(stream);
			sl_fanout_check_failure(fanout, stream);
		}
		sl_fence_hold();
	}
}

/* Sends the statement everywhere, and waits until it has a snapshot everywhere. */
void
sl_consistent_start(SlFanout *fanout)
{
	bool		waits = true;

	hold_fence(fanout);
	while (waits)
	{
		int			count = 0;

		CHECK_FOR_INTERRUPTS();
		sl_fanout_start(fanout);
		waits = false;
		for (int i = 0; i < fanout->stream_count; i++)
		{
			SlStream   *stream = &fanout->streams[i];

			waits = waits || lacks_snapshot(stream);
			if (lacks_snapshot(stream) && sl_stream_needs_wait(stream))
				sl_fanout_add_item(fanout, &count, stream);
		}
		if (count > 0)
			sl_fanout_wait(fanout, count);
		else if (waits)
			sl_fanout_wait_for_some(fanout);
	}
	sl_fence_release();
}
