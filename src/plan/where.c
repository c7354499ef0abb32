/*
 * where.c
 *		Where the rows are that a statement needs.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"

#include "base/base.h"
#include "compat.h"
#include "plan/where.h"

static bool
collect_tables(Node *node, SlWhere *where)
{
	ListCell   *cell;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, collect_tables, (void *) where);
	foreach(cell, ((Query *) node)->rtable)
	{
		SlTable    *table = sl_level_table(lfirst(cell));
		ListCell   *other;
		bool		is_there = table == NULL;

		foreach(other, where->tables)
			is_there = is_there || ((SlTable *) lfirst(other))->relid == table->relid;
		if (!is_there)
			where->tables = lappend(where->tables, table);
	}
	return query_tree_walker((Query *) node, collect_tables, (void *) where, 0);
}

/* The shard of the key. */
static void
set_one(SlWhere *where, const SlPin *pin)
{
	List	   *program = list_make1(makeInteger(SL_PRUNE_AND));

	where->kind = SL_WHERE_ONE;
	where->table = pin->table;
	if (pin->table->kind == SL_TABLE_PLACED)
		program = NIL;
	for (int i = 0; program != NIL && i < pin->table->key_count; i++)
	{
		/* cppcheck-suppress unknownEvaluationOrder */
		program = lappend(program, list_make3(makeInteger(SL_PRUNE_EQUAL), makeInteger(i),
											  makeInteger(list_length(where->expressions))));
		where->expressions = lappend(where->expressions, copyObject(linitial(pin->known[i])));
	}
	/* cppcheck-suppress unknownEvaluationOrder */
	where->programs = list_make1(list_make2(makeInteger((int) pin->table->relid), program));
}

/* The shards that conditions on tables in FROM allow. */
static void
add_programs(SlWhere *where, Query *query, List *units)
{
	SlShip		ship = {.is_statement = true};
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
		program = sl_prune_make(&ship, unit->index, table, clauses, &where->expressions);
		if (program != NIL)
			where->programs = lappend(where->programs,
			/* cppcheck-suppress unknownEvaluationOrder */
									  list_make2(makeInteger((int) table->relid), program));
	}
	if (where->programs == NIL)
		/* cppcheck-suppress unknownEvaluationOrder */
		where->programs = list_make1(list_make2(makeInteger((int) where->table->relid), NIL));
}

static void
set_shards(SlWhere *where, Query *query, SlTable *table, const SlDivided *result)
{
	where->kind = SL_WHERE_SHARDS;
	where->table = table;
	add_programs(where, query, result->units);
	for (int i = 0; result->has_key && i < table->key_count; i++)
		where->columns = lappend_int(where->columns, result->key[i]);
}

static SlWhere *
begin_where(Query *query)
{
	SlWhere    *where = palloc0(sizeof(SlWhere));

	where->kind = SL_WHERE_ROUTER;
	(void) collect_tables((Node *) query, where);
	return where;
}

/* A table that is not on the router as well, or NULL. */
static SlTable *
first_table(const SlWhere *where)
{
	ListCell   *cell;

	foreach(cell, where->tables)
	{
		SlTable    *table = lfirst(cell);

		if (table->kind != SL_TABLE_REFERENCE)
			return table;
	}
	return NULL;
}

/*
 * Finds the key that everything in it is pinned to.  If no table has one by its
 * own conditions, a subquery or a view may have.
 */
static bool
find_pin(const SlWhere *where, Query *query, SlPin *pin)
{
	List	   *constants;
	ListCell   *cell;

	if (!sl_ship_statements)
		return false;
	if (sl_pin_find(query, pin))
		return sl_pin_query(pin, NULL, query);
	pin->table = first_table(where);
	if (pin->table == NULL || pin->table->key_count != 1)
		return false;
	constants = sl_pin_constants(query, pin->table);
	foreach(cell, constants)
	{
		pin->known[0] = list_make1(lfirst(cell));
		if (sl_pin_query(pin, NULL, query))
			return true;
	}
	return false;
}

/* Where is what the statement needs? */
SlWhere *
sl_where_find(Query *query)
{
	SlWhere    *where = begin_where(query);
	SlTable    *table = NULL;
	SlPin		pin = {0};
	SlDivided	result = {0};

	if (first_table(where) == NULL)
		return where;
	if (find_pin(where, query, &pin))
		set_one(where, &pin);
	else if (sl_divide_statement(query, &table, &result))
		set_shards(where, query, table, &result);
	return where;
}

/* Where is what FROM and WHERE make, whatever is made of that? */
SlWhere *
sl_where_find_from(Query *query)
{
	SlWhere    *where = begin_where(query);
	SlTable    *table = NULL;
	SlDivided	result = {0};

	if (first_table(where) != NULL && sl_divide_from(query, &table, &result))
		set_shards(where, query, table, &result);
	return where;
}
