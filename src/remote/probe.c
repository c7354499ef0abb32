/*
 * probe.c
 *		Finds out whether a shard that says nothing is still there.
 *
 * While a statement runs nothing may come for hours, and TCP is content as long
 * as somebody acknowledges what it sends: a proxy, or the kernel under a server
 * process that stands still.  So when nothing has come for
 * shardlet.silence_timeout, a second connection is tried beside the first.
 * Whatever the server says to that, be it that there are too many, shows that it
 * is alive: then waiting goes on, and after twice the time the same is done
 * again.  If it says nothing within shardlet.connect_timeout, two times in a row
 * because a long statement should not end over one lost packet, the shard counts
 * as unreachable.
 *
 * Time counts only while somebody waits for the connection: a shard whose rows
 * are not wanted yet is not silent.  wait.c calls this between its waits, also
 * while a transaction aborts: nothing here blocks, throws, looks at a catalog or
 * needs a memory context.
 */
#include "postgres.h"

#include <sys/socket.h>

#include "storage/fd.h"

#include "base/base.h"
#include "remote/remote.h"

/* So many attempts in a row must fail. */
#define ATTEMPTS 2

/* The longest time between an attempt that failed and the next one. */
#define ATTEMPT_PAUSE_US (1000 * INT64CONST(1000))

/* The longest time between signs of life that are asked for. */
#define LONGEST_PAUSE_US (60 * 1000 * INT64CONST(1000))

static int64
silence_us(void)
{
	return sl_silence_timeout * INT64CONST(1000);
}

/* Is the silence of this connection looked at?  One that cancels has no address. */
bool
sl_probe_is_on(const SlConn *conn)
{
	return sl_silence_timeout > 0 && conn->state == SL_CONN_OPEN && conn->keywords != NULL;
}

static void
hang_up(SlProbe *probe)
{
	if (probe->pg != NULL)
	{
		PQfinish(probe->pg);
		ReleaseExternalFD();
	}
	probe->pg = NULL;
}

/* Something has come, or nobody waits any more: begins from nothing. */
void
sl_probe_forget(SlConn *conn)
{
	hang_up(&conn->probe);
	memset(&conn->probe, 0, sizeof(SlProbe));
}

/* The shard is alive, or that cannot be found out now. */
static void
ask_later(SlProbe *probe)
{
	hang_up(probe);
	probe->failures = 0;
	probe->pause_us = Min(Max(probe->pause_us, silence_us()) * 2,
						  Max(LONGEST_PAUSE_US, silence_us()));
	probe->due_us = probe->quiet_us + probe->pause_us;
}

static void
attempt_failed(SlProbe *probe)
{
	hang_up(probe);
	probe->failures++;
	probe->is_dead = probe->failures >= ATTEMPTS;
	probe->due_us = probe->quiet_us + Min(silence_us(), ATTEMPT_PAUSE_US);
}

static void
begin_attempt(SlConn *conn)
{
	SlProbe    *probe = &conn->probe;

	if (!AcquireExternalFD())
	{
		ask_later(probe);
		return;
	}
	probe->pg = PQconnectStartParams(conn->keywords, conn->values, 0);
	probe->waited_us = 0;
	probe->wants_write = true;
	probe->has_answered = false;
	if (probe->pg == NULL)
	{
		ReleaseExternalFD();
		ask_later(probe);
	}
	else if (PQstatus(probe->pg) == CONNECTION_BAD)
		attempt_failed(probe);
}

/*
 * Has the server said something after it was told who connects?  libpq does not
 * tell an error that the server sent from one of its own.
 */
bool
sl_probe_hears(const PGconn *pg)
{
	char		byte;

	return PQstatus(pg) == CONNECTION_AWAITING_RESPONSE &&
		recv(PQsocket(pg), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* The second connection's socket is ready. */
static void
advance_attempt(SlProbe *probe)
{
	probe->has_answered = probe->has_answered || sl_probe_hears(probe->pg);
	switch (PQconnectPoll(probe->pg))
	{
		case PGRES_POLLING_READING:
			probe->wants_write = false;
			break;
		case PGRES_POLLING_WRITING:
			probe->wants_write = true;
			break;
		case PGRES_POLLING_OK:
			ask_later(probe);
			break;
		default:
			if (probe->has_answered)
				ask_later(probe);
			else
				attempt_failed(probe);
	}
}

/* How long, in microseconds, until something is to be done here? */
int64
sl_probe_time_left(const SlConn *conn)
{
	const SlProbe *probe = &conn->probe;
	int64		left;

	if (probe->pg != NULL)
		left = sl_connect_timeout * INT64CONST(1000) - probe->waited_us;
	else
		left = (probe->due_us > 0 ? probe->due_us : silence_us()) - probe->quiet_us;
	return Max(left, 0);
}

/*
 * The connection was waited for in vain, for so long; is_ready is about the
 * second one's socket.  Returns false if the shard turns out to be dead: then
 * sl_conn_read() says so.
 */
bool
sl_probe_advance(SlConn *conn, int64 elapsed_us, bool is_ready)
{
	SlProbe    *probe = &conn->probe;

	probe->quiet_us += elapsed_us;
	if (probe->pg != NULL)
		probe->waited_us += elapsed_us;
	if (probe->pg != NULL && is_ready)
		advance_attempt(probe);
	else if (sl_probe_time_left(conn) > 0)
		return true;
	else if (probe->pg == NULL)
		begin_attempt(conn);
	else if (probe->has_answered)
		ask_later(probe);
	else
		attempt_failed(probe);
	return !probe->is_dead;
}

SlFailure *
sl_probe_failure(const SlConn *conn)
{
	return sl_failure_unreachable(conn->shard,
								  psprintf("Nothing came for %ld ms, and a second connection could not be made.",
										   (long) (conn->probe.quiet_us / 1000)));
}
