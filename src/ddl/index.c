/*
 * index.c
 *		Indexes of distributed tables.
 *
 * A shell table has them on the router, too, where they are empty.  The router
 * chooses the name of a new one, so that it is the same everywhere.
 *
 * The router knows no index of a foreign table.  It is looked up on the shards, where
 * the table that it belongs to is found; the owner of the router's table has the
 * privilege.  Only a name that the router does not have is looked up on the shards.
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

/* The shards that have sharded or placed tables and are available. */
static List *
shards_to_query(void)
{
	List	   *result = NIL;
	ListCell   *cell;
	ListCell   *shard_cell;

	foreach(cell, sl_ddl_all_tables())
	{
		if (!sl_ddl_is_foreign(lfirst(cell)))
			continue;
		foreach(shard_cell, sl_table_homes(lfirst(cell)))
		{
			SlShard    *shard = lfirst(shard_cell);

			if (shard->state != SL_STATE_OFFLINE)
				result = list_append_unique_ptr(result, shard);
		}
	}
	return result;
}

static SlIndex *
make_index(SlTable *table, const char *name, bool is_local)
{
	SlIndex    *index = palloc(sizeof(SlIndex));

	index->table = table;
	index->name = sl_ddl_name_in(table->relid, name);
	index->is_local = is_local;
	return index;
}

static SlIndex *
find_on_router(Oid relid)
{
	char		kind = get_rel_relkind(relid);
	Oid			owner;
	SlTable    *table;

	if (kind != RELKIND_INDEX && kind != RELKIND_PARTITIONED_INDEX)
		return NULL;
	owner = IndexGetRelation(relid, true);
	table = OidIsValid(owner) ? sl_table_get(owner) : NULL;
	return table != NULL ? make_index(table, get_rel_name(relid), true) : NULL;
}

/* Takes in what a shard says: the name of the index's table. */
static SlTable *
find_owner(const char *answer, const SlTable *former, const char *index)
{
	SlTable    *table = answer != NULL ? sl_ddl_table_by_names(sl_split_name(answer)) : NULL;

	if (table == NULL)
		return (SlTable *) former;
	if (former != NULL && former->relid != table->relid)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("index \"%s\" belongs to different tables on the shards", index),
				errdetail("They are \"%s\" and \"%s\".", get_rel_name(former->relid),
						  get_rel_name(table->relid)),
				errhint("shardlet.execute(..., shards => ...) reaches one of them."));
	return table;
}

static SlIndex *
find_on_shards(const RangeVar *name)
{
	static const char sql[] =
	"SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(t.relname)"
	" FROM pg_catalog.pg_index i, pg_catalog.pg_class t, pg_catalog.pg_namespace n"
	" WHERE i.indexrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1)"
	" AND t.oid OPERATOR(pg_catalog.=) i.indrelid AND n.oid OPERATOR(pg_catalog.=) t.relnamespace";
	List	   *shards = shards_to_query();
	SlTable    *table = NULL;
	SlReply    *replies;
	int			count;

	if (shards == NIL || name->catalogname != NULL)
		return NULL;
	replies = sl_ddl_query_shard(shards, sql, quote_qualified_identifier(name->schemaname, name->relname),
								 &count);
	for (int i = 0; i < count; i++)
		table = find_owner(replies[i].value, table, name->relname);
	return table != NULL ? make_index(table, name->relname, false) : NULL;
}

/* Returns the index of a distributed table with that name, or NULL. */
SlIndex *
sl_ddl_find_index(const RangeVar *name)
{
	Oid			relid = RangeVarGetRelid(name, NoLock, true);

	return OidIsValid(relid) ? find_on_router(relid) : find_on_shards(name);
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
	if (table->is_shell)
	{
		create_shell_index(ddl, table);
		return true;
	}
	if (!sl_ddl_is_remote(table))
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
	if (index->is_local)
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
	if (!sl_ddl_is_foreign(table))
		sl_ddl_run_on_router(ddl, statement);
	sl_ddl_add_step(ddl, sl_table_homes(table),
					psprintf("CLUSTER %s%s%s", sl_ddl_name(table->relid),
							 statement->indexname != NULL ? " USING " : "",
							 statement->indexname != NULL ? quote_identifier(statement->indexname) : ""));
	return true;
}
