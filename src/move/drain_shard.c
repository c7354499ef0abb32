/*
 * drain_shard.c
 *		drain_shard: everything leaves a shard.
 *
 * Placed tables go first, each in a transaction of its own; then its shardlets go to the
 * other shards of their maps, each by a move of the queue.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "metadata/map.h"
#include "move/move.h"

PG_FUNCTION_INFO_V1(shardlet_drain_shard);

typedef struct Drain
{
	SlShard    *shard;
	List	   *rows;			/* of SlShardletRow */
} Drain;

static bool
collect_shardlet(const SlShardletRow *row, void *context)
{
	Drain	   *drain = context;

	if (row->shard_id == drain->shard->id)
	{
		SlShardletRow *copy = palloc(sizeof(SlShardletRow));

		*copy = *row;
		drain->rows = lappend(drain->rows, copy);
	}
	return true;
}

static int
count_of(List *shards, const SlShard *shard)
{
	int			result = 0;
	ListCell   *cell;

	foreach(cell, shards)
		result += lfirst(cell) == shard ? 1 : 0;
	return result;
}

/* A shard for one more shardlet: the one with the fewest for its weight. */
static SlShard *
choose_shard(const SlMap *map, const SlShard *drained, List *taken)
{
	SlShard    *best = NULL;
	double		best_load = 0;
	ListCell   *cell;

	foreach(cell, sl_map_shard_ids(map->id))
	{
		SlShard    *shard = sl_shard_by_id(lfirst_int(cell));
		int64		count;
		double		load;

		if (shard == drained || !shard->exists || shard->state != SL_STATE_ONLINE || shard->weight <= 0)
			continue;
		count = sl_map_count_shardlets(shard->id, map->id) + count_of(taken, shard);
		if (map->kind == SL_KIND_SPREAD && count > 0)
			continue;
		load = ((double) count + 1) / shard->weight;
		if (best == NULL || load < best_load)
		{
			best = shard;
			best_load = load;
		}
	}
	if (best == NULL)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("no shard of map \"%s\" can take a shardlet of shard \"%s\"", NameStr(map->name),
					   NameStr(drained->name)),
				map->kind == SL_KIND_SPREAD ?
				errdetail("Each shard has one shardlet of a spread map at most: to empty this one would be to merge two.") :
				errdetail("A shard takes shardlets if it is online and its weight is above zero."),
				errhint("Add shards with shardlet.alter_map()."));
	return best;
}

static List *
record_of_map(int32 map_id, SlShard *shard, SlMoveMode mode, int parallel)
{
	SlMap	   *map = sl_map_get_by_id(map_id);
	List	   *taken = NIL;
	Drain		drain = {.shard = shard};
	List	   *result = NIL;
	ListCell   *cell;

	sl_shardlet_row_scan(map_id, NULL, collect_shardlet, &drain);
	foreach(cell, drain.rows)
	{
		const SlShardletRow *row = lfirst(cell);
		SlShard    *to = choose_shard(map, shard, taken);

		taken = lappend(taken, to);
		result = lappend(result, sl_move_remember(sl_move_record(row->id, NameStr(to->name), mode, parallel)));
	}
	return result;
}

/* Placed tables ------------------------------------------------------------------------------ */

static int
count_placed(const SlShard *shard)
{
	int			result = 0;
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);

		result += table->kind == SL_TABLE_PLACED && table->shard_id == shard->id ? 1 : 0;
	}
	return result;
}

/* A shard for one more placed table: the one with the fewest for its weight. */
static SlShard *
choose_for_table(const SlShard *drained)
{
	SlShard    *best = NULL;
	double		best_load = 0;
	ListCell   *cell;

	foreach(cell, sl_shard_all())
	{
		SlShard    *shard = lfirst(cell);
		double		load;

		if (shard == drained || shard->state != SL_STATE_ONLINE || shard->weight <= 0)
			continue;
		load = (count_placed(shard) + 1) / shard->weight;
		if (best == NULL || load < best_load)
		{
			best = shard;
			best_load = load;
		}
	}
	if (best == NULL)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("no shard can take the placed tables of shard \"%s\"", NameStr(drained->name)),
				errdetail("A shard takes tables if it is online and its weight is above zero."));
	return best;
}

/* Moves all placed tables; those that were attached stay. */
static void
move_placed(const SlShard *shard, MemoryContext context)
{
	List	   *relids = NIL;
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);

		if (table->kind != SL_TABLE_PLACED || table->shard_id != shard->id || table->is_partition)
			continue;
		if (table->is_attached)
			ereport(WARNING,
					errmsg("table \"%s\" stays on shard \"%s\"", get_rel_name(table->relid), NameStr(shard->name)),
					errdetail("It was attached: the shard's table is not shardlet's to drop."),
					errhint("shardlet.detach() forgets it."));
		else
			relids = lappend_oid(relids, table->relid);
	}
	foreach(cell, relids)
	{
		Oid			types[] = {REGCLASSOID, NAMEOID};
		Datum		params[] = {ObjectIdGetDatum(lfirst_oid(cell)), NameGetDatum(&choose_for_table(shard)->name)};

		if (SPI_execute_with_args("CALL shardlet.move_table($1, $2)", lengthof(types), types, params, NULL, false, 0) != SPI_OK_UTILITY)
			elog(ERROR, "could not move a table");
		SPI_commit();
		MemoryContextSwitchTo(context);
	}
}

/* drain_shard(shard, wait, mode, parallel) */
Datum
shardlet_drain_shard(PG_FUNCTION_ARGS)
{
	SlShard    *shard = sl_shard_by_name(sl_map_arg_name(fcinfo, 0, "shard"), false);
	bool		waits = PG_ARGISNULL(1) || PG_GETARG_BOOL(1);
	SlMoveMode	mode = sl_move_mode_parse(sl_map_arg_text(fcinfo, 2, "mode"));
	int			parallel = sl_move_arg_parallel(fcinfo, 3);
	MemoryContext context = CurrentMemoryContext;
	List	   *moves = NIL;
	ListCell   *cell;

	sl_move_begin_call(fcinfo, "shardlet.drain_shard()");
	MemoryContextSwitchTo(context);
	move_placed(shard, context);
	foreach(cell, sl_map_ids_of_shard(shard->id))
		moves = list_concat(moves, record_of_map(lfirst_int(cell), shard, mode, parallel));
	SPI_commit();
	sl_move_run_queue(moves, parallel, waits);
	sl_move_end_call();
	PG_RETURN_VOID();
}
