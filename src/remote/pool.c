/*
 * pool.c
 *		The session's connections: one for each shard and user.
 *
 * They are opened when first needed and kept until the session ends, the
 * server or user mapping changes, or someone closes them.  A connection that
 * died while nothing depended on it is opened again without a word.
 *
 * A shard that did not answer is remembered, so that ten statements in a row
 * do not each wait for it: until a moment has passed, which doubles with every
 * failure, it fails at once.  Success resets it.  A shard that refuses the
 * connection answers quickly, and is not remembered.
 */
#include "postgres.h"

#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "remote/remote.h"

#define FIRST_PAUSE_MS 1000
#define LONGEST_PAUSE_MS 30000

typedef struct PoolKey
{
	int32		shard_id;
	Oid			user;
} PoolKey;

typedef struct PoolEntry
{
	PoolKey		key;			/* hash key */
	SlConn		conn;
	int			pause_ms;		/* 0: the last attempt was answered */
	TimestampTz retry_at;
} PoolEntry;

PG_FUNCTION_INFO_V1(shardlet_session_connections);
PG_FUNCTION_INFO_V1(shardlet_close_connections);

static HTAB *pool;

/*
 * A changed server or user mapping makes connections stale; the next use of
 * each opens it anew.  Nothing may be closed here.
 */
static void
mark_stale(Datum arg, int cache_id, uint32 hash_value)
{
	HASH_SEQ_STATUS status;
	PoolEntry  *entry;

	if (pool == NULL)
		return;
	hash_seq_init(&status, pool);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (hash_value == 0 || cache_id == USERMAPPINGOID ||
			entry->conn.server_hash == hash_value)
			entry->conn.is_stale = true;
	}
}

void
sl_pool_init(void)
{
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, mark_stale, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGOID, mark_stale, (Datum) 0);
}

static PoolEntry *
find_entry(const PoolKey *key)
{
	PoolEntry  *entry;
	bool		found;

	if (pool == NULL)
	{
		HASHCTL		control = {0};

		control.keysize = sizeof(PoolKey);
		control.entrysize = sizeof(PoolEntry);
		control.hcxt = TopMemoryContext;
		pool = hash_create("shardlet connections", 16, &control,
						   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	entry = hash_search(pool, key, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) entry + sizeof(PoolKey), 0, sizeof(PoolEntry) - sizeof(PoolKey));
		entry->conn.shard_id = key->shard_id;
		entry->conn.user = key->user;
	}
	return entry;
}

static PoolEntry *
entry_of(const SlConn *conn)
{
	PoolKey		key = {.shard_id = conn->shard_id,.user = conn->user};

	return find_entry(&key);
}

/* Tells whether an idle connection is still good, as far as one can see. */
static bool
is_alive(SlConn *conn)
{
	SlFailure  *failure;

	return PQstatus(conn->pg) == CONNECTION_OK && sl_conn_read(conn, &failure);
}

static SlFailure *
check_pause(const PoolEntry *entry, const SlShard *shard)
{
	TimestampTz now = GetCurrentTimestamp();

	if (entry->pause_ms == 0 || now >= entry->retry_at)
		return NULL;
	return sl_failure_unreachable(NameStr(shard->name),
								  psprintf("It did not answer a moment ago; the next attempt is made in %ld ms.",
										   TimestampDifferenceMilliseconds(now, entry->retry_at)));
}

static SlFailure *
open_entry(PoolEntry *entry, SlShard *shard)
{
	SlConn	   *conn = &entry->conn;
	SlFailure  *failure;
	SlTarget	target;

	sl_conn_close(conn);
	failure = check_pause(entry, shard);
	if (failure != NULL)
		return failure;
	target = sl_remote_target(shard);
	if (conn->context == NULL)
		conn->context = AllocSetContextCreate(TopMemoryContext, "shardlet connection",
											  ALLOCSET_SMALL_SIZES);
	else
		MemoryContextReset(conn->context);
	conn->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID,
											  ObjectIdGetDatum(shard->server));
	return sl_conn_start(conn, &target);
}

/*
 * Returns the current user's connection to a shard.  It may still be on its way
 * (see conn->state): then sl_conn_advance() opens it.  An open one is idle; if
 * somebody was streaming from it, that was waited for.  Returns NULL, and why,
 * if it is not even tried.
 */
SlConn *
sl_pool_get(SlShard *shard, SlFailure **failure)
{
	PoolKey		key = {.shard_id = shard->id,.user = GetUserId()};
	PoolEntry  *entry = find_entry(&key);
	SlConn	   *conn = &entry->conn;

	/* Whoever is reading from it takes the rest in first. */
	*failure = NULL;
	if (conn->owner != NULL)
		conn->yield(conn);
	if (conn->state != SL_CONN_OPEN || conn->is_stale || !is_alive(conn))
		*failure = open_entry(entry, shard);
	return *failure == NULL ? conn : NULL;
}

/* The shard did not answer in time: leave it alone for a while. */
void
sl_pool_note_failure(const SlConn *conn)
{
	PoolEntry  *entry = entry_of(conn);

	entry->pause_ms = entry->pause_ms == 0 ? FIRST_PAUSE_MS :
		Min(entry->pause_ms * 2, LONGEST_PAUSE_MS);
	entry->retry_at = sl_wait_deadline(entry->pause_ms);
}

void
sl_pool_note_success(const SlConn *conn)
{
	entry_of(conn)->pause_ms = 0;
}

/* Returns all connections of the session that are not closed. */
List *
sl_pool_all(void)
{
	HASH_SEQ_STATUS status;
	PoolEntry  *entry;
	List	   *result = NIL;

	if (pool == NULL)
		return NIL;
	hash_seq_init(&status, pool);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->conn.state != SL_CONN_CLOSED)
			result = lappend(result, &entry->conn);
	}
	return result;
}

/* What people see and do -------------------------------------------------- */

enum
{
	CONNECTION_PID, CONNECTION_SHARD, CONNECTION_USER, CONNECTION_REMOTE_PID,
	CONNECTION_STATE, CONNECTION_IN_TRANSACTION, CONNECTION_SINCE, CONNECTION_COLUMNS
};

static const char *
state_text(const SlConn *conn)
{
	if (conn->state != SL_CONN_OPEN)
		return "connecting";
	return conn->owner != NULL || !sl_flight_is_empty(conn) ? "active" : "idle";
}

/* session_connections(): rows of the view "connections" */
Datum
shardlet_session_connections(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	foreach(cell, sl_pool_all())
	{
		SlConn	   *conn = lfirst(cell);
		Datum		values[CONNECTION_COLUMNS];
		bool		nulls[CONNECTION_COLUMNS] = {0};
		NameData	shard;
		NameData	user;

		namestrcpy(&shard, conn->shard);
		namestrcpy(&user, GetUserNameFromId(conn->user, true) ? GetUserNameFromId(conn->user, true) : "");
		values[CONNECTION_PID] = Int32GetDatum(MyProcPid);
		values[CONNECTION_SHARD] = NameGetDatum(&shard);
		values[CONNECTION_USER] = NameGetDatum(&user);
		values[CONNECTION_REMOTE_PID] = Int32GetDatum(PQbackendPID(conn->pg));
		values[CONNECTION_STATE] = CStringGetTextDatum(state_text(conn));
		values[CONNECTION_IN_TRANSACTION] =
			BoolGetDatum(PQtransactionStatus(conn->pg) == PQTRANS_INTRANS ||
						 PQtransactionStatus(conn->pg) == PQTRANS_INERROR);
		values[CONNECTION_SINCE] = TimestampTzGetDatum(conn->since);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * close_connections(shard): closes the session's idle connections to a shard,
 * or to all; returns how many.
 */
Datum
shardlet_close_connections(PG_FUNCTION_ARGS)
{
	int32		id = PG_ARGISNULL(0) ? 0 :
	sl_shard_by_name(NameStr(*PG_GETARG_NAME(0)), false)->id;
	int32		count = 0;
	ListCell   *cell;

	foreach(cell, sl_pool_all())
	{
		SlConn	   *conn = lfirst(cell);

		if ((id != 0 && conn->shard_id != id) || conn->owner != NULL)
			continue;
		sl_conn_close(conn);
		count++;
	}
	PG_RETURN_INT32(count);
}
