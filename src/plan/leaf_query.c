/*
 * leaf_query.c
 *		A query with a leaf instead of its FROM and WHERE, or instead of all of it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"

#include "agg/agg.h"
#include "compat.h"
#include "deparse/travel.h"
#include "plan/leaf.h"
#include "plan/plan.h"

#define LEAF_NAME "scattered"

/* Relations of a query with a leaf; the second one only since 18. */
#define LEAF_INDEX 1
#define GROUPS_INDEX 2

/* The leaf --------------------------------------------------------------------------- */

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

/* Prepares what shards get for a query.  Returns NULL if they cannot answer it. */
SlLeaf *
sl_leaf_make(Query *plain)
{
	SlLeaf	   *leaf = palloc0(sizeof(SlLeaf));

	leaf->plain = plain;
	leaf->where = sl_where_find(plain);
	if ((leaf->where->kind != SL_WHERE_SHARDS && leaf->where->kind != SL_WHERE_ONE) ||
		!sl_finish_find_user(plain, &leaf->user))
		return NULL;
	sl_travel_init(&leaf->ship, leaf->where->tables);
	leaf->query = sl_travel(&leaf->ship, plain);
	if (leaf->query == NULL)
		return NULL;
	leaf->is_bare = is_bare_somewhere(leaf->where->table);
	leaf->shard_count = list_length(sl_table_homes(leaf->where->table));
	return leaf;
}

/* As a relation -------------------------------------------------------------------------- */

/* The columns that it returns. */
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

/* The name of a column, for EXPLAIN. */
static char *
name_of(const Query *plain, const TargetEntry *column)
{
	const Var  *var = (const Var *) column->expr;

	if (IsA(var, Var) && var->varlevelsup == 0)
		return get_rte_attribute_name(rt_fetch(var->varno, plain->rtable), var->varattno);
	return column->resname != NULL ? pstrdup(column->resname) : pstrdup("?column?");
}

static RangeTblFunction *
make_call(const SlLeaf *leaf, int number, Oid function, List **names)
{
	RangeTblFunction *call = makeNode(RangeTblFunction);
	List	   *args = list_make1(makeConst(INT4OID, -1, InvalidOid, sizeof(int32), Int32GetDatum(number),
											false, true));
	ListCell   *cell;

	args = list_concat(args, copyObject(leaf->ship.params));
	args = list_concat(args, copyObject(leaf->where->expressions));
	call->funcexpr = (Node *) makeFuncExpr(function, RECORDOID, args, InvalidOid, InvalidOid,
										   COERCE_EXPLICIT_CALL);
	((FuncExpr *) call->funcexpr)->funcretset = true;
	foreach(cell, columns_of(leaf->plain))
	{
		const TargetEntry *column = lfirst_node(TargetEntry, cell);
		Node	   *value = (Node *) column->expr;

		*names = lappend(*names, makeString(name_of(leaf->plain, column)));
		call->funccoltypes = lappend_oid(call->funccoltypes, exprType(value));
		call->funccoltypmods = lappend_int(call->funccoltypmods, exprTypmod(value));
		call->funccolcollations = lappend_oid(call->funccolcollations, exprCollation(value));
	}
	call->funccolcount = list_length(*names);
	call->funccolnames = copyObject(*names);
	return call;
}

/* With one relation in it, the leaf has its name. */
static char *
leaf_name(const SlLeaf *leaf)
{
	Bitmapset  *relations = sl_level_joined((Node *) leaf->plain->jointree);
	int			index;

	if (!bms_get_singleton_member(relations, &index))
		return LEAF_NAME;
	return rt_fetch(index, leaf->plain->rtable)->eref->aliasname;
}

static RangeTblEntry *
make_entry(const SlLeaf *leaf, int number, Oid function)
{
	RangeTblEntry *entry = makeNode(RangeTblEntry);
	List	   *names = NIL;

	entry->rtekind = RTE_FUNCTION;
	entry->functions = list_make1(make_call(leaf, number, function, &names));
	entry->alias = makeAlias(leaf_name(leaf), NIL);
	entry->eref = makeAlias(leaf_name(leaf), names);
	entry->inFromCl = true;
	return entry;
}

/* Gives a query the leaf as its only relation. */
static void
set_from(Query *query, const SlLeaf *leaf, int number, Oid function)
{
	RangeTblRef *reference = makeNode(RangeTblRef);

	reference->rtindex = LEAF_INDEX;
	query->rtable = list_make1(make_entry(leaf, number, function));
	query->jointree = makeFromExpr(list_make1(reference), NULL);
	query->cteList = NIL;
	query->hasRecursive = false;
	sl_forget_permissions(query);
}

/* SELECT all columns FROM the leaf. */
Query *
sl_leaf_whole(const SlLeaf *leaf, int number, Oid function)
{
	Query	   *query = makeNode(Query);
	ListCell   *cell;

	query->commandType = CMD_SELECT;
	query->querySource = leaf->plain->querySource;
	query->canSetTag = leaf->plain->canSetTag;
	query->stmt_location = query->stmt_len = -1;
	set_from(query, leaf, number, function);
	foreach(cell, columns_of(leaf->plain))
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst_node(TargetEntry, cell));
		Node	   *value = (Node *) entry->expr;

		entry->resno = (AttrNumber) (foreach_current_index(cell) + 1);
		entry->ressortgroupref = 0;
		entry->expr = (Expr *) makeVar(LEAF_INDEX, entry->resno, exprType(value), exprTypmod(value),
									   exprCollation(value), 0);
		query->targetList = lappend(query->targetList, entry);
	}
	return query;
}

/* FROM and WHERE ------------------------------------------------------------------------- */

typedef struct Columns
{
	List	   *columns;		/* of Var, of the query as it was */
	int			groups;			/* the relation that its groups are */
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

static Node *to_leaf(Node *node, Columns *columns);

/*
 * A column of the groups.  What it is made of gets its numbers here, so that shards
 * get the same text whether groups are a relation or not.
 */
static Node *
to_group(const Var *column, Columns *columns)
{
	int			depth = columns->depth;

	if (columns->group_exprs == NIL)
		elog(ERROR, "query has a column of groups, and none");
	columns->depth = 0;
	(void) to_leaf(list_nth(columns->group_exprs, column->varattno - 1), columns);
	columns->depth = depth;
	return (Node *) sl_move_group_column(column, GROUPS_INDEX);
}

/* Refers to columns of the leaf instead of those of what is in it. */
static Node *
to_leaf(Node *node, Columns *columns)
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
		return (Node *) makeVar(LEAF_INDEX, number_of(columns, column), column->vartype, column->vartypmod,
								column->varcollid, column->varlevelsup);
	}
	if (IsA(node, Query))
	{
		Query	   *result;

		columns->depth++;
		result = query_tree_mutator((Query *) node, to_leaf, (void *) columns, 0);
		columns->depth--;
		return (Node *) result;
	}
	return expression_tree_mutator(node, to_leaf, (void *) columns);
}

/* SELECT columns FROM ... WHERE ... */
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

	/* A row must have a column to be sent. */
	if (columns == NIL)
		plain->targetList = list_make1(makeTargetEntry((Expr *) makeBoolConst(true, false), 1, "c1",
													   false));
	return plain;
}

static bool
has_link(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, SubLink) || expression_tree_walker(node, has_link, context);
}

/* Is this column of the leaf the whole key? */
static bool
is_key(const SlLeaf *leaf, const Node *argument)
{
	const Var  *column = (const Var *) argument;

	return leaf->where->kind == SL_WHERE_SHARDS && list_length(leaf->where->columns) == 1 &&
		IsA(column, Var) && column->varlevelsup == 0 &&
		linitial_int(leaf->where->columns) == column->varattno;
}

/* Replaces count(DISTINCT key) by what adds up counts of shards. */
static Node *
count_keys(Node *node, SlLeaf *leaf)
{
	Aggref	   *aggregate = (Aggref *) node;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Aggref))
		return expression_tree_mutator(node, count_keys, (void *) leaf);
	if (aggregate->aggfnoid != F_COUNT_ANY || aggregate->agglevelsup > 0 ||
		aggregate->aggdistinct == NIL || aggregate->aggorder != NIL ||
		!is_key(leaf, (Node *) linitial_node(TargetEntry, aggregate->args)->expr))
		return copyObject(node);
	leaf->must_split = true;
	return (Node *) sl_agg_count_keys(aggregate);
}

/* Aggregates that these shards can compute a part of, where there are such. */
static Node *
prepare_aggregates(Node *expression, SlLeaf *leaf, bool with_keys)
{
	expression = sl_agg_plain(expression, leaf->is_bare);
	return with_keys ? count_keys(expression, leaf) : expression;
}

/* The groups of a query, if they are a relation. */
static void
find_groups(Query *query, Columns *columns)
{
	columns->groups = sl_find_groups(query);
	if (columns->groups > 0)
		columns->group_exprs =
			(List *) sl_flatten_join_columns(query, (Node *) sl_group_exprs(rt_fetch(columns->groups, query->rtable)));
}

/* An expression of the query, over the columns of the leaf. */
static Node *
move_expression(Query *query, Node *expression, Columns *columns)
{
	return to_leaf(sl_flatten_join_columns(query, expression), columns);
}

/* The relation that the groups are, over the columns of the leaf; NULL: there is none. */
static RangeTblEntry *
move_groups(const Query *query, Columns *columns)
{
	RangeTblEntry *groups;

	if (columns->groups == 0)
		return NULL;
	groups = copyObject(rt_fetch(columns->groups, query->rtable));
	sl_group_exprs(groups) = (List *) to_leaf((Node *) columns->group_exprs, columns);
	return groups;
}

/*
 * Would something above the leaf miss what WITH has made?  That goes down with
 * FROM.
 */
static bool
needs_with(const Query *query)
{
	int			groups = sl_find_groups(query);

	return query->cteList != NIL &&
		(has_link((Node *) query->targetList, NULL) || has_link(query->havingQual, NULL) ||
		 (groups > 0 && has_link((Node *) sl_group_exprs(rt_fetch(groups, query->rtable)), NULL)));
}

/*
 * The query with a leaf instead of FROM and WHERE.  Returns NULL if shards cannot
 * answer these.
 */
Query *
sl_leaf_from(Query *query, int number, Oid function, bool with_keys, SlLeaf **leaf)
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
	*leaf = sl_leaf_make(make_plain(result, columns.columns));
	if (*leaf == NULL)
		return NULL;
	result->targetList = (List *) prepare_aggregates((Node *) result->targetList, *leaf, with_keys);
	result->havingQual = prepare_aggregates(result->havingQual, *leaf, with_keys);
	set_from(result, *leaf, number, function);
	if (groups != NULL)
		result->rtable = lappend(result->rtable, groups);
	return result;
}
