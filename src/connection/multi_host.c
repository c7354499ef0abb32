/*
 * multi_host.c
 *		An address with several hosts.
 *
 * libpq tries them in order, but it waits for one that does not respond, and has
 * no function that makes it continue with the next.  So the time for connecting is
 * divided among the hosts: one that does not respond within its share is removed
 * from the parameters, and libpq starts again with the others, beginning with the
 * next host.  The hosts before it, which have refused or did not match
 * target_session_attrs, come last: libpq may return to them.
 *
 * Once a connection is open, its address is that of the host that it has reached:
 * a second connection, which cancels a statement or checks whether the shard is
 * alive, must go to the same host.
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "connection/connection.h"

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
get_parameter(const SlConn *conn, const char *keyword)
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

/* Counts as libpq does: items of hostaddr if it is set, else of host. */
static int
count_hosts(const SlConn *conn)
{
	const char *addresses = get_parameter(conn, "hostaddr");

	return Max(1, count_items(addresses != NULL ? addresses : get_parameter(conn, "host")));
}

/* Returns the start of an item, and its length. */
static const char *
find_item(const char *value, int index, int *length)
{
	for (; index > 0; index--)
		value = strchr(value, ',') + 1;
	*length = (int) strcspn(value, ",");
	return value;
}

/* Is that the value of libpq?  An empty item is one that libpq chooses. */
static bool
item_matches(const char *list, int index, const char *value)
{
	const char *item;
	int			length;

	/* There may be one port for all hosts. */
	if (list == NULL || count_items(list) <= index)
		return true;
	item = find_item(list, index, &length);
	return length == 0 || value == NULL ||
		(strncmp(item, value, length) == 0 && value[length] == '\0');
}

/* Returns the index of the host that libpq is trying. */
static int
get_current_host(const SlConn *conn)
{
	const char *names = get_parameter(conn, "host");
	const char *ports = get_parameter(conn, "port");

	if (names == NULL)
		names = get_parameter(conn, "hostaddr");
	for (int i = 0; i < conn->host_count; i++)
	{
		if (item_matches(names, i, PQhost(conn->pg)) && item_matches(ports, i, PQport(conn->pg)))
			return i;
	}
	return 0;
}

/*
 * Returns the number of hosts that libpq may try from this one on.  With
 * prefer-standby it may go through the list a second time.
 */
static int
count_hosts_left(const SlConn *conn, int index)
{
	const char *kind = get_parameter(conn, "target_session_attrs");

	if (kind != NULL && strcmp(kind, "prefer-standby") == 0)
		return conn->host_count;
	return conn->host_count - index;
}

static void
begin_share(SlConn *conn, int index, TimestampTz now)
{
	conn->host_index = index;
	conn->deadline = now + (conn->last_deadline - now) / count_hosts_left(conn, index);
}

/* Begins the time for connecting, with the share of the first host. */
void
sl_multi_host_begin(SlConn *conn)
{
	TimestampTz now = GetCurrentTimestamp();

	conn->host_count = count_hosts(conn);
	conn->last_deadline = TimestampTzPlusMilliseconds(now, sl_connect_timeout);
	begin_share(conn, 0, now);
}

/* Removes an item from a list, and moves those before it to the end. */
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
 * A host's share of the time is over.  Returns true if connecting continues:
 * either libpq is trying another host already, which gets its share, or the
 * parameters have changed and *begin_again is set.
 */
bool
sl_multi_host_next(SlConn *conn, bool *begin_again)
{
	TimestampTz now = GetCurrentTimestamp();
	int			index = get_current_host(conn);

	*begin_again = false;
	if (conn->host_count < 2 || now >= conn->last_deadline)
		return false;
	if (index == conn->host_index)
	{
		drop_item(conn, "host", index);
		drop_item(conn, "hostaddr", index);
		drop_item(conn, "port", index);
		conn->host_count--;
		index = 0;
		*begin_again = true;
	}
	begin_share(conn, index, now);
	return true;
}

/* connect.c leaves room for SL_HOST_PARAMETERS that were not given. */
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

/* The connection is open: reduces its parameters to the host it has reached. */
void
sl_multi_host_fix(SlConn *conn)
{
	set_parameter(conn, "host", PQhost(conn->pg));
	set_parameter(conn, "hostaddr", PQhostaddr(conn->pg));
	set_parameter(conn, "port", PQport(conn->pg));
}
