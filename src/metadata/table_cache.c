/*
 * table_cache.c
 *		What kind of table a relation is, and where its rows are.
 *
 * Results are cached in the session until the relation changes; they are
 * needed for every statement.  The hash table, and the names of maps in it,
 * are in TopMemoryContext.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/reltrigger.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "metadata/table.h"

/* Splits the option "key": a list of column names, quoted where necessary. */
List *
sl_table_key_names(const char *key)
{
	List	   *names = NIL;
	List	   *result = NIL;
	ListCell   *cell;

	if (key == NULL)
		return NIL;
	if (!SplitIdentifierString(pstrdup(key), ',', &names) || names == NIL)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("invalid key \"%s\"", key),
				errhint("It is a list of column names, such as 'customer_id' or 'firstname, lastname'."));
	foreach(cell, names)
		result = lappend(result, pstrdup(lfirst(cell)));
	return result;
}

static void
find_key_columns(SlTable *table, const char *key)
{
	ListCell   *cell;

	foreach(cell, sl_table_key_names(key))
	{
		AttrNumber	column = get_attnum(table->relid, lfirst(cell));

		if (column <= 0)
			ereport(ERROR,
					errcode(ERRCODE_UNDEFINED_COLUMN),
					errmsg("column \"%s\" of relation \"%s\" does not exist",
						   (char *) lfirst(cell), get_rel_name(table->relid)),
					errdetail("It is named in the table's key."));
		if (table->key_count == SL_MAX_KEYS)
			ereport(ERROR,
					errcode(ERRCODE_TOO_MANY_COLUMNS),
					errmsg("a key cannot have more than %d columns", SL_MAX_KEYS));
		table->key_types[table->key_count] = get_atttype(table->relid, column);
		table->key[table->key_count++] = column;
	}
}

/*
 * Returns the properties of a table that has these options, or NULL if it is not
 * distributed.
 */
SlTable *
sl_table_get_as(Oid relid, List *options)
{
	const char *map = sl_option_get(options, SL_OPTION_MAP);
	const char *shard_id = sl_option_get(options, SL_OPTION_SHARD_ID);
	SlTable    *table;

	if (map == NULL && shard_id == NULL)
		return NULL;
	table = palloc0(sizeof(SlTable));
	table->relid = relid;
	table->kind = map != NULL ? SL_TABLE_SHARDED : SL_TABLE_PLACED;
	if (map != NULL)
	{
		table->map = pstrdup(map);
		find_key_columns(table, sl_option_get(options, SL_OPTION_KEY));
	}
	else
		table->shard_id = (int32) strtol(shard_id, NULL, 10);
	table->is_attached = sl_option_is_on(options, SL_OPTION_ATTACHED);
	table->is_local_unique = sl_option_is_on(options, SL_OPTION_LOCAL_UNIQUE);
	return table;
}

static bool
is_reference_trigger(const Trigger *trigger)
{
	char	   *name = get_func_name(trigger->tgfoid);

	return name != NULL && strcmp(name, SL_REFERENCE_FUNCTION) == 0 &&
		get_func_namespace(trigger->tgfoid) == get_namespace_oid("shardlet", true);
}

static SlTable *
get_reference(Oid relid)
{
	Relation	relation = RelationIdGetRelation(relid);
	SlTable    *table = NULL;

	if (!RelationIsValid(relation))
		return NULL;
	for (int i = 0; relation->trigdesc != NULL && i < relation->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &relation->trigdesc->triggers[i];

		if (table != NULL || !is_reference_trigger(trigger))
			continue;
		table = palloc0(sizeof(SlTable));
		table->relid = relid;
		table->kind = SL_TABLE_REFERENCE;
		table->is_attached = trigger->tgnargs > 0 &&
			strcmp(trigger->tgargs[0], SL_REFERENCE_ATTACHED) == 0;
	}
	RelationClose(relation);
	return table;
}

/* This session has met a shell table. */
static bool has_shells = false;

bool
sl_table_has_shells(void)
{
	return has_shells;
}

static SlTable *
get_shell(Oid relid)
{
	SlTable    *table = sl_shell_get_table(relid);

	has_shells = true;
	table->is_partition = get_rel_relispartition(relid);
	return table;
}

/* Reads the catalogs. */
static SlTable *
read_table(Oid relid)
{
	char		kind = get_rel_relkind(relid);

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		return NULL;

	/* A test leaves shell tables to the access method. */
	return sl_shell_is_shell(relid, kind) && !sl_fault_armed("shell_as_plain") ? get_shell(relid) :
		get_reference(relid);
}

/* A cached relation. */
typedef struct Known
{
	Oid			relid;			/* the hash table's key */
	uint64		epoch;			/* the value of "epoch" when it was read */
	bool		is_ours;
	SlTable		table;			/* without the map's name */
	NameData	map;
} Known;

static HTAB *known_tables;
static uint64 epoch = 1;		/* raised when all entries become invalid */
static uint64 changes = 0;		/* raised by every change of a relation */
static uint64 own_changes = 0;	/* raised by changes of a distributed table */

/* Invalidation callback; an invalid OID means all relations. */
static void
forget_table(Datum arg, Oid relid)
{
	const Known *known;

	changes++;
	if (!OidIsValid(relid))
	{
		epoch++;
		return;
	}
	known = hash_search(known_tables, &relid, HASH_FIND, NULL);
	if (known == NULL)
		return;
	if (known->is_ours)
		own_changes++;
	(void) hash_search(known_tables, &relid, HASH_REMOVE, NULL);
}

/*
 * Returns a number that changes whenever a distributed table may have changed.
 */
uint64
sl_table_changes(void)
{
	return epoch + own_changes;
}

static void
forget_all(Datum arg, int cache_id, uint32 hash_value)
{
	changes++;
	epoch++;
}

void
sl_table_init(void)
{
	HASHCTL		control = {0};

	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(Known);
	control.hcxt = TopMemoryContext;
	known_tables = hash_create("shardlet tables", 64, &control,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(forget_table, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, forget_all, (Datum) 0);
}

static void
keep_table(Oid relid, const SlTable *table)
{
	Known	   *known = hash_search(known_tables, &relid, HASH_ENTER, NULL);

	known->epoch = epoch;
	known->is_ours = table != NULL;
	if (table == NULL)
		return;
	known->table = *table;
	if (table->map != NULL)
		namestrcpy(&known->map, table->map);
}

/* Returns the valid entry of the cache, or NULL. */
static const Known *
find_known(Oid relid)
{
	const Known *known = hash_search(known_tables, &relid, HASH_FIND, NULL);

	return known != NULL && known->epoch == epoch ? known : NULL;
}

/*
 * Returns the properties of a distributed table, NULL for any other relation.
 */
SlTable *
sl_table_get(Oid relid)
{
	const Known *known = find_known(relid);
	uint64		changes_before = changes;
	SlTable    *table = NULL;

	if (known == NULL)
	{
		table = read_table(relid);
		if (changes == changes_before)
			keep_table(relid, table);
	}
	else if (known->is_ours)
	{
		table = palloc(sizeof(SlTable));
		*table = known->table;
		if (table->map != NULL)
			table->map = pstrdup(NameStr(known->map));
	}
	return table;
}

/*
 * Are the rows of the relation on shards only?  They are if the table is
 * sharded or placed.  "relkind" is the relation's, or that of a range table entry, which
 * says that a shell table is a foreign table (access/shell_planning.c): most relations need
 * no lookup then.
 */
bool
sl_table_is_remote(Oid relid, char relkind)
{
	const Known *known;
	const SlTable *table;

	if ((relkind != RELKIND_FOREIGN_TABLE && relkind != RELKIND_RELATION &&
		 relkind != RELKIND_PARTITIONED_TABLE) || relid < FirstNormalObjectId)
		return false;
	known = find_known(relid);
	if (known != NULL)
		return known->is_ours && known->table.kind != SL_TABLE_REFERENCE;
	table = sl_table_get(relid);
	return table != NULL && table->kind != SL_TABLE_REFERENCE;
}

static List *
append_shard(List *shards, SlShard *shard)
{
	return list_append_unique_ptr(shards, shard);
}

static List *
placed_on(const SlTable *table)
{
	SlShard    *shard = sl_shard_by_id(table->shard_id);

	if (!shard->exists)
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("table \"%s\" is on a shard that does not exist any more",
					   get_rel_name(table->relid)),
				errdetail("Its id was %d.", table->shard_id));
	return list_make1(shard);
}

static List *
shards_of_map(const SlMap *map)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_map_shard_ids(map->id))
	{
		SlShard    *shard = sl_shard_by_id(lfirst_int(cell));

		if (shard->exists)
			result = append_shard(result, shard);
	}
	return result;
}

/* The keys of a list map are not in memory. */
static List *
shards_with_keys(const SlMap *map)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, shards_of_map(map))
	{
		SlShard    *shard = lfirst(cell);

		if (sl_map_count_shardlets(shard->id, map->id) > 0)
			result = lappend(result, shard);
	}
	return result;
}

/* Returns the shards that have rows of the table, or may have: SlShards. */
List *
sl_table_owners(const SlTable *table)
{
	SlMap	   *map;
	List	   *result = NIL;

	if (table->kind == SL_TABLE_PLACED)
		return placed_on(table);
	if (table->kind == SL_TABLE_REFERENCE)
		return sl_shard_all();
	map = sl_map_get(table->map);
	if (map->kind == SL_KIND_LIST)
		return shards_with_keys(map);
	for (int i = 0; i < map->shardlet_count; i++)
		result = append_shard(result, map->shardlets[i].shard);
	return result;
}

/* Returns the shards on which the table exists, with or without rows. */
List *
sl_table_homes(const SlTable *table)
{
	if (table->kind == SL_TABLE_SHARDED)
		return shards_of_map(sl_map_get(table->map));
	return sl_table_owners(table);
}

/* Returns those of the relations that are distributed: SlTables. */
List *
sl_table_get_all(List *relids)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, relids)
	{
		SlTable    *table = sl_table_get(lfirst_oid(cell));

		if (table != NULL)
			result = lappend(result, table);
	}
	return result;
}

/* Partitions of a shell table are parts of it. */
static List *
leave_partitions_out(List *tables)
{
	ListCell   *cell;

	foreach(cell, tables)
	{
		if (((const SlTable *) lfirst(cell))->is_partition)
			tables = foreach_delete_current(tables, cell);
	}
	return tables;
}

/* Returns all tables that are sharded or placed, without partitions: SlTables. */
List *
sl_table_all(void)
{
	Oid			server = get_foreign_server_oid(SL_TABLES_SERVER_NAME, true);
	Relation	relation;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *relids = NIL;

	if (!OidIsValid(server))
		return NIL;
	relation = table_open(ForeignTableRelationId, AccessShareLock);
	scan = systable_beginscan(relation, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_foreign_table row = (Form_pg_foreign_table) GETSTRUCT(tuple);

		if (row->ftserver == server)
			relids = lappend_oid(relids, row->ftrelid);
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return leave_partitions_out(sl_table_get_all(relids));
}

/* The maps of all tables, and the shards of placed ones. */
static List *used_maps = NIL;
static List *used_shards = NIL;
static uint64 used_since = 0;

/*
 * Updates these two, if tables have changed since.  They are in
 * TopMemoryContext.
 */
static void
find_used(void)
{
	uint64		since = sl_table_changes() + 1;
	List	   *tables;
	ListCell   *cell;
	MemoryContext old_context;

	if (used_since == since)
		return;
	tables = sl_table_all();
	old_context = MemoryContextSwitchTo(TopMemoryContext);
	list_free_deep(used_maps);
	list_free(used_shards);
	used_maps = used_shards = NIL;
	foreach(cell, tables)
	{
		const SlTable *table = lfirst(cell);
		bool		is_known = false;
		ListCell   *other;

		foreach(other, used_maps)
			is_known = is_known || (table->map != NULL && strcmp(lfirst(other), table->map) == 0);
		if (table->kind == SL_TABLE_PLACED)
			used_shards = list_append_unique_int(used_shards, table->shard_id);
		else if (!is_known && table->map != NULL)
			used_maps = lappend(used_maps, pstrdup(table->map));
	}
	MemoryContextSwitchTo(old_context);
	used_since = since;
}

/*
 * Returns the shards that have rows of tables, or could have.  Without any
 * tables, all shards: then those are used by query() alone.
 */
List *
sl_table_shards(void)
{
	List	   *result = NIL;
	ListCell   *cell;

	find_used();
	if (used_maps == NIL && used_shards == NIL)
		return sl_shard_all();
	foreach(cell, used_maps)
		result = list_concat_unique_ptr(result, shards_of_map(sl_map_get(lfirst(cell))));
	foreach(cell, used_shards)
		result = list_append_unique_ptr(result, sl_shard_by_id(lfirst_int(cell)));
	return result;
}

/* Returns the names of a map's tables, or of those placed on a shard. */
List *
sl_table_names_of(const SlMap *map, const SlShard *shard)
{
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);

		if (map != NULL ? table->kind == SL_TABLE_SHARDED && strcmp(table->map, NameStr(map->name)) == 0 :
			table->kind == SL_TABLE_PLACED && table->shard_id == shard->id)
			names = lappend(names, quote_qualified_identifier(get_namespace_name(get_rel_namespace(table->relid)),
															  get_rel_name(table->relid)));
	}
	return names;
}

/* Returns the names of a table's key columns. */
List *
sl_table_key_of(const SlTable *table)
{
	List	   *names = NIL;

	for (int i = 0; i < table->key_count; i++)
		names = lappend(names, get_attname(table->relid, table->key[i], false));
	return names;
}

/* Formats names for a message. */
char *
sl_table_list_names(List *names)
{
	StringInfoData list;
	ListCell   *cell;

	initStringInfo(&list);
	foreach(cell, names)
		appendStringInfo(&list, "%s%s", foreach_current_index(cell) > 0 ? ", " : "", (char *) lfirst(cell));
	return list.data;
}

/*
 * Returns the shardlet for a row with this key, in the map's key types; no
 * shardlet is an error.  For a table without a key, the next slot.
 */
const SlShardlet *
sl_table_route(const SlTable *table, const Datum *key)
{
	SlMap	   *map = sl_map_get(table->map);

	return map->kind == SL_KIND_SPREAD ? sl_map_next_slot(map) : sl_map_lookup(map, key);
}

/*
 * Raises an error if the table was distributed, or its key changed, after the
 * transaction's snapshot was taken: the shards' snapshots are as old, and do
 * not see its rows.
 */
void
sl_table_check_snapshot(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));
	TransactionId changed_by;

	if (!HeapTupleIsValid(tuple))
		return;
	changed_by = HeapTupleHeaderGetXmin(tuple->t_data);
	ReleaseSysCache(tuple);
	if (!TransactionIdIsNormal(changed_by) || TransactionIdIsCurrentTransactionId(changed_by) ||
		!XidInMVCCSnapshot(changed_by, GetTransactionSnapshot()))
		return;
	ereport(ERROR,
			errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			errmsg("could not serialize access because table \"%s\" was distributed",
				   get_rel_name(relid)),
			errdetail("The transaction began before, and would not find its rows."),
			errhint("Retry the transaction."));
}
