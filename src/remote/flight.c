/*
 * flight.c
 *		What is on its way to a shard, and what comes back.
 *
 * Statements are put into libpq's pipeline one after the other; a sync ends
 * what is one transaction unless there is an explicit one.  The connection
 * keeps the list of what was sent, and sl_flight_next() takes in what has
 * arrived, in that order, without waiting.  After a failure the shard skips
 * everything up to the next sync; those answers are passed over.
 *
 * Statements that return rows are prepared first, once for each connection, so
 * that their columns are known before they run: that decides between binary and
 * text, and whether all shards agree.  The oldest ones are forgotten when there
 * are many.
 *
 * libpq has no COPY in a pipeline.  So COPY starts on a connection of which
 * everything was answered, which leaves pipeline mode for it and is back in it
 * when the last answer has been taken in.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "compat.h"
#include "map/table.h"
#include "remote/remote.h"

/* So many prepared statements are kept on a connection. */
#define MAX_PREPARED 128

/* Raised when prepared statements of all connections may be out of date. */
static uint64 distrusts = 0;

/* What is prepared now is good as long as this stays. */
static uint64
current_epoch(void)
{
	return distrusts + sl_table_changes();
}

void
sl_flight_fail_to_send(SlConn *conn)
{
	sl_failure_raise(sl_failure_unreachable(conn->shard, pchomp(PQerrorMessage(conn->pg))),
					 conn->shard, NULL);
}

/*
 * libpq wants to be told how rows shall come when a statement's turn comes,
 * before anything of its answer was looked at.
 */
static void
begin_head(SlConn *conn)
{
	conn->in_result = false;
	if (conn->expected_count > 0 && conn->expected[conn->expected_head].what == SL_EXPECT_ROWS)
		(void) sl_stream_rows(conn->pg);
}

static void
grow_ring(SlConn *conn)
{
	int			size = Max(16, conn->expected_size * 2);
	SlExpected *ring = MemoryContextAlloc(conn->context, sizeof(SlExpected) * size);

	for (int i = 0; i < conn->expected_count; i++)
		ring[i] = conn->expected[(conn->expected_head + i) % conn->expected_size];
	if (conn->expected != NULL)
		pfree(conn->expected);
	conn->expected = ring;
	conn->expected_size = size;
	conn->expected_head = 0;
}

static void
expect_statement(SlConn *conn, SlExpect what, uint64 hash)
{
	SlExpected *expected;

	if (conn->expected_count == conn->expected_size)
		grow_ring(conn);
	expected = &conn->expected[(conn->expected_head + conn->expected_count) % conn->expected_size];
	expected->what = what;
	expected->hash = hash;
	conn->expected_count++;
	if (conn->expected_count == 1)
		begin_head(conn);
	if (conn->slot != NULL)
		conn->slot->is_active = true;
}

/* Notes that an answer of this kind will come. */
void
sl_flight_expect(SlConn *conn, SlExpect what)
{
	expect_statement(conn, what, 0);
}

static void
head_is_done(SlConn *conn)
{
	conn->expected_head = (conn->expected_head + 1) % conn->expected_size;
	conn->expected_count--;
	begin_head(conn);
	if (conn->slot != NULL && conn->expected_count == 0)
		conn->slot->is_active = false;
}

bool
sl_flight_is_empty(const SlConn *conn)
{
	return conn->expected_count == 0;
}

/* Sends a command of which only success matters. */
void
sl_flight_prelude(SlConn *conn, const char *sql, int param_count, const char *const *params)
{
	if (!PQsendQueryParams(conn->pg, sql, param_count, NULL, params, NULL, NULL, 0))
		sl_flight_fail_to_send(conn);
	sl_flight_expect(conn, SL_EXPECT_PRELUDE);
}

/* Sends a statement as it is; its rows, if any, come as text. */
void
sl_flight_query(SlConn *conn, const char *sql, int param_count, const char *const *params)
{
	if (!PQsendQueryParams(conn->pg, sql, param_count, NULL, params, NULL, NULL, 0))
		sl_flight_fail_to_send(conn);
	sl_flight_expect(conn, SL_EXPECT_ROWS);
}

/* The same with parameters and rows of either form. */
void
sl_flight_ask(SlConn *conn, const char *sql, const SlParams *params, bool binary)
{
	if (!PQsendQueryParams(conn->pg, sql, params->count, params->types, params->values,
						   params->lengths, params->formats, binary ? 1 : 0))
		sl_flight_fail_to_send(conn);
	sl_flight_expect(conn, SL_EXPECT_ROWS);
}

/*
 * Sends a query that takes the transaction's snapshot, and makes the shard
 * answer it before it goes on with what follows.
 */
void
sl_flight_mark(SlConn *conn)
{
	if (!PQsendQueryParams(conn->pg, "SELECT 1", 0, NULL, NULL, NULL, NULL, 0) ||
		!PQsendFlushRequest(conn->pg))
		sl_flight_fail_to_send(conn);
	sl_flight_expect(conn, SL_EXPECT_MARK);
}

/* Ends a transaction, and makes the shard answer.  Returns false if that fails. */
bool
sl_flight_try_sync(SlConn *conn)
{
	if (!PQpipelineSync(conn->pg))
		return false;
	sl_flight_expect(conn, SL_EXPECT_SYNC);
	return true;
}

void
sl_flight_sync(SlConn *conn)
{
	if (!sl_flight_try_sync(conn))
		sl_flight_fail_to_send(conn);
}

/* The same behind settings: when it is answered, these have taken effect. */
void
sl_flight_sync_settings(SlConn *conn)
{
	if (!PQpipelineSync(conn->pg))
		sl_flight_fail_to_send(conn);
	sl_flight_expect(conn, SL_EXPECT_SETTINGS);
}

/* Sends a command, outside of a transaction, that may as well fail. */
void
sl_flight_attempt(SlConn *conn, const char *sql)
{
	if (!PQsendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, 0))
		sl_flight_fail_to_send(conn);
	sl_flight_expect(conn, SL_EXPECT_FORGET);
	sl_flight_sync(conn);
}

/*
 * Sends a command and a sync; if nobody will look at its outcome, it counts as
 * part of what comes next.  Returns false if that is not possible.
 */
bool
sl_flight_command(SlConn *conn, const char *sql, bool is_looked_at)
{
	if (!PQsendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, 0))
		return false;
	sl_flight_expect(conn, is_looked_at ? SL_EXPECT_ROWS : SL_EXPECT_PRELUDE);
	if (!PQpipelineSync(conn->pg))
		return false;
	sl_flight_expect(conn, SL_EXPECT_SYNC);
	if (!is_looked_at && conn->slot != NULL)
		conn->slot->is_active = false;
	return true;
}

/*
 * Starts a COPY FROM STDIN on a connection that is idle.  SL_EVENT_COPY tells
 * when the shard wants its data; until the end nothing else can be sent.
 */
void
sl_flight_start_copy(SlConn *conn, const char *sql)
{
	Assert(sl_flight_is_empty(conn));
	if (!PQexitPipelineMode(conn->pg) || !PQsendQuery(conn->pg, sql))
		sl_flight_fail_to_send(conn);
	sl_flight_expect(conn, SL_EXPECT_COPY);
}

/*
 * Hands data of a COPY to libpq, which keeps what it cannot send at once.
 * Returns true if everything was sent.
 */
bool
sl_flight_put_copy(SlConn *conn, const char *data, int length)
{
	if (PQputCopyData(conn->pg, data, length) <= 0)
		sl_flight_fail_to_send(conn);
	return PQflush(conn->pg) <= 0;
}

/*
 * Says that the data of a COPY are complete, or that it must fail.  Returns
 * false if that cannot be said.
 */
bool
sl_flight_end_copy(SlConn *conn, const char *error)
{
	return PQputCopyEnd(conn->pg, error) > 0 && PQflush(conn->pg) >= 0;
}

static void
make_table(SlConn *conn)
{
	HASHCTL		control = {0};

	control.keysize = sizeof(uint64);
	control.entrysize = sizeof(SlPrepared);
	control.hcxt = conn->context;
	conn->to_forget = NIL;
	conn->prepared = hash_create("shardlet prepared statements", 32, &control,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* How many types are there, up to the last one that is given? */
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

/* Is this the prepared statement with that text, and those types? */
static bool
is_statement(const SlPrepared *prepared, const char *sql, const SlParams *params)
{
	int			count = count_types(params);

	return strcmp(prepared->sql, sql) == 0 && prepared->type_count == count &&
		(count == 0 || memcmp(prepared->param_types, params->types, sizeof(Oid) * count) == 0);
}

/*
 * Was a statement prepared so long ago, or with other settings, or before tables
 * changed?  The shard would notice, too, but that ends a transaction there.
 */
bool
sl_flight_is_old(const SlConn *conn, const SlPrepared *prepared, int lifetime_ms)
{
	return prepared->epoch != current_epoch() || prepared->setting_changes != conn->setting_changes ||
		(lifetime_ms > 0 &&
		 TimestampDifferenceExceeds(prepared->since, GetCurrentStatementStartTimestamp(),
									lifetime_ms));
}

/* Such a command is about to be sent. */
void
sl_flight_distrust(void)
{
	distrusts++;
}

/*
 * Returns the prepared statement with that text, and these types of parameters,
 * if there is one whose columns are known.
 */
SlPrepared *
sl_flight_find(SlConn *conn, const char *sql, const SlParams *params)
{
	uint64		hash = hash_statement(sql, params);
	SlPrepared *prepared;

	if (conn->prepared == NULL)
		return NULL;
	prepared = hash_search(conn->prepared, &hash, HASH_FIND, NULL);
	if (prepared == NULL || !prepared->is_described || !is_statement(prepared, sql, params))
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
 * Copies a described statement into the current memory context, for whoever
 * needs its columns longer than until the next statement on the connection.
 */
SlPrepared *
sl_flight_copy(const SlPrepared *prepared)
{
	SlPrepared *copy = palloc(sizeof(SlPrepared));
	int			count = prepared->column_count;

	*copy = *prepared;
	copy->sql = NULL;
	copy->param_types = NULL;
	copy->kept = NULL;
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

/* Keeps a row that tells more about a statement. */
void
sl_flight_keep_answers(SlPrepared *prepared, const PGresult *result, MemoryContext context)
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
	if (prepared->kept != NULL)
		MemoryContextDelete(prepared->kept_context);
	conn->forgotten++;
	pfree(prepared->sql);
	if (prepared->param_types != NULL)
		pfree(prepared->param_types);
	hash_search(conn->prepared, &prepared->hash, HASH_REMOVE, NULL);
}

/*
 * Has the shard forget statements.  It may have done so by itself, as when a
 * pooler resets it: then DEALLOCATE fails, and would take a transaction along.
 */
static void
send_forgotten(SlConn *conn)
{
	if (conn->txn.level > 0 || PQtransactionStatus(conn->pg) == PQTRANS_INERROR)
		return;
	while (conn->to_forget != NIL)
	{
		char	   *name = linitial(conn->to_forget);
		char		sql[64];

		snprintf(sql, sizeof(sql), "DEALLOCATE %s", name);
		sl_flight_attempt(conn, sql);
		conn->to_forget = list_delete_first(conn->to_forget);
		pfree(name);
	}
}

/* Forgets a prepared statement, on the shard too as soon as possible. */
void
sl_flight_forget(SlConn *conn, SlPrepared *prepared)
{
	MemoryContext old_context = MemoryContextSwitchTo(conn->context);

	conn->to_forget = lappend(conn->to_forget, pstrdup(prepared->name));
	MemoryContextSwitchTo(old_context);
	remove_prepared(conn, prepared);
	send_forgotten(conn);
}

/* Forgets all that the shard has forgotten already. */
void
sl_flight_forget_all(SlConn *conn)
{
	HASH_SEQ_STATUS status;
	SlPrepared *prepared;

	list_free_deep(conn->to_forget);
	conn->to_forget = NIL;
	sl_kept_forget(conn);
	if (conn->prepared == NULL)
		return;
	hash_seq_init(&status, conn->prepared);
	while ((prepared = hash_seq_search(&status)) != NULL)
		remove_prepared(conn, prepared);
}

static void
forget_oldest(SlConn *conn)
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
		sl_flight_forget(conn, oldest);
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
		prepared->names[i] = pstrdup(PQfname(result, i));
	}
	prepared->column_count = count;
	prepared->is_described = true;
	MemoryContextSwitchTo(old_context);
}

static void
keep_types(SlConn *conn, SlPrepared *prepared, const SlParams *params)
{
	prepared->type_count = count_types(params);
	if (prepared->type_count == 0)
		return;
	prepared->param_types = MemoryContextAlloc(conn->context, sizeof(Oid) * prepared->type_count);
	memcpy(prepared->param_types, params->types, sizeof(Oid) * prepared->type_count);
}

/*
 * Sends a statement to be prepared and described.  Types of parameters that
 * the shard shall find out are 0.  The result's columns are known once
 * SL_EVENT_DESCRIBED has come for it.  The shard gets a mark behind the text, or "";
 * two statements never differ in that alone.
 */
SlPrepared *
sl_flight_prepare(SlConn *conn, const char *sql, const SlParams *params, const char *mark)
{
	const char *sent = mark[0] != '\0' ? psprintf("%s%s", sql, mark) : sql;
	uint64		hash = hash_statement(sql, params);
	SlPrepared *prepared;
	bool		found;

	if (conn->prepared == NULL)
		make_table(conn);
	if (hash_get_num_entries(conn->prepared) >= MAX_PREPARED)
		forget_oldest(conn);
	send_forgotten(conn);
	prepared = hash_search(conn->prepared, &hash, HASH_ENTER, &found);
	if (found)
	{
		/* Another text with this hash, or one that was not described. */
		sl_flight_forget(conn, prepared);
		prepared = hash_search(conn->prepared, &hash, HASH_ENTER, &found);
	}
	memset((char *) prepared + sizeof(uint64), 0, sizeof(SlPrepared) - sizeof(uint64));
	prepared->answer_count = -1;
	prepared->sql = MemoryContextStrdup(conn->context, sql);
	keep_types(conn, prepared, params);
	prepared->since = GetCurrentStatementStartTimestamp();
	prepared->epoch = current_epoch();
	prepared->setting_changes = conn->setting_changes;
	prepared->last_use = ++conn->prepare_counter;
	snprintf(prepared->name, sizeof(prepared->name), "shardlet_%llu",
			 (unsigned long long) conn->prepare_counter);
	prepared->is_marked = strcmp(mark, SL_LONE_WRITE_MARK) == 0;
	if (!PQsendPrepare(conn->pg, prepared->name, sent, prepared->type_count,
					   prepared->param_types))
	{
		remove_prepared(conn, prepared);
		sl_flight_fail_to_send(conn);
	}
	expect_statement(conn, SL_EXPECT_PREPARE, hash);
	if (!PQsendDescribePrepared(conn->pg, prepared->name))
		sl_flight_fail_to_send(conn);
	expect_statement(conn, SL_EXPECT_DESCRIBE, hash);
	sl_flight_sync(conn);
	return prepared;
}

/*
 * Sends a prepared statement to be run.  Rows that are streamed cost libpq a result
 * each, or each bunch of them; a few may as well come in one.
 */
void
sl_flight_execute(SlConn *conn, SlPrepared *prepared, const SlParams *params, bool binary,
				  bool has_few_rows)
{
	if (!PQsendQueryPrepared(conn->pg, prepared->name, params->count, params->values,
							 params->lengths, params->formats, binary ? 1 : 0))
		sl_flight_fail_to_send(conn);
	sl_flight_expect(conn, has_few_rows ? SL_EXPECT_FEW_ROWS : SL_EXPECT_ROWS);
}

/* The statement whose description has just come, or failed to. */
static SlPrepared *
undescribed(SlConn *conn)
{
	SlPrepared *prepared = hash_search(conn->prepared,
									   &conn->expected[conn->expected_head].hash, HASH_FIND, NULL);

	if (prepared == NULL || prepared->is_described)
		elog(ERROR, "shard \"%s\" described an unknown statement", conn->shard);
	return prepared;
}

/* Takes in the end of the head's results: libpq says NULL. */
static SlEvent
end_of_head(SlConn *conn, SlExpect head, SlFailure **failure, bool *again)
{
	if (head == SL_EXPECT_COPY && !PQenterPipelineMode(conn->pg))
	{
		*failure = sl_failure_unreachable(conn->shard, pchomp(PQerrorMessage(conn->pg)));
		return SL_EVENT_FAILED;
	}
	*again = true;

	/* A commit has failed, which was told; the answer to its sync comes. */
	if (head == SL_EXPECT_SYNC || head == SL_EXPECT_SETTINGS)
		conn->in_result = false;
	else
		head_is_done(conn);
	return SL_EVENT_NONE;
}

static SlEvent
good_result(SlConn *conn, SlExpect head, PGresult **result, bool *again)
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
			copy_description(conn, undescribed(conn), *result);
			PQclear(*result);
			*result = NULL;
			return SL_EVENT_DESCRIBED;
		default:
			if (head == SL_EXPECT_XID)
				strlcpy(conn->txn.xid, PQgetvalue(*result, 0, 0), sizeof(conn->txn.xid));
			PQclear(*result);
			*result = NULL;
			*again = true;
			return SL_EVENT_NONE;
	}
}

static SlEvent
bad_result(SlConn *conn, SlExpect head, PGresult *result, SlFailure **failure, bool *again)
{
	ExecStatusType status = PQresultStatus(result);

	/*
	 * It may be the BEGIN that was to be prepared, or that the shard has
	 * lost.
	 */
	if (head == SL_EXPECT_PRELUDE)
		sl_kept_forget(conn);

	/* Skipped after a failure before it, which was told. */
	if (status == PGRES_PIPELINE_ABORTED || head == SL_EXPECT_FORGET)
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
		remove_prepared(conn, undescribed(conn));
	if (head == SL_EXPECT_PRELUDE)
		conn->has_settings = false;
	PQclear(result);
	return SL_EVENT_FAILED;
}

/* Looks at one result of libpq's.  Sets *again if there is nothing to tell. */
static SlEvent
take_result(SlConn *conn, PGresult *taken, PGresult **result, SlFailure **failure, bool *again)
{
	SlExpect	head = conn->expected[conn->expected_head].what;
	ExecStatusType status;

	*again = false;
	if (taken == NULL && !conn->in_result)
	{
		/* Nothing came for it, and nothing will. */
		*failure = sl_failure_unreachable(conn->shard, pchomp(PQerrorMessage(conn->pg)));
		return SL_EVENT_FAILED;
	}
	if (taken == NULL)
		return end_of_head(conn, head, failure, again);
	status = PQresultStatus(taken);
	if (status == PGRES_PIPELINE_SYNC)
	{
		PQclear(taken);
		if (head == SL_EXPECT_SETTINGS && conn->has_settings)
			sl_session_note(conn);
		head_is_done(conn);
		*again = true;
		return SL_EVENT_NONE;
	}
	conn->in_result = true;
	if (sl_is_part_of_rows(status))
	{
		*result = taken;
		return SL_EVENT_ROWS;
	}
	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY)
	{
		*result = taken;
		return good_result(conn, head, result, again);
	}
	if (status == PGRES_COPY_IN && head == SL_EXPECT_COPY)
	{
		PQclear(taken);
		return SL_EVENT_COPY;
	}
	if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH)
	{
		/* There is no way out of COPY in a pipeline but to hang up. */
		PQclear(taken);
		*failure = sl_failure_unreachable(conn->shard, "COPY cannot be run this way.");
		(*failure)->sqlstate = ERRCODE_FEATURE_NOT_SUPPORTED;
		(*failure)->message = "COPY from or to the client cannot be run on shards this way";
		(*failure)->detail = NULL;
		sl_conn_close(conn);
		return SL_EVENT_FAILED;
	}
	return bad_result(conn, head, taken, failure, again);
}

/*
 * Tells what has come next.  SL_EVENT_NONE: nothing yet; wait until the
 * connection can be read (or written, see sl_conn_wants()), and call again.  A
 * result belongs to the caller.  When the connection is lost, that is a
 * failure, and it is closed.
 */
SlEvent
sl_flight_next(SlConn *conn, PGresult **result, SlFailure **failure)
{
	SlEvent		event = SL_EVENT_NONE;
	bool		again = true;

	*result = NULL;
	*failure = NULL;

	/* Showing can throw, so it comes while nothing is held in hand. */
	if (conn->notices != NIL)
		sl_notice_show(conn);
	while (again)
	{
		if (conn->expected_count == 0)
		{
			event = SL_EVENT_IDLE;
			break;
		}
		if (PQisBusy(conn->pg))
		{
			event = SL_EVENT_NONE;
			break;
		}
		event = take_result(conn, PQgetResult(conn->pg), result, failure, &again);
	}
	if (event == SL_EVENT_IDLE && conn->notices != NIL)
		sl_notice_show(conn);
	if (event == SL_EVENT_FAILED && (*failure)->lost)
		sl_conn_close(conn);
	return event;
}
