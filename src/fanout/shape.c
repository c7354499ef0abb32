/*
 * shape.c
 *		What a stream needs to read rows, kept from one statement to the next.
 *
 * To prepare for the rows of a statement takes longer than to read one.  So the
 * description, the decoder and room for a row stay with the connection's prepared
 * statement when a stream has ended, and the next stream of the same statement
 * takes them away again; two at a time never share them.  They are one memory
 * context, which changes its parent: it is the fan-out's while it is used, and
 * goes with that in an error, and the connection's in between.
 *
 * Types may change in between, and functions that read them: then nothing is
 * taken.  A text whose order the shards were asked about is not kept either.
 */
#include "postgres.h"

#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "fanout/stream.h"

static uint64 epoch = 1;		/* raised when something kept may be wrong */

static void
distrust(Datum arg, int cache_id, uint32 hash_value)
{
	epoch++;
}

void
sl_shape_init(void)
{
	CacheRegisterSyscacheCallback(TYPEOID, distrust, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, distrust, (Datum) 0);
	CacheRegisterSyscacheCallback(CASTSOURCETARGET, distrust, (Datum) 0);
}

static bool
is_for(const SlShape *shape, const SlFanoutSpec *spec)
{
	if (shape->epoch != epoch || shape->wanted->natts != spec->wanted->natts ||
		shape->shard_column != spec->shard_column)
		return false;
	for (int i = 0; i < spec->wanted->natts; i++)
	{
		Form_pg_attribute a = TupleDescAttr(shape->wanted, i);
		Form_pg_attribute b = TupleDescAttr(spec->wanted, i);

		if (a->atttypid != b->atttypid || a->atttypmod != b->atttypmod)
			return false;
	}
	return true;
}

static void
use(SlStream *stream, SlShape *shape)
{
	stream->shape = shape;
	stream->prepared = shape->prepared;
	stream->is_binary = shape->is_binary;
	stream->decoder = shape->decoder;
	stream->values = shape->values;
	stream->nulls = shape->nulls;
}

/* Takes what is kept with the prepared statement.  False: there is nothing. */
bool
sl_shape_take(SlStream *stream, SlPrepared *known)
{
	SlShape    *shape = known->kept;

	if (shape == NULL || stream->spec->merge || !is_for(shape, stream->spec))
		return false;
	known->kept = NULL;
	MemoryContextSetParent(shape->context, stream->context);
	use(stream, shape);
	return true;
}

/* Prepares a stream that has been described. */
void
sl_shape_make(SlStream *stream, const int *sources)
{
	const SlFanoutSpec *spec = stream->spec;
	MemoryContext context = AllocSetContextCreate(stream->context, "shardlet shape",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SlShape    *shape = palloc0(sizeof(SlShape));
	int			count = Max(stream->prepared->column_count, 1);

	shape->context = context;
	shape->epoch = epoch;
	shape->prepared = sl_flight_copy(stream->prepared);
	shape->wanted = CreateTupleDescCopy(spec->wanted);
	shape->shard_column = spec->shard_column;
	shape->is_binary = sl_decode_is_binary(shape->prepared);
	shape->decoder = sl_decoder_make(shape->prepared, shape->is_binary, shape->wanted, sources,
									 stream->shard_name);
	shape->values = palloc0(sizeof(Datum) * count);
	shape->nulls = palloc0(sizeof(bool) * count);
	use(stream, shape);
	MemoryContextSwitchTo(old_context);
}

/* The stream has ended well: leaves what it had to the next one. */
void
sl_shape_give_back(SlStream *stream)
{
	SlShape    *shape = stream->shape;

	stream->shape = NULL;
	if (shape == NULL || stream->state != STREAM_FINISHED || stream->spec->merge ||
		!sl_stream_knows(stream) || stream->known->kept != NULL)
		return;
	MemoryContextSetParent(shape->context, stream->conn->context);
	stream->known->kept = shape;
	stream->known->kept_context = shape->context;
}
