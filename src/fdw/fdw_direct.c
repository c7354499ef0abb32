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
	SlAsk	   *ask = &scan->ask;
	EState	   *estate = node->ss.ps.state;
	MemoryContext old_context = MemoryContextSwitchTo(ask->context);
	SlTxnUse	use = {
		.writes = true,.statement = ask->statement->scan_count > 1 ? ask->statement->id : 0
	};
	int64		rows = 0;
	int			param_count;
	int			count;
	SlReply    *replies = sl_command_begin_as(sl_ask_shards(ask), ask->home.user, true, &count);
	const char **params = sl_ask_params(ask, &param_count);

	sl_command_run(replies, count, ask->sql, param_count, params, &use);
	sl_command_check(replies, count, ask->sql);
	for (int i = 0; i < count; i++)
	{
		rows += replies[i].rows;
		sl_ask_add_total(ask, replies[i].shard, replies[i].rows);
	}
	if ((ask->flags & SL_ASK_COUNTS) != 0)
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
	if ((scan->ask.flags & SL_ASK_COUNTS) != 0)
		node->ss.ps.state->es_processed++;
	node->resultRelInfo->ri_projectReturning->pi_exprContext->ecxt_scantuple = slot;
	return slot;
}

TupleTableSlot *
sl_fdw_next_direct(ForeignScanState *node)
{
	SlScan	   *scan = node->fdw_state;

	if ((scan->ask.flags & SL_SCAN_RETURNS) != 0)
		return next_returned(node, scan);
	if (!scan->is_done)
		run_commands(node, scan);
	scan->is_done = true;
	return ExecClearTuple(node->ss.ss_ScanTupleSlot);
}
