/*
 * fence.c
 *		Keeps snapshots of several shards and commits on several shards apart.
 *
 * Who commits on several shards enters before the first one commits, and leaves
 * with the end of the transaction, when the last one has.  Who takes snapshots
 * that must agree holds the fence meanwhile.  Any number can be inside, or hold
 * it, but not both; PostgreSQL's lock queue is fair to either.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lock.h"

#include "base/base.h"
#include "txn/txn.h"

/* Advisory locks of users have 1 or 2 in the last field. */
#define FENCE_CLASS 0x5AD1
#define FENCE_KIND 3

static LOCKTAG
fence_tag(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, FENCE_CLASS, 0, FENCE_KIND);
	return tag;
}

void
sl_fence_enter(void)
{
	LOCKTAG		tag = fence_tag();

	(void) LockAcquire(&tag, RowExclusiveLock, false, false);
}

void
sl_fence_hold(void)
{
	LOCKTAG		tag = fence_tag();

	(void) LockAcquire(&tag, ShareLock, false, false);
}

void
sl_fence_release(void)
{
	LOCKTAG		tag = fence_tag();

	(void) LockRelease(&tag, ShareLock, false);
}
