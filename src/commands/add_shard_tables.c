/*
 * add_shard_tables.c
 *		Makes the tables of a map on a shard that joins it.
 *
 * They are made as another shard of the map has them.  One that the new shard
 * has already is taken as it is, if it is the same.  Foreign keys and triggers
 * come when all tables are there.
 */
#include "postgres.h"

#include "base/base.h"
#include "base/hooks.h"
#include "commands/commands.h"
#include "utils/lsyscache.h"

/* Returns any other shard that is available. */
static SlShard *
find_source(const SlMap *map, const SlShard *joining)
{
	ListCell   *cell;

	foreach(cell, sl_map_shard_ids(map->id))
	{
		SlShard    *shard = sl_shard_by_id(lfirst_int(cell));

		if (shard != joining && shard->exists && shard->state != SL_STATE_OFFLINE)
			return shard;
	}
	ereport(ERROR,
			errcode(SL_ERR_UNREACHABLE),
			errmsg("tables of map \"%s\" cannot be made on shard \"%s\"",
				   NameStr(map->name), NameStr(joining->name)),
			errdetail("No other shard of the map is available to tell how they are made."));
	return NULL;
}

/* Reads a table's definition; NULL if the new shard has it already. */
static SlDefinition *
read_definition(const SlTable *table, SlReply *source, SlReply *target)
{
	char	   *schema = get_namespace_name(get_rel_namespace(table->relid));
	char	   *name = get_rel_name(table->relid);
	SlDefinition *definitions[2];
	SlShard    *shards[2] = {source->shard, target->shard};

	definitions[0] = sl_definition_read_remote(source->conn, schema, name);
	if (definitions[0] == NULL)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("table \"%s.%s\" does not exist on shard \"%s\"", schema, name,
					   NameStr(source->shard->name)));
	definitions[1] = sl_definition_read_remote(target->conn, schema, name);
	if (definitions[1] == NULL)
		return definitions[0];
	sl_definition_compare(definitions, shards, lengthof(definitions));
	return NULL;
}

static bool
is_of_map(const SlTable *table, const SlMap *map)
{
	return table->kind == SL_TABLE_SHARDED && strcmp(table->map, NameStr(map->name)) == 0;
}

static List *
read_definitions(const SlMap *map, SlShard *source, SlShard *target)
{
	List	   *result = NIL;
	ListCell   *cell;
	int			count;
	SlReply    *source_reply = sl_command_begin(list_make1(source), false, &count);
	SlReply    *target_reply = sl_command_begin(list_make1(target), true, &count);

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);
		SlDefinition *definition;

		if (!is_of_map(table, map))
			continue;
		definition = read_definition(table, source_reply, target_reply);
		if (definition == NULL)
			continue;
		definition->map_id = map->id;
		result = lappend(result, definition);
	}
	return result;
}

static void
create_all(List *definitions, SlShard *shard, SlPhase first, SlPhase last)
{
	ListCell   *cell;

	foreach(cell, definitions)
		sl_definition_create(list_make1(shard), lfirst(cell), first, last);
}

static void
guard_all(const SlMap *map, SlShard *shard)
{
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);

		if (is_of_map(table, map))
			sl_guard_trigger_create(list_make1(shard), get_namespace_name(get_rel_namespace(table->relid)),
									get_rel_name(table->relid), table->map, sl_table_key_of(table));
	}
}

static void
add_tables(SlMap *map, SlShard *shard)
{
	List	   *definitions;

	if (sl_table_names_of(map, NULL) == NIL)
		return;
	definitions = read_definitions(map, find_source(map, shard), shard);
	create_all(definitions, shard, SL_PHASE_NEEDS, SL_PHASE_STATISTICS);
	create_all(definitions, shard, SL_PHASE_FOREIGN_KEYS, SL_PHASE_POLICIES);
	guard_all(map, shard);
}

void
sl_new_shard_init(void)
{
	sl_hooks.add_map_tables = add_tables;
}
