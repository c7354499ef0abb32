/*
 * shippable_context.c
 *		What the shards of some tables have in common.
 *
 * That determines what is shippable: functions of extensions that all of them
 * have, types of the tables' own columns, and comparisons by a collation that
 * all of them share with the router.
 */
#include "postgres.h"

#include "access/table.h"
#include "commands/extension.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "base/base.h"
#include "deparse/deparse.h"
#include "metadata/table.h"

/* Returns the extensions that the option "extensions" of a shard lists. */
static List *
extensions_of(const SlShard *shard)
{
	const char *option = sl_option_get(GetForeignServer(shard->server)->options, "extensions");
	List	   *names = NIL;
	List	   *result = NIL;
	ListCell   *cell;

	if (option == NULL)
		return NIL;
	(void) SplitIdentifierString(pstrdup(option), ',', &names);
	foreach(cell, names)
	{
		Oid			extension = get_extension_oid(lfirst(cell), true);

		if (OidIsValid(extension))
			result = lappend_oid(result, extension);
	}
	return result;
}

static List *
common_extensions(List *a, List *b)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, a)
	{
		if (list_member_oid(b, lfirst_oid(cell)))
			result = lappend_oid(result, lfirst_oid(cell));
	}
	return result;
}

/*
 * Returns the shards that a statement on these tables may be sent to.
 * Reference tables are on all shards, and count only if there are no other
 * tables.
 */
static List *
shards_of(List *tables)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, tables)
	{
		const SlTable *table = lfirst(cell);

		if (table->kind != SL_TABLE_REFERENCE)
			result = list_concat_unique_ptr(result, sl_table_owners(table));
	}
	return result != NIL ? result : sl_shard_all();
}

static void
look_at_shards(SlShippableContext *ship, List *shards)
{
	ListCell   *cell;

	foreach(cell, shards)
	{
		const SlShard *shard = lfirst(cell);
		List	   *extensions = shard->exists ? extensions_of(shard) : NIL;

		ship->extensions = foreach_current_index(cell) == 0 ? extensions :
			common_extensions(ship->extensions, extensions);
		ship->other_collation = ship->other_collation || shard->other_collation;
	}
}

/* Adds the types of the table's own columns, which the shards have. */
static void
look_at_types(SlShippableContext *ship, Oid table)
{
	Relation	relation = table_open(table, NoLock);
	TupleDesc	columns = RelationGetDescr(relation);

	for (int i = 0; i < columns->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(columns, i);
		Oid			element = get_element_type(column->atttypid);

		if (!column->attisdropped)
			ship->types = list_append_unique_oid(ship->types, OidIsValid(element) ? element :
												 column->atttypid);
	}
	table_close(relation, NoLock);
}

/* Prepares a context for these tables, a list of SlTables. */
void
sl_shippable_init(SlShippableContext *ship, List *tables)
{
	ListCell   *cell;

	memset(ship, 0, sizeof(SlShippableContext));
	ship->tables = tables;
	look_at_shards(ship, shards_of(tables));
	foreach(cell, tables)
		look_at_types(ship, ((const SlTable *) lfirst(cell))->relid);
}
