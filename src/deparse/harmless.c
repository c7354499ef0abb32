/*
 * harmless.c
 *		Can something be computed although nobody may want the value?
 *
 * PostgreSQL computes what is made of constants while it plans, and the rest when
 * a row needs it; a branch that cannot be reached it drops unseen.  Here everything
 * that needs no row is computed before a shard is asked, and an error that
 * PostgreSQL would not have met must not come of that.  So what may not be asked
 * for is computed here if it cannot fail, or if trying it shows that it does not.
 * What fails goes to the shard as it is, which then does what PostgreSQL does.
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

#include "deparse/shipping.h"

bool
sl_shipping_has_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, Param) || expression_tree_walker(node, sl_shipping_has_param, context);
}

static bool
is_not_built_in(Oid function, void *context)
{
	return function >= FirstGenbkiObjectId;
}

bool
sl_shipping_calls_others(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return check_functions_in_node(node, is_not_built_in, context) ||
		expression_tree_walker(node, sl_shipping_calls_others, context);
}

/* Functions of time always have a value. */
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

/* Does it take values of other tables' rows? */
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

/* Tries it, in a transaction of its own.  Who cancels the statement means all of it. */
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
 * Is it made of constants?  "10 / $1" is not, and whether it fails is not known.  A
 * stable function of the user's may do anything, and is not tried.
 */
static bool
is_known(Node *expression)
{
	return !sl_shipping_has_param(expression, NULL) &&
		!(sl_shipping_calls_others(expression, NULL) && contain_mutable_functions(expression));
}

/* Can it be computed although nobody may want the value? */
bool
sl_ship_is_harmless(Node *expression)
{
	return !can_fail(expression, NULL) ||
		(is_known(expression) && (has_column(expression, NULL) || can_compute(expression)));
}

/* Is it made of constants, and fails? */
bool
sl_ship_fails(Node *expression)
{
	return can_fail(expression, NULL) && is_known(expression) && !sl_ship_is_harmless(expression);
}

static bool
is_true(Node *condition)
{
	Const	   *constant;

	if (!IsA(condition, Const) && !(is_known(condition) && sl_ship_is_harmless(condition)))
		return false;
	constant = (Const *) eval_const_expressions(NULL, condition);
	return IsA(constant, Const) && !constant->constisnull && DatumGetBool(constant->constvalue);
}

/*
 * Is one of these conditions, which all must hold, about no row at all?  If it does
 * not hold, PostgreSQL does not look at the others.
 */
bool
sl_ship_may_stop(const SlShip *ship, List *conditions)
{
	ListCell   *cell;

	foreach(cell, conditions)
	{
		if (sl_ship_is_local(ship, lfirst(cell)) && !is_true(lfirst(cell)))
			return true;
	}
	return false;
}
