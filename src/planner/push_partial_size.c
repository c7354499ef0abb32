/*
 * push_partial_size.c
 *		Estimates the size of a remote subquery, and the statistics of its
 *		columns.
 *
 * PostgreSQL plans the original query over foreign tables, and that estimate
 * is used.  Statistics of a column are those of the table's column.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_statistic.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"

#include "planner/push_partial.h"

static get_relation_stats_hook_type next_stats_hook = NULL;

static void
read_size(Oid relid, double *tuples, double *pages)
{
	HeapTuple	row = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));

	*tuples = *pages = 0;
	if (!HeapTupleIsValid(row))
		return;
	*tuples = Max(((Form_pg_class) GETSTRUCT(row))->reltuples, 0);
	*pages = Max(((Form_pg_class) GETSTRUCT(row))->relpages, 0);
	ReleaseSysCache(row);
}

/*
 * Returns the only relation, if it is a table that is read without conditions.
 */
static Oid
find_whole_table(const Query *query)
{
	int			index;
	const RangeTblEntry *entry;

	if (!bms_get_singleton_member(sl_level_joined((Node *) query->jointree), &index) ||
		query->jointree->quals != NULL || query->hasAggs || query->groupClause != NIL ||
		query->distinctClause != NIL || query->limitCount != NULL || query->hasTargetSRFs)
		return InvalidOid;
	entry = rt_fetch(index, query->rtable);
	return entry->rtekind == RTE_RELATION ? entry->relid : InvalidOid;
}

/* Foreign tables cannot be sampled: the estimate is that of all rows. */
static bool
remove_samples(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		((RangeTblEntry *) node)->tablesample = NULL;
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, remove_samples, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, remove_samples, context);
}

void
sl_partial_estimate_size(SlRemoteSubquery *subquery, ParamListInfo params)
{
	Oid			table = find_whole_table(subquery->plain);
	double		pages = 0;
	Query	   *query;
	const Plan *plan;

	if (OidIsValid(table))
		read_size(table, &subquery->tuples, &pages);
	if (subquery->tuples > 0)
	{
		subquery->rows = subquery->tuples;
		subquery->cost = seq_page_cost * pages + cpu_tuple_cost * subquery->tuples;
		return;
	}
	query = copyObject(subquery->plain);
	(void) remove_samples((Node *) query, NULL);
	plan = standard_planner(query, "", 0, params)->planTree;
	subquery->rows = subquery->tuples = plan->plan_rows;
	subquery->cost = plan->total_cost;
}

/* Columns ------------------------------------------------------------------------------- */

/* A negative stadistinct is relative to the table's size: converts it. */
static HeapTuple
read_statistics(Oid relid, AttrNumber number)
{
	HeapTuple	found = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid), Int16GetDatum(number),
										BoolGetDatum(false));
	HeapTuple	result;
	double		tuples;
	double		pages;
	Form_pg_statistic form;

	if (!HeapTupleIsValid(found))
		return NULL;
	result = heap_copytuple(found);
	ReleaseSysCache(found);
	form = (Form_pg_statistic) GETSTRUCT(result);
	read_size(relid, &tuples, &pages);
	if (form->stadistinct < 0 && tuples > 0)
		form->stadistinct = (float4) (-form->stadistinct * tuples);
	return result;
}

static bool
find_statistics(PlannerInfo *root, RangeTblEntry *entry, AttrNumber number, VariableStatData *data)
{
	const SlRemoteSubquery *subquery = sl_partial_find_subquery(entry);
	const Var  *column;
	const RangeTblEntry *table;

	if (subquery == NULL)
		return next_stats_hook != NULL && next_stats_hook(root, entry, number, data);
	if (number <= 0 || number > list_length(subquery->plain->targetList))
		return false;
	column = (const Var *) list_nth_node(TargetEntry, subquery->plain->targetList, number - 1)->expr;
	if (!IsA(column, Var) || column->varlevelsup > 0 || column->varattno <= 0)
		return false;
	table = rt_fetch(column->varno, subquery->plain->rtable);
	if (table->rtekind != RTE_RELATION)
		return false;
	data->statsTuple = read_statistics(table->relid, column->varattno);
	data->freefunc = heap_freetuple;
	return HeapTupleIsValid(data->statsTuple);
}

void
sl_partial_init_size(void)
{
	next_stats_hook = get_relation_stats_hook;
	get_relation_stats_hook = find_statistics;
}
