/*
 * autocommit_mark.c
 *		On a shard: autocommit writes that are marked as such.
 *
 * The router's connections are read-only outside explicit transactions, so
 * that writes of a function in a SELECT are noticed.  A statement that is
 * known to write, and is a whole transaction, would need BEGIN READ WRITE and
 * COMMIT around it, which cost as much as the update of one row.  So its query
 * string ends with a mark, which makes the transaction read-write.  Where this
 * library is not loaded the mark is a comment, and the router begins a
 * transaction.
 *
 * Every user may write that mark, as every user may run SET TRANSACTION READ
 * WRITE.  In an explicit transaction it has no effect.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "executor/executor.h"

#include "base/base.h"
#include "compat.h"
#include "shard/shard.h"

static ExecutorStart_hook_type next_start_hook = NULL;

static bool
has_mark(const char *source)
{
	size_t		length = source != NULL ? strlen(source) : 0;
	size_t		mark = strlen(SL_AUTOCOMMIT_MARK);

	return length > mark && memcmp(source + length - mark, SL_AUTOCOMMIT_MARK, mark) == 0;
}

/*
 * The router relies on READ COMMITTED, which may not be the shard's default.
 */
static bool
may_write(const QueryDesc *query)
{
	return !IsTransactionBlock() && !IsSubTransaction() && XactIsoLevel == XACT_READ_COMMITTED &&
		!RecoveryInProgress() && has_mark(query->sourceText);
}

static void
start_autocommit_write(QueryDesc *query, int eflags)
{
	if (XactReadOnly && may_write(query))
		XactReadOnly = false;
	if (next_start_hook)
		next_start_hook(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

void
sl_autocommit_mark_init(void)
{
	next_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = start_autocommit_write;
}
