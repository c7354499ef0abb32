/*
 * launcher.c
 *		Sees to it that what was left prepared on shards is finished, and that moves
 *		of shardlets go on.
 *
 * It starts the processes that analyze tables, too (statistics.c).
 *
 * One launcher serves the server.  When it starts it has every database looked
 * at once, and from then on, every shardlet.recovery_interval, those in which a
 * shard is not known to be clean.  The work is done by a process that connects
 * to the database, makes one pass and ends, so that nothing keeps a database
 * from being dropped.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "compat.h"
#include "executor/multi_shard.h"
#include "metadata/map.h"
#include "metadata/shared_memory.h"
#include "move/move.h"
#include "transaction/transaction.h"
#include "worker/worker.h"

PGDLLEXPORT void shardlet_launcher_main(Datum arg);
PGDLLEXPORT void shardlet_recovery_main(Datum arg);

#define RESTART_SECONDS 5
#define GATHER_MS 100

/* So long a shard may take with its copies of maps: as one of many, or at the end. */
#define SOON_MS 500
#define LATER_MS 10000

/* The launcher ---------------------------------------------------------------- */

/* Databases that allow connections; in the caller's context. */
static List *
all_databases(void)
{
	MemoryContext context = CurrentMemoryContext;
	List	   *result = NIL;
	Relation	relation;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	relation = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(relation, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext old_context;

		if (!database->datallowconn || database->datistemplate)
			continue;
		old_context = MemoryContextSwitchTo(context);
		result = lappend_oid(result, database->oid);
		MemoryContextSwitchTo(old_context);
	}
	table_endscan(scan);
	table_close(relation, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	return result;
}

static void
describe_worker(BackgroundWorker *worker, const char *function, const char *name)
{
	memset(worker, 0, sizeof(BackgroundWorker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	strlcpy(worker->bgw_library_name, SL_WRAPPER_NAME, sizeof(worker->bgw_library_name));
	strlcpy(worker->bgw_function_name, function, sizeof(worker->bgw_function_name));
	strlcpy(worker->bgw_name, name, BGW_MAXLEN);
	strlcpy(worker->bgw_type, name, BGW_MAXLEN);
}

static BackgroundWorkerHandle *
start_pass(Oid database)
{
	BackgroundWorker worker;
	BackgroundWorkerHandle *handle;

	describe_worker(&worker, "shardlet_recovery_main", "shardlet recovery");
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(database);
	worker.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&worker, &handle) ? handle : NULL;
}

/* Has these databases looked at, and waits for it. */
static void
look_at_databases(List *databases)
{
	List	   *handles = NIL;
	ListCell   *cell;

	foreach(cell, databases)
	{
		BackgroundWorkerHandle *handle = start_pass(lfirst_oid(cell));

		if (handle == NULL && handles != NIL)
		{
			/*
			 * No background process is free: wait until one of these has
			 * ended.
			 */
			(void) WaitForBackgroundWorkerShutdown(llast(handles));
			handle = start_pass(lfirst_oid(cell));
		}
		if (handle != NULL)
			handles = lappend(handles, handle);
	}
	foreach(cell, handles)
		(void) WaitForBackgroundWorkerShutdown(lfirst(cell));
}

/* The databases that have shards with one of these flags and still exist; all with shards, for 0. */
static List *
databases_with(uint32 flags)
{
	Oid		   *found;
	int			count = sl_shmem_databases(flags, &found);
	List	   *existing;
	List	   *result = NIL;

	if (count == 0)
		return NIL;
	existing = all_databases();
	for (int i = 0; i < count; i++)
	{
		if (list_member_oid(existing, found[i]))
			result = lappend_oid(result, found[i]);
		else
			sl_shmem_forget_database(found[i]);
	}
	return result;
}

/* Statistics -------------------------------------------------------------------- */

/* The process that looks at the statistics of a database, or the last one. */
typedef struct StatisticsPass
{
	Oid			database;
	BackgroundWorkerHandle *handle;
} StatisticsPass;

static List *passes = NIL;		/* in TopMemoryContext */
static TimestampTz next_statistics = 0;

static StatisticsPass *
find_pass(Oid database)
{
	MemoryContext old_context;
	StatisticsPass *pass;
	ListCell   *cell;

	foreach(cell, passes)
	{
		pass = lfirst(cell);
		if (pass->database == database)
			return pass;
	}
	old_context = MemoryContextSwitchTo(TopMemoryContext);
	pass = palloc0(sizeof(StatisticsPass));
	pass->database = database;
	passes = lappend(passes, pass);
	MemoryContextSwitchTo(old_context);
	return pass;
}

/* Starts a process for a database whose last one has ended, and does not wait for it. */
static void
start_statistics(Oid database)
{
	StatisticsPass *pass = find_pass(database);
	BackgroundWorker worker;
	MemoryContext old_context;
	pid_t		pid;

	if (pass->handle != NULL && GetBackgroundWorkerPid(pass->handle, &pid) != BGWH_STOPPED)
		return;
	if (pass->handle != NULL)
		pfree(pass->handle);
	pass->handle = NULL;
	describe_worker(&worker, "shardlet_statistics_main", "shardlet statistics");
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(database);
	old_context = MemoryContextSwitchTo(TopMemoryContext);
	(void) RegisterDynamicBackgroundWorker(&worker, &pass->handle);
	MemoryContextSwitchTo(old_context);
}

/* Has the statistics of all routers on this server looked at, when it is time. */
static void
look_at_statistics(void)
{
	TimestampTz now = GetCurrentTimestamp();
	ListCell   *cell;

	if (sl_analyze_interval == 0 || !AutoVacuumingActive() || now < next_statistics)
		return;
	next_statistics = TimestampTzPlusMilliseconds(now, sl_analyze_interval);
	foreach(cell, databases_with(0))
		start_statistics(lfirst_oid(cell));
}

/* How long to wait for something to do. */
static long
choose_timeout(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (sl_analyze_interval == 0)
		return sl_recovery_interval;

	/* The interval may have become shorter. */
	next_statistics = Min(next_statistics, TimestampTzPlusMilliseconds(now, sl_analyze_interval));
	return Min((long) sl_recovery_interval, TimestampDifferenceMilliseconds(now, next_statistics) + 1);
}

void
shardlet_launcher_main(Datum arg)
{
	MemoryContext context;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	context = AllocSetContextCreate(TopMemoryContext, "shardlet launcher", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	sl_shmem_set_launcher(MyLatch);
	look_at_databases(all_databases());
	for (;;)
	{
		int			events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
									   choose_timeout(), PG_WAIT_EXTENSION);

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();

		/* Changes of maps tend to come in numbers. */
		if ((events & WL_LATCH_SET) != 0)
			pg_usleep(GATHER_MS * 1000L);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		MemoryContextReset(context);
		look_at_databases(databases_with(SL_SHARD_DIRTY | SL_SHARD_MAPS));
		look_at_statistics();
	}
}

/* One pass over a database ------------------------------------------------------ */

static void
begin_transaction(void)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
commit_transaction(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* Sends copies of maps to one shard.  An error is this shard's alone. */
static bool
send_copies(int32 shard, int limit_ms)
{
	volatile bool done = false;

	PG_TRY();
	{
		begin_transaction();
		done = sl_publish_copies_to(shard, limit_ms);
		commit_transaction();
	}
	PG_CATCH();
	{
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		done = false;
	}
	PG_END_TRY();
	return done;
}

/*
 * Shard by shard, and those last that need longer: no other one waits for them.
 * No connection, and no transaction, is kept from one to the next.
 */
static void
send_all_copies(List *shards)
{
	List	   *slow = NIL;
	ListCell   *cell;

	foreach(cell, shards)
	{
		if (!send_copies(lfirst_int(cell), SOON_MS))
			slow = lappend_int(slow, lfirst_int(cell));
	}
	foreach(cell, slow)
		(void) send_copies(lfirst_int(cell), LATER_MS);
}

/* Returns the ids of the shards that want copies of maps. */
static List *
recover_database(Oid database)
{
	int			finished = 0;

	if (!sl_catalog_is_installed())
	{
		sl_shmem_forget_database(database);
		return NIL;
	}
	sl_recover_all(&finished);
	(void) sl_pool_close_idle(0);
	if (finished > 0)
		ereport(LOG,
				errmsg("finished %d prepared transactions on shards", finished));
	sl_move_start_workers();
	return sl_publish_outdated();
}

void
shardlet_recovery_main(Datum arg)
{
	Oid			database = DatumGetObjectId(arg);
	MemoryContext context = CurrentMemoryContext;
	MemoryContext old_context;
	List	   *shards;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	begin_transaction();
	shards = recover_database(database);
	old_context = MemoryContextSwitchTo(context);
	shards = list_copy(shards);
	MemoryContextSwitchTo(old_context);
	commit_transaction();
	MemoryContextSwitchTo(context);
	send_all_copies(shards);
}

void
sl_worker_init(void)
{
	BackgroundWorker worker;

	if (!sl_preloaded())
		return;
	describe_worker(&worker, "shardlet_launcher_main", "shardlet launcher");
	worker.bgw_restart_time = RESTART_SECONDS;
	RegisterBackgroundWorker(&worker);
}
