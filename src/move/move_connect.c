/*
 * move_connect.c
 *		The connections of a move to its shards.
 *
 * They are not of the pool, and go with the step.  Some of them have transactions
 * open for hours, whose locks DDL waits for.  So other sessions see them: the search
 * for deadlocks goes through a move as it does through every other session.  If a
 * step fails, what its connections still run is cancelled on the shards: a statement
 * that waits in a queue of locks would go on there, and be run after the move has
 * been undone.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "move/move_internal.h"

/*
 * A shard's limits are for its applications.  A move copies and counts for hours, with
 * connections that wait for each other meanwhile; shardlet.move_wait_timeout and
 * cancel_move() are its limits.  Not all servers have all of these settings.
 */
#define LIFT_LIMITS_SQL \
	"SELECT pg_catalog.set_config(name, CASE name WHEN 'lock_timeout' THEN $1 ELSE '0' END, false) FROM pg_catalog.pg_settings" \
	" WHERE name OPERATOR(pg_catalog.=) ANY ('{statement_timeout,transaction_timeout,idle_session_timeout,idle_in_transaction_session_timeout,lock_timeout}')"

/*
 * What is in the place of a table, a view for instance, would run its owner's
 * functions as the user that reads it.  Old minor versions do not have the setting.
 */
#define TABLES_ONLY_SQL \
	"SELECT pg_catalog.set_config(name, 'view, foreign-table', false) FROM pg_catalog.pg_settings" \
	" WHERE name OPERATOR(pg_catalog.=) 'restrict_nonsystem_relation_kind'"

/* Lets the search for deadlocks see the connection. */
static void
show_conn(SlConn *conn, const SlShard *shard)
{
	conn->slot = sl_shmem_take_conn();
	if (conn->slot == NULL)
		return;
	conn->slot->user = GetUserId();
	conn->slot->shard_id = shard->id;
	conn->slot->shard = shard->name;
	conn->slot->remote_pid = PQbackendPID(conn->pg);
	conn->slot->began = conn->slot->since = GetCurrentTimestamp();
	conn->slot->is_open = true;

	/* It has locks, or will: all of a step's connections count. */
	conn->slot->in_transaction = true;
}

/*
 * Returns a connection that is closed with the current memory context.  A mover's is
 * cancelled when its step fails; without a mover it belongs to the session that calls
 * move_shardlet().
 */
SlConn *
sl_move_connect(SlMover *mover, SlShard *shard)
{
	const char *limit = psprintf("%d", sl_move_wait_timeout);
	SlTarget	target;
	SlConn	   *conn;

	if (!shard->exists)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("a shard of the move does not exist any more"),
				errdetail("Its id was %d.", shard->id));
	target = sl_remote_target(shard);
	target.plain_path = true;
	conn = sl_remote_open(&target);
	if (mover != NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(mover->context);

		show_conn(conn, shard);
		mover->conns = lappend(mover->conns, conn);
		MemoryContextSwitchTo(old_context);
	}
	(void) sl_remote_exec(conn, LIFT_LIMITS_SQL, 1, &limit);
	if (!shard->bare)
		(void) sl_remote_exec(conn, TABLES_ONLY_SQL, 0, NULL);
	return conn;
}

/*
 * The same for one that copies, counts or deletes rows.  Triggers and foreign keys do
 * not fire, and policies that would keep rows from being seen are an error.  A
 * table is read by one process: tables at a time are enough for a shard that has
 * other things to do, and rows that come in the order of the table are put into
 * indexes faster.  What runs for each row is the table owner's, and run as the owner;
 * a shard without the extension cannot, which preconditions.c sees to.
 */
SlConn *
sl_move_connect_for_rows(SlMover *mover, SlShard *shard)
{
	SlConn	   *conn = sl_move_connect(mover, shard);

	(void) sl_remote_exec(conn, "SELECT pg_catalog.set_config('session_replication_role', 'replica', false),"
						  " pg_catalog.set_config('row_security', 'off', false),"
						  " pg_catalog.set_config('max_parallel_workers_per_gather', '0', false)", 0, NULL);
	if (!shard->bare)
		(void) sl_remote_exec(conn, "SELECT shardlet.copy_as_owner(true, false)", 0, NULL);
	return conn;
}

/*
 * Returns a command that writes to a table, in a form in which the shard runs it as the
 * table's owner.
 */
char *
sl_move_as_owner(const SlShard *shard, const SlMoveTable *table, char *command)
{
	if (shard->bare)
		return command;
	return psprintf("SELECT shardlet.run_as_owner(%s::pg_catalog.regclass, %s)", quote_literal_cstr(table->name),
					quote_literal_cstr(command));
}

/* Closes a connection of the step before its end. */
void
sl_move_disconnect(SlMover *mover, SlConn *conn)
{
	mover->conns = list_delete_ptr(mover->conns, conn);
	sl_conn_close(conn);
}

/* The step has failed: stops what its connections still run, and closes them. */
void
sl_move_cancel_connections(SlMover *mover)
{
	ListCell   *cell;

	if (mover->conns == NIL)
		return;
	sl_cancel(mover->conns);
	foreach(cell, mover->conns)
		sl_conn_close(lfirst(cell));
	mover->conns = NIL;
}
