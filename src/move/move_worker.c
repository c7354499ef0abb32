/*
 * move_worker.c
 *		The background process that performs a move.
 *
 * There is one for each move.  It is started by the session that calls
 * move_shardlet(), and by the launcher when the server starts or when the process has
 * died: on_shmem_exit wakes the launcher.  The postmaster does not start it again,
 * since it would do so for ever if the database was dropped.  It does one step after
 * the other; a step that failed is done again after a while, or the move is undone.
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
#include "base/fault_points.h"
#include "compat.h"
#include "metadata/shared_memory.h"
#include "move/move.h"
#include "transaction/transaction.h"

PGDLLEXPORT void shardlet_mover_main(Datum arg);

/* The time in which a new move has a process. */
#define SOON_MS 1000

/* The arguments of the process: BackgroundWorker.bgw_extra. */
typedef struct Order
{
	Oid			database;
	int64		move;			/* 0: one in the queue */
#ifdef SL_FAULTS
	char		fault[BGW_EXTRALEN - 32];
#endif
} Order;

static void
describe_worker(BackgroundWorker *worker, int64 id)
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
request_next(void)
{
	sl_shmem_flag_all(SL_SHARD_DIRTY);
}

/* If no process is to be had, the launcher tries again later. */
static bool
try_start(int64 id)
{
	BackgroundWorker worker;

	describe_worker(&worker, id);

	/* The session that waits for it is woken when it ends. */
	worker.bgw_notify_pid = MyProcPid;
	if (RegisterDynamicBackgroundWorker(&worker, NULL))
		return true;
	request_next();
	return false;
}

/* Has a move done.  Fails if no process is to be had. */
void
sl_move_start_worker(int64 id)
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
sl_move_start_queue_worker(void)
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

		if (move->parallel > 0 && move->from_shard == queued->from_shard && move->phase != SL_MOVE_PHASE_QUEUED)
			running++;
	}
	return running < queued->parallel;
}

/*
 * The session that calls move_shardlet() starts its process as well, after the
 * commit.
 */
static bool
is_new(const SlMove *move)
{
	TimestampTz now = GetCurrentTimestamp();

	return move->started <= now && !TimestampDifferenceExceeds(move->started, now, SOON_MS);
}

/* Has all moves done that are not over and have no process. */
void
sl_move_start_workers(void)
{
	List	   *moves = sl_move_list_open();
	bool		has_next = false;
	ListCell   *cell;

	foreach(cell, moves)
	{
		const SlMove *move = lfirst(cell);

		if (move->phase == SL_MOVE_PHASE_QUEUED)
		{
			has_next = has_next || has_room(moves, move);
			continue;
		}
		if (!sl_move_try_own(move->id))
			continue;
		sl_move_disown(move->id);
		if (is_new(move))
			request_next();
		else
			(void) try_start(move->id);
	}

	/* If there is room for more, the next pass finds it. */
	if (has_next)
		(void) try_start(0);
}

/* So long locks on the router are waited for, too. */
static void
take_limits(void)
{
	char		limit[16];

	snprintf(limit, sizeof(limit), "%d", sl_move_wait_timeout);
	SetConfigOption("lock_timeout", limit, PGC_USERSET, PGC_S_SESSION);
}

static void
wait_and_reload(int milliseconds)
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
		take_limits();
	}
}

/*
 * Does one step.  Returns false when the move is over.
 *
 * cancel_move() interrupts a step, whatever it waits for, and nothing else that this
 * process does: a signal that comes in between is dropped.  It is sent after the
 * row says so, which is read when the step begins.
 */
static bool
try_step(int64 id)
{
	ErrorData  *volatile error = NULL;
	volatile bool goes_on = true;

	PG_TRY();
	{
		QueryCancelPending = false;
		RESUME_CANCEL_INTERRUPTS();
		goes_on = sl_move_run_step(id);
		HOLD_CANCEL_INTERRUPTS();
	}
	PG_CATCH();
	{
		/* An error lets all interrupts through again. */
		HOLD_CANCEL_INTERRUPTS();
		MemoryContextSwitchTo(TopMemoryContext);
		error = CopyErrorData();

		/* A SIGTERM is processed when the error is reported. */
		HOLD_INTERRUPTS();
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	if (error != NULL)
	{
		wait_and_reload(sl_move_note_failure(id, error));
		MemoryContextSwitchTo(TopMemoryContext);
		FreeErrorData(error);
	}
	return goes_on;
}

/* Takes on a move, if it is still open and has no other process. */
static bool
take_move(int64 id)
{
	SlMove		move;

	if (!sl_move_try_own(id))
		return false;
	sl_move_lock(id);
	if (sl_move_read(id, &move) && move.is_open)
	{
		if (move.phase == SL_MOVE_PHASE_QUEUED)
			move.phase = SL_MOVE_PHASE_MARK;
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
	moves = sl_move_list_open();
	foreach(cell, moves)
	{
		const SlMove *move = lfirst(cell);

		if (move->phase == SL_MOVE_PHASE_QUEUED && has_room(moves, move) && take_move(move->id))
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
		result = id == 0 ? take_queued() : take_move(id) ? id : 0;
	CommitTransactionCommand();
	return result;
}

/*
 * Wakes the launcher if this process was terminated or has failed.  Its locks are
 * released by now, or the launcher would find that the move has a process.
 */
static void
note_exit(int code, Datum arg)
{
	if (code != 0)
		request_next();
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

	/* Values that are copied as text must lose nothing. */
	SetConfigOption("datestyle", "ISO, YMD", PGC_USERSET, PGC_S_SESSION);
	SetConfigOption("intervalstyle", "postgres", PGC_USERSET, PGC_S_SESSION);
	SetConfigOption("extra_float_digits", "3", PGC_USERSET, PGC_S_SESSION);
	take_limits();
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
	HOLD_CANCEL_INTERRUPTS();
	settle_settings();
	sl_deadlock_watch = true;
#ifdef SL_FAULTS
	SetConfigOption("shardlet.fault", order.fault, PGC_USERSET, PGC_S_SESSION);
#endif
	for (int64 move = find_work(order.move); move != 0; move = find_work(0))
	{
		while (try_step(move))
			wait_and_reload(0);
		sl_move_disown(move);
	}
	proc_exit(0);
}
