/*
 * plan.h
 *		What happens to a statement before PostgreSQL plans it.
 */
#ifndef SL_PLAN_H
#define SL_PLAN_H

/* on_conflict.c */
extern void sl_on_conflict_init(void);

#endif							/* SL_PLAN_H */
