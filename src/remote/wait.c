/*
 * wait.c
 *		The one place that waits for a shard.
 *
 * A wait ends when the socket is ready, when the deadline has passed, or with
 * an error when the statement is cancelled, the session ended or the
 * postmaster gone.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "remote/remote.h"

/* Returns the time that lies so far ahead. */
TimestampTz
sl_wait_deadline(int milliseconds)
{
	return TimestampTzPlusMilliseconds(GetCurrentTimestamp(), milliseconds);
}

/*
 * Waits until one of the events (WL_SOCKET_...) comes.  Returns false if the
 * deadline passed; DT_NOEND is none.
 */
bool
sl_wait_socket(pgsocket socket, int events, TimestampTz deadline)
{
	for (;;)
	{
		int			wake_events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | events;
		long		timeout = -1;
		int			happened;

		if (!TIMESTAMP_IS_NOEND(deadline))
		{
			timeout = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
			if (timeout <= 0)
				return false;
			wake_events |= WL_TIMEOUT;
		}
		happened = WaitLatchOrSocket(MyLatch, wake_events, socket, timeout,
									 PG_WAIT_EXTENSION);
		if (happened & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
		if (happened & events)
			return true;
	}
}
