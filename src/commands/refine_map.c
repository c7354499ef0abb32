/*
 * refine_map.c
 *		refine_map: a map by a remainder gets more, smaller shardlets.
 *
 * "$1 % 3" becomes "$1 % 12", and each shardlet becomes four: for the value 1 those of 1,
 * 4, 7 and 10, since these are the remainders by 12 whose remainder by 3 is 1.  All of
 * them are on the shard of the old one, so no row moves; from then on each can.
 *
 * A remainder has the sign of the dividend: the value 0 is that of multiples of 3, and
 * by 12 these are also -3, -6 and -9.  A rule that adds the divisor, and takes the
 * remainder again, has no negative values.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "metadata/map.h"

PG_FUNCTION_INFO_V1(shardlet_refine_map);

/* The divisor stands in the rule once, or in "((x % n) + n) % n" three times. */
#define MAX_PLACES 3

typedef struct Rule
{
	const char *source;
	int			divisor;
	bool		is_signed;		/* values may be negative */
	int			places[MAX_PLACES]; /* where the divisor is in the source */
	int			place_count;
} Rule;

/* Finding the divisor ------------------------------------------------------------------- */

static bool
is_operator(const Node *node, const char *name)
{
	const A_Expr *expression = (const A_Expr *) node;

	return node != NULL && IsA(node, A_Expr) && expression->kind == AEXPR_OP &&
		strcmp(strVal(llast(expression->name)), name) == 0;
}

static bool
has_remainder(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (is_operator(node, "%") ||
		(IsA(node, FuncCall) && strcmp(strVal(llast(((FuncCall *) node)->funcname)), "mod") == 0))
		return true;
	return raw_expression_tree_walker(node, has_remainder, context);
}

/* Notes a place of the divisor.  Returns false if the node is not that number. */
static bool
take_divisor(Rule *rule, const Node *node)
{
	const A_Const *constant = (const A_Const *) node;

	if (node == NULL || !IsA(node, A_Const) || constant->isnull || nodeTag(&constant->val) != T_Integer ||
		constant->location < 0 || rule->place_count == MAX_PLACES)
		return false;
	if (rule->place_count == 0)
		rule->divisor = constant->val.ival.ival;
	else if (constant->val.ival.ival != rule->divisor)
		return false;
	rule->places[rule->place_count++] = constant->location;
	return rule->divisor > 0;
}

static bool
parse_rule(Rule *rule, Node *node)
{
	A_Expr	   *outer = (A_Expr *) node;
	A_Expr	   *sum;
	A_Expr	   *inner;

	if (!is_operator(node, "%") || !take_divisor(rule, outer->rexpr))
		return false;
	rule->is_signed = true;
	if (!has_remainder(outer->lexpr, NULL))
		return true;
	sum = (A_Expr *) outer->lexpr;
	if (!is_operator((Node *) sum, "+") || !is_operator(sum->lexpr, "%"))
		return false;
	inner = (A_Expr *) sum->lexpr;
	rule->is_signed = false;
	return take_divisor(rule, sum->rexpr) && take_divisor(rule, inner->rexpr) && !has_remainder(inner->lexpr, NULL);
}

static int
compare_places(const void *a, const void *b)
{
	return *(const int *) a - *(const int *) b;
}

/* The rule with another divisor. */
static char *
replace_divisor(Rule *rule, int divisor)
{
	StringInfoData result;
	int			done = 0;

	qsort(rule->places, rule->place_count, sizeof(int), compare_places);
	initStringInfo(&result);
	for (int i = 0; i < rule->place_count; i++)
	{
		appendBinaryStringInfo(&result, rule->source + done, rule->places[i] - done);
		appendStringInfo(&result, "%d", divisor);
		done = rule->places[i] + (int) strspn(rule->source + rule->places[i], "0123456789_");
	}
	appendStringInfoString(&result, rule->source + done);
	return result.data;
}

static Rule
read_rule(const SlMap *map)
{
	Rule		rule = {.source = map->via_text};
	const char *reason = NULL;
	Node	   *expression = map->via_text != NULL ? sl_expression_parse(map->via_text, &reason) : NULL;
	Oid			type = map->via != NULL ? map->via->type : InvalidOid;

	if (map->kind != SL_KIND_LIST || expression == NULL || !parse_rule(&rule, expression) ||
		(type != INT2OID && type != INT4OID && type != INT8OID))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("map \"%s\" cannot be refined", NameStr(map->name)),
				map->via_text != NULL ? errdetail("It is a %s map via %s.", sl_kind_name(map->kind), map->via_text) :
				errdetail("It is a %s map without \"via\".", sl_kind_name(map->kind)),
				errhint("A list map via a remainder of integers can be: \"$1 %% 3\", or \"(($1 %% 3) + 3) %% 3\". shardlet.split_shardlet() splits a shardlet of a hash or range map."));
	return rule;
}

/* Shardlets ------------------------------------------------------------------------------- */

typedef struct Entries
{
	List	   *rows;			/* of SlShardletRow */
} Entries;

static bool
collect_row(const SlShardletRow *row, void *context)
{
	SlShardletRow *copy = palloc(sizeof(SlShardletRow));

	*copy = *row;
	((Entries *) context)->rows = lappend(((Entries *) context)->rows, copy);
	return true;
}

static int64
get_integer(Oid type, Datum value)
{
	return type == INT2OID ? DatumGetInt16(value) : type == INT4OID ? DatumGetInt32(value) : DatumGetInt64(value);
}

static Datum
make_integer(Oid type, int64 value)
{
	return type == INT2OID ? Int16GetDatum((int16) value) : type == INT4OID ? Int32GetDatum((int32) value) :
		Int64GetDatum(value);
}

/* A shardlet like another one, for one more value. */
static SlShardletRow
make_entry(SlMap *map, const SlShardletRow *like, int64 value)
{
	SlShardletRow row = sl_shardlet_copy(like, sl_map_next_version(map));
	Datum		datum = make_integer(map->value_types[0].type, value);

	row.low_token = sl_key_token(map->value_types, 1, &datum);
	row.low = sl_map_values_to_text(map, &datum);
	return row;
}

/* Adds the shardlets that an entry becomes, besides itself.  Returns how many. */
static int
refine_entry(SlMap *map, const Rule *rule, const SlShardletRow *entry, int factor, SlShardletRow *rows)
{
	int			count = 0;
	Datum		datum;
	int64		value;

	sl_map_text_to_values(map, entry->low, &datum);
	value = get_integer(map->value_types[0].type, datum);
	if (value >= rule->divisor || value <= -(int64) rule->divisor || (value < 0 && !rule->is_signed))
		ereport(ERROR,
				errcode(SL_ERR_INVALID),
				errmsg("map \"%s\" cannot be refined", NameStr(map->name)),
				errdetail("Shardlet %lld is for the value %lld, which no key has.", (long long) entry->id, (long long) value),
				errhint("Remove it with shardlet.unassign()."));
	for (int i = 1; i < factor; i++)
	{
		int64		step = (int64) rule->divisor * i;

		if (value >= 0)
			rows[count++] = make_entry(map, entry, value + step);
		if (value < 0 || (value == 0 && rule->is_signed))
			rows[count++] = make_entry(map, entry, value - step);
	}
	return count;
}

static int
get_factor(FunctionCallInfo fcinfo, const Rule *rule)
{
	int64		factor;

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("factor must not be NULL"));
	factor = PG_GETARG_INT32(1);
	if (factor < 2 || factor * rule->divisor > SL_MAX_SHARDLETS)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("factor must be between 2 and %d", SL_MAX_SHARDLETS / rule->divisor),
				errdetail("The divisor is %d, and %d at most.", rule->divisor, SL_MAX_SHARDLETS));
	return (int) factor;
}

/* refine_map(map, factor) → number of shardlets */
Datum
shardlet_refine_map(PG_FUNCTION_ARGS)
{
	Entries		entries = {NIL};
	ListCell   *cell;
	SlMap	   *map;
	Rule		rule;
	int			factor;
	int			nest_level;
	SlShardletRow *rows;
	int			count = 0;
	Oid			type;
	char	   *via;

	sl_check_writable("shardlet.refine_map()");
	map = sl_map_open_at_rest(sl_map_arg_name(fcinfo, 0, "map"));
	rule = read_rule(map);
	factor = get_factor(fcinfo, &rule);
	via = sl_via_check(replace_divisor(&rule, rule.divisor * factor), map->key_oids, map->key_count, &type);
	if (type != map->via->type)
		elog(ERROR, "rule %s has another type than %s", via, rule.source);
	sl_shardlet_row_scan(map->id, NULL, collect_row, &entries);
	rows = palloc_extended(sizeof(SlShardletRow) * Max(list_length(entries.rows), 1) * 2 * factor, MCXT_ALLOC_HUGE);
	nest_level = sl_map_begin_plain_output();
	foreach(cell, entries.rows)
	{
		SlShardletRow *entry = lfirst(cell);

		if (!entry->is_default)
			count += refine_entry(map, &rule, entry, factor, &rows[count]);
	}
	sl_map_end_plain_output(nest_level);
	sl_map_row_set_via(map->id, via);
	foreach(cell, entries.rows)
	{
		SlShardletRow *entry = lfirst(cell);

		/* Every shard that has some of the map learns the rule. */
		entry->version = sl_map_next_version(map);
		sl_shardlet_row_update(entry);
	}
	sl_shardlet_row_insert(rows, count);
	sl_map_finish_change(map);
	PG_RETURN_INT64(list_length(entries.rows) + count);
}
