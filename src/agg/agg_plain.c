/*
 * agg_plain.c
 *		Aggregates whose states cannot travel, written with others whose can.
 *
 * The state of sum(numeric) is "internal", and a shard without the extension has
 * no way to tell it; but it can tell the sum, and sums can be added.  So the
 * router uses an aggregate of ours that adds (plain_sum), and for an average
 * divides it by the count, which is what PostgreSQL does at the end of its own.
 * The digits are the same.
 *
 * The state of avg(interval) is another one from 17 on.  It is written like that
 * for all shards, so that these may be of any version.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"

#include "agg/agg.h"

/* bigint = bigint; the server has no name for it. */
#define INT8_EQUAL_OPERATOR 410

/* An aggregate as a sum, or as a sum and a division. */
typedef struct Plain
{
	Oid			function;
	bool		is_always;		/* not only for shards without the extension */
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
	sl_agg_own("plain_sum", 1, &plain->argument);
	Aggref	   *sum = sl_agg_make(function, plain->sum_type, aggregate);
	TargetEntry *argument = linitial_node(TargetEntry, sum->args);

	/* Reals are added as they are averaged, with all digits. */
	if (aggregate->aggfnoid == F_AVG_FLOAT4)
	{
		argument->expr = (Expr *) makeFuncExpr(F_FLOAT8_FLOAT4, FLOAT8OID, list_make1(argument->expr),
											   InvalidOid, InvalidOid, COERCE_IMPLICIT_CAST);
		sum->aggargtypes = list_make1_oid(FLOAT8OID);
	}
	return sum;
}

/* The count as a divisor, NULL if it is zero. */
static Expr *
make_divisor(const Plain *plain, const Aggref *aggregate)
{
	NullIfExpr *count = makeNode(NullIfExpr);

	count->opno = INT8_EQUAL_OPERATOR;
	count->opfuncid = F_INT8EQ;
	count->opresulttype = INT8OID;
	/* cppcheck-suppress unknownEvaluationOrder */
	count->args = list_make2(sl_agg_make(F_COUNT_ANY, INT8OID, aggregate),
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
	/* cppcheck-suppress unknownEvaluationOrder */
	args = list_make2(make_sum(plain, (Aggref *) node), make_divisor(plain, (Aggref *) node));
	return (Node *) makeFuncExpr(plain->division, plain->sum_type, args,
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
}

/*
 * Returns the expression with aggregates whose states these shards can tell, as far
 * as there are such.
 */
Node *
sl_agg_plain(Node *expression, bool is_bare)
{
	return make_plain(expression, &is_bare);
}

/* count(DISTINCT key), for what shards have counted. */
Aggref *
sl_agg_count_keys(const Aggref *aggregate)
{
	Oid			any = ANYOID;
	Aggref	   *result = sl_agg_make(sl_agg_own("count_keys", 1, &any), INT8OID, aggregate);

	result->aggdistinct = NIL;
	linitial_node(TargetEntry, result->args)->ressortgroupref = 0;
	return result;
}
