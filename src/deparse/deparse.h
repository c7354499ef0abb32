/*
 * deparse.h
 *		What is shippable, and the SQL for it.
 *
 * Expressions are deparsed by PostgreSQL itself.  This area decides whether a
 * shard would compute the same, and what is computed on the router and sent as
 * a parameter.
 */
#ifndef SL_DEPARSE_H
#define SL_DEPARSE_H

#include "lib/stringinfo.h"
#include "nodes/pathnodes.h"

#include "metadata/map.h"

/* The relations and shards that something is deparsed for. */
typedef struct SlShippableContext
{
	PlannerInfo *root;
	Relids		relids;			/* whose columns the shards have; including
								 * outer joins */
	bool		other_collation;	/* a shard's default differs from the
									 * router's */
	List	   *extensions;		/* OIDs of extensions that all shards have */
	List	   *types;			/* OIDs of types of the tables' own columns */
	bool		with_aggregates;
	bool		is_statement;	/* a whole one, see shippable_query.h */
	bool		with_system_columns;	/* xmin, ctid and so on, whose values
										 * differ between shards */
	bool		parameterizes;	/* constants become parameters: see
								 * sl_shippable_parameterize() */
	bool		computes_once;	/* the expression is evaluated once, volatile
								 * or not */
	List	   *tables;			/* SlTables that it may refer to */
	List	   *params;			/* expressions of the router, for $1, $2 ... */
} SlShippableContext;

/* shippable_context.c */
extern void sl_shippable_init(SlShippableContext *ship, List *tables);

/* shippable_expr.c */
extern Node *sl_shippable_make_expr(SlShippableContext *ship, Node *expression);
extern bool sl_shippable_check_expr(const SlShippableContext *ship, Node *expression);
extern bool sl_shippable_is_local(const SlShippableContext *ship, Node *expression);
extern bool sl_shippable_is_computed_once(const SlShippableContext *ship, Node *expression);
extern bool sl_shippable_is_type(const SlShippableContext *ship, Oid type);
extern bool sl_shippable_is_order(const SlShippableContext *ship, Oid collation);

/* early_evaluation.c */
extern bool sl_shippable_is_safe_early(Node *expression);
extern bool sl_shippable_fails_early(Node *expression);
extern bool sl_shippable_may_stop(const SlShippableContext *ship, List *conditions);

/* privilege_check.c */
extern void sl_privilege_check(Node *expression);
extern void sl_privilege_check_type(Oid type);
extern List *sl_privilege_stored(Oid relid);
extern void sl_privilege_check_stored(Oid relid, const List *before);
extern void sl_privilege_check_table(Oid relid);

/* collation.c */
extern bool sl_shippable_has_collations(const SlShippableContext *ship, Node *expression);

/* deparse.c */
typedef struct SlDeparse
{
	SlShippableContext *ship;
	List	   *context;
	StringInfoData sql;
} SlDeparse;

extern int	sl_deparse_begin_plain(void);
extern void sl_deparse_end_plain(int nest_level);
extern char *sl_deparse_strings(char *written);
extern void sl_deparse_init(SlDeparse *deparse, SlShippableContext *ship);
extern void sl_deparse_expr(SlDeparse *deparse, Node *expression);
extern void sl_deparse_conditions(SlDeparse *deparse, List *clauses);
extern void sl_deparse_relation(SlDeparse *deparse, Index index);
extern void sl_deparse_column(SlDeparse *deparse, Index index, AttrNumber column);

#endif							/* SL_DEPARSE_H */
