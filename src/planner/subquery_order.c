/*
 * subquery_order.c
 *		Keeps the ORDER BY of a subquery, a CTE or a view where it can be seen.
 *
 * SQL leaves the order of a subquery's rows open; PostgreSQL keeps it, and its
 * users count on that.  Rows of several shards have no order unless they are merged
 * by one, so before a statement is pushed down to all shards each such ORDER BY is
 * moved to where it takes effect, or is dropped:
 *
 * - FROM is the sorted subquery alone, and the query returns its rows, or some of
 *	 them (LIMIT, DISTINCT ON): the query gets the ORDER BY, and the columns that it
 *	 lacks as junk.  Then it is merged like any other.
 * - Groups with aggregates that depend on the order: these get the ORDER BY.
 * - Other aggregates that depend on the order, and windows without one: the
 *	 subquery must be sorted as a whole.  It gets OFFSET 0, and so is neither pushed
 *	 down together with the query around it nor merged into that by PostgreSQL.
 * - Everywhere else the order makes no difference, and would only keep shards from
 *	 splitting aggregates.
 *
 * A subquery with LIMIT is left alone: it is never pushed down to several shards
 * together with the query around it, and PostgreSQL keeps its order.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"

#include "compat.h"
#include "metadata/table.h"
#include "planner/subquery_order.h"

/* What is known of a CTE from the queries that refer to it. */
typedef struct WithUse
{
	bool		is_done;		/* its only reference has been looked at */
	bool		is_wanted;		/* a reference counts on its order */
} WithUse;

/* A query, and the one that it is in. */
typedef struct Scope
{
	struct Scope *outer;
	Query	   *query;
	WithUse    *uses;			/* of cteList */
} Scope;

static void keep_orders(Scope *outer, Query *query, bool is_wanted);

/* Sorted queries ------------------------------------------------------------------ */

static bool
is_limited(const Query *query)
{
	return query->limitCount != NULL || query->limitOffset != NULL;
}

/* Is it a SELECT whose order can be moved or dropped? */
static bool
is_sorted(const Query *query)
{
	return query->commandType == CMD_SELECT && query->sortClause != NIL && !is_limited(query) &&
		query->rowMarks == NIL;
}

/* Is there a sorted subquery in it? */
static bool
has_sorted(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return is_sorted((Query *) node) ||
			query_tree_walker((Query *) node, has_sorted, context, 0);
	return expression_tree_walker(node, has_sorted, context);
}

/* Does it read a table that may be distributed, or a CTE that may? */
static bool
may_be_distributed(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_CTE ||
			(((RangeTblEntry *) node)->rtekind == RTE_RELATION &&
			 sl_table_is_remote(((RangeTblEntry *) node)->relid, ((RangeTblEntry *) node)->relkind));
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, may_be_distributed, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, may_be_distributed, context);
}

/* Has the query sorted as a whole, wherever its rows come from. */
static void
order_of_offset_zero(Query *query)
{
	if (is_sorted(query))
		query->limitOffset = (Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
												Int64GetDatum(0), false, FLOAT8PASSBYVAL);
}

/* Drops an order without effect. */
static void
drop_order(Query *query)
{
	if (is_sorted(query) && may_be_distributed((Node *) query, NULL))
		sl_order_move_drop(query);
}

/* Relations ----------------------------------------------------------------------- */

/* The CTE that a relation stands for, and the scope that it is defined in. */
static CommonTableExpr *
find_with(Scope *scope, const RangeTblEntry *entry, Scope **at, int *number)
{
	ListCell   *cell;

	for (Index i = 0; i < entry->ctelevelsup && scope != NULL; i++)
		scope = scope->outer;
	*at = scope;
	foreach(cell, scope != NULL ? scope->query->cteList : NIL)
	{
		CommonTableExpr *with = lfirst_node(CommonTableExpr, cell);

		*number = foreach_current_index(cell);
		if (strcmp(with->ctename, entry->ctename) == 0)
			return with;
	}
	return NULL;
}

/* The relation that FROM consists of, or NULL. */
static RangeTblEntry *
find_only_relation(const Query *query, Index *index)
{
	List	   *from = query->jointree != NULL ? query->jointree->fromlist : NIL;

	if (list_length(from) != 1 || !IsA(linitial(from), RangeTblRef))
		return NULL;
	*index = (Index) linitial_node(RangeTblRef, from)->rtindex;
	return rt_fetch(*index, query->rtable);
}

/* Applies the order of the source to the outer query, or drops it. */
static void
use_order(SlSource *source, bool is_wanted)
{
	if (!is_sorted(source->query) || source->outer->rowMarks != NIL)
		return;
	if (sl_order_use_is_input(source, is_wanted))
		order_of_offset_zero(source->query);
	else if (sl_order_use_is_in_aggregates(source->outer))
		sl_order_move_to_aggregates(source);
	else if (sl_order_use_is_taken(source, is_wanted))
		sl_order_move_to_query(source);
	else
		drop_order(source->query);
}

/* A CTE with one reference is a subquery; with several it is sorted as a whole. */
static void
keep_with(Scope *scope, SlSource *source, bool is_wanted)
{
	Scope	   *at;
	int			number = 0;
	CommonTableExpr *with = find_with(scope, source->entry, &at, &number);
	bool		may_be_used = sl_order_use_may_be(scope->query, is_wanted);

	if (with == NULL || with->cterecursive || source->entry->self_reference)
		return;
	if (with->cterefcount != 1 || castNode(Query, with->ctequery)->commandType != CMD_SELECT)
	{
		at->uses[number].is_wanted = at->uses[number].is_wanted || may_be_used;
		return;
	}
	at->uses[number].is_done = true;
	source->with = with;
	source->query = castNode(Query, with->ctequery);
	keep_orders(at, source->query, may_be_used);
	use_order(source, is_wanted);
}

static void
keep_source(Scope *scope, Index index, RangeTblEntry *entry, bool is_wanted)
{
	SlSource	source = {.outer = scope->query,.index = index,.entry = entry};

	if (entry->rtekind == RTE_CTE)
		keep_with(scope, &source, is_wanted);
	else
	{
		source.query = entry->subquery;
		keep_orders(scope, source.query, sl_order_use_may_be(scope->query, is_wanted));
		use_order(&source, is_wanted);
	}
}

/* The rows of INSERT ... SELECT get their defaults in the order of the SELECT. */
static void
keep_relation(Scope *scope, RangeTblEntry *entry, bool is_inserted)
{
	if (entry->rtekind != RTE_SUBQUERY)
		return;
	keep_orders(scope, entry->subquery, is_inserted);
	if (!is_inserted)
		drop_order(entry->subquery);
}

static void
keep_relations(Scope *scope, bool is_wanted)
{
	Query	   *query = scope->query;
	Index		only = 0;
	RangeTblEntry *entry = find_only_relation(query, &only);
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		if (lfirst(cell) != entry)
			keep_relation(scope, lfirst_node(RangeTblEntry, cell), false);
	}
	if (entry == NULL)
		return;
	if (query->commandType != CMD_SELECT)
		keep_relation(scope, entry, query->commandType == CMD_INSERT);
	else if (entry->rtekind == RTE_SUBQUERY || entry->rtekind == RTE_CTE)
		keep_source(scope, only, entry, is_wanted);
}

/* UNION ALL returns the rows of one arm after those of another. */
static void
keep_arms(Scope *scope, Node *tree, bool is_wanted)
{
	Query	   *arm;

	if (IsA(tree, SetOperationStmt))
	{
		const SetOperationStmt *operation = (const SetOperationStmt *) tree;

		is_wanted = is_wanted && operation->op == SETOP_UNION && operation->all;
		keep_arms(scope, operation->larg, is_wanted);
		keep_arms(scope, operation->rarg, is_wanted);
		return;
	}
	arm = rt_fetch(((RangeTblRef *) tree)->rtindex, scope->query->rtable)->subquery;
	keep_orders(scope, arm, is_wanted);
	if (is_wanted)
		order_of_offset_zero(arm);
	else
		drop_order(arm);
}

/* Queries --------------------------------------------------------------------------- */

static bool
keep_sublinks(Node *node, Scope *scope)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubLink))
	{
		const SubLink *link = (const SubLink *) node;
		Query	   *query = castNode(Query, link->subselect);

		keep_orders(scope, query, link->subLinkType == ARRAY_SUBLINK);
		if (link->subLinkType == EXISTS_SUBLINK || link->subLinkType == ANY_SUBLINK ||
			link->subLinkType == ALL_SUBLINK)
			drop_order(query);
		return keep_sublinks(link->testexpr, scope);
	}
	return expression_tree_walker(node, keep_sublinks, (void *) scope);
}

/* The last one first: it may refer to those before it. */
static void
keep_withs(Scope *scope)
{
	List	   *withs = scope->query->cteList;

	for (int i = list_length(withs) - 1; i >= 0; i--)
	{
		const CommonTableExpr *with = list_nth_node(CommonTableExpr, withs, i);
		Query	   *query = castNode(Query, with->ctequery);

		if (with->cterecursive || scope->uses[i].is_done)
			continue;
		keep_orders(scope, query, scope->uses[i].is_wanted);
		if (scope->uses[i].is_wanted)
			order_of_offset_zero(query);
		else
			drop_order(query);
	}
}

/*
 * Processes a query and its subqueries.  "is_wanted" says that the outer query
 * depends on the order of its rows, if they have one.
 */
static void
keep_orders(Scope *outer, Query *query, bool is_wanted)
{
	Scope		scope = {.outer = outer,.query = query};

	scope.uses = palloc0(sizeof(WithUse) * (Size) Max(list_length(query->cteList), 1));
	if (query->setOperations != NULL)
		keep_arms(&scope, query->setOperations,
				  query->sortClause == NIL && (is_wanted || is_limited(query)));
	else
		keep_relations(&scope, is_wanted);
	(void) query_tree_walker(query, keep_sublinks, (void *) &scope,
							 QTW_IGNORE_RT_SUBQUERIES | QTW_IGNORE_CTE_SUBQUERIES);
	keep_withs(&scope);
}

/*
 * Returns a copy of the statement in which each ORDER BY is where it takes effect,
 * or NULL if there is nothing to be done.
 */
Query *
sl_subquery_order_keep(Query *query)
{
	Query	   *result;

	if (!query_tree_walker(query, has_sorted, NULL, 0))
		return NULL;
	result = copyObject(query);
	keep_orders(NULL, result, true);
	return result;
}
