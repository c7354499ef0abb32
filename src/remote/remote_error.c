/*
 * remote_error.c
 *		Passes a shard's error on.
 */
#include "postgres.h"

#include "base/base.h"
#include "remote/remote.h"

static const char *
field(const PGresult *result, int code)
{
	return result != NULL ? PQresultErrorField(result, code) : NULL;
}

/*
 * Raises what went wrong on a connection.  An error of the shard keeps its
 * SQLSTATE, message, detail and hint; without one the connection was lost,
 * which is SL004.  Whatever the severity there, it is an ERROR here.
 */
void
sl_remote_raise(SlConn *conn, PGresult *result, const char *sql)
{
	const char *sqlstate = field(result, PG_DIAG_SQLSTATE);
	const char *message = field(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = field(result, PG_DIAG_MESSAGE_DETAIL);
	const char *hint = field(result, PG_DIAG_MESSAGE_HINT);
	const char *context = field(result, PG_DIAG_CONTEXT);
	int			code;

	if (sqlstate == NULL || PQstatus(conn->pg) == CONNECTION_BAD)
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("lost connection to shard \"%s\"", conn->shard),
				errdetail_internal("%s", pchomp(PQerrorMessage(conn->pg))),
				errcontext("shard \"%s\": %s", conn->shard, sql));
	code = MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2], sqlstate[3], sqlstate[4]);
	ereport(ERROR,
			errcode(code),
			errmsg_internal("%s", message ? message : "shard gave no message"),
			detail ? errdetail_internal("%s", detail) : 0,
			hint ? errhint("%s", hint) : 0,
			context ? errcontext("%s", context) : 0,
			errcontext("shard \"%s\": %s", conn->shard, sql));
}
