/*
 * insert.h
 *		INSERTs that travel.
 */
#ifndef SL_INSERT_H
#define SL_INSERT_H

#include "nodes/parsenodes.h"

/* insert.c */
extern int	sl_insert_source(const Query *query);
extern Query *sl_insert_normalise(Query *query);

#endif							/* SL_INSERT_H */
