/*
 * shard_pruning.h
 *		Shard pruning: from conditions on a key to the shards that can have
 *		such rows.
 *
 * At planning, the conditions of a statement become a small program; at
 * execution, it is evaluated with the current map.
 */
#ifndef SL_SHARD_PRUNING_H
#define SL_SHARD_PRUNING_H

#include "nodes/execnodes.h"

#include "deparse/deparse.h"
#include "metadata/table.h"

/* What a node of a program does; its List begins with one of these. */
typedef enum SlPruningOp
{
	SL_PRUNE_NONE,				/* no row can match */
	SL_PRUNE_AND,				/* ... of programs */
	SL_PRUNE_OR,
	SL_PRUNE_EQUAL,				/* key column, expression */
	SL_PRUNE_ANY,				/* key column, array */
	SL_PRUNE_LESS,				/* key column, expression */
	SL_PRUNE_LESS_EQUAL,
	SL_PRUNE_GREATER_EQUAL,
	SL_PRUNE_GREATER
} SlPruningOp;

/* shard_pruning.c */
extern bool sl_pruning_is_integer(Oid type);
extern bool sl_pruning_is_usable(Oid key, Oid column, Oid type);
extern Node *sl_pruning_strip(Node *node);
extern List *sl_pruning_make(const SlShippableContext *ship, Index index, const SlTable *table,
							 List *clauses, List **expressions);
extern bool sl_pruning_is_single_shard(List *program, const SlTable *table);

/* shard_pruning_eval.c */
extern List *sl_pruning_shards(const SlTable *table, List *program, ExprContext *context,
							   List *states, List *expressions, bool writes);

extern void sl_pruning_refuse(const SlTable *table, List *program, ExprContext *context,
							  List *states, List *expressions);

#endif							/* SL_SHARD_PRUNING_H */
