/*
 * pool.c
 *		The session's connections: one for each shard and user.
 *
 * They are opened when first needed and stay open until the session ends, the
 * server or user mapping changes, or close_connections() is called.  A connection
 * that was lost outside of a transaction is opened again silently.
 *
 * After a shard did not respond, further attempts fail at once for a while, so
 * that not each of ten statements in a row waits for it.  That time doubles with
 * every failure; success resets it.  A shard that refuses the connection responds
 * quickly, and causes no such pause.
 */
#include "postgres.h"

#include <poll.h>

#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "connection/connection.h"

#define FIRST_PAUSE_MS 1000
#define MAX_PAUSE_MS 30000

/* One in so many statements begins to connect ahead of time. */
#define PRECONNECT_INTERVAL 16

typedef struct PoolKey
{
	int32		shard_id;
	Oid			user;
} PoolKey;

typedef struct PoolEntry
{
	PoolKey		key;			/* hash key */
	SlConn		conn;
	int			pause_ms;		/* 0: the last attempt got a response */
	TimestampTz retry_at;
} PoolEntry;

static HTAB *pool;

/* There are connections of more than one user. */
static bool has_many_users = false;

/* Some connections are out of date. */
static bool has_stale = false;

/*
 * Syscache callback: a changed server or user mapping makes connections stale;
 * their next use opens them again.  Nothing may be closed in a callback.
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
	has_stale = true;
}

void
sl_pool_init(void)
{
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, mark_stale, (Datum) 0);
	CacheRegisterSyscacheCallback(USERMAPPINGOID, mark_stale, (Datum) 0);
}

/* Returns the entry of a shard and user, which is made if there is none. */
static PoolEntry *
find_entry(const PoolKey *key)
{
	static Oid	first_user = InvalidOid;
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
		entry->conn.is_read_only = true;
		if (!OidIsValid(first_user))
			first_user = key->user;
		has_many_users = has_many_users || key->user != first_user;
	}
	return entry;
}

static PoolEntry *
get_entry(const SlConn *conn)
{
	PoolKey		key = {.shard_id = conn->shard_id,.user = conn->user};

	return find_entry(&key);
}

/* Closes stale connections that are not in use: their shard may be dropped. */
static void
close_stale(void)
{
	HASH_SEQ_STATUS status;
	PoolEntry  *entry;

	has_stale = false;
	hash_seq_init(&status, pool);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		SlConn	   *conn = &entry->conn;

		if (conn->is_stale && conn->state == SL_CONN_OPEN && conn->owner == NULL &&
			conn->txn.level == 0 && sl_pipeline_is_empty(conn))
			sl_conn_close(conn);
	}
}

/*
 * Is an idle connection still usable, as far as the router can tell?  A shutdown
 * message arrives before the end of the connection; PQisBusy() makes libpq parse
 * it.
 */
bool
sl_pool_is_alive(SlConn *conn)
{
	SlFailure  *failure;

	if (PQstatus(conn->pg) != CONNECTION_OK || !sl_conn_read(conn, &failure))
		return false;
	(void) PQisBusy(conn->pg);
	return !conn->is_leaving && !conn->is_broken;
}

/* Was it opened with a superuser's rights by a role that has lost them? */
static bool
has_lost_superuser(const SlConn *conn)
{
	return !conn->must_use_password && !superuser_arg(conn->user);
}

static SlFailure *
check_pause(const PoolEntry *entry, const SlShard *shard)
{
	TimestampTz now = GetCurrentTimestamp();
	SlFailure  *failure;

	if (entry->pause_ms == 0 || now >= entry->retry_at)
		return NULL;
	failure = sl_failure_unreachable(NameStr(shard->name),
									 psprintf("It did not answer a moment ago; the next attempt is made in %ld ms.",
											  TimestampDifferenceMilliseconds(now, entry->retry_at)));
	failure->is_silent = true;
	return failure;
}

/* Publishes the connection in shared memory, if there is a free slot. */
static void
publish_entry(SlConn *conn, const SlShard *shard)
{
	conn->slot = sl_shmem_take_conn();
	if (conn->slot == NULL)
		return;
	conn->slot->user = conn->user;
	conn->slot->shard_id = conn->shard_id;
	conn->slot->shard = shard->name;
	conn->slot->since = GetCurrentTimestamp();
}

/* The transaction that used this connection cannot continue. */
static SlFailure *
make_lost_failure(const SlShard *shard)
{
	SlFailure  *failure = sl_failure_unreachable(NameStr(shard->name),
												 "The connection was lost, and with it the shard's part of this transaction.");

	failure->hint = "Roll back, and run the transaction again.";
	return failure;
}

/* Another shard whose maps this shard has was taken over: see shard_state.c. */
static SlFailure *
check_router(const SlShard *shard)
{
	const char *detail = sl_router_refusal();
	SlFailure  *failure;
	SlShard    *lost;

	if (detail == NULL && !sl_shmem_has_lost())
		return NULL;
	failure = sl_failure_unreachable(NameStr(shard->name), detail);
	failure->sqlstate = SL_ERR_IDENTITY;
	failure->lost = false;
	failure->hint = SL_ROUTER_HINT;
	failure->message = "this database is not the router that its shards know";
	if (detail != NULL)
		return failure;
	lost = sl_map_lost_shard_beside(shard->id);
	if (lost == NULL)
		return NULL;
	failure->message = psprintf("shard \"%s\" was taken over from this router", NameStr(lost->name));
	failure->detail = psprintf("It has maps together with shard \"%s\", which belong to another router now.",
							   NameStr(shard->name));
	return failure;
}

/* Begins to open an entry's connection as the current user. */
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
	conn->shard_slot = sl_shmem_shard(shard->id);
	conn->is_bare = shard->bare;
	publish_entry(conn, shard);
	failure = sl_conn_start(conn, &target);
	if (failure != NULL)
		sl_conn_close(conn);
	return failure;
}

/* The same as the entry's user. */
static SlFailure *
open_entry_as(PoolEntry *entry, SlShard *shard)
{
	SlFailure  *failure;
	Oid			user;
	int			context;

	/* After an error, the abort of the transaction restores these. */
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(entry->key.user, context | SECURITY_LOCAL_USERID_CHANGE);
	failure = open_entry(entry, shard);
	SetUserIdAndSecContext(user, context);
	return failure;
}

/*
 * Would this user open the same connection?  A user who must authenticate with a
 * password may not use a connection for which the shard did not request it.  This
 * is called often during a scan, so nothing stays in the caller's memory context.
 */
static bool
would_open_same(const SlConn *conn, const SlShard *shard, Oid user)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet credentials",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	List	   *credentials = sl_remote_credentials(user, shard->server);
	bool		result;

	result = sl_option_get(credentials, "user") != NULL &&
		(superuser_arg(user) ||
		 (sl_option_get(credentials, "password") != NULL && PQconnectionUsedPassword(conn->pg))) &&
		equal(credentials, sl_remote_credentials(conn->user, shard->server));
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	return result;
}

/*
 * Chooses the entry to use.  A transaction that runs as several users, such as the
 * user of a view and its owner, must see as one what it has written as the other:
 * users who have the same name on the shard share the connection that the
 * transaction already uses.
 */
static PoolEntry *
choose_entry(const SlShard *shard, Oid user)
{
	PoolKey		key = {.shard_id = shard->id,.user = user};
	PoolEntry  *own = find_entry(&key);
	PoolEntry  *entry;
	HASH_SEQ_STATUS status;

	if (!has_many_users || own->conn.txn.level > 0)
		return own;
	hash_seq_init(&status, pool);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->key.shard_id == shard->id && entry->conn.txn.level > 0 &&
			entry->conn.state == SL_CONN_OPEN && !entry->conn.is_stale &&
			would_open_same(&entry->conn, shard, user))
		{
			hash_seq_term(&status);
			return entry;
		}
	}
	return own;
}

/*
 * Returns a user's connection to a shard.  If it is not open yet (conn->state),
 * the caller continues with sl_conn_advance().  An open one is idle: a scan that
 * was streaming from it has read its remaining rows.  If no attempt is made to
 * connect, returns NULL and sets *failure.
 */
SlConn *
sl_pool_get_as(SlShard *shard, Oid user, SlFailure **failure)
{
	PoolEntry  *entry = choose_entry(shard, user);
	SlConn	   *conn = &entry->conn;

	if (has_stale)
		close_stale();

	/* The scan that streams from it reads its remaining rows first. */
	*failure = NULL;
	if (conn->owner != NULL)
		conn->yield(conn);
	conn->plain_values = false;
	conn->orphaned_rows = NULL;
	conn->is_checked = false;
	conn->uses++;
	if (conn->txn.level == 0 && (*failure = check_router(shard)) != NULL)
		return NULL;
	if (conn->txn.level > 0)
	{
		/* It cannot be replaced, even if the server's options have changed. */
		if (conn->state != SL_CONN_OPEN || !sl_pool_is_alive(conn))
			*failure = make_lost_failure(shard);
	}
	else if (conn->state != SL_CONN_OPEN || conn->is_stale || has_lost_superuser(conn) || !sl_pool_is_alive(conn))
		*failure = open_entry_as(entry, shard);
	return *failure == NULL ? conn : NULL;
}

/* Is the socket ready? */
static bool
is_socket_ready(const SlConn *conn)
{
	uint32		wants = sl_conn_wants(conn);
	struct pollfd socket = {.fd = PQsocket(conn->pg)};

	if ((wants & WL_SOCKET_READABLE) != 0)
		socket.events |= POLLIN;
	if ((wants & WL_SOCKET_WRITEABLE) != 0)
		socket.events |= POLLOUT;
	return poll(&socket, 1, 0) != 0;
}

/*
 * Begins to open a connection that the current user will need later, or continues
 * with that, without waiting.  Failures are ignored: the statement that needs the
 * connection will meet and report them.
 */
void
sl_pool_preconnect(SlShard *shard)
{
	PoolKey		key = {.shard_id = shard->id,.user = GetUserId()};
	PoolEntry  *entry = find_entry(&key);
	SlConn	   *conn = &entry->conn;
	SlFailure  *failure;

	switch (conn->state)
	{
		case SL_CONN_OPEN:
			break;
		case SL_CONN_CLOSED:

			/* Sessions must not all connect at the same moment. */
			if (pg_prng_uint32(&pg_global_prng_state) % PRECONNECT_INTERVAL != 0 || !AcquireExternalFD())
				break;
			ReleaseExternalFD();
			(void) open_entry(entry, shard);
			break;
		default:
			if (is_socket_ready(conn))
				(void) sl_conn_advance(conn, &failure);
			else if (GetCurrentTimestamp() >= conn->deadline)
				sl_conn_close(conn);
	}
}

/* The shard did not respond in time: pauses attempts to connect. */
void
sl_pool_note_failure(const SlConn *conn)
{
	PoolEntry  *entry = get_entry(conn);

	entry->pause_ms = entry->pause_ms == 0 ? FIRST_PAUSE_MS :
		Min(entry->pause_ms * 2, MAX_PAUSE_MS);
	entry->retry_at = sl_wait_deadline(entry->pause_ms);
}

void
sl_pool_note_success(const SlConn *conn)
{
	get_entry(conn)->pause_ms = 0;
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
