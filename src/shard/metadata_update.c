/*
 * metadata_update.c
 *		Metadata updates: the router updates a shard's entries of its own
 *		shardlets.
 *
 * These functions run in the shard's branch of the transaction that changes
 * the router's tables, so both change or none.  An entry of the shard's own is
 * changed only with its exclusive lock held: then no transaction is left that
 * wrote under the old one.  A new entry needs no lock of its own, since a
 * writer that does not find its key waits for the map's lock before it raises
 * an error.  All locks are held until COMMIT PREPARED.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "base/base.h"
#include "compat.h"
#include "shard/shard.h"

/*
 * A map that is dropped has no tables, so there is hardly any lock to wait
 * for.
 */
#define DROP_WAIT_MS 10000

PG_FUNCTION_INFO_V1(shardlet_guard_change);
PG_FUNCTION_INFO_V1(shardlet_guard_keep);
PG_FUNCTION_INFO_V1(shardlet_guard_drop);
PG_FUNCTION_INFO_V1(shardlet_guard_lock);
PG_FUNCTION_INFO_V1(shardlet_guard_adopt);

/* Arguments of guard_change(), by number. */
enum
{
	ARG_MAP, ARG_MAP_ID, ARG_KIND, ARG_KEY_TYPES, ARG_VIA, ARG_VERSION, ARG_SHARD,
	ARG_MODE, ARG_WAIT_MS, ARG_GONE, ARG_SHARDLETS, ARG_LOW_TOKENS, ARG_HIGH_TOKENS,
	ARG_LOWS, ARG_HIGHS, ARG_DEFAULTS, ARG_STATES, ARG_PINNED, ARG_VERSIONS, ARG_OWNERS,
	ARG_HIDE_KEY, ARG_ROUTER, ARG_EPOCH
};

/* An array argument. */
typedef struct Column
{
	Datum	   *values;
	bool	   *nulls;
	int			count;
} Column;

pg_noreturn static void
refuse_call(void)
{
	ereport(ERROR,
			errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("shardlet.guard_change() is for routers"),
			errdetail("Arguments are missing, or lists of different length."));
}

static Column
get_column(FunctionCallInfo fcinfo, int argument, Oid type, int length, bool by_value, char align)
{
	Column		column;

	if (PG_ARGISNULL(argument))
		refuse_call();
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(argument), type, length, by_value, align,
					  &column.values, &column.nulls, &column.count);
	return column;
}

static Column
get_int8s(FunctionCallInfo fcinfo, int argument)
{
	return get_column(fcinfo, argument, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
}

static Column
get_texts(FunctionCallInfo fcinfo, int argument)
{
	return get_column(fcinfo, argument, TEXTOID, -1, false, TYPALIGN_INT);
}

static Column
get_bools(FunctionCallInfo fcinfo, int argument)
{
	return get_column(fcinfo, argument, BOOLOID, sizeof(bool), true, TYPALIGN_CHAR);
}

/* Reads a text[] that is an element of another array. */
static ArrayType *
get_bound(const Column *column, int index)
{
	if (column->nulls[index])
		return NULL;
	return DatumGetArrayTypeP(OidInputFunctionCall(F_ARRAY_IN,
												   TextDatumGetCString(column->values[index]),
												   TEXTOID, -1));
}

static void
get_map(FunctionCallInfo fcinfo, SlGuardMapRow *row)
{
	static const int wanted[] = {ARG_MAP, ARG_MAP_ID, ARG_KIND, ARG_VERSION, ARG_SHARD,
		ARG_MODE, ARG_WAIT_MS,
	};
	Column		types = get_column(fcinfo, ARG_KEY_TYPES, OIDOID, sizeof(Oid), true, TYPALIGN_INT);

	for (int i = 0; i < (int) lengthof(wanted); i++)
	{
		if (PG_ARGISNULL(wanted[i]))
			refuse_call();
	}
	if (types.count > SL_MAX_KEYS)
		refuse_call();
	memset(row, 0, sizeof(SlGuardMapRow));
	row->name = *PG_GETARG_NAME(ARG_MAP);
	row->id = PG_GETARG_INT32(ARG_MAP_ID);
	row->kind = sl_kind_parse(text_to_cstring(PG_GETARG_TEXT_PP(ARG_KIND)));
	row->key_count = types.count;
	for (int i = 0; i < types.count; i++)
		row->key_oids[i] = types.nulls[i] ? InvalidOid : DatumGetObjectId(types.values[i]);
	row->via = PG_ARGISNULL(ARG_VIA) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(ARG_VIA));
	row->version = PG_GETARG_INT64(ARG_VERSION);
	row->shard = *PG_GETARG_NAME(ARG_SHARD);
	row->hide_key = PG_ARGISNULL(ARG_HIDE_KEY) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(ARG_HIDE_KEY));
	row->router = PG_ARGISNULL(ARG_ROUTER) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(ARG_ROUTER));
}

/* Makes the rows from the arrays of their columns. */
static SlGuardRow *
get_rows(FunctionCallInfo fcinfo, const SlGuardMapRow *map, int *count)
{
	Column		ids = get_int8s(fcinfo, ARG_SHARDLETS);
	Column		low_tokens = get_int8s(fcinfo, ARG_LOW_TOKENS);
	Column		high_tokens = get_int8s(fcinfo, ARG_HIGH_TOKENS);
	Column		lows = get_texts(fcinfo, ARG_LOWS);
	Column		highs = get_texts(fcinfo, ARG_HIGHS);
	Column		defaults = get_bools(fcinfo, ARG_DEFAULTS);
	Column		states = get_texts(fcinfo, ARG_STATES);
	Column		pinned = get_bools(fcinfo, ARG_PINNED);
	Column		versions = get_int8s(fcinfo, ARG_VERSIONS);
	Column		owners = get_texts(fcinfo, ARG_OWNERS);
	const Column *all[] = {&low_tokens, &high_tokens, &lows, &highs, &defaults, &states, &pinned,
		&versions, &owners,
	};
	SlGuardRow *rows = palloc0(sizeof(SlGuardRow) * Max(ids.count, 1));

	for (int i = 0; i < (int) lengthof(all); i++)
	{
		if (all[i]->count != ids.count)
			refuse_call();
	}
	for (int i = 0; i < ids.count; i++)
	{
		SlGuardRow *row = &rows[i];

		if (ids.nulls[i] || defaults.nulls[i] || states.nulls[i] || pinned.nulls[i] || versions.nulls[i])
			refuse_call();
		row->map = map->name;
		row->id = DatumGetInt64(ids.values[i]);
		row->has_low_token = !low_tokens.nulls[i];
		row->low_token = row->has_low_token ? DatumGetInt64(low_tokens.values[i]) : 0;
		row->has_high_token = !high_tokens.nulls[i];
		row->high_token = row->has_high_token ? DatumGetInt64(high_tokens.values[i]) : 0;
		row->low = get_bound(&lows, i);
		row->high = get_bound(&highs, i);
		row->is_default = DatumGetBool(defaults.values[i]);
		row->state = sl_state_parse(TextDatumGetCString(states.values[i]));
		row->pinned = DatumGetBool(pinned.values[i]);
		row->version = DatumGetInt64(versions.values[i]);
		row->is_own = owners.nulls[i];
		if (!row->is_own)
			namestrcpy(&row->owner, TextDatumGetCString(owners.values[i]));
	}
	*count = ids.count;
	return rows;
}

/*
 * Waits for writers of an entry of the shard's own.  The map is locked after
 * all these locks.
 */
static void
lock_own(const SlGuardRow *row, int wait_ms)
{
	if (row->is_own)
		sl_guard_lock_exclusively(row->id, wait_ms);
}

static void
lock_shardlet(const SlGuardMapRow *map, int64 shardlet, int wait_ms)
{
	SlGuardRow	row;

	if (sl_guard_row_read(NameStr(map->name), shardlet, &row))
		lock_own(&row, wait_ms);
}

static void
delete_row(const SlGuardMapRow *map, int64 shardlet)
{
	SlGuardRow	row;

	if (sl_guard_row_read(NameStr(map->name), shardlet, &row))
		sl_guard_row_delete(&row);
}

/* Visitor: finds the default of a list, from whose range keys are taken. */
static bool
find_default(const SlGuardRow *row, void *context)
{
	const SlGuardRow **found = context;

	if (!row->is_default || !row->is_own)
		return true;
	*found = memcpy(palloc(sizeof(SlGuardRow)), row, sizeof(SlGuardRow));
	return false;
}

static bool
same_bound(ArrayType *a, ArrayType *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return VARSIZE(a) == VARSIZE(b) && memcmp(a, b, VARSIZE(a)) == 0;
}

static bool
is_same(const SlGuardRow *a, const SlGuardRow *b)
{
	return a->has_low_token == b->has_low_token && a->low_token == b->low_token &&
		a->has_high_token == b->has_high_token && a->high_token == b->high_token &&
		same_bound(a->low, b->low) && same_bound(a->high, b->high) &&
		a->is_default == b->is_default && a->state == b->state && a->pinned == b->pinned &&
		a->version == b->version && a->is_own == b->is_own &&
		strcmp(NameStr(a->owner), NameStr(b->owner)) == 0;
}

/* Waits for writers of the entries that these rows change. */
static void
lock_changed(const SlGuardMapRow *map, const SlGuardRow *rows, int count, int wait_ms)
{
	const SlGuardRow *found = NULL;
	bool		any_new = false;

	for (int i = 0; i < count; i++)
	{
		SlGuardRow	old;

		if (!sl_guard_row_read(NameStr(map->name), rows[i].id, &old))
			any_new = true;
		else if (!is_same(&rows[i], &old))
			lock_own(&old, wait_ms);
	}
	if (any_new && map->kind == SL_KIND_LIST)
		sl_guard_row_scan(NameStr(map->name), find_default, &found);
	if (found != NULL)
		lock_own(found, wait_ms);
}

/* Updates the existing rows; moves the others to the front. */
static int
update_known(const SlGuardMapRow *map, SlGuardRow *rows, int count)
{
	int			new_count = 0;

	for (int i = 0; i < count; i++)
	{
		SlGuardRow	old;

		if (!sl_guard_row_read(NameStr(map->name), rows[i].id, &old))
		{
			rows[new_count++] = rows[i];
			continue;
		}
		if (is_same(&rows[i], &old))
			continue;
		rows[i].tid = old.tid;
		sl_guard_row_update(&rows[i]);
	}
	return new_count;
}

/* Which of the existing rows are to be kept? */
typedef struct Replacement
{
	int64	   *ids;			/* sorted */
	int			count;
	bool		only_others;	/* own ones are always kept */
	List	   *gone;			/* of int64 * */
} Replacement;

static int
compare_ids(const void *a, const void *b)
{
	int64		left = *(const int64 *) a;
	int64		right = *(const int64 *) b;

	return left < right ? -1 : left > right;
}

static bool
collect_gone(const SlGuardRow *row, void *context)
{
	Replacement *replacement = context;
	int64	   *id;

	if ((replacement->only_others && row->is_own) ||
		bsearch(&row->id, replacement->ids, replacement->count, sizeof(int64), compare_ids) != NULL)
		return true;
	id = palloc(sizeof(int64));
	*id = row->id;
	replacement->gone = lappend(replacement->gone, id);
	return true;
}

/* Visitor: finds the rows whose ids are not among these. */
static List *
find_gone(const SlGuardMapRow *map, const SlGuardRow *rows, int count, bool only_others)
{
	Replacement replacement = {.count = count,.only_others = only_others};

	replacement.ids = palloc(sizeof(int64) * Max(count, 1));
	for (int i = 0; i < count; i++)
		replacement.ids[i] = rows[i].id;
	qsort(replacement.ids, count, sizeof(int64), compare_ids);
	sl_guard_row_scan(NameStr(map->name), collect_gone, &replacement);
	return replacement.gone;
}

/* Deletes the rows that were found. */
static void
delete_rows(const SlGuardMapRow *map, List *ids)
{
	ListCell   *cell;

	foreach(cell, ids)
		delete_row(map, *(int64 *) lfirst(cell));
}

/*
 * Deletes the shardlets that the router has deleted, and those that it does
 * not list.
 */
static List *
list_gone(FunctionCallInfo fcinfo, const SlGuardMapRow *map, const SlGuardRow *rows, int count, bool replaces)
{
	Column		gone = get_int8s(fcinfo, ARG_GONE);
	List	   *ids = replaces ? find_gone(map, rows, count, false) : NIL;

	for (int i = 0; i < gone.count; i++)
	{
		int64	   *id = palloc(sizeof(int64));

		*id = gone.nulls[i] ? 0 : DatumGetInt64(gone.values[i]);
		ids = lappend(ids, id);
	}
	return ids;
}

/* A map of another router that has the name is not overwritten. */
static void
refuse_foreign(const SlGuardMapRow *map)
{
	SlGuardMapRow known;

	if (map->router == NULL || !sl_guard_map_row_read(NameStr(map->name), &known) ||
		known.router == NULL || strcmp(known.router, map->router) == 0)
		return;
	ereport(ERROR,
			errcode(SL_ERR_EXISTS),
			errmsg("map \"%s\" already exists on this shard", NameStr(map->name)),
			errdetail("It belongs to router \"%s\", and this router's identity is \"%s\".", known.router, map->router),
			errhint("On the router, shardlet.rebuild_map() brings it back, shardlet.resolve_map() gives it up. Or choose another name."));
}

/*
 * Applies a change of the router.  All locks come first, those of shardlets
 * before that of the map: a copy of the map (learn) changes rows of it as
 * well.
 */
static void
apply_change(FunctionCallInfo fcinfo, SlGuardMapRow *map, SlGuardRow *rows, int count, bool replaces)
{
	int			wait_ms = PG_GETARG_INT32(ARG_WAIT_MS);
	List	   *gone = list_gone(fcinfo, map, rows, count, replaces);
	SlGuardMapRow known;
	ListCell   *cell;

	foreach(cell, gone)
		lock_shardlet(map, *(int64 *) lfirst(cell), wait_ms);
	lock_changed(map, rows, count, wait_ms);
	sl_guard_lock_for_change(map->id, wait_ms);
	if (!replaces && sl_guard_map_row_read(NameStr(map->name), &known))
		map->copy_version = known.copy_version;
	delete_rows(map, list_gone(fcinfo, map, rows, count, replaces));
	sl_guard_row_insert(rows, update_known(map, rows, count));
	sl_guard_map_row_write(map);
}

/*
 * Stores a copy of the whole map, sent after the fact: the owners of shardlets
 * of other shards.  It never changes entries of the shard's own, and is
 * ignored if the shard has newer ones.
 */
static void
store_copy(SlGuardMapRow *map, SlGuardRow *rows, int count)
{
	SlGuardMapRow known;
	int64		version = map->version;
	int			new_count = 0;

	sl_guard_lock_map(map->id);
	if (!sl_guard_map_row_read(NameStr(map->name), &known) || known.id != map->id ||
		known.version > version || known.copy_version >= version)
		return;
	delete_rows(map, find_gone(map, rows, count, true));
	for (int i = 0; i < count; i++)
	{
		SlGuardRow	old;

		if (rows[i].is_own)
			continue;
		if (!sl_guard_row_read(NameStr(map->name), rows[i].id, &old))
			rows[new_count++] = rows[i];
		else if (!old.is_own && old.state != SL_STATE_MOVING && !is_same(&rows[i], &old))
		{
			rows[i].tid = old.tid;
			sl_guard_row_update(&rows[i]);
		}
	}
	sl_guard_row_insert(rows, new_count);
	known.copy_version = version;
	sl_guard_map_row_write(&known);
}

/* guard_change(map, map_id, kind, key_types, via, version, shard, mode, ...) */
Datum
shardlet_guard_change(PG_FUNCTION_ARGS)
{
	SlGuardMapRow map;
	SlGuardRow *rows;
	char	   *mode;
	int			count;

	sl_check_writable("shardlet.guard_change()");
	get_map(fcinfo, &map);
	mode = text_to_cstring(PG_GETARG_TEXT_PP(ARG_MODE));
	if (map.router != NULL && !PG_ARGISNULL(ARG_EPOCH))
		sl_guard_check_router(map.router, PG_GETARG_INT64(ARG_EPOCH));
	refuse_foreign(&map);
	rows = get_rows(fcinfo, &map, &count);
	if (strcmp(mode, "copy") == 0)
		store_copy(&map, rows, count);
	else
		apply_change(fcinfo, &map, rows, count, strcmp(mode, "replace") == 0);
	PG_RETURN_VOID();
}

static void
drop_map(const char *name)
{
	SlGuardMapRow map;

	if (!sl_guard_map_row_read(name, &map))
		return;
	sl_guard_lock_for_change(map.id, DROP_WAIT_MS);
	sl_guard_map_delete(name);
}

/* guard_drop(map, router) */
Datum
shardlet_guard_drop(PG_FUNCTION_ARGS)
{
	SlGuardMapRow map;

	sl_check_writable("shardlet.guard_drop()");
	if (!PG_ARGISNULL(0) && sl_guard_map_row_read(NameStr(*PG_GETARG_NAME(0)), &map) &&
		(map.router == NULL ||
		 (!PG_ARGISNULL(1) && strcmp(map.router, text_to_cstring(PG_GETARG_TEXT_PP(1))) == 0)))
		drop_map(NameStr(map.name));
	PG_RETURN_VOID();
}

/* Is a map to be forgotten? */
static bool
is_gone(const SlGuardMapRow *map, ArrayType *kept, const char *router, ArrayType *gone)
{
	Datum	   *values;
	int			count;

	if (map->router != NULL && strcmp(map->router, router) != 0)
		return false;
	deconstruct_array(kept, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &values, NULL, &count);
	for (int i = 0; i < count; i++)
	{
		if (strcmp(NameStr(*DatumGetName(values[i])), NameStr(map->name)) == 0)
			return false;
	}
	deconstruct_array(gone, INT4OID, sizeof(int32), true, TYPALIGN_INT, &values, NULL, &count);
	for (int i = 0; i < count; i++)
	{
		if (DatumGetInt32(values[i]) == map->id)
			return true;
	}
	return map->router == NULL;
}

/* guard_keep(maps, router, gone) */
Datum
shardlet_guard_keep(PG_FUNCTION_ARGS)
{
	char	   *router = text_to_cstring(PG_GETARG_TEXT_PP(1));
	ListCell   *cell;

	sl_check_writable("shardlet.guard_keep()");
	foreach(cell, sl_guard_map_names())
	{
		SlGuardMapRow map;

		if (sl_guard_map_row_read(lfirst(cell), &map) &&
			is_gone(&map, PG_GETARG_ARRAYTYPE_P(0), router, PG_GETARG_ARRAYTYPE_P(2)))
			drop_map(lfirst(cell));
	}
	PG_RETURN_VOID();
}

/* guard_lock(map, shardlet, wait_ms) */
Datum
shardlet_guard_lock(PG_FUNCTION_ARGS)
{
	SlGuardMapRow map;

	if (!sl_guard_map_row_read(NameStr(*PG_GETARG_NAME(0)), &map))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("this shard does not know map \"%s\"", NameStr(*PG_GETARG_NAME(0))));
	sl_guard_lock_exclusively(PG_GETARG_INT64(1), PG_GETARG_INT32(2));
	sl_guard_lock_for_change(map.id, PG_GETARG_INT32(2));
	PG_RETURN_VOID();
}

/* guard_adopt(map, router, new_router) */
Datum
shardlet_guard_adopt(PG_FUNCTION_ARGS)
{
	SlGuardMapRow map;

	sl_check_writable("shardlet.guard_adopt()");
	if (sl_guard_map_row_read(NameStr(*PG_GETARG_NAME(0)), &map) && map.router != NULL &&
		strcmp(map.router, text_to_cstring(PG_GETARG_TEXT_PP(1))) == 0)
	{
		map.router = text_to_cstring(PG_GETARG_TEXT_PP(2));
		sl_guard_map_row_write(&map);
	}
	PG_RETURN_VOID();
}
