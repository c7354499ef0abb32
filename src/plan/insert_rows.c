/*
 * insert_rows.c
 *		Rows that go to the shards of their keys, one statement a shard.
 *
 * A road whose text takes an array for each column.  All rows are computed first;
 * then it is known which shards are asked, and what each of them gets.
 *
 * RETURNING gives rows in the order in which they were inserted.  So what the
 * shards return is kept, and handed out in the order of the rows that were sent.
 * A shard that keeps a row for itself, because of a trigger or ON CONFLICT DO
 * NOTHING, does not tell which; its rows still come one behind the other.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

#include "fanout/row_route.h"
#include "plan/insert.h"

/* Items of CustomScan.custom_private behind those of a road. */
enum
{
	ROWS_TABLE = SL_ROAD_OWNED + 1,
	ROWS_TYPES,
	ROWS_KEY,
	ROWS_PARAMS
};

typedef struct RowsState
{
	SlRoadState road;			/* must come first */
	SlInsertRows rows;			/* of the plan */
	int			row_count;
	int			column_count;

	/* while it runs */
	Datum	   *values;			/* row by row */
	bool	   *nulls;
	List	   *shards;
	int		   *shard_of;		/* each row; number in the list */

	/* RETURNING */
	Tuplestorestate **stores;	/* of each shard; NULL: nothing has come yet */
	TupleTableSlot *stored;		/* a row with its shard behind it */
	int			next_row;
} RowsState;

static void begin(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *next(CustomScanState *node);
static void rescan(CustomScanState *node);
static void end(CustomScanState *node);
static void explain(CustomScanState *node, List *ancestors, ExplainState *es);

static const CustomExecMethods exec_methods = {
	.CustomName = SL_ROAD_SHIP,
	.BeginCustomScan = begin,
	.ExecCustomScan = next,
	.EndCustomScan = end,
	.ReScanCustomScan = rescan,
	.ExplainCustomScan = explain,
};

Node *
sl_insert_rows_state(void)
{
	RowsState  *state = (RowsState *) newNode(sizeof(RowsState), T_CustomScanState);

	state->road.css.methods = &exec_methods;
	return (Node *) state;
}

/* Makes the node: a road with the rows as its expressions. */
CustomScan *
sl_insert_rows_plan(const SlRoad *road, const SlInsertRows *rows, List *target_list)
{
	CustomScan *scan = sl_road_plan(road, target_list);

	scan->custom_private = lappend(scan->custom_private, makeInteger((int) rows->table));
	scan->custom_private = lappend(scan->custom_private, rows->types);
	scan->custom_private = lappend(scan->custom_private, rows->key);
	scan->custom_private = lappend(scan->custom_private, rows->params);
	return scan;
}

/* Is it such a node, or a road without rows of its own? */
bool
sl_insert_is_rows(const CustomScan *scan)
{
	return list_length(scan->custom_private) > ROWS_TABLE;
}

/* Rows ----------------------------------------------------------------------------- */

/* Computes all rows, in their order. */
static void
compute_rows(RowsState *state)
{
	const SlAsk *ask = &state->road.ask;
	int			count = state->row_count * state->column_count;

	state->values = palloc(sizeof(Datum) * Max(count, 1));
	state->nulls = palloc(sizeof(bool) * Max(count, 1));
	for (int i = 0; i < count; i++)
	{
		ExprState  *expression = list_nth(ask->other_states, i);

		state->values[i] = ExecEvalExpr(expression, ask->node->ps_ExprContext, &state->nulls[i]);
	}
}

static int
number_of(RowsState *state, SlShard *shard)
{
	ListCell   *cell;

	foreach(cell, state->shards)
	{
		if (lfirst(cell) == shard)
			return foreach_current_index(cell);
	}
	state->shards = lappend(state->shards, shard);
	return list_length(state->shards) - 1;
}

/* Finds the shard of each row, by the map of this moment. */
static void
route_rows(RowsState *state)
{
	Relation	relation = table_open(state->rows.table, AccessShareLock);
	SlRowRoute	route;
	Datum		key[SL_MAX_KEYS] = {0};
	bool		nulls[SL_MAX_KEYS] = {0};

	sl_row_route_init(&route, relation);
	state->shards = NIL;
	state->shard_of = palloc(sizeof(int) * Max(state->row_count, 1));
	for (int row = 0; row < state->row_count; row++)
	{
		ListCell   *cell;

		foreach(cell, state->rows.key)
		{
			int			place = row * state->column_count + lfirst_int(cell);

			key[foreach_current_index(cell)] = state->values[place];
			nulls[foreach_current_index(cell)] = state->nulls[place];
		}
		state->shard_of[row] = number_of(state, sl_row_route_key(&route, key, nulls));
	}
	table_close(relation, NoLock);
}

/* What one shard gets in one column. */
static Datum
make_array(const RowsState *state, int shard, int column)
{
	Oid			type = list_nth_oid(state->rows.types, column);
	Datum	   *values = palloc(sizeof(Datum) * Max(state->row_count, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(state->row_count, 1));
	int			count = 0;
	int			lower_bound = 1;
	int16		length;
	bool		by_value;
	char		alignment;

	for (int row = 0; row < state->row_count; row++)
	{
		if (state->shard_of[row] != shard)
			continue;
		values[count] = state->values[row * state->column_count + column];
		nulls[count++] = state->nulls[row * state->column_count + column];
	}
	get_typlenbyvalalign(type, &length, &by_value, &alignment);
	return PointerGetDatum(construct_md_array(values, nulls, 1, &count, &lower_bound, type, length,
											  by_value, alignment));
}

/* Parameters that are the same for all shards. */
typedef struct Common
{
	Oid		   *types;
	Datum	   *values;
	bool	   *nulls;
} Common;

static void
compute_common(const SlAsk *ask, Common *common)
{
	common->types = palloc(sizeof(Oid) * Max(ask->param_count, 1));
	common->values = palloc(sizeof(Datum) * Max(ask->param_count, 1));
	common->nulls = palloc(sizeof(bool) * Max(ask->param_count, 1));
	for (int i = 0; i < ask->param_count; i++)
	{
		common->types[i] = exprType(list_nth(ask->expressions, i));
		common->values[i] = ExecEvalExpr(list_nth(ask->states, i), ask->node->ps_ExprContext,
										 &common->nulls[i]);
	}
}

/* The parameters of one shard. */
static void
make_params(const RowsState *state, int shard, const Common *common, SlParams *params)
{
	int			count = list_length(state->rows.params);
	Oid		   *types = palloc(sizeof(Oid) * Max(count, 1));
	Datum	   *values = palloc(sizeof(Datum) * Max(count, 1));
	bool	   *nulls = palloc0(sizeof(bool) * Max(count, 1));

	for (int i = 0; i < count; i++)
	{
		int			column = list_nth_int(state->rows.params, i);

		if (column >= 0)
		{
			types[i] = get_array_type(list_nth_oid(state->rows.types, column));
			values[i] = make_array(state, shard, column);
		}
		else
		{
			types[i] = common->types[-1 - column];
			values[i] = common->values[-1 - column];
			nulls[i] = common->nulls[-1 - column];
		}
	}
	sl_params_encode(params, count, types, values, nulls);
}

/* The text is about new rows alone, wherever shardlets are moving. */
static const char *
choose(SlAsk *ask, SlFanoutSpec *spec)
{
	RowsState  *state = (RowsState *) ask->node;
	Common		common;
	int			count;

	compute_rows(state);
	route_rows(state);
	compute_common(ask, &common);
	count = list_length(state->shards);
	spec->shards = state->shards;
	spec->shard_params = palloc0(sizeof(SlParams) * Max(count, 1));
	for (int i = 0; i < count; i++)
		make_params(state, i, &common, &spec->shard_params[i]);

	/* They are of the same types everywhere. */
	spec->params = spec->shard_params[0];
	return ask->sql;
}

static void
begin(CustomScanState *node, EState *estate, int eflags)
{
	RowsState  *state = (RowsState *) node;
	const CustomScan *plan = (const CustomScan *) node->ss.ps.plan;

	sl_road_begin(node, estate, eflags);
	state->rows.table = (Oid) intVal(list_nth(plan->custom_private, ROWS_TABLE));
	state->rows.types = list_nth(plan->custom_private, ROWS_TYPES);
	state->rows.key = list_nth(plan->custom_private, ROWS_KEY);
	state->rows.params = list_nth(plan->custom_private, ROWS_PARAMS);
	state->column_count = list_length(state->rows.types);
	state->row_count = (list_length(plan->custom_exprs) - state->road.ask.param_count) /
		Max(state->column_count, 1);
	state->road.ask.choose = choose;
}

/* RETURNING -------------------------------------------------------------------------- */

/* The columns that come back, and the shard that they come from. */
static TupleDesc
stored_columns(TupleDesc returned)
{
	TupleDesc	result = CreateTemplateTupleDesc(returned->natts + 1);

	for (int i = 1; i <= returned->natts; i++)
		TupleDescCopyEntry(result, (AttrNumber) i, returned, (AttrNumber) i);
	TupleDescInitEntry(result, (AttrNumber) (returned->natts + 1), "shard", INT4OID, -1, 0);
	return result;
}

static int
number_of_id(const RowsState *state, int32 id)
{
	ListCell   *cell;

	foreach(cell, state->shards)
	{
		if (((SlShard *) lfirst(cell))->id == id)
			return foreach_current_index(cell);
	}
	elog(ERROR, "row comes from shard %d, which was not asked", id);
}

/* Keeps all rows that the shards return, those of each shard apart. */
static void
collect(RowsState *state)
{
	TupleDesc	returned = state->road.whole.columns;
	TupleDesc	columns = stored_columns(returned);
	SlAsk	   *ask = &state->road.ask;
	TupleTableSlot *slot = MakeSingleTupleTableSlot(columns, &TTSOpsVirtual);
	bool		is_null;
	bool		has_row;

	ask->wanted = columns;
	ask->shard_column = returned->natts;
	has_row = sl_ask_next(ask, slot);
	state->stores = palloc(sizeof(Tuplestorestate *) * Max(list_length(state->shards), 1));
	for (int i = 0; i < list_length(state->shards); i++)
		state->stores[i] = tuplestore_begin_heap(false, false, work_mem);
	for (; has_row; has_row = sl_ask_next(ask, slot))
	{
		int32		id = DatumGetInt32(slot_getattr(slot, returned->natts + 1, &is_null));

		tuplestore_puttupleslot(state->stores[number_of_id(state, id)], slot);
	}
	state->stored = MakeSingleTupleTableSlot(columns, &TTSOpsMinimalTuple);
	ExecDropSingleTupleTableSlot(slot);
}

/* The next row in the order in which they were inserted. */
static TupleTableSlot *
next_returned(ScanState *node)
{
	RowsState  *state = (RowsState *) node;
	TupleTableSlot *slot = node->ss_ScanTupleSlot;
	int			count = state->road.whole.columns->natts;

	ExecClearTuple(slot);
	if (state->stores == NULL)
		collect(state);
	while (state->next_row < state->row_count)
	{
		Tuplestorestate *store = state->stores[state->shard_of[state->next_row++]];

		if (!tuplestore_gettupleslot(store, true, false, state->stored))
			continue;
		slot_getsomeattrs(state->stored, count);
		memcpy(slot->tts_values, state->stored->tts_values, sizeof(Datum) * count);
		memcpy(slot->tts_isnull, state->stored->tts_isnull, sizeof(bool) * count);
		node->ps.state->es_processed++;
		return ExecStoreVirtualTuple(slot);
	}
	return slot;
}

static bool
recheck(ScanState *node, TupleTableSlot *slot)
{
	return true;
}

static TupleTableSlot *
next(CustomScanState *node)
{
	if (((RowsState *) node)->road.whole.columns->natts == 0)
		return sl_road_next(node);
	return ExecScan(&node->ss, next_returned, recheck);
}

static void
forget_returned(RowsState *state)
{
	if (state->stores == NULL)
		return;
	ExecDropSingleTupleTableSlot(state->stored);
	for (int i = 0; i < list_length(state->shards); i++)
		tuplestore_end(state->stores[i]);
	state->stores = NULL;
	state->next_row = 0;
}

static void
rescan(CustomScanState *node)
{
	forget_returned((RowsState *) node);
	sl_road_rescan(node);
}

static void
end(CustomScanState *node)
{
	forget_returned((RowsState *) node);
	sl_road_end(node);
}

static void
explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	ExplainPropertyInteger("Rows to Insert", NULL, ((RowsState *) node)->row_count, es);
	sl_road_explain(node, ancestors, es);
}
