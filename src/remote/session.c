/*
 * session.c
 *		Keeps the settings that change results equal on router and shard.
 *
 * They are compared before every statement, in the form in which PostgreSQL
 * keeps them, which costs next to nothing; when one differs, all are sent with
 * the statement, in a transaction of their own so that a failing statement
 * does not take them back.  client_encoding is the router's database encoding,
 * whatever the client's.
 *
 * A function on the shard may change a setting there.  Some are reported by the
 * protocol: what the shard said after ours had taken effect is kept, and
 * compared as well.  Of the others nothing is known.
 *
 * A statement that was written here does not depend on how values are written,
 * so its rows come in a form that says what they are: the name of a time zone can
 * stand for another, and digits can be missing.
 *
 * Which rows do not count for a text of the user's (fanout/hidden.c) is told the
 * same way, so that it never holds for somebody else's statement.  The shard keeps
 * that whatever becomes of transactions, so once it was told, it is told each time.
 *
 * Outside an explicit transaction the session's connections are read-only: what
 * a function behind a SELECT writes must be part of the session's transaction.
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
#include "remote/remote.h"

/* Settings of the session.  The others, of the connection, come first. */
enum
{
	SETTING_PATH, SETTING_READ_ONLY, SETTING_ENCODING, SETTING_FIRST_OF_SESSION,
	SETTING_DATE_STYLE, SETTING_INTERVAL_STYLE, SETTING_FLOAT_DIGITS,
	SETTING_QUOTE_ALL = 15, SETTING_LOCK_TIMEOUT
};

static const char *const names[] = {
	"search_path", "default_transaction_read_only", "client_encoding",
	"timezone", "datestyle", "intervalstyle", "extra_float_digits",
	"standard_conforming_strings", "escape_string_warning", "backslash_quote",
	"transform_null_equals", "array_nulls", "bytea_output", "xmlbinary", "xmloption",
	"quote_all_identifiers", "lock_timeout"
};

/* Those of them that a shard reports; search_path since 18. */
static const char *const reported_names[SL_REPORTED_COUNT] = {
	"client_encoding", "TimeZone", "DateStyle", "IntervalStyle",
	"standard_conforming_strings", "default_transaction_read_only", "search_path"
};

/* What we ask for ourselves, and read again, has one form. */
static bool
wanted_quote_all(const SlConn *conn)
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
	numbers[count++] = Array_nulls;
	numbers[count++] = bytea_output;
	numbers[count++] = xmlbinary;
	numbers[count++] = xmloption;
	numbers[count++] = wanted_quote_all(conn);
	Assert(count == SL_NUMBER_COUNT);
}

/* Is this a setting that is kept equal? */
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

static const char *
wanted_path(const SlConn *conn)
{
	return conn->plain_path ? "pg_catalog" : namespace_search_path;
}

/* Work in the background is nobody's statement: as in autovacuum, there is no limit. */
static int
wanted_lock_timeout(void)
{
	return MyBackendType == B_BG_WORKER ? 0 : LockTimeout;
}

/* Is what the shard reports still what it reported then? */
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

/* Are the rows hidden that do not count, and no others? */
static bool
hides_right(const SlConn *conn)
{
	const char *hidden = conn->settings.hidden;

	if (conn->hidden == NULL || hidden == NULL)
		return conn->hidden == hidden;
	return strcmp(conn->hidden, hidden) == 0;
}

/* Tells whether the shard has the settings that this session has now. */
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
		settings->lock_timeout == wanted_lock_timeout() &&
		strcmp(settings->search_path, wanted_path(conn)) == 0 &&
		hides_right(conn) && is_as_reported(conn);
}

static const char *
settings_sql(void)
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

/* As values are read back whatever the session's own settings are. */
static void
set_plain_values(const char **values)
{
	values[SETTING_DATE_STYLE] = DateOrder == DATEORDER_DMY ? "ISO, DMY" :
		DateOrder == DATEORDER_MDY ? "ISO, MDY" : "ISO, YMD";
	values[SETTING_INTERVAL_STYLE] = "postgres";
	if (extra_float_digits < 1)
		values[SETTING_FLOAT_DIGITS] = "1";
}

static void
send_hidden(SlConn *conn)
{
	SlSettings *settings = &conn->settings;
	const char *params[] = {conn->hidden != NULL ? conn->hidden : "{}"};

	if (conn->hidden == NULL && !settings->has_hidden)
		return;
	sl_flight_prelude(conn, "SELECT shardlet.hide_rows($1)", 1, params);
	settings->has_hidden = true;
	if (settings->hidden != NULL)
		pfree(settings->hidden);
	settings->hidden = conn->hidden != NULL ? MemoryContextStrdup(conn->context, conn->hidden) : NULL;
}

/*
 * Sends all settings, followed by a sync.  They count as the shard's from then
 * on; if the shard refuses them, that is a failure of the connection.
 */
void
sl_session_send(SlConn *conn)
{
	const char *values[lengthof(names)];
	int			numbers[SL_NUMBER_COUNT];
	SlSettings *settings = &conn->settings;

	values[SETTING_PATH] = wanted_path(conn);
	values[SETTING_READ_ONLY] = conn->is_read_only ? "on" : "off";
	values[SETTING_ENCODING] = GetDatabaseEncodingName();

	/* Of numbers there may be one: they share a buffer. */
	for (int i = SETTING_FIRST_OF_SESSION; i < SETTING_LOCK_TIMEOUT; i++)
		values[i] = GetConfigOption(names[i], false, false);
	if (conn->plain_values)
		set_plain_values(values);
	values[SETTING_QUOTE_ALL] = wanted_quote_all(conn) ? "on" : "off";
	settings->lock_timeout = wanted_lock_timeout();
	values[SETTING_LOCK_TIMEOUT] = psprintf("%d", settings->lock_timeout);
	settings->is_reported = false;
	sl_flight_prelude(conn, settings_sql(), lengthof(names), values);
	send_hidden(conn);
	sl_flight_sync_settings(conn);

	/*
	 * They may decide what a text means: constants are read when it is
	 * parsed.
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
	settings->search_path = MemoryContextStrdup(conn->context, wanted_path(conn));
	conn->has_settings = true;
}

/* The settings have taken effect: what does the shard report? */
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
