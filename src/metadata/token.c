/*
 * token.c
 *		From key to token.
 *
 * The token of a key is hash_record_extended(ROW(k1, ...), 0): a function of
 * PostgreSQL's own, so that any database can compute it.  For one column that
 * equals the extended hash of the type, which needs no record.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "metadata/key.h"

/* Computes the token of a key whose values are not NULL. */
int64
sl_key_token(SlKeyType *key_types, int count, const Datum *values)
{
	uint64		token = 0;

	/* The rule by which hash_record_extended() combines its columns. */
	for (int i = 0; i < count; i++)
		token = token * 31 +
			DatumGetUInt64(FunctionCall2Coll(&key_types[i].hash,
											 key_types[i].hash_collation,
											 values[i], Int64GetDatum(0)));
	return (int64) token;
}

/*
 * The extended hash functions that can be called from SQL with a value of
 * their type.  Others are declared for another type only (date is hashed as an
 * integer) and are reached through a record.
 */
static const struct
{
	Oid			type;
	const char *function;
}			callable_hashes[] = {
	{INT2OID, "hashint8extended"},
	{INT4OID, "hashint8extended"},
	{INT8OID, "hashint8extended"},
	{TEXTOID, "hashtextextended"},
	{VARCHAROID, "hashtextextended"},
	{BPCHAROID, "hashbpcharextended"},
	{UUIDOID, "uuid_hash_extended"},
	{NUMERICOID, "hash_numeric_extended"},
	{TIMESTAMPOID, "timestamp_hash_extended"},
	{FLOAT8OID, "hashfloat8extended"},
};

/*
 * Returns the function, of pg_catalog, with which SQL can hash a value of the
 * type by a seed as tokens are computed; NULL: there is none.
 */
const char *
sl_key_hash_function(Oid type)
{
	for (int i = 0; i < (int) lengthof(callable_hashes); i++)
	{
		if (callable_hashes[i].type == type)
			return callable_hashes[i].function;
	}
	return NULL;
}

/*
 * Writes the token as an SQL expression over the given expressions, for a
 * PostgreSQL without this extension.  Each one is cast to the key type, as
 * routing does.
 */
char *
sl_key_token_sql(const Oid *types, int count, char **expressions)
{
	const char *function = count == 1 ? sl_key_hash_function(types[0]) : NULL;
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "pg_catalog.%s(%s",
					 function ? function : "hash_record_extended",
					 function ? "" : "ROW(");
	for (int i = 0; i < count; i++)
		appendStringInfo(&sql, "%s%s::%s", i > 0 ? ", " : "", expressions[i],
						 format_type_extended(types[i], -1,
											  FORMAT_TYPE_TYPEMOD_GIVEN |
											  FORMAT_TYPE_FORCE_QUALIFY));
	appendStringInfo(&sql, "%s, 0)", function ? "" : ")");
	return sql.data;
}
