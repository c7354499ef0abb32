/*
 * reference_send.c
 *		Changes of a reference table, as statements for its copies.
 *
 * A statement carries any number of rows, as one parameter for each column: an array
 * of the values in text form, which the shard unnests and casts.  So its text depends
 * on the columns alone, and one statement on the router is one statement on a shard,
 * at whose end foreign keys hold if they held on the router.  The text form is the
 * one that every session reads alike.
 *
 * Rows are found by the primary key they had.  An update is sent as an update,
 * also when it changes the key: to delete the row and insert another would be
 * something else to the foreign keys that point to it.  Only columns that have
 * changed are set.
 *
 * A shard must find exactly the rows that were changed on the router; if not, its
 * copy differs, and the transaction ends (SL006).  Where foreign keys act on rows the
 * shard's own ones have done so already when the change arrives, and rows may be
 * gone, or have their new key.
 *
 * Uniqueness is checked with every row, not at the end of a statement, so the
 * order matters when one row takes what another one gives away ("id = id + 1").
 * The router has found an order that works; such an update is sent row by row in
 * that order.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "base/base.h"
#include "reference/reference.h"

/* The parameters of a statement: for each column an array, being written. */
typedef struct Batch
{
	int			count;
	StringInfoData *arrays;
	const char **params;
} Batch;

/* Talking to the shards -------------------------------------------------------- */

static void
raise_failures(const SlReply *replies, int count, const char *sql)
{
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure != NULL)
			sl_failure_raise(replies[i].failure, NameStr(replies[i].shard->name), sql);
	}
}

/*
 * Connects to these shards; one that cannot be reached is an error.  A session
 * sees another one's rows as soon as the router has committed, and a moment later
 * the shards have them: that is waited for.
 */
SlReply *
sl_reference_open(List *shards, int *count)
{
	SlReply    *replies;

	sl_commit_lock_wait_for_commits(shards);
	sl_snapshot_begin(shards);
	sl_txn_check_span(shards, true);
	replies = sl_broadcast_make(shards, true, count);
	sl_command_open(replies, *count);
	raise_failures(replies, *count, NULL);
	return replies;
}

static void
run_for_rows(SlReply *replies, int count, const char *sql, int param_count, const char *const *params)
{
	SlTxnUse	use = {.writes = true};

	for (int i = 0; i < count; i++)
	{
		replies[i].command = replies[i].value = NULL;
		replies[i].has_rows = false;
		replies[i].rows = 0;
	}
	sl_command_run(replies, count, sql, param_count, params, &use);
}

/* Runs a statement that writes; a failure is an error. */
void
sl_reference_run(SlReply *replies, int count, const char *sql, int param_count,
				 const char *const *params)
{
	run_for_rows(replies, count, sql, param_count, params);
	raise_failures(replies, count, sql);
}

/* The same; a failure with that SQLSTATE gets another hint than the shard's. */
void
sl_reference_run_with_hint(SlReply *replies, int count, const char *sql, int sqlstate,
						   const char *hint)
{
	run_for_rows(replies, count, sql, 0, NULL);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure != NULL && replies[i].failure->sqlstate == sqlstate)
			replies[i].failure->hint = hint;
	}
	raise_failures(replies, count, sql);
}

static void
check_rows(const SlRefColumns *columns, const SlReply *replies, int count, int64 expected)
{
	for (int i = 0; i < count; i++)
	{
		if (replies[i].rows == expected)
			continue;
		if (replies[i].rows > expected)
			ereport(ERROR,
					errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("rows of reference table %s with the same key cannot be distinguished",
						   columns->name),
					errdetail("The primary key is deferred, and not unique at the moment."),
					errhint("Change the key of the one before the other one takes it."));
		if (IsolationUsesXactSnapshot())
			ereport(ERROR,
					errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					errmsg("could not serialize access to reference table %s", columns->name),
					errdetail("The transaction's snapshot of shard \"%s\" is older than rows that it has changed here.",
							  NameStr(replies[i].shard->name)),
					errhint("The transaction might succeed if retried."));
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("table %s differs between the router and shard \"%s\"", columns->name,
					   NameStr(replies[i].shard->name)),
				errdetail("Of %lld rows that were changed, the shard has %lld.",
						  (long long) expected, (long long) replies[i].rows),
				errhint("The shard's copy was changed directly. To bring it up to date, set the shard offline and online again with shardlet.alter_shard()."));
	}
}

/* A trigger of a table that was adopted may keep rows out. */
void
sl_reference_check_copied(const char *name, uint64 rows, uint64 expected)
{
	if (rows != expected)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("shards did not take all rows of reference table %s", name),
				errdetail("They took %llu of %llu.", (unsigned long long) rows,
						  (unsigned long long) expected));
}

/* Rows ------------------------------------------------------------------------ */

/* Takes the rows of a tuplestore into memory. */
SlRefRows *
sl_reference_read(Tuplestorestate *store, TupleDesc descriptor)
{
	SlRefRows  *rows = palloc0(sizeof(SlRefRows));
	int64		room = tuplestore_tuple_count(store);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);

	rows->width = descriptor->natts;
	rows->values = palloc_extended(sizeof(Datum) * Max(room * rows->width, 1), MCXT_ALLOC_HUGE);
	rows->nulls = palloc_extended(sizeof(bool) * Max(room * rows->width, 1), MCXT_ALLOC_HUGE);
	while (rows->count < room && tuplestore_gettupleslot(store, true, false, slot))
	{
		HeapTuple	tuple = ExecCopySlotHeapTuple(slot);
		int64		place = (int64) rows->count++ * rows->width;

		heap_deform_tuple(tuple, descriptor, rows->values + place, rows->nulls + place);
	}
	/* The position after the last row is a mark: see change_trigger.c. */
	(void) tuplestore_gettupleslot(store, true, false, slot);
	ExecDropSingleTupleTableSlot(slot);
	return rows;
}

static int64
place_of(const SlRefRows *rows, int row, const SlRefColumn *column)
{
	return (int64) row * rows->width + column->attnum - 1;
}

/* Parameters ------------------------------------------------------------------- */

static Batch *
make_batch(int count)
{
	Batch	   *batch = palloc0(sizeof(Batch));

	batch->count = count;
	batch->arrays = palloc0(sizeof(StringInfoData) * Max(count, 1));
	batch->params = palloc0(sizeof(char *) * Max(count, 1));
	for (int i = 0; i < count; i++)
		initStringInfo(&batch->arrays[i]);
	return batch;
}

static void
put_quoted(StringInfo array, const char *value)
{
	appendStringInfoCharMacro(array, '"');
	for (const char *c = value; *c != '\0'; c++)
	{
		if (*c == '"' || *c == '\\')
			appendStringInfoCharMacro(array, '\\');
		appendStringInfoCharMacro(array, *c);
	}
	appendStringInfoCharMacro(array, '"');
}

static void
put_value(StringInfo array, const SlRefColumn *column, const SlRefRows *rows, int row)
{
	int64		place = place_of(rows, row, column);
	char	   *value;

	appendStringInfoCharMacro(array, array->len == 0 ? '{' : ',');
	if (rows->nulls[place])
	{
		appendStringInfoString(array, "NULL");
		return;
	}
	value = OidOutputFunctionCall(column->output, rows->values[place]);
	put_quoted(array, value);
	pfree(value);
}

static const char *const *
end_batch(Batch *batch)
{
	for (int i = 0; i < batch->count; i++)
	{
		appendStringInfoCharMacro(&batch->arrays[i], '}');
		batch->params[i] = batch->arrays[i].data;
	}
	return batch->params;
}

/* Statements ------------------------------------------------------------------- */

/* Adds FROM or USING: the parameters as rows v(c1, c2 ...). */
static void
add_source(StringInfo sql, const char *word, int count)
{
	appendStringInfo(sql, " %s ROWS FROM (", word);
	for (int i = 1; i <= count; i++)
		appendStringInfo(sql, "%spg_catalog.unnest($%d::pg_catalog.text[])", i > 1 ? ", " : "", i);
	appendStringInfoString(sql, ") AS v(");
	for (int i = 1; i <= count; i++)
		appendStringInfo(sql, "%sc%d", i > 1 ? ", " : "", i);
	appendStringInfoChar(sql, ')');
}

/* Adds WHERE: the primary key is in the first parameters. */
static void
add_key_condition(StringInfo sql, const SlRefColumns *columns)
{
	for (int i = 0; i < columns->key_count; i++)
	{
		const SlRefColumn *column = &columns->columns[columns->key[i]];

		appendStringInfo(sql, " %s t.%s %s v.c%d::%s", i == 0 ? "WHERE" : "AND", column->name,
						 column->equals, i + 1, column->type);
	}
}

static void
put_key(Batch *batch, const SlRefColumns *columns, const SlRefRows *rows, int row)
{
	for (int i = 0; i < columns->key_count; i++)
		put_value(&batch->arrays[i], &columns->columns[columns->key[i]], rows, row);
}

static void
insert_sql(StringInfo sql, const SlRefColumns *columns)
{
	StringInfoData values;
	int			count = 0;

	initStringInfo(&values);
	appendStringInfo(sql, "INSERT INTO %s (", columns->name);
	for (int i = 0; i < columns->column_count; i++)
	{
		const SlRefColumn *column = &columns->columns[i];

		if (column->is_generated)
			continue;
		count++;
		appendStringInfo(sql, "%s%s", count > 1 ? ", " : "", column->name);
		appendStringInfo(&values, "%sv.c%d::%s", count > 1 ? ", " : "", count, column->type);
	}
	appendStringInfo(sql, ") OVERRIDING SYSTEM VALUE SELECT %s", values.data);
	add_source(sql, "FROM", count);
}

/* Inserts rows into the copies. */
void
sl_reference_insert(const SlRefColumns *columns, SlReply *replies, int count, const SlRefRows *rows)
{
	StringInfoData sql;
	Batch	   *batch = make_batch(columns->column_count);
	int			level;

	if (rows->count == 0)
		return;
	initStringInfo(&sql);
	insert_sql(&sql, columns);
	level = sl_definition_begin_output();
	for (int row = 0; row < rows->count; row++)
	{
		int			param = 0;

		for (int i = 0; i < columns->column_count; i++)
		{
			if (!columns->columns[i].is_generated)
				put_value(&batch->arrays[param++], &columns->columns[i], rows, row);
		}
		batch->count = param;
	}
	AtEOXact_GUC(true, level);
	sl_reference_run(replies, count, sql.data, batch->count, end_batch(batch));
	check_rows(columns, replies, count, rows->count);
}

/*
 * Deletes from the copies what has the keys of these rows; with a condition,
 * only where that is true.
 */
void
sl_reference_delete(const SlRefColumns *columns, SlReply *replies, int count, const SlRefRows *rows,
					const char *condition)
{
	StringInfoData sql;
	Batch	   *batch = make_batch(columns->key_count);
	int			level;

	if (rows->count == 0)
		return;
	initStringInfo(&sql);
	appendStringInfo(&sql, "DELETE FROM %s AS t", columns->name);
	add_source(&sql, "USING", columns->key_count);
	add_key_condition(&sql, columns);
	if (condition != NULL)
		appendStringInfo(&sql, " AND %s", condition);
	level = sl_definition_begin_output();
	for (int row = 0; row < rows->count; row++)
		put_key(batch, columns, rows, row);
	AtEOXact_GUC(true, level);
	sl_reference_run(replies, count, sql.data, batch->count, end_batch(batch));
	if (!columns->is_acted_on && condition == NULL)
		check_rows(columns, replies, count, rows->count);
}

/* Updates ---------------------------------------------------------------------- */

static bool
is_same(const SlRefColumns *columns, const SlRefColumn *column, const SlRefRows *before,
		const SlRefRows *after, int row)
{
	int64		place = place_of(before, row, column);
	Form_pg_attribute attribute = TupleDescAttr(columns->descriptor, column->attnum - 1);

	if (before->nulls[place] || after->nulls[place])
		return before->nulls[place] && after->nulls[place];
	return datum_image_eq(before->values[place], after->values[place], attribute->attbyval,
						  attribute->attlen);
}

/* Marks the columns that have changed, and returns the numbers of the rows. */
static List *
find_changes(SlRefColumns *columns, const SlRefRows *before, const SlRefRows *after)
{
	List	   *result = NIL;

	for (int i = 0; i < columns->column_count; i++)
		columns->columns[i].is_changed = false;
	for (int row = 0; row < before->count; row++)
	{
		bool		is_changed = false;

		for (int i = 0; i < columns->column_count; i++)
		{
			if (is_same(columns, &columns->columns[i], before, after, row))
				continue;
			columns->columns[i].is_changed = is_changed = true;
		}
		if (is_changed)
			result = lappend_int(result, row);
	}
	return result;
}

static int
update_sql(StringInfo sql, const SlRefColumns *columns)
{
	int			param = columns->key_count;

	appendStringInfo(sql, "UPDATE %s AS t SET ", columns->name);
	for (int i = 0; i < columns->column_count; i++)
	{
		const SlRefColumn *column = &columns->columns[i];

		if (!column->is_changed || column->is_generated)
			continue;
		appendStringInfo(sql, "%s%s = v.c%d::%s", param > columns->key_count ? ", " : "",
						 column->name, param + 1, column->type);
		param++;
	}
	add_source(sql, "FROM", param);
	add_key_condition(sql, columns);
	return param;
}

/* Sends one statement for these rows, which are found by the keys of "found_by". */
static void
send_update(const SlRefColumns *columns, SlReply *replies, int count, List *row_numbers,
			const SlRefRows *found_by, const SlRefRows *after)
{
	StringInfoData sql;
	Batch	   *batch;
	ListCell   *cell;
	int			level;

	initStringInfo(&sql);
	batch = make_batch(update_sql(&sql, columns));
	level = sl_definition_begin_output();
	foreach(cell, row_numbers)
	{
		int			param = columns->key_count;

		put_key(batch, columns, found_by, lfirst_int(cell));
		for (int i = 0; i < columns->column_count; i++)
		{
			if (columns->columns[i].is_changed && !columns->columns[i].is_generated)
				put_value(&batch->arrays[param++], &columns->columns[i], after, lfirst_int(cell));
		}
	}
	AtEOXact_GUC(true, level);
	sl_reference_run(replies, count, sql.data, batch->count, end_batch(batch));
}

/* Order ------------------------------------------------------------------------- */

static bool
changes_unique(const SlRefColumns *columns, const SlRefUnique *unique)
{
	/* 0 is the whole row. */
	if (bms_is_member(0, unique->attnums))
		return true;
	for (int i = 0; i < columns->column_count; i++)
	{
		if (columns->columns[i].is_changed &&
			bms_is_member(columns->columns[i].attnum, unique->attnums))
			return true;
	}
	return false;
}

/* The values that must be unique, as one string. */
static char *
unique_text(const SlRefColumns *columns, const SlRefUnique *unique, const SlRefRows *rows, int row)
{
	StringInfoData result;

	initStringInfo(&result);
	for (int i = 0; i < columns->column_count; i++)
	{
		if (bms_is_member(columns->columns[i].attnum, unique->attnums))
			put_value(&result, &columns->columns[i], rows, row);
	}
	return result.data;
}

static int
compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Does a row take what another one gives away? */
static bool
passes_on(const SlRefColumns *columns, const SlRefUnique *unique, List *row_numbers,
		  const SlRefRows *before, const SlRefRows *after)
{
	char	  **given = palloc(sizeof(char *) * Max(list_length(row_numbers), 1));
	char	  **taken = palloc(sizeof(char *) * Max(list_length(row_numbers), 1));
	int			count = 0;
	bool		result = false;
	ListCell   *cell;

	foreach(cell, row_numbers)
	{
		given[count] = unique_text(columns, unique, before, lfirst_int(cell));
		taken[count] = unique_text(columns, unique, after, lfirst_int(cell));
		if (strcmp(given[count], taken[count]) != 0)
			count++;
	}
	qsort(given, count, sizeof(char *), compare_texts);
	for (int i = 0; i < count && !result; i++)
		result = bsearch(&taken[i], given, count, sizeof(char *), compare_texts) != NULL;
	return result;
}

static bool
needs_order(const SlRefColumns *columns, Relation relation, List *row_numbers,
			const SlRefRows *before, const SlRefRows *after)
{
	ListCell   *cell;

	if (list_length(row_numbers) < 2)
		return false;
	foreach(cell, sl_reference_uniques(relation))
	{
		const SlRefUnique *unique = lfirst(cell);

		if (changes_unique(columns, unique) &&
			(!unique->is_plain || passes_on(columns, unique, row_numbers, before, after)))
			return true;
	}
	return false;
}

static bool
changes_key(const SlRefColumns *columns)
{
	for (int i = 0; i < columns->key_count; i++)
	{
		if (columns->columns[columns->key[i]].is_changed)
			return true;
	}
	return false;
}

/*
 * The key is part of a foreign key with ON UPDATE CASCADE or the like.  Rows that
 * a shard's own foreign key has changed have their new keys; they are updated
 * all the same, because triggers may have changed more of them here.
 */
static void
update_acted_on(const SlRefColumns *columns, SlReply *replies, int count, List *row_numbers,
				const SlRefRows *before, const SlRefRows *after)
{
	SlRefUnique key = {.is_plain = true};

	for (int i = 0; i < columns->key_count; i++)
		key.attnums = bms_add_member(key.attnums, columns->columns[columns->key[i]].attnum);
	if (passes_on(columns, &key, row_numbers, before, after))
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("rows of reference table %s cannot exchange their keys in one statement",
					   columns->name),
				errdetail("Its primary key is part of a foreign key with ON UPDATE CASCADE or a similar action."),
				errhint("Change the keys in several statements."));
	send_update(columns, replies, count, row_numbers, before, after);
	send_update(columns, replies, count, row_numbers, after, after);
	check_rows(columns, replies, count, list_length(row_numbers));
}

/* Sets all columns of rows that the copies have, but for the key. */
void
sl_reference_overwrite(SlRefColumns *columns, SlReply *replies, int count, const SlRefRows *rows)
{
	List	   *row_numbers = NIL;

	for (int i = 0; i < columns->column_count; i++)
		columns->columns[i].is_changed = columns->columns[i].equals == NULL;
	for (int row = 0; row < rows->count; row++)
		row_numbers = lappend_int(row_numbers, row);
	if (row_numbers == NIL)
		return;
	send_update(columns, replies, count, row_numbers, rows, rows);
	check_rows(columns, replies, count, rows->count);
}

/* Changes the copies' rows from what they were to what they are. */
void
sl_reference_update(SlRefColumns *columns, SlReply *replies, int count, const SlRefRows *before,
					const SlRefRows *after, Relation relation)
{
	List	   *row_numbers = find_changes(columns, before, after);

	if (row_numbers == NIL)
		return;
	if (changes_key(columns) && columns->key_is_acted_on)
		update_acted_on(columns, replies, count, row_numbers, before, after);
	else if (needs_order(columns, relation, row_numbers, before, after))
	{
		ListCell   *cell;

		foreach(cell, row_numbers)
		{
			send_update(columns, replies, count, list_make1_int(lfirst_int(cell)), before, after);
			check_rows(columns, replies, count, 1);
		}
	}
	else
	{
		send_update(columns, replies, count, row_numbers, before, after);
		check_rows(columns, replies, count, list_length(row_numbers));
	}
}
