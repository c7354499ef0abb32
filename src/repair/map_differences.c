/*
 * map_differences.c
 *		map_differences(): where router and shards do not agree.
 *
 * A shard is the authority over what it owns; the router routes by its own map.  They
 * differ where the router has a shard as the owner and that shard does not own the
 * range, or the other way round.  What a shard knows of ranges of others is a copy, which
 * may be older: it is shown, and is no difference.
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "repair/differences.h"

PG_FUNCTION_INFO_V1(shardlet_map_differences);

enum
{
	DIFFERENCE_SHARD, DIFFERENCE_MAP, DIFFERENCE_LOW, DIFFERENCE_HIGH, DIFFERENCE_ON_ROUTER,
	DIFFERENCE_ON_SHARD, DIFFERENCE_PROBLEM, DIFFERENCE_COLUMNS
};

/* The shardlets that a shard owns, or those that it knows of others. */
static List *
select_shardlets(const SlKnownMap *known, bool own)
{
	List	   *result = NIL;
	ListCell   *cell;

	if (known == NULL || (!own && known->row.kind == SL_KIND_SPREAD))
		return NIL;
	foreach(cell, known->shardlets)
	{
		SlKnownShardlet *shardlet = lfirst(cell);

		if ((shardlet->owner == NULL) == own)
			result = lappend(result, shardlet);
	}
	return result;
}

static bool
is_same_shardlet(const SlKnownShardlet *a, const SlKnownShardlet *b)
{
	return a->row.id == b->row.id && a->row.state == b->row.state &&
		a->row.pinned == b->row.pinned && a->first == b->first && a->last == b->last;
}

static void
set_problem(SlDifference *difference, const SlMapComparison *comparison)
{
	const SlKnownShardlet *router = difference->router;
	const SlKnownShardlet *own = difference->own;

	if (own != NULL && router != NULL && router->shard == comparison->shard)
		difference->problem = "shardlet, state, pin or borders differ";
	else if (own == NULL)
		difference->problem = "the router has this range on the shard, which does not own it";
	else if (router != NULL)
		difference->problem = psprintf("the shard owns what the router has on shard \"%s\"", NameStr(router->shard->name));
	else
		difference->problem = comparison->has_router ? "the shard owns what the router has on no shard" :
			"the router does not know the map";
}

/* Compares one segment; sets *difference and returns true if router and shard differ. */
static bool
compare_segment(const SlMapComparison *comparison, int segment, SlDifference *difference)
{
	const SlKnownShardlet *router = comparison->router_at[segment];
	const SlKnownShardlet *own = comparison->own_at[segment];
	bool		expected = router != NULL && router->shard == comparison->shard;

	if (own == NULL && !expected)
		return false;
	if (own != NULL && expected && is_same_shardlet(own, router))
		return false;
	memset(difference, 0, sizeof(SlDifference));
	difference->first = segment;
	difference->last = segment + 1;
	difference->router = router;
	difference->own = own;
	difference->other = comparison->other_at[segment];
	difference->is_ownership = (own != NULL) != expected;
	set_problem(difference, comparison);
	return true;
}

static bool
can_join(const SlMapComparison *comparison, const SlDifference *a, const SlDifference *b)
{
	return comparison->row.kind != SL_KIND_LIST && comparison->row.kind != SL_KIND_SPREAD &&
		a->last == b->first && a->router == b->router && a->own == b->own && a->other == b->other;
}

/*
 * Compares a map on the router with what a shard knows of it; either may be missing.
 * Returns false if both are.
 */
bool
sl_repair_compare(SlShard *shard, const char *name, const SlKnownMap *known, SlMapComparison *comparison)
{
	List	   *router = NIL;
	List	   *own = select_shardlets(known, true);
	List	   *others = select_shardlets(known, false);

	memset(comparison, 0, sizeof(SlMapComparison));
	comparison->shard = shard;
	comparison->known = known;
	comparison->has_router = sl_map_row_read(name, NULL, &comparison->row);
	if (comparison->has_router)
		router = sl_repair_read_router(&comparison->row);
	else if (known != NULL)
		comparison->row = known->row;
	else
		return false;
	comparison->segments = sl_segments_cut(&comparison->row,
										   list_concat(list_concat(list_copy(router), own), others));
	comparison->router_at = sl_segments_assign(&comparison->segments, router);
	comparison->own_at = sl_segments_assign(&comparison->segments, own);
	comparison->other_at = sl_segments_assign(&comparison->segments, others);
	for (int i = 0; i < comparison->segments.count; i++)
	{
		SlDifference *last = comparison->differences != NIL ? llast(comparison->differences) : NULL;
		SlDifference *difference = palloc(sizeof(SlDifference));

		if (!compare_segment(comparison, i, difference))
			continue;
		if (last != NULL && can_join(comparison, last, difference))
			last->last = i + 1;
		else
			comparison->differences = lappend(comparison->differences, difference);
	}
	return true;
}

/* Can what the shard knows be compared with a map of the router at all? */
const char *
sl_repair_incomparable(const SlMapComparison *comparison)
{
	const SlMapRow *row = &comparison->row;
	const SlMapRow *known = comparison->known != NULL ? &comparison->known->row : NULL;

	if (known == NULL || !comparison->has_router)
		return NULL;
	if (comparison->known->router == NULL ||
		strcmp(comparison->known->router, sl_router_get()->id) != 0)
		return "the shard has the map from another router";
	if (known->id != row->id)
		return "the shard has another map of the same name";
	if (known->kind != row->kind || known->key_count != row->key_count ||
		memcmp(known->key_oids, row->key_oids, sizeof(Oid) * row->key_count) != 0)
		return "kind or key types differ";
	return NULL;
}

/* The version that the shard must have of the map, -1 if it does not take part in it. */
static int64
expected_version(const SlMapComparison *comparison)
{
	ListCell   *cell;

	foreach(cell, sl_map_shard_versions(comparison->shard->id))
	{
		const SlMapShardVersion *version = lfirst(cell);

		if (version->map_id == comparison->row.id)
			return version->version;
	}
	return -1;
}

/* Returns how the versions differ, or NULL. */
const char *
sl_repair_version_problem(const SlMapComparison *comparison)
{
	int64		expected = comparison->has_router ? expected_version(comparison) : -1;
	int64		found = comparison->known != NULL ? comparison->known->row.version : 0;

	if (!comparison->has_router)
		return psprintf("the router does not know the map, the shard has version %lld", (long long) found);
	if (expected < 0 ? found <= comparison->row.version : found == expected)
		return NULL;
	return psprintf("the shard has version %lld, the router told it of version %lld", (long long) found,
					(long long) Max(expected, 0));
}

/* Rows ---------------------------------------------------------------------------------- */

static void
put_text(Datum *values, bool *nulls, int column, const char *value)
{
	nulls[column] = value == NULL;
	values[column] = value != NULL ? CStringGetTextDatum(value) : (Datum) 0;
}

static void
put_name(Datum *values, bool *nulls, int column, const char *value)
{
	nulls[column] = value == NULL;
	values[column] = value != NULL ? DirectFunctionCall1(namein, CStringGetDatum(value)) : (Datum) 0;
}

static void
put_row(ReturnSetInfo *result, const SlMapComparison *comparison, const SlDifference *difference, const char *problem)
{
	Datum		values[DIFFERENCE_COLUMNS];
	bool		nulls[DIFFERENCE_COLUMNS];
	const char *on_router = NULL;
	const char *on_shard = NULL;

	if (difference != NULL)
	{
		on_router = difference->router != NULL ? NameStr(difference->router->shard->name) : NULL;
		on_shard = difference->own != NULL ? NameStr(comparison->shard->name) :
			difference->other != NULL ? difference->other->owner : NULL;
	}
	put_name(values, nulls, DIFFERENCE_SHARD, NameStr(comparison->shard->name));
	put_name(values, nulls, DIFFERENCE_MAP, NameStr(comparison->row.name));
	put_text(values, nulls, DIFFERENCE_LOW,
			 difference != NULL ? sl_segments_low(&comparison->segments, difference->first) : NULL);
	put_text(values, nulls, DIFFERENCE_HIGH,
			 difference != NULL ? sl_segments_high(&comparison->segments, difference->last - 1) : NULL);
	put_name(values, nulls, DIFFERENCE_ON_ROUTER, on_router);
	put_name(values, nulls, DIFFERENCE_ON_SHARD, on_shard);
	put_text(values, nulls, DIFFERENCE_PROBLEM, problem);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

static void
put_map(ReturnSetInfo *result, SlShard *shard, const char *name, const SlKnownMap *known)
{
	SlMapComparison comparison;
	const char *problem;
	ListCell   *cell;

	if (!sl_repair_compare(shard, name, known, &comparison))
		return;
	problem = sl_repair_incomparable(&comparison);
	if (problem != NULL)
	{
		put_row(result, &comparison, NULL, problem);
		return;
	}
	foreach(cell, comparison.differences)
	{
		const SlDifference *difference = lfirst(cell);

		put_row(result, &comparison, difference, difference->problem);
	}
	problem = sl_repair_version_problem(&comparison);
	if (problem != NULL)
		put_row(result, &comparison, NULL, problem);
}

/*
 * Returns the names of the maps that the router or the shard has for the shard, but for
 * those that were dropped while it was away.
 */
List *
sl_repair_names_for(SlShard *shard, List *known)
{
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, known)
	{
		SlKnownMap *map = lfirst(cell);

		if (map->router == NULL || strcmp(map->router, sl_router_get()->id) != 0 || !sl_map_was_dropped(map->row.id))
			names = lappend(names, NameStr(map->row.name));
	}
	foreach(cell, sl_map_ids_of_shard(shard->id))
	{
		SlMapRow	row;

		if (sl_map_row_read_id(lfirst_int(cell), &row) && sl_repair_find_map(known, NameStr(row.name)) == NULL)
			names = lappend(names, pstrdup(NameStr(row.name)));
	}
	return names;
}

/* map_differences(shard) */
Datum
shardlet_map_differences(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	List	   *shards = PG_ARGISNULL(0) ? sl_shard_all() :
	list_make1(sl_shard_by_name(NameStr(*PG_GETARG_NAME(0)), false));
	ListCell   *cell;
	ListCell   *name;

	sl_router_check();
	InitMaterializedSRF(fcinfo, 0);
	foreach(cell, shards)
	{
		SlShard    *shard = lfirst(cell);
		List	   *known;

		/*
		 * Shards without the extension know nothing; one that is offline is
		 * told before it is back.
		 */
		if (shard->bare || (PG_ARGISNULL(0) && shard->state == SL_STATE_OFFLINE))
			continue;
		known = sl_repair_read_shard(shard);
		foreach(name, sl_repair_names_for(shard, known))
			put_map(result, shard, lfirst(name), sl_repair_find_map(known, lfirst(name)));
	}
	return (Datum) 0;
}
