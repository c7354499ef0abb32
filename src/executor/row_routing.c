/*
 * row_routing.c
 *		From a row of a table to the shard that it belongs to.
 *
 * The map is the one that the statement began with; if it changes meanwhile,
 * the shard's guard refuses what it does not own.
 */
#include "postgres.h"

#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/base.h"
#include "executor/row_routing.h"

/* Fails if the shard takes no writes. */
void
sl_row_check_shard(const SlShard *shard)
{
	if (!shard->exists || shard->state == SL_STATE_OFFLINE || shard->state == SL_STATE_READ_ONLY)
	{
		bool		is_read_only = shard->exists && shard->state == SL_STATE_READ_ONLY;

		ereport(ERROR,
				errcode(is_read_only ? SL_ERR_READ_ONLY : SL_ERR_UNREACHABLE),
				errmsg("shard \"%s\" is %s", NameStr(shard->name),
					   is_read_only ? "read-only" : "offline"),
				errhint("shardlet.alter_shard('%s', state => 'online') brings it back.",
						NameStr(shard->name)));
	}
}

static void
check_writable(const SlMap *map, const SlShardlet *shardlet)
{
	sl_map_check_readable(map, shardlet);
	sl_row_check_shard(shardlet->shard);
	if (shardlet->state == SL_STATE_READ_ONLY)
		ereport(ERROR,
				errcode(SL_ERR_READ_ONLY),
				errmsg("shardlet %lld of map \"%s\" is read-only",
					   (long long) shardlet->id, NameStr(map->name)),
				errhint("shardlet.alter_shardlet(%lld, state => 'online') brings it back.",
						(long long) shardlet->id));
}

static void
check_key_count(const SlRowRoute *route)
{
	if (route->table->key_count == route->map->key_count)
		return;
	ereport(ERROR,
			errcode(SL_ERR_INVALID),
			errmsg("key of table \"%s\" does not fit map \"%s\"",
				   RelationGetRelationName(route->relation), NameStr(route->map->name)),
			errdetail("The table's key has %d columns, and the map's has %d.",
					  route->table->key_count, route->map->key_count));
}

static void
init_coercions(SlRowRoute *route)
{
	TupleDesc	descriptor = RelationGetDescr(route->relation);

	check_key_count(route);
	for (int i = 0; i < route->table->key_count; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, route->table->key[i] - 1);

		sl_coercion_init(&route->coercions[i], getBaseType(attribute->atttypid),
						 &route->map->key_types[i], sl_map_key_label(route->map),
						 CurrentMemoryContext);
	}
}

/* Prepares to route rows of a table; it stays open as long as that is needed. */
void
sl_row_route_init(SlRowRoute *route, Relation relation)
{
	memset(route, 0, sizeof(SlRowRoute));
	route->relation = relation;
	route->table = sl_table_get(RelationGetRelid(relation));
	if (route->table == NULL || route->table->kind == SL_TABLE_REFERENCE)
		ereport(ERROR,
				errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("foreign table \"%s\" belongs to no map and no shard",
					   RelationGetRelationName(relation)),
				errhint("Tables on servers of this wrapper are made by functions of schema shardlet."));
	route->work = AllocSetContextCreate(CurrentMemoryContext, "shardlet key",
										ALLOCSET_SMALL_SIZES);
	if (route->table->kind == SL_TABLE_PLACED)
	{
		route->shard = linitial(sl_table_owners(route->table));
		sl_row_check_shard(route->shard);
		return;
	}
	route->map = sl_map_get(route->table->map);
	if (route->map->kind != SL_KIND_SPREAD)
		init_coercions(route);
}

/* The words are PostgreSQL's own: applications know them. */
static void
refuse_null(const SlRowRoute *route, int key)
{
	AttrNumber	column = route->table->key[key];
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(route->relation), column - 1);

	ereport(ERROR,
			errcode(ERRCODE_NOT_NULL_VIOLATION),
			errmsg("null value in column \"%s\" of relation \"%s\" violates not-null constraint",
				   NameStr(attribute->attname), RelationGetRelationName(route->relation)),
			errdetail("The column is part of the key by which rows find their shard."),
			errtablecol(route->relation, column));
}

/* Returns the shard for a key, in the types of the table's columns. */
SlShard *
sl_row_route_key(SlRowRoute *route, const Datum *values, const bool *nulls)
{
	MemoryContext old_context;
	const SlShardlet *shardlet;
	Datum		key[SL_MAX_KEYS] = {0};
	SlShard    *shard;

	if (route->map == NULL)
		return route->shard;
	if (route->map->kind == SL_KIND_SPREAD)
		return sl_map_next_slot(route->map)->shard;
	old_context = MemoryContextSwitchTo(route->work);
	for (int i = 0; i < route->table->key_count; i++)
	{
		if (nulls[i])
			refuse_null(route, i);
		key[i] = sl_coercion_apply(&route->coercions[i], values[i]);
	}
	shardlet = sl_map_lookup(route->map, key);
	check_writable(route->map, shardlet);
	shard = shardlet->shard;
	MemoryContextSwitchTo(old_context);
	MemoryContextReset(route->work);
	return shard;
}

/* Returns the shard that a row belongs to, which must take writes. */
SlShard *
sl_row_route(SlRowRoute *route, TupleTableSlot *slot)
{
	Datum		values[SL_MAX_KEYS] = {0};
	bool		nulls[SL_MAX_KEYS] = {0};

	for (int i = 0; i < route->table->key_count; i++)
		values[i] = slot_getattr(slot, route->table->key[i], &nulls[i]);
	return sl_row_route_key(route, values, nulls);
}
