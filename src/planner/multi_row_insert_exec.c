/*
 * multi_row_insert_exec.c
 *		The plan node that sends rows to the shards of their keys, in one
 *		statement for each shard.
 *
 * A remote scan whose query takes an array for each column.  All rows are
 * computed first; then the set of shards and the arrays of each are known.
 *
 * RETURNING returns rows in the order in which they were inserted.  So the
 * rows that shards return are stored, and returned in the order of the input.
 * A shard does not tell which rows were skipped, because of a trigger or ON
 * CONFLICT DO NOTHING; its other rows are still in order.
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

#include "executor/row_routing.h"
#include "planner/insert.h"

/* Items of CustomScan.custom_private after those of a remote scan. */
enum
{
	ROWS_TABLE = SL_REMOTE_PLAN_FILTERS + 1,
	ROWS_TYPES,
	ROWS_KEY,
	ROWS_PARAMS
};

typedef struct RowsState
{
	SlRemotePlanState remote;	/* must come first */
	SlInsertRows rows;			/* from the plan */
	int			row_count;
	int			column_count;

	/* during execution */
	Datum	   *values;			/* row by row */
	bool	   *nulls;
	List	   *shards;
	int		   *shard_of;		/* for each row, the shard's number in the
								 * list */

	/* RETURNING */
	Tuplestorestate **stores;	/* for each shard; NULL: no rows yet */
	TupleTableSlot *stored;		/* a row followed by its shard */
	int			next_row;
} RowsState;

static void begin_multi_row_insert(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *next_multi_row_insert(CustomScanState *node);
static void rescan_multi_row_insert(CustomScanState *node);
static void end_multi_row_insert(CustomScanState *node);
static void explain_multi_row_insert(CustomScanState *node, List *ancestors, ExplainState *es);

static const CustomExecMethods exec_methods = {
	.CustomName = SL_REMOTE_PLAN_SHIP,
	.BeginCustomScan = begin_multi_row_insert,
	.ExecCustomScan = next_multi_row_insert,
	.EndCustomScan = end_multi_row_insert,
	.ReScanCustomScan = rescan_multi_row_insert,
	.ExplainCustomScan = explain_multi_row_insert,
};

Node *
sl_insert_rows_state(void)
{
	RowsState  *state = (RowsState *) newNode(sizeof(RowsState), T_CustomScanState);

	state->remote.css.methods = &exec_methods;
	return (Node *) state;
}

/* Makes the node: a remote scan with the rows as its expressions. */
CustomScan *
sl_insert_rows_plan(const SlRemotePlan *remote, const SlInsertRows *rows, List *target_list)
{
	CustomScan *scan = sl_remote_plan_make(remote, target_list);

	scan->custom_private = lappend(scan->custom_private, makeInteger((int) rows->table));
	scan->custom_private = lappend(scan->custom_private, rows->types);
	scan->custom_private = lappend(scan->custom_private, rows->key);
	scan->custom_private = lappend(scan->custom_private, rows->params);
	return scan;
}

/* Is it such a node, and not a plain remote scan? */
bool
sl_insert_is_rows(const CustomScan *scan)
{
	return list_length(scan->custom_private) > ROWS_TABLE;
}

/* Rows ----------------------------------------------------------------------------- */

/* Evaluates all rows, in their order. */
static void
compute_rows(RowsState *state)
{
	const SlRemoteScan *scan = &state->remote.scan;
	int			count = state->row_count * state->column_count;

	state->values = palloc(sizeof(Datum) * Max(count, 1));
	state->nulls = palloc(sizeof(bool) * Max(count, 1));
	for (int i = 0; i < count; i++)
	{
		ExprState  *expression = list_nth(scan->other_states, i);

		state->values[i] = ExecEvalExpr(expression, scan->node->ps_ExprContext, &state->nulls[i]);
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

/* Finds the shard of each row by the current map. */
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

/* Makes the array of one column for one shard. */
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

/* Encodes the parameters that are the same for all shards. */
typedef struct Common
{
	Oid		   *types;
	Datum	   *values;
	bool	   *nulls;
} Common;

static void
compute_common(const SlRemoteScan *scan, Common *common)
{
	common->types = palloc(sizeof(Oid) * Max(scan->param_count, 1));
	common->values = palloc(sizeof(Datum) * Max(scan->param_count, 1));
	common->nulls = palloc(sizeof(bool) * Max(scan->param_count, 1));
	for (int i = 0; i < scan->param_count; i++)
	{
		common->types[i] = exprType(list_nth(scan->expressions, i));
		common->values[i] = ExecEvalExpr(list_nth(scan->states, i), scan->node->ps_ExprContext,
										 &common->nulls[i]);
	}
}

/* Returns the parameters of one shard. */
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

/* The query needs no ownership filter: it inserts new rows only. */
static const char *
choose_shards(SlRemoteScan *scan, SlMultiShardSpec *spec)
{
	RowsState  *state = (RowsState *) scan->node;
	Common		common;
	int			count;

	compute_rows(state);
	route_rows(state);
	compute_common(scan, &common);
	count = list_length(state->shards);
	spec->shards = state->shards;
	spec->shard_params = palloc0(sizeof(SlParams) * Max(count, 1));
	for (int i = 0; i < count; i++)
		make_params(state, i, &common, &spec->shard_params[i]);

	/* The parameter types are the same on all shards. */
	spec->params = spec->shard_params[0];
	return scan->sql;
}

static void
begin_multi_row_insert(CustomScanState *node, EState *estate, int eflags)
{
	RowsState  *state = (RowsState *) node;
	const CustomScan *plan = (const CustomScan *) node->ss.ps.plan;

	sl_remote_plan_begin_scan(node, estate, eflags);
	state->rows.table = (Oid) intVal(list_nth(plan->custom_private, ROWS_TABLE));
	state->rows.types = list_nth(plan->custom_private, ROWS_TYPES);
	state->rows.key = list_nth(plan->custom_private, ROWS_KEY);
	state->rows.params = list_nth(plan->custom_private, ROWS_PARAMS);
	state->column_count = list_length(state->rows.types);
	state->row_count = (list_length(plan->custom_exprs) - state->remote.scan.param_count) /
		Max(state->column_count, 1);
	state->remote.scan.choose = choose_shards;
}

/* RETURNING -------------------------------------------------------------------------- */

/*
 * Makes the slot for the returned columns and the shard that they come from.
 */
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

/* Stores all rows that the shards return, separately for each shard. */
static void
collect_returned(RowsState *state)
{
	TupleDesc	returned = state->remote.whole.columns;
	TupleDesc	columns = stored_columns(returned);
	SlRemoteScan *scan = &state->remote.scan;
	TupleTableSlot *slot = MakeSingleTupleTableSlot(columns, &TTSOpsVirtual);
	bool		is_null;
	bool		has_row;

	scan->wanted = columns;
	scan->shard_column = returned->natts;
	has_row = sl_remote_scan_next_row(scan, slot);
	state->stores = palloc(sizeof(Tuplestorestate *) * Max(list_length(state->shards), 1));
	for (int i = 0; i < list_length(state->shards); i++)
		state->stores[i] = tuplestore_begin_heap(false, false, work_mem);
	for (; has_row; has_row = sl_remote_scan_next_row(scan, slot))
	{
		int32		id = DatumGetInt32(slot_getattr(slot, returned->natts + 1, &is_null));

		tuplestore_puttupleslot(state->stores[number_of_id(state, id)], slot);
	}
	state->stored = MakeSingleTupleTableSlot(columns, &TTSOpsMinimalTuple);
	ExecDropSingleTupleTableSlot(slot);
}

/* Returns the next row in the order of insertion. */
static TupleTableSlot *
next_returned(ScanState *node)
{
	RowsState  *state = (RowsState *) node;
	TupleTableSlot *slot = node->ss_ScanTupleSlot;
	int			count = state->remote.whole.columns->natts;

	ExecClearTuple(slot);
	if (state->stores == NULL)
		collect_returned(state);
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
recheck_multi_row_insert(ScanState *node, TupleTableSlot *slot)
{
	return true;
}

static TupleTableSlot *
next_multi_row_insert(CustomScanState *node)
{
	if (((RowsState *) node)->remote.whole.columns->natts == 0)
		return sl_remote_plan_next_row(node);
	return ExecScan(&node->ss, next_returned, recheck_multi_row_insert);
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
rescan_multi_row_insert(CustomScanState *node)
{
	forget_returned((RowsState *) node);
	sl_remote_plan_rescan(node);
}

static void
end_multi_row_insert(CustomScanState *node)
{
	forget_returned((RowsState *) node);
	sl_remote_plan_end_scan(node);
}

static void
explain_multi_row_insert(CustomScanState *node, List *ancestors, ExplainState *es)
{
	ExplainPropertyInteger("Rows to Insert", NULL, ((RowsState *) node)->row_count, es);
	sl_remote_plan_explain(node, ancestors, es);
}
