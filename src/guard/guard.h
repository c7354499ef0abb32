/*
 * guard.h
 *		What runs on shards.
 */
#ifndef SL_GUARD_H
#define SL_GUARD_H

/* use_snapshot.c */
extern void sl_use_snapshot_init(void);

#endif							/* SL_GUARD_H */
