/*
 * map_catalog.c
 *		Rows of the router's catalog tables, to and from structs.
 *
 * Reads use a catalog snapshot unless one is given: they see what is committed
 * and what this transaction has done, in every isolation level.  Writers hold
 * the map's lock (map_change.c), so an update never meets a concurrent one.
 * Every write is followed by CommandCounterIncrement(), so that the next read,
 * in the same function too, sees it.
 *
 * The bounds of a range and the keys of a list are stored as text that reads
 * the same in every session: see sl_map_begin_plain_output().
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "base/base.h"
#include "metadata/map.h"

/* Columns, in the order of sql/install/20_map.sql. */
enum
{
	MAP_ID = 1, MAP_NAME, MAP_KIND, MAP_KEY_TYPES, MAP_VIA, MAP_VERSION,
	MAP_COLUMNS = MAP_VERSION
};

enum
{
	MAP_SHARD_MAP_ID = 1, MAP_SHARD_SHARD_ID, MAP_SHARD_BEHIND, MAP_SHARD_VERSION,
	MAP_SHARD_COLUMNS = MAP_SHARD_VERSION
};

enum
{
	SHARDLET_ID = 1, SHARDLET_MAP_ID, SHARDLET_SHARD_ID, SHARDLET_LOW_TOKEN,
	SHARDLET_HIGH_TOKEN, SHARDLET_LOW, SHARDLET_HIGH, SHARDLET_IS_DEFAULT,
	SHARDLET_STATE, SHARDLET_PINNED, SHARDLET_VERSION,
	SHARDLET_COLUMNS = SHARDLET_VERSION
};

static void
key_int4(ScanKeyData *key, int column, int32 value)
{
	ScanKeyInit(key, column, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(value));
}

static void
key_int8(ScanKeyData *key, int column, int64 value)
{
	ScanKeyInit(key, column, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(value));
}

/* Maps -------------------------------------------------------------------- */

static void
read_map_row(HeapTuple tuple, TupleDesc descriptor, SlMapRow *row)
{
	Datum		values[MAP_COLUMNS];
	bool		nulls[MAP_COLUMNS];
	Datum	   *types;

	heap_deform_tuple(tuple, descriptor, values, nulls);
	row->id = DatumGetInt32(values[MAP_ID - 1]);
	row->name = *DatumGetName(values[MAP_NAME - 1]);
	row->kind = sl_kind_parse(TextDatumGetCString(values[MAP_KIND - 1]));
	deconstruct_array(DatumGetArrayTypeP(values[MAP_KEY_TYPES - 1]), REGTYPEOID,
					  sizeof(Oid), true, TYPALIGN_INT, &types, NULL,
					  &row->key_count);
	for (int i = 0; i < row->key_count; i++)
		row->key_oids[i] = DatumGetObjectId(types[i]);
	row->via = nulls[MAP_VIA - 1] ? NULL : TextDatumGetCString(values[MAP_VIA - 1]);
	row->version = DatumGetInt64(values[MAP_VERSION - 1]);
	row->xmin = HeapTupleHeaderGetXmin(tuple->t_data);
}

static bool
read_map(SlCatalog index, ScanKeyData *key, Snapshot snapshot, SlMapRow *row)
{
	Relation	relation = sl_catalog_open(SL_MAP_TABLE, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, sl_catalog_oid(index), true,
										  snapshot, 1, key);
	HeapTuple	tuple = systable_getnext(scan);
	bool		found = HeapTupleIsValid(tuple);

	if (found)
		read_map_row(tuple, RelationGetDescr(relation), row);
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return found;
}

/* Reads the map of that name; returns false if there is none. */
bool
sl_map_row_read(const char *name, Snapshot snapshot, SlMapRow *row)
{
	NameData	key_name;
	ScanKeyData key;

	namestrcpy(&key_name, name);
	ScanKeyInit(&key, MAP_NAME, BTEqualStrategyNumber, F_NAMEEQ,
				NameGetDatum(&key_name));
	return read_map(SL_MAP_NAME_INDEX, &key, snapshot, row);
}

bool
sl_map_row_read_id(int32 id, SlMapRow *row)
{
	ScanKeyData key;

	key_int4(&key, MAP_ID, id);
	return read_map(SL_MAP_ID_INDEX, &key, NULL, row);
}

void
sl_map_row_insert(const SlMapRow *row)
{
	Relation	relation = sl_catalog_open(SL_MAP_TABLE, RowExclusiveLock);
	Datum		values[MAP_COLUMNS];
	bool		nulls[MAP_COLUMNS] = {0};
	Datum		types[SL_MAX_KEYS];

	for (int i = 0; i < row->key_count; i++)
		types[i] = ObjectIdGetDatum(row->key_oids[i]);
	values[MAP_ID - 1] = Int32GetDatum(row->id);
	values[MAP_NAME - 1] = NameGetDatum(&row->name);
	values[MAP_KIND - 1] = CStringGetTextDatum(sl_kind_name(row->kind));
	values[MAP_KEY_TYPES - 1] =
		PointerGetDatum(construct_array(types, row->key_count, REGTYPEOID,
										sizeof(Oid), true, TYPALIGN_INT));
	nulls[MAP_VIA - 1] = row->via == NULL;
	values[MAP_VIA - 1] = row->via ? CStringGetTextDatum(row->via) : (Datum) 0;
	values[MAP_VERSION - 1] = Int64GetDatum(row->version);
	sl_catalog_insert(relation, heap_form_tuple(RelationGetDescr(relation),
												values, nulls));
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Changes one column of a map's row. */
static void
set_column(int32 map_id, int column, Datum value)
{
	Relation	relation = sl_catalog_open(SL_MAP_TABLE, RowExclusiveLock);
	Datum		values[MAP_COLUMNS] = {0};
	bool		nulls[MAP_COLUMNS] = {0};
	bool		replaces[MAP_COLUMNS] = {0};
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	key_int4(&key, MAP_ID, map_id);
	scan = systable_beginscan(relation, sl_catalog_oid(SL_MAP_ID_INDEX), true,
							  NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "could not find map %d", map_id);
	values[column - 1] = value;
	replaces[column - 1] = true;
	tuple = heap_modify_tuple(tuple, RelationGetDescr(relation), values, nulls,
							  replaces);
	sl_catalog_update(relation, &tuple->t_self, tuple);
	systable_endscan(scan);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

void
sl_map_row_set_version(int32 map_id, int64 version)
{
	set_column(map_id, MAP_VERSION, Int64GetDatum(version));
}

void
sl_map_row_set_via(int32 map_id, const char *via)
{
	set_column(map_id, MAP_VIA, CStringGetTextDatum(via));
}

/* Deletes every row that an index finds; returns their number. */
static int64
delete_rows(SlCatalog table, SlCatalog index, ScanKeyData *keys, int key_count)
{
	Relation	relation = sl_catalog_open(table, RowExclusiveLock);
	SysScanDesc scan = systable_beginscan(relation, sl_catalog_oid(index), true,
										  NULL, key_count, keys);
	HeapTuple	tuple;
	int64		count = 0;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		sl_catalog_delete(relation, &tuple->t_self);
		count++;
	}
	systable_endscan(scan);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
	return count;
}

/* Deletes a map with all its rows. */
void
sl_map_row_delete(int32 map_id)
{
	ScanKeyData key;

	sl_orphaned_delete_all(map_id);
	key_int4(&key, SHARDLET_MAP_ID, map_id);
	delete_rows(SL_SHARDLET_TABLE, SL_SHARDLET_TOKEN_INDEX, &key, 1);
	key_int4(&key, MAP_SHARD_MAP_ID, map_id);
	delete_rows(SL_MAP_SHARD_TABLE, SL_MAP_SHARD_INDEX, &key, 1);
	key_int4(&key, MAP_ID, map_id);
	delete_rows(SL_MAP_TABLE, SL_MAP_ID_INDEX, &key, 1);
	sl_map_note_dropped_map(map_id);
}

/* Shardlets --------------------------------------------------------------- */

static void
read_shardlet_row(HeapTuple tuple, TupleDesc descriptor, SlShardletRow *row)
{
	Datum		values[SHARDLET_COLUMNS];
	bool		nulls[SHARDLET_COLUMNS];

	heap_deform_tuple(tuple, descriptor, values, nulls);
	row->id = DatumGetInt64(values[SHARDLET_ID - 1]);
	row->map_id = DatumGetInt32(values[SHARDLET_MAP_ID - 1]);
	row->shard_id = DatumGetInt32(values[SHARDLET_SHARD_ID - 1]);
	row->has_low_token = !nulls[SHARDLET_LOW_TOKEN - 1];
	row->low_token = row->has_low_token ?
		DatumGetInt64(values[SHARDLET_LOW_TOKEN - 1]) : 0;
	row->has_high_token = !nulls[SHARDLET_HIGH_TOKEN - 1];
	row->high_token = row->has_high_token ?
		DatumGetInt64(values[SHARDLET_HIGH_TOKEN - 1]) : 0;
	row->low = nulls[SHARDLET_LOW - 1] ? NULL :
		DatumGetArrayTypePCopy(values[SHARDLET_LOW - 1]);
	row->high = nulls[SHARDLET_HIGH - 1] ? NULL :
		DatumGetArrayTypePCopy(values[SHARDLET_HIGH - 1]);
	row->is_default = DatumGetBool(values[SHARDLET_IS_DEFAULT - 1]);
	row->state = sl_state_parse(TextDatumGetCString(values[SHARDLET_STATE - 1]));
	row->pinned = DatumGetBool(values[SHARDLET_PINNED - 1]);
	row->version = DatumGetInt64(values[SHARDLET_VERSION - 1]);
	row->tid = tuple->t_self;
}

static HeapTuple
form_shardlet(Relation relation, const SlShardletRow *row)
{
	Datum		values[SHARDLET_COLUMNS];
	bool		nulls[SHARDLET_COLUMNS] = {0};

	values[SHARDLET_ID - 1] = Int64GetDatum(row->id);
	values[SHARDLET_MAP_ID - 1] = Int32GetDatum(row->map_id);
	values[SHARDLET_SHARD_ID - 1] = Int32GetDatum(row->shard_id);
	values[SHARDLET_LOW_TOKEN - 1] = Int64GetDatum(row->low_token);
	nulls[SHARDLET_LOW_TOKEN - 1] = !row->has_low_token;
	values[SHARDLET_HIGH_TOKEN - 1] = Int64GetDatum(row->high_token);
	nulls[SHARDLET_HIGH_TOKEN - 1] = !row->has_high_token;
	values[SHARDLET_LOW - 1] = PointerGetDatum(row->low);
	nulls[SHARDLET_LOW - 1] = row->low == NULL;
	values[SHARDLET_HIGH - 1] = PointerGetDatum(row->high);
	nulls[SHARDLET_HIGH - 1] = row->high == NULL;
	values[SHARDLET_IS_DEFAULT - 1] = BoolGetDatum(row->is_default);
	values[SHARDLET_STATE - 1] = CStringGetTextDatum(sl_state_name(row->state));
	values[SHARDLET_PINNED - 1] = BoolGetDatum(row->pinned);
	values[SHARDLET_VERSION - 1] = Int64GetDatum(row->version);
	return heap_form_tuple(RelationGetDescr(relation), values, nulls);
}

/* Reads one shardlet; returns false if there is none with that id. */
bool
sl_shardlet_row_read(int64 id, SlShardletRow *row)
{
	Relation	relation = sl_catalog_open(SL_SHARDLET_TABLE, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found;

	key_int8(&key, SHARDLET_ID, id);
	scan = systable_beginscan(relation, sl_catalog_oid(SL_SHARDLET_ID_INDEX), true,
							  NULL, 1, &key);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
		read_shardlet_row(tuple, RelationGetDescr(relation), row);
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return found;
}

/* Calls the visitor for rows in index order until it returns false. */
static void
visit_rows(ScanKeyData *keys, int key_count, Snapshot snapshot,
		   SlShardletVisitor visitor, void *context)
{
	Relation	relation = sl_catalog_open(SL_SHARDLET_TABLE, AccessShareLock);
	Relation	index = index_open(sl_catalog_oid(SL_SHARDLET_TOKEN_INDEX),
								   AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(relation, index, snapshot,
												  key_count, keys);
	HeapTuple	tuple;
	SlShardletRow row;

	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		read_shardlet_row(tuple, RelationGetDescr(relation), &row);
		if (!visitor(&row, context))
			break;
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(relation, AccessShareLock);
}

/* Calls the visitor for all shardlets of a map, by low token. */
void
sl_shardlet_row_scan(int32 map_id, Snapshot snapshot, SlShardletVisitor visitor,
					 void *context)
{
	ScanKeyData key;

	key_int4(&key, SHARDLET_MAP_ID, map_id);
	visit_rows(&key, 1, snapshot, visitor, context);
}

/* Calls the visitor for shardlets without a low token: a list's default. */
void
sl_shardlet_row_scan_default(int32 map_id, Snapshot snapshot, SlShardletVisitor visitor,
							 void *context)
{
	ScanKeyData keys[2];

	key_int4(&keys[0], SHARDLET_MAP_ID, map_id);
	ScanKeyEntryInitialize(&keys[1], SK_ISNULL | SK_SEARCHNULL, SHARDLET_LOW_TOKEN,
						   InvalidStrategy, InvalidOid, InvalidOid, InvalidOid, (Datum) 0);
	visit_rows(keys, 2, snapshot, visitor, context);
}

/* Calls the visitor for the shardlets of a map with the given low token. */
void
sl_shardlet_row_scan_token(int32 map_id, int64 token, SlShardletVisitor visitor,
						   void *context)
{
	ScanKeyData keys[2];

	key_int4(&keys[0], SHARDLET_MAP_ID, map_id);
	key_int8(&keys[1], SHARDLET_LOW_TOKEN, token);
	visit_rows(keys, 2, NULL, visitor, context);
}

/*
 * Inserts shardlets, one by one: CatalogTuplesMultiInsertWithInfo() is for
 * tables without TOAST, and would lose a long key in the indexes.
 */
void
sl_shardlet_row_insert(const SlShardletRow *rows, int count)
{
	Relation	relation = sl_catalog_open(SL_SHARDLET_TABLE, RowExclusiveLock);
	CatalogIndexState indexes = CatalogOpenIndexes(relation);

	for (int i = 0; i < count; i++)
	{
		HeapTuple	tuple = form_shardlet(relation, &rows[i]);

		CatalogTupleInsertWithInfo(relation, tuple, indexes);
		heap_freetuple(tuple);
		sl_map_note_shardlet(&rows[i], 0, false);
	}
	CatalogCloseIndexes(indexes);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Updates a row that was read before. */
void
sl_shardlet_row_update(const SlShardletRow *row)
{
	Relation	relation = sl_catalog_open(SL_SHARDLET_TABLE, RowExclusiveLock);
	ItemPointerData tid = row->tid;
	SlShardletRow old;

	if (!sl_shardlet_row_read(row->id, &old))
		elog(ERROR, "could not find shardlet %lld", (long long) row->id);
	sl_map_note_shardlet(row, old.shard_id, false);
	sl_catalog_update(relation, &tid, form_shardlet(relation, row));
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

void
sl_shardlet_row_delete(const SlShardletRow *row)
{
	Relation	relation = sl_catalog_open(SL_SHARDLET_TABLE, RowExclusiveLock);
	ItemPointerData tid = row->tid;

	sl_map_note_shardlet(row, row->shard_id, true);
	sl_catalog_delete(relation, &tid);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Shards of maps ----------------------------------------------------------- */

static List *
list_int_column(SlCatalog table, SlCatalog index, ScanKeyData *keys, int key_count,
				int column)
{
	Relation	relation = sl_catalog_open(table, AccessShareLock);
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *result = NIL;

	scan = systable_beginscan(relation, key_count > 0 ? sl_catalog_oid(index) : InvalidOid,
							  key_count > 0, NULL, key_count, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		is_null;

		result = lappend_int(result,
							 DatumGetInt32(heap_getattr(tuple, column,
														RelationGetDescr(relation),
														&is_null)));
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/* Returns the ids of the shards that a map may use, in ascending order. */
List *
sl_map_shard_ids(int32 map_id)
{
	ScanKeyData key;
	List	   *result;

	key_int4(&key, MAP_SHARD_MAP_ID, map_id);
	result = list_int_column(SL_MAP_SHARD_TABLE, SL_MAP_SHARD_INDEX, &key, 1,
							 MAP_SHARD_SHARD_ID);
	list_sort(result, list_int_cmp);
	return result;
}

static int64
count_rows(SlCatalog table, SlCatalog index, ScanKeyData *keys, int key_count)
{
	List	   *rows = list_int_column(table, index, keys, key_count, SHARDLET_MAP_ID);
	int64		count = list_length(rows);

	list_free(rows);
	return count;
}

/* Counts the shardlets on a shard, of one map or, with 0, of all maps. */
int64
sl_map_count_shardlets(int32 shard_id, int32 map_id)
{
	ScanKeyData keys[2];

	key_int4(&keys[0], SHARDLET_SHARD_ID, shard_id);
	key_int4(&keys[1], SHARDLET_MAP_ID, map_id);
	return count_rows(SL_SHARDLET_TABLE, SL_SHARDLET_SHARD_INDEX, keys,
					  map_id == 0 ? 1 : 2);
}

/* Returns the ids of the maps that may use a shard, in ascending order. */
List *
sl_map_ids_of_shard(int32 shard_id)
{
	List	   *result = NIL;
	List	   *all = list_int_column(SL_MAP_TABLE, SL_MAP_ID_INDEX, NULL, 0, MAP_ID);
	ListCell   *cell;

	list_sort(all, list_int_cmp);
	foreach(cell, all)
	{
		if (list_member_int(sl_map_shard_ids(lfirst_int(cell)), shard_id))
			result = lappend_int(result, lfirst_int(cell));
	}
	return result;
}

void
sl_map_shard_insert(int32 map_id, int32 shard_id)
{
	Relation	relation = sl_catalog_open(SL_MAP_SHARD_TABLE, RowExclusiveLock);
	Datum		values[MAP_SHARD_COLUMNS];
	bool		nulls[MAP_SHARD_COLUMNS] = {0};

	values[MAP_SHARD_MAP_ID - 1] = Int32GetDatum(map_id);
	values[MAP_SHARD_SHARD_ID - 1] = Int32GetDatum(shard_id);
	values[MAP_SHARD_BEHIND - 1] = BoolGetDatum(false);
	values[MAP_SHARD_VERSION - 1] = Int64GetDatum(0);
	sl_catalog_insert(relation, heap_form_tuple(RelationGetDescr(relation),
												values, nulls));
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
	sl_map_note_joined(shard_id);
}

void
sl_map_shard_delete(int32 map_id, int32 shard_id)
{
	ScanKeyData keys[2];

	key_int4(&keys[0], MAP_SHARD_MAP_ID, map_id);
	key_int4(&keys[1], MAP_SHARD_SHARD_ID, shard_id);
	delete_rows(SL_MAP_SHARD_TABLE, SL_MAP_SHARD_INDEX, keys, 2);
}

/* Changes one column of the row of a map and a shard, if there is one. */
static void
set_map_shard(int32 map_id, int32 shard_id, int column, Datum value)
{
	Relation	relation = sl_catalog_open(SL_MAP_SHARD_TABLE, RowExclusiveLock);
	Datum		values[MAP_SHARD_COLUMNS] = {0};
	bool		nulls[MAP_SHARD_COLUMNS] = {0};
	bool		replaces[MAP_SHARD_COLUMNS] = {0};
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	key_int4(&keys[0], MAP_SHARD_MAP_ID, map_id);
	key_int4(&keys[1], MAP_SHARD_SHARD_ID, shard_id);
	scan = systable_beginscan(relation, sl_catalog_oid(SL_MAP_SHARD_INDEX), true, NULL, 2, keys);
	tuple = systable_getnext(scan);
	values[column - 1] = value;
	replaces[column - 1] = true;
	if (HeapTupleIsValid(tuple))
	{
		tuple = heap_modify_tuple(tuple, RelationGetDescr(relation), values, nulls, replaces);
		sl_catalog_update(relation, &tuple->t_self, tuple);
	}
	systable_endscan(scan);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

/* Records whether an offline shard has missed a change of the map. */
void
sl_map_shard_set_behind(int32 map_id, int32 shard_id, bool is_behind)
{
	set_map_shard(map_id, shard_id, MAP_SHARD_BEHIND, BoolGetDatum(is_behind));
}

/* Records the version of the map that a shard was told of. */
void
sl_map_shard_set_version(int32 map_id, int32 shard_id, int64 version)
{
	set_map_shard(map_id, shard_id, MAP_SHARD_VERSION, Int64GetDatum(version));
}

/* Returns the versions that a shard must have of its maps: SlMapShardVersion *. */
List *
sl_map_shard_versions(int32 shard_id)
{
	Relation	relation = sl_catalog_open(SL_MAP_SHARD_TABLE, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	key_int4(&key, MAP_SHARD_SHARD_ID, shard_id);
	scan = systable_beginscan(relation, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		SlMapShardVersion *version = palloc(sizeof(SlMapShardVersion));
		Datum		values[MAP_SHARD_COLUMNS];
		bool		nulls[MAP_SHARD_COLUMNS];

		heap_deform_tuple(tuple, RelationGetDescr(relation), values, nulls);
		version->map_id = DatumGetInt32(values[MAP_SHARD_MAP_ID - 1]);
		version->version = DatumGetInt64(values[MAP_SHARD_VERSION - 1]);
		version->is_changing =
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
		result = lappend(result, version);
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/* Has a shard missed a change of any map? */
bool
sl_map_shard_is_behind(int32 shard_id)
{
	Relation	relation = sl_catalog_open(SL_MAP_SHARD_TABLE, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		is_behind = false;
	bool		is_null;

	key_int4(&key, MAP_SHARD_SHARD_ID, shard_id);
	scan = systable_beginscan(relation, InvalidOid, false, NULL, 1, &key);
	while (!is_behind && HeapTupleIsValid(tuple = systable_getnext(scan)))
		is_behind = DatumGetBool(heap_getattr(tuple, MAP_SHARD_BEHIND,
											  RelationGetDescr(relation), &is_null));
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return is_behind;
}

/* Maps that were dropped ----------------------------------------------------- */

/* Records that a map was dropped, for shards that do not know it yet. */
void
sl_map_note_dropped_map(int32 map_id)
{
	Relation	relation;
	Datum		value = Int32GetDatum(map_id);
	bool		is_null = false;

	if (sl_map_was_dropped(map_id))
		return;
	relation = sl_catalog_open(SL_DROPPED_MAP_TABLE, RowExclusiveLock);
	sl_catalog_insert(relation, heap_form_tuple(RelationGetDescr(relation), &value, &is_null));
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

bool
sl_map_was_dropped(int32 map_id)
{
	ScanKeyData key;

	key_int4(&key, 1, map_id);
	return list_int_column(SL_DROPPED_MAP_TABLE, SL_DROPPED_MAP_INDEX, &key, 1, 1) != NIL;
}

List *
sl_map_dropped_ids(void)
{
	return list_int_column(SL_DROPPED_MAP_TABLE, SL_DROPPED_MAP_INDEX, NULL, 0, 1);
}

List *
sl_map_all_ids(void)
{
	return list_int_column(SL_MAP_TABLE, SL_MAP_ID_INDEX, NULL, 0, MAP_ID);
}

/* Text -------------------------------------------------------------------- */

/*
 * Fixes the output settings until the matching end.  An error in between
 * restores the settings too.
 */
int
sl_map_begin_plain_output(void)
{
	int			nest_level = NewGUCNestLevel();

	sl_guc_set_plain();
	return nest_level;
}

void
sl_map_end_plain_output(int nest_level)
{
	AtEOXact_GUC(true, nest_level);
}
