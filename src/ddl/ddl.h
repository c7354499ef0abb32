/*
 * ddl.h
 *		DDL on tables whose rows live on shards.
 */
#ifndef SL_DDL_H
#define SL_DDL_H

/* ddl_hook.c */
extern void sl_ddl_init(void);

#endif							/* SL_DDL_H */
