/*
 * checks.c
 *		Checks that SQL functions make first.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "tcop/utility.h"

#include "base/base.h"

/*
 * Raises an error in a read-only transaction, on a standby and in a parallel
 * worker.  The executor would check that, but the extension's tables are written
 * without it.
 */
void
sl_check_writable(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	PreventCommandDuringRecovery(function);
}

/*
 * Raises an error if the transaction has one snapshot for all its statements.  A
 * function that processes all rows of shards must see those of transactions that
 * it had to wait for, and that snapshot may be older.
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

/* Returns the name as a C string.  Raises an error if it is empty. */
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
 * For error context callbacks: moves the position of an error from the client's
 * statement to the string that is being parsed.
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
