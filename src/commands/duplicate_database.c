/*
 * duplicate_database.c
 *		Is this database the router itself, or a shard under another name?
 *
 * Addresses do not tell (localhost, 127.0.0.1 and a socket are one machine), and
 * neither do the identifiers of server and database: a clone that was promoted, a
 * usual way to split a database by hand, shares them with its origin.  An advisory
 * lock tells: taken through one connection, it cannot be had through another one to
 * the same database.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "base/base.h"
#include "commands/commands.h"

static int64
random_key(void)
{
	int64		key;

	if (!pg_strong_random(&key, sizeof(key)))
		ereport(ERROR,
				errcode(ERRCODE_INTERNAL_ERROR),
				errmsg("could not generate a random number"));
	return key;
}

static bool
try_lock(SlConn *conn, int64 key)
{
	char	   *digits = psprintf("%lld", (long long) key);
	const char *params[] = {digits};

	return sl_remote_bool(sl_remote_query(conn, "SELECT pg_catalog.pg_try_advisory_lock($1)",
										  1, params), 0, 0);
}

/* Fails if the connection leads back to the router's own database. */
void
sl_duplicate_refuse_router(SlConn *conn)
{
	int64		key = random_key();

	/* Held until the end of the transaction, which does no harm. */
	DirectFunctionCall1(pg_advisory_xact_lock_int8, Int64GetDatum(key));
	if (!try_lock(conn, key))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("the router's own database cannot be shard \"%s\"", conn->shard),
				errhint("Name another database, or leave the address out to have one created."));
}

/*
 * Is it the shard's database?  A shard that cannot be reached is an error if
 * that matters, and another database otherwise.
 */
static bool
is_same_database(SlConn *conn, SlShard *shard, bool must_know)
{
	SlTarget	target = sl_remote_target(shard);
	int64		key = random_key();
	SlFailure  *failure;
	SlConn	   *other;
	bool		same;

	/* A database that took the shard's place is not looked at closer here. */
	target.identity = NULL;
	target.plain_path = true;
	other = sl_remote_try_open(&target, &failure);
	if (other == NULL && must_know)
		sl_failure_raise(failure, NameStr(shard->name), NULL);
	if (other == NULL)
		return false;
	same = try_lock(conn, key) && !try_lock(other, key);
	sl_conn_close(other);
	return same;
}

/*
 * Returns the shard whose database the connection is to, or NULL.  One and the same
 * database has one identity, so a database with one can only be a shard with the
 * same, or with none on record; if such a shard cannot be reached, nothing can be
 * said, and that is an error.  A database without one may still be a shard that lost
 * it, in a restore for instance.
 */
SlShard *
sl_duplicate_find(SlConn *conn, const char *identity)
{
	ListCell   *cell;

	foreach(cell, sl_shard_all())
	{
		SlShard    *shard = lfirst(cell);
		bool		has_same = identity != NULL && shard->identity != NULL &&
		strcmp(shard->identity, identity) == 0;

		if (identity != NULL && shard->identity != NULL && !has_same)
			continue;
		if (is_same_database(conn, shard, has_same))
			return shard;
	}
	return NULL;
}
