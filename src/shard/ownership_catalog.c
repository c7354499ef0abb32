/*
 * ownership_catalog.c
 *		Rows of a shard's catalog tables, to and from structs.
 *
 * As on the router, rows are read and written below the executor: a scan sees
 * what is committed and what this transaction has done, in every isolation
 * level, and no privilege on the tables is needed.  Changes of one map are
 * serialized by the router's lock on the map.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/rel.h"

#include "base/base.h"
#include "shard/shard.h"

/* Columns, in the order of sql/install/36_guard.sql. */
enum
{
	MAP_NAME = 1, MAP_ID, MAP_KIND, MAP_KEY_TYPES, MAP_VIA, MAP_VERSION, MAP_SHARD,
	MAP_COPY_VERSION, MAP_HIDE_KEY, MAP_ROUTER,
	MAP_COLUMNS = MAP_ROUTER
};

enum
{
	ROW_MAP = 1, ROW_ID, ROW_LOW_TOKEN, ROW_HIGH_TOKEN, ROW_LOW, ROW_HIGH,
	ROW_IS_DEFAULT, ROW_STATE, ROW_PINNED, ROW_VERSION, ROW_OWNER,
	ROW_COLUMNS = ROW_OWNER
};

/* "buffer" must live as long as the key. */
static void
key_name(ScanKeyData *key, int column, const char *name, NameData *buffer)
{
	namestrcpy(buffer, name);
	ScanKeyInit(key, column, BTEqualStrategyNumber, F_NAMEEQ, NameGetDatum(buffer));
}

static void
key_int8(ScanKeyData *key, int column, int64 value)
{
	ScanKeyInit(key, column, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(value));
}

/* Maps -------------------------------------------------------------------- */

static void
read_map_row(HeapTuple tuple, TupleDesc descriptor, SlGuardMapRow *row)
{
	Datum		values[MAP_COLUMNS];
	bool		nulls[MAP_COLUMNS];
	Datum	   *types;

	heap_deform_tuple(tuple, descriptor, values, nulls);
	row->name = *DatumGetName(values[MAP_NAME - 1]);
	row->id = DatumGetInt32(values[MAP_ID - 1]);
	row->kind = sl_kind_parse(TextDatumGetCString(values[MAP_KIND - 1]));
	deconstruct_array(DatumGetArrayTypeP(values[MAP_KEY_TYPES - 1]), REGTYPEOID,
					  sizeof(Oid), true, TYPALIGN_INT, &types, NULL, &row->key_count);
	for (int i = 0; i < row->key_count; i++)
		row->key_oids[i] = DatumGetObjectId(types[i]);
	row->via = nulls[MAP_VIA - 1] ? NULL : TextDatumGetCString(values[MAP_VIA - 1]);
	row->version = DatumGetInt64(values[MAP_VERSION - 1]);
	row->shard = *DatumGetName(values[MAP_SHARD - 1]);
	row->copy_version = DatumGetInt64(values[MAP_COPY_VERSION - 1]);
	row->hide_key = nulls[MAP_HIDE_KEY - 1] ? NULL : TextDatumGetCString(values[MAP_HIDE_KEY - 1]);
	row->router = nulls[MAP_ROUTER - 1] ? NULL : TextDatumGetCString(values[MAP_ROUTER - 1]);
}

static HeapTuple
form_map(Relation relation, const SlGuardMapRow *row)
{
	Datum		values[MAP_COLUMNS];
	bool		nulls[MAP_COLUMNS] = {0};
	Datum		types[SL_MAX_KEYS];

	for (int i = 0; i < row->key_count; i++)
		types[i] = ObjectIdGetDatum(row->key_oids[i]);
	values[MAP_NAME - 1] = NameGetDatum(&row->name);
	values[MAP_ID - 1] = Int32GetDatum(row->id);
	values[MAP_KIND - 1] = CStringGetTextDatum(sl_kind_name(row->kind));
	values[MAP_KEY_TYPES - 1] =
		PointerGetDatum(construct_array(types, row->key_count, REGTYPEOID,
										sizeof(Oid), true, TYPALIGN_INT));
	nulls[MAP_VIA - 1] = row->via == NULL;
	values[MAP_VIA - 1] = row->via ? CStringGetTextDatum(row->via) : (Datum) 0;
	values[MAP_VERSION - 1] = Int64GetDatum(row->version);
	values[MAP_SHARD - 1] = NameGetDatum(&row->shard);
	values[MAP_COPY_VERSION - 1] = Int64GetDatum(row->copy_version);
	nulls[MAP_HIDE_KEY - 1] = row->hide_key == NULL;
	values[MAP_HIDE_KEY - 1] = row->hide_key ? CStringGetTextDatum(row->hide_key) : (Datum) 0;
	nulls[MAP_ROUTER - 1] = row->router == NULL;
	values[MAP_ROUTER - 1] = row->router ? CStringGetTextDatum(row->router) : (Datum) 0;
	return heap_form_tuple(RelationGetDescr(relation), values, nulls);
}

/* Returns a copy of a map's tuple, or NULL. */
static HeapTuple
find_map(Relation relation, const char *map)
{
	NameData	buffer;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	key_name(&key, MAP_NAME, map, &buffer);
	scan = systable_beginscan(relation, sl_catalog_oid(SL_GUARD_MAP_INDEX), true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	return tuple;
}

/* Reads the map of that name; returns false if this shard knows none. */
bool
sl_guard_map_row_read(const char *map, SlGuardMapRow *row)
{
	Relation	relation = sl_catalog_open(SL_GUARD_MAP_TABLE, AccessShareLock);
	HeapTuple	tuple = find_map(relation, map);

	if (tuple != NULL)
		read_map_row(tuple, RelationGetDescr(relation), row);
	table_close(relation, AccessShareLock);
	return tuple != NULL;
}

/* Inserts or updates a map's row. */
void
sl_guard_map_row_write(const SlGuardMapRow *row)
{
	Relation	relation = sl_catalog_open(SL_GUARD_MAP_TABLE, RowExclusiveLock);
	HeapTuple	old = find_map(relation, NameStr(row->name));
	HeapTuple	tuple = form_map(relation, row);

	if (old != NULL)
		CatalogTupleUpdate(relation, &old->t_self, tuple);
	else
		CatalogTupleInsert(relation, tuple);
	CacheInvalidateRelcache(relation);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Returns the names of all maps that this shard knows. */
List *
sl_guard_map_names(void)
{
	Relation	relation = sl_catalog_open(SL_GUARD_MAP_TABLE, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	List	   *result = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		SlGuardMapRow row;

		read_map_row(tuple, RelationGetDescr(relation), &row);
		result = lappend(result, pstrdup(NameStr(row.name)));
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/* Shardlets --------------------------------------------------------------- */

static void
read_row(HeapTuple tuple, TupleDesc descriptor, SlGuardRow *row)
{
	Datum		values[ROW_COLUMNS];
	bool		nulls[ROW_COLUMNS];

	heap_deform_tuple(tuple, descriptor, values, nulls);
	row->map = *DatumGetName(values[ROW_MAP - 1]);
	row->id = DatumGetInt64(values[ROW_ID - 1]);
	row->has_low_token = !nulls[ROW_LOW_TOKEN - 1];
	row->low_token = row->has_low_token ? DatumGetInt64(values[ROW_LOW_TOKEN - 1]) : 0;
	row->has_high_token = !nulls[ROW_HIGH_TOKEN - 1];
	row->high_token = row->has_high_token ? DatumGetInt64(values[ROW_HIGH_TOKEN - 1]) : 0;
	row->low = nulls[ROW_LOW - 1] ? NULL : DatumGetArrayTypePCopy(values[ROW_LOW - 1]);
	row->high = nulls[ROW_HIGH - 1] ? NULL : DatumGetArrayTypePCopy(values[ROW_HIGH - 1]);
	row->is_default = DatumGetBool(values[ROW_IS_DEFAULT - 1]);
	row->state = sl_state_parse(TextDatumGetCString(values[ROW_STATE - 1]));
	row->pinned = DatumGetBool(values[ROW_PINNED - 1]);
	row->version = DatumGetInt64(values[ROW_VERSION - 1]);
	row->is_own = nulls[ROW_OWNER - 1];
	memset(&row->owner, 0, sizeof(NameData));
	if (!row->is_own)
		row->owner = *DatumGetName(values[ROW_OWNER - 1]);
	row->tid = tuple->t_self;
	row->xmin = HeapTupleHeaderGetXmin(tuple->t_data);
}

static HeapTuple
form_row(Relation relation, const SlGuardRow *row)
{
	Datum		values[ROW_COLUMNS];
	bool		nulls[ROW_COLUMNS] = {0};

	values[ROW_MAP - 1] = NameGetDatum(&row->map);
	values[ROW_ID - 1] = Int64GetDatum(row->id);
	values[ROW_LOW_TOKEN - 1] = Int64GetDatum(row->low_token);
	nulls[ROW_LOW_TOKEN - 1] = !row->has_low_token;
	values[ROW_HIGH_TOKEN - 1] = Int64GetDatum(row->high_token);
	nulls[ROW_HIGH_TOKEN - 1] = !row->has_high_token;
	values[ROW_LOW - 1] = PointerGetDatum(row->low);
	nulls[ROW_LOW - 1] = row->low == NULL;
	values[ROW_HIGH - 1] = PointerGetDatum(row->high);
	nulls[ROW_HIGH - 1] = row->high == NULL;
	values[ROW_IS_DEFAULT - 1] = BoolGetDatum(row->is_default);
	values[ROW_STATE - 1] = CStringGetTextDatum(sl_state_name(row->state));
	values[ROW_PINNED - 1] = BoolGetDatum(row->pinned);
	values[ROW_VERSION - 1] = Int64GetDatum(row->version);
	values[ROW_OWNER - 1] = NameGetDatum(&row->owner);
	nulls[ROW_OWNER - 1] = row->is_own;
	return heap_form_tuple(RelationGetDescr(relation), values, nulls);
}

/* Reads one shardlet; returns false if this shard knows none with that id. */
bool
sl_guard_row_read(const char *map, int64 shardlet, SlGuardRow *row)
{
	Relation	relation = sl_catalog_open(SL_GUARD_TABLE, AccessShareLock);
	NameData	buffer;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found;

	key_name(&keys[0], ROW_MAP, map, &buffer);
	key_int8(&keys[1], ROW_ID, shardlet);
	scan = systable_beginscan(relation, sl_catalog_oid(SL_GUARD_ID_INDEX), true, NULL, 2, keys);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
		read_row(tuple, RelationGetDescr(relation), row);
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return found;
}

/* Calls the visitor for rows, by low token, until it returns false. */
static void
visit_rows(Snapshot snapshot, ScanKeyData *keys, int key_count, SlGuardVisitor visitor, void *context)
{
	Relation	relation = sl_catalog_open(SL_GUARD_TABLE, AccessShareLock);
	Relation	index = index_open(sl_catalog_oid(SL_GUARD_TOKEN_INDEX), AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(relation, index, snapshot, key_count, keys);
	HeapTuple	tuple;
	SlGuardRow	row;

	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		read_row(tuple, RelationGetDescr(relation), &row);
		if (!visitor(&row, context))
			break;
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(relation, AccessShareLock);
}

/*
 * Calls the visitor for all shardlets of a map as of a snapshot; NULL: as of
 * now.
 */
void
sl_guard_row_scan_at(const char *map, Snapshot snapshot, SlGuardVisitor visitor, void *context)
{
	NameData	buffer;
	ScanKeyData key;

	key_name(&key, ROW_MAP, map, &buffer);
	visit_rows(snapshot, &key, 1, visitor, context);
}

void
sl_guard_row_scan(const char *map, SlGuardVisitor visitor, void *context)
{
	sl_guard_row_scan_at(map, NULL, visitor, context);
}

/* Calls the visitor for those with the given low token. */
void
sl_guard_row_scan_token(const char *map, int64 token, SlGuardVisitor visitor, void *context)
{
	NameData	buffer;
	ScanKeyData keys[2];

	key_name(&keys[0], ROW_MAP, map, &buffer);
	key_int8(&keys[1], ROW_LOW_TOKEN, token);
	visit_rows(NULL, keys, 2, visitor, context);
}

void
sl_guard_row_insert(const SlGuardRow *rows, int count)
{
	Relation	relation = sl_catalog_open(SL_GUARD_TABLE, RowExclusiveLock);
	CatalogIndexState indexes = CatalogOpenIndexes(relation);

	for (int i = 0; i < count; i++)
	{
		HeapTuple	tuple = form_row(relation, &rows[i]);

		CatalogTupleInsertWithInfo(relation, tuple, indexes);
		heap_freetuple(tuple);
	}
	CatalogCloseIndexes(indexes);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Updates a row that was read before. */
void
sl_guard_row_update(const SlGuardRow *row)
{
	Relation	relation = sl_catalog_open(SL_GUARD_TABLE, RowExclusiveLock);
	ItemPointerData tid = row->tid;

	CatalogTupleUpdate(relation, &tid, form_row(relation, row));
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

void
sl_guard_row_delete(const SlGuardRow *row)
{
	Relation	relation = sl_catalog_open(SL_GUARD_TABLE, RowExclusiveLock);
	ItemPointerData tid = row->tid;

	CatalogTupleDelete(relation, &tid);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Deletes a map with all its rows. */
void
sl_guard_map_delete(const char *map)
{
	Relation	rows = sl_catalog_open(SL_GUARD_TABLE, RowExclusiveLock);
	Relation	maps = sl_catalog_open(SL_GUARD_MAP_TABLE, RowExclusiveLock);
	HeapTuple	tuple = find_map(maps, map);
	NameData	buffer;
	ScanKeyData key;
	SysScanDesc scan;

	if (tuple != NULL)
		CatalogTupleDelete(maps, &tuple->t_self);
	key_name(&key, ROW_MAP, map, &buffer);
	scan = systable_beginscan(rows, sl_catalog_oid(SL_GUARD_ID_INDEX), true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		CatalogTupleDelete(rows, &tuple->t_self);
	systable_endscan(scan);
	CacheInvalidateRelcache(maps);
	table_close(maps, RowExclusiveLock);
	table_close(rows, RowExclusiveLock);
	CommandCounterIncrement();
}
