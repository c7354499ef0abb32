/*
 * output_format.c
 *		Is the text form of a value independent of settings?
 *
 * The input and output of some types depends on the session: dates on
 * DateStyle, floats on extra_float_digits.  The router's connections use fixed
 * settings, so the text that an expression produces on a shard may differ from
 * the router's.  Other types have one text form.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "deparse/shippable.h"

/*
 * Functions that convert their arguments to text, and are stable for no other
 * reason.
 */
static const Oid text_functions[] = {
	F_TEXTANYCAT, F_ANYTEXTCAT, F_CONCAT, F_CONCAT_WS, F_FORMAT_TEXT, F_FORMAT_TEXT_ANY,
	F_ARRAY_TO_STRING_ANYARRAY_TEXT, F_ARRAY_TO_STRING_ANYARRAY_TEXT_TEXT,
	F_QUOTE_LITERAL_ANYELEMENT, F_QUOTE_NULLABLE_ANYELEMENT
};

/*
 * JSON has one format for dates as well, which depends on the time zone only.
 */
static const Oid json_functions[] = {
	F_TO_JSON, F_TO_JSONB, F_ARRAY_TO_JSON_ANYARRAY, F_ARRAY_TO_JSON_ANYARRAY_BOOL,
	F_JSON_BUILD_ARRAY_ANY, F_JSON_BUILD_ARRAY_, F_JSON_BUILD_OBJECT_ANY, F_JSON_BUILD_OBJECT_,
	F_JSONB_BUILD_ARRAY_ANY, F_JSONB_BUILD_ARRAY_, F_JSONB_BUILD_OBJECT_ANY,
	F_JSONB_BUILD_OBJECT_, F_JSON_AGG, F_JSONB_AGG, F_JSON_OBJECT_AGG, F_JSONB_OBJECT_AGG
};

/* Types with one text form. */
bool
sl_format_is_fixed(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case CHAROID:
		case NAMEOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case NUMERICOID:
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case UUIDOID:
		case JSONOID:
		case JSONBOID:
		case INETOID:
		case CIDROID:
		case MACADDROID:
		case XIDOID:
		case CIDOID:
		case TIDOID:
			return true;
		default:
			return false;
	}
}

/*
 * Input and output functions of a type, as in a cast to text.  Those of floats
 * are declared immutable, and depend on settings nevertheless.
 */
bool
sl_format_is_equal_cast(const CoerceViaIO *cast)
{
	return sl_format_is_fixed(exprType((Node *) cast->arg)) && sl_format_is_fixed(cast->resulttype);
}

static bool
is_among(Oid function, const Oid *functions, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (functions[i] == function)
			return true;
	}
	return false;
}

static bool
is_one_in_json(Oid type)
{
	return type == DATEOID || type == TIMESTAMPOID || type == TIMESTAMPTZOID;
}

static bool
have_one_form(List *args, bool in_json)
{
	ListCell   *cell;

	foreach(cell, args)
	{
		Oid			type = exprType(lfirst(cell));
		Oid			element = get_element_type(type);

		if (OidIsValid(element))
			type = element;
		if (type != UNKNOWNOID && !sl_format_is_fixed(type) && !(in_json && is_one_in_json(type)))
			return false;
	}
	return true;
}

/* A format with names or symbols of the locale depends on settings. */
static bool
is_plain_format(Node *format, const char *forbidden)
{
	const char *pattern;

	if (!IsA(format, Const) || ((Const *) format)->constisnull)
		return false;
	pattern = TextDatumGetCString(((Const *) format)->constvalue);
	return strpbrk(pattern, forbidden) == NULL;
}

/*
 * Does the function produce the same text on a shard, given these arguments?
 */
bool
sl_format_is_equal_call(Oid function, List *args)
{
	switch (function)
	{
		case F_TO_CHAR_TIMESTAMP_TEXT:
		case F_TO_CHAR_TIMESTAMPTZ_TEXT:
			return is_plain_format(lsecond(args), "Tt\"");
		case F_TO_CHAR_INT4_TEXT:
		case F_TO_CHAR_INT8_TEXT:
		case F_TO_CHAR_NUMERIC_TEXT:
			return is_plain_format(lsecond(args), "LlDdGg\"");
		default:
			break;
	}
	if (is_among(function, text_functions, lengthof(text_functions)))
		return have_one_form(args, false);
	return is_among(function, json_functions, lengthof(json_functions)) &&
		have_one_form(args, true);
}
