/*
 * trust.c
 *		What somebody who is not a superuser may have the shards compute.
 *
 * Defaults, CHECK constraints, conversions and the like are computed on a shard by
 * the user that the mapping names, who may be allowed more there than the one who
 * wrote them is here.  So they must not call what reads or changes anything but
 * their arguments with the rights of the one who calls: query_to_xml(),
 * pg_read_file().  A function that is not built in has been made on the shards by
 * somebody who may do that; but a name leads to it there by the user's search
 * path, so the user must not be able to make one here that is not there.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "utils/acl.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "deparse/deparse.h"

/* Volatile functions with arguments that do no harm; a sequence stays here. */
static bool
is_harmless(Oid function)
{
	static const char *const names[] = {"random", "random_normal", "uuidv7"};
	const char *name = get_func_name(function);

	for (int i = 0; name != NULL && i < (int) lengthof(names); i++)
	{
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return function == F_NEXTVAL;
}

/* Is there a function of PostgreSQL that the name might mean on a shard? */
static bool
hides_built_in(Oid function)
{
	char	   *name = get_func_name(function);
	CatCList   *list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
	bool		result = false;

	for (int i = 0; i < list->n_members && !result; i++)
		result = ((Form_pg_proc) GETSTRUCT(&list->members[i]->tuple))->pronamespace == PG_CATALOG_NAMESPACE;
	ReleaseSysCacheList(list);
	return result;
}

/* Functions to xml with a stable result read tables. */
static bool
is_trusted(Oid function)
{
	bool		is_built_in = function < FirstGenbkiObjectId;

	if (!is_built_in && (hides_built_in(function) || sl_function_ownercheck(function, GetUserId())))
		return false;
	if (func_volatile(function) == PROVOLATILE_IMMUTABLE)
		return true;
	if (!is_built_in)
		return !OidIsValid(getExtensionOfObject(ProcedureRelationId, function));
	if (func_volatile(function) == PROVOLATILE_STABLE)
		return get_func_rettype(function) != XMLOID;
	return get_func_nargs(function) == 0 || is_harmless(function);
}

static bool
check_function(Oid function, void *context)
{
	AclResult	result = sl_function_aclcheck(function, GetUserId());

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
	if (!is_trusted(function))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("must be superuser to have shards call function %s()", get_func_name(function)),
				errdetail("It would run there with the rights of the user mapping."));
	return false;
}

static bool
check_node(Node *node, void *context)
{
	if (node == NULL)
		return false;
	(void) check_functions_in_node(node, check_function, context);
	return expression_tree_walker(node, check_node, context);
}

/* Refuses an expression that the user must not have the shards compute. */
void
sl_trust_check(Node *expression)
{
	if (!superuser())
		(void) check_node(expression, NULL);
}

/* The same for the constraints and the default of a domain, or of its array. */
void
sl_trust_check_type(Oid type)
{
	Oid			element = get_element_type(type);
	DomainConstraintRef constraints;
	ListCell   *cell;

	if (OidIsValid(element))
		type = element;
	if (superuser() || get_typtype(type) != TYPTYPE_DOMAIN)
		return;
	InitDomainConstraintRef(type, &constraints, CurrentMemoryContext, false);
	foreach(cell, constraints.constraints)
		sl_trust_check((Node *) ((DomainConstraintState *) lfirst(cell))->check_expr);
	sl_trust_check(get_typdefault(type));
}

/* Returns the stored expressions of a table: Strings, of defaults and CHECKs. */
List *
sl_trust_stored(Oid relid)
{
	Relation	relation = table_open(relid, AccessShareLock);
	const TupleConstr *parts = RelationGetDescr(relation)->constr;
	List	   *result = NIL;

	for (int i = 0; parts != NULL && i < parts->num_defval; i++)
		result = lappend(result, makeString(pstrdup(parts->defval[i].adbin)));
	for (int i = 0; parts != NULL && i < parts->num_check; i++)
		result = lappend(result, makeString(pstrdup(parts->check[i].ccbin)));
	table_close(relation, AccessShareLock);
	return result;
}

/* Checks the expressions that a table has, but for those that it had before. */
void
sl_trust_check_stored(Oid relid, const List *before)
{
	ListCell   *cell;

	if (superuser())
		return;
	foreach(cell, sl_trust_stored(relid))
	{
		if (!list_member(before, lfirst(cell)))
			sl_trust_check(stringToNode(strVal(lfirst(cell))));
	}
}

/* Checks all that a table brings with it to the shards. */
void
sl_trust_check_table(Oid relid)
{
	Relation	relation = table_open(relid, AccessShareLock);
	TupleDesc	columns = RelationGetDescr(relation);

	for (int i = 0; i < columns->natts; i++)
	{
		if (!TupleDescAttr(columns, i)->attisdropped)
			sl_trust_check_type(TupleDescAttr(columns, i)->atttypid);
	}
	table_close(relation, AccessShareLock);
	sl_trust_check_stored(relid, NIL);
}
