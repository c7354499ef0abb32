/*
 * use_snapshot.c
 *		On a shard: several statements that see the same.
 *
 * A statement of the router can need several statements of a shard, and in READ
 * COMMITTED each of these would have a snapshot of its own: rows that others
 * commit meanwhile would be in one and not in the other, and so would rows that
 * the statement itself writes.  So the router says ahead of each which of its
 * statements it belongs to; the first one's snapshot is kept, and used for the
 * others.
 *
 * use_snapshot(n) concerns the one query that follows it.  Snapshots are kept
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
#include "guard/guard.h"

#define MAX_KEPT 16

PG_FUNCTION_INFO_V1(shardlet_use_snapshot);
PG_FUNCTION_INFO_V1(shardlet_keep_snapshots);

typedef struct Kept
{
	dlist_node	node;
	int64		statement;		/* of the router */
	Snapshot	snapshot;
	int			level;			/* of the subtransaction that took it */
	bool		is_needed;		/* the router has asked to keep it */
} Kept;

/* In the order in which they were taken. */
static dlist_head kept = DLIST_STATIC_INIT(kept);

/* For the next query, or NULL. */
static Snapshot wanted = NULL;

static ExecutorStart_hook_type next_start_hook = NULL;
static ProcessUtility_hook_type next_utility_hook = NULL;

static void
forget(Kept *entry)
{
	UnregisterSnapshotFromOwner(entry->snapshot, TopTransactionResourceOwner);
	dlist_delete(&entry->node);
	pfree(entry);
}

/* Makes room: forgets the oldest that nobody has asked to keep. */
static void
forget_oldest(void)
{
	Kept	   *oldest = NULL;
	int			count = 0;
	dlist_iter	iter;

	dlist_foreach(iter, &kept)
	{
		/* cppcheck-suppress nullPointer */
		Kept	   *entry = dlist_container(Kept, node, iter.cur);

		if (entry->is_needed)
			continue;
		count++;
		if (oldest == NULL)
			oldest = entry;
	}
	if (count >= MAX_KEPT)
		forget(oldest);
}

/*
 * Takes the snapshot of a statement that begins now.  That of a REPEATABLE READ
 * transaction is one for all its commands, and goes on with them: what is made
 * active is a copy, which stays as it is.
 */
static Kept *
keep_new(int64 statement)
{
	Kept	   *entry = MemoryContextAllocZero(TopMemoryContext, sizeof(Kept));

	forget_oldest();
	PushActiveSnapshot(GetTransactionSnapshot());
	entry->snapshot = RegisterSnapshotOnOwner(GetActiveSnapshot(), TopTransactionResourceOwner);
	PopActiveSnapshot();
	entry->statement = statement;
	entry->level = GetCurrentTransactionNestLevel();
	dlist_push_tail(&kept, &entry->node);
	return entry;
}

/* The snapshot of a statement; taken now, if this is the first time. */
static Kept *
find_or_keep(int64 statement)
{
	dlist_iter	iter;

	dlist_foreach(iter, &kept)
	{
		/* cppcheck-suppress nullPointer */
		Kept	   *entry = dlist_container(Kept, node, iter.cur);

		if (entry->statement == statement)
			return entry;
	}
	return keep_new(statement);
}

/* use_snapshot(statement): the next query sees what the statement's first one saw */
Datum
shardlet_use_snapshot(PG_FUNCTION_ARGS)
{
	int64		statement = PG_GETARG_INT64(0);

	wanted = statement != 0 ? find_or_keep(statement)->snapshot : NULL;
	PG_RETURN_VOID();
}

/* keep_snapshots(statements): these, and no others, will ask whatever happens */
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
	dlist_foreach(iter, &kept)
	/* cppcheck-suppress nullPointer */
		dlist_container(Kept, node, iter.cur)->is_needed = false;
	for (int i = 0; i < count; i++)
	{
		if (!nulls[i] && DatumGetInt64(statements[i]) != 0)
			find_or_keep(DatumGetInt64(statements[i]))->is_needed = true;
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
 * also for the sake of functions.  Portals of this kind see to that when they
 * run; the others, and EXPLAIN, run with what was active before.  Rows that are
 * to be locked must be visible now.
 */
static bool
can_have_other_snapshot(const QueryDesc *query)
{
	return query->operation == CMD_SELECT && ActivePortal->strategy == PORTAL_ONE_SELECT &&
		query->plannedstmt->rowMarks == NIL;
}

/* The snapshot of a query that is about to start becomes the wanted one. */
static void
start_with_snapshot(QueryDesc *query, int eflags)
{
	Snapshot	snapshot = NULL;

	if (wanted != NULL && is_portal_starting())
	{
		if (can_have_other_snapshot(query))
			snapshot = wanted;
		wanted = NULL;
	}
	if (snapshot == NULL)
	{
		call_next_start(query, eflags);
		return;
	}

	/* What becomes active may be a copy, and that is the query's then. */
	PushActiveSnapshot(snapshot);
	UnregisterSnapshot(query->snapshot);
	query->snapshot = RegisterSnapshot(GetActiveSnapshot());
	call_next_start(query, eflags);
	PopActiveSnapshot();
}

/* SHOW, say, is the query that was meant; the one after it was not. */
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
	dlist_foreach_modify(iter, &kept)
	{
		/* cppcheck-suppress nullPointer */
		Kept	   *entry = dlist_container(Kept, node, iter.cur);

		if (event != XACT_EVENT_ABORT)
			UnregisterSnapshotFromOwner(entry->snapshot, TopTransactionResourceOwner);
		dlist_delete(&entry->node);
		pfree(entry);
	}
}

/*
 * What was begun in a subtransaction that is rolled back begins anew, and must
 * see what has become of tables meanwhile.
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
	dlist_foreach_modify(iter, &kept)
	{
		/* cppcheck-suppress nullPointer */
		Kept	   *entry = dlist_container(Kept, node, iter.cur);

		if (entry->level < level)
			continue;
		if (event == SUBXACT_EVENT_ABORT_SUB)
			forget(entry);
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
