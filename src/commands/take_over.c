/*
 * take_over.c
 *		take_over(): a restored or upgraded database becomes the router.
 *
 * A dump has the shards, the maps and the list of shell tables
 * (metadata/shell_catalog.c), but not the rows of pg_foreign_table, and pg_upgrade is
 * a dump and a restore.  What is restored with rows is a database of plain tables that
 * touches no shard.  What is restored without rows cannot be accessed until this
 * function adds the rows of pg_foreign_table again.
 *
 * A table with rows on the router is refused, and so is the whole call: connecting it
 * would hide these rows, and a database with some of its tables connected would show
 * rows of different times.  Nothing is sent to the shards: their tables are as the
 * previous router left them.
 *
 * Each step of a takeover is a function that is called by shardlet_take_over(), in one
 * transaction.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "access/shell_access.h"
#include "base/base.h"
#include "commands/commands.h"
#include "executor/multi_shard.h"

PG_FUNCTION_INFO_V1(shardlet_take_over);

/* A listed table that is to be connected. */
typedef struct Candidate
{
	Oid			relid;
	List	   *options;
} Candidate;

static bool
is_partitioned(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE;
}

/* Returns the qualified name for messages. */
static char *
table_name_of(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
}

/* Checks ---------------------------------------------------------------------- */

pg_noreturn static void
refuse_rows(Oid relid)
{
	char	   *name = table_name_of(relid);

	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("cannot connect table \"%s\" to its shards", get_rel_name(relid)),
			errdetail("Table %s was restored with rows, which would be hidden.", name),
			errhint("To connect all tables, restore a dump without their rows: pg_dump --exclude-table-data. To keep this one as a plain table, ALTER TABLE %s SET ACCESS METHOD heap%s.",
					name, get_rel_relispartition(relid) ? ", and for the other partitions" : ""));
}

/*
 * Does the relation, which is of relkind r, wait to be connected?  Raises an
 * error if it has rows.  The caller has locked it.
 */
static bool
is_dormant(Oid relid)
{
	Relation	relation = table_open(relid, NoLock);
	bool		result = sl_shell_has_access_method(relation);

	if (result && sl_shell_has_blocks(relation))
		refuse_rows(relid);
	CheckTableNotInUse(relation, "take_over");
	table_close(relation, NoLock);
	return result;
}

pg_noreturn static void
refuse_partition(Oid relid, Oid parent)
{
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("cannot connect table \"%s\" to its shards", get_rel_name(parent)),
			errdetail("Its partition %s is a plain table.", table_name_of(relid)),
			errhint("Detach the partition first."));
}

/*
 * Does a partitioned table wait to be connected?  It does if all its partitions do.
 * If none does, it was made plain after it was restored.  Locks the partitions.
 */
static bool
is_dormant_tree(Oid parent)
{
	Oid			plain = InvalidOid;
	int			waiting = 0;
	ListCell   *cell;

	foreach(cell, find_all_inheritors(parent, AccessExclusiveLock, NULL))
	{
		Oid			relid = lfirst_oid(cell);

		if (is_partitioned(relid))
			continue;
		if (get_rel_relkind(relid) == RELKIND_RELATION && is_dormant(relid) && sl_shell_list_has(relid))
			waiting++;
		else
			plain = relid;
	}
	if (waiting > 0 && OidIsValid(plain))
		refuse_partition(plain, parent);
	return !OidIsValid(plain);
}

/*
 * Returns the table of an entry if it waits to be connected, or InvalidOid.  Locks
 * it.  The entry of a table that does not exist is removed: it would be
 * taken for that of a table which gets its name later.
 */
static Oid
find_dormant(const SlListedTable *entry)
{
	Oid			relid = RangeVarGetRelid(makeRangeVar(entry->schema, entry->name, -1), AccessExclusiveLock, true);
	char		kind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';

	if (!OidIsValid(relid))
	{
		ereport(NOTICE,
				errmsg("table \"%s.%s\" does not exist, skipping", entry->schema, entry->name),
				errdetail("It was distributed, and is not in the dump."));
		sl_shell_list_remove_entry(entry);
		return InvalidOid;
	}
	if (sl_shell_is_connected(relid))
		return InvalidOid;
	if (kind == RELKIND_RELATION)
		return is_dormant(relid) ? relid : InvalidOid;
	return kind == RELKIND_PARTITIONED_TABLE && is_dormant_tree(relid) ? relid : InvalidOid;
}

/* Returns the listed tables that are to be connected: Candidates. */
static List *
find_candidates(void)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_shell_list_all())
	{
		const SlListedTable *entry = lfirst(cell);
		Oid			relid = find_dormant(entry);
		Candidate  *candidate;

		if (!OidIsValid(relid))
			continue;
		candidate = palloc(sizeof(Candidate));
		candidate->relid = relid;
		candidate->options = entry->options;
		result = lappend(result, candidate);
	}
	return result;
}

/* Connecting ------------------------------------------------------------------ */

static void
connect_candidate(const Candidate *candidate)
{
	Relation	relation = table_open(candidate->relid, NoLock);

	sl_shell_add_row(candidate->relid, candidate->options);
	CacheInvalidateRelcache(relation);
	table_close(relation, NoLock);
	CommandCounterIncrement();

	/* Raises an error if the key, the map or the shard does not exist. */
	(void) sl_table_homes(sl_table_get(candidate->relid));
}

pg_noreturn static void
refuse_unlisted(Oid relid)
{
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("cannot connect table \"%s\" to its shards", get_rel_name(relid)),
			errdetail("Its map and key are not known: a dump that was made with --schema-only does not have them."),
			errhint("Restore a dump that leaves out nothing but rows: pg_dump --exclude-table-data."));
}

/* Raises an error if a table still cannot be accessed, because it is not listed. */
static void
check_unlisted(void)
{
	Oid			method = get_table_am_oid(SL_ACCESS_METHOD_NAME, false);
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_class_relam, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(method));
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class row = (Form_pg_class) GETSTRUCT(tuple);
		Relation	relation;

		if (row->relkind != RELKIND_RELATION || sl_shell_is_connected(row->oid))
			continue;
		relation = try_relation_open(row->oid, AccessShareLock);
		if (relation != NULL && !sl_shell_has_blocks(relation))
			refuse_unlisted(row->oid);
		if (relation != NULL)
			relation_close(relation, NoLock);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* The step that connects the listed tables. */
static void
connect_tables(void)
{
	List	   *candidates = find_candidates();
	ListCell   *cell;

	foreach(cell, candidates)
		connect_candidate(lfirst(cell));
	check_unlisted();
}

/*
 * The step that makes this database the router for its shards.  The epoch rises on all
 * of them, so that no other copy of the router can use them any more.  One that is
 * offline learns of it before it is online.
 */
static void
claim_shards(void)
{
	const SlRouter *router = sl_router_get();
	ListCell   *cell;

	if (!router->exists)
		return;
	sl_router_set_epoch(router->epoch + 1);
	foreach(cell, sl_shard_all())
	{
		SlShard    *shard = lfirst(cell);

		if (shard->state != SL_STATE_OFFLINE)
			sl_publish_claim(shard, true);
	}
}

/* take_over() */
Datum
shardlet_take_over(PG_FUNCTION_ARGS)
{
	sl_check_writable("shardlet.take_over()");
	claim_shards();
	connect_tables();
	PG_RETURN_VOID();
}
