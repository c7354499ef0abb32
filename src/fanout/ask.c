/*
 * ask.c
 *		From what a plan says to the shards' rows.
 *
 * Everything is evaluated when the first row is wanted.  Then the values that the
 * statement depends on are known, and with them the shards that can have such
 * rows.  A scan that is read again with other values asks again; all that a
 * statement asks a shard sees the same snapshot.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "deparse/owned.h"
#include "deparse/prune.h"
#include "fanout/ask.h"

/* So often a statement is sent to another shard. */
#define MOST_ATTEMPTS 3

/* Beginning ------------------------------------------------------------------------ */

static void
read_sort_keys(SlAsk *ask, List *items)
{
	ListCell   *cell;

	ask->sort_count = list_length(items);
	ask->sort_keys = palloc0(sizeof(SlSortKey) * Max(ask->sort_count, 1));
	foreach(cell, items)
	{
		List	   *item = lfirst(cell);
		SlSortKey  *key = &ask->sort_keys[foreach_current_index(cell)];

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
 * Prepares to evaluate an expression.  PostgreSQL compiles it; most of ours are
 * nothing but a value, for which that costs more than all else.
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
sl_ask_open(SlAsk *ask, PlanState *node, List *expressions, List *sort)
{
	ask->node = node;
	ask->expressions = expressions;
	ask->states = init_expressions(expressions, node);
	ask->others = list_copy_tail(ask->expressions, ask->param_count);
	ask->other_states = list_copy_tail(ask->states, ask->param_count);
	read_sort_keys(ask, sort);
	ask->context = AllocSetContextCreate(node->state->es_query_cxt, "shardlet scan",
										 ALLOCSET_DEFAULT_SIZES);
}

static void
leave_home(void *arg)
{
	sl_fanout_leave(&((SlAsk *) arg)->home);
}

/* Prepares to run, for the transaction and the statement of this moment. */
void
sl_ask_settle(SlAsk *ask, Oid user)
{
	EState	   *estate = ask->node->state;

	ask->may_repeat = sl_statement_repeats(estate->es_plannedstmt, ask->node->plan);
	sl_fanout_settle(&ask->home);
	ask->home.user = user;
	ask->callback.func = leave_home;
	ask->callback.arg = ask;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &ask->callback);
	ask->statement = sl_statement_of(estate);
	sl_statement_add_scan(ask->statement, ask->may_repeat);
	if ((ask->flags & SL_ASK_WRITES) != 0)
		ask->statement->writes = true;
	ask->keeps_stats = estate->es_instrument != 0;
}

/* Values ---------------------------------------------------------------------------- */

/*
 * The values of the parameters.  They are computed with the session's settings,
 * and written without.
 */
static void
evaluate_params(const SlAsk *ask, SlParams *params)
{
	int			count = ask->param_count;
	Oid		   *types = palloc(sizeof(Oid) * Max(count, 1));
	Datum	   *values = palloc(sizeof(Datum) * Max(count, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(count, 1));

	for (int i = 0; i < count; i++)
	{
		types[i] = exprType(list_nth(ask->expressions, i));
		values[i] = ExecEvalExpr(list_nth(ask->states, i), ask->node->ps_ExprContext, &nulls[i]);
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
first_owner(const SlAsk *ask)
{
	List	   *first = linitial(ask->programs);
	List	   *owners = sl_table_owners(sl_table_get((Oid) intVal(linitial(first))));

	return owners != NIL ? list_make1(linitial(owners)) : NIL;
}

/* The shards that can have rows, as far as the conditions on all tables tell. */
List *
sl_ask_shards(const SlAsk *ask)
{
	bool		writes = (ask->flags & (SL_ASK_WRITES | SL_ASK_LOCKS | SL_ASK_TARGET)) != 0;
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, ask->programs)
	{
		List	   *item = lfirst(cell);
		SlTable    *table = sl_table_get((Oid) intVal(linitial(item)));
		List	   *shards = sl_prune_shards(table, lsecond(item), ask->node->ps_ExprContext,
											 ask->other_states, ask->others, writes);

		result = foreach_current_index(cell) == 0 ? shards :
			common_shards(result, shards);
		if (result == NIL && (ask->flags & SL_ASK_INSERTS) != 0 && table->kind == SL_TABLE_SHARDED)
			sl_prune_refuse(table, lsecond(item), ask->node->ps_ExprContext, ask->other_states,
							ask->others);
	}

	/* Somebody must say that the count of nothing is zero. */
	if (result == NIL && (ask->flags & SL_ASK_ONE_ROW) != 0)
		return first_owner(ask);
	if (list_length(result) > 1 && (ask->flags & SL_ASK_SINGLE) != 0)
		elog(ERROR, "rows that were planned to be on one shard are on %d", list_length(result));
	return result;
}

/*
 * A statement that has asked shards already, and finds that rows were moved
 * meanwhile, might not see them where they are now.
 */
static void
check_not_moved(const SlAsk *ask)
{
	Snapshot	snapshot = ask->node->state->es_snapshot;

	if (ask->statement->has_begun && snapshot != NULL && sl_owned_is_newer(ask->owned, snapshot))
		ereport(ERROR,
				errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				errmsg("could not serialize access because rows were moved to another shard"),
				errdetail("A shardlet has moved since the statement began."),
				errhint("Retry the transaction."));
}

/*
 * Says which state of the tables' maps is the one that the session has, or first makes
 * sure that it is the one that is committed now.
 */
static uint64
read_stamp(const SlAsk *ask, bool is_compared)
{
	uint64		result = 0;
	ListCell   *cell;

	foreach(cell, ask->programs)
	{
		const SlTable *table = sl_table_get((Oid) intVal(linitial(lfirst(cell))));

		if (table->kind == SL_TABLE_SHARDED)
			result += (is_compared ? sl_map_get_now(table->map) : sl_map_get(table->map))->load;
	}
	return result;
}

/*
 * The shards to ask, and the statement for them.  Both are of one state of the
 * maps, which is not older than the snapshot of the statement.
 */
static List *
route(SlAsk *ask, const char **sql)
{
	List	   *shards;

	do
	{
		ask->stamp = read_stamp(ask, true);
		shards = sl_ask_shards(ask);
		*sql = sl_owned_apply(ask->sql, ask->owned);
		check_not_moved(ask);
	} while (read_stamp(ask, false) != ask->stamp);
	return shards;
}

/* Limits ---------------------------------------------------------------------------- */

static Node *
limit_expression(const SlAsk *ask, int place)
{
	return list_nth(ask->others, place);
}

static bool
evaluate_count(const SlAsk *ask, int place, const char *word, int64 *result)
{
	bool		is_null;
	Datum		value;

	*result = 0;
	if (place < 0)
		return false;
	value = ExecEvalExpr(list_nth(ask->other_states, place), ask->node->ps_ExprContext, &is_null);
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

/*
 * Puts a limit behind the text: as it is if it is always the same, or as
 * a parameter, so that one statement serves for all.
 */
static void
add_limit(const SlAsk *ask, SlFanoutSpec *spec, int place, const char *word, int64 value)
{
	bool		is_fixed = IsA(limit_expression(ask, place), Const) &&
	(ask->offset_place < 0 || IsA(limit_expression(ask, ask->offset_place), Const));

	if (is_fixed)
	{
		spec->sql = psprintf("%s %s " INT64_FORMAT, spec->sql, word, value);
		return;
	}
	sl_params_add(&spec->params, value);
	spec->sql = psprintf("%s %s $%d::pg_catalog.int8", spec->sql, word, spec->params.count);
}

/* Each shard sends as many rows as the whole may have. */
static void
set_limit(const SlAsk *ask, SlFanoutSpec *spec)
{
	spec->has_limit = evaluate_count(ask, ask->limit_place, "LIMIT", &spec->limit);
	(void) evaluate_count(ask, ask->offset_place, "OFFSET", &spec->offset);
	if (list_length(spec->shards) == 1)
	{
		if (spec->has_limit)
			add_limit(ask, spec, ask->limit_place, "LIMIT", spec->limit);
		if (spec->offset > 0)
			add_limit(ask, spec, ask->offset_place, "OFFSET", spec->offset);
		spec->offset = 0;
	}
	else if (spec->has_limit && spec->limit <= PG_INT64_MAX - spec->offset)
		add_limit(ask, spec, ask->limit_place, "LIMIT", spec->limit + spec->offset);
	spec->has_few_rows = (ask->flags & SL_ASK_FEW) != 0 ||
		(spec->has_limit && spec->limit <= SL_FEW_ROWS && spec->offset <= SL_FEW_ROWS - spec->limit);
}

/* Running ---------------------------------------------------------------------------- */

/* Must what the statement asks the shards be made to agree? */
static bool
asks_often(const SlAsk *ask)
{
	return ask->statement->scan_count > 1 || ask->may_repeat || ask->statement->writes;
}

static bool
is_whole_plan(const SlAsk *ask)
{
	return ask->node->state->es_plannedstmt->planTree == ask->node->plan;
}

/*
 * Is there nothing after the statement that could fail?  It is all of a plan, its
 * rows go to the client as they are, and need no conversion on the way.
 */
static bool
is_last(const SlAsk *ask)
{
	const PlanState *node = ask->node;

	return is_whole_plan(ask) && node->state->es_epq_active == NULL &&
		node->ps_ProjInfo == NULL && node->qual == NULL &&
		ask->statement->scan_count == 1 && !ask->may_repeat &&
		pg_get_client_encoding() == GetDatabaseEncoding() && sl_txn_is_alone(node->state);
}

/*
 * A write to one shard that is the last thing of its transaction is committed
 * with the statement.
 */
static bool
can_commit(const SlAsk *ask, const SlFanoutSpec *spec)
{
	return (ask->flags & SL_ASK_WRITES) != 0 && list_length(spec->shards) == 1 &&
		sl_shard_timeout == 0 && is_last(ask) && sl_txn_is_untouched();
}

/*
 * A read that stops early, or may fail while the transaction goes on, needs a
 * savepoint of its own.  If it is all of what the client sent, it runs to its end,
 * and if it fails, so does the transaction, or the savepoint that the shard
 * follows anyway.
 */
static bool
is_part(const SlAsk *ask, const SlFanoutSpec *spec)
{
	return (ask->flags & (SL_ASK_LOCKS | SL_ASK_WRITES)) == 0 &&
		(list_length(spec->shards) > 1 || spec->skip_failures || asks_often(ask) ||
		 !is_whole_plan(ask) || !sl_txn_is_direct(ask->node->state));
}

/*
 * Must what is read now agree with what was, or could have been, read before?
 * After a write, by the statement itself or by others since it began, that takes
 * more than the snapshot of a transaction.
 */
static bool
must_agree(const SlAsk *ask)
{
	if (ask->statement->reader.is_kept)
		return true;
	return asks_often(ask) && (ask->statement->writes || !IsolationUsesXactSnapshot());
}

/*
 * Will something read by the snapshot from before the write?  Functions that only
 * the values to be written come from were called before.
 */
static bool
is_read_behind(const SlAsk *ask)
{
	return ask->statement->scan_count > 1 ||
		(ask->statement->calls && (!is_whole_plan(ask) || ask->node->ps_ProjInfo != NULL));
}

static void
set_use(const SlAsk *ask, const SlFanoutSpec *spec, SlTxnUse *use)
{
	use->reader = &ask->statement->reader;
	use->writes = (ask->flags & (SL_ASK_LOCKS | SL_ASK_WRITES)) != 0;
	use->is_alone = !use->writes && !asks_often(ask) && sl_txn_is_alone(ask->node->state);
	use->is_part = is_part(ask, spec);
	if ((!use->writes && must_agree(ask)) ||
		((ask->flags & SL_ASK_WRITES) != 0 && is_read_behind(ask)))
		use->statement = ask->statement->reader.statement;
	use->is_of_writer = ask->statement->writes || ask->statement->reader.is_kept;
}

/*
 * A locked row must not get a copy elsewhere that can be locked, too.  Rows that
 * are written are guarded by the shards themselves.  The version is read before
 * the shards are chosen by it.
 */
static void
hold_map(const SlAsk *ask, SlTxnUse *use)
{
	ListCell   *cell;

	if ((ask->flags & (SL_ASK_LOCKS | SL_ASK_WRITES)) == 0 ||
		ask->node->state->es_plannedstmt->commandType != CMD_SELECT)
		return;
	foreach(cell, ask->programs)
	{
		SlTable    *table = sl_table_get((Oid) intVal(linitial(lfirst(cell))));

		if (table->kind != SL_TABLE_SHARDED)
			continue;
		use->held_map = table->map;
		use->held_version = sl_map_get(table->map)->version;
		return;
	}
}

/* Makes room for what each shard does. */
static void
keep_stats(SlAsk *ask, SlFanoutSpec *spec)
{
	ListCell   *cell;

	if (!ask->keeps_stats)
		return;
	spec->stats = palloc0(sizeof(SlShardStat) * Max(list_length(spec->shards), 1));
	foreach(cell, spec->shards)
		spec->stats[foreach_current_index(cell)].shard = lfirst(cell);
	ask->stats = spec->stats;
	ask->stat_count = list_length(spec->shards);
}

/* May the statement do without shards that cannot be reached? */
static bool
may_skip(const SlAsk *ask)
{
	const PlannedStmt *statement = ask->node->state->es_plannedstmt;

	return sl_partial_results && (ask->flags & (SL_ASK_LOCKS | SL_ASK_WRITES)) == 0 &&
		statement->commandType == CMD_SELECT && !statement->hasModifyingCTE &&
		!ask->statement->stores;
}

/*
 * Snapshots that agree are taken when no commit over several shards is under way,
 * and the switch of a move is one.  Were rows, while that was waited for, moved to
 * another shard than they were asked of?
 */
static bool
is_overtaken(const SlAsk *ask, const SlFanoutSpec *spec)
{
	if (!sl_consistent_reads || spec->use.writes || list_length(spec->shards) < 2 ||
		read_stamp(ask, true) == ask->stamp)
		return false;

	/* Who keeps snapshots cannot begin anew. */
	if (asks_often(ask))
		check_not_moved(ask);
	return true;
}

/* Ends a run that is going to begin anew, of which nobody has seen anything. */
static void
take_back(SlAsk *ask)
{
	sl_ask_end(ask);

	/* If it was the only one to ask, the statement has seen nothing yet. */
	if (ask->statement->scan_count == 1)
		ask->statement->has_begun = false;
}

/* Asks the shards. */
static void
begin(SlAsk *ask)
{
	SlFanoutSpec *spec;
	MemoryContext old_context;
	const char *sql;

	sl_ask_collect(ask);
	MemoryContextReset(ask->context);
	old_context = MemoryContextSwitchTo(ask->context);
	spec = palloc0(sizeof(SlFanoutSpec));
	spec->wanted = ask->wanted;
	spec->shard_column = ask->shard_column;
	hold_map(ask, &spec->use);
	if (ask->choose != NULL)
		sql = ask->choose(ask, spec);
	else
	{
		spec->shards = route(ask, &sql);
		sl_cross_shard_check(ask, spec->shards);
		evaluate_params(ask, &spec->params);
	}
	spec->skip_failures = may_skip(ask);
	if (!ask->statement->has_begun)
		sl_fanout_reset_missing();
	sl_statement_begin_scan(ask->statement);
	sl_call_check_states(&spec->shards, (ask->flags & (SL_ASK_LOCKS | SL_ASK_WRITES)) != 0,
						 spec->skip_failures);
	spec->sql = (ask->flags & SL_ASK_LOCKS) != 0 ? psprintf("%s%s", sql, ask->lock) : sql;
	spec->own_param_count = spec->params.count;
	spec->is_typed = true;
	spec->may_reroute = true;
	spec->home = ask->home;
	spec->plain_values = (ask->flags & SL_ASK_WRITES) == 0;
	spec->sort_count = list_length(spec->shards) > 1 ? ask->sort_count : 0;
	spec->sort_keys = ask->sort_keys;
	set_limit(ask, spec);
	set_use(ask, spec, &spec->use);
	spec->use.ends = can_commit(ask, spec);
	sl_txn_check_span(spec->shards, spec->use.writes);
	sl_call_ask_for_snapshots(spec);
	keep_stats(ask, spec);
	ask->fanout = sl_fanout_begin(spec);
	MemoryContextSwitchTo(old_context);
	if (is_overtaken(ask, spec))
	{
		take_back(ask);
		begin(ask);
	}
}

/*
 * The shard does not own the rows any more: the map has changed since it was
 * looked at.  Asks the one that it names now.
 */
static void
reroute(SlAsk *ask, int attempt)
{
	const SlShard *shard = sl_fanout_asked(ask->fanout);
	List	   *shards;

	CHECK_FOR_INTERRUPTS();
	sl_map_distrust();
	shards = sl_ask_shards(ask);
	if (attempt == MOST_ATTEMPTS || (list_length(shards) == 1 && linitial(shards) == shard))
		sl_fanout_raise(ask->fanout);
	take_back(ask);
	begin(ask);
}

/*
 * Puts the next row into the slot.  False: there are no more.  The shards are
 * asked when the first row is wanted.
 */
bool
sl_ask_next(SlAsk *ask, TupleTableSlot *slot)
{
	if (ask->fanout == NULL)
		begin(ask);
	for (int attempt = 1; !sl_fanout_next(ask->fanout, slot); attempt++)
	{
		if (!sl_fanout_is_misled(ask->fanout))
			return false;
		reroute(ask, attempt);
	}
	return true;
}

/* A run that returned no rows is over: how many did it change? */
void
sl_ask_count(SlAsk *ask)
{
	int64		rows = sl_fanout_processed(ask->fanout);

	if ((ask->flags & SL_ASK_COUNTS) != 0)
		ask->node->state->es_processed += (uint64) rows;
	if (ask->node->instrument != NULL)
		ask->node->instrument->tuplecount += (double) rows;
}

/* Ends a run; another may begin.  Its last row stays until then. */
void
sl_ask_end(SlAsk *ask)
{
	if (ask->fanout == NULL)
		return;
	sl_fanout_end(ask->fanout);
	ask->fanout = NULL;
}

/* Figures ---------------------------------------------------------------------------- */

/* What a shard has done so far, in all runs. */
static SlShardStat *
find_total(SlAsk *ask, SlShard *shard)
{
	MemoryContext old_context;
	SlShardStat *total;
	ListCell   *cell;

	foreach(cell, ask->totals)
	{
		if (((SlShardStat *) lfirst(cell))->shard == shard)
			return lfirst(cell);
	}
	old_context = MemoryContextSwitchTo(ask->node->state->es_query_cxt);
	total = palloc0(sizeof(SlShardStat));
	total->shard = shard;
	ask->totals = lappend(ask->totals, total);
	MemoryContextSwitchTo(old_context);
	return total;
}

/* Adds up what the run did. */
void
sl_ask_collect(SlAsk *ask)
{
	for (int i = 0; i < ask->stat_count; i++)
	{
		SlShardStat *total = find_total(ask, ask->stats[i].shard);

		total->rows += ask->stats[i].rows;
		total->bytes += ask->stats[i].bytes;
		total->us += ask->stats[i].us;
	}
	ask->stat_count = 0;
}
