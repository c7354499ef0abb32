/*
 * push_partial_sql.c
 *		Remote queries on top of a remote subquery: with filters, groups or
 *		DISTINCT, or sorted for a merge.
 *
 * For the former the remote subquery is a subquery in FROM, which PostgreSQL
 * pulls up on the shard.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_clause.h"
#include "parser/parse_oper.h"
#include "rewrite/rewriteManip.h"
#include "utils/typcache.h"

#include "compat.h"
#include "planner/push_partial.h"

#define SUBQUERY_ALIAS "r"

static RangeTblEntry *
make_subquery(const SlRemoteSubquery *subquery)
{
	RangeTblEntry *entry = makeNode(RangeTblEntry);
	ListCell   *cell;

	entry->rtekind = RTE_SUBQUERY;
	entry->subquery = copyObject(subquery->query);
	entry->alias = makeAlias(SUBQUERY_ALIAS, NIL);
	entry->eref = makeAlias(SUBQUERY_ALIAS, NIL);
	foreach(cell, entry->subquery->targetList)
	{
		TargetEntry *column = lfirst_node(TargetEntry, cell);

		column->resname = psprintf("c%d", column->resno);
		entry->eref->colnames = lappend(entry->eref->colnames, makeString(pstrdup(column->resname)));
	}
	entry->inFromCl = true;
	return entry;
}

/* Uses the default equality of the type, which defines groups. */
static SortGroupClause *
make_group(Expr *expression, Index number)
{
	SortGroupClause *group = makeNode(SortGroupClause);

	group->tleSortGroupRef = number;
	get_sort_group_operators(exprType((Node *) expression), false, true, false, &group->sortop,
							 &group->eqop, NULL, &group->hashable);
	return group;
}

/*
 * Makes SELECT columns FROM (remote subquery) WHERE clauses GROUP BY the
 * grouping columns, or SELECT DISTINCT.  All expressions are in shippable
 * form, and refer to the remote subquery by its index.
 */
Query *
sl_partial_push_grouping(const SlRemoteSubquery *subquery, Index index, List *columns, List *clauses, bool is_distinct)
{
	Query	   *query = makeNode(Query);
	RangeTblRef *reference = makeNode(RangeTblRef);
	List	   *groups = NIL;
	ListCell   *cell;

	reference->rtindex = 1;
	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->rtable = list_make1(make_subquery(subquery));
	query->jointree = makeFromExpr(list_make1(reference), clauses == NIL ? NULL :
								   (Node *) make_ands_explicit(copyObject(clauses)));
	query->stmt_location = query->stmt_len = -1;
	foreach(cell, columns)
	{
		const SlRemoteSubqueryColumn *column = lfirst(cell);
		int			number = foreach_current_index(cell) + 1;
		TargetEntry *entry = makeTargetEntry(copyObject(column->remote), (AttrNumber) number,
											 psprintf("s%d", number), false);

		if (column->is_group)
		{
			entry->ressortgroupref = (Index) number;
			groups = lappend(groups, make_group(column->remote, (Index) number));
		}
		query->targetList = lappend(query->targetList, entry);
	}
	query->distinctClause = is_distinct ? groups : NIL;
	query->groupClause = is_distinct ? NIL : groups;
	query->hasAggs = !is_distinct;
	ChangeVarNodes((Node *) query->targetList, (int) index, 1, 0);
	ChangeVarNodes(query->jointree->quals, (int) index, 1, 0);
	return query;
}

/* ORDER BY ------------------------------------------------------------------------ */

/*
 * Returns the column of the remote subquery for a path key, from 1; 0 if there
 * is none.
 */
static AttrNumber
find_column(const PathKey *key, const RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, key->pk_eclass->ec_has_volatile ? NIL : key->pk_eclass->ec_members)
	{
		const EquivalenceMember *member = lfirst(cell);
		const Var  *column = (const Var *) member->em_expr;

		if (!member->em_is_child && IsA(column, Var) && column->varno == (int) rel->relid &&
			column->varattno > 0)
			return column->varattno;
	}
	return 0;
}

/* Would shards sort by it in the order in which the router merges? */
static bool
can_sort(const SlRemoteSubquery *subquery, const PathKey *key, Node *value)
{
	TypeCacheEntry *type = lookup_type_cache(exprType(value), TYPECACHE_BTREE_OPFAMILY);

	return key->pk_opfamily == type->btree_opf && sl_shippable_is_type(&subquery->ship, exprType(value)) &&
		sl_shippable_is_order(&subquery->ship, exprCollation(value)) &&
		key->pk_eclass->ec_collation == exprCollation(value);
}

/* The path key is in the type's default order: see can_sort(). */
static SortGroupClause *
make_clause(const PathKey *key, TargetEntry *entry, List *targets)
{
	SortGroupClause *clause = makeNode(SortGroupClause);
	TypeCacheEntry *type = lookup_type_cache(exprType((Node *) entry->expr),
											 TYPECACHE_LT_OPR | TYPECACHE_GT_OPR | TYPECACHE_EQ_OPR);

	clause->sortop = sl_pathkey_is_descending(key) ? type->gt_opr : type->lt_opr;
	clause->eqop = type->eq_opr;
	clause->nulls_first = key->pk_nulls_first;
	clause->tleSortGroupRef = assignSortGroupRef(entry, targets);
	return clause;
}

/*
 * Makes the remote query that returns the rows sorted by these path keys, and
 * the keys to merge by.  Returns NULL if that is not shippable.
 */
Query *
sl_partial_push_sort(const SlRemoteSubquery *subquery, const List *keys, const RelOptInfo *rel, List **merge)
{
	Query	   *query = copyObject(subquery->query);
	ListCell   *cell;

	if (keys == NIL || query->sortClause != NIL || query->limitCount != NULL ||
		query->limitOffset != NULL)
		return NULL;
	foreach(cell, keys)
	{
		const PathKey *key = lfirst_node(PathKey, cell);
		AttrNumber	number = find_column(key, rel);
		TargetEntry *entry;
		SortGroupClause *clause;

		if (number == 0)
			return NULL;
		entry = list_nth_node(TargetEntry, query->targetList, number - 1);
		if (entry->resjunk || !can_sort(subquery, key, (Node *) entry->expr))
			return NULL;
		clause = make_clause(key, entry, query->targetList);
		if (!OidIsValid(clause->sortop))
			return NULL;
		query->sortClause = lappend(query->sortClause, clause);
		*merge = lappend(*merge, list_make4_oid((Oid) (number - 1), clause->sortop,
												key->pk_eclass->ec_collation,
												clause->nulls_first ? 1 : 0));
	}
	return query;
}
