/*
 * road_scan.c
 *		Travels a road: asks the shards, and hands on what comes.
 *
 * The node may be all of a statement that changes rows.  Nobody else counts these
 * then.  With RETURNING they are counted as they come, because a caller may stop
 * early; otherwise the shards tell.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"

#include "plan/road.h"

static bool
is_whole_row(List *columns)
{
	const TargetEntry *last = columns != NIL ? llast_node(TargetEntry, columns) : NULL;

	return last != NULL && IsA(last->expr, Var) &&
		((const Var *) last->expr)->varattno == InvalidAttrNumber;
}

void
sl_road_begin(CustomScanState *node, EState *estate, int eflags)
{
	SlRoadState *state = (SlRoadState *) node;
	const CustomScan *plan = (const CustomScan *) node->ss.ps.plan;
	List	   *items = plan->custom_private;
	const Integer *user = list_nth(items, SL_ROAD_USER);

	state->ask.sql = strVal(list_nth(items, SL_ROAD_SQL));
	state->ask.lock = "";
	state->ask.owned = list_nth(items, SL_ROAD_OWNED);
	state->ask.relations = strVal(list_nth(items, SL_ROAD_RELATIONS));
	state->ask.flags = intVal(list_nth(items, SL_ROAD_FLAGS));
	state->ask.param_count = intVal(list_nth(items, SL_ROAD_PARAM_COUNT));
	state->ask.programs = list_nth(items, SL_ROAD_PRUNE);
	state->ask.limit_place = linitial_int(list_nth(items, SL_ROAD_LIMIT));
	state->ask.offset_place = lsecond_int(list_nth(items, SL_ROAD_LIMIT));
	sl_ask_open(&state->ask, &node->ss.ps, plan->custom_exprs, list_nth(items, SL_ROAD_SORT));
	sl_whole_row_open(&state->whole, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
					  is_whole_row(plan->custom_scan_tlist));
	state->ask.wanted = state->whole.columns;
	state->ask.shard_column = -1;
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		sl_ask_settle(&state->ask, user->ival != 0 ? (Oid) user->ival : GetUserId());
}

static TupleTableSlot *
access_next(ScanState *node)
{
	SlRoadState *state = (SlRoadState *) node;
	TupleTableSlot *slot = node->ss_ScanTupleSlot;

	if (state->is_done)
		return ExecClearTuple(slot);
	if (!sl_ask_next(&state->ask, slot))
	{
		state->is_done = true;
		if ((state->ask.flags & SL_ASK_COUNTS) != 0 && state->whole.columns->natts == 0)
			sl_ask_count(&state->ask);
		return ExecClearTuple(slot);
	}
	sl_whole_row_add(&state->whole, node, slot);
	if ((state->ask.flags & SL_ASK_COUNTS) != 0)
		node->ps.state->es_processed++;
	return slot;
}

static bool
recheck(ScanState *node, TupleTableSlot *slot)
{
	return sl_whole_row_recheck(&((SlRoadState *) node)->whole, node, slot, access_next);
}

TupleTableSlot *
sl_road_next(CustomScanState *node)
{
	return ExecScan(&node->ss, access_next, recheck);
}

/* Rows are not kept: the shards are asked again, and see what they saw. */
void
sl_road_rescan(CustomScanState *node)
{
	SlRoadState *state = (SlRoadState *) node;

	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	sl_ask_end(&state->ask);
	state->is_done = false;
	ExecScanReScan(&node->ss);
}

void
sl_road_end(CustomScanState *node)
{
	sl_ask_end(&((SlRoadState *) node)->ask);
}
