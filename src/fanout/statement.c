/*
 * statement.c
 *		Running statements of the router that read from shards.
 *
 * If a statement has several scans of shards, or one that runs more than once,
 * they must all see the same.  What they have in common is the statement's
 * number, and that is how the shards know.
 *
 * Functions that are not volatile read by the snapshot of the statement that
 * calls them, which must not show what this one writes.  So their statements have
 * its number.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "utils/syscache.h"

#include "fanout/fanout.h"

static dlist_head statements = DLIST_STATIC_INIT(statements);

static void
forget_statement(void *arg)
{
	SlStatement *statement = arg;

	dlist_delete(&statement->node);
	sl_snapshot_close_reader(&statement->reader);
}

/*
 * Does the plan call functions that are not built in?  They are what it depends on
 * besides tables, so this costs nothing.  COPY has no plan.
 */
static bool
calls_functions(const PlannedStmt *plan)
{
	ListCell   *cell;

	if (plan == NULL)
		return false;
	foreach(cell, plan->invalItems)
	{
		if (lfirst_node(PlanInvalItem, cell)->cacheId == PROCOID)
			return true;
	}
	return false;
}

/*
 * The statement by whose snapshot this one reads, if that is not its own, and
 * something was or will be written that the snapshot does not show.
 */
static const SlStatement *
find_caller(const EState *estate)
{
	dlist_iter	iter;

	if (estate->es_snapshot == InvalidSnapshot)
		return NULL;
	dlist_foreach(iter, &statements)
	{
		/* cppcheck-suppress nullPointer */
		const SlStatement *statement = dlist_container(SlStatement, node, iter.cur);

		if (statement->estate->es_snapshot == estate->es_snapshot &&
			(statement->writes || statement->reader.is_kept))
			return statement;
	}
	return NULL;
}

static void
open_reader(SlReader *reader, const SlStatement *caller)
{
	sl_snapshot_open_reader(reader);
	if (caller == NULL)
		return;
	reader->statement = caller->reader.statement;
	reader->is_kept = true;
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
	statement->calls = calls_functions(estate->es_plannedstmt);
	open_reader(&statement->reader, find_caller(estate));
	statement->callback.func = forget_statement;
	statement->callback.arg = statement;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &statement->callback);
	dlist_push_head(&statements, &statement->node);
	return statement;
}

/* It has one more scan, which has not asked shards yet. */
void
sl_statement_add_scan(SlStatement *statement, bool may_repeat)
{
	statement->scan_count++;
	statement->repeats = statement->repeats || may_repeat;
	statement->reader.may_ask = true;
}

/* A scan is about to ask.  If it was the only one, and does so once, that is all. */
void
sl_statement_begin_scan(SlStatement *statement)
{
	statement->has_begun = true;
	statement->reader.may_ask = statement->scan_count > 1 || statement->repeats;
}

/*
 * The number of a statement that is about to write, if its reads, or those of
 * functions that it calls, must not see that; 0 if there are none.
 */
uint64
sl_statement_of_write(const SlStatement *statement)
{
	return statement != NULL && (statement->scan_count > 0 || statement->calls) ?
		statement->reader.statement : 0;
}

/* Does the inner side of a join read its rows from a Material node? */
static bool
is_kept_above(const NestLoop *join)
{
	const Plan *inner = ((const Plan *) join)->righttree;

	return IsA(inner, Material) && join->nestParams == NIL && bms_is_empty(inner->extParam);
}

/* A scan that is looked for, and what was passed on the way to it. */
typedef struct Search
{
	const Plan *scan;
	Bitmapset  *set_once;		/* parameters that do not make it run again */
	bool		repeats;
} Search;

/*
 * Values of subqueries that run once do not make what is below run again.  The
 * parameter by which plans look at a row again is of no concern here: it never
 * changes while the plan itself runs.
 */
static void
note_params(Search *search, const Plan *plan, bool repeats)
{
	ListCell   *cell;
	ListCell   *param;

	if (IsA(plan, ModifyTable))
		search->set_once = bms_add_member(search->set_once, ((const ModifyTable *) plan)->epqParam);
	if (IsA(plan, LockRows))
		search->set_once = bms_add_member(search->set_once, ((const LockRows *) plan)->epqParam);
	if (repeats)
		return;
	foreach(cell, plan->initPlan)
	{
		foreach(param, lfirst_node(SubPlan, cell)->setParam)
			search->set_once = bms_add_member(search->set_once, lfirst_int(param));
	}
}

static List *
children_of(const Plan *plan)
{
	if (IsA(plan, Append))
		return ((const Append *) plan)->appendplans;
	if (IsA(plan, MergeAppend))
		return ((const MergeAppend *) plan)->mergeplans;
	if (IsA(plan, CustomScan))
		return ((const CustomScan *) plan)->custom_plans;
	if (IsA(plan, SubqueryScan))
		return list_make1(((const SubqueryScan *) plan)->subplan);
	return NIL;
}

/*
 * Looks for the scan in a plan.  If it is there, finds out whether something
 * above it reads it more than once.  EXEC_FLAG_REWIND alone does not tell: it is
 * a wish for speed, and not all nodes pass it on.
 */
static bool
find_scan(const Plan *plan, Search *search, bool repeats)
{
	bool		inner_repeats;
	ListCell   *cell;

	if (plan == NULL)
		return false;
	check_stack_depth();
	note_params(search, plan, repeats);
	if (plan == search->scan)
	{
		search->repeats = repeats || !bms_is_subset(plan->extParam, search->set_once);
		return true;
	}
	foreach(cell, children_of(plan))
	{
		if (find_scan(lfirst(cell), search, repeats))
			return true;
	}
	inner_repeats = IsA(plan, NestLoop) ? !is_kept_above((const NestLoop *) plan) :
		repeats || IsA(plan, RecursiveUnion);
	return find_scan(plan->lefttree, search, repeats) ||
		find_scan(plan->righttree, search, inner_repeats);
}

/* May the rows of the scan be read more than once? */
bool
sl_statement_repeats(const PlannedStmt *statement, const Plan *scan)
{
	Search		search = {.scan = scan};
	ListCell   *cell;

	if (find_scan(statement->planTree, &search, false))
		return search.repeats;
	foreach(cell, statement->subplans)
	{
		const Plan *plan = lfirst(cell);
		bool		repeats = plan != NULL && (!bms_is_empty(plan->extParam) ||
											   bms_is_member(foreach_current_index(cell) + 1,
															 statement->rewindPlanIDs));

		if (find_scan(plan, &search, repeats))
			return search.repeats;
	}
	return true;
}
