/*
 * row_decoder_cache.c
 *		What a stream needs to read rows, kept from one statement to the next.
 *
 * To prepare for the rows of a statement takes longer than to read one.  So the
 * description, the decoder and room for a row stay with the connection's prepared
 * statement when a stream has ended, and the next stream of the same statement
 * takes them away again; two at a time never share them.  They are one memory
 * context, which changes its parent: it is the scan's while it is used, and is
 * freed with that after an error, and the connection's in between.
 *
 * Types may change in between, and functions that read them: then nothing is
 * taken.  A query whose order the shards had to describe is not kept either.
 */
#include "postgres.h"

#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "executor/shard_stream.h"

static uint64 epoch = 1;		/* raised when something kept may be wrong */

static void
invalidate_decoders(Datum arg, int cache_id, uint32 hash_value)
{
	epoch++;
}

void
sl_decoder_cache_init(void)
{
	CacheRegisterSyscacheCallback(TYPEOID, invalidate_decoders, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, invalidate_decoders, (Datum) 0);
	CacheRegisterSyscacheCallback(CASTSOURCETARGET, invalidate_decoders, (Datum) 0);
}

static bool
is_for(const SlRowDecoder *decoder_cache, const SlMultiShardSpec *spec)
{
	if (decoder_cache->epoch != epoch || decoder_cache->wanted->natts != spec->wanted->natts ||
		decoder_cache->shard_column != spec->shard_column)
		return false;
	for (int i = 0; i < spec->wanted->natts; i++)
	{
		Form_pg_attribute a = TupleDescAttr(decoder_cache->wanted, i);
		Form_pg_attribute b = TupleDescAttr(spec->wanted, i);

		if (a->atttypid != b->atttypid || a->atttypmod != b->atttypmod)
			return false;
	}
	return true;
}

static void
use_decoder(SlStream *stream, SlRowDecoder *decoder_cache)
{
	stream->decoder_cache = decoder_cache;
	stream->prepared = decoder_cache->prepared;
	stream->is_binary = decoder_cache->is_binary;
	stream->decoder = decoder_cache->decoder;
	stream->values = decoder_cache->values;
	stream->nulls = decoder_cache->nulls;
}

/* Takes what is kept with the prepared statement.  False: there is nothing. */
bool
sl_decoder_cache_take(SlStream *stream, SlPrepared *known)
{
	SlRowDecoder *decoder_cache = known->row_decoder;

	if (decoder_cache == NULL || stream->spec->merge || !is_for(decoder_cache, stream->spec))
		return false;
	known->row_decoder = NULL;
	MemoryContextSetParent(decoder_cache->context, stream->context);
	use_decoder(stream, decoder_cache);
	return true;
}

/* Prepares a stream that has been described. */
void
sl_decoder_cache_make(SlStream *stream, const int *sources)
{
	const SlMultiShardSpec *spec = stream->spec;
	MemoryContext context = AllocSetContextCreate(stream->context, "shardlet row decoder",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SlRowDecoder *decoder_cache = palloc0(sizeof(SlRowDecoder));
	int			count = Max(stream->prepared->column_count, 1);

	decoder_cache->context = context;
	decoder_cache->epoch = epoch;
	decoder_cache->prepared = sl_pipeline_copy(stream->prepared);
	decoder_cache->wanted = CreateTupleDescCopy(spec->wanted);
	decoder_cache->shard_column = spec->shard_column;
	decoder_cache->is_binary = sl_decode_is_binary(decoder_cache->prepared);
	decoder_cache->decoder = sl_decoder_make(decoder_cache->prepared, decoder_cache->is_binary, decoder_cache->wanted, sources,
											 stream->shard_name);
	decoder_cache->values = palloc0(sizeof(Datum) * count);
	decoder_cache->nulls = palloc0(sizeof(bool) * count);
	use_decoder(stream, decoder_cache);
	MemoryContextSwitchTo(old_context);
}

/* The stream has ended well: leaves what it had to the next one. */
void
sl_decoder_cache_put(SlStream *stream)
{
	SlRowDecoder *decoder_cache = stream->decoder_cache;

	stream->decoder_cache = NULL;
	if (decoder_cache == NULL || stream->state != STREAM_FINISHED || stream->spec->merge ||
		!sl_stream_knows(stream) || stream->known->row_decoder != NULL)
		return;
	MemoryContextSetParent(decoder_cache->context, stream->conn->context);
	stream->known->row_decoder = decoder_cache;
	stream->known->row_decoder_context = decoder_cache->context;
}
