/*
 * cancel.c
 *		Stops statements that run on shards, and makes their connections usable
 *		again.
 *
 * libpq's PQcancel() blocks, and with a shard that does not answer it blocks
 * forever, in a place where PostgreSQL holds interrupts.  So a second
 * connection, opened without blocking like any other, calls
 * pg_cancel_backend(), while the remaining results of the first one are
 * discarded.  Both are done for all shards at a time and within a time limit; a
 * connection that is not idle by then is closed.
 *
 * This runs when a statement ends early and when a transaction aborts.  It does
 * not access catalogs.  The only error that it can raise is an interrupt, unless
 * interrupts are held.
 */
#include "postgres.h"

#include <sys/socket.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "connection/connection.h"

/* Time for a statement that is about to end by itself. */
#define GRACE_MS 5

/*
 * Time until the connection is given up, and additional time if rows are still
 * arriving.
 */
#define LIMIT_MS 5000
#define EXTRA_LIMIT_MS 10000

/* Time for a cancel request of libpq. */
#define REQUEST_MS 1000

/* The socket of such a request, while one is being sent. */
static volatile int request_socket = -1;

/* A connection that is being drained, and the one that cancels it. */
typedef struct Victim
{
	SlConn	   *conn;
	SlConn		killer;			/* its pg is NULL when not needed */
	bool		is_cancel_sent; /* pg_cancel_backend() was sent */
	bool		has_responded;	/* the server, to the second connection */
	bool		has_rows;		/* rows, or other results, have arrived */
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
	return conn->state != SL_CONN_CLOSED && !sl_pipeline_is_empty(conn);
}

/* Discards what has arrived.  Returns true if a result was among it. */
static bool
discard_results(SlConn *conn)
{
	PGresult   *result;
	SlFailure  *failure;
	SlEvent		event;
	bool		has_rows = false;

	/* Notices of a statement that was abandoned are not shown. */
	conn->notices.queued = NIL;
	if (!sl_conn_read(conn, &failure))
		return false;
	do
	{
		conn->notices.queued = NIL;
		event = sl_pipeline_next(conn, &result, &failure);
		has_rows = has_rows || result != NULL;
		PQclear(result);
		if (event == SL_EVENT_COPY && !sl_pipeline_end_copy(conn, "The router stopped the COPY."))
			sl_conn_close(conn);
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE &&
			 conn->state != SL_CONN_CLOSED);
	return has_rows;
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
	sl_notice_ignore(killer->pg);
	killer->state = SL_CONN_CONNECTING;
	killer->wants_write = true;
	if (PQstatus(killer->pg) == CONNECTION_BAD)
		sl_conn_close(killer);
}

/* Timeout handler: the time for a cancel request is over. */
static void
stop_request(void)
{
	int			save_errno = errno;

	(void) shutdown(request_socket, SHUT_RDWR);
	errno = save_errno;
}

/*
 * Sends a cancel request.  This is for a server that is alive but does not accept
 * another connection, for instance because max_connections is reached; it still
 * accepts cancel requests.  PQcancel() blocks until the server closes the
 * connection and is not stopped by signals.  But POSIX guarantees that the socket
 * that it opens has the lowest free number, and this process opens no other file
 * meanwhile, so that a timer can shut that socket down.
 */
static void
send_request(const SlConn *conn)
{
	static TimeoutId timer = MAX_TIMEOUTS;
	PGcancel   *request = PQgetCancel(conn->pg);
	char		error[256];

	if (request == NULL)
		return;
	if (timer == MAX_TIMEOUTS)
		timer = RegisterTimeout(USER_TIMEOUT, stop_request);
	request_socket = dup(STDERR_FILENO);
	if (request_socket >= 0)
	{
		close(request_socket);
		enable_timeout_after(timer, REQUEST_MS);
		(void) PQcancel(request, error, sizeof(error));
		disable_timeout(timer, false);
	}
	PQfreeCancel(request);
}

static void
advance_killer(Victim *victim)
{
	SlConn	   *killer = &victim->killer;
	char		sql[64];

	if (killer->state != SL_CONN_CONNECTING)
	{
		/* Done, be it with the result or the end of the connection. */
		if (!PQconsumeInput(killer->pg) || !PQisBusy(killer->pg))
		{
			victim->is_cancel_sent = false;
			sl_conn_close(killer);
		}
		return;
	}
	victim->has_responded = victim->has_responded || sl_liveness_has_response(killer->pg);
	switch (PQconnectPoll(killer->pg))
	{
		case PGRES_POLLING_OK:
			snprintf(sql, sizeof(sql), "SELECT pg_catalog.pg_cancel_backend(%d)",
					 PQbackendPID(victim->conn->pg));
			killer->state = SL_CONN_OPEN;
			victim->is_cancel_sent = true;
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
			if (victim->has_responded)
				send_request(victim->conn);
	}
}

/* Collects the connections to wait for.  Returns their number. */
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

/* Handles a connection that is ready. */
static void
serve_connection(Cancellation *work, SlConn *conn)
{
	for (int i = 0; i < work->count; i++)
	{
		if (conn == work->victims[i].conn)
			work->victims[i].has_rows = discard_results(conn) || work->victims[i].has_rows;
		else if (conn == &work->victims[i].killer)
			advance_killer(&work->victims[i]);
	}
}

/* Works until all connections are idle or the deadline has passed. */
static void
work_until(Cancellation *work, TimestampTz deadline)
{
	int			count;

	while ((count = fill_items(work)) > 0)
	{
		/* Sockets change, so the wait set of the last round is not reused. */
		sl_wait_forget(&work->cache);
		if (!sl_wait_items(work->items, count, deadline, &work->cache))
			break;
		for (int i = 0; i < count; i++)
		{
			if (work->items[i].ready)
				serve_connection(work, work->items[i].conn);
		}
	}
	sl_wait_forget(&work->cache);
}

/* Closes the second connections, and those that did not become idle. */
static void
close_connections(Cancellation *work)
{
	for (int i = 0; i < work->count; i++)
	{
		Victim	   *victim = &work->victims[i];

		/* A cancel that arrives late would hit the next statement. */
		if (is_busy(victim->conn) || (victim->killer.pg != NULL && victim->is_cancel_sent))
			sl_conn_close(victim->conn);
		sl_conn_close(&victim->killer);
	}
}

/*
 * Are rows still arriving?  Those that the shard had sent before it was cancelled
 * may take a while, and the connection may be in a transaction that continues.
 */
static bool
has_rows_left(Cancellation *work)
{
	bool		any = false;

	for (int i = 0; i < work->count; i++)
	{
		any = any || (is_busy(work->victims[i].conn) && work->victims[i].has_rows);
		work->victims[i].has_rows = false;
	}
	return any;
}

static void
cancel_statements(Cancellation *work)
{
	for (int i = 0; i < work->count; i++)
		(void) discard_results(work->victims[i].conn);
	work_until(work, sl_wait_deadline(GRACE_MS));
	for (int i = 0; i < work->count; i++)
	{
		if (is_busy(work->victims[i].conn))
			start_killer(&work->victims[i]);
	}
	work_until(work, sl_wait_deadline(LIMIT_MS));
	if (has_rows_left(work))
		work_until(work, sl_wait_deadline(EXTRA_LIMIT_MS));
}

/*
 * Makes all these connections idle, cancelling what runs on them, or closes
 * them.  One that is still being opened, or has broken the protocol, is closed.
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

		sl_liveness_reset(conn);
		if (conn->state == SL_CONN_OPEN && !conn->is_broken && is_busy(conn))
			work.victims[work.count++].conn = conn;
		else if (conn->state != SL_CONN_OPEN || conn->is_broken)
			sl_conn_close(conn);
	}

	/* Clean up even if an interrupt is raised. */
	PG_TRY();
	{
		cancel_statements(&work);
	}
	PG_FINALLY();
	{
		sl_wait_forget(&work.cache);
		close_connections(&work);
	}
	PG_END_TRY();
	pfree(work.victims);
	pfree(work.items);
}

/*
 * Discards the remaining results of a connection, however long that takes: what
 * runs on it is part of a transaction that continues.
 */
void
sl_drain(SlConn *conn)
{
	(void) discard_results(conn);
	while (conn->state == SL_CONN_OPEN && is_busy(conn))
	{
		(void) sl_wait_conn(conn, DT_NOEND);
		(void) discard_results(conn);
	}
}

/*
 * Cancels what runs on a connection whose result is still needed.  The caller
 * holds interrupts and waits for that result.  A failure is ignored.
 */
void
sl_cancel_send(const SlShard *shard, const SlConn *conn)
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
