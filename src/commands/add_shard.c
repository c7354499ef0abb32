/*
 * add_shard.c
 *		add_shard, alter_shard, drop_shard.
 *
 * A shard is a SERVER, so these functions make, change and drop servers, with
 * PostgreSQL's own routines and its privilege checks: the caller needs USAGE on the
 * wrapper, or must own the server.
 *
 * A connection string may hold a password.  It goes into a user mapping and
 * nowhere else; while one is at hand, an error writes neither the statement
 * nor the context to the server's log.
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "commands/commands.h"
#include "compat.h"
#include "executor/multi_shard.h"
#include "metadata/missed_ddl.h"
#include "metadata/table.h"
#include "reference/reference.h"

PG_FUNCTION_INFO_V1(shardlet_add_shard);
PG_FUNCTION_INFO_V1(shardlet_alter_shard);
PG_FUNCTION_INFO_V1(shardlet_drop_shard);

/* Options of a server and of a user mapping, apart. */
typedef struct Address
{
	List	   *options;
	List	   *credentials;
} Address;

static void
hide_statement(void *arg)
{
	errhidestmt(true);
	errhidecontext(true);
}

static List *
add_option(List *options, const char *keyword, const char *value)
{
	if (value == NULL)
		return options;
	return lappend(options, makeDefElem(pstrdup(keyword),
										(Node *) makeString(pstrdup(value)), -1));
}

static Address
parse_conninfo(const char *conninfo)
{
	Address		address = {0};
	ListCell   *cell;

	foreach(cell, sl_option_parse_conninfo(conninfo))
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (sl_option_is_credential(option->defname))
			address.credentials = lappend(address.credentials, option);
		else
			address.options = lappend(address.options, option);
	}
	if (address.options == NIL && address.credentials == NIL)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("connection string is empty"));

	/* Before anything is tried with them. */
	sl_option_validate(address.options, ForeignServerRelationId);
	return address;
}

/* The router --------------------------------------------------------------- */

static void
check_router(void)
{
	if (!sl_preloaded())
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("shardlet is not in shared_preload_libraries of this server"),
				errhint("Add these lines to postgresql.conf and restart the server: shared_preload_libraries = 'shardlet' and max_prepared_transactions = %d.",
						MaxConnections));
	if (max_prepared_xacts == 0)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("prepared transactions are disabled on this server"),
				errdetail("Transactions over several shards need them."),
				errhint("Add this line to postgresql.conf and restart the server: max_prepared_transactions = %d.",
						MaxConnections));
}

/* One session at a time adds shards, so that no database is added twice. */
static void
lock_wrapper(void)
{
	Oid			wrapper = get_foreign_data_wrapper_oid(SL_WRAPPER_NAME, false);
	AclResult	allowed = sl_wrapper_aclcheck(wrapper, GetUserId());

	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, OBJECT_FDW, SL_WRAPPER_NAME);
	LockDatabaseObject(ForeignDataWrapperRelationId, wrapper, 0, ShareUpdateExclusiveLock);
}

static void
create_server(const char *name, List *options)
{
	CreateForeignServerStmt *statement = makeNode(CreateForeignServerStmt);

	statement->servername = pstrdup(name);
	statement->fdwname = SL_WRAPPER_NAME;
	statement->options = options;
	(void) CreateForeignServer(statement);
	CommandCounterIncrement();
}

static void
alter_server(const char *name, List *changes)
{
	AlterForeignServerStmt *statement = makeNode(AlterForeignServerStmt);

	if (changes == NIL)
		return;
	statement->servername = pstrdup(name);
	statement->options = changes;
	(void) AlterForeignServer(statement);
	CommandCounterIncrement();
}

static RoleSpec *
current_role(void)
{
	RoleSpec   *role = makeNode(RoleSpec);

	role->roletype = ROLESPEC_CURRENT_USER;
	role->location = -1;
	return role;
}

/* Gives the caller a user mapping with these credentials, or changes it. */
static void
set_credentials(const char *server, List *credentials)
{
	Oid			server_oid = get_foreign_server_oid(server, false);

	if (credentials == NIL)
		return;
	if (SearchSysCacheExists2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(GetUserId()),
							  ObjectIdGetDatum(server_oid)))
	{
		AlterUserMappingStmt *statement = makeNode(AlterUserMappingStmt);

		statement->user = current_role();
		statement->servername = pstrdup(server);
		statement->options = sl_option_changes(GetUserMapping(GetUserId(), server_oid)->options,
											   credentials);
		(void) AlterUserMapping(statement);
	}
	else
	{
		CreateUserMappingStmt *statement = makeNode(CreateUserMappingStmt);

		statement->user = current_role();
		statement->servername = pstrdup(server);
		statement->options = credentials;
		(void) CreateUserMapping(statement);
	}
	CommandCounterIncrement();
}

/* add_shard ---------------------------------------------------------------- */

static void
check_new_name(const char *name)
{
	if (strcmp(name, SL_TABLES_SERVER_NAME) == 0)
		ereport(ERROR,
				errcode(ERRCODE_RESERVED_NAME),
				errmsg("shard cannot be called \"%s\"", name),
				errdetail("The server of that name is shared by all sharded tables."));
	if (sl_shard_by_name(name, true) != NULL)
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("shard \"%s\" already exists", name));
}

/* Returns the server that was created for this shard beforehand, or NULL. */
static ForeignServer *
find_server(const char *name, bool has_conninfo)
{
	ForeignServer *server = GetForeignServerByName(name, true);

	if (server == NULL)
		return NULL;
	if (server->fdwid != get_foreign_data_wrapper_oid(SL_WRAPPER_NAME, false))
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("server \"%s\" belongs to another foreign data wrapper", name),
				errhint("Choose another name for the shard."));
	if (has_conninfo)
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("server \"%s\" already exists", name),
				errhint("Leave the connection string out to make that server a shard."));
	if (!sl_server_ownercheck(server->serverid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, name);
	return server;
}

/* Finds out, or makes, the database that is to be a shard. */
static Address
get_address(const char *name, const char *conninfo, ForeignServer *server)
{
	Address		address = {0};

	if (conninfo != NULL)
		address = parse_conninfo(conninfo);
	else if (server != NULL)
		address.options = server->options;
	else
		address.options = sl_provision_local(name);
	return address;
}

static char *
prepare_shard(const char *name, const Address *address, ForeignServer *server, int32 id,
			  bool install, bool *other_collation, bool *knows_maps)
{
	SlTarget	target = {0};
	SlConn	   *conn;
	char	   *identity;

	target.shard = name;
	target.plain_path = true;
	target.options = address->options;
	target.credentials = address->credentials ? address->credentials :
		sl_remote_credentials(GetUserId(), server ? server->serverid : InvalidOid);
	conn = sl_remote_open(&target);
	identity = sl_provision_shard(conn, id, install, other_collation);
	*knows_maps = install &&
		sl_remote_bool(sl_remote_query(conn, "SELECT EXISTS (SELECT FROM shardlet.catalog_guard_map)",
									   0, NULL), 0, 0);
	sl_conn_close(conn);
	return identity;
}

static char *
weight_text(FunctionCallInfo fcinfo, int argument)
{
	return PG_ARGISNULL(argument) ? NULL :
		DatumGetCString(DirectFunctionCall1(float4out, PG_GETARG_DATUM(argument)));
}

static char *
optional_text(FunctionCallInfo fcinfo, int argument)
{
	return PG_ARGISNULL(argument) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(argument));
}

/* What the caller says of the shard, besides its address. */
static List *
given_options(FunctionCallInfo fcinfo)
{
	char	   *weight = weight_text(fcinfo, 3);
	List	   *options = NIL;

	options = add_option(options, "region", optional_text(fcinfo, 2));

	/* The default must not overwrite what a server says. */
	if (weight != NULL && strcmp(weight, "1") != 0)
		options = add_option(options, "weight", weight);
	return add_option(options, "client_address", optional_text(fcinfo, 4));
}

/* An id that no shard has, whatever was restored before. */
static int32
new_shard_id(void)
{
	int32		id;

	do
		id = (int32) sl_catalog_next_id(SL_SHARD_SEQUENCE);
	while (sl_shard_by_id(id)->exists);
	return id;
}

/* What add_shard adds to that. */
static List *
shard_options(List *given, ForeignServer *server, int32 id, const char *identity,
			  bool install, bool other_collation)
{
	List	   *options = list_copy(given);

	options = add_option(options, "id", psprintf("%d", id));
	options = add_option(options, "identity", identity);
	if (server == NULL || sl_option_get(server->options, "state") == NULL)
		options = add_option(options, "state", "online");
	options = add_option(options, "other_collation", other_collation ? "true" : NULL);
	return add_option(options, "bare", install ? NULL : "true");
}

static void
register_shard(const char *name, const Address *address, ForeignServer *server,
			   List *options)
{
	ForeignServer *shared = GetForeignServerByName(SL_TABLES_SERVER_NAME, true);

	if (shared == NULL)
		create_server(SL_TABLES_SERVER_NAME, NIL);
	else if (shared->fdwid != get_foreign_data_wrapper_oid(SL_WRAPPER_NAME, false))
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("server \"%s\" belongs to another foreign data wrapper",
					   SL_TABLES_SERVER_NAME),
				errhint("Rename it; all sharded tables share a server of that name."));

	/* The flag must not survive this, however it ends. */
	sl_shard_is_registering = true;
	PG_TRY();
	{
		if (server != NULL)
			alter_server(name, sl_option_changes(server->options, options));
		else
			create_server(name, list_concat(list_copy(address->options), options));
	}
	PG_FINALLY();
	{
		sl_shard_is_registering = false;
	}
	PG_END_TRY();
	set_credentials(name, address->credentials);
}

/* Gives a shard what it lacks, unless it is not to be used yet. */
static void
catch_up(const char *name, bool maps_differ, bool lacks_maps, bool takeover)
{
	SlShard    *shard = sl_shard_by_name(name, false);

	if (shard->state == SL_STATE_OFFLINE)
		return;
	sl_publish_claim(shard, takeover);

	/*
	 * It knows nothing that could be lost, or rebuild_map() is going to use
	 * it.
	 */
	if (lacks_maps || takeover)
		sl_state_exempt(shard->id);
	sl_ddl_replay(shard);
	if (maps_differ)
		sl_publish_all_to(shard);
	sl_reference_catch_up(shard);
	sl_state_exempt(0);
}

/* add_shard(shard, conninfo, region, weight, client_address, install, takeover) */
Datum
shardlet_add_shard(PG_FUNCTION_ARGS)
{
	char	   *name;
	char	   *conninfo;
	bool		install = PG_ARGISNULL(5) || PG_GETARG_BOOL(5);
	bool		takeover = !PG_ARGISNULL(6) && PG_GETARG_BOOL(6);
	bool		is_local;
	bool		other_collation;
	bool		knows_maps;
	ForeignServer *server;
	Address		address;
	List	   *given;
	int32		id;
	char	   *identity;
	ErrorContextCallback callback = {.callback = hide_statement};

	conninfo = optional_text(fcinfo, 1);
	callback.previous = error_context_stack;
	if (conninfo != NULL)
		error_context_stack = &callback;
	sl_check_writable("shardlet.add_shard()");
	check_router();
	sl_router_check();
	name = sl_map_arg_name(fcinfo, 0, "shard");

	/* What can be wrong without a connection is found before there is one. */
	lock_wrapper();
	sl_router_make();
	check_new_name(name);
	server = find_server(name, conninfo != NULL);
	given = given_options(fcinfo);
	sl_option_validate(given, ForeignServerRelationId);
	address = get_address(name, conninfo, server);
	id = new_shard_id();
	identity = prepare_shard(name, &address, server, id, install, &other_collation,
							 &knows_maps);
	register_shard(name, &address, server,
				   shard_options(given, server, id, identity, install, other_collation));

	/*
	 * Maps of another time mean nothing here, unless this router has
	 * forgotten them.  An empty database that was created for this shard is
	 * this router's, also if the extension was created again here.
	 */
	is_local = conninfo == NULL && server == NULL;
	catch_up(name, knows_maps && !takeover, false, takeover || is_local);
	if (is_local)
		sl_publish_forget_others(sl_shard_by_name(name, false));
	error_context_stack = callback.previous;
	PG_RETURN_VOID();
}

/* alter_shard --------------------------------------------------------------- */

static List *
altered_options(FunctionCallInfo fcinfo, const Address *address)
{
	List	   *options = list_copy(address->options);
	char	   *state = optional_text(fcinfo, 4);

	options = add_option(options, "region", optional_text(fcinfo, 2));
	options = add_option(options, "weight", weight_text(fcinfo, 3));
	options = add_option(options, "client_address", optional_text(fcinfo, 5));
	if (state != NULL && state[0] == '\0')
		(void) sl_state_parse(state);
	return add_option(options, "state", state);
}

/* Not if it was bare until now, or if the extension was created again on it. */
static bool
knows_its_maps(SlConn *conn, const SlShard *shard)
{
	char	   *sql;

	if (shard->bare)
		return true;
	sql = psprintf("SELECT count(*) >= %d FROM shardlet.catalog_guard_map",
				   list_length(sl_map_ids_of_shard(shard->id)));
	return sl_remote_bool(sl_remote_query(conn, sql, 0, NULL), 0, 0);
}

/*
 * Makes sure that the shard can be reached under its new address, and is the
 * one that was registered.  A shard that is or becomes offline is not tried.
 * Returns whether one that returns has never heard of its maps.
 */
static bool
check_reachable(SlShard *shard, List *options, const Address *address)
{
	SlTarget	target = sl_remote_target(shard);
	const char *state = sl_option_get(options, "state");
	SlState		new_state = state ? sl_state_parse(state) : shard->state;
	bool		was_offline = shard->state == SL_STATE_OFFLINE;
	bool		lacks_maps;
	SlConn	   *conn;

	if (new_state == SL_STATE_OFFLINE)
		return false;
	if (address->options == NIL && address->credentials == NIL && !was_offline)
		return false;
	target.options = sl_option_merge(target.options, address->options);
	target.credentials = sl_option_merge(target.credentials, address->credentials);
	conn = sl_remote_open(&target);
	lacks_maps = was_offline && !knows_its_maps(conn, shard);
	sl_conn_close(conn);
	return lacks_maps;
}

/* Changes the server.  The flag must not survive that, however it ends. */
static void
register_change(const char *name, List *options)
{
	sl_shard_is_registering = true;
	PG_TRY();
	{
		alter_server(name, options);
	}
	PG_FINALLY();
	{
		sl_shard_is_registering = false;
	}
	PG_END_TRY();
}

/* alter_shard(shard, conninfo, region, weight, state, client_address) */
Datum
shardlet_alter_shard(PG_FUNCTION_ARGS)
{
	char	   *name;
	char	   *conninfo;
	SlShard    *shard;
	bool		was_offline;
	bool		lacks_maps;
	Address		address = {0};
	List	   *options;
	ForeignServer *server;
	ErrorContextCallback callback = {.callback = hide_statement};

	conninfo = optional_text(fcinfo, 1);
	callback.previous = error_context_stack;
	if (conninfo != NULL)
		error_context_stack = &callback;
	sl_check_writable("shardlet.alter_shard()");
	name = sl_map_arg_name(fcinfo, 0, "shard");
	shard = sl_shard_by_name(name, false);
	if (!sl_server_ownercheck(shard->server, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, name);
	sl_shard_lock(shard, ShareUpdateExclusiveLock);
	was_offline = shard->state == SL_STATE_OFFLINE;
	if (conninfo != NULL)
		address = parse_conninfo(conninfo);
	server = GetForeignServer(shard->server);
	options = sl_option_changes(server->options, altered_options(fcinfo, &address));
	sl_option_validate(options, ForeignServerRelationId);
	lacks_maps = check_reachable(shard, options, &address);
	register_change(name, options);

	/* What it missed while it was away, or what is elsewhere, is not known. */
	sl_shmem_flag(sl_shmem_shard(shard->id), SL_SHARD_FENCED | SL_SHARD_DIRTY);
	set_credentials(name, address.credentials);
	if (was_offline)
		catch_up(name, lacks_maps || sl_map_shard_is_behind(shard->id), lacks_maps, false);
	error_context_stack = callback.previous;
	PG_RETURN_VOID();
}

/* drop_shard ---------------------------------------------------------------- */

/* A move can do nothing more on a shard that is not known. */
static void
refuse_moves(const SlShard *shard)
{
	int64		move = sl_map_move_with(shard->id, 0, 0);

	if (move != 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shard \"%s\" is in use", NameStr(shard->name)),
				errdetail("A shardlet is being moved from or to it: see move %lld in shardlet.moves.",
						  (long long) move),
				errhint("Wait for it, or stop it with CALL shardlet.cancel_move(%lld). If the shard is lost, use force => true.",
						(long long) move));
}

/* drop_shard(shard, force) */
Datum
shardlet_drop_shard(PG_FUNCTION_ARGS)
{
	char	   *name;
	bool		force = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	SlShard    *shard;
	int64		count;
	List	   *placed;
	ObjectAddress object;

	sl_check_writable("shardlet.drop_shard()");
	name = sl_map_arg_name(fcinfo, 0, "shard");
	shard = sl_shard_by_name(name, false);
	if (!sl_server_ownercheck(shard->server, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, name);
	sl_shard_lock(shard, AccessExclusiveLock);

	/* If another router has it, the shards beside it can be used again. */
	sl_shmem_set_lost(sl_shmem_shard(shard->id), false);
	count = sl_map_count_shardlets(shard->id, 0);
	if (count > 0 && !force)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shard \"%s\" is in use", name),
				errdetail_plural("It owns %lld shardlet.", "It owns %lld shardlets.",
								 (unsigned long) count, (long long) count),
				errhint("CALL shardlet.drain_shard(%s) moves them to other shards, with their rows; force => true forgets them.", quote_literal_cstr(name)));
	if (!force)
		refuse_moves(shard);
	placed = sl_table_names_of(NULL, shard);
	if (placed != NIL && !force)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shard \"%s\" is in use", name),
				errdetail("Tables are placed on it: %s.", sl_table_list_names(placed)),
				errhint("shardlet.undistribute() or shardlet.detach() the tables first, or use force => true."));
	ObjectAddressSet(object, ForeignServerRelationId, shard->server);
	sl_map_forget_shard(shard->id);
	sl_missed_ddl_forget(shard->id);
	performDeletion(&object, DROP_CASCADE, 0);

	/*
	 * The next DROP DATABASE must not find a connection of this session in
	 * it.
	 */
	(void) sl_pool_close_idle(shard->id);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}
