/*
 * move_internal.h
 *		What the files that do a move share.
 */
#ifndef SL_MOVE_INTERNAL_H
#define SL_MOVE_INTERNAL_H

#include "move/move.h"

/* How far rows were copied. */
typedef struct SlMoveProgress
{
	int64		rows;
	int64		bytes;
	int			tables;			/* that are complete */
} SlMoveProgress;

/* A step of a move while it is done; in a memory context of its own. */
typedef struct SlMover
{
	SlMove		move;			/* as it was when the step began */
	SlMap	   *map;
	SlShardletRow range;		/* the shardlet, as it was then */
	SlShard    *from;
	SlShard    *to;
	List	   *tables;			/* of SlMoveTable */
	bool		may_stop;		/* a cancel ends the step */
	MemoryContext context;
	TimestampTz looked_up;
} SlMover;

/* move_steps.c */
extern void sl_move_begin(SlMover *mover);
extern void sl_move_look_up(SlMover *mover);
extern void sl_move_progress(SlMover *mover, const SlMoveProgress *progress);

/* move_do.c: what the steps do */
extern void sl_move_do_mark(SlMover *mover);
extern void sl_move_do_wait(SlMover *mover);
extern void sl_move_do_copy(SlMover *mover);
extern void sl_move_do_verify(SlMover *mover);
extern void sl_move_do_switch(SlMover *mover);
extern void sl_move_do_settle(SlMover *mover);
extern void sl_move_do_remove(SlMover *mover);
extern void sl_move_do_finish(SlMover *mover);
extern void sl_move_do_undo(SlMover *mover);
extern void sl_move_do_undo_remove(SlMover *mover);

/* move_copy.c */
extern void sl_move_copy(SlMover *mover, SlConn **sources, SlConn **targets, int count,
						 SlMoveProgress *progress);

/* move_verify.c */
extern void sl_move_verify(SlConn *source, SlConn *target, List *tables);

/* move_wait.c */
extern void sl_move_pause(SlMover *mover, TimestampTz since, const char *what);
extern void sl_move_wait_for_users(SlMover *mover);
extern void sl_move_wait_for_writers(SlMover *mover, SlConn *conn);

/* move_remove.c */
extern void sl_move_remove(SlMover *mover, SlConn *conn);

#endif							/* SL_MOVE_INTERNAL_H */
