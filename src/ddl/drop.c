/*
 * drop.c
 *		DROP: of tables, indexes, statistics and triggers of the shards.
 *
 * A table that is named is dropped on the shards too, unless it was attached:
 * then it was there before, and stays.  On each shard all tables of the
 * statement go at once, because they may refer to each other.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/trigger.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "executor/multi_shard.h"

static const char *
behavior_text(const DropStmt *statement)
{
	return statement->behavior == DROP_CASCADE ? " CASCADE" : "";
}

static char *
names_of(const List *tables)
{
	StringInfoData names;
	ListCell   *cell;

	initStringInfo(&names);
	foreach(cell, tables)
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "",
						 sl_ddl_name(((SlTable *) lfirst(cell))->relid));
	return names.data;
}

static void
drop_on_shards(SlDdl *ddl, const DropStmt *statement, List *tables)
{
	ListCell   *cell;

	/* A shard that has lost the table must not prevent DROP TABLE. */
	foreach(cell, sl_ddl_groups(tables))
	{
		SlDdlGroup *group = lfirst(cell);

		sl_ddl_add_step(ddl, group->shards,
						psprintf("DROP TABLE IF EXISTS %s%s", names_of(group->tables), behavior_text(statement)));
	}
}

/* Was it attached, or is there no shard any more that could drop it? */
static bool
stays_on_shards(const SlTable *table)
{
	return table->is_attached || sl_ddl_has_lost_shard(table);
}

/* Tables that were there before are the shards' own again. */
static void
drop_guard_trigger(SlDdl *ddl, const SlTable *table)
{
	char	   *name = sl_ddl_name(table->relid);
	ListCell   *cell;

	if (table->kind == SL_TABLE_PLACED || !table->is_attached || sl_ddl_has_lost_shard(table))
		return;
	sl_ddl_check_owner(table->relid);
	sl_guard_trigger_drop(sl_table_homes(table), get_namespace_name(get_rel_namespace(table->relid)),
						  get_rel_name(table->relid));
	foreach(cell, sl_ddl_offline_shards(sl_table_homes(table), true))
	{
		if (!((SlShard *) lfirst(cell))->bare)
			sl_ddl_add_step(ddl, list_make1(lfirst(cell)),
							psprintf("SELECT " SL_INTERNAL_SCHEMA ".unguard_table(pg_catalog.to_regclass(%s))",
									 quote_literal_cstr(name)));
	}
}

static bool
plan_drop_table(SlDdl *ddl)
{
	DropStmt   *statement = (DropStmt *) ddl->node;
	List	   *tables = NIL;
	ListCell   *cell;

	foreach(cell, statement->objects)
	{
		SlTable    *table = sl_ddl_table_by_names(lfirst(cell));

		if (table != NULL && stays_on_shards(table))
			drop_guard_trigger(ddl, table);
		if (table == NULL || stays_on_shards(table) || list_member_oid(ddl->dropped, table->relid))
			continue;
		tables = lappend(tables, table);
		ddl->dropped = list_concat_unique_oid(ddl->dropped, sl_ddl_with_partitions(table));
	}
	if (tables == NIL)
		return false;
	sl_ddl_run_on_router(ddl, statement);
	drop_on_shards(ddl, statement, tables);
	return true;
}

/* An offline shard may not have a reference table yet, and gets it without the object. */
static const char *
if_copied(const SlTable *table)
{
	return table->kind == SL_TABLE_REFERENCE ? "IF EXISTS " : "";
}

static void
drop_index_on_shards(SlDdl *ddl, const DropStmt *statement, const SlIndex *index)
{
	sl_ddl_check_index_at_rest(index->table, index->name);
	sl_ddl_add_step(ddl, sl_table_homes(index->table),
					psprintf("DROP INDEX %s%s%s%s", statement->concurrent ? "CONCURRENTLY " : "",
							 if_copied(index->table), index->name, behavior_text(statement)));
}

static bool
plan_drop_index(SlDdl *ddl)
{
	DropStmt   *statement = (DropStmt *) ddl->node;
	ListCell   *cell;

	foreach(cell, statement->objects)
	{
		SlIndex    *index = sl_ddl_find_index(makeRangeVarFromNameList(lfirst(cell)));

		if (index == NULL)
			continue;
		if (statement->concurrent && !sl_ddl_is_remote(index->table))
			sl_ddl_refuse(index->table, "concurrently drop an index of", "Leave CONCURRENTLY out.");
		drop_index_on_shards(ddl, statement, index);
	}
	if (ddl->steps == NIL)
		return false;
	if (statement->concurrent)
	{
		PreventInTransactionBlock(ddl->is_top_level, "DROP INDEX CONCURRENTLY");
		ddl->is_separate = true;
	}
	sl_ddl_run_on_router(ddl, statement);
	return true;
}

/* The router has the statistics as well, which is how they are found. */
static bool
plan_drop_statistics(SlDdl *ddl)
{
	DropStmt   *statement = (DropStmt *) ddl->node;
	ListCell   *cell;

	foreach(cell, statement->objects)
	{
		SlStatistics *found = sl_ddl_find_statistics(lfirst(cell));

		if (found != NULL)
			sl_ddl_add_step(ddl, sl_table_homes(found->table),
							psprintf("DROP STATISTICS %s%s%s", if_copied(found->table), found->name,
									 behavior_text(statement)));
	}
	if (ddl->steps == NIL)
		return false;
	sl_ddl_run_on_router(ddl, statement);
	return true;
}

/* The names of a trigger or constraint: those of its table, and its own. */
static bool
plan_drop_trigger(SlDdl *ddl)
{
	DropStmt   *statement = (DropStmt *) ddl->node;
	List	   *names = linitial(statement->objects);
	char	   *trigger = strVal(llast(names));
	List	   *table_names = list_truncate(list_copy(names), list_length(names) - 1);
	SlTable    *table = sl_ddl_table_by_names(table_names);

	if (table == NULL)
		return false;
	if (sl_ddl_is_remote(table))
	{
		bool		is_on_router = OidIsValid(get_trigger_oid(table->relid, trigger, true));

		if (is_on_router)
			sl_ddl_run_on_router(ddl, statement);
		sl_ddl_lock(makeRangeVarFromNameList(table_names), AccessExclusiveLock);
		sl_ddl_add_step(ddl, sl_table_homes(table),
						psprintf("DROP TRIGGER %s%s ON %s%s", statement->missing_ok ? "IF EXISTS " : "",
								 quote_identifier(trigger), sl_ddl_name(table->relid),
								 behavior_text(statement)));
		return true;
	}
	sl_ddl_check_reference_trigger(table, trigger, "drop");
	return false;
}

bool
sl_ddl_plan_drop(SlDdl *ddl)
{
	switch (castNode(DropStmt, ddl->node)->removeType)
	{
		case OBJECT_TABLE:
			return plan_drop_table(ddl);
		case OBJECT_INDEX:
			return plan_drop_index(ddl);
		case OBJECT_STATISTIC_EXT:
			return plan_drop_statistics(ddl);
		case OBJECT_TRIGGER:
			return plan_drop_trigger(ddl);
		case OBJECT_POLICY:
			return sl_ddl_plan_drop_policy(ddl);
		default:
			return sl_ddl_plan_drop_objects(ddl);
	}
}
