/*
 * fdw_explain.c
 *		What EXPLAIN tells of tables on shards.
 */
#include "postgres.h"

#include "commands/explain.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"

#include "compat.h"
#include "fdw/fdw.h"
#include "fdw/fdw_scan.h"

/* All shards of the first table, of which the others have as many. */
static int
count_owners(const SlScan *scan)
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

/* Those that were asked, or would be. */
static void
show_shards_of(ForeignScanState *node, SlScan *scan, ExplainState *es)
{
	List	   *asked = NIL;
	ListCell   *cell;

	foreach(cell, scan->totals)
		asked = lappend(asked, ((SlShardStat *) lfirst(cell))->shard);
	if (es->analyze)
		show_shards(asked, count_owners(scan), es);
	else if (has_param((Node *) list_copy_tail(scan->expressions, scan->param_count), NULL))
		ExplainPropertyText("Shards", psprintf("chosen at run time (of %d)", count_owners(scan)), es);
	else
		show_shards(sl_scan_shards(scan, node->ss.ps.ps_ExprContext), count_owners(scan), es);
}

static void
show_work(const SlScan *scan, ExplainState *es)
{
	ListCell   *cell;

	foreach(cell, scan->totals)
	{
		const SlShardStat *total = lfirst(cell);
		char	   *label = psprintf("Shard %s", NameStr(total->shard->name));

		if (es->timing)
			ExplainPropertyText(label, psprintf("rows=" INT64_FORMAT " time=%.3f ms", total->rows,
												(double) total->us / 1000), es);
		else
			ExplainPropertyText(label, psprintf("rows=" INT64_FORMAT, total->rows), es);
	}
}

/* LIMIT is put behind the statement when it runs. */
static void
show_limit(const SlScan *scan, ExplainState *es)
{
	Const	   *limit;

	if (scan->limit_place < 0)
		return;
	limit = list_nth(scan->expressions, scan->param_count + scan->limit_place);
	if (IsA(limit, Const) && !limit->constisnull)
		ExplainPropertyInteger("Limit", NULL, DatumGetInt64(limit->constvalue), es);
	else
		ExplainPropertyText("Limit", "chosen at run time", es);
}

void
sl_fdw_explain_scan(ForeignScanState *node, ExplainState *es)
{
	SlScan	   *scan = node->fdw_state;

	if (((ForeignScan *) node->ss.ps.plan)->scan.scanrelid == 0)
		ExplainPropertyText("Relations", scan->relations, es);
	sl_scan_collect(scan, CurrentMemoryContext);
	show_shards_of(node, scan, es);
	if (es->verbose)
		ExplainPropertyText("Remote SQL", psprintf("%s%s", scan->sql, scan->lock), es);
	show_limit(scan, es);
	if (es->analyze)
		show_work(scan, es);
}
