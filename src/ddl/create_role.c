/*
 * create_role.c
 *		Roles that tables need on shards: those of policies and grants.
 *
 * Roles belong to a server.  A role that a shard lacks is created there without LOGIN,
 * if the user of the user mapping may do that: no client can connect as it before an
 * administrator of that server has allowed it.  Otherwise the caller leaves the role
 * out and says so.
 *
 * This runs on a connection of its own and is committed at once.  Several shards may be
 * on one server, where the second one's transaction would wait for the first one's, and
 * would not see the role.  What a ROLLBACK leaves is a role without any privilege.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "ddl/create_on_shards.h"

static const char state_sql[] =
"SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) $1::pg_catalog.text) THEN 'exists'"
" WHEN (SELECT rolsuper OR rolcreaterole FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) CURRENT_USER) THEN 'missing'"
" ELSE 'no' END";

/*
 * Creates the role on a shard and returns true, if it is missing there and the user of
 * the connection may create roles.  A failure is that of the caller, who finds
 * the role missing.
 */
static bool
create_on_shard(SlShard *shard, const char *role)
{
	TimestampTz deadline = sl_wait_deadline(sl_connect_timeout);
	SlFailure  *failure;
	SlConn	   *conn = sl_remote_try_open_as(shard, GetUserId(), &failure);
	PGresult   *result;
	bool		is_created = false;

	if (conn == NULL)
		return false;
	result = sl_remote_try(conn, state_sql, 1, &role, deadline, &failure);
	if (result != NULL && PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), "missing") == 0)
	{
		conn->is_read_only = false;
		is_created = sl_remote_try(conn, psprintf("CREATE ROLE %s NOLOGIN", quote_identifier(role)), 0, NULL,
								   deadline, &failure) != NULL;
	}
	sl_conn_close(conn);
	return is_created;
}

/* Creates a role on those of the shards that lack it, where that is possible; '' is PUBLIC. */
void
sl_role_create(const SlRound *round, const char *role, int32 map_id)
{
	SlRound		copy = {palloc(sizeof(SlReply) * Max(round->count, 1)), round->count};

	if (role[0] == '\0')
		return;
	memcpy(copy.replies, round->replies, sizeof(SlReply) * round->count);
	sl_round_query_about(&copy, "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1::text)", role);
	for (int i = 0; i < copy.count; i++)
	{
		SlShard    *shard = copy.replies[i].shard;

		if (sl_round_says_yes(&copy.replies[i]) || !create_on_shard(shard, role))
			continue;
		ereport(NOTICE,
				errmsg("role \"%s\" was created on shard \"%s\", without LOGIN", role, NameStr(shard->name)));
		sl_object_list_add("role", role, shard->id, map_id);
	}
}
