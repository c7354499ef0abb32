/*
 * forwarded_settings.c
 *		Sends the custom settings that shardlet.forward_settings lists.
 *
 * PostgreSQL does not tell when a custom setting changes: set_config(), SET LOCAL, the
 * SET clause of a function and the end of a subtransaction all change it.  So the
 * values are compared before every statement with those that the connection has, and
 * sent with the statement if one differs.
 *
 * A connection remembers every setting that it ever got.  One that is not set any
 * more, or not listed any more, becomes empty on the shard, as it does on the router
 * after RESET.
 */
#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "connection/connection.h"

/* A setting that the connection got. */
typedef struct Forwarded
{
	char	   *name;			/* both in the connection's context */
	char	   *value;
} Forwarded;

static Forwarded *
find_forwarded(const SlConn *conn, const char *name)
{
	ListCell   *cell;

	foreach(cell, conn->settings.forwarded)
	{
		Forwarded  *forwarded = lfirst(cell);

		if (strcmp(forwarded->name, name) == 0)
			return forwarded;
	}
	return NULL;
}

static bool
is_listed(const char *name)
{
	ListCell   *cell;

	foreach(cell, sl_forward_names())
	{
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	}
	return false;
}

/* Returns the value that the shard is to have; NULL if it need not have any. */
static const char *
get_value(const char *name)
{
	return is_listed(name) ? GetConfigOption(name, true, false) : NULL;
}

/* Does the shard have the current values? */
bool
sl_forwarded_is_current(const SlConn *conn)
{
	ListCell   *cell;

	if (conn->plain_path)
		return true;
	foreach(cell, sl_forward_names())
	{
		if (find_forwarded(conn, lfirst(cell)) == NULL && get_value(lfirst(cell)) != NULL)
			return false;
	}
	foreach(cell, conn->settings.forwarded)
	{
		const Forwarded *forwarded = lfirst(cell);
		const char *value = get_value(forwarded->name);

		if (strcmp(value != NULL ? value : "", forwarded->value) != 0)
			return false;
	}
	return true;
}

/* Adds the settings that the connection has not got yet. */
static void
add_new_settings(SlConn *conn)
{
	MemoryContext old_context = MemoryContextSwitchTo(conn->context);
	ListCell   *cell;

	foreach(cell, sl_forward_names())
	{
		Forwarded  *forwarded;

		if (find_forwarded(conn, lfirst(cell)) != NULL || get_value(lfirst(cell)) == NULL)
			continue;
		forwarded = palloc(sizeof(Forwarded));
		forwarded->name = pstrdup(lfirst(cell));
		forwarded->value = pstrdup("");
		conn->settings.forwarded = lappend(conn->settings.forwarded, forwarded);
	}
	MemoryContextSwitchTo(old_context);
}

/* Sends all of them: the shard may have lost some by a rollback. */
void
sl_forwarded_send(SlConn *conn)
{
	ListCell   *cell;

	if (conn->plain_path)
		return;
	add_new_settings(conn);
	foreach(cell, conn->settings.forwarded)
	{
		Forwarded  *forwarded = lfirst(cell);
		const char *value = get_value(forwarded->name);
		const char *params[] = {forwarded->name, value != NULL ? value : ""};
		char	   *copy = MemoryContextStrdup(conn->context, params[1]);

		sl_pipeline_send_preceding(conn, "SELECT pg_catalog.set_config($1, $2, false)", lengthof(params), params);
		pfree(forwarded->value);
		forwarded->value = copy;
	}
}
