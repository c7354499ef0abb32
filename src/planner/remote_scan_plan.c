/*
 * remote_scan_plan.c
 *		Makes the plan node of a remote scan: one query that is sent to
 *		shards.
 *
 * The node can be the top of a plan that did not go through the planner, so
 * what setrefs.c does for others is done here: the target list refers to the
 * columns that the shards return, and expressions are ready to be evaluated.
 */
#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "planner/insert.h"

static Node *create_ship(CustomScan *scan);
static Node *create_scatter(CustomScan *scan);

static const CustomScanMethods ship_methods = {
	.CustomName = SL_REMOTE_PLAN_SHIP,
	.CreateCustomScanState = create_ship,
};

static const CustomScanMethods scatter_methods = {
	.CustomName = SL_REMOTE_PLAN_SCATTER,
	.CreateCustomScanState = create_scatter,
};

static const CustomExecMethods ship_exec = {
	.CustomName = SL_REMOTE_PLAN_SHIP,
	.BeginCustomScan = sl_remote_plan_begin_scan,
	.ExecCustomScan = sl_remote_plan_next_row,
	.EndCustomScan = sl_remote_plan_end_scan,
	.ReScanCustomScan = sl_remote_plan_rescan,
	.ExplainCustomScan = sl_remote_plan_explain,
};

static const CustomExecMethods scatter_exec = {
	.CustomName = SL_REMOTE_PLAN_SCATTER,
	.BeginCustomScan = sl_remote_plan_begin_scan,
	.ExecCustomScan = sl_remote_plan_next_row,
	.EndCustomScan = sl_remote_plan_end_scan,
	.ReScanCustomScan = sl_remote_plan_rescan,
	.ExplainCustomScan = sl_remote_plan_explain,
};

static Node *
create_state(const CustomExecMethods *methods)
{
	SlRemotePlanState *state = (SlRemotePlanState *) newNode(sizeof(SlRemotePlanState), T_CustomScanState);

	state->css.methods = methods;
	return (Node *) state;
}

static Node *
create_ship(CustomScan *scan)
{
	return sl_insert_is_rows(scan) ? sl_insert_rows_state() : create_state(&ship_exec);
}

static Node *
create_scatter(CustomScan *scan)
{
	return create_state(&scatter_exec);
}

/* Planning ------------------------------------------------------------------------ */

/* Returns a copy of expressions that can be evaluated. */
static List *
finish_expressions(List *expressions)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, expressions)
		result = lappend(result, expression_planner(copyObject(lfirst(cell))));
	return result;
}

/* Adds a limit to the expressions.  Returns its index, or -1. */
static int
add_limit(List **expressions, Node *limit)
{
	if (limit == NULL)
		return -1;
	*expressions = lappend(*expressions, limit);
	return list_length(*expressions) - 1;
}

/* Makes the target list of all remote columns. */
static List *
make_target_list(List *result)
{
	List	   *targets = NIL;
	ListCell   *cell;

	foreach(cell, result)
	{
		TargetEntry *target = flatCopyTargetEntry(lfirst(cell));

		target->expr = (Expr *) makeVar(INDEX_VAR, (AttrNumber) (foreach_current_index(cell) + 1),
										exprType((Node *) target->expr),
										exprTypmod((Node *) target->expr),
										exprCollation((Node *) target->expr), 0);
		targets = lappend(targets, target);
	}
	return targets;
}

/* Makes the Vars of the remote columns. */
static List *
make_scan_list(List *result)
{
	List	   *columns = NIL;
	ListCell   *cell;

	foreach(cell, result)
	{
		TargetEntry *column = copyObject(lfirst_node(TargetEntry, cell));

		column->resno = (AttrNumber) (foreach_current_index(cell) + 1);
		columns = lappend(columns, column);
	}
	return columns;
}

/*
 * Makes the node.  Without a target list it returns all remote columns, and
 * can be the top of a plan; with one, PostgreSQL's planner has to finish it.
 */
CustomScan *
sl_remote_plan_make(const SlRemotePlan *remote, List *target_list)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *others = list_copy(remote->expressions);
	int			limit_place = add_limit(&others, remote->limit_count);
	int			offset_place = add_limit(&others, remote->limit_offset);

	scan->custom_scan_tlist = make_scan_list(remote->result);
	scan->scan.plan.targetlist = target_list != NIL ? target_list :
		make_target_list(scan->custom_scan_tlist);
	scan->scan.plan.plan_rows = 1;
	scan->scan.plan.parallel_safe = false;
	scan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	scan->custom_exprs = finish_expressions(list_concat_copy(remote->params, others));
	scan->custom_private = list_make5(makeString(remote->sql), makeInteger(remote->flags),
									  makeInteger(list_length(remote->params)),
									  copyObject(remote->programs), copyObject(remote->sort));
	scan->custom_private = lappend(scan->custom_private,
								   list_make2_int(limit_place, offset_place));
	scan->custom_private = lappend(scan->custom_private,
								   makeString(remote->relations != NULL ? remote->relations : ""));
	scan->custom_private = lappend(scan->custom_private, makeInteger((int) remote->user));
	scan->custom_private = lappend(scan->custom_private, copyObject(remote->owned));
	scan->methods = strcmp(remote->name, SL_REMOTE_PLAN_SHIP) == 0 ? &ship_methods : &scatter_methods;
	return scan;
}

void
sl_remote_plan_init(void)
{
	RegisterCustomScanMethods(&ship_methods);
	RegisterCustomScanMethods(&scatter_methods);
}
