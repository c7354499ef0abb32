/*
 * where_divide.c
 *		Can each shard answer a query for its own rows?
 *
 * It can if what it would return is its part of the result: tables are joined by
 * equal keys, so that rows that belong together are on one shard; a row of a
 * reference table, which every shard has, appears only beside rows of others;
 * and groups, windows and distinct rows are told apart by the key.
 *
 * What lacks such a reason is left to the router.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"

#include "compat.h"
#include "plan/where.h"

/* A relation, or several that are joined. */
typedef struct Part
{
	bool		is_divided;		/* each shard has other rows of it */
	List	   *units;			/* of SlUnit, whose keys are equal */
} Part;

typedef struct Dividing
{
	SlLevel		level;
	const struct Dividing *outer;
	SlTable   **table;			/* the first one found; decides on the map */
	SlDivided **withs;			/* of cteList; NULL: not known yet */
	Part		all;			/* of FROM */
	List	   *equalities;		/* that hold for every row of FROM */
} Dividing;

static bool divide_query(const Dividing *outer, SlTable **table, Query *query, bool is_top,
						 SlDivided *result);

/* Relations --------------------------------------------------------------------- */

static bool
divide_table(Dividing *dividing, const RangeTblEntry *entry, SlDivided *result)
{
	SlTable    *table = sl_level_table(entry);

	if (table == NULL || table->kind == SL_TABLE_PLACED)
		return false;
	if (table->kind == SL_TABLE_REFERENCE)
		return true;
	if (*dividing->table == NULL)
		*dividing->table = table;
	else if (strcmp((*dividing->table)->map, table->map) != 0)
		return false;
	result->is_divided = true;
	result->has_key = table->key_count > 0;
	memcpy(result->key, table->key, sizeof(result->key));
	return true;
}

/* A subquery that uses rows of this level must be where these are. */
static bool
is_beside(Dividing *dividing, Query *query)
{
	ListCell   *cell;

	foreach(cell, dividing->all.units)
	{
		const SlUnit *unit = lfirst(cell);
		SlPin		pin = {.table = *dividing->table};

		if (unit->key_count == 0)
			continue;
		for (int i = 0; i < unit->key_count; i++)
			pin.known[i] = list_make1(makeVar((int) unit->index, unit->key[i], InvalidOid, -1,
											  InvalidOid, 0));
		if (sl_pin_query(&pin, &dividing->level, query))
			return true;
	}
	return false;
}

static bool
divide_with(Dividing *dividing, const RangeTblEntry *entry, SlDivided *result)
{
	const SlLevel *at;
	CommonTableExpr *with = sl_level_with(&dividing->level, entry, &at);
	const Dividing *of = dividing;
	int			number = 0;
	ListCell   *cell;

	if (with == NULL || with->cterecursive)
		return false;
	for (Index i = 0; i < entry->ctelevelsup && of != NULL; i++)
		of = of->outer;
	if (of == NULL || of->withs == NULL)
		return false;
	foreach(cell, at->query->cteList)
	{
		if (lfirst(cell) == with)
			number = foreach_current_index(cell);
	}
	if (of->withs[number] == NULL)
		return false;
	*result = *of->withs[number];
	if (*dividing->table == NULL)
		*dividing->table = *of->table;
	return true;
}

static bool
divide_relation(Dividing *dividing, Index index, SlDivided *result)
{
	const RangeTblEntry *entry = rt_fetch(index, dividing->level.query->rtable);

	memset(result, 0, sizeof(SlDivided));
	switch (entry->rtekind)
	{
		case RTE_RELATION:
			return divide_table(dividing, entry, result);
		case RTE_SUBQUERY:
			if (entry->lateral && contain_vars_of_level((Node *) entry->subquery, 1))
				return is_beside(dividing, entry->subquery);
			return divide_query(dividing, dividing->table, entry->subquery, false, result);
		case RTE_CTE:
			return divide_with(dividing, entry, result);
		case RTE_FUNCTION:
		case RTE_VALUES:
		case RTE_TABLEFUNC:
			return true;
		default:
			return false;
	}
}

/* Joins ----------------------------------------------------------------------------- */

/* Do equalities lead from one to the other?  Each is used once. */
static bool
is_reached(const List *equalities, const Node *from, const Node *to, Bitmapset **used)
{
	ListCell   *cell;

	if (sl_level_is_same(from, to))
		return true;
	foreach(cell, equalities)
	{
		const SlEquality *equality = lfirst(cell);
		int			number = foreach_current_index(cell);
		const Node *next = sl_level_is_same(equality->left, from) ? equality->right :
		sl_level_is_same(equality->right, from) ? equality->left : NULL;

		if (next == NULL || bms_is_member(number, *used))
			continue;
		*used = bms_add_member(*used, number);
		if (is_reached(equalities, next, to, used))
			return true;
	}
	return false;
}

static Node *
key_of(const SlUnit *unit, int number)
{
	return (Node *) makeVar((int) unit->index, unit->key[number], InvalidOid, -1, InvalidOid, 0);
}

static bool
are_equal(const List *equalities, const Node *a, const Node *b)
{
	Bitmapset  *used = NULL;

	return is_reached(equalities, a, b, &used);
}

/* Are rows of the two that are joined always on one shard? */
static bool
are_together(const List *equalities, const Part *left, const Part *right)
{
	ListCell   *left_cell;
	ListCell   *right_cell;

	foreach(left_cell, left->units)
	{
		foreach(right_cell, right->units)
		{
			const SlUnit *a = lfirst(left_cell);
			const SlUnit *b = lfirst(right_cell);
			bool		have_one_key = a->key_count > 0 && a->key_count == b->key_count;

			for (int i = 0; i < a->key_count && have_one_key; i++)
				have_one_key = are_equal(equalities, key_of(a, i), key_of(b, i));
			if (have_one_key)
				return true;
		}
	}
	return false;
}

static List *
make_nullable(List *units)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, units)
	{
		SlUnit	   *unit = palloc(sizeof(SlUnit));

		*unit = *(const SlUnit *) lfirst(cell);
		unit->is_nullable = true;
		result = lappend(result, unit);
	}
	return result;
}

/* "left" is the side whose rows an outer join keeps. */
static bool
join_parts(const List *equalities, JoinType type, Part *left, Part *right, Part *result)
{
	if (left->is_divided && right->is_divided && !are_together(equalities, left, right))
		return false;

	/* Each shard would fill up the rows of a table that all have. */
	if ((type != JOIN_INNER && right->is_divided && !left->is_divided) ||
		(type == JOIN_FULL && left->is_divided && !right->is_divided))
		return false;
	result->is_divided = left->is_divided || right->is_divided;
	result->units = list_concat(type == JOIN_FULL ? make_nullable(left->units) :
								list_copy(left->units),
								type != JOIN_INNER ? make_nullable(right->units) :
								list_copy(right->units));
	return true;
}

static bool
			divide_tree(Dividing *dividing, Node *tree, List *equalities, bool is_top, Part *result);

static bool
divide_join(Dividing *dividing, JoinExpr *join, List *equalities, bool is_top, Part *result)
{
	bool		is_right = join->jointype == JOIN_RIGHT;
	bool		is_inner = join->jointype == JOIN_INNER;
	Node	   *kept = is_right ? join->rarg : join->larg;
	Node	   *other = is_right ? join->larg : join->rarg;
	List	   *on = sl_level_add_equalities(&dividing->level, NIL, join->quals, NULL);
	List	   *both = join->jointype == JOIN_FULL ? on : list_concat_copy(equalities, on);
	Part		left = {0};
	Part		right = {0};

	if (join->jointype != JOIN_INNER && join->jointype != JOIN_LEFT && !is_right &&
		join->jointype != JOIN_FULL)
		return false;
	if (is_inner && is_top)
		dividing->equalities = list_concat_copy(dividing->equalities, on);
	if (!divide_tree(dividing, kept, is_inner ? both : join->jointype == JOIN_FULL ? NIL : equalities,
					 is_top && is_inner, &left) ||
		!divide_tree(dividing, other, is_inner ? both : join->jointype == JOIN_FULL ? NIL : on,
					 is_top && is_inner, &right))
		return false;
	return join_parts(both, is_right ? JOIN_LEFT : join->jointype, &left, &right, result);
}

/* Parts that are joined by WHERE come in an order in which each finds a fellow. */
static bool
divide_list(Dividing *dividing, FromExpr *from, List *equalities, bool is_top, Part *result)
{
	List	   *parts = NIL;
	ListCell   *cell;

	foreach(cell, from->fromlist)
	{
		Part	   *part = palloc0(sizeof(Part));

		if (!divide_tree(dividing, lfirst(cell), equalities, is_top, part))
			return false;
		parts = lappend(parts, part);
		/* What follows may be a subquery that uses these. */
		dividing->all.units = list_concat_copy(dividing->all.units, part->units);
	}
	while (parts != NIL)
	{
		bool		has_joined = false;

		foreach(cell, parts)
		{
			Part		joined = {0};

			if (join_parts(equalities, JOIN_INNER, result, lfirst(cell), &joined))
			{
				*result = joined;
				parts = foreach_delete_current(parts, cell);
				has_joined = true;
			}
		}
		if (!has_joined)
			return false;
	}
	return true;
}

static bool
divide_leaf(Dividing *dividing, Index index, Part *result)
{
	SlDivided	relation;
	SlUnit	   *unit;

	if (!divide_relation(dividing, index, &relation))
		return false;
	result->is_divided = relation.is_divided;
	if (!relation.is_divided)
		return true;
	unit = palloc0(sizeof(SlUnit));
	unit->index = index;
	unit->key_count = relation.has_key ? (*dividing->table)->key_count : 0;
	memcpy(unit->key, relation.key, sizeof(unit->key));
	result->units = list_make1(unit);
	dividing->all.units = lappend(list_copy(dividing->all.units), unit);
	return true;
}

/* "equalities" hold for all rows that matter. */
static bool
divide_tree(Dividing *dividing, Node *tree, List *equalities, bool is_top, Part *result)
{
	if (IsA(tree, RangeTblRef))
		return divide_leaf(dividing, (Index) ((RangeTblRef *) tree)->rtindex, result);
	if (IsA(tree, JoinExpr))
		return divide_join(dividing, (JoinExpr *) tree, equalities, is_top, result);
	return divide_list(dividing, (FromExpr *) tree, equalities, is_top, result);
}

/* Expressions ------------------------------------------------------------------------- */

/* Does the expression equal the nth key column, of each row? */
static bool
is_key(const Dividing *dividing, Node *expression, int number)
{
	Node	   *resolved = sl_level_resolve(&dividing->level, expression);
	ListCell   *cell;

	if (resolved == NULL || !IsA(resolved, Var) || ((Var *) resolved)->varlevelsup != 0)
		return false;
	foreach(cell, dividing->all.units)
	{
		const SlUnit *unit = lfirst(cell);

		if (!unit->is_nullable && unit->key_count > 0 &&
			are_equal(dividing->equalities, resolved, key_of(unit, number)))
			return true;
	}
	return false;
}

typedef struct Links
{
	Dividing   *dividing;
	bool		has_failed;
} Links;

/* Is it about reference tables alone? */
static bool
is_anywhere(const Dividing *dividing, Query *query)
{
	SlTable    *table = NULL;
	SlDivided	result = {0};

	return divide_query(dividing, &table, query, true, &result) && !result.is_divided;
}

/*
 * Is it "key IN (SELECT key ...)"?  Neither is ever NULL, so rows with other keys
 * make no difference, for NOT IN either.
 */
static bool
is_by_key(const Dividing *dividing, const SubLink *link)
{
	List	   *outside = sl_pin_compared(&dividing->level, link);
	SlTable    *table = *dividing->table;
	SlDivided	inside = {0};

	if (outside == NIL || !dividing->all.is_divided ||
		!divide_query(dividing, &table, castNode(Query, link->subselect), false, &inside) ||
		!inside.is_divided || !inside.has_key)
		return false;
	for (int i = 0; i < table->key_count; i++)
	{
		if (!is_key(dividing, list_nth(outside, inside.key[i] - 1), i))
			return false;
	}
	return true;
}

static bool
look_for_links(Node *node, Links *links)
{
	if (node == NULL || links->has_failed)
		return links->has_failed;
	if (IsA(node, SubLink))
	{
		Query	   *query = castNode(Query, ((SubLink *) node)->subselect);

		if (!is_anywhere(links->dividing, query) && !is_beside(links->dividing, query) &&
			!is_by_key(links->dividing, (SubLink *) node))
			links->has_failed = true;
		return links->has_failed || look_for_links(((SubLink *) node)->testexpr, links);
	}
	return expression_tree_walker(node, look_for_links, (void *) links);
}

/* Subqueries in expressions need what this shard has, or what all have. */
static bool
can_have_links(Dividing *dividing, bool of_from_only)
{
	Links		links = {.dividing = dividing};
	Query	   *query = dividing->level.query;

	if (!query->hasSubLinks)
		return true;
	if (of_from_only)
		(void) look_for_links((Node *) query->jointree, &links);
	else
		(void) query_tree_walker(query, look_for_links, (void *) &links,
								 QTW_IGNORE_RT_SUBQUERIES | QTW_IGNORE_CTE_SUBQUERIES);
	return !links.has_failed;
}

/* Is the key among the expressions that these refer to? */
static bool
contain_key(const Dividing *dividing, List *clauses)
{
	const SlTable *table = *dividing->table;

	if (table->key_count == 0)
		return false;
	for (int i = 0; i < table->key_count; i++)
	{
		bool		is_found = false;
		ListCell   *cell;

		foreach(cell, clauses)
			is_found = is_found ||
			is_key(dividing, get_sortgroupclause_expr(lfirst(cell),
													  dividing->level.query->targetList), i);
		if (!is_found)
			return false;
	}
	return true;
}

static bool
are_windows_divided(const Dividing *dividing)
{
	ListCell   *cell;

	foreach(cell, dividing->level.query->windowClause)
	{
		if (!contain_key(dividing, lfirst_node(WindowClause, cell)->partitionClause))
			return false;
	}
	return true;
}

/* Are groups and so on made of rows of one shard each? */
static bool
are_results_divided(const Dividing *dividing, bool is_top)
{
	const Query *query = dividing->level.query;

	if (query->groupingSets != NIL || query->rowMarks != NIL ||
		query->limitOption == LIMIT_OPTION_WITH_TIES ||
		(!is_top && (query->limitCount != NULL || query->limitOffset != NULL)))
		return false;
	if ((query->hasAggs || query->groupClause != NIL || query->havingQual != NULL) &&
		!contain_key(dividing, query->groupClause))
		return false;
	return are_windows_divided(dividing) &&
		(query->distinctClause == NIL || contain_key(dividing, query->distinctClause));
}

static void
find_columns(const Dividing *dividing, SlDivided *result)
{
	const SlTable *table = *dividing->table;

	result->has_key = table->key_count > 0;
	for (int i = 0; i < table->key_count; i++)
	{
		Node	   *column;

		result->key[i] = 0;
		for (int number = 1; (column = sl_level_output(&dividing->level, number)) != NULL; number++)
		{
			if (is_key(dividing, column, i))
				result->key[i] = (AttrNumber) number;
		}
		result->has_key = result->has_key && result->key[i] > 0;
	}
}

/* Queries --------------------------------------------------------------------------------- */

static bool
divide_withs(Dividing *dividing)
{
	List	   *withs = dividing->level.query->cteList;
	ListCell   *cell;

	dividing->withs = palloc0(sizeof(SlDivided *) * Max(list_length(withs), 1));
	foreach(cell, withs)
	{
		CommonTableExpr *with = lfirst_node(CommonTableExpr, cell);
		SlDivided  *result = palloc0(sizeof(SlDivided));

		if (!divide_query(dividing, dividing->table, castNode(Query, with->ctequery), false, result))
			return false;
		dividing->withs[foreach_current_index(cell)] = result;
	}
	return true;
}

/* UNION and the like: rows that are compared have the key in the same column. */
static bool
divide_arms(Dividing *dividing, Node *tree, bool *is_first, SlDivided *result)
{
	SetOperationStmt *operation = (SetOperationStmt *) tree;
	SlDivided	left = {0};
	SlDivided	right = {0};

	if (!IsA(tree, SetOperationStmt))
		return divide_query(dividing, dividing->table,
							rt_fetch(((RangeTblRef *) tree)->rtindex,
									 dividing->level.query->rtable)->subquery, false, result);
	if (!divide_arms(dividing, operation->larg, is_first, &left) ||
		!divide_arms(dividing, operation->rarg, is_first, &right) ||
		left.is_divided != right.is_divided)
		return false;
	*result = left;
	result->units = NIL;		/* they are relations of an arm */
	if (!left.is_divided)
		return true;
	for (int i = 0; i < (*dividing->table)->key_count; i++)
		result->has_key = result->has_key && right.has_key && left.key[i] == right.key[i];
	return result->has_key || (operation->op == SETOP_UNION && operation->all);
}

static bool
divide_from(Dividing *dividing)
{
	FromExpr   *from = dividing->level.query->jointree;
	List	   *equalities = sl_level_add_equalities(&dividing->level, NIL, from->quals, NULL);
	Part		all = {0};

	dividing->equalities = equalities;
	if (!divide_tree(dividing, (Node *) from, equalities, true, &all))
		return false;
	dividing->all = all;
	return true;
}

static bool
is_plain_select(const Query *query)
{
	return query->commandType == CMD_SELECT && query->utilityStmt == NULL && !query->hasModifyingCTE;
}

/* Can each shard answer the query for its own rows? */
static bool
divide_query(const Dividing *outer, SlTable **table, Query *query, bool is_top, SlDivided *result)
{
	Dividing	dividing = {.outer = outer,.table = table};
	bool		is_first = true;

	if (!sl_level_begin(&dividing.level, outer != NULL ? &outer->level : NULL, query) ||
		!is_plain_select(query) || !divide_withs(&dividing))
		return false;
	if (query->setOperations != NULL)
		return divide_arms(&dividing, query->setOperations, &is_first, result) &&
			(is_top || (query->limitCount == NULL && query->limitOffset == NULL)) &&
			query->limitOption != LIMIT_OPTION_WITH_TIES && can_have_links(&dividing, false);
	if (!divide_from(&dividing) || !can_have_links(&dividing, false))
		return false;
	result->is_divided = dividing.all.is_divided;
	result->units = dividing.all.units;
	if (!result->is_divided)
		return true;
	if (!are_results_divided(&dividing, is_top))
		return false;
	find_columns(&dividing, result);
	return true;
}

/* Is a key column of the target among these? */
static bool
assigns_key(List *assignments, const SlTable *target)
{
	ListCell   *cell;

	foreach(cell, assignments)
	{
		const TargetEntry *assigned = lfirst_node(TargetEntry, cell);

		for (int i = 0; i < target->key_count; i++)
		{
			if (!assigned->resjunk && assigned->resno == target->key[i])
				return true;
		}
	}
	return false;
}

/* Do rows that are inserted have the key of the rows that they are made of? */
static bool
inserts_beside(const Dividing *dividing, const SlTable *target)
{
	const Query *query = dividing->level.query;

	if (target->key_count == 0 || strcmp(target->map, (*dividing->table)->map) != 0)
		return false;
	for (int i = 0; i < target->key_count; i++)
	{
		bool		is_found = false;
		ListCell   *cell;

		foreach(cell, query->targetList)
		{
			const TargetEntry *entry = lfirst_node(TargetEntry, cell);

			is_found = is_found || (!entry->resjunk && entry->resno == target->key[i] &&
									is_key(dividing, (Node *) entry->expr, i));
		}
		if (!is_found)
			return false;
	}
	return query->onConflict == NULL ||
		(!assigns_key(query->onConflict->onConflictSet, target) && !sl_pin_has_generated_key(target));
}

/* Does each row that is written stay on the shard where it is found? */
static bool
writes_where_it_reads(const Dividing *dividing, const SlTable *target)
{
	const Query *query = dividing->level.query;

	if (query->commandType == CMD_INSERT)
		return dividing->all.is_divided && inserts_beside(dividing, target);
	return query->commandType == CMD_DELETE ||
		(!assigns_key(query->targetList, target) && !sl_pin_has_generated_key(target));
}

/* A statement that changes rows where they are, or makes new ones beside them. */
static bool
divide_change(Query *query, SlTable **table, SlDivided *result)
{
	Dividing	dividing = {.table = table};
	SlTable    *target;

	if ((query->commandType != CMD_UPDATE && query->commandType != CMD_DELETE &&
		 query->commandType != CMD_INSERT) || query->hasModifyingCTE || query->rowMarks != NIL)
		return false;
	target = sl_level_table(rt_fetch(query->resultRelation, query->rtable));
	if (target == NULL || target->kind != SL_TABLE_SHARDED || sl_pin_has_triggers(target) ||
		!sl_level_begin(&dividing.level, NULL, query) || !divide_withs(&dividing) ||
		!divide_from(&dividing) || !can_have_links(&dividing, false) ||
		!writes_where_it_reads(&dividing, target))
		return false;
	result->is_divided = true;
	result->units = dividing.all.units;
	return true;
}

/* Can each shard do its part of the statement? */
bool
sl_divide_statement(Query *query, SlTable **table, SlDivided *result)
{
	return (query->commandType == CMD_SELECT ? divide_query(NULL, table, query, true, result) :
			divide_change(query, table, result)) && result->is_divided;
}

/* Can each shard make its part of what FROM and WHERE make? */
bool
sl_divide_from(Query *query, SlTable **table, SlDivided *result)
{
	Dividing	dividing = {.table = table};

	if (!is_plain_select(query) || query->setOperations != NULL || query->rowMarks != NIL ||
		!sl_level_begin(&dividing.level, NULL, query) || !divide_withs(&dividing) ||
		!divide_from(&dividing) || !can_have_links(&dividing, true))
		return false;
	result->units = dividing.all.units;
	return dividing.all.is_divided;
}
