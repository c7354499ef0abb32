/*
 * encode.c
 *		Encodes values as parameters of a statement.
 *
 * Values of common built-in types are sent in binary form, with the types of the
 * parameters.  All others are sent as text, in a form that is read in the same way
 * under all settings; their types are in the statement.
 *
 * Text is in the router's database encoding, which is the connection's
 * client_encoding.  PostgreSQL's send functions write in the encoding of the
 * router's client, so they are used for what may contain text only if that
 * encoding is the same.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "connection/connection.h"

/* How values of a type are written. */
typedef struct Encoder
{
	Oid			type;			/* the hash table's key */
	SlValueFormat format;
	bool		needs_plain_output; /* its text depends on settings */
	bool		may_have_text;	/* its binary form may contain text */
	FmgrInfo	output;
	FmgrInfo	send;
} Encoder;

/* Further types that are sent in binary form, by their send functions. */
static const Oid send_types[] = {NUMERICOID, UUIDOID, INTERVALOID, TIMEOID};

/* Types whose text is the same under all settings. */
static const Oid invariant_types[] = {OIDOID, CHAROID, NAMEOID, JSONOID, JSONBOID};

static HTAB *encoders;
static MemoryContext encoder_context;
static bool is_valid;

static void
invalidate_encoders(Datum arg, int cache_id, uint32 hash_value)
{
	is_valid = false;
}

void
sl_encode_init(void)
{
	CacheRegisterSyscacheCallback(TYPEOID, invalidate_encoders, (Datum) 0);
}

static void
make_encoder_table(void)
{
	HASHCTL		control = {0};

	if (encoder_context == NULL)
		encoder_context = AllocSetContextCreate(TopMemoryContext, "shardlet encoders",
												ALLOCSET_SMALL_SIZES);
	MemoryContextReset(encoder_context);
	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(Encoder);
	control.hcxt = encoder_context;
	encoders = hash_create("shardlet encoders", 32, &control,
						   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	is_valid = true;
}

static bool
is_listed_type(const Oid *types, int count, Oid type)
{
	for (int i = 0; i < count; i++)
	{
		if (types[i] == type)
			return true;
	}
	return false;
}

static SlValueFormat
choose_format(Oid type)
{
	SlValueFormat format = sl_binary_format(type);
	Oid			element;

	if (format == SL_FORMAT_JSON)
		return SL_FORMAT_TEXT;
	if (format != SL_FORMAT_FUNCTION ||
		is_listed_type(send_types, lengthof(send_types), type))
		return format;
	if (is_listed_type(invariant_types, lengthof(invariant_types), type) ||
		get_typtype(type) == TYPTYPE_ENUM)
		return SL_FORMAT_TEXT;

	/* An array of such a type */
	element = sl_decode_can_receive(type) ? get_element_type(type) : InvalidOid;
	return OidIsValid(element) && choose_format(element) != SL_FORMAT_TEXT ?
		SL_FORMAT_FUNCTION : SL_FORMAT_TEXT;
}

static Encoder *
find_encoder(Oid type)
{
	Encoder    *encoder;
	Oid			function;
	bool		is_varlena;

	if (!is_valid)
		make_encoder_table();
	encoder = hash_search(encoders, &type, HASH_FIND, NULL);
	if (encoder != NULL)
		return encoder;
	getTypeOutputInfo(type, &function, &is_varlena);
	encoder = hash_search(encoders, &type, HASH_ENTER, NULL);
	encoder->format = choose_format(type);
	encoder->needs_plain_output = get_typtype(type) != TYPTYPE_ENUM &&
		!is_listed_type(invariant_types, lengthof(invariant_types), type);
	encoder->may_have_text = OidIsValid(get_element_type(type));
	fmgr_info_cxt(function, &encoder->output, encoder_context);
	if (encoder->format == SL_FORMAT_FUNCTION)
	{
		getTypeBinaryOutputInfo(type, &function, &is_varlena);
		fmgr_info_cxt(function, &encoder->send, encoder_context);
	}
	return encoder;
}

/* Allocates arrays for that number of parameters, and two more. */
static void
allocate_params(SlParams *params, int count)
{
	params->count = count;
	count += 2;
	params->types = palloc0(sizeof(Oid) * count);
	params->values = palloc0(sizeof(char *) * count);
	params->lengths = palloc0(sizeof(int) * count);
	params->formats = palloc0(sizeof(int) * count);
}

/* Adds a number, for which sl_params_encode() has left room. */
void
sl_params_add(SlParams *params, int64 value)
{
	params->types[params->count] = INT8OID;
	params->values[params->count++] = psprintf(INT64_FORMAT, value);
}

static char *
encode_number(SlValueFormat format, Datum value, int *length)
{
	char	   *data = palloc(sizeof(uint64));
	uint64		wide;
	uint32		word;
	uint16		half;

	switch (format)
	{
		case SL_FORMAT_INT64:
		case SL_FORMAT_TIMESTAMP:
			wide = pg_hton64((uint64) DatumGetInt64(value));
			memcpy(data, &wide, *length = sizeof(wide));
			break;
		case SL_FORMAT_INT32:
		case SL_FORMAT_DATE:
			word = pg_hton32((uint32) DatumGetInt32(value));
			memcpy(data, &word, *length = sizeof(word));
			break;
		case SL_FORMAT_INT16:
			half = pg_hton16((uint16) DatumGetInt16(value));
			memcpy(data, &half, *length = sizeof(half));
			break;
		default:
			*data = DatumGetBool(value) ? 1 : 0;
			*length = 1;
			break;
	}
	return data;
}

static char *
encode_binary(Encoder *encoder, Datum value, int *length)
{
	struct varlena *data;

	switch (encoder->format)
	{
		case SL_FORMAT_STRING:
		case SL_FORMAT_BYTEA:
			data = PG_DETOAST_DATUM_PACKED(value);
			break;
		case SL_FORMAT_FUNCTION:
			data = (struct varlena *) SendFunctionCall(&encoder->send, value);
			break;
		default:
			return encode_number(encoder->format, value, length);
	}
	*length = (int) VARSIZE_ANY_EXHDR(data);
	return VARDATA_ANY(data);
}

static bool
is_sent_binary(const Encoder *encoder)
{
	return encoder->format != SL_FORMAT_TEXT &&
		(!encoder->may_have_text || pg_get_client_encoding() == GetDatabaseEncoding());
}

/*
 * Encodes a value of that type, or NULL.  *nest_level is the GUC nest level with
 * settings for plain output, or 0 if there is none yet.
 */
static void
encode_param(SlParams *params, int index, Oid type, Datum value, bool is_null, int *nest_level)
{
	Encoder    *encoder = find_encoder(type);

	params->formats[index] = is_sent_binary(encoder) ? 1 : 0;
	if (params->formats[index] == 1)
		params->types[index] = type;
	if (is_null)
		return;
	if (params->formats[index] == 1)
	{
		params->values[index] = encode_binary(encoder, value, &params->lengths[index]);
		return;
	}
	if (encoder->needs_plain_output && *nest_level == 0)
		*nest_level = sl_map_begin_plain_output();
	params->values[index] = OutputFunctionCall(&encoder->output, value);
}

/*
 * Encodes values of these types into the current memory context.  Leaves room for
 * two more parameters.
 */
void
sl_params_encode(SlParams *params, int count, const Oid *types, const Datum *values,
				 const bool *nulls)
{
	int			nest_level = 0;

	allocate_params(params, count);
	for (int i = 0; i < count; i++)
		encode_param(params, i, types[i], values[i], nulls[i], &nest_level);
	if (nest_level != 0)
		sl_map_end_plain_output(nest_level);
}
