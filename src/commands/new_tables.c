/*
 * new_tables.c
 *		shardlet.new_tables: CREATE TABLE makes a sharded table.
 *
 * PostgreSQL creates the table on the router first, with its sequences, indexes and
 * foreign keys.  If it turns out to have the column of the setting, it is distributed
 * right away, by what distribute() calls, in the same transaction.  What cannot
 * be distributed is an error, and the table is gone with it: it never stays on the
 * router silently.
 *
 * A foreign key to a sharded table is looked at when it is known what the new table is:
 * a sharded one can have actions, and be checked at the end of the transaction, which a
 * table of the router cannot (access/router_foreign_key_rule.c).
 *
 * Exempt are temporary and unlogged tables, partitions, which go with their parent,
 * and what is not a user's wish for a table: scripts of extensions, restores, commands
 * of this extension, statements of a router on a shard.  On a database that is a
 * shard only, the setting has no meaning: the configuration file may have it for all
 * databases of the server.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "access/shell_access.h"
#include "base/base.h"
#include "commands/commands.h"
#include "compat.h"

static ProcessUtility_hook_type next_utility = NULL;

/* A statement that makes a permanent table, and what is known before it runs. */
typedef struct NewTable
{
	SlNewTableSetting setting;
	Oid			schema;
	const char *name;
	bool		is_query;		/* CREATE TABLE AS */
	List	   *foreign_keys;	/* OIDs of those that are not checked yet */
} NewTable;

/* Which statements ------------------------------------------------------------ */

/* Returns the name of the table that CREATE TABLE AS makes, or NULL. */
static RangeVar *
find_query_target(Node *statement)
{
	Node	   *query;

	if (IsA(statement, ExplainStmt))
	{
		query = castNode(ExplainStmt, statement)->query;
		if (!IsA(query, Query) || ((Query *) query)->utilityStmt == NULL)
			return NULL;
		statement = ((Query *) query)->utilityStmt;
	}
	if (!IsA(statement, CreateTableAsStmt) || castNode(CreateTableAsStmt, statement)->objtype != OBJECT_TABLE)
		return NULL;
	return castNode(CreateTableAsStmt, statement)->into->rel;
}

/* Is this session, or this command, one whose tables stay as they are? */
static bool
is_exempt(void)
{
	return !sl_carry_ddl || sl_router || creating_extension || sl_shell_is_restoring() || !sl_catalog_is_installed();
}

/* Is the database a shard of another router, and no router itself? */
static bool
is_shard_only(void)
{
	const char *identity = GetConfigOption("shardlet.identity", true, false);

	return identity != NULL && identity[0] != '\0' && sl_shard_all() == NIL;
}

/*
 * Does the statement make a permanent table that may have to be distributed?  As far
 * as privileges on the schema are checked, PostgreSQL would raise the same error.
 */
static bool
is_meant(Node *statement, NewTable *new)
{
	RangeVar   *name = find_query_target(statement);
	Oid			existing;

	new->is_query = name != NULL;
	if (IsA(statement, CreateStmt))
		name = castNode(CreateStmt, statement)->relation;
	if (name == NULL || name->relpersistence != RELPERSISTENCE_PERMANENT || !sl_new_table_setting(&new->setting) ||
		is_exempt() || is_shard_only())
		return false;
	name = copyObject(name);
	new->schema = RangeVarGetAndCheckCreationNamespace(name, NoLock, &existing);
	new->name = name->relname;
	return !OidIsValid(existing) && name->relpersistence == RELPERSISTENCE_PERMANENT;
}

/* What has become of them ----------------------------------------------------- */

pg_noreturn static void
refuse_privilege(const NewTable *new, const char *role)
{
	ereport(ERROR,
			errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("permission denied to distribute table \"%s\"", new->name),
			errdetail("It has column \"%s\", and shardlet.new_tables is '%s'.", new->setting.column,
					  sl_new_table_setting_value()),
			errhint("GRANT EXECUTE ON FUNCTION shardlet.distribute TO %s; for a table of the router: SET shardlet.new_tables = '';",
					quote_identifier(role)));
}

/* Who may call distribute() may have it called. */
static void
check_privilege(const NewTable *new)
{
	static const Oid types[] = {REGCLASSOID, NAMEOID, TEXTOID, BOOLOID, BOOLOID};
	Oid			function = sl_catalog_function(SL_SCHEMA, "distribute", lengthof(types), types);

	if (!OidIsValid(function))
		elog(ERROR, "function shardlet.distribute does not exist");
	if (sl_function_aclcheck(function, GetUserId()) != ACLCHECK_OK)
		refuse_privilege(new, GetUserNameFromId(GetUserId(), false));
}

/* CREATE TABLE AS has no way to say that the key is NOT NULL. */
static void
set_not_null(Oid relid, const char *column)
{
	AlterTableCmd *command = makeNode(AlterTableCmd);

	command->subtype = AT_SetNotNull;
	command->name = pstrdup(column);
	AlterTableInternal(relid, list_make1(command), false);
	CommandCounterIncrement();
}

static void
check_not_null(const NewTable *new, Oid relid, AttrNumber column)
{
	Relation	relation = relation_open(relid, NoLock);
	bool		is_not_null = TupleDescAttr(RelationGetDescr(relation), column - 1)->attnotnull;

	relation_close(relation, NoLock);
	if (is_not_null)
		return;
	ereport(ERROR,
			errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			errmsg("key column \"%s\" of table \"%s\" may be NULL", new->setting.column, new->name),
			errdetail("A row without a key belongs to no shard."),
			errhint("CREATE TABLE %s (..., %s ... NOT NULL, ...).", quote_identifier(new->name),
					quote_identifier(new->setting.column)));
}

/* Is it an error about the table or the setting, and not about a shard? */
static bool
is_refusal(int code)
{
	return code == ERRCODE_FEATURE_NOT_SUPPORTED || code == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE ||
		code == ERRCODE_DATATYPE_MISMATCH || code == ERRCODE_NULL_VALUE_NOT_ALLOWED ||
		code == ERRCODE_INVALID_PARAMETER_VALUE || code == ERRCODE_UNDEFINED_OBJECT;
}

/* Adds to an error that it is the setting which has the table distributed. */
static void
explain_error(ErrorData *error, const NewTable *new)
{
	const char *value = sl_new_table_setting_value();
	const char *hint = error->hint != NULL ? psprintf("%s\n", error->hint) : "";
	const char *choice = error->sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED && !new->setting.local_unique ?
	psprintf("With '%s:local_unique' it is with local_unique => true. ", value) : "";

	if (is_refusal(error->sqlerrcode))
		error->hint = psprintf("%sThe table is distributed because of shardlet.new_tables = '%s'. %sWith '' it is a table of the router.",
							   hint, value, choice);
}

static void
distribute_table(const NewTable *new, Oid relid, AttrNumber column)
{
	MemoryContext context = CurrentMemoryContext;
	SlDistributeOptions choices = {.local_unique = new->setting.local_unique,.is_new = true};

	PG_TRY();
	{
		check_not_null(new, relid, column);
		sl_distribute_tables(list_make1_oid(relid), list_make1((char *) quote_identifier(new->setting.column)),
							 new->setting.map, choices);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		explain_error(error, new);
		ReThrowError(error);
	}
	PG_END_TRY();
}

/*
 * Is the relation a table that the setting is about?  IF NOT EXISTS may have found one
 * that another session has just created, and that is not for this one to distribute.
 */
static bool
is_to_distribute(Oid relid)
{
	Relation	relation = relation_open(relid, AccessShareLock);
	Form_pg_class row = relation->rd_rel;
	bool		result = (row->relkind == RELKIND_RELATION || row->relkind == RELKIND_PARTITIONED_TABLE) &&
	row->relpersistence == RELPERSISTENCE_PERMANENT && !row->relispartition &&
	relation->rd_createSubid != InvalidSubTransactionId;

	relation_close(relation, NoLock);
	return result && sl_table_get(relid) == NULL;
}

/* The statement has run. */
static void
finish_table(const NewTable *new)
{
	Oid			relid;
	AttrNumber	column;

	CommandCounterIncrement();
	relid = get_relname_relid(new->name, new->schema);
	column = OidIsValid(relid) ? get_attnum(relid, new->setting.column) : InvalidAttrNumber;
	if (column > 0 && is_to_distribute(relid))
	{
		check_privilege(new);
		if (new->is_query)
			set_not_null(relid, new->setting.column);
		distribute_table(new, relid, column);
	}

	/* Also those that an event trigger has added to other tables. */
	sl_router_key_check(new->foreign_keys);
}

/* The hook -------------------------------------------------------------------- */

static void
watch_commands(PlannedStmt *statement, const char *source, bool read_only_tree,
			   ProcessUtilityContext context, ParamListInfo params,
			   QueryEnvironment *environment, DestReceiver *receiver,
			   QueryCompletion *completion)
{
	ProcessUtility_hook_type next = next_utility ? next_utility : standard_ProcessUtility;
	NewTable	new = {.schema = InvalidOid};
	List	  **outer;

	if (!is_meant(statement->utilityStmt, &new))
	{
		next(statement, source, read_only_tree, context, params, environment, receiver, completion);
		return;
	}
	outer = sl_router_key_defer(&new.foreign_keys);
	PG_TRY();
	{
		next(statement, source, read_only_tree, context, params, environment, receiver, completion);
	}
	PG_FINALLY();
	{
		(void) sl_router_key_defer(outer);
	}
	PG_END_TRY();
	finish_table(&new);
}

void
sl_new_tables_init(void)
{
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = watch_commands;
}
