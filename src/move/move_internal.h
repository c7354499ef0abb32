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
	List	   *conns;			/* of the step */
	TimestampTz looked_up;
	TimestampTz timed;			/* when a part of the step was last logged */
} SlMover;

/* Connections that run statements, one at a time on each; see parallel_statements.c. */
typedef struct SlConnectionSet
{
	SlMover    *mover;
	SlConn	  **conns;
	int			count;
	char	   *(*next) (struct SlConnectionSet *set, int index);	/* NULL: none is left */
	void		(*take) (struct SlConnectionSet *set, int index, const PGresult *row);
} SlConnectionSet;

/* steps.c */
extern void sl_move_begin_transaction(SlMover *mover);
extern void sl_move_log_time(SlMover *mover, const char *what);
extern void sl_move_check_cancelled(SlMover *mover);
extern void sl_move_report_progress(SlMover *mover, const SlMoveProgress *progress);
extern void sl_move_report_lag(SlMover *mover, int64 lag);

/* preconditions.c */
extern void sl_move_check_guards(SlConn *conn, List *tables);
extern void sl_move_check_columns(SlConn *conn, List *tables);
extern void sl_move_check_exposed(SlConn *conn, const SlShard *shard, List *tables, SlMoveMode mode);

/* parallel_statements.c */
extern void sl_move_run_statements(SlConnectionSet *set);
extern bool sl_move_read_result(SlConn *conn, PGresult **row, SlFailure **first_failure);

/* move_connect.c */
extern SlConn *sl_move_connect(SlMover *mover, SlShard *shard);
extern SlConn *sl_move_connect_for_rows(SlMover *mover, SlShard *shard);
extern char *sl_move_as_owner(const SlShard *shard, const SlMoveTable *table, char *command);
extern void sl_move_disconnect(SlMover *mover, SlConn *conn);
extern void sl_move_cancel_connections(SlMover *mover);

/* step_actions.c: what the steps do */
extern void sl_move_do_mark(SlMover *mover);
extern void sl_move_do_wait(SlMover *mover);
extern void sl_move_do_copy(SlMover *mover);
extern void sl_move_do_verify(SlMover *mover);
extern void sl_move_do_follow(SlMover *mover);
extern void sl_move_do_switch(SlMover *mover);
extern void sl_move_do_detach(SlMover *mover);
extern void sl_move_do_wait_readers(SlMover *mover);
extern void sl_move_do_remove(SlMover *mover);
extern void sl_move_do_finish(SlMover *mover);
extern void sl_move_do_undo(SlMover *mover);
extern void sl_move_do_undo_remove(SlMover *mover);
extern void sl_move_do_lost(SlMover *mover);
extern void sl_move_do_lost_finish(SlMover *mover);

/* copy_shardlet.c */
extern void sl_move_copy_rows(SlMover *mover, SlConn **sources, SlConn **targets, int count, SlConn *observer,
							  SlMoveProgress *progress);

/* verify.c */
extern void sl_move_compare_rows(SlMover *mover, SlConn **sources, SlConn **targets, int count);

/* logical_replication.c */
extern void sl_move_create_publication(SlMover *mover, SlConn *source, SlConn *target);
extern char *sl_move_create_slot(SlMover *mover, SlConn *source, SlConn **walsender);
extern void sl_move_create_subscription(SlMover *mover, SlConn *source, SlConn *target);
extern void sl_move_enable_subscription(SlMover *mover, SlConn *target);
extern void sl_move_check_slot(SlMover *mover, SlConn *source);
extern void sl_move_apply_changes(SlMover *mover, SlConn *source, SlConn *target);
extern bool sl_move_pass_marker(SlMover *mover, SlConn *source, SlConn *target, int limit_ms);
extern bool sl_move_hold_writers(SlMover *mover, SlConn *holder, SlConn *source, SlConn *target);
extern void sl_move_drop_publication(SlMover *mover, SlConn *source);
extern void sl_move_drop_subscription(SlMover *mover, SlConn *target);

/* wait_old_snapshots.c */
extern MemoryContext sl_move_create_short_context(void);
extern void sl_move_nap(SlMover *mover, int milliseconds);
extern void sl_move_pause(SlMover *mover, TimestampTz since, const char *what);
extern void sl_move_check_wait_timeout(TimestampTz since, const char *what);
extern void sl_move_exec(SlMover *mover, SlConn *conn, const char *sql);
extern void sl_move_exec_quietly(SlMover *mover, SlConn *conn, const char *sql);
extern void sl_move_wait_for_users(SlMover *mover);
extern void sl_move_wait_for_snapshots(SlMover *mover);
extern void sl_move_wait_for_writers(SlMover *mover, SlConn *conn);

/* truncate_source.c */
extern bool sl_move_truncate_tables(SlMover *mover, SlShard *shard, SlConn **conns, int count);

/* delete_rows.c */
extern void sl_move_delete_rows(SlMover *mover, SlShard *shard);

#endif							/* SL_MOVE_INTERNAL_H */
