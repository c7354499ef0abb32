/*
 * modify_plan.c
 *		Plans INSERT, UPDATE and DELETE of tables whose rows live on shards.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "commands/explain.h"
#include "nodes/makefuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "compat.h"
#include "fdw/modify.h"

static void
add_junk(PlannerInfo *root, Index index, AttrNumber column, Oid type, const char *name)
{
	add_row_identity_var(root, makeVar(index, column, type, -1, InvalidOid, 0), index, name);
}

/*
 * Rows say where they are in system columns that have no other use here: cmin
 * is the shard's id, xmin the OID that the row's table has there.
 */
void
sl_modify_add_targets(PlannerInfo *root, Index index, RangeTblEntry *entry, Relation relation)
{
	add_junk(root, index, SelfItemPointerAttributeNumber, TIDOID, SL_JUNK_CTID);
	add_junk(root, index, MinCommandIdAttributeNumber, CIDOID, SL_JUNK_SHARD);
	add_junk(root, index, MinTransactionIdAttributeNumber, XIDOID, SL_JUNK_TABLE);
}

/* From offset column numbers to a list; a whole-row reference is all columns. */
static List *
list_columns(Relation relation, Bitmapset *numbers)
{
	TupleDesc	descriptor = RelationGetDescr(relation);
	bool		all = bms_is_member(-FirstLowInvalidHeapAttributeNumber, numbers);
	List	   *result = NIL;

	for (int i = 1; i <= descriptor->natts; i++)
	{
		if (!TupleDescAttr(descriptor, i - 1)->attisdropped &&
			(all || bms_is_member(i - FirstLowInvalidHeapAttributeNumber, numbers)))
			result = lappend_int(result, i);
	}
	return result;
}

static bool
fires_after(const TriggerDesc *triggers, CmdType operation)
{
	if (triggers == NULL)
		return false;
	return operation == CMD_INSERT ? triggers->trig_insert_after_row :
		operation == CMD_UPDATE ? triggers->trig_update_after_row :
		triggers->trig_delete_after_row;
}

/* The columns whose values are needed as the shard has them in the end. */
static List *
find_returning(PlannerInfo *root, ModifyTable *plan, Index index, int subplan, Relation relation)
{
	Bitmapset  *numbers = NULL;

	if (fires_after(relation->trigdesc, plan->operation))
		numbers = bms_make_singleton(-FirstLowInvalidHeapAttributeNumber);
	if (plan->returningLists != NIL)
		pull_varattnos((Node *) list_nth(plan->returningLists, subplan), index, &numbers);
	if (plan->withCheckOptionLists != NIL)
		pull_varattnos((Node *) list_nth(plan->withCheckOptionLists, subplan), index, &numbers);
	return list_columns(relation, numbers);
}

/* Generated columns are computed on the shard. */
static List *
find_updated(const ModifyTable *plan, int subplan, Relation relation)
{
	List	   *writable = sl_copy_row_columns(RelationGetDescr(relation));

	/* A trigger may change any column. */
	if (relation->trigdesc != NULL && relation->trigdesc->trig_update_before_row)
		return writable;
	return list_intersection_int(writable, list_nth(plan->updateColnosLists, subplan));
}

/* Returns the private list, see SL_MODIFY_COLUMNS and on. */
List *
sl_modify_plan(PlannerInfo *root, ModifyTable *plan, Index index, int subplan)
{
	RangeTblEntry *entry = planner_rt_fetch(index, root);
	Relation	relation = table_open(entry->relid, NoLock);
	List	   *columns = NIL;
	List	   *returning = find_returning(root, plan, index, subplan, relation);
	SlConflict	conflict = {.clause = ""};

	if (plan->operation == CMD_UPDATE)
		columns = find_updated(plan, subplan, relation);
	if (plan->operation == CMD_INSERT && plan->onConflictAction != ONCONFLICT_NONE)
		sl_conflict_plan(root, plan, relation, &conflict);
	table_close(relation, NoLock);
	/* cppcheck-suppress unknownEvaluationOrder */
	return list_make5(columns, returning, makeString(pstrdup(conflict.clause)), conflict.params,
					  makeInteger(conflict.updates));
}

/* EXPLAIN VERBOSE shows what a shard gets. */
void
sl_modify_explain(ModifyTableState *state, ResultRelInfo *info, List *private, int subplan,
				  ExplainState *es)
{
	Relation	relation = info->ri_RelationDesc;
	List	   *returning = list_nth(private, SL_MODIFY_RETURNING);
	const char *conflict = strVal(list_nth(private, SL_MODIFY_CONFLICT));
	char	   *sql;

	if (!es->verbose)
		return;
	if (state->operation == CMD_INSERT)
		sql = sl_write_insert(relation, sl_copy_row_columns(RelationGetDescr(relation)),
							  conflict[0] != '\0' ? conflict : NULL, returning);
	else if (state->operation == CMD_UPDATE)
		sql = sl_write_update(relation, list_nth(private, SL_MODIFY_COLUMNS), returning);
	else
		sql = sl_write_delete(relation, returning);
	ExplainPropertyText("Remote SQL", sql, es);
}
