/*
 * fanout_funcs.c
 *		query, query_key, missing_shards as functions.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "fanout/fanout.h"

PG_FUNCTION_INFO_V1(shardlet_query);
PG_FUNCTION_INFO_V1(shardlet_query_key);
PG_FUNCTION_INFO_V1(shardlet_missing_shards);

/* Is this query() or query_key()?  By name: the schema is ours. */
static bool
is_ours(Oid function, const char *name)
{
	char	   *found = get_func_name(function);

	return found != NULL && strcmp(found, name) == 0 &&
		get_func_namespace(function) == get_namespace_oid(SL_WRAPPER_NAME, true);
}

bool
sl_call_is_key(Oid function)
{
	return is_ours(function, "query_key");
}

bool
sl_call_is_query(Oid function)
{
	return is_ours(function, "query") || sl_call_is_key(function);
}

/* Puts all rows of a call into the result's tuplestore. */
static void
materialize(FunctionCallInfo fcinfo, bool is_key)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SlCall		call = {0};
	SlFanout   *fanout;
	TupleTableSlot *slot;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	call.is_key = is_key;
	call.is_variadic = get_fn_expr_variadic(fcinfo->flinfo);
	call.count = PG_NARGS();
	call.values = palloc(sizeof(Datum) * call.count);
	call.nulls = palloc(sizeof(bool) * call.count);
	call.types = palloc(sizeof(Oid) * call.count);
	for (int i = 0; i < call.count; i++)
	{
		call.nulls[i] = PG_ARGISNULL(i);
		call.values[i] = call.nulls[i] ? (Datum) 0 : PG_GETARG_DATUM(i);
		call.types[i] = get_fn_expr_argtype(fcinfo->flinfo, i);
	}
	fanout = sl_call_begin(&call, result->setDesc);
	slot = MakeSingleTupleTableSlot(result->setDesc, &TTSOpsVirtual);
	while (sl_fanout_next(fanout, slot))
		tuplestore_puttupleslot(result->setResult, slot);
	ExecDropSingleTupleTableSlot(slot);
}

/* query(map, sql, params, shards, on_error, per_shard) */
Datum
shardlet_query(PG_FUNCTION_ARGS)
{
	materialize(fcinfo, false);
	return (Datum) 0;
}

/* query_key(map, sql, params, VARIADIC key) */
Datum
shardlet_query_key(PG_FUNCTION_ARGS)
{
	materialize(fcinfo, true);
	return (Datum) 0;
}

/* missing_shards(): the shards that the last statement did without */
Datum
shardlet_missing_shards(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	foreach(cell, sl_fanout_missing())
	{
		NameData	name;
		Datum		value;
		bool		is_null = false;

		namestrcpy(&name, lfirst(cell));
		value = NameGetDatum(&name);
		tuplestore_putvalues(result->setResult, result->setDesc, &value, &is_null);
	}
	return (Datum) 0;
}
