/*
 * function_args.c
 *		Arguments of the functions on maps: names, lists of shards, keys.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "base/base.h"
#include "metadata/key.h"
#include "metadata/map.h"

static void
refuse_null(FunctionCallInfo fcinfo, int argument, const char *what)
{
	if (PG_ARGISNULL(argument))
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("%s must not be NULL", what));
}

/* Returns an argument of type name, which must not be NULL or empty. */
char *
sl_map_arg_name(FunctionCallInfo fcinfo, int argument, const char *what)
{
	refuse_null(fcinfo, argument, what);
	return sl_check_name(PG_GETARG_DATUM(argument), what);
}

char *
sl_map_arg_text(FunctionCallInfo fcinfo, int argument, const char *what)
{
	refuse_null(fcinfo, argument, what);
	return text_to_cstring(PG_GETARG_TEXT_PP(argument));
}

int64
sl_map_arg_int64(FunctionCallInfo fcinfo, int argument, const char *what)
{
	refuse_null(fcinfo, argument, what);
	return PG_GETARG_INT64(argument);
}

List *
sl_map_arg_shards(FunctionCallInfo fcinfo, int argument)
{
	return sl_map_listed_shards(PG_GETARG_ARRAYTYPE_P(argument));
}

/* Returns the shards of a name[], in its order, without duplicates. */
List *
sl_map_listed_shards(ArrayType *array)
{
	List	   *result = NIL;
	Datum	   *names;
	bool	   *nulls;
	int			count;

	deconstruct_array(array, NAMEOID, NAMEDATALEN, false,
					  TYPALIGN_CHAR, &names, &nulls, &count);
	for (int i = 0; i < count; i++)
	{
		SlShard    *shard;

		if (nulls[i])
			ereport(ERROR,
					errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					errmsg("list of shards must not contain NULL"));
		shard = sl_shard_by_name(sl_check_name(names[i], "shard"), false);
		if (list_member_ptr(result, shard))
			ereport(ERROR,
					errcode(SL_ERR_EXISTS),
					errmsg("shard \"%s\" is listed twice", NameStr(shard->name)));
		result = lappend(result, shard);
	}
	return result;
}

/* Describes the key of a map, for an error. */
char *
sl_map_key_label(const SlMap *map)
{
	return psprintf("key of map \"%s\"", NameStr(map->name));
}

/* Raises an error unless the map has keys of so many columns. */
void
sl_map_check_key_count(const SlMap *map, int given, int expected)
{
	if (map->kind == SL_KIND_SPREAD)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("map \"%s\" has no keys", NameStr(map->name)),
				errdetail("It is a spread map: its rows go round robin over the shards."));
	if (given != expected)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("wrong number of key columns for map \"%s\": %d instead of %d",
					   NameStr(map->name), given, expected));
}

/*
 * Coerces arguments to the map's key, or, as_value, to the value that it looks
 * up, which differs from the key if the map has a "via" expression.
 */
void
sl_map_coerce_key(SlMap *map, bool as_value, const SlKeyArgs *args, Datum *key)
{
	SlKeyType  *types = as_value ? map->value_types : map->key_types;
	SlCoercion	coercion;

	sl_map_check_key_count(map, args->count, as_value ? map->value_count : map->key_count);
	for (int i = 0; i < args->count; i++)
	{
		if (args->nulls[i])
			sl_key_refuse_null();
		sl_coercion_init(&coercion, args->types[i], &types[i],
						 sl_map_key_label(map), CurrentMemoryContext);
		key[i] = sl_coercion_apply(&coercion, args->values[i]);
	}
}

/* Deconstructs an array of keys. */
void
sl_map_key_array_open(SlKeyArray *keys, SlMap *map, bool as_value, ArrayType *array)
{
	int16		length;
	bool		by_value;
	char		align;

	keys->map = map;
	keys->as_value = as_value;
	keys->prepared = false;
	keys->element_type = ARR_ELEMTYPE(array);
	get_typlenbyvalalign(keys->element_type, &length, &by_value, &align);
	deconstruct_array(array, keys->element_type, length, by_value, align,
					  &keys->elements, &keys->nulls, &keys->count);
}

/* Looks up the coercions for the actual types of the columns. */
static void
prepare_coercions(SlKeyArray *keys, int count, const Oid *types)
{
	SlMap	   *map = keys->map;
	SlKeyType  *to = keys->as_value ? map->value_types : map->key_types;

	sl_map_check_key_count(map, count, keys->as_value ? map->value_count : map->key_count);
	for (int i = 0; i < count; i++)
	{
		if (keys->prepared && keys->from[i] == types[i])
			continue;
		keys->from[i] = types[i];
		sl_coercion_init(&keys->coercions[i], types[i], &to[i],
						 sl_map_key_label(map), CurrentMemoryContext);
	}
	keys->prepared = true;
}

/* Returns the number of columns of a record, and their types. */
static int
open_record(Datum record, Oid *types, Datum *values)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(record);
	TupleDesc	descriptor = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(header),
													HeapTupleHeaderGetTypMod(header));
	Datum	   *all_values = palloc(sizeof(Datum) * Max(descriptor->natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(descriptor->natts, 1));
	int			count = 0;
	HeapTupleData tuple;

	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	heap_deform_tuple(&tuple, descriptor, all_values, nulls);
	for (int i = 0; i < descriptor->natts; i++)
	{
		if (TupleDescAttr(descriptor, i)->attisdropped)
			continue;
		if (nulls[i])
			sl_key_refuse_null();
		if (count == SL_MAX_KEYS)
			ereport(ERROR,
					errcode(ERRCODE_TOO_MANY_ARGUMENTS),
					errmsg("a key has at most %d columns", SL_MAX_KEYS));
		types[count] = TupleDescAttr(descriptor, i)->atttypid;
		values[count++] = all_values[i];
	}
	ReleaseTupleDesc(descriptor);
	return count;
}

/* Returns one key of the array, coerced. */
void
sl_map_key_array_get(SlKeyArray *keys, int index, Datum *key)
{
	Oid			types[SL_MAX_KEYS];
	Datum		values[SL_MAX_KEYS];
	int			count = 1;

	if (keys->nulls[index])
		sl_key_refuse_null();
	if (type_is_rowtype(keys->element_type))
		count = open_record(keys->elements[index], types, values);
	else
	{
		types[0] = keys->element_type;
		values[0] = keys->elements[index];
	}
	prepare_coercions(keys, count, types);
	for (int i = 0; i < count; i++)
	{
		/* A literal inside a record has type unknown, stored as a C string. */
		key[i] = sl_coercion_apply(&keys->coercions[i], values[i]);
	}
}

/* VARIADIC key "any" -------------------------------------------------------------- */

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

/* Returns the key whose columns begin at an argument. */
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

/* The same for arguments that the caller has evaluated. */
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
