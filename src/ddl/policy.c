/*
 * policy.c
 *		Row-level security policies of shell tables.
 *
 * For its own users the router alone decides: it evaluates the policies, and its
 * connections bypass those of the shards.  The shards have them for users who
 * connect there directly.  A connection that could not bypass them is refused when
 * they are enabled; later, row_security = off on the connection makes a policy that
 * applies an error instead of a filter.
 *
 * A policy is sent as the router's catalog has it, so that all names in it are
 * qualified.  A policy for a role that a shard lacks, and that cannot be created, is left out there.  ALTER POLICY
 * and RENAME create the policy again, because a shard may not have it yet.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_type.h"
#include "commands/policy.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "ddl/definition.h"
#include "executor/multi_shard.h"

/* A policy that is being created or changed. */
typedef struct Policy
{
	const SlTable *table;
	char	   *old_name;		/* on the shards, or NULL */
	char	   *name;
} Policy;

/* Bypassing --------------------------------------------------------------------------- */

pg_noreturn static void
refuse_connection(Oid relid, const SlShard *shard, bool is_forced)
{
	ereport(ERROR,
			errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("the router cannot bypass row security of table \"%s\" on shard \"%s\"", get_rel_name(relid),
				   NameStr(shard->name)),
			errdetail("The router evaluates the policies, and the shard would evaluate them again for the user of the connection."),
			is_forced ?
			errhint("ALTER ROLE ... BYPASSRLS on the shard, for the user of the user mapping; or ALTER TABLE ... NO FORCE ROW LEVEL SECURITY.") :
			errhint("ALTER ROLE ... BYPASSRLS on the shard, for the user of the user mapping; or let that user own the table there."));
}

/* The table exists on the shards, with or without row security. */
static void
check_table_bypass(Oid relid, List *shards)
{
	Relation	relation = table_open(relid, NoLock);
	bool		is_enabled = relation->rd_rel->relrowsecurity;
	bool		is_forced = relation->rd_rel->relforcerowsecurity;
	List	   *others;

	table_close(relation, NoLock);
	if (!is_enabled)
		return;
	others = sl_ddl_shards_that(shards,
								psprintf("SELECT r.rolsuper OR r.rolbypassrls OR (%s AND pg_catalog.pg_has_role(c.relowner, 'USAGE'))"
										 " FROM pg_catalog.pg_roles r, pg_catalog.pg_class c"
										 " WHERE r.rolname OPERATOR(pg_catalog.=) CURRENT_USER"
										 " AND c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1::pg_catalog.text)",
										 is_forced ? "false" : "true"),
								sl_ddl_name(relid), false);
	if (others != NIL)
		refuse_connection(relid, linitial(others), is_forced);
}

/*
 * Raises an error if the table, or a partition of it, has row security that applies to
 * the session's connections to these shards.
 */
void
sl_policy_check_bypass(Oid relid, List *shards)
{
	ListCell   *cell;

	foreach(cell, find_all_inheritors(relid, AccessShareLock, NULL))
		check_table_bypass(lfirst_oid(cell), shards);
}

/* The router's own users would get past policies that only the shards have. */
static void
check_attached_table(Oid relid, List *shards)
{
	Relation	relation = table_open(relid, NoLock);
	bool		is_enabled = relation->rd_rel->relrowsecurity;
	List	   *others;

	table_close(relation, NoLock);
	if (is_enabled)
		return;
	others = sl_ddl_shards_that(shards, "SELECT c.relrowsecurity FROM pg_catalog.pg_class c"
								" WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1::pg_catalog.text)",
								sl_ddl_name(relid), true);
	if (others == NIL)
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("table \"%s\" has row security on shard \"%s\", and not on the router", get_rel_name(relid),
				   NameStr(((SlShard *) linitial(others))->name)),
			errdetail("The router evaluates the policies for its own users, and has none."),
			errhint("Drop the policies and DISABLE ROW LEVEL SECURITY on the shards with shardlet.execute(). After shardlet.attach(), CREATE POLICY and ENABLE ROW LEVEL SECURITY on the router reach the shards."));
}

/*
 * Raises an error if shards have row security for a table that was attached, or for a
 * partition of it, and the router has not.
 */
void
sl_policy_check_attached(Oid relid, List *shards)
{
	ListCell   *cell;

	foreach(cell, find_all_inheritors(relid, AccessShareLock, NULL))
		check_attached_table(lfirst_oid(cell), shards);
}

/* Texts ------------------------------------------------------------------------------- */

/* Returns the command that makes the policy, from the router's catalog. */
static char *
make_policy_sql(Oid relid, const char *name)
{
	Oid			types[] = {OIDOID, NAMEOID};
	NameData	policy = {{0}};
	Datum		params[] = {ObjectIdGetDatum(relid), NameGetDatum(&policy)};
	MemoryContext context = CurrentMemoryContext;
	int			level = sl_definition_begin_output();
	char	   *sql = NULL;

	namestrcpy(&policy, name);
	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args(sl_definition_policy_sql, lengthof(types), types, params, NULL, false, 0) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "could not read the definition of policy \"%s\"", name);
	sql = MemoryContextStrdup(context, SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1));
	SPI_finish();
	AtEOXact_GUC(true, level);
	return sql;
}

/* Returns the shards that have all roles of the policy, and says which have not. */
static List *
find_able_shards(const Policy *policy, List *roles)
{
	List	   *result = sl_table_homes(policy->table);
	ListCell   *cell;

	foreach(cell, roles)
	{
		sl_ddl_create_role(result, lfirst(cell), sl_ddl_map_id(policy->table));
		result = sl_ddl_shards_with_role(result, lfirst(cell));
	}
	return result;
}

/* Returns the names of the roles of a policy; PUBLIC is none. */
static List *
list_roles(Oid relid, const char *name)
{
	Oid			types[] = {OIDOID, NAMEOID};
	NameData	policy = {{0}};
	Datum		params[] = {ObjectIdGetDatum(relid), NameGetDatum(&policy)};
	MemoryContext context = CurrentMemoryContext;
	List	   *result = NIL;

	namestrcpy(&policy, name);
	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args("SELECT r.rolname FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_roles r"
							  " ON r.oid OPERATOR(pg_catalog.=) ANY (p.polroles)"
							  " WHERE p.polrelid OPERATOR(pg_catalog.=) $1 AND p.polname OPERATOR(pg_catalog.=) $2",
							  lengthof(types), types, params, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the roles of policy \"%s\"", name);
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		char	   *role = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 1);
		MemoryContext inner = MemoryContextSwitchTo(context);

		result = lappend(result, pstrdup(role));
		MemoryContextSwitchTo(inner);
	}
	SPI_finish();
	return result;
}

static char *
drop_sql(const SlTable *table, const char *name)
{
	return psprintf("DROP POLICY IF EXISTS %s ON %s", quote_identifier(name), sl_ddl_name(table->relid));
}

/* Statements -------------------------------------------------------------------------- */

static void
finish_policy(SlDdl *ddl)
{
	const Policy *policy = ddl->state;
	Oid			relid = policy->table->relid;

	if (policy->old_name != NULL)
		sl_ddl_add_step(ddl, sl_table_homes(policy->table), drop_sql(policy->table, policy->old_name));
	sl_ddl_add_step(ddl, find_able_shards(policy, list_roles(relid, policy->name)),
					make_policy_sql(relid, policy->name));
}

static bool
plan_policy(SlDdl *ddl, const RangeVar *relation, char *old_name, char *name)
{
	const SlTable *table = sl_ddl_table(relation);
	Policy	   *policy;

	if (table == NULL || !sl_ddl_is_remote(table))
		return false;
	sl_ddl_lock(relation, AccessExclusiveLock);
	policy = palloc(sizeof(Policy));
	policy->table = table;
	policy->old_name = old_name;
	policy->name = name;
	sl_ddl_watch_needs(ddl, table);
	ddl->state = policy;
	ddl->finish = finish_policy;
	sl_ddl_add_shards(ddl, sl_table_homes(table));
	sl_ddl_run_on_router(ddl, ddl->node);
	return true;
}

bool
sl_ddl_plan_create_policy(SlDdl *ddl)
{
	CreatePolicyStmt *statement = castNode(CreatePolicyStmt, ddl->node);

	return plan_policy(ddl, statement->table, NULL, statement->policy_name);
}

bool
sl_ddl_plan_alter_policy(SlDdl *ddl)
{
	AlterPolicyStmt *statement = castNode(AlterPolicyStmt, ddl->node);

	return plan_policy(ddl, statement->table, statement->policy_name, statement->policy_name);
}

bool
sl_ddl_plan_rename_policy(SlDdl *ddl)
{
	RenameStmt *statement = castNode(RenameStmt, ddl->node);
	const SlTable *table = sl_ddl_table(statement->relation);

	/* IF EXISTS of a policy that does not exist changes nothing. */
	if (table == NULL || !OidIsValid(get_relation_policy_oid(table->relid, statement->subname, true)))
		return false;
	return plan_policy(ddl, statement->relation, statement->subname, statement->newname);
}

bool
sl_ddl_plan_drop_policy(SlDdl *ddl)
{
	DropStmt   *statement = castNode(DropStmt, ddl->node);
	List	   *names = linitial(statement->objects);
	char	   *name = strVal(llast(names));
	RangeVar   *relation = makeRangeVarFromNameList(list_truncate(list_copy(names), list_length(names) - 1));
	const SlTable *table = sl_ddl_table(relation);

	if (table == NULL || !sl_ddl_is_remote(table) || !OidIsValid(get_relation_policy_oid(table->relid, name, true)))
		return false;
	sl_ddl_lock(relation, AccessExclusiveLock);
	sl_ddl_add_step(ddl, sl_table_homes(table), drop_sql(table, name));
	sl_ddl_run_on_router(ddl, statement);
	return true;
}
