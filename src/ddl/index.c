/*
 * index.c
 *		Indexes of distributed tables.
 *
 * A shell table has them on the router, too, where they are empty.  The router
 * chooses the name of a new one, so that it is the same everywhere.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "deparse/deparse.h"
#include "executor/multi_shard.h"

/* Returns the index of a distributed table with that name, or NULL. */
SlIndex *
sl_ddl_find_index(const RangeVar *name)
{
	Oid			relid = RangeVarGetRelid(name, NoLock, true);
	char		kind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';
	Oid			owner;
	SlIndex    *index;

	if (kind != RELKIND_INDEX && kind != RELKIND_PARTITIONED_INDEX)
		return NULL;
	owner = IndexGetRelation(relid, true);
	if (!OidIsValid(owner) || sl_table_get(owner) == NULL)
		return NULL;
	index = palloc(sizeof(SlIndex));
	index->table = sl_table_get(owner);
	index->name = sl_ddl_name_in(owner, get_rel_name(relid));
	return index;
}

/* Makes the statement run outside of a transaction: it cannot be rolled back. */
static void
mark_separate(SlDdl *ddl, const SlTable *table, const char *command)
{
	if (!sl_ddl_is_remote(table))
		sl_ddl_refuse(table, psprintf("run %s on", command), "Leave CONCURRENTLY out.");
	PreventInTransactionBlock(ddl->is_top_level, command);
	ddl->is_separate = true;
}

/* Locks a table by its OID, after the owner was checked. */
static void
lock_owned(const SlTable *table, LOCKMODE mode)
{
	sl_ddl_check_owner(table->relid);
	LockRelationOid(table->relid, mode);
}

static List *
list_indexes(Oid relid)
{
	Relation	relation = table_open(relid, NoLock);
	List	   *result = list_copy(RelationGetIndexList(relation));

	table_close(relation, NoLock);
	return result;
}

/* What CREATE INDEX of a shell table has to know afterwards. */
typedef struct NewIndex
{
	SlTable    *table;
	List	   *known;			/* OIDs of indexes that existed before */
} NewIndex;

/* Returns the command that creates an index as the router has it. */
static char *
write_index(Oid index, const IndexStmt *statement)
{
	int			nest_level = sl_deparse_begin_plain();
	char	   *definition = statement->relation->inh ? pg_get_indexdef_string(index) :
	TextDatumGetCString(DirectFunctionCall1(pg_get_indexdef, ObjectIdGetDatum(index)));
	char	   *start = psprintf("CREATE %sINDEX ", statement->unique ? "UNIQUE " : "");

	sl_deparse_end_plain(nest_level);
	if (strncmp(definition, start, strlen(start)) != 0)
		elog(ERROR, "unexpected definition of an index: %s", definition);
	return psprintf("%s%s%s", start, statement->concurrent ? "CONCURRENTLY " : "", definition + strlen(start));
}

/* Has the shards create the index that the router has, under the name it has there. */
static void
finish_create_index(SlDdl *ddl)
{
	const NewIndex *new = ddl->state;
	ListCell   *cell;

	LockRelationOid(new->table->relid, AccessShareLock);
	foreach(cell, list_indexes(new->table->relid))
	{
		if (!list_member_oid(new->known, lfirst_oid(cell)))
			sl_ddl_add_step(ddl, sl_table_homes(new->table),
							write_index(lfirst_oid(cell), castNode(IndexStmt, ddl->node)));
	}
}

static void
create_shell_index(SlDdl *ddl, SlTable *table)
{
	NewIndex   *new = palloc(sizeof(NewIndex));

	new->table = table;
	new->known = list_indexes(table->relid);
	ddl->state = new;
	ddl->finish = finish_create_index;
	ddl->is_router_first = true;
	sl_ddl_add_shards(ddl, sl_table_homes(table));
	sl_ddl_open_shell(ddl, table);
	sl_ddl_run_on_router(ddl, ddl->node);
}

bool
sl_ddl_plan_create_index(SlDdl *ddl)
{
	IndexStmt  *statement = castNode(IndexStmt, ddl->node);
	SlTable    *table = sl_ddl_table(statement->relation);
	List	   *changes;

	if (table == NULL)
		return false;
	sl_ddl_check_unique_index(table, statement);
	sl_ddl_lock(statement->relation, statement->concurrent ? ShareUpdateExclusiveLock : ShareLock);
	if (statement->concurrent)
		mark_separate(ddl, table, "CREATE INDEX CONCURRENTLY");
	else
		sl_ddl_watch_needs(ddl, table);
	if (sl_ddl_is_remote(table))
	{
		create_shell_index(ddl, table);
		return true;
	}
	sl_ddl_run_on_router(ddl, statement);
	changes = sl_ddl_rename_in(ddl, NIL, statement->relation, sl_ddl_name(table->relid));
	sl_ddl_add_step(ddl, sl_table_homes(table), sl_ddl_changed(ddl, sl_ddl_whole(ddl), changes));
	return true;
}

/* ALTER INDEX, but for renames. */
bool
sl_ddl_plan_alter_index(SlDdl *ddl)
{
	AlterTableStmt *statement = castNode(AlterTableStmt, ddl->node);
	SlIndex    *index = sl_ddl_find_index(statement->relation);
	List	   *changes;

	if (index == NULL)
		return false;
	lock_owned(index->table, ShareUpdateExclusiveLock);
	sl_ddl_open_shell(ddl, index->table);
	sl_ddl_run_on_router(ddl, statement);
	changes = sl_ddl_rename_in(ddl, NIL, statement->relation, index->name);
	sl_ddl_add_step(ddl, sl_table_homes(index->table),
					sl_ddl_changed(ddl, sl_ddl_whole(ddl), changes));
	return true;
}

static bool
is_concurrent(const List *params)
{
	ListCell   *cell;

	foreach(cell, params)
	{
		DefElem    *option = lfirst(cell);

		if (strcmp(option->defname, "concurrently") == 0)
			return defGetBoolean(option);
	}
	return false;
}

bool
sl_ddl_plan_reindex(SlDdl *ddl)
{
	ReindexStmt *statement = castNode(ReindexStmt, ddl->node);
	bool		concurrent = is_concurrent(statement->params);
	SlIndex    *index = NULL;
	SlTable    *table;
	List	   *changes;

	if (statement->relation == NULL)
		return false;
	if (statement->kind == REINDEX_OBJECT_INDEX)
		index = sl_ddl_find_index(statement->relation);
	table = index != NULL ? index->table : sl_ddl_table(statement->relation);
	if (table == NULL)
		return false;
	lock_owned(table, concurrent ? ShareUpdateExclusiveLock : ShareLock);
	if (concurrent)
		mark_separate(ddl, table, "REINDEX CONCURRENTLY");
	if (!sl_ddl_is_remote(table))
		sl_ddl_run_on_router(ddl, statement);
	changes = sl_ddl_rename_in(ddl, NIL, statement->relation,
							   index != NULL ? index->name : sl_ddl_name(table->relid));
	sl_ddl_add_step(ddl, sl_table_homes(table), sl_ddl_changed(ddl, sl_ddl_whole(ddl), changes));
	return true;
}

bool
sl_ddl_plan_cluster(SlDdl *ddl)
{
	ClusterStmt *statement = castNode(ClusterStmt, ddl->node);
	SlTable    *table = sl_ddl_table(statement->relation);

	if (table == NULL)
		return false;
	sl_ddl_lock(statement->relation, AccessExclusiveLock);
	sl_ddl_run_on_router(ddl, statement);
	sl_ddl_add_step(ddl, sl_table_homes(table),
					psprintf("CLUSTER %s%s%s", sl_ddl_name(table->relid),
							 statement->indexname != NULL ? " USING " : "",
							 statement->indexname != NULL ? quote_identifier(statement->indexname) : ""));
	return true;
}
