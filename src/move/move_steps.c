/*
 * move_steps.c
 *		The steps of a move, as a table, and how one leads to the next.
 *
 * The phase in the move's row is the step that is being done: it is committed
 * before the step begins.  What a step changes in the router's catalog, and
 * with that on the shards, is one transaction with the change of the phase;
 * all other steps can be done again from their beginning.  So whatever dies, the
 * step that is in the row is done, again if need be, by the next process.
 *
 * Until the switch a move can be undone: nothing is lost then but what was
 * copied.  Behind it, it can only be finished.
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
#include "base/fault.h"
#include "move/move_internal.h"

/* A failure that may pass is met so often before the move is undone. */
#define MAX_ATTEMPTS 5
#define SHORTEST_PAUSE_MS 500
#define LONGEST_PAUSE_MS 10000

/* Locks for the switch are not waited for long, and asked for again soon. */
#define MAX_LOCK_ATTEMPTS 200
#define LOCK_PAUSE_MS 100

/* How often the row is looked at, and written to. */
#define LOOK_MS 500

#define FIRST_PHASE "mark"
#define UNDO_PHASE "undo"
#define LOST_PHASE "lost"
#define LOST_END_PHASE "lost_finish"

/* For which modes a step is. */
#define ONLINE (1 << SL_MOVE_ONLINE)
#define OTHERS ((1 << SL_MOVE_READ_ONLY) | (1 << SL_MOVE_OFFLINE))
#define ALL (ONLINE | OTHERS)

typedef struct Step
{
	const char *phase;
	int			modes;
	bool		is_transaction; /* one with the change of the phase */
	bool		can_undo;
	const char *end;			/* the phase behind the last one; else NULL */
	void		(*run) (SlMover *mover);
	const char *fault;			/* where tests stop it: before */
	const char *fault_done;		/* and behind it, before that is recorded */
} Step;

static const Step steps[] = {
	/* The shard joins the map, the range changes its state. */
	{"mark", ALL, true, true, NULL, sl_move_do_mark, "move_mark", "move_mark_done"},
	/* Who does not know of that goes first. */
	{"wait", ALL, false, true, NULL, sl_move_do_wait, "move_wait", "move_wait_done"},
	{"copy", ALL, false, true, NULL, sl_move_do_copy, "move_copy", "move_copy_done"},
	/* Online, that is part of the copy: under its snapshot. */
	{"verify", OTHERS, false, true, NULL, sl_move_do_verify, "move_verify", "move_verify_done"},
	/* Changes since the copy arrive. */
	{"follow", ONLINE, false, true, NULL, sl_move_do_follow, "move_follow", "move_follow_done"},
	/* The other shard becomes the owner. */
	{"switch", ALL, true, true, NULL, sl_move_do_switch, "move_switch", "move_switch_done"},
	/* Before rows are removed: that must not arrive. */
	{"detach", ONLINE, false, false, NULL, sl_move_do_detach, "move_detach", "move_detach_done"},
	/* Who does not know of the switch goes first. */
	{"settle", ALL, false, false, NULL, sl_move_do_settle, "move_settle", "move_settle_done"},
	{"remove", ALL, false, false, NULL, sl_move_do_remove, "move_remove", "move_remove_done"},
	{"finish", ALL, true, false, "done", sl_move_do_finish, "move_finish", "move_finish_done"},

	/* The way back. */
	{"undo", ALL, true, false, NULL, sl_move_do_undo, "move_undo", "move_undo_done"},
	{"undo_remove", ALL, false, false, NULL, sl_move_do_undo_remove, "move_undo_remove", "move_undo_remove_done"},
	{"undo_finish", ALL, true, false, "failed", sl_move_do_finish, "move_undo_finish", "move_undo_finish_done"},

	/* The shardlet went with a shard: what is left is put in order. */
	{LOST_PHASE, ALL, false, false, NULL, sl_move_do_lost, "move_lost", "move_lost_done"},
	{LOST_END_PHASE, ALL, true, false, "failed", sl_move_do_lost_finish, "move_lost_finish", "move_lost_finish_done"},
};

static const Step *
find_step(const char *phase)
{
	for (int i = 0; i < (int) lengthof(steps); i++)
	{
		if (strcmp(steps[i].phase, phase) == 0)
			return &steps[i];
	}
	elog(ERROR, "there is no step \"%s\" of a move", phase);
}

const char *
sl_move_first_phase(void)
{
	return FIRST_PHASE;
}

/* Does it wait in a queue, and nothing was done? */
bool
sl_move_is_queued(const SlMove *move)
{
	return strcmp(move->phase, SL_MOVE_QUEUED) == 0;
}

/* Is it too late to undo the move, or is that being done? */
bool
sl_move_is_behind(const SlMove *move)
{
	return move->is_open && !sl_move_is_queued(move) && !find_step(move->phase)->can_undo;
}

/* One step --------------------------------------------------------------------- */

/* Begins a transaction in which nothing has been written. */
void
sl_move_begin(SlMover *mover)
{
	if (IsTransactionState())
		CommitTransactionCommand();
	StartTransactionCommand();
	MemoryContextSwitchTo(mover->context);
}

/*
 * The shardlet went with its shard or its map: there is nothing left to be moved.  If
 * some shard has rows of it that do not count, that comes to an end first; what they
 * are is told by their note.
 */
static void
load_lost(SlMover *mover)
{
	SlMove	   *move = &mover->move;
	SlMapRow	map;
	const SlStray *stray = sl_map_row_read_id(move->map_id, &map) ?
	sl_stray_find(sl_map_get_by_id(move->map_id), move->id) : NULL;

	if (stray != NULL)
		mover->range = stray->range;
	if (stray != NULL && strcmp(move->phase, LOST_END_PHASE) == 0)
		return;
	move->is_open = stray != NULL;
	sl_move_lock(move->id);
	move->last_error = psprintf("shardlet %lld does not exist any more", (long long) move->shardlet);
	strlcpy(move->phase, move->is_open ? LOST_PHASE : "failed", sizeof(move->phase));
	sl_move_update(move);
	sl_move_begin(mover);
}

static void
load(SlMover *mover, int64 id)
{
	if (!sl_move_read(id, &mover->move))
		elog(ERROR, "could not find move %lld", (long long) id);
	if (!mover->move.is_open)
		return;
	if (!sl_shardlet_row_read(mover->move.shardlet, &mover->range))
	{
		load_lost(mover);
		if (!mover->move.is_open)
			return;
	}
	mover->map = sl_map_get_by_id(mover->move.map_id);
	mover->from = sl_shard_by_id(mover->move.from_shard);
	mover->to = sl_shard_by_id(mover->move.to_shard);
	mover->tables = sl_move_tables(mover->map, &mover->range);
	mover->looked_up = mover->timed = GetCurrentTimestamp();
}

/* Reads the row again, to change it. */
static void
reread(SlMove *move, int64 id)
{
	sl_move_lock(id);
	if (!sl_move_read(id, move))
		elog(ERROR, "could not find move %lld", (long long) id);
}

/* What comes when a step is done. */
static const char *
phase_behind(const SlMove *move, const Step *step)
{
	if (step->end != NULL)
		return step->end;
	do
		step++;
	while ((step->modes & (1 << move->mode)) == 0);
	return step->phase;
}

/* Writes that the step is done, in the transaction that is open. */
static void
record(SlMover *mover, const Step *step)
{
	SlMove		move;

	reread(&move, mover->move.id);
	if (strcmp(move.phase, step->phase) != 0)
		elog(ERROR, "move %lld is in phase \"%s\", not \"%s\"", (long long) move.id, move.phase, step->phase);
	strlcpy(move.phase, phase_behind(&move, step), sizeof(move.phase));
	if (step->end != NULL)
	{
		move.is_open = false;
		if (strcmp(step->end, "failed") == 0 && move.is_cancelled)
			strlcpy(move.phase, "cancelled", sizeof(move.phase));
	}
	move.attempts = 0;
	move.lag = -1;
	sl_move_update(&move);
}

/* Does the row say so?  What is read of it is not kept: it is asked for hours. */
static bool
is_cancelled(int64 id)
{
	MemoryContext context = sl_move_short_context();
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SlMove		move;
	bool		result = sl_move_read(id, &move) && move.is_cancelled;

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	return result;
}

/*
 * Has somebody cancelled the move?  The row is read twice a second.  Whoever waits
 * behind this has no snapshot, which others would wait for.
 */
void
sl_move_look_up(SlMover *mover)
{
	TimestampTz now = GetCurrentTimestamp();

	if (TimestampDifferenceExceeds(mover->looked_up, now, LOOK_MS))
	{
		mover->looked_up = now;
		if (mover->may_stop && is_cancelled(mover->move.id))
			ereport(ERROR,
					errcode(ERRCODE_QUERY_CANCELED),
					errmsg("the move was cancelled"));
	}
	InvalidateCatalogSnapshot();
}

/*
 * Ends a transaction that only tells how far it is, and begins another.  It is no
 * loss if a crash loses that, so nobody waits for the disk: rows wait meanwhile.
 */
static void
commit_progress(SlMover *mover)
{
	(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
							 false);
	sl_move_begin(mover);
}

/* Writes how far rows are copied, or how much is left to be applied. */
static void
write_progress(SlMover *mover, const SlMoveProgress *progress, int64 lag)
{
	MemoryContext context = sl_move_short_context();
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SlMove		move;

	reread(&move, mover->move.id);
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
sl_move_progress(SlMover *mover, const SlMoveProgress *progress)
{
	bool		is_due = TimestampDifferenceExceeds(mover->looked_up, GetCurrentTimestamp(), LOOK_MS);

	sl_move_look_up(mover);
	if (is_due)
		write_progress(mover, progress, -1);
}

/* The same for what is left to be applied; -1: not known. */
void
sl_move_show_lag(SlMover *mover, int64 lag)
{
	if (!TimestampDifferenceExceeds(mover->looked_up, GetCurrentTimestamp(), LOOK_MS))
		return;
	sl_move_look_up(mover);
	write_progress(mover, NULL, lag);
}

/* For the server's log: how long a part of the step took. */
void
sl_move_tell_time(SlMover *mover, const char *what)
{
	TimestampTz now = GetCurrentTimestamp();

	elog(DEBUG1, "move %lld, %s: %s took %.1f ms", (long long) mover->move.id, mover->move.phase, what,
		 (double) (now - mover->timed) / 1000);
	mover->timed = now;
}

static void
run(SlMover *mover, const Step *step)
{
	mover->may_stop = step->can_undo;
	if (step->can_undo && mover->move.is_cancelled)
		ereport(ERROR,
				errcode(ERRCODE_QUERY_CANCELED),
				errmsg("the move was cancelled"));
	InvalidateCatalogSnapshot();
	sl_fault(step->fault);
	step->run(mover);
	sl_fault(step->fault_done);
	if (!step->is_transaction)
		sl_move_begin(mover);
	record(mover, step);
	CommitTransactionCommand();
	sl_move_tell_time(mover, "the rest");
}

/*
 * Does the next step of a move.  Returns false if there is none.  An error
 * leaves the phase as it is: see sl_move_note_failure().
 */
bool
sl_move_step(int64 id)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "shardlet move", ALLOCSET_DEFAULT_SIZES);
	SlMover    *mover;
	volatile bool is_open = false;

	MemoryContextSwitchTo(context);
	mover = palloc0(sizeof(SlMover));
	mover->context = context;
	PG_TRY();
	{
		sl_move_begin(mover);
		load(mover, id);
		is_open = mover->move.is_open;
		if (is_open)
		{
			SetUserIdAndSecContext(mover->move.user, 0);
			run(mover, find_step(mover->move.phase));
		}
		else
			CommitTransactionCommand();
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
	return strcmp(move->phase, "switch") == 0 && error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE;
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
	if (strcmp(move->phase, FIRST_PHASE) != 0)
		strlcpy(move->phase, UNDO_PHASE, sizeof(move->phase));
	else
	{
		move->is_open = false;
		strlcpy(move->phase, move->is_cancelled ? "cancelled" : "failed", sizeof(move->phase));
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
	int			pause = SHORTEST_PAUSE_MS;

	StartTransactionCommand();
	reread(&move, id);
	if (move.is_open)
	{
		move.attempts++;
		if (error->sqlerrcode != ERRCODE_QUERY_CANCELED || !move.is_cancelled)
			move.last_error = describe_error(error);
		is_lock = is_lock_failure(&move, error);
		choose_phase(&move, error);
		for (int i = 1; i < move.attempts && pause < LONGEST_PAUSE_MS; i++)
			pause *= 2;
		if (move.attempts == 0)
			pause = 0;
		else if (is_lock)
			pause = LOCK_PAUSE_MS;
		sl_move_update(&move);
	}
	CommitTransactionCommand();
	return Min(pause, LONGEST_PAUSE_MS);
}
