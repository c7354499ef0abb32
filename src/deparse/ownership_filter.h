/*
 * ownership_filter.h
 *		Conditions on the ownership of rows, as SQL for the shards.
 */
#ifndef SL_OWNERSHIP_FILTER_H
#define SL_OWNERSHIP_FILTER_H

#include "nodes/parsenodes.h"

#include "metadata/table.h"

/* shardlet_condition.c */
extern char *sl_range_sql(SlMap *map, const SlShardletRow *range, List *columns);

/* ownership_filter.c */
extern List *sl_ownership_filter_member(const SlTable *table, const char *alias);
extern List *sl_ownership_filter_place(int offset, bool has_where, List *members);
extern const char *sl_ownership_filter_apply(const char *sql, List *places);
extern bool sl_ownership_filter_is_newer(List *places, Snapshot snapshot);

/* ownership_filter_query.c */
extern char *sl_ownership_filter_query_sql(Query *query, List **places);

#endif							/* SL_OWNERSHIP_FILTER_H */
