/*
 * row_routing.h
 *		From a row to the shard that has or gets it.
 */
#ifndef SL_ROW_ROUTING_H
#define SL_ROW_ROUTING_H

#include "executor/tuptable.h"
#include "utils/rel.h"

#include "metadata/table.h"

typedef struct SlRowRoute
{
	Relation	relation;
	SlTable    *table;
	SlMap	   *map;			/* NULL: placed */
	SlShard    *shard;			/* placed */
	SlCoercion	coercions[SL_MAX_KEYS];
	MemoryContext work;			/* reset for every row */
} SlRowRoute;

extern void sl_row_route_init(SlRowRoute *route, Relation relation);
extern SlShard *sl_row_route(SlRowRoute *route, TupleTableSlot *slot);
extern SlShard *sl_row_route_key(SlRowRoute *route, const Datum *values, const bool *nulls);
extern void sl_row_check_shard(const SlShard *shard);

#endif							/* SL_ROW_ROUTING_H */
