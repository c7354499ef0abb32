/*
 * travel.h
 *		Whole statements that shards run.
 *
 * A statement is taken as the rewriter left it, before the planner sees it, and
 * written by PostgreSQL's own pg_get_querydef().  What a shard would compute in
 * another way, and needs none of its rows, is computed on the router and becomes a
 * parameter; if something else is in the way, the statement does not travel.
 *
 * The parameters, SlShip.params, are expressions as the parser made them: the
 * one who runs them plans them first (expression_planner()).
 */
#ifndef SL_TRAVEL_H
#define SL_TRAVEL_H

#include "deparse/deparse.h"

extern void sl_travel_init(SlShip *ship, List *tables);
extern bool sl_travel_is_plain_insert(const Query *query);
extern Query *sl_travel(SlShip *ship, const Query *query);
extern char *sl_travel_sql(Query *query);

#endif							/* SL_TRAVEL_H */
