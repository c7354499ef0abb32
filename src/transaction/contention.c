/*
 * contention.c
 *		Which tables have multi-shard writes that deadlock with each other.
 *
 * A multi-shard write runs on all shards at a time, so two of them
 * can lock the same rows in opposite order.  When that has happened, the table is
 * contended for a while: multi-shard writes of it take turns (see
 * executor/deadlock_retry.c).  A table that deadlocks again soon after that time is contended
 * for twice as long.
 *
 * Tables are hashed to slots in shared memory.  Two tables that share a slot, or
 * a race between two sessions that write it, cost a little time and nothing else.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "transaction/transaction.h"

/* For how many microseconds a table is contended at least, and at most. */
#define MIN_SPAN (2 * 1000 * INT64CONST(1000))
#define MAX_SPAN (30 * 1000 * INT64CONST(1000))

/* What a deadlock has cost is a small part of the time until the next one. */
#define SPAN_FACTOR 10

/* Microseconds between two searches for deadlocks of one table. */
#define SEARCH_INTERVAL (50 * INT64CONST(1000))

/* Advisory locks of users have 1 or 2 in the last field. */
#define LOCK_KIND 3

static SlContentionSlot *
find_slot(Oid table)
{
	return sl_shmem_contention(hash_combine(murmurhash32((uint32) MyDatabaseId),
											murmurhash32((uint32) table)));
}

/* Most tables are never contended: for these the time is not read. */
static bool
is_ahead(pg_atomic_uint64 *time)
{
	int64		until = (int64) pg_atomic_read_u64(time);

	return until != 0 && until > GetCurrentTimestamp();
}

/* Do multi-shard writes of the table have to take turns? */
bool
sl_contention_is_marked(Oid table)
{
	SlContentionSlot *slot = find_slot(table);

	return slot != NULL && is_ahead(&slot->until);
}

/* Do they have to go from shard to shard as well? */
bool
sl_contention_is_ordered(Oid table)
{
	SlContentionSlot *slot = find_slot(table);

	return slot != NULL && is_ahead(&slot->ordered_until);
}

/* A statement has given its turn back before it was complete. */
void
sl_contention_order(Oid table)
{
	SlContentionSlot *slot = find_slot(table);

	if (slot != NULL)
		pg_atomic_write_u64(&slot->ordered_until, (uint64) (GetCurrentTimestamp() + MIN_SPAN));
}

/* A multi-shard write of the table has lost so many microseconds by a deadlock. */
void
sl_contention_mark(Oid table, int64 lost)
{
	SlContentionSlot *slot = find_slot(table);
	TimestampTz now = GetCurrentTimestamp();
	int64		until;
	int64		span;

	if (slot == NULL)
		return;
	until = (int64) pg_atomic_read_u64(&slot->until);
	span = (int64) pg_atomic_read_u64(&slot->span);
	if (until <= now)
		span = now - until < span ? 2 * span : MIN_SPAN;
	span = Min(Max(span, SPAN_FACTOR * lost), MAX_SPAN);
	pg_atomic_write_u64(&slot->span, (uint64) span);
	pg_atomic_write_u64(&slot->until, (uint64) (now + span));
}

/*
 * May this session search for a deadlock of the table early?  Not all sessions that
 * wait for each other need do so: one finds it, and marks the table.
 */
bool
sl_contention_claim_search(Oid table)
{
	SlContentionSlot *slot = find_slot(table);
	TimestampTz now = GetCurrentTimestamp();
	uint64		next;

	if (slot == NULL)
		return false;
	next = pg_atomic_read_u64(&slot->next_search);
	return (int64) next <= now &&
		pg_atomic_compare_exchange_u64(&slot->next_search, &next,
									   (uint64) (now + SEARCH_INTERVAL));
}

/*
 * Takes a lock on the router that sessions have for a table of the shards; an error
 * releases it.
 */
void
sl_table_lock_acquire(SlTableLock kind, Oid table, LOCKMODE mode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, kind, table, LOCK_KIND);
	(void) LockAcquire(&tag, mode, false, false);
}

void
sl_table_lock_release(SlTableLock kind, Oid table, LOCKMODE mode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, kind, table, LOCK_KIND);
	(void) LockRelease(&tag, mode, false);
}

/*
 * Waits until no other session has its turn.  The caller gives it back when it
 * has locked its rows, or has waited for one of them for a while; an error gives
 * it back, too.  lock_timeout is for locks that users know of.
 */
void
sl_contention_take_turn(Oid table)
{
	int			lock_timeout = LockTimeout;

	PG_TRY();
	{
		LockTimeout = 0;
		sl_table_lock_acquire(SL_TABLE_LOCK_TURN, table, ExclusiveLock);
	}
	PG_FINALLY();
	{
		LockTimeout = lock_timeout;
	}
	PG_END_TRY();
}

void
sl_contention_give_turn(Oid table)
{
	sl_table_lock_release(SL_TABLE_LOCK_TURN, table, ExclusiveLock);
}
