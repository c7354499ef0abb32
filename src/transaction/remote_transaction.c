/*
 * remote_transaction.c
 *		Makes a shard part of the session's transaction.
 *
 * BEGIN and SAVEPOINT are sent ahead of the statement that needs them, in the same
 * pipeline.  A shard follows only the savepoints inside which it is used; those that
 * were released are released on the shard with the next statement, or by the end.
 * Statements that are a whole transaction can go without (autocommit.c).
 *
 * The first write is preceded by a query for the shard's transaction id: if the
 * connection breaks at COMMIT, that shows the outcome (commit_outcome.c).
 *
 * A statement that may fail, or be stopped early, while the transaction goes on
 * has a savepoint of its own, which is released after it in the same pipeline.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "base/base.h"
#include "transaction/transaction.h"

/* The savepoint of one statement. */
#define SAVEPOINT_NAME "shardlet_statement"

static dlist_head participants = DLIST_STATIC_INIT(participants);

/* Returns the list of the connections that take part, by txn.node. */
dlist_head *
sl_txn_participants(void)
{
	return &participants;
}

static void
show_state(SlConn *conn)
{
	if (conn->slot != NULL)
	{
		conn->slot->began = GetCurrentTransactionStartTimestamp();
		conn->slot->in_transaction = conn->txn.level > 0 || conn->txn.wrap == SL_WRAP_MARK;
	}
}

/* The shard's transaction is over, or was never more than an attempt. */
void
sl_txn_leave(SlConn *conn)
{
	if (conn->txn.level == 0)
		return;
	dlist_delete(&conn->txn.node);
	memset(&conn->txn, 0, sizeof(SlConnTxn));
	show_state(conn);
}

/* Gives up a transaction that was just begun; another may begin. */
void
sl_txn_abandon(SlConn *conn)
{
	if (conn->txn.level > 0 && conn->state == SL_CONN_OPEN)
	{
		sl_pipeline_send_preceding(conn, "ROLLBACK", 0, NULL);
		sl_pipeline_sync(conn);
	}
	if (conn->txn.has_settings)
		conn->has_settings = false;
	sl_txn_leave(conn);
}

void
sl_txn_refuse_span(const char *first, const char *second)
{
	ereport(ERROR,
			errcode(SL_ERR_MULTI_SHARD),
			errmsg("transaction would write to shards \"%s\" and \"%s\"", first, second),
			errdetail("shardlet.multi_shard_transactions is off."),
			errhint("Write to one shard in a transaction, or turn the setting on."));
}

/* Before anything is sent: may a statement write to all these shards? */
void
sl_txn_check_span(List *shards, bool writes)
{
	if (!writes || sl_multi_shard_transactions || list_length(shards) < 2)
		return;
	sl_txn_refuse_span(NameStr(((SlShard *) linitial(shards))->name),
					   NameStr(((SlShard *) lsecond(shards))->name));
}

/* With one shard to write to: is there a writer on another one? */
void
sl_txn_check_writers(const SlConn *conn)
{
	dlist_iter	iter;

	if (sl_multi_shard_transactions)
		return;
	dlist_foreach(iter, &participants)
	{
		SlConn	   *other = dlist_container(SlConn, txn.node, iter.cur);

		if (other->txn.write_level > 0 && other->shard_id != conn->shard_id)
			sl_txn_refuse_span(other->shard, conn->shard);
	}
}

static const char *
isolation_name(void)
{
	switch (XactIsoLevel)
	{
		case XACT_SERIALIZABLE:
			return "SERIALIZABLE";
		case XACT_REPEATABLE_READ:
			return "REPEATABLE READ";
		default:
			return "READ COMMITTED";
	}
}

/*
 * A transaction that became read-only inside a savepoint may be released from that:
 * then it is sent after the savepoint, see follow_session().
 */
static bool
begins_read_only(void)
{
	return XactReadOnly && GetCurrentTransactionNestLevel() == 1;
}

/* Begins as the session's transaction was begun. */
static void
send_begin(SlConn *conn, uint64 statement, bool retries)
{
	SlConnTxn  *txn = &conn->txn;
	char		sql[128];
	bool		begun_prepared = false;

	/* The shard keeps its snapshot: see orphaned_rows.c. */
	if (statement != 0 || IsolationUsesXactSnapshot())
		sl_orphaned_hold(0);
	if (statement != 0)
		snprintf(sql, sizeof(sql), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	else
		snprintf(sql, sizeof(sql), "BEGIN ISOLATION LEVEL %s %s%s", isolation_name(),
				 begins_read_only() ? "READ ONLY" : "READ WRITE",
				 XactDeferrable ? " DEFERRABLE" : "");
	if (retries)
		begun_prepared = sl_prepared_begin(conn, sql);
	else
		sl_pipeline_send_preceding(conn, sql, 0, NULL);
	memset(txn, 0, sizeof(SlConnTxn));
	txn->begun_prepared = begun_prepared;
	txn->level = txn->sent_level = 1;
	txn->begin_level = GetCurrentTransactionNestLevel();
	txn->statement = statement;
	txn->is_read_only = txn->began_read_only = statement != 0 || begins_read_only();
	dlist_push_tail(&participants, &txn->node);
	show_state(conn);
}

static void
send_numbered(SlConn *conn, const char *command, int level)
{
	char		sql[64];

	snprintf(sql, sizeof(sql), "%s s%d", command, level);
	sl_pipeline_send_preceding(conn, sql, 0, NULL);
}

/* Makes the shard's savepoints, and what was set inside each of them, those of the session. */
static void
follow_savepoints(SlConn *conn)
{
	SlConnTxn  *txn = &conn->txn;
	int			level = GetCurrentTransactionNestLevel();

	if (txn->sent_level > txn->level)
		send_numbered(conn, "RELEASE SAVEPOINT", txn->level + 1);
	for (int i = txn->level + 1; i <= level; i++)
	{
		sl_constraint_mode_send(conn, i - 1);
		send_numbered(conn, "SAVEPOINT", i);
	}
	sl_constraint_mode_send(conn, level);
	txn->level = txn->sent_level = level;
}

/*
 * Begins the savepoint of a statement.  A read may be stopped and rolled back, so a
 * function in it must not write unnoticed; it may after the savepoint.  A transaction
 * that is SERIALIZABLE would count as read-only as a whole if it began like that.
 */
static void
begin_statement_savepoint(SlConn *conn, bool writes)
{
	sl_pipeline_send_preceding(conn, "SAVEPOINT " SAVEPOINT_NAME, 0, NULL);
	if (!writes && !conn->txn.is_read_only && XactIsoLevel != XACT_SERIALIZABLE)
		sl_pipeline_send_preceding(conn, "SET TRANSACTION READ ONLY", 0, NULL);
	conn->txn.has_savepoint = true;
}

/* Makes the shard's savepoints, and whether it may write, those of the session. */
static void
follow_session(SlConn *conn, const SlTxnUse *use)
{
	SlConnTxn  *txn = &conn->txn;

	follow_savepoints(conn);
	if (XactReadOnly && !txn->is_read_only)
	{
		sl_pipeline_send_preceding(conn, "SET TRANSACTION READ ONLY", 0, NULL);
		txn->is_read_only = true;
		txn->read_only_level = txn->level;
	}
	if (use->needs_savepoint && txn->wrap != SL_WRAP_COMMIT)
		begin_statement_savepoint(conn, use->writes);
}

/* The shard's process may still have to load the library that knows the mark. */
static void
begin_marked_write(SlConn *conn)
{
	if (conn->autocommit_generation != conn->generation)
		sl_pipeline_attempt(conn, "SELECT " SL_INTERNAL_SCHEMA ".use_snapshot(0)");
	conn->autocommit_generation = conn->generation;
	conn->txn.wrap = SL_WRAP_MARK;
	show_state(conn);
}

/* The shard did not understand the mark: writes on this connection have BEGIN from now on. */
void
sl_txn_refuse_autocommit(SlConn *conn)
{
	conn->refused_generation = conn->generation;
}

/* The reads of a statement that is over need not agree with the next one's. */
static void
end_other_statement(SlConn *conn, const SlTxnUse *use)
{
	if (conn->txn.statement == 0 || (conn->txn.statement == use->statement && !use->writes))
		return;
	sl_prepared_commit(conn, SL_EXPECT_PRECEDING);
	sl_txn_leave(conn);
}

static void
note_write(SlConn *conn, const SlTxnUse *use)
{
	int			level = GetCurrentTransactionNestLevel();

	if (!sl_tentative_lock_is_wanted(use))
		sl_txn_check_writers(conn);
	if (conn->txn.write_level == 0 || conn->txn.write_level > level)
		conn->txn.write_level = level;
}

/*
 * A bare shard cannot show an earlier state: the condition of a write would be
 * judged by what the statement has written before.
 */
static void
refuse_bare(const SlConn *conn)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot change rows on shard \"%s\" after the same statement has written there", conn->shard),
			errdetail("A part of the statement, or a function that it calls, has written; the shard does not have the extension, and would find those rows as well."),
			errhint("Use one statement for each change, or create the extension on the shard."));
}

/*
 * The shard's transaction is not the statement's own, because it has written or the
 * statement will; all queries of the statement must agree all the same.  A bare
 * shard cannot do that.
 */
static void
share_snapshot(SlConn *conn, const SlTxnUse *use)
{
	bool		is_for_next = !use->writes || use->by_snapshot;

	if (use->statement == 0 || conn->txn.statement != 0 ||
		(IsolationUsesXactSnapshot() && !use->writes && !use->is_of_writer))
		return;
	if (conn->is_bare)
	{
		if (use->by_snapshot && use->overlaps && conn->txn.written_since >= use->statement)
			refuse_bare(conn);
		return;
	}

	/* What is written must not be seen by reads that come later. */
	if (is_for_next || conn->txn.kept_statement != use->statement)
		sl_snapshot_use(conn, use->statement, is_for_next);
}

/*
 * Row locks must stay valid until the end of the transaction: the shard keeps the
 * keys of the map, and fails if some have been moved away since the version that the
 * router knows.  It keeps them even if a savepoint is rolled back.
 */
static void
hold_map(SlConn *conn, const SlTxnUse *use)
{
	char		version[32];
	const char *params[] = {use->held_map, version};

	if (use->held_map == NULL || conn->is_bare ||
		strcmp(conn->txn.held_map, use->held_map) == 0)
		return;
	snprintf(version, sizeof(version), "%lld", (long long) use->held_version);
	sl_pipeline_send_preceding(conn, "SELECT " SL_INTERNAL_SCHEMA ".guard_hold($1, $2)", lengthof(params), params);
	strlcpy(conn->txn.held_map, use->held_map, sizeof(conn->txn.held_map));
}

/* Is the snapshot of a statement taken that has not written yet, and will? */
static bool
is_before_write(const SlTxnUse *use)
{
	return use->is_of_writer && use->statement != 0 && use->reader != NULL && !use->reader->is_kept;
}

/*
 * Puts ahead of a statement, on a connection that is idle, what makes it part
 * of the session's transaction.  The statement and a sync must follow.
 */
void
sl_txn_join(SlConn *conn, const SlTxnUse *use)
{
	SlTxnWrap	wrap;
	bool		begins;

	if (!conn->is_checked && !sl_session_is_current(conn))
		sl_session_send(conn);
	conn->is_checked = false;
	conn->txn.has_only_snapshot = false;
	end_other_statement(conn, use);
	if (conn->slot != NULL)
		conn->slot->may_repeat = use->may_repeat;
	wrap = sl_txn_choose_wrap(conn, use);
	conn->txn.wrap = wrap == SL_WRAP_NONE ? wrap : SL_WRAP_SESSION;
	if (wrap == SL_WRAP_NONE)
		return;
	if (wrap == SL_WRAP_MARK)
	{
		begin_marked_write(conn);
		return;
	}
	if (conn->txn.level == 0)
	{
		if (use->writes && !sl_tentative_lock_is_wanted(use))
			sl_txn_check_writers(conn);

		/* This may begin the transaction: then it has the session's wrap. */
		sl_snapshot_join(conn);
	}
	begins = conn->txn.level == 0;
	if (begins)
	{
		send_begin(conn, use->writes || use->is_of_writer ? 0 : use->statement, use->retries);
		conn->txn.wrap = wrap;
	}
	follow_session(conn, use);
	if (sl_tentative_lock_is_wanted(use))
		sl_tentative_lock_begin(conn, use, begins);
	if (use->writes)
		note_write(conn, use);
	if (use->writes && use->lock == SL_LOCK_NONE && use->scope != SL_SCOPE_COMMIT &&
		!conn->txn.has_queried_xid)
		sl_prepared_xid(conn);
	hold_map(conn, use);

	/*
	 * Must precede the snapshot of a statement that will write: its writes
	 * have the command id of that one.
	 */
	if ((use->writes && use->lock == SL_LOCK_NONE) || is_before_write(use))
		sl_snapshot_keep(conn, use->reader);
	if (use->takes_snapshot)
	{
		share_snapshot(conn, use);
		sl_prepared_take_snapshot(conn);
	}
	share_snapshot(conn, use);
	if (use->writes)
		conn->txn.written_since = sl_snapshot_last_statement();
}

/* Follows a statement, in the same pipeline: ends what was begun for it. */
void
sl_txn_end_statement(SlConn *conn)
{
	if (conn->txn.has_savepoint)
		sl_pipeline_send_preceding(conn, "RELEASE SAVEPOINT " SAVEPOINT_NAME, 0, NULL);
	if (conn->txn.wrap == SL_WRAP_COMMIT)
		sl_prepared_commit(conn, SL_EXPECT_PRECEDING);
}

static void
undo_statement_savepoint(SlConn *conn)
{
	sl_pipeline_send_preceding(conn, "ROLLBACK TO SAVEPOINT " SAVEPOINT_NAME, 0, NULL);
	sl_pipeline_send_preceding(conn, "RELEASE SAVEPOINT " SAVEPOINT_NAME, 0, NULL);
	sl_pipeline_sync(conn);
	conn->txn.held_map[0] = '\0';
	conn->txn.kept_statement = conn->txn.kept_readers = 0;
	if (conn->txn.has_settings)
		conn->has_settings = false;
}

/*
 * The statement that was sent last is over, and everything sent was answered:
 * if it failed or was stopped, rolls back what was begun for it.
 */
void
sl_txn_settle(SlConn *conn)
{
	bool		has_failed = conn->state == SL_CONN_OPEN &&
	PQtransactionStatus(conn->pg) == PQTRANS_INERROR;

	if (conn->txn.wrap == SL_WRAP_COMMIT)
	{
		if (has_failed)
			sl_txn_abandon(conn);
		else
			sl_txn_leave(conn);
	}
	else if (conn->txn.has_savepoint && has_failed)
		undo_statement_savepoint(conn);
	conn->txn.has_savepoint = false;
	if (conn->txn.wrap == SL_WRAP_MARK)
	{
		conn->txn.wrap = SL_WRAP_SESSION;
		show_state(conn);
	}
}
