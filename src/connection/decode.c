/*
 * decode.c
 *		Decodes rows that a shard sends.
 *
 * Rows are sent in binary form if every column has a built-in type, because
 * those have the same OID and format on every server, and as text otherwise.  A
 * user-defined type may have a different OID on each shard, and a regclass names
 * a table that need not exist on the router, so their text is read by the input
 * function of the type that the caller wants.
 *
 * A row is decoded in two steps: into the types that the shard sent, by which
 * rows are compared when streams are merged, and from these into the types that
 * the caller wants.
 *
 * Rows may be read long after the statement was sent, as by a cursor, and settings
 * may have changed meanwhile.  So text is read with the settings under which the
 * shard wrote it.  Text in binary form is in the router's database encoding, which
 * is the connection's client_encoding, while PostgreSQL's receive functions expect
 * the encoding of the router's client: client_encoding is switched while they run.
 *
 * Input of a shard is validated: each value must have the length of its type, be
 * in range and, if it is text, valid in the encoding.  PostgreSQL's receive
 * functions do the same for the types that they read.  PostgreSQL does not send
 * invalid values in binary form, so one is a protocol violation
 * (protocol_check.c).
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
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/xml.h"

#include "base/base.h"
#include "connection/connection.h"

typedef struct WireColumn
{
	SlValueFormat format;
	FmgrInfo	function;
	Oid			io_param;
} WireColumn;

/* The settings that decide how text is read. */
typedef struct Format
{
	int			date_style;
	int			date_order;
	int			interval_style;
	pg_tz	   *timezone;
	int			xml_option;
	bool		array_nulls;
} Format;

typedef struct OutputColumn
{
	int			source;			/* column on the wire, or -1 */
	ExprState  *coercion;		/* NULL: as it is */
} OutputColumn;

/* Is it a built-in type, which is the same on all servers? */
static bool
is_portable(Oid type)
{
	char		kind = get_typtype(type);

	return type < FirstNormalObjectId && kind != TYPTYPE_PSEUDO &&
		kind != TYPTYPE_COMPOSITE && kind != '\0';
}

/* Are its values the same, too?  Those that name objects of a database are not. */
static bool
has_portable_values(Oid type)
{
	return is_portable(type) && !sl_key_names_local_object(type);
}

/* Can values of the type be sent in binary form, with the same meaning? */
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

/* Can the rows of a statement be sent in binary form? */
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

	column->format = binary ? sl_binary_format(type) : SL_FORMAT_TEXT;

	/* The receive function checks the syntax. */
	if (column->format == SL_FORMAT_JSON)
		column->format = SL_FORMAT_FUNCTION;
	if (column->format == SL_FORMAT_TEXT)
		getTypeInputInfo(type, &function, &column->io_param);
	else if (column->format == SL_FORMAT_FUNCTION)
		getTypeBinaryInputInfo(type, &function, &column->io_param);
	else
		return;
	fmgr_info(function, &column->function);
}

/* Returns the type that a column is decoded into first, or InvalidOid. */
static Oid
get_wire_type(const SlPrepared *prepared, int column, TupleDesc wanted, const int *sources)
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

/* Can the columns be coerced to the wanted types? */
bool
sl_decode_fits(const SlPrepared *prepared, TupleDesc wanted, const int *sources)
{
	for (int i = 0; i < wanted->natts; i++)
	{
		Oid			to = TupleDescAttr(wanted, i)->atttypid;
		Oid			from;

		if (sources[i] < 0)
			continue;
		from = get_wire_type(prepared, sources[i], wanted, sources);
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

/*
 * Returns an expression that coerces a value to the wanted type; NULL if there is
 * none, or none is needed.
 */
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
	bool		converts;		/* some values are coerced to other types */
	int			receiving;		/* column that a receive function reads, or -1 */
	Format		format;			/* in which text is read */
	TupleDesc	wire_descriptor;
	int			output_count;
	OutputColumn *outputs;
	ExprContext *context;
};

/* A row that is being read, for errors. */
typedef struct Reading
{
	SlDecoder  *decoder;
	SlConn	   *conn;
} Reading;

/*
 * Prepares to decode what a statement returns.  "sources" tells for each wanted
 * column which one of the shard's it is; -1 is none.  Raises an error (SL006) if a
 * column cannot be coerced to the wanted type.  Allocated in the current memory
 * context.
 */
SlDecoder *
sl_decoder_make(const SlPrepared *prepared, bool binary, TupleDesc wanted,
				const int *sources, const char *shard)
{
	SlDecoder  *decoder = palloc0(sizeof(SlDecoder));

	decoder->wire_count = prepared->column_count;
	decoder->receiving = -1;
	decoder->wire = palloc0(sizeof(WireColumn) * Max(decoder->wire_count, 1));
	decoder->wire_descriptor = CreateTemplateTupleDesc(decoder->wire_count);
	decoder->context = CreateStandaloneExprContext();
	for (int i = 0; i < decoder->wire_count; i++)
	{
		Oid			type = get_wire_type(prepared, i, wanted, sources);

		if (!OidIsValid(type))
			ereport(ERROR,
					errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("rows cannot be ordered by an expression of type %s that is not in the select list",
						   is_portable(prepared->types[i]) ? format_type_be(prepared->types[i]) :
						   "the shard's own"),
					errhint("Add the expression to the select list."));
		init_wire_column(&decoder->wire[i], type, binary);
		decoder->uses_input = decoder->uses_input || decoder->wire[i].format == SL_FORMAT_TEXT;
		decoder->uses_receive = decoder->uses_receive || decoder->wire[i].format == SL_FORMAT_FUNCTION;
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

/* Does sl_decoder_convert() allocate memory? */
bool
sl_decoder_converts(const SlDecoder *decoder)
{
	return decoder->converts;
}

/*
 * Does a statement's result have the columns that the decoder was made for?  The
 * decoder may have been made for another shard.
 */
bool
sl_decoder_reads(const SlDecoder *decoder, const SlPrepared *prepared)
{
	if (prepared->column_count != decoder->wire_count)
		return false;
	for (int i = 0; i < decoder->wire_count; i++)
	{
		if (prepared->types[i] != TupleDescAttr(decoder->wire_descriptor, i)->atttypid)
			return false;
	}
	return true;
}

pg_noreturn static void
refuse_value(const SlDecoder *decoder, SlConn *conn, int column, const char *what)
{
	Form_pg_attribute attribute = TupleDescAttr(decoder->wire_descriptor, column);

	/* The statement fails; the connection must not be used again. */
	conn->is_broken = true;
	sl_failure_raise(sl_failure_violation(conn->shard,
										  psprintf("A value of column %d, of type %s, %s.", column + 1,
												   format_type_be(attribute->atttypid), what)),
					 conn->shard, NULL);
}

/* Calls the type's receive function, which must read the whole value. */
static Datum
receive_value(SlDecoder *decoder, SlConn *conn, int column, char *data, int length)
{
	WireColumn *wire = &decoder->wire[column];
	StringInfoData buffer = {.data = data,.len = length,.maxlen = length};
	Datum		value;

	decoder->receiving = column;
	value = ReceiveFunctionCall(&wire->function, &buffer, wire->io_param, -1);
	decoder->receiving = -1;
	if (buffer.cursor != length)
		refuse_value(decoder, conn, column, "is too long");
	return value;
}

/* Calls the type's input function.  libpq has added a zero byte to the text. */
static Datum
input_value(SlDecoder *decoder, SlConn *conn, int column, char *data, int length)
{
	WireColumn *wire = &decoder->wire[column];

	if (!sl_encoding_is_valid(data, length))
		refuse_value(decoder, conn, column, "is not valid in the encoding of the router's database");
	return InputFunctionCall(&wire->function, data, wire->io_param, -1);
}

static inline void
check_length(const SlDecoder *decoder, SlConn *conn, int column, int length, int wanted)
{
	if (unlikely(length != wanted))
		refuse_value(decoder, conn, column, "has a wrong length");
}

/* Decodes one value, in the current memory context. */
static Datum
decode_value(SlDecoder *decoder, SlConn *conn, int column, char *data, int length)
{
	uint64		wide;
	uint32		word;
	uint16		half;

	switch (decoder->wire[column].format)
	{
		case SL_FORMAT_TEXT:
			return input_value(decoder, conn, column, data, length);
		case SL_FORMAT_FUNCTION:
		case SL_FORMAT_JSON:
			return receive_value(decoder, conn, column, data, length);
		case SL_FORMAT_INT16:
			check_length(decoder, conn, column, length, sizeof(half));
			memcpy(&half, data, sizeof(half));
			return Int16GetDatum((int16) pg_ntoh16(half));
		case SL_FORMAT_INT32:
			check_length(decoder, conn, column, length, sizeof(word));
			memcpy(&word, data, sizeof(word));
			return Int32GetDatum((int32) pg_ntoh32(word));
		case SL_FORMAT_INT64:
			check_length(decoder, conn, column, length, sizeof(wide));
			memcpy(&wide, data, sizeof(wide));
			return Int64GetDatum((int64) pg_ntoh64(wide));
		case SL_FORMAT_DATE:
			check_length(decoder, conn, column, length, sizeof(word));
			memcpy(&word, data, sizeof(word));
			word = pg_ntoh32(word);
			if (unlikely(!DATE_NOT_FINITE((DateADT) word) && !IS_VALID_DATE((DateADT) word)))
				refuse_value(decoder, conn, column, "is out of range");
			return DateADTGetDatum((DateADT) word);
		case SL_FORMAT_TIMESTAMP:
			check_length(decoder, conn, column, length, sizeof(wide));
			memcpy(&wide, data, sizeof(wide));
			wide = pg_ntoh64(wide);
			if (unlikely(!TIMESTAMP_NOT_FINITE((Timestamp) wide) &&
						 !IS_VALID_TIMESTAMP((Timestamp) wide)))
				refuse_value(decoder, conn, column, "is out of range");
			return TimestampGetDatum((Timestamp) wide);
		case SL_FORMAT_BOOL:
			check_length(decoder, conn, column, length, 1);
			return BoolGetDatum(*data != 0);
		case SL_FORMAT_STRING:
			if (unlikely(!sl_encoding_is_valid(data, length)))
				refuse_value(decoder, conn, column,
							 "is not valid in the encoding of the router's database");
			return PointerGetDatum(cstring_to_text_with_len(data, length));
		case SL_FORMAT_BYTEA:
			return PointerGetDatum(cstring_to_text_with_len(data, length));
	}
	pg_unreachable();
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
	format.array_nulls = Array_nulls;
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
	Array_nulls = format->array_nulls;
}

/* Notes the settings of the session, under which the shard will write rows. */
void
sl_decoder_begin(SlDecoder *decoder, bool plain_values)
{
	decoder->format = get_format();

	/* A row may have any XML, whatever the session's xmloption accepts. */
	decoder->format.xml_option = XMLOPTION_CONTENT;
	decoder->format.array_nulls = true;
	if (plain_values)
	{
		decoder->format.date_style = USE_ISO_DATES;
		decoder->format.interval_style = INTSTYLE_POSTGRES;
	}
}

/* Must settings be switched to decode a row? */
static bool
needs_other_format(const SlDecoder *decoder)
{
	const Format *format = &decoder->format;

	if (format->xml_option != xmloption && (decoder->uses_input || decoder->uses_receive))
		return true;
	return decoder->uses_input &&
		(format->date_style != DateStyle || format->date_order != DateOrder ||
		 format->interval_style != IntervalStyle || format->timezone != session_timezone ||
		 format->array_nulls != Array_nulls);
}

static void
decode_row(SlDecoder *decoder, SlConn *conn, const PGresult *result, int row, Datum *values,
		   bool *nulls)
{
	for (int i = 0; i < decoder->wire_count; i++)
	{
		int			length = PQgetlength(result, row, i);

		/* For speed: a value that is not empty is not NULL. */
		nulls[i] = length == 0 && PQgetisnull(result, row, i);
		values[i] = nulls[i] ? (Datum) 0 :
			decode_value(decoder, conn, i, PQgetvalue(result, row, i), length);
	}
}

/* The same with the settings and the encoding that the row was written with. */
static void
decode_row_in_format(SlDecoder *decoder, SlConn *conn, const PGresult *result, int row, Datum *values,
					 bool *nulls)
{
	Format		format = get_format();
	int			encoding = pg_get_client_encoding();

	PG_TRY();
	{
		set_format(&decoder->format);
		SetClientEncoding(GetDatabaseEncoding());
		decode_row(decoder, conn, result, row, values, nulls);
	}
	PG_FINALLY();
	{
		set_format(&format);
		SetClientEncoding(encoding);
	}
	PG_END_TRY();
}

/*
 * Error context callback: turns an error of a receive function into a protocol
 * violation of the shard.
 */
static void
blame_shard(void *arg)
{
	Reading    *reading = arg;
	int			column = reading->decoder->receiving;
	int			code = geterrcode();

	if (column < 0 || code == ERRCODE_QUERY_CANCELED || code == ERRCODE_OUT_OF_MEMORY ||
		ERRCODE_TO_CATEGORY(code) == ERRCODE_TO_CATEGORY(ERRCODE_ADMIN_SHUTDOWN))
		return;
	reading->decoder->receiving = -1;
	reading->conn->is_broken = true;
	errcode(ERRCODE_PROTOCOL_VIOLATION);
	errcontext("value of column %d from shard \"%s\"", column + 1, reading->conn->shard);
}

/* Decodes a row with receive functions, whose errors are the shard's fault. */
static void
receive_row(SlDecoder *decoder, SlConn *conn, const PGresult *result, int row, Datum *values,
			bool *nulls)
{
	Reading		reading = {.decoder = decoder,.conn = conn};
	ErrorContextCallback callback = {
		.previous = error_context_stack,.callback = blame_shard,.arg = &reading
	};

	decoder->receiving = -1;
	error_context_stack = &callback;
	if (needs_other_format(decoder) || pg_get_client_encoding() != GetDatabaseEncoding())
		decode_row_in_format(decoder, conn, result, row, values, nulls);
	else
		decode_row(decoder, conn, result, row, values, nulls);
	error_context_stack = callback.previous;
}

/*
 * Decodes a row as the shard sent it, into the current memory context.  Raises an
 * error if the row is not what the decoder was made for, after which the
 * connection is not used again.
 */
void
sl_decoder_row(SlDecoder *decoder, SlConn *conn, const PGresult *result, int row, Datum *values,
			   bool *nulls)
{
	if (unlikely(PQnfields(result) != decoder->wire_count))
	{
		conn->is_broken = true;
		sl_failure_raise(sl_failure_violation(conn->shard, "A row has not the columns that were described."),
						 conn->shard, NULL);
	}
	if (decoder->uses_receive)
		receive_row(decoder, conn, result, row, values, nulls);
	else if (needs_other_format(decoder))
		decode_row_in_format(decoder, conn, result, row, values, nulls);
	else
		decode_row(decoder, conn, result, row, values, nulls);
}

/*
 * Coerces a decoded row to the wanted types.  Values that need no coercion are
 * passed on, not copied.  Columns without a source are not set.
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
