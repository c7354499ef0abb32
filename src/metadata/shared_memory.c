/*
 * shared_memory.c
 *		Shared memory: slots for connections and for shards.
 *
 * Slots are found and freed under one lock.  Their owners read and write them
 * without: a connection's slot is written by its session alone, and a shard's
 * flags are atomic.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "metadata/shared_memory.h"

#define CONNS_PER_SESSION 16
#define MAX_SHARD_SLOTS 4096

typedef struct Shared
{
	LWLock	   *lock;
	int			conn_count;
	int			conn_used;		/* slots beyond were never used */
	int			shard_used;
	pg_atomic_uint32 had_lost;	/* 1: a shard was taken over since the start */
	SlShardSlot shards[MAX_SHARD_SLOTS];
	Latch	   *launcher;		/* of the launcher's process, or NULL */
	SlContentionSlot contention[SL_CONTENTION_SLOTS];
	SlConnSlot	conns[FLEXIBLE_ARRAY_MEMBER];
} Shared;

static Shared *shared;
static shmem_request_hook_type next_request_hook = NULL;
static shmem_startup_hook_type next_startup_hook = NULL;

/* For a session without shared memory. */
static SlShardSlot *own_shards;
static int	own_shard_count;

bool
sl_shmem_is_shared(void)
{
	return shared != NULL;
}

static int
conn_count(void)
{
	return MaxBackends * CONNS_PER_SESSION;
}

static Size
shared_size(void)
{
	return add_size(offsetof(Shared, conns), mul_size(sizeof(SlConnSlot), conn_count()));
}

static void
request_shared_memory(void)
{
	if (next_request_hook)
		next_request_hook();
	RequestAddinShmemSpace(shared_size());
	RequestNamedLWLockTranche("shardlet", 1);
}

static void
init_shared_memory(void)
{
	bool		found;

	if (next_startup_hook)
		next_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("shardlet", shared_size(), &found);
	if (!found)
	{
		memset(shared, 0, shared_size());
		shared->lock = &GetNamedLWLockTranche("shardlet")->lock;
		shared->conn_count = conn_count();
		for (int i = 0; i < SL_CONTENTION_SLOTS; i++)
		{
			pg_atomic_init_u64(&shared->contention[i].until, 0);
			pg_atomic_init_u64(&shared->contention[i].span, 0);
			pg_atomic_init_u64(&shared->contention[i].ordered_until, 0);
			pg_atomic_init_u64(&shared->contention[i].next_search, 0);
		}
		pg_atomic_init_u32(&shared->had_lost, 0);
		for (int i = 0; i < MAX_SHARD_SLOTS; i++)
		{
			pg_atomic_init_u32(&shared->shards[i].flags, 0);
			pg_atomic_init_u32(&shared->shards[i].changes, 0);
			pg_atomic_init_u64(&shared->shards[i].failed_ddl, 0);
			pg_atomic_init_u64(&shared->shards[i].lost_epoch, 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
	sl_router_instance_load(true);
}

/* Connections ---------------------------------------------------------------- */

static void
free_conns_at_exit(int code, Datum arg)
{
	for (int i = 0; i < shared->conn_used; i++)
	{
		if (shared->conns[i].pid == MyProcPid)
			sl_shmem_give_conn(&shared->conns[i]);
	}
}

/* Returns a slot for a connection of this session, or NULL if all are taken. */
SlConnSlot *
sl_shmem_take_conn(void)
{
	static int	registered_by = 0;
	SlConnSlot *slot = NULL;

	if (shared == NULL)
		return NULL;
	if (registered_by != MyProcPid)
	{
		on_shmem_exit(free_conns_at_exit, (Datum) 0);
		registered_by = MyProcPid;
	}
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->conn_count; i++)
	{
		if (shared->conns[i].pid != 0)
			continue;
		slot = &shared->conns[i];
		memset(slot, 0, sizeof(SlConnSlot));
		slot->pid = MyProcPid;
		slot->database = MyDatabaseId;
		shared->conn_used = Max(shared->conn_used, i + 1);
		break;
	}
	LWLockRelease(shared->lock);
	return slot;
}

void
sl_shmem_give_conn(SlConnSlot *slot)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (slot->pid == MyProcPid)
		slot->pid = 0;
	LWLockRelease(shared->lock);
}

/* Copies the slots of all sessions of this database; returns their number. */
int
sl_shmem_conns(SlConnSlot **copies)
{
	int			count = 0;

	*copies = NULL;
	if (shared == NULL)
		return 0;
	*copies = palloc(sizeof(SlConnSlot) * Max(shared->conn_count, 1));
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->conn_used; i++)
	{
		if (shared->conns[i].pid != 0 && shared->conns[i].database == MyDatabaseId)
			(*copies)[count++] = shared->conns[i];
	}
	LWLockRelease(shared->lock);
	return count;
}

/*
 * Is another session of this database in a transaction on the shard?  Read
 * without the lock: the answer may be outdated anyway.
 */
bool
sl_shmem_is_used_by_others(int32 shard_id)
{
	for (int i = 0; shared != NULL && i < shared->conn_used; i++)
	{
		const SlConnSlot *slot = &shared->conns[i];

		if (slot->pid != 0 && slot->pid != MyProcPid && slot->shard_id == shard_id &&
			slot->in_transaction && slot->database == MyDatabaseId)
			return true;
	}
	return false;
}

/* Returns the slot of a hash, or NULL without shared memory. */
SlContentionSlot *
sl_shmem_contention(uint32 hash)
{
	return shared != NULL ? &shared->contention[hash % SL_CONTENTION_SLOTS] : NULL;
}

/* Shards --------------------------------------------------------------------- */

static void
make_shard(SlShardSlot *slot, int32 shard_id)
{
	slot->shard_id = shard_id;
	pg_atomic_init_u32(&slot->flags, SL_SHARD_FENCED | SL_SHARD_DIRTY | SL_SHARD_MAPS);
	pg_atomic_init_u32(&slot->changes, 0);
	pg_atomic_init_u64(&slot->failed_ddl, 0);
	pg_atomic_init_u64(&slot->lost_epoch, 0);
	slot->database = MyDatabaseId;
}

static SlShardSlot *
find_shard(SlShardSlot *slots, int count, int32 shard_id)
{
	for (int i = 0; i < count; i++)
	{
		if (slots[i].database == MyDatabaseId && slots[i].shard_id == shard_id)
			return &slots[i];
	}
	return NULL;
}

/*
 * The state of this session, if there is no shared memory, or when it is full.
 */
static SlShardSlot *
own_shard(int32 shard_id)
{
	SlShardSlot *slot;

	if (own_shards == NULL)
		own_shards = MemoryContextAllocZero(TopMemoryContext,
											sizeof(SlShardSlot) * MAX_SHARD_SLOTS);
	slot = find_shard(own_shards, own_shard_count, shard_id);
	if (slot != NULL)
		return slot;
	if (own_shard_count == MAX_SHARD_SLOTS)
		elog(ERROR, "too many shards");
	slot = &own_shards[own_shard_count++];
	make_shard(slot, shard_id);
	return slot;
}

/* Takes a free slot; NULL if there is none.  The caller holds the lock. */
static SlShardSlot *
add_shard(int32 shard_id)
{
	for (int i = 0; i < MAX_SHARD_SLOTS; i++)
	{
		if (shared->shards[i].database != InvalidOid)
			continue;
		make_shard(&shared->shards[i], shard_id);
		shared->shard_used = Max(shared->shard_used, i + 1);
		return &shared->shards[i];
	}
	return NULL;
}

/* Returns the slot of a shard of this database. */
SlShardSlot *
sl_shmem_shard(int32 shard_id)
{
	SlShardSlot *slot;

	if (shared == NULL)
		return own_shard(shard_id);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_shard(shared->shards, shared->shard_used, shard_id);
	if (slot == NULL)
		slot = add_shard(shard_id);
	LWLockRelease(shared->lock);
	return slot != NULL ? slot : own_shard(shard_id);
}

/* Sets flags of a shard.  Must not fail. */
void
sl_shmem_flag(SlShardSlot *slot, uint32 flags)
{
	pg_atomic_fetch_add_u32(&slot->changes, 1);
	pg_atomic_fetch_or_u32(&slot->flags, flags);
}

/* Sets flags of all shards of this database that have a slot. */
void
sl_shmem_flag_all(uint32 flags)
{
	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->shard_used; i++)
	{
		if (shared->shards[i].database == MyDatabaseId)
			sl_shmem_flag(&shared->shards[i], flags);
	}
	LWLockRelease(shared->lock);
}

/*
 * Records that another router has taken over a shard, in this epoch of this router; 0:
 * it has not.  When this router's epoch rises it has taken over, and what was
 * recorded before is void.
 */
void
sl_shmem_set_lost(SlShardSlot *slot, uint64 epoch)
{
	pg_atomic_write_u64(&slot->lost_epoch, epoch);
	if (shared != NULL && epoch != 0)
		pg_atomic_write_u32(&shared->had_lost, 1);
}

/* May there be a shard that was taken over, of any database? */
bool
sl_shmem_has_lost(void)
{
	return shared != NULL && pg_atomic_read_u32(&shared->had_lost) != 0;
}

/*
 * Clears flags, unless one was set since the caller read "changes".  Returns
 * true if they are cleared.
 */
bool
sl_shmem_unflag(SlShardSlot *slot, uint32 flags, uint32 changes)
{
	pg_atomic_fetch_and_u32(&slot->flags, ~flags);
	if (pg_atomic_read_u32(&slot->changes) == changes)
		return true;
	pg_atomic_fetch_or_u32(&slot->flags, flags);
	return false;
}

/* Registers the latch of the launcher. */
void
sl_shmem_set_launcher(Latch *latch)
{
	if (shared != NULL)
		shared->launcher = latch;
}

/* Wakes the launcher for work that should not wait for its next cycle. */
void
sl_shmem_wake_launcher(void)
{
	if (shared != NULL && shared->launcher != NULL)
		SetLatch(shared->launcher);
}

bool
sl_shmem_has_flag(SlShardSlot *slot, uint32 flag)
{
	return (pg_atomic_read_u32(&slot->flags) & flag) != 0;
}

/* Returns the databases that have a shard with one of the flags; with any shard, if there are none. */
int
sl_shmem_databases(uint32 flags, Oid **databases)
{
	int			count = 0;

	*databases = palloc(sizeof(Oid) * MAX_SHARD_SLOTS);
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->shard_used; i++)
	{
		SlShardSlot *slot = &shared->shards[i];
		bool		known = slot->database == InvalidOid;

		for (int j = 0; j < count && !known; j++)
			known = (*databases)[j] == slot->database;
		if (!known && (flags == 0 || (pg_atomic_read_u32(&slot->flags) & flags) != 0))
			(*databases)[count++] = slot->database;
	}
	LWLockRelease(shared->lock);
	return count;
}

/* Frees the slots of a database that is gone, or is not a router any more. */
void
sl_shmem_forget_database(Oid database)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->shard_used; i++)
	{
		if (shared->shards[i].database != database)
			continue;
		sl_shmem_set_lost(&shared->shards[i], false);
		shared->shards[i].database = InvalidOid;
	}
	LWLockRelease(shared->lock);
}

void
sl_shmem_init(void)
{
	if (!sl_preloaded())
		return;
	next_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	next_startup_hook = shmem_startup_hook;
	shmem_startup_hook = init_shared_memory;
}
