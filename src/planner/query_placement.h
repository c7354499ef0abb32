/*
 * query_placement.h
 *		Placement analysis: on which shards are the rows that a statement
 *		needs?
 *
 * Takes a query as the planner gets it, after the rewriter and before any
 * planning, and says whether it can be pushed down to one shard, or to all
 * shards.
 */
#ifndef SL_QUERY_PLACEMENT_H
#define SL_QUERY_PLACEMENT_H

#include "nodes/parsenodes.h"

#include "deparse/shard_pruning.h"

typedef enum SlPlacementKind
{
	SL_PLACEMENT_SINGLE_SHARD,	/* a single-shard query: all rows have one
								 * key, or are of placed tables */
	SL_PLACEMENT_ALL_SHARDS,	/* can be pushed down to all shards; the
								 * results together are the result */
	SL_PLACEMENT_ROUTER			/* cannot be pushed down as a whole */
} SlPlacementKind;

typedef struct SlPlacement
{
	SlPlacementKind kind;
	List	   *tables;			/* SlTables of all relations in it, without
								 * duplicates */
	SlTable    *table;			/* a sharded or placed one; of SINGLE_SHARD
								 * and ALL_SHARDS */
	List	   *programs;		/* (Integer relid, program), see
								 * shard_pruning.h */
	List	   *expressions;	/* that the programs refer to by number */
	List	   *columns;		/* ALL_SHARDS: IntList, for each key column
								 * the number of an output column that is
								 * equal to it; NIL: not all are among the
								 * output */
} SlPlacement;

/* query_placement.c */
extern SlPlacement *sl_placement_analyze(Query *query);

/* Private to these files ------------------------------------------------------- */

/*
 * Two expressions are equal, for all rows of some relations that can be in the
 * result.
 */
typedef struct SlEquality
{
	Node	   *left;
	Node	   *right;
	Bitmapset  *filtered;		/* relations that it filters */
} SlEquality;

/* A query level and its parent. */
typedef struct SlLevel
{
	const struct SlLevel *outer;
	Query	   *query;
	Bitmapset  *joined;			/* relations that are read: those in FROM */
	int			depth;
} SlLevel;

/* query_level.c */
extern bool sl_level_begin(SlLevel *level, const SlLevel *outer, Query *query);
extern Node *sl_level_resolve(const SlLevel *level, Node *node);
extern bool sl_level_is_same(const Node *a, const Node *b);
extern bool sl_level_is_known(const SlLevel *level, List *known, Node *node);
extern bool sl_level_is_constant(Node *node);
extern List *sl_level_add_equalities(const SlLevel *level, List *equalities, Node *quals,
									 Bitmapset *filtered);
extern bool sl_level_may_stop(const Query *query);
extern List *sl_level_equalities(const SlLevel *level);
extern Bitmapset *sl_level_joined(const Node *tree);
extern List *sl_level_raise(List *known, int levels);
extern bool sl_level_can_push(const Query *query);
extern SlTable *sl_level_table(const RangeTblEntry *entry);
extern CommonTableExpr *sl_level_with(const SlLevel *level, const RangeTblEntry *entry,
									  const SlLevel **at);
extern Node *sl_level_output(const SlLevel *level, int number);

/*
 * The key of a single-shard query: the expressions that each key column
 * equals.
 */
typedef struct SlShardKey
{
	SlTable    *table;			/* sharded or placed */
	List	   *known[SL_MAX_KEYS]; /* expressions of the outer query level */
	int			depth;			/* the query level */
} SlShardKey;

/* single_shard.c */
extern bool sl_single_shard_has_generated_key(const SlTable *table);
extern bool sl_single_shard_is_usable(const SlTable *table, int key, Node *value);
extern bool sl_single_shard_is_checked(const Query *query, const SlTable *table);
extern bool sl_single_shard_match_query(const SlShardKey *key, const SlLevel *outer, Query *query);
extern List *sl_single_shard_compared(const SlLevel *level, const SubLink *link);
extern List *sl_single_shard_constants(Query *query, const SlTable *table);
extern bool sl_single_shard_find_key(Query *query, SlShardKey *key);

/* merge_placement.c */
extern Query *sl_merge_join_target(Query *query);
extern bool sl_merge_find_key(Query *query, SlShardKey *key);
extern bool sl_merge_keeps_key(const SlLevel *level, const SlShardKey *key, const SlTable *target);
extern bool sl_merge_changes_key(const MergeAction *action, const SlTable *target);
extern Query *sl_merge_make_insert(const Query *query, const MergeAction *action);

/* A relation whose shard key is among its columns. */
typedef struct SlUnit
{
	Index		index;
	int			key_count;
	AttrNumber	key[SL_MAX_KEYS];
	bool		is_nullable;
} SlUnit;

/* What is known of a relation, or of a query as a whole. */
typedef struct SlColocated
{
	bool		is_colocated;
	bool		has_key;
	AttrNumber	key[SL_MAX_KEYS];
	List	   *units;			/* of a query: those in its FROM */
} SlColocated;

/* colocation.c */
extern bool sl_colocation_check_statement(Query *query, SlTable **table, SlColocated *result);

#endif							/* SL_QUERY_PLACEMENT_H */
