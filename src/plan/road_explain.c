/*
 * road_explain.c
 *		What EXPLAIN tells of a road.
 */
#include "postgres.h"

#include "utils/lsyscache.h"

#include "plan/road.h"

/* A column by which rows are merged, as ORDER BY would have it. */
static char *
describe_key(const CustomScan *plan, const SlSortKey *key)
{
	const TargetEntry *column = list_nth(plan->custom_scan_tlist, key->column);
	const char *name = column->resname != NULL ? column->resname :
	psprintf("column %d", key->column + 1);
	bool		is_reverse = false;

	(void) get_equality_op_for_ordering_op(key->operator, &is_reverse);
	return psprintf("%s%s%s", name, is_reverse ? " DESC" : "",
					key->nulls_first == is_reverse ? "" :
					key->nulls_first ? " NULLS FIRST" : " NULLS LAST");
}

static void
show_keys(const SlRoadState *state, ExplainState *es)
{
	const CustomScan *plan = (const CustomScan *) state->css.ss.ps.plan;
	List	   *keys = NIL;

	for (int i = 0; i < state->ask.sort_count; i++)
		keys = lappend(keys, describe_key(plan, &state->ask.sort_keys[i]));
	ExplainPropertyList("Merge Keys", keys, es);
}

void
sl_road_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	SlRoadState *state = (SlRoadState *) node;

	if (state->ask.relations[0] != '\0')
		ExplainPropertyText("Relations", state->ask.relations, es);
	if (state->ask.sort_count > 0)
		show_keys(state, es);
	sl_ask_explain(&state->ask, es);
}
