/*
 * refresh_shard.c
 *		Brings the reference tables of a shard up to date: one that is new, or that
 *		was offline and has missed changes.
 *
 * Writers are kept away from the tables until the end of the transaction, on the
 * router, where all of them begin.  So a writer is either finished, and its rows
 * are seen here, or waits, and finds the shard among those that it writes to.
 *
 * A table that the shard lacks is made and filled.  Otherwise the two are compared by
 * primary key and a hash of the row's text, and the shard gets what differs, in an
 * order that its foreign keys allow: rows that are gone and that no reference table
 * refers to, tables that refer first; then changed and new rows, tables that are
 * referred to first; then the rest of what is gone.  The first step makes room for
 * values that are unique and have a new owner.  Rows of sharded tables may still
 * refer to a row that was deleted while the shard was offline.  Then the shard
 * refuses, and stays offline until such rows are changed.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "reference/reference.h"

/* A row of the router, as far as it is compared. */
typedef struct Entry
{
	char	   *key;			/* all values of the key as one string */
	int64		hash;
	ItemPointerData tid;
	bool		is_seen;		/* the shard has it */
} Entry;

/* What has to be done to one table. */
typedef struct Work
{
	Relation	relation;
	SlRefColumns *columns;
	Entry	   *entries;		/* sorted */
	int			entry_count;
	SlRefRows	missing;
	SlRefRows	different;
	SlRefRows	gone;			/* keys only */
} Work;

/* The question ------------------------------------------------------------------- */

/* Key columns as text and a hash; with the router's rows their places, too. */
static char *
compare_sql(const SlRefColumns *columns, bool is_on_router)
{
	StringInfoData sql;
	const char *separator = "";

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT ");
	for (int i = 0; i < columns->key_count; i++)
		appendStringInfo(&sql, "t.%s::pg_catalog.text, ", columns->columns[columns->key[i]].name);
	appendStringInfoString(&sql, "pg_catalog.hashtextextended(ROW(");
	for (int i = 0; i < columns->column_count; i++)
	{
		if (columns->columns[i].is_generated)
			continue;
		appendStringInfo(&sql, "%st.%s", separator, columns->columns[i].name);
		separator = ", ";
	}
	appendStringInfo(&sql, ")::pg_catalog.text, 0)%s FROM ONLY %s AS t",
					 is_on_router ? ", t.ctid" : "", columns->name);
	return sql.data;
}

static void
add_to_key(StringInfo key, const char *value)
{
	appendStringInfo(key, "%d:%s", (int) strlen(value), value);
}

static int
compare_entries(const void *a, const void *b)
{
	return strcmp(((const Entry *) a)->key, ((const Entry *) b)->key);
}

/* Here ---------------------------------------------------------------------------- */

static void
fill_entry(Entry *entry, const SlRefColumns *columns, HeapTuple tuple, TupleDesc descriptor)
{
	StringInfoData key;
	bool		is_null;

	initStringInfo(&key);
	for (int i = 0; i < columns->key_count; i++)
		add_to_key(&key, TextDatumGetCString(SPI_getbinval(tuple, descriptor, i + 1, &is_null)));
	entry->key = key.data;
	entry->hash = DatumGetInt64(SPI_getbinval(tuple, descriptor, columns->key_count + 1, &is_null));
	ItemPointerCopy((ItemPointer) DatumGetPointer(SPI_getbinval(tuple, descriptor,
																columns->key_count + 2, &is_null)),
					&entry->tid);
	entry->is_seen = false;
}

/*
 * Reads what the router has.  The snapshot is a new one: that of the
 * transaction may be older than what writers have committed.
 */
static void
read_on_router(Work *work, Snapshot snapshot)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *sql = compare_sql(work->columns, true);
	SPIPlanPtr	plan;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	plan = SPI_prepare(sql, 0, NULL);
	if (plan == NULL ||
		SPI_execute_snapshot(plan, NULL, NULL, snapshot, InvalidSnapshot, true, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read reference table %s", work->columns->name);
	MemoryContextSwitchTo(context);
	work->entry_count = (int) SPI_processed;
	work->entries = palloc_extended(sizeof(Entry) * Max(SPI_processed, 1), MCXT_ALLOC_HUGE);
	for (int i = 0; i < work->entry_count; i++)
		fill_entry(&work->entries[i], work->columns, SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
	SPI_finish();
	qsort(work->entries, work->entry_count, sizeof(Entry), compare_entries);
}

/* Adds room for one row, and returns its place. */
static int64
add_row(SlRefRows *rows, int width)
{
	int64		place = (int64) rows->count * width;

	/* The room is doubled whenever the count is a power of two. */
	rows->width = width;
	if (rows->count == 0)
	{
		rows->values = palloc(sizeof(Datum) * width);
		rows->nulls = palloc(sizeof(bool) * width);
	}
	else if ((rows->count & (rows->count - 1)) == 0)
	{
		rows->values = repalloc_huge(rows->values, sizeof(Datum) * place * 2);
		rows->nulls = repalloc_huge(rows->nulls, sizeof(bool) * place * 2);
	}
	rows->count++;
	return place;
}

static void
add_own_row(Work *work, SlRefRows *rows, Entry *entry, Snapshot snapshot)
{
	TupleDesc	descriptor = work->columns->descriptor;
	TupleTableSlot *slot = table_slot_create(work->relation, NULL);
	int64		place;

	if (!table_tuple_fetch_row_version(work->relation, &entry->tid, snapshot, slot))
		elog(ERROR, "row of reference table %s is gone", work->columns->name);
	place = add_row(rows, descriptor->natts);
	heap_deform_tuple(ExecCopySlotHeapTuple(slot), descriptor, rows->values + place,
					  rows->nulls + place);
	ExecDropSingleTupleTableSlot(slot);
}

/* On the shard ---------------------------------------------------------------------- */

static TupleDesc
wanted_columns(const SlRefColumns *columns)
{
	TupleDesc	result = CreateTemplateTupleDesc(columns->key_count + 1);

	for (int i = 1; i <= columns->key_count; i++)
		TupleDescInitEntry(result, i, psprintf("key%d", i), TEXTOID, -1, 0);
	TupleDescInitEntry(result, columns->key_count + 1, "hash", INT8OID, -1, 0);
	return result;
}

/* A row that only the shard has: its key, in the types of the columns. */
static void
add_gone_row(Work *work, TupleTableSlot *slot)
{
	const SlRefColumns *columns = work->columns;
	int64		place = add_row(&work->gone, columns->descriptor->natts);

	memset(work->gone.nulls + place, true, columns->descriptor->natts);
	for (int i = 0; i < columns->key_count; i++)
	{
		AttrNumber	attnum = columns->columns[columns->key[i]].attnum;
		Form_pg_attribute attribute = TupleDescAttr(columns->descriptor, attnum - 1);
		Oid			function;
		Oid			io_param;

		getTypeInputInfo(attribute->atttypid, &function, &io_param);
		work->gone.values[place + attnum - 1] =
			OidInputFunctionCall(function, TextDatumGetCString(slot->tts_values[i]), io_param,
								 attribute->atttypmod);
		work->gone.nulls[place + attnum - 1] = false;
	}
}

static void
compare_row(Work *work, TupleTableSlot *slot, Snapshot snapshot)
{
	StringInfoData key;
	Entry		wanted = {0};
	Entry	   *entry;

	slot_getallattrs(slot);
	initStringInfo(&key);
	for (int i = 0; i < work->columns->key_count; i++)
		add_to_key(&key, TextDatumGetCString(slot->tts_values[i]));
	wanted.key = key.data;
	entry = bsearch(&wanted, work->entries, work->entry_count, sizeof(Entry), compare_entries);
	if (entry == NULL)
		add_gone_row(work, slot);
	else
	{
		entry->is_seen = true;
		if (entry->hash != DatumGetInt64(slot->tts_values[work->columns->key_count]))
			add_own_row(work, &work->different, entry, snapshot);
	}
	pfree(key.data);
}

static void
read_on_shard(Work *work, SlShard *shard, Snapshot snapshot)
{
	SlMultiShardSpec spec = {0};
	SlMultiShardScan *fanout;
	TupleTableSlot *slot;

	spec.shards = list_make1(shard);
	spec.sql = compare_sql(work->columns, false);
	spec.caller.transaction = GetCurrentSubTransactionId();
	spec.caller.user = GetUserId();
	spec.wanted = wanted_columns(work->columns);
	spec.shard_column = -1;
	fanout = sl_multi_shard_begin(&spec);
	slot = MakeSingleTupleTableSlot(spec.wanted, &TTSOpsVirtual);
	while (sl_multi_shard_next(fanout, slot))
	{
		CHECK_FOR_INTERRUPTS();
		compare_row(work, slot, snapshot);
	}
	ExecDropSingleTupleTableSlot(slot);
	sl_multi_shard_end(fanout);
}

/* Finds out what the shard has missed of one table. */
static void
compare_table(Work *work, SlShard *shard)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	int			level = sl_definition_begin_output();

	read_on_router(work, snapshot);
	read_on_shard(work, shard, snapshot);
	for (int i = 0; i < work->entry_count; i++)
	{
		if (!work->entries[i].is_seen)
			add_own_row(work, &work->missing, &work->entries[i], snapshot);
	}
	AtEOXact_GUC(true, level);
	UnregisterSnapshot(snapshot);
}

/* Doing it --------------------------------------------------------------------------- */

/* Rows that no other reference table refers to. */
static char *
unreferenced_condition(const SlRefColumns *columns)
{
	StringInfoData condition;
	ListCell   *cell;

	initStringInfo(&condition);
	appendStringInfoString(&condition, "true");
	foreach(cell, sl_foreign_key_list(columns->relid))
	{
		SlForeignKey *key = lfirst(cell);
		const char *word = "WHERE";

		if (key->referenced != columns->relid || !OidIsValid(key->constraint) ||
			!sl_reference_is(key->relid))
			continue;
		appendStringInfo(&condition, " AND NOT EXISTS (SELECT FROM %s AS r",
						 quote_qualified_identifier(get_namespace_name(get_rel_namespace(key->relid)),
													get_rel_name(key->relid)));
		for (int i = 0; i < list_length(key->columns); i++)
		{
			appendStringInfo(&condition, " %s r.%s = ", word,
							 quote_identifier(list_nth(key->columns, i)));
			appendStringInfo(&condition, "t.%s",
							 quote_identifier(list_nth(key->referenced_columns, i)));
			word = "AND";
		}
		appendStringInfoChar(&condition, ')');
	}
	return condition.data;
}

static bool
refers_to_itself(Relation relation)
{
	ListCell   *cell;

	foreach(cell, RelationGetFKeyList(relation))
	{
		if (((ForeignKeyCacheInfo *) lfirst(cell))->confrelid == RelationGetRelid(relation))
			return true;
	}
	return false;
}

static void
put_rows(Work *work, SlReply *replies, int count)
{
	bool		inserts_first = refers_to_itself(work->relation);

	if (inserts_first)
		sl_reference_insert(work->columns, replies, count, &work->missing);
	sl_reference_overwrite(work->columns, replies, count, &work->different);
	if (!inserts_first)
		sl_reference_insert(work->columns, replies, count, &work->missing);
}

/* Brings copies that exist up to date.  The tables come in the order of their keys. */
static void
update_copies(SlShard *shard, List *relids)
{
	int			count = list_length(relids);
	Work	   *works = palloc0(sizeof(Work) * Max(count, 1));
	SlReply    *replies;
	int			reply_count;

	for (int i = 0; i < count; i++)
	{
		works[i].relation = table_open(list_nth_oid(relids, i), NoLock);
		works[i].columns = sl_reference_columns(works[i].relation);
		compare_table(&works[i], shard);
	}
	replies = sl_reference_open(list_make1(shard), &reply_count);
	for (int i = 0; i < count; i++)
	{
		if (works[i].columns->defer_sql != NULL)
			sl_reference_run(replies, reply_count, works[i].columns->defer_sql, 0, NULL);
	}
	for (int i = count - 1; i >= 0; i--)
		sl_reference_delete(works[i].columns, replies, reply_count, &works[i].gone,
							unreferenced_condition(works[i].columns));
	for (int i = 0; i < count; i++)
		put_rows(&works[i], replies, reply_count);
	for (int i = count - 1; i >= 0; i--)
		sl_reference_delete(works[i].columns, replies, reply_count, &works[i].gone, "true");
	for (int i = 0; i < count; i++)
		table_close(works[i].relation, NoLock);
}

/* What a table has for columns, to be compared as text. */
static const char columns_sql[] =
"SELECT string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attname COLLATE \"C\")"
" FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid"
" WHERE n.nspname = $1::text AND c.relname = $2::text AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped";

static char *
columns_on_router(const char **params)
{
	MemoryContext context = CurrentMemoryContext;
	Oid			types[] = {TEXTOID, TEXTOID};
	Datum		values[] = {CStringGetTextDatum(params[0]), CStringGetTextDatum(params[1])};
	char	   *result;

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args(columns_sql, lengthof(types), types, values, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read the columns of table \"%s\"", params[1]);
	result = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	result = result != NULL ? MemoryContextStrdup(context, result) : NULL;
	SPI_finish();
	return result;
}

/* Does the shard have a table of that name?  A different one is an error. */
static bool
has_copy(SlReply *replies, int count, Oid relid)
{
	const char *params[] = {get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid)};
	int			level = sl_definition_begin_output();
	char	   *on_router = columns_on_router(params);
	char	   *on_shard;

	sl_command_everywhere(replies, count, columns_sql, lengthof(params), params, false);
	AtEOXact_GUC(true, level);
	on_shard = replies[0].value;
	if (on_shard != NULL && on_router != NULL && strcmp(on_router, on_shard) != 0)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("reference table \"%s\" differs on shard \"%s\"", params[1],
					   NameStr(replies[0].shard->name)),
				errdetail("Here: %s\nOn the shard: %s", on_router, on_shard),
				errhint("Drop or rename it on the shard."));
	return on_shard != NULL;
}

static void
lock_tables(List *relids)
{
	List	   *sorted = list_copy(relids);
	ListCell   *cell;

	list_sort(sorted, list_oid_cmp);
	foreach(cell, sorted)
		LockRelationOid(lfirst_oid(cell), ShareLock);
}

/* Brings a shard's copies up to date that is new or was offline; creates those it lacks. */
void
sl_reference_catch_up(SlShard *shard)
{
	List	   *relids;
	List	   *new_tables = NIL;
	List	   *old_tables = NIL;
	SlReply    *replies;
	int			count;
	ListCell   *cell;

	sl_reference_lock_shards();
	relids = sl_reference_all();
	if (relids == NIL)
		return;
	lock_tables(relids);
	replies = sl_reference_open(list_make1(shard), &count);
	foreach(cell, relids)
	{
		if (has_copy(replies, count, lfirst_oid(cell)))
			old_tables = lappend_oid(old_tables, lfirst_oid(cell));
		else
			new_tables = lappend_oid(new_tables, lfirst_oid(cell));
	}
	update_copies(shard, old_tables);
	if (new_tables != NIL)
		sl_reference_create(list_make1(shard), new_tables);
	sl_fault("reference_caught_up");
}
