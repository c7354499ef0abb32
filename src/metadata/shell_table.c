/*
 * shell_table.c
 *		The row of pg_foreign_table that connects a shell table to its shards.
 *
 * A shell table is a distributed table that is an ordinary table in the router's
 * catalogs: of relkind r, with access method "shardlet" and no rows, or
 * partitioned.  Its row in pg_foreign_table names the common server, and says in its
 * options of which map it is, or on which shard.  PostgreSQL looks at such a row only
 * where a relation is a foreign table, so it neither dumps the row nor removes it
 * with the table.  What is dumped is a copy (shell_catalog.c), which is written and
 * removed with the row.
 *
 * A relation is a shell table only if its access method is ours as well: the row
 * alone might be left of a dropped table whose OID is in use again.  A partitioned
 * table has no access method up to version 16.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "metadata/table.h"

/*
 * Has the relation a row of pg_foreign_table that names the common server?  The
 * caller has checked its relkind and access method.  Two lookups in system caches.
 */
bool
sl_shell_is_connected(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));
	Oid			server;

	if (!HeapTupleIsValid(tuple))
		return false;
	server = ((Form_pg_foreign_table) GETSTRUCT(tuple))->ftserver;
	ReleaseSysCache(tuple);
	return server == get_foreign_server_oid(SL_TABLES_SERVER_NAME, true);
}

/* Returns the access method of a relation, InvalidOid for none. */
static Oid
access_method_of(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			result;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	result = ((Form_pg_class) GETSTRUCT(tuple))->relam;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Is the relation a shell table that is connected to its shards?  "relkind" is
 * the relation's.  Lookups in system caches; for most relations a single one.
 */
bool
sl_shell_is_shell(Oid relid, char relkind)
{
	if ((relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE) ||
		!sl_shell_is_connected(relid))
		return false;
	return relkind == RELKIND_PARTITIONED_TABLE ||
		access_method_of(relid) == get_table_am_oid(SL_ACCESS_METHOD_NAME, true);
}

/*
 * Adds the row of pg_foreign_table, and the dependency on the common server, and
 * lists the table for dumps.  The caller makes the latter visible, and invalidates
 * the relation's cache entry.
 */
void
sl_shell_add_row(Oid relid, List *options)
{
	CreateForeignTableStmt statement = {0};

	statement.servername = SL_TABLES_SERVER_NAME;
	statement.options = options;
	CreateForeignTable(&statement, relid);
	CommandCounterIncrement();
	sl_shell_list_add(relid);
}

/*
 * Gives a partition the row that another shell table has, its parent for instance.
 * The owner of that one needs no further privilege.
 */
void
sl_shell_copy_row(Oid relid, Oid source)
{
	Relation	catalog = table_open(ForeignTableRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(FOREIGNTABLEREL, ObjectIdGetDatum(source));
	Form_pg_foreign_table row;
	ObjectAddress table;
	ObjectAddress server;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for foreign table %u", source);
	row = (Form_pg_foreign_table) GETSTRUCT(tuple);
	row->ftrelid = relid;
	CatalogTupleInsert(catalog, tuple);
	ObjectAddressSet(table, RelationRelationId, relid);
	ObjectAddressSet(server, ForeignServerRelationId, row->ftserver);
	recordDependencyOn(&table, &server, DEPENDENCY_NORMAL);
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
	sl_shell_list_add(relid);
}

/*
 * Returns the map and key of a shell table, in the current memory context.  The
 * table must be connected.
 */
SlTable *
sl_shell_get_table(Oid relid)
{
	SlTable    *table = sl_table_get_as(relid, GetForeignTable(relid)->options);

	if (table == NULL)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("table with OID %u belongs to no map and no shard", relid));
	return table;
}

/*
 * Removes the row of pg_foreign_table, and the table from the list for dumps.  The
 * dependency on the server is left to the caller; DROP TABLE removes those of the
 * table.
 */
void
sl_shell_remove_row(Oid relid)
{
	Relation	catalog = table_open(ForeignTableRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCache1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for foreign table %u", relid);
	CatalogTupleDelete(catalog, &tuple->t_self);
	ReleaseSysCache(tuple);
	table_close(catalog, RowExclusiveLock);
	sl_shell_list_remove(relid);
}

/* Changes an option of the row of pg_foreign_table. */
void
sl_shell_set_option(Oid relid, const char *name, const char *value)
{
	Relation	catalog = table_open(ForeignTableRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));
	DefElem    *option = makeDefElemExtended(NULL, pstrdup(name), (Node *) makeString(pstrdup(value)), DEFELEM_SET, -1);
	Datum		values[Natts_pg_foreign_table] = {0};
	bool		nulls[Natts_pg_foreign_table] = {0};
	bool		replaces[Natts_pg_foreign_table] = {0};
	Datum		options;
	bool		is_null;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for foreign table %u", relid);
	options = SysCacheGetAttr(FOREIGNTABLEREL, tuple, Anum_pg_foreign_table_ftoptions, &is_null);
	values[Anum_pg_foreign_table_ftoptions - 1] = transformGenericOptions(ForeignTableRelationId,
																		  is_null ? PointerGetDatum(NULL) : options,
																		  list_make1(option), InvalidOid);
	replaces[Anum_pg_foreign_table_ftoptions - 1] = true;
	tuple = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replaces);
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	table_close(catalog, RowExclusiveLock);
	CacheInvalidateRelcacheByRelid(relid);
	CommandCounterIncrement();
	sl_shell_list_add(relid);
}
