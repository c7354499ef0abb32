/*
 * insert.h
 *		INSERTs that travel.
 */
#ifndef SL_INSERT_H
#define SL_INSERT_H

#include "nodes/parsenodes.h"

#include "plan/road.h"

/* insert.c */
extern int	sl_insert_source(const Query *query);
extern Query *sl_insert_normalise(Query *query);

/* insert_plan.c */
extern PlannedStmt *sl_insert_plan(Query *query, int options);

/* insert_rows.c: the node by which rows go to the shards of their keys */
typedef struct SlInsertRows
{
	Oid			table;
	List	   *types;			/* OidList, of the columns of a row */
	List	   *key;			/* IntList: which of them are the key, from 0 */
	List	   *params;			/* IntList, for each parameter of the text: a
								 * column, or -1 - an expression */
} SlInsertRows;

extern bool sl_insert_is_rows(const CustomScan *scan);
extern Node *sl_insert_rows_state(void);
extern CustomScan *sl_insert_rows_plan(const SlRoad *road, const SlInsertRows *rows,
									   List *target_list);

#endif							/* SL_INSERT_H */
