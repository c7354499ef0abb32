/*
 * update.c
 *		UPDATE and DELETE of rows that a scan has found, and locked, on
 *		shards.
 *
 * A row is identified by its ctid and, since the table may have partitions on
 * the shard, by the OID of the partition.  A join may return the same row
 * twice: by then it has another ctid, so the second update finds nothing, as
 * in PostgreSQL.
 *
 * A row whose new key belongs to another shard is deleted on the old shard and
 * inserted on the new one, in the same transaction.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "storage/itemptr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "base/base.h"

/* The location of a row: ctid and the OID of its table on the shard. */
#define IDENTITY_PARAMS 2

static bool
may_change_key(const SlModify *modify)
{
	TupleDesc	descriptor = RelationGetDescr(modify->relation);

	for (int i = 0; i < modify->route.table->key_count; i++)
	{
		AttrNumber	key = modify->route.table->key[i];

		if (list_member_int(modify->update_columns, key) ||
			TupleDescAttr(descriptor, key - 1)->attgenerated != '\0')
			return true;
	}
	return false;
}

/*
 * A row that is updated into a shardlet which is being moved online must be
 * written as a whole: unchanged TOAST values are not sent to the other shard
 * (ownership_trigger.c).  Moves that begin later wait for this statement; if
 * it updates such a row meanwhile, it has to be run again.
 */
static List *
add_out_of_line(const SlModify *modify)
{
	TupleDesc	descriptor = RelationGetDescr(modify->relation);
	List	   *result = list_copy(modify->update_columns);
	ListCell   *cell;

	foreach(cell, sl_copy_row_columns(descriptor))
	{
		if (TupleDescAttr(descriptor, lfirst_int(cell) - 1)->attlen == -1)
			result = list_append_unique_int(result, lfirst_int(cell));
	}
	return result;
}

/* Prepares to modify rows of the plan. */
void
sl_update_prepare(SlModify *modify, Plan *subplan)
{
	modify->ctid_junk = ExecFindJunkAttributeInTlist(subplan->targetlist, SL_JUNK_CTID);
	modify->shard_junk = ExecFindJunkAttributeInTlist(subplan->targetlist, SL_JUNK_SHARD);
	modify->table_junk = ExecFindJunkAttributeInTlist(subplan->targetlist, SL_JUNK_TABLE);
	if (!AttributeNumberIsValid(modify->ctid_junk) || !AttributeNumberIsValid(modify->shard_junk) ||
		!AttributeNumberIsValid(modify->table_junk))
		elog(ERROR, "could not find the place of rows among the plan's columns");
	modify->delete_sql = sl_write_delete(modify->relation, modify->returning);
	if (modify->operation == CMD_DELETE)
		return;
	modify->key_may_change = may_change_key(modify);
	if (modify->key_may_change && modify->route.map != NULL && sl_orphaned_is_followed(modify->route.map))
		modify->update_columns = add_out_of_line(modify);
	else if (modify->key_may_change)
		sl_statement_pipeline_is_partial(modify->pipe);
	modify->update_sql = sl_write_update(modify->relation, modify->update_columns,
										 modify->returning);
	modify->update_values = sl_copy_row_make_text(RelationGetDescr(modify->relation), modify->update_columns);
	modify->move_sql = sl_write_delete(modify->relation, NIL);
}

static Datum
get_junk(TupleTableSlot *slot, AttrNumber number)
{
	bool		is_null;
	Datum		value = ExecGetJunkAttribute(slot, number, &is_null);

	if (is_null)
		elog(ERROR, "place of a row is NULL");
	return value;
}

/* Sets the parameters that locate the row; returns the shard. */
static SlShard *
locate_row(SlModify *modify, TupleTableSlot *plan_slot, const char **params)
{
	Datum		ctid = get_junk(plan_slot, modify->ctid_junk);
	CommandId	shard_id = DatumGetCommandId(get_junk(plan_slot, modify->shard_junk));
	TransactionId table = DatumGetTransactionId(get_junk(plan_slot, modify->table_junk));
	SlShard    *shard = sl_shard_by_id((int32) shard_id);

	sl_row_check_shard(shard);
	params[0] = DatumGetCString(DirectFunctionCall1(tidout, ctid));
	params[1] = psprintf("%u", table);
	return shard;
}

/* More than one row would mean that the wrong partition was modified. */
static void
check_rows(const SlModify *modify, const SlShard *shard, uint64 rows)
{
	if (rows > 1)
		ereport(ERROR,
				errcode(ERRCODE_INTERNAL_ERROR),
				errmsg("row of table \"%s\" was not found alone on shard \"%s\"",
					   RelationGetRelationName(modify->relation), NameStr(shard->name)));
}

/*
 * Runs a statement on one row and waits.  Returns true if the row was found.
 */
static bool
run_and_wait(SlModify *modify, SlShard *shard, const char *sql, int count, const char **params,
			 TupleTableSlot *slot)
{
	bool		returns = sql != modify->move_sql && modify->returning != NIL;
	uint64		rows;
	PGresult   *result = sl_statement_pipeline_run(modify->pipe, shard, sql, count, params,
												   returns && modify->returning_binary, &rows);

	modify->awaited += rows;
	check_rows(modify, shard, rows);
	if (result != NULL)
		return sl_modify_take_reply(modify, shard, sql, result, slot);
	return rows > 0;
}

/* Sends the statement, and waits only if the reply is needed. */
static bool
send_or_wait(SlModify *modify, SlShard *shard, const char *sql, int count, const char **params,
			 TupleTableSlot *slot)
{
	if (modify->needs_reply)
		return run_and_wait(modify, shard, sql, count, params, slot);
	modify->claimed++;
	sl_statement_pipeline_send(modify->pipe, shard, sql, true, count, params);
	return true;
}

/* Moves the row to another shard. */
static bool
move_row(SlModify *modify, SlShard *from, SlShard *to, const char **identity,
		 TupleTableSlot *slot)
{
	if (modify->insert_sql == NULL)
		sl_insert_prepare(modify);
	sl_referrer_check(modify, from, IDENTITY_PARAMS, identity);
	if (!run_and_wait(modify, from, modify->move_sql, IDENTITY_PARAMS, identity, NULL))
		return false;
	return sl_insert_send_rows(modify, to, slot);
}

/*
 * Has this statement modified the row already?  For rows that were not locked
 * before.
 */
static bool
was_changed(SlModify *modify, const SlShard *shard, const char *const *identity)
{
	SlStatement *statement = modify->statement;
	HASHCTL		control = {
		.keysize = NAMEDATALEN,.entrysize = NAMEDATALEN,.hcxt = modify->estate->es_query_cxt
	};
	char		key[NAMEDATALEN];
	bool		found;

	if (statement->changed == NULL)
		statement->changed = hash_create("shardlet changed rows", 256, &control,
										 HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	snprintf(key, sizeof(key), "%d %s %s", shard->id, identity[0], identity[1]);
	(void) hash_search(statement->changed, key, HASH_ENTER, &found);
	return found;
}

/* The error if a row is not what the plan has found. */
static SlFailure *
make_changed(const SlModify *modify)
{
	SlFailure  *failure = palloc0(sizeof(SlFailure));

	failure->sqlstate = ERRCODE_T_R_SERIALIZATION_FAILURE;
	failure->message = psprintf("row of table \"%s\" was changed by another transaction",
								RelationGetRelationName(modify->relation));
	failure->hint = "Run the transaction again.";
	return failure;
}

static void
prepare_lock(SlModify *modify)
{
	MemoryContext old_context = MemoryContextSwitchTo(modify->context);

	modify->lock_sql = sl_write_lock(modify->relation, false);
	modify->claim_sql = sl_write_lock(modify->relation, true);
	modify->lock_failure = make_changed(modify);
	MemoryContextSwitchTo(old_context);
}

/*
 * Locks the row before it is modified; a row that was changed by another
 * transaction is an error.  A row that this transaction has changed since the
 * statement began is left to the shard, which treats the statement as one
 * command: it skips the row if the statement has changed it, and fails if a
 * function has.
 */
static void
lock_row(SlModify *modify, SlShard *shard, const char **identity)
{
	bool		or_own = !shard->bare && sl_statement_writes_by_snapshot(modify->statement);

	if (modify->lock_sql == NULL)
		prepare_lock(modify);
	sl_statement_pipeline_expect(modify->pipe, shard, or_own ? modify->claim_sql : modify->lock_sql,
								 IDENTITY_PARAMS, identity, modify->lock_failure);
}

/*
 * The plan scans repeatedly, so it found the rows as of the start of the
 * statement, and did not lock them.  Returns false if the statement itself has
 * changed the row, which is modified only once.  A change by another
 * transaction is an error.
 */
static bool
claim_row(SlModify *modify, SlShard *shard, const char **identity)
{
	if (!modify->statement->is_unlocked)
		return true;
	if (was_changed(modify, shard, identity))
		return false;
	lock_row(modify, shard, identity);
	return true;
}

/* Updates a row.  Returns NULL if it is known that it was not found. */
TupleTableSlot *
sl_update_row(SlModify *modify, TupleTableSlot *slot, TupleTableSlot *plan_slot)
{
	int			count = list_length(modify->update_columns);
	MemoryContext old_context;
	const char **params;
	SlShard    *from;
	SlShard    *to;
	bool		found;

	MemoryContextReset(modify->work);
	old_context = MemoryContextSwitchTo(modify->work);
	params = palloc(sizeof(char *) * (count + IDENTITY_PARAMS));
	from = to = locate_row(modify, plan_slot, params + count);
	if (!claim_row(modify, from, params + count))
	{
		MemoryContextSwitchTo(old_context);
		return NULL;
	}
	if (modify->key_may_change && modify->route.table->key_count > 0)
		to = sl_row_route(&modify->route, slot);
	sl_copy_row_values(modify->update_values, slot, params);
	MemoryContextSwitchTo(old_context);
	found = from == to ?
		send_or_wait(modify, from, modify->update_sql, count + IDENTITY_PARAMS, params, slot) :
		move_row(modify, from, to, params + count, slot);
	return found ? slot : NULL;
}

/* Deletes a row.  Returns NULL if it is known that it was not found. */
TupleTableSlot *
sl_delete_row(SlModify *modify, TupleTableSlot *slot, TupleTableSlot *plan_slot)
{
	const char *params[IDENTITY_PARAMS];
	MemoryContext old_context;
	SlShard    *shard;
	bool		found;

	/* The slot may still have the previous row, whose memory is reset now. */
	ExecClearTuple(slot);
	MemoryContextReset(modify->work);
	old_context = MemoryContextSwitchTo(modify->work);
	shard = locate_row(modify, plan_slot, params);
	found = claim_row(modify, shard, params);
	MemoryContextSwitchTo(old_context);
	if (!found)
		return NULL;
	return send_or_wait(modify, shard, modify->delete_sql, IDENTITY_PARAMS, params, slot) ? slot : NULL;
}
