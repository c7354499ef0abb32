/*
 * restore_point.c
 *		restore_point(): a named point in the WAL of the router and of all shards.
 *
 * If the router and the shards are each recovered to the point, no transaction over
 * several shards is half there.  That takes an order: a ticket of the commit/snapshot lock
 * (transaction/commit_lock.c), then the router's point, then those of the shards, each
 * when it is its turn there.
 *
 * - A commit with a lower ticket has its commit record on the router before the point.
 *	 Its shards have finished it, since the ticket's turn comes later.
 * - One with a higher ticket sends COMMIT PREPARED to a shard after the shard's point.  If
 *	 the router has its commit record before the point, its shards are prepared, and are
 *	 to be committed after the recovery; otherwise what is prepared is to be rolled back.
 *
 * Writers wait only for the moment that a shard needs to write its point.  A transaction of
 * one shard, and one on a direct connection, takes no ticket: it is there or not, on
 * its shard alone.
 */
#include "postgres.h"

#include "access/xlog_internal.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"

#include "base/base.h"
#include "executor/multi_shard.h"

PG_FUNCTION_INFO_V1(shardlet_restore_point);

enum
{
	POINT_SHARD, POINT_LSN, POINT_COLUMNS
};

static const char point_sql[] = "SELECT pg_catalog.pg_create_restore_point($1)";

/* As the user, whom the function has to be granted to. */
static XLogRecPtr
write_on_router(const char *name)
{
	Oid			types[] = {TEXTOID};
	Datum		values[] = {CStringGetTextDatum(name)};
	bool		is_null;
	XLogRecPtr	result;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	if (SPI_execute_with_args(point_sql, lengthof(types), types, values, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not create the restore point");
	result = DatumGetLSN(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null));
	SPI_finish();
	return result;
}

static void
send_point(SlReply *reply, const void *arg)
{
	const char *name = arg;

	if (!sl_session_is_current(reply->conn))
		sl_session_send(reply->conn);
	sl_pipeline_query(reply->conn, point_sql, 1, &name);
	sl_pipeline_sync(reply->conn);
}

static Snapshot
take_snapshot(void *arg)
{
	return GetLatestSnapshot();
}

/* With the ticket: the router first. */
static XLogRecPtr
write_points(const char *name, SlReply *replies, int count)
{
	SlTurns		turns = {
		.has_turn = sl_commit_lock_has_turn,.send = send_point,
		.end_turn = sl_commit_lock_end_turn,.arg = name,.timeout_ms = sl_connect_timeout
	};
	XLogRecPtr	result = write_on_router(name);

	sl_broadcast_in_turn(replies, count, &turns);
	return result;
}

static XLogRecPtr
write_with_ticket(const char *name, List *shards, SlReply *replies, int count)
{
	SlSnapshotSet wanted = {.take = take_snapshot};
	bool		has_to_wait;
	volatile XLogRecPtr result = InvalidXLogRecPtr;

	sl_commit_lock_list_shards(&wanted, shards);
	PG_TRY();
	{
		(void) sl_commit_lock_begin_snapshot(&wanted, &has_to_wait);
		result = write_points(name, replies, count);
	}
	PG_FINALLY();
	{
		sl_commit_lock_end();
	}
	PG_END_TRY();
	return result;
}

static void
put_point(ReturnSetInfo *result, const SlShard *shard, Datum lsn)
{
	Datum		values[POINT_COLUMNS] = {0};
	bool		nulls[POINT_COLUMNS] = {0};

	nulls[POINT_SHARD] = shard == NULL;
	if (shard != NULL)
		values[POINT_SHARD] = NameGetDatum(&shard->name);
	values[POINT_LSN] = lsn;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* restore_point(name): the router's point, without a shard, and that of each shard */
Datum
shardlet_restore_point(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *name = sl_map_arg_text(fcinfo, 0, "name");
	List	   *shards = sl_shard_all();
	int			count;
	SlReply    *replies;

	InitMaterializedSRF(fcinfo, 0);
	sl_check_writable("shardlet.restore_point()");
	if (name[0] == '\0' || strlen(name) >= MAXFNAMELEN)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("name of a restore point must have 1 to %d bytes", MAXFNAMELEN - 1));

	/* Every shard has to be there before anything is written. */
	replies = sl_broadcast_make(shards, true, &count);
	sl_command_open(replies, count);
	sl_command_check(replies, count, NULL);
	put_point(result, NULL, LSNGetDatum(write_with_ticket(name, shards, replies, count)));
	sl_command_check(replies, count, point_sql);
	for (int i = 0; i < count; i++)
		put_point(result, replies[i].shard, DirectFunctionCall1(pg_lsn_in, CStringGetDatum(replies[i].value)));
	return (Datum) 0;
}
