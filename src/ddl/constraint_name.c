/*
 * constraint_name.c
 *		Names of constraints that ALTER TABLE adds without one.
 *
 * PostgreSQL chooses a name that is not in use, and what is in use may differ between
 * the router and the shards.  A shell table has its constraints on both, and later
 * statements name them: so the shards get the names that the router has chosen.
 *
 * The statement does not tell these names.  They are found by comparing the table's
 * constraints before and after it ran.  PostgreSQL makes constraints of one kind in
 * the order of the statement, with those of new columns first: where these have no
 * names either, the shards choose names themselves.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "ddl/ddl_internal.h"

/* A constraint of the table. */
typedef struct TableConstraint
{
	Oid			oid;
	char		type;
	char	   *name;
	List	   *columns;		/* their names */
} TableConstraint;

/* Returns the value of pg_constraint.contype. */
static char
type_of(const Constraint *constraint)
{
	switch (constraint->contype)
	{
		case CONSTR_CHECK:
			return CONSTRAINT_CHECK;
		case CONSTR_PRIMARY:
			return CONSTRAINT_PRIMARY;
		case CONSTR_UNIQUE:
			return CONSTRAINT_UNIQUE;
		case CONSTR_EXCLUSION:
			return CONSTRAINT_EXCLUSION;
		case CONSTR_FOREIGN:
			return CONSTRAINT_FOREIGN;
		default:
			return '\0';
	}
}

static List *
read_columns(HeapTuple tuple, TupleDesc descriptor, Oid relid)
{
	bool		is_null;
	Datum		value = heap_getattr(tuple, Anum_pg_constraint_conkey, descriptor, &is_null);
	List	   *result = NIL;
	Datum	   *numbers;
	int			count;

	if (is_null)
		return NIL;
	deconstruct_array(DatumGetArrayTypeP(value), INT2OID, sizeof(int16), true, TYPALIGN_SHORT,
					  &numbers, NULL, &count);
	for (int i = 0; i < count; i++)
	{
		if (DatumGetInt16(numbers[i]) > 0)
			result = lappend(result, makeString(get_attname(relid, DatumGetInt16(numbers[i]), false)));
	}
	return result;
}

static TableConstraint *
read_constraint(HeapTuple tuple, TupleDesc descriptor)
{
	const FormData_pg_constraint *row = (const FormData_pg_constraint *) GETSTRUCT(tuple);
	TableConstraint *result = palloc(sizeof(TableConstraint));

	result->oid = row->oid;
	result->type = row->contype;
	result->name = pstrdup(NameStr(row->conname));
	result->columns = read_columns(tuple, descriptor, row->conrelid);
	return result;
}

static int
compare_oids(const ListCell *a, const ListCell *b)
{
	Oid			one = ((const TableConstraint *) lfirst(a))->oid;
	Oid			other = ((const TableConstraint *) lfirst(b))->oid;

	return one < other ? -1 : one > other;
}

/* Returns the constraints of the table in the order in which they were made. */
List *
sl_ddl_list_constraints(Oid relid)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	List	   *result = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, ConstraintRelidTypidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		result = lappend(result, read_constraint(tuple, RelationGetDescr(catalog)));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	list_sort(result, compare_oids);
	return result;
}

static bool
has_oid(List *constraints, Oid oid)
{
	ListCell   *cell;

	foreach(cell, constraints)
	{
		if (((const TableConstraint *) lfirst(cell))->oid == oid)
			return true;
	}
	return false;
}

/* Does a command of the statement give a constraint this name? */
static bool
is_given(const AlterTableStmt *statement, const char *name)
{
	ListCell   *cell;

	foreach(cell, statement->cmds)
	{
		const AlterTableCmd *command = lfirst(cell);
		const Constraint *constraint = (const Constraint *) command->def;

		if (command->subtype == AT_AddConstraint && constraint->conname != NULL &&
			strcmp(constraint->conname, name) == 0)
			return true;
	}
	return false;
}

/*
 * Returns the constraints that the statement has made and given a name itself.
 * "before" are those that the table had.
 */
List *
sl_ddl_unnamed_constraints(Oid relid, const AlterTableStmt *statement, List *before)
{
	List	   *result = sl_ddl_list_constraints(relid);
	ListCell   *cell;

	foreach(cell, result)
	{
		const TableConstraint *constraint = lfirst(cell);

		if (has_oid(before, constraint->oid) || is_given(statement, constraint->name))
			result = foreach_delete_current(result, cell);
	}
	return result;
}

/* Does a new column have a constraint of this type, without a name? */
static bool
has_column_constraint(const AlterTableStmt *statement, char type)
{
	ListCell   *cell;
	ListCell   *constraint_cell;

	foreach(cell, statement->cmds)
	{
		const AlterTableCmd *command = lfirst(cell);

		if (command->subtype != AT_AddColumn)
			continue;
		foreach(constraint_cell, castNode(ColumnDef, command->def)->constraints)
		{
			const Constraint *constraint = lfirst(constraint_cell);

			if (IsA(constraint, Constraint) && constraint->conname == NULL && type_of(constraint) == type)
				return true;
		}
	}
	return false;
}

/*
 * Takes the name of a constraint that the statement adds out of the list of those
 * that it has made.  Returns NULL if it is not known.
 */
static char *
take_name(List **made, const Constraint *constraint)
{
	List	   *columns = constraint->contype == CONSTR_FOREIGN ? constraint->fk_attrs : constraint->keys;
	ListCell   *cell;

	foreach(cell, *made)
	{
		const TableConstraint *candidate = lfirst(cell);

		if (candidate->type != type_of(constraint) || (columns != NIL && !equal(columns, candidate->columns)))
			continue;
		*made = foreach_delete_current(*made, cell);
		return candidate->name;
	}
	return NULL;
}

/*
 * Adds the change that names a constraint.  "made" is what
 * sl_ddl_unnamed_constraints() has returned.
 */
List *
sl_ddl_name_constraint(const AlterTableStmt *statement, List **made, const Constraint *constraint, List *changes)
{
	SlChange   *change;
	char	   *name;

	if (constraint->conname != NULL || constraint->location < 0 ||
		has_column_constraint(statement, type_of(constraint)))
		return changes;
	name = take_name(made, constraint);
	if (name == NULL)
		return changes;
	change = palloc(sizeof(SlChange));
	change->span.start = change->span.end = constraint->location;
	change->replacement = psprintf("CONSTRAINT %s ", quote_identifier(name));
	return lappend(changes, change);
}
