/*
 * shell_access.c
 *		Decides whether the heap of a shell table may be accessed.
 *
 * The heap of a shell table is empty, since the rows are on shards.  Whatever reads
 * or writes it has not been replaced by access to the shards, and would return no
 * rows, or hide them on the router: that is an error.  It is raised at two
 * places, the access method (table_access_method.c) and the planner, which comes
 * earlier and sees partitioned tables too.
 *
 * Commands of this extension that rewrite, fill or empty a shell table open it for
 * themselves.  An opening is of one table, so that functions which run meanwhile
 * cannot read other shell tables as empty ones.  It ends with sl_shell_close(), or
 * when the subtransaction that made it aborts, or with the transaction.
 *
 * A dump does not have the row of pg_foreign_table, and so a restored table is not
 * connected.  If it has blocks, its rows were in the dump, and it is a plain table.
 * If not, its rows may be on shards: access is an error until the table is
 * connected again.  Only the restore itself works on it, to fill it and to check
 * its constraints.  The openings are in TopTransactionContext.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_publication_namespace.h"
#include "catalog/pg_publication_rel.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "access/shell_access.h"
#include "base/base.h"
#include "metadata/table.h"

/* A table that is open, and the subtransaction that opened it. */
typedef struct Opening
{
	Oid			relid;			/* InvalidOid: tables that are being created */
	SubTransactionId transaction;
} Opening;

static List *openings = NIL;

static get_relation_info_hook_type next_relation_info = NULL;
static object_access_hook_type next_object_access = NULL;

/* Openings -------------------------------------------------------------------- */

/*
 * Lets this transaction access the heap of a shell table.  With InvalidOid, it may
 * create tables with the access method.
 */
void
sl_shell_open(Oid relid)
{
	MemoryContext old_context = MemoryContextSwitchTo(TopTransactionContext);
	Opening    *opening = palloc(sizeof(Opening));

	opening->relid = relid;
	opening->transaction = GetCurrentSubTransactionId();
	openings = lappend(openings, opening);
	MemoryContextSwitchTo(old_context);
}

/* Ends the last opening of the table. */
void
sl_shell_close(Oid relid)
{
	for (int i = list_length(openings) - 1; i >= 0; i--)
	{
		if (((Opening *) list_nth(openings, i))->relid != relid)
			continue;
		openings = list_delete_nth_cell(openings, i);
		return;
	}
}

bool
sl_shell_is_open(Oid relid)
{
	ListCell   *cell;

	foreach(cell, openings)
	{
		if (((Opening *) lfirst(cell))->relid == relid)
			return true;
	}
	return false;
}

/* The list is freed with the transaction. */
static void
end_transaction(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			openings = NIL;
			break;
		default:
			break;
	}
}

/* Openings of a subtransaction that commits become its parent's. */
static void
end_subtransaction(SubXactEvent event, SubTransactionId transaction, SubTransactionId parent, void *arg)
{
	ListCell   *cell;

	if (event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	foreach(cell, openings)
	{
		Opening    *opening = lfirst(cell);

		if (opening->transaction != transaction)
			continue;
		if (event == SUBXACT_EVENT_COMMIT_SUB)
			opening->transaction = parent;
		else
			openings = foreach_delete_current(openings, cell);
	}
}

#ifdef SL_FAULTS
PG_FUNCTION_INFO_V1(shardlet_open_shell);

/* Opens a table, or with false closes it; 0: creation.  For tests. */
Datum
shardlet_open_shell(PG_FUNCTION_ARGS)
{
	if (PG_GETARG_BOOL(1))
		sl_shell_open(PG_GETARG_OID(0));
	else
		sl_shell_close(PG_GETARG_OID(0));
	PG_RETURN_VOID();
}
#endif

/* States ---------------------------------------------------------------------- */

/*
 * Is this session restoring a dump?  The script of pg_dump, and each connection of
 * pg_restore, begins with these settings.  No application needs both, SET
 * search_path = '' does not make the path empty, and pg_dump itself does not switch
 * check_function_bodies off.
 */
bool
sl_shell_is_restoring(void)
{
	return IsBinaryUpgrade || (!check_function_bodies && namespace_search_path[0] == '\0');
}

/* Has the heap blocks?  relation_size of the access method may say so without. */
bool
sl_shell_has_blocks(Relation relation)
{
	return table_block_relation_size(relation, MAIN_FORKNUM) > 0;
}

/*
 * Returns the table that a new relation is to replace, InvalidOid if it is none of
 * those that CLUSTER, VACUUM FULL and ALTER TABLE make.
 */
Oid
sl_shell_rewritten_table(Relation relation)
{
	const char *name = RelationGetRelationName(relation);
	Oid			relid;
	char		expected[NAMEDATALEN];

	if (strncmp(name, "pg_temp_", 8) != 0)
		return InvalidOid;
	relid = (Oid) strtoul(name + 8, NULL, 10);
	snprintf(expected, sizeof(expected), "pg_temp_%u", relid);
	return strcmp(name, expected) == 0 && SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) ?
		relid : InvalidOid;
}

/*
 * Returns the state of a relation with the access method.  Called for each scan,
 * and for each row that is written: it looks at system caches, and only if the table
 * is not connected at the size of its file.
 */
SlShellState
sl_shell_state(Relation relation)
{
	if (openings != NIL && sl_shell_is_open(RelationGetRelid(relation)))
		return SL_SHELL_OPEN;
	if (sl_shell_is_connected(RelationGetRelid(relation)))
		return SL_SHELL_CONNECTED;
	if (sl_shell_has_blocks(relation) || sl_shell_is_restoring())
		return SL_SHELL_RESTORED;
	if (openings != NIL && sl_shell_is_open(sl_shell_rewritten_table(relation)))
		return SL_SHELL_OPEN;
	return SL_SHELL_DORMANT;
}

/* May the heap be accessed? */
bool
sl_shell_is_heap(Relation relation)
{
	SlShellState state = sl_shell_state(relation);

	return state == SL_SHELL_OPEN || state == SL_SHELL_RESTORED;
}

pg_noreturn static void
refuse_connected(const char *name)
{
	ereport(ERROR,
			errcode(sl_preloaded() ? ERRCODE_FEATURE_NOT_SUPPORTED : ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("cannot access table \"%s\" on the router alone", name),
			errdetail("The table is distributed: its rows are on shards."),
			sl_preloaded() ? errhint("shardlet.execute() runs statements on the shards.") :
			errhint("Set shared_preload_libraries = 'shardlet' in postgresql.conf, and restart the server."));
}

pg_noreturn static void
refuse_dormant(const char *name)
{
	ereport(ERROR,
			errcode(SL_ERR_IDENTITY),
			errmsg("table \"%s\" is not connected to its shards", name),
			errdetail("The table is distributed, and was restored from a dump without its rows."),
			errhint("SELECT shardlet.take_over();"));
}

/* Is the relation a table of the access method that is waiting to be connected? */
static bool
is_dormant_table(Oid relid)
{
	Relation	relation = table_open(relid, NoLock);
	bool		result = sl_shell_has_access_method(relation) && sl_shell_state(relation) == SL_SHELL_DORMANT;

	table_close(relation, NoLock);
	return result;
}

/*
 * Is a partitioned table listed as distributed, but not connected, and without
 * rows?  It has no access method to tell, up to version 16.  As soon as one of its
 * partitions may be accessed it was restored with rows; the others raise
 * the error themselves.
 */
static bool
is_dormant_parent(Oid relid)
{
	ListCell   *cell;

	if (sl_shell_is_open(relid) || sl_shell_is_restoring() || !sl_shell_list_has(relid))
		return false;
	foreach(cell, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		if (get_rel_relkind(lfirst_oid(cell)) != RELKIND_PARTITIONED_TABLE && !is_dormant_table(lfirst_oid(cell)))
			return false;
	}
	return true;
}

/* Raises an error unless the heap may be accessed. */
void
sl_shell_check_access(Relation relation)
{
	switch (sl_shell_state(relation))
	{
		case SL_SHELL_CONNECTED:
			refuse_connected(RelationGetRelationName(relation));
		case SL_SHELL_DORMANT:
			refuse_dormant(RelationGetRelationName(relation));
		default:
			break;
	}
}

/* Planner --------------------------------------------------------------------- */

static void
check_table(Oid relid)
{
	Relation	relation;

	if (!sl_shell_are_known())
		return;
	relation = table_open(relid, NoLock);
	if (sl_shell_has_access_method(relation))
		sl_shell_check_access(relation);
	table_close(relation, NoLock);
}

static void
check_partitioned_table(Oid relid)
{
	if (sl_shell_is_connected(relid))
	{
		if (!sl_shell_is_open(relid))
			refuse_connected(get_rel_name(relid));
	}
	else if (is_dormant_parent(relid))
		refuse_dormant(get_rel_name(relid));
}

/*
 * Raises an error if a statement reads a shell table as a plain one.  What was
 * replaced by access to the shards has another relkind in the range table.
 */
static void
check_planned(PlannerInfo *root, Oid relid, bool is_parent, RelOptInfo *rel)
{
	char		kind = planner_rt_fetch(rel->relid, root)->relkind;

	if (next_relation_info != NULL)
		next_relation_info(root, relid, is_parent, rel);

	/* CREATE INDEX and CLUSTER make a query of nothing, for its costs. */
	if (root->parse->jointree == NULL)
		return;
	if (kind == RELKIND_RELATION)
		check_table(relid);
	else if (kind == RELKIND_PARTITIONED_TABLE)
		check_partitioned_table(relid);
}

/* Objects --------------------------------------------------------------------- */

/* A publication of a shell table would publish nothing. */
static void
check_published_table(Oid relid)
{
	if (!sl_shell_is_connected(relid))
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot add table \"%s\" to publication", get_rel_name(relid)),
			errdetail("The table is distributed: its rows are on shards."),
			errhint("Create publications of it on the shards."));
}

/* Checks tables of pg_publication_rel that were just added. */
static void
check_publication(Oid index, AttrNumber column, Oid value)
{
	Relation	catalog = table_open(PublicationRelRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(value));
	scan = systable_beginscan(catalog, index, true, SnapshotSelf, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		check_published_table(((Form_pg_publication_rel) GETSTRUCT(tuple))->prrelid);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* Warns of distributed tables that a publication comprises with others; of a schema, or of all. */
static void
warn_published(Oid schema)
{
	const char *first = NULL;
	int			count = 0;
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		Oid			relid = ((const SlTable *) lfirst(cell))->relid;

		if (OidIsValid(schema) && get_rel_namespace(relid) != schema)
			continue;
		if (count++ == 0)
			first = get_rel_name(relid);
	}
	if (count > 0)
		ereport(WARNING,
				errmsg_plural("the publication does not publish %d distributed table",
							  "the publication does not publish %d distributed tables", count, count),
				errdetail("The rows of table \"%s\" are on shards.", first),
				errhint("Create publications of such tables on the shards."));
}

/* A row of a catalog of publications was just added: returns it, copied. */
static HeapTuple
copy_new_row(Oid catalog_id, Oid index, AttrNumber column, Oid oid)
{
	Relation	catalog = table_open(catalog_id, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
	scan = systable_beginscan(catalog, index, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	tuple = HeapTupleIsValid(tuple) ? heap_copytuple(tuple) : NULL;
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return tuple;
}

/* Warns of the schemas of a new publication, for which PostgreSQL calls no hook. */
static void
check_published_schemas(Oid publication)
{
	Relation	catalog = table_open(PublicationNamespaceRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_publication_namespace_pnpubid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(publication));
	scan = systable_beginscan(catalog, InvalidOid, false, SnapshotSelf, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		warn_published(((Form_pg_publication_namespace) GETSTRUCT(tuple))->pnnspid);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

static void
check_new_publication(Oid publication)
{
	HeapTuple	tuple = copy_new_row(PublicationRelationId, PublicationObjectIndexId, Anum_pg_publication_oid,
									 publication);

	check_publication(PublicationRelPrpubidIndexId, Anum_pg_publication_rel_prpubid, publication);
	if (tuple != NULL && ((Form_pg_publication) GETSTRUCT(tuple))->puballtables)
		warn_published(InvalidOid);
	check_published_schemas(publication);
}

static void
check_published_schema(Oid entry)
{
	HeapTuple	tuple = copy_new_row(PublicationNamespaceRelationId, PublicationNamespaceObjectIndexId,
									 Anum_pg_publication_namespace_oid, entry);

	if (tuple != NULL)
		warn_published(((Form_pg_publication_namespace) GETSTRUCT(tuple))->pnnspid);
}

/*
 * PostgreSQL removes the row of pg_foreign_table of foreign tables only.  A restored
 * table has none, and is listed all the same.
 */
static void
drop_shell(Oid relid)
{
	char		kind = get_rel_relkind(relid);

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		return;
	if (sl_shell_is_connected(relid))
		sl_shell_remove_row(relid);
	else
		sl_shell_list_remove(relid);
}

static void
watch_objects(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (next_object_access != NULL)
		next_object_access(access, class_id, object_id, sub_id, arg);
	if (access == OAT_DROP && class_id == RelationRelationId && sub_id == 0)
		drop_shell(object_id);
	else if (access == OAT_POST_ALTER && class_id == RelationRelationId && sub_id == 0)
		sl_shell_list_follow_table(object_id);
	else if (access == OAT_POST_ALTER && class_id == NamespaceRelationId)
		sl_shell_list_follow_schema(object_id);
	else if (access == OAT_POST_CREATE && class_id == PublicationRelationId)
		check_new_publication(object_id);
	else if (access == OAT_POST_CREATE && class_id == PublicationNamespaceRelationId)
		check_published_schema(object_id);
	else if (access == OAT_POST_CREATE && class_id == PublicationRelRelationId)
		check_publication(PublicationRelObjectIndexId, Anum_pg_publication_rel_oid, object_id);
}

void
sl_shell_init(void)
{
	RegisterXactCallback(end_transaction, NULL);
	RegisterSubXactCallback(end_subtransaction, NULL);
	next_relation_info = get_relation_info_hook;
	get_relation_info_hook = check_planned;
	next_object_access = object_access_hook;
	object_access_hook = watch_objects;
	sl_shell_statistics_init();
	sl_shell_planning_init();
}
