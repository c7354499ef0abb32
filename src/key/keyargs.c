/*
 * keyargs.c
 *		The arguments of a function that is declared VARIADIC key "any".
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#include "key/key.h"

void
sl_key_refuse_null(void)
{
	ereport(ERROR,
			errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			errmsg("key must not be NULL"));
}

static void
refuse_count(void)
{
	ereport(ERROR,
			errcode(ERRCODE_TOO_MANY_ARGUMENTS),
			errmsg("a key has at most %d columns", SL_MAX_KEYS));
}

/* f(VARIADIC ARRAY[...]): the elements are the key. */
static void
get_array_elements(Datum datum, SlKeyArgs *args)
{
	ArrayType  *array = DatumGetArrayTypeP(datum);
	Datum	   *values;
	bool	   *nulls;
	int16		length;
	bool		by_value;
	char		align;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &length, &by_value, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), length, by_value, align,
					  &values, &nulls, &args->count);
	if (args->count > SL_MAX_KEYS)
		refuse_count();
	for (int i = 0; i < args->count; i++)
	{
		args->types[i] = ARR_ELEMTYPE(array);
		args->values[i] = values[i];
		args->nulls[i] = nulls[i];
	}
}

/* Collects the key that begins at an argument. */
void
sl_key_args_get(FunctionCallInfo fcinfo, int first, SlKeyArgs *args)
{
	if (get_fn_expr_variadic(fcinfo->flinfo))
	{
		if (PG_ARGISNULL(first))
			sl_key_refuse_null();
		get_array_elements(PG_GETARG_DATUM(first), args);
		return;
	}
	args->count = PG_NARGS() - first;
	if (args->count > SL_MAX_KEYS)
		refuse_count();
	for (int i = 0; i < args->count; i++)
	{
		args->types[i] = get_fn_expr_argtype(fcinfo->flinfo, first + i);
		if (!OidIsValid(args->types[i]))
			elog(ERROR, "could not determine the type of argument %d", first + i);
		args->nulls[i] = PG_ARGISNULL(first + i);
		args->values[i] = args->nulls[i] ? (Datum) 0 : PG_GETARG_DATUM(first + i);
	}
}

/* The same for arguments that were evaluated by hand. */
void
sl_key_args_split(const Datum *values, const bool *nulls, const Oid *types, int count,
				  bool is_variadic, SlKeyArgs *args)
{
	if (is_variadic)
	{
		if (nulls[0])
			sl_key_refuse_null();
		get_array_elements(values[0], args);
		return;
	}
	if (count > SL_MAX_KEYS)
		refuse_count();
	args->count = count;
	memcpy(args->values, values, sizeof(Datum) * count);
	memcpy(args->nulls, nulls, sizeof(bool) * count);
	memcpy(args->types, types, sizeof(Oid) * count);
}
