/*
 * stream.c
 *		One shard's part of a fan-out.
 *
 * A stream never waits, but for one case: it makes another stream yield that
 * owns the connection it needs.  sl_stream_step() does what can be done with
 * what has arrived; the fan-out waits for all its streams together.
 *
 * A failure is kept in the stream; the fan-out decides what becomes of it.  A
 * statement of which nothing has come yet is tried once more if the connection
 * was an old one that turned out dead and no earlier one is lost with it, or a
 * statement prepared earlier does not fit the tables any more.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "fanout/stream.h"

/* A connection that was dead before it was used shows that so soon. */
#define RETRY_WITHIN_US (1000 * 1000)

/* A statement with parameters is prepared again after this. */
#define PREPARED_LIFE_MS 60000

/* Gives the connection back. */
void
sl_stream_release(SlStream *stream)
{
	if (stream->conn == NULL || stream->conn->owner != stream)
		return;
	stream->conn->owner = NULL;
	stream->conn->hidden = NULL;
}

static void
fail(SlStream *stream, SlFailure *failure)
{
	stream->failure = failure;
	stream->state = STREAM_FAILED;
	sl_stream_release(stream);
}

/*
 * It went without a transaction, or with one or a savepoint that only reads, and
 * a function in it writes.
 */
static bool
wants_to_write(const SlStream *stream, const SlFailure *failure)
{
	return failure->sqlstate == ERRCODE_READ_ONLY_SQL_TRANSACTION && !stream->use.writes &&
		!XactReadOnly && (stream->conn->txn.level == 0 || stream->conn->txn.statement != 0 ||
						  stream->conn->txn.has_part);
}

/* It went without a transaction, and the shard has not understood its mark. */
static bool
is_refused_alone(const SlStream *stream, const SlFailure *failure)
{
	return stream->conn->txn.is_lone && failure->sqlstate == ERRCODE_READ_ONLY_SQL_TRANSACTION;
}

/* Did the shard have to find out of what types parameters are? */
static bool
has_guessed_types(const SlStream *stream)
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
	if (!stream->was_prepared)
		return false;
	return failure->sqlstate == ERRCODE_FEATURE_NOT_SUPPORTED ||
		failure->sqlstate == SL_ERR_DIFFERENT ||
		(has_guessed_types(stream) && !stream->is_parsed &&
		 (category == ERRCODE_DATA_EXCEPTION ||
		  category == ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION));
}

/* Can all that the failed statement did on the shard be taken back? */
static bool
can_undo(const SlStream *stream)
{
	return stream->conn->txn.level == 0 || stream->conn->txn.has_part || stream->has_begun;
}

/*
 * May a write be committed whose connection was lost?  Not if the shard said why
 * it goes, and had not answered: it does that before it commits.
 */
static bool
may_be_committed(const SlStream *stream, const SlFailure *failure)
{
	return failure->lost && !failure->never_ran && stream->use.ends && stream->use.writes &&
		!(stream->conn->txn.is_lone && failure->is_farewell);
}

/*
 * Is the failure one that goes away by beginning anew?  What had run for a while
 * when its connection went was perhaps ended on purpose: it stays ended.
 */
static bool
can_retry(const SlStream *stream, const SlFailure *failure)
{
	if (stream->has_answered)
		return false;
	if (!failure->lost && (wants_to_write(stream, failure) || is_refused_alone(stream, failure)))
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
			(stream->conn->txn.level == 0 || stream->has_begun);
	return can_undo(stream) && is_out_of_date(stream, failure);
}

/*
 * Has the router sent it to a shard that does not own the rows any more, and can
 * all that was begun for it be taken back?  Then it may go elsewhere.  Snapshots
 * of a transaction that other shards have part in were taken together.
 */
static bool
is_misled(const SlStream *stream, const SlFailure *failure)
{
	return stream->spec->may_reroute && failure->sqlstate == SL_ERR_NOT_OWNER &&
		!failure->lost && !stream->has_answered &&
		(stream->conn->txn.level == 0 || stream->has_begun) && !IsolationUsesXactSnapshot();
}

/* Somebody else may have forgotten it already, or the shard all of them. */
static void
forget_prepared(SlStream *stream, int sqlstate)
{
	SlPrepared *prepared;

	if (stream->conn->state != SL_CONN_OPEN)
		return;
	if (sqlstate == ERRCODE_UNDEFINED_PSTATEMENT)
		sl_flight_forget_all(stream->conn);
	prepared = sl_flight_find(stream->conn, stream->spec->sql, &stream->spec->params);
	if (prepared != NULL)
		sl_flight_forget(stream->conn, prepared);
}

static void
fail_or_retry(SlStream *stream, SlFailure *failure)
{
	bool		retry = can_retry(stream, failure);
	bool		writes = !failure->lost && wants_to_write(stream, failure);

	stream->is_misled = is_misled(stream, failure);
	if (is_refused_alone(stream, failure))
		sl_txn_refuse_alone(stream->conn);
	sl_txn_settle(stream->conn);
	if ((retry || stream->is_misled) && stream->has_begun)
		sl_txn_abandon(stream->conn);
	if (!failure->lost && is_out_of_date(stream, failure))
		forget_prepared(stream, failure->sqlstate);
	if (!retry)
	{
		fail(stream, failure);
		return;
	}
	stream->has_retried = true;
	if (writes)
	{
		stream->use.writes = true;
		stream->use.ends = false;
		stream->use.statement = 0;
	}
	stream->has_begun = false;
	sl_stream_release(stream);
	stream->state = STREAM_QUEUED;
	sl_stream_begin(stream);
}

/*
 * The rest of its rows has failed, and nothing was begun for it that could be
 * undone: the shard's transaction is over.  Whoever made it yield would hear no
 * more than that, and not why.
 */
static bool
has_ended_transaction(const SlStream *stream, SlConn *conn)
{
	return stream->state == STREAM_FAILED && stream->failure != NULL && conn->state == SL_CONN_OPEN &&
		conn->txn.level > 0 && sl_flight_is_empty(conn) &&
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
acquire(SlStream *stream)
{
	SlFailure  *failure;
	SlConn	   *conn = sl_pool_get_as(stream->shard, stream->spec->home.user, &failure);

	if (conn == NULL)
	{
		fail(stream, failure);
		return false;
	}
	conn->owner = stream;
	conn->yield = make_yield;
	conn->plain_values = stream->spec->plain_values;
	conn->hidden = sl_hidden_on(stream->spec->hidden, stream->shard);
	stream->conn = conn;
	stream->uses = conn->uses;
	return true;
}

/* The same, when nobody else has had it since. */
static bool
acquire_again(SlStream *stream)
{
	SlConn	   *conn = stream->conn;

	if (!sl_stream_knows(stream) || conn->owner != NULL || conn->uses != stream->uses ||
		!sl_flight_is_empty(conn))
		return acquire(stream);
	conn->owner = stream;
	conn->hidden = sl_hidden_on(stream->spec->hidden, stream->shard);
	return true;
}

/* Finishes what is committed on the shard, before its next statement. */
void
sl_stream_recover(SlStream *stream)
{
	SlFailure  *failure;

	if (!acquire(stream))
		return;
	failure = stream->conn->state == SL_CONN_OPEN ?
		sl_recover_before(stream->shard, stream->conn) : NULL;
	sl_stream_release(stream);
	if (failure != NULL)
		fail(stream, failure);
}

static void
copy_description(SlStream *stream, const SlPrepared *prepared)
{
	MemoryContext old_context = MemoryContextSwitchTo(stream->context);

	stream->prepared = sl_flight_copy(prepared);
	MemoryContextSwitchTo(old_context);
	stream->shape = NULL;
	stream->decoder = NULL;
}

/* What was described anew is looked at anew: nothing that is kept is taken. */
static void
take_description(SlStream *stream, SlPrepared *prepared)
{
	if (stream->prepared != NULL || !sl_shape_take(stream, prepared))
		copy_description(stream, prepared);
	stream->known = prepared;
	stream->forgotten = stream->conn->forgotten;
	stream->generation = stream->conn->generation;
	stream->state = STREAM_READY;
	sl_txn_settle(stream->conn);
	sl_stream_release(stream);
}

/*
 * Values that are only compared with could be misread as well when a column's
 * type changes, but to parse each read anew costs too much: that is done now and
 * then.
 */
static bool
is_old(const SlStream *stream, const SlPrepared *prepared)
{
	return sl_flight_is_old(stream->conn, prepared,
							has_guessed_types(stream) ? PREPARED_LIFE_MS : 0);
}

/*
 * Sends something that tells about the statement and does nothing.  If the
 * shard is in the session's transaction, a failure must not harm that.
 */
static void
begin_telling(SlConn *conn, SlTxnUse *use)
{
	if (!sl_session_is_current(conn))
		sl_session_send(conn);
	if (conn->txn.level > 0)
		sl_txn_join(conn, use);
}

static void
end_telling(SlConn *conn, const SlTxnUse *use)
{
	if (!conn->txn.has_part)
		return;
	sl_txn_end_statement(conn, use);
	sl_flight_sync(conn);
}

/* How many shards of this one's server get the statement? */
static int
count_neighbours(const SlStream *stream)
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

/* What the shard is told behind the text; a bare one would not understand it. */
static const char *
choose_mark(const SlStream *stream)
{
	int			neighbours;

	if (stream->conn->is_bare)
		return "";
	if (stream->use.writes)
		return SL_LONE_WRITE_MARK;
	neighbours = count_neighbours(stream);
	return neighbours > 1 ? psprintf("%s%d */", SL_NEIGHBOURS_MARK, neighbours) : "";
}

/* The connection is open: is the statement known there? */
static void
send_prepare(SlStream *stream)
{
	SlConn	   *conn = stream->conn;
	SlPrepared *prepared = sl_flight_find(conn, stream->spec->sql, &stream->spec->params);
	SlTxnUse	describing = {.is_alone = true,.is_part = true,.statement = stream->use.statement};

	if (!sl_session_is_current(conn))
		sl_session_send(conn);
	conn->is_checked = true;
	if (prepared != NULL && is_old(stream, prepared))
	{
		sl_flight_forget(conn, prepared);
		prepared = NULL;
	}
	stream->was_prepared = prepared != NULL;
	if (prepared != NULL)
	{
		take_description(stream, prepared);
		return;
	}
	stream->generation = conn->generation;
	begin_telling(conn, &describing);
	(void) sl_flight_prepare(conn, stream->spec->sql, &stream->spec->params, choose_mark(stream));
	end_telling(conn, &describing);
	stream->state = STREAM_PREPARING;
}

/* Begins: takes the connection and finds out what the statement returns. */
void
sl_stream_begin(SlStream *stream)
{
	if (!acquire(stream))
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
		fail(stream, failure);
}

/* The answer to the question, for this statement and for later ones. */
static void
take_answers(SlStream *stream, const PGresult *result)
{
	SlPrepared *known = sl_flight_find(stream->conn, stream->spec->sql, &stream->spec->params);

	if (known != NULL)
		sl_flight_keep_answers(known, result, stream->conn->context);
	sl_flight_keep_answers(stream->prepared, result, stream->context);
}

/* Takes in what has come of a description, or of an answer. */
static void
step_preparing(SlStream *stream)
{
	SlFailure  *failure = NULL;
	SlEvent		event;

	if (!sl_conn_read(stream->conn, &failure))
	{
		fail_or_retry(stream, failure);
		return;
	}
	do
	{
		PGresult   *result;

		event = sl_flight_next(stream->conn, &result, &failure);
		if (event == SL_EVENT_ROWS)
			take_answers(stream, result);
		if (result != NULL)
			PQclear(result);
		if (event == SL_EVENT_FAILED && stream->failure == NULL)
			stream->failure = failure;
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE &&
			 stream->conn->state == SL_CONN_OPEN);
	if (event == SL_EVENT_NONE && stream->conn->state == SL_CONN_OPEN)
		return;

	/* All of the answer has come, or no more will. */
	failure = stream->failure;
	stream->failure = NULL;
	if (failure != NULL)
		fail_or_retry(stream, failure);
	else if (stream->state == STREAM_ASKING)
	{
		stream->state = STREAM_READY;
		sl_txn_settle(stream->conn);
		sl_stream_release(stream);
	}
	else
		take_description(stream, sl_flight_find(stream->conn, stream->spec->sql,
												&stream->spec->params));
}

/* What is known of the statement is out of date: asks again. */
void
sl_stream_describe_again(SlStream *stream)
{
	if (stream->conn->owner == NULL)
		forget_prepared(stream, 0);
	stream->state = STREAM_QUEUED;
}

/* Asks a question about a statement that has been described. */
void
sl_stream_ask(SlStream *stream, const char *question)
{
	const SlFanoutSpec *spec = stream->spec;
	SlTxnUse	asking = {.is_alone = true,.is_part = true,.statement = stream->use.statement};
	SlParams	params = spec->params;

	params.count = spec->own_param_count;
	if (!acquire(stream))
		return;
	if (stream->conn->state != SL_CONN_OPEN)
	{
		/* It was closed meanwhile: everything from the beginning. */
		stream->was_open = false;
		stream->state = STREAM_OPENING;
		return;
	}
	begin_telling(stream->conn, &asking);
	sl_flight_ask(stream->conn, question, &params, false);
	if (!stream->conn->txn.has_part)
		sl_flight_sync(stream->conn);
	end_telling(stream->conn, &asking);
	stream->state = STREAM_ASKING;
}

/*
 * A prepared statement keeps the types of its parameters.  If a column has got
 * another type since, the shard would cast values from the old one, and may lose
 * a part of them without a word.  So what was prepared earlier is parsed anew if
 * it writes.
 */
static bool
parses_anew(const SlStream *stream)
{
	return stream->was_prepared && has_guessed_types(stream) && stream->use.writes;
}

/* The prepared statement, if it is still the one that was described. */
static SlPrepared *
find_again(SlStream *stream)
{
	SlConn	   *conn = stream->conn;
	SlPrepared *prepared;

	if (sl_stream_knows(stream))
		return stream->known;
	if (conn->state != SL_CONN_OPEN || conn->generation != stream->generation)
		return NULL;
	prepared = sl_flight_find(conn, stream->spec->sql, &stream->spec->params);
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
	const SlFanoutSpec *spec = stream->spec;
	SlFailure  *failure;
	SlPrepared *prepared;

	if (!acquire_again(stream))
		return;
	prepared = find_again(stream);
	if (prepared == NULL)
	{
		/*
		 * It was closed, forgotten or prepared anew meanwhile: find out again
		 * what comes.
		 */
		stream->state = STREAM_OPENING;
		if (stream->conn->state == SL_CONN_OPEN)
			send_prepare(stream);
		return;
	}
	failure = sl_recover_before(stream->shard, stream->conn);
	if (failure != NULL)
	{
		fail_or_retry(stream, failure);
		return;
	}
	stream->has_begun = stream->conn->txn.level == 0;
	stream->has_snapshot = false;
	if (stream->use.takes_snapshot)
		stream->snapshot_deadline = sl_wait_deadline(sl_connect_timeout);
	stream->use.retries = !stream->has_retried;
	stream->is_parsed = parses_anew(stream);
	stream->use.is_marked = prepared->is_marked && !stream->is_parsed;
	sl_txn_join(stream->conn, &stream->use);
	sl_decoder_begin(stream->decoder, spec->plain_values);
	if (stream->is_parsed)
		sl_flight_ask(stream->conn, spec->sql, stream->params, stream->is_binary);
	else
		sl_flight_execute(stream->conn, prepared, stream->params, stream->is_binary,
						  spec->has_few_rows);
	sl_txn_end_statement(stream->conn, &stream->use);
	sl_flight_sync(stream->conn);
	stream->state = STREAM_RUNNING;
	if (stream->stat != NULL)
		stream->sent_at = GetCurrentTimestamp();
}

/* Has a statement that was parsed anew the columns that it had? */
static bool
has_known_columns(const SlStream *stream)
{
	const SlPrepared *prepared = stream->prepared;

	if (PQnfields(stream->result) != prepared->column_count)
		return false;
	for (int i = 0; i < prepared->column_count; i++)
	{
		if (PQftype(stream->result, i) != prepared->types[i])
			return false;
	}
	return true;
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

/* The shard has done its part, or is not needed any more. */
void
sl_stream_finish(SlStream *stream)
{
	if (stream->stat != NULL && stream->state == STREAM_RUNNING)
		stream->stat->us += GetCurrentTimestamp() - stream->sent_at;
	stream->state = STREAM_FINISHED;
}

/* The end of the statement tells on how many rows it worked. */
static void
note_count(SlStream *stream)
{
	stream->processed = strtoll(PQcmdTuples(stream->result), NULL, 10);
	if (stream->stat != NULL && PQnfields(stream->result) == 0)
		stream->stat->rows += stream->processed;
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
		event = sl_flight_next(stream->conn, &stream->result, &failure);
		if ((event == SL_EVENT_ROWS || event == SL_EVENT_DONE) && stream->is_parsed &&
			stream->failure == NULL && !has_known_columns(stream))
			stream->failure = columns_changed(stream);
		else if (event == SL_EVENT_ROWS || event == SL_EVENT_DONE)
		{
			stream->has_answered = stream->failure == NULL;
			stream->next_row = 0;
		}
		if (event == SL_EVENT_DONE)
			note_count(stream);
		if (event == SL_EVENT_MARK)
			stream->has_snapshot = true;
		if (stream->result != NULL &&
			(PQntuples(stream->result) == 0 || stream->failure != NULL))
		{
			/* The last result, or of no use; the end of the flight comes. */
			PQclear(stream->result);
			stream->result = NULL;
		}
		if (event == SL_EVENT_FAILED && stream->failure == NULL)
			stream->failure = failure;
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE && stream->result == NULL && stream->conn->state == SL_CONN_OPEN);
	if (stream->failure != NULL && (event == SL_EVENT_IDLE || stream->conn->state != SL_CONN_OPEN))
	{
		failure = stream->failure;
		stream->failure = NULL;
		fail_or_retry(stream, failure);
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
		case STREAM_ASKING:
			step_preparing(stream);
			break;
		case STREAM_RUNNING:
			if (stream->result != NULL)
				break;
			if (sl_conn_read(stream->conn, &failure))
				sl_stream_step_running(stream);
			else
				fail_or_retry(stream, failure);
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
		stream->state == STREAM_ASKING || (stream->state == STREAM_RUNNING && stream->result == NULL);
}

static char *
why_too_long(const SlStream *stream)
{
	if (stream->use.takes_snapshot && !stream->has_snapshot)
		return psprintf("It did not take its snapshot within %d ms.", sl_connect_timeout);
	return psprintf("It took longer than shardlet.shard_timeout, %d ms.", sl_shard_timeout);
}

/* The shard took too long: to be connected to, or with its part. */
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
		fail(stream, failure);
	MemoryContextSwitchTo(old_context);
}
