/*
 * modify.c
 *		INSERT, UPDATE, DELETE and COPY FROM of tables whose rows live on shards:
 *		from the executor's calls to statements.
 *
 * The executor wants to hear of each row at once whether it was written.  That
 * is waited for only if something depends on it: RETURNING, an AFTER ROW trigger,
 * a check option.  Otherwise the row is sent and counts as written.  When the
 * plan has run to its end, all answers are taken in, and the count is corrected:
 * shards may have left rows out, by ON CONFLICT DO NOTHING or a trigger.  That
 * moment is the end of ExecutorRun(), where the command's tag is not made yet.
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

#include "base/base.h"
#include "compat.h"
#include "fdw/modify.h"

static dlist_head modifies = DLIST_STATIC_INIT(modifies);
static ExecutorRun_hook_type previous_run = NULL;

/* Rows that COPY counted and no shard took. */
static int64 lost_in_copy = 0;

/* Replies --------------------------------------------------------------------- */

static void
make_decoder(SlModify *modify, SlShard *shard, const char *sql)
{
	TupleDesc	wanted = RelationGetDescr(modify->relation);
	const SlPrepared *prepared = sl_pipe_describe(modify->pipe, shard, sql);
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
}

/* Puts what came back over what the slot has; the memory is the row's. */
static void
store_reply(SlModify *modify, PGresult *result, TupleTableSlot *slot)
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
	sl_decoder_row(modify->decoder, result, 0, wire_values, wire_nulls);
	sl_decoder_convert(modify->decoder, wire_values, wire_nulls, values, nulls);
	ExecForceStoreHeapTuple(heap_form_tuple(descriptor, values, nulls), slot, false);
}

/* Takes the row that a statement returned into the slot.  Returns true. */
bool
sl_modify_take_reply(SlModify *modify, SlShard *shard, const char *sql, PGresult *result,
					 TupleTableSlot *slot)
{
	MemoryContext old_context = MemoryContextSwitchTo(modify->work);

	(void) sl_result_own(result);
	MemoryContextSwitchTo(modify->context);
	if (modify->decoder == NULL)
		make_decoder(modify, shard, sql);
	MemoryContextSwitchTo(modify->work);
	store_reply(modify, result, slot);
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
forget(void *arg)
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
	modify->user = sl_result_user(info, estate);
	modify->counts = counts;
	modify->work = AllocSetContextCreate(context, "shardlet written row", ALLOCSET_SMALL_SIZES);
	sl_row_route_init(&modify->route, info->ri_RelationDesc);
	modify->statement = sl_statement_of(estate);
	modify->statement->writes = true;
	modify->pipe = sl_pipe_begin(modify->user, modify->statement);
	modify->callback.func = forget;
	modify->callback.arg = modify;
	MemoryContextRegisterResetCallback(context, &modify->callback);
	dlist_push_tail(&modifies, &modify->node);
	MemoryContextSwitchTo(old_context);
	return modify;
}

static bool
fires_after(const TriggerDesc *triggers, CmdType operation)
{
	return triggers != NULL &&
		((operation == CMD_INSERT && triggers->trig_insert_after_row) ||
		 (operation == CMD_UPDATE && triggers->trig_update_after_row) ||
		 (operation == CMD_DELETE && triggers->trig_delete_after_row));
}

/* The plan is asked, as the executor may not have come to that yet. */
static bool
needs_reply(const ModifyTableState *state, const ResultRelInfo *info, CmdType operation)
{
	const ModifyTable *plan = (const ModifyTable *) state->ps.plan;

	return fires_after(info->ri_TrigDesc, operation) ||
		(plan != NULL && (plan->returningLists != NIL || plan->withCheckOptionLists != NIL));
}

/* Takes over what was planned of ON CONFLICT. */
static void
take_conflict(SlModify *modify, ModifyTableState *state, List *private)
{
	const char *clause = strVal(list_nth(private, SL_MODIFY_CONFLICT));
	List	   *params = list_nth(private, SL_MODIFY_CONFLICT_PARAMS);

	if (clause[0] == '\0')
		return;
	modify->conflict = clause;
	modify->conflict_updates = intVal(list_nth(private, SL_MODIFY_CONFLICT_UPDATES)) != 0;
	modify->conflict_params = ExecInitExprList(params, &state->ps);
	modify->conflict_types = sl_conflict_types(params);
	modify->conflict_param_count = list_length(params);
	if (state->ps.ps_ExprContext == NULL)
		ExecAssignExprContext(state->ps.state, &state->ps);
	modify->conflict_context = state->ps.ps_ExprContext;
}

static void
begin_modify(ModifyTableState *state, ResultRelInfo *info, List *private, int subplan, int eflags)
{
	SlModify   *modify;
	MemoryContext old_context;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	modify = make_modify(state->ps.state, info, state->operation, state->canSetTag);
	old_context = MemoryContextSwitchTo(modify->context);
	modify->update_columns = list_nth(private, SL_MODIFY_COLUMNS);
	modify->returning = list_nth(private, SL_MODIFY_RETURNING);
	modify->returning_binary = returns_binary(modify);
	if (!modify->returning_binary)
		sl_pipe_want_plain(modify->pipe);
	modify->needs_reply = needs_reply(state, info, state->operation);
	if (state->operation == CMD_INSERT)
		take_conflict(modify, state, private);
	else
		sl_update_prepare(modify, outerPlanState(state)->plan);
	info->ri_FdwState = modify;
	MemoryContextSwitchTo(old_context);
}

/* All columns: what of them is wanted is not known. */
static List *
all_columns(Relation relation)
{
	TupleDesc	descriptor = RelationGetDescr(relation);
	List	   *result = NIL;

	for (int i = 0; i < descriptor->natts; i++)
	{
		if (!TupleDescAttr(descriptor, i)->attisdropped)
			result = lappend_int(result, i + 1);
	}
	return result;
}

static void
refuse_conflict(ModifyTableState *state, const ResultRelInfo *info)
{
	ModifyTable *plan = castNode(ModifyTable, state->ps.plan);

	if (plan == NULL || plan->onConflictAction == ONCONFLICT_NONE)
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("ON CONFLICT is not supported for \"%s\" as a partition of another table",
				   RelationGetRelationName(info->ri_RelationDesc)));
}

/*
 * Rows come from COPY, or find this table as a partition.  If it is also the
 * target of an UPDATE, there is a state already.
 */
static void
begin_insert(ModifyTableState *state, ResultRelInfo *info)
{
	SlModify   *modify;
	MemoryContext old_context;

	if (info->ri_FdwState != NULL)
		return;
	if (state->ps.plan != NULL)
		refuse_conflict(state, info);
	modify = make_modify(state->ps.state, info, CMD_INSERT, state->ps.plan != NULL && state->canSetTag);
	old_context = MemoryContextSwitchTo(modify->context);
	modify->needs_reply = needs_reply(state, info, CMD_INSERT);
	modify->is_bulk = state->ps.plan == NULL;
	if (modify->needs_reply)
		modify->returning = all_columns(info->ri_RelationDesc);
	modify->returning_binary = returns_binary(modify);
	if (!modify->returning_binary)
		sl_pipe_want_plain(modify->pipe);
	info->ri_FdwState = modify;
	MemoryContextSwitchTo(old_context);
}

/* Rows ------------------------------------------------------------------------ */

/* Values of ON CONFLICT's parameters are the same for all rows. */
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

static TupleTableSlot *
exec_insert(EState *estate, ResultRelInfo *info, TupleTableSlot *slot, TupleTableSlot *plan_slot)
{
	SlModify   *modify = info->ri_FdwState;

	compute_conflict_values(modify);
	return sl_insert_row(modify, slot);
}

static TupleTableSlot *
exec_update(EState *estate, ResultRelInfo *info, TupleTableSlot *slot, TupleTableSlot *plan_slot)
{
	return sl_update_row(info->ri_FdwState, slot, plan_slot);
}

static TupleTableSlot *
exec_delete(EState *estate, ResultRelInfo *info, TupleTableSlot *slot, TupleTableSlot *plan_slot)
{
	return sl_delete_row(info->ri_FdwState, slot, plan_slot);
}

/* End ------------------------------------------------------------------------- */

/*
 * Takes in all answers.  Returns how many rows that counted as written were
 * not, and were not told of before.
 */
static int64
flush(SlModify *modify)
{
	int64		lost;

	sl_insert_flush(modify);
	lost = (int64) modify->claimed - (int64) modify->copied -
		(int64) (sl_pipe_flush(modify->pipe) - modify->asked) - modify->corrected;
	modify->corrected += lost;
	return lost;
}

static void
end_modify(EState *estate, ResultRelInfo *info)
{
	SlModify   *modify = info->ri_FdwState;

	if (modify != NULL)
		(void) flush(modify);
}

/* COPY has counted its rows; who runs it asks later how many were lost. */
static void
end_insert(EState *estate, ResultRelInfo *info)
{
	SlModify   *modify = info->ri_FdwState;

	if (modify != NULL && modify->operation == CMD_INSERT)
		lost_in_copy += flush(modify);
}

/* Returns how many rows of COPY were lost since the last time. */
int64
sl_modify_lost_in_copy(void)
{
	int64		lost = lost_in_copy;

	lost_in_copy = 0;
	return lost;
}

/* The plan has run: waits for the shards, and corrects the count of rows. */
static void
flush_all(EState *estate)
{
	dlist_iter	iter;

	dlist_foreach(iter, &modifies)
	{
		/* cppcheck-suppress nullPointer */
		SlModify   *modify = dlist_container(SlModify, node, iter.cur);
		int64		lost;

		if (modify->estate != estate)
			continue;
		lost = flush(modify);
		if (modify->counts)
			estate->es_processed -= lost;
	}
}

/*
 * CREATE TABLE AS, SELECT INTO and REFRESH MATERIALIZED VIEW are a SELECT to the
 * executor; only where its rows go tells them.
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
		flush_all(query->estate);
}

static int
is_updatable(Relation relation)
{
	return (1 << CMD_INSERT) | (1 << CMD_UPDATE) | (1 << CMD_DELETE);
}

void
sl_modify_init(void)
{
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = run_hook;
}

/* Adds all that writes to the wrapper's functions. */
void
sl_fdw_add_modify(FdwRoutine *routine)
{
	routine->AddForeignUpdateTargets = sl_modify_add_targets;
	routine->PlanForeignModify = sl_modify_plan;
	routine->BeginForeignModify = begin_modify;
	routine->ExecForeignInsert = exec_insert;
	routine->ExecForeignUpdate = exec_update;
	routine->ExecForeignDelete = exec_delete;
	routine->EndForeignModify = end_modify;
	routine->BeginForeignInsert = begin_insert;
	routine->EndForeignInsert = end_insert;
	routine->IsForeignRelUpdatable = is_updatable;
	routine->ExplainForeignModify = sl_modify_explain;
	routine->ExecForeignTruncate = sl_truncate;
}
