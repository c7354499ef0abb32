/*
 * function.c
 *		CREATE OR REPLACE FUNCTION and ALTER FUNCTION of functions that shards have.
 *
 * These are the functions that tables of the shards need, and those that the router has
 * created there.  The statement runs on the router; then the shards get the function as
 * the router has it, with what it needs itself (create_objects.c).  A shard whose
 * function was not the same before keeps it, and the statement fails: no shard is left
 * with another body without an error.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "fmgr.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "ddl/definition.h"
#include "executor/multi_shard.h"

/* A function that is about to be changed. */
typedef struct Change
{
	Oid			function;
	char	   *signature;		/* before */
	char	   *definition;		/* before, or NULL for an aggregate */
	List	   *shards;
	int32		map_id;			/* that new needs are listed for */
	SlDefinition *before;		/* what it needed before */
} Change;

/* Returns the definition of a function of the router, with names qualified. */
static char *
write_function(Oid function)
{
	int			level;
	char	   *result;

	if (get_func_prokind(function) == PROKIND_AGGREGATE)
		return NULL;
	level = sl_definition_begin_output();
	result = TextDatumGetCString(DirectFunctionCall1(pg_get_functiondef, ObjectIdGetDatum(function)));
	AtEOXact_GUC(true, level);
	return result;
}

/*
 * Returns the change of a function, or NULL if no shard has it: the shards are those of
 * the tables that need it, and those that it was created on.  Members of extensions
 * change with the extension.
 */
static Change *
make_change(Oid function)
{
	SlDependents dependents;
	Change	   *result;

	if (!OidIsValid(function) || function < FirstNormalObjectId || !OidIsValid(sl_catalog_find(SL_OBJECT_TABLE)) ||
		OidIsValid(getExtensionOfObject(ProcedureRelationId, function)))
		return NULL;
	dependents = sl_ddl_find_dependents(ProcedureRelationId, function);
	result = palloc(sizeof(Change));
	result->function = function;
	result->signature = sl_object_name("function", function);
	result->shards = list_concat_unique_ptr(dependents.shards, sl_object_list_shards("function", result->signature));
	if (result->shards == NIL)
		return NULL;
	result->definition = write_function(function);
	result->before = sl_ddl_offline_shards(result->shards, true) != NIL ?
		sl_definition_read_needs(ProcedureRelationId, function) : NULL;
	result->map_id = dependents.map_id != 0 ? dependents.map_id : sl_object_list_map("function", result->signature);
	return result;
}

/* Has the statement run on the router, and "finish" for the shards. */
static bool
plan_change(SlDdl *ddl, Change *change, void (*finish) (SlDdl *))
{
	if (change == NULL)
		return false;
	ddl->state = change;
	ddl->finish = finish;
	sl_ddl_add_shards(ddl, change->shards);
	sl_ddl_run_on_router(ddl, ddl->node);
	return true;
}

static SlDefinition *
read_changed(const Change *change)
{
	SlDefinition *result = sl_definition_read_needs(ProcedureRelationId, change->function);

	result->replaced = change->signature;
	result->replaced_ddl = change->definition;
	result->map_id = change->map_id;
	return result;
}

static void
finish_definition(SlDdl *ddl)
{
	const Change *change = ddl->state;
	SlDefinition *definition = read_changed(change);

	ddl->steps = sl_ddl_store_needs(change->shards, definition, change->before);
	sl_snapshot_begin(NIL);
	sl_definition_create(sl_ddl_offline_shards(change->shards, false), definition, SL_PHASE_NEEDS, SL_PHASE_TYPES);
}

/* Returns the function with the arguments that a statement creates, or InvalidOid. */
static Oid
find_created(const CreateFunctionStmt *statement)
{
	List	   *types = NIL;
	ObjectWithArgs *object = makeNode(ObjectWithArgs);
	ListCell   *cell;

	foreach(cell, statement->parameters)
	{
		const FunctionParameter *parameter = lfirst(cell);

		if (parameter->mode != FUNC_PARAM_OUT && parameter->mode != FUNC_PARAM_TABLE)
			types = lappend(types, parameter->argType);
	}
	object->objname = statement->funcname;
	object->objargs = types;
	return LookupFuncWithArgs(OBJECT_ROUTINE, object, true);
}

/* CREATE OR REPLACE FUNCTION */
bool
sl_ddl_plan_create_function(SlDdl *ddl)
{
	const CreateFunctionStmt *statement = castNode(CreateFunctionStmt, ddl->node);

	return statement->replace && plan_change(ddl, make_change(find_created(statement)), finish_definition);
}

/* ALTER FUNCTION, but for its name, owner and schema */
bool
sl_ddl_plan_alter_function(SlDdl *ddl)
{
	const AlterFunctionStmt *statement = castNode(AlterFunctionStmt, ddl->node);

	return plan_change(ddl, make_change(LookupFuncWithArgs(statement->objtype, statement->func, true)), finish_definition);
}

static bool
is_function(ObjectType type)
{
	return type == OBJECT_FUNCTION || type == OBJECT_PROCEDURE || type == OBJECT_ROUTINE;
}

/* A function of a shard that differs must not be renamed. */
static void
check_same(SlDdl *ddl)
{
	const Change *change = ddl->state;
	static const char sql[] = "SELECT pg_catalog.pg_get_functiondef(p.oid) FROM pg_catalog.pg_proc p"
	" WHERE p.oid OPERATOR(pg_catalog.=) pg_catalog.to_regprocedure($1::pg_catalog.text)";
	int			level;
	int			count;
	SlReply    *replies;

	sl_ddl_check_same_later(ddl, change->shards, change->signature, change->definition);
	level = sl_definition_begin_output();
	replies = sl_ddl_query_shard(sl_ddl_offline_shards(change->shards, false), sql, change->signature, &count);
	AtEOXact_GUC(true, level);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].value == NULL || strcmp(replies[i].value, change->definition) == 0 ||
			sl_object_list_has("function", change->signature, replies[i].shard->id))
			continue;
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("function %s differs on shard \"%s\"", change->signature, NameStr(replies[i].shard->name)),
				errhint("Make both the same, or give this one another name."));
	}
}

static void
finish_rename(SlDdl *ddl)
{
	const Change *change = ddl->state;
	const RenameStmt *statement = castNode(RenameStmt, ddl->node);

	check_same(ddl);
	sl_ddl_add_step(ddl, change->shards, psprintf("ALTER ROUTINE %s RENAME TO %s", change->signature,
												  quote_identifier(statement->newname)));
}

/* ALTER FUNCTION ... RENAME TO */
bool
sl_ddl_plan_rename_function(SlDdl *ddl)
{
	const RenameStmt *statement = castNode(RenameStmt, ddl->node);

	return is_function(statement->renameType) &&
		plan_change(ddl, make_change(LookupFuncWithArgs(statement->renameType, castNode(ObjectWithArgs, statement->object), true)),
					finish_rename);
}

static void
finish_schema(SlDdl *ddl)
{
	const Change *change = ddl->state;
	const AlterObjectSchemaStmt *statement = castNode(AlterObjectSchemaStmt, ddl->node);
	static const char sql[] = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace"
	" WHERE nspname OPERATOR(pg_catalog.=) $1::pg_catalog.text)";

	check_same(ddl);
	sl_ddl_add_step(ddl, sl_ddl_shards_that(change->shards, sql, statement->newschema, false),
					psprintf("CREATE SCHEMA %s", quote_identifier(statement->newschema)));
	sl_ddl_add_step_if(ddl, sl_ddl_offline_shards(change->shards, true),
					   psprintf("CREATE SCHEMA %s", quote_identifier(statement->newschema)),
					   psprintf("SELECT pg_catalog.to_regnamespace(%s) IS NULL",
								quote_literal_cstr(quote_identifier(statement->newschema))));
	sl_ddl_add_step(ddl, change->shards, psprintf("ALTER ROUTINE %s SET SCHEMA %s", change->signature,
												  quote_identifier(statement->newschema)));
}

/* ALTER FUNCTION ... SET SCHEMA */
bool
sl_ddl_plan_function_schema(SlDdl *ddl)
{
	const AlterObjectSchemaStmt *statement = castNode(AlterObjectSchemaStmt, ddl->node);

	return is_function(statement->objectType) &&
		plan_change(ddl, make_change(LookupFuncWithArgs(statement->objectType, castNode(ObjectWithArgs, statement->object), true)),
					finish_schema);
}

/* Functions of the shards' own keep their owners. */
static void
finish_owner(SlDdl *ddl)
{
	const Change *change = ddl->state;
	SlDefinition *definition = read_changed(change);

	sl_ddl_set_owner_later(ddl, change->shards, definition);
	sl_snapshot_begin(NIL);
	sl_object_set_owner(sl_ddl_offline_shards(change->shards, false), definition);
}

/* ALTER FUNCTION ... OWNER TO */
bool
sl_ddl_plan_owner(SlDdl *ddl)
{
	const AlterOwnerStmt *statement = castNode(AlterOwnerStmt, ddl->node);
	Change	   *change;

	if (!is_function(statement->objectType))
		return false;
	change = make_change(LookupFuncWithArgs(statement->objectType, castNode(ObjectWithArgs, statement->object), true));
	if (change != NULL)
		change->shards = sl_object_list_shards("function", change->signature);
	return change != NULL && change->shards != NIL && plan_change(ddl, change, finish_owner);
}
