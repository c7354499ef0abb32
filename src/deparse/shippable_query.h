/*
 * shippable_query.h
 *		Whole statements that shards execute.
 *
 * A statement is taken as the rewriter left it, before planning, and deparsed
 * by PostgreSQL's own pg_get_querydef().  A part that is not shippable, and
 * needs none of the shards' rows, is evaluated on the router and becomes a
 * parameter; otherwise the statement is not shippable.
 *
 * The parameters, SlShippableContext.params, are expressions as the parser made them: the
 * caller has to plan them (expression_planner()).
 */
#ifndef SL_SHIPPABLE_QUERY_H
#define SL_SHIPPABLE_QUERY_H

#include "deparse/deparse.h"

extern void sl_shippable_init_query(SlShippableContext *ship, List *tables);
extern bool sl_shippable_is_plain_insert(const Query *query);
extern bool sl_shippable_is_offset_zero(const Node *offset);
extern Query *sl_shippable_make_query(SlShippableContext *ship, const Query *query);
extern char *sl_deparse_query(Query *query);

#endif							/* SL_SHIPPABLE_QUERY_H */
