/*
 * offline_shard.c
 *		DDL while a shard is offline.
 *
 * A statement that cannot depend on the rows of the shard is stored for it, and
 * executed before the shard is online again (replay.c).  Any other is refused
 * before anything has happened: it might fail on the shard, when the router and the
 * other shards cannot go back.
 *
 * The shard is locked until the end of the transaction, so that it does not return
 * between the look at its state and the commit of what is stored.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "executor/multi_shard.h"
#include "metadata/missed_ddl.h"

/* Which statements can be stored ----------------------------------------------- */

/* Subcommands of ALTER TABLE and ALTER INDEX that look at no row. */
static const AlterTableType catalog_only[] = {
	AT_DropColumn, AT_ColumnDefault, AT_DropNotNull, AT_DropExpression, AT_AddIdentity, AT_SetIdentity,
	AT_DropIdentity, AT_SetStatistics, AT_SetOptions, AT_ResetOptions, AT_SetStorage, AT_SetCompression,
	AT_DropConstraint, AT_ChangeOwner, AT_ClusterOn, AT_DropCluster, AT_SetRelOptions,
	AT_ResetRelOptions, AT_EnableTrig, AT_EnableAlwaysTrig, AT_EnableReplicaTrig, AT_DisableTrig,
	AT_EnableTrigAll, AT_EnableTrigUser, AT_DisableTrigAll, AT_DisableTrigUser, AT_AlterColumnGenericOptions
};

static bool
is_catalog_only(AlterTableType type)
{
	for (int i = 0; i < (int) lengthof(catalog_only); i++)
	{
		if (catalog_only[i] == type)
			return true;
	}
	return false;
}

static bool
can_wait_alter(const AlterTableStmt *statement)
{
	const SlTable *table = statement->objtype == OBJECT_TABLE || statement->objtype == OBJECT_FOREIGN_TABLE ?
	sl_ddl_table(statement->relation) : NULL;
	ListCell   *cell;

	if (table == NULL && statement->objtype != OBJECT_INDEX)
		return false;
	foreach(cell, statement->cmds)
	{
		const AlterTableCmd *command = lfirst(cell);

		if (command->subtype == AT_AddColumn && table != NULL)
		{
			if (!sl_ddl_adds_constant(table, castNode(ColumnDef, command->def)))
				return false;
		}
		else if (command->subtype == AT_AddConstraint)
		{
			if (!castNode(Constraint, command->def)->skip_validation)
				return false;
		}
		else if (!is_catalog_only(command->subtype))
			return false;
	}
	return true;
}

static bool
can_wait_index(const IndexStmt *statement)
{
	const SlTable *table = sl_ddl_table(statement->relation);

	/* Of a foreign table, the statement is sent as it was written. */
	if (statement->concurrent && (table == NULL || !sl_ddl_is_remote(table)))
		return false;
	return !statement->unique && statement->excludeOpNames == NIL;
}

/* Expressions may be computed when the statement is analyzed. */
static bool
can_wait_statistics(const CreateStatsStmt *statement)
{
	ListCell   *cell;

	foreach(cell, statement->exprs)
	{
		if (((const StatsElem *) lfirst(cell))->name == NULL)
			return false;
	}
	return true;
}

static bool
is_type(ObjectType type)
{
	return type == OBJECT_TYPE || type == OBJECT_DOMAIN;
}

static bool
can_wait_drop(ObjectType type)
{
	return !is_type(type) && type != OBJECT_SCHEMA;
}

static bool
can_wait_rename(ObjectType type)
{
	return !is_type(type) && type != OBJECT_POLICY && type != OBJECT_ATTRIBUTE && type != OBJECT_DOMCONSTRAINT;
}

/*
 * Does the result of the statement not depend on the rows of a shard?  Nor may it
 * compute expressions of the user, but as the owner of an index and under the
 * restrictions of that: it will run on a connection of another user (replay.c).
 */
static bool
can_wait(const SlDdl *ddl)
{
	switch (nodeTag(ddl->node))
	{
		case T_AlterTableStmt:
			return can_wait_alter((const AlterTableStmt *) ddl->node);
		case T_IndexStmt:
			return can_wait_index((const IndexStmt *) ddl->node);
		case T_RenameStmt:
			return can_wait_rename(((const RenameStmt *) ddl->node)->renameType);
		case T_CreateStatsStmt:
			return can_wait_statistics((const CreateStatsStmt *) ddl->node);
		case T_DropStmt:
			return can_wait_drop(((const DropStmt *) ddl->node)->removeType);
		case T_AlterObjectSchemaStmt:
			return !is_type(((const AlterObjectSchemaStmt *) ddl->node)->objectType);
		case T_GrantStmt:
		case T_CommentStmt:
		case T_AlterStatsStmt:
		case T_CreateTrigStmt:
		case T_CreateFunctionStmt:
		case T_AlterFunctionStmt:
		case T_AlterOwnerStmt:	/* of a function */
		case T_LockStmt:
			return true;
		default:
			return false;
	}
}

pg_noreturn static void
refuse_offline(const SlShard *shard)
{
	ereport(ERROR,
			errcode(SL_ERR_UNREACHABLE),
			errmsg("shard \"%s\" is offline", NameStr(shard->name)),
			errdetail("The statement can depend on rows or types of the shard, so it cannot be executed there later."),
			errhint("shardlet.alter_shard('%s', state => 'online') brings it back. Meanwhile columns can be added without constraints or with a constant default, and constraints with NOT VALID.",
					NameStr(shard->name)));
}

/* Reference tables that the shard lacks ------------------------------------------- */

static List *
without_last(List *names)
{
	return list_truncate(list_copy(names), list_length(names) - 1);
}

static const SlTable *
find_commented_table(const CommentStmt *statement)
{
	List	   *names = (List *) statement->object;
	const SlIndex *index;
	const SlStatistics *statistics;

	switch (statement->objtype)
	{
		case OBJECT_INDEX:
			index = sl_ddl_find_index(makeRangeVarFromNameList(names));
			return index != NULL ? index->table : NULL;
		case OBJECT_STATISTIC_EXT:
			statistics = sl_ddl_find_statistics(names);
			return statistics != NULL ? statistics->table : NULL;
		case OBJECT_TABLE:
			return sl_ddl_table_by_names(names);
		default:
			return sl_ddl_table_by_names(without_last(names));
	}
}

/* A shell table may be half renamed already: its key, but not yet the column. */
static const SlTable *
find_table_or_index(const RangeVar *relation)
{
	Oid			relid = relation != NULL ? RangeVarGetRelid(relation, NoLock, true) : InvalidOid;
	const SlTable *table;
	const SlIndex *index;

	if (!OidIsValid(relid) || sl_shell_is_connected(relid))
		return NULL;
	table = sl_table_get(relid);
	if (table != NULL)
		return table;
	index = sl_ddl_find_index(relation);
	return index != NULL ? index->table : NULL;
}

/* Returns the table that a statement names, or NULL if it may name several. */
static const SlTable *
find_table(const SlDdl *ddl)
{
	const SlStatistics *statistics = NULL;

	switch (nodeTag(ddl->node))
	{
		case T_AlterTableStmt:
			return find_table_or_index(((const AlterTableStmt *) ddl->node)->relation);
		case T_IndexStmt:
			return sl_ddl_table(((const IndexStmt *) ddl->node)->relation);
		case T_AlterObjectSchemaStmt:
			return sl_ddl_table(((const AlterObjectSchemaStmt *) ddl->node)->relation);
		case T_CommentStmt:
			return find_commented_table((const CommentStmt *) ddl->node);
		case T_CreateStatsStmt:
			return sl_ddl_table(linitial(((const CreateStatsStmt *) ddl->node)->relations));
		case T_AlterStatsStmt:
			statistics = sl_ddl_find_statistics(((const AlterStatsStmt *) ddl->node)->defnames);
			break;
		case T_RenameStmt:
			if (((const RenameStmt *) ddl->node)->renameType != OBJECT_STATISTIC_EXT)
				return find_table_or_index(((const RenameStmt *) ddl->node)->relation);
			statistics = sl_ddl_find_statistics((List *) ((const RenameStmt *) ddl->node)->object);
			break;
		default:
			break;
	}
	return statistics != NULL ? statistics->table : NULL;
}

/*
 * A table may have become a reference table while the shard was offline.  The shard
 * gets it as it is then, and does not need what has changed it until then.
 */
static char *
exists_condition(const SlTable *table)
{
	if (table == NULL || table->kind != SL_TABLE_REFERENCE)
		return NULL;
	return psprintf("SELECT pg_catalog.to_regclass(%s) IS NOT NULL", quote_literal_cstr(sl_ddl_name(table->relid)));
}

/* Returns the query of a role's existence on a shard, and of a reference table's. */
char *
sl_ddl_role_condition(const char *role, const SlTable *table)
{
	char	   *table_exists = exists_condition(table);

	if (role == NULL)
		return table_exists;
	return psprintf("%s EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) %s)",
					table_exists != NULL ? psprintf("%s AND", table_exists) : "SELECT", quote_literal_cstr(role));
}

/* Storing -------------------------------------------------------------------------- */

/* Returns the shards of a list that are offline, or are not. */
List *
sl_ddl_offline_shards(List *shards, bool is_offline)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, shards)
	{
		SlShard    *shard = lfirst(cell);

		if ((shard->exists && shard->state == SL_STATE_OFFLINE) == is_offline)
			result = lappend(result, shard);
	}
	return result;
}

/*
 * Finds the shards for which the statement has to be stored, and refuses it if it
 * cannot be.
 */
void
sl_ddl_note_offline(SlDdl *ddl)
{
	List	   *offline = sl_ddl_offline_shards(ddl->shards, true);
	ListCell   *cell;

	if (offline == NIL)
		return;
	if (!can_wait(ddl))
		refuse_offline(linitial(offline));
	foreach(cell, offline)
		sl_shard_lock(lfirst(cell), ShareLock);

	/* One that has returned meanwhile is like any other. */
	ddl->offline = sl_ddl_offline_shards(offline, true);
	ddl->condition = exists_condition(find_table(ddl));
}

/* The user that the shard would know the session as. */
const char *
sl_ddl_remote_role(const SlShard *shard)
{
	const char *user = sl_option_get(sl_remote_credentials(GetUserId(), shard->server), "user");

	return user != NULL ? user : GetUserNameFromId(GetUserId(), false);
}

/* Inside of a transaction, and on a shard that no session uses, it is not possible or needed. */
static char *
without_concurrently(const char *sql)
{
	static const char *const starts[][2] = {
		{"CREATE INDEX CONCURRENTLY ", "CREATE INDEX "},
		{"DROP INDEX CONCURRENTLY ", "DROP INDEX "},
	};

	for (int i = 0; i < (int) lengthof(starts); i++)
	{
		if (strncmp(sql, starts[i][0], strlen(starts[i][0])) == 0)
			return psprintf("%s%s", starts[i][1], sql + strlen(starts[i][0]));
	}
	return pstrdup(sql);
}

static void
store_step(const SlDdl *ddl, const SlDdlStep *step, List *settings)
{
	ListCell   *cell;

	foreach(cell, step->shards)
	{
		SlShard    *shard = lfirst(cell);
		SlMissedDdl missed = {0};

		if (!list_member_ptr(ddl->offline, shard))
			continue;
		missed.statement = ddl->is_separate ? without_concurrently(step->sql) : step->sql;
		missed.condition = step->condition != NULL ? step->condition : ddl->condition;
		missed.role = pstrdup(sl_ddl_remote_role(shard));
		missed.settings = settings;
		sl_missed_ddl_insert(shard->id, &missed);
	}
}

/*
 * Stores the statement for the shards that are offline.  A lock is not needed there: the router's keeps out
 * all sessions that could use the shard.
 */
void
sl_ddl_store_missed(const SlDdl *ddl)
{
	List	   *settings;
	StringInfoData names;
	ListCell   *cell;

	if (ddl->offline == NIL || ddl->steps == NIL || IsA(ddl->node, LockStmt))
		return;
	settings = sl_session_list();
	foreach(cell, ddl->steps)
		store_step(ddl, lfirst(cell), settings);
	initStringInfo(&names);
	foreach(cell, ddl->offline)
		appendStringInfo(&names, "%s\"%s\"", names.len > 0 ? ", " : "", NameStr(((SlShard *) lfirst(cell))->name));
	ereport(NOTICE,
			errmsg_plural("shard %s is offline and executes the statement when it is back",
						  "shards %s are offline and execute the statement when they are back",
						  list_length(ddl->offline), names.data));
}
