/*
 * leaf.h
 *		Parts of a statement that shards answer, while PostgreSQL plans the rest.
 *
 * A leaf is FROM and WHERE of a query, or a whole subquery.  What shards return for
 * it is one relation of a statement that PostgreSQL plans and runs: groups over all
 * shards, DISTINCT, window functions, joins with what is elsewhere.  Where they can,
 * shards do the first half of groups and DISTINCT, too.
 */
#ifndef SL_LEAF_H
#define SL_LEAF_H

#include "nodes/params.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/planner.h"

#include "deparse/deparse.h"
#include "plan/where.h"

/* What stands behind a call of scatter_leaf() in FROM, while it is planned. */
typedef struct SlLeaf
{
	SlWhere    *where;
	Query	   *plain;			/* the query as it was */
	Query	   *query;			/* the same as shards get it */
	SlShip		ship;			/* to write more of it; params are those of
								 * "query" */
	Oid			user;			/* as whom shards are asked */
	bool		is_bare;		/* a shard has no extension */
	int			shard_count;
	bool		must_split;		/* it has aggregates that the rows alone would
								 * not give */
	bool		has_split;
	double		rows;			/* estimates */
	double		tuples;
	Cost		cost;			/* of finding the rows, all shards together */
} SlLeaf;

/* A column that shards return: what it is here, and how they compute it. */
typedef struct SlLeafColumn
{
	Expr	   *local;
	Expr	   *remote;
	bool		is_group;		/* rows are told apart by it */
} SlLeafColumn;

/* leaf.c */
extern void sl_leaf_init(void);
extern PlannedStmt *sl_leaf_plan(Query *query, const char *source, int options,
								 ParamListInfo params, planner_hook_type plan);
extern SlLeaf *sl_leaf_find(const RangeTblEntry *entry);

/* leaf_query.c */
extern SlLeaf *sl_leaf_make(Query *plain);
extern Query *sl_leaf_whole(const SlLeaf *leaf, int number, Oid function);
extern Query *sl_leaf_from(Query *query, int number, Oid function, bool with_keys, SlLeaf **leaf);

/* leaf_path.c */
extern void sl_leaf_path_init(void);

/* leaf_text.c */
extern Query *sl_leaf_group(const SlLeaf *leaf, Index index, List *columns, List *clauses,
							bool is_distinct);

/* leaf_size.c */
extern void sl_leaf_size_init(void);
extern void sl_leaf_estimate(SlLeaf *leaf, ParamListInfo params);

#endif							/* SL_LEAF_H */
