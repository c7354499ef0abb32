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
 * Describes a failed result.  Without a SQLSTATE it comes from libpq itself,
 * and then the connection is lost.
 */
SlFailure *
sl_failure_make(SlConn *conn, const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *position;
	SlFailure  *failure;

	if (sqlstate == NULL || PQstatus(conn->pg) == CONNECTION_BAD)
	{
		const char *message = PQresultErrorMessage(result);

		return sl_failure_unreachable(conn->shard,
									  pchomp(message && message[0] ? message :
											 PQerrorMessage(conn->pg)));
	}
	failure = palloc0(sizeof(SlFailure));
	failure->sqlstate = MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2],
									  sqlstate[3], sqlstate[4]);
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
