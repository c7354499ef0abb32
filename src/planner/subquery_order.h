/*
 * subquery_order.h
 *		ORDER BY of subqueries, CTEs and views.
 */
#ifndef SL_SUBQUERY_ORDER_H
#define SL_SUBQUERY_ORDER_H

#include "nodes/parsenodes.h"

/* The only relation of FROM, if it is a subquery, a view or a CTE. */
typedef struct SlSource
{
	Query	   *outer;			/* the query whose FROM it is */
	Index		index;
	RangeTblEntry *entry;
	Query	   *query;			/* what the relation stands for */
	CommonTableExpr *with;		/* NULL: not a CTE */
} SlSource;

/* subquery_order.c */
extern Query *sl_subquery_order_keep(Query *query);

/* Private to these files ------------------------------------------------------- */

/* subquery_order_use.c */
extern bool sl_order_use_may_be(const Query *outer, bool is_wanted);
extern bool sl_order_use_is_taken(const SlSource *source, bool is_wanted);
extern bool sl_order_use_is_in_aggregates(const Query *outer);
extern bool sl_order_use_is_input(const SlSource *source, bool is_wanted);
extern bool sl_order_use_is_sensitive(const Aggref *aggregate);
extern bool sl_order_use_is_column(const SlSource *source, Node *expression,
								   const TargetEntry *column);

/* subquery_order_move.c */
extern void sl_order_move_to_query(SlSource *source);
extern void sl_order_move_to_aggregates(SlSource *source);
extern void sl_order_move_drop(Query *query);

#endif							/* SL_SUBQUERY_ORDER_H */
