/*
 * merge.c
 *		The columns that shards return, and the order in which rows are merged.
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
#include "executor/shard_stream.h"

/* Columns -------------------------------------------------------------------- */

static int
visible_count(const SlMultiShardScan *scan, const SlPrepared *prepared)
{
	int			carried = scan->spec.merge ? scan->spec.query->carried_count : 0;

	return prepared->column_count - carried;
}

static int
wanted_count(const SlMultiShardScan *scan)
{
	return scan->spec.wanted->natts - (scan->spec.shard_column >= 0 ? 1 : 0);
}

/* Do the columns fit what the caller wants? */
bool
sl_merge_is_wanted(const SlMultiShardScan *scan, const SlStream *stream)
{
	return visible_count(scan, stream->prepared) == wanted_count(scan) &&
		sl_decode_fits(stream->prepared, scan->spec.wanted, scan->sources);
}

/* Fails if a shard has another number of columns than the caller wants. */
static void
check_column_count(SlMultiShardScan *scan, const SlStream *stream)
{
	int			wanted = wanted_count(scan);
	int			found = visible_count(scan, stream->prepared);

	if (found == wanted)
		return;
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("shard \"%s\" returns %d columns, and the column list has %d",
				   stream->shard_name, found, wanted),
			found > wanted ?
			errdetail("Column %d is \"%s\".", wanted + 1, stream->prepared->names[wanted]) :
			errdetail("Column %d of the list is \"%s\".", found + 1,
					  NameStr(TupleDescAttr(scan->spec.wanted,
											found + (scan->spec.shard_column >= 0 &&
													 scan->spec.shard_column <= found ? 1 : 0))->attname)));
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
check_same_columns(const SlMultiShardScan *scan, const SlStream *stream)
{
	const SlPrepared *a = scan->model;
	const SlPrepared *b = stream->prepared;

	if (a->column_count != b->column_count)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("shards \"%s\" and \"%s\" return different numbers of columns",
					   scan->model_shard, stream->shard_name),
				errdetail("They are %d and %d.", a->column_count, b->column_count));
	for (int i = 0; i < a->column_count; i++)
	{
		if (strcmp(a->names[i], b->names[i]) != 0)
			ereport(ERROR,
					errcode(SL_ERR_DIFFERENT),
					errmsg("column %d is \"%s\" on shard \"%s\" and \"%s\" on shard \"%s\"",
						   i + 1, a->names[i], scan->model_shard, b->names[i], stream->shard_name),
					errhint("Name the columns instead of using *."));
		if (is_same_type(a->types[i], b->types[i]))
			continue;
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("column %d (\"%s\") has different types on shards \"%s\" and \"%s\"",
					   i + 1, b->names[i], scan->model_shard, stream->shard_name),
				errdetail("They are %s and %s.", type_text(a->types[i]), type_text(b->types[i])));
	}
}

/*
 * For each item of ORDER BY the shard describes the collation by which it sorts,
 * and, of a type that is not built in, the type's name.  Row descriptions of the
 * protocol have neither.
 */
#define ANSWERS_PER_ITEM 2

static const char *
get_answer(const SlPrepared *prepared, int index)
{
	return index < prepared->answer_count ? prepared->answers[index] : NULL;
}

/* All shards must order their rows by the same. */
static void
check_same_answers(const SlMultiShardScan *scan, const SlStream *stream)
{
	for (int i = 0; i < scan->model->answer_count; i++)
	{
		const char *a = get_answer(scan->model, i);
		const char *b = get_answer(stream->prepared, i);

		if (a == b || (a != NULL && b != NULL && strcmp(a, b) == 0))
			continue;
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				i % ANSWERS_PER_ITEM == 0 ?
				errmsg("shards \"%s\" and \"%s\" order by different collations",
					   scan->model_shard, stream->shard_name) :
				errmsg("shards \"%s\" and \"%s\" order by different types",
					   scan->model_shard, stream->shard_name),
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
sl_merge_assign_sources(SlMultiShardScan *scan)
{
	int			next = 0;

	scan->sources = palloc(sizeof(int) * Max(scan->spec.wanted->natts, 1));
	for (int i = 0; i < scan->spec.wanted->natts; i++)
		scan->sources[i] = i == scan->spec.shard_column ? -1 : next++;
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
static bool
is_ordered(const SlMultiShardScan *scan)
{
	return scan->spec.merge || scan->spec.sort_count > 0;
}

/* The order of rows is checked: the one before is kept. */
static void
make_room_for_former(const SlMultiShardScan *scan, SlStream *stream)
{
	int			count = Max(stream->prepared->column_count, 1);

	stream->former_values = palloc0(sizeof(Datum) * count);
	stream->former_nulls = palloc0(sizeof(bool) * count);
	if (stream->former_context == NULL)
		stream->former_context = AllocSetContextCreate(scan->context, "shardlet former row",
													   ALLOCSET_SMALL_SIZES);
}

/* Prepares a described stream for its rows. */
void
sl_merge_open_stream(SlMultiShardScan *scan, SlStream *stream)
{
	check_column_count(scan, stream);
	if (scan->model != NULL)
		check_same_columns(scan, stream);
	if (stream->decoder == NULL)
		sl_decoder_cache_make(stream, scan->sources);
	if (scan->model == NULL)
	{
		scan->model = stream->prepared;
		scan->model_shard = stream->shard_name;
	}
	if (scan->heap != NULL)
		check_same_answers(scan, stream);
	if (scan->spec.shard_column >= 0)
		stream->shard_value = make_shard_value(TupleDescAttr(scan->spec.wanted,
															 scan->spec.shard_column), stream);
	if (is_ordered(scan))
		make_room_for_former(scan, stream);
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
order_column(const SlMultiShardScan *scan, const SlOrderItem *item)
{
	const SlPrepared *prepared = scan->model;

	if (item->column >= 0)
		return item->column;
	if (item->name != NULL)
		return find_named_column(prepared, item->name);
	return visible_count(scan, prepared) + item->carried - 1;
}

static bool
needs_type(const SlMultiShardScan *scan, int column)
{
	return scan->model->types[column] >= FirstNormalObjectId;
}

static void
append_question(StringInfo list, const SlMultiShardScan *scan, const SlOrderItem *item)
{
	int			column = order_column(scan, item);
	bool		needs_type_oid = needs_type(scan, column);

	/*
	 * A type of the shard's own need not have a collation; the query then
	 * fails.
	 */
	if (OidIsValid(item->collation) ||
		(!needs_type_oid && !type_is_collatable(scan->model->types[column])))
		appendStringInfoString(list, "NULL");
	else if (needs_type_oid)
		appendStringInfo(list, "CASE WHEN (SELECT t.typcollation OPERATOR(pg_catalog.<>) 0::pg_catalog.oid"
						 " FROM pg_catalog.pg_type t WHERE t.oid OPERATOR(pg_catalog.=) pg_catalog.pg_typeof(q.c%d))"
						 " THEN pg_catalog.pg_collation_for(q.c%d) END", column, column);
	else
		appendStringInfo(list, "pg_catalog.pg_collation_for(q.c%d)", column);
	if (needs_type_oid)
		appendStringInfo(list, ", pg_catalog.pg_typeof(q.c%d)::pg_catalog.text", column);
	else
		appendStringInfoString(list, ", NULL");
}

static bool
needs_question(const SlMultiShardScan *scan)
{
	ListCell   *cell;

	foreach(cell, scan->spec.query->order)
	{
		const SlOrderItem *item = lfirst(cell);
		int			column = order_column(scan, item);

		if (needs_type(scan, column) ||
			(!OidIsValid(item->collation) && type_is_collatable(scan->model->types[column])))
			return true;
	}
	return false;
}

/*
 * Returns the query that describes the order of a shard's rows, or NULL.  The
 * statement is planned there, up to ORDER BY, and does not run.
 */
char *
sl_merge_question(const SlMultiShardScan *scan)
{
	const SlQueryString *query = scan->spec.query;
	StringInfoData sql;
	ListCell   *cell;

	if (!scan->spec.merge || scan->model == NULL || !needs_question(scan))
		return NULL;
	if (query->writes_in_with)
		sl_query_string_refuse("It writes in WITH, and orders by a type whose order the shards cannot be asked about.",
							   "Write the collation into ORDER BY, such as COLLATE \"C\", or leave ORDER BY out.");
	initStringInfo(&sql);
	foreach(cell, query->order)
	{
		appendStringInfoString(&sql, sql.len == 0 ? "SELECT " : ", ");
		append_question(&sql, scan, lfirst(cell));
	}
	appendStringInfo(&sql, " FROM (SELECT) AS d LEFT JOIN (%s\n) AS q(", sl_query_string_unordered(query));
	for (int i = 0; i < scan->model->column_count; i++)
		appendStringInfo(&sql, "%sc%d", i == 0 ? "" : ", ", i);
	appendStringInfoString(&sql, ") ON false");
	return sql.data;
}

/* The collation by which the shards sort an item. */
static Oid
find_collation(const SlMultiShardScan *scan, const SlOrderItem *item, const char *name, Oid type)
{
	Oid			collation;

	if (OidIsValid(item->collation) || name == NULL)
		return OidIsValid(item->collation) ? item->collation : get_typcollation(type);
	collation = get_collation_oid(sl_split_name(name), true);
	if (!OidIsValid(collation))
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("shard \"%s\" orders by collation %s, which does not exist here",
					   scan->model_shard, name),
				errhint("Write another collation into ORDER BY, such as COLLATE \"C\", or create it."));
	return collation;
}

/*
 * A type of the shards' own is read as the type that the caller wants.  Its
 * order is known to the router only if that is the same type.
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
			errhint("Cast it in the query and order by that, or have %s in the column list.", name));
}

/* The types in which rows are compared; all streams have the same. */
static TupleDesc
wire_descriptor(const SlMultiShardScan *scan)
{
	for (int i = 0; i < scan->stream_count; i++)
	{
		if (scan->streams[i].decoder != NULL)
			return sl_decoder_wire_descriptor(scan->streams[i].decoder);
	}
	elog(ERROR, "could not find a stream with columns");
}

static void
make_key(SlMultiShardScan *scan, int index, MergeKey *key)
{
	const SlOrderItem *item = list_nth(scan->spec.query->order, index);
	TupleDesc	descriptor = wire_descriptor(scan);
	Oid			type;
	TypeCacheEntry *entry;

	key->column = order_column(scan, item);
	type = TupleDescAttr(descriptor, key->column)->atttypid;
	if (sl_key_names_local_object(scan->model->types[key->column]))
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("rows cannot be merged by a column of type %s",
					   format_type_be(scan->model->types[key->column])),
				errdetail("Its order is that of OIDs, which differ from shard to shard."),
				errhint("Cast it to text in the query, and order by that."));
	check_order_type(get_answer(scan->model, index * ANSWERS_PER_ITEM + 1), type);
	entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	if (!OidIsValid(entry->lt_opr) || !OidIsValid(entry->gt_opr))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_FUNCTION),
				errmsg("rows cannot be merged by a column of type %s", format_type_be(type)),
				errdetail("The type has no order."));
	key->sort.ssup_cxt = scan->context;
	key->sort.ssup_collation = find_collation(scan, item,
											  get_answer(scan->model, index * ANSWERS_PER_ITEM),
											  type);
	key->sort.ssup_nulls_first = item->nulls_first;
	key->sort.abbreviate = false;
	PrepareSortSupportFromOrderingOp(item->descending ? entry->gt_opr : entry->lt_opr,
									 &key->sort);
}

static int
compare_rows(const SlMultiShardScan *scan, const Datum *a_values, const bool *a_nulls,
			 const Datum *b_values, const bool *b_nulls)
{
	for (int i = 0; i < scan->key_count; i++)
	{
		MergeKey   *key = &scan->keys[i];
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

/* The ORDER BY of a query string. */
static void
open_text_keys(SlMultiShardScan *scan)
{
	for (int i = 0; i < scan->stream_count; i++)
	{
		if (scan->streams[i].state == STREAM_READY)
			check_same_answers(scan, &scan->streams[i]);
	}
	scan->key_count = list_length(scan->spec.query->order);
	scan->keys = palloc0(sizeof(MergeKey) * Max(scan->key_count, 1));
	for (int i = 0; i < scan->key_count; i++)
		make_key(scan, i, &scan->keys[i]);
}

/* The order of a statement that the router has deparsed. */
static void
open_sort_keys(SlMultiShardScan *scan)
{
	scan->key_count = scan->spec.sort_count;
	scan->keys = palloc0(sizeof(MergeKey) * scan->key_count);
	for (int i = 0; i < scan->key_count; i++)
	{
		const SlSortKey *from = &scan->spec.sort_keys[i];
		MergeKey   *key = &scan->keys[i];

		key->column = from->column;
		key->sort.ssup_cxt = scan->context;
		key->sort.ssup_collation = from->collation;
		key->sort.ssup_nulls_first = from->nulls_first;
		PrepareSortSupportFromOrderingOp(from->operator, &key->sort);
	}
}

/* Prepares for merging, once it is known what comes. */
void
sl_merge_open(SlMultiShardScan *scan)
{
	if (!is_ordered(scan) || scan->model == NULL)
		return;
	if (scan->spec.merge)
		open_text_keys(scan);
	else
		open_sort_keys(scan);
	scan->heap = binaryheap_allocate(scan->stream_count, compare_streams, scan);
	for (int i = 0; i < scan->stream_count; i++)
		scan->streams[i].keeps_former = true;
}

/* A stream that is not in order would give a wrong order of the whole. */
void
sl_merge_check_order(const SlMultiShardScan *scan, const SlStream *stream)
{
	if (stream->rows_held < 2 ||
		compare_rows(scan, stream->former_values, stream->former_nulls,
					 stream->values, stream->nulls) <= 0)
		return;
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("rows of shard \"%s\" are not in the order that was asked for",
				   stream->shard_name),
			errdetail("The shard's collation differs from the router's."),
			errhint("Write the collation into ORDER BY, such as COLLATE \"C\"."));
}
