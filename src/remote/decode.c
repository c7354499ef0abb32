/*
 * decode.c
 *		From a shard's rows to values.
 *
 * Values travel in binary form if every column has a built-in type, because
 * those have the same OID and form on every server; as text otherwise.  A
 * user-defined type may have another OID on each shard, and a regclass names a
 * table that need not exist here, so their text is read by the type that the
 * caller wants.
 *
 * A row is decoded in two steps: into the types that the shard sent, which is
 * what rows are compared by when streams are merged, and from there into the
 * types that the caller wants.
 *
 * Rows may be read long after they were asked for, as by a cursor, and settings
 * may have changed meanwhile.  So text is read with the settings under which the
 * shard writes it.  And binary text is in the router's database encoding, as the
 * connection asked for, while PostgreSQL's receive functions expect the encoding
 * of the router's client: that is set aside while they run.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "pgtime.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/xml.h"

#include "base/base.h"
#include "remote/remote.h"

typedef enum DecodeMethod
{
	DECODE_INPUT,				/* text, by the type's input function */
	DECODE_RECEIVE,				/* binary, by the type's receive function */
	DECODE_INT16,				/* binary, by hand: what is common */
	DECODE_INT32,
	DECODE_INT64,
	DECODE_BYTE,
	DECODE_TEXT
} DecodeMethod;

typedef struct WireColumn
{
	DecodeMethod method;
	FmgrInfo	function;
	Oid			io_param;
} WireColumn;

/* What decides how dates and times are written. */
typedef struct Format
{
	int			date_style;
	int			date_order;
	int			interval_style;
	pg_tz	   *timezone;
	int			xml_option;
} Format;

typedef struct OutputColumn
{
	int			source;			/* column on the wire, or -1 */
	ExprState  *coercion;		/* NULL: as it is */
} OutputColumn;

static const struct
{
	Oid			type;
	DecodeMethod method;
}			quick_types[] = {
	{INT2OID, DECODE_INT16},
	{INT4OID, DECODE_INT32},
	{INT8OID, DECODE_INT64},
	{DATEOID, DECODE_INT32},
	{TIMESTAMPOID, DECODE_INT64},
	{TIMESTAMPTZOID, DECODE_INT64},
	{FLOAT4OID, DECODE_INT32},
	{FLOAT8OID, DECODE_INT64},
	{BOOLOID, DECODE_BYTE},
	{TEXTOID, DECODE_TEXT},
	{VARCHAROID, DECODE_TEXT},
	{BPCHAROID, DECODE_TEXT},
	{JSONOID, DECODE_TEXT},
	{BYTEAOID, DECODE_TEXT},
};

/* A built-in type that is the same on all servers. */
static bool
is_portable(Oid type)
{
	char		kind = get_typtype(type);

	return type < FirstNormalObjectId && kind != TYPTYPE_PSEUDO &&
		kind != TYPTYPE_COMPOSITE && kind != '\0';
}

/* Are its values too?  Those that name objects of a database are not. */
static bool
has_portable_values(Oid type)
{
	return is_portable(type) && !sl_key_names_local_object(type);
}

/* Can values of the type travel in binary form, and be the same there? */
bool
sl_decode_can_receive(Oid type)
{
	Oid			element = get_element_type(type);
	HeapTuple	tuple;
	bool		result;

	if (!has_portable_values(type) || (OidIsValid(element) && !sl_decode_can_receive(element)))
		return false;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	result = HeapTupleIsValid(tuple) &&
		OidIsValid(((Form_pg_type) GETSTRUCT(tuple))->typreceive);
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return result;
}

/* Tells whether a statement's rows can travel in binary form. */
bool
sl_decode_is_binary(const SlPrepared *prepared)
{
	for (int i = 0; i < prepared->column_count; i++)
	{
		if (!sl_decode_can_receive(prepared->types[i]))
			return false;
	}
	return true;
}

static void
init_wire_column(WireColumn *column, Oid type, bool binary)
{
	Oid			function;

	if (!binary)
	{
		column->method = DECODE_INPUT;
		getTypeInputInfo(type, &function, &column->io_param);
		fmgr_info(function, &column->function);
		return;
	}
	for (int i = 0; i < (int) lengthof(quick_types); i++)
	{
		if (quick_types[i].type == type)
		{
			column->method = quick_types[i].method;
			return;
		}
	}
	column->method = DECODE_RECEIVE;
	getTypeBinaryInputInfo(type, &function, &column->io_param);
	fmgr_info(function, &column->function);
}

/* The type in which a column is kept after it has come. */
static Oid
wire_type(const SlPrepared *prepared, int column, TupleDesc wanted, const int *sources)
{
	Oid			type = prepared->types[column];

	if (has_portable_values(type))
		return type;
	for (int i = 0; i < wanted->natts; i++)
	{
		if (sources[i] == column)
			return TupleDescAttr(wanted, i)->atttypid;
	}
	return InvalidOid;
}

/* Can the columns be brought to the wanted types? */
bool
sl_decode_fits(const SlPrepared *prepared, TupleDesc wanted, const int *sources)
{
	for (int i = 0; i < wanted->natts; i++)
	{
		Oid			to = TupleDescAttr(wanted, i)->atttypid;
		Oid			from;

		if (sources[i] < 0)
			continue;
		from = wire_type(prepared, sources[i], wanted, sources);
		if (from != to && !can_coerce_type(1, &from, &to, COERCION_ASSIGNMENT))
			return false;
	}
	return true;
}

static void
refuse_column(const char *shard, int column, const char *name, Oid from, Oid to)
{
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("column %d (\"%s\") of shard \"%s\" has another type than the column list",
				   column + 1, name, shard),
			errdetail("The shard sends %s, and %s is wanted.",
					  format_type_be(from), format_type_be(to)));
}

/* An expression that brings a value to the wanted type, or NULL. */
static ExprState *
make_coercion(Oid from, int32 from_typmod, Form_pg_attribute to)
{
	CaseTestExpr *value;
	Node	   *expression;

	if (from == to->atttypid && (to->atttypmod < 0 || to->atttypmod == from_typmod))
		return NULL;
	value = makeNode(CaseTestExpr);
	value->typeId = from;
	value->typeMod = -1;
	value->collation = get_typcollation(from);
	expression = coerce_to_target_type(NULL, (Node *) value, from, to->atttypid,
									   to->atttypmod, COERCION_ASSIGNMENT,
									   COERCE_IMPLICIT_CAST, -1);
	return expression == NULL ? NULL : ExecInitExpr((Expr *) expression, NULL);
}

struct SlDecoder
{
	int			wire_count;
	WireColumn *wire;
	bool		uses_input;		/* some values are read as text */
	bool		uses_receive;	/* or by receive functions */
	bool		converts;		/* some values are brought to other types */
	Format		format;			/* of text */
	TupleDesc	wire_descriptor;
	int			output_count;
	OutputColumn *outputs;
	ExprContext *context;
};

/*
 * Prepares to decode what a statement returns.  "sources" tells for each wanted
 * column which one of the shard's it is; -1 is none.  A column that cannot be
 * brought to the wanted type is an error (SL006).
 */
SlDecoder *
sl_decoder_make(const SlPrepared *prepared, bool binary, TupleDesc wanted,
				const int *sources, const char *shard)
{
	SlDecoder  *decoder = palloc0(sizeof(SlDecoder));

	decoder->wire_count = prepared->column_count;
	decoder->wire = palloc0(sizeof(WireColumn) * Max(decoder->wire_count, 1));
	decoder->wire_descriptor = CreateTemplateTupleDesc(decoder->wire_count);
	decoder->context = CreateStandaloneExprContext();
	for (int i = 0; i < decoder->wire_count; i++)
	{
		Oid			type = wire_type(prepared, i, wanted, sources);

		if (!OidIsValid(type))
			ereport(ERROR,
					errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("rows cannot be ordered by an expression of type %s that is not in the select list",
						   is_portable(prepared->types[i]) ? format_type_be(prepared->types[i]) :
						   "the shard's own"),
					errhint("Add the expression to the select list."));
		init_wire_column(&decoder->wire[i], type, binary);
		decoder->uses_input = decoder->uses_input || decoder->wire[i].method == DECODE_INPUT;
		decoder->uses_receive = decoder->uses_receive || decoder->wire[i].method == DECODE_RECEIVE;
		TupleDescInitEntry(decoder->wire_descriptor, i + 1, prepared->names[i], type, -1, 0);
	}
	decoder->output_count = wanted->natts;
	decoder->outputs = palloc0(sizeof(OutputColumn) * Max(wanted->natts, 1));
	for (int i = 0; i < wanted->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(wanted, i);
		OutputColumn *output = &decoder->outputs[i];
		Oid			from;
		int32		from_typmod;

		output->source = sources[i];
		if (output->source < 0)
			continue;
		from = TupleDescAttr(decoder->wire_descriptor, output->source)->atttypid;
		from_typmod = has_portable_values(prepared->types[output->source]) ?
			prepared->typmods[output->source] : -1;
		output->coercion = make_coercion(from, from_typmod, attribute);
		decoder->converts = decoder->converts || output->coercion != NULL;
		if (output->coercion == NULL && from != attribute->atttypid)
			refuse_column(shard, output->source, prepared->names[output->source],
						  from, attribute->atttypid);
	}
	return decoder;
}

TupleDesc
sl_decoder_wire_descriptor(const SlDecoder *decoder)
{
	return decoder->wire_descriptor;
}

/* Does it take memory to bring a row to the wanted types? */
bool
sl_decoder_converts(const SlDecoder *decoder)
{
	return decoder->converts;
}

/* Reads one value; what it needs is in the current memory context. */
static Datum
decode_value(WireColumn *column, char *data, int length)
{
	StringInfoData buffer;
	uint64		wide;
	uint32		word;
	uint16		half;

	switch (column->method)
	{
		case DECODE_INPUT:
			return InputFunctionCall(&column->function, data, column->io_param, -1);
		case DECODE_INT16:
			memcpy(&half, data, sizeof(half));
			return Int16GetDatum((int16) pg_ntoh16(half));
		case DECODE_INT32:
			memcpy(&word, data, sizeof(word));
			return Int32GetDatum((int32) pg_ntoh32(word));
		case DECODE_INT64:
			memcpy(&wide, data, sizeof(wide));
			return Int64GetDatum((int64) pg_ntoh64(wide));
		case DECODE_BYTE:
			return BoolGetDatum(*data != 0);
		case DECODE_TEXT:
			return PointerGetDatum(cstring_to_text_with_len(data, length));
		case DECODE_RECEIVE:
			break;
	}
	buffer.data = data;
	buffer.len = length;
	buffer.maxlen = length;
	buffer.cursor = 0;
	return ReceiveFunctionCall(&column->function, &buffer, column->io_param, -1);
}

static Format
get_format(void)
{
	Format		format;

	format.date_style = DateStyle;
	format.date_order = DateOrder;
	format.interval_style = IntervalStyle;
	format.timezone = session_timezone;
	format.xml_option = xmloption;
	return format;
}

static void
set_format(const Format *format)
{
	DateStyle = format->date_style;
	DateOrder = format->date_order;
	IntervalStyle = format->interval_style;
	session_timezone = format->timezone;
	xmloption = format->xml_option;
}

/* The rows are asked for now, by a session with these settings. */
void
sl_decoder_begin(SlDecoder *decoder, bool plain_values)
{
	decoder->format = get_format();

	/* A row may have any XML, whatever the session would take. */
	decoder->format.xml_option = XMLOPTION_CONTENT;
	if (plain_values)
	{
		decoder->format.date_style = USE_ISO_DATES;
		decoder->format.interval_style = INTSTYLE_POSTGRES;
	}
}

static bool
has_other_format(const SlDecoder *decoder)
{
	const Format *format = &decoder->format;

	if (format->xml_option != xmloption && (decoder->uses_input || decoder->uses_receive))
		return true;
	return decoder->uses_input &&
		(format->date_style != DateStyle || format->date_order != DateOrder ||
		 format->interval_style != IntervalStyle || format->timezone != session_timezone);
}

static void
decode_row(SlDecoder *decoder, const PGresult *result, int row, Datum *values, bool *nulls)
{
	for (int i = 0; i < decoder->wire_count; i++)
	{
		int			length = PQgetlength(result, row, i);

		/* This is done a million times: a value with a length is not NULL. */
		nulls[i] = length == 0 && PQgetisnull(result, row, i);
		values[i] = nulls[i] ? (Datum) 0 :
			decode_value(&decoder->wire[i], PQgetvalue(result, row, i), length);
	}
}

/* The same with the settings and the encoding that the row was sent with. */
static void
decode_other_row(SlDecoder *decoder, const PGresult *result, int row, Datum *values, bool *nulls)
{
	Format		format = get_format();
	int			encoding = pg_get_client_encoding();

	PG_TRY();
	{
		set_format(&decoder->format);
		SetClientEncoding(GetDatabaseEncoding());
		decode_row(decoder, result, row, values, nulls);
	}
	PG_FINALLY();
	{
		set_format(&format);
		SetClientEncoding(encoding);
	}
	PG_END_TRY();
}

/* Decodes a row as the shard sent it, into the current memory context. */
void
sl_decoder_row(SlDecoder *decoder, const PGresult *result, int row, Datum *values, bool *nulls)
{
	if (has_other_format(decoder) ||
		(decoder->uses_receive && pg_get_client_encoding() != GetDatabaseEncoding()))
		decode_other_row(decoder, result, row, values, nulls);
	else
		decode_row(decoder, result, row, values, nulls);
}

/*
 * Brings a decoded row to the wanted types.  Values that need no change are
 * passed on, not copied.  Columns without a source are left alone.
 */
void
sl_decoder_convert(SlDecoder *decoder, const Datum *wire_values, const bool *wire_nulls,
				   Datum *values, bool *nulls)
{
	for (int i = 0; i < decoder->output_count; i++)
	{
		const OutputColumn *output = &decoder->outputs[i];

		if (output->source < 0)
			continue;
		values[i] = wire_values[output->source];
		nulls[i] = wire_nulls[output->source];
		if (output->coercion == NULL)
			continue;
		decoder->context->caseValue_datum = values[i];
		decoder->context->caseValue_isNull = nulls[i];
		values[i] = ExecEvalExpr(output->coercion, decoder->context, &nulls[i]);
	}
}
