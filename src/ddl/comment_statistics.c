/*
 * comment_statistics.c
 *		Comments and extended statistics.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_statistic_ext.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "deparse/deparse.h"

static List *
without_last(List *names)
{
	return list_truncate(list_copy(names), list_length(names) - 1);
}

static void
comment_on_shards(SlDdl *ddl, const SlTable *table, const char *object)
{
	CommentStmt *statement = (CommentStmt *) ddl->node;

	sl_ddl_add_step(ddl, sl_table_homes(table),
					psprintf("COMMENT ON %s IS %s", object, sl_ddl_literal(statement->comment)));
}

static bool
plan_comment_table(SlDdl *ddl)
{
	CommentStmt *statement = (CommentStmt *) ddl->node;
	SlTable    *table = sl_ddl_table_by_names((List *) statement->object);

	if (table == NULL)
		return false;
	sl_ddl_run_on_router(ddl, statement);
	comment_on_shards(ddl, table, psprintf("TABLE %s", sl_ddl_name(table->relid)));
	return true;
}

static bool
plan_comment_column(SlDdl *ddl)
{
	CommentStmt *statement = (CommentStmt *) ddl->node;
	List	   *names = (List *) statement->object;
	SlTable    *table = list_length(names) > 1 ? sl_ddl_table_by_names(without_last(names)) : NULL;

	if (table == NULL)
		return false;
	sl_ddl_run_on_router(ddl, statement);
	comment_on_shards(ddl, table, psprintf("COLUMN %s.%s", sl_ddl_name(table->relid),
										   quote_identifier(strVal(llast(names)))));
	return true;
}

static bool
plan_comment_index(SlDdl *ddl)
{
	CommentStmt *statement = (CommentStmt *) ddl->node;
	SlIndex    *index = sl_ddl_find_index(makeRangeVarFromNameList((List *) statement->object));

	if (index == NULL)
		return false;
	sl_ddl_run_on_router(ddl, statement);
	comment_on_shards(ddl, index->table, psprintf("INDEX %s", index->name));
	return true;
}

/* Triggers of a reference table are the router's alone. */
static bool
plan_comment_part(SlDdl *ddl, bool is_constraint)
{
	CommentStmt *statement = (CommentStmt *) ddl->node;
	List	   *names = (List *) statement->object;
	SlTable    *table = sl_ddl_table_by_names(without_last(names));
	char	   *name = strVal(llast(names));
	bool		is_on_router;

	if (table == NULL)
		return false;
	is_on_router = OidIsValid(is_constraint ? get_relation_constraint_oid(table->relid, name, true) :
							  get_trigger_oid(table->relid, name, true));
	if (!is_constraint && !sl_ddl_is_remote(table))
		return false;
	if (is_on_router)
		sl_ddl_run_on_router(ddl, statement);
	else
		sl_ddl_check_owner(table->relid);
	comment_on_shards(ddl, table, psprintf("%s %s ON %s", is_constraint ? "CONSTRAINT" : "TRIGGER",
										   quote_identifier(name), sl_ddl_name(table->relid)));
	return true;
}

static bool
plan_comment_statistics(SlDdl *ddl)
{
	CommentStmt *statement = (CommentStmt *) ddl->node;
	SlStatistics *found = sl_ddl_find_statistics((List *) statement->object);

	if (found == NULL)
		return false;
	sl_ddl_run_on_router(ddl, statement);
	comment_on_shards(ddl, found->table, psprintf("STATISTICS %s", found->name));
	return true;
}

bool
sl_ddl_plan_comment(SlDdl *ddl)
{
	switch (castNode(CommentStmt, ddl->node)->objtype)
	{
		case OBJECT_TABLE:
			return plan_comment_table(ddl);
		case OBJECT_COLUMN:
			return plan_comment_column(ddl);
		case OBJECT_INDEX:
			return plan_comment_index(ddl);
		case OBJECT_TABCONSTRAINT:
			return plan_comment_part(ddl, true);
		case OBJECT_TRIGGER:
			return plan_comment_part(ddl, false);
		case OBJECT_STATISTIC_EXT:
			return plan_comment_statistics(ddl);
		default:
			return false;
	}
}

/* Returns the statistics object of a distributed table, or NULL. */
SlStatistics *
sl_ddl_find_statistics(List *names)
{
	Oid			oid = get_statistics_object_oid(names, true);
	HeapTuple	tuple = OidIsValid(oid) ? SearchSysCache1(STATEXTOID, ObjectIdGetDatum(oid)) : NULL;
	SlStatistics *result = NULL;
	Form_pg_statistic_ext row;
	SlTable    *table;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	row = (Form_pg_statistic_ext) GETSTRUCT(tuple);
	table = sl_table_get(row->stxrelid);
	if (table != NULL)
	{
		result = palloc(sizeof(SlStatistics));
		result->table = table;
		result->name = quote_qualified_identifier(get_namespace_name(row->stxnamespace),
												  NameStr(row->stxname));
	}
	ReleaseSysCache(tuple);
	return result;
}

/* The name that PostgreSQL would choose might differ between shards. */
static void
check_named(const CreateStatsStmt *statement, const SlTable *table)
{
	if (statement->defnames == NIL)
		sl_ddl_refuse(table, "create statistics without a name on", "Give them a name.");
}

/* The shards compute them when they are analyzed. */
static void
check_statistics(const CreateStatsStmt *statement, const SlTable *table)
{
	ListCell   *cell;

	foreach(cell, statement->exprs)
	{
		StatsElem  *element = lfirst(cell);

		if (element->expr != NULL)
			sl_privilege_check(sl_ddl_transform(table, element->expr, EXPR_KIND_STATS_EXPRESSION));
	}
}

bool
sl_ddl_plan_create_statistics(SlDdl *ddl)
{
	CreateStatsStmt *statement = castNode(CreateStatsStmt, ddl->node);
	RangeVar   *relation = list_length(statement->relations) == 1 ? linitial(statement->relations) : NULL;
	SlTable    *table = relation != NULL && IsA(relation, RangeVar) ? sl_ddl_table(relation) : NULL;
	List	   *changes;

	if (table == NULL)
		return false;
	check_named(statement, table);
	if (statement->if_not_exists && OidIsValid(get_statistics_object_oid(statement->defnames, true)))
		return false;
	sl_ddl_lock(relation, ShareUpdateExclusiveLock);
	check_statistics(statement, table);
	sl_ddl_watch_needs(ddl, table);
	sl_ddl_run_on_router(ddl, statement);
	changes = sl_ddl_rename_in(ddl, NIL, relation, sl_ddl_name(table->relid));
	sl_ddl_add_step(ddl, sl_table_homes(table), sl_ddl_changed(ddl, sl_ddl_whole(ddl), changes));
	return true;
}

bool
sl_ddl_plan_alter_statistics(SlDdl *ddl)
{
	AlterStatsStmt *statement = castNode(AlterStatsStmt, ddl->node);
	SlStatistics *found = sl_ddl_find_statistics(statement->defnames);

	if (found == NULL)
		return false;
	sl_ddl_run_on_router(ddl, statement);
	sl_ddl_add_step(ddl, sl_table_homes(found->table), sl_ddl_text(ddl));
	return true;
}
