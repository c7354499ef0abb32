/*
 * fdw_scan.c
 *		Reads rows of tables from the shards.
 *
 * Nothing is asked for before the first row is wanted.  Then the values that the
 * statement depends on are known, and with them the shards that can have such
 * rows.  A scan that is read again with other values asks again; all that a
 * statement asks a shard sees the same snapshot.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "fdw/fdw.h"
#include "fdw/fdw_scan.h"

/* Beginning ------------------------------------------------------------------------ */

static void
leave_home(void *arg)
{
	sl_fanout_leave(&((SlScan *) arg)->home);
}

/* As whom does the scan connect?  A view's tables are read as its owner. */
static Oid
find_user(ForeignScanState *node)
{
	const ForeignScan *plan = (const ForeignScan *) node->ss.ps.plan;

	return sl_scan_user(plan, node->ss.ps.state);
}

static void
add_column(TupleDesc descriptor, int number, Form_pg_attribute from)
{
	TupleDescInitEntry(descriptor, (AttrNumber) number, NameStr(from->attname), from->atttypid,
					   from->atttypmod, 0);
	TupleDescInitEntryCollation(descriptor, (AttrNumber) number, from->attcollation);
}

/*
 * What is asked for: some columns of the table, and where the row is, if that is
 * wanted.
 */
static TupleDesc
make_wanted(const SlScan *scan, TupleDesc table)
{
	bool		has_identity = (scan->flags & SL_SCAN_IDENTITY) != 0;
	int			count = list_length(scan->columns);
	TupleDesc	wanted = CreateTemplateTupleDesc(count + (has_identity ? 3 : 0));
	ListCell   *cell;

	foreach(cell, scan->columns)
		add_column(wanted, foreach_current_index(cell) + 1,
				   TupleDescAttr(table, lfirst_int(cell) - 1));
	if (has_identity)
	{
		TupleDescInitEntry(wanted, (AttrNumber) (count + 1), "ctid", TIDOID, -1, 0);
		TupleDescInitEntry(wanted, (AttrNumber) (count + 2), "tableoid", INT8OID, -1, 0);
		TupleDescInitEntry(wanted, (AttrNumber) (count + 3), "shard", INT4OID, -1, 0);
	}
	return wanted;
}

/* Has a row as it comes the shape that is wanted? */
static bool
is_in_place(const SlScan *scan, TupleDesc table)
{
	ListCell   *cell;

	if ((scan->flags & (SL_SCAN_IDENTITY | SL_SCAN_RETURNS)) != 0 ||
		list_length(scan->columns) != table->natts)
		return false;
	foreach(cell, scan->columns)
	{
		if (lfirst_int(cell) != foreach_current_index(cell) + 1)
			return false;
	}
	return true;
}

static void
make_shape(ForeignScanState *node, SlScan *scan)
{
	TupleDesc	table = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	bool		is_base = ((ForeignScan *) node->ss.ps.plan)->scan.scanrelid > 0;

	if (!is_base || is_in_place(scan, table))
	{
		scan->wanted = table;
		scan->row = NULL;
		return;
	}
	scan->wanted = make_wanted(scan, table);
	scan->row = MakeSingleTupleTableSlot(scan->wanted, &TTSOpsVirtual);
}

static void
read_sort_keys(SlScan *scan, List *items)
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

static bool
find_params(Node *node, SlScan *scan)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		scan->depends_on = bms_add_member(scan->depends_on, ((Param *) node)->paramid);
	return expression_tree_walker(node, find_params, (void *) scan);
}

/* Reads what the planner made. */
SlScan *
sl_scan_open(ForeignScanState *node)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	SlScan	   *scan = palloc0(sizeof(SlScan));

	scan->sql = strVal(list_nth(plan->fdw_private, SL_SCAN_SQL));
	scan->lock = strVal(list_nth(plan->fdw_private, SL_SCAN_LOCK));
	scan->columns = list_nth(plan->fdw_private, SL_SCAN_COLUMNS);
	scan->flags = intVal(list_nth(plan->fdw_private, SL_SCAN_FLAGS));
	scan->param_count = intVal(list_nth(plan->fdw_private, SL_SCAN_PARAM_COUNT));
	scan->programs = list_nth(plan->fdw_private, SL_SCAN_PRUNE);
	scan->expressions = plan->fdw_exprs;
	scan->limit_place = linitial_int(list_nth(plan->fdw_private, SL_SCAN_LIMIT));
	scan->offset_place = lsecond_int(list_nth(plan->fdw_private, SL_SCAN_LIMIT));
	scan->relations = strVal(list_nth(plan->fdw_private, SL_SCAN_RELATIONS));
	read_sort_keys(scan, list_nth(plan->fdw_private, SL_SCAN_SORT));
	scan->states = ExecInitExprList(plan->fdw_exprs, &node->ss.ps);
	scan->context = AllocSetContextCreate(node->ss.ps.state->es_query_cxt, "shardlet scan",
										  ALLOCSET_DEFAULT_SIZES);
	(void) find_params((Node *) plan->fdw_exprs, scan);
	return scan;
}

/*
 * Must rows be looked for that are to be changed, and not be locked then?  Where
 * rows may have come to a shard by this very statement before it is asked,
 * a lock would find these as well.
 */
static bool
is_unlocked(const SlScan *scan, const PlannedStmt *statement)
{
	return (scan->flags & SL_SCAN_TARGET) != 0 &&
		(scan->may_repeat || (scan->flags & SL_SCAN_MOVES) != 0 || statement->hasModifyingCTE);
}

/* Prepares a scan to run. */
static void
begin(ForeignScanState *node, SlScan *scan)
{
	EState	   *estate = node->ss.ps.state;

	make_shape(node, scan);
	scan->may_repeat = sl_statement_repeats(estate->es_plannedstmt, node->ss.ps.plan);
	scan->is_unlocked = is_unlocked(scan, estate->es_plannedstmt);
	sl_fanout_settle(&scan->home);
	scan->home.user = find_user(node);
	scan->callback.func = leave_home;
	scan->callback.arg = scan;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, &scan->callback);
	scan->statement = sl_statement_of(estate);
	scan->statement->scan_count++;
	if (scan->is_unlocked)
	{
		scan->flags &= ~SL_SCAN_LOCKS;
		scan->statement->is_unlocked = true;
	}
	if ((scan->flags & SL_SCAN_WRITES) != 0)
		scan->statement->writes = true;
	scan->keeps_stats = estate->es_instrument != 0;
}

void
sl_fdw_begin_scan(ForeignScanState *node, int eflags)
{
	node->fdw_state = sl_scan_open(node);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		begin(node, node->fdw_state);
}

/* Values ------------------------------------------------------------------------------ */

static ExprContext *
context_of(ForeignScanState *node)
{
	return node->ss.ps.ps_ExprContext;
}

/*
 * The values of the parameters, as text in a form that every setting reads.
 * They are computed with the session's settings, and written without.
 */
const char **
sl_scan_params(SlScan *scan, ExprContext *context)
{
	int			count = scan->param_count;
	const char **params = palloc0(sizeof(char *) * Max(count, 1));
	Datum	   *values = palloc(sizeof(Datum) * Max(count, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(count, 1));
	int			nest_level;

	if (count == 0)
		return params;
	for (int i = 0; i < count; i++)
		values[i] = ExecEvalExpr(list_nth(scan->states, i), context, &nulls[i]);
	nest_level = sl_map_begin_plain_output();
	for (int i = 0; i < count; i++)
	{
		Oid			output;
		bool		is_varlena;

		getTypeOutputInfo(exprType(list_nth(scan->expressions, i)), &output, &is_varlena);
		if (!nulls[i])
			params[i] = OidOutputFunctionCall(output, values[i]);
	}
	sl_map_end_plain_output(nest_level);
	return params;
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

/* The shards that can have rows, as far as the conditions on all tables tell. */
List *
sl_scan_shards(SlScan *scan, ExprContext *context)
{
	List	   *states = list_copy_tail(scan->states, scan->param_count);
	List	   *expressions = list_copy_tail(scan->expressions, scan->param_count);
	bool		writes = (scan->flags & (SL_SCAN_WRITES | SL_SCAN_LOCKS | SL_SCAN_TARGET)) != 0;
	List	   *result = NIL;
	List	   *owners = NIL;
	ListCell   *cell;

	foreach(cell, scan->programs)
	{
		List	   *item = lfirst(cell);
		SlTable    *table = sl_table_get((Oid) intVal(linitial(item)));
		List	   *shards = sl_prune_shards(table, lsecond(item), context, states, expressions,
											 writes);

		result = foreach_current_index(cell) == 0 ? shards :
			common_shards(result, shards);
		if (owners == NIL)
			owners = sl_table_owners(table);
	}

	/* Somebody must say that the count of nothing is zero. */
	if (result == NIL && owners != NIL && (scan->flags & SL_SCAN_ONE_ROW) != 0)
		return list_make1(linitial(owners));
	if (list_length(result) > 1 && (scan->flags & SL_SCAN_SINGLE) != 0)
		elog(ERROR, "rows that were planned to be on one shard are on %d", list_length(result));
	return result;
}

static bool
evaluate_count(SlScan *scan, ExprContext *context, int place, const char *word, int64 *result)
{
	bool		is_null;
	Datum		value;

	*result = 0;
	if (place < 0)
		return false;
	value = ExecEvalExpr(list_nth(scan->states, scan->param_count + place), context, &is_null);
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

/* Each shard sends as many rows as the whole may have. */
static void
set_limit(SlScan *scan, ExprContext *context, SlFanoutSpec *spec)
{
	bool		has_limit = evaluate_count(scan, context, scan->limit_place, "LIMIT", &spec->limit);

	(void) evaluate_count(scan, context, scan->offset_place, "OFFSET", &spec->offset);
	spec->has_limit = has_limit;
	if (list_length(spec->shards) == 1)
	{
		if (has_limit)
			spec->sql = psprintf("%s LIMIT " INT64_FORMAT, spec->sql, spec->limit);
		if (spec->offset > 0)
			spec->sql = psprintf("%s OFFSET " INT64_FORMAT, spec->sql, spec->offset);
		spec->offset = 0;
	}
	else if (has_limit && spec->limit <= PG_INT64_MAX - spec->offset)
		spec->sql = psprintf("%s LIMIT " INT64_FORMAT, spec->sql, spec->limit + spec->offset);
}

/* Rows ---------------------------------------------------------------------------------- */

/* Must what the statement asks the shards be made to agree? */
static bool
asks_often(const SlScan *scan)
{
	return scan->statement->scan_count > 1 || scan->may_repeat || scan->statement->writes;
}

static void
set_use(ForeignScanState *node, SlScan *scan, SlTxnUse *use)
{
	use->writes = (scan->flags & (SL_SCAN_LOCKS | SL_SCAN_WRITES)) != 0;
	use->is_alone = !use->writes && !asks_often(scan) && sl_txn_is_alone(node->ss.ps.state);
	use->is_part = !use->writes;
	if ((!use->writes && asks_often(scan) &&
		 (scan->statement->writes || !IsolationUsesXactSnapshot())) ||
		((scan->flags & SL_SCAN_WRITES) != 0 && scan->statement->scan_count > 1))
		use->statement = scan->statement->id;
	use->is_of_writer = scan->statement->writes;
}

/* Adds what one run did to what is shown at the end. */
static void
keep_stats(SlScan *scan, SlFanoutSpec *spec)
{
	ListCell   *cell;

	if (!scan->keeps_stats)
		return;
	spec->stats = palloc0(sizeof(SlShardStat) * Max(list_length(spec->shards), 1));
	foreach(cell, spec->shards)
		spec->stats[foreach_current_index(cell)].shard = lfirst(cell);
	scan->stats = spec->stats;
	scan->stat_count = list_length(spec->shards);
}

static void
begin_fanout(ForeignScanState *node, SlScan *scan)
{
	ExprContext *context = context_of(node);
	MemoryContext old_context;
	SlFanoutSpec spec = {0};

	sl_scan_collect(scan, node->ss.ps.state->es_query_cxt);
	MemoryContextReset(scan->context);
	old_context = MemoryContextSwitchTo(scan->context);
	spec.shards = sl_scan_shards(scan, context);
	spec.skip_failures = sl_partial_results && (scan->flags & SL_SCAN_LOCKS) == 0 &&
		node->ss.ps.state->es_plannedstmt->commandType == CMD_SELECT &&
		!node->ss.ps.state->es_plannedstmt->hasModifyingCTE;
	if (!scan->statement->has_begun)
		sl_fanout_reset_missing();
	scan->statement->has_begun = true;
	sl_call_check_states(&spec.shards, (scan->flags & (SL_SCAN_LOCKS | SL_SCAN_WRITES)) != 0,
						 spec.skip_failures);
	spec.sql = (scan->flags & SL_SCAN_LOCKS) != 0 ? psprintf("%s%s", scan->sql, scan->lock) : scan->sql;
	spec.param_count = spec.own_param_count = scan->param_count;
	spec.params = sl_scan_params(scan, context);
	spec.home = scan->home;
	spec.plain_values = (scan->flags & SL_SCAN_WRITES) == 0;
	spec.wanted = scan->wanted;
	spec.shard_column = (scan->flags & SL_SCAN_IDENTITY) != 0 ? scan->wanted->natts - 1 : -1;
	spec.sort_count = list_length(spec.shards) > 1 ? scan->sort_count : 0;
	spec.sort_keys = scan->sort_keys;
	set_limit(scan, context, &spec);
	set_use(node, scan, &spec.use);
	sl_txn_check_span(spec.shards, spec.use.writes);
	sl_call_ask_for_snapshots(&spec);
	keep_stats(scan, &spec);
	scan->fanout = sl_fanout_begin(&spec);
	MemoryContextSwitchTo(old_context);
}

/* Says where the row is: the shard, its table there, and the place in that. */
static void
set_identity(const SlScan *scan, HeapTuple tuple)
{
	int			count = list_length(scan->columns);
	TupleTableSlot *row = scan->row;

	tuple->t_self = *(ItemPointer) DatumGetPointer(row->tts_values[count]);
	tuple->t_data->t_ctid = tuple->t_self;
	HeapTupleHeaderSetXmin(tuple->t_data, (TransactionId) DatumGetInt64(row->tts_values[count + 1]));
	HeapTupleHeaderSetXmax(tuple->t_data, InvalidTransactionId);
	HeapTupleHeaderSetCmin(tuple->t_data, (CommandId) DatumGetInt32(row->tts_values[count + 2]));
}

/*
 * Stores a row that has system columns.  What a direct modification returns has
 * them in its target list too, though nobody looks at them.
 */
static void
store_with_header(ForeignScanState *node, SlScan *scan, TupleTableSlot *slot)
{
	MemoryContext old_context = MemoryContextSwitchTo(context_of(node)->ecxt_per_tuple_memory);
	HeapTuple	tuple = heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values,
										slot->tts_isnull);

	tuple->t_tableOid = RelationGetRelid(node->ss.ss_currentRelation);
	if ((scan->flags & SL_SCAN_IDENTITY) != 0)
		set_identity(scan, tuple);
	MemoryContextSwitchTo(old_context);
	ExecClearTuple(slot);
	ExecStoreHeapTuple(tuple, slot, false);
}

static void
store_row(ForeignScanState *node, SlScan *scan, TupleTableSlot *slot)
{
	ListCell   *cell;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, sizeof(bool) * slot->tts_tupleDescriptor->natts);
	foreach(cell, scan->columns)
	{
		int			from = foreach_current_index(cell);
		int			to = lfirst_int(cell) - 1;

		slot->tts_values[to] = scan->row->tts_values[from];
		slot->tts_isnull[to] = scan->row->tts_isnull[from];
	}
	if ((scan->flags & (SL_SCAN_IDENTITY | SL_SCAN_RETURNS)) != 0)
		store_with_header(node, scan, slot);
	else
		ExecStoreVirtualTuple(slot);
}

TupleTableSlot *
sl_fdw_next(ForeignScanState *node)
{
	SlScan	   *scan = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (scan->fanout == NULL)
		begin_fanout(node, scan);
	if (scan->row == NULL)
		return sl_fanout_next(scan->fanout, slot) ? slot : ExecClearTuple(slot);
	if (!sl_fanout_next(scan->fanout, scan->row))
		return ExecClearTuple(slot);
	store_row(node, scan, slot);
	return slot;
}

/* The end -------------------------------------------------------------------------------- */

/* What a shard has done so far, in all runs. */
static SlShardStat *
find_total(SlScan *scan, SlShard *shard, MemoryContext context)
{
	MemoryContext old_context;
	SlShardStat *total;
	ListCell   *cell;

	foreach(cell, scan->totals)
	{
		if (((SlShardStat *) lfirst(cell))->shard == shard)
			return lfirst(cell);
	}
	old_context = MemoryContextSwitchTo(context);
	total = palloc0(sizeof(SlShardStat));
	total->shard = shard;
	scan->totals = lappend(scan->totals, total);
	MemoryContextSwitchTo(old_context);
	return total;
}

/* Adds rows that did not come here. */
void
sl_scan_add_total(SlScan *scan, SlShard *shard, int64 rows, MemoryContext context)
{
	if (scan->keeps_stats)
		find_total(scan, shard, context)->rows += rows;
}

/* Adds up what the run that is over did. */
void
sl_scan_collect(SlScan *scan, MemoryContext context)
{
	for (int i = 0; i < scan->stat_count; i++)
	{
		SlShardStat *total = find_total(scan, scan->stats[i].shard, context);

		total->rows += scan->stats[i].rows;
		total->us += scan->stats[i].us;
	}
	scan->stat_count = 0;
}

static void
end_fanout(SlScan *scan)
{
	if (scan->fanout != NULL)
		sl_fanout_end(scan->fanout);
	scan->fanout = NULL;
}

void
sl_fdw_rescan(ForeignScanState *node)
{
	end_fanout(node->fdw_state);
}

void
sl_fdw_end_scan(ForeignScanState *node)
{
	SlScan	   *scan = node->fdw_state;

	if (scan == NULL)
		return;
	end_fanout(scan);
	if (scan->row != NULL)
		ExecDropSingleTupleTableSlot(scan->row);
	scan->row = NULL;
}
