/*
 * modify_node_exec.c
 *		Executes the plan node that writes rows of a distributed table.
 *
 * For each row of the subplan it makes the row to be written, computes
 * generated columns, checks policies, has the row written on its shard, and
 * evaluates checks of views and RETURNING on what the shard has written.
 * Constraints are checked by the shards.  If the subplan modifies the rows
 * itself, only RETURNING is left (direct_modify.c).
 *
 * The node takes its relation as it is and asks for nothing by which
 * PostgreSQL recognizes foreign tables; slots are of its own kind, since those
 * of a relation depend on its access method.  No trigger fires, and no row is
 * looked at again by EvalPlanQual(): shards have locked, or check, the rows.
 * Foreign keys that refer to the rows from tables of the router are checked at the
 * end of the statement (router_foreign_key_check.c).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "compat.h"
#include "metadata/router_foreign_key.h"

/* The executor state of the node. */
typedef struct SlModifyNode
{
	CustomScanState css;		/* must come first */
	const ModifyTable *plan;
	ResultRelInfo *info;
	SlModify   *modify;			/* NULL: the subplan modifies the rows, or
								 * EXPLAIN does not run the plan */
	TupleTableSlot *new_row;
	bool		is_done;

	/* UPDATE and DELETE */
	SlRouterKeyCheck *check;	/* NULL: there are no foreign keys to check */
	TupleTableSlot *old_row;	/* of a DELETE: referenced columns */

	/* UPDATE */
	HeapTupleData old_tuple;	/* in that slot; the row belongs to the
								 * subplan */
	AttrNumber	whole_row;		/* the old row, among the subplan's columns */
	ProjectionInfo *projection; /* of the new row */

	/* DELETE */
	AttrNumber *referenced;		/* for each column, where it is among the
								 * subplan's columns; 0: it is not referenced */
} SlModifyNode;

/* Beginning ------------------------------------------------------------------- */

/* Prepares the checks of row security policies and views. */
static void
init_checks(SlModifyNode *node)
{
	ResultRelInfo *info = node->info;
	ListCell   *cell;

	if (node->plan->withCheckOptionLists == NIL)
		return;
	info->ri_WithCheckOptions = linitial(node->plan->withCheckOptionLists);
	foreach(cell, info->ri_WithCheckOptions)
		info->ri_WithCheckOptionExprs = lappend(info->ri_WithCheckOptionExprs,
												ExecInitQual((List *) lfirst_node(WithCheckOption, cell)->qual,
															 &node->css.ss.ps));
}

static void
init_returning(SlModifyNode *node)
{
	ResultRelInfo *info = node->info;
	PlanState  *state = &node->css.ss.ps;

	if (node->plan->returningLists == NIL)
		return;
	info->ri_returningList = linitial(node->plan->returningLists);
	info->ri_projectReturning = ExecBuildProjectionInfo(info->ri_returningList, state->ps_ExprContext,
														state->ps_ResultTupleSlot, state,
														RelationGetDescr(info->ri_RelationDesc));
}

/* The rows of an INSERT are those of the subplan. */
static void
check_columns(const SlModifyNode *node)
{
	const Plan *subplan = outerPlanState(&node->css)->plan;

	if (ExecCleanTargetListLength(subplan->targetlist) != RelationGetNumberOfAttributes(node->info->ri_RelationDesc))
		ereport(ERROR,
				errcode(ERRCODE_DATATYPE_MISMATCH),
				errmsg("table row type and query-specified row type do not match"));
}

/* The subplan of a DELETE returns the columns that foreign keys refer to. */
static void
init_referenced(SlModifyNode *node)
{
	PlanState  *state = &node->css.ss.ps;
	TupleDesc	descriptor = RelationGetDescr(node->info->ri_RelationDesc);
	Bitmapset  *columns = sl_router_key_referenced(node->info->ri_RelationDesc);
	int			column = -1;

	node->old_row = ExecInitExtraTupleSlot(state->state, descriptor, &TTSOpsVirtual);
	node->referenced = palloc0(sizeof(AttrNumber) * descriptor->natts);
	while ((column = bms_next_member(columns, column)) >= 0)
	{
		AttrNumber	junk = ExecFindJunkAttributeInTlist(outerPlanState(state)->plan->targetlist,
														psprintf(SL_JUNK_REFERENCED, column));

		if (!AttributeNumberIsValid(junk))
			elog(ERROR, "could not find column %d of the old row among the plan's columns", column);
		node->referenced[column - 1] = junk;
	}
}

/* The subplan of an UPDATE returns new values, and the old row for the others. */
static void
init_update(SlModifyNode *node)
{
	PlanState  *state = &node->css.ss.ps;
	List	   *columns = outerPlanState(state)->plan->targetlist;
	TupleDesc	descriptor = RelationGetDescr(node->info->ri_RelationDesc);

	node->whole_row = ExecFindJunkAttributeInTlist(columns, SL_JUNK_WHOLE_ROW);
	if (!AttributeNumberIsValid(node->whole_row))
		elog(ERROR, "could not find the old row among the plan's columns");
	node->old_row = ExecInitExtraTupleSlot(state->state, descriptor, &TTSOpsHeapTuple);
	node->projection = ExecBuildUpdateProjection(columns, false, linitial(node->plan->updateColnosLists), descriptor,
												 state->ps_ExprContext, node->new_row, state);
}

static void
init_rows(SlModifyNode *node)
{
	EState	   *estate = node->css.ss.ps.state;

	node->new_row = ExecInitExtraTupleSlot(estate, RelationGetDescr(node->info->ri_RelationDesc), &TTSOpsHeapTuple);
	if (node->plan->operation == CMD_INSERT)
		check_columns(node);
	else
		node->check = sl_router_key_check_begin(estate, node->info->ri_RelationDesc, node->plan->operation);
	if (node->plan->operation == CMD_UPDATE)
		init_update(node);
	else if (node->check != NULL)
		init_referenced(node);
}

/*
 * Expressions of the node are evaluated on rows of the result relation, not
 * on rows of the scan slot that every custom scan has.
 */
static void
forget_scan_slot(PlanState *state)
{
	state->scandesc = NULL;
	state->scanops = NULL;
	state->scanopsset = false;
}

/*
 * A WITH query that writes is also initialized, but not run, when another part
 * of the statement looks at a row again.
 */
static void
begin_node(CustomScanState *css, EState *estate, int eflags)
{
	SlModifyNode *node = (SlModifyNode *) css;
	const CustomScan *scan = (const CustomScan *) css->ss.ps.plan;

	if (estate->es_epq_active != NULL)
		return;
	node->plan = linitial_node(ModifyTable, scan->custom_private);
	node->info = makeNode(ResultRelInfo);
	ExecInitResultRelation(estate, node->info, (Index) linitial_int(node->plan->resultRelations));
	node->info->ri_usesFdwDirectModify = bms_is_member(0, node->plan->fdwDirectModifyPlans);

	/* A direct modification needs the result relation. */
	outerPlanState(css) = ExecInitNode(outerPlan(scan), estate, eflags);
	forget_scan_slot(&css->ss.ps);
	init_checks(node);
	init_returning(node);
	if (!node->info->ri_usesFdwDirectModify)
	{
		init_rows(node);
		if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
			node->modify = sl_modify_begin(&css->ss.ps, node->plan, node->info, linitial(node->plan->fdwPrivLists));
	}

	/* The executor runs it to its end even if nothing reads its rows. */
	if (!node->plan->canSetTag)
		estate->es_auxmodifytables = lcons(css, estate->es_auxmodifytables);
}

/* Rows ------------------------------------------------------------------------ */

static void
check_policies(SlModifyNode *node, TupleTableSlot *slot)
{
	if (node->info->ri_WithCheckOptions != NIL)
		ExecWithCheckOptions(node->plan->operation == CMD_UPDATE ? WCO_RLS_UPDATE_CHECK : WCO_RLS_INSERT_CHECK,
							 node->info, slot, node->css.ss.ps.state);
}

/* Computes generated columns, which may be in the key, and checks policies. */
static void
complete_row(SlModifyNode *node, TupleTableSlot *slot)
{
	EState	   *estate = node->css.ss.ps.state;
	Relation	relation = node->info->ri_RelationDesc;
	const TupleConstr *constraints = RelationGetDescr(relation)->constr;

	ExecMaterializeSlot(slot);
	slot->tts_tableOid = RelationGetRelid(relation);
	if (constraints != NULL && constraints->has_generated_stored)
		ExecComputeStoredGenerated(node->info, estate, slot, node->plan->operation);
	check_policies(node, slot);
}

static TupleTableSlot *
insert_row(SlModifyNode *node, TupleTableSlot *plan_row)
{
	TupleTableSlot *slot = plan_row;

	if (plan_row->tts_ops != node->new_row->tts_ops)
		slot = ExecCopySlot(node->new_row, plan_row);
	complete_row(node, slot);
	return sl_modify_insert_row(node->modify, slot);
}

/* Stores the old row, which the subplan returns as a composite value. */
static void
take_old_row(SlModifyNode *node, TupleTableSlot *plan_row)
{
	HeapTuple	tuple = &node->old_tuple;
	bool		is_null;
	Datum		row = ExecGetJunkAttribute(plan_row, node->whole_row, &is_null);

	if (is_null)
		elog(ERROR, "old row is NULL");
	tuple->t_data = DatumGetHeapTupleHeader(row);
	tuple->t_len = HeapTupleHeaderGetDatumLength(tuple->t_data);
	tuple->t_tableOid = RelationGetRelid(node->info->ri_RelationDesc);
	ItemPointerSetInvalid(&tuple->t_self);
	ExecForceStoreHeapTuple(tuple, node->old_row, false);
}

static TupleTableSlot *
update_row(SlModifyNode *node, TupleTableSlot *plan_row)
{
	ExprContext *context = node->projection->pi_exprContext;
	TupleTableSlot *slot;

	take_old_row(node, plan_row);
	context->ecxt_outertuple = plan_row;
	context->ecxt_scantuple = node->old_row;
	slot = ExecProject(node->projection);
	complete_row(node, slot);
	slot = sl_update_row(node->modify, slot, plan_row);
	if (slot != NULL && node->check != NULL)
		sl_router_key_check_add(node->check, node->old_row, slot);
	return slot;
}

/* Stores the referenced columns of a row that was deleted; the others are NULL. */
static void
take_referenced(SlModifyNode *node, TupleTableSlot *plan_row)
{
	TupleTableSlot *slot = ExecClearTuple(node->old_row);

	for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++)
	{
		slot->tts_isnull[i] = true;
		if (AttributeNumberIsValid(node->referenced[i]))
			slot->tts_values[i] = ExecGetJunkAttribute(plan_row, node->referenced[i], &slot->tts_isnull[i]);
	}
	ExecStoreVirtualTuple(slot);
}

/* The slot gets the columns that RETURNING needs. */
static TupleTableSlot *
delete_row(SlModifyNode *node, TupleTableSlot *plan_row)
{
	TupleTableSlot *slot = sl_delete_row(node->modify, node->new_row, plan_row);

	if (slot != NULL && node->check != NULL)
	{
		take_referenced(node, plan_row);
		sl_router_key_check_add(node->check, node->old_row, NULL);
	}
	if (slot != NULL && TTS_EMPTY(slot))
		ExecStoreAllNullTuple(slot);
	return slot;
}

/* Returns the row of RETURNING, or NULL if there is none. */
static TupleTableSlot *
make_returned(SlModifyNode *node, TupleTableSlot *plan_row, TupleTableSlot *old_row, TupleTableSlot *new_row)
{
	ProjectionInfo *projection = node->info->ri_projectReturning;

	if (projection == NULL)
		return NULL;
	projection->pi_exprContext->ecxt_outertuple = plan_row;
	sl_set_returned_rows(node->css.ss.ps.state, node->info, old_row, new_row);
	return ExecProject(projection);
}

/* Returns the row of RETURNING for a row that was written. */
static TupleTableSlot *
finish_row(SlModifyNode *node, TupleTableSlot *plan_row, TupleTableSlot *slot)
{
	EState	   *estate = node->css.ss.ps.state;
	bool		is_delete = node->plan->operation == CMD_DELETE;

	slot->tts_tableOid = RelationGetRelid(node->info->ri_RelationDesc);
	if (node->plan->canSetTag)
		estate->es_processed++;
	if (node->info->ri_WithCheckOptions != NIL && !is_delete)
	{
		if (sl_modify_has_row_trigger(node->info->ri_RelationDesc, node->plan->operation))
			check_policies(node, slot);
		ExecWithCheckOptions(WCO_VIEW_CHECK, node->info, slot, estate);
	}
	node->css.ss.ps.ps_ExprContext->ecxt_scantuple = slot;
	return make_returned(node, plan_row, is_delete ? slot : node->old_row, is_delete ? NULL : slot);
}

static TupleTableSlot *
modify_row(SlModifyNode *node, TupleTableSlot *plan_row)
{
	TupleTableSlot *slot;

	/* The scan has set the row that RETURNING refers to. */
	if (node->info->ri_usesFdwDirectModify)
		return make_returned(node, plan_row, NULL, NULL);
	slot = node->plan->operation == CMD_INSERT ? insert_row(node, plan_row) :
		node->plan->operation == CMD_UPDATE ? update_row(node, plan_row) : delete_row(node, plan_row);
	return slot != NULL ? finish_row(node, plan_row, slot) : NULL;
}

/*
 * Writes rows until there is one to return.  The executor may call this once
 * more after the end.
 */
static TupleTableSlot *
exec_node(CustomScanState *css)
{
	SlModifyNode *node = (SlModifyNode *) css;
	EState	   *estate = css->ss.ps.state;

	if (estate->es_epq_active != NULL)
		elog(ERROR, "cannot modify rows during EvalPlanQual");
	while (!node->is_done)
	{
		TupleTableSlot *row;

		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(estate);
		ResetExprContext(css->ss.ps.ps_ExprContext);
		row = ExecProcNode(outerPlanState(css));
		if (TupIsNull(row))
			node->is_done = true;
		else
		{
			row = modify_row(node, row);
			if (row != NULL)
				return row;
		}
	}
	return NULL;
}

/* End ------------------------------------------------------------------------- */

static void
end_node(CustomScanState *css)
{
	sl_modify_end(((SlModifyNode *) css)->modify);
	if (outerPlanState(css) != NULL)
		ExecEndNode(outerPlanState(css));
}

static void
rescan_node(CustomScanState *css)
{
	elog(ERROR, "rows cannot be modified twice");
}

static void
explain_node(CustomScanState *css, List *ancestors, ExplainState *es)
{
	const SlModifyNode *node = (const SlModifyNode *) css;
	const ModifyTable *plan = node->plan;

	ExplainPropertyText("Operation", plan->operation == CMD_INSERT ? "Insert" :
						plan->operation == CMD_UPDATE ? "Update" : "Delete", es);
	if (plan->onConflictAction != ONCONFLICT_NONE)
		ExplainPropertyText("Conflict Resolution",
							plan->onConflictAction == ONCONFLICT_NOTHING ? "NOTHING" : "UPDATE", es);
	if (!node->info->ri_usesFdwDirectModify)
		sl_modify_explain(plan->operation, node->info->ri_RelationDesc, linitial(plan->fdwPrivLists), es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = SL_MODIFY_NODE,
	.BeginCustomScan = begin_node,
	.ExecCustomScan = exec_node,
	.EndCustomScan = end_node,
	.ReScanCustomScan = rescan_node,
	.ExplainCustomScan = explain_node,
};

Node *
sl_modify_node_create(CustomScan *scan)
{
	SlModifyNode *node = (SlModifyNode *) newNode(sizeof(SlModifyNode), T_CustomScanState);

	node->css.methods = &exec_methods;
	return (Node *) node;
}
