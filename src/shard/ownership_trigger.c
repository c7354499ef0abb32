/*
 * ownership_trigger.c
 *		The guard trigger on a shard's tables, and assert_owner().
 *
 * AFTER ROW: other triggers may still change the key before, stored generated
 * keys are not known earlier, and COPY keeps inserting many rows at a time.
 * An error takes the row back.  DELETE is guarded, too: one that waited while
 * the shardlet was moved away would delete the stale copy only.
 *
 * The trigger's arguments are the map and the key's columns, by name, because
 * partitions can have other attribute numbers.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "shard/shard.h"

PG_FUNCTION_INFO_V1(shardlet_guard);
PG_FUNCTION_INFO_V1(shardlet_guard_reference);
PG_FUNCTION_INFO_V1(shardlet_assert_owner);
PG_FUNCTION_INFO_V1(shardlet_guard_hold);

/* State of a trigger, for one statement on one relation. */
typedef struct GuardState
{
	SlGuardMap *map;
	uint64		load;			/* of the map that the rest was made for */
	int			key_count;
	AttrNumber	columns[SL_MAX_KEYS];
	SlCoercion	coercions[SL_MAX_KEYS];
} GuardState;

pg_noreturn static void
refuse_arguments(const TriggerData *data)
{
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("guard of table \"%s\" does not fit the table",
				   RelationGetRelationName(data->tg_relation)),
			errhint("Use shardlet.attach() on the router to create it again."));
}

/* Finds the key's columns, and the coercions to the map's key types. */
static void
prepare_state(GuardState *state, const TriggerData *data, MemoryContext context)
{
	Trigger    *trigger = data->tg_trigger;
	TupleDesc	descriptor = RelationGetDescr(data->tg_relation);
	SlGuardMap *map = state->map;

	state->key_count = trigger->tgnargs - 1;
	if (map->is_known && map->key_count != state->key_count)
		refuse_arguments(data);
	for (int i = 0; map->is_known && i < state->key_count; i++)
	{
		int			column = SPI_fnumber(descriptor, trigger->tgargs[i + 1]);

		if (column <= 0)
			refuse_arguments(data);
		state->columns[i] = (AttrNumber) column;
		sl_coercion_init(&state->coercions[i], TupleDescAttr(descriptor, column - 1)->atttypid,
						 &map->key_types[i], "key", context);
	}
	state->load = map->load;
}

static GuardState *
get_state(FunctionCallInfo fcinfo, const TriggerData *data)
{
	GuardState *state = fcinfo->flinfo->fn_extra;

	if (state == NULL)
	{
		state = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(GuardState));
		state->map = sl_guard_map_get(data->tg_trigger->tgargs[0]);
		fcinfo->flinfo->fn_extra = state;
	}
	else if (!state->map->is_current)
		sl_guard_map_refresh(state->map);
	if (state->load != state->map->load)
		prepare_state(state, data, fcinfo->flinfo->fn_mcxt);
	return state;
}

static void
read_key(GuardState *state, TupleTableSlot *slot, Datum *key)
{
	for (int i = 0; i < state->key_count; i++)
	{
		bool		is_null;

		key[i] = slot_getattr(slot, state->columns[i], &is_null);
		if (is_null)
			sl_key_refuse_null();
		key[i] = sl_coercion_apply(&state->coercions[i], key[i]);
	}
}

static bool
same_key(const GuardState *state, const Datum *a, const Datum *b)
{
	for (int i = 0; i < state->key_count; i++)
	{
		const SlKeyType *type = &state->map->key_types[i];

		if (!datum_image_eq(a[i], b[i], type->by_value, type->length))
			return false;
	}
	return true;
}

/* Is the column's value TOASTed and unchanged by the UPDATE? */
static bool
is_left_in_place(const TriggerData *data, AttrNumber column)
{
	bool		is_null;
	bool		was_null;
	struct varlena *value = (struct varlena *) DatumGetPointer(slot_getattr(data->tg_newslot, column, &is_null));
	struct varlena *old_value = (struct varlena *) DatumGetPointer(slot_getattr(data->tg_trigslot, column, &was_null));

	return !is_null && !was_null && VARATT_IS_EXTERNAL_ONDISK(value) && VARATT_IS_EXTERNAL_ONDISK(old_value) &&
		memcmp(value, old_value, VARSIZE_EXTERNAL(value)) == 0;
}

/*
 * A row is updated into a shardlet that is being moved online.  The other
 * shard gets it as a new row, and logical replication does not send unchanged
 * TOAST values of new rows: these would be NULL there.  With REPLICA IDENTITY
 * FULL they are taken from the old row; generated ones are computed there.
 */
static void
check_arrival(const TriggerData *data, const SlGuardMap *map, int64 shardlet)
{
	TupleDesc	descriptor = RelationGetDescr(data->tg_relation);

	if (data->tg_relation->rd_rel->relreplident == REPLICA_IDENTITY_FULL)
		return;
	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, i);

		if (column->attisdropped || column->attgenerated != '\0' || column->attlen != -1 ||
			!is_left_in_place(data, column->attnum))
			continue;
		ereport(ERROR,
				errcode(SL_ERR_READ_ONLY),
				errmsg("row of table \"%s\" cannot get a key of shardlet %lld now",
					   RelationGetRelationName(data->tg_relation), (long long) shardlet),
				errdetail("The shardlet of map \"%s\" is being moved, and column \"%s\" of the row, which is stored out of line, would be lost.",
						  NameStr(map->name), NameStr(column->attname)),
				errhint("Change the key through the router, or wait for the end of the move."),
				errtablecol(data->tg_relation, column->attnum));
	}
}

/* Checks the old row and the new one: this shard must own both keys. */
static void
check_rows(GuardState *state, const TriggerData *data)
{
	Datum		key[SL_MAX_KEYS] = {0};
	Datum		new_key[SL_MAX_KEYS] = {0};
	const SlGuardEntry *entry;
	int64		shardlet;

	if (!state->map->is_known)
	{
		(void) sl_guard_claim(state->map, key, true);
		return;
	}
	read_key(state, data->tg_trigslot, key);
	shardlet = sl_guard_claim(state->map, key, true)->id;
	if (!TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		return;
	read_key(state, data->tg_newslot, new_key);
	if (same_key(state, key, new_key))
		return;
	entry = sl_guard_claim(state->map, new_key, true);
	if (entry->state == SL_STATE_MOVING && entry->id != shardlet)
		check_arrival(data, state->map, entry->id);
}

/* guard(map, column, ...): the trigger of sharded tables */
Datum
shardlet_guard(PG_FUNCTION_ARGS)
{
	const TriggerData *data = (const TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				errmsg(SL_INTERNAL_SCHEMA ".guard() must be called as a trigger"));
	if (data->tg_trigger->tgnargs < 1 || data->tg_trigger->tgnargs > SL_MAX_KEYS + 1)
		refuse_arguments(data);
	if (TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		sl_guard_claim_all(sl_guard_map_get(data->tg_trigger->tgargs[0]));
	else if (TRIGGER_FIRED_AFTER(data->tg_event) && TRIGGER_FIRED_FOR_ROW(data->tg_event))
		check_rows(get_state(fcinfo, data), data);
	else
		refuse_arguments(data);
	return PointerGetDatum(NULL);
}

/* guard_reference(): the trigger of reference tables, for each statement */
Datum
shardlet_guard_reference(PG_FUNCTION_ARGS)
{
	const TriggerData *data = (const TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				errmsg(SL_INTERNAL_SCHEMA ".guard_reference() must be called as a trigger"));
	if (!sl_router)
		ereport(ERROR,
				errcode(SL_ERR_READ_ONLY),
				errmsg("table \"%s\" is a reference table",
					   RelationGetRelationName(data->tg_relation)),
				errdetail("This is a copy, which changes together with those on all other shards."),
				errhint("Change the table on the router."));
	return PointerGetDatum(NULL);
}

/* assert_owner(map, VARIADIC key) */
Datum
shardlet_assert_owner(PG_FUNCTION_ARGS)
{
	SlGuardMap *map;
	SlKeyArgs	args;
	Datum		key[SL_MAX_KEYS] = {0};
	SlCoercion	coercion;
	char	   *name;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("map must not be NULL"));
	name = sl_check_name(PG_GETARG_DATUM(0), "map");
	sl_key_check_collation(PG_GET_COLLATION());
	sl_key_args_get(fcinfo, 1, &args);
	map = sl_guard_map_get_known(name);
	if (map == NULL)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("this shard does not know map \"%s\"", name),
				errhint("View shardlet.owned lists what this shard owns."));
	if (args.count != map->key_count)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("key of map \"%s\" has %d columns, not %d", name, map->key_count, args.count));
	for (int i = 0; i < args.count; i++)
	{
		if (args.nulls[i])
			sl_key_refuse_null();
		sl_coercion_init(&coercion, args.types[i], &map->key_types[i],
						 psprintf("key of map \"%s\"", name), CurrentMemoryContext);
		key[i] = sl_coercion_apply(&coercion, args.values[i]);
	}
	PG_RETURN_INT64(sl_guard_claim(map, key, false)->id);
}

/* guard_hold(map, version) */
Datum
shardlet_guard_hold(PG_FUNCTION_ARGS)
{
	SlGuardMap *map = sl_guard_map_get_known(NameStr(*PG_GETARG_NAME(0)));
	int64		version = PG_GETARG_INT64(1);

	if (map == NULL)
		PG_RETURN_VOID();
	sl_guard_claim_map(map);
	if (map->is_known && map->version > version)
		ereport(ERROR,
				errcode(SL_ERR_NOT_OWNER),
				errmsg("map \"%s\" has changed", NameStr(map->name)),
				errdetail_internal("map \"%s\" version %lld: request was for version %lld",
								   NameStr(map->name), (long long) map->version,
								   (long long) version));
	PG_RETURN_VOID();
}
