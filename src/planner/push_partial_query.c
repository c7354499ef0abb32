/*
 * push_partial_query.c
 *		Rewrites a query to read a remote subquery instead of its FROM and
 *		WHERE, or of all of it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"

#include "compat.h"
#include "deparse/partial_aggregate.h"
#include "deparse/shippable_query.h"
#include "planner/planner.h"
#include "planner/push_partial.h"

#define SUBQUERY_FUNCTION "scattered"

/*
 * Range table indexes in a query over a remote subquery; the second one only
 * since 18.
 */
#define SUBQUERY_INDEX 1
#define GROUPS_INDEX 2

/* The remote subquery --------------------------------------------------------------------------- */

static bool
is_bare_somewhere(const SlTable *table)
{
	ListCell   *cell;

	foreach(cell, sl_table_homes(table))
	{
		if (((const SlShard *) lfirst(cell))->bare)
			return true;
	}
	return false;
}

/*
 * Prepares the remote query of a query.  Returns NULL if it is not shippable.
 */
SlRemoteSubquery *
sl_partial_make_subquery(Query *plain)
{
	SlRemoteSubquery *subquery = palloc0(sizeof(SlRemoteSubquery));

	subquery->plain = plain;
	subquery->placement = sl_placement_analyze(plain);
	if ((subquery->placement->kind != SL_PLACEMENT_ALL_SHARDS && subquery->placement->kind != SL_PLACEMENT_SINGLE_SHARD) ||
		!sl_planned_find_user(plain, &subquery->user))
		return NULL;
	sl_shippable_init_query(&subquery->ship, subquery->placement->tables);
	subquery->query = sl_shippable_make_query(&subquery->ship, plain);
	if (subquery->query == NULL)
		return NULL;
	subquery->is_bare = is_bare_somewhere(subquery->placement->table);
	subquery->shard_count = list_length(sl_table_homes(subquery->placement->table));
	return subquery;
}

/* As a relation -------------------------------------------------------------------------- */

/* Returns the columns of the relation. */
static List *
columns_of(const Query *plain)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, plain->targetList)
	{
		if (!lfirst_node(TargetEntry, cell)->resjunk)
			result = lappend(result, lfirst(cell));
	}
	return result;
}

/* Returns the name of a column, for EXPLAIN. */
static char *
name_of(const Query *plain, const TargetEntry *column)
{
	const Var  *var = (const Var *) column->expr;

	if (IsA(var, Var) && var->varlevelsup == 0)
		return get_rte_attribute_name(rt_fetch(var->varno, plain->rtable), var->varattno);
	return column->resname != NULL ? pstrdup(column->resname) : pstrdup("?column?");
}

static RangeTblFunction *
make_call(const SlRemoteSubquery *subquery, int number, Oid function, List **names)
{
	RangeTblFunction *call = makeNode(RangeTblFunction);
	List	   *args = list_make1(makeConst(INT4OID, -1, InvalidOid, sizeof(int32), Int32GetDatum(number),
											false, true));
	ListCell   *cell;

	args = list_concat(args, copyObject(subquery->ship.params));
	args = list_concat(args, copyObject(subquery->placement->expressions));
	call->funcexpr = (Node *) makeFuncExpr(function, RECORDOID, args, InvalidOid, InvalidOid,
										   COERCE_EXPLICIT_CALL);
	((FuncExpr *) call->funcexpr)->funcretset = true;
	foreach(cell, columns_of(subquery->plain))
	{
		const TargetEntry *column = lfirst_node(TargetEntry, cell);
		Node	   *value = (Node *) column->expr;

		*names = lappend(*names, makeString(name_of(subquery->plain, column)));
		call->funccoltypes = lappend_oid(call->funccoltypes, exprType(value));
		call->funccoltypmods = lappend_int(call->funccoltypmods, exprTypmod(value));
		call->funccolcollations = lappend_oid(call->funccolcollations, exprCollation(value));
	}
	call->funccolcount = list_length(*names);
	call->funccolnames = copyObject(*names);
	return call;
}

/* With a single relation in it, the remote subquery gets its name. */
static char *
subquery_name(const SlRemoteSubquery *subquery)
{
	Bitmapset  *relations = sl_level_joined((Node *) subquery->plain->jointree);
	int			index;

	if (!bms_get_singleton_member(relations, &index))
		return SUBQUERY_FUNCTION;
	return rt_fetch(index, subquery->plain->rtable)->eref->aliasname;
}

static RangeTblEntry *
make_entry(const SlRemoteSubquery *subquery, int number, Oid function)
{
	RangeTblEntry *entry = makeNode(RangeTblEntry);
	List	   *names = NIL;

	entry->rtekind = RTE_FUNCTION;
	entry->functions = list_make1(make_call(subquery, number, function, &names));
	entry->alias = makeAlias(subquery_name(subquery), NIL);
	entry->eref = makeAlias(subquery_name(subquery), names);
	entry->inFromCl = true;
	return entry;
}

/* Makes the remote subquery the only relation of a query. */
static void
set_from(Query *query, const SlRemoteSubquery *subquery, int number, Oid function)
{
	RangeTblRef *reference = makeNode(RangeTblRef);

	reference->rtindex = SUBQUERY_INDEX;
	query->rtable = list_make1(make_entry(subquery, number, function));
	query->jointree = makeFromExpr(list_make1(reference), NULL);
	query->cteList = NIL;
	query->hasRecursive = false;
	sl_forget_permissions(query);
}

/* Makes SELECT all columns FROM the remote subquery. */
Query *
sl_partial_push_query(const SlRemoteSubquery *subquery, int number, Oid function)
{
	Query	   *query = makeNode(Query);
	ListCell   *cell;

	query->commandType = CMD_SELECT;
	query->querySource = subquery->plain->querySource;
	query->canSetTag = subquery->plain->canSetTag;
	query->stmt_location = query->stmt_len = -1;
	set_from(query, subquery, number, function);
	foreach(cell, columns_of(subquery->plain))
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst_node(TargetEntry, cell));
		Node	   *value = (Node *) entry->expr;

		entry->resno = (AttrNumber) (foreach_current_index(cell) + 1);
		entry->ressortgroupref = 0;
		entry->expr = (Expr *) makeVar(SUBQUERY_INDEX, entry->resno, exprType(value), exprTypmod(value),
									   exprCollation(value), 0);
		query->targetList = lappend(query->targetList, entry);
	}
	return query;
}

/* FROM and WHERE ------------------------------------------------------------------------- */

typedef struct Columns
{
	List	   *columns;		/* of Var, of the original query */
	int			groups;			/* the index of the RTE_GROUP relation */
	List	   *group_exprs;
	int			depth;
	bool		has_failed;
} Columns;

static AttrNumber
number_of(Columns *columns, const Var *column)
{
	ListCell   *cell;
	Var		   *added;

	foreach(cell, columns->columns)
	{
		const Var  *known = lfirst_node(Var, cell);

		if (known->varno == column->varno && known->varattno == column->varattno)
			return (AttrNumber) (foreach_current_index(cell) + 1);
	}
	added = copyObject((Var *) column);
	added->varlevelsup = 0;
	columns->columns = lappend(columns->columns, added);
	return (AttrNumber) list_length(columns->columns);
}

static Node *to_remote_subquery(Node *node, Columns *columns);

/*
 * Resolves a column of RTE_GROUP.  Its expression is numbered at this point,
 * so that the remote query is the same in all versions.
 */
static Node *
to_group(const Var *column, Columns *columns)
{
	int			depth = columns->depth;

	if (columns->group_exprs == NIL)
		elog(ERROR, "query has a column of groups, and none");
	columns->depth = 0;
	(void) to_remote_subquery(list_nth(columns->group_exprs, column->varattno - 1), columns);
	columns->depth = depth;
	return (Node *) sl_move_group_column(column, GROUPS_INDEX);
}

/*
 * Replaces columns of the original relations by those of the remote subquery.
 */
static Node *
to_remote_subquery(Node *node, Columns *columns)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		const Var  *column = (const Var *) node;

		if ((int) column->varlevelsup != columns->depth)
			return copyObject(node);
		if (column->varno == columns->groups)
			return to_group(column, columns);
		if (column->varattno <= 0)
		{
			columns->has_failed = true;
			return copyObject(node);
		}
		return (Node *) makeVar(SUBQUERY_INDEX, number_of(columns, column), column->vartype, column->vartypmod,
								column->varcollid, column->varlevelsup);
	}
	if (IsA(node, Query))
	{
		Query	   *result;

		columns->depth++;
		result = query_tree_mutator((Query *) node, to_remote_subquery, (void *) columns, 0);
		columns->depth--;
		return (Node *) result;
	}
	return expression_tree_mutator(node, to_remote_subquery, (void *) columns);
}

/* Makes SELECT columns FROM ... WHERE ... */
static Query *
make_plain(const Query *query, List *columns)
{
	Query	   *plain = makeNode(Query);
	ListCell   *cell;

	plain->commandType = CMD_SELECT;
	plain->querySource = query->querySource;
	plain->canSetTag = true;
	plain->hasSubLinks = query->hasSubLinks;
	plain->hasRecursive = query->hasRecursive;
	plain->cteList = copyObject(query->cteList);
	plain->rtable = copyObject(query->rtable);
	sl_copy_permissions(plain, query);
	if (sl_find_groups(query) == list_length(plain->rtable))
		plain->rtable = list_delete_last(plain->rtable);
	sl_forget_groups(plain);
	plain->jointree = copyObject(query->jointree);
	plain->stmt_location = plain->stmt_len = -1;
	foreach(cell, columns)
	{
		int			number = foreach_current_index(cell) + 1;

		plain->targetList = lappend(plain->targetList,
									makeTargetEntry(copyObject(lfirst(cell)), (AttrNumber) number,
													psprintf("c%d", number), false));
	}

	/* The remote query needs at least one column. */
	if (columns == NIL)
		plain->targetList = list_make1(makeTargetEntry((Expr *) makeBoolConst(true, false), 1, "c1",
													   false));
	return plain;
}

static bool
has_sublink(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, SubLink) || expression_tree_walker(node, has_sublink, context);
}

/* Is this column of the remote subquery the whole key? */
static bool
is_key(const SlRemoteSubquery *subquery, const Node *argument)
{
	const Var  *column = (const Var *) argument;

	return subquery->placement->kind == SL_PLACEMENT_ALL_SHARDS && list_length(subquery->placement->columns) == 1 &&
		IsA(column, Var) && column->varlevelsup == 0 &&
		linitial_int(subquery->placement->columns) == column->varattno;
}

/* Replaces count(DISTINCT key) by a sum of the counts of the shards. */
static Node *
count_keys(Node *node, SlRemoteSubquery *subquery)
{
	Aggref	   *aggregate = (Aggref *) node;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Aggref))
		return expression_tree_mutator(node, count_keys, (void *) subquery);
	if (aggregate->aggfnoid != F_COUNT_ANY || aggregate->agglevelsup > 0 ||
		aggregate->aggdistinct == NIL || aggregate->aggorder != NIL ||
		!is_key(subquery, (Node *) linitial_node(TargetEntry, aggregate->args)->expr))
		return copyObject(node);
	subquery->must_split = true;
	return (Node *) sl_aggregate_make_count_keys(aggregate);
}

/*
 * Replaces aggregates by ones whose states these shards can compute, where
 * possible.
 */
static Node *
prepare_aggregates(Node *expression, SlRemoteSubquery *subquery, bool with_keys)
{
	expression = sl_aggregate_rewrite_plain(expression, subquery->is_bare);
	return with_keys ? count_keys(expression, subquery) : expression;
}

/* Returns the RTE_GROUP relation of a query, or NULL. */
static void
find_groups(Query *query, Columns *columns)
{
	columns->groups = sl_find_groups(query);
	if (columns->groups > 0)
		columns->group_exprs =
			(List *) sl_flatten_join_columns(query, (Node *) sl_group_exprs(rt_fetch(columns->groups, query->rtable)));
}

/* Converts an expression of the query to columns of the remote subquery. */
static Node *
move_expression(Query *query, Node *expression, Columns *columns)
{
	return to_remote_subquery(sl_flatten_join_columns(query, expression), columns);
}

/*
 * Converts RTE_GROUP to columns of the remote subquery; NULL if there is none.
 */
static RangeTblEntry *
move_groups(const Query *query, Columns *columns)
{
	RangeTblEntry *groups;

	if (columns->groups == 0)
		return NULL;
	groups = copyObject(rt_fetch(columns->groups, query->rtable));
	sl_group_exprs(groups) = (List *) to_remote_subquery((Node *) columns->group_exprs, columns);
	return groups;
}

/*
 * Would something above the remote subquery refer to a CTE?  CTEs are pushed
 * down together with FROM.
 */
static bool
needs_with(const Query *query)
{
	int			groups = sl_find_groups(query);

	return query->cteList != NIL &&
		(has_sublink((Node *) query->targetList, NULL) || has_sublink(query->havingQual, NULL) ||
		 (groups > 0 && has_sublink((Node *) sl_group_exprs(rt_fetch(groups, query->rtable)), NULL)));
}

/*
 * Returns the query with a remote subquery instead of FROM and WHERE, or NULL
 * if these are not shippable.
 */
Query *
sl_partial_push_from(Query *query, int number, Oid function, bool with_keys, SlRemoteSubquery **subquery)
{
	Query	   *result;
	RangeTblEntry *groups;
	Columns		columns = {0};

	if (query->setOperations != NULL || query->rtable == NIL || needs_with(query))
		return NULL;
	result = copyObject(query);
	find_groups(result, &columns);
	result->targetList = (List *) move_expression(result, (Node *) result->targetList, &columns);
	result->havingQual = move_expression(result, result->havingQual, &columns);
	groups = move_groups(result, &columns);
	if (columns.has_failed)
		return NULL;
	*subquery = sl_partial_make_subquery(make_plain(result, columns.columns));
	if (*subquery == NULL)
		return NULL;
	result->targetList = (List *) prepare_aggregates((Node *) result->targetList, *subquery, with_keys);
	result->havingQual = prepare_aggregates(result->havingQual, *subquery, with_keys);
	set_from(result, *subquery, number, function);
	if (groups != NULL)
		result->rtable = lappend(result->rtable, groups);
	return result;
}
