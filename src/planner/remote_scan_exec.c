/*
 * remote_scan_exec.c
 *		Executes a remote scan plan node.
 *
 * The node may be the whole plan of a statement that modifies rows, and then
 * it maintains es_processed.  With RETURNING rows are counted as they arrive,
 * because the executor may stop early; otherwise the shards report their
 * counts.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"

#include "planner/remote_scan_plan.h"

static bool
is_whole_row(List *columns)
{
	const TargetEntry *last = columns != NIL ? llast_node(TargetEntry, columns) : NULL;

	return last != NULL && IsA(last->expr, Var) &&
		((const Var *) last->expr)->varattno == InvalidAttrNumber;
}

/* Finds the columns that are serialized aggregate states. */
static void
find_states(SlRemotePlanState *state, List *columns)
{
	ListCell   *cell;

	state->checks = palloc(sizeof(SlRemotePlanCheck) * Max(list_length(columns), 1));
	foreach(cell, columns)
	{
		const TargetEntry *column = lfirst_node(TargetEntry, cell);
		const SlStateFormat *format = sl_aggregate_find_partial_format((const Node *) column->expr);

		if (format != NULL)
			state->checks[state->check_count++] = (SlRemotePlanCheck)
		{
			.column = column->resno - 1,.format = format
		};
	}
}

/*
 * Deserialize functions trust their input, and a shard wrote this: check it
 * first.
 */
static void
check_states(const SlRemotePlanState *state, const TupleTableSlot *slot)
{
	for (int i = 0; i < state->check_count; i++)
	{
		int			column = state->checks[i].column;
		bytea	   *bytes;
		const char *trouble;

		if (slot->tts_isnull[column])
			continue;
		bytes = DatumGetByteaPP(slot->tts_values[column]);
		trouble = sl_aggregate_check_state(state->checks[i].format, VARDATA_ANY(bytes),
										   VARSIZE_ANY_EXHDR(bytes));
		if (trouble != NULL)
			ereport(ERROR,
					errcode(ERRCODE_PROTOCOL_VIOLATION),
					errmsg("shard \"%s\" sent an invalid aggregate state",
						   NameStr(sl_multi_shard_row_shard(state->scan.multi)->name)),
					errdetail_internal("%s", trouble));
	}
}

void
sl_remote_plan_begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	SlRemotePlanState *state = (SlRemotePlanState *) node;
	const CustomScan *plan = (const CustomScan *) node->ss.ps.plan;
	List	   *items = plan->custom_private;
	const Integer *user = list_nth(items, SL_REMOTE_PLAN_USER);

	state->scan.sql = strVal(list_nth(items, SL_REMOTE_PLAN_SQL));
	state->scan.lock = "";
	state->scan.owned = list_nth(items, SL_REMOTE_PLAN_FILTERS);
	state->scan.relations = strVal(list_nth(items, SL_REMOTE_PLAN_RELATIONS));
	state->scan.flags = intVal(list_nth(items, SL_REMOTE_PLAN_FLAGS));
	state->scan.param_count = intVal(list_nth(items, SL_REMOTE_PLAN_PARAM_COUNT));
	state->scan.programs = list_nth(items, SL_REMOTE_PLAN_PRUNE);
	state->scan.limit_place = linitial_int(list_nth(items, SL_REMOTE_PLAN_LIMIT));
	state->scan.offset_place = lsecond_int(list_nth(items, SL_REMOTE_PLAN_LIMIT));
	sl_remote_scan_open(&state->scan, &node->ss.ps, plan->custom_exprs, list_nth(items, SL_REMOTE_PLAN_SORT));
	sl_whole_row_open(&state->whole, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
					  is_whole_row(plan->custom_scan_tlist));
	state->scan.wanted = state->whole.columns;
	state->scan.shard_column = -1;
	find_states(state, plan->custom_scan_tlist);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		sl_remote_scan_set_user(&state->scan, user->ival != 0 ? (Oid) user->ival : GetUserId());
}

static TupleTableSlot *
access_next(ScanState *node)
{
	SlRemotePlanState *state = (SlRemotePlanState *) node;
	TupleTableSlot *slot = node->ss_ScanTupleSlot;

	if (state->is_done)
		return ExecClearTuple(slot);
	if (!sl_remote_scan_next_row(&state->scan, slot))
	{
		state->is_done = true;
		if ((state->scan.flags & SL_REMOTE_SCAN_COUNTS) != 0 && state->whole.columns->natts == 0)
			sl_remote_scan_count_rows(&state->scan);
		return ExecClearTuple(slot);
	}
	check_states(state, slot);
	sl_whole_row_add(&state->whole, node, slot);
	if ((state->scan.flags & SL_REMOTE_SCAN_COUNTS) != 0)
		node->ps.state->es_processed++;
	return slot;
}

static bool
recheck(ScanState *node, TupleTableSlot *slot)
{
	return sl_whole_row_recheck(&((SlRemotePlanState *) node)->whole, node, slot, access_next);
}

TupleTableSlot *
sl_remote_plan_next_row(CustomScanState *node)
{
	return ExecScan(&node->ss, access_next, recheck);
}

/*
 * Rows are not stored: a rescan runs the query again, with the same snapshot.
 */
void
sl_remote_plan_rescan(CustomScanState *node)
{
	SlRemotePlanState *state = (SlRemotePlanState *) node;

	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	sl_remote_scan_end(&state->scan);
	state->is_done = false;
	ExecScanReScan(&node->ss);
}

void
sl_remote_plan_end_scan(CustomScanState *node)
{
	sl_remote_scan_end(&((SlRemotePlanState *) node)->scan);
}

void
sl_remote_plan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	SlRemotePlanState *state = (SlRemotePlanState *) node;

	if (state->scan.relations[0] != '\0')
		ExplainPropertyText("Relations", state->scan.relations, es);
	sl_remote_scan_explain(&state->scan, es);
}
