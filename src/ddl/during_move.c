/*
 * during_move.c
 *		DDL on a table while a shardlet of its map is being moved.
 *
 * Rows of the shardlet are on two shards then, and each of them runs the statement
 * for itself; online, a change that was made before the statement may be applied
 * after it.  So a statement must wait for the move if it computes values for rows,
 * fills in values that a replicated change does not have, or removes what identifies
 * a changed row: the copy would differ unnoticed.  Replicated changes identify tables
 * and columns by name, so names must not change either.  Every other statement runs
 * at once.
 *
 * The caller has locked the router's table.  A move that begins from then on waits
 * for this transaction before it copies rows, and one that began before is visible to
 * it.
 */
#include "postgres.h"

#include "access/table.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "executor/exposed_functions.h"

/* Subcommands of ALTER TABLE that have to wait. */
static const struct
{
	AlterTableType type;
	const char *what;
}			disturbing[] = {
	{AT_DropColumn, "drop a column of"},
	{AT_AlterColumnType, "change the type of a column of"},
	{AT_ColumnDefault, "change a default of"},
	{AT_DropExpression, "change a generated column of"},
	{AT_SetExpression, "change a generated column of"},
	{AT_ReplicaIdentity, "change the replica identity of"},
	{AT_AttachPartition, "attach a partition to"},
	{AT_DetachPartition, "detach a partition from"},
};

static bool
is_moving(const SlTable *table)
{
	return table->kind == SL_TABLE_SHARDED && sl_map_get(table->map)->orphaned_count > 0;
}

/* Fails if a shardlet of the table's map is being moved. */
void
sl_ddl_check_rest(const SlTable *table, const char *what)
{
	int64		move;

	if (!is_moving(table))
		return;
	move = sl_map_get(table->map)->orphaned[0].move;
	ereport(ERROR,
			errcode(SL_ERR_INVALID),
			errmsg("cannot %s table \"%s\" now", what, get_rel_name(table->relid)),
			errdetail("A shardlet of map \"%s\" is being moved: see move %lld in shardlet.moves.",
					  table->map, (long long) move),
			errhint("Wait for it, or stop it with CALL shardlet.cancel_move(%lld).", (long long) move));
}

/* Have the shards a unique index of the table for which the condition on $1 holds? */
static bool
has_unique(const SlTable *table, const char *condition, const char *param)
{
	char	   *sql = psprintf("SELECT EXISTS (SELECT FROM pg_catalog.pg_index i"
							   " WHERE i.indrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%s)::pg_catalog.oid AND i.indisunique AND %s)",
							   quote_literal_cstr(sl_ddl_name(table->relid)), condition);

	return sl_ddl_shards_that(sl_table_homes(table), sql, param, true) != NIL;
}

/*
 * An index, or the constraint of that name, goes.  Any unique one may be what rows
 * are known by in the log; only the shards know which are there.
 */
void
sl_ddl_check_index_at_rest(const SlTable *table, const char *qualified)
{
	if (is_moving(table) &&
		has_unique(table, "i.indexrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1)::pg_catalog.oid", qualified))
		sl_ddl_check_rest(table, "drop a unique index or constraint of");
}

/* Is a row of the table found by all of its columns when a change is applied? */
static bool
has_whole_rows(const SlTable *table)
{
	static const char sql[] = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c"
	" WHERE c.relkind OPERATOR(pg_catalog.=) 'r' AND c.relreplident OPERATOR(pg_catalog.=) 'f'"
	" AND c.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT pg_catalog.to_regclass($1)::pg_catalog.oid"
	" UNION ALL SELECT relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass($1))))"
	" AND NOT EXISTS (SELECT FROM pg_catalog.pg_index i"
	" WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND i.indisprimary AND i.indimmediate))";

	return sl_ddl_shards_that(sl_table_homes(table), sql, sl_ddl_name(table->relid), true) != NIL;
}

/*
 * A column is added, with this default.  A change from before it does not have the
 * column.  To find its row among those that have the default it would have to.
 */
void
sl_ddl_check_default_at_rest(const SlTable *table, const Node *expression)
{
	if (expression != NULL && !(IsA(expression, Const) && ((const Const *) expression)->constisnull) &&
		is_moving(table) && has_whole_rows(table))
		sl_ddl_check_rest(table, "add a column with a default to");
}

/* Would a superuser run functions of others for changes of the table that are applied? */
static char *
exposed_sql(const SlTable *table)
{
	Relation	relation = table_open(table->relid, NoLock);
	TupleDesc	columns = RelationGetDescr(relation);
	char	   *exposed = pstrdup(sl_exposed_sql);
	char	   *param = strstr(exposed, SL_EXPOSED_COLUMNS);
	StringInfoData sql;

	initStringInfo(&sql);
	*param = '\0';
	appendStringInfo(&sql, "SELECT current_setting('server_version_num')::int < 160000 AND EXISTS (%sARRAY[",
					 exposed);
	for (int i = 0; i < columns->natts; i++)
		appendStringInfo(&sql, "%s%s", i > 0 ? ", " : "",
						 quote_literal_cstr(NameStr(TupleDescAttr(columns, i)->attname)));
	appendStringInfo(&sql, "]::text[]%s)", param + strlen(SL_EXPOSED_COLUMNS));
	table_close(relation, NoLock);
	return sql.data;
}

/* Refuses a subcommand of ALTER TABLE that has to wait. */
void
sl_ddl_check_alter_at_rest(const SlTable *table, const AlterTableCmd *command)
{
	for (int i = 0; i < (int) lengthof(disturbing); i++)
	{
		if (disturbing[i].type == command->subtype)
			sl_ddl_check_rest(table, disturbing[i].what);
	}
	if (command->subtype == AT_DropConstraint)
		sl_ddl_check_index_at_rest(table, sl_ddl_name_in(table->relid, command->name));
}

/*
 * The statement has run.  While changes are applied on a shard as a superuser, which is so
 * before PostgreSQL 16, it must not have given them functions of others to run.
 */
void
sl_ddl_check_exposed(const SlDdl *ddl)
{
	const RangeVar *relation = IsA(ddl->node, IndexStmt) ? ((const IndexStmt *) ddl->node)->relation :
	IsA(ddl->node, AlterTableStmt) ? ((const AlterTableStmt *) ddl->node)->relation : NULL;
	const SlTable *table = relation != NULL ? sl_ddl_table(relation) : NULL;
	List	   *targets = NIL;
	bool		is_exposed;
	const SlMap *map;
	int			level;

	if (table == NULL || !is_moving(table))
		return;
	map = sl_map_get(table->map);
	for (int i = 0; i < map->orphaned_count; i++)
	{
		if (!map->orphaned[i].is_after_switch && map->orphaned[i].range.state == SL_STATE_MOVING)
			targets = list_append_unique_ptr(targets, map->orphaned[i].shard);
	}
	if (targets == NIL)
		return;

	/* Names in it are PostgreSQL's, whatever the session has in their way. */
	level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
	is_exposed = sl_ddl_shards_that(targets, exposed_sql(table), sl_ddl_name(table->relid), true) != NIL;
	AtEOXact_GUC(true, level);
	if (is_exposed)
		sl_ddl_check_rest(table, "add an expression that calls a function which is not a superuser's to");
}
