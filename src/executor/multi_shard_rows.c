/*
 * multi_shard_rows.c
 *		The rows of a multi-shard scan: merged in order, or as they come.
 *
 * A shard is read from only when its next row is wanted: one that is ahead is held
 * back by TCP, and nothing piles up on the router.  When rows are merged, each stream
 * is checked to be in order; a shard whose collation differs is an error and not a
 * wrong order.  If more shards take part than may run at a time, a merge needs a row
 * of each before it can begin: then the rows of those that run first are kept in
 * tuplestores.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "executor/shard_stream.h"

/* Not merging: a row of whichever stream has one. */
static SlStream *
next_unordered(SlMultiShardScan *scan)
{
	for (;;)
	{
		bool		any = false;

		CHECK_FOR_INTERRUPTS();
		sl_multi_shard_start(scan);
		for (int i = 0; i < scan->stream_count; i++)
		{
			int			index = (scan->next_stream + i) % scan->stream_count;
			SlStream   *stream = &scan->streams[index];

			if (stream->decoder != NULL && sl_stream_take_row(stream))
			{
				/* Stay with it: its rows are in libpq's buffer already. */
				scan->next_stream = index;
				return stream;
			}
			sl_multi_shard_check_failure(scan, stream);
			any = any || sl_stream_is_live(stream);
		}
		if (!any)
			return NULL;
		sl_multi_shard_wait_for_some(scan);
	}
}

/* Merging: brings the stream's next row into the heap, if it has one. */
static void
advance_merge(SlMultiShardScan *scan, SlStream *stream)
{
	while (!sl_stream_take_row(stream))
	{
		sl_multi_shard_check_failure(scan, stream);
		if (!sl_stream_is_live(stream))
			return;
		if (stream->state == STREAM_READY)
			sl_multi_shard_start(scan);
		if (sl_stream_needs_wait(stream))
		{
			int			count = 0;

			sl_multi_shard_add_item(scan, &count, stream);
			sl_multi_shard_wait(scan, count);
		}
	}
	sl_merge_check_order(scan, stream);
	binaryheap_add(scan->heap, PointerGetDatum(stream));
}

/* A merge begins when every stream has a row, or has ended. */
static void
fill_heap(SlMultiShardScan *scan)
{
	scan->heap_is_filled = true;
	for (;;)
	{
		bool		all_started = true;
		bool		all_ready = true;

		CHECK_FOR_INTERRUPTS();
		sl_multi_shard_start(scan);
		for (int i = 0; i < scan->stream_count; i++)
			all_started = all_started && sl_stream_is_started(&scan->streams[i]);
		for (int i = 0; i < scan->stream_count; i++)
		{
			SlStream   *stream = &scan->streams[i];

			/* Those that may not run yet need the place of those that do. */
			if (!all_started && stream->state == STREAM_RUNNING)
				sl_stream_spill(stream);
			sl_multi_shard_check_failure(scan, stream);
			all_ready = all_ready && (!sl_stream_is_live(stream) || stream->result != NULL);
		}
		if (all_started && all_ready)
			break;
		sl_multi_shard_wait_for_some(scan);
	}
	for (int i = 0; i < scan->stream_count; i++)
	{
		if (scan->streams[i].decoder != NULL)
			advance_merge(scan, &scan->streams[i]);
	}
}

static SlStream *
next_merged(SlMultiShardScan *scan)
{
	if (!scan->heap_is_filled)
		fill_heap(scan);
	else if (scan->current != NULL)
		advance_merge(scan, scan->current);
	scan->current = NULL;
	if (binaryheap_empty(scan->heap))
		return NULL;
	scan->current = (SlStream *) DatumGetPointer(binaryheap_remove_first(scan->heap));
	return scan->current;
}

/* Returns a stream whose current row is the next one of all, or NULL at the end. */
SlStream *
sl_multi_shard_next_stream(SlMultiShardScan *scan)
{
	return scan->heap != NULL ? next_merged(scan) : next_unordered(scan);
}

/* Values that are made for the row go into a context of their own. */
static void
begin_output(SlMultiShardScan *scan)
{
	if (scan->output_context == NULL)
		scan->output_context = AllocSetContextCreate(scan->context, "shardlet output row",
													 ALLOCSET_SMALL_SIZES);
	MemoryContextReset(scan->output_context);
	MemoryContextSwitchTo(scan->output_context);
}

/* Puts the current row of a stream into the slot, which has the wanted columns. */
void
sl_multi_shard_store_row(SlMultiShardScan *scan, SlStream *stream, TupleTableSlot *slot)
{
	MemoryContext old_context = CurrentMemoryContext;

	ExecClearTuple(slot);
	if (sl_decoder_converts(stream->decoder))
		begin_output(scan);
	sl_decoder_convert(stream->decoder, stream->values, stream->nulls,
					   slot->tts_values, slot->tts_isnull);
	if (scan->spec.shard_column >= 0)
	{
		slot->tts_values[scan->spec.shard_column] = stream->shard_value;
		slot->tts_isnull[scan->spec.shard_column] = false;
	}
	MemoryContextSwitchTo(old_context);
	ExecStoreVirtualTuple(slot);
}
