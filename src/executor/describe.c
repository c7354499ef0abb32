/*
 * describe.c
 *		Finds out what a statement returns, on every shard, before it runs.
 *
 * All shards describe it at a time.  A table may have changed since a statement
 * was prepared, so what does not fit is described again before it counts as a
 * difference.  And some things only the shards know: whether a name in ORDER BY
 * is one of the result, and by which collation and type they sort.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "base/base.h"
#include "executor/shard_stream.h"

/* Connects everywhere and has the statement described. */
static void
describe_everywhere(SlMultiShardScan *scan)
{
	for (;;)
	{
		int			count = 0;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < scan->stream_count; i++)
		{
			SlStream   *stream = &scan->streams[i];

			if (stream->state == STREAM_QUEUED && sl_multi_shard_running_count(scan) < sl_max_parallel_shards)
			{
				sl_stream_begin(stream);
				sl_multi_shard_check_failure(scan, stream);
			}
			if (sl_stream_needs_wait(stream))
				sl_multi_shard_add_item(scan, &count, stream);
		}
		if (count == 0)
			break;
		sl_multi_shard_wait(scan, count);
	}
}

/* Do the descriptions fit each other, and what the caller wants? */
static bool
all_fit(const SlMultiShardScan *scan)
{
	const SlPrepared *first = NULL;

	for (int i = 0; i < scan->stream_count; i++)
	{
		const SlStream *stream = &scan->streams[i];

		if (stream->state != STREAM_READY)
			continue;
		if (first == NULL)
			first = stream->prepared;
		if ((stream->prepared != first && !sl_merge_is_same(first, stream->prepared)) ||
			(stream->decoder == NULL && !sl_merge_is_wanted(scan, stream)))
			return false;
	}
	return true;
}

/*
 * A table may have changed since the statement was prepared: if something does
 * not fit, old descriptions are replaced.
 */
static void
renew_descriptions(SlMultiShardScan *scan)
{
	if (all_fit(scan))
		return;
	for (int i = 0; i < scan->stream_count; i++)
	{
		SlStream   *stream = &scan->streams[i];

		if (stream->state == STREAM_READY && stream->statement != STATEMENT_NEW)
			sl_stream_describe_again(stream);
	}
	describe_everywhere(scan);
}

/* The first one that has been described, or NULL. */
static SlStream *
first_ready(const SlMultiShardScan *scan)
{
	for (int i = 0; i < scan->stream_count; i++)
	{
		if (scan->streams[i].state == STREAM_READY)
			return &scan->streams[i];
	}
	return NULL;
}

/*
 * ORDER BY may name a column of the result or of a table, and with SELECT * that
 * shows only now.  If it is a table's, the statement is rewritten.
 */
static void
check_names(SlMultiShardScan *scan)
{
	const SlStream *first = first_ready(scan);

	if (!scan->spec.merge || first == NULL ||
		!sl_query_string_correct_order(scan->spec.query, first->prepared))
		return;
	sl_query_string_rewrite(scan->spec.query, scan->spec.own_param_count);
	scan->spec.sql = scan->spec.query->sql;
	for (int i = 0; i < scan->stream_count; i++)
	{
		if (scan->streams[i].state == STREAM_READY)
			scan->streams[i].state = STREAM_QUEUED;
	}
	describe_everywhere(scan);
	renew_descriptions(scan);
}

/* Asks the shards what their rows are ordered by, where that is not known. */
void
sl_describe_order(SlMultiShardScan *scan)
{
	bool		any = true;

	scan->question = sl_merge_question(scan);
	while (any && scan->question != NULL)
	{
		any = false;
		for (int i = 0; i < scan->stream_count; i++)
		{
			SlStream   *stream = &scan->streams[i];

			if (stream->state != STREAM_READY || stream->prepared->answer_count >= 0)
				continue;
			sl_stream_send(stream, scan->question);
			sl_multi_shard_check_failure(scan, stream);
			any = true;
		}
		describe_everywhere(scan);
	}
}

/* Connects to all shards, and has them describe the statement. */
void
sl_describe(SlMultiShardScan *scan)
{
	describe_everywhere(scan);
	renew_descriptions(scan);
	check_names(scan);
}
