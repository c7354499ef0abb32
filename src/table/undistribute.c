/*
 * undistribute.c
 *		undistribute(): a table comes back from the shards.
 *
 * The foreign table becomes an empty plain table at its place (swap.c), the rows
 * are read from the shards as streams, and what a foreign table cannot have, keys,
 * indexes, triggers, foreign keys, is made again as the shards have it.  Then the
 * shards' tables are dropped, unless they were there before we were.  All of it
 * is one transaction.
 *
 * A table that was partitioned comes back as one table without partitions.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/hio.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/base.h"
#include "base/fault.h"
#include "table/reference.h"
#include "table/table_area.h"

PG_FUNCTION_INFO_V1(shardlet_undistribute);

/* Rows ------------------------------------------------------------------------ */

/*
 * The file is of this transaction, so nobody can see the rows before it commits.
 * Frozen, they are visible to snapshots that are older than that, too: who waited
 * for the table with such a one would find it empty otherwise.
 */
#define INSERT_OPTIONS (TABLE_INSERT_FROZEN | TABLE_INSERT_SKIP_FSM)

/* The columns that have values of their own; a virtual one has none. */
static List *
stored_columns(TupleDesc descriptor)
{
	List	   *result = NIL;

	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, i);

		if (!column->attisdropped &&
			(column->attgenerated == '\0' || column->attgenerated == ATTRIBUTE_GENERATED_STORED))
			result = lappend_int(result, column->attnum);
	}
	return result;
}

static TupleDesc
wanted_shape(TupleDesc descriptor, List *columns)
{
	TupleDesc	result = CreateTemplateTupleDesc(list_length(columns));
	ListCell   *cell;

	foreach(cell, columns)
		TupleDescCopyEntry(result, (AttrNumber) (foreach_current_index(cell) + 1),
						   descriptor, (AttrNumber) lfirst_int(cell));
	return result;
}

static char *
select_sql(Relation relation, List *columns)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT");
	foreach(cell, columns)
		appendStringInfo(&sql, "%s %s", foreach_current_index(cell) == 0 ? "" : ",",
						 quote_identifier(NameStr(TupleDescAttr(RelationGetDescr(relation),
																lfirst_int(cell) - 1)->attname)));
	appendStringInfo(&sql, " FROM %s",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
												RelationGetRelationName(relation)));
	return sql.data;
}

static void
insert_rows(Relation relation, List *columns, SlFanout *fanout, TupleTableSlot *row)
{
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	BulkInsertState bulk = GetBulkInsertState();
	CommandId	command = GetCurrentCommandId(true);
	ListCell   *cell;

	while (sl_fanout_next(fanout, row))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(row);
		ExecClearTuple(slot);
		memset(slot->tts_isnull, true, sizeof(bool) * slot->tts_tupleDescriptor->natts);
		foreach(cell, columns)
		{
			slot->tts_values[lfirst_int(cell) - 1] = row->tts_values[foreach_current_index(cell)];
			slot->tts_isnull[lfirst_int(cell) - 1] = row->tts_isnull[foreach_current_index(cell)];
		}
		ExecStoreVirtualTuple(slot);
		table_tuple_insert(relation, slot, command, INSERT_OPTIONS, bulk);
	}
	FreeBulkInsertState(bulk);
	table_finish_bulk_insert(relation, INSERT_OPTIONS);
	ExecDropSingleTupleTableSlot(slot);
}

/* Reads the rows of all these shards into a table that is empty and plain. */
void
sl_table_fetch_rows(Oid relid, List *shards)
{
	Relation	relation = table_open(relid, NoLock);
	List	   *columns = stored_columns(RelationGetDescr(relation));
	SlFanoutSpec spec = {0};
	TupleTableSlot *row;
	SlFanout   *fanout;

	spec.home.transaction = GetCurrentSubTransactionId();
	spec.home.user = GetUserId();
	spec.shards = shards;
	spec.sql = select_sql(relation, columns);
	spec.wanted = wanted_shape(RelationGetDescr(relation), columns);
	spec.shard_column = -1;
	row = MakeSingleTupleTableSlot(spec.wanted, &TTSOpsVirtual);
	fanout = sl_fanout_begin(&spec);
	insert_rows(relation, columns, fanout, row);
	sl_fanout_end(fanout);
	ExecDropSingleTupleTableSlot(row);
	table_close(relation, NoLock);
	CommandCounterIncrement();
}

/* Definition ------------------------------------------------------------------ */

/* Is it something that a foreign table cannot have, and a plain table has? */
static bool
is_missing_here(const SlDefinitionItem *item)
{
	static const char *const kinds[] = {"options", "compression", "primary_key", "unique", "exclusion",
		"index", "index_options", "cluster", "trigger", "trigger_state", "replica_identity",
	};

	for (int i = 0; item->level == 0 && i < (int) lengthof(kinds); i++)
	{
		if (strcmp(item->kind, kinds[i]) == 0)
			return true;
	}
	return item->level == 0 && item->phase == SL_PHASE_COMMENTS;
}

static void
restore_parts(const SlDefinition *definition)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (is_missing_here(item))
			sl_table_run_local(item->ddl);
	}
}

/* Foreign keys ---------------------------------------------------------------- */

/*
 * A foreign key of a shard, from or to the table: both sides are plain, then it
 * is made here; or one is not, then it is set aside.
 */
static void
bring_back(const SlForeignKey *key, const SlTable *gone, SlReply *replies, int count)
{
	Oid			relid = gone->relid;
	Oid			other = key->relid == relid ? key->referenced : key->relid;
	const SlTable *table = OidIsValid(other) ? sl_table_get(other) : NULL;

	/* What we adopted stays on the shards as it is. */
	if (key->relid != relid && (gone->is_attached || !OidIsValid(other)))
		return;
	if (key->relid != relid)
		sl_command_everywhere(replies, count, sl_foreign_key_drop_sql(key), 0, NULL, true);
	if (!OidIsValid(other))
		return;
	if (table != NULL && table->kind != SL_TABLE_REFERENCE)
		sl_foreign_key_set_aside(key);
	else if (key->relid == relid)
		sl_table_run_local(sl_foreign_key_add_sql(key));
}

/* Those that were set aside here, and whose sides are both plain now. */
static void
settle_aside(Oid relid)
{
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list(relid))
	{
		const SlForeignKey *key = lfirst(cell);
		const SlTable *from = sl_table_get(key->relid);
		const SlTable *to = sl_table_get(key->referenced);

		if (OidIsValid(key->constraint) || (from != NULL && from->kind != SL_TABLE_REFERENCE) ||
			(to != NULL && to->kind != SL_TABLE_REFERENCE))
			continue;
		sl_table_run_local(sl_foreign_key_add_sql(key));
		sl_foreign_key_forget(key);
	}
}

/* The function ---------------------------------------------------------------- */

/* Commands that name the table alone. */
static void
run_on_table(SlReply *replies, int count, const char *before, const SlDefinition *definition,
			 const char *after)
{
	char	   *name = quote_qualified_identifier(definition->schema, definition->name);

	sl_command_everywhere(replies, count, psprintf("%s %s%s", before, name, after), 0, NULL, true);
}

static void
bring_table_back(const SlTable *table)
{
	List	   *owners = sl_table_owners(table);
	char	   *schema = get_namespace_name(get_rel_namespace(table->relid));
	char	   *name = get_rel_name(table->relid);
	SlDefinition *definition;
	List	   *keys;
	ListCell   *cell;
	SlReply    *replies;
	int			count;

	replies = sl_command_begin(sl_table_homes(table), true, &count);
	if (count == 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("table \"%s\" is on no shard", name));
	definition = sl_definition_read_remote(replies[0].conn, schema, name);
	if (definition == NULL)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("table \"%s.%s\" does not exist on shard \"%s\"", schema, name,
					   NameStr(replies[0].shard->name)));
	run_on_table(replies, count, "LOCK TABLE", definition, " IN ACCESS EXCLUSIVE MODE");
	keys = sl_foreign_key_list_remote(replies[0].conn, schema, name);
	sl_swap_to_plain(table->relid, "undistribute");
	sl_table_fetch_rows(table->relid, owners);
	restore_parts(definition);
	foreach(cell, keys)
		bring_back(lfirst(cell), table, replies, count);
	settle_aside(table->relid);
	if (!table->is_attached)
		run_on_table(replies, count, "DROP TABLE", definition, "");
	else if (table->kind == SL_TABLE_SHARDED)
		sl_guarding_drop(sl_table_homes(table), schema, name);
	sl_fault("undistribute_at_end");
}

/*
 * A reference table stays here; foreign keys of tables that stay on the shards
 * are set aside, or its copies could not be dropped.
 */
static void
bring_reference_back(const SlTable *table)
{
	char	   *schema = get_namespace_name(get_rel_namespace(table->relid));
	SlReply    *replies;
	ListCell   *cell;
	int			count;

	replies = sl_command_begin(sl_shard_all(), true, &count);
	for (int i = 0; i < count && !table->is_attached; i++)
	{
		foreach(cell, sl_foreign_key_list_remote(replies[i].conn, schema, get_rel_name(table->relid)))
		{
			const SlForeignKey *key = lfirst(cell);
			const SlTable *from = OidIsValid(key->relid) ? sl_table_get(key->relid) : NULL;

			if (key->referenced != table->relid || from == NULL || from->kind == SL_TABLE_REFERENCE)
				continue;
			sl_command_everywhere(&replies[i], 1, sl_foreign_key_drop_sql(key), 0, NULL, true);
			sl_foreign_key_set_aside(key);
		}
	}
	sl_reference_undo(table->relid, !table->is_attached);
}

/* undistribute(tbl) */
Datum
shardlet_undistribute(PG_FUNCTION_ARGS)
{
	Oid			relid = sl_table_arg(fcinfo, 0);
	SlTable    *table;

	sl_check_writable("shardlet.undistribute()");
	table = sl_table_arg_ours(relid);
	if (table->kind != SL_TABLE_REFERENCE)
		sl_check_sees_all("shardlet.undistribute()");
	if (table->kind == SL_TABLE_SHARDED)
		(void) sl_map_open_at_rest(table->map);
	sl_table_check_own(relid);
	table = sl_table_arg_ours(relid);
	if (table->kind == SL_TABLE_REFERENCE)
		bring_reference_back(table);
	else
		bring_table_back(table);
	PG_RETURN_VOID();
}
