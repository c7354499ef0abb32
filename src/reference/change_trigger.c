/*
 * change_trigger.c
 *		The trigger that carries changes of a reference table to its copies.
 *
 * All rows of a statement are sent at once, from its transition tables, in the
 * session's transaction.  When they are sent matters: triggers and foreign keys fire
 * after the statement and may change this table or others again, and the shards must
 * get all of that in the order in which it happened.  A trigger for each statement
 * would be too late, since those fire last.  So it is one for each row, with a name
 * that sorts before all others, and the first row of a statement sends all of them.
 * The transition table records that this was done: its first read pointer, which is
 * not used otherwise, is at the end then.
 *
 * Old and new rows of an update are in the same order in both tables.
 *
 * TRUNCATE takes several tables at a time, and a shard must do that too if they
 * refer to each other.  The trigger before it collects the tables, and the first
 * one after it sends them.
 *
 * Shards that are offline are left out; they get what they missed when they are
 * online again (refresh_shard.c).  A shard that is read_only is changed like any
 * other: the word is about its keys, and a copy must not differ from the others.
 *
 * Deadlocks: the router's row locks come first.  A session that sends a change of a
 * row to the shards has locked that row on the router, so two sessions that change
 * the same rows in opposite order wait for each other there, where PostgreSQL detects
 * it, and never on shards, in whatever order these are reached.  What can meet there
 * are rows of sharded tables that refer to the row; the search over all shards
 * (transaction/deadlock.c) finds such circles.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "base/base.h"
#include "base/fault_points.h"
#include "reference/reference.h"

PG_FUNCTION_INFO_V1(shardlet_reference_change);

/* More inserted rows than this are sent by COPY, which takes another round trip. */
#define MANY_ROWS 200

/* A table that is being truncated. */
typedef struct Truncated
{
	Oid			relid;
	SubTransactionId transaction;
} Truncated;

/* In TopTransactionContext, and gone with the transaction. */
static List *truncated_tables = NIL;

/* Whose connections the transaction's changes have gone through; see below. */
static Oid	writer = InvalidOid;

/* Where a change goes to. */
typedef struct Copies
{
	SlRefColumns *columns;
	SlReply    *replies;
	int			count;
	Oid			user;			/* that was current before */
	int			security;
	bool		is_replica;
} Copies;

/* Shards ------------------------------------------------------------------------ */

/* Returns the shards that have copies now. */
static List *
shards_with_copies(void)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_shard_all())
	{
		SlShard    *shard = lfirst(cell);

		if (shard->state != SL_STATE_OFFLINE)
			result = lappend(result, shard);
	}
	return result;
}

/*
 * From 18 on a change that a foreign key makes fires triggers as the table's owner.
 * It must use the connection that has the change which caused it, or the two would
 * wait for each other.
 */
static void
choose_user(Copies *copies, Relation relation)
{
	GetUserIdAndSecContext(&copies->user, &copies->security);
	if (SL_ACTIONS_FIRE_AS_OWNER && copies->columns != NULL && copies->columns->is_acted_on &&
		OidIsValid(writer) && copies->user == relation->rd_rel->relowner)
		SetUserIdAndSecContext(writer, copies->security | SECURITY_LOCAL_USERID_CHANGE);
	else
		writer = copies->user;
}

/*
 * Where the session's triggers and foreign keys are off, those of the shards
 * are, too: nothing may happen there that did not happen here.
 */
static void
set_replica(const Copies *copies, bool is_replica)
{
	sl_reference_run(copies->replies, copies->count,
					 is_replica ? "SET LOCAL session_replication_role = replica" :
					 "SET LOCAL session_replication_role = origin", 0, NULL);
}

static void
begin_change(Copies *copies, Relation relation, List *shards)
{
	choose_user(copies, relation);
	copies->replies = sl_reference_open(shards, &copies->count);
	copies->is_replica = SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
	if (copies->is_replica)
		set_replica(copies, true);
	if (copies->columns != NULL && copies->columns->defer_sql != NULL)
		sl_reference_run(copies->replies, copies->count, copies->columns->defer_sql, 0, NULL);
}

static void
end_change(Copies *copies)
{
	if (copies->is_replica)
		set_replica(copies, false);
	SetUserIdAndSecContext(copies->user, copies->security);
	sl_fault("reference_sent");
}

/* Rows -------------------------------------------------------------------------- */

static void
copy_rows(const Copies *copies, Tuplestorestate *store)
{
	TupleDesc	descriptor = copies->columns->descriptor;
	uint64		rows = 0;
	SlCopyRow  *row = sl_copy_row_make(descriptor, sl_copy_row_columns(descriptor));
	TupleTableSlot *slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);
	SlCopyToShards *copy = sl_copy_to_shards_begin(sl_copy_row_sql(row, copies->columns->schema,
																   copies->columns->relname),
												   sl_copy_row_is_binary(row), GetUserId(), NULL);

	while (tuplestore_gettupleslot(store, true, false, slot))
	{
		StringInfo	data = sl_copy_row_encode(row, slot);

		for (int i = 0; i < copies->count; i++)
			sl_copy_to_shards_put(copy, copies->replies[i].shard, data->data, data->len);
		rows += copies->count;
	}
	sl_reference_check_copied(copies->columns->name, sl_copy_to_shards_end(copy), rows);
	ExecDropSingleTupleTableSlot(slot);
}

static void
send_rows(Copies *copies, const TriggerData *trigger)
{
	SlRefColumns *columns = copies->columns;
	Tuplestorestate *store = TRIGGER_FIRED_BY_DELETE(trigger->tg_event) ?
	trigger->tg_oldtable : trigger->tg_newtable;

	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event) && tuplestore_tuple_count(store) > MANY_ROWS)
		copy_rows(copies, store);
	else if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		sl_reference_insert(columns, copies->replies, copies->count,
							sl_reference_read(store, columns->descriptor));
	else if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		sl_reference_delete(columns, copies->replies, copies->count,
							sl_reference_read(store, columns->descriptor), NULL);
	else
	{
		SlRefRows  *before = sl_reference_read(trigger->tg_oldtable, columns->descriptor);
		SlRefRows  *after = sl_reference_read(store, columns->descriptor);

		if (before->count != after->count)
			elog(ERROR, "transition tables of reference table %s do not fit together",
				 columns->name);
		sl_reference_update(columns, copies->replies, copies->count, before, after,
							trigger->tg_relation);
	}
}

/* The first row of a statement sends all of them. */
static void
change_rows(const TriggerData *trigger)
{
	Tuplestorestate *store = TRIGGER_FIRED_BY_DELETE(trigger->tg_event) ?
	trigger->tg_oldtable : trigger->tg_newtable;
	Copies		copies = {0};
	List	   *shards;

	if (store == NULL || (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) && trigger->tg_oldtable == NULL))
		ereport(ERROR,
				errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				errmsg("trigger \"%s\" has no transition tables", trigger->tg_trigger->tgname),
				errhint("shardlet.make_reference() makes the triggers of a reference table."));
	tuplestore_select_read_pointer(store, 0);
	if (tuplestore_ateof(store))
		return;
	shards = shards_with_copies();
	if (shards == NIL)
	{
		(void) tuplestore_skiptuples(store, tuplestore_tuple_count(store) + 1, true);
		return;
	}
	if (trigger->tg_oldtable != NULL)
		tuplestore_select_read_pointer(trigger->tg_oldtable, 0);
	copies.columns = sl_reference_columns(trigger->tg_relation);
	begin_change(&copies, trigger->tg_relation, shards);
	send_rows(&copies, trigger);
	end_change(&copies);
}

/* TRUNCATE ----------------------------------------------------------------------- */

static void
note_truncated(Oid relid)
{
	MemoryContext old_context = MemoryContextSwitchTo(TopTransactionContext);
	Truncated  *entry = palloc(sizeof(Truncated));

	entry->relid = relid;
	entry->transaction = GetCurrentSubTransactionId();
	truncated_tables = lappend(truncated_tables, entry);
	MemoryContextSwitchTo(old_context);
}

static bool
is_noted(Oid relid)
{
	ListCell   *cell;

	foreach(cell, truncated_tables)
	{
		if (((Truncated *) lfirst(cell))->relid == relid)
			return true;
	}
	return false;
}

static char *
truncate_sql(void)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	foreach(cell, truncated_tables)
	{
		Oid			relid = ((Truncated *) lfirst(cell))->relid;

		appendStringInfo(&sql, "%s%s", sql.len == 0 ? "TRUNCATE " : ", ",
						 quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
													get_rel_name(relid)));
	}
	return sql.data;
}

static void
run_truncate(SlReply *replies, int count, const char *sql)
{
	sl_reference_run_with_hint(replies, count, sql,
							   ERRCODE_FEATURE_NOT_SUPPORTED,
							   "Tables of the shards refer to it. DELETE removes the rows that nothing refers to; shardlet.execute() runs TRUNCATE with the tables that you name on the shards.");
}

/*
 * A sharded table that references the table exists on the shards only, unless it is
 * a shell table: so its rows were not asked to be deleted, and there is no CASCADE.
 * Shell tables of the statement must be truncated with those that they refer to.
 */
static void
truncate_tables(const TriggerData *trigger)
{
	Copies		copies = {0};
	List	   *shards;
	char	   *sql;

	if (!is_noted(RelationGetRelid(trigger->tg_relation)))
		return;
	sql = truncate_sql();
	truncated_tables = NIL;
	shards = shards_with_copies();
	if (shards == NIL)
		return;
	begin_change(&copies, trigger->tg_relation, shards);
	if (!sl_truncate_has_shells())
		run_truncate(copies.replies, copies.count, sql);
	else
	{
		for (int i = 0; i < copies.count; i++)
			run_truncate(&copies.replies[i], 1, psprintf("%s%s", sql, sl_truncate_shells_on(copies.replies[i].shard)));
	}
	end_change(&copies);
}

/* reference_change() */
Datum
shardlet_reference_change(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				errmsg("shardlet.reference_change() was not called as a trigger"));
	if (!TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event))
		change_rows(trigger);
	else if (TRIGGER_FIRED_BEFORE(trigger->tg_event))
		note_truncated(RelationGetRelid(trigger->tg_relation));
	else
		truncate_tables(trigger);
	return PointerGetDatum(NULL);
}

/* Transactions --------------------------------------------------------------------- */

static void
at_transaction_end(XactEvent event, void *arg)
{
	truncated_tables = NIL;
	writer = InvalidOid;
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId my_id, SubTransactionId parent_id,
					  void *arg)
{
	ListCell   *cell;

	foreach(cell, truncated_tables)
	{
		Truncated  *entry = lfirst(cell);

		if (entry->transaction != my_id)
			continue;
		if (event == SUBXACT_EVENT_ABORT_SUB)
			truncated_tables = foreach_delete_current(truncated_tables, cell);
		else if (event == SUBXACT_EVENT_COMMIT_SUB)
			entry->transaction = parent_id;
	}
}

void
sl_reference_change_init(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}
