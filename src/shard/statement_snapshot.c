/*
 * statement_snapshot.c
 *		On a shard: several statements that see the same.
 *
 * A statement of the router can need several statements of a shard, and in READ
 * COMMITTED each of these would have a snapshot of its own: rows that others
 * commit meanwhile would be in one and not in the other, and so would rows that
 * the statement itself writes.  So the router says ahead of each which of its
 * statements it belongs to; the first one's snapshot is kept, and used for the
 * others.
 *
 * use_snapshot(n) concerns the one query that follows it; use_snapshot(-n) takes
 * the snapshot and concerns no query.  A query that writes or locks gets the
 * statement's command id along with its snapshot: then a row that another query
 * of the same statement has changed is left as it is, one that a function has
 * changed meanwhile is an error, and what the query writes is not seen by the rest
 * of the statement, as if all of it were one command.  Snapshots are kept
 * until the transaction ends, or the subtransaction they were taken in is rolled
 * back; of many only the latest, and those that keep_snapshots() has asked for:
 * they are for cursors and others that must not see the writes that come now,
 * however much later they ask.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "lib/ilist.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"
#include "utils/array.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "shard/shard.h"

#define MAX_CACHED 16

/* Limits what keep_snapshots() can request: every user may call it. */
#define MAX_NEEDED 4096

PG_FUNCTION_INFO_V1(shardlet_use_snapshot);
PG_FUNCTION_INFO_V1(shardlet_keep_snapshots);

typedef struct StatementSnapshot
{
	dlist_node	node;
	int64		statement;		/* of the router */
	Snapshot	snapshot;
	int			level;			/* of the subtransaction that took it */
	bool		is_needed;		/* the router has asked to keep it */
} StatementSnapshot;

/* In the order in which they were taken. */
static dlist_head snapshots = DLIST_STATIC_INIT(snapshots);

/* For the next query, or NULL. */
static Snapshot wanted = NULL;

static ExecutorStart_hook_type next_start_hook = NULL;
static ProcessUtility_hook_type next_utility_hook = NULL;

static void
discard_snapshot(StatementSnapshot *entry)
{
	UnregisterSnapshotFromOwner(entry->snapshot, TopTransactionResourceOwner);
	dlist_delete(&entry->node);
	pfree(entry);
}

/* Makes room: discards the oldest one that was not asked to be kept. */
static void
discard_oldest(void)
{
	StatementSnapshot *oldest = NULL;
	int			count = 0;
	dlist_iter	iter;

	dlist_foreach(iter, &snapshots)
	{
		StatementSnapshot *entry = dlist_container(StatementSnapshot, node, iter.cur);

		if (entry->is_needed)
			continue;
		count++;
		if (oldest == NULL)
			oldest = entry;
	}
	if (count >= MAX_CACHED)
		discard_snapshot(oldest);
}

/*
 * Takes the snapshot of a statement that begins now.  That of a REPEATABLE READ
 * transaction is one for all its commands, and goes on with them: what is made
 * active is a copy, which stays as it is.
 *
 * The current command id counts as used, so that what others write from now on
 * has a later one than the statement's own writes.
 */
static StatementSnapshot *
take_snapshot(int64 statement)
{
	StatementSnapshot *entry = MemoryContextAllocZero(TopMemoryContext, sizeof(StatementSnapshot));

	discard_oldest();
	PushActiveSnapshot(GetTransactionSnapshot());
	entry->snapshot = RegisterSnapshotOnOwner(GetActiveSnapshot(), TopTransactionResourceOwner);
	PopActiveSnapshot();
	(void) GetCurrentCommandId(true);
	entry->statement = statement;
	entry->level = GetCurrentTransactionNestLevel();
	dlist_push_tail(&snapshots, &entry->node);
	return entry;
}

/* Returns the snapshot of a statement; takes it, if this is the first time. */
static StatementSnapshot *
find_or_take(int64 statement)
{
	dlist_iter	iter;

	dlist_foreach(iter, &snapshots)
	{
		StatementSnapshot *entry = dlist_container(StatementSnapshot, node, iter.cur);

		if (entry->statement == statement)
			return entry;
	}
	return take_snapshot(statement);
}

/*
 * use_snapshot(statement): the next query sees what the statement's first one saw.
 * A negative number takes the snapshot, for queries that come later.
 */
Datum
shardlet_use_snapshot(PG_FUNCTION_ARGS)
{
	int64		statement = PG_GETARG_INT64(0);

	wanted = NULL;
	if (statement > 0)
		wanted = find_or_take(statement)->snapshot;
	else if (statement < 0 && statement != PG_INT64_MIN)
		(void) find_or_take(-statement);
	PG_RETURN_VOID();
}

/* keep_snapshots(statements): keeps these, and no others, until the end */
Datum
shardlet_keep_snapshots(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	Datum	   *statements;
	bool	   *nulls;
	int			count;
	dlist_iter	iter;

	wanted = NULL;
	deconstruct_array(array, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &statements, &nulls, &count);
	if (count > MAX_NEEDED)
		ereport(ERROR,
				errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("too many snapshots"),
				errdetail("A transaction can keep %d of them.", MAX_NEEDED));
	dlist_foreach(iter, &snapshots)
		dlist_container(StatementSnapshot, node, iter.cur)->is_needed = false;
	for (int i = 0; i < count; i++)
	{
		if (!nulls[i] && DatumGetInt64(statements[i]) != 0)
			find_or_take(DatumGetInt64(statements[i]))->is_needed = true;
	}
	PG_RETURN_VOID();
}

/* Is it the client's query, and not one of a function? */
static bool
is_portal_starting(void)
{
	return ActivePortal != NULL && ActivePortal->queryDesc == NULL;
}

static void
call_next_start(QueryDesc *query, int eflags)
{
	if (next_start_hook)
		next_start_hook(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

/*
 * A query's snapshot must be the active one whenever the executor works on it,
 * also for the sake of functions.  A portal of one SELECT activates the query's
 * snapshot itself.
 */
static void
start_select(QueryDesc *query, int eflags, Snapshot snapshot)
{
	/* What becomes active may be a copy, and that is the query's then. */
	PushActiveSnapshot(snapshot);
	UnregisterSnapshot(query->snapshot);
	query->snapshot = RegisterSnapshot(GetActiveSnapshot());
	call_next_start(query, eflags);
	PopActiveSnapshot();
	if (query->plannedstmt->rowMarks != NIL)
		query->estate->es_output_cid = snapshot->curcid;
}

/*
 * The other portals have activated the query's snapshot before the executor
 * starts, and pop it when it has ended: the wanted one takes its place.  It must
 * be a copy, because a portal of several queries advances its command id.
 */
static void
start_write(QueryDesc *query, int eflags, Snapshot snapshot)
{
	UnregisterSnapshot(query->snapshot);
	PopActiveSnapshot();
	PushCopiedSnapshot(snapshot);
	query->snapshot = RegisterSnapshot(GetActiveSnapshot());
	call_next_start(query, eflags);
	query->estate->es_output_cid = snapshot->curcid;
}

/* The snapshot of a query that is about to start becomes the wanted one. */
static void
start_with_snapshot(QueryDesc *query, int eflags)
{
	Snapshot	snapshot = NULL;

	if (wanted != NULL && is_portal_starting())
	{
		snapshot = wanted;
		wanted = NULL;
	}
	if (snapshot == NULL || query->snapshot == InvalidSnapshot)
		call_next_start(query, eflags);
	else if (ActivePortal->strategy == PORTAL_ONE_SELECT)
		start_select(query, eflags, snapshot);
	else
		start_write(query, eflags, snapshot);
}

/* SHOW, say, was the query meant; the next one was not. */
static void
run_utility(PlannedStmt *statement, const char *source, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo params,
			QueryEnvironment *environment, DestReceiver *receiver,
			QueryCompletion *completion)
{
	ProcessUtility_hook_type next = next_utility_hook ? next_utility_hook : standard_ProcessUtility;

	wanted = NULL;
	next(statement, source, read_only_tree, context, params, environment, receiver, completion);
}

/* An abort unregisters them by itself. */
static void
at_transaction_end(XactEvent event, void *arg)
{
	dlist_mutable_iter iter;

	wanted = NULL;
	if (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE &&
		event != XACT_EVENT_ABORT)
		return;
	dlist_foreach_modify(iter, &snapshots)
	{
		StatementSnapshot *entry = dlist_container(StatementSnapshot, node, iter.cur);

		if (event != XACT_EVENT_ABORT)
			UnregisterSnapshotFromOwner(entry->snapshot, TopTransactionResourceOwner);
		dlist_delete(&entry->node);
		pfree(entry);
	}
}

/*
 * A statement that was begun in a subtransaction that is rolled back begins
 * again, and must see the current state of tables.
 */
static void
at_subtransaction_end(SubXactEvent event, SubTransactionId my_id, SubTransactionId parent_id,
					  void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	dlist_mutable_iter iter;

	if (event == SUBXACT_EVENT_ABORT_SUB)
		wanted = NULL;
	else if (event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	dlist_foreach_modify(iter, &snapshots)
	{
		StatementSnapshot *entry = dlist_container(StatementSnapshot, node, iter.cur);

		if (entry->level < level)
			continue;
		if (event == SUBXACT_EVENT_ABORT_SUB)
			discard_snapshot(entry);
		else
			entry->level = level - 1;
	}
}

void
sl_use_snapshot_init(void)
{
	next_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = start_with_snapshot;
	next_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = run_utility;
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}
