/*
 * move_check.c
 *		What is refused before a move begins.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "move/move.h"

/* What the two shards, and the shardlet between them, look like -------------------- */

static void
check_states(const SlMap *map, const SlShardletRow *row, const SlShard *from, const SlShard *to,
			 SlMoveMode mode)
{
	if (from->id == to->id)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shardlet %lld is already on shard \"%s\"", (long long) row->id, NameStr(to->name)));
	if (!from->exists)
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("shardlet %lld is on a shard that does not exist any more", (long long) row->id),
				errdetail("Its id was %d.", from->id),
				errhint("Give the shardlet to another shard with shardlet.reassign()."));
	if (to->state != SL_STATE_ONLINE)
		ereport(ERROR,
				errcode(to->state == SL_STATE_OFFLINE ? SL_ERR_UNREACHABLE : SL_ERR_READ_ONLY),
				errmsg("shard \"%s\" is %s", NameStr(to->name), sl_state_name(to->state)),
				errdetail("A shardlet can be moved only to a shard that is online."));
	if (from->state != SL_STATE_ONLINE)
		ereport(ERROR,
				errcode(from->state == SL_STATE_OFFLINE ? SL_ERR_UNREACHABLE : SL_ERR_READ_ONLY),
				errmsg("shard \"%s\" is %s", NameStr(from->name), sl_state_name(from->state)),
				errdetail("What a shardlet leaves behind has to be removed there."));
	if ((row->state == SL_STATE_OFFLINE && mode != SL_MOVE_OFFLINE) ||
		(row->state == SL_STATE_READ_ONLY && mode == SL_MOVE_ONLINE))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shardlet %lld is %s", (long long) row->id, sl_state_name(row->state)),
				errdetail("It cannot be moved in a mode in which it would be more than that."),
				errhint("Use mode \"%s\".", sl_state_name(row->state)));
	if (map->kind == SL_KIND_SPREAD && sl_map_count_shardlets(to->id, map->id) > 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shard \"%s\" already has a shardlet of spread map \"%s\"", NameStr(to->name),
					   NameStr(map->name)),
				errdetail("Rows of a spread map have no key, so two shardlets on one shard could not be told apart."));
}

/* What the shards say -------------------------------------------------------------------- */

/* Copied rows must not fire triggers, and removed ones neither. */
static void
check_rights(SlConn *conn)
{
	PGresult   *answer = sl_remote_ask(conn,
									   "SELECT pg_catalog.has_parameter_privilege('session_replication_role', 'SET'), pg_catalog.quote_ident(current_user)",
									   0, NULL);

	if (!sl_remote_bool(answer, 0, 0))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("no right to move rows on shard \"%s\"", conn->shard),
				errdetail("Triggers and foreign keys must not fire for rows that are moved."),
				errhint("Run there: GRANT SET ON PARAMETER session_replication_role TO %s;",
						sl_remote_value(answer, 0, 1)));
}

static void
check_no_rows(SlConn *conn, const SlMoveTable *table, int64 shardlet)
{
	const char *name = table->name;
	char	   *sql;

	if (!sl_remote_bool(sl_remote_ask(conn, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", 1, &name), 0, 0))
		return;
	sql = psprintf("SELECT EXISTS (SELECT FROM %s WHERE %s)", table->name, table->condition);
	if (sl_remote_bool(sl_remote_exec(conn, sql, 0, NULL), 0, 0))
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("shard \"%s\" already has rows of shardlet %lld", conn->shard, (long long) shardlet),
				errdetail("They are in table \"%s\".", table->label),
				errhint("Remove them, or wait until a move that left them has done so: see shardlet.moves."));
}

static SlConn *
open_shard(SlShard *shard)
{
	SlTarget	target = sl_remote_target(shard);

	target.plain_path = true;
	return sl_remote_open(&target);
}

static void
check_shards(SlMap *map, const SlShardletRow *row, SlShard *from, SlShard *to)
{
	SlConn	   *source = open_shard(from);
	SlConn	   *target = open_shard(to);
	ListCell   *cell;

	check_rights(source);
	check_rights(target);
	foreach(cell, sl_move_tables(map, row))
		check_no_rows(target, lfirst(cell), row->id);
}

/* Fails if the shardlet cannot be moved there in this mode. */
void
sl_move_check(SlMap *map, const SlShardletRow *row, SlShard *to, SlMoveMode mode, bool ask_shards)
{
	SlShard    *from = sl_shard_by_id(row->shard_id);

	check_states(map, row, from, to, mode);
	if (mode == SL_MOVE_ONLINE)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("shardlets cannot be moved in mode \"online\" yet"),
				errhint("Use mode \"read_only\"."));
	if (ask_shards)
		check_shards(map, row, from, to);
}
