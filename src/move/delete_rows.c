/*
 * delete_rows.c
 *		Removes rows from a shard that does not own them.
 *
 * A part of the table's blocks at a time, each in a transaction of its own, so that
 * no lock is held for long and what was done stays done; two parts at the same time,
 * by two connections.  No rows of the range are inserted any more.  Those that exist
 * get to other blocks if the table is rewritten (VACUUM FULL, CLUSTER), perhaps to
 * blocks that were done: then it has another file, and all blocks are processed
 * again.
 *
 * Triggers and foreign keys do not fire: the rows are not deleted, they are on
 * another shard.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "move/move_internal.h"

#define BLOCKS_AT_A_TIME 1024
#define PARTS_AT_A_TIME 2

/*
 * The blocks of the largest of the table's partitions, and which files they are; NULL:
 * no such table.
 */
#define FILES_SQL \
	"SELECT pg_catalog.max(pg_catalog.pg_relation_size(r.oid) OPERATOR(pg_catalog./)" \
	" pg_catalog.current_setting('block_size')::pg_catalog.int8)," \
	" pg_catalog.string_agg(pg_catalog.concat_ws(' ', r.oid, pg_catalog.pg_relation_filenode(r.oid)), ',' ORDER BY r.oid) FROM (" \
	"SELECT pg_catalog.to_regclass($1)::pg_catalog.oid AS oid" \
	" UNION SELECT relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass($1))) r"

typedef struct Removal
{
	SlConnectionSet set;		/* first, so that it leads here */
	const SlShard *shard;
	List	   *tables;			/* those with blocks left */
	int64	   *blocks;			/* of each */
	int			table;			/* that is at work */
	int64		first;			/* its next block */
} Removal;

/* Counts the blocks of all tables; returns the names of their files. */
static char *
look_at_files(Removal *removal, SlConn *conn)
{
	StringInfoData files;
	ListCell   *cell;

	initStringInfo(&files);
	foreach(cell, removal->tables)
	{
		const char *name = ((SlMoveTable *) lfirst(cell))->name;
		PGresult   *answer = sl_remote_query(conn, FILES_SQL, 1, &name);
		const char *blocks = sl_remote_value(answer, 0, 0);

		removal->blocks[foreach_current_index(cell)] = blocks != NULL ? strtoll(blocks, NULL, 10) : -1;
		if (blocks != NULL)
			appendStringInfo(&files, "%s;", sl_protocol_value(conn, answer, 0, 1));
	}
	return files.data;
}

static char *
next_part(SlConnectionSet *set, int index)
{
	Removal    *removal = (Removal *) set;
	const SlMoveTable *table;
	int64		first;

	while (removal->table < list_length(removal->tables) &&
		   removal->first > removal->blocks[removal->table])
	{
		removal->table++;
		removal->first = 0;
	}
	if (removal->table == list_length(removal->tables))
		return NULL;
	table = list_nth(removal->tables, removal->table);
	first = removal->first;
	removal->first += BLOCKS_AT_A_TIME;

	/* Block numbers end below 2^32, so this is all of a largest table. */
	return sl_move_as_owner(removal->shard, table,
							psprintf("DELETE FROM %s WHERE ctid OPERATOR(pg_catalog.>=) '(%lld,0)'::pg_catalog.tid"
									 " AND ctid OPERATOR(pg_catalog.<) '(%lld,0)'::pg_catalog.tid AND %s",
									 table->name, (long long) first,
									 (long long) Min(removal->first, PG_UINT32_MAX), table->condition));
}

/*
 * Whatever else went wrong: the owner's rows are not removed.  Those of a spread map
 * have no key that would distinguish them.
 */
static void
check_not_owner(const SlMover *mover, const SlShard *shard)
{
	SlShardletRow row;

	if ((sl_shardlet_row_read(mover->move.shardlet, &row) && row.shard_id == shard->id) ||
		(mover->map->kind == SL_KIND_SPREAD && sl_map_count_shardlets(shard->id, mover->map->id) > 0))
		elog(ERROR, "shard \"%s\" owns shardlet %lld, whose rows were to be removed there", NameStr(shard->name),
			 (long long) mover->move.shardlet);
}

/* Removes all rows of the range from the shard. */
void
sl_move_delete_rows(SlMover *mover, SlShard *shard)
{
	SlConn	   *conns[PARTS_AT_A_TIME];
	Removal		removal = {.set = {.mover = mover,.conns = conns,.count = PARTS_AT_A_TIME,.next = next_part},
	.shard = shard,.tables = mover->tables};
	char	   *files;
	char	   *seen;

	check_not_owner(mover, shard);
	for (int i = 0; i < PARTS_AT_A_TIME; i++)
		conns[i] = sl_move_connect_for_rows(mover, shard);
	if (sl_move_truncate_tables(mover, shard, conns, PARTS_AT_A_TIME))
		return;
	removal.blocks = palloc(sizeof(int64) * Max(list_length(mover->tables), 1));
	files = look_at_files(&removal, conns[0]);
	do
	{
		seen = files;
		removal.table = 0;
		removal.first = 0;
		sl_move_run_statements(&removal.set);
		files = look_at_files(&removal, conns[0]);
	} while (strcmp(files, seen) != 0);
}
