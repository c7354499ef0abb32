/*
 * modify_node.c
 *		Puts a node of this extension in the place of ModifyTable, for
 *		INSERT, UPDATE and DELETE of distributed tables.
 *
 * PostgreSQL's ModifyTable chooses by the relation's kind how rows are written
 * and which of its features apply.  The node "Shardlet Modify" does not depend
 * on that: its rows always go to the shards (modify_node_exec.c).
 *
 * The planner still makes a ModifyTable, and has it planned by the foreign data
 * wrapper (modify_plan.c, direct_modify.c).  It is replaced in the finished
 * statement: at the top, below a Material node of a scrollable cursor, or at
 * the top of the plan of a WITH query.  References are final by then: RETURNING
 * and checks refer to the result relation and to the subplan, which remains
 * the outer plan.  The ModifyTable is stored in custom_private, without the
 * subplan.
 */
#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "access/shell_access.h"
#include "compat.h"

static planner_hook_type previous_planner = NULL;

static const CustomScanMethods node_methods = {
	.CustomName = SL_MODIFY_NODE,
	.CreateCustomScanState = sl_modify_node_create,
};

static bool
is_replaced(const PlannedStmt *statement, const Plan *plan)
{
	const ModifyTable *modify = (const ModifyTable *) plan;
	const RangeTblEntry *entry;

	if (!IsA(plan, ModifyTable) || list_length(modify->resultRelations) != 1 || modify->rootRelation != 0)
		return false;
	entry = rt_fetch(linitial_int(modify->resultRelations), statement->rtable);
	return sl_table_is_remote(entry->relid, entry->relkind);
}

/* The columns of the node are those of RETURNING, which it evaluates itself. */
static List *
make_target_list(List *returning)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, returning)
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst_node(TargetEntry, cell));
		Node	   *value = (Node *) entry->expr;

		entry->expr = (Expr *) makeVar(INDEX_VAR, entry->resno, exprType(value), exprTypmod(value),
									   exprCollation(value), 0);
		result = lappend(result, entry);
	}
	return result;
}

/* Returns the ModifyTable without what its plan node has; modify_plan.c may have chosen a direct modification. */
static ModifyTable *
strip_plan(const ModifyTable *modify)
{
	ModifyTable *result = makeNode(ModifyTable);

	*result = *modify;
	if (list_length(linitial(result->fdwPrivLists)) == 1)
		result->fdwDirectModifyPlans = bms_make_singleton(0);
	result->plan.targetlist = NIL;
	result->plan.lefttree = NULL;
	result->plan.initPlan = NIL;
	return result;
}

static CustomScan *
make_node(const ModifyTable *modify)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *returning = modify->returningLists != NIL ? linitial(modify->returningLists) : NIL;

	scan->scan.plan = modify->plan;
	scan->scan.plan.type = T_CustomScan;
	scan->scan.plan.targetlist = make_target_list(returning);
	scan->scan.scanrelid = modify->nominalRelation;
	scan->custom_scan_tlist = returning;
	scan->custom_relids = bms_make_singleton((int) modify->nominalRelation);
	if (modify->exclRelRTI != 0)
		scan->custom_relids = bms_add_member(scan->custom_relids, (int) modify->exclRelRTI);
	scan->custom_private = list_make1(strip_plan(modify));
	scan->methods = &node_methods;
	return scan;
}

static Plan *
replace_modify(const PlannedStmt *statement, Plan *plan)
{
	if (plan == NULL)
		return NULL;
	if (IsA(plan, Material))
		outerPlan(plan) = replace_modify(statement, outerPlan(plan));
	return is_replaced(statement, plan) ? (Plan *) make_node((const ModifyTable *) plan) : plan;
}

static PlannedStmt *
plan_and_replace(Query *query, const char *source, int options, ParamListInfo params)
{
	PlannedStmt *statement;
	ListCell   *cell;

	if (sl_table_has_shells())
		sl_shell_substitute(query);
	statement = previous_planner != NULL ? previous_planner(query, source, options, params) :
		standard_planner(query, source, options, params);
	if (statement->resultRelations == NIL)
		return statement;
	statement->planTree = replace_modify(statement, statement->planTree);
	foreach(cell, statement->subplans)
		lfirst(cell) = replace_modify(statement, lfirst(cell));
	return statement;
}

/* The planner hook of the area "planner" is set later, and calls this one. */
void
sl_modify_node_init(void)
{
	RegisterCustomScanMethods(&node_methods);
	previous_planner = planner_hook;
	planner_hook = plan_and_replace;
}
