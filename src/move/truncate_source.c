/*
 * truncate_source.c
 *		Empties tables of which a shard owns nothing any more.
 *
 * TRUNCATE takes a moment where deleting all rows takes half as long as inserting
 * them, and leaves tables without bloat.  It is used only where it makes no other
 * difference:
 *
 * - The shard owns nothing else of the map and no other move copies rows to it: the
 *   map is locked meanwhile, so it stays like that, and the guard keeps others from
 *   writing.
 * - There are no rows of other ranges, which may have been written past the guard.
 * - No logical replication reads the server's WAL, to whose consumers it would be a
 *   TRUNCATE of something larger.
 * - The tables are still those that were checked: a name may have been given to
 *   another.
 * - No session uses the tables, since it would have to wait: the lock is requested
 *   once, and not for long.
 *
 * Otherwise, or without the privilege, the rows are deleted (delete_rows.c).
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "storage/lmgr.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "move/move_internal.h"

/* So long readers of the tables may have to wait. */
#define LOCK_MS "100ms"

/*
 * Is a table missing, or is there a consumer of logical changes, or may there be one?
 * A slot of a standby does not show in this view, a publication does.
 */
#define REFUSE_SQL \
	"SELECT EXISTS (SELECT FROM pg_catalog.unnest($1::pg_catalog.text[]) t WHERE pg_catalog.to_regclass(t) IS NULL)" \
	" OR EXISTS (SELECT FROM pg_catalog.pg_replication_slots s WHERE s.slot_type OPERATOR(pg_catalog.=) 'logical'" \
	" AND s.database OPERATOR(pg_catalog.=) pg_catalog.current_database())" \
	" OR EXISTS (SELECT FROM pg_catalog.pg_publication p WHERE p.pubtruncate)"

typedef struct Search
{
	SlConnectionSet set;		/* first, so that it leads here */
	int			next;
	bool		has_others;
} Search;

/* Has the shard other rows of the map, or will it?  That is sure only while the map is held. */
static bool
has_other_ranges(const SlMover *mover, const SlMap *map, const SlShard *shard)
{
	if (sl_map_count_shardlets(shard->id, map->id) > 0)
		return true;
	for (int i = 0; i < map->orphaned_count; i++)
	{
		if (map->orphaned[i].shard == shard && map->orphaned[i].move != mover->move.id)
			return true;
	}
	return false;
}

static char *
next_table(SlConnectionSet *set, int index)
{
	Search	   *search = (Search *) set;
	const SlMoveTable *table;

	if (search->has_others || search->next == list_length(set->mover->tables))
		return NULL;
	table = list_nth(set->mover->tables, search->next++);
	return psprintf("SELECT EXISTS (SELECT FROM %s WHERE (%s) IS NOT TRUE)", table->name, table->condition);
}

static void
take_answer(SlConnectionSet *set, int index, const PGresult *row)
{
	Search	   *search = (Search *) set;

	search->has_others = search->has_others || row == NULL || sl_remote_bool(row, 0, 0);
}

static bool
has_other_rows(SlMover *mover, SlConn **conns, int count)
{
	Search		search = {.set = {.mover = mover,.conns = conns,.count = count,.next = next_table,.take = take_answer}};

	sl_move_run_statements(&search.set);
	return search.has_others;
}

static char *
truncate_sql(List *tables)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	foreach(cell, tables)
		appendStringInfo(&sql, "%s%s", sql.len > 0 ? ", " : "TRUNCATE ", ((SlMoveTable *) lfirst(cell))->name);
	return sql.data;
}

static bool
is_refused(const SlMover *mover, SlConn *conn)
{
	const char *names = sl_move_form_table_names(mover->tables);

	return sl_remote_bool(sl_remote_query(conn, REFUSE_SQL, 1, &names), 0, 0);
}

/* Are the tables those of the step's beginning, and will they stay?  Does not wait. */
static bool
hold_tables(SlMover *mover, SlMap *map, const SlShardletRow *row)
{
	List	   *tables;
	ListCell   *cell;

	foreach(cell, mover->tables)
	{
		if (!ConditionalLockRelationOid(((SlMoveTable *) lfirst(cell))->relid, AccessShareLock))
			return false;
	}
	tables = sl_move_list_tables(map, row);
	if (list_length(tables) != list_length(mover->tables))
		return false;
	foreach(cell, tables)
	{
		const SlMoveTable *now = lfirst(cell);
		const SlMoveTable *then = list_nth(mover->tables, foreach_current_index(cell));

		if (now->relid != then->relid || strcmp(now->name, then->name) != 0)
			return false;
	}
	return true;
}

/*
 * Returns false if it is not possible now.  The shard must not go on by itself if
 * this process dies, and the map is not locked any more: so the shard waits for
 * COMMIT, with all of its locks.
 */
static bool
truncate_tables(SlMover *mover, const SlShard *shard, SlConn *conn)
{
	/* If the tables have several owners, none may: rows are deleted then. */
	const char *sql = sl_move_as_owner(shard, linitial(mover->tables), truncate_sql(mover->tables));
	SlFailure  *failure;

	(void) sl_remote_exec(conn, "BEGIN", 0, NULL);
	(void) sl_remote_exec(conn, "SELECT pg_catalog.set_config('lock_timeout', '" LOCK_MS "', true)", 0, NULL);
	(void) sl_remote_try(conn, sql, 0, NULL, DT_NOEND, &failure);
	if (failure != NULL && failure->lost)
		sl_failure_raise(failure, conn->shard, sql);
	(void) sl_remote_exec(conn, failure == NULL ? "COMMIT" : "ROLLBACK", 0, NULL);
	return failure == NULL;
}

/*
 * Removes all rows of the map's tables from the shard, if that is all that the
 * range has there.  Returns false if nothing was done.
 */
bool
sl_move_truncate_tables(SlMover *mover, SlShard *shard, SlConn **conns, int count)
{
	SlShardletRow row;
	SlMap	   *map;
	bool		result;

	if (mover->tables == NIL || shard->bare || !sl_shardlet_row_read(mover->move.shardlet, &row) ||
		has_other_ranges(mover, mover->map, shard) || is_refused(mover, conns[0]) ||
		has_other_rows(mover, conns, count))
		return false;
	map = sl_map_open_for_move(mover->move.shardlet, &row);
	result = !has_other_ranges(mover, map, shard) && hold_tables(mover, map, &row) &&
		!is_refused(mover, conns[0]) && truncate_tables(mover, shard, conns[0]);

	/* Releases the map. */
	sl_move_begin_transaction(mover);
	sl_move_log_time(mover, result ? "emptying tables" : "trying to empty tables");
	return result;
}
