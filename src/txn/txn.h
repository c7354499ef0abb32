/*
 * txn.h
 *		The session's transaction on the shards.
 *
 * A shard joins with its first statement, in the same flight, and follows the
 * session's savepoints from then on; at the end all shards commit, or none.
 */
#ifndef SL_TXN_H
#define SL_TXN_H

#include "executor/execdesc.h"

#include "remote/remote.h"

/*
 * A statement that runs, or a cursor that is open.  What is written after it began
 * is not for its eyes, so before a write a shard takes its snapshot for it, if it
 * may ask that shard yet.
 */
typedef struct SlReader
{
	dlist_node	node;			/* in the list of those that last */
	uint64		statement;		/* its number */
	bool		may_ask;		/* shards, from now on */
	bool		is_kept;		/* some shard has its snapshot */
} SlReader;

/* How a statement uses a shard. */
typedef struct SlTxnUse
{
	bool		writes;			/* or locks, or may do so */
	bool		is_alone;		/* a read that is all of its transaction */
	bool		is_part;		/* may fail or stop early without the rest */
	bool		takes_snapshot; /* that is waited for, see snapshot.c */
	bool		ends;			/* commits with the statement */
	bool		is_marked;		/* which may do so without BEGIN and COMMIT */
	uint64		statement;		/* whose reads must agree; 0: need not */
	bool		is_of_writer;	/* that statement writes, too, or others have
								 * since it began */
	const SlReader *reader;		/* the statement itself, or NULL */
	const char *held_map;		/* no key of which may leave the shard; NULL:
								 * none */
	int64		held_version;	/* of the map that the shard was found by */
	bool		retries;		/* begins anew if the shard has forgotten what
								 * was prepared */
} SlTxnUse;

/* Has the shard's transaction written? */
#define SL_XID_SQL "SELECT pg_catalog.pg_current_xact_id_if_assigned()"

/* txn_join.c */
extern void sl_txn_join(SlConn *conn, const SlTxnUse *use);
extern void sl_txn_follow(SlConn *conn, const SlTxnUse *use);
extern void sl_txn_end_statement(SlConn *conn, const SlTxnUse *use);
extern void sl_txn_settle(SlConn *conn);
extern void sl_txn_leave(SlConn *conn);
extern void sl_txn_abandon(SlConn *conn);
extern void sl_txn_refuse_alone(SlConn *conn);
extern void sl_txn_check_span(List *shards, bool writes);
pg_noreturn extern void sl_txn_refuse_span(const char *first, const char *second);
extern dlist_head *sl_txn_participants(void);

/* txn_alone.c */
extern bool sl_txn_is_direct(const EState *estate);
extern bool sl_txn_is_alone(const EState *estate);

/* txn_end.c */
extern void sl_txn_init(void);

/* txn_local.c */
extern bool sl_txn_wrote_locally(void);
extern bool sl_txn_is_untouched(void);

/* twophase.c */
typedef struct SlGid
{
	uint64		incarnation;
	Oid			database;
	uint64		xid;
	int			number;			/* of the connection, in the transaction */
	Oid			user;			/* whose connection prepared it */
} SlGid;

/* What the router's own log says of a transaction. */
typedef enum SlDecision
{
	SL_DECISION_COMMIT,
	SL_DECISION_ROLLBACK,
	SL_DECISION_OPEN,			/* still running */
	SL_DECISION_UNKNOWN			/* too old to tell, or never there */
} SlDecision;

#define SL_GID_PREFIX "shardlet_"

extern char *sl_gid_make(const SlGid *gid);
extern bool sl_gid_parse(const char *name, SlGid *gid);
extern SlDecision sl_gid_decision(const SlGid *gid);
extern void sl_twophase_prepare(SlReply *replies, int count);
extern void sl_twophase_commit(SlReply *replies, int count);
extern void sl_twophase_roll_back(SlReply *replies, int count);

/* outcome.c */
extern void sl_outcome_commit(SlConn *conn);

/* recover.c */
extern SlFailure *sl_recover_shard(SlShard *shard, SlConn *conn, int *finished);
extern SlFailure *sl_recover_before(SlShard *shard, SlConn *conn);
extern void sl_recover_all(int *finished);

/* snapshot.c */
extern uint64 sl_snapshot_new_statement(void);
extern void sl_snapshot_open_reader(SlReader *reader);
extern void sl_snapshot_close_reader(SlReader *reader);
extern void sl_snapshot_keep(SlConn *conn, const SlReader *writer);
extern bool sl_snapshot_is_shared(void);
extern void sl_snapshot_begin(void);
extern void sl_snapshot_begin_statement(uint64 statement);
extern void sl_snapshot_end(void);
extern void sl_snapshot_end_level(int level, bool is_rolled_back);
extern bool sl_snapshot_is_taken(void);

/* deadlock.c */
extern void sl_deadlock_init(void);
extern char *sl_deadlock_to_break(void);
pg_noreturn extern void sl_deadlock_raise(const char *detail);

/* fence.c */
extern void sl_fence_enter(void);
extern void sl_fence_hold(void);
extern void sl_fence_release(void);

#endif							/* SL_TXN_H */
