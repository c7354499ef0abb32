/*
 * key_coerce.c
 *		Coerces a value to the type of a key, as PostgreSQL would.
 *
 * Only implicit casts are applied: a bigint map takes an integer, a numeric
 * map takes a bigint.  A text value for a bigint map is an error, as a
 * comparison of the two would be.  Casts that lose information (1.5 to 2, a
 * timestamp to its day) would route a value to another shard than an equal
 * value, so they are left to the caller.  Integers are also narrowed, because
 * drivers send every integer as bigint, and that either keeps the value or
 * fails.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"

#include "metadata/key.h"

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

static void
refuse_coercion(Oid from, Oid to, const char *what)
{
	ereport(ERROR,
			errcode(ERRCODE_DATATYPE_MISMATCH),
			errmsg("%s must be of type %s, not %s", what,
				   format_type_be(to), format_type_be(from)),
			errhint("Cast the value to %s.", format_type_be(to)));
}

/*
 * Prepares the coercion of values of one type to a key type.  "what" names the
 * value in an error.
 */
void
sl_coercion_init(SlCoercion *coercion, Oid from, const SlKeyType *to,
				 const char *what, MemoryContext context)
{
	Oid			function = InvalidOid;
	CoercionContext allowed;

	if (from == to->type)
	{
		coercion->method = SL_COERCE_NONE;
		return;
	}
	if (from == UNKNOWNOID)
	{
		coercion->method = SL_COERCE_INPUT;
		coercion->input_param = to->input_param;
		fmgr_info_cxt(to->input.fn_oid, &coercion->function, context);
		return;
	}
	allowed = is_integer(from) && is_integer(to->type) ?
		COERCION_ASSIGNMENT : COERCION_IMPLICIT;
	switch (find_coercion_pathway(to->type, from, allowed, &function))
	{
		case COERCION_PATH_RELABELTYPE:
			coercion->method = SL_COERCE_NONE;
			break;
		case COERCION_PATH_FUNC:
			coercion->method = SL_COERCE_CAST;
			fmgr_info_cxt(function, &coercion->function, context);
			break;
		default:
			refuse_coercion(from, to->type, what);
	}
}

/* Coerces one value that is not NULL. */
Datum
sl_coercion_apply(SlCoercion *coercion, Datum value)
{
	switch (coercion->method)
	{
		case SL_COERCE_NONE:
			break;
		case SL_COERCE_INPUT:
			return InputFunctionCall(&coercion->function, DatumGetCString(value),
									 coercion->input_param, -1);
		case SL_COERCE_CAST:
			/* A cast function may also take a type modifier and a flag. */
			if (coercion->function.fn_nargs == 1)
				return FunctionCall1(&coercion->function, value);
			if (coercion->function.fn_nargs == 2)
				return FunctionCall2(&coercion->function, value, Int32GetDatum(-1));
			return FunctionCall3(&coercion->function, value, Int32GetDatum(-1),
								 BoolGetDatum(false));
	}
	return value;
}
