/*
 * shard_stream.c
 *		The statement of a multi-shard scan on one shard.
 *
 * A stream never waits, but for one case: it makes another stream yield that
 * owns the connection it needs.  sl_stream_step() does what can be done with
 * what has arrived; the scan waits for all its streams together.
 *
 * A failure is kept in the stream (shard_stream_retry.c); the scan decides what
 * becomes of it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "executor/shard_stream.h"

/* A statement with parameters is prepared again after this. */
#define PREPARED_LIFE_MS 60000

/* Gives the connection back. */
void
sl_stream_release(SlStream *stream)
{
	if (stream->conn == NULL || stream->conn->owner != stream)
		return;
	stream->conn->owner = NULL;
	stream->conn->orphaned_rows = NULL;
}

/* Keeps the failure, for the scan to decide. */
void
sl_stream_fail(SlStream *stream, SlFailure *failure)
{
	stream->failure = failure;
	stream->state = STREAM_FAILED;
	sl_stream_release(stream);
}

/*
 * Has the rest of its rows failed without a savepoint to go back to?  Then the
 * shard's transaction is over, and the statement that made the stream yield would get
 * no more than that as an error, and not why.
 */
static bool
has_ended_transaction(const SlStream *stream, SlConn *conn)
{
	return stream->state == STREAM_FAILED && stream->failure != NULL && conn->state == SL_CONN_OPEN &&
		conn->txn.level > 0 && sl_pipeline_is_empty(conn) &&
		PQtransactionStatus(conn->pg) == PQTRANS_INERROR;
}

/* Makes the stream that owns the connection let go of it; waits for that. */
static void
make_yield(SlConn *conn)
{
	while (conn->owner != NULL)
	{
		SlStream   *owner = conn->owner;

		if (sl_stream_drain_step(owner) &&
			!sl_wait_conn(conn, conn->state == SL_CONN_OPEN ? DT_NOEND : conn->deadline))
			sl_stream_time_out(owner);
		if (has_ended_transaction(owner, conn))
			sl_failure_raise(owner->failure, owner->shard_name, owner->spec->sql);
	}
}

/* Takes the connection to the shard.  Returns false if there is none. */
static bool
acquire_conn(SlStream *stream)
{
	SlFailure  *failure;
	SlConn	   *conn = sl_pool_get_as(stream->shard, stream->spec->caller.user, &failure);

	if (conn == NULL)
	{
		sl_stream_fail(stream, failure);
		return false;
	}
	conn->owner = stream;
	conn->yield = make_yield;
	conn->plain_values = stream->spec->plain_values;
	conn->orphaned_rows = sl_query_orphaned_on(stream->spec->orphaned, stream->shard);
	stream->conn = conn;
	stream->uses = conn->uses;
	return true;
}

/* The same, if no other statement has used it since. */
static bool
acquire_conn_again(SlStream *stream)
{
	SlConn	   *conn = stream->conn;

	if (!sl_stream_knows(stream) || conn->owner != NULL || conn->uses != stream->uses ||
		!sl_pipeline_is_empty(conn))
		return acquire_conn(stream);
	conn->owner = stream;
	conn->orphaned_rows = sl_query_orphaned_on(stream->spec->orphaned, stream->shard);
	return true;
}

/* Finishes what is committed on the shard, before its next statement. */
void
sl_stream_recover(SlStream *stream)
{
	SlFailure  *failure;

	if (!acquire_conn(stream))
		return;
	failure = stream->conn->state == SL_CONN_OPEN ?
		sl_recover_before(stream->shard, stream->conn) : NULL;
	sl_stream_release(stream);
	if (failure != NULL)
		sl_stream_fail(stream, failure);
}

static void
copy_description(SlStream *stream, const SlPrepared *prepared)
{
	MemoryContext old_context = MemoryContextSwitchTo(stream->context);

	stream->prepared = sl_pipeline_copy(prepared);
	MemoryContextSwitchTo(old_context);
	stream->decoder_cache = NULL;
	stream->decoder = NULL;
}

/* A statement that was described again takes no decoder from the cache. */
static void
take_description(SlStream *stream, SlPrepared *prepared)
{
	if (stream->prepared != NULL || !sl_decoder_cache_take(stream, prepared))
		copy_description(stream, prepared);
	stream->known = prepared;
	stream->forgotten = stream->conn->forgotten;
	stream->generation = stream->conn->generation;
	stream->state = STREAM_READY;
	sl_txn_settle(stream->conn);
	sl_stream_release(stream);
}

/*
 * Values that are only compared with could be misread as well when a column's type
 * changes, but to parse each read again costs too much: that is done now and then.
 */
static bool
is_old(const SlStream *stream, const SlPrepared *prepared)
{
	return sl_pipeline_is_old(stream->conn, prepared,
							  sl_stream_has_guessed_types(stream) ? PREPARED_LIFE_MS : 0);
}

/*
 * Precedes a query that describes the statement and does not run it.  If the shard
 * is in the session's transaction, a savepoint protects that from a failure.
 */
static void
begin_describing(SlConn *conn, SlTxnUse *use)
{
	bool		has_only_snapshot = conn->txn.has_only_snapshot;

	if (!sl_session_is_current(conn))
		sl_session_send(conn);
	if (conn->txn.level > 0)
		sl_txn_join(conn, use);
	conn->txn.has_only_snapshot = has_only_snapshot;
}

static void
end_describing(SlConn *conn)
{
	if (!conn->txn.has_savepoint)
		return;
	sl_txn_end_statement(conn);
	sl_pipeline_sync(conn);
}

/* How many shards of this one's server get the statement? */
static int
count_cohosted(const SlStream *stream)
{
	const SlShard *shard = stream->shard;
	int			count = 0;
	ListCell   *cell;

	foreach(cell, stream->spec->shards)
	{
		const SlShard *other = lfirst(cell);

		if (strcmp(shard->host ? shard->host : "", other->host ? other->host : "") == 0 &&
			strcmp(shard->port ? shard->port : "", other->port ? other->port : "") == 0)
			count++;
	}
	return count;
}

/* The mark after the SQL; a bare shard would not understand it. */
static const char *
choose_mark(const SlStream *stream)
{
	int			cohosted;

	if (stream->conn->is_bare)
		return "";
	if (stream->use.writes)
		return SL_AUTOCOMMIT_MARK;
	cohosted = count_cohosted(stream);
	return cohosted > 1 ? psprintf("%s%d */", SL_COHOSTED_MARK, cohosted) : "";
}

/* The connection is open: uses the statement that is prepared there, or prepares it. */
static void
send_prepare(SlStream *stream)
{
	SlConn	   *conn = stream->conn;
	SlPrepared *prepared = sl_pipeline_find(conn, stream->spec->sql, &stream->spec->params);
	SlTxnUse	describing = {.scope = SL_SCOPE_AUTOCOMMIT,.needs_savepoint = true,.statement = stream->use.statement};

	if (!sl_session_is_current(conn))
		sl_session_send(conn);
	conn->is_checked = true;
	if (prepared != NULL && is_old(stream, prepared))
	{
		sl_pipeline_discard_statement(conn, prepared);
		prepared = NULL;
	}
	stream->statement = prepared != NULL ? STATEMENT_PREPARED : STATEMENT_NEW;
	if (prepared != NULL)
	{
		take_description(stream, prepared);
		return;
	}
	stream->generation = conn->generation;
	begin_describing(conn, &describing);
	(void) sl_pipeline_prepare(conn, stream->spec->sql, &stream->spec->params, choose_mark(stream));
	end_describing(conn);
	stream->state = STREAM_PREPARING;
}

/* Begins: takes the connection and finds out what the statement returns. */
void
sl_stream_begin(SlStream *stream)
{
	if (!acquire_conn(stream))
		return;
	stream->was_open = stream->conn->state == SL_CONN_OPEN;
	stream->state = STREAM_OPENING;
	if (stream->was_open)
		send_prepare(stream);
	else if (PQstatus(stream->conn->pg) == CONNECTION_BAD)
		sl_stream_step(stream);
}

static void
step_opening(SlStream *stream)
{
	SlFailure  *failure;

	if (sl_conn_advance(stream->conn, &failure))
	{
		sl_pool_note_success(stream->conn);
		send_prepare(stream);
	}
	else if (failure != NULL)
		sl_stream_fail(stream, failure);
}

/* The answer to the question, for this statement and for later ones. */
static void
take_answers(SlStream *stream, const PGresult *result)
{
	SlPrepared *known = sl_pipeline_find(stream->conn, stream->spec->sql, &stream->spec->params);

	if (known != NULL)
		sl_pipeline_keep_results(known, result, stream->conn->context);
	sl_pipeline_keep_results(stream->prepared, result, stream->context);
}

/* Takes in what has come of a description, or of an answer. */
static void
step_preparing(SlStream *stream)
{
	SlFailure  *failure = NULL;
	SlEvent		event;

	if (!sl_conn_read(stream->conn, &failure))
	{
		sl_stream_fail_or_retry(stream, failure);
		return;
	}
	do
	{
		PGresult   *result;

		event = sl_pipeline_next(stream->conn, &result, &failure);
		if (event == SL_EVENT_ROWS)
			failure = sl_protocol_check_text(stream->conn, result);
		if (event == SL_EVENT_ROWS && failure == NULL)
			take_answers(stream, result);
		if (result != NULL)
			PQclear(result);
		if (failure != NULL && stream->failure == NULL)
			stream->failure = failure;
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE &&
			 stream->conn->state == SL_CONN_OPEN);
	if (event == SL_EVENT_NONE && stream->conn->state == SL_CONN_OPEN)
		return;

	/* All of the answer has come, or no more will. */
	failure = stream->failure;
	stream->failure = NULL;
	if (failure != NULL)
		sl_stream_fail_or_retry(stream, failure);
	else if (stream->state == STREAM_DESCRIBING)
	{
		stream->state = STREAM_READY;
		sl_txn_settle(stream->conn);
		sl_stream_release(stream);
	}
	else
		take_description(stream, sl_pipeline_find(stream->conn, stream->spec->sql,
												  &stream->spec->params));
}

/* The same for a statement that is over. */
void
sl_stream_forget(const SlStream *stream)
{
	if (stream->conn != NULL && stream->conn->owner == NULL)
		sl_stream_discard_prepared(stream, 0);
}

/* The description of the statement is out of date: it will be described again. */
void
sl_stream_describe_again(SlStream *stream)
{
	if (stream->conn->owner == NULL)
		sl_stream_discard_prepared(stream, 0);
	stream->state = STREAM_QUEUED;
}

/* Sends a query about a statement that has been described. */
void
sl_stream_send(SlStream *stream, const char *question)
{
	const SlMultiShardSpec *spec = stream->spec;
	SlTxnUse	describing = {.scope = SL_SCOPE_AUTOCOMMIT,.needs_savepoint = true,.statement = stream->use.statement};
	SlParams	params = spec->params;

	params.count = spec->own_param_count;
	if (!acquire_conn(stream))
		return;
	if (stream->conn->state != SL_CONN_OPEN)
	{
		/* It was closed meanwhile: everything from the beginning. */
		stream->was_open = false;
		stream->state = STREAM_OPENING;
		return;
	}
	begin_describing(stream->conn, &describing);
	sl_pipeline_send_query(stream->conn, question, &params, false);
	if (!stream->conn->txn.has_savepoint)
		sl_pipeline_sync(stream->conn);
	end_describing(stream->conn);
	stream->state = STREAM_DESCRIBING;
}

/*
 * A prepared statement keeps the types of its parameters.  If a column has got
 * another type since, the shard would cast values from the old one, and may lose
 * a part of them silently.  So a write that was prepared earlier is parsed again.
 */
static bool
parses_again(const SlStream *stream)
{
	return sl_stream_has_guessed_types(stream) && stream->use.writes;
}

/* The prepared statement, if it is still the one that was described. */
static SlPrepared *
find_described(SlStream *stream)
{
	SlConn	   *conn = stream->conn;
	SlPrepared *prepared;

	if (sl_stream_knows(stream))
		return stream->known;
	if (conn->state != SL_CONN_OPEN || conn->generation != stream->generation)
		return NULL;
	prepared = sl_pipeline_find(conn, stream->spec->sql, &stream->spec->params);
	if (prepared == NULL || strcmp(prepared->name, stream->prepared->name) != 0)
		return NULL;
	stream->known = prepared;
	stream->forgotten = conn->forgotten;
	return prepared;
}

/* Sends the statement, which has been described. */
void
sl_stream_execute(SlStream *stream)
{
	const SlMultiShardSpec *spec = stream->spec;
	SlFailure  *failure;
	SlPrepared *prepared;

	if (!acquire_conn_again(stream))
		return;
	prepared = find_described(stream);
	if (prepared == NULL)
	{
		/*
		 * The connection or the prepared statement was closed, or it was
		 * prepared again meanwhile: describe it again.
		 */
		stream->state = STREAM_OPENING;
		if (stream->conn->state == SL_CONN_OPEN)
			send_prepare(stream);
		return;
	}
	failure = sl_recover_before(stream->shard, stream->conn);
	if (failure != NULL)
	{
		sl_stream_fail_or_retry(stream, failure);
		return;
	}
	stream->txn = stream->conn->txn.level == 0 ? STREAM_TXN_OWN :
		stream->conn->txn.has_only_snapshot ? STREAM_TXN_SNAPSHOT : STREAM_TXN_SESSION;
	stream->has_snapshot = false;
	stream->answer = ANSWER_NONE;
	if (stream->use.takes_snapshot)
		stream->snapshot_deadline = sl_wait_deadline(sl_connect_timeout);
	stream->use.retries = !stream->has_retried;
	if (stream->statement != STATEMENT_NEW)
		stream->statement = parses_again(stream) ? STATEMENT_PARSED_AGAIN : STATEMENT_PREPARED;
	stream->use.is_marked = prepared->is_marked && stream->statement != STATEMENT_PARSED_AGAIN;
	sl_txn_join(stream->conn, &stream->use);
	sl_decoder_begin(stream->decoder, spec->plain_values);
	if (stream->statement == STATEMENT_PARSED_AGAIN)
		sl_pipeline_send_query(stream->conn, spec->sql, stream->params, stream->is_binary);
	else
		sl_pipeline_execute(stream->conn, prepared, stream->params, stream->is_binary,
							spec->has_few_rows);
	sl_txn_end_statement(stream->conn);
	sl_pipeline_sync(stream->conn);
	stream->state = STREAM_RUNNING;
	if (stream->stat != NULL)
		stream->sent_at = GetCurrentTimestamp();
}

static SlFailure *
columns_changed(const SlStream *stream)
{
	SlFailure  *failure = palloc0(sizeof(SlFailure));

	failure->sqlstate = SL_ERR_DIFFERENT;
	failure->message = psprintf("columns of the result have changed on shard \"%s\"",
								stream->shard_name);
	failure->hint = "Run the transaction again.";
	return failure;
}

/*
 * Does the first result have the columns that were described?  A statement that was
 * parsed again may have others, because a table has changed meanwhile.
 */
static void
check_columns(SlStream *stream)
{
	if (stream->answer != ANSWER_NONE || stream->failure != NULL)
		return;
	if (sl_protocol_has_columns(stream->result, stream->prepared, stream->is_binary))
		return;
	stream->failure = stream->statement == STATEMENT_PARSED_AGAIN ? columns_changed(stream) :
		sl_protocol_break_off(stream->conn, "The result has not the columns that were described.");
}

/* The shard has completed the statement, or is not needed any more. */
void
sl_stream_finish(SlStream *stream)
{
	if (stream->stat != NULL && stream->state == STREAM_RUNNING)
		stream->stat->us += GetCurrentTimestamp() - stream->sent_at;
	stream->state = STREAM_FINISHED;
}

/* The command tag has the number of rows that were changed. */
static void
note_count(SlStream *stream)
{
	const char *count = PQcmdTuples(stream->result);

	if (count[0] == '\0' && stream->use.writes && stream->spec->query == NULL &&
		PQnfields(stream->result) == 0 && stream->failure == NULL)
		stream->failure = sl_protocol_break_off(stream->conn,
												"The number of changed rows is missing.");
	stream->processed = strtoll(count, NULL, 10);
	if (stream->stat != NULL && PQnfields(stream->result) == 0)
		stream->stat->rows += stream->processed;
}

/*
 * Has the shard completed the statement, and lost the prepared COMMIT after it, as
 * by DEALLOCATE in a function?  What only reads can as well be rolled back.
 */
static bool
has_lost_commit(const SlStream *stream)
{
	return stream->answer == ANSWER_COMPLETE && stream->conn->txn.wrap == SL_WRAP_COMMIT && !stream->use.writes &&
		stream->failure->sqlstate == ERRCODE_UNDEFINED_PSTATEMENT;
}

/* Takes in what has arrived while the statement runs. */
void
sl_stream_step_running(SlStream *stream)
{
	SlFailure  *failure = NULL;
	SlEvent		event;

	if (stream->result != NULL)
		return;
	do
	{
		event = sl_pipeline_next(stream->conn, &stream->result, &failure);
		if (event == SL_EVENT_ROWS || event == SL_EVENT_DONE)
		{
			check_columns(stream);
			if (stream->failure == NULL)
				stream->answer = event == SL_EVENT_DONE ? ANSWER_COMPLETE : ANSWER_BEGUN;
			stream->next_row = 0;
		}
		if (event == SL_EVENT_DONE)
			note_count(stream);
		if (event == SL_EVENT_MARK)
			stream->has_snapshot = true;
		if (stream->result != NULL &&
			(PQntuples(stream->result) == 0 || stream->failure != NULL))
		{
			/* The last result, or of no use; the end of the pipeline comes. */
			PQclear(stream->result);
			stream->result = NULL;
		}
		if (event == SL_EVENT_FAILED && stream->failure == NULL)
			stream->failure = failure;
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE && stream->result == NULL && stream->conn->state == SL_CONN_OPEN);
	if (stream->failure != NULL && event == SL_EVENT_IDLE && has_lost_commit(stream))
	{
		sl_stream_discard_prepared(stream, stream->failure->sqlstate);
		stream->failure = NULL;
	}
	if (stream->failure != NULL && (event == SL_EVENT_IDLE || stream->conn->state != SL_CONN_OPEN))
	{
		failure = stream->failure;
		stream->failure = NULL;
		sl_stream_fail_or_retry(stream, failure);
	}
	else if (event == SL_EVENT_IDLE)
	{
		sl_stream_finish(stream);
		sl_txn_settle(stream->conn);
		sl_stream_release(stream);
	}
}

/* Does what can be done now that the socket is ready. */
void
sl_stream_step(SlStream *stream)
{
	MemoryContext old_context = MemoryContextSwitchTo(stream->context);
	SlFailure  *failure;

	switch (stream->state)
	{
		case STREAM_OPENING:
			step_opening(stream);
			break;
		case STREAM_PREPARING:
		case STREAM_DESCRIBING:
			step_preparing(stream);
			break;
		case STREAM_RUNNING:
			if (stream->result != NULL)
				break;
			if (sl_conn_read(stream->conn, &failure))
				sl_stream_step_running(stream);
			else
				sl_stream_fail_or_retry(stream, failure);
			break;
		default:
			break;
	}
	MemoryContextSwitchTo(old_context);
}

/* Must something arrive before this stream can go on? */
bool
sl_stream_needs_wait(const SlStream *stream)
{
	return stream->state == STREAM_OPENING || stream->state == STREAM_PREPARING ||
		stream->state == STREAM_DESCRIBING || (stream->state == STREAM_RUNNING && stream->result == NULL);
}

static char *
why_too_long(const SlStream *stream)
{
	if (stream->use.takes_snapshot && !stream->has_snapshot)
		return psprintf("It did not take its snapshot within %d ms.", sl_connect_timeout);
	return psprintf("It took longer than shardlet.shard_timeout, %d ms.", sl_shard_timeout);
}

/* The shard took too long: to be connected to, or with the statement. */
void
sl_stream_time_out(SlStream *stream)
{
	MemoryContext old_context = MemoryContextSwitchTo(stream->context);
	SlFailure  *failure;

	if (stream->state == STREAM_OPENING)
		(void) sl_conn_time_is_up(stream->conn, &failure);
	else
	{
		failure = sl_failure_unreachable(stream->shard_name, why_too_long(stream));
		sl_cancel(list_make1(stream->conn));
		sl_txn_settle(stream->conn);
	}
	if (failure != NULL)
		sl_stream_fail(stream, failure);
	MemoryContextSwitchTo(old_context);
}
