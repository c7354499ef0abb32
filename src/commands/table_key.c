/*
 * table_key.c
 *		The key columns of a table, and whether they suit a map.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "parser/parse_coerce.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "commands/commands.h"

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Do values of the column mean the same to the map and to the shards? */
static bool
key_type_fits(Oid column, Oid key)
{
	return column == key || (is_integer(column) && is_integer(key)) ||
		(IsBinaryCoercible(column, key) && get_typtype(column) == TYPTYPE_BASE);
}

static void
check_column(const SlMap *map, int index, const char *table, const char *name, Oid type, bool is_not_null)
{
	if (!key_type_fits(type, map->key_oids[index]))
		ereport(ERROR,
				errcode(ERRCODE_DATATYPE_MISMATCH),
				errmsg("column \"%s\" of table \"%s\" has the wrong type for map \"%s\"",
					   name, table, NameStr(map->name)),
				errdetail("It is %s, and the map's key %s.", format_type_be(type),
						  format_type_be(map->key_oids[index])),
				errhint("Change the type of the column, or make a map with key_types => '{%s}'.",
						format_type_be(type)));
	if (!is_not_null)
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("key column \"%s\" of table \"%s\" may be NULL", name, table),
				errdetail("A row without a key belongs to no shard."),
				errhint("ALTER TABLE ... ALTER COLUMN %s SET NOT NULL;", quote_identifier(name)));
}

static char *
list_types(const SlMap *map)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < map->key_count; i++)
		appendStringInfo(&list, "%s%s", i > 0 ? ", " : "", format_type_be(map->key_oids[i]));
	return list.data;
}

static void
check_count(const SlMap *map, const char *table, int count)
{
	int			wanted = map->kind == SL_KIND_SPREAD ? 0 : map->key_count;

	if (count == wanted)
		return;
	if (wanted == 0)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("map \"%s\" takes no key", NameStr(map->name)),
				errdetail("Rows of a spread map go round robin over its shards."),
				errhint("Leave out \"key\"."));
	ereport(ERROR,
			errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			count == 0 ? errmsg("key of table \"%s\" is missing", table) :
			errmsg("key of table \"%s\" has the wrong number of columns: %d instead of %d", table,
				   count, wanted),
			errdetail("The key of map \"%s\" is (%s).", NameStr(map->name), list_types(map)),
			errhint("Name the columns that decide on which shard a row is, such as key => 'customer_id'."));
}

static void
check_form(const char *table, Form_pg_attribute column)
{
	if (column->attgenerated != '\0' && column->attgenerated != ATTRIBUTE_GENERATED_STORED)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("key column \"%s\" of table \"%s\" is a virtual generated column",
					   NameStr(column->attname), table),
				errhint("Make it a stored one."));
	sl_key_check_collation(column->attcollation);
}

/* Refuses a table whose key does not suit its map. */
void
sl_table_check_key(const SlTable *table, const SlMap *map)
{
	Relation	relation = table_open(table->relid, NoLock);
	const char *name = RelationGetRelationName(relation);
	Form_pg_attribute column;

	check_count(map, name, table->key_count);
	for (int i = 0; i < table->key_count; i++)
	{
		for (int j = 0; j < i; j++)
		{
			if (table->key[i] == table->key[j])
				ereport(ERROR,
						errcode(ERRCODE_DUPLICATE_COLUMN),
						errmsg("key of table \"%s\" names a column twice", name));
		}
		column = TupleDescAttr(RelationGetDescr(relation), table->key[i] - 1);
		check_column(map, i, name, NameStr(column->attname), column->atttypid, column->attnotnull);
		check_form(name, column);
	}
	table_close(relation, NoLock);
}

/* The type of a column, as a definition writes it, without its collation. */
static Oid
parse_type(const char *written)
{
	char	   *name = pstrdup(written);
	char	   *collation = strstr(name, " COLLATE ");
	Oid			type;
	int32		modifier;

	if (collation != NULL)
		*collation = '\0';
	sl_parse_type(name, &type, &modifier);
	return type;
}

/* The same for a table that only the shards have yet. */
void
sl_table_check_key_of(const SlDefinition *definition, const SlMap *map, const char *key)
{
	List	   *names = sl_table_key_names(key);
	ListCell   *cell;

	check_count(map, definition->name, list_length(names));
	foreach(cell, names)
	{
		const char *name = lfirst(cell);
		const SlDefinitionItem *item = sl_definition_find(definition, "column_type", name);

		if (item == NULL)
			ereport(ERROR,
					errcode(ERRCODE_UNDEFINED_COLUMN),
					errmsg("column \"%s\" of table \"%s.%s\" does not exist on the shards",
						   name, definition->schema, definition->name),
					errdetail("It is named in the table's key."));
		check_column(map, foreach_current_index(cell), definition->name, name, parse_type(item->ddl),
					 sl_definition_find(definition, "column_not_null", name) != NULL);
	}
}

static DefElem *
make_option(const char *name, const char *value)
{
	return makeDefElem(pstrdup(name), (Node *) makeString(pstrdup(value)), -1);
}

/* The options that connect a sharded table to its map. */
List *
sl_table_options_sharded(const SlMap *map, const char *key, bool is_attached)
{
	List	   *options = list_make1(make_option(SL_OPTION_MAP, NameStr(map->name)));

	if (key != NULL)
		options = lappend(options, make_option(SL_OPTION_KEY, key));
	if (is_attached)
		options = lappend(options, make_option(SL_OPTION_ATTACHED, "true"));
	return options;
}

/* And of a placed one. */
List *
sl_table_options_placed(const SlShard *shard, bool is_attached)
{
	List	   *options = list_make1(make_option(SL_OPTION_SHARD_ID, psprintf("%d", shard->id)));

	if (is_attached)
		options = lappend(options, make_option(SL_OPTION_ATTACHED, "true"));
	return options;
}
