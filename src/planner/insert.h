/*
 * insert.h
 *		INSERT statements that are pushed down.
 */
#ifndef SL_INSERT_H
#define SL_INSERT_H

#include "nodes/parsenodes.h"

#include "planner/remote_scan_plan.h"

/* insert_columns.c */
extern int	sl_insert_source(const Query *query);
extern Query *sl_insert_normalise(Query *query);

/* multi_row_insert.c */
extern PlannedStmt *sl_insert_plan(Query *query, int options);

/*
 * multi_row_insert_exec.c: the plan node that sends rows to the shards of
 * their keys
 */
typedef struct SlInsertRows
{
	Oid			table;
	List	   *types;			/* OidList, of the columns of a row */
	List	   *key;			/* IntList: which of them are the key, from 0 */
	List	   *params;			/* IntList, for each parameter of the query: a
								 * column, or -1 - an expression */
} SlInsertRows;

extern bool sl_insert_is_rows(const CustomScan *scan);
extern Node *sl_insert_rows_state(void);
extern CustomScan *sl_insert_rows_plan(const SlRemotePlan *remote, const SlInsertRows *rows,
									   List *target_list);

#endif							/* SL_INSERT_H */
