/*
 * copy_shardlet.c
 *		Copies rows from one shard to another, several tables at a time.
 *
 * Each stream is a pair of connections: COPY TO STDOUT on the source, COPY FROM
 * STDIN on the target.  Data pass through this process as they come; one loop
 * drives all streams, and reads from a source only when its target has taken
 * what came before.  The connections are the mover's own, not of the pool, and
 * everything sent on them before was answered; they leave pipeline mode for COPY,
 * which libpq has not in it, and are back when it is over.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "move/move_internal.h"

#define TICK_MS 200

/* The state of the slot is looked at so often. */
#define SLOT_MS 1000

/* Whether the target keeps up is found out so often. */
#define SEND_BYTES (64 * 1024)

typedef struct Stream
{
	SlConn	   *source;
	SlConn	   *target;
	const SlMoveTable *table;	/* NULL: nothing to do */
	char	   *source_sql;
	char	   *target_sql;
	bool		source_runs;	/* has answered that rows come */
	bool		target_runs;	/* has answered that it takes rows */
	bool		has_all;		/* the source has sent its last row */
	bool		source_is_done;
	bool		target_is_done;
	bool		is_full;		/* the target does not keep up */
	int64		source_rows;
	int64		target_rows;
} Stream;

typedef struct Copying
{
	Stream	   *streams;
	int			count;
	List	   *waiting;		/* tables */
	SlMover    *mover;
	SlMoveProgress progress;
	int64		rows;			/* of tables that are complete */
	int			rate;			/* that holds since then, and how much there
								 * was */
	TimestampTz rate_since;
	int64		rate_bytes;
	TimestampTz next_tick;
	SlConn	   *observer;		/* to the source; NULL: there is no slot */
	TimestampTz next_slot;
} Copying;

pg_noreturn static void
raise_copy_failure(SlConn *conn, PGresult *result, const char *sql)
{
	SlFailure  *failure;

	if (result == NULL)
		failure = sl_failure_unreachable(conn->shard, PQerrorMessage(conn->pg));
	else if (PQresultStatus(result) == PGRES_FATAL_ERROR)
		failure = sl_failure_make(conn, result);
	else
		failure = sl_failure_violation(conn->shard, "It did not answer as to COPY.");
	PQclear(result);
	sl_failure_raise(failure, conn->shard, sql);
}

static void
send_copy(SlConn *conn, const char *sql)
{
	if (!PQexitPipelineMode(conn->pg) || !PQsendQuery(conn->pg, sql))
		raise_copy_failure(conn, NULL, sql);
	if (conn->slot != NULL)
		conn->slot->is_active = true;
}

static void
start_stream(Stream *stream, const SlMoveTable *table)
{
	const char *format = table->is_binary ? "binary" : "text";

	stream->table = table;
	stream->source_sql = psprintf("COPY (SELECT %s FROM %s WHERE %s) TO STDOUT (FORMAT %s)", table->columns,
								  table->name, table->condition, format);
	stream->target_sql = psprintf("COPY %s (%s) FROM STDIN (FORMAT %s)", table->name, table->columns, format);
	stream->source_runs = stream->target_runs = stream->has_all = stream->is_full = false;
	stream->source_is_done = stream->target_is_done = false;
	stream->source_rows = stream->target_rows = 0;
	send_copy(stream->source, stream->source_sql);
	send_copy(stream->target, stream->target_sql);
}

/* Has a connection said that COPY has begun?  Anything else is an error. */
static bool
has_begun(SlConn *conn, const char *sql, ExecStatusType expected)
{
	PGresult   *result;

	if (PQisBusy(conn->pg))
		return false;
	result = PQgetResult(conn->pg);
	if (result == NULL || PQresultStatus(result) != expected)
		raise_copy_failure(conn, result, sql);
	PQclear(result);
	return true;
}

/* Takes in the end of COPY, with the number of rows; false: it has not come. */
static bool
take_end(SlConn *conn, const char *sql, int64 *rows)
{
	while (!PQisBusy(conn->pg))
	{
		PGresult   *result = PQgetResult(conn->pg);

		if (result == NULL)
		{
			if (!PQenterPipelineMode(conn->pg))
				raise_copy_failure(conn, NULL, sql);
			if (conn->slot != NULL)
				conn->slot->is_active = false;
			return true;
		}
		if (PQresultStatus(result) != PGRES_COMMAND_OK)
			raise_copy_failure(conn, result, sql);
		*rows = strtoll(PQcmdTuples(result), NULL, 10);
		PQclear(result);
	}
	return false;
}

/* May more be read now, or is there a limit that was reached? */
static bool
is_too_fast(const Copying *copying)
{
	TimestampTz elapsed;

	if (copying->rate == 0)
		return false;
	elapsed = GetCurrentTimestamp() - copying->rate_since;
	return (double) (copying->progress.bytes - copying->rate_bytes) / 1024 >
		(double) copying->rate * ((double) elapsed / USECS_PER_SEC);
}

/* The limit can be changed while rows are copied. */
static void
take_rate(Copying *copying)
{
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	if (copying->rate == sl_move_rate && copying->rate_since != 0)
		return;
	copying->rate = sl_move_rate;
	copying->rate_since = GetCurrentTimestamp();
	copying->rate_bytes = copying->progress.bytes;
}

/* Passes on what has come.  Returns true if something was done. */
static bool
pass_on(Copying *copying, Stream *stream)
{
	bool		result = false;
	int			unsent = 0;
	char	   *data;
	int			length = 0;

	/* libpq sends what it has when that is enough; a row alone never is. */
	while (!stream->is_full && !is_too_fast(copying) &&
		   (length = PQgetCopyData(stream->source->pg, &data, 1)) > 0)
	{
		int			put = PQputCopyData(stream->target->pg, data, length);

		PQfreemem(data);
		if (put <= 0)
			raise_copy_failure(stream->target, NULL, stream->target_sql);
		copying->progress.bytes += length;
		copying->progress.rows++;
		result = true;
		unsent += length;
		if (unsent >= SEND_BYTES)
		{
			stream->is_full = PQflush(stream->target->pg) > 0;
			unsent = 0;
		}
	}
	if (unsent > 0)
		stream->is_full = PQflush(stream->target->pg) > 0;
	if (length == -2)
		raise_copy_failure(stream->source, NULL, stream->source_sql);
	if (length == -1)
	{
		stream->has_all = true;
		if (PQputCopyEnd(stream->target->pg, NULL) <= 0)
			raise_copy_failure(stream->target, NULL, stream->target_sql);
		stream->is_full = PQflush(stream->target->pg) > 0;
		return true;
	}
	return result;
}

static void
finish_stream(Copying *copying, Stream *stream)
{
	if (stream->source_rows != stream->target_rows)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("shard \"%s\" did not take all rows of table \"%s\"", stream->target->shard,
					   stream->table->label),
				errdetail("%lld rows were sent, and %lld taken.", (long long) stream->source_rows,
						  (long long) stream->target_rows));
	copying->progress.tables++;
	copying->rows += stream->target_rows;
	stream->table = NULL;
}

/* Does what can be done without waiting.  Returns true if that was something. */
static bool
advance_stream(Copying *copying, Stream *stream)
{
	if (stream->table == NULL && copying->waiting != NIL)
	{
		start_stream(stream, linitial(copying->waiting));
		copying->waiting = list_delete_first(copying->waiting);
		return true;
	}
	if (stream->table == NULL)
		return false;
	if (!stream->source_runs || !stream->target_runs)
	{
		stream->target_runs = stream->target_runs || has_begun(stream->target, stream->target_sql, PGRES_COPY_IN);
		stream->source_runs = stream->source_runs || has_begun(stream->source, stream->source_sql, PGRES_COPY_OUT);
		return stream->source_runs && stream->target_runs;
	}
	if (!stream->has_all)
		return pass_on(copying, stream);
	if (!stream->source_is_done)
		stream->source_is_done = take_end(stream->source, stream->source_sql, &stream->source_rows);
	if (!stream->target_is_done && !stream->is_full)
		stream->target_is_done = take_end(stream->target, stream->target_sql, &stream->target_rows);
	if (!stream->source_is_done || !stream->target_is_done)
		return false;
	finish_stream(copying, stream);
	return true;
}

static void
add_item(SlWaitItem *items, int *count, SlConn *conn, uint32 events)
{
	items[*count].conn = conn;
	items[*count].events = events;
	(*count)++;
}

/* Takes in what has come; a target that fails says so while rows are sent. */
static void
read_conn(SlConn *conn, const char *sql)
{
	if (!PQconsumeInput(conn->pg))
		raise_copy_failure(conn, NULL, sql);
}

static void
wait_for_streams(Copying *copying, SlWaitCache *cache)
{
	SlWaitItem *items = palloc0(sizeof(SlWaitItem) * 2 * copying->count);
	bool		is_limited = is_too_fast(copying);
	int			count = 0;

	for (int i = 0; i < copying->count; i++)
	{
		Stream	   *stream = &copying->streams[i];

		if (stream->table == NULL)
			continue;
		if (!stream->is_full && !is_limited && !stream->source_is_done)
			add_item(items, &count, stream->source, WL_SOCKET_READABLE);
		add_item(items, &count, stream->target,
				 WL_SOCKET_READABLE | (PQflush(stream->target->pg) > 0 ? WL_SOCKET_WRITEABLE : 0));
	}
	if (count > 0)
		(void) sl_wait_items(items, count, is_limited ? sl_wait_deadline(10) : copying->next_tick, cache);
	for (int i = 0; i < copying->count; i++)
	{
		Stream	   *stream = &copying->streams[i];

		if (stream->table == NULL)
			continue;

		/*
		 * Input of the source is not consumed unless it can be passed on:
		 * libpq's buffer has no limit.
		 */
		if (!stream->is_full && !is_limited && !stream->source_is_done)
			read_conn(stream->source, stream->source_sql);
		read_conn(stream->target, stream->target_sql);
		stream->is_full = PQflush(stream->target->pg) > 0;
	}
	pfree(items);
}

static bool
is_over(const Copying *copying)
{
	for (int i = 0; i < copying->count; i++)
	{
		if (copying->streams[i].table != NULL)
			return false;
	}
	return copying->waiting == NIL;
}

static void
report_and_check(Copying *copying)
{
	TimestampTz now = GetCurrentTimestamp();

	CHECK_FOR_INTERRUPTS();
	if (now < copying->next_tick)
		return;
	take_rate(copying);
	sl_move_report_progress(copying->mover, &copying->progress);
	copying->next_tick = TimestampTzPlusMilliseconds(now, TICK_MS);

	/* A copy without the changes since then is of no use. */
	if (copying->observer == NULL || now < copying->next_slot)
		return;
	sl_move_check_slot(copying->mover, copying->observer);
	copying->next_slot = TimestampTzPlusMilliseconds(now, SLOT_MS);
}

/*
 * Copies the rows of all tables.  The connections, "count" pairs, have their
 * transactions open, and keep them.  An error leaves them of no use.  Online, the
 * observer is another connection to the source.
 */
void
sl_move_copy_rows(SlMover *mover, SlConn **sources, SlConn **targets, int count, SlConn *observer,
				  SlMoveProgress *progress)
{
	Copying		copying = {.count = count,.waiting = list_copy(mover->tables),.mover = mover,.observer = observer};
	SlWaitCache cache = {0};

	copying.streams = palloc0(sizeof(Stream) * count);
	take_rate(&copying);
	for (int i = 0; i < count; i++)
	{
		copying.streams[i].source = sources[i];
		copying.streams[i].target = targets[i];
	}
	while (!is_over(&copying))
	{
		bool		has_moved = false;

		for (int i = 0; i < count; i++)
			has_moved = advance_stream(&copying, &copying.streams[i]) || has_moved;
		report_and_check(&copying);
		if (!has_moved)
			wait_for_streams(&copying, &cache);
	}
	sl_wait_forget(&cache);

	/* What was counted on the way is the number of messages. */
	*progress = copying.progress;
	progress->rows = copying.rows;
}
