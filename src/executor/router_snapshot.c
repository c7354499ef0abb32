/*
 * router_snapshot.c
 *		The router's own snapshot, and those of the shards with it.
 *
 * With shardlet.consistent_reads a statement that reads tables of the router and
 * of shards sees one state of both.  PostgreSQL takes the router's snapshot before
 * any hook is called for the statement.  So when it is about to run, and has read
 * nothing yet, the snapshots of its shards are taken, and the router's again
 * with them (transaction/snapshot.c).  A statement that reads no table of the router has
 * no need of that.
 *
 * A REPEATABLE READ transaction whose level was set explicitly takes them all with its
 * first statement, whatever that is.  If the level is only the default, its first
 * statement that goes to shards does; if others have run before, it can be too late.
 * Parse analysis of a statement that is only prepared counts as the first one, because
 * PostgreSQL takes the transaction's snapshot for it.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/base.h"
#include "executor/multi_shard.h"
#include "executor/remote_scan.h"
#include "metadata/table.h"

static ExecutorStart_hook_type next_start_hook = NULL;
static post_parse_analyze_hook_type next_analyze_hook = NULL;
static ProcessUtility_hook_type next_utility_hook = NULL;

/* The transaction's level was set in this transaction. */
static bool is_level_chosen = false;

/* A statement has run in this transaction, by its snapshot. */
static bool has_run = false;

/* Which shards ------------------------------------------------------------------- */

static bool
has_exec_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		return true;
	return expression_tree_walker(node, has_exec_param, context);
}

/* The shards that a scan may query, as far as that is known before it runs. */
static List *
shards_of_scan(const SlRemoteScan *scan)
{
	List	   *result = NIL;
	ListCell   *cell;

	if (scan->choose == NULL && !has_exec_param((Node *) scan->others, NULL))
		return sl_remote_scan_choose_shards(scan);
	foreach(cell, scan->programs)
		result = list_concat_unique_ptr(result, sl_table_owners(sl_table_get((Oid) intVal(linitial(lfirst(cell))))));
	return result;
}

/* Returns the shards that a statement may query; NIL: that is not known. */
List *
sl_statement_shards(const SlStatement *statement)
{
	List	   *result = NIL;
	ListCell   *cell;

	if (statement->has_other_scans)
		return NIL;
	foreach(cell, statement->scans)
		result = list_concat_unique_ptr(result, shards_of_scan(lfirst(cell)));
	return result;
}

/* Which statements --------------------------------------------------------------- */

static bool
is_on(void)
{
	return sl_consistent_reads && sl_shmem_is_shared() && !RecoveryInProgress() &&
		!IsParallelWorker() && OidIsValid(MyDatabaseId) && IsTransactionState();
}

/* Does a plan read a table of the router that is not a catalog? */
static bool
reads_router(PlanState *node, void *context)
{
	switch (nodeTag(node))
	{
		case T_SeqScanState:
		case T_SampleScanState:
		case T_IndexScanState:
		case T_IndexOnlyScanState:
		case T_BitmapHeapScanState:
		case T_TidScanState:
		case T_TidRangeScanState:
			if (RelationGetRelid(((ScanState *) node)->ss_currentRelation) >= FirstNormalObjectId)
				return true;
			break;
		default:
			break;
	}
	return planstate_tree_walker(node, reads_router, context);
}

/* Is the snapshot registered by this query alone, twice as PostgreSQL does? */
static bool
is_own_snapshot(const SnapshotData *snapshot)
{
	return snapshot != InvalidSnapshot && snapshot->regd_count == 2;
}

/* Are snapshots of the transaction to be taken with its first statement? */
static bool
takes_with_first(void)
{
	return !sl_snapshot_is_taken() && !sl_snapshot_is_imported() && FirstSnapshotSet &&
		(is_level_chosen || XactIsoLevel != DefaultXactIsoLevel) && is_on() &&
		sl_catalog_is_installed() && sl_shard_all() != NIL;
}

static void
take_with_first(void)
{
	if (!takes_with_first())
		return;
	sl_snapshot_set_renewable(!has_run);
	sl_snapshot_begin(NIL);
}

/* A statement that reads tables of the router, too, is about to run. */
static void
take_for_mixed(SlStatement *statement, EState *estate)
{
	SlTxnUse	use = {.statement = statement->reader.statement,.is_of_writer = statement->writes,
	.reader = &statement->reader};
	List	   *shards;

	if (IsolationUsesXactSnapshot())
	{
		sl_snapshot_begin(NIL);
		statement->has_snapshots = true;
		return;
	}
	if (!is_own_snapshot(estate->es_snapshot))
		return;
	shards = sl_statement_shards(statement);
	sl_snapshot_begin_statement(&use, shards != NIL ? shards : sl_shard_all(), estate->es_snapshot);
	statement->has_snapshots = true;
}

/* Hooks -------------------------------------------------------------------------- */

static void
start_query(QueryDesc *query, int eflags)
{
	SlStatement *statement;
	bool		is_mixed;

	if (IsolationUsesXactSnapshot())
		take_with_first();
	if (next_start_hook)
		next_start_hook(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0 || !is_on())
		return;
	statement = sl_statement_find(query->estate);
	is_mixed = statement != NULL && statement->scan_count > 0 && !statement->reader.is_kept &&
		reads_router(query->planstate, NULL);
	if (IsolationUsesXactSnapshot())
		sl_snapshot_set_renewable(!has_run);
	if (is_mixed)
		take_for_mixed(statement, query->estate);

	/* A statement of shards alone reads nothing before it queries them. */
	has_run = has_run || is_mixed || statement == NULL;
	if (has_run)
		sl_snapshot_set_renewable(false);
}

static bool
exports_snapshot(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && ((FuncExpr *) node)->funcid == F_PG_EXPORT_SNAPSHOT)
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, exports_snapshot, context, 0);
	return expression_tree_walker(node, exports_snapshot, context);
}

static void
after_analysis(ParseState *state, Query *query, JumbleState *jumble)
{
	if (next_analyze_hook)
		next_analyze_hook(state, query, jumble);
	if (!IsolationUsesXactSnapshot())
		return;
	take_with_first();
	if (exports_snapshot((Node *) query, NULL) && is_on() && sl_catalog_is_installed() &&
		sl_shard_all() != NIL)
	{
		sl_snapshot_set_renewable(!has_run);
		sl_snapshot_begin(NIL);
		sl_snapshot_export();
	}
}

/* Does a command name the level of the transaction? */
static bool
chooses_level(Node *command)
{
	List	   *options = NIL;
	ListCell   *cell;

	if (IsA(command, TransactionStmt))
		options = ((TransactionStmt *) command)->options;
	else if (IsA(command, VariableSetStmt))
	{
		VariableSetStmt *set = (VariableSetStmt *) command;

		if (set->name != NULL && strcmp(set->name, "transaction_isolation") == 0)
			return true;
		if (set->name != NULL && strcmp(set->name, "TRANSACTION") == 0)
			options = set->args;
	}
	foreach(cell, options)
	{
		if (strcmp(lfirst_node(DefElem, cell)->defname, "transaction_isolation") == 0)
			return true;
	}
	return false;
}

/* The name in SET TRANSACTION SNAPSHOT, or NULL. */
static const char *
imported_snapshot(Node *command)
{
	VariableSetStmt *set = (VariableSetStmt *) command;

	if (!IsA(command, VariableSetStmt) || set->name == NULL ||
		strcmp(set->name, "TRANSACTION SNAPSHOT") != 0)
		return NULL;
	return pstrdup(strVal(&linitial_node(A_Const, set->args)->val));
}

static void
run_utility(PlannedStmt *statement, const char *source, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo params,
			QueryEnvironment *environment, DestReceiver *receiver,
			QueryCompletion *completion)
{
	ProcessUtility_hook_type next = next_utility_hook ? next_utility_hook : standard_ProcessUtility;
	bool		is_chosen = chooses_level(statement->utilityStmt);
	const char *imported = imported_snapshot(statement->utilityStmt);

	next(statement, source, read_only_tree, context, params, environment, receiver, completion);
	if (is_chosen && IsTransactionState())
		is_level_chosen = true;
	if (imported != NULL)
		sl_snapshot_note_import(imported);
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PARALLEL_PRE_COMMIT ||
		event == XACT_EVENT_PRE_PREPARE)
		return;
	is_level_chosen = false;
	has_run = false;
}

void
sl_router_snapshot_init(void)
{
	next_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = start_query;
	next_analyze_hook = post_parse_analyze_hook;
	post_parse_analyze_hook = after_analysis;
	next_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = run_utility;
	RegisterXactCallback(at_transaction_end, NULL);
}
