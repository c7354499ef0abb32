/*
 * reference.h
 *		Reference tables: plain tables of the router with a copy on every shard.
 */
#ifndef SL_REFERENCE_H
#define SL_REFERENCE_H

#include "table/table_area.h"

/* reference.c */
extern List *sl_reference_all(void);
extern bool sl_reference_is(Oid relid);
extern void sl_reference_undo(Oid relid, bool drops_copies);

/* reference_attach.c */
extern Oid	sl_reference_attach(const char *schema, const char *name, bool verify);

/* reference_shard.c: called by sl_shard_catch_up */
extern void sl_reference_init(void);

#endif							/* SL_REFERENCE_H */
