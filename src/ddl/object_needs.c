/*
 * object_needs.c
 *		Which objects the parts of distributed tables need, and which tables need an object.
 *
 * Both follow the dependencies of the router's catalogs, so no list of them can be
 * wrong.  A statement that may give a table more needs is watched: what the table needs
 * afterwards and has not needed before is created on the shards, before they get their
 * part of the statement.
 */
#include "postgres.h"

#include "catalog/objectaddress.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "ddl/definition.h"
#include "executor/multi_shard.h"

/* Returns the map for which the objects of a table are listed. */
int32
sl_ddl_map_id(const SlTable *table)
{
	return table->kind == SL_TABLE_SHARDED ? sl_map_get(table->map)->id : 0;
}

/* Returns what the parts of a table refer to: ObjectAddresses. */
static List *
find_referenced(Oid relid)
{
	Oid			types[] = {OIDOID};
	Datum		params[] = {ObjectIdGetDatum(relid)};
	MemoryContext context = CurrentMemoryContext;
	List	   *result = NIL;
	int			level = sl_definition_begin_output();

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args(sl_definition_referenced_sql, lengthof(types), types, params, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read dependencies");
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[row];
		TupleDesc	columns = SPI_tuptable->tupdesc;
		MemoryContext inner = MemoryContextSwitchTo(context);
		ObjectAddress *address = palloc0(sizeof(ObjectAddress));
		bool		is_null;

		address->classId = DatumGetObjectId(SPI_getbinval(tuple, columns, 1, &is_null));
		address->objectId = DatumGetObjectId(SPI_getbinval(tuple, columns, 2, &is_null));
		result = lappend(result, address);
		MemoryContextSwitchTo(inner);
	}
	SPI_finish();
	AtEOXact_GUC(true, level);
	return result;
}

/* Creates what the table will need after the statement.  It is locked. */
void
sl_ddl_watch_needs(SlDdl *ddl, const SlTable *table)
{
	ddl->watched = table;
	ddl->referenced = find_referenced(table->relid);
}

/* The same for ALTER TABLE, if it may make the table need more. */
void
sl_ddl_watch_alter(SlDdl *ddl, const SlTable *table)
{
	static const AlterTableType types[] = {AT_AddColumn, AT_ColumnDefault, AT_AddConstraint, AT_AlterColumnType,
	AT_SetExpression, AT_AttachPartition};
	ListCell   *cell;

	foreach(cell, castNode(AlterTableStmt, ddl->node)->cmds)
	{
		for (int i = 0; i < (int) lengthof(types) && ddl->watched == NULL; i++)
		{
			if (lfirst_node(AlterTableCmd, cell)->subtype == types[i])
				sl_ddl_watch_needs(ddl, table);
		}
	}
}

static bool
has_address(const List *addresses, const ObjectAddress *address)
{
	const ListCell *cell;

	foreach(cell, addresses)
	{
		const ObjectAddress *other = lfirst(cell);

		if (other->classId == address->classId && other->objectId == address->objectId)
			return true;
	}
	return false;
}

/* Returns what the statement has made the watched table need: SlDefinitions. */
static List *
read_new_needs(const SlDdl *ddl)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, find_referenced(ddl->watched->relid))
	{
		const ObjectAddress *address = lfirst(cell);
		SlDefinition *definition;

		if (has_address(ddl->referenced, address))
			continue;
		definition = sl_definition_read_needs(address->classId, address->objectId);
		definition->map_id = sl_ddl_map_id(ddl->watched);
		result = lappend(result, definition);
	}
	return result;
}

/*
 * Creates on the shards what the statement has made the watched table need.  For those
 * that are offline it is stored, before the steps of the statement; whether that is
 * possible is known before anything is sent.
 */
void
sl_ddl_create_needs(SlDdl *ddl)
{
	List	   *needs;
	List	   *later = NIL;
	List	   *shards;
	ListCell   *cell;

	if (ddl->watched == NULL || ddl->is_separate)
		return;
	sl_snapshot_begin(NIL);
	needs = read_new_needs(ddl);
	shards = sl_table_homes(ddl->watched);
	foreach(cell, needs)
		later = list_concat(later, sl_ddl_store_needs(shards, lfirst(cell), NULL));
	ddl->steps = list_concat(later, ddl->steps);
	foreach(cell, needs)
		sl_definition_create(sl_ddl_offline_shards(shards, false), lfirst(cell), SL_PHASE_NEEDS, SL_PHASE_TYPES);
}

/* Dependents -------------------------------------------------------------------------- */

/* Triggers of other tables than shell tables are the router's. */
static void
add_dependent(SlDependents *dependents, Oid relid, bool is_trigger, const char *ddl)
{
	const SlTable *table = sl_ddl_table_by_oid(relid);
	SlDdlStep  *step;

	if (table == NULL || sl_ddl_has_lost_shard(table) || (is_trigger && !sl_ddl_is_remote(table)))
		return;
	if (dependents->map_id == 0)
		dependents->map_id = sl_ddl_map_id(table);
	dependents->shards = list_concat_unique_ptr(dependents->shards, sl_table_homes(table));
	if (ddl == NULL)
		return;
	step = palloc0(sizeof(SlDdlStep));
	step->shards = sl_table_homes(table);
	step->sql = pstrdup(ddl);
	dependents->drops = lappend(dependents->drops, step);
}

/* Finds the parts of distributed tables that need a function or a type. */
SlDependents
sl_ddl_find_dependents(Oid class_id, Oid object_id)
{
	Oid			types[] = {OIDOID, OIDOID};
	Datum		params[] = {ObjectIdGetDatum(class_id), ObjectIdGetDatum(object_id)};
	MemoryContext context = CurrentMemoryContext;
	SlDependents result = {0};
	int			level = sl_definition_begin_output();

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args(sl_definition_dependent_sql, lengthof(types), types, params, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read dependencies");
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[row];
		TupleDesc	columns = SPI_tuptable->tupdesc;
		bool		is_null;
		Oid			relid = DatumGetObjectId(SPI_getbinval(tuple, columns, 1, &is_null));
		bool		is_trigger = DatumGetBool(SPI_getbinval(tuple, columns, 2, &is_null));
		char	   *ddl = SPI_getvalue(tuple, columns, 3);
		MemoryContext inner = MemoryContextSwitchTo(context);

		add_dependent(&result, relid, is_trigger, ddl);
		MemoryContextSwitchTo(inner);
	}
	SPI_finish();
	AtEOXact_GUC(true, level);
	return result;
}
