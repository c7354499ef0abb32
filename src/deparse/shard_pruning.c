/*
 * shard_pruning.c
 *		Shard pruning at planning time: finds the conditions that restrict
 *		the shards.
 *
 * A condition is used if it compares a key column with a value that is known
 * before execution on the shards.  Others are ignored: then more shards are
 * read than necessary, never fewer.
 *
 * A comparison may have different types on both sides.  It restricts the
 * shards only where equal values are the same key whatever the type: integers
 * of all sizes, and binary-compatible types.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "deparse/shard_pruning.h"

typedef struct Making
{
	const SlShippableContext *ship;
	Index		index;
	const SlTable *table;
	const SlMap *map;
	List	  **expressions;
	int			branches;		/* nesting in branches that may not be
								 * evaluated */
} Making;

static List *make_node(Making *making, Node *clause);

/* Returns the number of the key column, or -1. */
static int
key_column(const Making *making, Node *node)
{
	const Var  *column;

	node = sl_pruning_strip(node);
	column = (const Var *) node;
	if (node == NULL || !IsA(node, Var) || column->varno != (int) making->index ||
		column->varlevelsup != 0)
		return -1;
	for (int i = 0; i < making->table->key_count; i++)
	{
		if (making->table->key[i] == column->varattno)
			return i;
	}
	return -1;
}

static List *
make_key_comparison(Making *making, SlPruningOp op, int column, Node *expression)
{
	Oid			type = exprType(expression);

	if (op == SL_PRUNE_ANY)
		type = get_base_element_type(type);
	if (making->branches > 0 && !sl_shippable_is_safe_early(expression))
		return NIL;
	if (!sl_pruning_is_usable(making->map->key_oids[column],
							  get_atttype(making->table->relid, making->table->key[column]), type))
		return NIL;
	*making->expressions = lappend(*making->expressions, copyObject(expression));
	return list_make3(makeInteger(op), makeInteger(column),
					  makeInteger(list_length(*making->expressions) - 1));
}

static List *
make_none(void)
{
	return list_make1(makeInteger(SL_PRUNE_NONE));
}

/*
 * Returns the btree strategy of the operator for the column's type; 0: none.
 */
static int
strategy_of(Oid operator, Node *column)
{
	TypeCacheEntry *entry = lookup_type_cache(getBaseType(exprType(column)),
											  TYPECACHE_BTREE_OPFAMILY | TYPECACHE_HASH_OPFAMILY);
	int			strategy = 0;

	if (OidIsValid(entry->btree_opf))
		strategy = get_op_opfamily_strategy(operator, entry->btree_opf);
	if (strategy == 0 && OidIsValid(entry->hash_opf) &&
		get_op_opfamily_strategy(operator, entry->hash_opf) == HTEqualStrategyNumber)
		strategy = BTEqualStrategyNumber;
	return strategy;
}

static SlPruningOp
op_of_strategy(int strategy)
{
	switch (strategy)
	{
		case BTLessStrategyNumber:
			return SL_PRUNE_LESS;
		case BTLessEqualStrategyNumber:
			return SL_PRUNE_LESS_EQUAL;
		case BTGreaterEqualStrategyNumber:
			return SL_PRUNE_GREATER_EQUAL;
		case BTGreaterStrategyNumber:
			return SL_PRUNE_GREATER;
		default:
			return SL_PRUNE_EQUAL;
	}
}

/* Maps order text bytewise, and equal keys have equal bytes. */
static bool
has_right_collation(int strategy, Oid collation)
{
	if (!OidIsValid(collation) || collation == C_COLLATION_OID)
		return true;
	return strategy == BTEqualStrategyNumber && get_collation_isdeterministic(collation);
}

static List *
make_comparison(Making *making, OpExpr *clause)
{
	Node	   *left;
	Node	   *right;
	Oid			operator = clause->opno;
	int			strategy;

	if (list_length(clause->args) != 2)
		return NIL;
	left = linitial(clause->args);
	right = lsecond(clause->args);
	if (key_column(making, left) < 0)
	{
		Node	   *other = left;

		left = right;
		right = other;
		operator = get_commutator(operator);
	}
	if (!OidIsValid(operator) || key_column(making, left) < 0 ||
		!sl_shippable_is_local(making->ship, right))
		return NIL;
	strategy = strategy_of(operator, left);
	if (strategy == 0 || !has_right_collation(strategy, clause->inputcollid))
		return NIL;
	return make_key_comparison(making, op_of_strategy(strategy), key_column(making, left), right);
}

static List *
make_any(Making *making, ScalarArrayOpExpr *clause)
{
	Node	   *left = linitial(clause->args);
	Node	   *right = lsecond(clause->args);

	if (!clause->useOr || key_column(making, left) < 0 ||
		!sl_shippable_is_local(making->ship, right) ||
		strategy_of(clause->opno, left) != BTEqualStrategyNumber ||
		!has_right_collation(BTEqualStrategyNumber, clause->inputcollid))
		return NIL;
	return make_key_comparison(making, SL_PRUNE_ANY, key_column(making, left), right);
}

/* ANDed conditions: uses those that can be used. */
static List *
make_and(Making *making, List *clauses)
{
	List	   *result = list_make1(makeInteger(SL_PRUNE_AND));
	int			branches = making->branches;
	ListCell   *cell;

	if (sl_shippable_may_stop(making->ship, clauses))
		making->branches++;
	foreach(cell, clauses)
	{
		List	   *node = make_node(making, lfirst(cell));

		if (node == NIL)
			continue;

		/* Equalities of several columns are a key only together. */
		if (intVal(linitial(node)) == SL_PRUNE_AND)
			result = list_concat(result, list_copy_tail(node, 1));
		else
			result = lappend(result, node);
	}
	making->branches = branches;
	return list_length(result) > 1 ? result : NIL;
}

/* ORed conditions: all must be usable. */
static List *
make_or(Making *making, List *clauses)
{
	List	   *result = list_make1(makeInteger(SL_PRUNE_OR));
	ListCell   *cell;

	foreach(cell, clauses)
	{
		List	   *node;

		making->branches++;
		node = make_node(making, lfirst(cell));
		making->branches--;
		if (node == NIL)
			return NIL;
		result = lappend(result, node);
	}
	return result;
}

static List *
make_node(Making *making, Node *clause)
{
	switch (nodeTag(clause))
	{
		case T_OpExpr:
			return make_comparison(making, (OpExpr *) clause);
		case T_ScalarArrayOpExpr:
			return make_any(making, (ScalarArrayOpExpr *) clause);
		case T_BoolExpr:
			if (((BoolExpr *) clause)->boolop == AND_EXPR)
				return make_and(making, ((BoolExpr *) clause)->args);
			if (((BoolExpr *) clause)->boolop == OR_EXPR)
				return make_or(making, ((BoolExpr *) clause)->args);
			return NIL;
		case T_NullTest:
			return ((NullTest *) clause)->nulltesttype == IS_NULL &&
				key_column(making, (Node *) ((NullTest *) clause)->arg) >= 0 ? make_none() : NIL;
		case T_Const:
			return ((Const *) clause)->constisnull || !DatumGetBool(((Const *) clause)->constvalue) ?
				make_none() : NIL;
		default:
			return NIL;
	}
}

/*
 * Makes a program of ANDed clauses on a table.  The values that it compares
 * with are appended to the expressions.  NIL: nothing is known.
 */
List *
sl_pruning_make(const SlShippableContext *ship, Index index, const SlTable *table, List *clauses,
				List **expressions)
{
	Making		making = {.ship = ship,.index = index,.table = table,.expressions = expressions};

	if (table->kind != SL_TABLE_SHARDED)
		return NIL;
	making.map = sl_map_get(table->map);
	return make_and(&making, clauses);
}

/* Does the program select one key, and so one shard, whatever the map is? */
bool
sl_pruning_is_single_shard(List *program, const SlTable *table)
{
	int			found = 0;

	if (table->kind == SL_TABLE_PLACED)
		return true;
	if (program == NIL || intVal(linitial(program)) != SL_PRUNE_AND || table->key_count == 0)
		return false;
	for (int i = 0; i < table->key_count; i++)
	{
		ListCell   *cell;

		for_each_from(cell, program, 1)
		{
			List	   *node = lfirst(cell);

			if (intVal(linitial(node)) == SL_PRUNE_EQUAL && intVal(lsecond(node)) == i)
			{
				found++;
				break;
			}
		}
	}
	return found == table->key_count;
}

/* Types --------------------------------------------------------------------------- */

bool
sl_pruning_is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Do both types have the same representation and equality? */
static bool
is_same_bits(Oid from, Oid to)
{
	return from == to || (IsBinaryCoercible(from, to) && IsBinaryCoercible(to, from)) ||
		(from == VARCHAROID && to == TEXTOID);
}

/* The map's key type, the column's, and that of the value. */
bool
sl_pruning_is_usable(Oid key, Oid column, Oid type)
{
	/* This is called for every statement. */
	if (sl_pruning_is_integer(key) && sl_pruning_is_integer(column) && sl_pruning_is_integer(type))
		return true;
	column = getBaseType(column);
	type = getBaseType(type);
	if (sl_pruning_is_integer(key))
		return sl_pruning_is_integer(column) && sl_pruning_is_integer(type);
	return is_same_bits(column, key) && is_same_bits(type, key);
}

/*
 * Are values of the one type equal as values of the other only if they are
 * equal anyway?  Those of text are not as bpchar, which ignores trailing
 * blanks.
 */
static bool
keeps_equality(Oid from, Oid to)
{
	TypeCacheEntry *a;
	TypeCacheEntry *b;

	from = getBaseType(from);
	to = getBaseType(to);
	if (from == to)
		return true;
	a = lookup_type_cache(from, TYPECACHE_BTREE_OPFAMILY);
	b = lookup_type_cache(to, TYPECACHE_BTREE_OPFAMILY);

	/* All arrays share one operator family, whatever their element type is. */
	return OidIsValid(a->btree_opf) && a->btree_opf == b->btree_opf &&
		a->typtype == TYPTYPE_BASE && !OidIsValid(get_element_type(from));
}

/* Strips casts that change neither the value nor its equality. */
Node *
sl_pruning_strip(Node *node)
{
	while (node != NULL && IsA(node, RelabelType) &&
		   keeps_equality(exprType((Node *) ((RelabelType *) node)->arg),
						  ((RelabelType *) node)->resulttype))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}
