/*
 * fdw_direct.c
 *		Runs UPDATE and DELETE that go to the shards as they are.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/instrument.h"

#include "base/base.h"
#include "fdw/fdw.h"
#include "fdw/fdw_scan.h"

/* Without RETURNING only the numbers of rows matter. */
static void
run_commands(ForeignScanState *node, SlScan *scan)
{
	EState	   *estate = node->ss.ps.state;
	ExprContext *context = node->ss.ps.ps_ExprContext;
	MemoryContext old_context = MemoryContextSwitchTo(scan->context);
	SlTxnUse	use = {
		.writes = true,.statement = scan->statement->scan_count > 1 ? scan->statement->id : 0
	};
	int64		rows = 0;
	int			count;
	SlReply    *replies = sl_command_begin_as(sl_scan_shards(scan, context), scan->home.user, true,
											  &count);

	sl_command_run(replies, count, scan->sql, scan->param_count, sl_scan_params(scan, context), &use);
	sl_command_check(replies, count, scan->sql);
	for (int i = 0; i < count; i++)
	{
		rows += replies[i].rows;
		sl_scan_add_total(scan, replies[i].shard, replies[i].rows, estate->es_query_cxt);
	}
	if ((scan->flags & SL_SCAN_COUNTS) != 0)
		estate->es_processed += rows;
	if (node->ss.ps.instrument != NULL)
		node->ss.ps.instrument->tuplecount += (double) rows;
	MemoryContextSwitchTo(old_context);
}

/* The next row of RETURNING, where ModifyTable looks for it. */
static TupleTableSlot *
next_returned(ForeignScanState *node, SlScan *scan)
{
	TupleTableSlot *slot = sl_fdw_next(node);

	if (TupIsNull(slot))
		return slot;
	if ((scan->flags & SL_SCAN_COUNTS) != 0)
		node->ss.ps.state->es_processed++;
	node->resultRelInfo->ri_projectReturning->pi_exprContext->ecxt_scantuple = slot;
	return slot;
}

TupleTableSlot *
sl_fdw_next_direct(ForeignScanState *node)
{
	SlScan	   *scan = node->fdw_state;

	if ((scan->flags & SL_SCAN_RETURNS) != 0)
		return next_returned(node, scan);
	if (!scan->is_done)
		run_commands(node, scan);
	scan->is_done = true;
	return ExecClearTuple(node->ss.ss_ScanTupleSlot);
}
