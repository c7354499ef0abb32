/*
 * constraint_mode.c
 *		SET CONSTRAINTS: the shards check deferrable constraints when the router does.
 *
 * PostgreSQL keeps the mode in the state of the transaction's triggers, where an
 * extension cannot read it.  So the statements are recorded, and a shard gets those
 * that it has not had yet with its next statement, in the same pipeline.  What is
 * IMMEDIATE is also sent at once to the shards that were written to, because it
 * checks what was deferred until then.
 *
 * A shard gets a mode at the nesting level of the savepoints at which it was set.  So
 * a savepoint that is rolled back takes back the same modes on the router and there,
 * and nothing is ever sent again.  The levels of the list ascend, because the end of
 * a savepoint removes the modes of its level, or makes them those of the level above.
 *
 * The list is in TopTransactionContext.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "metadata/table.h"
#include "transaction/transaction.h"

typedef struct ConstraintMode
{
	char	   *name;			/* quoted; NULL: ALL */
	List	   *shards;			/* ids of those that have it, unless ALL */
	bool		is_deferred;
	uint64		number;			/* they have been sent up to one */
	int			level;			/* nesting level where it was set */
} ConstraintMode;

static List *modes = NIL;
static uint64 last_number = 0;

static ProcessUtility_hook_type next_utility = NULL;

/* Recording ------------------------------------------------------------------- */

/* Returns the tables of the schema's constraints of that name. */
static List *
find_tables(const char *name, Oid schema)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_constraint_conname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum(name));
	ScanKeyInit(&keys[1], Anum_pg_constraint_connamespace, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(schema));
	scan = systable_beginscan(catalog, ConstraintNameNspIndexId, true, NULL, lengthof(keys), keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		result = lappend_oid(result, ((Form_pg_constraint) GETSTRUCT(tuple))->conrelid);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return result;
}

/*
 * Finds the constraints as PostgreSQL does: in the first schema of the search path
 * that has some of that name.
 */
static List *
resolve_name(const RangeVar *constraint, Oid *schema)
{
	List	   *schemas = constraint->schemaname != NULL ?
	list_make1_oid(LookupExplicitNamespace(constraint->schemaname, false)) : fetch_search_path(true);
	ListCell   *cell;

	foreach(cell, schemas)
	{
		List	   *tables = find_tables(constraint->relname, lfirst_oid(cell));

		*schema = lfirst_oid(cell);
		if (tables != NIL)
			return tables;
	}
	return NIL;
}

static void
add_mode(char *name, List *shards, bool is_deferred)
{
	MemoryContext old_context = MemoryContextSwitchTo(TopTransactionContext);
	ConstraintMode *mode = palloc(sizeof(ConstraintMode));

	mode->name = name != NULL ? pstrdup(name) : NULL;
	mode->shards = list_copy(shards);
	mode->is_deferred = is_deferred;
	mode->number = ++last_number;
	mode->level = GetCurrentTransactionNestLevel();
	modes = lappend(modes, mode);
	MemoryContextSwitchTo(old_context);
}

/* A constraint of the router alone has no shards.  Those of reference tables are set with each change. */
static void
add_named_mode(const RangeVar *constraint, bool is_deferred)
{
	Oid			schema = InvalidOid;
	List	   *shards = NIL;
	ListCell   *cell;
	ListCell   *shard_cell;

	foreach(cell, resolve_name(constraint, &schema))
	{
		SlTable    *table = sl_table_get(lfirst_oid(cell));

		if (table == NULL || table->kind == SL_TABLE_REFERENCE)
			continue;
		foreach(shard_cell, sl_table_homes(table))
			shards = list_append_unique_int(shards, ((SlShard *) lfirst(shard_cell))->id);
	}
	if (shards != NIL)
		add_mode(quote_qualified_identifier(get_namespace_name(schema), constraint->relname), shards, is_deferred);
}

/* Sending --------------------------------------------------------------------- */

static bool
concerns(const ConstraintMode *mode, const SlConn *conn)
{
	return mode->number > conn->txn.constraint_mode &&
		(mode->name == NULL || list_member_int(mode->shards, conn->shard_id));
}

static bool
is_concerned(const SlConn *conn)
{
	ListCell   *cell;

	foreach(cell, modes)
	{
		if (concerns(lfirst(cell), conn))
			return true;
	}
	return false;
}

/*
 * Puts ahead of a statement what the shard's transaction has not had yet, of what
 * was set up to a nesting level.  The shard's must be this level.
 */
void
sl_constraint_mode_send(SlConn *conn, int level)
{
	ListCell   *cell;

	foreach(cell, modes)
	{
		const ConstraintMode *mode = lfirst(cell);

		if (mode->level > level)
			break;
		if (!concerns(mode, conn))
			continue;
		sl_pipeline_send_preceding(conn, psprintf("SET CONSTRAINTS %s %s", mode->name != NULL ? mode->name : "ALL",
												  mode->is_deferred ? "DEFERRED" : "IMMEDIATE"), 0, NULL);
		conn->txn.constraint_mode = mode->number;
	}
}

static void
raise_failure(const SlReply *replies, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure != NULL)
			sl_failure_raise(replies[i].failure, NameStr(replies[i].shard->name), "SET CONSTRAINTS");
	}
}

/* Returns the connections that have written and that a mode concerns. */
static SlReply *
make_replies(int *count)
{
	SlReply    *replies;
	int			room = 1;
	dlist_iter	iter;

	dlist_foreach(iter, sl_txn_participants())
		room++;
	replies = palloc0(sizeof(SlReply) * room);
	*count = 0;
	dlist_foreach(iter, sl_txn_participants())
	{
		SlConn	   *conn = dlist_container(SlConn, txn.node, iter.cur);

		if (conn->txn.write_level == 0 || !is_concerned(conn))
			continue;
		replies[*count].shard = sl_shard_by_id(conn->shard_id);
		replies[(*count)++].user = conn->user;
	}
	return replies;
}

/*
 * Shards that were written to check now what is no longer deferred.  What precedes
 * the query does that; an error there is the statement's.
 */
static void
check_on_shards(void)
{
	SlTxnUse	use = {.writes = true};
	int			count;
	SlReply    *replies = make_replies(&count);

	sl_broadcast_open(replies, count);
	raise_failure(replies, count);
	for (int i = 0; i < count; i++)
		sl_txn_join(replies[i].conn, &use);
	sl_broadcast_run(replies, count, "SELECT", 0, NULL, 0);
	raise_failure(replies, count);
}

static void
note_modes(const ConstraintsSetStmt *statement)
{
	ListCell   *cell;

	if (statement->constraints == NIL)
		add_mode(NULL, NIL, statement->deferred);
	foreach(cell, statement->constraints)
		add_named_mode(lfirst(cell), statement->deferred);
	if (!statement->deferred && !dlist_is_empty(sl_txn_participants()))
		check_on_shards();
}

static void
run_utility(PlannedStmt *statement, const char *source, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo params,
			QueryEnvironment *environment, DestReceiver *receiver,
			QueryCompletion *completion)
{
	ProcessUtility_hook_type next = next_utility ? next_utility : standard_ProcessUtility;

	next(statement, source, read_only_tree, context, params, environment, receiver, completion);
	if (IsA(statement->utilityStmt, ConstraintsSetStmt))
		note_modes((const ConstraintsSetStmt *) statement->utilityStmt);
}

/* The end of savepoints and transactions ---------------------------------------- */

static void
at_subtransaction_event(SubXactEvent event, SubTransactionId my_id, SubTransactionId parent_id, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	ListCell   *cell;

	if (modes == NIL || (event != SUBXACT_EVENT_COMMIT_SUB && event != SUBXACT_EVENT_ABORT_SUB))
		return;
	foreach(cell, modes)
	{
		ConstraintMode *mode = lfirst(cell);

		if (mode->level < level)
			continue;
		if (event == SUBXACT_EVENT_ABORT_SUB)
			modes = foreach_delete_current(modes, cell);
		else
			mode->level = level - 1;
	}
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		modes = NIL;
}

void
sl_constraint_mode_init(void)
{
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = run_utility;
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_event, NULL);
}
