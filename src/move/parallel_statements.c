/*
 * parallel_statements.c
 *		Runs many statements on several connections, one at a time on each.
 *
 * The callback next() returns the next statement whenever a connection is free, and
 * take() gets its result.  The connections are the mover's own, and everything sent
 * on them before was answered.  An error leaves them of no use: they go with the
 * step.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "move/move_internal.h"

/* The move may be cancelled meanwhile. */
#define TICK_MS 200

typedef struct Worker
{
	SlConn	   *conn;
	char	   *sql;			/* that runs; NULL: nothing is left to do */
	PGresult   *row;			/* of that, or NULL */
	SlFailure  *failure;
} Worker;

/* Gives a connection that is free its next statement, if there is one. */
static void
dispatch_statement(SlConnectionSet *set, Worker *worker, int index)
{
	worker->sql = set->next(set, index);
	if (worker->sql == NULL)
		return;
	sl_pipeline_query(worker->conn, worker->sql, 0, NULL);
	sl_pipeline_sync(worker->conn);
}

static void
note_end(SlConnectionSet *set, Worker *worker, int index)
{
	if (worker->failure != NULL)
		sl_failure_raise(worker->failure, worker->conn->shard, worker->sql);
	if (set->take != NULL)
		set->take(set, index, worker->row);
	if (worker->row != NULL)
		PQclear(worker->row);
	worker->row = NULL;
	pfree(worker->sql);
}

/*
 * Takes in what has come.  Returns true if everything sent was answered.  The first
 * row is kept, if the caller has a place for it, and the first failure.
 */
bool
sl_move_read_result(SlConn *conn, PGresult **row, SlFailure **first_failure)
{
	while (conn->state != SL_CONN_CLOSED)
	{
		SlFailure  *failure = NULL;
		PGresult   *result;
		SlEvent		event = sl_pipeline_next(conn, &result, &failure);

		if (result != NULL && failure == NULL)
			failure = sl_protocol_check_text(conn, result);
		if (result != NULL && row != NULL && PQntuples(result) > 0 && *row == NULL)
			*row = result;
		else if (result != NULL)
			PQclear(result);
		if (failure != NULL && *first_failure == NULL)
			*first_failure = failure;
		if (event == SL_EVENT_IDLE)
			return true;
		if (event == SL_EVENT_NONE)
			return false;
	}
	return true;
}

static void
wait_for_any(Worker *workers, int count, SlWaitCache *cache)
{
	SlWaitItem *items = palloc0(sizeof(SlWaitItem) * count);
	Worker	  **waiting = palloc(sizeof(Worker *) * count);
	int			waiting_count = 0;

	for (int i = 0; i < count; i++)
	{
		if (workers[i].sql == NULL)
			continue;
		items[waiting_count].conn = workers[i].conn;
		items[waiting_count].events = sl_conn_wants(workers[i].conn);
		waiting[waiting_count++] = &workers[i];
	}
	InvalidateCatalogSnapshot();
	(void) sl_wait_items(items, waiting_count, sl_wait_deadline(TICK_MS), cache);
	for (int i = 0; i < waiting_count; i++)
	{
		if (items[i].ready)
			(void) sl_conn_read(waiting[i]->conn, &waiting[i]->failure);
	}
	pfree(items);
	pfree(waiting);
}

/* Runs all statements that set->next() returns.  The first failure is an error. */
void
sl_move_run_statements(SlConnectionSet *set)
{
	Worker	   *workers = palloc0(sizeof(Worker) * set->count);
	SlWaitCache cache = {0};
	int			busy;

	for (int i = 0; i < set->count; i++)
	{
		workers[i].conn = set->conns[i];
		dispatch_statement(set, &workers[i], i);
	}
	do
	{
		bool		has_moved = false;

		busy = 0;
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < set->count; i++)
		{
			while (workers[i].sql != NULL && sl_move_read_result(workers[i].conn, &workers[i].row, &workers[i].failure))
			{
				note_end(set, &workers[i], i);
				dispatch_statement(set, &workers[i], i);
				has_moved = true;
			}
			busy += workers[i].sql != NULL ? 1 : 0;
		}
		if (busy > 0 && !has_moved)
			wait_for_any(workers, set->count, &cache);
		sl_move_check_cancelled(set->mover);
	} while (busy > 0);
	sl_wait_forget(&cache);
}
