/*
 * remote_scan.c
 *		Runs the remote scan of a plan: from its parameters to the shards' rows.
 *
 * Everything is evaluated when the first row is wanted.  Then the values that the
 * statement depends on are known, and with them the shards that can have such
 * rows.  A scan that is read again with other values queries them again; all that a
 * statement reads from a shard sees the same snapshot.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "deparse/ownership_filter.h"
#include "deparse/shard_pruning.h"
#include "executor/remote_scan.h"

/* So often a statement is sent to another shard. */
#define MAX_ATTEMPTS 3

/* Beginning ------------------------------------------------------------------------ */

static void
read_sort_keys(SlRemoteScan *scan, List *items)
{
	ListCell   *cell;

	scan->sort_count = list_length(items);
	scan->sort_keys = palloc0(sizeof(SlSortKey) * Max(scan->sort_count, 1));
	foreach(cell, items)
	{
		List	   *item = lfirst(cell);
		SlSortKey  *key = &scan->sort_keys[foreach_current_index(cell)];

		key->column = (int) linitial_oid(item);
		key->operator = lsecond_oid(item);
		key->collation = lthird_oid(item);
		key->nulls_first = lfourth_oid(item) != 0;
	}
}

static Datum
read_const(ExprState *state, ExprContext *context, bool *is_null)
{
	const Const *node = (const Const *) state->expr;

	*is_null = node->constisnull;
	return node->constvalue;
}

static Datum
read_param(ExprState *state, ExprContext *context, bool *is_null)
{
	const Param *node = (const Param *) state->expr;
	const ParamExternData *value = &context->ecxt_param_list_info->params[node->paramid - 1];

	*is_null = value->isnull;
	return value->value;
}

/* Is it a parameter of the client's, with the value at hand? */
static bool
is_plain_param(const Expr *expression, const ParamListInfoData *list)
{
	const Param *node = (const Param *) expression;

	return IsA(node, Param) && node->paramkind == PARAM_EXTERN && list != NULL &&
		list->paramFetch == NULL && node->paramid > 0 && node->paramid <= list->numParams &&
		list->params[node->paramid - 1].ptype == node->paramtype;
}

/*
 * Prepares to evaluate an expression.  PostgreSQL compiles it; most of these are a
 * constant or a parameter, for which that costs more than all else.
 */
static ExprState *
init_expression(Expr *expression, PlanState *node)
{
	bool		is_const = IsA(expression, Const);
	ExprState  *state;

	if (!is_const && !is_plain_param(expression, node->state->es_param_list_info))
		return ExecInitExpr(expression, node);
	state = makeNode(ExprState);
	state->expr = expression;
	state->evalfunc = is_const ? read_const : read_param;
	return state;
}

static List *
init_expressions(List *expressions, PlanState *node)
{
	List	   *states = NIL;
	ListCell   *cell;

	foreach(cell, expressions)
		states = lappend(states, init_expression(lfirst(cell), node));
	return states;
}

/*
 * Prepares to evaluate expressions.  The other fields that come from the plan are
 * the caller's.
 */
void
sl_remote_scan_open(SlRemoteScan *scan, PlanState *node, List *expressions, List *sort)
{
	scan->node = node;
	scan->expressions = expressions;
	scan->states = init_expressions(expressions, node);
	scan->others = list_copy_tail(scan->expressions, scan->param_count);
	scan->other_states = list_copy_tail(scan->states, scan->param_count);
	read_sort_keys(scan, sort);
	scan->context = AllocSetContextCreate(node->state->es_query_cxt, "shardlet scan",
										  ALLOCSET_DEFAULT_SIZES);
}

static void
leave_caller(void *arg)
{
	sl_multi_shard_leave(&((SlRemoteScan *) arg)->caller);
}

/* Prepares to run, for the transaction and the statement of this moment. */
void
sl_remote_scan_set_user(SlRemoteScan *scan, Oid user)
{
	EState	   *estate = scan->node->state;
	MemoryContext old_context;

	scan->may_repeat = sl_statement_repeats(estate->es_plannedstmt, scan->node->plan);
	sl_multi_shard_set_caller(&scan->caller);
	scan->caller.user = sl_foreign_key_user(estate, user);
	scan->callback.func = leave_caller;
	scan->callback.arg = scan;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &scan->callback);
	scan->statement = sl_statement_of(estate);
	sl_statement_add_scan(scan->statement, scan->may_repeat);
	old_context = MemoryContextSwitchTo(estate->es_query_cxt);
	scan->statement->scans = lappend(scan->statement->scans, scan);
	MemoryContextSwitchTo(old_context);
	if ((scan->flags & SL_REMOTE_SCAN_WRITES) != 0)
		sl_statement_add_writer(scan->statement);
	scan->keeps_stats = estate->es_instrument != 0;
}

/* Values ---------------------------------------------------------------------------- */

/*
 * The values of the parameters.  They are computed with the session's settings,
 * and written without.
 */
static void
evaluate_params(const SlRemoteScan *scan, SlParams *params)
{
	int			count = scan->param_count;
	Oid		   *types = palloc(sizeof(Oid) * Max(count, 1));
	Datum	   *values = palloc(sizeof(Datum) * Max(count, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(count, 1));

	for (int i = 0; i < count; i++)
	{
		types[i] = exprType(list_nth(scan->expressions, i));
		values[i] = ExecEvalExpr(list_nth(scan->states, i), scan->node->ps_ExprContext, &nulls[i]);
	}
	sl_params_encode(params, count, types, values, nulls);
}

static List *
common_shards(List *a, List *b)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, a)
	{
		if (list_member_ptr(b, lfirst(cell)))
			result = lappend(result, lfirst(cell));
	}
	return result;
}

/* One shard that can have rows of the first table, if there is one. */
static List *
first_owner(const SlRemoteScan *scan)
{
	List	   *first = linitial(scan->programs);
	List	   *owners = sl_table_owners(sl_table_get((Oid) intVal(linitial(first))));

	return owners != NIL ? list_make1(linitial(owners)) : NIL;
}

/* The shards that can have rows, as far as the conditions on all tables tell. */
List *
sl_remote_scan_choose_shards(const SlRemoteScan *scan)
{
	bool		writes = (scan->flags & (SL_REMOTE_SCAN_WRITES | SL_REMOTE_SCAN_LOCKS | SL_REMOTE_SCAN_TARGET)) != 0;
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, scan->programs)
	{
		List	   *item = lfirst(cell);
		SlTable    *table = sl_table_get((Oid) intVal(linitial(item)));
		List	   *shards = sl_pruning_shards(table, lsecond(item), scan->node->ps_ExprContext,
											   scan->other_states, scan->others, writes);

		result = foreach_current_index(cell) == 0 ? shards :
			common_shards(result, shards);
		if (result == NIL && (scan->flags & SL_REMOTE_SCAN_INSERTS) != 0 && table->kind == SL_TABLE_SHARDED)
			sl_pruning_refuse(table, lsecond(item), scan->node->ps_ExprContext, scan->other_states,
							  scan->others);
	}

	/* One shard must return the count of no rows, which is zero. */
	if (result == NIL && (scan->flags & SL_REMOTE_SCAN_ONE_ROW) != 0)
		return first_owner(scan);
	if (list_length(result) > 1 && (scan->flags & SL_REMOTE_SCAN_SINGLE) != 0)
		elog(ERROR, "rows that were planned to be on one shard are on %d", list_length(result));
	return result;
}

/* Fails if the statement has queried shards, and rows were moved since. */
static void
check_not_moved(const SlRemoteScan *scan)
{
	Snapshot	snapshot = scan->node->state->es_snapshot;

	if (scan->statement->has_begun && snapshot != NULL &&
		sl_ownership_filter_is_newer(scan->owned, snapshot))
		sl_statement_refuse_moved_rows();
}

/*
 * Returns a number for the versions of the tables' maps that the session has, or,
 * if they are compared, first makes sure that these are the ones committed now.
 */
static uint64
read_stamp(const SlRemoteScan *scan, bool is_compared)
{
	uint64		result = 0;
	ListCell   *cell;

	foreach(cell, scan->programs)
	{
		const SlTable *table = sl_table_get((Oid) intVal(linitial(lfirst(cell))));

		if (table->kind == SL_TABLE_SHARDED)
			result += (is_compared ? sl_map_get_now(table->map) : sl_map_get(table->map))->load;
	}
	return result;
}

/*
 * The shards to query, and the statement for them.  Both are of one version of the
 * maps, which is not older than the snapshot of the statement.
 */
static List *
route_scan(SlRemoteScan *scan, const char **sql)
{
	List	   *shards;

	do
	{
		scan->stamp = read_stamp(scan, true);
		shards = sl_remote_scan_choose_shards(scan);
		*sql = sl_ownership_filter_apply(scan->sql, scan->owned);
		check_not_moved(scan);
	} while (read_stamp(scan, false) != scan->stamp);
	return shards;
}

/* Limits ---------------------------------------------------------------------------- */

static Node *
limit_expression(const SlRemoteScan *scan, int place)
{
	return list_nth(scan->others, place);
}

static bool
evaluate_count(const SlRemoteScan *scan, int place, const char *word, int64 *result)
{
	bool		is_null;
	Datum		value;

	*result = 0;
	if (place < 0)
		return false;
	value = ExecEvalExpr(list_nth(scan->other_states, place), scan->node->ps_ExprContext, &is_null);
	if (is_null)
		return false;
	*result = DatumGetInt64(value);
	if (*result < 0)
		ereport(ERROR,
				errcode(strcmp(word, "LIMIT") == 0 ? ERRCODE_INVALID_ROW_COUNT_IN_LIMIT_CLAUSE :
						ERRCODE_INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE),
				errmsg("%s must not be negative", word));
	return true;
}

/* Are LIMIT and OFFSET always the same? */
bool
sl_remote_scan_has_fixed_limit(const SlRemoteScan *scan)
{
	return (scan->limit_place < 0 || IsA(limit_expression(scan, scan->limit_place), Const)) &&
		(scan->offset_place < 0 || IsA(limit_expression(scan, scan->offset_place), Const));
}

/*
 * Appends a limit to the SQL: as a constant if it is always the same, or as a
 * parameter, so that one prepared statement serves for all.
 */
static void
add_limit(const SlRemoteScan *scan, SlMultiShardSpec *spec, const char *word, int64 value)
{
	if (sl_remote_scan_has_fixed_limit(scan))
	{
		spec->sql = psprintf("%s %s " INT64_FORMAT, spec->sql, word, value);
		return;
	}
	sl_params_add(&spec->params, value);
	spec->sql = psprintf("%s %s $%d::pg_catalog.int8", spec->sql, word, spec->params.count);
}

static void
evaluate_limit(const SlRemoteScan *scan, SlMultiShardSpec *spec)
{
	spec->has_limit = evaluate_count(scan, scan->limit_place, "LIMIT", &spec->limit);
	(void) evaluate_count(scan, scan->offset_place, "OFFSET", &spec->offset);
}

/* Are rows locked up to a limit over all shards, which a shard cannot apply? */
static bool
is_limited_lock(const SlRemoteScan *scan, const SlMultiShardSpec *spec)
{
	return (scan->flags & SL_REMOTE_SCAN_LIMITED) != 0 && list_length(spec->shards) > 1 &&
		spec->has_limit && spec->limit <= PG_INT64_MAX - spec->offset;
}

/* Each shard sends as many rows as the whole may have. */
static void
set_limit(const SlRemoteScan *scan, SlMultiShardSpec *spec)
{
	if (list_length(spec->shards) == 1)
	{
		if (spec->has_limit)
			add_limit(scan, spec, "LIMIT", spec->limit);
		if (spec->offset > 0)
			add_limit(scan, spec, "OFFSET", spec->offset);
		spec->offset = 0;
	}
	else if (spec->has_limit && spec->limit <= PG_INT64_MAX - spec->offset)
		add_limit(scan, spec, "LIMIT", spec->limit + spec->offset);
	spec->has_few_rows = (scan->flags & SL_REMOTE_SCAN_FEW_ROWS) != 0 ||
		(spec->has_limit && spec->limit <= SL_FEW_ROWS && spec->offset <= SL_FEW_ROWS - spec->limit);
}

/* Running ---------------------------------------------------------------------------- */

/* The table that is written to, or whose rows are locked. */
static Oid
find_target(const SlRemoteScan *scan)
{
	const EState *estate = scan->node->state;
	const List *targets = estate->es_plannedstmt->resultRelations;

	if (targets != NIL)
		return exec_rt_fetch(linitial_int(targets), (EState *) estate)->relid;
	return scan->programs != NIL ? (Oid) intVal(linitial(linitial(scan->programs))) : InvalidOid;
}

/* May the statement do without shards that cannot be reached? */
static bool
may_skip(const SlRemoteScan *scan)
{
	const PlannedStmt *statement = scan->node->state->es_plannedstmt;

	return sl_partial_results && (scan->flags & (SL_REMOTE_SCAN_LOCKS | SL_REMOTE_SCAN_WRITES)) == 0 &&
		statement->commandType == CMD_SELECT && !statement->hasModifyingCTE &&
		!scan->statement->stores;
}

/*
 * Snapshots that agree are taken when no multi-shard commit is under way, and the
 * switch of a move is one.  Were rows moved to another shard while that was waited
 * for?
 */
static bool
has_moved_meanwhile(const SlRemoteScan *scan, const SlMultiShardSpec *spec)
{
	if (!sl_consistent_reads || spec->use.writes || list_length(spec->shards) < 2 ||
		read_stamp(scan, true) == scan->stamp)
		return false;

	/* A statement that has its snapshots cannot be repeated. */
	if (sl_remote_scan_queries_often(scan))
		check_not_moved(scan);
	return true;
}

/* Ends a run of which no row was returned, and which is going to be repeated. */
static void
end_unseen_run(SlRemoteScan *scan)
{
	sl_remote_scan_end(scan);

	/* If it was the only scan, the statement has seen nothing yet. */
	if (scan->statement->scan_count == 1)
		scan->statement->has_begun = false;
}

/* Sends the statement to the shards. */
static void
begin_run(SlRemoteScan *scan)
{
	SlMultiShardSpec *spec;
	MemoryContext old_context;
	const char *sql;

	sl_remote_scan_collect_rows(scan);
	MemoryContextReset(scan->context);
	old_context = MemoryContextSwitchTo(scan->context);
	spec = palloc0(sizeof(SlMultiShardSpec));
	spec->wanted = scan->wanted;
	spec->shard_column = scan->shard_column;
	sl_remote_scan_hold_map(scan, &spec->use);
	if (scan->choose != NULL)
		sql = scan->choose(scan, spec);
	else
	{
		spec->shards = route_scan(scan, &sql);
		sl_cross_shard_check(scan, spec->shards);
		evaluate_params(scan, &spec->params);
	}
	sl_remote_scan_choose_locks(scan, spec);
	spec->skip_failures = may_skip(scan);
	if (!scan->statement->has_begun)
		sl_missing_shards_reset();
	sl_statement_begin_scan(scan->statement);
	sl_missing_shards_check(&spec->shards, (scan->flags & (SL_REMOTE_SCAN_LOCKS | SL_REMOTE_SCAN_WRITES)) != 0,
							spec->skip_failures);
	spec->sql = (scan->flags & SL_REMOTE_SCAN_LOCKS) != 0 ? psprintf("%s%s", sql, scan->lock) : sql;
	spec->own_param_count = spec->params.count;
	spec->is_typed = true;
	spec->may_retry_on_owner = true;
	spec->may_restart = !scan->has_restarted;
	spec->caller = scan->caller;
	spec->plain_values = (scan->flags & SL_REMOTE_SCAN_WRITES) == 0;
	spec->sort_count = list_length(spec->shards) > 1 ? scan->sort_count : 0;
	spec->sort_keys = scan->sort_keys;
	evaluate_limit(scan, spec);
	if (is_limited_lock(scan, spec))
	{
		sl_remote_scan_set_use(scan, spec, &spec->use);
		scan->limited = sl_locking_limit_begin(scan, spec, sql);
		MemoryContextSwitchTo(old_context);
		return;
	}
	set_limit(scan, spec);
	sl_remote_scan_set_use(scan, spec, &spec->use);
	if (spec->use.writes && list_length(spec->shards) > 1)
		spec->table = find_target(scan);
	sl_txn_check_span(spec->shards, spec->use.writes);
	sl_consistent_choose(spec);
	if (sl_consistent_reads && spec->use.statement != 0 && !sl_snapshot_is_of(spec->use.statement))
		spec->agreeing = sl_statement_shards(scan->statement);
	sl_remote_scan_save_stats(scan, spec);
	scan->multi = sl_multi_shard_begin(spec);
	MemoryContextSwitchTo(old_context);
	if (has_moved_meanwhile(scan, spec))
	{
		end_unseen_run(scan);
		begin_run(scan);
	}
}

/*
 * The shard does not own the rows any more: the map has changed since the shard was
 * chosen.  Sends the statement to the owner that the map has now.
 */
static void
retry_on_owner(SlRemoteScan *scan, int attempt)
{
	const SlShard *shard = sl_multi_shard_count(scan->multi);
	List	   *shards;

	CHECK_FOR_INTERRUPTS();
	sl_map_invalidate_all();
	shards = sl_remote_scan_choose_shards(scan);
	if (attempt == MAX_ATTEMPTS || (list_length(shards) == 1 && linitial(shards) == shard))
		sl_multi_shard_raise(scan->multi);
	end_unseen_run(scan);
	begin_run(scan);
}

/* A transaction that keeps its snapshots must find the rows of all tables in them. */
static void
check_tables(const SlRemoteScan *scan)
{
	ListCell   *cell;

	if (!sl_snapshot_is_shared())
		return;
	foreach(cell, scan->programs)
		sl_table_check_snapshot((Oid) intVal(linitial(lfirst(cell))));
}

/*
 * Puts the next row into the slot.  False: there are no more.  The statement is sent
 * when the first row is wanted.
 */
bool
sl_remote_scan_next_row(SlRemoteScan *scan, TupleTableSlot *slot)
{
	if (scan->multi == NULL && scan->limited == NULL)
	{
		scan->has_restarted = false;
		begin_run(scan);
		check_tables(scan);
	}
	if (scan->limited != NULL)
		return sl_locking_limit_next(scan->limited, slot);
	for (int attempt = 1; !sl_multi_shard_next(scan->multi, slot); attempt++)
	{
		if (sl_multi_shard_is_outdated(scan->multi))
		{
			scan->has_restarted = true;
			end_unseen_run(scan);
			begin_run(scan);
		}
		else if (sl_multi_shard_is_misrouted(scan->multi))
			retry_on_owner(scan, attempt);
		else
			return false;
	}
	return true;
}

/* A run that returned no rows is over: how many did it change? */
void
sl_remote_scan_count_rows(SlRemoteScan *scan)
{
	int64		rows = sl_multi_shard_processed(scan->multi);

	if ((scan->flags & SL_REMOTE_SCAN_COUNTS) != 0)
		scan->node->state->es_processed += (uint64) rows;
	if (scan->node->instrument != NULL)
		scan->node->instrument->tuplecount += (double) rows;
}

/* Ends a run; another may begin.  Its last row stays until then. */
void
sl_remote_scan_end(SlRemoteScan *scan)
{
	scan->limited = NULL;
	if (scan->multi == NULL)
		return;
	sl_multi_shard_end(scan->multi);
	scan->multi = NULL;
}
