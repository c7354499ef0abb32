/*
 * stream.h
 *		A fan-out and its streams, one for each shard; private to fanout.c,
 *		merge.c and stream.c.
 */
#ifndef SL_STREAM_H
#define SL_STREAM_H

#include "lib/binaryheap.h"
#include "lib/ilist.h"
#include "utils/resowner.h"
#include "utils/sortsupport.h"
#include "utils/tuplestore.h"

#include "fanout/fanout.h"

typedef enum StreamState
{
	STREAM_QUEUED,				/* waits for its turn to connect */
	STREAM_OPENING,				/* connecting */
	STREAM_PREPARING,			/* the statement is being described */
	STREAM_READY,				/* described; not sent */
	STREAM_RUNNING,				/* rows are coming */
	STREAM_FINISHED,
	STREAM_FAILED
} StreamState;

/*
 * While a stream is opening, preparing or running, it owns its connection.
 * Someone else who needs that makes it yield: what is still to come is taken
 * in and kept in "spill", and read from there.
 */
typedef struct SlStream
{
	const SlFanoutSpec *spec;
	MemoryContext context;		/* of the fan-out */
	ResourceOwner resources;
	SlShard    *shard;
	char	   *shard_name;
	StreamState state;
	SlConn	   *conn;
	uint64		generation;		/* of the connection, when it was prepared on */
	SlPrepared *prepared;
	bool		was_prepared;	/* by an earlier statement */
	bool		was_open;		/* the connection, by an earlier statement */
	bool		has_retried;
	bool		has_answered;	/* a row, or the end, has come */
	SlFailure  *failure;
	SlDecoder  *decoder;
	int64		waited_us;		/* for this shard, all in all */
	PGresult   *result;			/* rows that have come */
	int			next_row;
	Tuplestorestate *spill;
	TupleTableSlot *spill_slot;
	bool		has_row;		/* the row at hand */
	Datum	   *values;
	bool	   *nulls;
	Datum	   *former_values;	/* the one before it */
	bool	   *former_nulls;
	bool		has_former;
	MemoryContext row_context;
	MemoryContext former_context;
} SlStream;

/* One column by which rows are merged. */
typedef struct MergeKey
{
	int			column;
	SortSupportData sort;
} MergeKey;

struct SlFanout
{
	dlist_node	node;
	SubTransactionId transaction;
	MemoryContext context;
	MemoryContextCallback callback;
	SlFanoutSpec spec;
	SlStream   *streams;
	int			stream_count;
	int		   *sources;		/* of the wanted columns */
	SlStream   *model;			/* the stream that others are compared with */
	MergeKey   *keys;
	int			key_count;
	binaryheap *heap;			/* streams with a row at hand, when merging */
	SlStream   *current;		/* whose row was handed out last */
	int			next_stream;	/* not merging: where to look first */
	int64		skipped;		/* rows, for OFFSET */
	int64		returned;
	bool		is_over;
	bool		all_started;	/* no stream waits to be sent */
	bool		heap_is_filled;
	MemoryContext output_context;	/* of the row that was handed out */
	SlWaitItem *items;
	SlStream  **item_streams;
	SlWaitCache wait_cache;
};

/* stream.c */
extern void sl_stream_begin(SlStream *stream);
extern void sl_stream_step(SlStream *stream);
extern void sl_stream_describe_again(SlStream *stream);
extern void sl_stream_execute(SlStream *stream);
extern bool sl_stream_take_row(SlStream *stream);
extern void sl_stream_spill(SlStream *stream);
extern bool sl_stream_needs_wait(const SlStream *stream);
extern void sl_stream_time_out(SlStream *stream, const char *detail);
extern void sl_stream_release(SlStream *stream);

/* merge.c */
extern void sl_merge_assign_sources(SlFanout *fanout);
extern bool sl_merge_count_fits(const SlFanout *fanout, const SlStream *stream);
extern void sl_merge_open_stream(SlFanout *fanout, SlStream *stream);
extern void sl_merge_open(SlFanout *fanout);
extern void sl_merge_check_order(const SlFanout *fanout, const SlStream *stream);

#endif							/* SL_STREAM_H */
