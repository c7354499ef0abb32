/*
 * shell_foreign_key.c
 *		Foreign keys of attached shell tables, as the router's catalogs show them.
 *
 * The shards check them.  The router has those of which it has both tables, in a way
 * that keeps the rows of a foreign key on one shard: see foreign_key.c.  A foreign
 * key comes with the table of its two that is attached last, whichever that is.
 *
 * It is created as valid, or not, as on the shards, but without the check of
 * ALTER TABLE, which would read both tables from the shards.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_constraint.h"
#include "nodes/parsenodes.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "ddl/definition.h"

/* Removing -------------------------------------------------------------------- */

static void
drop_key(const SlForeignKey *key)
{
	ObjectAddress address;

	ObjectAddressSet(address, ConstraintRelationId, key->constraint);
	performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	CommandCounterIncrement();
}

/*
 * Drops the foreign keys of a shell table and those of other tables to it, or only
 * the latter, on the router.  The shards keep them.
 */
void
sl_shell_drop_foreign_keys(Oid relid, bool incoming_only)
{
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list(relid))
	{
		const SlForeignKey *key = lfirst(cell);

		if (!incoming_only || (key->referenced == relid && key->relid != relid))
			drop_key(key);
	}
}

/* Adding ---------------------------------------------------------------------- */

typedef struct Addition
{
	SlForeignKey *key;
	Constraint *constraint;		/* of the statement */
	Node	   *statement;
	const char *sql;
} Addition;

/* Are the rows that a foreign key connects always on one shard? */
static bool
is_within_shards(const SlForeignKey *key, const SlTable *from, const SlTable *to)
{
	if (to->kind == SL_TABLE_REFERENCE)
		return true;
	if (from->kind != to->kind)
		return false;
	if (from->kind == SL_TABLE_PLACED)
		return from->shard_id == to->shard_id;
	return strcmp(from->map, to->map) == 0 &&
		sl_foreign_key_follows(key, sl_table_key_of(from), sl_table_key_of(to));
}

/* Returns why the router cannot have a foreign key, or NULL. */
static const char *
find_obstacle(const SlForeignKey *key)
{
	const SlTable *from = sl_table_get(key->relid);
	const SlTable *to = OidIsValid(key->referenced) ? sl_table_get(key->referenced) : NULL;

	if (to == NULL)
		return "The table that it refers to is not distributed on the router.";
	if (!is_within_shards(key, from, to))
		return "It does not follow the shard key.";
	return NULL;
}

static void
tell_left_out(const SlForeignKey *key, const char *reason)
{
	ereport(NOTICE,
			errmsg("foreign key \"%s\" of table \"%s\" is left out on the router", key->name,
				   get_rel_name(key->relid)),
			errdetail_internal("%s", reason));
}

/* The shard's statement, with the names of its columns in place of those that it told. */
static void
parse_key(void *state)
{
	Addition   *addition = state;
	SlForeignKey *key = addition->key;
	SlDefinition scope = {.schema = get_namespace_name(get_rel_namespace(key->relid)),
	.name = get_rel_name(key->relid)};
	const AlterTableCmd *command;
	ListCell   *cell;

	addition->sql = sl_foreign_key_add_sql(key);
	addition->statement = sl_received_parse(addition->sql, &scope, key->referenced);
	if (!IsA(addition->statement, AlterTableStmt) ||
		list_length(castNode(AlterTableStmt, addition->statement)->cmds) != 1)
		sl_received_refuse(addition->sql, scope.schema, scope.name);
	command = linitial_node(AlterTableCmd, castNode(AlterTableStmt, addition->statement)->cmds);
	if (command->subtype != AT_AddConstraint || castNode(Constraint, command->def)->contype != CONSTR_FOREIGN)
		sl_received_refuse(addition->sql, scope.schema, scope.name);
	addition->constraint = castNode(Constraint, command->def);
	key->columns = key->referenced_columns = NIL;
	foreach(cell, addition->constraint->fk_attrs)
		key->columns = lappend(key->columns, strVal(lfirst(cell)));
	foreach(cell, addition->constraint->pk_attrs)
		key->referenced_columns = lappend(key->referenced_columns, strVal(lfirst(cell)));
}

/* Skipping the validation alone leaves the constraint what its definition says. */
static void
create_key(void *state)
{
	Addition   *addition = state;

	addition->constraint->skip_validation = true;
	sl_received_execute(addition->statement, addition->sql);
}

/*
 * Adds a foreign key, or says why not.  One of another table to this one may lead
 * across shards: that was said when its table was attached.
 */
static void
add_key(SlForeignKey *key, const SlTable *table)
{
	Addition	addition = {.key = key};
	const char *obstacle = NULL;
	char	   *reason = NULL;

	if (OidIsValid(key->referenced) && !sl_shell_try(parse_key, &addition, &reason))
		obstacle = reason;
	if (obstacle == NULL)
		obstacle = find_obstacle(key);
	if (obstacle == NULL && !sl_shell_try(create_key, &addition, &reason))
		obstacle = reason;
	if (obstacle != NULL && (key->relid == table->relid || reason != NULL))
		tell_left_out(key, obstacle);
}

/* Comparing ------------------------------------------------------------------- */

static bool
has_key(List *keys, const SlForeignKey *key)
{
	ListCell   *cell;

	foreach(cell, keys)
	{
		const SlForeignKey *other = lfirst(cell);

		if (other->relid == key->relid && other->referenced == key->referenced &&
			strcmp(other->name, key->name) == 0 && strcmp(other->definition, key->definition) == 0)
			return true;
	}
	return false;
}

/*
 * Makes the foreign keys from and to an attached shell table those that a shard has.
 * Those of its partitions alone are left to the shards.
 */
void
sl_shell_refresh_foreign_keys(const SlTable *table, SlConn *conn)
{
	List	   *on_shard = sl_foreign_key_list_remote(conn, get_namespace_name(get_rel_namespace(table->relid)),
													  get_rel_name(table->relid));
	List	   *on_router = sl_foreign_key_list(table->relid);
	ListCell   *cell;

	foreach(cell, on_router)
	{
		const SlForeignKey *key = lfirst(cell);

		if ((key->relid == table->relid || key->referenced == table->relid) && !has_key(on_shard, key))
			drop_key(key);
	}
	foreach(cell, on_shard)
	{
		SlForeignKey *key = lfirst(cell);
		const SlTable *from = OidIsValid(key->relid) ? sl_table_get(key->relid) : NULL;

		if (from != NULL && from->kind != SL_TABLE_REFERENCE && !from->is_partition && !has_key(on_router, key))
			add_key(key, table);
	}
}
