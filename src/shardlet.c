/*
 * shardlet.c
 *		The library's entry point.
 *
 * Memory that outlives a statement:
 *
 * - "shardlet maps" and "shardlet shards", hash tables in TopMemoryContext:
 *   one struct for each map and shard that the session has met; never freed.
 * - "shardlet map", a child of CacheMemoryContext for each cached map: its
 *   content, deleted and made anew when the map changed.  The keys of a list
 *   map that were looked up lately are in a child of it, bounded in number.
 * - "shardlet tables", a hash table in TopMemoryContext: one struct for each
 *   relation that was asked for; it goes when the relation changes.
 * - "shardlet shard strings", a child of TopMemoryContext: names and addresses
 *   of the shards, reset when a server changed.
 *
 * - "shardlet connections", a hash table in TopMemoryContext, and for each
 *   connection a context "shardlet connection": its parameters, settings and
 *   prepared statements, reset when it is opened anew.
 * - "shardlet encoders", a child of TopMemoryContext: how values of types are
 *   written, made anew when a type changed.
 * - sets of wait events of several connections, at most eight.
 * - the names of shards that the last statement did without, in
 *   TopMemoryContext, freed by the next one.
 *
 * - "shardlet move", a child of TopMemoryContext in the process that moves a
 *   shardlet: one step with its connections, deleted at its end.
 *
 * - "shardlet hidden rows", a child of TopMemoryContext on shards: which rows do
 *   not count, replaced by the next call of hide_rows().
 *
 * Everything else belongs to the statement, the call site (fn_extra) or the
 * function call.  Connections and results of libpq are outside PostgreSQL's
 * memory; each belongs to a memory context through a reset callback.
 */
#include "postgres.h"

#include "fmgr.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl.h"
#include "fanout/fanout.h"
#include "fdw/modify.h"
#include "guard/guard.h"
#include "map/map.h"
#include "map/table.h"
#include "move/move.h"
#include "plan/plan.h"
#include "plan/road.h"
#include "remote/remote.h"
#include "shard/shard.h"
#include "stat/stat.h"
#include "table/reference.h"
#include "table/table_area.h"
#include "txn/txn.h"
#include "worker/worker.h"

PG_MODULE_MAGIC;

void
_PG_init(void)
{
	sl_base_init();
	sl_shard_init();
	sl_map_init();
	sl_table_init();
	sl_stat_init();
	sl_pool_init();
	sl_encode_init();
	sl_txn_init();
	sl_fanout_init();
	sl_shape_init();
	sl_publish_init();
	sl_copy_in_init();
	sl_pipe_init();
	sl_scan_init();
	sl_modify_init();
	sl_copy_hook_init();
	sl_road_init();
	sl_planner_init();
	sl_shard_hook_init();
	sl_ddl_init();
	sl_reference_init();
	sl_import_init();
	sl_new_shard_init();
	sl_move_init();
	sl_worker_init();
	sl_use_snapshot_init();
	sl_lone_write_init();
	sl_neighbours_init();
	sl_hide_init();
	sl_guard_map_init();
}
