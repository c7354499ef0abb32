/*
 * stream.h
 *		A fan-out and its streams, one for each shard; private to the engine.
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
	STREAM_ASKING,				/* it is asked about its order */
	STREAM_READY,				/* described; not sent */
	STREAM_RUNNING,				/* rows are coming */
	STREAM_FINISHED,
	STREAM_FAILED
} StreamState;

/* What it takes to read rows; see shape.c. */
typedef struct SlShape
{
	MemoryContext context;
	uint64		epoch;
	TupleDesc	wanted;
	int			shard_column;
	SlPrepared *prepared;		/* a copy */
	bool		is_binary;
	SlDecoder  *decoder;
	Datum	   *values;
	bool	   *nulls;
} SlShape;

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
	const SlParams *params;
	Datum		shard_value;	/* the same, in the type that is wanted */
	StreamState state;
	SlConn	   *conn;
	uint64		generation;		/* of the connection, when it was prepared on */
	uint64		forgotten;		/* by the connection, then */
	uint64		uses;			/* of the connection, when it was taken */
	SlPrepared *known;			/* the connection's; see sl_stream_knows() */
	SlPrepared *prepared;		/* a copy: the connection may forget its own */
	SlShape    *shape;			/* NULL: none, or given back */
	bool		is_binary;		/* how its rows come */
	bool		was_prepared;	/* by an earlier statement */
	bool		is_parsed;		/* runs without what was prepared */
	bool		was_open;		/* the connection, by an earlier statement */
	bool		is_misled;		/* the shard does not own the rows, and
								 * nothing has happened */
	bool		has_retried;
	bool		has_begun;		/* the shard's transaction, by this statement */
	bool		has_snapshot;	/* the shard has taken it */
	bool		has_answered;	/* a row, or the end, has come */
	int64		processed;		/* rows that the shard says it worked on */
	SlTxnUse	use;
	SlFailure  *failure;
	SlDecoder  *decoder;		/* NULL: the description is not looked at yet */
	int64		waited_us;		/* for this shard, all in all */
	SlShardStat *stat;			/* NULL: nobody wants to know */
	TimestampTz sent_at;
	TimestampTz snapshot_deadline;	/* others wait until it is taken */
	PGresult   *result;			/* rows that have come */
	int			next_row;
	Tuplestorestate *spill;
	TupleTableSlot *spill_slot;
	bool		keeps_former;	/* rows are compared with those before them */
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
	SubTransactionId transaction;	/* that it ends with */
	bool		has_strayed;	/* a statement was sent in another one */
	bool		was_aborted;
	MemoryContext context;
	MemoryContextCallback callback;
	SlFanoutSpec spec;
	SlStream   *streams;
	int			stream_count;
	int		   *sources;		/* of the wanted columns */
	const SlPrepared *model;	/* the description that others must equal */
	const char *model_shard;
	char	   *question;		/* about the order of rows, or NULL */
	MergeKey   *keys;
	int			key_count;
	binaryheap *heap;			/* streams with a row at hand, when merging */
	SlStream   *current;		/* whose row was handed out last */
	int			next_stream;	/* not merging: where to look first */
	int64		skipped;		/* rows, for OFFSET */
	int64		returned;
	bool		is_over;
	bool		is_misled;		/* its only stream is */
	SlFailure  *misled;			/* what the shard said then */
	bool		all_started;	/* no stream waits to be sent */
	bool		heap_is_filled;
	MemoryContext output_context;	/* of the row that was handed out */
	SlWaitItem *items;
	SlStream  **item_streams;
	SlWaitCache wait_cache;
};

static inline bool
sl_stream_is_live(const SlStream *stream)
{
	return stream->state != STREAM_FINISHED && stream->state != STREAM_FAILED;
}

/* Is "known" still what it was when the statement was described? */
static inline bool
sl_stream_knows(const SlStream *stream)
{
	return stream->conn != NULL && stream->known != NULL && stream->conn->state == SL_CONN_OPEN &&
		stream->conn->generation == stream->generation &&
		stream->conn->forgotten == stream->forgotten;
}

/* fanout.c */
extern void sl_fanout_check_failure(SlFanout *fanout, SlStream *stream);
extern void sl_fanout_add_item(SlFanout *fanout, int *count, SlStream *stream);
extern void sl_fanout_wait(SlFanout *fanout, int count);
extern void sl_fanout_wait_for_some(SlFanout *fanout);
extern int	sl_fanout_running_count(const SlFanout *fanout);
extern void sl_fanout_start(SlFanout *fanout);
extern void sl_fanout_stop(SlFanout *fanout, bool aborts);

/* fanout_txn.c */
extern void sl_fanout_list(SlFanout *fanout);

/* describe.c */
extern void sl_describe(SlFanout *fanout);
extern void sl_describe_order(SlFanout *fanout);

/* consistent.c */
extern void sl_consistent_start(SlFanout *fanout);

/* stream.c */
extern void sl_stream_begin(SlStream *stream);
extern void sl_stream_recover(SlStream *stream);
extern void sl_stream_step(SlStream *stream);
extern void sl_stream_describe_again(SlStream *stream);
extern void sl_stream_ask(SlStream *stream, const char *question);
extern void sl_stream_execute(SlStream *stream);
extern void sl_stream_step_running(SlStream *stream);
extern void sl_stream_finish(SlStream *stream);
extern bool sl_stream_needs_wait(const SlStream *stream);
extern void sl_stream_time_out(SlStream *stream);
extern void sl_stream_release(SlStream *stream);

/* stream_rows.c */
extern bool sl_stream_take_row(SlStream *stream);
extern void sl_stream_spill(SlStream *stream);
extern void sl_stream_skip(SlStream *stream);
extern bool sl_stream_drain_step(SlStream *stream);

/* shape.c */
extern bool sl_shape_take(SlStream *stream, SlPrepared *known);
extern void sl_shape_make(SlStream *stream, const int *sources);
extern void sl_shape_give_back(SlStream *stream);

/* commit.c */
extern void sl_commit_with_statement(SlFanout *fanout);

/* merge.c */
extern void sl_merge_assign_sources(SlFanout *fanout);
extern bool sl_merge_is_wanted(const SlFanout *fanout, const SlStream *stream);
extern bool sl_merge_is_same(const SlPrepared *a, const SlPrepared *b);
extern void sl_merge_open_stream(SlFanout *fanout, SlStream *stream);
extern bool sl_merge_is_ordered(const SlFanout *fanout);
extern char *sl_merge_question(const SlFanout *fanout);
extern void sl_merge_open(SlFanout *fanout);
extern void sl_merge_check_order(const SlFanout *fanout, const SlStream *stream);

#endif							/* SL_STREAM_H */
