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
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "base/base.h"
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
		if (is_same_type(a->types[i], b->types[i]))
			continue;
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("column %d (\"%s\") has different types on shards \"%s\" and \"%s\"",
					   i + 1, b->names[i], fanout->model_shard, stream->shard_name),
				errdetail("They are %s and %s.", type_text(a->types[i]), type_text(b->types[i])));
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
		if (!is_same_type(a->types[i], b->types[i]))
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

/* Prepares a described stream for its rows. */
void
sl_merge_open_stream(SlFanout *fanout, SlStream *stream)
{
	int			count = Max(stream->prepared->column_count, 1);

	check_column_count(fanout, stream);
	if (fanout->model == NULL)
	{
		fanout->model = stream->prepared;
		fanout->model_shard = stream->shard_name;
	}
	check_same_columns(fanout, stream);
	stream->is_binary = sl_decode_is_binary(stream->prepared);
	stream->decoder = sl_decoder_make(stream->prepared, stream->is_binary, fanout->spec.wanted,
									  fanout->sources, stream->shard_name);
	stream->values = palloc0(sizeof(Datum) * count);
	stream->nulls = palloc0(sizeof(bool) * count);
	stream->former_values = palloc0(sizeof(Datum) * count);
	stream->former_nulls = palloc0(sizeof(bool) * count);
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
make_key(SlFanout *fanout, const SlOrderItem *item, MergeKey *key)
{
	TupleDesc	descriptor = wire_descriptor(fanout);
	Oid			type;
	TypeCacheEntry *entry;

	key->column = order_column(fanout, item);
	type = TupleDescAttr(descriptor, key->column)->atttypid;
	entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	if (!OidIsValid(entry->lt_opr) || !OidIsValid(entry->gt_opr))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_FUNCTION),
				errmsg("rows cannot be merged by a column of type %s", format_type_be(type)),
				errdetail("The type has no order."));
	key->sort.ssup_cxt = fanout->context;
	key->sort.ssup_collation = OidIsValid(item->collation) ? item->collation : get_typcollation(type);
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

void
sl_merge_open(SlFanout *fanout)
{
	ListCell   *cell;

	if (!fanout->spec.merge || fanout->model == NULL)
		return;
	fanout->key_count = 0;
	fanout->keys = palloc0(sizeof(MergeKey) * Max(list_length(fanout->spec.text->order), 1));
	foreach(cell, fanout->spec.text->order)
		make_key(fanout, lfirst(cell), &fanout->keys[fanout->key_count++]);
	fanout->heap = binaryheap_allocate(fanout->stream_count, compare_streams, fanout);
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
