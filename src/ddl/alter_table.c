/*
 * alter_table.c
 *		ALTER TABLE: each subcommand runs on the router, on the shards, or on
 *		both.
 *
 * A shell table has everything but rows and storage, so most subcommands run on
 * both.  One ALTER TABLE may have subcommands of all kinds; shards get theirs as
 * one ALTER TABLE again.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"
#include "ddl/definition.h"
#include "deparse/deparse.h"
#include "executor/multi_shard.h"
#include "metadata/router_foreign_key.h"

/* Where a subcommand runs; on a reference table, which is a plain one, always on the router. */
typedef enum Target
{
	BOTH,
	ON_ROUTER,
	ON_SHARDS
} Target;

/* A subcommand of the statement, and what became of it. */
typedef struct Part
{
	const AlterTableCmd *command;
	SlSpan		span;
	Target		target;
	bool		is_identity;	/* the column, before it is dropped */
} Part;

typedef struct Alteration
{
	SlTable    *table;
	char	   *name;			/* before the statement runs */
	bool		only;			/* not its partitions */
	List	   *parts;
	List	   *expressions;	/* that the table had before */
	List	   *constraints;	/* of a shell table: those that it had before,
								 * then those that have got names */
} Alteration;

typedef struct AlterRule
{
	AlterTableType type;
	Target		target;
	Target		(*decide) (const SlTable *table, const AlterTableCmd *command);
} AlterRule;

typedef struct Refusal
{
	AlterTableType type;
	const char *what;			/* cannot be done */
} Refusal;

pg_noreturn static void
refuse_key(const SlTable *table, const char *column, const char *what)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot %s column \"%s\" of table \"%s\"", what, column,
				   get_rel_name(table->relid)),
			errdetail("It is part of the table's key, which says on which shard a row is."),
			errhint("shardlet.undistribute() and shardlet.distribute() give a table another key."));
}

static Target
add_column(const SlTable *table, const AlterTableCmd *command)
{
	ColumnDef  *column = castNode(ColumnDef, command->def);
	ListCell   *cell;

	if (command->missing_ok && get_attnum(table->relid, column->colname) != InvalidAttrNumber)
		return ON_ROUTER;
	if (column->fdwoptions != NIL)
		sl_ddl_refuse(table, "add a column with options to", NULL);
	foreach(cell, column->constraints)
		sl_ddl_check_constraint(table, lfirst(cell), column->colname);
	return BOTH;
}

static Target
drop_column(const SlTable *table, const AlterTableCmd *command)
{
	if (sl_ddl_is_key(table, command->name))
		refuse_key(table, command->name, "drop");
	return get_attnum(table->relid, command->name) != InvalidAttrNumber ? BOTH : ON_ROUTER;
}

/* Finds what has another value on each server, such as now(). */
static bool
find_own_value(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SQLValueFunction))
		return true;
	if (IsA(node, FuncExpr) && ((FuncExpr *) node)->args == NIL &&
		func_volatile(((FuncExpr *) node)->funcid) != PROVOLATILE_IMMUTABLE)
		return true;
	return expression_tree_walker(node, find_own_value, context);
}

/*
 * Would every copy of a row be converted to the same value?  A stable function
 * of something depends on settings, which are the same on the shards.
 */
static bool
converts_alike(Node *expression)
{
	return !contain_volatile_functions(expression) && !find_own_value(expression, NULL);
}

static Target
alter_type(const SlTable *table, const AlterTableCmd *command)
{
	Node	   *conversion = castNode(ColumnDef, command->def)->raw_default;

	if (sl_ddl_is_key(table, command->name))
		refuse_key(table, command->name, "change the type of");
	if (conversion == NULL)
		return BOTH;
	conversion = sl_ddl_transform(table, conversion, EXPR_KIND_ALTER_COL_TRANSFORM);
	sl_privilege_check(conversion);
	if (table->kind == SL_TABLE_REFERENCE && !converts_alike(conversion))
		sl_ddl_refuse(table, "use this conversion for a column of",
					  "The copies must be the same, so USING must not depend on when and where it runs.");
	return BOTH;
}

static Target
drop_not_null(const SlTable *table, const AlterTableCmd *command)
{
	if (sl_ddl_is_key(table, command->name))
		refuse_key(table, command->name, "allow NULL in");
	return BOTH;
}

static Target
set_expression(const SlTable *table, const AlterTableCmd *command)
{
	if (sl_ddl_is_key(table, command->name))
		refuse_key(table, command->name, "change the expression of");
	return BOTH;
}

static Target
add_constraint(const SlTable *table, const AlterTableCmd *command)
{
	const Constraint *constraint = castNode(Constraint, command->def);

	sl_ddl_check_constraint(table, constraint, NULL);
	return BOTH;
}

/* A constraint that the router does not have is one that only shards can have. */
static Target
by_constraint(const SlTable *table, const AlterTableCmd *command)
{
	Oid			constraint = get_relation_constraint_oid(table->relid, command->name, true);
	AttrNumber	column;

	if (!OidIsValid(constraint))
		return ON_SHARDS;
	column = sl_ddl_not_null_column(constraint);
	if (command->subtype == AT_DropConstraint && column != InvalidAttrNumber &&
		sl_ddl_is_key(table, get_attname(table->relid, column, false)))
		refuse_key(table, get_attname(table->relid, column, false), "allow NULL in");
	return BOTH;
}

/* A shell table has the triggers of the shards, but for some that it was attached without. */
static Target
by_trigger(const SlTable *table, const AlterTableCmd *command)
{
	bool		is_on_router = OidIsValid(get_trigger_oid(table->relid, command->name, true));

	if (!sl_ddl_is_remote(table))
	{
		if (command->subtype != AT_EnableAlwaysTrig)
			sl_ddl_check_reference_trigger(table, command->name, "change");
		return ON_ROUTER;
	}
	return is_on_router ? BOTH : ON_SHARDS;
}

/* The triggers that carry the changes of a reference table stay as they are. */
static Target
switch_triggers(const SlTable *table, const AlterTableCmd *command)
{
	if (!sl_ddl_is_remote(table))
		sl_ddl_refuse(table, "enable or disable all triggers of",
					  "Its own triggers carry changes to the shards.  Name the triggers that you mean.");
	return BOTH;
}

static Target
attach_partition(const SlTable *table, const AlterTableCmd *command)
{
	sl_ddl_check_attached(table, castNode(PartitionCmd, command->def)->name);
	return BOTH;
}

/*
 * PostgreSQL looks for rows that refer to the partition, and would look on the router,
 * where it is empty.
 */
static void
refuse_referenced(const SlTable *table)
{
	Relation	relation = table_open(table->relid, AccessShareLock);
	bool		is_referenced = sl_ddl_is_remote(table) && sl_router_key_exists(relation);

	table_close(relation, NoLock);
	if (is_referenced)
		sl_ddl_refuse(table, "detach a partition from",
					  "Foreign keys of tables that are not distributed refer to it.  Drop them first.");
}

static Target
detach_partition(const SlTable *table, const AlterTableCmd *command)
{
	refuse_referenced(table);
	return BOTH;
}

/* The copies of reference tables could not keep it up. */
static Target
change_row_security(const SlTable *table, const AlterTableCmd *command)
{
	if (!sl_ddl_is_remote(table))
		sl_ddl_refuse(table, "change row security of", NULL);
	return BOTH;
}

static const AlterRule rules[] = {
	{AT_AddColumn, BOTH, add_column},
	{AT_DropColumn, BOTH, drop_column},
	{AT_AlterColumnType, BOTH, alter_type},
	{AT_ColumnDefault, BOTH, NULL},
	{AT_DropNotNull, BOTH, drop_not_null},
	{AT_SetNotNull, BOTH, NULL},
	{AT_DropExpression, BOTH, NULL},
	{AT_SetExpression, BOTH, set_expression},
	{AT_AddIdentity, ON_ROUTER, NULL},
	{AT_SetIdentity, ON_ROUTER, NULL},
	{AT_DropIdentity, ON_ROUTER, NULL},
	{AT_SetStatistics, BOTH, NULL},
	{AT_SetOptions, BOTH, NULL},
	{AT_ResetOptions, BOTH, NULL},
	{AT_SetStorage, BOTH, NULL},
	{AT_SetCompression, BOTH, NULL},
	{AT_AddConstraint, BOTH, add_constraint},
	{AT_AlterConstraint, BOTH, NULL},
	{AT_ValidateConstraint, BOTH, by_constraint},
	{AT_DropConstraint, BOTH, by_constraint},
	{AT_ChangeOwner, BOTH, NULL},
	{AT_ClusterOn, BOTH, NULL},
	{AT_DropCluster, BOTH, NULL},
	{AT_SetLogged, ON_SHARDS, NULL},
	{AT_SetAccessMethod, ON_SHARDS, NULL},
	{AT_SetTableSpace, ON_SHARDS, NULL},
	{AT_SetRelOptions, BOTH, NULL},
	{AT_ResetRelOptions, BOTH, NULL},
	{AT_ReplicaIdentity, BOTH, NULL},
	{AT_EnableTrig, BOTH, by_trigger},
	{AT_EnableAlwaysTrig, BOTH, by_trigger},
	{AT_EnableReplicaTrig, BOTH, by_trigger},
	{AT_DisableTrig, BOTH, by_trigger},
	{AT_EnableTrigAll, BOTH, switch_triggers},
	{AT_EnableTrigUser, BOTH, switch_triggers},
	{AT_DisableTrigAll, BOTH, switch_triggers},
	{AT_DisableTrigUser, BOTH, switch_triggers},
	{AT_AttachPartition, BOTH, attach_partition},
	{AT_DetachPartition, BOTH, detach_partition},
	{AT_AlterColumnGenericOptions, ON_ROUTER, NULL},
	{AT_EnableRowSecurity, BOTH, change_row_security},
	{AT_DisableRowSecurity, BOTH, change_row_security},
	{AT_ForceRowSecurity, BOTH, change_row_security},
	{AT_NoForceRowSecurity, BOTH, change_row_security},
};

static const Refusal refusals[] = {
	{AT_GenericOptions, "change the options of"},
	{AT_SetUnLogged, "make unlogged"},
	{AT_AddInherit, "change the inheritance of"},
	{AT_DropInherit, "change the inheritance of"},
	{AT_AddOf, "change the type of"},
	{AT_DropOf, "change the type of"},
};

static Target
choose_target(const SlTable *table, const AlterTableCmd *command)
{
	for (int i = 0; i < (int) lengthof(rules); i++)
	{
		const AlterRule *rule = &rules[i];

		if (rule->type != command->subtype)
			continue;
		if (rule->decide != NULL)
			return rule->decide(table, command);
		return rule->target;
	}
	for (int i = 0; i < (int) lengthof(refusals); i++)
	{
		if (refusals[i].type == command->subtype)
			sl_ddl_refuse(table, refusals[i].what, NULL);
	}
	sl_ddl_refuse(table, "run this command on", "shardlet.execute() runs it on the shards.");
}

/* The shards check that rows refer to existing ones. */
static void
skip_validation(List *constraints)
{
	ListCell   *cell;

	foreach(cell, constraints)
	{
		Constraint *constraint = lfirst(cell);

		if (IsA(constraint, Constraint) && constraint->contype == CONSTR_FOREIGN)
			constraint->skip_validation = true;
	}
}

/* Returns the command as a shell table, which has no rows, takes it. */
static AlterTableCmd *
for_shell_table(const AlterTableCmd *command)
{
	AlterTableCmd *copy = copyObject((AlterTableCmd *) command);

	if (copy->subtype == AT_AddColumn)
		skip_validation(castNode(ColumnDef, copy->def)->constraints);
	else if (copy->subtype == AT_AddConstraint)
		skip_validation(list_make1(copy->def));
	return copy;
}

static void
plan_on_router(SlDdl *ddl, const Alteration *alteration)
{
	AlterTableStmt *statement = (AlterTableStmt *) ddl->node;
	AlterTableStmt *copy;
	ListCell   *cell;

	if (!sl_ddl_is_remote(alteration->table))
	{
		sl_ddl_run_on_router(ddl, statement);
		return;
	}
	sl_ddl_open_shell(ddl, alteration->table);
	copy = makeNode(AlterTableStmt);
	copy->relation = copyObject(statement->relation);
	copy->objtype = statement->objtype;
	copy->missing_ok = statement->missing_ok;
	foreach(cell, alteration->parts)
	{
		Part	   *part = lfirst(cell);

		sl_ddl_open_attached(ddl, part->command);
		if (part->target != ON_SHARDS)
			copy->cmds = lappend(copy->cmds, for_shell_table(part->command));
	}
	if (copy->cmds != NIL)
		sl_ddl_run_on_router(ddl, copy);
}

/* The role's name on the router; the user of the connection may differ. */
static void
change_owner(SlDdl *ddl, const Alteration *alteration, const AlterTableCmd *command)
{
	char	   *role = get_rolespec_name(command->newowner);
	List	   *shards = sl_ddl_shards_with_role(sl_table_homes(alteration->table), role);
	char	   *sql = psprintf("ALTER TABLE %s OWNER TO %s", alteration->name, quote_identifier(role));

	sl_ddl_add_step(ddl, shards, sql);
	sl_ddl_add_step_if(ddl, ddl->offline, sql, sl_ddl_role_condition(role, alteration->table));
}

/* What the column draws from is the router's; its place on shards is ours. */
static bool
sets_own_default(const SlTable *table, const Part *part)
{
	const AlterTableCmd *command = part->command;

	if (command->subtype == AT_AddIdentity)
		return true;
	if (command->subtype == AT_DropIdentity)
		return part->is_identity;
	return command->subtype == AT_ColumnDefault && command->def != NULL &&
		sl_ddl_draws(table->relid, command->name);
}

/* Names of other tables in the text are qualified. */
static List *
changes_of(const SlDdl *ddl, Alteration *alteration, const AlterTableCmd *command)
{
	const Constraint *constraint = (const Constraint *) command->def;
	const PartitionCmd *partition = (const PartitionCmd *) command->def;
	List	   *changes = NIL;

	if (command->subtype == AT_AddConstraint)
	{
		changes = sl_ddl_qualify_target(ddl, NIL, constraint);
		return sl_ddl_is_remote(alteration->table) ?
			sl_ddl_name_constraint((const AlterTableStmt *) ddl->node, &alteration->constraints, constraint, changes) :
			changes;
	}
	if (sl_ddl_is_remote(alteration->table) &&
		(command->subtype == AT_AttachPartition || command->subtype == AT_DetachPartition))
		changes = sl_ddl_rename_in(ddl, NIL, partition->name,
								   sl_ddl_name(RangeVarGetRelid(partition->name, NoLock, false)));
	return changes;
}

static void
add_piece(StringInfo sql, const Alteration *alteration, const char *piece)
{
	if (sql->len == 0)
		appendStringInfo(sql, "ALTER TABLE %s%s ", alteration->only ? "ONLY " : "",
						 alteration->name);
	else
		appendStringInfoString(sql, ", ");
	appendStringInfoString(sql, piece);
}

/* Changes of a reference table are carried by its primary key. */
static void
check_primary_key(const SlTable *table)
{
	Oid			constraint;

	if (table->kind != SL_TABLE_REFERENCE ||
		get_primary_key_attnos(table->relid, true, &constraint) != NULL)
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("table \"%s\" must have a primary key", get_rel_name(table->relid)),
			errdetail("It is a reference table, and its primary key says which row of a copy is meant."),
			errhint("Drop the old one and add the new one in one ALTER TABLE."));
}

/* What shards get ----------------------------------------------------------------- */

/* All triggers of users were meant, and not the guard. */
static void
guard_again(SlDdl *ddl, const SlTable *table)
{
	if (table->kind == SL_TABLE_SHARDED)
		sl_ddl_add_guard(ddl, table, sl_table_key_of(table));
}

/*
 * Writes what shards get, now that the statement has run on the router: one ALTER
 * TABLE, and around it what columns with special defaults need.
 */
static void
finish_alter(SlDdl *ddl)
{
	Alteration *alteration = ddl->state;
	List	   *shards = sl_table_homes(alteration->table);
	StringInfoData sql;
	List	   *after = NIL;
	ListCell   *cell;

	check_primary_key(alteration->table);
	if (sl_ddl_is_remote(alteration->table))
		sl_policy_check_bypass(alteration->table->relid, shards);
	sl_privilege_check_stored(alteration->table->relid, alteration->expressions);
	if (sl_ddl_is_remote(alteration->table))
		alteration->constraints = sl_ddl_unnamed_constraints(alteration->table->relid, (const AlterTableStmt *) ddl->node,
															 alteration->constraints);
	initStringInfo(&sql);
	foreach(cell, alteration->parts)
	{
		Part	   *part = lfirst(cell);
		const AlterTableCmd *command = part->command;

		if (part->target == ON_ROUTER || command->subtype == AT_ChangeOwner ||
			sets_own_default(alteration->table, part))
			continue;
		if (command->subtype == AT_AddColumn)
		{
			SlColumnText column = sl_ddl_add_column(ddl, alteration->table, alteration->name,
													(ColumnDef *) command->def, part->span);

			add_piece(&sql, alteration, column.piece);
			ddl->steps = list_concat(ddl->steps, column.before);
			after = list_concat(after, column.after);
		}
		else
		{
			sl_ddl_unguard_attached(command);
			add_piece(&sql, alteration, sl_ddl_changed(ddl, part->span, changes_of(ddl, alteration, command)));
		}
	}
	if (sql.len > 0)
		sl_ddl_add_step(ddl, shards, sql.data);
	ddl->steps = list_concat(ddl->steps, after);
	foreach(cell, alteration->parts)
	{
		const Part *part = lfirst(cell);
		const AlterTableCmd *command = part->command;

		if (sets_own_default(alteration->table, part))
			sl_ddl_set_own_default(ddl, alteration->table, alteration->name, command->name);
		if (command->subtype == AT_ChangeOwner)
			change_owner(ddl, alteration, command);
		if (command->subtype == AT_DisableTrigAll || command->subtype == AT_DisableTrigUser)
			guard_again(ddl, alteration->table);
		sl_ddl_guard_detached(ddl, command);
	}
}

static List *
make_parts(SlDdl *ddl, const SlTable *table, const AlterTableStmt *statement)
{
	List	   *spans = sl_ddl_split(ddl, statement->relation);
	List	   *parts = NIL;

	if (list_length(spans) != list_length(statement->cmds))
		elog(ERROR, "ALTER TABLE has %d subcommands, and its text %d",
			 list_length(statement->cmds), list_length(spans));
	for (int i = 0; i < list_length(spans); i++)
	{
		Part	   *part = palloc(sizeof(Part));

		part->command = list_nth(statement->cmds, i);
		part->span = *(SlSpan *) list_nth(spans, i);
		sl_ddl_check_alter_at_rest(table, part->command);
		part->target = choose_target(table, part->command);
		part->is_identity = part->command->subtype == AT_DropIdentity &&
			sl_ddl_draws(table->relid, part->command->name);
		parts = lappend(parts, part);
	}
	return parts;
}

/* PostgreSQL runs that in transactions of its own, on the router and on shards. */
static bool
is_detached_concurrently(const AlterTableStmt *statement)
{
	const AlterTableCmd *command = linitial(statement->cmds);

	return command->subtype == AT_DetachPartition && castNode(PartitionCmd, command->def)->concurrent;
}

static void
plan_table(SlDdl *ddl, SlTable *table)
{
	AlterTableStmt *statement = (AlterTableStmt *) ddl->node;
	Alteration *alteration = palloc0(sizeof(Alteration));

	sl_ddl_lock(statement->relation, AlterTableGetLockLevel(statement->cmds));
	alteration->table = table;
	alteration->name = sl_ddl_name(table->relid);
	alteration->only = !statement->relation->inh;
	alteration->parts = make_parts(ddl, table, statement);
	alteration->expressions = sl_privilege_stored(table->relid);
	if (sl_ddl_is_remote(table))
		alteration->constraints = sl_ddl_list_constraints(table->relid);
	sl_ddl_watch_alter(ddl, table);
	ddl->state = alteration;
	ddl->finish = finish_alter;
	ddl->is_separate = ddl->is_router_first = sl_ddl_is_remote(table) && is_detached_concurrently(statement);
	sl_ddl_add_shards(ddl, sl_table_homes(table));
	plan_on_router(ddl, alteration);
}

/*
 * A table that is not distributed must not become the parent of a distributed one,
 * nor its child.
 */
static void
check_relatives(const AlterTableStmt *statement)
{
	ListCell   *cell;

	foreach(cell, statement->cmds)
	{
		AlterTableCmd *command = lfirst(cell);
		SlTable    *table = NULL;

		if (command->subtype == AT_AttachPartition)
			table = sl_ddl_table(castNode(PartitionCmd, command->def)->name);
		else if (command->subtype == AT_AddInherit)
			table = sl_ddl_table(castNode(RangeVar, command->def));
		if (table != NULL)
			sl_ddl_refuse(table, "change the inheritance of", NULL);
	}
}

bool
sl_ddl_plan_alter(SlDdl *ddl)
{
	AlterTableStmt *statement = castNode(AlterTableStmt, ddl->node);
	SlTable    *table;

	if (statement->objtype == OBJECT_INDEX)
		return sl_ddl_plan_alter_index(ddl);
	if (statement->objtype == OBJECT_TYPE)
		return sl_ddl_plan_composite(ddl);
	if (statement->objtype != OBJECT_TABLE && statement->objtype != OBJECT_FOREIGN_TABLE)
		return false;
	table = sl_ddl_table(statement->relation);
	if (table != NULL)
		plan_table(ddl, table);
	else
		check_relatives(statement);
	return table != NULL;
}
