/*
 * leaf.c
 *		Takes what shards can answer out of a statement, and has the rest planned.
 *
 * What is taken out leaves one relation behind, a call of scatter_leaf() that is
 * never made: while the statement is planned, PostgreSQL takes it for a function in
 * FROM, and leaf_path.c has the shards read for it.  Its arguments are what shards
 * get as parameters and what decides on the shards, so that these are planned along
 * with the statement.
 *
 * Leaves are known by number for the length of one call of the planner, which may
 * be called again within it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_func.h"
#include "parser/parsetree.h"

#include "base/base.h"
#include "compat.h"
#include "plan/leaf.h"
#include "plan/plan.h"

PG_FUNCTION_INFO_V1(shardlet_scatter_leaf);

/* One call of the planner. */
typedef struct Planning
{
	struct Planning *outer;		/* that this one is made in */
	Oid			function;		/* scatter_leaf() */
	ParamListInfo params;
	bool		with_keys;		/* count(DISTINCT key) may be split */
	int			links;			/* subqueries in expressions that we are in */
	List	   *leaves;
} Planning;

static Planning *planning = NULL;

Datum
shardlet_scatter_leaf(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("shardlet.scatter_leaf() cannot be called"));
	PG_RETURN_NULL();
}

/* The leaf that a relation of the statement is, or NULL. */
SlLeaf *
sl_leaf_find(const RangeTblEntry *entry)
{
	const FuncExpr *call;

	if (planning == NULL || entry->rtekind != RTE_FUNCTION || list_length(entry->functions) != 1)
		return NULL;
	call = (const FuncExpr *) linitial_node(RangeTblFunction, entry->functions)->funcexpr;
	if (!IsA(call, FuncExpr) || call->funcid != planning->function)
		return NULL;
	return list_nth(planning->leaves, DatumGetInt32(linitial_node(Const, call->args)->constvalue));
}

/* Which queries --------------------------------------------------------------------- */

/*
 * Is what is made of the rows worth more than a list of them?  Reading one table is
 * what the foreign data wrapper does as well, and it can stop early.
 */
static bool
is_worthwhile(const Query *query)
{
	return query->hasAggs || query->groupClause != NIL || query->groupingSets != NIL ||
		query->distinctClause != NIL || query->hasWindowFuncs || query->setOperations != NULL ||
		(bms_num_members(sl_level_joined((Node *) query->jointree)) > 1 && query->limitCount == NULL);
}

/* Does it refer to what is outside of the query at this depth? */
static bool
refers_outside(Node *node, int *depth)
{
	bool		result;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return (int) ((Var *) node)->varlevelsup > *depth;
	if (IsA(node, Aggref) && (int) ((Aggref *) node)->agglevelsup > *depth)
		return true;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_CTE &&
			(int) ((RangeTblEntry *) node)->ctelevelsup > *depth;
	if (!IsA(node, Query))
		return expression_tree_walker(node, refers_outside, (void *) depth);
	(*depth)++;
	result = query_tree_walker((Query *) node, refers_outside, (void *) depth,
							   QTW_EXAMINE_RTES_BEFORE);
	(*depth)--;
	return result;
}

/* Is it a SELECT that depends on nothing around it? */
static bool
is_candidate(Query *query)
{
	int			depth = -1;

	return query->commandType == CMD_SELECT && query->rowMarks == NIL && !query->hasForUpdate &&
		!query->hasModifyingCTE && !query->hasRowSecurity && is_worthwhile(query) &&
		!refers_outside((Node *) query, &depth);
}

/* Rows of several shards come in no order, and as many as there are. */
static bool
can_be_whole(const SlLeaf *leaf)
{
	return leaf->where->kind == SL_WHERE_ONE ||
		(leaf->plain->sortClause == NIL && leaf->plain->limitCount == NULL &&
		 leaf->plain->limitOffset == NULL);
}

static int
next_number(void)
{
	return list_length(planning->leaves);
}

/*
 * A subquery in an expression may not be wanted for these parameters, as in "CASE
 * WHEN $1 = 0 THEN 0 ELSE (SELECT ... 10 / $1)"; then they must not be put in.
 */
static void
add_leaf(SlLeaf *leaf)
{
	sl_leaf_estimate(leaf, planning->links == 0 ? planning->params : NULL);
	planning->leaves = lappend(planning->leaves, leaf);
}

/* The query with a leaf in it, or NULL. */
static Query *
with_leaf(Query *query, bool is_top)
{
	SlLeaf	   *leaf;
	Query	   *result;

	if (!is_top)
	{
		leaf = sl_leaf_make(query);
		if (leaf != NULL && can_be_whole(leaf))
		{
			result = sl_leaf_whole(leaf, next_number(), planning->function);
			add_leaf(leaf);
			return result;
		}
	}
	result = sl_leaf_from(query, next_number(), planning->function, planning->with_keys, &leaf);
	if (result != NULL)
		add_leaf(leaf);
	return result;
}

/* Replaces what shards can answer, from the outside to the inside. */
static Node *
replace(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;
		Query	   *result = is_candidate(query) ? with_leaf(query, false) : NULL;

		return (Node *) query_tree_mutator(result != NULL ? result : query, replace, context, 0);
	}
	if (IsA(node, SubLink))
	{
		planning->links++;
		node = expression_tree_mutator(node, replace, context);
		planning->links--;
		return node;
	}
	return expression_tree_mutator(node, replace, context);
}

static Query *
replace_in(Query *query)
{
	Query	   *result = is_candidate(query) ? with_leaf(query, true) : NULL;

	return query_tree_mutator(result != NULL ? result : query, replace, NULL, 0);
}

/* Planning ----------------------------------------------------------------------------- */

static bool
has_failed_split(void)
{
	ListCell   *cell;

	foreach(cell, planning->leaves)
	{
		const SlLeaf *leaf = lfirst(cell);

		if (leaf->must_split && !leaf->has_split)
			return true;
	}
	return false;
}

/* Returns NULL if there is nothing that shards can answer. */
static PlannedStmt *
plan_rest(Query *query, const char *source, int options, ParamListInfo params,
		  planner_hook_type plan)
{
	Query	   *rest = replace_in(copyObject(query));
	PlannedStmt *result;
	ListCell   *cell;

	if (planning->leaves == NIL)
		return NULL;
	result = plan(rest, source, options, params);
	if (has_failed_split())
	{
		planning->leaves = NIL;
		planning->with_keys = false;
		return plan_rest(query, source, options, params, plan);
	}
	foreach(cell, planning->leaves)
		sl_finish_add_relations(result, ((SlLeaf *) lfirst(cell))->plain);

	/* What shards of a map have in common changes with the map. */
	result->relationOids = lappend_oid(result->relationOids, sl_catalog_oid(SL_MAP_TABLE));
	return result;
}

/*
 * Plans a statement of which shards can answer a part.  Returns NULL if they cannot,
 * or if that gains nothing.  "plan" plans the rest.
 */
PlannedStmt *
sl_leaf_plan(Query *query, const char *source, int options, ParamListInfo params,
			 planner_hook_type plan)
{
	Oid			type = ANYOID;
	Planning	here = {.outer = planning,.params = params,.with_keys = true};
	PlannedStmt *result = NULL;

	/* cppcheck-suppress unknownEvaluationOrder */
	here.function = LookupFuncName(list_make2(makeString("shardlet"), makeString("scatter_leaf")), 1,
								   &type, false);
	planning = &here;

	/* What is planned at the moment must be known also after an error. */
	PG_TRY();
	{
		result = plan_rest(query, source, options, params, plan);
	}
	PG_FINALLY();
	{
		planning = here.outer;
	}
	PG_END_TRY();
	return result;
}

void
sl_leaf_init(void)
{
	sl_leaf_path_init();
	sl_leaf_size_init();
}
