/*
 * where.h
 *		Where the rows are that a statement needs.
 *
 * Looks at a query as the planner gets it, after the rewriter and before any
 * planning, and says whether one shard, or each for itself, could answer it.
 */
#ifndef SL_WHERE_H
#define SL_WHERE_H

#include "nodes/parsenodes.h"

#include "deparse/prune.h"

typedef enum SlWhereKind
{
	SL_WHERE_ANY,				/* no tables, or reference tables only: any
								 * shard would answer the same */
	SL_WHERE_ONE,				/* all on one shard: pinned to one key, or
								 * placed */
	SL_WHERE_SHARDS,			/* each shard has a part of the result, and
								 * all parts together are the result */
	SL_WHERE_ROUTER				/* the shards cannot answer it by themselves */
} SlWhereKind;

typedef struct SlWhere
{
	SlWhereKind kind;
	List	   *tables;			/* SlTables of all relations in it, each once */
	SlTable    *table;			/* a sharded or placed one; ONE and SHARDS */
	List	   *programs;		/* (Integer relid, program), see prune.h */
	List	   *expressions;	/* that the programs refer to by number */
	List	   *columns;		/* SHARDS: IntList, for each key column the
								 * number of an output column that is equal to
								 * it; NIL: not all are among the output */
} SlWhere;

/* where.c */
extern SlWhere *sl_where_find(Query *query);
extern SlWhere *sl_where_find_from(Query *query);

/* Private to these files ------------------------------------------------------- */

/* That two expressions are equal, for all rows of some relations that matter. */
typedef struct SlEquality
{
	Node	   *left;
	Node	   *right;
	Bitmapset  *filtered;		/* relations whose other rows do not matter */
} SlEquality;

/* A query, and the one that it is in. */
typedef struct SlLevel
{
	const struct SlLevel *outer;
	Query	   *query;
	Bitmapset  *joined;			/* relations that are read: those in FROM */
	int			depth;
} SlLevel;

/* where_level.c */
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

/* The key that everything must be on: what its columns are known to equal. */
typedef struct SlPin
{
	SlTable    *table;			/* sharded or placed */
	List	   *known[SL_MAX_KEYS]; /* expressions of the level outside */
	int			depth;			/* of the query that is looked at */
} SlPin;

/* where_pin.c */
extern bool sl_pin_has_generated_key(const SlTable *table);
extern bool sl_pin_has_triggers(const SlTable *table);
extern bool sl_pin_query(const SlPin *pin, const SlLevel *outer, Query *query);
extern List *sl_pin_compared(const SlLevel *level, const SubLink *link);
extern List *sl_pin_constants(Query *query, const SlTable *table);
extern bool sl_pin_find(Query *query, SlPin *pin);

/* A relation whose rows are divided by a key that is among its columns. */
typedef struct SlUnit
{
	Index		index;
	int			key_count;
	AttrNumber	key[SL_MAX_KEYS];
	bool		is_nullable;
} SlUnit;

/* What is known of a relation, or of a query as a whole. */
typedef struct SlDivided
{
	bool		is_divided;
	bool		has_key;
	AttrNumber	key[SL_MAX_KEYS];
	List	   *units;			/* of a query: those in its FROM */
} SlDivided;

/* where_divide.c */
extern bool sl_divide_statement(Query *query, SlTable **table, SlDivided *result);
extern bool sl_divide_from(Query *query, SlTable **table, SlDivided *result);

#endif							/* SL_WHERE_H */
