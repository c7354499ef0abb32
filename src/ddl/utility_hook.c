/*
 * utility_hook.c
 *		Runs DDL on distributed tables on the shards as well.
 *
 * A statement runs on the router first: that checks privileges, takes the router's
 * lock and says in PostgreSQL's own words what is wrong with it.  Then its SQL goes
 * to the shards, in the session's transaction, so that it takes effect everywhere or
 * not at all.  Only what PostgreSQL does not allow in a transaction, such as VACUUM,
 * goes to the shards outside of one, and first.
 *
 * Statements that PostgreSQL makes for parts of a distributed one (the sequence of a
 * serial column) are ignored: their query string is that of the whole.
 *
 * What is dropped along with something else stays on the shards, and a notice says
 * so: only tables that the statement names lose their rows.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "access/shell_access.h"
#include "base/base.h"
#include "ddl/ddl.h"
#include "ddl/ddl_internal.h"

/* The arguments of the hook, for the next hook. */
typedef struct Call
{
	PlannedStmt *statement;
	const char *source;
	bool		read_only_tree;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *environment;
	DestReceiver *receiver;
	QueryCompletion *completion;
} Call;

static ProcessUtility_hook_type next_utility = NULL;
static object_access_hook_type next_object_access = NULL;

/* A distributed statement is running on the router. */
static bool is_carrying = false;

/*
 * Names of the tables that the running statement has dropped on the router and not on
 * the shards, and of those that it is to drop there.  The names are in the context of
 * the outermost statement.
 */
static int	statement_depth = 0;
static List *left_behind = NIL;
static List *dropped = NIL;
static MemoryContext left_context = NULL;

/*
 * The kinds of statements that can concern a distributed table.  "plan" finds out whether
 * the statement does, and if so fills in the rest of the SlDdl.  A statement that is not
 * listed either has no meaning on the shards (views, functions, triggers of the router)
 * or reaches them through the foreign data wrapper (TRUNCATE, ANALYZE, COPY).
 */
typedef struct Rule
{
	NodeTag		tag;
	bool		(*plan) (SlDdl *ddl);
} Rule;

static const Rule rules[] = {
	{T_AlterTableStmt, sl_ddl_plan_alter},
	{T_IndexStmt, sl_ddl_plan_create_index},
	{T_DropStmt, sl_ddl_plan_drop},
	{T_RenameStmt, sl_ddl_plan_rename},
	{T_AlterObjectSchemaStmt, sl_ddl_plan_schema},
	{T_GrantStmt, sl_ddl_plan_grant},
	{T_CommentStmt, sl_ddl_plan_comment},
	{T_CreatePolicyStmt, sl_ddl_plan_create_policy},
	{T_AlterPolicyStmt, sl_ddl_plan_alter_policy},
	{T_CreateStmt, sl_ddl_plan_create_table},
	{T_CreateForeignTableStmt, sl_ddl_plan_create_table},
	{T_CreateStatsStmt, sl_ddl_plan_create_statistics},
	{T_AlterStatsStmt, sl_ddl_plan_alter_statistics},
	{T_ReindexStmt, sl_ddl_plan_reindex},
	{T_ClusterStmt, sl_ddl_plan_cluster},
	{T_LockStmt, sl_ddl_plan_lock},
	{T_VacuumStmt, sl_ddl_plan_vacuum},
	{T_CreateTrigStmt, sl_ddl_plan_create_trigger},
	{T_CreateFunctionStmt, sl_ddl_plan_create_function},
	{T_AlterFunctionStmt, sl_ddl_plan_alter_function},
	{T_AlterOwnerStmt, sl_ddl_plan_owner},
	{T_AlterEnumStmt, sl_ddl_plan_enum},
	{T_AlterDomainStmt, sl_ddl_plan_domain},
};

/* Returns false for a statement that concerns no distributed table. */
static bool
plan_statement(SlDdl *ddl)
{
	NodeTag		tag = nodeTag(ddl->node);

	for (int i = 0; i < (int) lengthof(rules); i++)
	{
		if (rules[i].tag == tag)
			return rules[i].plan(ddl);
	}
	return false;
}

/* A column of a distributed table that was dropped along with something else. */
typedef struct LostColumn
{
	Oid			relid;
	int			number;
	char	   *name;
} LostColumn;

static List *lost_columns = NIL;

static void
run_next(const Call *call, PlannedStmt *statement, bool read_only_tree)
{
	(next_utility ? next_utility : standard_ProcessUtility)
		(statement, call->source, read_only_tree, call->context, call->params,
		 call->environment, call->receiver, call->completion);
}

/* Runs a statement that was made or changed by the extension, in place of the whole. */
static void
run_instead(const Call *call, Node *node)
{
	PlannedStmt *statement = makeNode(PlannedStmt);

	if (node == call->statement->utilityStmt)
	{
		run_next(call, call->statement, call->read_only_tree);
		return;
	}
	statement->commandType = CMD_UTILITY;
	statement->canSetTag = call->statement->canSetTag;
	statement->utilityStmt = node;
	statement->stmt_location = call->statement->stmt_location;
	statement->stmt_len = call->statement->stmt_len;
	run_next(call, statement, false);
}

static void
run_on_router(const Call *call, const SlDdl *ddl)
{
	bool		outer = is_carrying;
	List	   *outer_dropped = dropped;
	MemoryContext context = CurrentMemoryContext;
	ListCell   *cell;

	/* Whatever happens, later statements must not be taken for parts. */
	is_carrying = !ddl->keeps_columns;
	dropped = ddl->dropped;
	foreach(cell, ddl->opened)
		sl_shell_open(lfirst_oid(cell));
	PG_TRY();
	{
		foreach(cell, ddl->local)
		{
			run_instead(call, lfirst(cell));

			/*
			 * VACUUM and ANALYZE may have ended a transaction and its
			 * context.
			 */
			MemoryContextSwitchTo(context);
			CommandCounterIncrement();
		}
	}
	PG_FINALLY();
	{
		is_carrying = outer;
		dropped = outer_dropped;
		foreach(cell, ddl->opened)
			sl_shell_close(lfirst_oid(cell));
	}
	PG_END_TRY();
}

static bool
has_column(const LostColumn *lost)
{
	HeapTuple	tuple = SearchSysCacheAttNum(lost->relid, lost->number);

	if (!HeapTupleIsValid(tuple))
		return false;
	ReleaseSysCache(tuple);
	return true;
}

/*
 * A column that is dropped along with its type would be dropped on the router and not
 * on the shards.
 */
static void
refuse_lost_columns(void)
{
	ListCell   *cell;

	CommandCounterIncrement();
	foreach(cell, lost_columns)
	{
		LostColumn *lost = lfirst(cell);

		if (get_rel_name(lost->relid) == NULL || has_column(lost))
			continue;
		ereport(ERROR,
				errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				errmsg("cannot drop column \"%s\" of table \"%s\" along with something else",
					   lost->name, get_rel_name(lost->relid)),
				errdetail("The table's rows are on shards, which would keep the column."),
				errhint("Drop the column first: ALTER TABLE ... DROP COLUMN."));
	}
}

/* Locks and what only moves things about are allowed in every transaction. */
static bool
is_change(const Node *node)
{
	switch (nodeTag(node))
	{
		case T_LockStmt:
		case T_VacuumStmt:
		case T_ReindexStmt:
		case T_ClusterStmt:
			return false;
		default:
			return true;
	}
}

static void
run_distributed(const Call *call, SlDdl *ddl)
{
	/* What does not run on the router is not refused by PostgreSQL itself. */
	if (ddl->local == NIL && is_change(ddl->node))
		PreventCommandIfReadOnly(GetCommandTagName(CreateCommandTag(ddl->node)));
	sl_ddl_check_shards(ddl);
	if (ddl->is_separate && !ddl->is_router_first)
	{
		sl_ddl_send(ddl);
		run_on_router(call, ddl);
		sl_ddl_store_missed(ddl);
		return;
	}
	run_on_router(call, ddl);
	if (ddl->keeps_columns)
		refuse_lost_columns();
	if (ddl->finish != NULL)
		ddl->finish(ddl);
	sl_ddl_create_needs(ddl);
	sl_ddl_send(ddl);
	sl_ddl_store_missed(ddl);
	sl_ddl_check_exposed(ddl);
}

static bool
is_watching(const Call *call)
{
	return sl_carry_ddl && !IsBinaryUpgrade &&
		!(is_carrying && call->context == PROCESS_UTILITY_SUBCOMMAND);
}

/* May objects that are listed by their names have others afterwards? */
static bool
changes_names(const Node *node)
{
	return IsA(node, RenameStmt) || IsA(node, AlterObjectSchemaStmt);
}

/* Runs the statement on the shards as well, if it concerns a distributed table. */
static void
run_statement(const Call *call)
{
	SlDdl		ddl = {.node = call->statement->utilityStmt,.source = call->source};
	List	   *noted = NIL;

	ddl.start = Max(call->statement->stmt_location, 0);
	ddl.length = call->statement->stmt_len > 0 ? call->statement->stmt_len :
		(int) strlen(call->source) - ddl.start;
	ddl.has_text = call->context != PROCESS_UTILITY_SUBCOMMAND;
	ddl.is_top_level = call->context == PROCESS_UTILITY_TOPLEVEL;
	if (is_watching(call) && changes_names(ddl.node))
		noted = sl_object_note_names();
	if (is_watching(call) && plan_statement(&ddl))
		run_distributed(call, &ddl);
	else
		run_next(call, call->statement, call->read_only_tree);
	sl_object_follow_names(noted);
}

static void
tell_left_behind(void)
{
	StringInfoData names;
	ListCell   *cell;

	if (left_behind == NIL)
		return;
	initStringInfo(&names);
	foreach(cell, left_behind)
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", (char *) lfirst(cell));
	ereport(NOTICE,
			errmsg_plural("%d table stays on the shards",
						  "%d tables stay on the shards",
						  list_length(left_behind), list_length(left_behind)),
			errdetail_internal("%s", names.data));
}

static void
watch_commands(PlannedStmt *statement, const char *source, bool read_only_tree,
			   ProcessUtilityContext context, ParamListInfo params,
			   QueryEnvironment *environment, DestReceiver *receiver,
			   QueryCompletion *completion)
{
	Call		call = {statement, source, read_only_tree, context, params, environment,
	receiver, completion};

	/* Only these can drop a table; all others are quicker without. */
	if (!IsA(statement->utilityStmt, DropStmt) &&
		!IsA(statement->utilityStmt, DropOwnedStmt))
	{
		run_statement(&call);
		return;
	}
	if (statement_depth == 0)
	{
		left_behind = NIL;
		lost_columns = NIL;
		left_context = CurrentMemoryContext;
	}
	statement_depth++;
	PG_TRY();
	{
		run_statement(&call);
		if (statement_depth == 1)
		{
			refuse_lost_columns();
			tell_left_behind();
		}
	}
	PG_FINALLY();
	{
		statement_depth--;
	}
	PG_END_TRY();
}

static void
leave_behind(Oid relid)
{
	MemoryContext old_context;
	char	   *name;
	ListCell   *cell;

	if (list_member_oid(dropped, relid))
		return;
	old_context = MemoryContextSwitchTo(left_context);
	name = sl_ddl_name(relid);
	foreach(cell, left_behind)
	{
		if (strcmp(lfirst(cell), name) == 0)
			name = NULL;
		if (name == NULL)
			break;
	}
	if (name != NULL)
		left_behind = lappend(left_behind, name);
	MemoryContextSwitchTo(old_context);
}

/* Returns the table whose changes a trigger sends, if it is such a trigger. */
static Oid
table_of_trigger(Oid trigger)
{
	Relation	relation = table_open(TriggerRelationId, AccessShareLock);
	Oid			result = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(trigger));
	scan = systable_beginscan(relation, TriggerOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) &&
		((Form_pg_trigger) GETSTRUCT(tuple))->tgfoid == sl_ddl_reference_function())
		result = ((Form_pg_trigger) GETSTRUCT(tuple))->tgrelid;
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/* A column is dropped; whether its table is as well is not known yet. */
static void
note_column(Oid relid, int column)
{
	MemoryContext old_context;
	LostColumn *lost;

	if (sl_table_get(relid) == NULL)
		return;
	old_context = MemoryContextSwitchTo(left_context);
	lost = palloc(sizeof(LostColumn));
	lost->relid = relid;
	lost->number = column;
	lost->name = get_attname(relid, column, false);
	lost_columns = lappend(lost_columns, lost);
	MemoryContextSwitchTo(old_context);
}

/*
 * The triggers of a reference table go before the table, and without them it
 * is one no more: so they are what is watched there.
 */
static void
watch_objects(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (next_object_access)
		next_object_access(access, class_id, object_id, sub_id, arg);
	if (access != OAT_DROP || statement_depth == 0 || !sl_carry_ddl)
		return;
	if (sub_id != 0)
	{
		if (class_id == RelationRelationId && !is_carrying)
			note_column(object_id, sub_id);
		return;
	}
	if (class_id == TriggerRelationId)
	{
		Oid			relid = table_of_trigger(object_id);

		if (OidIsValid(relid))
			leave_behind(relid);
	}
	else if (class_id == RelationRelationId && sl_table_is_remote(object_id, get_rel_relkind(object_id)))
		leave_behind(object_id);
}

void
sl_ddl_init(void)
{
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = watch_commands;
	next_object_access = object_access_hook;
	object_access_hook = watch_objects;
}
