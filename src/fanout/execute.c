/*
 * execute.c
 *		execute(): any command on every shard.
 *
 * With atomic => true the command runs in a transaction on each shard, and
 * these are committed when it has succeeded on all of them and rolled back
 * otherwise.  With atomic => false each shard is for itself, which is what
 * VACUUM or CREATE INDEX CONCURRENTLY need; an error is a row of the result.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "fanout/fanout.h"

PG_FUNCTION_INFO_V1(shardlet_execute);

enum
{
	EXECUTE_SHARD, EXECUTE_COMMAND, EXECUTE_ROWS, EXECUTE_ERROR, EXECUTE_COLUMNS
};

/* What to run where, and how. */
typedef struct Execution
{
	const char *source;
	int			param_count;
	const char **params;
	bool		skip;
	bool		atomic;
	SlReply    *replies;
	int			count;
} Execution;

static void
put_row(ReturnSetInfo *result, const SlReply *reply)
{
	Datum		values[EXECUTE_COLUMNS] = {0};
	bool		nulls[EXECUTE_COLUMNS] = {0};
	bool		failed = reply->failure != NULL;

	values[EXECUTE_SHARD] = NameGetDatum(&reply->shard->name);
	nulls[EXECUTE_COMMAND] = failed || reply->command == NULL;
	if (!nulls[EXECUTE_COMMAND])
		values[EXECUTE_COMMAND] = CStringGetTextDatum(reply->command);
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
		sl_fanout_add_missing(reply->shard);
		ereport(WARNING,
				errcode(reply->failure->sqlstate),
				errmsg("shard \"%s\" is left out", NameStr(reply->shard->name)),
				errdetail_internal("%s", reply->failure->message));
	}
}

/* Ends the transactions of those that did not fail. */
static void
end_transactions(Execution *work, const char *command)
{
	SlReply    *replies = palloc(sizeof(SlReply) * Max(work->count, 1));

	memcpy(replies, work->replies, sizeof(SlReply) * work->count);
	sl_broadcast_run(replies, work->count, NULL, command, 0, NULL, 0);
	for (int i = 0; i < work->count; i++)
	{
		if (replies[i].failure != NULL && work->replies[i].failure == NULL)
			sl_failure_raise(replies[i].failure, NameStr(replies[i].shard->name), command);
	}
}

/* A failed command left its transaction open on the shard: end that too. */
static void
roll_back_failed(Execution *work)
{
	SlReply    *failed = palloc0(sizeof(SlReply) * Max(work->count, 1));
	int			count = 0;

	for (int i = 0; i < work->count; i++)
	{
		SlReply    *reply = &work->replies[i];

		if (reply->failure == NULL || reply->conn == NULL || reply->conn->state != SL_CONN_OPEN)
			continue;
		failed[count].shard = reply->shard;
		failed[count++].conn = reply->conn;
	}
	sl_broadcast_run(failed, count, NULL, "ROLLBACK", 0, NULL, sl_connect_timeout);
}

static void
run_atomically(Execution *work)
{
	sl_broadcast_run(work->replies, work->count, "BEGIN", work->source, work->param_count,
					 work->params, sl_shard_timeout);
	roll_back_failed(work);
	skip_failures(work);
	end_transactions(work, "COMMIT");
}

/* Shard by shard as far as transactions go, and yet all at a time. */
static void
run_separately(Execution *work)
{
	for (int done = 0; done < work->count; done += sl_max_parallel_shards)
		sl_broadcast_run(work->replies + done, Min(work->count - done, sl_max_parallel_shards),
						 NULL, work->source, work->param_count, work->params, sl_shard_timeout);
}

static void
add_replies(Execution *work, List *shards)
{
	ListCell   *cell;

	work->replies = palloc0(sizeof(SlReply) * Max(list_length(shards), 1));
	foreach(cell, shards)
		work->replies[work->count++].shard = lfirst(cell);
}

/* execute(map, sql, params, shards, on_error, atomic) */
Datum
shardlet_execute(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Execution	work = {0};
	List	   *shards;
	SlText	   *query;

	InitMaterializedSRF(fcinfo, 0);
	work.source = sl_map_arg_text(fcinfo, 1, "text");
	query = sl_text_parse(work.source);
	sl_call_params(PG_ARGISNULL(2) ? NULL : PG_GETARG_ARRAYTYPE_P(2), &work.param_count, &work.params);
	work.skip = sl_call_on_error_skips(sl_map_arg_text(fcinfo, 4, "\"on_error\""));
	work.atomic = PG_ARGISNULL(5) || PG_GETARG_BOOL(5);
	shards = sl_call_shards(PG_ARGISNULL(0) ? NULL : sl_map_arg_name(fcinfo, 0, "map"),
							PG_ARGISNULL(3) ? NULL : PG_GETARG_ARRAYTYPE_P(3));
	sl_fanout_reset_missing();
	if (query->is_write)
		PreventCommandIfReadOnly("shardlet.execute()");
	sl_call_check_states(&shards, query->is_write, work.skip);
	add_replies(&work, shards);
	sl_broadcast_open(work.replies, work.count);
	if (work.atomic)
		run_atomically(&work);
	else
		run_separately(&work);
	for (int i = 0; i < work.count; i++)
		put_row(result, &work.replies[i]);
	return (Datum) 0;
}
