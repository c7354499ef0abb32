/*
 * query_placement.c
 *		Placement analysis: on which shards are the rows that a statement
 *		needs?
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"

#include "base/base.h"
#include "compat.h"
#include "planner/query_placement.h"

static bool
collect_tables(Node *node, SlPlacement *placement)
{
	ListCell   *cell;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, collect_tables, (void *) placement);
	foreach(cell, ((Query *) node)->rtable)
	{
		SlTable    *table = sl_level_table(lfirst(cell));
		ListCell   *other;
		bool		is_found = table == NULL;

		foreach(other, placement->tables)
			is_found = is_found || ((SlTable *) lfirst(other))->relid == table->relid;
		if (!is_found)
			placement->tables = lappend(placement->tables, table);
	}
	return query_tree_walker((Query *) node, collect_tables, (void *) placement, 0);
}

/* Sets the placement to the shard of the key. */
static void
set_single_shard(SlPlacement *placement, const SlShardKey *key)
{
	List	   *program = list_make1(makeInteger(SL_PRUNE_AND));

	placement->kind = SL_PLACEMENT_SINGLE_SHARD;
	placement->table = key->table;
	if (key->table->kind == SL_TABLE_PLACED)
		program = NIL;
	for (int i = 0; program != NIL && i < key->table->key_count; i++)
	{
		program = lappend(program, list_make3(makeInteger(SL_PRUNE_EQUAL), makeInteger(i),
											  makeInteger(list_length(placement->expressions))));
		placement->expressions = lappend(placement->expressions, copyObject(linitial(key->known[i])));
	}
	placement->programs = list_make1(list_make2(makeInteger((int) key->table->relid), program));
}

/* Adds the conditions on tables in FROM, for shard pruning. */
static void
add_programs(SlPlacement *placement, Query *query, List *units)
{
	SlShippableContext ship = {.is_statement = true};
	List	   *clauses = make_ands_implicit((Expr *) sl_flatten_join_columns(query,
																			  query->jointree->quals));
	ListCell   *cell;

	foreach(cell, units)
	{
		const SlUnit *unit = lfirst(cell);
		SlTable    *table = sl_level_table(rt_fetch(unit->index, query->rtable));
		List	   *program;

		if (table == NULL || unit->is_nullable)
			continue;
		program = sl_pruning_make(&ship, unit->index, table, clauses, &placement->expressions);
		if (program != NIL)
			placement->programs = lappend(placement->programs,
										  list_make2(makeInteger((int) table->relid), program));
	}
	if (placement->programs == NIL)
		placement->programs = list_make1(list_make2(makeInteger((int) placement->table->relid), NIL));
}

static void
set_all_shards(SlPlacement *placement, Query *query, SlTable *table, const SlColocated *result)
{
	placement->kind = SL_PLACEMENT_ALL_SHARDS;
	placement->table = table;
	add_programs(placement, query, result->units);
	for (int i = 0; result->has_key && i < table->key_count; i++)
		placement->columns = lappend_int(placement->columns, result->key[i]);
}

static SlPlacement *
begin_placement(Query *query)
{
	SlPlacement *placement = palloc0(sizeof(SlPlacement));

	placement->kind = SL_PLACEMENT_ROUTER;
	(void) collect_tables((Node *) query, placement);
	return placement;
}

/* Returns a table that is not a reference table, or NULL. */
static SlTable *
first_table(const SlPlacement *placement)
{
	ListCell   *cell;

	foreach(cell, placement->tables)
	{
		SlTable    *table = lfirst(cell);

		if (table->kind != SL_TABLE_REFERENCE)
			return table;
	}
	return NULL;
}

/*
 * Finds the key of a single-shard query.  If no table of the query itself has
 * one by its conditions, one of a subquery or a view may have.
 */
static bool
find_shard_key(const SlPlacement *placement, Query *query, SlShardKey *key)
{
	List	   *constants;
	ListCell   *cell;

	if (!sl_ship_statements)
		return false;
	if (sl_single_shard_find_key(query, key))
		return sl_single_shard_match_query(key, NULL, query);
	if (sl_merge_find_key(query, key))
		return sl_single_shard_match_query(key, NULL, query);
	key->table = first_table(placement);
	if (key->table == NULL || key->table->key_count != 1)
		return false;
	constants = sl_single_shard_constants(query, key->table);
	foreach(cell, constants)
	{
		key->known[0] = list_make1(lfirst(cell));
		if (sl_single_shard_match_query(key, NULL, query))
			return true;
	}
	return false;
}

/* Analyzes the placement of a statement. */
SlPlacement *
sl_placement_analyze(Query *query)
{
	SlPlacement *placement = begin_placement(query);
	SlTable    *table = NULL;
	SlShardKey	key = {0};
	SlColocated result = {0};

	if (first_table(placement) == NULL)
		return placement;
	query = sl_merge_join_target(query);
	if (find_shard_key(placement, query, &key))
		set_single_shard(placement, &key);
	else if (sl_colocation_check_statement(query, &table, &result))
		set_all_shards(placement, query, table, &result);
	return placement;
}
