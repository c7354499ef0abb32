/*
 * shippable_merge.c
 *		Decides whether the condition and the actions of MERGE are shippable.
 *
 * An action may not be executed, so its expressions are in a branch.  An exception are
 * volatile functions in an INSERT action, such as the nextval() of a default: if the
 * source is a single row, they are evaluated once or not at all.  Built-in ones are
 * evaluated on the router before the statement is sent, as for INSERT ... ON CONFLICT;
 * a sequence may have a gap then.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"

#include "compat.h"
#include "deparse/shippable.h"

/* Is it VALUES with one row? */
static bool
is_one_row_of_values(const Query *query)
{
	List	   *from = query->jointree->fromlist;
	const RangeTblEntry *entry;

	if (list_length(from) != 1 || !IsA(linitial(from), RangeTblRef))
		return false;
	entry = rt_fetch(linitial_node(RangeTblRef, from)->rtindex, query->rtable);
	return entry->rtekind == RTE_VALUES && list_length(entry->values_lists) == 1 &&
		!expression_returns_set((Node *) entry->values_lists);
}

/* Has the source at most one row, whatever is in the tables? */
static bool
has_one_source_row(const Query *query)
{
	Node	   *source = linitial(query->jointree->fromlist);
	const RangeTblEntry *entry;
	const Query *subquery;

	if (!IsA(source, RangeTblRef))
		return false;
	entry = rt_fetch(((RangeTblRef *) source)->rtindex, query->rtable);
	if (entry->rtekind != RTE_SUBQUERY)
		return false;
	subquery = entry->subquery;
	return subquery->commandType == CMD_SELECT && subquery->setOperations == NULL && !subquery->hasTargetSRFs &&
		(subquery->jointree->fromlist == NIL || is_one_row_of_values(subquery));
}

/* Does it call built-in volatile functions, and no others? */
static bool
is_volatile_built_in(Node *value)
{
	return contain_volatile_functions(value) && !sl_shippable_calls_others(value, NULL);
}

static void
check_inserted(MergeAction *action, bool has_one_row, SlShippableCheck *shipping)
{
	int			branches = shipping->branches;
	ListCell   *cell;

	foreach(cell, action->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		shipping->ship->computes_once = has_one_row && is_volatile_built_in((Node *) entry->expr);
		if (shipping->ship->computes_once)
			shipping->branches = 0;
		entry->expr = (Expr *) sl_shippable_make_node((Node *) entry->expr, shipping);
		shipping->ship->computes_once = false;
		shipping->branches = branches;
	}
}

static void
check_action(MergeAction *action, bool has_one_row, SlShippableCheck *shipping)
{
	action->qual = sl_shippable_make_node(action->qual, shipping);
	if (action->commandType == CMD_INSERT)
		check_inserted(action, has_one_row, shipping);
	else
	{
		action->targetList = sl_shippable_order_assignments(action->targetList, shipping);
		action->targetList = (List *) sl_shippable_make_node((Node *) action->targetList, shipping);
	}
	sl_shippable_parameterize_values(action->targetList, shipping->ship);
}

/* Changes the condition and the actions into their shippable form. */
void
sl_shippable_check_merge(Query *query, SlShippableCheck *shipping)
{
	bool		has_one_row = has_one_source_row(query);
	int			branches = shipping->branches;
	ListCell   *cell;

	if (SL_MERGE_CONDITION_APART)
		sl_merge_condition(query) = sl_shippable_check_condition(sl_merge_condition(query), shipping);
	shipping->branches++;
	foreach(cell, query->mergeActionList)
		check_action(lfirst_node(MergeAction, cell), has_one_row, shipping);
	shipping->branches = branches;
}
