/*
 * pipe.c
 *		Many small statements to many shards, without waiting for each.
 *
 * A statement is sent as soon as it is known, as part of the session's
 * transaction, and goes into the connection's pipeline behind those before it.
 * Answers are taken in when many are out, when somebody wants the answer to one
 * of them, and at the end; what is counted are the rows that were changed.  A
 * failure is raised then, with the statement that was sent last.
 *
 * While statements are out, the lane owns its connection, so whoever needs that
 * makes the lane take in its answers first.  An error leaves statements under
 * way, and the end of the (sub)transaction stops them as any other; here only
 * the owner has to go.
 */
#include "postgres.h"

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "fanout/fanout.h"

/* After so many statements the shard is made to answer. */
#define SYNC_AFTER 64

/* With so many out, or so many bytes of parameters, answers are waited for. */
#define MOST_OUT 512
#define MOST_BYTES (4 * 1024 * 1024)

/* Room for those that are out; asking adds one to what sending allows. */
#define RING_SIZE (2 * MOST_OUT)

/* A lane remembers so many prepared statements. */
#define STATEMENTS 4

/* Shards find out by themselves of what types parameters are. */
static const SlParams untyped = {0};

typedef struct Statement
{
	const char *sql;			/* compared by address */
	SlPrepared *prepared;
} Statement;

/* One shard's statements. */
typedef struct Lane
{
	SlPipe	   *pipe;
	SlShard    *shard;
	SlConn	   *conn;
	bool		is_open;		/* it owns the connection */
	int			out;			/* statements that are not answered */
	int			unsynced;		/* of them, behind the last sync */
	size_t		bytes;			/* of their parameters, or more */
	const SlFailure *otherwise[RING_SIZE];	/* of each that is out, if it must
											 * return a row: what it means if
											 * not */
	int			ring_head;
	int			found;			/* rows of such a statement */
	const char *sql;			/* of the last one, for errors */
	char		label[256];		/* the beginning of one that is not kept */
	Statement	statements[STATEMENTS];
	int			next_statement;
	SlFailure  *failure;
	PGresult   *answer;			/* that somebody waits for */
} Lane;

struct SlPipe
{
	dlist_node	node;			/* in the list of those that are under way */
	SubTransactionId transaction;
	MemoryContext context;
	MemoryContextCallback callback;
	bool		plain_values;	/* see SlConn */
	bool		is_partial;		/* see sl_pipe_is_partial() */
	const SlStatement *statement;	/* or NULL */
	Oid			user;
	bool		is_over;
	uint64		rows;			/* that were changed, as far as is known */
	List	   *lanes;
	SlPipeCloser closer;		/* or NULL */
	void	   *closer_arg;
};

static dlist_head pipes = DLIST_STATIC_INIT(pipes);

static void yield(SlConn *conn);

static void
release(Lane *lane)
{
	if (lane->conn != NULL && lane->conn->owner == lane)
		lane->conn->owner = NULL;
	lane->is_open = false;
	lane->out = lane->unsynced = lane->found = 0;
	lane->bytes = 0;
	memset(lane->statements, 0, sizeof(lane->statements));
}

pg_noreturn static void
fail(Lane *lane, SlFailure *failure)
{
	release(lane);
	sl_failure_blame_move(failure);
	if (lane->pipe->is_partial)
		sl_failure_blame_start(failure);
	sl_failure_raise(failure, NameStr(lane->shard->name), lane->sql);
}

/* Answers --------------------------------------------------------------------- */

/* A statement is complete; its rows, if it returns any, were counted. */
static void
end_statement(Lane *lane, PGresult *result)
{
	const SlFailure *otherwise = lane->otherwise[lane->ring_head];

	lane->ring_head = (lane->ring_head + 1) % RING_SIZE;
	lane->out--;
	if (otherwise == NULL && PQresultStatus(result) == PGRES_COMMAND_OK)
		lane->pipe->rows += strtoull(PQcmdTuples(result), NULL, 10);
	if (otherwise != NULL && lane->found == 0 && lane->failure == NULL)
	{
		lane->failure = palloc(sizeof(SlFailure));
		*lane->failure = *otherwise;
	}
	lane->found = 0;
}

/* Keeps the rows of the statement that somebody waits for. */
static void
keep_answer(Lane *lane, PGresult *result)
{
	if (lane->otherwise[lane->ring_head] != NULL)
	{
		lane->found += PQntuples(result);
		PQclear(result);
		return;
	}
	lane->pipe->rows += PQntuples(result);
	if (lane->answer == NULL)
		lane->answer = result;
	else
		PQclear(result);
}

/* Takes in what has arrived.  Returns true when everything is answered. */
static bool
take_in(Lane *lane)
{
	SlFailure  *failure;
	SlEvent		event;

	if (!sl_conn_read(lane->conn, &failure))
		fail(lane, failure);
	do
	{
		PGresult   *result;

		event = sl_flight_next(lane->conn, &result, &failure);
		if (event == SL_EVENT_DONE)
			end_statement(lane, result);
		if (event == SL_EVENT_ROWS)
			keep_answer(lane, result);
		else if (result != NULL)
			PQclear(result);
		if (event == SL_EVENT_FAILED && lane->failure == NULL)
			lane->failure = failure;
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE &&
			 lane->conn->state == SL_CONN_OPEN);
	if (event == SL_EVENT_NONE && lane->conn->state == SL_CONN_OPEN)
		return false;
	if (lane->failure != NULL)
		fail(lane, lane->failure);
	return true;
}

static void
wait_for(Lane *lane)
{
	TimestampTz deadline = sl_shard_timeout > 0 ? sl_wait_deadline(sl_shard_timeout) : DT_NOEND;

	if (!sl_wait_conn(lane->conn, deadline))
		fail(lane, sl_failure_unreachable(NameStr(lane->shard->name),
										  psprintf("It took longer than shardlet.shard_timeout, %d ms.",
												   sl_shard_timeout)));
}

/* Makes the shard answer all that was sent. */
static void
send_sync(Lane *lane)
{
	if (lane->unsynced > 0)
		sl_flight_sync(lane->conn);
	lane->unsynced = 0;
	(void) PQflush(lane->conn->pg);
}

/* Waits until no more than so many statements are out. */
static void
settle(Lane *lane, int most)
{
	MemoryContext old_context = MemoryContextSwitchTo(lane->pipe->context);

	while (!take_in(lane) && (lane->out > most || most == 0))
		wait_for(lane);
	MemoryContextSwitchTo(old_context);
}

/* Takes in all answers, and lets go of the connection. */
static void
close_lane(Lane *lane)
{
	SlPipe	   *pipe = lane->pipe;

	if (!lane->is_open)
		return;
	if (pipe->closer != NULL)
		pipe->closer(pipe->closer_arg, lane->shard);
	send_sync(lane);
	settle(lane, 0);
	release(lane);
}

static void
yield(SlConn *conn)
{
	close_lane(conn->owner);
}

/* Opening --------------------------------------------------------------------- */

static void
wait_until_open(Lane *lane)
{
	SlConn	   *conn = lane->conn;
	SlFailure  *failure = NULL;

	while (conn->state != SL_CONN_OPEN)
	{
		if (PQstatus(conn->pg) != CONNECTION_BAD && !sl_wait_conn(conn, conn->deadline))
			(void) sl_conn_time_is_up(conn, &failure);
		else if (sl_conn_advance(conn, &failure))
			sl_pool_note_success(conn);
		if (failure != NULL)
			fail(lane, failure);
	}
}

/* Takes the connection, as part of the session's transaction. */
static void
open_lane(Lane *lane)
{
	SlTxnUse	use = {
		.writes = true,.statement = sl_statement_of_write(lane->pipe->statement),
		.reader = lane->pipe->statement != NULL ? &lane->pipe->statement->reader : NULL
	};
	SlFailure  *failure;

	lane->failure = NULL;
	lane->conn = sl_pool_get_as(lane->shard, lane->pipe->user, &failure);
	if (lane->conn == NULL)
		fail(lane, failure);
	lane->conn->owner = lane;
	lane->conn->yield = yield;
	lane->conn->plain_values = lane->pipe->plain_values;
	lane->is_open = true;
	wait_until_open(lane);
	failure = sl_recover_before(lane->shard, lane->conn);
	if (failure != NULL)
		fail(lane, failure);
	sl_txn_join(lane->conn, &use);
}

static Lane *
find_lane(SlPipe *pipe, SlShard *shard)
{
	MemoryContext old_context;
	ListCell   *cell;
	Lane	   *lane;

	foreach(cell, pipe->lanes)
	{
		lane = lfirst(cell);
		if (lane->shard == shard)
			return lane;
	}
	old_context = MemoryContextSwitchTo(pipe->context);
	lane = palloc0(sizeof(Lane));
	lane->pipe = pipe;
	lane->shard = shard;
	pipe->lanes = lappend(pipe->lanes, lane);
	MemoryContextSwitchTo(old_context);
	return lane;
}

/* Sending --------------------------------------------------------------------- */

/* Finds the statement prepared, or sends it to be prepared. */
static SlPrepared *
prepare(Lane *lane, const char *sql)
{
	SlConn	   *conn = lane->conn;
	SlPrepared *prepared;
	Statement  *statement;

	for (int i = 0; i < STATEMENTS; i++)
	{
		if (lane->statements[i].sql == sql)
			return lane->statements[i].prepared;
	}
	prepared = sl_flight_find(conn, sql, &untyped);
	if (prepared != NULL && sl_flight_is_old(conn, prepared, 0))
	{
		sl_flight_forget(conn, prepared);
		prepared = NULL;
	}
	if (prepared == NULL)
		prepared = sl_flight_prepare(conn, sql, &untyped, "");
	statement = &lane->statements[lane->next_statement++ % STATEMENTS];
	statement->sql = sql;
	statement->prepared = prepared;
	return prepared;
}

static void
check_alive(const SlPipe *pipe)
{
	if (pipe->is_over)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				errmsg("statements cannot be sent to the shards any more"),
				errdetail("The transaction or savepoint in which that was begun was rolled back."));
}

/* What an error says of a statement that is gone by then. */
static const char *
make_label(Lane *lane, const char *sql)
{
	int			length = pg_mbcliplen(sql, (int) strlen(sql), sizeof(lane->label) - 1);

	memcpy(lane->label, sql, length);
	lane->label[length] = '\0';
	return lane->label;
}

static Lane *
send_statement(SlPipe *pipe, SlShard *shard, const char *sql, bool is_kept, int param_count,
			   const char *const *params, bool binary, const SlFailure *otherwise)
{
	Lane	   *lane = find_lane(pipe, shard);
	MemoryContext old_context = MemoryContextSwitchTo(pipe->context);
	SlParams	sent = {.count = param_count,.values = (const char **) params};

	check_alive(pipe);
	if (!lane->is_open)
		open_lane(lane);
	lane->sql = is_kept ? sql : make_label(lane, sql);
	if (is_kept)
		sl_flight_execute(lane->conn, prepare(lane, sql), &sent, binary, false);
	else
		sl_flight_ask(lane->conn, sql, &sent, binary);
	lane->otherwise[(lane->ring_head + lane->out) % RING_SIZE] = otherwise;
	lane->out++;
	lane->unsynced++;
	for (int i = 0; i < param_count; i++)
		lane->bytes += params[i] != NULL ? strlen(params[i]) : 0;
	MemoryContextSwitchTo(old_context);
	return lane;
}

/* Keeps what is out within limits. */
static void
bound(Lane *lane)
{
	if (lane->unsynced >= SYNC_AFTER || lane->bytes >= MOST_BYTES)
		send_sync(lane);
	if (lane->bytes >= MOST_BYTES)
	{
		settle(lane, 0);
		lane->bytes = 0;
	}
	else if (lane->out >= MOST_OUT)
		settle(lane, MOST_OUT / 2);
}

/*
 * Takes the shard's connection for a statement that is being put together: who
 * wants to use it then has the closer called first, which sends the statement.
 */
void
sl_pipe_hold(SlPipe *pipe, SlShard *shard, SlPipeCloser closer, void *arg)
{
	Lane	   *lane = find_lane(pipe, shard);
	MemoryContext old_context = MemoryContextSwitchTo(pipe->context);

	pipe->closer = closer;
	pipe->closer_arg = arg;
	check_alive(pipe);
	if (!lane->is_open)
	{
		open_lane(lane);
		lane->unsynced++;
	}
	MemoryContextSwitchTo(old_context);
}

/*
 * Sends a statement that changes rows, with parameters in text form.  If it is
 * kept, it is prepared once on each connection; its text must then stay where it
 * is.  Whether it succeeds shows later.
 */
void
sl_pipe_send(SlPipe *pipe, SlShard *shard, const char *sql, bool is_kept, int param_count,
			 const char *const *params)
{
	bound(send_statement(pipe, shard, sql, is_kept, param_count, params, false, NULL));
}

/*
 * Sends a statement that must return a row; if it returns none, that is the
 * failure.  The text and the failure must stay where they are.
 */
void
sl_pipe_expect(SlPipe *pipe, SlShard *shard, const char *sql, int param_count,
			   const char *const *params, const SlFailure *otherwise)
{
	bound(send_statement(pipe, shard, sql, true, param_count, params, false, otherwise));
}

/* Lets the shards begin with what was sent. */
void
sl_pipe_push(SlPipe *pipe)
{
	ListCell   *cell;

	foreach(cell, pipe->lanes)
	{
		Lane	   *lane = lfirst(cell);

		if (lane->is_open)
			send_sync(lane);
	}
}

/*
 * Sends a statement and waits for its answer: returns its first row, or NULL if
 * there is none.  The result belongs to the caller.  *rows is how many rows it
 * returned or changed.
 */
PGresult *
sl_pipe_ask(SlPipe *pipe, SlShard *shard, const char *sql, int param_count,
			const char *const *params, bool binary, uint64 *rows)
{
	Lane	   *lane = find_lane(pipe, shard);
	uint64		before;
	PGresult   *answer;

	if (lane->is_open && lane->out > 0)
	{
		send_sync(lane);
		settle(lane, 0);
	}
	before = pipe->rows;
	(void) send_statement(pipe, shard, sql, true, param_count, params, binary, NULL);
	send_sync(lane);
	settle(lane, 0);
	*rows = pipe->rows - before;
	answer = lane->answer;
	lane->answer = NULL;
	return answer;
}

/*
 * Returns the columns of a statement that has been asked on the shard, or NULL
 * if it is not known any more.
 */
const SlPrepared *
sl_pipe_describe(SlPipe *pipe, SlShard *shard, const char *sql)
{
	Lane	   *lane = find_lane(pipe, shard);

	return lane->conn != NULL && lane->conn->state == SL_CONN_OPEN ?
		sl_flight_find(lane->conn, sql, &untyped) : NULL;
}

/* Waits for all answers.  Returns how many rows were changed since the beginning. */
uint64
sl_pipe_flush(SlPipe *pipe)
{
	ListCell   *cell;

	if (pipe->is_over)
		return pipe->rows;
	sl_pipe_push(pipe);
	foreach(cell, pipe->lanes)
		close_lane(lfirst(cell));
	return pipe->rows;
}

/*
 * Gives a lane up.  Whoever stops its statements waits for their answers, so
 * these must come.
 */
static void
abandon(Lane *lane)
{
	if (lane->answer != NULL)
		PQclear(lane->answer);
	lane->answer = NULL;
	if (lane->is_open && lane->conn->owner == lane && lane->conn->state == SL_CONN_OPEN &&
		!sl_flight_is_empty(lane->conn) && !sl_flight_try_sync(lane->conn))
		sl_conn_close(lane->conn);
	release(lane);
}

static void
forget(SlPipe *pipe)
{
	ListCell   *cell;

	if (pipe->is_over)
		return;
	pipe->is_over = true;
	dlist_delete(&pipe->node);
	foreach(cell, pipe->lanes)
		abandon(lfirst(cell));
}

static void
forget_with_memory(void *arg)
{
	forget(arg);
}

/*
 * Begins to send statements on connections of the user.  It lives in a child of
 * the current memory context.
 */
SlPipe *
sl_pipe_begin(Oid user, const SlStatement *statement)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet pipe",
												  ALLOCSET_SMALL_SIZES);
	SlPipe	   *pipe = MemoryContextAllocZero(context, sizeof(SlPipe));

	sl_snapshot_begin();
	pipe->context = context;
	pipe->user = user;
	pipe->statement = statement;
	pipe->transaction = GetCurrentSubTransactionId();
	pipe->callback.func = forget_with_memory;
	pipe->callback.arg = pipe;
	MemoryContextRegisterResetCallback(context, &pipe->callback);
	dlist_push_tail(&pipes, &pipe->node);
	return pipe;
}

/* Has the shards write values in a form that cannot be misread. */
void
sl_pipe_want_plain(SlPipe *pipe)
{
	pipe->plain_values = true;
}

/*
 * What is sent changes keys and leaves other columns as they are, since no move was
 * under way that would need them.
 */
void
sl_pipe_is_partial(SlPipe *pipe)
{
	pipe->is_partial = true;
}

/* The same as sl_pipe_flush(), and nothing more can be sent. */
uint64
sl_pipe_end(SlPipe *pipe)
{
	(void) sl_pipe_flush(pipe);
	forget(pipe);
	return pipe->rows;
}

/* Transactions ---------------------------------------------------------------- */

/* Forgets those of a (sub)transaction that is rolled back; 0 is all of them. */
static void
forget_pipes(SubTransactionId transaction)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pipes)
	{
		/* cppcheck-suppress nullPointer */
		SlPipe	   *pipe = dlist_container(SlPipe, node, iter.cur);

		if (transaction == InvalidSubTransactionId || pipe->transaction == transaction)
			forget(pipe);
	}
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PARALLEL_ABORT)
		forget_pipes(InvalidSubTransactionId);
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId my_id, SubTransactionId parent_id,
					  void *arg)
{
	dlist_iter	iter;

	if (event == SUBXACT_EVENT_ABORT_SUB)
		forget_pipes(my_id);
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		dlist_foreach(iter, &pipes)
		{
			/* cppcheck-suppress nullPointer */
			SlPipe	   *pipe = dlist_container(SlPipe, node, iter.cur);

			if (pipe->transaction == my_id)
				pipe->transaction = parent_id;
		}
	}
}

/* Called after sl_txn_init(): callbacks run in the opposite order. */
void
sl_pipe_init(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}
