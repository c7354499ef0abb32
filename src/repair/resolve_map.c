/*
 * resolve_map.c
 *		resolve_map(): ends the differences between the router and one shard.
 *
 * What the router knows is kept, as a rule: a shard that was restored from a backup is
 * told again what it owns.  Rows that it has of ranges which another shard owns were
 * moved away since; they are hidden at once and removed by a worker, like those that a
 * move leaves behind (move/steps.c).  What was lost with the shard does not come back.
 *
 * What the shard knows is kept if the router was restored: the router then has the
 * ranges on the shards that own them according to this one.  The other shards that are
 * concerned are told.
 *
 * Either way the map gets a version above all that is known, on both sides.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "executor/multi_shard.h"
#include "move/move.h"
#include "repair/differences.h"
#include "transaction/transaction.h"

PG_FUNCTION_INFO_V1(shardlet_resolve_map);

/* Rows that the shard must not show ---------------------------------------------- */

/* Hides what the shard has of a range of another one, and has it removed. */
static void
hide_rows(const SlMapComparison *comparison, const SlKnownShardlet *owned)
{
	SlOrphanedRange orphan = {.shard = comparison->shard,.is_after_switch = true,.range = owned->row};
	SlMove		move = {.shardlet = owned->row.id,.mode = SL_MOVE_READ_ONLY,.is_open = true,.lag = -1};

	move.id = sl_catalog_next_id(SL_MOVE_SEQUENCE);
	sl_move_make_name(&move);
	move.map_id = comparison->row.id;
	move.from_shard = comparison->shard->id;
	move.to_shard = owned->shard->id;
	move.state_before = owned->row.state;
	move.user = GetUserId();
	move.started = move.changed = GetCurrentTimestamp();
	move.phase = SL_MOVE_PHASE_SETTLE;
	sl_move_insert(&move);
	orphan.move = move.id;
	sl_orphaned_insert(&orphan);
}

/* Is such a clean-up, or a move from the shard, under way already? */
static bool
is_hidden(const SlMapComparison *comparison, int64 shardlet)
{
	ListCell   *cell;

	foreach(cell, sl_move_list_open())
	{
		const SlMove *move = lfirst(cell);

		if (move->shardlet == shardlet)
			return true;
	}
	return false;
}

/* The same for all ranges that the shard wrongly takes for its own. */
static void
hide_foreign_rows(const SlMapComparison *comparison)
{
	List	   *done = NIL;
	ListCell   *cell;

	if (comparison->row.kind == SL_KIND_SPREAD)
		return;
	foreach(cell, comparison->differences)
	{
		const SlDifference *difference = lfirst(cell);

		if (difference->own == NULL || difference->router == NULL ||
			difference->router->shard == comparison->shard || list_member_ptr(done, difference->router))
			continue;
		done = lappend(done, (void *) difference->router);
		if (!is_hidden(comparison, difference->router->row.id))
			hide_rows(comparison, difference->router);
	}
}

/* Keeping what the router knows --------------------------------------------------- */

/* The shard forgets a map that the router does not know, or that belongs to another router. */
static void
forget_map(SlShard *shard, const SlKnownMap *known)
{
	sl_publish_forget(shard, NameStr(known->row.name), known->router != NULL ? known->router : sl_router_get()->id);
}

static bool
takes_part(const SlMapComparison *comparison)
{
	return comparison->has_router &&
		list_member_int(sl_map_shard_ids(comparison->row.id), comparison->shard->id);
}

static int64
keep_router(SlMapComparison *comparison)
{
	const SlKnownMap *known = comparison->known;
	bool		is_other = known != NULL && sl_repair_incomparable(comparison) != NULL;
	int64		count = list_length(comparison->differences);
	SlMap	   *map = NULL;

	if (comparison->has_router)
		map = sl_map_open_for_change(NameStr(comparison->row.name));
	if (known != NULL && (is_other || !takes_part(comparison)))
		forget_map(comparison->shard, known);
	if (!takes_part(comparison))
		return Max(count, 1);
	if (!is_other)
		hide_foreign_rows(comparison);
	sl_map_raise_version(map, known != NULL ? known->row.version : 0);
	sl_publish_map_to(comparison->shard, comparison->row.id);
	return Max(count, 1);
}

/* Keeping what the shard knows ---------------------------------------------------- */

pg_noreturn static void
refuse_to_keep(const SlMapComparison *comparison, const char *detail)
{
	ereport(ERROR,
			errcode(SL_ERR_INVALID),
			errmsg("cannot keep what shard \"%s\" knows of map \"%s\"", NameStr(comparison->shard->name),
				   NameStr(comparison->row.name)),
			errdetail_internal("%s", detail),
			errhint("See shardlet.map_differences(). shardlet.rebuild_map() uses what all shards know."));
}

/* Returns the shard that is to own the segments of a difference. */
static SlShard *
new_owner(const SlMapComparison *comparison, const SlDifference *difference)
{
	SlShard    *owner = NULL;

	if (difference->own != NULL)
		return comparison->shard;
	if (difference->other != NULL)
		owner = sl_shard_by_name(difference->other->owner, true);
	if (owner == NULL)
		refuse_to_keep(comparison, difference->other == NULL ?
					   "The shard does not know which shard owns a range that the router has on it." :
					   psprintf("Shard \"%s\", which owns a range according to it, is not registered.",
								difference->other->owner));
	return owner;
}

/* Raises an error if a shard owns what this one owns, and what the router has there. */
static void
refuse_overlap(const SlMapComparison *comparison, const SlKnownShardlet *own, const SlKnownMap *other)
{
	ListCell   *cell;

	foreach(cell, other->shardlets)
	{
		SlKnownShardlet mine = *own;
		SlKnownShardlet claim = *(SlKnownShardlet *) lfirst(cell);

		if (claim.owner != NULL)
			continue;
		(void) sl_segments_cut(&comparison->row, list_make2(&mine, &claim));
		if (mine.first < claim.last && claim.first < mine.last)
			ereport(ERROR,
					errcode(SL_ERR_EXISTS),
					errmsg("shards \"%s\" and \"%s\" own the same range of map \"%s\"",
						   NameStr(comparison->shard->name), NameStr(other->shard->name),
						   NameStr(comparison->row.name)),
					errdetail("Shardlet %lld of the one overlaps shardlet %lld of the other.",
							  (long long) mine.row.id, (long long) claim.row.id),
					errhint("shardlet.resolve_map() with keep => 'router' decides by what the router knows."));
	}
}

/*
 * The shards from which ranges are taken must agree: what two shards own would be
 * read twice.
 */
static void
check_other_owners(const SlMapComparison *comparison)
{
	SlShard    *shard = NULL;
	const SlKnownMap *known = NULL;
	ListCell   *cell;

	if (comparison->row.kind == SL_KIND_SPREAD)
		return;
	foreach(cell, comparison->differences)
	{
		const SlDifference *difference = lfirst(cell);

		if (difference->own == NULL || difference->router == NULL ||
			difference->router->shard == comparison->shard || difference->router->shard->bare)
			continue;
		if (shard != difference->router->shard)
		{
			shard = difference->router->shard;
			known = sl_repair_find_map(sl_repair_read_shard(shard), NameStr(comparison->row.name));
		}
		if (known != NULL)
			refuse_overlap(comparison, difference->own, known);
	}
}

/* Does the map have the shardlet already? */
static bool
id_is_used(int64 id)
{
	SlShardletRow row;

	return sl_shardlet_row_read(id, &row);
}

/* Writes a shardlet for some segments: what is given, with their bounds. */
static void
insert_piece(const SlMapComparison *comparison, SlMap *map, const SlShardletRow *like, int first, int last,
			 const SlShard *owner)
{
	SlShardletRow row = *like;

	row.map_id = map->id;
	row.shard_id = owner->id;
	row.version = sl_map_next_version(map);
	sl_segments_set_bounds(&comparison->segments, first, last, &row);
	if (id_is_used(row.id))
		row.id = sl_catalog_next_id(SL_SHARDLET_SEQUENCE);
	sl_shardlet_row_insert(&row, 1);
}

/* What a segment is to become: which shardlet it is like, and whose it is. */
typedef struct Target
{
	const SlKnownShardlet *like;	/* NULL: it has no owner */
	SlShard    *owner;
} Target;

static Target *
choose_targets(const SlMapComparison *comparison)
{
	Target	   *targets = palloc0(sizeof(Target) * Max(comparison->segments.count, 1));
	ListCell   *cell;

	for (int i = 0; i < comparison->segments.count; i++)
	{
		targets[i].like = comparison->router_at[i];
		targets[i].owner = targets[i].like != NULL ? targets[i].like->shard : NULL;
	}
	foreach(cell, comparison->differences)
	{
		const SlDifference *difference = lfirst(cell);
		SlShard    *owner = new_owner(comparison, difference);

		for (int i = difference->first; i < difference->last; i++)
		{
			targets[i].like = difference->own != NULL ? difference->own : difference->other;
			targets[i].owner = owner;
		}
	}
	return targets;
}

/* Deletes the router's shardlets that a difference touches; their other segments are written again. */
static void
delete_touched(const SlMapComparison *comparison, bool *is_touched)
{
	List	   *done = NIL;
	ListCell   *cell;

	foreach(cell, comparison->differences)
	{
		const SlDifference *difference = lfirst(cell);

		for (int i = difference->first; i < difference->last; i++)
			is_touched[i] = true;
		if (difference->router == NULL || list_member_ptr(done, difference->router))
			continue;
		done = lappend(done, (void *) difference->router);
		for (int i = difference->router->first; i < difference->router->last; i++)
			is_touched[i] = true;
		sl_shardlet_row_delete(&difference->router->row);
	}
}

static int64
keep_shard(SlMapComparison *comparison)
{
	const char *name = NameStr(comparison->row.name);
	bool	   *is_touched = palloc0(sizeof(bool) * Max(comparison->segments.count, 1));
	Target	   *targets;
	SlMap	   *map;

	if (!comparison->has_router || comparison->known == NULL)
		refuse_to_keep(comparison, comparison->has_router ? "The shard does not know the map." :
					   "The router does not know the map.");
	if (sl_repair_incomparable(comparison) != NULL)
		refuse_to_keep(comparison, "The shard has it from another router, or with other keys.");
	check_other_owners(comparison);
	targets = choose_targets(comparison);
	map = sl_map_open_at_rest(name);
	sl_map_raise_version(map, comparison->known->row.version);
	map = sl_map_open_for_change(name);
	delete_touched(comparison, is_touched);
	for (int i = 0; i < comparison->segments.count;)
	{
		int			last = i + 1;

		while (last < comparison->segments.count && is_touched[i] == is_touched[last] &&
			   targets[last].like == targets[i].like && targets[last].owner == targets[i].owner)
			last++;
		if (is_touched[i] && targets[i].like != NULL)
		{
			sl_map_include_shard(map, targets[i].owner);
			insert_piece(comparison, map, &targets[i].like->row, i, last, targets[i].owner);
		}
		i = last;
	}
	sl_map_finish_change(map);
	sl_publish_map_to(comparison->shard, map->id);
	return Max(list_length(comparison->differences), 1);
}

/* The function --------------------------------------------------------------------- */

/* Is there anything to do for a map? */
static bool
differs(const SlMapComparison *comparison)
{
	return comparison->differences != NIL || sl_repair_incomparable(comparison) != NULL ||
		sl_repair_version_problem(comparison) != NULL;
}

static bool
keeps_shard(FunctionCallInfo fcinfo)
{
	const char *keep = sl_map_arg_text(fcinfo, 1, "what to keep");

	if (strcmp(keep, "router") != 0 && strcmp(keep, "shard") != 0)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("cannot keep \"%s\"", keep),
				errhint("Keep 'router', what the router knows, or 'shard', what the shard knows."));
	return strcmp(keep, "shard") == 0;
}

static void
refuse_unknown(const char *map)
{
	ereport(ERROR,
			errcode(ERRCODE_UNDEFINED_OBJECT),
			errmsg("neither the router nor the shard knows map \"%s\"", map));
}

/* resolve_map(shard, keep, map) */
Datum
shardlet_resolve_map(PG_FUNCTION_ARGS)
{
	SlShard    *shard;
	bool		keep_shards;
	const char *only = PG_ARGISNULL(2) ? NULL : NameStr(*PG_GETARG_NAME(2));
	bool		found = false;
	int64		count = 0;
	List	   *known;
	ListCell   *cell;

	sl_check_writable("shardlet.resolve_map()");
	sl_router_check();
	shard = sl_shard_by_name(sl_map_arg_name(fcinfo, 0, "shard"), false);
	keep_shards = keeps_shard(fcinfo);
	if (shard->bare)
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("shard \"%s\" has no extension, and knows no map", NameStr(shard->name)));
	sl_shard_lock(shard, AccessShareLock);
	known = sl_repair_read_shard(shard);
	sl_publish_claim(shard, false);
	sl_state_exempt(SL_STATE_ALL_SHARDS);
	foreach(cell, sl_repair_names_for(shard, known))
	{
		SlMapComparison comparison;

		if (only != NULL && strcmp(only, lfirst(cell)) != 0)
			continue;
		found = true;
		if (sl_repair_compare(shard, lfirst(cell), sl_repair_find_map(known, lfirst(cell)), &comparison) &&
			differs(&comparison))
			count += keep_shards ? keep_shard(&comparison) : keep_router(&comparison);
	}
	if (only != NULL && !found)
		refuse_unknown(only);
	PG_RETURN_INT64(count);
}
