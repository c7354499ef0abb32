/*
 * fanout_txn.c
 *		Which fan-outs belong to which (sub)transaction.
 *
 * All living fan-outs are in a list, so that the end of a (sub)transaction finds
 * those that it made; what a subtransaction made belongs to its parent when it is
 * released.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "base/base.h"
#include "fanout/stream.h"

static dlist_head fanouts = DLIST_STATIC_INIT(fanouts);
static dlist_head homes = DLIST_STATIC_INIT(homes);

/* A fan-out begins; it leaves the list when it ends. */
void
sl_fanout_list(SlFanout *fanout)
{
	dlist_push_tail(&fanouts, &fanout->node);
}

/* Notes for whom a scan works that begins now. */
void
sl_fanout_settle(SlHome *home)
{
	home->transaction = GetCurrentSubTransactionId();
	home->user = GetUserId();
	dlist_push_tail(&homes, &home->node);
}

void
sl_fanout_leave(SlHome *home)
{
	dlist_delete(&home->node);
}

/* Ends the fan-outs of a (sub)transaction; 0 is all of them. */
static void
end_fanouts(SubTransactionId transaction)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &fanouts)
	{
		/* cppcheck-suppress nullPointer */
		SlFanout   *fanout = dlist_container(SlFanout, node, iter.cur);

		if (transaction == InvalidSubTransactionId || fanout->transaction == transaction)
			sl_fanout_stop(fanout, true);
	}
}

/*
 * Stops what runs on shards without anyone streaming from it, outside of
 * transactions: a broadcast was interrupted.
 */
static void
stop_broadcasts(void)
{
	List	   *busy = NIL;
	ListCell   *cell;

	foreach(cell, sl_pool_all())
	{
		SlConn	   *conn = lfirst(cell);

		if (conn->txn.level == 0 && conn->owner == NULL &&
			(conn->state != SL_CONN_OPEN || !sl_flight_is_empty(conn)))
			busy = lappend(busy, conn);
	}
	if (busy != NIL)
		sl_cancel(busy);
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_ABORT && event != XACT_EVENT_PARALLEL_ABORT)
		return;
	end_fanouts(InvalidSubTransactionId);
	stop_broadcasts();
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId my_id, SubTransactionId parent_id,
					  void *arg)
{
	dlist_iter	iter;

	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		end_fanouts(my_id);
		stop_broadcasts();
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		dlist_foreach(iter, &fanouts)
		{
			/* cppcheck-suppress nullPointer */
			SlFanout   *fanout = dlist_container(SlFanout, node, iter.cur);

			if (fanout->transaction == my_id)
				fanout->transaction = parent_id;
		}
		dlist_foreach(iter, &homes)
		{
			/* cppcheck-suppress nullPointer */
			SlHome	   *home = dlist_container(SlHome, node, iter.cur);

			if (home->transaction == my_id)
				home->transaction = parent_id;
		}
	}
}

void
sl_fanout_init(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}
