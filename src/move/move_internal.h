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
	TimestampTz timed;			/* when a part of the step was last told of */
} SlMover;

/* Connections that run statements, one at a time on each; see move_crew.c. */
typedef struct SlMoveCrew
{
	SlMover    *mover;
	SlConn	  **conns;
	int			count;
	char	   *(*next) (struct SlMoveCrew *crew, int index);	/* NULL: none is left */
	void		(*take) (struct SlMoveCrew *crew, int index, const PGresult *row);
} SlMoveCrew;

/* move_steps.c */
extern void sl_move_begin(SlMover *mover);
extern void sl_move_tell_time(SlMover *mover, const char *what);
extern void sl_move_look_up(SlMover *mover);
extern void sl_move_progress(SlMover *mover, const SlMoveProgress *progress);
extern void sl_move_show_lag(SlMover *mover, int64 lag);

/* move_check.c */
extern void sl_move_check_guards(SlConn *conn, List *tables);
extern void sl_move_check_columns(SlConn *conn, List *tables);

/* move_crew.c */
extern void sl_move_crew_run(SlMoveCrew *crew);
extern bool sl_move_listen(SlConn *conn, PGresult **row, SlFailure **first_failure);

/* move_do.c: what the steps do */
extern SlConn *sl_move_connect(SlShard *shard);
extern SlConn *sl_move_connect_for_rows(SlShard *shard);
extern void sl_move_do_mark(SlMover *mover);
extern void sl_move_do_wait(SlMover *mover);
extern void sl_move_do_copy(SlMover *mover);
extern void sl_move_do_verify(SlMover *mover);
extern void sl_move_do_follow(SlMover *mover);
extern void sl_move_do_switch(SlMover *mover);
extern void sl_move_do_detach(SlMover *mover);
extern void sl_move_do_settle(SlMover *mover);
extern void sl_move_do_remove(SlMover *mover);
extern void sl_move_do_finish(SlMover *mover);
extern void sl_move_do_undo(SlMover *mover);
extern void sl_move_do_undo_remove(SlMover *mover);
extern void sl_move_do_lost(SlMover *mover);
extern void sl_move_do_lost_finish(SlMover *mover);

/* move_copy.c */
extern void sl_move_copy(SlMover *mover, SlConn **sources, SlConn **targets, int count,
						 SlMoveProgress *progress);

/* move_verify.c */
extern void sl_move_verify(SlMover *mover, SlConn **sources, SlConn **targets, int count);

/* move_stream.c */
extern void sl_move_publish(SlMover *mover, SlConn *source, SlConn *target);
extern char *sl_move_make_slot(SlMover *mover, SlConn *source, SlConn **walsender);
extern void sl_move_subscribe(SlMover *mover, SlConn *source, SlConn *target);
extern void sl_move_follow(SlMover *mover, SlConn *source, SlConn *target);
extern bool sl_move_pass_marker(SlMover *mover, SlConn *source, SlConn *target, int limit_ms);
extern bool sl_move_make_pause(SlMover *mover, SlConn *holder, SlConn *source, SlConn *target);
extern void sl_move_unpublish(SlMover *mover, SlConn *source);
extern void sl_move_unsubscribe(SlMover *mover, SlConn *target);

/* move_wait.c */
extern MemoryContext sl_move_short_context(void);
extern void sl_move_nap(SlMover *mover, int milliseconds);
extern void sl_move_pause(SlMover *mover, TimestampTz since, const char *what);
extern void sl_move_exec(SlMover *mover, SlConn *conn, const char *sql);
extern void sl_move_wait_for_users(SlMover *mover);
extern void sl_move_wait_for_snapshots(SlMover *mover);
extern void sl_move_wait_for_writers(SlMover *mover, SlConn *conn);

/* move_empty.c */
extern bool sl_move_empty(SlMover *mover, SlShard *shard, SlConn **conns, int count);

/* move_remove.c */
extern void sl_move_remove(SlMover *mover, SlShard *shard);

#endif							/* SL_MOVE_INTERNAL_H */
