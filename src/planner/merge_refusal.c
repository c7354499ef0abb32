/*
 * merge_refusal.c
 *		Says why a MERGE into a distributed table cannot be executed.
 *
 * PostgreSQL's planner cannot plan MERGE into a table whose rows are on shards.
 * Unless one shard can execute the statement, or each shard for its own rows, it
 * is refused before anything happened.  The reasons are looked for in the order
 * in which a user would remove them.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "compat.h"
#include "metadata/table.h"
#include "planner/planner.h"

/* A reason, and the statement that would do. */
typedef struct Refusal
{
	char	   *detail;
	char	   *hint;
} Refusal;

static bool
is_remote_merge(const Query *query)
{
	const RangeTblEntry *entry;

	if (query->commandType != CMD_MERGE)
		return false;
	entry = rt_fetch(query->resultRelation, query->rtable);
	return entry->rtekind == RTE_RELATION && sl_table_is_remote(entry->relid, entry->relkind);
}

/* Returns the MERGE into a distributed table in a statement, or NULL. */
Query *
sl_merge_find_remote(Query *query)
{
	ListCell   *cell;

	if (is_remote_merge(query))
		return query;
	foreach(cell, query->hasModifyingCTE ? query->cteList : NIL)
	{
		Query	   *with = castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery);

		if (is_remote_merge(with))
			return with;
	}
	return NULL;
}

static bool
refuse_for(Refusal *refusal, char *detail, char *hint)
{
	refusal->detail = detail;
	refusal->hint = hint;
	return true;
}

/* What the router checks for each row, and shards do not know. */
static bool
is_refused_by_checks(const Query *merge, Refusal *refusal)
{
	if (merge->hasRowSecurity)
		return refuse_for(refusal, "Row-level security policies of a table in the statement apply to the user.",
						  "Execute INSERT, UPDATE and DELETE statements instead.");
	if (merge->withCheckOptions != NIL)
		return refuse_for(refusal, "The target is a view with a check option.",
						  "Merge into the table of the view.");
	return false;
}

static bool
inserts(const Query *merge)
{
	ListCell   *cell;

	foreach(cell, merge->mergeActionList)
	{
		if (lfirst_node(MergeAction, cell)->commandType == CMD_INSERT)
			return true;
	}
	return false;
}

static bool
changes_key(const Query *merge, const SlTable *target)
{
	ListCell   *cell;

	foreach(cell, merge->mergeActionList)
	{
		const MergeAction *action = lfirst_node(MergeAction, cell);

		if (action->commandType == CMD_UPDATE && sl_merge_changes_key(action, target))
			return true;
	}
	return false;
}

/* Finds a table that shards do not have. */
static bool
find_local_table(Node *node, Oid *relid)
{
	const RangeTblEntry *entry = (const RangeTblEntry *) node;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		if (entry->rtekind != RTE_RELATION || entry->relkind == RELKIND_VIEW || sl_level_table(entry) != NULL)
			return false;
		*relid = entry->relid;
		return true;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, find_local_table, (void *) relid, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, find_local_table, (void *) relid);
}

static bool
has_remote_table(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_RELATION &&
			sl_table_is_remote(((RangeTblEntry *) node)->relid, ((RangeTblEntry *) node)->relkind);
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_remote_table, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, has_remote_table, context);
}

/* Is there a sharded or placed table in the source? */
static bool
has_remote_source(Query *merge)
{
	Bitmapset  *joined = sl_level_joined((Node *) merge->jointree);

	for (int i = -1; (i = bms_next_member(joined, i)) >= 0;)
	{
		RangeTblEntry *entry = rt_fetch(i, merge->rtable);

		if (has_remote_table(entry->rtekind == RTE_SUBQUERY ? (Node *) entry->subquery : (Node *) entry, NULL))
			return true;
	}
	return has_remote_table((Node *) merge->cteList, NULL);
}

static bool
is_refused_by_actions(Query *merge, const SlTable *target, Refusal *refusal)
{
	if (changes_key(merge, target))
		return refuse_for(refusal, "An UPDATE action could change the shard key, and so the shard of a row.",
						  "Insert the row with the new key and delete the old one.");
	if (inserts(merge) && !has_remote_source(merge))
		return refuse_for(refusal, "The source has no distributed table, so that every shard would insert its rows, unless "
						  "ON compares the shard key with a single key and INSERT sets it to that.",
						  "Merge rows of one key at a time, or merge from a sharded table of the same map.");
	return false;
}

/* Placement did not find the shards of all rows. */
static bool
is_refused_by_placement(Query *merge, Refusal *refusal)
{
	if (inserts(merge))
		return refuse_for(refusal, "Each shard must merge its own rows: ON must compare the shard keys of the target and of "
						  "a source of the same map, and INSERT must set the target's key to that of the source.",
						  "A MERGE for one key is executed by one shard.");
	return refuse_for(refusal, "Each shard must merge its own rows: ON must compare the shard keys of the target and of a "
					  "source of the same map.",
					  "A MERGE for one key is executed by one shard.");
}

static bool
is_refused_by_expressions(const Query *merge, Refusal *refusal)
{
	if (contain_volatile_functions((Node *) merge))
		return refuse_for(refusal, "A volatile function, or the sequence of a default, would be evaluated by shards.",
						  "An INSERT action can use sequences and built-in functions if the source is a single row.");
	return refuse_for(refusal, "Shards cannot evaluate an expression, or a clause, of the statement.",
					  "Functions of extensions that shards have can be declared by the server option \"extensions\".");
}

static void
find_refusal(Query *query, Query *merge, const SlPlacement *placement, Refusal *refusal)
{
	const SlTable *target = sl_table_get(rt_fetch(merge->resultRelation, merge->rtable)->relid);
	Oid			relid = InvalidOid;
	Oid			user;

	if (is_refused_by_checks(merge, refusal))
		return;
	if (find_local_table((Node *) query, &relid))
		(void) refuse_for(refusal, psprintf("Table \"%s\" is on the router only.", get_rel_name(relid)),
						  "Make it a reference table or a sharded table.");
	else if (!sl_planned_find_user(query, &user))
		(void) refuse_for(refusal, "Tables of the statement are accessed as different users.",
						  "Refer to tables, or to views with security_invoker.");
	else if (!sl_ship_statements || !sl_scatter_statements)
		(void) refuse_for(refusal, "Shards must execute it, and pushdown of statements is switched off.",
						  "Set shardlet.ship and shardlet.scatter to on.");
	else if (placement->kind != SL_PLACEMENT_ROUTER)
		(void) is_refused_by_expressions(merge, refusal);
	else if (query->hasModifyingCTE)
		(void) refuse_for(refusal, "The statement modifies several tables, not all of them for one key.",
						  "Execute the statements of WITH one by one.");
	else if (!is_refused_by_actions(merge, target, refusal))
		(void) is_refused_by_placement(merge, refusal);
}

/* Raises the error of a statement with a MERGE that shards cannot execute. */
void
sl_merge_refuse(Query *query, const SlPlacement *placement)
{
	Query	   *merge = sl_merge_find_remote(query);
	Refusal		refusal = {0};

	find_refusal(query, merge, placement, &refusal);
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot execute this MERGE into distributed table \"%s\"",
				   get_rel_name(rt_fetch(merge->resultRelation, merge->rtable)->relid)),
			errdetail("%s", refusal.detail),
			errhint("%s", refusal.hint));
}
