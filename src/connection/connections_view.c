/*
 * connections_view.c
 *		The view "connections" and the function close_connections().
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "connection/connection.h"

PG_FUNCTION_INFO_V1(shardlet_connection_list);
PG_FUNCTION_INFO_V1(shardlet_close_connections);

enum
{
	CONNECTION_PID, CONNECTION_SHARD, CONNECTION_USER, CONNECTION_REMOTE_PID,
	CONNECTION_STATE, CONNECTION_IN_TRANSACTION, CONNECTION_SINCE, CONNECTION_COLUMNS
};

/*
 * Makes entries as shared memory has them, of this session's connections only,
 * for a server that has not preloaded the library.  Returns their number.
 */
static int
make_own_slots(SlConnSlot **slots)
{
	List	   *conns = sl_pool_all();
	ListCell   *cell;
	int			count = 0;

	*slots = palloc0(sizeof(SlConnSlot) * Max(list_length(conns), 1));
	foreach(cell, conns)
	{
		SlConn	   *conn = lfirst(cell);
		SlConnSlot *slot = &(*slots)[count++];

		slot->pid = MyProcPid;
		slot->user = conn->user;
		namestrcpy(&slot->shard, conn->shard);
		slot->remote_pid = PQbackendPID(conn->pg);
		slot->is_open = conn->state == SL_CONN_OPEN;
		slot->is_active = !sl_pipeline_is_empty(conn);
		slot->in_transaction = conn->txn.level > 0;
		slot->since = conn->since;
	}
	return count;
}

static const char *
get_state_name(const SlConnSlot *slot)
{
	if (!slot->is_open)
		return "connecting";
	return slot->is_active ? "active" : "idle";
}

/* connection_list(): rows of the view "connections" */
Datum
shardlet_connection_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SlConnSlot *slots;
	int			count = sl_shmem_is_shared() ? sl_shmem_conns(&slots) : make_own_slots(&slots);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < count; i++)
	{
		Datum		values[CONNECTION_COLUMNS];
		bool		nulls[CONNECTION_COLUMNS] = {0};
		char	   *user = GetUserNameFromId(slots[i].user, true);
		NameData	user_name;

		namestrcpy(&user_name, user ? user : "");
		values[CONNECTION_PID] = Int32GetDatum(slots[i].pid);
		values[CONNECTION_SHARD] = NameGetDatum(&slots[i].shard);
		values[CONNECTION_USER] = NameGetDatum(&user_name);
		values[CONNECTION_REMOTE_PID] = Int32GetDatum(slots[i].remote_pid);
		nulls[CONNECTION_REMOTE_PID] = slots[i].remote_pid == 0;
		values[CONNECTION_STATE] = CStringGetTextDatum(get_state_name(&slots[i]));
		values[CONNECTION_IN_TRANSACTION] = BoolGetDatum(slots[i].in_transaction);
		values[CONNECTION_SINCE] = TimestampTzGetDatum(slots[i].since);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * Closes the session's connections to a shard, or with 0 to all shards, that no
 * statement or transaction uses.  Returns their number.
 */
int
sl_pool_close_idle(int32 shard_id)
{
	int			count = 0;
	ListCell   *cell;

	foreach(cell, sl_pool_all())
	{
		SlConn	   *conn = lfirst(cell);

		if ((shard_id != 0 && conn->shard_id != shard_id) || conn->owner != NULL ||
			conn->txn.level > 0)
			continue;
		sl_conn_close(conn);
		count++;
	}
	return count;
}

/* close_connections(shard) */
Datum
shardlet_close_connections(PG_FUNCTION_ARGS)
{
	int32		id = PG_ARGISNULL(0) ? 0 :
	sl_shard_by_name(NameStr(*PG_GETARG_NAME(0)), false)->id;

	PG_RETURN_INT32(sl_pool_close_idle(id));
}
