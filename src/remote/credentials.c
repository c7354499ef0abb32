/*
 * credentials.c
 *		Whose name and password open a connection to a shard.
 *
 * A user mapping is looked for in this order: the user's own on the shard's
 * server, the user's own on the server that all sharded tables share, PUBLIC's
 * on the shard's server, PUBLIC's on the shared one.  So one mapping on the
 * shared server serves all shards, and a shard may still have its own.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "foreign/foreign.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "remote/remote.h"

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

/* A server of that name which is not ours does not count. */
static Oid
shared_server(void)
{
	ForeignServer *server = GetForeignServerByName(SL_TABLES_SERVER_NAME, true);

	if (server == NULL ||
		server->fdwid != get_foreign_data_wrapper_oid(SL_WRAPPER_NAME, true))
		return InvalidOid;
	return server->serverid;
}

/* Returns the options of the mapping that counts, or NIL. */
List *
sl_remote_credentials(Oid user, Oid server)
{
	Oid			shared = shared_server();
	List	   *options = NIL;

	if (!find_mapping(user, server, &options) &&
		!find_mapping(user, shared, &options) &&
		!find_mapping(InvalidOid, server, &options))
		(void) find_mapping(InvalidOid, shared, &options);
	return options;
}
