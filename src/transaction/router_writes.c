/*
 * router_writes.c
 *		Has this transaction changed anything on the router itself?
 *
 * If not, and one shard was written to, that shard's COMMIT is the commit of
 * everything.  A transaction id alone does not mean that something was changed:
 * nextval() takes one now and then, and a row lock does.  So the locks are checked:
 * a transaction that writes to a table keeps a lock on it until the end.  Catalogs
 * are the exception, but a change of these sends invalidations.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/async.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "storage/sinval.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "transaction/transaction.h"

/* Is there a lock of commands that change rows, or a stronger one? */
static bool
is_writing(LOCKMASK held)
{
	return (held >> RowExclusiveLock) != 0;
}

static bool
holds_table_for_writing(void)
{
	LockData   *locks = GetLockStatusData();

	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];

		if (lock->pid == MyProcPid && lock->locktag.locktag_type == LOCKTAG_RELATION &&
			is_writing(lock->holdMask) &&
			get_rel_relkind((Oid) lock->locktag.locktag_field2) != RELKIND_SEQUENCE)
			return true;
	}
	return false;
}

static bool
changed_catalogs(void)
{
	SharedInvalidationMessage *messages;
	bool		init_file;

	return xactGetCommittedInvalidationMessages(&messages, &init_file) > 0;
}

/*
 * NOTIFY is sent after the last moment at which an extension may fail.  Only the
 * check of PREPARE TRANSACTION shows whether notifications are pending.
 */
static bool
has_notifications(void)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool result = false;

	PG_TRY();
	{
		AtPrepare_Notify();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
		result = true;
	}
	PG_END_TRY();
	return result;
}

/* Has this transaction done nothing yet, on the router or on shards? */
bool
sl_txn_is_untouched(void)
{
	return dlist_is_empty(sl_txn_participants()) &&
		!TransactionIdIsValid(GetTopTransactionIdIfAny()) &&
		XactIsoLevel != XACT_SERIALIZABLE && !has_notifications();
}

/*
 * Has the transaction written on the router?  Called before the commit, when no
 * statement of the user runs any more.
 */
bool
sl_txn_wrote_locally(void)
{
	if (XactIsoLevel == XACT_SERIALIZABLE || has_notifications())
		return true;
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return false;
	return changed_catalogs() || holds_table_for_writing();
}
