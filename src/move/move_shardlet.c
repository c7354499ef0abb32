/*
 * move_shardlet.c
 *		move_shardlet, resume_move, cancel_move, drain_shard: they write down what
 *		is wanted, have a process do it, and wait.
 *
 * They are procedures, because what they write must be committed before that
 * process can see it; so they do not run inside a transaction block.  While they
 * wait they have no transaction id and no snapshot.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "metadata/map.h"
#include "move/move.h"

PG_FUNCTION_INFO_V1(shardlet_move_shardlet);
PG_FUNCTION_INFO_V1(shardlet_resume_move);
PG_FUNCTION_INFO_V1(shardlet_cancel_move);
PG_FUNCTION_INFO_V1(shardlet_drain_shard);

#define LOOK_MS 50

/* A session that waits checks so often whether its client is still there. */
#define CLIENT_MS 1000

/* cancel_move() does not wait longer for what the move has left on shards to be removed. */
#define CANCEL_MS 5000

/* Procedures that commit -------------------------------------------------------------- */

/* What every procedure here begins with. */
static void
begin_procedure(FunctionCallInfo fcinfo, const char *name)
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

static void
end_procedure(void)
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

/* Moving one ------------------------------------------------------------------------------ */

/*
 * Writes down a move; the map is locked until the transaction ends.  If "parallel" is
 * not 0 it waits in the queue, of which so many run at a time.
 */
static int64
record_move(int64 shardlet, const char *shard_name, SlMoveMode mode, int parallel)
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
	SlMove		move;

	begin_procedure(fcinfo, "shardlet.move_shardlet()");
	id = record_move(shardlet, shard, mode, 0);
	SPI_commit();
	sl_move_start_worker(id);
	if (waits)
	{
		move = wait_for(id, DT_NOEND);
		check_end(&move);
	}
	else
		ereport(NOTICE,
				errmsg("move %lld goes on in the background", (long long) id),
				errhint("View shardlet.moves shows how far it is."));
	end_procedure();
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

	begin_procedure(fcinfo, "shardlet.resume_move()");
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
	move = wait_for(id, DT_NOEND);
	check_end(&move);
	end_procedure();
	PG_RETURN_VOID();
}

/* cancel_move(move) */
Datum
shardlet_cancel_move(PG_FUNCTION_ARGS)
{
	int64		id = sl_map_arg_int64(fcinfo, 0, "move");
	SlMove		move;

	begin_procedure(fcinfo, "shardlet.cancel_move()");
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
	end_procedure();
	PG_RETURN_VOID();
}

/* Emptying a shard --------------------------------------------------------------------------- */

typedef struct Drain
{
	SlShard    *shard;
	List	   *rows;			/* of SlShardletRow */
} Drain;

static bool
collect_shardlet(const SlShardletRow *row, void *context)
{
	Drain	   *drain = context;

	if (row->shard_id == drain->shard->id)
	{
		SlShardletRow *copy = palloc(sizeof(SlShardletRow));

		*copy = *row;
		drain->rows = lappend(drain->rows, copy);
	}
	return true;
}

static int
count_of(List *shards, const SlShard *shard)
{
	int			result = 0;
	ListCell   *cell;

	foreach(cell, shards)
		result += lfirst(cell) == shard ? 1 : 0;
	return result;
}

/* A shard for one more shardlet: the one with the fewest for its weight. */
static SlShard *
choose_shard(const SlMap *map, const SlShard *drained, List *taken)
{
	SlShard    *best = NULL;
	double		best_load = 0;
	ListCell   *cell;

	foreach(cell, sl_map_shard_ids(map->id))
	{
		SlShard    *shard = sl_shard_by_id(lfirst_int(cell));
		int64		count;
		double		load;

		if (shard == drained || !shard->exists || shard->state != SL_STATE_ONLINE || shard->weight <= 0)
			continue;
		count = sl_map_count_shardlets(shard->id, map->id) + count_of(taken, shard);
		if (map->kind == SL_KIND_SPREAD && count > 0)
			continue;
		load = ((double) count + 1) / shard->weight;
		if (best == NULL || load < best_load)
		{
			best = shard;
			best_load = load;
		}
	}
	if (best == NULL)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("no shard of map \"%s\" can take a shardlet of shard \"%s\"", NameStr(map->name),
					   NameStr(drained->name)),
				map->kind == SL_KIND_SPREAD ?
				errdetail("Each shard has one shardlet of a spread map at most: to empty this one would be to merge two.") :
				errdetail("A shard takes shardlets if it is online and its weight is above zero."),
				errhint("Add shards with shardlet.alter_map()."));
	return best;
}

static List *
record_of_map(int32 map_id, SlShard *shard, SlMoveMode mode, int parallel)
{
	SlMap	   *map = sl_map_get_by_id(map_id);
	List	   *taken = NIL;
	Drain		drain = {.shard = shard};
	List	   *result = NIL;
	ListCell   *cell;

	sl_shardlet_row_scan(map_id, NULL, collect_shardlet, &drain);
	foreach(cell, drain.rows)
	{
		const SlShardletRow *row = lfirst(cell);
		SlShard    *to = choose_shard(map, shard, taken);
		int64	   *id = palloc(sizeof(int64));

		*id = record_move(row->id, NameStr(to->name), mode, parallel);
		taken = lappend(taken, to);
		result = lappend(result, id);
	}
	return result;
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

/* drain_shard(shard, wait, mode, parallel) */
Datum
shardlet_drain_shard(PG_FUNCTION_ARGS)
{
	SlShard    *shard = sl_shard_by_name(sl_map_arg_name(fcinfo, 0, "shard"), false);
	bool		waits = PG_ARGISNULL(1) || PG_GETARG_BOOL(1);
	SlMoveMode	mode = sl_move_mode_parse(sl_map_arg_text(fcinfo, 2, "mode"));
	int			parallel = PG_ARGISNULL(3) ? 1 : PG_GETARG_INT32(3);
	MemoryContext context = CurrentMemoryContext;
	List	   *moves = NIL;
	ListCell   *cell;

	if (parallel < 1 || parallel > 64)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("parallel must be between 1 and 64"));
	begin_procedure(fcinfo, "shardlet.drain_shard()");
	MemoryContextSwitchTo(context);
	foreach(cell, sl_map_ids_of_shard(shard->id))
		moves = list_concat(moves, record_of_map(lfirst_int(cell), shard, mode, parallel));
	SPI_commit();
	start_queue(Min(parallel, list_length(moves)));
	foreach(cell, moves)
	{
		SlMove		move;

		if (!waits)
			break;
		move = wait_for(*(int64 *) lfirst(cell), DT_NOEND);
		check_end(&move);
	}
	end_procedure();
	PG_RETURN_VOID();
}
