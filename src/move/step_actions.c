/*
 * step_actions.c
 *		What the steps of a move do; steps.c has them in order.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "executor/multi_shard.h"
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
#define MAX_PAUSES 100
#define FREE_MS 10

/* And so fast when it is. */
#define LOCKED_MARKER_MS 1000

static void
exec_on_shard(SlConn *conn, const char *sql)
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
 * Locks shard and map, and reads the shardlet as it is then.  A shard that was
 * dropped by force does not prevent the clean-up.
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
insert_orphaned(SlMover *mover, const SlShardletRow *row, SlShard *shard, SlState state, bool is_after_switch)
{
	SlOrphanedRange orphan = {.move = mover->move.id,.shard = shard,.range = *row,.is_after_switch = is_after_switch};

	orphan.range.state = state;
	sl_orphaned_insert(&orphan);
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
	sl_move_recheck_preconditions(map, &row, mover->to, &mover->move);
	row.state = state_for(mover->move.mode);
	sl_shardlet_row_update(&row);
	insert_orphaned(mover, &row, mover->to, row.state, false);
	sl_map_include_shard(map, mover->to);
	sl_map_finish_change(map);
	sl_publish_arrival(map, &row, mover->to);
}

/* Rows of tables that came to the map meanwhile were not copied. */
static void
check_relations(SlMover *mover, SlMap *map)
{
	if (!equal(sl_move_list_relations(map), mover->move.relations))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("tables of map \"%s\" have changed since they were copied", NameStr(map->name)),
				errhint("CALL shardlet.resume_move(%lld) moves the shardlet again.",
						(long long) mover->move.id));
}

/* Rows on a shard that left the map would never be found. */
static void
check_member(const SlMap *map, const SlShard *shard)
{
	if (!list_member_int(sl_map_shard_ids(map->id), shard->id))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("map \"%s\" does not use shard \"%s\" any more", NameStr(map->name), NameStr(shard->name)));
}

/*
 * Returns how long to wait for a lock for the switch: writers queue behind the
 * request.
 */
static int
lock_limit(const SlMover *mover)
{
	return Min(40 + 10 * Max(mover->move.attempts - 10, 0), 1000);
}

/* Locks the range against writers until the end of the transaction. */
static void
lock_range(SlMover *mover, const SlMap *map)
{
	const char *params[3];
	int			count;

	SlReply    *replies = sl_command_begin(list_make2(mover->from, mover->to), true, &count);

	params[0] = NameStr(map->name);
	params[1] = psprintf("%lld", (long long) mover->move.shardlet);
	params[2] = psprintf("%d", lock_limit(mover));
	sl_command_everywhere(replies, count, "SELECT shardlet.guard_lock($1::pg_catalog.name, $2::pg_catalog.int8, $3::pg_catalog.int4)",
						  3, params, true);
}

/*
 * Shortens what is left to be applied, while writers are not kept out, or not for
 * long.
 */
static void
pass_free_markers(SlMover *mover, SlConn *source, SlConn *target)
{
	SlConn	   *holder;

	for (int i = 0; i < FREE_MARKERS; i++)
	{
		if (sl_move_pass_marker(mover, source, target, FREE_MARKER_MS))
			return;
		sl_move_check_slot(mover, source);
		sl_move_check_cancelled(mover);
	}
	holder = sl_move_connect(mover, mover->from);
	for (int i = 0; i < MAX_PAUSES && !sl_move_hold_writers(mover, holder, source, target); i++)
		sl_move_nap(mover, FREE_MS);
	sl_move_disconnect(mover, holder);
}

/*
 * Brings the target up to date for good: with the range locked, a row that was
 * written into the source's WAL arrives after everything else.
 */
static void
catch_up(SlMover *mover, const SlMap *map, SlConn *source, SlConn *target)
{
	sl_fault("move_switch_lock");
	lock_range(mover, map);
	sl_move_log_time(mover, "locking");
	sl_fault("move_switch_marker");
	if (!sl_move_pass_marker(mover, source, target, LOCKED_MARKER_MS))
		ereport(ERROR,
				errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				errmsg("changes of shard \"%s\" did not reach shard \"%s\" within %d ms",
					   NameStr(mover->from->name), NameStr(mover->to->name), LOCKED_MARKER_MS));
	sl_move_log_time(mover, "the last marker");
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
		source = sl_move_connect(mover, mover->from);
		target = sl_move_connect(mover, mover->to);
		sl_move_check_guards(source, mover->tables);
		pass_free_markers(mover, source, target);
		sl_move_log_time(mover, "passing markers");
	}
	map = open_for_change(mover, &row);
	sl_move_recheck_preconditions(map, &row, mover->to, &mover->move);
	check_member(map, mover->to);
	check_relations(mover, map);
	if (mover->move.mode == SL_MOVE_ONLINE)
		catch_up(mover, map, source, target);
	row.shard_id = mover->to->id;
	row.state = mover->move.state_before;
	sl_shardlet_row_update(&row);
	sl_orphaned_delete(map->id, mover->move.id);
	insert_orphaned(mover, &row, mover->from, SL_STATE_ONLINE, true);
	sl_map_finish_change(map);
}

/*
 * There are no orphaned rows of the move any more.  If it was undone, the target is
 * informed only now that none will come: a state that must change back need not wait
 * until that shard can be reached.
 */
void
sl_move_do_finish(SlMover *mover)
{
	SlShardletRow row;
	SlMap	   *map = open_for_change(mover, &row);

	sl_orphaned_delete(map->id, mover->move.id);
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
	sl_orphaned_delete(map->id, mover->move.id);
	if (mover->to->exists)
		insert_orphaned(mover, &row, mover->to, SL_STATE_ONLINE, false);
	sl_map_finish_change(map);
}

/* Waiting ----------------------------------------------------------------------------- */

/*
 * Rows must not be copied to a shard while a transaction could read them there, nor
 * while one writes to them on the source.
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
	conn = sl_move_connect(mover, mover->from);
	sl_move_wait_for_writers(mover, conn);
}

/* Waits for transactions that may read by the map as it was before the switch. */
static void
wait_for_readers(SlMover *mover)
{
	sl_move_wait_for_users(mover);
	sl_move_wait_for_snapshots(mover);
}

/* Rows must not be removed while a transaction could look for them on the source. */
void
sl_move_do_wait_readers(SlMover *mover)
{
	wait_for_readers(mover);
}

/* Changes that came since the copy arrive. */
void
sl_move_do_follow(SlMover *mover)
{
	sl_move_apply_changes(mover, sl_move_connect(mover, mover->from), sl_move_connect(mover, mover->to));
}

/*
 * Ends the replication.  The subscription goes first, or its worker would use the
 * slot again; unless the target cannot be reached: then the source must not keep its
 * WAL.
 */
static void
end_stream(SlMover *mover)
{
	bool		reader_first = mover->move.attempts == 0;

	if (reader_first && mover->to->exists)
		sl_move_drop_subscription(mover, sl_move_connect(mover, mover->to));
	if (mover->from->exists)
		sl_move_drop_publication(mover, sl_move_connect(mover, mover->from));
	if (!reader_first && mover->to->exists)
		sl_move_drop_subscription(mover, sl_move_connect(mover, mover->to));
}

void
sl_move_do_detach(SlMover *mover)
{
	end_stream(mover);
}

/* Rows --------------------------------------------------------------------------------- */

/*
 * Pairs of connections, which work on different tables at the same time.  Online, there
 * are as many witnesses: they lock the target's tables before rows come, and compare these
 * when they are there.  So nothing has to be locked in between, when DDL may wait for
 * what is locked.
 */
typedef struct Pairs
{
	int			count;
	SlConn	   *sources[MAX_STREAMS];
	SlConn	   *targets[MAX_STREAMS];
	int			witness_count;
	SlConn	   *witnesses[MAX_STREAMS];
	SlConn	   *observer;		/* on the source, for the slot's state; NULL:
								 * there is no slot */
} Pairs;

static void
open_pairs(SlMover *mover, Pairs *pairs, bool with_witnesses)
{
	memset(pairs, 0, sizeof(Pairs));
	pairs->count = Max(1, Min(MAX_STREAMS, list_length(mover->tables)));
	for (int i = 0; i < pairs->count; i++)
	{
		pairs->sources[i] = sl_move_connect_for_rows(mover, mover->from);
		pairs->targets[i] = sl_move_connect_for_rows(mover, mover->to);
		if (with_witnesses)
			pairs->witnesses[pairs->witness_count++] = sl_move_connect_for_rows(mover, mover->to);
	}
	if (with_witnesses)
		pairs->observer = sl_move_connect(mover, mover->from);
	sl_move_log_time(mover, "connecting");
}

static void
exec_on_all(SlConn **conns, int count, const char *sql)
{
	for (int i = 0; i < count; i++)
		exec_on_shard(conns[i], sql);
}

/* All of the source's connections read by one snapshot. */
static void
begin_sources(Pairs *pairs, const char *snapshot)
{
	exec_on_all(pairs->sources, pairs->count, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	for (int i = 0; i < pairs->count; i++)
	{
		if (snapshot != NULL)
			exec_on_shard(pairs->sources[i], psprintf("SET TRANSACTION SNAPSHOT %s", quote_literal_cstr(snapshot)));
		else if (pairs->count > 1)
			snapshot = pstrdup(sl_protocol_value(pairs->sources[0], sl_remote_exec(pairs->sources[0], "SELECT pg_catalog.pg_export_snapshot()", 0, NULL), 0, 0));
	}
}

static int64
estimate_size(SlConn *conn, List *tables, const char *expression)
{
	int64		result = 0;
	ListCell   *cell;

	foreach(cell, tables)
	{
		const char *name = ((SlMoveTable *) lfirst(cell))->name;
		const char *value = sl_remote_value(sl_remote_query(conn, expression, 1, &name), 0, 0);

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
	int64		rows = estimate_size(source, mover->tables,
									 "SELECT pg_catalog.sum(greatest(c.reltuples, 0))::pg_catalog.int8 FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1)");
	int64		bytes = estimate_size(source, mover->tables,
									  "SELECT pg_catalog.pg_table_size(pg_catalog.to_regclass($1))");
	bool		has_begun = mover->move.has_begun;
	SlMove		move;

	sl_move_lock(mover->move.id);
	if (!sl_move_read(mover->move.id, &move))
		elog(ERROR, "could not find move %lld", (long long) mover->move.id);
	move.has_begun = mover->move.has_begun = true;
	move.relations = mover->move.relations = sl_move_list_relations(mover->map);
	move.table_count = list_length(mover->tables);
	move.tables_done = 0;
	move.rows_done = move.bytes_done = 0;
	move.rows_estimated = (int64) ((double) rows * share);
	move.bytes_estimated = (int64) ((double) bytes * share);
	sl_move_update(&move);
	sl_move_begin_transaction(mover);
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
	sl_move_begin_transaction(mover);
}

/* What an earlier attempt, or a move that is undone, has left. */
static void
clear_target(SlMover *mover)
{
	if (mover->move.mode == SL_MOVE_ONLINE)
		end_stream(mover);
	if (mover->to->exists)
		sl_move_delete_rows(mover, mover->to);
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
	sl_move_create_publication(mover, pairs->sources[0], pairs->targets[0]);
	sl_fault("move_copy_subscribe");
	sl_move_create_subscription(mover, pairs->sources[0], pairs->targets[0]);
	sl_move_log_time(mover, "publishing");
	sl_fault("move_copy_slot");
	snapshot = sl_move_create_slot(mover, pairs->sources[0], &walsender);
	begin_sources(pairs, snapshot);
	sl_conn_close(walsender);
}

static void
copy_rows(SlMover *mover, Pairs *pairs)
{
	SlMoveProgress progress = {0};

	sl_fault("move_copy_rows");
	sl_move_copy_rows(mover, pairs->sources, pairs->targets, pairs->count, pairs->observer, &progress);

	/*
	 * crash here: some tables are there, others not → removed, and copied
	 * again
	 */
	for (int i = 0; i < pairs->count; i++)
	{
		exec_on_shard(pairs->targets[i], "COMMIT");
		sl_fault("move_copy_commit");
	}
	note_end(mover, &progress);
	sl_move_log_time(mover, "copying");
}

/*
 * Changes begin to arrive while rows are still compared: by snapshots of the
 * target that are older than all changes.
 */
static void
enable_and_compare(SlMover *mover, Pairs *pairs)
{
	exec_on_all(pairs->witnesses, pairs->witness_count, "SELECT 1");
	sl_fault("move_copy_enable");
	sl_move_enable_subscription(mover, pairs->targets[0]);
	sl_move_log_time(mover, "subscribing");
	sl_fault("move_copy_compare");
	sl_move_compare_rows(mover, pairs->sources, pairs->witnesses, pairs->count);
	sl_move_log_time(mover, "comparing");
	exec_on_all(pairs->witnesses, pairs->witness_count, "COMMIT");
	sl_move_check_slot(mover, pairs->observer);
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

/*
 * Returns false if others keep the tables locked.  Nothing here takes a snapshot: a
 * witness has to see rows that come later.
 */
static bool
lock_tables_on(SlConn *conn, const char *sql)
{
	SlFailure  *failure;

	exec_on_shard(conn, "SET LOCAL lock_timeout TO '" LOCK_MS "'");
	(void) sl_remote_try(conn, sql, 0, NULL, DT_NOEND, &failure);
	if (failure != NULL && failure->sqlstate != ERRCODE_LOCK_NOT_AVAILABLE)
		sl_failure_raise(failure, conn->shard, sql);
	if (failure == NULL)
		exec_on_shard(conn, psprintf("SET LOCAL lock_timeout TO %d", sl_move_wait_timeout));
	return failure == NULL;
}

static bool
lock_tables_on_all(SlConn *const *conns, int count, const char *sql)
{
	for (int i = 0; i < count; i++)
	{
		if (!lock_tables_on(conns[i], sql))
			return false;
	}
	return true;
}

/* Locks the tables on the router, then everywhere.  Returns false if that is not possible now. */
static bool
lock_tables(SlMover *mover, const Pairs *pairs)
{
	const char *share;
	ListCell   *cell;

	foreach(cell, mover->tables)
	{
		if (!ConditionalLockRelationOid(((SlMoveTable *) lfirst(cell))->relid, AccessShareLock))
			return false;
	}
	mover->map = sl_map_get_by_id(mover->move.map_id);
	check_relations(mover, mover->map);
	mover->tables = sl_move_list_tables(mover->map, &mover->range);
	if (mover->tables == NIL)
		return true;
	share = lock_sql(mover->tables, "ACCESS SHARE");
	return lock_tables_on_all(pairs->sources, pairs->count, share) &&
		lock_tables_on_all(pairs->targets, pairs->count, lock_sql(mover->tables, "ROW EXCLUSIVE")) &&
		lock_tables_on_all(pairs->witnesses, pairs->witness_count, share);
}

static void
exec_everywhere(Pairs *pairs, const char *sql)
{
	exec_on_all(pairs->sources, pairs->count, sql);
	exec_on_all(pairs->targets, pairs->count, sql);
	exec_on_all(pairs->witnesses, pairs->witness_count, sql);
}

/*
 * Fixes how the tables are made for as long as these transactions last, and finds
 * out how that is: it may have changed since the step began, and a column that
 * came meanwhile has values, too.
 *
 * DDL locks the router's table before those of the shards.  So while the mover holds
 * the router's lock, no DDL is between the two shards; a later one waits for the
 * source, without any lock on the target that another connection of the mover would
 * still have to wait for.  Hence all of them take all locks now.  If a session of a
 * shard prevents that, all locks are released for a moment: sessions that wait for
 * the router's table do not wait for that session.
 */
static void
fix_tables(SlMover *mover, Pairs *pairs)
{
	TimestampTz since = GetCurrentTimestamp();

	exec_everywhere(pairs, "SAVEPOINT shardlet_lock");
	while (!lock_tables(mover, pairs))
	{
		exec_everywhere(pairs, "ROLLBACK TO shardlet_lock");
		sl_move_begin_transaction(mover);
		sl_move_pause(mover, since, "those who have locked tables of the map");
	}
	exec_everywhere(pairs, "RELEASE shardlet_lock");

	/* Releases the router's locks. */
	sl_move_begin_transaction(mover);
}

/* All rows of the range go to the other shard. */
void
sl_move_do_copy(SlMover *mover)
{
	bool		is_online = mover->move.mode == SL_MOVE_ONLINE;
	Pairs		pairs;

	open_pairs(mover, &pairs, is_online);
	if (note_beginning(mover, pairs.sources[0]))
		clear_target(mover);
	take_snapshot(mover, &pairs);
	sl_move_log_time(mover, "taking a snapshot");
	exec_on_all(pairs.targets, pairs.count, "BEGIN");
	exec_on_all(pairs.witnesses, pairs.witness_count, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	sl_fault("move_copy_lock");
	fix_tables(mover, &pairs);
	sl_move_check_columns(pairs.sources[0], mover->tables);
	sl_move_check_exposed(pairs.targets[0], mover->to, mover->tables, mover->move.mode);
	copy_rows(mover, &pairs);
	if (is_online)
		enable_and_compare(mover, &pairs);
}

void
sl_move_do_verify(SlMover *mover)
{
	Pairs		pairs;

	open_pairs(mover, &pairs, false);
	sl_move_compare_rows(mover, pairs.sources, pairs.targets, pairs.count);
}

/*
 * After this step these rows are not filtered any more, so no transaction may be left
 * whose snapshot on the shard has them.
 */
void
sl_move_do_remove(SlMover *mover)
{
	/* A shard that was dropped meanwhile keeps what it has. */
	if (mover->from->exists)
		sl_move_delete_rows(mover, mover->from);
	wait_for_readers(mover);
}

void
sl_move_do_undo_remove(SlMover *mover)
{
	clear_target(mover);
	wait_for_readers(mover);
}

/*
 * The shardlet was dropped along with a shard, by force.  Before the switch that was
 * the source, and the rows that were copied are orphaned for good.  After the switch,
 * what the source still has may be all that is left of them: it stays there.
 */
void
sl_move_do_lost(SlMover *mover)
{
	const SlOrphanedRange *orphan = sl_orphaned_find(mover->map, mover->move.id);
	bool		is_after_switch = orphan == NULL || orphan->is_after_switch;

	if (mover->move.mode == SL_MOVE_ONLINE)
		end_stream(mover);
	if (!is_after_switch && mover->to->exists)
		sl_move_delete_rows(mover, mover->to);
	wait_for_readers(mover);
}

void
sl_move_do_lost_finish(SlMover *mover)
{
	SlMap	   *map;

	if (mover->to->exists)
		sl_shard_lock(mover->to, AccessShareLock);
	map = sl_map_open_for_change(NameStr(mover->map->name));
	sl_orphaned_delete(map->id, mover->move.id);
	sl_map_finish_change(map);
	sl_publish_gone(map, mover->move.shardlet, mover->to);
}
