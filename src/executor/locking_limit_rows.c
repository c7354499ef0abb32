/*
 * locking_limit_rows.c
 *		Statements and rows of locking reads with LIMIT.
 *
 * Rows come with their place: the shard, the table on it, and the ctid in that.  By
 * that they can be locked later, with the condition of the statement repeated; a row
 * that was changed meanwhile is not found.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "executor/locking_limit.h"

/* Statements ---------------------------------------------------------------------- */

/* The wanted columns, and where the row is. */
TupleDesc
sl_locking_limit_descriptor(TupleDesc wanted)
{
	int			count = wanted->natts;
	TupleDesc	result = CreateTemplateTupleDesc(count + PLACE_COLUMNS);

	for (int i = 1; i <= count; i++)
		TupleDescCopyEntry(result, (AttrNumber) i, wanted, (AttrNumber) i);
	TupleDescInitEntry(result, (AttrNumber) (count + 1), "ctid", TIDOID, -1, 0);
	TupleDescInitEntry(result, (AttrNumber) (count + 2), "tableoid", INT8OID, -1, 0);
	TupleDescInitEntry(result, (AttrNumber) (count + 3), "shard", INT4OID, -1, 0);
	return result;
}

/* Room for as many parameters as a statement can have more. */
SlParams
sl_locking_limit_params(const SlParams *from)
{
	SlParams	result = {.count = from->count};
	int			room = from->count + 2;

	result.types = palloc0(sizeof(Oid) * room);
	result.values = palloc0(sizeof(char *) * room);
	result.lengths = palloc0(sizeof(int) * room);
	result.formats = palloc0(sizeof(int) * room);
	for (int i = 0; i < from->count; i++)
	{
		result.types[i] = from->types[i];
		result.values[i] = from->values[i];
		result.lengths[i] = from->lengths[i];
		result.formats[i] = from->formats[i];
	}
	return result;
}

static void
add_param(SlParams *params, Oid type, const char *value)
{
	params->types[params->count] = type;
	params->values[params->count++] = value;
}

/*
 * The statement, with the place of each row, and for rows at given places only if
 * these are the last two parameters.
 */
static char *
write_statement(const SlLockingLimit *lock, bool is_placed)
{
	List	   *places = lock->scan->places;
	int			columns_end = linitial_int(places);
	int			conditions_end = lsecond_int(places);
	int			alias = lthird_int(places);
	int			number = lock->spec.own_param_count;
	StringInfoData sql;

	initStringInfo(&sql);
	appendBinaryStringInfo(&sql, lock->sql, columns_end);
	appendStringInfo(&sql, "%s r%d.ctid, r%d.tableoid::int8", lock->scan->wanted->natts > 0 ? "," : "",
					 alias, alias);
	appendBinaryStringInfo(&sql, lock->sql + columns_end, conditions_end - columns_end);
	if (is_placed)
		appendStringInfo(&sql, " AND r%d.ctid = ANY ($%d::pg_catalog.tid[])"
						 " AND r%d.tableoid::pg_catalog.text || r%d.ctid::pg_catalog.text = ANY ($%d::pg_catalog.text[])",
						 alias, number + 1, alias, alias, number + 2);
	appendStringInfoString(&sql, lock->sql + conditions_end);
	return sql.data;
}

/* Adds the limit: as it is, if it is always the same. */
static const char *
add_limit(const SlLockingLimit *lock, const char *sql, SlParams *params, int64 limit)
{
	if (limit == lock->total && sl_remote_scan_has_fixed_limit(lock->scan))
		return psprintf("%s LIMIT " INT64_FORMAT, sql, limit);
	add_param(params, INT8OID, psprintf(INT64_FORMAT, limit));
	return psprintf("%s LIMIT $%d::pg_catalog.int8", sql, params->count);
}

const char *
sl_locking_limit_clause(SlLockPolicy policy)
{
	return policy == SL_POLICY_SKIP ? SKIP_CLAUSE : policy == SL_POLICY_NOWAIT ? NOWAIT_CLAUSE : "";
}

/* The statement that locks up to so many rows on each shard. */
const char *
sl_locking_limit_statement(const SlLockingLimit *lock, SlParams *params, int64 limit)
{
	return add_limit(lock, psprintf("%s%s%s", write_statement(lock, false), lock->strength,
									sl_locking_limit_clause(lock->policy)), params, limit);
}

/* Rows ---------------------------------------------------------------------------- */

SlLockPart *
sl_locking_limit_part(const SlLockingLimit *lock, int32 shard)
{
	for (int i = 0; i < lock->part_count; i++)
	{
		if (lock->parts[i].shard->id == shard)
			return &lock->parts[i];
	}
	elog(ERROR, "could not find shard %d", shard);
}

/*
 * Queries shards, each for as many rows at most.  sl_locking_limit_next_row() returns
 * them one by one, merged in order unless each shard has parameters of its own.
 */
SlMultiShardScan *
sl_locking_limit_send(SlLockingLimit *lock, List *shards, const char *sql, const SlParams *params,
					  SlParams *shard_params, int64 limit, SlTxnLock kind)
{
	SlMultiShardSpec spec = lock->spec;
	ListCell   *cell;

	spec.shards = shards;
	spec.sql = sql;
	spec.params = *params;
	spec.shard_params = shard_params;
	spec.sort_count = shard_params == NULL && list_length(shards) > 1 ? lock->scan->sort_count : 0;
	spec.has_few_rows = limit <= SL_FEW_ROWS;
	spec.use.lock = kind;
	foreach(cell, sl_tentative_lock_is_wanted(&spec.use) ? shards : NIL)
		sl_locking_limit_part(lock, ((SlShard *) lfirst(cell))->id)->is_tentative = true;
	sl_remote_scan_collect_rows(lock->scan);
	sl_remote_scan_save_stats(lock->scan, &spec);
	return sl_multi_shard_begin(&spec);
}

/* The same without locks, by the newest snapshot if there is more than one. */
SlMultiShardScan *
sl_locking_limit_read(SlLockingLimit *lock, List *shards, int64 limit)
{
	SlParams	params = sl_locking_limit_params(&lock->spec.params);
	SlTxnUse	use = lock->spec.use;
	SlMultiShardScan *result;

	lock->spec.use.writes = false;
	lock->spec.use.needs_savepoint = true;
	lock->spec.use.scope = IsolationUsesXactSnapshot() ? SL_SCOPE_SESSION :
		sl_txn_scope_of(lock->scan->node->state);
	lock->spec.use.held_map = NULL;
	result = sl_locking_limit_send(lock, shards, add_limit(lock, write_statement(lock, false), &params, limit),
								   &params, NULL, limit, SL_LOCK_NONE);
	lock->spec.use = use;
	return result;
}

int32
sl_locking_limit_shard(const SlLockingLimit *lock)
{
	return DatumGetInt32(lock->slot->tts_values[lock->slot->tts_tupleDescriptor->natts - 1]);
}

/* Where the row is, as the condition in write_statement() has it. */
static char *
place_of(const SlLockingLimit *lock)
{
	int			count = lock->slot->tts_tupleDescriptor->natts;
	Datum		ctid = lock->slot->tts_values[count - 3];

	return psprintf(INT64_FORMAT "%s", DatumGetInt64(lock->slot->tts_values[count - 2]),
					DatumGetCString(DirectFunctionCall1(tidout, ctid)));
}

bool
sl_locking_limit_next_row(SlLockingLimit *lock, SlMultiShardScan *multi)
{
	if (!sl_multi_shard_next(multi, lock->slot))
		return false;
	slot_getallattrs(lock->slot);
	return true;
}

static MinimalTuple
copy_tuple(const SlLockingLimit *lock)
{
	return ExecCopySlotMinimalTuple(lock->slot);
}

/* Keeps the row that was read. */
void
sl_locking_limit_add_row(SlLockingLimit *lock, bool is_locked)
{
	MemoryContext old_context = MemoryContextSwitchTo(lock->context);
	SlLockRow  *row;

	if (lock->row_count == lock->row_room)
	{
		lock->row_room = Max(16, lock->row_room * 2);
		lock->rows = lock->rows == NULL ?
			MemoryContextAllocHuge(lock->context, sizeof(SlLockRow) * lock->row_room) :
			repalloc_huge(lock->rows, sizeof(SlLockRow) * lock->row_room);
	}
	row = &lock->rows[lock->row_count++];
	row->tuple = copy_tuple(lock);
	row->shard = sl_locking_limit_shard(lock);
	row->place = place_of(lock);
	row->is_locked = is_locked;
	MemoryContextSwitchTo(old_context);
}

/* Begins again, with no rows. */
void
sl_locking_limit_forget(SlLockingLimit *lock)
{
	CHECK_FOR_INTERRUPTS();
	sl_remote_scan_collect_rows(lock->scan);
	MemoryContextReset(lock->context);
	MemoryContextReset(lock->work);
	lock->rows = NULL;
	lock->row_count = lock->row_room = 0;
}

/* Locking by place ------------------------------------------------------------------- */

static int
compare_rows(const void *a, const void *b)
{
	const SlLockRow *left = *(const SlLockRow *const *) a;
	const SlLockRow *right = *(const SlLockRow *const *) b;

	if (left->shard != right->shard)
		return left->shard < right->shard ? -1 : 1;
	return strcmp(left->place, right->place);
}

/* Pointers to rows, by shard and place. */
static SlLockRow **
sort_rows(SlLockRow *rows, int64 count)
{
	SlLockRow **result = palloc_extended(sizeof(SlLockRow *) * Max(count, 1), MCXT_ALLOC_HUGE);

	for (int64 i = 0; i < count; i++)
		result[i] = &rows[i];
	qsort(result, (size_t) count, sizeof(SlLockRow *), compare_rows);
	return result;
}

/* Parameters that say which rows of one shard are meant. */
static SlParams
write_places(const SlLockingLimit *lock, SlLockRow **rows, int64 count)
{
	SlParams	result = sl_locking_limit_params(&lock->spec.params);
	StringInfoData places;
	StringInfoData names;

	initStringInfo(&places);
	initStringInfo(&names);
	for (int64 i = 0; i < count; i++)
	{
		appendStringInfo(&places, "%c\"%s\"", i == 0 ? '{' : ',', strchr(rows[i]->place, '('));
		appendStringInfo(&names, "%c\"%s\"", i == 0 ? '{' : ',', rows[i]->place);
	}
	appendStringInfoChar(&places, '}');
	appendStringInfoChar(&names, '}');
	add_param(&result, TIDARRAYOID, places.data);
	add_param(&result, TEXTARRAYOID, names.data);
	return result;
}

/* Notes that the row that was read is locked, and what is in it. */
static void
note_locked(SlLockingLimit *lock, SlLockRow **rows, int64 count)
{
	SlLockRow	key = {.shard = sl_locking_limit_shard(lock),.place = place_of(lock)};
	SlLockRow  *wanted = &key;
	SlLockRow **found = bsearch(&wanted, rows, (size_t) count, sizeof(SlLockRow *), compare_rows);
	MemoryContext old_context;

	if (found == NULL)
		elog(ERROR, "could not find a row that was locked");
	old_context = MemoryContextSwitchTo(lock->context);
	(*found)->tuple = copy_tuple(lock);
	(*found)->is_locked = true;
	MemoryContextSwitchTo(old_context);
}

/*
 * Locks rows where they are, on all their shards at a time.  Returns false if some
 * are not locked: they have changed, or others have locked them.
 */
bool
sl_locking_limit_places(SlLockingLimit *lock, SlLockRow *rows, int64 count, SlLockPolicy policy, SlTxnLock kind)
{
	SlLockRow **sorted = sort_rows(rows, count);
	SlParams   *params = palloc(sizeof(SlParams) * lock->part_count);
	List	   *shards = NIL;
	int64		locked = 0;
	SlMultiShardScan *multi;

	for (int64 i = 0, end; i < count; i = end)
	{
		for (end = i + 1; end < count && sorted[end]->shard == sorted[i]->shard;)
			end++;
		params[list_length(shards)] = write_places(lock, &sorted[i], end - i);
		shards = lappend(shards, sl_locking_limit_part(lock, sorted[i]->shard)->shard);
	}
	multi = sl_locking_limit_send(lock, shards, psprintf("%s%s%s", write_statement(lock, true), lock->strength,
														 sl_locking_limit_clause(policy)), &params[0], params, count, kind);
	for (; sl_locking_limit_next_row(lock, multi); locked++)
		note_locked(lock, sorted, count);
	return locked == count;
}
