/*
 * push_partial.c
 *		Partial pushdown: replaces parts of a statement by remote
 *		subqueries, and has the rest planned.
 *
 * A part that shards can execute is replaced by one relation, a call of
 * scatter_subquery() that is never executed: to the planner it is a function
 * in FROM, and push_partial_paths.c adds the paths that read it from the
 * shards.  Its arguments are the parameters of the remote query and the values
 * that prune the shards, so that these are planned together with the
 * statement.
 *
 * Remote subqueries are identified by number during one call of the planner,
 * which may be re-entered.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"

#include "base/base.h"
#include "compat.h"
#include "metadata/table.h"
#include "planner/planner.h"
#include "planner/push_partial.h"

PG_FUNCTION_INFO_V1(shardlet_scatter_subquery);

/* State of one call of the planner. */
typedef struct Planning
{
	struct Planning *outer;		/* the call that this one is nested in */
	Oid			function;		/* scatter_subquery() */
	ParamListInfo params;
	bool		with_keys;		/* count(DISTINCT key) may be split */
	int			links;			/* nesting of sublinks */
	List	   *leaves;
} Planning;

static Planning *planning = NULL;

Datum
shardlet_scatter_subquery(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("shardlet.scatter_subquery() cannot be called"));
	PG_RETURN_NULL();
}

/*
 * Returns the remote subquery that a relation of the statement stands for, or
 * NULL.
 */
SlRemoteSubquery *
sl_partial_find_subquery(const RangeTblEntry *entry)
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

/* Foreign scans cannot sample. */
static bool
has_sample(const Query *query)
{
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (entry->rtekind == RTE_RELATION && entry->tablesample != NULL &&
			sl_table_is_remote(entry->relid, entry->relkind))
			return true;
	}
	return false;
}

/*
 * Is pushing this query down better than foreign scans?  For rows of a single
 * table the foreign data wrapper does the same, and can stop early.
 */
static bool
is_worthwhile(const Query *query)
{
	return has_sample(query) || query->hasAggs || query->groupClause != NIL || query->groupingSets != NIL ||
		query->distinctClause != NIL || query->hasWindowFuncs || query->setOperations != NULL ||
		(bms_num_members(sl_level_joined((Node *) query->jointree)) > 1 && query->limitCount == NULL);
}

/* Does it refer to a query level outside of this one? */
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

/* Is it an uncorrelated SELECT? */
static bool
is_candidate(Query *query)
{
	int			depth = -1;

	return query->commandType == CMD_SELECT && query->rowMarks == NIL && !query->hasForUpdate &&
		!query->hasModifyingCTE && !sl_row_security_is_pending(query) && is_worthwhile(query) &&
		!refers_outside((Node *) query, &depth);
}

/* Rows of several shards come in no order, and are not limited. */
static bool
can_be_whole(const SlRemoteSubquery *subquery)
{
	return subquery->placement->kind == SL_PLACEMENT_SINGLE_SHARD ||
		(subquery->plain->sortClause == NIL && subquery->plain->limitCount == NULL &&
		 subquery->plain->limitOffset == NULL);
}

static int
next_number(void)
{
	return list_length(planning->leaves);
}

/*
 * A sublink may never be evaluated for some parameters, as in "CASE WHEN $1 =
 * 0 THEN 0 ELSE (SELECT ... 10 / $1)"; then these must not be folded into
 * constants.
 */
static void
add_remote_subquery(SlRemoteSubquery *subquery)
{
	sl_partial_estimate_size(subquery, planning->links == 0 ? planning->params : NULL);
	planning->leaves = lappend(planning->leaves, subquery);
}

/* Returns the query with a remote subquery in it, or NULL. */
static Query *
with_remote_subquery(Query *query, bool is_top)
{
	SlRemoteSubquery *subquery;
	Query	   *result;

	if (!is_top)
	{
		subquery = sl_partial_make_subquery(query);
		if (subquery != NULL && can_be_whole(subquery))
		{
			result = sl_partial_push_query(subquery, next_number(), planning->function);
			add_remote_subquery(subquery);
			return result;
		}
	}
	result = sl_partial_push_from(query, next_number(), planning->function, planning->with_keys, &subquery);
	if (result != NULL)
		add_remote_subquery(subquery);
	return result;
}

/* Replaces what can be pushed down, from the outermost query inwards. */
static Node *
replace(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;
		Query	   *result = is_candidate(query) ? with_remote_subquery(query, false) : NULL;

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
	Query	   *result = is_candidate(query) ? with_remote_subquery(query, true) : NULL;

	return query_tree_mutator(result != NULL ? result : query, replace, NULL, 0);
}

/* Planning ----------------------------------------------------------------------------- */

static bool
cannot_split(void)
{
	ListCell   *cell;

	foreach(cell, planning->leaves)
	{
		const SlRemoteSubquery *subquery = lfirst(cell);

		if (subquery->must_split && !subquery->has_split)
			return true;
	}
	return false;
}

/* Returns NULL if nothing can be pushed down. */
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
	if (cannot_split())
	{
		planning->leaves = NIL;
		planning->with_keys = false;
		return plan_rest(query, source, options, params, plan);
	}
	foreach(cell, planning->leaves)
		sl_planned_add_relations(result, ((SlRemoteSubquery *) lfirst(cell))->plain);

	/* What is shippable to the shards of a map changes with the map. */
	result->relationOids = lappend_oid(result->relationOids, sl_catalog_oid(SL_MAP_TABLE));
	return result;
}

/*
 * Plans a statement of which a part can be pushed down.  Returns NULL if none
 * can be, or if there is no benefit.  "plan" plans the rest.
 */
PlannedStmt *
sl_partial_plan_query(Query *query, const char *source, int options, ParamListInfo params,
					  planner_hook_type plan)
{
	Oid			type = ANYOID;
	Planning	current = {.outer = planning,.params = params,.with_keys = true};
	PlannedStmt *result = NULL;

	current.function = sl_catalog_function(SL_SCHEMA, "scatter_subquery", 1, &type);
	if (!OidIsValid(current.function))
		elog(ERROR, "function shardlet.scatter_subquery does not exist");
	planning = &current;

	/* The state must be reset also after an error. */
	PG_TRY();
	{
		result = plan_rest(query, source, options, params, plan);
	}
	PG_FINALLY();
	{
		planning = current.outer;
	}
	PG_END_TRY();
	return result;
}

void
sl_partial_init(void)
{
	sl_partial_init_paths();
	sl_partial_init_size();
}
