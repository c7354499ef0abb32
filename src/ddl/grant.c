/*
 * grant.c
 *		GRANT and REVOKE on tables.
 *
 * Roles belong to a server, and a shard's need not be the router's.  A role
 * that a shard lacks is left out there, with a notice.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"

static List *
tables_in_schema(const char *schema)
{
	Oid			oid = get_namespace_oid(schema, true);
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_ddl_all_tables())
	{
		SlTable    *table = lfirst(cell);

		if (get_rel_namespace(table->relid) == oid)
			result = lappend(result, table);
	}
	return result;
}

/* Returns the distributed tables that a GRANT concerns. */
static List *
granted_tables(const GrantStmt *statement)
{
	List	   *result = NIL;
	ListCell   *cell;

	if (statement->objtype != OBJECT_TABLE)
		return NIL;
	foreach(cell, statement->objects)
	{
		SlTable    *table = NULL;

		if (statement->targtype == ACL_TARGET_ALL_IN_SCHEMA)
			result = list_concat(result, tables_in_schema(strVal(lfirst(cell))));
		else if (statement->targtype == ACL_TARGET_OBJECT)
			table = sl_ddl_table(lfirst(cell));
		if (table != NULL)
			result = lappend(result, table);
	}
	return result;
}

static void
write_columns(StringInfo sql, const List *columns)
{
	ListCell   *cell;

	foreach(cell, columns)
		appendStringInfo(sql, "%s%s", cell == list_head(columns) ? " (" : ", ",
						 quote_identifier(strVal(lfirst(cell))));
	if (columns != NIL)
		appendStringInfoChar(sql, ')');
}

static char *
privileges_text(const GrantStmt *statement)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	if (statement->privileges == NIL)
		appendStringInfoString(&sql, "ALL");
	foreach(cell, statement->privileges)
	{
		AccessPriv *privilege = lfirst(cell);

		/* The parser leaves these words as they are. */
		appendStringInfo(&sql, "%s%s", sql.len > 0 ? ", " : "",
						 privilege->priv_name != NULL ? privilege->priv_name : "ALL");
		write_columns(&sql, privilege->cols);
	}
	return sql.data;
}

static char *
grant_text(const GrantStmt *statement, const List *tables, const char *role)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	appendStringInfo(&sql, "%s%s%s ON TABLE ", statement->is_grant ? "GRANT " : "REVOKE ",
					 !statement->is_grant && statement->grant_option ? "GRANT OPTION FOR " : "",
					 privileges_text(statement));
	foreach(cell, tables)
		appendStringInfo(&sql, "%s%s", cell == list_head(tables) ? "" : ", ",
						 sl_ddl_name(((SlTable *) lfirst(cell))->relid));
	appendStringInfo(&sql, "%s%s", statement->is_grant ? " TO " : " FROM ", role);
	if (statement->is_grant && statement->grant_option)
		appendStringInfoString(&sql, " WITH GRANT OPTION");
	if (!statement->is_grant && statement->behavior == DROP_CASCADE)
		appendStringInfoString(&sql, " CASCADE");
	return sql.data;
}

static List *
intersect_shards(const List *a, const List *b)
{
	return list_difference_ptr(a, list_difference_ptr(a, b));
}

/* Shards that are offline have to say later whether they have the role, and the table. */
static void
grant_later(SlDdl *ddl, const GrantStmt *statement, const char *role)
{
	ListCell   *cell;

	foreach(cell, ddl->state)
	{
		const SlTable *table = lfirst(cell);

		sl_ddl_add_step_if(ddl, intersect_shards(sl_table_homes(table), ddl->offline),
						   grant_text(statement, list_make1(unconstify(SlTable *, table)),
									  role != NULL ? quote_identifier(role) : "PUBLIC"),
						   sl_ddl_role_condition(role, table));
	}
}

/* Shards are queried for roles only when the statement was allowed on the router. */
static void
finish_grant(SlDdl *ddl)
{
	GrantStmt  *statement = (GrantStmt *) ddl->node;
	List	   *groups = sl_ddl_groups(ddl->state);
	ListCell   *cell;
	ListCell   *group_cell;

	foreach(cell, statement->grantees)
	{
		RoleSpec   *grantee = lfirst(cell);
		bool		is_public = grantee->roletype == ROLESPEC_PUBLIC;
		char	   *role = is_public ? NULL : get_rolespec_name(grantee);
		List	   *shards = is_public ? sl_ddl_offline_shards(ddl->shards, false) :
		sl_ddl_shards_with_role(ddl->shards, role);

		foreach(group_cell, groups)
		{
			SlDdlGroup *group = lfirst(group_cell);

			sl_ddl_add_step(ddl, intersect_shards(group->shards, shards),
							grant_text(statement, group->tables,
									   is_public ? "PUBLIC" : quote_identifier(role)));
		}
		grant_later(ddl, statement, role);
	}
}

bool
sl_ddl_plan_grant(SlDdl *ddl)
{
	GrantStmt  *statement = castNode(GrantStmt, ddl->node);
	List	   *tables = granted_tables(statement);
	ListCell   *cell;

	if (tables == NIL)
		return false;
	foreach(cell, tables)
		sl_ddl_add_shards(ddl, sl_table_homes(lfirst(cell)));
	sl_ddl_run_on_router(ddl, statement);
	ddl->state = tables;
	ddl->finish = finish_grant;
	return true;
}
