/*
 * shippable.c
 *		Decides whether a shard would compute the same, and prepares it for that.
 *
 * What may travel is built in, or belongs to an extension that all shards are
 * said to have, and does not depend on anything but its arguments.  Functions of
 * time and date that depend on the session's time zone may travel too, because
 * that is kept equal.
 *
 * A part of an expression that needs no column of the shards is computed here,
 * whatever it is made of, and travels as a parameter: now(), a function of the
 * user's, a value from another table.  In a branch that may not be taken, as of
 * CASE, that is done only to what does not fail: see harmless.c.
 *
 * Whole statements go the same way, as the parser and the rewriter left them:
 * travel.c walks through their clauses and has each expression examined here.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "deparse/shipping.h"
#include "key/key.h"

/* Constants beyond so many stay in the text: see sl_shipping_shape(). */
#define MOST_SHAPED 256

/* Stable functions that depend on nothing but what is equal on the shards. */
static const Oid zone_functions[] = {
	F_DATE_TRUNC_TEXT_TIMESTAMPTZ, F_EXTRACT_TEXT_TIMESTAMPTZ, F_DATE_PART_TEXT_TIMESTAMPTZ,
	F_TIMESTAMPTZ_PL_INTERVAL, F_TIMESTAMPTZ_MI_INTERVAL,
	F_TIMESTAMP_LT_TIMESTAMPTZ, F_TIMESTAMP_LE_TIMESTAMPTZ, F_TIMESTAMP_EQ_TIMESTAMPTZ,
	F_TIMESTAMP_GT_TIMESTAMPTZ, F_TIMESTAMP_GE_TIMESTAMPTZ, F_TIMESTAMP_NE_TIMESTAMPTZ,
	F_TIMESTAMPTZ_LT_TIMESTAMP, F_TIMESTAMPTZ_LE_TIMESTAMP, F_TIMESTAMPTZ_EQ_TIMESTAMP,
	F_TIMESTAMPTZ_GT_TIMESTAMP, F_TIMESTAMPTZ_GE_TIMESTAMP, F_TIMESTAMPTZ_NE_TIMESTAMP,
	F_DATE_LT_TIMESTAMPTZ, F_DATE_LE_TIMESTAMPTZ, F_DATE_EQ_TIMESTAMPTZ,
	F_DATE_GT_TIMESTAMPTZ, F_DATE_GE_TIMESTAMPTZ, F_DATE_NE_TIMESTAMPTZ,
	F_TIMESTAMPTZ_LT_DATE, F_TIMESTAMPTZ_LE_DATE, F_TIMESTAMPTZ_EQ_DATE,
	F_TIMESTAMPTZ_GT_DATE, F_TIMESTAMPTZ_GE_DATE, F_TIMESTAMPTZ_NE_DATE,
	F_DATE_TIMESTAMPTZ, F_TIMESTAMP_TIMESTAMPTZ, F_TIMESTAMPTZ_TIMESTAMP, F_TIMESTAMPTZ_DATE,
	F_TIME_TIMESTAMPTZ, F_INTERVAL_PL_TIMESTAMPTZ, F_AGE_TIMESTAMPTZ_TIMESTAMPTZ,
	F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT, F_GENERATE_SERIES_TIMESTAMPTZ_TIMESTAMPTZ_INTERVAL,
	F_IN_RANGE_TIMESTAMPTZ_TIMESTAMPTZ_INTERVAL_BOOL_BOOL
};

static bool
is_of_extension(const SlShip *ship, Oid object, Oid class)
{
	return ship->extensions != NIL &&
		list_member_oid(ship->extensions, getExtensionOfObject(class, object));
}

bool
sl_shipping_knows(const SlShip *ship, Oid object, Oid class)
{
	return object < FirstGenbkiObjectId || is_of_extension(ship, object, class);
}

static bool
depends_on_zone_only(Oid function)
{
	for (int i = 0; i < (int) lengthof(zone_functions); i++)
	{
		if (zone_functions[i] == function)
			return true;
	}
	return false;
}

/* Functions that name objects of this database are not the same there. */
bool
sl_shipping_knows_function(const SlShip *ship, Oid function)
{
	if (!sl_shipping_knows(ship, function, ProcedureRelationId))
		return false;
	return func_volatile(function) == PROVOLATILE_IMMUTABLE || depends_on_zone_only(function);
}

/* Can values of the type travel, and mean the same there? */
bool
sl_ship_is_type(const SlShip *ship, Oid type)
{
	Oid			element = get_element_type(type);

	if (OidIsValid(element))
		return sl_ship_is_type(ship, element);
	if (sl_key_names_local_object(type) || get_typtype(type) == TYPTYPE_PSEUDO)
		return false;
	return sl_shipping_knows(ship, type, TypeRelationId) || list_member_oid(ship->types, type);
}

/* Of a row that a subquery returns, which may need the shards. */
static bool
is_of_subquery(const Param *param)
{
	return param->paramkind == PARAM_MULTIEXPR || param->paramkind == PARAM_SUBLINK;
}

/* Does the expression need something that only the shards, or nobody, has? */
static bool
needs_shard(Node *node, void *context)
{
	const SlShip *ship = context;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			return ship->is_statement || bms_is_member(((Var *) node)->varno, ship->relids);
		case T_Param:
			return is_of_subquery((Param *) node);
		case T_ArrayCoerceExpr:

			/* What it does with an element is its own affair. */
			return needs_shard((Node *) ((ArrayCoerceExpr *) node)->arg, context);
		case T_PlaceHolderVar:
			return bms_overlap(((PlaceHolderVar *) node)->phrels, ship->relids);
		case T_Aggref:
		case T_GroupingFunc:
		case T_WindowFunc:
		case T_CaseTestExpr:
		case T_CoerceToDomainValue:
		case T_SubPlan:
		case T_AlternativeSubPlan:
		case T_SubLink:
		case T_SetToDefault:
		case T_CurrentOfExpr:
			return true;
		case T_NextValueExpr:
			return !ship->computes_once;
		default:
			return expression_tree_walker(node, needs_shard, context);
	}
}

/* Can the expression be computed on the router, before a shard is asked? */
bool
sl_ship_is_local(const SlShip *ship, Node *expression)
{
	return !needs_shard(expression, (void *) ship) && !contain_volatile_functions(expression) &&
		!expression_returns_set(expression);
}

/* The same for what is computed once, volatile or not. */
bool
sl_ship_is_computed_once(const SlShip *ship, Node *expression)
{
	SlShip		once = *ship;

	once.computes_once = true;
	return !needs_shard(expression, (void *) &once) && !expression_returns_set(expression);
}

/* Does it take values of other rows, which the planner never knows? */
static bool
has_row_value(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC) ||
		expression_tree_walker(node, has_row_value, context);
}

/*
 * The number of a parameter that is the same, or 0.  What is grouped by must be found
 * again in what is returned.  Values of rows need not be: of very many of them, each has
 * its own, for to look at all others takes longer than the statement.
 */
static int
find_param(const SlShip *ship, Node *expression)
{
	ListCell   *cell;

	if ((ship->computes_once && list_length(ship->params) >= MOST_SHAPED) ||
		contain_volatile_functions(expression))
		return 0;
	foreach(cell, ship->params)
	{
		if (equal(lfirst(cell), expression))
			return foreach_current_index(cell) + 1;
	}
	return 0;
}

/* A parameter, cast to its type by name: OIDs may differ on the shard. */
static Node *
make_param(SlShip *ship, Node *expression)
{
	Param	   *param = makeNode(Param);
	int			number = find_param(ship, expression);

	if (number == 0)
	{
		ship->params = lappend(ship->params, copyObject(expression));
		number = list_length(ship->params);
	}
	param->paramkind = PARAM_EXTERN;
	param->paramid = number;
	param->paramtype = exprType(expression);
	param->paramtypmod = exprTypmod(expression);
	param->paramcollid = get_typcollation(param->paramtype);
	param->location = -1;
	return (Node *) makeRelabelType((Expr *) param, param->paramtype, param->paramtypmod,
									param->paramcollid, COERCE_EXPLICIT_CAST);
}

/*
 * Part of a statement, computed on the router.  What is known now stays a
 * constant, which the shard's planner makes more of than of a parameter.  A
 * function of the user's may be another one when the plan runs.
 */
static Node *
compute_here(SlShip *ship, Node *expression)
{
	Oid			collation = exprCollation(expression);
	Node	   *result;
	CollateExpr *collate;

	if (!sl_shipping_has_param(expression, NULL) && !contain_mutable_functions(expression) &&
		!sl_shipping_calls_others(expression, NULL))
	{
		result = eval_const_expressions(NULL, expression);
		if (IsA(result, Const))
			return result;
	}
	result = make_param(ship, expression);
	if (collation == exprCollation(result) || !OidIsValid(collation))
		return result;

	/* It is not its type's after COLLATE, and where it was a name. */
	collate = makeNode(CollateExpr);
	collate->arg = (Expr *) result;
	collate->collOid = collation;
	collate->location = -1;
	return (Node *) collate;
}

/*
 * Statements that differ in nothing but constants become one text, which the
 * shard parses and plans once.  This is for constants that an operator compares
 * or computes with, and for values of rows; elsewhere the grammar may want one, or
 * the shard's planner.  Statements with very many are hardly alike, and for each
 * parameter all that there are are looked at.
 */
Node *
sl_shipping_shape(SlShip *ship, Node *node)
{
	const Const *constant = (const Const *) node;

	if (!ship->is_shape || node == NULL || !IsA(node, Const) || constant->constisnull ||
		constant->consttype == BOOLOID || !sl_form_is_one(constant->consttype) ||
		list_length(ship->params) >= MOST_SHAPED)
		return node;
	return make_param(ship, node);
}

static void
shape_operands(SlShip *ship, OpExpr *expression)
{
	ListCell   *cell;

	foreach(cell, expression->args)
		lfirst(cell) = sl_shipping_shape(ship, lfirst(cell));
}

Node *
sl_shipping_fail(SlShipping *shipping, Node *node)
{
	shipping->has_failed = true;
	return node;
}

/* Are an aggregate's rows sorted there as they are here? */
static bool
has_known_order(const SlShip *ship, const Aggref *aggregate)
{
	ListCell   *cell;

	foreach(cell, aggregate->aggorder)
	{
		TargetEntry *entry = get_sortgroupclause_tle(lfirst(cell), aggregate->args);

		if (!sl_ship_is_order(ship, exprCollation((Node *) entry->expr)))
			return false;
	}
	return true;
}

/* Does it make a text of values that have one form? */
static bool
writes_equally(const Aggref *aggregate)
{
	List	   *args = NIL;
	ListCell   *cell;

	foreach(cell, aggregate->args)
	{
		if (!lfirst_node(TargetEntry, cell)->resjunk)
			args = lappend(args, lfirst_node(TargetEntry, cell)->expr);
	}
	return sl_form_is_equal_call(aggregate->aggfnoid, args);
}

static bool
is_shippable_aggregate(const SlShip *ship, const Aggref *aggregate)
{
	/* Stable ones depend on how values are written, such as json_agg. */
	return (ship->is_statement ||
			(ship->with_aggregates && aggregate->agglevelsup == 0 && !aggregate->aggvariadic)) &&
		aggregate->aggsplit == AGGSPLIT_SIMPLE && has_known_order(ship, aggregate) &&
		sl_shipping_knows(ship, aggregate->aggfnoid, ProcedureRelationId) &&
		(func_volatile(aggregate->aggfnoid) == PROVOLATILE_IMMUTABLE ||
		 (ship->is_statement && writes_equally(aggregate)));
}

/* The router's table has another OID. */
static bool
is_shippable_column(const SlShip *ship, const Var *column)
{
	return (column->varattno > 0 ||
			(ship->with_system_columns && column->varattno < 0 && column->varattno != TableOidAttributeNumber)) &&
		(ship->is_statement || column->varlevelsup == 0);
}

static Oid
function_of(Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
			return ((FuncExpr *) node)->funcid;
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			set_opfuncid((OpExpr *) node);
			return ((OpExpr *) node)->opfuncid;
		case T_ScalarArrayOpExpr:
			set_sa_opfuncid((ScalarArrayOpExpr *) node);
			return ((ScalarArrayOpExpr *) node)->opfuncid;
		default:
			return InvalidOid;
	}
}

static bool
is_known_operator(const SlShip *ship, Node *node)
{
	if (IsA(node, OpExpr) || IsA(node, DistinctExpr) || IsA(node, NullIfExpr))
		return sl_shipping_knows(ship, ((OpExpr *) node)->opno, OperatorRelationId);
	if (IsA(node, ScalarArrayOpExpr))
		return sl_shipping_knows(ship, ((ScalarArrayOpExpr *) node)->opno, OperatorRelationId);
	return true;
}

/* Does the function that a node calls compute the same there? */
static bool
calls_known_function(const SlShip *ship, Node *node)
{
	Oid			function = function_of(node);
	List	   *args = IsA(node, FuncExpr) ? ((FuncExpr *) node)->args :
	IsA(node, OpExpr) ? ((OpExpr *) node)->args : NIL;

	return sl_shipping_knows_function(ship, function) ||
		(args != NIL && sl_form_is_equal_call(function, args));
}

/* Two rows are compared column by column. */
static bool
has_known_operators(const SlShip *ship, const RowCompareExpr *compare)
{
	ListCell   *cell;

	foreach(cell, compare->opnos)
	{
		if (!sl_shipping_knows(ship, lfirst_oid(cell), OperatorRelationId) ||
			!sl_shipping_knows_function(ship, get_opcode(lfirst_oid(cell))))
			return false;
	}
	return true;
}

/* Nodes that the planner would have replaced, or that need the statement around. */
static bool
is_shippable_in_statement(const SlShip *ship, Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
			return calls_known_function(ship, node);
		case T_WindowFunc:
			return sl_shipping_knows_function(ship, ((WindowFunc *) node)->winfnoid);
		case T_RowCompareExpr:
			return has_known_operators(ship, (RowCompareExpr *) node);
		case T_SubscriptingRef:

			/* Of several elements that are set, only the last is written out. */
			return ((SubscriptingRef *) node)->refassgnexpr == NULL ||
				IsA(((SubscriptingRef *) node)->refexpr, Var);
		case T_Param:
			return is_of_subquery((Param *) node);
		case T_GroupingFunc:
		case T_SubLink:
		case T_FieldSelect:
		case T_RowExpr:
		case T_ArrayCoerceExpr:
		case T_CoerceToDomain:
			return true;
		default:
			return sl_is_returning_expr(node);
	}
}

/* May this node run on a shard, if what is below it may? */
static bool
is_shippable_node(const SlShip *ship, Node *node)
{
	if (ship->is_statement && is_shippable_in_statement(ship, node))
		return true;
	switch (nodeTag(node))
	{
		case T_FuncExpr:
			return !((FuncExpr *) node)->funcretset && !((FuncExpr *) node)->funcvariadic &&
				calls_known_function(ship, node);
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
			return is_known_operator(ship, node) && calls_known_function(ship, node);
		case T_CoerceViaIO:
			return sl_form_is_equal_cast((CoerceViaIO *) node);
		case T_Aggref:
			return is_shippable_aggregate(ship, (Aggref *) node);
		case T_BoolExpr:
		case T_NullTest:
			return !IsA(node, NullTest) || !((NullTest *) node)->argisrow;
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_ArrayExpr:
		case T_RelabelType:
		case T_CollateExpr:
		case T_TargetEntry:
		case T_List:
			return true;
		case T_SubscriptingRef:

			/* To set an element is no expression. */
			return ((SubscriptingRef *) node)->refassgnexpr == NULL;
		case T_SortGroupClause:
			return (ship->is_statement || !ship->other_collation) &&
				sl_shipping_knows(ship, ((SortGroupClause *) node)->eqop, OperatorRelationId) &&
				sl_shipping_knows(ship, ((SortGroupClause *) node)->sortop, OperatorRelationId);
		default:
			return false;
	}
}

/*
 * The planner turns COLLATE into a relabelling that is not written out again:
 * turns it back.
 */
static Node *
restore_collate(Node *node)
{
	RelabelType *label = (RelabelType *) node;
	CollateExpr *collate;

	if (!IsA(node, RelabelType) || !OidIsValid(label->resultcollid) ||
		label->resultcollid == exprCollation((Node *) label->arg))
		return node;
	collate = makeNode(CollateExpr);
	collate->arg = (Expr *) label;
	collate->collOid = label->resultcollid;
	collate->location = -1;
	label->resultcollid = exprCollation((Node *) label->arg);
	return (Node *) collate;
}

/* May a part of it be left out when it is computed? */
static bool
has_branches(Node *node)
{
	return IsA(node, CaseExpr) || IsA(node, CoalesceExpr) || IsA(node, BoolExpr) ||
		IsA(node, SubLink);
}

static bool
has_type(Node *node)
{
	return !IsA(node, List) && !IsA(node, TargetEntry) && !IsA(node, CaseWhen) &&
		!IsA(node, SortGroupClause);
}

/* A row without a type of its own, or a literal, can be used but not sent. */
static bool
has_no_type(const SlShip *ship, Node *node)
{
	return ship->is_statement &&
		((IsA(node, RowExpr) && ((RowExpr *) node)->row_typeid == RECORDOID) ||
		 (IsA(node, SubLink) && ((SubLink *) node)->subLinkType == MULTIEXPR_SUBLINK) ||
		 (IsA(node, Const) && ((Const *) node)->consttype == UNKNOWNOID));
}

/*
 * Is it computed here?  COLLATE itself must stay to be seen.  What a row is made
 * of that is inserted is computed once, here or there.
 */
static bool
is_router_part(const SlShipping *shipping, Node *node)
{
	const SlShip *ship = shipping->ship;

	if (!has_type(node) || has_no_type(ship, node) ||
		(ship->is_statement && IsA(node, CollateExpr)))
		return false;
	if (ship->computes_once && shipping->branches == 0)
		return sl_ship_is_computed_once(ship, node);
	return sl_ship_is_local(ship, node);
}

/*
 * A column as its table's own.  The statement may have named it as a column of a
 * join with an alias, which the text for the shards has not.
 */
static Node *
copy_column(const SlShip *ship, Var *column)
{
	Var		   *copy = copyObject(column);

	if (!ship->is_statement)
	{
		copy->varnosyn = copy->varno;
		copy->varattnosyn = copy->varattno;
	}
	return (Node *) copy;
}

/* Returns the node as shards can run it, or notes that they cannot. */
Node *
sl_shipping_node(Node *node, SlShipping *shipping)
{
	SlShip	   *ship = shipping->ship;
	int			branches = shipping->branches;

	if (node == NULL || shipping->has_failed)
		return node;
	check_stack_depth();
	if (ship->is_statement && IsA(node, Query))
		return sl_travel_query((Query *) node, shipping);
	if (has_type(node) && !has_no_type(ship, node) && !sl_ship_is_type(ship, exprType(node)))
		return sl_shipping_fail(shipping, node);
	if (IsA(node, Const))
		return copyObject(node);
	if (is_router_part(shipping, node))
	{
		if (shipping->branches == 0 || sl_ship_is_harmless(node))
			return ship->is_statement ? compute_here(ship, node) : make_param(ship, node);

		/* The shard knows the value when it plans, and would fail then. */
		if (has_row_value(node, NULL))
			return sl_shipping_fail(shipping, node);
	}
	if (IsA(node, Var))
		return is_shippable_column(ship, (Var *) node) ? copy_column(ship, (Var *) node) : sl_shipping_fail(shipping, node);
	if (IsA(node, PlaceHolderVar) || !is_shippable_node(ship, node))
		return sl_shipping_fail(shipping, node);
	shipping->branches += has_branches(node) ? 1 : 0;
	node = expression_tree_mutator(node, sl_shipping_node, (void *) shipping);
	shipping->branches = branches;
	if (IsA(node, OpExpr))
		shape_operands(ship, (OpExpr *) node);
	return restore_collate(node);
}

/*
 * Returns the expression as shards can run it, with new parameters, or NULL if
 * they cannot.
 */
Node *
sl_ship(SlShip *ship, Node *expression)
{
	SlShipping	shipping = {.ship = ship};
	List	   *params = list_copy(ship->params);
	Node	   *result = sl_shipping_node(expression, &shipping);

	if (!shipping.has_failed && list_length(ship->params) <= SL_MOST_PARAMS &&
		sl_ship_has_collations(ship, result))
		return result;
	ship->params = params;
	return NULL;
}

bool
sl_ship_is_possible(const SlShip *ship, Node *expression)
{
	SlShip		copy = *ship;

	copy.params = NIL;
	return sl_ship(&copy, expression) != NULL;
}
