/*
 * txn_alone.c
 *		Is the running statement all of its transaction?
 *
 * It is if it is what the client sent, alone: not in a transaction block, not in
 * a function, and with nothing behind it that PostgreSQL would put into the same
 * transaction.  A text with several statements makes a block of them.  With the
 * extended protocol the transaction ends with the client's Sync, and a driver
 * that sends several statements at a time sends it after the last; so Sync must
 * be what the client sent next.
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
#include "txn/txn.h"

/* Is the next message of the client, which must be here already, Sync? */
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

bool
sl_txn_is_alone(const EState *estate)
{
	return !IsTransactionBlock() && !IsSubTransaction() && sl_txn_is_direct(estate) &&
		(is_simple(ActivePortal) || next_is_sync());
}
