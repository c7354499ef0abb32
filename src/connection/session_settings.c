/*
 * session_settings.c
 *		Keeps settings that affect results the same on router and shard.
 *
 * They are compared before every statement, in PostgreSQL's internal form, which
 * costs next to nothing; if one differs, all are sent with the statement, in a
 * transaction of their own so that a failing statement does not roll them back.
 * client_encoding is the router's database encoding, whatever the client's.
 *
 * A function on the shard may change a setting of its session.  Some settings are
 * reported by the protocol: the values that the shard reported after the router's
 * settings took effect are stored, and compared as well.  Changes of the others
 * are not detected.
 *
 * The result of a statement that the router deparsed does not depend on output
 * formats, so its rows are sent in unambiguous ones: the abbreviation of a time
 * zone can be ambiguous, and digits can be missing.
 *
 * array_nulls is on for every shard, whatever it is on the router: arrays that are
 * sent as text were written for that.
 *
 * The orphaned rows that a user's query must not see
 * (executor/query_orphaned_rows.c) are sent in the same way, so that the filter
 * never applies to another statement.  It does not depend on transactions of the
 * shard, so a connection that has got one is sent one each time.
 *
 * Policies of shell tables are evaluated on the router, and those of the shards must
 * not apply once more.  The users of connections bypass them, and row_security = off
 * makes it an error if one cannot.  Before the session has met a shell table, the
 * shards' policies are theirs.
 *
 * Outside an explicit transaction the session's connections are read-only: what a
 * function in a SELECT writes must be part of the session's transaction.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "parser/parse_expr.h"
#include "parser/parser.h"
#include "storage/proc.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/xml.h"

#include "base/base.h"
#include "connection/connection.h"
#include "metadata/table.h"

/* Indexes of settings.  Those of the connection precede those of the session. */
enum
{
	SETTING_PATH, SETTING_READ_ONLY, SETTING_ENCODING, SETTING_FIRST_OF_SESSION,
	SETTING_DATE_STYLE, SETTING_INTERVAL_STYLE, SETTING_FLOAT_DIGITS,
	SETTING_ARRAY_NULLS = 11, SETTING_QUOTE_ALL = 15, SETTING_LOCK_TIMEOUT
};

static const char *const names[] = {
	"search_path", "default_transaction_read_only", "client_encoding",
	"timezone", "datestyle", "intervalstyle", "extra_float_digits",
	"standard_conforming_strings", "escape_string_warning", "backslash_quote",
	"transform_null_equals", "array_nulls", "bytea_output", "xmlbinary", "xmloption",
	"quote_all_identifiers", "lock_timeout"
};

/* Those of them that a server reports; search_path since 18. */
static const char *const reported_names[SL_REPORTED_COUNT] = {
	"client_encoding", "TimeZone", "DateStyle", "IntervalStyle",
	"standard_conforming_strings", "default_transaction_read_only", "search_path"
};

/* Connections for the extension's own queries have one form of identifiers. */
static bool
get_quote_all(const SlConn *conn)
{
	return quote_all_identifiers && !conn->plain_path;
}

static void
read_numbers(const SlConn *conn, int *numbers)
{
	int			count = 0;

	numbers[count++] = conn->plain_values ? USE_ISO_DATES : DateStyle;
	numbers[count++] = DateOrder;
	numbers[count++] = conn->plain_values ? INTSTYLE_POSTGRES : IntervalStyle;
	numbers[count++] = conn->plain_values ? Max(extra_float_digits, 1) : extra_float_digits;
	numbers[count++] = standard_conforming_strings;
	numbers[count++] = escape_string_warning;
	numbers[count++] = backslash_quote;
	numbers[count++] = Transform_null_equals;
	numbers[count++] = bytea_output;
	numbers[count++] = xmlbinary;
	numbers[count++] = xmloption;
	numbers[count++] = get_quote_all(conn);
	Assert(count == SL_NUMBER_COUNT);
}

/* Is this a setting that is kept the same? */
bool
sl_session_keeps(const char *name)
{
	for (int i = 0; i < (int) lengthof(names); i++)
	{
		if (pg_strcasecmp(names[i], name) == 0)
			return true;
	}
	return false;
}

/*
 * Returns those of the session as "name=value", with which the session of a later
 * statement can be given the same meaning.
 */
List *
sl_session_list(void)
{
	List	   *result = list_make1(psprintf("%s=%s", names[SETTING_PATH], namespace_search_path));

	for (int i = SETTING_FIRST_OF_SESSION; i < SETTING_LOCK_TIMEOUT; i++)
		result = lappend(result, psprintf("%s=%s", names[i], GetConfigOption(names[i], false, false)));
	return result;
}

static const char *
get_search_path(const SlConn *conn)
{
	return conn->plain_path ? "pg_catalog" : namespace_search_path;
}

/* As for autovacuum, there is no limit for background workers. */
static int
get_lock_timeout(void)
{
	return MyBackendType == B_BG_WORKER ? 0 : LockTimeout;
}

/* Does the shard still report the same values as after the settings were sent? */
static bool
is_as_reported(const SlConn *conn)
{
	for (int i = 0; conn->settings.is_reported && i < SL_REPORTED_COUNT; i++)
	{
		const char *now = PQparameterStatus(conn->pg, reported_names[i]);
		const char *then = conn->settings.reported[i];

		if (now != NULL && (then == NULL || strcmp(now, then) != 0))
			return false;
	}
	return true;
}

/* Does the shard hide the orphaned rows that this statement must not see? */
static bool
has_same_orphaned_rows(const SlConn *conn)
{
	const char *sent = conn->settings.orphaned_rows;

	if (conn->orphaned_rows == NULL || sent == NULL)
		return conn->orphaned_rows == sent;
	return strcmp(conn->orphaned_rows, sent) == 0;
}

/* Does the shard have the current settings of this session? */
bool
sl_session_is_current(const SlConn *conn)
{
	const SlSettings *settings = &conn->settings;
	int			numbers[SL_NUMBER_COUNT];

	read_numbers(conn, numbers);
	return conn->has_settings &&
		settings->timezone == session_timezone &&
		memcmp(settings->numbers, numbers, sizeof(numbers)) == 0 &&
		settings->read_only == conn->is_read_only &&
		settings->lock_timeout == get_lock_timeout() &&
		strcmp(settings->search_path, get_search_path(conn)) == 0 &&
		settings->bypasses_policies == sl_table_has_shells() &&
		has_same_orphaned_rows(conn) && is_as_reported(conn) && sl_forwarded_is_current(conn);
}

static const char *
get_settings_sql(void)
{
	static char *sql = NULL;
	StringInfoData list;

	if (sql != NULL)
		return sql;
	initStringInfo(&list);
	for (int i = 0; i < (int) lengthof(names); i++)
		appendStringInfo(&list, "%s pg_catalog.set_config('%s', $%d, false)",
						 i == 0 ? "SELECT" : ",", names[i], i + 1);
	sql = MemoryContextStrdup(TopMemoryContext, list.data);
	return sql;
}

/* Chooses output formats that do not depend on the session's settings. */
static void
set_plain_values(const char **values)
{
	values[SETTING_DATE_STYLE] = DateOrder == DATEORDER_DMY ? "ISO, DMY" :
		DateOrder == DATEORDER_MDY ? "ISO, MDY" : "ISO, YMD";
	values[SETTING_INTERVAL_STYLE] = "postgres";
	if (extra_float_digits < 1)
		values[SETTING_FLOAT_DIGITS] = "1";
}

/* Sends the filter of orphaned rows, if there is or was one. */
static void
send_orphaned_rows(SlConn *conn)
{
	SlSettings *settings = &conn->settings;
	const char *params[] = {conn->orphaned_rows != NULL ? conn->orphaned_rows : "{}"};

	if (conn->orphaned_rows == NULL && !settings->had_orphaned_rows)
		return;
	sl_pipeline_send_preceding(conn, "SELECT " SL_INTERNAL_SCHEMA ".hide_rows($1)", 1, params);
	settings->had_orphaned_rows = true;
	if (settings->orphaned_rows != NULL)
		pfree(settings->orphaned_rows);
	settings->orphaned_rows = conn->orphaned_rows != NULL ?
		MemoryContextStrdup(conn->context, conn->orphaned_rows) : NULL;
}

/* A connection that has bypassed policies goes on doing so. */
static void
send_row_security(SlConn *conn)
{
	conn->settings.bypasses_policies = sl_table_has_shells();
	if (conn->settings.bypasses_policies)
		sl_pipeline_send_preceding(conn, "SELECT pg_catalog.set_config('row_security', 'off', false)", 0, NULL);
}

/*
 * Sends all settings, followed by a sync.  From then on they count as the shard's;
 * if the shard refuses them, that is a failure of the connection.
 */
void
sl_session_send(SlConn *conn)
{
	const char *values[lengthof(names)];
	int			numbers[SL_NUMBER_COUNT];
	SlSettings *settings = &conn->settings;

	values[SETTING_PATH] = get_search_path(conn);
	values[SETTING_READ_ONLY] = conn->is_read_only ? "on" : "off";
	values[SETTING_ENCODING] = GetDatabaseEncodingName();

	/*
	 * GetConfigOption() returns integers in a static buffer: there is only
	 * one among them.
	 */
	for (int i = SETTING_FIRST_OF_SESSION; i < SETTING_LOCK_TIMEOUT; i++)
		values[i] = GetConfigOption(names[i], false, false);
	if (conn->plain_values)
		set_plain_values(values);
	values[SETTING_ARRAY_NULLS] = "on";
	values[SETTING_QUOTE_ALL] = get_quote_all(conn) ? "on" : "off";
	settings->lock_timeout = get_lock_timeout();
	values[SETTING_LOCK_TIMEOUT] = psprintf("%d", settings->lock_timeout);
	settings->is_reported = false;
	sl_pipeline_send_preceding(conn, get_settings_sql(), lengthof(names), values);
	send_orphaned_rows(conn);
	send_row_security(conn);
	sl_forwarded_send(conn);
	sl_pipeline_sync_settings(conn);

	/*
	 * They may affect the meaning of a prepared statement: constants are read
	 * when it is parsed.
	 */
	read_numbers(conn, numbers);
	if (settings->timezone != session_timezone ||
		memcmp(settings->numbers, numbers, sizeof(numbers)) != 0)
		conn->setting_changes++;
	settings->timezone = session_timezone;
	memcpy(settings->numbers, numbers, sizeof(numbers));
	settings->read_only = conn->is_read_only;
	conn->txn.has_settings = conn->txn.level > 0;
	if (settings->search_path != NULL)
		pfree(settings->search_path);
	settings->search_path = MemoryContextStrdup(conn->context, get_search_path(conn));
	conn->has_settings = true;
}

/* The settings have taken effect: stores the values that the shard reports. */
void
sl_session_note(SlConn *conn)
{
	SlSettings *settings = &conn->settings;

	for (int i = 0; i < SL_REPORTED_COUNT; i++)
	{
		const char *now = PQparameterStatus(conn->pg, reported_names[i]);

		if (settings->reported[i] != NULL)
			pfree(settings->reported[i]);
		settings->reported[i] = now != NULL ? MemoryContextStrdup(conn->context, now) : NULL;
	}
	settings->is_reported = true;
}
