/*
 * logical_replication.c
 *		What keeps a copy up to date while rows are still written to: a
 *		publication and a replication slot on the source, a subscription on the
 *		target, and a table for a marker on both.
 *
 * All have one name, which is in the move's row: made of the router, its database and
 * the move, since slots and subscriptions are of the whole server.  The source's row
 * filter is the range's condition; its columns must be part of the tables' replica
 * identity, or the application's updates would fail from then on: preconditions.c
 * checks that before.
 *
 * Rows are not copied by the subscription: with the mover's own copy there is one
 * slot to wait for and not one for each table, and what was copied can be compared
 * under the slot's snapshot, before the first change is applied.
 *
 * The subscription is created before the copy, disabled: that locks the tables on
 * both shards for a moment.  After the first table lock of the copy it would have to
 * wait for DDL that waits for the copy.  Enabling it locks no table.
 *
 * A slot is made when all transactions of the source's server have ended that
 * had a transaction id.  The mover has none anywhere meanwhile.
 */
#include "postgres.h"

#include <limits.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "move/move_internal.h"

#define LOOK_MS 200

/* What was sent must arrive within that before the switch is tried. */
#define NEAR_MS 100

/* How often the target is queried whether it has arrived. */
#define NAP_MS 5

/*
 * Writers that are too fast are kept out for so long at a time, if the lock for it
 * can be had so soon.  In between they are let in, for less and less time.
 */
#define HOLD_MS 25
#define HOLD_LOCK_MS 15
#define MAX_FREE_MS 50
#define MIN_FREE_MS 5
#define MAX_BACK_OFF_MS 1000

/* Nothing was applied for so long: that will not come. */
#define STUCK_MS 60000

/* Nor if there are so many errors meanwhile. */
#define MAX_ERRORS 2

/*
 * What can keep a slot from being created: transactions with an id, prepared ones
 * too.
 */
#define OLDEST_SQL \
	"SELECT pg_catalog.concat_ws(', '," \
	" (SELECT 'process ' || pid || ' of database ' || datname || ' since ' || xact_start::pg_catalog.timestamptz(0)" \
	" FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start LIMIT 1)," \
	" (SELECT 'prepared transaction ' || gid || ' of database ' || database || ' since ' || prepared::pg_catalog.timestamptz(0)" \
	" FROM pg_catalog.pg_prepared_xacts ORDER BY prepared LIMIT 1))"

/* The first value of the answer; what it came with is not kept. */
static char *
fetch_value(SlConn *conn, const char *sql, int param_count, const char *const *params)
{
	MemoryContext context = sl_move_create_short_context();
	MemoryContext old_context = MemoryContextSwitchTo(context);
	const char *value = sl_remote_value(sl_remote_exec(conn, sql, param_count, params), 0, 0);
	char	   *result;

	MemoryContextSwitchTo(old_context);
	result = value != NULL ? pstrdup(value) : NULL;
	MemoryContextDelete(context);
	return result;
}

static char *
marker_of(const SlMover *mover)
{
	return psprintf("shardlet.%s", mover->move.name);
}

/* Making ------------------------------------------------------------------------------- */

/* On the source: tables with filters, and the marker. */
void
sl_move_create_publication(SlMover *mover, SlConn *source, SlConn *target)
{
	StringInfoData sql;
	ListCell   *cell;
	char	   *marker = psprintf("CREATE TABLE IF NOT EXISTS %s (n bigint PRIMARY KEY)", marker_of(mover));

	sl_move_exec(mover, source, marker);
	sl_move_exec(mover, target, marker);
	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE PUBLICATION %s FOR TABLE %s", mover->move.name, marker_of(mover));
	foreach(cell, mover->tables)
	{
		const SlMoveTable *table = lfirst(cell);

		appendStringInfo(&sql, ", TABLE %s WHERE (%s)", table->name, table->condition);
	}
	appendStringInfoString(&sql, " WITH (publish = 'insert, update, delete', publish_via_partition_root = true)");
	sl_move_exec(mover, source, sql.data);
}

/*
 * Makes the slot, and returns the name of the snapshot that goes with it.  That
 * is good as long as the connection is.
 */
char *
sl_move_create_slot(SlMover *mover, SlConn *source, SlConn **walsender)
{
	char	   *sql = psprintf("CREATE_REPLICATION_SLOT %s LOGICAL pgoutput (SNAPSHOT 'export')", mover->move.name);
	TimestampTz since = GetCurrentTimestamp();
	PGresult   *answer;

	*walsender = sl_replication_open(source);
	sl_replication_send(*walsender, sql);
	while ((answer = sl_replication_answer(*walsender, sql, LOOK_MS)) == NULL)
	{
		sl_move_check_cancelled(mover);
		if (sl_move_wait_timeout > 0 &&
			TimestampDifferenceExceeds(since, GetCurrentTimestamp(), sl_move_wait_timeout))
			ereport(ERROR,
					errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					errmsg("gave up waiting for a replication slot on shard \"%s\"", source->shard),
					errdetail("It is made when all transactions of that server have ended that have written: %s.",
							  fetch_value(source, OLDEST_SQL, 0, NULL)));
	}
	return pstrdup(sl_protocol_value(*walsender, answer, 0, 2));
}

/* How the target's server reaches the source: as the router does. */
static char *
conninfo_of(const SlConn *conn)
{
	static const char *const left_out[] = {
		"client_encoding", "application_name", "keepalives", "keepalives_idle", "keepalives_interval",
		"keepalives_count", "tcp_user_timeout", "options", "fallback_application_name"
	};
	StringInfoData result;

	initStringInfo(&result);
	for (int i = 0; i < conn->parameter_count; i++)
	{
		bool		is_left_out = false;

		for (int j = 0; j < (int) lengthof(left_out); j++)
			is_left_out = is_left_out || strcmp(conn->keywords[i], left_out[j]) == 0;
		if (is_left_out)
			continue;
		appendStringInfo(&result, "%s%s='", result.len > 0 ? " " : "", conn->keywords[i]);
		for (const char *at = conn->values[i]; *at != '\0'; at++)
		{
			if (*at == '\'' || *at == '\\')
				appendStringInfoChar(&result, '\\');
			appendStringInfoChar(&result, *at);
		}
		appendStringInfoChar(&result, '\'');
	}
	return result.data;
}

static bool
is_binary(List *tables)
{
	ListCell   *cell;

	foreach(cell, tables)
	{
		if (!((SlMoveTable *) lfirst(cell))->is_binary)
			return false;
	}
	return true;
}

/*
 * On the target: the subscription, which does nothing yet.  The mover must hold no lock
 * on the tables.
 */
void
sl_move_create_subscription(SlMover *mover, SlConn *source, SlConn *target)
{
	const char *name = mover->move.name;

	/* There may be a password in it, so an error does not repeat it. */
	sl_move_exec_quietly(mover, target,
						 psprintf("CREATE SUBSCRIPTION %s CONNECTION %s PUBLICATION %s"
								  " WITH (create_slot = false, copy_data = false, enabled = false, slot_name = %s, synchronous_commit = off)",
								  name, quote_literal_cstr(conninfo_of(source)), name, name));
}

/* Starts the subscription.  No table is locked for it. */
void
sl_move_enable_subscription(SlMover *mover, SlConn *target)
{
	const char *name = mover->move.name;

	/* A column may have come meanwhile whose type has no binary form. */
	sl_move_exec(mover, target, psprintf("ALTER SUBSCRIPTION %s SET (binary = %s)", name,
										 is_binary(mover->tables) ? "true" : "false"));
	sl_move_exec(mover, target, psprintf("ALTER SUBSCRIPTION %s ENABLE", name));
}

/* Following ------------------------------------------------------------------------------ */

/* How changes get on. */
typedef struct Lag
{
	int64		last;			/* bytes */
	TimestampTz looked;			/* at it */
	TimestampTz moved;			/* when it was found less than before */
	int64		errors;			/* of the target until then; -1: to be queried */
	bool		is_read;		/* an apply worker reads the slot */
	int			free_ms;		/* writers are let in for so long before they
								 * are kept out for a moment; 0: they are not */
	int			back_off_ms;	/* but for so long if that was not possible */
} Lag;

/* The slot's state: bytes that the target has not confirmed, or -1: it has no reader. */
#define SLOT_SQL \
	"SELECT CASE WHEN wal_status OPERATOR(pg_catalog.=) 'lost' THEN 'lost'" \
	" WHEN active THEN pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), confirmed_flush_lsn)::pg_catalog.int8::pg_catalog.text" \
	" ELSE '-1' END FROM pg_catalog.pg_replication_slots WHERE slot_name OPERATOR(pg_catalog.=) $1"

/*
 * Bytes of the source's log that the target has not confirmed; -1: it has no reader.  A
 * slot that is gone, or has lost what it was to keep, never comes back: that is an
 * error which ends the move.
 */
static int64
find_lag(SlMover *mover, SlConn *source)
{
	const char *name = mover->move.name;
	char	   *answer = fetch_value(source, SLOT_SQL, 1, &name);
	int64		result;

	if (answer == NULL)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("replication slot \"%s\" is gone from shard \"%s\"", name, source->shard),
				errdetail("It was dropped while the shardlet was being moved."),
				errhint("CALL shardlet.resume_move(%lld) moves the shardlet again.", (long long) mover->move.id));
	if (strcmp(answer, "lost") == 0)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("replication slot \"%s\" on shard \"%s\" is lost", name, source->shard),
				errdetail("The server has invalidated it, and changes since the copy are not to be had any more."),
				errhint("Raise max_slot_wal_keep_size there, then CALL shardlet.resume_move(%lld).",
						(long long) mover->move.id));
	result = strtoll(answer, NULL, 10);
	pfree(answer);
	return result;
}

/* Fails if the slot cannot bring the changes since the copy any more. */
void
sl_move_check_slot(SlMover *mover, SlConn *source)
{
	(void) find_lag(mover, source);
}

/* How often the target has failed to apply what came. */
static int64
count_errors(SlMover *mover, SlConn *target)
{
	const char *name = mover->move.name;
	char	   *answer = fetch_value(target, "SELECT apply_error_count FROM pg_catalog.pg_stat_subscription_stats WHERE subname OPERATOR(pg_catalog.=) $1",
									 1, &name);
	int64		result = answer != NULL ? strtoll(answer, NULL, 10) : 0;

	if (answer != NULL)
		pfree(answer);
	return result;
}

/*
 * Does the target fail again and again?  A stream that breaks off counts as an error,
 * too, and so does a deadlock: the next attempt gets on.
 */
static void
check_errors(SlMover *mover, SlConn *target, Lag *lag)
{
	int64		errors = count_errors(mover, target);

	if (lag->errors < 0)
		lag->errors = errors;
	if (errors - lag->errors >= MAX_ERRORS)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("shard \"%s\" could not apply changes", target->shard),
				errhint("The log of its server says why."));
}

/* Writes a row into the source's log; returns the question whether it has arrived. */
static char *
send_marker(SlMover *mover, SlConn *source)
{
	char	   *marker = marker_of(mover);
	char	   *number = fetch_value(source, psprintf("INSERT INTO %s SELECT coalesce(pg_catalog.max(n), 0) OPERATOR(pg_catalog.+) 1 FROM %s RETURNING n",
													  marker, marker), 0, NULL);

	char	   *result = psprintf("SELECT EXISTS (SELECT FROM %s WHERE n OPERATOR(pg_catalog.=) %s)", marker, number);

	pfree(marker);
	pfree(number);
	return result;
}

static bool
has_marker(SlConn *target, const char *question)
{
	MemoryContext context = sl_move_create_short_context();
	MemoryContext old_context = MemoryContextSwitchTo(context);
	bool		result = sl_remote_bool(sl_remote_query(target, question, 0, NULL), 0, 0);

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	return result;
}

/* Does the process that applies changes wait for a lock? */
#define WAITS_SQL \
	"SELECT EXISTS (SELECT FROM pg_catalog.pg_stat_subscription s JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) s.pid" \
	" WHERE s.subname OPERATOR(pg_catalog.=) $1 AND a.wait_event_type OPERATOR(pg_catalog.=) 'Lock')"

/*
 * Nothing has been applied for long.  DDL that has locked a table on the target is waited
 * for, as everywhere in a move; anything else will not pass.
 */
static void
check_stuck(SlMover *mover, SlConn *source, SlConn *target, const Lag *lag)
{
	const char *name = mover->move.name;
	char	   *waits = fetch_value(target, WAITS_SQL, 1, &name);

	if (strcmp(waits, "t") == 0)
		sl_move_check_wait_timeout(lag->moved, "those who have locked tables of the map on the shard");
	else
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("changes of shard \"%s\" do not reach shard \"%s\"", source->shard, target->shard),
				errdetail("Nothing has been applied for %d seconds.", STUCK_MS / 1000),
				errhint("The log of the server of \"%s\" says why; it must reach \"%s\" by the address that the router has.",
						target->shard, source->shard));
	pfree(waits);
}

/* How far is it?  Fails when it does not get on. */
static void
look_after_changes(SlMover *mover, SlConn *source, SlConn *target, Lag *lag)
{
	int64		bytes = find_lag(mover, source);

	if (bytes >= 0 && bytes < lag->last)
	{
		lag->moved = GetCurrentTimestamp();
		lag->errors = -1;
	}
	check_errors(mover, target, lag);
	if (bytes >= 0)
		lag->last = bytes;
	lag->is_read = bytes >= 0;
	lag->looked = GetCurrentTimestamp();
	sl_move_report_lag(mover, bytes);
	if (TimestampDifferenceExceeds(lag->moved, GetCurrentTimestamp(), STUCK_MS))
		check_stuck(mover, source, target, lag);
}

/*
 * Keeps writers of the range out, if that can begin at once.  Returns whether they
 * are; let_writers() must follow.
 */
static bool
hold_writers(SlMover *mover, SlConn *holder)
{
	MemoryContext context = sl_move_create_short_context();
	MemoryContext old_context = MemoryContextSwitchTo(context);
	const char *params[] = {NameStr(mover->map->name), psprintf("%lld", (long long) mover->move.shardlet),
	CppAsString2(HOLD_LOCK_MS)};
	SlFailure  *failure;
	bool		result;

	(void) sl_remote_exec(holder, "BEGIN", 0, NULL);
	(void) sl_remote_try(holder, "SELECT shardlet.guard_lock($1::pg_catalog.name, $2::pg_catalog.int8, $3::pg_catalog.int4)",
						 lengthof(params), params, DT_NOEND, &failure);
	if (failure != NULL && failure->sqlstate != ERRCODE_LOCK_NOT_AVAILABLE)
		sl_failure_raise(failure, holder->shard, NULL);
	result = failure == NULL;
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	return result;
}

static void
let_writers(SlConn *holder)
{
	MemoryContext context = sl_move_create_short_context();
	MemoryContext old_context = MemoryContextSwitchTo(context);

	(void) sl_remote_exec(holder, "ROLLBACK", 0, NULL);
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
}

/*
 * Keeps writers out for a moment.  If a transaction writes for long, others queue
 * behind the lock request each time: then it is tried less often.
 */
static void
hold_writers_once(SlMover *mover, SlConn *holder, Lag *lag)
{
	bool		is_held = hold_writers(mover, holder);

	if (is_held)
		sl_move_nap(mover, HOLD_MS);
	let_writers(holder);
	lag->back_off_ms = is_held ? 0 : Min(Max(lag->back_off_ms, MAX_FREE_MS) * 2, MAX_BACK_OFF_MS);
}

/*
 * Sends a marker and waits until it has arrived.  Returns how many milliseconds that
 * took.  If it is more than the limit, changes are made as fast as they are applied,
 * and this would last for as long as writes come at full speed: from then on writers
 * are kept out for a moment now and then, more and more often.
 */
static long
follow_once(SlMover *mover, SlConn *source, SlConn *target, long limit, Lag *lag)
{
	char	   *question = send_marker(mover, source);
	TimestampTz since = GetCurrentTimestamp();
	TimestampTz held = since;
	bool		is_late = false;

	lag->moved = since;
	lag->errors = -1;
	while (!has_marker(target, question))
	{
		TimestampTz now = GetCurrentTimestamp();

		if (TimestampDifferenceExceeds(lag->looked, now, LOOK_MS))
			look_after_changes(mover, source, target, lag);
		if (!is_late && TimestampDifferenceExceeds(since, now, (int) limit))
		{
			is_late = true;
			lag->free_ms = lag->free_ms == 0 ? MAX_FREE_MS : Max(lag->free_ms / 2, MIN_FREE_MS);
		}
		if (lag->free_ms > 0 && lag->is_read &&
			TimestampDifferenceExceeds(held, now, Max(lag->free_ms, lag->back_off_ms)))
		{
			hold_writers_once(mover, source, lag);
			held = GetCurrentTimestamp();
		}
		sl_move_nap(mover, NAP_MS);
	}
	pfree(question);
	return TimestampDifferenceMilliseconds(since, GetCurrentTimestamp());
}

/*
 * Waits until hardly anything is left to be applied.  The position that the
 * subscription reports lags behind what it has applied, so a marker is used.  Each
 * must take less time than the one before, and the first less than the copy.
 */
void
sl_move_apply_changes(SlMover *mover, SlConn *source, SlConn *target)
{
	long		took = TimestampDifferenceMilliseconds(mover->move.started, GetCurrentTimestamp());
	Lag			lag = {.last = PG_INT64_MAX};

	do
		took = follow_once(mover, source, target, Min(took, INT_MAX) / 4 * 3, &lag);
	while (took > NEAR_MS);
}

/*
 * Writes a row into the source's log, and waits until it is on the target: then
 * everything before it is, too.  Returns false if that takes longer than it may.
 */
bool
sl_move_pass_marker(SlMover *mover, SlConn *source, SlConn *target, int limit_ms)
{
	char	   *question = send_marker(mover, source);
	TimestampTz since = GetCurrentTimestamp();

	while (!has_marker(target, question))
	{
		CHECK_FOR_INTERRUPTS();
		if (TimestampDifferenceExceeds(since, GetCurrentTimestamp(), limit_ms))
			return false;
		pg_usleep(1000);
	}
	return true;
}

/*
 * Keeps writers out for a moment, to apply what they have written.  Returns true if
 * that was enough: then there is hardly anything left when they are let in.
 */
bool
sl_move_hold_writers(SlMover *mover, SlConn *holder, SlConn *source, SlConn *target)
{
	bool		result = hold_writers(mover, holder) && sl_move_pass_marker(mover, source, target, HOLD_MS);

	let_writers(holder);
	return result;
}

/* The end ---------------------------------------------------------------------------------- */

/* Terminates the walsender that reads from the slot.  Returns whether there was one. */
static bool
stop_reader(SlConn *source, const char *name)
{
	char	   *count = fetch_value(source, "SELECT pg_catalog.count(pg_catalog.pg_terminate_backend(active_pid)) FROM pg_catalog.pg_replication_slots WHERE slot_name OPERATOR(pg_catalog.=) $1 AND active", 1, &name);
	bool		result = strcmp(count, "0") != 0;

	pfree(count);
	return result;
}

/* Drops the slot, if there is one.  Returns false if it is in use. */
static bool
try_to_drop_slot(SlConn *source, const char *name)
{
	const char *sql = "SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots WHERE slot_name OPERATOR(pg_catalog.=) $1";
	SlFailure  *failure;

	(void) sl_remote_try(source, sql, 1, &name, DT_NOEND, &failure);
	if (failure != NULL && failure->sqlstate != ERRCODE_OBJECT_IN_USE)
		sl_failure_raise(failure, source->shard, sql);
	return failure == NULL;
}

/*
 * A walsender that still reads from the slot is terminated, as often as the
 * subscription connects again: that can be in the very moment in which none was
 * found.
 */
static void
drop_slot(SlMover *mover, SlConn *source)
{
	const char *name = mover->move.name;
	TimestampTz since = GetCurrentTimestamp();

	while (stop_reader(source, name) || !try_to_drop_slot(source, name))
		sl_move_pause(mover, since, "a replication slot to be free");
}

/*
 * Takes away what is on the source, so that its log need not be kept, even if the
 * target cannot be reached.
 */
void
sl_move_drop_publication(SlMover *mover, SlConn *source)
{
	drop_slot(mover, source);
	sl_move_exec(mover, source, psprintf("DROP PUBLICATION IF EXISTS %s", mover->move.name));
	sl_move_exec(mover, source, psprintf("DROP TABLE IF EXISTS %s", marker_of(mover)));
}

/*
 * Takes away what is on the target.  The slot is not the subscription's to drop:
 * in one server with the source that could wait for itself.
 */
void
sl_move_drop_subscription(SlMover *mover, SlConn *target)
{
	const char *name = mover->move.name;

	if (strcmp(fetch_value(target, "SELECT pg_catalog.count(*) FROM pg_catalog.pg_subscription WHERE subname OPERATOR(pg_catalog.=) $1", 1, &name), "0") != 0)
	{
		sl_move_exec(mover, target, psprintf("ALTER SUBSCRIPTION %s DISABLE", name));
		sl_move_exec(mover, target, psprintf("ALTER SUBSCRIPTION %s SET (slot_name = NONE)", name));
		sl_move_exec(mover, target, psprintf("DROP SUBSCRIPTION %s", name));
	}
	sl_move_exec(mover, target, psprintf("DROP TABLE IF EXISTS %s", marker_of(mover)));
}
