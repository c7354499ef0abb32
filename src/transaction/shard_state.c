/*
 * shard_state.c
 *		Does a shard know what this router has told it?
 *
 * A shard that was restored from a backup knows an older map than the router, and a
 * router that was restored knows an older one than its shards.  Both would answer, and
 * wrongly: rows twice, or not at all.  So the shard says in the set-up of a
 * connection which router it belongs to, and the version of each map that it was told
 * of last; the router has the same numbers in catalog_map_shard, changed in the same
 * two-phase commit.  They are compared before the first statement of a connection.
 * Later changes come over this router's own connections, or raise the epoch.
 *
 * Versions may differ for a moment: a COMMIT PREPARED is under way, or a standby of
 * the router has not replayed what the shard has already got.  So unequal numbers are
 * read again, after in-doubt transactions were finished, before they are judged.  The
 * router's are read after the shard's: then the router's may be newer, and not older.
 *
 * Shards without the extension know nothing, and are not compared.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "compat.h"
#include "transaction/transaction.h"

/* How often unequal versions are read again, and how long at most. */
#define STEP_MS 50
#define ROUNDS 3
#define MAX_WAIT_MS 10000

/* Are there transactions of this router that are prepared on the shard? */
static const char prepared_sql[] =
"SELECT EXISTS (SELECT FROM pg_catalog.pg_prepared_xacts"
" WHERE database OPERATOR(pg_catalog.=) pg_catalog.current_database()"
" AND pg_catalog.starts_with(gid, $1::pg_catalog.text))";

typedef enum Verdict
{
	VERDICT_EQUAL,
	VERDICT_REPLACED,			/* the shard belongs to another router */
	VERDICT_STRANGER,			/* the shard does not know this router */
	VERDICT_SHARD_OLDER,
	VERDICT_ROUTER_OLDER
} Verdict;

/* What was found, for the message. */
typedef struct Finding
{
	Verdict		verdict;
	char	   *map;			/* NULL: the router does not know it */
	int64		on_router;
	int64		on_shard;
} Finding;

/* The shard that is being repaired, and the transaction that does it. */
static int32 exempt_id = 0;
static LocalTransactionId exempt_in = InvalidLocalTransactionId;

/*
 * Lets this transaction use a shard, or all of them, whatever they know, because that is
 * being repaired.  0 ends that; so does the end of the transaction.
 */
void
sl_state_exempt(int32 shard_id)
{
	exempt_id = shard_id;
	exempt_in = sl_local_transaction_id();
}

static bool
is_exempt(int32 shard_id)
{
	return (exempt_id == shard_id || exempt_id == SL_STATE_ALL_SHARDS) && exempt_in == sl_local_transaction_id();
}

/* The versions of this router's maps, as the shard sent them ---------------------- */

/* Returns the version that the shard has of a map, 0 for none. */
static int64
version_on_shard(const char *maps, int32 map_id)
{
	for (const char *entry = maps; entry != NULL; entry = strchr(entry, ','))
	{
		char	   *end;

		if (entry[0] == ',')
			entry++;
		if (strtol(entry, &end, 10) == map_id && end[0] == ':')
			return strtoll(end + 1, NULL, 10);
	}
	return 0;
}

static void
note_difference(Finding *finding, Verdict verdict, const char *map, int64 on_router, int64 on_shard)
{
	/* A router that is older says more than a shard that is. */
	if (finding->verdict >= verdict)
		return;
	finding->verdict = verdict;
	finding->map = map != NULL ? pstrdup(map) : NULL;
	finding->on_router = on_router;
	finding->on_shard = on_shard;
}

/* Compares the maps that the shard should know. */
static void
compare_expected(const SlConn *conn, List *expected, Finding *finding)
{
	ListCell   *cell;

	foreach(cell, expected)
	{
		const SlMapShardVersion *wanted = lfirst(cell);
		int64		found = version_on_shard(conn->state_maps, wanted->map_id);
		SlMapRow	map;

		if (wanted->is_changing || found == wanted->version || !sl_map_row_read_id(wanted->map_id, &map))
			continue;
		note_difference(finding, found < wanted->version ? VERDICT_SHARD_OLDER : VERDICT_ROUTER_OLDER,
						NameStr(map.name), wanted->version, found);
	}
}

static bool
is_expected(List *expected, int32 map_id)
{
	ListCell   *cell;

	foreach(cell, expected)
	{
		if (((const SlMapShardVersion *) lfirst(cell))->map_id == map_id)
			return true;
	}
	return false;
}

/*
 * Looks at the other maps that the shard knows: it left them, or they were dropped while
 * it was away, or the router has forgotten them.
 */
static void
compare_others(const SlConn *conn, List *expected, Finding *finding)
{
	for (const char *entry = conn->state_maps; entry != NULL; entry = strchr(entry, ','))
	{
		int32		map_id;
		int64		version;
		char	   *end;
		SlMapRow	map;

		if (entry[0] == ',')
			entry++;
		map_id = (int32) strtol(entry, &end, 10);
		version = end[0] == ':' ? strtoll(end + 1, NULL, 10) : 0;
		if (is_expected(expected, map_id) || sl_map_was_dropped(map_id))
			continue;
		if (!sl_map_row_read_id(map_id, &map))
			note_difference(finding, VERDICT_ROUTER_OLDER, NULL, 0, version);
		else if (version > map.version)
			note_difference(finding, VERDICT_ROUTER_OLDER, NameStr(map.name), map.version, version);
	}
}

static Finding
compare_state(const SlShard *shard, const SlConn *conn)
{
	Finding		finding = {.verdict = VERDICT_EQUAL};
	List	   *expected;

	if (conn->state_owner != NULL)
	{
		finding.verdict = VERDICT_REPLACED;
		return finding;
	}
	if (conn->state_epoch != NULL && strtoll(conn->state_epoch, NULL, 10) > sl_router_get()->epoch)
	{
		finding.verdict = VERDICT_REPLACED;
		return finding;
	}
	expected = sl_map_shard_versions(shard->id);
	if (conn->state_epoch == NULL)
		finding.verdict = VERDICT_STRANGER;
	compare_expected(conn, expected, &finding);
	compare_others(conn, expected, &finding);
	return finding;
}

/* Judging --------------------------------------------------------------------------- */

static SlFailure *
make_failure(const SlShard *shard, const SlConn *conn, const Finding *finding)
{
	SlFailure  *failure = palloc0(sizeof(SlFailure));
	const char *name = NameStr(shard->name);
	const char *quoted = quote_literal_cstr(name);

	failure->sqlstate = SL_ERR_IDENTITY;
	switch (finding->verdict)
	{
		case VERDICT_REPLACED:
			failure->message = psprintf("shard \"%s\" was taken over from this router", name);
			failure->detail = conn->state_owner != NULL ?
				psprintf("It belongs to router \"%s\".", conn->state_owner) :
				"Another copy of this router has taken over.";
			failure->hint = "If this is to be the router, run shardlet.take_over(). Otherwise shardlet.drop_shard() forgets the shard.";
			break;
		case VERDICT_STRANGER:
			failure->message = psprintf("shard \"%s\" does not know this router", name);
			failure->detail = "It was restored from a backup, or the extension was created again in it.";
			failure->hint = psprintf("Run shardlet.resolve_map(%s), which gives it the router's maps again.", quoted);
			break;
		case VERDICT_SHARD_OLDER:
			failure->message = psprintf("shard \"%s\" has an older map than the router", name);
			failure->detail = psprintf("Map \"%s\" has version %lld on the shard, and the router has told it of version %lld. It may have been restored from a backup.",
									   finding->map, (long long) finding->on_shard, (long long) finding->on_router);
			failure->hint = psprintf("See shardlet.map_differences(%s). Bring the shard's latest state back, or run shardlet.resolve_map(%s).",
									 quoted, quoted);
			break;
		default:
			failure->message = psprintf("this router has an older map than shard \"%s\"", name);
			failure->detail = finding->map != NULL ?
				psprintf("Map \"%s\" has version %lld on the shard, and version %lld on the router. The router may have been restored from a backup.",
						 finding->map, (long long) finding->on_shard, (long long) finding->on_router) :
				"The shard has a map that this router does not know. The router may have been restored from a backup.";
			failure->hint = psprintf("See shardlet.map_differences(). shardlet.rebuild_map() brings the maps back from what the shards know; shardlet.resolve_map(%s) decides for one shard.",
									 quoted);
			break;
	}
	return failure;
}

/* Reads the state again; if that fails, why. */
static SlFailure *
read_again(SlShard *shard, SlConn *conn, bool *may_change)
{
	SlFailure  *failure = NULL;
	const char *prefix = sl_recover_own_prefix();
	PGresult   *result;
	int			finished = 0;

	if (conn->txn.level == 0 && !RecoveryInProgress())
		(void) sl_recover_shard(shard, conn, &finished);
	if (conn->state != SL_CONN_OPEN)
		return sl_failure_unreachable(NameStr(shard->name), "The connection was lost.");
	result = sl_remote_try(conn, prepared_sql, 1, &prefix, sl_wait_deadline(MAX_WAIT_MS), &failure);
	if (failure != NULL)
		return failure;
	*may_change = sl_remote_bool(result, 0, 0);
	result = sl_remote_try(conn, SL_STATE_SQL, 1, &conn->router, sl_wait_deadline(MAX_WAIT_MS), &failure);
	if (failure == NULL && result != NULL)
		sl_conn_note_state(conn, result);
	return failure;
}

/*
 * Compares until the versions are equal, or will not become so.  Returns why the shard
 * cannot be used, or NULL.  A shard that is behind while a commit of a living session
 * is under way there can be used, as before that commit; then "is_final" is false.
 */
static SlFailure *
judge(SlShard *shard, SlConn *conn, bool *is_final)
{
	TimestampTz last = sl_wait_deadline(MAX_WAIT_MS);
	Finding		finding = compare_state(shard, conn);
	SlFailure  *failure;

	*is_final = true;
	for (int round = 0; finding.verdict != VERDICT_EQUAL; round++)
	{
		bool		may_change = false;

		failure = read_again(shard, conn, &may_change);
		if (failure != NULL)
			return failure;
		finding = compare_state(shard, conn);
		*is_final = true;
		if (finding.verdict == VERDICT_EQUAL)
			break;
		*is_final = !may_change || finding.verdict != VERDICT_SHARD_OLDER;
		if (round >= ROUNDS && !*is_final)
			return NULL;
		if (GetCurrentTimestamp() >= last || (round >= ROUNDS && !may_change && !RecoveryInProgress()))
			return make_failure(shard, conn, &finding);
		CHECK_FOR_INTERRUPTS();
		pg_usleep(STEP_MS * 1000L);
	}
	return NULL;
}

/*
 * Compares what the shard of an open and idle connection knows with what it must know.
 * Returns why it cannot be used, or NULL; then the connection is not looked at again,
 * unless a commit is under way there.
 */
SlFailure *
sl_state_check(SlShard *shard, SlConn *conn)
{
	MemoryContext context;
	MemoryContext old_context;
	SlFailure  *failure;
	bool		is_replaced;
	bool		is_final;

	if (conn->router == NULL || !conn->has_state)
	{
		conn->is_judged = true;
		return NULL;
	}
	if (is_exempt(shard->id))
		return NULL;

	/* What was accepted when the shard's transaction began is, until it ends. */
	if (conn->is_behind && conn->txn.level > 0)
		return NULL;
	context = AllocSetContextCreate(CurrentMemoryContext, "shardlet shard state", ALLOCSET_SMALL_SIZES);
	old_context = MemoryContextSwitchTo(context);
	failure = judge(shard, conn, &is_final);
	MemoryContextSwitchTo(old_context);
	is_replaced = failure != NULL && failure->sqlstate == SL_ERR_IDENTITY &&
		compare_state(shard, conn).verdict == VERDICT_REPLACED;
	if (conn->shard_slot != NULL)
		sl_shmem_set_lost(conn->shard_slot, is_replaced ? (uint64) sl_router_get()->epoch : 0);
	if (failure != NULL)
		return failure;
	MemoryContextDelete(context);
	conn->is_judged = is_final;
	conn->is_behind = !is_final;
	return NULL;
}

/*
 * Makes the shards refuse to prepare the transactions of these connections if they were
 * taken over.  Sent with the next command; a prepared transaction keeps takeovers
 * waiting.
 */
void
sl_state_check_prepare(SlReply *replies, int count)
{
	const SlRouter *router = sl_router_get();
	const char *params[2];

	if (!router->exists)
		return;
	params[0] = router->id;
	params[1] = psprintf("%lld", (long long) router->epoch);
	for (int i = 0; i < count; i++)
	{
		SlConn	   *conn = replies[i].conn;

		if (conn->state == SL_CONN_OPEN && conn->has_state && !conn->is_bare)
			sl_pipeline_send_preceding(conn, "SELECT shardlet_internal.router_check($1, $2)", 2, params);
	}
}
