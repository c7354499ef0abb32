/*
 * catalog_access.c
 *		Access to the extension's tables, indexes and sequences.
 *
 * The extension's schema has a fixed name, so an object is looked up by its name
 * once in a session.  The OIDs are discarded when a relation is invalidated, which
 * DROP EXTENSION does in every session.
 *
 * Rows are read and written with PostgreSQL's catalog functions and not with SQL:
 * a user who may execute a function needs no privilege on the tables, and a scan
 * sees what is committed now, whatever the isolation level of the caller.  The
 * privilege to change a map is the privilege to call its functions.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "commands/sequence.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/base.h"

static const char *const object_names[SL_CATALOG_COUNT] = {
	[SL_MAP_TABLE] = "catalog_map",
	[SL_MAP_ID_INDEX] = "catalog_map_pkey",
	[SL_MAP_NAME_INDEX] = "catalog_map_name",
	[SL_MAP_SHARD_TABLE] = "catalog_map_shard",
	[SL_MAP_SHARD_INDEX] = "catalog_map_shard_pkey",
	[SL_SHARDLET_TABLE] = "catalog_shardlet",
	[SL_SHARDLET_ID_INDEX] = "catalog_shardlet_pkey",
	[SL_SHARDLET_TOKEN_INDEX] = "catalog_shardlet_token",
	[SL_SHARDLET_SHARD_INDEX] = "catalog_shardlet_shard",
	[SL_GUARD_MAP_TABLE] = "catalog_guard_map",
	[SL_GUARD_MAP_INDEX] = "catalog_guard_map_pkey",
	[SL_GUARD_TABLE] = "catalog_guard_shardlet",
	[SL_GUARD_ID_INDEX] = "catalog_guard_shardlet_pkey",
	[SL_GUARD_TOKEN_INDEX] = "catalog_guard_shardlet_token",
	[SL_ORPHANED_TABLE] = "catalog_stray",
	[SL_ORPHANED_INDEX] = "catalog_stray_pkey",
	[SL_MOVE_TABLE] = "catalog_move",
	[SL_MOVE_ID_INDEX] = "catalog_move_pkey",
	[SL_MOVE_SHARDLET_INDEX] = "catalog_move_shardlet",
	[SL_SECRET_TABLE] = "catalog_secret",
	[SL_ROUTER_TABLE] = "catalog_router",
	[SL_DROPPED_MAP_TABLE] = "catalog_dropped_map",
	[SL_DROPPED_MAP_INDEX] = "catalog_dropped_map_pkey",
	[SL_GUARD_ROUTER_TABLE] = "catalog_guard_router",
	[SL_TABLE_TABLE] = "catalog_table",
	[SL_TABLE_INDEX] = "catalog_table_pkey",
	[SL_MISSED_DDL_TABLE] = "catalog_missed_ddl",
	[SL_MISSED_DDL_INDEX] = "catalog_missed_ddl_pkey",
	[SL_OBJECT_TABLE] = "catalog_object",
	[SL_OBJECT_INDEX] = "catalog_object_pkey",
	[SL_MAP_SEQUENCE] = "map_id_seq",
	[SL_SHARD_SEQUENCE] = "shard_id_seq",
	[SL_SHARDLET_SEQUENCE] = "shardlet_id_seq",
	[SL_MOVE_SEQUENCE] = "move_id_seq",
	[SL_MISSED_DDL_SEQUENCE] = "missed_ddl_id_seq",
	[SL_ID_SEQUENCE] = "next_id_seq",
};

static Oid	object_oids[SL_CATALOG_COUNT];

static void
invalidate_oids(Datum arg, Oid relid)
{
	for (int i = 0; i < SL_CATALOG_COUNT; i++)
	{
		if (!OidIsValid(relid) || object_oids[i] == relid)
			object_oids[i] = InvalidOid;
	}
}

void
sl_base_init(void)
{
	sl_guc_init();
	CacheRegisterRelcacheCallback(invalidate_oids, (Datum) 0);
}

/* Does this database have the extension? */
bool
sl_catalog_is_installed(void)
{
	return OidIsValid(get_extension_oid("shardlet", true));
}

/*
 * Returns the OID of one of the extension's functions, or InvalidOid.  Does not
 * check privileges on the schema: the name is not the user's.
 */
Oid
sl_catalog_function(const char *schema, const char *name, int arg_count, const Oid *arg_types)
{
	Oid			namespace = get_namespace_oid(schema, true);

	if (!OidIsValid(namespace))
		return InvalidOid;
	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
						   PointerGetDatum(buildoidvector(arg_types, arg_count)),
						   ObjectIdGetDatum(namespace));
}

/*
 * Returns the OID of one of the extension's relations, InvalidOid if there is none:
 * the database does not have the extension, or is dropping it.
 */
Oid
sl_catalog_find(SlCatalog object)
{
	Oid			schema;

	if (OidIsValid(object_oids[object]))
		return object_oids[object];

	/* By its name it might be a user's, where the extension is not installed. */
	schema = get_namespace_oid(SL_SCHEMA, true);
	if (OidIsValid(schema) && sl_catalog_is_installed())
		object_oids[object] = get_relname_relid(object_names[object], schema);
	return object_oids[object];
}

/* Returns the OID of one of the extension's relations, which must exist. */
Oid
sl_catalog_oid(SlCatalog object)
{
	Oid			oid = sl_catalog_find(object);

	if (!OidIsValid(oid))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("extension \"shardlet\" is not installed in this database"),
				errdetail("Relation \"%s.%s\" does not exist.",
						  SL_SCHEMA, object_names[object]),
				errhint("Run CREATE EXTENSION shardlet."));
	return oid;
}

Relation
sl_catalog_open(SlCatalog table, LOCKMODE lockmode)
{
	return table_open(sl_catalog_oid(table), lockmode);
}

/* Returns nextval() of one of the extension's sequences, unprivileged. */
int64
sl_catalog_next_id(SlCatalog sequence)
{
	return nextval_internal(sl_catalog_oid(sequence), false);
}

/*
 * Pushes a snapshot if there is none, and returns whether it did.  PostgreSQL
 * requires an active snapshot where a value may be toasted; a statement has one, a
 * background worker's transaction perhaps not.  A transaction must not take its
 * first snapshot while a scan has registered another one, as the scan that found
 * the row does: then a catalog snapshot will do.
 */
static bool
push_snapshot(Relation relation)
{
	if (ActiveSnapshotSet())
		return false;
	PushActiveSnapshot(FirstSnapshotSet ? GetTransactionSnapshot() :
					   GetCatalogSnapshot(RelationGetRelid(relation)));
	return true;
}

static void
pop_snapshot(bool was_pushed)
{
	if (was_pushed)
		PopActiveSnapshot();
}

void
sl_catalog_insert(Relation relation, HeapTuple tuple)
{
	bool		was_pushed = push_snapshot(relation);

	CatalogTupleInsert(relation, tuple);
	pop_snapshot(was_pushed);
}

void
sl_catalog_update(Relation relation, ItemPointer tid, HeapTuple tuple)
{
	bool		was_pushed = push_snapshot(relation);

	CatalogTupleUpdate(relation, tid, tuple);
	pop_snapshot(was_pushed);
}

void
sl_catalog_delete(Relation relation, ItemPointer tid)
{
	bool		was_pushed = push_snapshot(relation);

	CatalogTupleDelete(relation, tid);
	pop_snapshot(was_pushed);
}
