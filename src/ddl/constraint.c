/*
 * constraint.c
 *		Which constraints can hold when each shard sees its own rows only.
 *
 * Rows of one key are on one shard.  So a unique constraint holds everywhere if
 * it contains the key, and a foreign key if it leads to rows of the same key, or
 * to a table that every shard has.  distribute() has the same rules.
 *
 * A table that was distributed with local_unique may have unique constraints
 * without the key: each shard enforces them for its rows, and the user has
 * asserted that values are unique over all shards.  A foreign key may refer to one
 * of these from any table of the map: the shards enforce that, too, so a row and
 * the one that it refers to have the same key, or keys that happen to be on one shard.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "ddl/definition.h"

static bool
has_name(const List *names, const char *name)
{
	ListCell   *cell;

	foreach(cell, names)
	{
		if (strcmp(strVal(lfirst(cell)), name) == 0)
			return true;
	}
	return false;
}

/* "local_hint" says what a table with local_unique could have, or is NULL. */
pg_noreturn static void
refuse_unique(const SlTable *table, const char *what, const char *column, const char *local_hint)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot create %s on table \"%s\"", what, get_rel_name(table->relid)),
			column != NULL ?
			errdetail("Key column \"%s\" is not part of it, and each shard sees its own rows only.", column) :
			errdetail("The table has no key, and each shard sees its own rows only."),
			column != NULL || local_hint != NULL ?
			errhint("%s%s%s", column != NULL ? "Add the column to it." : "",
					column != NULL && local_hint != NULL ? " " : "", local_hint != NULL ? local_hint : "") : 0);
}

/* All key columns must be among these names. */
static void
check_key_columns(const SlTable *table, const List *names, const char *what, const char *local_hint)
{
	if (table->kind != SL_TABLE_SHARDED)
		return;
	if (table->key_count == 0)
		refuse_unique(table, what, NULL, local_hint);
	for (int i = 0; i < table->key_count; i++)
	{
		char	   *column = get_attname(table->relid, table->key[i], false);

		if (!has_name(names, column))
			refuse_unique(table, what, column, local_hint);
	}
}

/* The same, unless each shard may enforce it for its own rows. */
static void
check_unique(const SlTable *table, const List *names, const char *what)
{
	if (!table->is_local_unique)
		check_key_columns(table, names, what,
						  "A table that was distributed with local_unique => true can have it as it is: each shard enforces it.");
}

/* Is the operator of an exclusion constraint, a list of names, equality? */
static bool
is_equality(List *operator)
{
	return strcmp(strVal(llast(operator)), "=") == 0;
}

/* The columns of an exclusion constraint that must be equal to exclude. */
static List *
equal_columns(const List *exclusions)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, exclusions)
	{
		List	   *pair = lfirst(cell);
		IndexElem  *element = linitial(pair);

		if (element->name != NULL && is_equality(lsecond(pair)))
			result = lappend(result, makeString(element->name));
	}
	return result;
}

static List *
names_of_elements(const List *elements)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, elements)
	{
		IndexElem  *element = lfirst(cell);

		if (element->name != NULL)
			result = lappend(result, makeString(element->name));
	}
	return result;
}

void
sl_ddl_check_unique_index(const SlTable *table, const IndexStmt *statement)
{
	if (statement->unique)
		check_unique(table, names_of_elements(statement->indexParams), "unique index");
}

/* Returns the columns of the primary key, if the router knows it: Strings. */
static List *
primary_key_names(Oid relid)
{
	Relation	relation = table_open(ConstraintRelationId, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(relation, ConstraintRelidTypidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		is_null;
		Datum		columns;
		Datum	   *numbers;
		int			count;

		if (((Form_pg_constraint) GETSTRUCT(tuple))->contype != CONSTRAINT_PRIMARY)
			continue;
		columns = heap_getattr(tuple, Anum_pg_constraint_conkey, RelationGetDescr(relation), &is_null);
		if (is_null)
			continue;
		deconstruct_array(DatumGetArrayTypeP(columns), INT2OID, sizeof(int16), true, TYPALIGN_SHORT,
						  &numbers, NULL, &count);
		for (int i = 0; i < count; i++)
			result = lappend(result, makeString(get_attname(relid, DatumGetInt16(numbers[i]), false)));
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

pg_noreturn static void
refuse_foreign_key(const SlTable *table, const char *detail, const char *hint)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot create foreign key on table \"%s\"", get_rel_name(table->relid)),
			errdetail_internal("%s", detail),
			hint != NULL ? errhint("%s", hint) : 0);
}

/* Does a pair of columns join the two tables' keys at this place? */
static bool
joins_keys(const SlTable *table, const SlTable *target, int place, const List *columns,
		   const List *target_columns)
{
	char	   *wanted = get_attname(table->relid, table->key[place], false);
	char	   *wanted_target = get_attname(target->relid, target->key[place], false);

	if (columns == NIL || target_columns == NIL)
		return false;
	for (int i = 0; i < Min(list_length(columns), list_length(target_columns)); i++)
	{
		if (strcmp(strVal(list_nth(columns, i)), wanted) == 0 &&
			strcmp(strVal(list_nth(target_columns, i)), wanted_target) == 0)
			return true;
	}
	return false;
}

/*
 * Does a foreign key with these referenced columns lead to a unique constraint that
 * each shard enforces for itself?
 */
static bool
refers_to_local_unique(const SlTable *target, const List *target_columns)
{
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, target_columns)
		names = lappend(names, strVal(lfirst(cell)));
	return sl_foreign_key_is_local(names, target->is_local_unique, sl_table_key_of(target));
}

static void
check_same_map(const SlTable *table, const SlTable *target, const List *columns,
			   const List *target_columns)
{
	if (table->kind != SL_TABLE_SHARDED || strcmp(table->map, target->map) != 0)
		refuse_foreign_key(table, psprintf("Table \"%s\" is not sharded by the same map.",
										   get_rel_name(target->relid)), NULL);
	if (table->key_count == 0)
		refuse_foreign_key(table, "Tables of a spread map have no key, so rows that belong together need not be on one shard.", NULL);
	if (target_columns == NIL)
		target_columns = primary_key_names(target->relid);
	if (target_columns == NIL)
		refuse_foreign_key(table, psprintf("The router does not know the primary key of table \"%s\".",
										   get_rel_name(target->relid)),
						   "Name the columns that it refers to.");
	if (refers_to_local_unique(target, target_columns))
		return;
	for (int i = 0; i < table->key_count; i++)
	{
		if (!joins_keys(table, target, i, columns, target_columns))
			refuse_foreign_key(table, psprintf("Key column \"%s\" does not refer to key column \"%s\" of table \"%s\".",
											   get_attname(table->relid, table->key[i], false),
											   get_attname(target->relid, target->key[i], false),
											   get_rel_name(target->relid)),
							   "Make the key part of the foreign key.");
	}
}

static void
check_target(const SlTable *table, const SlTable *target, const List *columns,
			 const List *target_columns)
{
	switch (target->kind)
	{
		case SL_TABLE_REFERENCE:
			return;
		case SL_TABLE_SHARDED:
			check_same_map(table, target, columns, target_columns);
			return;
		case SL_TABLE_PLACED:
			if (table->kind != SL_TABLE_PLACED || table->shard_id != target->shard_id)
				refuse_foreign_key(table, psprintf("Table \"%s\" is on another shard.",
												   get_rel_name(target->relid)), NULL);
			return;
	}
}

/* As PostgreSQL asks for it: on the table, or on each column that is referred to. */
static void
check_references(Oid relid, const List *columns)
{
	AclResult	result = pg_class_aclcheck(relid, GetUserId(), ACL_REFERENCES);
	ListCell   *cell;

	if (result == ACLCHECK_OK)
		return;
	if (columns == NIL)
		columns = primary_key_names(relid);
	if (columns == NIL)
		aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
	foreach(cell, columns)
	{
		AttrNumber	column = get_attnum(relid, strVal(lfirst(cell)));

		if (column == InvalidAttrNumber ||
			pg_attribute_aclcheck(relid, column, GetUserId(), ACL_REFERENCES) != ACLCHECK_OK)
			aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
	}
}

static void
check_foreign_key(const SlTable *table, const Constraint *constraint, const List *columns)
{
	Oid			relid = RangeVarGetRelid(constraint->pktable, NoLock, false);
	SlTable    *target = sl_table_get(relid);

	if (target == NULL)
		refuse_foreign_key(table, psprintf("Table \"%s\" is on the router only.", get_rel_name(relid)),
						   "Distribute it, or make it a reference table.");
	check_references(relid, constraint->pk_attrs);
	check_target(table, target, columns, constraint->pk_attrs);
}

/* The columns of a unique constraint that must be equal to violate it. */
static List *
unique_columns(const Constraint *constraint, List *own)
{
	if (constraint->keys == NIL)
		return own;
	return sl_is_of_periods(constraint) ?
		list_copy_head(constraint->keys, list_length(constraint->keys) - 1) : constraint->keys;
}

/* Keys without overlaps are exclusion constraints, and need the shard key always. */
static void
check_unique_key(const SlTable *table, const Constraint *constraint, const List *columns)
{
	const char *what = constraint->contype == CONSTR_PRIMARY ? "primary key" : "unique constraint";

	if (sl_is_of_periods(constraint))
		check_key_columns(table, columns, what, NULL);
	else
		check_unique(table, columns, what);
}

/*
 * Refuses a constraint that cannot hold over shards.  "column" is the one whose
 * definition it is part of, or NULL.
 */
void
sl_ddl_check_constraint(const SlTable *table, const Constraint *constraint, const char *column)
{
	List	   *own = column != NULL ? list_make1(makeString(pstrdup(column))) : NIL;

	switch (constraint->contype)
	{
		case CONSTR_PRIMARY:
		case CONSTR_UNIQUE:
			/* What is made of an index was checked when that was made. */
			if (constraint->indexname == NULL)
				check_unique_key(table, constraint, unique_columns(constraint, own));
			break;
		case CONSTR_EXCLUSION:
			check_key_columns(table, equal_columns(constraint->exclusions), "exclusion constraint", NULL);
			break;
		case CONSTR_FOREIGN:
			check_foreign_key(table, constraint,
							  constraint->fk_attrs != NIL ? constraint->fk_attrs : own);
			break;
		default:
			break;
	}
}

/* Adds the change that qualifies the name of the table a foreign key leads to. */
List *
sl_ddl_qualify_target(const SlDdl *ddl, List *changes, const Constraint *constraint)
{
	if (constraint->contype != CONSTR_FOREIGN)
		return changes;
	return sl_ddl_rename_in(ddl, changes, constraint->pktable,
							sl_ddl_name(RangeVarGetRelid(constraint->pktable, NoLock, false)));
}

/* Returns the column that a constraint says NOT NULL of; 0: it is of another kind. */
AttrNumber
sl_ddl_not_null_column(Oid constraint)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	AttrNumber	result = InvalidAttrNumber;
	Datum		columns;
	Datum	   *numbers;
	int			count;
	bool		is_null;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for constraint %u", constraint);
	columns = SysCacheGetAttr(CONSTROID, tuple, Anum_pg_constraint_conkey, &is_null);
	if (!is_null && ((Form_pg_constraint) GETSTRUCT(tuple))->contype == CONSTRAINT_NOTNULL)
	{
		deconstruct_array(DatumGetArrayTypeP(columns), INT2OID, sizeof(int16), true, TYPALIGN_SHORT,
						  &numbers, NULL, &count);
		result = count > 0 ? DatumGetInt16(numbers[0]) : InvalidAttrNumber;
	}
	ReleaseSysCache(tuple);
	return result;
}
