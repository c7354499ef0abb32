/*
 * shard_commands.c
 *		Commands on several shards at a time, in the session's transaction.
 *
 * Where a connection of the pool turns out to have been ended while it was idle,
 * and it is sure that the command was not begun, it runs once more on a new one.
 */
#include "postgres.h"

#include "base/base.h"
#include "executor/multi_shard.h"

/* Before a shard is used, what is committed there must be finished. */
void
sl_command_open(SlReply *replies, int count)
{
	sl_broadcast_open(replies, count);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure == NULL)
			replies[i].failure = sl_recover_before(replies[i].shard, replies[i].conn);
	}
}

/* Runs a command on some of the shards; with a use, in the transaction. */
static void
run_once(SlReply *replies, int count, const char *sql, int param_count,
		 const char *const *params, const SlTxnUse *use)
{
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure != NULL || replies[i].conn == NULL)
			continue;
		replies[i].conn->orphaned_rows = replies[i].orphaned_rows;
		if (use != NULL)
			sl_txn_join(replies[i].conn, use);
		else
			replies[i].conn->is_read_only = false;
	}
	sl_broadcast_run(replies, count, sql, param_count, params, sl_shard_timeout);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].conn != NULL)
			replies[i].conn->orphaned_rows = NULL;
	}
}

/* Did the shard hang up before it came to the command, and nothing else is lost? */
static bool
can_repeat(const SlReply *reply, bool was_joined)
{
	return !was_joined && reply->failure != NULL && reply->failure->never_ran &&
		reply->command == NULL && reply->rows == 0;
}

/*
 * Runs a command on shards that are open; with a use, in the session's
 * transaction.  Failures are in the replies.
 */
void
sl_command_run(SlReply *replies, int count, const char *sql, int param_count,
			   const char *const *params, const SlTxnUse *use)
{
	bool	   *was_joined = palloc(sizeof(bool) * Max(count, 1));
	int		   *indexes = palloc(sizeof(int) * Max(count, 1));
	SlReply    *again = palloc(sizeof(SlReply) * Max(count, 1));
	int			again_count = 0;

	for (int i = 0; i < count; i++)
		was_joined[i] = replies[i].conn == NULL || replies[i].conn->txn.level > 0;
	run_once(replies, count, sql, param_count, params, use);
	for (int i = 0; i < count; i++)
	{
		if (!can_repeat(&replies[i], was_joined[i]))
			continue;
		sl_txn_abandon(replies[i].conn);
		indexes[again_count] = i;
		again[again_count++] = replies[i];
	}
	if (again_count == 0)
		return;
	sl_command_open(again, again_count);
	run_once(again, again_count, sql, param_count, params, use);
	for (int i = 0; i < again_count; i++)
		replies[indexes[i]] = again[i];
}

/*
 * Ends a command that was run with needs_savepoint: the transaction goes on, without what a
 * failed one has done.  Releasing the savepoint also ends that a read was made read-only.
 */
void
sl_command_settle(SlReply *reply)
{
	SlConn	   *conn = reply->conn;

	if (conn == NULL)
		return;
	if (reply->failure == NULL && conn->state == SL_CONN_OPEN && conn->txn.has_savepoint)
	{
		sl_txn_end_statement(conn);
		sl_pipeline_sync(conn);
	}
	sl_txn_settle(conn);
}

/* Fails if a shard has. */
void
sl_command_check(const SlReply *replies, int count, const char *sql)
{
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure != NULL)
			sl_failure_raise(replies[i].failure, NameStr(replies[i].shard->name), sql);
	}
}

/*
 * Opens connections to all of these shards for commands that are part of the
 * session's transaction.  A shard that is not available is an error.
 */
SlReply *
sl_command_begin_as(List *shards, Oid user, bool writes, int *count)
{
	SlReply    *replies;

	sl_missing_shards_check(&shards, writes, false);
	sl_txn_check_span(shards, writes);
	replies = sl_broadcast_make(shards, true, count);
	for (int i = 0; i < *count; i++)
		replies[i].user = user;
	sl_command_open(replies, *count);
	sl_command_check(replies, *count, NULL);
	return replies;
}

SlReply *
sl_command_begin(List *shards, bool writes, int *count)
{
	return sl_command_begin_as(shards, InvalidOid, writes, count);
}

/*
 * Runs a command on all these shards, in the session's transaction.  The first
 * value that a shard returned is in its reply; a failure is an error.
 */
void
sl_command_everywhere(SlReply *replies, int count, const char *sql, int param_count,
					  const char *const *params, bool writes)
{
	SlTxnUse	use = {.writes = writes};

	for (int i = 0; i < count; i++)
	{
		replies[i].rows = 0;
		replies[i].value = NULL;
	}
	if (writes)
		sl_pipeline_invalidate();
	sl_command_run(replies, count, sql, param_count, params, &use);
	sl_command_check(replies, count, sql);
}
