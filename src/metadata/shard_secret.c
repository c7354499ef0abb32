/*
 * shard_secret.c
 *		On the router: the keys by which shards authenticate a list of
 *		orphaned rows.
 *
 * hide_rows() on a shard must be executable by every role that a user of the
 * router may be mapped to, and its conditions are evaluated below views and
 * row security.  So a shard accepts them only with a proof.  The router has
 * one secret, made with its first change of a map; the key of a shard is
 * derived from it, so that a shard cannot compute those of others, and is part
 * of the metadata update of each map (executor/publish_metadata.c).  A list is
 * not secret, and does no harm when it is replayed.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "base/base.h"
#include "metadata/map.h"

#define SECRET_COLUMN 1

static char *
read_secret(Relation relation)
{
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple = systable_getnext(scan);
	char	   *result = NULL;
	bool		is_null;

	if (HeapTupleIsValid(tuple))
		result = TextDatumGetCString(heap_getattr(tuple, SECRET_COLUMN, RelationGetDescr(relation),
												  &is_null));
	systable_endscan(scan);
	return result;
}

/* Two concurrent first changes must not make two secrets. */
static char *
make_secret(void)
{
	Relation	relation = sl_catalog_open(SL_SECRET_TABLE, ShareRowExclusiveLock);
	char	   *secret = read_secret(relation);

	if (secret == NULL)
	{
		bool		is_null = false;
		Datum		value;

		secret = sl_hmac_make_key();
		value = CStringGetTextDatum(secret);
		sl_catalog_insert(relation, heap_form_tuple(RelationGetDescr(relation), &value, &is_null));
		CommandCounterIncrement();
	}
	table_close(relation, NoLock);
	return secret;
}

/*
 * Returns the key of a shard, or NULL if there is no secret yet.  "may_make":
 * makes one, in a transaction that changes a map.
 */
char *
sl_shard_secret_get(int32 shard_id, bool may_make)
{
	Relation	relation = sl_catalog_open(SL_SECRET_TABLE, AccessShareLock);
	char	   *secret = read_secret(relation);

	table_close(relation, AccessShareLock);
	if (secret == NULL && may_make)
		secret = make_secret();
	return secret != NULL ? sl_hmac_make(secret, list_make1(psprintf("shard %d", shard_id))) : NULL;
}
