/*
 * balance.h
 *		Which pieces go from where to where, so that shards have their shares.
 *
 * Knows nothing of maps, connections or the catalog: numbers in, numbers out.
 */
#ifndef SL_BALANCE_H
#define SL_BALANCE_H

typedef struct SlBalanceShard
{
	double		weight;			/* its share; 0: it is to have nothing */
	bool		takes;			/* pieces can come */
	bool		gives;			/* pieces can leave */
	int			group;			/* pieces stay in the group */
	double		load;			/* computed: of its pieces, as the plan leaves
								 * them */
} SlBalanceShard;

typedef struct SlBalancePiece
{
	double		size;			/* not negative */
	int			shard;
	bool		is_fixed;		/* stays where it is */
} SlBalancePiece;

typedef struct SlBalanceMove
{
	int			piece;
	int			from;
	int			to;
	double		from_share;		/* what the two have of what they should,
								 * before */
	double		to_share;
} SlBalanceMove;

extern int	sl_balance_plan(SlBalanceShard *shards, int shard_count, SlBalancePiece *pieces, int piece_count,
							SlBalanceMove *moves, int max_moves);

#endif							/* SL_BALANCE_H */
