/*
 * on_conflict.c
 *		Lets INSERT ... ON CONFLICT of a sharded table through the planner.
 *
 * The planner looks for the index that ON CONFLICT (columns) means, and a
 * foreign table has none.  Without an arbiter it does not look.  So the arbiter
 * is taken away before, and kept as a text in a junk column of the list that
 * describes EXCLUDED: everyone copies that list, nobody reads more of it than it
 * refers to, and the wrapper finds it there when it plans the INSERT.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"

#include "compat.h"
#include "map/table.h"
#include "plan/plan.h"

static bool
has_arbiter(const Query *query)
{
	return query->commandType == CMD_INSERT && query->onConflict != NULL &&
		(query->onConflict->arbiterElems != NIL || OidIsValid(query->onConflict->constraint));
}

static bool
is_ours(const Query *query)
{
	RangeTblEntry *entry = rt_fetch(query->resultRelation, query->rtable);
	SlTable    *table;

	if (entry->relkind != RELKIND_FOREIGN_TABLE)
		return false;
	table = sl_table_get(entry->relid);
	return table != NULL && table->kind != SL_TABLE_REFERENCE;
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

/* INSERTs are on top, and in WITH on top. */
void
sl_on_conflict_hide(Query *query)
{
	ListCell   *cell;

	if (has_arbiter(query) && is_ours(query))
		hide_arbiter(query->onConflict);
	foreach(cell, query->cteList)
	{
		CommonTableExpr *expression = lfirst(cell);

		if (IsA(expression->ctequery, Query))
			sl_on_conflict_hide((Query *) expression->ctequery);
	}
}
