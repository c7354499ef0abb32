/*
 * router_foreign_key_rule.c
 *		Which foreign keys a table of the router may have to a shell table.
 *
 * The router checks them at the end of each statement that passes through it
 * (router_foreign_key_check.c).  It does not see what the shards do by themselves:
 * so actions are refused, both of the foreign key itself and of foreign keys that
 * make the shards delete rows of the shell table, or change what is referred to.
 *
 * The rule holds however a foreign key comes about, so it is applied to each row of
 * pg_constraint that is inserted or updated.  distribute() applies it to those that the table has.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "access/foreign_modify.h"
#include "metadata/router_foreign_key.h"

static object_access_hook_type next_object_access = NULL;

/* Where foreign keys are collected that are to be checked later, or NULL. */
static List **deferred_keys = NULL;

static const FormData_pg_constraint *
get_row(HeapTuple constraint)
{
	return (const FormData_pg_constraint *) GETSTRUCT(constraint);
}

static bool
is_action(char type)
{
	return type != FKCONSTR_ACTION_NOACTION && type != FKCONSTR_ACTION_RESTRICT;
}

/* Does the foreign key make shards delete rows, or change these columns? */
static bool
changes_rows(HeapTuple constraint, const Bitmapset *columns)
{
	const FormData_pg_constraint *row = get_row(constraint);

	if (row->confdeltype == FKCONSTR_ACTION_CASCADE)
		return true;
	return (is_action(row->confdeltype) || is_action(row->confupdtype)) &&
		bms_overlap(columns, sl_router_key_columns(constraint, Anum_pg_constraint_conkey));
}

/* Returns the name of a foreign key of the relation that does so, or NULL. */
static char *
find_changing_key(Oid relid, const Bitmapset *columns)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	char	   *result = NULL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, ConstraintRelidTypidNameIndexId, true, NULL, 1, &key);
	while (result == NULL && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (get_row(tuple)->contype == CONSTRAINT_FOREIGN && changes_rows(tuple, columns))
			result = pstrdup(NameStr(get_row(tuple)->conname));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return result;
}

/*
 * Returns what keeps the router from checking the foreign key, as a sentence, or
 * NULL.
 */
static char *
find_obstacle(HeapTuple constraint)
{
	const FormData_pg_constraint *row = get_row(constraint);
	Bitmapset  *columns = sl_router_key_columns(constraint, Anum_pg_constraint_confkey);
	ListCell   *cell;

	if (is_action(row->confdeltype) || is_action(row->confupdtype))
		return psprintf("Rows of table \"%s\" are on the router, where the shards cannot change them: NO ACTION and RESTRICT are possible.",
						get_rel_name(row->conrelid));
	foreach(cell, find_all_inheritors(row->confrelid, NoLock, NULL))
	{
		char	   *name = find_changing_key(lfirst_oid(cell), columns);

		if (name != NULL)
			return psprintf("Foreign key \"%s\" of table \"%s\" has an action, by which shards change rows without the router.",
							name, get_rel_name(lfirst_oid(cell)));
	}
	return NULL;
}

pg_noreturn static void
refuse_key(const FormData_pg_constraint *row, const char *detail)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("foreign key \"%s\" of table \"%s\" cannot refer to distributed table \"%s\"",
				   NameStr(row->conname), get_rel_name(row->conrelid), get_rel_name(row->confrelid)),
			errdetail_internal("%s", detail),
			errhint("Distribute table \"%s\", too.", get_rel_name(row->conrelid)));
}

static void
report_key(const FormData_pg_constraint *row)
{
	ereport(NOTICE,
			errmsg("foreign key \"%s\" of table \"%s\" is checked by the router",
				   NameStr(row->conname), get_rel_name(row->conrelid)),
			row->condeferrable ?
			errdetail("Table \"%s\" is not distributed.  What is deleted through the router is checked at the end of the statement, also if the foreign key is deferred, and what is deleted on a shard directly is not checked.",
					  get_rel_name(row->conrelid)) :
			errdetail("Table \"%s\" is not distributed.  What is deleted on a shard directly is not checked.",
					  get_rel_name(row->conrelid)),
			errhint("If table \"%s\" is distributed, too, the shards check it, which is faster.",
					get_rel_name(row->conrelid)));
}

/*
 * Can the router check a foreign key of one of its tables, to a table that is to be
 * distributed?  If so, tells the user that it will.
 */
bool
sl_router_key_keep(Oid constraint)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for constraint %u", constraint);
	result = find_obstacle(tuple) == NULL;
	if (result)
		report_key(get_row(tuple));
	ReleaseSysCache(tuple);
	return result;
}

/* A foreign key from a table of the router to a shell table. */
static void
check_incoming(HeapTuple constraint, bool is_new)
{
	char	   *obstacle = find_obstacle(constraint);

	if (obstacle != NULL)
		refuse_key(get_row(constraint), obstacle);
	if (is_new)
		report_key(get_row(constraint));
}

/* A foreign key of a shell table, to which tables of the router may refer. */
static void
check_outgoing(HeapTuple constraint)
{
	const FormData_pg_constraint *row = get_row(constraint);
	Relation	relation = table_open(row->conrelid, NoLock);

	if (sl_router_key_exists(relation) && changes_rows(constraint, sl_router_key_referenced(relation)))
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("foreign key \"%s\" of table \"%s\" cannot have an action",
					   NameStr(row->conname), RelationGetRelationName(relation)),
				errdetail("Foreign keys of tables that are not distributed refer to the table, and are checked by the router, while shards would change rows without it."),
				errhint("Distribute these tables, too."));
	table_close(relation, NoLock);
}

static void
check_foreign_key(HeapTuple constraint, bool is_new)
{
	const FormData_pg_constraint *row = get_row(constraint);

	if (row->contype != CONSTRAINT_FOREIGN || OidIsValid(row->conparentid))
		return;
	if (sl_table_is_remote(row->conrelid, get_rel_relkind(row->conrelid)))
		check_outgoing(constraint);
	else if (sl_table_is_remote(row->confrelid, get_rel_relkind(row->confrelid)))
		check_incoming(constraint, is_new);
}

/* The row may have been inserted or updated just now, before the command counter was incremented. */
static void
check_constraint(Oid constraint, bool is_new)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(constraint));
	scan = systable_beginscan(catalog, ConstraintOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		check_foreign_key(tuple, is_new);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/*
 * Has foreign keys collected, while a table is created that may be distributed right
 * after, instead of being checked; NULL ends that.  Returns what was set
 * before.  The list is in TopTransactionContext.
 */
List **
sl_router_key_defer(List **constraints)
{
	List	  **outer = deferred_keys;

	deferred_keys = constraints;
	return outer;
}

static void
add_deferred(Oid constraint)
{
	MemoryContext old_context = MemoryContextSwitchTo(TopTransactionContext);

	*deferred_keys = list_append_unique_oid(*deferred_keys, constraint);
	MemoryContextSwitchTo(old_context);
}

/* Checks collected foreign keys, of a table that remains on the router. */
void
sl_router_key_check(List *constraints)
{
	ListCell   *cell;

	foreach(cell, constraints)
		check_constraint(lfirst_oid(cell), true);
}

static void
watch_constraints(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (next_object_access != NULL)
		next_object_access(access, class_id, object_id, sub_id, arg);
	if (class_id != ConstraintRelationId || (access != OAT_POST_CREATE && access != OAT_POST_ALTER))
		return;
	if (deferred_keys != NULL)
		add_deferred(object_id);
	else
		check_constraint(object_id, access == OAT_POST_CREATE);
}

void
sl_router_key_rule_init(void)
{
	next_object_access = object_access_hook;
	object_access_hook = watch_constraints;
}
