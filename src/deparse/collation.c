/*
 * collation.c
 *		Would a shard compare by the same collations?
 *
 * A deparsed expression does not show by which collation it compares: the
 * parser on the shard derives that again, from the columns and COLLATE
 * clauses.  So the derivation of parse_collate.c is repeated here on the
 * expression to be deparsed, and compared with the collations of the original.
 *
 * The database's default collation may differ on a shard.  Then only
 * operations that do not depend on a sort order are shippable: equality, as
 * long as it is bytewise.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_collation.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/fmgroids.h"

#include "deparse/deparse.h"

/* The strength of a collation, as in parse_collate.c. */
typedef enum Strength
{
	STRENGTH_NONE,
	STRENGTH_IMPLICIT,
	STRENGTH_CONFLICT,
	STRENGTH_EXPLICIT
} Strength;

typedef struct Derivation
{
	const SlShippableContext *ship;
	Oid			collation;
	Strength	strength;
	bool		has_failed;
} Derivation;

static bool derive(Node *node, Derivation *derivation);

/* Do the shards sort by this collation in the same order? */
bool
sl_shippable_is_order(const SlShippableContext *ship, Oid collation)
{
	if (!OidIsValid(collation) || collation == C_COLLATION_OID)
		return true;
	if (collation == DEFAULT_COLLATION_OID)
		return !ship->other_collation;
	return true;
}

/* Combines the collation so far with that of one more argument. */
static void
combine(Derivation *derivation, const Derivation *argument)
{
	derivation->has_failed = derivation->has_failed || argument->has_failed;
	if (argument->strength > derivation->strength)
	{
		derivation->strength = argument->strength;
		derivation->collation = argument->collation;
	}
	else if (argument->strength == derivation->strength &&
			 argument->collation != derivation->collation)
	{
		if (derivation->strength == STRENGTH_EXPLICIT)
			derivation->has_failed = true;
		else if (derivation->collation == DEFAULT_COLLATION_OID)
			derivation->collation = argument->collation;
		else if (argument->collation != DEFAULT_COLLATION_OID)
			derivation->strength = STRENGTH_CONFLICT;
	}
}

static void
derive_below(Node *node, Derivation *derivation)
{
	(void) expression_tree_walker(node, derive, (void *) derivation);
}

/* Is the function a bytewise equality? */
static bool
is_equality(Node *node)
{
	Oid			operator = IsA(node, OpExpr) || IsA(node, DistinctExpr) || IsA(node, NullIfExpr) ?
	((OpExpr *) node)->opno :
	IsA(node, ScalarArrayOpExpr) ? ((ScalarArrayOpExpr *) node)->opno : InvalidOid;

	return OidIsValid(operator) &&
		(get_oprrest(operator) == F_EQSEL || get_oprrest(operator) == F_NEQSEL);
}

static void
check_input(Node *node, Oid wanted, Derivation *below)
{
	if (!OidIsValid(wanted))
		return;
	if (below->strength == STRENGTH_CONFLICT || below->collation != wanted)
		below->has_failed = true;
	if (!sl_shippable_is_order(below->ship, wanted) && !is_equality(node))
		below->has_failed = true;
}

/*
 * Does the collation exist on the shards?  Built-in ones do; others are only
 * used implicitly, by columns.
 */
static bool
is_on_shards(Oid collation)
{
	return collation < FirstNormalObjectId;
}

/* A column, constant or parameter, or a node with a collation of its own. */
static bool
derive_own_collation(Node *node, Derivation *derivation)
{
	Derivation	own = *derivation;

	own.collation = exprCollation(node);
	own.strength = OidIsValid(own.collation) ? STRENGTH_IMPLICIT : STRENGTH_NONE;
	if (IsA(node, Const) && OidIsValid(own.collation) &&
		own.collation != get_typcollation(((Const *) node)->consttype))
	{
		own.strength = STRENGTH_EXPLICIT;
		own.has_failed = !is_on_shards(own.collation);
	}
	combine(derivation, &own);
	return false;
}

static bool
derive_collate(CollateExpr *collate, Derivation *derivation)
{
	Derivation	below = {.ship = derivation->ship};

	derive_below((Node *) collate, &below);
	below.collation = collate->collOid;
	below.strength = STRENGTH_EXPLICIT;
	if (!is_on_shards(collate->collOid))
		below.has_failed = true;
	combine(derivation, &below);
	return false;
}

/* An expression whose collation does not affect the surrounding one. */
static void
derive_apart(Node *node, Derivation *derivation)
{
	Derivation	own = {.ship = derivation->ship};

	(void) derive(node, &own);
	derivation->has_failed = derivation->has_failed || own.has_failed;
}

/* Each clause of a statement is derived separately. */
static bool
derive_clause(Node *node, Derivation *derivation)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Query:
			return query_tree_walker((Query *) node, derive_clause, (void *) derivation,
									 QTW_IGNORE_JOINALIASES);
		case T_List:
		case T_TargetEntry:
		case T_RangeTblRef:
		case T_FromExpr:
		case T_JoinExpr:
		case T_SetOperationStmt:
		case T_CommonTableExpr:
		case T_WindowClause:
		case T_OnConflictExpr:
		case T_MergeAction:
		case T_TableSampleClause:
		case T_InferenceElem:
		case T_RangeTblFunction:
			return expression_tree_walker(node, derive_clause, (void *) derivation);
		default:
			derive_apart(node, derivation);
			return false;
	}
}

/* A subquery has the collation of its first column. */
static bool
derive_subquery(SubLink *link, Derivation *derivation)
{
	derive_apart(link->testexpr, derivation);
	(void) derive_clause(link->subselect, derivation);
	return derive_own_collation((Node *) link, derivation);
}

/* Rows are compared column by column, each pair by a collation of its own. */
static bool
derive_rows(RowCompareExpr *compare, Derivation *derivation)
{
	ListCell   *left;
	ListCell   *right;
	ListCell   *wanted;

	forthree(left, compare->largs, right, compare->rargs, wanted, compare->inputcollids)
	{
		Derivation	pair = {.ship = derivation->ship};

		(void) derive(lfirst(left), &pair);
		(void) derive(lfirst(right), &pair);
		check_input((Node *) compare, lfirst_oid(wanted), &pair);
		derivation->has_failed = derivation->has_failed || pair.has_failed;
	}
	return false;
}

/* ORDER BY of an aggregate is not among its arguments. */
static void
derive_aggregate(Aggref *aggregate, Derivation *below)
{
	ListCell   *cell;

	foreach(cell, aggregate->args)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (entry->resjunk)
			derive_apart((Node *) entry->expr, below);
		else
			(void) derive((Node *) entry->expr, below);
	}
	derive_apart((Node *) aggregate->aggfilter, below);
}

/* Derives the collation below a node, and checks that of the node itself. */
static bool
derive(Node *node, Derivation *derivation)
{
	Derivation	below = {.ship = derivation->ship};

	if (node == NULL || IsA(node, SortGroupClause))
		return false;
	if (IsA(node, List) || IsA(node, TargetEntry) || IsA(node, CaseWhen))
	{
		derive_below(node, derivation);
		return false;
	}
	if (IsA(node, Var) || IsA(node, Const) || IsA(node, Param) || IsA(node, CaseTestExpr))
		return derive_own_collation(node, derivation);
	if (IsA(node, CollateExpr))
		return derive_collate((CollateExpr *) node, derivation);
	if (IsA(node, SubLink))
		return derive_subquery((SubLink *) node, derivation);
	if (IsA(node, RowCompareExpr))
		return derive_rows((RowCompareExpr *) node, derivation);
	if (IsA(node, Aggref) && ((Aggref *) node)->aggkind == AGGKIND_NORMAL)
		derive_aggregate((Aggref *) node, &below);
	else
		derive_below(node, &below);
	check_input(node, exprInputCollation(node), &below);
	if (!OidIsValid(exprCollation(node)))
	{
		below.strength = STRENGTH_NONE;
		below.collation = InvalidOid;
	}
	else if (below.strength == STRENGTH_NONE)
	{
		below.strength = STRENGTH_IMPLICIT;
		below.collation = get_typcollation(exprType(node));
	}
	if (OidIsValid(exprCollation(node)) && below.collation != exprCollation(node))
		below.has_failed = true;
	combine(derivation, &below);
	return false;
}

/*
 * Does the expression or statement, when deparsed, compare by the same
 * collations?
 */
bool
sl_shippable_has_collations(const SlShippableContext *ship, Node *expression)
{
	Derivation	derivation = {.ship = ship};

	if (IsA(expression, Query))
		(void) derive_clause(expression, &derivation);
	else
		(void) derive(expression, &derivation);
	return !derivation.has_failed;
}
