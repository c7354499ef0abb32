/*
 * insert_columns.c
 *		INSERT statements in a form that can be deparsed.
 *
 * The rewriter sorts the target list of an INSERT and adds columns with a
 * default, while its VALUES rows and SELECT stay as the user wrote them.
 * pg_get_querydef() takes the names from the former and the values from the
 * latter, which silently puts values into the wrong columns.  So the rows are
 * rewritten to have the columns of the target list, one to one.
 *
 * All columns are named, as in every INSERT that is sent to a shard: a NULL of
 * the router must not become the shard's default.  Generated columns are
 * computed by the shard, and no column is an identity column there.  The INSERT
 * actions of MERGE get the same columns.
 */
#include "postgres.h"

#include "access/table.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "deparse/shippable_query.h"
#include "metadata/table.h"
#include "planner/insert.h"

/* Columns ---------------------------------------------------------------------- */

static TargetEntry *
find_entry(List *entries, AttrNumber column)
{
	ListCell   *cell;

	foreach(cell, entries)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (!entry->resjunk && entry->resno == column)
			return entry;
	}
	return NULL;
}

static TargetEntry *
make_null(Form_pg_attribute column)
{
	int32		modifier = column->atttypmod;
	Oid			type = getBaseTypeAndTypmod(column->atttypid, &modifier);

	return makeTargetEntry((Expr *) makeNullConst(type, modifier, get_typcollation(type)),
						   column->attnum, pstrdup(NameStr(column->attname)), false);
}

/*
 * Returns the target list with all columns of the table that an INSERT can name.
 */
static List *
complete_columns(const Query *query, List *entries)
{
	RangeTblEntry *entry = rt_fetch(query->resultRelation, query->rtable);
	Relation	relation = table_open(entry->relid, NoLock);
	TupleDesc	columns = RelationGetDescr(relation);
	List	   *result = NIL;

	for (int i = 0; i < columns->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(columns, i);
		TargetEntry *known = find_entry(entries, column->attnum);

		if (known != NULL)
			result = lappend(result, known);
		else if (!column->attisdropped && column->attgenerated == '\0')
			result = lappend(result, make_null(column));
	}
	table_close(relation, NoLock);
	return result;
}

/* Makes the target list the columns of the rows, in their order. */
static void
refer_to_rows(Query *query, int source)
{
	ListCell   *cell;

	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		entry->expr = (Expr *) makeVar(source, (AttrNumber) (foreach_current_index(cell) + 1),
									   exprType((Node *) entry->expr),
									   exprTypmod((Node *) entry->expr),
									   exprCollation((Node *) entry->expr), 0);
	}
}

static Alias *
name_columns(const char *name, int count)
{
	List	   *names = NIL;

	for (int i = 1; i <= count; i++)
		names = lappend(names, makeString(psprintf("column%d", i)));
	return makeAlias(name, names);
}

/* VALUES ------------------------------------------------------------------------- */

/* Returns one row of the VALUES list at this index of the range table. */
typedef struct Row
{
	int			source;
	List	   *values;
} Row;

static Node *
put_values(Node *node, Row *row)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) && ((Var *) node)->varno == row->source && ((Var *) node)->varlevelsup == 0)
		return copyObject(list_nth(row->values, ((Var *) node)->varattno - 1));
	return expression_tree_mutator(node, put_values, (void *) row);
}

/*
 * Computes the columns of the target list from a row: casts and defaults
 * applied.
 */
static List *
make_row(const Query *query, Row *row)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, query->targetList)
		result = lappend(result, put_values((Node *) lfirst_node(TargetEntry, cell)->expr, row));
	return result;
}

static void
normalise_values(Query *query, int source)
{
	RangeTblEntry *values = rt_fetch(source, query->rtable);
	ListCell   *cell;

	foreach(cell, values->values_lists)
	{
		Row			row = {.source = source,.values = lfirst(cell)};

		lfirst(cell) = make_row(query, &row);
	}
	values->coltypes = values->coltypmods = values->colcollations = NIL;
	foreach(cell, query->targetList)
	{
		Node	   *column = (Node *) lfirst_node(TargetEntry, cell)->expr;

		values->coltypes = lappend_oid(values->coltypes, exprType(column));
		values->coltypmods = lappend_int(values->coltypmods, exprTypmod(column));
		values->colcollations = lappend_oid(values->colcollations, exprCollation(column));
	}
	values->alias = NULL;
	values->eref = name_columns("*VALUES*", list_length(query->targetList));
	refer_to_rows(query, source);
}

/* SELECT ------------------------------------------------------------------------- */

/* Are the output columns of the subquery those of the target list already? */
static bool
is_in_order(const Query *query, int source)
{
	const Query *subquery = rt_fetch(source, query->rtable)->subquery;
	int			count = 0;
	ListCell   *cell;

	foreach(cell, query->targetList)
	{
		Var		   *column = (Var *) strip_implicit_coercions((Node *) lfirst_node(TargetEntry, cell)->expr);

		if (!IsA(column, Var) || column->varno != source || column->varattno != ++count)
			return false;
	}
	return count == count_nonjunk_tlist_entries(subquery->targetList);
}

/*
 * The columns of a subquery around it; "source" is the RTE of the inner one.
 */
static List *
wrap_columns(List *entries, int source)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, entries)
	{
		TargetEntry *entry = copyObject(lfirst_node(TargetEntry, cell));

		ChangeVarNodes((Node *) entry->expr, source, 1, 0);
		entry->resno = (AttrNumber) (foreach_current_index(cell) + 1);
		result = lappend(result, entry);
	}
	return result;
}

/*
 * Wraps the subquery into another one.  Changing its own output columns would
 * be shorter, but it may be a set operation, or have DISTINCT.
 */
static void
normalise_select(Query *query, int source)
{
	RangeTblEntry *entry = rt_fetch(source, query->rtable);
	RangeTblEntry *inner = copyObject(entry);
	RangeTblRef *reference = makeNode(RangeTblRef);
	Query	   *wrapper = makeNode(Query);

	if (is_in_order(query, source))
		return;
	IncrementVarSublevelsUp((Node *) inner->subquery, 1, 1);
	inner->inFromCl = true;
	inner->alias = makeAlias("s", NIL);
	reference->rtindex = 1;
	wrapper->commandType = CMD_SELECT;
	wrapper->canSetTag = true;
	wrapper->rtable = list_make1(inner);
	wrapper->jointree = makeFromExpr(list_make1(reference), NULL);
	wrapper->targetList = wrap_columns(query->targetList, source);
	entry->subquery = wrapper;
	entry->alias = NULL;
	entry->eref = name_columns("*SELECT*", list_length(query->targetList));
	refer_to_rows(query, source);
}

/* Statements --------------------------------------------------------------------- */

/* Does it insert rows into a distributed table, as the grammar has it? */
static bool
is_remote_insert(const Query *query)
{
	const RangeTblEntry *entry;

	if (query->commandType != CMD_MERGE &&
		(query->commandType != CMD_INSERT || !sl_shippable_is_plain_insert(query)))
		return false;
	entry = rt_fetch(query->resultRelation, query->rtable);
	return sl_table_is_remote(entry->relid, entry->relkind);
}

/*
 * Returns the index of the source of rows in the range table, or 0 for a
 * single row.
 */
int
sl_insert_source(const Query *query)
{
	if (query->jointree->fromlist == NIL)
		return 0;
	return linitial_node(RangeTblRef, query->jointree->fromlist)->rtindex;
}

/*
 * MERGE is deparsed without the conditions of a view that is its target.  Rows that
 * the view does not have match nothing, and are not its rows without a match.
 */
static void
move_view_conditions(Query *query)
{
	Node	   *quals = query->jointree->quals;
	ListCell   *cell;

	if (!SL_MERGE_CONDITION_APART || quals == NULL)
		return;
	query->jointree->quals = NULL;
	sl_merge_condition(query) = (Node *) make_and_qual(sl_merge_condition(query), copyObject(quals));
	foreach(cell, query->mergeActionList)
	{
		MergeAction *action = lfirst_node(MergeAction, cell);

		if (sl_is_not_matched_by_source(action))
			action->qual = make_and_qual(action->qual, copyObject(quals));
	}
}

static void
normalise_merge(Query *query)
{
	ListCell   *cell;

	move_view_conditions(query);
	foreach(cell, query->mergeActionList)
	{
		MergeAction *action = lfirst_node(MergeAction, cell);

		if (action->commandType != CMD_INSERT)
			continue;
		action->targetList = complete_columns(query, action->targetList);
		action->override = OVERRIDING_NOT_SET;
	}
}

static void
normalise(Query *query)
{
	int			source;

	if (query->commandType == CMD_MERGE)
	{
		normalise_merge(query);
		return;
	}
	source = sl_insert_source(query);
	query->targetList = complete_columns(query, query->targetList);
	query->override = OVERRIDING_NOT_SET;
	if (source == 0)
		return;
	if (rt_fetch(source, query->rtable)->rtekind == RTE_VALUES)
		normalise_values(query, source);
	else
		normalise_select(query, source);
}

static bool
has_insert(const Query *query)
{
	ListCell   *cell;

	if (is_remote_insert(query))
		return true;
	foreach(cell, query->hasModifyingCTE ? query->cteList : NIL)
	{
		if (is_remote_insert(castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery)))
			return true;
	}
	return false;
}

/*
 * Returns a copy of the statement whose INSERTs, also those in WITH, can be
 * deparsed; or the statement itself if it has none.
 */
Query *
sl_insert_normalise(Query *query)
{
	ListCell   *cell;

	if (!has_insert(query))
		return query;
	query = copyObject(query);
	if (is_remote_insert(query))
		normalise(query);
	foreach(cell, query->cteList)
	{
		Query	   *with = castNode(Query, lfirst_node(CommonTableExpr, cell)->ctequery);

		if (is_remote_insert(with))
			normalise(with);
	}
	return query;
}
