/*
 * provision_shard.c
 *		Prepares a database to be a shard.
 *
 * What is done here is done on other databases through their own connections
 * and is committed there at once, whatever becomes of the router's
 * transaction.  So every step may be found done already, and is left as it is:
 * a database created for this shard, the extension, the identity.
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "postmaster/postmaster.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/varlena.h"

#include "base/base.h"
#include "commands/commands.h"

#define OLDEST_VERSION 150000
#define IDENTITY_BYTES 16

/* What a database says of itself; the same question goes to the router. */
static const char probe_sql[] =
"SELECT pg_catalog.pg_encoding_to_char(d.encoding),"
" pg_catalog.concat_ws(' ', d.datcollate, d.datctype,"
"  coalesce(pg_catalog.to_jsonb(d) ->> 'datlocale', pg_catalog.to_jsonb(d) ->> 'daticulocale'),"
"  pg_catalog.to_jsonb(d) ->> 'daticurules'),"
" pg_catalog.current_setting('max_prepared_transactions')::int > 0,"
" " SL_IDENTITY_SQL ","
" (SELECT e.extversion FROM pg_catalog.pg_extension e WHERE e.extname = 'shardlet'),"
" EXISTS (SELECT FROM pg_catalog.pg_available_extensions a WHERE a.name = 'shardlet'),"
" pg_catalog.pg_has_role(d.datdba, 'MEMBER')"
" FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()";

typedef struct Probe
{
	const char *encoding;
	const char *collation;
	bool		can_prepare;
	const char *identity;		/* or NULL */
	const char *extension;		/* version, or NULL */
	bool		is_available;
	bool		can_alter;		/* may the user ALTER DATABASE */
} Probe;

enum
{
	PROBE_ENCODING, PROBE_COLLATION, PROBE_CAN_PREPARE, PROBE_IDENTITY,
	PROBE_EXTENSION, PROBE_IS_AVAILABLE, PROBE_CAN_ALTER
};

static Probe
probe_shard(SlConn *conn)
{
	PGresult   *result = sl_remote_query(conn, probe_sql, 0, NULL);
	Probe		probe;

	probe.encoding = sl_protocol_value(conn, result, 0, PROBE_ENCODING);
	probe.collation = sl_protocol_value(conn, result, 0, PROBE_COLLATION);
	probe.can_prepare = sl_remote_bool(result, 0, PROBE_CAN_PREPARE);
	probe.identity = sl_remote_value(result, 0, PROBE_IDENTITY);
	probe.extension = sl_remote_value(result, 0, PROBE_EXTENSION);
	probe.is_available = sl_remote_bool(result, 0, PROBE_IS_AVAILABLE);
	probe.can_alter = sl_remote_bool(result, 0, PROBE_CAN_ALTER);
	return probe;
}

/* The router's collation and extension version; the rest is not needed. */
static Probe
probe_router(void)
{
	Probe		probe = {0};
	MemoryContext caller = CurrentMemoryContext;
	int			nest_level = NewGUCNestLevel();

	/* Only PostgreSQL's own operators are used. */
	(void) set_config_option("search_path", "pg_catalog", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
	if (SPI_execute(probe_sql, true, 1) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "could not read the properties of the database");
	probe.collation = MemoryContextStrdup(caller,
										  SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc,
													   PROBE_COLLATION + 1));
	probe.extension = MemoryContextStrdup(caller,
										  SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc,
													   PROBE_EXTENSION + 1));
	SPI_finish();
	AtEOXact_GUC(true, nest_level);
	return probe;
}

static void
check_version(SlConn *conn)
{
	int			version = PQserverVersion(conn->pg);

	if (version < OLDEST_VERSION)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("server of shard \"%s\" is too old", conn->shard),
				errdetail("It is PostgreSQL %d, and at least %d is needed.",
						  version / 10000, OLDEST_VERSION / 10000));
}

/* Fails if strings cannot be the same.  Returns whether they sort differently. */
static bool
check_locale(SlConn *conn, const Probe *probe, const Probe *router)
{
	bool		differs = strcmp(probe->collation, router->collation) != 0;

	if (strcmp(probe->encoding, GetDatabaseEncodingName()) != 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("encoding of shard \"%s\" differs from the router's", conn->shard),
				errdetail("The shard has %s and the router %s.",
						  probe->encoding, GetDatabaseEncodingName()),
				errhint("Create the shard's database with ENCODING '%s'.",
						GetDatabaseEncodingName()));
	if (differs)
		ereport(WARNING,
				errmsg("default collation of shard \"%s\" differs from the router's", conn->shard),
				errdetail("The shard has \"%s\" and the router \"%s\".",
						  probe->collation, router->collation),
				errhint("Sorting, grouping and comparing text will be done on the router instead of the shard, which is slower."));
	return differs;
}

/* Fails unless the shard can take part in a transaction over several shards. */
static void
check_can_prepare(SlConn *conn, const Probe *probe)
{
	if (!probe->can_prepare)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("prepared transactions are disabled on the server of shard \"%s\"", conn->shard),
				errdetail("Transactions over several shards need them."),
				errhint("Set max_prepared_transactions = %d in postgresql.conf there and restart it, or add the shard with install => false.",
						MaxConnections));
}

static void
install_extension(SlConn *conn, const Probe *probe, const Probe *router)
{
	if (probe->extension == NULL && !probe->is_available)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("extension \"shardlet\" is not available on the server of shard \"%s\"",
					   conn->shard),
				errhint("Install it there, or add the shard with install => false."));
	if (probe->extension == NULL)
		sl_remote_exec(conn, "CREATE EXTENSION IF NOT EXISTS shardlet", 0, NULL);
	else if (strcmp(probe->extension, router->extension) != 0)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shard \"%s\" has another version of extension \"shardlet\"", conn->shard),
				errdetail("The shard has %s and the router %s.",
						  probe->extension, router->extension),
				errhint("Run ALTER EXTENSION shardlet UPDATE where it is older."));
}

static char *
new_identity(void)
{
	uint8		bytes[IDENTITY_BYTES];
	StringInfoData digits;

	if (!pg_strong_random(bytes, sizeof(bytes)))
		ereport(ERROR,
				errcode(ERRCODE_INTERNAL_ERROR),
				errmsg("could not generate a random number"));
	initStringInfo(&digits);
	for (int i = 0; i < IDENTITY_BYTES; i++)
		appendStringInfo(&digits, "%02x", bytes[i]);
	return digits.data;
}

static char *
database_option_sql(const char *database, const char *option, const char *value)
{
	return psprintf("ALTER DATABASE %s SET %s = %s", quote_identifier(database), option,
					quote_literal_cstr(value));
}

/* Does another registered shard have this identity? */
static bool
is_taken(const char *identity)
{
	ListCell   *cell;

	foreach(cell, sl_shard_all())
	{
		SlShard    *shard = lfirst(cell);

		if (shard->identity != NULL && strcmp(shard->identity, identity) == 0)
			return true;
	}
	return false;
}

/* Stores a setting.  Returns why that is not possible, or NULL. */
static const char *
store_setting(SlConn *conn, const Probe *probe, const char *name, const char *value,
			  bool install)
{
	SlFailure  *failure;

	if (!probe->can_alter)
		return psprintf("User \"%s\" does not own database \"%s\".",
						PQuser(conn->pg), PQdb(conn->pg));

	/* The library knows the setting, and then an owner may set it. */
	if (install)
		sl_remote_exec(conn, "SELECT shardlet.token(0)", 0, NULL);
	(void) sl_remote_try(conn, database_option_sql(PQdb(conn->pg), name, value),
						 0, NULL, DT_NOEND, &failure);
	if (failure != NULL && failure->lost)
		sl_failure_raise(failure, conn->shard, NULL);
	return failure != NULL ? failure->message : NULL;
}

/*
 * Returns the shard's identity, NULL if none can be stored.  An existing one is kept,
 * unless it came with a copy of another shard: then this database gets one of its
 * own.
 */
static char *
ensure_identity(SlConn *conn, const Probe *probe, bool install)
{
	char	   *identity;
	const char *trouble;

	if (probe->identity != NULL && !is_taken(probe->identity))
		return pstrdup(probe->identity);
	identity = new_identity();
	trouble = store_setting(conn, probe, "shardlet.identity", identity, install);
	if (trouble == NULL)
		return identity;
	ereport(install ? ERROR : WARNING,
			errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("identity of shard \"%s\" cannot be stored", conn->shard),
			errdetail_internal("%s", trouble),
			install ? errhint("Connect as the owner of the database, or as a superuser.") :
			errhint("It will not be noticed if another database takes the shard's place. A superuser can GRANT SET ON PARAMETER shardlet.identity there."));
	return NULL;
}

/* Stores the shard's number, which is part of the ids that it gives. */
static void
store_number(SlConn *conn, const Probe *probe, int32 id)
{
	char	   *number = psprintf("%d", id);
	const char *trouble = store_setting(conn, probe, "shardlet.shard_id", number, true);

	if (trouble == NULL)
		return;
	ereport(WARNING,
			errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("number of shard \"%s\" cannot be stored", conn->shard),
			errdetail_internal("%s", trouble),
			errhint("shardlet.next_id() will refuse to work there until you run ALTER DATABASE %s SET shardlet.shard_id = %s.",
					quote_identifier(PQdb(conn->pg)), number));
}

/*
 * Checks the database of the connection and prepares it to be the shard with that id.
 * Returns its identity, or NULL, and whether it sorts text in another way.
 */
char *
sl_provision_shard(SlConn *conn, int32 id, bool install, bool *other_collation)
{
	char	   *identity;
	Probe		router = probe_router();
	Probe		probe;
	SlShard    *duplicate;

	check_version(conn);
	sl_duplicate_refuse_router(conn);
	probe = probe_shard(conn);
	*other_collation = check_locale(conn, &probe, &router);
	duplicate = sl_duplicate_find(conn, probe.identity);
	if (duplicate != NULL)
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("database of shard \"%s\" is already shard \"%s\"",
					   conn->shard, NameStr(duplicate->name)));
	if (install)
	{
		check_can_prepare(conn, &probe);
		install_extension(conn, &probe, &router);
	}
	identity = ensure_identity(conn, &probe, install);
	if (install)
		store_number(conn, &probe, id);
	return identity;
}

/* Local databases --------------------------------------------------------- */

/* Where this server itself listens: a socket if it has one. */
static const char *
own_host(void)
{
	List	   *directories = NIL;

	if (Unix_socket_directories != NULL &&
		SplitDirectoriesString(pstrdup(Unix_socket_directories), ',', &directories) &&
		directories != NIL)
		return linitial(directories);
	return "localhost";
}

static DefElem *
make_option(const char *keyword, const char *value)
{
	return makeDefElem(pstrdup(keyword), (Node *) makeString(pstrdup(value)), -1);
}

static List *
own_address(const char *database)
{
	List	   *address = list_make1(make_option("host", own_host()));

	address = lappend(address, make_option("port", psprintf("%d", PostPortNumber)));
	return lappend(address, make_option("dbname", database));
}

static char *
local_database_name(const char *router, const char *shard)
{
	char	   *name = psprintf("%s_%s", router, shard);

	if (strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				errcode(ERRCODE_NAME_TOO_LONG),
				errmsg("name of the database for shard \"%s\" would be too long", shard),
				errdetail("\"%s\" has %d bytes, and at most %d are possible.",
						  name, (int) strlen(name), NAMEDATALEN - 1),
				errhint("Create a database yourself and give its address."));
	return name;
}

/*
 * The statement that makes a database like the router's is written by the
 * server, which knows what its version calls the parts of a locale.
 */
static const char create_sql[] =
"SELECT pg_catalog.format('CREATE DATABASE %I TEMPLATE template0 ENCODING %L LC_COLLATE %L LC_CTYPE %L', "
"  $1::text, pg_catalog.pg_encoding_to_char(d.encoding), d.datcollate, d.datctype)"
" || CASE d.datlocprovider"
"  WHEN 'i' THEN pg_catalog.format(' LOCALE_PROVIDER icu ICU_LOCALE %L', l.locale)"
"   || coalesce(' ICU_RULES ' || pg_catalog.quote_literal(l.rules), '')"
"  WHEN 'b' THEN pg_catalog.format(' LOCALE_PROVIDER builtin BUILTIN_LOCALE %L', l.locale)"
"  ELSE ' LOCALE_PROVIDER libc' END"
" FROM pg_catalog.pg_database d,"
"  LATERAL (SELECT coalesce(pg_catalog.to_jsonb(d) ->> 'datlocale',"
"   pg_catalog.to_jsonb(d) ->> 'daticulocale') AS locale,"
"   pg_catalog.to_jsonb(d) ->> 'daticurules' AS rules) l"
" WHERE d.datname = pg_catalog.current_database()";

/* Is there such a database, and was it made for this shard of this router? */
static const char find_sql[] =
"SELECT coalesce(s.setconfig @> ARRAY['shardlet.made_for=' || $2], false)"
" FROM pg_catalog.pg_database d"
" LEFT JOIN pg_catalog.pg_db_role_setting s ON s.setdatabase = d.oid AND s.setrole = 0"
" WHERE d.datname = $1";

static void
create_database(SlConn *conn, const char *database, const char *mark)
{
	const char *params[] = {database};
	PGresult   *statement = sl_remote_exec(conn, create_sql, 1, params);

	/*
	 * A cancel between the two would leave a database that no shard refers
	 * to.
	 */
	HOLD_INTERRUPTS();
	sl_remote_exec(conn, sl_protocol_value(conn, statement, 0, 0), 0, NULL);
	sl_remote_exec(conn, database_option_sql(database, "shardlet.made_for", mark), 0, NULL);
	RESUME_INTERRUPTS();
}

/* Has the database anything in it that is not ours? */
static const char full_sql[] =
"SELECT EXISTS (SELECT FROM pg_catalog.pg_class c"
" WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')"
"  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_class'::regclass"
"   AND d.objid = c.oid AND d.deptype IN ('e', 'i', 'a')))";

/* A database that was in use is not taken for an empty one. */
static void
refuse_full(const char *shard, const char *database, List *credentials)
{
	SlTarget	target = {0};
	SlConn	   *conn;

	target.shard = shard;
	target.plain_path = true;
	target.options = own_address(database);
	target.credentials = credentials;
	conn = sl_remote_open(&target);
	if (sl_remote_bool(sl_remote_query(conn, full_sql, 0, NULL), 0, 0))
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("database \"%s\" already exists", database),
				errdetail("It was created for shard \"%s\" before, and is not empty.", shard),
				errhint("To make it a shard with what it has, give its address: shardlet.add_shard('%s', 'dbname=%s host=%s port=%d').",
						shard, database, own_host(), PostPortNumber));
	sl_conn_close(conn);
}

/*
 * Makes sure that the database for a local shard exists, and returns its address.
 * CREATE DATABASE cannot run in a transaction, so it goes through a connection to
 * this very server.  The database stays when the transaction is rolled back; the mark
 * on it lets the next call use it again, and tells it from a database of the same
 * name that was created otherwise.
 */
List *
sl_provision_local(const char *shard)
{
	char	   *router = get_database_name(MyDatabaseId);
	char	   *database = local_database_name(router, shard);
	char	   *mark = psprintf("%s.%s", pstrdup(quote_identifier(router)),
								quote_identifier(shard));
	const char *params[] = {database, mark};
	SlTarget	target = {0};
	SlConn	   *conn;
	PGresult   *found;

	target.shard = shard;
	target.plain_path = true;
	target.options = own_address(router);
	target.credentials = sl_remote_credentials(GetUserId(), InvalidOid);
	conn = sl_remote_open(&target);
	found = sl_remote_exec(conn, find_sql, 2, params);
	if (PQntuples(found) == 0)
		create_database(conn, database, mark);
	else if (sl_remote_bool(found, 0, 0))
	{
		refuse_full(shard, database, target.credentials);
		ereport(NOTICE,
				errmsg("using database \"%s\", which was created for shard \"%s\" before",
					   database, shard));
	}
	else
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("database \"%s\" already exists", database),
				errdetail("It was not created for shard \"%s\" of this router.", shard),
				errhint("To make it a shard, give its address: shardlet.add_shard('%s', 'dbname=... host=...').",
						shard));
	sl_conn_close(conn);
	return own_address(database);
}
