/*
 * orphaned_rows.c
 *		Orphaned rows: rows that a shard has and does not own.  Before the
 *		switch of a move these are the copied ones, after it those left on
 *		the source.
 *
 * Every map in the session's cache has the list of them, read with the map and
 * by the same snapshot, so that routing and the ownership filter are always
 * consistent.  It is empty unless moves are active.  The row is written again
 * by the switch: so its xmin tells which transactions are older than the
 * switch.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/base.h"
#include "metadata/map.h"

/* Columns, in the order of sql/install/50_move.sql. */
enum
{
	ORPHANED_MOVE = 1, ORPHANED_MAP_ID, ORPHANED_SHARD_ID, ORPHANED_LOW_TOKEN, ORPHANED_HIGH_TOKEN,
	ORPHANED_LOW, ORPHANED_HIGH, ORPHANED_IS_DEFAULT, ORPHANED_STATE, ORPHANED_AFTER_SWITCH,
	ORPHANED_COLUMNS = ORPHANED_AFTER_SWITCH
};

/* Columns of catalog_move that a change of a map must know. */
enum
{
	MOVE_ID = 1, MOVE_MAP_ID, MOVE_SHARDLET, MOVE_FROM_SHARD, MOVE_TO_SHARD, MOVE_IS_OPEN = 10
};

static ArrayType *
copy_array(Datum value, bool is_null)
{
	return is_null ? NULL : DatumGetArrayTypePCopy(value);
}

static void
read_orphaned(HeapTuple tuple, TupleDesc descriptor, SlOrphanedRange *orphan)
{
	Datum		values[ORPHANED_COLUMNS];
	bool		nulls[ORPHANED_COLUMNS];
	SlShardletRow *range = &orphan->range;

	memset(orphan, 0, sizeof(SlOrphanedRange));
	heap_deform_tuple(tuple, descriptor, values, nulls);
	orphan->move = DatumGetInt64(values[ORPHANED_MOVE - 1]);
	orphan->shard = sl_shard_by_id(DatumGetInt32(values[ORPHANED_SHARD_ID - 1]));
	orphan->xmin = HeapTupleHeaderGetXmin(tuple->t_data);
	orphan->is_after_switch = DatumGetBool(values[ORPHANED_AFTER_SWITCH - 1]);
	range->map_id = DatumGetInt32(values[ORPHANED_MAP_ID - 1]);
	range->shard_id = orphan->shard->id;
	range->has_low_token = !nulls[ORPHANED_LOW_TOKEN - 1];
	if (range->has_low_token)
		range->low_token = DatumGetInt64(values[ORPHANED_LOW_TOKEN - 1]);
	range->has_high_token = !nulls[ORPHANED_HIGH_TOKEN - 1];
	if (range->has_high_token)
		range->high_token = DatumGetInt64(values[ORPHANED_HIGH_TOKEN - 1]);
	range->low = copy_array(values[ORPHANED_LOW - 1], nulls[ORPHANED_LOW - 1]);
	range->high = copy_array(values[ORPHANED_HIGH - 1], nulls[ORPHANED_HIGH - 1]);
	range->is_default = DatumGetBool(values[ORPHANED_IS_DEFAULT - 1]);
	range->state = sl_state_parse(TextDatumGetCString(values[ORPHANED_STATE - 1]));
}

static void
append_orphaned(SlMap *map, HeapTuple tuple, TupleDesc descriptor)
{
	MemoryContext old_context = MemoryContextSwitchTo(map->context);

	map->orphaned = map->orphaned == NULL ? palloc(sizeof(SlOrphanedRange)) :
		repalloc(map->orphaned, sizeof(SlOrphanedRange) * (map->orphaned_count + 1));
	read_orphaned(tuple, descriptor, &map->orphaned[map->orphaned_count]);
	map->orphaned_count++;
	MemoryContextSwitchTo(old_context);
}

/* Reads the orphaned ranges of a map that is being read. */
void
sl_orphaned_load(SlMap *map, int32 map_id, Snapshot snapshot)
{
	Relation	relation = sl_catalog_open(SL_ORPHANED_TABLE, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, ORPHANED_MAP_ID, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(map_id));
	scan = systable_beginscan(relation, sl_catalog_oid(SL_ORPHANED_INDEX), true, snapshot, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		append_orphaned(map, tuple, RelationGetDescr(relation));
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
}

/* Returns the shardlet of a move, or 0. */
static int64
shardlet_of(int64 move)
{
	Relation	relation = sl_catalog_open(SL_MOVE_TABLE, AccessShareLock);
	int64		result = 0;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		is_null;

	ScanKeyInit(&key, MOVE_ID, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(move));
	scan = systable_beginscan(relation, sl_catalog_oid(SL_MOVE_ID_INDEX), true, NULL, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
		result = DatumGetInt64(heap_getattr(tuple, MOVE_SHARDLET, RelationGetDescr(relation), &is_null));
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/* A move that is being undone copies no more rows. */
static bool
is_arriving(const SlOrphanedRange *orphan, int32 shard_id)
{
	return orphan->shard->id == shard_id && !orphan->is_after_switch && orphan->range.state != SL_STATE_ONLINE;
}

/*
 * Returns pointers to the ids of the shardlets that are being moved to a
 * shard.
 */
List *
sl_orphaned_arriving(int32 map_id, int32 shard_id)
{
	Relation	relation = sl_catalog_open(SL_ORPHANED_TABLE, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, ORPHANED_MAP_ID, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(map_id));
	scan = systable_beginscan(relation, sl_catalog_oid(SL_ORPHANED_INDEX), true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		SlOrphanedRange orphan;
		int64	   *shardlet;

		read_orphaned(tuple, RelationGetDescr(relation), &orphan);
		if (!is_arriving(&orphan, shard_id))
			continue;
		shardlet = palloc(sizeof(int64));
		*shardlet = shardlet_of(orphan.move);
		result = lappend(result, shardlet);
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/*
 * Records rows that a shard will have.  The caller has the map open for a
 * change.
 */
void
sl_orphaned_insert(const SlOrphanedRange *orphan)
{
	Relation	relation = sl_catalog_open(SL_ORPHANED_TABLE, RowExclusiveLock);
	const SlShardletRow *range = &orphan->range;
	Datum		values[ORPHANED_COLUMNS];
	bool		nulls[ORPHANED_COLUMNS] = {0};

	values[ORPHANED_MOVE - 1] = Int64GetDatum(orphan->move);
	values[ORPHANED_MAP_ID - 1] = Int32GetDatum(range->map_id);
	values[ORPHANED_SHARD_ID - 1] = Int32GetDatum(orphan->shard->id);
	values[ORPHANED_LOW_TOKEN - 1] = Int64GetDatum(range->low_token);
	nulls[ORPHANED_LOW_TOKEN - 1] = !range->has_low_token;
	values[ORPHANED_HIGH_TOKEN - 1] = Int64GetDatum(range->high_token);
	nulls[ORPHANED_HIGH_TOKEN - 1] = !range->has_high_token;
	values[ORPHANED_LOW - 1] = PointerGetDatum(range->low);
	nulls[ORPHANED_LOW - 1] = range->low == NULL;
	values[ORPHANED_HIGH - 1] = PointerGetDatum(range->high);
	nulls[ORPHANED_HIGH - 1] = range->high == NULL;
	values[ORPHANED_IS_DEFAULT - 1] = BoolGetDatum(range->is_default);
	values[ORPHANED_STATE - 1] = CStringGetTextDatum(sl_state_name(range->state));
	values[ORPHANED_AFTER_SWITCH - 1] = BoolGetDatum(orphan->is_after_switch);
	sl_catalog_insert(relation, heap_form_tuple(RelationGetDescr(relation), values, nulls));
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

static void
delete_orphaned(ScanKeyData *keys, int key_count)
{
	Relation	relation = sl_catalog_open(SL_ORPHANED_TABLE, RowExclusiveLock);
	SysScanDesc scan = systable_beginscan(relation, sl_catalog_oid(SL_ORPHANED_INDEX), true, NULL,
										  key_count, keys);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		sl_catalog_delete(relation, &tuple->t_self);
	systable_endscan(scan);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

void
sl_orphaned_delete(int32 map_id, int64 move)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], ORPHANED_MAP_ID, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(map_id));
	ScanKeyInit(&keys[1], ORPHANED_MOVE, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(move));
	delete_orphaned(keys, 2);
}

void
sl_orphaned_delete_all(int32 map_id)
{
	ScanKeyData key;

	ScanKeyInit(&key, ORPHANED_MAP_ID, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(map_id));
	delete_orphaned(&key, 1);
}

/*
 * Makes moves of a map wait for this transaction, which uses the map without a
 * lock on a table.  Map 0: moves of all maps wait before they remove orphaned
 * rows; for a transaction that has snapshots on shards, whose queries must
 * fail if these are too old.
 */
void
sl_orphaned_hold(int32 map_id)
{
	LockDatabaseObject(sl_catalog_oid(SL_MAP_TABLE), (Oid) map_id, SL_ORPHANED_HOLD, AccessShareLock);
}

/* Has a shardlet of the map been switched after the snapshot was taken? */
bool
sl_orphaned_is_newer(const SlMap *map, Snapshot snapshot)
{
	for (int i = 0; i < map->orphaned_count; i++)
	{
		if (map->orphaned[i].is_after_switch && XidInMVCCSnapshot(map->orphaned[i].xmin, snapshot))
			return true;
	}
	return false;
}

/* Is a range of the map being moved online? */
bool
sl_orphaned_is_followed(const SlMap *map)
{
	for (int i = 0; i < map->orphaned_count; i++)
	{
		if (!map->orphaned[i].is_after_switch && map->orphaned[i].range.state == SL_STATE_MOVING)
			return true;
	}
	return false;
}

/*
 * Raises an error if a range of the map is not writable during a move.  For
 * statements that are not restricted to keys, on list maps, whose shardlets
 * are not in memory.
 */
void
sl_orphaned_check_writable(const SlMap *map)
{
	for (int i = 0; i < map->orphaned_count; i++)
	{
		const SlOrphanedRange *orphan = &map->orphaned[i];

		if (!orphan->is_after_switch && (orphan->range.state == SL_STATE_READ_ONLY ||
										 orphan->range.state == SL_STATE_OFFLINE))
			ereport(ERROR,
					errcode(SL_ERR_READ_ONLY),
					errmsg("a shardlet of map \"%s\" is read-only", NameStr(map->name)),
					errdetail("It is being moved: see move %lld in shardlet.moves.",
							  (long long) orphan->move));
	}
}

/* Returns the orphaned range of a move, or NULL. */
const SlOrphanedRange *
sl_orphaned_find(const SlMap *map, int64 move)
{
	for (int i = 0; i < map->orphaned_count; i++)
	{
		if (map->orphaned[i].move == move)
			return &map->orphaned[i];
	}
	return NULL;
}

/*
 * Raises an error if orphaned rows of a dropped shardlet are still to be
 * removed: that would delete rows of the new owner of its keys.
 */
void
sl_orphaned_refuse_lost(const SlMap *map)
{
	for (int i = 0; i < map->orphaned_count; i++)
	{
		SlShardletRow row;
		int64		move = map->orphaned[i].move;

		if (!sl_shardlet_row_read(shardlet_of(move), &row))
			ereport(ERROR,
					errcode(SL_ERR_INVALID),
					errmsg("a move of map \"%s\" is being given up", NameStr(map->name)),
					errdetail("Its shardlet does not exist any more: see move %lld in shardlet.moves.", (long long) move),
					errhint("Wait until it is over."));
	}
}

/* Returns the unfinished move of a shardlet, or 0. */
static int64
find_move_of_shardlet(int64 shardlet)
{
	Relation	relation = sl_catalog_open(SL_MOVE_TABLE, AccessShareLock);
	TupleDesc	descriptor = RelationGetDescr(relation);
	int64		result = 0;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		is_null;

	ScanKeyInit(&key, MOVE_SHARDLET, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(shardlet));
	scan = systable_beginscan(relation, sl_catalog_oid(SL_MOVE_SHARDLET_INDEX), true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (DatumGetBool(heap_getattr(tuple, MOVE_IS_OPEN, descriptor, &is_null)))
			result = DatumGetInt64(heap_getattr(tuple, MOVE_ID, descriptor, &is_null));
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

static bool
is_open_with(HeapTuple tuple, TupleDesc descriptor, int32 shard_id, int32 map_id)
{
	bool		is_null;

	return DatumGetBool(heap_getattr(tuple, MOVE_IS_OPEN, descriptor, &is_null)) &&
		(map_id == 0 || DatumGetInt32(heap_getattr(tuple, MOVE_MAP_ID, descriptor, &is_null)) == map_id) &&
		(DatumGetInt32(heap_getattr(tuple, MOVE_FROM_SHARD, descriptor, &is_null)) == shard_id ||
		 DatumGetInt32(heap_getattr(tuple, MOVE_TO_SHARD, descriptor, &is_null)) == shard_id);
}

/*
 * Returns an unfinished move from or to the shard, or 0.  Map 0: of any map.
 * The caller's own move is ignored.
 */
int64
sl_map_move_with(int32 shard_id, int32 map_id, int64 except)
{
	Relation	relation = sl_catalog_open(SL_MOVE_TABLE, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	int64		result = 0;
	HeapTuple	tuple;

	while (result == 0 && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		is_null;
		int64		id = DatumGetInt64(heap_getattr(tuple, MOVE_ID, RelationGetDescr(relation), &is_null));

		if (id != except && is_open_with(tuple, RelationGetDescr(relation), shard_id, map_id))
			result = id;
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/*
 * Returns the move of a list map's default shardlet that has orphaned rows, or
 * 0.
 */
static int64
find_move_of_default(const SlMap *map)
{
	for (int i = 0; i < map->orphaned_count; i++)
	{
		if (map->orphaned[i].range.is_default)
			return map->orphaned[i].move;
	}
	return 0;
}

/*
 * The range of a list's default depends on all keys of the map: it must not
 * change during a move of the default.
 */
void
sl_map_refuse_moving_default(const SlMap *map)
{
	int64		move = find_move_of_default(map);

	if (move != 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("default shardlet of map \"%s\" is being moved", NameStr(map->name)),
				errdetail("See move %lld in shardlet.moves.", (long long) move));
}

/* Raises an error if the shardlet is being moved. */
void
sl_map_refuse_moving(int64 shardlet)
{
	int64		move = find_move_of_shardlet(shardlet);

	if (move != 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shardlet %lld is being moved", (long long) shardlet),
				errdetail("See move %lld in shardlet.moves.", (long long) move),
				errhint("Wait for it, or stop it with CALL shardlet.cancel_move(%lld).",
						(long long) move));
}
