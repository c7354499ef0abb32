/*
 * router_epoch.c
 *		The router that this shard belongs to.
 *
 * A shard has a row for each router that it was added to; one of them owns it.  The
 * row has an epoch, which is raised when another router, or another copy of the
 * same one, takes the shard: a router whose own epoch is lower was replaced.  It
 * learns that when it connects, and before it prepares a transaction.
 *
 * A transaction that is prepared here holds a lock (ownership_lock.c) until it is
 * finished, and a takeover waits for that lock: so no router finishes anything on a
 * shard that it has lost.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "compat.h"
#include "shard/shard.h"

/* So long a takeover waits for transactions of the router that it replaces. */
#define TAKEOVER_WAIT_MS 5000

PG_FUNCTION_INFO_V1(shardlet_router_check);
PG_FUNCTION_INFO_V1(shardlet_router_claim);

/* Columns, in the order of sql/install/36_guard.sql. */
enum
{
	ROUTER_ID = 1, ROUTER_NAME, ROUTER_EPOCH, ROUTER_IS_OWNER, ROUTER_LAST_CONTACT,
	ROUTER_COLUMNS = ROUTER_LAST_CONTACT
};

typedef struct RouterRow
{
	char	   *id;
	char	   *name;
	int64		epoch;
	bool		is_owner;
	TimestampTz last_contact;
	bool		exists;
	ItemPointerData tid;
} RouterRow;

static void
read_row(HeapTuple tuple, TupleDesc descriptor, RouterRow *row)
{
	Datum		values[ROUTER_COLUMNS];
	bool		nulls[ROUTER_COLUMNS];

	heap_deform_tuple(tuple, descriptor, values, nulls);
	row->id = TextDatumGetCString(values[ROUTER_ID - 1]);
	row->name = TextDatumGetCString(values[ROUTER_NAME - 1]);
	row->epoch = DatumGetInt64(values[ROUTER_EPOCH - 1]);
	row->is_owner = DatumGetBool(values[ROUTER_IS_OWNER - 1]);
	row->last_contact = DatumGetTimestampTz(values[ROUTER_LAST_CONTACT - 1]);
	row->exists = true;
	row->tid = tuple->t_self;
}

/* Finds the row of a router, and that of another one that owns the shard. */
static void
find_rows(const char *router, RouterRow *own, RouterRow *other)
{
	Relation	relation = sl_catalog_open(SL_GUARD_ROUTER_TABLE, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	memset(own, 0, sizeof(RouterRow));
	memset(other, 0, sizeof(RouterRow));
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		RouterRow	row;

		read_row(tuple, RelationGetDescr(relation), &row);
		if (strcmp(row.id, router) == 0)
			*own = row;
		else if (row.is_owner)
			*other = row;
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
}

static void
write_row(const RouterRow *row)
{
	Relation	relation = sl_catalog_open(SL_GUARD_ROUTER_TABLE, RowExclusiveLock);
	Datum		values[ROUTER_COLUMNS];
	bool		nulls[ROUTER_COLUMNS] = {0};
	ItemPointerData tid = row->tid;
	HeapTuple	tuple;

	values[ROUTER_ID - 1] = CStringGetTextDatum(row->id);
	values[ROUTER_NAME - 1] = CStringGetTextDatum(row->name);
	values[ROUTER_EPOCH - 1] = Int64GetDatum(row->epoch);
	values[ROUTER_IS_OWNER - 1] = BoolGetDatum(row->is_owner);
	values[ROUTER_LAST_CONTACT - 1] = TimestampTzGetDatum(row->last_contact);
	tuple = heap_form_tuple(RelationGetDescr(relation), values, nulls);
	if (row->exists)
		sl_catalog_update(relation, &tid, tuple);
	else
		sl_catalog_insert(relation, tuple);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

pg_noreturn static void
refuse_other(const RouterRow *other)
{
	ereport(ERROR,
			errcode(SL_ERR_IDENTITY),
			errmsg("database belongs to router \"%s\"", other->name),
			errdetail("That router's identity is \"%s\", and its last contact was at %s.",
					  other->id, timestamptz_to_str(other->last_contact)),
			errhint("If that router is lost, or is to lose this shard, use shardlet.add_shard(..., takeover => true). It cannot use its maps any more then."));
}

pg_noreturn static void
refuse_replaced(const RouterRow *own, const RouterRow *other)
{
	ereport(ERROR,
			errcode(SL_ERR_IDENTITY),
			errmsg("this shard was taken over from the router"),
			own->exists && own->is_owner ? errdetail("Another copy of the router has taken over.") :
			other->exists ? errdetail("It belongs to router \"%s\" now.", other->name) :
			errdetail("It does not know the router."),
			errhint("shardlet.take_over() makes this router the one that its shards belong to."));
}

/*
 * Raises an error unless the shard belongs to the router, and the router's epoch is the
 * latest.
 */
void
sl_guard_check_router(const char *router, int64 epoch)
{
	RouterRow	own;
	RouterRow	other;

	find_rows(router, &own, &other);
	if (!own.exists || !own.is_owner || own.epoch > epoch)
		refuse_replaced(&own, &other);
}

/* router_check(router, epoch) */
Datum
shardlet_router_check(PG_FUNCTION_ARGS)
{
	sl_guard_lock_router();
	sl_guard_check_router(text_to_cstring(PG_GETARG_TEXT_PP(0)), PG_GETARG_INT64(1));
	PG_RETURN_VOID();
}

/* Takes the shard from another router. */
static void
replace_other(RouterRow *other)
{
	other->is_owner = false;
	other->epoch++;
	write_row(other);
}

/* router_claim(router, name, epoch, takeover): returns the epoch that the router has here */
Datum
shardlet_router_claim(PG_FUNCTION_ARGS)
{
	char	   *router = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int64		epoch = PG_GETARG_INT64(2);
	bool		takeover = PG_GETARG_BOOL(3);
	RouterRow	own;
	RouterRow	other;

	sl_check_writable("shardlet.router_claim()");
	find_rows(router, &own, &other);
	if (other.exists && !takeover)
		refuse_other(&other);
	if (takeover)
	{
		sl_guard_lock_router_for_change(TAKEOVER_WAIT_MS);
		find_rows(router, &own, &other);
	}
	else if (own.exists && own.epoch > epoch)
		refuse_replaced(&own, &other);
	if (other.exists)
		replace_other(&other);
	own.id = router;
	own.name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	own.epoch = own.exists && takeover ? Max(own.epoch + 1, epoch) : epoch;
	own.is_owner = true;
	own.last_contact = GetCurrentTimestamp();
	write_row(&own);
	PG_RETURN_INT64(own.epoch);
}
