/*
 * connection.h
 *		Connections to shards, over libpq.
 *
 * A connection is opened, and a statement runs, without blocking in libpq:
 * functions send, or read what has arrived, and the caller waits with wait.c.  A
 * queue in the connection (pipeline.c) has what was sent and is not completed.
 * Connections are always in libpq's pipeline mode, so that settings, BEGIN and the
 * statement take one round trip.
 */
#ifndef SL_CONNECTION_H
#define SL_CONNECTION_H

#include "datatype/timestamp.h"
#include "lib/ilist.h"
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "pgtime.h"
#include "storage/latch.h"
#include "utils/hsearch.h"

#include "compat.h"
#include "metadata/map.h"
#include "metadata/shared_memory.h"

/* The server to connect to, and the user */
typedef struct SlTarget
{
	const char *shard;			/* for messages */
	List	   *options;		/* of the server */
	List	   *credentials;	/* of the user mapping */
	const char *identity;		/* required identity of the shard; NULL: any */
	const char *router;			/* what the shard knows of this router is
								 * requested; NULL: it is not */
	bool		plain_path;		/* search_path is pg_catalog, not the
								 * session's */
} SlTarget;

/*
 * An error of a shard, or of the connection to it.  Unknown fields are NULL.
 * Allocated in the memory context that was current when it was made.
 */
typedef struct SlFailure
{
	int			sqlstate;
	bool		lost;			/* the connection is lost, or was not made */
	bool		is_silent;		/* there was no response to connecting */
	bool		is_shutdown;	/* the server process sent a shutdown message */
	bool		never_ran;		/* the shard did not begin the statement */
	bool		is_violation;	/* the shard violated the protocol */
	const char *message;
	const char *detail;
	const char *hint;
	const char *context;
	const char *schema_name;
	const char *table_name;
	const char *column_name;
	const char *datatype_name;
	const char *constraint_name;
	int			position;		/* in the statement; 0: unknown */
} SlFailure;

#define SL_NUMBER_COUNT 12
#define SL_REPORTED_COUNT 7

/* Settings that affect results, in PostgreSQL's internal form */
typedef struct SlSettings
{
	pg_tz	   *timezone;
	int			numbers[SL_NUMBER_COUNT];
	bool		read_only;
	int			lock_timeout;
	char	   *search_path;	/* in the connection's context */
	char	   *orphaned_rows;	/* as SlConn's, in the connection's context */
	bool		had_orphaned_rows;	/* orphaned_rows is or was not NULL */
	bool		bypasses_policies;	/* row_security = off was sent */
	List	   *forwarded;		/* see forwarded_settings.c, in the
								 * connection's context */
	bool		is_reported;	/* "reported" is set */
	char	   *reported[SL_REPORTED_COUNT];	/* values that the shard
												 * reported, in the
												 * connection's context */
} SlSettings;

typedef enum SlConnState
{
	SL_CONN_CLOSED,
	SL_CONN_CONNECTING,			/* libpq is connecting */
	SL_CONN_SETTING_UP,			/* identity query and settings were sent */
	SL_CONN_OPEN
} SlConnState;

/* What was sent, and is not completed */
typedef enum SlExpect
{
	SL_EXPECT_PRECEDING,		/* a command that must only succeed */
	SL_EXPECT_DEALLOCATE,		/* one whose failure is ignored */
	SL_EXPECT_PREPARE,
	SL_EXPECT_DESCRIBE,
	SL_EXPECT_ROWS,				/* a statement whose rows are streamed */
	SL_EXPECT_FEW_ROWS,			/* one whose rows come in one PGresult */
	SL_EXPECT_MARK,				/* a query that gives an SL_EVENT_MARK */
	SL_EXPECT_XID,				/* the transaction's id, for SlConnTxn */
	SL_EXPECT_SETTINGS,			/* a sync after which settings have effect */
	SL_EXPECT_COPY,				/* COPY FROM STDIN, outside of pipeline mode */
	SL_EXPECT_SYNC
} SlExpect;

/* What has arrived for the head of that queue; see protocol_check.c */
typedef enum SlAnswer
{
	SL_ANSWER_NONE,
	SL_ANSWER_BEGUN,			/* rows, or the start of COPY */
	SL_ANSWER_DATA_SENT,		/* the same, and all data of COPY were sent */
	SL_ANSWER_COMPLETE			/* its last result */
} SlAnswer;

typedef struct SlExpected
{
	SlExpect	what;
	uint64		hash;			/* of a prepared statement */
} SlExpected;

/* Parameters of a statement, in libpq's form */
typedef struct SlParams
{
	int			count;
	Oid		   *types;			/* NULL, or of each; 0: the shard infers it */
	const char **values;
	int		   *lengths;		/* of those that are binary */
	int		   *formats;		/* NULL, or of each; 1: binary */
} SlParams;

/* A prepared statement of one connection, with its result columns */
typedef struct SlPrepared
{
	uint64		hash;			/* hash key: of query string and types */
	char	   *sql;
	int			type_count;		/* up to the last type that is not 0 */
	Oid		   *param_types;
	char		name[32];
	bool		is_described;
	int			column_count;
	Oid		   *types;
	int		   *typmods;
	char	  **names;
	int			answer_count;	/* facts about its order, see
								 * executor/merge.c; -1: unknown */
	char	  **answers;
	TimestampTz since;
	bool		is_marked;		/* it ends with SL_AUTOCOMMIT_MARK */
	uint64		epoch;			/* see sl_pipeline_is_old() */
	uint64		setting_changes;
	uint64		last_use;
	void	   *row_decoder;	/* of executor/row_decoder_cache.c, or NULL */
	MemoryContext row_decoder_context;
} SlPrepared;

/* State of the check whether a silent shard is alive; see liveness.c */
typedef struct SlLivenessCheck
{
	int64		quiet_us;		/* time of waiting without any data */
	int64		due_us;			/* quiet_us at the next attempt; 0: the first */
	int64		pause_us;		/* between the last attempts */
	PGconn	   *pg;				/* the second connection, or NULL */
	int64		waited_us;		/* time of waiting for that one */
	bool		wants_write;
	bool		has_answered;
	bool		is_dead;
	int			failures;		/* in a row */
} SlLivenessCheck;

/* How a statement is wrapped on a shard; see transaction/autocommit.c. */
typedef enum SlTxnWrap
{
	SL_WRAP_SESSION,			/* part of the session's transaction, if there
								 * is one */
	SL_WRAP_NONE,				/* nothing: a read that is a transaction */
	SL_WRAP_MARK,				/* nothing: a write that the mark in its SQL
								 * lets through */
	SL_WRAP_COMMIT				/* BEGIN and COMMIT in the same pipeline */
} SlTxnWrap;

/* What takes back row locks; see transaction/tentative_locks.c. */
typedef enum SlTentative
{
	SL_TENTATIVE_NONE,			/* there are none that may be taken back */
	SL_TENTATIVE_SAVEPOINT,
	SL_TENTATIVE_TRANSACTION,	/* its end: it has done nothing else */
	SL_TENTATIVE_EITHER			/* the same, and there is a savepoint */
} SlTentative;

/*
 * The shard's part of the session's transaction.  Folder "transaction" maintains
 * it; in this one it only matters that a connection with one is not replaced.
 */
typedef struct SlConnTxn
{
	dlist_node	node;			/* in the list of those that take part */
	int			level;			/* nesting level that the shard follows; 0: no
								 * transaction */
	int			sent_level;		/* savepoints up to here exist on the shard */
	int			begin_level;	/* where it was begun */
	int			write_level;	/* lowest level with a write; 0: none */
	uint64		statement;		/* that it is for and ends with; 0: none */
	uint64		kept_statement; /* whose snapshot the shard keeps; 0: none */
	uint64		kept_readers;	/* and for all of those up to this number that
								 * may need it, see snapshot.c */
	uint64		written_since;	/* the latest statement that had begun when it
								 * was written to; 0: it was not */
	bool		is_lost;		/* the connection died in it */
	bool		is_read_only;
	bool		began_read_only;
	int			read_only_level;	/* where it became so */
	bool		has_only_snapshot;	/* a statement's, and nothing else was run */
	bool		has_settings;	/* settings were sent in it */
	bool		has_savepoint;	/* a savepoint for one statement */
	SlTxnWrap	wrap;			/* of the statement that was sent last */
	SlTentative tentative;		/* what takes back its row locks */
	int			tentative_write_level;	/* write_level before these */
	bool		begun_prepared; /* by the BEGIN that is prepared */
	bool		has_queried_xid;
	uint64		constraint_mode;	/* number of the last SET CONSTRAINTS that
									 * it has had, see constraint_mode.c */
	char		xid[24];		/* of the shard; empty: not known */
	char		held_map[NAMEDATALEN];	/* whose keys stay there; empty: none */
	char	   *gid;			/* when it is or may be prepared */
} SlConnTxn;

/* The queue of what was sent and is not completed; see pipeline.c */
typedef struct SlConnQueue
{
	SlExpected *items;			/* a ring buffer */
	int			size;
	int			head;
	int			count;

	/* of the head, see protocol_check.c */
	SlAnswer	answer;			/* what has arrived */
	uint64		row_count;		/* its rows that arrived before its end */
	uint64		row_tag;		/* number of rows in its command tag */
	bool		has_row_tag;
} SlConnQueue;

/* The notices that wait to be reported; see notices.c */
typedef struct SlConnNotices
{
	List	   *queued;
	size_t		bytes;			/* size of these */
	MemoryContext context;
} SlConnNotices;

/* The BEGIN that is prepared, with other commands; see prepared_commands.c */
typedef struct SlPreparedBegin
{
	char		sql[80];		/* empty: none */
	uint64		number;			/* in its name */
	uint64		generation;		/* of the connection that has it */
} SlPreparedBegin;

/*
 * A connection.  Those of the pool live as long as the session; one that was
 * opened with sl_remote_open() belongs to a memory context.
 */
typedef struct SlConn
{
	/* Key in the pool */
	int32		shard_id;
	Oid			user;

	SlConnState state;
	PGconn	   *pg;				/* NULL if closed */
	MemoryContext context;		/* of what belongs to this PGconn */
	TimestampTz since;
	uint64		generation;		/* unique for each time that a connection is
								 * opened */
	MemoryContextCallback callback; /* if it belongs to a memory context */

	/* The shard */
	const char *shard;			/* for messages */
	const char *identity;		/* required; NULL: any */
	bool		has_identity;	/* the database has sent its own */
	bool		is_bare;		/* the shard has no extension */

	/* What the shard knows of this router, see transaction/shard_state.c */
	const char *router;			/* its identity; NULL: not requested */
	bool		has_state;		/* the shard has sent it */
	bool		is_judged;		/* and it is what it must be */
	bool		is_behind;		/* by a commit that was under way there */
	char	   *state_epoch;	/* NULL: the shard does not know the router */
	char	   *state_owner;	/* another router; NULL: none */
	char	   *state_maps;		/* id:version,... of this router's; or NULL */

	/* Connecting, see connect.c and multi_host.c */
	int			parameter_count;
	const char **keywords;		/* also for a second connection that cancels */
	const char **values;
	bool		must_use_password;
	bool		wants_write;	/* wait until writable */
	TimestampTz deadline;		/* for the current host */
	TimestampTz last_deadline;	/* for all hosts */
	int			host_count;		/* hosts left in the parameters */
	int			host_index;		/* the current one */

	/* Can it be used again?  See pool.c */
	uint32		server_hash;	/* syscache hash value of the foreign server */
	bool		is_stale;		/* the server or user mapping has changed */
	bool		is_leaving;		/* a shutdown message arrived while idle */
	bool		is_broken;		/* protocol violation: is not used again */
	uint64		uses;			/* incremented by sl_pool_get_as() */
	void	   *owner;			/* the scan that streams from it, or NULL */
	void		(*yield) (struct SlConn *conn); /* makes the owner read its
												 * remaining rows */

	/* Settings that the next statement needs, see session_settings.c */
	bool		plain_path;		/* search_path is pg_catalog */
	bool		plain_values;	/* output formats are unambiguous ones, not
								 * the session's */
	bool		is_read_only;	/* outside of explicit transactions */
	const char *orphaned_rows;	/* orphaned rows that the statement must not
								 * see, or NULL */

	/* Settings that the shard has */
	bool		has_settings;	/* "settings" are the shard's */
	bool		is_checked;		/* and are known to be current */
	SlSettings	settings;
	uint64		setting_changes;	/* that affect prepared statements */

	SlConnQueue queue;
	SlConnNotices notices;

	/* Prepared statements, see pipeline.c */
	HTAB	   *prepared;		/* of SlPrepared */
	uint64		prepare_counter;
	uint64		forgotten;		/* incremented when one is discarded */
	List	   *to_deallocate;	/* names of discarded statements that the
								 * shard still has */
	SlPreparedBegin begin;

	/* Waiting, see wait.c and liveness.c */
	WaitEventSet *wait_set;		/* for waits on this connection alone */
	uint32		wait_events;
	SlLivenessCheck probe;

	/* The transaction, see folder "transaction" */
	SlConnTxn	txn;
	uint64		autocommit_generation;	/* of the connection that was asked to
										 * allow autocommit writes */
	uint64		refused_generation; /* of the one that refused that */

	/* Shared memory */
	SlConnSlot *slot;			/* or NULL */
	SlShardSlot *shard_slot;
} SlConn;

/* wait.c */
typedef struct SlWaitItem
{
	SlConn	   *conn;
	uint32		events;
	bool		ready;
	bool		probe_ready;	/* private to wait.c */
} SlWaitItem;

/* A WaitEventSet that belongs to a memory context. */
typedef struct SlWaitSet
{
	WaitEventSet *set;			/* or NULL */
	MemoryContextCallback callback;
} SlWaitSet;

/* A set that is reused as long as the sockets are the same. */
typedef struct SlWaitCache
{
	SlWaitSet  *owned;
	int			count;
	int			allocated;
	pgsocket   *sockets;
	uint32	   *events;
} SlWaitCache;

extern TimestampTz sl_wait_deadline(int milliseconds);
extern bool sl_wait_items(SlWaitItem *items, int count, TimestampTz deadline,
						  SlWaitCache *cache);
extern bool sl_wait_conn(SlConn *conn, TimestampTz deadline);
extern void sl_wait_forget(SlWaitCache *cache);
extern void sl_wait_check_client(void);
extern bool sl_wait_for_latch;
extern void sl_wait_latch(void);

/* The shard's identity as the database has it, and not the session. */
#define SL_IDENTITY_SQL \
	"(SELECT pg_catalog.max(pg_catalog.substr(c, 19))" \
	" FROM pg_catalog.pg_database d, pg_catalog.pg_db_role_setting s," \
	" pg_catalog.unnest(s.setconfig) c" \
	" WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()" \
	" AND s.setdatabase OPERATOR(pg_catalog.=) d.oid" \
	" AND s.setrole OPERATOR(pg_catalog.=) 0::pg_catalog.oid" \
	" AND pg_catalog.starts_with(c, 'shardlet.identity='))"

/* What a shard knows of a router: epoch, another owner, versions of maps. */
#define SL_STATE_SQL "SELECT epoch, owner, maps FROM shardlet_internal.router_state($1)"

/* connect.c */
extern void sl_conn_note_state(SlConn *conn, const PGresult *result);
extern List *sl_remote_credentials(Oid user, Oid server);
extern SlTarget sl_remote_target(const SlShard *shard);
extern SlFailure *sl_conn_start(SlConn *conn, const SlTarget *target);
extern bool sl_conn_advance(SlConn *conn, SlFailure **failure);
extern bool sl_conn_time_is_up(SlConn *conn, SlFailure **failure);
extern bool sl_conn_read(SlConn *conn, SlFailure **failure);
extern uint32 sl_conn_wants(const SlConn *conn);
extern void sl_conn_close(SlConn *conn);
extern SlConn *sl_remote_open(const SlTarget *target);
extern SlConn *sl_remote_try_open(const SlTarget *target, SlFailure **failure);
extern SlConn *sl_remote_try_open_as(const SlShard *shard, Oid user, SlFailure **failure);

/* multi_host.c */
#define SL_HOST_PARAMETERS 3	/* number of parameters that may be added */

extern void sl_multi_host_begin(SlConn *conn);
extern bool sl_multi_host_next(SlConn *conn, bool *begin_again);
extern void sl_multi_host_fix(SlConn *conn);

/* liveness.c */
extern bool sl_liveness_is_on(const SlConn *conn);
extern int64 sl_liveness_time_left(const SlConn *conn);
extern bool sl_liveness_advance(SlConn *conn, int64 elapsed_us, bool is_ready);
extern SlFailure *sl_liveness_failure(const SlConn *conn);
extern bool sl_liveness_has_response(const PGconn *pg);
extern void sl_liveness_reset(SlConn *conn);

/* pool.c */
extern void sl_pool_init(void);
extern SlConn *sl_pool_get_as(SlShard *shard, Oid user, SlFailure **failure);
extern void sl_pool_preconnect(SlShard *shard);
extern List *sl_pool_all(void);
extern bool sl_pool_is_alive(SlConn *conn);
extern void sl_pool_note_failure(const SlConn *conn);
extern void sl_pool_note_success(const SlConn *conn);

/* connections_view.c */
extern int	sl_pool_close_idle(int32 shard_id);

/* forwarded_settings.c */
extern bool sl_forwarded_is_current(const SlConn *conn);
extern void sl_forwarded_send(SlConn *conn);

/* session_settings.c */
extern bool sl_session_is_current(const SlConn *conn);
extern void sl_session_send(SlConn *conn);
extern void sl_session_note(SlConn *conn);
extern bool sl_session_keeps(const char *name);
extern List *sl_session_list(void);

/* prepared_commands.c */
extern bool sl_prepared_begin(SlConn *conn, const char *sql);
extern void sl_prepared_commit(SlConn *conn, SlExpect what);
extern void sl_prepared_xid(SlConn *conn);
extern void sl_prepared_take_snapshot(SlConn *conn);
extern void sl_prepared_discard(SlConn *conn);

/* pipeline.c */
typedef enum SlEvent
{
	SL_EVENT_NONE,				/* nothing has arrived: wait */
	SL_EVENT_ROWS,				/* a result with rows */
	SL_EVENT_DONE,				/* the statement is complete; its last result */
	SL_EVENT_DESCRIBED,			/* a prepared statement is described */
	SL_EVENT_MARK,				/* the result of an SL_EXPECT_MARK */
	SL_EVENT_COPY,				/* the shard is ready for the data of COPY */
	SL_EVENT_FAILED,			/* something failed; more may follow */
	SL_EVENT_IDLE				/* everything sent is completed */
} SlEvent;

pg_noreturn extern void sl_pipeline_fail_to_send(SlConn *conn);
extern void sl_pipeline_expect(SlConn *conn, SlExpect what);
extern void sl_pipeline_send_preceding(SlConn *conn, const char *sql, int param_count,
									   const char *const *params);
extern void sl_pipeline_query(SlConn *conn, const char *sql, int param_count,
							  const char *const *params);
extern SlPrepared *sl_pipeline_prepare(SlConn *conn, const char *sql, const SlParams *params,
									   const char *mark);
extern SlPrepared *sl_pipeline_find(SlConn *conn, const char *sql, const SlParams *params);
extern bool sl_pipeline_is_old(const SlConn *conn, const SlPrepared *prepared,
							   int lifetime_ms);
extern void sl_pipeline_invalidate(void);
extern SlPrepared *sl_pipeline_copy(const SlPrepared *prepared);
extern void sl_pipeline_send_query(SlConn *conn, const char *sql, const SlParams *params, bool binary);
extern void sl_pipeline_keep_results(SlPrepared *prepared, const PGresult *result,
									 MemoryContext context);
extern void sl_pipeline_execute(SlConn *conn, SlPrepared *prepared, const SlParams *params,
								bool binary, bool has_few_rows);
extern void sl_pipeline_attempt(SlConn *conn, const char *sql);
extern bool sl_pipeline_try_sync(SlConn *conn);
extern void sl_pipeline_sync(SlConn *conn);
extern void sl_pipeline_sync_settings(SlConn *conn);
extern bool sl_pipeline_command(SlConn *conn, const char *sql, bool is_looked_at);
extern void sl_pipeline_start_copy(SlConn *conn, const char *sql);
extern bool sl_pipeline_put_copy(SlConn *conn, const char *data, int length);
extern bool sl_pipeline_end_copy(SlConn *conn, const char *error);
extern void sl_pipeline_discard_statement(SlConn *conn, SlPrepared *prepared);
extern void sl_pipeline_discard_all(SlConn *conn);
extern bool sl_pipeline_is_empty(const SlConn *conn);
extern SlEvent sl_pipeline_next(SlConn *conn, PGresult **result, SlFailure **failure);

/* protocol_check.c */
extern const char *sl_protocol_check(SlConn *conn, SlExpect head, PGresult *result);
extern const char *sl_protocol_check_end(const SlConn *conn);
extern bool sl_protocol_has_columns(const PGresult *result, const SlPrepared *prepared,
									bool binary);
extern SlFailure *sl_protocol_break_off(SlConn *conn, const char *detail);
extern SlFailure *sl_protocol_check_text(SlConn *conn, const PGresult *result);
pg_noreturn extern void sl_protocol_refuse_null(SlConn *conn);
extern int64 sl_protocol_count(SlConn *conn, const char *value);
extern const char *sl_protocol_value(SlConn *conn, const PGresult *result, int row, int column);

/* text_encoding.c */
extern bool sl_encoding_is_valid(const char *string, int length);
extern char *sl_encoding_copy_message(MemoryContext context, const char *string);
extern bool sl_encoding_result_is_valid(const PGresult *result);

/* run_commands.c: on one shard */
extern PGresult *sl_result_own(PGresult *result);
extern PGresult *sl_remote_exec(SlConn *conn, const char *sql, int param_count,
								const char *const *params);
extern PGresult *sl_remote_query(SlConn *conn, const char *sql, int param_count,
								 const char *const *params);
extern PGresult *sl_remote_try(SlConn *conn, const char *sql, int param_count,
							   const char *const *params, TimestampTz deadline,
							   SlFailure **failure);
extern List *sl_remote_rows(SlConn *conn, const char *sql, int param_count,
							const char *const *params, int column_count);
extern const char *sl_remote_value(const PGresult *result, int row, int column);
extern bool sl_remote_bool(const PGresult *result, int row, int column);

/* run_commands.c: on several shards */
typedef struct SlReply
{
	SlShard    *shard;
	Oid			user;			/* invalid: the current one */
	SlConn	   *conn;
	SlFailure  *failure;		/* NULL: none */
	char	   *command;		/* INSERT, CREATE TABLE ...; NULL if unknown */
	bool		has_rows;		/* "rows" is known */
	int64		rows;
	const char *sql;			/* a command for this shard only */
	const char *orphaned_rows;	/* that it must not see, or NULL */
	char	   *value;			/* first value of the first row, if any */
	bool		is_complete;
	bool		is_sent;		/* private to run_commands.c */
	TimestampTz deadline;		/* the same */
} SlReply;

/* Commands that wait for their turn, see transaction/commit_lock.c */
typedef struct SlTurns
{
	bool		(*has_turn) (int32 shard_id);	/* if false, the latch is set
												 * when it may have changed */
	void		(*send) (SlReply *reply, const void *arg);
	void		(*complete) (SlReply *reply);	/* or NULL */
	void		(*end_turn) (int32 shard_id);	/* when all commands of the
												 * shard are complete */
	const void *arg;
	int			timeout_ms;		/* of each, after it was sent */
} SlTurns;

extern SlReply *sl_broadcast_make(List *shards, bool with_offline, int *count);
extern void sl_broadcast_open(SlReply *replies, int count);
extern void sl_broadcast_run(SlReply *replies, int count, const char *sql,
							 int param_count, const char *const *params,
							 int timeout_ms);
extern void sl_broadcast_commands(SlReply *replies, int count, int timeout_ms);
extern void sl_broadcast_in_turn(SlReply *replies, int count, const SlTurns *turns);
extern void sl_broadcast_send_command(SlReply *reply, const void *arg);

/* replication_slot.c */
extern SlConn *sl_replication_open(const SlConn *like);
extern void sl_replication_send(SlConn *conn, const char *sql);
extern PGresult *sl_replication_answer(SlConn *conn, const char *sql, int milliseconds);

/* cancel.c */
extern void sl_cancel(List *conns);
extern void sl_drain(SlConn *conn);
extern void sl_cancel_send(const SlShard *shard, const SlConn *conn);

/* remote_error.c */
extern bool sl_failure_is_shutdown(const PGresult *result);
extern int	sl_failure_sqlstate(const PGresult *result);
extern SlFailure *sl_failure_make(SlConn *conn, const PGresult *result);
extern SlFailure *sl_failure_unreachable(const char *shard, const char *detail);
extern SlFailure *sl_failure_violation(const char *shard, const char *detail);
extern void sl_failure_blame_move(SlFailure *failure);
extern void sl_failure_blame_start(SlFailure *failure);
pg_noreturn extern void sl_failure_raise(const SlFailure *failure, const char *shard,
										 const char *sql);
extern void sl_failure_report(int level, const SlFailure *failure, const char *shard,
							  const char *sql);

/* notices.c */
extern const SlConn *sl_notice_speaker;
extern void sl_notice_queue(SlConn *conn);
extern void sl_notice_ignore(PGconn *pg);
extern void sl_notice_report(SlConn *conn);

/* binary_types.c */

/* How a value is written to, or read from, a connection */
typedef enum SlValueFormat
{
	SL_FORMAT_TEXT,				/* text, by the type's output or input
								 * function */
	SL_FORMAT_FUNCTION,			/* binary, by its send or receive function */
	SL_FORMAT_INT16,			/* binary, without a function call: an integer
								 * or float of that size */
	SL_FORMAT_INT32,
	SL_FORMAT_INT64,
	SL_FORMAT_DATE,				/* INT32 whose range is checked */
	SL_FORMAT_TIMESTAMP,		/* INT64 whose range is checked */
	SL_FORMAT_BOOL,
	SL_FORMAT_STRING,			/* varlena in the database encoding */
	SL_FORMAT_BYTEA,			/* varlena of any bytes */
	SL_FORMAT_JSON				/* STRING whose syntax is checked */
} SlValueFormat;

extern SlValueFormat sl_binary_format(Oid type);

/* encode.c */
extern void sl_encode_init(void);
extern void sl_params_encode(SlParams *params, int count, const Oid *types, const Datum *values,
							 const bool *nulls);
extern void sl_params_add(SlParams *params, int64 value);

/* decode.c */
typedef struct SlDecoder SlDecoder;

extern bool sl_decode_can_receive(Oid type);
extern bool sl_decode_is_binary(const SlPrepared *prepared);
extern bool sl_decode_fits(const SlPrepared *prepared, TupleDesc wanted,
						   const int *sources);
extern SlDecoder *sl_decoder_make(const SlPrepared *prepared, bool binary,
								  TupleDesc wanted, const int *sources,
								  const char *shard);
extern bool sl_decoder_converts(const SlDecoder *decoder);
extern void sl_decoder_begin(SlDecoder *decoder, bool plain_values);
extern TupleDesc sl_decoder_wire_descriptor(const SlDecoder *decoder);
extern bool sl_decoder_reads(const SlDecoder *decoder, const SlPrepared *prepared);
extern void sl_decoder_row(SlDecoder *decoder, SlConn *conn, const PGresult *result, int row,
						   Datum *values, bool *nulls);
extern void sl_decoder_convert(SlDecoder *decoder, const Datum *wire_values,
							   const bool *wire_nulls, Datum *values, bool *nulls);

#endif							/* SL_CONNECTION_H */
