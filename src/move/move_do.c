/*
 * move_do.c
 *		What the steps of a move do; move_steps.c has them in order.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "base/fault.h"
#include "fanout/fanout.h"
#include "move/move_internal.h"

#define MAX_STREAMS 4

/* Tables of a shard are locked within that time, or it is tried again. */
#define LOCK_MS "1s"

/*
 * Before the range is locked a marker must arrive so fast, or while writers are kept
 * out for a moment; each is tried so often.  Between such moments writers are let in.
 */
#define FREE_MARKER_MS 20
#define FREE_MARKERS 5
#define MOST_PAUSES 100
#define FREE_MS 10

/* And so fast when it is. */
#define LOCKED_MARKER_MS 1000

/* Connections --------------------------------------------------------------------- */

/*
 * A shard's limits are for its applications.  A move copies and counts for hours, with
 * connections that wait for each other meanwhile; shardlet.move_wait_timeout and
 * cancel_move() are its limits.  Not all servers have all of these settings.
 */
#define LIFT_LIMITS_SQL \
	"SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings" \
	" WHERE name OPERATOR(pg_catalog.=) ANY ('{statement_timeout,transaction_timeout,idle_session_timeout,idle_in_transaction_session_timeout}')"

/* A connection that goes with the step. */
SlConn *
sl_move_connect(SlShard *shard)
{
	SlTarget	target;
	SlConn	   *conn;

	if (!shard->exists)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("a shard of the move does not exist any more"),
				errdetail("Its id was %d.", shard->id));
	target = sl_remote_target(shard);
	target.plain_path = true;
	conn = sl_remote_open(&target);
	(void) sl_remote_exec(conn, LIFT_LIMITS_SQL, 0, NULL);
	return conn;
}

/*
 * The same for one that copies, counts or deletes rows.  Triggers and foreign keys do
 * not fire, and policies that would keep rows from being seen are an error.  A
 * table is read by one process: tables at a time are enough for a shard that has
 * other things to do, and rows that come in the order of the table are put into
 * indexes faster.
 */
SlConn *
sl_move_connect_for_rows(SlShard *shard)
{
	SlConn	   *conn = sl_move_connect(shard);

	(void) sl_remote_exec(conn, "SELECT pg_catalog.set_config('session_replication_role', 'replica', false),"
						  " pg_catalog.set_config('row_security', 'off', false),"
						  " pg_catalog.set_config('max_parallel_workers_per_gather', '0', false)", 0, NULL);
	return conn;
}

static void
exec(SlConn *conn, const char *sql)
{
	(void) sl_remote_exec(conn, sql, 0, NULL);
}

/* The map and its states ------------------------------------------------------------ */

static SlState
state_for(SlMoveMode mode)
{
	return mode == SL_MOVE_ONLINE ? SL_STATE_MOVING :
		mode == SL_MOVE_READ_ONLY ? SL_STATE_READ_ONLY : SL_STATE_OFFLINE;
}

/*
 * Locks shard and map, and reads the shardlet as it is then.  A shard that was dropped by
 * force is not in the way of those who only clean up.
 */
static SlMap *
open_for_change(SlMover *mover, SlShardletRow *row)
{
	SlMap	   *map;

	if (mover->to->exists)
		sl_shard_lock(mover->to, AccessShareLock);
	map = sl_map_open_for_move(mover->move.shardlet, row);
	row->version = sl_map_next_version(map);
	return map;
}

static void
insert_stray(SlMover *mover, const SlShardletRow *row, SlShard *shard, SlState state, bool is_behind)
{
	SlStray		stray = {.move = mover->move.id,.shard = shard,.range = *row,.is_behind = is_behind};

	stray.range.state = state;
	sl_stray_insert(&stray);
}

/* The range changes its state, and the other shard may have rows of it from now on. */
void
sl_move_do_mark(SlMover *mover)
{
	SlShardletRow row;
	SlMap	   *map = open_for_change(mover, &row);

	if (row.shard_id != mover->move.from_shard)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shardlet %lld is not on shard \"%s\" any more", (long long) row.id,
					   NameStr(mover->from->name)));
	sl_move_check_again(map, &row, mover->to, &mover->move);
	row.state = state_for(mover->move.mode);
	sl_shardlet_row_update(&row);
	insert_stray(mover, &row, mover->to, row.state, false);
	sl_map_include_shard(map, mover->to);
	sl_map_finish_change(map);
	sl_publish_arrival(map, &row, mover->to);
}

/* Rows of tables that came to the map meanwhile were not copied. */
static void
check_relations(SlMover *mover, SlMap *map)
{
	if (!equal(sl_move_relations(map), mover->move.relations))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("tables of map \"%s\" have changed since they were copied", NameStr(map->name)),
				errhint("CALL shardlet.resume_move(%lld) moves the shardlet again.",
						(long long) mover->move.id));
}

/* Nobody would look for rows on a shard that left the map. */
static void
check_member(const SlMap *map, const SlShard *shard)
{
	if (!list_member_int(sl_map_shard_ids(map->id), shard->id))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("map \"%s\" does not use shard \"%s\" any more", NameStr(map->name), NameStr(shard->name)));
}

/* How long a lock for the switch may be waited for: writers wait behind it. */
static int
lock_limit(const SlMover *mover)
{
	return Min(40 + 10 * Max(mover->move.attempts - 10, 0), 1000);
}

/* From here to the end of the transaction nobody writes to the range. */
static void
lock_range(SlMover *mover, const SlMap *map)
{
	const char *params[3];
	int			count;

	/* cppcheck-suppress unknownEvaluationOrder */
	SlReply    *replies = sl_command_begin(list_make2(mover->from, mover->to), true, &count);

	params[0] = NameStr(map->name);
	params[1] = psprintf("%lld", (long long) mover->move.shardlet);
	params[2] = psprintf("%d", lock_limit(mover));
	sl_command_everywhere(replies, count, "SELECT shardlet.guard_lock($1::pg_catalog.name, $2::pg_catalog.int8, $3::pg_catalog.int4)",
						  3, params, true);
}

/* Makes little what is left to be applied, while nobody waits, or not for long. */
static void
pass_free_markers(SlMover *mover, SlConn *source, SlConn *target)
{
	SlConn	   *holder;

	for (int i = 0; i < FREE_MARKERS; i++)
	{
		if (sl_move_pass_marker(mover, source, target, FREE_MARKER_MS))
			return;
		sl_move_look_up(mover);
	}
	holder = sl_move_connect(mover->from);
	for (int i = 0; i < MOST_PAUSES && !sl_move_make_pause(mover, holder, source, target); i++)
		sl_move_nap(mover, FREE_MS);
	sl_conn_close(holder);
}

/*
 * Brings the target up to date for good: with the range locked, a row that was
 * written into the source's log arrives behind everything else.
 */
static void
catch_up(SlMover *mover, const SlMap *map, SlConn *source, SlConn *target)
{
	sl_fault("move_switch_lock");
	lock_range(mover, map);
	sl_move_tell_time(mover, "locking");
	sl_fault("move_switch_marker");
	if (!sl_move_pass_marker(mover, source, target, LOCKED_MARKER_MS))
		ereport(ERROR,
				errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				errmsg("changes of shard \"%s\" did not reach shard \"%s\" within %d ms",
					   NameStr(mover->from->name), NameStr(mover->to->name), LOCKED_MARKER_MS));
	sl_move_tell_time(mover, "the last marker");
}

/* The other shard is the owner from now on. */
void
sl_move_do_switch(SlMover *mover)
{
	SlShardletRow row;
	SlMap	   *map;
	SlConn	   *source = NULL;
	SlConn	   *target = NULL;

	if (mover->move.mode == SL_MOVE_ONLINE)
	{
		source = sl_move_connect(mover->from);
		target = sl_move_connect(mover->to);
		sl_move_check_guards(source, mover->tables);
		pass_free_markers(mover, source, target);
		sl_move_tell_time(mover, "passing markers");
	}
	map = open_for_change(mover, &row);
	sl_move_check_again(map, &row, mover->to, &mover->move);
	check_member(map, mover->to);
	check_relations(mover, map);
	if (mover->move.mode == SL_MOVE_ONLINE)
		catch_up(mover, map, source, target);
	row.shard_id = mover->to->id;
	row.state = mover->move.state_before;
	sl_shardlet_row_update(&row);
	sl_stray_delete(map->id, mover->move.id);
	insert_stray(mover, &row, mover->from, SL_STATE_ONLINE, true);
	sl_map_finish_change(map);
}

/*
 * Nobody has rows any more that do not count.  If the move was undone, the other shard
 * hears only now that none will come: a state that must change back need not wait until
 * that shard can be reached.
 */
void
sl_move_do_finish(SlMover *mover)
{
	SlShardletRow row;
	SlMap	   *map = open_for_change(mover, &row);

	sl_stray_delete(map->id, mover->move.id);
	sl_map_finish_change(map);
	if (row.shard_id != mover->to->id)
		sl_publish_arrival(map, &row, mover->to);
}

/* Everything stays as it was, but for rows that were copied. */
void
sl_move_do_undo(SlMover *mover)
{
	SlShardletRow row;
	SlMap	   *map = open_for_change(mover, &row);

	row.state = mover->move.state_before;
	sl_shardlet_row_update(&row);
	sl_stray_delete(map->id, mover->move.id);
	if (mover->to->exists)
		insert_stray(mover, &row, mover->to, SL_STATE_ONLINE, false);
	sl_map_finish_change(map);
}

/* Waiting ----------------------------------------------------------------------------- */

/*
 * Rows must not be copied to a shard while somebody could read them there, nor
 * while somebody writes to them here.
 */
void
sl_move_do_wait(SlMover *mover)
{
	int			finished = 0;
	SlConn	   *conn;
	SlFailure  *failure;

	sl_move_wait_for_users(mover);

	/* Online, those that write are waited for by the slot. */
	if (mover->move.mode == SL_MOVE_ONLINE)
		return;

	/* What was decided and not carried out yet counts as written. */
	failure = sl_recover_shard(mover->from, NULL, &finished);
	if (failure != NULL)
		sl_failure_raise(failure, NameStr(mover->from->name), NULL);
	conn = sl_move_connect(mover->from);
	sl_move_wait_for_writers(mover, conn);
}

/* Whoever can read by what is true no more goes first. */
static void
wait_for_readers(SlMover *mover)
{
	sl_move_wait_for_users(mover);
	sl_move_wait_for_snapshots(mover);
}

/* Rows must not be removed while somebody could look for them here. */
void
sl_move_do_settle(SlMover *mover)
{
	wait_for_readers(mover);
}

/* Changes that came since the copy arrive. */
void
sl_move_do_follow(SlMover *mover)
{
	sl_move_follow(mover, sl_move_connect(mover->from), sl_move_connect(mover->to));
}

/*
 * Changes come no more.  Whoever reads from the slot goes first, or he would take it
 * again; unless the target is away: then the source must not keep its log.
 */
static void
end_stream(SlMover *mover)
{
	bool		reader_first = mover->move.attempts == 0;

	if (reader_first && mover->to->exists)
		sl_move_unsubscribe(mover, sl_move_connect(mover->to));
	if (mover->from->exists)
		sl_move_unpublish(mover, sl_move_connect(mover->from));
	if (!reader_first && mover->to->exists)
		sl_move_unsubscribe(mover, sl_move_connect(mover->to));
}

void
sl_move_do_detach(SlMover *mover)
{
	end_stream(mover);
}

/* Rows --------------------------------------------------------------------------------- */

/* Pairs of connections, which work on different tables at the same time. */
typedef struct Pairs
{
	int			count;
	SlConn	   *sources[MAX_STREAMS];
	SlConn	   *targets[MAX_STREAMS];
} Pairs;

static void
open_pairs(SlMover *mover, Pairs *pairs)
{
	pairs->count = Max(1, Min(MAX_STREAMS, list_length(mover->tables)));
	for (int i = 0; i < pairs->count; i++)
	{
		pairs->sources[i] = sl_move_connect_for_rows(mover->from);
		pairs->targets[i] = sl_move_connect_for_rows(mover->to);
	}
	sl_move_tell_time(mover, "connecting");
}

static void
exec_on_all(SlConn **conns, int count, const char *sql)
{
	for (int i = 0; i < count; i++)
		exec(conns[i], sql);
}

/* All of the source's connections read by one snapshot. */
static void
begin_sources(Pairs *pairs, const char *snapshot)
{
	exec_on_all(pairs->sources, pairs->count, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	for (int i = 0; i < pairs->count; i++)
	{
		if (snapshot != NULL)
			exec(pairs->sources[i], psprintf("SET TRANSACTION SNAPSHOT %s", quote_literal_cstr(snapshot)));
		else if (pairs->count > 1)
			snapshot = pstrdup(sl_remote_value(sl_remote_exec(pairs->sources[0], "SELECT pg_catalog.pg_export_snapshot()", 0, NULL), 0, 0));
	}
}

static int64
estimate(SlConn *conn, List *tables, const char *expression)
{
	int64		result = 0;
	ListCell   *cell;

	foreach(cell, tables)
	{
		const char *name = ((SlMoveTable *) lfirst(cell))->name;
		const char *value = sl_remote_value(sl_remote_ask(conn, expression, 1, &name), 0, 0);

		result += value != NULL ? strtoll(value, NULL, 10) : 0;
	}
	return result;
}

/* The part of the source's rows that is in the range, if keys are spread evenly. */
static double
share_of(const SlMover *mover)
{
	const SlMap *map = mover->map;
	double		all = 0;
	double		own = 0;

	if (map->kind != SL_KIND_HASH)
		return 1.0 / Max((double) sl_map_count_shardlets(mover->from->id, map->id), 1);
	for (int i = 0; i < map->shardlet_count; i++)
	{
		double		size = (double) map->shardlets[i].last_token - (double) map->shardlets[i].low_token;

		if (map->shardlets[i].shard != mover->from)
			continue;
		all += size;
		if (map->shardlets[i].id == mover->move.shardlet)
			own = size;
	}
	return all > 0 ? own / all : 1;
}

/*
 * Notes which tables are copied, and how much that is by the source's
 * statistics.  Returns true if an earlier attempt had begun.
 */
static bool
note_beginning(SlMover *mover, SlConn *source)
{
	double		share = share_of(mover);
	int64		rows = estimate(source, mover->tables,
								"SELECT pg_catalog.sum(greatest(c.reltuples, 0))::pg_catalog.int8 FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1)");
	int64		bytes = estimate(source, mover->tables,
								 "SELECT pg_catalog.pg_table_size(pg_catalog.to_regclass($1))");
	bool		has_begun = mover->move.has_begun;
	SlMove		move;

	sl_move_lock(mover->move.id);
	if (!sl_move_read(mover->move.id, &move))
		elog(ERROR, "could not find move %lld", (long long) mover->move.id);
	move.has_begun = mover->move.has_begun = true;
	move.relations = mover->move.relations = sl_move_relations(mover->map);
	move.table_count = list_length(mover->tables);
	move.tables_done = 0;
	move.rows_done = move.bytes_done = 0;
	move.rows_estimated = (int64) ((double) rows * share);
	move.bytes_estimated = (int64) ((double) bytes * share);
	sl_move_update(&move);
	sl_move_begin(mover);
	return has_begun;
}

static void
note_end(SlMover *mover, const SlMoveProgress *progress)
{
	SlMove		move;

	sl_move_lock(mover->move.id);
	if (!sl_move_read(mover->move.id, &move))
		elog(ERROR, "could not find move %lld", (long long) mover->move.id);
	move.rows_done = progress->rows;
	move.bytes_done = progress->bytes;
	move.tables_done = progress->tables;
	sl_move_update(&move);
	sl_move_begin(mover);
}

/* What an earlier attempt, or a move that is undone, has left. */
static void
clear_target(SlMover *mover)
{
	if (mover->move.mode == SL_MOVE_ONLINE)
		end_stream(mover);
	if (mover->to->exists)
		sl_move_remove(mover, mover->to);
}

/* Takes the snapshot that rows are copied by; online, from then on changes are kept. */
static void
take_snapshot(SlMover *mover, Pairs *pairs)
{
	SlConn	   *walsender;
	char	   *snapshot;

	if (mover->move.mode != SL_MOVE_ONLINE)
	{
		begin_sources(pairs, NULL);
		return;
	}
	sl_move_publish(mover, pairs->sources[0], pairs->targets[0]);
	sl_move_tell_time(mover, "publishing");
	sl_fault("move_copy_slot");
	snapshot = sl_move_make_slot(mover, pairs->sources[0], &walsender);
	begin_sources(pairs, snapshot);
	sl_conn_close(walsender);
}

static void
copy_rows(SlMover *mover, Pairs *pairs)
{
	SlMoveProgress progress = {0};

	sl_move_copy(mover, pairs->sources, pairs->targets, pairs->count, &progress);

	/*
	 * crash here: some tables are there, others not → removed, and copied
	 * again
	 */
	for (int i = 0; i < pairs->count; i++)
	{
		exec(pairs->targets[i], "COMMIT");
		sl_fault("move_copy_commit");
	}
	note_end(mover, &progress);
	sl_move_tell_time(mover, "copying");
}

/*
 * Changes begin to arrive while rows are still compared: by a snapshot of the
 * target that is older than all changes.
 */
static void
subscribe_and_compare(SlMover *mover, Pairs *pairs)
{
	exec_on_all(pairs->targets, pairs->count, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	exec_on_all(pairs->targets, pairs->count, "SELECT 1");
	sl_fault("move_copy_subscribe");
	sl_move_subscribe(mover, pairs->sources[0], sl_move_connect(mover->to));
	sl_move_tell_time(mover, "subscribing");
	sl_fault("move_copy_compare");
	sl_move_verify(mover, pairs->sources, pairs->targets, pairs->count);
	sl_move_tell_time(mover, "comparing");
}

static char *
lock_sql(List *tables, const char *mode)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	foreach(cell, tables)
		appendStringInfo(&sql, "%s%s", sql.len > 0 ? ", " : "LOCK TABLE ", ((SlMoveTable *) lfirst(cell))->name);
	appendStringInfo(&sql, " IN %s MODE", mode);
	return sql.data;
}

/* Returns false if others keep the tables locked. */
static bool
lock_tables_on(SlConn *conn, const char *sql)
{
	SlFailure  *failure;

	exec(conn, "SELECT pg_catalog.set_config('lock_timeout', '" LOCK_MS "', true)");
	(void) sl_remote_try(conn, sql, 0, NULL, DT_NOEND, &failure);
	if (failure != NULL && failure->sqlstate != ERRCODE_LOCK_NOT_AVAILABLE)
		sl_failure_raise(failure, conn->shard, sql);
	if (failure == NULL)
		exec(conn, "SET LOCAL lock_timeout TO 0");
	return failure == NULL;
}

/* Locks the tables on the router, then everywhere.  Returns false if that is not possible now. */
static bool
lock_tables(SlMover *mover, const Pairs *pairs, SlConn *witness)
{
	bool		result = true;
	ListCell   *cell;

	foreach(cell, mover->tables)
	{
		if (!ConditionalLockRelationOid(((SlMoveTable *) lfirst(cell))->relid, AccessShareLock))
			return false;
	}
	mover->map = sl_map_get_by_id(mover->move.map_id);
	check_relations(mover, mover->map);
	mover->tables = sl_move_tables(mover->map, &mover->range);
	if (mover->tables == NIL)
		return true;
	for (int i = 0; i < pairs->count && result; i++)
		result = lock_tables_on(pairs->sources[i], lock_sql(mover->tables, "ACCESS SHARE")) &&
			lock_tables_on(pairs->targets[i], lock_sql(mover->tables, "ROW EXCLUSIVE"));
	return result && lock_tables_on(witness, lock_sql(mover->tables, "ACCESS SHARE"));
}

static void
exec_everywhere(Pairs *pairs, SlConn *witness, const char *sql)
{
	exec_on_all(pairs->sources, pairs->count, sql);
	exec_on_all(pairs->targets, pairs->count, sql);
	exec(witness, sql);
}

/*
 * Fixes how the tables are made for as long as these transactions last, and finds
 * out how that is: it may have changed since the step began, and a column that
 * came meanwhile has values, too.
 *
 * DDL locks the router's table before those of the shards.  So while that one is
 * held here, nobody is between the two shards; later ones wait for the source, with
 * nothing on the target that a connection of ours would still have to wait for.
 * Hence all of them take all locks now.  If somebody on a shard keeps them from
 * that, everything is let go for a moment: whoever waits for the router's table
 * does not wait for him.
 */
static void
fix_tables(SlMover *mover, Pairs *pairs, SlConn *witness)
{
	TimestampTz since = GetCurrentTimestamp();

	exec_everywhere(pairs, witness, "SAVEPOINT shardlet_lock");
	while (!lock_tables(mover, pairs, witness))
	{
		exec_everywhere(pairs, witness, "ROLLBACK TO shardlet_lock");
		sl_move_begin(mover);
		sl_move_pause(mover, since, "those who have locked tables of the map");
	}
	exec_everywhere(pairs, witness, "RELEASE shardlet_lock");

	/* Lets go of the router's. */
	sl_move_begin(mover);
}

/*
 * All rows of the range go to the other shard.  The witness keeps the tables there
 * as they are between those who bring the rows and those who compare them.
 */
void
sl_move_do_copy(SlMover *mover)
{
	Pairs		pairs;
	SlConn	   *witness = sl_move_connect(mover->to);

	open_pairs(mover, &pairs);
	if (note_beginning(mover, pairs.sources[0]))
		clear_target(mover);
	take_snapshot(mover, &pairs);
	sl_move_tell_time(mover, "taking a snapshot");
	exec_on_all(pairs.targets, pairs.count, "BEGIN");
	exec(witness, "BEGIN");
	fix_tables(mover, &pairs, witness);
	sl_move_check_columns(pairs.sources[0], mover->tables);
	copy_rows(mover, &pairs);
	if (mover->move.mode == SL_MOVE_ONLINE)
		subscribe_and_compare(mover, &pairs);
	exec(witness, "COMMIT");
}

void
sl_move_do_verify(SlMover *mover)
{
	Pairs		pairs;

	open_pairs(mover, &pairs);
	sl_move_verify(mover, pairs.sources, pairs.targets, pairs.count);
}

/*
 * Behind this step nobody keeps these rows out, so nobody may be left then whose
 * snapshot on the shard has them.
 */
void
sl_move_do_remove(SlMover *mover)
{
	/* A shard that was dropped meanwhile keeps what it has. */
	if (mover->from->exists)
		sl_move_remove(mover, mover->from);
	wait_for_readers(mover);
}

void
sl_move_do_undo_remove(SlMover *mover)
{
	clear_target(mover);
	wait_for_readers(mover);
}

/*
 * The shardlet went with a shard that was dropped by force.  Before the switch that was
 * the source, and rows that were copied belong to nobody.  Behind it, what the source
 * still has may be all that is left of them: it stays there.
 */
void
sl_move_do_lost(SlMover *mover)
{
	const SlStray *stray = sl_stray_find(mover->map, mover->move.id);
	bool		is_behind = stray == NULL || stray->is_behind;

	if (mover->move.mode == SL_MOVE_ONLINE)
		end_stream(mover);
	if (!is_behind && mover->to->exists)
		sl_move_remove(mover, mover->to);
	wait_for_readers(mover);
}

void
sl_move_do_lost_finish(SlMover *mover)
{
	SlMap	   *map;

	if (mover->to->exists)
		sl_shard_lock(mover->to, AccessShareLock);
	map = sl_map_open_for_change(NameStr(mover->map->name));
	sl_stray_delete(map->id, mover->move.id);
	sl_map_finish_change(map);
	sl_publish_gone(map, mover->move.shardlet, mover->to);
}
