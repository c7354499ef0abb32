/*
 * deadlock.c
 *		Finds deadlocks that go through several shards.
 *
 * No single server sees such a circle.  A session that has waited for a shard
 * for shardlet.deadlock_timeout looks for one: each shard on which somebody waits
 * tells which process of ours blocks which, the router adds its own locks, and
 * shared memory knows the session behind each process.  If the session finds
 * itself in a circle, one of those in it that wait for a shard, the one whose
 * transaction is the youngest, gives up; the others would find the same circle
 * and the same loser.  The questions are asked one after the other, so a circle
 * counts only if it is still there the second time.
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
#include "txn/txn.h"

/*
 * For each process that waits, the processes that block it.  One that is a
 * prepared transaction counts as 0, and there its name is added.
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
} Edge;

typedef struct Graph
{
	SlConnSlot *slots;
	int			slot_count;
	List	   *edges;			/* of Edge */
} Graph;

static bool is_looking = false;

static void
add_edge(Graph *graph, int waiter, int blocker, const char *shard)
{
	Edge	   *edge = palloc(sizeof(Edge));

	edge->waiter = waiter;
	edge->blocker = blocker;
	edge->shard = shard;
	graph->edges = lappend(graph->edges, edge);
}

/* Asking ---------------------------------------------------------------------- */

/* The session behind a process on a shard, or 0. */
static int
session_of(const Graph *graph, int32 shard_id, int remote_pid)
{
	for (int i = 0; i < graph->slot_count; i++)
	{
		if (graph->slots[i].shard_id == shard_id && graph->slots[i].remote_pid == remote_pid)
			return graph->slots[i].pid;
	}
	return 0;
}

/* The processes on a shard that work for somebody, as an array's text. */
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

	if (!sl_gid_parse(name, &gid) || gid.incarnation != sl_incarnation() ||
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

	if (sscanf(item, "%d %d %199s", &waiter, &blocker, name) < 2)
		return;
	add_edge(graph, session_of(graph, shard->id, waiter),
			 blocker == 0 ? session_of_gid(name) : session_of(graph, shard->id, blocker),
			 NameStr(shard->name));
}

/* Asks a shard who blocks whom there.  One that does not answer has no say. */
static void
ask_shard(Graph *graph, SlShard *shard, Oid user)
{
	const char *params[] = {active_pids(graph, shard->id)};
	SlFailure  *failure;
	PGresult   *result;
	SlConn	   *conn;

	if (!shard->exists)
		return;
	conn = sl_remote_try_open_as(shard, user, &failure);
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
	sl_conn_close(conn);
}

/* Who blocks this session on the router? */
static void
ask_router(Graph *graph, int pid)
{
	ArrayType  *array = DatumGetArrayTypeP(OidFunctionCall1(F_PG_BLOCKING_PIDS,
															Int32GetDatum(pid)));
	Datum	   *pids;
	int			count;

	deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT, &pids, NULL, &count);
	for (int i = 0; i < count; i++)
		add_edge(graph, pid, DatumGetInt32(pids[i]), NULL);
}

static Graph *
make_graph(void)
{
	Graph	   *graph = palloc0(sizeof(Graph));
	List	   *asked_shards = NIL;
	List	   *asked_pids = NIL;

	graph->slot_count = sl_stat_conns(&graph->slots);
	for (int i = 0; i < graph->slot_count; i++)
	{
		const SlConnSlot *slot = &graph->slots[i];

		if (slot->is_active && !list_member_int(asked_shards, slot->shard_id))
		{
			asked_shards = lappend_int(asked_shards, slot->shard_id);
			ask_shard(graph, sl_shard_by_id(slot->shard_id), slot->user);
		}
		if (slot->in_transaction && !list_member_int(asked_pids, slot->pid))
		{
			asked_pids = lappend_int(asked_pids, slot->pid);
			ask_router(graph, slot->pid);
		}
	}
	return graph;
}

/* Looking ---------------------------------------------------------------------- */

/* Finds a way from a session to this one; the edges of it are put into path. */
static bool
find_path(const Graph *graph, int from, List **seen, List **path)
{
	ListCell   *cell;

	if (list_member_int(*seen, from))
		return false;
	*seen = lappend_int(*seen, from);
	foreach(cell, graph->edges)
	{
		Edge	   *edge = lfirst(cell);

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

/* Of those that wait for a shard, the one that began last. */
static int
find_loser(const Graph *graph, List *path)
{
	int			loser = 0;
	ListCell   *cell;

	foreach(cell, path)
	{
		const Edge *edge = lfirst(cell);

		if (edge->shard == NULL)
			continue;
		if (loser == 0 || began_at(graph, edge->waiter) > began_at(graph, loser) ||
			(began_at(graph, edge->waiter) == began_at(graph, loser) && edge->waiter > loser))
			loser = edge->waiter;
	}
	return loser;
}

/* Returns the circle that this session has to break, or NIL. */
static List *
find_circle(void)
{
	Graph	   *graph = make_graph();
	List	   *seen = NIL;
	List	   *path = NIL;

	if (!find_path(graph, MyProcPid, &seen, &path) || find_loser(graph, path) != MyProcPid)
		return NIL;
	return path;
}

static char *
describe(List *circle)
{
	StringInfoData lines;
	ListCell   *cell;

	initStringInfo(&lines);
	foreach(cell, circle)
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

/* Returns who waits for whom, if this session has to give up. */
static char *
look(void)
{
	List	   *circle = find_circle();

	if (circle != NIL)
		circle = find_circle();
	return circle != NIL ? describe(circle) : NULL;
}

/*
 * Looks for a deadlock that this session has to break.  Returns who waits for
 * whom, or NULL.
 */
char *
sl_deadlock_to_break(void)
{
	MemoryContext context;
	MemoryContext old_context;
	char	   *volatile found = NULL;

	if (is_looking || !sl_stat_is_shared() || dlist_is_empty(sl_txn_participants()))
		return NULL;
	context = AllocSetContextCreate(CurrentMemoryContext, "shardlet deadlock check",
									ALLOCSET_DEFAULT_SIZES);
	old_context = MemoryContextSwitchTo(context);
	is_looking = true;
	PG_TRY();
	{
		found = look();
	}
	PG_FINALLY();
	{
		is_looking = false;
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

/* This session has waited for long: is it part of a deadlock? */
static void
look_for_deadlock(void)
{
	char	   *found = sl_deadlock_to_break();

	if (found != NULL)
		sl_deadlock_raise(found);
}

void
sl_deadlock_init(void)
{
	sl_wait_long = look_for_deadlock;
}
