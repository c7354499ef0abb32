/*
 * fdw_cost.c
 *		What it costs to read from shards, in the planner's unit.
 */
#include "postgres.h"

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "fdw/fdw.h"

/* A round trip to a shard, and taking in one row of it. */
#define TRIP_COST 25.0
#define ROW_COST 0.01

/* Shards work at the same time. */
#define SHARDS_AT_A_TIME 4.0

/* Sorting where the rows are costs a little more than not sorting. */
#define SORT_FACTOR 1.1

static double
pages_of(const RelOptInfo *rel, const SlRel *info)
{
	if (info->input != NULL)
		return pages_of(info->input, info->input->fdw_private);
	if (info->outer != NULL)
		return pages_of(info->outer, info->outer->fdw_private) +
			pages_of(info->inner, info->inner->fdw_private);
	return rel->pages;
}

static double
tuples_of(const RelOptInfo *rel, const SlRel *info)
{
	if (info->input != NULL)
		return tuples_of(info->input, info->input->fdw_private);
	if (info->outer != NULL)
		return tuples_of(info->outer, info->outer->fdw_private) +
			tuples_of(info->inner, info->inner->fdw_private);
	return rel->tuples;
}

/*
 * The shards read what is there, as far as an index does not spare them that,
 * and send the rows.  A few rows out of many are taken to be found by an index.
 */
void
sl_fdw_cost(const RelOptInfo *rel, const SlRel *info, double rows, bool is_sorted,
			Cost *startup, Cost *total)
{
	double		tuples = Max(tuples_of(rel, info), 1.0);
	double		part = Min(Max(rows / tuples, 0.0), 1.0);
	double		speed = info->is_single ? 1.0 : SHARDS_AT_A_TIME;
	Cost		reading = seq_page_cost * pages_of(rel, info) + cpu_tuple_cost * tuples;
	Cost		by_index = random_page_cost * rows + cpu_index_tuple_cost * rows;
	Cost		remote = part < 0.2 ? Min(reading, by_index) : reading;

	*startup = TRIP_COST;
	*total = TRIP_COST + remote / speed + ROW_COST * rows + cpu_tuple_cost * rows;
	if (is_sorted)
	{
		*startup *= SORT_FACTOR;
		*total = TRIP_COST * SORT_FACTOR + remote / speed * SORT_FACTOR + (ROW_COST + cpu_tuple_cost) * rows;
	}
}
