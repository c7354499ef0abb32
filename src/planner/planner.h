/*
 * planner.h
 *		What happens to a statement before PostgreSQL plans it.
 */
#ifndef SL_PLANNER_H
#define SL_PLANNER_H

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

#include "planner/query_placement.h"

/* planner_hook.c */
extern void sl_planner_init(void);

/* locking_subquery.c */
extern Query *sl_locked_in_replace(Query *query);

/* row_security.c */
extern bool sl_row_security_is_pending(Query *query);
extern Query *sl_row_security_apply(Query *query);

/* system_columns.c */
extern void sl_system_columns_check(Query *query);
extern void sl_system_columns_check_ctid(Query *query);

/* table_subquery.c */
extern bool sl_merge_wrap_source(Query *query);
extern Query *sl_sample_wrap_tables(Query *query);

/* merge_refusal.c */
extern Query *sl_merge_find_remote(Query *query);
extern void sl_merge_refuse(Query *query, const SlPlacement *placement);

/* push_single_shard.c */
extern PlannedStmt *sl_push_plan_single_shard(Query *query, const SlPlacement *placement, int options);

/* push_all_shards.c */
extern PlannedStmt *sl_push_plan_all_shards(Query *original, const SlPlacement *placement, int options);

/* planned_statement.c */
extern List *sl_planned_make_result(List *columns);
extern List *sl_planned_make_target(List *columns);
extern List *sl_planned_prepare_expressions(List *expressions);
extern char *sl_planned_name_relations(Query *query);
extern bool sl_planned_find_user(Query *query, Oid *user);
extern void sl_planned_add_relations(PlannedStmt *statement, Query *query);
extern PlannedStmt *sl_planned_make_statement(Query *query, Plan *plan, int options);

#endif							/* SL_PLANNER_H */
