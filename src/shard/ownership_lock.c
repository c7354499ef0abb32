/*
 * ownership_lock.c
 *		Locks of shardlets and maps on a shard; shard.h has the protocol.
 *
 * They are held until the end of the transaction, also if the savepoint in
 * which they were taken is rolled back: the result of a check stays valid, so
 * only the first row of a shardlet costs a lock.  For that they belong to the
 * top transaction's resource owner.
 *
 * One lock for each shardlet would fill the lock table in a transaction that
 * writes everywhere.  So a transaction with many of them locks whole maps from
 * then on.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/resowner.h"

#include "compat.h"
#include "shard/shard.h"

/* The number of shardlets that the given transaction has locked. */
static LocalTransactionId counted_for = InvalidLocalTransactionId;
static int	lock_count = 0;

static LOCKTAG
shardlet_tag(int64 shardlet)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) ((uint64) shardlet >> 32),
						 (uint32) shardlet, SL_GUARD_SHARDLET_TAG);
	return tag;
}

static LOCKTAG
map_tag(int32 map_id)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, (uint32) map_id, SL_GUARD_MAP_TAG);
	return tag;
}

static void
acquire(const LOCKTAG *tag, LOCKMODE mode)
{
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = TopTransactionResourceOwner;
	PG_TRY();
	{
		(void) LockAcquire(tag, mode, false, false);
	}
	PG_FINALLY();
	{
		CurrentResourceOwner = owner;
	}
	PG_END_TRY();
}

/*
 * Takes a writer's lock on a shardlet.  Returns true if the whole map was
 * locked instead, because the transaction has locked many.
 */
bool
sl_guard_lock_shardlet(int32 map_id, int64 shardlet)
{
	LOCKTAG		tag = shardlet_tag(shardlet);

	if (counted_for != sl_local_transaction_id())
	{
		counted_for = sl_local_transaction_id();
		lock_count = 0;
	}
	if (lock_count >= SL_GUARD_MAX_LOCKS)
	{
		sl_guard_lock_map(map_id);
		return true;
	}
	acquire(&tag, ShareLock);
	lock_count++;
	return false;
}

/* Takes a writer's lock on all shardlets of a map. */
void
sl_guard_lock_map(int32 map_id)
{
	LOCKTAG		tag = map_tag(map_id);

	acquire(&tag, ShareLock);
}

/* Takes exclusive locks, with a timeout for each. */
static void
acquire_in_time(const LOCKTAG *tag, LOCKMODE mode, int wait_ms)
{
	int			nest_level = NewGUCNestLevel();
	char		value[32];

	snprintf(value, sizeof(value), "%d", Max(wait_ms, 1));
	(void) set_config_option("lock_timeout", value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	acquire(tag, mode);
	AtEOXact_GUC(true, nest_level);
}

/* Locks a shardlet against writers and other changes. */
void
sl_guard_lock_exclusively(int64 shardlet, int wait_ms)
{
	LOCKTAG		tag = shardlet_tag(shardlet);

	acquire_in_time(&tag, ExclusiveLock, wait_ms);
}

/*
 * Locks a map against writers that hold the whole map; the last lock of a
 * change.
 */
void
sl_guard_lock_for_change(int32 map_id, int wait_ms)
{
	LOCKTAG		tag = map_tag(map_id);

	acquire_in_time(&tag, RowExclusiveLock, wait_ms);
}

static LOCKTAG
router_tag(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, 0, SL_GUARD_ROUTER_TAG);
	return tag;
}

/*
 * Keeps the router that the shard belongs to from being replaced before the
 * transaction ends, prepared or not.
 */
void
sl_guard_lock_router(void)
{
	LOCKTAG		tag = router_tag();

	acquire(&tag, ShareLock);
}

/* Waits for transactions that did. */
void
sl_guard_lock_router_for_change(int wait_ms)
{
	LOCKTAG		tag = router_tag();

	acquire_in_time(&tag, ExclusiveLock, wait_ms);
}
