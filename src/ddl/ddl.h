/*
 * ddl.h
 *		DDL on distributed tables.
 */
#ifndef SL_DDL_H
#define SL_DDL_H

/* utility_hook.c */
extern void sl_ddl_init(void);

#endif							/* SL_DDL_H */
