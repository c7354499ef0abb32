/*
 * agg.h
 *		Aggregates in two steps: shards compute states, the router the results.
 */
#ifndef SL_AGG_H
#define SL_AGG_H

#include "nodes/primnodes.h"

/* agg_state.c */
extern Oid	sl_agg_own(const char *name, int arg_count, const Oid *arg_types);
extern bool sl_agg_is_own(Oid function, const char *name);
extern Aggref *sl_agg_make(Oid function, Oid type, const Aggref *like);
extern Aggref *sl_agg_origin(const Aggref *aggregate);
extern Expr *sl_agg_state(const Aggref *aggregate, Aggref *shipped, bool is_bare);

/* agg_plain.c */
extern Node *sl_agg_plain(Node *expression, bool is_bare);
extern Aggref *sl_agg_count_keys(const Aggref *aggregate);

#endif							/* SL_AGG_H */
