/*
 * move.h
 *		Moving shardlets from shard to shard.
 *
 * A move is a row of shardlet.catalog_move.  Its phase is the step that is being
 * done, written before that begins; each step can be done again.  A background
 * process of its own does them (move_worker.c), in the order of a table (steps.c);
 * the session that has called move_shardlet() only waits.
 */
#ifndef SL_MOVE_H
#define SL_MOVE_H

#include "datatype/timestamp.h"
#include "storage/itemptr.h"

#include "connection/connection.h"
#include "metadata/table.h"

typedef enum SlMoveMode
{
	SL_MOVE_ONLINE,				/* reads and writes go on */
	SL_MOVE_READ_ONLY,			/* reads go on */
	SL_MOVE_OFFLINE
} SlMoveMode;

/*
 * The phases of a move.  The catalog has their names (move_catalog.c); what each of
 * them does, and which one follows, is in steps.c.
 */
typedef enum SlMovePhase
{
	SL_MOVE_PHASE_QUEUED,		/* waits until another move has ended */

	SL_MOVE_PHASE_MARK,
	SL_MOVE_PHASE_WAIT,
	SL_MOVE_PHASE_COPY,
	SL_MOVE_PHASE_VERIFY,
	SL_MOVE_PHASE_FOLLOW,
	SL_MOVE_PHASE_SWITCH,
	SL_MOVE_PHASE_DETACH,
	SL_MOVE_PHASE_SETTLE,
	SL_MOVE_PHASE_REMOVE,
	SL_MOVE_PHASE_FINISH,

	/* The way back. */
	SL_MOVE_PHASE_UNDO,
	SL_MOVE_PHASE_UNDO_REMOVE,
	SL_MOVE_PHASE_UNDO_FINISH,

	/* The shardlet was dropped while it was being moved. */
	SL_MOVE_PHASE_LOST,
	SL_MOVE_PHASE_LOST_FINISH,

	/* It is over. */
	SL_MOVE_PHASE_DONE,
	SL_MOVE_PHASE_FAILED,
	SL_MOVE_PHASE_CANCELLED
} SlMovePhase;

/* A row of catalog_move. */
typedef struct SlMove
{
	int64		id;
	int32		map_id;
	int64		shardlet;
	int32		from_shard;
	int32		to_shard;
	SlMoveMode	mode;
	SlMovePhase phase;
	SlState		state_before;	/* of the shardlet */
	Oid			user;			/* the user of connections to shards */
	bool		is_open;		/* not over yet */
	bool		is_cancelled;	/* cancel_move() was called */
	int32		table_count;
	int32		tables_done;
	int64		rows_done;
	int64		rows_estimated;
	int64		bytes_done;
	int64		bytes_estimated;
	int64		lag;			/* bytes; -1: not known */
	int32		attempts;		/* of this phase that failed */
	TimestampTz started;
	TimestampTz changed;
	char	   *last_error;		/* or NULL */
	bool		has_begun;		/* to copy; the next says what */
	List	   *relations;		/* OIDs of the tables that were copied */
	char		name[NAMEDATALEN];	/* of everything that it makes on shards */
	int32		parallel;		/* so many that leave the shard run at a time;
								 * 0: it was not queued */
	ItemPointerData tid;
} SlMove;

/* One table of the map that is moved. */
typedef struct SlMoveTable
{
	Oid			relid;			/* on the router */
	char	   *schema;
	char	   *label;			/* its name */
	char	   *name;			/* both, quoted */
	bool		is_binary;		/* rows can be copied in binary format */
	char	   *columns;		/* that are copied, a list of names */
	char	   *checksum;		/* of a row, an expression */
	char	   *incomparable;	/* a column without equality, or NULL */
	char	   *condition;		/* that a row is in the range */
	char	   *column_names;	/* all that the router knows, an array literal */
	char	   *key_names;		/* of the key, an array literal */
	bool		has_generated_key;
} SlMoveTable;

/* move_shardlet.c: what procedures that move something have in common */
extern void sl_move_begin_call(FunctionCallInfo fcinfo, const char *name);
extern void sl_move_end_call(void);
extern int64 sl_move_record(int64 shardlet, const char *shard_name, SlMoveMode mode, int parallel);
extern void sl_move_wait_for_end(int64 id);
extern int	sl_move_arg_parallel(FunctionCallInfo fcinfo, int argument);
extern int64 *sl_move_remember(int64 id);
extern void sl_move_run_queue(List *moves, int parallel, bool waits);

/* move_catalog.c */
extern SlMoveMode sl_move_mode_parse(const char *name);
extern const char *sl_move_phase_name(SlMovePhase phase);
extern void sl_move_make_name(SlMove *move);
extern bool sl_move_read(int64 id, SlMove *move);
extern void sl_move_insert(const SlMove *move);
extern void sl_move_update(SlMove *move);
extern List *sl_move_list_open(void);
extern bool sl_move_find_open(SlMove *move);
extern void sl_move_lock(int64 id);
extern void sl_move_lock_queue(void);
extern bool sl_move_try_own(int64 id);
extern void sl_move_disown(int64 id);
extern void sl_move_interrupt(int64 id);

/* drop_extension_hook.c */
extern void sl_move_init(void);

/* map_tables.c */
extern char *sl_move_form_table_names(List *tables);
extern List *sl_move_list_tables(SlMap *map, const SlShardletRow *range);
extern List *sl_move_list_relations(SlMap *map);

/* preconditions.c: what is refused before anything happens */
extern void sl_move_check_preconditions(SlMap *map, const SlShardletRow *row, SlShard *to, SlMoveMode mode,
										bool query_shards);
extern void sl_move_recheck_preconditions(SlMap *map, const SlShardletRow *row, SlShard *to, const SlMove *move);

/* steps.c */
extern bool sl_move_is_past_undo(const SlMove *move);
extern bool sl_move_run_step(int64 id);
extern int	sl_move_note_failure(int64 id, const ErrorData *error);

/* move_worker.c */
extern void sl_move_start_worker(int64 id);
extern bool sl_move_start_queue_worker(void);
extern void sl_move_start_workers(void);

#endif							/* SL_MOVE_H */
