/*
 * single_shard.c
 *		Are all rows that a query needs on the shard of one key?
 *
 * They are if the key columns of each table, on every query level, are known
 * to equal that key, for all rows that can contribute to the result.  This
 * propagates by equalities within a level, into subqueries and out of them.
 * The key consists of constants, or is that of a row of the outer query.
 */
#include "postgres.h"

#include "access/table.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "metadata/router_foreign_key.h"
#include "planner/query_placement.h"

/* Tries at most so many values that columns are compared with as the key. */
#define MAX_CONSTANTS 4

/* A subquery, and the outer expressions that its columns equal. */
typedef struct InnerQuery
{
	Query	   *query;
	Index		index;			/* its index in the range table, or 0 */
	List	   *outside;		/* IN: what its columns equal, in order */
	bool		is_with;		/* a CTE */
	bool		can_push;
	bool		is_done;
} InnerQuery;

typedef struct Matching
{
	SlLevel		level;
	SlShardKey	known_key;		/* what is known on this level */
	List	   *equalities;
	List	   *inners;
} Matching;

static bool match_level(const SlShardKey *key, const SlLevel *outer, Query *query, List **pushed,
						List **outputs);

/* Equalities ------------------------------------------------------------ */

static int
key_count(const SlShardKey *key)
{
	return key->table->kind == SL_TABLE_SHARDED ? key->table->key_count : 0;
}

static bool
add_known(Matching *matching, int key, Node *node)
{
	if (sl_level_is_known(&matching->level, matching->known_key.known[key], node))
		return false;
	matching->known_key.known[key] = lappend(matching->known_key.known[key], node);
	return true;
}

static Node *
make_column(Index index, AttrNumber number)
{
	return (Node *) makeVar((int) index, number, InvalidOid, -1, InvalidOid, 0);
}

static bool
is_column_of(const Node *node, const Bitmapset *relations)
{
	return IsA(node, Var) && ((const Var *) node)->varlevelsup == 0 &&
		((const Var *) node)->varattno > 0 &&
		bms_is_member(((const Var *) node)->varno, relations);
}

static bool
learn_from_equality(Matching *matching, const SlEquality *equality, int key)
{
	List	   *known = matching->known_key.known[key];

	if (is_column_of(equality->right, equality->filtered) &&
		sl_level_is_known(&matching->level, known, equality->left))
		return add_known(matching, key, equality->right);
	if (is_column_of(equality->left, equality->filtered) &&
		sl_level_is_known(&matching->level, known, equality->right))
		return add_known(matching, key, equality->left);
	return false;
}

/* Repeats until nothing new is found. */
static void
propagate_equalities(Matching *matching)
{
	bool		has_learned;

	do
	{
		ListCell   *cell;

		has_learned = false;
		foreach(cell, matching->equalities)
		{
			for (int i = 0; i < key_count(&matching->known_key); i++)
				has_learned = learn_from_equality(matching, lfirst(cell), i) || has_learned;
		}
	} while (has_learned);
}

/* A column of VALUES equals the key if it does in each row. */
static void
learn_from_values(Matching *matching, Index index, const RangeTblEntry *entry)
{
	for (int key = 0; key < key_count(&matching->known_key); key++)
	{
		for (int column = 0; column < list_length(linitial(entry->values_lists)); column++)
		{
			bool		is_known = true;
			ListCell   *cell;

			foreach(cell, entry->values_lists)
				is_known = is_known &&
				sl_level_is_known(&matching->level, matching->known_key.known[key],
								  list_nth(lfirst(cell), column));
			if (is_known)
				(void) add_known(matching, key, make_column(index, (AttrNumber) (column + 1)));
		}
	}
}

/* Subqueries ------------------------------------------------------------ */

static void
add_inner(Matching *matching, Query *query, Index index, List *outside, bool is_with)
{
	InnerQuery *inner = palloc0(sizeof(InnerQuery));

	inner->query = query;
	inner->index = index;
	inner->outside = outside;
	inner->is_with = is_with;
	inner->can_push = sl_level_can_push(query);
	matching->inners = lappend(matching->inners, inner);
}

/* Returns the index of the only reference to a CTE, or 0. */
static Index
single_use(const Query *query, const CommonTableExpr *with)
{
	ListCell   *cell;

	if (with->cterecursive || with->cterefcount != 1)
		return 0;
	foreach(cell, query->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (entry->rtekind == RTE_CTE && entry->ctelevelsup == 0 &&
			strcmp(entry->ctename, with->ctename) == 0)
			return (Index) (foreach_current_index(cell) + 1);
	}
	return 0;
}

static int
output_count(const Query *query)
{
	int			count = 0;
	ListCell   *cell;

	foreach(cell, query->targetList)
		count += lfirst_node(TargetEntry, cell)->resjunk ? 0 : 1;
	return count;
}

/* Is it an equality with the given column of a subquery? */
static bool
is_compared(const SlLevel *level, Node *test, int column)
{
	Node	   *param;

	if (sl_level_add_equalities(level, NIL, test, NULL) == NIL)
		return false;
	param = sl_pruning_strip(lsecond(((OpExpr *) test)->args));
	return IsA(param, Param) && ((Param *) param)->paramkind == PARAM_SUBLINK &&
		((Param *) param)->paramid == column;
}

/* "x IN (SELECT y ...)", of any number of columns: returns the x by order of y. */
List *
sl_single_shard_compared(const SlLevel *level, const SubLink *link)
{
	List	   *tests = link->subLinkType != ANY_SUBLINK || link->testexpr == NULL ? NIL :
	is_andclause(link->testexpr) ? ((BoolExpr *) link->testexpr)->args : list_make1(link->testexpr);
	List	   *result = NIL;
	ListCell   *cell;

	if (list_length(tests) != output_count(castNode(Query, link->subselect)))
		return NIL;
	foreach(cell, tests)
	{
		if (!IsA(lfirst(cell), OpExpr) ||
			!is_compared(level, lfirst(cell), foreach_current_index(cell) + 1))
			return NIL;
		result = lappend(result, linitial(((OpExpr *) lfirst(cell))->args));
	}
	return result;
}

/* IN as an ANDed condition acts like a join. */
static void
add_in(Matching *matching, Node *quals)
{
	ListCell   *cell;
	List	   *outside;

	if (quals == NULL)
		return;
	if (is_andclause(quals))
	{
		foreach(cell, ((BoolExpr *) quals)->args)
			add_in(matching, lfirst(cell));
	}
	else if (IsA(quals, SubLink))
	{
		outside = sl_single_shard_compared(&matching->level, (SubLink *) quals);
		if (outside != NIL)
			add_inner(matching, castNode(Query, ((SubLink *) quals)->subselect), 0, outside, false);
	}
}

static void
add_inners(Matching *matching)
{
	Query	   *query = matching->level.query;
	ListCell   *cell;

	foreach(cell, query->cteList)
	{
		CommonTableExpr *with = lfirst_node(CommonTableExpr, cell);

		add_inner(matching, castNode(Query, with->ctequery), single_use(query, with), NIL, true);
	}
	foreach(cell, query->rtable)
	{
		RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
		Index		index = (Index) (foreach_current_index(cell) + 1);

		if (entry->rtekind == RTE_SUBQUERY)
			add_inner(matching, entry->subquery, index, NIL, false);
		else if (entry->rtekind == RTE_VALUES)
			learn_from_values(matching, index, entry);
	}
	add_in(matching, query->jointree->quals);
}

/* Finds the output columns of the subquery that equal the key outside. */
static bool
find_pushed(const Matching *matching, const InnerQuery *inner, List **pushed)
{
	bool		has_any = false;
	int			count = inner->query->commandType == CMD_SELECT ? output_count(inner->query) : 0;

	for (int key = 0; key < key_count(&matching->known_key); key++)
	{
		pushed[key] = NIL;
		for (int column = 1; column <= count; column++)
		{
			Node	   *outside = inner->index > 0 ?
			make_column(inner->index, (AttrNumber) column) :
			inner->outside != NIL ? list_nth(inner->outside, column - 1) : NULL;

			if (outside != NULL && inner->can_push &&
				sl_level_is_known(&matching->level, matching->known_key.known[key], outside))
			{
				pushed[key] = lappend_int(pushed[key], column);
				has_any = true;
			}
		}
	}
	return has_any;
}

static bool
learn_outputs(Matching *matching, const InnerQuery *inner, List **outputs)
{
	bool		has_learned = false;
	ListCell   *cell;

	for (int key = 0; key < key_count(&matching->known_key); key++)
	{
		foreach(cell, outputs[key])
		{
			Node	   *outside = inner->index > 0 ?
			make_column(inner->index, (AttrNumber) lfirst_int(cell)) :
			inner->outside == NIL ? NULL :
			sl_level_resolve(&matching->level, list_nth(inner->outside, lfirst_int(cell) - 1));

			if (outside != NULL && is_column_of(outside, matching->level.joined))
				has_learned = add_known(matching, key, outside) || has_learned;
		}
	}
	return has_learned;
}

static bool
try_inner(Matching *matching, InnerQuery *inner)
{
	List	   *pushed[SL_MAX_KEYS] = {NIL};
	List	   *outputs[SL_MAX_KEYS] = {NIL};
	bool		has_pushed = find_pushed(matching, inner, pushed);

	if (!match_level(&matching->known_key, &matching->level, inner->query, has_pushed ? pushed : NULL,
					 outputs))
		return false;
	inner->is_done = true;
	(void) learn_outputs(matching, inner, outputs);
	return true;
}

/* Each subquery may depend on what is found about another one. */
static bool
match_inner_queries(Matching *matching)
{
	bool		has_progress = true;
	ListCell   *cell;

	while (has_progress)
	{
		has_progress = false;
		foreach(cell, matching->inners)
		{
			InnerQuery *inner = lfirst(cell);

			if (!inner->is_done && try_inner(matching, inner))
				has_progress = true;
		}
		propagate_equalities(matching);
	}
	foreach(cell, matching->inners)
	{
		if (!((InnerQuery *) lfirst(cell))->is_done)
			return false;
	}
	return true;
}

typedef struct Links
{
	Matching   *matching;
	bool		has_failed;
} Links;

static bool
is_done(const Matching *matching, const Node *query)
{
	ListCell   *cell;

	foreach(cell, matching->inners)
	{
		if ((Node *) ((InnerQuery *) lfirst(cell))->query == query)
			return true;
	}
	return false;
}

static bool
match_sublinks_in(Node *node, Links *links)
{
	if (node == NULL || links->has_failed)
		return links->has_failed;
	if (IsA(node, SubLink))
	{
		SubLink    *link = (SubLink *) node;
		List	   *outputs[SL_MAX_KEYS] = {NIL};

		if (!is_done(links->matching, link->subselect) &&
			!match_level(&links->matching->known_key, &links->matching->level,
						 castNode(Query, link->subselect), NULL, outputs))
			links->has_failed = true;
		return links->has_failed || match_sublinks_in(link->testexpr, links);
	}
	return expression_tree_walker(node, match_sublinks_in, (void *) links);
}

/* Checks sublinks, which may be correlated with the row of this level. */
static bool
match_sublinks(Matching *matching)
{
	Links		links = {.matching = matching};

	if (matching->level.query->hasSubLinks)
		(void) query_tree_walker(matching->level.query, match_sublinks_in, (void *) &links,
								 QTW_IGNORE_RT_SUBQUERIES | QTW_IGNORE_CTE_SUBQUERIES);
	return !links.has_failed;
}

/* Tables -------------------------------------------------------------------------------- */

/* Is a key column generated from others? */
bool
sl_single_shard_has_generated_key(const SlTable *table)
{
	for (int i = 0; i < table->key_count; i++)
	{
		if (get_attgenerated(table->relid, table->key[i]) != '\0')
			return true;
	}
	return false;
}

/* Does the router check a foreign key when the statement changes the table? */
bool
sl_single_shard_is_checked(const Query *query, const SlTable *table)
{
	Relation	relation = table_open(table->relid, NoLock);
	bool		result = sl_router_key_is_checked(relation, query);

	table_close(relation, NoLock);
	return result;
}

static TargetEntry *
find_assigned(List *list, AttrNumber column)
{
	ListCell   *cell;

	foreach(cell, list)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (entry->resno == column && !entry->resjunk)
			return entry;
	}
	return NULL;
}

/* An inserted row must have the key; an updated row must keep it. */
static bool
is_written_right(const Matching *matching, const SlTable *table)
{
	const Query *query = matching->level.query;

	if ((query->commandType == CMD_MERGE && !sl_merge_keeps_key(&matching->level, &matching->known_key, table)) ||
		((query->commandType == CMD_UPDATE || query->onConflict != NULL) && sl_single_shard_has_generated_key(table)))
		return false;
	for (int i = 0; i < table->key_count; i++)
	{
		TargetEntry *assigned = find_assigned(query->targetList, table->key[i]);

		if (query->commandType == CMD_UPDATE && assigned != NULL)
			return false;
		if (query->commandType == CMD_INSERT &&
			(assigned == NULL ||
			 !sl_level_is_known(&matching->level, matching->known_key.known[i], (Node *) assigned->expr)))
			return false;
		if (query->onConflict != NULL &&
			find_assigned(query->onConflict->onConflictSet, table->key[i]) != NULL)
			return false;
	}
	return !sl_single_shard_is_checked(query, table);
}

static bool
is_table_on_one_shard(const Matching *matching, Index index, const SlTable *table)
{
	const SlTable *to = matching->known_key.table;

	if (table->kind == SL_TABLE_REFERENCE)
		return true;
	if (table->kind != to->kind)
		return false;
	if (table->kind == SL_TABLE_PLACED)
		return table->shard_id == to->shard_id;
	if (strcmp(table->map, to->map) != 0 || table->key_count == 0)
		return false;
	for (int i = 0; i < table->key_count; i++)
	{
		if (!sl_level_is_known(&matching->level, matching->known_key.known[i],
							   make_column(index, table->key[i])))
			return false;
	}
	return true;
}

static bool
are_tables_on_one_shard(const Matching *matching)
{
	const Query *query = matching->level.query;
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
		int			index = foreach_current_index(cell) + 1;
		SlTable    *table;

		/* CTEs of outer levels above the key's level were not analyzed. */
		if (entry->rtekind == RTE_CTE &&
			(int) entry->ctelevelsup > matching->level.depth - matching->known_key.depth)
			return false;

		/* A view leaves a relation that is not read. */
		if (entry->rtekind != RTE_RELATION ||
			(!bms_is_member(index, matching->level.joined) && index != query->resultRelation))
			continue;
		table = sl_level_table(entry);
		if (table == NULL ||
			(index == query->resultRelation &&
			 (table->kind == SL_TABLE_REFERENCE || !is_written_right(matching, table))))
			return false;
		if (bms_is_member(index, matching->level.joined) &&
			!is_table_on_one_shard(matching, (Index) index, table))
			return false;
		if (index == query->resultRelation && query->commandType == CMD_INSERT &&
			(table->kind != matching->known_key.table->kind ||
			 (table->kind == SL_TABLE_SHARDED && strcmp(table->map, matching->known_key.table->map) != 0) ||
			 (table->kind == SL_TABLE_PLACED && table->shard_id != matching->known_key.table->shard_id)))
			return false;
	}
	return true;
}

/* A level ------------------------------------------------------------------------------------ */

/*
 * Uses that rows with other values in these output columns are filtered out
 * above.  For an arm of UNION that is not valid if the arm has, say, a LIMIT
 * of its own.
 */
static void
take_pushed(Matching *matching, List **pushed)
{
	Query	   *query = matching->level.query;
	ListCell   *cell;

	if (pushed == NULL || !sl_level_can_push(query))
		return;
	for (int key = 0; key < key_count(&matching->known_key); key++)
	{
		foreach(cell, pushed[key])
		{
			Node	   *column = sl_level_output(&matching->level, lfirst_int(cell));
			TargetEntry *entry = find_assigned(query->targetList, (AttrNumber) lfirst_int(cell));

			if (column == NULL || (query->groupClause != NIL &&
								   get_sortgroupref_clause_noerr(entry->ressortgroupref,
																 query->groupClause) == NULL))
				continue;
			column = sl_level_resolve(&matching->level, column);
			if (is_column_of(column, matching->level.joined))
				(void) add_known(matching, key, column);
		}
	}
}

/* The arms of a set operation get what is known of all of it. */
static bool
match_arms(const Matching *matching, Node *tree, List **pushed, List **outputs, bool *is_first)
{
	SetOperationStmt *operation = (SetOperationStmt *) tree;
	List	   *of_arm[SL_MAX_KEYS] = {NIL};

	if (IsA(tree, SetOperationStmt))
		return match_arms(matching, operation->larg, pushed, outputs, is_first) &&
			match_arms(matching, operation->rarg, pushed, outputs, is_first);
	if (!match_level(&matching->known_key, &matching->level,
					 rt_fetch(((RangeTblRef *) tree)->rtindex,
							  matching->level.query->rtable)->subquery,
					 pushed, of_arm))
		return false;
	for (int i = 0; i < key_count(&matching->known_key); i++)
		outputs[i] = *is_first ? of_arm[i] : list_intersection_int(outputs[i], of_arm[i]);
	*is_first = false;
	return true;
}

static void
find_outputs(const Matching *matching, List **outputs)
{
	for (int key = 0; key < key_count(&matching->known_key); key++)
	{
		Node	   *column;

		for (int i = 1; (column = sl_level_output(&matching->level, i)) != NULL; i++)
		{
			if (sl_level_is_known(&matching->level, matching->known_key.known[key], column))
				outputs[key] = lappend_int(outputs[key], i);
		}
	}
}

/*
 * "pushed" are output columns that are filtered by the key above; "outputs"
 * returns those that equal the key.
 */
static bool
match_level(const SlShardKey *key, const SlLevel *outer, Query *query, List **pushed, List **outputs)
{
	Matching	matching = {0};
	bool		is_first = true;

	if (!sl_level_begin(&matching.level, outer, query) || query->utilityStmt != NULL ||
		(query->commandType == CMD_MERGE && !bms_is_member(query->resultRelation, matching.level.joined)))
		return false;
	matching.known_key.table = key->table;
	matching.known_key.depth = key->depth;
	for (int i = 0; i < key_count(key); i++)
		matching.known_key.known[i] = sl_level_raise(key->known[i], 1);
	if (query->setOperations != NULL)
	{
		ListCell   *cell;

		foreach(cell, query->cteList)
		{
			List	   *of_with[SL_MAX_KEYS] = {NIL};

			if (!match_level(&matching.known_key, &matching.level,
							 castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery), NULL,
							 of_with))
				return false;
		}
		return match_arms(&matching, query->setOperations, sl_level_can_push(query) ? pushed : NULL,
						  outputs, &is_first) && match_sublinks(&matching);
	}
	take_pushed(&matching, pushed);
	matching.equalities = sl_level_equalities(&matching.level);
	add_inners(&matching);
	propagate_equalities(&matching);
	if (!match_inner_queries(&matching) || !are_tables_on_one_shard(&matching) || !match_sublinks(&matching))
		return false;
	find_outputs(&matching, outputs);
	return true;
}

/* Are all rows that the query needs on the shard of this key? */
bool
sl_single_shard_match_query(const SlShardKey *key, const SlLevel *outer, Query *query)
{
	List	   *outputs[SL_MAX_KEYS] = {NIL};
	SlShardKey	to = *key;

	to.depth = outer != NULL ? outer->depth + 1 : 0;
	return match_level(&to, outer, query, NULL, outputs);
}

/* Finding a key ------------------------------------------------------------------------------- */

typedef struct Finding
{
	const SlLevel *outer;
	SlShardKey *key;
	bool		is_sure;		/* of the query to be executed */
} Finding;

static bool find_key(const SlLevel *outer, Query *query, bool is_sure, SlShardKey *key);

/* Can the value be routed by as the nth key column of the table? */
bool
sl_single_shard_is_usable(const SlTable *table, int key, Node *value)
{
	return sl_level_is_constant(value) &&
		sl_pruning_is_usable(sl_map_get(table->map)->key_oids[key],
							 get_atttype(table->relid, table->key[key]), exprType(value));
}

static Node *
find_constant(const List *equalities, Index index, const SlTable *table, int key)
{
	Node	   *column = make_column(index, table->key[key]);
	ListCell   *cell;

	foreach(cell, equalities)
	{
		SlEquality *equality = lfirst(cell);

		if (sl_level_is_same(equality->left, column) && sl_single_shard_is_usable(table, key, equality->right))
			return equality->right;
		if (sl_level_is_same(equality->right, column) && sl_single_shard_is_usable(table, key, equality->left))
			return equality->left;
	}
	return NULL;
}

/* Returns the value of the first inserted row in a column. */
static Node *
find_inserted(const Query *query, AttrNumber column)
{
	TargetEntry *entry = find_assigned(query->targetList, column);
	Node	   *value = entry != NULL ? (Node *) entry->expr : NULL;
	const RangeTblEntry *values;

	if (value == NULL || !IsA(value, Var))
		return value;
	values = rt_fetch(((Var *) value)->varno, query->rtable);
	return values->rtekind == RTE_VALUES ?
		list_nth(linitial(values->values_lists), ((Var *) value)->varattno - 1) : NULL;
}

/* The key is evaluated first, even if the query would never evaluate it. */
static bool
set_key(SlShardKey *key, SlTable *table, const Query *query, Index index, const List *equalities,
		bool is_sure)
{
	SlShardKey	found = {.table = table};

	if (table->kind == SL_TABLE_PLACED)
	{
		*key = found;
		return true;
	}
	if (table->kind != SL_TABLE_SHARDED || table->key_count == 0)
		return false;
	for (int i = 0; i < table->key_count; i++)
	{
		Node	   *value = query->commandType == CMD_INSERT && (int) index == query->resultRelation ?
		find_inserted(query, table->key[i]) : find_constant(equalities, index, table, i);

		if (value == NULL || !sl_single_shard_is_usable(table, i, value) ||
			(!is_sure && !sl_shippable_is_safe_early(value)))
			return false;
		found.known[i] = list_make1(value);
	}
	*key = found;
	return true;
}

static bool
find_in(Node *node, Finding *finding)
{
	bool		is_sure = finding->is_sure;
	bool		result;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return find_key(finding->outer, (Query *) node, is_sure, finding->key);
	finding->is_sure = is_sure && !IsA(node, SubLink);
	result = expression_tree_walker(node, find_in, (void *) finding);
	finding->is_sure = is_sure;
	return result;
}

static bool
find_key(const SlLevel *outer, Query *query, bool is_sure, SlShardKey *key)
{
	SlLevel		level;
	Finding		finding = {.outer = &level,.key = key,.is_sure = is_sure};
	List	   *equalities;
	ListCell   *cell;

	if (!sl_level_begin(&level, outer, query))
		return false;
	is_sure = finding.is_sure = is_sure && !sl_level_may_stop(query);
	equalities = sl_level_equalities(&level);
	foreach(cell, query->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
		int			index = foreach_current_index(cell) + 1;
		SlTable    *table = bms_is_member(index, level.joined) || index == query->resultRelation ?
		sl_level_table(entry) : NULL;

		if (table != NULL && set_key(key, table, query, (Index) index, equalities, is_sure))
			return true;
	}
	return query_tree_walker(query, find_in, (void *) &finding, 0);
}

/* Finds the constants that the key of some table must equal, if any. */
bool
sl_single_shard_find_key(Query *query, SlShardKey *key)
{
	return find_key(NULL, query, true, key);
}

/* Collects what columns of subqueries are compared with. */
List *
sl_single_shard_constants(Query *query, const SlTable *table)
{
	SlLevel		level;
	List	   *result = NIL;
	ListCell   *cell;

	(void) sl_level_begin(&level, NULL, query);
	if (sl_level_may_stop(query))
		return NIL;
	foreach(cell, sl_level_equalities(&level))
	{
		const SlEquality *equality = lfirst(cell);

		if (is_column_of(equality->left, level.joined) && sl_single_shard_is_usable(table, 0, equality->right))
			result = list_append_unique(result, equality->right);
		else if (is_column_of(equality->right, level.joined) && sl_single_shard_is_usable(table, 0, equality->left))
			result = list_append_unique(result, equality->left);
	}
	return list_truncate(result, MAX_CONSTANTS);
}
