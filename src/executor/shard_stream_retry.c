/*
 * shard_stream_retry.c
 *		What becomes of a shard's statement that has failed.
 *
 * A statement of which nothing has come yet is sent once more if its connection
 * was an old one that turned out dead, and no earlier statement is lost with it; or
 * if what was prepared on the connection does not fit the tables any more.  One that
 * was sent as a read, and calls a function that writes, runs again in a transaction
 * that may write.
 */
#include "postgres.h"

#include "access/xact.h"

#include "base/base.h"
#include "executor/shard_stream.h"

/* A connection that was dead before it was used shows that so soon. */
#define RETRY_WITHIN_US (1000 * 1000)

/*
 * It went without a transaction, or with one or a savepoint that only reads, and
 * a function in it writes.
 */
static bool
wants_to_write(const SlStream *stream, const SlFailure *failure)
{
	return failure->sqlstate == ERRCODE_READ_ONLY_SQL_TRANSACTION && !stream->use.writes &&
		!XactReadOnly && (stream->conn->txn.level == 0 || stream->conn->txn.statement != 0 ||
						  stream->conn->txn.has_savepoint);
}

/* It went without a transaction, and the shard has not understood its mark. */
static bool
is_refused_by_itself(const SlStream *stream, const SlFailure *failure)
{
	return stream->conn->txn.wrap == SL_WRAP_MARK && failure->sqlstate == ERRCODE_READ_ONLY_SQL_TRANSACTION;
}

/* Did the shard have to find out of what types parameters are? */
bool
sl_stream_has_guessed_types(const SlStream *stream)
{
	return stream->spec->own_param_count > 0 && !stream->spec->is_typed;
}

/*
 * May the failure be one of a statement that was prepared before a table
 * changed?  It keeps the types of its columns, which the shard notices, and of
 * its parameters, which then do not fit.
 */
static bool
is_out_of_date(const SlStream *stream, const SlFailure *failure)
{
	int			category = ERRCODE_TO_CATEGORY(failure->sqlstate);

	/* BEGIN is prepared, too. */
	if (failure->sqlstate == ERRCODE_UNDEFINED_PSTATEMENT)
		return true;
	if (stream->statement == STATEMENT_NEW)
		return false;
	return failure->sqlstate == ERRCODE_FEATURE_NOT_SUPPORTED ||
		failure->sqlstate == SL_ERR_DIFFERENT ||
		(sl_stream_has_guessed_types(stream) && stream->statement != STATEMENT_PARSED_AGAIN &&
		 (category == ERRCODE_DATA_EXCEPTION ||
		  category == ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION));
}

/* Can all that the failed statement did on the shard be taken back? */
static bool
can_undo(const SlStream *stream)
{
	return stream->conn->txn.level == 0 || stream->conn->txn.has_savepoint || stream->txn == STREAM_TXN_OWN;
}

/*
 * May a write be committed whose connection was lost?  Not if the shard said why
 * it goes, and had not answered: it does that before it commits.
 */
static bool
may_be_committed(const SlStream *stream, const SlFailure *failure)
{
	return failure->lost && !failure->never_ran && stream->use.scope == SL_SCOPE_COMMIT && stream->use.writes &&
		!(stream->conn->txn.wrap == SL_WRAP_MARK && failure->is_shutdown);
}

/*
 * May the statement succeed if it is sent again?  If it had run for a while when its
 * connection was lost, it was perhaps terminated on purpose, and is not sent again.
 */
static bool
can_retry(const SlStream *stream, const SlFailure *failure)
{
	if (stream->answer != ANSWER_NONE || failure->is_violation)
		return false;
	if (!failure->lost && (wants_to_write(stream, failure) || is_refused_by_itself(stream, failure)))
		return true;
	if (stream->has_retried)
		return false;

	/* Snapshots that agree were taken together, and are not taken again. */
	if (stream->use.takes_snapshot && stream->has_snapshot)
		return false;

	if (may_be_committed(stream, failure))
		return false;

	/* With the connection, all that the statement did is gone. */
	if (failure->lost)
		return stream->was_open && stream->waited_us < RETRY_WITHIN_US &&
			(stream->conn->txn.level == 0 || stream->txn == STREAM_TXN_OWN);
	return can_undo(stream) && is_out_of_date(stream, failure);
}

/*
 * Has the router sent it to a shard that does not own the rows any more, and can
 * all that was begun for it be rolled back?  Then it may go to another shard.  But
 * snapshots of a transaction that other shards take part in were taken together.
 */
static bool
is_misrouted(const SlStream *stream, const SlFailure *failure)
{
	return stream->spec->may_retry_on_owner && failure->sqlstate == SL_ERR_NOT_OWNER &&
		!failure->lost && stream->answer == ANSWER_NONE &&
		(stream->conn->txn.level == 0 || stream->txn == STREAM_TXN_OWN) && !IsolationUsesXactSnapshot();
}

static StreamCure
choose_cure(const SlStream *stream, const SlFailure *failure, bool retry)
{
	if (is_misrouted(stream, failure))
		return CURE_OTHER_SHARD;
	return !retry && !failure->lost && stream->answer == ANSWER_NONE &&
		stream->use.takes_snapshot && is_out_of_date(stream, failure) ? CURE_ALL_AGAIN : CURE_NONE;
}

/* Discards what is prepared; the shard may have deallocated all that it had. */
void
sl_stream_discard_prepared(const SlStream *stream, int sqlstate)
{
	SlPrepared *prepared;

	if (stream->conn->state != SL_CONN_OPEN)
		return;
	if (sqlstate == ERRCODE_UNDEFINED_PSTATEMENT)
		sl_pipeline_discard_all(stream->conn);
	prepared = sl_pipeline_find(stream->conn, stream->spec->sql, &stream->spec->params);
	if (prepared != NULL)
		sl_pipeline_discard_statement(stream->conn, prepared);
}

/* Sends the statement again if that may help, or keeps the failure. */
void
sl_stream_fail_or_retry(SlStream *stream, SlFailure *failure)
{
	bool		retry = can_retry(stream, failure);
	bool		writes = !failure->lost && wants_to_write(stream, failure);

	stream->cure = choose_cure(stream, failure, retry);
	if (is_refused_by_itself(stream, failure))
		sl_txn_refuse_autocommit(stream->conn);
	sl_txn_settle(stream->conn);
	if ((retry || stream->cure == CURE_OTHER_SHARD) && stream->txn == STREAM_TXN_OWN)
		sl_txn_abandon(stream->conn);
	if (!failure->lost && is_out_of_date(stream, failure))
		sl_stream_discard_prepared(stream, failure->sqlstate);
	if (!retry)
	{
		sl_stream_fail(stream, failure);
		return;
	}
	stream->has_retried = true;
	if (writes)
	{
		stream->use.writes = true;
		stream->use.scope = SL_SCOPE_SESSION;
		stream->use.statement = 0;
	}
	if (stream->txn == STREAM_TXN_OWN)
		stream->txn = STREAM_TXN_SESSION;
	sl_stream_release(stream);
	stream->state = STREAM_QUEUED;
	sl_stream_begin(stream);
}
