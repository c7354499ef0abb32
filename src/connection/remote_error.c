/*
 * remote_error.c
 *		Errors of shards, and of connections to them.
 *
 * An error of the shard keeps its SQLSTATE, message, detail, hint and the
 * names that drivers look at.  Whatever its severity on the shard, it is an ERROR
 * on the router: a shard that shuts down must not end the router's session.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"

#include "base/base.h"
#include "connection/connection.h"

/* SQLSTATEs of the shutdown message of a server process. */
static const char *const shutdown_codes[] = {
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
	return sl_encoding_copy_message(CurrentMemoryContext, PQresultErrorField(result, code));
}

/* Copies a message of libpq or the shard, without the final newline. */
static const char *
copy_detail(const char *detail)
{
	char	   *copy = sl_encoding_copy_message(CurrentMemoryContext, detail);
	size_t		length = copy != NULL ? strlen(copy) : 0;

	while (length > 0 && copy[length - 1] == '\n')
		copy[--length] = '\0';
	return copy;
}

/* The connection is lost, or could not be made: SL004. */
SlFailure *
sl_failure_unreachable(const char *shard, const char *detail)
{
	SlFailure  *failure = palloc0(sizeof(SlFailure));

	failure->sqlstate = SL_ERR_UNREACHABLE;
	failure->lost = true;
	failure->message = psprintf("could not reach shard \"%s\"", shard);
	failure->detail = copy_detail(detail);
	return failure;
}

/*
 * The shard, or something between it and the router, violates the protocol: 08P01.
 * The connection cannot be used any more, and the statement is not retried.
 */
SlFailure *
sl_failure_violation(const char *shard, const char *detail)
{
	SlFailure  *failure = palloc0(sizeof(SlFailure));

	failure->sqlstate = ERRCODE_PROTOCOL_VIOLATION;
	failure->lost = true;
	failure->is_violation = true;
	failure->message = psprintf("protocol violation by shard \"%s\"", shard);
	failure->detail = copy_detail(detail);
	failure->hint = "The connection was closed. Look at the shard's server, and at what stands between it and the router.";
	return failure;
}

/*
 * Is this the shutdown message of a server process, which ends for a reason that
 * has nothing to do with the statement?  A function can raise the same SQLSTATEs,
 * but only with severity ERROR.
 */
bool
sl_failure_is_shutdown(const PGresult *result)
{
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if (severity == NULL || sqlstate == NULL ||
		(strcmp(severity, "FATAL") != 0 && strcmp(severity, "PANIC") != 0))
		return false;
	for (int i = 0; i < (int) lengthof(shutdown_codes); i++)
	{
		if (strcmp(sqlstate, shutdown_codes[i]) == 0)
			return true;
	}
	return false;
}

static SlFailure *
shutdown_failure(SlConn *conn, const PGresult *result)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	SlFailure  *failure = sl_failure_unreachable(conn->shard,
												 message != NULL ? message : "It hung up.");

	failure->never_ran = true;
	failure->is_shutdown = true;
	return failure;
}

/* Returns the SQLSTATE of a failed result or a notice, or 0 if it has none. */
int
sl_failure_sqlstate(const PGresult *result)
{
	const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if (code == NULL || strlen(code) != 5 ||
		strspn(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 5)
		return 0;
	return MAKE_SQLSTATE(code[0], code[1], code[2], code[3], code[4]);
}

/*
 * Returns the failure that a failed result describes.  One without a SQLSTATE is
 * libpq's own, and then the connection is lost.  After a shutdown message it is
 * lost, too, even if libpq has not seen its end yet; the caller decides whether
 * the statement had begun by then.
 */
SlFailure *
sl_failure_make(SlConn *conn, const PGresult *result)
{
	int			sqlstate = sl_failure_sqlstate(result);
	const char *position;
	SlFailure  *failure;

	if (sl_failure_is_shutdown(result))
		return shutdown_failure(conn, result);
	if (sqlstate == 0 || PQstatus(conn->pg) == CONNECTION_BAD)
	{
		const char *message = PQresultErrorMessage(result);

		if (message == NULL || message[0] == '\0')
			message = PQerrorMessage(conn->pg);

		/* If the connection is not lost, libpq complains of a message. */
		return PQstatus(conn->pg) == CONNECTION_BAD ?
			sl_failure_unreachable(conn->shard, message) :
			sl_failure_violation(conn->shard, message);
	}
	failure = palloc0(sizeof(SlFailure));
	failure->sqlstate = sqlstate;

	/* A wrong number of parameters: no violation on the client's connection. */
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
 * Did the shard refuse a key by the same version of the map by which the statement
 * was routed?  The guard's DETAIL names map and version, in a fixed format.
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
 * If a shard does not own a row any more, because rows were moved after the
 * statement was routed, turns the failure into a serialization failure: a retry
 * will succeed.  But a trigger of the shard that gives the row another key, or
 * writes another row, would do so again.
 */
void
sl_failure_blame_move(SlFailure *failure)
{
	if (failure->sqlstate != SL_ERR_NOT_OWNER)
		return;
	sl_map_invalidate_all();
	if (is_of_known_map(failure->detail))
		return;
	failure->sqlstate = ERRCODE_T_R_SERIALIZATION_FAILURE;
	failure->message = "could not serialize access because rows were moved to another shard";
	failure->hint = "Retry the transaction.";
}

/*
 * The same if a row is written to a shardlet that is being moved, by a statement
 * that began before the move and so does not write all columns: a retry will.  No
 * other error of the guard names a column.
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

/*
 * May the user know the values in the detail of a violated constraint?  The shard checked
 * the user of the connection.  As in PostgreSQL, not where a row may be one that a policy
 * hides, or of columns that the user may not read.
 */
static bool
may_see_values(const SlFailure *failure)
{
	Oid			namespace;
	Oid			relid;

	if (ERRCODE_TO_CATEGORY(failure->sqlstate) != ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION ||
		failure->schema_name == NULL || failure->table_name == NULL || !IsTransactionState())
		return true;
	namespace = get_namespace_oid(failure->schema_name, true);
	relid = OidIsValid(namespace) ? get_relname_relid(failure->table_name, namespace) : InvalidOid;
	if (!OidIsValid(relid))
		return true;
	return check_enable_rls(relid, InvalidOid, true) != RLS_ENABLED &&
		(pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) == ACLCHECK_OK ||
		 pg_attribute_aclcheck_all(relid, GetUserId(), ACL_SELECT, ACLMASK_ALL) == ACLCHECK_OK);
}

/* Reports a failure at the given level; does not return if that is ERROR. */
void
sl_failure_report(int level, const SlFailure *failure, const char *shard, const char *sql)
{
	bool		has_detail = failure->detail != NULL && may_see_values(failure);

	ereport(level,
			errcode(failure->sqlstate),
			errmsg_internal("%s", failure->message ? failure->message : "shard gave no message"),
			has_detail ? errdetail_internal("%s", failure->detail) : 0,
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
