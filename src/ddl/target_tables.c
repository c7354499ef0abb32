/*
 * target_tables.c
 *		The tables that a statement names.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"

/*
 * Is it known where the table is?  While a dump of the router is restored, tables are
 * created before the maps.
 */
static bool
has_homes(const SlTable *table)
{
	SlMapRow	row;

	return table->kind != SL_TABLE_SHARDED || sl_map_row_read(table->map, NULL, &row);
}

SlTable *
sl_ddl_table_by_oid(Oid relid)
{
	SlTable    *table = OidIsValid(relid) ? sl_table_get(relid) : NULL;

	return table != NULL && has_homes(table) ? table : NULL;
}

/* Returns the distributed table with that name, or NULL; takes no lock. */
SlTable *
sl_ddl_table(const RangeVar *relation)
{
	return sl_ddl_table_by_oid(relation != NULL ? RangeVarGetRelid(relation, NoLock, true) : InvalidOid);
}

SlTable *
sl_ddl_table_by_names(List *names)
{
	return sl_ddl_table(makeRangeVarFromNameList(names));
}

/* PostgreSQL checks that itself for whatever runs on the router. */
void
sl_ddl_check_owner(Oid relid)
{
	if (!sl_relation_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
}

static void
check_before_lock(const RangeVar *relation, Oid relid, Oid old_relid, void *arg)
{
	if (OidIsValid(relid))
		sl_ddl_check_owner(relid);
}

/*
 * Locks a table here, before its shards, for the owner.  It is what keeps DDL
 * and the router's other statements apart, and in one order.
 */
void
sl_ddl_lock(const RangeVar *relation, LOCKMODE mode)
{
	(void) RangeVarGetRelidExtended(relation, mode, 0, check_before_lock, NULL);
}

/* Returns the qualified name, which is the same on the shards. */
char *
sl_ddl_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* Returns the qualified name of something else in the table's schema. */
char *
sl_ddl_name_in(Oid relid, const char *object)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), object);
}

/* Are the rows of the table on shards only? */
bool
sl_ddl_is_remote(const SlTable *table)
{
	return table->kind != SL_TABLE_REFERENCE;
}

/*
 * Returns the table and the partitions of all levels that it has on the router, as
 * OIDs.  The caller holds a lock on the table.
 */
List *
sl_ddl_with_partitions(const SlTable *table)
{
	return sl_ddl_is_remote(table) && get_rel_relkind(table->relid) == RELKIND_PARTITIONED_TABLE ?
		find_all_inheritors(table->relid, NoLock, NULL) : list_make1_oid(table->relid);
}

/*
 * Lets what runs on the router access a shell table and its partitions, whose
 * heaps are empty there: ALTER TABLE scans and rewrites them.
 */
void
sl_ddl_open_shell(SlDdl *ddl, const SlTable *table)
{
	if (sl_ddl_is_remote(table))
		ddl->opened = list_concat_unique_oid(ddl->opened, sl_ddl_with_partitions(table));
}

/* Returns the extension's function of that name without arguments, or InvalidOid. */
Oid
sl_ddl_own_function(const char *name)
{
	return sl_catalog_function(SL_SCHEMA, name, 0, NULL);
}

/* Returns the function of the triggers of reference tables. */
Oid
sl_ddl_reference_function(void)
{
	return sl_ddl_own_function(SL_REFERENCE_FUNCTION);
}

/* Returns the tables whose triggers call the extension's function. */
static List *
reference_tables(void)
{
	Oid			function = sl_ddl_reference_function();
	List	   *relids = NIL;
	Relation	relation;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(function))
		return NIL;
	relation = table_open(TriggerRelationId, AccessShareLock);
	scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_trigger row = (Form_pg_trigger) GETSTRUCT(tuple);

		if (row->tgfoid == function)
			relids = list_append_unique_oid(relids, row->tgrelid);
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return sl_table_get_all(relids);
}

/* Was it placed on a shard that does not exist any more? */
bool
sl_ddl_has_lost_shard(const SlTable *table)
{
	return table->kind == SL_TABLE_PLACED && !sl_shard_by_id(table->shard_id)->exists;
}

/* Returns all distributed tables of this database, reference tables included. */
List *
sl_ddl_all_tables(void)
{
	List	   *result = reference_tables();
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		if (has_homes(lfirst(cell)) && !sl_ddl_has_lost_shard(lfirst(cell)))
			result = lappend(result, lfirst(cell));
	}
	return result;
}

bool
sl_ddl_is_key(const SlTable *table, const char *column)
{
	AttrNumber	number = get_attnum(table->relid, column);

	for (int i = 0; i < table->key_count; i++)
	{
		if (table->key[i] == number)
			return true;
	}
	return false;
}

static bool
is_same_set(const List *a, const List *b)
{
	return list_length(a) == list_length(b) && list_difference_ptr(a, b) == NIL;
}

/*
 * Puts tables together that live on the same shards.  Reference tables come
 * last, and by themselves only where they must: others may refer to them.
 */
List *
sl_ddl_groups(List *tables)
{
	List	   *groups = NIL;
	ListCell   *cell;
	ListCell   *group_cell;

	foreach(cell, tables)
	{
		SlTable    *table = lfirst(cell);
		List	   *shards = sl_table_homes(table);
		SlDdlGroup *group = NULL;

		foreach(group_cell, groups)
		{
			group = lfirst(group_cell);
			if (is_same_set(group->shards, shards))
				break;
			group = NULL;
		}
		if (group == NULL)
		{
			group = palloc0(sizeof(SlDdlGroup));
			group->shards = shards;
			group->is_reference = table->kind == SL_TABLE_REFERENCE;
			groups = group->is_reference ? lappend(groups, group) : lcons(group, groups);
		}
		group->tables = lappend(group->tables, table);
	}
	return groups;
}

void
sl_ddl_run_on_router(SlDdl *ddl, void *statement)
{
	ddl->local = lappend(ddl->local, statement);
}

void
sl_ddl_refuse(const SlTable *table, const char *what, const char *hint)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot %s table \"%s\"", what, get_rel_name(table->relid)),
			errdetail(table->kind == SL_TABLE_REFERENCE ?
					  "It is a reference table, with a copy on every shard." :
					  "Its rows are on shards."),
			hint != NULL ? errhint("%s", hint) : 0);
}

/* The triggers that carry the changes of a reference table are not the user's. */
void
sl_ddl_check_reference_trigger(const SlTable *table, const char *trigger, const char *what)
{
	Relation	relation = RelationIdGetRelation(table->relid);
	Oid			function = sl_ddl_reference_function();
	bool		is_own = false;

	if (!RelationIsValid(relation))
		return;
	for (int i = 0; relation->trigdesc != NULL && i < relation->trigdesc->numtriggers; i++)
	{
		const Trigger *row = &relation->trigdesc->triggers[i];

		if (row->tgfoid == function && strcmp(row->tgname, trigger) == 0)
			is_own = true;
	}
	RelationClose(relation);
	if (is_own)
		sl_ddl_refuse(table, psprintf("%s a trigger that carries the changes of", what), NULL);
}

/* Analyses an expression over the columns of a table, as it is now. */
Node *
sl_ddl_transform(const SlTable *table, Node *raw, ParseExprKind kind)
{
	ParseState *state = make_parsestate(NULL);
	Relation	relation = table_open(table->relid, NoLock);
	Node	   *result;

	addNSItemToQuery(state, addRangeTableEntryForRelation(state, relation, AccessShareLock, NULL, false, true),
					 false, true, true);
	result = transformExpr(state, copyObject(raw), kind);
	free_parsestate(state);
	table_close(relation, NoLock);
	return result;
}
