/*
 * steps.c
 *		The steps of a move, as a table, and how one leads to the next.
 *
 * The phase in the move's row is the step that is being done: it is committed
 * before the step begins.  What a step changes in the router's catalog, and
 * with that on the shards, is one transaction with the change of the phase;
 * all other steps can be done again from their beginning.  So whatever dies, the
 * step that is in the row is done, again if need be, by the next process.
 *
 * Until the switch a move can be undone: nothing is lost then but what was copied.
 * After it, a move can only be finished.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "move/move_internal.h"

/* A failure that may pass is met so often before the move is undone. */
#define MAX_ATTEMPTS 5
#define MIN_PAUSE_MS 500
#define MAX_PAUSE_MS 10000

/* Locks for the switch are not waited for long, and requested again soon. */
#define MAX_LOCK_ATTEMPTS 200
#define LOCK_PAUSE_MS 100

/* How often the row is looked at, and written to. */
#define LOOK_MS 500

/* For which modes a step is. */
#define ONLINE (1 << SL_MOVE_ONLINE)
#define OTHERS ((1 << SL_MOVE_READ_ONLY) | (1 << SL_MOVE_OFFLINE))
#define ALL (ONLINE | OTHERS)

typedef struct Step
{
	SlMovePhase phase;
	int			modes;
	bool		is_transaction; /* one with the change of the phase */
	bool		can_undo;
	bool		needs_tables;	/* opens the router's, so it waits for DDL */
	SlMovePhase end;			/* the phase after the last step; otherwise
								 * SL_MOVE_PHASE_QUEUED */
	const char *begins;			/* what begins now, for the log */
	void		(*run) (SlMover *mover);
	const char *fault;			/* where tests stop it: before */
	const char *fault_done;		/* and after it, before the new phase is
								 * recorded */
} Step;

#define NOT_LAST SL_MOVE_PHASE_QUEUED

/* The names of a phase's crash points. */
#define FAULTS(name) "move_" name, "move_" name "_done"

static const Step steps[] = {
	/* The target joins the map, and the range changes its state. */
	{SL_MOVE_PHASE_MARK, ALL, true, true, false, NOT_LAST, "marking the shardlet as being moved",
	sl_move_do_mark, FAULTS("mark")},
	/* Transactions that have read the map before the mark must end first. */
	{SL_MOVE_PHASE_WAIT, ALL, false, true, true, NOT_LAST, "waiting for transactions that use the map as it was",
	sl_move_do_wait, FAULTS("wait")},
	{SL_MOVE_PHASE_COPY, ALL, false, true, true, NOT_LAST, "copying its rows",
	sl_move_do_copy, FAULTS("copy")},
	/* Online, that is part of the copy: under its snapshot. */
	{SL_MOVE_PHASE_VERIFY, OTHERS, false, true, true, NOT_LAST, "comparing the rows of both shards",
	sl_move_do_verify, FAULTS("verify")},
	/* Changes since the copy are applied. */
	{SL_MOVE_PHASE_FOLLOW, ONLINE, false, true, true, NOT_LAST, "applying the changes since the copy",
	sl_move_do_follow, FAULTS("follow")},
	/* The target becomes the owner. */
	{SL_MOVE_PHASE_SWITCH, ALL, true, true, true, NOT_LAST, "switching the ownership",
	sl_move_do_switch, FAULTS("switch")},
	/* Must precede the removal of rows, which would be replicated otherwise. */
	{SL_MOVE_PHASE_DETACH, ONLINE, false, false, true, NOT_LAST, "dropping the subscription and the publication",
	sl_move_do_detach, FAULTS("detach")},
	/* Transactions that have read the map before the switch must end first. */
	{SL_MOVE_PHASE_SETTLE, ALL, false, false, true, NOT_LAST, "waiting for transactions that still read from the source",
	sl_move_do_wait_readers, FAULTS("settle")},
	{SL_MOVE_PHASE_REMOVE, ALL, false, false, true, NOT_LAST, "removing its rows from the source",
	sl_move_do_remove, FAULTS("remove")},
	{SL_MOVE_PHASE_FINISH, ALL, true, false, false, SL_MOVE_PHASE_DONE, "finishing",
	sl_move_do_finish, FAULTS("finish")},

	/* The way back. */
	{SL_MOVE_PHASE_UNDO, ALL, true, false, false, NOT_LAST, "undoing the move",
	sl_move_do_undo, FAULTS("undo")},
	{SL_MOVE_PHASE_UNDO_REMOVE, ALL, false, false, true, NOT_LAST, "removing copied rows from the target",
	sl_move_do_undo_remove, FAULTS("undo_remove")},
	{SL_MOVE_PHASE_UNDO_FINISH, ALL, true, false, false, SL_MOVE_PHASE_FAILED, "finishing the undo",
	sl_move_do_finish, FAULTS("undo_finish")},

	/*
	 * The shardlet was dropped along with a shard: what is left of the move
	 * is removed.
	 */
	{SL_MOVE_PHASE_LOST, ALL, false, false, true, NOT_LAST, "cleaning up, because the shardlet does not exist any more",
	sl_move_do_lost, FAULTS("lost")},
	{SL_MOVE_PHASE_LOST_FINISH, ALL, true, false, false, SL_MOVE_PHASE_FAILED, "finishing the clean-up",
	sl_move_do_lost_finish, FAULTS("lost_finish")},
};

static const Step *
find_step(SlMovePhase phase)
{
	for (int i = 0; i < (int) lengthof(steps); i++)
	{
		if (steps[i].phase == phase)
			return &steps[i];
	}
	elog(ERROR, "phase \"%s\" of a move has no step", sl_move_phase_name(phase));
}

/* Is it too late to undo the move, or is that being done? */
bool
sl_move_is_past_undo(const SlMove *move)
{
	return move->is_open && move->phase != SL_MOVE_PHASE_QUEUED && !find_step(move->phase)->can_undo;
}

/*
 * Says in the server's log what begins now, or how the move has ended.  The caller is in
 * a transaction; map and shards may have been dropped.
 */
static void
log_phase(const SlMove *move)
{
	SlMapRow	map;
	bool		has_map = sl_map_row_read_id(move->map_id, &map);
	const char *what = move->is_open ? find_step(move->phase)->begins :
	move->phase == SL_MOVE_PHASE_DONE ? "done" :
	move->phase == SL_MOVE_PHASE_CANCELLED ? "cancelled" : "failed";

	ereport(LOG,
			errmsg("move %lld of shardlet %lld of map \"%s\" from shard \"%s\" to shard \"%s\": %s",
				   (long long) move->id, (long long) move->shardlet, has_map ? NameStr(map.name) : "",
				   NameStr(sl_shard_by_id(move->from_shard)->name), NameStr(sl_shard_by_id(move->to_shard)->name),
				   what),
			!move->is_open && move->last_error != NULL && move->phase != SL_MOVE_PHASE_DONE ?
			errdetail_internal("%s", move->last_error) : 0);
}

/* One step --------------------------------------------------------------------- */

/* Begins a transaction in which nothing has been written. */
void
sl_move_begin_transaction(SlMover *mover)
{
	if (IsTransactionState())
		CommitTransactionCommand();
	StartTransactionCommand();
	MemoryContextSwitchTo(mover->context);
}

/*
 * The shardlet was dropped along with its shard or its map: there is nothing left to
 * be moved.  If some shard has orphaned rows of it, these are removed first; the row
 * of catalog_stray has their range.
 */
static void
load_lost(SlMover *mover)
{
	SlMove	   *move = &mover->move;
	SlMapRow	map;
	const SlOrphanedRange *orphan = sl_map_row_read_id(move->map_id, &map) ?
	sl_orphaned_find(sl_map_get_by_id(move->map_id), move->id) : NULL;

	if (orphan != NULL)
		mover->range = orphan->range;
	if (orphan != NULL && move->phase == SL_MOVE_PHASE_LOST_FINISH)
		return;
	move->is_open = orphan != NULL;
	sl_move_lock(move->id);
	move->last_error = psprintf("shardlet %lld does not exist any more", (long long) move->shardlet);
	move->phase = move->is_open ? SL_MOVE_PHASE_LOST : SL_MOVE_PHASE_FAILED;
	sl_move_update(move);
	sl_move_begin_transaction(mover);
}

pg_noreturn static void
raise_cancelled(void)
{
	ereport(ERROR,
			errcode(ERRCODE_QUERY_CANCELED),
			errmsg("the move was cancelled"));
}

/*
 * Reads what the step needs.  Whether the move was cancelled is found out before any
 * lock is waited for.
 */
static void
load_step(SlMover *mover, int64 id)
{
	if (!sl_move_read(id, &mover->move))
		elog(ERROR, "could not find move %lld", (long long) id);
	if (!mover->move.is_open)
		return;
	if (mover->move.is_cancelled && find_step(mover->move.phase)->can_undo)
		raise_cancelled();
	if (!sl_shardlet_row_read(mover->move.shardlet, &mover->range))
	{
		load_lost(mover);
		if (!mover->move.is_open)
			return;
	}
	mover->map = sl_map_get_by_id(mover->move.map_id);
	mover->from = sl_shard_by_id(mover->move.from_shard);
	mover->to = sl_shard_by_id(mover->move.to_shard);
	if (find_step(mover->move.phase)->needs_tables)
		mover->tables = sl_move_list_tables(mover->map, &mover->range);
	mover->looked_up = mover->timed = GetCurrentTimestamp();
}

/* Reads the row again, to change it. */
static void
lock_and_read(SlMove *move, int64 id)
{
	sl_move_lock(id);
	if (!sl_move_read(id, move))
		elog(ERROR, "could not find move %lld", (long long) id);
}

/* Returns the phase that follows a step which is done. */
static SlMovePhase
next_phase(const SlMove *move, const Step *step)
{
	if (step->end != NOT_LAST)
		return step->end;
	do
		step++;
	while ((step->modes & (1 << move->mode)) == 0);
	return step->phase;
}

/* Records in the open transaction that the step is done, and which phase follows. */
static void
record_step(SlMover *mover, const Step *step)
{
	SlMove		move;

	lock_and_read(&move, mover->move.id);
	if (move.phase != step->phase)
		elog(ERROR, "move %lld is in phase \"%s\", not \"%s\"", (long long) move.id, sl_move_phase_name(move.phase),
			 sl_move_phase_name(step->phase));
	move.phase = next_phase(&move, step);
	if (step->end != NOT_LAST)
	{
		move.is_open = false;
		if (step->end == SL_MOVE_PHASE_FAILED && move.is_cancelled)
			move.phase = SL_MOVE_PHASE_CANCELLED;
	}
	move.attempts = 0;
	move.lag = -1;
	sl_move_update(&move);
}

/* Does the row say so?  Memory is freed, because this is called for hours. */
static bool
is_cancelled(int64 id)
{
	MemoryContext context = sl_move_create_short_context();
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SlMove		move;
	bool		result = sl_move_read(id, &move) && move.is_cancelled;

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	return result;
}

/*
 * Fails if the move was cancelled; its row is read twice a second.  Releases the
 * catalog snapshot, because callers wait next and other sessions would wait for the
 * snapshot.
 */
void
sl_move_check_cancelled(SlMover *mover)
{
	TimestampTz now = GetCurrentTimestamp();

	if (TimestampDifferenceExceeds(mover->looked_up, now, LOOK_MS))
	{
		mover->looked_up = now;
		if (mover->may_stop && is_cancelled(mover->move.id))
			raise_cancelled();
	}
	InvalidateCatalogSnapshot();
}

/*
 * Ends a transaction that only records progress, and begins another.  A crash may
 * lose it, so the commit does not wait for the disk: copying rows waits meanwhile.
 */
static void
commit_progress(SlMover *mover)
{
	(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
							 false);
	sl_move_begin_transaction(mover);
}

/* Writes how far rows are copied, or how much is left to be applied. */
static void
write_progress(SlMover *mover, const SlMoveProgress *progress, int64 lag)
{
	MemoryContext context = sl_move_create_short_context();
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SlMove		move;

	lock_and_read(&move, mover->move.id);
	if (progress != NULL)
	{
		move.rows_done = progress->rows;
		move.bytes_done = progress->bytes;
		move.tables_done = progress->tables;
	}
	else
		move.lag = lag;
	sl_move_update(&move);
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	commit_progress(mover);
}

/* Lets others see how far it is; ends the transaction and begins another. */
void
sl_move_report_progress(SlMover *mover, const SlMoveProgress *progress)
{
	bool		is_due = TimestampDifferenceExceeds(mover->looked_up, GetCurrentTimestamp(), LOOK_MS);

	sl_move_check_cancelled(mover);
	if (is_due)
		write_progress(mover, progress, -1);
}

/* The same for what is left to be applied; -1: not known. */
void
sl_move_report_lag(SlMover *mover, int64 lag)
{
	if (!TimestampDifferenceExceeds(mover->looked_up, GetCurrentTimestamp(), LOOK_MS))
		return;
	sl_move_check_cancelled(mover);
	write_progress(mover, NULL, lag);
}

/* For the server's log: how long a part of the step took. */
void
sl_move_log_time(SlMover *mover, const char *what)
{
	TimestampTz now = GetCurrentTimestamp();

	elog(DEBUG1, "move %lld, %s: %s took %.1f ms", (long long) mover->move.id, sl_move_phase_name(mover->move.phase), what,
		 (double) (now - mover->timed) / 1000);
	mover->timed = now;
}

static void
run_step(SlMover *mover, const Step *step)
{
	/* An attempt that is repeated has its error in the log. */
	if (mover->move.attempts == 0)
		log_phase(&mover->move);
	mover->may_stop = step->can_undo;
	InvalidateCatalogSnapshot();
	sl_fault(step->fault);
	step->run(mover);
	sl_fault(step->fault_done);
	if (!step->is_transaction)
		sl_move_begin_transaction(mover);
	record_step(mover, step);
	CommitTransactionCommand();
	sl_move_log_time(mover, "the rest");
}

/* Runs a step.  If it fails, nothing of it goes on on the shards. */
static void
run_or_stop(SlMover *mover, const Step *step)
{
	PG_TRY();
	{
		run_step(mover, step);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(mover->context);
		sl_move_cancel_connections(mover);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * Does the next step of a move.  Returns false if there is none.  An error
 * leaves the phase as it is: see sl_move_note_failure().
 */
bool
sl_move_run_step(int64 id)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "shardlet move", ALLOCSET_DEFAULT_SIZES);
	SlMover    *mover;
	volatile bool is_open = false;

	MemoryContextSwitchTo(context);
	mover = palloc0(sizeof(SlMover));
	mover->context = context;
	PG_TRY();
	{
		sl_move_begin_transaction(mover);
		load_step(mover, id);
		is_open = mover->move.is_open;
		if (is_open)
		{
			SetUserIdAndSecContext(mover->move.user, 0);
			run_or_stop(mover, find_step(mover->move.phase));
		}
		else
		{
			/* Its last phase is committed by now. */
			log_phase(&mover->move);
			CommitTransactionCommand();
		}
	}
	PG_FINALLY();
	{
		SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, 0);
		MemoryContextSwitchTo(TopMemoryContext);

		/* Connections go with it. */
		MemoryContextDelete(context);
	}
	PG_END_TRY();
	return is_open;
}

/* Failures ------------------------------------------------------------------------ */

/* Could it be better after a while? */
static bool
may_pass(const ErrorData *error)
{
	int			class = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	return class == ERRCODE_CONNECTION_EXCEPTION || class == ERRCODE_INSUFFICIENT_RESOURCES ||
		class == ERRCODE_OPERATOR_INTERVENTION || class == ERRCODE_TRANSACTION_ROLLBACK ||
		error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE || error->sqlerrcode == SL_ERR_UNREACHABLE;
}

static char *
describe_error(const ErrorData *error)
{
	if (error->detail == NULL)
		return pstrdup(error->message);
	return psprintf("%s: %s", error->message, error->detail);
}

/* Were the locks for the switch not to be had? */
static bool
is_lock_failure(const SlMove *move, const ErrorData *error)
{
	return move->phase == SL_MOVE_PHASE_SWITCH && error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE;
}

/* Where does a move go on that failed here? */
static void
choose_phase(SlMove *move, const ErrorData *error)
{
	const Step *step = find_step(move->phase);
	int			limit = is_lock_failure(move, error) ? MAX_LOCK_ATTEMPTS : MAX_ATTEMPTS;

	if (!step->can_undo || (!move->is_cancelled && may_pass(error) && move->attempts < limit))
		return;
	move->attempts = 0;

	/* Until the mark nothing was done. */
	if (move->phase != SL_MOVE_PHASE_MARK)
		move->phase = SL_MOVE_PHASE_UNDO;
	else
	{
		move->is_open = false;
		move->phase = move->is_cancelled ? SL_MOVE_PHASE_CANCELLED : SL_MOVE_PHASE_FAILED;
	}
}

/*
 * Writes down why a step failed, and what comes now: the same once more, or the
 * way back.  Returns how long to wait before that, in milliseconds.
 */
int
sl_move_note_failure(int64 id, const ErrorData *error)
{
	SlMove		move;
	bool		is_lock;
	int			pause = MIN_PAUSE_MS;

	StartTransactionCommand();
	lock_and_read(&move, id);
	if (move.is_open)
	{
		move.attempts++;
		if (error->sqlerrcode != ERRCODE_QUERY_CANCELED || !move.is_cancelled)
			move.last_error = describe_error(error);
		is_lock = is_lock_failure(&move, error);
		choose_phase(&move, error);
		for (int i = 1; i < move.attempts && pause < MAX_PAUSE_MS; i++)
			pause *= 2;
		if (move.attempts == 0)
			pause = 0;
		else if (is_lock)
			pause = LOCK_PAUSE_MS;
		sl_move_update(&move);
	}
	CommitTransactionCommand();
	return Min(pause, MAX_PAUSE_MS);
}
