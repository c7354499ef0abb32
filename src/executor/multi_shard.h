/*
 * multi_shard.h
 *		Queries of many shards with merged results, and what else the executor
 *		offers to other folders.
 */
#ifndef SL_MULTI_SHARD_H
#define SL_MULTI_SHARD_H

#include "executor/tuptable.h"

#include "connection/connection.h"
#include "transaction/transaction.h"

/* query_string.c */

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

/* A piece of the source that was copied into the SQL that shards get. */
typedef struct SlPiece
{
	int			source_at;
	int			sql_at;
	int			length;
} SlPiece;

typedef struct SlQueryString
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
} SlQueryString;

extern SlQueryString *sl_query_string_parse(const char *source);
extern bool sl_query_string_correct_order(SlQueryString *query, const SlPrepared *prepared);
pg_noreturn extern void sl_query_string_refuse(const char *detail, const char *hint);

/* query_string_rewrite.c */
extern void sl_query_string_rewrite(SlQueryString *query, int param_count);
extern char *sl_query_string_unordered(const SlQueryString *query);
extern int	sl_query_string_position(const SlQueryString *query, int position);

/*
 * The user and the (sub)transaction that a scan began for.  Rows may be fetched
 * later, under another user and inside savepoints.
 */
typedef struct SlCaller
{
	dlist_node	node;			/* in the list of those that last */
	SubTransactionId transaction;
	Oid			user;
} SlCaller;

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
	int			writer_count;	/* parts of it that do so */
	bool		is_unlocked;	/* rows that it changes are not locked yet */
	bool		has_locked;		/* some of them are */
	bool		locks_later;	/* than its snapshot may have been taken */
	HTAB	   *changed;		/* such rows, once they are changed; or NULL */
	bool		is_warned;		/* that it goes to all shards */
	bool		stores;			/* its result becomes a table */
	bool		has_snapshots;	/* of its shards, taken with the router's */
	List	   *scans;			/* of SlRemoteScan */
	bool		has_other_scans;	/* whose shards are not known yet */
	MemoryContextCallback callback;
} SlStatement;

/* multi_shard.c */
typedef struct SlMultiShardScan SlMultiShardScan;

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

/* How many rows of a shard may be held in memory at once. */
#define SL_FEW_ROWS 32

typedef struct SlMultiShardSpec
{
	List	   *shards;			/* of SlShard */
	SlQueryString *query;		/* NULL: generated SQL, which is not parsed */
	const char *sql;			/* as shards get it */
	List	   *orphaned;		/* rows that shards leave out; see
								 * query_orphaned_rows.c */
	SlParams	params;
	SlParams   *shard_params;	/* NULL, or those of each shard */
	int			own_param_count;	/* without what was added for LIMIT */
	bool		is_typed;		/* the SQL has the types of its parameters */
	bool		may_retry_on_owner; /* if the shard does not own the rows: see
									 * below */
	Oid			table;			/* that it writes to or locks rows of;
								 * invalid: not known */
	SlCaller	caller;
	TupleDesc	wanted;
	int			shard_column;	/* of the wanted ones, or -1: the shard's
								 * name, or id */
	bool		merge;			/* by the order of the query */
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
	bool		may_restart;	/* the caller repeats it if it has to: see
								 * sl_multi_shard_is_outdated() */
	List	   *agreeing;		/* shards that the whole statement may query,
								 * if it must have one snapshot; NIL: all */
	bool		plain_values;	/* nothing depends on how shards write dates */
} SlMultiShardSpec;

extern SlMultiShardScan *sl_multi_shard_begin(const SlMultiShardSpec *spec);
extern bool sl_multi_shard_next(SlMultiShardScan *scan, TupleTableSlot *slot);
extern void sl_multi_shard_end(SlMultiShardScan *scan);
extern int64 sl_multi_shard_processed(const SlMultiShardScan *scan);
extern const SlShard *sl_multi_shard_count(const SlMultiShardScan *scan);
extern const SlShard *sl_multi_shard_row_shard(const SlMultiShardScan *scan);
extern bool sl_multi_shard_is_misrouted(const SlMultiShardScan *scan);
extern bool sl_multi_shard_is_outdated(const SlMultiShardScan *scan);
pg_noreturn extern void sl_multi_shard_raise(const SlMultiShardScan *scan);

/* missing_shards.c */
extern List *sl_missing_shards(void);
extern void sl_missing_shards_reset(void);
extern void sl_missing_shards_add(const SlShard *shard);
extern void sl_missing_shards_check(List **shards, bool is_write, bool skip);

/* consistent_read.c */
extern void sl_consistent_choose(SlMultiShardSpec *spec);

/* subtransactions.c */
extern void sl_multi_shard_init(void);
extern void sl_multi_shard_set_caller(SlCaller *caller);
extern void sl_multi_shard_leave(SlCaller *caller);

/* foreign_key_user.c */
extern Oid	sl_foreign_key_user(const EState *estate, Oid user);

/* row_decoder_cache.c */
extern void sl_decoder_cache_init(void);

/* query_call.c: from the arguments of query() and query_key() to a scan */
typedef struct SlCall
{
	bool		is_key;			/* query_key() */
	Datum	   *values;
	bool	   *nulls;
	Oid		   *types;
	int			count;
	bool		is_variadic;
	SlCaller	caller;
	SlTxnScope	scope;			/* of the statement, as far as reads go */
	bool		is_last;		/* the call is all of the statement */
	bool		may_restart;	/* see SlMultiShardSpec */
	uint64		statement;		/* whose reads must agree, or 0 */
	const SlReader *reader;		/* the statement, or NULL */
	Snapshot	begun;			/* of the statement, if it has queried shards
								 * already */
} SlCall;

extern SlMultiShardScan *sl_query_call_begin(const SlCall *call, TupleDesc wanted);
extern List *sl_query_call_shards(const char *map_name, ArrayType *names, const SlQueryString *query,
								  List **orphaned);
extern void sl_query_call_params(ArrayType *array, int *count, const char ***params);
extern bool sl_query_call_on_error_skips(const char *on_error);

/* router_snapshot.c */
extern void sl_router_snapshot_init(void);
extern List *sl_statement_shards(const SlStatement *statement);

/* query_orphaned_rows.c */
extern List *sl_query_orphaned_hold(const char *map_name);
extern uint64 sl_query_orphaned_stamp(List *maps);
extern List *sl_query_orphaned_rows(List *maps, List *shards);
extern void sl_query_orphaned_check_writable(List *maps, List *shards);
extern const char *sl_query_orphaned_on(List *orphaned, const SlShard *shard);

/* shard_commands.c */
extern void sl_command_open(SlReply *replies, int count);
extern void sl_command_run(SlReply *replies, int count, const char *sql, int param_count,
						   const char *const *params, const SlTxnUse *use);
extern void sl_command_settle(SlReply *reply);
extern void sl_command_check(const SlReply *replies, int count, const char *sql);
extern SlReply *sl_command_begin(List *shards, bool writes, int *count);
extern SlReply *sl_command_begin_as(List *shards, Oid user, bool writes, int *count);
extern void sl_command_everywhere(SlReply *replies, int count, const char *sql,
								  int param_count, const char *const *params, bool writes);

/* publish_metadata.c: sends shards what they own */
extern void sl_publish_init(void);
extern void sl_publish_all_to(SlShard *shard);
extern void sl_publish_claim(SlShard *shard, bool takeover);
extern void sl_publish_map_to(SlShard *shard, int32 map_id);
extern void sl_publish_forget(SlShard *shard, const char *map, const char *router);
extern void sl_publish_forget_others(SlShard *shard);
extern void sl_publish_adopt(SlShard *shard, const char *map, const char *router);
extern List *sl_publish_outdated(void);
extern bool sl_publish_copies_to(int32 shard_id, int limit_ms);
extern void sl_publish_arrival(const SlMap *map, const SlShardletRow *row, SlShard *shard);
extern void sl_publish_gone(const SlMap *map, int64 shardlet, SlShard *shard);

/* guard_trigger.c */
extern List *sl_guard_trigger_shards(List *shards);
extern char *sl_guard_trigger_sql(const char *schema, const char *name, const char *map, List *key);
extern void sl_guard_trigger_create(List *shards, const char *schema, const char *name, const char *map,
									List *key);
extern void sl_guard_trigger_create_reference(List *shards, const char *schema, const char *name);
extern void sl_guard_trigger_drop(List *shards, const char *schema, const char *name);

/* query_funcs.c */
typedef enum SlCallKind
{
	SL_CALL_OTHER,				/* no function of shardlet */
	SL_CALL_QUERY,
	SL_CALL_KEY
} SlCallKind;

extern SlCallKind sl_query_call_kind(Oid function);

/* query_scan.c */
extern void sl_scan_init(void);

/* The plan node that writes rows of distributed tables, in EXPLAIN. */
#define SL_MODIFY_NODE "Shardlet Modify"

/* router_statement.c */
extern SlStatement *sl_statement_of(EState *estate);
extern SlStatement *sl_statement_find(const EState *estate);
extern void sl_statement_add_scan(SlStatement *statement, bool may_repeat);
extern void sl_statement_begin_scan(SlStatement *statement);
extern void sl_statement_add_writer(SlStatement *statement);
extern bool sl_statement_writes_by_snapshot(const SlStatement *statement);
extern uint64 sl_statement_of_write(const SlStatement *statement);
pg_noreturn extern void sl_statement_refuse_moved_rows(void);
extern const ModifyTable *sl_statement_get_modify(const Plan *plan);
extern bool sl_statement_repeats(const PlannedStmt *statement, const Plan *scan);

/* shard_queue.c */
extern void sl_shard_queue_init(void);

/* copy_to_shards.c: rows to many shards at once, through COPY */
typedef struct SlCopyToShards SlCopyToShards;

/* "first" is the number, from 0, of the first row put in the shard's COPY. */
typedef void (*SlCopyExplainer) (void *arg, SlShard *shard, int64 first, SlFailure *failure);

extern SlCopyToShards *sl_copy_to_shards_begin(const char *sql, bool is_binary, Oid user,
											   const SlStatement *statement);
extern void sl_copy_to_shards_explain(SlCopyToShards *copy, SlCopyExplainer explainer, void *arg);
extern void sl_copy_to_shards_put(SlCopyToShards *copy, SlShard *shard, const char *data, int length);
extern uint64 sl_copy_to_shards_opened(const SlCopyToShards *copy);
extern uint64 sl_copy_to_shards_end(SlCopyToShards *copy);

/* statement_pipeline.c: small statements to many shards, without waiting for each */
typedef struct SlStatementPipeline SlStatementPipeline;
typedef void (*SlPipelineCloser) (void *arg, SlShard *shard);

extern SlStatementPipeline *sl_statement_pipeline_begin(Oid user, const SlStatement *statement);
extern void sl_statement_pipeline_want_plain(SlStatementPipeline *pipe);
extern void sl_statement_pipeline_is_partial(SlStatementPipeline *pipe);
extern void sl_statement_pipeline_send(SlStatementPipeline *pipe, SlShard *shard, const char *sql, bool is_kept,
									   int param_count, const char *const *params);
extern void sl_statement_pipeline_expect(SlStatementPipeline *pipe, SlShard *shard, const char *sql, int param_count,
										 const char *const *params, const SlFailure *otherwise);
extern void sl_statement_pipeline_hold(SlStatementPipeline *pipe, SlShard *shard, SlPipelineCloser closer, void *arg);
extern PGresult *sl_statement_pipeline_run(SlStatementPipeline *pipe, SlShard *shard, const char *sql, int param_count,
										   const char *const *params, bool binary, uint64 *rows);
extern const SlPrepared *sl_statement_pipeline_describe(SlStatementPipeline *pipe, SlShard *shard, const char *sql);
extern SlConn *sl_statement_pipeline_conn(SlStatementPipeline *pipe, SlShard *shard);
extern uint64 sl_statement_pipeline_flush(SlStatementPipeline *pipe);

/* copy_row.c: from a row to what COPY takes */
typedef struct SlCopyRow SlCopyRow;

extern List *sl_copy_row_columns(TupleDesc descriptor);
extern SlCopyRow *sl_copy_row_make(TupleDesc descriptor, List *columns);
extern SlCopyRow *sl_copy_row_make_text(TupleDesc descriptor, List *columns);
extern void sl_copy_row_values(SlCopyRow *row, TupleTableSlot *slot, const char **values);
extern bool sl_copy_row_is_binary(const SlCopyRow *row);
extern char *sl_copy_row_sql(const SlCopyRow *row, const char *schema, const char *table);
extern StringInfo sl_copy_row_encode(SlCopyRow *row, TupleTableSlot *slot);
extern void sl_copy_row_put_text(StringInfo output, const char *value);

#endif							/* SL_MULTI_SHARD_H */
