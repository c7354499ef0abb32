/*
 * fanout.h
 *		One text to many shards, with merged results.
 */
#ifndef SL_FANOUT_H
#define SL_FANOUT_H

#include "executor/tuptable.h"

#include "remote/remote.h"
#include "txn/txn.h"

/* text.c */

/* One item of ORDER BY. */
typedef struct SlOrderItem
{
	int			column;			/* of the result, from 0; -1: see below */
	char	   *name;			/* of a result column; NULL: carried along */
	bool		is_guess;		/* the name may be a table's, and not the
								 * result's */
	int			carried;		/* which of the columns that were added */
	bool		descending;
	bool		nulls_first;
	Oid			collation;		/* of COLLATE; invalid if none is written */
} SlOrderItem;

/* LIMIT or OFFSET: a number, or a parameter. */
typedef struct SlLimit
{
	bool		is_given;
	int			param;			/* number of the parameter, or 0 */
	bool		is_used;		/* the parameter, by more than this */
	int64		value;
} SlLimit;

/* A part of the source that was copied into the text that shards get. */
typedef struct SlPiece
{
	int			source_at;
	int			sql_at;
	int			length;
} SlPiece;

typedef struct SlText
{
	const char *source;			/* as the caller wrote it */
	char	   *sql;			/* as shards get it */
	const char *command;		/* SELECT, INSERT ... */
	bool		is_write;
	bool		is_utility;		/* it may change what tables look like */
	bool		may_read;		/* rows of tables */
	bool		writes_in_with; /* WITH has an INSERT, UPDATE or DELETE */
	const char *whole;			/* why a shard's result is no part of the
								 * whole, or NULL */
	List	   *order;			/* of SlOrderItem */
	SlLimit		limit;
	SlLimit		offset;
	int			limit_param;	/* number of the parameter that was added, or
								 * 0 */
	int			carried_count;	/* columns that were added */
	List	   *pieces;			/* of SlPiece; NIL: nothing was changed */
} SlText;

extern SlText *sl_text_parse(const char *source);
extern bool sl_text_correct_guesses(SlText *query, const SlPrepared *prepared);
pg_noreturn extern void sl_text_refuse(const char *detail, const char *hint);

/* rewrite.c */
extern void sl_text_rewrite(SlText *query, int param_count);
extern char *sl_text_unordered(const SlText *query);
extern int	sl_text_position(const SlText *query, int position);

/*
 * For whom a fan-out works: the user and the (sub)transaction at the time when
 * a scan began.  Rows may be fetched later, by others and inside savepoints.
 */
typedef struct SlHome
{
	dlist_node	node;			/* in the list of those that last */
	SubTransactionId transaction;
	Oid			user;
} SlHome;

/* A running statement and how many scans of shards it has. */
typedef struct SlStatement
{
	dlist_node	node;
	EState	   *estate;
	SlReader	reader;
	int			scan_count;
	bool		repeats;		/* one of them may run again */
	bool		calls;			/* functions that may read by its snapshot */
	bool		has_begun;		/* one of them has */
	bool		writes;			/* to tables on shards */
	bool		is_unlocked;	/* rows that it changes are not locked yet */
	bool		is_warned;		/* that it goes to all shards */
	bool		stores;			/* its result becomes a table */
	MemoryContextCallback callback;
} SlStatement;

/* fanout.c */
typedef struct SlFanout SlFanout;

/* One column by which shards sort their rows. */
typedef struct SlSortKey
{
	int			column;			/* of the result, from 0 */
	Oid			operator;		/* less or greater than */
	Oid			collation;
	bool		nulls_first;
} SlSortKey;

/* What a shard had to do with a statement. */
typedef struct SlShardStat
{
	SlShard    *shard;
	int64		rows;
	int64		bytes;			/* of the values that came */
	int64		us;				/* from sending until the end */
} SlShardStat;

/* So many rows of a shard may be held in memory at once. */
#define SL_FEW_ROWS 32

typedef struct SlFanoutSpec
{
	List	   *shards;			/* of SlShard */
	SlText	   *text;			/* NULL for a text that is not looked at */
	const char *sql;			/* as shards get it */
	List	   *hidden;			/* rows that do not count; see hidden.c */
	SlParams	params;
	SlParams   *shard_params;	/* NULL, or those of each shard */
	int			own_param_count;	/* without what was added for LIMIT */
	bool		is_typed;		/* the text says of what types parameters are */
	bool		may_reroute;	/* if the shard does not own the rows: see
								 * below */
	SlHome		home;
	TupleDesc	wanted;
	int			shard_column;	/* of the wanted ones, or -1: the shard's
								 * name, or id */
	bool		merge;			/* by the text's order */
	int			sort_count;		/* or by these */
	const SlSortKey *sort_keys;
	SlShardStat *stats;			/* NULL, or one for each shard, to be added to */
	bool		has_limit;
	int64		limit;
	int64		offset;
	bool		has_few_rows;	/* no shard sends more than SL_FEW_ROWS */
	bool		skip_failures;
	SlTxnUse	use;			/* of each shard */
	bool		is_consistent;	/* snapshots of the shards must agree */
	bool		plain_values;	/* nothing depends on how shards write dates */
} SlFanoutSpec;

extern SlFanout *sl_fanout_begin(const SlFanoutSpec *spec);
extern bool sl_fanout_next(SlFanout *fanout, TupleTableSlot *slot);
extern void sl_fanout_end(SlFanout *fanout);
extern int64 sl_fanout_processed(const SlFanout *fanout);
extern const SlShard *sl_fanout_asked(const SlFanout *fanout);
extern bool sl_fanout_is_misled(const SlFanout *fanout);
pg_noreturn extern void sl_fanout_raise(const SlFanout *fanout);
extern List *sl_fanout_missing(void);
extern void sl_fanout_reset_missing(void);
extern void sl_fanout_add_missing(const SlShard *shard);

/* fanout_txn.c */
extern void sl_fanout_init(void);
extern void sl_fanout_settle(SlHome *home);
extern void sl_fanout_leave(SlHome *home);

/* shape.c */
extern void sl_shape_init(void);

/* call.c: from the arguments of query() and query_key() to a fan-out */
typedef struct SlCall
{
	bool		is_key;			/* query_key() */
	Datum	   *values;
	bool	   *nulls;
	Oid		   *types;
	int			count;
	bool		is_variadic;
	SlHome		home;
	bool		is_alone;		/* the statement is all of its transaction */
	bool		is_last;		/* and the call all of the statement */
	uint64		statement;		/* whose reads must agree, or 0 */
	const SlReader *reader;		/* the statement, or NULL */
	Snapshot	begun;			/* of the statement, if it has asked shards
								 * already */
} SlCall;

extern SlFanout *sl_call_begin(const SlCall *call, TupleDesc wanted);
extern List *sl_call_shards(const char *map_name, ArrayType *names, const SlText *query,
							List **hidden);
extern void sl_call_params(ArrayType *array, int *count, const char ***params);
extern bool sl_call_on_error_skips(const char *on_error);
extern void sl_call_ask_for_snapshots(SlFanoutSpec *spec);
extern void sl_call_check_states(List **shards, bool is_write, bool skip);

/* hidden.c: rows that do not count */
extern List *sl_hidden_hold(const char *map_name);
extern uint64 sl_hidden_stamp(List *maps);
extern List *sl_hidden_rows(List *maps, List *shards);
extern void sl_hidden_check_writable(List *maps, List *shards);
extern const char *sl_hidden_on(List *hidden, const SlShard *shard);

/* command.c */
extern void sl_command_open(SlReply *replies, int count);
extern void sl_command_run(SlReply *replies, int count, const char *sql, int param_count,
						   const char *const *params, const SlTxnUse *use);
extern void sl_command_check(const SlReply *replies, int count, const char *sql);
extern SlReply *sl_command_begin(List *shards, bool writes, int *count);
extern SlReply *sl_command_begin_as(List *shards, Oid user, bool writes, int *count);
extern void sl_command_everywhere(SlReply *replies, int count, const char *sql,
								  int param_count, const char *const *params, bool writes);

/* publish.c: telling shards what they own */
extern void sl_publish_init(void);
extern void sl_publish_all_to(SlShard *shard);
extern List *sl_publish_outdated(void);
extern bool sl_publish_copies_to(int32 shard_id, int limit_ms);
extern void sl_publish_arrival(const SlMap *map, const SlShardletRow *row, SlShard *shard);
extern void sl_publish_gone(const SlMap *map, int64 shardlet, SlShard *shard);

/* guarding.c */
extern List *sl_guarding_shards(List *shards);
extern char *sl_guarding_sql(const char *schema, const char *name, const char *map, List *key);
extern void sl_guarding_put(List *shards, const char *schema, const char *name, const char *map,
							List *key);
extern void sl_guarding_put_reference(List *shards, const char *schema, const char *name);
extern void sl_guarding_drop(List *shards, const char *schema, const char *name);

/* fanout_funcs.c */
typedef enum SlCallKind
{
	SL_CALL_OTHER,				/* not ours */
	SL_CALL_QUERY,
	SL_CALL_KEY
} SlCallKind;

extern SlCallKind sl_call_kind(Oid function);

/* scan.c */
extern void sl_scan_init(void);

/* statement.c */
extern SlStatement *sl_statement_of(EState *estate);
extern void sl_statement_add_scan(SlStatement *statement, bool may_repeat);
extern void sl_statement_begin_scan(SlStatement *statement);
extern uint64 sl_statement_of_write(const SlStatement *statement);
extern bool sl_statement_repeats(const PlannedStmt *statement, const Plan *scan);

/* copy_in.c: rows to many shards at once, through COPY */
typedef struct SlCopyIn SlCopyIn;

/* "first" is the number, from 0, of the first row put in the shard's COPY. */
typedef void (*SlCopyExplainer) (void *arg, SlShard *shard, int64 first, SlFailure *failure);

extern void sl_copy_in_init(void);
extern SlCopyIn *sl_copy_in_begin(const char *sql, bool is_binary, Oid user,
								  const SlStatement *statement);
extern void sl_copy_in_explain(SlCopyIn *copy, SlCopyExplainer explainer, void *arg);
extern void sl_copy_in_put(SlCopyIn *copy, SlShard *shard, const char *data, int length);
extern uint64 sl_copy_in_opened(const SlCopyIn *copy);
extern void sl_copy_in_flush(SlCopyIn *copy);
extern uint64 sl_copy_in_end(SlCopyIn *copy);

/* pipe.c: small statements to many shards, without waiting for each */
typedef struct SlPipe SlPipe;
typedef void (*SlPipeCloser) (void *arg, SlShard *shard);

extern void sl_pipe_init(void);
extern SlPipe *sl_pipe_begin(Oid user, const SlStatement *statement);
extern void sl_pipe_want_plain(SlPipe *pipe);
extern void sl_pipe_is_partial(SlPipe *pipe);
extern void sl_pipe_send(SlPipe *pipe, SlShard *shard, const char *sql, bool is_kept,
						 int param_count, const char *const *params);
extern void sl_pipe_expect(SlPipe *pipe, SlShard *shard, const char *sql, int param_count,
						   const char *const *params, const SlFailure *otherwise);
extern void sl_pipe_hold(SlPipe *pipe, SlShard *shard, SlPipeCloser closer, void *arg);
extern void sl_pipe_push(SlPipe *pipe);
extern PGresult *sl_pipe_ask(SlPipe *pipe, SlShard *shard, const char *sql, int param_count,
							 const char *const *params, bool binary, uint64 *rows);
extern const SlPrepared *sl_pipe_describe(SlPipe *pipe, SlShard *shard, const char *sql);
extern uint64 sl_pipe_flush(SlPipe *pipe);
extern uint64 sl_pipe_end(SlPipe *pipe);

/* copy_row.c: from a row to what COPY takes */
typedef struct SlCopyRow SlCopyRow;

extern List *sl_copy_row_columns(TupleDesc descriptor);
extern SlCopyRow *sl_copy_row_make(TupleDesc descriptor, List *columns);
extern SlCopyRow *sl_copy_row_make_text(TupleDesc descriptor, List *columns);
extern void sl_copy_row_values(SlCopyRow *row, TupleTableSlot *slot, const char **values);
extern bool sl_copy_row_is_binary(const SlCopyRow *row);
extern char *sl_copy_row_sql(const SlCopyRow *row, const char *schema, const char *table);
extern StringInfo sl_copy_row_encode(SlCopyRow *row, TupleTableSlot *slot);

#endif							/* SL_FANOUT_H */
