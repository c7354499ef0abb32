/*
 * preconditions.c
 *		What is refused before a move begins.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "executor/exposed_functions.h"
#include "move/move_internal.h"

/* What the two shards, and the shardlet between them, look like -------------------- */

static void
check_states(const SlMap *map, const SlShardletRow *row, const SlShard *from, const SlShard *to,
			 SlMoveMode mode, int64 move)
{
	if (!to->exists)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("the shard that shardlet %lld was to be moved to does not exist any more", (long long) row->id),
				errdetail("Its id was %d.", to->id),
				errhint("Move the shardlet to another shard with shardlet.move_shardlet()."));
	if (from->id == to->id)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shardlet %lld is already on shard \"%s\"", (long long) row->id, NameStr(to->name)));
	if (!from->exists)
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("shardlet %lld is on a shard that does not exist any more", (long long) row->id),
				errdetail("Its id was %d.", from->id),
				errhint("Give the shardlet to another shard with shardlet.reassign()."));
	if (to->state != SL_STATE_ONLINE)
		ereport(ERROR,
				errcode(to->state == SL_STATE_OFFLINE ? SL_ERR_UNREACHABLE : SL_ERR_READ_ONLY),
				errmsg("shard \"%s\" is %s", NameStr(to->name), sl_state_name(to->state)),
				errdetail("A shardlet can be moved only to a shard that is online."));
	if (from->state != SL_STATE_ONLINE)
		ereport(ERROR,
				errcode(from->state == SL_STATE_OFFLINE ? SL_ERR_UNREACHABLE : SL_ERR_READ_ONLY),
				errmsg("shard \"%s\" is %s", NameStr(from->name), sl_state_name(from->state)),
				errdetail("What a shardlet leaves behind has to be removed there."));
	if ((row->state == SL_STATE_OFFLINE && mode != SL_MOVE_OFFLINE) ||
		(row->state == SL_STATE_READ_ONLY && mode == SL_MOVE_ONLINE))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shardlet %lld is %s", (long long) row->id, sl_state_name(row->state)),
				errdetail("It cannot be moved in a mode in which it would be more than that."),
				errhint("Use mode \"%s\".", sl_state_name(row->state)));
	sl_map_check_slot(map, to, move);
}

/* What the shards say -------------------------------------------------------------------- */

/* Copied rows must not fire triggers, and removed ones neither. */
static void
check_rights(SlConn *conn)
{
	PGresult   *answer = sl_remote_query(conn,
										 "SELECT pg_catalog.has_parameter_privilege('session_replication_role', 'SET'), pg_catalog.quote_ident(current_user)",
										 0, NULL);

	if (!sl_remote_bool(answer, 0, 0))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("no right to move rows on shard \"%s\"", conn->shard),
				errdetail("Triggers and foreign keys must not fire for rows that are moved."),
				errhint("Run there: GRANT SET ON PARAMETER session_replication_role TO %s;",
						sl_protocol_value(conn, answer, 0, 1)));
}

/* What a move calls on a shard; a bare one has none of it. */
static void
check_functions(SlConn *conn)
{
	PGresult   *answer = sl_remote_query(conn,
										 "SELECT coalesce(pg_catalog.bool_and(pg_catalog.has_function_privilege(p.oid, 'EXECUTE')), true), pg_catalog.quote_ident(current_user)"
										 " FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace"
										 " WHERE n.nspname OPERATOR(pg_catalog.=) 'shardlet' AND p.proname OPERATOR(pg_catalog.=) ANY ('{guard_change,guard_lock,copy_as_owner,run_as_owner}')",
										 0, NULL);

	if (!sl_remote_bool(answer, 0, 0))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("no right to change the owner of rows on shard \"%s\"", conn->shard),
				errhint("Run there: GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shardlet TO %s;",
						sl_protocol_value(conn, answer, 0, 1)));
}

/* A table that is not there yet will be made by the same user. */
static void
check_table_rights(SlConn *conn, const SlMoveTable *table, const char *privileges)
{
	const char *params[] = {table->name, privileges};
	PGresult   *answer = sl_remote_query(conn,
										 "SELECT pg_catalog.string_agg(p, ', '), pg_catalog.quote_ident(current_user) FROM pg_catalog.unnest($2::pg_catalog.text[]) p"
										 " WHERE NOT pg_catalog.has_table_privilege(pg_catalog.to_regclass($1)::pg_catalog.oid, p)",
										 2, params);

	if (sl_remote_value(answer, 0, 0) != NULL)
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("no right to move rows of table \"%s\" on shard \"%s\"", table->label, conn->shard),
				errhint("Run there: GRANT %s ON %s TO %s;", sl_protocol_value(conn, answer, 0, 0), table->name,
						sl_protocol_value(conn, answer, 0, 1)));
}

static bool
has_rows(SlConn *conn, const SlMoveTable *table, const char *condition)
{
	char	   *sql = psprintf("SELECT EXISTS (SELECT FROM %s WHERE %s)", table->name, condition);

	return sl_remote_bool(sl_remote_exec(conn, sql, 0, NULL), 0, 0);
}

/*
 * A shard that owns nothing of the map is never queried, but from now on all of its
 * rows would be visible: also those that are left from earlier.
 */
static void
check_empty(SlConn *conn, const SlMoveTable *table)
{
	if (has_rows(conn, table, "true"))
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("table \"%s\" has rows on shard \"%s\", which owns nothing of the map", table->label, conn->shard),
				errdetail("They belong to no shardlet there, and would be read as soon as one is there."),
				errhint("Remove them, or drop the table on that shard."));
}

static void
check_no_rows(SlConn *conn, const SlMoveTable *table, int64 shardlet, bool is_new)
{
	const char *name = table->name;

	if (!sl_remote_bool(sl_remote_query(conn, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", 1, &name), 0, 0))
		return;
	if (has_rows(conn, table, table->condition))
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("shard \"%s\" already has rows of shardlet %lld", conn->shard, (long long) shardlet),
				errdetail("They are in table \"%s\".", table->label),
				errhint("Remove them, or wait until a move that left them has done so: see shardlet.moves."));
	if (is_new)
		check_empty(conn, table);
}

/* Triggers of the table and its partitions that fire for moved rows, too. */
#define FIRING_SQL \
	"SELECT pg_catalog.quote_ident(g.tgname), g.tgrelid::pg_catalog.regclass FROM pg_catalog.pg_trigger g" \
	" WHERE g.tgenabled OPERATOR(pg_catalog.=) ANY ('{A,R}') AND (g.tgrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1)::pg_catalog.oid" \
	" OR g.tgrelid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass($1))))) LIMIT 1"

/*
 * A move neither inserts nor deletes rows in the sense of the application, and a
 * trigger would run with the privileges of the user that moves them.
 */
static void
check_triggers(SlConn *conn, const SlMoveTable *table)
{
	const char *name = table->name;
	PGresult   *answer = sl_remote_query(conn, FIRING_SQL, 1, &name);

	if (PQntuples(answer) > 0)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("rows of table \"%s\" cannot be moved", table->label),
				errdetail("Trigger %s of %s on shard \"%s\" is enabled for replicas, so it would fire for moved rows.",
						  sl_protocol_value(conn, answer, 0, 0), sl_protocol_value(conn, answer, 0, 1), conn->shard),
				errhint("Run there: ALTER TABLE %s ENABLE TRIGGER %s.", sl_protocol_value(conn, answer, 0, 1),
						sl_protocol_value(conn, answer, 0, 0)));
}

/* Columns whose values would not be copied; generated ones are computed again. */
#define UNKNOWN_SQL \
	"SELECT a.attname FROM pg_catalog.pg_attribute a" \
	" WHERE a.attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1)::pg_catalog.oid AND a.attnum OPERATOR(pg_catalog.>) 0" \
	" AND NOT a.attisdropped AND a.attgenerated OPERATOR(pg_catalog.=) ''" \
	" AND a.attname::pg_catalog.text OPERATOR(pg_catalog.<>) ALL ($2::pg_catalog.text[]) ORDER BY a.attnum LIMIT 1"

/* A column of the table that the router does not know; NULL: there is none. */
static const char *
find_unknown(SlConn *conn, const SlMoveTable *table)
{
	const char *params[] = {table->name, table->column_names};
	PGresult   *answer = sl_remote_query(conn, UNKNOWN_SQL, lengthof(params), params);

	return PQntuples(answer) > 0 ? sl_remote_value(answer, 0, 0) : NULL;
}

/* Fails if the source has columns that the router does not know of: they would be lost. */
void
sl_move_check_columns(SlConn *conn, List *tables)
{
	ListCell   *cell;

	foreach(cell, tables)
	{
		const SlMoveTable *table = lfirst(cell);
		const char *column = find_unknown(conn, table);

		if (column != NULL)
			ereport(ERROR,
					errcode(SL_ERR_DIFFERENT),
					errmsg("table \"%s\" has a column \"%s\" on shard \"%s\" that the router does not know", table->label,
						   column, conn->shard),
					errdetail("Its values would be lost."),
					errhint("shardlet.attach() of the table makes the column known."));
	}
}

/* Online ------------------------------------------------------------------------------------ */

/* The table itself, or its partitions. */
#define TABLES_THAT_SQL(condition) \
	"SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class c" \
	" WHERE (c.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass($1)) WHERE isleaf))" \
	" OR (c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1)::pg_catalog.oid" condition "))"
#define TABLES_SQL TABLES_THAT_SQL(" AND c.relkind OPERATOR(pg_catalog.=) 'r'")

/* Without the guard, writes to the old owner would not be refused after the switch. */
static void
check_guarded(const SlShard *shard)
{
	if (shard->bare)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("shard \"%s\" has no extension shardlet", NameStr(shard->name)),
				errdetail("Writers have to wait on the shard itself for the moment in which the owner changes."),
				errhint("Use mode \"read_only\"."));
}

/* Runs a query; if the result is false, the mode has a requirement that is not met. */
static void
require_on_shard(SlConn *conn, const char *sql, const char *message, const char *hint)
{
	PGresult   *answer = sl_remote_query(conn, sql, 0, NULL);

	if (sl_remote_bool(answer, 0, 0))
		return;
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("shardlets cannot be moved online: %s on shard \"%s\"", message, conn->shard),
			errhint("%s: %s. Or use mode \"read_only\".", hint, sl_protocol_value(conn, answer, 0, 1)));
}

/*
 * The table itself or its partitions, those whose guard is missing or does not fire:
 * they accept writes that do not wait for the switch and would come too late.
 */
#define UNGUARDED_SQL \
	TABLES_SQL " AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g" \
	" JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) g.tgfoid JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace" \
	" WHERE g.tgrelid OPERATOR(pg_catalog.=) c.oid AND g.tgenabled OPERATOR(pg_catalog.=) ANY ('{O,A}')" \
	" AND g.tgtype OPERATOR(pg_catalog.&) 1::pg_catalog.int2 OPERATOR(pg_catalog.=) 1" \
	" AND n.nspname OPERATOR(pg_catalog.=) '" SL_INTERNAL_SCHEMA "' AND p.proname OPERATOR(pg_catalog.=) 'guard') LIMIT 1"

/* Online: fails if writers of a table would not be stopped at the switch. */
void
sl_move_check_guards(SlConn *conn, List *tables)
{
	ListCell   *cell;

	foreach(cell, tables)
	{
		const SlMoveTable *table = lfirst(cell);
		const char *name = table->name;
		PGresult   *answer = sl_remote_query(conn, UNGUARDED_SQL, 1, &name);

		if (PQntuples(answer) > 0)
			ereport(ERROR,
					errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("shardlets of table \"%s\" cannot be moved online", table->label),
					errdetail("The guard of %s on shard \"%s\" is missing or disabled, so writes to the old owner would not be refused after the switch.",
							  sl_protocol_value(conn, answer, 0, 0), conn->shard),
					errhint("Run there: ALTER TABLE %s ENABLE TRIGGER \"!shardlet_guard\". If there is none, shardlet.attach() creates it again. Or use mode \"read_only\".",
							sl_protocol_value(conn, answer, 0, 0)));
	}
}

/* On both: a marker is passed from one to the other. */
static void
check_marker(SlConn *conn)
{
	require_on_shard(conn, "SELECT pg_catalog.has_schema_privilege('shardlet', 'CREATE'), 'GRANT CREATE ON SCHEMA shardlet TO ' || pg_catalog.quote_ident(current_user)",
					 "the user has no right to make tables in schema shardlet", "Run there");
}

static void
check_source(SlConn *conn)
{
	require_on_shard(conn, "SELECT pg_catalog.current_setting('wal_level') OPERATOR(pg_catalog.=) 'logical', 'wal_level = logical'",
					 "wal_level is not logical", "Set there and restart the server");
	require_on_shard(conn, "SELECT rolsuper OR rolreplication, 'ALTER ROLE ' || pg_catalog.quote_ident(current_user) || ' REPLICATION' FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user",
					 "the user has no right to replicate", "Run there");
	require_on_shard(conn, "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'), 'GRANT CREATE ON DATABASE ' || pg_catalog.quote_ident(pg_catalog.current_database()) || ' TO ' || pg_catalog.quote_ident(current_user)",
					 "the user has no right to publish", "Run there");
	require_on_shard(conn, "SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots) OPERATOR(pg_catalog.<) pg_catalog.current_setting('max_replication_slots')::pg_catalog.int8, 'max_replication_slots'",
					 "no replication slot is free", "Raise there");
	require_on_shard(conn, "SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication) OPERATOR(pg_catalog.+) 1 OPERATOR(pg_catalog.<) pg_catalog.current_setting('max_wal_senders')::pg_catalog.int8, 'max_wal_senders'",
					 "no walsender is free", "Raise there");
}

static void
check_target(SlConn *conn)
{
	const char *origins = PQserverVersion(conn->pg) < 180000 ? "max_replication_slots" : "max_active_replication_origins";

	if (PQserverVersion(conn->pg) < 160000)
		require_on_shard(conn, "SELECT rolsuper, 'ALTER ROLE ' || pg_catalog.quote_ident(current_user) || ' SUPERUSER' FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user",
						 "the user has no right to subscribe", "Before PostgreSQL 16 only a superuser can; run there");
	else
		require_on_shard(conn, "SELECT pg_catalog.pg_has_role('pg_create_subscription', 'USAGE') AND pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'), 'GRANT pg_create_subscription TO ' || pg_catalog.quote_ident(current_user) || '; GRANT CREATE ON DATABASE ' || pg_catalog.quote_ident(pg_catalog.current_database()) || ' TO ' || pg_catalog.quote_ident(current_user)",
						 "the user has no right to subscribe", "Run there");
	require_on_shard(conn, "SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_subscription WHERE pid IS NOT NULL) OPERATOR(pg_catalog.<) pg_catalog.current_setting('max_logical_replication_workers')::pg_catalog.int8, 'max_logical_replication_workers'",
					 "no worker for logical replication is free", "Raise there");
	require_on_shard(conn, psprintf("SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_origin) OPERATOR(pg_catalog.<) pg_catalog.current_setting('%s')::pg_catalog.int8, '%s'", origins, origins),
					 "no replication origin is free", "Raise there");
}

/* The index that is a table's replica identity, and the numbers of its columns. */
#define INDEX_SQL \
	"pg_catalog.pg_index i WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND i.indimmediate" \
	" AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END"
#define COLUMNS_SQL "(i.indkey::pg_catalog.int2[])[0:i.indnkeyatts OPERATOR(pg_catalog.-) 1]"

/*
 * Those whose replica identity lacks a key column.  Changes of a partition are written
 * with its own, and sent as changes of the whole table, with that one's.
 */
#define IDENTITY_SQL \
	TABLES_THAT_SQL("") " AND c.relreplident OPERATOR(pg_catalog.<>) 'f' AND NOT EXISTS (SELECT FROM " INDEX_SQL \
	" AND ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_attribute a" \
	" WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.=) ANY (" COLUMNS_SQL "))" \
	" OPERATOR(pg_catalog.@>) $2::pg_catalog.text[]) LIMIT 1"

/*
 * Those whose replica identity has a generated column.  Since 18 the application's
 * updates would fail, before that the subscription; but before that it knew how to
 * leave such columns out of a whole row.
 */
#define GENERATED_SQL \
	TABLES_SQL " AND EXISTS (SELECT FROM pg_catalog.pg_attribute a" \
	" WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped" \
	" AND a.attgenerated OPERATOR(pg_catalog.<>) '' AND ((c.relreplident OPERATOR(pg_catalog.=) 'f'" \
	" AND pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 180000)" \
	" OR EXISTS (SELECT FROM " INDEX_SQL " AND a.attnum OPERATOR(pg_catalog.=) ANY (" COLUMNS_SQL ")))) LIMIT 1"

/* Those whose changes look for a row by all of its columns. */
#define WHOLE_ROW_SQL \
	TABLES_SQL " AND c.relreplident OPERATOR(pg_catalog.=) 'f' AND NOT EXISTS (SELECT FROM pg_catalog.pg_index i" \
	" WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND i.indisprimary AND i.indimmediate) LIMIT 1"

/*
 * Without equality the subscription would stop at the first row that it has to find,
 * and with a column that the source does not send it would silently find none.
 */
static void
check_whole_rows(SlConn *source, SlConn *target, const SlMoveTable *table)
{
	const char *name = table->name;
	PGresult   *answer = sl_remote_query(source, WHOLE_ROW_SQL, 1, &name);
	const char *column;

	if (PQntuples(answer) == 0)
		return;
	if (table->incomparable != NULL)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("shardlets of table \"%s\" cannot be moved online", table->label),
				errdetail("The replica identity of %s on shard \"%s\" is the whole row, and the type of column \"%s\" has no equality by which rows could be found.",
						  sl_protocol_value(source, answer, 0, 0), source->shard, table->incomparable),
				errhint("Add a primary key that contains the key, or use mode \"read_only\"."));
	column = find_unknown(target, table);
	if (column != NULL)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("table \"%s\" has a column \"%s\" on shard \"%s\" that the router does not know", table->label,
					   column, target->shard),
				errdetail("Its replica identity is the whole row, so rows would not be found there."),
				errhint("Add a primary key that contains the key, or use mode \"read_only\"."));
}

/*
 * A filter on a column outside of the identity would make every UPDATE and
 * DELETE of the application fail.
 */
static void
check_identity(SlConn *conn, const SlMoveTable *table)
{
	const char *params[] = {table->name, table->key_names};
	PGresult   *answer;

	if (table->has_generated_key)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("shardlets of table \"%s\" cannot be moved online", table->label),
				errdetail("Its key is a generated column, which logical replication does not send."),
				errhint("Use mode \"read_only\"."));
	answer = sl_remote_query(conn, IDENTITY_SQL, 2, params);
	if (PQntuples(answer) > 0)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("shardlets of table \"%s\" cannot be moved online", table->label),
				errdetail("The replica identity of %s on shard \"%s\" has not all columns of the key.",
						  sl_protocol_value(conn, answer, 0, 0), conn->shard),
				errhint("Add a primary key that contains the key, or ALTER TABLE %s REPLICA IDENTITY FULL there; or use mode \"read_only\".",
						sl_protocol_value(conn, answer, 0, 0)));
	answer = sl_remote_query(conn, GENERATED_SQL, 1, params);
	if (PQntuples(answer) > 0)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("shardlets of table \"%s\" cannot be moved online", table->label),
				errdetail("The replica identity of %s on shard \"%s\" has a generated column, which logical replication does not send.",
						  sl_protocol_value(conn, answer, 0, 0), conn->shard),
				errhint("Use mode \"read_only\"."));
}

/* As what rows are written on a shard where the table's owner cannot be it. */
static bool
is_superuser(SlConn *conn)
{
	return strcmp(sl_remote_value(sl_remote_query(conn, "SELECT pg_catalog.current_setting('is_superuser')", 0, NULL), 0, 0), "on") == 0;
}

/*
 * Fails if a superuser would run functions of others for rows that come to the shard.
 * Rows are copied as the table's owner, unless the shard has no extension; and before
 * PostgreSQL 16 changes are applied as the owner of the subscription.
 */
void
sl_move_check_exposed(SlConn *conn, const SlShard *shard, List *tables, SlMoveMode mode)
{
	bool		is_applied = mode == SL_MOVE_ONLINE && PQserverVersion(conn->pg) < 160000;
	ListCell   *cell;

	if ((!shard->bare && !is_applied) || !is_superuser(conn))
		return;
	foreach(cell, tables)
	{
		const SlMoveTable *table = lfirst(cell);
		const char *params[] = {table->name, table->column_names};
		PGresult   *answer = sl_remote_query(conn, sl_exposed_sql, lengthof(params), params);

		if (PQntuples(answer) > 0)
			ereport(ERROR,
					errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					is_applied ? errmsg("shardlets of table \"%s\" cannot be moved online", table->label) :
					errmsg("rows of table \"%s\" cannot be moved", table->label),
					errdetail("Function %s, which %s on shard \"%s\" calls, would be run as a superuser there.",
							  sl_remote_value(answer, 0, 0), sl_remote_value(answer, 0, 1), conn->shard),
					is_applied ?
					errhint("Use mode \"read_only\", which runs it as the table's owner; or make a superuser the owner of the function, if it can be trusted; from PostgreSQL 16 on, changes are applied as the table's owner.") :
					errhint("Install the extension on the shard, or make a superuser the owner of the function, if it can be trusted."));
	}
}

/* Only its owner can publish a table. */
static void
check_table_owner(SlConn *conn, const SlMoveTable *table)
{
	const char *name = table->name;
	PGresult   *answer = sl_remote_query(conn,
										 "SELECT pg_catalog.pg_has_role(relowner, 'USAGE'), pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(relowner)), pg_catalog.quote_ident(current_user)"
										 " FROM pg_catalog.pg_class WHERE oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1)::pg_catalog.oid", 1, &name);

	if (PQntuples(answer) > 0 && !sl_remote_bool(answer, 0, 0))
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("shardlets cannot be moved online: the user does not own table \"%s\" on shard \"%s\"", table->label,
					   conn->shard),
				errhint("Run there: GRANT %s TO %s. Or use mode \"read_only\".", sl_protocol_value(conn, answer, 0, 1),
						sl_protocol_value(conn, answer, 0, 2)));
}

static void
check_shards(SlMap *map, const SlShardletRow *row, SlShard *from, SlShard *to, SlMoveMode mode)
{
	List	   *tables = sl_move_list_tables(map, row);
	SlConn	   *source = sl_move_connect(NULL, from);
	SlConn	   *target = sl_move_connect(NULL, to);
	bool		is_new = sl_map_count_shardlets(to->id, map->id) == 0 && sl_map_move_with(to->id, map->id, 0) == 0;
	ListCell   *cell;

	check_rights(source);
	check_rights(target);
	check_functions(source);
	check_functions(target);
	foreach(cell, tables)
	{
		check_table_rights(source, lfirst(cell), "{SELECT,DELETE}");
		check_table_rights(target, lfirst(cell), "{SELECT,INSERT,DELETE}");
		check_triggers(source, lfirst(cell));
		check_triggers(target, lfirst(cell));
	}
	sl_move_check_columns(source, tables);
	sl_move_check_exposed(target, to, tables, mode);
	if (mode == SL_MOVE_ONLINE)
	{
		check_source(source);
		check_target(target);
		check_marker(source);
		check_marker(target);
		sl_move_check_guards(source, tables);
		sl_move_check_guards(target, tables);
		foreach(cell, tables)
		{
			check_table_owner(source, lfirst(cell));
			check_identity(source, lfirst(cell));
			check_whole_rows(source, target, lfirst(cell));
		}
	}
	foreach(cell, tables)
		check_no_rows(target, lfirst(cell), row->id, is_new);
}

/* Fails if the shardlet cannot be moved there in this mode. */
void
sl_move_check_preconditions(SlMap *map, const SlShardletRow *row, SlShard *to, SlMoveMode mode, bool query_shards)
{
	SlShard    *from = sl_shard_by_id(row->shard_id);

	check_states(map, row, from, to, mode, 0);
	if (mode == SL_MOVE_ONLINE)
	{
		check_guarded(from);
		check_guarded(to);
	}
	if (query_shards)
	{
		MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet check", ALLOCSET_SMALL_SIZES);
		MemoryContext old_context = MemoryContextSwitchTo(context);

		check_shards(map, row, from, to, mode);
		MemoryContextSwitchTo(old_context);

		/* Connections go with it: a shard may have many shardlets. */
		MemoryContextDelete(context);
	}
}

/*
 * The same for a move under way, of what may have changed since it was requested.
 * The map is open for a change.
 */
void
sl_move_recheck_preconditions(SlMap *map, const SlShardletRow *row, SlShard *to, const SlMove *move)
{
	check_states(map, row, sl_shard_by_id(row->shard_id), to, move->mode, move->id);
}
