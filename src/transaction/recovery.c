/*
 * recovery.c
 *		Finishes what was left prepared on shards.
 *
 * First the shard's prepared transactions are listed, then each is looked up in the
 * router's commit log: if it is committed there, it is committed; if aborted, rolled
 * back; if still running, left to its session.  Names of other routers are not
 * touched.  Those of this router that its log does not know are left to the
 * administrator; no statement waits for them.
 *
 * Any user who can write to a shard can forge a name.  Finishing such a transaction
 * does nothing that its owner could not have done.  If no user of the router may
 * finish it, and it has the id of a transaction that is committed, it cannot be
 * distinguished from a true one whose user has lost the privileges: so statements
 * are refused, with its name.
 *
 * A shard is checked by the background worker while its slot is dirty, and by every
 * session before a statement while it is fenced, because a transaction that is
 * committed must not be overlooked.  A router's process on the shard that no session
 * of this server has could still be preparing something; as long as there is one,
 * the shard stays dirty.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_user_mapping.h"
#include "commands/dbcommands.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "transaction/transaction.h"

/* How long a shard may take to answer, and how often to check again. */
#define LIMIT_MS 5000
#define STEP_MS 20

static const char list_sql[] =
"SELECT gid FROM pg_catalog.pg_prepared_xacts"
" WHERE database OPERATOR(pg_catalog.=) pg_catalog.current_database()"
" AND pg_catalog.starts_with(gid, $1)";

static const char strangers_sql[] =
"SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity"
" WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database()"
" AND pg_catalog.starts_with(application_name, $1)"
" AND pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()"
" AND pid OPERATOR(pg_catalog.<>) ALL ($2::pg_catalog.int4[])";

/* What the check of a shard found. */
typedef struct Look
{
	SlShard    *shard;
	SlConn	   *conn;			/* that lists */
	bool		is_borrowed;	/* the caller's */
	int			finished;
	const char *committed_left; /* one that is decided, and not finished */
	int			left;			/* aborted, or not known */
	bool		is_busy;		/* another session is finishing one */
	SlFailure  *failure;
} Look;

/* Connecting as the users that prepared -------------------------------------- */

/* All users with a user mapping for this shard; then the server's owner. */
static List *
mapped_users(const SlShard *shard)
{
	Oid			common = get_foreign_server_oid(SL_TABLES_SERVER_NAME, true);
	Relation	relation = table_open(UserMappingRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	List	   *users = list_make1_oid(GetUserId());
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_user_mapping mapping = (Form_pg_user_mapping) GETSTRUCT(tuple);

		if ((mapping->umserver == shard->server || mapping->umserver == common) &&
			OidIsValid(mapping->umuser))
			users = list_append_unique_oid(users, mapping->umuser);
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	users = list_append_unique_oid(users, GetForeignServer(shard->server)->owner);
	return list_append_unique_oid(users, BOOTSTRAP_SUPERUSERID);
}

/* Any user can read the list, so the first one that can connect will do. */
static void
open_list(Look *look)
{
	ListCell   *cell;

	if (look->is_borrowed)
		return;
	foreach(cell, mapped_users(look->shard))
	{
		look->conn = sl_remote_try_open_as(look->shard, lfirst_oid(cell), &look->failure);

		/* A server that does not answer does not answer another user either. */
		if (look->conn != NULL || look->failure->is_silent)
			return;
	}
}

/* Finishing ------------------------------------------------------------------- */

static bool
user_exists(Oid user)
{
	return SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(user));
}

/* Tries to finish one as a user.  Returns true if it is over, also by another session. */
static bool
finish_as(Look *look, const char *sql, Oid user)
{
	SlFailure  *failure = NULL;
	SlConn	   *conn = sl_remote_try_open_as(look->shard, user, &failure);

	if (conn == NULL)
		return false;
	(void) sl_remote_try(conn, sql, 0, NULL, sl_wait_deadline(LIMIT_MS), &failure);
	if (failure == NULL)
		look->finished++;
	else if (failure->sqlstate == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
		look->is_busy = true;
	sl_conn_close(conn);
	return failure == NULL || failure->sqlstate == ERRCODE_UNDEFINED_OBJECT;
}

/*
 * Finishes one: as the user who prepared it, or, if that one cannot log in any
 * more, as another, who may be a superuser on the shard.
 */
static bool
finish_prepared(Look *look, const char *name, const SlGid *gid, SlDecision decision)
{
	const char *sql = psprintf("%s PREPARED '%s'",
							   decision == SL_DECISION_COMMIT ? "COMMIT" : "ROLLBACK", name);
	ListCell   *cell;

	if (user_exists(gid->user) && finish_as(look, sql, gid->user))
		return true;
	if (look->is_busy)
		return false;
	foreach(cell, mapped_users(look->shard))
	{
		if (lfirst_oid(cell) != gid->user && finish_as(look, sql, lfirst_oid(cell)))
			return true;
	}
	return false;
}

static void
check_prepared(Look *look, const char *name)
{
	SlGid		gid;
	SlDecision	decision;

	if (!sl_gid_parse(name, &gid))
		return;
	decision = sl_gid_decision(&gid);
	if (decision == SL_DECISION_OPEN)
		return;

	/*
	 * Its session commits it when it has its turn on the shard
	 * (commit_lock.c).  Must follow the decision: a transaction is announced
	 * before it commits.
	 */
	if (decision == SL_DECISION_COMMIT && sl_commit_lock_is_at_work(gid.xid))
		return;
	if (decision != SL_DECISION_UNKNOWN && finish_prepared(look, name, &gid, decision))
		return;
	if (decision == SL_DECISION_COMMIT)
		look->committed_left = pstrdup(name);
	else
		look->left++;
}

/* Returns how the names of this router's prepared transactions begin. */
char *
sl_recover_own_prefix(void)
{
	return psprintf(SL_GID_PREFIX "%016llx_%u_", (unsigned long long) sl_router_instance(),
					MyDatabaseId);
}

static void
check_all_prepared(Look *look)
{
	const char *params[] = {sl_recover_own_prefix()};
	PGresult   *result;

	/* One row at a time is what sl_remote_try() keeps: so an array of all. */
	result = sl_remote_try(look->conn, psprintf("SELECT pg_catalog.array_agg(gid) FROM (%s) l", list_sql),
						   1, params, sl_wait_deadline(LIMIT_MS), &look->failure);
	if (result != NULL && sl_remote_value(result, 0, 0) != NULL)
	{
		char	   *names = pstrdup(sl_remote_value(result, 0, 0));

		for (char *name = strtok(names, "{,}"); name != NULL; name = strtok(NULL, "{,}"))
			check_prepared(look, name);
	}
}

/* Has the router processes on the shard that belong to no session any more? */
static bool
has_strangers(Look *look)
{
	StringInfoData pids;
	SlConnSlot *slots;
	int			count = sl_shmem_conns(&slots);
	const char *params[2];
	PGresult   *result;

	initStringInfo(&pids);
	appendStringInfoChar(&pids, '{');
	for (int i = 0; i < count; i++)
	{
		if (slots[i].shard_id == look->shard->id && slots[i].remote_pid != 0)
			appendStringInfo(&pids, "%s%d", pids.len > 1 ? "," : "", slots[i].remote_pid);
	}
	appendStringInfoChar(&pids, '}');
	params[0] = psprintf("shardlet:%s:", get_database_name(MyDatabaseId));
	params[1] = pids.data;
	result = sl_remote_try(look->conn, strangers_sql, 2, params, sl_wait_deadline(LIMIT_MS),
						   &look->failure);
	return result == NULL || sl_remote_value(result, 0, 0) == NULL ||
		strcmp(sl_remote_value(result, 0, 0), "0") != 0;
}

/*
 * Checks a shard's prepared transactions and finishes what can be, over a connection
 * that is idle, or a new one.  Returns NULL, or why it could not be done; then the
 * shard's flags stay.  If that was because another session is doing it, the failure
 * is not "lost".
 */
SlFailure *
sl_recover_shard(SlShard *shard, SlConn *conn, int *finished)
{
	SlShardSlot *slot = sl_shmem_shard(shard->id);
	uint32		changes = pg_atomic_read_u32(&slot->changes);
	Look		look = {.shard = shard,.conn = conn,.is_borrowed = conn != NULL};
	bool		strangers = true;

	open_list(&look);
	if (look.conn != NULL)
		check_all_prepared(&look);
	if (look.failure == NULL && look.conn != NULL)
		strangers = has_strangers(&look);
	if (look.conn != NULL && !look.is_borrowed)
		sl_conn_close(look.conn);
	*finished += look.finished;
	if (look.failure != NULL)
		return look.failure;
	if (look.committed_left != NULL)
	{
		look.failure = sl_failure_unreachable(NameStr(shard->name),
											  psprintf("Transaction \"%s\" is committed, and has not been finished there yet.",
													   look.committed_left));
		look.failure->hint = "See shardlet.prepared_transactions.";
		look.failure->lost = !look.is_busy;
		return look.failure;
	}
	(void) sl_shmem_unflag(slot, SL_SHARD_FENCED | (strangers || look.left > 0 ? 0 : SL_SHARD_DIRTY),
						   changes);
	return NULL;
}

/* Finishes a committed transaction, or says why that is not possible. */
static SlFailure *
finish_committed(SlShard *shard, SlConn *conn)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet recovery",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	SlFailure  *failure;
	int			finished = 0;

	/* Another session may be doing it: that takes a moment. */
	while ((failure = sl_recover_shard(shard, conn, &finished)) != NULL && !failure->lost)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(STEP_MS * 1000L);
	}
	MemoryContextSwitchTo(old_context);
	if (failure != NULL)
	{
		SlFailure  *copy = sl_failure_unreachable(NameStr(shard->name),
												  failure->detail ? failure->detail : failure->message);

		copy->hint = failure->hint ? pstrdup(failure->hint) : NULL;
		failure = copy;
	}
	MemoryContextDelete(context);
	return failure;
}

/*
 * Before a statement on a shard, over a connection that is open and idle: if a
 * committed transaction may be unfinished there, finishes it, or says why the
 * statement cannot run.  The same for what the shard knows of this router, once for
 * each connection.
 */
SlFailure *
sl_recover_before(SlShard *shard, SlConn *conn)
{
	SlFailure  *failure = NULL;

	if ((pg_atomic_read_u32(&conn->shard_slot->flags) & SL_SHARD_FENCED) != 0)
		failure = finish_committed(shard, conn);
	return failure == NULL && !conn->is_judged ? sl_state_check(shard, conn) : failure;
}

/* A shard that is offline is checked when it is back; no statement waits for it. */
static void
leave_offline(const SlShard *shard)
{
	SlShardSlot *slot = sl_shmem_shard(shard->id);

	(void) sl_shmem_unflag(slot, SL_SHARD_DIRTY, pg_atomic_read_u32(&slot->changes));
}

/* Checks all shards, as far as they can be reached. */
void
sl_recover_all(int *finished)
{
	List	   *shards = sl_shard_all();
	int			count;
	SlReply    *replies = sl_broadcast_make(shards, false, &count);
	ListCell   *cell;

	foreach(cell, shards)
	{
		SlShard    *shard = lfirst(cell);

		if (shard->state == SL_STATE_OFFLINE)
			leave_offline(shard);
	}

	/*
	 * Connects to all at a time, to find those that do not answer.  One that
	 * refuses this user may accept another.
	 */
	sl_broadcast_open(replies, count);
	for (int i = 0; i < count; i++)
	{
		SlReply    *reply = &replies[i];

		if (reply->failure == NULL || !reply->failure->is_silent)
			(void) sl_recover_shard(reply->shard, reply->failure == NULL ? reply->conn : NULL,
									finished);
	}
}
