/*
 * type.c
 *		Types and domains that distributed tables use.
 *
 * They are on the shards because the tables are, so a change concerns the
 * shards of every table that uses the type: as a column, as the element of an
 * array, as a field, or below a domain.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "ddl/definition.h"
#include "deparse/deparse.h"

/* A type, or all of a schema. */
typedef struct Wanted
{
	Oid			type;
	Oid			schema;
} Wanted;

static bool uses_type(Oid type, const Wanted *wanted);

/* Does a table, or a composite type, have a column of the type? */
static bool
has_column(Oid relid, const Wanted *wanted)
{
	Relation	relation = relation_open(relid, AccessShareLock);
	TupleDesc	columns = RelationGetDescr(relation);
	bool		result = false;

	for (int i = 0; i < columns->natts && !result; i++)
	{
		Form_pg_attribute column = TupleDescAttr(columns, i);

		result = !column->attisdropped && uses_type(column->atttypid, wanted);
	}
	relation_close(relation, AccessShareLock);
	return result;
}

/* Is it the type, or is it made of it? */
static bool
uses_type(Oid type, const Wanted *wanted)
{
	HeapTuple	tuple;
	FormData_pg_type form;

	check_stack_depth();
	if (!OidIsValid(type))
		return false;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	form = *(Form_pg_type) GETSTRUCT(tuple);
	ReleaseSysCache(tuple);
	return type == wanted->type || form.typnamespace == wanted->schema ||
		uses_type(form.typelem, wanted) || uses_type(form.typbasetype, wanted) ||
		uses_type(get_multirange_range(type), wanted) || uses_type(get_range_subtype(type), wanted) ||
		(OidIsValid(form.typrelid) && has_column(form.typrelid, wanted));
}

static List *
find_shards(const Wanted *wanted)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_ddl_all_tables())
	{
		SlTable    *table = lfirst(cell);

		if (get_rel_namespace(table->relid) == wanted->schema || has_column(table->relid, wanted))
			result = list_concat_unique_ptr(result, sl_table_homes(table));
	}
	return result;
}

/* Returns the shards of all tables that use a type, and those that it was created on. */
static List *
list_shards_with_type(Oid type)
{
	Wanted		wanted = {.type = type};

	if (!OidIsValid(sl_catalog_find(SL_OBJECT_TABLE)))
		return NIL;
	return list_concat_unique_ptr(find_shards(&wanted), sl_object_list_shards("type", sl_object_name("type", type)));
}

/* A new constraint of a domain is checked in all tables that use it. */
static void
open_shells(SlDdl *ddl, Oid type)
{
	Wanted		wanted = {.type = type};
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);

		if (sl_ddl_is_remote(table) && has_column(table->relid, &wanted))
			sl_ddl_open_shell(ddl, table);
	}
}

/* Returns the shards of all tables that are in a schema, or use a type of it. */
List *
sl_ddl_shards_with_schema(Oid schema)
{
	Wanted		wanted = {.schema = schema};

	return find_shards(&wanted);
}

static Oid
find_type(List *names)
{
	Type		tuple = LookupTypeName(NULL, makeTypeNameFromNameList(names), NULL, true);
	Oid			result = InvalidOid;

	if (tuple != NULL)
	{
		result = typeTypeId(tuple);
		ReleaseSysCache(tuple);
	}
	return result;
}

/*
 * Returns the statement with the type's name qualified, or shards might find another
 * type.
 */
static char *
qualified_text(const SlDdl *ddl, Oid type)
{
	SlChange   *change = palloc(sizeof(SlChange));

	change->span = sl_ddl_type_span(ddl);
	change->replacement = format_type_be_qualified(type);
	return sl_ddl_changed(ddl, sl_ddl_whole(ddl), list_make1(change));
}

/* Sends the statement to the shards, if a distributed table uses the type. */
static bool
carry_text(SlDdl *ddl, List *names)
{
	Oid			type = find_type(names);
	List	   *shards = OidIsValid(type) ? list_shards_with_type(type) : NIL;

	if (shards == NIL)
		return false;
	open_shells(ddl, type);
	sl_ddl_run_on_router(ddl, ddl->node);
	sl_ddl_add_step(ddl, shards, qualified_text(ddl, type));
	return true;
}

bool
sl_ddl_plan_enum(SlDdl *ddl)
{
	return carry_text(ddl, castNode(AlterEnumStmt, ddl->node)->typeName);
}

static void
finish_domain(SlDdl *ddl)
{
	sl_privilege_check_type(find_type(castNode(AlterDomainStmt, ddl->node)->typeName));
}

bool
sl_ddl_plan_domain(SlDdl *ddl)
{
	ddl->finish = finish_domain;
	return carry_text(ddl, castNode(AlterDomainStmt, ddl->node)->typeName);
}

/* Renames and new schemas of types and domains. */
bool
sl_ddl_plan_type_name(SlDdl *ddl, List *names)
{
	return carry_text(ddl, names);
}

/* ALTER TYPE of a composite type, whose name the parser has as a relation's. */
bool
sl_ddl_plan_composite(SlDdl *ddl)
{
	RangeVar   *name = IsA(ddl->node, RenameStmt) ? ((RenameStmt *) ddl->node)->relation :
	castNode(AlterTableStmt, ddl->node)->relation;
	List	   *names = list_make1(makeString(name->relname));

	if (name->schemaname != NULL)
		names = lcons(makeString(name->schemaname), names);
	return carry_text(ddl, names);
}
