/*
 * shippable_expr.c
 *		Decides whether an expression is shippable, and makes its shippable
 *		form.
 *
 * An expression is shippable if it is built in, or belongs to an extension
 * that all shards are declared to have, and depends on nothing but its
 * arguments.  Functions of time and date that depend on TimeZone are shippable
 * too, because that setting is the same on the shards.
 *
 * A part of an expression that needs no column of the shards is evaluated on
 * the router, whatever it is made of, and sent as a parameter: now(), a
 * user-defined function, a value from another table.  In a branch that may not
 * be evaluated, as of CASE, that is done only if it cannot fail: see
 * early_evaluation.c.
 *
 * Whole statements are examined in the form that the rewriter leaves:
 * shippable_query.c walks through their clauses and has each expression
 * examined here.
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
#include "deparse/shippable.h"
#include "metadata/key.h"

/* Further constants are not parameterized: see sl_shippable_parameterize(). */
#define MAX_SHAPED 256

/*
 * Stable functions that depend only on settings that are the same on the
 * shards.
 */
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
is_of_extension(const SlShippableContext *ship, Oid object, Oid class)
{
	return ship->extensions != NIL &&
		list_member_oid(ship->extensions, getExtensionOfObject(class, object));
}

static bool
is_known_object(const SlShippableContext *ship, Oid object, Oid class)
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

/* Functions on names of objects return something else on a shard. */
bool
sl_shippable_is_function(const SlShippableContext *ship, Oid function)
{
	if (!is_known_object(ship, function, ProcedureRelationId))
		return false;
	return func_volatile(function) == PROVOLATILE_IMMUTABLE || depends_on_zone_only(function);
}

/* Do the shards have the sampling method of this handler? */
bool
sl_shippable_is_sample(const SlShippableContext *ship, Oid handler)
{
	return is_known_object(ship, handler, ProcedureRelationId);
}

/* Can values of the type be sent, and do they mean the same on a shard? */
bool
sl_shippable_is_type(const SlShippableContext *ship, Oid type)
{
	Oid			element = get_element_type(type);

	if (OidIsValid(element))
		return sl_shippable_is_type(ship, element);
	if (sl_key_names_local_object(type) || get_typtype(type) == TYPTYPE_PSEUDO)
		return false;
	return is_known_object(ship, type, TypeRelationId) || list_member_oid(ship->types, type);
}

/* A Param for a column of a subquery's row, which may need the shards. */
static bool
is_of_subquery(const Param *param)
{
	return param->paramkind == PARAM_MULTIEXPR || param->paramkind == PARAM_SUBLINK;
}

/* Does the expression need something that the router does not have? */
static bool
needs_shard(Node *node, void *context)
{
	const SlShippableContext *ship = context;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			return ship->is_statement || bms_is_member(((Var *) node)->varno, ship->relids);
		case T_Param:
			return is_of_subquery((Param *) node);
		case T_ArrayCoerceExpr:

			/* Its element expression is examined on its own. */
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
			if (sl_is_merge_action_call(node))
				return true;
			return expression_tree_walker(node, needs_shard, context);
	}
}

/*
 * Can the expression be evaluated on the router, before execution on the
 * shards?
 */
bool
sl_shippable_is_local(const SlShippableContext *ship, Node *expression)
{
	return !needs_shard(expression, (void *) ship) && !contain_volatile_functions(expression) &&
		!expression_returns_set(expression);
}

/* The same for an expression that is evaluated once, volatile or not. */
bool
sl_shippable_is_computed_once(const SlShippableContext *ship, Node *expression)
{
	SlShippableContext once = *ship;

	once.computes_once = true;
	return !needs_shard(expression, (void *) &once) && !expression_returns_set(expression);
}

/* Does it refer to other rows, which the planner never knows? */
static bool
has_row_value(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC) ||
		expression_tree_walker(node, has_row_value, context);
}

/*
 * Returns the number of an equal parameter, or 0.  Grouping expressions must
 * match those of the output.  Values of rows need not be shared: with very
 * many of them, the search would take longer than the statement.
 */
static int
find_param(const SlShippableContext *ship, Node *expression)
{
	ListCell   *cell;

	if ((ship->computes_once && list_length(ship->params) >= MAX_SHAPED) ||
		contain_volatile_functions(expression))
		return 0;
	foreach(cell, ship->params)
	{
		if (equal(lfirst(cell), expression))
			return foreach_current_index(cell) + 1;
	}
	return 0;
}

/*
 * Makes a parameter with a cast to its type by name: OIDs may differ on the
 * shard.
 */
static Node *
make_param(SlShippableContext *ship, Node *expression)
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
 * Evaluates a part of a statement on the router.  A value that is known at
 * planning stays a constant, from which the shard's planner can estimate
 * better.  The result of a user-defined function may differ when the plan is
 * executed.
 */
static Node *
compute_on_router(SlShippableContext *ship, Node *expression)
{
	Oid			collation = exprCollation(expression);
	Node	   *result;
	CollateExpr *collate;

	if (!sl_shippable_has_param(expression, NULL) && !contain_mutable_functions(expression) &&
		!sl_shippable_calls_others(expression, NULL))
	{
		result = eval_const_expressions(NULL, expression);
		if (IsA(result, Const))
			return result;
	}
	result = make_param(ship, expression);
	if (collation == exprCollation(result) || !OidIsValid(collation))
		return result;

	/*
	 * The collation is not the type's after COLLATE, and where it was derived
	 * from a name.
	 */
	collate = makeNode(CollateExpr);
	collate->arg = (Expr *) result;
	collate->collOid = collation;
	collate->location = -1;
	return (Node *) collate;
}

/*
 * Constant parameterization: statements that differ in constants only become
 * one query string, which the shard parses and plans once.  This is for
 * constants that an operator compares or computes with, and for values of
 * rows; elsewhere the grammar may require a constant, or the shard's planner
 * benefit from it.  Statements with very many constants are hardly alike, and
 * each new parameter is compared with all others.
 */
Node *
sl_shippable_parameterize(SlShippableContext *ship, Node *node)
{
	const Const *constant = (const Const *) node;

	if (!ship->parameterizes || node == NULL || !IsA(node, Const) || constant->constisnull ||
		constant->consttype == BOOLOID || !sl_format_is_fixed(constant->consttype) ||
		list_length(ship->params) >= MAX_SHAPED)
		return node;
	return make_param(ship, node);
}

static void
parameterize_operands(SlShippableContext *ship, OpExpr *expression)
{
	ListCell   *cell;

	foreach(cell, expression->args)
		lfirst(cell) = sl_shippable_parameterize(ship, lfirst(cell));
}

Node *
sl_shippable_refuse(SlShippableCheck *shipping, Node *node)
{
	shipping->has_failed = true;
	return node;
}

/* Is the ORDER BY of an aggregate the same on the shards? */
static bool
has_known_order(const SlShippableContext *ship, const Aggref *aggregate)
{
	ListCell   *cell;

	foreach(cell, aggregate->aggorder)
	{
		TargetEntry *entry = get_sortgroupclause_tle(lfirst(cell), aggregate->args);

		if (!sl_shippable_is_order(ship, exprCollation((Node *) entry->expr)))
			return false;
	}
	return true;
}

/* Does it convert values of one text form only? */
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
	return sl_format_is_equal_call(aggregate->aggfnoid, args);
}

static bool
is_shippable_aggregate(const SlShippableContext *ship, const Aggref *aggregate)
{
	/* Stable ones depend on output formats, such as json_agg. */
	return (ship->is_statement ||
			(ship->with_aggregates && aggregate->agglevelsup == 0 && !aggregate->aggvariadic)) &&
		aggregate->aggsplit == AGGSPLIT_SIMPLE && has_known_order(ship, aggregate) &&
		is_known_object(ship, aggregate->aggfnoid, ProcedureRelationId) &&
		(func_volatile(aggregate->aggfnoid) == PROVOLATILE_IMMUTABLE ||
		 (ship->is_statement && writes_equally(aggregate)));
}

/* tableoid is the OID of the router's table. */
static bool
is_shippable_column(const SlShippableContext *ship, const Var *column)
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
is_known_operator(const SlShippableContext *ship, Node *node)
{
	if (IsA(node, OpExpr) || IsA(node, DistinctExpr) || IsA(node, NullIfExpr))
		return is_known_object(ship, ((OpExpr *) node)->opno, OperatorRelationId);
	if (IsA(node, ScalarArrayOpExpr))
		return is_known_object(ship, ((ScalarArrayOpExpr *) node)->opno, OperatorRelationId);
	return true;
}

/* Does the function of a node compute the same on a shard? */
static bool
calls_known_function(const SlShippableContext *ship, Node *node)
{
	Oid			function = function_of(node);
	List	   *args = IsA(node, FuncExpr) ? ((FuncExpr *) node)->args :
	IsA(node, OpExpr) ? ((OpExpr *) node)->args : NIL;

	return sl_shippable_is_function(ship, function) ||
		(args != NIL && sl_format_is_equal_call(function, args));
}

/* Rows are compared column by column. */
static bool
has_known_operators(const SlShippableContext *ship, const RowCompareExpr *compare)
{
	ListCell   *cell;

	foreach(cell, compare->opnos)
	{
		if (!is_known_object(ship, lfirst_oid(cell), OperatorRelationId) ||
			!sl_shippable_is_function(ship, get_opcode(lfirst_oid(cell))))
			return false;
	}
	return true;
}

/* Nodes that the planner would have replaced, or that need their statement. */
static bool
is_shippable_in_statement(const SlShippableContext *ship, Node *node)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
			return calls_known_function(ship, node);
		case T_WindowFunc:
			return sl_shippable_is_function(ship, ((WindowFunc *) node)->winfnoid);
		case T_RowCompareExpr:
			return has_known_operators(ship, (RowCompareExpr *) node);
		case T_SubscriptingRef:

			/* Of several assigned elements only the last one is deparsed. */
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
			return sl_is_returning_expr(node) || sl_is_merge_action_call(node);
	}
}

/* Is this node shippable, if its children are? */
static bool
is_shippable_node(const SlShippableContext *ship, Node *node)
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
			return sl_format_is_equal_cast((CoerceViaIO *) node);
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

			/* An assignment to an element is not an expression. */
			return ((SubscriptingRef *) node)->refassgnexpr == NULL;
		case T_SortGroupClause:
			return (ship->is_statement || !ship->other_collation) &&
				is_known_object(ship, ((SortGroupClause *) node)->eqop, OperatorRelationId) &&
				is_known_object(ship, ((SortGroupClause *) node)->sortop, OperatorRelationId);
		default:
			return false;
	}
}

/*
 * The planner turns COLLATE into a RelabelType, which is not deparsed as
 * COLLATE: turns it back.
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

/* Can some of its arguments be left unevaluated? */
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

/* An anonymous record, or a literal, can be used but not sent. */
static bool
has_no_type(const SlShippableContext *ship, Node *node)
{
	return ship->is_statement &&
		((IsA(node, RowExpr) && ((RowExpr *) node)->row_typeid == RECORDOID) ||
		 (IsA(node, SubLink) && ((SubLink *) node)->subLinkType == MULTIEXPR_SUBLINK) ||
		 (IsA(node, Const) && ((Const *) node)->consttype == UNKNOWNOID));
}

/*
 * Is it evaluated on the router?  COLLATE itself must remain visible.  The
 * values of an inserted row are evaluated once, on either side.
 */
static bool
is_router_part(const SlShippableCheck *shipping, Node *node)
{
	const SlShippableContext *ship = shipping->ship;

	if (!has_type(node) || has_no_type(ship, node) ||
		(ship->is_statement && IsA(node, CollateExpr)))
		return false;
	if (ship->computes_once && shipping->branches == 0)
		return sl_shippable_is_computed_once(ship, node);
	return sl_shippable_is_local(ship, node);
}

/*
 * Resolves a column to its table's own.  The statement may refer to it as a
 * column of a join with an alias, which the deparsed SQL does not have.
 */
static Node *
copy_column(const SlShippableContext *ship, Var *column)
{
	Var		   *copy = copyObject(column);

	if (!ship->is_statement)
	{
		copy->varnosyn = copy->varno;
		copy->varattnosyn = copy->varattno;
	}
	return (Node *) copy;
}

/* Returns the shippable form of the node, or records that there is none. */
Node *
sl_shippable_make_node(Node *node, SlShippableCheck *shipping)
{
	SlShippableContext *ship = shipping->ship;
	int			branches = shipping->branches;

	if (node == NULL || shipping->has_failed)
		return node;
	check_stack_depth();
	if (ship->is_statement && IsA(node, Query))
		return sl_shippable_check_query((Query *) node, shipping);
	if (has_type(node) && !has_no_type(ship, node) && !sl_shippable_is_type(ship, exprType(node)))
		return sl_shippable_refuse(shipping, node);
	if (IsA(node, Const))
		return copyObject(node);
	if (is_router_part(shipping, node))
	{
		if (shipping->branches == 0 || sl_shippable_is_safe_early(node))
			return ship->is_statement ? compute_on_router(ship, node) : make_param(ship, node);

		/* The shard would fold the constant during planning, and fail. */
		if (has_row_value(node, NULL))
			return sl_shippable_refuse(shipping, node);
	}
	if (IsA(node, Var))
		return is_shippable_column(ship, (Var *) node) ? copy_column(ship, (Var *) node) : sl_shippable_refuse(shipping, node);
	if (IsA(node, PlaceHolderVar) || !is_shippable_node(ship, node))
		return sl_shippable_refuse(shipping, node);
	shipping->branches += has_branches(node) ? 1 : 0;
	node = expression_tree_mutator(node, sl_shippable_make_node, (void *) shipping);
	shipping->branches = branches;
	if (IsA(node, OpExpr))
		parameterize_operands(ship, (OpExpr *) node);
	return restore_collate(node);
}

/*
 * Returns the shippable form of the expression, with new parameters, or NULL
 * if it is not shippable.
 */
Node *
sl_shippable_make_expr(SlShippableContext *ship, Node *expression)
{
	SlShippableCheck shipping = {.ship = ship};
	List	   *params = list_copy(ship->params);
	Node	   *result = sl_shippable_make_node(expression, &shipping);

	if (!shipping.has_failed && list_length(ship->params) <= SL_MAX_PARAMS &&
		sl_shippable_has_collations(ship, result))
		return result;
	ship->params = params;
	return NULL;
}

bool
sl_shippable_check_expr(const SlShippableContext *ship, Node *expression)
{
	SlShippableContext copy = *ship;

	copy.params = NIL;
	return sl_shippable_make_expr(&copy, expression) != NULL;
}
