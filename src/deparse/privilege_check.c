/*
 * privilege_check.c
 *		Which stored expressions a user who is not a superuser may have the
 *		shards evaluate.
 *
 * Defaults, CHECK constraints, casts and other stored expressions are
 * evaluated on a shard by the user of the user mapping, who may have more
 * privileges there than their author has on the router.  So they must not call
 * functions that read or change anything but their arguments with the
 * privileges of the caller: query_to_xml(), pg_read_file().  A user-defined
 * function on a shard was created there by a user with the privilege to do
 * that; but it is looked up by the user's search path, so a user must not be
 * able to create one on the router whose name means something else on the
 * shard.
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

/*
 * Volatile functions without side effects; sequences are evaluated on the
 * router.
 */
static bool
has_no_side_effects(Oid function)
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

/* Is there a built-in function that the name might mean on a shard? */
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

/* Stable functions that return xml read tables. */
static bool
has_privilege(Oid function)
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
	return get_func_nargs(function) == 0 || has_no_side_effects(function);
}

static bool
check_function(Oid function, void *context)
{
	AclResult	result = sl_function_aclcheck(function, GetUserId());

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
	if (!has_privilege(function))
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

/* Refuses an expression that the user must not have the shards evaluate. */
void
sl_privilege_check(Node *expression)
{
	if (!superuser())
		(void) check_node(expression, NULL);
}

/* The same for the constraints and the default of a domain, or of its array. */
void
sl_privilege_check_type(Oid type)
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
		sl_privilege_check((Node *) ((DomainConstraintState *) lfirst(cell))->check_expr);
	sl_privilege_check(get_typdefault(type));
}

/* Returns the stored expressions of a table: Strings, of defaults and CHECKs. */
List *
sl_privilege_stored(Oid relid)
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

/* Checks the expressions of a table, except for those that it had before. */
void
sl_privilege_check_stored(Oid relid, const List *before)
{
	ListCell   *cell;

	if (superuser())
		return;
	foreach(cell, sl_privilege_stored(relid))
	{
		if (!list_member(before, lfirst(cell)))
			sl_privilege_check(stringToNode(strVal(lfirst(cell))));
	}
}

/* Checks all stored expressions that a table brings to the shards. */
void
sl_privilege_check_table(Oid relid)
{
	Relation	relation = table_open(relid, AccessShareLock);
	TupleDesc	columns = RelationGetDescr(relation);

	for (int i = 0; i < columns->natts; i++)
	{
		if (!TupleDescAttr(columns, i)->attisdropped)
			sl_privilege_check_type(TupleDescAttr(columns, i)->atttypid);
	}
	table_close(relation, AccessShareLock);
	sl_privilege_check_stored(relid, NIL);
}
