/*
 * move_do.c
 *		What the steps of a move do; move_steps.c has them in order.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "base/fault.h"
#include "fanout/fanout.h"
#include "move/move_internal.h"

#define MAX_STREAMS 4

/* Connections --------------------------------------------------------------------- */

/* A connection that goes with the step. */
static SlConn *
open_shard(SlShard *shard)
{
	SlTarget	target;

	if (!shard->exists)
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("a shard of the move does not exist any more"),
				errdetail("Its id was %d.", shard->id));
	target = sl_remote_target(shard);
	target.plain_path = true;
	return sl_remote_open(&target);
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

/* Locks shard and map, and reads the shardlet as it is then. */
static SlMap *
open_for_change(SlMover *mover, SlShardletRow *row)
{
	SlMap	   *map;

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
	row.state = state_for(mover->move.mode);
	sl_shardlet_row_update(&row);
	insert_stray(mover, &row, mover->to, row.state, false);
	sl_map_include_shard(map, mover->to);
	sl_map_finish_change(map);
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

/* The other shard is the owner from now on. */
void
sl_move_do_switch(SlMover *mover)
{
	SlShardletRow row;
	SlMap	   *map = open_for_change(mover, &row);

	check_relations(mover, map);
	row.shard_id = mover->to->id;
	row.state = mover->move.state_before;
	sl_shardlet_row_update(&row);
	sl_stray_delete(map->id, mover->move.id);
	insert_stray(mover, &row, mover->from, SL_STATE_ONLINE, true);
	sl_map_finish_change(map);
}

/* Nobody has rows any more that do not count. */
void
sl_move_do_finish(SlMover *mover)
{
	SlShardletRow row;
	SlMap	   *map = open_for_change(mover, &row);

	sl_stray_delete(map->id, mover->move.id);
	sl_map_finish_change(map);
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

	/* What was decided and not carried out yet counts as written. */
	failure = sl_recover_shard(mover->from, NULL, &finished);
	if (failure != NULL)
		sl_failure_raise(failure, NameStr(mover->from->name), NULL);
	conn = open_shard(mover->from);
	sl_move_wait_for_writers(mover, conn);
}

/* Rows must not be removed while somebody could look for them here. */
void
sl_move_do_settle(SlMover *mover)
{
	sl_move_wait_for_users(mover);
}

/* Rows --------------------------------------------------------------------------------- */

static void
begin_sources(SlConn **sources, int count)
{
	const char *snapshot = NULL;

	for (int i = 0; i < count; i++)
	{
		exec(sources[i], "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
		if (i > 0)
			exec(sources[i], psprintf("SET TRANSACTION SNAPSHOT %s", quote_literal_cstr(snapshot)));
		else if (count > 1)
			snapshot = pstrdup(sl_remote_value(sl_remote_exec(sources[0], "SELECT pg_catalog.pg_export_snapshot()", 0, NULL), 0, 0));
	}
}

static void
begin_targets(SlConn **targets, int count)
{
	for (int i = 0; i < count; i++)
	{
		exec(targets[i], "SET session_replication_role = replica");
		exec(targets[i], "BEGIN");
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
	bool		has_begun = mover->move.relations != NIL;
	SlMove		move;

	sl_move_lock(mover->move.id);
	if (!sl_move_read(mover->move.id, &move))
		elog(ERROR, "could not find move %lld", (long long) mover->move.id);
	move.relations = sl_move_relations(mover->map);
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

/* All rows of the range go to the other shard. */
void
sl_move_do_copy(SlMover *mover)
{
	int			count = Max(1, Min(MAX_STREAMS, list_length(mover->tables)));
	SlConn	  **sources = palloc(sizeof(SlConn *) * count);
	SlConn	  **targets = palloc(sizeof(SlConn *) * count);
	SlMoveProgress progress = {0};

	for (int i = 0; i < count; i++)
	{
		sources[i] = open_shard(mover->from);
		targets[i] = open_shard(mover->to);
	}
	if (note_beginning(mover, sources[0]))
		sl_move_remove(mover, targets[0]);
	begin_sources(sources, count);
	begin_targets(targets, count);
	sl_move_copy(mover, sources, targets, count, &progress);

	/*
	 * crash here: some tables are there, others not → removed, and copied
	 * again
	 */
	for (int i = 0; i < count; i++)
	{
		exec(targets[i], "COMMIT");
		sl_fault("move_copy_commit");
	}
	note_end(mover, &progress);
}

void
sl_move_do_verify(SlMover *mover)
{
	sl_move_verify(open_shard(mover->from), open_shard(mover->to), mover->tables);
}

void
sl_move_do_remove(SlMover *mover)
{
	sl_move_remove(mover, open_shard(mover->from));
}

void
sl_move_do_undo_remove(SlMover *mover)
{
	sl_move_remove(mover, open_shard(mover->to));
}
