/*
 * connect.c
 *		Opens and closes connections to shards.
 *
 * Connecting does not block: sl_conn_start() begins, and sl_conn_advance() is
 * called whenever the socket is ready, so that any number of connections can be
 * opened at a time.  shardlet.connect_timeout limits the time; it is divided among
 * the hosts if there are several (multi_host.c).  A database whose identity is not
 * the registered one is refused during connecting, so that nothing is ever read
 * from or written to a database that took a shard's place.
 *
 * As in postgres_fdw, only a superuser may connect with what the server process
 * itself has (trust, peer, a password file, Kerberos tickets).  Other users need a
 * password in a user mapping, and the shard must have requested it.  A user
 * mapping is looked up in this order: the user's own on the shard's server, the
 * user's own on the server that all sharded tables share, PUBLIC's on the shard's
 * server, PUBLIC's on the shared one.  So one mapping on the shared server serves
 * all shards, and a shard may still have its own.
 *
 * A machine that vanished does not answer, and TCP notices that only after
 * hours: keepalives and a timeout for unacknowledged data are set unless the
 * server's options say otherwise.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "connection/connection.h"

/* Generation of the connection that was opened last. */
static uint64 last_generation = 0;

/*
 * Reads the shard's identity and sets up its session.  The session may have begun
 * before the database got the setting, and statements check it again (see
 * deparse/ownership_filter.c).  Keepalives are for the case that the router's
 * machine vanishes: its locks on the shard would otherwise be held for hours.
 */
static const char identity_sql[] =
"SELECT pg_catalog.set_config('shardlet.identity', " SL_IDENTITY_SQL ", false),"
" pg_catalog.set_config('tcp_keepalives_idle', '10', false),"
" pg_catalog.set_config('tcp_keepalives_interval', '5', false),"
" pg_catalog.set_config('tcp_keepalives_count', '3', false),"
" pg_catalog.set_config('shardlet.router', 'on', false)";

/* Connection parameters that the server's options override. */
static const char *const defaults[][2] = {
	{"keepalives", "1"},
	{"keepalives_idle", "10"},
	{"keepalives_interval", "5"},
	{"keepalives_count", "3"},
	{"tcp_user_timeout", "20000"},
};

/*
 * Connection parameters that override the server's options for a user who must
 * authenticate with a password, and not with the server process's Kerberos
 * tickets.
 */
static const char *const for_password_only[][2] = {
	{"gssencmode", "disable"},
	{"gssdelegation", "0"},
};

/* Finds a user mapping.  Returns false if there is none. */
static bool
find_mapping(Oid user, Oid server, List **options)
{
	HeapTuple	tuple;
	Datum		raw;
	bool		is_null;

	if (!OidIsValid(server))
		return false;
	tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(user),
							ObjectIdGetDatum(server));
	if (!HeapTupleIsValid(tuple))
		return false;
	raw = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple,
						  Anum_pg_user_mapping_umoptions, &is_null);
	*options = is_null ? NIL : untransformRelOptions(raw);
	ReleaseSysCache(tuple);
	return true;
}

/* Returns the server that all sharded tables share, if the wrapper owns it. */
static Oid
get_shared_server(void)
{
	ForeignServer *server = GetForeignServerByName(SL_TABLES_SERVER_NAME, true);

	if (server == NULL ||
		server->fdwid != get_foreign_data_wrapper_oid(SL_WRAPPER_NAME, true))
		return InvalidOid;
	return server->serverid;
}

/* Returns the options of the user mapping that applies, or NIL. */
List *
sl_remote_credentials(Oid user, Oid server)
{
	Oid			shared = get_shared_server();
	List	   *options = NIL;

	if (!find_mapping(user, server, &options) &&
		!find_mapping(user, shared, &options) &&
		!find_mapping(InvalidOid, server, &options))
		(void) find_mapping(InvalidOid, shared, &options);
	return options;
}

/* Returns the target of a connection of the current user to a registered shard. */
SlTarget
sl_remote_target(const SlShard *shard)
{
	SlTarget	target = {0};

	target.shard = pstrdup(NameStr(shard->name));
	target.options = GetForeignServer(shard->server)->options;
	target.credentials = sl_remote_credentials(GetUserId(), shard->server);
	target.identity = shard->identity ? pstrdup(shard->identity) : NULL;
	if (!shard->bare && sl_router_get()->exists)
		target.router = pstrdup(sl_router_get()->id);
	return target;
}

/* Parameters stay with the connection, for a second one that cancels. */
static void
add_parameter(SlConn *conn, const char *keyword, const char *value)
{
	conn->keywords[conn->parameter_count] = MemoryContextStrdup(conn->context, keyword);
	conn->values[conn->parameter_count] = MemoryContextStrdup(conn->context, value);
	conn->parameter_count++;
}

static void
add_options(SlConn *conn, List *options)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (sl_option_is_libpq(option->defname))
			add_parameter(conn, option->defname, defGetString(option));
	}
}

/* In libpq the last entry of a keyword wins, so mandatory ones come last. */
static void
make_parameters(SlConn *conn, const SlTarget *target)
{
	int			room = list_length(target->options) + list_length(target->credentials) +
	(int) (lengthof(defaults) + lengthof(for_password_only)) + SL_HOST_PARAMETERS + 4;

	conn->keywords = MemoryContextAllocZero(conn->context, sizeof(char *) * room);
	conn->values = MemoryContextAllocZero(conn->context, sizeof(char *) * room);
	conn->parameter_count = 0;
	for (int i = 0; i < (int) lengthof(defaults); i++)
		add_parameter(conn, defaults[i][0], defaults[i][1]);
	add_parameter(conn, "user", GetUserNameFromId(GetUserId(), false));
	add_options(conn, target->options);
	add_options(conn, target->credentials);
	add_parameter(conn, "client_encoding", GetDatabaseEncodingName());
	add_parameter(conn, "application_name",
				  psprintf("shardlet:%s:%d", get_database_name(MyDatabaseId), MyProcPid));
	for (int i = 0; conn->must_use_password && i < (int) lengthof(for_password_only); i++)
	{
		/* Not every version of libpq has all of them. */
		if (sl_option_is_libpq(for_password_only[i][0]))
			add_parameter(conn, for_password_only[i][0], for_password_only[i][1]);
	}
}

static bool
has_password(const SlTarget *target)
{
	const char *password = sl_option_get(target->credentials, "password");

	return password != NULL && password[0] != '\0';
}

static SlFailure *
password_failure(const char *shard, const char *detail)
{
	SlFailure  *failure = palloc0(sizeof(SlFailure));

	failure->sqlstate = ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED;
	failure->message = psprintf("password is required to connect to shard \"%s\"", shard);
	failure->detail = detail;
	failure->hint = psprintf("Put user and password into a user mapping on server \"%s\" or \"%s\".",
							 shard, SL_TABLES_SERVER_NAME);
	return failure;
}

static void
hang_up(SlConn *conn)
{
	sl_liveness_reset(conn);
	if (conn->wait_set != NULL)
		FreeWaitEventSet(conn->wait_set);
	conn->wait_set = NULL;
	if (conn->pg != NULL)
	{
		PQfinish(conn->pg);
		ReleaseExternalFD();
	}
	conn->pg = NULL;
}

/* Closes a connection; does nothing if it is closed. */
void
sl_conn_close(SlConn *conn)
{
	hang_up(conn);
	conn->state = SL_CONN_CLOSED;
	conn->queue.count = 0;
	conn->queue.size = 0;
	conn->queue.items = NULL;
	conn->has_settings = false;
	conn->is_leaving = false;
	conn->is_broken = false;
	conn->txn.is_lost = conn->txn.level > 0;
	if (conn->slot != NULL)
		sl_shmem_give_conn(conn->slot);
	conn->slot = NULL;
	conn->prepared = NULL;
	conn->notices.queued = NIL;
	memset(&conn->settings, 0, sizeof(SlSettings));
}

/* Starts libpq with the connection's parameters. */
static void
start_libpq(SlConn *conn)
{
	if (!AcquireExternalFD())
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				errmsg("could not connect to shard \"%s\"", conn->shard),
				errdetail("There are too many open files on the router."),
				errhint("Raise max_files_per_process or the limit of the operating system."));
	conn->pg = PQconnectStartParams(conn->keywords, conn->values, 0);
	if (conn->pg == NULL)
	{
		ReleaseExternalFD();
		ereport(ERROR,
				errcode(ERRCODE_OUT_OF_MEMORY),
				errmsg("out of memory"));
	}
	sl_notice_queue(conn);
	conn->state = SL_CONN_CONNECTING;
	conn->wants_write = true;
}

/*
 * Begins to connect.  The caller has set conn->context, which holds everything
 * about this connection, and it is empty.  Returns a failure if the user may not
 * connect; raises only errors that have nothing to do with the shard.
 */
SlFailure *
sl_conn_start(SlConn *conn, const SlTarget *target)
{
	conn->shard = MemoryContextStrdup(conn->context, target->shard);
	conn->identity = target->identity ?
		MemoryContextStrdup(conn->context, target->identity) : NULL;
	conn->router = target->router ?
		MemoryContextStrdup(conn->context, target->router) : NULL;
	conn->plain_path = target->plain_path;
	conn->must_use_password = !superuser();
	if (conn->must_use_password && !has_password(target))
		return password_failure(target->shard,
								"Only a superuser may connect without a password in a user mapping.");
	make_parameters(conn, target);
	start_libpq(conn);
	sl_multi_host_begin(conn);
	conn->since = GetCurrentTimestamp();
	conn->is_stale = false;
	conn->generation = ++last_generation;
	return NULL;
}

/* Returns the events that the connection waits for, WL_SOCKET_... */
uint32
sl_conn_wants(const SlConn *conn)
{
	if (conn->state == SL_CONN_CONNECTING)
		return conn->wants_write ? WL_SOCKET_WRITEABLE : WL_SOCKET_READABLE;
	return WL_SOCKET_READABLE | (PQflush(conn->pg) > 0 ? WL_SOCKET_WRITEABLE : 0);
}

/* Makes the next statement not wait for this shard again. */
static void
note_no_answer(SlConn *conn)
{
	if (conn->shard_id != 0)
		sl_pool_note_failure(conn);
}

/* No session runs LISTEN on a shard, and libpq never frees notifications. */
static void
drop_notifications(SlConn *conn)
{
	PGnotify   *notification;

	while ((notification = PQnotifies(conn->pg)) != NULL)
		PQfreemem(notification);
}

/*
 * Reads what has arrived, and sends what is buffered.  If the connection turns out
 * to be lost, closes it, sets *failure and returns false.
 */
bool
sl_conn_read(SlConn *conn, SlFailure **failure)
{
	if (conn->probe.is_dead)
	{
		*failure = sl_liveness_failure(conn);
		note_no_answer(conn);
		sl_conn_close(conn);
		return false;
	}
	if (PQconsumeInput(conn->pg) && PQflush(conn->pg) >= 0 &&
		PQstatus(conn->pg) != CONNECTION_BAD)
	{
		drop_notifications(conn);
		return true;
	}

	/*
	 * The shard's last message may still be in the buffer: it says more than
	 * "connection lost".
	 */
	if (!PQisBusy(conn->pg) && conn->queue.count > 0)
		return true;
	*failure = sl_failure_unreachable(conn->shard, PQerrorMessage(conn->pg));
	sl_conn_close(conn);
	return false;
}

/* libpq has connected: requests the identity, and sends the settings. */
static SlFailure *
begin_set_up(SlConn *conn)
{
	if (conn->must_use_password && !PQconnectionUsedPassword(conn->pg))
		return password_failure(conn->shard, "The shard did not ask for the password.");
	if (PQsetnonblocking(conn->pg, 1) != 0 || !PQenterPipelineMode(conn->pg))
		return sl_failure_unreachable(conn->shard, PQerrorMessage(conn->pg));
	conn->state = SL_CONN_SETTING_UP;
	conn->has_identity = conn->has_state = conn->is_judged = conn->is_behind = false;
	sl_pipeline_query(conn, identity_sql, 0, NULL);
	sl_pipeline_sync(conn);
	if (conn->router != NULL)
	{
		/* It fails on a shard that has lost the extension. */
		sl_pipeline_query(conn, SL_STATE_SQL, 1, &conn->router);
		sl_pipeline_sync(conn);
	}
	sl_session_send(conn);
	return NULL;
}

static SlFailure *
make_identity_failure(SlConn *conn, const char *found)
{
	SlFailure  *failure = palloc0(sizeof(SlFailure));

	failure->sqlstate = SL_ERR_IDENTITY;
	failure->message = psprintf("database behind shard \"%s\" is not the one that was registered",
								conn->shard);
	if (found != NULL && found[0] != '\0')
	{
		failure->detail = psprintf("Its identity is \"%s\", and the shard's is \"%s\".", found, conn->identity);
		failure->hint = "Correct the shard's address.";
		return failure;
	}
	failure->detail = psprintf("It has no identity, and the shard's is \"%s\".", conn->identity);
	failure->hint = psprintf("Correct the shard's address. If this is the right database, restored from a backup, run ALTER DATABASE %s SET shardlet.identity = '%s' there, and SET shardlet.shard_id to the id that view shardlet.shards has.",
							 quote_identifier(PQdb(conn->pg)), conn->identity);
	return failure;
}

static char *
copy_state(SlConn *conn, const PGresult *result, int column)
{
	const char *value = sl_encoding_copy_message(CurrentMemoryContext, sl_remote_value(result, 0, column));

	return value != NULL ? MemoryContextStrdup(conn->context, value) : NULL;
}

/* Keeps the answer to SL_STATE_SQL. */
void
sl_conn_note_state(SlConn *conn, const PGresult *result)
{
	conn->state_epoch = copy_state(conn, result, 0);
	conn->state_owner = copy_state(conn, result, 1);
	conn->state_maps = copy_state(conn, result, 2);
	conn->has_state = true;
}

static void
read_identity(SlConn *conn, const PGresult *result, SlFailure **failure)
{
	const char *found = sl_encoding_copy_message(CurrentMemoryContext, sl_remote_value(result, 0, 0));

	conn->has_identity = true;
	if (conn->identity != NULL && (found == NULL || strcmp(found, conn->identity) != 0))
		*failure = make_identity_failure(conn, found);
}

/* Reads the results of the set-up.  Returns true when all have arrived. */
static bool
finish_set_up(SlConn *conn, SlFailure **failure)
{
	for (;;)
	{
		PGresult   *result;

		switch (sl_pipeline_next(conn, &result, failure))
		{
			case SL_EVENT_ROWS:
				if (!conn->has_identity)
					read_identity(conn, result, failure);
				else
					sl_conn_note_state(conn, result);
				PQclear(result);
				if (*failure != NULL)
					return false;
				break;
			case SL_EVENT_DONE:
				PQclear(result);
				break;
			case SL_EVENT_FAILED:
				if ((*failure)->lost || !conn->has_identity || conn->router == NULL || conn->has_state)
					return false;
				*failure = NULL;
				break;
			case SL_EVENT_NONE:
				return false;
			default:
				if (!conn->has_identity)
				{
					*failure = sl_failure_violation(conn->shard,
													"It did not tell its identity.");
					return false;
				}
				conn->state = SL_CONN_OPEN;
				sl_multi_host_fix(conn);
				if (conn->slot != NULL)
				{
					conn->slot->remote_pid = PQbackendPID(conn->pg);
					conn->slot->is_open = true;
				}
				return true;
		}
	}
}

/* Calls PQconnectPoll() once. */
static SlFailure *
poll_libpq(SlConn *conn)
{
	switch (PQconnectPoll(conn->pg))
	{
		case PGRES_POLLING_OK:
			return begin_set_up(conn);
		case PGRES_POLLING_READING:
			conn->wants_write = false;
			return NULL;
		case PGRES_POLLING_WRITING:
			conn->wants_write = true;
			return NULL;
		default:
			return sl_failure_unreachable(conn->shard, PQerrorMessage(conn->pg));
	}
}

/*
 * Continues to open a connection whose socket is ready.  Returns true when it is
 * open.  On failure closes it and sets *failure.
 */
bool
sl_conn_advance(SlConn *conn, SlFailure **failure)
{
	bool		is_open = false;

	*failure = NULL;
	if (conn->state == SL_CONN_CONNECTING)
		*failure = PQstatus(conn->pg) == CONNECTION_BAD ?
			sl_failure_unreachable(conn->shard, PQerrorMessage(conn->pg)) :
			poll_libpq(conn);
	else if (sl_conn_read(conn, failure))
		is_open = finish_set_up(conn, failure);
	if (*failure != NULL)
		sl_conn_close(conn);
	return is_open;
}

/* Starts libpq again, after the parameters have changed. */
static void
restart_libpq(SlConn *conn)
{
	hang_up(conn);
	conn->state = SL_CONN_CLOSED;
	conn->queue.count = 0;
	conn->has_settings = false;
	conn->notices.queued = NIL;
	start_libpq(conn);
}

/*
 * The deadline of connecting has passed.  Returns false if there are other hosts
 * in the address, and time for them: then connecting continues.  Otherwise closes
 * the connection and sets *failure.
 */
bool
sl_conn_time_is_up(SlConn *conn, SlFailure **failure)
{
	bool		begin_again;

	*failure = NULL;
	if (sl_multi_host_next(conn, &begin_again))
	{
		if (begin_again)
			restart_libpq(conn);
		if (PQstatus(conn->pg) != CONNECTION_BAD)
			return false;
		*failure = sl_failure_unreachable(conn->shard, PQerrorMessage(conn->pg));
	}
	else
		*failure = sl_failure_unreachable(conn->shard,
										  psprintf("No answer came within %d ms.", sl_connect_timeout));
	(*failure)->is_silent = true;
	note_no_answer(conn);
	sl_conn_close(conn);
	return true;
}

/* Connections that belong to a memory context ------------------------------- */

static void
close_with_context(void *arg)
{
	sl_conn_close(arg);
}

/*
 * Opens a connection that belongs to the current memory context, and waits for
 * it.  If the shard cannot be reached, or its identity is wrong, returns NULL and
 * sets *failure.
 */
SlConn *
sl_remote_try_open(const SlTarget *target, SlFailure **failure)
{
	SlConn	   *conn = palloc0(sizeof(SlConn));

	conn->context = CurrentMemoryContext;
	conn->callback.func = close_with_context;
	conn->callback.arg = conn;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &conn->callback);
	*failure = sl_conn_start(conn, target);
	if (*failure != NULL)
		return NULL;
	if (PQstatus(conn->pg) == CONNECTION_BAD && !sl_conn_advance(conn, failure))
		return NULL;
	do
	{
		if (!sl_wait_conn(conn, conn->deadline))
			(void) sl_conn_time_is_up(conn, failure);
		else if (sl_conn_advance(conn, failure))
			return conn;
	} while (*failure == NULL);
	return NULL;
}

/*
 * The same with the credentials of another user, for queries of the extension
 * itself.
 */
SlConn *
sl_remote_try_open_as(const SlShard *shard, Oid user, SlFailure **failure)
{
	Oid			saved_user;
	int			saved_context;
	SlConn	   *volatile conn = NULL;
	SlTarget	target;

	GetUserIdAndSecContext(&saved_user, &saved_context);
	SetUserIdAndSecContext(user, saved_context | SECURITY_LOCAL_USERID_CHANGE);
	PG_TRY();
	{
		target = sl_remote_target(shard);
		target.plain_path = true;
		conn = sl_remote_try_open(&target, failure);
	}
	PG_FINALLY();
	{
		SetUserIdAndSecContext(saved_user, saved_context);
	}
	PG_END_TRY();
	return conn;
}

/* The same; a shard that cannot be reached is an error. */
SlConn *
sl_remote_open(const SlTarget *target)
{
	SlFailure  *failure;
	SlConn	   *conn = sl_remote_try_open(target, &failure);

	if (conn == NULL)
		sl_failure_raise(failure, target->shard, NULL);
	return conn;
}
