/*
 * truncate_hook.c
 *		TRUNCATE of shell tables.
 *
 * PostgreSQL's own command runs on the router first.  It checks privileges and
 * foreign keys, follows CASCADE, restarts sequences, and gives the shell tables,
 * which are open for it (shell_access.c), new empty files.  Then the shards truncate
 * the tables that are distributed (truncate.c).
 *
 * A reference table is truncated on the shards by its trigger, while the command
 * runs.  Shell tables that refer to it have to be part of that statement: the
 * trigger asks for them.
 *
 * Triggers of shell tables fire on the shards.  If one has a trigger for TRUNCATE,
 * the router runs the command as a replica does, without any triggers but those
 * that are enabled always.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "access/shell_access.h"

static ProcessUtility_hook_type next_utility = NULL;

/* The shell tables of the statement that runs, without partitions: OIDs. */
static List *running_shells = NIL;

/* The relations that the statement names, with their partitions and children. */
static List *
find_named(const TruncateStmt *statement, LOCKMODE lock, bool missing_ok)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, statement->relations)
	{
		const RangeVar *name = lfirst(cell);
		Oid			relid = RangeVarGetRelid(name, lock, missing_ok);

		if (OidIsValid(relid))
			result = list_concat_unique_oid(result, name->inh ? find_all_inheritors(relid, lock, NULL) :
											list_make1_oid(relid));
	}
	return result;
}

/* All relations that the statement truncates, if CASCADE with those that refer to them. */
static List *
find_truncated(const TruncateStmt *statement, LOCKMODE lock, bool missing_ok)
{
	List	   *relids = find_named(statement, lock, missing_ok);
	List	   *referring;

	while (statement->behavior == DROP_CASCADE && (referring = heap_truncate_find_FKs(relids)) != NIL)
	{
		ListCell   *cell;

		foreach(cell, referring)
		{
			if (lock != NoLock)
				LockRelationOid(lfirst_oid(cell), lock);
			relids = list_concat_unique_oid(relids, find_all_inheritors(lfirst_oid(cell), lock, NULL));
		}
	}
	return relids;
}

static List *
keep_shells(List *relids)
{
	ListCell   *cell;

	foreach(cell, relids)
	{
		const SlTable *table = sl_table_get(lfirst_oid(cell));

		if (table == NULL || table->kind == SL_TABLE_REFERENCE)
			relids = foreach_delete_current(relids, cell);
	}
	return relids;
}

/* The user must be allowed to, before locks are taken. */
static void
check_privileges(const TruncateStmt *statement)
{
	ListCell   *cell;

	foreach(cell, statement->relations)
	{
		Oid			relid = RangeVarGetRelid(lfirst(cell), NoLock, false);
		AclResult	result = pg_class_aclcheck(relid, GetUserId(), ACL_TRUNCATE);

		if (result != ACLCHECK_OK)
			aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
	}
}

/* Returns those that no other one of the list contains. */
static List *
find_roots(List *shells)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, shells)
	{
		Oid			relid = lfirst_oid(cell);
		bool		is_contained = false;

		for (Oid parent = relid; !is_contained && get_rel_relispartition(parent);)
		{
			parent = get_partition_parent(parent, false);
			is_contained = list_member_oid(shells, parent);
		}
		if (!is_contained)
			result = lappend_oid(result, relid);
	}
	return result;
}

static bool
have_triggers(List *relids)
{
	bool		result = false;
	ListCell   *cell;

	foreach(cell, relids)
	{
		Relation	relation = table_open(lfirst_oid(cell), NoLock);
		const TriggerDesc *triggers = relation->trigdesc;

		result = result || (triggers != NULL &&
							(triggers->trig_truncate_before_statement || triggers->trig_truncate_after_statement));
		table_close(relation, NoLock);
	}
	return result;
}

/* The arguments of the hook, for the next one. */
typedef struct Call
{
	PlannedStmt *planned;
	const char *source;
	bool		is_read_only;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *environment;
	DestReceiver *receiver;
	QueryCompletion *completion;
} Call;

static void
run_next(const Call *call)
{
	(next_utility != NULL ? next_utility : standard_ProcessUtility)
		(call->planned, call->source, call->is_read_only, call->context, call->params, call->environment,
		 call->receiver, call->completion);
}

bool
sl_truncate_has_shells(void)
{
	return running_shells != NIL;
}

/* Returns the names of the shell tables that exist on a shard, each after a comma. */
char *
sl_truncate_shells_on(const SlShard *shard)
{
	StringInfoData names;
	ListCell   *cell;

	initStringInfo(&names);
	foreach(cell, running_shells)
	{
		Relation	relation;

		if (!list_member_ptr(sl_table_homes(sl_table_get(lfirst_oid(cell))), shard))
			continue;
		relation = table_open(lfirst_oid(cell), NoLock);
		appendStringInfoString(&names, ", ");
		sl_write_relation(&names, relation);
		table_close(relation, NoLock);
	}
	return names.data;
}

/* Runs the statement on the router, where nothing but the files is replaced. */
static void
run_on_router(const Call *call, List *shells, List *roots)
{
	int			nest_level = NewGUCNestLevel();
	List	   *outer_shells = running_shells;
	ListCell   *cell;

	if (have_triggers(shells))
		(void) set_config_option("session_replication_role", "replica", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE,
								 true, 0, false);
	foreach(cell, shells)
		sl_shell_open(lfirst_oid(cell));
	running_shells = roots;
	PG_TRY();
	{
		run_next(call);
	}
	PG_FINALLY();
	{
		running_shells = outer_shells;
		foreach(cell, shells)
			sl_shell_close(lfirst_oid(cell));
	}
	PG_END_TRY();
	AtEOXact_GUC(true, nest_level);
}

static void
truncate_shells(const Call *call, const TruncateStmt *statement)
{
	List	   *shells;
	List	   *roots;
	List	   *relations = NIL;
	ListCell   *cell;

	check_privileges(statement);
	shells = keep_shells(find_truncated(statement, AccessExclusiveLock, false));
	roots = find_roots(shells);
	run_on_router(call, shells, roots);
	foreach(cell, roots)
		relations = lappend(relations, table_open(lfirst_oid(cell), NoLock));
	if (relations != NIL)
		sl_truncate(relations, statement->behavior, statement->restart_seqs);
	foreach(cell, relations)
		table_close(lfirst(cell), NoLock);
}

static void
on_utility(PlannedStmt *planned, const char *source, bool is_read_only, ProcessUtilityContext context,
		   ParamListInfo params, QueryEnvironment *environment, DestReceiver *receiver, QueryCompletion *completion)
{
	Call		call = {planned, source, is_read_only, context, params, environment, receiver, completion};
	const TruncateStmt *statement = (const TruncateStmt *) planned->utilityStmt;

	if (IsA(statement, TruncateStmt) && keep_shells(find_truncated(statement, NoLock, true)) != NIL)
		truncate_shells(&call, statement);
	else
		run_next(&call);
}

void
sl_truncate_hook_init(void)
{
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = on_utility;
}
