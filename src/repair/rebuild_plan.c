/*
 * rebuild_plan.c
 *		Puts maps together from what the shards know.
 *
 * A shard's own entries are claims.  The map is what is claimed, provided that nothing
 * is claimed twice.  Entries of others come from copies of the map, which may be old:
 * those of the latest copy say which ranges must have an owner.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/varlena.h"

#include "base/base.h"
#include "metadata/table.h"
#include "repair/rebuild.h"

/* Does the shard not say what it knows?  Then the router's entries of it are kept. */
bool
sl_rebuild_is_silent(const SlShard *shard)
{
	return shard->bare || shard->state == SL_STATE_OFFLINE;
}

static SlRebuildAction *
add_action(SlRebuildPlan *plan, const char *map, const char *action, const char *shard, const char *problem)
{
	SlRebuildAction *result = palloc0(sizeof(SlRebuildAction));

	result->map = map;
	result->action = action;
	result->shard = shard;
	result->problem = problem;
	plan->actions = lappend(plan->actions, result);
	return result;
}

static SlRebuildAction *
add_range(SlRebuildPlan *plan, const SlSegments *segments, int first, int last, const char *action,
		  const char *shard, const char *problem)
{
	SlRebuildAction *result = add_action(plan, NameStr(segments->map->name), action, shard, problem);

	result->low = sl_segments_low(segments, first);
	result->high = sl_segments_high(segments, last - 1);
	return result;
}

/* One map --------------------------------------------------------------------------- */

static int64
latest_version(const SlRebuild *rebuild, bool of_copies)
{
	int64		result = 0;
	ListCell   *cell;

	foreach(cell, rebuild->maps)
	{
		const SlKnownMap *known = lfirst(cell);

		result = Max(result, of_copies ? known->copy_version : known->row.version);
	}
	return result;
}

/* Looks whether all shards have the same map, and the router too. */
static void
check_headers(SlRebuildPlan *plan, const SlRebuild *rebuild)
{
	const SlKnownMap *first = linitial(rebuild->maps);
	const char *name = NameStr(rebuild->row.name);
	SlMapRow	other;
	ListCell   *cell;

	foreach(cell, rebuild->maps)
	{
		const SlKnownMap *known = lfirst(cell);
		const char *router = known->router != NULL ? known->router : "";

		if (known->row.id != first->row.id || strcmp(router, first->router != NULL ? first->router : "") != 0)
			add_action(plan, name, "conflict", NameStr(known->shard->name),
					   psprintf("it is another map than that of shard \"%s\"", NameStr(first->shard->name)));
		else if (known->row.kind != first->row.kind || known->row.key_count != first->row.key_count ||
				 memcmp(known->row.key_oids, first->row.key_oids, sizeof(Oid) * first->row.key_count) != 0)
			add_action(plan, name, "conflict", NameStr(known->shard->name),
					   psprintf("kind or key types are not those of shard \"%s\"", NameStr(first->shard->name)));
	}
	if (sl_map_row_read(name, NULL, &other) && other.id != first->row.id)
		add_action(plan, name, "conflict", NULL, "the router has another map of that name");
	else if (sl_map_row_read_id(first->row.id, &other) && strcmp(NameStr(other.name), name) != 0)
		add_action(plan, name, "conflict", NULL, psprintf("the router's map \"%s\" has its id", NameStr(other.name)));
}

static void
collect_claims(SlRebuild *rebuild)
{
	ListCell   *cell;
	ListCell   *inner;

	foreach(cell, rebuild->maps)
	{
		foreach(inner, ((SlKnownMap *) lfirst(cell))->shardlets)
		{
			SlKnownShardlet *known = lfirst(inner);

			if (known->owner == NULL)
				rebuild->claims = lappend(rebuild->claims, known);
		}
	}
	if (!rebuild->exists)
		return;
	foreach(cell, sl_repair_read_router(&rebuild->row))
	{
		SlKnownShardlet *known = lfirst(cell);

		if (sl_rebuild_is_silent(known->shard))
			rebuild->claims = lappend(rebuild->claims, known);
	}
}

/* The entries of other shards' shardlets in the latest copies. */
static List *
collect_others(const SlRebuild *rebuild)
{
	int64		latest = latest_version(rebuild, true);
	List	   *others = NIL;
	ListCell   *cell;
	ListCell   *inner;

	if (rebuild->row.kind == SL_KIND_SPREAD)
		return NIL;
	foreach(cell, rebuild->maps)
	{
		const SlKnownMap *known = lfirst(cell);

		if (latest >= rebuild->row.version && known->copy_version < latest)
			continue;
		foreach(inner, known->shardlets)
		{
			if (((SlKnownShardlet *) lfirst(inner))->owner != NULL)
				others = lappend(others, lfirst(inner));
		}
	}
	return others;
}

/* Shows what two shards claim.  Fills in who claims each segment. */
static SlKnownShardlet **
find_claimants(SlRebuildPlan *plan, const SlRebuild *rebuild, const SlSegments *segments)
{
	SlKnownShardlet **result = palloc0(sizeof(SlKnownShardlet *) * Max(segments->count, 1));
	ListCell   *cell;

	foreach(cell, rebuild->claims)
	{
		SlKnownShardlet *claim = lfirst(cell);
		SlKnownShardlet *shown = NULL;

		for (int i = claim->first; i < claim->last; i++)
		{
			SlKnownShardlet *other = result[i];

			if (other == NULL)
				result[i] = claim;
			else if (other != shown)
			{
				int			last = Min(claim->last, other->last);

				shown = other;
				add_range(plan, segments, i, last, "conflict", NameStr(other->shard->name),
						  psprintf("shard \"%s\" owns it too", NameStr(claim->shard->name)))->shardlet = other->row.id;
				add_range(plan, segments, i, last, "conflict", NameStr(claim->shard->name),
						  psprintf("shard \"%s\" owns it too", NameStr(other->shard->name)))->shardlet = claim->row.id;
			}
		}
	}
	return result;
}

static const char *
gap_problem(const SlRebuild *rebuild, const SlKnownShardlet *other)
{
	SlShard    *owner;

	if (other == NULL)
		return "no shard owns it";
	owner = sl_repair_shard_called(rebuild->maps, other->owner);
	if (owner == NULL)
		return psprintf("its owner is not registered: shardlet.add_shard(%s, ..., takeover => true)",
						quote_literal_cstr(other->owner));
	return psprintf("shard \"%s\" should own it, and does not", NameStr(owner->name));
}

/* Shows ranges that must have an owner and have none. */
static void
show_gaps(SlRebuildPlan *plan, const SlRebuild *rebuild, const SlSegments *segments,
		  SlKnownShardlet *const *claimants, SlKnownShardlet *const *others)
{
	bool		is_complete = latest_version(rebuild, true) >= rebuild->row.version;

	for (int i = 0; i < segments->count;)
	{
		int			last = i + 1;

		while (last < segments->count && claimants[last] == NULL && claimants[i] == NULL && others[last] == others[i] &&
			   rebuild->row.kind != SL_KIND_LIST)
			last++;
		if (claimants[i] == NULL && (others[i] != NULL || (rebuild->row.kind == SL_KIND_HASH && !is_complete)))
			add_range(plan, segments, i, last, "gap", others[i] != NULL ? others[i]->owner : NULL,
					  gap_problem(rebuild, others[i]));
		i = last;
	}
}

/* Says what becomes of a shardlet. */
static void
show_claim(SlRebuildPlan *plan, const SlRebuild *rebuild, const SlSegments *segments, const SlKnownShardlet *claim)
{
	SlShardletRow old;
	const char *action = "assign";
	const char *problem = NULL;

	if (sl_shardlet_row_read(claim->row.id, &old))
	{
		if (!rebuild->exists || old.map_id != rebuild->row.id)
			problem = "a shardlet of another map has its id";
		else if (old.shard_id == claim->shard->id && old.version == claim->row.version)
			action = "keep";
	}
	add_range(plan, segments, claim->first, claim->last, action, NameStr(claim->shard->name), problem)->shardlet =
		claim->row.id;
}

static int
compare_ids(const ListCell *a, const ListCell *b)
{
	int64		left = ((const SlKnownShardlet *) lfirst(a))->row.id;
	int64		right = ((const SlKnownShardlet *) lfirst(b))->row.id;

	return left < right ? -1 : left > right;
}

static void
show_claims(SlRebuildPlan *plan, SlRebuild *rebuild, const SlSegments *segments)
{
	const SlKnownShardlet *last = NULL;
	ListCell   *cell;

	list_sort(rebuild->claims, compare_ids);
	foreach(cell, rebuild->claims)
	{
		const SlKnownShardlet *claim = lfirst(cell);

		if (last != NULL && last->row.id == claim->row.id && last->shard != claim->shard)
		{
			/* If they overlap they are shown already. */
			if (last->first < claim->last && claim->first < last->last)
				continue;
			add_range(plan, segments, claim->first, claim->last, "conflict", NameStr(claim->shard->name),
					  psprintf("shard \"%s\" owns a shardlet with the same id",
							   NameStr(last->shard->name)))->shardlet = claim->row.id;
		}
		else
			show_claim(plan, rebuild, segments, claim);
		last = claim;
	}
}

static void
plan_map(SlRebuildPlan *plan, const char *name, List *known)
{
	SlRebuild  *rebuild = palloc0(sizeof(SlRebuild));
	SlMapRow	old;
	SlSegments	segments;
	List	   *others;
	ListCell   *cell;

	foreach(cell, known)
	{
		SlKnownMap *map = lfirst(cell);

		if (strcmp(NameStr(map->row.name), name) == 0)
			rebuild->maps = lappend(rebuild->maps, map);
	}
	rebuild->row = ((SlKnownMap *) linitial(rebuild->maps))->row;
	rebuild->exists = sl_map_row_read(name, NULL, &old);
	rebuild->row.version = Max(latest_version(rebuild, false), latest_version(rebuild, true));
	if (rebuild->exists)
		rebuild->row.version = Max(rebuild->row.version, old.version);
	add_action(plan, pstrdup(name), rebuild->exists ? "update map" : "create map", NULL, NULL);
	check_headers(plan, rebuild);
	collect_claims(rebuild);
	others = collect_others(rebuild);
	segments = sl_segments_cut(&rebuild->row, list_concat(list_copy(rebuild->claims), others));
	show_gaps(plan, rebuild, &segments, find_claimants(plan, rebuild, &segments), sl_segments_assign(&segments, others));
	show_claims(plan, rebuild, &segments);
	plan->maps = lappend(plan->maps, rebuild);
}

/* Tables ------------------------------------------------------------------------------ */

static bool
is_planned(const SlRebuildPlan *plan, const SlGuardedTable *table)
{
	ListCell   *cell;

	foreach(cell, plan->tables)
	{
		if (strcmp(((SlGuardedTable *) lfirst(cell))->name, table->name) == 0)
			return true;
	}
	return false;
}

static bool
is_rebuilt(const SlRebuildPlan *plan, const char *map)
{
	ListCell   *cell;

	foreach(cell, plan->maps)
	{
		if (strcmp(NameStr(((SlRebuild *) lfirst(cell))->row.name), map) == 0)
			return true;
	}
	return false;
}

/* Is a table of the router in the way?  One that is distributed is there already. */
static void
plan_table(SlRebuildPlan *plan, const SlGuardedTable *table)
{
	RangeVar   *name = makeRangeVarFromNameList(sl_split_name(table->name));
	Oid			relid = RangeVarGetRelid(name, NoLock, true);
	const char *problem = NULL;

	if (OidIsValid(relid))
	{
		if (table->map == NULL || sl_table_is_remote(relid, get_rel_relkind(relid)))
			return;
		problem = "the router has a plain table of that name";
	}
	add_action(plan, table->map, psprintf("attach table %s", table->name), NULL, problem);
	plan->tables = lappend(plan->tables, (void *) table);
}

/* "only": the name of a map whose tables are wanted; NULL: all, and reference tables. */
static void
plan_tables(SlRebuildPlan *plan, SlShard *shard, const char *only)
{
	ListCell   *cell;

	foreach(cell, sl_rebuild_read_tables(shard))
	{
		const SlGuardedTable *table = lfirst(cell);

		if (!is_planned(plan, table) && (table->map == NULL ? only == NULL : is_rebuilt(plan, table->map)))
			plan_table(plan, table);
	}
}

/*
 * Plans to rebuild a map, or all of them, from what the registered shards know.  One
 * that cannot be reached is an error, unless it is offline.
 */
void
sl_rebuild_plan(const char *only, SlRebuildPlan *plan)
{
	List	   *known = NIL;
	ListCell   *cell;

	memset(plan, 0, sizeof(SlRebuildPlan));
	foreach(cell, sl_shard_all())
	{
		if (!sl_rebuild_is_silent(lfirst(cell)))
			known = list_concat(known, sl_repair_read_shard(lfirst(cell)));
	}
	foreach(cell, sl_repair_map_names(known))
	{
		const SlKnownMap *map = sl_repair_find_map(known, lfirst(cell));
		bool		is_dropped = map->router != NULL && strcmp(map->router, sl_router_get()->id) == 0 &&
		sl_map_was_dropped(map->row.id);

		if (only != NULL ? strcmp(only, lfirst(cell)) == 0 : !is_dropped)
			plan_map(plan, lfirst(cell), known);
	}
	if (only != NULL && plan->maps == NIL)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("no shard knows map \"%s\"", only));
	foreach(cell, sl_shard_all())
	{
		if (!sl_rebuild_is_silent(lfirst(cell)))
			plan_tables(plan, lfirst(cell), only);
	}
}
