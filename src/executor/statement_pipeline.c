/*
 * statement_pipeline.c
 *		Many small statements to many shards, without waiting for each.
 *
 * A statement is sent as soon as it is known, as part of the session's
 * transaction, and goes into the connection's pipeline after those before it.
 * Answers are read when many are outstanding, when the caller wants the answer to
 * one of them, and at the end; the rows that were changed are counted.  A failure
 * is raised then, with the statement that was sent last.
 *
 * While statements are outstanding, the shard's queue owns the connection; a
 * statement that needs it makes the queue read its answers first (shard_queue.c).
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "executor/shard_queue.h"

/* A sync follows after this many statements. */
#define SYNC_AFTER 64

/* With this many outstanding, or bytes of parameters, answers are waited for. */
#define MAX_OUT 512
#define MAX_BYTES (4 * 1024 * 1024)

/* Room for those that are outstanding; a query adds one to what writes may be. */
#define RING_SIZE (2 * MAX_OUT)

/* How many prepared statements a queue remembers. */
#define STATEMENTS 4

/* Shards find out by themselves of what types parameters are. */
static const SlParams untyped = {0};

typedef struct Statement
{
	const char *sql;			/* compared by address */
	SlPrepared *prepared;
} Statement;

/* One shard's statements. */
typedef struct ShardQueue
{
	SlShardQueue base;			/* must come first */
	SlStatementPipeline *pipe;
	bool		is_open;		/* it owns the connection */
	int			out;			/* outstanding statements */
	int			unsynced;		/* of them, sent since the last sync */
	size_t		bytes;			/* of their parameters, or more */
	const SlFailure *otherwise[RING_SIZE];	/* of each outstanding one that
											 * must return a row: the failure
											 * if it does not */
	int			ring_head;
	int			found;			/* rows of such a statement */
	const char *sql;			/* of the last one, for errors */
	char		label[256];		/* the beginning of one that is not kept */
	Statement	statements[STATEMENTS];
	int			next_statement;
	SlFailure  *failure;
	PGresult   *answer;			/* that the caller waits for */
} ShardQueue;

struct SlStatementPipeline
{
	SlQueueSet	set;			/* must come first */
	bool		plain_values;	/* see SlConn */
	bool		is_partial;		/* see sl_statement_pipeline_is_partial() */
	uint64		rows;			/* that were changed, as far as is known */
	SlPipelineCloser closer;	/* or NULL */
	void	   *closer_arg;
};

static void close_queue_for(SlConn *conn);
static void abandon_queue(SlShardQueue *base);

static const SlQueueMethods methods = {
	.queue_size = sizeof(ShardQueue),
	.refusal = "statements cannot be sent to the shards any more",
	.yield = close_queue_for,
	.abandon = abandon_queue,
};

static void
release_queue(ShardQueue *queue)
{
	sl_shard_queue_give_conn(&queue->base);
	queue->is_open = false;
	queue->out = queue->unsynced = queue->found = 0;
	queue->bytes = 0;
	memset(queue->statements, 0, sizeof(queue->statements));
}

pg_noreturn static void
fail_queue(ShardQueue *queue, SlFailure *failure)
{
	release_queue(queue);
	sl_failure_blame_move(failure);
	if (queue->pipe->is_partial)
		sl_failure_blame_start(failure);
	sl_failure_raise(failure, NameStr(queue->base.shard->name), queue->sql);
}

/* Answers --------------------------------------------------------------------- */

/* A statement is complete; its rows, if it returns any, were counted. */
static void
end_statement(ShardQueue *queue, PGresult *result)
{
	const SlFailure *otherwise = queue->otherwise[queue->ring_head];

	queue->ring_head = (queue->ring_head + 1) % RING_SIZE;
	queue->out--;
	if (otherwise == NULL && PQresultStatus(result) == PGRES_COMMAND_OK)
		queue->pipe->rows += strtoull(PQcmdTuples(result), NULL, 10);
	if (otherwise != NULL && queue->found == 0 && queue->failure == NULL)
	{
		queue->failure = palloc(sizeof(SlFailure));
		*queue->failure = *otherwise;
	}
	queue->found = 0;
}

/* Keeps the rows of the statement that the caller waits for. */
static void
keep_answer(ShardQueue *queue, PGresult *result)
{
	if (queue->otherwise[queue->ring_head] != NULL)
	{
		queue->found += PQntuples(result);
		PQclear(result);
		return;
	}
	queue->pipe->rows += PQntuples(result);
	if (queue->answer == NULL)
		queue->answer = result;
	else
		PQclear(result);
}

/* Takes in what has arrived.  Returns true when everything is answered. */
static bool
read_answers(ShardQueue *queue)
{
	SlFailure  *failure;
	SlEvent		event;

	if (!sl_conn_read(queue->base.conn, &failure))
		fail_queue(queue, failure);
	do
	{
		PGresult   *result;

		event = sl_pipeline_next(queue->base.conn, &result, &failure);
		if (event == SL_EVENT_DONE)
			end_statement(queue, result);
		if (event == SL_EVENT_ROWS)
			keep_answer(queue, result);
		else if (result != NULL)
			PQclear(result);
		if (event == SL_EVENT_FAILED && queue->failure == NULL)
			queue->failure = failure;
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE &&
			 queue->base.conn->state == SL_CONN_OPEN);
	if (event == SL_EVENT_NONE && queue->base.conn->state == SL_CONN_OPEN)
		return false;
	if (queue->failure != NULL)
		fail_queue(queue, queue->failure);
	return true;
}

static void
wait_for_shard(ShardQueue *queue, TimestampTz deadline)
{
	if (!sl_wait_conn(queue->base.conn, deadline))
		fail_queue(queue, sl_shard_queue_time_out(&queue->base));
}

/* Makes the shard answer all that was sent. */
static void
send_sync(ShardQueue *queue)
{
	if (queue->unsynced > 0)
		sl_pipeline_sync(queue->base.conn);
	queue->unsynced = 0;
	(void) PQflush(queue->base.conn->pg);
}

/* Waits until no more than this many statements are outstanding. */
static void
wait_for_answers(ShardQueue *queue, int max_out)
{
	MemoryContext old_context = MemoryContextSwitchTo(queue->pipe->set.context);
	TimestampTz deadline = DT_NOEND;
	int			out = -1;

	while (!read_answers(queue) && (queue->out > max_out || max_out == 0))
	{
		/* The time counts from the last statement that was answered. */
		if (sl_shard_timeout > 0 && out != queue->out)
			deadline = sl_wait_deadline(sl_shard_timeout);
		out = queue->out;
		wait_for_shard(queue, deadline);
	}
	MemoryContextSwitchTo(old_context);
}

/* Takes in all answers, and lets go of the connection. */
static void
close_queue(ShardQueue *queue)
{
	SlStatementPipeline *pipe = queue->pipe;

	if (!queue->is_open)
		return;
	if (pipe->closer != NULL)
		pipe->closer(pipe->closer_arg, queue->base.shard);
	send_sync(queue);
	wait_for_answers(queue, 0);
	release_queue(queue);
}

static void
close_queue_for(SlConn *conn)
{
	close_queue(conn->owner);
}

/* Opening --------------------------------------------------------------------- */

static void
wait_until_open(ShardQueue *queue)
{
	SlConn	   *conn = queue->base.conn;
	SlFailure  *failure = NULL;

	while (conn->state != SL_CONN_OPEN)
	{
		if (PQstatus(conn->pg) != CONNECTION_BAD && !sl_wait_conn(conn, conn->deadline))
			(void) sl_conn_time_is_up(conn, &failure);
		else if (sl_conn_advance(conn, &failure))
			sl_pool_note_success(conn);
		if (failure != NULL)
			fail_queue(queue, failure);
	}
}

/* Takes the connection, as part of the session's transaction. */
static void
open_queue(ShardQueue *queue)
{
	SlFailure  *failure;

	queue->failure = NULL;
	failure = sl_shard_queue_take_conn(&queue->base);
	if (failure != NULL)
		fail_queue(queue, failure);
	queue->base.conn->plain_values = queue->pipe->plain_values;
	queue->is_open = true;
	wait_until_open(queue);
	failure = sl_shard_queue_join(&queue->base);
	if (failure != NULL)
		fail_queue(queue, failure);
}

static ShardQueue *
find_queue(SlStatementPipeline *pipe, SlShard *shard)
{
	bool		is_new;
	ShardQueue *queue = sl_shard_queue_find(&pipe->set, shard, &is_new);

	queue->pipe = pipe;
	return queue;
}

/* Sending --------------------------------------------------------------------- */

/* Finds the statement prepared, or sends it to be prepared. */
static SlPrepared *
prepare_statement(ShardQueue *queue, const char *sql)
{
	SlConn	   *conn = queue->base.conn;
	SlPrepared *prepared;
	Statement  *statement;

	for (int i = 0; i < STATEMENTS; i++)
	{
		if (queue->statements[i].sql == sql)
			return queue->statements[i].prepared;
	}
	prepared = sl_pipeline_find(conn, sql, &untyped);
	if (prepared != NULL && sl_pipeline_is_old(conn, prepared, 0))
	{
		sl_pipeline_discard_statement(conn, prepared);
		prepared = NULL;
	}
	if (prepared == NULL)
		prepared = sl_pipeline_prepare(conn, sql, &untyped, "");
	statement = &queue->statements[queue->next_statement++ % STATEMENTS];
	statement->sql = sql;
	statement->prepared = prepared;
	return prepared;
}

/* What an error says of a statement that is gone by then. */
static const char *
make_label(ShardQueue *queue, const char *sql)
{
	int			length = pg_mbcliplen(sql, (int) strlen(sql), sizeof(queue->label) - 1);

	memcpy(queue->label, sql, length);
	queue->label[length] = '\0';
	return queue->label;
}

static ShardQueue *
send_statement(SlStatementPipeline *pipe, SlShard *shard, const char *sql, bool is_kept, int param_count,
			   const char *const *params, bool binary, const SlFailure *otherwise)
{
	ShardQueue *queue = find_queue(pipe, shard);
	MemoryContext old_context = MemoryContextSwitchTo(pipe->set.context);
	SlParams	sent = {.count = param_count,.values = (const char **) params};

	sl_queue_set_check(&pipe->set);
	if (!queue->is_open)
		open_queue(queue);
	if (otherwise == NULL && !queue->base.conn->is_bare && sl_statement_writes_by_snapshot(pipe->set.statement))
		sl_snapshot_use(queue->base.conn, pipe->set.statement->reader.statement, true);
	queue->sql = is_kept ? sql : make_label(queue, sql);
	if (is_kept)
		sl_pipeline_execute(queue->base.conn, prepare_statement(queue, sql), &sent, binary, false);
	else
		sl_pipeline_send_query(queue->base.conn, sql, &sent, binary);
	queue->otherwise[(queue->ring_head + queue->out) % RING_SIZE] = otherwise;
	queue->out++;
	queue->unsynced++;
	for (int i = 0; i < param_count; i++)
		queue->bytes += params[i] != NULL ? strlen(params[i]) : 0;
	MemoryContextSwitchTo(old_context);
	return queue;
}

/* Keeps what is outstanding within limits. */
static void
limit_outstanding(ShardQueue *queue)
{
	if (queue->unsynced >= SYNC_AFTER || queue->bytes >= MAX_BYTES)
		send_sync(queue);
	if (queue->bytes >= MAX_BYTES)
	{
		wait_for_answers(queue, 0);
		queue->bytes = 0;
	}
	else if (queue->out >= MAX_OUT)
		wait_for_answers(queue, MAX_OUT / 2);
}

/*
 * Takes the shard's connection for a statement that is being put together.  Before
 * another statement uses the connection, the closer is called, which sends it.
 */
void
sl_statement_pipeline_hold(SlStatementPipeline *pipe, SlShard *shard, SlPipelineCloser closer, void *arg)
{
	ShardQueue *queue = find_queue(pipe, shard);
	MemoryContext old_context = MemoryContextSwitchTo(pipe->set.context);

	pipe->closer = closer;
	pipe->closer_arg = arg;
	sl_queue_set_check(&pipe->set);
	if (!queue->is_open)
	{
		open_queue(queue);
		queue->unsynced++;
	}
	MemoryContextSwitchTo(old_context);
}

/*
 * Sends a statement that changes rows, with parameters in text form.  If it is
 * kept, it is prepared once on each connection; its string must then stay where it
 * is.  Whether it succeeds shows later.
 */
void
sl_statement_pipeline_send(SlStatementPipeline *pipe, SlShard *shard, const char *sql, bool is_kept, int param_count,
						   const char *const *params)
{
	limit_outstanding(send_statement(pipe, shard, sql, is_kept, param_count, params, false, NULL));
}

/*
 * Sends a statement that must return a row; if it returns none, that is the
 * failure.  The string and the failure must stay where they are.
 */
void
sl_statement_pipeline_expect(SlStatementPipeline *pipe, SlShard *shard, const char *sql, int param_count,
							 const char *const *params, const SlFailure *otherwise)
{
	limit_outstanding(send_statement(pipe, shard, sql, true, param_count, params, false, otherwise));
}

/* Lets the shards begin with what was sent. */
static void
sync_all(SlStatementPipeline *pipe)
{
	ListCell   *cell;

	foreach(cell, pipe->set.queues)
	{
		ShardQueue *queue = lfirst(cell);

		if (queue->is_open)
			send_sync(queue);
	}
}

/* Fails if the row has not the columns that the shard has described. */
static void
check_answer(ShardQueue *queue, PGresult *answer, const char *sql, bool binary)
{
	const SlPrepared *prepared = queue->base.conn->state == SL_CONN_OPEN ?
	sl_pipeline_find(queue->base.conn, sql, &untyped) : NULL;

	if ((prepared == NULL || sl_protocol_has_columns(answer, prepared, binary)) &&
		(binary || sl_encoding_result_is_valid(answer)))
		return;
	PQclear(answer);
	fail_queue(queue, sl_protocol_break_off(queue->base.conn, "The result is not what was described."));
}

/*
 * Sends a statement and waits for its answer: returns its first row, or NULL if
 * there is none.  The result belongs to the caller.  *rows is how many rows it
 * returned or changed.
 */
PGresult *
sl_statement_pipeline_run(SlStatementPipeline *pipe, SlShard *shard, const char *sql, int param_count,
						  const char *const *params, bool binary, uint64 *rows)
{
	ShardQueue *queue = find_queue(pipe, shard);
	uint64		before;
	PGresult   *answer;

	if (queue->is_open && queue->out > 0)
	{
		send_sync(queue);
		wait_for_answers(queue, 0);
	}
	before = pipe->rows;
	(void) send_statement(pipe, shard, sql, true, param_count, params, binary, NULL);
	send_sync(queue);
	wait_for_answers(queue, 0);
	*rows = pipe->rows - before;
	answer = queue->answer;
	queue->answer = NULL;
	if (answer != NULL)
		check_answer(queue, answer, sql, binary);
	return answer;
}

/*
 * Returns the columns of a statement that was sent to the shard, or NULL if it is
 * not known any more.
 */
const SlPrepared *
sl_statement_pipeline_describe(SlStatementPipeline *pipe, SlShard *shard, const char *sql)
{
	ShardQueue *queue = find_queue(pipe, shard);

	return queue->base.conn != NULL && queue->base.conn->state == SL_CONN_OPEN ?
		sl_pipeline_find(queue->base.conn, sql, &untyped) : NULL;
}

/* The connection that answers of the shard have come over. */
SlConn *
sl_statement_pipeline_conn(SlStatementPipeline *pipe, SlShard *shard)
{
	return find_queue(pipe, shard)->base.conn;
}

static int
compare_queues(const ListCell *a, const ListCell *b)
{
	int32		left = ((const SlShardQueue *) lfirst(a))->shard->id;
	int32		right = ((const SlShardQueue *) lfirst(b))->shard->id;

	return left < right ? -1 : left > right;
}

/*
 * Waits for all answers.  Returns how many rows were changed since the beginning.
 * Statements that were put together until now go from shard to shard, in the
 * order of their ids, so that two of these lock rows in the same order.
 */
uint64
sl_statement_pipeline_flush(SlStatementPipeline *pipe)
{
	ListCell   *cell;

	if (pipe->set.is_over)
		return pipe->rows;
	sync_all(pipe);
	list_sort(pipe->set.queues, compare_queues);
	foreach(cell, pipe->set.queues)
		close_queue(lfirst(cell));
	return pipe->rows;
}

/*
 * Gives a queue up.  What stops its statements waits for their answers, so these
 * must come.
 */
static void
abandon_queue(SlShardQueue *base)
{
	ShardQueue *queue = (ShardQueue *) base;

	if (queue->answer != NULL)
		PQclear(queue->answer);
	queue->answer = NULL;
	if (queue->is_open && base->conn->owner == queue && base->conn->state == SL_CONN_OPEN &&
		!sl_pipeline_is_empty(base->conn) && !sl_pipeline_try_sync(base->conn))
		sl_conn_close(base->conn);
	release_queue(queue);
}

/*
 * Begins to send statements on connections of the user.  It lives in a child of
 * the current memory context.
 */
SlStatementPipeline *
sl_statement_pipeline_begin(Oid user, const SlStatement *statement)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet statement pipeline",
												  ALLOCSET_SMALL_SIZES);
	SlStatementPipeline *pipe = MemoryContextAllocZero(context, sizeof(SlStatementPipeline));

	sl_queue_set_begin(&pipe->set, &methods, context, user, statement);
	return pipe;
}

/* Has the shards write values in a form that cannot be misread. */
void
sl_statement_pipeline_want_plain(SlStatementPipeline *pipe)
{
	pipe->plain_values = true;
}

/*
 * What is sent changes keys and leaves other columns as they are, since no move was
 * under way that would need them.
 */
void
sl_statement_pipeline_is_partial(SlStatementPipeline *pipe)
{
	pipe->is_partial = true;
}
