/*
 * protocol_check.c
 *		Checks that a shard follows the frontend/backend protocol.
 *
 * libpq checks the format of messages, but not whether they fit what was sent: a
 * surplus ReadyForQuery or RowDescription, or a missing CommandComplete, assigns
 * all further results to the wrong statements.  So each result is compared with
 * what the head of the connection's queue (pipeline.c) can result in, rows are
 * counted and compared with the number in the command tag, and columns are
 * compared with those that were described.
 *
 * A connection that fails one of these checks is closed, and the error, 08P01,
 * names the shard.  The contents of correct messages are not checked.
 */
#include "postgres.h"

#include "connection/connection.h"

#define DETAIL_OUT_OF_PLACE "A result came where none was due."
#define DETAIL_INCOMPLETE "The result of a statement is missing."
#define DETAIL_ROWS "The number of rows differs from the one in the command's tag."
#define DETAIL_FORM "The result is not of the kind that was asked for."

/* For a command tag without a number of rows, such as EXPLAIN. */
#define NO_COUNT PG_UINT64_MAX

/* Stores the number of rows in the command tag, if this result has one. */
static void
take_tag(SlConn *conn, PGresult *result)
{
	const char *count;

	if (PQcmdStatus(result)[0] == '\0')
		return;
	count = PQcmdTuples(result);
	conn->queue.has_row_tag = true;
	conn->queue.row_tag = count[0] != '\0' ? strtoull(count, NULL, 10) : NO_COUNT;
}

/* Does the number in the command tag differ from the number of rows? */
static bool
has_other_count(const SlConn *conn, const PGresult *result)
{
	return conn->queue.has_row_tag && conn->queue.row_tag != NO_COUNT &&
		conn->queue.row_tag != conn->queue.row_count + (uint64) PQntuples(result);
}

/* Is it a transaction id, as the only value of the only row? */
static bool
is_xid(const PGresult *result)
{
	const char *value = sl_remote_value(result, 0, 0);

	return PQntuples(result) == 1 && PQnfields(result) == 1 && value != NULL && value[0] != '\0' &&
		strspn(value, "0123456789") == strlen(value) &&
		strlen(value) < sizeof(((SlConnTxn *) NULL)->xid);
}

/* Can this be the last result for such a head of the queue? */
static bool
is_possible_end(const SlConn *conn, SlExpect head, const PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	switch (head)
	{
		case SL_EXPECT_PRECEDING:
		case SL_EXPECT_DEALLOCATE:
			return true;
		case SL_EXPECT_ROWS:
		case SL_EXPECT_FEW_ROWS:
			if (!conn->queue.has_row_tag && status != PGRES_EMPTY_QUERY)
				return false;
			return status == PGRES_TUPLES_OK || conn->queue.answer == SL_ANSWER_NONE;
		case SL_EXPECT_PREPARE:
		case SL_EXPECT_DESCRIBE:
			return status == PGRES_COMMAND_OK;
		case SL_EXPECT_MARK:
			return status == PGRES_TUPLES_OK;
		case SL_EXPECT_XID:
			return status == PGRES_TUPLES_OK && is_xid(result);
		case SL_EXPECT_COPY:
			return status == PGRES_COMMAND_OK && conn->queue.answer == SL_ANSWER_DATA_SENT;
		case SL_EXPECT_SYNC:
		case SL_EXPECT_SETTINGS:
			break;
	}
	return false;
}

static const char *
check_end(SlConn *conn, SlExpect head, PGresult *result)
{
	if (conn->queue.answer == SL_ANSWER_COMPLETE || head == SL_EXPECT_SYNC || head == SL_EXPECT_SETTINGS)
		return DETAIL_OUT_OF_PLACE;
	take_tag(conn, result);
	if (!is_possible_end(conn, head, result))
		return DETAIL_FORM;
	if (PQresultStatus(result) == PGRES_TUPLES_OK && has_other_count(conn, result))
		return DETAIL_ROWS;
	conn->queue.answer = SL_ANSWER_COMPLETE;
	return NULL;
}

static const char *
check_rows(SlConn *conn, SlExpect head, PGresult *result)
{
	if (head != SL_EXPECT_ROWS || conn->queue.answer == SL_ANSWER_COMPLETE)
		return DETAIL_OUT_OF_PLACE;
	conn->queue.answer = SL_ANSWER_BEGUN;
	conn->queue.row_count += (uint64) PQntuples(result);
	take_tag(conn, result);
	return NULL;
}

static const char *
check_sync(const SlConn *conn, SlExpect head)
{
	if (head != SL_EXPECT_SYNC && head != SL_EXPECT_SETTINGS)
		return DETAIL_INCOMPLETE;
	if (PQtransactionStatus(conn->pg) == PQTRANS_UNKNOWN)
		return "The state of the transaction is an unknown one.";
	return NULL;
}

/*
 * Checks a result for the head of the queue.  Returns NULL, or what is wrong with
 * it.
 */
const char *
sl_protocol_check(SlConn *conn, SlExpect head, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	/* Fast path: this is called for every row. */
	if (status == PGRES_SINGLE_TUPLE && head == SL_EXPECT_ROWS && conn->queue.answer != SL_ANSWER_COMPLETE)
	{
		conn->queue.answer = SL_ANSWER_BEGUN;
		conn->queue.row_count++;
		return NULL;
	}
	if (sl_is_part_of_rows(status))
		return check_rows(conn, head, result);
	switch (status)
	{
		case PGRES_PIPELINE_SYNC:
			return check_sync(conn, head);
		case PGRES_COMMAND_OK:
		case PGRES_TUPLES_OK:
		case PGRES_EMPTY_QUERY:
			return check_end(conn, head, result);
		case PGRES_COPY_IN:
		case PGRES_COPY_OUT:
		case PGRES_COPY_BOTH:
			/* PQgetResult() returns this until the end of the data was sent. */
			if (head == SL_EXPECT_COPY &&
				(status != PGRES_COPY_IN || conn->queue.answer >= SL_ANSWER_DATA_SENT))
				return DETAIL_OUT_OF_PLACE;
			conn->queue.answer = SL_ANSWER_BEGUN;
			return NULL;
		default:

			/* An error, or skipped because of one. */
			conn->queue.answer = SL_ANSWER_COMPLETE;
			return NULL;
	}
}

/* The same when libpq has returned the last result for the head. */
const char *
sl_protocol_check_end(const SlConn *conn)
{
	return conn->queue.answer == SL_ANSWER_COMPLETE ? NULL : DETAIL_INCOMPLETE;
}

/* Does a result have the columns that were described, in the requested format? */
bool
sl_protocol_has_columns(const PGresult *result, const SlPrepared *prepared, bool binary)
{
	if (PQnfields(result) != prepared->column_count)
		return false;
	for (int i = 0; i < prepared->column_count; i++)
	{
		if (PQftype(result, i) != prepared->types[i] || PQfformat(result, i) != (binary ? 1 : 0))
			return false;
	}
	return true;
}

/* Closes a connection after a protocol violation, and returns the failure. */
SlFailure *
sl_protocol_break_off(SlConn *conn, const char *detail)
{
	SlFailure  *failure = sl_failure_violation(conn->shard, detail);

	sl_conn_close(conn);
	return failure;
}

/* The same if a value of a result in text form is not valid; otherwise NULL. */
SlFailure *
sl_protocol_check_text(SlConn *conn, const PGresult *result)
{
	return sl_encoding_result_is_valid(result) ? NULL :
		sl_protocol_break_off(conn, "A value is not valid in the encoding of the router's database.");
}

/* Raises an error: a result lacks a value that it must have. */
void
sl_protocol_refuse_null(SlConn *conn)
{
	sl_failure_raise(sl_protocol_break_off(conn, "A value of its answer is missing."), conn->shard,
					 NULL);
}

/* Returns a value that the result must have.  Otherwise raises an error. */
const char *
sl_protocol_value(SlConn *conn, const PGresult *result, int row, int column)
{
	const char *value = result != NULL ? sl_remote_value(result, row, column) : NULL;

	if (value == NULL)
		sl_protocol_refuse_null(conn);
	return value;
}

/* Returns a value as a number.  Raises an error if it is NULL. */
int64
sl_protocol_count(SlConn *conn, const char *value)
{
	if (value == NULL)
		sl_protocol_refuse_null(conn);
	return strtoll(value, NULL, 10);
}
