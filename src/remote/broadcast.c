/*
 * broadcast.c
 *		The same commands to several shards at a time, when only their outcome
 *		matters and not their rows.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "remote/remote.h"

/* The replies that are waited for now. */
typedef struct Round
{
	SlWaitItem *items;
	SlReply   **replies;
	int			count;
	SlWaitCache cache;
} Round;

static void
make_round(Round *round, int size)
{
	memset(round, 0, sizeof(Round));
	round->items = palloc0(sizeof(SlWaitItem) * Max(size, 1));
	round->replies = palloc0(sizeof(SlReply *) * Max(size, 1));
}

static void
add_to_round(Round *round, SlReply *reply)
{
	round->items[round->count].conn = reply->conn;
	round->items[round->count].events = sl_conn_wants(reply->conn);
	round->replies[round->count++] = reply;
}

/* Makes a reply for each shard, but for those that are offline if told so. */
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

/* Connects to all shards of the replies; failures are in these. */
void
sl_broadcast_open(SlReply *replies, int count)
{
	Round		round;

	make_round(&round, count);
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
			SlReply    *reply = round.replies[i];

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

static void
keep_outcome(SlReply *reply, PGresult *result)
{
	const char *rows = PQcmdTuples(result);
	char	   *digits;

	/* libpq 17 loses the command of rows that came in bunches. */
	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQcmdStatus(result)[0] == '\0')
	{
		reply->has_rows = true;
		return;
	}
	reply->command = pstrdup(PQcmdStatus(result));

	/* "INSERT 0 5" is command INSERT and 5 rows. */
	digits = strpbrk(reply->command, "0123456789");
	if (digits != NULL && digits > reply->command && digits[-1] == ' ')
		digits[-1] = '\0';
	reply->rows = rows[0] != '\0' ? strtoll(rows, NULL, 10) : 0;
	reply->has_rows = rows[0] != '\0';
}

static void
keep_rows(SlReply *reply, const PGresult *result)
{
	if (reply->rows == 0 && PQnfields(result) > 0 && !PQgetisnull(result, 0, 0))
		reply->value = pstrdup(PQgetvalue(result, 0, 0));
	reply->rows += PQntuples(result);
}

/* Takes in what has come.  Returns true when the reply is complete. */
static bool
take_in(SlReply *reply)
{
	PGresult   *result;
	SlFailure  *failure = NULL;
	SlEvent		event;

	do
	{
		event = sl_flight_next(reply->conn, &result, &failure);
		if (event == SL_EVENT_ROWS)
			keep_rows(reply, result);
		if (event == SL_EVENT_DONE)
			keep_outcome(reply, result);
		if (result != NULL)
			PQclear(result);
		if (event == SL_EVENT_FAILED && reply->failure == NULL)
			reply->failure = failure;
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE &&
			 reply->conn->state == SL_CONN_OPEN);
	return event == SL_EVENT_IDLE || reply->conn->state != SL_CONN_OPEN;
}

/*
 * Waits for the replies that are not complete.  A shard that takes longer than
 * the time-out (0 is none) is cancelled and has failed.
 */
static void
wait_for_replies(SlReply *replies, int count, int timeout_ms)
{
	TimestampTz deadline = timeout_ms > 0 ? sl_wait_deadline(timeout_ms) : DT_NOEND;
	Round		round;

	make_round(&round, count);
	for (;;)
	{
		round.count = 0;
		for (int i = 0; i < count; i++)
		{
			if (!replies[i].is_complete)
				add_to_round(&round, &replies[i]);
		}
		if (round.count == 0)
			break;
		if (!sl_wait_items(round.items, round.count, deadline, &round.cache))
			break;
		for (int i = 0; i < round.count; i++)
		{
			SlReply    *reply = round.replies[i];

			if (!round.items[i].ready)
				continue;
			reply->is_complete = !sl_conn_read(reply->conn, &reply->failure) || take_in(reply);
			if (reply->is_complete)
				sl_wait_forget(&round.cache);
		}
	}
	sl_wait_forget(&round.cache);
	for (int i = 0; i < round.count; i++)
	{
		SlReply    *reply = round.replies[i];

		if (reply->is_complete)
			continue;
		sl_cancel(list_make1(reply->conn));
		reply->failure = sl_failure_unreachable(reply->conn->shard,
												psprintf("No answer came within %d ms.", timeout_ms));
	}
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
		sl_flight_query(replies[i].conn, sql, param_count, params);
		sl_flight_sync(replies[i].conn);
	}
	wait_for_replies(replies, count, timeout_ms);
}

/*
 * Runs the replies' own commands, as they are, on connections that are idle.
 * One that cannot be sent is a failure like any other.
 */
void
sl_broadcast_commands(SlReply *replies, int count, int timeout_ms)
{
	for (int i = 0; i < count; i++)
	{
		SlReply    *reply = &replies[i];

		reply->is_complete = reply->failure != NULL;
		if (!reply->is_complete && reply->conn->state != SL_CONN_OPEN)
		{
			reply->failure = sl_failure_unreachable(reply->conn->shard,
													"The connection was lost.");
			reply->is_complete = true;
		}
		if (reply->is_complete || sl_flight_command(reply->conn, reply->sql, true))
			continue;
		reply->failure = sl_failure_unreachable(reply->conn->shard,
												pchomp(PQerrorMessage(reply->conn->pg)));
		reply->is_complete = true;
		sl_conn_close(reply->conn);
	}
	wait_for_replies(replies, count, timeout_ms);
}
