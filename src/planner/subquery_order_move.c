/*
 * subquery_order_move.c
 *		Moves the ORDER BY of a subquery to the query around it.
 *
 * A column that only sorts the subquery becomes one of its output columns, after
 * all others, so that references to these stay as they are.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parse_clause.h"

#include "compat.h"
#include "planner/subquery_order.h"

/* Columns of the source ------------------------------------------------------------- */

static bool
is_sorted_by(const Query *query, const TargetEntry *entry)
{
	return entry->ressortgroupref != 0 &&
		get_sortgroupref_clause_noerr(entry->ressortgroupref, query->sortClause) != NULL;
}

/* Adds an output column to the eref of the relation. */
static void
add_column(SlSource *source, const TargetEntry *entry)
{
	RangeTblEntry *relation = source->entry;
	Oid			type = exprType((Node *) entry->expr);
	int32		modifier = exprTypmod((Node *) entry->expr);
	Oid			collation = exprCollation((Node *) entry->expr);
	CommonTableExpr *with = source->with;

	relation->eref->colnames = lappend(relation->eref->colnames,
									   makeString(pstrdup(entry->resname)));
	if (with == NULL)
		return;
	relation->coltypes = lappend_oid(relation->coltypes, type);
	relation->coltypmods = lappend_int(relation->coltypmods, modifier);
	relation->colcollations = lappend_oid(relation->colcollations, collation);
	with->ctecolnames = lappend(with->ctecolnames, makeString(pstrdup(entry->resname)));
	with->ctecoltypes = lappend_oid(with->ctecoltypes, type);
	with->ctecoltypmods = lappend_int(with->ctecoltypmods, modifier);
	with->ctecolcollations = lappend_oid(with->ctecolcollations, collation);
}

/* Makes the source return all columns that it is sorted by. */
static void
return_sort_columns(SlSource *source)
{
	Query	   *query = source->query;
	List	   *shown = NIL;
	List	   *others = NIL;
	List	   *added = NIL;
	ListCell   *cell;

	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (!entry->resjunk)
			shown = lappend(shown, entry);
		else if (is_sorted_by(query, entry))
			added = lappend(added, entry);
		else
			others = lappend(others, entry);
	}
	foreach(cell, added)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		entry->resjunk = false;
		entry->resname = psprintf("shardlet_order%d", foreach_current_index(cell) + 1);
		add_column(source, entry);
	}
	query->targetList = list_concat(list_concat(shown, added), others);
	foreach(cell, query->targetList)
		lfirst_node(TargetEntry, cell)->resno = (AttrNumber) (foreach_current_index(cell) + 1);
}

/* What sorts the source by this clause, as a column of the query around it. */
static Var *
column_of(const SlSource *source, SortGroupClause *clause, Index levels)
{
	const TargetEntry *entry = get_sortgroupclause_tle(clause, source->query->targetList);
	Node	   *value = (Node *) entry->expr;

	return makeVar((int) source->index, entry->resno, exprType(value), exprTypmod(value),
				   exprCollation(value), levels);
}

/* Is nothing else than the order of rows changed without the ORDER BY? */
static bool
can_drop(const Query *query)
{
	return !query->hasDistinctOn && !contain_volatile_functions((Node *) query->targetList);
}

/* Takes away the ORDER BY, if that has no other effect. */
void
sl_order_move_drop(Query *query)
{
	List	   *targets = NIL;
	List	   *used = list_concat_copy(query->groupClause, query->distinctClause);
	ListCell   *cell;

	if (!can_drop(query))
		return;
	foreach(cell, query->windowClause)
	{
		const WindowClause *window = lfirst_node(WindowClause, cell);

		used = list_concat(used, window->partitionClause);
		used = list_concat(used, window->orderClause);
	}
	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (entry->resjunk && is_sorted_by(query, entry) &&
			get_sortgroupref_clause_noerr(entry->ressortgroupref, used) == NULL)
			continue;
		targets = lappend(targets, entry);
		entry->resno = (AttrNumber) list_length(targets);
	}
	query->targetList = targets;
	query->sortClause = NIL;
}

/*
 * Set-returning functions return rows in the order of their input row, so the
 * source stays sorted; sorting it again costs nothing.
 */
static void
finish_move(SlSource *source)
{
	if (!source->query->hasTargetSRFs)
		sl_order_move_drop(source->query);
}

/* Into the query -------------------------------------------------------------------- */

/* The clause of the source, for another column. */
static SortGroupClause *
make_clause(const SortGroupClause *clause, Index reference)
{
	SortGroupClause *result = copyObject((SortGroupClause *) clause);

	result->tleSortGroupRef = reference;
	return result;
}

/*
 * Returns the target entry of the query for a column, a new junk one if there
 * is none.
 */
static Index
refer_to(Query *query, const Var *column)
{
	TargetEntry *entry = NULL;
	ListCell   *cell;

	foreach(cell, query->targetList)
	{
		if (entry == NULL && equal(lfirst_node(TargetEntry, cell)->expr, column))
			entry = lfirst_node(TargetEntry, cell);
	}
	if (entry == NULL)
	{
		entry = makeTargetEntry((Expr *) column, (AttrNumber) (list_length(query->targetList) + 1),
								NULL, true);
		query->targetList = lappend(query->targetList, entry);
	}
	return assignSortGroupRef(entry, query->targetList);
}

/*
 * Returns the clause among these for the column that the source is sorted by.
 */
static SortGroupClause *
find_clause(const SlSource *source, List *clauses, SortGroupClause *sort)
{
	const TargetEntry *column = get_sortgroupclause_tle(sort, source->query->targetList);
	ListCell   *cell;

	foreach(cell, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, cell);

		if (sl_order_use_is_column(source, get_sortgroupclause_expr(clause, source->outer->targetList),
								   column))
			return clause;
	}
	return NULL;
}

static bool
is_same_order(const SortGroupClause *a, const SortGroupClause *b)
{
	return a->sortop == b->sortop && a->nulls_first == b->nulls_first;
}

/*
 * Sorts by as many columns of the source's order as are among the clauses, with
 * "is_exact" in the same direction.  The planner wants such columns to come first in
 * DISTINCT.  Returns how many columns of the source's order these are.
 */
static int
sort_by_clauses(SlSource *source, List **clauses, bool is_exact)
{
	Query	   *outer = source->outer;
	List	   *rest = list_copy(*clauses);
	int			count = 0;
	ListCell   *cell;

	foreach(cell, source->query->sortClause)
	{
		SortGroupClause *clause = find_clause(source, rest, lfirst(cell));

		if (clause == NULL || (is_exact && !is_same_order(clause, lfirst(cell))))
			break;
		rest = list_delete_ptr(rest, clause);
		outer->sortClause = lappend(outer->sortClause,
									make_clause(lfirst(cell), clause->tleSortGroupRef));
		count++;
	}
	*clauses = list_concat(copyObject(outer->sortClause), rest);
	return count;
}

/* DISTINCT ON is sorted by its own columns first. */
static int
sort_by_distinct(SlSource *source)
{
	Query	   *outer = source->outer;
	int			count;

	if (outer->sortClause != NIL)
		return 0;
	count = sort_by_clauses(source, &outer->distinctClause, true);
	outer->sortClause = copyObject(outer->distinctClause);
	return count;
}

static bool
is_sorted_by_reference(const Query *query, Index reference)
{
	return get_sortgroupref_clause_noerr(reference, query->sortClause) != NULL;
}

/* Sorts the query by what the source is sorted by, from a column on. */
static void
sort_by_rest(SlSource *source, int from)
{
	Query	   *outer = source->outer;
	ListCell   *cell;

	return_sort_columns(source);
	for_each_from(cell, source->query->sortClause, from)
	{
		Index		reference = refer_to(outer, column_of(source, lfirst(cell), 0));

		if (!is_sorted_by_reference(outer, reference))
			outer->sortClause = lappend(outer->sortClause, make_clause(lfirst(cell), reference));
	}
}

/* Gives the query around the source the source's order. */
void
sl_order_move_to_query(SlSource *source)
{
	Query	   *outer = source->outer;

	if (outer->groupClause != NIL)
		(void) sort_by_clauses(source, &outer->groupClause, false);
	else if (outer->distinctClause != NIL && !outer->hasDistinctOn)
		(void) sort_by_clauses(source, &outer->distinctClause, false);
	else if (outer->hasDistinctOn)
		sort_by_rest(source, sort_by_distinct(source));
	else if (!outer->hasAggs && outer->havingQual == NULL)
		sort_by_rest(source, list_length(outer->sortClause));
	finish_move(source);
}

/* Into aggregates --------------------------------------------------------------------- */

typedef struct Sorting
{
	SlSource   *source;
	int			depth;			/* nesting of subqueries */
} Sorting;

static void
sort_aggregate(const Sorting *sorting, Aggref *aggregate)
{
	ListCell   *cell;

	foreach(cell, sorting->source->query->sortClause)
	{
		Var		   *column = column_of(sorting->source, lfirst(cell), (Index) sorting->depth);
		TargetEntry *entry = tlist_member((Expr *) column, aggregate->args);

		if (entry == NULL)
		{
			entry = makeTargetEntry((Expr *) column,
									(AttrNumber) (list_length(aggregate->args) + 1), NULL, true);
			aggregate->args = lappend(aggregate->args, entry);
		}
		aggregate->aggorder = lappend(aggregate->aggorder,
									  make_clause(lfirst(cell),
												  assignSortGroupRef(entry, aggregate->args)));
	}
}

static bool
sort_aggregates(Node *node, Sorting *sorting)
{
	bool		result;

	if (node == NULL)
		return false;
	if (IsA(node, Aggref) && (int) ((Aggref *) node)->agglevelsup == sorting->depth)
	{
		if (sl_order_use_is_sensitive((Aggref *) node))
			sort_aggregate(sorting, (Aggref *) node);
		return false;
	}
	if (!IsA(node, Query))
		return expression_tree_walker(node, sort_aggregates, (void *) sorting);
	sorting->depth++;
	result = query_tree_walker((Query *) node, sort_aggregates, (void *) sorting, 0);
	sorting->depth--;
	return result;
}

/* Gives the source's order to the aggregates that depend on it. */
void
sl_order_move_to_aggregates(SlSource *source)
{
	Sorting		sorting = {.source = source};

	return_sort_columns(source);
	(void) sort_aggregates((Node *) source->outer->targetList, &sorting);
	(void) sort_aggregates(source->outer->havingQual, &sorting);
	finish_move(source);
}
