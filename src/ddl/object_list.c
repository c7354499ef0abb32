/*
 * object_list.c
 *		The configuration table of the objects that the router has created on shards.
 *
 * A function, type, schema or role that is listed for a shard was created there because
 * tables of the router need it.  The router changes and drops such an object; one that
 * is not listed belongs to the shard.  There is a row for each shard and each map whose
 * tables need the object; map 0 stands for placed and reference tables.
 *
 * Objects are listed by their qualified names, as the shards know them, so that
 * a dump of the router has them.  After a statement that gives something another name
 * or schema, the names are brought up to date: the OIDs that they had before tell which
 * are meant.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/pg_list.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "base/base.h"
#include "ddl/ddl_internal.h"
#include "ddl/definition.h"
#include "deparse/deparse.h"

/* Columns of the table. */
enum
{
	OBJECT_KIND = 1,
	OBJECT_NAME,
	OBJECT_SHARD,
	OBJECT_MAP,
	OBJECT_COLUMNS = OBJECT_MAP
};

/*
 * Lets no other session create objects on shards before the end of the transaction: two
 * sessions must not both find that one is missing.
 */
void
sl_object_list_lock(void)
{
	LockRelationOid(sl_catalog_oid(SL_OBJECT_TABLE), ShareRowExclusiveLock);
}

/* Begins a scan of the rows of an object, those of one shard if "shard_id" is not 0. */
static SysScanDesc
scan_object(Relation list, ScanKeyData *keys, NameData *kind_name, const char *kind, const char *object, int32 shard_id)
{
	namestrcpy(kind_name, kind);
	ScanKeyInit(&keys[0], OBJECT_KIND, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(kind_name));
	ScanKeyInit(&keys[1], OBJECT_NAME, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(object));
	ScanKeyInit(&keys[2], OBJECT_SHARD, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(shard_id));
	return systable_beginscan(list, sl_catalog_oid(SL_OBJECT_INDEX), true, NULL, shard_id != 0 ? 3 : 2, keys);
}

static int32
get_number(Relation list, HeapTuple tuple, AttrNumber column)
{
	bool		is_null;

	return DatumGetInt32(heap_getattr(tuple, column, RelationGetDescr(list), &is_null));
}

/* Was the object created on the shard by the router? */
bool
sl_object_list_has(const char *kind, const char *object, int32 shard_id)
{
	Relation	list = sl_catalog_open(SL_OBJECT_TABLE, AccessShareLock);
	NameData	name;
	ScanKeyData keys[3];
	SysScanDesc scan = scan_object(list, keys, &name, kind, object, shard_id);
	bool		result = HeapTupleIsValid(systable_getnext(scan));

	systable_endscan(scan);
	table_close(list, AccessShareLock);
	return result;
}

static bool
has_row(Relation list, const char *kind, const char *object, int32 shard_id, int32 map_id)
{
	NameData	name;
	ScanKeyData keys[3];
	SysScanDesc scan = scan_object(list, keys, &name, kind, object, shard_id);
	HeapTuple	tuple;
	bool		result = false;

	while (!result && HeapTupleIsValid(tuple = systable_getnext(scan)))
		result = get_number(list, tuple, OBJECT_MAP) == map_id;
	systable_endscan(scan);
	return result;
}

static void
insert_row(Relation list, const char *kind, const char *object, int32 shard_id, int32 map_id)
{
	Datum		values[OBJECT_COLUMNS];
	bool		nulls[OBJECT_COLUMNS] = {0};
	NameData	name;

	if (has_row(list, kind, object, shard_id, map_id))
		return;
	namestrcpy(&name, kind);
	values[OBJECT_KIND - 1] = NameGetDatum(&name);
	values[OBJECT_NAME - 1] = CStringGetTextDatum(object);
	values[OBJECT_SHARD - 1] = Int32GetDatum(shard_id);
	values[OBJECT_MAP - 1] = Int32GetDatum(map_id);
	sl_catalog_insert(list, heap_form_tuple(RelationGetDescr(list), values, nulls));
	CommandCounterIncrement();
}

/* Lists an object, unless it is listed already. */
void
sl_object_list_add(const char *kind, const char *object, int32 shard_id, int32 map_id)
{
	Relation	list = sl_catalog_open(SL_OBJECT_TABLE, RowExclusiveLock);

	insert_row(list, kind, object, shard_id, map_id);
	table_close(list, NoLock);
}

/* Removes the rows of an object, of one shard, or of all if it is 0. */
void
sl_object_list_remove_from(const char *kind, const char *object, int32 shard_id)
{
	Relation	list = sl_catalog_open(SL_OBJECT_TABLE, RowExclusiveLock);
	NameData	name;
	ScanKeyData keys[3];
	SysScanDesc scan = scan_object(list, keys, &name, kind, object, shard_id);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		sl_catalog_delete(list, &tuple->t_self);
	systable_endscan(scan);
	table_close(list, NoLock);
	CommandCounterIncrement();
}

void
sl_object_list_remove(const char *kind, const char *object)
{
	sl_object_list_remove_from(kind, object, 0);
}

/* Returns the shards that an object is listed for: SlShards. */
List *
sl_object_list_shards(const char *kind, const char *object)
{
	Relation	list = sl_catalog_open(SL_OBJECT_TABLE, AccessShareLock);
	NameData	name;
	ScanKeyData keys[3];
	SysScanDesc scan = scan_object(list, keys, &name, kind, object, 0);
	HeapTuple	tuple;
	List	   *result = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		SlShard    *shard = sl_shard_by_id(get_number(list, tuple, OBJECT_SHARD));

		if (shard->exists)
			result = list_append_unique_ptr(result, shard);
	}
	systable_endscan(scan);
	table_close(list, AccessShareLock);
	return result;
}

/* Returns a map that an object is listed for, or 0. */
int32
sl_object_list_map(const char *kind, const char *object)
{
	Relation	list = sl_catalog_open(SL_OBJECT_TABLE, AccessShareLock);
	NameData	name;
	ScanKeyData keys[3];
	SysScanDesc scan = scan_object(list, keys, &name, kind, object, 0);
	HeapTuple	tuple;
	int32		result = 0;

	while (result == 0 && HeapTupleIsValid(tuple = systable_getnext(scan)))
		result = get_number(list, tuple, OBJECT_MAP);
	systable_endscan(scan);
	table_close(list, AccessShareLock);
	return result;
}

/* Names ----------------------------------------------------------------------- */

/*
 * Returns the function with a signature, or InvalidOid.  to_regprocedure() raises an
 * error if a type of an argument does not exist.
 */
static Oid
find_function(const char *signature)
{
	const char *end = signature;
	bool		is_quoted = false;
	CatCList   *list;
	Oid			result = InvalidOid;
	List	   *names;

	for (; *end != '\0' && (is_quoted || *end != '('); end++)
		is_quoted = is_quoted != (*end == '"');
	names = textToQualifiedNameList(cstring_to_text_with_len(signature, (int) (end - signature)));
	list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(strVal(llast(names))));
	for (int i = 0; i < list->n_members && !OidIsValid(result); i++)
	{
		Oid			oid = ((Form_pg_proc) GETSTRUCT(&list->members[i]->tuple))->oid;

		if (strcmp(sl_object_name("function", oid), signature) == 0)
			result = oid;
	}
	ReleaseSysCacheList(list);
	return result;
}

/* Returns the OID of an object of the router, or InvalidOid. */
Oid
sl_object_find(const char *kind, const char *object)
{
	LOCAL_FCINFO(call, 1);
	Datum		result;

	if (strcmp(kind, "schema") == 0)
		return get_namespace_oid(object, true);
	if (strcmp(kind, "role") == 0)
		return get_role_oid(object, true);
	if (strcmp(kind, "function") == 0)
		return find_function(object);
	InitFunctionCallInfoData(*call, NULL, 1, InvalidOid, NULL, NULL);
	call->args[0].value = CStringGetTextDatum(object);
	call->args[0].isnull = false;
	result = to_regtype(call);
	return call->isnull ? InvalidOid : DatumGetObjectId(result);
}

/* Returns the catalog that objects of a kind are in. */
Oid
sl_object_class(const char *kind)
{
	return strcmp(kind, "function") == 0 ? ProcedureRelationId : strcmp(kind, "type") == 0 ? TypeRelationId :
		strcmp(kind, "schema") == 0 ? NamespaceRelationId : InvalidOid;
}

/* Returns the name under which an object is listed, or NULL if it does not exist. */
char *
sl_object_name(const char *kind, Oid oid)
{
	char	   *result;
	int			level;

	if (strcmp(kind, "schema") == 0)
		return get_namespace_name(oid);
	if (strcmp(kind, "role") == 0)
		return GetUserNameFromId(oid, true);
	if (!SearchSysCacheExists1(strcmp(kind, "type") == 0 ? TYPEOID : PROCOID, ObjectIdGetDatum(oid)))
		return NULL;
	level = sl_deparse_begin_plain();
	result = strcmp(kind, "type") == 0 ? format_type_be_qualified(oid) : format_procedure_qualified(oid);
	sl_deparse_end_plain(level);
	return result;
}

/* Returns the schema of an object, which is its own if it is one; InvalidOid for a role. */
Oid
sl_object_schema(const SlListedObject *object)
{
	bool		is_type = strcmp(object->kind, "type") == 0;
	HeapTuple	tuple;
	Oid			result;

	if (!is_type && strcmp(object->kind, "function") != 0)
		return strcmp(object->kind, "schema") == 0 ? object->oid : InvalidOid;
	tuple = SearchSysCache1(is_type ? TYPEOID : PROCOID, ObjectIdGetDatum(object->oid));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	result = is_type ? ((Form_pg_type) GETSTRUCT(tuple))->typnamespace : ((Form_pg_proc) GETSTRUCT(tuple))->pronamespace;
	ReleaseSysCache(tuple);
	return result;
}

/* Returns the name of the schema of a function or type, or NULL if there is none. */
char *
sl_object_schema_name(const char *kind, const char *name)
{
	SlListedObject object = {.kind = pstrdup(kind),.name = pstrdup(name),.oid = sl_object_find(kind, name)};

	return OidIsValid(object.oid) ? get_namespace_name(sl_object_schema(&object)) : NULL;
}

static bool
is_noted(const List *noted, const char *kind, const char *name)
{
	ListCell   *cell;

	foreach(cell, noted)
	{
		const SlListedObject *object = lfirst(cell);

		if (strcmp(object->kind, kind) == 0 && strcmp(object->name, name) == 0)
			return true;
	}
	return false;
}

/* Returns the listed objects that the router has, each once: SlListedObjects. */
List *
sl_object_note_names(void)
{
	Relation	list;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *result = NIL;

	if (!OidIsValid(sl_catalog_find(SL_OBJECT_TABLE)))
		return NIL;
	list = sl_catalog_open(SL_OBJECT_TABLE, AccessShareLock);
	scan = systable_beginscan(list, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Datum		values[OBJECT_COLUMNS];
		bool		nulls[OBJECT_COLUMNS];
		SlListedObject *object;
		char	   *kind;
		char	   *name;

		heap_deform_tuple(tuple, RelationGetDescr(list), values, nulls);
		kind = NameStr(*DatumGetName(values[OBJECT_KIND - 1]));
		name = TextDatumGetCString(values[OBJECT_NAME - 1]);
		if (is_noted(result, kind, name))
			continue;
		object = palloc(sizeof(SlListedObject));
		object->kind = pstrdup(kind);
		object->name = name;
		object->oid = sl_object_find(kind, name);
		if (OidIsValid(object->oid))
			result = lappend(result, object);
	}
	systable_endscan(scan);
	table_close(list, AccessShareLock);
	return result;
}

static void
rename_rows(const SlListedObject *object, const char *new_name)
{
	Relation	list = sl_catalog_open(SL_OBJECT_TABLE, RowExclusiveLock);
	NameData	name;
	ScanKeyData keys[3];
	SysScanDesc scan = scan_object(list, keys, &name, object->kind, object->name, 0);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		int32		shard_id = get_number(list, tuple, OBJECT_SHARD);
		int32		map_id = get_number(list, tuple, OBJECT_MAP);

		sl_catalog_delete(list, &tuple->t_self);
		insert_row(list, object->kind, new_name, shard_id, map_id);
	}
	systable_endscan(scan);
	table_close(list, NoLock);
}

/*
 * Lists objects under the names that they have got since they were noted.  A role keeps
 * its name on the shards.
 */
void
sl_object_follow_names(const List *noted)
{
	ListCell   *cell;

	foreach(cell, noted)
	{
		const SlListedObject *object = lfirst(cell);
		char	   *name = strcmp(object->kind, "role") != 0 ? sl_object_name(object->kind, object->oid) : NULL;

		if (name != NULL && strcmp(name, object->name) != 0)
			rename_rows(object, name);
	}
}
