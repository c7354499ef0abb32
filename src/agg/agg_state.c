/*
 * agg_state.c
 *		How a shard computes the state of an aggregate.
 *
 * PostgreSQL can combine states of an aggregate that has a combine function, and
 * make the result of them.  What it has no syntax for is to ask for a state.
 * Three ways remain:
 *
 * - An aggregate without a final function is its own state: count, min, sum(int).
 * - Some states can be written with other aggregates: that of avg(int) is an
 *   array of count and sum.
 * - For the rest there are aggregates of ours, on the shards that have the
 *   extension, with the same transition function and the state as their result.
 *   A state that is "internal" is written by PostgreSQL's own function for that,
 *   in a form that has been the same since 15 for all of those below.  One of them
 *   takes the name of any aggregate, and is a little slower (agg_any.c).
 *
 * Who finds none of these reads the rows instead.
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

#include "agg/agg.h"

#define SCHEMA_NAME "shardlet"
#define MAX_ARGS 2

/* The aggregates of ours, by the functions that they share. */
typedef struct Twin
{
	Oid			transition;
	Oid			serialize;		/* invalid: the state is a value */
	const char *name;
	int			arg_count;
	Oid			arg_types[MAX_ARGS];
} Twin;

static const Twin twins[] = {
	{F_INT8_AVG_ACCUM, F_INT8_AVG_SERIALIZE, "avg_state", 1, {INT8OID}},
	{F_NUMERIC_AVG_ACCUM, F_NUMERIC_AVG_SERIALIZE, "avg_state", 1, {NUMERICOID}},
	{F_INT2_ACCUM, F_NUMERIC_POLY_SERIALIZE, "var_state", 1, {INT2OID}},
	{F_INT4_ACCUM, F_NUMERIC_POLY_SERIALIZE, "var_state", 1, {INT4OID}},
	{F_INT8_ACCUM, F_NUMERIC_SERIALIZE, "var_state", 1, {INT8OID}},
	{F_NUMERIC_ACCUM, F_NUMERIC_SERIALIZE, "var_state", 1, {NUMERICOID}},
	{F_FLOAT4_ACCUM, InvalidOid, "var_state", 1, {FLOAT4OID}},
	{F_FLOAT8_ACCUM, InvalidOid, "var_state", 1, {FLOAT8OID}},
	{F_FLOAT8_REGR_ACCUM, InvalidOid, "regr_state", 2, {FLOAT8OID, FLOAT8OID}},
};

/* One of our own aggregates, invalid if it is not there. */
Oid
sl_agg_own(const char *name, int arg_count, const Oid *arg_types)
{
	/* cppcheck-suppress unknownEvaluationOrder */
	List	   *names = list_make2(makeString(SCHEMA_NAME), makeString(pstrdup(name)));

	return LookupFuncName(names, arg_count, arg_types, true);
}

bool
sl_agg_is_own(Oid function, const char *name)
{
	char	   *found;

	if (function < FirstNormalObjectId ||
		get_func_namespace(function) != get_namespace_oid(SCHEMA_NAME, true))
		return false;
	found = get_func_name(function);
	return found != NULL && strcmp(found, name) == 0;
}

/* Another aggregate over the same arguments and rows. */
Aggref *
sl_agg_make(Oid function, Oid type, const Aggref *like)
{
	Aggref	   *result = copyObject((Aggref *) like);

	result->aggfnoid = function;
	result->aggtype = type;
	result->aggcollid = get_typcollation(type);
	result->aggtranstype = InvalidOid;
	return result;
}

/* Lets it see each value of its argument once. */
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

/* What shards know instead of an aggregate that only the router has. */
Aggref *
sl_agg_origin(const Aggref *aggregate)
{
	Aggref	   *result;
	Oid			argument = InvalidOid;

	if (aggregate->aggfnoid < FirstNormalObjectId)
		return copyObject((Aggref *) aggregate);
	if (aggregate->args != NIL)
		argument = exprType((Node *) ((TargetEntry *) linitial(aggregate->args))->expr);
	if (sl_agg_is_own(aggregate->aggfnoid, "plain_sum"))
		return sl_agg_make(argument == INT8OID ? F_SUM_INT8 : argument == NUMERICOID ?
						   F_SUM_NUMERIC : F_SUM_INTERVAL, aggregate->aggtype, aggregate);
	if (!sl_agg_is_own(aggregate->aggfnoid, "count_keys"))
		return copyObject((Aggref *) aggregate);
	result = sl_agg_make(F_COUNT_ANY, INT8OID, aggregate);
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
	/* cppcheck-suppress unknownEvaluationOrder */
	total->args = list_make2(sl_agg_make(sum, INT8OID, average),
							 makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(0), false,
									   FLOAT8PASSBYVAL));
	total->location = -1;
	array->array_typeid = INT8ARRAYOID;
	array->element_typeid = INT8OID;
	/* cppcheck-suppress unknownEvaluationOrder */
	array->elements = list_make2(sl_agg_make(F_COUNT_ANY, INT8OID, average), total);
	array->location = -1;
	return (Expr *) array;
}

static Expr *
make_twin(const Aggref *aggregate, const FormData_pg_aggregate *form)
{
	for (int i = 0; i < (int) lengthof(twins); i++)
	{
		Oid			function;

		if (twins[i].transition != form->aggtransfn || twins[i].serialize != form->aggserialfn)
			continue;
		function = sl_agg_own(twins[i].name, twins[i].arg_count, twins[i].arg_types);
		if (OidIsValid(function))
			return (Expr *) sl_agg_make(function, form->aggtranstype == INTERNALOID ? BYTEAOID :
										form->aggtranstype, aggregate);
	}
	return NULL;
}

/*
 * Types of the user's may have other OIDs on shards, and these may be in a state
 * that is written without knowing the types.
 */
static bool
has_safe_types(const Aggref *aggregate)
{
	ListCell   *cell;

	foreach(cell, aggregate->aggargtypes)
	{
		if (lfirst_oid(cell) >= FirstGenbkiObjectId)
			return false;
	}
	return true;
}

/* state_of(NULL::type, 'aggregate', arguments ...) */
static Expr *
make_any(const Aggref *aggregate, const FormData_pg_aggregate *form)
{
	bool		is_internal = form->aggtranstype == INTERNALOID;
	Oid			type = is_internal ? BYTEAOID : aggregate->aggtranstype;
	Oid			declared[] = {ANYELEMENTOID, REGPROCEDUREOID, ANYOID};
	Oid			function = sl_agg_own("state_of", 3, declared);
	Aggref	   *result;
	ListCell   *cell;

	/* A NULL of a type with a collation would have a say in that of the call. */
	if (!OidIsValid(function) || !OidIsValid(type) || type_is_collatable(type) ||
		aggregate->args == NIL || aggregate->aggvariadic ||
		(is_internal && (!OidIsValid(form->aggserialfn) || !has_safe_types(aggregate))))
		return NULL;
	result = sl_agg_make(function, type, aggregate);
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
 * Returns by what a shard computes the aggregate's state, NULL if it cannot.
 * "shipped" is what sl_agg_origin() made of the aggregate, as shards can run it;
 * for an aggregate that only the router has, that is the state.
 */
Expr *
sl_agg_state(const Aggref *aggregate, Aggref *shipped, bool is_bare)
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
	result = make_twin(shipped, &form);
	return result != NULL ? result : make_any(shipped, &form);
}
