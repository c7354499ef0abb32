/*
 * whole_row.c
 *		Remote scans whose row is needed as one value, besides its columns.
 *
 * row_to_json(q) needs that, and so does EvalPlanQual: a statement checks a row again
 * after another transaction has changed one that it was joined with.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "funcapi.h"

#include "executor/whole_row.h"

/* Takes apart what is scanned; if wanted, the row as one value is the last column. */
void
sl_whole_row_open(SlWholeRow *whole, TupleDesc scanned, bool is_wanted)
{
	int			count = scanned->natts - (is_wanted ? 1 : 0);

	whole->is_wanted = is_wanted;
	whole->columns = scanned;
	if (!is_wanted)
		return;
	whole->columns = CreateTemplateTupleDesc(count);
	for (int i = 1; i <= count; i++)
		TupleDescCopyEntry(whole->columns, (AttrNumber) i, scanned, (AttrNumber) i);
	whole->columns = BlessTupleDesc(whole->columns);
}

/* Adds the row as one value, if that is wanted. */
void
sl_whole_row_add(const SlWholeRow *whole, ScanState *node, TupleTableSlot *slot)
{
	MemoryContext old_context;
	HeapTuple	tuple;

	if (!whole->is_wanted)
		return;
	old_context = MemoryContextSwitchTo(node->ps.ps_ExprContext->ecxt_per_tuple_memory);
	tuple = heap_form_tuple(whole->columns, slot->tts_values, slot->tts_isnull);
	slot->tts_values[whole->columns->natts] = HeapTupleGetDatum(tuple);
	slot->tts_isnull[whole->columns->natts] = false;
	MemoryContextSwitchTo(old_context);
}

/* The one relation that the scan stands for. */
static int
find_relation(const ScanState *node)
{
	return bms_singleton_member(((const CustomScan *) node->ps.plan)->custom_relids) - 1;
}

/*
 * EvalPlanQual: a row of a table has changed since the statement joined it with one
 * of this scan.  Puts that one into the slot, once.
 */
bool
sl_whole_row_recheck(SlWholeRow *whole, ScanState *node, TupleTableSlot *slot,
					 ExecScanAccessMtd access)
{
	EPQState   *epq = node->ps.state->es_epq_active;
	int			index = find_relation(node);
	int			count = whole->columns->natts;

	if (epq->relsubs_rowmark[index] == NULL)
		return !TupIsNull(access(node));
	if (epq->relsubs_done[index])
		return false;
	epq->relsubs_done[index] = true;
	if (whole->slot == NULL)
		whole->slot = ExecInitExtraTupleSlot(node->ps.state, whole->columns, &TTSOpsVirtual);
	if (!EvalPlanQualFetchRowMark(epq, (Index) (index + 1), whole->slot))
		return false;
	slot_getallattrs(whole->slot);
	ExecClearTuple(slot);
	memcpy(slot->tts_values, whole->slot->tts_values, sizeof(Datum) * count);
	memcpy(slot->tts_isnull, whole->slot->tts_isnull, sizeof(bool) * count);
	sl_whole_row_add(whole, node, slot);
	ExecStoreVirtualTuple(slot);
	return true;
}
