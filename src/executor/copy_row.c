/*
 * copy_row.c
 *		From a row to what COPY ... FROM STDIN takes.
 *
 * Rows go in binary form if every column's type has the same form on every
 * server: a built-in type, an enum, whose values are sent by name, or a domain
 * over one of these.  COPY says nothing of the types of columns, but arrays and
 * composite values carry the OIDs of what is in them, so with user-defined types
 * inside they go as text; and then the whole row does.
 *
 * Text is written in a form that any setting of the shard reads in the same
 * way.  Both forms are in the router's database encoding, as the connections to
 * shards are, while PostgreSQL's send functions write the encoding of the
 * router's client: that one is replaced while they run.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "executor/multi_shard.h"

typedef struct RowColumn
{
	AttrNumber	attnum;
	char	   *name;
	SlValueFormat format;
	FmgrInfo	function;
} RowColumn;

struct SlCopyRow
{
	MemoryContext work;			/* reset for every row */
	StringInfoData output;
	bool		is_binary;
	bool		uses_send;
	bool		names_objects;	/* a column's values name local objects */
	int			column_count;
	RowColumn  *columns;
};

/* Returns the numbers of all columns that can be written to. */
List *
sl_copy_row_columns(TupleDesc descriptor)
{
	List	   *result = NIL;

	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(descriptor, i);

		if (!attribute->attisdropped && attribute->attgenerated == '\0')
			result = lappend_int(result, attribute->attnum);
	}
	return result;
}

static bool
can_send(Oid type)
{
	Oid			base = getBaseType(type);

	return get_typtype(base) == TYPTYPE_ENUM || sl_decode_can_receive(base);
}

static void
init_column(RowColumn *column, Form_pg_attribute attribute, bool binary)
{
	Oid			type = getBaseType(attribute->atttypid);
	Oid			function;
	bool		is_varlena;

	column->attnum = attribute->attnum;
	column->name = pstrdup(NameStr(attribute->attname));
	column->format = binary ? sl_binary_format(type) : SL_FORMAT_TEXT;
	if (column->format == SL_FORMAT_TEXT)
		getTypeOutputInfo(type, &function, &is_varlena);
	else if (column->format == SL_FORMAT_FUNCTION)
		getTypeBinaryOutputInfo(type, &function, &is_varlena);
	else
		return;
	fmgr_info(function, &column->function);
}

static SlCopyRow *
make_row(TupleDesc descriptor, List *columns, bool is_binary)
{
	SlCopyRow  *row = palloc0(sizeof(SlCopyRow));
	ListCell   *cell;

	row->work = AllocSetContextCreate(CurrentMemoryContext, "shardlet copied row",
									  ALLOCSET_SMALL_SIZES);
	initStringInfo(&row->output);
	row->is_binary = is_binary;
	foreach(cell, columns)
	{
		Oid			type = TupleDescAttr(descriptor, lfirst_int(cell) - 1)->atttypid;

		row->is_binary = row->is_binary && can_send(type);
		row->names_objects = row->names_objects || sl_key_names_local_object(type);
	}
	row->columns = palloc0(sizeof(RowColumn) * Max(list_length(columns), 1));
	foreach(cell, columns)
	{
		RowColumn  *column = &row->columns[row->column_count++];

		init_column(column, TupleDescAttr(descriptor, lfirst_int(cell) - 1), row->is_binary);
		row->uses_send = row->uses_send || column->format == SL_FORMAT_FUNCTION;
	}
	return row;
}

/*
 * Prepares to write rows of such a kind; "columns" are the attribute numbers of
 * those that are written.  Lives in the current memory context.
 */
SlCopyRow *
sl_copy_row_make(TupleDesc descriptor, List *columns)
{
	return make_row(descriptor, columns, true);
}

/* The same for rows that are parameters of a statement, and never binary. */
SlCopyRow *
sl_copy_row_make_text(TupleDesc descriptor, List *columns)
{
	return make_row(descriptor, columns, false);
}

bool
sl_copy_row_is_binary(const SlCopyRow *row)
{
	return row->is_binary;
}

/* Returns the command that takes such rows into a table. */
char *
sl_copy_row_sql(const SlCopyRow *row, const char *schema, const char *table)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "COPY %s", quote_qualified_identifier(schema, table));
	for (int i = 0; i < row->column_count; i++)
		appendStringInfo(&sql, "%s%s", i == 0 ? " (" : ", ",
						 quote_identifier(row->columns[i].name));
	appendStringInfo(&sql, "%s FROM STDIN%s", row->column_count > 0 ? ")" : "",
					 row->is_binary ? " (FORMAT binary)" : "");
	return sql.data;
}

/* Binary ---------------------------------------------------------------------- */

static void
put_int16(StringInfo output, int16 value)
{
	uint16		network = pg_hton16((uint16) value);

	appendBinaryStringInfo(output, (char *) &network, sizeof(network));
}

static void
put_int32(StringInfo output, int32 value)
{
	uint32		network = pg_hton32((uint32) value);

	appendBinaryStringInfo(output, (char *) &network, sizeof(network));
}

static void
put_int64(StringInfo output, int64 value)
{
	uint64		network = pg_hton64((uint64) value);

	appendBinaryStringInfo(output, (char *) &network, sizeof(network));
}

static void
put_bytes(StringInfo output, const char *data, int length)
{
	put_int32(output, length);
	appendBinaryStringInfo(output, data, length);
}

static void
put_binary(StringInfo output, RowColumn *column, Datum value)
{
	struct varlena *bytes;

	switch (column->format)
	{
		case SL_FORMAT_INT16:
			put_int32(output, sizeof(int16));
			put_int16(output, DatumGetInt16(value));
			break;
		case SL_FORMAT_INT32:
		case SL_FORMAT_DATE:
			put_int32(output, sizeof(int32));
			put_int32(output, DatumGetInt32(value));
			break;
		case SL_FORMAT_INT64:
		case SL_FORMAT_TIMESTAMP:
			put_int32(output, sizeof(int64));
			put_int64(output, DatumGetInt64(value));
			break;
		case SL_FORMAT_BOOL:
			put_int32(output, 1);
			appendStringInfoCharMacro(output, DatumGetBool(value) ? 1 : 0);
			break;
		case SL_FORMAT_STRING:
		case SL_FORMAT_BYTEA:
		case SL_FORMAT_JSON:
			bytes = PG_DETOAST_DATUM_PACKED(value);
			put_bytes(output, VARDATA_ANY(bytes), (int) VARSIZE_ANY_EXHDR(bytes));
			break;
		default:
			bytes = SendFunctionCall(&column->function, value);
			put_bytes(output, VARDATA(bytes), (int) (VARSIZE(bytes) - VARHDRSZ));
	}
}

static void
encode_binary(SlCopyRow *row, TupleTableSlot *slot)
{
	put_int16(&row->output, (int16) row->column_count);
	for (int i = 0; i < row->column_count; i++)
	{
		int			index = row->columns[i].attnum - 1;

		if (slot->tts_isnull[index])
			put_int32(&row->output, -1);
		else
			put_binary(&row->output, &row->columns[i], slot->tts_values[index]);
	}
}

static void
encode_in_database_encoding(SlCopyRow *row, TupleTableSlot *slot)
{
	int			encoding = pg_get_client_encoding();

	PG_TRY();
	{
		SetClientEncoding(GetDatabaseEncoding());
		encode_binary(row, slot);
	}
	PG_FINALLY();
	{
		SetClientEncoding(encoding);
	}
	PG_END_TRY();
}

/* Text ------------------------------------------------------------------------ */

/* Characters that mean something to COPY, and how they are written. */
static char
escaped(char c)
{
	switch (c)
	{
		case '\\':
			return '\\';
		case '\n':
			return 'n';
		case '\r':
			return 'r';
		case '\t':
			return 't';
		default:
			return '\0';
	}
}

static void
put_text(StringInfo output, const char *value)
{
	for (const char *c = value; *c != '\0'; c++)
	{
		char		escape = escaped(*c);

		if (escape != '\0')
			appendStringInfoCharMacro(output, '\\');
		appendStringInfoCharMacro(output, escape != '\0' ? escape : *c);
	}
}

/* Writes a value as COPY takes it in text form; NULL is a NULL. */
void
sl_copy_row_put_text(StringInfo output, const char *value)
{
	if (value == NULL)
		appendStringInfoString(output, "\\N");
	else
		put_text(output, value);
}

static void
encode_text(SlCopyRow *row, TupleTableSlot *slot)
{
	for (int i = 0; i < row->column_count; i++)
	{
		int			index = row->columns[i].attnum - 1;

		if (i > 0)
			appendStringInfoCharMacro(&row->output, '\t');
		sl_copy_row_put_text(&row->output, slot->tts_isnull[index] ? NULL :
							 OutputFunctionCall(&row->columns[i].function, slot->tts_values[index]));
	}
	appendStringInfoCharMacro(&row->output, '\n');
}

/* Would values be written in a way that not every session reads alike? */
static bool
needs_plain_output(const SlCopyRow *row)
{
	return row->names_objects || DateStyle != USE_ISO_DATES ||
		IntervalStyle != INTSTYLE_POSTGRES || extra_float_digits < 1;
}

/* An error before the end ends the transaction, and that restores the settings. */
static int
begin_plain_output(void)
{
	int			nest_level = NewGUCNestLevel();

	sl_guc_set_plain();
	(void) set_config_option("search_path", "pg_catalog", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	return nest_level;
}

static void
encode_plainly(SlCopyRow *row, TupleTableSlot *slot)
{
	int			nest_level = begin_plain_output();

	encode_text(row, slot);
	AtEOXact_GUC(true, nest_level);
}

/*
 * Writes each column as text; NULL is a NULL.  The values belong to the current
 * memory context.
 */
void
sl_copy_row_values(SlCopyRow *row, TupleTableSlot *slot, const char **values)
{
	bool		is_plain = !needs_plain_output(row);
	int			nest_level = is_plain ? 0 : begin_plain_output();

	slot_getallattrs(slot);
	for (int i = 0; i < row->column_count; i++)
	{
		int			index = row->columns[i].attnum - 1;

		values[i] = slot->tts_isnull[index] ? NULL :
			OutputFunctionCall(&row->columns[i].function, slot->tts_values[index]);
	}
	if (!is_plain)
		AtEOXact_GUC(true, nest_level);
}

/*
 * Returns the row as COPY takes it.  It is good until the next one is asked
 * for.
 */
StringInfo
sl_copy_row_encode(SlCopyRow *row, TupleTableSlot *slot)
{
	MemoryContext old_context = MemoryContextSwitchTo(row->work);

	resetStringInfo(&row->output);
	slot_getallattrs(slot);
	if (!row->is_binary && needs_plain_output(row))
		encode_plainly(row, slot);
	else if (!row->is_binary)
		encode_text(row, slot);
	else if (row->uses_send && pg_get_client_encoding() != GetDatabaseEncoding())
		encode_in_database_encoding(row, slot);
	else
		encode_binary(row, slot);
	MemoryContextSwitchTo(old_context);
	MemoryContextReset(row->work);
	return &row->output;
}
