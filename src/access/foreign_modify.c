/*
 * foreign_modify.c
 *		INSERT, UPDATE, DELETE and COPY FROM of distributed tables through
 *		the executor.
 *
 * The node of modify_node.c writes the rows of statements, and copy_from_rows.c those
 * of COPY FROM.
 *
 * The executor expects to be told of each row at once whether it was written.
 * The reply of the shard is awaited only if something depends on it:
 * RETURNING, a check option.  Otherwise the row is sent
 * and counts as written.  At the end of the plan all replies are received, and
 * the count is corrected: shards may have skipped rows because of ON CONFLICT
 * DO NOTHING or a trigger.  That is done at the end of ExecutorRun(), before
 * the command tag is made.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "base/base.h"
#include "compat.h"

static dlist_head modifies = DLIST_STATIC_INIT(modifies);
static ExecutorRun_hook_type previous_run = NULL;

/* Replies --------------------------------------------------------------------- */

static void
make_decoder(SlModify *modify, SlShard *shard, const char *sql)
{
	TupleDesc	wanted = RelationGetDescr(modify->relation);
	const SlPrepared *prepared = sl_statement_pipeline_describe(modify->pipe, shard, sql);
	int		   *sources = palloc(sizeof(int) * Max(wanted->natts, 1));
	int			place = 0;
	ListCell   *cell;

	if (prepared == NULL)
		elog(ERROR, "columns that shard \"%s\" returns are not known", NameStr(shard->name));
	for (int i = 0; i < wanted->natts; i++)
		sources[i] = -1;
	foreach(cell, modify->returning)
		sources[lfirst_int(cell) - 1] = place++;
	modify->decoder = sl_decoder_make(prepared, modify->returning_binary, wanted, sources,
									  NameStr(shard->name));
	modify->wire_count = prepared->column_count;
	modify->decoder_shard = shard;
}

/*
 * Can the decoder of the previous rows decode this one?  Shards may have
 * different types; a statement that is not described any more is assumed
 * unchanged.
 */
static bool
is_readable(const SlModify *modify, SlShard *shard, const char *sql)
{
	const SlPrepared *prepared;

	if (modify->decoder == NULL)
		return false;
	if (modify->decoder_shard == shard)
		return true;
	prepared = sl_statement_pipeline_describe(modify->pipe, shard, sql);
	return prepared == NULL || !modify->returning_binary ||
		sl_decoder_reads(modify->decoder, prepared);
}

/*
 * Stores the returned columns over those of the slot, in the per-row context.
 */
static void
store_reply(SlModify *modify, SlConn *conn, PGresult *result, TupleTableSlot *slot)
{
	TupleDesc	descriptor = RelationGetDescr(modify->relation);
	Datum	   *values = palloc0(sizeof(Datum) * Max(descriptor->natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(descriptor->natts, 1));
	Datum	   *wire_values = palloc(sizeof(Datum) * Max(modify->wire_count, 1));
	bool	   *wire_nulls = palloc(sizeof(bool) * Max(modify->wire_count, 1));

	memset(nulls, true, descriptor->natts);
	if (!TTS_EMPTY(slot))
	{
		slot_getallattrs(slot);
		memcpy(values, slot->tts_values, sizeof(Datum) * descriptor->natts);
		memcpy(nulls, slot->tts_isnull, sizeof(bool) * descriptor->natts);
	}
	sl_decoder_begin(modify->decoder, !modify->returning_binary);
	sl_decoder_row(modify->decoder, conn, result, 0, wire_values, wire_nulls);
	sl_decoder_convert(modify->decoder, wire_values, wire_nulls, values, nulls);
	ExecForceStoreHeapTuple(heap_form_tuple(descriptor, values, nulls), slot, false);
}

/* Stores the row that a statement returned into the slot.  Returns true. */
bool
sl_modify_take_reply(SlModify *modify, SlShard *shard, const char *sql, PGresult *result,
					 TupleTableSlot *slot)
{
	MemoryContext old_context = MemoryContextSwitchTo(modify->work);

	(void) sl_result_own(result);
	MemoryContextSwitchTo(modify->context);
	if (!is_readable(modify, shard, sql))
		make_decoder(modify, shard, sql);
	MemoryContextSwitchTo(modify->work);
	store_reply(modify, sl_statement_pipeline_conn(modify->pipe, shard), result, slot);
	MemoryContextSwitchTo(old_context);
	return true;
}

static bool
returns_binary(const SlModify *modify)
{
	TupleDesc	descriptor = RelationGetDescr(modify->relation);
	ListCell   *cell;

	foreach(cell, modify->returning)
	{
		Oid			type = TupleDescAttr(descriptor, lfirst_int(cell) - 1)->atttypid;

		if (!sl_decode_can_receive(getBaseType(type)))
			return false;
	}
	return true;
}

/* Beginning ------------------------------------------------------------------- */

static void
forget_modify(void *arg)
{
	SlModify   *modify = arg;

	dlist_delete(&modify->node);
}

static SlModify *
make_modify(EState *estate, ResultRelInfo *info, CmdType operation, bool counts)
{
	MemoryContext context = AllocSetContextCreate(estate->es_query_cxt, "shardlet modify",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SlModify   *modify = palloc0(sizeof(SlModify));

	modify->context = context;
	modify->estate = estate;
	modify->relation = info->ri_RelationDesc;
	modify->operation = operation;
	modify->user = sl_foreign_key_user(estate, sl_result_user(info, estate));
	modify->counts = counts;
	modify->work = AllocSetContextCreate(context, "shardlet written row", ALLOCSET_SMALL_SIZES);
	sl_row_route_init(&modify->route, info->ri_RelationDesc);
	modify->statement = sl_statement_of(estate);
	sl_statement_add_writer(modify->statement);
	modify->pipe = sl_statement_pipeline_begin(modify->user, modify->statement);
	modify->callback.func = forget_modify;
	modify->callback.arg = modify;
	MemoryContextRegisterResetCallback(context, &modify->callback);
	dlist_push_tail(&modifies, &modify->node);
	MemoryContextSwitchTo(old_context);
	return modify;
}

/*
 * Checks the plan, as the executor may not have initialized its targets yet.
 * COPY has none.
 */
static bool
needs_reply(const ModifyTable *plan, const ResultRelInfo *info, CmdType operation)
{
	return plan != NULL && (plan->returningLists != NIL || sl_modify_late_checks(plan, 0, info->ri_RelationDesc) != NIL);
}

/* Takes over what was planned for ON CONFLICT. */
static void
take_conflict(SlModify *modify, PlanState *parent, List *private)
{
	const char *clause = strVal(list_nth(private, SL_MODIFY_CONFLICT));
	List	   *params = list_nth(private, SL_MODIFY_CONFLICT_PARAMS);

	if (clause[0] == '\0')
		return;
	modify->conflict = clause;
	modify->conflict_updates = intVal(list_nth(private, SL_MODIFY_CONFLICT_UPDATES)) != 0;
	modify->conflict_params = ExecInitExprList(params, parent);
	modify->conflict_types = sl_conflict_types(params);
	modify->conflict_param_count = list_length(params);
	if (parent->ps_ExprContext == NULL)
		ExecAssignExprContext(parent->state, parent);
	modify->conflict_context = parent->ps_ExprContext;
}

/*
 * Prepares to write rows that the subplan of "parent" returns.  "private" is
 * what sl_modify_plan() returned for the relation.  The result lives as long
 * as the executor's state.
 */
SlModify *
sl_modify_begin(PlanState *parent, const ModifyTable *plan, ResultRelInfo *info, List *private)
{
	SlModify   *modify = make_modify(parent->state, info, plan->operation, plan->canSetTag);
	MemoryContext old_context = MemoryContextSwitchTo(modify->context);

	modify->update_columns = list_nth(private, SL_MODIFY_COLUMNS);
	modify->returning = list_nth(private, SL_MODIFY_RETURNING);
	modify->returning_binary = returns_binary(modify);
	if (!modify->returning_binary)
		sl_statement_pipeline_want_plain(modify->pipe);
	modify->needs_reply = needs_reply(plan, info, plan->operation);
	if (plan->operation == CMD_INSERT)
		take_conflict(modify, parent, private);
	else
		sl_update_prepare(modify, outerPlanState(parent)->plan);
	MemoryContextSwitchTo(old_context);
	return modify;
}

/*
 * Prepares to write the rows of COPY FROM.  The result lives as long as the
 * executor's state.
 */
SlModify *
sl_modify_begin_copy(EState *estate, ResultRelInfo *info)
{
	SlModify   *modify = make_modify(estate, info, CMD_INSERT, false);

	modify->is_bulk = true;
	modify->returning_binary = true;
	return modify;
}

/* Rows ------------------------------------------------------------------------ */

/* Parameters of ON CONFLICT are the same for all rows. */
static void
compute_conflict_values(SlModify *modify)
{
	MemoryContext old_context;

	if (modify->conflict_values != NULL || modify->conflict_param_count == 0)
		return;
	old_context = MemoryContextSwitchTo(modify->context);
	modify->conflict_values = sl_conflict_values(modify->conflict_params, modify->conflict_types,
												 modify->conflict_context);
	MemoryContextSwitchTo(old_context);
}

/* Inserts a row.  Returns NULL if it is known that it was not inserted. */
TupleTableSlot *
sl_modify_insert_row(SlModify *modify, TupleTableSlot *slot)
{
	compute_conflict_values(modify);
	return sl_insert_row(modify, slot);
}

/* End ------------------------------------------------------------------------- */

/*
 * Receives all replies.  Returns the number of rows that counted as written
 * but were not, and were not reported before.
 */
static int64
flush_modify(SlModify *modify)
{
	int64		lost;

	sl_insert_flush(modify);
	lost = (int64) modify->claimed - (int64) modify->copied -
		(int64) (sl_statement_pipeline_flush(modify->pipe) - modify->awaited) - modify->corrected;
	modify->corrected += lost;
	return lost;
}

/* Receives the replies that are still due; NULL: nothing was begun. */
void
sl_modify_end(SlModify *modify)
{
	if (modify != NULL)
		(void) flush_modify(modify);
}

/* Receives all replies.  Returns the number of rows that no shard inserted. */
int64
sl_modify_end_copy(SlModify *modify)
{
	return flush_modify(modify);
}

/*
 * At the end of the plan: waits for the shards, and corrects the count of
 * rows.
 */
void
sl_modify_flush_all(EState *estate)
{
	dlist_iter	iter;

	dlist_foreach(iter, &modifies)
	{
		SlModify   *modify = dlist_container(SlModify, node, iter.cur);
		int64		lost;

		if (modify->estate != estate)
			continue;
		lost = flush_modify(modify);
		if (modify->counts)
			estate->es_processed -= lost;
	}
}

/*
 * CREATE TABLE AS, SELECT INTO and REFRESH MATERIALIZED VIEW are a SELECT to
 * the executor; only the DestReceiver distinguishes them.
 */
static bool
makes_table(const DestReceiver *receiver)
{
	return receiver->mydest == DestIntoRel || receiver->mydest == DestTransientRel;
}

static void
run_hook(SL_EXECUTOR_RUN_PARAMS)
{
	if (sl_partial_results && makes_table(query->dest))
		sl_statement_of(query->estate)->stores = true;
	if (previous_run)
		previous_run(SL_EXECUTOR_RUN_ARGS);
	else
		standard_ExecutorRun(SL_EXECUTOR_RUN_ARGS);
	if (!dlist_is_empty(&modifies))
		sl_modify_flush_all(query->estate);
}

void
sl_modify_init(void)
{
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = run_hook;
	sl_modify_plan_init();
	sl_modify_node_init();
	sl_router_key_check_init();
	sl_router_key_rule_init();
}

/*
 * Adds the functions by which the planner plans writes.  Rows are written by a node of this
 * extension (modify_node_exec.c), so there are none for execution.
 */
void
sl_fdw_add_modify(FdwRoutine *routine)
{
	routine->AddForeignUpdateTargets = sl_modify_add_targets;
	routine->PlanForeignModify = sl_modify_plan;
	routine->ExecForeignTruncate = sl_truncate;
}
