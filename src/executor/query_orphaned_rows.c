/*
 * query_orphaned_rows.c
 *		Orphaned rows in the queries of query(), query_key() and execute().
 *
 * Such a query is the user's own, so no condition is written into it.  A shard that
 * has rows which it does not own (metadata/orphaned_rows.c) gets conditions ahead of
 * the query, and leaves them out itself (shard/hide_rows.c): in views and functions,
 * too.  A shard without the extension cannot do that, so a query for it is refused
 * while it has such rows.
 *
 * The shards that are queried, and what they leave out, are of one version of the map.
 * A move must not go on while a query runs by an older one: so the query's
 * transaction holds the map, and moves wait for these transactions
 * (move/wait_old_snapshots.c), as they wait for those that have used a table.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "deparse/ownership_filter.h"
#include "executor/multi_shard.h"

/* What one shard leaves out, as hide_rows() takes it. */
typedef struct Orphaned
{
	const SlShard *shard;
	const char *conditions;
} Orphaned;

/* Maps -------------------------------------------------------------------------- */

static List *
all_maps(void)
{
	List	   *ids = NIL;
	List	   *maps = NIL;
	ListCell   *cell;

	foreach(cell, sl_shard_all())
		ids = list_concat_unique_int(ids, sl_map_ids_of_shard(((SlShard *) lfirst(cell))->id));
	foreach(cell, ids)
		maps = lappend(maps, sl_map_get_by_id(lfirst_int(cell)));
	return maps;
}

/*
 * Returns the maps whose rows a query can meet: the one of that name, or without a
 * name all.  They are held until the end of the transaction.
 */
List *
sl_query_orphaned_hold(const char *map_name)
{
	List	   *maps = map_name != NULL ? list_make1(sl_map_get(map_name)) : all_maps();
	ListCell   *cell;

	foreach(cell, maps)
		sl_orphaned_hold(((SlMap *) lfirst(cell))->id);
	return maps;
}

/*
 * Says which state of the maps is the one that is committed now.  If it is the same
 * before and after, what was computed in between agrees.
 */
uint64
sl_query_orphaned_stamp(List *maps)
{
	uint64		result = 0;
	ListCell   *cell;

	foreach(cell, maps)
		result += sl_map_get_now(NameStr(((SlMap *) lfirst(cell))->name))->load;
	return result;
}

/* Conditions -------------------------------------------------------------------- */

static void
refuse_bare(const SlOrphanedRange *orphan)
{
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("query cannot be run on shard \"%s\" while a shardlet is moved",
				   NameStr(orphan->shard->name)),
			errdetail("The shard has orphaned rows, and no extension shardlet that leaves them out. See move %lld in shardlet.moves.",
					  (long long) orphan->move),
			errhint("Wait for the move, or use the tables on the router."));
}

/* The ownership filter of the shard's rows, or NULL. */
static char *
condition_sql(SlMap *map, const SlShard *shard, List *columns)
{
	StringInfoData sql;

	initStringInfo(&sql);
	for (int i = 0; i < map->orphaned_count; i++)
	{
		const SlOrphanedRange *orphan = &map->orphaned[i];

		if (orphan->shard == shard)
			appendStringInfo(&sql, "%s(%s) IS NOT TRUE", sql.len > 0 ? " AND " : "",
							 sl_range_sql(map, &orphan->range, columns));
	}
	return sql.len > 0 ? sql.data : NULL;
}

static List *
key_columns(const SlTable *table)
{
	List	   *columns = NIL;
	ListCell   *cell;

	foreach(cell, sl_table_key_of(table))
		columns = lappend(columns, pstrdup(quote_identifier(lfirst(cell))));
	return columns;
}

/* Schema, name and condition of a table are three fields. */
static List *
add_table(List *fields, const SlTable *table, const char *condition)
{
	fields = lappend(fields, get_namespace_name(get_rel_namespace(table->relid)));
	fields = lappend(fields, get_rel_name(table->relid));
	return lappend(fields, unconstify(char *, condition));
}

static char *
write_array(List *fields)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(list_length(fields), 1));
	ListCell   *cell;

	foreach(cell, fields)
		values[foreach_current_index(cell)] = CStringGetTextDatum(lfirst(cell));
	return OidOutputFunctionCall(F_ARRAY_OUT,
								 PointerGetDatum(construct_array(values, list_length(fields), TEXTOID, -1,
																 false, TYPALIGN_INT)));
}

static bool
has_orphaned(List *maps, const SlShard *shard)
{
	ListCell   *cell;

	foreach(cell, maps)
	{
		const SlMap *map = lfirst(cell);

		for (int i = 0; i < map->orphaned_count; i++)
		{
			if (map->orphaned[i].shard != shard)
				continue;
			if (shard->bare)
				refuse_bare(&map->orphaned[i]);
			return true;
		}
	}
	return false;
}

static SlMap *
map_of(List *maps, const SlTable *table)
{
	ListCell   *cell;

	foreach(cell, maps)
	{
		SlMap	   *map = lfirst(cell);

		if (table->kind == SL_TABLE_SHARDED && strcmp(table->map, NameStr(map->name)) == 0)
			return map;
	}
	return NULL;
}

/* Puts a proof before the fields that this router has written them. */
static List *
add_proof(List *fields, const SlShard *shard)
{
	const char *key = sl_shard_secret_get(shard->id, false);

	if (fields == NIL)
		return NIL;
	return lcons(sl_hmac_make(key != NULL ? key : "", fields), fields);
}

static Orphaned *
hide_on(List *maps, const SlShard *shard)
{
	Orphaned   *orphaned = palloc(sizeof(Orphaned));
	List	   *fields = NIL;
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);
		SlMap	   *map = map_of(maps, table);
		const char *condition = map != NULL ? condition_sql(map, shard, key_columns(table)) : NULL;

		if (condition != NULL)
			fields = add_table(fields, table, condition);
	}
	orphaned->shard = shard;
	orphaned->conditions = write_array(add_proof(fields, shard));
	return orphaned;
}

/* Returns what the shards leave out, for sl_query_orphaned_on(). */
List *
sl_query_orphaned_rows(List *maps, List *shards)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, shards)
	{
		if (has_orphaned(maps, lfirst(cell)))
			result = lappend(result, hide_on(maps, lfirst(cell)));
	}
	return result;
}

/*
 * A shard without the extension lets everything be written, also to what takes no
 * writes while it is copied.
 */
void
sl_query_orphaned_check_writable(List *maps, List *shards)
{
	bool		any_bare = false;
	ListCell   *cell;

	foreach(cell, shards)
		any_bare = any_bare || ((SlShard *) lfirst(cell))->bare;
	foreach(cell, maps)
	{
		if (any_bare)
			sl_orphaned_check_writable(lfirst(cell));
	}
}

/* Returns what a shard leaves out, or NULL. */
const char *
sl_query_orphaned_on(List *orphaned, const SlShard *shard)
{
	ListCell   *cell;

	foreach(cell, orphaned)
	{
		if (((const Orphaned *) lfirst(cell))->shard == shard)
			return ((const Orphaned *) lfirst(cell))->conditions;
	}
	return NULL;
}
