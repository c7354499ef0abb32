/*
 * send.c
 *		Runs the texts on the shards.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "ddl/create_on_shards.h"
#include "ddl/ddl_internal.h"
#include "executor/multi_shard.h"

/* The statement is refused unless all of these are available. */
void
sl_ddl_add_shards(SlDdl *ddl, List *shards)
{
	ddl->shards = list_concat_unique_ptr(ddl->shards, shards);
}

void
sl_ddl_add_step(SlDdl *ddl, List *shards, char *sql)
{
	sl_ddl_add_step_if(ddl, shards, sql, NULL);
}

/* The same with a condition that shards check if they execute the step later. */
void
sl_ddl_add_step_if(SlDdl *ddl, List *shards, char *sql, char *condition)
{
	SlDdlStep  *step;

	if (shards == NIL)
		return;
	step = palloc(sizeof(SlDdlStep));
	step->shards = shards;
	step->sql = sql;
	step->condition = condition;
	ddl->steps = lappend(ddl->steps, step);
	sl_ddl_add_shards(ddl, shards);
}

/* Adds the step that guards a table on the shards that have guards. */
void
sl_ddl_add_guard(SlDdl *ddl, const SlTable *table, List *key)
{
	List	   *shards = list_copy(sl_guard_trigger_shards(sl_table_homes(table)));
	ListCell   *cell;

	foreach(cell, sl_ddl_offline_shards(sl_table_homes(table), true))
	{
		if (!((SlShard *) lfirst(cell))->bare)
			shards = lappend(shards, lfirst(cell));
	}
	if (shards != NIL)
		sl_ddl_add_step(ddl, shards, sl_guard_trigger_sql(get_namespace_name(get_rel_namespace(table->relid)),
														  get_rel_name(table->relid), table->map, key));
}

/*
 * Before anything happens: a shard that is offline would miss the statement, unless it
 * can be stored for it.
 */
void
sl_ddl_check_shards(SlDdl *ddl)
{
	List	   *shards;

	sl_ddl_note_offline(ddl);
	shards = list_difference_ptr(ddl->shards, ddl->offline);
	sl_missing_shards_check(&shards, true, false);
	sl_txn_check_span(shards, true);
}

/* The notices of one shard are enough: the others say the same. */
static void
run_step(const SlDdlStep *step, List *shards)
{
	int			count;
	SlReply    *replies;

	sl_snapshot_begin(NIL);
	replies = sl_command_begin(shards, true, &count);
	sl_notice_speaker = count > 0 ? replies[0].conn : NULL;
	PG_TRY();
	{
		sl_command_everywhere(replies, count, step->sql, 0, NULL, true);
	}
	PG_FINALLY();
	{
		sl_notice_speaker = NULL;
	}
	PG_END_TRY();
}

/* Outside of the session's transaction, so no shard may be in it. */
static void
check_not_joined(const SlReply *replies, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (replies[i].conn->txn.level > 0)
			ereport(ERROR,
					errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
					errmsg("the statement cannot run on shard \"%s\" inside a transaction",
						   NameStr(replies[i].shard->name)),
					errdetail("The transaction has used the shard already."));
	}
}

/* Some shards did it and others did not, which cannot be taken back. */
static void
report_failures(const SlReply *replies, int count, const char *sql)
{
	const SlReply *failed = NULL;
	StringInfoData done;

	initStringInfo(&done);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure == NULL)
			appendStringInfo(&done, "%s\"%s\"", done.len > 0 ? ", " : "",
							 NameStr(replies[i].shard->name));
		else if (failed == NULL)
			failed = &replies[i];
		else
			sl_failure_report(WARNING, replies[i].failure, NameStr(replies[i].shard->name), sql);
	}
	if (failed == NULL)
		return;
	if (done.len > 0)
		ereport(WARNING,
				errmsg("the statement has been done on some shards only"),
				errdetail("It has been done on %s.", done.data),
				errhint("Such a statement is not atomic.  Run it again for the others with shardlet.execute(..., shards => ..., atomic => false)."));
	sl_failure_raise(failed->failure, NameStr(failed->shard->name), sql);
}

/* Each shard for itself, and yet all at a time. */
static void
run_separately(const SlDdlStep *step, List *shards)
{
	int			count;
	SlReply    *replies = sl_command_begin(shards, true, &count);

	check_not_joined(replies, count);
	sl_pipeline_invalidate();

	/* However it ends, the connections are read-only again. */
	PG_TRY();
	{
		sl_command_run(replies, count, step->sql, 0, NULL, NULL);
	}
	PG_FINALLY();
	{
		for (int i = 0; i < count; i++)
			replies[i].conn->is_read_only = true;
	}
	PG_END_TRY();
	report_failures(replies, count, step->sql);
}

void
sl_ddl_send(SlDdl *ddl)
{
	ListCell   *cell;

	foreach(cell, ddl->steps)
	{
		const SlDdlStep *step = lfirst(cell);
		List	   *shards = list_difference_ptr(step->shards, ddl->offline);

		if (shards != NIL && ddl->is_separate)
			run_separately(step, shards);
		else if (shards != NIL)
			run_step(step, shards);
	}
}

/* Runs SQL now, in the session's transaction, because other statements depend on it. */
void
sl_ddl_run_now(List *shards, char *sql)
{
	SlDdlStep	step = {.shards = shards,.sql = sql};

	run_step(&step, shards);
}

/*
 * Queries shards for one value each.  The query sees what the transaction has changed
 * there; a shard that does not take part in it need not join for that.
 */
SlReply *
sl_ddl_query_shard(List *shards, const char *sql, const char *param, int *count)
{
	const char *params[] = {param};
	SlTxnUse	use = {.scope = SL_SCOPE_AUTOCOMMIT};
	SlReply    *replies = sl_command_begin(shards, false, count);

	sl_command_run(replies, *count, sql, param != NULL ? 1 : 0, params, &use);
	for (int i = 0; i < *count; i++)
	{
		if (replies[i].failure != NULL)
			sl_failure_raise(replies[i].failure, NameStr(replies[i].shard->name), sql);
	}
	return replies;
}

/*
 * Returns the shards that answer a question of yes or no in that way.  One that is
 * offline gives no answer.
 */
List *
sl_ddl_shards_that(List *shards, const char *sql, const char *param, bool answer)
{
	int			count;
	SlReply    *replies = sl_ddl_query_shard(sl_ddl_offline_shards(shards, false), sql, param, &count);
	List	   *result = NIL;

	for (int i = 0; i < count; i++)
	{
		bool		is_yes = replies[i].value != NULL && strcmp(replies[i].value, "t") == 0;

		if (is_yes == answer)
			result = lappend(result, replies[i].shard);
	}
	return result;
}

/* Creates a role on those of the shards that lack it, where that is possible. */
void
sl_ddl_create_role(List *shards, const char *role, int32 map_id)
{
	SlRound		round;

	round.replies = sl_command_begin(shards, true, &round.count);
	sl_role_create(&round, role, map_id);
}

/* Returns the available shards that have a role, and says which have not. */
List *
sl_ddl_shards_with_role(List *shards, const char *role)
{
	static const char sql[] = "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles"
	" WHERE rolname OPERATOR(pg_catalog.=) $1::pg_catalog.text)";
	List	   *result = sl_ddl_shards_that(shards, sql, role, true);
	StringInfoData names;
	ListCell   *cell;

	shards = sl_ddl_offline_shards(shards, false);
	if (list_length(result) == list_length(shards))
		return result;
	initStringInfo(&names);
	foreach(cell, list_difference_ptr(shards, result))
		appendStringInfo(&names, "%s\"%s\"", names.len > 0 ? ", " : "",
						 NameStr(((SlShard *) lfirst(cell))->name));
	ereport(NOTICE,
			errmsg("role \"%s\" does not exist on shard %s, which is left as it is",
				   role, names.data));
	return result;
}
