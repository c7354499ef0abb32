/*
 * plan.h
 *		What happens to a statement before PostgreSQL plans it.
 */
#ifndef SL_PLAN_H
#define SL_PLAN_H

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

#include "plan/where.h"

/* planner.c */
extern void sl_planner_init(void);

/* on_conflict.c */
extern void sl_on_conflict_hide(Query *query);

/* system_columns.c */
extern void sl_system_columns_check(Query *query);

/* ship.c */
extern PlannedStmt *sl_ship_plan(Query *query, const SlWhere *where, int options);

/* scatter.c */
extern PlannedStmt *sl_scatter_plan(Query *original, const SlWhere *where, int options);

/* finish.c */
extern List *sl_finish_result(List *columns);
extern List *sl_finish_target(List *columns);
extern List *sl_finish_expressions(List *expressions);
extern char *sl_finish_relations(Query *query);
extern bool sl_finish_find_user(Query *query, Oid *user);
extern void sl_finish_add_relations(PlannedStmt *statement, Query *query);
extern PlannedStmt *sl_finish_plan(Query *query, Plan *plan, int options);

#endif							/* SL_PLAN_H */
