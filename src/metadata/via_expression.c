/*
 * via_expression.c
 *		User-defined rules ("via") from key to the value that a map looks
 *		up.
 *
 * The rule is an SQL expression over $1 ... $n, such as "$1 % 16".  It is
 * stored as text and parsed in every session with only pg_catalog in the
 * search path, so that it means the same everywhere, on a bare shard too.  For
 * the same reason it may use nothing but built-in immutable functions and
 * operators.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/analyze.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_param.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

#include "base/base.h"
#include "metadata/key.h"

static void
refuse_via(const char *reason)
{
	ereport(ERROR,
			errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("invalid \"via\" expression"),
			errdetail("%s", reason),
			errhint("It is one expression over $1, $2 ... that uses built-in immutable functions and operators, such as '$1 %% 16'."));
}

/*
 * Returns why it is not an expression, or NULL.  The grammar has no entry for
 * a single expression but that of a SELECT list, so everything else that a
 * SELECT can have is refused, and what only such a list can be: empty, or "*".
 */
static const char *
find_other_clause(const SelectStmt *select)
{
	const ResTarget *target;

	if (list_length(select->targetList) != 1 || select->distinctClause ||
		select->fromClause || select->whereClause || select->groupClause ||
		select->havingClause || select->windowClause || select->sortClause ||
		select->limitOffset || select->limitCount || select->lockingClause)
		return "It is not a single expression.";
	target = linitial_node(ResTarget, select->targetList);
	if (target->name != NULL)
		return "It has a column alias.";
	return IsA(target->val, ColumnRef) ? "It names a column." : NULL;
}

/*
 * Returns a raw expression, or NULL and the reason; a bare column is refused.
 */
Node *
sl_expression_parse(const char *source, const char **reason)
{
	List	   *statements = raw_parser(source, RAW_PARSE_PLPGSQL_EXPR);
	SelectStmt *select = castNode(SelectStmt,
								  linitial_node(RawStmt, statements)->stmt);

	*reason = find_other_clause(select);
	return *reason == NULL ? linitial_node(ResTarget, select->targetList)->val : NULL;
}

static Node *
parse_raw(const char *source)
{
	const char *reason;
	Node	   *expression = sl_expression_parse(source, &reason);

	if (expression == NULL)
		refuse_via(reason);
	return expression;
}

static bool
is_foreign_function(Oid function, void *context)
{
	return function >= FirstNormalObjectId;
}

/*
 * The output functions of these types are declared immutable, but depend on
 * extra_float_digits and bytea_output.
 */
static bool
is_written_by_setting(const CoerceViaIO *cast)
{
	Oid			type = exprType((Node *) cast->arg);

	return type == FLOAT4OID || type == FLOAT8OID || type == BYTEAOID;
}

/* Finds whatever could differ between databases or sessions. */
static bool
find_forbidden(Node *node, const char **reason)
{
	if (node == NULL)
		return false;
	if (IsA(node, List))
		return expression_tree_walker(node, find_forbidden, (void *) reason);
	if (IsA(node, SubLink) || IsA(node, Aggref) || IsA(node, WindowFunc) ||
		IsA(node, GroupingFunc) || IsA(node, SQLValueFunction) ||
		IsA(node, NextValueExpr) || IsA(node, CurrentOfExpr))
		*reason = "It has a subquery, an aggregate or a value of the session.";
	else if (IsA(node, CoerceViaIO) && is_written_by_setting((CoerceViaIO *) node))
		*reason = "It has a cast whose result depends on a setting.";
	else if (IsA(node, Const) && sl_key_names_local_object(((Const *) node)->consttype))
		*reason = "It names an object of this database.";
	else if (check_functions_in_node(node, is_foreign_function, NULL))
		*reason = "It has a function or operator that is not built in.";
	else if (OidIsValid(exprType(node)) && exprType(node) >= FirstNormalObjectId)
		*reason = "It has a type that is not built in.";
	else if (exprCollation(node) >= FirstNormalObjectId)
		*reason = "It has a collation that is not built in.";
	else
		return expression_tree_walker(node, find_forbidden, (void *) reason);
	return true;
}

static bool
has_parameter(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, Param) || expression_tree_walker(node, has_parameter, context);
}

static void
explain_error(void *arg)
{
	sl_check_move_position(arg);
	errcontext("\"via\" expression of a map");
}

/* Fixes the settings for input and output. */
static void
fix_settings(void)
{
	sl_guc_set_plain();
	(void) set_config_option("search_path", "pg_catalog", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("standard_conforming_strings", "on", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* Parses and analyzes the expression; checks come later. */
static Node *
analyse(const char *source, const Oid *types, int count)
{
	ParseState *state = make_parsestate(NULL);
	int			nest_level = NewGUCNestLevel();
	ErrorContextCallback callback;
	Node	   *expression;

	callback.callback = explain_error;
	callback.arg = unconstify(char *, source);
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	/* A literal becomes a value here: it must not depend on the session. */
	fix_settings();
	state->p_sourcetext = source;
	setup_parse_fixed_parameters(state, types, count);
	expression = transformExpr(state, parse_raw(source), EXPR_KIND_OTHER);
	expression = coerce_type(state, expression, exprType(expression),
							 exprType(expression) == UNKNOWNOID ? TEXTOID : exprType(expression),
							 -1, COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1);
	assign_expr_collations(state, expression);
	free_parsestate(state);
	error_context_stack = callback.previous;
	AtEOXact_GUC(true, nest_level);
	return expression;
}

/* Does it have a constant whose literal may mean another value later? */
static bool
has_date(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Const))
		return TypeCategory(((Const *) node)->consttype) == TYPCATEGORY_DATETIME;
	return expression_tree_walker(node, has_date, context);
}

/* Deparses the expression, with its constants as values. */
static char *
deparse_via(Node *expression)
{
	int			nest_level = NewGUCNestLevel();
	char	   *result;

	fix_settings();
	result = deparse_expression(expression, NIL, false, false);
	AtEOXact_GUC(true, nest_level);
	return result;
}

/*
 * Raises an error unless the source is a valid rule.  Returns the rule in the
 * form to be stored, which differs if it has dates ('now' is replaced by that
 * moment), and the type of its value.
 */
char *
sl_via_check(const char *source, const Oid *types, int count, Oid *value_type)
{
	Node	   *expression = analyse(source, types, count);
	const char *reason = NULL;

	if (find_forbidden(expression, &reason))
		refuse_via(reason);
	if (expression_returns_set(expression))
		refuse_via("It returns a set.");
	if (contain_mutable_functions(expression))
		refuse_via("It has a function that is not immutable.");
	if (!has_parameter(expression, NULL))
		refuse_via("It does not depend on the key.");
	*value_type = exprType(expression);
	return has_date(expression, NULL) ? deparse_via(expression) : pstrdup(source);
}

/* Prepares a rule that was checked before; in the given memory context. */
SlVia *
sl_via_init(const char *source, const Oid *types, int count, MemoryContext context)
{
	Node	   *expression = analyse(source, types, count);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SlVia	   *via = palloc0(sizeof(SlVia));

	via->type = exprType(expression);
	via->params = makeParamList(count);
	for (int i = 0; i < count; i++)
	{
		via->params->params[i].isnull = false;
		via->params->params[i].pflags = PARAM_FLAG_CONST;
		via->params->params[i].ptype = types[i];
	}
	via->state = ExecInitExprWithParams(expression_planner((Expr *) copyObject(expression)),
										via->params);
	via->context = CreateStandaloneExprContext();
	via->context->ecxt_param_list_info = via->params;
	MemoryContextSwitchTo(old_context);
	return via;
}

/*
 * Computes the value to look up.  A value by reference is valid until the next
 * call.
 */
Datum
sl_via_apply(SlVia *via, int count, const Datum *values)
{
	Datum		result;
	bool		is_null;

	for (int i = 0; i < count; i++)
		via->params->params[i].value = values[i];
	ResetExprContext(via->context);
	result = ExecEvalExprSwitchContext(via->state, via->context, &is_null);
	if (is_null)
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("\"via\" expression of the map gave NULL for the key"));
	return result;
}
