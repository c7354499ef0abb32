/*
 * shard_pruning_eval.c
 *		Shard pruning at execution: finds the shards for the current values
 *		of conditions.
 *
 * No shard has a row with a key that no shardlet owns, so such a value matches
 * no shard, and is not an error.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#include "connection/connection.h"
#include "deparse/shard_pruning.h"

/* More keys than this are not looked up one by one. */
#define MAX_KEYS_LOOKED_UP 100000

/* A set of shards, by their ids. */
typedef struct ShardSet
{
	bool		is_all;
	Bitmapset  *ids;
} ShardSet;

/* The values that one key column can have. */
typedef struct Candidates
{
	bool		is_known;
	bool		is_one;			/* by an equality */
	int			count;
	Datum	   *values;			/* in the map's key type */
} Candidates;

/* One end of a range. */
typedef struct RangeEnd
{
	bool		is_known;
	bool		is_included;
	Datum		value;
} RangeEnd;

typedef struct Running
{
	SlMap	   *map;
	const Oid  *column_types;
	ExprContext *context;
	List	   *states;
	List	   *expressions;
	bool		writes;			/* the statement writes to the shards */
} Running;

static ShardSet run_node(Running *running, List *node);

static int64
integer_value(Oid type, Datum value)
{
	return type == INT2OID ? DatumGetInt16(value) :
		type == INT4OID ? DatumGetInt32(value) : DatumGetInt64(value);
}

/* Can a value of this type be looked up in place of a value of the column? */
static bool
is_usable(const Running *running, int column, Oid type)
{
	return sl_pruning_is_usable(running->map->key_oids[column], running->column_types[column], type);
}

/* Converts it to a key.  False: no key can have this value. */
static bool
to_key(const Running *running, int column, Oid type, Datum value, Datum *key)
{
	Oid			wanted = running->map->key_oids[column];
	int64		number;

	*key = value;
	if (wanted == type)
		return true;
	type = getBaseType(type);
	if (wanted == type || !sl_pruning_is_integer(wanted))
		return true;
	number = integer_value(type, value);
	if ((wanted == INT2OID && (number < PG_INT16_MIN || number > PG_INT16_MAX)) ||
		(wanted == INT4OID && (number < PG_INT32_MIN || number > PG_INT32_MAX)))
		return false;
	*key = wanted == INT2OID ? Int16GetDatum((int16) number) :
		wanted == INT4OID ? Int32GetDatum((int32) number) : Int64GetDatum(number);
	return true;
}

static Datum
evaluate(const Running *running, List *node, Oid *type, bool *is_null)
{
	int			index = intVal(lthird(node));

	*type = exprType(list_nth(running->expressions, index));
	return ExecEvalExpr(list_nth(running->states, index), running->context, is_null);
}

static void
add_candidate(const Running *running, Candidates *candidates, int column, Oid type, Datum value)
{
	if (to_key(running, column, type, value, &candidates->values[candidates->count]))
		candidates->count++;
}

static void
add_equal(const Running *running, List *node, Candidates *candidates)
{
	int			column = intVal(lsecond(node));
	Oid			type;
	bool		is_null;
	Datum		value = evaluate(running, node, &type, &is_null);

	if (!is_usable(running, column, type))
		return;
	candidates->is_known = candidates->is_one = true;
	candidates->count = 0;
	candidates->values = palloc(sizeof(Datum));
	if (!is_null)
		add_candidate(running, candidates, column, type, value);
}

static void
add_any(const Running *running, List *node, Candidates *candidates)
{
	int			column = intVal(lsecond(node));
	Oid			type;
	bool		is_null;
	Datum		value = evaluate(running, node, &type, &is_null);
	Oid			element = get_base_element_type(type);
	int16		length;
	bool		by_value;
	char		alignment;
	Datum	   *values;
	bool	   *nulls;
	int			count = 0;

	if (!OidIsValid(element) || !is_usable(running, column, element))
		return;
	candidates->is_known = true;
	if (is_null)
		return;
	get_typlenbyvalalign(element, &length, &by_value, &alignment);
	deconstruct_array(DatumGetArrayTypeP(value), element, length, by_value, alignment, &values,
					  &nulls, &count);
	candidates->values = palloc(sizeof(Datum) * Max(count, 1));
	for (int i = 0; i < count; i++)
	{
		if (!nulls[i])
			add_candidate(running, candidates, column, element, values[i]);
	}
}

static ShardSet
no_shards(void)
{
	ShardSet	result = {0};

	return result;
}

static ShardSet
all_shards(void)
{
	ShardSet	result = {.is_all = true};

	return result;
}

static ShardSet
intersect(ShardSet a, ShardSet b)
{
	if (a.is_all)
		return b;
	if (!b.is_all)
		a.ids = bms_int_members(a.ids, b.ids);
	return a;
}

/* Whether an offline shard may be skipped is decided by the caller. */
static void
check_shardlet(const Running *running, const SlShardlet *shardlet)
{
	if (shardlet->state == SL_STATE_OFFLINE || !shardlet->shard->exists)
		sl_map_check_readable(running->map, shardlet);
	if (running->writes)
		sl_map_check_writable(running->map, shardlet);
}

/*
 * Keys of a shardlet that is being moved will be read from its new shard.
 * Connects to it in advance: otherwise all sessions would do so at the moment
 * of the switch.
 */
static void
preconnect_new_owner(const SlMap *map, const SlShardlet *shardlet)
{
	for (int i = 0; i < map->orphaned_count; i++)
	{
		const SlOrphanedRange *orphan = &map->orphaned[i];

		if (map->kind == SL_KIND_HASH && !orphan->is_after_switch &&
			orphan->range.low_token == shardlet->low_token && orphan->shard->exists &&
			orphan->shard->state == SL_STATE_ONLINE)
			sl_pool_preconnect(orphan->shard);
	}
}

static void
add_shardlet(const Running *running, ShardSet *set, const SlShardlet *shardlet)
{
	if (shardlet == NULL)
		return;
	check_shardlet(running, shardlet);
	preconnect_new_owner(running->map, shardlet);
	set->ids = bms_add_member(set->ids, shardlet->shard->id);
}

/* Adds the shards of all keys that the candidates can form. */
static ShardSet
find_keys(const Running *running, const Candidates *candidates)
{
	int			key_count = running->map->key_count;
	int64		combinations = 1;
	ShardSet	result = no_shards();

	for (int i = 0; i < key_count; i++)
	{
		if (!candidates[i].is_known)
			return all_shards();
		combinations *= candidates[i].count;
		if (combinations > MAX_KEYS_LOOKED_UP)
			return all_shards();
	}
	for (int64 number = 0; number < combinations; number++)
	{
		Datum		key[SL_MAX_KEYS];
		int64		rest = number;

		for (int i = 0; i < key_count; i++)
		{
			key[i] = candidates[i].values[rest % candidates[i].count];
			rest /= candidates[i].count;
		}
		add_shardlet(running, &result, sl_map_find(running->map, key));
	}
	return result;
}

/* Ranges ----------------------------------------------------------------------- */

static bool
has_ranges(const Running *running)
{
	return running->map->kind == SL_KIND_RANGE && running->map->via == NULL;
}

/* Narrows one end.  False: the range is empty. */
static bool
add_limit(const Running *running, List *node, RangeEnd *low, RangeEnd *high)
{
	SlPruningOp op = intVal(linitial(node));
	bool		is_high = op == SL_PRUNE_LESS || op == SL_PRUNE_LESS_EQUAL;
	RangeEnd   *limit = is_high ? high : low;
	SlKeyType  *key_type = &running->map->key_types[0];
	Oid			type;
	bool		is_null;
	Datum		value = evaluate(running, node, &type, &is_null);
	Datum		key;
	int			order;

	if (!is_usable(running, 0, type))
		return true;
	if (is_null)
		return false;

	/* A number outside of the key's type limits nothing, or everything. */
	if (!to_key(running, 0, type, value, &key))
		return (integer_value(getBaseType(type), value) > 0) == is_high;
	order = limit->is_known ? sl_key_compare(key_type, key, limit->value) : 0;
	if (limit->is_known && (is_high ? order > 0 : order < 0))
		return true;
	limit->is_included = (op == SL_PRUNE_LESS_EQUAL || op == SL_PRUNE_GREATER_EQUAL) &&
		(!limit->is_known || order != 0 || limit->is_included);
	limit->is_known = true;
	limit->value = key;
	return true;
}

/* Does the shardlet overlap the range? */
static bool
overlaps(const Running *running, int index, const RangeEnd *low, const RangeEnd *high)
{
	const SlBound *first = &running->map->lows[index];
	const SlBound *end = &running->map->highs[index];
	SlKeyType  *key_type = &running->map->key_types[0];

	if (low->is_known && !end->unbounded &&
		sl_key_compare(key_type, end->value, low->value) <= 0)
		return false;
	if (high->is_known && !first->unbounded)
	{
		int			order = sl_key_compare(key_type, first->value, high->value);

		return order < 0 || (order == 0 && high->is_included);
	}
	return true;
}

static ShardSet
find_range(const Running *running, const RangeEnd *low, const RangeEnd *high)
{
	ShardSet	result = no_shards();

	if (!low->is_known && !high->is_known)
		return all_shards();
	for (int i = 0; i < running->map->shardlet_count; i++)
	{
		if (overlaps(running, i, low, high))
			add_shardlet(running, &result, &running->map->shardlets[i]);
	}
	return result;
}

/* Programs ---------------------------------------------------------------------- */

static ShardSet
run_and(Running *running, List *nodes)
{
	Candidates	candidates[SL_MAX_KEYS] = {0};
	RangeEnd	low = {0};
	RangeEnd	high = {0};
	ShardSet	result = all_shards();
	ListCell   *cell;

	foreach(cell, nodes)
	{
		List	   *node = lfirst(cell);
		SlPruningOp op = intVal(linitial(node));

		if (op == SL_PRUNE_EQUAL || op == SL_PRUNE_ANY)
		{
			Candidates *column = &candidates[intVal(lsecond(node))];

			/*
			 * One value is more selective than several, and plans rely on it.
			 */
			if (op == SL_PRUNE_EQUAL && !column->is_one)
				add_equal(running, node, column);
			else if (op == SL_PRUNE_ANY && !column->is_known)
				add_any(running, node, column);
		}
		else if (op < SL_PRUNE_LESS)
			result = intersect(result, run_node(running, node));
		else if (has_ranges(running) && !add_limit(running, node, &low, &high))
			return no_shards();
	}
	result = intersect(result, find_keys(running, candidates));
	return has_ranges(running) ? intersect(result, find_range(running, &low, &high)) : result;
}

static ShardSet
run_or(Running *running, List *nodes)
{
	ShardSet	result = no_shards();
	ListCell   *cell;

	foreach(cell, nodes)
	{
		ShardSet	one = run_node(running, lfirst(cell));

		if (one.is_all)
			return one;
		result.ids = bms_add_members(result.ids, one.ids);
	}
	return result;
}

static ShardSet
run_node(Running *running, List *node)
{
	switch ((SlPruningOp) intVal(linitial(node)))
	{
		case SL_PRUNE_NONE:
			return no_shards();
		case SL_PRUNE_AND:
			return run_and(running, list_copy_tail(node, 1));
		case SL_PRUNE_OR:
			return run_or(running, list_copy_tail(node, 1));
		default:
			return run_and(running, list_make1(node));
	}
}

/* All rows of the map are needed: every shard must be available. */
static void
check_all(const Running *running)
{
	for (int i = 0; i < running->map->shardlet_count; i++)
		check_shardlet(running, &running->map->shardlets[i]);
	if (running->map->kind == SL_KIND_LIST && running->writes)
		sl_orphaned_check_writable(running->map);
}

/*
 * Returns the shards that can have rows that match the program's conditions:
 * SlShards.  The expressions are those that the program was made with.
 */
List *
sl_pruning_shards(const SlTable *table, List *program, ExprContext *context, List *states,
				  List *expressions, bool writes)
{
	Running		running = {
		.context = context,.states = states,.expressions = expressions,.writes = writes
	};
	ShardSet	set;
	List	   *result = NIL;
	ListCell   *cell;

	if (table->kind != SL_TABLE_SHARDED)
		return sl_table_owners(table);
	running.map = sl_map_get(table->map);
	running.column_types = table->key_types;
	set = program != NIL ? run_node(&running, program) : all_shards();
	if (set.is_all)
		check_all(&running);
	else if (bms_membership(set.ids) == BMS_SINGLETON)
		return list_make1(sl_shard_by_id(bms_singleton_member(set.ids)));
	foreach(cell, sl_table_owners(table))
	{
		SlShard    *shard = lfirst(cell);

		if (set.is_all || bms_is_member(shard->id, set.ids))
			result = lappend(result, shard);
	}
	return result;
}

/*
 * Rows with the one key of the program are to be inserted, and no shardlet has
 * it: raises that error.  NULL is left to the shard, which raises its own
 * error.
 */
void
sl_pruning_refuse(const SlTable *table, List *program, ExprContext *context, List *states,
				  List *expressions)
{
	Running		running = {
		.map = sl_map_get(table->map),.context = context,.states = states,.expressions = expressions
	};
	Datum		key[SL_MAX_KEYS] = {0};
	ListCell   *cell;

	for_each_from(cell, program, 1)
	{
		List	   *node = lfirst(cell);
		int			column = intVal(lsecond(node));
		Oid			type;
		bool		is_null;
		Datum		value = evaluate(&running, node, &type, &is_null);

		if (is_null || !to_key(&running, column, type, value, &key[column]))
			return;
	}
	(void) sl_map_lookup(running.map, key);
}
