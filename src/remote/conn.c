/*
 * conn.c
 *		Opens connections to shards.
 *
 * Connecting does not block: it answers cancel and termination, and ends after
 * shardlet.connect_timeout.  A database whose identity is not the registered
 * one is refused right here, so that nothing is ever read from or written to a
 * database that took a shard's place.
 *
 * As strict as postgres_fdw: only a superuser may connect with what the server
 * process itself has (trust, peer, a password file).  Anyone else needs a
 * password in a user mapping, and the shard must have asked for it.
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "remote/remote.h"

/* Keywords and values for libpq, with room for what we add. */
typedef struct Parameters
{
	int			count;
	const char **keywords;
	const char **values;
} Parameters;

/* Describes a registered shard for a connection of the current user. */
SlTarget
sl_remote_target(const SlShard *shard)
{
	SlTarget	target = {0};

	target.shard = pstrdup(NameStr(shard->name));
	target.options = GetForeignServer(shard->server)->options;
	target.credentials = sl_remote_credentials(GetUserId(), shard->server);
	target.identity = shard->identity ? pstrdup(shard->identity) : NULL;
	return target;
}

static void
add_parameter(Parameters *parameters, const char *keyword, const char *value)
{
	parameters->keywords[parameters->count] = keyword;
	parameters->values[parameters->count] = value;
	parameters->count++;
}

static void
add_options(Parameters *parameters, List *options)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (sl_option_is_libpq(option->defname))
			add_parameter(parameters, option->defname, defGetString(option));
	}
}

/* Later entries win in libpq, so what must hold comes last. */
static Parameters
make_parameters(const SlTarget *target)
{
	Parameters	parameters = {0};
	int			room = list_length(target->options) + list_length(target->credentials) + 5;

	parameters.keywords = palloc0(sizeof(char *) * room);
	parameters.values = palloc0(sizeof(char *) * room);
	add_parameter(&parameters, "user", GetUserNameFromId(GetUserId(), false));
	add_options(&parameters, target->options);
	add_options(&parameters, target->credentials);
	add_parameter(&parameters, "client_encoding", GetDatabaseEncodingName());
	add_parameter(&parameters, "application_name",
				  psprintf("shardlet:%s:%d", get_database_name(MyDatabaseId), MyProcPid));
	return parameters;
}

static bool
has_password(const SlTarget *target)
{
	const char *password = sl_option_get(target->credentials, "password");

	return password != NULL && password[0] != '\0';
}

static void
refuse_server_credentials(const SlTarget *target, const char *detail)
{
	ereport(ERROR,
			errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
			errmsg("password is required to connect to shard \"%s\"", target->shard),
			errdetail("%s", detail),
			errhint("Put user and password into a user mapping on server \"%s\" or \"%s\".",
					target->shard, SL_TABLES_SERVER_NAME));
}

static void
close_connection(void *arg)
{
	sl_remote_close(arg);
}

/* Closes a connection; closing it again does nothing. */
void
sl_remote_close(SlConn *conn)
{
	if (conn->pg == NULL)
		return;
	PQfinish(conn->pg);
	conn->pg = NULL;
	ReleaseExternalFD();
}

/* Starts to connect.  The connection belongs to the current memory context. */
static SlConn *
start_connection(const SlTarget *target)
{
	Parameters	parameters = make_parameters(target);
	SlConn	   *conn = palloc0(sizeof(SlConn));

	conn->shard = pstrdup(target->shard);
	conn->callback.func = close_connection;
	conn->callback.arg = conn;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &conn->callback);
	if (!AcquireExternalFD())
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				errmsg("could not connect to shard \"%s\"", target->shard),
				errdetail("There are too many open files on the router."),
				errhint("Raise max_files_per_process or the limit of the operating system."));
	conn->pg = PQconnectStartParams(parameters.keywords, parameters.values, 0);
	if (conn->pg == NULL)
	{
		ReleaseExternalFD();
		ereport(ERROR,
				errcode(ERRCODE_OUT_OF_MEMORY),
				errmsg("out of memory"));
	}
	return conn;
}

/* Waits until the connection stands or failed.  Returns false on time-out. */
static bool
finish_connection(SlConn *conn, TimestampTz deadline)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;

	while (PQstatus(conn->pg) != CONNECTION_BAD &&
		   status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED)
	{
		int			events = status == PGRES_POLLING_READING ?
		WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE;

		if (!sl_wait_socket(PQsocket(conn->pg), events, deadline))
			return false;
		status = PQconnectPoll(conn->pg);
	}
	return true;
}

static void
check_identity(SlConn *conn, const SlTarget *target)
{
	PGresult   *result;
	const char *found;

	if (target->identity == NULL)
		return;
	result = sl_remote_exec(conn, "SELECT pg_catalog.current_setting('shardlet.identity', true)",
							0, NULL);
	found = sl_remote_value(result, 0, 0);
	if (found != NULL && strcmp(found, target->identity) == 0)
		return;
	ereport(ERROR,
			errcode(SL_ERR_IDENTITY),
			errmsg("database behind shard \"%s\" is not the one that was registered",
				   target->shard),
			found != NULL && found[0] != '\0' ?
			errdetail("Its identity is \"%s\", and the shard's is \"%s\".",
					  found, target->identity) :
			errdetail("It has no identity, and the shard's is \"%s\".", target->identity),
			errhint("Correct the shard's address. If this is the right database, restored from a backup, run ALTER DATABASE %s SET shardlet.identity = '%s' there.",
					quote_identifier(PQdb(conn->pg)), target->identity));
}

/*
 * Opens a connection.  If the shard cannot be reached, returns NULL and says
 * why; other failures are errors.
 */
SlConn *
sl_remote_try_open(const SlTarget *target, char **failure)
{
	bool		privileged = superuser();
	SlConn	   *conn;

	if (!privileged && !has_password(target))
		refuse_server_credentials(target, "Only a superuser may connect without a password in a user mapping.");
	conn = start_connection(target);
	if (!finish_connection(conn, sl_wait_deadline(sl_connect_timeout)))
		*failure = psprintf("No answer came within %d ms.", sl_connect_timeout);
	else if (PQstatus(conn->pg) != CONNECTION_OK)
		*failure = pchomp(PQerrorMessage(conn->pg));
	else
	{
		if (!privileged && !PQconnectionUsedPassword(conn->pg))
			refuse_server_credentials(target, "The shard did not ask for the password.");
		PQsetnonblocking(conn->pg, 1);
		check_identity(conn, target);
		return conn;
	}
	sl_remote_close(conn);
	return NULL;
}

/* Opens a connection; a shard that cannot be reached is an error (SL004). */
SlConn *
sl_remote_open(const SlTarget *target)
{
	char	   *failure = NULL;
	SlConn	   *conn = sl_remote_try_open(target, &failure);

	if (conn == NULL)
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("could not connect to shard \"%s\"", target->shard),
				errdetail_internal("%s", failure));
	return conn;
}
