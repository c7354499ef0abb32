/*
 * replay.c
 *		Has a shard that returns execute the DDL that it has missed.
 *
 * This is part of the transaction that sets the shard online, in which the stored
 * statements are deleted as well: two-phase commit makes it happen once, in spite of
 * any crash.  If a statement fails, all of that is rolled back, and the shard stays
 * offline; health() shows the statement.
 *
 * Statements run on one connection, that of the caller, in their order, since each
 * may depend on those before it.  Those of other users run as these users, by a
 * function of the shard: SET ROLE could be taken back by a function that a name in the
 * statement means there.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/guc.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "ddl/definition.h"
#include "executor/multi_shard.h"
#include "metadata/missed_ddl.h"
#include "metadata/shared_memory.h"

/* The shard, and which statement it executes. */
typedef struct Replay
{
	const SlShard *shard;
	SlReply    *replies;
	int			count;			/* 1 */
	char	   *user;			/* of the connection */
	const SlMissedDdl *current;
} Replay;

static void
describe_statement(void *arg)
{
	const Replay *replay = arg;

	if (replay->current != NULL)
		errcontext("statement %lld that shard \"%s\" has missed: %s", (long long) replay->current->id,
				   NameStr(replay->shard->name), replay->current->statement);
}

static char *
run_on_shard(const Replay *replay, const char *sql, int param_count, const char *const *params)
{
	sl_command_everywhere(replay->replies, replay->count, sql, param_count, params, true);
	return replay->replies[0].value != NULL ? pstrdup(replay->replies[0].value) : NULL;
}

/* The connection passes them on.  The caller has begun a GUC nest level. */
static void
restore_settings(const SlMissedDdl *missed)
{
	ListCell   *cell;

	foreach(cell, missed->settings)
	{
		char	   *name = pstrdup(lfirst(cell));
		char	   *value = strchr(name, '=');

		if (value == NULL)
			continue;
		*value++ = '\0';
		(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	}
}

static void
execute_as(const Replay *replay, const SlMissedDdl *missed)
{
	const char *params[] = {missed->role, missed->statement};

	if (replay->shard->bare)
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("shard \"%s\" cannot execute a statement of user \"%s\"", NameStr(replay->shard->name), missed->role),
				errdetail("It does not have the extension, and the router connects to it as user \"%s\".", replay->user),
				errhint("Execute the statement on the shard, and delete it from shardlet.catalog_missed_ddl."));
	(void) run_on_shard(replay, "SELECT shardlet.run_as_role($1, $2)", lengthof(params), params);
}

/*
 * Does the shard have to execute the statement?  An answer that is neither yes nor no is
 * the name of a function that the shard has got of its own (function_later.c).
 */
static bool
meets_condition(const Replay *replay, const SlMissedDdl *missed)
{
	const char *answer = missed->condition != NULL ? run_on_shard(replay, missed->condition, 0, NULL) : "t";

	if (answer == NULL || strcmp(answer, "f") == 0)
		return false;
	if (strcmp(answer, "t") != 0)
		sl_object_list_remove_from("function", answer, replay->shard->id);
	return true;
}

static void
execute_missed(Replay *replay, const SlMissedDdl *missed)
{
	bool		is_other = strcmp(missed->role, replay->user) != 0;
	int			level = NewGUCNestLevel();

	replay->current = missed;
	restore_settings(missed);
	if (!meets_condition(replay, missed))
		ereport(NOTICE,
				errmsg("shard \"%s\" does not execute a statement that it has missed: %s",
					   NameStr(replay->shard->name), missed->statement),
				errdetail("A table or role that it names does not exist there."));
	else if (is_other)
		execute_as(replay, missed);
	else
		(void) run_on_shard(replay, missed->statement, 0, NULL);
	AtEOXact_GUC(true, level);
}

static void
execute_all(Replay *replay, const List *statements)
{
	ListCell   *cell;

	replay->replies = sl_broadcast_make(list_make1(unconstify(SlShard *, replay->shard)), true, &replay->count);
	sl_command_open(replay->replies, replay->count);
	sl_command_check(replay->replies, replay->count, NULL);
	replay->user = run_on_shard(replay, "SELECT CURRENT_USER", 0, NULL);
	foreach(cell, statements)
		execute_missed(replay, lfirst(cell));
	replay->current = NULL;
}

/* The shard has been set online by the running transaction, and is not used yet. */
void
sl_ddl_replay(const SlShard *shard)
{
	List	   *statements = sl_missed_ddl_list(shard->id);
	Replay		replay = {.shard = shard};
	SlShardSlot *slot = sl_shmem_shard(shard->id);
	ErrorContextCallback callback = {.callback = describe_statement,.arg = &replay};

	if (statements == NIL)
		return;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	pg_atomic_write_u64(&slot->failed_ddl, 0);
	PG_TRY();
	{
		execute_all(&replay, statements);
	}
	PG_CATCH();
	{
		/* What the shard refuses is no secret of the transaction. */
		if (replay.current != NULL)
			pg_atomic_write_u64(&slot->failed_ddl, (uint64) replay.current->id);
		PG_RE_THROW();
	}
	PG_END_TRY();
	error_context_stack = callback.previous;
	sl_missed_ddl_forget(shard->id);
	sl_fault("missed_ddl_replayed");
}
