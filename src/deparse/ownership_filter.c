/*
 * ownership_filter.c
 *		The ownership filter: keeps orphaned rows out of statements.
 *
 * Orphaned rows exist while a shardlet is being moved, and until those left on
 * the source are removed.  A single-shard query goes to the owner and needs no
 * filter.  A query for several shards gets a condition for each of its tables.
 * The plan has its position in the query string; it is inserted at execution,
 * by the same state of the map that determines the shards: so plans do not
 * depend on moves.  All shards get the same query string, in which each one
 * recognizes its own identity.
 *
 * Tables of one statement are joined on their keys, so a row that is joined to
 * an owned one is owned.  The condition is true for NULL-extended rows of an
 * outer join.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/value.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "deparse/ownership_filter.h"

/* The shard's identity, a setting of the router's connections. */
#define OWN_IDENTITY "(SELECT pg_catalog.current_setting('shardlet.identity', true))"

/*
 * Returns the condition that a row is not orphaned, over the key columns of a
 * table; NULL if the map has no orphaned rows.
 */
static char *
make_filter_sql(SlMap *map, List *columns)
{
	StringInfoData sql;

	if (map->orphaned_count == 0)
		return NULL;
	initStringInfo(&sql);
	for (int i = 0; i < map->orphaned_count; i++)
	{
		const SlOrphanedRange *orphan = &map->orphaned[i];

		if (orphan->shard->identity == NULL)
			continue;
		appendStringInfo(&sql, "%s(" OWN_IDENTITY " OPERATOR(pg_catalog.=) %s AND %s) IS NOT TRUE",
						 sql.len > 0 ? " AND " : "", quote_literal_cstr(orphan->shard->identity),
						 sl_range_sql(map, &orphan->range, columns));
	}
	return sql.len > 0 ? sql.data : NULL;
}

/* Makes the plan's description of a table, with its alias in the statement. */
List *
sl_ownership_filter_member(const SlTable *table, const char *alias)
{
	List	   *member = list_make1(makeString(pstrdup(table->map)));

	for (int i = 0; i < table->key_count; i++)
		member = lappend(member, makeString(psprintf("%s.%s", alias,
													 quote_identifier(get_attname(table->relid, table->key[i], false)))));
	return member;
}

/*
 * Makes the plan's description of the position of a condition on such tables.
 */
List *
sl_ownership_filter_place(int offset, bool has_where, List *members)
{
	return list_make3(makeInteger(offset), makeBoolean(has_where), members);
}

static char *
member_sql(List *member)
{
	List	   *columns = NIL;

	for (int i = 1; i < list_length(member); i++)
		columns = lappend(columns, strVal(list_nth(member, i)));
	return make_filter_sql(sl_map_get(strVal(linitial(member))), columns);
}

/* Appends the conditions of one position. */
static void
write_place(StringInfo sql, List *place)
{
	bool		has_where = boolVal(lsecond(place));
	ListCell   *cell;

	foreach(cell, (List *) lthird(place))
	{
		const char *condition = member_sql(lfirst(cell));

		if (condition == NULL)
			continue;
		appendStringInfo(sql, "%s%s", has_where ? " AND " : " WHERE ", condition);
		has_where = true;
	}
}

static bool
has_orphaned(List *places)
{
	ListCell   *place;
	ListCell   *member;

	foreach(place, places)
	{
		foreach(member, (List *) lthird(lfirst(place)))
		{
			if (sl_map_get(strVal(linitial(lfirst(member))))->orphaned_count > 0)
				return true;
		}
	}
	return false;
}

/*
 * Returns the query string with the current conditions.  The positions are
 * ascending.
 */
const char *
sl_ownership_filter_apply(const char *sql, List *places)
{
	StringInfoData result;
	int			done = 0;
	ListCell   *cell;

	if (!has_orphaned(places))
		return sql;
	initStringInfo(&result);
	foreach(cell, places)
	{
		List	   *place = lfirst(cell);
		int			offset = intVal(linitial(place));

		appendBinaryStringInfo(&result, sql + done, offset - done);
		write_place(&result, place);
		done = offset;
	}
	appendStringInfoString(&result, sql + done);
	return result.data;
}

/*
 * Has a shardlet of the tables' maps been switched after the snapshot was
 * taken?
 */
bool
sl_ownership_filter_is_newer(List *places, Snapshot snapshot)
{
	ListCell   *place;
	ListCell   *member;

	foreach(place, places)
	{
		foreach(member, (List *) lthird(lfirst(place)))
		{
			if (sl_orphaned_is_newer(sl_map_get(strVal(linitial(lfirst(member)))), snapshot))
				return true;
		}
	}
	return false;
}
