/*
 * function.c
 *		Functions that shell tables need on the shards.
 *
 * What a table needs is in the router's catalogs: a trigger, default, constraint or
 * index of a shell table depends on the functions that it calls.  These are created
 * on the shards along with it, and replaced there by CREATE OR REPLACE FUNCTION and
 * ALTER FUNCTION.  A function of the same name on a shard that is not the same
 * belongs to the shard's own applications: it is an error, and never replaced.
 * What the body of a function calls is not found.
 *
 * On a shard, functions are created by the user of the user mapping, and run by
 * it.  To have that done, a user must be a superuser, or have the same name there.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_proc.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "deparse/deparse.h"

/* Returns the definition of a function of the router, with names qualified. */
static char *
write_function(Oid function)
{
	int			nest_level = sl_deparse_begin_plain();
	char	   *result = TextDatumGetCString(DirectFunctionCall1(pg_get_functiondef, ObjectIdGetDatum(function)));

	sl_deparse_end_plain(nest_level);
	return result;
}

static char *
write_signature(Oid function)
{
	int			nest_level = sl_deparse_begin_plain();
	char	   *result = format_procedure_qualified(function);

	sl_deparse_end_plain(nest_level);
	return result;
}

/* Raises an error unless the user may have functions created on the shards. */
static void
check_may_create(List *shards, const char *signature)
{
	static const char sql[] = "SELECT current_user OPERATOR(pg_catalog.=) $1";
	List	   *others;
	ListCell   *cell;

	if (superuser())
		return;
	others = sl_ddl_shards_that(shards, sql, GetUserNameFromId(GetUserId(), false), false);
	foreach(cell, sl_ddl_offline_shards(shards, true))
	{
		if (strcmp(sl_ddl_remote_role(lfirst(cell)), GetUserNameFromId(GetUserId(), false)) != 0)
			others = lappend(others, lfirst(cell));
	}
	if (others == NIL)
		return;
	ereport(ERROR,
			errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("permission denied to create function %s on the shards", signature),
			errdetail("The router connects to shard \"%s\" as a user of another name, whose privileges the function would have.",
					  NameStr(((const SlShard *) linitial(others))->name)),
			errhint("A superuser creates it there: SELECT shardlet.execute(NULL, 'CREATE FUNCTION ...');"));
}

static bool
belongs_to_extension(Oid function)
{
	return OidIsValid(getExtensionOfObject(ProcedureRelationId, function));
}

pg_noreturn static void
refuse_missing(const char *signature, const SlShard *shard)
{
	ereport(ERROR,
			errcode(ERRCODE_UNDEFINED_FUNCTION),
			errmsg("function %s does not exist on shard \"%s\"", signature, NameStr(shard->name)),
			errdetail("It belongs to an extension."),
			errhint("SELECT shardlet.execute(NULL, 'CREATE EXTENSION ...');"));
}

pg_noreturn static void
refuse_different(const char *signature, const SlShard *shard)
{
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("function %s differs on shard \"%s\"", signature, NameStr(shard->name)),
			errhint("Make both the same, or give this one another name."));
}

/* Adds the steps that create a function, in its schema, where it is missing. */
static void
create_function_on_shards(SlDdl *ddl, List *shards, Oid function, const char *signature, const char *definition)
{
	static const char sql[] = "SELECT pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) IS NOT NULL";
	const char *schema = get_namespace_name(get_func_namespace(function));

	check_may_create(shards, signature);
	sl_ddl_add_step(ddl, sl_ddl_shards_that(shards, sql, schema, false),
					psprintf("CREATE SCHEMA %s", quote_identifier(schema)));
	sl_ddl_add_step(ddl, shards, pstrdup(definition));
}

/* Writes what creates a function later, unless the shard has another one then. */
static char *
write_later(Oid function, const char *signature, const char *definition, const char *replaced)
{
	static const char template[] = "DECLARE path text := pg_catalog.current_setting('search_path'); found text; wanted text := %s; former text := %s;"
	" BEGIN"
	" PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);"
	" found := (SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.oid = to_regprocedure(%s));"
	" IF found IS NULL AND %s OR found <> wanted AND found IS DISTINCT FROM former THEN"
	" RAISE EXCEPTION USING ERRCODE = 'SL006', MESSAGE = %s; END IF;"
	" IF found IS NULL AND to_regnamespace(%s) IS NULL THEN EXECUTE %s; END IF;"
	" PERFORM set_config('search_path', path, true);"
	" IF found IS DISTINCT FROM wanted THEN EXECUTE wanted; END IF;"
	" END";
	const char *schema = quote_identifier(get_namespace_name(get_func_namespace(function)));
	char	   *body = psprintf(template, quote_literal_cstr(definition),
								replaced != NULL ? quote_literal_cstr(replaced) : "NULL", quote_literal_cstr(signature),
								belongs_to_extension(function) ? "true" : "false",
								quote_literal_cstr(psprintf("function %s differs on the shard", signature)),
								quote_literal_cstr(schema), quote_literal_cstr(psprintf("CREATE SCHEMA %s", schema)));

	return psprintf("DO %s", quote_literal_cstr(body));
}

/*
 * Adds steps that create a function on the shards that lack it.  "replaced" is the
 * definition that it may have there besides, or NULL.
 */
static void
send_function(SlDdl *ddl, List *shards, Oid function, const char *replaced)
{
	static const char sql[] = "SELECT pg_catalog.pg_get_functiondef(p.oid) FROM pg_catalog.pg_proc p"
	" WHERE p.oid OPERATOR(pg_catalog.=) pg_catalog.to_regprocedure($1)";
	char	   *signature = write_signature(function);
	char	   *definition = write_function(function);
	List	   *missing = NIL;
	int			level = sl_deparse_begin_plain();
	int			count;
	SlReply    *replies = sl_ddl_query_shard(sl_ddl_offline_shards(shards, false), sql, signature, &count);
	List	   *offline = sl_ddl_offline_shards(shards, true);

	sl_deparse_end_plain(level);
	for (int i = 0; i < count; i++)
	{
		const char *value = replies[i].value;

		if (value != NULL && strcmp(value, definition) == 0)
			continue;
		if (value == NULL && belongs_to_extension(function))
			refuse_missing(signature, replies[i].shard);
		if (value != NULL && (replaced == NULL || strcmp(value, replaced) != 0))
			refuse_different(signature, replies[i].shard);
		missing = lappend(missing, replies[i].shard);
	}
	if (missing != NIL)
		create_function_on_shards(ddl, missing, function, signature, definition);
	if (offline != NIL)
	{
		check_may_create(offline, signature);
		sl_ddl_add_step(ddl, offline, write_later(function, signature, definition, replaced));
	}
}

/* Adds steps that create a function on the shards that lack it. */
void
sl_ddl_add_function(SlDdl *ddl, List *shards, Oid function)
{
	if (function >= FirstNormalObjectId)
		send_function(ddl, shards, function, NULL);
}

/* Replacing ------------------------------------------------------------------- */

/* The table that an object belongs to, if that depends on a function. */
static Oid
find_table_of(const FormData_pg_depend *row)
{
	ObjectAddress object;
	Oid			relid = InvalidOid;
	Relation	catalog;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	if (row->classid == RelationRelationId)
		return get_rel_relkind(row->objid) == RELKIND_INDEX ? IndexGetRelation(row->objid, true) : row->objid;
	ObjectAddressSet(object, row->classid, row->objid);

	/* Triggers, defaults and constraints depend on their table. */
	catalog = table_open(DependRelationId, AccessShareLock);
	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object.classId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object.objectId));
	scan = systable_beginscan(catalog, DependDependerIndexId, true, NULL, 2, keys);
	while (!OidIsValid(relid) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		const FormData_pg_depend *owner = (Form_pg_depend) GETSTRUCT(tuple);

		if (owner->refclassid == RelationRelationId &&
			(owner->deptype == DEPENDENCY_AUTO || owner->deptype == DEPENDENCY_INTERNAL))
			relid = owner->refobjid;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return relid;
}

/* Returns the shards of all shell tables that need a function. */
static List *
find_shards_with(Oid function)
{
	Relation	catalog = table_open(DependRelationId, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(ProcedureRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(function));
	scan = systable_beginscan(catalog, DependReferenceIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Oid			relid = find_table_of((Form_pg_depend) GETSTRUCT(tuple));
		const SlTable *table = OidIsValid(relid) ? sl_table_get(relid) : NULL;

		if (table != NULL && sl_ddl_is_remote(table))
			result = list_concat_unique_ptr(result, sl_table_homes(table));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return result;
}

/* A function that is about to be changed. */
typedef struct Replacement
{
	Oid			function;
	char	   *definition;		/* before */
	List	   *shards;
} Replacement;

static void
finish_function(SlDdl *ddl)
{
	const Replacement *replacement = ddl->state;

	send_function(ddl, replacement->shards, replacement->function, replacement->definition);
}

/* The statement runs on the router; then the shards get the new definition. */
static bool
plan_replacement(SlDdl *ddl, Oid function)
{
	List	   *shards = OidIsValid(function) && function >= FirstNormalObjectId ? find_shards_with(function) : NIL;
	Replacement *replacement;

	if (shards == NIL)
		return false;
	replacement = palloc(sizeof(Replacement));
	replacement->function = function;
	replacement->definition = write_function(function);
	replacement->shards = shards;
	ddl->state = replacement;
	ddl->finish = finish_function;
	sl_ddl_add_shards(ddl, shards);
	sl_ddl_run_on_router(ddl, ddl->node);
	return true;
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

	return statement->replace && plan_replacement(ddl, find_created(statement));
}

/* ALTER FUNCTION, but for its name, owner and schema */
bool
sl_ddl_plan_alter_function(SlDdl *ddl)
{
	const AlterFunctionStmt *statement = castNode(AlterFunctionStmt, ddl->node);

	return plan_replacement(ddl, LookupFuncWithArgs(statement->objtype, statement->func, true));
}
