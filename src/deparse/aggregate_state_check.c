/*
 * aggregate_state_check.c
 *		Which serialized aggregate states the router takes from a shard, and
 *		whether one is well formed.
 *
 * PostgreSQL calls deserialize functions for bytes that its own parallel workers
 * have written, and the functions rely on that: numericvar_deserialize() allocates
 * as many digits as the bytes say, negative numbers included, accum_sum_add() uses
 * the weight as an index, and the arithmetic relies on digits below NBASE.  Bytes
 * of a shard can be anything.  So they reach a deserialize function only if it is
 * in the table below, whose functions were read in 15 to 18, and only after
 * everything in them that becomes an index, a size or a digit was checked here.
 * What remains can make a result wrong, as any value of a shard can.
 *
 * array_agg and string_agg have deserialize functions from 16 on.  That of
 * array_agg takes the length and the by-value flag of its elements from the bytes,
 * so neither is in the table: their values are sent instead of their states.  The
 * same holds for aggregates of users with an internal state.
 *
 * The format, in network byte order: the count (int8), one or two sums, and
 * for some the scale (int4) and four more counts.  A sum is the number of its
 * digits, weight, sign and scale (int4 each), and the digits (int2 each).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "port/pg_bswap.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"

#include "deparse/partial_aggregate.h"

struct SlStateFormat
{
	Oid			deserialize;
	int			sum_count;
	bool		has_scale;		/* and the counts that follow it */
};

static const SlStateFormat formats[] = {
	{F_INT8_AVG_DESERIALIZE, 1, false},
	{F_NUMERIC_POLY_DESERIALIZE, 2, false},
	{F_NUMERIC_AVG_DESERIALIZE, 1, true},
	{F_NUMERIC_DESERIALIZE, 2, true},
};

/* Of numeric.c, which has no header for them. */
#define NBASE 10000
#define NUMERIC_POS 0x0000
#define NUMERIC_NEG 0x4000

/*
 * A numeric has a weight of at most INT16_MAX and a scale of at most 16383.  Squares
 * have twice as much, and sums of 2^63 values five digits more: 64 are enough.
 */
#define SPARE_DIGITS 64
#define MAX_WEIGHT (2 * (PG_INT16_MAX + 1) + SPARE_DIGITS)
#define MAX_SCALE (2 * 16383)
#define MAX_FRACTION_DIGITS (MAX_SCALE / 4 + SPARE_DIGITS)

/* Counts after the scale: of values with that scale, of NaN and two infinities. */
#define SCALE_COUNTS 4

/* Bytes that are being read. */
typedef struct Reader
{
	const char *next;
	const char *end;
	const char *trouble;		/* NULL: no error so far */
} Reader;

/*
 * Returns the format that a deserialize function reads, or NULL if it is not
 * accepted.
 */
const SlStateFormat *
sl_aggregate_find_format(Oid deserialize)
{
	for (int i = 0; i < (int) lengthof(formats); i++)
	{
		if (formats[i].deserialize == deserialize)
			return &formats[i];
	}
	return NULL;
}

/*
 * Returns the format of a column of a remote scan, or NULL if it is not a
 * serialized state.  Raises an error if it is one that must not be deserialized.
 */
const SlStateFormat *
sl_aggregate_find_partial_format(const Node *expression)
{
	const Aggref *aggregate = (const Aggref *) expression;
	const SlStateFormat *format;
	HeapTuple	row;

	if (!IsA(expression, Aggref) || !DO_AGGSPLIT_SERIALIZE(aggregate->aggsplit) ||
		aggregate->aggtranstype != INTERNALOID)
		return NULL;
	row = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate->aggfnoid));
	if (!HeapTupleIsValid(row))
		elog(ERROR, "cache lookup failed for aggregate %u", aggregate->aggfnoid);
	format = sl_aggregate_find_format(((Form_pg_aggregate) GETSTRUCT(row))->aggdeserialfn);
	ReleaseSysCache(row);
	if (format == NULL)
		elog(ERROR, "states of aggregate %u cannot be taken from a shard", aggregate->aggfnoid);
	return format;
}

/* Reading ------------------------------------------------------------------------------- */

static bool
has_bytes(Reader *reader, Size wanted)
{
	if (reader->trouble == NULL && (Size) (reader->end - reader->next) < wanted)
		reader->trouble = "It is too short.";
	return reader->trouble == NULL;
}

static int32
read_int4(Reader *reader)
{
	uint32		value;

	if (!has_bytes(reader, sizeof(value)))
		return 0;
	memcpy(&value, reader->next, sizeof(value));
	reader->next += sizeof(value);
	return (int32) pg_ntoh32(value);
}

static void
check_count(Reader *reader)
{
	uint64		value;

	if (!has_bytes(reader, sizeof(value)))
		return;
	memcpy(&value, reader->next, sizeof(value));
	reader->next += sizeof(value);
	if ((int64) pg_ntoh64(value) < 0)
		reader->trouble = "It has a negative count.";
}

/* The caller has checked that there are enough bytes. */
static void
check_digits(Reader *reader, int count)
{
	for (int i = 0; i < count; i++)
	{
		uint16		digit;

		memcpy(&digit, reader->next + i * sizeof(digit), sizeof(digit));
		if (pg_ntoh16(digit) >= NBASE)
			reader->trouble = "It has an invalid digit.";
	}
	reader->next += count * sizeof(uint16);
}

static void
check_sum(Reader *reader)
{
	int32		digits = read_int4(reader);
	int32		weight = read_int4(reader);
	int32		sign = read_int4(reader);
	int32		scale = read_int4(reader);

	if (reader->trouble != NULL)
		return;
	if (weight > MAX_WEIGHT || weight < -MAX_FRACTION_DIGITS || digits < 0 ||
		digits > weight + 1 + MAX_FRACTION_DIGITS)
		reader->trouble = "It has a number with too many digits.";
	else if (sign != NUMERIC_POS && sign != NUMERIC_NEG)
		reader->trouble = "It has a number with an invalid sign.";
	else if (scale < 0 || scale > MAX_SCALE)
		reader->trouble = "It has an invalid scale.";
	else if (has_bytes(reader, digits * sizeof(uint16)))
		check_digits(reader, digits);
}

/*
 * Returns what is wrong with a state, as the DETAIL of an error, or NULL: it can be
 * given to the deserialize function of the format.
 */
const char *
sl_aggregate_check_state(const SlStateFormat *format, const char *bytes, Size length)
{
	Reader		reader = {.next = bytes,.end = bytes + length};

	check_count(&reader);
	for (int i = 0; i < format->sum_count; i++)
		check_sum(&reader);
	if (format->has_scale)
	{
		int32		scale = read_int4(&reader);

		if (reader.trouble == NULL && (scale < 0 || scale > MAX_SCALE))
			reader.trouble = "It has an invalid scale.";
		for (int i = 0; i < SCALE_COUNTS; i++)
			check_count(&reader);
	}
	if (reader.trouble == NULL && reader.next != reader.end)
		reader.trouble = "It is too long.";
	return reader.trouble;
}
