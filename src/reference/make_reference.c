/*
 * make_reference.c
 *		make_reference(), and what becomes of it: a table of the router gets a copy
 *		on every shard.
 *
 * The table stays what it is.  It is made on the shards as well, without user
 * triggers, since the router's have fired when a change arrives there; its rows
 * are copied, and triggers carry every later change (change_trigger.c).  All of
 * it is one transaction.
 *
 * Locks: the wrapper, as add_shard() does, so that no shard joins meanwhile without
 * the table; then the table, against writers.  The next write fires the triggers.
 * The rows that are copied are those that are committed now, whatever snapshot the
 * transaction has.
 *
 * Foreign keys: shards check those to other reference tables.  One to a table that
 * only the router has is left to the router, which checks every row anyway; when that
 * table becomes a reference table, the shards get the foreign key.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "compat.h"
#include "deparse/deparse.h"
#include "reference/reference.h"

PG_FUNCTION_INFO_V1(shardlet_make_reference);

#define OLD_ROWS "shardlet_old"
#define NEW_ROWS "shardlet_new"

/* The triggers.  "!" sorts before usual names: see change_trigger.c. */
static const struct
{
	const char *name;
	int16		timing;
	int16		event;
	bool		has_old;
	bool		has_new;
}			triggers[] = {
	{"!shardlet_insert", TRIGGER_TYPE_AFTER, TRIGGER_TYPE_INSERT, false, true},
	{"!shardlet_update", TRIGGER_TYPE_AFTER, TRIGGER_TYPE_UPDATE, true, true},
	{"!shardlet_delete", TRIGGER_TYPE_AFTER, TRIGGER_TYPE_DELETE, true, false},
	{"!shardlet_before_truncate", TRIGGER_TYPE_BEFORE, TRIGGER_TYPE_TRUNCATE, false, false},
	{"!shardlet_truncate", TRIGGER_TYPE_AFTER, TRIGGER_TYPE_TRUNCATE, false, false},
};

/* Which tables they are --------------------------------------------------------- */

static List *
function_name(void)
{
	List	   *name = list_make1(makeString("shardlet"));

	return lappend(name, makeString(SL_REFERENCE_FUNCTION));
}

static Oid
trigger_function(void)
{
	return sl_catalog_function(SL_SCHEMA, SL_REFERENCE_FUNCTION, 0, NULL);
}

bool
sl_reference_is(Oid relid)
{
	SlTable    *table = sl_table_get(relid);

	return table != NULL && table->kind == SL_TABLE_REFERENCE;
}

static List *
tables_with_triggers(void)
{
	Oid			function = trigger_function();
	Relation	relation = table_open(TriggerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;
	List	   *result = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_trigger row = (Form_pg_trigger) GETSTRUCT(tuple);

		if (row->tgfoid == function)
			result = list_append_unique_oid(result, row->tgrelid);
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	list_sort(result, list_oid_cmp);
	return result;
}

/* Does the table refer to one of these others? */
static bool
refers_to(Oid relid, List *others)
{
	Relation	relation = table_open(relid, AccessShareLock);
	bool		result = false;
	ListCell   *cell;

	foreach(cell, RelationGetFKeyList(relation))
	{
		Oid			referenced = ((ForeignKeyCacheInfo *) lfirst(cell))->confrelid;

		result = result || (referenced != relid && list_member_oid(others, referenced));
	}
	table_close(relation, AccessShareLock);
	return result;
}

/*
 * Returns all reference tables, those that others refer to first, as far as
 * that is possible.
 */
List *
sl_reference_all(void)
{
	List	   *left = tables_with_triggers();
	List	   *result = NIL;

	while (left != NIL)
	{
		Oid			next = linitial_oid(left);
		ListCell   *cell;

		foreach(cell, left)
		{
			if (!refers_to(lfirst_oid(cell), left))
			{
				next = lfirst_oid(cell);
				break;
			}
		}
		result = lappend_oid(result, next);
		left = list_delete_oid(left, next);
	}
	return result;
}

/* Triggers ---------------------------------------------------------------------- */

static TriggerTransition *
make_transition(const char *name, bool is_new)
{
	TriggerTransition *result = makeNode(TriggerTransition);

	result->name = pstrdup(name);
	result->isNew = is_new;
	result->isTable = true;
	return result;
}

static void
add_trigger(Oid relid, Oid function, int index, bool is_attached)
{
	CreateTrigStmt *statement = makeNode(CreateTrigStmt);

	statement->trigname = pstrdup(triggers[index].name);
	statement->relation = makeRangeVar(get_namespace_name(get_rel_namespace(relid)),
									   get_rel_name(relid), -1);
	statement->funcname = function_name();
	statement->args = is_attached ? list_make1(makeString(SL_REFERENCE_ATTACHED)) : NIL;
	statement->row = triggers[index].event != TRIGGER_TYPE_TRUNCATE;
	statement->timing = triggers[index].timing;
	statement->events = triggers[index].event;
	if (triggers[index].has_old)
		statement->transitionRels = lappend(statement->transitionRels, make_transition(OLD_ROWS, false));
	if (triggers[index].has_new)
		statement->transitionRels = lappend(statement->transitionRels, make_transition(NEW_ROWS, true));
	(void) CreateTriggerFiringOn(statement, NULL, relid, InvalidOid, InvalidOid, InvalidOid,
								 function, InvalidOid, NULL, false, false,
								 TRIGGER_FIRES_ALWAYS);
}

/*
 * Makes a table a reference table as far as the router is concerned.  The caller has
 * checked that the user may do that; no role has EXECUTE on the trigger function.
 */
void
sl_reference_add_triggers(Oid relid, bool is_attached)
{
	Oid			function = trigger_function();
	Oid			user;
	int			security;

	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, security | SECURITY_LOCAL_USERID_CHANGE);
	for (int i = 0; i < (int) lengthof(triggers); i++)
		add_trigger(relid, function, i, is_attached);
	SetUserIdAndSecContext(user, security);
	CommandCounterIncrement();
}

static void
drop_triggers(Relation relation)
{
	Oid			function = trigger_function();
	TriggerDesc *description = relation->trigdesc;
	List	   *found = NIL;
	ListCell   *cell;

	for (int i = 0; description != NULL && i < description->numtriggers; i++)
	{
		if (description->triggers[i].tgfoid == function)
			found = lappend_oid(found, description->triggers[i].tgoid);
	}
	foreach(cell, found)
	{
		ObjectAddress address;

		ObjectAddressSet(address, TriggerRelationId, lfirst_oid(cell));
		performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	}
	CommandCounterIncrement();
}

/* Copies ------------------------------------------------------------------------- */

/* Copies all rows to these shards.  The table is locked against writers. */
static void
copy_reference_rows(List *shards, Relation relation)
{
	TupleDesc	descriptor = RelationGetDescr(relation);
	SlCopyRow  *row = sl_copy_row_make(descriptor, sl_copy_row_columns(descriptor));
	char	   *sql = sl_copy_row_sql(row, get_namespace_name(RelationGetNamespace(relation)),
									  RelationGetRelationName(relation));
	SlCopyToShards *copy = sl_copy_to_shards_begin(sql, sl_copy_row_is_binary(row), GetUserId(), NULL);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(relation, snapshot, 0, NULL);
	uint64		rows = 0;
	ListCell   *cell;

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		StringInfo	data = sl_copy_row_encode(row, slot);

		CHECK_FOR_INTERRUPTS();
		foreach(cell, shards)
			sl_copy_to_shards_put(copy, lfirst(cell), data->data, data->len);
		rows += list_length(shards);
	}
	sl_reference_check_copied(RelationGetRelationName(relation), sl_copy_to_shards_end(copy), rows);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * A copy has no user triggers.  So their functions need not be on the shards,
 * and nothing can be said of the triggers there.
 */
static bool
is_for_triggers(const SlDefinitionItem *item)
{
	if (strcmp(item->kind, "function") == 0)
	{
		Oid			function = DatumGetObjectId(DirectFunctionCall1(to_regprocedure,
																	CStringGetTextDatum(item->name)));

		return OidIsValid(function) && get_func_rettype(function) == TRIGGEROID;
	}
	return item->phase == SL_PHASE_TRIGGERS ||
		(strcmp(item->kind, "comment") == 0 && item->ddl != NULL &&
		 strncmp(item->ddl, "COMMENT ON TRIGGER ", 19) == 0);
}

/* Takes out foreign keys to tables that are only here. */
static void
leave_out_foreign_keys(SlDefinition *definition, Oid relid, List *others)
{
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list(relid))
	{
		SlForeignKey *key = lfirst(cell);
		SlDefinitionItem *item = sl_definition_find(definition, "foreign_key", key->name);

		if (key->relid != relid || item == NULL || key->referenced == relid ||
			list_member_oid(others, key->referenced) || sl_reference_is(key->referenced))
			continue;
		ereport(NOTICE,
				errmsg("foreign key \"%s\" of table \"%s\" is left to the router", key->name,
					   get_rel_name(relid)),
				errdetail("The shards will check it too when \"%s\" is a reference table.",
						  get_rel_name(key->referenced)));
		item->ddl = NULL;
	}
}

/* Returns how the copies of a table are made. */
static SlDefinition *
read_definition(Oid relid, List *others)
{
	SlDefinition *definition = sl_definition_read_local(relid);
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		if (is_for_triggers(lfirst(cell)))
			definition->items = foreach_delete_current(definition->items, cell);
	}
	leave_out_foreign_keys(definition, relid, others);
	return definition;
}

/*
 * Makes and fills copies of these tables on these shards.  Foreign keys come
 * last, since tables may refer to each other.
 */
void
sl_reference_create(List *shards, List *relids)
{
	List	   *definitions = NIL;
	ListCell   *cell;

	foreach(cell, relids)
	{
		Relation	relation = table_open(lfirst_oid(cell), NoLock);
		SlDefinition *definition = read_definition(lfirst_oid(cell), relids);

		sl_definition_create(shards, definition, SL_PHASE_NEEDS, SL_PHASE_TABLE);
		sl_definition_copy_as_owner(shards, true);
		copy_reference_rows(shards, relation);
		sl_definition_copy_as_owner(shards, false);
		sl_definition_create(shards, definition, SL_PHASE_KEYS, SL_PHASE_STATISTICS);
		definitions = lappend(definitions, definition);
		table_close(relation, NoLock);
	}
	foreach(cell, definitions)
	{
		const SlDefinition *definition = lfirst(cell);

		sl_definition_create(shards, definition, SL_PHASE_FOREIGN_KEYS, SL_PHASE_IDENTITY);
		sl_guard_trigger_create_reference(shards, definition->schema, definition->name);
	}
}

/* Reference tables have waited for this one with their foreign keys. */
static void
put_foreign_keys(List *shards, Oid relid)
{
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list(relid))
	{
		SlForeignKey *key = lfirst(cell);
		SlDefinition *definition;
		SlDefinitionItem *item;

		if (key->referenced != relid || key->relid == relid || !OidIsValid(key->constraint) ||
			!sl_reference_is(key->relid))
			continue;
		definition = sl_definition_read_local(key->relid);
		item = sl_definition_find(definition, "foreign_key", key->name);
		if (item == NULL)
			continue;
		definition->items = list_make1(item);
		sl_definition_create(shards, definition, SL_PHASE_FOREIGN_KEYS, SL_PHASE_FOREIGN_KEYS);
	}
}

/* make_reference ------------------------------------------------------------------ */

/* Shards neither come nor return before the end of the transaction. */
void
sl_reference_lock_shards(void)
{
	ListCell   *cell;

	LockDatabaseObject(ForeignDataWrapperRelationId,
					   get_foreign_data_wrapper_oid(SL_WRAPPER_NAME, false), 0,
					   ShareUpdateExclusiveLock);
	foreach(cell, sl_shard_all())
		sl_shard_lock(lfirst(cell), AccessShareLock);
}

pg_noreturn static void
refuse(Relation relation, const char *detail, const char *hint)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("table \"%s\" cannot be a reference table", RelationGetRelationName(relation)),
			errdetail("%s", detail),
			errhint("%s", hint));
}

static void
check_table(Relation relation)
{
	Form_pg_class row = relation->rd_rel;

	if (row->relkind == RELKIND_PARTITIONED_TABLE || row->relispartition)
		refuse(relation, "It is partitioned, or a partition.", "Make a table of all its rows.");
	if (row->relpersistence != RELPERSISTENCE_PERMANENT)
		refuse(relation, "It is temporary or unlogged.", "Create it as a permanent table, or ALTER TABLE ... SET LOGGED.");
	if (has_subclass(RelationGetRelid(relation)) || has_superclass(RelationGetRelid(relation)))
		refuse(relation, "It inherits, or is inherited from.", "ALTER TABLE ... NO INHERIT ends that.");
	if (row->relrowsecurity)
		refuse(relation, "It has row security, which the shards could not keep up.",
			   "ALTER TABLE ... DISABLE ROW LEVEL SECURITY.");
	if (OidIsValid(row->reloftype))
		refuse(relation, "It is a table of a composite type.", "ALTER TABLE ... NOT OF ends that.");
	(void) sl_reference_columns(relation);
}

/*
 * Opens and locks, against writers, a table of the user's that can be a
 * reference table.
 */
Relation
sl_reference_open_table(Oid relid)
{
	Relation	relation;

	if (get_rel_name(relid) != NULL && !sl_relation_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
	relation = relation_open(relid, ShareRowExclusiveLock);
	sl_table_check_kind(relid);
	check_table(relation);
	return relation;
}

static void
make_reference(Oid relid)
{
	List	   *shards;
	Relation	relation;

	sl_reference_lock_shards();
	relation = sl_reference_open_table(relid);
	sl_privilege_check_table(relid);
	sl_shard_refresh();
	shards = sl_shard_all();
	sl_reference_create(shards, list_make1_oid(relid));
	sl_reference_add_triggers(relid, false);
	put_foreign_keys(shards, relid);
	relation_close(relation, NoLock);
	sl_fault("make_reference_at_end");
}

/* make_reference(tbl) */
Datum
shardlet_make_reference(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("table must not be NULL"));
	if (get_rel_name(PG_GETARG_OID(0)) == NULL)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("relation with OID %u does not exist", PG_GETARG_OID(0)));
	sl_check_writable("shardlet.make_reference()");
	make_reference(PG_GETARG_OID(0));
	PG_RETURN_VOID();
}

/* And back -------------------------------------------------------------------------- */

/* Foreign keys of other reference tables to this one are left to the router again. */
static void
drop_foreign_keys(SlReply *replies, int count, Oid relid)
{
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list(relid))
	{
		const SlForeignKey *key = lfirst(cell);

		if (key->referenced == relid && key->relid != relid && OidIsValid(key->constraint) &&
			sl_reference_is(key->relid))
			sl_command_everywhere(replies, count, sl_foreign_key_drop_sql(key), 0, NULL, true);
	}
}

/*
 * Makes a reference table a plain one.  Its copies are dropped, or left where
 * they are.  The caller has checked that the user may do that.
 */
void
sl_reference_undo(Oid relid, bool drops_copies)
{
	Relation	relation;
	SlReply    *replies;
	int			count;

	sl_reference_lock_shards();
	relation = table_open(relid, AccessExclusiveLock);
	if (drops_copies)
	{
		char	   *sql = psprintf("DROP TABLE %s",
								   quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
															  RelationGetRelationName(relation)));

		replies = sl_command_begin(sl_shard_all(), true, &count);
		drop_foreign_keys(replies, count, relid);
		sl_command_everywhere(replies, count, sql, 0, NULL, true);
	}
	else
		sl_guard_trigger_drop(sl_shard_all(), get_namespace_name(RelationGetNamespace(relation)),
							  RelationGetRelationName(relation));
	drop_triggers(relation);
	table_close(relation, NoLock);
}
