/*
 * router_foreign_key.c
 *		Foreign keys to a shell table from tables whose rows are on the router.
 *
 * PostgreSQL checks the referring side: its trigger on the table of the router
 * queries the shell table, and so the shards.  The shards do not know of the foreign
 * key, so a statement that deletes referenced rows, or changes their key, has to
 * leave them on the router's side of the executor, where they are checked
 * (access/router_foreign_key_check.c).
 *
 * The foreign keys are found by PostgreSQL's triggers on the shell table, which the
 * relation cache has.  Creating or dropping a foreign key invalidates the entry, and
 * plans that depend on it.  Whether the referring table is distributed is looked up
 * each time: it may become so later.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "metadata/router_foreign_key.h"
#include "metadata/table.h"

/* Is this the trigger of a foreign key from a table of the router? */
bool
sl_router_key_is_trigger(const Trigger *trigger)
{
	return RI_FKey_trigger_type(trigger->tgfoid) == RI_TRIGGER_PK && OidIsValid(trigger->tgconstrrelid) &&
		!sl_table_is_remote(trigger->tgconstrrelid, get_rel_relkind(trigger->tgconstrrelid));
}

/* Has the shell table such a foreign key?  The caller has opened the relation. */
bool
sl_router_key_exists(Relation relation)
{
	const TriggerDesc *triggers = relation->trigdesc;

	if (triggers == NULL)
		return false;
	for (int i = 0; i < triggers->numtriggers; i++)
	{
		if (sl_router_key_is_trigger(&triggers->triggers[i]))
			return true;
	}
	return false;
}

/*
 * Returns one of the column lists of a foreign key, a row of pg_constraint:
 * Anum_pg_constraint_conkey or Anum_pg_constraint_confkey.
 */
Bitmapset *
sl_router_key_columns(HeapTuple constraint, AttrNumber list)
{
	bool		is_null;
	Datum		value = SysCacheGetAttr(CONSTROID, constraint, list, &is_null);
	Bitmapset  *result = NULL;
	Datum	   *numbers;
	int			count;

	if (is_null)
		elog(ERROR, "foreign key has no columns");
	deconstruct_array(DatumGetArrayTypeP(value), INT2OID, sizeof(int16), true, TYPALIGN_SHORT,
					  &numbers, NULL, &count);
	for (int i = 0; i < count; i++)
		result = bms_add_member(result, DatumGetInt16(numbers[i]));
	return result;
}

static Bitmapset *
referenced_columns(Oid constraint)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	Bitmapset  *result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for constraint %u", constraint);
	result = sl_router_key_columns(tuple, Anum_pg_constraint_confkey);
	ReleaseSysCache(tuple);
	return result;
}

/* Returns the columns that tables of the router refer to: attribute numbers. */
Bitmapset *
sl_router_key_referenced(Relation relation)
{
	const TriggerDesc *triggers = relation->trigdesc;
	Bitmapset  *result = NULL;

	if (!sl_router_key_exists(relation))
		return NULL;
	for (int i = 0; i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (sl_router_key_is_trigger(trigger))
			result = bms_add_members(result, referenced_columns(trigger->tgconstraint));
	}
	return result;
}

/*
 * May an assignment of these columns, an IntList, change referenced ones?  Generated
 * columns may change with any other.
 */
bool
sl_router_key_is_assigned(Relation relation, List *assigned)
{
	TupleDesc	columns = RelationGetDescr(relation);
	Bitmapset  *referenced = sl_router_key_referenced(relation);
	int			column = 0;

	while ((column = bms_next_member(referenced, column)) > 0)
	{
		if (TupleDescAttr(columns, column - 1)->attgenerated != '\0' || list_member_int(assigned, column))
			return true;
	}
	return false;
}

static List *
list_assigned(List *targets)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, targets)
	{
		const TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (!entry->resjunk)
			result = lappend_int(result, entry->resno);
	}
	return result;
}

/*
 * Must the router check foreign keys of its tables after the statement, whose target
 * is the relation?  The planner has not changed the query yet.
 */
bool
sl_router_key_is_checked(Relation relation, const Query *query)
{
	if (query->commandType == CMD_SELECT || !sl_router_key_exists(relation))
		return false;
	if (query->commandType == CMD_INSERT)
		return query->onConflict != NULL && query->onConflict->action == ONCONFLICT_UPDATE &&
			sl_router_key_is_assigned(relation, list_assigned(query->onConflict->onConflictSet));
	return query->commandType != CMD_UPDATE ||
		sl_router_key_is_assigned(relation, list_assigned(query->targetList));
}
