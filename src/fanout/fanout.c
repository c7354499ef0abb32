/*
 * fanout.c
 *		Runs one statement on many shards and merges what comes back.
 *
 * First every shard tells what the statement returns, and these answers are
 * compared, so that a difference is found before anything runs and whichever
 * shard answers first.  Then it runs on all shards at a time (at most
 * shardlet.max_parallel_shards), and rows are handed on as they come.
 *
 * A shard is read from only when its next row is wanted: one that is ahead is
 * held back by TCP, and nothing piles up here.  When rows are merged in order,
 * each stream is checked to be in that order; a shard whose collation differs
 * is an error and not a wrong order.  If more shards take part than may run at
 * a time, a merge needs a row of each before it can begin: then the rows of
 * those that run first are kept in tuplestores.
 *
 * Statements that still run when a fan-out ends, by LIMIT, an error or a
 * cancel, are cancelled on the shards.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "fanout/stream.h"

/* Has this shard's statement been sent, or is it over? */
static bool
is_started(const SlStream *stream)
{
	return stream->state == STREAM_RUNNING || !sl_stream_is_live(stream);
}

/* Failures ------------------------------------------------------------------- */

static bool
all_failed(const SlFanout *fanout)
{
	for (int i = 0; i < fanout->stream_count; i++)
	{
		if (fanout->streams[i].state != STREAM_FAILED)
			return false;
	}
	return true;
}

/* A shard failed: that ends the statement, unless it may do without. */
static void
handle_failure(SlFanout *fanout, SlStream *stream)
{
	SlFailure  *failure = stream->failure;
	const SlText *query = fanout->spec.text;
	const char *source = query != NULL ? query->source : fanout->spec.sql;

	stream->failure = NULL;
	if (stream->is_misled && fanout->stream_count == 1)
	{
		fanout->is_misled = true;
		fanout->misled = failure;
		return;
	}
	if (query != NULL)
		failure->position = sl_text_position(query, failure->position);
	else
		sl_failure_blame_move(failure);
	if (!fanout->spec.skip_failures || all_failed(fanout))
		sl_failure_raise(failure, stream->shard_name, source);
	sl_fanout_add_missing(stream->shard);
	ereport(WARNING,
			errcode(failure->sqlstate),
			errmsg("shard \"%s\" is left out", stream->shard_name),
			errdetail_internal("%s", failure->message));
}

/* Looks at a stream that was let go on. */
void
sl_fanout_check_failure(SlFanout *fanout, SlStream *stream)
{
	if (stream->state == STREAM_FAILED && stream->failure != NULL)
		handle_failure(fanout, stream);

	/* It may have to begin anew. */
	if (!is_started(stream))
		fanout->all_started = false;
}

/* Waiting -------------------------------------------------------------------- */

/* When must something have come from this stream? */
static TimestampTz
stream_deadline(const SlStream *stream)
{
	if (stream->state == STREAM_OPENING)
		return stream->conn->deadline;
	if (stream->state == STREAM_RUNNING && stream->use.takes_snapshot && !stream->has_snapshot)
		return stream->snapshot_deadline;
	if (sl_shard_timeout == 0)
		return DT_NOEND;
	return GetCurrentTimestamp() + (int64) sl_shard_timeout * 1000 - stream->waited_us;
}

static void
check_deadline(SlFanout *fanout, SlStream *stream, TimestampTz now)
{
	if (stream_deadline(stream) > now)
		return;
	sl_wait_forget(&fanout->wait_cache);
	sl_stream_time_out(stream);
	sl_fanout_check_failure(fanout, stream);
}

/* Waits for one of the collected streams, and lets each go on that can. */
void
sl_fanout_wait(SlFanout *fanout, int count)
{
	TimestampTz started = GetCurrentTimestamp();
	TimestampTz deadline = DT_NOEND;
	TimestampTz now;

	for (int i = 0; i < count; i++)
		deadline = Min(deadline, stream_deadline(fanout->item_streams[i]));
	if (count == 1 && fanout->items[0].conn->state == SL_CONN_OPEN)
		fanout->items[0].ready = sl_wait_conn(fanout->items[0].conn, deadline);
	else
	{
		/* While libpq connects it may change sockets. */
		for (int i = 0; i < count; i++)
		{
			if (fanout->items[i].conn->state == SL_CONN_CONNECTING)
				sl_wait_forget(&fanout->wait_cache);
		}
		(void) sl_wait_items(fanout->items, count, deadline, &fanout->wait_cache);
	}
	now = GetCurrentTimestamp();
	for (int i = 0; i < count; i++)
	{
		SlStream   *stream = fanout->item_streams[i];

		stream->waited_us += now - started;
		if (fanout->items[i].ready)
			sl_stream_step(stream);
		else if (sl_stream_needs_wait(stream))
			check_deadline(fanout, stream, now);
		if (stream->conn == NULL || stream->conn->state == SL_CONN_CLOSED)
			sl_wait_forget(&fanout->wait_cache);
		sl_fanout_check_failure(fanout, stream);
	}
}

void
sl_fanout_add_item(SlFanout *fanout, int *count, SlStream *stream)
{
	fanout->items[*count].conn = stream->conn;
	fanout->items[*count].events = sl_conn_wants(stream->conn);
	fanout->items[*count].ready = false;
	fanout->item_streams[(*count)++] = stream;
}

int
sl_fanout_running_count(const SlFanout *fanout)
{
	int			count = 0;

	for (int i = 0; i < fanout->stream_count; i++)
	{
		StreamState state = fanout->streams[i].state;

		if (state == STREAM_OPENING || state == STREAM_PREPARING || state == STREAM_ASKING ||
			state == STREAM_RUNNING)
			count++;
	}
	return count;
}

/* Starting -------------------------------------------------------------------- */

/* Snapshots that agree must be taken on all shards at a time. */
static int
most_at_a_time(const SlFanout *fanout)
{
	return fanout->spec.is_consistent ? fanout->stream_count : sl_max_parallel_shards;
}

/* Was it described anew, with other columns than the fan-out is prepared for? */
static bool
is_held(const SlFanout *fanout, const SlStream *stream)
{
	return stream->state == STREAM_READY && stream->decoder == NULL &&
		!sl_merge_is_same(fanout->model, stream->prepared);
}

/* May it still turn out that a table has changed under its statement? */
static bool
may_change(const SlFanout *fanout, const SlStream *stream)
{
	return sl_stream_is_live(stream) && !stream->has_answered && !is_held(fanout, stream);
}

/*
 * A table has changed on a shard since its statement was prepared.  When all
 * other shards are known to have changed likewise, the fan-out starts over with
 * the new columns; if one has not, the shards differ.
 */
static void
adopt_new_columns(SlFanout *fanout)
{
	bool		any = false;

	for (int i = 0; i < fanout->stream_count; i++)
	{
		if (may_change(fanout, &fanout->streams[i]))
			return;
		any = any || is_held(fanout, &fanout->streams[i]);
	}
	if (!any)
		return;
	fanout->model = NULL;
	for (int i = 0; i < fanout->stream_count; i++)
	{
		if (fanout->streams[i].state != STREAM_FAILED)
			sl_merge_open_stream(fanout, &fanout->streams[i]);
	}
	sl_describe_order(fanout);
	sl_merge_open(fanout);
}

/* One that was described anew is looked at again.  True if it may be sent. */
static bool
is_checked(SlFanout *fanout, SlStream *stream)
{
	if (stream->decoder != NULL)
		return true;
	if (fanout->question != NULL && stream->prepared->answer_count < 0)
	{
		sl_stream_ask(stream, fanout->question);
		return false;
	}
	sl_merge_open_stream(fanout, stream);
	return true;
}

/* Sends the statement to shards that have it described. */
void
sl_fanout_start(SlFanout *fanout)
{
	int			running;

	/* This is asked for every row. */
	if (fanout->all_started)
		return;
	adopt_new_columns(fanout);
	running = sl_fanout_running_count(fanout);
	for (int i = 0; i < fanout->stream_count && running < most_at_a_time(fanout); i++)
	{
		SlStream   *stream = &fanout->streams[i];

		if (stream->state != STREAM_READY || is_held(fanout, stream))
			continue;
		if (is_checked(fanout, stream))
			sl_stream_execute(stream);
		fanout->has_strayed = fanout->has_strayed ||
			GetCurrentSubTransactionId() != fanout->transaction;
		running++;
		sl_fanout_check_failure(fanout, stream);
	}
	fanout->all_started = true;
	for (int i = 0; i < fanout->stream_count; i++)
		fanout->all_started = fanout->all_started && is_started(&fanout->streams[i]);
}

/* Rows ----------------------------------------------------------------------- */

void
sl_fanout_wait_for_some(SlFanout *fanout)
{
	int			count = 0;

	for (int i = 0; i < fanout->stream_count; i++)
	{
		if (sl_stream_needs_wait(&fanout->streams[i]))
			sl_fanout_add_item(fanout, &count, &fanout->streams[i]);
	}
	if (count > 0)
		sl_fanout_wait(fanout, count);
}

/* Not merging: a row of whichever stream has one. */
static SlStream *
next_unordered(SlFanout *fanout)
{
	for (;;)
	{
		bool		any = false;

		CHECK_FOR_INTERRUPTS();
		sl_fanout_start(fanout);
		for (int i = 0; i < fanout->stream_count; i++)
		{
			int			index = (fanout->next_stream + i) % fanout->stream_count;
			SlStream   *stream = &fanout->streams[index];

			if (stream->decoder != NULL && sl_stream_take_row(stream))
			{
				/* Stay with it: its rows are in libpq's buffer already. */
				fanout->next_stream = index;
				return stream;
			}
			sl_fanout_check_failure(fanout, stream);
			any = any || sl_stream_is_live(stream);
		}
		if (!any)
			return NULL;
		sl_fanout_wait_for_some(fanout);
	}
}

/* Merging: brings the stream's next row into the heap, if it has one. */
static void
advance_merge(SlFanout *fanout, SlStream *stream)
{
	while (!sl_stream_take_row(stream))
	{
		sl_fanout_check_failure(fanout, stream);
		if (!sl_stream_is_live(stream))
			return;
		if (stream->state == STREAM_READY)
			sl_fanout_start(fanout);
		if (sl_stream_needs_wait(stream))
		{
			int			count = 0;

			sl_fanout_add_item(fanout, &count, stream);
			sl_fanout_wait(fanout, count);
		}
	}
	sl_merge_check_order(fanout, stream);
	binaryheap_add(fanout->heap, PointerGetDatum(stream));
}

/* A merge begins when every stream has a row, or has ended. */
static void
fill_heap(SlFanout *fanout)
{
	fanout->heap_is_filled = true;
	for (;;)
	{
		bool		all_started = true;
		bool		all_ready = true;

		CHECK_FOR_INTERRUPTS();
		sl_fanout_start(fanout);
		for (int i = 0; i < fanout->stream_count; i++)
			all_started = all_started && is_started(&fanout->streams[i]);
		for (int i = 0; i < fanout->stream_count; i++)
		{
			SlStream   *stream = &fanout->streams[i];

			/* Those that may not run yet need the place of those that do. */
			if (!all_started && stream->state == STREAM_RUNNING)
				sl_stream_spill(stream);
			sl_fanout_check_failure(fanout, stream);
			all_ready = all_ready && (!sl_stream_is_live(stream) || stream->result != NULL);
		}
		if (all_started && all_ready)
			break;
		sl_fanout_wait_for_some(fanout);
	}
	for (int i = 0; i < fanout->stream_count; i++)
	{
		if (fanout->streams[i].decoder != NULL)
			advance_merge(fanout, &fanout->streams[i]);
	}
}

static SlStream *
next_merged(SlFanout *fanout)
{
	if (!fanout->heap_is_filled)
		fill_heap(fanout);
	else if (fanout->current != NULL)
		advance_merge(fanout, fanout->current);
	fanout->current = NULL;
	if (binaryheap_empty(fanout->heap))
		return NULL;
	fanout->current = (SlStream *) DatumGetPointer(binaryheap_remove_first(fanout->heap));
	return fanout->current;
}

/* Values that are made for the row go into a context of their own. */
static void
begin_output(SlFanout *fanout)
{
	if (fanout->output_context == NULL)
		fanout->output_context = AllocSetContextCreate(fanout->context, "shardlet output row",
													   ALLOCSET_SMALL_SIZES);
	MemoryContextReset(fanout->output_context);
	MemoryContextSwitchTo(fanout->output_context);
}

/* Hands a row out. */
static void
store_row(SlFanout *fanout, SlStream *stream, TupleTableSlot *slot)
{
	MemoryContext old_context = CurrentMemoryContext;

	ExecClearTuple(slot);
	if (sl_decoder_converts(stream->decoder))
		begin_output(fanout);
	sl_decoder_convert(stream->decoder, stream->values, stream->nulls,
					   slot->tts_values, slot->tts_isnull);
	if (fanout->spec.shard_column >= 0)
	{
		slot->tts_values[fanout->spec.shard_column] = stream->shard_value;
		slot->tts_isnull[fanout->spec.shard_column] = false;
	}
	MemoryContextSwitchTo(old_context);
	ExecStoreVirtualTuple(slot);
}

/* Runs the statement to its end on all shards, and keeps their rows or not. */
static void
run_to_end(SlFanout *fanout, bool keeps)
{
	bool		any = true;

	while (any)
	{
		CHECK_FOR_INTERRUPTS();
		sl_fanout_start(fanout);
		any = false;
		for (int i = 0; i < fanout->stream_count; i++)
		{
			SlStream   *stream = &fanout->streams[i];

			if (stream->state == STREAM_RUNNING && keeps)
				sl_stream_spill(stream);
			else if (stream->state == STREAM_RUNNING)
				sl_stream_skip(stream);
			sl_fanout_check_failure(fanout, stream);
			any = any || sl_stream_is_live(stream);
		}
		sl_fanout_wait_for_some(fanout);
	}
}

/*
 * A statement that was sent inside a savepoint which the fan-out may outlive
 * must not be running at its end.
 */
static void
come_home(SlFanout *fanout)
{
	if (fanout->has_strayed)
		run_to_end(fanout, true);
	fanout->has_strayed = false;
}

/*
 * What writes is done on all shards, though nobody may want the rest of its
 * rows.  That it writes may have shown on some of them only, so far.
 */
static void
finish_writes(SlFanout *fanout)
{
	MemoryContext old_context = MemoryContextSwitchTo(fanout->context);
	bool		writes = false;

	for (int i = 0; i < fanout->stream_count; i++)
		writes = writes || fanout->streams[i].use.writes;
	if (writes)
		run_to_end(fanout, false);
	MemoryContextSwitchTo(old_context);
}

/*
 * Puts the next row into the slot, which has the wanted columns.  Returns false
 * at the end.  The row is good until the next call.
 */
bool
sl_fanout_next(SlFanout *fanout, TupleTableSlot *slot)
{
	MemoryContext old_context;
	SlStream   *stream = NULL;

	if (fanout->was_aborted)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_CURSOR_STATE),
				errmsg("rows of the shards are gone"),
				errdetail("The transaction or savepoint in which they were asked for was rolled back."));
	if (fanout->is_over)
		return false;
	old_context = MemoryContextSwitchTo(fanout->context);
	if (!fanout->spec.has_limit || fanout->returned < fanout->spec.limit)
	{
		do
			stream = fanout->heap != NULL ? next_merged(fanout) : next_unordered(fanout);
		while (stream != NULL && fanout->skipped++ < fanout->spec.offset);
	}
	come_home(fanout);
	MemoryContextSwitchTo(old_context);
	if (stream == NULL)
	{
		sl_fanout_end(fanout);
		return false;
	}
	fanout->returned++;
	store_row(fanout, stream, slot);
	return true;
}

/* Beginning and end ----------------------------------------------------------- */

/* Can what runs be cancelled, and taken back, without harm to a transaction? */
static bool
can_cancel(const SlConn *conn)
{
	return conn->txn.level == 0 || (conn->txn.is_ending && conn->txn.write_level == 0) ||
		(conn->txn.has_part && (conn->txn.is_read_only || XactIsoLevel != XACT_SERIALIZABLE));
}

/*
 * Stops statements that still run.  If the transaction goes on, what they are
 * part of must not be harmed: a part can be cancelled and taken back, anything
 * else is waited for.
 */
static void
stop_statements(List *conns, bool aborts)
{
	List	   *cancelled = NIL;
	ListCell   *cell;

	foreach(cell, conns)
	{
		SlConn	   *conn = lfirst(cell);

		if (aborts || can_cancel(conn))
			cancelled = lappend(cancelled, conn);
		else
			sl_drain(conn);
	}
	if (cancelled != NIL)
		sl_cancel(cancelled);
	foreach(cell, conns)
	{
		if (!aborts)
			sl_txn_settle(lfirst(cell));
	}
}

/* Ends what still runs.  May wait for shards, and throw a cancel. */
static void
stop_streams(SlFanout *fanout, bool aborts)
{
	List	   *conns = NIL;

	sl_wait_forget(&fanout->wait_cache);
	for (int i = 0; i < fanout->stream_count; i++)
	{
		SlStream   *stream = &fanout->streams[i];

		if (stream->result != NULL)
			PQclear(stream->result);
		stream->result = NULL;
		if (stream->conn != NULL && stream->conn->owner == stream)
			conns = lappend(conns, stream->conn);
		sl_stream_release(stream);
		if (sl_stream_is_live(stream))
			sl_stream_finish(stream);
	}
	stop_statements(conns, aborts);
}

/*
 * Closes the files of what was kept.  In an abort the resource owner closes
 * them, and may have done so already.
 */
static void
end_spills(SlFanout *fanout, bool aborts)
{
	for (int i = 0; i < fanout->stream_count; i++)
	{
		SlStream   *stream = &fanout->streams[i];

		if (stream->spill != NULL && !aborts)
		{
			ExecClearTuple(stream->spill_slot);
			tuplestore_end(stream->spill);
		}
		stream->spill = NULL;
	}
}

/* Ends a fan-out; ending it again does nothing. */
void
sl_fanout_stop(SlFanout *fanout, bool aborts)
{
	if (fanout->is_over)
		return;
	fanout->is_over = true;
	fanout->was_aborted = aborts;
	dlist_delete(&fanout->node);
	stop_streams(fanout, aborts);
	end_spills(fanout, aborts);
	for (int i = 0; !aborts && i < fanout->stream_count; i++)
		sl_shape_give_back(&fanout->streams[i]);
}

void
sl_fanout_end(SlFanout *fanout)
{
	if (!fanout->is_over)
		finish_writes(fanout);
	sl_fanout_stop(fanout, false);
}

/* On how many rows has the statement worked, as the shards say? */
int64
sl_fanout_processed(const SlFanout *fanout)
{
	int64		count = 0;

	for (int i = 0; i < fanout->stream_count; i++)
		count += fanout->streams[i].processed;
	return count;
}

/* The shard that was asked, or the first of them. */
const SlShard *
sl_fanout_asked(const SlFanout *fanout)
{
	return fanout->streams[0].shard;
}

/*
 * Was the statement sent to a shard that does not own its rows, and nothing has
 * happened?  Then there are no rows, and it can be sent to another.
 */
bool
sl_fanout_is_misled(const SlFanout *fanout)
{
	return fanout->is_misled;
}

/* There is no other. */
void
sl_fanout_raise(const SlFanout *fanout)
{
	sl_failure_blame_move(fanout->misled);
	sl_failure_raise(fanout->misled, fanout->streams[0].shard_name, fanout->spec.sql);
}

/*
 * The memory goes away without an end: a transaction aborts, and frees what its
 * portals had before it calls anyone.  Nothing may be thrown here.
 */
static void
forget_fanout(void *arg)
{
	HOLD_INTERRUPTS();
	sl_fanout_stop(arg, true);
	RESUME_INTERRUPTS();
}

static void
make_streams(SlFanout *fanout)
{
	ListCell   *cell;

	fanout->stream_count = 0;
	fanout->streams = palloc0(sizeof(SlStream) * Max(list_length(fanout->spec.shards), 1));
	foreach(cell, fanout->spec.shards)
	{
		SlStream   *stream = &fanout->streams[fanout->stream_count++];

		stream->spec = &fanout->spec;
		stream->params = fanout->spec.shard_params != NULL ?
			&fanout->spec.shard_params[foreach_current_index(cell)] : &fanout->spec.params;
		stream->stat = fanout->spec.stats != NULL ?
			&fanout->spec.stats[foreach_current_index(cell)] : NULL;
		stream->use = fanout->spec.use;
		stream->context = fanout->context;
		stream->resources = CurrentResourceOwner;
		stream->shard = lfirst(cell);
		stream->shard_name = pstrdup(NameStr(stream->shard->name));
		stream->row_context = AllocSetContextCreate(fanout->context, "shardlet row",
													ALLOCSET_SMALL_SIZES);
	}
	fanout->items = palloc0(sizeof(SlWaitItem) * Max(fanout->stream_count, 1));
	fanout->item_streams = palloc0(sizeof(SlStream *) * Max(fanout->stream_count, 1));
}

/*
 * Begins a fan-out: connects, finds out what comes and checks it.  It lives in
 * a child of the current memory context.
 */
SlFanout *
sl_fanout_begin(const SlFanoutSpec *spec)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet fan-out",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SlFanout   *fanout = palloc0(sizeof(SlFanout));

	fanout->context = context;
	fanout->spec = *spec;
	fanout->transaction = spec->home.transaction;
	if (!fanout->spec.use.is_alone)
		sl_snapshot_begin();
	if (fanout->spec.use.statement != 0 && !fanout->spec.is_consistent)
		sl_snapshot_begin_statement(fanout->spec.use.statement);
	make_streams(fanout);
	sl_merge_assign_sources(fanout);
	sl_fanout_list(fanout);
	fanout->callback.func = forget_fanout;
	fanout->callback.arg = fanout;
	MemoryContextRegisterResetCallback(context, &fanout->callback);
	sl_describe(fanout);
	for (int i = 0; i < fanout->stream_count; i++)
	{
		if (fanout->streams[i].state == STREAM_READY)
			sl_merge_open_stream(fanout, &fanout->streams[i]);
	}
	sl_describe_order(fanout);
	sl_merge_open(fanout);
	if (fanout->spec.is_consistent)
		sl_consistent_start(fanout);
	if (fanout->spec.use.writes && fanout->spec.use.ends)
		sl_commit_with_statement(fanout);
	come_home(fanout);
	MemoryContextSwitchTo(old_context);
	return fanout;
}
