/*
 * balance.c
 *		The planner of rebalancing.
 *
 * Greedy: as long as a shard has more than its share, one piece leaves the shard that
 * has most, for the one with the largest room.  It is the smallest piece that is enough, or
 * else the largest that fits, so moves are few.  Then shards that have much too little
 * get pieces of those with most.  A piece moves at most once.
 *
 * A share is the mean for the shard's weight.  A piece that is larger than that on its
 * own cannot be anywhere else either: it is left out of the mean with its shard, or
 * nothing else would ever be balanced.
 *
 * A step looks at every shard once.  A piece is found by size: those that each shard has
 * at the beginning are sorted, and pieces that are gone are skipped by links that get
 * shorter with each search (union-find).
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "move/balance.h"

/* A shard may have so much more than its share, and less, before something moves. */
#define MORE 1.02
#define LESS 0.90

typedef struct Plan
{
	SlBalanceShard *shards;
	int			shard_count;
	SlBalancePiece *pieces;
	int			group;			/* that is at work */
	double		level;			/* share for weight 1 */
	int		   *order;			/* movable pieces by shard, then size */
	int			order_count;
	int		   *first;			/* of each shard: its part of the order */
	int		   *below;			/* of each place: itself, or one below it */
	int		   *above;
	bool	   *is_stuck;		/* nothing more can be done for the shard */
	double	   *largest;		/* piece that the shard has for good */
	SlBalanceMove *moves;
	int			move_count;
	int			max_moves;
} Plan;

/* Finding a piece by its size ------------------------------------------------------- */

static const SlBalancePiece *sorted_pieces;

static int
compare_pieces(const void *a, const void *b)
{
	const SlBalancePiece *left = &sorted_pieces[*(const int *) a];
	const SlBalancePiece *right = &sorted_pieces[*(const int *) b];

	if (left->shard != right->shard)
		return left->shard < right->shard ? -1 : 1;
	if (left->size != right->size)
		return left->size < right->size ? -1 : 1;
	return *(const int *) a < *(const int *) b ? -1 : 1;
}

/* Places are counted from 1, so that 0 and order_count + 1 are the ends. */
static void
sort_pieces(Plan *plan, int piece_count)
{
	int			shard = 0;

	plan->order = palloc_extended(sizeof(int) * Max(piece_count, 1), MCXT_ALLOC_HUGE);
	for (int i = 0; i < piece_count; i++)
	{
		if (!plan->pieces[i].is_fixed && plan->shards[plan->pieces[i].shard].gives)
			plan->order[plan->order_count++] = i;
	}
	sorted_pieces = plan->pieces;
	qsort(plan->order, plan->order_count, sizeof(int), compare_pieces);
	plan->first = palloc(sizeof(int) * (plan->shard_count + 1));
	for (int i = 0; i < plan->order_count; i++)
	{
		while (shard <= plan->pieces[plan->order[i]].shard)
			plan->first[shard++] = i + 1;
	}
	while (shard <= plan->shard_count)
		plan->first[shard++] = plan->order_count + 1;
	plan->below = palloc_extended(sizeof(int) * (plan->order_count + 2), MCXT_ALLOC_HUGE);
	plan->above = palloc_extended(sizeof(int) * (plan->order_count + 2), MCXT_ALLOC_HUGE);
	for (int i = 0; i < plan->order_count + 2; i++)
		plan->below[i] = plan->above[i] = i;
}

static int
follow(int *links, int place)
{
	while (links[place] != place)
	{
		links[place] = links[links[place]];
		place = links[place];
	}
	return place;
}

static double
size_at(const Plan *plan, int place)
{
	return plan->pieces[plan->order[place - 1]].size;
}

/* The shard's first place whose piece is at least that large, gone or not. */
static int
first_place(const Plan *plan, int shard, double size)
{
	int			low = plan->first[shard];
	int			high = plan->first[shard + 1];

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (size_at(plan, middle) < size)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The smallest piece that is at least that large; 0: none. */
static int
find_from(Plan *plan, int shard, double size)
{
	int			place = follow(plan->above, first_place(plan, shard, size));

	return place < plan->first[shard + 1] ? place : 0;
}

/* The largest piece that is at most that large; 0: none. */
static int
find_up_to(Plan *plan, int shard, double size)
{
	int			place = follow(plan->below, first_place(plan, shard, nextafter(size, INFINITY)) - 1);

	return place >= plan->first[shard] && size_at(plan, place) > 0 ? place : 0;
}

/* Shares ------------------------------------------------------------------------------ */

static bool
is_in_group(const Plan *plan, int shard)
{
	return plan->shards[shard].group == plan->group;
}

static bool
is_taking(const Plan *plan, int shard)
{
	return is_in_group(plan, shard) && plan->shards[shard].takes && plan->shards[shard].weight > 0;
}

/* What the shard has of what it should have. */
static double
share_of(const Plan *plan, int shard)
{
	double		wanted = plan->level * plan->shards[shard].weight;

	if (wanted > 0)
		return plan->shards[shard].load / wanted;
	return plan->shards[shard].load > 0 ? INFINITY : 1;
}

/* How much the shard may have; one with a piece that is larger has only that. */
static double
limit_of(const Plan *plan, int shard)
{
	if (plan->shards[shard].weight <= 0)
		return 0;
	return Max(plan->level * plan->shards[shard].weight * MORE, plan->largest[shard]);
}

/*
 * Computes the mean.  A piece that is larger than its shard's share is taken out of it,
 * with the shard, which makes the mean of the others smaller; so that is repeated.
 */
static void
compute_level(Plan *plan, int piece_count)
{
	double		load = 0;
	double		weight = 0;
	bool		has_changed;
	bool	   *is_apart = palloc0(sizeof(bool) * plan->shard_count);

	memset(plan->largest, 0, sizeof(double) * plan->shard_count);
	for (int i = 0; i < plan->shard_count; i++)
		weight += is_taking(plan, i) ? plan->shards[i].weight : 0;
	for (int i = 0; i < piece_count; i++)
	{
		int			shard = plan->pieces[i].shard;

		if (is_taking(plan, shard) || (is_in_group(plan, shard) && plan->shards[shard].gives))
			load += plan->pieces[i].size;
		plan->largest[shard] = Max(plan->largest[shard], plan->pieces[i].size);
	}
	do
	{
		has_changed = false;
		plan->level = weight > 0 ? load / weight : 0;
		for (int i = 0; i < plan->shard_count; i++)
		{
			double		own = plan->shards[i].weight;

			if (is_apart[i] || !is_taking(plan, i) || weight <= own || plan->largest[i] <= plan->level * own)
				continue;
			is_apart[i] = has_changed = true;
			load -= plan->largest[i];
			weight -= own;
			break;
		}
	} while (has_changed);
	pfree(is_apart);
}

/* Steps ------------------------------------------------------------------------------- */

/* The shard with the largest share above a limit, among those that are not stuck; -1: none. */
static int
find_fullest(const Plan *plan, bool is_over_limit)
{
	int			best = -1;
	double		best_share = 0;

	for (int i = 0; i < plan->shard_count; i++)
	{
		double		share;

		if (!is_in_group(plan, i) || plan->is_stuck[i] || !plan->shards[i].gives)
			continue;
		if (is_over_limit && plan->shards[i].load <= limit_of(plan, i))
			continue;
		share = share_of(plan, i);
		if (share > best_share)
		{
			best = i;
			best_share = share;
		}
	}
	return best;
}

/* The shard with the most room, or the one with the smallest share; -1: none. */
static int
find_emptiest(const Plan *plan, int except, bool by_share)
{
	int			best = -1;
	double		best_value = 0;

	for (int i = 0; i < plan->shard_count; i++)
	{
		double		value;

		if (i == except || !is_taking(plan, i))
			continue;
		value = by_share ? -share_of(plan, i) :
			plan->level * plan->shards[i].weight * MORE - plan->shards[i].load;
		if (best < 0 || value > best_value)
		{
			best = i;
			best_value = value;
		}
	}
	return best;
}

static void
move_piece(Plan *plan, int place, int to)
{
	SlBalancePiece *piece = &plan->pieces[plan->order[place - 1]];
	SlBalanceMove *move = &plan->moves[plan->move_count++];

	move->piece = plan->order[place - 1];
	move->from = piece->shard;
	move->to = to;
	move->from_share = share_of(plan, piece->shard);
	move->to_share = share_of(plan, to);
	plan->shards[piece->shard].load -= piece->size;
	plan->shards[to].load += piece->size;
	plan->largest[to] = Max(plan->largest[to], piece->size);
	piece->shard = to;
	plan->below[place] = place - 1;
	plan->above[place] = place + 1;
}

/*
 * A piece for a shard that has not enough room for it, but will then still have a
 * smaller share than the other has now.
 */
static int
find_improvement(Plan *plan, int from, int *to)
{
	double		bound;
	int			place;

	*to = find_emptiest(plan, from, true);
	if (*to < 0)
		return 0;
	bound = isinf(share_of(plan, from)) ? INFINITY :
		share_of(plan, from) * plan->level * plan->shards[*to].weight - plan->shards[*to].load;
	place = bound > 0 ? find_up_to(plan, from, isinf(bound) ? bound : nextafter(bound * (1 - 1e-9), 0)) : 0;
	return place;
}

/* Takes one piece away from the shard that has most.  Returns false if none has too much. */
static bool
relieve_one(Plan *plan)
{
	int			from = find_fullest(plan, true);
	int			to;
	double		excess;
	double		room;
	int			place = 0;

	if (from < 0)
		return false;
	excess = plan->shards[from].load - limit_of(plan, from);
	to = find_emptiest(plan, from, false);
	room = to < 0 ? 0 : plan->level * plan->shards[to].weight * MORE - plan->shards[to].load;
	if (room > 0)
	{
		place = find_from(plan, from, excess);
		if (place == 0 || size_at(plan, place) > room)
			place = find_up_to(plan, from, room);
	}
	if (place == 0)
		place = find_improvement(plan, from, &to);
	if (place == 0)
		plan->is_stuck[from] = true;
	else
		move_piece(plan, place, to);
	return true;
}

/* Gives one piece to the shard that has least.  Returns false if none has too little. */
static bool
fill_one(Plan *plan)
{
	int			to = find_emptiest(plan, -1, true);
	int			from;
	int			place;
	double		size;

	if (to < 0 || share_of(plan, to) >= LESS)
		return false;
	from = find_fullest(plan, false);
	if (from < 0 || from == to || share_of(plan, from) <= LESS)
		return false;
	size = Min(plan->level * plan->shards[to].weight * MORE - plan->shards[to].load,
			   plan->shards[from].load - plan->level * plan->shards[from].weight * LESS);
	place = size > 0 ? find_up_to(plan, from, size) : 0;
	if (place == 0)
		plan->is_stuck[from] = true;
	else
		move_piece(plan, place, to);
	return true;
}

static void
plan_group(Plan *plan, int piece_count)
{
	compute_level(plan, piece_count);
	memset(plan->is_stuck, 0, sizeof(bool) * plan->shard_count);
	while (plan->move_count < plan->max_moves && relieve_one(plan))
		CHECK_FOR_INTERRUPTS();
	memset(plan->is_stuck, 0, sizeof(bool) * plan->shard_count);
	while (plan->level > 0 && plan->move_count < plan->max_moves && fill_one(plan))
		CHECK_FOR_INTERRUPTS();
}

/*
 * Plans moves.  "moves" has room for as many as there are pieces; the result is how many
 * there are.  Pieces and loads are as the plan leaves them.
 */
int
sl_balance_plan(SlBalanceShard *shards, int shard_count, SlBalancePiece *pieces, int piece_count,
				SlBalanceMove *moves, int max_moves)
{
	Plan		plan = {.shards = shards,.shard_count = shard_count,.pieces = pieces,.moves = moves,
	.max_moves = Min(max_moves, piece_count)};
	int			last_group = -1;

	for (int i = 0; i < shard_count; i++)
	{
		shards[i].load = 0;
		last_group = Max(last_group, shards[i].group);
	}
	for (int i = 0; i < piece_count; i++)
		shards[pieces[i].shard].load += pieces[i].size;
	sort_pieces(&plan, piece_count);
	plan.is_stuck = palloc(sizeof(bool) * Max(shard_count, 1));
	plan.largest = palloc(sizeof(double) * Max(shard_count, 1));
	for (plan.group = 0; plan.group <= last_group; plan.group++)
		plan_group(&plan, piece_count);
	return plan.move_count;
}
