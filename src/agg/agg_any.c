/*
 * agg_any.c
 *		The state of any aggregate: runs on shards.
 *
 * state_of(NULL::type, 'aggregate(...)', arguments ...) runs the transition function
 * of an aggregate, as PostgreSQL does, and returns the state instead of a result:
 * as a value of its type, or as bytea if it is "internal", written by the aggregate's
 * own function for that.  The first argument only says which of these is expected.
 *
 * Whoever calls it could call the aggregate as well: the same privileges and the same
 * types of arguments are needed.  States live in the context of the aggregate that is
 * computed; what is known of the aggregate, beside the call.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "parser/parse_agg.h"
#include "parser/parse_coerce.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "agg/agg.h"
#include "compat.h"

/* Arguments: the state, the type, the aggregate, and then its own. */
#define TYPE_ARG 1
#define AGGREGATE_ARG 2
#define FIRST_ARG 3

PG_FUNCTION_INFO_V1(shardlet_state_step);
PG_FUNCTION_INFO_V1(shardlet_state_end);

/* What is known of an aggregate; in fn_extra. */
typedef struct Inner
{
	Oid			oid;
	FormData_pg_aggregate form;
	Oid			owner;
	int			arg_count;
	Oid			arg_types[FUNC_MAX_ARGS];
	Oid			state_type;
	int16		length;
	bool		by_value;
	Datum		initial;
	bool		initial_is_null;
	FmgrInfo	function;		/* transition, or what writes the state */
	FunctionCallInfo call;
} Inner;

/* The state of one group. */
typedef struct State
{
	Datum		value;
	bool		is_null;
	bool		is_empty;		/* the first value becomes the state */
} State;

/* What is known ------------------------------------------------------------------------ */

static void
refuse(Oid aggregate, const char *reason)
{
	ereport(ERROR,
			errcode(ERRCODE_WRONG_OBJECT_TYPE),
			errmsg("state of %s cannot be told", format_procedure(aggregate)),
			errdetail_internal("%s", reason));
}

static void
check_execute(Oid function, Oid role)
{
	if (sl_function_aclcheck(function, role) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, get_func_name(function));
}

/* The types of its arguments here; what it declares must fit them. */
static void
read_types(Inner *inner, FunctionCallInfo fcinfo)
{
	HeapTuple	row = SearchSysCache1(PROCOID, ObjectIdGetDatum(inner->oid));
	Form_pg_proc function;
	Oid			declared[FUNC_MAX_ARGS];

	if (!HeapTupleIsValid(row))
		elog(ERROR, "cache lookup failed for function %u", inner->oid);
	function = (Form_pg_proc) GETSTRUCT(row);
	inner->owner = function->proowner;
	inner->arg_count = PG_NARGS() - FIRST_ARG;
	if (function->pronargs != inner->arg_count || OidIsValid(function->provariadic))
		refuse(inner->oid, "It has other arguments.");
	memcpy(declared, function->proargtypes.values, sizeof(Oid) * inner->arg_count);
	for (int i = 0; i < inner->arg_count; i++)
		inner->arg_types[i] = get_fn_expr_argtype(fcinfo->flinfo, FIRST_ARG + i);
	(void) enforce_generic_type_consistency(inner->arg_types, declared, inner->arg_count,
											function->prorettype, false);
	for (int i = 0; i < inner->arg_count; i++)
	{
		if (!IsBinaryCoercible(inner->arg_types[i], declared[i]))
			refuse(inner->oid, "Its arguments have other types.");
	}
	ReleaseSysCache(row);
}

static void
read_initial(Inner *inner, HeapTuple row)
{
	Datum		text_value = SysCacheGetAttr(AGGFNOID, row, Anum_pg_aggregate_agginitval,
											 &inner->initial_is_null);
	Oid			input;
	Oid			parameter;

	if (inner->initial_is_null)
		return;
	getTypeInputInfo(inner->state_type, &input, &parameter);
	inner->initial = OidInputFunctionCall(input, TextDatumGetCString(text_value), parameter, -1);
}

static void
check_result(const Inner *inner, FunctionCallInfo fcinfo)
{
	Oid			wanted = get_fn_expr_argtype(fcinfo->flinfo, TYPE_ARG);

	if (inner->state_type == INTERNALOID && !OidIsValid(inner->form.aggserialfn))
		refuse(inner->oid, "Its state cannot be written.");
	if (wanted != (inner->state_type == INTERNALOID ? BYTEAOID : inner->state_type))
		refuse(inner->oid, "Its state has another type.");
}

static Inner *
read_aggregate(FunctionCallInfo fcinfo, Oid aggregate)
{
	Inner	   *inner = palloc0(sizeof(Inner));
	HeapTuple	row = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));

	inner->oid = aggregate;
	if (!HeapTupleIsValid(row))
		refuse(aggregate, "It is not an aggregate.");
	memcpy(&inner->form, GETSTRUCT(row), sizeof(inner->form));
	if (inner->form.aggkind != AGGKIND_NORMAL)
		refuse(aggregate, "It is not a plain aggregate.");
	read_types(inner, fcinfo);
	check_execute(aggregate, GetUserId());
	inner->state_type = resolve_aggregate_transtype(aggregate, inner->form.aggtranstype,
													inner->arg_types, inner->arg_count);
	get_typlenbyval(inner->state_type, &inner->length, &inner->by_value);
	check_result(inner, fcinfo);
	read_initial(inner, row);
	ReleaseSysCache(row);
	return inner;
}

/* Prepares calls of one of the aggregate's functions. */
static void
prepare_call(Inner *inner, FunctionCallInfo fcinfo, Oid function, int arg_count)
{
	Expr	   *expression;

	check_execute(function, inner->owner);
	fmgr_info(function, &inner->function);
	if (function == inner->form.aggtransfn)
	{
		build_aggregate_transfn_expr(inner->arg_types, inner->arg_count, 0, false, inner->state_type,
									 PG_GET_COLLATION(), function, InvalidOid, &expression, NULL);
		fmgr_info_set_expr((Node *) expression, &inner->function);
	}
	inner->call = palloc0(SizeForFunctionCallInfo(arg_count));
	InitFunctionCallInfoData(*inner->call, &inner->function, arg_count, PG_GET_COLLATION(),
							 fcinfo->context, NULL);
}

/* What is known of the aggregate, read at the first call. */
static Inner *
find_aggregate(FunctionCallInfo fcinfo, Oid aggregate, bool is_end)
{
	Inner	   *inner = fcinfo->flinfo->fn_extra;
	MemoryContext caller;

	if (inner != NULL && inner->oid == aggregate)
		return inner;
	caller = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	inner = read_aggregate(fcinfo, aggregate);
	if (!is_end)
		prepare_call(inner, fcinfo, inner->form.aggtransfn, inner->arg_count + 1);
	else if (inner->state_type == INTERNALOID)
		prepare_call(inner, fcinfo, inner->form.aggserialfn, 1);
	MemoryContextSwitchTo(caller);
	fcinfo->flinfo->fn_extra = inner;
	return inner;
}

static MemoryContext
state_context(FunctionCallInfo fcinfo)
{
	MemoryContext context;

	if (AggCheckCallContext(fcinfo, &context) != AGG_CONTEXT_AGGREGATE)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("shardlet.state_of() is an aggregate, and nothing else"));
	return context;
}

/* Steps ------------------------------------------------------------------------------------ */

static Datum
keep(const Inner *inner, Datum value, MemoryContext context)
{
	MemoryContext caller;

	if (inner->by_value)
		return value;
	caller = MemoryContextSwitchTo(context);
	value = datumCopy(value, false, inner->length);
	MemoryContextSwitchTo(caller);
	return value;
}

static State *
new_state(const Inner *inner, MemoryContext context)
{
	State	   *state = MemoryContextAllocZero(context, sizeof(State));

	state->is_null = inner->initial_is_null;
	state->is_empty = inner->initial_is_null;
	if (!state->is_null)
		state->value = keep(inner, inner->initial, context);
	return state;
}

/* Takes over what the transition function returned, and frees what was before. */
static void
replace_value(const Inner *inner, State *state, Datum value, bool is_null, MemoryContext context)
{
	bool		had_value = !inner->by_value && !state->is_null;
	Datum		before = state->value;

	if (!inner->by_value && !(had_value && !is_null && value == before))
	{
		/* An expanded object that lives where states do is one already. */
		if (!is_null && !(DatumIsReadWriteExpandedObject(value, false, inner->length) &&
						  MemoryContextGetParent(DatumGetEOHP(value)->eoh_context) == context))
			value = keep(inner, value, context);
		if (had_value && DatumIsReadWriteExpandedObject(before, false, inner->length))
			DeleteExpandedObject(before);
		else if (had_value)
			pfree(DatumGetPointer(before));
	}
	state->value = value;
	state->is_null = is_null;
}

static bool
has_null(FunctionCallInfo fcinfo)
{
	for (int i = FIRST_ARG; i < PG_NARGS(); i++)
	{
		if (PG_ARGISNULL(i))
			return true;
	}
	return false;
}

/* A function that is strict sees no NULL, and begins with the first value. */
static bool
is_skipped(const Inner *inner, State *state, FunctionCallInfo fcinfo, MemoryContext context)
{
	if (!inner->function.fn_strict)
		return false;
	if (has_null(fcinfo))
		return true;
	if (state->is_empty)
	{
		state->value = keep(inner, PG_GETARG_DATUM(FIRST_ARG), context);
		state->is_null = state->is_empty = false;
		return true;
	}
	return state->is_null;
}

Datum
shardlet_state_step(PG_FUNCTION_ARGS)
{
	MemoryContext context = state_context(fcinfo);
	State	   *state = PG_ARGISNULL(0) ? NULL : (State *) PG_GETARG_POINTER(0);
	Inner	   *inner;
	Datum		value;

	if (PG_ARGISNULL(AGGREGATE_ARG))
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("aggregate must not be NULL"));
	inner = find_aggregate(fcinfo, PG_GETARG_OID(AGGREGATE_ARG), false);
	if (state == NULL)
		state = new_state(inner, context);
	if (is_skipped(inner, state, fcinfo, context))
		PG_RETURN_POINTER(state);
	inner->call->args[0].value = state->value;
	inner->call->args[0].isnull = state->is_null;
	for (int i = 0; i < inner->arg_count; i++)
		inner->call->args[i + 1] = fcinfo->args[FIRST_ARG + i];
	inner->call->isnull = false;
	inner->call->context = fcinfo->context;
	value = FunctionCallInvoke(inner->call);
	replace_value(inner, state, value, inner->call->isnull, context);
	PG_RETURN_POINTER(state);
}

/* The end -------------------------------------------------------------------------------- */

/* Arguments are not given at the end; which aggregate it is stands in the call. */
static Oid
find_oid(FunctionCallInfo fcinfo)
{
	const Aggref *call = AggGetAggref(fcinfo);
	const Const *aggregate = call == NULL ? NULL :
	(const Const *) ((TargetEntry *) list_nth(call->args, AGGREGATE_ARG - 1))->expr;

	if (aggregate == NULL || !IsA(aggregate, Const) || aggregate->constisnull)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("aggregate must be a constant"));
	return DatumGetObjectId(aggregate->constvalue);
}

Datum
shardlet_state_end(PG_FUNCTION_ARGS)
{
	Inner	   *inner;
	State		none = {0};
	const State *state = PG_ARGISNULL(0) ? &none : (State *) PG_GETARG_POINTER(0);

	(void) state_context(fcinfo);
	inner = find_aggregate(fcinfo, find_oid(fcinfo), true);
	if (state == &none)
	{
		none.value = inner->initial;
		none.is_null = inner->initial_is_null;
	}
	if (state->is_null)
		PG_RETURN_NULL();
	if (inner->state_type != INTERNALOID)
		PG_RETURN_DATUM(MakeExpandedObjectReadOnly(state->value, state->is_null, inner->length));
	inner->call->args[0].value = state->value;
	inner->call->args[0].isnull = false;
	inner->call->isnull = false;
	inner->call->context = fcinfo->context;
	PG_RETURN_DATUM(FunctionCallInvoke(inner->call));
}
