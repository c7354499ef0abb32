/*
 * planned_statement.c
 *		Makes a PlannedStmt around a remote scan, without the planner.
 *
 * The relations of the statement are in its range table although nothing on
 * the router reads them: their privileges are checked, they are locked, and
 * the plan is invalidated when one of them changes.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/planmain.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "compat.h"
#include "planner/planner.h"

/* Are privileges checked on the relation?  EXCLUDED is not a real one. */
static bool
is_checked(const RangeTblEntry *entry)
{
	return (entry->rtekind == RTE_RELATION && entry->relkind != RELKIND_COMPOSITE_TYPE) ||
		(entry->rtekind == RTE_SUBQUERY && OidIsValid(entry->relid));
}

/*
 * Is it a table, and not a view that the rewriter has left in the range table?
 */
static bool
is_table(const RangeTblEntry *entry)
{
	return entry->rtekind == RTE_RELATION && entry->relkind != RELKIND_VIEW &&
		entry->relkind != RELKIND_COMPOSITE_TYPE;
}

/* Columns and expressions ------------------------------------------------------------ */

/* Makes the scan's columns: Vars of the types that shards return. */
List *
sl_planned_make_result(List *columns)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, columns)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);
		Node	   *expression = (Node *) entry->expr;

		result = lappend(result,
						 makeTargetEntry((Expr *) makeNullConst(exprType(expression),
																exprTypmod(expression),
																exprCollation(expression)),
										 (AttrNumber) (list_length(result) + 1),
										 entry->resname != NULL ? pstrdup(entry->resname) : NULL,
										 false));
	}
	return result;
}

/* Makes the target list that the client gets. */
List *
sl_planned_make_target(List *columns)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, columns)
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst_node(TargetEntry, cell));
		Node	   *expression = (Node *) entry->expr;

		entry->resno = (AttrNumber) (list_length(result) + 1);
		entry->ressortgroupref = 0;
		entry->expr = (Expr *) makeVar(INDEX_VAR, entry->resno, exprType(expression),
									   exprTypmod(expression), exprCollation(expression), 0);
		result = lappend(result, entry);
	}
	return result;
}

/* Prepares expressions of the router for the executor. */
List *
sl_planned_prepare_expressions(List *expressions)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, expressions)
		result = lappend(result, expression_planner(copyObject((Expr *) lfirst(cell))));
	return result;
}

/*
 * Returns the names of the relations that a statement reads and writes, for
 * EXPLAIN.
 */
char *
sl_planned_name_relations(Query *query)
{
	StringInfoData names;
	ListCell   *cell;

	initStringInfo(&names);
	foreach(cell, query->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (is_table(entry))
			appendStringInfo(&names, "%s%s", names.len == 0 ? "" : ", ",
							 quote_identifier(entry->eref->aliasname));
	}
	return names.data;
}

/* Relations ----------------------------------------------------------------------- */

typedef struct Users
{
	const Query *query;
	bool		has_one;
	bool		has_many;
	Oid			user;
} Users;

static bool
look_at_users(Node *node, Users *users)
{
	ListCell   *cell;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, look_at_users, (void *) users);
	foreach(cell, ((Query *) node)->rtable)
	{
		RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
		Oid			user;

		if (!is_table(entry))
			continue;
		user = sl_relation_checked_as((Query *) node, entry);
		users->has_many = users->has_many || (users->has_one && user != users->user);
		users->has_one = true;
		users->user = user;
	}
	return query_tree_walker((Query *) node, look_at_users, (void *) users, 0);
}

/* Are all tables accessed as the same user?  Invalid means the current one. */
bool
sl_planned_find_user(Query *query, Oid *user)
{
	Users		users = {0};

	(void) look_at_users((Node *) query, &users);
	*user = users.user;
	return !users.has_many;
}

static bool
add_relations(Node *node, PlannedStmt *statement)
{
	ListCell   *cell;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, add_relations, (void *) statement);
	foreach(cell, ((Query *) node)->rtable)
	{
		RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (is_checked(entry))
			sl_relation_add(statement, (Query *) node, entry);
	}
	return query_tree_walker((Query *) node, add_relations, (void *) statement, 0);
}

/*
 * Adds the relations of a query to the plan, for privilege checks and
 * invalidation.
 */
void
sl_planned_add_relations(PlannedStmt *statement, Query *query)
{
	List	   *relations;
	List	   *items;
	bool		has_row_security;

	(void) add_relations((Node *) query, statement);
	extract_query_dependencies((Node *) query, &relations, &items, &has_row_security);
	statement->relationOids = list_concat_unique_oid(statement->relationOids, relations);

	/* What is shippable depends on the shards of the map. */
	statement->relationOids = list_append_unique_oid(statement->relationOids,
													 sl_catalog_oid(SL_MAP_TABLE));
	statement->invalItems = list_concat(statement->invalItems, items);
	statement->dependsOnRole = statement->dependsOnRole || has_row_security;
}

/*
 * Adds a PlanRowMark, so that the statement is refused where locking rows is
 * not allowed.  The executor skips marks with "isParent".
 */
static PlanRowMark *
make_row_mark(const Query *query)
{
	const RowMarkClause *clause = linitial_node(RowMarkClause, query->rowMarks);
	PlanRowMark *mark = makeNode(PlanRowMark);

	mark->rti = mark->prti = mark->rowmarkId = 1;
	mark->markType = ROW_MARK_REFERENCE;
	mark->strength = clause->strength;
	mark->waitPolicy = clause->waitPolicy;
	mark->isParent = true;
	return mark;
}

PlannedStmt *
sl_planned_make_statement(Query *query, Plan *plan, int options)
{
	PlannedStmt *statement = makeNode(PlannedStmt);

	statement->commandType = query->commandType;
	statement->queryId = query->queryId;
	statement->hasReturning = query->returningList != NIL;
	statement->hasModifyingCTE = query->hasModifyingCTE;
	statement->canSetTag = query->canSetTag;
	statement->planTree = (options & CURSOR_OPT_SCROLL) != 0 ? materialize_finished_plan(plan) : plan;
	if (query->rowMarks != NIL)
		statement->rowMarks = list_make1(make_row_mark(query));
	statement->stmt_location = query->stmt_location;
	statement->stmt_len = query->stmt_len;
	sl_planned_add_relations(statement, query);
	return statement;
}
