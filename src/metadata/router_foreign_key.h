/*
 * router_foreign_key.h
 *		Foreign keys to a shell table from tables whose rows are on the router.
 */
#ifndef SL_ROUTER_FOREIGN_KEY_H
#define SL_ROUTER_FOREIGN_KEY_H

#include "access/attnum.h"
#include "access/htup.h"
#include "nodes/bitmapset.h"
#include "nodes/parsenodes.h"
#include "utils/relcache.h"
#include "utils/reltrigger.h"

extern bool sl_router_key_is_trigger(const Trigger *trigger);
extern bool sl_router_key_exists(Relation relation);
extern Bitmapset *sl_router_key_columns(HeapTuple constraint, AttrNumber list);
extern Bitmapset *sl_router_key_referenced(Relation relation);
extern bool sl_router_key_is_assigned(Relation relation, List *assigned);
extern bool sl_router_key_is_checked(Relation relation, const Query *query);

#endif							/* SL_ROUTER_FOREIGN_KEY_H */
