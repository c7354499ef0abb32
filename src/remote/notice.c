/*
 * notice.c
 *		Passes a shard's notices and warnings on.
 *
 * libpq calls us in the middle of its work, where nothing may be thrown, and
 * showing a notice can throw: so they are kept and shown by whoever reads
 * next.  Whoever does not care for them sets the list to NIL: the memory context
 * that they are in is emptied when the next one comes and none waits.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/base.h"
#include "remote/remote.h"

/* Beyond this they are dropped: a shard must not fill the router's memory. */
#define MAX_WAITING 1000

typedef struct Notice
{
	int			level;
	int			sqlstate;		/* 0: not told */
	char	   *message;
	char	   *detail;
	char	   *hint;
} Notice;

/* Severities as the protocol spells them, never translated. */
static const struct
{
	const char *name;
	int			level;
}			levels[] = {
	{"WARNING", WARNING},
	{"NOTICE", NOTICE},
	{"INFO", INFO},
	{"LOG", LOG},
	{"DEBUG", DEBUG1},
};

/* While set, only this connection's notices are shown, and all warnings. */
const SlConn *sl_notice_speaker = NULL;

static int
level_of(const char *severity)
{
	for (int i = 0; i < (int) lengthof(levels); i++)
	{
		if (severity != NULL && strcmp(levels[i].name, severity) == 0)
			return levels[i].level;
	}
	return NOTICE;
}

/* Copies a field, NULL if there is none or no memory for it. */
static char *
copy_field(MemoryContext context, const PGresult *result, int code)
{
	const char *value = PQresultErrorField(result, code);
	size_t		size;
	char	   *copy;

	if (value == NULL)
		return NULL;
	size = strlen(value) + 1;
	copy = MemoryContextAllocExtended(context, size, MCXT_ALLOC_NO_OOM);
	if (copy != NULL)
		memcpy(copy, value, size);
	return copy;
}

static void
keep_notice(void *arg, const PGresult *result)
{
	SlConn	   *conn = arg;
	MemoryContext old_context;
	Notice	   *notice;

	/* libpq makes a notice of an error that answers nothing. */
	if (sl_failure_is_farewell(result))
	{
		conn->is_leaving = true;
		return;
	}
	if (list_length(conn->notices) >= MAX_WAITING)
		return;
	if (conn->notices == NIL)
		MemoryContextReset(conn->notice_context);
	notice = MemoryContextAllocExtended(conn->notice_context, sizeof(Notice), MCXT_ALLOC_NO_OOM);
	if (notice == NULL)
		return;
	notice->level = level_of(PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED));
	notice->sqlstate = sl_failure_sqlstate(result);
	notice->message = copy_field(conn->notice_context, result, PG_DIAG_MESSAGE_PRIMARY);
	notice->detail = copy_field(conn->notice_context, result, PG_DIAG_MESSAGE_DETAIL);
	notice->hint = copy_field(conn->notice_context, result, PG_DIAG_MESSAGE_HINT);
	old_context = MemoryContextSwitchTo(conn->notice_context);
	conn->notices = lappend(conn->notices, notice);
	MemoryContextSwitchTo(old_context);
}

void
sl_notice_watch(SlConn *conn)
{
	conn->notice_context = AllocSetContextCreate(conn->context, "shardlet notices",
												 ALLOCSET_SMALL_SIZES);
	PQsetNoticeReceiver(conn->pg, keep_notice, conn);
}

/* Shows what has come in since the last time. */
void
sl_notice_show(SlConn *conn)
{
	while (conn->notices != NIL)
	{
		Notice	   *notice = linitial(conn->notices);

		conn->notices = list_delete_first(conn->notices);
		if (notice->level < WARNING && sl_notice_speaker != NULL && sl_notice_speaker != conn)
			continue;
		if (notice->message != NULL)
			ereport(notice->level,
					notice->sqlstate != 0 ? errcode(notice->sqlstate) : 0,
					errmsg("shard \"%s\": %s", conn->shard, notice->message),
					notice->detail ? errdetail_internal("%s", notice->detail) : 0,
					notice->hint ? errhint("%s", notice->hint) : 0);
	}
}
