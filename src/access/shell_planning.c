/*
 * shell_planning.c
 *		Has PostgreSQL's planner plan shell tables as foreign tables.
 *
 * To the planner a relation is what the relkind of its range table entry says.  The
 * entry of a shell table is changed to RELKIND_FOREIGN_TABLE before the planner
 * sees it, and the hook on relation information supplies what the planner takes
 * from the relation itself otherwise: the foreign data wrapper's routine and the
 * server.  The executor finds both through the row of pg_foreign_table.  Nothing
 * compares the two relkinds.
 *
 * Statements that are shipped or scattered are deparsed from the original entries:
 * substitution is the last step before standard_planner(), so that names, ONLY
 * and partitions appear on the shards as in the statement.
 *
 * A partitioned table is planned as one relation, whose partitions the shards scan.
 * ONLY of one returns nothing, as in PostgreSQL: the entry gets a condition that is
 * false.
 *
 * PostgreSQL inlines SQL functions in FROM after the planner hook.  The
 * hook on relation information substitutes their entries: it runs before anything
 * depends on the relkind.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/plancat.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "access/shell_access.h"
#include "base/base.h"
#include "metadata/table.h"

static get_relation_info_hook_type next_relation_info = NULL;

static bool
is_shell_entry(const RangeTblEntry *entry)
{
	return entry->rtekind == RTE_RELATION && entry->relkind != RELKIND_FOREIGN_TABLE &&
		sl_table_is_remote(entry->relid, entry->relkind);
}

/*
 * TABLESAMPLE would be ignored: the planner looks for foreign tables first.  What
 * is left of it was not pushed down.
 */
static void
refuse_sample(const RangeTblEntry *entry)
{
	if (entry->tablesample == NULL)
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("TABLESAMPLE of table \"%s\" is not supported in this statement", get_rel_name(entry->relid)),
			errdetail("The table is distributed, and shards cannot execute the part of the statement that samples it."),
			errhint("Sample in a subquery that returns columns, not whole rows, by arguments that are constant, and without row locks."));
}

/*
 * Changes an entry.  "no_rows" is what a condition that is false looks like among the
 * entry's security quals: the planner replaces expressions by lists of them.
 */
static void
substitute_entry(RangeTblEntry *entry, void *no_rows)
{
	refuse_sample(entry);
	if (entry->relkind == RELKIND_PARTITIONED_TABLE && !entry->inh)
		entry->securityQuals = lcons(no_rows, entry->securityQuals);
	entry->relkind = RELKIND_FOREIGN_TABLE;
	entry->inh = false;
}

static bool
substitute_entries(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		if (is_shell_entry((RangeTblEntry *) node))
			substitute_entry((RangeTblEntry *) node, makeBoolConst(false, false));
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, substitute_entries, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, substitute_entries, context);
}

/* Changes the entries of shell tables in place, at all levels of the query. */
void
sl_shell_substitute(Query *query)
{
	(void) substitute_entries((Node *) query, NULL);
}

/*
 * Indexes stay: unique ones hold over all shards, or the user has asserted that they do
 * (local_unique), and prove that a join adds no rows.  Paths that scan them are made for plain tables only, but estimates would
 * look for the smallest and largest values in them, unless they are hypothetical.
 */
static void
hide_indexes(RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->indexlist)
		lfirst_node(IndexOptInfo, cell)->hypothetical = true;
}

/* Describes a shell table as a foreign table. */
static void
describe_shell(PlannerInfo *root, Oid relid, bool is_parent, RelOptInfo *rel)
{
	RangeTblEntry *entry = planner_rt_fetch(rel->relid, root);

	if (root->parse->jointree != NULL && is_shell_entry(entry) && !sl_shell_is_open(relid))
	{
		substitute_entry(entry, list_make1(makeBoolConst(false, false)));
		root->qual_security_level = Max(root->qual_security_level, (Index) list_length(entry->securityQuals));
		rel->part_scheme = NULL;
	}
	if (next_relation_info != NULL)
		next_relation_info(root, relid, is_parent, rel);
	if (entry->relkind != RELKIND_FOREIGN_TABLE || rel->fdwroutine != NULL)
		return;
	hide_indexes(rel);
	rel->serverid = GetForeignServerIdByRelId(relid);
	rel->fdwroutine = GetFdwRoutineByServerId(rel->serverid);
}

void
sl_shell_planning_init(void)
{
	next_relation_info = get_relation_info_hook;
	get_relation_info_hook = describe_shell;
}
