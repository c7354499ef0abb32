/*
 * shippable.h
 *		Private header of the files that decide what is shippable.
 */
#ifndef SL_SHIPPABLE_H
#define SL_SHIPPABLE_H

#include "deparse/deparse.h"

/* The protocol has a two-byte count of parameters. */
#define SL_MAX_PARAMS 65535

/* The examination of one expression or statement. */
typedef struct SlShippableCheck
{
	SlShippableContext *ship;
	bool		has_failed;
	int			branches;		/* nesting in branches that may not be
								 * evaluated */
} SlShippableCheck;

/* shippable_expr.c */
extern Node *sl_shippable_make_node(Node *node, SlShippableCheck *shipping);
extern Node *sl_shippable_parameterize(SlShippableContext *ship, Node *node);
extern Node *sl_shippable_refuse(SlShippableCheck *shipping, Node *node);
extern bool sl_shippable_is_sample(const SlShippableContext *ship, Oid handler);
extern bool sl_shippable_is_function(const SlShippableContext *ship, Oid function);

/* early_evaluation.c */
extern bool sl_shippable_has_param(Node *node, void *context);
extern bool sl_shippable_calls_others(Node *node, void *context);

/* output_format.c */
extern bool sl_format_is_fixed(Oid type);
extern bool sl_format_is_equal_cast(const CoerceViaIO *cast);
extern bool sl_format_is_equal_call(Oid function, List *args);

/* using_join.c */
extern bool sl_using_is_plain(const JoinExpr *join, List *rtable);

/* shippable_query.c */
extern Node *sl_shippable_check_query(Query *query, SlShippableCheck *shipping);
extern Node *sl_shippable_check_condition(Node *condition, SlShippableCheck *shipping);
extern List *sl_shippable_order_assignments(List *entries, SlShippableCheck *shipping);
extern void sl_shippable_parameterize_values(List *entries, SlShippableContext *ship);

/* shippable_merge.c */
extern void sl_shippable_check_merge(Query *query, SlShippableCheck *shipping);

#endif							/* SL_SHIPPABLE_H */
