/*
 * push_partial.h
 *		Partial pushdown: shards execute parts of a statement, while
 *		PostgreSQL plans the rest.
 *
 * A remote subquery is FROM and WHERE of a query, or a whole subquery.  Its
 * result is one relation of a statement that PostgreSQL plans and executes:
 * groups over all shards, DISTINCT, window functions, joins with relations
 * elsewhere.  Where possible, shards also do the partial aggregation or a
 * partial DISTINCT.
 */
#ifndef SL_PUSH_PARTIAL_H
#define SL_PUSH_PARTIAL_H

#include "nodes/params.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/planner.h"

#include "deparse/deparse.h"
#include "planner/query_placement.h"

/* What a call of scatter_subquery() in FROM stands for, during planning. */
typedef struct SlRemoteSubquery
{
	SlPlacement *placement;
	Query	   *plain;			/* the original query */
	Query	   *query;			/* its shippable form */
	SlShippableContext ship;	/* to deparse more of it; params are those of
								 * "query" */
	Oid			user;			/* the user to connect as */
	bool		is_bare;		/* some shard does not have the extension */
	int			shard_count;
	bool		must_split;		/* it has aggregates, which cannot be computed
								 * from its rows alone */
	bool		has_split;
	double		rows;			/* estimates */
	double		tuples;
	Cost		cost;			/* of finding the rows, on all shards together */
} SlRemoteSubquery;

/*
 * A column of the remote output: the router's expression, and the shards' one.
 */
typedef struct SlRemoteSubqueryColumn
{
	Expr	   *local;
	Expr	   *remote;
	bool		is_group;		/* a grouping column */
} SlRemoteSubqueryColumn;

/* push_partial.c */
extern void sl_partial_init(void);
extern PlannedStmt *sl_partial_plan_query(Query *query, const char *source, int options,
										  ParamListInfo params, planner_hook_type plan);
extern SlRemoteSubquery *sl_partial_find_subquery(const RangeTblEntry *entry);

/* push_partial_query.c */
extern SlRemoteSubquery *sl_partial_make_subquery(Query *plain);
extern Query *sl_partial_push_query(const SlRemoteSubquery *subquery, int number, Oid function);
extern Query *sl_partial_push_from(Query *query, int number, Oid function, bool with_keys, SlRemoteSubquery **subquery);

/* push_partial_paths.c */
extern void sl_partial_init_paths(void);

/* push_partial_sql.c */
extern Query *sl_partial_push_sort(const SlRemoteSubquery *subquery, const List *keys, const RelOptInfo *rel,
								   List **merge);
extern Query *sl_partial_push_grouping(const SlRemoteSubquery *subquery, Index index, List *columns, List *clauses,
									   bool is_distinct);

/* push_partial_size.c */
extern void sl_partial_init_size(void);
extern void sl_partial_estimate_size(SlRemoteSubquery *subquery, ParamListInfo params);

#endif							/* SL_PUSH_PARTIAL_H */
