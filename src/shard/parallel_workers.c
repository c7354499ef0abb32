/*
 * parallel_workers.c
 *		On a shard: limits the parallel workers of a statement that
 *		co-hosted shards run as well.
 *
 * Each of them would start workers as if it were the only database of the
 * server.  Four shards with two workers each are twelve processes, and on a
 * small server starting these takes longer than they save.  So the router
 * appends to the query string how many shards of the server run the statement,
 * and the number of workers is limited such that all of them together use all
 * processors, or as many processes as one database would.
 *
 * The plan stays a parallel one, which the leader can run without workers: a
 * serial plan would have less memory for hash tables, and be worse.
 */
#include "postgres.h"

#include <unistd.h>

#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/planner.h"

#include "base/base.h"
#include "shard/shard.h"

/* The mark is searched within so many bytes of the end. */
#define MARK_LENGTH 64

/* A statement that begins after so many bytes is one of many in a script. */
#define FARTHEST_START 1024

static planner_hook_type next_planner_hook = NULL;

/* Returns how many shards of this server run the statement. */
static int
count_shards(const char *source)
{
	size_t		length = source != NULL ? strlen(source) : 0;
	const char *mark;

	if (length < 2 || strcmp(source + length - 2, "*/") != 0)
		return 1;
	mark = strstr(source + (length > MARK_LENGTH ? length - MARK_LENGTH : 0), SL_COHOSTED_MARK);
	return mark != NULL ? Max(atoi(mark + strlen(SL_COHOSTED_MARK)), 1) : 1;
}

static int
count_workers(int shards)
{
	int			processors = (int) sysconf(_SC_NPROCESSORS_ONLN);
	int			processes = Max(max_parallel_workers_per_gather + 1, processors);

	return Min(max_parallel_workers_per_gather, Max(processes / shards - 1, 0));
}

static PlannedStmt *
plan_next(Query *query, const char *source, int options, ParamListInfo params)
{
	return next_planner_hook != NULL ? next_planner_hook(query, source, options, params) :
		standard_planner(query, source, options, params);
}

static void limit_all(List *plans, int workers);

/* Limits the workers of all nodes below. */
static void
limit_workers(Plan *plan_next, int workers)
{
	if (plan_next == NULL)
		return;
	switch (nodeTag(plan_next))
	{
		case T_Gather:
			((Gather *) plan_next)->num_workers = Min(((Gather *) plan_next)->num_workers, workers);
			break;
		case T_GatherMerge:
			((GatherMerge *) plan_next)->num_workers = Min(((GatherMerge *) plan_next)->num_workers, workers);
			break;
		case T_Append:
			limit_all(((Append *) plan_next)->appendplans, workers);
			break;
		case T_MergeAppend:
			limit_all(((MergeAppend *) plan_next)->mergeplans, workers);
			break;
		case T_SubqueryScan:
			limit_workers(((SubqueryScan *) plan_next)->subplan, workers);
			break;
		case T_CustomScan:
			limit_all(((CustomScan *) plan_next)->custom_plans, workers);
			break;
		default:
			break;
	}
	limit_workers(plan_next->lefttree, workers);
	limit_workers(plan_next->righttree, workers);
}

static void
limit_all(List *plans, int workers)
{
	ListCell   *cell;

	foreach(cell, plans)
		limit_workers(lfirst(cell), workers);
}

static PlannedStmt *
plan_with_cohosted(Query *query, const char *source, int options, ParamListInfo params)
{
	bool		may_have_workers = max_parallel_workers_per_gather > 0 && query->commandType == CMD_SELECT &&
	query->stmt_location < FARTHEST_START;
	int			shards = may_have_workers ? count_shards(source) : 1;
	PlannedStmt *result = plan_next(query, source, options, params);

	if (shards > 1 && result->parallelModeNeeded)
	{
		limit_workers(result->planTree, count_workers(shards));
		limit_all(result->subplans, count_workers(shards));
	}
	return result;
}

void
sl_parallel_workers_init(void)
{
	next_planner_hook = planner_hook;
	planner_hook = plan_with_cohosted;
}
