/*
 * differences.h
 *		A map of the router, compared with what one shard knows of it.
 */
#ifndef SL_DIFFERENCES_H
#define SL_DIFFERENCES_H

#include "repair/repair.h"

/* Some segments about which router and shard do not agree. */
typedef struct SlDifference
{
	int			first;
	int			last;			/* not included */
	const SlKnownShardlet *router;	/* NULL: none */
	const SlKnownShardlet *own; /* that the shard owns; NULL: none */
	const SlKnownShardlet *other;	/* that the shard knows of another; or
									 * NULL */
	bool		is_ownership;	/* and not only its state or borders */
	const char *problem;
} SlDifference;

typedef struct SlMapComparison
{
	SlShard    *shard;
	SlMapRow	row;			/* the router's; the shard's if there is none */
	bool		has_router;
	const SlKnownMap *known;	/* NULL: the shard does not know it */
	SlSegments	segments;
	SlKnownShardlet **router_at;	/* by segment */
	SlKnownShardlet **own_at;
	SlKnownShardlet **other_at;
	List	   *differences;	/* of SlDifference *, in order */
} SlMapComparison;

extern bool sl_repair_compare(SlShard *shard, const char *name, const SlKnownMap *known,
							  SlMapComparison *comparison);
extern const char *sl_repair_incomparable(const SlMapComparison *comparison);
extern const char *sl_repair_version_problem(const SlMapComparison *comparison);
extern List *sl_repair_names_for(SlShard *shard, List *known);

#endif							/* SL_DIFFERENCES_H */
