/*
 * table_access_method.c
 *		The table access method of shell tables: a heap that nothing may read or
 *		write while its rows are on shards.
 *
 * The callbacks are those of heap, and some of them are preceded by a check:
 * wherever a row is read or written, the file is replaced or truncated, and a
 * table is created.  shell_access.c decides.  For a table that was restored from a
 * dump with its rows the checks pass, and it is a heap.
 *
 * Commands that only build or rewrite what depends on the rows work without them,
 * since the router's indexes are as empty as its heap: CREATE INDEX, REINDEX,
 * CLUSTER and VACUUM FULL find nothing and leave the table's statistics alone.
 *
 * Callbacks that need a scan are not checked themselves, because scan_begin is.
 * The exception is a parallel sequential scan: a parallel CREATE INDEX begins one,
 * and passes it to index_build_range_scan.  It is allowed to begin, but not
 * to return a row.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xloginsert.h"
#include "catalog/pg_am.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "access/shell_access.h"
#include "base/base.h"

PG_FUNCTION_INFO_V1(shardlet_table_access_method_handler);

/* A bit of TableScanDesc.rs_flags that no ScanOptions has: no row is returned. */
#define SCAN_IS_BLOCKED ((uint32) 1 << 31)

static const TableAmRoutine *heap = NULL;
static TableAmRoutine shell_routine;

/* Has this session seen a table with the access method? */
bool
sl_shell_are_known(void)
{
	return heap != NULL;
}

bool
sl_shell_has_access_method(Relation relation)
{
	return heap != NULL && relation->rd_tableam == &shell_routine;
}

/* Reading --------------------------------------------------------------------- */

static TableScanDesc
begin_scan(Relation relation, Snapshot snapshot, int key_count, struct ScanKeyData *keys,
		   ParallelTableScanDesc parallel, uint32 flags)
{
	TableScanDesc scan;

	if ((flags & SO_TYPE_ANALYZE) != 0 && sl_shell_state(relation) == SL_SHELL_CONNECTED)
		return sl_shell_begin_analyze(relation, flags);
	if (parallel == NULL)
		sl_shell_check_access(relation);
	scan = heap->scan_begin(relation, snapshot, key_count, keys, parallel, flags);
	if (parallel != NULL && !sl_shell_is_heap(relation))
		scan->rs_flags |= SCAN_IS_BLOCKED;
	return scan;
}

static void
end_scan(TableScanDesc scan)
{
	if (sl_shell_is_analyze(scan))
		sl_shell_end_analyze(scan);
	else
		heap->scan_end(scan);
}

static bool
get_next_slot(TableScanDesc scan, ScanDirection direction, TupleTableSlot *slot)
{
	if (unlikely((scan->rs_flags & SCAN_IS_BLOCKED) != 0))
		sl_shell_check_access(scan->rs_rd);
	return heap->scan_getnextslot(scan, direction, slot);
}

static struct IndexFetchTableData *
begin_index_fetch(Relation relation)
{
	sl_shell_check_access(relation);
	return heap->index_fetch_begin(relation);
}

static bool
fetch_row_version(Relation relation, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	sl_shell_check_access(relation);
	return heap->tuple_fetch_row_version(relation, tid, snapshot, slot);
}

static TM_Result
lock_tuple(Relation relation, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot, CommandId cid,
		   LockTupleMode mode, LockWaitPolicy policy, uint8 flags, TM_FailureData *failure)
{
	sl_shell_check_access(relation);
	return heap->tuple_lock(relation, tid, snapshot, slot, cid, mode, policy, flags, failure);
}

/* Writing --------------------------------------------------------------------- */

static void
insert_tuple(Relation relation, TupleTableSlot *slot, CommandId cid, int options,
			 struct BulkInsertStateData *state)
{
	sl_shell_check_access(relation);
	heap->tuple_insert(relation, slot, cid, options, state);
}

static void
insert_speculative(Relation relation, TupleTableSlot *slot, CommandId cid, int options,
				   struct BulkInsertStateData *state, uint32 token)
{
	sl_shell_check_access(relation);
	heap->tuple_insert_speculative(relation, slot, cid, options, state, token);
}

static void
insert_tuples(Relation relation, TupleTableSlot **slots, int count, CommandId cid, int options,
			  struct BulkInsertStateData *state)
{
	sl_shell_check_access(relation);
	heap->multi_insert(relation, slots, count, cid, options, state);
}

static TM_Result
delete_tuple(Relation relation, ItemPointer tid, CommandId cid, Snapshot snapshot, Snapshot crosscheck,
			 bool wait, TM_FailureData *failure, bool is_moving)
{
	sl_shell_check_access(relation);
	return heap->tuple_delete(relation, tid, cid, snapshot, crosscheck, wait, failure, is_moving);
}

static TM_Result
update_tuple(Relation relation, ItemPointer tid, TupleTableSlot *slot, CommandId cid, Snapshot snapshot,
			 Snapshot crosscheck, bool wait, TM_FailureData *failure, LockTupleMode *mode,
			 SL_UPDATE_INDEXES * update_indexes)
{
	sl_shell_check_access(relation);
	return heap->tuple_update(relation, tid, slot, cid, snapshot, crosscheck, wait, failure, mode,
							  update_indexes);
}

/* Files ----------------------------------------------------------------------- */

/*
 * A table that was restored with rows must keep a block when it is emptied, or it
 * would be taken for one whose rows are on shards.  Adds one to a file that was just
 * made.  The block is written before it is logged: a checkpoint that begins after
 * the record syncs the file.
 */
static void
add_empty_block(const RelFileLocator * locator, char persistence)
{
	SMgrRelation file = sl_open_file(*locator);
	PGIOAlignedBlock block;

	PageInit((Page) block.data, BLCKSZ, 0);
	PageSetChecksumInplace((Page) block.data, 0);
	smgrextend(file, MAIN_FORKNUM, 0, block.data, false);

	/*
	 * With wal_level = minimal a new file is not logged, but synced at
	 * commit.
	 */
	if (persistence == RELPERSISTENCE_PERMANENT && XLogIsNeeded())
		log_newpage((RelFileLocator *) locator, MAIN_FORKNUM, 0, (Page) block.data, true);
	smgrclose(file);
}

pg_noreturn static void
refuse_creation(const char *name)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot use access method \"%s\" for table \"%s\"", SL_ACCESS_METHOD_NAME, name),
			errdetail("Only distributed tables have it."),
			errhint("Create a table with access method \"heap\", then SELECT shardlet.distribute()."));
}

/*
 * Has a table that was restored rows, or had it?  Of one that is being restored
 * this is not known yet.
 */
static bool
must_keep_block(Relation relation)
{
	return sl_shell_state(relation) == SL_SHELL_RESTORED && sl_shell_has_blocks(relation);
}

/*
 * Raises an error if a relation may not be created with the access method.
 * Returns whether its file needs a block.
 */
static bool
check_creation(Relation relation)
{
	Oid			relid = sl_shell_rewritten_table(relation);
	Relation	rewritten;
	bool		keeps_block = false;

	if (sl_shell_is_open(InvalidOid))
		return false;
	if (!OidIsValid(relid))
	{
		if (!sl_shell_is_restoring())
			refuse_creation(RelationGetRelationName(relation));
		return false;
	}

	/* The command that rewrites it holds the lock. */
	rewritten = RelationIdGetRelation(relid);
	if (!RelationIsValid(rewritten))
		refuse_creation(RelationGetRelationName(relation));
	if (sl_shell_has_access_method(rewritten))
		keeps_block = must_keep_block(rewritten);
	else if (!sl_shell_is_open(relid) && !sl_shell_is_restoring())
		refuse_creation(RelationGetRelationName(rewritten));
	RelationClose(rewritten);
	return keeps_block;
}

/* Makes the file of a new table, and with TRUNCATE a new one of an old table. */
static void
set_new_file(Relation relation, const RelFileLocator * locator, char persistence, TransactionId *frozen,
			 MultiXactId *multi)
{
	bool		keeps_block;

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(RelationGetRelid(relation))))
		keeps_block = check_creation(relation);
	else
	{
		sl_shell_check_access(relation);
		keeps_block = must_keep_block(relation);
	}
	heap->relation_set_new_filelocator(relation, locator, persistence, frozen, multi);
	if (keeps_block && persistence != RELPERSISTENCE_TEMP)
		add_empty_block(locator, persistence);
}

/*
 * TRUNCATE in the transaction that made the file.  No block is kept then: the
 * transaction that creates a table and empties it is that of a restore.
 */
static void
truncate_file(Relation relation)
{
	sl_shell_check_access(relation);
	heap->relation_nontransactional_truncate(relation);
}

/* Adds an empty block to a table without any, for the same reason. */
static void
mark_filled(Relation relation)
{
	Buffer		buffer;

	LockRelationForExtension(relation, ExclusiveLock);
	if (!sl_shell_has_blocks(relation))
	{
		buffer = ReadBufferExtended(relation, MAIN_FORKNUM, P_NEW, RBM_ZERO_AND_LOCK, NULL);
		START_CRIT_SECTION();
		PageInit(BufferGetPage(buffer), BLCKSZ, 0);
		MarkBufferDirty(buffer);
		if (RelationNeedsWAL(relation))
			log_newpage_buffer(buffer, true);
		END_CRIT_SECTION();
		UnlockReleaseBuffer(buffer);
	}
	UnlockRelationForExtension(relation, ExclusiveLock);
}

/*
 * The end of COPY.  A table of which the dump has rows, even if there are none, is
 * a restored one.
 */
static void
finish_bulk_insert(Relation relation, int options)
{
	if (sl_shell_is_restoring() && !OidIsValid(sl_shell_rewritten_table(relation)) &&
		sl_shell_state(relation) == SL_SHELL_RESTORED)
		mark_filled(relation);
}

/* CLUSTER and VACUUM FULL find no rows, and keep the number that is known. */
static void
copy_for_cluster(Relation old_table, Relation new_table, Relation old_index, bool use_sort,
				 TransactionId oldest, TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
				 double *count, double *removed, double *recently_dead)
{
	if (sl_shell_is_heap(old_table))
	{
		heap->relation_copy_for_cluster(old_table, new_table, old_index, use_sort, oldest, xid_cutoff,
										multi_cutoff, count, removed, recently_dead);
		return;
	}
	*count = old_table->rd_rel->reltuples;
	*removed = 0;
	*recently_dead = 0;
}

/* Indexes --------------------------------------------------------------------- */

/*
 * Heap's callbacks for indexes insist on heap's access method.  The relation's
 * cache entry has it while they run: the table is a heap now, and checks would pass.
 */
static double
build_heap_index(Relation table, Relation index, struct IndexInfo *info, bool allow_sync, bool any_visible,
				 bool progress, BlockNumber start, BlockNumber count, IndexBuildCallback callback, void *state,
				 TableScanDesc scan)
{
	volatile double result = 0;

	table->rd_tableam = heap;
	PG_TRY();
	{
		result = heap->index_build_range_scan(table, index, info, allow_sync, any_visible, progress, start,
											  count, callback, state, scan);
	}
	PG_FINALLY();
	{
		table->rd_tableam = &shell_routine;
	}
	PG_END_TRY();
	return result;
}

/*
 * An index is built of no rows.  The result is not a number of rows, so that
 * index_update_stats() leaves reltuples and relpages of the table as they are.
 */
static double
build_index(Relation table, Relation index, struct IndexInfo *info, bool allow_sync, bool any_visible,
			bool progress, BlockNumber start, BlockNumber count, IndexBuildCallback callback, void *state,
			TableScanDesc scan)
{
	if (sl_shell_is_heap(table))
		return build_heap_index(table, index, info, allow_sync, any_visible, progress, start, count, callback,
								state, scan);
	if (scan != NULL)
		table_endscan(scan);
	return -1;
}

static void
validate_index(Relation table, Relation index, struct IndexInfo *info, Snapshot snapshot,
			   struct ValidateIndexState *state)
{
	if (!sl_shell_is_heap(table))
		return;
	table->rd_tableam = heap;
	PG_TRY();
	{
		heap->index_validate_scan(table, index, info, snapshot, state);
	}
	PG_FINALLY();
	{
		table->rd_tableam = &shell_routine;
	}
	PG_END_TRY();
}

/* Statistics ------------------------------------------------------------------ */

static bool
analyze_next_block(SL_ANALYZE_BLOCK_PARAMS)
{
	return sl_shell_is_analyze(scan) ? sl_analyze_has_block() :
		heap->scan_analyze_next_block(SL_ANALYZE_BLOCK_ARGS);
}

static bool
analyze_next_tuple(TableScanDesc scan, TransactionId oldest, double *live_rows, double *dead_rows,
				   TupleTableSlot *slot)
{
	return sl_shell_is_analyze(scan) ? sl_shell_next_sample(scan, live_rows, slot) :
		heap->scan_analyze_next_tuple(scan, oldest, live_rows, dead_rows, slot);
}

static void
vacuum_relation(Relation relation, struct VacuumParams *params, BufferAccessStrategy strategy)
{
	sl_shell_vacuum(relation, params, strategy);
}

/* The TOAST table of a restored table is an ordinary one. */
static Oid
choose_toast_access_method(Relation relation)
{
	return HEAP_TABLE_AM_OID;
}

static void
init_routine(void)
{
	const TableAmRoutine *base = GetHeapamTableAmRoutine();

	shell_routine = *base;
	shell_routine.scan_begin = begin_scan;
	shell_routine.scan_end = end_scan;
	shell_routine.scan_getnextslot = get_next_slot;
	shell_routine.index_fetch_begin = begin_index_fetch;
	shell_routine.tuple_fetch_row_version = fetch_row_version;
	shell_routine.tuple_lock = lock_tuple;
	shell_routine.tuple_insert = insert_tuple;
	shell_routine.tuple_insert_speculative = insert_speculative;
	shell_routine.multi_insert = insert_tuples;
	shell_routine.finish_bulk_insert = finish_bulk_insert;
	shell_routine.tuple_delete = delete_tuple;
	shell_routine.tuple_update = update_tuple;
	shell_routine.relation_set_new_filelocator = set_new_file;
	shell_routine.relation_nontransactional_truncate = truncate_file;
	shell_routine.relation_copy_for_cluster = copy_for_cluster;
	shell_routine.index_build_range_scan = build_index;
	shell_routine.index_validate_scan = validate_index;
	shell_routine.scan_analyze_next_block = analyze_next_block;
	shell_routine.scan_analyze_next_tuple = analyze_next_tuple;
	shell_routine.relation_vacuum = vacuum_relation;
	shell_routine.relation_size = sl_shell_size;
	shell_routine.relation_estimate_size = sl_shell_estimate_size;
	shell_routine.relation_toast_am = choose_toast_access_method;
	heap = base;
}

/* PostgreSQL calls it when a table with the access method is opened first. */
Datum
shardlet_table_access_method_handler(PG_FUNCTION_ARGS)
{
	if (heap == NULL)
		init_routine();
	PG_RETURN_POINTER(&shell_routine);
}
