/*
 * merge.c
 *		What columns a fan-out's shards return, and in which order rows come out.
 *
 * All shards must return the same columns, and these must fit what the caller
 * wants.  Rows are merged by the values that the shards sent, in the types that
 * the shards sorted them by, before they are brought to the caller's types.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/typcache.h"

#include "base/base.h"
#include "compat.h"
#include "fanout/stream.h"

/* Columns -------------------------------------------------------------------- */

static int
visible_count(const SlFanout *fanout, const SlPrepared *prepared)
{
	int			carried = fanout->spec.merge ? fanout->spec.text->carried_count : 0;

	return prepared->column_count - carried;
}

static int
wanted_count(const SlFanout *fanout)
{
	return fanout->spec.wanted->natts - (fanout->spec.shard_column >= 0 ? 1 : 0);
}

/* Do the columns fit what the caller wants? */
bool
sl_merge_is_wanted(const SlFanout *fanout, const SlStream *stream)
{
	return visible_count(fanout, stream->prepared) == wanted_count(fanout) &&
		sl_decode_fits(stream->prepared, fanout->spec.wanted, fanout->sources);
}

/* Fails if a shard has another number of columns than the caller wants. */
static void
check_column_count(SlFanout *fanout, const SlStream *stream)
{
	int			wanted = wanted_count(fanout);
	int			found = visible_count(fanout, stream->prepared);

	if (found == wanted)
		return;
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("shard \"%s\" returns %d columns, and the column list has %d",
				   stream->shard_name, found, wanted),
			found > wanted ?
			errdetail("Column %d is \"%s\".", wanted + 1, stream->prepared->names[wanted]) :
			errdetail("Column %d of the list is \"%s\".", found + 1,
					  NameStr(TupleDescAttr(fanout->spec.wanted,
											found + (fanout->spec.shard_column >= 0 &&
													 fanout->spec.shard_column <= found ? 1 : 0))->attname)));
}

/* A type's name, if it is the same on all servers. */
static const char *
type_text(Oid type)
{
	return type < FirstNormalObjectId ? format_type_be(type) : "a user-defined type";
}

static bool
is_same_type(Oid a, Oid b)
{
	return a == b || (a >= FirstNormalObjectId && b >= FirstNormalObjectId);
}

/* Compares a shard's columns with those of the first shard. */
static void
check_same_columns(const SlFanout *fanout, const SlStream *stream)
{
	const SlPrepared *a = fanout->model;
	const SlPrepared *b = stream->prepared;

	if (a->column_count != b->column_count)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("shards \"%s\" and \"%s\" return different numbers of columns",
					   fanout->model_shard, stream->shard_name),
				errdetail("They are %d and %d.", a->column_count, b->column_count));
	for (int i = 0; i < a->column_count; i++)
	{
		if (strcmp(a->names[i], b->names[i]) != 0)
			ereport(ERROR,
					errcode(SL_ERR_DIFFERENT),
					errmsg("column %d is \"%s\" on shard \"%s\" and \"%s\" on shard \"%s\"",
						   i + 1, a->names[i], fanout->model_shard, b->names[i], stream->shard_name),
					errhint("Name the columns instead of using *."));
		if (is_same_type(a->types[i], b->types[i]))
			continue;
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("column %d (\"%s\") has different types on shards \"%s\" and \"%s\"",
					   i + 1, b->names[i], fanout->model_shard, stream->shard_name),
				errdetail("They are %s and %s.", type_text(a->types[i]), type_text(b->types[i])));
	}
}

/*
 * For each item of ORDER BY two answers are asked for: the collation by which
 * the shard sorts it, and, of a type that is not built in, the type's name.
 * The protocol tells neither.
 */
#define ANSWERS_PER_ITEM 2

static const char *
answer(const SlPrepared *prepared, int index)
{
	return index < prepared->answer_count ? prepared->answers[index] : NULL;
}

/* All shards must order their rows by the same. */
static void
check_same_answers(const SlFanout *fanout, const SlStream *stream)
{
	for (int i = 0; i < fanout->model->answer_count; i++)
	{
		const char *a = answer(fanout->model, i);
		const char *b = answer(stream->prepared, i);

		if (a == b || (a != NULL && b != NULL && strcmp(a, b) == 0))
			continue;
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				i % ANSWERS_PER_ITEM == 0 ?
				errmsg("shards \"%s\" and \"%s\" order by different collations",
					   fanout->model_shard, stream->shard_name) :
				errmsg("shards \"%s\" and \"%s\" order by different types",
					   fanout->model_shard, stream->shard_name),
				errdetail("They are %s and %s.", a ? a : "none", b ? b : "none"),
				i % ANSWERS_PER_ITEM == 0 ?
				errhint("Write the collation into ORDER BY, such as COLLATE \"C\".") : 0);
	}
}

/* Are these the same columns? */
bool
sl_merge_is_same(const SlPrepared *a, const SlPrepared *b)
{
	if (a->column_count != b->column_count)
		return false;
	for (int i = 0; i < a->column_count; i++)
	{
		if (!is_same_type(a->types[i], b->types[i]) || strcmp(a->names[i], b->names[i]) != 0)
			return false;
	}
	return true;
}

/* Which column of the shard's is each wanted one? */
void
sl_merge_assign_sources(SlFanout *fanout)
{
	int			next = 0;

	fanout->sources = palloc(sizeof(int) * Max(fanout->spec.wanted->natts, 1));
	for (int i = 0; i < fanout->spec.wanted->natts; i++)
		fanout->sources[i] = i == fanout->spec.shard_column ? -1 : next++;
}

/* The shard's name as a value of the column that receives it. */
static Datum
make_shard_value(Form_pg_attribute attribute, const SlStream *stream)
{
	if (attribute->atttypid == INT4OID)
		return Int32GetDatum(stream->shard->id);
	if (attribute->atttypid == NAMEOID)
		return NameGetDatum(&stream->shard->name);
	if (attribute->atttypid == VARCHAROID)
		return DirectFunctionCall3(varchar, CStringGetTextDatum(stream->shard_name),
								   Int32GetDatum(attribute->atttypmod), BoolGetDatum(false));
	return CStringGetTextDatum(stream->shard_name);
}

/* Are rows merged in an order? */
bool
sl_merge_is_ordered(const SlFanout *fanout)
{
	return fanout->spec.merge || fanout->spec.sort_count > 0;
}

/* The order of rows is checked: the one before is kept. */
static void
make_room_for_former(const SlFanout *fanout, SlStream *stream)
{
	int			count = Max(stream->prepared->column_count, 1);

	stream->former_values = palloc0(sizeof(Datum) * count);
	stream->former_nulls = palloc0(sizeof(bool) * count);
	if (stream->former_context == NULL)
		stream->former_context = AllocSetContextCreate(fanout->context, "shardlet former row",
													   ALLOCSET_SMALL_SIZES);
}

/* Prepares a described stream for its rows. */
void
sl_merge_open_stream(SlFanout *fanout, SlStream *stream)
{
	check_column_count(fanout, stream);
	if (fanout->model != NULL)
		check_same_columns(fanout, stream);
	if (stream->decoder == NULL)
		sl_shape_make(stream, fanout->sources);
	if (fanout->model == NULL)
	{
		fanout->model = stream->prepared;
		fanout->model_shard = stream->shard_name;
	}
	if (fanout->heap != NULL)
		check_same_answers(fanout, stream);
	if (fanout->spec.shard_column >= 0)
		stream->shard_value = make_shard_value(TupleDescAttr(fanout->spec.wanted,
															 fanout->spec.shard_column), stream);
	if (sl_merge_is_ordered(fanout))
		make_room_for_former(fanout, stream);
}

/* Order ---------------------------------------------------------------------- */

static int
find_named_column(const SlPrepared *prepared, const char *name)
{
	for (int i = 0; i < prepared->column_count; i++)
	{
		if (strcmp(prepared->names[i], name) == 0)
			return i;
	}
	elog(ERROR, "could not find column \"%s\" of the result", name);
}

static int
order_column(const SlFanout *fanout, const SlOrderItem *item)
{
	const SlPrepared *prepared = fanout->model;

	if (item->column >= 0)
		return item->column;
	if (item->name != NULL)
		return find_named_column(prepared, item->name);
	return visible_count(fanout, prepared) + item->carried - 1;
}

static bool
asks_for_type(const SlFanout *fanout, int column)
{
	return fanout->model->types[column] >= FirstNormalObjectId;
}

static void
append_question(StringInfo list, const SlFanout *fanout, const SlOrderItem *item)
{
	int			column = order_column(fanout, item);
	bool		asks_type = asks_for_type(fanout, column);

	/* A type of the shard's own need not have a collation; asking then fails. */
	if (OidIsValid(item->collation) ||
		(!asks_type && !type_is_collatable(fanout->model->types[column])))
		appendStringInfoString(list, "NULL");
	else if (asks_type)
		appendStringInfo(list, "CASE WHEN (SELECT t.typcollation OPERATOR(pg_catalog.<>) 0::pg_catalog.oid"
						 " FROM pg_catalog.pg_type t WHERE t.oid OPERATOR(pg_catalog.=) pg_catalog.pg_typeof(q.c%d))"
						 " THEN pg_catalog.pg_collation_for(q.c%d) END", column, column);
	else
		appendStringInfo(list, "pg_catalog.pg_collation_for(q.c%d)", column);
	if (asks_type)
		appendStringInfo(list, ", pg_catalog.pg_typeof(q.c%d)::pg_catalog.text", column);
	else
		appendStringInfoString(list, ", NULL");
}

static bool
needs_question(const SlFanout *fanout)
{
	ListCell   *cell;

	foreach(cell, fanout->spec.text->order)
	{
		const SlOrderItem *item = lfirst(cell);
		int			column = order_column(fanout, item);

		if (asks_for_type(fanout, column) ||
			(!OidIsValid(item->collation) && type_is_collatable(fanout->model->types[column])))
			return true;
	}
	return false;
}

/*
 * What to ask the shards about the order of their rows, or NULL.  The statement
 * is planned there, up to ORDER BY, and does not run.
 */
char *
sl_merge_question(const SlFanout *fanout)
{
	const SlText *query = fanout->spec.text;
	StringInfoData sql;
	ListCell   *cell;

	if (!fanout->spec.merge || fanout->model == NULL || !needs_question(fanout))
		return NULL;
	if (query->writes_in_with)
		sl_text_refuse("It writes in WITH, and orders by a type whose order the shards cannot be asked about.",
					   "Write the collation into ORDER BY, such as COLLATE \"C\", or leave ORDER BY out.");
	initStringInfo(&sql);
	foreach(cell, query->order)
	{
		appendStringInfoString(&sql, sql.len == 0 ? "SELECT " : ", ");
		append_question(&sql, fanout, lfirst(cell));
	}
	appendStringInfo(&sql, " FROM (SELECT) AS d LEFT JOIN (%s\n) AS q(", sl_text_unordered(query));
	for (int i = 0; i < fanout->model->column_count; i++)
		appendStringInfo(&sql, "%sc%d", i == 0 ? "" : ", ", i);
	appendStringInfoString(&sql, ") ON false");
	return sql.data;
}

/* The collation by which the shards sort an item. */
static Oid
find_collation(const SlFanout *fanout, const SlOrderItem *item, const char *name, Oid type)
{
	Oid			collation;

	if (OidIsValid(item->collation) || name == NULL)
		return OidIsValid(item->collation) ? item->collation : get_typcollation(type);
	collation = get_collation_oid(sl_split_name(name), true);
	if (!OidIsValid(collation))
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("shard \"%s\" orders by collation %s, which does not exist here",
					   fanout->model_shard, name),
				errhint("Write another collation into ORDER BY, such as COLLATE \"C\", or create it."));
	return collation;
}

/*
 * A type of the shards' own is read as the type that the caller wants.  Its
 * order is known here only if that is the same type.
 */
static void
check_order_type(const char *name, Oid type)
{
	if (name == NULL || strcmp(name, format_type_be(type)) == 0)
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("rows cannot be merged by a column of type %s that is wanted as %s",
				   name, format_type_be(type)),
			errdetail("The two may be ordered in different ways."),
			errhint("Cast it in the text and order by that, or have %s in the column list.", name));
}

/* The types in which rows are compared; all streams have the same. */
static TupleDesc
wire_descriptor(const SlFanout *fanout)
{
	for (int i = 0; i < fanout->stream_count; i++)
	{
		if (fanout->streams[i].decoder != NULL)
			return sl_decoder_wire_descriptor(fanout->streams[i].decoder);
	}
	elog(ERROR, "could not find a stream with columns");
}

static void
make_key(SlFanout *fanout, int index, MergeKey *key)
{
	const SlOrderItem *item = list_nth(fanout->spec.text->order, index);
	TupleDesc	descriptor = wire_descriptor(fanout);
	Oid			type;
	TypeCacheEntry *entry;

	key->column = order_column(fanout, item);
	type = TupleDescAttr(descriptor, key->column)->atttypid;
	if (sl_key_names_local_object(fanout->model->types[key->column]))
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("rows cannot be merged by a column of type %s",
					   format_type_be(fanout->model->types[key->column])),
				errdetail("Its order is that of OIDs, which differ from shard to shard."),
				errhint("Cast it to text in the text, and order by that."));
	check_order_type(answer(fanout->model, index * ANSWERS_PER_ITEM + 1), type);
	entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	if (!OidIsValid(entry->lt_opr) || !OidIsValid(entry->gt_opr))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_FUNCTION),
				errmsg("rows cannot be merged by a column of type %s", format_type_be(type)),
				errdetail("The type has no order."));
	key->sort.ssup_cxt = fanout->context;
	key->sort.ssup_collation = find_collation(fanout, item,
											  answer(fanout->model, index * ANSWERS_PER_ITEM),
											  type);
	key->sort.ssup_nulls_first = item->nulls_first;
	key->sort.abbreviate = false;
	PrepareSortSupportFromOrderingOp(item->descending ? entry->gt_opr : entry->lt_opr,
									 &key->sort);
}

static int
compare_rows(const SlFanout *fanout, const Datum *a_values, const bool *a_nulls,
			 const Datum *b_values, const bool *b_nulls)
{
	for (int i = 0; i < fanout->key_count; i++)
	{
		MergeKey   *key = &fanout->keys[i];
		int			column = key->column;
		int			order = ApplySortComparator(a_values[column], a_nulls[column],
												b_values[column], b_nulls[column], &key->sort);

		if (order != 0)
			return order;
	}
	return 0;
}

/* The heap has the greatest on top, so the comparison is turned round. */
static int
compare_streams(Datum a, Datum b, void *arg)
{
	const SlStream *left = (const SlStream *) DatumGetPointer(a);
	const SlStream *right = (const SlStream *) DatumGetPointer(b);

	return -compare_rows(arg, left->values, left->nulls, right->values, right->nulls);
}

/* The order of a text, in which each item says what it sorts by. */
static void
open_text_keys(SlFanout *fanout)
{
	for (int i = 0; i < fanout->stream_count; i++)
	{
		if (fanout->streams[i].state == STREAM_READY)
			check_same_answers(fanout, &fanout->streams[i]);
	}
	fanout->key_count = list_length(fanout->spec.text->order);
	fanout->keys = palloc0(sizeof(MergeKey) * Max(fanout->key_count, 1));
	for (int i = 0; i < fanout->key_count; i++)
		make_key(fanout, i, &fanout->keys[i]);
}

/* The order of a statement that was written here. */
static void
open_sort_keys(SlFanout *fanout)
{
	fanout->key_count = fanout->spec.sort_count;
	fanout->keys = palloc0(sizeof(MergeKey) * fanout->key_count);
	for (int i = 0; i < fanout->key_count; i++)
	{
		const SlSortKey *from = &fanout->spec.sort_keys[i];
		MergeKey   *key = &fanout->keys[i];

		key->column = from->column;
		key->sort.ssup_cxt = fanout->context;
		key->sort.ssup_collation = from->collation;
		key->sort.ssup_nulls_first = from->nulls_first;
		PrepareSortSupportFromOrderingOp(from->operator, &key->sort);
	}
}

/* Prepares for merging, once it is known what comes. */
void
sl_merge_open(SlFanout *fanout)
{
	if (!sl_merge_is_ordered(fanout) || fanout->model == NULL)
		return;
	if (fanout->spec.merge)
		open_text_keys(fanout);
	else
		open_sort_keys(fanout);
	fanout->heap = binaryheap_allocate(fanout->stream_count, compare_streams, fanout);
	for (int i = 0; i < fanout->stream_count; i++)
		fanout->streams[i].keeps_former = true;
}

/* A stream that is not in order would give a wrong order of the whole. */
void
sl_merge_check_order(const SlFanout *fanout, const SlStream *stream)
{
	if (!stream->has_former ||
		compare_rows(fanout, stream->former_values, stream->former_nulls,
					 stream->values, stream->nulls) <= 0)
		return;
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("rows of shard \"%s\" are not in the order that was asked for",
				   stream->shard_name),
			errdetail("The shard's collation differs from the router's."),
			errhint("Write the collation into ORDER BY, such as COLLATE \"C\"."));
}
