/*
 * aggregate_rewrite.c
 *		Rewrites aggregates whose states cannot be sent in terms of others
 *		whose states can.
 *
 * The state of sum(numeric) is "internal", and a shard without the extension
 * cannot return it; but it can return the sum, and sums can be added.  So the
 * router uses an aggregate that adds (plain_sum), and divides by the count for
 * an average, as PostgreSQL's own final function does.  The digits are the
 * same.
 *
 * The state of avg(interval) differs between 16 and 17.  It is rewritten for
 * all shards, so that these may be of any version.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"

#include "deparse/partial_aggregate.h"

PG_FUNCTION_INFO_V1(shardlet_plain_sum_int8);
PG_FUNCTION_INFO_V1(shardlet_plain_sum_numeric);
PG_FUNCTION_INFO_V1(shardlet_plain_sum_interval);
PG_FUNCTION_INFO_V1(shardlet_count_keys);

/* bigint = bigint; the server has no name for it. */
#define INT8_EQUAL_OPERATOR 410

/* An aggregate as a sum, or as a sum and a division. */
typedef struct Plain
{
	Oid			function;
	bool		is_always;		/* also for shards with the extension */
	Oid			sum;			/* built in; invalid: plain_sum() */
	Oid			argument;
	Oid			sum_type;
	Oid			division;		/* invalid: it is a sum */
	Oid			count_cast;		/* from bigint, for the division */
	Oid			count_type;
} Plain;

static const Plain plains[] = {
	{F_SUM_INT8, false, InvalidOid, INT8OID, NUMERICOID, InvalidOid, InvalidOid, InvalidOid},
	{F_SUM_NUMERIC, false, InvalidOid, NUMERICOID, NUMERICOID, InvalidOid, InvalidOid, InvalidOid},
	{F_SUM_INTERVAL, true, InvalidOid, INTERVALOID, INTERVALOID, InvalidOid, InvalidOid, InvalidOid},
	{F_AVG_INT8, false, InvalidOid, INT8OID, NUMERICOID, F_NUMERIC_DIV, F_NUMERIC_INT8, NUMERICOID},
	{F_AVG_NUMERIC, false, InvalidOid, NUMERICOID, NUMERICOID, F_NUMERIC_DIV, F_NUMERIC_INT8, NUMERICOID},
	{F_AVG_INTERVAL, true, InvalidOid, INTERVALOID, INTERVALOID, F_INTERVAL_DIV, F_FLOAT8_INT8, FLOAT8OID},
	{F_AVG_FLOAT8, false, F_SUM_FLOAT8, FLOAT8OID, FLOAT8OID, F_FLOAT8DIV, F_FLOAT8_INT8, FLOAT8OID},
	{F_AVG_FLOAT4, false, F_SUM_FLOAT8, FLOAT8OID, FLOAT8OID, F_FLOAT8DIV, F_FLOAT8_INT8, FLOAT8OID},
};

static const Plain *
find_plain(const Aggref *aggregate, bool is_bare)
{
	if (aggregate->agglevelsup > 0 || aggregate->aggdistinct != NIL || aggregate->aggorder != NIL)
		return NULL;
	for (int i = 0; i < (int) lengthof(plains); i++)
	{
		if (plains[i].function == aggregate->aggfnoid)
			return is_bare || plains[i].is_always ? &plains[i] : NULL;
	}
	return NULL;
}

static Aggref *
make_sum(const Plain *plain, const Aggref *aggregate)
{
	Oid			function = OidIsValid(plain->sum) ? plain->sum :
	sl_aggregate_find_own("plain_sum", 1, &plain->argument);
	Aggref	   *sum = sl_aggregate_make_call(function, plain->sum_type, aggregate);
	TargetEntry *argument = linitial_node(TargetEntry, sum->args);

	/*
	 * Floats are added in the type that they are averaged in, with all
	 * digits.
	 */
	if (aggregate->aggfnoid == F_AVG_FLOAT4)
	{
		argument->expr = (Expr *) makeFuncExpr(F_FLOAT8_FLOAT4, FLOAT8OID, list_make1(argument->expr),
											   InvalidOid, InvalidOid, COERCE_IMPLICIT_CAST);
		sum->aggargtypes = list_make1_oid(FLOAT8OID);
	}
	return sum;
}

/* Makes the count a divisor, NULL if it is zero. */
static Expr *
make_divisor(const Plain *plain, const Aggref *aggregate)
{
	NullIfExpr *count = makeNode(NullIfExpr);

	count->opno = INT8_EQUAL_OPERATOR;
	count->opfuncid = F_INT8EQ;
	count->opresulttype = INT8OID;
	count->args = list_make2(sl_aggregate_make_call(F_COUNT_ANY, INT8OID, aggregate),
							 makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(0), false,
									   FLOAT8PASSBYVAL));
	count->location = -1;
	return (Expr *) makeFuncExpr(plain->count_cast, plain->count_type, list_make1(count), InvalidOid,
								 InvalidOid, COERCE_EXPLICIT_CAST);
}

static Node *
make_plain(Node *node, void *is_bare)
{
	const Plain *plain;
	List	   *args;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Aggref))
		return expression_tree_mutator(node, make_plain, is_bare);
	plain = find_plain((Aggref *) node, *(bool *) is_bare);
	if (plain == NULL)
		return copyObject(node);
	if (!OidIsValid(plain->division))
		return (Node *) make_sum(plain, (Aggref *) node);
	args = list_make2(make_sum(plain, (Aggref *) node), make_divisor(plain, (Aggref *) node));
	return (Node *) makeFuncExpr(plain->division, plain->sum_type, args,
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
}

/*
 * Returns the expression with aggregates replaced by ones whose states these
 * shards can return, as far as there are such.
 */
Node *
sl_aggregate_rewrite_plain(Node *expression, bool is_bare)
{
	return make_plain(expression, &is_bare);
}

/* Makes the aggregate that adds the counts of count(DISTINCT key). */
Aggref *
sl_aggregate_make_count_keys(const Aggref *aggregate)
{
	Oid			any = ANYOID;
	Aggref	   *result = sl_aggregate_make_call(sl_aggregate_find_own("count_keys", 1, &any), INT8OID, aggregate);

	result->aggdistinct = NIL;
	linitial_node(TargetEntry, result->args)->ressortgroupref = 0;
	return result;
}

/* Transition functions -------------------------------------------------------------------- */

/*
 * They do what the built-in ones do, under another OID: otherwise PostgreSQL's
 * planner could let these aggregates share a state with a built-in aggregate
 * of the same argument, for which shards send other states.  count(key) and
 * count(DISTINCT key) were such a pair.
 */

Datum
shardlet_plain_sum_int8(PG_FUNCTION_ARGS)
{
	return int8_sum(fcinfo);
}

Datum
shardlet_plain_sum_numeric(PG_FUNCTION_ARGS)
{
	return numeric_add(fcinfo);
}

Datum
shardlet_plain_sum_interval(PG_FUNCTION_ARGS)
{
	return interval_pl(fcinfo);
}

Datum
shardlet_count_keys(PG_FUNCTION_ARGS)
{
	return int8inc(fcinfo);
}
