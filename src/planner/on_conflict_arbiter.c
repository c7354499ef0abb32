/*
 * on_conflict_arbiter.c
 *		Hides the arbiter of INSERT ... ON CONFLICT on a sharded table from
 *		the planner.
 *
 * infer_arbiter_indexes() looks for the index that ON CONFLICT (columns)
 * means, and raises an error because a foreign table has none; without an
 * arbiter it does nothing.  So the arbiter is removed before planning, and
 * stored as a string constant in a junk entry of the target list that
 * describes EXCLUDED: that list is copied through planning, entries that
 * nothing refers to are ignored, and PlanForeignModify finds it there.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"

#include "compat.h"
#include "metadata/table.h"
#include "planner/planner.h"

static bool
has_arbiter(const Query *query)
{
	return query->commandType == CMD_INSERT && query->onConflict != NULL &&
		(query->onConflict->arbiterElems != NIL || OidIsValid(query->onConflict->constraint));
}

static bool
is_distributed_target(const Query *query)
{
	const RangeTblEntry *entry = rt_fetch(query->resultRelation, query->rtable);

	return entry->relkind == RELKIND_FOREIGN_TABLE && sl_table_is_remote(entry->relid, entry->relkind);
}

static void
hide_arbiter(OnConflictExpr *conflict)
{
	OnConflictExpr *arbiter = makeNode(OnConflictExpr);
	Const	   *kept;

	arbiter->action = conflict->action;
	arbiter->arbiterElems = conflict->arbiterElems;
	arbiter->arbiterWhere = conflict->arbiterWhere;
	arbiter->constraint = conflict->constraint;
	kept = makeConst(TEXTOID, -1, InvalidOid, -1, CStringGetTextDatum(nodeToString(arbiter)),
					 false, false);
	conflict->exclRelTlist = lappend(conflict->exclRelTlist,
									 makeTargetEntry((Expr *) kept,
													 list_length(conflict->exclRelTlist) + 1,
													 SL_ARBITER_NAME, true));
	conflict->arbiterElems = NIL;
	conflict->arbiterWhere = NULL;
	conflict->constraint = InvalidOid;
}

/*
 * INSERT is possible at the top level, and in a WITH clause of the top level.
 */
void
sl_on_conflict_hide(Query *query)
{
	ListCell   *cell;

	if (has_arbiter(query) && is_distributed_target(query))
		hide_arbiter(query->onConflict);
	foreach(cell, query->cteList)
	{
		CommonTableExpr *expression = lfirst(cell);

		if (IsA(expression->ctequery, Query))
			sl_on_conflict_hide((Query *) expression->ctequery);
	}
}
