/*
 * table_subquery.c
 *		Replaces a table in FROM by a subquery of its columns.
 *
 * A subquery has a WHERE clause of its own, which the source of MERGE lacks: the
 * ownership filter needs one.  And a subquery can be pushed down on its own, which
 * is how a table is sampled in a statement that is finished on the router.
 *
 * The columns of the subquery have the numbers of the table's, so that references
 * stay as they are.  Those that nothing refers to are NULL.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "compat.h"
#include "metadata/table.h"
#include "planner/planner.h"

/* The columns of a relation that a query refers to. */
typedef struct UsedColumns
{
	const Query *query;
	int			index;
	Index		depth;			/* of the level that is walked */
	Bitmapset  *columns;
	bool		has_others;		/* a system column, or the whole row */
} UsedColumns;

static bool find_used_columns(Node *node, UsedColumns *used);

/* A column of a join is one of the tables in it. */
static void
add_join_column(const RangeTblEntry *join, AttrNumber column, UsedColumns *used)
{
	Index		depth = used->depth;

	used->has_others = used->has_others || column <= 0;
	if (column <= 0)
		return;
	used->depth = 0;
	(void) find_used_columns(list_nth(join->joinaliasvars, column - 1), used);
	used->depth = depth;
}

static void
add_column(const Var *column, UsedColumns *used)
{
	const RangeTblEntry *entry;

	if (column->varlevelsup != used->depth)
		return;
	entry = rt_fetch(column->varno, used->query->rtable);
	if (entry->rtekind == RTE_JOIN)
		add_join_column(entry, column->varattno, used);
	else if (column->varno == used->index && column->varattno > 0)
		used->columns = bms_add_member(used->columns, column->varattno);
	else if (column->varno == used->index)
		used->has_others = true;
}

static bool
find_used_columns(Node *node, UsedColumns *used)
{
	bool		result;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		add_column((const Var *) node, used);
		return false;
	}
	if (!IsA(node, Query))
		return expression_tree_walker(node, find_used_columns, (void *) used);
	used->depth++;
	result = query_tree_walker((Query *) node, find_used_columns, (void *) used, QTW_IGNORE_JOINALIASES);
	used->depth--;
	return result;
}

static TargetEntry *
make_column(Form_pg_attribute column, bool is_used)
{
	if (is_used && !column->attisdropped)
		return makeTargetEntry((Expr *) makeVar(1, column->attnum, column->atttypid, column->atttypmod,
												column->attcollation, 0),
							   column->attnum, pstrdup(NameStr(column->attname)), false);
	return makeTargetEntry((Expr *) makeNullConst(INT4OID, -1, InvalidOid), column->attnum,
						   psprintf("unused_%d", column->attnum), false);
}

static List *
make_columns(Oid relid, const Bitmapset *used)
{
	Relation	relation = table_open(relid, NoLock);
	TupleDesc	columns = RelationGetDescr(relation);
	List	   *result = NIL;

	for (int i = 0; i < columns->natts; i++)
		result = lappend(result, make_column(TupleDescAttr(columns, i), bms_is_member(i + 1, used)));
	table_close(relation, NoLock);
	return result;
}

/* Makes SELECT columns FROM the table. */
static Query *
make_subquery(const Query *query, const RangeTblEntry *entry, const Bitmapset *used)
{
	Query	   *result = makeNode(Query);
	RangeTblEntry *inner = copyObject((RangeTblEntry *) entry);
	RangeTblRef *reference = makeNode(RangeTblRef);

	inner->inFromCl = true;
	inner->lateral = false;
	reference->rtindex = 1;
	result->commandType = CMD_SELECT;
	result->querySource = query->querySource;
	result->canSetTag = true;
	result->rtable = list_make1(inner);
	sl_copy_permissions(result, query);
	result->jointree = makeFromExpr(list_make1(reference), NULL);
	result->targetList = make_columns(entry->relid, used);
	result->stmt_location = result->stmt_len = -1;
	return result;
}

static RangeTblEntry *
make_entry(Query *subquery, const char *name)
{
	RangeTblEntry *entry = makeNode(RangeTblEntry);
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, subquery->targetList)
		names = lappend(names, makeString(pstrdup(lfirst_node(TargetEntry, cell)->resname)));
	entry->rtekind = RTE_SUBQUERY;
	entry->subquery = subquery;
	entry->alias = makeAlias(name, NIL);
	entry->eref = makeAlias(name, names);
	entry->inFromCl = true;
	return entry;
}

/* Replaces a table.  Returns false if more than its columns is referred to. */
static bool
wrap_table(Query *query, int index)
{
	ListCell   *cell = list_nth_cell(query->rtable, index - 1);
	const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);
	UsedColumns used = {.query = query,.index = index};

	(void) query_tree_walker(query, find_used_columns, (void *) &used, QTW_IGNORE_JOINALIASES);
	if (used.has_others)
		return false;
	lfirst(cell) = make_entry(make_subquery(query, entry, used.columns), entry->eref->aliasname);
	return true;
}

/* MERGE ----------------------------------------------------------------------------- */

/*
 * Replaces the sharded tables of a MERGE's source.  Returns false if that is not
 * possible.
 */
bool
sl_merge_wrap_source(Query *query)
{
	Bitmapset  *joined = sl_level_joined((Node *) query->jointree);

	for (int i = -1; (i = bms_next_member(joined, i)) >= 0;)
	{
		const RangeTblEntry *entry = rt_fetch(i, query->rtable);

		if (entry->rtekind == RTE_RELATION && sl_table_is_remote(entry->relid, entry->relkind) &&
			!wrap_table(query, i))
			return false;
	}
	return true;
}

/* TABLESAMPLE ------------------------------------------------------------------------- */

static bool
has_row_value(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, Var) || IsA(node, SubLink) || expression_tree_walker(node, has_row_value, context);
}

/* Is it a distributed table that is sampled by a fraction which depends on no row? */
static bool
is_sampled(const RangeTblEntry *entry)
{
	return entry->rtekind == RTE_RELATION && entry->tablesample != NULL && entry->securityQuals == NIL &&
		sl_table_is_remote(entry->relid, entry->relkind) &&
		!has_row_value((Node *) entry->tablesample, NULL);
}

static bool
has_sampled(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return is_sampled((RangeTblEntry *) node);
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_sampled, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, has_sampled, context);
}

/* Rows that are locked cannot be those of a subquery. */
static bool
wrap_sampled(Node *node, void *context)
{
	Query	   *query = (Query *) node;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, wrap_sampled, context);
	if (query_tree_walker(query, wrap_sampled, context, 0))
		return true;
	for (int i = 1; query->rowMarks == NIL && i <= list_length(query->rtable); i++)
	{
		if (is_sampled(rt_fetch(i, query->rtable)))
			(void) wrap_table(query, i);
	}
	return false;
}

/*
 * Returns the statement, or a copy of it in which distributed tables are sampled in
 * subqueries.
 */
Query *
sl_sample_wrap_tables(Query *query)
{
	if (!has_sampled((Node *) query, NULL))
		return query;
	query = copyObject(query);
	(void) wrap_sampled((Node *) query, NULL);
	return query;
}
