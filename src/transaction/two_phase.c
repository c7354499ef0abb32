/*
 * two_phase.c
 *		Transactions that are prepared on several shards, and their names.
 *
 * The decision is the router's own commit record: a prepared transaction carries
 * the router's transaction id in its name, and recovery looks that up in the router's
 * commit log.  So the id must be on disk before a shard gets it, or a crash could
 * give it to another transaction; and the commit
 * must be on disk before the first shard commits, whatever synchronous_commit
 * says.  A message in the log does both without a table that would have to be
 * emptied.
 *
 * The name: shardlet_<router instance>_<database>_<transaction>_<connection>_<user>.
 * The user is the one whose connection prepared it, because only that one, or a
 * superuser, can finish it.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "replication/message.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "compat.h"
#include "transaction/transaction.h"

/* How long a commit waits for a shard before it is left to recovery. */
#define FINISH_MS 10000

/* Writes the name of a prepared transaction. */
static char *
make_gid(const SlGid *gid)
{
	return psprintf(SL_GID_PREFIX "%016llx_%u_%llu_%d_%u",
					(unsigned long long) gid->router_instance, gid->database,
					(unsigned long long) gid->xid, gid->number, gid->user);
}

/* Takes a name apart.  Returns false if it is not one that a router would write. */
bool
sl_gid_parse(const char *name, SlGid *gid)
{
	unsigned long long router_instance;
	unsigned long long xid;
	int			end = 0;

	if (sscanf(name, SL_GID_PREFIX "%16llx_%u_%llu_%d_%u%n", &router_instance, &gid->database,
			   &xid, &gid->number, &gid->user, &end) != 5 || name[end] != '\0')
		return false;
	gid->router_instance = router_instance;
	gid->xid = xid;
	return strcmp(make_gid(gid), name) == 0;
}

/*
 * Can the log know of it?  Any user who writes to a shard can prepare a transaction
 * on it, with any name.  An id that this router has not assigned yet is none of its
 * own; nor one that no transaction has.
 */
static bool
is_given(uint64 xid)
{
	FullTransactionId id = FullTransactionIdFromU64(xid);

	return TransactionIdIsNormal(XidFromFullTransactionId(id)) &&
		FullTransactionIdPrecedes(id, ReadNextFullTransactionId());
}

/*
 * What became of it?  Only for names of this router and database.  Whatever the
 * name, this is no error, which would keep others from being finished.
 */
SlDecision
sl_gid_decision(const SlGid *gid)
{
	LOCAL_FCINFO(fcinfo, 1);
	FmgrInfo	function;
	Datum		status;
	char	   *word;

	if (!is_given(gid->xid))
		return SL_DECISION_UNKNOWN;
	fmgr_info(F_PG_XACT_STATUS, &function);
	InitFunctionCallInfoData(*fcinfo, &function, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = UInt64GetDatum(gid->xid);
	fcinfo->args[0].isnull = false;
	status = FunctionCallInvoke(fcinfo);
	if (fcinfo->isnull)
		return SL_DECISION_UNKNOWN;
	word = TextDatumGetCString(status);
	if (strcmp(word, "committed") == 0)
		return SL_DECISION_COMMIT;
	return strcmp(word, "aborted") == 0 ? SL_DECISION_ROLLBACK : SL_DECISION_OPEN;
}

/* Preparing ------------------------------------------------------------------ */

static void
check_possible(void)
{
	if (!sl_shmem_is_shared())
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("transaction over several shards needs shardlet to be preloaded"),
				errhint("Add shardlet to shared_preload_libraries of the router and restart it."));
	if (sl_router_instance() == 0)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("router has no instance id"),
				errdetail("Its file could not be written when the server started; the server's log says why."));
}

/* Takes the transaction's id, and makes sure that no other ever gets it. */
static uint64
take_xid(void)
{
	uint64		xid = U64FromFullTransactionId(GetTopFullTransactionId());

	sl_log_message(SL_WRAPPER_NAME, "", 0);
	XLogFlush(XactLastRecEnd);
	ForceSyncCommit();
	return xid;
}

static void
name_transactions(SlReply *replies, int count)
{
	SlGid		gid = {.router_instance = sl_router_instance(),.database = MyDatabaseId,.xid = take_xid()};
	MemoryContext old_context = MemoryContextSwitchTo(TopTransactionContext);

	for (int i = 0; i < count; i++)
	{
		gid.number = i + 1;
		gid.user = replies[i].conn->user;
		replies[i].conn->txn.gid = make_gid(&gid);
		replies[i].sql = psprintf("PREPARE TRANSACTION '%s'", replies[i].conn->txn.gid);
	}
	MemoryContextSwitchTo(old_context);
}

/* The shard's message is right, but its hint does not fit the router. */
static void
explain_failure(SlFailure *failure)
{
	if (failure->sqlstate == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
		failure->hint = "A transaction that writes to several shards needs max_prepared_transactions > 0 on each of them. Set it there and restart that server, or write to one shard in a transaction.";
	else if (failure->sqlstate == ERRCODE_OUT_OF_MEMORY)
		failure->hint = "Raise max_prepared_transactions on that shard, or see shardlet.prepared_transactions for what takes the places.";
	else if (failure->sqlstate == ERRCODE_FEATURE_NOT_SUPPORTED)
		failure->hint = "A transaction that writes to several shards cannot use NOTIFY, temporary tables or cursors WITH HOLD on them; a trigger on the shard may do that.";
}

static void
check_prepared(const SlReply *replies, int count)
{
	for (int i = 0; i < count; i++)
	{
		const SlReply *reply = &replies[i];

		if (reply->failure != NULL)
		{
			explain_failure(reply->failure);
			sl_failure_raise(reply->failure, reply->conn->shard, "PREPARE TRANSACTION");
		}

		/* In a transaction that has failed it is a ROLLBACK, and no error. */
		if (reply->command == NULL || strcmp(reply->command, "PREPARE TRANSACTION") != 0)
			ereport(ERROR,
					errcode(ERRCODE_TRANSACTION_ROLLBACK),
					errmsg("transaction on shard \"%s\" had failed", reply->conn->shard));
	}
}

/*
 * Prepares the transactions of the replies' connections, all at a time, or
 * throws.  From here on the router's commit decides.
 */
void
sl_twophase_prepare(SlReply *replies, int count)
{
	int			first = 0;

	check_possible();
	name_transactions(replies, count);
	sl_state_check_prepare(replies, count);
	sl_fault("txn_before_prepare");
	if (sl_fault_armed("txn_after_some_prepares"))
	{
		sl_broadcast_commands(replies, 1, 0);
		check_prepared(replies, 1);
		sl_fault("txn_after_some_prepares");
		first = 1;
	}
	sl_broadcast_commands(replies + first, count - first, 0);
	check_prepared(replies, count);
	sl_fault("txn_after_all_prepares");
}

/* Finishing ------------------------------------------------------------------ */

static void
make_commands(SlReply *replies, int count, const char *command)
{
	for (int i = 0; i < count; i++)
	{
		replies[i].failure = NULL;
		replies[i].sql = psprintf("%s '%s'", command, replies[i].conn->txn.gid);
	}
}

/* Recovery, or a session before a read, may have finished it. */
static bool
is_finished(const SlReply *reply)
{
	return reply->is_complete &&
		(reply->failure == NULL || reply->failure->sqlstate == ERRCODE_UNDEFINED_OBJECT);
}

/*
 * A shard that has not confirmed is flagged before the turn on it is over, so that
 * the session whose turn is next finishes it.
 */
static void
flag_unfinished(SlReply *reply)
{
	if (is_finished(reply))
		return;
	sl_shmem_flag(reply->conn->shard_slot, SL_SHARD_FENCED | SL_SHARD_DIRTY);
	ereport(WARNING,
			errmsg("transaction is committed, but shard \"%s\" has not confirmed it yet",
				   reply->conn->shard),
			errdetail_internal("%s", reply->failure->detail ? reply->failure->detail :
							   reply->failure->message),
			errhint("It is finished as soon as the shard can be reached. Until then statements that need this shard wait or fail."));
}

/* The router has committed: so do the shards.  Must raise nothing. */
void
sl_twophase_commit(SlReply *replies, int count)
{
	SlTurns		turns = {
		.has_turn = sl_commit_lock_has_turn,.send = sl_broadcast_send_command,
		.complete = flag_unfinished,.end_turn = sl_commit_lock_end_turn,.timeout_ms = FINISH_MS
	};
	int			first = 0;

	make_commands(replies, count, "COMMIT PREPARED");
	if (sl_fault_armed("txn_between_commits"))
	{
		sl_broadcast_in_turn(replies, 1, &turns);
		sl_fault("txn_between_commits");
		first = 1;
	}
	sl_broadcast_in_turn(replies + first, count - first, &turns);
	sl_fault("txn_after_all_commits");
}

/* The router has not: neither do the shards. */
void
sl_twophase_roll_back(SlReply *replies, int count)
{
	make_commands(replies, count, "ROLLBACK PREPARED");
	sl_broadcast_commands(replies, count, FINISH_MS);
	for (int i = 0; i < count; i++)
	{
		if (!is_finished(&replies[i]))
			sl_shmem_flag(replies[i].conn->shard_slot, SL_SHARD_DIRTY);
	}
}
