/*
 * map_change_log.c
 *		Records what a change of a map has done, for the metadata updates of
 *		shards.
 *
 * Every write of a shardlet's row is recorded here, and handed over when the
 * change is complete.  Updating the shards is the business of a higher area,
 * which sets the function pointers; this one has no connections.
 *
 * A change begins with the lock on its map.  An error in the middle leaves
 * records that are not valid any more, and whose memory may be gone: the next
 * change begins with none.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/hooks.h"
#include "metadata/map.h"

static SlMapChange noted;

/* Begins a change. */
void
sl_map_note_begin(void)
{
	noted.shardlets = NIL;
	noted.joined = NIL;
	noted.dropped_id = 0;
}

static ArrayType *
copy_bound(const ArrayType *bound)
{
	return bound != NULL ? memcpy(palloc(VARSIZE(bound)), bound, VARSIZE(bound)) : NULL;
}

/* Records that a shardlet's row was written, or deleted. */
void
sl_map_note_shardlet(const SlShardletRow *row, int32 old_shard_id, bool is_gone)
{
	MemoryContext old_context = MemoryContextSwitchTo(TopTransactionContext);
	SlShardletChange *change = palloc(sizeof(SlShardletChange));

	change->old_shard_id = old_shard_id;
	change->is_gone = is_gone;
	change->row = *row;
	change->row.low = copy_bound(row->low);
	change->row.high = copy_bound(row->high);
	noted.shardlets = lappend(noted.shardlets, change);
	MemoryContextSwitchTo(old_context);
}

/* Records that a shard was added to the map. */
void
sl_map_note_joined(int32 shard_id)
{
	MemoryContext old_context = MemoryContextSwitchTo(TopTransactionContext);

	noted.joined = lappend_int(noted.joined, shard_id);
	MemoryContextSwitchTo(old_context);
}

/* Records that a shard is dropped, and gets no metadata update. */
void
sl_map_note_dropped(int32 shard_id)
{
	noted.dropped_id = shard_id;
}

/* Ends a change. */
void
sl_map_note_end(int32 map_id)
{
	SlMapChange change = noted;
	SlMapRow	row;

	sl_map_note_begin();
	if ((change.shardlets != NIL || change.joined != NIL) && sl_map_row_read_id(map_id, &row))
		sl_hooks.publish_map_change(&row, &change);
}
