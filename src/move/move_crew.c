/*
 * move_crew.c
 *		Runs many statements on several connections, one at a time on each.
 *
 * Whoever has statements to be run is asked for the next one whenever a
 * connection is free, and told what came of it.  The connections are the
 * mover's own, and everything sent on them before was answered.  An error
 * leaves them of no use: they go with the step.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "move/move_internal.h"

/* Somebody may cancel the move meanwhile. */
#define TICK_MS 200

typedef struct Member
{
	SlConn	   *conn;
	char	   *sql;			/* that runs; NULL: nothing is left to do */
	PGresult   *row;			/* of that, or NULL */
	SlFailure  *failure;
} Member;

/* Gives a connection that is free its next statement, if there is one. */
static void
employ(SlMoveCrew *crew, Member *member, int index)
{
	member->sql = crew->next(crew, index);
	if (member->sql == NULL)
		return;
	sl_flight_query(member->conn, member->sql, 0, NULL);
	sl_flight_sync(member->conn);
}

static void
note_end(SlMoveCrew *crew, Member *member, int index)
{
	if (member->failure != NULL)
		sl_failure_raise(member->failure, member->conn->shard, member->sql);
	if (crew->take != NULL)
		crew->take(crew, index, member->row);
	if (member->row != NULL)
		PQclear(member->row);
	member->row = NULL;
	pfree(member->sql);
}

/*
 * Takes in what has come.  Returns true if everything sent was answered.  The first
 * row is kept, if the caller has a place for it, and the first failure.
 */
bool
sl_move_listen(SlConn *conn, PGresult **row, SlFailure **first_failure)
{
	while (conn->state != SL_CONN_CLOSED)
	{
		SlFailure  *failure = NULL;
		PGresult   *result;
		SlEvent		event = sl_flight_next(conn, &result, &failure);

		if (result != NULL && row != NULL && PQntuples(result) > 0 && *row == NULL)
			*row = result;
		else if (result != NULL)
			PQclear(result);
		if (event == SL_EVENT_FAILED && *first_failure == NULL)
			*first_failure = failure;
		if (event == SL_EVENT_IDLE)
			return true;
		if (event == SL_EVENT_NONE)
			return false;
	}
	return true;
}

static void
wait_for_any(Member *members, int count, SlWaitCache *cache)
{
	SlWaitItem *items = palloc0(sizeof(SlWaitItem) * count);
	Member	  **waiting = palloc(sizeof(Member *) * count);
	int			waiting_count = 0;

	for (int i = 0; i < count; i++)
	{
		if (members[i].sql == NULL)
			continue;
		items[waiting_count].conn = members[i].conn;
		items[waiting_count].events = sl_conn_wants(members[i].conn);
		waiting[waiting_count++] = &members[i];
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

/* Runs all statements that crew->next() has.  The first failure is an error. */
void
sl_move_crew_run(SlMoveCrew *crew)
{
	Member	   *members = palloc0(sizeof(Member) * crew->count);
	SlWaitCache cache = {0};
	int			busy;

	for (int i = 0; i < crew->count; i++)
	{
		members[i].conn = crew->conns[i];
		employ(crew, &members[i], i);
	}
	do
	{
		bool		has_moved = false;

		busy = 0;
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < crew->count; i++)
		{
			while (members[i].sql != NULL && sl_move_listen(members[i].conn, &members[i].row, &members[i].failure))
			{
				note_end(crew, &members[i], i);
				employ(crew, &members[i], i);
				has_moved = true;
			}
			busy += members[i].sql != NULL ? 1 : 0;
		}
		if (busy > 0 && !has_moved)
			wait_for_any(members, crew->count, &cache);
		sl_move_look_up(crew->mover);
	} while (busy > 0);
	sl_wait_forget(&cache);
}
