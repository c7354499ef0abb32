/*
 * router_identity.c
 *		Which router this database is.
 *
 * Shards know their router by an id and an epoch.  Both are in a row of the
 * router's catalog, which a dump contains, as does a copy of the database: so the
 * row has the server's system identifier and the database's OID too, and where they
 * differ this database is not the router that its shards know.  It is dormant then:
 * nothing is read from or written to a shard until take_over().
 *
 * A promoted standby, and a copy of the whole server, have the same values: they are
 * the router, until one of them raises the epoch.
 *
 * The row is cached; a change of it invalidates its relation.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/base.h"
#include "metadata/map.h"

/* Columns, in the order of sql/install/20_map.sql. */
enum
{
	ROUTER_ID = 1, ROUTER_SYSTEM_IDENTIFIER, ROUTER_DATABASE_OID, ROUTER_EPOCH,
	ROUTER_COLUMNS = ROUTER_EPOCH
};

static SlRouter cached;
static bool is_current = false;
static Oid	watched = InvalidOid;

static void
mark_stale(Datum arg, Oid relid)
{
	if (!OidIsValid(relid) || relid == watched || !OidIsValid(watched))
		is_current = false;
}

void
sl_router_init(void)
{
	CacheRegisterRelcacheCallback(mark_stale, (Datum) 0);
}

static void
read_row(HeapTuple tuple, TupleDesc descriptor, SlRouter *router)
{
	Datum		values[ROUTER_COLUMNS];
	bool		nulls[ROUTER_COLUMNS];

	heap_deform_tuple(tuple, descriptor, values, nulls);
	strlcpy(router->id, TextDatumGetCString(values[ROUTER_ID - 1]), sizeof(router->id));
	router->epoch = DatumGetInt64(values[ROUTER_EPOCH - 1]);
	router->exists = true;
	router->is_valid =
		(uint64) DatumGetInt64(values[ROUTER_SYSTEM_IDENTIFIER - 1]) == GetSystemIdentifier() &&
		DatumGetObjectId(values[ROUTER_DATABASE_OID - 1]) == MyDatabaseId;
}

/* Returns this router's identity; "exists" is false if no shard was ever added. */
const SlRouter *
sl_router_get(void)
{
	SlRouter	router = {.is_valid = true};
	Relation	relation;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (is_current)
		return &cached;
	watched = sl_catalog_find(SL_ROUTER_TABLE);

	/* A change during the scan invalidates it again. */
	is_current = OidIsValid(watched);
	if (OidIsValid(watched))
	{
		relation = table_open(watched, AccessShareLock);
		scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
		if (HeapTupleIsValid(tuple = systable_getnext(scan)))
			read_row(tuple, RelationGetDescr(relation), &router);
		systable_endscan(scan);
		table_close(relation, AccessShareLock);
	}
	cached = router;
	return &cached;
}

/* Returns the name of the router in messages of shards. */
char *
sl_router_name(void)
{
	return psprintf("%s on port %d", get_database_name(MyDatabaseId), PostPortNumber);
}

/* Writes the row: this database has the identity, with that epoch. */
static void
write_row(const char *id, int64 epoch)
{
	Relation	relation = sl_catalog_open(SL_ROUTER_TABLE, ShareRowExclusiveLock);
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	old = systable_getnext(scan);
	Datum		values[ROUTER_COLUMNS];
	bool		nulls[ROUTER_COLUMNS] = {0};
	HeapTuple	tuple;

	values[ROUTER_ID - 1] = CStringGetTextDatum(id);
	values[ROUTER_SYSTEM_IDENTIFIER - 1] = Int64GetDatum((int64) GetSystemIdentifier());
	values[ROUTER_DATABASE_OID - 1] = ObjectIdGetDatum(MyDatabaseId);
	values[ROUTER_EPOCH - 1] = Int64GetDatum(epoch);
	tuple = heap_form_tuple(RelationGetDescr(relation), values, nulls);
	if (HeapTupleIsValid(old))
		sl_catalog_update(relation, &old->t_self, tuple);
	else
		sl_catalog_insert(relation, tuple);
	systable_endscan(scan);
	CacheInvalidateRelcache(relation);
	table_close(relation, NoLock);
	CommandCounterIncrement();
	is_current = false;
}

/* Gives the database an identity unless it has one. */
void
sl_router_make(void)
{
	uint64		number;

	if (sl_router_get()->exists)
		return;
	if (!pg_strong_random(&number, sizeof(number)))
		ereport(ERROR,
				errcode(ERRCODE_INTERNAL_ERROR),
				errmsg("could not generate random values"));
	write_row(psprintf("%016llx", (unsigned long long) number), 1);
}

/* Makes this database the router, with that epoch. */
void
sl_router_set_epoch(int64 epoch)
{
	write_row(pstrdup(sl_router_get()->id), epoch);
}

/* Returns why shards cannot be used, or NULL. */
const char *
sl_router_refusal(void)
{
	const SlRouter *router = sl_router_get();

	if (router->is_valid)
		return NULL;
	return "This database was restored from a dump, upgraded, or copied from that of the router, which may still be in use.";
}

/* Raises an error if this database is not the router that its shards know. */
void
sl_router_check(void)
{
	const char *refusal = sl_router_refusal();

	if (refusal != NULL)
		ereport(ERROR,
				errcode(SL_ERR_IDENTITY),
				errmsg("this database is not the router that its shards know"),
				errdetail_internal("%s", refusal),
				errhint(SL_ROUTER_HINT));
}
