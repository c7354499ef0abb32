/*
 * locking_limit.c
 *		Locking reads with LIMIT over several shards.
 *
 * PostgreSQL locks the rows that it returns (and those that OFFSET passes over),
 * and no others.  With shards the router chooses the rows, so a shard cannot know
 * which of its rows are wanted.  There are three ways:
 *
 * SKIP LOCKED with ORDER BY: each shard locks as many rows as the whole may have,
 * all shards at a time, and the rows are merged.  Shards without a row among the
 * first ones take their locks back (transaction/tentative_locks.c); one that has some such rows,
 * and others, takes all of them back and locks the former again, by their place.
 * Another session may have locked one of them in between, and rows may have been
 * passed over that another session has locked tentatively.  So if rows are missing,
 * all is done again while no other session has tentative locks on the table.
 *
 * ORDER BY without SKIP LOCKED: no row may be waited for that is not returned.  The
 * rows are read without locks and locked by their place, first on all shards at a
 * time without waiting, and if that fails one after the other in their order, as
 * PostgreSQL does.  A row that was changed meanwhile is not found at its place: then
 * the rows are read again.  The same holds for SKIP LOCKED if the transaction has
 * one snapshot, since locking a row that was changed would fail.
 *
 * Without ORDER BY: one shard after another is queried for what is still missing.
 *
 * All rows are locked, and kept in memory, when the first one is wanted.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "deparse/ownership_filter.h"
#include "executor/locking_limit.h"

/* With one snapshot, how many rows are read ahead of those that are wanted. */
#define ROWS_AHEAD 32

static dlist_head locks = DLIST_STATIC_INIT(locks);

/* Tentative locks -------------------------------------------------------------------------- */

/* The connection that a shard's locks are on. */
static SlConn *
find_conn(const SlLockingLimit *lock, const SlShard *shard)
{
	SlFailure  *failure;
	SlConn	   *conn = sl_pool_get_as((SlShard *) shard, lock->spec.caller.user, &failure);

	if (conn == NULL)
		sl_failure_raise(failure, NameStr(shard->name), lock->spec.sql);
	return conn;
}

/*
 * Takes back the locks of all shards, or of those that have no chosen row.  Returns
 * their connections, for sl_tentative_lock_settle().
 */
static List *
undo_tentative(const SlLockingLimit *lock, bool all)
{
	List	   *conns = NIL;

	for (int i = 0; i < lock->part_count; i++)
	{
		SlLockPart *part = &lock->parts[i];

		if (!part->is_tentative || (!all && part->chosen > 0))
			continue;
		conns = lappend(conns, find_conn(lock, part->shard));
		part->is_tentative = false;
	}
	sl_tentative_lock_undo(conns);
	return conns;
}

static void
keep_tentative(const SlLockingLimit *lock)
{
	for (int i = 0; i < lock->part_count; i++)
	{
		if (lock->parts[i].is_tentative)
			sl_tentative_lock_keep(find_conn(lock, lock->parts[i].shard));
		lock->parts[i].is_tentative = false;
	}
}

/* Each shard locks its first rows; the first ones of all are chosen. */
static void
lock_tentatively(SlLockingLimit *lock)
{
	SlParams	params = sl_locking_limit_params(&lock->spec.params);
	const char *sql = sl_locking_limit_statement(lock, &params, lock->total);
	SlMultiShardScan *multi = sl_locking_limit_send(lock, lock->spec.shards, sql, &params, NULL, lock->total,
													lock->total > 1 ? SL_LOCK_TENTATIVE_SOME : SL_LOCK_TENTATIVE);

	while (sl_locking_limit_next_row(lock, multi))
	{
		SlLockPart *part = sl_locking_limit_part(lock, sl_locking_limit_shard(lock));

		part->found++;
		if (lock->row_count == lock->total)
			continue;
		part->chosen++;
		sl_locking_limit_add_row(lock, true);
	}
}

/* Shards that have locked more than is chosen lock the chosen rows again. */
static bool
lock_chosen(SlLockingLimit *lock)
{
	SlLockRow  *rows = palloc_extended(sizeof(SlLockRow) * Max(lock->row_count, 1), MCXT_ALLOC_HUGE);
	int64		count = 0;
	bool		result;

	for (int64 i = 0; i < lock->row_count; i++)
	{
		const SlLockPart *part = sl_locking_limit_part(lock, lock->rows[i].shard);

		if (part->found > part->chosen)
			rows[count++] = lock->rows[i];
	}
	if (count == 0)
		return true;
	for (int64 i = 0; i < count; i++)
		rows[i].is_locked = false;
	result = sl_locking_limit_places(lock, rows, count, SL_POLICY_SKIP, SL_LOCK_TENTATIVE_SOME);
	for (int64 i = 0, next = 0; i < lock->row_count; i++)
	{
		const SlLockPart *part = sl_locking_limit_part(lock, lock->rows[i].shard);

		if (part->found > part->chosen)
			lock->rows[i] = rows[next++];
	}
	return result;
}

static void
discard_attempt(SlLockingLimit *lock)
{
	sl_locking_limit_forget(lock);
	for (int i = 0; i < lock->part_count; i++)
		lock->parts[i].found = lock->parts[i].chosen = 0;
}

/* Do the shards have more rows than were locked, maybe locked by others? */
static bool
has_other_rows(SlLockingLimit *lock)
{
	SlMultiShardScan *multi = sl_locking_limit_read(lock, lock->spec.shards, lock->row_count + 1);
	int64		count = 0;

	while (sl_locking_limit_next_row(lock, multi))
		count++;
	return count > lock->row_count;
}

/*
 * Locks rows of all shards, and takes back what is too much.  Returns false if that
 * leaves fewer rows than there may be; then no lock is left.
 */
static bool
try_all_shards(SlLockingLimit *lock, bool is_exclusive)
{
	List	   *losers;
	bool		is_complete;

	discard_attempt(lock);
	lock_tentatively(lock);
	losers = undo_tentative(lock, false);
	is_complete = lock_chosen(lock);
	sl_tentative_lock_settle(losers);
	if (is_complete && (is_exclusive || lock->row_count == lock->total || !has_other_rows(lock)))
	{
		keep_tentative(lock);
		return true;
	}
	sl_tentative_lock_settle(undo_tentative(lock, true));
	return false;
}

/* Shard after shard --------------------------------------------------------------- */

/* Queries one shard after another for what is missing.  Sessions begin with different ones. */
static void
send_in_turn(SlLockingLimit *lock, SlTxnLock kind)
{
	static uint32 turn = 0;
	int			first = (int) (((uint32) MyProcPid + turn++) % (uint32) lock->part_count);

	for (int i = 0; i < lock->part_count && lock->row_count < lock->total; i++)
	{
		SlLockPart *part = &lock->parts[(first + i) % lock->part_count];
		SlParams	params = sl_locking_limit_params(&lock->spec.params);
		const char *sql = sl_locking_limit_statement(lock, &params, lock->total - lock->row_count);
		SlMultiShardScan *multi = sl_locking_limit_send(lock, list_make1(part->shard), sql, &params, NULL,
														lock->total, kind);

		while (sl_locking_limit_next_row(lock, multi))
		{
			part->chosen++;
			sl_locking_limit_add_row(lock, true);
		}
	}
}

/* The same as try_all_shards() without an order. */
static bool
try_in_turn(SlLockingLimit *lock, bool is_exclusive)
{
	discard_attempt(lock);
	send_in_turn(lock, SL_LOCK_TENTATIVE);
	if (is_exclusive || lock->row_count == lock->total || !has_other_rows(lock))
	{
		sl_tentative_lock_settle(undo_tentative(lock, false));
		keep_tentative(lock);
		return true;
	}
	sl_tentative_lock_settle(undo_tentative(lock, true));
	return false;
}

/* Tries, and if rows may be missing tries again while no other session has tentative locks. */
static void
lock_unlocked(SlLockingLimit *lock, bool (*attempt) (SlLockingLimit *, bool))
{
	bool		is_done;

	sl_tentative_lock_share(lock->table);
	is_done = attempt(lock, false);
	sl_tentative_lock_release(lock->table, false);
	if (is_done)
		return;
	sl_tentative_lock_exclude(lock->table);
	while (!attempt(lock, true))
		CHECK_FOR_INTERRUPTS();
	sl_tentative_lock_release(lock->table, true);
}

/* In order --------------------------------------------------------------------------- */

/* Reads the first rows of all shards. */
static void
read_candidates(SlLockingLimit *lock, int64 limit)
{
	SlMultiShardScan *multi;

	sl_locking_limit_forget(lock);
	multi = sl_locking_limit_read(lock, lock->spec.shards, limit);
	while (lock->row_count < limit && sl_locking_limit_next_row(lock, multi))
		sl_locking_limit_add_row(lock, false);
	sl_multi_shard_end(multi);
}

/* How many rows from here on are of one shard? */
static int64
length_of_run(const SlLockingLimit *lock, int64 first)
{
	int64		end = first + 1;

	while (end < lock->row_count && lock->rows[end].shard == lock->rows[first].shard)
		end++;
	return end - first;
}

/* Locks all candidates at a time if none of them has to be waited for. */
static bool
lock_at_once(SlLockingLimit *lock)
{
	bool		result;

	sl_tentative_lock_share(lock->table);
	for (int i = 0; i < lock->part_count; i++)
		lock->parts[i].chosen = 0;
	for (int64 i = 0; i < lock->row_count; i++)
		sl_locking_limit_part(lock, lock->rows[i].shard)->chosen++;
	result = sl_locking_limit_places(lock, lock->rows, lock->row_count, SL_POLICY_SKIP, SL_LOCK_TENTATIVE);
	if (result)
		keep_tentative(lock);
	else
		sl_tentative_lock_settle(undo_tentative(lock, true));
	sl_tentative_lock_release(lock->table, false);
	return result;
}

/* Locks the candidates in their order.  Returns false if one has changed. */
static bool
lock_in_order(SlLockingLimit *lock)
{
	for (int64 i = 0, length; i < lock->row_count; i += length)
	{
		length = length_of_run(lock, i);
		if (!sl_locking_limit_places(lock, &lock->rows[i], length, lock->policy, SL_LOCK_FIRM))
			return false;
	}
	return true;
}

/* FOR UPDATE, without or with NOWAIT. */
static void
lock_candidates(SlLockingLimit *lock)
{
	bool		is_exclusive = false;

	for (;;)
	{
		read_candidates(lock, lock->total);
		if (lock->row_count == 0)
			break;
		if ((lock->policy == SL_POLICY_NOWAIT || length_of_run(lock, 0) < lock->row_count) &&
			lock_at_once(lock))
			break;

		/* A tentative lock of another session must not make NOWAIT fail. */
		if (lock->policy == SL_POLICY_NOWAIT && !is_exclusive)
		{
			sl_tentative_lock_exclude(lock->table);
			is_exclusive = true;
		}
		if (lock_in_order(lock))
			break;
	}
	if (is_exclusive)
		sl_tentative_lock_release(lock->table, true);
}

/* Tries the first rows, and then as many more as are missing. */
static void
lock_first(SlLockingLimit *lock)
{
	int64		tried = 0;
	int64		locked = 0;

	while (locked < lock->total && tried < lock->row_count)
	{
		int64		count = Min(lock->total - locked, lock->row_count - tried);

		(void) sl_locking_limit_places(lock, &lock->rows[tried], count, SL_POLICY_SKIP, SL_LOCK_FIRM);
		for (int64 end = tried + count; tried < end; tried++)
		{
			if (lock->rows[tried].is_locked)
				lock->rows[locked++] = lock->rows[tried];
		}
	}
	lock->row_count = locked;
}

/*
 * SKIP LOCKED by one snapshot.  More rows are read each time, in which those are
 * that were locked before.
 */
static void
lock_by_snapshot(SlLockingLimit *lock)
{
	int64		limit = lock->total;
	bool		is_all;

	sl_tentative_lock_exclude(lock->table);
	do
	{
		limit = limit < PG_INT64_MAX / 4 ? limit * 2 + ROWS_AHEAD : limit;
		read_candidates(lock, limit);
		is_all = lock->row_count < limit;
		lock_first(lock);
	} while (!is_all && lock->row_count < lock->total);
	sl_tentative_lock_release(lock->table, true);
}

/* All of it ---------------------------------------------------------------------------- */

static SlLockPolicy
policy_of(const char *clause)
{
	return strstr(clause, SKIP_CLAUSE) != NULL ? SL_POLICY_SKIP :
		strstr(clause, NOWAIT_CLAUSE) != NULL ? SL_POLICY_NOWAIT : SL_POLICY_WAIT;
}

static void
lock_rows(SlLockingLimit *lock)
{
	bool		is_ordered = lock->scan->sort_count > 0;

	if (lock->policy == SL_POLICY_SKIP && is_ordered && IsolationUsesXactSnapshot())
		lock_by_snapshot(lock);
	else if (lock->policy == SL_POLICY_SKIP)
		lock_unlocked(lock, is_ordered ? try_all_shards : try_in_turn);
	else if (is_ordered)
		lock_candidates(lock);
	else
		send_in_turn(lock, SL_LOCK_FIRM);
}

static void
leave_list(void *arg)
{
	dlist_delete(&((SlLockingLimit *) arg)->node);
}

/* Notes in which (sub)transaction the rows are locked. */
static void
join_list(SlLockingLimit *lock)
{
	lock->transaction = GetCurrentSubTransactionId();
	dlist_push_tail(&locks, &lock->node);
	lock->callback.func = leave_list;
	lock->callback.arg = lock;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &lock->callback);
}

/* A subtransaction ends: its parent has the locks, or they are gone. */
void
sl_locking_limit_end_savepoint(SubTransactionId id, SubTransactionId parent, bool is_rolled_back)
{
	dlist_iter	iter;

	dlist_foreach(iter, &locks)
	{
		SlLockingLimit *lock = dlist_container(SlLockingLimit, node, iter.cur);

		if (lock->transaction != id)
			continue;
		lock->was_aborted = lock->was_aborted || is_rolled_back;
		lock->transaction = parent;
	}
}

static void
make_parts(SlLockingLimit *lock)
{
	ListCell   *cell;

	lock->parts = palloc0(sizeof(SlLockPart) * list_length(lock->spec.shards));
	foreach(cell, lock->spec.shards)
		lock->parts[lock->part_count++].shard = lfirst(cell);
}

/*
 * Locks the rows.  "spec" says what all statements have in common, and LIMIT and
 * OFFSET; "sql" is the statement without these, for the map of this moment.
 * Everything is in the current memory context.
 */
SlLockingLimit *
sl_locking_limit_begin(SlRemoteScan *scan, const SlMultiShardSpec *spec, const char *sql)
{
	SlLockingLimit *lock = palloc0(sizeof(SlLockingLimit));
	SlLockPolicy policy = policy_of(scan->lock);
	MemoryContext old_context;

	lock->scan = scan;
	lock->spec = *spec;
	lock->sql = sql;
	lock->policy = policy;
	lock->strength = pnstrdup(scan->lock, strlen(scan->lock) - strlen(sl_locking_limit_clause(policy)));
	lock->table = (Oid) intVal(linitial(linitial(scan->programs)));
	lock->total = spec->limit > 0 ? spec->limit + spec->offset : 0;
	lock->next = spec->offset;
	lock->spec.has_limit = lock->spec.may_retry_on_owner = false;
	lock->spec.offset = 0;
	lock->spec.wanted = sl_locking_limit_descriptor(scan->wanted);
	lock->spec.shard_column = scan->wanted->natts + PLACE_COLUMNS - 1;
	lock->spec.use.statement = 0;
	lock->slot = MakeSingleTupleTableSlot(lock->spec.wanted, &TTSOpsVirtual);
	make_parts(lock);
	join_list(lock);
	lock->context = AllocSetContextCreate(CurrentMemoryContext, "shardlet locked rows",
										  ALLOCSET_DEFAULT_SIZES);
	lock->work = AllocSetContextCreate(CurrentMemoryContext, "shardlet locking",
									   ALLOCSET_DEFAULT_SIZES);
	old_context = MemoryContextSwitchTo(lock->work);
	if (lock->total > 0)
		lock_rows(lock);
	MemoryContextSwitchTo(old_context);
	return lock;
}

/* Puts the next row into the slot.  False: there are no more. */
bool
sl_locking_limit_next(SlLockingLimit *lock, TupleTableSlot *slot)
{
	int			count = slot->tts_tupleDescriptor->natts;

	if (lock->next >= lock->row_count)
		return false;
	if (lock->was_aborted)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_CURSOR_STATE),
				errmsg("rows of the shards are gone"),
				errdetail("The savepoint in which they were locked was rolled back."));
	ExecForceStoreMinimalTuple(lock->rows[lock->next++].tuple, lock->slot, false);
	slot_getallattrs(lock->slot);
	ExecClearTuple(slot);
	for (int i = 0; i < count; i++)
	{
		slot->tts_values[i] = lock->slot->tts_values[i];
		slot->tts_isnull[i] = lock->slot->tts_isnull[i];
	}
	ExecStoreVirtualTuple(slot);
	return true;
}

/* What EXPLAIN says of it. */
const char *
sl_locking_limit_describe(const SlRemoteScan *scan)
{
	if (scan->sort_count == 0)
		return "rows returned, one shard after another";
	if (policy_of(scan->lock) == SL_POLICY_SKIP && !IsolationUsesXactSnapshot())
		return "rows returned, others are released after the merge";
	return "rows returned, after the merge";
}
