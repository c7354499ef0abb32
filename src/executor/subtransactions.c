/*
 * subtransactions.c
 *		Which multi-shard scans belong to which (sub)transaction.
 *
 * All living scans are in a list, so that the end of a (sub)transaction finds
 * those that it made; what a subtransaction made belongs to its parent when it is
 * released.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "base/base.h"
#include "executor/remote_scan.h"
#include "executor/shard_stream.h"

static dlist_head scans = DLIST_STATIC_INIT(scans);
static dlist_head callers = DLIST_STATIC_INIT(callers);

/* A scan begins; it leaves the list when it ends. */
void
sl_multi_shard_list(SlMultiShardScan *scan)
{
	dlist_push_tail(&scans, &scan->node);
}

/* Notes the user and the subtransaction that a scan begins for. */
void
sl_multi_shard_set_caller(SlCaller *caller)
{
	caller->transaction = GetCurrentSubTransactionId();
	caller->user = GetUserId();
	dlist_push_tail(&callers, &caller->node);
}

void
sl_multi_shard_leave(SlCaller *caller)
{
	dlist_delete(&caller->node);
}

/* Ends the scans of a (sub)transaction; 0 is all of them. */
static void
stop_scans(SubTransactionId transaction)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &scans)
	{
		SlMultiShardScan *scan = dlist_container(SlMultiShardScan, node, iter.cur);

		if (transaction == InvalidSubTransactionId || scan->transaction == transaction)
			sl_multi_shard_stop(scan, true);
	}
}

/*
 * Stops what runs on connections without an owner, outside of transactions: a
 * broadcast was interrupted.
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
			(conn->state != SL_CONN_OPEN || !sl_pipeline_is_empty(conn)))
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
	stop_scans(InvalidSubTransactionId);
	stop_broadcasts();
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId my_id, SubTransactionId parent_id,
					  void *arg)
{
	dlist_iter	iter;

	if (event == SUBXACT_EVENT_ABORT_SUB || event == SUBXACT_EVENT_COMMIT_SUB)
		sl_locking_limit_end_savepoint(my_id, parent_id, event == SUBXACT_EVENT_ABORT_SUB);
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		stop_scans(my_id);
		stop_broadcasts();
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		dlist_foreach(iter, &scans)
		{
			SlMultiShardScan *scan = dlist_container(SlMultiShardScan, node, iter.cur);

			if (scan->transaction == my_id)
				scan->transaction = parent_id;
		}
		dlist_foreach(iter, &callers)
		{
			SlCaller   *caller = dlist_container(SlCaller, node, iter.cur);

			if (caller->transaction == my_id)
				caller->transaction = parent_id;
		}
	}
}

void
sl_multi_shard_init(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}
