/*
 * exec.c
 *		Runs one statement on a shard and waits for its result.
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "remote/remote.h"

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

/* Takes in what there is, or waits.  Returns false when it is over. */
static bool
take_next(SlConn *conn, PGresult **kept, TimestampTz deadline, SlFailure **first_failure)
{
	PGresult   *result;
	SlFailure  *failure;
	SlEvent		event = sl_flight_next(conn, &result, &failure);

	if (result != NULL)
	{
		sl_result_own(result);
		if (*kept == NULL || PQntuples(*kept) == 0)
			*kept = result;
	}
	if (event == SL_EVENT_FAILED && *first_failure == NULL)
		*first_failure = failure;
	if (event == SL_EVENT_IDLE || conn->state == SL_CONN_CLOSED)
		return false;
	if (event != SL_EVENT_NONE)
		return true;
	if (sl_wait_conn(conn, deadline))
		return sl_conn_read(conn, first_failure);
	*first_failure = sl_failure_unreachable(conn->shard, "No answer came in time.");
	sl_conn_close(conn);
	return false;
}

/*
 * Runs a statement with parameters in text form, and waits until the deadline.
 * Returns its first row, or its last result if it has none; it belongs to the
 * current memory context.  On a failure returns NULL and says why.
 */
PGresult *
sl_remote_try(SlConn *conn, const char *sql, int param_count, const char *const *params,
			  TimestampTz deadline, SlFailure **failure)
{
	PGresult   *kept = NULL;

	*failure = NULL;
	sl_flight_query(conn, sql, param_count, params);
	sl_flight_sync(conn);
	while (take_next(conn, &kept, deadline, failure))
		;
	return *failure == NULL ? kept : NULL;
}

/* The same without a deadline; a failure is an error. */
PGresult *
sl_remote_exec(SlConn *conn, const char *sql, int param_count, const char *const *params)
{
	SlFailure  *failure;
	PGresult   *result = sl_remote_try(conn, sql, param_count, params, DT_NOEND, &failure);

	if (failure != NULL)
		sl_failure_raise(failure, conn->shard, sql);
	return result;
}

/* The same for a question that is answered at once, or the shard is dead. */
PGresult *
sl_remote_ask(SlConn *conn, const char *sql, int param_count, const char *const *params)
{
	SlFailure  *failure;
	PGresult   *result = sl_remote_try(conn, sql, param_count, params,
									   sl_wait_deadline(sl_connect_timeout), &failure);

	if (failure != NULL)
		sl_failure_raise(failure, conn->shard, sql);
	return result;
}

static List *
add_rows(List *rows, const PGresult *result)
{
	int			width = PQnfields(result);

	for (int row = 0; row < PQntuples(result); row++)
	{
		char	  **values = palloc0(sizeof(char *) * Max(width, 1));

		for (int i = 0; i < width; i++)
			values[i] = PQgetisnull(result, row, i) ? NULL : pstrdup(PQgetvalue(result, row, i));
		rows = lappend(rows, values);
	}
	return rows;
}

/*
 * Runs a query and returns all of its rows, each an array of values as text or
 * NULL.  A failure is an error.
 */
List *
sl_remote_rows(SlConn *conn, const char *sql, int param_count, const char *const *params)
{
	List	   *rows = NIL;
	SlFailure  *first_failure = NULL;
	SlEvent		event;

	sl_flight_query(conn, sql, param_count, params);
	sl_flight_sync(conn);
	do
	{
		SlFailure  *failure = NULL;
		PGresult   *result;

		event = sl_flight_next(conn, &result, &failure);
		if (result != NULL)
		{
			rows = add_rows(rows, result);
			PQclear(result);
		}
		if (event == SL_EVENT_NONE)
			(void) sl_wait_conn(conn, DT_NOEND);
		if (event == SL_EVENT_NONE && !sl_conn_read(conn, &failure))
			event = SL_EVENT_FAILED;
		if (event == SL_EVENT_FAILED && first_failure == NULL)
			first_failure = failure;
	} while (event != SL_EVENT_IDLE && conn->state != SL_CONN_CLOSED);
	if (first_failure != NULL)
		sl_failure_raise(first_failure, conn->shard, sql);
	return rows;
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
