/*
 * cancel.c
 *		Stops statements that run on shards, and makes their connections usable
 *		again.
 *
 * libpq's PQcancel() blocks, and with a shard that does not answer it blocks
 * for ever, in a place where PostgreSQL holds interrupts.  So a second
 * connection, opened like any other without blocking, asks for
 * pg_cancel_backend(), while the first one's remaining answers are thrown
 * away.  Both are done for all shards at a time, and within a limit: what is
 * not idle then is closed.
 *
 * This runs when a statement ends early and when a transaction aborts.  It
 * touches no catalog and throws nothing but an interrupt, if those are not
 * held.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "remote/remote.h"

/* A statement that is about to end by itself is given so long. */
#define GRACE_MS 5

/* After this the connection is given up. */
#define LIMIT_MS 5000

/* A connection that is being emptied, and the one that cancels it. */
typedef struct Victim
{
	SlConn	   *conn;
	SlConn		killer;			/* its pg is NULL when not needed */
	bool		asked;			/* pg_cancel_backend() is on its way */
	bool		has_answered;	/* the server, to the second connection */
} Victim;

typedef struct Cancellation
{
	Victim	   *victims;
	int			count;
	SlWaitItem *items;			/* two for each victim at most */
	SlWaitCache cache;
} Cancellation;

static bool
is_busy(const SlConn *conn)
{
	return conn->state != SL_CONN_CLOSED && !sl_flight_is_empty(conn);
}

/* Throws away what has arrived. */
static void
discard(SlConn *conn)
{
	PGresult   *result;
	SlFailure  *failure;
	SlEvent		event;

	/* Notices of a statement that nobody waits for are not shown. */
	conn->notices = NIL;
	if (!sl_conn_read(conn, &failure))
		return;
	do
	{
		conn->notices = NIL;
		event = sl_flight_next(conn, &result, &failure);
		if (result != NULL)
			PQclear(result);
		if (event == SL_EVENT_COPY && !sl_flight_end_copy(conn, "The router stopped the COPY."))
			sl_conn_close(conn);
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE &&
			 conn->state != SL_CONN_CLOSED);
}

static void
start_killer(Victim *victim)
{
	SlConn	   *killer = &victim->killer;

	if (!AcquireExternalFD())
		return;
	killer->pg = PQconnectStartParams(victim->conn->keywords, victim->conn->values, 0);
	if (killer->pg == NULL)
	{
		ReleaseExternalFD();
		return;
	}
	killer->state = SL_CONN_CONNECTING;
	killer->wants_write = true;
	if (PQstatus(killer->pg) == CONNECTION_BAD)
		sl_conn_close(killer);
}

/*
 * The server is there, but lets nobody else in: it may have no place left.  It
 * takes a request to cancel all the same.  That blocks, but not for long, since
 * it has just answered.
 */
static void
send_request(const SlConn *conn)
{
	PGcancel   *request = PQgetCancel(conn->pg);
	char		error[256];

	if (request == NULL)
		return;
	(void) PQcancel(request, error, sizeof(error));
	PQfreeCancel(request);
}

static void
advance_killer(Victim *victim)
{
	SlConn	   *killer = &victim->killer;
	char		sql[64];

	if (killer->state != SL_CONN_CONNECTING)
	{
		/* The answer, or the end of the connection: either way we are done. */
		if (!PQconsumeInput(killer->pg) || !PQisBusy(killer->pg))
		{
			victim->asked = false;
			sl_conn_close(killer);
		}
		return;
	}
	victim->has_answered = victim->has_answered || sl_probe_hears(killer->pg);
	switch (PQconnectPoll(killer->pg))
	{
		case PGRES_POLLING_OK:
			snprintf(sql, sizeof(sql), "SELECT pg_catalog.pg_cancel_backend(%d)",
					 PQbackendPID(victim->conn->pg));
			killer->state = SL_CONN_OPEN;
			victim->asked = true;
			if (!PQsendQuery(killer->pg, sql))
				sl_conn_close(killer);
			break;
		case PGRES_POLLING_READING:
			killer->wants_write = false;
			break;
		case PGRES_POLLING_WRITING:
			killer->wants_write = true;
			break;
		default:
			sl_conn_close(killer);
			if (victim->has_answered)
				send_request(victim->conn);
	}
}

/* Collects what is to be waited for.  Returns how much that is. */
static int
fill_items(Cancellation *work)
{
	int			count = 0;

	for (int i = 0; i < work->count; i++)
	{
		Victim	   *victim = &work->victims[i];

		if (is_busy(victim->conn))
		{
			work->items[count].conn = victim->conn;
			work->items[count++].events = sl_conn_wants(victim->conn);
		}
		if (victim->killer.pg != NULL)
		{
			work->items[count].conn = &victim->killer;
			work->items[count++].events = sl_conn_wants(&victim->killer);
		}
	}
	return count;
}

static void
serve(Cancellation *work, SlConn *conn)
{
	for (int i = 0; i < work->count; i++)
	{
		if (conn == work->victims[i].conn)
			discard(conn);
		else if (conn == &work->victims[i].killer)
			advance_killer(&work->victims[i]);
	}
}

/* Waits and works until everything is idle or the time is over. */
static void
work_until(Cancellation *work, TimestampTz deadline)
{
	int			count;

	while ((count = fill_items(work)) > 0)
	{
		/* Sockets come and go, so nothing of the last round is kept. */
		sl_wait_forget(&work->cache);
		if (!sl_wait_items(work->items, count, deadline, &work->cache))
			break;
		for (int i = 0; i < count; i++)
		{
			if (work->items[i].ready)
				serve(work, work->items[i].conn);
		}
	}
	sl_wait_forget(&work->cache);
}

static void
close_all(Cancellation *work)
{
	for (int i = 0; i < work->count; i++)
	{
		Victim	   *victim = &work->victims[i];

		/* A cancel that comes late would hit the next statement. */
		if (is_busy(victim->conn) || (victim->killer.pg != NULL && victim->asked))
			sl_conn_close(victim->conn);
		sl_conn_close(&victim->killer);
	}
}

static void
cancel_all(Cancellation *work)
{
	for (int i = 0; i < work->count; i++)
		discard(work->victims[i].conn);
	work_until(work, sl_wait_deadline(GRACE_MS));
	for (int i = 0; i < work->count; i++)
	{
		if (is_busy(work->victims[i].conn))
			start_killer(&work->victims[i]);
	}
	work_until(work, sl_wait_deadline(LIMIT_MS));
}

/*
 * Makes all these connections idle, cancelling what runs on them, or closes
 * them.  One that is still being opened is closed.
 */
void
sl_cancel(List *conns)
{
	Cancellation work = {0};
	ListCell   *cell;

	work.victims = palloc0(sizeof(Victim) * Max(list_length(conns), 1));
	work.items = palloc0(sizeof(SlWaitItem) * Max(2 * list_length(conns), 1));
	foreach(cell, conns)
	{
		SlConn	   *conn = lfirst(cell);

		sl_probe_forget(conn);
		if (conn->state == SL_CONN_OPEN && is_busy(conn))
			work.victims[work.count++].conn = conn;
		else if (conn->state != SL_CONN_OPEN)
			sl_conn_close(conn);
	}

	/* Whatever is thrown in between, nothing stays half done. */
	PG_TRY();
	{
		cancel_all(&work);
	}
	PG_FINALLY();
	{
		sl_wait_forget(&work.cache);
		close_all(&work);
	}
	PG_END_TRY();
	pfree(work.victims);
	pfree(work.items);
}

/*
 * Throws away the rest of what a connection was asked for, however long that
 * takes: what runs on it is part of a transaction that goes on.
 */
void
sl_drain(SlConn *conn)
{
	discard(conn);
	while (conn->state == SL_CONN_OPEN && is_busy(conn))
	{
		(void) sl_wait_conn(conn, DT_NOEND);
		discard(conn);
	}
}

/*
 * Asks the shard to cancel what runs on a connection whose answer still counts.
 * The caller holds interrupts, and waits for that answer.
 */
void
sl_cancel_ask(const SlShard *shard, const SlConn *conn)
{
	const char *params[] = {psprintf("%d", PQbackendPID(conn->pg))};
	SlFailure  *failure;
	SlConn	   *second = sl_remote_try_open_as(shard, conn->user, &failure);

	if (second == NULL)
		return;
	(void) sl_remote_try(second, "SELECT pg_catalog.pg_cancel_backend($1)", 1, params,
						 sl_wait_deadline(sl_connect_timeout), &failure);
	sl_conn_close(second);
}
