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
#include "remote/remote.h"

#define FIRST_PAUSE_MS 1000
#define LONGEST_PAUSE_MS 30000

/* One in so many statements begins to connect ahead of time. */
#define FORESIGHT 16

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

static HTAB *pool;

/* There are connections of more than one user. */
static bool has_many_users = false;

/* Some connections are out of date. */
static bool has_stale = false;

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
	has_stale = true;
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
entry_of(const SlConn *conn)
{
	PoolKey		key = {.shard_id = conn->shard_id,.user = conn->user};

	return find_entry(&key);
}

/* Closes those that nobody uses and nobody will: the shard may be dropped. */
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
			conn->txn.level == 0 && sl_flight_is_empty(conn))
			sl_conn_close(conn);
	}
}

/*
 * Tells whether an idle connection is still good, as far as one can see.  A
 * shard's last words arrive before the end of the connection does, so these
 * are looked at too: PQisBusy() is what makes libpq do that.
 */
bool
sl_pool_is_alive(SlConn *conn)
{
	SlFailure  *failure;

	if (PQstatus(conn->pg) != CONNECTION_OK || !sl_conn_read(conn, &failure))
		return false;
	(void) PQisBusy(conn->pg);
	return !conn->is_leaving;
}

/* Was it opened with what a superuser may use, by one who is none any more? */
static bool
is_lent(const SlConn *conn)
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

/* Lets others see the connection. */
static void
show_entry(SlConn *conn, const SlShard *shard)
{
	conn->slot = sl_stat_take_conn();
	if (conn->slot == NULL)
		return;
	conn->slot->user = conn->user;
	conn->slot->shard_id = conn->shard_id;
	conn->slot->shard = shard->name;
	conn->slot->since = GetCurrentTimestamp();
}

/* The transaction that depended on this connection cannot go on. */
static SlFailure *
lost_in_transaction(const SlShard *shard)
{
	SlFailure  *failure = sl_failure_unreachable(NameStr(shard->name),
												 "The connection was lost, and with it the shard's part of this transaction.");

	failure->hint = "Roll back, and run the transaction again.";
	return failure;
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
	conn->shard_slot = sl_stat_shard(shard->id);
	conn->is_bare = shard->bare;
	show_entry(conn, shard);
	failure = sl_conn_start(conn, &target);
	if (failure != NULL)
		sl_conn_close(conn);
	return failure;
}

/* The same on behalf of another user, whose mapping and name are taken. */
static SlFailure *
open_entry_as(PoolEntry *entry, SlShard *shard)
{
	SlFailure  *failure;
	Oid			user;
	int			context;

	/* If something is thrown, the end of the transaction puts these back. */
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(entry->key.user, context | SECURITY_LOCAL_USERID_CHANGE);
	failure = open_entry(entry, shard);
	SetUserIdAndSecContext(user, context);
	return failure;
}

/*
 * Would the user open the very same connection?  Who must use a password may not
 * have one that the shard did not ask for, or that was found elsewhere.  Scans ask
 * this again and again, so nothing of it is left in the caller's memory.
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
 * Finds the entry to use.  A transaction that works as several users, such as those
 * of a view and of its owner, must see as one what it has written as the other: where
 * a shard takes them for the same one, they share the connection that the transaction
 * has begun to use.
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
 * Returns a user's connection to a shard.  It may still be on its way
 * (see conn->state): then sl_conn_advance() opens it.  An open one is idle; if
 * somebody was streaming from it, that was waited for.  Returns NULL, and why,
 * if it is not even tried.
 */
SlConn *
sl_pool_get_as(SlShard *shard, Oid user, SlFailure **failure)
{
	PoolEntry  *entry = choose_entry(shard, user);
	SlConn	   *conn = &entry->conn;

	if (has_stale)
		close_stale();

	/* Whoever is reading from it takes the rest in first. */
	*failure = NULL;
	if (conn->owner != NULL)
		conn->yield(conn);
	conn->plain_values = false;
	conn->hidden = NULL;
	conn->is_checked = false;
	conn->uses++;
	if (conn->txn.level > 0)
	{
		/* It cannot be replaced, even if the server's options have changed. */
		if (conn->state != SL_CONN_OPEN || !sl_pool_is_alive(conn))
			*failure = lost_in_transaction(shard);
	}
	else if (conn->state != SL_CONN_OPEN || conn->is_stale || is_lent(conn) || !sl_pool_is_alive(conn))
		*failure = open_entry_as(entry, shard);
	return *failure == NULL ? conn : NULL;
}

/* The same for the current user. */
SlConn *
sl_pool_get(SlShard *shard, SlFailure **failure)
{
	return sl_pool_get_as(shard, GetUserId(), failure);
}

/* Can one go on with opening it? */
static bool
is_ready(const SlConn *conn)
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
 * The current user is going to need a connection, but not yet: begins to open it, or
 * goes on with that, and waits for nothing.  Whatever is in the way is met again, and
 * told, by who needs it.
 */
void
sl_pool_foresee(SlShard *shard)
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

			/* Not all sessions at the same moment. */
			if (pg_prng_uint32(&pg_global_prng_state) % FORESIGHT != 0 || !AcquireExternalFD())
				break;
			ReleaseExternalFD();
			(void) open_entry(entry, shard);
			break;
		default:
			if (is_ready(conn))
				(void) sl_conn_advance(conn, &failure);
			else if (GetCurrentTimestamp() >= conn->deadline)
				sl_conn_close(conn);
	}
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
