/*
 * kept.c
 *		Commands of every transaction, prepared once for each connection.
 *
 * To parse and keep BEGIN with its options costs a shard more than half of what
 * a change of one row does, and a session begins nearly all its transactions
 * alike.  So that BEGIN is prepared, together with COMMIT and the question for
 * the transaction's id.  Together, because a shard may forget what was prepared,
 * as when a pooler resets it: BEGIN finds that out, its caller begins anew, and
 * a transaction that began this way can end this way.
 */
#include "postgres.h"

#include "remote/remote.h"

#define XID_SQL "SELECT pg_catalog.pg_current_xact_id()"

static bool
has_kept(const SlConn *conn)
{
	return conn->kept_begin[0] != '\0' && conn->kept_generation == conn->generation;
}

static void
write_name(const SlConn *conn, const char *word, char *name, size_t size)
{
	snprintf(name, size, "shardlet_%s_%llu", word, (unsigned long long) conn->kept_number);
}

static void
prepare(SlConn *conn, const char *word, const char *sql)
{
	char		name[64];

	write_name(conn, word, name, sizeof(name));
	if (!PQsendPrepare(conn->pg, name, sql, 0, NULL))
		sl_flight_fail_to_send(conn);
	sl_flight_expect(conn, SL_EXPECT_PRELUDE);
}

/*
 * In a transaction of their own: a query takes a snapshot when it is prepared,
 * and what BEGIN says must be said before that.
 */
static void
prepare_all(SlConn *conn, const char *begin)
{
	strlcpy(conn->kept_begin, begin, sizeof(conn->kept_begin));
	conn->kept_number = ++conn->prepare_counter;
	conn->kept_generation = conn->generation;
	prepare(conn, "begin", begin);
	prepare(conn, "commit", "COMMIT");
	prepare(conn, "xid", XID_SQL);
	sl_flight_sync(conn);
}

static void
send_kept(SlConn *conn, const char *word, SlExpect what)
{
	char		name[64];

	write_name(conn, word, name, sizeof(name));
	if (!PQsendQueryPrepared(conn->pg, name, 0, NULL, NULL, NULL, 0))
		sl_flight_fail_to_send(conn);
	sl_flight_expect(conn, what);
}

/* Sends one that is prepared if BEGIN was. */
static void
send_either(SlConn *conn, const char *word, const char *sql, SlExpect what)
{
	if (conn->txn.is_kept && has_kept(conn))
	{
		send_kept(conn, word, what);
		return;
	}
	if (!PQsendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, 0))
		sl_flight_fail_to_send(conn);
	sl_flight_expect(conn, what);
}

/*
 * Begins a transaction.  Returns true if that was prepared: then the caller begins
 * anew if the shard has forgotten it.
 */
bool
sl_kept_begin(SlConn *conn, const char *sql)
{
	if (!has_kept(conn) && strlen(sql) < sizeof(conn->kept_begin))
		prepare_all(conn, sql);
	if (!has_kept(conn) || strcmp(conn->kept_begin, sql) != 0)
	{
		sl_flight_prelude(conn, sql, 0, NULL);
		return false;
	}
	send_kept(conn, "begin", SL_EXPECT_PRELUDE);
	return true;
}

void
sl_kept_commit(SlConn *conn, SlExpect what)
{
	send_either(conn, "commit", "COMMIT", what);
}

/* Asks for the id of a transaction that writes; it is kept in conn->txn. */
void
sl_kept_xid(SlConn *conn)
{
	send_either(conn, "xid", XID_SQL, SL_EXPECT_XID);
	conn->txn.has_asked_xid = true;
}

/* The shard has forgotten them, or may have. */
void
sl_kept_forget(SlConn *conn)
{
	conn->kept_begin[0] = '\0';
}
