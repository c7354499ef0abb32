/*
 * partial_aggregate.h
 *		Aggregates in two steps: shards compute states, the router the results.
 */
#ifndef SL_PARTIAL_AGGREGATE_H
#define SL_PARTIAL_AGGREGATE_H

#include "nodes/primnodes.h"

/* partial_aggregate.c */
extern Oid	sl_aggregate_find_own(const char *name, int arg_count, const Oid *arg_types);
extern Aggref *sl_aggregate_make_call(Oid function, Oid type, const Aggref *like);
extern Aggref *sl_aggregate_find_origin(const Aggref *aggregate);
extern Expr *sl_aggregate_make_state(const Aggref *aggregate, Aggref *shipped, bool is_bare);

/* aggregate_state_check.c */
typedef struct SlStateFormat SlStateFormat;

extern const SlStateFormat *sl_aggregate_find_format(Oid deserialize);
extern const SlStateFormat *sl_aggregate_find_partial_format(const Node *expression);
extern const char *sl_aggregate_check_state(const SlStateFormat *format, const char *bytes, Size length);

/* aggregate_rewrite.c */
extern Node *sl_aggregate_rewrite_plain(Node *expression, bool is_bare);
extern Aggref *sl_aggregate_make_count_keys(const Aggref *aggregate);

#endif							/* SL_PARTIAL_AGGREGATE_H */
