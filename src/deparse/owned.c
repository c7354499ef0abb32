/*
 * owned.c
 *		Keeps rows out of statements that a shard has and does not own.
 *
 * There are such rows while a shardlet is being moved, and until what it left
 * behind is removed.  A statement for one key goes to the owner and needs
 * nothing.  One for several shards gets a condition more for each of its tables.
 * The plan says where in the text that goes; it is put in when the statement is
 * about to run, by the same state of the map that says which shards are asked:
 * so plans need not know of moves.  All shards get the same text, in which each
 * finds its own name.
 *
 * Tables of one statement are joined by their keys, so a row that is joined to an
 * owned one is owned.  The condition holds for rows that an outer join made up.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/value.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "deparse/owned.h"

/* The shard's own name for itself, as its connections set it. */
#define OWN_IDENTITY "(SELECT pg_catalog.current_setting('shardlet.identity', true))"

/*
 * Writes the condition that a row counts, over the key columns of a table; NULL
 * if all do.
 */
char *
sl_owned_sql(SlMap *map, List *columns)
{
	StringInfoData sql;

	if (map->stray_count == 0)
		return NULL;
	initStringInfo(&sql);
	for (int i = 0; i < map->stray_count; i++)
	{
		const SlStray *stray = &map->strays[i];

		if (stray->shard->identity == NULL)
			continue;
		appendStringInfo(&sql, "%s(" OWN_IDENTITY " OPERATOR(pg_catalog.=) %s AND %s) IS NOT TRUE",
						 sql.len > 0 ? " AND " : "", quote_literal_cstr(stray->shard->identity),
						 sl_range_sql(map, &stray->range, columns));
	}
	return sql.len > 0 ? sql.data : NULL;
}

/* A table of a statement, by its name there, for a plan. */
List *
sl_owned_member(const SlTable *table, const char *alias)
{
	List	   *member = list_make1(makeString(pstrdup(table->map)));

	for (int i = 0; i < table->key_count; i++)
		member = lappend(member, makeString(psprintf("%s.%s", alias,
													 quote_identifier(get_attname(table->relid, table->key[i], false)))));
	return member;
}

/* Where the condition on such tables goes, for a plan. */
List *
sl_owned_place(int offset, bool has_where, List *members)
{
	/* cppcheck-suppress unknownEvaluationOrder */
	return list_make3(makeInteger(offset), makeBoolean(has_where), members);
}

static char *
member_sql(List *member)
{
	List	   *columns = NIL;

	for (int i = 1; i < list_length(member); i++)
		columns = lappend(columns, strVal(list_nth(member, i)));
	return sl_owned_sql(sl_map_get(strVal(linitial(member))), columns);
}

/* Writes what comes at one place. */
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
has_strays(List *places)
{
	ListCell   *place;
	ListCell   *member;

	foreach(place, places)
	{
		foreach(member, (List *) lthird(lfirst(place)))
		{
			if (sl_map_get(strVal(linitial(lfirst(member))))->stray_count > 0)
				return true;
		}
	}
	return false;
}

/* Returns the text as it must be now.  The places are in its order. */
const char *
sl_owned_apply(const char *sql, List *places)
{
	StringInfoData result;
	int			done = 0;
	ListCell   *cell;

	if (!has_strays(places))
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

/* Has a shardlet of the tables' maps changed its shard after the snapshot was taken? */
bool
sl_owned_is_newer(List *places, Snapshot snapshot)
{
	ListCell   *place;
	ListCell   *member;

	foreach(place, places)
	{
		foreach(member, (List *) lthird(lfirst(place)))
		{
			if (sl_stray_is_newer(sl_map_get(strVal(linitial(lfirst(member)))), snapshot))
				return true;
		}
	}
	return false;
}
