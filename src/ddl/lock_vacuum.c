/*
 * lock_vacuum.c
 *		LOCK TABLE and VACUUM, on the router and on the shards.
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
	List	   *tables = NIL;
	ListCell   *cell;

	foreach(cell, statement->relations)
	{
		SlTable    *table = sl_ddl_table(lfirst(cell));

		if (table != NULL)
			tables = lappend(tables, table);
	}
	if (tables == NIL)
		return false;
	RequireTransactionBlock(ddl->is_top_level, "LOCK TABLE");
	sl_ddl_run_on_router(ddl, statement);
	lock_on_shards(ddl, statement, tables);
	return true;
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

/* The shards vacuum, each for itself; ANALYZE of the router fetches statistics. */
bool
sl_ddl_plan_vacuum(SlDdl *ddl)
{
	VacuumStmt *statement = castNode(VacuumStmt, ddl->node);
	bool		is_distributed = false;
	ListCell   *cell;

	if (!statement->is_vacuumcmd)
		return false;
	foreach(cell, statement->rels)
	{
		VacuumRelation *target = lfirst(cell);
		SlTable    *table = sl_ddl_table(target->relation);

		is_distributed |= table != NULL;
		if (table != NULL && sl_relation_ownercheck(table->relid, GetUserId()))
			sl_ddl_add_step(ddl, sl_table_homes(table), vacuum_text(statement, table, target));
	}
	if (!is_distributed)
		return false;
	PreventInTransactionBlock(ddl->is_top_level, "VACUUM");
	ddl->is_separate = true;
	sl_ddl_run_on_router(ddl, statement);
	return true;
}
