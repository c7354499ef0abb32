/*
 * copy_in.c
 *		Rows to many shards at once, through COPY ... FROM STDIN.
 *
 * A shard's COPY is opened with its first row, as part of the session's
 * transaction, and all of them are worked on together: rows are collected in a
 * buffer for each shard and handed to libpq in chunks, whenever it has sent the
 * chunk before.  Whoever puts rows waits only if a shard is behind by
 * MOST_WAITING bytes, and while it waits all other shards go on.
 *
 * A connection in COPY can do nothing else.  It is owned by its lane, so who
 * needs it makes the lane end its COPY first; the next row opens another one.
 * The same is done when a shard says something in the middle: if it is an
 * error, that ends the statement now, and not behind the last row.
 *
 * An error leaves COPYs open.  They are part of what is under way on their
 * connections, so the end of the (sub)transaction stops them as it stops
 * statements (cancel.c); here only the owner has to go.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "fanout/fanout.h"

/* So much is handed to libpq at once. */
#define CHUNK_SIZE (64 * 1024)

/* A shard that is behind by so much is waited for. */
#define MOST_WAITING (1024 * 1024)

/* What a binary COPY begins with: signature, flags, no extension. */
static const char binary_header[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0";
#define BINARY_HEADER_SIZE 19

/* And ends with: no columns. */
static const char binary_trailer[] = "\377\377";
#define BINARY_TRAILER_SIZE 2

typedef enum LaneState
{
	LANE_CLOSED,				/* no COPY, no connection */
	LANE_OPENING,				/* connecting */
	LANE_JOINING,				/* becomes part of the transaction */
	LANE_STARTING,				/* COPY was sent */
	LANE_COPYING,				/* takes data */
	LANE_ENDING					/* its end was sent */
} LaneState;

/* One shard's COPY.  While it is not closed it owns its connection. */
typedef struct Lane
{
	SlCopyIn   *copy;
	SlShard    *shard;
	LaneState	state;
	SlConn	   *conn;
	StringInfoData buffer;		/* not yet handed to libpq */
	int			next_look;		/* its size when the lanes are looked at next */
	int64		put_count;		/* calls of sl_copy_in_put() for it */
	int64		buffered_count; /* of them, those in the buffer */
	int64		first;			/* the one that this COPY began with, from 0 */
	bool		is_sending;		/* libpq has something to send */
	bool		must_end;		/* when its data are sent */
	bool		was_open;		/* the connection, by an earlier statement */
	bool		has_begun;		/* the shard's transaction */
	bool		has_retried;
	SlFailure  *failure;
} Lane;

struct SlCopyIn
{
	dlist_node	node;			/* in the list of those that are under way */
	SubTransactionId transaction;
	MemoryContext context;
	MemoryContextCallback callback;
	char	   *sql;
	bool		is_binary;
	bool		is_over;
	const SlStatement *statement;	/* or NULL */
	Oid			user;
	uint64		rows;
	uint64		opened;			/* COPYs, on all shards */
	Lane	  **lanes;
	int			lane_count;
	Lane	   *last;			/* the row before went to it */
	SlWaitItem *items;
	Lane	  **item_lanes;
	SlWaitCache wait_cache;
	SlCopyExplainer explainer;	/* or NULL */
	void	   *explainer_arg;
};

static dlist_head copies = DLIST_STATIC_INIT(copies);

static void work_on(SlCopyIn *copy, bool waits);
static void yield(SlConn *conn);

/* Failures -------------------------------------------------------------------- */

static void
release(Lane *lane)
{
	if (lane->conn != NULL && lane->conn->owner == lane)
		lane->conn->owner = NULL;
	lane->state = LANE_CLOSED;
	lane->is_sending = false;
	lane->must_end = false;
	sl_wait_forget(&lane->copy->wait_cache);
}

/*
 * The shard counts the rows that it got, and nobody but us has written COPY: its
 * line would send the user to a wrong place.
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
fail(Lane *lane, SlFailure *failure)
{
	SlCopyIn   *copy = lane->copy;

	release(lane);
	if (copy->explainer != NULL && failure->context != NULL)
		copy->explainer(copy->explainer_arg, lane->shard, lane->first, failure);
	else if (failure->context != NULL)
		failure->context = without_line(failure->context);
	sl_failure_blame_move(failure);
	sl_failure_raise(failure, NameStr(lane->shard->name), copy->sql);
}

/* Opening --------------------------------------------------------------------- */

/* The connection is open: puts the COPY into the session's transaction. */
static void
join(Lane *lane)
{
	SlTxnUse	use = {
		.writes = true,.statement = sl_statement_of_write(lane->copy->statement),
		.reader = lane->copy->statement != NULL ? &lane->copy->statement->reader : NULL
	};
	SlFailure  *failure;

	sl_pool_note_success(lane->conn);
	failure = sl_recover_before(lane->shard, lane->conn);
	if (failure != NULL)
		fail(lane, failure);
	lane->has_begun = lane->conn->txn.level == 0;
	lane->state = LANE_JOINING;
	sl_txn_join(lane->conn, &use);
	sl_flight_sync(lane->conn);
}

static void
open_lane(Lane *lane)
{
	SlFailure  *failure;

	lane->conn = sl_pool_get_as(lane->shard, lane->copy->user, &failure);
	if (lane->conn == NULL)
		fail(lane, failure);
	lane->conn->owner = lane;
	lane->conn->yield = yield;
	lane->was_open = lane->conn->state == SL_CONN_OPEN;
	lane->state = LANE_OPENING;
	lane->failure = NULL;
	lane->first = lane->put_count - lane->buffered_count;
	lane->copy->opened++;
	sl_wait_forget(&lane->copy->wait_cache);
	if (lane->was_open)
		join(lane);
}

static void
step_opening(Lane *lane)
{
	SlFailure  *failure;

	sl_wait_forget(&lane->copy->wait_cache);
	if (sl_conn_advance(lane->conn, &failure))
		join(lane);
	else if (failure != NULL)
		fail(lane, failure);
}

/* An old connection turned out dead before anything was begun on it. */
static bool
can_retry(const Lane *lane, const SlFailure *failure)
{
	return failure->lost && lane->state == LANE_JOINING && lane->was_open && lane->has_begun &&
		!lane->has_retried;
}

static void
fail_or_retry(Lane *lane, SlFailure *failure)
{
	if (!can_retry(lane, failure))
		fail(lane, failure);
	lane->has_retried = true;
	sl_txn_abandon(lane->conn);
	release(lane);
	open_lane(lane);
}

/* Sending --------------------------------------------------------------------- */

static void
hand_over(Lane *lane, const char *data, int length)
{
	lane->is_sending = !sl_flight_put_copy(lane->conn, data, length);
}

static void
send_end(Lane *lane)
{
	if (lane->copy->is_binary)
		hand_over(lane, binary_trailer, BINARY_TRAILER_SIZE);

	/* If it cannot be said, the connection's state tells why. */
	(void) sl_flight_end_copy(lane->conn, NULL);
	lane->state = LANE_ENDING;
}

/* Gives libpq the next chunk if it has nothing left to send. */
static void
push(Lane *lane)
{
	if (lane->state != LANE_COPYING || lane->is_sending)
		return;
	if (lane->buffer.len >= CHUNK_SIZE || (lane->must_end && lane->buffer.len > 0))
	{
		hand_over(lane, lane->buffer.data, lane->buffer.len);
		resetStringInfo(&lane->buffer);
		lane->buffered_count = 0;
		lane->next_look = CHUNK_SIZE;
	}
	if (lane->must_end)
		send_end(lane);
}

static void
start_copying(Lane *lane)
{
	lane->state = LANE_COPYING;
	if (lane->copy->is_binary)
		hand_over(lane, binary_header, BINARY_HEADER_SIZE);
	push(lane);
}

/* Taking in ------------------------------------------------------------------- */

static void
keep_rows(Lane *lane, const PGresult *result)
{
	const char *rows = PQcmdTuples((PGresult *) result);

	if (lane->state == LANE_ENDING && rows[0] != '\0')
		lane->copy->rows += strtoull(rows, NULL, 10);
}

/* Everything that was sent has been answered. */
static void
all_is_answered(Lane *lane)
{
	if (lane->failure != NULL)
		fail_or_retry(lane, lane->failure);
	else if (lane->state == LANE_JOINING)
	{
		lane->state = LANE_STARTING;
		sl_flight_start_copy(lane->conn, lane->copy->sql);
	}
	else
	{
		release(lane);
		if (lane->buffer.len > 0)
			open_lane(lane);
	}
}

/* Takes in what the shard answered to a statement, or to the end of COPY. */
static void
step_answers(Lane *lane)
{
	SlFailure  *failure;
	SlEvent		event;

	if (!sl_conn_read(lane->conn, &failure))
	{
		fail_or_retry(lane, failure);
		return;
	}
	do
	{
		PGresult   *result;

		event = sl_flight_next(lane->conn, &result, &failure);
		if (event == SL_EVENT_DONE)
			keep_rows(lane, result);
		if (result != NULL)
			PQclear(result);
		if (event == SL_EVENT_FAILED && lane->failure == NULL)
			lane->failure = failure;
		if (event == SL_EVENT_COPY)
		{
			start_copying(lane);
			return;
		}
	} while (event != SL_EVENT_NONE && event != SL_EVENT_IDLE &&
			 lane->conn->state == SL_CONN_OPEN);
	if (event == SL_EVENT_IDLE || lane->conn->state != SL_CONN_OPEN)
		all_is_answered(lane);
}

/*
 * Either libpq can send more, or the shard has said something while all that
 * it was given is sent: then its COPY is ended, to hear it.
 */
static void
step_copying(Lane *lane)
{
	SlFailure  *failure;

	if (!lane->is_sending)
		lane->must_end = true;
	if (!sl_conn_read(lane->conn, &failure))
		fail(lane, failure);
	lane->is_sending = PQflush(lane->conn->pg) > 0;
	push(lane);
}

static void
step(Lane *lane)
{
	if (lane->state == LANE_OPENING)
		step_opening(lane);
	else if (lane->state == LANE_COPYING)
		step_copying(lane);
	else
		step_answers(lane);
}

/* Waiting --------------------------------------------------------------------- */

static uint32
wanted_events(const Lane *lane)
{
	if (lane->state != LANE_COPYING)
		return sl_conn_wants(lane->conn);
	return lane->is_sending ? WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE;
}

/* Collects the lanes that something can happen to.  Returns the deadline. */
static TimestampTz
collect_items(SlCopyIn *copy, int *count)
{
	TimestampTz deadline = sl_shard_timeout > 0 ? sl_wait_deadline(sl_shard_timeout) : DT_NOEND;

	*count = 0;
	for (int i = 0; i < copy->lane_count; i++)
	{
		Lane	   *lane = copy->lanes[i];

		if (lane->state == LANE_CLOSED)
			continue;
		if (lane->state == LANE_OPENING)
			deadline = Min(deadline, lane->conn->deadline);
		copy->items[*count].conn = lane->conn;
		copy->items[*count].events = wanted_events(lane);
		copy->items[*count].ready = false;
		copy->item_lanes[(*count)++] = lane;
	}
	return deadline;
}

/* Nothing happened in time: who is to blame? */
static void
check_deadlines(SlCopyIn *copy, int count)
{
	TimestampTz now = GetCurrentTimestamp();
	Lane	   *slow = NULL;

	for (int i = 0; i < count; i++)
	{
		Lane	   *lane = copy->item_lanes[i];
		SlFailure  *failure = NULL;

		if (lane->state != LANE_OPENING)
		{
			if (lane->state != LANE_COPYING || lane->is_sending)
				slow = lane;
			continue;
		}
		if (lane->conn->deadline <= now && sl_conn_time_is_up(lane->conn, &failure))
			fail(lane, failure);
		sl_wait_forget(&copy->wait_cache);
	}
	if (slow != NULL && sl_shard_timeout > 0)
		fail(slow, sl_failure_unreachable(NameStr(slow->shard->name),
										  psprintf("It took longer than shardlet.shard_timeout, %d ms.",
												   sl_shard_timeout)));
}

/*
 * Is there something to be done without waiting?  A connection may have failed
 * at once, and libpq may have taken in an answer while it was sending: then
 * nothing more comes that could be waited for.
 */
static bool
is_ready(const Lane *lane)
{
	switch (lane->state)
	{
		case LANE_OPENING:
			return PQstatus(lane->conn->pg) == CONNECTION_BAD;
		case LANE_JOINING:
		case LANE_STARTING:
		case LANE_ENDING:
			return !PQisBusy(lane->conn->pg);
		default:
			return false;
	}
}

static bool
serve_ready(SlCopyIn *copy)
{
	bool		any = false;

	for (int i = 0; i < copy->lane_count; i++)
	{
		Lane	   *lane = copy->lanes[i];

		if (!is_ready(lane))
			continue;
		step(lane);
		any = true;
	}
	return any;
}

/* Lets every lane go on that can; if told so, waits until one can. */
static void
work_on(SlCopyIn *copy, bool waits)
{
	MemoryContext old_context = MemoryContextSwitchTo(copy->context);
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
			if (copy->items[i].ready && copy->item_lanes[i]->state != LANE_CLOSED)
				step(copy->item_lanes[i]);
		}
	}
	MemoryContextSwitchTo(old_context);
}

/* Asks a lane to end its COPY; it may have to begin it first. */
static void
ask_to_end(Lane *lane)
{
	if (lane->state == LANE_CLOSED || lane->state == LANE_ENDING)
		return;
	lane->must_end = true;
	push(lane);
}

/* Somebody else needs the connection. */
static void
yield(SlConn *conn)
{
	Lane	   *lane = conn->owner;

	while (conn->owner == lane)
	{
		ask_to_end(lane);
		work_on(lane->copy, true);
	}
}

/* Interface ------------------------------------------------------------------- */

static void
forget(SlCopyIn *copy)
{
	if (copy->is_over)
		return;
	copy->is_over = true;
	dlist_delete(&copy->node);
	for (int i = 0; i < copy->lane_count; i++)
		release(copy->lanes[i]);
}

static void
forget_with_memory(void *arg)
{
	forget(arg);
}

/*
 * Begins to copy with a command that every shard gets as it is: COPY of one
 * table FROM STDIN.  It lives in a child of the current memory context.  The
 * connections are those of the user.  The statement, or NULL, is the one that
 * the rows belong to.
 */
SlCopyIn *
sl_copy_in_begin(const char *sql, bool is_binary, Oid user, const SlStatement *statement)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet copy",
												  ALLOCSET_DEFAULT_SIZES);
	SlCopyIn   *copy = MemoryContextAllocZero(context, sizeof(SlCopyIn));

	sl_snapshot_begin();
	copy->context = context;
	copy->sql = MemoryContextStrdup(context, sql);
	copy->is_binary = is_binary;
	copy->user = user;
	copy->statement = statement;
	copy->transaction = GetCurrentSubTransactionId();
	copy->callback.func = forget_with_memory;
	copy->callback.arg = copy;
	MemoryContextRegisterResetCallback(context, &copy->callback);
	dlist_push_tail(&copies, &copy->node);
	return copy;
}

/*
 * Has a failure of a COPY looked at before it is raised: its context names the
 * line that the shard was at.
 */
void
sl_copy_in_explain(SlCopyIn *copy, SlCopyExplainer explainer, void *arg)
{
	copy->explainer = explainer;
	copy->explainer_arg = arg;
}

static Lane *
add_lane(SlCopyIn *copy, SlShard *shard)
{
	MemoryContext old_context = MemoryContextSwitchTo(copy->context);
	Lane	   *lane = palloc0(sizeof(Lane));
	int			room = copy->lane_count + 1;

	lane->copy = copy;
	lane->shard = shard;
	lane->next_look = CHUNK_SIZE;
	initStringInfo(&lane->buffer);
	if (copy->lane_count == 0)
	{
		copy->lanes = palloc(sizeof(Lane *));
		copy->items = palloc0(sizeof(SlWaitItem));
		copy->item_lanes = palloc(sizeof(Lane *));
	}
	else
	{
		copy->lanes = repalloc(copy->lanes, sizeof(Lane *) * room);
		copy->items = repalloc(copy->items, sizeof(SlWaitItem) * room);
		copy->item_lanes = repalloc(copy->item_lanes, sizeof(Lane *) * room);
	}
	copy->lanes[copy->lane_count++] = lane;
	MemoryContextSwitchTo(old_context);
	return lane;
}

static Lane *
find_lane(SlCopyIn *copy, SlShard *shard)
{
	if (copy->last != NULL && copy->last->shard == shard)
		return copy->last;
	copy->last = NULL;
	for (int i = 0; i < copy->lane_count && copy->last == NULL; i++)
	{
		if (copy->lanes[i]->shard == shard)
			copy->last = copy->lanes[i];
	}
	if (copy->last == NULL)
		copy->last = add_lane(copy, shard);
	return copy->last;
}

static void
check_alive(const SlCopyIn *copy)
{
	if (copy->is_over)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				errmsg("rows cannot be copied to the shards any more"),
				errdetail("The transaction or savepoint in which that was begun was rolled back."));
}

/*
 * Sends a row, or several, to a shard: whole rows, in the form that the command
 * asks for, without header and trailer.  The shard may refuse them later.
 */
void
sl_copy_in_put(SlCopyIn *copy, SlShard *shard, const char *data, int length)
{
	Lane	   *lane;

	check_alive(copy);
	lane = find_lane(copy, shard);
	appendBinaryStringInfo(&lane->buffer, data, length);
	lane->put_count++;
	lane->buffered_count++;
	if (lane->state == LANE_CLOSED)
	{
		MemoryContext old_context = MemoryContextSwitchTo(copy->context);

		open_lane(lane);
		MemoryContextSwitchTo(old_context);
	}
	if (lane->buffer.len < lane->next_look)
		return;
	lane->next_look = lane->buffer.len + CHUNK_SIZE;
	push(lane);
	work_on(copy, false);
	while (lane->buffer.len >= MOST_WAITING)
		work_on(copy, true);
}

/* Returns how many COPYs were opened: more than shards if others interfered. */
uint64
sl_copy_in_opened(const SlCopyIn *copy)
{
	return copy->opened;
}

/* Sends all rows that were put, and waits until the shards have taken them. */
void
sl_copy_in_flush(SlCopyIn *copy)
{
	bool		any = true;

	check_alive(copy);
	while (any)
	{
		any = false;
		for (int i = 0; i < copy->lane_count; i++)
		{
			ask_to_end(copy->lanes[i]);
			any = any || copy->lanes[i]->state != LANE_CLOSED;
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
sl_copy_in_end(SlCopyIn *copy)
{
	uint64		rows;

	sl_copy_in_flush(copy);
	rows = copy->rows;
	forget(copy);
	return rows;
}

/* Transactions ---------------------------------------------------------------- */

/* Forgets those of a (sub)transaction that is rolled back; 0 is all of them. */
static void
forget_copies(SubTransactionId transaction)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &copies)
	{
		/* cppcheck-suppress nullPointer */
		SlCopyIn   *copy = dlist_container(SlCopyIn, node, iter.cur);

		if (transaction == InvalidSubTransactionId || copy->transaction == transaction)
			forget(copy);
	}
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PARALLEL_ABORT)
		forget_copies(InvalidSubTransactionId);
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId my_id, SubTransactionId parent_id,
					  void *arg)
{
	dlist_iter	iter;

	if (event == SUBXACT_EVENT_ABORT_SUB)
		forget_copies(my_id);
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		dlist_foreach(iter, &copies)
		{
			/* cppcheck-suppress nullPointer */
			SlCopyIn   *copy = dlist_container(SlCopyIn, node, iter.cur);

			if (copy->transaction == my_id)
				copy->transaction = parent_id;
		}
	}
}

/* Called after sl_txn_init(): callbacks run in the opposite order. */
void
sl_copy_in_init(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}
