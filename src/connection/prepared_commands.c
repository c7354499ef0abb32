/*
 * prepared_commands.c
 *		Commands of every transaction, prepared once on each connection.
 *
 * Parsing a BEGIN with its options costs a shard more than half of what an update
 * of one row does, and a session begins nearly all its transactions in the same
 * way.  So that BEGIN is prepared, together with COMMIT, the query for the
 * transaction's id and the query that takes its snapshot.  A shard may lose
 * prepared statements, as when a pooler resets the session.  They are lost
 * together, so BEGIN detects that, its caller begins again, and a transaction that
 * began with the prepared BEGIN can end with the prepared COMMIT.
 */
#include "postgres.h"

#include "connection/connection.h"

#define XID_SQL "SELECT pg_catalog.pg_current_xact_id()"
#define MARK_SQL "SELECT 1"

static bool
has_prepared_begin(const SlConn *conn)
{
	return conn->begin.sql[0] != '\0' && conn->begin.generation == conn->generation;
}

static void
write_name(const SlConn *conn, const char *word, char *name, size_t size)
{
	snprintf(name, size, "shardlet_%s_%llu", word, (unsigned long long) conn->begin.number);
}

static void
prepare_command(SlConn *conn, const char *word, const char *sql)
{
	char		name[64];

	write_name(conn, word, name, sizeof(name));
	if (!PQsendPrepare(conn->pg, name, sql, 0, NULL))
		sl_pipeline_fail_to_send(conn);
	sl_pipeline_expect(conn, SL_EXPECT_PRECEDING);
}

/*
 * Prepares the commands in a transaction of their own: a query takes a snapshot
 * when it is prepared, and the options of BEGIN must be set before that.
 */
static void
prepare_commands(SlConn *conn, const char *begin)
{
	strlcpy(conn->begin.sql, begin, sizeof(conn->begin.sql));
	conn->begin.number = ++conn->prepare_counter;
	conn->begin.generation = conn->generation;
	prepare_command(conn, "begin", begin);
	prepare_command(conn, "commit", "COMMIT");
	prepare_command(conn, "xid", XID_SQL);
	prepare_command(conn, "mark", MARK_SQL);
	sl_pipeline_sync(conn);
}

static void
send_prepared(SlConn *conn, const char *word, SlExpect what)
{
	char		name[64];

	write_name(conn, word, name, sizeof(name));
	if (!PQsendQueryPrepared(conn->pg, name, 0, NULL, NULL, NULL, 0))
		sl_pipeline_fail_to_send(conn);
	sl_pipeline_expect(conn, what);
}

/* Sends the prepared command if the transaction began with the prepared BEGIN. */
static void
send_command(SlConn *conn, const char *word, const char *sql, SlExpect what)
{
	if (conn->txn.begun_prepared && has_prepared_begin(conn))
	{
		send_prepared(conn, word, what);
		return;
	}
	if (!PQsendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, 0))
		sl_pipeline_fail_to_send(conn);
	sl_pipeline_expect(conn, what);
}

/*
 * Begins a transaction.  Returns true if the prepared BEGIN was sent: then the
 * caller begins again if the shard has lost it.
 */
bool
sl_prepared_begin(SlConn *conn, const char *sql)
{
	if (!has_prepared_begin(conn) && strlen(sql) < sizeof(conn->begin.sql))
		prepare_commands(conn, sql);
	if (!has_prepared_begin(conn) || strcmp(conn->begin.sql, sql) != 0)
	{
		sl_pipeline_send_preceding(conn, sql, 0, NULL);
		return false;
	}
	send_prepared(conn, "begin", SL_EXPECT_PRECEDING);
	return true;
}

void
sl_prepared_commit(SlConn *conn, SlExpect what)
{
	send_command(conn, "commit", "COMMIT", what);
}

/* Sends the query for the id of a transaction that writes, for conn->txn.xid. */
void
sl_prepared_xid(SlConn *conn)
{
	send_command(conn, "xid", XID_SQL, SL_EXPECT_XID);
	conn->txn.has_queried_xid = true;
}

/*
 * Makes the shard take the snapshot of the transaction and send the result at
 * once, which is an SL_EVENT_MARK.
 */
void
sl_prepared_take_snapshot(SlConn *conn)
{
	send_command(conn, "mark", MARK_SQL, SL_EXPECT_MARK);
	if (!PQsendFlushRequest(conn->pg))
		sl_pipeline_fail_to_send(conn);
}

/* The shard has lost the prepared commands, or may have. */
void
sl_prepared_discard(SlConn *conn)
{
	conn->begin.sql[0] = '\0';
}
