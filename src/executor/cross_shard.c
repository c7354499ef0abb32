/*
 * cross_shard.c
 *		Statements that go to all shards, where that is not wanted.
 *
 * A statement that was meant for one key and lacks the condition on it gives the
 * right answer, at the cost of all shards.  With shardlet.cross_shard such
 * statements are found.
 */
#include "postgres.h"

#include "utils/lsyscache.h"

#include "base/base.h"
#include "executor/remote_scan.h"
#include "metadata/table.h"

static char *
list_key(const SlTable *table)
{
	char	   *result = NULL;

	for (int i = 0; i < table->key_count; i++)
	{
		char	   *name = get_attname(table->relid, table->key[i], false);

		result = result == NULL ? name : psprintf("%s, %s", result, name);
	}
	return result;
}

static int
hint_for(const SlTable *table)
{
	char	   *key = list_key(table);

	if (key == NULL)
		return errhint("Set shardlet.cross_shard to \"allow\" if that is wanted.");
	return errhint("Compare the key (%s) with a value, or set shardlet.cross_shard to \"allow\" if that is wanted.",
				   key);
}

/* The statement is about to go to these shards: may it? */
void
sl_cross_shard_check(const SlRemoteScan *scan, List *shards)
{
	int			count = list_length(shards);
	const SlTable *table;

	if (sl_cross_shard == SL_CROSS_SHARD_ALLOW || count < 2 || scan->statement->is_warned)
		return;
	table = sl_table_get((Oid) intVal(linitial(linitial(scan->programs))));
	if (count < list_length(sl_table_owners(table)))
		return;
	scan->statement->is_warned = true;
	ereport(sl_cross_shard == SL_CROSS_SHARD_WARN ? WARNING : ERROR,
			errcode(SL_ERR_INVALID),
			errmsg("statement goes to all %d shards of table \"%s\"", count,
				   get_rel_name(table->relid)),
			errdetail("shardlet.cross_shard is \"%s\".",
					  sl_cross_shard == SL_CROSS_SHARD_WARN ? "warn" : "forbid"),
			hint_for(table));
}
