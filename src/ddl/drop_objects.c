/*
 * drop_objects.c
 *		DROP FUNCTION, DROP TYPE, DROP DOMAIN and DROP SCHEMA of objects that the
 *		router has created on shards.
 *
 * The router drops first.  What is listed and does not exist there any more is then
 * dropped on the shards, without CASCADE: an object of the shard that needs it makes
 * the statement fail.  Triggers, constraints and other parts of distributed tables that
 * CASCADE drops on the router are dropped on the shards by themselves.
 *
 * DROP SCHEMA ... CASCADE drops nothing on the shards, as it keeps the tables there.
 * What is listed then is replaced or used when it is needed again.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "ddl/definition.h"

/* What is known before the statement runs. */
typedef struct Drops
{
	List	   *noted;			/* SlListedObjects */
	List	   *parts;			/* SlDdlSteps that drop parts of tables */
} Drops;

/* The order in which kinds are dropped, and how. */
static const struct
{
	const char *kind;
	const char *command;
}			kinds[] = {
	{"function", "DROP ROUTINE IF EXISTS"},
	{"type", "DROP TYPE IF EXISTS"},
	{"schema", "DROP SCHEMA IF EXISTS"},
};

static const char *
kind_of(ObjectType type)
{
	switch (type)
	{
		case OBJECT_FUNCTION:
		case OBJECT_PROCEDURE:
		case OBJECT_ROUTINE:
			return "function";
		case OBJECT_TYPE:
		case OBJECT_DOMAIN:
			return "type";
		case OBJECT_SCHEMA:
			return "schema";
		default:
			return NULL;
	}
}

/* Returns an object that a statement names, or InvalidOid. */
static Oid
find_named(ObjectType type, Node *object)
{
	Oid			result = InvalidOid;
	Type		tuple;

	if (type == OBJECT_SCHEMA)
		return get_namespace_oid(strVal(object), true);
	if (strcmp(kind_of(type), "function") == 0)
		return LookupFuncWithArgs(type, castNode(ObjectWithArgs, object), true);
	tuple = LookupTypeName(NULL, castNode(TypeName, object), NULL, true);
	if (tuple != NULL)
	{
		result = typeTypeId(tuple);
		ReleaseSysCache(tuple);
	}
	return result;
}

/* Quotes a schema's name, as the others are. */
static const char *
sql_name(const SlListedObject *object)
{
	return strcmp(object->kind, "schema") == 0 ? quote_identifier(object->name) : object->name;
}

/* Adds one command for each shard: the objects of a kind may need each other. */
static void
drop_kind(SlDdl *ddl, const List *gone, const char *kind, const char *command)
{
	List	   *shards = NIL;
	const ListCell *cell;
	const ListCell *object_cell;

	foreach(object_cell, gone)
	{
		const SlListedObject *object = lfirst(object_cell);

		if (strcmp(object->kind, kind) == 0)
			shards = list_concat_unique_ptr(shards, sl_object_list_shards(kind, object->name));
	}
	foreach(cell, shards)
	{
		StringInfoData names;

		initStringInfo(&names);
		foreach(object_cell, gone)
		{
			const SlListedObject *object = lfirst(object_cell);

			if (strcmp(object->kind, kind) == 0 && list_member_ptr(sl_object_list_shards(kind, object->name), lfirst(cell)))
				appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : " ", sql_name(object));
		}
		sl_ddl_add_step(ddl, list_make1(lfirst(cell)), psprintf("%s%s", command, names.data));
	}
}

/* The listed objects that the statement has dropped. */
static List *
find_gone(const List *noted)
{
	List	   *result = NIL;
	const ListCell *cell;

	foreach(cell, noted)
	{
		const SlListedObject *object = lfirst(cell);

		if (strcmp(object->kind, "role") != 0 && sl_object_name(object->kind, object->oid) == NULL)
			result = lappend(result, lfirst(cell));
	}
	return result;
}

/* A shard that is offline can drop functions later, if they are the router's. */
static void
check_offline(const List *gone)
{
	const ListCell *cell;

	foreach(cell, gone)
	{
		const SlListedObject *object = lfirst(cell);
		List	   *shards = sl_object_list_shards(object->kind, object->name);

		if (strcmp(object->kind, "function") == 0)
			sl_ddl_refuse_pending(shards, object->name);
		else
			sl_ddl_refuse_offline(shards, object->kind, object->name);
	}
}

static void
finish_drop(SlDdl *ddl)
{
	const Drops *drops = ddl->state;
	List	   *gone = find_gone(drops->noted);
	ListCell   *cell;

	check_offline(gone);
	ddl->steps = list_concat(ddl->steps, drops->parts);
	for (int i = 0; i < (int) lengthof(kinds); i++)
		drop_kind(ddl, gone, kinds[i].kind, kinds[i].command);
	foreach(cell, gone)
	{
		const SlListedObject *object = lfirst(cell);

		sl_object_list_remove(object->kind, object->name);
	}
}

/* Finds what CASCADE drops of distributed tables. */
static List *
find_parts(const DropStmt *statement)
{
	const char *kind = kind_of(statement->removeType);
	List	   *result = NIL;
	ListCell   *cell;

	if (statement->behavior != DROP_CASCADE)
		return NIL;
	foreach(cell, statement->objects)
	{
		Oid			oid = find_named(statement->removeType, lfirst(cell));

		if (OidIsValid(oid) && oid >= FirstNormalObjectId)
			result = list_concat(result, sl_ddl_find_dependents(sl_object_class(kind), oid).drops);
	}
	return result;
}

/* Adds the shards of the listed objects that the statement names; are there any? */
static bool
add_named_shards(SlDdl *ddl, const DropStmt *statement)
{
	const char *kind = kind_of(statement->removeType);
	List	   *shards = NIL;
	ListCell   *cell;

	foreach(cell, statement->objects)
	{
		Oid			oid = find_named(statement->removeType, lfirst(cell));

		if (OidIsValid(oid))
			shards = list_concat_unique_ptr(shards, sl_object_list_shards(kind, sl_object_name(kind, oid)));
	}
	sl_ddl_add_shards(ddl, shards);
	return shards != NIL;
}

bool
sl_ddl_plan_drop_objects(SlDdl *ddl)
{
	DropStmt   *statement = castNode(DropStmt, ddl->node);
	bool		is_schema = statement->removeType == OBJECT_SCHEMA;
	Drops	   *drops;
	ListCell   *cell;

	if (kind_of(statement->removeType) == NULL || !OidIsValid(sl_catalog_find(SL_OBJECT_TABLE)) ||
		(is_schema && statement->behavior == DROP_CASCADE))
		return false;
	drops = palloc(sizeof(Drops));
	drops->noted = sl_object_note_names();
	drops->parts = find_parts(statement);
	if (!add_named_shards(ddl, statement) && drops->parts == NIL &&
		(drops->noted == NIL || statement->behavior != DROP_CASCADE))
		return false;
	foreach(cell, drops->parts)
		sl_ddl_add_shards(ddl, ((const SlDdlStep *) lfirst(cell))->shards);
	ddl->state = drops;
	ddl->finish = finish_drop;
	ddl->keeps_columns = true;
	sl_ddl_run_on_router(ddl, statement);
	return true;
}
