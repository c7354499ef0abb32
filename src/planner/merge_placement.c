/*
 * merge_placement.c
 *		MERGE as placement analysis sees it: a join of the target with the
 *		source.
 *
 * The parser leaves the target out of FROM, and the planner joins it to the
 * source: to all of it if rows are inserted, and with all rows of the target if
 * an action is for those that no source row matches.  The same join is made in
 * a copy of the statement, and analyzed like that of any other statement.  What
 * is deparsed is the statement itself.
 *
 * An INSERT action puts a row on the shard of the source's row that it is computed
 * from, so it is analyzed as INSERT ... SELECT from the source alone.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"

#include "compat.h"
#include "planner/query_placement.h"

/* Columns of nested subqueries are followed so many levels down. */
#define MAX_LEVELS 8

/* The join -------------------------------------------------------------------------- */

static JoinType
find_join_type(const Query *query)
{
	bool		keeps_source = false;
	bool		keeps_target = false;
	ListCell   *cell;

	foreach(cell, query->mergeActionList)
	{
		const MergeAction *action = lfirst_node(MergeAction, cell);

		if (action->commandType == CMD_INSERT)
			keeps_source = true;
		else if (action->commandType != CMD_NOTHING && sl_is_not_matched_by_source(action))
			keeps_target = true;
	}
	if (keeps_source)
		return keeps_target ? JOIN_FULL : JOIN_RIGHT;
	return keeps_target ? JOIN_LEFT : JOIN_INNER;
}

/* Conditions of a view that is the target restrict its rows before the join. */
static Node *
make_target(const Query *query)
{
	RangeTblRef *target = makeNode(RangeTblRef);

	target->rtindex = query->resultRelation;
	if (!SL_MERGE_CONDITION_APART || query->jointree->quals == NULL)
		return (Node *) target;
	return (Node *) makeFromExpr(list_make1(target), query->jointree->quals);
}

/* An integer of more bytes is the same key. */
static Node *
strip_widening(Node *value)
{
	while (IsA(value, FuncExpr) && (((FuncExpr *) value)->funcid == F_INT8_INT4 ||
									((FuncExpr *) value)->funcid == F_INT8_INT2 ||
									((FuncExpr *) value)->funcid == F_INT4_INT2))
		value = linitial(((FuncExpr *) value)->args);
	return value;
}

static void
strip_inserted(Query *query)
{
	ListCell   *cell;
	ListCell   *entry;

	foreach(cell, query->mergeActionList)
	{
		MergeAction *action = lfirst_node(MergeAction, cell);

		foreach(entry, action->commandType == CMD_INSERT ? action->targetList : NIL)
			lfirst_node(TargetEntry, entry)->expr =
			(Expr *) strip_widening((Node *) lfirst_node(TargetEntry, entry)->expr);
	}
}

static void
join_target(Query *query)
{
	JoinType	type = find_join_type(query);
	Node	   *target = make_target(query);
	Node	   *source = linitial(query->jointree->fromlist);
	Node	   *condition = sl_merge_condition(query);
	JoinExpr   *join;

	strip_inserted(query);
	sl_merge_condition(query) = NULL;
	if (type == JOIN_INNER)
	{
		query->jointree = makeFromExpr(lappend(list_make1(target), source), condition);
		return;
	}
	join = makeNode(JoinExpr);
	join->jointype = type;
	join->larg = target;
	join->rarg = source;
	join->quals = condition;
	query->jointree = makeFromExpr(list_make1(join), NULL);
}

static bool
has_merge(const Query *query)
{
	ListCell   *cell;

	if (query->commandType == CMD_MERGE)
		return true;
	foreach(cell, query->hasModifyingCTE ? query->cteList : NIL)
	{
		if (castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery)->commandType == CMD_MERGE)
			return true;
	}
	return false;
}

/*
 * Returns a copy of the statement in which the target of each MERGE is joined, or
 * the statement itself if there is none.  MERGE is possible at the top level, and
 * in a WITH clause of the top level.
 */
Query *
sl_merge_join_target(Query *query)
{
	ListCell   *cell;

	if (!has_merge(query))
		return query;
	query = copyObject(query);
	if (query->commandType == CMD_MERGE)
		join_target(query);
	foreach(cell, query->cteList)
	{
		Query	   *with = castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery);

		if (with->commandType == CMD_MERGE)
			join_target(with);
	}
	return query;
}

/* Actions --------------------------------------------------------------------------- */

/* Returns what an action assigns to a column, or NULL. */
static Node *
find_assigned(const MergeAction *action, AttrNumber column)
{
	ListCell   *cell;

	foreach(cell, action->targetList)
	{
		const TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (!entry->resjunk && entry->resno == column)
			return (Node *) entry->expr;
	}
	return NULL;
}

/* Could an UPDATE action change the shard of the row? */
bool
sl_merge_changes_key(const MergeAction *action, const SlTable *target)
{
	for (int i = 0; i < target->key_count; i++)
	{
		if (find_assigned(action, target->key[i]) != NULL)
			return true;
	}
	return sl_single_shard_has_generated_key(target);
}

static bool
inserts_key(const MergeAction *action, const SlLevel *level, const SlShardKey *key, const SlTable *target)
{
	for (int i = 0; i < target->key_count; i++)
	{
		Node	   *value = find_assigned(action, target->key[i]);

		if (value == NULL || !sl_level_is_known(level, key->known[i], value))
			return false;
	}
	return true;
}

/*
 * Do all actions insert rows with what is known as the key, and keep it in updated
 * ones?
 */
bool
sl_merge_keeps_key(const SlLevel *level, const SlShardKey *key, const SlTable *target)
{
	ListCell   *cell;

	foreach(cell, level->query->mergeActionList)
	{
		const MergeAction *action = lfirst_node(MergeAction, cell);

		if ((action->commandType == CMD_INSERT && !inserts_key(action, level, key, target)) ||
			(action->commandType == CMD_UPDATE && sl_merge_changes_key(action, target)))
			return false;
	}
	return true;
}

/*
 * Makes INSERT INTO target SELECT ... FROM source of an INSERT action.  The
 * statement is one in which the target is joined.
 */
Query *
sl_merge_make_insert(const Query *query, const MergeAction *action)
{
	Query	   *result = makeNode(Query);
	JoinExpr   *join = linitial_node(JoinExpr, query->jointree->fromlist);

	*result = *query;
	result->commandType = CMD_INSERT;
	result->jointree = makeFromExpr(list_make1(join->rarg), NULL);
	result->targetList = action->targetList;
	result->mergeActionList = NIL;
	result->returningList = NIL;
	return result;
}

/* The key --------------------------------------------------------------------------- */

static Node *find_value(const SlLevel *level, Node *node, int depth, bool *is_sure);

/* Is each output column of the query evaluated in any case? */
static bool
is_always_evaluated(const Query *query)
{
	return query->commandType == CMD_SELECT && query->jointree->quals == NULL && query->havingQual == NULL &&
		query->setOperations == NULL && query->limitCount == NULL && query->limitOffset == NULL &&
		query->groupClause == NIL && !query->hasAggs && !query->hasTargetSRFs;
}

/*
 * Returns the value of a column of a subquery or VALUES; of several rows, the first
 * one.  "is_sure" becomes false if it may not be evaluated.
 */
static Node *
find_column_value(const SlLevel *level, const Var *column, int depth, bool *is_sure)
{
	const RangeTblEntry *entry = rt_fetch(column->varno, level->query->rtable);
	const SlLevel *at;
	CommonTableExpr *with;
	SlLevel		inner;
	Query	   *query = NULL;

	if (entry->rtekind == RTE_VALUES)
		return find_value(level, list_nth(linitial(entry->values_lists), column->varattno - 1), depth, is_sure);
	if (entry->rtekind == RTE_SUBQUERY)
		query = entry->subquery;
	else if (entry->rtekind == RTE_CTE && entry->ctelevelsup == 0 &&
			 (with = sl_level_with(level, entry, &at)) != NULL)
		query = castNode(Query, with->ctequery);
	if (query == NULL || !sl_level_begin(&inner, level, query))
		return NULL;
	*is_sure = *is_sure && is_always_evaluated(query);
	return find_value(&inner, sl_level_output(&inner, column->varattno), depth, is_sure);
}

/* Returns the constant that an expression of the source stands for, or NULL. */
static Node *
find_value(const SlLevel *level, Node *node, int depth, bool *is_sure)
{
	node = sl_level_resolve(level, node);
	if (node == NULL || depth > MAX_LEVELS)
		return NULL;
	if (IsA(node, Var))
		return ((Var *) node)->varlevelsup == 0 && ((Var *) node)->varattno > 0 ?
			find_column_value(level, (Var *) node, depth + 1, is_sure) : NULL;
	return sl_level_is_constant(node) ? node : NULL;
}

/* Returns what the condition compares the target's key column with. */
static Node *
find_compared(const SlLevel *level, const List *equalities, const SlTable *table, int key)
{
	ListCell   *cell;

	foreach(cell, equalities)
	{
		const SlEquality *equality = lfirst(cell);
		Node	   *column = (Node *) makeVar(level->query->resultRelation, table->key[key], InvalidOid, -1,
											  InvalidOid, 0);
		Node	   *other = sl_level_is_same(equality->left, column) ? equality->right :
		sl_level_is_same(equality->right, column) ? equality->left : NULL;
		bool		is_sure = other != NULL && IsA(other, Var);
		Node	   *value = other != NULL ? find_value(level, other, 0, &is_sure) : NULL;

		if (value != NULL && sl_single_shard_is_usable(table, key, value) &&
			(is_sure || sl_shippable_is_safe_early(value)))
			return value;
	}
	return NULL;
}

static bool
find_key(const SlLevel *outer, Query *query, SlShardKey *key)
{
	SlShardKey	found = {0};
	SlTable    *table;
	SlLevel		level;
	List	   *equalities;

	if (query->commandType != CMD_MERGE)
		return false;
	found.table = table = sl_level_table(rt_fetch(query->resultRelation, query->rtable));
	if (table == NULL || table->kind != SL_TABLE_SHARDED || table->key_count == 0 ||
		!sl_level_begin(&level, outer, query))
		return false;
	equalities = sl_level_equalities(&level);
	for (int i = 0; i < table->key_count; i++)
	{
		Node	   *value = find_compared(&level, equalities, table, i);

		if (value == NULL)
			return false;
		found.known[i] = list_make1(value);
	}
	*key = found;
	return true;
}

/*
 * Finds a key in the source's rows: MERGE ... USING (VALUES (1, 'a')) is for the
 * key 1 if ON compares the target's key with that column.  Whether all rows have
 * this key remains to be checked.  The target of the MERGE is joined.
 */
bool
sl_merge_find_key(Query *query, SlShardKey *key)
{
	SlLevel		level;
	ListCell   *cell;

	if (find_key(NULL, query, key))
		return true;
	if (!query->hasModifyingCTE || !sl_level_begin(&level, NULL, query))
		return false;
	foreach(cell, query->cteList)
	{
		if (find_key(&level, castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery), key))
			return true;
	}
	return false;
}
