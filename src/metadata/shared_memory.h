/*
 * shared_memory.h
 *		State shared by the sessions of a server: connections, and what is
 *		known of each shard's prepared transactions.
 *
 * Shared memory exists only if the library is in shared_preload_libraries.
 * Without it every session has an empty state of its own.
 */
#ifndef SL_SHARED_MEMORY_H
#define SL_SHARED_MEMORY_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/latch.h"

/* One connection to a shard.  Its session writes it without a lock. */
typedef struct SlConnSlot
{
	int			pid;			/* of the session; 0: the slot is free */
	Oid			database;
	Oid			user;
	int32		shard_id;
	NameData	shard;
	int			remote_pid;
	bool		is_open;		/* false: still connecting */
	bool		is_active;
	bool		in_transaction;
	bool		may_repeat;		/* the running statement can be rolled back
								 * and repeated */
	TimestampTz began;			/* the transaction on the shard */
	TimestampTz since;
} SlConnSlot;

/*
 * What is known of a shard's prepared transactions, and its copies of maps.  A
 * new slot has all flags set: they were not checked since the server started.
 */
#define SL_SHARD_FENCED		1	/* a committed one may be unfinished */
#define SL_SHARD_DIRTY		2	/* some may be left over: check again */
#define SL_SHARD_MAPS		4	/* its copies of maps may be outdated */

typedef struct SlShardSlot
{
	Oid			database;		/* 0: the slot is free */
	int32		shard_id;
	pg_atomic_uint32 flags;
	pg_atomic_uint32 changes;	/* raised whenever a flag is set */
	pg_atomic_uint64 failed_ddl;	/* id of the missed statement that the
									 * shard could not execute; 0: none */
	pg_atomic_uint64 lost_epoch;	/* this router's epoch, in which another
									 * router took the shard over; 0: none */
} SlShardSlot;

/*
 * Deadlocks between multi-shard writes of a table, see transaction/contention.c.  Tables
 * are hashed to slots; sessions read and write them without a lock.
 */
#define SL_CONTENTION_SLOTS 256

typedef struct SlContentionSlot
{
	pg_atomic_uint64 until;		/* a TimestampTz; 0: never contended */
	pg_atomic_uint64 span;		/* microseconds that it was marked for last */
	pg_atomic_uint64 ordered_until; /* a TimestampTz */
	pg_atomic_uint64 next_search;	/* a TimestampTz */
} SlContentionSlot;

/* shared_memory.c */
extern void sl_shmem_init(void);
extern bool sl_shmem_is_shared(void);
extern SlConnSlot *sl_shmem_take_conn(void);
extern void sl_shmem_give_conn(SlConnSlot *slot);
extern int	sl_shmem_conns(SlConnSlot **copies);
extern bool sl_shmem_is_used_by_others(int32 shard_id);
extern SlContentionSlot *sl_shmem_contention(uint32 hash);
extern SlShardSlot *sl_shmem_shard(int32 shard_id);
extern void sl_shmem_flag(SlShardSlot *slot, uint32 flags);
extern bool sl_shmem_unflag(SlShardSlot *slot, uint32 flags, uint32 changes);
extern void sl_shmem_set_launcher(Latch *latch);
extern void sl_shmem_wake_launcher(void);
extern bool sl_shmem_has_flag(SlShardSlot *slot, uint32 flag);
extern void sl_shmem_flag_all(uint32 flags);
extern int	sl_shmem_databases(uint32 flags, Oid **databases);
extern void sl_shmem_set_lost(SlShardSlot *slot, uint64 epoch);
extern bool sl_shmem_has_lost(void);
extern void sl_shmem_forget_database(Oid database);

/* router_instance.c */
extern uint64 sl_router_instance(void);
extern void sl_router_instance_load(bool create);

#endif							/* SL_SHARED_MEMORY_H */
