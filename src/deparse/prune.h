/*
 * prune.h
 *		From conditions on a key to the shards that can have such rows.
 *
 * When a statement is planned, its conditions become a small program; when it
 * runs, that is evaluated with the map of that moment.
 */
#ifndef SL_PRUNE_H
#define SL_PRUNE_H

#include "nodes/execnodes.h"

#include "deparse/deparse.h"
#include "map/table.h"

/* What a node of a program does; its List begins with one of these. */
typedef enum SlPruneOp
{
	SL_PRUNE_NONE,				/* no row can be there */
	SL_PRUNE_AND,				/* ... of programs */
	SL_PRUNE_OR,
	SL_PRUNE_EQUAL,				/* key column, expression */
	SL_PRUNE_ANY,				/* key column, array */
	SL_PRUNE_LESS,				/* key column, expression */
	SL_PRUNE_LESS_EQUAL,
	SL_PRUNE_GREATER_EQUAL,
	SL_PRUNE_GREATER
} SlPruneOp;

/* prune_type.c */
extern bool sl_prune_is_integer(Oid type);
extern bool sl_prune_is_usable(Oid key, Oid column, Oid type);
extern Node *sl_prune_strip(Node *node);

/* prune.c */
extern List *sl_prune_make(const SlShip *ship, Index index, const SlTable *table,
						   List *clauses, List **expressions);
extern bool sl_prune_is_pinned(List *program, const SlTable *table);

/* prune_run.c */
extern List *sl_prune_shards(const SlTable *table, List *program, ExprContext *context,
							 List *states, List *expressions, bool writes);

extern void sl_prune_refuse(const SlTable *table, List *program, ExprContext *context,
							List *states, List *expressions);

#endif							/* SL_PRUNE_H */
