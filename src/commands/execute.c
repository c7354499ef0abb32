/*
 * execute.c
 *		execute(): any command on every shard.
 *
 * With atomic => true the command is part of the session's transaction, on all
 * shards or on none.  With atomic => false each shard is for itself, which is what
 * VACUUM or CREATE INDEX CONCURRENTLY need; an error is a row of the result.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "executor/multi_shard.h"

PG_FUNCTION_INFO_V1(shardlet_execute);

enum
{
	EXECUTE_SHARD, EXECUTE_COMMAND, EXECUTE_ROWS, EXECUTE_ERROR, EXECUTE_COLUMNS
};

/* What to run where, and how. */
typedef struct Execution
{
	const char *source;
	const char *command;		/* if the shard does not send one */
	int			param_count;
	const char **params;
	bool		skip;
	bool		atomic;
	SlReply    *replies;
	int			count;
} Execution;

static void
put_row(ReturnSetInfo *result, const SlReply *reply, const char *command)
{
	Datum		values[EXECUTE_COLUMNS] = {0};
	bool		nulls[EXECUTE_COLUMNS] = {0};
	bool		failed = reply->failure != NULL;

	values[EXECUTE_SHARD] = NameGetDatum(&reply->shard->name);
	nulls[EXECUTE_COMMAND] = failed;
	values[EXECUTE_COMMAND] = CStringGetTextDatum(reply->command != NULL ? reply->command : command);
	nulls[EXECUTE_ROWS] = failed || !reply->has_rows;
	values[EXECUTE_ROWS] = Int64GetDatum(reply->rows);
	nulls[EXECUTE_ERROR] = !failed;
	if (failed)
		values[EXECUTE_ERROR] = CStringGetTextDatum(reply->failure->message);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Leaves out, with a warning, what failed; all of it is an error. */
static void
skip_failures(Execution *work)
{
	int			failed = 0;

	for (int i = 0; i < work->count; i++)
		failed += work->replies[i].failure != NULL ? 1 : 0;
	for (int i = 0; i < work->count; i++)
	{
		SlReply    *reply = &work->replies[i];

		if (reply->failure == NULL)
			continue;
		if (!work->skip || failed == work->count)
			sl_failure_raise(reply->failure, NameStr(reply->shard->name), work->source);
		sl_missing_shards_add(reply->shard);
		ereport(WARNING,
				errcode(reply->failure->sqlstate),
				errmsg("shard \"%s\" is left out", NameStr(reply->shard->name)),
				errdetail_internal("%s", reply->failure->message));
	}
}

/* Puts the command into the session's transaction on every shard, and runs it. */
static void
run_atomically(Execution *work, const SlTxnUse *use)
{
	sl_command_run(work->replies, work->count, work->source, work->param_count, work->params, use);
	for (int i = 0; i < work->count; i++)
	{
		/* With "skip" the transaction goes on without those that failed. */
		if (work->skip)
			sl_command_settle(&work->replies[i]);
	}
	skip_failures(work);
}

/* Outside of the session's transaction, so no shard may be in it. */
static void
check_not_joined(const Execution *work)
{
	for (int i = 0; i < work->count; i++)
	{
		const SlReply *reply = &work->replies[i];

		if (reply->failure == NULL && reply->conn->txn.level > 0)
			ereport(ERROR,
					errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
					errmsg("shardlet.execute() with atomic => false cannot run on shard \"%s\" in this transaction",
						   NameStr(reply->shard->name)),
					errdetail("The transaction has used the shard already."));
	}
}

/* From now on a shard's statements outside of transactions only read again. */
static void
make_read_only(const Execution *work)
{
	for (int i = 0; i < work->count; i++)
	{
		if (work->replies[i].conn != NULL)
			work->replies[i].conn->is_read_only = true;
	}
}

/* Shard by shard as far as transactions go, and yet all at a time. */
static void
run_separately(Execution *work)
{
	check_not_joined(work);
	PG_TRY();
	{
		for (int done = 0; done < work->count; done += sl_max_parallel_shards)
			sl_command_run(work->replies + done, Min(work->count - done, sl_max_parallel_shards),
						   work->source, work->param_count, work->params, NULL);
	}
	PG_FINALLY();
	{
		make_read_only(work);
	}
	PG_END_TRY();
}

/* execute(map, sql, params, shards, on_error, atomic) */
Datum
shardlet_execute(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Execution	work = {0};
	List	   *shards;
	List	   *hidden;
	SlQueryString *query;
	SlTxnUse	use = {0};

	InitMaterializedSRF(fcinfo, 0);
	work.source = sl_map_arg_text(fcinfo, 1, "query");
	query = sl_query_string_parse(work.source);
	work.command = query->command;
	sl_query_call_params(PG_ARGISNULL(2) ? NULL : PG_GETARG_ARRAYTYPE_P(2), &work.param_count, &work.params);
	work.skip = sl_query_call_on_error_skips(sl_map_arg_text(fcinfo, 4, "\"on_error\""));
	work.atomic = PG_ARGISNULL(5) || PG_GETARG_BOOL(5);
	use.writes = query->is_write;
	use.needs_savepoint = work.skip;
	shards = sl_query_call_shards(PG_ARGISNULL(0) ? NULL : sl_map_arg_name(fcinfo, 0, "map"),
								  PG_ARGISNULL(3) ? NULL : PG_GETARG_ARRAYTYPE_P(3), query, &hidden);
	sl_missing_shards_reset();
	if (query->is_write)
		PreventCommandIfReadOnly("shardlet.execute()");
	sl_missing_shards_check(&shards, query->is_write, work.skip);
	work.replies = sl_broadcast_make(shards, true, &work.count);
	for (int i = 0; i < work.count; i++)
		work.replies[i].orphaned_rows = sl_query_orphaned_on(hidden, work.replies[i].shard);
	if (query->is_utility)
		sl_pipeline_invalidate();
	if (work.atomic)
		sl_snapshot_begin(shards);
	sl_command_open(work.replies, work.count);
	if (work.atomic)
	{
		sl_txn_check_span(shards, use.writes);
		run_atomically(&work, &use);
	}
	else
		run_separately(&work);
	for (int i = 0; i < work.count; i++)
		put_row(result, &work.replies[i], work.command);
	return (Datum) 0;
}
