/*
 * snapshot.c
 *		Snapshots of several shards that agree with each other.
 *
 * With shardlet.consistent_reads the snapshots of shards are taken between two
 * multi-shard commits, never across one: see commit_lock.c.  A statement that
 * queries the shards once takes them in its own pipeline (executor/consistent_read.c).
 * In this file they are taken ahead, in a round trip of their own: for a statement
 * that queries several times or reads tables of the router, too, and for a
 * transaction with one snapshot for all its statements.  That one takes them of all
 * shards with tables; a shard that joins later, or could not be reached, fails if a
 * commit is in between.
 *
 * The router's own snapshot is one of them where its tables are read.  PostgreSQL
 * takes it before any hook is called for the statement; so, unless something was read
 * by it, it is taken again together with those of the shards.
 *
 * And snapshots for later: a cursor does not see what is written after it was
 * opened, though it queries the shards when the first row is fetched.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/base.h"
#include "metadata/table.h"
#include "transaction/transaction.h"

static const char snapshot_sql[] = "SELECT 1";

/* The transaction's snapshots have been taken, at this level; 0: not yet. */
static int	taken_level = 0;

/* They are being taken. */
static bool is_taking = false;

/* The router's snapshot of the transaction may be taken again: nothing was read by it. */
static bool can_renew = false;

static uint64 last_statement = 0;

/* The statement whose snapshots were taken last. */
static uint64 last_taken = 0;

static dlist_head readers = DLIST_STATIC_INIT(readers);

/* Statements whose reads must agree have numbers. */
uint64
sl_snapshot_new_statement(void)
{
	return ++last_statement;
}

/* The number of the latest: what is written now comes after its beginning. */
uint64
sl_snapshot_last_statement(void)
{
	return last_statement;
}

/*
 * Has the shard take the statement's snapshot, if it has not yet, and use it for
 * the query that comes next on the connection.
 */
void
sl_snapshot_use(SlConn *conn, uint64 statement, bool is_for_next)
{
	char		number[32];
	const char *params[] = {number};

	snprintf(number, sizeof(number), "%s%llu", is_for_next ? "" : "-",
			 (unsigned long long) statement);
	sl_pipeline_send_preceding(conn, "SELECT " SL_INTERNAL_SCHEMA ".use_snapshot($1)", lengthof(params), params);
	conn->txn.kept_statement = statement;
}

void
sl_snapshot_open_reader(SlReader *reader)
{
	reader->statement = sl_snapshot_new_statement();
	dlist_push_tail(&readers, &reader->node);
}

void
sl_snapshot_close_reader(SlReader *reader)
{
	dlist_delete(&reader->node);
}

/* Is there one that the shard has no snapshot for? */
static bool
has_new_reader(const SlConn *conn, const SlReader *writer)
{
	dlist_iter	iter;

	dlist_foreach(iter, &readers)
	{
		const SlReader *reader = dlist_container(SlReader, node, iter.cur);

		if (reader->may_query && reader != writer && reader->statement > conn->txn.kept_readers)
			return true;
	}
	return false;
}

/*
 * Precedes a write: the shard takes a snapshot for all that have begun and may query
 * it yet.  It drops those of others, so all are named whenever there is a new one.
 * A bare shard cannot do that; that something was written since they began is noted
 * all the same.
 */
void
sl_snapshot_keep(SlConn *conn, const SlReader *writer)
{
	StringInfoData numbers;
	const char *params[1];
	dlist_iter	iter;

	if (!has_new_reader(conn, writer))
		return;
	initStringInfo(&numbers);
	dlist_foreach(iter, &readers)
	{
		SlReader   *reader = dlist_container(SlReader, node, iter.cur);

		if (!reader->may_query || reader == writer)
			continue;
		appendStringInfo(&numbers, "%c%llu", numbers.len == 0 ? '{' : ',',
						 (unsigned long long) reader->statement);
		reader->is_kept = true;
	}
	appendStringInfoChar(&numbers, '}');
	params[0] = numbers.data;
	if (!conn->is_bare)
		sl_pipeline_send_preceding(conn, "SELECT " SL_INTERNAL_SCHEMA ".keep_snapshots($1)", lengthof(params), params);
	pfree(numbers.data);
	conn->txn.kept_readers = last_statement;
}

/* Do all statements of the transaction share one snapshot, of all shards? */
bool
sl_snapshot_is_shared(void)
{
	return sl_consistent_reads && IsolationUsesXactSnapshot();
}

bool
sl_snapshot_is_taken(void)
{
	return taken_level > 0;
}

/* The transaction is over. */
void
sl_snapshot_end(void)
{
	taken_level = 0;
	can_renew = false;
	sl_snapshot_note_import(NULL);
}

/* A savepoint is over.  Rolled back, it takes the snapshots along. */
void
sl_snapshot_end_level(int level, bool is_rolled_back)
{
	if (taken_level >= level)
		taken_level = is_rolled_back ? 0 : level - 1;
}

/* Taking them ------------------------------------------------------------------- */

/* Finishes what is committed on shards that can be reached, while nothing is held. */
static void
finish_commits(SlReply *replies, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure == NULL)
			replies[i].failure = sl_recover_before(replies[i].shard, replies[i].conn);
	}
}

static void
send_snapshot(SlReply *reply, const void *arg)
{
	const SlTxnUse *use = arg;
	bool		is_first = reply->conn->txn.level == 0;

	/* A commit may have failed on the shard while its end was waited for. */
	reply->failure = sl_recover_before(reply->shard, reply->conn);
	if (reply->failure != NULL)
	{
		reply->is_complete = true;
		return;
	}
	sl_txn_join(reply->conn, use);
	reply->conn->txn.has_only_snapshot = is_first && use->statement != 0;
	sl_pipeline_query(reply->conn, snapshot_sql, 0, NULL);
	sl_pipeline_sync(reply->conn);
}

/* Has the session's transaction begun on a shard? */
static bool
has_begun_on(const SlReply *reply)
{
	return reply->failure != NULL || reply->conn->txn.level > 0;
}

/* Takes the snapshots on shards that are connected to.  The ticket is there. */
static void
take_in_turn(SlReply *replies, int count, const SlTxnUse *use)
{
	SlTurns		turns = {
		.has_turn = sl_commit_lock_has_turn,.send = send_snapshot,
		.end_turn = sl_commit_lock_end_turn,.arg = use,.timeout_ms = sl_connect_timeout
	};

	is_taking = true;
	PG_TRY();
	{
		sl_broadcast_in_turn(replies, count, &turns);
	}
	PG_CATCH();
	{
		is_taking = false;
		sl_commit_lock_end();
		PG_RE_THROW();
	}
	PG_END_TRY();
	is_taking = false;
	sl_commit_lock_end();
}

static void
refuse_old_snapshot(void)
{
	ereport(ERROR,
			errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			errmsg("could not serialize access because a transaction over several shards was committed"),
			errdetail("The router's snapshot of this transaction is older than that, and those of the shards would be newer."),
			errhint("Retry the transaction."));
}

/*
 * Copies what makes a snapshot's view into another one.  That stays where it is
 * in PostgreSQL's lists, which are sorted by xmin; an older xmin is right, too.
 */
static void
copy_view(Snapshot target, const SnapshotData *source)
{
	target->xmax = source->xmax;
	target->xcnt = source->xcnt;
	target->xip = MemoryContextAlloc(TopTransactionContext, sizeof(TransactionId) * Max(source->xcnt, 1));
	memcpy(target->xip, source->xip, sizeof(TransactionId) * source->xcnt);
	target->subxcnt = Max(source->subxcnt, 0);
	target->subxip = MemoryContextAlloc(TopTransactionContext,
										sizeof(TransactionId) * Max(target->subxcnt, 1));
	memcpy(target->subxip, source->subxip, sizeof(TransactionId) * target->subxcnt);
	target->suboverflowed = source->suboverflowed;
	target->snapXactCompletionCount = 0;
}

/*
 * Takes a snapshot of the router again, in place, and returns it.  The caller is sure
 * that nothing was read by it.
 */
static Snapshot
renew_snapshot(void *arg)
{
	Snapshot	snapshot = arg;

	copy_view(snapshot, GetLatestSnapshot());
	return snapshot;
}

/* The same for that of the transaction, and for the copy that is active. */
static Snapshot
renew_transaction_snapshot(void *arg)
{
	Snapshot	latest = GetLatestSnapshot();
	Snapshot	snapshot = GetTransactionSnapshot();

	copy_view(snapshot, latest);
	if (ActiveSnapshotSet() && GetActiveSnapshot() != snapshot)
		copy_view(GetActiveSnapshot(), latest);
	return snapshot;
}

/* Those that the transaction has already, and has to agree with. */
static List *
add_participants(List *shards)
{
	dlist_iter	iter;

	dlist_foreach(iter, sl_txn_participants())
	{
		const SlConn *conn = dlist_container(SlConn, txn.node, iter.cur);

		shards = list_append_unique_ptr(shards, sl_shard_by_id(conn->shard_id));
	}
	return shards;
}

/* Takes the ticket for snapshots of a whole transaction. */
static void
begin_for_transaction(List *shards)
{
	SlSnapshotSet wanted = {.router = GetTransactionSnapshot()};
	bool		has_to_wait;

	if (can_renew && XactIsoLevel == XACT_REPEATABLE_READ && dlist_is_empty(sl_txn_participants()))
		wanted.take = renew_transaction_snapshot;
	sl_commit_lock_list_shards(&wanted, add_participants(list_copy(shards)));
	if (!sl_commit_lock_begin_snapshot(&wanted, &has_to_wait))
		refuse_old_snapshot();
}

/* Moves those that take no part to the end; returns how many are left. */
static int
sort_reachable(SlReply *replies, int count)
{
	int			left = 0;

	for (int i = 0; i < count; i++)
	{
		SlReply		reply = replies[i];

		if (has_begun_on(&reply))
			continue;
		replies[i] = replies[left];
		replies[left++] = reply;
	}
	return left;
}

static void
import_all(SlReply *replies, int count, const SlTxnUse *use)
{
	is_taking = true;
	PG_TRY();
	{
		sl_snapshot_import(replies, count, use);
	}
	PG_CATCH();
	{
		is_taking = false;
		PG_RE_THROW();
	}
	PG_END_TRY();
	is_taking = false;
}

/*
 * Takes the snapshots for the whole transaction, if it has one for all its
 * statements: of these shards and all others with tables that can be reached.
 */
void
sl_snapshot_begin(List *shards)
{
	SlTxnUse	use = {0};
	SlReply    *replies;
	int			count;

	if (taken_level > 0 || !sl_snapshot_is_shared())
		return;
	shards = list_concat_unique_ptr(list_copy(shards), sl_table_shards());
	if (!FirstSnapshotSet)
		can_renew = true;
	replies = sl_broadcast_make(shards, false, &count);
	sl_broadcast_open(replies, count);
	if (sl_snapshot_is_imported())
		import_all(replies, count, &use);
	else
	{
		finish_commits(replies, count);
		begin_for_transaction(shards);
		take_in_turn(replies, sort_reachable(replies, count), &use);
	}
	taken_level = GetCurrentTransactionNestLevel();
	can_renew = false;
}

/*
 * A shard joins a transaction that has its snapshots.  That works as long as no
 * commit is in between which concerns this shard and another one.
 */
void
sl_snapshot_join(SlConn *conn)
{
	SlTxnUse	use = {0};
	SlReply		reply = {.shard = sl_shard_by_id(conn->shard_id),.conn = conn};

	if (taken_level == 0 || is_taking || !sl_snapshot_is_shared())
		return;
	if (sl_snapshot_is_imported())
	{
		import_all(&reply, 1, &use);
		return;
	}
	begin_for_transaction(list_make1(reply.shard));
	take_in_turn(&reply, 1, &use);
	if (reply.failure != NULL)
		sl_failure_raise(reply.failure, conn->shard, snapshot_sql);
}

/* Were the last snapshots that were taken those of this statement? */
bool
sl_snapshot_is_of(uint64 statement)
{
	return last_taken == statement;
}

/*
 * Takes snapshots of these shards for a statement that queries several times, or,
 * with a snapshot, that reads tables of the router by that one: it is taken again
 * with them.
 */
void
sl_snapshot_begin_statement(const SlTxnUse *statement, List *shards, Snapshot router)
{
	SlTxnUse	use = {
		.statement = statement->statement,.is_of_writer = statement->is_of_writer,
		.reader = statement->reader
	};
	SlSnapshotSet wanted = {0};
	bool		has_to_wait;
	int			count;
	SlReply    *replies;

	if (!sl_consistent_reads || IsolationUsesXactSnapshot() || sl_snapshot_is_of(use.statement))
		return;
	last_taken = use.statement;
	replies = sl_broadcast_make(shards, false, &count);
	sl_broadcast_open(replies, count);
	finish_commits(replies, count);
	sl_commit_lock_list_shards(&wanted, shards);
	if (router != NULL)
	{
		wanted.take = renew_snapshot;
		wanted.arg = router;
	}
	(void) sl_commit_lock_begin_snapshot(&wanted, &has_to_wait);
	take_in_turn(replies, count, &use);
}

/* Sets whether the transaction's snapshot of the router may be taken again. */
void
sl_snapshot_set_renewable(bool is_renewable)
{
	can_renew = is_renewable;
}
