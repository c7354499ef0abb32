/*
 * remote.h
 *		Talking to shards over libpq.
 *
 * A connection is opened, and a statement runs, without ever blocking in
 * libpq: functions here send, or take in what has arrived, and whoever drives
 * them waits in wait.c.  What was sent and not yet answered is a queue in the
 * connection (flight.c); connections are always in libpq's pipeline mode, so
 * that settings, BEGIN and the statement travel together.
 */
#ifndef SL_REMOTE_H
#define SL_REMOTE_H

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
#include "map/map.h"
#include "stat/stat.h"

/* Where to connect, and as whom. */
typedef struct SlTarget
{
	const char *shard;			/* for messages */
	List	   *options;		/* of the server */
	List	   *credentials;	/* of the user mapping */
	const char *identity;		/* that the shard must have; NULL: any */
	bool		plain_path;		/* search_path is pg_catalog, not the
								 * session's */
} SlTarget;

/*
 * What went wrong on a shard.  Fields that are not known are NULL.  Lives in
 * the memory context that was current when it was made.
 */
typedef struct SlFailure
{
	int			sqlstate;
	bool		lost;			/* the connection is gone, or never was */
	bool		is_silent;		/* nothing answered when it was connected to */
	bool		is_farewell;	/* the server process said why it goes */
	bool		never_ran;		/* it went before the shard came to the
								 * statement */
	const char *message;
	const char *detail;
	const char *hint;
	const char *context;
	const char *schema_name;
	const char *table_name;
	const char *column_name;
	const char *datatype_name;
	const char *constraint_name;
	int			position;		/* in the statement; 0: not known */
} SlFailure;

#define SL_NUMBER_COUNT 13
#define SL_REPORTED_COUNT 7

/* The settings that change results, as PostgreSQL keeps them. */
typedef struct SlSettings
{
	pg_tz	   *timezone;
	int			numbers[SL_NUMBER_COUNT];
	bool		read_only;
	int			lock_timeout;
	char	   *search_path;	/* in the connection's context */
	char	   *hidden;			/* the same */
	bool		has_hidden;		/* rows were hidden there, now or before */
	bool		is_reported;	/* the shard has told what it made of them */
	char	   *reported[SL_REPORTED_COUNT];	/* in the connection's context */
} SlSettings;

typedef enum SlConnState
{
	SL_CONN_CLOSED,
	SL_CONN_CONNECTING,			/* libpq is at it */
	SL_CONN_SETTING_UP,			/* identity and settings are on their way */
	SL_CONN_OPEN
} SlConnState;

/* What is on its way to the shard, in order. */
typedef enum SlExpect
{
	SL_EXPECT_PRELUDE,			/* a command whose result only must be good */
	SL_EXPECT_FORGET,			/* one whose result does not matter */
	SL_EXPECT_PREPARE,
	SL_EXPECT_DESCRIBE,
	SL_EXPECT_ROWS,				/* a statement whose rows are streamed */
	SL_EXPECT_FEW_ROWS,			/* one whose rows come all at once */
	SL_EXPECT_MARK,				/* tells when the shard has come so far */
	SL_EXPECT_XID,				/* the transaction's id, which is kept */
	SL_EXPECT_SETTINGS,			/* a sync after which settings have effect */
	SL_EXPECT_COPY,				/* COPY FROM STDIN, outside of pipeline mode */
	SL_EXPECT_SYNC
} SlExpect;

typedef struct SlExpected
{
	SlExpect	what;
	uint64		hash;			/* of a statement that is described */
} SlExpected;

/* Parameters of a statement, as libpq takes them. */
typedef struct SlParams
{
	int			count;
	Oid		   *types;			/* NULL, or of each; 0 is unknown */
	const char **values;
	int		   *lengths;		/* of those that are binary */
	int		   *formats;		/* NULL, or of each; 1 is binary */
} SlParams;

/* A prepared statement of one connection, with the columns that it returns. */
typedef struct SlPrepared
{
	uint64		hash;			/* of text and types: the hash table's key */
	char	   *sql;
	int			type_count;		/* up to the last parameter with a type */
	Oid		   *param_types;
	char		name[32];
	bool		is_described;
	int			column_count;
	Oid		   *types;
	int		   *typmods;
	char	  **names;
	int			answer_count;	/* what the shard said about its order, see
								 * fanout/merge.c; -1: was not asked */
	char	  **answers;
	TimestampTz since;
	bool		is_marked;		/* its text ends with SL_LONE_WRITE_MARK */
	uint64		epoch;			/* see sl_flight_is_old() */
	uint64		setting_changes;
	uint64		last_use;
	void	   *kept;			/* by fanout/shape.c, or NULL */
	MemoryContext kept_context; /* which goes with it */
} SlPrepared;

/* What is known of a connection's silence; see probe.c. */
typedef struct SlProbe
{
	int64		quiet_us;		/* it was waited for so long in vain */
	int64		due_us;			/* quiet_us at the next attempt; 0: the first */
	int64		pause_us;		/* between the last attempts */
	PGconn	   *pg;				/* the second connection, or NULL */
	int64		waited_us;		/* for that one */
	bool		wants_write;
	bool		has_answered;
	bool		is_dead;
	int			failures;		/* in a row */
} SlProbe;

/*
 * The transaction on a shard that is part of the session's.  The area "txn"
 * works with it; here it only matters that a connection in one is not replaced.
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
	bool		is_lost;		/* the connection died in it */
	bool		is_read_only;
	bool		began_read_only;
	int			read_only_level;	/* where it became so */
	bool		is_fresh;		/* begun by the statement that is under way */
	bool		has_settings;	/* settings were sent in it */
	bool		has_part;		/* a savepoint for one statement */
	bool		is_ending;		/* COMMIT is on its way with the statement */
	bool		is_kept;		/* begun by what is prepared */
	bool		is_lone;		/* no transaction, a statement that is one */
	bool		has_asked_xid;
	char		xid[24];		/* of the shard; empty: not known */
	char		held_map[NAMEDATALEN];	/* whose keys stay there; empty: none */
	char	   *gid;			/* when it is or may be prepared */
} SlConnTxn;

/*
 * One connection.  Those of the pool live as long as the session; one that was
 * opened with sl_remote_open() belongs to a memory context.
 */
typedef struct SlConn
{
	int32		shard_id;		/* key in the pool: these two */
	Oid			user;
	SlConnState state;
	PGconn	   *pg;				/* NULL if closed */
	MemoryContext context;		/* of what belongs to this PGconn */
	const char *shard;			/* for messages */
	const char *identity;
	int			parameter_count;
	const char **keywords;		/* for a second connection that cancels */
	const char **values;
	TimestampTz deadline;		/* of connecting: of this host's share */
	TimestampTz last_deadline;	/* of connecting to whichever host */
	int			host_count;		/* in the address; some may be gone from it */
	int			host_index;		/* whose share runs */
	TimestampTz since;
	uint64		generation;		/* another one whenever it is opened, and for
								 * each connection */
	bool		must_use_password;
	bool		plain_path;
	bool		plain_values;	/* written in a form that cannot be misread */
	const char *hidden;			/* rows that do not count for who has taken
								 * it, see session.c; NULL: all do */
	bool		is_read_only;	/* but for explicit transactions */
	bool		is_bare;		/* the shard has no extension */
	bool		is_stale;		/* the server or user mapping has changed */
	bool		is_leaving;		/* the shard said so while nothing was asked */
	bool		wants_write;	/* connecting: wait until writable */
	uint32		server_hash;	/* of the cache entries it was made from */
	bool		has_settings;	/* "settings" are the shard's */
	bool		is_checked;		/* and current, just now */
	SlSettings	settings;
	uint64		setting_changes;
	SlExpected *expected;		/* a ring */
	int			expected_size;
	int			expected_head;
	int			expected_count;
	bool		in_result;		/* the head's results have begun */
	HTAB	   *prepared;
	uint64		prepare_counter;
	char		kept_begin[80]; /* the BEGIN that is prepared; empty: none.
								 * See kept.c */
	uint64		kept_number;
	uint64		lone_generation;	/* of the connection that was asked to let
									 * lone writes through */
	uint64		refused_generation; /* of the one that does not */
	uint64		kept_generation;	/* of the connection that it is prepared
									 * on */
	uint64		forgotten;		/* raised when one goes */
	uint64		uses;			/* raised when it is taken from the pool */
	List	   *to_forget;		/* names of statements that the shard still
								 * has */
	void	   *owner;			/* who is streaming from it, or NULL */
	void		(*yield) (struct SlConn *conn); /* makes the owner let go */
	WaitEventSet *wait_set;		/* kept for waits on this connection alone */
	uint32		wait_events;
	List	   *notices;		/* that wait to be shown; see notice.c */
	MemoryContext notice_context;
	SlProbe		probe;
	SlConnTxn	txn;
	SlConnSlot *slot;			/* what others see of it, or NULL */
	SlShardSlot *shard_slot;
	MemoryContextCallback callback;
} SlConn;

/* wait.c */
typedef struct SlWaitItem
{
	SlConn	   *conn;
	uint32		events;
	bool		ready;
	bool		probe_ready;	/* private to wait.c */
} SlWaitItem;

/* A set of wait events that goes with a memory context. */
typedef struct SlWaitSet
{
	WaitEventSet *set;			/* or NULL */
	MemoryContextCallback callback;
} SlWaitSet;

/* A set that is kept as long as the same sockets are waited for. */
typedef struct SlWaitCache
{
	SlWaitSet  *kept;
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
extern void (*sl_wait_long) (void);

/* The shard's identity, as its database says, and not the session. */
#define SL_IDENTITY_SQL \
	"(SELECT pg_catalog.max(pg_catalog.substr(c, 19))" \
	" FROM pg_catalog.pg_database d, pg_catalog.pg_db_role_setting s," \
	" pg_catalog.unnest(s.setconfig) c" \
	" WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()" \
	" AND s.setdatabase OPERATOR(pg_catalog.=) d.oid" \
	" AND s.setrole OPERATOR(pg_catalog.=) 0::pg_catalog.oid" \
	" AND pg_catalog.starts_with(c, 'shardlet.identity='))"

/* credentials.c */
extern List *sl_remote_credentials(Oid user, Oid server);

/* conn.c */
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

/* hosts.c */
#define SL_HOST_PARAMETERS 3	/* so many may be added */

extern void sl_hosts_begin(SlConn *conn);
extern bool sl_hosts_next(SlConn *conn, bool *begin_anew);
extern void sl_hosts_pin(SlConn *conn);

/* probe.c */
extern bool sl_probe_is_on(const SlConn *conn);
extern int64 sl_probe_time_left(const SlConn *conn);
extern bool sl_probe_advance(SlConn *conn, int64 elapsed_us, bool is_ready);
extern SlFailure *sl_probe_failure(const SlConn *conn);
extern bool sl_probe_hears(const PGconn *pg);
extern void sl_probe_forget(SlConn *conn);

/* pool.c */
extern void sl_pool_init(void);
extern SlConn *sl_pool_get(SlShard *shard, SlFailure **failure);
extern SlConn *sl_pool_get_as(SlShard *shard, Oid user, SlFailure **failure);
extern void sl_pool_foresee(SlShard *shard);
extern List *sl_pool_all(void);
extern bool sl_pool_is_alive(SlConn *conn);
extern void sl_pool_note_failure(const SlConn *conn);
extern void sl_pool_note_success(const SlConn *conn);

/* pool_funcs.c */
extern int	sl_pool_close_idle(int32 shard_id);

/* session.c */
extern bool sl_session_is_current(const SlConn *conn);
extern void sl_session_send(SlConn *conn);
extern void sl_session_note(SlConn *conn);
extern bool sl_session_keeps(const char *name);

/* kept.c */
extern bool sl_kept_begin(SlConn *conn, const char *sql);
extern void sl_kept_commit(SlConn *conn, SlExpect what);
extern void sl_kept_xid(SlConn *conn);
extern void sl_kept_forget(SlConn *conn);

/* flight.c */
typedef enum SlEvent
{
	SL_EVENT_NONE,				/* nothing yet: wait */
	SL_EVENT_ROWS,				/* a result with rows */
	SL_EVENT_DONE,				/* the statement is complete; its last result */
	SL_EVENT_DESCRIBED,			/* a description has come */
	SL_EVENT_MARK,				/* the shard has come to the mark */
	SL_EVENT_COPY,				/* the shard waits for the data of COPY */
	SL_EVENT_FAILED,			/* what was sent failed; more may follow */
	SL_EVENT_IDLE				/* everything sent was answered */
} SlEvent;

pg_noreturn extern void sl_flight_fail_to_send(SlConn *conn);
extern void sl_flight_expect(SlConn *conn, SlExpect what);
extern void sl_flight_prelude(SlConn *conn, const char *sql, int param_count,
							  const char *const *params);
extern void sl_flight_query(SlConn *conn, const char *sql, int param_count,
							const char *const *params);
extern SlPrepared *sl_flight_prepare(SlConn *conn, const char *sql, const SlParams *params,
									 const char *mark);
extern SlPrepared *sl_flight_find(SlConn *conn, const char *sql, const SlParams *params);
extern bool sl_flight_is_old(const SlConn *conn, const SlPrepared *prepared,
							 int lifetime_ms);
extern void sl_flight_distrust(void);
extern SlPrepared *sl_flight_copy(const SlPrepared *prepared);
extern void sl_flight_ask(SlConn *conn, const char *sql, const SlParams *params, bool binary);
extern void sl_flight_keep_answers(SlPrepared *prepared, const PGresult *result,
								   MemoryContext context);
extern void sl_flight_execute(SlConn *conn, SlPrepared *prepared, const SlParams *params,
							  bool binary, bool has_few_rows);
extern void sl_flight_mark(SlConn *conn);
extern void sl_flight_attempt(SlConn *conn, const char *sql);
extern bool sl_flight_try_sync(SlConn *conn);
extern void sl_flight_sync(SlConn *conn);
extern void sl_flight_sync_settings(SlConn *conn);
extern bool sl_flight_command(SlConn *conn, const char *sql, bool is_looked_at);
extern void sl_flight_start_copy(SlConn *conn, const char *sql);
extern bool sl_flight_put_copy(SlConn *conn, const char *data, int length);
extern bool sl_flight_end_copy(SlConn *conn, const char *error);
extern void sl_flight_forget(SlConn *conn, SlPrepared *prepared);
extern void sl_flight_forget_all(SlConn *conn);
extern bool sl_flight_is_empty(const SlConn *conn);
extern SlEvent sl_flight_next(SlConn *conn, PGresult **result, SlFailure **failure);

/* exec.c */
extern PGresult *sl_result_own(PGresult *result);
extern PGresult *sl_remote_exec(SlConn *conn, const char *sql, int param_count,
								const char *const *params);
extern PGresult *sl_remote_ask(SlConn *conn, const char *sql, int param_count,
							   const char *const *params);
extern PGresult *sl_remote_try(SlConn *conn, const char *sql, int param_count,
							   const char *const *params, TimestampTz deadline,
							   SlFailure **failure);
extern List *sl_remote_rows(SlConn *conn, const char *sql, int param_count,
							const char *const *params);
extern const char *sl_remote_value(const PGresult *result, int row, int column);
extern bool sl_remote_bool(const PGresult *result, int row, int column);

/* broadcast.c */
typedef struct SlReply
{
	SlShard    *shard;
	Oid			user;			/* invalid: the current one */
	SlConn	   *conn;
	SlFailure  *failure;		/* NULL: none */
	char	   *command;		/* INSERT, CREATE TABLE ...; NULL if not known */
	bool		has_rows;		/* "rows" is known */
	int64		rows;
	const char *sql;			/* instead of the common one */
	const char *hidden;			/* rows that do not count; NULL: all do */
	char	   *value;			/* first one of the rows, if any came */
	bool		is_complete;
} SlReply;

extern SlReply *sl_broadcast_make(List *shards, bool with_offline, int *count);
extern void sl_broadcast_open(SlReply *replies, int count);
extern void sl_broadcast_run(SlReply *replies, int count, const char *sql,
							 int param_count, const char *const *params,
							 int timeout_ms);
extern void sl_broadcast_commands(SlReply *replies, int count, int timeout_ms);

/* replication.c */
extern SlConn *sl_replication_open(const SlConn *like);
extern void sl_replication_send(SlConn *conn, const char *sql);
extern PGresult *sl_replication_answer(SlConn *conn, const char *sql, int milliseconds);

/* cancel.c */
extern void sl_cancel(List *conns);
extern void sl_drain(SlConn *conn);
extern void sl_cancel_ask(const SlShard *shard, const SlConn *conn);

/* remote_error.c */
extern bool sl_failure_is_farewell(const PGresult *result);
extern int	sl_failure_sqlstate(const PGresult *result);
extern SlFailure *sl_failure_make(SlConn *conn, const PGresult *result);
extern SlFailure *sl_failure_unreachable(const char *shard, const char *detail);
extern void sl_failure_blame_move(SlFailure *failure);
extern void sl_failure_blame_start(SlFailure *failure);
pg_noreturn extern void sl_failure_raise(const SlFailure *failure, const char *shard,
										 const char *sql);
extern void sl_failure_report(int level, const SlFailure *failure, const char *shard,
							  const char *sql);

/* notice.c */
extern const SlConn *sl_notice_speaker;
extern void sl_notice_watch(SlConn *conn);
extern void sl_notice_show(SlConn *conn);

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
extern void sl_decoder_row(SlDecoder *decoder, const PGresult *result, int row,
						   Datum *values, bool *nulls);
extern void sl_decoder_convert(SlDecoder *decoder, const Datum *wire_values,
							   const bool *wire_nulls, Datum *values, bool *nulls);

#endif							/* SL_REMOTE_H */
