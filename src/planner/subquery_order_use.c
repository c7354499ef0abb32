/*
 * subquery_order_use.c
 *		How a query depends on the order in which a subquery returns its
 *		rows.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "planner/subquery_order.h"

/* Columns ------------------------------------------------------------------------- */

/* Is it this output column of the source?  It may be a column of RTE_GROUP. */
bool
sl_order_use_is_column(const SlSource *source, Node *expression, const TargetEntry *column)
{
	const Var  *var = (const Var *) expression;

	while (IsA(var, Var) && var->varlevelsup == 0 && var->varattno > 0 &&
		   var->varno != (int) source->index)
	{
		Node	   *group = sl_group_expression(rt_fetch(var->varno, source->outer->rtable),
												var->varattno);

		if (group == NULL)
			return false;
		var = (const Var *) group;
	}
	return IsA(var, Var) && var->varlevelsup == 0 && var->varno == (int) source->index &&
		!column->resjunk && var->varattno == column->resno;
}

/* Is the query sorted by columns that it does not return? */
static bool
has_junk_order(const Query *query)
{
	ListCell   *cell;

	foreach(cell, query->sortClause)
	{
		if (get_sortgroupclause_tle(lfirst(cell), query->targetList)->resjunk)
			return true;
	}
	return false;
}

typedef struct Rows
{
	Index		index;
	int			depth;
} Rows;

/* Is there a reference to the whole row of the source? */
static bool
has_whole_row(Node *node, Rows *rows)
{
	bool		result;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varno == (int) rows->index && ((Var *) node)->varattno == 0 &&
			(int) ((Var *) node)->varlevelsup == rows->depth;
	if (!IsA(node, Query))
		return expression_tree_walker(node, has_whole_row, (void *) rows);
	rows->depth++;
	result = query_tree_walker((Query *) node, has_whole_row, (void *) rows, 0);
	rows->depth--;
	return result;
}

/* A row that is used as one value must not get further columns. */
static bool
is_closed(const SlSource *source)
{
	Rows		rows = {.index = source->index};

	return has_junk_order(source->query) &&
		query_tree_walker(source->outer, has_whole_row, (void *) &rows, 0);
}

/* Aggregates ---------------------------------------------------------------------- */

/* Does the aggregate have a combine function, for input in any order? */
static bool
can_be_combined(Oid function)
{
	HeapTuple	row = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(function));
	bool		result;

	if (!HeapTupleIsValid(row))
		elog(ERROR, "cache lookup failed for aggregate %u", function);
	result = OidIsValid(((Form_pg_aggregate) GETSTRUCT(row))->aggcombinefn);
	ReleaseSysCache(row);
	return result;
}

/* Does the result depend on the order of the rows? */
bool
sl_order_use_is_sensitive(const Aggref *aggregate)
{
	const char *name;

	if (aggregate->aggkind != AGGKIND_NORMAL || aggregate->args == NIL ||
		aggregate->aggorder != NIL || aggregate->aggdistinct != NIL)
		return false;
	if (!can_be_combined(aggregate->aggfnoid))
		return true;
	if (aggregate->aggfnoid >= FirstNormalObjectId)
		return false;

	/* These have a combine function since 16. */
	name = get_func_name(aggregate->aggfnoid);
	return strcmp(name, "array_agg") == 0 || strcmp(name, "string_agg") == 0;
}

/*
 * "depth" counts the nesting of subqueries: an aggregate may be in one of
 * them.
 */
static bool
has_sensitive(Node *node, int *depth)
{
	bool		result;

	if (node == NULL)
		return false;
	if (IsA(node, Aggref) && (int) ((Aggref *) node)->agglevelsup == *depth)
		return sl_order_use_is_sensitive((Aggref *) node);
	if (!IsA(node, Query))
		return expression_tree_walker(node, has_sensitive, (void *) depth);
	(*depth)++;
	result = query_tree_walker((Query *) node, has_sensitive, (void *) depth, 0);
	(*depth)--;
	return result;
}

static bool
is_aggregated(const Query *query)
{
	return query->hasAggs || query->groupClause != NIL || query->groupingSets != NIL ||
		query->havingQual != NULL;
}

static bool
has_sensitive_aggregates(const Query *query)
{
	int			depth = 0;

	return query->hasAggs && (has_sensitive((Node *) query->targetList, &depth) ||
							  has_sensitive(query->havingQual, &depth));
}

/* Groups may be sorted, so their aggregates need an ORDER BY of their own. */
bool
sl_order_use_is_in_aggregates(const Query *outer)
{
	return (outer->groupClause != NIL || outer->groupingSets != NIL) &&
		has_sensitive_aggregates(outer);
}

/* Windows --------------------------------------------------------------------------- */

/* Does the order of the source begin with these clauses, whatever their order? */
static bool
begins_with(const SlSource *source, const List *clauses)
{
	List	   *sort = source->query->sortClause;

	if (list_length(clauses) > list_length(sort))
		return false;
	for (int i = 0; i < list_length(clauses); i++)
	{
		const TargetEntry *column = get_sortgroupclause_tle(list_nth(sort, i),
															source->query->targetList);
		bool		is_found = false;
		ListCell   *cell;

		foreach(cell, clauses)
			is_found = is_found ||
			sl_order_use_is_column(source, get_sortgroupclause_expr(lfirst(cell),
																	source->outer->targetList),
								   column);
		if (!is_found)
			return false;
	}
	return true;
}

/* Do window functions depend on the order of peer rows? */
static bool
has_open_window(const SlSource *source)
{
	ListCell   *cell;

	foreach(cell, source->outer->windowClause)
	{
		const WindowClause *window = lfirst_node(WindowClause, cell);

		if (window->orderClause == NIL ||
			begins_with(source, list_concat_copy(window->partitionClause, window->orderClause)))
			return true;
	}
	return false;
}

/* The query --------------------------------------------------------------------------- */

static bool
is_limited(const Query *query)
{
	return query->limitCount != NULL || query->limitOffset != NULL;
}

/*
 * Might the query use the order of what is in FROM?  "is_wanted" says that its own
 * rows are wanted in that order.
 */
bool
sl_order_use_may_be(const Query *outer, bool is_wanted)
{
	if (is_aggregated(outer))
		return has_sensitive_aggregates(outer) || is_limited(outer);
	return is_wanted || is_limited(outer) || outer->hasDistinctOn || outer->hasWindowFuncs;
}

/* Is the query's own order the beginning of the source's? */
static bool
is_continued(const SlSource *source)
{
	const Query *outer = source->outer;
	List	   *sort = source->query->sortClause;
	ListCell   *cell;

	if (list_length(outer->sortClause) > list_length(sort))
		return false;
	foreach(cell, outer->sortClause)
	{
		const SortGroupClause *own = lfirst_node(SortGroupClause, cell);
		SortGroupClause *inner = list_nth_node(SortGroupClause, sort, foreach_current_index(cell));

		if (own->sortop != inner->sortop || own->nulls_first != inner->nulls_first ||
			!sl_order_use_is_column(source, get_sortgroupclause_expr((SortGroupClause *) own,
																	 outer->targetList),
									get_sortgroupclause_tle(inner, source->query->targetList)))
			return false;
	}
	return true;
}

/* Shall the query be sorted like the source? */
bool
sl_order_use_is_taken(const SlSource *source, bool is_wanted)
{
	const Query *outer = source->outer;

	if (outer->hasDistinctOn && !is_aggregated(outer) && !outer->hasWindowFuncs)
		return true;
	if (is_aggregated(outer) || outer->distinctClause != NIL)
		return is_limited(outer) && outer->sortClause == NIL && outer->groupingSets == NIL &&
			!outer->hasWindowFuncs && !outer->hasDistinctOn;
	return !outer->hasWindowFuncs && (is_wanted || is_limited(outer)) && is_continued(source);
}

/* Must the source be sorted before the query is computed? */
bool
sl_order_use_is_input(const SlSource *source, bool is_wanted)
{
	const Query *outer = source->outer;

	if (is_aggregated(outer))
		return has_sensitive_aggregates(outer) &&
			((outer->groupClause == NIL && outer->groupingSets == NIL) || is_closed(source));
	if (outer->hasWindowFuncs)
		return has_open_window(source);
	return sl_order_use_is_taken(source, is_wanted) && is_closed(source);
}
