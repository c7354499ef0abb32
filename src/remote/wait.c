/*
 * wait.c
 *		The one place that waits for shards.
 *
 * A wait ends when a socket is ready, when the deadline has passed, or with an
 * error when the statement is cancelled, the session ended or the postmaster
 * gone.  While interrupts are held, as they are when a transaction aborts,
 * only the first two end it.
 *
 * A set of wait events costs several system calls to make.  So a connection
 * keeps one for the waits on it alone, and a statement over several shards
 * keeps one for as long as it waits for the same of them.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "compat.h"
#include "remote/remote.h"

/* In each set these come first. */
#define FIXED_EVENTS 2

/* Returns the time that lies so far ahead. */
TimestampTz
sl_wait_deadline(int milliseconds)
{
	return TimestampTzPlusMilliseconds(GetCurrentTimestamp(), milliseconds);
}

static WaitEventSet *
make_set(int count)
{
	WaitEventSet *set = sl_create_wait_event_set(FIXED_EVENTS + count);

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	return set;
}

/*
 * Waits on a set.  Returns how many sockets are ready, 0 when the deadline has
 * passed; events holds them.
 */
static int
wait_set(WaitEventSet *set, TimestampTz deadline, WaitEvent *events, int max_events)
{
	for (;;)
	{
		long		timeout = -1;
		int			happened;
		int			ready = 0;

		if (!TIMESTAMP_IS_NOEND(deadline))
		{
			timeout = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
			if (timeout <= 0)
				return 0;
		}
		happened = WaitEventSetWait(set, timeout, events, max_events, PG_WAIT_EXTENSION);
		for (int i = 0; i < happened; i++)
		{
			if (events[i].events & WL_LATCH_SET)
			{
				ResetLatch(MyLatch);
				CHECK_FOR_INTERRUPTS();
			}
			else if (events[i].events & WL_SOCKET_MASK)
				events[ready++] = events[i];
		}
		if (ready > 0)
			return ready;
	}
}

static bool
is_same_set(const SlWaitCache *cache, const SlWaitItem *items, int count)
{
	if (cache->set == NULL || cache->count != count)
		return false;
	for (int i = 0; i < count; i++)
	{
		if (cache->sockets[i] != PQsocket(items[i].conn->pg) ||
			cache->events[i] != items[i].events)
			return false;
	}
	return true;
}

static void
fill_cache(SlWaitCache *cache, const SlWaitItem *items, int count)
{
	sl_wait_forget(cache);
	if (cache->allocated < count)
	{
		cache->allocated = count;
		cache->sockets = palloc(sizeof(pgsocket) * count);
		cache->events = palloc(sizeof(uint32) * count);
	}
	cache->set = make_set(count);
	for (int i = 0; i < count; i++)
	{
		cache->sockets[i] = PQsocket(items[i].conn->pg);
		cache->events[i] = items[i].events;
		AddWaitEventToSet(cache->set, items[i].events, cache->sockets[i], NULL, NULL);
	}
	cache->count = count;
}

/* Frees the set; its memory in palloc'd arrays goes with the context. */
void
sl_wait_forget(SlWaitCache *cache)
{
	if (cache->set != NULL)
		FreeWaitEventSet(cache->set);
	cache->set = NULL;
}

/*
 * Waits until at least one of the connections is ready for what it wants, and
 * marks those.  Returns false if the deadline passed; DT_NOEND is none.  The
 * caller forgets the cache when a socket of it may have been closed.
 */
bool
sl_wait_items(SlWaitItem *items, int count, TimestampTz deadline, SlWaitCache *cache)
{
	WaitEvent  *events = palloc(sizeof(WaitEvent) * (FIXED_EVENTS + count));
	int			ready;

	if (!is_same_set(cache, items, count))
		fill_cache(cache, items, count);
	for (int i = 0; i < count; i++)
		items[i].ready = false;
	ready = wait_set(cache->set, deadline, events, FIXED_EVENTS + count);
	for (int i = 0; i < ready; i++)
		items[events[i].pos - FIXED_EVENTS].ready = true;
	pfree(events);
	return ready > 0;
}

/* The same for one connection, with the set that it keeps. */
bool
sl_wait_conn(SlConn *conn, TimestampTz deadline)
{
	uint32		wanted = sl_conn_wants(conn);
	WaitEvent	events[FIXED_EVENTS + 1];

	/* While libpq connects, it may change sockets: nothing is kept then. */
	if (conn->state == SL_CONN_CONNECTING && conn->wait_set != NULL)
	{
		FreeWaitEventSet(conn->wait_set);
		conn->wait_set = NULL;
	}
	if (conn->wait_set == NULL)
	{
		conn->wait_set = make_set(1);
		AddWaitEventToSet(conn->wait_set, wanted, PQsocket(conn->pg), NULL, NULL);
	}
	else if (conn->wait_events != wanted)
		ModifyWaitEvent(conn->wait_set, FIXED_EVENTS, wanted, NULL);
	conn->wait_events = wanted;
	return wait_set(conn->wait_set, deadline, events, lengthof(events)) > 0;
}
