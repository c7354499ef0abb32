/*
 * check.c
 *		Tests that functions make before they act.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "tcop/utility.h"

#include "base/base.h"

/*
 * Refuses a change in a read-only transaction, on a standby and in a parallel
 * worker.  Our catalog is written below the executor, which would have checked
 * that.
 */
void
sl_check_writable(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	PreventCommandDuringRecovery(function);
}

/*
 * Whoever acts on all rows that shards have must see those of transactions that he
 * had to wait for.  A snapshot that holds for the whole transaction can be older.
 */
void
sl_check_sees_all(const char *function)
{
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				errmsg("%s needs isolation level READ COMMITTED", function),
				errdetail("The transaction might not see all rows that the shards have."),
				errhint("Run it in a transaction that begins with BEGIN ISOLATION LEVEL READ COMMITTED."));
}

/* Returns the name as a C string; an empty one is an error. */
char *
sl_check_name(Datum name, const char *kind)
{
	char	   *result = NameStr(*DatumGetName(name));

	if (result[0] == '\0')
		ereport(ERROR,
				errcode(ERRCODE_INVALID_NAME),
				errmsg("name of a %s must not be empty", kind));
	return result;
}

/*
 * For error context callbacks: an error's position is one in the text that is
 * being parsed, and not in the caller's statement.
 */
void
sl_check_move_position(const char *source)
{
	int			position = geterrposition();

	if (position <= 0)
		return;
	errposition(0);
	internalerrposition(position);
	internalerrquery(source);
}
