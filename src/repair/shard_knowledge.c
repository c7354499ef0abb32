/*
 * shard_knowledge.c
 *		What a shard knows of maps, and what the router does, in one form.
 *
 * A shard knows the entries of its own shardlets, for which it is the authority, and
 * with an owner those of others, from copies of the map.  It is read over a connection
 * of its own: those of the session are refused while the maps differ.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/regproc.h"

#include "base/base.h"
#include "repair/repair.h"

/* Columns of guard_entries(). */
enum
{
	E_MAP, E_MAP_ID, E_KIND, E_KEY_TYPES, E_VIA, E_VERSION, E_COPY_VERSION, E_SHARD, E_ROUTER,
	E_SHARDLET, E_LOW_TOKEN, E_HIGH_TOKEN, E_LOW, E_HIGH, E_IS_DEFAULT, E_STATE, E_PINNED,
	E_SHARDLET_VERSION, E_OWNER, E_COLUMNS
};

static const char entries_sql[] =
"SELECT map, map_id, kind, key_types, via, version, copy_version, shard, router, shardlet, low_token,"
" high_token, low, high, is_default, state, pinned, shardlet_version, owner FROM shardlet.guard_entries()";

static ArrayType *
read_array(const char *value)
{
	if (value == NULL)
		return NULL;
	return DatumGetArrayTypeP(OidInputFunctionCall(F_ARRAY_IN, pstrdup(value), TEXTOID, -1));
}

static void
read_key_types(const char *value, SlMapRow *row)
{
	Datum	   *names;
	int			count;

	deconstruct_array(read_array(value), TEXTOID, -1, false, TYPALIGN_INT, &names, NULL, &count);
	row->key_count = Min(count, SL_MAX_KEYS);
	for (int i = 0; i < row->key_count; i++)
		row->key_oids[i] = DatumGetObjectId(DirectFunctionCall1(regtypein,
																CStringGetDatum(TextDatumGetCString(names[i]))));
}

static SlKnownMap *
read_map(SlShard *shard, char **values)
{
	SlKnownMap *map = palloc0(sizeof(SlKnownMap));

	map->shard = shard;
	namestrcpy(&map->row.name, values[E_MAP]);
	map->row.id = (int32) strtol(values[E_MAP_ID], NULL, 10);
	map->row.kind = sl_kind_parse(values[E_KIND]);
	read_key_types(values[E_KEY_TYPES], &map->row);
	map->row.via = values[E_VIA];
	map->row.version = strtoll(values[E_VERSION], NULL, 10);
	map->copy_version = strtoll(values[E_COPY_VERSION], NULL, 10);
	map->shard_name = values[E_SHARD];
	map->router = values[E_ROUTER];
	return map;
}

static SlKnownShardlet *
read_shardlet(const SlKnownMap *map, char **values)
{
	SlKnownShardlet *known = palloc0(sizeof(SlKnownShardlet));
	SlShardletRow *row = &known->row;

	known->shard = map->shard;
	known->owner = values[E_OWNER];
	row->id = strtoll(values[E_SHARDLET], NULL, 10);
	row->map_id = map->row.id;
	row->shard_id = map->shard->id;
	row->has_low_token = values[E_LOW_TOKEN] != NULL;
	row->low_token = row->has_low_token ? strtoll(values[E_LOW_TOKEN], NULL, 10) : 0;
	row->has_high_token = values[E_HIGH_TOKEN] != NULL;
	row->high_token = row->has_high_token ? strtoll(values[E_HIGH_TOKEN], NULL, 10) : 0;
	row->low = read_array(values[E_LOW]);
	row->high = read_array(values[E_HIGH]);
	row->is_default = values[E_IS_DEFAULT][0] == 't';
	row->state = sl_state_parse(values[E_STATE]);
	row->pinned = values[E_PINNED][0] == 't';
	row->version = strtoll(values[E_SHARDLET_VERSION], NULL, 10);
	return known;
}

/* Returns what a shard knows: a list of SlKnownMap *.  Raises an error if it cannot be reached. */
List *
sl_repair_read_shard(SlShard *shard)
{
	SlTarget	target = sl_remote_target(shard);
	SlConn	   *conn;
	SlKnownMap *map = NULL;
	List	   *result = NIL;
	ListCell   *cell;

	target.plain_path = true;
	conn = sl_remote_open(&target);
	foreach(cell, sl_remote_rows(conn, entries_sql, 0, NULL, E_COLUMNS))
	{
		char	  **values = lfirst(cell);

		if (map == NULL || strcmp(NameStr(map->row.name), values[E_MAP]) != 0)
			result = lappend(result, map = read_map(shard, values));
		if (values[E_SHARDLET] != NULL)
			map->shardlets = lappend(map->shardlets, read_shardlet(map, values));
	}
	sl_conn_close(conn);
	return result;
}

static bool
collect_row(const SlShardletRow *row, void *context)
{
	List	  **rows = context;
	SlKnownShardlet *known = palloc0(sizeof(SlKnownShardlet));

	known->row = *row;
	known->shard = sl_shard_by_id(row->shard_id);
	*rows = lappend(*rows, known);
	return true;
}

/* Returns the router's shardlets of a map: a list of SlKnownShardlet *. */
List *
sl_repair_read_router(const SlMapRow *map)
{
	List	   *rows = NIL;

	sl_shardlet_row_scan(map->id, NULL, collect_row, &rows);
	return rows;
}

/* Returns the map of that name in what one shard knows, or NULL. */
const SlKnownMap *
sl_repair_find_map(List *known, const char *map)
{
	ListCell   *cell;

	foreach(cell, known)
	{
		const SlKnownMap *found = lfirst(cell);

		if (strcmp(NameStr(found->row.name), map) == 0)
			return found;
	}
	return NULL;
}

/* Returns the names of all maps in the list, each once. */
List *
sl_repair_map_names(List *known)
{
	List	   *names = NIL;
	ListCell   *cell;
	ListCell   *other;

	foreach(cell, known)
	{
		char	   *name = NameStr(((SlKnownMap *) lfirst(cell))->row.name);
		bool		is_listed = false;

		foreach(other, names)
			is_listed = is_listed || strcmp(lfirst(other), name) == 0;
		if (!is_listed)
			names = lappend(names, name);
	}
	return names;
}

/*
 * Returns the shard that the router of these maps calls so: by what the shards say of
 * themselves, or by its name here.  NULL if there is none.
 */
SlShard *
sl_repair_shard_called(List *known, const char *name)
{
	ListCell   *cell;

	foreach(cell, known)
	{
		SlKnownMap *map = lfirst(cell);

		if (strcmp(map->shard_name, name) == 0)
			return map->shard;
	}
	return sl_shard_by_name(name, true);
}
