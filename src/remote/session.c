/*
 * session.c
 *		Keeps the settings that change results equal on router and shard.
 *
 * They are compared before every statement, in the form in which PostgreSQL
 * keeps them, which costs next to nothing; when one differs, all are sent with
 * the statement, in a transaction of their own so that a failing statement
 * does not take them back.  client_encoding is fixed when the connection is
 * made: it is the router's database encoding, whatever the client's.
 *
 * Outside an explicit transaction the session's connections are read-only: what
 * a function behind a SELECT writes must be part of the session's transaction.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "remote/remote.h"

#define SETTING_COUNT 6

static const char settings_sql[] =
"SELECT pg_catalog.set_config('timezone', $1, false),"
" pg_catalog.set_config('datestyle', $2, false),"
" pg_catalog.set_config('intervalstyle', $3, false),"
" pg_catalog.set_config('extra_float_digits', $4, false),"
" pg_catalog.set_config('search_path', $5, false),"
" pg_catalog.set_config('default_transaction_read_only', $6, false)";

/* The last two, search_path and the other, are not the session's. */
static const char *const setting_names[SETTING_COUNT - 2] = {
	"timezone", "datestyle", "intervalstyle", "extra_float_digits"
};

static const char *
wanted_path(const SlConn *conn)
{
	return conn->plain_path ? "pg_catalog" : namespace_search_path;
}

/* Tells whether the shard has the settings that this session has now. */
bool
sl_session_is_current(const SlConn *conn)
{
	const SlSettings *settings = &conn->settings;

	return conn->has_settings &&
		settings->timezone == session_timezone &&
		settings->date_style == DateStyle &&
		settings->date_order == DateOrder &&
		settings->interval_style == IntervalStyle &&
		settings->float_digits == extra_float_digits &&
		settings->read_only == conn->is_read_only &&
		strcmp(settings->search_path, wanted_path(conn)) == 0;
}

/*
 * Sends all settings, followed by a sync.  They count as the shard's from then
 * on; if the shard refuses them, that is a failure of the connection.
 */
void
sl_session_send(SlConn *conn)
{
	const char *values[SETTING_COUNT];
	SlSettings *settings = &conn->settings;

	for (int i = 0; i < SETTING_COUNT - 2; i++)
		values[i] = GetConfigOption(setting_names[i], false, false);
	values[SETTING_COUNT - 2] = wanted_path(conn);
	values[SETTING_COUNT - 1] = conn->is_read_only ? "on" : "off";
	sl_flight_prelude(conn, settings_sql, SETTING_COUNT, values);
	sl_flight_sync(conn);
	settings->timezone = session_timezone;
	settings->date_style = DateStyle;
	settings->date_order = DateOrder;
	settings->interval_style = IntervalStyle;
	settings->float_digits = extra_float_digits;
	settings->read_only = conn->is_read_only;
	conn->txn.has_settings = conn->txn.level > 0;
	if (settings->search_path != NULL)
		pfree(settings->search_path);
	settings->search_path = MemoryContextStrdup(conn->context, wanted_path(conn));
	conn->has_settings = true;
}
