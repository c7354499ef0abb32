/*
 * tentative_locks.c
 *		Row locks that may be released before the transaction ends.
 *
 * A locking read with LIMIT over several shards knows which rows it returns only
 * when all shards have answered.  Each shard locks its candidates after a
 * savepoint; the locks of rows that are not returned are released by ROLLBACK TO
 * SAVEPOINT.  If the shard's transaction was begun for them, it is rolled back
 * instead, and the shard takes no part in the session's transaction.  That holds for
 * READ COMMITTED only, since otherwise the shard's snapshot is the session's.
 *
 * For other sessions such a row is locked for the time of a round trip, and SKIP
 * LOCKED passes over it.  To be sure that a row was not passed over because of a
 * tentative lock, there is a lock for each table on the router: a session with
 * tentative locks holds it in share mode until the shards have confirmed that the
 * surplus ones are gone, and a session that needs certainty takes it in exclusive
 * mode.
 */
#include "postgres.h"

#include "access/xact.h"

#include "base/base.h"
#include "transaction/transaction.h"

#define TENTATIVE_NAME "shardlet_probe"

/* On a shard -------------------------------------------------------------------- */

bool
sl_tentative_lock_is_wanted(const SlTxnUse *use)
{
	return use->lock == SL_LOCK_TENTATIVE || use->lock == SL_LOCK_TENTATIVE_SOME;
}

/* What was done after the savepoint has not happened. */
static void
forget_since_savepoint(SlConn *conn)
{
	conn->txn.write_level = conn->txn.tentative_write_level;
	conn->txn.held_map[0] = '\0';
	conn->txn.kept_statement = conn->txn.kept_readers = 0;
	if (conn->txn.has_settings)
		conn->has_settings = false;
}

/*
 * Precedes a statement that locks rows, in the same pipeline; began: so did BEGIN.  If
 * there are tentative locks already, they are released: the statement locks some of
 * the rows again.
 */
void
sl_tentative_lock_begin(SlConn *conn, const SlTxnUse *use, bool began)
{
	SlConnTxn  *txn = &conn->txn;

	if (txn->tentative != SL_TENTATIVE_NONE)
	{
		sl_pipeline_send_preceding(conn, "ROLLBACK TO SAVEPOINT " TENTATIVE_NAME, 0, NULL);
		forget_since_savepoint(conn);
		return;
	}
	txn->tentative_write_level = txn->write_level;
	if (!began || IsolationUsesXactSnapshot())
		txn->tentative = SL_TENTATIVE_SAVEPOINT;
	else
		txn->tentative = use->lock == SL_LOCK_TENTATIVE_SOME ? SL_TENTATIVE_EITHER :
			SL_TENTATIVE_TRANSACTION;
	if (txn->tentative != SL_TENTATIVE_TRANSACTION)
		sl_pipeline_send_preceding(conn, "SAVEPOINT " TENTATIVE_NAME, 0, NULL);
}

/* The locks last as long as the transaction, or the savepoint around them. */
void
sl_tentative_lock_keep(SlConn *conn)
{
	SlTentative was = conn->txn.tentative;

	if (was == SL_TENTATIVE_NONE)
		return;
	conn->txn.tentative = SL_TENTATIVE_NONE;
	sl_txn_check_writers(conn);
	if (was != SL_TENTATIVE_TRANSACTION &&
		!sl_pipeline_command(conn, "RELEASE SAVEPOINT " TENTATIVE_NAME, false))
		sl_pipeline_fail_to_send(conn);
}

/* Sends what releases tentative locks. */
static void
send_undo(SlConn *conn)
{
	bool		is_sent;

	if (conn->txn.tentative != SL_TENTATIVE_SAVEPOINT)
	{
		is_sent = sl_pipeline_command(conn, "ROLLBACK", false);
		if (conn->txn.has_settings)
			conn->has_settings = false;
		sl_txn_leave(conn);
	}
	else
	{
		sl_pipeline_send_preceding(conn, "ROLLBACK TO SAVEPOINT " TENTATIVE_NAME, 0, NULL);
		is_sent = sl_pipeline_command(conn, "RELEASE SAVEPOINT " TENTATIVE_NAME, false);
		forget_since_savepoint(conn);
		conn->txn.tentative = SL_TENTATIVE_NONE;
	}
	if (!is_sent)
		sl_pipeline_fail_to_send(conn);
}

/*
 * Releases tentative locks.  The shards have done so when sl_tentative_lock_settle()
 * returns.  The locks of a connection that was lost are gone with it.
 */
void
sl_tentative_lock_undo(List *conns)
{
	ListCell   *cell;

	foreach(cell, conns)
	{
		SlConn	   *conn = lfirst(cell);

		if (conn->txn.tentative != SL_TENTATIVE_NONE && conn->state == SL_CONN_OPEN)
			send_undo(conn);
	}
}

/* Waits until everything that was sent is answered. */
void
sl_tentative_lock_settle(List *conns)
{
	ListCell   *cell;

	foreach(cell, conns)
	{
		SlConn	   *conn = lfirst(cell);

		if (conn->state == SL_CONN_OPEN && !sl_pipeline_is_empty(conn))
			sl_drain(conn);
	}
}

/* On the router ------------------------------------------------------------------- */

/* Rows of the table are about to be locked tentatively. */
void
sl_tentative_lock_share(Oid table)
{
	sl_table_lock_acquire(SL_TABLE_LOCK_TENTATIVE, table, ShareLock);
}

/* Waits until no other session has tentative locks on the table, and keeps it so. */
void
sl_tentative_lock_exclude(Oid table)
{
	sl_table_lock_acquire(SL_TABLE_LOCK_TENTATIVE, table, ExclusiveLock);
}

void
sl_tentative_lock_release(Oid table, bool is_exclusive)
{
	sl_table_lock_release(SL_TABLE_LOCK_TENTATIVE, table, is_exclusive ? ExclusiveLock : ShareLock);
}
