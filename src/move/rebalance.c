/*
 * rebalance.c
 *		rebalance_plan, rebalance: shardlets go to where there is less.
 *
 * The plan is computed by balance.c from what the shards have (shardlet_sizes.c), and
 * carried out by the queue of moves.  Shardlets that are pinned, moving or not online
 * stay.  A shard in a region keeps its rows in that region: shards without one balance
 * among themselves.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "metadata/map.h"
#include "move/balance.h"
#include "move/move.h"
#include "move/shardlet_sizes.h"

PG_FUNCTION_INFO_V1(shardlet_rebalance_plan);
PG_FUNCTION_INFO_V1(shardlet_rebalance);
PG_FUNCTION_INFO_V1(shardlet_balance_numbers);

/* What a move takes whatever its size, and its rate before there is any experience. */
#define MOVE_SECONDS 2.0
#define MOVE_RATE (20.0 * 1024 * 1024)

typedef enum Measure
{
	BY_SIZE,
	BY_ROWS,
	BY_LOAD
} Measure;

typedef struct Rebalancing
{
	SlMap	   *map;
	Measure		by;
	SlShard   **shards;
	SlBalanceShard *numbers;	/* of the same */
	int			shard_count;
	SlShardletSize *sizes;
	SlBalancePiece *pieces;		/* of the same */
	int			count;
	SlBalanceMove *moves;
	int			move_count;
	double		rate;			/* bytes in a second */
} Rebalancing;

static Measure
parse_measure(const char *name)
{
	static const char *const names[] = {"size", "rows", "load"};

	for (int i = 0; i < (int) lengthof(names); i++)
	{
		if (strcmp(name, names[i]) == 0)
			return (Measure) i;
	}
	ereport(ERROR,
			errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("invalid measure \"%s\"", name),
			errhint("Valid measures are \"size\", \"rows\" and \"load\"."));
}

/* Input ----------------------------------------------------------------------------------- */

static bool
is_same_region(const SlShard *a, const SlShard *b)
{
	return a->region == NULL || b->region == NULL ? a->region == b->region : strcmp(a->region, b->region) == 0;
}

/* Describes the map's shards; those that are offline or missing take no part. */
static void
describe_shards(Rebalancing *work, List *shards, List *missing)
{
	ListCell   *cell;

	work->shards = palloc(sizeof(SlShard *) * Max(list_length(shards), 1));
	work->numbers = palloc0(sizeof(SlBalanceShard) * Max(list_length(shards), 1));
	foreach(cell, shards)
	{
		SlShard    *shard = lfirst(cell);
		SlBalanceShard *number = &work->numbers[work->shard_count];

		number->weight = Max(shard->weight, 0);
		number->gives = number->takes = shard->state == SL_STATE_ONLINE && !list_member_ptr(missing, shard);
		number->group = work->shard_count;
		for (int i = work->shard_count - 1; i >= 0; i--)
		{
			if (is_same_region(shard, work->shards[i]))
				number->group = work->numbers[i].group;
		}
		work->shards[work->shard_count++] = shard;
	}
}

static int
find_shard(const Rebalancing *work, int32 id)
{
	for (int i = 0; i < work->shard_count; i++)
	{
		if (work->shards[i]->id == id)
			return i;
	}
	return -1;
}

static void
describe_pieces(Rebalancing *work, List *moves)
{
	work->pieces = palloc_extended(sizeof(SlBalancePiece) * Max(work->count, 1), MCXT_ALLOC_HUGE);
	for (int i = 0; i < work->count; i++)
	{
		const SlShardletSize *size = &work->sizes[i];
		SlBalancePiece *piece = &work->pieces[i];
		ListCell   *cell;

		piece->size = work->by == BY_SIZE ? size->bytes : work->by == BY_ROWS ? size->rows : size->load;
		piece->shard = find_shard(work, size->row.shard_id);
		piece->is_fixed = size->row.pinned || size->row.state != SL_STATE_ONLINE;
		foreach(cell, moves)
		{
			const SlMove *move = lfirst(cell);

			if (move->shardlet != size->row.id)
				continue;
			/* What is on its way counts where it goes to. */
			piece->is_fixed = true;
			piece->shard = find_shard(work, move->to_shard) >= 0 ? find_shard(work, move->to_shard) : piece->shard;
		}
	}
}

/* The rate of moves that are over, so far as they were large enough to tell. */
static double
find_rate(void)
{
	double		rate = 0;
	bool		is_null;

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute("SELECT pg_catalog.sum(bytes_done)::float8 / nullif(pg_catalog.sum(extract(epoch FROM changed - started)), 0)::float8"
					" FROM shardlet.catalog_move WHERE phase = 'done' AND bytes_done > 10000000", true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read moves");
	if (SPI_processed > 0)
	{
		Datum		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null);

		rate = is_null ? 0 : DatumGetFloat8(value);
	}
	SPI_finish();
	return rate > 0 ? rate : MOVE_RATE;
}

static void
check_kind(const SlMap *map)
{
	if (map->kind == SL_KIND_SPREAD)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("map \"%s\" cannot be rebalanced", NameStr(map->name)),
				errdetail("It is a spread map: its rows go round robin over the shards."));
}

/* All shards that have a part in the map: those that it uses, in the order of their ids. */
static List *
list_shards(const SlMap *map)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_map_shard_ids(map->id))
	{
		SlShard    *shard = sl_shard_by_id(lfirst_int(cell));

		if (shard->exists)
			result = lappend(result, shard);
	}
	return result;
}

static List *
without_offline(List *shards)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, shards)
	{
		if (((SlShard *) lfirst(cell))->state != SL_STATE_OFFLINE)
			result = lappend(result, lfirst(cell));
	}
	return result;
}

/* Removes shardlets of shards that do not exist any more. */
static void
forget_lost(Rebalancing *work)
{
	int			kept = 0;

	for (int i = 0; i < work->count; i++)
	{
		if (find_shard(work, work->sizes[i].row.shard_id) >= 0)
			work->sizes[kept++] = work->sizes[i];
	}
	work->count = kept;
}

static Rebalancing *
make_plan(const char *map_name, const char *measure, int max_moves)
{
	Rebalancing *work = palloc0(sizeof(Rebalancing));
	List	   *shards;
	List	   *missing;

	work->by = parse_measure(measure);
	work->map = sl_map_get(map_name);
	check_kind(work->map);
	shards = list_shards(work->map);
	work->sizes = sl_shardlet_sizes_read(work->map, without_offline(shards), &work->count, &missing);
	if (work->by == BY_LOAD)
		sl_shardlet_sizes_add_load(work->map, work->sizes, work->count);
	describe_shards(work, shards, missing);
	forget_lost(work);
	describe_pieces(work, sl_move_list_open());
	work->rate = find_rate();
	work->moves = palloc_extended(sizeof(SlBalanceMove) * Max(work->count, 1), MCXT_ALLOC_HUGE);
	work->move_count = sl_balance_plan(work->numbers, work->shard_count, work->pieces, work->count,
									   work->moves, max_moves);
	return work;
}

static int
get_max_moves(FunctionCallInfo fcinfo, int argument)
{
	int			result = PG_ARGISNULL(argument) ? PG_INT32_MAX : PG_GETARG_INT32(argument);

	if (result < 0)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("max_moves must not be negative"));
	return result;
}

/* rebalance_plan ---------------------------------------------------------------------------- */

enum
{
	PLAN_STEP, PLAN_ACTION, PLAN_SHARDLET, PLAN_FROM, PLAN_TO, PLAN_BYTES, PLAN_SECONDS, PLAN_REASON, PLAN_COLUMNS
};

static char *
describe_share(const SlShard *shard, double share)
{
	if (shard->weight <= 0)
		return psprintf("shard \"%s\" has weight 0", NameStr(shard->name));
	return psprintf("shard \"%s\" has %.0f %% of its share", NameStr(shard->name), share * 100);
}

static void
put_step(ReturnSetInfo *result, const Rebalancing *work, int step)
{
	const SlBalanceMove *move = &work->moves[step];
	const SlShardletSize *size = &work->sizes[move->piece];
	SlShard    *from = work->shards[move->from];
	SlShard    *to = work->shards[move->to];
	Datum		values[PLAN_COLUMNS];
	bool		nulls[PLAN_COLUMNS] = {0};

	values[PLAN_STEP] = Int32GetDatum(step + 1);
	values[PLAN_ACTION] = CStringGetTextDatum("move");
	values[PLAN_SHARDLET] = Int64GetDatum(size->row.id);
	values[PLAN_FROM] = NameGetDatum(&from->name);
	values[PLAN_TO] = NameGetDatum(&to->name);
	values[PLAN_BYTES] = Int64GetDatum((int64) size->bytes);
	values[PLAN_SECONDS] = Float8GetDatum(MOVE_SECONDS + size->bytes / work->rate);
	values[PLAN_REASON] = CStringGetTextDatum(psprintf("%s, and %s.", describe_share(from, move->from_share),
													   describe_share(to, move->to_share)));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* rebalance_plan(map, by, max_moves) */
Datum
shardlet_rebalance_plan(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Rebalancing *work;

	InitMaterializedSRF(fcinfo, 0);
	work = make_plan(sl_map_arg_name(fcinfo, 0, "map"), sl_map_arg_text(fcinfo, 1, "\"by\""), get_max_moves(fcinfo, 2));
	for (int i = 0; i < work->move_count; i++)
		put_step(result, work, i);
	return (Datum) 0;
}

/* rebalance --------------------------------------------------------------------------------- */

/* rebalance(map, by, max_moves, parallel, wait, mode) */
Datum
shardlet_rebalance(PG_FUNCTION_ARGS)
{
	char	   *map = sl_map_arg_name(fcinfo, 0, "map");
	char	   *measure = sl_map_arg_text(fcinfo, 1, "\"by\"");
	int			max_moves = get_max_moves(fcinfo, 2);
	int			parallel = sl_move_arg_parallel(fcinfo, 3);
	bool		waits = PG_ARGISNULL(4) || PG_GETARG_BOOL(4);
	SlMoveMode	mode = sl_move_mode_parse(sl_map_arg_text(fcinfo, 5, "mode"));
	MemoryContext context = CurrentMemoryContext;
	Rebalancing *work;
	List	   *moves = NIL;

	sl_move_begin_call(fcinfo, "shardlet.rebalance()");
	MemoryContextSwitchTo(context);
	work = make_plan(map, measure, max_moves);
	for (int i = 0; i < work->move_count; i++)
	{
		const SlBalanceMove *move = &work->moves[i];

		moves = lappend(moves, sl_move_remember(sl_move_record(work->sizes[move->piece].row.id,
															   NameStr(work->shards[move->to]->name), mode, parallel)));
	}
	SPI_commit();
	if (moves == NIL)
		ereport(NOTICE,
				errmsg("map \"%s\" is balanced", map),
				errdetail("No move would make a shard's share better."));
	sl_move_run_queue(moves, parallel, waits);
	sl_move_end_call();
	PG_RETURN_VOID();
}

/* For tests: the planner alone, with made-up numbers --------------------------------------- */

typedef struct Numbers
{
	Datum	   *values;
	int			count;
} Numbers;

static Numbers
get_numbers(FunctionCallInfo fcinfo, int argument, Oid type, int length, bool by_value, char align)
{
	Numbers		result;
	bool	   *nulls;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(argument), type, length, by_value, align, &result.values, &nulls, &result.count);
	for (int i = 0; i < result.count; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					errmsg("numbers must not be NULL"));
	}
	return result;
}

/* balance_numbers(weights, groups, sizes, shards, fixed, max_moves) → setof (piece, from_shard, to_shard) */
Datum
shardlet_balance_numbers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Numbers		weights = get_numbers(fcinfo, 0, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	Numbers		groups = get_numbers(fcinfo, 1, INT4OID, sizeof(int32), true, TYPALIGN_INT);
	Numbers		sizes = get_numbers(fcinfo, 2, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	Numbers		places = get_numbers(fcinfo, 3, INT4OID, sizeof(int32), true, TYPALIGN_INT);
	Numbers		fixed = get_numbers(fcinfo, 4, BOOLOID, sizeof(bool), true, TYPALIGN_CHAR);
	SlBalanceShard *shards = palloc0(sizeof(SlBalanceShard) * Max(weights.count, 1));
	SlBalancePiece *pieces = palloc0(sizeof(SlBalancePiece) * Max(sizes.count, 1));
	SlBalanceMove *moves = palloc(sizeof(SlBalanceMove) * Max(sizes.count, 1));
	int			count;

	InitMaterializedSRF(fcinfo, 0);
	if (groups.count != weights.count || places.count != sizes.count || fixed.count != sizes.count)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("arrays must have the same length"));
	for (int i = 0; i < weights.count; i++)
	{
		shards[i].weight = Max(DatumGetFloat8(weights.values[i]), 0);
		shards[i].group = Max(DatumGetInt32(groups.values[i]), 0);
		shards[i].gives = shards[i].takes = DatumGetFloat8(weights.values[i]) >= 0;
	}
	for (int i = 0; i < sizes.count; i++)
	{
		pieces[i].size = DatumGetFloat8(sizes.values[i]);
		pieces[i].shard = DatumGetInt32(places.values[i]) - 1;
		pieces[i].is_fixed = DatumGetBool(fixed.values[i]);
		if (pieces[i].shard < 0 || pieces[i].shard >= weights.count)
			ereport(ERROR,
					errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("there is no shard %d", pieces[i].shard + 1));
	}
	count = sl_balance_plan(shards, weights.count, pieces, sizes.count, moves,
							PG_ARGISNULL(5) ? PG_INT32_MAX : PG_GETARG_INT32(5));
	for (int i = 0; i < count; i++)
	{
		Datum		values[] = {
			Int32GetDatum(moves[i].piece + 1), Int32GetDatum(moves[i].from + 1), Int32GetDatum(moves[i].to + 1),
		};
		bool		nulls[lengthof(values)] = {0};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
