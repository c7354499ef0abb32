/*
 * stray.c
 *		Rows that a shard has and does not own: copied ones before the switch of a
 *		move, old ones behind it.
 *
 * Every map in the session's cache has the list of them, read with the map and
 * by the same snapshot, so that where rows are and which of them do not count
 * is never of two times.  It is empty but for moves that are under way.  The row
 * is written anew by the switch: so its xmin says which transactions are older
 * than that.
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
#include "map/map.h"

/* Columns, in the order of sql/install/50_move.sql. */
enum
{
	STRAY_MOVE = 1, STRAY_MAP_ID, STRAY_SHARD_ID, STRAY_LOW_TOKEN, STRAY_HIGH_TOKEN,
	STRAY_LOW, STRAY_HIGH, STRAY_IS_DEFAULT, STRAY_STATE, STRAY_IS_BEHIND,
	STRAY_COLUMNS = STRAY_IS_BEHIND
};

/* Of catalog_move, what a change of a map must know. */
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
read_stray(HeapTuple tuple, TupleDesc descriptor, SlStray *stray)
{
	Datum		values[STRAY_COLUMNS];
	bool		nulls[STRAY_COLUMNS];
	SlShardletRow *range = &stray->range;

	memset(stray, 0, sizeof(SlStray));
	heap_deform_tuple(tuple, descriptor, values, nulls);
	stray->move = DatumGetInt64(values[STRAY_MOVE - 1]);
	stray->shard = sl_shard_by_id(DatumGetInt32(values[STRAY_SHARD_ID - 1]));
	stray->xmin = HeapTupleHeaderGetXmin(tuple->t_data);
	stray->is_behind = DatumGetBool(values[STRAY_IS_BEHIND - 1]);
	range->map_id = DatumGetInt32(values[STRAY_MAP_ID - 1]);
	range->shard_id = stray->shard->id;
	range->has_low_token = !nulls[STRAY_LOW_TOKEN - 1];
	if (range->has_low_token)
		range->low_token = DatumGetInt64(values[STRAY_LOW_TOKEN - 1]);
	range->has_high_token = !nulls[STRAY_HIGH_TOKEN - 1];
	if (range->has_high_token)
		range->high_token = DatumGetInt64(values[STRAY_HIGH_TOKEN - 1]);
	range->low = copy_array(values[STRAY_LOW - 1], nulls[STRAY_LOW - 1]);
	range->high = copy_array(values[STRAY_HIGH - 1], nulls[STRAY_HIGH - 1]);
	range->is_default = DatumGetBool(values[STRAY_IS_DEFAULT - 1]);
	range->state = sl_state_parse(TextDatumGetCString(values[STRAY_STATE - 1]));
}

static void
append_stray(SlMap *map, HeapTuple tuple, TupleDesc descriptor)
{
	MemoryContext old_context = MemoryContextSwitchTo(map->context);

	map->strays = map->strays == NULL ? palloc(sizeof(SlStray)) :
		repalloc(map->strays, sizeof(SlStray) * (map->stray_count + 1));
	read_stray(tuple, descriptor, &map->strays[map->stray_count]);
	map->stray_count++;
	MemoryContextSwitchTo(old_context);
}

/* Fills a map that is being read. */
void
sl_stray_load(SlMap *map, int32 map_id, Snapshot snapshot)
{
	Relation	relation = sl_catalog_open(SL_STRAY_TABLE, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, STRAY_MAP_ID, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(map_id));
	scan = systable_beginscan(relation, sl_catalog_oid(SL_STRAY_INDEX), true, snapshot, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		append_stray(map, tuple, RelationGetDescr(relation));
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

/* Rows of a move that is being undone come no more. */
static bool
is_arriving(const SlStray *stray, int32 shard_id)
{
	return stray->shard->id == shard_id && !stray->is_behind && stray->range.state != SL_STATE_ONLINE;
}

/* Returns pointers to the ids of the shardlets whose rows are on their way to a shard. */
List *
sl_stray_arriving(int32 map_id, int32 shard_id)
{
	Relation	relation = sl_catalog_open(SL_STRAY_TABLE, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, STRAY_MAP_ID, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(map_id));
	scan = systable_beginscan(relation, sl_catalog_oid(SL_STRAY_INDEX), true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		SlStray		stray;
		int64	   *shardlet;

		read_stray(tuple, RelationGetDescr(relation), &stray);
		if (!is_arriving(&stray, shard_id))
			continue;
		shardlet = palloc(sizeof(int64));
		*shardlet = shardlet_of(stray.move);
		result = lappend(result, shardlet);
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/* Notes rows that a shard will have.  The caller has the map open for a change. */
void
sl_stray_insert(const SlStray *stray)
{
	Relation	relation = sl_catalog_open(SL_STRAY_TABLE, RowExclusiveLock);
	const SlShardletRow *range = &stray->range;
	Datum		values[STRAY_COLUMNS];
	bool		nulls[STRAY_COLUMNS] = {0};

	values[STRAY_MOVE - 1] = Int64GetDatum(stray->move);
	values[STRAY_MAP_ID - 1] = Int32GetDatum(range->map_id);
	values[STRAY_SHARD_ID - 1] = Int32GetDatum(stray->shard->id);
	values[STRAY_LOW_TOKEN - 1] = Int64GetDatum(range->low_token);
	nulls[STRAY_LOW_TOKEN - 1] = !range->has_low_token;
	values[STRAY_HIGH_TOKEN - 1] = Int64GetDatum(range->high_token);
	nulls[STRAY_HIGH_TOKEN - 1] = !range->has_high_token;
	values[STRAY_LOW - 1] = PointerGetDatum(range->low);
	nulls[STRAY_LOW - 1] = range->low == NULL;
	values[STRAY_HIGH - 1] = PointerGetDatum(range->high);
	nulls[STRAY_HIGH - 1] = range->high == NULL;
	values[STRAY_IS_DEFAULT - 1] = BoolGetDatum(range->is_default);
	values[STRAY_STATE - 1] = CStringGetTextDatum(sl_state_name(range->state));
	values[STRAY_IS_BEHIND - 1] = BoolGetDatum(stray->is_behind);
	sl_catalog_insert(relation, heap_form_tuple(RelationGetDescr(relation), values, nulls));
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

static void
delete_strays(ScanKeyData *keys, int key_count)
{
	Relation	relation = sl_catalog_open(SL_STRAY_TABLE, RowExclusiveLock);
	SysScanDesc scan = systable_beginscan(relation, sl_catalog_oid(SL_STRAY_INDEX), true, NULL,
										  key_count, keys);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		sl_catalog_delete(relation, &tuple->t_self);
	systable_endscan(scan);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

void
sl_stray_delete(int32 map_id, int64 move)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], STRAY_MAP_ID, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(map_id));
	ScanKeyInit(&keys[1], STRAY_MOVE, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(move));
	delete_strays(keys, 2);
}

void
sl_stray_delete_all(int32 map_id)
{
	ScanKeyData key;

	ScanKeyInit(&key, STRAY_MAP_ID, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(map_id));
	delete_strays(&key, 1);
}

/*
 * Makes moves of a map wait for this transaction, which looks at the map without
 * the lock of a table.  Map 0: those of all maps, before they remove what was left
 * behind; for who has snapshots on shards, and must be told that they are too old.
 */
void
sl_stray_hold(int32 map_id)
{
	LockDatabaseObject(sl_catalog_oid(SL_MAP_TABLE), (Oid) map_id, SL_STRAY_HOLD, AccessShareLock);
}

/* Has a shardlet of the map changed its shard after the snapshot was taken? */
bool
sl_stray_is_newer(const SlMap *map, Snapshot snapshot)
{
	for (int i = 0; i < map->stray_count; i++)
	{
		if (map->strays[i].is_behind && XidInMVCCSnapshot(map->strays[i].xmin, snapshot))
			return true;
	}
	return false;
}

/* Does a range of the map go to another shard while rows of it are written? */
bool
sl_stray_is_followed(const SlMap *map)
{
	for (int i = 0; i < map->stray_count; i++)
	{
		if (!map->strays[i].is_behind && map->strays[i].range.state == SL_STATE_MOVING)
			return true;
	}
	return false;
}

/*
 * Fails if a range of the map takes no writes for the time of a move.  For
 * statements that are not of some keys on list maps, whose shardlets nobody
 * looks at one by one.
 */
void
sl_stray_check_writable(const SlMap *map)
{
	for (int i = 0; i < map->stray_count; i++)
	{
		const SlStray *stray = &map->strays[i];

		if (!stray->is_behind && (stray->range.state == SL_STATE_READ_ONLY ||
								  stray->range.state == SL_STATE_OFFLINE))
			ereport(ERROR,
					errcode(SL_ERR_READ_ONLY),
					errmsg("a shardlet of map \"%s\" is read-only", NameStr(map->name)),
					errdetail("It is being moved: see move %lld in shardlet.moves.",
							  (long long) stray->move));
	}
}

/* Returns the rows that a move has somewhere, or NULL. */
const SlStray *
sl_stray_find(const SlMap *map, int64 move)
{
	for (int i = 0; i < map->stray_count; i++)
	{
		if (map->strays[i].move == move)
			return &map->strays[i];
	}
	return NULL;
}

/*
 * Fails if rows are still to be removed of a shardlet that went with its shard: whoever
 * gets its keys now would lose his own.
 */
void
sl_stray_refuse_lost(const SlMap *map)
{
	for (int i = 0; i < map->stray_count; i++)
	{
		SlShardletRow row;
		int64		move = map->strays[i].move;

		if (!sl_shardlet_row_read(shardlet_of(move), &row))
			ereport(ERROR,
					errcode(SL_ERR_INVALID),
					errmsg("a move of map \"%s\" is being given up", NameStr(map->name)),
					errdetail("Its shardlet does not exist any more: see move %lld in shardlet.moves.", (long long) move),
					errhint("Wait until it is over."));
	}
}

/* Returns the move of a shardlet that is not over, or 0. */
int64
sl_map_move_of(int64 shardlet)
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
 * Returns a move from or to the shard that is not over, or 0.  Map 0: of any map.  One
 * move, that of the caller, does not count.
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

/* Returns the move of a list map's default shardlet that has rows somewhere, or 0. */
int64
sl_map_move_of_default(const SlMap *map)
{
	for (int i = 0; i < map->stray_count; i++)
	{
		if (map->strays[i].range.is_default)
			return map->strays[i].move;
	}
	return 0;
}

/* What a list's default has is what no key names: that must not change under a move. */
void
sl_map_refuse_moving_default(const SlMap *map)
{
	int64		move = sl_map_move_of_default(map);

	if (move != 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("default shardlet of map \"%s\" is being moved", NameStr(map->name)),
				errdetail("See move %lld in shardlet.moves.", (long long) move));
}

/* Fails if the shardlet is being moved. */
void
sl_map_refuse_moving(int64 shardlet)
{
	int64		move = sl_map_move_of(shardlet);

	if (move != 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shardlet %lld is being moved", (long long) shardlet),
				errdetail("See move %lld in shardlet.moves.", (long long) move),
				errhint("Wait for it, or stop it with CALL shardlet.cancel_move(%lld).",
						(long long) move));
}
