/*
 * commit_lock.c
 *		The commit/snapshot lock: keeps multi-shard commits and snapshots of
 *		several shards in one order.
 *
 * Participants are shards, and the router itself where its own tables are
 * written or read.  A multi-shard commit and a set of snapshots that share two
 * or more participants conflict: the snapshots must show the commit on all that
 * they share, or on none.  No session is locked out for that.  Either side gets a
 * ticket, and on each shard that both use, what has the lower ticket comes
 * first: the commit's COMMIT PREPARED before the snapshot is taken, or the
 * snapshot before the COMMIT PREPARED is sent.  So a shard that does not answer
 * delays only what has to do with that very shard.
 *
 * The router is the participant whose moment cannot be chosen: a commit becomes
 * visible there in ProcArrayEndTransaction(), after the wait for a synchronous
 * standby and before XACT_EVENT_COMMIT.  A commit announces itself when all its
 * shards are prepared, and takes its ticket in XACT_EVENT_COMMIT.  Snapshots
 * that include the router's are taken in this order: under this LWLock the
 * router's, then the ticket.  An announced commit that this snapshot shows gets
 * a ticket first, in its place.  One that it does not show will take a higher
 * one.  So the order of tickets is the order that the router's snapshot sees,
 * and a commit that waits for a standby, which no snapshot shows, delays no
 * session.
 *
 * A router's snapshot that is older than the ticket, as in a REPEATABLE READ
 * transaction that meets its first shard late, may have missed a commit whose
 * ticket is lower, or that is over: then the snapshots cannot be had any more.
 * Those that are over are in a ring; if it has overflowed since, that counts as
 * a conflict, too.
 *
 * No deadlock: a wait is always for a lower ticket.  What has the lowest one
 * waits for answers of shards alone, either to COMMIT PREPARED, which takes no
 * lock and has a time limit, or to BEGIN and a query without tables, which
 * takes none that a prepared transaction can hold against it and has the limit
 * shardlet.connect_timeout.  A session that waits here may hold heavyweight
 * locks; the one it waits for acquires none before it is done.
 *
 * Entries are one for each backend, found by its number, and are removed by
 * the end of the transaction or the process.  A wait is on the process latch; a
 * session that changes an entry sets the latches of those that wait.
 *
 * All of this is in shared memory, so it is there only on a router that has
 * the library preloaded: elsewhere there are no multi-shard commits.  Databases
 * of one server do not meet.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"

#include "base/base.h"
#include "compat.h"
#include "transaction/transaction.h"

/* A set with more shards conflicts with every other one. */
#define MAX_SET 64

/* How many finished commits are remembered. */
#define RING_SIZE 512

typedef struct ShardSet
{
	bool		has_router;
	bool		is_overflown;	/* it may have any shard */
	int			count;
	int32		ids[MAX_SET];
} ShardSet;

typedef enum EntryKind
{
	ENTRY_FREE,
	ENTRY_COMMIT,
	ENTRY_SNAPSHOT
} EntryKind;

typedef struct Entry
{
	EntryKind	kind;
	Oid			database;
	uint64		ticket;			/* 0: a commit that is announced only */
	uint64		xid;			/* of a commit: the router's, with its epoch */
	bool		waits;			/* for others: wake it when something changed */
	uint64		done;			/* bits of shards where its turn is over */
	int			place;			/* in the list of those in use */
	ShardSet	set;
} Entry;

/* A commit that is over. */
typedef struct Finished
{
	Oid			database;
	uint64		xid;
	ShardSet	set;
} Finished;

typedef struct Shared
{
	LWLock	   *lock;
	uint64		last_ticket;
	uint64		finished_count; /* since the start of the server */
	uint64		evicted_xid;	/* highest that is not in the ring any more */
	Finished	finished[RING_SIZE];
	int			used_count;
	Entry	   *entries;		/* by the number of the backend */
	int		   *used;			/* numbers of those that are not free */
} Shared;

static Shared *shared;
static shmem_request_hook_type next_request_hook = NULL;
static shmem_startup_hook_type next_startup_hook = NULL;

static Size
shared_size(void)
{
	return add_size(MAXALIGN(sizeof(Shared)),
					mul_size(sizeof(Entry) + sizeof(int), MaxBackends));
}

static void
request_commit_lock(void)
{
	if (next_request_hook)
		next_request_hook();
	RequestAddinShmemSpace(shared_size());
	RequestNamedLWLockTranche("shardlet_commit", 1);
}

static void
init_commit_lock(void)
{
	bool		found;

	if (next_startup_hook)
		next_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("shardlet commits", shared_size(), &found);
	if (!found)
	{
		memset(shared, 0, shared_size());
		shared->lock = &GetNamedLWLockTranche("shardlet_commit")->lock;
		shared->entries = (Entry *) ((char *) shared + MAXALIGN(sizeof(Shared)));
		shared->used = (int *) (shared->entries + MaxBackends);
	}
	LWLockRelease(AddinShmemInitLock);
}

/* Sets ------------------------------------------------------------------------ */

static void
add_to_set(ShardSet *set, int32 shard_id)
{
	for (int i = 0; i < set->count; i++)
	{
		if (set->ids[i] == shard_id)
			return;
	}
	if (set->count == MAX_SET)
		set->is_overflown = true;
	else
		set->ids[set->count++] = shard_id;
}

/* Returns the place of a shard in a set, or -1. */
static int
place_in_set(const ShardSet *set, int32 shard_id)
{
	for (int i = 0; i < set->count; i++)
	{
		if (set->ids[i] == shard_id)
			return i;
	}
	return -1;
}

/* Do the two share two participants or more? */
static bool
sets_conflict(const ShardSet *a, const ShardSet *b)
{
	int			shared_count = a->has_router && b->has_router ? 1 : 0;

	if (a->is_overflown || b->is_overflown)
		return true;
	for (int i = 0; i < a->count && shared_count < 2; i++)
	{
		if (place_in_set(b, a->ids[i]) >= 0)
			shared_count++;
	}
	return shared_count >= 2;
}

/* Has an entry still something to do on a shard? */
static bool
is_pending_on(const Entry *entry, int32 shard_id)
{
	int			place = place_in_set(&entry->set, shard_id);

	if (place < 0)
		return entry->set.is_overflown;
	return (entry->done & (UINT64CONST(1) << place)) == 0;
}

/* Entries --------------------------------------------------------------------- */

static Entry *
own_entry(void)
{
	return &shared->entries[sl_own_proc_number()];
}

static void
wake_waiters(void)
{
	for (int i = 0; i < shared->used_count; i++)
	{
		if (shared->entries[shared->used[i]].waits)
			SetLatch(&GetPGProcByNumber(shared->used[i])->procLatch);
	}
}

/* Puts a commit that is over into the ring.  The lock is held. */
static void
remember_commit(const Entry *entry)
{
	Finished   *finished = &shared->finished[shared->finished_count++ % RING_SIZE];

	if (finished->xid > shared->evicted_xid)
		shared->evicted_xid = finished->xid;
	finished->database = entry->database;
	finished->xid = entry->xid;
	finished->set = entry->set;
}

/* The lock is held. */
static void
free_entry(Entry *entry)
{
	int			last = shared->used[--shared->used_count];

	shared->used[entry->place] = last;
	shared->entries[last].place = entry->place;
	entry->kind = ENTRY_FREE;
	wake_waiters();
}

/*
 * Removes the session's entry, if there is one.  A commit that got its ticket
 * has happened.  Raises nothing.
 */
void
sl_commit_lock_end(void)
{
	Entry	   *entry;

	sl_wait_for_latch = false;
	if (shared == NULL || MyProc == NULL)
		return;
	entry = own_entry();
	if (entry->kind == ENTRY_FREE)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (entry->kind == ENTRY_COMMIT && entry->ticket != 0)
		remember_commit(entry);
	free_entry(entry);
	LWLockRelease(shared->lock);
}

static void
end_at_exit(int code, Datum arg)
{
	sl_commit_lock_end();
}

/* Fills the session's entry, which must be free.  The lock is held. */
static Entry *
take_entry(EntryKind kind, const ShardSet *set)
{
	Entry	   *entry = own_entry();

	Assert(entry->kind == ENTRY_FREE);
	entry->kind = kind;
	entry->database = MyDatabaseId;
	entry->ticket = 0;
	entry->xid = 0;
	entry->waits = false;
	entry->done = 0;
	entry->set = *set;
	entry->place = shared->used_count;
	shared->used[shared->used_count++] = sl_own_proc_number();
	return entry;
}

static void
register_exit(void)
{
	static int	registered_by = 0;

	if (registered_by == MyProcPid)
		return;
	before_shmem_exit(end_at_exit, (Datum) 0);
	registered_by = MyProcPid;
}

/* Turns ----------------------------------------------------------------------- */

/*
 * Returns true if it is the session's turn on a shard: everything that conflicts
 * and has a lower ticket is done there.  If not, the session's latch is set
 * whenever that may have changed.
 */
bool
sl_commit_lock_has_turn(int32 shard_id)
{
	Entry	   *entry;
	bool		result = true;

	if (shared == NULL || own_entry()->kind == ENTRY_FREE)
		return true;
	entry = own_entry();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->used_count && result; i++)
	{
		const Entry *other = &shared->entries[shared->used[i]];

		result = other->kind == entry->kind || other->database != MyDatabaseId ||
			other->ticket == 0 || other->ticket > entry->ticket ||
			!is_pending_on(other, shard_id) || !sets_conflict(&other->set, &entry->set);
	}
	entry->waits = entry->waits || !result;
	LWLockRelease(shared->lock);
	return result;
}

/* The session's turn on a shard is over.  Raises nothing. */
void
sl_commit_lock_end_turn(int32 shard_id)
{
	Entry	   *entry;
	int			place;

	if (shared == NULL || own_entry()->kind == ENTRY_FREE)
		return;
	entry = own_entry();
	place = place_in_set(&entry->set, shard_id);
	if (place < 0)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	entry->done |= UINT64CONST(1) << place;
	wake_waiters();
	LWLockRelease(shared->lock);
}

/* Commits --------------------------------------------------------------------- */

/*
 * The shards of these connections are prepared, and the router is about to
 * commit.
 */
void
sl_commit_lock_announce(const SlReply *replies, int count, bool writes_router)
{
	ShardSet	set = {.has_router = writes_router};
	Entry	   *entry;

	if (shared == NULL)
		return;
	for (int i = 0; i < count; i++)
		add_to_set(&set, replies[i].conn->shard_id);
	register_exit();
	sl_commit_lock_end();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	entry = take_entry(ENTRY_COMMIT, &set);
	entry->xid = U64FromFullTransactionId(GetTopFullTransactionId());
	LWLockRelease(shared->lock);
}

/* The router has committed: takes a ticket, unless a snapshot taker has given it one. */
void
sl_commit_lock_begin_commit(void)
{
	Entry	   *entry;

	if (shared == NULL || own_entry()->kind != ENTRY_COMMIT)
		return;
	entry = own_entry();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (entry->ticket == 0)
		entry->ticket = ++shared->last_ticket;
	LWLockRelease(shared->lock);
}

/* Is a session committing this transaction on its shards? */
bool
sl_commit_lock_is_at_work(uint64 xid)
{
	bool		result = false;

	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->used_count && !result; i++)
	{
		const Entry *entry = &shared->entries[shared->used[i]];

		result = entry->kind == ENTRY_COMMIT && entry->database == MyDatabaseId &&
			entry->xid == xid;
	}
	LWLockRelease(shared->lock);
	return result;
}

/* Snapshots ------------------------------------------------------------------- */

/* Does a snapshot of the router show a commit that is over, or seems to be? */
static bool
shows_commit(Snapshot snapshot, uint64 xid)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	/* Ids that are far apart cannot be compared without their epochs. */
	if (next - xid > (UINT64CONST(1) << 30))
		return true;
	return !XidInMVCCSnapshot((TransactionId) xid, snapshot);
}

/* Gives tickets to announced commits that a snapshot shows.  The lock is held. */
static void
order_commits(Snapshot snapshot, const ShardSet *set)
{
	for (int i = 0; i < shared->used_count; i++)
	{
		Entry	   *entry = &shared->entries[shared->used[i]];

		if (entry->kind == ENTRY_COMMIT && entry->database == MyDatabaseId &&
			entry->ticket == 0 && sets_conflict(&entry->set, set) && shows_commit(snapshot, entry->xid))
			entry->ticket = ++shared->last_ticket;
	}
}

/* Has a conflicting commit begun that the snapshot does not show?  The lock is held. */
static bool
has_missed_commit(Snapshot snapshot, const ShardSet *set)
{
	uint64		first = shared->finished_count > RING_SIZE ? shared->finished_count - RING_SIZE : 0;

	for (int i = 0; i < shared->used_count; i++)
	{
		const Entry *entry = &shared->entries[shared->used[i]];

		if (entry->kind == ENTRY_COMMIT && entry->database == MyDatabaseId &&
			entry->ticket != 0 && sets_conflict(&entry->set, set) && !shows_commit(snapshot, entry->xid))
			return true;
	}
	for (uint64 i = first; i < shared->finished_count; i++)
	{
		const Finished *finished = &shared->finished[i % RING_SIZE];

		if (finished->database == MyDatabaseId && sets_conflict(&finished->set, set) &&
			!shows_commit(snapshot, finished->xid))
			return true;
	}
	return shared->evicted_xid != 0 && !shows_commit(snapshot, shared->evicted_xid);
}

/* Puts shards into a set that is wanted. */
void
sl_commit_lock_list_shards(SlSnapshotSet *wanted, List *shards)
{
	ListCell   *cell;

	wanted->count = 0;
	wanted->shard_ids = palloc(sizeof(int32) * Max(list_length(shards), 1));
	foreach(cell, shards)
		wanted->shard_ids[wanted->count++] = ((SlShard *) lfirst(cell))->id;
}

/*
 * Takes a ticket for snapshots of these shards.  If they must agree with one of
 * the router, that is taken now ("take"), or it is one that exists ("router");
 * if there is a commit between that one and now, nothing is taken and the result
 * is false.  The caller must call sl_commit_lock_end() in the end, also when an
 * error is thrown.  *has_to_wait: it may not be its turn on some shard.
 */
bool
sl_commit_lock_begin_snapshot(const SlSnapshotSet *wanted, bool *has_to_wait)
{
	ShardSet	set = {.has_router = wanted->router != NULL || wanted->take != NULL};
	Snapshot	router = wanted->router;
	Entry	   *entry;

	*has_to_wait = false;
	if (shared == NULL)
	{
		if (wanted->take != NULL)
			(void) wanted->take(wanted->arg);
		return true;
	}
	for (int i = 0; i < wanted->count; i++)
		add_to_set(&set, wanted->shard_ids[i]);
	register_exit();
	sl_commit_lock_end();
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (wanted->take != NULL)
		router = wanted->take(wanted->arg);
	if (router != NULL)
		order_commits(router, &set);
	if (wanted->router != NULL && wanted->take == NULL && has_missed_commit(router, &set))
	{
		LWLockRelease(shared->lock);
		return false;
	}
	entry = take_entry(ENTRY_SNAPSHOT, &set);
	entry->ticket = ++shared->last_ticket;
	for (int i = 0; i < shared->used_count && !*has_to_wait; i++)
	{
		const Entry *other = &shared->entries[shared->used[i]];

		*has_to_wait = other->kind == ENTRY_COMMIT && other->ticket != 0 &&
			other->database == MyDatabaseId && sets_conflict(&other->set, &entry->set);
	}
	LWLockRelease(shared->lock);
	return true;
}

static Snapshot
take_latest(void *arg)
{
	return GetLatestSnapshot();
}

/* Waits until all commits that the router shows now are over on these shards. */
void
sl_commit_lock_wait_for_commits(List *shards)
{
	SlSnapshotSet wanted = {.take = take_latest};
	bool		has_to_wait;

	sl_commit_lock_list_shards(&wanted, shards);
	(void) sl_commit_lock_begin_snapshot(&wanted, &has_to_wait);
	PG_TRY();
	{
		for (int i = 0; i < wanted.count && has_to_wait; i++)
		{
			while (!sl_commit_lock_has_turn(wanted.shard_ids[i]))
				sl_wait_latch();
		}
	}
	PG_CATCH();
	{
		sl_commit_lock_end();
		PG_RE_THROW();
	}
	PG_END_TRY();
	sl_commit_lock_end();
	pfree(wanted.shard_ids);
}

void
sl_commit_lock_init(void)
{
	if (!sl_preloaded())
		return;
	next_request_hook = shmem_request_hook;
	shmem_request_hook = request_commit_lock;
	next_startup_hook = shmem_startup_hook;
	shmem_startup_hook = init_commit_lock;
}
