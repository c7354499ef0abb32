/*
 * guard_trigger.c
 *		Puts the guard on tables of the shards, and takes it away.
 *
 * The guard is a trigger (src/shard) that a function on the shard creates, with
 * the rights of the user that the router connects as, who needs the privilege
 * TRIGGER on the table.  Shards without the extension have none.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "base/base.h"
#include "executor/multi_shard.h"

/* Returns those of the shards that have guards. */
List *
sl_guard_trigger_shards(List *shards)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, shards)
	{
		SlShard    *shard = lfirst(cell);

		if (shard->exists && !shard->bare && shard->state != SL_STATE_OFFLINE)
			result = lappend(result, shard);
	}
	return result;
}

/* Opens them, for commands that are not the user's. */
static SlReply *
open_shards(List *shards, int *count)
{
	SlReply    *replies = sl_broadcast_make(sl_guard_trigger_shards(shards), true, count);

	sl_command_open(replies, *count);
	return replies;
}

static char *
names_text(List *names)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(list_length(names), 1));
	ListCell   *cell;

	foreach(cell, names)
		values[foreach_current_index(cell)] = CStringGetTextDatum(lfirst(cell));
	return OidOutputFunctionCall(F_ARRAY_OUT,
								 PointerGetDatum(construct_array(values, list_length(names), TEXTOID,
																 -1, false, TYPALIGN_INT)));
}

/* Writes the command that guards a table of a map, by the columns of its key. */
char *
sl_guard_trigger_sql(const char *schema, const char *name, const char *map, List *key)
{
	return psprintf("SELECT " SL_INTERNAL_SCHEMA ".guard_table(%s, %s, %s)",
					quote_literal_cstr(quote_qualified_identifier(schema, name)),
					quote_literal_cstr(map), quote_literal_cstr(names_text(key)));
}

/* Guards a table of a map, for the first time or by another key. */
void
sl_guard_trigger_create(List *shards, const char *schema, const char *name, const char *map, List *key)
{
	int			count;
	SlReply    *replies = open_shards(shards, &count);

	sl_command_check(replies, count, NULL);
	sl_command_everywhere(replies, count, sl_guard_trigger_sql(schema, name, map, key), 0, NULL, true);
}

/* Guards the copies of a reference table. */
void
sl_guard_trigger_create_reference(List *shards, const char *schema, const char *name)
{
	const char *params[] = {quote_qualified_identifier(schema, name)};
	int			count;
	SlReply    *replies = open_shards(shards, &count);

	sl_command_check(replies, count, NULL);
	sl_command_everywhere(replies, count, "SELECT " SL_INTERNAL_SCHEMA ".guard_copy($1)", lengthof(params), params,
						  true);
}

/*
 * Removes the guard: the table is the shards' own again.  A shard that cannot be
 * reached, or has lost the table, is a warning.
 */
void
sl_guard_trigger_drop(List *shards, const char *schema, const char *name)
{
	const char *params[] = {quote_qualified_identifier(schema, name)};
	int			count;
	SlReply    *replies = open_shards(shards, &count);
	SlReply    *open = palloc0(sizeof(SlReply) * Max(count, 1));
	int			open_count = 0;

	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure == NULL)
			open[open_count++] = replies[i];
		else
			ereport(WARNING,
					errmsg("table \"%s\" stays guarded on shard \"%s\"", name,
						   NameStr(replies[i].shard->name)),
					errdetail("%s", replies[i].failure->message),
					errhint("SELECT " SL_INTERNAL_SCHEMA ".unguard_table('%s') there.", params[0]));
	}
	sl_command_everywhere(open, open_count, "SELECT " SL_INTERNAL_SCHEMA ".unguard_table(pg_catalog.to_regclass($1))",
						  lengthof(params), params, true);
}
