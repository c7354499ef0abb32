/*
 * notices.c
 *		Passes a shard's notices and warnings on.
 *
 * libpq's notice receiver must not raise an error, and ereport() of a notice can.
 * So notices are queued in the connection, and reported by the next
 * sl_pipeline_next().  A caller that does not want them sets the queue to NIL: its
 * memory context is reset when the next notice arrives at an empty queue.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "connection/connection.h"

/* Beyond this they are dropped: a shard must not fill the router's memory. */
#define MAX_QUEUED 1000
#define MAX_QUEUED_BYTES (1024 * 1024)

/*
 * Maximum number of a statement's notices that go to the router's log, too: the
 * shard has its own log.
 */
#define MAX_LOGGED 100

typedef struct Notice
{
	int			level;
	int			sqlstate;		/* 0: unknown */
	char	   *message;
	char	   *detail;
	char	   *hint;
} Notice;

/*
 * Severities as the protocol spells them, never translated.  LOG is for the
 * shard's own log.
 */
static const struct
{
	const char *name;
	int			level;
}			levels[] = {
	{"WARNING", WARNING},
	{"NOTICE", NOTICE},
	{"INFO", INFO},
	{"LOG", DEBUG1},
	{"DEBUG", DEBUG1},
};

/* If set, only notices of this connection are reported, and all warnings. */
const SlConn *sl_notice_speaker = NULL;

static int
get_level(const char *severity)
{
	for (int i = 0; i < (int) lengthof(levels); i++)
	{
		if (severity != NULL && strcmp(levels[i].name, severity) == 0)
			return levels[i].level;
	}
	return NOTICE;
}

/* Copies a field; NULL if there is none, or no memory for it. */
static char *
copy_field(SlConn *conn, const PGresult *result, int code)
{
	char	   *copy = sl_encoding_copy_message(conn->notices.context, PQresultErrorField(result, code));

	conn->notices.bytes += copy != NULL ? strlen(copy) + 1 : 0;
	return copy;
}

/*
 * Is this not a notice of the server?  libpq turns an error that belongs to no
 * statement into a notice, and uses one to complain of unexpected messages.
 */
static bool
is_out_of_place(const PGresult *result)
{
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);

	return severity == NULL || strcmp(severity, "ERROR") == 0 || strcmp(severity, "FATAL") == 0 ||
		strcmp(severity, "PANIC") == 0;
}

/* Notice receiver of libpq */
static void
queue_notice(void *arg, const PGresult *result)
{
	SlConn	   *conn = arg;
	MemoryContext old_context;
	Notice	   *notice;

	if (sl_failure_is_shutdown(result))
	{
		conn->is_leaving = true;
		return;
	}
	if (is_out_of_place(result))
	{
		conn->is_broken = true;
		return;
	}
	if (conn->notices.queued == NIL)
	{
		MemoryContextReset(conn->notices.context);
		conn->notices.bytes = 0;
	}
	if (list_length(conn->notices.queued) >= MAX_QUEUED || conn->notices.bytes >= MAX_QUEUED_BYTES)
		return;
	notice = MemoryContextAllocExtended(conn->notices.context, sizeof(Notice), MCXT_ALLOC_NO_OOM);
	if (notice == NULL)
		return;
	notice->level = get_level(PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED));
	notice->sqlstate = sl_failure_sqlstate(result);
	notice->message = copy_field(conn, result, PG_DIAG_MESSAGE_PRIMARY);
	notice->detail = copy_field(conn, result, PG_DIAG_MESSAGE_DETAIL);
	notice->hint = copy_field(conn, result, PG_DIAG_MESSAGE_HINT);
	old_context = MemoryContextSwitchTo(conn->notices.context);
	conn->notices.queued = lappend(conn->notices.queued, notice);
	MemoryContextSwitchTo(old_context);
}

/* Queues the notices of a connection from now on. */
void
sl_notice_queue(SlConn *conn)
{
	conn->notices.context = AllocSetContextCreate(conn->context, "shardlet notices",
												  ALLOCSET_SMALL_SIZES);
	PQsetNoticeReceiver(conn->pg, queue_notice, conn);
}

static void
drop_notice(void *arg, const PGresult *result)
{
}

/*
 * Ignores the notices of a connection that only cancels a statement of another
 * one, or checks whether its shard is alive: libpq would write them to the
 * router's log.
 */
void
sl_notice_ignore(PGconn *pg)
{
	PQsetNoticeReceiver(pg, drop_notice, NULL);
}

/*
 * Returns the level at which a notice is reported, or 0 if it is not.  Only a
 * statement's first notices may go to the log.
 */
static int
choose_level(int level)
{
	static TimestampTz statement = 0;
	static int	logged = 0;

	if (statement != GetCurrentStatementStartTimestamp())
		logged = 0;
	statement = GetCurrentStatementStartTimestamp();
	if (level < log_min_messages || ++logged <= MAX_LOGGED)
		return level;
	return level == WARNING ? WARNING_CLIENT_ONLY : 0;
}

/* Reports the notices that were queued.  This can raise an error. */
void
sl_notice_report(SlConn *conn)
{
	while (conn->notices.queued != NIL)
	{
		Notice	   *notice = linitial(conn->notices.queued);
		int			level;

		conn->notices.queued = list_delete_first(conn->notices.queued);
		if (notice->level < WARNING && sl_notice_speaker != NULL && sl_notice_speaker != conn)
			continue;
		level = notice->message != NULL ? choose_level(notice->level) : 0;
		if (level > 0)
			ereport(level,
					notice->sqlstate != 0 ? errcode(notice->sqlstate) : 0,
					errmsg("shard \"%s\": %s", conn->shard, notice->message),
					notice->detail ? errdetail_internal("%s", notice->detail) : 0,
					notice->hint ? errhint("%s", notice->hint) : 0);
	}
}
