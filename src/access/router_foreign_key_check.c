/*
 * router_foreign_key_check.c
 *		Checks foreign keys of the router's tables after rows of a shell table that
 *		they may refer to were deleted, or got another key.
 *
 * The rows come from the node that writes to the shell table (modify_node_exec.c).
 * Their old versions are kept until the statement ends.  Those that are referred to
 * (router_foreign_key_probe.c) are then given to PostgreSQL's own triggers of the
 * foreign keys.  These ask whether a row with the
 * same key exists, which is a query of the shards, and whether a row of the router
 * refers to it, and raise PostgreSQL's error.  By then the shards have executed
 * everything: the reference that another transaction has made holds a lock of the
 * row on the shard until its commit, so it is committed and visible on the router
 * when the row is deleted.
 *
 * PostgreSQL queues such a trigger itself only if the row is in the heap, or the
 * table a foreign table.  So these checks are not deferred to the end of the
 * transaction, as are those of rows that are inserted on the router: a transaction
 * that deletes the referenced row first fails, whatever it would do next.
 *
 * A statement of a foreign key's action is part of the statement that caused it,
 * which may delete the referring rows as well.  Its rows are checked at the end of
 * that one, if PostgreSQL runs the action there.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/tuplestore.h"

#include "access/foreign_modify.h"
#include "metadata/router_foreign_key.h"

/* A foreign key, and the old rows to be checked for it. */
typedef struct CheckedKey
{
	Oid			trigger;
	Tuplestorestate *rows;
} CheckedKey;

/* What a node has written.  It belongs to its memory context. */
struct SlRouterKeyCheck
{
	dlist_node	node;			/* in the list of pending ones */
	MemoryContext context;
	MemoryContextCallback callback;
	const EState *owner;		/* the statement at whose end it is made */
	Relation	relation;		/* while rows are added */
	Oid			relid;
	CmdType		operation;
	TriggerDesc *triggers;		/* a copy */
	List	   *keys;			/* CheckedKeys */
};

static dlist_head pending_checks = DLIST_STATIC_INIT(pending_checks);

/* The statement whose triggers fire, if its own triggers are not left to another one. */
static EState *finishing = NULL;

static ExecutorFinish_hook_type next_finish = NULL;

/* Rows ------------------------------------------------------------------------ */

static bool
is_enabled(const Trigger *trigger)
{
	if (SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA)
		return trigger->tgenabled == TRIGGER_FIRES_ON_REPLICA || trigger->tgenabled == TRIGGER_FIRES_ALWAYS;
	return trigger->tgenabled == TRIGGER_FIRES_ON_ORIGIN || trigger->tgenabled == TRIGGER_FIRES_ALWAYS;
}

/* Does the trigger check a foreign key of the router after this operation? */
static bool
is_applicable(const Trigger *trigger, CmdType operation)
{
	return (operation == CMD_DELETE ? TRIGGER_FOR_DELETE(trigger->tgtype) : TRIGGER_FOR_UPDATE(trigger->tgtype)) &&
		is_enabled(trigger) && sl_router_key_is_trigger(trigger);
}

static bool
has_applicable(const TriggerDesc *triggers, CmdType operation)
{
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		if (is_applicable(&triggers->triggers[i], operation))
			return true;
	}
	return false;
}

static void
forget_check(void *arg)
{
	dlist_delete(&((SlRouterKeyCheck *) arg)->node);
}

static CheckedKey *
make_key(Oid trigger)
{
	CheckedKey *key = palloc(sizeof(CheckedKey));

	key->trigger = trigger;
	key->rows = tuplestore_begin_heap(false, false, work_mem);
	return key;
}

/*
 * Prepares to check rows of the relation that the statement deletes or updates.
 * Returns NULL if there is nothing to check.
 */
SlRouterKeyCheck *
sl_router_key_check_begin(EState *estate, Relation relation, CmdType operation)
{
	bool		is_action = (estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS) != 0;
	EState	   *owner = is_action && finishing != NULL ? finishing : estate;
	SlRouterKeyCheck *check;
	MemoryContext context;
	MemoryContext old_context;

	if ((estate->es_top_eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0 || !has_applicable(relation->trigdesc, operation))
		return NULL;
	context = AllocSetContextCreate(owner->es_query_cxt, "shardlet foreign key checks", ALLOCSET_SMALL_SIZES);
	old_context = MemoryContextSwitchTo(context);
	check = palloc0(sizeof(SlRouterKeyCheck));
	check->context = context;
	check->owner = owner;
	check->relation = relation;
	check->relid = RelationGetRelid(relation);
	check->operation = operation;
	check->triggers = CopyTriggerDesc(relation->trigdesc);
	for (int i = 0; i < check->triggers->numtriggers; i++)
	{
		if (is_applicable(&check->triggers->triggers[i], operation))
			check->keys = lappend(check->keys, make_key(check->triggers->triggers[i].tgoid));
	}
	check->callback.func = forget_check;
	check->callback.arg = check;
	MemoryContextRegisterResetCallback(context, &check->callback);
	dlist_push_tail(&pending_checks, &check->node);
	MemoryContextSwitchTo(old_context);
	return check;
}

static Trigger *
find_trigger(const SlRouterKeyCheck *check, Oid oid)
{
	for (int i = 0; i < check->triggers->numtriggers; i++)
	{
		if (check->triggers->triggers[i].tgoid == oid)
			return &check->triggers->triggers[i];
	}
	elog(ERROR, "could not find trigger %u", oid);
}

/*
 * Adds a row that was deleted, or updated: "new_row" is NULL if it was deleted.  The
 * row is not kept for foreign keys whose columns have not changed.
 */
void
sl_router_key_check_add(SlRouterKeyCheck *check, TupleTableSlot *old_row, TupleTableSlot *new_row)
{
	ListCell   *cell;

	foreach(cell, check->keys)
	{
		CheckedKey *key = lfirst(cell);

		if (RI_FKey_pk_upd_check_required(find_trigger(check, key->trigger), check->relation, old_row, new_row))
			tuplestore_puttupleslot(key->rows, old_row);
	}
}

/* Checks ---------------------------------------------------------------------- */

/* Calls the trigger as PostgreSQL does after the row was changed. */
static void
fire_trigger(Relation relation, CmdType operation, Trigger *trigger, FmgrInfo *function, TupleTableSlot *slot)
{
	LOCAL_FCINFO(fcinfo, 0);
	TriggerData data = {.type = T_TriggerData};

	data.tg_event = (operation == CMD_DELETE ? TRIGGER_EVENT_DELETE : TRIGGER_EVENT_UPDATE) |
		TRIGGER_EVENT_ROW | TRIGGER_EVENT_AFTER;
	data.tg_relation = relation;
	data.tg_trigger = trigger;
	data.tg_trigslot = slot;
	InitFunctionCallInfoData(*fcinfo, function, 0, InvalidOid, (Node *) &data, NULL);
	(void) FunctionCallInvoke(fcinfo);
}

static void
check_key(const SlRouterKeyCheck *check, const CheckedKey *key, Relation relation)
{
	Trigger    *trigger = find_trigger(check, key->trigger);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsMinimalTuple);
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "shardlet foreign key check",
											   ALLOCSET_DEFAULT_SIZES);
	SlRouterKeyProbe *probe;
	FmgrInfo	function;

	fmgr_info(trigger->tgfoid, &function);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	probe = sl_router_key_probe_make(relation, trigger);
	while (tuplestore_gettupleslot(key->rows, true, false, slot))
	{
		MemoryContext old_context = MemoryContextSwitchTo(work);

		CHECK_FOR_INTERRUPTS();
		if (probe == NULL || sl_router_key_probe_finds(probe, slot))
			fire_trigger(relation, check->operation, trigger, &function, slot);
		MemoryContextSwitchTo(old_context);
		MemoryContextReset(work);
	}
	(void) SPI_finish();
	ExecDropSingleTupleTableSlot(slot);
	tuplestore_end(key->rows);
}

/* The lock on the table is that of the statement. */
static void
run_check(SlRouterKeyCheck *check)
{
	MemoryContext old_context = MemoryContextSwitchTo(check->context);
	Relation	relation = table_open(check->relid, NoLock);
	ListCell   *cell;

	foreach(cell, check->keys)
		check_key(check, lfirst(cell), relation);
	table_close(relation, NoLock);
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(check->context);
}

/* Makes the checks of a statement, when the shards have executed it. */
static void
run_pending_checks(EState *estate)
{
	dlist_mutable_iter iter;

	sl_modify_flush_all(estate);
	dlist_foreach_modify(iter, &pending_checks)
	{
		SlRouterKeyCheck *check = dlist_container(SlRouterKeyCheck, node, iter.cur);

		if (check->owner == estate)
			run_check(check);
	}
}

static void
finish_next(QueryDesc *query)
{
	if (next_finish != NULL)
		next_finish(query);
	else
		standard_ExecutorFinish(query);
}

/* Remembers the statement while its triggers, and actions of foreign keys, run. */
static void
finish_as_owner(QueryDesc *query)
{
	EState	   *outer = finishing;

	if ((query->estate->es_top_eflags & EXEC_FLAG_SKIP_TRIGGERS) == 0)
		finishing = query->estate;
	PG_TRY();
	{
		finish_next(query);
	}
	PG_FINALLY();
	{
		finishing = outer;
	}
	PG_END_TRY();
}

static void
finish_statement(QueryDesc *query)
{
	if (!sl_table_has_shells())
	{
		finish_next(query);
		return;
	}
	finish_as_owner(query);
	if (!dlist_is_empty(&pending_checks))
		run_pending_checks(query->estate);
}

void
sl_router_key_check_init(void)
{
	next_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = finish_statement;
}
