/*
 * hidden.c
 *		Rows that do not count for the texts of query(), query_key() and execute().
 *
 * A text is the user's own, so no condition is written into it.  A shard that has
 * rows which it does not own (map/stray.c) is told ahead of the text, and leaves
 * them out itself (guard/hide.c): in views and functions, too.  A shard without
 * the extension cannot do that, so a text for it is refused while it has such rows.
 *
 * Which shards are asked, and what they leave out, is of one state of the map.  A
 * move must not go on while a text runs that knows less than it: so whoever looks
 * at the map for one holds it, and moves wait for those (move/move_wait.c), as
 * they wait for those who have used a table.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "deparse/owned.h"
#include "fanout/fanout.h"

/* What one shard leaves out, as hide_rows() takes it. */
typedef struct Hidden
{
	const SlShard *shard;
	const char *conditions;
} Hidden;

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
 * Returns the maps whose rows a text can meet: the one of that name, or without a
 * name all.  They are held until the end of the transaction.
 */
List *
sl_hidden_hold(const char *map_name)
{
	List	   *maps = map_name != NULL ? list_make1(sl_map_get(map_name)) : all_maps();
	ListCell   *cell;

	foreach(cell, maps)
		sl_stray_hold(((SlMap *) lfirst(cell))->id);
	return maps;
}

/*
 * Says which state of the maps is the one that is committed now.  If it is the same
 * before and after, what was computed in between agrees.
 */
uint64
sl_hidden_stamp(List *maps)
{
	uint64		result = 0;
	ListCell   *cell;

	foreach(cell, maps)
		result += sl_map_get_now(NameStr(((SlMap *) lfirst(cell))->name))->load;
	return result;
}

/* Conditions -------------------------------------------------------------------- */

static void
refuse_bare(const SlStray *stray)
{
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("text cannot be run on shard \"%s\" while a shardlet is moved",
				   NameStr(stray->shard->name)),
			errdetail("The shard has rows that do not count, and no extension shardlet that leaves them out. See move %lld in shardlet.moves.",
					  (long long) stray->move),
			errhint("Wait for the move, or use the tables on the router."));
}

/* The condition that a row counts which the shard has, or NULL. */
static char *
condition_sql(SlMap *map, const SlShard *shard, List *columns)
{
	StringInfoData sql;

	initStringInfo(&sql);
	for (int i = 0; i < map->stray_count; i++)
	{
		const SlStray *stray = &map->strays[i];

		if (stray->shard == shard)
			appendStringInfo(&sql, "%s(%s) IS NOT TRUE", sql.len > 0 ? " AND " : "",
							 sl_range_sql(map, &stray->range, columns));
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
has_strays(List *maps, const SlShard *shard)
{
	ListCell   *cell;

	foreach(cell, maps)
	{
		const SlMap *map = lfirst(cell);

		for (int i = 0; i < map->stray_count; i++)
		{
			if (map->strays[i].shard != shard)
				continue;
			if (shard->bare)
				refuse_bare(&map->strays[i]);
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

static Hidden *
hide_on(List *maps, const SlShard *shard)
{
	Hidden	   *hidden = palloc(sizeof(Hidden));
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
	hidden->shard = shard;
	hidden->conditions = write_array(fields);
	return hidden;
}

/* Returns what the shards leave out, for sl_hidden_on(). */
List *
sl_hidden_rows(List *maps, List *shards)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, shards)
	{
		if (has_strays(maps, lfirst(cell)))
			result = lappend(result, hide_on(maps, lfirst(cell)));
	}
	return result;
}

/*
 * A shard without the extension lets everything be written, also to what takes no
 * writes while it is copied.
 */
void
sl_hidden_check_writable(List *maps, List *shards)
{
	bool		any_bare = false;
	ListCell   *cell;

	foreach(cell, shards)
		any_bare = any_bare || ((SlShard *) lfirst(cell))->bare;
	foreach(cell, maps)
	{
		if (any_bare)
			sl_stray_check_writable(lfirst(cell));
	}
}

/* Returns what a shard leaves out, or NULL. */
const char *
sl_hidden_on(List *hidden, const SlShard *shard)
{
	ListCell   *cell;

	foreach(cell, hidden)
	{
		if (((const Hidden *) lfirst(cell))->shard == shard)
			return ((const Hidden *) lfirst(cell))->conditions;
	}
	return NULL;
}
