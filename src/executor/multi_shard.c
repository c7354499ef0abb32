/*
 * multi_shard.c
 *		Runs one statement on many shards and merges what comes back.
 *
 * First every shard describes what the statement returns, and these answers are
 * compared, so that a difference is found before anything runs and whichever
 * shard answers first.  Then it runs on all shards at a time (at most
 * shardlet.max_parallel_shards), and rows are handed on as they come.
 *
 * Statements that still run when a scan ends, by LIMIT, an error or a cancel, are
 * cancelled on the shards.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "executor/shard_stream.h"

/* Has this shard's statement been sent, or is it over? */
bool
sl_stream_is_started(const SlStream *stream)
{
	return stream->state == STREAM_RUNNING || !sl_stream_is_live(stream);
}

static void stop_streams(SlMultiShardScan *scan, bool aborts);

/* Failures ------------------------------------------------------------------- */

static bool
all_failed(const SlMultiShardScan *scan)
{
	for (int i = 0; i < scan->stream_count; i++)
	{
		if (scan->streams[i].state != STREAM_FAILED)
			return false;
	}
	return true;
}

/*
 * A statement that was prepared before a table changed is usually prepared again
 * on its shard.  Not so if snapshots were taken together: then all shards must begin
 * again.
 */
static bool
can_restart(const SlMultiShardScan *scan, const SlStream *stream)
{
	return stream->cure == CURE_ALL_AGAIN && scan->spec.may_restart && scan->returned == 0;
}

/* Stops all shards; the caller gets no rows, and checks sl_multi_shard_is_outdated(). */
static void
begin_restart(SlMultiShardScan *scan)
{
	scan->cure = CURE_ALL_AGAIN;
	stop_streams(scan, false);
	for (int i = 0; i < scan->stream_count; i++)
		sl_stream_forget(&scan->streams[i]);
}

/* A shard failed: raises that, unless the statement may be repeated or do without it. */
static void
handle_failure(SlMultiShardScan *scan, SlStream *stream)
{
	SlFailure  *failure = stream->failure;
	const SlQueryString *query = scan->spec.query;
	const char *source = query != NULL ? query->source : scan->spec.sql;

	stream->failure = NULL;
	if (failure->sqlstate == ERRCODE_T_R_DEADLOCK_DETECTED && !failure->lost &&
		sl_retry_give_way(scan))
		return;
	if (stream->cure == CURE_OTHER_SHARD && scan->stream_count == 1)
	{
		scan->cure = CURE_OTHER_SHARD;
		scan->misrouted = failure;
		return;
	}
	if (can_restart(scan, stream))
	{
		begin_restart(scan);
		return;
	}
	if (query != NULL)
		failure->position = sl_query_string_position(query, failure->position);
	else
		sl_failure_blame_move(failure);
	if (!scan->spec.skip_failures || all_failed(scan))
		sl_failure_raise(failure, stream->shard_name, source);
	sl_missing_shards_add(stream->shard);
	ereport(WARNING,
			errcode(failure->sqlstate),
			errmsg("shard \"%s\" is left out", stream->shard_name),
			errdetail_internal("%s", failure->message));
}

/* Handles the failure of a stream that has gone on. */
void
sl_multi_shard_check_failure(SlMultiShardScan *scan, SlStream *stream)
{
	if (stream->state == STREAM_FAILED && stream->failure != NULL)
		handle_failure(scan, stream);

	/* It may have to be sent again. */
	if (!sl_stream_is_started(stream))
		scan->all_started = false;
}

/* Waiting -------------------------------------------------------------------- */

/* When must something have come from this stream? */
static TimestampTz
stream_deadline(const SlStream *stream)
{
	if (stream->state == STREAM_OPENING)
		return stream->conn->deadline;

	/* Others wait for it; and it may wait for a lock that they hold. */
	if (stream->use.takes_snapshot && !stream->has_snapshot && stream->snapshot_deadline != 0)
		return stream->snapshot_deadline;
	if (sl_shard_timeout == 0)
		return DT_NOEND;
	return GetCurrentTimestamp() + (int64) sl_shard_timeout * 1000 - stream->waited_us;
}

static void
check_deadline(SlMultiShardScan *scan, SlStream *stream, TimestampTz now)
{
	if (stream_deadline(stream) > now)
		return;
	sl_wait_forget(&scan->wait_cache);
	sl_stream_time_out(stream);
	sl_multi_shard_check_failure(scan, stream);
}

/* Waits for one of the collected streams, or until the deadline. */
void
sl_multi_shard_wait_for_items(SlMultiShardScan *scan, int count, TimestampTz deadline)
{
	if (count == 1 && scan->items[0].conn->state == SL_CONN_OPEN)
		scan->items[0].ready = sl_wait_conn(scan->items[0].conn, deadline);
	else
	{
		/* While libpq connects it may change sockets. */
		for (int i = 0; i < count; i++)
		{
			if (scan->items[i].conn->state == SL_CONN_CONNECTING)
				sl_wait_forget(&scan->wait_cache);
		}
		(void) sl_wait_items(scan->items, count, deadline, &scan->wait_cache);
	}
}

/* Waits for one of the collected streams, and lets each go on that can. */
void
sl_multi_shard_wait(SlMultiShardScan *scan, int count)
{
	TimestampTz started = GetCurrentTimestamp();
	TimestampTz deadline = DT_NOEND;
	TimestampTz now;

	for (int i = 0; i < count; i++)
		deadline = Min(deadline, stream_deadline(scan->item_streams[i]));
	if (scan->may_repeat)
		sl_retry_wait(scan, count, deadline);
	else
		sl_multi_shard_wait_for_items(scan, count, deadline);
	now = GetCurrentTimestamp();
	for (int i = 0; i < count; i++)
	{
		SlStream   *stream = scan->item_streams[i];

		stream->waited_us += now - started;
		if (scan->items[i].ready)
			sl_stream_step(stream);
		else if (sl_stream_needs_wait(stream))
			check_deadline(scan, stream, now);
		if (stream->conn == NULL || stream->conn->state == SL_CONN_CLOSED)
			sl_wait_forget(&scan->wait_cache);
		sl_multi_shard_check_failure(scan, stream);
	}
	if (scan->may_repeat)
		sl_retry_look(scan);
}

void
sl_multi_shard_add_item(SlMultiShardScan *scan, int *count, SlStream *stream)
{
	scan->items[*count].conn = stream->conn;
	scan->items[*count].events = sl_conn_wants(stream->conn);
	scan->items[*count].ready = false;
	scan->item_streams[(*count)++] = stream;
}

int
sl_multi_shard_running_count(const SlMultiShardScan *scan)
{
	int			count = 0;

	for (int i = 0; i < scan->stream_count; i++)
	{
		StreamState state = scan->streams[i].state;

		if (state == STREAM_OPENING || state == STREAM_PREPARING || state == STREAM_DESCRIBING ||
			state == STREAM_RUNNING)
			count++;
	}
	return count;
}

/* Starting -------------------------------------------------------------------- */

/* Snapshots that agree must be taken on all shards at a time. */
static int
max_running(const SlMultiShardScan *scan)
{
	return scan->spec.is_consistent ? scan->stream_count : sl_max_parallel_shards;
}

/* Was it described again, with other columns than the scan is prepared for? */
static bool
is_held(const SlMultiShardScan *scan, const SlStream *stream)
{
	return stream->state == STREAM_READY && stream->decoder == NULL &&
		!sl_merge_is_same(scan->model, stream->prepared);
}

/* May it still turn out that a table has changed under its statement? */
static bool
may_change(const SlMultiShardScan *scan, const SlStream *stream)
{
	return sl_stream_is_live(stream) && stream->answer == ANSWER_NONE && !is_held(scan, stream);
}

/*
 * A table has changed on a shard since its statement was prepared.  When all
 * other shards are known to have changed likewise, the scan starts over with
 * the new columns; if one has not, the shards differ.
 */
static void
adopt_new_columns(SlMultiShardScan *scan)
{
	bool		any = false;

	for (int i = 0; i < scan->stream_count; i++)
	{
		if (may_change(scan, &scan->streams[i]))
			return;
		any = any || is_held(scan, &scan->streams[i]);
	}
	if (!any)
		return;
	scan->model = NULL;
	for (int i = 0; i < scan->stream_count; i++)
	{
		if (scan->streams[i].state != STREAM_FAILED)
			sl_merge_open_stream(scan, &scan->streams[i]);
	}
	sl_describe_order(scan);
	sl_merge_open(scan);
}

/* Checks a stream that was described again.  Returns true if it may be sent. */
static bool
is_checked(SlMultiShardScan *scan, SlStream *stream)
{
	if (stream->decoder != NULL)
		return true;
	if (scan->question != NULL && stream->prepared->answer_count < 0)
	{
		sl_stream_send(stream, scan->question);
		return false;
	}
	sl_merge_open_stream(scan, stream);
	return true;
}

/* Sends the statement to shards that have it described. */
void
sl_multi_shard_start(SlMultiShardScan *scan)
{
	int			running;

	/* This is called for every row. */
	if (scan->all_started)
		return;
	adopt_new_columns(scan);
	running = sl_multi_shard_running_count(scan);
	for (int i = 0; i < scan->stream_count && running < max_running(scan); i++)
	{
		SlStream   *stream = &scan->streams[i];

		if (stream->state != STREAM_READY || stream->turn == TURN_WAITS || is_held(scan, stream) ||
			(scan->is_ordered && !sl_retry_is_next(scan, stream)))
			continue;
		if (is_checked(scan, stream))
			sl_stream_execute(stream);
		scan->sent_in_subxact = scan->sent_in_subxact ||
			GetCurrentSubTransactionId() != scan->transaction;
		running++;
		sl_multi_shard_check_failure(scan, stream);
	}
	scan->all_started = true;
	for (int i = 0; i < scan->stream_count; i++)
		scan->all_started = scan->all_started && sl_stream_is_started(&scan->streams[i]);
}

/* Rows ----------------------------------------------------------------------- */

void
sl_multi_shard_wait_for_some(SlMultiShardScan *scan)
{
	int			count = 0;

	for (int i = 0; i < scan->stream_count; i++)
	{
		if (sl_stream_needs_wait(&scan->streams[i]))
			sl_multi_shard_add_item(scan, &count, &scan->streams[i]);
	}
	if (count > 0)
		sl_multi_shard_wait(scan, count);
}

/* Runs the statement to its end on all shards, and keeps their rows or not. */
void
sl_multi_shard_run_to_end(SlMultiShardScan *scan, bool keeps)
{
	bool		any = true;

	while (any)
	{
		CHECK_FOR_INTERRUPTS();
		sl_multi_shard_start(scan);
		any = false;
		for (int i = 0; i < scan->stream_count; i++)
		{
			SlStream   *stream = &scan->streams[i];

			if (stream->state == STREAM_RUNNING && keeps)
				sl_stream_spill(stream);
			else if (stream->state == STREAM_RUNNING)
				sl_stream_skip(stream);
			sl_multi_shard_check_failure(scan, stream);
			any = any || sl_stream_is_live(stream);
		}
		sl_multi_shard_wait_for_some(scan);
	}
}

/*
 * A statement that was sent inside a subtransaction which the scan may outlive must
 * not be running at its end.
 */
static void
return_to_caller(SlMultiShardScan *scan)
{
	if (scan->sent_in_subxact)
		sl_multi_shard_run_to_end(scan, true);
	scan->sent_in_subxact = false;
}

/*
 * Runs what writes to its end on all shards, even if the rest of its rows is not
 * wanted.  That it writes may have shown on some of the shards only, so far.
 */
static void
finish_writes(SlMultiShardScan *scan)
{
	MemoryContext old_context = MemoryContextSwitchTo(scan->context);
	bool		writes = false;

	for (int i = 0; i < scan->stream_count; i++)
		writes = writes || scan->streams[i].use.writes;
	if (scan->may_repeat)
		sl_retry_run(scan);
	else if (writes)
		sl_multi_shard_run_to_end(scan, false);
	MemoryContextSwitchTo(old_context);
}

/*
 * Puts the next row into the slot, which has the wanted columns.  Returns false
 * at the end.  The row is good until the next call.
 */
bool
sl_multi_shard_next(SlMultiShardScan *scan, TupleTableSlot *slot)
{
	MemoryContext old_context;
	SlStream   *stream = NULL;

	if (scan->was_aborted)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_CURSOR_STATE),
				errmsg("rows of the shards are gone"),
				errdetail("The transaction or savepoint in which they were asked for was rolled back."));
	if (scan->is_over)
		return false;
	old_context = MemoryContextSwitchTo(scan->context);
	if (scan->may_repeat)
		sl_retry_run(scan);
	if (!scan->spec.has_limit || scan->returned < scan->spec.limit)
	{
		do
			stream = sl_multi_shard_next_stream(scan);
		while (stream != NULL && scan->skipped++ < scan->spec.offset);
	}
	return_to_caller(scan);
	MemoryContextSwitchTo(old_context);
	if (stream == NULL)
	{
		sl_multi_shard_end(scan);
		return false;
	}
	scan->returned++;
	scan->row_shard = stream->shard;
	sl_multi_shard_store_row(scan, stream, slot);
	return true;
}

/* Beginning and end ----------------------------------------------------------- */

/* Can the statement be cancelled and rolled back, and nothing else with it? */
static bool
can_cancel(const SlConn *conn)
{
	return conn->txn.level == 0 || (conn->txn.wrap == SL_WRAP_COMMIT && conn->txn.write_level == 0) ||
		(conn->txn.has_savepoint && (conn->txn.is_read_only || XactIsoLevel != XACT_SERIALIZABLE));
}

/*
 * Stops statements that still run.  If the transaction goes on, its other work must
 * not be lost: a statement with a savepoint can be cancelled and rolled back,
 * anything else is waited for.
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

/*
 * Drops the rows that have come, and gives all connections back.  Returns those
 * on which the statement still runs.
 */
List *
sl_multi_shard_release_streams(SlMultiShardScan *scan)
{
	List	   *running = NIL;

	sl_wait_forget(&scan->wait_cache);
	for (int i = 0; i < scan->stream_count; i++)
	{
		SlStream   *stream = &scan->streams[i];

		if (stream->result != NULL)
			PQclear(stream->result);
		stream->result = NULL;
		if (stream->conn != NULL && stream->conn->owner == stream)
			running = lappend(running, stream->conn);
		sl_stream_release(stream);
	}
	return running;
}

/* Ends what still runs.  May wait for shards, and raise a cancel. */
static void
stop_streams(SlMultiShardScan *scan, bool aborts)
{
	List	   *running = sl_multi_shard_release_streams(scan);

	for (int i = 0; i < scan->stream_count; i++)
	{
		if (sl_stream_is_live(&scan->streams[i]))
			sl_stream_finish(&scan->streams[i]);
	}
	stop_statements(running, aborts);
}

/*
 * Closes the files of what was kept.  In an abort the resource owner closes
 * them, and may have done so already.
 */
void
sl_multi_shard_end_spills(SlMultiShardScan *scan, bool aborts)
{
	for (int i = 0; i < scan->stream_count; i++)
	{
		SlStream   *stream = &scan->streams[i];

		if (stream->spill != NULL && !aborts)
		{
			ExecClearTuple(stream->spill_slot);
			tuplestore_end(stream->spill);
		}
		stream->spill = NULL;
	}
}

/* Ends a scan; ending it again does nothing. */
void
sl_multi_shard_stop(SlMultiShardScan *scan, bool aborts)
{
	if (scan->is_over)
		return;
	scan->is_over = true;
	scan->was_aborted = aborts;
	dlist_delete(&scan->node);
	stop_streams(scan, aborts);
	sl_multi_shard_end_spills(scan, aborts);
	for (int i = 0; !aborts && i < scan->stream_count; i++)
		sl_decoder_cache_put(&scan->streams[i]);
}

void
sl_multi_shard_end(SlMultiShardScan *scan)
{
	if (!scan->is_over)
		finish_writes(scan);
	sl_multi_shard_stop(scan, false);
}

/* On how many rows has the statement worked, as the shards say? */
int64
sl_multi_shard_processed(const SlMultiShardScan *scan)
{
	int64		count = 0;

	for (int i = 0; i < scan->stream_count; i++)
		count += scan->streams[i].processed;
	return count;
}

/* Returns the shard that was queried, or the first of them. */
const SlShard *
sl_multi_shard_count(const SlMultiShardScan *scan)
{
	return scan->streams[0].shard;
}

/* Returns the shard of the row that was handed out last. */
const SlShard *
sl_multi_shard_row_shard(const SlMultiShardScan *scan)
{
	return scan->row_shard;
}

/*
 * Was the statement sent to a shard that does not own its rows, and nothing has
 * happened?  Then there are no rows, and it can be sent to another.
 */
bool
sl_multi_shard_is_misrouted(const SlMultiShardScan *scan)
{
	return scan->cure == CURE_OTHER_SHARD;
}

/* Did tables change under a statement, and must it begin again?  Nothing has come. */
bool
sl_multi_shard_is_outdated(const SlMultiShardScan *scan)
{
	return scan->cure == CURE_ALL_AGAIN;
}

/* Raises the failure of a misrouted statement: there is no other shard to try. */
void
sl_multi_shard_raise(const SlMultiShardScan *scan)
{
	sl_failure_blame_move(scan->misrouted);
	sl_failure_raise(scan->misrouted, scan->streams[0].shard_name, scan->spec.sql);
}

/*
 * The memory goes without sl_multi_shard_end(): a transaction aborts, and frees
 * the memory of its portals before it calls its callbacks.  Must raise nothing.
 */
static void
stop_at_reset(void *arg)
{
	HOLD_INTERRUPTS();
	sl_multi_shard_stop(arg, true);
	RESUME_INTERRUPTS();
}

static void
make_streams(SlMultiShardScan *scan)
{
	ListCell   *cell;

	scan->stream_count = 0;
	scan->streams = palloc0(sizeof(SlStream) * Max(list_length(scan->spec.shards), 1));
	foreach(cell, scan->spec.shards)
	{
		SlStream   *stream = &scan->streams[scan->stream_count++];

		stream->spec = &scan->spec;
		stream->params = scan->spec.shard_params != NULL ?
			&scan->spec.shard_params[foreach_current_index(cell)] : &scan->spec.params;
		stream->stat = scan->spec.stats != NULL ?
			&scan->spec.stats[foreach_current_index(cell)] : NULL;
		stream->use = scan->spec.use;
		stream->context = scan->context;
		stream->resources = CurrentResourceOwner;
		stream->shard = lfirst(cell);
		stream->shard_name = pstrdup(NameStr(stream->shard->name));
		stream->row_context = AllocSetContextCreate(scan->context, "shardlet row",
													ALLOCSET_SMALL_SIZES);
	}
	scan->items = palloc0(sizeof(SlWaitItem) * Max(scan->stream_count, 1));
	scan->item_streams = palloc0(sizeof(SlStream *) * Max(scan->stream_count, 1));
}

/*
 * Begins a scan: connects, has the statement described and checks that.  The scan
 * lives in a child of the current memory context.
 */
SlMultiShardScan *
sl_multi_shard_begin(const SlMultiShardSpec *spec)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet multi-shard scan",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SlMultiShardScan *scan = palloc0(sizeof(SlMultiShardScan));

	scan->context = context;
	scan->spec = *spec;
	scan->transaction = spec->caller.transaction;
	if (scan->spec.use.scope == SL_SCOPE_SESSION)
		sl_snapshot_begin(scan->spec.shards);
	if (scan->spec.use.statement != 0 && !scan->spec.is_consistent)
		sl_snapshot_begin_statement(&scan->spec.use, scan->spec.agreeing != NIL ?
									scan->spec.agreeing : sl_shard_all(), NULL);
	sl_retry_begin(scan);
	make_streams(scan);
	sl_merge_assign_sources(scan);
	sl_multi_shard_list(scan);
	scan->callback.func = stop_at_reset;
	scan->callback.arg = scan;
	MemoryContextRegisterResetCallback(context, &scan->callback);
	sl_describe(scan);
	for (int i = 0; i < scan->stream_count; i++)
	{
		if (scan->streams[i].state == STREAM_READY)
			sl_merge_open_stream(scan, &scan->streams[i]);
	}
	sl_describe_order(scan);
	sl_merge_open(scan);
	if (scan->spec.is_consistent)
		sl_consistent_start(scan);
	if (scan->spec.use.writes && scan->spec.use.scope == SL_SCOPE_COMMIT)
		sl_commit_with_statement(scan);
	return_to_caller(scan);
	MemoryContextSwitchTo(old_context);
	return scan;
}
