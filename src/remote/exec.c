/*
 * exec.c
 *		Runs one statement on a shard and waits for its result.
 */
#include "postgres.h"

#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "remote/remote.h"

/* Makes the current memory context the owner of a result. */
static void
clear_result(void *arg)
{
	PQclear(arg);
}

static PGresult *
own_result(PGresult *result)
{
	MemoryContextCallback *callback = palloc0(sizeof(MemoryContextCallback));

	callback->func = clear_result;
	callback->arg = result;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	return result;
}

static void
flush(SlConn *conn, const char *sql)
{
	int			pending;

	while ((pending = PQflush(conn->pg)) > 0)
	{
		(void) sl_wait_socket(PQsocket(conn->pg),
							  WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE, DT_NOEND);
		if (PQconsumeInput(conn->pg) == 0)
			sl_remote_raise(conn, NULL, sql);
	}
	if (pending < 0)
		sl_remote_raise(conn, NULL, sql);
}

static PGresult *
next_result(SlConn *conn, const char *sql)
{
	while (PQisBusy(conn->pg))
	{
		(void) sl_wait_socket(PQsocket(conn->pg), WL_SOCKET_READABLE, DT_NOEND);
		if (PQconsumeInput(conn->pg) == 0)
			sl_remote_raise(conn, NULL, sql);
	}
	return PQgetResult(conn->pg);
}

/*
 * Runs a statement with parameters in text form.  A failure is an error, with
 * the shard's own SQLSTATE.  The result belongs to the current memory context.
 */
PGresult *
sl_remote_exec(SlConn *conn, const char *sql, int param_count, const char *const *params)
{
	PGresult   *result = NULL;
	PGresult   *next;

	if (!PQsendQueryParams(conn->pg, sql, param_count, NULL, params, NULL, NULL, 0))
		sl_remote_raise(conn, NULL, sql);
	flush(conn, sql);
	while ((next = next_result(conn, sql)) != NULL)
		result = own_result(next);
	if (result == NULL || (PQresultStatus(result) != PGRES_TUPLES_OK &&
						   PQresultStatus(result) != PGRES_COMMAND_OK))
		sl_remote_raise(conn, result, sql);
	return result;
}

/* Returns a value as text, or NULL. */
const char *
sl_remote_value(const PGresult *result, int row, int column)
{
	return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}

bool
sl_remote_bool(const PGresult *result, int row, int column)
{
	const char *value = sl_remote_value(result, row, column);

	return value != NULL && value[0] == 't';
}
