/*
 * shardlet.c
 *		The library's entry point.
 *
 * Memory that outlives a statement:
 *
 * - "shardlet maps" and "shardlet shards", hash tables in TopMemoryContext:
 *   one struct for each map and shard that the session has used; never freed.
 * - "shardlet map", a child of CacheMemoryContext for each cached map: its
 *   content, deleted and read again when the map changed.  The keys of a list
 *   map that were looked up are in a child of it, bounded in number.
 * - "shardlet tables", a hash table in TopMemoryContext: one struct for each
 *   relation that was looked up; removed when the relation changes.
 * - "shardlet shard strings", a child of TopMemoryContext: names and addresses
 *   of the shards, reset when a server changed.
 *
 * - "shardlet connections", a hash table in TopMemoryContext, and for each
 *   connection a context "shardlet connection": its parameters, settings and
 *   prepared statements, reset when it is reopened.
 * - "shardlet encoders", a child of TopMemoryContext: how values of types are
 *   written, made again when a type changed.
 * - sets of wait events of several connections, at most eight.
 * - the names of shards that the last statement did without, in
 *   TopMemoryContext, freed by the next one.
 *
 * - "shardlet move", a child of TopMemoryContext in the process that moves a
 *   shardlet: one step with its connections, deleted at its end.
 *
 * - "shardlet hidden rows", a child of TopMemoryContext on shards: the
 *   conditions of orphaned rows, replaced by the next call of hide_rows().
 *
 * Everything else belongs to the statement, the call site (fn_extra) or the
 * function call.  Connections and results of libpq are outside PostgreSQL's
 * memory; each belongs to a memory context through a reset callback.
 */
#include "postgres.h"

#include "fmgr.h"

#include "access/foreign_modify.h"
#include "access/shell_access.h"
#include "base/base.h"
#include "base/hooks.h"
#include "commands/commands.h"
#include "compat.h"
#include "connection/connection.h"
#include "ddl/ddl.h"
#include "executor/multi_shard.h"
#include "metadata/map.h"
#include "metadata/shared_memory.h"
#include "metadata/table.h"
#include "move/move.h"
#include "planner/planner.h"
#include "planner/remote_scan_plan.h"
#include "reference/reference.h"
#include "shard/shard.h"
#include "transaction/transaction.h"
#include "worker/worker.h"

PG_MODULE_MAGIC;

/* Set by the init functions of the areas below. */
SlHooks		sl_hooks;

void
_PG_init(void)
{
	sl_base_init();
	sl_shard_init();
	sl_router_init();
	sl_map_init();
	sl_table_init();
	sl_shmem_init();
	sl_pool_init();
	sl_encode_init();
	sl_commit_lock_init();
	sl_txn_init();
	sl_multi_shard_init();
	sl_decoder_cache_init();
	sl_publish_init();
	sl_shard_queue_init();
	sl_scan_init();
	sl_router_snapshot_init();
	sl_modify_init();
	sl_copy_hook_init();
	sl_truncate_hook_init();
	sl_shell_init();
	sl_remote_plan_init();
	sl_planner_init();
	sl_shard_hook_init();
	sl_ddl_init();
	sl_new_tables_init();
	sl_reference_change_init();
	sl_import_init();
	sl_new_shard_init();
	sl_move_init();
	sl_worker_init();
	sl_use_snapshot_init();
	sl_autocommit_mark_init();
	sl_parallel_workers_init();
	sl_hide_init();
	sl_guard_map_init();
	sl_run_as_owner_init();
}
