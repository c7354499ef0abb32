/*
 * where_pin.c
 *		Is everything that a query needs on the shard of one key?
 *
 * It is if the key columns of each table in it, on whatever level, are known to
 * equal that key, for all rows that matter.  What is known on one level spreads
 * by equalities, into subqueries and out of them.  The key is made of constants,
 * or it is that of a row of the query outside.
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
#include "plan/where.h"

/* So many values that columns are compared with are tried as the key. */
#define MAX_CONSTANTS 4

/* A query inside of another, of which some columns equal something outside. */
typedef struct Inner
{
	Query	   *query;
	Index		index;			/* of the relation that it is, or 0 */
	List	   *outside;		/* IN: what its first, second ... column
								 * equals */
	bool		is_with;		/* of WITH */
	bool		can_push;
	bool		is_done;
} Inner;

typedef struct Pinning
{
	SlLevel		level;
	SlPin		here;			/* what is known on this level */
	List	   *equalities;
	List	   *inners;
} Pinning;

static bool pin_level(const SlPin *pin, const SlLevel *outer, Query *query, List **pushed,
					  List **outputs);

/* What is known ---------------------------------------------------------------- */

static int
key_count(const SlPin *pin)
{
	return pin->table->kind == SL_TABLE_SHARDED ? pin->table->key_count : 0;
}

static bool
learn(Pinning *pinning, int key, Node *node)
{
	if (sl_level_is_known(&pinning->level, pinning->here.known[key], node))
		return false;
	pinning->here.known[key] = lappend(pinning->here.known[key], node);
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
learn_from_equality(Pinning *pinning, const SlEquality *equality, int key)
{
	List	   *known = pinning->here.known[key];

	if (is_column_of(equality->right, equality->filtered) &&
		sl_level_is_known(&pinning->level, known, equality->left))
		return learn(pinning, key, equality->right);
	if (is_column_of(equality->left, equality->filtered) &&
		sl_level_is_known(&pinning->level, known, equality->right))
		return learn(pinning, key, equality->left);
	return false;
}

/* Until nothing new comes of it. */
static void
spread(Pinning *pinning)
{
	bool		has_learned;

	do
	{
		ListCell   *cell;

		has_learned = false;
		foreach(cell, pinning->equalities)
		{
			for (int i = 0; i < key_count(&pinning->here); i++)
				has_learned = learn_from_equality(pinning, lfirst(cell), i) || has_learned;
		}
	} while (has_learned);
}

/* A column of VALUES is known if it is in each row. */
static void
learn_from_values(Pinning *pinning, Index index, const RangeTblEntry *entry)
{
	for (int key = 0; key < key_count(&pinning->here); key++)
	{
		for (int column = 0; column < list_length(linitial(entry->values_lists)); column++)
		{
			bool		is_known = true;
			ListCell   *cell;

			foreach(cell, entry->values_lists)
				is_known = is_known &&
				sl_level_is_known(&pinning->level, pinning->here.known[key],
								  list_nth(lfirst(cell), column));
			if (is_known)
				(void) learn(pinning, key, make_column(index, (AttrNumber) (column + 1)));
		}
	}
}

/* Queries inside --------------------------------------------------------------------- */

static void
add_inner(Pinning *pinning, Query *query, Index index, List *outside, bool is_with)
{
	Inner	   *inner = palloc0(sizeof(Inner));

	inner->query = query;
	inner->index = index;
	inner->outside = outside;
	inner->is_with = is_with;
	inner->can_push = sl_level_can_push(query);
	pinning->inners = lappend(pinning->inners, inner);
}

/* The one relation that a name of WITH is used for, or 0. */
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

/* Is it compared by what means equal with the given column of a subquery? */
static bool
is_compared(const SlLevel *level, Node *test, int column)
{
	Node	   *param;

	if (sl_level_add_equalities(level, NIL, test, NULL) == NIL)
		return false;
	param = sl_prune_strip(lsecond(((OpExpr *) test)->args));
	return IsA(param, Param) && ((Param *) param)->paramkind == PARAM_SUBLINK &&
		((Param *) param)->paramid == column;
}

/* "x IN (SELECT y ...)", also of several columns: the x in the order of the y. */
List *
sl_pin_compared(const SlLevel *level, const SubLink *link)
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

/* IN as a condition that must hold works like a join. */
static void
add_in(Pinning *pinning, Node *quals)
{
	ListCell   *cell;
	List	   *outside;

	if (quals == NULL)
		return;
	if (is_andclause(quals))
	{
		foreach(cell, ((BoolExpr *) quals)->args)
			add_in(pinning, lfirst(cell));
	}
	else if (IsA(quals, SubLink))
	{
		outside = sl_pin_compared(&pinning->level, (SubLink *) quals);
		if (outside != NIL)
			add_inner(pinning, castNode(Query, ((SubLink *) quals)->subselect), 0, outside, false);
	}
}

static void
add_inners(Pinning *pinning)
{
	Query	   *query = pinning->level.query;
	ListCell   *cell;

	foreach(cell, query->cteList)
	{
		CommonTableExpr *with = lfirst_node(CommonTableExpr, cell);

		add_inner(pinning, castNode(Query, with->ctequery), single_use(query, with), NIL, true);
	}
	foreach(cell, query->rtable)
	{
		RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
		Index		index = (Index) (foreach_current_index(cell) + 1);

		if (entry->rtekind == RTE_SUBQUERY)
			add_inner(pinning, entry->subquery, index, NIL, false);
		else if (entry->rtekind == RTE_VALUES)
			learn_from_values(pinning, index, entry);
	}
	add_in(pinning, query->jointree->quals);
}

/* The output columns that are known here to equal the key. */
static bool
find_pushed(const Pinning *pinning, const Inner *inner, List **pushed)
{
	bool		has_any = false;
	int			count = inner->query->commandType == CMD_SELECT ? output_count(inner->query) : 0;

	for (int key = 0; key < key_count(&pinning->here); key++)
	{
		pushed[key] = NIL;
		for (int column = 1; column <= count; column++)
		{
			Node	   *outside = inner->index > 0 ?
			make_column(inner->index, (AttrNumber) column) :
			inner->outside != NIL ? list_nth(inner->outside, column - 1) : NULL;

			if (outside != NULL && inner->can_push &&
				sl_level_is_known(&pinning->level, pinning->here.known[key], outside))
			{
				pushed[key] = lappend_int(pushed[key], column);
				has_any = true;
			}
		}
	}
	return has_any;
}

static bool
learn_outputs(Pinning *pinning, const Inner *inner, List **outputs)
{
	bool		has_learned = false;
	ListCell   *cell;

	for (int key = 0; key < key_count(&pinning->here); key++)
	{
		foreach(cell, outputs[key])
		{
			Node	   *outside = inner->index > 0 ?
			make_column(inner->index, (AttrNumber) lfirst_int(cell)) :
			inner->outside == NIL ? NULL :
			sl_level_resolve(&pinning->level, list_nth(inner->outside, lfirst_int(cell) - 1));

			if (outside != NULL && is_column_of(outside, pinning->level.joined))
				has_learned = learn(pinning, key, outside) || has_learned;
		}
	}
	return has_learned;
}

static bool
try_inner(Pinning *pinning, Inner *inner)
{
	List	   *pushed[SL_MAX_KEYS] = {NIL};
	List	   *outputs[SL_MAX_KEYS] = {NIL};
	bool		has_pushed = find_pushed(pinning, inner, pushed);

	if (!pin_level(&pinning->here, &pinning->level, inner->query, has_pushed ? pushed : NULL,
				   outputs))
		return false;
	inner->is_done = true;
	(void) learn_outputs(pinning, inner, outputs);
	return true;
}

/* Each may depend on what another one tells. */
static bool
pin_inners(Pinning *pinning)
{
	bool		has_progress = true;
	ListCell   *cell;

	while (has_progress)
	{
		has_progress = false;
		foreach(cell, pinning->inners)
		{
			Inner	   *inner = lfirst(cell);

			if (!inner->is_done && try_inner(pinning, inner))
				has_progress = true;
		}
		spread(pinning);
	}
	foreach(cell, pinning->inners)
	{
		if (!((Inner *) lfirst(cell))->is_done)
			return false;
	}
	return true;
}

typedef struct Links
{
	Pinning    *pinning;
	bool		has_failed;
} Links;

static bool
is_done(const Pinning *pinning, const Node *query)
{
	ListCell   *cell;

	foreach(cell, pinning->inners)
	{
		if ((Node *) ((Inner *) lfirst(cell))->query == query)
			return true;
	}
	return false;
}

static bool
pin_links_in(Node *node, Links *links)
{
	if (node == NULL || links->has_failed)
		return links->has_failed;
	if (IsA(node, SubLink))
	{
		SubLink    *link = (SubLink *) node;
		List	   *outputs[SL_MAX_KEYS] = {NIL};

		if (!is_done(links->pinning, link->subselect) &&
			!pin_level(&links->pinning->here, &links->pinning->level,
					   castNode(Query, link->subselect), NULL, outputs))
			links->has_failed = true;
		return links->has_failed || pin_links_in(link->testexpr, links);
	}
	return expression_tree_walker(node, pin_links_in, (void *) links);
}

/* Subqueries in expressions, which may use what is known of the row here. */
static bool
pin_links(Pinning *pinning)
{
	Links		links = {.pinning = pinning};

	if (pinning->level.query->hasSubLinks)
		(void) query_tree_walker(pinning->level.query, pin_links_in, (void *) &links,
								 QTW_IGNORE_RT_SUBQUERIES | QTW_IGNORE_CTE_SUBQUERIES);
	return !links.has_failed;
}

/* Tables -------------------------------------------------------------------------------- */

/* Does a key column change with others that it is computed from? */
bool
sl_pin_has_generated_key(const SlTable *table)
{
	for (int i = 0; i < table->key_count; i++)
	{
		if (get_attgenerated(table->relid, table->key[i]) != '\0')
			return true;
	}
	return false;
}

/* Does the router do anything itself when the table changes? */
bool
sl_pin_has_triggers(const SlTable *table)
{
	Relation	relation = table_open(table->relid, NoLock);
	bool		result = relation->trigdesc != NULL;

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

/* A row that is inserted has the key; one that is changed keeps it. */
static bool
is_written_right(const Pinning *pinning, const SlTable *table)
{
	const Query *query = pinning->level.query;

	if ((query->commandType == CMD_UPDATE || query->onConflict != NULL) &&
		sl_pin_has_generated_key(table))
		return false;
	for (int i = 0; i < table->key_count; i++)
	{
		TargetEntry *assigned = find_assigned(query->targetList, table->key[i]);

		if (query->commandType == CMD_UPDATE && assigned != NULL)
			return false;
		if (query->commandType == CMD_INSERT &&
			(assigned == NULL ||
			 !sl_level_is_known(&pinning->level, pinning->here.known[i], (Node *) assigned->expr)))
			return false;
		if (query->onConflict != NULL &&
			find_assigned(query->onConflict->onConflictSet, table->key[i]) != NULL)
			return false;
	}
	return !sl_pin_has_triggers(table);
}

static bool
is_pinned_table(const Pinning *pinning, Index index, const SlTable *table)
{
	const SlTable *to = pinning->here.table;

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
		if (!sl_level_is_known(&pinning->level, pinning->here.known[i],
							   make_column(index, table->key[i])))
			return false;
	}
	return true;
}

static bool
are_tables_pinned(const Pinning *pinning)
{
	const Query *query = pinning->level.query;
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
		int			index = foreach_current_index(cell) + 1;
		SlTable    *table;

		/* What WITH has made further outside was not looked at. */
		if (entry->rtekind == RTE_CTE &&
			(int) entry->ctelevelsup > pinning->level.depth - pinning->here.depth)
			return false;

		/* A view leaves a relation that is not read. */
		if (entry->rtekind != RTE_RELATION ||
			(!bms_is_member(index, pinning->level.joined) && index != query->resultRelation))
			continue;
		table = sl_level_table(entry);
		if (table == NULL ||
			(index == query->resultRelation &&
			 (table->kind == SL_TABLE_REFERENCE || !is_written_right(pinning, table))))
			return false;
		if (bms_is_member(index, pinning->level.joined) &&
			!is_pinned_table(pinning, (Index) index, table))
			return false;
		if (index == query->resultRelation && query->commandType == CMD_INSERT &&
			(table->kind != pinning->here.table->kind ||
			 (table->kind == SL_TABLE_SHARDED && strcmp(table->map, pinning->here.table->map) != 0) ||
			 (table->kind == SL_TABLE_PLACED && table->shard_id != pinning->here.table->shard_id)))
			return false;
	}
	return true;
}

/* A level ------------------------------------------------------------------------------------ */

/*
 * Uses that rows which have something else in these columns do not matter.  That of
 * UNION does not hold for an arm that has, say, a limit of its own.
 */
static void
take_pushed(Pinning *pinning, List **pushed)
{
	Query	   *query = pinning->level.query;
	ListCell   *cell;

	if (pushed == NULL || !sl_level_can_push(query))
		return;
	for (int key = 0; key < key_count(&pinning->here); key++)
	{
		foreach(cell, pushed[key])
		{
			Node	   *column = sl_level_output(&pinning->level, lfirst_int(cell));
			TargetEntry *entry = find_assigned(query->targetList, (AttrNumber) lfirst_int(cell));

			if (column == NULL || (query->groupClause != NIL &&
								   get_sortgroupref_clause_noerr(entry->ressortgroupref,
																 query->groupClause) == NULL))
				continue;
			column = sl_level_resolve(&pinning->level, column);
			if (is_column_of(column, pinning->level.joined))
				(void) learn(pinning, key, column);
		}
	}
}

/* The arms of UNION and the like get what is known of all of it. */
static bool
pin_arms(const Pinning *pinning, Node *tree, List **pushed, List **outputs, bool *is_first)
{
	SetOperationStmt *operation = (SetOperationStmt *) tree;
	List	   *of_arm[SL_MAX_KEYS] = {NIL};

	if (IsA(tree, SetOperationStmt))
		return pin_arms(pinning, operation->larg, pushed, outputs, is_first) &&
			pin_arms(pinning, operation->rarg, pushed, outputs, is_first);
	if (!pin_level(&pinning->here, &pinning->level,
				   rt_fetch(((RangeTblRef *) tree)->rtindex,
							pinning->level.query->rtable)->subquery,
				   pushed, of_arm))
		return false;
	for (int i = 0; i < key_count(&pinning->here); i++)
		outputs[i] = *is_first ? of_arm[i] : list_intersection_int(outputs[i], of_arm[i]);
	*is_first = false;
	return true;
}

static void
find_outputs(const Pinning *pinning, List **outputs)
{
	for (int key = 0; key < key_count(&pinning->here); key++)
	{
		Node	   *column;

		for (int i = 1; (column = sl_level_output(&pinning->level, i)) != NULL; i++)
		{
			if (sl_level_is_known(&pinning->level, pinning->here.known[key], column))
				outputs[key] = lappend_int(outputs[key], i);
		}
	}
}

/*
 * "pushed" are output columns of which other values than the key's do not
 * matter; "outputs" returns those that have no other.
 */
static bool
pin_level(const SlPin *pin, const SlLevel *outer, Query *query, List **pushed, List **outputs)
{
	Pinning		pinning = {0};
	bool		is_first = true;

	if (!sl_level_begin(&pinning.level, outer, query) || query->utilityStmt != NULL)
		return false;
	pinning.here.table = pin->table;
	pinning.here.depth = pin->depth;
	for (int i = 0; i < key_count(pin); i++)
		pinning.here.known[i] = sl_level_raise(pin->known[i], 1);
	if (query->setOperations != NULL)
	{
		ListCell   *cell;

		foreach(cell, query->cteList)
		{
			List	   *of_with[SL_MAX_KEYS] = {NIL};

			if (!pin_level(&pinning.here, &pinning.level,
						   castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery), NULL,
						   of_with))
				return false;
		}
		return pin_arms(&pinning, query->setOperations, sl_level_can_push(query) ? pushed : NULL,
						outputs, &is_first) && pin_links(&pinning);
	}
	take_pushed(&pinning, pushed);
	pinning.equalities = sl_level_equalities(&pinning.level);
	add_inners(&pinning);
	spread(&pinning);
	if (!pin_inners(&pinning) || !are_tables_pinned(&pinning) || !pin_links(&pinning))
		return false;
	find_outputs(&pinning, outputs);
	return true;
}

/* Is all that the query needs on the shard of this key? */
bool
sl_pin_query(const SlPin *pin, const SlLevel *outer, Query *query)
{
	List	   *outputs[SL_MAX_KEYS] = {NIL};
	SlPin		to = *pin;

	to.depth = outer != NULL ? outer->depth + 1 : 0;
	return pin_level(&to, outer, query, NULL, outputs);
}

/* Finding a key ------------------------------------------------------------------------------- */

typedef struct Finding
{
	const SlLevel *outer;
	SlPin	   *pin;
	bool		is_sure;		/* that the query will run */
} Finding;

static bool find_key(const SlLevel *outer, Query *query, bool is_sure, SlPin *pin);

static bool
is_usable(const SlTable *table, int key, Node *value)
{
	return sl_level_is_constant(value) &&
		sl_prune_is_usable(sl_map_get(table->map)->key_oids[key],
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

		if (sl_level_is_same(equality->left, column) && is_usable(table, key, equality->right))
			return equality->right;
		if (sl_level_is_same(equality->right, column) && is_usable(table, key, equality->left))
			return equality->left;
	}
	return NULL;
}

/* What the first row that is inserted has in a column. */
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

/* What a query is pinned to is computed first, also if it is never asked for. */
static bool
set_pin(SlPin *pin, SlTable *table, const Query *query, Index index, const List *equalities,
		bool is_sure)
{
	SlPin		found = {.table = table};

	if (table->kind == SL_TABLE_PLACED)
	{
		*pin = found;
		return true;
	}
	if (table->kind != SL_TABLE_SHARDED || table->key_count == 0)
		return false;
	for (int i = 0; i < table->key_count; i++)
	{
		Node	   *value = query->commandType == CMD_INSERT && (int) index == query->resultRelation ?
		find_inserted(query, table->key[i]) : find_constant(equalities, index, table, i);

		if (value == NULL || !is_usable(table, i, value) ||
			(!is_sure && !sl_ship_is_harmless(value)))
			return false;
		found.known[i] = list_make1(value);
	}
	*pin = found;
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
		return find_key(finding->outer, (Query *) node, is_sure, finding->pin);
	finding->is_sure = is_sure && !IsA(node, SubLink);
	result = expression_tree_walker(node, find_in, (void *) finding);
	finding->is_sure = is_sure;
	return result;
}

static bool
find_key(const SlLevel *outer, Query *query, bool is_sure, SlPin *pin)
{
	SlLevel		level;
	Finding		finding = {.outer = &level,.pin = pin,.is_sure = is_sure};
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

		if (table != NULL && set_pin(pin, table, query, (Index) index, equalities, is_sure))
			return true;
	}
	return query_tree_walker(query, find_in, (void *) &finding, 0);
}

/* Finds the constants that the key of some table must equal, if any. */
bool
sl_pin_find(Query *query, SlPin *pin)
{
	return find_key(NULL, query, true, pin);
}

/* What columns of the outermost query's subqueries are compared with. */
List *
sl_pin_constants(Query *query, const SlTable *table)
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

		if (is_column_of(equality->left, level.joined) && is_usable(table, 0, equality->right))
			result = list_append_unique(result, equality->right);
		else if (is_column_of(equality->right, level.joined) && is_usable(table, 0, equality->left))
			result = list_append_unique(result, equality->left);
	}
	return list_truncate(result, MAX_CONSTANTS);
}
