/*
 * remote_error.c
 *		What went wrong on a shard, kept or passed on.
 *
 * An error of the shard keeps its SQLSTATE, message, detail, hint and the
 * names that drivers look at.  Whatever its severity there, it is an ERROR
 * here: a shard that shuts down must not end the router's session.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "base/base.h"
#include "remote/remote.h"

/* What a server process says of itself when it ends a session. */
static const char *const farewells[] = {
	"57P01",					/* admin_shutdown */
	"57P02",					/* crash_shutdown */
	"57P03",					/* cannot_connect_now */
	"57P04",					/* database_dropped */
	"57P05",					/* idle_session_timeout */
	"25P03",					/* idle_in_transaction_session_timeout */
};

static const char *
copy_field(const PGresult *result, int code)
{
	const char *value = PQresultErrorField(result, code);

	return value != NULL ? pstrdup(value) : NULL;
}

/* The connection is gone, or could not be made: SL004. */
SlFailure *
sl_failure_unreachable(const char *shard, const char *detail)
{
	SlFailure  *failure = palloc0(sizeof(SlFailure));

	failure->sqlstate = SL_ERR_UNREACHABLE;
	failure->lost = true;
	failure->message = psprintf("could not reach shard \"%s\"", shard);
	failure->detail = pstrdup(detail);
	return failure;
}

/*
 * Is this the last word of a server process that is going away, for a reason
 * that has nothing to do with what it was asked?  A function can raise the same
 * codes, but only as an ERROR.
 */
bool
sl_failure_is_farewell(const PGresult *result)
{
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if (severity == NULL || sqlstate == NULL ||
		(strcmp(severity, "FATAL") != 0 && strcmp(severity, "PANIC") != 0))
		return false;
	for (int i = 0; i < (int) lengthof(farewells); i++)
	{
		if (strcmp(sqlstate, farewells[i]) == 0)
			return true;
	}
	return false;
}

static SlFailure *
farewell_failure(SlConn *conn, const PGresult *result)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	SlFailure  *failure = sl_failure_unreachable(conn->shard,
												 message != NULL ? message : "It hung up.");

	failure->never_ran = true;
	failure->is_farewell = true;
	return failure;
}

/* The SQLSTATE of a failed result or a notice; 0: it has none. */
int
sl_failure_sqlstate(const PGresult *result)
{
	const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if (code == NULL || strlen(code) != 5)
		return 0;
	return MAKE_SQLSTATE(code[0], code[1], code[2], code[3], code[4]);
}

/*
 * Describes a failed result.  Without a SQLSTATE it comes from libpq itself,
 * and then the connection is lost.  After a farewell it is too, even if libpq
 * has not seen its end yet; whether the statement had begun by then is for the
 * caller to say.
 */
SlFailure *
sl_failure_make(SlConn *conn, const PGresult *result)
{
	int			sqlstate = sl_failure_sqlstate(result);
	const char *position;
	SlFailure  *failure;

	if (sl_failure_is_farewell(result))
		return farewell_failure(conn, result);
	if (sqlstate == 0 || PQstatus(conn->pg) == CONNECTION_BAD)
	{
		const char *message = PQresultErrorMessage(result);

		return sl_failure_unreachable(conn->shard,
									  pchomp(message && message[0] ? message :
											 PQerrorMessage(conn->pg)));
	}
	failure = palloc0(sizeof(SlFailure));
	failure->sqlstate = sqlstate;

	/*
	 * A wrong number of parameters.  Our client's connection is none the
	 * worse.
	 */
	if (failure->sqlstate == ERRCODE_PROTOCOL_VIOLATION)
		failure->sqlstate = ERRCODE_INVALID_PARAMETER_VALUE;
	failure->message = copy_field(result, PG_DIAG_MESSAGE_PRIMARY);
	failure->detail = copy_field(result, PG_DIAG_MESSAGE_DETAIL);
	failure->hint = copy_field(result, PG_DIAG_MESSAGE_HINT);
	failure->context = copy_field(result, PG_DIAG_CONTEXT);
	failure->schema_name = copy_field(result, PG_DIAG_SCHEMA_NAME);
	failure->table_name = copy_field(result, PG_DIAG_TABLE_NAME);
	failure->column_name = copy_field(result, PG_DIAG_COLUMN_NAME);
	failure->datatype_name = copy_field(result, PG_DIAG_DATATYPE_NAME);
	failure->constraint_name = copy_field(result, PG_DIAG_CONSTRAINT_NAME);
	position = PQresultErrorField(result, PG_DIAG_STATEMENT_POSITION);
	failure->position = position != NULL ? atoi(position) : 0;
	return failure;
}

/*
 * Did the shard refuse a key by a map that the statement was routed by?  The guard's
 * DETAIL names map and version, in words that are fixed.
 */
static bool
is_of_known_map(const char *detail)
{
	static const char before_name[] = "map \"";
	static const char before_version[] = "\" version ";
	const char *end;
	char	   *rest;
	int64		version;

	if (detail == NULL || strncmp(detail, before_name, strlen(before_name)) != 0)
		return false;
	detail += strlen(before_name);
	end = strstr(detail, before_version);
	if (end == NULL)
		return false;
	version = strtoll(end + strlen(before_version), &rest, 10);
	return strncmp(rest, ": key is ", 9) == 0 &&
		sl_map_is_settled(pnstrdup(detail, end - detail), version);
}

/*
 * A shard that does not own a row any more which a statement of ours sent it: rows
 * were moved after the statement was routed.  To the application that is a
 * conflict with somebody else, and the same once more will do.  But a trigger of the
 * shard that gives the row another key, or writes another row, will do so again.
 */
void
sl_failure_blame_move(SlFailure *failure)
{
	if (failure->sqlstate != SL_ERR_NOT_OWNER)
		return;
	sl_map_distrust();
	if (is_of_known_map(failure->detail))
		return;
	failure->sqlstate = ERRCODE_T_R_SERIALIZATION_FAILURE;
	failure->message = "could not serialize access because rows were moved to another shard";
	failure->hint = "Retry the transaction.";
}

/*
 * A row came to a shardlet that is being moved, by a statement which began before the
 * move and so does not write all of it: the same once more will.  No other error of
 * the guard names a column.
 */
void
sl_failure_blame_start(SlFailure *failure)
{
	if (failure->sqlstate != SL_ERR_READ_ONLY || failure->column_name == NULL)
		return;
	failure->sqlstate = ERRCODE_T_R_SERIALIZATION_FAILURE;
	failure->message = "could not serialize access because a shardlet has begun to move";
	failure->hint = "Retry the transaction.";
}

static int
set_name(int field, const char *value)
{
	return value != NULL ? err_generic_string(field, value) : 0;
}

/* Reports a failure at the given level; as an error it does not return. */
void
sl_failure_report(int level, const SlFailure *failure, const char *shard, const char *sql)
{
	ereport(level,
			errcode(failure->sqlstate),
			errmsg_internal("%s", failure->message ? failure->message : "shard gave no message"),
			failure->detail ? errdetail_internal("%s", failure->detail) : 0,
			failure->hint ? errhint("%s", failure->hint) : 0,
			failure->context ? errcontext("%s", failure->context) : 0,
			set_name(PG_DIAG_SCHEMA_NAME, failure->schema_name),
			set_name(PG_DIAG_TABLE_NAME, failure->table_name),
			set_name(PG_DIAG_COLUMN_NAME, failure->column_name),
			set_name(PG_DIAG_DATATYPE_NAME, failure->datatype_name),
			set_name(PG_DIAG_CONSTRAINT_NAME, failure->constraint_name),
			failure->position > 0 && sql != NULL ? internalerrposition(failure->position) : 0,
			failure->position > 0 && sql != NULL ? internalerrquery(sql) : 0,
			sql != NULL ? errcontext("shard \"%s\": %s", shard, sql) : 0);
}

void
sl_failure_raise(const SlFailure *failure, const char *shard, const char *sql)
{
	sl_failure_report(ERROR, failure, shard, sql);
	pg_unreachable();
}
