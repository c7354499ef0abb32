/*
 * liveness.c
 *		Checks whether a shard that sends nothing is still alive.
 *
 * While a statement runs nothing may arrive for hours, and TCP detects no failure
 * as long as a proxy, or the kernel of a machine whose server process hangs,
 * acknowledges what is sent.  So when nothing has arrived for
 * shardlet.silence_timeout, a second connection to the shard is attempted.  Any
 * response of the server, be it "too many clients", shows that it is alive: then
 * waiting continues, and the check is repeated after twice the time.  If there is
 * no response within shardlet.connect_timeout, two times in a row because a long
 * statement should not fail over one lost packet, the shard counts as unreachable.
 *
 * Only time spent waiting for the connection counts: a shard whose rows are not
 * requested yet is not silent.  wait.c calls this between its waits, also while a
 * transaction aborts: nothing here blocks, raises an error, accesses a catalog or
 * needs a memory context.
 */
#include "postgres.h"

#include <sys/socket.h>

#include "storage/fd.h"

#include "base/base.h"
#include "connection/connection.h"

/* Number of attempts in a row that must fail. */
#define MAX_FAILURES 2

/* Maximum time between a failed attempt and the next one. */
#define MAX_RETRY_PAUSE_US (1000 * INT64CONST(1000))

/* Maximum time between checks of a shard that is alive. */
#define MAX_PAUSE_US (60 * 1000 * INT64CONST(1000))

static int64
silence_us(void)
{
	return sl_silence_timeout * INT64CONST(1000);
}

/*
 * Is this connection checked?  One that was opened to cancel a statement has no
 * parameters.
 */
bool
sl_liveness_is_on(const SlConn *conn)
{
	return sl_silence_timeout > 0 && conn->state == SL_CONN_OPEN && conn->keywords != NULL;
}

static void
close_second_connection(SlLivenessCheck *probe)
{
	if (probe->pg != NULL)
	{
		PQfinish(probe->pg);
		ReleaseExternalFD();
	}
	probe->pg = NULL;
}

/* Something has arrived, or the wait is over: resets the check. */
void
sl_liveness_reset(SlConn *conn)
{
	close_second_connection(&conn->probe);
	memset(&conn->probe, 0, sizeof(SlLivenessCheck));
}

/* The shard is alive, or that cannot be determined now. */
static void
schedule_check(SlLivenessCheck *probe)
{
	close_second_connection(probe);
	probe->failures = 0;
	probe->pause_us = Min(Max(probe->pause_us, silence_us()) * 2,
						  Max(MAX_PAUSE_US, silence_us()));
	probe->due_us = probe->quiet_us + probe->pause_us;
}

static void
note_failed_attempt(SlLivenessCheck *probe)
{
	close_second_connection(probe);
	probe->failures++;
	probe->is_dead = probe->failures >= MAX_FAILURES;
	probe->due_us = probe->quiet_us + Min(silence_us(), MAX_RETRY_PAUSE_US);
}

static void
begin_attempt(SlConn *conn)
{
	SlLivenessCheck *probe = &conn->probe;

	if (!AcquireExternalFD())
	{
		schedule_check(probe);
		return;
	}
	probe->pg = PQconnectStartParams(conn->keywords, conn->values, 0);
	probe->waited_us = 0;
	probe->wants_write = true;
	probe->has_answered = false;
	if (probe->pg == NULL)
	{
		ReleaseExternalFD();
		schedule_check(probe);
		return;
	}
	sl_notice_ignore(probe->pg);
	if (PQstatus(probe->pg) == CONNECTION_BAD)
		note_failed_attempt(probe);
}

/*
 * Has the server responded to the startup packet?  libpq does not distinguish an
 * error that the server sent from one of its own.
 */
bool
sl_liveness_has_response(const PGconn *pg)
{
	char		byte;

	return PQstatus(pg) == CONNECTION_AWAITING_RESPONSE &&
		recv(PQsocket(pg), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* The second connection's socket is ready. */
static void
advance_attempt(SlLivenessCheck *probe)
{
	probe->has_answered = probe->has_answered || sl_liveness_has_response(probe->pg);
	switch (PQconnectPoll(probe->pg))
	{
		case PGRES_POLLING_READING:
			probe->wants_write = false;
			break;
		case PGRES_POLLING_WRITING:
			probe->wants_write = true;
			break;
		case PGRES_POLLING_OK:
			schedule_check(probe);
			break;
		default:
			if (probe->has_answered)
				schedule_check(probe);
			else
				note_failed_attempt(probe);
	}
}

/* Returns the time in microseconds until sl_liveness_advance() must be called. */
int64
sl_liveness_time_left(const SlConn *conn)
{
	const SlLivenessCheck *probe = &conn->probe;
	int64		left;

	if (probe->pg != NULL)
		left = sl_connect_timeout * INT64CONST(1000) - probe->waited_us;
	else
		left = (probe->due_us > 0 ? probe->due_us : silence_us()) - probe->quiet_us;
	return Max(left, 0);
}

/*
 * Nothing has arrived on the connection for another elapsed_us of waiting;
 * is_ready tells whether the second connection's socket is ready.  Returns false
 * if the shard turns out to be dead: then sl_conn_read() returns the failure.
 */
bool
sl_liveness_advance(SlConn *conn, int64 elapsed_us, bool is_ready)
{
	SlLivenessCheck *probe = &conn->probe;

	probe->quiet_us += elapsed_us;
	if (probe->pg != NULL)
		probe->waited_us += elapsed_us;
	if (probe->pg != NULL && is_ready)
		advance_attempt(probe);
	else if (sl_liveness_time_left(conn) > 0)
		return true;
	else if (probe->pg == NULL)
		begin_attempt(conn);
	else if (probe->has_answered)
		schedule_check(probe);
	else
		note_failed_attempt(probe);
	return !probe->is_dead;
}

SlFailure *
sl_liveness_failure(const SlConn *conn)
{
	return sl_failure_unreachable(conn->shard,
								  psprintf("Nothing came for %ld ms, and a second connection could not be made.",
										   (long) (conn->probe.quiet_us / 1000)));
}
