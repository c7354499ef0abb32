/*
 * deadlock.c
 *		Finds deadlocks that go through several shards.
 *
 * No single server sees such a cycle.  A session that has waited for a shard for
 * shardlet.deadlock_timeout searches for one: the shards that it waits for report
 * which process blocks which, the router adds its own locks, and shared memory has
 * the session of each process.  Sessions that block it are checked in the same way,
 * so only shards are queried that matter.  If the session finds itself in a cycle,
 * one of those in it that wait for a shard gives up: any one whose statement can be
 * repeated (executor/deadlock_retry.c), else the one whose transaction is the
 * youngest.  The others would find the same cycle and the same victim.  The shards
 * are queried one after the other, so a cycle counts only if it is found twice.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/procarray.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "base/hooks.h"
#include "transaction/transaction.h"

/*
 * For each process that waits, the processes that block it.  One that is a
 * prepared transaction counts as 0, followed by its name.
 */
static const char blockers_sql[] =
"SELECT pg_catalog.string_agg(pg_catalog.concat(p, ' ', b, ' ', x.gid), ',')"
" FROM pg_catalog.unnest($1::pg_catalog.int4[]) p"
" CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.pg_blocking_pids(p)) b"
" LEFT JOIN LATERAL (SELECT t.gid FROM pg_catalog.pg_locks w"
" JOIN pg_catalog.pg_locks h ON h.pid IS NULL AND h.granted"
" AND h.locktype OPERATOR(pg_catalog.=) w.locktype"
" AND h.database IS NOT DISTINCT FROM w.database AND h.relation IS NOT DISTINCT FROM w.relation"
" AND h.page IS NOT DISTINCT FROM w.page AND h.tuple IS NOT DISTINCT FROM w.tuple"
" AND h.transactionid::pg_catalog.text IS NOT DISTINCT FROM w.transactionid::pg_catalog.text"
" AND h.classid IS NOT DISTINCT FROM w.classid AND h.objid IS NOT DISTINCT FROM w.objid"
" AND h.objsubid IS NOT DISTINCT FROM w.objsubid"
" JOIN pg_catalog.pg_locks k ON k.pid IS NULL AND k.granted"
" AND k.locktype OPERATOR(pg_catalog.=) 'transactionid'"
" AND k.virtualtransaction OPERATOR(pg_catalog.=) h.virtualtransaction"
" JOIN pg_catalog.pg_prepared_xacts t"
" ON t.transaction OPERATOR(pg_catalog.=) k.transactionid"
" WHERE w.pid OPERATOR(pg_catalog.=) p AND NOT w.granted) x ON b OPERATOR(pg_catalog.=) 0";

/* One session waits for another. */
typedef struct Edge
{
	int			waiter;
	int			blocker;
	const char *shard;			/* NULL: on the router */
	bool		may_repeat;		/* what waits there can be repeated */
} Edge;

typedef struct Graph
{
	SlConnSlot *slots;
	int			slot_count;
	List	   *edges;			/* of Edge */
	List	   *queried_shards; /* ids */
	List	   *checked_pids;	/* of sessions */
	List	   *conns;			/* that shards are queried on */
} Graph;

/* This process has locks on shards by connections outside of a transaction. */
bool		sl_deadlock_watch = false;

static bool is_searching = false;
static bool is_held = false;

static Edge *
add_edge(Graph *graph, int waiter, int blocker, const char *shard)
{
	Edge	   *edge = palloc0(sizeof(Edge));

	edge->waiter = waiter;
	edge->blocker = blocker;
	edge->shard = shard;
	graph->edges = lappend(graph->edges, edge);
	return edge;
}

/* Edges ----------------------------------------------------------------------- */

/* The connection that a process on a shard serves, or NULL. */
static const SlConnSlot *
find_slot(const Graph *graph, int32 shard_id, int remote_pid)
{
	for (int i = 0; i < graph->slot_count; i++)
	{
		if (graph->slots[i].shard_id == shard_id && graph->slots[i].remote_pid == remote_pid)
			return &graph->slots[i];
	}
	return NULL;
}

/* The session of a process on a shard, or 0. */
static int
session_of(const Graph *graph, int32 shard_id, int remote_pid)
{
	const SlConnSlot *slot = find_slot(graph, shard_id, remote_pid);

	return slot != NULL ? slot->pid : 0;
}

/* The active processes of routers on a shard, as an array in text form. */
static char *
active_pids(const Graph *graph, int32 shard_id)
{
	StringInfoData pids;

	initStringInfo(&pids);
	appendStringInfoChar(&pids, '{');
	for (int i = 0; i < graph->slot_count; i++)
	{
		if (graph->slots[i].shard_id == shard_id && graph->slots[i].is_active)
			appendStringInfo(&pids, "%s%d", pids.len > 1 ? "," : "", graph->slots[i].remote_pid);
	}
	appendStringInfoChar(&pids, '}');
	return pids.data;
}

/* The session whose transaction is prepared under this name, or 0. */
static int
session_of_gid(const char *name)
{
	SlGid		gid;

	if (!sl_gid_parse(name, &gid) || gid.router_instance != sl_router_instance() ||
		gid.database != MyDatabaseId)
		return 0;
	return BackendXidGetPid(XidFromFullTransactionId(FullTransactionIdFromU64(gid.xid)));
}

/* One item of the answer: waiter, blocker, and a name if that is 0. */
static void
take_item(Graph *graph, const SlShard *shard, const char *item)
{
	int			waiter = 0;
	int			blocker = 0;
	char		name[200] = "";
	const SlConnSlot *slot;
	Edge	   *edge;

	if (sscanf(item, "%d %d %199s", &waiter, &blocker, name) < 2)
		return;
	slot = find_slot(graph, shard->id, waiter);
	if (slot == NULL)
		return;
	edge = add_edge(graph, slot->pid, blocker == 0 ? session_of_gid(name) :
					session_of(graph, shard->id, blocker), NameStr(shard->name));
	edge->may_repeat = slot->may_repeat;
}

/* A connection to query the shard; the second search uses that of the first. */
static SlConn *
open_to_query(Graph *graph, const SlShard *shard, Oid user)
{
	SlFailure  *failure;
	SlConn	   *conn;
	ListCell   *cell;

	foreach(cell, graph->conns)
	{
		conn = lfirst(cell);
		if (conn->shard_id == shard->id && conn->state == SL_CONN_OPEN)
			return conn;
	}
	conn = sl_remote_try_open_as(shard, user, &failure);
	if (conn != NULL)
		graph->conns = lappend(graph->conns, conn);
	return conn;
}

/* Adds what blocks what on a shard.  One that does not answer is left out. */
static void
query_shard(Graph *graph, const SlShard *shard, Oid user)
{
	const char *params[] = {active_pids(graph, shard->id)};
	SlFailure  *failure;
	PGresult   *result;
	SlConn	   *conn;

	if (!shard->exists)
		return;
	conn = open_to_query(graph, shard, user);
	if (conn == NULL)
		return;
	result = sl_remote_try(conn, blockers_sql, 1, params, sl_wait_deadline(sl_connect_timeout),
						   &failure);
	if (result != NULL && sl_remote_value(result, 0, 0) != NULL)
	{
		char	   *answer = pstrdup(sl_remote_value(result, 0, 0));

		for (char *item = strtok(answer, ","); item != NULL; item = strtok(NULL, ","))
			take_item(graph, shard, item);
	}
}

/* Adds what blocks this session on the router. */
static void
check_router(Graph *graph, int pid)
{
	ArrayType  *array = DatumGetArrayTypeP(OidFunctionCall1(F_PG_BLOCKING_PIDS,
															Int32GetDatum(pid)));
	Datum	   *pids;
	int			count;

	deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT, &pids, NULL, &count);
	for (int i = 0; i < count; i++)
		add_edge(graph, pid, DatumGetInt32(pids[i]), NULL);
}

/* Adds the edges of what a session waits for, unless that was done. */
static void
add_blockers(Graph *graph, int pid)
{
	bool		in_transaction = false;

	if (list_member_int(graph->checked_pids, pid))
		return;
	graph->checked_pids = lappend_int(graph->checked_pids, pid);
	for (int i = 0; i < graph->slot_count; i++)
	{
		const SlConnSlot *slot = &graph->slots[i];

		if (slot->pid != pid)
			continue;
		in_transaction = in_transaction || slot->in_transaction;
		if (!slot->is_active || list_member_int(graph->queried_shards, slot->shard_id))
			continue;
		graph->queried_shards = lappend_int(graph->queried_shards, slot->shard_id);
		query_shard(graph, sl_shard_by_id(slot->shard_id), slot->user);
	}
	if (in_transaction)
		check_router(graph, pid);
}

/* Cycles ----------------------------------------------------------------------- */

/* Finds a way from a session to this one; the edges of it are put into path. */
static bool
find_path(Graph *graph, int from, List **seen, List **path)
{
	if (list_member_int(*seen, from))
		return false;
	*seen = lappend_int(*seen, from);
	add_blockers(graph, from);

	/* More edges are appended on the way. */
	for (int i = 0; i < list_length(graph->edges); i++)
	{
		Edge	   *edge = list_nth(graph->edges, i);

		if (edge->waiter != from || edge->blocker == 0)
			continue;
		if (edge->blocker == MyProcPid || find_path(graph, edge->blocker, seen, path))
		{
			*path = lcons(edge, *path);
			return true;
		}
	}
	return false;
}

/* When the session's transaction began on the shards. */
static TimestampTz
began_at(const Graph *graph, int pid)
{
	TimestampTz result = DT_NOEND;

	for (int i = 0; i < graph->slot_count; i++)
	{
		if (graph->slots[i].pid == pid && graph->slots[i].in_transaction)
			result = Min(result, graph->slots[i].began);
	}
	return result;
}

/* Is the first one the better victim? */
static bool
is_better_victim(const Graph *graph, const Edge *edge, const Edge *other)
{
	TimestampTz began = began_at(graph, edge->waiter);
	TimestampTz other_began = began_at(graph, other->waiter);

	if (edge->may_repeat != other->may_repeat)
		return edge->may_repeat;
	return began > other_began || (began == other_began && edge->waiter > other->waiter);
}

/* Of those that wait for a shard, the session that gives up. */
static int
find_victim(const Graph *graph, List *path)
{
	const Edge *victim = NULL;
	ListCell   *cell;

	foreach(cell, path)
	{
		const Edge *edge = lfirst(cell);

		if (edge->shard != NULL && (victim == NULL || is_better_victim(graph, edge, victim)))
			victim = edge;
	}
	return victim != NULL ? victim->waiter : 0;
}

/*
 * Does this session have to break the cycle?  One whose statement can be repeated
 * does so whatever the others do.
 */
static bool
has_to_break(const Graph *graph, List *path)
{
	const Edge *own = linitial(path);

	return (own->shard != NULL && own->may_repeat) || find_victim(graph, path) == MyProcPid;
}

/*
 * Returns the cycle that this session has to break, or NIL.  Connections that were
 * opened for that are added to the list.
 */
static List *
find_cycle(List **conns)
{
	Graph	   *graph = palloc0(sizeof(Graph));
	List	   *seen = NIL;
	List	   *path = NIL;
	bool		found;

	graph->slot_count = sl_shmem_conns(&graph->slots);
	graph->conns = *conns;
	found = find_path(graph, MyProcPid, &seen, &path);
	*conns = graph->conns;
	return found && has_to_break(graph, path) ? path : NIL;
}

static char *
describe_cycle(List *cycle)
{
	StringInfoData lines;
	ListCell   *cell;

	initStringInfo(&lines);
	foreach(cell, cycle)
	{
		const Edge *edge = lfirst(cell);

		appendStringInfo(&lines, "%sSession %d waits for session %d on ",
						 lines.len > 0 ? "\n" : "", edge->waiter, edge->blocker);
		if (edge->shard != NULL)
			appendStringInfo(&lines, "shard \"%s\".", edge->shard);
		else
			appendStringInfoString(&lines, "the router.");
	}
	return lines.data;
}

/*
 * Returns a description of the waits, if this session has to give up, and whether
 * what it blocks is blocked on the router.
 */
static char *
find_deadlock(bool *is_on_router)
{
	List	   *conns = NIL;
	List	   *cycle = find_cycle(&conns);
	ListCell   *cell;

	if (cycle != NIL)
		cycle = find_cycle(&conns);
	foreach(cell, conns)
		sl_conn_close(lfirst(cell));
	if (cycle == NIL)
		return NULL;
	*is_on_router = ((const Edge *) llast(cycle))->shard == NULL;
	return describe_cycle(cycle);
}

/*
 * Searches for a deadlock that this session has to break.  Returns a description of
 * the waits, in the caller's memory context, or NULL.  *is_on_router is set if the
 * lock by which this session takes part in it is one of the router's.
 */
char *
sl_deadlock_to_break(bool *is_on_router)
{
	MemoryContext context;
	MemoryContext old_context;
	char	   *volatile found = NULL;

	*is_on_router = false;
	if (is_searching || !sl_shmem_is_shared() || (!sl_deadlock_watch && dlist_is_empty(sl_txn_participants())))
		return NULL;
	context = AllocSetContextCreate(CurrentMemoryContext, "shardlet deadlock check",
									ALLOCSET_DEFAULT_SIZES);
	old_context = MemoryContextSwitchTo(context);
	is_searching = true;
	PG_TRY();
	{
		found = find_deadlock(is_on_router);
	}
	PG_FINALLY();
	{
		is_searching = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old_context);
	if (found != NULL)
		found = pstrdup(found);
	MemoryContextDelete(context);
	return found;
}

void
sl_deadlock_raise(const char *detail)
{
	ereport(ERROR,
			errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			errmsg("deadlock detected"),
			errdetail_internal("%s", detail),
			errhint("Run the transaction again."));
	pg_unreachable();
}

/*
 * While it is held, a long wait does not search for deadlocks: the caller does.
 * The caller must end that also when an error is raised.
 */
void
sl_deadlock_hold(bool hold)
{
	is_held = hold;
}

/* Raises an error if this session, which has waited for long, has to break a deadlock. */
static void
check_for_deadlock(void)
{
	bool		is_on_router;
	char	   *found = is_held ? NULL : sl_deadlock_to_break(&is_on_router);

	if (found != NULL)
		sl_deadlock_raise(found);
}

void
sl_deadlock_init(void)
{
	sl_hooks.check_deadlock = check_for_deadlock;
}
