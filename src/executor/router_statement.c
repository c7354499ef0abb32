/*
 * router_statement.c
 *		Running statements of the router that read from shards.
 *
 * If a statement has several scans of shards, or one that runs more than once,
 * they must all see the same.  Their queries carry the statement's number, by which
 * shards find its snapshot.
 *
 * Functions that are not volatile read by the snapshot of the statement that
 * calls them, which must not show what this one writes.  So their statements have
 * its number.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"
#include "utils/syscache.h"

#include "executor/multi_shard.h"

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

/* The running statement, by its state; NULL if it has nothing to do with shards. */
SlStatement *
sl_statement_find(const EState *estate)
{
	dlist_iter	iter;

	dlist_foreach(iter, &statements)
	{
		SlStatement *statement = dlist_container(SlStatement, node, iter.cur);

		if (statement->estate == estate)
			return statement;
	}
	return NULL;
}

/* The same, made if it is not there. */
SlStatement *
sl_statement_of(EState *estate)
{
	SlStatement *statement = sl_statement_find(estate);

	if (statement != NULL)
		return statement;
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

/* It has one more scan, which has not queried shards yet. */
void
sl_statement_add_scan(SlStatement *statement, bool may_repeat)
{
	statement->scan_count++;
	statement->repeats = statement->repeats || may_repeat;
	statement->reader.may_query = true;
}

/*
 * A scan is about to query shards.  If it was the only one, and does so once, that is all,
 * unless the rows that it finds are to be changed as they are now, and functions
 * that are called in between might change them, too.
 */
void
sl_statement_begin_scan(SlStatement *statement)
{
	statement->has_begun = true;
	statement->reader.may_query = statement->scan_count > 1 || statement->repeats ||
		(statement->writes && statement->calls);
}

/* A part of it writes to tables on shards. */
void
sl_statement_add_writer(SlStatement *statement)
{
	statement->writes = true;
	statement->writer_count++;
}

/* Do several parts of it write?  Partitions are several targets of one part. */
static bool
has_writing_with(const SlStatement *statement)
{
	return statement->writer_count > 1 && statement->estate->es_plannedstmt != NULL &&
		statement->estate->es_plannedstmt->hasModifyingCTE;
}

/*
 * The number of a statement that is about to write, if its reads, or those of
 * functions that it calls, must not see that; 0 if there are none.
 */
uint64
sl_statement_of_write(const SlStatement *statement)
{
	return statement != NULL &&
		(statement->scan_count > 0 || statement->calls || has_writing_with(statement)) ?
		statement->reader.statement : 0;
}

/*
 * Must what the statement changes be found as it was when the statement began,
 * because something has been, or will be, written since?  Rows that were locked
 * later than that are found as they are now.
 */
bool
sl_statement_writes_by_snapshot(const SlStatement *statement)
{
	return statement != NULL &&
		(has_writing_with(statement) || (statement->reader.is_kept && !statement->locks_later));
}

/*
 * A statement that has queried shards already, and finds that rows were moved
 * meanwhile, might not see them on the shard where they are now.
 */
void
sl_statement_refuse_moved_rows(void)
{
	ereport(ERROR,
			errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			errmsg("could not serialize access because rows were moved to another shard"),
			errdetail("A shardlet has moved since the statement began."),
			errhint("Retry the transaction."));
	pg_unreachable();
}

/* Does the inner side of a join read its rows from a Material node? */
static bool
is_kept_above(const NestLoop *join)
{
	const Plan *inner = ((const Plan *) join)->righttree;

	return IsA(inner, Material) && join->nestParams == NIL && bms_is_empty(inner->extParam);
}

/*
 * Returns the plan of a node that modifies rows of a table, NULL for any other
 * node.  That of a distributed table has the ModifyTable that it stands for
 * (access/modify_node.c).
 */
const ModifyTable *
sl_statement_get_modify(const Plan *plan)
{
	const CustomScan *scan = (const CustomScan *) plan;

	if (IsA(plan, ModifyTable))
		return (const ModifyTable *) plan;
	if (!IsA(plan, CustomScan) || strcmp(scan->methods->CustomName, SL_MODIFY_NODE) != 0)
		return NULL;
	return linitial_node(ModifyTable, scan->custom_private);
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

	const ModifyTable *modify = sl_statement_get_modify(plan);

	if (modify != NULL)
		search->set_once = bms_add_member(search->set_once, modify->epqParam);
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
