/*
 * shell_catalog.c
 *		The configuration table that lists shell tables, for dumps.
 *
 * PostgreSQL does not dump the row of pg_foreign_table of a table that is not a
 * foreign one.  A copy of its options is in shardlet.catalog_table, which is dumped:
 * one row for each shell table, and for each of its partitions, written in the
 * transaction that writes the original.  While a table is connected, only
 * pg_foreign_table counts.  In a restored database the copy is all there is.
 *
 * Tables are listed by schema and name.  A column of type regclass would follow
 * them without help, but restoring it fails as a whole if a single table was left
 * out, as "pg_dump --exclude-table" does.  So the names follow RENAME and SET SCHEMA:
 * PostgreSQL calls the object access hook after it has changed a row of pg_class or
 * pg_namespace, and before the change is visible to system caches, which
 * have the old name then.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "metadata/table.h"

/* Columns of the table. */
enum
{
	TABLE_SCHEMA = 1,
	TABLE_NAME,
	TABLE_OPTIONS,
	TABLE_COLUMNS = TABLE_OPTIONS
};

/* Where a relation is found. */
typedef struct QualifiedName
{
	NameData	schema;
	NameData	name;
} QualifiedName;

/* Names ----------------------------------------------------------------------- */

/* Looks the relation's name up in system caches; false if it does not exist. */
static bool
look_name_up(Oid relid, QualifiedName *result)
{
	const char *name = get_rel_name(relid);
	const char *schema = name != NULL ? get_namespace_name(get_rel_namespace(relid)) : NULL;

	if (schema == NULL)
		return false;
	namestrcpy(&result->schema, schema);
	namestrcpy(&result->name, name);
	return true;
}

/*
 * Copies the row with this OID of a catalog as the running command has left it.
 * Returns NULL if there is none.
 */
static HeapTuple
copy_changed_row(Oid catalog_id, Oid index_id, AttrNumber column, Oid oid)
{
	Relation	catalog = table_open(catalog_id, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
	scan = systable_beginscan(catalog, index_id, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return tuple;
}

/* Rows ------------------------------------------------------------------------ */

/*
 * Opens the table, or returns NULL if the database has none: it does not have the
 * extension, or is dropping it.
 */
static Relation
open_list(LOCKMODE lock)
{
	Oid			relid = sl_catalog_find(SL_TABLE_TABLE);

	return OidIsValid(relid) ? try_relation_open(relid, lock) : NULL;
}

/*
 * Begins a scan of the rows with this schema and, unless it is NULL, this name.
 * DROP EXTENSION drops the index before the table: then it is not used.
 */
static SysScanDesc
scan_list(Relation list, ScanKeyData *keys, const NameData *schema, const NameData *name)
{
	Oid			index = sl_catalog_find(SL_TABLE_INDEX);

	ScanKeyInit(&keys[0], TABLE_SCHEMA, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(schema));
	if (name != NULL)
		ScanKeyInit(&keys[1], TABLE_NAME, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(name));
	return systable_beginscan(list, index, OidIsValid(index), NULL, name != NULL ? 2 : 1, keys);
}

/* Deletes the row of a name, if there is one. */
static void
delete_row(Relation list, const QualifiedName *name)
{
	ScanKeyData keys[2];
	SysScanDesc scan = scan_list(list, keys, &name->schema, &name->name);
	HeapTuple	tuple = systable_getnext(scan);

	if (HeapTupleIsValid(tuple))
		sl_catalog_delete(list, &tuple->t_self);
	systable_endscan(scan);
}

static void
insert_row(Relation list, const QualifiedName *name, Datum options)
{
	Datum		values[TABLE_COLUMNS];
	bool		nulls[TABLE_COLUMNS] = {0};

	values[TABLE_SCHEMA - 1] = NameGetDatum(&name->schema);
	values[TABLE_NAME - 1] = NameGetDatum(&name->name);
	values[TABLE_OPTIONS - 1] = options;
	sl_catalog_insert(list, heap_form_tuple(RelationGetDescr(list), values, nulls));
}

/* Gives one row another name.  A row that has it already is of a table that is gone. */
static void
rename_row(Relation list, HeapTuple tuple, const QualifiedName *to)
{
	Datum		values[TABLE_COLUMNS] = {0};
	bool		nulls[TABLE_COLUMNS] = {0};
	bool		replaced[TABLE_COLUMNS] = {0};

	delete_row(list, to);
	values[TABLE_SCHEMA - 1] = NameGetDatum(&to->schema);
	values[TABLE_NAME - 1] = NameGetDatum(&to->name);
	replaced[TABLE_SCHEMA - 1] = replaced[TABLE_NAME - 1] = true;
	sl_catalog_update(list, &tuple->t_self,
					  heap_modify_tuple(tuple, RelationGetDescr(list), values, nulls, replaced));
}

/*
 * Gives the rows of a schema, or the one row of a table in it if "name" is not NULL,
 * the new schema and, if "new_name" is not NULL, the new name.
 */
static void
rename_rows(const NameData *schema, const NameData *name, const NameData *new_schema,
			const NameData *new_name)
{
	Relation	list = open_list(RowExclusiveLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	if (list == NULL)
		return;
	scan = scan_list(list, keys, schema, name);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		QualifiedName to = {.schema = *new_schema};
		bool		is_null;

		to.name = new_name != NULL ? *new_name :
			*DatumGetName(heap_getattr(tuple, TABLE_NAME, RelationGetDescr(list), &is_null));
		rename_row(list, tuple, &to);
	}
	systable_endscan(scan);
	relation_close(list, RowExclusiveLock);
}

/* Interface ------------------------------------------------------------------- */

/*
 * Lists a table with the options that its row of pg_foreign_table has.  The row
 * must be visible.  Replaces an entry of the same name.
 */
void
sl_shell_list_add(Oid relid)
{
	Relation	list = sl_catalog_open(SL_TABLE_TABLE, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCache1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));
	QualifiedName name;
	Datum		options;
	bool		is_null;

	if (!HeapTupleIsValid(tuple) || !look_name_up(relid, &name))
		elog(ERROR, "cache lookup failed for foreign table %u", relid);
	options = SysCacheGetAttr(FOREIGNTABLEREL, tuple, Anum_pg_foreign_table_ftoptions, &is_null);
	if (is_null)
		options = PointerGetDatum(construct_empty_array(TEXTOID));
	delete_row(list, &name);
	insert_row(list, &name, options);
	ReleaseSysCache(tuple);
	relation_close(list, RowExclusiveLock);
}

/* Removes a table from the list, if it is there. */
void
sl_shell_list_remove(Oid relid)
{
	QualifiedName name;
	Relation	list;

	if (!look_name_up(relid, &name))
		return;
	list = open_list(RowExclusiveLock);
	if (list == NULL)
		return;
	delete_row(list, &name);
	relation_close(list, RowExclusiveLock);
}

/* Removes an entry whose table does not exist. */
void
sl_shell_list_remove_entry(const SlListedTable *entry)
{
	Relation	list = sl_catalog_open(SL_TABLE_TABLE, RowExclusiveLock);
	QualifiedName name;

	namestrcpy(&name.schema, entry->schema);
	namestrcpy(&name.name, entry->name);
	delete_row(list, &name);
	relation_close(list, RowExclusiveLock);
}

/* Is the table listed?  One lookup in an index. */
bool
sl_shell_list_has(Oid relid)
{
	QualifiedName name;
	ScanKeyData keys[2];
	Relation	list;
	SysScanDesc scan;
	bool		found;

	if (!OidIsValid(sl_catalog_find(SL_TABLE_TABLE)) || !look_name_up(relid, &name))
		return false;
	list = open_list(AccessShareLock);
	if (list == NULL)
		return false;
	scan = scan_list(list, keys, &name.schema, &name.name);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	relation_close(list, AccessShareLock);
	return found;
}

/* Returns all entries, by schema and name: SlListedTables. */
List *
sl_shell_list_all(void)
{
	Relation	list = sl_catalog_open(SL_TABLE_TABLE, AccessShareLock);
	Relation	index = index_open(sl_catalog_oid(SL_TABLE_INDEX), AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(list, index, NULL, 0, NULL);
	List	   *result = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		SlListedTable *entry = palloc(sizeof(SlListedTable));
		Datum		values[TABLE_COLUMNS];
		bool		nulls[TABLE_COLUMNS];

		heap_deform_tuple(tuple, RelationGetDescr(list), values, nulls);
		entry->schema = pstrdup(NameStr(*DatumGetName(values[TABLE_SCHEMA - 1])));
		entry->name = pstrdup(NameStr(*DatumGetName(values[TABLE_NAME - 1])));
		entry->options = untransformRelOptions(PointerGetDatum(PG_DETOAST_DATUM_COPY(values[TABLE_OPTIONS - 1])));
		result = lappend(result, entry);
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	relation_close(list, AccessShareLock);
	return result;
}

/*
 * The running command has changed the row of pg_class: if the relation has another
 * name or schema now, so has its entry.
 */
void
sl_shell_list_follow_table(Oid relid)
{
	char		kind = get_rel_relkind(relid);
	QualifiedName from;
	HeapTuple	tuple;
	Form_pg_class row;
	const char *schema;
	NameData	new_schema;

	if ((kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE) || !look_name_up(relid, &from))
		return;
	tuple = copy_changed_row(RelationRelationId, ClassOidIndexId, Anum_pg_class_oid, relid);
	if (!HeapTupleIsValid(tuple))
		return;
	row = (Form_pg_class) GETSTRUCT(tuple);
	schema = get_namespace_name(row->relnamespace);
	if (schema == NULL)
		return;
	namestrcpy(&new_schema, schema);
	if (strcmp(NameStr(row->relname), NameStr(from.name)) != 0 || strcmp(schema, NameStr(from.schema)) != 0)
		rename_rows(&from.schema, &from.name, &new_schema, &row->relname);
	heap_freetuple(tuple);
}

/* The same for a row of pg_namespace: the entries of all tables in it. */
void
sl_shell_list_follow_schema(Oid schema_id)
{
	const char *name = get_namespace_name(schema_id);
	NameData	from;
	HeapTuple	tuple;
	Form_pg_namespace row;

	if (name == NULL)
		return;
	namestrcpy(&from, name);
	tuple = copy_changed_row(NamespaceRelationId, NamespaceOidIndexId, Anum_pg_namespace_oid, schema_id);
	if (!HeapTupleIsValid(tuple))
		return;
	row = (Form_pg_namespace) GETSTRUCT(tuple);
	if (strcmp(NameStr(row->nspname), NameStr(from)) != 0)
		rename_rows(&from, NULL, &row->nspname, NULL);
	heap_freetuple(tuple);
}
