/*
 * deparse.h
 *		What may run on shards, and the SQL for it.
 *
 * Expressions are written by PostgreSQL itself.  Here it is decided whether a
 * shard would compute the same, and what is computed on the router and sent
 * along as a parameter.
 */
#ifndef SL_DEPARSE_H
#define SL_DEPARSE_H

#include "lib/stringinfo.h"
#include "nodes/pathnodes.h"

#include "map/map.h"

/* For which relations, and for which shards, something is written. */
typedef struct SlShip
{
	PlannerInfo *root;
	Relids		relids;			/* whose columns the shards have; outer joins
								 * as well */
	bool		other_collation;	/* a shard's default differs from ours */
	List	   *extensions;		/* OIDs of those that all shards have */
	List	   *types;			/* OIDs of types of the tables' own columns */
	bool		with_aggregates;
	bool		is_statement;	/* a whole one, see travel.h */
	bool		with_system_columns;	/* those that every shard has of its
										 * own */
	bool		is_shape;		/* constants become parameters: see
								 * make_shape() */
	bool		computes_once;	/* what is looked at, volatile or not */
	List	   *tables;			/* SlTables that it may be about */
	List	   *params;			/* expressions of the router, for $1, $2 ... */
} SlShip;

/* ship_init.c */
extern void sl_ship_init(SlShip *ship, List *tables);

/* shippable.c */
extern Node *sl_ship(SlShip *ship, Node *expression);
extern bool sl_ship_is_possible(const SlShip *ship, Node *expression);
extern bool sl_ship_is_local(const SlShip *ship, Node *expression);
extern bool sl_ship_is_computed_once(const SlShip *ship, Node *expression);
extern bool sl_ship_is_type(const SlShip *ship, Oid type);
extern bool sl_ship_is_order(const SlShip *ship, Oid collation);

/* harmless.c */
extern bool sl_ship_is_harmless(Node *expression);
extern bool sl_ship_fails(Node *expression);
extern bool sl_ship_may_stop(const SlShip *ship, List *conditions);

/* trust.c */
extern void sl_trust_check(Node *expression);
extern void sl_trust_check_type(Oid type);
extern List *sl_trust_stored(Oid relid);
extern void sl_trust_check_stored(Oid relid, const List *before);
extern void sl_trust_check_table(Oid relid);

/* collation.c */
extern bool sl_ship_has_collations(const SlShip *ship, Node *expression);

/* deparse.c */
typedef struct SlDeparse
{
	SlShip	   *ship;
	List	   *context;
	StringInfoData sql;
} SlDeparse;

extern int	sl_deparse_begin_plain(void);
extern void sl_deparse_end_plain(int nest_level);
extern char *sl_deparse_strings(char *written);
extern void sl_deparse_init(SlDeparse *deparse, SlShip *ship);
extern void sl_deparse_expr(SlDeparse *deparse, Node *expression);
extern void sl_deparse_conditions(SlDeparse *deparse, List *clauses);
extern void sl_deparse_relation(SlDeparse *deparse, Index index);
extern void sl_deparse_column(SlDeparse *deparse, Index index, AttrNumber column);

#endif							/* SL_DEPARSE_H */
