/*
 * fdw.h
 *		The foreign data wrapper: tables whose rows live on shards.
 */
#ifndef SL_FDW_H
#define SL_FDW_H

#include "commands/explain.h"
#include "foreign/fdwapi.h"
#include "parser/parsetree.h"
#include "nodes/pathnodes.h"

#include "deparse/owned.h"
#include "deparse/prune.h"
#include "fanout/ask.h"

/* One table of a relation that is read from shards. */
typedef struct SlMember
{
	Index		index;			/* in the range table */
	SlTable    *table;
	bool		is_nullable;	/* by an outer join */
} SlMember;

/*
 * What is known of a relation, a join of such, or what is made of one, when a
 * statement is planned: RelOptInfo.fdw_private.
 */
typedef struct SlRel
{
	SlShip		ship;
	List	   *members;		/* of SlMember */
	bool		is_single;		/* all of it is on one shard */
	bool		is_whole;		/* nothing is left to the router */
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
	SL_SCAN_COLUMNS,			/* IntList: where the results go; NIL: in
								 * order */
	SL_SCAN_FLAGS,				/* Integer: see below */
	SL_SCAN_PARAM_COUNT,		/* Integer: so many of fdw_exprs are
								 * parameters */
	SL_SCAN_PRUNE,				/* List of (table's OID, program) */
	SL_SCAN_SORT,				/* List of OidLists (column, operator,
								 * collation, nulls first) */
	SL_SCAN_LIMIT,				/* IntList: places in fdw_exprs, or -1 */
	SL_SCAN_RELATIONS,			/* String, for EXPLAIN */
	SL_SCAN_LOCK,				/* String: FOR UPDATE ..., or empty */
	SL_SCAN_OWNED				/* List: see sl_owned_place(), or NIL */
};

/* SL_ASK_..., and these. */
#define SL_SCAN_IDENTITY	(SL_ASK_FIRST_FREE) /* rows say where they are */
#define SL_SCAN_RETURNS		(SL_ASK_FIRST_FREE << 1)	/* UPDATE or DELETE with
														 * RETURNING */
#define SL_SCAN_MOVES		(SL_ASK_FIRST_FREE << 2)	/* targets that may have
														 * to change shards */

/* fdw_plan.c */
extern void sl_fdw_rel_size(PlannerInfo *root, RelOptInfo *rel, Oid table);
extern void sl_fdw_paths(PlannerInfo *root, RelOptInfo *rel, Oid table);
extern bool sl_fdw_is_order(const SlRel *info, List *keys, const RelOptInfo *rel);
extern Expr *sl_fdw_order_expr(const SlRel *info, PathKey *key, const RelOptInfo *rel);
extern List *sl_fdw_clauses(List *restrictions);
extern void sl_fdw_ship_init(SlShip *ship, PlannerInfo *root, Relids relids,
							 const SlTable *table);
extern bool sl_fdw_is_remote(const SlShip *ship, RelOptInfo *rel, RestrictInfo *restriction);
extern bool sl_fdw_is_pinned(const SlRel *info, List *clauses);

/* fdw_join.c */
extern void sl_fdw_join_paths(PlannerInfo *root, RelOptInfo *join, RelOptInfo *outer,
							  RelOptInfo *inner, JoinType type, JoinPathExtraData *extra);

/* fdw_upper.c */
extern void sl_fdw_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
							   RelOptInfo *output, void *extra);

/* fdw_cost.c */
extern void sl_fdw_cost(const RelOptInfo *rel, const SlRel *info, double rows, bool is_sorted,
						Cost *startup, Cost *total);

/* fdw_text.c */
extern ForeignScan *sl_fdw_plan(PlannerInfo *root, RelOptInfo *rel, Oid table,
								ForeignPath *path, List *target_list, List *clauses,
								Plan *outer_plan);

/* fdw_scan.c */
extern void sl_fdw_begin_scan(ForeignScanState *node, int eflags);
extern TupleTableSlot *sl_fdw_next(ForeignScanState *node);
extern void sl_fdw_rescan(ForeignScanState *node);
extern void sl_fdw_end_scan(ForeignScanState *node);

/* fdw_direct_plan.c */
extern bool sl_fdw_plan_direct(PlannerInfo *root, ModifyTable *plan, Index index, int subplan);

/* fdw_direct.c */
extern TupleTableSlot *sl_fdw_next_direct(ForeignScanState *node);

/* fdw_analyze.c */
extern bool sl_fdw_analyze(Relation relation, AcquireSampleRowsFunc *function,
						   BlockNumber *pages);

/* fdw_explain.c */
extern void sl_fdw_explain_scan(ForeignScanState *node, ExplainState *es);

/* fdw_handler.c */
extern List *(*sl_fdw_import_schema) (ImportForeignSchemaStmt *statement, Oid server);

#endif							/* SL_FDW_H */
