/*
 * autocommit.c
 *		How much of its transaction a statement is, and how it is wrapped on a
 *		shard for that.
 *
 * A statement is all of its transaction if it is what the client sent, and
 * nothing else: not in a transaction block, not in a function, and with nothing
 * after it that PostgreSQL would put into the same transaction.  A query string
 * with several statements makes a block of them.  With the extended protocol the
 * transaction ends with the client's Sync, and a driver that sends several
 * statements at a time sends it after the last; so Sync must be what the client
 * sent next.
 *
 * Such a statement needs no transaction that lasts longer than itself, which saves
 * round trips, and for a single row most of the shard's work:
 *
 * SL_WRAP_NONE, a read: it has one snapshot by itself.  Connections are read-only
 * outside explicit transactions, so a function that writes in a SELECT is refused
 * by the shard, and the statement runs again in a transaction (shard_stream.c).
 * SERIALIZABLE has to be said in BEGIN, and so has a snapshot that must agree with
 * others.
 *
 * SL_WRAP_MARK and SL_WRAP_COMMIT, a write to one shard: the shard's commit is the
 * commit of everything, so nothing may come after it that could fail.  That is so
 * if the rows go to the client as they are, the router has written nothing itself
 * (router_writes.c), and no other shard has a part in the transaction.  From
 * sending to the answer nothing interrupts (executor/autocommit_write.c), hence
 * not with shardlet.shard_timeout.  If the connection is lost in between, the
 * outcome is unknown, as it is to a client of a single server.  With the mark
 * (shard/autocommit_mark.c) the Sync after the statement is its commit; the mark
 * says READ WRITE and nothing else, so it is used in READ COMMITTED only, and when
 * nothing has to precede the statement.  A shard that does not know the mark
 * refuses the write, and it runs again with BEGIN and COMMIT.
 *
 * SL_WRAP_COMMIT, a read whose snapshots must agree: its transactions are the
 * statement's own, and end with it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "utils/portal.h"

#include "base/base.h"
#include "compat.h"
#include "transaction/transaction.h"

/* Is Sync the client's next message, and here already? */
static bool
next_is_sync(void)
{
	bool		result;

	if (!sl_client_has_sent_more())
		return false;
	pq_startmsgread();
	result = pq_peekbyte() == 'S';
	pq_endmsgread();
	return result;
}

/* A portal of the simple protocol is made without a cached plan. */
static bool
is_simple(const PortalData *portal)
{
	return portal->cplan == NULL && !portal->visible;
}

/*
 * Is the statement what the portal runs?  Of one that changes rows the portal does
 * not keep the state; but then it runs at once, and to its end.
 */
static bool
is_run_by(const PortalData *portal, const EState *estate)
{
	if (portal->queryDesc != NULL)
		return portal->queryDesc->estate == estate;
	return (portal->strategy == PORTAL_MULTI_QUERY || portal->strategy == PORTAL_ONE_RETURNING) &&
		list_length(portal->stmts) == 1 && linitial(portal->stmts) == estate->es_plannedstmt;
}

/*
 * Is it what the client sent, and no cursor, so that it runs to its end or fails?
 * A portal that the client did not name has no name, and one that was made on
 * the way, such as by EXECUTE in a function, has.
 */
bool
sl_txn_is_direct(const EState *estate)
{
	return MyProcPort != NULL && whereToSendOutput == DestRemote && ActivePortal != NULL &&
		ActivePortal->name[0] == '\0' && is_run_by(ActivePortal, estate);
}

/* Returns the scope of a statement that sends one query to the shards. */
SlTxnScope
sl_txn_scope_of(const EState *estate)
{
	return !IsTransactionBlock() && !IsSubTransaction() && sl_txn_is_direct(estate) &&
		(is_simple(ActivePortal) || next_is_sync()) ? SL_SCOPE_AUTOCOMMIT : SL_SCOPE_SESSION;
}

/*
 * Returns the scope of a write to one shard, which sl_txn_scope_of() has given that
 * scope.  The caller knows that nothing after it could fail: its rows need no work
 * on the router.
 */
SlTxnScope
sl_txn_scope_of_write(SlTxnScope scope)
{
	return scope == SL_SCOPE_AUTOCOMMIT && sl_shard_timeout == 0 && sl_txn_is_untouched() ?
		SL_SCOPE_COMMIT : scope;
}

/* Can the statement go without BEGIN, because its SQL has the mark? */
static bool
can_use_mark(const SlConn *conn, const SlTxnUse *use)
{
	return use->is_marked && use->statement == 0 && use->held_map == NULL &&
		!use->takes_snapshot && XactIsoLevel == XACT_READ_COMMITTED && !XactReadOnly &&
		!conn->is_bare && conn->refused_generation != conn->generation;
}

/*
 * Returns how a statement is wrapped on a connection that is idle.  This is the
 * only place where that is decided; the head of this file says why it is safe.
 */
SlTxnWrap
sl_txn_choose_wrap(const SlConn *conn, const SlTxnUse *use)
{
	if (conn->txn.level > 0 || use->scope == SL_SCOPE_SESSION)
		return SL_WRAP_SESSION;
	if (use->scope == SL_SCOPE_COMMIT)
		return use->writes && can_use_mark(conn, use) ? SL_WRAP_MARK : SL_WRAP_COMMIT;
	return !use->writes && use->statement == 0 && XactIsoLevel != XACT_SERIALIZABLE ?
		SL_WRAP_NONE : SL_WRAP_SESSION;
}
