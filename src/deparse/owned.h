/*
 * owned.h
 *		Conditions on where rows belong, as SQL for the shards.
 */
#ifndef SL_OWNED_H
#define SL_OWNED_H

#include "nodes/parsenodes.h"

#include "map/table.h"

/* range.c */
extern char *sl_range_sql(SlMap *map, const SlShardletRow *range, List *columns);

/* owned.c */
extern char *sl_owned_sql(SlMap *map, List *columns);
extern List *sl_owned_member(const SlTable *table, const char *alias);
extern List *sl_owned_place(int offset, bool has_where, List *members);
extern const char *sl_owned_apply(const char *sql, List *places);
extern bool sl_owned_is_newer(List *places, Snapshot snapshot);

/* owned_query.c */
extern char *sl_owned_travel_sql(Query *query, List **places);

#endif							/* SL_OWNED_H */
