/*
 * truncate.c
 *		TRUNCATE of distributed tables.
 *
 * Each shard gets one statement with all of its tables, so that foreign keys
 * between them do not matter.  CASCADE is passed on; sequences are the
 * router's, which restarts them itself.
 */
#include "postgres.h"

#include "access/table.h"
#include "commands/tablecmds.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "base/base.h"

/* One shard, and the names of its tables. */
typedef struct Target
{
	SlShard    *shard;
	StringInfoData names;
} Target;

static Target *
find_target(List **targets, SlShard *shard)
{
	ListCell   *cell;
	Target	   *target;

	foreach(cell, *targets)
	{
		target = lfirst(cell);
		if (target->shard == shard)
			return target;
	}
	target = palloc(sizeof(Target));
	target->shard = shard;
	initStringInfo(&target->names);
	*targets = lappend(*targets, target);
	return target;
}

/*
 * Raises an error if a shardlet is not writable: all rows of the map are
 * affected.  Shards without a guard do not check that.  The keys of a list map
 * are not in memory.
 */
static void
check_states(const SlMap *map)
{
	for (int i = 0; i < map->shardlet_count && map->kind != SL_KIND_LIST; i++)
	{
		sl_map_check_readable(map, &map->shardlets[i]);
		sl_map_check_writable(map, &map->shardlets[i]);
	}
	sl_orphaned_check_writable(map);
}

static void
add_table(List **targets, Relation relation)
{
	SlTable    *table = sl_table_get(RelationGetRelid(relation));
	ListCell   *cell;

	if (table == NULL)
		ereport(ERROR,
				errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("foreign table \"%s\" belongs to no map and no shard",
					   RelationGetRelationName(relation)));
	if (table->kind == SL_TABLE_SHARDED)
		check_states(sl_map_get(table->map));
	foreach(cell, sl_table_homes(table))
	{
		Target	   *target = find_target(targets, lfirst(cell));

		sl_row_check_shard(target->shard);
		if (target->names.len > 0)
			appendStringInfoString(&target->names, ", ");
		sl_write_relation(&target->names, relation);
	}
}

/* Runs each shard's statement in the session's transaction on it. */
static void
run_truncate(SlReply *replies, int count)
{
	SlTxnUse	use = {.writes = true};

	sl_snapshot_begin(NIL);
	sl_broadcast_open(replies, count);
	for (int i = 0; i < count; i++)
	{
		SlReply    *reply = &replies[i];

		if (reply->failure == NULL)
			reply->failure = sl_recover_before(reply->shard, reply->conn);
		if (reply->failure != NULL)
			sl_failure_raise(reply->failure, NameStr(reply->shard->name), reply->sql);
	}
	for (int i = 0; i < count; i++)
		sl_txn_join(replies[i].conn, &use);
	sl_broadcast_commands(replies, count, sl_shard_timeout);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure != NULL)
			sl_failure_raise(replies[i].failure, NameStr(replies[i].shard->name), replies[i].sql);
	}
}

void
sl_truncate(List *relations, DropBehavior behavior, bool restart_sequences)
{
	List	   *targets = NIL;
	List	   *shards = NIL;
	SlReply    *replies;
	int			count = 0;
	ListCell   *cell;

	foreach(cell, relations)
		add_table(&targets, lfirst(cell));
	replies = palloc0(sizeof(SlReply) * Max(list_length(targets), 1));
	foreach(cell, targets)
	{
		Target	   *target = lfirst(cell);

		shards = lappend(shards, target->shard);
		replies[count].shard = target->shard;
		replies[count++].sql = psprintf("TRUNCATE %s%s%s", target->names.data,
										restart_sequences ? " RESTART IDENTITY" : "",
										behavior == DROP_CASCADE ? " CASCADE" : "");
	}
	sl_txn_check_span(shards, true);
	run_truncate(replies, count);
}
