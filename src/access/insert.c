/*
 * insert.c
 *		INSERT of rows into distributed tables.
 *
 * All columns are sent but generated ones, which the shard computes: defaults
 * are in the row already.  The reply is awaited if it is needed at once, for
 * RETURNING or a check option.  Other rows are
 * pipelined, and when there are many of them sent by COPY.
 *
 * With ON CONFLICT DO UPDATE the rows of a shard are sent together, many in
 * one statement, because PostgreSQL refuses to update a row twice in one
 * command.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "base/base.h"

/* After so many rows more are expected, and COPY is cheaper. */
#define FEW_ROWS 100

/* Limits of a statement with ON CONFLICT DO UPDATE: rows and parameters. */
#define BATCH_ROWS 500
#define BATCH_PARAMS 60000
#define BATCH_BYTES (4 * 1024 * 1024)

/*
 * COPY does not pay if it has to be restarted more often than every so many
 * rows.
 */
#define ROWS_OF_COPY 20

/* Rows for one shard that are sent in one statement. */
typedef struct Batch
{
	SlShard    *shard;
	MemoryContext context;		/* of the values */
	int			count;
	size_t		bytes;			/* of the values */
	const char **values;
} Batch;

/* Prepares to insert; ON CONFLICT is initialized already. */
void
sl_insert_prepare(SlModify *modify)
{
	MemoryContext old_context = MemoryContextSwitchTo(modify->context);
	TupleDesc	descriptor = RelationGetDescr(modify->relation);

	modify->insert_columns = sl_copy_row_columns(descriptor);
	modify->insert_values = sl_copy_row_make_text(descriptor, modify->insert_columns);
	modify->insert_sql = sl_write_insert(modify->relation, modify->insert_columns,
										 modify->conflict, modify->returning);
	MemoryContextSwitchTo(old_context);
}

static int
column_count(const SlModify *modify)
{
	return list_length(modify->insert_columns);
}

/* Allocates the parameters of a statement of so many rows. */
static const char **
make_params(const SlModify *modify, int rows)
{
	return palloc0(sizeof(char *) *
				   Max(column_count(modify) * rows + modify->conflict_param_count, 1));
}

/* Parameters of ON CONFLICT come after those of the row. */
static int
add_conflict_params(const SlModify *modify, const char **params, int count)
{
	for (int i = 0; i < modify->conflict_param_count; i++)
		params[count++] = modify->conflict_values[i];
	return count;
}

/* Returns the row's parameters, in the per-row memory context. */
static const char **
row_params(SlModify *modify, TupleTableSlot *slot, int *count)
{
	const char **params = make_params(modify, 1);

	sl_copy_row_values(modify->insert_values, slot, params);
	*count = add_conflict_params(modify, params, column_count(modify));
	return params;
}

/*
 * Inserts a row and waits for the reply.  Returns true if it was inserted;
 * then the slot has the returned columns.
 */
bool
sl_insert_send_rows(SlModify *modify, SlShard *shard, TupleTableSlot *slot)
{
	MemoryContext old_context = MemoryContextSwitchTo(modify->work);
	PGresult   *result;
	uint64		rows;
	int			count;
	const char **params = row_params(modify, slot, &count);

	result = sl_statement_pipeline_run(modify->pipe, shard, modify->insert_sql, count, params,
									   modify->returning_binary, &rows);
	modify->awaited += rows;
	MemoryContextSwitchTo(old_context);
	if (result != NULL)
		return sl_modify_take_reply(modify, shard, modify->insert_sql, result, slot);
	return rows > 0;
}

/* ON CONFLICT DO UPDATE -------------------------------------------------------- */

static int
max_batch_rows(const SlModify *modify)
{
	return Max(1, Min(BATCH_ROWS, BATCH_PARAMS / Max(column_count(modify), 1)));
}

static void
send_batch(SlModify *modify, Batch *batch)
{
	StringInfoData sql;
	MemoryContext old_context;
	const char **params;
	int			count = batch->count * column_count(modify);

	if (batch->count == 0)
		return;
	old_context = MemoryContextSwitchTo(batch->context);
	params = make_params(modify, batch->count);
	for (int i = 0; i < modify->conflict_param_count; i++)
		params[column_count(modify) + i] = modify->conflict_values[i];

	/*
	 * The parameters of the first row, those of the clause, those of the
	 * other rows.
	 */
	for (int i = 0; i < column_count(modify); i++)
		params[i] = batch->values[i];
	for (int i = column_count(modify); i < count; i++)
		params[modify->conflict_param_count + i] = batch->values[i];
	initStringInfo(&sql);
	sl_write_batch(&sql, modify->relation, modify->insert_columns, batch->count,
				   modify->conflict_param_count, modify->conflict);
	batch->count = 0;
	batch->bytes = 0;
	sl_statement_pipeline_send(modify->pipe, batch->shard, sql.data, false,
							   count + modify->conflict_param_count, params);
	MemoryContextSwitchTo(old_context);
	MemoryContextReset(batch->context);
}

static Batch *
find_batch(SlModify *modify, SlShard *shard)
{
	MemoryContext old_context;
	ListCell   *cell;
	Batch	   *batch;

	foreach(cell, modify->batches)
	{
		batch = lfirst(cell);
		if (batch->shard == shard)
			return batch;
	}
	old_context = MemoryContextSwitchTo(modify->context);
	batch = palloc0(sizeof(Batch));
	batch->shard = shard;
	batch->context = AllocSetContextCreate(modify->context, "shardlet batch",
										   ALLOCSET_DEFAULT_SIZES);
	batch->values = palloc(sizeof(char *) * Max(column_count(modify), 1) * max_batch_rows(modify));
	modify->batches = lappend(modify->batches, batch);
	MemoryContextSwitchTo(old_context);
	return batch;
}

/* Called when the shard's connection is needed otherwise, or at the end. */
static void
close_batch(void *arg, SlShard *shard)
{
	SlModify   *modify = arg;

	send_batch(modify, find_batch(modify, shard));
}

static void
add_to_batch(SlModify *modify, SlShard *shard, TupleTableSlot *slot)
{
	Batch	   *batch = find_batch(modify, shard);
	MemoryContext old_context;
	const char **values;

	sl_statement_pipeline_hold(modify->pipe, shard, close_batch, modify);
	old_context = MemoryContextSwitchTo(batch->context);
	values = batch->values + batch->count * column_count(modify);
	sl_copy_row_values(modify->insert_values, slot, values);
	MemoryContextSwitchTo(old_context);
	for (int i = 0; i < column_count(modify); i++)
		batch->bytes += values[i] != NULL ? strlen(values[i]) : 0;
	if (++batch->count == max_batch_rows(modify) || batch->bytes >= BATCH_BYTES)
		send_batch(modify, batch);
}

/* Rows that are not waited for ------------------------------------------------- */

static void
begin_copy(SlModify *modify)
{
	MemoryContext old_context = MemoryContextSwitchTo(modify->context);
	Relation	relation = modify->relation;
	char	   *sql;

	if (modify->copy_row == NULL)
		modify->copy_row = sl_copy_row_make(RelationGetDescr(relation), modify->insert_columns);
	sql = sl_copy_row_sql(modify->copy_row, get_namespace_name(RelationGetNamespace(relation)),
						  RelationGetRelationName(relation));
	modify->copy = sl_copy_to_shards_begin(sql, sl_copy_row_is_binary(modify->copy_row), modify->user,
										   modify->statement);
	MemoryContextSwitchTo(old_context);
}

static void
copy_one(SlModify *modify, SlShard *shard, TupleTableSlot *slot)
{
	StringInfo	row;

	if (modify->copy == NULL)
		begin_copy(modify);
	row = sl_copy_row_encode(modify->copy_row, slot);
	sl_copy_to_shards_put(modify->copy, shard, row->data, row->len);
}

static void
send_one(SlModify *modify, SlShard *shard, TupleTableSlot *slot)
{
	MemoryContext old_context = MemoryContextSwitchTo(modify->work);
	int			count;
	const char **params = row_params(modify, slot, &count);

	sl_statement_pipeline_send(modify->pipe, shard, modify->insert_sql, true, count, params);
	MemoryContextSwitchTo(old_context);
}

/*
 * Is COPY cheaper?  Not if a nested statement reads from the shards all the
 * time, since COPY has to be ended each time.
 */
static bool
wants_copy(SlModify *modify)
{
	if (modify->conflict != NULL || modify->insert_columns == NIL ||
		(!modify->is_bulk && modify->inserted <= FEW_ROWS))
		return false;
	if (modify->copy != NULL &&
		sl_copy_to_shards_opened(modify->copy) > FEW_ROWS + modify->inserted / ROWS_OF_COPY)
	{
		modify->shuns_copy = true;
		sl_insert_flush(modify);
	}
	return !modify->shuns_copy;
}

/* Inserts a row.  Returns NULL if it is known that it was not inserted. */
TupleTableSlot *
sl_insert_row(SlModify *modify, TupleTableSlot *slot)
{
	SlShard    *shard;

	MemoryContextReset(modify->work);
	if (modify->insert_sql == NULL)
		sl_insert_prepare(modify);
	shard = sl_row_route(&modify->route, slot);
	if (modify->needs_reply)
		return sl_insert_send_rows(modify, shard, slot) ? slot : NULL;
	modify->claimed++;
	modify->inserted++;
	if (modify->conflict != NULL && modify->conflict_updates)
		add_to_batch(modify, shard, slot);
	else if (wants_copy(modify))
		copy_one(modify, shard, slot);
	else
		send_one(modify, shard, slot);
	return slot;
}

/* Waits until all rows of COPY are inserted. */
void
sl_insert_flush(SlModify *modify)
{
	if (modify->copy == NULL)
		return;
	modify->copied += sl_copy_to_shards_end(modify->copy);
	modify->copy = NULL;
}
