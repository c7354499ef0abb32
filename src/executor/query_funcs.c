/*
 * query_funcs.c
 *		query, query_key, missing_shards as functions.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "compat.h"
#include "executor/multi_shard.h"

PG_FUNCTION_INFO_V1(shardlet_query);
PG_FUNCTION_INFO_V1(shardlet_query_key);
PG_FUNCTION_INFO_V1(shardlet_missing_shards);

static bool
has_arguments(Form_pg_proc form, const Oid *types, int count)
{
	return form->pronargs == count &&
		memcmp(form->proargtypes.values, types, sizeof(Oid) * count) == 0;
}

/*
 * Returns which of shardlet's functions this is.  Any user may create one of the
 * same name, even in a schema of the same name where the extension is not installed;
 * but only a superuser creates one of this library.  One that was altered, to run as
 * its owner or with settings of its own, is left to PostgreSQL.
 */
SlCallKind
sl_query_call_kind(Oid function)
{
	static const Oid query[] = {NAMEOID, TEXTOID, TEXTARRAYOID, NAMEARRAYOID, TEXTOID, BOOLOID};
	static const Oid query_key[] = {NAMEOID, TEXTOID, TEXTARRAYOID, ANYOID};
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	SlCallKind	kind = SL_CALL_OTHER;
	Form_pg_proc form;
	bool		is_null;
	char	   *symbol;

	if (!HeapTupleIsValid(tuple))
		return SL_CALL_OTHER;
	form = (Form_pg_proc) GETSTRUCT(tuple);
	if (form->prolang == ClanguageId && form->proretset && form->prorettype == RECORDOID &&
		!form->prosecdef && heap_attisnull(tuple, Anum_pg_proc_proconfig, NULL))
	{
		symbol = TextDatumGetCString(SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc,
													 &is_null));

		if (strcmp(symbol, "shardlet_query") == 0 &&
			has_arguments(form, query, lengthof(query)))
			kind = SL_CALL_QUERY;
		else if (strcmp(symbol, "shardlet_query_key") == 0 &&
				 has_arguments(form, query_key, lengthof(query_key)))
			kind = SL_CALL_KEY;
	}
	ReleaseSysCache(tuple);
	return kind;
}

/* Puts all rows of a call into the result's tuplestore. */
static void
materialize_call(FunctionCallInfo fcinfo, bool is_key)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SlCall		call = {0};
	SlMultiShardScan *multi = NULL;
	TupleTableSlot *slot;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	call.is_key = is_key;
	call.caller.transaction = GetCurrentSubTransactionId();
	call.caller.user = GetUserId();
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
	slot = MakeSingleTupleTableSlot(result->setDesc, &TTSOpsVirtual);
	do
	{
		call.may_restart = multi == NULL;
		multi = sl_query_call_begin(&call, result->setDesc);
		while (sl_multi_shard_next(multi, slot))
			tuplestore_puttupleslot(result->setResult, slot);
	} while (sl_multi_shard_is_outdated(multi));
	ExecDropSingleTupleTableSlot(slot);
}

/* query(map, sql, params, shards, on_error, per_shard) */
Datum
shardlet_query(PG_FUNCTION_ARGS)
{
	materialize_call(fcinfo, false);
	return (Datum) 0;
}

/* query_key(map, sql, params, VARIADIC key) */
Datum
shardlet_query_key(PG_FUNCTION_ARGS)
{
	materialize_call(fcinfo, true);
	return (Datum) 0;
}

/* missing_shards(): the shards that the last statement did without */
Datum
shardlet_missing_shards(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	foreach(cell, sl_missing_shards())
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
