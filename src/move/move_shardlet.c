/*
 * move_shardlet.c
 *		move_shardlet, move_shardlets, resume_move, cancel_move: they write down what
 *		is wanted, have a process do it, and wait.
 *
 * They are procedures, because what they write must be committed before that
 * process can see it; so they do not run inside a transaction block.  While they
 * wait they have no transaction id and no snapshot.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "metadata/map.h"
#include "move/move.h"

PG_FUNCTION_INFO_V1(shardlet_move_shardlet);
PG_FUNCTION_INFO_V1(shardlet_move_shardlets);
PG_FUNCTION_INFO_V1(shardlet_resume_move);
PG_FUNCTION_INFO_V1(shardlet_cancel_move);

#define LOOK_MS 50

/* A session that waits checks so often whether its client is still there. */
#define CLIENT_MS 1000

/* cancel_move() does not wait longer for what the move has left on shards to be removed. */
#define CANCEL_MS 5000

/* Procedures that commit -------------------------------------------------------------- */

/* What every procedure that moves something begins with. */
void
sl_move_begin_call(FunctionCallInfo fcinfo, const char *name)
{
	const CallContext *context = (const CallContext *) fcinfo->context;

	sl_check_writable(name);
	if (context == NULL || !IsA(context, CallContext) || context->atomic)
		ereport(ERROR,
				errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				errmsg("%s cannot run inside a transaction block", name),
				errdetail("What it writes must be committed before rows are moved."));
	if (!sl_preloaded())
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("shardlet is not loaded by the server"),
				errhint("Add shardlet to shared_preload_libraries and restart the server."));
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
}

void
sl_move_end_call(void)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "could not disconnect from SPI");
}

/* Waiting ------------------------------------------------------------------------------- */

static void
say_that_it_goes_on(void *arg)
{
	errcontext("move %lld goes on in the background; CALL shardlet.cancel_move(%lld) stops it",
			   *(long long *) arg, *(long long *) arg);
}

static bool
must_read(int64 id, SlMove *move)
{
	if (!sl_move_read(id, move))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("move %lld does not exist", (long long) id),
				errhint("View shardlet.moves lists the moves."));
	return true;
}

static void
report_progress(const SlMove *move, bool is_new_phase)
{
	if (is_new_phase)
		ereport(NOTICE,
				errmsg("move %lld: %s", (long long) move->id, sl_move_phase_name(move->phase)));
	else if (move->phase == SL_MOVE_PHASE_COPY)
		ereport(NOTICE,
				errmsg("move %lld: %lld of about %lld rows, %lld of about %lld kB, %d of %d tables",
					   (long long) move->id, (long long) move->rows_done,
					   (long long) Max(move->rows_estimated, move->rows_done), (long long) move->bytes_done / 1024,
					   (long long) Max(move->bytes_estimated, move->bytes_done) / 1024, move->tables_done,
					   move->table_count));
}

/* Is that long ago? */
static bool
is_due(TimestampTz *last, int milliseconds)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!TimestampDifferenceExceeds(*last, now, milliseconds))
		return false;
	*last = now;
	return true;
}

/* Waits until a move is over, or the deadline has passed; the result is its row then. */
static SlMove
wait_for(int64 id, TimestampTz deadline)
{
	ErrorContextCallback callback = {.callback = say_that_it_goes_on,.arg = &id,.previous = error_context_stack};
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet waiting", ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	int			last_phase = -1;
	TimestampTz last_report = 0;
	TimestampTz last_seen = GetCurrentTimestamp();
	SlMove		move;

	while (must_read(id, &move) && move.is_open && GetCurrentTimestamp() < deadline)
	{
		bool		is_new_phase = (int) move.phase != last_phase;

		if (is_new_phase || TimestampDifferenceExceeds(last_report, GetCurrentTimestamp(), 5000))
		{
			report_progress(&move, is_new_phase);
			last_report = GetCurrentTimestamp();
			last_phase = (int) move.phase;
		}
		InvalidateCatalogSnapshot();
		MemoryContextReset(context);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOOK_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		error_context_stack = &callback;
		CHECK_FOR_INTERRUPTS();
		if (is_due(&last_seen, CLIENT_MS))
			sl_wait_check_client();
		error_context_stack = callback.previous;
	}
	MemoryContextSwitchTo(old_context);
	return move;
}

/* Fails if the move has. */
static void
check_end(const SlMove *move)
{
	if (move->phase == SL_MOVE_PHASE_DONE)
		return;
	ereport(ERROR,
			errcode(move->phase == SL_MOVE_PHASE_CANCELLED ? ERRCODE_QUERY_CANCELED :
					ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("move %lld was undone", (long long) move->id),
			move->last_error != NULL ? errdetail_internal("%s", move->last_error) : 0,
			errhint("CALL shardlet.resume_move(%lld) begins it again.", (long long) move->id));
}

/* Waits until a move is over, and fails if it was undone. */
void
sl_move_wait_for_end(int64 id)
{
	SlMove		move = wait_for(id, DT_NOEND);

	check_end(&move);
}

/* Moving one ------------------------------------------------------------------------------ */

/*
 * Writes down a move; the map is locked until the transaction ends.  If "parallel" is
 * not 0 it waits in the queue, of which so many run at a time.
 */
int64
sl_move_record(int64 shardlet, const char *shard_name, SlMoveMode mode, int parallel)
{
	SlShard    *to = sl_shard_by_name(shard_name, false);
	SlShardletRow row;
	SlMap	   *map;
	SlMove		move = {.shardlet = shardlet,.mode = mode,.is_open = true,.lag = -1};

	/* Shards are queried before the map is locked. */
	if (sl_shardlet_row_read(shardlet, &row))
		sl_move_check_preconditions(sl_map_get_by_id(row.map_id), &row, to, mode, true);
	sl_shard_lock(to, AccessShareLock);
	map = sl_map_open_shardlet(shardlet, &row);
	sl_move_check_preconditions(map, &row, to, mode, false);
	move.id = sl_catalog_next_id(SL_MOVE_SEQUENCE);
	sl_move_make_name(&move);
	move.map_id = map->id;
	move.from_shard = row.shard_id;
	move.to_shard = to->id;
	move.state_before = row.state;
	move.user = GetUserId();
	move.started = move.changed = GetCurrentTimestamp();
	move.parallel = parallel;
	move.phase = parallel > 0 ? SL_MOVE_PHASE_QUEUED : SL_MOVE_PHASE_MARK;
	sl_move_insert(&move);
	return move.id;
}

/* move_shardlet(shardlet, to_shard, mode, wait) */
Datum
shardlet_move_shardlet(PG_FUNCTION_ARGS)
{
	int64		shardlet = sl_map_arg_int64(fcinfo, 0, "shardlet");
	char	   *shard = sl_map_arg_name(fcinfo, 1, "shard");
	SlMoveMode	mode = sl_move_mode_parse(sl_map_arg_text(fcinfo, 2, "mode"));
	bool		waits = PG_ARGISNULL(3) || PG_GETARG_BOOL(3);
	int64		id;

	sl_move_begin_call(fcinfo, "shardlet.move_shardlet()");
	id = sl_move_record(shardlet, shard, mode, 0);
	SPI_commit();
	sl_move_start_worker(id);
	if (waits)
		sl_move_wait_for_end(id);
	else
		ereport(NOTICE,
				errmsg("move %lld goes on in the background", (long long) id),
				errhint("View shardlet.moves shows how far it is."));
	sl_move_end_call();
	PG_RETURN_VOID();
}

/* Those under way --------------------------------------------------------------------------- */

/* Begins a move again that was undone. */
static void
begin_again(SlMove *move)
{
	SlShardletRow row;
	SlMap	   *map = sl_map_open_shardlet(move->shardlet, &row);
	SlShard    *to = sl_shard_by_id(move->to_shard);

	sl_move_check_preconditions(map, &row, to, move->mode, true);
	move->phase = SL_MOVE_PHASE_MARK;
	move->from_shard = row.shard_id;
	move->state_before = row.state;
	move->user = GetUserId();
	move->is_open = true;
	move->is_cancelled = false;
	move->parallel = 0;
	move->attempts = 0;
	move->has_begun = false;
	move->relations = NIL;
	move->last_error = NULL;
	move->started = GetCurrentTimestamp();
	sl_move_update(move);
}

/*
 * A user that resumes a move becomes the user of its connections to shards: the
 * former one may have lost privileges, or been dropped.  Fails without any change if
 * the new user cannot connect to the shards either.
 */
static void
take_over(SlMove *move)
{
	int32		shards[] = {move->from_shard, move->to_shard};

	if (move->user == GetUserId())
		return;
	for (int i = 0; i < (int) lengthof(shards); i++)
	{
		SlShard    *shard = sl_shard_by_id(shards[i]);
		SlTarget	target;

		if (!shard->exists)
			continue;
		target = sl_remote_target(shard);
		sl_conn_close(sl_remote_open(&target));
	}
	move->user = GetUserId();
	sl_move_update(move);
}

/* resume_move(move) */
Datum
shardlet_resume_move(PG_FUNCTION_ARGS)
{
	int64		id = sl_map_arg_int64(fcinfo, 0, "move");
	SlMove		move;

	sl_move_begin_call(fcinfo, "shardlet.resume_move()");
	sl_move_lock(id);
	must_read(id, &move);
	if (move.phase == SL_MOVE_PHASE_DONE)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("move %lld is over", (long long) id));
	if (move.is_open)
		take_over(&move);
	else
		begin_again(&move);
	SPI_commit();

	/* One that has a process gets a second, which goes at once. */
	sl_move_start_worker(id);
	sl_move_wait_for_end(id);
	sl_move_end_call();
	PG_RETURN_VOID();
}

/* cancel_move(move) */
Datum
shardlet_cancel_move(PG_FUNCTION_ARGS)
{
	int64		id = sl_map_arg_int64(fcinfo, 0, "move");
	SlMove		move;

	sl_move_begin_call(fcinfo, "shardlet.cancel_move()");
	sl_move_lock(id);
	must_read(id, &move);
	if (!move.is_open)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("move %lld is over", (long long) id),
				errdetail("Its phase is \"%s\".", sl_move_phase_name(move.phase)));
	if (sl_move_is_past_undo(&move))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("move %lld cannot be cancelled any more", (long long) id),
				errdetail("Its phase is \"%s\": it will be finished.", sl_move_phase_name(move.phase)));
	move.is_cancelled = true;
	if (move.phase == SL_MOVE_PHASE_QUEUED)
	{
		move.is_open = false;
		move.phase = SL_MOVE_PHASE_CANCELLED;
	}
	sl_move_update(&move);
	SPI_commit();
	if (move.is_open)
	{
		sl_move_start_worker(id);
		sl_move_interrupt(id);
		move = wait_for(id, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), CANCEL_MS));
	}
	if (move.phase == SL_MOVE_PHASE_DONE)
		ereport(WARNING,
				errmsg("move %lld was not cancelled: it had changed the owner already", (long long) id));
	else if (move.is_open)
		ereport(NOTICE,
				errmsg("move %lld is being undone in the background", (long long) id),
				errdetail("Its phase is \"%s\".", sl_move_phase_name(move.phase)),
				errhint("View shardlet.moves shows how far it is."));
	sl_move_end_call();
	PG_RETURN_VOID();
}

/* Several --------------------------------------------------------------------------------- */

/* How many moves run at a time, an argument. */
int
sl_move_arg_parallel(FunctionCallInfo fcinfo, int argument)
{
	int			parallel = PG_ARGISNULL(argument) ? 1 : PG_GETARG_INT32(argument);

	if (parallel < 1 || parallel > 64)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("parallel must be between 1 and 64"));
	return parallel;
}

/* Has moves in the queue done, by so many processes. */
static void
start_queue(int count)
{
	for (int i = 0; i < count; i++)
	{
		if (sl_move_start_queue_worker())
			continue;
		ereport(WARNING,
				errmsg("could start %d of %d processes for moves", i, count),
				errdetail("Others are started as soon as that is possible."),
				errhint("Raise max_worker_processes on the router."));
		break;
	}
}

/*
 * Has moves done that are in the queue and were committed, "parallel" at a time; if the
 * caller waits, until they are over: one that was undone is an error.
 */
void
sl_move_run_queue(List *moves, int parallel, bool waits)
{
	ListCell   *cell;

	start_queue(Min(parallel, list_length(moves)));
	if (!waits && moves != NIL)
		ereport(NOTICE,
				errmsg_plural("%d move goes on in the background", "%d moves go on in the background",
							  list_length(moves), list_length(moves)),
				errhint("View shardlet.moves shows how far they are."));
	foreach(cell, moves)
	{
		if (waits)
			sl_move_wait_for_end(*(int64 *) lfirst(cell));
	}
}

/* The ids in the argument, each once. */
static List *
read_shardlets(FunctionCallInfo fcinfo)
{
	List	   *result = NIL;
	Datum	   *elements;
	bool	   *nulls;
	int			count;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("shardlets must not be NULL"));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &elements, &nulls, &count);
	for (int i = 0; i < count; i++)
	{
		ListCell   *cell;

		if (nulls[i])
			ereport(ERROR,
					errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					errmsg("list of shardlets must not contain NULL"));
		foreach(cell, result)
		{
			if (*(int64 *) lfirst(cell) == DatumGetInt64(elements[i]))
				ereport(ERROR,
						errcode(SL_ERR_EXISTS),
						errmsg("shardlet %lld is listed twice", (long long) DatumGetInt64(elements[i])));
		}
		result = lappend(result, sl_move_remember(DatumGetInt64(elements[i])));
	}
	return result;
}

/* Keeps the id of a move or a shardlet in a list. */
int64 *
sl_move_remember(int64 id)
{
	int64	   *result = palloc(sizeof(int64));

	*result = id;
	return result;
}

/* move_shardlets(shardlets, to_shard, mode, wait) */
Datum
shardlet_move_shardlets(PG_FUNCTION_ARGS)
{
	List	   *shardlets = read_shardlets(fcinfo);
	SlShard    *to = sl_shard_by_name(sl_map_arg_name(fcinfo, 1, "shard"), false);
	SlMoveMode	mode = sl_move_mode_parse(sl_map_arg_text(fcinfo, 2, "mode"));
	bool		waits = PG_ARGISNULL(3) || PG_GETARG_BOOL(3);
	MemoryContext context = CurrentMemoryContext;
	List	   *moves = NIL;
	ListCell   *cell;

	sl_move_begin_call(fcinfo, "shardlet.move_shardlets()");
	MemoryContextSwitchTo(context);
	foreach(cell, shardlets)
	{
		int64		shardlet = *(int64 *) lfirst(cell);
		SlShardletRow row;

		if (sl_shardlet_row_read(shardlet, &row) && row.shard_id == to->id)
			ereport(NOTICE,
					errmsg("shardlet %lld is already on shard \"%s\"", (long long) shardlet, NameStr(to->name)));
		else
			moves = lappend(moves, sl_move_remember(sl_move_record(shardlet, NameStr(to->name), mode, 1)));
	}
	SPI_commit();
	sl_move_run_queue(moves, 1, waits);
	sl_move_end_call();
	PG_RETURN_VOID();
}
