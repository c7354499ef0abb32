/*
 * txn_join.c
 *		Makes a shard part of the session's transaction.
 *
 * BEGIN and SAVEPOINT travel ahead of the statement that needs them, in the same
 * flight.  A shard follows only the savepoints inside which it is used; those
 * that were released are released there with the next statement, or by the end.
 *
 * A read that is a whole transaction goes without.  Connections are read-only
 * outside explicit transactions, so a function that writes behind a SELECT is
 * noticed, and the statement runs again in one.  A write that is a whole
 * transaction goes without, too, if the shard understands the mark in its text
 * (guard/lone_write.c): its sync is its commit.
 *
 * With the first write comes the question for the shard's transaction id: if the
 * connection breaks at COMMIT, that tells what became of it (outcome.c).
 *
 * A statement that may fail, or be stopped early, while the transaction goes
 * on is a "part": a savepoint of its own goes ahead of it, and is released
 * behind it in the same flight.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "base/base.h"
#include "txn/txn.h"

#define PART_NAME "shardlet_part"

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
		conn->slot->in_transaction = conn->txn.level > 0 || conn->txn.is_lone;
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
		sl_flight_prelude(conn, "ROLLBACK", 0, NULL);
		sl_flight_sync(conn);
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

static void
check_other_writers(const SlConn *conn)
{
	dlist_iter	iter;

	dlist_foreach(iter, &participants)
	{
		/* cppcheck-suppress nullPointer */
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
 * What became read-only inside a savepoint may be released from that: then it
 * is said behind the savepoint, see sl_txn_follow().
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
	bool		is_kept = false;

	/* It keeps its snapshot there: see stray.c. */
	if (statement != 0 || IsolationUsesXactSnapshot())
		sl_stray_hold(0);
	if (statement != 0)
		snprintf(sql, sizeof(sql), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	else
		snprintf(sql, sizeof(sql), "BEGIN ISOLATION LEVEL %s %s%s", isolation_name(),
				 begins_read_only() ? "READ ONLY" : "READ WRITE",
				 XactDeferrable ? " DEFERRABLE" : "");
	if (retries)
		is_kept = sl_kept_begin(conn, sql);
	else
		sl_flight_prelude(conn, sql, 0, NULL);
	memset(txn, 0, sizeof(SlConnTxn));
	txn->is_kept = is_kept;
	txn->level = txn->sent_level = 1;
	txn->begin_level = GetCurrentTransactionNestLevel();
	txn->statement = statement;
	txn->is_read_only = txn->began_read_only = statement != 0 || begins_read_only();
	txn->is_fresh = true;
	dlist_push_tail(&participants, &txn->node);
	show_state(conn);
}

static void
send_numbered(SlConn *conn, const char *command, int level)
{
	char		sql[64];

	snprintf(sql, sizeof(sql), "%s s%d", command, level);
	sl_flight_prelude(conn, sql, 0, NULL);
}

/* Makes the shard's savepoints those of the session. */
static void
follow_savepoints(SlConn *conn)
{
	SlConnTxn  *txn = &conn->txn;
	int			level = GetCurrentTransactionNestLevel();

	if (txn->sent_level > txn->level)
		send_numbered(conn, "RELEASE SAVEPOINT", txn->level + 1);
	for (int i = txn->level + 1; i <= level; i++)
		send_numbered(conn, "SAVEPOINT", i);
	txn->level = txn->sent_level = level;
}

/*
 * A part that reads may be stopped and taken back, so it must not write behind
 * our back.  The end of the savepoint is the end of that.  A transaction that is
 * SERIALIZABLE would count as read-only as a whole if it began like that.
 */
static void
begin_part(SlConn *conn, bool writes)
{
	sl_flight_prelude(conn, "SAVEPOINT " PART_NAME, 0, NULL);
	if (!writes && !conn->txn.is_read_only && XactIsoLevel != XACT_SERIALIZABLE)
		sl_flight_prelude(conn, "SET TRANSACTION READ ONLY", 0, NULL);
	conn->txn.has_part = true;
}

/* A statement that runs in a transaction already: keeps in step with it. */
void
sl_txn_follow(SlConn *conn, const SlTxnUse *use)
{
	SlConnTxn  *txn = &conn->txn;

	follow_savepoints(conn);
	if (XactReadOnly && !txn->is_read_only)
	{
		sl_flight_prelude(conn, "SET TRANSACTION READ ONLY", 0, NULL);
		txn->is_read_only = true;
		txn->read_only_level = txn->level;
	}
	if (use->is_part && !(use->ends && txn->is_fresh))
		begin_part(conn, use->writes);
}

/* Can the statement go without a transaction? */
static bool
needs_none(const SlTxnUse *use)
{
	return use->is_alone && !use->writes && use->statement == 0 &&
		XactIsoLevel != XACT_SERIALIZABLE;
}

/*
 * Is it a write that says so to the shard itself?  Anything else than READ
 * COMMITTED has to be said in BEGIN.
 */
static bool
is_lone_write(const SlConn *conn, const SlTxnUse *use)
{
	return use->writes && use->ends && use->is_marked && conn->txn.level == 0 &&
		use->statement == 0 && use->held_map == NULL && !use->takes_snapshot &&
		XactIsoLevel == XACT_READ_COMMITTED && !XactReadOnly && !conn->is_bare &&
		conn->refused_generation != conn->generation;
}

/* The shard's process may still have to load the library that knows the mark. */
static void
begin_alone(SlConn *conn)
{
	if (conn->lone_generation != conn->generation)
		sl_flight_attempt(conn, "SELECT shardlet.use_snapshot(0)");
	conn->lone_generation = conn->generation;
	conn->txn.is_lone = true;
	show_state(conn);
}

/* The shard did not let it through: this connection is not asked again. */
void
sl_txn_refuse_alone(SlConn *conn)
{
	conn->refused_generation = conn->generation;
}

/* The reads of a statement that is over need not agree with the next one's. */
static void
end_other_statement(SlConn *conn, const SlTxnUse *use)
{
	if (conn->txn.statement == 0 || (conn->txn.statement == use->statement && !use->writes))
		return;
	sl_kept_commit(conn, SL_EXPECT_PRELUDE);
	sl_txn_leave(conn);
}

static void
note_write(SlConn *conn)
{
	int			level = GetCurrentTransactionNestLevel();

	if (!sl_multi_shard_transactions)
		check_other_writers(conn);
	if (conn->txn.write_level == 0 || conn->txn.write_level > level)
		conn->txn.write_level = level;
}

/*
 * The transaction is not the statement's own, because it has written, or the
 * statement will; its queries on the shard must agree all the same.  A bare shard
 * cannot do that.
 */
static void
share_snapshot(SlConn *conn, const SlTxnUse *use)
{
	uint64		statement = use->statement;
	char		number[32];
	const char *params[] = {number};

	if (statement == 0 || conn->txn.statement != 0 || conn->is_bare ||
		(IsolationUsesXactSnapshot() && !use->writes && !use->is_of_writer))
		return;

	/* What is written must not be seen by reads that come later. */
	if (use->writes && conn->txn.kept_statement == statement)
		return;
	conn->txn.kept_statement = statement;
	snprintf(number, sizeof(number), "%llu", (unsigned long long) statement);
	sl_flight_prelude(conn, "SELECT shardlet.use_snapshot($1)", 1, params);
}

/*
 * Locks of rows must stay good until the end: the shard keeps the keys of the
 * map, and fails if some have left since the map that we know.  It holds them
 * whatever becomes of savepoints.
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
	sl_flight_prelude(conn, "SELECT shardlet.guard_hold($1, $2)", lengthof(params), params);
	strlcpy(conn->txn.held_map, use->held_map, sizeof(conn->txn.held_map));
}

/* All snapshots of the transaction were taken at one time: is this one there? */
static void
check_snapshot(const SlConn *conn)
{
	if (!sl_snapshot_is_taken())
		return;
	ereport(ERROR,
			errcode(SL_ERR_UNREACHABLE),
			errmsg("shard \"%s\" has no part in this transaction", conn->shard),
			errdetail("It could not be reached when the transaction's snapshots were taken."),
			errhint("Roll back, and run the transaction again."));
}

/*
 * Puts ahead of a statement, on a connection that is idle, what makes it part
 * of the session's transaction.  The statement and a sync must follow.
 */
void
sl_txn_join(SlConn *conn, const SlTxnUse *use)
{
	if (!conn->is_checked && !sl_session_is_current(conn))
		sl_session_send(conn);
	conn->is_checked = false;
	conn->txn.is_fresh = false;
	end_other_statement(conn, use);
	conn->txn.is_lone = false;
	if (is_lone_write(conn, use))
	{
		begin_alone(conn);
		return;
	}
	if (conn->txn.level == 0)
	{
		if (needs_none(use))
			return;
		if (use->writes && !sl_multi_shard_transactions)
			check_other_writers(conn);
		check_snapshot(conn);
		send_begin(conn, use->writes || use->is_of_writer ? 0 : use->statement, use->retries);
	}
	sl_txn_follow(conn, use);
	if (use->writes)
		note_write(conn);
	if (use->writes && !use->ends && !conn->txn.has_asked_xid)
		sl_kept_xid(conn);
	hold_map(conn, use);
	if (use->writes)
		sl_snapshot_keep(conn, use->reader);
	if (use->takes_snapshot)
	{
		share_snapshot(conn, use);
		sl_flight_mark(conn);
	}
	share_snapshot(conn, use);
}

/* Goes behind a statement, in the same flight: ends what was begun for it. */
void
sl_txn_end_statement(SlConn *conn, const SlTxnUse *use)
{
	if (conn->txn.has_part)
		sl_flight_prelude(conn, "RELEASE SAVEPOINT " PART_NAME, 0, NULL);
	if (!use->ends || !conn->txn.is_fresh)
		return;
	sl_kept_commit(conn, SL_EXPECT_PRELUDE);
	conn->txn.is_ending = true;
}

static void
undo_part(SlConn *conn)
{
	sl_flight_prelude(conn, "ROLLBACK TO SAVEPOINT " PART_NAME, 0, NULL);
	sl_flight_prelude(conn, "RELEASE SAVEPOINT " PART_NAME, 0, NULL);
	sl_flight_sync(conn);
	conn->txn.held_map[0] = '\0';
	conn->txn.kept_statement = conn->txn.kept_readers = 0;
	if (conn->txn.has_settings)
		conn->has_settings = false;
}

/*
 * The statement that was sent last is over, and everything sent was answered:
 * if it failed or was stopped, takes back what was begun for it.
 */
void
sl_txn_settle(SlConn *conn)
{
	bool		has_failed = conn->state == SL_CONN_OPEN &&
	PQtransactionStatus(conn->pg) == PQTRANS_INERROR;

	if (conn->txn.is_ending)
	{
		if (has_failed)
			sl_txn_abandon(conn);
		else
			sl_txn_leave(conn);
	}
	else if (conn->txn.has_part && has_failed)
		undo_part(conn);
	conn->txn.has_part = false;
	if (conn->txn.is_lone)
	{
		conn->txn.is_lone = false;
		show_state(conn);
	}
}
