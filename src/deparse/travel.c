/*
 * travel.c
 *		Lets a whole statement run on shards.
 *
 * Each clause is examined, at all levels of the statement; the expressions in
 * them by shippable.c, the collations that they are compared by by collation.c.
 * What counts is that a shard finds the same result for the same rows; whether it
 * has the rows is decided elsewhere.
 *
 * The statement is written with names.  So the columns of a shard's table may
 * stand in another order than here, and nothing may be written that depends on
 * their order: lists of column aliases of a table or join, and whole rows.
 *
 * Row security, security barriers and check options do not show in the text, and
 * triggers of the router do not fire on a shard: such statements stay here.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "compat.h"
#include "deparse/shipping.h"
#include "deparse/travel.h"
#include "map/table.h"

static void
fail(SlShipping *shipping)
{
	(void) sl_shipping_fail(shipping, NULL);
}

static void
check(SlShipping *shipping, bool holds)
{
	if (!holds)
		fail(shipping);
}

static List *
travel_list(List *list, SlShipping *shipping)
{
	return (List *) sl_shipping_node((Node *) list, shipping);
}

static const SlTable *
find_table(const SlShip *ship, Oid relid)
{
	ListCell   *cell;

	foreach(cell, ship->tables)
	{
		const SlTable *table = lfirst(cell);

		if (table->relid == relid)
			return table;
	}
	return NULL;
}

/* Collects the entries of the range table that FROM uses. */
static bool
find_used(Node *node, Bitmapset **used)
{
	if (node == NULL || IsA(node, SubLink))
		return false;
	if (IsA(node, RangeTblRef))
		*used = bms_add_member(*used, ((RangeTblRef *) node)->rtindex);
	if (IsA(node, JoinExpr))
		*used = bms_add_member(*used, ((JoinExpr *) node)->rtindex);
	return expression_tree_walker(node, find_used, (void *) used);
}

/*
 * The rewriter leaves entries of views and of their OLD and NEW behind, which
 * only say whose privileges count.  They would take names from others.
 */
static void
forget_unused(Query *query)
{
	Bitmapset  *used = NULL;
	ListCell   *cell;

	(void) find_used((Node *) query->jointree, &used);
	(void) find_used(query->setOperations, &used);
	if (query->resultRelation > 0)
		used = bms_add_member(used, query->resultRelation);
	if (query->onConflict != NULL && query->onConflict->exclRelIndex > 0)
		used = bms_add_member(used, query->onConflict->exclRelIndex);
	foreach(cell, query->rtable)
	{
		RangeTblEntry *nothing;

		if (bms_is_member(foreach_current_index(cell) + 1, used) ||
			sl_is_group_entry(lfirst_node(RangeTblEntry, cell)))
			continue;
		nothing = makeNode(RangeTblEntry);
		nothing->rtekind = RTE_RESULT;
		nothing->eref = makeAlias("*unused*", NIL);
		lfirst(cell) = nothing;
	}
}

/*
 * Of what stands in FROM only that is written which the user had there.  OLD of a
 * rule, which the rewriter puts in, counts as well; the target is written elsewhere.
 */
static void
show_from(Query *query)
{
	ListCell   *cell;

	foreach(cell, query->jointree->fromlist)
	{
		RangeTblRef *reference = lfirst(cell);

		if (IsA(reference, RangeTblRef))
			rt_fetch(reference->rtindex, query->rtable)->inFromCl = reference->rtindex != query->resultRelation;
	}
}

/* Aliases of a table's columns stand in the order of the router's columns. */
static void
travel_relation(RangeTblEntry *entry, SlShipping *shipping)
{
	check(shipping, find_table(shipping->ship, entry->relid) != NULL &&
		  entry->tablesample == NULL && !(entry->inh && has_subclass(entry->relid)));
	if (entry->alias != NULL)
		entry->alias->colnames = NIL;
}

/*
 * Columns that a join merges have a name of their own if they are not simply a
 * column of one side, and then columns of that name elsewhere get an alias.
 */
static void
travel_join_entry(const RangeTblEntry *entry, SlShipping *shipping)
{
	check(shipping, entry->alias == NULL);
	for (int i = 0; i < entry->joinmergedcols; i++)
		check(shipping, IsA(list_nth(entry->joinaliasvars, i), Var));
}

/* Their columns are read in the way that the given types are. */
static bool
is_record_function(Oid function)
{
	return function == F_JSON_TO_RECORD || function == F_JSONB_TO_RECORD ||
		function == F_JSON_TO_RECORDSET || function == F_JSONB_TO_RECORDSET;
}

static bool
has_simple_types(List *types)
{
	ListCell   *cell;

	foreach(cell, types)
	{
		if (!sl_form_is_one(lfirst_oid(cell)))
			return false;
	}
	return true;
}

/* The call itself must stay one; its arguments are examined as usual. */
static void
travel_function(RangeTblFunction *function, SlShipping *shipping)
{
	FuncExpr   *call = (FuncExpr *) function->funcexpr;
	ListCell   *cell;

	if (!IsA(call, FuncExpr) ||
		!(sl_shipping_knows_function(shipping->ship, call->funcid) ||
		  (is_record_function(call->funcid) && has_simple_types(function->funccoltypes))))
	{
		fail(shipping);
		return;
	}
	foreach(cell, function->funccoltypes)
		check(shipping, sl_ship_is_type(shipping->ship, lfirst_oid(cell)));
	call->args = travel_list(call->args, shipping);
}

static void
travel_functions(List *functions, SlShipping *shipping)
{
	ListCell   *cell;

	foreach(cell, functions)
		travel_function(lfirst(cell), shipping);
}

static void
travel_entry(RangeTblEntry *entry, SlShipping *shipping)
{
	check(shipping, entry->securityQuals == NIL);
	if (sl_is_group_entry(entry))
	{
		sl_group_exprs(entry) = travel_list(sl_group_exprs(entry), shipping);
		return;
	}
	switch (entry->rtekind)
	{
		case RTE_RELATION:
			travel_relation(entry, shipping);
			break;
		case RTE_SUBQUERY:
			check(shipping, !entry->security_barrier);
			entry->subquery = (Query *) sl_shipping_node((Node *) entry->subquery, shipping);
			break;
		case RTE_JOIN:
			travel_join_entry(entry, shipping);
			break;
		case RTE_FUNCTION:
			travel_functions(entry->functions, shipping);
			break;
		case RTE_VALUES:
			entry->values_lists = travel_list(entry->values_lists, shipping);
			break;
		case RTE_CTE:
		case RTE_RESULT:
			break;
		default:
			fail(shipping);
	}
}

/*
 * Rows that are inserted are computed whatever happens; values and functions in
 * FROM perhaps not.
 */
static void
travel_entries(Query *query, SlShipping *shipping)
{
	int			branches = shipping->branches;
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		RangeTblEntry *entry = lfirst(cell);

		shipping->branches = branches;
		if (entry->rtekind != RTE_SUBQUERY && query->commandType != CMD_INSERT)
			shipping->branches++;
		shipping->ship->computes_once = entry->rtekind == RTE_VALUES &&
			query->commandType == CMD_INSERT;
		travel_entry(entry, shipping);
		shipping->ship->computes_once = false;
	}
	shipping->branches = branches;
}

/*
 * Conditions that all must hold are each as good as a condition alone, unless one
 * of them can do without rows.
 */
static Node *
travel_condition(Node *condition, SlShipping *shipping)
{
	BoolExpr   *all = (BoolExpr *) condition;
	int			branches = shipping->branches;

	if (condition == NULL || !is_andclause(condition))
		return sl_shipping_node(condition, shipping);
	if (sl_ship_may_stop(shipping->ship, all->args))
		shipping->branches++;
	all->args = travel_list(all->args, shipping);
	shipping->branches = branches;
	return condition;
}

static void
travel_from(Node *node, List *rtable, SlShipping *shipping)
{
	ListCell   *cell;

	if (IsA(node, FromExpr))
	{
		FromExpr   *from = (FromExpr *) node;

		foreach(cell, from->fromlist)
			travel_from(lfirst(cell), rtable, shipping);
		from->quals = travel_condition(from->quals, shipping);
	}
	else if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		check(shipping, sl_using_is_plain(join, rtable));
		travel_from(join->larg, rtable, shipping);
		travel_from(join->rarg, rtable, shipping);
		join->quals = travel_condition(join->quals, shipping);
	}
}

/* SELECTs in WITH that nobody refers to do not run. */
static void
travel_with(List *expressions, SlShipping *shipping)
{
	int			branches = shipping->branches;
	ListCell   *cell;

	foreach(cell, expressions)
	{
		CommonTableExpr *expression = lfirst(cell);
		Query	   *query = castNode(Query, expression->ctequery);

		check(shipping, expression->search_clause == NULL && expression->cycle_clause == NULL);
		shipping->branches = branches + (query->commandType == CMD_SELECT ? 1 : 0);
		expression->ctequery = sl_shipping_node((Node *) query, shipping);
	}
	shipping->branches = branches;
}

static void
travel_set_operation(Node *node, SlShipping *shipping)
{
	SetOperationStmt *operation = (SetOperationStmt *) node;

	if (!IsA(node, SetOperationStmt))
		return;
	operation->groupClauses = travel_list(operation->groupClauses, shipping);
	travel_set_operation(operation->larg, shipping);
	travel_set_operation(operation->rarg, shipping);
}

/* What is sorted must be sorted there by the order that is meant. */
static void
check_order(const Query *query, List *clauses, SlShipping *shipping)
{
	ListCell   *cell;

	foreach(cell, clauses)
	{
		TargetEntry *entry = get_sortgroupclause_tle(lfirst(cell), query->targetList);

		check(shipping, sl_ship_is_order(shipping->ship, exprCollation((Node *) entry->expr)));
	}
}

static void
travel_windows(Query *query, SlShipping *shipping)
{
	ListCell   *cell;

	foreach(cell, query->windowClause)
	{
		WindowClause *window = lfirst(cell);

		window->partitionClause = travel_list(window->partitionClause, shipping);
		window->orderClause = travel_list(window->orderClause, shipping);
		window->startOffset = sl_shipping_node(window->startOffset, shipping);
		window->endOffset = sl_shipping_node(window->endOffset, shipping);
		check_order(query, window->orderClause, shipping);
		check(shipping, !OidIsValid(window->startInRangeFunc) ||
			  sl_shipping_knows_function(shipping->ship, window->startInRangeFunc));
		check(shipping, !OidIsValid(window->endInRangeFunc) ||
			  sl_shipping_knows_function(shipping->ship, window->endInRangeFunc));
	}
}

static void
travel_order(Query *query, SlShipping *shipping)
{
	query->groupClause = travel_list(query->groupClause, shipping);
	query->distinctClause = travel_list(query->distinctClause, shipping);
	query->sortClause = travel_list(query->sortClause, shipping);
	check_order(query, query->sortClause, shipping);
	if (query->hasDistinctOn)
		check_order(query, query->distinctClause, shipping);
	travel_windows(query, shipping);
	if (query->setOperations != NULL)
		travel_set_operation(query->setOperations, shipping);
}

/* The number of a column that is set from a row of a subquery, or 0. */
static int
multiple_of(const TargetEntry *entry)
{
	Node	   *value = strip_implicit_coercions((Node *) entry->expr);

	if (!entry->resjunk && IsA(value, Param) && ((Param *) value)->paramkind == PARAM_MULTIEXPR)
		return ((Param *) value)->paramid;
	return 0;
}

static int
compare_multiple(const ListCell *a, const ListCell *b)
{
	int			left = multiple_of(lfirst(a));
	int			right = multiple_of(lfirst(b));

	return left < right ? -1 : left > right ? 1 : 0;
}

static bool
has_multiple(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind == PARAM_MULTIEXPR;
	return expression_tree_walker(node, has_multiple, context);
}

/*
 * SET (b, a) = (SELECT ...) is written from columns that follow each other in
 * the order in which the subquery gives them; the rewriter has sorted them.
 */
static List *
order_assignments(List *entries, SlShipping *shipping)
{
	ListCell   *cell;
	bool		found = false;

	foreach(cell, entries)
	{
		TargetEntry *entry = lfirst(cell);

		found = found || multiple_of(entry) != 0;
		if (multiple_of(entry) == 0 && has_multiple((Node *) entry->expr, NULL))
			fail(shipping);
	}
	if (found)
		list_sort(entries, compare_multiple);
	return entries;
}

/* An index is found by expressions as they are, not by parameters in them. */
static void
travel_arbiter(OnConflictExpr *conflict, SlShipping *shipping)
{
	int			params = list_length(shipping->ship->params);
	bool		is_shape = shipping->ship->is_shape;
	ListCell   *cell;

	shipping->ship->is_shape = false;
	foreach(cell, conflict->arbiterElems)
	{
		InferenceElem *element = lfirst_node(InferenceElem, cell);

		check(shipping, !OidIsValid(element->infercollid) && !OidIsValid(element->inferopclass));
		element->expr = sl_shipping_node(element->expr, shipping);
	}
	conflict->arbiterWhere = sl_shipping_node(conflict->arbiterWhere, shipping);
	shipping->ship->is_shape = is_shape;
	check(shipping, list_length(shipping->ship->params) == params);
}

static void
travel_conflict(OnConflictExpr *conflict, SlShipping *shipping)
{
	travel_arbiter(conflict, shipping);
	conflict->onConflictSet = order_assignments(conflict->onConflictSet, shipping);
	conflict->onConflictSet = travel_list(conflict->onConflictSet, shipping);
	conflict->onConflictWhere = sl_shipping_node(conflict->onConflictWhere, shipping);
}

/* Only rows on shards can be locked there, reference tables here as well. */
static void
check_locks(const Query *query, SlShipping *shipping)
{
	ListCell   *cell;

	foreach(cell, query->rowMarks)
	{
		RangeTblEntry *entry = rt_fetch(((RowMarkClause *) lfirst(cell))->rti, query->rtable);
		const SlTable *table = entry->rtekind == RTE_RELATION ?
		find_table(shipping->ship, entry->relid) : NULL;

		check(shipping, table == NULL || table->kind != SL_TABLE_REFERENCE);
	}
}

/* Could a change of other columns change the key, and so the row's shard? */
static bool
has_generated_key(const SlTable *table, TupleDesc columns)
{
	for (int i = 0; i < table->key_count; i++)
	{
		if (TupleDescAttr(columns, table->key[i] - 1)->attgenerated != '\0')
			return true;
	}
	return false;
}

static bool
updates(const Query *query)
{
	return query->commandType == CMD_UPDATE ||
		(query->onConflict != NULL && query->onConflict->action == ONCONFLICT_UPDATE);
}

/* Does writing to it do nothing but what the shards do? */
static void
check_target(const Query *query, SlShipping *shipping)
{
	RangeTblEntry *entry = rt_fetch(query->resultRelation, query->rtable);
	const SlTable *table = find_table(shipping->ship, entry->relid);
	Relation	relation;

	if (table == NULL || table->kind == SL_TABLE_REFERENCE)
	{
		fail(shipping);
		return;
	}
	relation = table_open(entry->relid, NoLock);
	check(shipping, relation->trigdesc == NULL &&
		  !(updates(query) && has_generated_key(table, RelationGetDescr(relation))));
	table_close(relation, NoLock);
}

/*
 * Does an INSERT take its rows as the grammar has it, from one place and all of them?
 * That of a rule may have FROM and WHERE of the statement that the rule is for, and
 * these are not written out.
 */
bool
sl_travel_is_plain_insert(const Query *query)
{
	List	   *from = query->jointree->fromlist;

	return query->jointree->quals == NULL &&
		(from == NIL || (list_length(from) == 1 && IsA(linitial(from), RangeTblRef)));
}

/* The rows that an INSERT takes, or NULL if it has one row of its own. */
static RangeTblEntry *
source_of(const Query *query, int *index)
{
	if (query->jointree->fromlist == NIL)
		return NULL;
	*index = linitial_node(RangeTblRef, query->jointree->fromlist)->rtindex;
	return rt_fetch(*index, query->rtable);
}

/*
 * The columns of an INSERT are written in the order of its target list, its rows
 * in their own.
 */
static void
check_insert(const Query *query, SlShipping *shipping)
{
	int			index = 0;
	RangeTblEntry *source;
	int			count = 0;
	ListCell   *cell;

	if (!sl_travel_is_plain_insert(query))
	{
		fail(shipping);
		return;
	}
	source = source_of(query, &index);
	if (source == NULL)
		return;
	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst(cell);
		Var		   *column = (Var *) strip_implicit_coercions((Node *) entry->expr);

		check(shipping, !entry->resjunk && IsA(column, Var) && column->varno == index &&
			  column->varattno == ++count && column->varlevelsup == 0);
	}
	check(shipping, source->rtekind == RTE_VALUES ?
		  list_length(linitial(source->values_lists)) == count :
		  source->rtekind == RTE_SUBQUERY &&
		  count_nonjunk_tlist_entries(source->subquery->targetList) == count);
}

static void
check_statement(const Query *query, SlShipping *shipping)
{
	check(shipping, query->commandType == CMD_SELECT || query->commandType == CMD_INSERT ||
		  query->commandType == CMD_UPDATE || query->commandType == CMD_DELETE);
	check(shipping, query->utilityStmt == NULL && !query->isReturn);
	check(shipping, !query->hasRowSecurity && query->withCheckOptions == NIL);
	check_locks(query, shipping);
	if (query->resultRelation > 0)
	{
		/* That of a view was in its FROM. */
		rt_fetch(query->resultRelation, query->rtable)->inFromCl = false;
		check_target(query, shipping);
	}
	if (query->commandType == CMD_INSERT)
		check_insert(query, shipping);
}

/* Values that are written are not a matter of the text. */
static void
shape_values(Query *query, SlShip *ship)
{
	ListCell   *cell;

	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		entry->expr = (Expr *) sl_shipping_shape(ship, (Node *) entry->expr);
	}
}

/*
 * Changes a query, of any level, into what a shard can run.  Its conditions are
 * taken to be checked; what it makes of rows is computed only if there are any.
 */
Node *
sl_travel_query(Query *query, SlShipping *shipping)
{
	int			branches = shipping->branches;
	bool		computes_once = shipping->ship->computes_once;

	check_statement(query, shipping);
	if (shipping->has_failed)
		return (Node *) query;
	shipping->ship->computes_once = false;
	forget_unused(query);
	show_from(query);
	travel_with(query->cteList, shipping);
	travel_entries(query, shipping);
	travel_from((Node *) query->jointree, query->rtable, shipping);
	query->limitCount = sl_shipping_node(query->limitCount, shipping);
	query->limitOffset = sl_shipping_node(query->limitOffset, shipping);

	if (query->commandType != CMD_INSERT)
		shipping->branches++;
	if (query->commandType == CMD_UPDATE)
		query->targetList = order_assignments(query->targetList, shipping);

	/* A function that returns a set makes several rows of the one. */
	shipping->ship->computes_once = query->commandType == CMD_INSERT && !query->hasTargetSRFs;
	query->targetList = travel_list(query->targetList, shipping);
	shipping->ship->computes_once = false;
	if (query->commandType == CMD_INSERT || query->commandType == CMD_UPDATE)
		shape_values(query, shipping->ship);
	shipping->branches = branches + 1;
	query->havingQual = sl_shipping_node(query->havingQual, shipping);
	query->returningList = travel_list(query->returningList, shipping);
	if (query->onConflict != NULL)
		travel_conflict(query->onConflict, shipping);
	if (!shipping->has_failed)
		travel_order(query, shipping);
	shipping->ship->computes_once = computes_once;
	shipping->branches = branches;
	return (Node *) query;
}

/* Rows without a type are no use to the router. */
static bool
returns_known_types(const SlShip *ship, const Query *query)
{
	ListCell   *cell;

	foreach(cell, query->commandType == CMD_SELECT ? query->targetList : query->returningList)
	{
		if (!sl_ship_is_type(ship, exprType((Node *) ((TargetEntry *) lfirst(cell))->expr)))
			return false;
	}
	return true;
}

/* Prepares for a statement about these tables, a list of SlTables. */
void
sl_travel_init(SlShip *ship, List *tables)
{
	sl_ship_init(ship, tables);
	ship->is_statement = true;
}

/*
 * Returns a copy of the statement as shards can run it, with new parameters, or
 * NULL if they cannot.
 */
Query *
sl_travel(SlShip *ship, const Query *query)
{
	SlShipping	shipping = {.ship = ship};
	List	   *params = list_copy(ship->params);
	Query	   *result = (Query *) sl_travel_query((Query *) copyObject(query), &shipping);

	ship->computes_once = false;
	if (!shipping.has_failed && list_length(ship->params) <= SL_MOST_PARAMS &&
		returns_known_types(ship, result) &&
		sl_ship_has_collations(ship, (Node *) result))
		return result;
	ship->params = params;
	return NULL;
}
