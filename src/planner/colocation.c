/*
 * colocation.c
 *		Can a query be pushed down to all shards, each computing its share
 *		of the result from its own rows?
 *
 * It can if the results of the shards together are the result: tables are
 * joined on equal shard keys, so that joined rows are on the same shard; rows
 * of a reference table, which every shard has, appear only joined to rows of
 * sharded tables; and GROUP BY, PARTITION BY and DISTINCT include the shard
 * key.
 *
 * A query for which this cannot be shown is left to the router.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"

#include "compat.h"
#include "planner/query_placement.h"

/* A relation, or a join. */
typedef struct Part
{
	bool		is_colocated;	/* each shard has different rows of it */
	List	   *units;			/* of SlUnit, whose keys are equal */
} Part;

typedef struct Colocation
{
	SlLevel		level;
	const struct Colocation *outer;
	SlTable   **table;			/* the first one found; determines the map */
	SlColocated **withs;		/* of cteList; NULL: not analyzed yet */
	Part		all;			/* of FROM */
	List	   *equalities;		/* that hold for every row of FROM */
} Colocation;

static bool check_query(const Colocation *outer, SlTable **table, Query *query, bool is_top,
						SlColocated *result);

/* Relations --------------------------------------------------------------------- */

static bool
check_table(Colocation *colocation, const RangeTblEntry *entry, SlColocated *result)
{
	SlTable    *table = sl_level_table(entry);

	if (table == NULL || table->kind == SL_TABLE_PLACED)
		return false;
	if (table->kind == SL_TABLE_REFERENCE)
		return true;
	if (*colocation->table == NULL)
		*colocation->table = table;
	else if (strcmp((*colocation->table)->map, table->map) != 0)
		return false;
	result->is_colocated = true;
	result->has_key = table->key_count > 0;
	memcpy(result->key, table->key, sizeof(result->key));
	return true;
}

/* A correlated subquery must be on the shard of the outer row. */
static bool
is_correlated_colocated(Colocation *colocation, Query *query)
{
	ListCell   *cell;

	foreach(cell, colocation->all.units)
	{
		const SlUnit *unit = lfirst(cell);
		SlShardKey	key = {.table = *colocation->table};

		if (unit->key_count == 0)
			continue;
		for (int i = 0; i < unit->key_count; i++)
			key.known[i] = list_make1(makeVar((int) unit->index, unit->key[i], InvalidOid, -1,
											  InvalidOid, 0));
		if (sl_single_shard_match_query(&key, &colocation->level, query))
			return true;
	}
	return false;
}

static bool
check_cte(Colocation *colocation, const RangeTblEntry *entry, SlColocated *result)
{
	const SlLevel *at;
	CommonTableExpr *with = sl_level_with(&colocation->level, entry, &at);
	const Colocation *of = colocation;
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
	if (*colocation->table == NULL)
		*colocation->table = *of->table;
	return true;
}

static bool
check_relation(Colocation *colocation, Index index, SlColocated *result)
{
	const RangeTblEntry *entry = rt_fetch(index, colocation->level.query->rtable);

	memset(result, 0, sizeof(SlColocated));
	switch (entry->rtekind)
	{
		case RTE_RELATION:
			return check_table(colocation, entry, result);
		case RTE_SUBQUERY:
			if (entry->lateral && contain_vars_of_level((Node *) entry->subquery, 1))
				return is_correlated_colocated(colocation, entry->subquery);
			return check_query(colocation, colocation->table, entry->subquery, false, result);
		case RTE_CTE:
			return check_cte(colocation, entry, result);
		case RTE_FUNCTION:
		case RTE_VALUES:
		case RTE_TABLEFUNC:
			return true;
		default:
			return false;
	}
}

/* Joins ----------------------------------------------------------------------------- */

/*
 * Is there a matching of the key columns through equalities?  Each is used
 * once.
 */
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

/* Are joined rows of the two always on the same shard? */
static bool
are_joined_on_shard(const List *equalities, const Part *left, const Part *right)
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
	if (left->is_colocated && right->is_colocated && !are_joined_on_shard(equalities, left, right))
		return false;

	/* Every shard would NULL-extend the rows of a reference table. */
	if ((type != JOIN_INNER && right->is_colocated && !left->is_colocated) ||
		(type == JOIN_FULL && left->is_colocated && !right->is_colocated))
		return false;
	result->is_colocated = left->is_colocated || right->is_colocated;
	result->units = list_concat(type == JOIN_FULL ? make_nullable(left->units) :
								list_copy(left->units),
								type != JOIN_INNER ? make_nullable(right->units) :
								list_copy(right->units));
	return true;
}

static bool
			check_tree(Colocation *colocation, Node *tree, List *equalities, bool is_top, Part *result);

static bool
check_join(Colocation *colocation, JoinExpr *join, List *equalities, bool is_top, Part *result)
{
	bool		is_right = join->jointype == JOIN_RIGHT;
	bool		is_inner = join->jointype == JOIN_INNER;
	Node	   *kept = is_right ? join->rarg : join->larg;
	Node	   *other = is_right ? join->larg : join->rarg;
	List	   *on = sl_level_add_equalities(&colocation->level, NIL, join->quals, NULL);
	List	   *both = join->jointype == JOIN_FULL ? on : list_concat_copy(equalities, on);
	Part		left = {0};
	Part		right = {0};

	if (join->jointype != JOIN_INNER && join->jointype != JOIN_LEFT && !is_right &&
		join->jointype != JOIN_FULL)
		return false;
	if (is_inner && is_top)
		colocation->equalities = list_concat_copy(colocation->equalities, on);
	if (!check_tree(colocation, kept, is_inner ? both : join->jointype == JOIN_FULL ? NIL : equalities,
					is_top && is_inner, &left) ||
		!check_tree(colocation, other, is_inner ? both : join->jointype == JOIN_FULL ? NIL : on,
					is_top && is_inner, &right))
		return false;
	return join_parts(both, is_right ? JOIN_LEFT : join->jointype, &left, &right, result);
}

/*
 * Joins the items of FROM in an order in which each one is joined to an
 * earlier one.
 */
static bool
check_from_list(Colocation *colocation, FromExpr *from, List *equalities, bool is_top, Part *result)
{
	List	   *parts = NIL;
	ListCell   *cell;

	foreach(cell, from->fromlist)
	{
		Part	   *part = palloc0(sizeof(Part));

		if (!check_tree(colocation, lfirst(cell), equalities, is_top, part))
			return false;
		parts = lappend(parts, part);
		/* Later items may be LATERAL subqueries that refer to these. */
		colocation->all.units = list_concat_copy(colocation->all.units, part->units);
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
check_base_relation(Colocation *colocation, Index index, Part *result)
{
	SlColocated relation;
	SlUnit	   *unit;

	if (!check_relation(colocation, index, &relation))
		return false;
	result->is_colocated = relation.is_colocated;
	if (!relation.is_colocated)
		return true;
	unit = palloc0(sizeof(SlUnit));
	unit->index = index;
	unit->key_count = relation.has_key ? (*colocation->table)->key_count : 0;
	memcpy(unit->key, relation.key, sizeof(unit->key));
	result->units = list_make1(unit);
	colocation->all.units = lappend(list_copy(colocation->all.units), unit);
	return true;
}

/* "equalities" hold for all rows that can be in the result. */
static bool
check_tree(Colocation *colocation, Node *tree, List *equalities, bool is_top, Part *result)
{
	if (IsA(tree, RangeTblRef))
		return check_base_relation(colocation, (Index) ((RangeTblRef *) tree)->rtindex, result);
	if (IsA(tree, JoinExpr))
		return check_join(colocation, (JoinExpr *) tree, equalities, is_top, result);
	return check_from_list(colocation, (FromExpr *) tree, equalities, is_top, result);
}

/* Expressions ------------------------------------------------------------------------- */

/* Does the expression equal the nth key column in every row? */
static bool
is_key(const Colocation *colocation, Node *expression, int number)
{
	Node	   *resolved = sl_level_resolve(&colocation->level, expression);
	ListCell   *cell;

	if (resolved == NULL || !IsA(resolved, Var) || ((Var *) resolved)->varlevelsup != 0)
		return false;
	foreach(cell, colocation->all.units)
	{
		const SlUnit *unit = lfirst(cell);

		if (!unit->is_nullable && unit->key_count > 0 &&
			are_equal(colocation->equalities, resolved, key_of(unit, number)))
			return true;
	}
	return false;
}

typedef struct Links
{
	Colocation *colocation;
	bool		has_failed;
} Links;

/* Does it refer to reference tables only? */
static bool
is_anywhere(const Colocation *colocation, Query *query)
{
	SlTable    *table = NULL;
	SlColocated result = {0};

	return check_query(colocation, &table, query, true, &result) && !result.is_colocated;
}

/*
 * Is it "key IN (SELECT key ...)"?  Neither side is ever NULL, so rows with
 * other keys do not change the result, not even that of NOT IN.
 */
static bool
is_by_key(const Colocation *colocation, const SubLink *link)
{
	List	   *outside = sl_single_shard_compared(&colocation->level, link);
	SlTable    *table = *colocation->table;
	SlColocated inside = {0};

	if (outside == NIL || !colocation->all.is_colocated ||
		!check_query(colocation, &table, castNode(Query, link->subselect), false, &inside) ||
		!inside.is_colocated || !inside.has_key)
		return false;
	for (int i = 0; i < table->key_count; i++)
	{
		if (!is_key(colocation, list_nth(outside, inside.key[i] - 1), i))
			return false;
	}
	return true;
}

static bool
check_sublinks(Node *node, Links *links)
{
	if (node == NULL || links->has_failed)
		return links->has_failed;
	if (IsA(node, SubLink))
	{
		Query	   *query = castNode(Query, ((SubLink *) node)->subselect);

		if (!is_anywhere(links->colocation, query) && !is_correlated_colocated(links->colocation, query) &&
			!is_by_key(links->colocation, (SubLink *) node))
			links->has_failed = true;
		return links->has_failed || check_sublinks(((SubLink *) node)->testexpr, links);
	}
	return expression_tree_walker(node, check_sublinks, (void *) links);
}

/*
 * Subqueries in expressions must read rows of the same shard, or reference
 * tables.
 */
static bool
are_sublinks_colocated(Colocation *colocation)
{
	Links		links = {.colocation = colocation};
	Query	   *query = colocation->level.query;

	if (!query->hasSubLinks)
		return true;
	(void) query_tree_walker(query, check_sublinks, (void *) &links,
							 QTW_IGNORE_RT_SUBQUERIES | QTW_IGNORE_CTE_SUBQUERIES);
	return !links.has_failed;
}

/* Is the shard key among the expressions of these clauses? */
static bool
contain_key(const Colocation *colocation, List *clauses)
{
	const SlTable *table = *colocation->table;

	if (table->key_count == 0)
		return false;
	for (int i = 0; i < table->key_count; i++)
	{
		bool		is_found = false;
		ListCell   *cell;

		foreach(cell, clauses)
			is_found = is_found ||
			is_key(colocation, get_sortgroupclause_expr(lfirst(cell),
														colocation->level.query->targetList), i);
		if (!is_found)
			return false;
	}
	return true;
}

static bool
are_windows_colocated(const Colocation *colocation)
{
	ListCell   *cell;

	foreach(cell, colocation->level.query->windowClause)
	{
		if (!contain_key(colocation, lfirst_node(WindowClause, cell)->partitionClause))
			return false;
	}
	return true;
}

/* Are groups, windows and distinct rows each made of rows of one shard? */
static bool
are_results_colocated(const Colocation *colocation, bool is_top)
{
	const Query *query = colocation->level.query;

	if (query->groupingSets != NIL || query->rowMarks != NIL ||
		query->limitOption == LIMIT_OPTION_WITH_TIES ||
		(!is_top && (query->limitCount != NULL || query->limitOffset != NULL)))
		return false;
	if ((query->hasAggs || query->groupClause != NIL || query->havingQual != NULL) &&
		!contain_key(colocation, query->groupClause))
		return false;
	return are_windows_colocated(colocation) &&
		(query->distinctClause == NIL || contain_key(colocation, query->distinctClause));
}

static void
find_columns(const Colocation *colocation, SlColocated *result)
{
	const SlTable *table = *colocation->table;

	result->has_key = table->key_count > 0;
	for (int i = 0; i < table->key_count; i++)
	{
		Node	   *column;

		result->key[i] = 0;
		for (int number = 1; (column = sl_level_output(&colocation->level, number)) != NULL; number++)
		{
			if (is_key(colocation, column, i))
				result->key[i] = (AttrNumber) number;
		}
		result->has_key = result->has_key && result->key[i] > 0;
	}
}

/* Queries --------------------------------------------------------------------------------- */

static bool
check_ctes(Colocation *colocation)
{
	List	   *withs = colocation->level.query->cteList;
	ListCell   *cell;

	colocation->withs = palloc0(sizeof(SlColocated *) * Max(list_length(withs), 1));
	foreach(cell, withs)
	{
		CommonTableExpr *with = lfirst_node(CommonTableExpr, cell);
		SlColocated *result = palloc0(sizeof(SlColocated));

		if (!check_query(colocation, colocation->table, castNode(Query, with->ctequery), false, result))
			return false;
		colocation->withs[foreach_current_index(cell)] = result;
	}
	return true;
}

/* Set operations: all arms must have the key in the same output column. */
static bool
check_arms(Colocation *colocation, Node *tree, bool *is_first, SlColocated *result)
{
	SetOperationStmt *operation = (SetOperationStmt *) tree;
	SlColocated left = {0};
	SlColocated right = {0};

	if (!IsA(tree, SetOperationStmt))
		return check_query(colocation, colocation->table,
						   rt_fetch(((RangeTblRef *) tree)->rtindex,
									colocation->level.query->rtable)->subquery, false, result);
	if (!check_arms(colocation, operation->larg, is_first, &left) ||
		!check_arms(colocation, operation->rarg, is_first, &right) ||
		left.is_colocated != right.is_colocated)
		return false;
	*result = left;
	result->units = NIL;		/* Vars of an arm refer to its own relation */
	if (!left.is_colocated)
		return true;
	for (int i = 0; i < (*colocation->table)->key_count; i++)
		result->has_key = result->has_key && right.has_key && left.key[i] == right.key[i];
	return result->has_key || (operation->op == SETOP_UNION && operation->all);
}

static bool
check_from(Colocation *colocation)
{
	FromExpr   *from = colocation->level.query->jointree;
	List	   *equalities = sl_level_add_equalities(&colocation->level, NIL, from->quals, NULL);
	Part		all = {0};

	colocation->equalities = equalities;
	if (!check_tree(colocation, (Node *) from, equalities, true, &all))
		return false;
	colocation->all = all;
	return true;
}

static bool
is_plain_select(const Query *query)
{
	return query->commandType == CMD_SELECT && query->utilityStmt == NULL && !query->hasModifyingCTE;
}

/* Can the query be pushed down to all shards? */
static bool
check_query(const Colocation *outer, SlTable **table, Query *query, bool is_top, SlColocated *result)
{
	Colocation	colocation = {.outer = outer,.table = table};
	bool		is_first = true;

	if (!sl_level_begin(&colocation.level, outer != NULL ? &outer->level : NULL, query) ||
		!is_plain_select(query) || !check_ctes(&colocation))
		return false;
	if (query->setOperations != NULL)
		return check_arms(&colocation, query->setOperations, &is_first, result) &&
			(is_top || (query->limitCount == NULL && query->limitOffset == NULL)) &&
			query->limitOption != LIMIT_OPTION_WITH_TIES && are_sublinks_colocated(&colocation);
	if (!check_from(&colocation) || !are_sublinks_colocated(&colocation))
		return false;
	result->is_colocated = colocation.all.is_colocated;
	result->units = colocation.all.units;
	if (!result->is_colocated)
		return true;
	if (!are_results_colocated(&colocation, is_top))
		return false;
	find_columns(&colocation, result);
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

/* Does each inserted row have the key of the row that it is computed from? */
static bool
keeps_key_of_source(const Colocation *colocation, const SlTable *target)
{
	const Query *query = colocation->level.query;

	if (target->key_count == 0 || strcmp(target->map, (*colocation->table)->map) != 0)
		return false;
	for (int i = 0; i < target->key_count; i++)
	{
		bool		is_found = false;
		ListCell   *cell;

		foreach(cell, query->targetList)
		{
			const TargetEntry *entry = lfirst_node(TargetEntry, cell);

			is_found = is_found || (!entry->resjunk && entry->resno == target->key[i] &&
									is_key(colocation, (Node *) entry->expr, i));
		}
		if (!is_found)
			return false;
	}
	return query->onConflict == NULL ||
		(!assigns_key(query->onConflict->onConflictSet, target) && !sl_single_shard_has_generated_key(target));
}

static bool check_change(Query *query, SlTable **table, SlColocated *result);

/* Do the actions of MERGE keep the key, of the target's row or of the source's? */
static bool
check_actions(const Query *query, const SlTable *target)
{
	ListCell   *cell;

	foreach(cell, query->mergeActionList)
	{
		const MergeAction *action = lfirst_node(MergeAction, cell);
		SlTable    *table = NULL;
		SlColocated result = {0};

		if (action->commandType == CMD_UPDATE && sl_merge_changes_key(action, target))
			return false;
		if (action->commandType == CMD_INSERT &&
			!check_change(sl_merge_make_insert(query, action), &table, &result))
			return false;
	}
	return true;
}

/* Does each modified row stay on its shard? */
static bool
writes_what_it_reads(const Colocation *colocation, const SlTable *target)
{
	const Query *query = colocation->level.query;

	if (query->commandType == CMD_MERGE)
		return check_actions(query, target);
	if (query->commandType == CMD_INSERT)
		return colocation->all.is_colocated && keeps_key_of_source(colocation, target);
	return query->commandType == CMD_DELETE ||
		(!assigns_key(query->targetList, target) && !sl_single_shard_has_generated_key(target));
}

/* UPDATE and DELETE in place, INSERT ... SELECT that keeps the key, and MERGE. */
static bool
check_change(Query *query, SlTable **table, SlColocated *result)
{
	Colocation	colocation = {.table = table};
	SlTable    *target;

	if ((query->commandType != CMD_UPDATE && query->commandType != CMD_DELETE &&
		 query->commandType != CMD_INSERT && query->commandType != CMD_MERGE) || query->hasModifyingCTE || query->rowMarks != NIL)
		return false;
	target = sl_level_table(rt_fetch(query->resultRelation, query->rtable));
	if (target == NULL || target->kind != SL_TABLE_SHARDED || sl_single_shard_is_checked(query, target) ||
		!sl_level_begin(&colocation.level, NULL, query) || !check_ctes(&colocation) ||
		!check_from(&colocation) || !are_sublinks_colocated(&colocation) ||
		!writes_what_it_reads(&colocation, target))
		return false;
	result->is_colocated = true;
	result->units = colocation.all.units;
	return true;
}

/* Can the statement be pushed down to all shards? */
bool
sl_colocation_check_statement(Query *query, SlTable **table, SlColocated *result)
{
	return (query->commandType == CMD_SELECT ? check_query(NULL, table, query, true, result) :
			check_change(query, table, result)) && result->is_colocated;
}
