/*
 * worker.h
 *		The processes in the background.
 */
#ifndef SL_WORKER_H
#define SL_WORKER_H

extern void sl_worker_init(void);

#endif							/* SL_WORKER_H */
