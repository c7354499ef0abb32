/*
 * wait.c
 *		Waits for shards; nothing else does.
 *
 * A wait ends when a socket is ready, when the deadline has passed, or with an
 * error when the statement is cancelled, the session terminated or the postmaster
 * dead.  While interrupts are held, as they are when a transaction commits or
 * aborts, no error is raised, and the death of the postmaster has the effect of a
 * passed deadline: a process cannot exit in the middle of a commit.  A long wait
 * checks whether the shard (liveness.c) and the client are still alive.
 *
 * Making a WaitEventSet takes several system calls.  So each connection has one
 * for waits on it alone, and the session caches the most recent sets of several
 * open connections: as shards respond one after the other, statements on the same
 * shards wait for the same few sets again and again.  A statement on many shards,
 * or one that is opening connections, reuses its set (SlWaitCache) as long as it
 * waits for the same sockets.
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
#include "base/hooks.h"
#include "compat.h"
#include "connection/connection.h"

/* If set, a wait also ends when the latch is set. */
bool		sl_wait_for_latch = false;

/* The latch was set during the last wait. */
static bool was_latch_set = false;

/* Milliseconds spent in waits since something arrived. */
static long waited_ms = 0;

/*
 * Milliseconds spent in waits since the client's connection was checked.  Data of
 * shards do not reset this: deadlock detection receives some, too.
 */
static long client_unchecked_ms = 0;

#define CLIENT_CHECK_MS 1000

/* The postmaster is dead. */
static bool is_postmaster_dead = false;

/* Time that a wait takes after that, so that a loop around it is not busy. */
#define POSTMASTER_DEATH_US 10000

/* Each set begins with the latch and the postmaster. */
#define FIXED_EVENTS 2

/* Maximum number of sets that the session caches, and of connections in each. */
#define MAX_SETS 8
#define MAX_SET_CONNS 8

/*
 * A set that the session caches.  A connection gets a new generation whenever it
 * is opened, so a set with a closed socket is never found again.
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

/* sl_wait_long() is running: its waits must not replace the set of the outer one. */
static bool is_nested = false;

/* Returns the time that many milliseconds from now. */
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

/*
 * The postmaster is dead: ends the process, at once or as soon as interrupts are
 * not held, as SyncRepWaitForLSN() does.
 */
static void
handle_postmaster_death(void)
{
	if (InterruptHoldoffCount == 0 && CritSectionCount == 0)
		proc_exit(1);
	is_postmaster_dead = true;
	ProcDiePending = true;
	InterruptPending = true;
	whereToSendOutput = DestNone;
	pg_usleep(POSTMASTER_DEATH_US);
}

/*
 * Ends the session if its client has disconnected: other transactions may be
 * waiting for its locks.  PostgreSQL does so only if
 * client_connection_check_interval is set.
 */
void
sl_wait_check_client(void)
{
	if (MyProcPort == NULL || whereToSendOutput != DestRemote || !WaitEventSetCanReportClosed() ||
		pq_check_connection())
		return;
	ClientConnectionLost = true;
	InterruptPending = true;
	CHECK_FOR_INTERRUPTS();
}

/* Nothing arrived for that time: checks now and then the client's connection. */
static void
check_client_after(long milliseconds)
{
	client_unchecked_ms += milliseconds;
	if (client_unchecked_ms < CLIENT_CHECK_MS)
		return;
	client_unchecked_ms = 0;
	sl_wait_check_client();
}

/* Nothing arrived for that time: calls now and then sl_wait_long(). */
static void
call_hook_after(long milliseconds)
{
	waited_ms += milliseconds;
	if (waited_ms < sl_deadlock_timeout)
		return;
	waited_ms = 0;
	if (InterruptHoldoffCount != 0 || is_nested)
		return;
	PG_TRY();
	{
		is_nested = true;
		sl_hooks.check_deadlock();
	}
	PG_FINALLY();
	{
		is_nested = false;
	}
	PG_END_TRY();
}

/*
 * Waits on a set.  Returns the number of sockets that are ready, which are in
 * events; 0 when the deadline, or patience in milliseconds (-1 is no limit), has
 * passed.  Without a deadline this does not read the clock.
 */
static int
wait_set(WaitEventSet *set, TimestampTz deadline, long patience, WaitEvent *events,
		 int max_events)
{
	for (;;)
	{
		long		timeout = Min(sl_deadlock_timeout, CLIENT_CHECK_MS);
		int			happened;
		int			ready = 0;

		/*
		 * The latch of an interrupt may have been reset while interrupts were
		 * held.
		 */
		CHECK_FOR_INTERRUPTS();
		if (patience >= 0)
			timeout = Min(timeout, patience);
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
				handle_postmaster_death();
			else if (events[i].events & WL_LATCH_SET)
			{
				ResetLatch(MyLatch);
				CHECK_FOR_INTERRUPTS();
				was_latch_set = true;
			}
			else if (events[i].events & WL_SOCKET_MASK)
				events[ready++] = events[i];
		}
		if (ready > 0)
		{
			waited_ms = 0;
			return ready;
		}
		if (is_postmaster_dead || (was_latch_set && sl_wait_for_latch))
			return 0;
		if (happened == 0)
		{
			check_client_after(timeout);
			call_hook_after(timeout);
		}
		if (patience < 0)
			continue;

		/* The latch may be set again and again: the time must end anyway. */
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
	if (cache->owned == NULL || cache->owned->set == NULL || cache->count != count)
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
	SlWaitSet  *owned = arg;

	if (owned->set != NULL)
		FreeWaitEventSet(owned->set);
	owned->set = NULL;
}

/*
 * Makes a SlWaitSet whose WaitEventSet, which is outside of all memory contexts
 * and has a file descriptor, is freed with the current memory context, as when the
 * statement is cancelled.
 */
static SlWaitSet *
make_owned_set(void)
{
	SlWaitSet  *owned = palloc0(sizeof(SlWaitSet));

	owned->callback.func = free_set;
	owned->callback.arg = owned;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &owned->callback);
	return owned;
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
	if (cache->owned == NULL)
		cache->owned = make_owned_set();
	cache->owned->set = make_set(count);
	for (int i = 0; i < count; i++)
	{
		cache->sockets[i] = PQsocket(items[i].conn->pg);
		cache->events[i] = items[i].events;
		AddWaitEventToSet(cache->owned->set, items[i].events, cache->sockets[i], NULL, NULL);
	}
	cache->count = count;
}

/* Frees the set of a cache; the arrays go with their memory context. */
void
sl_wait_forget(SlWaitCache *cache)
{
	if (cache->owned != NULL)
		free_set(cache->owned);
}

/*
 * Waits for the items of a set, and marks those that are ready; patience is in
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
 * Makes a set of the items followed by their second connections (liveness.c).
 * These are rare, and their sockets change while libpq connects: the set is made
 * again each time.
 */
static WaitEventSet *
make_probing_set(SlWaitSet **probing, SlWaitItem *items, int count)
{
	WaitEventSet *set;

	if (*probing == NULL)
		*probing = make_owned_set();
	free_set(*probing);
	(*probing)->set = set = make_set(2 * count);
	for (int i = 0; i < count; i++)
		AddWaitEventToSet(set, items[i].events, PQsocket(items[i].conn->pg), NULL, NULL);
	for (int i = 0; i < count; i++)
	{
		const SlLivenessCheck *probe = &items[i].conn->probe;

		if (probe->pg != NULL)
			AddWaitEventToSet(set,
							  probe->wants_write ? WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE,
							  PQsocket(probe->pg), NULL, &items[i]);
	}
	return set;
}

/* Advances the liveness checks.  Returns true if any item is ready. */
static bool
check_liveness(SlWaitItem *items, int count, int64 elapsed_us)
{
	bool		any_ready = false;

	for (int i = 0; i < count; i++)
	{
		SlConn	   *conn = items[i].conn;

		if (items[i].ready && conn->probe.quiet_us > 0)
			sl_liveness_reset(conn);
		else if (!items[i].ready && sl_liveness_is_on(conn))
			items[i].ready = !sl_liveness_advance(conn, elapsed_us, items[i].probe_ready);
		any_ready = any_ready || items[i].ready;
	}
	return any_ready;
}

/* Resets the items, and returns how many milliseconds to wait; -1 is no limit. */
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
		if (sl_liveness_is_on(conn))
			deadline = Min(deadline, start + sl_liveness_time_left(conn));
	}
	return TIMESTAMP_IS_NOEND(deadline) ? -1 : TimestampDifferenceMilliseconds(start, deadline);
}

/* Has the deadline passed?  0 means to look at the sockets without waiting. */
static bool
has_passed(TimestampTz now, TimestampTz deadline)
{
	return deadline != 0 && now >= deadline;
}

/*
 * Waits until an item is ready.  Returns false if the deadline has passed.  The
 * set has the sockets of the items.
 */
static bool
wait_for_items(WaitEventSet *set, SlWaitItem *items, int count, TimestampTz deadline)
{
	TimestampTz now = GetCurrentTimestamp();
	SlWaitSet  *probing = NULL;
	bool		any_ready;

	/* Even if data arrive all the time, the caller must notice its deadline. */
	if (has_passed(now, deadline))
	{
		for (int i = 0; i < count; i++)
			items[i].ready = false;
		return false;
	}
	was_latch_set = false;
	do
	{
		TimestampTz start = now;
		bool		has_probe;
		long		patience = prepare_round(items, count, start, deadline, &has_probe);

		wait_round(has_probe ? make_probing_set(&probing, items, count) : set, items, count,
				   patience);
		now = GetCurrentTimestamp();
		any_ready = check_liveness(items, count, Max(now - start, 0));
	} while (!any_ready && now < deadline && !is_postmaster_dead && !(was_latch_set && sl_wait_for_latch));
	if (probing != NULL)
		free_set(probing);
	return any_ready;
}

/* Sets up the connection's own set to wait for these events. */
static void
prepare_own_set(SlConn *conn, uint32 wanted)
{
	/* While libpq connects, the socket may change: the set is not reused. */
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
 * May the session cache a set of these?  While libpq connects, sockets change; and
 * connections that were opened to cancel a statement have no generation.
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
		/* The set must not be found until it is complete. */
		shared->generations[i] = 0;
		AddWaitEventToSet(shared->set, items[i].events, PQsocket(items[i].conn->pg), NULL, NULL);
	}
	for (int i = 0; i < count; i++)
	{
		shared->generations[i] = items[i].conn->generation;
		shared->events[i] = items[i].events;
	}
}

/* Returns the session's set of these, replacing the least recently used one. */
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
 * Waits until at least one of the items is ready for its events, and marks those.
 * Returns false if the deadline has passed, whatever has arrived by then; DT_NOEND
 * is none, and 0 means not to wait.  A connection whose shard turns out to be dead
 * is ready, too.  The caller must call sl_wait_forget() when a socket in the cache
 * may have been closed.
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
	return wait_for_items(cache->owned->set, items, count, deadline);
}

/*
 * The same for one connection, with its own set.  Without a deadline this does not
 * read the clock, unless the wait is long.
 */
bool
sl_wait_conn(SlConn *conn, TimestampTz deadline)
{
	SlWaitItem	item = {.conn = conn,.events = sl_conn_wants(conn)};
	WaitEvent	events[FIXED_EVENTS + 1];
	TimestampTz start = TIMESTAMP_IS_NOEND(deadline) ? 0 : GetCurrentTimestamp();

	was_latch_set = false;
	prepare_own_set(conn, item.events);
	if (!sl_liveness_is_on(conn))
		return wait_set(conn->wait_set, deadline, -1, events, lengthof(events)) > 0;
	if (conn->probe.quiet_us == 0)
	{
		if (wait_set(conn->wait_set, deadline, sl_silence_timeout, events, lengthof(events)) > 0)
			return true;
		if (was_latch_set && sl_wait_for_latch)
			return false;
		if (!TIMESTAMP_IS_NOEND(deadline) && GetCurrentTimestamp() >= deadline)
		{
			/* Many short waits in a row add up to a long silence. */
			conn->probe.quiet_us = Max(deadline - start, 1);
			return false;
		}
		conn->probe.quiet_us = sl_silence_timeout * INT64CONST(1000);
	}
	return wait_for_items(conn->wait_set, &item, 1, deadline);
}

/* Waits for the latch alone. */
void
sl_wait_latch(void)
{
	int			happened = WaitLatch(MyLatch, WL_LATCH_SET | WL_POSTMASTER_DEATH, 0,
									 PG_WAIT_EXTENSION);

	if ((happened & WL_POSTMASTER_DEATH) != 0)
		handle_postmaster_death();
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}
