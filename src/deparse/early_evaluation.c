/*
 * early_evaluation.c
 *		Is an expression safe to evaluate early, although its value may not
 *		be needed?
 *
 * PostgreSQL folds constants during planning, and evaluates the rest when a
 * row needs it; a branch that cannot be reached is dropped without evaluation.
 * The router evaluates everything that needs no row before it sends a
 * statement, and that must not raise an error that PostgreSQL would not raise.
 * So an expression whose value may not be needed is evaluated early if it
 * cannot fail, or if a trial shows that it does not.  One that fails is sent
 * to the shard as it is, which does what PostgreSQL does.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"

#include "deparse/shippable.h"

bool
sl_shippable_has_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, Param) || expression_tree_walker(node, sl_shippable_has_param, context);
}

static bool
is_not_built_in(Oid function, void *context)
{
	return function >= FirstGenbkiObjectId;
}

bool
sl_shippable_calls_others(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return check_functions_in_node(node, is_not_built_in, context) ||
		expression_tree_walker(node, sl_shippable_calls_others, context);
}

/* Functions of the current time never fail. */
static bool
is_leaky(Oid function, void *context)
{
	return function != F_NOW && function != F_TRANSACTION_TIMESTAMP && function != F_STATEMENT_TIMESTAMP &&
		!get_func_leakproof(function);
}

static bool
can_fail(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, CoerceToDomain) || check_functions_in_node(node, is_leaky, context) ||
		expression_tree_walker(node, can_fail, context);
}

/* Does it refer to rows of other tables? */
static bool
has_column(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, Var) || IsA(node, PlaceHolderVar) ||
		expression_tree_walker(node, has_column, context);
}

static void
compute(Node *expression)
{
	EState	   *executor = CreateExecutorState();
	ExprState  *state = ExecPrepareExpr(copyObject((Expr *) expression), executor);
	bool		is_null;

	(void) ExecEvalExprSwitchContext(state, GetPerTupleExprContext(executor), &is_null);
	FreeExecutorState(executor);
}

/* Tries to evaluate it, in a subtransaction.  A query cancel is re-thrown. */
static bool
can_compute(Node *expression)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	if (IsInParallelMode())
		return false;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		compute(expression);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	if (error != NULL && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	return error == NULL;
}

/*
 * Is it made of constants?  "10 / $1" is not, and may fail or not.  A stable
 * user-defined function can do anything, and is not tried.
 */
static bool
is_known(Node *expression)
{
	return !sl_shippable_has_param(expression, NULL) &&
		!(sl_shippable_calls_others(expression, NULL) && contain_mutable_functions(expression));
}

/* Is it safe to evaluate early, although the value may not be needed? */
bool
sl_shippable_is_safe_early(Node *expression)
{
	return !can_fail(expression, NULL) ||
		(is_known(expression) && (has_column(expression, NULL) || can_compute(expression)));
}

/* Is it made of constants, and does evaluation fail? */
bool
sl_shippable_fails_early(Node *expression)
{
	return can_fail(expression, NULL) && is_known(expression) && !sl_shippable_is_safe_early(expression);
}

static bool
is_true(Node *condition)
{
	Const	   *constant;

	if (!IsA(condition, Const) && !(is_known(condition) && sl_shippable_is_safe_early(condition)))
		return false;
	constant = (Const *) eval_const_expressions(NULL, condition);
	return IsA(constant, Const) && !constant->constisnull && DatumGetBool(constant->constvalue);
}

/*
 * Is one of these ANDed conditions independent of any row?  If it is false,
 * PostgreSQL does not evaluate the others.
 */
bool
sl_shippable_may_stop(const SlShippableContext *ship, List *conditions)
{
	ListCell   *cell;

	foreach(cell, conditions)
	{
		if (sl_shippable_is_local(ship, lfirst(cell)) && !is_true(lfirst(cell)))
			return true;
	}
	return false;
}
