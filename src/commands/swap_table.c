/*
 * swap_table.c
 *		Turns a plain table into a foreign one at its place, and back.
 *
 * The relation keeps its OID.  Whatever depends on it, views above views, functions
 * on the row type, grants, comments, sequences, statistics, needs no care then: the
 * rewriter reads the kind of a relation whenever it uses a stored query, and all
 * sessions plan again because the relation's cache entry is invalidated.  PostgreSQL
 * itself turned tables into views like this up to version 15.
 *
 * What only one of the kinds can have is removed or made: the storage with
 * its TOAST table, indexes and the constraints on them, triggers, partitions.
 * NOT NULL, CHECK, defaults, identity and extended statistics stay, since
 * foreign tables have them too.  Everything is done through the catalogs of the
 * transaction, and storage goes at commit and comes back at rollback as with DROP
 * and CREATE TABLE.
 *
 * The caller holds AccessExclusiveLock on the table.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/toast_compression.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/heap.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "catalog/storage.h"
#include "catalog/toasting.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "foreign/foreign.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "commands/commands.h"
#include "compat.h"

/* Removing -------------------------------------------------------------------- */

/* Removes an object that the table has, and what belongs to that. */
static void
remove_object(Oid class_id, Oid object_id)
{
	ObjectAddress address;

	ObjectAddressSet(address, class_id, object_id);
	performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
}

/* Returns the OIDs of rows of a catalog that say "this relation" in a column. */
static List *
find_objects(Oid catalog, Oid index, AttrNumber column, Oid relid,
			 bool (*is_meant) (HeapTuple tuple), AttrNumber oid_column)
{
	Relation	relation = table_open(catalog, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *result = NIL;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(relation, index, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		is_null;

		if (is_meant(tuple))
			result = lappend_oid(result, DatumGetObjectId(heap_getattr(tuple, oid_column, RelationGetDescr(relation), &is_null)));
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

static bool
is_foreign_key(HeapTuple tuple)
{
	return ((Form_pg_constraint) GETSTRUCT(tuple))->contype == CONSTRAINT_FOREIGN;
}

static bool
is_on_index(HeapTuple tuple)
{
	char		type = ((Form_pg_constraint) GETSTRUCT(tuple))->contype;

	return type == CONSTRAINT_PRIMARY || type == CONSTRAINT_UNIQUE || type == CONSTRAINT_EXCLUSION;
}

static bool
is_user_trigger(HeapTuple tuple)
{
	return !((Form_pg_trigger) GETSTRUCT(tuple))->tgisinternal;
}

static void
remove_constraints(Oid relid, bool (*is_meant) (HeapTuple tuple))
{
	ListCell   *cell;

	foreach(cell, find_objects(ConstraintRelationId, ConstraintRelidTypidNameIndexId,
							   Anum_pg_constraint_conrelid, relid, is_meant,
							   Anum_pg_constraint_oid))
	{
		/* A constraint of a parent may have taken it with itself. */
		if (SearchSysCacheExists1(CONSTROID, ObjectIdGetDatum(lfirst_oid(cell))))
			remove_object(ConstraintRelationId, lfirst_oid(cell));
	}
}

static void
remove_triggers(Oid relid)
{
	ListCell   *cell;

	foreach(cell, find_objects(TriggerRelationId, TriggerRelidNameIndexId,
							   Anum_pg_trigger_tgrelid, relid, is_user_trigger,
							   Anum_pg_trigger_oid))
		remove_object(TriggerRelationId, lfirst_oid(cell));
}

static void
remove_indexes(Oid relid)
{
	Relation	relation = table_open(relid, NoLock);
	List	   *indexes = RelationGetIndexList(relation);
	ListCell   *cell;

	table_close(relation, NoLock);
	foreach(cell, indexes)
		remove_object(RelationRelationId, lfirst_oid(cell));
}

/* Partitions go as by DROP TABLE; a view on one of them is an error. */
static void
remove_partitions(Oid relid)
{
	ListCell   *cell;

	foreach(cell, find_inheritance_children(relid, AccessExclusiveLock))
		remove_object(RelationRelationId, lfirst_oid(cell));
}

/*
 * A partition key makes its columns depend on the table, so that none of them
 * can be dropped.
 */
static void
forget_partition_key(Oid relid)
{
	Relation	relation = table_open(DependRelationId, RowExclusiveLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(relation, DependDependerIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend row = (Form_pg_depend) GETSTRUCT(tuple);

		if (row->refclassid == RelationRelationId && row->refobjid == relid &&
			row->deptype == DEPENDENCY_INTERNAL)
			CatalogTupleDelete(relation, &tuple->t_self);
	}
	systable_endscan(scan);
	table_close(relation, RowExclusiveLock);
	RemovePartitionKeyByRelId(relid);
}

/* The TOAST table is cut off from its table first, or that would go with it. */
static void
remove_toast(Oid toast)
{
	if (!OidIsValid(toast))
		return;
	deleteDependencyRecordsFor(RelationRelationId, toast, false);
	CommandCounterIncrement();
	remove_object(RelationRelationId, toast);
}

static void
remove_what_foreign_tables_lack(Oid relid)
{
	remove_triggers(relid);
	remove_constraints(relid, is_foreign_key);
	remove_constraints(relid, is_on_index);
	CommandCounterIncrement();
	remove_indexes(relid);
	remove_partitions(relid);
	CommandCounterIncrement();
}

/* pg_class -------------------------------------------------------------------- */

/* Returns a copy of the table's row, without what only some kinds have. */
static HeapTuple
copy_class_row(Relation catalog, Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	HeapTuple	copy;
	Datum		values[Natts_pg_class] = {0};
	bool		nulls[Natts_pg_class] = {0};
	bool		replaces[Natts_pg_class] = {0};

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	nulls[Anum_pg_class_reloptions - 1] = true;
	replaces[Anum_pg_class_reloptions - 1] = true;
	copy = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replaces);
	ReleaseSysCache(tuple);
	return copy;
}

static void
mark_foreign(Oid relid)
{
	Relation	catalog = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = copy_class_row(catalog, relid);
	Form_pg_class row = (Form_pg_class) GETSTRUCT(tuple);

	row->relkind = RELKIND_FOREIGN_TABLE;
	row->relam = InvalidOid;
	row->relfilenode = InvalidOid;
	row->reltablespace = InvalidOid;
	row->reltoastrelid = InvalidOid;
	row->relallvisible = 0;
	sl_forget_frozen_pages(row);
	row->relhasindex = false;
	row->relhastriggers = false;
	row->relhassubclass = false;
	row->relreplident = REPLICA_IDENTITY_NOTHING;
	row->relfrozenxid = InvalidTransactionId;
	row->relminmxid = InvalidMultiXactId;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	table_close(catalog, RowExclusiveLock);
}

/* Foreign tables cannot say how columns are compressed. */
static void
forget_compression(Relation relation)
{
	Relation	catalog = table_open(AttributeRelationId, RowExclusiveLock);

	for (int i = 1; i <= RelationGetNumberOfAttributes(relation); i++)
	{
		HeapTuple	tuple = SearchSysCacheCopy2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(relation)),
												Int16GetDatum(i));
		Form_pg_attribute row = (Form_pg_attribute) GETSTRUCT(tuple);

		if (row->attcompression != InvalidCompressionMethod)
		{
			row->attcompression = InvalidCompressionMethod;
			CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
		}
		heap_freetuple(tuple);
	}
	table_close(catalog, RowExclusiveLock);
}

/* Makes the row that says on which server the table is, and its options. */
static void
add_foreign_row(Oid relid, List *options)
{
	CreateForeignTableStmt statement = {0};

	statement.servername = SL_TABLES_SERVER_NAME;
	statement.options = options;
	CreateForeignTable(&statement, relid);
}

/*
 * Makes a plain or partitioned table a foreign table.  Its rows are gone; indexes,
 * constraints on them, foreign keys, triggers and partitions as well.
 */
void
sl_swap_to_foreign(Oid relid, List *options, const char *verb)
{
	Relation	relation = table_open(relid, AccessExclusiveLock);
	Oid			toast = relation->rd_rel->reltoastrelid;
	bool		is_partitioned = relation->rd_rel->relkind == RELKIND_PARTITIONED_TABLE;

	CheckTableNotInUse(relation, verb);

	/*
	 * The cache entry of a table that this transaction created would be
	 * brought up to date in place, and that assumes that the kind stays.  The
	 * entry is not in use now, so it can be removed like any other.
	 */
	sl_forget_creation(relation);
	table_close(relation, NoLock);
	remove_what_foreign_tables_lack(relid);
	if (is_partitioned)
		forget_partition_key(relid);
	relation = table_open(relid, NoLock);
	RelationClearMissing(relation);
	forget_compression(relation);
	if (!is_partitioned)
		RelationDropStorage(relation);
	table_close(relation, NoLock);
	deleteDependencyRecordsForClass(RelationRelationId, relid, AccessMethodRelationId,
									DEPENDENCY_NORMAL);
	CommandCounterIncrement();
	mark_foreign(relid);
	remove_toast(toast);
	add_foreign_row(relid, options);
	CacheInvalidateRelcacheByRelid(relid);
	CommandCounterIncrement();
}

/* Back ------------------------------------------------------------------------ */

static void
remove_foreign_row(Oid relid)
{
	sl_shell_remove_row(relid);
	deleteDependencyRecordsForClass(RelationRelationId, relid, ForeignServerRelationId,
									DEPENDENCY_NORMAL);
}

/* The file that the row names is made afterwards, when the relation is a table. */
static void
mark_plain(Oid relid)
{
	Relation	catalog = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = copy_class_row(catalog, relid);
	Form_pg_class row = (Form_pg_class) GETSTRUCT(tuple);

	row->relkind = RELKIND_RELATION;
	row->relam = HEAP_TABLE_AM_OID;
	row->relfilenode = sl_new_file_number(catalog, row->relpersistence);
	row->relpages = 0;
	row->reltuples = -1;
	row->relallvisible = 0;
	sl_forget_frozen_pages(row);
	row->relreplident = REPLICA_IDENTITY_DEFAULT;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	table_close(catalog, RowExclusiveLock);
	CacheInvalidateRelcacheByRelid(relid);
	CommandCounterIncrement();
}

static void
mark_frozen(Oid relid, TransactionId frozen, MultiXactId multi)
{
	Relation	catalog = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class row = (Form_pg_class) GETSTRUCT(tuple);

	row->relfrozenxid = frozen;
	row->relminmxid = multi;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	table_close(catalog, RowExclusiveLock);
}

/* Makes a foreign table of the extension an empty plain table. */
void
sl_swap_to_plain(Oid relid, const char *verb)
{
	Relation	relation = table_open(relid, AccessExclusiveLock);
	TransactionId frozen;
	MultiXactId multi;

	CheckTableNotInUse(relation, verb);
	sl_forget_creation(relation);
	table_close(relation, NoLock);
	remove_what_foreign_tables_lack(relid);
	remove_foreign_row(relid);
	mark_plain(relid);
	relation = table_open(relid, NoLock);
	sl_create_storage(relation, &frozen, &multi);
	table_close(relation, NoLock);
	mark_frozen(relid, frozen, multi);
	CommandCounterIncrement();
	NewRelationCreateToastTable(relid, (Datum) 0);
	CacheInvalidateRelcacheByRelid(relid);
	CommandCounterIncrement();
}
