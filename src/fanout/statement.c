/*
 * statement.c
 *		Running statements of the router that read from shards.
 *
 * If a statement has several scans of shards, or one that runs more than once,
 * they must all see the same.  What they have in common is the statement's
 * number, and that is how the shards know.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"

#include "fanout/fanout.h"

static dlist_head statements = DLIST_STATIC_INIT(statements);

static void
forget_statement(void *arg)
{
	dlist_delete(&((SlStatement *) arg)->node);
}

/* The running statement, by its state. */
SlStatement *
sl_statement_of(EState *estate)
{
	SlStatement *statement;
	dlist_iter	iter;

	dlist_foreach(iter, &statements)
	{
		/* cppcheck-suppress nullPointer */
		statement = dlist_container(SlStatement, node, iter.cur);
		if (statement->estate == estate)
			return statement;
	}
	statement = MemoryContextAllocZero(estate->es_query_cxt, sizeof(SlStatement));
	statement->estate = estate;
	statement->id = sl_snapshot_new_statement();
	statement->callback.func = forget_statement;
	statement->callback.arg = statement;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &statement->callback);
	dlist_push_head(&statements, &statement->node);
	return statement;
}

/*
 * The number of a statement that is about to write, if its reads must not see
 * that; 0 if there are none.
 */
uint64
sl_statement_of_write(const SlStatement *statement)
{
	return statement != NULL && statement->scan_count > 0 ? statement->id : 0;
}

/* Does the inner side of a join read its rows from a Material node? */
static bool
is_kept_above(const NestLoop *join)
{
	const Plan *inner = ((const Plan *) join)->righttree;

	return IsA(inner, Material) && join->nestParams == NIL && bms_is_empty(inner->extParam);
}

/*
 * Looks for the scan in a plan.  If it is there, tells whether something above
 * it reads it more than once.  EXEC_FLAG_REWIND alone does not tell: it is a
 * wish for speed, and not all nodes pass it on.
 */
static bool
find_scan(const Plan *plan, const Plan *scan, bool repeats, bool *result)
{
	List	   *children = NIL;
	bool		inner_repeats;
	ListCell   *cell;

	if (plan == NULL)
		return false;
	check_stack_depth();
	if (plan == scan)
	{
		*result = repeats;
		return true;
	}
	if (IsA(plan, Append))
		children = ((const Append *) plan)->appendplans;
	else if (IsA(plan, MergeAppend))
		children = ((const MergeAppend *) plan)->mergeplans;
	else if (IsA(plan, CustomScan))
		children = ((const CustomScan *) plan)->custom_plans;
	else if (IsA(plan, SubqueryScan))
		children = list_make1(((const SubqueryScan *) plan)->subplan);
	foreach(cell, children)
	{
		if (find_scan(lfirst(cell), scan, repeats, result))
			return true;
	}
	inner_repeats = IsA(plan, NestLoop) ? !is_kept_above((const NestLoop *) plan) :
		repeats || IsA(plan, RecursiveUnion);
	return find_scan(plan->lefttree, scan, repeats, result) ||
		find_scan(plan->righttree, scan, inner_repeats, result);
}

/*
 * Takes away the parameters that every scan below an UPDATE or FOR UPDATE has:
 * they are for looking at a row again, and never change.
 */
static Bitmapset *
without_recheck(Bitmapset *params, const Plan *plan)
{
	for (; plan != NULL; plan = plan->lefttree)
	{
		if (IsA(plan, ModifyTable))
			params = bms_del_member(params, ((const ModifyTable *) plan)->epqParam);
		else if (IsA(plan, LockRows))
			params = bms_del_member(params, ((const LockRows *) plan)->epqParam);
	}
	return params;
}

/* Does what the scan reads depend on something outside of it? */
static bool
has_params(const PlannedStmt *statement, const Plan *scan)
{
	Bitmapset  *params = without_recheck(bms_copy(scan->extParam), statement->planTree);
	ListCell   *cell;

	foreach(cell, statement->subplans)
		params = without_recheck(params, lfirst(cell));
	return !bms_is_empty(params);
}

/* May the rows of the scan be read more than once? */
bool
sl_statement_repeats(const PlannedStmt *statement, const Plan *scan)
{
	bool		result = true;
	ListCell   *cell;

	if (has_params(statement, scan) ||
		find_scan(statement->planTree, scan, false, &result))
		return result;
	foreach(cell, statement->subplans)
	{
		const Plan *plan = lfirst(cell);
		bool		repeats = plan != NULL && (!bms_is_empty(plan->extParam) ||
											   bms_is_member(foreach_current_index(cell) + 1,
															 statement->rewindPlanIDs));

		if (find_scan(plan, scan, repeats, &result))
			return result;
	}
	return true;
}
