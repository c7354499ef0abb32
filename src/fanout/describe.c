/*
 * describe.c
 *		Finds out what a statement returns, on every shard, before it runs.
 *
 * All shards are asked at a time.  A table may have changed since a statement
 * was prepared, so what does not fit is asked for anew before it counts as a
 * difference.  And some things only the shards know: whether a name in ORDER BY
 * is one of the result, and by which collation and type they sort.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "base/base.h"
#include "fanout/stream.h"

/* Connects everywhere and has the statement described. */
static void
describe_everywhere(SlFanout *fanout)
{
	for (;;)
	{
		int			count = 0;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < fanout->stream_count; i++)
		{
			SlStream   *stream = &fanout->streams[i];

			if (stream->state == STREAM_QUEUED && sl_fanout_running_count(fanout) < sl_max_parallel_shards)
			{
				sl_stream_begin(stream);
				sl_fanout_check_failure(fanout, stream);
			}
			if (sl_stream_needs_wait(stream))
				sl_fanout_add_item(fanout, &count, stream);
		}
		if (count == 0)
			break;
		sl_fanout_wait(fanout, count);
	}
}

/* Do the descriptions fit each other, and what the caller wants? */
static bool
all_fit(const SlFanout *fanout)
{
	const SlPrepared *first = NULL;

	for (int i = 0; i < fanout->stream_count; i++)
	{
		const SlStream *stream = &fanout->streams[i];

		if (stream->state != STREAM_READY)
			continue;
		if (first == NULL)
			first = stream->prepared;
		if ((stream->prepared != first && !sl_merge_is_same(first, stream->prepared)) ||
			(stream->decoder == NULL && !sl_merge_is_wanted(fanout, stream)))
			return false;
	}
	return true;
}

/*
 * A table may have changed since the statement was prepared: if something does
 * not fit, old descriptions are asked for anew.
 */
static void
renew_descriptions(SlFanout *fanout)
{
	if (all_fit(fanout))
		return;
	for (int i = 0; i < fanout->stream_count; i++)
	{
		SlStream   *stream = &fanout->streams[i];

		if (stream->state == STREAM_READY && stream->was_prepared)
			sl_stream_describe_again(stream);
	}
	describe_everywhere(fanout);
}

/* The first one that has been described, or NULL. */
static SlStream *
first_ready(const SlFanout *fanout)
{
	for (int i = 0; i < fanout->stream_count; i++)
	{
		if (fanout->streams[i].state == STREAM_READY)
			return &fanout->streams[i];
	}
	return NULL;
}

/*
 * ORDER BY may name a column of the result or of a table, and with SELECT * that
 * shows only now.  If it is a table's, the statement is another one.
 */
static void
check_names(SlFanout *fanout)
{
	const SlStream *first = first_ready(fanout);

	if (!fanout->spec.merge || first == NULL ||
		!sl_text_correct_guesses(fanout->spec.text, first->prepared))
		return;
	sl_text_rewrite(fanout->spec.text, fanout->spec.own_param_count);
	fanout->spec.sql = fanout->spec.text->sql;
	for (int i = 0; i < fanout->stream_count; i++)
	{
		if (fanout->streams[i].state == STREAM_READY)
			fanout->streams[i].state = STREAM_QUEUED;
	}
	describe_everywhere(fanout);
	renew_descriptions(fanout);
}

/* Asks the shards what their rows are ordered by, where that is not known. */
void
sl_describe_order(SlFanout *fanout)
{
	bool		any = true;

	fanout->question = sl_merge_question(fanout);
	while (any && fanout->question != NULL)
	{
		any = false;
		for (int i = 0; i < fanout->stream_count; i++)
		{
			SlStream   *stream = &fanout->streams[i];

			if (stream->state != STREAM_READY || stream->prepared->answer_count >= 0)
				continue;
			sl_stream_ask(stream, fanout->question);
			sl_fanout_check_failure(fanout, stream);
			any = true;
		}
		describe_everywhere(fanout);
	}
}

/* Connects to all shards, and has them describe the statement. */
void
sl_describe(SlFanout *fanout)
{
	describe_everywhere(fanout);
	renew_descriptions(fanout);
	check_names(fanout);
}
