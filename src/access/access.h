/*
 * access.h
 *		The foreign data wrapper: access to a single distributed table.
 */
#ifndef SL_ACCESS_H
#define SL_ACCESS_H

#include "commands/explain.h"
#include "foreign/fdwapi.h"
#include "parser/parsetree.h"
#include "nodes/pathnodes.h"

#include "deparse/ownership_filter.h"
#include "deparse/shard_pruning.h"
#include "executor/remote_scan.h"

/* One table of a relation that is read from shards. */
typedef struct SlMember
{
	Index		index;			/* in the range table */
	SlTable    *table;
	bool		is_nullable;	/* by an outer join */
} SlMember;

/* Planning state of a base, join or upper relation: RelOptInfo.fdw_private. */
typedef struct SlRel
{
	SlShippableContext ship;
	List	   *members;		/* of SlMember */
	bool		is_single;		/* all of its rows are on one shard */
	bool		is_whole;		/* nothing is evaluated on the router */
	List	   *remote_clauses; /* RestrictInfos that the shards check */
	List	   *local_clauses;	/* those that the router checks */

	/* a join */
	RelOptInfo *outer;			/* NULL: not a join */
	RelOptInfo *inner;
	JoinType	join_type;
	List	   *join_clauses;	/* of ON */

	/* grouped, distinct, sorted or limited */
	RelOptInfo *input;			/* NULL: none of these */
	List	   *target;			/* TargetEntries of what the shards return */
	List	   *group;			/* expressions of GROUP BY */
	bool		has_groups;		/* GROUP BY, or aggregates without */
	bool		is_distinct;
	List	   *having;			/* clauses that the shards check */
	Node	   *limit_count;
	Node	   *limit_offset;
} SlRel;

/* Items of ForeignScan.fdw_private. */
enum
{
	SL_SCAN_SQL,				/* String */
	SL_SCAN_COLUMNS,			/* IntList: attribute numbers of the result
								 * columns; NIL: in order */
	SL_SCAN_FLAGS,				/* Integer: see below */
	SL_SCAN_PARAM_COUNT,		/* Integer: the number of fdw_exprs that are
								 * parameters */
	SL_SCAN_PRUNE,				/* List of (table's OID, program) */
	SL_SCAN_SORT,				/* List of OidLists (column, operator,
								 * collation, nulls first) */
	SL_SCAN_LIMIT,				/* IntList: indexes in fdw_exprs, or -1 */
	SL_SCAN_RELATIONS,			/* String, for EXPLAIN */
	SL_SCAN_LOCK,				/* String: FOR UPDATE ..., or empty */
	SL_SCAN_FILTERS,			/* List: see sl_ownership_filter_place(), or
								 * NIL */
	SL_SCAN_PLACES				/* IntList, or NIL: see SlRemoteScan */
};

/* SL_REMOTE_SCAN_..., and these. */
#define SL_SCAN_IDENTITY	(SL_REMOTE_SCAN_FIRST_FREE) /* rows have their
														 * shard, tableoid and
														 * ctid */
#define SL_SCAN_RETURNS		(SL_REMOTE_SCAN_FIRST_FREE << 1)	/* UPDATE or DELETE with
																 * RETURNING */
#define SL_SCAN_MOVES		(SL_REMOTE_SCAN_FIRST_FREE << 2)	/* targets that may have
																 * to move to another
																 * shard */

/* foreign_paths.c */
extern void sl_fdw_rel_size(PlannerInfo *root, RelOptInfo *rel, Oid table);
extern void sl_fdw_paths(PlannerInfo *root, RelOptInfo *rel, Oid table);
extern bool sl_fdw_is_order(const SlRel *info, List *keys, const RelOptInfo *rel);
extern Expr *sl_fdw_order_expr(const SlRel *info, PathKey *key, const RelOptInfo *rel);
extern List *sl_fdw_clauses(List *restrictions);
extern void sl_fdw_ship_init(SlShippableContext *ship, PlannerInfo *root, Relids relids,
							 const SlTable *table);
extern bool sl_fdw_is_remote(const SlShippableContext *ship, RelOptInfo *rel, RestrictInfo *restriction);

/* foreign_join.c */
extern void sl_fdw_join_paths(PlannerInfo *root, RelOptInfo *join, RelOptInfo *outer,
							  RelOptInfo *inner, JoinType type, JoinPathExtraData *extra);

/* foreign_upper.c */
extern void sl_fdw_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
							   RelOptInfo *output, void *extra);

/* cost.c */
extern void sl_fdw_cost(const RelOptInfo *rel, const SlRel *info, double rows, bool is_sorted,
						Cost *startup, Cost *total);

/* foreign_sql.c */
extern ForeignScan *sl_fdw_plan(PlannerInfo *root, RelOptInfo *rel, Oid table,
								ForeignPath *path, List *target_list, List *clauses,
								Plan *outer_plan);

/* foreign_scan.c */
extern void sl_fdw_begin_scan(ForeignScanState *node, int eflags);
extern TupleTableSlot *sl_fdw_next(ForeignScanState *node);
extern void sl_fdw_rescan(ForeignScanState *node);
extern void sl_fdw_end_scan(ForeignScanState *node);
extern void sl_fdw_explain_scan(ForeignScanState *node, ExplainState *es);

/* direct_modify.c */
extern bool sl_fdw_plan_direct(PlannerInfo *root, ModifyTable *plan, Index index, int subplan);
extern TupleTableSlot *sl_fdw_next_direct(ForeignScanState *node);

/* analyze.c */
typedef struct SlSample SlSample;

extern void sl_sample_count(Relation relation, const SlTable *table, double *rows, double *pages);
extern SlSample *sl_sample_begin(Relation relation, const SlTable *table, double known_rows, int target);
extern bool sl_sample_next(SlSample *sample);
extern HeapTuple sl_sample_make_tuple(const SlSample *sample);
extern double sl_sample_end(SlSample *sample);
extern bool sl_fdw_analyze(Relation relation, AcquireSampleRowsFunc *function,
						   BlockNumber *pages);

#endif							/* SL_ACCESS_H */
