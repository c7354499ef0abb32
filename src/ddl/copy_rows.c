/*
 * copy_rows.c
 *		Copies the rows of a local table to the shards where they belong.
 *
 * The table is locked, so its rows are those that are committed now or were written
 * by this transaction, whatever snapshot it has.  Partitions are read one after the
 * other.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/tupconvert.h"
#include "catalog/pg_inherits.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/base.h"
#include "ddl/definition.h"

/* Rows on their way. */
typedef struct Transport
{
	const SlTable *table;
	SlMap	   *map;			/* sharded */
	SlShard    *shard;			/* placed */
	SlCoercion	coercions[SL_MAX_KEYS];
	SlCopyToShards *copy;
	SlCopyRow  *row;
	MemoryContext per_row;
	uint64		count;
} Transport;

static void
check_writable(const SlMap *map, const SlShardlet *shardlet)
{
	sl_map_check_readable(map, shardlet);
	if (shardlet->state == SL_STATE_READ_ONLY || shardlet->shard->state == SL_STATE_READ_ONLY)
		ereport(ERROR,
				errcode(SL_ERR_READ_ONLY),
				errmsg("shardlet %lld of map \"%s\" is read-only",
					   (long long) shardlet->id, NameStr(map->name)));
}

static SlShard *
find_shard(Transport *transport, TupleTableSlot *slot)
{
	const SlTable *table = transport->table;
	const SlShardlet *shardlet;
	Datum		key[SL_MAX_KEYS] = {0};

	if (transport->shard != NULL)
		return transport->shard;
	for (int i = 0; i < table->key_count; i++)
	{
		bool		is_null;
		Datum		value = slot_getattr(slot, table->key[i], &is_null);

		if (is_null)
			sl_key_refuse_null();
		key[i] = sl_coercion_apply(&transport->coercions[i], value);
	}
	shardlet = sl_table_route(table, key);
	check_writable(transport->map, shardlet);
	return shardlet->shard;
}

static void
send_row(Transport *transport, TupleTableSlot *slot)
{
	MemoryContext old_context = MemoryContextSwitchTo(transport->per_row);
	SlShard    *shard = find_shard(transport, slot);
	StringInfo	data;

	MemoryContextSwitchTo(old_context);
	data = sl_copy_row_encode(transport->row, slot);
	sl_copy_to_shards_put(transport->copy, shard, data->data, data->len);
	transport->count++;
	MemoryContextReset(transport->per_row);
}

static void
send_partition(Transport *transport, Relation root, Oid partition_oid)
{
	Relation	partition = table_open(partition_oid, NoLock);
	TupleConversionMap *conversion = partition_oid == RelationGetRelid(root) ? NULL :
	convert_tuples_by_name(RelationGetDescr(partition), RelationGetDescr(root));
	TupleTableSlot *slot = table_slot_create(partition, NULL);
	TupleTableSlot *converted = MakeSingleTupleTableSlot(RelationGetDescr(root), &TTSOpsVirtual);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(partition, snapshot, 0, NULL);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		send_row(transport, conversion == NULL ? slot :
				 execute_attr_map_slot(conversion->attrMap, slot, converted));
	}
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(converted);
	ExecDropSingleTupleTableSlot(slot);
	table_close(partition, NoLock);
}

static void
prepare_routing(Transport *transport, Relation root)
{
	const SlTable *table = transport->table;

	if (table->kind == SL_TABLE_PLACED)
	{
		transport->shard = sl_shard_by_id(table->shard_id);
		return;
	}
	transport->map = sl_map_get(table->map);
	for (int i = 0; i < table->key_count; i++)
		sl_coercion_init(&transport->coercions[i],
						 TupleDescAttr(RelationGetDescr(root), table->key[i] - 1)->atttypid,
						 &transport->map->key_types[i], "key column", CurrentMemoryContext);
}

/*
 * Copies all rows of the plain or partitioned table to where the target says.
 * Returns their number.
 */
uint64
sl_table_send_rows(const SlTable *target)
{
	Relation	root = table_open(target->relid, NoLock);
	List	   *leaves = find_all_inheritors(target->relid, AccessExclusiveLock, NULL);
	Transport	transport = {.table = target};
	ListCell   *cell;

	prepare_routing(&transport, root);
	transport.per_row = AllocSetContextCreate(CurrentMemoryContext, "shardlet routed row",
											  ALLOCSET_SMALL_SIZES);
	transport.row = sl_copy_row_make(RelationGetDescr(root), sl_copy_row_columns(RelationGetDescr(root)));
	transport.copy = sl_copy_to_shards_begin(sl_copy_row_sql(transport.row,
															 get_namespace_name(RelationGetNamespace(root)),
															 RelationGetRelationName(root)),
											 sl_copy_row_is_binary(transport.row), GetUserId(), NULL);
	foreach(cell, leaves)
	{
		if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_RELATION)
			send_partition(&transport, root, lfirst_oid(cell));
	}
	if (sl_copy_to_shards_end(transport.copy) != transport.count)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("shards did not take all rows of table \"%s\"", RelationGetRelationName(root)));
	MemoryContextDelete(transport.per_row);
	table_close(root, NoLock);
	return transport.count;
}
