/*
 * conflict.c
 *		ON CONFLICT of an INSERT, as the shards get it.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "fdw/modify.h"

void
sl_conflict_plan(PlannerInfo *root, ModifyTable *plan, Relation relation, SlConflict *conflict)
{
	if (plan->onConflictAction == ONCONFLICT_NOTHING)
	{
		conflict->clause = " ON CONFLICT DO NOTHING";
		return;
	}
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("ON CONFLICT DO UPDATE is not supported for table \"%s\"",
				   RelationGetRelationName(relation)));
}

/* Types of the parameters, as OIDs. */
List *
sl_conflict_types(List *params)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, params)
		result = lappend_oid(result, exprType(lfirst(cell)));
	return result;
}

/* Computes the parameters, as text; the memory is of the current context. */
const char **
sl_conflict_values(List *states, List *types, ExprContext *context)
{
	int			count = list_length(states);
	Datum	   *values = palloc(sizeof(Datum) * Max(count, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(count, 1));
	const char **result = palloc0(sizeof(char *) * Max(count, 1));
	int			nest_level;

	for (int i = 0; i < count; i++)
		values[i] = ExecEvalExprSwitchContext(list_nth(states, i), context, &nulls[i]);

	/* They are computed with the session's settings, and written without. */
	nest_level = sl_map_begin_plain_output();
	for (int i = 0; i < count; i++)
	{
		Oid			function;
		bool		is_varlena;

		getTypeOutputInfo(list_nth_oid(types, i), &function, &is_varlena);
		result[i] = nulls[i] ? NULL : OidOutputFunctionCall(function, values[i]);
	}
	sl_map_end_plain_output(nest_level);
	return result;
}
