/*
 * ddl_rules.c
 *		Which kinds of statements can concern a table of ours.
 *
 * A statement that is not here is PostgreSQL's own business: it either has no
 * meaning on the shards (views, functions, triggers of the router) or reaches
 * them through the foreign data wrapper (TRUNCATE, ANALYZE, COPY).
 */
#include "postgres.h"

#include "ddl/ddl_internal.h"

static const SlDdlRule rules[] = {
	{T_AlterTableStmt, sl_ddl_plan_alter},
	{T_IndexStmt, sl_ddl_plan_create_index},
	{T_DropStmt, sl_ddl_plan_drop},
	{T_RenameStmt, sl_ddl_plan_rename},
	{T_AlterObjectSchemaStmt, sl_ddl_plan_schema},
	{T_GrantStmt, sl_ddl_plan_grant},
	{T_CommentStmt, sl_ddl_plan_comment},
	{T_CreateStmt, sl_ddl_plan_create_table},
	{T_CreateForeignTableStmt, sl_ddl_plan_create_table},
	{T_CreateStatsStmt, sl_ddl_plan_create_statistics},
	{T_AlterStatsStmt, sl_ddl_plan_alter_statistics},
	{T_ReindexStmt, sl_ddl_plan_reindex},
	{T_ClusterStmt, sl_ddl_plan_cluster},
	{T_LockStmt, sl_ddl_plan_lock},
	{T_VacuumStmt, sl_ddl_plan_vacuum},
	{T_AlterEnumStmt, sl_ddl_plan_enum},
	{T_AlterDomainStmt, sl_ddl_plan_domain},
};

/* Returns false for a statement that concerns no table of ours. */
bool
sl_ddl_plan(SlDdl *ddl)
{
	NodeTag		tag = nodeTag(ddl->node);

	for (int i = 0; i < (int) lengthof(rules); i++)
	{
		if (rules[i].tag == tag)
			return rules[i].plan(ddl);
	}
	return false;
}
