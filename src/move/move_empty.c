/*
 * move_empty.c
 *		Empties tables of which a shard owns nothing any more.
 *
 * TRUNCATE takes a moment where to delete all rows takes as long as to insert half
 * of them, and leaves tables that are as good as new.  It is done only where that
 * makes no other difference.  The shard owns nothing else of the map and no other
 * move brings anything: the map is locked meanwhile, so it stays like that.  There
 * are no rows of other ranges, which somebody may have put there past the guard.
 * Nobody reads the server's log of changes, to whom it would be a TRUNCATE of
 * something larger.  And nobody uses the tables, since those who do would wait: the
 * lock is asked for once, and not for long.  Otherwise, or if it is not allowed, the
 * rows are deleted (move_remove.c).
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "move/move_internal.h"

/* So long readers of the tables may have to wait. */
#define LOCK_MS "100ms"

/* No slot, no subscriber. */
#define HAS_READERS_SQL \
	"SELECT EXISTS (SELECT FROM pg_catalog.pg_replication_slots s WHERE s.slot_type OPERATOR(pg_catalog.=) 'logical'" \
	" AND s.database OPERATOR(pg_catalog.=) pg_catalog.current_database())"

typedef struct Search
{
	SlMoveCrew	crew;			/* first, so that it leads here */
	int			next;
	bool		has_others;
} Search;

/* Has the shard other rows of the map, or will it?  The caller holds the map. */
static bool
has_other_ranges(const SlMover *mover, const SlMap *map, const SlShard *shard)
{
	if (sl_map_count_shardlets(shard->id, map->id) > 0)
		return true;
	for (int i = 0; i < map->stray_count; i++)
	{
		if (map->strays[i].shard == shard && map->strays[i].move != mover->move.id)
			return true;
	}
	return false;
}

static char *
next_table(SlMoveCrew *crew, int index)
{
	Search	   *search = (Search *) crew;
	const SlMoveTable *table;

	if (search->has_others || search->next == list_length(crew->mover->tables))
		return NULL;
	table = list_nth(crew->mover->tables, search->next++);
	return psprintf("SELECT EXISTS (SELECT FROM %s WHERE (%s) IS NOT TRUE)", table->name, table->condition);
}

static void
take_answer(SlMoveCrew *crew, int index, const PGresult *row)
{
	Search	   *search = (Search *) crew;

	search->has_others = search->has_others || row == NULL || sl_remote_bool(row, 0, 0);
}

static bool
has_other_rows(SlMover *mover, SlConn **conns, int count)
{
	Search		search = {.crew = {.mover = mover,.conns = conns,.count = count,.next = next_table,.take = take_answer}};

	sl_move_crew_run(&search.crew);
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

/* Returns false if it is not possible now. */
static bool
truncate_tables(SlMover *mover, SlConn *conn)
{
	const char *sql = truncate_sql(mover->tables);
	SlFailure  *failure;

	(void) sl_remote_exec(conn, "SELECT pg_catalog.set_config('lock_timeout', '" LOCK_MS "', false)", 0, NULL);
	(void) sl_remote_try(conn, sql, 0, NULL, DT_NOEND, &failure);
	if (failure != NULL && failure->lost)
		sl_failure_raise(failure, conn->shard, sql);
	(void) sl_remote_exec(conn, "RESET lock_timeout", 0, NULL);
	return failure == NULL;
}

/*
 * Removes all rows of the map's tables from the shard, if that is all that the
 * range has there.  Returns false if nothing was done.
 */
bool
sl_move_empty(SlMover *mover, SlShard *shard, SlConn **conns, int count)
{
	SlShardletRow row;
	bool		result = false;

	if (mover->tables == NIL || sl_remote_bool(sl_remote_ask(conns[0], HAS_READERS_SQL, 0, NULL), 0, 0) ||
		has_other_ranges(mover, mover->map, shard) || has_other_rows(mover, conns, count))
		return false;
	if (!has_other_ranges(mover, sl_map_open_for_move(mover->move.shardlet, &row), shard))
		result = truncate_tables(mover, conns[0]);

	/* Lets go of the map. */
	sl_move_begin(mover);
	sl_move_tell_time(mover, result ? "emptying tables" : "trying to empty tables");
	return result;
}
