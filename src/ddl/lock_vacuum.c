/*
 * lock_vacuum.c
 *		LOCK TABLE and VACUUM, which PostgreSQL does not do on foreign tables.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"

static const char *const mode_names[] = {
	[AccessShareLock] = "ACCESS SHARE",
	[RowShareLock] = "ROW SHARE",
	[RowExclusiveLock] = "ROW EXCLUSIVE",
	[ShareUpdateExclusiveLock] = "SHARE UPDATE EXCLUSIVE",
	[ShareLock] = "SHARE",
	[ShareRowExclusiveLock] = "SHARE ROW EXCLUSIVE",
	[ExclusiveLock] = "EXCLUSIVE",
	[AccessExclusiveLock] = "ACCESS EXCLUSIVE",
};

/*
 * As in PostgreSQL: the right to write allows any lock, and the right to read only
 * one that does not block writers.
 */
static void
check_lock_privilege(const RangeVar *relation, Oid relid, Oid old_relid, void *arg)
{
	LOCKMODE	mode = *(const LOCKMODE *) arg;
	AclMode		wanted = ACL_UPDATE | ACL_DELETE | ACL_TRUNCATE;
	AclResult	result;

	if (!OidIsValid(relid))
		return;
	if (mode <= RowExclusiveLock)
		wanted |= ACL_INSERT;
	if (mode == AccessShareLock)
		wanted |= ACL_SELECT;
	result = pg_class_aclcheck(relid, GetUserId(), wanted);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relid)), relation->relname);
}

static void
lock_on_shards(SlDdl *ddl, const LockStmt *statement, List *tables)
{
	ListCell   *cell;
	ListCell   *table_cell;

	foreach(cell, sl_ddl_groups(tables))
	{
		SlDdlGroup *group = lfirst(cell);
		StringInfoData sql;

		initStringInfo(&sql);
		foreach(table_cell, group->tables)
			appendStringInfo(&sql, "%s%s", sql.len > 0 ? ", " : "LOCK TABLE ",
							 sl_ddl_name(((SlTable *) lfirst(table_cell))->relid));
		appendStringInfo(&sql, " IN %s MODE%s", mode_names[statement->mode],
						 statement->nowait ? " NOWAIT" : "");
		sl_ddl_add_step(ddl, group->shards, sql.data);
	}
}

bool
sl_ddl_plan_lock(SlDdl *ddl)
{
	LockStmt   *statement = castNode(LockStmt, ddl->node);
	LOCKMODE	mode = statement->mode;
	List	   *tables = NIL;
	List	   *others = NIL;
	ListCell   *cell;

	foreach(cell, statement->relations)
	{
		SlTable    *table = sl_ddl_table(lfirst(cell));

		if (table != NULL)
			tables = lappend(tables, table);
		if (table == NULL || !sl_ddl_is_foreign(table))
			others = lappend(others, lfirst(cell));
	}
	if (tables == NIL)
		return false;
	RequireTransactionBlock(ddl->is_top_level, "LOCK TABLE");
	foreach(cell, statement->relations)
	{
		if (!list_member_ptr(others, lfirst(cell)))
			(void) RangeVarGetRelidExtended(lfirst(cell), mode, statement->nowait ? RVR_NOWAIT : 0,
											check_lock_privilege, &mode);
	}
	if (others != NIL)
	{
		LockStmt   *copy = copyObject(statement);

		copy->relations = others;
		sl_ddl_run_on_router(ddl, copy);
	}
	lock_on_shards(ddl, statement, tables);
	return true;
}

static bool
has_option(const VacuumStmt *statement, const char *name)
{
	ListCell   *cell;

	foreach(cell, statement->options)
	{
		DefElem    *option = lfirst(cell);

		if (strcmp(option->defname, name) == 0)
			return defGetBoolean(option);
	}
	return false;
}

static char *
vacuum_text(const VacuumStmt *statement, const SlTable *table, const VacuumRelation *target)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "VACUUM ");
	foreach(cell, statement->options)
	{
		DefElem    *option = lfirst(cell);

		appendStringInfo(&sql, "%s%s", cell == list_head(statement->options) ? "(" : ", ",
						 quote_identifier(option->defname));
		if (option->arg != NULL)
			appendStringInfo(&sql, " %s", defGetString(option));
	}
	if (statement->options != NIL)
		appendStringInfoString(&sql, ") ");
	appendStringInfoString(&sql, sl_ddl_name(table->relid));
	foreach(cell, target->va_cols)
		appendStringInfo(&sql, "%s%s", cell == list_head(target->va_cols) ? " (" : ", ",
						 quote_identifier(strVal(lfirst(cell))));
	if (target->va_cols != NIL)
		appendStringInfoChar(&sql, ')');
	return sql.data;
}

/* PostgreSQL skips what is not the user's, with a warning. */
static bool
may_vacuum(const SlTable *table)
{
	if (sl_relation_ownercheck(table->relid, GetUserId()))
		return true;
	ereport(WARNING,
			errmsg("permission denied to vacuum \"%s\", skipping it", get_rel_name(table->relid)));
	return false;
}

static void
vacuum_on_router(SlDdl *ddl, const VacuumStmt *statement, List *targets, bool is_vacuum)
{
	VacuumStmt *copy;

	if (targets == NIL)
		return;
	copy = copyObject((VacuumStmt *) statement);
	copy->rels = copyObject(targets);
	copy->is_vacuumcmd = is_vacuum;
	if (!is_vacuum)
		copy->options = NIL;
	sl_ddl_run_on_router(ddl, copy);
}

/*
 * The shards vacuum, each for itself; of a foreign table there is nothing to
 * vacuum here, but ANALYZE fetches its statistics.
 */
bool
sl_ddl_plan_vacuum(SlDdl *ddl)
{
	VacuumStmt *statement = castNode(VacuumStmt, ddl->node);
	List	   *others = NIL;
	List	   *foreign = NIL;
	bool		is_distributed = false;
	ListCell   *cell;

	if (!statement->is_vacuumcmd)
		return false;
	foreach(cell, statement->rels)
	{
		VacuumRelation *target = lfirst(cell);
		SlTable    *table = sl_ddl_table(target->relation);

		is_distributed |= table != NULL;
		if (table == NULL || !sl_ddl_is_foreign(table))
			others = lappend(others, target);
		if (table == NULL || !may_vacuum(table))
			continue;
		if (sl_ddl_is_foreign(table))
			foreign = lappend(foreign, target);
		sl_ddl_add_step(ddl, sl_table_homes(table), vacuum_text(statement, table, target));
	}
	if (!is_distributed)
		return false;
	PreventInTransactionBlock(ddl->is_top_level, "VACUUM");
	ddl->is_separate = true;
	if (has_option(statement, "analyze"))
		vacuum_on_router(ddl, statement, foreign, false);
	vacuum_on_router(ddl, statement, others, true);
	return true;
}
