/*
 * stat.h
 *		What the sessions of a server share: who is connected where, and what
 *		is known of each shard's prepared transactions.
 *
 * It is shared memory, so it is there only if the server loaded the library at
 * its start.  Without that every session has an empty one of its own.
 */
#ifndef SL_STAT_H
#define SL_STAT_H

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
	bool		is_open;		/* not: still connecting */
	bool		is_active;
	bool		in_transaction;
	TimestampTz began;			/* the transaction there */
	TimestampTz since;
} SlConnSlot;

/*
 * What is known of a shard's prepared transactions, and its maps.  A new slot
 * has all flags: nobody has looked since the server started.
 */
#define SL_SHARD_FENCED		1	/* a committed one may be unfinished there */
#define SL_SHARD_DIRTY		2	/* some may be left over: look again */
#define SL_SHARD_MAPS		4	/* its copies of maps may be old */

typedef struct SlShardSlot
{
	Oid			database;		/* 0: the slot is free */
	int32		shard_id;
	pg_atomic_uint32 flags;
	pg_atomic_uint32 changes;	/* raised whenever a flag is set */
} SlShardSlot;

/* shmem.c */
extern void sl_stat_init(void);
extern bool sl_stat_is_shared(void);
extern SlConnSlot *sl_stat_take_conn(void);
extern void sl_stat_give_conn(SlConnSlot *slot);
extern int	sl_stat_conns(SlConnSlot **copies);
extern SlShardSlot *sl_stat_shard(int32 shard_id);
extern void sl_stat_flag(SlShardSlot *slot, uint32 flags);
extern bool sl_stat_unflag(SlShardSlot *slot, uint32 flags, uint32 changes);
extern void sl_stat_set_launcher(Latch *latch);
extern void sl_stat_wake_launcher(void);
extern bool sl_stat_has_flag(SlShardSlot *slot, uint32 flag);
extern void sl_stat_flag_all(uint32 flags);
extern int	sl_stat_dirty_databases(Oid **databases);
extern void sl_stat_forget_database(Oid database);

/* incarnation.c */
extern uint64 sl_incarnation(void);
extern void sl_incarnation_load(bool create);

#endif							/* SL_STAT_H */
