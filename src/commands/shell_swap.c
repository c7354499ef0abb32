/*
 * shell_swap.c
 *		Makes a plain table a shell table, and back.
 *
 * A shell table (metadata/shell_table.c) keeps everything that the table has in the
 * router's catalogs, but for its rows: the file is replaced by an empty one, as by
 * TRUNCATE, the access method by our own, and a row of pg_foreign_table connects it
 * to the shards.  Partitions become shell tables along with their parent; all have
 * the same options.  The number of rows stays, for the planner.
 *
 * On the way back the table is a heap again before rows are inserted.  Its indexes
 * are built afterwards, so that unique constraints are checked.
 *
 * Everything is done in the transaction: files are removed at commit, or
 * at rollback.  The caller holds AccessExclusiveLock on the table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "commands/commands.h"
#include "compat.h"

/* Files ----------------------------------------------------------------------- */

/* Gives the table, its TOAST table and their indexes new, empty files. */
static void
replace_files(Relation relation)
{
	Oid			toast = relation->rd_rel->reltoastrelid;

	RelationSetNewRelfilenumber(relation, relation->rd_rel->relpersistence);
	if (OidIsValid(toast))
	{
		Relation	toast_relation = table_open(toast, AccessExclusiveLock);

		RelationSetNewRelfilenumber(toast_relation, toast_relation->rd_rel->relpersistence);
		table_close(toast_relation, NoLock);
	}
	CommandCounterIncrement();
	(void) sl_reindex_relation(RelationGetRelid(relation), REINDEX_REL_PROCESS_TOAST);
}

/*
 * Sets the access method.  "pages" and "tuples" are what the planner is to
 * know about the table; a new file has made them unknown.
 */
static void
set_access_method(Oid relid, Oid method, int32 pages, float4 tuples)
{
	Relation	catalog = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class row;
	ObjectAddress table;
	ObjectAddress referenced;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	row = (Form_pg_class) GETSTRUCT(tuple);
	row->relam = method;
	row->relpages = pages;
	row->reltuples = tuples;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(catalog, RowExclusiveLock);
	deleteDependencyRecordsForClass(RelationRelationId, relid, AccessMethodRelationId, DEPENDENCY_NORMAL);
	ObjectAddressSet(table, RelationRelationId, relid);
	ObjectAddressSet(referenced, AccessMethodRelationId, method);
	recordDependencyOn(&table, &referenced, DEPENDENCY_NORMAL);
}

/* There and back -------------------------------------------------------------- */

static void
connect_relation(Oid relid, List *options, const char *verb)
{
	Relation	relation = table_open(relid, AccessExclusiveLock);
	int32		pages = relation->rd_rel->relpages;
	float4		tuples = relation->rd_rel->reltuples;

	CheckTableNotInUse(relation, verb);
	if (relation->rd_rel->relkind == RELKIND_RELATION)
	{
		replace_files(relation);
		CommandCounterIncrement();
		set_access_method(relid, get_table_am_oid(SL_ACCESS_METHOD_NAME, false), pages, tuples);
	}
	sl_shell_add_row(relid, options);
	CacheInvalidateRelcache(relation);
	table_close(relation, NoLock);
	CommandCounterIncrement();
}

/* Returns the table and, if it is partitioned, its partitions of all levels. */
static List *
table_with_partitions(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ?
		find_all_inheritors(relid, AccessExclusiveLock, NULL) : list_make1_oid(relid);
}

/*
 * Makes a plain or partitioned table, and its partitions, shell tables.  Their rows
 * on the router are gone.
 */
void
sl_shell_connect(Oid relid, List *options, const char *verb)
{
	ListCell   *cell;

	foreach(cell, table_with_partitions(relid))
		connect_relation(lfirst_oid(cell), options, verb);
}

static void
disconnect_relation(Oid relid, const char *verb)
{
	Relation	relation = table_open(relid, AccessExclusiveLock);

	CheckTableNotInUse(relation, verb);
	sl_shell_remove_row(relid);
	deleteDependencyRecordsForClass(RelationRelationId, relid, ForeignServerRelationId, DEPENDENCY_NORMAL);
	if (relation->rd_rel->relkind == RELKIND_RELATION)
		set_access_method(relid, HEAP_TABLE_AM_OID, 0, -1);
	CacheInvalidateRelcache(relation);
	table_close(relation, NoLock);
	CommandCounterIncrement();
}

/*
 * Makes a shell table, and its partitions, plain tables again, and reads the rows
 * of these shards into them.  Returns the number of rows.
 */
uint64
sl_shell_disconnect(Oid relid, List *shards, const char *verb)
{
	List	   *relids = table_with_partitions(relid);
	uint64		rows = 0;
	ListCell   *cell;

	foreach(cell, relids)
		disconnect_relation(lfirst_oid(cell), verb);
	foreach(cell, relids)
	{
		Relation	relation;

		if (get_rel_relkind(lfirst_oid(cell)) != RELKIND_RELATION)
			continue;

		/* Rows are frozen, so the file must be of this transaction. */
		relation = table_open(lfirst_oid(cell), NoLock);
		replace_files(relation);
		table_close(relation, NoLock);
		CommandCounterIncrement();
		rows += sl_table_fetch_rows(lfirst_oid(cell), shards);
		(void) sl_reindex_relation(lfirst_oid(cell), REINDEX_REL_PROCESS_TOAST | REINDEX_REL_CHECK_CONSTRAINTS);
		CommandCounterIncrement();
	}
	return rows;
}
