/*
 * shard_answers.c
 *		shard_answers(): one query on every shard at a time, of which one that does not
 *		answer is a row like the others.
 *
 * What looks after shards must go on without one of them, and say which.  So neither a
 * shard that cannot be reached nor a query that fails there is an error of the
 * statement; execute() with on_error => 'skip' warns instead, and query() needs the
 * columns.  Each shard returns one value as text, which is JSON where there is more to
 * tell.
 *
 * The queries are part of the session's transaction: they see what it has written, and
 * do not wait for locks that it holds itself.  A failed one is rolled back to a
 * savepoint of its own.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "executor/multi_shard.h"

PG_FUNCTION_INFO_V1(shardlet_shard_answers);

enum
{
	ANSWER_SHARD, ANSWER_ANSWER, ANSWER_ERROR, ANSWER_COLUMNS
};

static void
put_answer(ReturnSetInfo *result, const SlReply *reply)
{
	const SlFailure *failure = reply->failure;
	Datum		values[ANSWER_COLUMNS] = {0};
	bool		nulls[ANSWER_COLUMNS] = {0};
	const char *error = NULL;

	if (failure != NULL)
		error = failure->lost && failure->detail != NULL ? failure->detail : failure->message;
	values[ANSWER_SHARD] = NameGetDatum(&reply->shard->name);
	nulls[ANSWER_ANSWER] = failure != NULL || reply->value == NULL;
	if (!nulls[ANSWER_ANSWER])
		values[ANSWER_ANSWER] = CStringGetTextDatum(reply->value);
	nulls[ANSWER_ERROR] = error == NULL;
	if (error != NULL)
		values[ANSWER_ERROR] = CStringGetTextDatum(error);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Each shard has a query of its own. */
static void
run_each(SlReply *replies, int count, ArrayType *sqls, const SlTxnUse *use)
{
	Datum	   *values;
	bool	   *nulls;
	int			sql_count;

	deconstruct_array(sqls, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &sql_count);
	if (sql_count != count)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("there are %d queries for %d shards", sql_count, count));
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					errmsg("query must not be NULL"));
		replies[i].sql = TextDatumGetCString(values[i]);
		if (replies[i].failure == NULL && replies[i].conn != NULL)
			sl_txn_join(replies[i].conn, use);
	}
	sl_broadcast_commands(replies, count, sl_shard_timeout);
}

static void
run_one(SlReply *replies, int count, ArrayType *sqls, ArrayType *array, const SlTxnUse *use)
{
	bool		is_null;
	int			first = 1;
	Datum		sql = array_get_element(PointerGetDatum(sqls), 1, &first, -1, -1, false, TYPALIGN_INT, &is_null);
	const char **params;
	int			param_count;

	if (is_null)
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("query must not be NULL"));
	sl_query_call_params(array, &param_count, &params);
	sl_command_run(replies, count, TextDatumGetCString(sql), param_count, params, use);
}

/*
 * shard_answers(sqls, params, shards): the first value of a query's first row on each of
 * these shards, or on all, those that are offline included.  There is one query for all,
 * or one for each of the shards, without parameters.
 */
Datum
shardlet_shard_answers(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ArrayType  *sqls;
	SlTxnUse	use = {.needs_savepoint = true};
	int			count;
	List	   *shards;
	SlReply    *replies;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("query must not be NULL"));
	sqls = PG_GETARG_ARRAYTYPE_P(0);
	shards = PG_ARGISNULL(2) ? sl_shard_all() : sl_map_listed_shards(PG_GETARG_ARRAYTYPE_P(2));
	replies = sl_broadcast_make(shards, true, &count);
	sl_snapshot_begin(shards);
	sl_command_open(replies, count);
	if (ArrayGetNItems(ARR_NDIM(sqls), ARR_DIMS(sqls)) == 1)
		run_one(replies, count, sqls, PG_ARGISNULL(1) ? NULL : PG_GETARG_ARRAYTYPE_P(1), &use);
	else
		run_each(replies, count, sqls, &use);
	for (int i = 0; i < count; i++)
	{
		sl_command_settle(&replies[i]);
		put_answer(result, &replies[i]);
	}
	return (Datum) 0;
}
