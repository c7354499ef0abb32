/*
 * replication_slot.c
 *		A connection to a walsender of a shard, for the one thing that SQL cannot
 *		do: create a replication slot and export its snapshot.
 *
 * A walsender accepts simple queries only.  So this connection differs from all
 * others: it is opened with the parameters of one that is open, whose identity was
 * checked, and is not in pipeline mode.  The snapshot is valid until the
 * connection is closed or runs another command.
 */
#include "postgres.h"

#include "storage/fd.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "connection/connection.h"

static void
close_with_context(void *arg)
{
	sl_conn_close(arg);
}

/* Closes the connection and raises libpq's error. */
pg_noreturn static void
raise_libpq_error(SlConn *conn)
{
	SlFailure  *failure = sl_failure_unreachable(conn->shard, PQerrorMessage(conn->pg));

	sl_conn_close(conn);
	sl_failure_raise(failure, conn->shard, NULL);
}

/* Starts libpq with the parameters of another connection, and "replication". */
static void
start_walsender(SlConn *conn, const SlConn *like)
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
	sl_notice_ignore(conn->pg);
	conn->state = SL_CONN_CONNECTING;
	conn->wants_write = true;
}

/* Calls PQconnectPoll() once.  Returns true if libpq has connected. */
static bool
poll_walsender(SlConn *conn)
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
			raise_libpq_error(conn);
	}
}

/*
 * Opens a connection for replication commands to the server of another one.  It
 * belongs to the current memory context.  Raises an error on failure.
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
	start_walsender(conn, like);
	if (PQstatus(conn->pg) == CONNECTION_BAD)
		raise_libpq_error(conn);
	do
	{
		if (!sl_wait_conn(conn, deadline))
			raise_libpq_error(conn);
	} while (!poll_walsender(conn));
	conn->state = SL_CONN_OPEN;
	(void) PQsetnonblocking(conn->pg, 1);
	return conn;
}

/* Sends a command, whose result sl_replication_answer() returns. */
void
sl_replication_send(SlConn *conn, const char *sql)
{
	if (!PQsendQuery(conn->pg, sql))
		raise_libpq_error(conn);
}

/*
 * Returns the result of a command, which belongs to the current memory context, or
 * NULL if it has not arrived within that time.  Raises an error if the command
 * failed.
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
			raise_libpq_error(conn);
	}
	result = PQgetResult(conn->pg);
	if (result == NULL)
		raise_libpq_error(conn);
	(void) sl_result_own(result);
	if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
		sl_failure_raise(sl_failure_make(conn, result), conn->shard, sql);
	return result;
}
