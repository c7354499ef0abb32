/*
 * ship_init.c
 *		What the shards of some tables have in common.
 *
 * That decides what may be sent there: functions of extensions that all of them
 * have, types of the tables' own columns, and comparisons by a collation that all
 * of them share with the router.
 */
#include "postgres.h"

#include "access/table.h"
#include "commands/extension.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "base/base.h"
#include "deparse/deparse.h"
#include "map/table.h"

/* The extensions that one shard is said to have. */
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
 * The shards that a statement about these tables may go to.  Reference tables are
 * on all shards, and do not decide where it goes unless there are no others.
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
look_at_shards(SlShip *ship, List *shards)
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

/* The shards have the types of the table's own columns. */
static void
look_at_types(SlShip *ship, Oid table)
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

/* Prepares to write something about these tables, a list of SlTables. */
void
sl_ship_init(SlShip *ship, List *tables)
{
	ListCell   *cell;

	memset(ship, 0, sizeof(SlShip));
	ship->tables = tables;
	look_at_shards(ship, shards_of(tables));
	foreach(cell, tables)
		look_at_types(ship, ((const SlTable *) lfirst(cell))->relid);
}
