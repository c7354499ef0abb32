/*
 * move_verify.c
 *		Compares the rows of two shards: their number, and a checksum that does
 *		not depend on their order.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "base/base.h"
#include "move/move_internal.h"

/* What one shard says of one table. */
typedef struct Sum
{
	char	   *rows;
	char	   *checksum;
} Sum;

static void
ask(SlConn *conn, const char *sql)
{
	sl_flight_query(conn, sql, 0, NULL);
	sl_flight_sync(conn);
}

static Sum
take(SlConn *conn, const char *sql)
{
	Sum			sum = {0};
	SlFailure  *first_failure = NULL;
	SlEvent		event;

	do
	{
		SlFailure  *failure = NULL;
		PGresult   *result;

		event = sl_flight_next(conn, &result, &failure);
		if (result != NULL && PQntuples(result) > 0)
		{
			sum.rows = pstrdup(PQgetvalue(result, 0, 0));
			sum.checksum = pstrdup(PQgetvalue(result, 0, 1));
		}
		if (result != NULL)
			PQclear(result);
		if (event == SL_EVENT_NONE)
			(void) sl_wait_conn(conn, DT_NOEND);
		if (event == SL_EVENT_NONE && !sl_conn_read(conn, &failure))
			event = SL_EVENT_FAILED;
		if (event == SL_EVENT_FAILED && first_failure == NULL)
			first_failure = failure;
	} while (event != SL_EVENT_IDLE && conn->state != SL_CONN_CLOSED);
	if (first_failure != NULL)
		sl_failure_raise(first_failure, conn->shard, sql);
	return sum;
}

static void
compare(const SlMoveTable *table, SlConn *source, SlConn *target)
{
	char	   *sql = psprintf("SELECT pg_catalog.count(*), coalesce(pg_catalog.sum(%s), 0) FROM %s WHERE %s",
							   table->checksum, table->name, table->condition);
	Sum			here;
	Sum			there;

	ask(source, sql);
	ask(target, sql);
	here = take(source, sql);
	there = take(target, sql);
	if (here.rows == NULL || there.rows == NULL)
		elog(ERROR, "a shard has not counted its rows");
	if (strcmp(here.rows, there.rows) == 0 && strcmp(here.checksum, there.checksum) == 0)
		return;
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("rows of table \"%s\" differ between shard \"%s\" and shard \"%s\"", table->label,
				   source->shard, target->shard),
			errdetail("There are %s rows with checksum %s, and %s rows with checksum %s.", here.rows,
					  here.checksum, there.rows, there.checksum),
			errhint("Somebody has written to one of the shards directly."));
}

/* Fails if the tables' rows in the range are not the same on both. */
void
sl_move_verify(SlConn *source, SlConn *target, List *tables)
{
	ListCell   *cell;

	foreach(cell, tables)
		compare(lfirst(cell), source, target);
}
