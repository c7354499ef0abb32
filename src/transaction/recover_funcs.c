/*
 * recover_funcs.c
 *		recover() and the view prepared_transactions.
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "transaction/transaction.h"

PG_FUNCTION_INFO_V1(shardlet_recover);
PG_FUNCTION_INFO_V1(shardlet_prepared_list);

enum
{
	PREPARED_GID, PREPARED_SHARD, PREPARED_STATE, PREPARED_AGE, PREPARED_DECISION,
	PREPARED_USER, PREPARED_COLUMNS
};

static const char list_sql[] =
"SELECT gid, (EXTRACT(epoch FROM pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) prepared)"
" OPERATOR(pg_catalog.*) 1000)::pg_catalog.int8, owner FROM pg_catalog.pg_prepared_xacts"
" WHERE database OPERATOR(pg_catalog.=) pg_catalog.current_database()"
" AND pg_catalog.starts_with(gid, '" SL_GID_PREFIX "') ORDER BY prepared, gid OFFSET $1 LIMIT 1";

/* recover(): finishes what was left prepared; returns how many */
Datum
shardlet_recover(PG_FUNCTION_ARGS)
{
	int			finished = 0;

	PreventCommandDuringRecovery("shardlet.recover()");
	sl_recover_all(&finished);
	PG_RETURN_INT32(finished);
}

/* What this router would do with it, in words. */
static void
describe_prepared(const char *name, const char **state, const char **decision)
{
	SlGid		gid;

	*decision = NULL;
	*state = "foreign";
	if (!sl_gid_parse(name, &gid) || gid.router_instance != sl_router_instance() ||
		gid.database != MyDatabaseId)
		return;
	*state = "waiting";
	switch (sl_gid_decision(&gid))
	{
		case SL_DECISION_COMMIT:
			*decision = "commit";
			break;
		case SL_DECISION_ROLLBACK:
			*decision = "rollback";
			break;
		case SL_DECISION_OPEN:
			*state = "active";
			break;
		case SL_DECISION_UNKNOWN:
			*state = "unknown";
	}
}

static void
put_row(ReturnSetInfo *result, const SlShard *shard, SlConn *conn, const PGresult *row)
{
	const char *gid = sl_protocol_value(conn, row, 0, 0);
	Datum		values[PREPARED_COLUMNS];
	bool		nulls[PREPARED_COLUMNS] = {0};
	const char *state;
	const char *decision;
	Interval	age = {0};
	NameData	owner;

	describe_prepared(gid, &state, &decision);
	age.time = strtoll(sl_protocol_value(conn, row, 0, 1), NULL, 10) * 1000;
	namestrcpy(&owner, sl_protocol_value(conn, row, 0, 2));
	values[PREPARED_GID] = CStringGetTextDatum(gid);
	values[PREPARED_SHARD] = NameGetDatum(&shard->name);
	values[PREPARED_STATE] = CStringGetTextDatum(state);
	values[PREPARED_AGE] = IntervalPGetDatum(&age);
	nulls[PREPARED_DECISION] = decision == NULL;
	values[PREPARED_DECISION] = decision != NULL ? CStringGetTextDatum(decision) : (Datum) 0;
	values[PREPARED_USER] = NameGetDatum(&owner);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* All of one shard; one that cannot be reached is a warning. */
static void
list_shard(ReturnSetInfo *result, SlShard *shard)
{
	SlTarget	target = sl_remote_target(shard);
	SlFailure  *failure;
	SlConn	   *conn = sl_remote_try_open(&target, &failure);

	for (int i = 0; conn != NULL && failure == NULL; i++)
	{
		const char *params[] = {psprintf("%d", i)};
		PGresult   *row = sl_remote_try(conn, list_sql, 1, params,
										sl_wait_deadline(sl_connect_timeout), &failure);

		if (row == NULL || PQntuples(row) == 0)
			break;
		put_row(result, shard, conn, row);
	}
	if (failure != NULL)
		sl_failure_report(WARNING, failure, NameStr(shard->name), NULL);
	if (conn != NULL)
		sl_conn_close(conn);
}

/* prepared_list(): rows of the view "prepared_transactions" */
Datum
shardlet_prepared_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	foreach(cell, sl_shard_all())
	{
		SlShard    *shard = lfirst(cell);

		if (shard->state != SL_STATE_OFFLINE)
			list_shard(result, shard);
	}
	return (Datum) 0;
}
