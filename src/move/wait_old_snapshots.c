/*
 * wait_old_snapshots.c
 *		Waits for transactions that are older than a step of a move.
 *
 * On the router: those that have used a table of the map.  They may have found rows
 * by an older map, and may query shards again, or have an older snapshot there.  All
 * of them hold a lock on the table until they end, so the holders of any lock are
 * waited for, as CREATE INDEX CONCURRENTLY does.  Transactions that have called
 * query() hold a lock on the map instead.
 *
 * After the switch also those that have snapshots on shards, even if they have used
 * tables of another map only: in these snapshots copied rows are missing, or the
 * removed ones are still visible.  They hold a lock that stands for all maps.
 *
 * On the source: those that have written to the tables, by whichever way they
 * came, prepared ones too.  What they wrote must be there when rows are copied.
 *
 * Nothing is locked meanwhile, and those that begin later are not waited for.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "move/move_internal.h"

#define STEP_MS 20

/* While a shard runs a statement, the move may be cancelled. */
#define TICK_MS 200

/* Locks that only writers take, of the table and its partitions. */
#define WRITERS_SQL \
	"SELECT pg_catalog.array_agg(DISTINCT l.virtualtransaction) FROM pg_catalog.pg_locks l" \
	" WHERE l.locktype OPERATOR(pg_catalog.=) 'relation'" \
	" AND l.database OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())" \
	" AND l.mode OPERATOR(pg_catalog.=) ANY ('{RowExclusiveLock,ShareRowExclusiveLock,ExclusiveLock,AccessExclusiveLock}')" \
	" AND l.granted AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()" \
	" AND l.relation OPERATOR(pg_catalog.=) ANY (ARRAY(" \
	"SELECT p.relid::pg_catalog.oid FROM pg_catalog.unnest($1::pg_catalog.text[]) t," \
	" pg_catalog.pg_partition_tree(pg_catalog.to_regclass(t)) p" \
	" UNION SELECT pg_catalog.to_regclass(t)::pg_catalog.oid FROM pg_catalog.unnest($1::pg_catalog.text[]) t))"

#define LEFT_SQL \
	"SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks" \
	" WHERE virtualtransaction OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.text[])"

/* A moment passes.  Fails when the move is given up. */
void
sl_move_nap(SlMover *mover, int milliseconds)
{
	InvalidateCatalogSnapshot();
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, milliseconds, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	sl_move_check_cancelled(mover);
}

/* Fails when something took too long. */
void
sl_move_check_wait_timeout(TimestampTz since, const char *what)
{
	if (sl_move_wait_timeout > 0 &&
		TimestampDifferenceExceeds(since, GetCurrentTimestamp(), sl_move_wait_timeout))
		ereport(ERROR,
				errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				errmsg("gave up waiting for %s", what),
				errdetail("They were waited for longer than shardlet.move_wait_timeout, %d ms.",
						  sl_move_wait_timeout));
}

/* A moment passes.  Fails as well when it took too long. */
void
sl_move_pause(SlMover *mover, TimestampTz since, const char *what)
{
	sl_move_nap(mover, STEP_MS);
	sl_move_check_wait_timeout(since, what);
}

static void
wait_for_holders(SlMover *mover, const LOCKTAG *tag, TimestampTz since)
{
	int			count;
	VirtualTransactionId *holders = GetLockConflicts(tag, AccessExclusiveLock, &count);

	for (int i = 0; i < count; i++)
	{
		while (!VirtualXactLock(holders[i], false))
			sl_move_pause(mover, since, "transactions that use tables of the map");
	}
}

static void
wait_for_map(SlMover *mover, int32 map_id, TimestampTz since)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, sl_catalog_oid(SL_MAP_TABLE), (Oid) map_id, SL_ORPHANED_HOLD);
	wait_for_holders(mover, &tag, since);
}

/* Waits for all transactions of the router that have snapshots on shards now. */
void
sl_move_wait_for_snapshots(SlMover *mover)
{
	wait_for_map(mover, 0, GetCurrentTimestamp());
}

/* Waits for all transactions of the router that use the map's tables now. */
void
sl_move_wait_for_users(SlMover *mover)
{
	TimestampTz since = GetCurrentTimestamp();
	LOCKTAG		tag;
	ListCell   *cell;

	foreach(cell, mover->tables)
	{
		SET_LOCKTAG_RELATION(tag, MyDatabaseId, ((SlMoveTable *) lfirst(cell))->relid);
		wait_for_holders(mover, &tag, since);
	}
	wait_for_map(mover, mover->map->id, since);
}

static void
wait_for_answer(SlMover *mover, SlConn *conn, SlFailure **failure)
{
	TimestampTz since = GetCurrentTimestamp();

	while (!sl_move_read_result(conn, NULL, failure))
	{
		InvalidateCatalogSnapshot();
		if (sl_wait_conn(conn, sl_wait_deadline(TICK_MS)))
			(void) sl_conn_read(conn, failure);
		sl_move_check_cancelled(mover);
		sl_move_check_wait_timeout(since, "those who have locks on the shard");
	}
}

static SlFailure *
run_patiently(SlMover *mover, SlConn *conn, const char *sql)
{
	SlFailure  *failure = NULL;

	sl_pipeline_query(conn, sql, 0, NULL);
	sl_pipeline_sync(conn);
	wait_for_answer(mover, conn, &failure);
	return failure;
}

/*
 * Runs a statement on a shard that may have to wait for a lock there, for as long as
 * shardlet.move_wait_timeout says, and until the move is cancelled.
 */
void
sl_move_exec(SlMover *mover, SlConn *conn, const char *sql)
{
	SlFailure  *failure = run_patiently(mover, conn, sql);

	if (failure != NULL)
		sl_failure_raise(failure, conn->shard, sql);
}

/* The same for what must not be in a log. */
void
sl_move_exec_quietly(SlMover *mover, SlConn *conn, const char *sql)
{
	SlFailure  *failure = run_patiently(mover, conn, sql);

	if (failure != NULL)
		sl_failure_raise(failure, conn->shard, NULL);
}

/* For what is done again and again: some of it for hours. */
MemoryContext
sl_move_create_short_context(void)
{
	return AllocSetContextCreate(CurrentMemoryContext, "shardlet answer", ALLOCSET_SMALL_SIZES);
}

/* Is one of these transactions still there? */
static bool
has_writers(SlConn *conn, const char *writers)
{
	MemoryContext context = sl_move_create_short_context();
	MemoryContext old_context = MemoryContextSwitchTo(context);
	bool		result = strcmp(sl_protocol_value(conn, sl_remote_query(conn, LEFT_SQL, 1, &writers), 0, 0), "0") != 0;

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	return result;
}

/* Waits for all transactions of the shard that have written to the tables. */
void
sl_move_wait_for_writers(SlMover *mover, SlConn *conn)
{
	TimestampTz since = GetCurrentTimestamp();
	const char *names = sl_move_form_table_names(mover->tables);
	const char *writers = sl_remote_value(sl_remote_query(conn, WRITERS_SQL, 1, &names), 0, 0);

	if (writers == NULL)
		return;
	while (has_writers(conn, writers))
		sl_move_pause(mover, since, "transactions that write to the tables on the shard");
}
