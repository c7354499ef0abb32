/*
 * compare_tables.c
 *		Are the tables that shards have one and the same?
 *
 * Their definitions are compared item by item with that of the first shard, so
 * that the error can name every difference.  Comments, grants, storage and
 * statistics may differ: they change no result.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "base/base.h"
#include "ddl/definition.h"

/* So many differences are listed; the rest is counted. */
#define MAX_LISTED 40

typedef struct Differences
{
	StringInfoData lines;
	int			count;
} Differences;

static bool
is_compared(const SlDefinitionItem *item)
{
	static const char *const kinds[] = {"column", "type", "partition", "partition_bound", "primary_key", "unique",
	"exclusion", "index", "check", "foreign_key", "trigger", "trigger_state"};

	for (int i = 0; i < (int) lengthof(kinds); i++)
	{
		if (strcmp(item->kind, kinds[i]) == 0)
			return true;
	}
	return false;
}

/* A trigger that is switched off is a difference of the trigger. */
static const char *
kind_label(const SlDefinitionItem *item)
{
	char	   *label = pstrdup(item->kind);

	for (char *at = label; *at != '\0'; at++)
		*at = *at == '_' ? ' ' : *at;
	return label;
}

static void
add_difference(Differences *differences, const char *line)
{
	if (++differences->count > MAX_LISTED)
		return;
	if (differences->lines.len > 0)
		appendStringInfoChar(&differences->lines, '\n');
	appendStringInfoString(&differences->lines, line);
}

static bool
is_same(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static const char *
text_of(const SlDefinitionItem *item)
{
	return item->ddl != NULL ? item->ddl : "a type that cannot be written down";
}

/* Adds what the first has and the second lacks or has in another form. */
static void
compare_to(Differences *differences, const SlDefinition *first, const SlShard *first_shard,
		   const SlDefinition *second, const SlShard *second_shard, bool is_back)
{
	ListCell   *cell;

	foreach(cell, first->items)
	{
		const SlDefinitionItem *item = lfirst(cell);
		const SlDefinitionItem *other;

		if (!is_compared(item))
			continue;
		other = sl_definition_find(second, item->kind, item->name);
		if (other == NULL)
			add_difference(differences,
						   psprintf("%s %s: on shard \"%s\", and not on shard \"%s\"", kind_label(item),
									item->name, NameStr(first_shard->name), NameStr(second_shard->name)));
		else if (!is_back && !is_same(item->ddl, other->ddl))
			add_difference(differences,
						   psprintf("%s %s: \"%s\" on shard \"%s\", \"%s\" on shard \"%s\"", kind_label(item),
									item->name, text_of(item), NameStr(first_shard->name),
									text_of(other), NameStr(second_shard->name)));
	}
}

/* Refuses definitions of one table that are not the same on all shards. */
void
sl_definition_compare(SlDefinition **definitions, SlShard **shards, int count)
{
	Differences differences = {0};

	initStringInfo(&differences.lines);
	for (int i = 1; i < count; i++)
	{
		compare_to(&differences, definitions[0], shards[0], definitions[i], shards[i], false);
		compare_to(&differences, definitions[i], shards[i], definitions[0], shards[0], true);
	}
	if (differences.count == 0)
		return;
	if (differences.count > MAX_LISTED)
		appendStringInfo(&differences.lines, "\nand %d more", differences.count - MAX_LISTED);
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("table \"%s.%s\" is not the same on all shards",
				   definitions[0]->schema, definitions[0]->name),
			errdetail_internal("%s", differences.lines.data),
			errhint("Change the tables until they agree, for example with shardlet.execute() and its argument \"shards\"."));
}
