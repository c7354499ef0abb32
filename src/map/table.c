/*
 * table.c
 *		Reads what kind of table a relation is, and where its rows are.
 *
 * What was read is kept in the session until the relation changes; that is asked
 * for every statement.  The table of what is kept, and the names of maps in it,
 * are in TopMemoryContext.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
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
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "base/base.h"
#include "map/table.h"

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
 * Returns what the options of a foreign table say of it, or NULL if they make
 * it no table of ours.
 */
SlTable *
sl_table_get_as(Oid relid, List *options)
{
	const char *map = sl_option_get(options, SL_OPTION_MAP);
	const char *shard_id = sl_option_get(options, SL_OPTION_SHARD_ID);
	const char *attached = sl_option_get(options, SL_OPTION_ATTACHED);
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
	if (attached != NULL)
		(void) parse_bool(attached, &table->is_attached);
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

/* Reads the catalogs. */
static SlTable *
read_table(Oid relid)
{
	char		kind = get_rel_relkind(relid);
	ForeignTable *row;

	if (kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE)
		return get_reference(relid);
	if (kind != RELKIND_FOREIGN_TABLE)
		return NULL;
	row = GetForeignTable(relid);
	if (row->serverid != get_foreign_server_oid(SL_TABLES_SERVER_NAME, true))
		return NULL;
	return sl_table_get_as(relid, row->options);
}

/* What was found out of a relation. */
typedef struct Known
{
	Oid			relid;			/* the hash table's key */
	uint64		epoch;			/* the value of "epoch" when it was read */
	bool		is_ours;
	SlTable		table;			/* without the map's name */
	NameData	map;
} Known;

static HTAB *known_tables;
static uint64 epoch = 1;		/* raised when nothing known counts any more */
static uint64 changes = 0;		/* raised by every change of a relation */
static uint64 own_changes = 0;	/* by those of a table of ours */

/* A relation has changed; invalid: all. */
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

/* Another number whenever a table of ours may have changed. */
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

/* Returns what is known of a table of ours, NULL for any other relation. */
SlTable *
sl_table_get(Oid relid)
{
	const Known *known = hash_search(known_tables, &relid, HASH_FIND, NULL);
	uint64		changes_before = changes;
	SlTable    *table = NULL;

	if (known == NULL || known->epoch != epoch)
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

/* The keys of a list map are not held in memory. */
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

/* Returns the shards on which the table exists, with rows or without. */
List *
sl_table_homes(const SlTable *table)
{
	if (table->kind == SL_TABLE_SHARDED)
		return shards_of_map(sl_map_get(table->map));
	return sl_table_owners(table);
}

/* Returns those of the relations that are tables of ours: SlTables. */
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

/* Returns all tables that are sharded or placed: SlTables. */
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
	return sl_table_get_all(relids);
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

/* Writes names for a message. */
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
 * shardlet is an error.  The next lane for a table that has no key.
 */
const SlShardlet *
sl_table_route(const SlTable *table, const Datum *key)
{
	SlMap	   *map = sl_map_get(table->map);

	return map->kind == SL_KIND_SPREAD ? sl_map_next_lane(map) : sl_map_lookup(map, key);
}
