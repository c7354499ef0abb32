/*
 * modify_plan.c
 *		Plans INSERT, UPDATE and DELETE of distributed tables.
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
#include "optimizer/plancat.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "access/access.h"
#include "access/foreign_modify.h"
#include "compat.h"
#include "metadata/router_foreign_key.h"

static get_relation_info_hook_type previous_relation_info = NULL;

/* Row identity -------------------------------------------------------------------- */

static bool
has_junk(const PlannerInfo *root, const char *name)
{
	ListCell   *cell;

	foreach(cell, root->processed_tlist)
	{
		const TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (entry->resjunk && entry->resname != NULL && strcmp(entry->resname, name) == 0)
			return true;
	}
	return false;
}

static void
add_junk(PlannerInfo *root, Index index, AttrNumber column, Oid type, const char *name)
{
	if (!has_junk(root, name))
		add_row_identity_var(root, makeVar(index, column, type, -1, InvalidOid, 0), index, name);
}

/*
 * The location of a row is in system columns that have no other use on the
 * router: cmin is the shard's id, xmin the OID of the row's table there.
 */
static void
add_location(PlannerInfo *root, Index index)
{
	add_junk(root, index, SelfItemPointerAttributeNumber, TIDOID, SL_JUNK_CTID);
	add_junk(root, index, MinCommandIdAttributeNumber, CIDOID, SL_JUNK_SHARD);
	add_junk(root, index, MinTransactionIdAttributeNumber, XIDOID, SL_JUNK_TABLE);
}

/* A DELETE needs the columns that foreign keys of the router refer to. */
static void
add_referenced(PlannerInfo *root, Index index, Oid relid)
{
	Relation	relation = table_open(relid, NoLock);
	Bitmapset  *referenced = sl_router_key_referenced(relation);

	for (int column = 1; column <= RelationGetNumberOfAttributes(relation); column++)
	{
		Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(relation), column - 1);
		char	   *name = psprintf(SL_JUNK_REFERENCED, column);

		if (bms_is_member(column, referenced) && !has_junk(root, name))
			add_row_identity_var(root, makeVar(index, (AttrNumber) column, attribute->atttypid, attribute->atttypmod,
											   attribute->attcollation, 0), index, name);
	}
	table_close(relation, NoLock);
}

/*
 * Adds the columns that identify the rows of an UPDATE or DELETE.  Which ones
 * PostgreSQL has added depends on the relation's kind; this hook, which runs
 * before the target list is assigned to base relations, adds the rest for
 * every kind.
 */
static void
add_row_identity(PlannerInfo *root, Oid relid, bool is_parent, RelOptInfo *rel)
{
	const Query *query = root->parse;
	Index		index = rel->relid;
	RangeTblEntry *entry;

	if (previous_relation_info != NULL)
		previous_relation_info(root, relid, is_parent, rel);
	if ((query->commandType != CMD_UPDATE && query->commandType != CMD_DELETE) ||
		(int) index != query->resultRelation || is_parent)
		return;
	entry = planner_rt_fetch(index, root);
	if (!sl_table_is_remote(relid, entry->relkind))
		return;
	add_location(root, index);
	if (query->commandType == CMD_DELETE)
		add_referenced(root, index, relid);
	else if (!has_junk(root, SL_JUNK_WHOLE_ROW))
		add_row_identity_var(root, makeWholeRowVar(entry, (int) index, 0, false), index, SL_JUNK_WHOLE_ROW);
}

/* For a child of the target; add_row_identity() is for the target itself. */
void
sl_modify_add_targets(PlannerInfo *root, Index index, RangeTblEntry *entry, Relation relation)
{
	if ((int) index != root->parse->resultRelation)
		add_location(root, index);
}

/* Columns ------------------------------------------------------------------------- */

/*
 * Converts offset attribute numbers to a list; a whole-row reference is all
 * columns.
 */
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

/* Can a trigger change the rows that are written?  Those of shell tables fire on the shards. */
bool
sl_modify_has_row_trigger(Relation relation, CmdType operation)
{
	const TriggerDesc *triggers = relation->trigdesc;

	return triggers != NULL &&
		(operation == CMD_INSERT ? triggers->trig_insert_before_row : triggers->trig_update_before_row);
}

/*
 * Returns the checks that apply to rows as the shards wrote them: those of views, and those
 * of policies if a trigger may have changed the row after the check of the row
 * that was sent.
 */
List *
sl_modify_late_checks(const ModifyTable *plan, int subplan, Relation relation)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, plan->withCheckOptionLists != NIL ? list_nth(plan->withCheckOptionLists, subplan) : NIL)
	{
		if (lfirst_node(WithCheckOption, cell)->kind == WCO_VIEW_CHECK ||
			sl_modify_has_row_trigger(relation, plan->operation))
			result = lappend(result, lfirst(cell));
	}
	return result;
}

/* Returns the columns whose final values are needed from the shard. */
static List *
find_returning(PlannerInfo *root, ModifyTable *plan, Index index, int subplan, Relation relation)
{
	Bitmapset  *numbers = NULL;

	if (plan->returningLists != NIL)
		pull_varattnos((Node *) list_nth(plan->returningLists, subplan), index, &numbers);
	pull_varattnos((Node *) sl_modify_late_checks(plan, subplan, relation), index, &numbers);
	return list_columns(relation, numbers);
}

/* Generated columns are computed on the shard. */
static List *
find_updated(const ModifyTable *plan, int subplan, Relation relation)
{
	List	   *writable = sl_copy_row_columns(RelationGetDescr(relation));

	return list_intersection_int(writable, list_nth(plan->updateColnosLists, subplan));
}

/*
 * Can the shards modify the rows of a shell table with one statement?  PostgreSQL
 * does not ask for that if the table has triggers for rows, those of foreign keys
 * included; but they fire on the shards.
 */
static bool
plan_direct(PlannerInfo *root, ModifyTable *plan, Index index, int subplan, Relation relation)
{
	const TupleConstr *constraints = RelationGetDescr(relation)->constr;

	return relation->trigdesc != NULL && plan->operation != CMD_INSERT && plan->withCheckOptionLists == NIL &&
		!(constraints != NULL && constraints->has_generated_stored) &&
		!sl_router_key_is_checked(relation, root->parse) &&
		sl_fdw_plan_direct(root, plan, index, subplan);
}

/*
 * Returns fdw_private, see SL_MODIFY_COLUMNS and on; of a direct modification, a
 * list of one element.
 */
List *
sl_modify_plan(PlannerInfo *root, ModifyTable *plan, Index index, int subplan)
{
	RangeTblEntry *entry = planner_rt_fetch(index, root);
	Relation	relation = table_open(entry->relid, NoLock);
	List	   *columns = NIL;
	List	   *returning = find_returning(root, plan, index, subplan, relation);
	SlConflict	conflict = {.clause = ""};

	if (plan_direct(root, plan, index, subplan, relation))
	{
		table_close(relation, NoLock);
		return list_make1(makeInteger(1));
	}
	if (plan->operation == CMD_UPDATE)
		columns = find_updated(plan, subplan, relation);
	if (plan->operation == CMD_INSERT && plan->onConflictAction != ONCONFLICT_NONE)
		sl_conflict_plan(root, plan, relation, &conflict);
	table_close(relation, NoLock);
	return list_make5(columns, returning, makeString(pstrdup(conflict.clause)), conflict.params,
					  makeInteger(conflict.updates));
}

/* EXPLAIN VERBOSE shows what a shard gets. */
void
sl_modify_explain(CmdType operation, Relation relation, List *private, ExplainState *es)
{
	List	   *returning = list_nth(private, SL_MODIFY_RETURNING);
	const char *conflict = strVal(list_nth(private, SL_MODIFY_CONFLICT));
	char	   *sql;

	if (!es->verbose)
		return;
	if (operation == CMD_INSERT)
		sql = sl_write_insert(relation, sl_copy_row_columns(RelationGetDescr(relation)),
							  conflict[0] != '\0' ? conflict : NULL, returning);
	else if (operation == CMD_UPDATE)
		sql = sl_write_update(relation, list_nth(private, SL_MODIFY_COLUMNS), returning);
	else
		sql = sl_write_delete(relation, returning);
	ExplainPropertyText("Remote SQL", sql, es);
}

void
sl_modify_plan_init(void)
{
	previous_relation_info = get_relation_info_hook;
	get_relation_info_hook = add_row_identity;
}
