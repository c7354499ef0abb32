/*
 * remote_scan_transaction.c
 *		How a remote scan uses the session's transaction on its shards.
 *
 * All that a statement reads is of one snapshot, and what it writes, or functions
 * that it calls, is not in that.  On one server PostgreSQL sees to it; with shards
 * each query says to which statement it belongs, whether it must agree with others, and
 * what it needs around it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "mb/pg_wchar.h"
#include "parser/parsetree.h"

#include "base/base.h"
#include "executor/remote_scan.h"
#include "metadata/table.h"

/* Does the statement query the shards more than once, or write, so that its reads must agree? */
bool
sl_remote_scan_queries_often(const SlRemoteScan *scan)
{
	return scan->statement->scan_count > 1 || scan->may_repeat || scan->statement->writes;
}

static bool
is_whole_plan(const SlRemoteScan *scan)
{
	return scan->node->state->es_plannedstmt->planTree == scan->node->plan;
}

/*
 * Is there nothing after the statement that could fail?  It is all of a plan, its
 * rows go to the client as they are, and need no conversion on the way.
 */
static bool
is_last(const SlRemoteScan *scan)
{
	const PlanState *node = scan->node;

	return is_whole_plan(scan) && node->state->es_epq_active == NULL &&
		node->ps_ProjInfo == NULL && node->qual == NULL &&
		scan->statement->scan_count == 1 && !scan->may_repeat &&
		pg_get_client_encoding() == GetDatabaseEncoding();
}

/*
 * Returns how much of the session's transaction the scan is.  A write that does
 * not end it is one of its statements, even if it is the only one.
 */
static SlTxnScope
choose_scope(const SlRemoteScan *scan, const SlMultiShardSpec *spec)
{
	const EState *estate = scan->node->state;

	if ((scan->flags & (SL_REMOTE_SCAN_LOCKS | SL_REMOTE_SCAN_WRITES)) == 0)
		return sl_remote_scan_queries_often(scan) || scan->statement->has_snapshots ?
			SL_SCOPE_SESSION : sl_txn_scope_of(estate);
	if ((scan->flags & SL_REMOTE_SCAN_WRITES) != 0 && list_length(spec->shards) == 1 &&
		is_last(scan) && sl_txn_scope_of_write(sl_txn_scope_of(estate)) == SL_SCOPE_COMMIT)
		return SL_SCOPE_COMMIT;
	return SL_SCOPE_SESSION;
}

/*
 * A read that stops early, or may fail while the transaction goes on, needs a
 * savepoint of its own.  If it is all of what the client sent, it runs to its end,
 * and if it fails, so does the transaction, or the savepoint that the shard
 * follows anyway.
 */
static bool
needs_savepoint(const SlRemoteScan *scan, const SlMultiShardSpec *spec)
{
	return (scan->flags & (SL_REMOTE_SCAN_LOCKS | SL_REMOTE_SCAN_WRITES)) == 0 &&
		(list_length(spec->shards) > 1 || spec->skip_failures || sl_remote_scan_queries_often(scan) ||
		 !is_whole_plan(scan) || !sl_txn_is_direct(scan->node->state));
}

/*
 * Must what is read now agree with what was, or could have been, read before?
 * After a write, by the statement itself or by others since it began, that takes
 * more than the snapshot of a transaction.
 */
static bool
must_agree(const SlRemoteScan *scan)
{
	if (scan->statement->reader.is_kept || scan->statement->has_snapshots)
		return true;
	return sl_remote_scan_queries_often(scan) && (scan->statement->writes || !IsolationUsesXactSnapshot());
}

/*
 * Will something read by the snapshot from before the write?  Functions that only
 * the values to be written come from were called before.
 */
static bool
is_read_behind(const SlRemoteScan *scan)
{
	return scan->statement->scan_count > 1 ||
		(scan->statement->calls && (!is_whole_plan(scan) || scan->node->ps_ProjInfo != NULL));
}

/*
 * Is what was written since the statement began hidden from the rows that are to
 * be changed or locked?  Rows that are locked one by one were found like that.
 */
static bool
is_by_snapshot(const SlRemoteScan *scan)
{
	int			flags = scan->flags & (SL_REMOTE_SCAN_LOCKS | SL_REMOTE_SCAN_WRITES | SL_REMOTE_SCAN_TARGET);

	/* FOR UPDATE with a WITH that writes */
	if (flags == SL_REMOTE_SCAN_LOCKS && scan->statement->writes &&
		scan->node->state->es_plannedstmt->hasModifyingCTE)
		return true;
	return flags != 0 && sl_statement_writes_by_snapshot(scan->statement);
}

static bool
reads_table(const SlRemoteScan *scan, Oid relid)
{
	ListCell   *cell;

	foreach(cell, scan->programs)
	{
		if ((Oid) intVal(linitial(lfirst(cell))) == relid)
			return true;
	}
	return false;
}

/* Does it read a table that another part of the statement, or a function, writes? */
static bool
overlaps_writes(const SlRemoteScan *scan)
{
	const PlannedStmt *plan = scan->node->state->es_plannedstmt;
	int			count = 0;
	ListCell   *cell;

	foreach(cell, plan->resultRelations)
	{
		if (reads_table(scan, rt_fetch(lfirst_int(cell), plan->rtable)->relid))
			count++;
	}
	return count > 1 || scan->statement->calls;
}

/* Says how the scan uses its shards. */
void
sl_remote_scan_set_use(const SlRemoteScan *scan, const SlMultiShardSpec *spec, SlTxnUse *use)
{
	use->reader = &scan->statement->reader;
	use->writes = (scan->flags & (SL_REMOTE_SCAN_LOCKS | SL_REMOTE_SCAN_WRITES)) != 0;
	use->scope = choose_scope(scan, spec);
	use->needs_savepoint = needs_savepoint(scan, spec);
	use->by_snapshot = is_by_snapshot(scan);
	use->overlaps = use->by_snapshot && overlaps_writes(scan);
	if ((!use->writes && must_agree(scan)) || use->by_snapshot ||
		((scan->flags & SL_REMOTE_SCAN_WRITES) != 0 && is_read_behind(scan)))
		use->statement = scan->statement->reader.statement;
	use->is_of_writer = scan->statement->writes || scan->statement->reader.is_kept;
}

/*
 * Something was written since the statement began.  Rows that are to be changed
 * are looked for as they were then, and locked one by one: a lock would bring some
 * of them up to date that the statement's snapshot does not show.
 */
void
sl_remote_scan_choose_locks(SlRemoteScan *scan, const SlMultiShardSpec *spec)
{
	if ((scan->flags & SL_REMOTE_SCAN_TARGET) == 0 || (scan->flags & SL_REMOTE_SCAN_LOCKS) == 0)
		return;
	if (scan->statement->reader.is_kept && !scan->statement->has_locked)
	{
		scan->flags &= ~SL_REMOTE_SCAN_LOCKS;
		scan->statement->is_unlocked = true;
	}
	else
	{
		scan->statement->has_locked = true;

		/* Another scan may have a snapshot; not all shards may run at a time. */
		if (scan->statement->scan_count > 1 || list_length(spec->shards) > sl_max_parallel_shards)
			scan->statement->locks_later = true;
	}
}

/*
 * A locked row must not get a copy on another shard that can be locked, too.  Rows
 * that are written are guarded by the shards themselves.  The version must be read
 * before the shards are chosen by it.
 */
void
sl_remote_scan_hold_map(const SlRemoteScan *scan, SlTxnUse *use)
{
	ListCell   *cell;

	if ((scan->flags & (SL_REMOTE_SCAN_LOCKS | SL_REMOTE_SCAN_WRITES)) == 0 ||
		scan->node->state->es_plannedstmt->commandType != CMD_SELECT)
		return;
	foreach(cell, scan->programs)
	{
		SlTable    *table = sl_table_get((Oid) intVal(linitial(lfirst(cell))));

		if (table->kind != SL_TABLE_SHARDED)
			continue;
		use->held_map = table->map;
		use->held_version = sl_map_get(table->map)->version;
		return;
	}
}
