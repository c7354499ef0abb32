/*
 * aggregate_state.c
 *		state_of(): the transition state of any aggregate whose state is a
 *		value; runs on shards.
 *
 * state_of(NULL::type, 'aggregate(...)', arguments ...) calls the transition
 * function of an aggregate, as PostgreSQL does, and returns the state instead
 * of a result.  The first argument only determines the type of the state.
 *
 * Every role may call it, so nothing in a call is trusted.  The caller needs
 * the privileges and the argument types that the aggregate itself would need.
 * A state belongs to one aggregate from the first row to the last: the
 * aggregate is a constant of the call, and a state points to the properties
 * that the aggregate had when the state was made, its type above all.  A later
 * definition of the same aggregate (CREATE OR REPLACE AGGREGATE can change the
 * type of a state) is never applied to it.  States of type "internal" are
 * refused: only the functions of the aggregate know what the pointer refers
 * to.
 *
 * States are in the aggregate's memory context; the properties of the
 * aggregate are in that of the query, and outlive them.
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

#include "base/base.h"
#include "compat.h"

/* Arguments: the state, the type, the aggregate, and then its own. */
#define TYPE_ARG 1
#define AGGREGATE_ARG 2
#define FIRST_ARG 3

PG_FUNCTION_INFO_V1(shardlet_state_step);
PG_FUNCTION_INFO_V1(shardlet_state_end);

/* The properties of an aggregate; in fn_extra of the transition function. */
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
	FmgrInfo	transition;
	FunctionCallInfo call;
} Inner;

/* The state of one group. */
typedef struct State
{
	const Inner *inner;
	Datum		value;
	bool		is_null;
	bool		is_empty;		/* the first value becomes the state */
} State;

/* What is known ------------------------------------------------------------------------ */

pg_noreturn static void
refuse(Oid aggregate, const char *reason)
{
	ereport(ERROR,
			errcode(ERRCODE_WRONG_OBJECT_TYPE),
			errmsg("cannot return the state of %s", format_procedure(aggregate)),
			errdetail_internal("%s", reason));
}

static void
check_execute(Oid function, Oid role)
{
	if (sl_function_aclcheck(function, role) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, get_func_name(function));
}

/*
 * Returns the types of its arguments in this call; they must match the
 * declared ones.
 */
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
check_type(const Inner *inner, FunctionCallInfo fcinfo)
{
	if (get_typtype(inner->state_type) == TYPTYPE_PSEUDO)
		refuse(inner->oid, "Its state is not a value.");
	if (get_fn_expr_argtype(fcinfo->flinfo, TYPE_ARG) != inner->state_type)
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
	check_type(inner, fcinfo);
	read_initial(inner, row);
	ReleaseSysCache(row);
	return inner;
}

/* Prepares calls of the transition function. */
static void
prepare_call(Inner *inner, FunctionCallInfo fcinfo)
{
	Oid			function = inner->form.aggtransfn;
	Expr	   *expression;

	check_execute(function, inner->owner);
	fmgr_info(function, &inner->transition);

	/*
	 * CREATE AGGREGATE has checked that; a strict one begins with its first
	 * argument.
	 */
	if (inner->transition.fn_nargs != inner->arg_count + 1 || inner->transition.fn_retset ||
		(inner->transition.fn_strict && inner->initial_is_null &&
		 (inner->arg_count == 0 || !IsBinaryCoercible(inner->arg_types[0], inner->state_type))))
		refuse(inner->oid, "Its transition function has other types.");
	build_aggregate_transfn_expr(inner->arg_types, inner->arg_count, 0, false, inner->state_type,
								 PG_GET_COLLATION(), function, InvalidOid, &expression, NULL);
	fmgr_info_set_expr((Node *) expression, &inner->transition);
	inner->call = palloc0(SizeForFunctionCallInfo(inner->arg_count + 1));
	InitFunctionCallInfoData(*inner->call, &inner->transition, inner->arg_count + 1,
							 PG_GET_COLLATION(), fcinfo->context, NULL);
}

/* Returns the aggregate of the call, which is a constant. */
static Oid
find_oid(FunctionCallInfo fcinfo)
{
	const Aggref *call = AggGetAggref(fcinfo);
	const Node *argument = call == NULL || list_length(call->args) < AGGREGATE_ARG ? NULL :
	(const Node *) list_nth_node(TargetEntry, call->args, AGGREGATE_ARG - 1)->expr;

	if (argument == NULL || !IsA(argument, Const) || ((const Const *) argument)->constisnull)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("aggregate must be a constant"));
	return DatumGetObjectId(((const Const *) argument)->constvalue);
}

/* Returns the properties of the aggregate; read at the first call. */
static Inner *
find_aggregate(FunctionCallInfo fcinfo)
{
	Inner	   *inner = fcinfo->flinfo->fn_extra;
	MemoryContext caller;

	if (inner != NULL)
		return inner;
	caller = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	inner = read_aggregate(fcinfo, find_oid(fcinfo));
	prepare_call(inner, fcinfo);
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
				errmsg(SL_INTERNAL_SCHEMA ".state_of() can only be called as an aggregate"));
	return context;
}

/* Steps ------------------------------------------------------------------------------------ */

static Datum
copy_state_value(const Inner *inner, Datum value, MemoryContext context)
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

	state->inner = inner;
	state->is_null = inner->initial_is_null;
	state->is_empty = inner->initial_is_null;
	if (!state->is_null)
		state->value = copy_state_value(inner, inner->initial, context);
	return state;
}

/*
 * Stores the result of the transition function, and frees the previous state.
 */
static void
replace_value(const Inner *inner, State *state, Datum value, bool is_null, MemoryContext context)
{
	bool		had_value = !inner->by_value && !state->is_null;
	Datum		before = state->value;

	if (!inner->by_value && !(had_value && !is_null && value == before))
	{
		/*
		 * An expanded object that is in the aggregate's context already is
		 * kept.
		 */
		if (!is_null && !(DatumIsReadWriteExpandedObject(value, false, inner->length) &&
						  MemoryContextGetParent(DatumGetEOHP(value)->eoh_context) == context))
			value = copy_state_value(inner, value, context);
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

/*
 * A strict function is not called for NULL, and begins with the first value.
 */
static bool
is_skipped(const Inner *inner, State *state, FunctionCallInfo fcinfo, MemoryContext context)
{
	if (!inner->transition.fn_strict)
		return false;
	if (has_null(fcinfo))
		return true;
	if (state->is_empty)
	{
		state->value = copy_state_value(inner, PG_GETARG_DATUM(FIRST_ARG), context);
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
	Inner	   *inner = find_aggregate(fcinfo);
	Datum		value;

	if (PG_ARGISNULL(AGGREGATE_ARG) || PG_GETARG_OID(AGGREGATE_ARG) != inner->oid ||
		(state != NULL && state->inner != inner))
		ereport(ERROR,
				errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("state of %s cannot become that of another aggregate", format_procedure(inner->oid)));
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

/*
 * For no rows at all it is the initial value.  Arguments are not passed to the
 * final function.
 */
Datum
shardlet_state_end(PG_FUNCTION_ARGS)
{
	const State *state = PG_ARGISNULL(0) ? NULL : (State *) PG_GETARG_POINTER(0);

	(void) state_context(fcinfo);
	if (state == NULL)
	{
		const Inner *inner = read_aggregate(fcinfo, find_oid(fcinfo));

		if (inner->initial_is_null)
			PG_RETURN_NULL();
		PG_RETURN_DATUM(inner->initial);
	}
	if (get_fn_expr_argtype(fcinfo->flinfo, TYPE_ARG) != state->inner->state_type)
		refuse(state->inner->oid, "Its state has another type.");
	if (state->is_null)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(MakeExpandedObjectReadOnly(state->value, false, state->inner->length));
}
