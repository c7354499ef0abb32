/*
 * missing_shards.c
 *		Shards that a statement cannot use, and those that the last one did
 *		without.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/base.h"
#include "executor/multi_shard.h"

/* Their names, in TopMemoryContext. */
static List *missing = NIL;

List *
sl_missing_shards(void)
{
	return missing;
}

void
sl_missing_shards_reset(void)
{
	list_free_deep(missing);
	missing = NIL;
}

void
sl_missing_shards_add(const SlShard *shard)
{
	MemoryContext old_context = MemoryContextSwitchTo(TopMemoryContext);

	missing = lappend(missing, pstrdup(NameStr(shard->name)));
	MemoryContextSwitchTo(old_context);
}

/*
 * Refuses shards that are offline, and, for a write, read-only ones; or, with
 * skip, leaves them out with a warning.
 */
void
sl_missing_shards_check(List **shards, bool is_write, bool skip)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, *shards)
	{
		SlShard    *shard = lfirst(cell);
		bool		offline = !shard->exists || shard->state == SL_STATE_OFFLINE;
		bool		refused = is_write && shard->state == SL_STATE_READ_ONLY;

		if (!offline && !refused)
		{
			result = lappend(result, shard);
			continue;
		}

		/* All left out is an error, below. */
		if (skip && (result != NIL || list_length(*shards) > 1))
			sl_missing_shards_add(shard);
		ereport(skip && (result != NIL || lnext(*shards, cell) != NULL) ? WARNING : ERROR,
				errcode(offline ? SL_ERR_UNREACHABLE : SL_ERR_READ_ONLY),
				errmsg("shard \"%s\" is %s", NameStr(shard->name),
					   offline ? "offline" : "read-only"),
				errhint("shardlet.alter_shard('%s', state => 'online') brings it back.",
						NameStr(shard->name)));
	}
	*shards = result;
}
