/*
 * split_shardlet.c
 *		split_shardlet, merge_shardlets, isolate_key: other borders between
 *		shardlets, the same shards.
 *
 * No row moves, so these take the same time whatever there is.  The part below
 * keeps the shardlet's id, others get new ones.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "base/base.h"
#include "metadata/map.h"

PG_FUNCTION_INFO_V1(shardlet_split_shardlet);
PG_FUNCTION_INFO_V1(shardlet_merge_shardlets);
PG_FUNCTION_INFO_V1(shardlet_isolate_key);

static void
refuse_moving(const SlMap *map, const SlShardletRow *row)
{
	if (row->state == SL_STATE_MOVING)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shardlet %lld of map \"%s\" is being moved", (long long) row->id,
					   NameStr(map->name)),
				errhint("Wait until the move has ended, or cancel it."));
}

/* Lists and spread maps have no borders. */
static void
refuse_kind(const SlMap *map, const char *action)
{
	if (map->kind == SL_KIND_HASH || map->kind == SL_KIND_RANGE)
		return;
	ereport(ERROR,
			errcode(SL_ERR_INVALID),
			errmsg("shardlets of a %s map cannot be %s", sl_kind_name(map->kind), action),
			map->kind == SL_KIND_LIST ?
			errhint("Each key of a list is a shardlet of its own; shardlet.assign_key() gives one to a key of the default.") :
			errhint("Each shard has one shardlet of a spread map; shardlet.alter_map() adds shards."));
}

/* Splitting ------------------------------------------------------------------- */

static void
refuse_place(const SlShardletRow *row, const char *place, const char *borders)
{
	ereport(ERROR,
			errcode(SL_ERR_INVALID),
			errmsg("shardlet %lld cannot be split at %s", (long long) row->id, place),
			errdetail_internal("%s", borders));
}

static char *
tokens_text(const SlShardletRow *row)
{
	return psprintf("It has tokens %lld to %lld.", (long long) row->low_token,
					(long long) sl_shardlet_last_token(row));
}

static int64
middle_token(const SlShardletRow *row)
{
	uint64		width = (uint64) sl_shardlet_last_token(row) - (uint64) row->low_token;

	if (width == 0)
		refuse_place(row, "its middle", "It has a single token.");
	return (int64) ((uint64) row->low_token + width / 2 + 1);
}

/* Both rows have the borders of the whole; sets the one between them. */
static void
cut_at_token(SlShardletRow *low, SlShardletRow *high, const char *at)
{
	int64		token = at == NULL ? middle_token(low) :
	DatumGetInt64(DirectFunctionCall1(int8in, CStringGetDatum(at)));

	if (token <= low->low_token || token > sl_shardlet_last_token(low))
		refuse_place(low, psprintf("token %lld", (long long) token), tokens_text(low));
	low->has_high_token = high->has_low_token = true;
	low->high_token = high->low_token = token;
}

static bool
is_inside(SlMap *map, const SlShardletRow *row, Datum value)
{
	Datum		bound;

	if (row->low != NULL)
	{
		sl_map_text_to_values(map, row->low, &bound);
		if (sl_key_compare(&map->value_types[0], bound, value) >= 0)
			return false;
	}
	if (row->high == NULL)
		return true;
	sl_map_text_to_values(map, row->high, &bound);
	return sl_key_compare(&map->value_types[0], value, bound) < 0;
}

static char *
bound_text(const ArrayType *bound)
{
	Datum		element;
	bool		is_null;
	int			subscript = 1;

	if (bound == NULL)
		return "unbounded";
	element = array_get_element(PointerGetDatum(bound), 1, &subscript, -1, -1, false, TYPALIGN_INT,
								&is_null);
	return TextDatumGetCString(element);
}

static void
cut_at_key(SlMap *map, SlShardletRow *low, SlShardletRow *high, const char *at)
{
	Datum		value;
	ArrayType  *border;
	int			nest_level;

	if (at == NULL)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shardlet %lld of a range map cannot be split in the middle",
					   (long long) low->id),
				errdetail("What the middle of its keys is depends on the rows."),
				errhint("Name the key with which the second half begins."));
	value = sl_key_from_text(&map->value_types[0], at);
	if (!is_inside(map, low, value))
		refuse_place(low, psprintf("key %s", at),
					 psprintf("It has keys [%s, %s).", bound_text(low->low), bound_text(low->high)));
	nest_level = sl_map_begin_plain_output();
	border = sl_map_values_to_text(map, &value);
	sl_map_end_plain_output(nest_level);
	low->high = high->low = border;
}

static void
put_id(FunctionCallInfo fcinfo, int64 id)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		value = Int64GetDatum(id);
	bool		is_null = false;

	tuplestore_putvalues(result->setResult, result->setDesc, &value, &is_null);
}

/* split_shardlet(shardlet, at) */
Datum
shardlet_split_shardlet(PG_FUNCTION_ARGS)
{
	char	   *at = PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1));
	SlShardletRow low;
	SlShardletRow high;
	SlMap	   *map;

	sl_check_writable("shardlet.split_shardlet()");
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	map = sl_map_open_shardlet(sl_map_arg_int64(fcinfo, 0, "shardlet"), &low);
	refuse_kind(map, "split");
	refuse_moving(map, &low);
	sl_map_check_room(map, 1);
	high = sl_shardlet_copy(&low, sl_map_next_version(map));
	low.version = sl_map_next_version(map);
	if (map->kind == SL_KIND_HASH)
		cut_at_token(&low, &high, at);
	else
		cut_at_key(map, &low, &high, at);
	sl_shardlet_row_update(&low);
	sl_shardlet_row_insert(&high, 1);
	sl_map_finish_change(map);
	put_id(fcinfo, low.id);
	put_id(fcinfo, high.id);
	return (Datum) 0;
}

/* Merging --------------------------------------------------------------------- */

static bool
same_bound(SlMap *map, ArrayType *a, ArrayType *b)
{
	Datum		left;
	Datum		right;

	if (a == NULL || b == NULL)
		return false;
	sl_map_text_to_values(map, a, &left);
	sl_map_text_to_values(map, b, &right);
	return sl_key_compare(&map->value_types[0], left, right) == 0;
}

/* Does the second one begin where the first one ends? */
static bool
are_in_order(SlMap *map, const SlShardletRow *first, const SlShardletRow *second)
{
	if (map->kind == SL_KIND_HASH)
		return first->has_high_token && first->high_token == second->low_token;
	return same_bound(map, first->high, second->low);
}

static void
refuse_pair(const SlShardletRow *a, const SlShardletRow *b, const char *detail, const char *hint)
{
	ereport(ERROR,
			errcode(SL_ERR_INVALID),
			errmsg("shardlets %lld and %lld cannot be merged", (long long) a->id, (long long) b->id),
			errdetail_internal("%s", detail),
			hint != NULL ? errhint("%s", hint) : 0);
}

static void
check_pair(SlMap *map, const SlShardletRow *a, const SlShardletRow *b)
{
	if (a->map_id != b->map_id)
		refuse_pair(a, b, "They belong to different maps.", NULL);
	if (a->id == b->id)
		refuse_pair(a, b, "They are the same.", NULL);
	refuse_kind(map, "merged");
	refuse_moving(map, a);
	refuse_moving(map, b);
	if (!are_in_order(map, a, b) && !are_in_order(map, b, a))
		refuse_pair(a, b, "They are not adjacent.", NULL);
	if (a->shard_id != b->shard_id)
		refuse_pair(a, b, psprintf("They are on shards \"%s\" and \"%s\".",
								   NameStr(sl_shard_by_id(a->shard_id)->name),
								   NameStr(sl_shard_by_id(b->shard_id)->name)),
					"Move one of them first.");
	if (a->state != b->state)
		refuse_pair(a, b, psprintf("One is %s, the other one %s.", sl_state_name(a->state),
								   sl_state_name(b->state)),
					"shardlet.alter_shardlet() changes states.");
}

/* merge_shardlets(a, b) */
Datum
shardlet_merge_shardlets(PG_FUNCTION_ARGS)
{
	int64		id = sl_map_arg_int64(fcinfo, 0, "shardlet");
	int64		other_id = sl_map_arg_int64(fcinfo, 1, "shardlet");
	SlShardletRow low;
	SlShardletRow high;
	SlMap	   *map;

	sl_check_writable("shardlet.merge_shardlets()");
	map = sl_map_open_shardlet(id, &low);
	(void) sl_map_open_shardlet(other_id, &high);
	check_pair(map, &low, &high);
	if (!are_in_order(map, &low, &high))
	{
		SlShardletRow swapped = low;

		low = high;
		high = swapped;
	}
	low.has_high_token = high.has_high_token;
	low.high_token = high.high_token;
	low.high = high.high;
	low.pinned = low.pinned && high.pinned;
	low.version = sl_map_next_version(map);
	sl_shardlet_row_delete(&high);
	sl_shardlet_row_update(&low);
	sl_map_finish_change(map);
	PG_RETURN_INT64(low.id);
}

/* Isolating ------------------------------------------------------------------- */

static void
refuse_isolation(const SlMap *map)
{
	if (map->kind == SL_KIND_HASH)
		return;
	ereport(ERROR,
			errcode(SL_ERR_INVALID),
			errmsg("keys of a %s map cannot be isolated", sl_kind_name(map->kind)),
			map->kind == SL_KIND_RANGE ?
			errhint("shardlet.split_shardlet() splits a range at a key.") :
			map->kind == SL_KIND_LIST ?
			errhint("shardlet.assign_key() gives a key a shardlet of its own.") :
			errhint("Rows of a spread map have no key."));
}

/* isolate_key(map, VARIADIC key) */
Datum
shardlet_isolate_key(PG_FUNCTION_ARGS)
{
	SlKeyArgs	args;
	Datum		key[SL_MAX_KEYS];
	SlMap	   *map;

	sl_check_writable("shardlet.isolate_key()");
	sl_key_check_collation(PG_GET_COLLATION());
	map = sl_map_open_for_change(sl_map_arg_name(fcinfo, 0, "map"));
	refuse_isolation(map);
	sl_key_args_get(fcinfo, 1, &args);
	sl_map_coerce_key(map, false, &args, key);
	PG_RETURN_INT64(sl_map_isolate_key(map, key).id);
}
