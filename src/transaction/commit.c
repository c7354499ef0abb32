/*
 * commit.c
 *		How a transaction ends on the shards.
 *
 * Before the router commits: if one shard was written to, and nothing on the
 * router, its COMMIT is the commit.  Otherwise all that were written to are
 * prepared; the router's own commit decides, and right after it, before the
 * client gets the answer, they commit.  Shards that were only read from are ended
 * last, because of their locks.
 *
 * Statements that write are known.  A SELECT may call a function that writes: where
 * that makes a difference, the shard is queried whether it took a transaction id.
 *
 * When the router has committed nothing may fail any more, and when it aborts
 * nothing should: an error then is caught, the connections that it concerned are
 * closed, and what is unfinished is left to recovery.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "transaction/transaction.h"

/* How long a shard may take to abort. */
#define ABORT_MS 5000

/* The shard's COMMIT went through, and nothing may stop the router's. */
static bool holds_interrupts = false;

/* Those with a transaction that matters, for a broadcast. */
static SlReply *
make_replies(int *count)
{
	dlist_iter	iter;
	int			room = 1;
	SlReply    *replies;

	dlist_foreach(iter, sl_txn_participants())
		room++;
	replies = MemoryContextAllocZero(TopTransactionContext, sizeof(SlReply) * room);
	*count = 0;
	dlist_foreach(iter, sl_txn_participants())
		replies[(*count)++].conn = dlist_container(SlConn, txn.node, iter.cur);
	return replies;
}

static void
leave_all(void)
{
	while (!dlist_is_empty(sl_txn_participants()))
		sl_txn_leave(dlist_head_element(SlConn, txn.node, sl_txn_participants()));
}

/* Before the commit ----------------------------------------------------------- */

/* Reads the rest of streams that still own connections. */
static void
empty_streams(const SlReply *replies, int count)
{
	for (int i = 0; i < count; i++)
	{
		SlConn	   *conn = replies[i].conn;

		if (conn->owner != NULL)
			conn->yield(conn);
		if (conn->txn.is_lost && (!conn->txn.is_read_only || XactIsoLevel == XACT_SERIALIZABLE))
			ereport(ERROR,
					errcode(SL_ERR_UNREACHABLE),
					errmsg("could not reach shard \"%s\"", conn->shard),
					errdetail("The connection was lost, and with it the shard's part of this transaction."));
	}
}

/* May the shard have been written to without a statement that says so? */
static bool
may_have_written(const SlConn *conn)
{
	return conn->txn.write_level == 0 && !conn->txn.is_read_only && !conn->txn.is_lost;
}

/* Queries those that may have written whether they have. */
static void
wait_for_writers(SlReply *replies, int count)
{
	SlReply    *queries = palloc0(sizeof(SlReply) * count);
	int			query_count = 0;

	for (int i = 0; i < count; i++)
	{
		if (!may_have_written(replies[i].conn))
			continue;
		queries[query_count].conn = replies[i].conn;
		queries[query_count++].sql = SL_XID_SQL;
	}
	if (query_count == 0)
		return;
	sl_broadcast_commands(queries, query_count, 0);
	for (int i = 0; i < query_count; i++)
	{
		if (queries[i].failure != NULL)
			sl_failure_raise(queries[i].failure, queries[i].conn->shard, SL_XID_SQL);
		if (queries[i].value != NULL)
			queries[i].conn->txn.write_level = 1;
	}
}

/* Brings those that were written to to the front; returns how many. */
static int
sort_writers(SlReply *replies, int count)
{
	int			written = 0;

	for (int i = 0; i < count; i++)
	{
		SlReply		reply = replies[i];

		if (reply.conn->txn.write_level == 0)
			continue;
		replies[i] = replies[written];
		replies[written++] = reply;
	}
	return written;
}

/* SERIALIZABLE: a shard that was only read from may refuse to commit. */
static void
wait_for_readers(SlReply *replies, int count)
{
	for (int i = 0; i < count; i++)
		replies[i].sql = "COMMIT";
	sl_broadcast_commands(replies, count, 0);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure != NULL)
			sl_failure_raise(replies[i].failure, replies[i].conn->shard, "COMMIT");
		sl_txn_leave(replies[i].conn);
	}
}

/*
 * Ends the transaction of a shard that was only read from.  That comes last,
 * because of its locks; nothing depends on the answer, so it is not waited for.
 */
static void
end_reader(SlConn *conn)
{
	if (conn->state == SL_CONN_OPEN && !sl_pipeline_command(conn, "COMMIT", false))
		sl_conn_close(conn);
	sl_txn_leave(conn);
}

/* Writes by functions in a SELECT show only now. */
static void
check_span(const SlReply *replies, int written)
{
	if (written > 1 && !sl_multi_shard_transactions &&
		replies[0].conn->shard_id != replies[1].conn->shard_id)
		sl_txn_refuse_span(replies[0].conn->shard, replies[1].conn->shard);
}

static void
commit_one(SlConn *conn)
{
	/*
	 * Nothing may stop the router between the shard's commit and its own:
	 * there is nothing left to fail then.
	 */
	HOLD_INTERRUPTS();
	holds_interrupts = true;
	sl_outcome_commit(conn);
	sl_txn_leave(conn);
}

static void
before_commit(void)
{
	int			count;
	int			written;
	bool		local;
	SlReply    *replies;

	if (dlist_is_empty(sl_txn_participants()))
		return;
	replies = make_replies(&count);
	empty_streams(replies, count);
	local = sl_txn_wrote_locally();

	/* The only shard may as well count as written to. */
	if (count == 1 && !local && may_have_written(replies[0].conn))
		replies[0].conn->txn.write_level = 1;
	else
		wait_for_writers(replies, count);
	written = sort_writers(replies, count);
	check_span(replies, written);
	if (XactIsoLevel == XACT_SERIALIZABLE)
		wait_for_readers(replies + written, count - written);
	if (written == 1 && !local)
		commit_one(replies[0].conn);
	else if (written > 0)
	{
		sl_twophase_prepare(replies, written);
		sl_commit_lock_announce(replies, written, local);
		sl_fault("txn_before_commit_record");
	}
}

/* After it ------------------------------------------------------------------- */

/* Closes connections whose transactions are unfinished: recovery finishes them. */
static void
give_up(SlReply *replies, int count, uint32 flags)
{
	for (int i = 0; i < count; i++)
	{
		sl_shmem_flag(replies[i].conn->shard_slot, flags);
		sl_conn_close(replies[i].conn);
	}
}

static void
resume_interrupts(void)
{
	if (holds_interrupts && InterruptHoldoffCount > 0)
		RESUME_INTERRUPTS();
	holds_interrupts = false;
}

/* Brings those that are prepared to the front; returns how many. */
static int
sort_prepared(SlReply *replies, int count)
{
	int			prepared = 0;

	for (int i = 0; i < count; i++)
	{
		if (replies[i].conn->txn.gid != NULL)
			replies[prepared++].conn = replies[i].conn;
	}
	return prepared;
}

static void
end_readers(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, sl_txn_participants())
	{
		SlConn	   *conn = dlist_container(SlConn, txn.node, iter.cur);

		if (conn->txn.gid == NULL)
			end_reader(conn);
	}
}

static void
after_commit(void)
{
	MemoryContext old_context = CurrentMemoryContext;
	SlReply    *replies;
	int			count;

	resume_interrupts();
	sl_snapshot_end();
	if (dlist_is_empty(sl_txn_participants()))
		return;
	MemoryContextSwitchTo(TopTransactionContext);
	replies = make_replies(&count);
	count = sort_prepared(replies, count);
	PG_TRY();
	{
		if (count > 0)
		{
			sl_fault("txn_after_commit_record");
			sl_commit_lock_begin_commit();
			sl_twophase_commit(replies, count);
		}
		end_readers();
	}
	PG_CATCH();
	{
		/* Memory ran out, at most. */
		FlushErrorState();
		give_up(replies, count, SL_SHARD_FENCED | SL_SHARD_DIRTY);
	}
	PG_END_TRY();
	sl_commit_lock_end();
	MemoryContextSwitchTo(old_context);
	leave_all();
}

/* Aborting -------------------------------------------------------------------- */

/* Cancels what still runs, and closes what cannot be. */
static void
stop_running(const SlReply *replies, int count)
{
	List	   *busy = NIL;

	for (int i = 0; i < count; i++)
	{
		if (replies[i].conn->state != SL_CONN_CLOSED && !sl_pipeline_is_empty(replies[i].conn))
			busy = lappend(busy, replies[i].conn);
	}
	if (busy != NIL)
		sl_cancel(busy);
}

static void
roll_back(SlReply *replies, int count)
{
	SlReply    *open = palloc0(sizeof(SlReply) * count);
	SlReply    *prepared = palloc0(sizeof(SlReply) * count);
	int			open_count = 0;
	int			prepared_count = 0;

	stop_running(replies, count);
	for (int i = 0; i < count; i++)
	{
		SlConn	   *conn = replies[i].conn;

		if (conn->state == SL_CONN_OPEN && PQtransactionStatus(conn->pg) != PQTRANS_IDLE)
		{
			open[open_count].conn = conn;
			open[open_count++].sql = "ROLLBACK";
		}
		else if (conn->txn.gid != NULL)
			prepared[prepared_count++].conn = conn;
		if (conn->txn.has_settings)
			conn->has_settings = false;
	}
	sl_broadcast_commands(open, open_count, ABORT_MS);
	for (int i = 0; i < open_count; i++)
	{
		if (open[i].failure != NULL)
			sl_conn_close(open[i].conn);
	}
	sl_twophase_roll_back(prepared, prepared_count);
}

static void
at_abort(void)
{
	MemoryContext old_context = CurrentMemoryContext;
	SlReply    *replies;
	int			count;

	holds_interrupts = false;
	sl_commit_lock_end();
	sl_snapshot_end();
	if (dlist_is_empty(sl_txn_participants()))
		return;
	MemoryContextSwitchTo(TopTransactionContext);
	replies = make_replies(&count);
	PG_TRY();
	{
		roll_back(replies, count);
	}
	PG_CATCH();
	{
		FlushErrorState();
		give_up(replies, count, SL_SHARD_DIRTY);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old_context);
	leave_all();
}

static void
refuse_prepare(void)
{
	if (dlist_is_empty(sl_txn_participants()))
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot PREPARE a transaction that has used shards"),
			errhint("COMMIT makes it atomic over all shards."));
}

static void
at_transaction_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			before_commit();
			break;
		case XACT_EVENT_PRE_PREPARE:
			refuse_prepare();
			break;
		case XACT_EVENT_COMMIT:
			after_commit();
			break;
		case XACT_EVENT_ABORT:
			at_abort();
			break;
		default:
			break;
	}
}

/* Savepoints ------------------------------------------------------------------ */

/*
 * The rest of an open stream is read before a savepoint: a failure in it would
 * abort the shard's transaction, with no savepoint to go back to.
 */
static void
begin_savepoint(SlConn *conn)
{
	if (conn->owner != NULL)
		conn->yield(conn);
}

static void
release_savepoint(SlConn *conn, int level)
{
	if (conn->txn.level >= level)
		conn->txn.level = level - 1;
	if (conn->txn.begin_level >= level)
		conn->txn.begin_level = level - 1;
	if (conn->txn.write_level >= level)
		conn->txn.write_level = level - 1;

	/* PostgreSQL takes back at the end of a savepoint what it made read-only. */
	if (!conn->txn.began_read_only && conn->txn.read_only_level >= level)
		conn->txn.is_read_only = false;
}

/* Whether the shard has to roll back; what still runs there is cancelled first. */
static bool
stop_before_savepoint(SlConn *conn, int level)
{
	SlConnTxn  *txn = &conn->txn;

	if (txn->level < level)
		return false;
	if (conn->state == SL_CONN_OPEN && !sl_pipeline_is_empty(conn))
		sl_cancel(list_make1(conn));
	if (txn->has_settings)
		conn->has_settings = false;

	/* A statement that ends its transaction may have done so in time. */
	if (txn->begin_level >= level && conn->state == SL_CONN_OPEN && sl_pipeline_is_empty(conn) &&
		PQtransactionStatus(conn->pg) == PQTRANS_IDLE)
	{
		sl_txn_leave(conn);
		return false;
	}
	return true;
}

/* The shard's transaction is as it was before the savepoint. */
static void
forget_savepoint(SlConn *conn, int level)
{
	SlConnTxn  *txn = &conn->txn;

	if (txn->begin_level >= level)
	{
		sl_txn_leave(conn);
		return;
	}
	txn->level = level - 1;
	txn->sent_level = level;
	txn->has_savepoint = false;
	txn->tentative = SL_TENTATIVE_NONE;
	txn->held_map[0] = '\0';
	txn->kept_statement = txn->kept_readers = 0;
	txn->is_read_only = txn->began_read_only;
	if (txn->write_level >= level)
		txn->write_level = 0;
}

/*
 * Rolls the shards back to a savepoint.  Those that were written to may hold row
 * locks: other sessions must not meet them after ROLLBACK TO has returned, so the
 * answer is waited for.  Others answer with the next statement.
 */
static void
roll_back_savepoint(int level)
{
	int			count;
	SlReply    *replies = make_replies(&count);
	int			waiting = 0;

	for (int i = 0; i < count; i++)
	{
		SlConn	   *conn = replies[i].conn;
		const char *sql;

		if (!stop_before_savepoint(conn, level))
			continue;
		sql = conn->txn.begin_level >= level ? "ROLLBACK" :
			psprintf("ROLLBACK TO SAVEPOINT s%d", level);
		if (conn->txn.write_level > 0)
		{
			replies[waiting].conn = conn;
			replies[waiting++].sql = sql;
		}
		else if (conn->state == SL_CONN_OPEN && !sl_pipeline_command(conn, sql, false))
			sl_conn_close(conn);
		forget_savepoint(conn, level);
	}
	sl_broadcast_commands(replies, waiting, ABORT_MS);
	for (int i = 0; i < waiting; i++)
	{
		if (replies[i].failure != NULL)
			sl_conn_close(replies[i].conn);
	}
	pfree(replies);
}

static void
at_subtransaction_event(SubXactEvent event, SubTransactionId my_id, SubTransactionId parent_id,
						void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	dlist_mutable_iter iter;

	if (event == SUBXACT_EVENT_COMMIT_SUB || event == SUBXACT_EVENT_ABORT_SUB)
		sl_snapshot_end_level(level, event == SUBXACT_EVENT_ABORT_SUB);
	if (dlist_is_empty(sl_txn_participants()))
		return;
	if (event == SUBXACT_EVENT_ABORT_SUB)
		roll_back_savepoint(level);
	dlist_foreach_modify(iter, sl_txn_participants())
	{
		SlConn	   *conn = dlist_container(SlConn, txn.node, iter.cur);

		if (event == SUBXACT_EVENT_START_SUB)
			begin_savepoint(conn);
		else if (event == SUBXACT_EVENT_COMMIT_SUB)
			release_savepoint(conn, level);
	}
}

void
sl_txn_init(void)
{
	RegisterXactCallback(at_transaction_event, NULL);
	RegisterSubXactCallback(at_subtransaction_event, NULL);
	sl_constraint_mode_init();
	sl_deadlock_init();
}
