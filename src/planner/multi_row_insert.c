/*
 * multi_row_insert.c
 *		INSERT of rows that belong to several shards.
 *
 * The rows are computed on the router, each value once, and each row is sent
 * to the shard of its key.  A shard gets its rows in one statement, with an
 * array parameter for each column: so one query string serves any number of
 * rows, and the shard prepares it once.  All shards run it in parallel, in one
 * distributed transaction.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "deparse/shippable_query.h"
#include "metadata/table.h"
#include "planner/insert.h"
#include "planner/planner.h"

/* Parameters that stand for columns are numbered from this one. */
#define FIRST_COLUMN 1000000

/* INSERTs with more values are sent row by row, instead of held in memory. */
#define MAX_VALUES 16384

/* Rows --------------------------------------------------------------------------- */

/* Returns the rows of a normalized INSERT: lists of expressions. */
static List *
rows_of(const Query *query)
{
	int			source = sl_insert_source(query);
	List	   *row = NIL;
	ListCell   *cell;

	if (source > 0)
		return rt_fetch(source, query->rtable)->values_lists;
	foreach(cell, query->targetList)
		row = lappend(row, lfirst_node(TargetEntry, cell)->expr);
	return list_make1(row);
}

static bool
are_computed_on_router(const SlShippableContext *ship, List *rows)
{
	ListCell   *row_cell;
	ListCell   *cell;

	foreach(row_cell, rows)
	{
		foreach(cell, (List *) lfirst(row_cell))
		{
			if (!sl_shippable_is_computed_once(ship, lfirst(cell)))
				return false;
		}
	}
	return true;
}

/* Can each column be sent as an array? */
static bool
have_arrays(const SlShippableContext *ship, List *types)
{
	ListCell   *cell;

	foreach(cell, types)
	{
		if (OidIsValid(get_element_type(lfirst_oid(cell))) ||
			!OidIsValid(get_array_type(lfirst_oid(cell))) ||
			!sl_shippable_is_type(ship, lfirst_oid(cell)))
			return false;
	}
	return true;
}

static List *
types_of(List *entries)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, entries)
		result = lappend_oid(result, exprType((Node *) lfirst_node(TargetEntry, cell)->expr));
	return result;
}

/* Returns the positions of the key columns in a row, from 0. */
static List *
places_of_key(const SlTable *table, List *entries)
{
	List	   *result = NIL;
	ListCell   *cell;

	for (int i = 0; i < table->key_count; i++)
	{
		foreach(cell, entries)
		{
			if (lfirst_node(TargetEntry, cell)->resno == table->key[i])
				result = lappend_int(result, foreach_current_index(cell));
		}
	}
	return result;
}

/* The statement ---------------------------------------------------------------------- */

/* Makes the call of unnest() for a parameter. */
static RangeTblFunction *
make_unnest(Oid type, int number)
{
	RangeTblFunction *function = makeNode(RangeTblFunction);
	Param	   *param = makeNode(Param);
	Oid			collation = get_typcollation(type);

	param->paramkind = PARAM_EXTERN;
	param->paramid = FIRST_COLUMN + number;
	param->paramtype = get_array_type(type);
	param->paramtypmod = -1;
	param->paramcollid = collation;
	param->location = -1;
	function->funcexpr = (Node *) makeFuncExpr(F_UNNEST_ANYARRAY, type, list_make1(param),
											   collation, collation, COERCE_EXPLICIT_CALL);
	((FuncExpr *) function->funcexpr)->funcretset = true;
	function->funccolcount = 1;
	return function;
}

/* Makes the SELECT of the columns of unnest(). */
static Query *
make_select(List *types, List *names)
{
	Query	   *query = makeNode(Query);
	RangeTblEntry *entry = makeNode(RangeTblEntry);
	RangeTblRef *reference = makeNode(RangeTblRef);
	ListCell   *cell;

	reference->rtindex = 1;
	entry->rtekind = RTE_FUNCTION;
	entry->inFromCl = true;
	entry->alias = makeAlias("r", NIL);
	entry->eref = makeAlias("r", names);
	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	foreach(cell, types)
	{
		int			number = foreach_current_index(cell);
		Oid			type = lfirst_oid(cell);
		Var		   *column = makeVar(1, (AttrNumber) (number + 1), type, -1,
									 get_typcollation(type), 0);

		entry->functions = lappend(entry->functions, make_unnest(type, number));
		query->targetList = lappend(query->targetList,
									makeTargetEntry((Expr *) column, (AttrNumber) (number + 1),
													strVal(list_nth(names, number)), false));
	}
	query->rtable = list_make1(entry);
	query->jointree = makeFromExpr(list_make1(reference), NULL);
	return query;
}

/* Changes a normalized INSERT to take its rows from arrays. */
static void
take_arrays(Query *query, List *types)
{
	RangeTblEntry *entry = makeNode(RangeTblEntry);
	RangeTblRef *reference = makeNode(RangeTblRef);
	int			source = sl_insert_source(query);
	List	   *names = NIL;
	ListCell   *cell;

	for (int i = 1; i <= list_length(types); i++)
		names = lappend(names, makeString(psprintf("c%d", i)));
	entry->rtekind = RTE_SUBQUERY;
	entry->eref = makeAlias("*SELECT*", names);
	entry->subquery = make_select(types, names);
	if (source > 0)
		lfirst(list_nth_cell(query->rtable, source - 1)) = entry;
	else
	{
		query->rtable = lappend(query->rtable, entry);
		source = list_length(query->rtable);
	}
	reference->rtindex = source;
	query->jointree->fromlist = list_make1(reference);
	foreach(cell, query->targetList)
	{
		int			number = foreach_current_index(cell);
		Oid			type = list_nth_oid(types, number);

		lfirst_node(TargetEntry, cell)->expr =
			(Expr *) makeVar(source, (AttrNumber) (number + 1), type, -1, get_typcollation(type), 0);
	}
}

/*
 * Removes the parameters that stand for columns from the list.  Returns for
 * each parameter of the query the number of the column, or -1 - that of the
 * expression.
 */
static List *
sort_params(List *params, List **expressions)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, params)
	{
		Param	   *param = lfirst(cell);

		if (IsA(param, Param) && param->paramid >= FIRST_COLUMN)
			result = lappend_int(result, param->paramid - FIRST_COLUMN);
		else
		{
			*expressions = lappend(*expressions, param);
			result = lappend_int(result, -list_length(*expressions));
		}
	}
	return result;
}

/* The plan ---------------------------------------------------------------------------- */

/* ON CONFLICT DO UPDATE of the key would leave the row on the wrong shard. */
static bool
sets_key(const Query *query, const SlTable *table)
{
	ListCell   *cell;

	foreach(cell, query->onConflict != NULL ? query->onConflict->onConflictSet : NIL)
	{
		for (int i = 0; i < table->key_count; i++)
		{
			if (lfirst_node(TargetEntry, cell)->resno == table->key[i])
				return true;
		}
	}
	return false;
}

/*
 * Returns the target table if the statement can be planned this way, or NULL.
 */
static SlTable *
table_of(const Query *query)
{
	RangeTblEntry *entry;
	SlTable    *table;
	int			source;

	if (query->commandType != CMD_INSERT || query->cteList != NIL || query->hasSubLinks ||
		!sl_shippable_is_plain_insert(query))
		return NULL;
	entry = rt_fetch(query->resultRelation, query->rtable);
	source = sl_insert_source(query);
	if (!sl_table_is_remote(entry->relid, entry->relkind) ||
		(source > 0 && rt_fetch(source, query->rtable)->rtekind != RTE_VALUES))
		return NULL;
	table = sl_table_get(entry->relid);
	return table->kind == SL_TABLE_SHARDED && !sets_key(query, table) ? table : NULL;
}

/* Returns all values, row by row. */
static List *
flatten(List *rows)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, rows)
		result = list_concat(result, (List *) lfirst(cell));
	return result;
}

/*
 * Plans an INSERT of rows with arbitrary keys; NULL if it cannot be done this
 * way.
 */
PlannedStmt *
sl_insert_plan(Query *query, int options)
{
	SlTable    *table = table_of(query);
	SlRemotePlan remote = {.name = SL_REMOTE_PLAN_SHIP};
	SlInsertRows rows = {0};
	SlShippableContext ship;
	Query	   *insert;
	Query	   *shippable;
	List	   *values;

	if (table == NULL || !sl_planned_find_user(query, &remote.user))
		return NULL;
	insert = sl_insert_normalise(query);
	values = rows_of(insert);
	rows.table = table->relid;
	rows.types = types_of(insert->targetList);
	rows.key = places_of_key(table, insert->targetList);
	sl_shippable_init_query(&ship, list_make1(table));
	ship.with_system_columns = true;
	if (list_length(rows.key) != table->key_count ||
		list_length(values) > MAX_VALUES / Max(list_length(rows.types), 1) || !have_arrays(&ship, rows.types) ||
		!are_computed_on_router(&ship, values))
		return NULL;
	take_arrays(insert, rows.types);
	shippable = sl_shippable_make_query(&ship, insert);
	if (shippable == NULL)
		return NULL;
	rows.params = sort_params(ship.params, &remote.params);
	remote.sql = sl_deparse_query(shippable);
	remote.programs = list_make1(list_make2(makeInteger((int) table->relid), NIL));
	remote.expressions = flatten(values);
	remote.result = sl_planned_make_result(query->returningList);
	remote.flags = SL_REMOTE_PLAN_WRITES | SL_REMOTE_PLAN_COUNTS;
	remote.relations = sl_planned_name_relations(query);
	return sl_planned_make_statement(query, &sl_insert_rows_plan(&remote, &rows,
																 sl_planned_make_target(query->returningList))->scan.plan,
									 options);
}
