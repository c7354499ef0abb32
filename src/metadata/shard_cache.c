/*
 * shard_cache.c
 *		The shards, as a cache of the session over pg_foreign_server.
 *
 * A shard is a server of the foreign data wrapper with the option "id".  All
 * its properties are options of that server: transactional, dumped, and
 * covered by PostgreSQL's own invalidation, on which this cache relies: any
 * change of a server invalidates it, and it is read again as a whole.
 *
 * The structs are in TopMemoryContext and never freed, since cached maps point
 * to them; a shard that is gone is marked as such.  Their strings are in a
 * context of their own that is reset at every reading.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "commands/defrem.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "metadata/map.h"

static HTAB *shards;
static MemoryContext string_context;
static bool shards_are_current;

static void
mark_stale(Datum arg, int cache_id, uint32 hash_value)
{
	shards_are_current = false;
}

void
sl_shard_init(void)
{
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, mark_stale, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNDATAWRAPPEROID, mark_stale, (Datum) 0);
}

static void
make_cache(void)
{
	HASHCTL		control = {0};

	control.keysize = sizeof(int32);
	control.entrysize = sizeof(SlShard);
	control.hcxt = TopMemoryContext;
	shards = hash_create("shardlet shards", 32, &control,
						 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	string_context = AllocSetContextCreate(TopMemoryContext,
										   "shardlet shard strings",
										   ALLOCSET_SMALL_SIZES);
}

/* Sets the address for applications: the client address, if there is one. */
static void
fill_address(SlShard *shard, List *options)
{
	const char *address = sl_option_get(options, "client_address");
	char	   *host = NULL;
	char	   *port = NULL;
	char	   *dbname = NULL;

	if (address != NULL)
		sl_option_parse_address(address, &host, &port, &dbname);
	shard->host = host ? host : sl_option_get(options, "host");
	if (shard->host == NULL)
		shard->host = sl_option_get(options, "hostaddr");
	shard->port = port ? port : sl_option_get(options, "port");
	shard->dbname = dbname ? dbname : sl_option_get(options, "dbname");
}

static void
fill_shard(SlShard *shard, Form_pg_foreign_server server, List *options)
{
	const char *state = sl_option_get(options, "state");
	const char *weight = sl_option_get(options, "weight");

	shard->exists = true;
	shard->server = server->oid;
	shard->name = server->srvname;
	shard->state = state ? sl_state_parse(state) : SL_STATE_ONLINE;
	shard->weight = weight ? (float4) strtod(weight, NULL) : 1;
	shard->bare = sl_option_is_on(options, "bare");
	shard->other_collation = sl_option_is_on(options, "other_collation");
	shard->identity = sl_option_get(options, "identity");
	shard->region = sl_option_get(options, "region");
	fill_address(shard, options);
}

/* A server that is a shard, as it was read. */
typedef struct FoundShard
{
	int32		id;
	FormData_pg_foreign_server server;
	List	   *options;
} FoundShard;

static FoundShard *
read_server(HeapTuple tuple, TupleDesc descriptor)
{
	FoundShard *found = palloc(sizeof(FoundShard));
	bool		is_null;
	Datum		raw = heap_getattr(tuple, Anum_pg_foreign_server_srvoptions,
								   descriptor, &is_null);
	const char *id;

	memcpy(&found->server, GETSTRUCT(tuple), sizeof(FormData_pg_foreign_server));
	found->options = is_null ? NIL : untransformRelOptions(raw);
	id = sl_option_get(found->options, "id");
	found->id = id != NULL ? (int32) strtol(id, NULL, 10) : 0;
	return found->id != 0 ? found : NULL;
}

/* Reads all servers that are shards, into the current memory context. */
static List *
read_servers(void)
{
	Oid			wrapper = get_foreign_data_wrapper_oid(SL_WRAPPER_NAME, true);
	Relation	relation = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	List	   *result = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		FoundShard *found;

		if (((Form_pg_foreign_server) GETSTRUCT(tuple))->srvfdw != wrapper)
			continue;
		found = read_server(tuple, RelationGetDescr(relation));
		if (found != NULL)
			result = lappend(result, found);
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/* Returns the struct of an id, a new one if there was none. */
static SlShard *
enter_shard(int32 id)
{
	bool		found;
	SlShard    *shard = hash_search(shards, &id, HASH_ENTER, &found);

	if (!found)
	{
		memset(shard, 0, sizeof(SlShard));
		shard->id = id;
	}
	return shard;
}

/* A shard that is gone keeps its name, for messages, and nothing else. */
static void
mark_all_gone(void)
{
	HASH_SEQ_STATUS status;
	SlShard    *shard;

	hash_seq_init(&status, shards);
	while ((shard = hash_seq_search(&status)) != NULL)
	{
		shard->exists = false;
		shard->identity = shard->region = NULL;
		shard->host = shard->port = shard->dbname = NULL;
	}
}

/*
 * Reads all servers again.  Nothing is changed before all of it has been read,
 * so that an error, a cancel for instance, leaves the cache as it was.
 */
static void
read_shards(void)
{
	MemoryContext new_context;
	MemoryContext old_context;
	List	   *found;
	ListCell   *cell;

	if (shards == NULL)
		make_cache();
	new_context = AllocSetContextCreate(CurrentMemoryContext, "shardlet shard strings",
										ALLOCSET_SMALL_SIZES);
	old_context = MemoryContextSwitchTo(new_context);

	/* A change during the scan invalidates it again. */
	shards_are_current = true;
	PG_TRY();
	{
		found = read_servers();
		foreach(cell, found)
			(void) enter_shard(((FoundShard *) lfirst(cell))->id);
	}
	PG_CATCH();
	{
		shards_are_current = false;
		PG_RE_THROW();
	}
	PG_END_TRY();
	mark_all_gone();
	foreach(cell, found)
	{
		FoundShard *row = lfirst(cell);

		fill_shard(enter_shard(row->id), &row->server, row->options);
	}
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(string_context);
	string_context = new_context;
	MemoryContextSetParent(string_context, TopMemoryContext);
}

/* Makes sure that the shards are the latest committed ones. */
void
sl_shard_refresh(void)
{
	AcceptInvalidationMessages();
	if (!shards_are_current)
		read_shards();
}

/*
 * Returns the shard with that id, whether it exists or not: a map may refer to
 * one that is gone.
 */
SlShard *
sl_shard_by_id(int32 id)
{
	sl_shard_refresh();
	return enter_shard(id);
}

/* Returns all shards by ascending id, the order in which they were added. */
static int
compare_ids(const ListCell *a, const ListCell *b)
{
	const SlShard *left = lfirst(a);
	const SlShard *right = lfirst(b);

	return left->id < right->id ? -1 : left->id > right->id;
}

List *
sl_shard_all(void)
{
	HASH_SEQ_STATUS status;
	SlShard    *shard;
	List	   *result = NIL;

	sl_shard_refresh();
	hash_seq_init(&status, shards);
	while ((shard = hash_seq_search(&status)) != NULL)
	{
		if (shard->exists)
			result = lappend(result, shard);
	}
	list_sort(result, compare_ids);
	return result;
}

/* Returns the shard of that name; none is an error, or NULL if missing_ok. */
SlShard *
sl_shard_by_name(const char *name, bool missing_ok)
{
	ListCell   *cell;
	bool		is_server;

	foreach(cell, sl_shard_all())
	{
		SlShard    *shard = lfirst(cell);

		if (strcmp(NameStr(shard->name), name) == 0)
			return shard;
	}
	if (missing_ok)
		return NULL;
	is_server = OidIsValid(get_foreign_server_oid(name, true));
	ereport(ERROR,
			errcode(ERRCODE_UNDEFINED_OBJECT),
			errmsg("shard \"%s\" does not exist", name),
			is_server ? errhint("There is a server of that name; make it a shard with shardlet.add_shard('%s').", name) :
			errhint("View shardlet.shards lists the shards."));
}

/*
 * Locks a shard for the rest of the transaction, against DROP SERVER for
 * instance, and makes sure that it is still there.
 */
void
sl_shard_lock(SlShard *shard, LOCKMODE mode)
{
	LockDatabaseObject(ForeignServerRelationId, shard->server, 0, mode);
	sl_shard_refresh();
	if (!shard->exists)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("shard \"%s\" does not exist", NameStr(shard->name)),
				errdetail("It was dropped by another session."));
}
