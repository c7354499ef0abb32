/*
 * pipeline.c
 *		Sends statements to a shard through libpq's pipeline, and reads results.
 *
 * Statements are added to libpq's pipeline one after the other; a sync ends the
 * transaction unless there is an explicit one.  The connection has a queue of what
 * was sent, and sl_pipeline_next() returns what has arrived, in that order,
 * without waiting.  After a failure the shard skips everything up to the next
 * sync; those results are ignored.
 *
 * Statements that return rows are prepared first, once on each connection, so
 * that their columns are known before they run: these decide between binary and
 * text form, and whether all shards agree.  If there are many, the least recently
 * used one is deallocated.
 *
 * libpq does not support COPY in a pipeline.  So a COPY needs an idle connection,
 * which leaves pipeline mode and enters it again after the last result of the
 * COPY.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "compat.h"
#include "connection/connection.h"
#include "metadata/table.h"

/* Maximum number of prepared statements on a connection. */
#define MAX_PREPARED 128

/* Incremented when prepared statements of all connections may be out of date. */
static uint64 invalidations = 0;

/* A prepared statement is valid as long as this does not change. */
static uint64
get_current_epoch(void)
{
	return invalidations + sl_table_changes();
}

/* Raises an error after libpq could not send something. */
void
sl_pipeline_fail_to_send(SlConn *conn)
{
	sl_failure_raise(sl_failure_unreachable(conn->shard, PQerrorMessage(conn->pg)),
					 conn->shard, NULL);
}

/*
 * Prepares for the result of what is now the head of the queue.  libpq's row mode
 * must be set when a statement becomes the current one, before any of its results
 * is read.
 */
static void
begin_head(SlConn *conn)
{
	conn->queue.answer = SL_ANSWER_NONE;
	conn->queue.row_count = 0;
	conn->queue.has_row_tag = false;
	if (conn->queue.count > 0 && conn->queue.items[conn->queue.head].what == SL_EXPECT_ROWS)
		(void) sl_stream_rows(conn->pg);
}

static void
grow_ring(SlConn *conn)
{
	int			size = Max(16, conn->queue.size * 2);
	SlExpected *ring = MemoryContextAlloc(conn->context, sizeof(SlExpected) * size);

	for (int i = 0; i < conn->queue.count; i++)
		ring[i] = conn->queue.items[(conn->queue.head + i) % conn->queue.size];
	if (conn->queue.items != NULL)
		pfree(conn->queue.items);
	conn->queue.items = ring;
	conn->queue.size = size;
	conn->queue.head = 0;
}

/* Adds to the queue. */
static void
expect_statement(SlConn *conn, SlExpect what, uint64 hash)
{
	SlExpected *expected;

	if (conn->queue.count == conn->queue.size)
		grow_ring(conn);
	expected = &conn->queue.items[(conn->queue.head + conn->queue.count) % conn->queue.size];
	expected->what = what;
	expected->hash = hash;
	conn->queue.count++;
	if (conn->queue.count == 1)
		begin_head(conn);
	if (conn->slot != NULL)
		conn->slot->is_active = true;
}

/* Adds to the queue what was just sent. */
void
sl_pipeline_expect(SlConn *conn, SlExpect what)
{
	expect_statement(conn, what, 0);
}

/* Removes the head of the queue. */
static void
remove_head(SlConn *conn)
{
	conn->queue.head = (conn->queue.head + 1) % conn->queue.size;
	conn->queue.count--;
	begin_head(conn);
	if (conn->slot != NULL && conn->queue.count == 0)
		conn->slot->is_active = false;
}

bool
sl_pipeline_is_empty(const SlConn *conn)
{
	return conn->queue.count == 0;
}

/* Sends a command whose result is only checked for success. */
void
sl_pipeline_send_preceding(SlConn *conn, const char *sql, int param_count, const char *const *params)
{
	if (!PQsendQueryParams(conn->pg, sql, param_count, NULL, params, NULL, NULL, 0))
		sl_pipeline_fail_to_send(conn);
	sl_pipeline_expect(conn, SL_EXPECT_PRECEDING);
}

/* Sends a statement, unprepared; its rows, if any, are sent as text. */
void
sl_pipeline_query(SlConn *conn, const char *sql, int param_count, const char *const *params)
{
	if (!PQsendQueryParams(conn->pg, sql, param_count, NULL, params, NULL, NULL, 0))
		sl_pipeline_fail_to_send(conn);
	sl_pipeline_expect(conn, SL_EXPECT_ROWS);
}

/* The same with parameters and rows in text or binary form. */
void
sl_pipeline_send_query(SlConn *conn, const char *sql, const SlParams *params, bool binary)
{
	if (!PQsendQueryParams(conn->pg, sql, params->count, params->types, params->values,
						   params->lengths, params->formats, binary ? 1 : 0))
		sl_pipeline_fail_to_send(conn);
	sl_pipeline_expect(conn, SL_EXPECT_ROWS);
}

/* Sends a sync, which ends an implicit transaction.  Returns false on failure. */
bool
sl_pipeline_try_sync(SlConn *conn)
{
	if (!PQpipelineSync(conn->pg))
		return false;
	sl_pipeline_expect(conn, SL_EXPECT_SYNC);
	return true;
}

void
sl_pipeline_sync(SlConn *conn)
{
	if (!sl_pipeline_try_sync(conn))
		sl_pipeline_fail_to_send(conn);
}

/* The same after settings, which are in effect when its result arrives. */
void
sl_pipeline_sync_settings(SlConn *conn)
{
	if (!PQpipelineSync(conn->pg))
		sl_pipeline_fail_to_send(conn);
	sl_pipeline_expect(conn, SL_EXPECT_SETTINGS);
}

/* Sends a command, outside of a transaction, whose failure is ignored. */
void
sl_pipeline_attempt(SlConn *conn, const char *sql)
{
	if (!PQsendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, 0))
		sl_pipeline_fail_to_send(conn);
	sl_pipeline_expect(conn, SL_EXPECT_DEALLOCATE);
	sl_pipeline_sync(conn);
}

/*
 * Sends a command and a sync.  If the caller does not read its result, the command
 * counts as one that precedes the next statement.  Returns false on failure.
 */
bool
sl_pipeline_command(SlConn *conn, const char *sql, bool is_looked_at)
{
	if (!PQsendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, 0))
		return false;
	sl_pipeline_expect(conn, is_looked_at ? SL_EXPECT_ROWS : SL_EXPECT_PRECEDING);
	if (!PQpipelineSync(conn->pg))
		return false;
	sl_pipeline_expect(conn, SL_EXPECT_SYNC);
	if (!is_looked_at && conn->slot != NULL)
		conn->slot->is_active = false;
	return true;
}

/*
 * Starts a COPY FROM STDIN on an idle connection.  SL_EVENT_COPY tells that the
 * shard is ready for data; until the end nothing else can be sent.
 */
void
sl_pipeline_start_copy(SlConn *conn, const char *sql)
{
	Assert(sl_pipeline_is_empty(conn));
	if (!PQexitPipelineMode(conn->pg) || !PQsendQuery(conn->pg, sql))
		sl_pipeline_fail_to_send(conn);
	sl_pipeline_expect(conn, SL_EXPECT_COPY);
}

/*
 * Passes data of a COPY to libpq, which buffers what it cannot send at once.
 * Returns true if everything was sent.
 */
bool
sl_pipeline_put_copy(SlConn *conn, const char *data, int length)
{
	if (PQputCopyData(conn->pg, data, length) <= 0)
		sl_pipeline_fail_to_send(conn);
	return PQflush(conn->pg) <= 0;
}

/*
 * Ends the data of a COPY; with an error message, makes it fail.  Returns false if
 * that cannot be sent.
 */
bool
sl_pipeline_end_copy(SlConn *conn, const char *error)
{
	conn->queue.answer = SL_ANSWER_DATA_SENT;
	return PQputCopyEnd(conn->pg, error) > 0 && PQflush(conn->pg) >= 0;
}

static void
make_prepared_table(SlConn *conn)
{
	HASHCTL		control = {0};

	control.keysize = sizeof(uint64);
	control.entrysize = sizeof(SlPrepared);
	control.hcxt = conn->context;
	conn->to_deallocate = NIL;
	conn->prepared = hash_create("shardlet prepared statements", 32, &control,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Returns the number of types up to the last one that is not 0. */
static int
count_types(const SlParams *params)
{
	int			count = params->types != NULL ? params->count : 0;

	while (count > 0 && !OidIsValid(params->types[count - 1]))
		count--;
	return count;
}

static uint64
hash_statement(const char *sql, const SlParams *params)
{
	int			count = count_types(params);
	uint64		seed = count == 0 ? 0 :
	DatumGetUInt64(hash_any_extended((const unsigned char *) params->types,
									 (int) (sizeof(Oid) * count), 0));

	return DatumGetUInt64(hash_any_extended((const unsigned char *) sql, (int) strlen(sql), seed));
}

/* Is this the prepared statement with that query string and those types? */
static bool
is_same_statement(const SlPrepared *prepared, const char *sql, const SlParams *params)
{
	int			count = count_types(params);

	return strcmp(prepared->sql, sql) == 0 && prepared->type_count == count &&
		(count == 0 || memcmp(prepared->param_types, params->types, sizeof(Oid) * count) == 0);
}

/*
 * Was a statement prepared longer ago than that, or with other settings, or before
 * tables changed?  The shard would detect a changed result, too, but with an error
 * that aborts its transaction.
 */
bool
sl_pipeline_is_old(const SlConn *conn, const SlPrepared *prepared, int lifetime_ms)
{
	return prepared->epoch != get_current_epoch() || prepared->setting_changes != conn->setting_changes ||
		(lifetime_ms > 0 &&
		 TimestampDifferenceExceeds(prepared->since, GetCurrentStatementStartTimestamp(),
									lifetime_ms));
}

/* A command that may change tables is about to be sent. */
void
sl_pipeline_invalidate(void)
{
	invalidations++;
}

/*
 * Returns the prepared statement with that query string and these parameter types,
 * or NULL if there is none whose columns are known.
 */
SlPrepared *
sl_pipeline_find(SlConn *conn, const char *sql, const SlParams *params)
{
	uint64		hash = hash_statement(sql, params);
	SlPrepared *prepared;

	if (conn->prepared == NULL)
		return NULL;
	prepared = hash_search(conn->prepared, &hash, HASH_FIND, NULL);
	if (prepared == NULL || !prepared->is_described || !is_same_statement(prepared, sql, params))
		return NULL;
	prepared->last_use = ++conn->prepare_counter;
	return prepared;
}

static char **
copy_strings(char **strings, int count)
{
	char	  **copy = palloc0(sizeof(char *) * Max(count, 1));

	for (int i = 0; i < count; i++)
		copy[i] = strings[i] != NULL ? pstrdup(strings[i]) : NULL;
	return copy;
}

/*
 * Copies a described statement into the current memory context.  The original may
 * go with the next statement on the connection.
 */
SlPrepared *
sl_pipeline_copy(const SlPrepared *prepared)
{
	SlPrepared *copy = palloc(sizeof(SlPrepared));
	int			count = prepared->column_count;

	*copy = *prepared;
	copy->sql = NULL;
	copy->param_types = NULL;
	copy->row_decoder = NULL;
	copy->types = palloc(sizeof(Oid) * Max(count, 1));
	copy->typmods = palloc(sizeof(int) * Max(count, 1));
	for (int i = 0; i < count; i++)
	{
		copy->types[i] = prepared->types[i];
		copy->typmods[i] = prepared->typmods[i];
	}
	copy->names = copy_strings(prepared->names, count);
	copy->answers = copy_strings(prepared->answers, prepared->answer_count);
	return copy;
}

/* Stores a row with facts about a statement, as strings, in that context. */
void
sl_pipeline_keep_results(SlPrepared *prepared, const PGresult *result, MemoryContext context)
{
	int			count = PQnfields(result);
	MemoryContext old_context = MemoryContextSwitchTo(context);

	prepared->answers = palloc0(sizeof(char *) * Max(count, 1));
	for (int i = 0; i < count; i++)
		prepared->answers[i] = PQgetisnull(result, 0, i) ? NULL : pstrdup(PQgetvalue(result, 0, i));
	prepared->answer_count = count;
	MemoryContextSwitchTo(old_context);
}

static void
free_strings(char **strings, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (strings[i] != NULL)
			pfree(strings[i]);
	}
	pfree(strings);
}

static void
free_description(SlPrepared *prepared)
{
	if (prepared->is_described)
	{
		free_strings(prepared->names, prepared->column_count);
		pfree(prepared->types);
		pfree(prepared->typmods);
	}
	if (prepared->answer_count >= 0)
		free_strings(prepared->answers, prepared->answer_count);
	prepared->is_described = false;
	prepared->answer_count = -1;
}

static void
remove_prepared(SlConn *conn, SlPrepared *prepared)
{
	free_description(prepared);
	if (prepared->row_decoder != NULL)
		MemoryContextDelete(prepared->row_decoder_context);
	conn->forgotten++;
	pfree(prepared->sql);
	if (prepared->param_types != NULL)
		pfree(prepared->param_types);
	hash_search(conn->prepared, &prepared->hash, HASH_REMOVE, NULL);
}

/*
 * Deallocates discarded statements on the shard.  Not in a transaction: the shard
 * may have lost them, as when a pooler resets the session, and then DEALLOCATE
 * fails.
 */
static void
send_deallocates(SlConn *conn)
{
	if (conn->txn.level > 0 || PQtransactionStatus(conn->pg) == PQTRANS_INERROR)
		return;
	while (conn->to_deallocate != NIL)
	{
		char	   *name = linitial(conn->to_deallocate);
		char		sql[64];

		snprintf(sql, sizeof(sql), "DEALLOCATE %s", name);
		sl_pipeline_attempt(conn, sql);
		conn->to_deallocate = list_delete_first(conn->to_deallocate);
		pfree(name);
	}
}

/* Discards a prepared statement; the shard deallocates it as soon as possible. */
void
sl_pipeline_discard_statement(SlConn *conn, SlPrepared *prepared)
{
	MemoryContext old_context = MemoryContextSwitchTo(conn->context);

	conn->to_deallocate = lappend(conn->to_deallocate, pstrdup(prepared->name));
	MemoryContextSwitchTo(old_context);
	remove_prepared(conn, prepared);
	send_deallocates(conn);
}

/* Discards all prepared statements, after the shard has lost them. */
void
sl_pipeline_discard_all(SlConn *conn)
{
	HASH_SEQ_STATUS status;
	SlPrepared *prepared;

	list_free_deep(conn->to_deallocate);
	conn->to_deallocate = NIL;
	sl_prepared_discard(conn);
	if (conn->prepared == NULL)
		return;
	hash_seq_init(&status, conn->prepared);
	while ((prepared = hash_seq_search(&status)) != NULL)
		remove_prepared(conn, prepared);
}

static void
discard_least_recently_used(SlConn *conn)
{
	HASH_SEQ_STATUS status;
	SlPrepared *prepared;
	SlPrepared *oldest = NULL;

	hash_seq_init(&status, conn->prepared);
	while ((prepared = hash_seq_search(&status)) != NULL)
	{
		if (prepared->is_described &&
			(oldest == NULL || prepared->last_use < oldest->last_use))
			oldest = prepared;
	}
	if (oldest != NULL)
		sl_pipeline_discard_statement(conn, oldest);
}

static char *
copy_name(const char *name)
{
	return pstrdup(sl_encoding_is_valid(name, (int) strlen(name)) ? name : "?");
}

static void
copy_description(SlConn *conn, SlPrepared *prepared, const PGresult *result)
{
	MemoryContext old_context = MemoryContextSwitchTo(conn->context);
	int			count = PQnfields(result);

	prepared->types = palloc(sizeof(Oid) * Max(count, 1));
	prepared->typmods = palloc(sizeof(int) * Max(count, 1));
	prepared->names = palloc(sizeof(char *) * Max(count, 1));
	for (int i = 0; i < count; i++)
	{
		prepared->types[i] = PQftype(result, i);
		prepared->typmods[i] = PQfmod(result, i);
		prepared->names[i] = copy_name(PQfname(result, i));
	}
	prepared->column_count = count;
	prepared->is_described = true;
	MemoryContextSwitchTo(old_context);
}

static void
copy_param_types(SlConn *conn, SlPrepared *prepared, const SlParams *params)
{
	prepared->type_count = count_types(params);
	if (prepared->type_count == 0)
		return;
	prepared->param_types = MemoryContextAlloc(conn->context, sizeof(Oid) * prepared->type_count);
	memcpy(prepared->param_types, params->types, sizeof(Oid) * prepared->type_count);
}

/*
 * Sends a statement to be prepared and described.  Parameter types that the shard
 * is to infer are 0.  The columns of the result are known after
 * SL_EVENT_DESCRIBED.  The mark, or "", is appended to the query string; two
 * statements never differ only in their marks.
 */
SlPrepared *
sl_pipeline_prepare(SlConn *conn, const char *sql, const SlParams *params, const char *mark)
{
	const char *sent = mark[0] != '\0' ? psprintf("%s%s", sql, mark) : sql;
	uint64		hash = hash_statement(sql, params);
	SlPrepared *prepared;
	bool		found;

	if (conn->prepared == NULL)
		make_prepared_table(conn);
	if (hash_get_num_entries(conn->prepared) >= MAX_PREPARED)
		discard_least_recently_used(conn);
	send_deallocates(conn);
	prepared = hash_search(conn->prepared, &hash, HASH_ENTER, &found);
	if (found)
	{
		/* Another statement with this hash, or one that was not described. */
		sl_pipeline_discard_statement(conn, prepared);
		prepared = hash_search(conn->prepared, &hash, HASH_ENTER, &found);
	}
	memset((char *) prepared + sizeof(uint64), 0, sizeof(SlPrepared) - sizeof(uint64));
	prepared->answer_count = -1;
	prepared->sql = MemoryContextStrdup(conn->context, sql);
	copy_param_types(conn, prepared, params);
	prepared->since = GetCurrentStatementStartTimestamp();
	prepared->epoch = get_current_epoch();
	prepared->setting_changes = conn->setting_changes;
	prepared->last_use = ++conn->prepare_counter;
	snprintf(prepared->name, sizeof(prepared->name), "shardlet_%llu",
			 (unsigned long long) conn->prepare_counter);
	prepared->is_marked = strcmp(mark, SL_AUTOCOMMIT_MARK) == 0;
	if (!PQsendPrepare(conn->pg, prepared->name, sent, prepared->type_count,
					   prepared->param_types))
	{
		remove_prepared(conn, prepared);
		sl_pipeline_fail_to_send(conn);
	}
	expect_statement(conn, SL_EXPECT_PREPARE, hash);
	if (!PQsendDescribePrepared(conn->pg, prepared->name))
		sl_pipeline_fail_to_send(conn);
	expect_statement(conn, SL_EXPECT_DESCRIBE, hash);
	sl_pipeline_sync(conn);
	return prepared;
}

/*
 * Sends a prepared statement to be executed.  Rows that are streamed cost libpq a
 * PGresult each, or each chunk of them; few rows come in one.
 */
void
sl_pipeline_execute(SlConn *conn, SlPrepared *prepared, const SlParams *params, bool binary,
					bool has_few_rows)
{
	if (!PQsendQueryPrepared(conn->pg, prepared->name, params->count, params->values,
							 params->lengths, params->formats, binary ? 1 : 0))
		sl_pipeline_fail_to_send(conn);
	sl_pipeline_expect(conn, has_few_rows ? SL_EXPECT_FEW_ROWS : SL_EXPECT_ROWS);
}

/* Returns the statement whose description is the head of the queue. */
static SlPrepared *
get_undescribed(SlConn *conn)
{
	SlPrepared *prepared = hash_search(conn->prepared,
									   &conn->queue.items[conn->queue.head].hash, HASH_FIND, NULL);

	if (prepared == NULL || prepared->is_described)
		elog(ERROR, "shard \"%s\" described an unknown statement", conn->shard);
	return prepared;
}

/* Handles the end of the head's results, for which libpq returns NULL. */
static SlEvent
handle_end(SlConn *conn, SlExpect head, SlFailure **failure, bool *again)
{
	if (head == SL_EXPECT_COPY && !PQenterPipelineMode(conn->pg))
	{
		*failure = sl_failure_unreachable(conn->shard, PQerrorMessage(conn->pg));
		return SL_EVENT_FAILED;
	}
	*again = true;

	/* A commit failed, which was reported; the result of its sync follows. */
	if (head == SL_EXPECT_SYNC || head == SL_EXPECT_SETTINGS)
		conn->queue.answer = SL_ANSWER_NONE;
	else
		remove_head(conn);
	return SL_EVENT_NONE;
}

static SlEvent
handle_success(SlConn *conn, SlExpect head, PGresult **result, bool *again)
{
	switch (head)
	{
		case SL_EXPECT_ROWS:
		case SL_EXPECT_FEW_ROWS:
		case SL_EXPECT_COPY:
			return SL_EVENT_DONE;
		case SL_EXPECT_MARK:
			PQclear(*result);
			*result = NULL;
			return SL_EVENT_MARK;
		case SL_EXPECT_DESCRIBE:
			copy_description(conn, get_undescribed(conn), *result);
			PQclear(*result);
			*result = NULL;
			return SL_EVENT_DESCRIBED;
		default:
			if (head == SL_EXPECT_XID)
				strlcpy(conn->txn.xid, sl_remote_value(*result, 0, 0), sizeof(conn->txn.xid));
			PQclear(*result);
			*result = NULL;
			*again = true;
			return SL_EVENT_NONE;
	}
}

static SlEvent
handle_error(SlConn *conn, SlExpect head, PGresult *result, SlFailure **failure, bool *again)
{
	ExecStatusType status = PQresultStatus(result);

	/* It may be the prepared BEGIN, which the shard may have lost. */
	if (head == SL_EXPECT_PRECEDING)
		sl_prepared_discard(conn);

	/* Skipped after an earlier failure, which was reported. */
	if (status == PGRES_PIPELINE_ABORTED || head == SL_EXPECT_DEALLOCATE)
	{
		PQclear(result);
		*again = true;
		return SL_EVENT_NONE;
	}
	*failure = sl_failure_make(conn, result);
	if (head == SL_EXPECT_ROWS || head == SL_EXPECT_FEW_ROWS || head == SL_EXPECT_COPY ||
		head == SL_EXPECT_SYNC)
		(*failure)->never_ran = false;
	if (head == SL_EXPECT_PREPARE || head == SL_EXPECT_DESCRIBE)
		remove_prepared(conn, get_undescribed(conn));
	if (head == SL_EXPECT_PRECEDING)
		conn->has_settings = false;
	PQclear(result);
	return SL_EVENT_FAILED;
}

/* Handles one result of libpq.  Sets *again if there is no event to return. */
static SlEvent
handle_result(SlConn *conn, PGresult *taken, PGresult **result, SlFailure **failure, bool *again)
{
	SlExpect	head = conn->queue.items[conn->queue.head].what;
	const char *wrong;
	ExecStatusType status;

	*again = false;
	if (taken == NULL && conn->queue.answer == SL_ANSWER_NONE)
	{
		/* There is no result for it: the connection is lost. */
		*failure = sl_failure_unreachable(conn->shard, PQerrorMessage(conn->pg));
		return SL_EVENT_FAILED;
	}
	wrong = taken != NULL ? sl_protocol_check(conn, head, taken) : sl_protocol_check_end(conn);
	if (wrong != NULL)
	{
		PQclear(taken);
		*failure = sl_failure_violation(conn->shard, wrong);
		return SL_EVENT_FAILED;
	}
	if (taken == NULL)
		return handle_end(conn, head, failure, again);
	status = PQresultStatus(taken);
	if (status == PGRES_PIPELINE_SYNC)
	{
		PQclear(taken);
		if (head == SL_EXPECT_SETTINGS && conn->has_settings)
			sl_session_note(conn);
		remove_head(conn);
		*again = true;
		return SL_EVENT_NONE;
	}
	if (sl_is_part_of_rows(status))
	{
		*result = taken;
		return SL_EVENT_ROWS;
	}
	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY)
	{
		*result = taken;
		return handle_success(conn, head, result, again);
	}
	if (status == PGRES_COPY_IN && head == SL_EXPECT_COPY)
	{
		PQclear(taken);
		return SL_EVENT_COPY;
	}
	if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH)
	{
		/* The only way out of COPY in a pipeline is to close the connection. */
		PQclear(taken);
		*failure = sl_failure_unreachable(conn->shard, "COPY cannot be run this way.");
		(*failure)->sqlstate = ERRCODE_FEATURE_NOT_SUPPORTED;
		(*failure)->message = "COPY from or to the client cannot be run on shards this way";
		(*failure)->detail = NULL;
		sl_conn_close(conn);
		return SL_EVENT_FAILED;
	}
	return handle_error(conn, head, taken, failure, again);
}

/*
 * Returns the next event.  SL_EVENT_NONE: nothing has arrived; wait until the
 * socket is ready (see sl_conn_wants()), and call again.  The caller frees
 * *result.  A lost connection is a failure, and is closed.
 */
SlEvent
sl_pipeline_next(SlConn *conn, PGresult **result, SlFailure **failure)
{
	SlEvent		event = SL_EVENT_NONE;
	bool		again = true;

	*result = NULL;
	*failure = NULL;

	/* This can raise an error, so it precedes everything that must be freed. */
	if (conn->notices.queued != NIL)
		sl_notice_report(conn);
	while (again)
	{
		if (conn->queue.count == 0)
		{
			event = SL_EVENT_IDLE;
			break;
		}
		if (PQisBusy(conn->pg))
		{
			event = SL_EVENT_NONE;
			break;
		}
		event = handle_result(conn, PQgetResult(conn->pg), result, failure, &again);
	}
	if (event == SL_EVENT_IDLE && conn->notices.queued != NIL)
		sl_notice_report(conn);
	if (event == SL_EVENT_FAILED && (*failure)->lost)
		sl_conn_close(conn);
	return event;
}
