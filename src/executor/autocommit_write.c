/*
 * autocommit_write.c
 *		Runs a write that commits with its statement.
 *
 * How it is wrapped, and why that is safe, is in transaction/autocommit.c.  From
 * sending to the answer nothing may interrupt: the shard may have committed, and
 * then the statement has succeeded.  A cancel is passed on to the shard, and its
 * answer decides.  The rows are kept in a tuplestore until the answer is complete;
 * if that fails, because of what the shard has sent or for lack of memory, the
 * outcome is not known.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "executor/shard_stream.h"

/* How often to check for a cancel request. */
#define STEP_MS 100

static void
wait_for_end(SlStream *stream)
{
	bool		passed_on = false;

	sl_stream_spill(stream);

	/* If it has to be sent again, the shard has done nothing. */
	while (stream->state == STREAM_RUNNING)
	{
		if (sl_wait_conn(stream->conn, sl_wait_deadline(STEP_MS)))
			sl_stream_step(stream);
		if (stream->state == STREAM_RUNNING)
			sl_stream_spill(stream);
		if (!passed_on && sl_stream_is_live(stream) && (QueryCancelPending || ProcDiePending))
		{
			sl_cancel_send(stream->shard, stream->conn);
			passed_on = true;
		}
	}
}

/*
 * Raises the error that was caught, such as that of a row which is not valid, as one
 * that leaves the outcome open: the shard may have committed.
 */
pg_noreturn static void
rethrow_as_unknown(MemoryContext context, const SlStream *stream)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	ereport(ERROR,
			errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			errmsg("result of a statement that shard \"%s\" may have committed could not be read", stream->shard_name),
			errdetail_internal("%s%s%s", error->message, error->detail != NULL ? ": " : "",
							   error->detail != NULL ? error->detail : ""),
			errhint("Look on the shard whether the statement's changes are there before you run it again."));
}

static void
wait_for_outcome(SlStream *stream)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		wait_for_end(stream);
	}
	PG_CATCH();
	{
		rethrow_as_unknown(context, stream);
	}
	PG_END_TRY();
}

static void
check_outcome(const SlStream *stream)
{
	const SlFailure *failure = stream->failure;

	if (stream->state != STREAM_FAILED || failure == NULL || !failure->lost ||
		(failure->is_shutdown && stream->answer == ANSWER_NONE))
		return;
	ereport(ERROR,
			errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			errmsg("connection to shard \"%s\" was lost while it committed, and the outcome is not known",
				   stream->shard_name),
			errdetail_internal("%s", failure->detail ? failure->detail : failure->message),
			errhint("Look on the shard whether the statement's changes are there before you run it again."));
}

/* Sends the statement.  Returns false if it failed before it was sent. */
static bool
send_statement(SlMultiShardScan *scan, SlStream *stream)
{
	sl_multi_shard_start(scan);
	while (sl_stream_is_live(stream) && stream->state != STREAM_RUNNING)
	{
		sl_multi_shard_wait_for_some(scan);
		sl_multi_shard_start(scan);
	}
	return sl_stream_is_live(stream);
}

/* Runs the statement, which has one stream, to its end and keeps all rows. */
void
sl_commit_with_statement(SlMultiShardScan *scan)
{
	SlStream   *stream = &scan->streams[0];

	while (send_statement(scan, stream))
	{
		HOLD_INTERRUPTS();
		wait_for_outcome(stream);
		RESUME_INTERRUPTS();

		/* It may have to be sent again. */
		scan->all_started = false;
	}
	check_outcome(stream);

	/* The router knows why it was cancelled. */
	if (stream->state == STREAM_FAILED && stream->failure != NULL &&
		stream->failure->sqlstate == ERRCODE_QUERY_CANCELED)
		CHECK_FOR_INTERRUPTS();

	/* The shard's answer counts, not a cancel that came too late. */
	if (stream->state == STREAM_FINISHED)
		QueryCancelPending = false;
	sl_multi_shard_check_failure(scan, stream);
}
