/*
 * route.c
 *		token, token_sql, route, route_many, locate: what applications that
 *		route themselves call.
 *
 * A call site keeps what it found out (the map, how to coerce the arguments)
 * in fn_extra, so that a call costs little more than the hash and the binary
 * search.  None of these writes anything: they work in read-only transactions
 * and on a standby.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "metadata/map.h"

PG_FUNCTION_INFO_V1(shardlet_token);
PG_FUNCTION_INFO_V1(shardlet_token_sql);
PG_FUNCTION_INFO_V1(shardlet_route);
PG_FUNCTION_INFO_V1(shardlet_route_next);
PG_FUNCTION_INFO_V1(shardlet_route_many);
PG_FUNCTION_INFO_V1(shardlet_locate);
PG_FUNCTION_INFO_V1(shardlet_map_json);
PG_FUNCTION_INFO_V1(shardlet_client_address);

/* token() ----------------------------------------------------------------- */

typedef struct TokenCall
{
	int			count;
	Oid			types[SL_MAX_KEYS];
	SlKeyType	key_types[SL_MAX_KEYS];
} TokenCall;

/* A literal without a type is text, as everywhere in PostgreSQL. */
static void
resolve_unknown(SlKeyArgs *args)
{
	for (int i = 0; i < args->count; i++)
	{
		if (args->types[i] != UNKNOWNOID)
			continue;
		args->types[i] = TEXTOID;
		if (!args->nulls[i])
			args->values[i] = CStringGetTextDatum(DatumGetCString(args->values[i]));
	}
}

static TokenCall *
prepare_token(FunctionCallInfo fcinfo, const SlKeyArgs *args)
{
	TokenCall  *call = fcinfo->flinfo->fn_extra;

	if (call != NULL && call->count == args->count &&
		memcmp(call->types, args->types, sizeof(Oid) * args->count) == 0)
		return call;
	sl_key_check_collation(PG_GET_COLLATION());
	call = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(TokenCall));
	for (int i = 0; i < args->count; i++)
	{
		sl_key_check_type(args->types[i], SL_KEY_HASHED);
		sl_key_type_init(&call->key_types[i], args->types[i], fcinfo->flinfo->fn_mcxt);
		call->types[i] = args->types[i];
	}
	call->count = args->count;
	fcinfo->flinfo->fn_extra = call;
	return call;
}

/* token(VARIADIC key) */
Datum
shardlet_token(PG_FUNCTION_ARGS)
{
	SlKeyArgs	args;
	TokenCall  *call;

	sl_key_args_get(fcinfo, 0, &args);
	if (args.count == 0)
		sl_key_refuse_null();
	resolve_unknown(&args);
	for (int i = 0; i < args.count; i++)
	{
		if (args.nulls[i])
			sl_key_refuse_null();
	}
	call = prepare_token(fcinfo, &args);
	PG_RETURN_INT64(sl_key_token(call->key_types, args.count, args.values));
}

/* token_sql(map, VARIADIC columns) */
Datum
shardlet_token_sql(PG_FUNCTION_ARGS)
{
	SlMap	   *map = sl_map_get(sl_map_arg_name(fcinfo, 0, "map"));
	Datum	   *names;
	bool	   *nulls;
	int			count;
	char	   *columns[SL_MAX_KEYS];

	if (PG_ARGISNULL(1))
		sl_key_refuse_null();
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), NAMEOID, NAMEDATALEN, false,
					  TYPALIGN_CHAR, &names, &nulls, &count);
	sl_map_check_key_count(map, count, map->key_count);
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			sl_key_refuse_null();
		columns[i] = pstrdup(quote_identifier(sl_check_name(names[i], "column")));
	}
	PG_RETURN_TEXT_P(cstring_to_text(sl_key_token_sql(map->key_oids, count, columns)));
}

/* route(), locate() ------------------------------------------------------- */

typedef struct RouteCall
{
	SlMap	   *map;
	uint64		load;			/* of the map, when coercions were prepared */
	MemoryContext context;		/* of the coercions */
	int			count;
	SlCoercion	coercions[SL_MAX_KEYS];
} RouteCall;

static void
prepare_route(FunctionCallInfo fcinfo, RouteCall *call, const SlKeyArgs *args)
{
	SlMap	   *map = call->map;
	Datum		unused[SL_MAX_KEYS];

	/* This checks the number of columns, and gives the errors. */
	sl_map_coerce_key(map, false, args, unused);
	sl_key_check_collation(PG_GET_COLLATION());
	MemoryContextReset(call->context);
	for (int i = 0; i < args->count; i++)
		sl_coercion_init(&call->coercions[i], args->types[i], &map->key_types[i],
						 "key", call->context);
	call->count = args->count;
	call->load = map->load;
}

static RouteCall *
open_route(FunctionCallInfo fcinfo)
{
	RouteCall  *call = fcinfo->flinfo->fn_extra;
	char	   *name = sl_map_arg_name(fcinfo, 0, "map");

	if (call == NULL)
	{
		call = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(RouteCall));
		call->context = AllocSetContextCreate(fcinfo->flinfo->fn_mcxt,
											  "shardlet route call",
											  ALLOCSET_SMALL_SIZES);
		fcinfo->flinfo->fn_extra = call;
	}
	if (call->map != NULL && strcmp(NameStr(call->map->name), name) == 0)
		sl_map_refresh(call->map);
	if (call->map == NULL || call->map->id == 0 ||
		strcmp(NameStr(call->map->name), name) != 0)
	{
		call->load = 0;
		call->map = sl_map_get(name);
	}
	return call;
}

/* Finds the shardlet of the key that the function was called with. */
static const SlShardlet *
find_shardlet(FunctionCallInfo fcinfo, RouteCall *call, Datum *key)
{
	SlKeyArgs	args;

	sl_key_args_get(fcinfo, 1, &args);
	if (call->load != call->map->load || call->count != args.count)
		prepare_route(fcinfo, call, &args);
	for (int i = 0; i < args.count; i++)
	{
		if (args.nulls[i])
			sl_key_refuse_null();
		key[i] = sl_coercion_apply(&call->coercions[i], args.values[i]);
	}
	return sl_map_lookup(call->map, key);
}

/* route(map, VARIADIC key) */
Datum
shardlet_route(PG_FUNCTION_ARGS)
{
	RouteCall  *call = open_route(fcinfo);
	Datum		key[SL_MAX_KEYS];
	const SlShardlet *shardlet = find_shardlet(fcinfo, call, key);

	sl_map_check_readable(call->map, shardlet);
	PG_RETURN_NAME(&shardlet->shard->name);
}

/* route(map): the next shard of a spread map */
Datum
shardlet_route_next(PG_FUNCTION_ARGS)
{
	SlMap	   *map = sl_map_get(sl_map_arg_name(fcinfo, 0, "map"));

	if (map->kind != SL_KIND_SPREAD)
		sl_map_check_key_count(map, 0, map->key_count);
	PG_RETURN_NAME(&sl_map_next_slot(map)->shard->name);
}

/* What counts is the state that allows less, the shard's or the shardlet's. */
static SlState
effective_state(const SlShardlet *shardlet)
{
	SlState		shard_state = shardlet->shard->exists ? shardlet->shard->state :
	SL_STATE_OFFLINE;

	if (shard_state == SL_STATE_OFFLINE || shardlet->state == SL_STATE_OFFLINE)
		return SL_STATE_OFFLINE;
	return shard_state == SL_STATE_READ_ONLY ? SL_STATE_READ_ONLY : shardlet->state;
}

static void
set_text(Datum *value, bool *is_null, const char *string)
{
	*is_null = string == NULL;
	*value = string ? CStringGetTextDatum(string) : (Datum) 0;
}

enum
{
	LOCATE_SHARDLET, LOCATE_SHARD, LOCATE_TOKEN, LOCATE_STATE, LOCATE_VERSION,
	LOCATE_MAP_VERSION, LOCATE_HOST, LOCATE_PORT, LOCATE_DBNAME, LOCATE_COLUMNS
};

/*
 * locate(map, VARIADIC key).  Unlike route() it also answers for a shard that
 * is offline, and says so.
 */
Datum
shardlet_locate(PG_FUNCTION_ARGS)
{
	RouteCall  *call = open_route(fcinfo);
	Datum		key[SL_MAX_KEYS];
	const SlShardlet *shardlet = find_shardlet(fcinfo, call, key);
	const SlShard *shard = shardlet->shard;
	SlMap	   *map = call->map;
	Datum		values[LOCATE_COLUMNS];
	bool		nulls[LOCATE_COLUMNS] = {0};
	TupleDesc	descriptor;

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[LOCATE_SHARDLET] = Int64GetDatum(shardlet->id);
	values[LOCATE_SHARD] = NameGetDatum(&shard->name);
	values[LOCATE_TOKEN] = Int64GetDatum(sl_key_token(map->key_types, map->key_count, key));
	values[LOCATE_STATE] = CStringGetTextDatum(sl_state_name(effective_state(shardlet)));
	values[LOCATE_VERSION] = Int64GetDatum(shardlet->version);
	values[LOCATE_MAP_VERSION] = Int64GetDatum(Max(map->version, shardlet->version));
	set_text(&values[LOCATE_HOST], &nulls[LOCATE_HOST], shard->host);
	set_text(&values[LOCATE_PORT], &nulls[LOCATE_PORT], shard->port);
	set_text(&values[LOCATE_DBNAME], &nulls[LOCATE_DBNAME], shard->dbname);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor),
													  values, nulls)));
}

/* route_many(map, keys) */
Datum
shardlet_route_many(PG_FUNCTION_ARGS)
{
	SlMap	   *map = sl_map_get(sl_map_arg_name(fcinfo, 0, "map"));
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SlKeyArray	keys;

	InitMaterializedSRF(fcinfo, 0);
	sl_key_check_collation(PG_GET_COLLATION());
	if (PG_ARGISNULL(1))
		sl_key_refuse_null();
	sl_map_key_array_open(&keys, map, false, PG_GETARG_ARRAYTYPE_P(1));
	for (int i = 0; i < keys.count; i++)
	{
		Datum		key[SL_MAX_KEYS];
		const SlShardlet *shardlet;
		Datum		values[3];
		bool		nulls[3] = {0};

		sl_map_key_array_get(&keys, i, key);
		shardlet = sl_map_lookup(map, key);
		sl_map_check_readable(map, shardlet);
		values[0] = Int32GetDatum(i + 1);
		values[1] = NameGetDatum(&shardlet->shard->name);
		values[2] = Int64GetDatum(shardlet->id);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * map_json(map): one statement over the views, so that everything in it comes
 * from one snapshot.
 */
Datum
shardlet_map_json(PG_FUNCTION_ARGS)
{
	char	   *name = sl_map_arg_name(fcinfo, 0, "map");
	Oid			types[] = {NAMEOID};
	Datum		arguments[] = {CStringGetDatum(name)};
	MemoryContext caller = CurrentMemoryContext;
	Datum		result = (Datum) 0;
	bool		is_null;

	SPI_connect();
	if (SPI_execute_with_args("SELECT document FROM shardlet.map_documents WHERE map OPERATOR(pg_catalog.=) $1",
							  1, types, arguments, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read map \"%s\"", name);
	if (SPI_processed == 0)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("map \"%s\" does not exist", name),
				errhint("View shardlet.maps lists the maps."));
	result = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null);
	{
		MemoryContext old_context = MemoryContextSwitchTo(caller);

		result = PointerGetDatum(PG_DETOAST_DATUM_COPY(result));
		MemoryContextSwitchTo(old_context);
	}
	SPI_finish();
	PG_RETURN_DATUM(result);
}

/* client_address(client_address, host, port, dbname) */
Datum
shardlet_client_address(PG_FUNCTION_ARGS)
{
	TupleDesc	descriptor;
	Datum		values[3];
	bool		nulls[3];
	char	   *told[3] = {NULL, NULL, NULL};

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!PG_ARGISNULL(0))
		sl_option_parse_address(text_to_cstring(PG_GETARG_TEXT_PP(0)),
								&told[0], &told[1], &told[2]);
	for (int i = 0; i < 3; i++)
	{
		if (told[i] == NULL && !PG_ARGISNULL(i + 1))
			told[i] = text_to_cstring(PG_GETARG_TEXT_PP(i + 1));
		set_text(&values[i], &nulls[i], told[i]);
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor),
													  values, nulls)));
}
