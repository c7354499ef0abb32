/*
 * encode.c
 *		From values to parameters of a statement.
 *
 * Values of common built-in types travel in binary form, and the statement is
 * told their types, so that nothing is left to be guessed.  All others travel as
 * text in a form that every setting reads; their types are in the statement.
 *
 * Text is in the router's database encoding, as the connection asked for.
 * PostgreSQL's send functions write for the router's client, so what may contain
 * text is sent by them only if that has the same encoding.
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
#include "remote/remote.h"

typedef enum EncodeMethod
{
	ENCODE_OUTPUT,				/* text, by the type's output function */
	ENCODE_PLAIN_OUTPUT,		/* the same, with plain settings */
	ENCODE_SEND,				/* binary, by the type's send function */
	ENCODE_INT16,				/* binary, by hand: what is common */
	ENCODE_INT32,
	ENCODE_INT64,
	ENCODE_BYTE,
	ENCODE_TEXT
} EncodeMethod;

/* How values of a type are written. */
typedef struct Encoder
{
	Oid			type;			/* the hash table's key */
	EncodeMethod method;
	bool		is_like_text;	/* its binary form contains text */
	FmgrInfo	output;
	FmgrInfo	send;
} Encoder;

static const struct
{
	Oid			type;
	EncodeMethod method;
}			quick_types[] = {
	{INT2OID, ENCODE_INT16},
	{INT4OID, ENCODE_INT32},
	{INT8OID, ENCODE_INT64},
	{DATEOID, ENCODE_INT32},
	{TIMESTAMPOID, ENCODE_INT64},
	{TIMESTAMPTZOID, ENCODE_INT64},
	{FLOAT4OID, ENCODE_INT32},
	{FLOAT8OID, ENCODE_INT64},
	{BOOLOID, ENCODE_BYTE},
	{TEXTOID, ENCODE_TEXT},
	{VARCHAROID, ENCODE_TEXT},
	{BPCHAROID, ENCODE_TEXT},
	{BYTEAOID, ENCODE_TEXT},
	{NUMERICOID, ENCODE_SEND},
	{UUIDOID, ENCODE_SEND},
	{INTERVALOID, ENCODE_SEND},
	{TIMEOID, ENCODE_SEND},
};

/* Their text is the same with all settings. */
static const Oid steady_types[] = {OIDOID, CHAROID, NAMEOID, JSONOID, JSONBOID};

static HTAB *encoders;
static MemoryContext encoder_context;
static bool is_valid;

static void
forget_encoders(Datum arg, int cache_id, uint32 hash_value)
{
	is_valid = false;
}

void
sl_encode_init(void)
{
	CacheRegisterSyscacheCallback(TYPEOID, forget_encoders, (Datum) 0);
}

static void
make_table(void)
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

static EncodeMethod
method_of(Oid type)
{
	Oid			element;

	for (int i = 0; i < (int) lengthof(quick_types); i++)
	{
		if (quick_types[i].type == type)
			return quick_types[i].method;
	}
	for (int i = 0; i < (int) lengthof(steady_types); i++)
	{
		if (steady_types[i] == type)
			return ENCODE_OUTPUT;
	}
	if (get_typtype(type) == TYPTYPE_ENUM)
		return ENCODE_OUTPUT;
	element = sl_decode_can_receive(type) ? get_element_type(type) : InvalidOid;
	if (OidIsValid(element) && method_of(element) >= ENCODE_SEND)
		return ENCODE_SEND;
	return ENCODE_PLAIN_OUTPUT;
}

static Encoder *
find_encoder(Oid type)
{
	Encoder    *encoder;
	Oid			function;
	bool		is_varlena;

	if (!is_valid)
		make_table();
	encoder = hash_search(encoders, &type, HASH_FIND, NULL);
	if (encoder != NULL)
		return encoder;
	getTypeOutputInfo(type, &function, &is_varlena);
	encoder = hash_search(encoders, &type, HASH_ENTER, NULL);
	encoder->method = method_of(type);
	encoder->is_like_text = OidIsValid(get_element_type(type));
	fmgr_info_cxt(function, &encoder->output, encoder_context);
	if (encoder->method == ENCODE_SEND)
	{
		getTypeBinaryOutputInfo(type, &function, &is_varlena);
		fmgr_info_cxt(function, &encoder->send, encoder_context);
	}
	return encoder;
}

/* Makes room for so many parameters, and for two more. */
static void
make_room(SlParams *params, int count)
{
	params->count = count;
	count += 2;
	params->types = palloc0(sizeof(Oid) * count);
	params->values = palloc0(sizeof(char *) * count);
	params->lengths = palloc0(sizeof(int) * count);
	params->formats = palloc0(sizeof(int) * count);
}

/* Adds a number; there must be room. */
void
sl_params_add(SlParams *params, int64 value)
{
	params->types[params->count] = INT8OID;
	params->values[params->count++] = psprintf(INT64_FORMAT, value);
}

static char *
encode_number(EncodeMethod method, Datum value, int *length)
{
	char	   *data = palloc(sizeof(uint64));
	uint64		wide;
	uint32		word;
	uint16		half;

	switch (method)
	{
		case ENCODE_INT64:
			wide = pg_hton64((uint64) DatumGetInt64(value));
			memcpy(data, &wide, *length = sizeof(wide));
			break;
		case ENCODE_INT32:
			word = pg_hton32((uint32) DatumGetInt32(value));
			memcpy(data, &word, *length = sizeof(word));
			break;
		case ENCODE_INT16:
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

	if (encoder->method != ENCODE_TEXT && encoder->method != ENCODE_SEND)
		return encode_number(encoder->method, value, length);
	data = encoder->method == ENCODE_TEXT ? PG_DETOAST_DATUM_PACKED(value) :
		(struct varlena *) SendFunctionCall(&encoder->send, value);
	*length = (int) VARSIZE_ANY_EXHDR(data);
	return VARDATA_ANY(data);
}

static bool
is_sent_binary(const Encoder *encoder)
{
	return encoder->method >= ENCODE_SEND &&
		(!encoder->is_like_text || pg_get_client_encoding() == GetDatabaseEncoding());
}

/*
 * Writes a value.  It is NULL, or of the type of that parameter.  *nest_level is
 * where settings were put aside, or 0.
 */
static void
encode(SlParams *params, int index, Oid type, Datum value, bool is_null, int *nest_level)
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
	if (encoder->method != ENCODE_OUTPUT && *nest_level == 0)
		*nest_level = sl_map_begin_plain_output();
	params->values[index] = OutputFunctionCall(&encoder->output, value);
}

/* Writes values of these types.  There will be room for two more parameters. */
void
sl_params_encode(SlParams *params, int count, const Oid *types, const Datum *values,
				 const bool *nulls)
{
	int			nest_level = 0;

	make_room(params, count);
	for (int i = 0; i < count; i++)
		encode(params, i, types[i], values[i], nulls[i], &nest_level);
	if (nest_level != 0)
		sl_map_end_plain_output(nest_level);
}
