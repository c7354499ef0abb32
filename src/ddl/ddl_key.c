/*
 * ddl_key.c
 *		The primary key that the router knows of a foreign table, and ALTER TABLE.
 *
 * DROP CONSTRAINT, RENAME and DROP COLUMN work on it as on any other.  See
 * map/primary_key.c for what PostgreSQL cannot do.
 */
#include "postgres.h"

#include "commands/defrem.h"

#include "utils/lsyscache.h"

#include "base/base.h"
#include "ddl/ddl_internal.h"

/* Does the statement change the type of one of the columns, and keep the key? */
static bool
changes_type(const SlTable *table, const SlPrimaryKey *key, const AlterTableStmt *statement)
{
	bool		result = false;
	ListCell   *cell;

	foreach(cell, statement->cmds)
	{
		const AlterTableCmd *command = lfirst(cell);

		if (command->subtype == AT_DropConstraint && strcmp(command->name, key->name) == 0)
			return false;
		if (command->subtype == AT_AlterColumnType &&
			list_member_int(key->columns, get_attnum(table->relid, command->name)))
			result = true;
	}
	return result;
}

/* Takes the key away if the statement could not run with it, and returns it. */
SlPrimaryKey *
sl_ddl_hide_key(const SlTable *table, const AlterTableStmt *statement)
{
	SlPrimaryKey *key = sl_primary_key_get(table->relid);

	if (key == NULL || !changes_type(table, key, statement))
		return NULL;
	sl_primary_key_forget(table->relid);
	return key;
}

/* Brings it back, unless one of its columns is gone. */
void
sl_ddl_show_key(const SlTable *table, const SlPrimaryKey *key)
{
	ListCell   *cell;

	foreach(cell, key->columns)
	{
		if (get_attname(table->relid, (AttrNumber) lfirst_int(cell), true) == NULL)
			return;
	}
	sl_primary_key_declare(table, key->name, key->columns);
}

/* Declares a primary key that the shards are about to get. */
void
sl_ddl_add_key(const SlTable *table, const Constraint *constraint)
{
	char	   *name = constraint->conname;
	List	   *columns = NIL;
	ListCell   *cell;

	if (constraint->contype != CONSTR_PRIMARY || constraint->keys == NIL || constraint->deferrable ||
		!sl_ddl_is_foreign(table))
		return;
	if (name == NULL)
		name = makeObjectName(get_rel_name(table->relid), NULL, "pkey");
	foreach(cell, constraint->keys)
		columns = lappend_int(columns, get_attnum(table->relid, strVal(lfirst(cell))));
	sl_primary_key_declare(table, name, columns);
}
