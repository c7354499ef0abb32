/*
 * map_isolate.c
 *		Gives one key a shardlet of its own.
 *
 * No row moves: the shardlet that has the key is cut, and all pieces stay on its shard.
 * A hash map is cut at the key's token, a range map at the key and its successor, and a
 * key that the default shardlet of a list map has becomes an entry.  The new shardlet is
 * pinned, since it was made to be somewhere.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "metadata/map.h"

/* What is common to all cuts ------------------------------------------------------ */

/* Last token of a shardlet of a hash map. */
int64
sl_shardlet_last_token(const SlShardletRow *row)
{
	return row->has_high_token ? row->high_token - 1 : PG_INT64_MAX;
}

/* A new shardlet that is like another one, but for its borders. */
SlShardletRow
sl_shardlet_copy(const SlShardletRow *row, int64 version)
{
	SlShardletRow copy = *row;

	copy.id = sl_catalog_next_id(SL_SHARDLET_SEQUENCE);
	copy.version = version;
	return copy;
}

/* Fails if the map cannot have so many shardlets more. */
void
sl_map_check_room(const SlMap *map, int more)
{
	if (map->shardlet_count + more > SL_MAX_SHARDLETS)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("map \"%s\" cannot have more than %d shardlets", NameStr(map->name),
					   SL_MAX_SHARDLETS));
}

/*
 * Writes the three parts of a shardlet: the key's own, and what is below and above
 * that.  The part below, or else the one above, keeps the shardlet's id.
 */
static void
write_parts(const SlShardletRow *low, SlShardletRow *own, SlShardletRow *high, bool has_low, bool has_high)
{
	if (has_low)
		sl_shardlet_row_update(low);
	sl_shardlet_row_insert(own, 1);
	if (has_high && has_low)
	{
		*high = sl_shardlet_copy(high, high->version);
		sl_shardlet_row_insert(high, 1);
	}
	else if (has_high)
		sl_shardlet_row_update(high);
}

/* The parts of a shardlet that is to be cut, without their borders. */
static void
make_parts(SlMap *map, const SlShardletRow *whole, SlShardletRow *low, SlShardletRow *own, SlShardletRow *high)
{
	sl_map_check_room(map, 2);
	*low = *high = *whole;
	low->version = high->version = sl_map_next_version(map);
	*own = sl_shardlet_copy(whole, low->version);
	own->pinned = true;
}

/* The key has a shardlet of its own already. */
static void
set_pinned(SlMap *map, SlShardletRow *row)
{
	if (row->pinned)
		return;
	row->pinned = true;
	row->version = sl_map_next_version(map);
	sl_shardlet_row_update(row);
	sl_map_finish_change(map);
}

/* Hash ------------------------------------------------------------------------------ */

static SlShardletRow
isolate_token(SlMap *map, SlShardletRow *whole, const Datum *key)
{
	int64		token = sl_key_token(map->key_types, map->key_count, key);
	SlShardletRow low;
	SlShardletRow own;
	SlShardletRow high;

	if (whole->low_token == token && sl_shardlet_last_token(whole) == token)
	{
		set_pinned(map, whole);
		return *whole;
	}
	make_parts(map, whole, &low, &own, &high);
	low.has_high_token = own.has_low_token = true;
	low.high_token = own.low_token = token;
	own.has_high_token = token < PG_INT64_MAX;
	own.high_token = high.low_token = own.has_high_token ? token + 1 : 0;
	write_parts(&low, &own, &high, token > whole->low_token, token < sl_shardlet_last_token(whole));
	sl_map_finish_change(map);
	return own;
}

/* Ranges ---------------------------------------------------------------------------- */

/* The shortest text or bytea that is greater: one more character, the smallest. */
static Datum
append_smallest(Datum value, char smallest)
{
	struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);
	int			length = (int) VARSIZE_ANY_EXHDR(bytes);
	struct varlena *result = palloc(VARHDRSZ + length + 1);

	SET_VARSIZE(result, VARHDRSZ + length + 1);
	memcpy(VARDATA(result), VARDATA_ANY(bytes), length);
	VARDATA(result)[length] = smallest;
	return PointerGetDatum(result);
}

/*
 * The next value of the type in the map's order.  Returns false if the type has none;
 * *is_last: this value is the last one.
 */
static bool
find_successor(Oid type, Datum value, Datum *successor, bool *is_last)
{
	*is_last = false;
	switch (type)
	{
		case INT2OID:
			*is_last = DatumGetInt16(value) == PG_INT16_MAX;
			*successor = Int16GetDatum((int16) (*is_last ? 0 : DatumGetInt16(value) + 1));
			return true;
		case INT4OID:
			*is_last = DatumGetInt32(value) == PG_INT32_MAX;
			*successor = Int32GetDatum(*is_last ? 0 : DatumGetInt32(value) + 1);
			return true;
		case INT8OID:
			*is_last = DatumGetInt64(value) == PG_INT64_MAX;
			*successor = Int64GetDatum(*is_last ? 0 : DatumGetInt64(value) + 1);
			return true;
		case DATEOID:
			*successor = DateADTGetDatum(DATE_NOT_FINITE(DatumGetDateADT(value)) ? 0 : DatumGetDateADT(value) + 1);
			return !DATE_NOT_FINITE(DatumGetDateADT(value)) && IS_VALID_DATE(DatumGetDateADT(*successor));
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			*successor = TimestampGetDatum(TIMESTAMP_NOT_FINITE(DatumGetTimestamp(value)) ? 0 : DatumGetTimestamp(value) + 1);
			return !TIMESTAMP_NOT_FINITE(DatumGetTimestamp(value)) && IS_VALID_TIMESTAMP(DatumGetTimestamp(*successor));
		case TEXTOID:
		case VARCHAROID:
			*successor = append_smallest(value, '\001');
			return true;
		case BYTEAOID:
			*successor = append_smallest(value, '\0');
			return true;
		default:
			return false;
	}
}

static bool
is_at(SlMap *map, ArrayType *bound, Datum value)
{
	Datum		stored;

	if (bound == NULL)
		return false;
	sl_map_text_to_values(map, bound, &stored);
	return sl_key_compare(&map->value_types[0], stored, value) == 0;
}

/* Cuts the range [key, successor) out; a last key has no end but that of its range. */
static SlShardletRow
isolate_in_range(SlMap *map, SlShardletRow *whole, const Datum *key)
{
	SlShardletRow low;
	SlShardletRow own;
	SlShardletRow high;
	Datum		successor = 0;
	bool		is_last;
	bool		has_low;
	bool		has_high;
	int			nest_level;

	if (!find_successor(map->value_types[0].type, key[0], &successor, &is_last))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("key of range map \"%s\" cannot have a shardlet of its own", NameStr(map->name)),
				errdetail("Values of its type, or this one, have no next value that a range could end at."),
				errhint("shardlet.split_shardlet() splits a range at a key that you name."));
	has_low = !is_at(map, whole->low, key[0]);
	has_high = !is_last && !is_at(map, whole->high, successor);
	if (!has_low && !has_high)
	{
		set_pinned(map, whole);
		return *whole;
	}
	make_parts(map, whole, &low, &own, &high);
	nest_level = sl_map_begin_plain_output();
	if (has_low)
		low.high = own.low = sl_map_values_to_text(map, key);
	if (has_high)
		own.high = high.low = sl_map_values_to_text(map, &successor);
	sl_map_end_plain_output(nest_level);
	write_parts(&low, &own, &high, has_low, has_high);
	sl_map_finish_change(map);
	return own;
}

/* Lists ----------------------------------------------------------------------------- */

/* A key that the default has becomes an entry on the same shard: its rows are there. */
static SlShardletRow
isolate_in_list(SlMap *map, SlShardletRow *whole, const Datum *key)
{
	SlShardletRow own;
	int			nest_level;

	if (!whole->is_default)
	{
		set_pinned(map, whole);
		return *whole;
	}
	sl_map_refuse_moving_default(map);
	own = sl_shardlet_copy(whole, sl_map_next_version(map));
	own.is_default = false;
	own.pinned = true;
	own.has_low_token = true;
	own.low_token = sl_key_token(map->value_types, map->value_count, key);
	nest_level = sl_map_begin_plain_output();
	own.low = sl_map_values_to_text(map, key);
	sl_map_end_plain_output(nest_level);
	sl_shardlet_row_insert(&own, 1);
	sl_map_finish_change(map);
	return own;
}

/* All kinds ------------------------------------------------------------------------- */

static void
refuse_via(const SlMap *map)
{
	if (map->via == NULL)
		return;
	ereport(ERROR,
			errcode(SL_ERR_INVALID),
			errmsg("one key of map \"%s\" cannot have a shardlet of its own", NameStr(map->name)),
			errdetail("The map looks up %s, so that a shardlet has all keys with one value.", map->via_text),
			errhint("Move the shardlet that shardlet.locate() names with shardlet.move_shardlet(), or make the rule finer with shardlet.refine_map()."));
}

/*
 * Gives a key a shardlet of its own, which is pinned, or finds the one that it has.
 * The map is open for a change, and the shardlet of the key is not being moved: that is
 * an error.  Rows, shard and state stay.
 */
SlShardletRow
sl_map_isolate_key(SlMap *map, const Datum *key)
{
	SlShardletRow whole;

	refuse_via(map);
	if (!sl_shardlet_row_read(sl_map_lookup(map, key)->id, &whole))
		elog(ERROR, "could not find the shardlet of the key");
	if (whole.state == SL_STATE_MOVING)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shardlet %lld of map \"%s\" is being moved", (long long) whole.id, NameStr(map->name)),
				errhint("Wait until the move has ended, or cancel it."));
	sl_map_refuse_moving(whole.id);
	sl_orphaned_refuse_lost(map);
	switch (map->kind)
	{
		case SL_KIND_HASH:
			return isolate_token(map, &whole, key);
		case SL_KIND_RANGE:
			return isolate_in_range(map, &whole, key);
		default:
			return isolate_in_list(map, &whole, key);
	}
}
