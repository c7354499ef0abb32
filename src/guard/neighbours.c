/*
 * neighbours.c
 *		On a shard: a statement that other shards of its server run as well.
 *
 * Each of them would start workers as if it were alone on the server.  Four shards
 * with two workers each are twelve processes, and on a small server to start these
 * takes longer than they save.  So the router says behind the text how many shards
 * of the server have the statement, and the workers are so many that all of them
 * together use all processors, or as many processes as one database would.
 *
 * The plan stays a parallel one, which the process can run alone: without, there
 * would be less memory for hash tables, and worse plans.
 */
#include "postgres.h"

#include <unistd.h>

#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/planner.h"

#include "base/base.h"
#include "guard/guard.h"

/* The mark is looked for so near to the end of the text. */
#define MARK_LENGTH 64

/* A statement that begins so far behind is one of many in a script. */
#define FARTHEST_START 1024

static planner_hook_type next_planner_hook = NULL;

/* How many shards of this server have the statement? */
static int
count_shards(const char *source)
{
	size_t		length = source != NULL ? strlen(source) : 0;
	const char *mark;

	if (length < 2 || strcmp(source + length - 2, "*/") != 0)
		return 1;
	mark = strstr(source + (length > MARK_LENGTH ? length - MARK_LENGTH : 0), SL_NEIGHBOURS_MARK);
	return mark != NULL ? Max(atoi(mark + strlen(SL_NEIGHBOURS_MARK)), 1) : 1;
}

static int
count_workers(int shards)
{
	int			processors = (int) sysconf(_SC_NPROCESSORS_ONLN);
	int			processes = Max(max_parallel_workers_per_gather + 1, processors);

	return Min(max_parallel_workers_per_gather, Max(processes / shards - 1, 0));
}

static PlannedStmt *
plan(Query *query, const char *source, int options, ParamListInfo params)
{
	return next_planner_hook != NULL ? next_planner_hook(query, source, options, params) :
		standard_planner(query, source, options, params);
}

static void limit_all(List *plans, int workers);

/* No node has more workers than that, from here on down. */
static void
limit_workers(Plan *plan, int workers)
{
	if (plan == NULL)
		return;
	switch (nodeTag(plan))
	{
		case T_Gather:
			((Gather *) plan)->num_workers = Min(((Gather *) plan)->num_workers, workers);
			break;
		case T_GatherMerge:
			((GatherMerge *) plan)->num_workers = Min(((GatherMerge *) plan)->num_workers, workers);
			break;
		case T_Append:
			limit_all(((Append *) plan)->appendplans, workers);
			break;
		case T_MergeAppend:
			limit_all(((MergeAppend *) plan)->mergeplans, workers);
			break;
		case T_SubqueryScan:
			limit_workers(((SubqueryScan *) plan)->subplan, workers);
			break;
		case T_CustomScan:
			limit_all(((CustomScan *) plan)->custom_plans, workers);
			break;
		default:
			break;
	}
	limit_workers(plan->lefttree, workers);
	limit_workers(plan->righttree, workers);
}

static void
limit_all(List *plans, int workers)
{
	ListCell   *cell;

	foreach(cell, plans)
		limit_workers(lfirst(cell), workers);
}

static PlannedStmt *
plan_with_neighbours(Query *query, const char *source, int options, ParamListInfo params)
{
	bool		may_have_workers = max_parallel_workers_per_gather > 0 && query->commandType == CMD_SELECT &&
	query->stmt_location < FARTHEST_START;
	int			shards = may_have_workers ? count_shards(source) : 1;
	PlannedStmt *result = plan(query, source, options, params);

	if (shards > 1 && result->parallelModeNeeded)
	{
		limit_workers(result->planTree, count_workers(shards));
		limit_all(result->subplans, count_workers(shards));
	}
	return result;
}

void
sl_neighbours_init(void)
{
	next_planner_hook = planner_hook;
	planner_hook = plan_with_neighbours;
}
