/*
 * missed_ddl.c
 *		The DDL statements that an offline shard has missed.
 *
 * A row is written in the transaction of the statement, and deleted in the one in
 * which the shard executes it.  Rows are ordered by a sequence: statements that
 * depend on each other take their numbers while they hold the same lock of a table.
 * The table is dumped, because a restored router has the same shards.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "base/base.h"
#include "metadata/missed_ddl.h"

/* Columns of the table. */
enum
{
	MISSED_SHARD_ID = 1,
	MISSED_ID,
	MISSED_STATEMENT,
	MISSED_CONDITION,
	MISSED_ROLE,
	MISSED_SETTINGS,
	MISSED_COLUMNS = MISSED_SETTINGS
};

static Datum
make_array(const List *strings)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(list_length(strings), 1));
	ListCell   *cell;

	foreach(cell, strings)
		values[foreach_current_index(cell)] = CStringGetTextDatum(lfirst(cell));
	return PointerGetDatum(construct_array(values, list_length(strings), TEXTOID, -1, false, TYPALIGN_INT));
}

static List *
read_array(Datum array)
{
	List	   *result = NIL;
	Datum	   *values;
	int			count;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &values, NULL, &count);
	for (int i = 0; i < count; i++)
		result = lappend(result, TextDatumGetCString(values[i]));
	return result;
}

/* Adds a statement to those that the shard has missed; its id is assigned here. */
void
sl_missed_ddl_insert(int32 shard_id, const SlMissedDdl *missed)
{
	Relation	relation = sl_catalog_open(SL_MISSED_DDL_TABLE, RowExclusiveLock);
	Datum		values[MISSED_COLUMNS] = {0};
	bool		nulls[MISSED_COLUMNS] = {0};

	values[MISSED_SHARD_ID - 1] = Int32GetDatum(shard_id);
	values[MISSED_ID - 1] = Int64GetDatum(sl_catalog_next_id(SL_MISSED_DDL_SEQUENCE));
	values[MISSED_STATEMENT - 1] = CStringGetTextDatum(missed->statement);
	nulls[MISSED_CONDITION - 1] = missed->condition == NULL;
	if (missed->condition != NULL)
		values[MISSED_CONDITION - 1] = CStringGetTextDatum(missed->condition);
	values[MISSED_ROLE - 1] = CStringGetTextDatum(missed->role);
	values[MISSED_SETTINGS - 1] = make_array(missed->settings);
	sl_catalog_insert(relation, heap_form_tuple(RelationGetDescr(relation), values, nulls));
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}

static SysScanDesc
scan_shard(Relation relation, ScanKeyData *key, int32 shard_id)
{
	ScanKeyInit(key, MISSED_SHARD_ID, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(shard_id));
	return systable_beginscan(relation, sl_catalog_oid(SL_MISSED_DDL_INDEX), true, NULL, 1, key);
}

static char *
read_text(HeapTuple tuple, TupleDesc descriptor, int column)
{
	bool		is_null;
	Datum		value = heap_getattr(tuple, column, descriptor, &is_null);

	return is_null ? NULL : TextDatumGetCString(value);
}

static int
compare_missed(const ListCell *a, const ListCell *b)
{
	const SlMissedDdl *left = lfirst(a);
	const SlMissedDdl *right = lfirst(b);

	return left->id < right->id ? -1 : left->id > right->id;
}

/* Returns what the shard has missed, as SlMissedDdl, in the order of execution. */
List *
sl_missed_ddl_list(int32 shard_id)
{
	Relation	relation = sl_catalog_open(SL_MISSED_DDL_TABLE, AccessShareLock);
	TupleDesc	descriptor = RelationGetDescr(relation);
	List	   *result = NIL;
	ScanKeyData key;
	SysScanDesc scan = scan_shard(relation, &key, shard_id);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		SlMissedDdl *missed = palloc(sizeof(SlMissedDdl));
		bool		is_null;

		missed->id = DatumGetInt64(heap_getattr(tuple, MISSED_ID, descriptor, &is_null));
		missed->statement = read_text(tuple, descriptor, MISSED_STATEMENT);
		missed->condition = read_text(tuple, descriptor, MISSED_CONDITION);
		missed->role = read_text(tuple, descriptor, MISSED_ROLE);
		missed->settings = read_array(heap_getattr(tuple, MISSED_SETTINGS, descriptor, &is_null));
		result = lappend(result, missed);
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	list_sort(result, compare_missed);
	return result;
}

/* The shard has executed all of it, or is dropped. */
void
sl_missed_ddl_forget(int32 shard_id)
{
	Relation	relation = sl_catalog_open(SL_MISSED_DDL_TABLE, RowExclusiveLock);
	ScanKeyData key;
	SysScanDesc scan = scan_shard(relation, &key, shard_id);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		sl_catalog_delete(relation, &tuple->t_self);
	systable_endscan(scan);
	table_close(relation, RowExclusiveLock);
	CommandCounterIncrement();
}
