/*
 * assign.c
 *		assign_range, assign_key, assign_keys, assign_default, unassign,
 *		reassign, alter_shardlet: what is where, by hand.
 *
 * On a map with a "via" expression the keys and bounds given here are values
 * of that expression, since those are what the map looks up.
 */
#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"

#include "base/base.h"
#include "commands/commands.h"
#include "metadata/map.h"
#include "metadata/table.h"

PG_FUNCTION_INFO_V1(shardlet_assign_range);
PG_FUNCTION_INFO_V1(shardlet_assign_key);
PG_FUNCTION_INFO_V1(shardlet_assign_keys);
PG_FUNCTION_INFO_V1(shardlet_assign_default);
PG_FUNCTION_INFO_V1(shardlet_unassign);
PG_FUNCTION_INFO_V1(shardlet_reassign);
PG_FUNCTION_INFO_V1(shardlet_alter_shardlet);

/* A map locked for a change, and the shard that the caller named, if any. */
typedef struct Change
{
	SlMap	   *map;
	SlShard    *shard;			/* NULL: choose one */
	int64		version;
} Change;

static void
check_kind(const SlMap *map, SlMapKind kind, const char *function)
{
	if (map->kind != kind)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("map \"%s\" is a %s map", NameStr(map->name), sl_kind_name(map->kind)),
				errdetail("%s works on %s maps.", function, sl_kind_name(kind)));
}

/* One of these will be chosen; shards are locked before maps. */
static void
lock_candidates(SlMap *map)
{
	ListCell   *cell;

	foreach(cell, sl_map_shard_ids(map->id))
	{
		SlShard    *shard = sl_shard_by_id(lfirst_int(cell));

		if (shard->exists)
			sl_shard_lock(shard, AccessShareLock);
	}
}

/* Opens the change that functions with (map, shard, ...) begin with. */
static Change
begin_change(FunctionCallInfo fcinfo, SlMapKind kind, const char *function)
{
	Change		change = {0};
	char	   *name;

	sl_check_writable(function);
	sl_key_check_collation(PG_GET_COLLATION());
	name = sl_map_arg_name(fcinfo, 0, "map");
	check_kind(sl_map_get(name), kind, function);
	if (!PG_ARGISNULL(1))
	{
		change.shard = sl_shard_by_name(sl_map_arg_name(fcinfo, 1, "shard"), false);
		sl_shard_lock(change.shard, AccessShareLock);
	}
	else
		lock_candidates(sl_map_get(name));
	change.map = sl_map_open_for_change(name);
	check_kind(change.map, kind, function);
	sl_map_refuse_moving_default(change.map);
	sl_orphaned_refuse_lost(change.map);
	change.version = sl_map_next_version(change.map);
	return change;
}

static void
require_shard(const Change *change)
{
	if (change->shard == NULL)
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("shard must not be NULL"));
}

/* Ranges ------------------------------------------------------------------ */

static SlBound
get_bound(FunctionCallInfo fcinfo, int argument, SlMap *map)
{
	SlBound		bound = {.unbounded = PG_ARGISNULL(argument)};
	SlCoercion	coercion;

	if (bound.unbounded)
		return bound;
	sl_coercion_init(&coercion, get_fn_expr_argtype(fcinfo->flinfo, argument),
					 &map->value_types[0], psprintf("bound of map \"%s\"", NameStr(map->name)),
					 CurrentMemoryContext);
	bound.value = sl_coercion_apply(&coercion, PG_GETARG_DATUM(argument));
	return bound;
}

static void
refuse_overlap(SlMap *map, int index)
{
	ereport(ERROR,
			errcode(SL_ERR_EXISTS),
			errmsg("range overlaps another one of map \"%s\"", NameStr(map->name)),
			errdetail("There is shardlet %s.", sl_shardlet_text(map, index)));
}

/* Fails if the range is empty or overlaps an existing one. */
static void
check_range(SlMap *map, const SlBound *low, const SlBound *high)
{
	SlKeyType  *type = &map->value_types[0];
	int			before;

	if (!low->unbounded && !high->unbounded &&
		sl_key_compare(type, low->value, high->value) >= 0)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("low end of the range must be below its high end"),
				errdetail("The high end is not part of the range."));
	if (low->unbounded)
		before = map->shardlet_count > 0 && map->lows[0].unbounded ? 0 : -1;
	else
		before = sl_map_find_value(map, low->value);

	/* The last one that begins at or before ours must end before it. */
	if (before >= 0 &&
		(low->unbounded || map->highs[before].unbounded ||
		 sl_key_compare(type, map->highs[before].value, low->value) > 0))
		refuse_overlap(map, before);

	/* The next one must not begin before ours ends. */
	if (before + 1 < map->shardlet_count &&
		(high->unbounded ||
		 sl_key_compare(type, map->lows[before + 1].value, high->value) < 0))
		refuse_overlap(map, before + 1);
}

/* assign_range(map, shard, low, high) */
Datum
shardlet_assign_range(PG_FUNCTION_ARGS)
{
	Change		change = begin_change(fcinfo, SL_KIND_RANGE, "shardlet.assign_range()");
	SlMap	   *map = change.map;
	SlBound		low = get_bound(fcinfo, 2, map);
	SlBound		high = get_bound(fcinfo, 3, map);
	SlShardletRow row;
	int			nest_level;

	if (change.shard == NULL)
		change.shard = sl_map_place(map, 1)[0];
	check_range(map, &low, &high);
	row = sl_map_new_shardlet(map, change.shard, change.version);
	nest_level = sl_map_begin_plain_output();
	if (!low.unbounded)
		row.low = sl_map_values_to_text(map, &low.value);
	if (!high.unbounded)
		row.high = sl_map_values_to_text(map, &high.value);
	sl_map_end_plain_output(nest_level);
	sl_shardlet_row_insert(&row, 1);
	sl_map_include_shard(map, change.shard);
	sl_map_finish_change(map);
	PG_RETURN_INT64(row.id);
}

/* Lists ------------------------------------------------------------------- */

static void
refuse_known_key(SlMap *map, const Datum *values)
{
	StringInfoData key;

	initStringInfo(&key);
	for (int i = 0; i < map->value_count; i++)
		appendStringInfo(&key, "%s%s", i > 0 ? ", " : "",
						 sl_key_to_text(&map->value_types[i], values[i]));
	ereport(ERROR,
			errcode(SL_ERR_EXISTS),
			errmsg("map \"%s\" already has this key", NameStr(map->name)),
			errdetail("The key is (%s).", key.data));
}

/* The keys of one call, by token, to find one that is given twice. */
typedef struct SeenKey
{
	int64		token;			/* hash key */
	int			index;			/* of the last key with this token */
} SeenKey;

typedef struct NewKeys
{
	SlMap	   *map;
	SlShardletRow *rows;
	Datum	   *values;			/* value_count for each key */
	int		   *previous;		/* the key before with the same token, or -1 */
	HTAB	   *seen;
} NewKeys;

static bool
same_key(NewKeys *keys, int a, int b)
{
	int			count = keys->map->value_count;

	for (int i = 0; i < count; i++)
	{
		if (!sl_key_equal(&keys->map->value_types[i], keys->values[a * count + i],
						  keys->values[b * count + i]))
			return false;
	}
	return true;
}

/* Fails if the key at this index exists already, or was given before. */
static void
check_new_key(NewKeys *keys, int index)
{
	SlMap	   *map = keys->map;
	const Datum *values = &keys->values[index * map->value_count];
	int64		token = keys->rows[index].low_token;
	SlShardletRow existing;
	SeenKey    *seen;
	bool		found;

	if (sl_map_list_find(map, token, values, &existing))
		refuse_known_key(map, values);
	seen = hash_search(keys->seen, &token, HASH_ENTER, &found);
	keys->previous[index] = found ? seen->index : -1;
	for (int i = keys->previous[index]; i >= 0; i = keys->previous[i])
	{
		if (same_key(keys, i, index))
			refuse_known_key(map, values);
	}
	seen->index = index;
}

static void
open_new_keys(NewKeys *keys, SlMap *map, int count)
{
	HASHCTL		control = {0};

	keys->map = map;
	keys->rows = palloc_extended(sizeof(SlShardletRow) * Max(count, 1), MCXT_ALLOC_HUGE);
	keys->values = palloc(sizeof(Datum) * Max(count * map->value_count, 1));
	keys->previous = palloc(sizeof(int) * Max(count, 1));
	control.keysize = sizeof(int64);
	control.entrysize = sizeof(SeenKey);
	control.hcxt = CurrentMemoryContext;
	keys->seen = hash_create("shardlet new keys", count, &control,
							 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Makes and checks the row of one key, whose values are in place. */
static void
make_key_row(NewKeys *keys, int index, const SlShard *shard, int64 version)
{
	SlMap	   *map = keys->map;
	const Datum *values = &keys->values[index * map->value_count];
	SlShardletRow *row = &keys->rows[index];

	*row = sl_map_new_shardlet(map, shard, version);
	row->has_low_token = true;
	row->low_token = sl_key_token(map->value_types, map->value_count, values);
	row->low = sl_map_values_to_text(map, values);
	check_new_key(keys, index);
}

/*
 * Rows of a key that the default has had until now are on the default's shard.
 * So the key stays there if there are tables; it can be moved then.
 */
static void
stay_with_default(Change *change)
{
	SlMap	   *map = change->map;
	SlShard    *caller;

	if (map->shardlet_count == 0 || sl_table_names_of(map, NULL) == NIL)
		return;
	caller = map->shardlets[0].shard;
	if (change->shard != NULL && change->shard != caller)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("key cannot be assigned to shard \"%s\"", NameStr(change->shard->name)),
				errdetail("Map \"%s\" has tables, and rows of the key are on shard \"%s\", which has the default shardlet.",
						  NameStr(map->name), NameStr(caller->name)),
				errhint("Assign it to shard \"%s\", and move the shardlet then.", NameStr(caller->name)));
	change->shard = caller;
}

/* Inserts keys whose values are in place, on one shard or placed by load. */
static void
insert_keys(NewKeys *keys, int count, Change *change)
{
	SlMap	   *map = keys->map;
	SlShard   **placed;
	int			nest_level;

	stay_with_default(change);
	placed = change->shard == NULL ? sl_map_place(map, count) : NULL;
	nest_level = sl_map_begin_plain_output();
	for (int i = 0; i < count; i++)
		make_key_row(keys, i, placed ? placed[i] : change->shard, change->version);
	sl_map_end_plain_output(nest_level);
	sl_shardlet_row_insert(keys->rows, count);
	if (change->shard != NULL)
		sl_map_include_shard(map, change->shard);
	sl_map_finish_change(map);
}

/* assign_key(map, shard, VARIADIC key) */
Datum
shardlet_assign_key(PG_FUNCTION_ARGS)
{
	Change		change = begin_change(fcinfo, SL_KIND_LIST, "shardlet.assign_key()");
	SlKeyArgs	args;
	NewKeys		keys;

	sl_key_args_get(fcinfo, 2, &args);
	open_new_keys(&keys, change.map, 1);
	if (args.count > change.map->value_count)
		keys.values = palloc(sizeof(Datum) * args.count);
	sl_map_coerce_key(change.map, true, &args, keys.values);
	insert_keys(&keys, 1, &change);
	PG_RETURN_INT64(keys.rows[0].id);
}

/* assign_keys(map, shard, keys) */
Datum
shardlet_assign_keys(PG_FUNCTION_ARGS)
{
	Change		change = begin_change(fcinfo, SL_KIND_LIST, "shardlet.assign_keys()");
	int			value_count = change.map->value_count;
	SlKeyArray	array;
	NewKeys		keys;

	if (PG_ARGISNULL(2))
		sl_key_refuse_null();
	sl_map_key_array_open(&array, change.map, true, PG_GETARG_ARRAYTYPE_P(2));
	if (array.count == 0)
		PG_RETURN_INT64(0);
	open_new_keys(&keys, change.map, array.count);
	for (int i = 0; i < array.count; i++)
		sl_map_key_array_get(&array, i, &keys.values[i * value_count]);
	insert_keys(&keys, array.count, &change);
	PG_RETURN_INT64(array.count);
}

/* assign_default(map, shard) */
Datum
shardlet_assign_default(PG_FUNCTION_ARGS)
{
	Change		change = begin_change(fcinfo, SL_KIND_LIST, "shardlet.assign_default()");
	SlShardletRow row;

	require_shard(&change);
	if (change.map->shardlet_count > 0)
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("map \"%s\" already has a default shardlet", NameStr(change.map->name)),
				errdetail("It is shardlet %lld on shard \"%s\".",
						  (long long) change.map->shardlets[0].id,
						  NameStr(change.map->shardlets[0].shard->name)));
	row = sl_map_new_shardlet(change.map, change.shard, change.version);
	row.is_default = true;
	sl_shardlet_row_insert(&row, 1);
	sl_map_include_shard(change.map, change.shard);
	sl_map_finish_change(change.map);
	PG_RETURN_INT64(row.id);
}

/* Existing shardlets ------------------------------------------------------- */

static SlMap *
open_shardlet(FunctionCallInfo fcinfo, const char *function, SlShardletRow *row)
{
	sl_check_writable(function);
	return sl_map_open_shardlet(sl_map_arg_int64(fcinfo, 0, "shardlet"), row);
}

static int64
count_misplaced(SlMap *map, int32 shard_id)
{
	SlShard    *shard = sl_shard_by_id(shard_id);

	if (!shard->exists || shard->state == SL_STATE_OFFLINE)
		return 0;
	return sl_misplaced_count(map, shard);
}

/*
 * unassign(shardlet)
 *
 * Fails if rows of the shardlet are left: no shard would own them.  There can be
 * misplaced rows before, left by a move or written past the guard, so only an
 * increase of their number is an error.
 */
Datum
shardlet_unassign(PG_FUNCTION_ARGS)
{
	SlShardletRow row;
	SlMap	   *map = open_shardlet(fcinfo, "shardlet.unassign()", &row);
	int64		before;
	int64		after;

	/* A key becomes the default's. */
	sl_map_refuse_moving_default(map);
	if (sl_table_names_of(map, NULL) != NIL)
		sl_check_sees_all("shardlet.unassign()");
	before = count_misplaced(map, row.shard_id);
	sl_shardlet_row_delete(&row);
	sl_map_finish_change(map);
	map = sl_map_get_by_id(row.map_id);
	after = count_misplaced(map, row.shard_id);
	if (after > before)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shardlet %lld of map \"%s\" has rows", (long long) row.id, NameStr(map->name)),
				errdetail_plural("There is %lld row on shard \"%s\".",
								 "There are %lld rows on shard \"%s\".",
								 (unsigned long) (after - before), (long long) (after - before),
								 NameStr(sl_shard_by_id(row.shard_id)->name)),
				errhint("Delete the rows first, or give the shardlet to another shard."));
	PG_RETURN_VOID();
}

/* A caller that expects rows to be moved along would not find them any more. */
static void
warn_of_rows(const SlMap *map, const SlShardletRow *row)
{
	const SlShard *shard = sl_shard_by_id(row->shard_id);
	bool		has_tables = false;
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);

		has_tables = has_tables || (table->kind == SL_TABLE_SHARDED && strcmp(table->map, NameStr(map->name)) == 0);
	}
	if (has_tables && shard->exists)
		ereport(WARNING,
				errmsg("rows of shardlet %lld stay on shard \"%s\"", (long long) row->id, NameStr(shard->name)),
				errdetail("shardlet.reassign() changes the map alone."),
				errhint("CALL shardlet.move_shardlet() moves a shardlet with its rows."));
}

/* reassign(shardlet, shard) */
Datum
shardlet_reassign(PG_FUNCTION_ARGS)
{
	SlShard    *shard;
	SlShardletRow row;
	SlMap	   *map;

	shard = sl_shard_by_name(sl_map_arg_name(fcinfo, 1, "shard"), false);
	sl_shard_lock(shard, AccessShareLock);
	map = open_shardlet(fcinfo, "shardlet.reassign()", &row);
	if (row.shard_id == shard->id)
		PG_RETURN_VOID();
	sl_map_check_slot(map, shard, 0);
	warn_of_rows(map, &row);
	row.shard_id = shard->id;
	row.version = sl_map_next_version(map);
	sl_shardlet_row_update(&row);
	sl_map_include_shard(map, shard);
	sl_map_finish_change(map);
	PG_RETURN_VOID();
}

/* alter_shardlet(shardlet, state, pinned) */
Datum
shardlet_alter_shardlet(PG_FUNCTION_ARGS)
{
	SlShardletRow row;
	SlMap	   *map = open_shardlet(fcinfo, "shardlet.alter_shardlet()", &row);
	SlState		state = PG_ARGISNULL(1) ? row.state :
	sl_state_parse(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	bool		pinned = PG_ARGISNULL(2) ? row.pinned : PG_GETARG_BOOL(2);

	if (state == SL_STATE_MOVING && row.state != SL_STATE_MOVING)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("a shardlet cannot be set to state \"moving\""),
				errhint("Valid states are \"online\", \"read_only\" and \"offline\"."));
	if (state == row.state && pinned == row.pinned)
		PG_RETURN_VOID();
	row.state = state;
	row.pinned = pinned;
	row.version = sl_map_next_version(map);
	sl_shardlet_row_update(&row);
	sl_map_finish_change(map);
	PG_RETURN_VOID();
}
