/*
 * hide_rows.c
 *		On a shard: hides orphaned rows from the statements that follow.
 *
 * While a shardlet is moved, and until its old rows are removed, a shard has
 * orphaned rows.  Statements that the router deparses have an ownership
 * filter.  The SQL of query(), query_key() and execute() is the user's, and is
 * sent to the shards as it is: so the router first calls hide_rows() with the
 * tables and conditions, and the planner adds the condition to each scan of
 * such a table, wherever the statement, a view or a function refers to it.
 * The shard itself cannot decide: which rows are orphaned, and which shards
 * are queried, must be of one state of the router's map.
 *
 * The conditions last until the next call of hide_rows(), independent of
 * transactions.  Every role may call it, because a user of the router may be
 * mapped to any; but its conditions are evaluated below views and row
 * security, where they could reveal rows that a user must not see.  So they
 * are accepted from the router only: the first field is a proof, made with a
 * key that only the router and a table of this shard have
 * (metadata/shard_secret.c, base/hmac.c).  A list that the router has made
 * hides orphaned rows only, by any sender.
 *
 * The condition is parsed, and added to a plan, only while the current user is
 * the one that called hide_rows(): it hides no row from a function that runs
 * with the privileges of another user, and is never evaluated with these.  A
 * function's plan may be cached and used by another user: it is marked as
 * dependent on the user, and PostgreSQL plans again for the next.
 * hide_rows_condition.c says what a condition may be.
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
#include "shard/shard.h"

PG_FUNCTION_INFO_V1(shardlet_hide_rows);

/* Fields of the argument of hide_rows(), after the proof, for each table. */
enum
{
	HIDE_SCHEMA, HIDE_TABLE, HIDE_CONDITION, HIDE_FIELDS
};

/* A table with hidden rows. */
typedef struct Hiding
{
	Oid			relid;
	char	   *condition;		/* true for rows that are not hidden, over its
								 * columns */
} Hiding;

/*
 * The user and the tables; in a context of its own.  NIL: nothing is hidden.
 */
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
discard_all(void)
{
	hidings = NIL;
	hiding_user = InvalidOid;
	if (hiding_context == NULL)
		hiding_context = AllocSetContextCreate(TopMemoryContext, "shardlet hidden rows",
											   ALLOCSET_SMALL_SIZES);
	MemoryContextReset(hiding_context);
}

/* Returns the fields of the argument, or raises an error. */
static List *
get_fields(ArrayType *array)
{
	Datum	   *values;
	bool	   *nulls;
	int			count;
	List	   *fields = NIL;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &count);
	for (int i = 0; i < count; i++)
	{
		if (count % HIDE_FIELDS != 1 || nulls[i])
			ereport(ERROR,
					errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("invalid list of conditions"),
					errdetail("It has a proof, and schema, table and condition for each table."));
		fields = lappend(fields, TextDatumGetCString(values[i]));
	}
	return fields;
}

/*
 * Did the router of one of the maps write the fields?  The first one is the
 * proof.
 */
static bool
is_proved(List *fields)
{
	List	   *rest = list_copy_tail(fields, 1);
	ListCell   *cell;

	foreach(cell, sl_guard_map_names())
	{
		SlGuardMapRow map;

		if (sl_guard_map_row_read(lfirst(cell), &map) && map.hide_key != NULL &&
			sl_hmac_is_equal(sl_hmac_make(map.hide_key, rest), linitial(fields)))
			return true;
	}
	return false;
}

static void
check_fields(List *fields)
{
	ListCell   *cell;

	if (!is_proved(fields))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("permission denied to hide rows"),
				errdetail("The list of conditions is not from a router of this shard."));
	for_each_from(cell, fields, 1)
	{
		if ((foreach_current_index(cell) - 1) % HIDE_FIELDS == HIDE_CONDITION)
			sl_hide_check(lfirst(cell));
	}
}

/*
 * hide_rows(conditions): a proof, and schema, table and condition of each
 * table; rows for which it is not true are hidden from now on.  Empty: nothing
 * is hidden.
 */
Datum
shardlet_hide_rows(PG_FUNCTION_ARGS)
{
	List	   *fields = get_fields(PG_GETARG_ARRAYTYPE_P(0));
	MemoryContext old_context;

	if (fields != NIL)
		check_fields(fields);
	discard_all();

	/* Cached plans contain the conditions that were valid then. */
	ResetPlanCache();
	old_context = MemoryContextSwitchTo(hiding_context);
	hiding_user = GetUserId();
	for (int i = 1; i < list_length(fields); i += HIDE_FIELDS)
		add_hiding(list_nth(fields, i + HIDE_SCHEMA), list_nth(fields, i + HIDE_TABLE),
				   list_nth(fields, i + HIDE_CONDITION));
	MemoryContextSwitchTo(old_context);
	PG_RETURN_VOID();
}

/* Conditions ---------------------------------------------------------------------- */

/* Returns the entry of a relation, or of its partitioned table; or NULL. */
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
 * Returns the condition on a relation, in the planner's form.  It depends on
 * the user, and so does the plan.
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

/* Does the relation have the conditions of its parent? */
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
 * A child of an appendrel gets its conditions from the parent only after this,
 * replacing its own; but securityQuals of the range table entry are added to
 * them.
 */
static void
add_to_branch(PlannerInfo *root, const RelOptInfo *rel, List *condition)
{
	RangeTblEntry *entry = root->simple_rte_array[rel->relid];

	entry->securityQuals = lappend(entry->securityQuals, condition);
	root->qual_security_level = Max(root->qual_security_level,
									(Index) list_length(entry->securityQuals));
}

/*
 * The condition has the security level of the statement's own: an index may be
 * used before it.
 */
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

/* get_relation_info hook: adds the condition before the relation is planned. */
static void
hide_rows_of_relation(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
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
	get_relation_info_hook = hide_rows_of_relation;
}
