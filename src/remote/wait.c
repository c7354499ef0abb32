/*
 * wait.c
 *		The one place that waits for shards.
 *
 * A wait ends when a socket is ready, when the deadline has passed, or with an
 * error when the statement is cancelled, the session ended or the postmaster
 * gone.  While interrupts are held, as they are when a transaction commits or
 * aborts, no error is thrown, and without a postmaster it is as if the deadline
 * had passed: a process cannot exit in the middle of that.  A wait that lasts long looks whether the shard is
 * still there (probe.c).
 *
 * A set of wait events costs several system calls to make.  So a connection
 * keeps one for the waits on it alone, and the session keeps the sets of several
 * open connections that were waited for last: as shards answer one after the
 * other, statements over the same shards wait for the same few sets again and
 * again.  A statement over many shards, or while connections are made, keeps one
 * for as long as it waits for the same of them.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "compat.h"
#include "remote/remote.h"

/* Called when a wait lasts, by who waits and may be interrupted. */
void		(*sl_wait_long) (void) = NULL;

/* Milliseconds since something came. */
static long waited_ms = 0;

/* The postmaster is gone. */
static bool is_orphan = false;

/* So long an orphan waits, all the same, lest a loop around it turns hot. */
#define ORPHAN_US 10000

/* In each set these come first. */
#define FIXED_EVENTS 2

/* So many sets, of so many connections, are kept. */
#define MAX_SETS 8
#define MAX_SET_CONNS 8

/*
 * A connection has another number whenever it is opened, so a set with a socket
 * that was closed is never found again.
 */
typedef struct SharedSet
{
	WaitEventSet *set;			/* or NULL */
	int			count;
	uint64		generations[MAX_SET_CONNS];
	uint32		events[MAX_SET_CONNS];
	uint64		last_use;
} SharedSet;

static SharedSet shared_sets[MAX_SETS];
static uint64 set_uses = 0;

/* Somebody waits while somebody else does: these must not lose their set. */
static bool is_nested = false;

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
	AddWaitEventToSet(set, WL_POSTMASTER_DEATH, PGINVALID_SOCKET, NULL, NULL);
	return set;
}

/* As SyncRepWaitForLSN() does it: ends the process, now or soon. */
static void
become_orphan(void)
{
	if (InterruptHoldoffCount == 0 && CritSectionCount == 0)
		proc_exit(1);
	is_orphan = true;
	ProcDiePending = true;
	InterruptPending = true;
	whereToSendOutput = DestNone;
	pg_usleep(ORPHAN_US);
}

/* Nothing came for so long: now and then somebody has a look why. */
static void
note_wait(long milliseconds)
{
	waited_ms += milliseconds;
	if (waited_ms < sl_deadlock_timeout)
		return;
	waited_ms = 0;
	if (InterruptHoldoffCount != 0 || sl_wait_long == NULL || is_nested)
		return;
	PG_TRY();
	{
		is_nested = true;
		sl_wait_long();
	}
	PG_FINALLY();
	{
		is_nested = false;
	}
	PG_END_TRY();
}

/*
 * Waits on a set.  Returns how many sockets are ready, and which in events; 0
 * when the deadline or so many milliseconds (-1 is no limit) have passed.  The
 * clock is not looked at where milliseconds alone do.
 */
static int
wait_set(WaitEventSet *set, TimestampTz deadline, long patience, WaitEvent *events,
		 int max_events)
{
	for (;;)
	{
		long		timeout = patience < 0 ? sl_deadlock_timeout : Min(sl_deadlock_timeout, patience);
		int			happened;
		int			ready = 0;

		if (!TIMESTAMP_IS_NOEND(deadline))
		{
			long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);

			if (left <= 0)
				return 0;
			timeout = Min(timeout, left);
		}
		happened = WaitEventSetWait(set, timeout, events, max_events, PG_WAIT_EXTENSION);
		for (int i = 0; i < happened; i++)
		{
			if (events[i].events & WL_POSTMASTER_DEATH)
				become_orphan();
			else if (events[i].events & WL_LATCH_SET)
			{
				ResetLatch(MyLatch);
				CHECK_FOR_INTERRUPTS();
			}
			else if (events[i].events & WL_SOCKET_MASK)
				events[ready++] = events[i];
		}
		if (ready > 0)
		{
			waited_ms = 0;
			return ready;
		}
		if (is_orphan)
			return 0;
		if (happened == 0)
			note_wait(timeout);
		if (patience < 0)
			continue;

		/* Being woken again and again must not make it last for ever. */
		if (happened > 0)
		{
			deadline = Min(deadline, sl_wait_deadline((int) patience));
			patience = -1;
		}
		else if (patience <= timeout)
			return 0;
		else
			patience -= timeout;
	}
}

static bool
is_same_set(const SlWaitCache *cache, const SlWaitItem *items, int count)
{
	if (cache->kept == NULL || cache->kept->set == NULL || cache->count != count)
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
free_set(void *arg)
{
	SlWaitSet  *kept = arg;

	if (kept->set != NULL)
		FreeWaitEventSet(kept->set);
	kept->set = NULL;
}

/*
 * The set itself is outside all memory contexts, and has a file descriptor: it
 * must not stay behind when a cancel throws its owner away.
 */
static SlWaitSet *
make_kept_set(void)
{
	SlWaitSet  *kept = palloc0(sizeof(SlWaitSet));

	kept->callback.func = free_set;
	kept->callback.arg = kept;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &kept->callback);
	return kept;
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
	if (cache->kept == NULL)
		cache->kept = make_kept_set();
	cache->kept->set = make_set(count);
	for (int i = 0; i < count; i++)
	{
		cache->sockets[i] = PQsocket(items[i].conn->pg);
		cache->events[i] = items[i].events;
		AddWaitEventToSet(cache->kept->set, items[i].events, cache->sockets[i], NULL, NULL);
	}
	cache->count = count;
}

/* Frees the set; its memory in palloc'd arrays goes with the context. */
void
sl_wait_forget(SlWaitCache *cache)
{
	if (cache->kept != NULL)
		free_set(cache->kept);
}

/*
 * Waits for the items of a set, and marks those that are ready; at most so many
 * milliseconds, -1 is no limit.
 */
static void
wait_round(WaitEventSet *set, SlWaitItem *items, int count, long patience)
{
	int			max_events = FIXED_EVENTS + 2 * count;
	WaitEvent  *events = palloc(sizeof(WaitEvent) * max_events);
	int			ready = wait_set(set, DT_NOEND, patience, events, max_events);

	for (int i = 0; i < ready; i++)
	{
		SlWaitItem *probed = events[i].user_data;

		if (probed != NULL)
			probed->probe_ready = true;
		else
			items[events[i].pos - FIXED_EVENTS].ready = true;
	}
	pfree(events);
}

/*
 * A set of the items and, behind them, of their second connections.  These are
 * rare, and change sockets while libpq connects: it is made anew each time.
 */
static WaitEventSet *
make_probing_set(SlWaitSet **probing, SlWaitItem *items, int count)
{
	WaitEventSet *set;

	if (*probing == NULL)
		*probing = make_kept_set();
	free_set(*probing);
	(*probing)->set = set = make_set(2 * count);
	for (int i = 0; i < count; i++)
		AddWaitEventToSet(set, items[i].events, PQsocket(items[i].conn->pg), NULL, NULL);
	for (int i = 0; i < count; i++)
	{
		const SlProbe *probe = &items[i].conn->probe;

		if (probe->pg != NULL)
			AddWaitEventToSet(set,
							  probe->wants_write ? WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE,
							  PQsocket(probe->pg), NULL, &items[i]);
	}
	return set;
}

/* Looks at the silent ones' second connections.  Returns if any item is ready. */
static bool
look_after(SlWaitItem *items, int count, int64 elapsed_us)
{
	bool		any_ready = false;

	for (int i = 0; i < count; i++)
	{
		SlConn	   *conn = items[i].conn;

		if (items[i].ready && conn->probe.quiet_us > 0)
			sl_probe_forget(conn);
		else if (!items[i].ready && sl_probe_is_on(conn))
			items[i].ready = !sl_probe_advance(conn, elapsed_us, items[i].probe_ready);
		any_ready = any_ready || items[i].ready;
	}
	return any_ready;
}

/* What is the next round to wait for, and how many milliseconds? */
static long
prepare_round(SlWaitItem *items, int count, TimestampTz start, TimestampTz deadline,
			  bool *has_probe)
{
	*has_probe = false;
	for (int i = 0; i < count; i++)
	{
		SlConn	   *conn = items[i].conn;

		items[i].ready = items[i].probe_ready = false;
		*has_probe = *has_probe || conn->probe.pg != NULL;
		if (sl_probe_is_on(conn))
			deadline = Min(deadline, start + sl_probe_time_left(conn));
	}
	return TIMESTAMP_IS_NOEND(deadline) ? -1 : TimestampDifferenceMilliseconds(start, deadline);
}

/*
 * Waits until an item is ready, or the deadline has passed: then returns false.
 * The set has the items' sockets.
 */
static bool
wait_for_items(WaitEventSet *set, SlWaitItem *items, int count, TimestampTz deadline)
{
	TimestampTz now = GetCurrentTimestamp();
	SlWaitSet  *probing = NULL;
	bool		any_ready;

	do
	{
		TimestampTz start = now;
		bool		has_probe;
		long		patience = prepare_round(items, count, start, deadline, &has_probe);

		wait_round(has_probe ? make_probing_set(&probing, items, count) : set, items, count,
				   patience);
		now = GetCurrentTimestamp();
		any_ready = look_after(items, count, Max(now - start, 0));
	} while (!any_ready && now < deadline && !is_orphan);
	if (probing != NULL)
		free_set(probing);
	return any_ready;
}

/* Makes the connection's own set have what it wants. */
static void
prepare_own_set(SlConn *conn, uint32 wanted)
{
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
}

/*
 * May the session keep a set of these?  While libpq connects, sockets change; and
 * those that are opened to cancel something have no number.
 */
static bool
can_share(const SlWaitItem *items, int count)
{
	if (is_nested || count > MAX_SET_CONNS)
		return false;
	for (int i = 0; i < count; i++)
	{
		if (items[i].conn->state != SL_CONN_OPEN || items[i].conn->generation == 0)
			return false;
	}
	return true;
}

static bool
is_shared_set(const SharedSet *shared, const SlWaitItem *items, int count)
{
	if (shared->set == NULL || shared->count != count)
		return false;
	for (int i = 0; i < count; i++)
	{
		if (shared->generations[i] != items[i].conn->generation ||
			shared->events[i] != items[i].events)
			return false;
	}
	return true;
}

static void
fill_shared_set(SharedSet *shared, const SlWaitItem *items, int count)
{
	if (shared->set != NULL)
		FreeWaitEventSet(shared->set);
	shared->set = NULL;
	shared->set = make_set(count);
	shared->count = count;
	for (int i = 0; i < count; i++)
	{
		/* Until it is complete, nobody finds it. */
		shared->generations[i] = 0;
		AddWaitEventToSet(shared->set, items[i].events, PQsocket(items[i].conn->pg), NULL, NULL);
	}
	for (int i = 0; i < count; i++)
	{
		shared->generations[i] = items[i].conn->generation;
		shared->events[i] = items[i].events;
	}
}

/* The session's set of these, or of what it used longest ago made one of these. */
static WaitEventSet *
get_shared_set(const SlWaitItem *items, int count)
{
	SharedSet  *oldest = &shared_sets[0];
	SharedSet  *found = NULL;

	for (int i = 0; i < MAX_SETS && found == NULL; i++)
	{
		if (is_shared_set(&shared_sets[i], items, count))
			found = &shared_sets[i];
		if (shared_sets[i].last_use < oldest->last_use)
			oldest = &shared_sets[i];
	}
	if (found == NULL)
	{
		found = oldest;
		fill_shared_set(found, items, count);
	}
	found->last_use = ++set_uses;
	return found->set;
}

/*
 * Waits until at least one of the connections is ready for what it wants, and
 * marks those.  Returns false if the deadline passed; DT_NOEND is none.  One
 * whose shard turns out to be dead is ready too.  The caller forgets the cache
 * when a socket of it may have been closed.
 */
bool
sl_wait_items(SlWaitItem *items, int count, TimestampTz deadline, SlWaitCache *cache)
{
	if (count == 1 && items[0].conn->state == SL_CONN_OPEN)
	{
		prepare_own_set(items[0].conn, items[0].events);
		return wait_for_items(items[0].conn->wait_set, items, count, deadline);
	}
	if (can_share(items, count))
		return wait_for_items(get_shared_set(items, count), items, count, deadline);
	if (!is_same_set(cache, items, count))
		fill_cache(cache, items, count);
	return wait_for_items(cache->kept->set, items, count, deadline);
}

/*
 * The same for one connection, with the set that it keeps.  Unless the wait is a
 * long one, it does not look at the clock.
 */
bool
sl_wait_conn(SlConn *conn, TimestampTz deadline)
{
	SlWaitItem	item = {.conn = conn,.events = sl_conn_wants(conn)};
	WaitEvent	events[FIXED_EVENTS + 1];
	TimestampTz start = TIMESTAMP_IS_NOEND(deadline) ? 0 : GetCurrentTimestamp();

	prepare_own_set(conn, item.events);
	if (!sl_probe_is_on(conn))
		return wait_set(conn->wait_set, deadline, -1, events, lengthof(events)) > 0;
	if (conn->probe.quiet_us == 0)
	{
		if (wait_set(conn->wait_set, deadline, sl_silence_timeout, events, lengthof(events)) > 0)
			return true;
		if (!TIMESTAMP_IS_NOEND(deadline) && GetCurrentTimestamp() >= deadline)
		{
			/* Many short waits in a row are a long silence. */
			conn->probe.quiet_us = Max(deadline - start, 1);
			return false;
		}
		conn->probe.quiet_us = sl_silence_timeout * INT64CONST(1000);
	}
	return wait_for_items(conn->wait_set, &item, 1, deadline);
}
