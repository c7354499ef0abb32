/*
 * update.c
 *		Changes rows that a scan has found, and locked, on shards.
 *
 * A row is found again by its ctid and, since the table may have partitions
 * there, by the OID of the partition.  A join may come to the same row twice: by
 * then it has another ctid, so the second change finds nothing, as PostgreSQL
 * has it.
 *
 * A row whose key belongs to another shard then is deleted where it was and
 * inserted where it goes, in the one transaction.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "storage/itemptr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/base.h"
#include "fdw/modify.h"

/* What tells where a row is: ctid and the OID of its table there. */
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
 * A row that comes to a shardlet which is being moved online must be written as a
 * whole: what an UPDATE leaves where it is, out of line, does not reach the
 * other shard (guard.c).  Moves that begin later wait for this statement; if it brings
 * them such a row meanwhile, it has to be run again.
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

/* Prepares to change rows that come from the plan. */
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
	if (modify->key_may_change && modify->route.map != NULL && sl_stray_is_followed(modify->route.map))
		modify->update_columns = add_out_of_line(modify);
	else if (modify->key_may_change)
		sl_pipe_is_partial(modify->pipe);
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

/* Writes down where the row is; returns the shard. */
static SlShard *
find_row(SlModify *modify, TupleTableSlot *plan_slot, const char **params)
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

/* More than one row would mean that a partition was changed by mistake. */
static void
check_rows(const SlModify *modify, const SlShard *shard, uint64 rows)
{
	if (rows > 1)
		ereport(ERROR,
				errcode(ERRCODE_INTERNAL_ERROR),
				errmsg("row of table \"%s\" was not found alone on shard \"%s\"",
					   RelationGetRelationName(modify->relation), NameStr(shard->name)));
}

/* Runs a statement on one row and waits.  Returns true if the row was there. */
static bool
ask(SlModify *modify, SlShard *shard, const char *sql, int count, const char **params,
	TupleTableSlot *slot)
{
	bool		returns = sql != modify->move_sql && modify->returning != NIL;
	uint64		rows;
	PGresult   *result = sl_pipe_ask(modify->pipe, shard, sql, count, params,
									 returns && modify->returning_binary, &rows);

	modify->asked += rows;
	check_rows(modify, shard, rows);
	if (result != NULL)
		return sl_modify_take_reply(modify, shard, sql, result, slot);
	return rows > 0;
}

/* Sends it, and waits only if the row's fate must be known. */
static bool
send_or_ask(SlModify *modify, SlShard *shard, const char *sql, int count, const char **params,
			TupleTableSlot *slot)
{
	if (modify->needs_reply)
		return ask(modify, shard, sql, count, params, slot);
	modify->claimed++;
	sl_pipe_send(modify->pipe, shard, sql, true, count, params);
	return true;
}

/* The row gets another shard. */
static bool
move_row(SlModify *modify, SlShard *from, SlShard *to, const char **identity,
		 TupleTableSlot *slot)
{
	if (modify->insert_sql == NULL)
		sl_insert_prepare(modify);
	sl_referrer_check(modify, from, IDENTITY_PARAMS, identity);
	if (!ask(modify, from, modify->move_sql, IDENTITY_PARAMS, identity, NULL))
		return false;
	return sl_insert_ask(modify, to, slot);
}

/* Rows that this statement has changed, when they were not locked before. */
static bool
was_changed(SlModify *modify, const SlShard *shard, const char *const *identity)
{
	HASHCTL		control = {.keysize = NAMEDATALEN,.entrysize = NAMEDATALEN,.hcxt = modify->context};
	char		key[NAMEDATALEN];
	bool		found;

	if (modify->changed == NULL)
		modify->changed = hash_create("shardlet changed rows", 256, &control,
									  HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	snprintf(key, sizeof(key), "%d %s %s", shard->id, identity[0], identity[1]);
	(void) hash_search(modify->changed, key, HASH_ENTER, &found);
	return found;
}

/* What it means that a row is not what the plan has found. */
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

/* Has the row locked, ahead of what is done to it; if it has changed, that fails. */
static void
lock_row(SlModify *modify, SlShard *shard, const char **identity)
{
	if (modify->lock_sql == NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(modify->context);

		modify->lock_sql = sl_write_lock(modify->relation);
		modify->lock_failure = make_changed(modify);
		MemoryContextSwitchTo(old_context);
	}
	sl_pipe_expect(modify->pipe, shard, modify->lock_sql, IDENTITY_PARAMS, identity,
				   modify->lock_failure);
}

/*
 * The plan looks for rows again and again, so it found them as they were when
 * the statement began, and did not lock them.  Returns false if the statement
 * itself has changed the row: that counts once.  If somebody else has, nothing
 * can be said of it here.
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

/* Changes a row.  Returns NULL if it is known that it was not there. */
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
	from = to = find_row(modify, plan_slot, params + count);
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
		send_or_ask(modify, from, modify->update_sql, count + IDENTITY_PARAMS, params, slot) :
		move_row(modify, from, to, params + count, slot);
	return found ? slot : NULL;
}

/* Deletes a row.  Returns NULL if it is known that it was not there. */
TupleTableSlot *
sl_delete_row(SlModify *modify, TupleTableSlot *slot, TupleTableSlot *plan_slot)
{
	const char *params[IDENTITY_PARAMS];
	MemoryContext old_context;
	SlShard    *shard;
	bool		found;

	/* It may have the row before, whose memory ends now. */
	ExecClearTuple(slot);
	MemoryContextReset(modify->work);
	old_context = MemoryContextSwitchTo(modify->work);
	shard = find_row(modify, plan_slot, params);
	found = claim_row(modify, shard, params);
	MemoryContextSwitchTo(old_context);
	if (!found)
		return NULL;
	return send_or_ask(modify, shard, modify->delete_sql, IDENTITY_PARAMS, params, slot) ? slot : NULL;
}
