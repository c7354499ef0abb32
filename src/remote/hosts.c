/*
 * hosts.c
 *		An address with several hosts.
 *
 * libpq tries them in order, but while one says nothing it waits for that one,
 * and has no way to be told to go on.  So the time for connecting is shared out:
 * a host that has said nothing for its share is taken out of the lists, and
 * libpq begins anew with the others, first those that come after it.  The ones
 * before it, which have refused or were not of the wanted kind, are tried again
 * at the end: libpq may come back to them (target_session_attrs).
 *
 * Once a connection is open, its address is that of the host it has reached: a
 * second one, which cancels or looks whether the shard is alive, must not end up
 * elsewhere.
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "remote/remote.h"

/* Returns the position of a parameter that has a value, or -1. */
static int
find_parameter(const SlConn *conn, const char *keyword)
{
	for (int i = conn->parameter_count - 1; i >= 0; i--)
	{
		if (strcmp(conn->keywords[i], keyword) == 0 && conn->values[i][0] != '\0')
			return i;
	}
	return -1;
}

static const char *
parameter_value(const SlConn *conn, const char *keyword)
{
	int			index = find_parameter(conn, keyword);

	return index >= 0 ? conn->values[index] : NULL;
}

static int
count_items(const char *value)
{
	int			count = 1;

	if (value == NULL)
		return 0;
	for (; *value != '\0'; value++)
		count += *value == ',' ? 1 : 0;
	return count;
}

/* libpq counts the same: addresses say how many there are, names if not. */
static int
count_hosts(const SlConn *conn)
{
	const char *addresses = parameter_value(conn, "hostaddr");

	return Max(1, count_items(addresses != NULL ? addresses : parameter_value(conn, "host")));
}

/* Returns where the item begins, and how long it is. */
static const char *
find_item(const char *value, int index, int *length)
{
	for (; index > 0; index--)
		value = strchr(value, ',') + 1;
	*length = (int) strcspn(value, ",");
	return value;
}

/* Is that libpq's value?  One that is left out is libpq's own choice. */
static bool
item_matches(const char *list, int index, const char *value)
{
	const char *item;
	int			length;

	/* One port may stand for all hosts. */
	if (list == NULL || count_items(list) <= index)
		return true;
	item = find_item(list, index, &length);
	return length == 0 || value == NULL ||
		(strncmp(item, value, length) == 0 && value[length] == '\0');
}

/* Which of the hosts is libpq at? */
static int
current_host(const SlConn *conn)
{
	const char *names = parameter_value(conn, "host");
	const char *ports = parameter_value(conn, "port");

	if (names == NULL)
		names = parameter_value(conn, "hostaddr");
	for (int i = 0; i < conn->host_count; i++)
	{
		if (item_matches(names, i, PQhost(conn->pg)) && item_matches(ports, i, PQport(conn->pg)))
			return i;
	}
	return 0;
}

/*
 * How many hosts may libpq want to try from this one on?  Looking for a standby
 * first, it goes round a second time.
 */
static int
hosts_ahead(const SlConn *conn, int index)
{
	const char *kind = parameter_value(conn, "target_session_attrs");

	if (kind != NULL && strcmp(kind, "prefer-standby") == 0)
		return conn->host_count;
	return conn->host_count - index;
}

static void
begin_share(SlConn *conn, int index, TimestampTz now)
{
	conn->host_index = index;
	conn->deadline = now + (conn->last_deadline - now) / hosts_ahead(conn, index);
}

/* Shares out the time for connecting, which begins now. */
void
sl_hosts_begin(SlConn *conn)
{
	TimestampTz now = GetCurrentTimestamp();

	conn->host_count = count_hosts(conn);
	conn->last_deadline = TimestampTzPlusMilliseconds(now, sl_connect_timeout);
	begin_share(conn, 0, now);
}

/* Takes an item out of a list, and puts those before it to the end. */
static void
drop_item(SlConn *conn, const char *keyword, int index)
{
	int			parameter = find_parameter(conn, keyword);
	int			count;
	StringInfoData list;

	if (parameter < 0)
		return;
	count = count_items(conn->values[parameter]);
	if (count <= 1)
		return;
	initStringInfo(&list);
	for (int i = 1; i < count; i++)
	{
		int			length;
		const char *item = find_item(conn->values[parameter], (index + i) % count, &length);

		appendStringInfo(&list, "%s%.*s", i > 1 ? "," : "", length, item);
	}
	conn->values[parameter] = MemoryContextStrdup(conn->context, list.data);
	pfree(list.data);
}

/*
 * A share of the time is over.  Returns true if there is more: either libpq has
 * gone on by itself and the host that it is at gets its share, or *begin_anew
 * says that the parameters have changed.
 */
bool
sl_hosts_next(SlConn *conn, bool *begin_anew)
{
	TimestampTz now = GetCurrentTimestamp();
	int			index = current_host(conn);

	*begin_anew = false;
	if (conn->host_count < 2 || now >= conn->last_deadline)
		return false;
	if (index == conn->host_index)
	{
		drop_item(conn, "host", index);
		drop_item(conn, "hostaddr", index);
		drop_item(conn, "port", index);
		conn->host_count--;
		index = 0;
		*begin_anew = true;
	}
	begin_share(conn, index, now);
	return true;
}

/* conn.c leaves room for those that were not given. */
static void
set_parameter(SlConn *conn, const char *keyword, const char *value)
{
	int			index = 0;

	while (index < conn->parameter_count && strcmp(conn->keywords[index], keyword) != 0)
		index++;
	if (index == conn->parameter_count)
	{
		conn->keywords[index] = keyword;
		conn->parameter_count++;
	}
	conn->values[index] = MemoryContextStrdup(conn->context, value != NULL ? value : "");
}

/* The connection is open: from now on its address is this host's alone. */
void
sl_hosts_pin(SlConn *conn)
{
	set_parameter(conn, "host", PQhost(conn->pg));
	set_parameter(conn, "hostaddr", PQhostaddr(conn->pg));
	set_parameter(conn, "port", PQport(conn->pg));
}
