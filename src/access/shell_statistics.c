/*
 * shell_statistics.c
 *		ANALYZE, VACUUM and size estimates of shell tables.
 *
 * The statistics of a shell table are those of its rows on shards, while its heap
 * is empty.  So what PostgreSQL finds in the heap must never reach pg_class.
 *
 * ANALYZE reads a table by blocks: relation_size tells their number, a sample of
 * them is chosen, and each of these returns rows.  Here the blocks are made up.  The
 * first of them returns a random sample of the rows on all shards (analyze.c), the
 * others nothing, and each adds its share of the number of rows, from which
 * PostgreSQL extrapolates that of the table.  relation_size says so only while
 * ANALYZE runs: everything else has to see an empty heap.  The utility hook notes
 * that it runs.
 *
 * Autovacuum does not read from shards: a shard that does not answer would hold up
 * a worker.  It has a reason to analyze only if the table was changed as a plain one
 * before it was distributed.  Then the sample is empty, which leaves pg_statistic
 * alone, and pages and rows are those that are known.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_statistic_ext.h"
#include "commands/defrem.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "pgstat.h"
#include "tcop/utility.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "access/access.h"
#include "access/shell_access.h"
#include "compat.h"
#include "metadata/table.h"

/* Rows in a sample for each of the steps of a histogram, as std_typanalyze(). */
#define ROWS_PER_TARGET 300

/* TableScanDesc.rs_nkeys of the scan below, and of no other. */
#define IS_ANALYZE_SCAN (-1)

/* Tuples have to differ in their position, and be in order. */
#define ROWS_PER_BLOCK 100

/* A scan of a connected table for ANALYZE. */
typedef struct AnalyzeScan
{
	TableScanDescData base;
	SlSample   *sample;			/* NULL: no row is left */
	double		total;			/* rows of the table, once the sample has
								 * ended */
	BlockNumber pages;			/* what relation_size has said */
	uint32		row_count;		/* rows that were returned */
} AnalyzeScan;

/* The size of a table on all shards. */
typedef struct RemoteSize
{
	Oid			relid;
	double		rows;
	double		pages;
} RemoteSize;

static bool is_analyzing = false;	/* an ANALYZE command is running */
static bool is_vacuuming = false;	/* heap vacuums a shell table */

/* That of the last table; while ANALYZE runs. */
static RemoteSize remote_size = {0};

static ProcessUtility_hook_type next_utility = NULL;

/* ANALYZE --------------------------------------------------------------------- */

static bool
is_autovacuum(void)
{
	return MyBackendType == B_AUTOVAC_WORKER;
}

static const RemoteSize *
get_remote_size(Relation relation)
{
	if (remote_size.relid == RelationGetRelid(relation))
		return &remote_size;
	remote_size.relid = InvalidOid;
	sl_sample_count(relation, sl_shell_get_table(RelationGetRelid(relation)), &remote_size.rows,
					&remote_size.pages);
	remote_size.relid = RelationGetRelid(relation);
	return &remote_size;
}

/*
 * Returns the number of pages that ANALYZE is told.  It wants to know it twice: what
 * it puts into pg_class, and then, after it has begun to report its progress, of how
 * many it takes a sample.  The latter must not be 0, or there would be no sample,
 * and up to version 16 not exceed a file, as the blocks are prefetched.
 */
static BlockNumber
count_analyze_pages(Relation relation)
{
	double		pages = is_autovacuum() ? relation->rd_rel->relpages : get_remote_size(relation)->pages;
	bool		is_sampling = !pgstat_track_activities || MyBEEntry == NULL ||
	MyBEEntry->st_progress_command == PROGRESS_COMMAND_ANALYZE;

	if (is_sampling)
		pages = Max(1, Min(pages, RELSEG_SIZE));
	return (BlockNumber) Min(pages, (double) MaxBlockNumber);
}

/* Returns a statistics target of the catalogs: 0 if there is none. */
static int
get_target(int cache_id, HeapTuple tuple, AttrNumber column)
{
	bool		is_null;
	Datum		value = SysCacheGetAttr(cache_id, tuple, column, &is_null);

	return is_null ? 0 : DatumGetInt16(value);
}

/*
 * Returns the number of rows that statistics of the table need, as ANALYZE will
 * compute it: it is not an argument of the callbacks.
 */
static int
choose_sample_size(Relation relation)
{
	int			target = default_statistics_target;
	HeapTuple	tuple;
	ListCell   *cell;

	for (int i = 1; i <= RelationGetNumberOfAttributes(relation); i++)
	{
		tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(relation)), Int16GetDatum(i));
		if (!HeapTupleIsValid(tuple))
			continue;
		target = Max(target, get_target(ATTNUM, tuple, Anum_pg_attribute_attstattarget));
		ReleaseSysCache(tuple);
	}
	foreach(cell, RelationGetStatExtList(relation))
	{
		tuple = SearchSysCache1(STATEXTOID, ObjectIdGetDatum(lfirst_oid(cell)));
		if (!HeapTupleIsValid(tuple))
			continue;
		target = Max(target, get_target(STATEXTOID, tuple, Anum_pg_statistic_ext_stxstattarget));
		ReleaseSysCache(tuple);
	}
	return ROWS_PER_TARGET * Max(target, 1);
}

/*
 * Begins the scan of a connected table for ANALYZE.  Raises an error unless the
 * hook has seen the command: then it was told that there are no blocks.
 */
TableScanDesc
sl_shell_begin_analyze(Relation relation, uint32 flags)
{
	AnalyzeScan *scan;

	if (!is_analyzing && !is_autovacuum())
		sl_shell_check_access(relation);
	scan = palloc0(sizeof(AnalyzeScan));
	scan->base.rs_rd = relation;
	scan->base.rs_nkeys = IS_ANALYZE_SCAN;
	scan->base.rs_flags = flags;
	scan->pages = count_analyze_pages(relation);
	if (is_autovacuum())
		scan->total = relation->rd_rel->reltuples;
	else
		scan->sample = sl_sample_begin(relation, sl_shell_get_table(RelationGetRelid(relation)),
									   get_remote_size(relation)->rows, choose_sample_size(relation));
	return &scan->base;
}

bool
sl_shell_is_analyze(TableScanDesc scan)
{
	return scan->rs_nkeys == IS_ANALYZE_SCAN;
}

static void
end_sample(AnalyzeScan *scan)
{
	if (scan->sample != NULL)
		scan->total = sl_sample_end(scan->sample);
	scan->sample = NULL;
}

/* Stores the next row of the sample, or adds the share of a block. */
bool
sl_shell_next_sample(TableScanDesc scan, double *live_rows, TupleTableSlot *slot)
{
	AnalyzeScan *analyze = (AnalyzeScan *) scan;
	HeapTuple	tuple;

	if (analyze->sample == NULL || !sl_sample_next(analyze->sample))
	{
		end_sample(analyze);
		*live_rows += analyze->total / analyze->pages;
		ExecClearTuple(slot);
		return false;
	}
	tuple = sl_sample_make_tuple(analyze->sample);
	ItemPointerSet(&tuple->t_self, analyze->row_count / ROWS_PER_BLOCK,
				   (OffsetNumber) (analyze->row_count % ROWS_PER_BLOCK + 1));
	analyze->row_count++;
	ExecForceStoreHeapTuple(tuple, slot, true);
	return true;
}

void
sl_shell_end_analyze(TableScanDesc scan)
{
	end_sample((AnalyzeScan *) scan);
	pfree(scan);
}

/* Size ------------------------------------------------------------------------ */

/* The callback relation_size. */
uint64
sl_shell_size(Relation relation, ForkNumber fork)
{
	uint64		size = table_block_relation_size(relation, fork);

	if (size > 0 || fork != MAIN_FORKNUM || is_vacuuming || !(is_analyzing || is_autovacuum()) ||
		sl_shell_state(relation) != SL_SHELL_CONNECTED)
		return size;
	return (uint64) count_analyze_pages(relation) * BLCKSZ;
}

/*
 * The callback relation_estimate_size: for the planner, what ANALYZE has found; for
 * commands that build indexes, which do not want to know the columns, an empty
 * table.  Pages of a table that was rewritten since are estimated.
 */
void
sl_shell_estimate_size(Relation relation, int32 *widths, BlockNumber *pages, double *tuples, double *visible)
{
	Size		width;

	*visible = 0;
	if (sl_shell_is_heap(relation))
	{
		GetHeapamTableAmRoutine()->relation_estimate_size(relation, widths, pages, tuples, visible);
		return;
	}
	*pages = widths != NULL ? (BlockNumber) relation->rd_rel->relpages : 0;
	*tuples = widths != NULL ? relation->rd_rel->reltuples : 0;
	if (*pages > 0 || *tuples <= 0)
		return;
	width = MAXALIGN(SizeofHeapTupleHeader) + MAXALIGN(get_rel_data_width(relation, widths)) + sizeof(ItemIdData);
	*pages = (BlockNumber) Min(1 + *tuples * width / BLCKSZ, (double) MaxBlockNumber);
}

/* VACUUM ---------------------------------------------------------------------- */

/* Advances relfrozenxid.  What heap counts without rows is put right again. */
static void
vacuum_without_rows(Relation relation, VacuumParams *params, BufferAccessStrategy strategy)
{
	BlockNumber pages = (BlockNumber) relation->rd_rel->relpages;
	double		tuples = relation->rd_rel->reltuples;

	is_vacuuming = true;
	PG_TRY();
	{
		GetHeapamTableAmRoutine()->relation_vacuum(relation, params, strategy);
	}
	PG_FINALLY();
	{
		is_vacuuming = false;
	}
	PG_END_TRY();
	sl_update_relation_size(relation, pages, tuples);
}

/* The callback relation_vacuum. */
void
sl_shell_vacuum(Relation relation, VacuumParams *params, BufferAccessStrategy strategy)
{
	VacuumParams without_truncation;

	if (sl_shell_state(relation) != SL_SHELL_RESTORED || !sl_shell_has_blocks(relation))
	{
		vacuum_without_rows(relation, params, strategy);
		return;
	}

	/*
	 * A restored table without any block would be taken for a distributed
	 * one.
	 */
	without_truncation = *params;
	without_truncation.truncate = VACOPTVALUE_DISABLED;
	GetHeapamTableAmRoutine()->relation_vacuum(relation, &without_truncation, strategy);
}

/* Hook ------------------------------------------------------------------------ */

static bool
is_analyze_command(const Node *node)
{
	const VacuumStmt *statement = (const VacuumStmt *) node;
	ListCell   *cell;

	if (!IsA(node, VacuumStmt))
		return false;
	if (!statement->is_vacuumcmd)
		return true;
	foreach(cell, statement->options)
	{
		DefElem    *option = lfirst(cell);

		if (strcmp(option->defname, "analyze") == 0 && defGetBoolean(option))
			return true;
	}
	return false;
}

static void
watch_analyze(PlannedStmt *planned, const char *source, bool is_read_only, ProcessUtilityContext context,
			  ParamListInfo params, QueryEnvironment *environment, DestReceiver *receiver,
			  QueryCompletion *completion)
{
	ProcessUtility_hook_type next = next_utility != NULL ? next_utility : standard_ProcessUtility;
	bool		outer = is_analyzing;

	if (!is_analyze_command(planned->utilityStmt))
	{
		next(planned, source, is_read_only, context, params, environment, receiver, completion);
		return;
	}
	is_analyzing = true;
	remote_size.relid = InvalidOid;
	PG_TRY();
	{
		next(planned, source, is_read_only, context, params, environment, receiver, completion);
	}
	PG_FINALLY();
	{
		is_analyzing = outer;
	}
	PG_END_TRY();
}

void
sl_shell_statistics_init(void)
{
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = watch_analyze;
}
