/*
 * shard_stream.h
 *		A multi-shard scan and its streams, one for each shard; private to the files
 *		that run it.
 */
#ifndef SL_SHARD_STREAM_H
#define SL_SHARD_STREAM_H

#include "lib/binaryheap.h"
#include "lib/ilist.h"
#include "utils/resowner.h"
#include "utils/sortsupport.h"
#include "utils/tuplestore.h"

#include "executor/multi_shard.h"

typedef enum StreamState
{
	STREAM_QUEUED,				/* waits for its turn to connect */
	STREAM_OPENING,				/* connecting */
	STREAM_PREPARING,			/* the statement is being described */
	STREAM_DESCRIBING,			/* its order is being described */
	STREAM_READY,				/* described; not sent */
	STREAM_RUNNING,				/* rows are coming */
	STREAM_FINISHED,
	STREAM_FAILED
} StreamState;

/* How the statement was known to the connection when it was described. */
typedef enum StreamStatement
{
	STATEMENT_NEW,				/* it was prepared for this stream */
	STATEMENT_PREPARED,			/* by an earlier one */
	STATEMENT_PARSED_AGAIN		/* by an earlier one, but it runs without that */
} StreamStatement;

/* How much of the statement's answer has come. */
typedef enum StreamAnswer
{
	ANSWER_NONE,
	ANSWER_BEGUN,				/* a row, or the end; its columns are those
								 * that were described */
	ANSWER_COMPLETE
} StreamAnswer;

/* What would be lost if the shard's transaction were rolled back. */
typedef enum StreamTxn
{
	STREAM_TXN_SESSION,			/* other statements of the session */
	STREAM_TXN_SNAPSHOT,		/* the snapshot that was taken for this one */
	STREAM_TXN_OWN				/* nothing: this statement has begun it */
} StreamTxn;

/* Whether the stream may be sent; see consistent_read.c. */
typedef enum StreamTurn
{
	TURN_DUE,
	TURN_WAITS,					/* for commits that come first on its shard */
	TURN_OVER					/* the shard has taken its snapshot */
} StreamTurn;

/* What can be done about the failure of a stream. */
typedef enum StreamCure
{
	CURE_NONE,
	CURE_OTHER_SHARD,			/* the shard does not own the rows, and
								 * nothing has happened */
	CURE_ALL_AGAIN				/* what was prepared does not fit any more,
								 * and nothing has come */
} StreamCure;

/* What it takes to read rows; see row_decoder_cache.c. */
typedef struct SlRowDecoder
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
} SlRowDecoder;

/*
 * While a stream is opening, preparing or running, it owns its connection.  Another
 * statement that needs that makes it yield: its remaining rows are read into
 * "spill", and returned from there.
 */
typedef struct SlStream
{
	const SlMultiShardSpec *spec;
	MemoryContext context;		/* of the scan */
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
	SlPrepared *prepared;		/* a copy: the connection may discard its own */
	SlRowDecoder *decoder_cache;	/* NULL: none, or given back */
	bool		is_binary;		/* how its rows come */
	bool		was_open;		/* the connection, by an earlier statement */
	bool		has_retried;
	bool		has_snapshot;	/* the shard has taken it */
	StreamStatement statement;
	StreamTxn	txn;
	StreamTurn	turn;
	StreamAnswer answer;
	StreamCure	cure;			/* of its failure */
	int64		processed;		/* rows that the shard says it worked on */
	SlTxnUse	use;
	SlFailure  *failure;
	SlDecoder  *decoder;		/* NULL: the description is not looked at yet */
	int64		waited_us;		/* for this shard, all in all */
	SlShardStat *stat;			/* NULL: it is not wanted */
	TimestampTz sent_at;
	TimestampTz snapshot_deadline;	/* others wait until it is taken */
	PGresult   *result;			/* rows that have come */
	int			next_row;
	Tuplestorestate *spill;
	TupleTableSlot *spill_slot;
	bool		keeps_former;	/* rows are compared with those before them */
	int			rows_held;		/* 0 to 2: the current row, and the former one */
	Datum	   *values;
	bool	   *nulls;
	Datum	   *former_values;	/* the one before it */
	bool	   *former_nulls;
	MemoryContext row_context;
	MemoryContext former_context;
} SlStream;

/* One column by which rows are merged. */
typedef struct MergeKey
{
	int			column;
	SortSupportData sort;
} MergeKey;

struct SlMultiShardScan
{
	dlist_node	node;
	SubTransactionId transaction;	/* that it ends with */
	bool		sent_in_subxact;	/* a statement was sent in a nested one */
	bool		was_aborted;
	MemoryContext context;
	MemoryContextCallback callback;
	SlMultiShardSpec spec;
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
	const SlShard *row_shard;	/* of the row that was handed out last */
	int			next_stream;	/* not merging: where to look first */
	int64		skipped;		/* rows, for OFFSET */
	int64		returned;
	bool		is_over;
	StreamCure	cure;			/* of the failure that ended it */
	SlFailure  *misrouted;		/* what the shard said then */
	bool		all_started;	/* no stream waits to be sent */
	bool		may_repeat;		/* see deadlock_retry.c; false once all has
								 * come */
	bool		is_ordered;		/* goes from shard to shard */
	bool		has_turn;		/* see sl_contention_take_turn() */
	bool		had_turn;
	int			repeats;		/* how often it was rolled back */
	TimestampTz sent_at;		/* for the first time, or again */
	TimestampTz look_at;		/* when to look what it waits for */
	TimestampTz search_at;		/* when to search for deadlocks */
	int			search_after;	/* milliseconds until then */
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

/* multi_shard.c */
extern void sl_multi_shard_check_failure(SlMultiShardScan *scan, SlStream *stream);
extern void sl_multi_shard_add_item(SlMultiShardScan *scan, int *count, SlStream *stream);
extern void sl_multi_shard_wait(SlMultiShardScan *scan, int count);
extern void sl_multi_shard_wait_for_items(SlMultiShardScan *scan, int count, TimestampTz deadline);
extern List *sl_multi_shard_release_streams(SlMultiShardScan *scan);
extern bool sl_stream_is_started(const SlStream *stream);
extern void sl_multi_shard_run_to_end(SlMultiShardScan *scan, bool keeps);
extern void sl_multi_shard_end_spills(SlMultiShardScan *scan, bool aborts);
extern void sl_multi_shard_wait_for_some(SlMultiShardScan *scan);
extern int	sl_multi_shard_running_count(const SlMultiShardScan *scan);
extern void sl_multi_shard_start(SlMultiShardScan *scan);
extern void sl_multi_shard_stop(SlMultiShardScan *scan, bool aborts);

/* multi_shard_rows.c */
extern SlStream *sl_multi_shard_next_stream(SlMultiShardScan *scan);
extern void sl_multi_shard_store_row(SlMultiShardScan *scan, SlStream *stream, TupleTableSlot *slot);

/* subtransactions.c */
extern void sl_multi_shard_list(SlMultiShardScan *scan);

/* deadlock_retry.c */
extern void sl_retry_begin(SlMultiShardScan *scan);
extern void sl_retry_run(SlMultiShardScan *scan);
extern void sl_retry_wait(SlMultiShardScan *scan, int count, TimestampTz deadline);
extern void sl_retry_look(SlMultiShardScan *scan);
extern bool sl_retry_give_way(SlMultiShardScan *scan);
extern bool sl_retry_is_next(const SlMultiShardScan *scan, const SlStream *stream);

/* describe.c */
extern void sl_describe(SlMultiShardScan *scan);
extern void sl_describe_order(SlMultiShardScan *scan);

/* consistent_read.c */
extern void sl_consistent_start(SlMultiShardScan *scan);

/* shard_stream.c */
extern void sl_stream_begin(SlStream *stream);
extern void sl_stream_recover(SlStream *stream);
extern void sl_stream_step(SlStream *stream);
extern void sl_stream_describe_again(SlStream *stream);
extern void sl_stream_forget(const SlStream *stream);
extern void sl_stream_send(SlStream *stream, const char *question);
extern void sl_stream_execute(SlStream *stream);
extern void sl_stream_step_running(SlStream *stream);
extern void sl_stream_finish(SlStream *stream);
extern bool sl_stream_needs_wait(const SlStream *stream);
extern void sl_stream_time_out(SlStream *stream);
extern void sl_stream_release(SlStream *stream);
extern void sl_stream_fail(SlStream *stream, SlFailure *failure);

/* shard_stream_retry.c */
extern bool sl_stream_has_guessed_types(const SlStream *stream);
extern void sl_stream_discard_prepared(const SlStream *stream, int sqlstate);
extern void sl_stream_fail_or_retry(SlStream *stream, SlFailure *failure);

/* shard_stream_rows.c */
extern bool sl_stream_take_row(SlStream *stream);
extern void sl_stream_spill(SlStream *stream);
extern void sl_stream_skip(SlStream *stream);
extern bool sl_stream_drain_step(SlStream *stream);

/* row_decoder_cache.c */
extern bool sl_decoder_cache_take(SlStream *stream, SlPrepared *known);
extern void sl_decoder_cache_make(SlStream *stream, const int *sources);
extern void sl_decoder_cache_put(SlStream *stream);

/* autocommit_write.c */
extern void sl_commit_with_statement(SlMultiShardScan *scan);

/* merge.c */
extern void sl_merge_assign_sources(SlMultiShardScan *scan);
extern bool sl_merge_is_wanted(const SlMultiShardScan *scan, const SlStream *stream);
extern bool sl_merge_is_same(const SlPrepared *a, const SlPrepared *b);
extern void sl_merge_open_stream(SlMultiShardScan *scan, SlStream *stream);
extern char *sl_merge_question(const SlMultiShardScan *scan);
extern void sl_merge_open(SlMultiShardScan *scan);
extern void sl_merge_check_order(const SlMultiShardScan *scan, const SlStream *stream);

#endif							/* SL_SHARD_STREAM_H */
