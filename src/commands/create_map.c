/*
 * create_map.c
 *		create_map, alter_map, drop_map.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "metadata/map.h"
#include "metadata/table.h"

#define DEFAULT_SHARDLETS 32
#define DEFAULT_SHARDLETS_PER_SHARD 8

PG_FUNCTION_INFO_V1(shardlet_create_map);
PG_FUNCTION_INFO_V1(shardlet_alter_map);
PG_FUNCTION_INFO_V1(shardlet_drop_map);

static void
read_key_types(FunctionCallInfo fcinfo, int argument, SlMapRow *row)
{
	Datum	   *types;
	bool	   *nulls;
	int			count;

	/* Rows of a spread map have no key. */
	row->key_count = 0;
	if (row->kind == SL_KIND_SPREAD)
		return;
	if (PG_ARGISNULL(argument))
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("key types must not be NULL"));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(argument), REGTYPEOID, sizeof(Oid), true,
					  TYPALIGN_INT, &types, &nulls, &count);
	if (count < 1 || count > SL_MAX_KEYS || (row->kind == SL_KIND_RANGE && count > 1))
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("a %s map cannot have %d key columns", sl_kind_name(row->kind), count),
				row->kind == SL_KIND_RANGE ?
				errhint("A range map has one key column.") :
				errhint("A key has 1 to %d columns.", SL_MAX_KEYS));
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					errmsg("key types must not be NULL"));
		row->key_oids[i] = DatumGetObjectId(types[i]);
		sl_key_check_type(row->key_oids[i],
						  row->kind == SL_KIND_RANGE ? SL_KEY_ORDERED : SL_KEY_HASHED);
	}
	row->key_count = count;
}

static void
read_via(FunctionCallInfo fcinfo, int argument, SlMapRow *row)
{
	Oid			value_type;

	row->via = NULL;
	if (PG_ARGISNULL(argument))
		return;
	if (row->kind != SL_KIND_LIST && row->kind != SL_KIND_RANGE)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("a %s map cannot have a \"via\" expression", sl_kind_name(row->kind)),
				errhint("List and range maps can."));
	row->via = sl_via_check(text_to_cstring(PG_GETARG_TEXT_PP(argument)),
							row->key_oids, row->key_count, &value_type);
	sl_key_check_type(value_type,
					  row->kind == SL_KIND_RANGE ? SL_KEY_ORDERED : SL_KEY_HASHED);
}

static int
read_shardlet_count(FunctionCallInfo fcinfo, int argument, SlMapKind kind, int shard_count)
{
	int32		count;

	if (PG_ARGISNULL(argument))
		return Min(Max(DEFAULT_SHARDLETS, DEFAULT_SHARDLETS_PER_SHARD * shard_count),
				   SL_MAX_SHARDLETS);
	count = PG_GETARG_INT32(argument);
	if (kind != SL_KIND_HASH)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("number of shardlets cannot be given for a %s map", sl_kind_name(kind)));
	if (count < 1 || count > SL_MAX_SHARDLETS)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("number of shardlets must be between 1 and %d", SL_MAX_SHARDLETS));
	return count;
}

/*
 * Returns the first token of a piece when all tokens are cut into so many
 * pieces: floor(piece * 2^64 / pieces), moved down to where tokens begin.
 */
static int64
first_token(uint64 piece, uint64 pieces)
{
	uint64		quotient = PG_UINT64_MAX / pieces;
	uint64		remainder = PG_UINT64_MAX % pieces + 1;
	uint64		offset = piece * quotient + piece * remainder / pieces;

	return (int64) (offset ^ (UINT64CONST(1) << 63));
}

/* Cuts the tokens evenly and hands the pieces to the shards. */
static void
cut_tokens(SlMap *map, int count, int64 version)
{
	SlShard   **shards = sl_map_place(map, count);
	SlShardletRow *rows = palloc(sizeof(SlShardletRow) * count);

	for (int i = 0; i < count; i++)
	{
		rows[i] = sl_map_new_shardlet(map, shards[i], version);
		rows[i].has_low_token = true;
		rows[i].low_token = first_token(i, count);
		rows[i].has_high_token = i + 1 < count;
		if (rows[i].has_high_token)
			rows[i].high_token = first_token(i + 1, count);
	}
	sl_shardlet_row_insert(rows, count);
}

/* One slot on each of the shards. */
static void
add_queues(SlMap *map, List *shards, int64 version)
{
	ListCell   *cell;

	foreach(cell, shards)
	{
		SlShardletRow row = sl_map_new_shardlet(map, lfirst(cell), version);

		sl_shardlet_row_insert(&row, 1);
	}
}

static void
refuse_duplicate(const char *name)
{
	SlMapRow	existing;

	if (sl_map_row_read(name, NULL, &existing))
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("map \"%s\" already exists", name));
}

static void
lock_shards(List *shards)
{
	ListCell   *cell;

	foreach(cell, shards)
		sl_shard_lock(lfirst(cell), AccessShareLock);
}

static SlMap *
insert_map(SlMapRow *row, List *shards)
{
	SlMap	   *map;
	ListCell   *cell;

	sl_map_lock_names();
	refuse_duplicate(NameStr(row->name));
	row->id = (int32) sl_catalog_next_id(SL_MAP_SEQUENCE);
	row->version = 0;
	sl_map_row_insert(row);
	map = sl_map_open_for_change(NameStr(row->name));
	foreach(cell, shards)
		sl_map_shard_insert(row->id, ((SlShard *) lfirst(cell))->id);
	return map;
}

/* create_map(map, kind, key_types, shards, shardlets, via) */
Datum
shardlet_create_map(PG_FUNCTION_ARGS)
{
	SlMapRow	row = {0};
	List	   *shards;
	int			count;
	SlMap	   *map;

	sl_check_writable("shardlet.create_map()");
	namestrcpy(&row.name, sl_map_arg_name(fcinfo, 0, "map"));
	row.kind = sl_kind_parse(sl_map_arg_text(fcinfo, 1, "kind of map"));
	read_key_types(fcinfo, 2, &row);
	read_via(fcinfo, 5, &row);
	shards = PG_ARGISNULL(3) ? sl_shard_all() : sl_map_arg_shards(fcinfo, 3);
	count = read_shardlet_count(fcinfo, 4, row.kind, list_length(shards));
	if (shards == NIL && (row.kind == SL_KIND_HASH || row.kind == SL_KIND_SPREAD))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("a %s map needs at least one shard", sl_kind_name(row.kind)),
				errhint("Add shards with shardlet.add_shard()."));

	lock_shards(shards);
	map = insert_map(&row, shards);
	if (row.kind == SL_KIND_HASH)
		cut_tokens(map, count, sl_map_next_version(map));
	else if (row.kind == SL_KIND_SPREAD)
		add_queues(map, shards, sl_map_next_version(map));
	sl_map_finish_change(map);
	PG_RETURN_VOID();
}

static void
add_shards(SlMap *map, List *shards)
{
	List	   *present = sl_map_shard_ids(map->id);
	ListCell   *cell;

	foreach(cell, shards)
	{
		SlShard    *shard = lfirst(cell);

		if (list_member_int(present, shard->id))
			ereport(ERROR,
					errcode(SL_ERR_EXISTS),
					errmsg("map \"%s\" already uses shard \"%s\"",
						   NameStr(map->name), NameStr(shard->name)));
		sl_map_join_shard(map, shard);
	}
	if (map->kind == SL_KIND_SPREAD)
		add_queues(map, shards, sl_map_next_version(map));
}

static void
drop_shards(SlMap *map, List *shards)
{
	List	   *present = sl_map_shard_ids(map->id);
	ListCell   *cell;

	foreach(cell, shards)
	{
		SlShard    *shard = lfirst(cell);
		int64		count = sl_map_count_shardlets(shard->id, map->id);
		int64		move = sl_map_move_with(shard->id, map->id, 0);

		if (!list_member_int(present, shard->id))
			ereport(ERROR,
					errcode(ERRCODE_UNDEFINED_OBJECT),
					errmsg("map \"%s\" does not use shard \"%s\"",
						   NameStr(map->name), NameStr(shard->name)));
		if (count > 0)
			ereport(ERROR,
					errcode(SL_ERR_INVALID),
					errmsg("shard \"%s\" cannot be taken out of map \"%s\"",
						   NameStr(shard->name), NameStr(map->name)),
					errdetail_plural("It owns %lld shardlet of the map.",
									 "It owns %lld shardlets of the map.",
									 (unsigned long) count, (long long) count),
					errhint("Give them to other shards, or unassign them, first."));
		if (move != 0)
			ereport(ERROR,
					errcode(SL_ERR_INVALID),
					errmsg("shard \"%s\" cannot be taken out of map \"%s\"",
						   NameStr(shard->name), NameStr(map->name)),
					errdetail("A shardlet is being moved from or to it: see move %lld in shardlet.moves.",
							  (long long) move),
					errhint("Wait for it, or stop it with CALL shardlet.cancel_move(%lld).", (long long) move));
		sl_map_shard_delete(map->id, shard->id);
	}
}

/* alter_map(map, add_shards, drop_shards) */
Datum
shardlet_alter_map(PG_FUNCTION_ARGS)
{
	char	   *name;
	List	   *added;
	List	   *dropped;
	SlMap	   *map;

	sl_check_writable("shardlet.alter_map()");
	name = sl_map_arg_name(fcinfo, 0, "map");
	(void) sl_map_get(name);
	added = PG_ARGISNULL(1) ? NIL : sl_map_arg_shards(fcinfo, 1);
	dropped = PG_ARGISNULL(2) ? NIL : sl_map_arg_shards(fcinfo, 2);
	lock_shards(added);
	lock_shards(dropped);
	map = sl_map_open_for_change(name);
	if (added == NIL && dropped == NIL)
		PG_RETURN_VOID();
	drop_shards(map, dropped);
	add_shards(map, added);
	sl_map_finish_change(map);
	PG_RETURN_VOID();
}

static void
refuse_used(const SlMap *map)
{
	List	   *names = sl_table_names_of(map, NULL);

	if (names == NIL)
		return;
	ereport(ERROR,
			errcode(SL_ERR_INVALID),
			errmsg("map \"%s\" is in use", NameStr(map->name)),
			errdetail("Tables belong to it: %s.", sl_table_list_names(names)),
			errhint("shardlet.undistribute() or shardlet.detach() the tables first."));
}

/* drop_map(map) */
Datum
shardlet_drop_map(PG_FUNCTION_ARGS)
{
	SlMap	   *map;

	sl_check_writable("shardlet.drop_map()");
	map = sl_map_open_at_rest(sl_map_arg_name(fcinfo, 0, "map"));
	refuse_used(map);
	sl_map_announce_drop(map);
	sl_map_row_delete(map->id);
	PG_RETURN_VOID();
}
