/*
 * leaf_text.c
 *		What shards do with the rows of a leaf before they send them.
 *
 * The leaf is a subquery there, which PostgreSQL merges with what is around it.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_oper.h"
#include "rewrite/rewriteManip.h"

#include "compat.h"
#include "plan/leaf.h"

#define LEAF_ALIAS "r"

static RangeTblEntry *
make_subquery(const SlLeaf *leaf)
{
	RangeTblEntry *entry = makeNode(RangeTblEntry);
	ListCell   *cell;

	entry->rtekind = RTE_SUBQUERY;
	entry->subquery = copyObject(leaf->query);
	entry->alias = makeAlias(LEAF_ALIAS, NIL);
	entry->eref = makeAlias(LEAF_ALIAS, NIL);
	foreach(cell, entry->subquery->targetList)
	{
		TargetEntry *column = lfirst_node(TargetEntry, cell);

		column->resname = psprintf("c%d", column->resno);
		entry->eref->colnames = lappend(entry->eref->colnames, makeString(pstrdup(column->resname)));
	}
	entry->inFromCl = true;
	return entry;
}

/* Equality as the type has it, which is all that counts for being a group. */
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
 * SELECT columns FROM (leaf) WHERE clauses GROUP BY those that are groups, or
 * SELECT DISTINCT.  All of it is as shards can run it, and refers to the leaf by its
 * place in the statement.
 */
Query *
sl_leaf_group(const SlLeaf *leaf, Index index, List *columns, List *clauses, bool is_distinct)
{
	Query	   *query = makeNode(Query);
	RangeTblRef *reference = makeNode(RangeTblRef);
	List	   *groups = NIL;
	ListCell   *cell;

	reference->rtindex = 1;
	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->rtable = list_make1(make_subquery(leaf));
	query->jointree = makeFromExpr(list_make1(reference), clauses == NIL ? NULL :
								   (Node *) make_ands_explicit(copyObject(clauses)));
	query->stmt_location = query->stmt_len = -1;
	foreach(cell, columns)
	{
		const SlLeafColumn *column = lfirst(cell);
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
