/*
 * snapshot_export.c
 *		pg_export_snapshot() and SET TRANSACTION SNAPSHOT, with the shards' snapshots.
 *
 * A transaction that exports its snapshot has those of the shards exported as well.
 * One that imports it, as the workers of "pg_dump -j" do, imports these with its
 * first statement that goes to shards.  Nothing is stored for that: the name of an
 * exported snapshot is made of the transaction's number in its session.  That of the
 * router leads to the session that exported it; shared memory has this session's
 * connections; and on a shard, pg_locks has the number of their transactions.
 * All exports of a REPEATABLE READ transaction are the same snapshot, so the first
 * one of a shard's transaction will do.
 *
 * If something of this is missing, as when the exporting transaction was READ
 * COMMITTED or has no snapshot of a shard, the statement fails.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "compat.h"
#include "transaction/transaction.h"

/* The name of the imported snapshot; empty: none was imported. */
static char imported[64] = "";

static const char export_sql[] = "SELECT pg_catalog.pg_export_snapshot()";

static const char number_sql[] =
"SELECT virtualtransaction FROM pg_catalog.pg_locks"
" WHERE locktype OPERATOR(pg_catalog.=) 'virtualxid' AND granted"
" AND virtualxid OPERATOR(pg_catalog.=) virtualtransaction"
" AND pid OPERATOR(pg_catalog.=) $1::pg_catalog.int4";

/* The transaction has imported a snapshot of the router; NULL: it is over. */
void
sl_snapshot_note_import(const char *name)
{
	strlcpy(imported, name != NULL ? name : "", sizeof(imported));
}

bool
sl_snapshot_is_imported(void)
{
	return imported[0] != '\0';
}

/* The router's snapshot is going to be exported: exports those of the shards. */
void
sl_snapshot_export(void)
{
	dlist_iter	iter;
	SlReply    *replies;
	int			count = 0;

	dlist_foreach(iter, sl_txn_participants())
		count++;
	replies = palloc0(sizeof(SlReply) * Max(count, 1));
	count = 0;
	dlist_foreach(iter, sl_txn_participants())
	{
		SlConn	   *conn = dlist_container(SlConn, txn.node, iter.cur);

		if (conn->owner != NULL)
			conn->yield(conn);
		replies[count++].conn = conn;
	}
	sl_broadcast_run(replies, count, export_sql, 0, NULL, sl_connect_timeout);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure != NULL)
			sl_failure_raise(replies[i].failure, replies[i].conn->shard, export_sql);
	}
}

/* Importing ------------------------------------------------------------------------ */

pg_noreturn static void
refuse_import(const char *shard)
{
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("snapshot \"%s\" does not include shard \"%s\"", imported, shard),
			errdetail("The transaction that exported it has no snapshot of this shard, or is over."),
			errhint("Export it in a transaction that begins with BEGIN ISOLATION LEVEL REPEATABLE READ, with shardlet.consistent_reads on, while all shards can be reached, and keep that transaction open."));
}

/* The process whose transaction exported the snapshot; 0 if that is over. */
static int
exporter_pid(void)
{
	unsigned int session;
	unsigned int transaction;
	const PGPROC *proc;

	if (sscanf(imported, "%8X-%8X-", &session, &transaction) != 2)
		return 0;
	proc = sl_proc_of_session((int) session);
	if (proc == NULL || sl_transaction_of_proc(proc) != transaction)
		return 0;
	return proc->pid;
}

/* The exporter's process on a shard; 0 if it has none there in a transaction. */
static int
exporter_on(const SlConnSlot *slots, int count, int pid, int32 shard_id)
{
	for (int i = 0; i < count; i++)
	{
		if (slots[i].pid == pid && slots[i].shard_id == shard_id && slots[i].in_transaction)
			return slots[i].remote_pid;
	}
	return 0;
}

/* The name under which a process on the shard has exported its snapshot, or NULL. */
static char *
name_on_shard(SlConn *conn, int remote_pid)
{
	const char *params[] = {psprintf("%d", remote_pid)};
	SlFailure  *failure;
	PGresult   *result = sl_remote_try(conn, number_sql, lengthof(params), params,
									   sl_wait_deadline(sl_connect_timeout), &failure);
	const char *number = result != NULL ? sl_remote_value(result, 0, 0) : NULL;
	unsigned int session;
	unsigned int transaction;

	if (number == NULL || sscanf(number, "%u/%u", &session, &transaction) != 2)
		return NULL;
	return psprintf("%08X-%08X-1", session, transaction);
}

/*
 * Begins the transaction on shards that are connected to, with the snapshots that
 * came with the imported one.  Raises an error if one cannot be had.
 */
void
sl_snapshot_import(SlReply *replies, int count, const SlTxnUse *use)
{
	SlConnSlot *slots;
	int			slot_count = sl_shmem_conns(&slots);
	int			pid = exporter_pid();

	for (int i = 0; i < count; i++)
	{
		SlReply    *reply = &replies[i];
		int			remote_pid = exporter_on(slots, slot_count, pid, reply->shard->id);
		char	   *name = NULL;

		if (reply->failure != NULL)
			sl_failure_raise(reply->failure, NameStr(reply->shard->name), NULL);
		if (remote_pid != 0)
			name = name_on_shard(reply->conn, remote_pid);
		if (name == NULL)
			refuse_import(NameStr(reply->shard->name));
		sl_txn_join(reply->conn, use);
		sl_pipeline_send_preceding(reply->conn, psprintf("SET TRANSACTION SNAPSHOT %s",
														 quote_literal_cstr(name)), 0, NULL);
	}
	sl_broadcast_run(replies, count, "SELECT 1", 0, NULL, sl_connect_timeout);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure != NULL || pid == 0 || exporter_pid() != pid)
			refuse_import(NameStr(replies[i].shard->name));
	}
}
