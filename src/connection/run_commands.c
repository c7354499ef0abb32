/*
 * run_commands.c
 *		Runs statements on one shard or several, and waits for their results.
 *
 * sl_remote_... runs a statement on one connection and returns its rows as text.
 * sl_broadcast_... runs commands on many connections at a time, of which only the
 * outcome matters.  Other files send and wait by themselves where neither fits:
 *
 * - executor/shard_stream.c and statement_pipeline.c stream rows, and decode them;
 * - executor/shard_commands.c adds the session's transaction, and a retry on a new
 *	 connection, to sl_broadcast_run(): this folder knows nothing of transactions;
 * - move/parallel_statements.c gives each connection another statement as soon as it
 *	 is free, and looks between waits whether the move was cancelled;
 * - replication_slot.c talks to a walsender, which knows no pipeline mode;
 * - cancel.c waits for pairs of connections, and must not raise errors.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "connection/connection.h"

/* One shard -------------------------------------------------------------------- */

static void
clear_result(void *arg)
{
	PQclear(arg);
}

/* Makes the current memory context the owner of a result. */
PGresult *
sl_result_own(PGresult *result)
{
	MemoryContextCallback *callback = palloc0(sizeof(MemoryContextCallback));

	callback->func = clear_result;
	callback->arg = result;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	return result;
}

/*
 * Waits for the next result, which belongs to the caller.  Returns NULL if
 * everything sent is completed, or the connection was closed.  *failure is the
 * first one, or the loss of the connection.
 */
static PGresult *
get_next_result(SlConn *conn, TimestampTz deadline, SlFailure **failure)
{
	while (conn->state != SL_CONN_CLOSED)
	{
		PGresult   *result;
		SlFailure  *new_failure;
		SlEvent		event = sl_pipeline_next(conn, &result, &new_failure);

		if (new_failure != NULL && *failure == NULL)
			*failure = new_failure;
		if (result != NULL)
			return result;
		if (event == SL_EVENT_IDLE)
			return NULL;
		if (event != SL_EVENT_NONE)
			continue;
		if (!sl_wait_conn(conn, deadline))
		{
			*failure = sl_failure_unreachable(conn->shard, "No answer came in time.");
			sl_conn_close(conn);
			return NULL;
		}
		(void) sl_conn_read(conn, failure);
	}
	return NULL;
}

/*
 * Runs a statement with parameters in text form, and waits until the deadline.
 * Returns its first rows, or its last result if it has none; it belongs to the
 * current memory context.  On failure returns NULL and sets *failure.
 */
PGresult *
sl_remote_try(SlConn *conn, const char *sql, int param_count, const char *const *params,
			  TimestampTz deadline, SlFailure **failure)
{
	PGresult   *returned = NULL;
	PGresult   *result;

	*failure = NULL;
	sl_pipeline_query(conn, sql, param_count, params);
	sl_pipeline_sync(conn);
	while ((result = get_next_result(conn, deadline, failure)) != NULL)
	{
		SlFailure  *violation;

		sl_result_own(result);
		if (returned == NULL || PQntuples(returned) == 0)
			returned = result;
		violation = sl_protocol_check_text(conn, result);
		if (violation != NULL && *failure == NULL)
			*failure = violation;
	}
	if (*failure == NULL && returned == NULL)
		*failure = sl_failure_unreachable(conn->shard, "The connection was lost.");
	return *failure == NULL ? returned : NULL;
}

/* The same without a deadline.  Raises an error on failure. */
PGresult *
sl_remote_exec(SlConn *conn, const char *sql, int param_count, const char *const *params)
{
	SlFailure  *failure;
	PGresult   *result = sl_remote_try(conn, sql, param_count, params, DT_NOEND, &failure);

	if (failure != NULL)
		sl_failure_raise(failure, conn->shard, sql);
	return result;
}

/* The same for a query that takes no time on a shard that is alive. */
PGresult *
sl_remote_query(SlConn *conn, const char *sql, int param_count, const char *const *params)
{
	SlFailure  *failure;
	PGresult   *result = sl_remote_try(conn, sql, param_count, params,
									   sl_wait_deadline(sl_connect_timeout), &failure);

	if (failure != NULL)
		sl_failure_raise(failure, conn->shard, sql);
	return result;
}

static List *
add_rows(List *rows, const PGresult *result, int width)
{
	for (int row = 0; row < PQntuples(result); row++)
	{
		char	  **values = palloc0(sizeof(char *) * Max(width, 1));

		for (int i = 0; i < width; i++)
			values[i] = PQgetisnull(result, row, i) ? NULL : pstrdup(PQgetvalue(result, row, i));
		rows = lappend(rows, values);
	}
	return rows;
}

/* Checks the number of columns, and that values are valid. */
static SlFailure *
check_rows(SlConn *conn, const PGresult *result, int column_count)
{
	if (PQntuples(result) > 0 && PQnfields(result) != column_count)
		return sl_protocol_break_off(conn, "The number of columns is not the one of the query.");
	return sl_protocol_check_text(conn, result);
}

/*
 * Runs a query with that number of columns and returns all of its rows, each an
 * array of values as text or NULL.  Raises an error on failure.
 */
List *
sl_remote_rows(SlConn *conn, const char *sql, int param_count, const char *const *params,
			   int column_count)
{
	List	   *rows = NIL;
	SlFailure  *failure = NULL;
	PGresult   *result;

	sl_pipeline_query(conn, sql, param_count, params);
	sl_pipeline_sync(conn);
	while ((result = get_next_result(conn, DT_NOEND, &failure)) != NULL)
	{
		SlFailure  *violation = check_rows(conn, result, column_count);

		if (violation == NULL)
			rows = add_rows(rows, result, column_count);
		else if (failure == NULL)
			failure = violation;
		PQclear(result);
	}
	if (failure != NULL)
		sl_failure_raise(failure, conn->shard, sql);
	return rows;
}

/* Returns a value as text, or NULL, also if there is no such row or column. */
const char *
sl_remote_value(const PGresult *result, int row, int column)
{
	if (row >= PQntuples(result) || column >= PQnfields(result) || PQgetisnull(result, row, column))
		return NULL;
	return PQgetvalue(result, row, column);
}

bool
sl_remote_bool(const PGresult *result, int row, int column)
{
	const char *value = sl_remote_value(result, row, column);

	return value != NULL && value[0] == 't';
}

/* Several shards --------------------------------------------------------------- */

/* The replies that are waited for at a time */
typedef struct Round
{
	SlReply    *replies;		/* all of them */
	int			reply_count;
	int			timeout_ms;
	const SlTurns *turns;		/* or NULL */
	SlWaitItem *items;
	SlReply   **waiting;		/* of each item */
	int			count;			/* of items */
	SlWaitCache cache;
} Round;

static void
init_round(Round *round, SlReply *replies, int count, int timeout_ms, const SlTurns *turns)
{
	memset(round, 0, sizeof(Round));
	round->replies = replies;
	round->reply_count = count;
	round->timeout_ms = timeout_ms;
	round->turns = turns;
	round->items = palloc0(sizeof(SlWaitItem) * Max(count, 1));
	round->waiting = palloc0(sizeof(SlReply *) * Max(count, 1));
}

static void
add_to_round(Round *round, SlReply *reply)
{
	round->items[round->count].conn = reply->conn;
	round->items[round->count].events = sl_conn_wants(reply->conn);
	round->waiting[round->count++] = reply;
}

/* Makes a reply for each shard; those that are offline are optional. */
SlReply *
sl_broadcast_make(List *shards, bool with_offline, int *count)
{
	SlReply    *replies = palloc0(sizeof(SlReply) * Max(list_length(shards), 1));
	ListCell   *cell;

	*count = 0;
	foreach(cell, shards)
	{
		SlShard    *shard = lfirst(cell);

		if (with_offline || shard->state != SL_STATE_OFFLINE)
			replies[(*count)++].shard = shard;
	}
	return replies;
}

/*
 * Connects to all shards of the replies, as reply->user or the current user.
 * Failures are in the replies.
 */
void
sl_broadcast_open(SlReply *replies, int count)
{
	Round		round;

	init_round(&round, replies, count, 0, NULL);
	for (int i = 0; i < count; i++)
		replies[i].conn = sl_pool_get_as(replies[i].shard, OidIsValid(replies[i].user) ?
										 replies[i].user : GetUserId(), &replies[i].failure);
	for (;;)
	{
		TimestampTz deadline = DT_NOEND;

		round.count = 0;
		for (int i = 0; i < count; i++)
		{
			SlReply    *reply = &replies[i];

			if (reply->failure != NULL || reply->conn->state == SL_CONN_OPEN)
				continue;
			if (PQstatus(reply->conn->pg) == CONNECTION_BAD)
			{
				(void) sl_conn_advance(reply->conn, &reply->failure);
				continue;
			}
			deadline = Min(deadline, reply->conn->deadline);
			add_to_round(&round, reply);
		}
		if (round.count == 0)
			break;
		sl_wait_forget(&round.cache);
		(void) sl_wait_items(round.items, round.count, deadline, &round.cache);
		sl_wait_forget(&round.cache);
		for (int i = 0; i < round.count; i++)
		{
			SlReply    *reply = round.waiting[i];

			if (round.items[i].ready)
			{
				if (sl_conn_advance(reply->conn, &reply->failure))
					sl_pool_note_success(reply->conn);
			}
			else if (reply->conn->deadline <= GetCurrentTimestamp())
				(void) sl_conn_time_is_up(reply->conn, &reply->failure);
		}
	}
}

/* Stores the command tag of the last result. */
static void
store_outcome(SlReply *reply, PGresult *result)
{
	const char *rows = PQcmdTuples(result);
	char	   *digits;

	/* libpq 17 loses the command tag of rows that were sent in chunks. */
	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQcmdStatus(result)[0] == '\0')
	{
		reply->has_rows = true;
		return;
	}
	reply->command = sl_encoding_copy_message(CurrentMemoryContext, PQcmdStatus(result));

	/* "INSERT 0 5" is command INSERT and 5 rows. */
	digits = strpbrk(reply->command, "0123456789");
	if (digits != NULL && digits > reply->command && digits[-1] == ' ')
		digits[-1] = '\0';
	reply->rows = rows[0] != '\0' ? strtoll(rows, NULL, 10) : 0;
	reply->has_rows = rows[0] != '\0';
}

/* Stores the first value, and counts rows. */
static void
store_rows(SlReply *reply, const PGresult *result)
{
	const char *value = reply->rows == 0 ? sl_remote_value(result, 0, 0) : NULL;

	if (value != NULL && reply->failure == NULL)
		reply->failure = sl_protocol_check_text(reply->conn, result);
	if (value != NULL && reply->failure == NULL)
		reply->value = pstrdup(value);
	reply->rows += PQntuples(result);
}

/* Handles what has arrived.  Returns true when the reply is complete. */
static bool
read_reply(SlReply *reply)
{
	PGresult   *result;
	SlFailure  *failure = NULL;
	SlEvent		event;

	do
	{
		event = sl_pipeline_next(reply->conn, &result, &failure);
		if (event == SL_EVENT_ROWS)
			store_rows(reply, result);
		if (event == SL_EVENT_DONE)
			store_outcome(reply, result);
		if (result != NULL)
			PQclear(result);
		if (event == SL_EVENT_FAILED && reply->failure == NULL)
			reply->failure = failure;
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE &&
			 reply->conn->state == SL_CONN_OPEN);
	return event == SL_EVENT_IDLE || reply->conn->state != SL_CONN_OPEN;
}

/* A reply is complete: after the last one of its shard, the turn is over. */
static void
complete_reply(Round *round, SlReply *reply)
{
	if (round->turns->complete != NULL)
		round->turns->complete(reply);
	for (int i = 0; i < round->reply_count; i++)
	{
		const SlReply *other = &round->replies[i];

		if (other->conn != NULL && other->conn->shard_id == reply->conn->shard_id &&
			!other->is_complete)
			return;
	}
	round->turns->end_turn(reply->conn->shard_id);
}

/*
 * Handles what has arrived after a wait, and cancels commands whose deadline is not
 * after "now": they have failed.
 */
static void
finish_round(Round *round, TimestampTz now)
{
	for (int i = 0; i < round->count; i++)
	{
		SlReply    *reply = round->waiting[i];

		if (round->items[i].ready)
			reply->is_complete = !sl_conn_read(reply->conn, &reply->failure) || read_reply(reply);
		else if (reply->deadline <= now)
		{
			sl_cancel(list_make1(reply->conn));
			reply->failure = sl_failure_unreachable(reply->conn->shard,
													psprintf("No answer came within %d ms.",
															 round->timeout_ms));
			reply->is_complete = true;
		}
		if (!reply->is_complete)
			continue;
		sl_wait_forget(&round->cache);
		if (round->turns != NULL)
			complete_reply(round, reply);
	}
}

/*
 * Waits for the replies that are not complete.  A command that takes longer than
 * the timeout (0 is none) is cancelled and has failed.
 */
static void
wait_for_replies(SlReply *replies, int count, int timeout_ms)
{
	TimestampTz deadline = timeout_ms > 0 ? sl_wait_deadline(timeout_ms) : DT_NOEND;
	Round		round;

	init_round(&round, replies, count, timeout_ms, NULL);
	for (;;)
	{
		bool		in_time;

		round.count = 0;
		for (int i = 0; i < count; i++)
		{
			if (replies[i].is_complete)
				continue;
			replies[i].deadline = deadline;
			add_to_round(&round, &replies[i]);
		}
		if (round.count == 0)
			break;

		/* Without a postmaster, the wait can end before any deadline. */
		in_time = sl_wait_items(round.items, round.count, deadline, &round.cache);
		finish_round(&round, in_time ? DT_NOBEGIN : deadline);
	}
	sl_wait_forget(&round.cache);
}

/*
 * Runs a statement on all shards whose reply has no failure, and waits for all
 * of them.
 */
void
sl_broadcast_run(SlReply *replies, int count, const char *sql, int param_count,
				 const char *const *params, int timeout_ms)
{
	for (int i = 0; i < count; i++)
	{
		replies[i].is_complete = replies[i].failure != NULL;
		if (replies[i].is_complete)
			continue;
		if (!sl_session_is_current(replies[i].conn))
			sl_session_send(replies[i].conn);
		sl_pipeline_query(replies[i].conn, sql, param_count, params);
		sl_pipeline_sync(replies[i].conn);
	}
	wait_for_replies(replies, count, timeout_ms);
}

/*
 * Sends a reply's own command on an idle connection.  If it cannot be sent, the
 * reply is complete, with a failure.
 */
void
sl_broadcast_send_command(SlReply *reply, const void *arg)
{
	if (reply->conn->state != SL_CONN_OPEN)
	{
		reply->failure = sl_failure_unreachable(reply->conn->shard,
												"The connection was lost.");
		reply->is_complete = true;
		return;
	}
	if (sl_pipeline_command(reply->conn, reply->sql, true))
		return;
	reply->failure = sl_failure_unreachable(reply->conn->shard,
											PQerrorMessage(reply->conn->pg));
	reply->is_complete = true;
	sl_conn_close(reply->conn);
}

/* Runs the replies' own commands, and waits for all of them. */
void
sl_broadcast_commands(SlReply *replies, int count, int timeout_ms)
{
	for (int i = 0; i < count; i++)
	{
		replies[i].is_complete = replies[i].failure != NULL;
		if (!replies[i].is_complete)
			sl_broadcast_send_command(&replies[i], NULL);
	}
	wait_for_replies(replies, count, timeout_ms);
}

/* Sends the commands whose turn it is.  Returns true if others are left. */
static bool
send_in_turn(Round *round)
{
	const SlTurns *turns = round->turns;
	bool		any_left = false;

	for (int i = 0; i < round->reply_count; i++)
	{
		SlReply    *reply = &round->replies[i];

		if (reply->is_complete || reply->is_sent)
			continue;
		if (!turns->has_turn(reply->conn->shard_id))
		{
			any_left = true;
			continue;
		}
		turns->send(reply, turns->arg);
		reply->is_sent = true;
		reply->deadline = sl_wait_deadline(turns->timeout_ms);
		if (reply->is_complete)
			complete_reply(round, reply);
	}
	return any_left;
}

/*
 * Sends each command when its turn on the shard has come, and waits for all replies
 * that have no failure.  A shard whose turn has not come, or that does not respond,
 * does not delay the others.
 */
void
sl_broadcast_in_turn(SlReply *replies, int count, const SlTurns *turns)
{
	Round		round;

	init_round(&round, replies, count, turns->timeout_ms, turns);
	for (int i = 0; i < count; i++)
	{
		replies[i].is_sent = false;
		replies[i].is_complete = replies[i].failure != NULL;
	}
	for (;;)
	{
		bool		any_left = send_in_turn(&round);
		TimestampTz deadline = DT_NOEND;

		round.count = 0;
		for (int i = 0; i < count; i++)
		{
			if (!replies[i].is_sent || replies[i].is_complete)
				continue;
			add_to_round(&round, &replies[i]);
			deadline = Min(deadline, replies[i].deadline);
		}
		if (round.count == 0 && !any_left)
			break;
		if (round.count == 0)
			sl_wait_latch();
		else
		{
			sl_wait_for_latch = any_left;
			(void) sl_wait_items(round.items, round.count, deadline, &round.cache);
			sl_wait_for_latch = false;
			finish_round(&round, GetCurrentTimestamp());
		}
	}
	sl_wait_forget(&round.cache);
}
