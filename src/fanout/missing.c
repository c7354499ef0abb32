/*
 * missing.c
 *		The shards that the last statement did without.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/base.h"
#include "fanout/fanout.h"

/* Their names, in TopMemoryContext. */
static List *missing = NIL;

List *
sl_fanout_missing(void)
{
	return missing;
}

void
sl_fanout_reset_missing(void)
{
	list_free_deep(missing);
	missing = NIL;
}

void
sl_fanout_add_missing(const SlShard *shard)
{
	MemoryContext old_context = MemoryContextSwitchTo(TopMemoryContext);

	missing = lappend(missing, pstrdup(NameStr(shard->name)));
	MemoryContextSwitchTo(old_context);
}
