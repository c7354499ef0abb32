/*
 * rename.c
 *		New names and schemas.
 *
 * Names are the same on the router and on the shards, so they change together: those
 * of tables, columns, constraints, indexes, and of schemas and types that distributed
 * tables use.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "ddl/definition.h"
#include "executor/multi_shard.h"

/* What renames a thing of a table: "RENAME COLUMN", for instance. */
static char *
rename_text(const SlTable *table, const char *what, const RenameStmt *statement)
{
	return psprintf("ALTER TABLE %s%s RENAME %s%s%s TO %s",
					statement->relation->inh ? "" : "ONLY ", sl_ddl_name(table->relid), what,
					statement->subname != NULL ? " " : "",
					statement->subname != NULL ? quote_identifier(statement->subname) : "",
					quote_identifier(statement->newname));
}

/* Returns the option "key" with another name for one column. */
static char *
renamed_key(const SlTable *table, const char *from, const char *to)
{
	StringInfoData key;

	initStringInfo(&key);
	for (int i = 0; i < table->key_count; i++)
	{
		char	   *name = get_attname(table->relid, table->key[i], false);

		appendStringInfo(&key, "%s%s", i > 0 ? ", " : "",
						 quote_identifier(strcmp(name, from) == 0 ? to : name));
	}
	return key.data;
}

/* Partitions have the key of their table.  The columns are renamed right after. */
static void
rename_shell_key(const SlTable *table, const RenameStmt *statement)
{
	char	   *key = renamed_key(table, statement->subname, statement->newname);
	ListCell   *cell;

	sl_ddl_lock(statement->relation, AccessExclusiveLock);
	foreach(cell, sl_ddl_with_partitions(table))
		sl_shell_set_option(lfirst_oid(cell), SL_OPTION_KEY, key);
}

/* The guard knows the key's columns by their names. */
static void
guard_again(SlDdl *ddl, const SlTable *table, const RenameStmt *statement)
{
	List	   *key = sl_table_key_of(table);
	ListCell   *cell;

	foreach(cell, key)
	{
		if (strcmp(lfirst(cell), statement->subname) == 0)
			lfirst(cell) = statement->newname;
	}
	sl_ddl_add_guard(ddl, table, key);
}

static void
plan_rename_column(SlDdl *ddl, const SlTable *table)
{
	RenameStmt *statement = (RenameStmt *) ddl->node;

	sl_ddl_run_on_router(ddl, statement);
	if (sl_ddl_is_key(table, statement->subname))
		rename_shell_key(table, statement);
	sl_ddl_add_step(ddl, sl_table_homes(table), rename_text(table, "COLUMN", statement));
	if (sl_ddl_is_key(table, statement->subname))
		guard_again(ddl, table, statement);
}

static void
plan_rename_constraint(SlDdl *ddl, const SlTable *table)
{
	RenameStmt *statement = (RenameStmt *) ddl->node;

	if (OidIsValid(get_relation_constraint_oid(table->relid, statement->subname, true)))
		sl_ddl_run_on_router(ddl, statement);
	sl_ddl_add_step(ddl, sl_table_homes(table), rename_text(table, "CONSTRAINT", statement));
}

static bool
plan_rename_trigger(SlDdl *ddl)
{
	RenameStmt *statement = (RenameStmt *) ddl->node;
	SlTable    *table = sl_ddl_table(statement->relation);
	bool		is_on_router;

	if (table == NULL || !sl_ddl_is_remote(table))
		return false;
	is_on_router = OidIsValid(get_trigger_oid(table->relid, statement->subname, true));
	sl_ddl_lock(statement->relation, AccessExclusiveLock);
	if (is_on_router)
		sl_ddl_run_on_router(ddl, statement);
	sl_ddl_add_step(ddl, sl_table_homes(table),
					psprintf("ALTER TRIGGER %s ON %s RENAME TO %s",
							 quote_identifier(statement->subname), sl_ddl_name(table->relid),
							 quote_identifier(statement->newname)));
	return true;
}

static bool
plan_rename_index(SlDdl *ddl)
{
	RenameStmt *statement = (RenameStmt *) ddl->node;
	SlIndex    *index = sl_ddl_find_index(statement->relation);

	if (index == NULL)
		return false;
	sl_ddl_run_on_router(ddl, statement);
	sl_ddl_add_step(ddl, sl_table_homes(index->table),
					psprintf("ALTER INDEX %s RENAME TO %s", index->name,
							 quote_identifier(statement->newname)));
	return true;
}

/* Tables get another name with their schema: see during_move.c. */
static void
check_schema_at_rest(Oid schema)
{
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);

		if (get_rel_namespace(table->relid) != schema)
			continue;

		/* A move that begins from now on waits for this transaction. */
		LockRelationOid(table->relid, AccessShareLock);
		sl_ddl_check_rest(table, "rename the schema of");
	}
}

/* Returns the shards that have a schema, or objects in it, because the router created them. */
static List *
find_listed_shards(Oid schema)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_object_note_names())
	{
		const SlListedObject *object = lfirst(cell);

		if (sl_object_schema(object) == schema)
			result = list_concat_unique_ptr(result, sl_object_list_shards(object->kind, object->name));
	}
	return result;
}

/* A schema with distributed tables must have the same name on the shards. */
static bool
plan_rename_schema(SlDdl *ddl)
{
	RenameStmt *statement = (RenameStmt *) ddl->node;
	Oid			schema = get_namespace_oid(statement->subname, true);
	List	   *shards = OidIsValid(schema) ?
	list_concat_unique_ptr(sl_ddl_shards_with_schema(schema), find_listed_shards(schema)) : NIL;

	if (shards == NIL)
		return false;
	check_schema_at_rest(schema);
	sl_ddl_refuse_pending(shards, NULL);
	sl_ddl_run_on_router(ddl, statement);
	sl_ddl_add_step(ddl, shards, psprintf("ALTER SCHEMA %s RENAME TO %s",
										  quote_identifier(statement->subname),
										  quote_identifier(statement->newname)));
	return true;
}

static bool
plan_rename_statistics(SlDdl *ddl)
{
	RenameStmt *statement = (RenameStmt *) ddl->node;
	SlStatistics *found = sl_ddl_find_statistics((List *) statement->object);

	if (found == NULL)
		return false;
	sl_ddl_run_on_router(ddl, statement);
	sl_ddl_add_step(ddl, sl_table_homes(found->table),
					psprintf("ALTER STATISTICS %s RENAME TO %s", found->name,
							 quote_identifier(statement->newname)));
	return true;
}

static bool
plan_rename_in_table(SlDdl *ddl)
{
	RenameStmt *statement = (RenameStmt *) ddl->node;
	SlTable    *table = sl_ddl_table(statement->relation);

	if (table == NULL)
		return false;
	sl_ddl_lock(statement->relation, AccessExclusiveLock);
	if (statement->renameType != OBJECT_TABCONSTRAINT)
		sl_ddl_check_rest(table, statement->renameType == OBJECT_COLUMN ? "rename a column of" : "rename");
	if (statement->renameType == OBJECT_COLUMN)
		plan_rename_column(ddl, table);
	else if (statement->renameType == OBJECT_TABCONSTRAINT)
		plan_rename_constraint(ddl, table);
	else
	{
		sl_ddl_run_on_router(ddl, statement);
		sl_ddl_add_step(ddl, sl_table_homes(table),
						psprintf("ALTER TABLE %s RENAME TO %s", sl_ddl_name(table->relid),
								 quote_identifier(statement->newname)));
	}
	return true;
}

bool
sl_ddl_plan_rename(SlDdl *ddl)
{
	RenameStmt *statement = castNode(RenameStmt, ddl->node);

	switch (statement->renameType)
	{
		case OBJECT_TABLE:

			/* ALTER TABLE renames indexes, too. */
			return plan_rename_in_table(ddl) || plan_rename_index(ddl);
		case OBJECT_COLUMN:
		case OBJECT_TABCONSTRAINT:
			return plan_rename_in_table(ddl);
		case OBJECT_TRIGGER:
			return plan_rename_trigger(ddl);
		case OBJECT_POLICY:
			return sl_ddl_plan_rename_policy(ddl);
		case OBJECT_INDEX:
			return plan_rename_index(ddl);
		case OBJECT_SCHEMA:
			return plan_rename_schema(ddl);
		case OBJECT_STATISTIC_EXT:
			return plan_rename_statistics(ddl);
		case OBJECT_ATTRIBUTE:
			return sl_ddl_plan_composite(ddl);
		case OBJECT_TYPE:
		case OBJECT_DOMAIN:
		case OBJECT_DOMCONSTRAINT:
			return sl_ddl_plan_type_name(ddl, (List *) statement->object);
		default:
			return sl_ddl_plan_rename_function(ddl);
	}
}

/* The shards get the schema if they have none of that name. */
static void
finish_schema(SlDdl *ddl)
{
	AlterObjectSchemaStmt *statement = (AlterObjectSchemaStmt *) ddl->node;
	static const char sql[] = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace"
	" WHERE nspname OPERATOR(pg_catalog.=) $1::pg_catalog.text)";
	List	   *move = ddl->steps;

	ddl->steps = NIL;
	sl_ddl_add_step(ddl, sl_ddl_shards_that(ddl->shards, sql, statement->newschema, false),
					psprintf("CREATE SCHEMA %s", quote_identifier(statement->newschema)));
	sl_ddl_add_step_if(ddl, ddl->offline, psprintf("CREATE SCHEMA %s", quote_identifier(statement->newschema)),
					   psprintf("SELECT pg_catalog.to_regnamespace(%s) IS NULL",
								quote_literal_cstr(quote_identifier(statement->newschema))));
	ddl->steps = list_concat(ddl->steps, move);
}

bool
sl_ddl_plan_schema(SlDdl *ddl)
{
	AlterObjectSchemaStmt *statement = castNode(AlterObjectSchemaStmt, ddl->node);
	SlTable    *table;

	if (statement->objectType == OBJECT_TYPE || statement->objectType == OBJECT_DOMAIN)
		return sl_ddl_plan_type_name(ddl, (List *) statement->object);
	if (sl_ddl_plan_function_schema(ddl))
		return true;
	if (statement->objectType != OBJECT_TABLE)
		return false;
	table = sl_ddl_table(statement->relation);
	if (table == NULL)
		return false;
	sl_ddl_lock(statement->relation, AccessExclusiveLock);
	sl_ddl_check_rest(table, "change the schema of");
	sl_ddl_run_on_router(ddl, statement);
	sl_ddl_add_step(ddl, sl_table_homes(table),
					psprintf("ALTER TABLE %s SET SCHEMA %s", sl_ddl_name(table->relid),
							 quote_identifier(statement->newschema)));
	ddl->finish = finish_schema;
	return true;
}
