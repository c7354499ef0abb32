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
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "base/fault.h"
#include "move/move_internal.h"

/* A failure that may pass is met so often before the move is undone. */
#define MAX_ATTEMPTS 5
#define SHORTEST_PAUSE_MS 500
#define LONGEST_PAUSE_MS 10000

/* How often the row is looked at, and written to. */
#define LOOK_MS 500

#define FIRST_PHASE "mark"
#define UNDO_PHASE "undo"

typedef struct Step
{
	const char *phase;
	const char *next;
	bool		is_transaction; /* one with the change of the phase */
	bool		can_undo;
	bool		is_last;
	void		(*run) (SlMover *mover);
	const char *fault;			/* where tests stop it: before */
	const char *fault_done;		/* and behind it, before that is recorded */
} Step;

static const Step steps[] = {
	/* The shard joins the map, the range changes its state. */
	{"mark", "wait", true, true, false, sl_move_do_mark, "move_mark", "move_mark_done"},
	/* Who does not know of that goes first. */
	{"wait", "copy", false, true, false, sl_move_do_wait, "move_wait", "move_wait_done"},
	{"copy", "verify", false, true, false, sl_move_do_copy, "move_copy", "move_copy_done"},
	{"verify", "switch", false, true, false, sl_move_do_verify, "move_verify", "move_verify_done"},
	/* The other shard becomes the owner. */
	{"switch", "settle", true, true, false, sl_move_do_switch, "move_switch", "move_switch_done"},
	/* Who does not know of that goes first. */
	{"settle", "remove", false, false, false, sl_move_do_settle, "move_settle", "move_settle_done"},
	{"remove", "finish", false, false, false, sl_move_do_remove, "move_remove", "move_remove_done"},
	{"finish", "done", true, false, true, sl_move_do_finish, "move_finish", "move_finish_done"},

	/* The way back. */
	{UNDO_PHASE, "undo_remove", true, false, false, sl_move_do_undo, "move_undo", "move_undo_done"},
	{"undo_remove", "undo_finish", false, false, false, sl_move_do_undo_remove, "move_undo_remove", "move_undo_remove_done"},
	{"undo_finish", "failed", true, false, true, sl_move_do_finish, "move_undo_finish", "move_undo_finish_done"},
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

/* Is it too late to undo the move, or is that being done? */
bool
sl_move_is_behind(const SlMove *move)
{
	return move->is_open && !find_step(move->phase)->can_undo;
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

static void
load(SlMover *mover, int64 id)
{
	if (!sl_move_read(id, &mover->move))
		elog(ERROR, "could not find move %lld", (long long) id);
	if (!mover->move.is_open)
		return;
	if (!sl_shardlet_row_read(mover->move.shardlet, &mover->range))
		elog(ERROR, "could not find shardlet %lld", (long long) mover->move.shardlet);
	mover->map = sl_map_get_by_id(mover->move.map_id);
	mover->from = sl_shard_by_id(mover->move.from_shard);
	mover->to = sl_shard_by_id(mover->move.to_shard);
	mover->tables = sl_move_tables(mover->map, &mover->range);
	mover->looked_up = GetCurrentTimestamp();
}

/* Reads the row again, to change it. */
static void
reread(SlMove *move, int64 id)
{
	sl_move_lock(id);
	if (!sl_move_read(id, move))
		elog(ERROR, "could not find move %lld", (long long) id);
}

/* Writes that the step is done, in the transaction that is open. */
static void
record(SlMover *mover, const Step *step)
{
	SlMove		move;

	reread(&move, mover->move.id);
	strlcpy(move.phase, step->next, sizeof(move.phase));
	if (step->is_last)
	{
		move.is_open = false;
		if (strcmp(step->next, "failed") == 0 && move.is_cancelled)
			strlcpy(move.phase, "cancelled", sizeof(move.phase));
	}
	move.attempts = 0;
	sl_move_update(&move);
}

/* Has somebody cancelled the move?  The row is read twice a second. */
void
sl_move_look_up(SlMover *mover)
{
	SlMove		move;
	TimestampTz now = GetCurrentTimestamp();

	if (!TimestampDifferenceExceeds(mover->looked_up, now, LOOK_MS))
		return;
	mover->looked_up = now;
	if (mover->may_stop && sl_move_read(mover->move.id, &move) && move.is_cancelled)
		ereport(ERROR,
				errcode(ERRCODE_QUERY_CANCELED),
				errmsg("the move was cancelled"));
}

static void
write_progress(SlMover *mover, const SlMoveProgress *progress)
{
	SlMove		move;

	reread(&move, mover->move.id);
	move.rows_done = progress->rows;
	move.bytes_done = progress->bytes;
	move.tables_done = progress->tables;
	sl_move_update(&move);
	sl_move_begin(mover);
}

/* Lets others see how far it is; ends the transaction and begins another. */
void
sl_move_progress(SlMover *mover, const SlMoveProgress *progress)
{
	bool		is_due = TimestampDifferenceExceeds(mover->looked_up, GetCurrentTimestamp(), LOOK_MS);

	sl_move_look_up(mover);
	if (is_due)
		write_progress(mover, progress);
}

static void
run(SlMover *mover, const Step *step)
{
	mover->may_stop = step->can_undo;
	if (step->can_undo && mover->move.is_cancelled)
		ereport(ERROR,
				errcode(ERRCODE_QUERY_CANCELED),
				errmsg("the move was cancelled"));
	sl_fault(step->fault);
	step->run(mover);
	sl_fault(step->fault_done);
	if (!step->is_transaction)
		sl_move_begin(mover);
	record(mover, step);
	CommitTransactionCommand();
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

/* Where does a move go on that failed here? */
static void
choose_phase(SlMove *move, const ErrorData *error)
{
	const Step *step = find_step(move->phase);

	if (!step->can_undo || (!move->is_cancelled && may_pass(error) && move->attempts < MAX_ATTEMPTS))
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
	int			pause = SHORTEST_PAUSE_MS;

	StartTransactionCommand();
	reread(&move, id);
	if (move.is_open)
	{
		move.attempts++;
		if (error->sqlerrcode != ERRCODE_QUERY_CANCELED || !move.is_cancelled)
			move.last_error = describe_error(error);
		choose_phase(&move, error);
		for (int i = 1; i < move.attempts && pause < LONGEST_PAUSE_MS; i++)
			pause *= 2;
		if (move.attempts == 0)
			pause = 0;
		sl_move_update(&move);
	}
	CommitTransactionCommand();
	return Min(pause, LONGEST_PAUSE_MS);
}
