/*
 * explain.c
 *		What EXPLAIN shows of a remote scan, and what is counted for it.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "deparse/ownership_filter.h"
#include "executor/remote_scan.h"
#include "metadata/table.h"

/* Counting ------------------------------------------------------------------------- */

/* Makes room for what each shard does. */
void
sl_remote_scan_save_stats(SlRemoteScan *scan, SlMultiShardSpec *spec)
{
	ListCell   *cell;

	if (!scan->keeps_stats)
		return;
	spec->stats = palloc0(sizeof(SlShardStat) * Max(list_length(spec->shards), 1));
	foreach(cell, spec->shards)
		spec->stats[foreach_current_index(cell)].shard = lfirst(cell);
	scan->stats = spec->stats;
	scan->stat_count = list_length(spec->shards);
}

/* What a shard has done so far, in all runs. */
static SlShardStat *
find_total(SlRemoteScan *scan, SlShard *shard)
{
	MemoryContext old_context;
	SlShardStat *total;
	ListCell   *cell;

	foreach(cell, scan->totals)
	{
		if (((SlShardStat *) lfirst(cell))->shard == shard)
			return lfirst(cell);
	}
	old_context = MemoryContextSwitchTo(scan->node->state->es_query_cxt);
	total = palloc0(sizeof(SlShardStat));
	total->shard = shard;
	scan->totals = lappend(scan->totals, total);
	MemoryContextSwitchTo(old_context);
	return total;
}

/* Adds up what the run did. */
void
sl_remote_scan_collect_rows(SlRemoteScan *scan)
{
	for (int i = 0; i < scan->stat_count; i++)
	{
		SlShardStat *total = find_total(scan, scan->stats[i].shard);

		total->rows += scan->stats[i].rows;
		total->bytes += scan->stats[i].bytes;
		total->us += scan->stats[i].us;
	}
	scan->stat_count = 0;
}

/* Showing -------------------------------------------------------------------------- */

/* A column by which rows are merged, as ORDER BY would have it. */
static char *
describe_key(const SlRemoteScan *scan, const SlSortKey *key)
{
	const char *name = NameStr(TupleDescAttr(scan->wanted, key->column)->attname);
	bool		is_reverse = false;

	(void) get_equality_op_for_ordering_op(key->operator, &is_reverse);
	return psprintf("%s%s%s", name[0] != '\0' ? name : psprintf("column %d", key->column + 1),
					is_reverse ? " DESC" : "", key->nulls_first == is_reverse ? "" :
					key->nulls_first ? " NULLS FIRST" : " NULLS LAST");
}

static void
show_merge_keys(const SlRemoteScan *scan, ExplainState *es)
{
	List	   *keys = NIL;

	for (int i = 0; i < scan->sort_count; i++)
		keys = lappend(keys, describe_key(scan, &scan->sort_keys[i]));
	if (keys != NIL)
		ExplainPropertyList("Merge Keys", keys, es);
}

/* All shards of the first table, of which the others have as many. */
static int
count_owners(const SlRemoteScan *scan)
{
	List	   *first = linitial(scan->programs);

	return list_length(sl_table_owners(sl_table_get((Oid) intVal(linitial(first)))));
}

static bool
has_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, Param) || expression_tree_walker(node, has_param, context);
}

static void
show_shards(List *shards, int of, ExplainState *es)
{
	StringInfoData line;
	ListCell   *cell;

	initStringInfo(&line);
	foreach(cell, shards)
		appendStringInfo(&line, "%s%s", line.len == 0 ? "" : ", ",
						 NameStr(((SlShard *) lfirst(cell))->name));
	appendStringInfo(&line, "%s (%d of %d)", shards == NIL ? "none" : "", list_length(shards), of);
	ExplainPropertyText("Shards", line.data, es);
}

/* Shows the shards that were queried, or would be. */
static void
show_shards_of(const SlRemoteScan *scan, ExplainState *es)
{
	List	   *queried = NIL;
	ListCell   *cell;

	foreach(cell, scan->totals)
		queried = lappend(queried, ((SlShardStat *) lfirst(cell))->shard);
	if (es->analyze)
		show_shards(queried, count_owners(scan), es);
	else if (scan->choose != NULL || has_param((Node *) scan->others, NULL))
		ExplainPropertyText("Shards", psprintf("chosen at run time (of %d)", count_owners(scan)), es);
	else
		show_shards(sl_remote_scan_choose_shards(scan), count_owners(scan), es);
}

static void
show_work(const SlRemoteScan *scan, ExplainState *es)
{
	ListCell   *cell;

	foreach(cell, scan->totals)
	{
		const SlShardStat *total = lfirst(cell);
		char	   *label = psprintf("Shard %s", NameStr(total->shard->name));
		char	   *work = psprintf("rows=" INT64_FORMAT " bytes=" INT64_FORMAT, total->rows,
									total->bytes);

		if (es->timing)
			work = psprintf("%s time=%.3f ms", work, (double) total->us / 1000);
		ExplainPropertyText(label, work, es);
	}
}

/* A limit is appended to the SQL when it runs. */
static void
show_limit(const SlRemoteScan *scan, int place, const char *label, ExplainState *es)
{
	Const	   *limit;

	if (place < 0)
		return;
	limit = list_nth(scan->others, place);
	if (IsA(limit, Const) && !limit->constisnull)
		ExplainPropertyInteger(label, NULL, DatumGetInt64(limit->constvalue), es);
	else
		ExplainPropertyText(label, "chosen at run time", es);
}

/* Shows merge keys, shards, SQL, limit and, if it ran, the work of each shard. */
void
sl_remote_scan_explain(SlRemoteScan *scan, ExplainState *es)
{
	sl_remote_scan_collect_rows(scan);
	show_merge_keys(scan, es);
	show_shards_of(scan, es);
	if (es->verbose)
		ExplainPropertyText("Remote SQL", psprintf("%s%s", sl_ownership_filter_apply(scan->sql, scan->owned), scan->lock), es);
	show_limit(scan, scan->limit_place, "Limit", es);
	if ((scan->flags & SL_REMOTE_SCAN_LIMITED) != 0)
		ExplainPropertyText("Row Locks", sl_locking_limit_describe(scan), es);
	if (es->analyze)
		show_work(scan, es);
}
