/*
 * replication.c
 *		A connection to a shard as a walsender, for the one thing that plain SQL
 *		cannot do: make a replication slot and export the snapshot that goes with
 *		it.
 *
 * Such a connection takes simple queries only.  So it is no connection like the
 * others: it is made with the parameters of one that is open, whose identity
 * was checked, and is outside of pipeline mode.  The snapshot lives until the
 * connection is closed, or gets another command.
 */
#include "postgres.h"

#include "storage/fd.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "remote/remote.h"

static void
close_with_context(void *arg)
{
	sl_conn_close(arg);
}

pg_noreturn static void
fail(SlConn *conn)
{
	SlFailure  *failure = sl_failure_unreachable(conn->shard, pchomp(PQerrorMessage(conn->pg)));

	sl_conn_close(conn);
	sl_failure_raise(failure, conn->shard, NULL);
}

/* The parameters of another connection, and one more. */
static void
dial(SlConn *conn, const SlConn *like)
{
	const char **keywords = palloc0(sizeof(char *) * (like->parameter_count + 2));
	const char **values = palloc0(sizeof(char *) * (like->parameter_count + 2));

	memcpy(keywords, like->keywords, sizeof(char *) * like->parameter_count);
	memcpy(values, like->values, sizeof(char *) * like->parameter_count);
	keywords[like->parameter_count] = "replication";
	values[like->parameter_count] = "database";
	if (!AcquireExternalFD())
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				errmsg("could not connect to shard \"%s\"", conn->shard),
				errdetail("There are too many open files on the router."));
	conn->pg = PQconnectStartParams(keywords, values, 0);
	if (conn->pg == NULL)
	{
		ReleaseExternalFD();
		ereport(ERROR,
				errcode(ERRCODE_OUT_OF_MEMORY),
				errmsg("out of memory"));
	}
	conn->state = SL_CONN_CONNECTING;
	conn->wants_write = true;
}

/* libpq may be polled until it is connected. */
static bool
is_connected(SlConn *conn)
{
	switch (PQconnectPoll(conn->pg))
	{
		case PGRES_POLLING_OK:
			return true;
		case PGRES_POLLING_READING:
			conn->wants_write = false;
			return false;
		case PGRES_POLLING_WRITING:
			conn->wants_write = true;
			return false;
		default:
			fail(conn);
	}
}

/*
 * Opens a connection for replication commands to where another one leads.  It
 * belongs to the current memory context.  A failure is an error.
 */
SlConn *
sl_replication_open(const SlConn *like)
{
	SlConn	   *conn = palloc0(sizeof(SlConn));
	TimestampTz deadline = sl_wait_deadline(sl_connect_timeout);

	conn->context = CurrentMemoryContext;
	conn->shard = pstrdup(like->shard);
	conn->callback.func = close_with_context;
	conn->callback.arg = conn;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &conn->callback);
	dial(conn, like);
	if (PQstatus(conn->pg) == CONNECTION_BAD)
		fail(conn);
	do
	{
		if (!sl_wait_conn(conn, deadline))
			fail(conn);
	} while (!is_connected(conn));
	conn->state = SL_CONN_OPEN;
	(void) PQsetnonblocking(conn->pg, 1);
	return conn;
}

/* Sends a command; sl_replication_answer() tells what became of it. */
void
sl_replication_send(SlConn *conn, const char *sql)
{
	if (!PQsendQuery(conn->pg, sql))
		fail(conn);
}

/*
 * Returns the answer to a command, which belongs to the current memory context,
 * or NULL if it has not come within so many milliseconds.  What the shard
 * refuses is an error.
 */
PGresult *
sl_replication_answer(SlConn *conn, const char *sql, int milliseconds)
{
	TimestampTz deadline = sl_wait_deadline(milliseconds);
	PGresult   *result;

	while (PQisBusy(conn->pg))
	{
		if (!sl_wait_conn(conn, deadline))
			return NULL;
		if (!PQconsumeInput(conn->pg))
			fail(conn);
	}
	result = PQgetResult(conn->pg);
	if (result == NULL)
		fail(conn);
	(void) sl_result_own(result);
	if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
		sl_failure_raise(sl_failure_make(conn, result), conn->shard, sql);
	return result;
}
