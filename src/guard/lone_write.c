/*
 * lone_write.c
 *		On a shard: a write that is a whole transaction says so itself.
 *
 * The router's connections are read-only outside explicit transactions, so that
 * what a function writes behind a SELECT is noticed.  A statement that is known
 * to write, and is all of its transaction, would need BEGIN READ WRITE and COMMIT
 * around it, which cost as much as a change of one row does.  So its text ends
 * with a mark, which makes the transaction one that may write.  Where this
 * library is not loaded the mark is a comment, and the router begins a
 * transaction.
 *
 * Anybody may write that mark, as anybody may say SET TRANSACTION READ WRITE.
 * Whoever has begun a transaction has said what it may do.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "executor/executor.h"

#include "base/base.h"
#include "compat.h"
#include "guard/guard.h"

static ExecutorStart_hook_type next_start_hook = NULL;

static bool
has_mark(const char *source)
{
	size_t		length = source != NULL ? strlen(source) : 0;
	size_t		mark = strlen(SL_LONE_WRITE_MARK);

	return length > mark && memcmp(source + length - mark, SL_LONE_WRITE_MARK, mark) == 0;
}

/*
 * The router counts on READ COMMITTED, which the shard may have been told not to
 * begin with.
 */
static bool
may_write(const QueryDesc *query)
{
	return !IsTransactionBlock() && !IsSubTransaction() && XactIsoLevel == XACT_READ_COMMITTED &&
		!RecoveryInProgress() && has_mark(query->sourceText);
}

static void
start_lone_write(QueryDesc *query, int eflags)
{
	if (XactReadOnly && may_write(query))
		XactReadOnly = false;
	if (next_start_hook)
		next_start_hook(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

void
sl_lone_write_init(void)
{
	next_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = start_lone_write;
}
