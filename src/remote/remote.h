/*
 * remote.h
 *		Talking to shards over libpq.
 */
#ifndef SL_REMOTE_H
#define SL_REMOTE_H

#include "datatype/timestamp.h"
#include "libpq-fe.h"
#include "nodes/pg_list.h"

#include "map/map.h"

/* Where to connect, and as whom. */
typedef struct SlTarget
{
	const char *shard;			/* for messages */
	List	   *options;		/* of the server */
	List	   *credentials;	/* of the user mapping */
	const char *identity;		/* that the shard must have; NULL: any */
} SlTarget;

/*
 * A connection that belongs to a memory context and is closed with it, so that
 * an error closes it too.
 */
typedef struct SlConn
{
	PGconn	   *pg;
	const char *shard;
	MemoryContextCallback callback;
} SlConn;

/* wait.c */
extern TimestampTz sl_wait_deadline(int milliseconds);
extern bool sl_wait_socket(pgsocket socket, int events, TimestampTz deadline);

/* credentials.c */
extern List *sl_remote_credentials(Oid user, Oid server);

/* conn.c */
extern SlTarget sl_remote_target(const SlShard *shard);
extern SlConn *sl_remote_open(const SlTarget *target);
extern SlConn *sl_remote_try_open(const SlTarget *target, char **failure);
extern void sl_remote_close(SlConn *conn);

/* exec.c */
extern PGresult *sl_remote_exec(SlConn *conn, const char *sql, int param_count,
								const char *const *params);
extern const char *sl_remote_value(const PGresult *result, int row, int column);
extern bool sl_remote_bool(const PGresult *result, int row, int column);

/* remote_error.c */
extern void sl_remote_raise(SlConn *conn, PGresult *result, const char *sql) pg_attribute_noreturn();

#endif							/* SL_REMOTE_H */
