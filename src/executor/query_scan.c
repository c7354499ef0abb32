/*
 * query_scan.c
 *		query() and query_key() in FROM, as a scan that streams.
 *
 * PostgreSQL puts all rows of a function in FROM into a tuplestore before it
 * looks at the first one.  So a call is planned as a custom scan: rows are handed
 * on as they come, LIMIT stops the shards, and memory stays flat.  Like a function,
 * the query runs once for the same arguments, however often the rows are read: where
 * they may be read again, they are kept.
 *
 * The function itself (query_funcs.c) remains for what cannot be planned that
 * way, such as WITH ORDINALITY.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "commands/explain.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "mb/pg_wchar.h"
#include "parser/parsetree.h"
#include "tcop/pquery.h"
#include "utils/portal.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "base/base.h"
#include "compat.h"
#include "executor/multi_shard.h"
#include "executor/whole_row.h"

typedef struct QueryScanState
{
	CustomScanState css;		/* must come first */
	Oid			function;
	bool		is_variadic;
	bool		is_key;
	List	   *arguments;		/* of ExprState */
	List	   *types;			/* of the arguments */
	Bitmapset  *params;			/* that the arguments depend on */
	bool		has_subplan;	/* they depend on more than that tells */
	SlMultiShardScan *multi;	/* NULL: not begun */
	MemoryContext context;		/* of one run, reset before the next */
	SlWholeRow	whole;			/* the columns */
	bool		may_rescan;
	Tuplestorestate *kept;		/* rows that may be read again */
	TupleTableSlot *kept_slot;
	SlStatement *statement;
	SlCaller	caller;
	MemoryContextCallback callback;
} QueryScanState;

static set_rel_pathlist_hook_type next_pathlist_hook = NULL;

static Plan *plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path,
					   List *target_list, List *clauses, List *custom_plans);
static Node *create_state(CustomScan *scan);
static void begin_scan(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *exec_scan(CustomScanState *node);
static void end_scan(CustomScanState *node);
static void rescan_query(CustomScanState *node);
static void explain_scan(CustomScanState *node, List *ancestors, ExplainState *es);

static const CustomPathMethods path_methods = {
	.CustomName = "Shardlet Query",
	.PlanCustomPath = plan_scan,
};

static const CustomScanMethods scan_methods = {
	.CustomName = "Shardlet Query",
	.CreateCustomScanState = create_state,
};

static const CustomExecMethods exec_methods = {
	.CustomName = "Shardlet Query",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan_query,
	.ExplainCustomScan = explain_scan,
};

/* Planning ------------------------------------------------------------------- */

/* The call, if the relation is a call of query() or query_key(). */
static FuncExpr *
find_call(RangeTblEntry *entry)
{
	RangeTblFunction *function;

	if (entry->rtekind != RTE_FUNCTION || entry->funcordinality ||
		list_length(entry->functions) != 1)
		return NULL;
	function = linitial_node(RangeTblFunction, entry->functions);
	if (!IsA(function->funcexpr, FuncExpr) ||
		sl_query_call_kind(((FuncExpr *) function->funcexpr)->funcid) == SL_CALL_OTHER)
		return NULL;
	return (FuncExpr *) function->funcexpr;
}

static void
add_scan_path(PlannerInfo *root, RelOptInfo *rel, Index index, RangeTblEntry *entry)
{
	CustomPath *path;

	if (next_pathlist_hook)
		next_pathlist_hook(root, rel, index, entry);
	if (find_call(entry) == NULL)
		return;
	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.param_info = get_baserel_parampathinfo(root, rel, rel->lateral_relids);
	path->path.rows = rel->rows;
	path->path.startup_cost = rel->baserestrictcost.startup;
	path->path.total_cost = path->path.startup_cost + cpu_tuple_cost * rel->tuples;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;

	/* The function scan is never better. */
	rel->pathlist = NIL;
	add_path(rel, (Path *) path);
}

/*
 * Is the row as one value wanted, such as by row_to_json(q)?  The relation's
 * target tells: the planner may put another target list into the plan later.
 */
static bool
needs_whole_row(const RelOptInfo *rel, List *clauses)
{
	Bitmapset  *columns = NULL;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &columns);
	pull_varattnos((Node *) clauses, rel->relid, &columns);
	return bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, columns);
}

/* Every column of the call, as the scan returns it. */
static List *
make_scan_list(RelOptInfo *rel, RangeTblEntry *entry, bool has_whole_row)
{
	RangeTblFunction *function = linitial_node(RangeTblFunction, entry->functions);
	List	   *result = NIL;

	for (int i = 0; i < function->funccolcount; i++)
	{
		Var		   *column = makeVar(rel->relid, i + 1,
									 list_nth_oid(function->funccoltypes, i),
									 list_nth_int(function->funccoltypmods, i),
									 list_nth_oid(function->funccolcollations, i), 0);

		result = lappend(result, makeTargetEntry((Expr *) column, i + 1,
												 pstrdup(strVal(list_nth(entry->eref->colnames, i))),
												 false));
	}
	if (has_whole_row)
		result = lappend(result, makeTargetEntry((Expr *) makeWholeRowVar(entry, rel->relid, 0, false),
												 function->funccolcount + 1, pstrdup("row"), false));
	return result;
}

static Plan *
plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *target_list,
		  List *clauses, List *custom_plans)
{
	RangeTblEntry *entry = planner_rt_fetch(rel->relid, root);
	FuncExpr   *call = find_call(entry);
	CustomScan *scan = makeNode(CustomScan);
	bool		has_whole_row;

	scan->scan.plan.targetlist = target_list;
	scan->scan.plan.qual = extract_actual_clauses(clauses, false);
	has_whole_row = needs_whole_row(rel, scan->scan.plan.qual);
	scan->scan.scanrelid = 0;
	scan->flags = best_path->flags;
	scan->custom_scan_tlist = make_scan_list(rel, entry, has_whole_row);
	scan->custom_exprs = copyObject(call->args);
	scan->custom_private = list_make1_int((int) call->funcid);
	scan->custom_private = lappend_int(scan->custom_private, call->funcvariadic);
	scan->custom_private = lappend_int(scan->custom_private,
									   sl_query_call_kind(call->funcid) == SL_CALL_KEY);
	scan->custom_private = lappend_int(scan->custom_private, has_whole_row);
	scan->methods = &scan_methods;
	return &scan->scan.plan;
}

/* Execution ------------------------------------------------------------------ */

static Node *
create_state(CustomScan *scan)
{
	QueryScanState *state = (QueryScanState *) newNode(sizeof(QueryScanState), T_CustomScanState);

	state->css.methods = &exec_methods;
	return (Node *) state;
}

/* Collects what the arguments depend on. */
static bool
find_params(Node *node, QueryScanState *state)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		state->params = bms_add_member(state->params, ((Param *) node)->paramid);
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan))
		state->has_subplan = true;
	return expression_tree_walker(node, find_params, (void *) state);
}

/* Do the arguments depend on anything that changes while the statement runs? */
static bool
may_run_again(const QueryScanState *state)
{
	return state->has_subplan || !bms_is_empty(state->params);
}

static void
leave_caller(void *arg)
{
	sl_multi_shard_leave(&((QueryScanState *) arg)->caller);
}

static void
begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	QueryScanState *state = (QueryScanState *) node;
	CustomScan *scan = (CustomScan *) node->ss.ps.plan;
	AclResult	allowed;
	ListCell   *cell;

	state->function = (Oid) linitial_int(scan->custom_private);
	state->is_variadic = lsecond_int(scan->custom_private) != 0;
	state->is_key = lthird_int(scan->custom_private) != 0;
	sl_whole_row_open(&state->whole, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
					  lfourth_int(scan->custom_private) != 0);
	allowed = sl_function_aclcheck(state->function, GetUserId());
	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, OBJECT_FUNCTION, get_func_name(state->function));
	state->arguments = ExecInitExprList(scan->custom_exprs, &node->ss.ps);
	foreach(cell, scan->custom_exprs)
		state->types = lappend_oid(state->types, exprType(lfirst(cell)));
	state->context = AllocSetContextCreate(estate->es_query_cxt, "shardlet query scan",
										   ALLOCSET_DEFAULT_SIZES);
	(void) find_params((Node *) scan->custom_exprs, state);
	state->may_rescan = (eflags & EXEC_FLAG_REWIND) != 0 ||
		sl_statement_repeats(estate->es_plannedstmt, &scan->scan.plan);
	sl_multi_shard_set_caller(&state->caller);
	state->callback.func = leave_caller;
	state->callback.arg = state;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &state->callback);
	state->statement = sl_statement_of(estate);
	sl_statement_add_scan(state->statement, state->may_rescan && may_run_again(state));
	state->statement->has_other_scans = true;
}

/* Does the statement query the shards more than once? */
static bool
queries_often(const QueryScanState *state)
{
	return state->statement->scan_count > 1 || (state->may_rescan && may_run_again(state));
}

/* The statement, if its scans must be made to agree. */
static uint64
shared_statement(const QueryScanState *state)
{
	const SlReader *reader = &state->statement->reader;

	if (reader->is_kept || (!IsolationUsesXactSnapshot() &&
							(queries_often(state) || state->statement->has_snapshots)))
		return reader->statement;
	return 0;
}

/*
 * Is there nothing after the call that could fail?  Its rows go to the client as
 * they are, and need no conversion on the way.
 */
static bool
is_last(const QueryScanState *state)
{
	const PlanState *plan = &state->css.ss.ps;

	return ActivePortal != NULL && ActivePortal->queryDesc != NULL &&
		ActivePortal->queryDesc->planstate == plan && plan->ps_ProjInfo == NULL &&
		plan->qual == NULL && state->statement->scan_count == 1 && !state->may_rescan &&
		pg_get_client_encoding() == GetDatabaseEncoding();
}

/* Evaluates the arguments and begins. */
static void
send_query(QueryScanState *state, bool may_restart)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	int			count = list_length(state->arguments);
	MemoryContext old_context = MemoryContextSwitchTo(state->context);
	SlCall		call = {0};

	call.is_key = state->is_key;
	call.is_variadic = state->is_variadic;
	call.may_restart = may_restart;
	call.caller = state->caller;
	if (!queries_often(state) && !state->statement->has_snapshots)
		call.scope = sl_txn_scope_of(state->css.ss.ps.state);
	call.is_last = is_last(state);
	call.statement = shared_statement(state);
	call.reader = &state->statement->reader;
	call.begun = state->statement->has_begun ? state->css.ss.ps.state->es_snapshot : NULL;
	call.count = count;
	call.values = palloc(sizeof(Datum) * count);
	call.nulls = palloc(sizeof(bool) * count);
	call.types = palloc(sizeof(Oid) * count);
	for (int i = 0; i < count; i++)
	{
		call.values[i] = ExecEvalExpr(list_nth(state->arguments, i), econtext, &call.nulls[i]);
		call.types[i] = list_nth_oid(state->types, i);
	}
	sl_statement_begin_scan(state->statement);
	state->multi = sl_query_call_begin(&call, state->whole.columns);
	MemoryContextSwitchTo(old_context);
}

static void
begin_keeping(QueryScanState *state)
{
	EState	   *estate = state->css.ss.ps.state;
	MemoryContext old_context = MemoryContextSwitchTo(estate->es_query_cxt);
	TupleDesc	descriptor = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	state->kept = tuplestore_begin_heap(false, false, work_mem);
	if (state->kept_slot == NULL)
		state->kept_slot = ExecInitExtraTupleSlot(estate, descriptor, &TTSOpsMinimalTuple);
	MemoryContextSwitchTo(old_context);
}

/* Puts a row that was kept into the slot.  False: all of them were read. */
static bool
take_kept(QueryScanState *state, TupleTableSlot *slot)
{
	TupleTableSlot *kept = state->kept_slot;

	if (!tuplestore_gettupleslot(state->kept, true, false, kept))
		return false;
	slot_getallattrs(kept);
	ExecClearTuple(slot);
	memcpy(slot->tts_values, kept->tts_values, sizeof(Datum) * slot->tts_tupleDescriptor->natts);
	memcpy(slot->tts_isnull, kept->tts_isnull, sizeof(bool) * slot->tts_tupleDescriptor->natts);
	ExecStoreVirtualTuple(slot);
	return true;
}

static TupleTableSlot *
access_next(ScanState *node)
{
	QueryScanState *state = (QueryScanState *) node;
	TupleTableSlot *slot = node->ss_ScanTupleSlot;

	if (state->may_rescan && state->kept == NULL)
		begin_keeping(state);
	if (state->kept != NULL && take_kept(state, slot))
		return slot;
	if (state->multi == NULL)
		send_query(state, true);
	while (!sl_multi_shard_next(state->multi, slot))
	{
		if (!sl_multi_shard_is_outdated(state->multi))
			return ExecClearTuple(slot);
		sl_multi_shard_end(state->multi);
		send_query(state, false);
	}
	sl_whole_row_add(&state->whole, node, slot);

	/* All kept rows have been read, so this one counts as read too. */
	if (state->kept != NULL)
		tuplestore_puttupleslot(state->kept, slot);
	return slot;
}

static bool
recheck_row(ScanState *node, TupleTableSlot *slot)
{
	return sl_whole_row_recheck(&((QueryScanState *) node)->whole, node, slot, access_next);
}

static TupleTableSlot *
exec_scan(CustomScanState *node)
{
	return ExecScan(&node->ss, access_next, recheck_row);
}

static void
end_query(QueryScanState *state)
{
	if (state->multi != NULL)
		sl_multi_shard_end(state->multi);
	state->multi = NULL;
	if (state->kept != NULL)
	{
		ExecClearTuple(state->kept_slot);
		tuplestore_end(state->kept);
	}
	state->kept = NULL;
}

static void
end_scan(CustomScanState *node)
{
	end_query((QueryScanState *) node);
}

static void
rescan_query(CustomScanState *node)
{
	QueryScanState *state = (QueryScanState *) node;
	const Bitmapset *changed = node->ss.ps.chgParam;

	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	if (bms_overlap(changed, state->params) || (state->has_subplan && !bms_is_empty(changed)))
	{
		end_query(state);
		MemoryContextReset(state->context);
	}
	else if (state->kept != NULL)
		tuplestore_rescan(state->kept);
	ExecScanReScan(&node->ss);
}

static void
explain_scan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	QueryScanState *state = (QueryScanState *) node;

	ExplainPropertyText("Function", get_func_name(state->function), es);
}

void
sl_scan_init(void)
{
	RegisterCustomScanMethods(&scan_methods);
	next_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = add_scan_path;
}
