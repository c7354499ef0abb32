/*
 * owned_rows.c
 *		What a shard owns of a table, as a condition in SQL.
 *
 * verify() looks for rows to which it does not apply, and repair_rows() moves these.
 * Orphaned rows that a move knows of are not among them: they are invisible, and the
 * move removes them.  So moves of the map wait until the end of the transaction.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/guc.h"

#include "base/base.h"
#include "deparse/ownership_filter.h"
#include "metadata/table.h"

PG_FUNCTION_INFO_V1(shardlet_owned_sql);

/* The condition that is being written */
typedef struct Owned
{
	SlMap	   *map;
	int32		shard_id;
	List	   *columns;
	StringInfoData sql;
} Owned;

static bool
add_range(const SlShardletRow *row, void *context)
{
	Owned	   *owned = context;

	if (row->shard_id == owned->shard_id)
		appendStringInfo(&owned->sql, "%s(%s)", owned->sql.len > 0 ? " OR " : "",
						 sl_range_sql(owned->map, row, owned->columns));
	return true;
}

static void
add_orphaned(Owned *owned)
{
	for (int i = 0; i < owned->map->orphaned_count; i++)
	{
		const SlOrphanedRange *orphan = &owned->map->orphaned[i];

		if (orphan->shard->id == owned->shard_id)
			appendStringInfo(&owned->sql, "%s(%s)", owned->sql.len > 0 ? " OR " : "",
							 sl_range_sql(owned->map, &orphan->range, owned->columns));
	}
}

static List *
key_columns(const SlTable *table)
{
	List	   *columns = NIL;
	ListCell   *cell;

	foreach(cell, sl_table_key_of(table))
		columns = lappend(columns, psprintf("t.%s", quote_identifier(lfirst(cell))));
	return columns;
}

/*
 * owned_sql(tbl, shard): true for rows of sharded table t that the shard owns, or that a
 * move has left there; NULL if the table is not sharded.
 */
Datum
shardlet_owned_sql(PG_FUNCTION_ARGS)
{
	const SlTable *table = sl_table_get(PG_GETARG_OID(0));
	const SlShard *shard = sl_shard_by_name(NameStr(*PG_GETARG_NAME(1)), false);
	Owned		owned = {.shard_id = shard->id};
	int			level;

	if (table == NULL || table->kind != SL_TABLE_SHARDED)
		PG_RETURN_NULL();
	sl_orphaned_hold(sl_map_get(table->map)->id);
	owned.map = sl_map_get_now(table->map);
	owned.columns = key_columns(table);
	initStringInfo(&owned.sql);
	level = sl_map_begin_plain_output();
	sl_shardlet_row_scan(owned.map->id, NULL, add_range, &owned);
	add_orphaned(&owned);
	sl_map_end_plain_output(level);
	PG_RETURN_TEXT_P(cstring_to_text(owned.sql.len > 0 ? owned.sql.data : "false"));
}
