/*
 * move_worker.c
 *		The process that does a move.
 *
 * One for each move, started by whoever asks for it, by the launcher when the
 * server starts, and again by the postmaster if it died.  It does one step after the other;
 * a step that failed is done again after a while, or the move is undone.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "base/fault.h"
#include "compat.h"
#include "move/move.h"

PGDLLEXPORT void shardlet_mover_main(Datum arg);

#define RESTART_SECONDS 2

/* What the process is told: BackgroundWorker.bgw_extra. */
typedef struct Order
{
	Oid			database;
	int64		move;
#ifdef SL_FAULTS
	char		fault[BGW_EXTRALEN - 32];
#endif
} Order;

static void
describe(BackgroundWorker *worker, int64 id)
{
	Order		order = {.database = MyDatabaseId,.move = id};

	memset(worker, 0, sizeof(BackgroundWorker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = RESTART_SECONDS;
	strlcpy(worker->bgw_library_name, SL_WRAPPER_NAME, sizeof(worker->bgw_library_name));
	strlcpy(worker->bgw_function_name, "shardlet_mover_main", sizeof(worker->bgw_function_name));
	snprintf(worker->bgw_name, BGW_MAXLEN, "shardlet move %lld", (long long) id);
	strlcpy(worker->bgw_type, "shardlet move", BGW_MAXLEN);
#ifdef SL_FAULTS
	strlcpy(order.fault, sl_fault_setting != NULL ? sl_fault_setting : "", sizeof(order.fault));
#endif
	StaticAssertStmt(sizeof(Order) <= BGW_EXTRALEN, "order must fit");
	memcpy(worker->bgw_extra, &order, sizeof(Order));
}

/* Has a move done.  Fails if no process is to be had. */
void
sl_move_start(int64 id)
{
	BackgroundWorker worker;

	describe(&worker, id);

	/* Whoever waits for it is woken when it ends. */
	worker.bgw_notify_pid = MyProcPid;
	if (!RegisterDynamicBackgroundWorker(&worker, NULL))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				errmsg("could not start a process for move %lld", (long long) id),
				errhint("Raise max_worker_processes on the router, then CALL shardlet.resume_move(%lld).",
						(long long) id));
}

/*
 * Has all moves done that are not over, after a start of the server.  Of those
 * that wait in a queue one process does one after the other.
 */
void
sl_move_start_open(void)
{
	bool		has_queue = false;
	ListCell   *cell;

	foreach(cell, sl_move_all_open())
	{
		const SlMove *move = lfirst(cell);
		bool		is_queued = strcmp(move->phase, SL_MOVE_QUEUED) == 0;

		/* One that has a process needs no other. */
		if ((is_queued && has_queue) || !sl_move_try_own(move->id))
			continue;
		sl_move_disown(move->id);
		sl_move_start(move->id);
		has_queue = has_queue || is_queued;
	}
}

static void
rest(int milliseconds)
{
	if (milliseconds > 0)
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, milliseconds,
						 PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* Does one step.  Returns false when the move is over. */
static bool
try_step(int64 id)
{
	ErrorData  *volatile error = NULL;
	volatile bool goes_on = true;

	PG_TRY();
	{
		goes_on = sl_move_step(id);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(TopMemoryContext);
		error = CopyErrorData();

		/* A process that is told to go does so. */
		HOLD_INTERRUPTS();
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	if (error != NULL)
	{
		rest(sl_move_note_failure(id, error));
		MemoryContextSwitchTo(TopMemoryContext);
		FreeErrorData(error);
	}
	return goes_on;
}

/* Takes on a move, if it is still there and nobody else is at it. */
static bool
take(int64 id)
{
	SlMove		move;

	if (!sl_move_try_own(id))
		return false;
	sl_move_lock(id);
	if (sl_move_read(id, &move) && move.is_open)
	{
		if (strcmp(move.phase, SL_MOVE_QUEUED) == 0)
			strlcpy(move.phase, sl_move_first_phase(), sizeof(move.phase));
		sl_move_update(&move);
		return true;
	}
	sl_move_disown(id);
	return false;
}

/* Takes on the next one that waits in the queue; 0: there is none. */
static int64
take_queued(void)
{
	ListCell   *cell;

	foreach(cell, sl_move_all_open())
	{
		const SlMove *move = lfirst(cell);

		if (strcmp(move->phase, SL_MOVE_QUEUED) == 0 && take(move->id))
			return move->id;
	}
	return 0;
}

static int64
find_work(int64 first)
{
	int64		result = 0;

	StartTransactionCommand();
	if (sl_catalog_is_installed())
		result = first != 0 && take(first) ? first : first == 0 ? take_queued() : 0;
	CommitTransactionCommand();
	return result;
}

void
shardlet_mover_main(Datum arg)
{
	Order		order;

	memcpy(&order, MyBgworkerEntry->bgw_extra, sizeof(Order));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(order.database, InvalidOid, 0);
#ifdef SL_FAULTS
	SetConfigOption("shardlet.fault", order.fault, PGC_USERSET, PGC_S_SESSION);
#endif
	for (int64 move = find_work(order.move); move != 0; move = find_work(0))
	{
		while (try_step(move))
			rest(0);
		sl_move_disown(move);
	}

	/* Nobody starts it again then. */
	proc_exit(0);
}
