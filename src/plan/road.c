/*
 * road.c
 *		Makes the node of a plan by which one text goes to shards.
 *
 * The node can be the top of a plan that nobody else has worked on, so what
 * setrefs.c does for others is done here: the target list refers to the columns
 * that the shards return, and expressions are ready to be evaluated.
 */
#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "plan/insert.h"

static Node *create_ship(CustomScan *scan);
static Node *create_scatter(CustomScan *scan);

static const CustomScanMethods ship_methods = {
	.CustomName = SL_ROAD_SHIP,
	.CreateCustomScanState = create_ship,
};

static const CustomScanMethods scatter_methods = {
	.CustomName = SL_ROAD_SCATTER,
	.CreateCustomScanState = create_scatter,
};

static const CustomExecMethods ship_exec = {
	.CustomName = SL_ROAD_SHIP,
	.BeginCustomScan = sl_road_begin,
	.ExecCustomScan = sl_road_next,
	.EndCustomScan = sl_road_end,
	.ReScanCustomScan = sl_road_rescan,
	.ExplainCustomScan = sl_road_explain,
};

static const CustomExecMethods scatter_exec = {
	.CustomName = SL_ROAD_SCATTER,
	.BeginCustomScan = sl_road_begin,
	.ExecCustomScan = sl_road_next,
	.EndCustomScan = sl_road_end,
	.ReScanCustomScan = sl_road_rescan,
	.ExplainCustomScan = sl_road_explain,
};

static Node *
create_state(const CustomExecMethods *methods)
{
	SlRoadState *state = (SlRoadState *) newNode(sizeof(SlRoadState), T_CustomScanState);

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

/* A copy of expressions that can be evaluated. */
static List *
finish_expressions(List *expressions)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, expressions)
		result = lappend(result, expression_planner(copyObject(lfirst(cell))));
	return result;
}

/* Adds a limit to the expressions.  Returns its place, or -1. */
static int
add_limit(List **expressions, Node *limit)
{
	if (limit == NULL)
		return -1;
	*expressions = lappend(*expressions, limit);
	return list_length(*expressions) - 1;
}

/* All columns, as they come. */
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

/* Numbers the columns as they come. */
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
 * Makes the node.  Without a target list it returns the columns as they come,
 * and can be the top of a plan; with one, PostgreSQL's planner must still work
 * on it.
 */
CustomScan *
sl_road_plan(const SlRoad *road, List *target_list)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *others = list_copy(road->expressions);
	int			limit_place = add_limit(&others, road->limit_count);
	int			offset_place = add_limit(&others, road->limit_offset);

	scan->custom_scan_tlist = make_scan_list(road->result);
	scan->scan.plan.targetlist = target_list != NIL ? target_list :
		make_target_list(scan->custom_scan_tlist);
	scan->scan.plan.plan_rows = 1;
	scan->scan.plan.parallel_safe = false;
	scan->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	scan->custom_exprs = finish_expressions(list_concat_copy(road->params, others));
	/* cppcheck-suppress unknownEvaluationOrder */
	scan->custom_private = list_make5(makeString(road->sql), makeInteger(road->flags),
									  makeInteger(list_length(road->params)),
									  copyObject(road->programs), copyObject(road->sort));
	scan->custom_private = lappend(scan->custom_private,
	/* cppcheck-suppress unknownEvaluationOrder */
								   list_make2_int(limit_place, offset_place));
	scan->custom_private = lappend(scan->custom_private,
								   makeString(road->relations != NULL ? road->relations : ""));
	scan->custom_private = lappend(scan->custom_private, makeInteger((int) road->user));
	scan->custom_private = lappend(scan->custom_private, copyObject(road->owned));
	scan->methods = strcmp(road->name, SL_ROAD_SHIP) == 0 ? &ship_methods : &scatter_methods;
	return scan;
}

void
sl_road_init(void)
{
	RegisterCustomScanMethods(&ship_methods);
	RegisterCustomScanMethods(&scatter_methods);
}
