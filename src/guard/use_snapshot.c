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
 * until the transaction, or a subtransaction, ends; of many only the latest.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"
#include "utils/portal.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "guard/guard.h"

#define MAX_KEPT 16

PG_FUNCTION_INFO_V1(shardlet_use_snapshot);

typedef struct Kept
{
	int64		statement;		/* of the router; 0: free */
	Snapshot	snapshot;
} Kept;

static Kept kept[MAX_KEPT];
static int	next_place = 0;

/* For the next query, or NULL. */
static Snapshot wanted = NULL;

static ExecutorStart_hook_type next_start_hook = NULL;
static ProcessUtility_hook_type next_utility_hook = NULL;

static void
forget(Kept *place)
{
	if (place->statement == 0)
		return;
	UnregisterSnapshotFromOwner(place->snapshot, TopTransactionResourceOwner);
	place->statement = 0;
}

/*
 * Takes the snapshot of a statement that begins now.  That of a REPEATABLE READ
 * transaction is one for all its commands, and goes on with them: what is made
 * active is a copy, which stays as it is.
 */
static Snapshot
keep_new(int64 statement)
{
	Kept	   *place = &kept[next_place];

	next_place = (next_place + 1) % MAX_KEPT;
	forget(place);
	PushActiveSnapshot(GetTransactionSnapshot());
	place->snapshot = RegisterSnapshotOnOwner(GetActiveSnapshot(), TopTransactionResourceOwner);
	PopActiveSnapshot();
	place->statement = statement;
	return place->snapshot;
}

/* use_snapshot(statement): the next query sees what the statement's first one saw */
Datum
shardlet_use_snapshot(PG_FUNCTION_ARGS)
{
	int64		statement = PG_GETARG_INT64(0);

	wanted = NULL;
	for (int i = 0; i < MAX_KEPT && statement != 0; i++)
	{
		if (kept[i].statement == statement)
			wanted = kept[i].snapshot;
	}
	if (wanted == NULL && statement != 0)
		wanted = keep_new(statement);
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

/* The end of the transaction unregisters them. */
static void
at_transaction_end(XactEvent event, void *arg)
{
	wanted = NULL;
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
	{
		for (int i = 0; i < MAX_KEPT; i++)
			forget(&kept[i]);
	}
	else if (event == XACT_EVENT_ABORT)
	{
		for (int i = 0; i < MAX_KEPT; i++)
			kept[i].statement = 0;
	}
}

/* What a snapshot shows of a subtransaction that was rolled back is not true. */
static void
at_subtransaction_end(SubXactEvent event, SubTransactionId my_id, SubTransactionId parent_id,
					  void *arg)
{
	if (event != SUBXACT_EVENT_ABORT_SUB)
		return;
	wanted = NULL;
	for (int i = 0; i < MAX_KEPT; i++)
		forget(&kept[i]);
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
