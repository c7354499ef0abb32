/*
 * partial_aggregate.c
 *		How a shard computes the transition state of an aggregate.
 *
 * PostgreSQL can combine states of an aggregate that has a combine function,
 * and finalize them, but it has no syntax that returns a state.  There are
 * three ways:
 *
 * - An aggregate without a final function is its own state: count, min,
 *   sum(int).
 * - Some states can be written with other aggregates: that of avg(int) is an
 *   array of count and sum.
 * - For the rest there are helper aggregates, on the shards that have the
 *   extension, with the same transition function and the state as their
 *   result.  A state that is "internal" is serialized by PostgreSQL's own
 *   function, in a format that has been the same since 15 for all of those
 *   below; the router checks it (aggregate_state_check.c).  One of them takes
 *   the name of any aggregate whose state is a value, and is a little slower
 *   (aggregate_state.c).
 *
 * Otherwise the rows are read instead.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_func.h"
#include "parser/parse_oper.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "deparse/partial_aggregate.h"

#define MAX_ARGS 2

/*
 * The helper aggregates, by the functions that they share.  For an internal
 * state all three must match: a user-defined aggregate may deserialize in its
 * own way.
 */
typedef struct Duplicate
{
	Oid			transition;
	Oid			serialize;		/* invalid: the state is a value */
	Oid			deserialize;
	const char *name;
	int			arg_count;
	Oid			arg_types[MAX_ARGS];
} Duplicate;

static const Duplicate duplicates[] = {
	{F_INT8_AVG_ACCUM, F_INT8_AVG_SERIALIZE, F_INT8_AVG_DESERIALIZE, "avg_state", 1, {INT8OID}},
	{F_NUMERIC_AVG_ACCUM, F_NUMERIC_AVG_SERIALIZE, F_NUMERIC_AVG_DESERIALIZE, "avg_state", 1, {NUMERICOID}},
	{F_INT2_ACCUM, F_NUMERIC_POLY_SERIALIZE, F_NUMERIC_POLY_DESERIALIZE, "var_state", 1, {INT2OID}},
	{F_INT4_ACCUM, F_NUMERIC_POLY_SERIALIZE, F_NUMERIC_POLY_DESERIALIZE, "var_state", 1, {INT4OID}},
	{F_INT8_ACCUM, F_NUMERIC_SERIALIZE, F_NUMERIC_DESERIALIZE, "var_state", 1, {INT8OID}},
	{F_NUMERIC_ACCUM, F_NUMERIC_SERIALIZE, F_NUMERIC_DESERIALIZE, "var_state", 1, {NUMERICOID}},
	{F_FLOAT4_ACCUM, InvalidOid, InvalidOid, "var_state", 1, {FLOAT4OID}},
	{F_FLOAT8_ACCUM, InvalidOid, InvalidOid, "var_state", 1, {FLOAT8OID}},
	{F_FLOAT8_REGR_ACCUM, InvalidOid, InvalidOid, "regr_state", 2, {FLOAT8OID, FLOAT8OID}},
};

/* Returns a helper aggregate, or InvalidOid. */
Oid
sl_aggregate_find_own(const char *name, int arg_count, const Oid *arg_types)
{
	return sl_catalog_function(SL_INTERNAL_SCHEMA, name, arg_count, arg_types);
}

static bool
is_own_aggregate(Oid function, const char *name)
{
	char	   *found;

	if (function < FirstNormalObjectId ||
		get_func_namespace(function) != get_namespace_oid(SL_INTERNAL_SCHEMA, true))
		return false;
	found = get_func_name(function);
	return found != NULL && strcmp(found, name) == 0;
}

/* Makes another aggregate over the same arguments and rows. */
Aggref *
sl_aggregate_make_call(Oid function, Oid type, const Aggref *like)
{
	Aggref	   *result = copyObject((Aggref *) like);

	result->aggfnoid = function;
	result->aggtype = type;
	result->aggcollid = get_typcollation(type);
	result->aggtranstype = InvalidOid;
	return result;
}

/* Adds DISTINCT to its argument. */
static void
make_distinct(Aggref *aggregate)
{
	TargetEntry *argument = linitial_node(TargetEntry, aggregate->args);
	SortGroupClause *clause = makeNode(SortGroupClause);

	get_sort_group_operators(exprType((Node *) argument->expr), true, true, false, &clause->sortop,
							 &clause->eqop, NULL, &clause->hashable);
	clause->tleSortGroupRef = argument->ressortgroupref = 1;
	aggregate->aggdistinct = list_make1(clause);
}

/* Returns the shards' counterpart of an aggregate that only the router has. */
Aggref *
sl_aggregate_find_origin(const Aggref *aggregate)
{
	Aggref	   *result;
	Oid			argument = InvalidOid;

	if (aggregate->aggfnoid < FirstNormalObjectId)
		return copyObject((Aggref *) aggregate);
	if (aggregate->args != NIL)
		argument = exprType((Node *) ((TargetEntry *) linitial(aggregate->args))->expr);
	if (is_own_aggregate(aggregate->aggfnoid, "plain_sum"))
		return sl_aggregate_make_call(argument == INT8OID ? F_SUM_INT8 : argument == NUMERICOID ?
									  F_SUM_NUMERIC : F_SUM_INTERVAL, aggregate->aggtype, aggregate);
	if (!is_own_aggregate(aggregate->aggfnoid, "count_keys"))
		return copyObject((Aggref *) aggregate);
	result = sl_aggregate_make_call(F_COUNT_ANY, INT8OID, aggregate);
	make_distinct(result);
	return result;
}

/* ARRAY[count(x), COALESCE(sum(x), 0)] */
static Expr *
make_count_and_sum(const Aggref *average, Oid sum)
{
	CoalesceExpr *total = makeNode(CoalesceExpr);
	ArrayExpr  *array = makeNode(ArrayExpr);

	total->coalescetype = INT8OID;
	total->args = list_make2(sl_aggregate_make_call(sum, INT8OID, average),
							 makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(0), false,
									   FLOAT8PASSBYVAL));
	total->location = -1;
	array->array_typeid = INT8ARRAYOID;
	array->element_typeid = INT8OID;
	array->elements = list_make2(sl_aggregate_make_call(F_COUNT_ANY, INT8OID, average), total);
	array->location = -1;
	return (Expr *) array;
}

static Expr *
make_helper_call(const Aggref *aggregate, const FormData_pg_aggregate *form)
{
	for (int i = 0; i < (int) lengthof(duplicates); i++)
	{
		Oid			function;

		if (duplicates[i].transition != form->aggtransfn || duplicates[i].serialize != form->aggserialfn ||
			duplicates[i].deserialize != form->aggdeserialfn)
			continue;
		Assert(!OidIsValid(duplicates[i].deserialize) || sl_aggregate_find_format(duplicates[i].deserialize) != NULL);
		function = sl_aggregate_find_own(duplicates[i].name, duplicates[i].arg_count, duplicates[i].arg_types);
		if (OidIsValid(function))
			return (Expr *) sl_aggregate_make_call(function, form->aggtranstype == INTERNALOID ? BYTEAOID :
												   form->aggtranstype, aggregate);
	}
	return NULL;
}

/* state_of(NULL::type, 'aggregate', arguments ...) */
static Expr *
make_any(const Aggref *aggregate, const FormData_pg_aggregate *form)
{
	Oid			type = aggregate->aggtranstype;
	Oid			declared[] = {ANYELEMENTOID, REGPROCEDUREOID, ANYOID};
	Oid			function = sl_aggregate_find_own("state_of", 3, declared);
	Aggref	   *result;
	ListCell   *cell;

	/*
	 * A NULL of a collatable type would take part in the collation of the
	 * call.
	 */
	if (form->aggtranstype == INTERNALOID || !OidIsValid(function) || !OidIsValid(type) ||
		type_is_collatable(type) || aggregate->args == NIL || aggregate->aggvariadic)
		return NULL;
	result = sl_aggregate_make_call(function, type, aggregate);
	result->args = lcons(makeTargetEntry((Expr *) makeConst(REGPROCEDUREOID, -1, InvalidOid, sizeof(Oid),
															ObjectIdGetDatum(aggregate->aggfnoid), false,
															true), 2, NULL, false), result->args);
	result->args = lcons(makeTargetEntry((Expr *) makeNullConst(type, -1, InvalidOid), 1, NULL, false),
						 result->args);
	foreach(cell, result->args)
		lfirst_node(TargetEntry, cell)->resno = (AttrNumber) (foreach_current_index(cell) + 1);
	result->aggargtypes = lcons_oid(type, lcons_oid(REGPROCEDUREOID, result->aggargtypes));
	return (Expr *) result;
}

/*
 * Returns the expression by which a shard computes the aggregate's state, or
 * NULL.  "shipped" is the shippable form of what sl_aggregate_find_origin() returned; for
 * an aggregate that only the router has, that is the state.
 */
Expr *
sl_aggregate_make_state(const Aggref *aggregate, Aggref *shipped, bool is_bare)
{
	HeapTuple	tuple;
	FormData_pg_aggregate form;
	Expr	   *result;

	if (aggregate->aggfnoid != shipped->aggfnoid)
		return (Expr *) shipped;
	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(shipped->aggfnoid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", shipped->aggfnoid);
	memcpy(&form, GETSTRUCT(tuple), sizeof(form));
	ReleaseSysCache(tuple);
	if (shipped->aggkind != AGGKIND_NORMAL || shipped->aggorder != NIL ||
		shipped->aggdistinct != NIL || !OidIsValid(form.aggcombinefn))
		return NULL;
	if (!OidIsValid(form.aggfinalfn) && form.aggtranstype != INTERNALOID)
		return (Expr *) shipped;
	if (form.aggtransfn == F_INT2_AVG_ACCUM)
		return make_count_and_sum(shipped, F_SUM_INT2);
	if (form.aggtransfn == F_INT4_AVG_ACCUM)
		return make_count_and_sum(shipped, F_SUM_INT4);
	if (is_bare)
		return NULL;
	result = make_helper_call(shipped, &form);
	return result != NULL ? result : make_any(shipped, &form);
}
