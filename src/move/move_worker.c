/*
 * move_worker.c
 *		The process that does a move.
 *
 * One for each move, started by whoever asks for it, and by the launcher when the
 * server starts, or when another one has died: that one asks to be looked after on its
 * way out.  The postmaster does not start it again, since it would do so for ever if the
 * database was dropped.  It does one step after the other; a step that failed is done
 * again after a while, or the move is undone.
 *
 * When a move is over the process takes on one that waits in the queue.  How many
 * may run is in the rows of these, so it does not matter how many processes look.
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
#include "utils/timestamp.h"

#include "base/base.h"
#include "base/fault.h"
#include "compat.h"
#include "move/move.h"
#include "stat/stat.h"

PGDLLEXPORT void shardlet_mover_main(Datum arg);

/* The time in which a new move has a process. */
#define SOON_MS 1000

/* What the process is told: BackgroundWorker.bgw_extra. */
typedef struct Order
{
	Oid			database;
	int64		move;			/* 0: one in the queue */
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
	worker->bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker->bgw_library_name, SL_WRAPPER_NAME, sizeof(worker->bgw_library_name));
	strlcpy(worker->bgw_function_name, "shardlet_mover_main", sizeof(worker->bgw_function_name));
	if (id != 0)
		snprintf(worker->bgw_name, BGW_MAXLEN, "shardlet move %lld", (long long) id);
	else
		strlcpy(worker->bgw_name, "shardlet move", BGW_MAXLEN);
	strlcpy(worker->bgw_type, "shardlet move", BGW_MAXLEN);
#ifdef SL_FAULTS
	strlcpy(order.fault, sl_fault_setting != NULL ? sl_fault_setting : "", sizeof(order.fault));
#endif
	StaticAssertStmt(sizeof(Order) <= BGW_EXTRALEN, "order must fit");
	memcpy(worker->bgw_extra, &order, sizeof(Order));
}

/* The launcher shall look after moves that have no process. */
static void
ask_for_another(void)
{
	sl_stat_flag_all(SL_SHARD_DIRTY);
}

/* If no process is to be had, the launcher tries again later. */
static bool
try_start(int64 id)
{
	BackgroundWorker worker;

	describe(&worker, id);

	/* Whoever waits for it is woken when it ends. */
	worker.bgw_notify_pid = MyProcPid;
	if (RegisterDynamicBackgroundWorker(&worker, NULL))
		return true;
	ask_for_another();
	return false;
}

/* Has a move done.  Fails if no process is to be had. */
void
sl_move_start(int64 id)
{
	if (!try_start(id))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				errmsg("could not start a process for move %lld", (long long) id),
				errhint("Raise max_worker_processes on the router, then CALL shardlet.resume_move(%lld).",
						(long long) id));
}

/* Has one move in the queue done, then the next.  Returns false if no process is to be had. */
bool
sl_move_start_queue(void)
{
	return try_start(0);
}

/* May one that waits in the queue be taken on?  Not if so many run that leave the same shard. */
static bool
has_room(List *moves, const SlMove *queued)
{
	int			running = 0;
	ListCell   *cell;

	foreach(cell, moves)
	{
		const SlMove *move = lfirst(cell);

		if (move->parallel > 0 && move->from_shard == queued->from_shard && !sl_move_is_queued(move))
			running++;
	}
	return running < queued->parallel;
}

/* Whoever asks for a move starts its process as well, after the commit. */
static bool
is_new(const SlMove *move)
{
	TimestampTz now = GetCurrentTimestamp();

	return move->started <= now && !TimestampDifferenceExceeds(move->started, now, SOON_MS);
}

/* Has all moves done that are not over and have no process. */
void
sl_move_start_open(void)
{
	List	   *moves = sl_move_all_open();
	bool		has_next = false;
	ListCell   *cell;

	foreach(cell, moves)
	{
		const SlMove *move = lfirst(cell);

		if (sl_move_is_queued(move))
		{
			has_next = has_next || has_room(moves, move);
			continue;
		}
		if (!sl_move_try_own(move->id))
			continue;
		sl_move_disown(move->id);
		if (is_new(move))
			ask_for_another();
		else
			(void) try_start(move->id);
	}

	/* If there is room for more, the next pass finds it. */
	if (has_next)
		(void) try_start(0);
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
		if (sl_move_is_queued(&move))
			strlcpy(move.phase, sl_move_first_phase(), sizeof(move.phase));
		sl_move_update(&move);
		return true;
	}
	sl_move_disown(id);
	return false;
}

/* Takes on the next one that waits in the queue; 0: there is none, or no room. */
static int64
take_queued(void)
{
	List	   *moves;
	ListCell   *cell;

	sl_move_lock_queue();
	moves = sl_move_all_open();
	foreach(cell, moves)
	{
		const SlMove *move = lfirst(cell);

		if (sl_move_is_queued(move) && has_room(moves, move) && take(move->id))
			return move->id;
	}
	return 0;
}

/* Takes on a move, or for 0 one in the queue; 0: there is nothing to do. */
static int64
find_work(int64 id)
{
	int64		result = 0;

	StartTransactionCommand();
	if (sl_catalog_is_installed())
		result = id == 0 ? take_queued() : take(id) ? id : 0;
	CommitTransactionCommand();
	return result;
}

/*
 * Somebody must go on if this process was ended or has failed.  Its locks are gone by
 * now, or the launcher would find that the move has a process.
 */
static void
note_exit(int code, Datum arg)
{
	if (code != 0)
		ask_for_another();
}

/*
 * What the database has set for applications must not keep rows from being moved: a
 * switch writes to two shards, and one that is done must be finished.
 */
static void
settle_settings(void)
{
	SetConfigOption("default_transaction_read_only", "off", PGC_USERSET, PGC_S_SESSION);
	SetConfigOption("shardlet.multi_shard_transactions", "on", PGC_USERSET, PGC_S_SESSION);
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
	on_shmem_exit(note_exit, (Datum) 0);
	settle_settings();
#ifdef SL_FAULTS
	SetConfigOption("shardlet.fault", order.fault, PGC_USERSET, PGC_S_SESSION);
#endif
	for (int64 move = find_work(order.move); move != 0; move = find_work(0))
	{
		while (try_step(move))
			rest(0);
		sl_move_disown(move);
	}
	proc_exit(0);
}
