/*
 * copy_to_shards.c
 *		Rows to many shards at once, through COPY ... FROM STDIN.
 *
 * A shard's COPY is opened with its first row, as part of the session's
 * transaction, and all of them are worked on together: rows are collected in a
 * buffer for each shard and handed to libpq in chunks, whenever it has sent the
 * chunk before.  The caller waits only if a shard is behind by MAX_WAITING bytes,
 * and while it waits all other shards go on.
 *
 * A connection in COPY can do nothing else.  A statement that needs it makes the
 * queue end its COPY first (shard_queue.c); the next row opens another one.  The
 * same is done when a shard sends something during COPY: if it is an error, that
 * ends the statement now, and not after the last row.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "executor/shard_queue.h"

/* How much is handed to libpq at once. */
#define CHUNK_SIZE (64 * 1024)

/* A shard that is behind by this much is waited for. */
#define MAX_WAITING (1024 * 1024)

/* What a binary COPY begins with: signature, flags, no extension. */
static const char binary_header[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0";
#define BINARY_HEADER_SIZE 19

/* And ends with: no columns. */
static const char binary_trailer[] = "\377\377";
#define BINARY_TRAILER_SIZE 2

typedef enum QueueState
{
	QUEUE_CLOSED,				/* no COPY, no connection */
	QUEUE_OPENING,				/* connecting */
	QUEUE_JOINING,				/* becomes part of the transaction */
	QUEUE_STARTING,				/* COPY was sent */
	QUEUE_COPYING,				/* takes data */
	QUEUE_ENDING				/* its end was sent */
} QueueState;

/* One shard's COPY.  While it is not closed it owns its connection. */
typedef struct ShardQueue
{
	SlShardQueue base;			/* must come first */
	SlCopyToShards *copy;
	QueueState	state;
	StringInfoData buffer;		/* not yet handed to libpq */
	int			next_look;		/* its size when the queues are served next */
	int64		put_count;		/* calls of sl_copy_to_shards_put() for it */
	int64		buffered_count; /* of them, those in the buffer */
	int64		first;			/* the one that this COPY began with, from 0 */
	bool		is_sending;		/* libpq has something to send */
	bool		must_end;		/* when its data are sent */
	bool		was_open;		/* the connection, by an earlier statement */
	bool		has_begun;		/* the shard's transaction */
	bool		has_retried;
	SlFailure  *failure;
} ShardQueue;

struct SlCopyToShards
{
	SlQueueSet	set;			/* must come first */
	char	   *sql;
	bool		is_binary;
	uint64		rows;
	uint64		opened;			/* COPYs, on all shards */
	SlWaitItem *items;			/* one for each queue */
	ShardQueue **item_queues;
	SlWaitCache wait_cache;
	SlCopyExplainer explainer;	/* or NULL */
	void	   *explainer_arg;
};

static void end_copy_for(SlConn *conn);
static void abandon_copy(SlShardQueue *base);

static const SlQueueMethods methods = {
	.queue_size = sizeof(ShardQueue),
	.refusal = "rows cannot be copied to the shards any more",
	.yield = end_copy_for,
	.abandon = abandon_copy,
};

/* Failures -------------------------------------------------------------------- */

static void
release_queue(ShardQueue *queue)
{
	sl_shard_queue_give_conn(&queue->base);
	queue->state = QUEUE_CLOSED;
	queue->is_sending = false;
	queue->must_end = false;
	sl_wait_forget(&queue->copy->wait_cache);
}

/*
 * Removes the line of COPY from an error's context: the shard counts the rows that
 * it got, and the user has not written that COPY.
 */
static const char *
without_line(const char *context)
{
	StringInfoData rest;

	initStringInfo(&rest);
	while (*context != '\0')
	{
		int			length = (int) strcspn(context, "\n");

		if (strncmp(context, "COPY ", strlen("COPY ")) != 0)
			appendStringInfo(&rest, "%s%.*s", rest.len > 0 ? "\n" : "", length, context);
		context += length + (context[length] == '\n' ? 1 : 0);
	}
	return rest.len > 0 ? rest.data : NULL;
}

pg_noreturn static void
fail_queue(ShardQueue *queue, SlFailure *failure)
{
	SlCopyToShards *copy = queue->copy;

	release_queue(queue);
	if (copy->explainer != NULL && failure->context != NULL)
		copy->explainer(copy->explainer_arg, queue->base.shard, queue->first, failure);
	else if (failure->context != NULL)
		failure->context = without_line(failure->context);
	sl_failure_blame_move(failure);
	sl_failure_raise(failure, NameStr(queue->base.shard->name), copy->sql);
}

/* Opening --------------------------------------------------------------------- */

/* The connection is open: puts the COPY into the session's transaction. */
static void
join_transaction(ShardQueue *queue)
{
	SlFailure  *failure;

	sl_pool_note_success(queue->base.conn);
	queue->has_begun = queue->base.conn->txn.level == 0;
	failure = sl_shard_queue_join(&queue->base);
	if (failure != NULL)
		fail_queue(queue, failure);
	queue->state = QUEUE_JOINING;
	sl_pipeline_sync(queue->base.conn);
}

static void
open_queue(ShardQueue *queue)
{
	SlFailure  *failure = sl_shard_queue_take_conn(&queue->base);

	if (failure != NULL)
		fail_queue(queue, failure);
	queue->was_open = queue->base.conn->state == SL_CONN_OPEN;
	queue->state = QUEUE_OPENING;
	queue->failure = NULL;
	queue->first = queue->put_count - queue->buffered_count;
	queue->copy->opened++;
	sl_wait_forget(&queue->copy->wait_cache);
	if (queue->was_open)
		join_transaction(queue);
}

static void
step_opening(ShardQueue *queue)
{
	SlFailure  *failure;

	sl_wait_forget(&queue->copy->wait_cache);
	if (sl_conn_advance(queue->base.conn, &failure))
		join_transaction(queue);
	else if (failure != NULL)
		fail_queue(queue, failure);
}

/* An old connection turned out dead before anything was begun on it. */
static bool
can_retry(const ShardQueue *queue, const SlFailure *failure)
{
	return failure->lost && queue->state == QUEUE_JOINING && queue->was_open && queue->has_begun &&
		!queue->has_retried;
}

static void
fail_or_retry(ShardQueue *queue, SlFailure *failure)
{
	if (!can_retry(queue, failure))
		fail_queue(queue, failure);
	queue->has_retried = true;
	sl_txn_abandon(queue->base.conn);
	release_queue(queue);
	open_queue(queue);
}

/* Sending --------------------------------------------------------------------- */

static void
hand_over(ShardQueue *queue, const char *data, int length)
{
	queue->is_sending = !sl_pipeline_put_copy(queue->base.conn, data, length);
}

static void
send_end(ShardQueue *queue)
{
	if (queue->copy->is_binary)
		hand_over(queue, binary_trailer, BINARY_TRAILER_SIZE);

	/* If it cannot be sent, the connection's state says why. */
	(void) sl_pipeline_end_copy(queue->base.conn, NULL);
	queue->state = QUEUE_ENDING;
}

/* Gives libpq the next chunk if it has nothing left to send. */
static void
send_chunk(ShardQueue *queue)
{
	if (queue->state != QUEUE_COPYING || queue->is_sending)
		return;
	if (queue->buffer.len >= CHUNK_SIZE || (queue->must_end && queue->buffer.len > 0))
	{
		hand_over(queue, queue->buffer.data, queue->buffer.len);
		resetStringInfo(&queue->buffer);
		queue->buffered_count = 0;
		queue->next_look = CHUNK_SIZE;
	}
	if (queue->must_end)
		send_end(queue);
}

static void
start_copying(ShardQueue *queue)
{
	queue->state = QUEUE_COPYING;
	if (queue->copy->is_binary)
		hand_over(queue, binary_header, BINARY_HEADER_SIZE);
	send_chunk(queue);
}

/* Taking in ------------------------------------------------------------------- */

static void
keep_rows(ShardQueue *queue, const PGresult *result)
{
	const char *rows = PQcmdTuples((PGresult *) result);

	if (queue->state == QUEUE_ENDING && rows[0] != '\0')
		queue->copy->rows += strtoull(rows, NULL, 10);
}

/* Everything that was sent has been answered. */
static void
all_is_answered(ShardQueue *queue)
{
	if (queue->failure != NULL)
		fail_or_retry(queue, queue->failure);
	else if (queue->state == QUEUE_JOINING)
	{
		queue->state = QUEUE_STARTING;
		sl_pipeline_start_copy(queue->base.conn, queue->copy->sql);
	}
	else
	{
		release_queue(queue);
		if (queue->buffer.len > 0)
			open_queue(queue);
	}
}

/* Takes in what the shard answered to a statement, or to the end of COPY. */
static void
step_answers(ShardQueue *queue)
{
	SlFailure  *failure;
	SlEvent		event;

	if (!sl_conn_read(queue->base.conn, &failure))
	{
		fail_or_retry(queue, failure);
		return;
	}
	do
	{
		PGresult   *result;

		event = sl_pipeline_next(queue->base.conn, &result, &failure);
		if (event == SL_EVENT_DONE)
			keep_rows(queue, result);
		if (result != NULL)
			PQclear(result);
		if (event == SL_EVENT_FAILED && queue->failure == NULL)
			queue->failure = failure;
		if (event == SL_EVENT_COPY)
		{
			start_copying(queue);
			return;
		}
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE &&
			 queue->base.conn->state == SL_CONN_OPEN);
	if (event == SL_EVENT_IDLE || queue->base.conn->state != SL_CONN_OPEN)
		all_is_answered(queue);
}

/*
 * Either libpq can send more, or the shard has sent something while all data are
 * sent: then the COPY is ended, to read it.
 */
static void
step_copying(ShardQueue *queue)
{
	SlFailure  *failure;

	if (!queue->is_sending)
		queue->must_end = true;
	if (!sl_conn_read(queue->base.conn, &failure))
		fail_queue(queue, failure);
	queue->is_sending = PQflush(queue->base.conn->pg) > 0;
	send_chunk(queue);
}

static void
step_queue(ShardQueue *queue)
{
	if (queue->state == QUEUE_OPENING)
		step_opening(queue);
	else if (queue->state == QUEUE_COPYING)
		step_copying(queue);
	else
		step_answers(queue);
}

/* Waiting --------------------------------------------------------------------- */

static uint32
wanted_events(const ShardQueue *queue)
{
	if (queue->state != QUEUE_COPYING)
		return sl_conn_wants(queue->base.conn);
	return queue->is_sending ? WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE;
}

/* Collects the queues that wait for their connections.  Returns the deadline. */
static TimestampTz
collect_items(SlCopyToShards *copy, int *count)
{
	TimestampTz deadline = sl_shard_timeout > 0 ? sl_wait_deadline(sl_shard_timeout) : DT_NOEND;
	ListCell   *cell;

	*count = 0;
	foreach(cell, copy->set.queues)
	{
		ShardQueue *queue = lfirst(cell);

		if (queue->state == QUEUE_CLOSED)
			continue;
		if (queue->state == QUEUE_OPENING)
			deadline = Min(deadline, queue->base.conn->deadline);
		copy->items[*count].conn = queue->base.conn;
		copy->items[*count].events = wanted_events(queue);
		copy->items[*count].ready = false;
		copy->item_queues[(*count)++] = queue;
	}
	return deadline;
}

/* Nothing happened in time: fails for the shard that is late. */
static void
check_deadlines(SlCopyToShards *copy, int count)
{
	TimestampTz now = GetCurrentTimestamp();
	ShardQueue *slow = NULL;

	for (int i = 0; i < count; i++)
	{
		ShardQueue *queue = copy->item_queues[i];
		SlFailure  *failure = NULL;

		if (queue->state != QUEUE_OPENING)
		{
			if (queue->state != QUEUE_COPYING || queue->is_sending)
				slow = queue;
			continue;
		}
		if (queue->base.conn->deadline <= now && sl_conn_time_is_up(queue->base.conn, &failure))
			fail_queue(queue, failure);
		sl_wait_forget(&copy->wait_cache);
	}
	if (slow != NULL && sl_shard_timeout > 0)
		fail_queue(slow, sl_shard_queue_time_out(&slow->base));
}

/*
 * Is there something to be done without waiting?  A connection may have failed
 * at once, and libpq may have taken in an answer while it was sending: then
 * nothing more comes that could be waited for.
 */
static bool
is_ready(const ShardQueue *queue)
{
	switch (queue->state)
	{
		case QUEUE_OPENING:
			return PQstatus(queue->base.conn->pg) == CONNECTION_BAD;
		case QUEUE_JOINING:
		case QUEUE_STARTING:
		case QUEUE_ENDING:
			return !PQisBusy(queue->base.conn->pg);
		default:
			return false;
	}
}

static bool
serve_ready(SlCopyToShards *copy)
{
	bool		any = false;
	ListCell   *cell;

	foreach(cell, copy->set.queues)
	{
		ShardQueue *queue = lfirst(cell);

		if (!is_ready(queue))
			continue;
		step_queue(queue);
		any = true;
	}
	return any;
}

/* Serves every queue that can go on; "waits": until one can. */
static void
work_on(SlCopyToShards *copy, bool waits)
{
	MemoryContext old_context = MemoryContextSwitchTo(copy->set.context);
	TimestampTz deadline;
	int			count;

	CHECK_FOR_INTERRUPTS();
	if (!serve_ready(copy))
	{
		deadline = collect_items(copy, &count);
		if (count > 0 && !sl_wait_items(copy->items, count, waits ? deadline : 0,
										&copy->wait_cache) && waits)
			check_deadlines(copy, count);
		for (int i = 0; i < count; i++)
		{
			/* What one does may have made another yield. */
			if (copy->items[i].ready && copy->item_queues[i]->state != QUEUE_CLOSED)
				step_queue(copy->item_queues[i]);
		}
	}
	MemoryContextSwitchTo(old_context);
}

/* Makes a queue end its COPY; it may have to begin it first. */
static void
request_end(ShardQueue *queue)
{
	if (queue->state == QUEUE_CLOSED || queue->state == QUEUE_ENDING)
		return;
	queue->must_end = true;
	send_chunk(queue);
}

/* Ends the COPY of the queue that owns the connection. */
static void
end_copy_for(SlConn *conn)
{
	ShardQueue *queue = conn->owner;

	while (conn->owner == queue)
	{
		request_end(queue);
		work_on(queue->copy, true);
	}
}

/* Interface ------------------------------------------------------------------- */

static void
abandon_copy(SlShardQueue *base)
{
	release_queue((ShardQueue *) base);
}

/*
 * Begins to copy with a command that every shard gets as it is: COPY of one
 * table FROM STDIN.  It lives in a child of the current memory context.  The
 * connections are those of the user.  The statement, or NULL, is the one that
 * the rows belong to.
 */
SlCopyToShards *
sl_copy_to_shards_begin(const char *sql, bool is_binary, Oid user, const SlStatement *statement)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet copy",
												  ALLOCSET_DEFAULT_SIZES);
	SlCopyToShards *copy = MemoryContextAllocZero(context, sizeof(SlCopyToShards));

	sl_queue_set_begin(&copy->set, &methods, context, user, statement);
	copy->sql = MemoryContextStrdup(context, sql);
	copy->is_binary = is_binary;
	return copy;
}

/*
 * Has a failure of a COPY looked at before it is raised: its context names the
 * line that the shard was at.
 */
void
sl_copy_to_shards_explain(SlCopyToShards *copy, SlCopyExplainer explainer, void *arg)
{
	copy->explainer = explainer;
	copy->explainer_arg = arg;
}

/* Makes room to wait for one more queue. */
static void
add_item(SlCopyToShards *copy)
{
	int			count = list_length(copy->set.queues);

	copy->items = copy->items == NULL ? palloc(sizeof(SlWaitItem)) :
		repalloc(copy->items, sizeof(SlWaitItem) * count);
	copy->item_queues = copy->item_queues == NULL ? palloc(sizeof(ShardQueue *)) :
		repalloc(copy->item_queues, sizeof(ShardQueue *) * count);
}

static ShardQueue *
find_queue(SlCopyToShards *copy, SlShard *shard)
{
	bool		is_new;
	ShardQueue *queue = sl_shard_queue_find(&copy->set, shard, &is_new);
	MemoryContext old_context;

	if (!is_new)
		return queue;
	old_context = MemoryContextSwitchTo(copy->set.context);
	queue->copy = copy;
	queue->next_look = CHUNK_SIZE;
	initStringInfo(&queue->buffer);
	add_item(copy);
	MemoryContextSwitchTo(old_context);
	return queue;
}

/*
 * Sends a row, or several, to a shard: whole rows, in the form that the command
 * asks for, without header and trailer.  The shard may refuse them later.
 */
void
sl_copy_to_shards_put(SlCopyToShards *copy, SlShard *shard, const char *data, int length)
{
	ShardQueue *queue;

	sl_queue_set_check(&copy->set);
	queue = find_queue(copy, shard);
	appendBinaryStringInfo(&queue->buffer, data, length);
	queue->put_count++;
	queue->buffered_count++;
	if (queue->state == QUEUE_CLOSED)
	{
		MemoryContext old_context = MemoryContextSwitchTo(copy->set.context);

		open_queue(queue);
		MemoryContextSwitchTo(old_context);
	}
	if (queue->buffer.len < queue->next_look)
		return;
	queue->next_look = queue->buffer.len + CHUNK_SIZE;
	send_chunk(queue);
	work_on(copy, false);
	while (queue->buffer.len >= MAX_WAITING)
		work_on(copy, true);
}

/* Returns how many COPYs were opened: more than shards if others interfered. */
uint64
sl_copy_to_shards_opened(const SlCopyToShards *copy)
{
	return copy->opened;
}

/* Sends all rows that were put, and waits until the shards have taken them. */
static void
flush_queues(SlCopyToShards *copy)
{
	bool		any = true;
	ListCell   *cell;

	sl_queue_set_check(&copy->set);
	while (any)
	{
		any = false;
		foreach(cell, copy->set.queues)
		{
			ShardQueue *queue = lfirst(cell);

			request_end(queue);
			any = any || queue->state != QUEUE_CLOSED;
		}
		if (any)
			work_on(copy, true);
	}
}

/*
 * Ends all COPYs and returns how many rows the shards took.  The memory goes
 * with the context that was current at the beginning.
 */
uint64
sl_copy_to_shards_end(SlCopyToShards *copy)
{
	uint64		rows;

	flush_queues(copy);
	rows = copy->rows;
	sl_queue_set_end(&copy->set);
	return rows;
}
