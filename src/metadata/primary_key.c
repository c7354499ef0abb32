/*
 * primary_key.c
 *		Declares a primary key of a foreign table in pg_constraint.
 *
 * Foreign tables have no keys, but the parser only looks into pg_constraint
 * for functional dependencies on the columns of GROUP BY, which generated SQL
 * relies on.  So the router has a row there: it has no index and is not
 * enforced on the router, since the shards enforce the real one.  As long as
 * it includes the shard key it holds over all shards.
 *
 * It is dropped with the table and with each of its columns. pg_dump ignores
 * it.  ALTER COLUMN TYPE would try to recreate it, and fail; so the DDL code
 * drops it before a change of type and creates it again afterwards.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "metadata/table.h"

static void
read_columns(SlPrimaryKey *key, Relation catalog, HeapTuple tuple)
{
	bool		is_null;
	Datum		columns = heap_getattr(tuple, Anum_pg_constraint_conkey, RelationGetDescr(catalog), &is_null);
	Datum	   *numbers;
	int			count;

	if (is_null)
		elog(ERROR, "primary key %u has no columns", key->constraint);
	deconstruct_array(DatumGetArrayTypeP(columns), INT2OID, sizeof(int16), true, TYPALIGN_SHORT,
					  &numbers, NULL, &count);
	for (int i = 0; i < count; i++)
		key->columns = lappend_int(key->columns, DatumGetInt16(numbers[i]));
}

/* Returns the primary key that was declared for a foreign table, or NULL. */
SlPrimaryKey *
sl_primary_key_get(Oid relid)
{
	Relation	catalog;
	SlPrimaryKey *result = NULL;
	ScanKeyData scan_key;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!sl_table_is_remote(relid, get_rel_relkind(relid)))
		return NULL;
	catalog = table_open(ConstraintRelationId, AccessShareLock);
	ScanKeyInit(&scan_key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, ConstraintRelidTypidNameIndexId, true, NULL, 1, &scan_key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint row = (Form_pg_constraint) GETSTRUCT(tuple);

		if (row->contype != CONSTRAINT_PRIMARY)
			continue;
		result = palloc0(sizeof(SlPrimaryKey));
		result->constraint = row->oid;
		result->name = pstrdup(NameStr(row->conname));
		read_columns(result, catalog, tuple);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return result;
}

/* Drops it; a view that depends on it is an error. */
void
sl_primary_key_forget(Oid relid)
{
	SlPrimaryKey *key = sl_primary_key_get(relid);
	ObjectAddress address;

	if (key == NULL)
		return;
	ObjectAddressSet(address, ConstraintRelationId, key->constraint);
	performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	CommandCounterIncrement();
}

/* Are all key columns part of it, so that it holds over all shards? */
static bool
includes_shard_key(const SlTable *table, List *columns)
{
	for (int i = 0; i < table->key_count; i++)
	{
		if (!list_member_int(columns, table->key[i]))
			return false;
	}
	return table->kind == SL_TABLE_PLACED || table->key_count > 0;
}

/* Declares that the columns, by their numbers, are the primary key. */
void
sl_primary_key_declare(const SlTable *table, const char *name, List *columns)
{
	int16		numbers[INDEX_MAX_KEYS];
	ListCell   *cell;

	if (!includes_shard_key(table, columns) || list_length(columns) > INDEX_MAX_KEYS ||
		ConstraintNameIsUsed(CONSTRAINT_RELATION, table->relid, name))
		return;
	foreach(cell, columns)
		numbers[foreach_current_index(cell)] = (int16) lfirst_int(cell);
	sl_create_primary_key(name, get_rel_namespace(table->relid), table->relid, numbers,
						  list_length(columns));
	CacheInvalidateRelcacheByRelid(table->relid);
	CommandCounterIncrement();
}
