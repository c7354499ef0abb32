/*
 * grant.c
 *		GRANT and REVOKE on tables, and on functions that the router has created on
 *		shards.
 *
 * Roles belong to a server, and a shard's need not be the router's.  GRANT creates a
 * role that a shard lacks (create_role.c); if that is impossible, it is left out
 * there, with a notice.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "parser/parse_func.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "ddl/definition.h"

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
names_of_tables(const List *tables)
{
	StringInfoData names;
	ListCell   *cell;

	initStringInfo(&names);
	foreach(cell, tables)
		appendStringInfo(&names, "%s%s", cell == list_head(tables) ? "" : ", ",
						 sl_ddl_name(((SlTable *) lfirst(cell))->relid));
	return names.data;
}

/* "objects" has what they are ahead of their names: "TABLE a, b". */
static char *
grant_text(const GrantStmt *statement, const char *objects, const char *role)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "%s%s%s ON %s", statement->is_grant ? "GRANT " : "REVOKE ",
					 !statement->is_grant && statement->grant_option ? "GRANT OPTION FOR " : "",
					 privileges_text(statement), objects);
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
						   grant_text(statement, psprintf("TABLE %s", names_of_tables(list_make1(unconstify(SlTable *, table)))),
									  role != NULL ? quote_identifier(role) : "PUBLIC"),
						   sl_ddl_role_condition(role, table));
	}
}

/* Returns the shards that have a role, which NULL for PUBLIC is not; GRANT creates it. */
static List *
find_shards_for(const SlDdl *ddl, const char *role)
{
	const GrantStmt *statement = castNode(GrantStmt, ddl->node);
	const List *tables = statement->objtype == OBJECT_TABLE ? ddl->state : NIL;

	if (role == NULL)
		return sl_ddl_offline_shards(ddl->shards, false);
	if (statement->is_grant)
		sl_ddl_create_role(sl_ddl_offline_shards(ddl->shards, false), role, tables != NIL ? sl_ddl_map_id(linitial(tables)) : 0);
	return sl_ddl_shards_with_role(ddl->shards, role);
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
		List	   *shards = find_shards_for(ddl, role);

		foreach(group_cell, groups)
		{
			SlDdlGroup *group = lfirst(group_cell);

			sl_ddl_add_step(ddl, intersect_shards(group->shards, shards),
							grant_text(statement, psprintf("TABLE %s", names_of_tables(group->tables)),
									   is_public ? "PUBLIC" : quote_identifier(role)));
		}
		grant_later(ddl, statement, role);
	}
}

/* Functions --------------------------------------------------------------------- */

/* A function that the router has created on shards. */
typedef struct GrantedFunction
{
	char	   *signature;
	List	   *shards;
} GrantedFunction;

/* Returns the functions of shards that a GRANT names: GrantedFunctions. */
static List *
granted_functions(const GrantStmt *statement)
{
	List	   *result = NIL;
	ListCell   *cell;

	if ((statement->objtype != OBJECT_FUNCTION && statement->objtype != OBJECT_PROCEDURE &&
		 statement->objtype != OBJECT_ROUTINE) || statement->targtype != ACL_TARGET_OBJECT ||
		!OidIsValid(sl_catalog_find(SL_OBJECT_TABLE)))
		return NIL;
	foreach(cell, statement->objects)
	{
		Oid			oid = LookupFuncWithArgs(statement->objtype, lfirst(cell), true);
		GrantedFunction *function = palloc(sizeof(GrantedFunction));

		if (!OidIsValid(oid))
			continue;
		function->signature = sl_object_name("function", oid);
		function->shards = sl_object_list_shards("function", function->signature);
		if (function->shards != NIL)
			result = lappend(result, function);
	}
	return result;
}

static void
finish_grant_function(SlDdl *ddl)
{
	GrantStmt  *statement = (GrantStmt *) ddl->node;
	ListCell   *cell;
	ListCell   *function_cell;

	foreach(cell, (List *) ddl->state)
	{
		const GrantedFunction *function = lfirst(cell);

		sl_ddl_refuse_pending(function->shards, function->signature);
	}
	foreach(cell, statement->grantees)
	{
		RoleSpec   *grantee = lfirst(cell);
		char	   *role = grantee->roletype == ROLESPEC_PUBLIC ? NULL : get_rolespec_name(grantee);
		List	   *shards = find_shards_for(ddl, role);

		foreach(function_cell, (List *) ddl->state)
		{
			const GrantedFunction *function = lfirst(function_cell);

			char	   *sql = grant_text(statement, psprintf("ROUTINE %s", function->signature),
										 role == NULL ? "PUBLIC" : quote_identifier(role));

			sl_ddl_add_step(ddl, intersect_shards(function->shards, shards), sql);
			sl_ddl_add_step_if(ddl, intersect_shards(function->shards, ddl->offline), sql, sl_ddl_role_condition(role, NULL));
		}
	}
}

static bool
plan_functions(SlDdl *ddl)
{
	List	   *functions = granted_functions(castNode(GrantStmt, ddl->node));
	ListCell   *cell;

	if (functions == NIL)
		return false;
	foreach(cell, functions)
		sl_ddl_add_shards(ddl, ((GrantedFunction *) lfirst(cell))->shards);
	sl_ddl_run_on_router(ddl, ddl->node);
	ddl->state = functions;
	ddl->finish = finish_grant_function;
	return true;
}

bool
sl_ddl_plan_grant(SlDdl *ddl)
{
	GrantStmt  *statement = castNode(GrantStmt, ddl->node);
	List	   *tables = granted_tables(statement);
	ListCell   *cell;

	if (plan_functions(ddl))
		return true;
	if (tables == NIL)
		return false;
	foreach(cell, tables)
		sl_ddl_add_shards(ddl, sl_table_homes(lfirst(cell)));
	sl_ddl_run_on_router(ddl, statement);
	ddl->state = tables;
	ddl->finish = finish_grant;
	return true;
}
