/*
 * health.c
 *		health(): can every shard be reached, and is it the right one?
 */
#include "postgres.h"

#include "access/xact.h"
#include "funcapi.h"
#include "portability/instr_time.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "base/base.h"
#include "connection/connection.h"
#include "metadata/missed_ddl.h"
#include "metadata/shared_memory.h"

PG_FUNCTION_INFO_V1(shardlet_health);

enum
{
	HEALTH_SHARD, HEALTH_OK, HEALTH_LATENCY, HEALTH_VERSION, HEALTH_MESSAGE,
	HEALTH_COLUMNS
};

typedef struct Health
{
	bool		ok;
	double		latency_ms;
	const char *version;
	const char *message;
} Health;

static double
elapsed_ms(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_MILLISEC(now);
}

/* Connects and queries the version.  The latency is that of the query. */
static void
try_shard(const SlShard *shard, Health *health)
{
	SlTarget	target = sl_remote_target(shard);
	SlFailure  *failure;
	SlConn	   *conn = sl_remote_try_open(&target, &failure);
	instr_time	start;
	PGresult   *result;

	if (conn == NULL)
	{
		health->message = failure->lost && failure->detail ? failure->detail : failure->message;
		return;
	}
	INSTR_TIME_SET_CURRENT(start);
	result = sl_remote_query(conn, "SELECT pg_catalog.current_setting('server_version')", 0, NULL);
	health->latency_ms = elapsed_ms(start);
	health->version = pstrdup(sl_protocol_value(conn, result, 0, 0));
	health->ok = true;
	sl_conn_close(conn);
}

/* The same, with an error (a wrong database, no password) as a message. */
static Health
examine_shard(const SlShard *shard)
{
	Health		health = {0};
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(caller);
	PG_TRY();
	{
		try_shard(shard, &health);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		health.message = error->message;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = owner;
	return health;
}

static void
put_row(ReturnSetInfo *result, const SlShard *shard, const Health *health)
{
	Datum		values[HEALTH_COLUMNS];
	bool		nulls[HEALTH_COLUMNS] = {0};

	values[HEALTH_SHARD] = NameGetDatum(&shard->name);
	values[HEALTH_OK] = BoolGetDatum(health->ok);
	values[HEALTH_LATENCY] = Float8GetDatum(health->latency_ms);
	nulls[HEALTH_LATENCY] = !health->ok;
	nulls[HEALTH_VERSION] = health->version == NULL;
	values[HEALTH_VERSION] = health->version ? CStringGetTextDatum(health->version) : (Datum) 0;
	nulls[HEALTH_MESSAGE] = health->message == NULL;
	values[HEALTH_MESSAGE] = health->message ? CStringGetTextDatum(health->message) : (Datum) 0;
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

static char *
describe_first(const SlMissedDdl *missed, int count)
{
	return psprintf("has missed %d DDL statements while it was offline, of which the first is: %s", count, missed->statement);
}

/* Adds which DDL the shard has missed, or could not execute when it was to be online again. */
static void
examine_missed_ddl(const SlShard *shard, Health *health)
{
	List	   *statements = sl_missed_ddl_list(shard->id);
	int64		failed = (int64) pg_atomic_read_u64(&sl_shmem_shard(shard->id)->failed_ddl);
	const char *message = statements != NIL ? describe_first(linitial(statements), list_length(statements)) : NULL;
	ListCell   *cell;

	foreach(cell, statements)
	{
		const SlMissedDdl *missed = lfirst(cell);

		if (missed->id != failed)
			continue;
		message = psprintf("cannot execute statement %lld that it has missed while it was offline: %s",
						   (long long) missed->id, missed->statement);
		health->ok = false;
	}
	if (message != NULL)
		health->message = health->message != NULL ? psprintf("%s; %s", health->message, message) : message;
}

/* health() */
Datum
shardlet_health(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	foreach(cell, sl_shard_all())
	{
		const SlShard *shard = lfirst(cell);
		Health		health = examine_shard(shard);

		examine_missed_ddl(shard, &health);
		put_row(result, shard, &health);
	}
	return (Datum) 0;
}
