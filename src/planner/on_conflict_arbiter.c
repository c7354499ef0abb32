/*
 * on_conflict_arbiter.c
 *		ON CONFLICT on sharded tables: refuses what no shard can tell, and hides
 *		the arbiter from the planner.
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
#include "utils/lsyscache.h"

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
 * Rows of a spread map go to the shards in turn, so a row that conflicts with a new one
 * may be on any shard.
 */
static void
refuse_spread(const Query *query)
{
	const RangeTblEntry *entry = rt_fetch(query->resultRelation, query->rtable);
	const SlTable *table = sl_table_is_remote(entry->relid, entry->relkind) ? sl_table_get(entry->relid) : NULL;

	if (table == NULL || table->kind != SL_TABLE_SHARDED || table->key_count > 0 || !table->is_local_unique)
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("ON CONFLICT is not supported for table \"%s\"", get_rel_name(entry->relid)),
			errdetail("Its map \"%s\" spreads rows over the shards, and each shard sees its own rows only.", table->map),
			errhint("Make values that are unique over all shards, as shardlet.next_id() does, and leave ON CONFLICT out."));
}

/* Raises an error if no shard can tell which rows of an INSERT conflict. */
void
sl_on_conflict_check(Query *query)
{
	ListCell   *cell;

	if (query->commandType == CMD_INSERT && query->onConflict != NULL)
		refuse_spread(query);
	foreach(cell, query->hasModifyingCTE ? query->cteList : NIL)
		sl_on_conflict_check(castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery));
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
