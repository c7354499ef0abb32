/*
 * shard_queue.c
 *		What goes to many shards at once, through a queue for each of them.
 *
 * A queue owns its connection while something of it is under way there.  Another
 * statement of the session that needs the connection makes the queue yield, which
 * ends what is under way first.
 *
 * A set of queues ends with its (sub)transaction or its memory context.  An error
 * leaves work under way on connections, and the end of the (sub)transaction stops
 * it like any other (transaction/commit.c); here only the owner has to go.
 */
#include "postgres.h"

#include "access/xact.h"

#include "base/base.h"
#include "executor/shard_queue.h"

static dlist_head sets = DLIST_STATIC_INIT(sets);

/* Queues ----------------------------------------------------------------------- */

/* Returns the shard's queue; *is_new: it was made, with zeroes after its head. */
void *
sl_shard_queue_find(SlQueueSet *set, SlShard *shard, bool *is_new)
{
	MemoryContext old_context;
	ListCell   *cell;

	*is_new = false;
	if (set->last != NULL && set->last->shard == shard)
		return set->last;
	foreach(cell, set->queues)
	{
		set->last = lfirst(cell);
		if (set->last->shard == shard)
			return set->last;
	}
	*is_new = true;
	old_context = MemoryContextSwitchTo(set->context);
	set->last = palloc0(set->methods->queue_size);
	set->last->set = set;
	set->last->shard = shard;
	set->queues = lappend(set->queues, set->last);
	MemoryContextSwitchTo(old_context);
	return set->last;
}

/*
 * Takes the connection to the shard, which need not be open yet.  Returns why there
 * is none, or NULL.
 */
SlFailure *
sl_shard_queue_take_conn(SlShardQueue *queue)
{
	SlFailure  *failure;

	queue->conn = sl_pool_get_as(queue->shard, queue->set->user, &failure);
	if (queue->conn == NULL)
		return failure;
	queue->conn->owner = queue;
	queue->conn->yield = queue->set->methods->yield;
	return NULL;
}

/* Puts ahead of the first statement, on an open connection, what makes it part of the transaction. */
SlFailure *
sl_shard_queue_join(SlShardQueue *queue)
{
	const SlStatement *statement = queue->set->statement;
	SlTxnUse	use = {
		.writes = true,.statement = sl_statement_of_write(statement),
		.reader = statement != NULL ? &statement->reader : NULL
	};
	SlFailure  *failure = sl_recover_before(queue->shard, queue->conn);

	if (failure == NULL)
		sl_txn_join(queue->conn, &use);
	return failure;
}

void
sl_shard_queue_give_conn(SlShardQueue *queue)
{
	if (queue->conn != NULL && queue->conn->owner == queue)
		queue->conn->owner = NULL;
}

/* The failure of a shard that has not answered in time. */
SlFailure *
sl_shard_queue_time_out(const SlShardQueue *queue)
{
	return sl_failure_unreachable(NameStr(queue->shard->name),
								  psprintf("It took longer than shardlet.shard_timeout, %d ms.",
										   sl_shard_timeout));
}

/* Sets ------------------------------------------------------------------------- */

/* Fails if the set's (sub)transaction was rolled back. */
void
sl_queue_set_check(const SlQueueSet *set)
{
	if (set->is_over)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				errmsg("%s", set->methods->refusal),
				errdetail("The transaction or savepoint in which that was begun was rolled back."));
}

/* Ends the set; ending it again does nothing.  Raises nothing. */
void
sl_queue_set_end(SlQueueSet *set)
{
	ListCell   *cell;

	if (set->is_over)
		return;
	set->is_over = true;
	dlist_delete(&set->node);
	foreach(cell, set->queues)
		set->methods->abandon(lfirst(cell));
}

static void
end_with_memory(void *arg)
{
	sl_queue_set_end(arg);
}

/* Begins a set, which lives as long as the context at the most. */
void
sl_queue_set_begin(SlQueueSet *set, const SlQueueMethods *methods, MemoryContext context, Oid user,
				   const SlStatement *statement)
{
	sl_snapshot_begin(NIL);
	set->methods = methods;
	set->context = context;
	set->user = user;
	set->statement = statement;
	set->transaction = GetCurrentSubTransactionId();
	set->callback.func = end_with_memory;
	set->callback.arg = set;
	MemoryContextRegisterResetCallback(context, &set->callback);
	dlist_push_tail(&sets, &set->node);
}

/* Transactions ----------------------------------------------------------------- */

/* Ends the sets of a (sub)transaction that is rolled back; 0 is all of them. */
static void
end_sets(SubTransactionId transaction)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &sets)
	{
		SlQueueSet *set = dlist_container(SlQueueSet, node, iter.cur);

		if (transaction == InvalidSubTransactionId || set->transaction == transaction)
			sl_queue_set_end(set);
	}
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PARALLEL_ABORT)
		end_sets(InvalidSubTransactionId);
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId my_id, SubTransactionId parent_id,
					  void *arg)
{
	dlist_iter	iter;

	if (event == SUBXACT_EVENT_ABORT_SUB)
		end_sets(my_id);
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		dlist_foreach(iter, &sets)
		{
			SlQueueSet *set = dlist_container(SlQueueSet, node, iter.cur);

			if (set->transaction == my_id)
				set->transaction = parent_id;
		}
	}
}

/* Called after sl_txn_init(): callbacks run in the opposite order. */
void
sl_shard_queue_init(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}
