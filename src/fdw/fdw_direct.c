/*
 * fdw_direct.c
 *		Runs UPDATE and DELETE that go to the shards as they are.
 */
#include "postgres.h"

#include "executor/executor.h"

#include "base/base.h"
#include "fdw/fdw.h"
#include "fdw/fdw_scan.h"

/* Without RETURNING only the numbers of rows matter. */
static void
run_commands(ForeignScanState *node, SlScan *scan)
{
	(void) sl_fdw_next(node);
	sl_ask_count(&scan->ask);
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
