/*
 * ask_explain.c
 *		What EXPLAIN tells of a scan of shards.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "deparse/owned.h"
#include "fanout/ask.h"
#include "map/table.h"

/* All shards of the first table, of which the others have as many. */
static int
count_owners(const SlAsk *ask)
{
	List	   *first = linitial(ask->programs);

	return list_length(sl_table_owners(sl_table_get((Oid) intVal(linitial(first)))));
}

static bool
has_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, Param) || expression_tree_walker(node, has_param, context);
}

static void
show_shards(List *shards, int of, ExplainState *es)
{
	StringInfoData line;
	ListCell   *cell;

	initStringInfo(&line);
	foreach(cell, shards)
		appendStringInfo(&line, "%s%s", line.len == 0 ? "" : ", ",
						 NameStr(((SlShard *) lfirst(cell))->name));
	appendStringInfo(&line, "%s (%d of %d)", shards == NIL ? "none" : "", list_length(shards), of);
	ExplainPropertyText("Shards", line.data, es);
}

/* Those that were asked, or would be. */
static void
show_shards_of(const SlAsk *ask, ExplainState *es)
{
	List	   *asked = NIL;
	ListCell   *cell;

	foreach(cell, ask->totals)
		asked = lappend(asked, ((SlShardStat *) lfirst(cell))->shard);
	if (es->analyze)
		show_shards(asked, count_owners(ask), es);
	else if (ask->choose != NULL || has_param((Node *) ask->others, NULL))
		ExplainPropertyText("Shards", psprintf("chosen at run time (of %d)", count_owners(ask)), es);
	else
		show_shards(sl_ask_shards(ask), count_owners(ask), es);
}

static void
show_work(const SlAsk *ask, ExplainState *es)
{
	ListCell   *cell;

	foreach(cell, ask->totals)
	{
		const SlShardStat *total = lfirst(cell);
		char	   *label = psprintf("Shard %s", NameStr(total->shard->name));
		char	   *work = psprintf("rows=" INT64_FORMAT " bytes=" INT64_FORMAT, total->rows,
									total->bytes);

		if (es->timing)
			work = psprintf("%s time=%.3f ms", work, (double) total->us / 1000);
		ExplainPropertyText(label, work, es);
	}
}

/* A limit is put behind the text when it runs. */
static void
show_limit(const SlAsk *ask, int place, const char *label, ExplainState *es)
{
	Const	   *limit;

	if (place < 0)
		return;
	limit = list_nth(ask->others, place);
	if (IsA(limit, Const) && !limit->constisnull)
		ExplainPropertyInteger(label, NULL, DatumGetInt64(limit->constvalue), es);
	else
		ExplainPropertyText(label, "chosen at run time", es);
}

/* Shows shards, text, limit and, if it ran, the work of each shard. */
void
sl_ask_explain(SlAsk *ask, ExplainState *es)
{
	sl_ask_collect(ask);
	show_shards_of(ask, es);
	if (es->verbose)
		ExplainPropertyText("Remote SQL", psprintf("%s%s", sl_owned_apply(ask->sql, ask->owned), ask->lock), es);
	show_limit(ask, ask->limit_place, "Limit", es);
	if (es->analyze)
		show_work(ask, es);
}
