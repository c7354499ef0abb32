/*
 * move.h
 *		Moving shardlets from shard to shard.
 *
 * A move is a row of shardlet.catalog_move.  Its phase is the step that is being
 * done, written before that begins; each step can be done again.  A background
 * process of its own does them (move_worker.c), in the order of a table
 * (move_steps.c); whoever asked for the move only waits.
 */
#ifndef SL_MOVE_H
#define SL_MOVE_H

#include "datatype/timestamp.h"
#include "storage/itemptr.h"

#include "map/table.h"
#include "remote/remote.h"

typedef enum SlMoveMode
{
	SL_MOVE_ONLINE,				/* reads and writes go on */
	SL_MOVE_READ_ONLY,			/* reads go on */
	SL_MOVE_OFFLINE
} SlMoveMode;

/* The phase of one that waits for another to be over. */
#define SL_MOVE_QUEUED "queued"

/* A row of catalog_move. */
typedef struct SlMove
{
	int64		id;
	int32		map_id;
	int64		shardlet;
	int32		from_shard;
	int32		to_shard;
	SlMoveMode	mode;
	char		phase[NAMEDATALEN];
	SlState		state_before;	/* of the shardlet */
	Oid			user;			/* as whom shards are connected to */
	bool		is_open;		/* not over yet */
	bool		is_cancelled;	/* somebody wants it undone */
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
	bool		is_binary;		/* rows can travel in binary form */
	char	   *columns;		/* that are copied, a list of names */
	char	   *checksum;		/* of a row, an expression */
	char	   *incomparable;	/* a column without equality, or NULL */
	char	   *condition;		/* that a row is in the range */
	char	   *column_names;	/* all that the router knows, an array as text */
	char	   *key_names;		/* of the key, an array as text */
	bool		has_generated_key;
} SlMoveTable;

/* move_catalog.c */
extern const char *sl_move_mode_name(SlMoveMode mode);
extern SlMoveMode sl_move_mode_parse(const char *name);
extern void sl_move_make_name(SlMove *move);
extern bool sl_move_read(int64 id, SlMove *move);
extern void sl_move_insert(const SlMove *move);
extern void sl_move_update(SlMove *move);
extern List *sl_move_all_open(void);
extern bool sl_move_find_open(SlMove *move);
extern void sl_move_lock(int64 id);
extern void sl_move_lock_queue(void);
extern bool sl_move_try_own(int64 id);
extern void sl_move_disown(int64 id);

/* move_hook.c */
extern void sl_move_init(void);

/* move_tables.c */
extern char *sl_move_text_array(List *strings);
extern char *sl_move_names(List *tables);
extern List *sl_move_tables(SlMap *map, const SlShardletRow *range);
extern List *sl_move_relations(SlMap *map);

/* move_check.c: what is refused before anything happens */
extern void sl_move_check(SlMap *map, const SlShardletRow *row, SlShard *to, SlMoveMode mode,
						  bool ask_shards);
extern void sl_move_check_again(SlMap *map, const SlShardletRow *row, SlShard *to, const SlMove *move);

/* move_steps.c */
extern const char *sl_move_first_phase(void);
extern bool sl_move_is_queued(const SlMove *move);
extern bool sl_move_is_behind(const SlMove *move);
extern bool sl_move_step(int64 id);
extern int	sl_move_note_failure(int64 id, const ErrorData *error);

/* move_worker.c */
extern void sl_move_start(int64 id);
extern bool sl_move_start_queue(void);
extern void sl_move_start_open(void);

#endif							/* SL_MOVE_H */
