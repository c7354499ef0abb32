/*
 * hide.c
 *		On a shard: rows that do not count for the statements that follow.
 *
 * While a shardlet is moved, and until what it left behind is removed, a shard
 * has rows that it does not own.  Statements that the router writes carry a
 * condition against them.  The texts of query(), query_key() and execute() are
 * the user's, and go to the shards as they are: so the router says ahead of them,
 * by hide_rows(), which rows of which tables do not count, and the planner adds the
 * condition to each scan of such a table, wherever the text, a view or a function
 * names it.  The shard itself cannot tell: which rows count, and which shards are
 * asked, must be of one state of the router's map.
 *
 * What hide_rows() says lasts until it is called again, whatever becomes of
 * transactions.  Anyone may call it, for himself: the condition is read, and put
 * into a plan, only while the current user is the one who called it.  So it takes
 * no row away from a function that runs with the rights of somebody else, and
 * nothing of it ever runs with these.  A function's plan may be kept and used by
 * another: it is marked as good for one user alone, and PostgreSQL makes another
 * for the next.  hide_condition.c says what a condition may be.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "rewrite/rewriteManip.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "guard/guard.h"

PG_FUNCTION_INFO_V1(shardlet_hide_rows);

/* In the argument of hide_rows(), one after the other for each table. */
enum
{
	HIDE_SCHEMA, HIDE_TABLE, HIDE_CONDITION, HIDE_FIELDS
};

/* A table of which some rows do not count. */
typedef struct Hiding
{
	Oid			relid;
	char	   *condition;		/* that a row counts, over its columns */
} Hiding;

/* For whom, and what; in a context of its own.  NIL: all rows count. */
static List *hidings = NIL;
static Oid	hiding_user = InvalidOid;
static MemoryContext hiding_context = NULL;

static get_relation_info_hook_type next_info_hook = NULL;

/* What the router says ------------------------------------------------------------ */

/* A table that this shard does not have has no rows to hide. */
static void
add_hiding(const char *schema, const char *table, const char *condition)
{
	Oid			namespace = get_namespace_oid(schema, true);
	Oid			relid = OidIsValid(namespace) ? get_relname_relid(table, namespace) : InvalidOid;
	Hiding	   *hiding;

	if (!OidIsValid(relid))
		return;
	hiding = palloc(sizeof(Hiding));
	hiding->relid = relid;
	hiding->condition = pstrdup(condition);
	hidings = lappend(hidings, hiding);
}

static void
forget_all(void)
{
	hidings = NIL;
	hiding_user = InvalidOid;
	if (hiding_context == NULL)
		hiding_context = AllocSetContextCreate(TopMemoryContext, "shardlet hidden rows",
											   ALLOCSET_SMALL_SIZES);
	MemoryContextReset(hiding_context);
}

/*
 * hide_rows(conditions): schema, table and condition of each table; rows for
 * which it is not true do not count from now on
 */
Datum
shardlet_hide_rows(PG_FUNCTION_ARGS)
{
	Datum	   *fields;
	bool	   *nulls;
	int			count;
	MemoryContext old_context;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT, &fields, &nulls,
					  &count);
	for (int i = 0; i < count; i++)
	{
		if (count % HIDE_FIELDS != 0 || nulls[i])
			ereport(ERROR,
					errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid list of conditions"),
					errdetail("It has schema, table and condition for each table."));
		if (i % HIDE_FIELDS == HIDE_CONDITION)
			sl_hide_check(TextDatumGetCString(fields[i]));
	}
	forget_all();

	/* Plans have the condition in them, or have it not. */
	ResetPlanCache();
	old_context = MemoryContextSwitchTo(hiding_context);
	hiding_user = GetUserId();
	for (int i = 0; i < count; i += HIDE_FIELDS)
		add_hiding(TextDatumGetCString(fields[i + HIDE_SCHEMA]),
				   TextDatumGetCString(fields[i + HIDE_TABLE]),
				   TextDatumGetCString(fields[i + HIDE_CONDITION]));
	MemoryContextSwitchTo(old_context);
	PG_RETURN_VOID();
}

/* Conditions ---------------------------------------------------------------------- */

/* What is hidden of a relation, or of what it is a partition of; or NULL. */
static const Hiding *
find_hiding(Oid relid)
{
	ListCell   *cell;

	foreach(cell, hidings)
	{
		const Hiding *hiding = lfirst(cell);

		if (hiding->relid == relid)
			return hiding;
	}
	if (!get_rel_relispartition(relid))
		return NULL;
	foreach(cell, get_partition_ancestors(relid))
	{
		const Hiding *hiding = find_hiding(lfirst_oid(cell));

		if (hiding != NULL)
			return hiding;
	}
	return NULL;
}

/*
 * The condition on a relation, in the form in which the planner has them.  Whether
 * there is one depends on the user, and so does the plan.
 */
static List *
make_condition(PlannerInfo *root, Oid relid, Index number)
{
	const Hiding *hiding = find_hiding(relid);
	Relation	relation;
	Node	   *condition;

	if (hiding == NULL)
		return NIL;
	root->glob->dependsOnRole = true;
	if (GetUserId() != hiding_user)
		return NIL;
	relation = table_open(relid, NoLock);
	condition = sl_hide_condition(relation, hiding->condition);
	table_close(relation, NoLock);
	ChangeVarNodes(condition, 1, (int) number, 0);
	condition = eval_const_expressions(root, condition);
	return make_ands_implicit((Expr *) canonicalize_qual((Expr *) condition, false));
}

/* Planning ------------------------------------------------------------------------ */

/* Has the relation the conditions of the table that it is a part of? */
static bool
is_part_of_table(const PlannerInfo *root, const RelOptInfo *rel)
{
	const AppendRelInfo *info;

	if (rel->reloptkind != RELOPT_OTHER_MEMBER_REL)
		return false;
	info = root->append_rel_array[rel->relid];
	return root->simple_rte_array[info->parent_relid]->rtekind == RTE_RELATION;
}

/*
 * A branch of UNION ALL gets its conditions from those around it only after this,
 * and in place of what it has; but those that row security would have put into the
 * range table are added to them.
 */
static void
add_to_branch(PlannerInfo *root, const RelOptInfo *rel, List *condition)
{
	RangeTblEntry *entry = root->simple_rte_array[rel->relid];

	entry->securityQuals = lappend(entry->securityQuals, condition);
	root->qual_security_level = Max(root->qual_security_level,
									(Index) list_length(entry->securityQuals));
}

/* A condition like one of the statement's own: an index may be used before it. */
static void
add_to_relation(PlannerInfo *root, RelOptInfo *rel, List *condition)
{
	ListCell   *cell;

	foreach(cell, condition)
		rel->baserestrictinfo = lappend(rel->baserestrictinfo,
										sl_make_base_restriction(root, lfirst(cell), root->qual_security_level,
																 rel->relids));
	rel->baserestrict_min_security = Min(rel->baserestrict_min_security, root->qual_security_level);
}

/* The planner looks at a relation that is about to be scanned. */
static void
hide_rows(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	List	   *condition;

	if (next_info_hook)
		next_info_hook(root, relid, inhparent, rel);
	if (hidings == NIL || is_part_of_table(root, rel))
		return;
	condition = make_condition(root, relid, rel->relid);
	if (condition == NIL)
		return;
	if (rel->reloptkind == RELOPT_OTHER_MEMBER_REL)
		add_to_branch(root, rel, condition);
	else
		add_to_relation(root, rel, condition);
}

void
sl_hide_init(void)
{
	next_info_hook = get_relation_info_hook;
	get_relation_info_hook = hide_rows;
}
