/*
 * transaction.h
 *		The session's transaction on the shards.
 *
 * A shard joins with its first statement, in the same pipeline, and follows the
 * session's savepoints from then on; at the end all shards commit, or none.
 */
#ifndef SL_TRANSACTION_H
#define SL_TRANSACTION_H

#include "executor/execdesc.h"
#include "storage/lockdefs.h"
#include "utils/snapshot.h"

#include "connection/connection.h"

/*
 * A statement that runs, or a cursor that is open.  It must not see what is written
 * after it began, so before a write a shard takes a snapshot for it, if it may query
 * that shard yet.
 */
typedef struct SlReader
{
	dlist_node	node;			/* in the list of those that last */
	uint64		statement;		/* its number */
	bool		may_query;		/* shards, from now on */
	bool		is_kept;		/* some shard has its snapshot */
} SlReader;

/* How long the row locks last of a statement that writes nothing. */
typedef enum SlTxnLock
{
	SL_LOCK_NONE,				/* it has none, or writes as well */
	SL_LOCK_FIRM,				/* as long as the transaction */
	SL_LOCK_TENTATIVE,			/* all are kept or released; see
								 * tentative_locks.c */
	SL_LOCK_TENTATIVE_SOME		/* or some of the rows are locked again */
} SlTxnLock;

/* How much of the session's transaction a statement is. */
typedef enum SlTxnScope
{
	SL_SCOPE_SESSION,			/* one of its statements */
	SL_SCOPE_AUTOCOMMIT,		/* all of it */
	SL_SCOPE_COMMIT				/* all that it does on the shards: the shard's
								 * transaction ends with the statement */
} SlTxnScope;

/* How a statement uses a shard. */
typedef struct SlTxnUse
{
	bool		writes;			/* or locks, or may do so */
	SlTxnLock	lock;
	SlTxnScope	scope;
	bool		needs_savepoint;	/* may fail or be stopped while the
									 * transaction goes on */
	bool		takes_snapshot; /* that is waited for, see snapshot.c */
	bool		is_marked;		/* its SQL ends with SL_AUTOCOMMIT_MARK */
	uint64		statement;		/* whose reads must agree; 0: need not */
	bool		is_of_writer;	/* that statement writes, too, or others have
								 * since it began */
	bool		by_snapshot;	/* what writes or locks sees the statement's
								 * snapshot, not the latest */
	bool		overlaps;		/* it looks at tables that other parts of the
								 * statement may have written to */
	const SlReader *reader;		/* the statement itself, or NULL */
	const char *held_map;		/* no key of which may leave the shard; NULL:
								 * none */
	int64		held_version;	/* of the map that the shard was found by */
	bool		retries;		/* is sent again if the shard has deallocated
								 * what was prepared */
	bool		may_repeat;		/* is rolled back and repeated if it deadlocks */
} SlTxnUse;

/* Has the shard's transaction written? */
#define SL_XID_SQL "SELECT pg_catalog.pg_current_xact_id_if_assigned()"

/* remote_transaction.c */
extern void sl_txn_join(SlConn *conn, const SlTxnUse *use);
extern void sl_txn_end_statement(SlConn *conn);
extern void sl_txn_settle(SlConn *conn);
extern void sl_txn_leave(SlConn *conn);
extern void sl_txn_abandon(SlConn *conn);
extern void sl_txn_refuse_autocommit(SlConn *conn);
extern void sl_txn_check_span(List *shards, bool writes);
pg_noreturn extern void sl_txn_refuse_span(const char *first, const char *second);
extern void sl_txn_check_writers(const SlConn *conn);
extern dlist_head *sl_txn_participants(void);

/* tentative_locks.c */
extern bool sl_tentative_lock_is_wanted(const SlTxnUse *use);
extern void sl_tentative_lock_begin(SlConn *conn, const SlTxnUse *use, bool began);
extern void sl_tentative_lock_keep(SlConn *conn);
extern void sl_tentative_lock_undo(List *conns);
extern void sl_tentative_lock_settle(List *conns);
extern void sl_tentative_lock_share(Oid table);
extern void sl_tentative_lock_exclude(Oid table);
extern void sl_tentative_lock_release(Oid table, bool is_exclusive);

/* autocommit.c */
extern bool sl_txn_is_direct(const EState *estate);
extern SlTxnScope sl_txn_scope_of(const EState *estate);
extern SlTxnScope sl_txn_scope_of_write(SlTxnScope scope);
extern SlTxnWrap sl_txn_choose_wrap(const SlConn *conn, const SlTxnUse *use);

/* commit.c */
extern void sl_txn_init(void);

/* constraint_mode.c */
extern void sl_constraint_mode_init(void);
extern void sl_constraint_mode_send(SlConn *conn, int level);

/* router_writes.c */
extern bool sl_txn_wrote_locally(void);
extern bool sl_txn_is_untouched(void);

/* two_phase.c */
typedef struct SlGid
{
	uint64		router_instance;
	Oid			database;
	uint64		xid;
	int			number;			/* of the connection, in the transaction */
	Oid			user;			/* whose connection prepared it */
} SlGid;

/* The state of a transaction by the router's commit log. */
typedef enum SlDecision
{
	SL_DECISION_COMMIT,
	SL_DECISION_ROLLBACK,
	SL_DECISION_OPEN,			/* still running */
	SL_DECISION_UNKNOWN			/* too old to tell, or never there */
} SlDecision;

#define SL_GID_PREFIX "shardlet_"

extern bool sl_gid_parse(const char *name, SlGid *gid);
extern SlDecision sl_gid_decision(const SlGid *gid);
extern void sl_twophase_prepare(SlReply *replies, int count);
extern void sl_twophase_commit(SlReply *replies, int count);
extern void sl_twophase_roll_back(SlReply *replies, int count);

/* commit_outcome.c */
extern void sl_outcome_commit(SlConn *conn);

/* shard_state.c */
#define SL_STATE_ALL_SHARDS (-1)

extern void sl_state_exempt(int32 shard_id);
extern char *sl_recover_own_prefix(void);
extern SlFailure *sl_state_check(SlShard *shard, SlConn *conn);
extern void sl_state_check_prepare(SlReply *replies, int count);

/* recovery.c */
extern SlFailure *sl_recover_shard(SlShard *shard, SlConn *conn, int *finished);
extern SlFailure *sl_recover_before(SlShard *shard, SlConn *conn);
extern void sl_recover_all(int *finished);

/* snapshot.c */
extern uint64 sl_snapshot_new_statement(void);
extern uint64 sl_snapshot_last_statement(void);
extern void sl_snapshot_use(SlConn *conn, uint64 statement, bool is_for_next);
extern void sl_snapshot_open_reader(SlReader *reader);
extern void sl_snapshot_close_reader(SlReader *reader);
extern void sl_snapshot_keep(SlConn *conn, const SlReader *writer);
extern bool sl_snapshot_is_shared(void);
extern void sl_snapshot_begin(List *shards);
extern void sl_snapshot_join(SlConn *conn);
extern bool sl_snapshot_is_of(uint64 statement);
extern void sl_snapshot_begin_statement(const SlTxnUse *statement, List *shards, Snapshot router);
extern void sl_snapshot_set_renewable(bool is_renewable);
extern void sl_snapshot_end(void);
extern void sl_snapshot_end_level(int level, bool is_rolled_back);
extern bool sl_snapshot_is_taken(void);

/* snapshot_export.c */
extern void sl_snapshot_note_import(const char *name);
extern bool sl_snapshot_is_imported(void);
extern void sl_snapshot_export(void);
extern void sl_snapshot_import(SlReply *replies, int count, const SlTxnUse *use);

/* deadlock.c */
extern void sl_deadlock_init(void);
extern char *sl_deadlock_to_break(bool *is_on_router);
extern void sl_deadlock_hold(bool hold);
extern bool sl_deadlock_watch;
pg_noreturn extern void sl_deadlock_raise(const char *detail);

/* contention.c */

/* Locks on the router for a table of the shards: the first field of their tags. */
typedef enum SlTableLock
{
	SL_TABLE_LOCK_TURN = 0x5AD2,	/* contention.c */
	SL_TABLE_LOCK_TENTATIVE = 0x5AD3	/* tentative_locks.c */
} SlTableLock;

extern void sl_table_lock_acquire(SlTableLock kind, Oid table, LOCKMODE mode);
extern void sl_table_lock_release(SlTableLock kind, Oid table, LOCKMODE mode);
extern bool sl_contention_is_marked(Oid table);
extern bool sl_contention_is_ordered(Oid table);
extern void sl_contention_mark(Oid table, int64 lost);
extern void sl_contention_order(Oid table);
extern bool sl_contention_claim_search(Oid table);
extern void sl_contention_take_turn(Oid table);
extern void sl_contention_give_turn(Oid table);

/* commit_lock.c */

/* Snapshots of shards that are to be taken, and of the router with them. */
typedef struct SlSnapshotSet
{
	int			count;
	int32	   *shard_ids;
	Snapshot	router;			/* that they must agree with; NULL: none */
	Snapshot	(*take) (void *arg);	/* or: takes that one; must not wait */
	void	   *arg;
} SlSnapshotSet;

extern void sl_commit_lock_init(void);
extern void sl_commit_lock_end(void);
extern bool sl_commit_lock_has_turn(int32 shard_id);
extern void sl_commit_lock_end_turn(int32 shard_id);
extern void sl_commit_lock_announce(const SlReply *replies, int count, bool writes_router);
extern void sl_commit_lock_begin_commit(void);
extern bool sl_commit_lock_is_at_work(uint64 xid);
extern void sl_commit_lock_list_shards(SlSnapshotSet *wanted, List *shards);
extern bool sl_commit_lock_begin_snapshot(const SlSnapshotSet *wanted, bool *has_to_wait);
extern void sl_commit_lock_wait_for_commits(List *shards);

#endif							/* SL_TRANSACTION_H */
