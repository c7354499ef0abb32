/*
 * shippable_query.c
 *		Decides whether a whole statement is shippable.
 *
 * Each clause is examined, at all query levels; the expressions in them by
 * shippable_expr.c, the collations that they are compared by by collation.c.
 * A statement is shippable if a shard computes the same result from the same
 * rows; whether it has the rows is decided elsewhere.
 *
 * The statement is deparsed with names.  The columns of a shard's table may
 * have another order than the router's, so nothing that depends on their order
 * is shippable: lists of column aliases of a table or join, and whole rows.
 *
 * Security quals, security barriers and check options are not deparsed, and
 * triggers of the router do not fire on a shard: such statements are not
 * shippable.  planner/row_security.c moves the security quals of policies into WHERE
 * first, where that is safe.
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
#include "deparse/shippable.h"
#include "deparse/shippable_query.h"
#include "metadata/router_foreign_key.h"
#include "metadata/table.h"

static void
fail(SlShippableCheck *shipping)
{
	(void) sl_shippable_refuse(shipping, NULL);
}

static void
check(SlShippableCheck *shipping, bool holds)
{
	if (!holds)
		fail(shipping);
}

static List *
check_expressions(List *list, SlShippableCheck *shipping)
{
	return (List *) sl_shippable_make_node((Node *) list, shipping);
}

static const SlTable *
find_table(const SlShippableContext *ship, Oid relid)
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

/* Collects the range table indexes that FROM uses. */
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
 * The rewriter leaves entries of views and of their OLD and NEW in the range
 * table, which are for privilege checks only.  They would take names from
 * others.
 */
static void
remove_unused(Query *query)
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
 * Only relations that the user wrote in FROM are deparsed.  OLD of a rule,
 * which the rewriter adds, counts as well; the target is deparsed elsewhere.
 */
static void
keep_from_visible(Query *query)
{
	ListCell   *cell;

	foreach(cell, query->jointree->fromlist)
	{
		RangeTblRef *reference = lfirst(cell);

		if (IsA(reference, RangeTblRef))
			rt_fetch(reference->rtindex, query->rtable)->inFromCl = reference->rtindex != query->resultRelation;
	}
}

/*
 * TABLESAMPLE: shards sample the rows that they have.  Of a reference table each
 * shard would take another sample.
 */
static void
check_sample(TableSampleClause *sample, const SlTable *table, SlShippableCheck *shipping)
{
	check(shipping, table->kind != SL_TABLE_REFERENCE &&
		  sl_shippable_is_sample(shipping->ship, sample->tsmhandler));
	sample->args = check_expressions(sample->args, shipping);
	sample->repeatable = (Expr *) sl_shippable_make_node((Node *) sample->repeatable, shipping);
}

/* Column aliases of a table are in the order of the router's columns. */
static void
check_relation(RangeTblEntry *entry, SlShippableCheck *shipping)
{
	const SlTable *table = find_table(shipping->ship, entry->relid);

	if (table != NULL && entry->tablesample != NULL)
		check_sample(entry->tablesample, table, shipping);
	check(shipping, table != NULL &&
		  (sl_table_is_remote(entry->relid, entry->relkind) || !(entry->inh && has_subclass(entry->relid))));
	if (entry->alias != NULL)
		entry->alias->colnames = NIL;
}

/*
 * A merged column of a join has an alias if it is not simply a column of one
 * side, and then columns of that name elsewhere get an alias too.
 */
static void
check_join_entry(const RangeTblEntry *entry, SlShippableCheck *shipping)
{
	check(shipping, entry->alias == NULL);
	for (int i = 0; i < entry->joinmergedcols; i++)
		check(shipping, IsA(list_nth(entry->joinaliasvars, i), Var));
}

/* Their columns are converted by the input functions of the given types. */
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
		if (!sl_format_is_fixed(lfirst_oid(cell)))
			return false;
	}
	return true;
}

/* The call itself must remain a call; its arguments are examined as usual. */
static void
check_range_function(RangeTblFunction *function, SlShippableCheck *shipping)
{
	FuncExpr   *call = (FuncExpr *) function->funcexpr;
	ListCell   *cell;

	if (!IsA(call, FuncExpr) ||
		!(sl_shippable_is_function(shipping->ship, call->funcid) ||
		  (is_record_function(call->funcid) && has_simple_types(function->funccoltypes))))
	{
		fail(shipping);
		return;
	}
	foreach(cell, function->funccoltypes)
		check(shipping, sl_shippable_is_type(shipping->ship, lfirst_oid(cell)));
	call->args = check_expressions(call->args, shipping);
}

static void
check_range_functions(List *functions, SlShippableCheck *shipping)
{
	ListCell   *cell;

	foreach(cell, functions)
		check_range_function(lfirst(cell), shipping);
}

static void
check_entry(RangeTblEntry *entry, SlShippableCheck *shipping)
{
	check(shipping, entry->securityQuals == NIL);
	if (sl_is_group_entry(entry))
	{
		sl_group_exprs(entry) = check_expressions(sl_group_exprs(entry), shipping);
		return;
	}
	switch (entry->rtekind)
	{
		case RTE_RELATION:
			check_relation(entry, shipping);
			break;
		case RTE_SUBQUERY:
			check(shipping, !entry->security_barrier);
			entry->subquery = (Query *) sl_shippable_make_node((Node *) entry->subquery, shipping);
			break;
		case RTE_JOIN:
			check_join_entry(entry, shipping);
			break;
		case RTE_FUNCTION:
			check_range_functions(entry->functions, shipping);
			break;
		case RTE_VALUES:
			entry->values_lists = check_expressions(entry->values_lists, shipping);
			break;
		case RTE_CTE:
		case RTE_RESULT:
			break;
		default:
			fail(shipping);
	}
}

/*
 * Inserted rows are always evaluated; VALUES and functions in FROM possibly
 * not.
 */
static void
check_entries(Query *query, SlShippableCheck *shipping)
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
		check_entry(entry, shipping);
		shipping->ship->computes_once = false;
	}
	shipping->branches = branches;
}

/*
 * Each of several ANDed conditions is examined like a single one, unless one
 * of them does not depend on any row.
 */
Node *
sl_shippable_check_condition(Node *condition, SlShippableCheck *shipping)
{
	BoolExpr   *all = (BoolExpr *) condition;
	int			branches = shipping->branches;

	if (condition == NULL || !is_andclause(condition))
		return sl_shippable_make_node(condition, shipping);
	if (sl_shippable_may_stop(shipping->ship, all->args))
		shipping->branches++;
	all->args = check_expressions(all->args, shipping);
	shipping->branches = branches;
	return condition;
}

static void
check_from(Node *node, List *rtable, SlShippableCheck *shipping)
{
	ListCell   *cell;

	if (IsA(node, FromExpr))
	{
		FromExpr   *from = (FromExpr *) node;

		foreach(cell, from->fromlist)
			check_from(lfirst(cell), rtable, shipping);
		from->quals = sl_shippable_check_condition(from->quals, shipping);
	}
	else if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		check(shipping, sl_using_is_plain(join, rtable));
		check_from(join->larg, rtable, shipping);
		check_from(join->rarg, rtable, shipping);
		join->quals = sl_shippable_check_condition(join->quals, shipping);
	}
}

/* SELECTs in WITH without a reference are not executed. */
static void
check_ctes(List *expressions, SlShippableCheck *shipping)
{
	int			branches = shipping->branches;
	ListCell   *cell;

	foreach(cell, expressions)
	{
		CommonTableExpr *expression = lfirst(cell);
		Query	   *query = castNode(Query, expression->ctequery);

		check(shipping, expression->search_clause == NULL && expression->cycle_clause == NULL);
		shipping->branches = branches + (query->commandType == CMD_SELECT ? 1 : 0);
		expression->ctequery = sl_shippable_make_node((Node *) query, shipping);
	}
	shipping->branches = branches;
}

static void
check_set_operation(Node *node, SlShippableCheck *shipping)
{
	SetOperationStmt *operation = (SetOperationStmt *) node;

	if (!IsA(node, SetOperationStmt))
		return;
	operation->groupClauses = check_expressions(operation->groupClauses, shipping);
	check_set_operation(operation->larg, shipping);
	check_set_operation(operation->rarg, shipping);
}

/* ORDER BY must mean the same order on the shards. */
static void
check_order(const Query *query, List *clauses, SlShippableCheck *shipping)
{
	ListCell   *cell;

	foreach(cell, clauses)
	{
		TargetEntry *entry = get_sortgroupclause_tle(lfirst(cell), query->targetList);

		check(shipping, sl_shippable_is_order(shipping->ship, exprCollation((Node *) entry->expr)));
	}
}

static void
check_windows(Query *query, SlShippableCheck *shipping)
{
	ListCell   *cell;

	foreach(cell, query->windowClause)
	{
		WindowClause *window = lfirst(cell);

		window->partitionClause = check_expressions(window->partitionClause, shipping);
		window->orderClause = check_expressions(window->orderClause, shipping);
		window->startOffset = sl_shippable_make_node(window->startOffset, shipping);
		window->endOffset = sl_shippable_make_node(window->endOffset, shipping);
		check_order(query, window->orderClause, shipping);
		check(shipping, !OidIsValid(window->startInRangeFunc) ||
			  sl_shippable_is_function(shipping->ship, window->startInRangeFunc));
		check(shipping, !OidIsValid(window->endInRangeFunc) ||
			  sl_shippable_is_function(shipping->ship, window->endInRangeFunc));
	}
}

static void
check_sort_clause(Query *query, SlShippableCheck *shipping)
{
	query->groupClause = check_expressions(query->groupClause, shipping);
	query->distinctClause = check_expressions(query->distinctClause, shipping);
	query->sortClause = check_expressions(query->sortClause, shipping);
	check_order(query, query->sortClause, shipping);
	if (query->hasDistinctOn)
		check_order(query, query->distinctClause, shipping);
	check_windows(query, shipping);
	if (query->setOperations != NULL)
		check_set_operation(query->setOperations, shipping);
}

/* Returns the number of a MULTIEXPR column that is assigned, or 0. */
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
 * SET (b, a) = (SELECT ...) is deparsed from columns that follow each other in
 * the order of the subquery's columns; the rewriter has sorted them.
 */
List *
sl_shippable_order_assignments(List *entries, SlShippableCheck *shipping)
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

/*
 * An arbiter index is matched by its expressions, without parameters in them.
 */
static void
check_arbiter(OnConflictExpr *conflict, SlShippableCheck *shipping)
{
	int			params = list_length(shipping->ship->params);
	bool		parameterizes = shipping->ship->parameterizes;
	ListCell   *cell;

	shipping->ship->parameterizes = false;
	foreach(cell, conflict->arbiterElems)
	{
		InferenceElem *element = lfirst_node(InferenceElem, cell);

		check(shipping, !OidIsValid(element->infercollid) && !OidIsValid(element->inferopclass));
		element->expr = sl_shippable_make_node(element->expr, shipping);
	}
	conflict->arbiterWhere = sl_shippable_make_node(conflict->arbiterWhere, shipping);
	shipping->ship->parameterizes = parameterizes;
	check(shipping, list_length(shipping->ship->params) == params);
}

static void
check_conflict(OnConflictExpr *conflict, SlShippableCheck *shipping)
{
	check_arbiter(conflict, shipping);
	conflict->onConflictSet = sl_shippable_order_assignments(conflict->onConflictSet, shipping);
	conflict->onConflictSet = check_expressions(conflict->onConflictSet, shipping);
	conflict->onConflictWhere = sl_shippable_make_node(conflict->onConflictWhere, shipping);
}

/*
 * Rows of shards can be locked there, but those of reference tables must be
 * locked on the router as well.
 */
static void
check_locks(const Query *query, SlShippableCheck *shipping)
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

/* Could an update of other columns change the key, and so the row's shard? */
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
	ListCell   *cell;

	foreach(cell, query->mergeActionList)
	{
		if (lfirst_node(MergeAction, cell)->commandType == CMD_UPDATE)
			return true;
	}
	return query->commandType == CMD_UPDATE ||
		(query->onConflict != NULL && query->onConflict->action == ONCONFLICT_UPDATE);
}

/* Does writing to it have no effect on the router? */
static void
check_target(const Query *query, SlShippableCheck *shipping)
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
	check(shipping, !sl_router_key_is_checked(relation, query) &&
		  !(updates(query) && has_generated_key(table, RelationGetDescr(relation))));
	table_close(relation, NoLock);
}

/*
 * Does an INSERT take its rows from one place and all of them, as the grammar
 * has it?  That of a rule may have FROM and WHERE of the original statement,
 * which are not deparsed.
 */
bool
sl_shippable_is_plain_insert(const Query *query)
{
	List	   *from = query->jointree->fromlist;

	return query->jointree->quals == NULL &&
		(from == NIL || (list_length(from) == 1 && IsA(linitial(from), RangeTblRef)));
}

/*
 * Returns the relation that an INSERT takes its rows from, or NULL if it has a
 * single row.
 */
static RangeTblEntry *
source_of(const Query *query, int *index)
{
	if (query->jointree->fromlist == NIL)
		return NULL;
	*index = linitial_node(RangeTblRef, query->jointree->fromlist)->rtindex;
	return rt_fetch(*index, query->rtable);
}

/*
 * The columns of an INSERT are deparsed in the order of its target list, its
 * rows in their own.
 */
static void
check_insert(const Query *query, SlShippableCheck *shipping)
{
	int			index = 0;
	RangeTblEntry *source;
	int			count = 0;
	ListCell   *cell;

	if (!sl_shippable_is_plain_insert(query))
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
check_statement(const Query *query, SlShippableCheck *shipping)
{
	check(shipping, query->commandType == CMD_SELECT || query->commandType == CMD_INSERT ||
		  query->commandType == CMD_UPDATE || query->commandType == CMD_DELETE ||
		  query->commandType == CMD_MERGE);
	check(shipping, query->utilityStmt == NULL && !query->isReturn);
	check(shipping, query->withCheckOptions == NIL);
	check_locks(query, shipping);
	if (query->resultRelation > 0)
	{
		/* For a view it was in its FROM. */
		rt_fetch(query->resultRelation, query->rtable)->inFromCl = false;
		check_target(query, shipping);
	}
	if (query->commandType == CMD_INSERT)
		check_insert(query, shipping);
}

/* Assigned values are parameterized. */
void
sl_shippable_parameterize_values(List *entries, SlShippableContext *ship)
{
	ListCell   *cell;

	foreach(cell, entries)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		entry->expr = (Expr *) sl_shippable_parameterize(ship, (Node *) entry->expr);
	}
}

/*
 * Is it the OFFSET 0 by which the planner keeps a subquery sorted over all
 * shards?  On a single shard PostgreSQL keeps the order itself, and could push
 * conditions into the subquery.
 */
bool
sl_shippable_is_offset_zero(const Node *offset)
{
	const Const *value = (const Const *) offset;

	return offset != NULL && IsA(value, Const) && !value->constisnull && value->location < 0 &&
		DatumGetInt64(value->constvalue) == 0;
}

/*
 * Changes a query, of any level, into its shippable form.  Its conditions are
 * always evaluated; its target list only if there are rows.
 */
Node *
sl_shippable_check_query(Query *query, SlShippableCheck *shipping)
{
	int			branches = shipping->branches;
	bool		computes_once = shipping->ship->computes_once;

	check_statement(query, shipping);
	if (shipping->has_failed)
		return (Node *) query;
	shipping->ship->computes_once = false;
	remove_unused(query);
	keep_from_visible(query);
	check_ctes(query->cteList, shipping);
	check_entries(query, shipping);
	check_from((Node *) query->jointree, query->rtable, shipping);
	if (query->commandType == CMD_MERGE)
		sl_shippable_check_merge(query, shipping);
	query->limitCount = sl_shippable_make_node(query->limitCount, shipping);
	query->limitOffset = sl_shippable_is_offset_zero(query->limitOffset) ? NULL :
		sl_shippable_make_node(query->limitOffset, shipping);

	if (query->commandType != CMD_INSERT)
		shipping->branches++;
	if (query->commandType == CMD_UPDATE)
		query->targetList = sl_shippable_order_assignments(query->targetList, shipping);

	/* A set-returning function makes several rows of one. */
	shipping->ship->computes_once = query->commandType == CMD_INSERT && !query->hasTargetSRFs;
	query->targetList = check_expressions(query->targetList, shipping);
	shipping->ship->computes_once = false;
	if (query->commandType == CMD_INSERT || query->commandType == CMD_UPDATE)
		sl_shippable_parameterize_values(query->targetList, shipping->ship);
	shipping->branches = branches + 1;
	query->havingQual = sl_shippable_make_node(query->havingQual, shipping);
	query->returningList = check_expressions(query->returningList, shipping);
	if (query->onConflict != NULL)
		check_conflict(query->onConflict, shipping);
	if (!shipping->has_failed)
		check_sort_clause(query, shipping);
	shipping->ship->computes_once = computes_once;
	shipping->branches = branches;
	return (Node *) query;
}

/* The router cannot decode anonymous records. */
static bool
returns_known_types(const SlShippableContext *ship, const Query *query)
{
	ListCell   *cell;

	foreach(cell, query->commandType == CMD_SELECT ? query->targetList : query->returningList)
	{
		if (!sl_shippable_is_type(ship, exprType((Node *) ((TargetEntry *) lfirst(cell))->expr)))
			return false;
	}
	return true;
}

/* Prepares a context for a statement on these tables, a list of SlTables. */
void
sl_shippable_init_query(SlShippableContext *ship, List *tables)
{
	sl_shippable_init(ship, tables);
	ship->is_statement = true;
}

/*
 * Returns a copy of the statement in shippable form, with new parameters, or
 * NULL if it is not shippable.
 */
Query *
sl_shippable_make_query(SlShippableContext *ship, const Query *query)
{
	SlShippableCheck shipping = {.ship = ship};
	List	   *params = list_copy(ship->params);
	Query	   *result = (Query *) sl_shippable_check_query((Query *) copyObject(query), &shipping);

	ship->computes_once = false;
	if (!shipping.has_failed && list_length(ship->params) <= SL_MAX_PARAMS &&
		returns_known_types(ship, result) &&
		sl_shippable_has_collations(ship, (Node *) result))
		return result;
	ship->params = params;
	return NULL;
}
