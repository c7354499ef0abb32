/*
 * commit.c
 *		A write that is the last thing of its transaction.
 *
 * The statement goes to the shard alone, or with BEGIN and COMMIT in the same
 * flight (txn/txn_join.c).  From sending to the answer nothing may interrupt: the
 * shard may have committed, and then the statement has succeeded.  A cancel is
 * passed on to the shard, and its answer decides.  The rows are kept until the
 * answer is complete.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "fanout/stream.h"

/* So often is looked whether somebody wants to cancel. */
#define STEP_MS 100

static void
wait_for_end(SlStream *stream)
{
	bool		passed_on = false;

	sl_stream_spill(stream);

	/* If it has to begin anew, nothing of it has happened. */
	while (stream->state == STREAM_RUNNING)
	{
		if (sl_wait_conn(stream->conn, sl_wait_deadline(STEP_MS)))
			sl_stream_step(stream);
		if (stream->state == STREAM_RUNNING)
			sl_stream_spill(stream);
		if (!passed_on && sl_stream_is_live(stream) && (QueryCancelPending || ProcDiePending))
		{
			sl_cancel_ask(stream->shard, stream->conn);
			passed_on = true;
		}
	}
}

static void
check_outcome(const SlStream *stream)
{
	const SlFailure *failure = stream->failure;

	if (stream->state != STREAM_FAILED || failure == NULL || !failure->lost ||
		(failure->is_farewell && !stream->has_answered))
		return;
	ereport(ERROR,
			errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			errmsg("connection to shard \"%s\" was lost while it committed, and the outcome is not known",
				   stream->shard_name),
			errdetail_internal("%s", failure->detail ? failure->detail : failure->message),
			errhint("Look on the shard whether the statement's changes are there before you run it again."));
}

/* Sends the statement.  Returns false if it failed before that. */
static bool
send_statement(SlFanout *fanout, SlStream *stream)
{
	sl_fanout_start(fanout);
	while (sl_stream_is_live(stream) && stream->state != STREAM_RUNNING)
	{
		sl_fanout_wait_for_some(fanout);
		sl_fanout_start(fanout);
	}
	return sl_stream_is_live(stream);
}

/* Runs the statement, for one shard, and takes all rows in. */
void
sl_commit_with_statement(SlFanout *fanout)
{
	SlStream   *stream = &fanout->streams[0];

	while (send_statement(fanout, stream))
	{
		HOLD_INTERRUPTS();
		wait_for_end(stream);
		RESUME_INTERRUPTS();

		/* It may have to be sent again. */
		fanout->all_started = false;
	}
	check_outcome(stream);

	/* Why it was cancelled is known here. */
	if (stream->state == STREAM_FAILED && stream->failure != NULL &&
		stream->failure->sqlstate == ERRCODE_QUERY_CANCELED)
		CHECK_FOR_INTERRUPTS();

	/* The shard's answer counts, not a cancel that came too late. */
	if (stream->state == STREAM_FINISHED)
		QueryCancelPending = false;
	sl_fanout_check_failure(fanout, stream);
}
