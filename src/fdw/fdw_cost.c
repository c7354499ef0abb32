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

/* Rows that nobody wants any more have to be stopped. */
#define STOP_COST 5.0

/* Shards work at the same time. */
#define SHARDS_AT_A_TIME 4.0

/* Sorting where the rows are costs a little more than not sorting. */
#define SORT_FACTOR 1.1

/*
 * A shard reads all of a table, unless a few rows out of many are wanted: these
 * are taken to be found by an index.
 */
static Cost
cost_of_table(const RelOptInfo *rel, double rows)
{
	Cost		reading = seq_page_cost * rel->pages + cpu_tuple_cost * rel->tuples;
	Cost		by_index = (random_page_cost + cpu_index_tuple_cost) * rows;

	return rows < 0.2 * rel->tuples ? Min(reading, by_index) : reading;
}

static Cost cost_of_work(const RelOptInfo *rel, const SlRel *info, double rows);

/*
 * Both sides are read, or one of them and what belongs to it is found by an
 * index.
 */
static Cost
cost_of_join(const SlRel *info, double rows)
{
	Cost		outer = cost_of_work(info->outer, info->outer->fdw_private, info->outer->rows);
	Cost		inner = cost_of_work(info->inner, info->inner->fdw_private, info->inner->rows);
	Cost		by_index = (random_page_cost + cpu_index_tuple_cost) * rows;

	return Min(outer + inner, Min(outer, inner) + by_index) + cpu_tuple_cost * rows;
}

/* What the shards have to do together for so many rows of the relation. */
static Cost
cost_of_work(const RelOptInfo *rel, const SlRel *info, double rows)
{
	if (info->input != NULL && info->limit_count != NULL && !info->has_groups &&
		IS_SIMPLE_REL(info->input))
		return cost_of_table(info->input, rows);
	if (info->input != NULL)
		return cost_of_work(info->input, info->input->fdw_private, info->input->rows) +
			cpu_operator_cost * info->input->rows;
	if (info->outer != NULL)
		return cost_of_join(info, rows);
	return cost_of_table(rel, rows);
}

void
sl_fdw_cost(const RelOptInfo *rel, const SlRel *info, double rows, bool is_sorted,
			Cost *startup, Cost *total)
{
	Cost		work = cost_of_work(rel, info, rows) / (info->is_single ? 1.0 : SHARDS_AT_A_TIME);

	*startup = TRIP_COST;
	if (info->limit_count == NULL)
		*startup += STOP_COST;
	if (is_sorted)
	{
		*startup *= SORT_FACTOR;
		work *= SORT_FACTOR;
	}

	/* Groups are complete only at the end. */
	if (info->has_groups)
	{
		*startup += work;
		work = 0;
	}
	*total = *startup + work + (ROW_COST + cpu_tuple_cost) * rows;
}
