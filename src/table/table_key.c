/*
 * table_key.c
 *		The key columns of a table, and whether they suit a map.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "table/table_area.h"

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Do values of the column mean the same to the map and to the shards? */
static bool
fits(Oid column, Oid key)
{
	return column == key || (is_integer(column) && is_integer(key)) ||
		(IsBinaryCoercible(column, key) && get_typtype(column) == TYPTYPE_BASE);
}

static void
check_column(const SlMap *map, int index, const char *table, Form_pg_attribute column)
{
	const char *name = NameStr(column->attname);

	if (!fits(column->atttypid, map->key_oids[index]))
		ereport(ERROR,
				errcode(ERRCODE_DATATYPE_MISMATCH),
				errmsg("column \"%s\" of table \"%s\" has the wrong type for map \"%s\"",
					   name, table, NameStr(map->name)),
				errdetail("It is %s, and the map's key %s.", format_type_be(column->atttypid),
						  format_type_be(map->key_oids[index])),
				errhint("Change the type of the column, or make a map with key_types => '{%s}'.",
						format_type_be(column->atttypid)));
	if (!column->attnotnull)
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("key column \"%s\" of table \"%s\" may be NULL", name, table),
				errdetail("A row without a key belongs to no shard."),
				errhint("ALTER TABLE ... ALTER COLUMN %s SET NOT NULL;", quote_identifier(name)));
	if (column->attgenerated != '\0' && column->attgenerated != ATTRIBUTE_GENERATED_STORED)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("key column \"%s\" of table \"%s\" is a virtual generated column", name, table),
				errhint("Make it a stored one."));
	sl_key_check_collation(column->attcollation);
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
			errmsg("key of table \"%s\" has %d columns, not %d", table, count, wanted),
			errdetail("Keys of map \"%s\" are %s.", NameStr(map->name), sl_map_key_label(map)),
			errhint("Name the columns that decide on which shard a row is, such as key => 'customer_id'."));
}

/* Refuses a table whose key does not suit its map. */
void
sl_table_check_key(const SlTable *table, const SlMap *map)
{
	Relation	relation = table_open(table->relid, NoLock);
	const char *name = RelationGetRelationName(relation);

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
		check_column(map, i, name,
					 TupleDescAttr(RelationGetDescr(relation), table->key[i] - 1));
	}
	table_close(relation, NoLock);
}

static DefElem *
make_option(const char *name, const char *value)
{
	return makeDefElem(pstrdup(name), (Node *) makeString(pstrdup(value)), -1);
}

/* The options of the foreign table that a sharded table is. */
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
