/*
 * cost.c
 *		Costs of remote paths.
 */
#include "postgres.h"

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "access/access.h"

/* A round trip to a shard, and receiving one row. */
#define TRIP_COST 25.0
#define ROW_COST 0.01

/* Surplus rows of a stream that ends early have to be discarded. */
#define STOP_COST 5.0

/* Shards work in parallel. */
#define SHARDS_AT_A_TIME 4.0

/* Sorting on the shard costs a little more than not sorting. */
#define SORT_FACTOR 1.1

/*
 * A shard scans all of a table, unless a small fraction of the rows is
 * selected: these are assumed to be found by an index.
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
 * Reads both sides, or one of them and the matching rows of the other by an
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

/* Returns the cost of so many rows of the relation on all shards together. */
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
