/*
 * run_as_owner.c
 *		On a shard: rows that the router moves are written as the owner of
 *		their table.
 *
 * Rows are copied and removed by the user that moves a shardlet, on shards
 * often a superuser.  Expressions of indexes, checks, generated columns and
 * domains are evaluated for each row, and these are the owner's: as a
 * superuser they could do anything.  So COPY FROM, and commands that are
 * passed as strings, run as the table's owner and as a security-restricted
 * operation, as PostgreSQL's own maintenance commands do.  SET ROLE would not
 * protect: such a function could reset it.
 *
 * DDL that a shard has missed while it was offline runs in the same way as the user who
 * gave it: what its names mean on the shard, that user may have decided.
 *
 * This grants no privileges: a caller that does not have all of the owner's
 * continues as itself, and is not a superuser.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "shard/shard.h"

PG_FUNCTION_INFO_V1(shardlet_copy_as_owner);
PG_FUNCTION_INFO_V1(shardlet_run_as_owner);
PG_FUNCTION_INFO_V1(shardlet_run_as_role);

/* Keeps the router's own connections from reading what is not a table. */
#define RESTRICTION "restrict_nonsystem_relation_kind"

/* The user and security context to restore. */
typedef struct Caller
{
	Oid			user;
	int			context;
	int			level;			/* of settings */
} Caller;

static ProcessUtility_hook_type next_utility = NULL;

/*
 * Run COPY FROM of this session, or of this transaction, as the table's owner.
 */
static bool copies_as_owner = false;
static LocalTransactionId copies_in = InvalidLocalTransactionId;

static Oid
get_owner(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			result;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("table with OID %u does not exist", relid));
	result = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Switches to the owner of a table, which is locked so that its name stays
 * valid, or stays the caller if it does not have the owner's privileges.  An
 * error ends that with the transaction, as everywhere in PostgreSQL.
 */
static void
become_owner(Oid relid, Caller *caller)
{
	Oid			owner;

	LockRelationOid(relid, RowExclusiveLock);
	owner = get_owner(relid);
	GetUserIdAndSecContext(&caller->user, &caller->context);
	caller->level = NewGUCNestLevel();

	/* What the owner reads is subject to its own privileges. */
	if (GetConfigOption(RESTRICTION, true, false) != NULL)
		(void) set_config_option(RESTRICTION, "", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);

	/* All rows must be written, whatever policies apply to the owner. */
	if (has_privs_of_role(caller->user, owner))
		SetUserIdAndSecContext(owner, caller->context | SECURITY_RESTRICTED_OPERATION | SECURITY_NOFORCE_RLS);
}

/* Settings of the owner's functions are reverted, too. */
static void
become_caller(const Caller *caller)
{
	AtEOXact_GUC(false, caller->level);
	SetUserIdAndSecContext(caller->user, caller->context);
}

/*
 * Returns the table of a COPY FROM that has to run as its owner; or
 * InvalidOid.
 */
static Oid
find_copied_table(const PlannedStmt *statement, ProcessUtilityContext context)
{
	const CopyStmt *copy = (const CopyStmt *) statement->utilityStmt;

	if ((!copies_as_owner && copies_in != sl_local_transaction_id()) || context != PROCESS_UTILITY_TOPLEVEL ||
		!IsA(copy, CopyStmt) || !copy->is_from ||
		copy->relation == NULL)
		return InvalidOid;
	return RangeVarGetRelid(copy->relation, RowExclusiveLock, true);
}

static void
run_utility(PlannedStmt *statement, const char *source, bool read_only_tree, ProcessUtilityContext context,
			ParamListInfo params, QueryEnvironment *environment, DestReceiver *receiver,
			QueryCompletion *completion)
{
	Oid			relid = find_copied_table(statement, context);
	Caller		caller;

	if (OidIsValid(relid))
		become_owner(relid, &caller);
	(next_utility ? next_utility : standard_ProcessUtility)
		(statement, source, read_only_tree, context, params, environment, receiver, completion);
	if (OidIsValid(relid))
		become_caller(&caller);
}

/* copy_as_owner(is_on, is_local): for the session, or for the transaction. */
Datum
shardlet_copy_as_owner(PG_FUNCTION_ARGS)
{
	bool		is_on = PG_GETARG_BOOL(0);

	if (PG_GETARG_BOOL(1))
		copies_in = is_on ? sl_local_transaction_id() : InvalidLocalTransactionId;
	else
		copies_as_owner = is_on;
	PG_RETURN_VOID();
}

/* run_as_owner(tbl, command): returns the number of affected rows. */
Datum
shardlet_run_as_owner(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	char	   *command = text_to_cstring(PG_GETARG_TEXT_PP(1));
	Caller		caller;
	int64		rows;

	become_owner(relid, &caller);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	if (SPI_execute(command, false, 0) < 0)
		elog(ERROR, "could not run \"%s\"", command);
	rows = (int64) SPI_processed;
	SPI_finish();
	become_caller(&caller);
	PG_RETURN_INT64(rows);
}

/* run_as_role(role, command): for a caller that has the privileges of the role. */
Datum
shardlet_run_as_role(PG_FUNCTION_ARGS)
{
	Oid			role = get_role_oid(NameStr(*PG_GETARG_NAME(0)), false);
	char	   *command = text_to_cstring(PG_GETARG_TEXT_PP(1));
	Caller		caller;

	GetUserIdAndSecContext(&caller.user, &caller.context);
	if (!has_privs_of_role(caller.user, role))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("permission denied to run a command as role \"%s\"", NameStr(*PG_GETARG_NAME(0))));
	caller.level = NewGUCNestLevel();
	SetUserIdAndSecContext(role, caller.context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	if (SPI_execute(command, false, 0) < 0)
		elog(ERROR, "could not run \"%s\"", command);
	SPI_finish();
	become_caller(&caller);
	PG_RETURN_VOID();
}

void
sl_run_as_owner_init(void)
{
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = run_utility;
}
