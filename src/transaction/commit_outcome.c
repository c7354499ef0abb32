/*
 * commit_outcome.c
 *		The COMMIT of the only shard that was written to.
 *
 * If the connection breaks before the answer, the outcome is unknown.  With the
 * shard's transaction id a second connection can find it out.  The id was queried
 * with the first write: an answer that is under way when the connection is reset is
 * lost.  Where no statement was known to write, it is queried right before the
 * COMMIT.  Only if the second connection fails, too, is the outcome unknown, and
 * then the error says so.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "transaction/transaction.h"

/* How long to find out, and how long a cancelled COMMIT may take to end. */
#define LIMIT_MS 5000
#define STEP_MS 50

/*
 * The second column is how long the server has run without a crash: after one
 * the id may be another transaction's.
 */
static const char status_sql[] =
"SELECT pg_catalog.pg_xact_status($1::pg_catalog.xid8),"
" (SELECT EXTRACT(epoch FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) backend_start)::pg_catalog.int8"
" FROM pg_catalog.pg_stat_activity WHERE backend_type OPERATOR(pg_catalog.=) 'checkpointer')";

static const char terminate_sql[] =
"SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
" WHERE pid OPERATOR(pg_catalog.=) $1 AND application_name OPERATOR(pg_catalog.=)"
" pg_catalog.current_setting('application_name')";

/* What is known of the COMMIT. */
typedef struct Commit
{
	SlConn	   *conn;
	int			remote_pid;
	bool		xid_is_known;
	char	   *xid;			/* NULL: nothing was written */
	char	   *command;		/* the answer to COMMIT */
	SlFailure  *failure;
	char	   *deadlock;		/* the waits, if a deadlock ended it */
} Commit;

/* Takes in what has come.  Returns false when there is nothing to wait for. */
static bool
read_commit_answer(Commit *commit)
{
	PGresult   *result;
	SlFailure  *failure;
	SlEvent		event;

	do
	{
		event = sl_pipeline_next(commit->conn, &result, &failure);
		if (event == SL_EVENT_ROWS)
		{
			commit->xid = sl_encoding_copy_message(CurrentMemoryContext, sl_remote_value(result, 0, 0));
		}
		if (event == SL_EVENT_DONE && !commit->xid_is_known)
			commit->xid_is_known = true;
		else if (event == SL_EVENT_DONE)
			commit->command = sl_encoding_copy_message(CurrentMemoryContext, PQcmdStatus(result));
		if (result != NULL)
			PQclear(result);
		if (event == SL_EVENT_FAILED && commit->failure == NULL)
			commit->failure = failure;
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE &&
			 commit->conn->state == SL_CONN_OPEN);
	return event == SL_EVENT_NONE && commit->conn->state == SL_CONN_OPEN;
}

static bool
is_interrupted(void)
{
	return QueryCancelPending || ProcDiePending;
}

/*
 * A constraint that is checked at COMMIT can make the shard wait for other
 * transactions, and these for this one.
 */
static void
break_deadlock(Commit *commit)
{
	bool		is_on_router;

	commit->deadlock = sl_deadlock_to_break(&is_on_router);
	if (commit->deadlock != NULL)
		sl_cancel_send(sl_shard_by_id(commit->conn->shard_id), commit->conn);
}

/*
 * Waits for the answer.  A cancel comes too late to undo anything; but if the
 * shard does not answer for a while after it, the wait is given up.
 */
static void
wait_for_answer(Commit *commit)
{
	TimestampTz give_up = DT_NOEND;
	TimestampTz look_at = sl_wait_deadline(sl_deadlock_timeout);

	while (read_commit_answer(commit))
	{
		if (GetCurrentTimestamp() >= look_at && commit->deadlock == NULL)
		{
			break_deadlock(commit);
			look_at = sl_wait_deadline(sl_deadlock_timeout);
		}
		if (is_interrupted() && TIMESTAMP_IS_NOEND(give_up))
			give_up = sl_wait_deadline(LIMIT_MS);
		if (GetCurrentTimestamp() >= give_up)
		{
			commit->failure = sl_failure_unreachable(commit->conn->shard,
													 "The statement was cancelled while the shard committed.");
			sl_conn_close(commit->conn);
			return;
		}

		/* Being cancelled does not end a wait while interrupts are held. */
		if (sl_wait_conn(commit->conn, Min(give_up, sl_wait_deadline(STEP_MS))) &&
			!sl_conn_read(commit->conn, &commit->failure))
			return;
	}
}

/* Finding out ------------------------------------------------------------------ */

typedef enum Outcome
{
	OUTCOME_COMMITTED,
	OUTCOME_ROLLED_BACK,
	OUTCOME_UNKNOWN
} Outcome;

/* Has the server crashed since the connection was made, or does it not say? */
static bool
has_crashed(const Commit *commit, const PGresult *result)
{
	const char *seconds = sl_remote_value(result, 0, 1);
	int64		age = (GetCurrentTimestamp() - commit->conn->since) / USECS_PER_SEC;

	return seconds == NULL || strtoll(seconds, NULL, 10) < age;
}

/* Queries the shard once.  OUTCOME_UNKNOWN: it is not over, or not known. */
static Outcome
query_status(const Commit *commit, SlConn *conn, bool *is_running)
{
	SlFailure  *failure;
	const char *params[] = {commit->xid};
	PGresult   *result = sl_remote_try(conn, status_sql, 1, params,
									   sl_wait_deadline(LIMIT_MS), &failure);
	const char *status = result != NULL && !has_crashed(commit, result) ?
	sl_remote_value(result, 0, 0) : NULL;

	*is_running = status != NULL && strcmp(status, "in progress") == 0;
	if (status != NULL && strcmp(status, "committed") == 0)
		return OUTCOME_COMMITTED;
	if (status != NULL && strcmp(status, "aborted") == 0)
		return OUTCOME_ROLLED_BACK;
	return OUTCOME_UNKNOWN;
}

/*
 * Queries the outcome over a new connection.  A transaction that still runs waits
 * for a COMMIT that got lost: its process is terminated.
 */
static Outcome
find_out(const Commit *commit)
{
	SlShard    *shard = sl_shard_by_id(commit->conn->shard_id);
	SlFailure  *failure;
	SlConn	   *conn;
	TimestampTz deadline = sl_wait_deadline(LIMIT_MS);
	const char *params[] = {psprintf("%d", commit->remote_pid)};
	Outcome		outcome = OUTCOME_UNKNOWN;
	bool		is_running = true;

	/* The server process was terminated before it began to commit. */
	if (commit->failure->is_shutdown && commit->command == NULL)
		return OUTCOME_ROLLED_BACK;
	if (!commit->xid_is_known || !shard->exists)
		return OUTCOME_UNKNOWN;
	if (commit->xid == NULL)
		return OUTCOME_COMMITTED;
	conn = sl_remote_try_open_as(shard, commit->conn->user, &failure);
	while (conn != NULL && conn->state == SL_CONN_OPEN && is_running &&
		   GetCurrentTimestamp() < deadline)
	{
		outcome = query_status(commit, conn, &is_running);
		if (!is_running)
			break;
		(void) sl_remote_try(conn, terminate_sql, 1, params, deadline, &failure);
		pg_usleep(STEP_MS * 1000L);
	}
	if (conn != NULL)
		sl_conn_close(conn);
	return outcome;
}

static void
resolve_outcome(const Commit *commit)
{
	switch (find_out(commit))
	{
		case OUTCOME_COMMITTED:
			return;
		case OUTCOME_ROLLED_BACK:
			commit->failure->hint = "The transaction was rolled back. Run it again.";
			sl_failure_raise(commit->failure, commit->conn->shard, "COMMIT");
		case OUTCOME_UNKNOWN:
			ereport(ERROR,
					errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
					errmsg("connection to shard \"%s\" was lost while it committed, and the outcome is not known",
						   commit->conn->shard),
					errdetail_internal("%s", commit->failure->detail ? commit->failure->detail :
									   commit->failure->message),
					errhint("Look on the shard whether the transaction's changes are there before you run it again."));
	}
}

/* If the transaction id is not known, its query precedes the COMMIT. */
static void
query_xid(Commit *commit)
{
	SlConn	   *conn = commit->conn;

	commit->xid_is_known = conn->txn.xid[0] != '\0';
	if (commit->xid_is_known)
	{
		commit->xid = pstrdup(conn->txn.xid);
		return;
	}
	sl_pipeline_query(conn, SL_XID_SQL, 0, NULL);
	sl_pipeline_sync(conn);
}

/*
 * Commits the shard's transaction, which is the commit of everything, or
 * throws.  The caller holds interrupts.
 */
void
sl_outcome_commit(SlConn *conn)
{
	Commit		commit = {.conn = conn};

	sl_fault("txn_before_commit");
	if (!sl_pool_is_alive(conn))
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("could not reach shard \"%s\"", conn->shard),
				errdetail("The connection was lost before the transaction was committed."),
				errhint("The transaction was rolled back. Run it again."));
	commit.remote_pid = PQbackendPID(conn->pg);
	query_xid(&commit);
	sl_prepared_commit(conn, SL_EXPECT_ROWS);
	sl_pipeline_sync(conn);
	wait_for_answer(&commit);
	if (commit.failure != NULL && commit.failure->lost)
		resolve_outcome(&commit);
	else if (commit.failure != NULL && commit.deadlock != NULL)
		sl_deadlock_raise(commit.deadlock);
	else if (commit.failure != NULL)
		sl_failure_raise(commit.failure, conn->shard, "COMMIT");
	else if (commit.command == NULL || strcmp(commit.command, "COMMIT") != 0)
		ereport(ERROR,
				errcode(ERRCODE_TRANSACTION_ROLLBACK),
				errmsg("transaction on shard \"%s\" had failed", conn->shard));
	sl_fault("txn_after_commit");
}
