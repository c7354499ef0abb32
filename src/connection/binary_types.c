/*
 * binary_types.c
 *		Built-in types that are encoded and decoded without a function call.
 *
 * The table is used by decode.c, encode.c and executor/copy_row.c when they set up
 * a column or parameter, and not for each value.
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "connection/connection.h"

static const struct
{
	Oid			type;
	SlValueFormat format;
}			binary_types[] = {
	{INT2OID, SL_FORMAT_INT16},
	{INT4OID, SL_FORMAT_INT32},
	{INT8OID, SL_FORMAT_INT64},
	{DATEOID, SL_FORMAT_DATE},
	{TIMESTAMPOID, SL_FORMAT_TIMESTAMP},
	{TIMESTAMPTZOID, SL_FORMAT_TIMESTAMP},
	{FLOAT4OID, SL_FORMAT_INT32},
	{FLOAT8OID, SL_FORMAT_INT64},
	{BOOLOID, SL_FORMAT_BOOL},
	{TEXTOID, SL_FORMAT_STRING},
	{VARCHAROID, SL_FORMAT_STRING},
	{BPCHAROID, SL_FORMAT_STRING},
	{BYTEAOID, SL_FORMAT_BYTEA},
	{JSONOID, SL_FORMAT_JSON},
};

/* Returns the format of a type's values in binary form. */
SlValueFormat
sl_binary_format(Oid type)
{
	for (int i = 0; i < (int) lengthof(binary_types); i++)
	{
		if (binary_types[i].type == type)
			return binary_types[i].format;
	}
	return SL_FORMAT_FUNCTION;
}
