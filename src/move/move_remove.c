/*
 * move_remove.c
 *		Removes rows from a shard that does not own them.
 *
 * A part of the table's blocks at a time, each in a transaction of its own, so
 * that no lock is held for long and what was done stays done.  New rows of the
 * range do not come any more.  Triggers and foreign keys do not fire: the rows
 * are not deleted, they are elsewhere.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "move/move_internal.h"

#define BLOCKS_AT_A_TIME 1024

/* The blocks of the largest of the table's partitions; NULL: no such table. */
#define BLOCKS_SQL \
	"SELECT pg_catalog.max(pg_catalog.pg_relation_size(r.oid) OPERATOR(pg_catalog./)" \
	" pg_catalog.current_setting('block_size')::pg_catalog.int8) FROM (" \
	"SELECT pg_catalog.to_regclass($1)::pg_catalog.oid AS oid" \
	" UNION SELECT relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass($1))) r"

static void
remove_from(SlMover *mover, SlConn *conn, const SlMoveTable *table)
{
	const char *name = table->name;
	const char *blocks = sl_remote_value(sl_remote_ask(conn, BLOCKS_SQL, 1, &name), 0, 0);
	int64		count = blocks != NULL ? strtoll(blocks, NULL, 10) : -1;

	for (int64 first = 0; first <= count; first += BLOCKS_AT_A_TIME)
	{
		/* Block numbers end below 2^32, so this is all of a largest table. */
		char	   *sql = psprintf("DELETE FROM %s WHERE ctid OPERATOR(pg_catalog.>=) '(%lld,0)'::pg_catalog.tid"
								   " AND ctid OPERATOR(pg_catalog.<) '(%lld,0)'::pg_catalog.tid AND %s",
								   table->name, (long long) first,
								   (long long) Min(first + BLOCKS_AT_A_TIME, PG_UINT32_MAX), table->condition);

		CHECK_FOR_INTERRUPTS();
		(void) sl_remote_exec(conn, sql, 0, NULL);
		pfree(sql);
	}
}

/* Whatever else went wrong: the owner's rows are not removed. */
static void
check_not_owner(const SlMover *mover, const SlShard *shard)
{
	SlShardletRow row;

	if (!sl_shardlet_row_read(mover->move.shardlet, &row) || row.shard_id == shard->id)
		elog(ERROR, "shard \"%s\" owns shardlet %lld, whose rows were to be removed there", NameStr(shard->name),
			 (long long) mover->move.shardlet);
}

/* Removes all rows of the range from the shard, which the connection is to. */
void
sl_move_remove(SlMover *mover, const SlShard *shard, SlConn *conn)
{
	ListCell   *cell;

	check_not_owner(mover, shard);
	(void) sl_remote_exec(conn, "SET session_replication_role = replica", 0, NULL);
	foreach(cell, mover->tables)
		remove_from(mover, conn, lfirst(cell));
}
