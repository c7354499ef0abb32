/*
 * create_shell_parts.c
 *		Keys, indexes, CHECK constraints, statistics and comments of a shell table
 *		that is attached.
 *
 * The router is to have what the shards' definition has, with two exceptions.
 *
 * A key that does not contain the shard key is unique on each shard, and not over
 * all of them.  PostgreSQL would believe it: GROUP BY of a primary key lets other
 * columns be selected, and a unique index proves that a join adds no rows.  Such a key
 * is a plain index on the router, and an exclusion constraint is left out.
 *
 * What cannot be created on the router, because an extension, an operator class or
 * a function is missing, or because the shards are of a newer version, is left out
 * with a notice.  The shards have it, and nothing depends on it here.
 *
 * Attaching again compares the commands: what the shards have no more, or in another
 * form, is dropped, and what is missing is created.  Neither needs a query, for
 * there are no rows to check.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "access/shell_access.h"
#include "base/base.h"
#include "ddl/definition.h"

/* What is known about a kind of item that the router has as well. */
typedef struct PartKind
{
	const char *kind;
	const char *label;			/* for messages, before the name */
	bool		is_object;		/* it can be dropped */
	bool		is_silent;		/* no notice if it is left out: it belongs to
								 * an object that has one */
} PartKind;

static const PartKind part_kinds[] = {
	{"options", "storage parameters", false, false},
	{"storage", "storage of column", false, false},
	{"compression", "compression of column", false, false},
	{"statistics_target", "statistics target of column", false, false},
	{"id_default", "default of column", false, false},
	{"primary_key", "primary key", true, false},
	{"unique", "unique constraint", true, false},
	{"exclusion", "exclusion constraint", true, false},
	{"index", "index", true, false},
	{"index_options", "storage parameters of index", false, true},
	{"cluster", "CLUSTER ON index", false, true},
	{"check", "CHECK constraint", true, false},
	{"statistics", "statistics", true, false},
	{"comment", "comment", false, true},
};

/* An item of the shards, and the command that makes it on the router. */
typedef struct Part
{
	const SlDefinitionItem *item;
	const PartKind *kind;		/* on the router */
	char	   *ddl;			/* another one than the item's: a plain index */
	char	   *obstacle;		/* why the router cannot have it, or NULL */
} Part;

typedef struct Parts
{
	Oid			relid;
	const SlDefinition *definition;
	List	   *key;			/* names of the shard key columns */
	bool		is_placed;
	List	   *wanted;			/* of Part, in order */
	Part	   *part;			/* the one that is tried now */
} Parts;

static const PartKind *
find_part_kind(const char *kind)
{
	for (int i = 0; i < (int) lengthof(part_kinds); i++)
	{
		if (strcmp(part_kinds[i].kind, kind) == 0)
			return &part_kinds[i];
	}
	return NULL;
}

/* Trying ---------------------------------------------------------------------- */

/* Does an error say that the router cannot have something, and nothing worse? */
static bool
is_about_definition(int sqlstate)
{
	return ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION ||
		ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_FEATURE_NOT_SUPPORTED ||
		ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_DATA_EXCEPTION ||
		ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_PROGRAM_LIMIT_EXCEEDED;
}

/*
 * Runs an action in a subtransaction.  If the router cannot have what it makes,
 * returns false and the message, in the current memory context; all other errors
 * are raised.
 */
bool
sl_shell_try(SlShellAction action, void *state, char **message)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool is_done = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		action(state);
		ReleaseCurrentSubTransaction();
		is_done = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();

		/*
		 * In any case: a caller that catches errors ends its own
		 * subtransaction only.
		 */
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (!is_about_definition(error->sqlerrcode))
			ReThrowError(error);
		*message = pstrdup(error->message);
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return is_done;
}

static void
tell_left_out(const Parts *parts, const Part *part)
{
	ereport(NOTICE,
			errmsg("%s \"%s\" of table \"%s\" is left out on the router", part->kind->label, part->item->name, parts->definition->name),
			errdetail_internal("%s", part->obstacle));
}

static void
tell_plain_index(const Parts *parts, const Part *part)
{
	const PartKind *kind = find_part_kind(part->item->kind);

	ereport(NOTICE,
			errmsg("%s \"%s\" of table \"%s\" is a plain index on the router",
				   kind == NULL || strcmp(part->item->kind, "index") == 0 ? "unique index" : kind->label,
				   part->item->name, parts->definition->name),
			errdetail("It does not contain the shard key, and so is unique on each shard only."));
}

/* Keys without the shard key -------------------------------------------------- */

static bool
has_name(List *names, const char *name)
{
	ListCell   *cell;

	foreach(cell, names)
	{
		if (strcmp(strVal(lfirst(cell)), name) == 0)
			return true;
	}
	return false;
}

static bool
has_element(List *elements, const char *name)
{
	ListCell   *cell;

	foreach(cell, elements)
	{
		const IndexElem *element = lfirst_node(IndexElem, cell);

		if (element->name != NULL && strcmp(element->name, name) == 0)
			return true;
	}
	return false;
}

/* EXCLUDE (name WITH =) */
static bool
has_exclusion(List *exclusions, const char *name)
{
	ListCell   *cell;

	foreach(cell, exclusions)
	{
		const IndexElem *element = linitial_node(IndexElem, lfirst(cell));
		List	   *operator = lsecond_node(List, lfirst(cell));

		if (element->name != NULL && strcmp(element->name, name) == 0 && strcmp(strVal(llast(operator)), "=") == 0)
			return true;
	}
	return false;
}

/* Do rows that a key compares always have the same shard key? */
static bool
contains_shard_key(const Parts *parts, const IndexStmt *index, const Constraint *constraint)
{
	ListCell   *cell;

	if (parts->is_placed)
		return true;
	foreach(cell, parts->key)
	{
		if (index != NULL ? !has_element(index->indexParams, lfirst(cell)) :
			!has_name(constraint->keys, lfirst(cell)) && !has_exclusion(constraint->exclusions, lfirst(cell)))
			return false;
	}
	return parts->key != NIL;
}

static char *
join_names(List *names)
{
	StringInfoData result;
	ListCell   *cell;

	initStringInfo(&result);
	foreach(cell, names)
		appendStringInfo(&result, "%s%s", result.len > 0 ? ", " : "", quote_identifier(strVal(lfirst(cell))));
	return result.data;
}

/* The index in place of a constraint, as pg_get_indexdef() writes it. */
static char *
plain_index_sql(const RangeVar *table, const Constraint *constraint)
{
	char	   *name = pstrdup(quote_identifier(constraint->conname));
	char	   *include = constraint->including == NIL ? "" :
	psprintf(" INCLUDE (%s)", join_names(constraint->including));

	return psprintf("CREATE INDEX %s ON %s USING btree (%s)%s", name,
					quote_qualified_identifier(table->schemaname, table->relname), join_names(constraint->keys),
					include);
}

static void
adapt_constraint(Parts *parts, Part *part, const AlterTableStmt *statement)
{
	const AlterTableCmd *command = linitial_node(AlterTableCmd, statement->cmds);
	const Constraint *constraint = (const Constraint *) command->def;

	if (command->subtype != AT_AddConstraint || !IsA(constraint, Constraint))
		sl_received_refuse(part->item->ddl, parts->definition->schema, parts->definition->name);
	if (constraint->contype == CONSTR_CHECK || contains_shard_key(parts, NULL, constraint))
		return;
	if (constraint->contype == CONSTR_EXCLUSION)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("It does not contain the shard key, and so holds on each shard only."));
	part->kind = find_part_kind("index");
	part->ddl = plain_index_sql(statement->relation, constraint);
}

static void
adapt_index(Parts *parts, Part *part, const IndexStmt *statement)
{
	const char *unique = "CREATE UNIQUE INDEX ";

	if (!statement->unique || contains_shard_key(parts, statement, NULL))
		return;
	if (strncmp(part->item->ddl, unique, strlen(unique)) != 0)
		sl_received_refuse(part->item->ddl, parts->definition->schema, parts->definition->name);
	part->ddl = psprintf("CREATE INDEX %s", part->item->ddl + strlen(unique));
}

/* Decides what the router gets for an item; an error says that it is left out. */
static void
adapt_part(void *state)
{
	Parts	   *parts = state;
	Part	   *part = parts->part;
	Node	   *statement = sl_received_parse(part->item->ddl, parts->definition, InvalidOid);

	if (IsA(statement, AlterTableStmt) && part->kind->is_object)
		adapt_constraint(parts, part, (AlterTableStmt *) statement);
	else if (IsA(statement, IndexStmt))
		adapt_index(parts, part, (IndexStmt *) statement);
}

/* Has an index in place of a constraint been chosen for these options? */
static bool
is_of_plain_index(const Parts *parts, const SlDefinitionItem *item)
{
	ListCell   *cell;

	if (strcmp(item->kind, "index_options") != 0)
		return false;
	foreach(cell, parts->wanted)
	{
		const Part *part = lfirst(cell);

		if (part->ddl != NULL && strcmp(part->item->name, item->name) == 0)
			return true;
	}
	return false;
}

static void
find_wanted(Parts *parts)
{
	bool		has_next_id = sl_definition_has_next_id();
	ListCell   *cell;

	foreach(cell, parts->definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);
		const PartKind *kind = find_part_kind(item->kind);
		Part	   *part;

		if (kind == NULL || item->ddl == NULL || is_of_plain_index(parts, item) ||
			(strcmp(item->kind, "id_default") == 0 && !has_next_id))
			continue;
		part = palloc0(sizeof(Part));
		part->item = item;
		part->kind = kind;
		parts->part = part;
		if (kind->is_object)
			(void) sl_shell_try(adapt_part, parts, &part->obstacle);
		parts->wanted = lappend(parts->wanted, part);
	}
}

/* Comparing ------------------------------------------------------------------- */

static const char *
command_of(const Part *part)
{
	return part->ddl != NULL ? part->ddl : part->item->ddl;
}

static bool
is_wanted(const Parts *parts, const SlDefinitionItem *item)
{
	ListCell   *cell;

	foreach(cell, parts->wanted)
	{
		const Part *part = lfirst(cell);

		if (part->obstacle == NULL && strcmp(part->kind->kind, item->kind) == 0 &&
			strcmp(command_of(part), item->ddl) == 0)
			return true;
	}
	return false;
}

static bool
is_present(const SlDefinition *on_router, const Part *part)
{
	ListCell   *cell;

	foreach(cell, on_router->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (item->ddl != NULL && strcmp(part->kind->kind, item->kind) == 0 &&
			strcmp(command_of(part), item->ddl) == 0)
			return true;
	}
	return false;
}

/* The command that drops what a command of the router's own definition makes. */
static char *
drop_sql(const SlDefinitionItem *item)
{
	Node	   *statement = linitial_node(RawStmt, raw_parser(item->ddl, RAW_PARSE_DEFAULT))->stmt;

	if (IsA(statement, AlterTableStmt))
	{
		const AlterTableStmt *alter = castNode(AlterTableStmt, statement);
		const AlterTableCmd *command = linitial_node(AlterTableCmd, alter->cmds);

		return psprintf("ALTER TABLE %s DROP CONSTRAINT %s",
						quote_qualified_identifier(alter->relation->schemaname, alter->relation->relname),
						quote_identifier(castNode(Constraint, command->def)->conname));
	}
	if (IsA(statement, IndexStmt))
	{
		const IndexStmt *index = castNode(IndexStmt, statement);

		return psprintf("DROP INDEX %s",
						quote_qualified_identifier(index->relation->schemaname, index->idxname));
	}
	return psprintf("DROP STATISTICS %s",
					quote_qualified_identifier(strVal(linitial(castNode(CreateStatsStmt, statement)->defnames)),
											   strVal(llast(castNode(CreateStatsStmt, statement)->defnames))));
}

/* Drops on the router what an item of its own definition says that it has. */
void
sl_shell_drop_part(const SlDefinitionItem *item)
{
	sl_received_run_own(drop_sql(item));
}

/* Returns what the router has and the shards do not: SlDefinitionItems. */
static List *
find_obsolete(const Parts *parts, const SlDefinition *on_router)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, on_router->items)
	{
		SlDefinitionItem *item = lfirst(cell);
		const PartKind *kind = find_part_kind(item->kind);

		if (kind != NULL && kind->is_object && !is_wanted(parts, item))
			result = lappend(result, item);
	}
	return result;
}

/* Creating -------------------------------------------------------------------- */

/* No row of the router could violate a CHECK constraint; those of the shards do not. */
static void
skip_validation(Node *statement)
{
	ListCell   *cell;

	if (!IsA(statement, AlterTableStmt))
		return;
	foreach(cell, castNode(AlterTableStmt, statement)->cmds)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);

		if (command->subtype == AT_AddConstraint && castNode(Constraint, command->def)->contype == CONSTR_CHECK)
			castNode(Constraint, command->def)->skip_validation = true;
	}
}

/*
 * Runs a statement that adds an exclusion constraint: PostgreSQL looks for conflicting
 * rows in the heaps.
 */
static void
execute_open(Oid relid, Node *statement, const char *sql)
{
	List	   *tables = find_all_inheritors(relid, AccessExclusiveLock, NULL);
	ListCell   *cell;

	foreach(cell, tables)
		sl_shell_open(lfirst_oid(cell));
	sl_received_execute(statement, sql);
	foreach(cell, tables)
		sl_shell_close(lfirst_oid(cell));
}

static void
create_part(void *state)
{
	const Parts *parts = state;
	const char *sql = command_of(parts->part);
	Node	   *statement = sl_received_parse(sql, parts->definition, InvalidOid);

	skip_validation(statement);
	if (strcmp(parts->part->kind->kind, "exclusion") == 0)
		execute_open(parts->relid, statement, sql);
	else
		sl_received_execute(statement, sql);
}

static void
create_missing(Parts *parts, const SlDefinition *on_router)
{
	ListCell   *cell;

	foreach(cell, parts->wanted)
	{
		Part	   *part = lfirst(cell);

		if (part->obstacle == NULL && is_present(on_router, part))
			continue;
		parts->part = part;
		if (part->obstacle == NULL && sl_shell_try(create_part, parts, &part->obstacle))
		{
			if (part->ddl != NULL)
				tell_plain_index(parts, part);
		}
		else if (!part->kind->is_silent)
			tell_left_out(parts, part);
	}
}

static void
begin_parts(Parts *parts, const SlTable *table, const SlDefinition *definition)
{
	parts->relid = table->relid;
	parts->definition = definition;
	parts->key = sl_table_key_of(table);
	parts->is_placed = table->kind == SL_TABLE_PLACED;
	find_wanted(parts);
}

static void
drop_obsolete(const Parts *parts, const SlDefinition *on_router)
{
	List	   *obsolete = find_obsolete(parts, on_router);
	ListCell   *cell;

	if (obsolete != NIL)
		sl_shell_drop_foreign_keys(parts->relid, false);
	foreach(cell, obsolete)
		sl_shell_drop_part(lfirst(cell));
}

/*
 * Drops the keys, indexes and other parts of a shell table that the shards have no
 * more, or in another form.  This precedes changes of columns, which they might
 * prevent.  Foreign keys, which may depend on such a key, go before it; the caller
 * creates them again.
 */
void
sl_shell_drop_obsolete_parts(const SlTable *table, const SlDefinition *definition)
{
	Parts		parts = {0};

	begin_parts(&parts, table, definition);
	drop_obsolete(&parts, sl_definition_read_local(table->relid));
}

/*
 * Makes the keys, indexes and other parts of a shell table, and of its partitions,
 * what they are on the shards.  The table has the shards' columns and partitions.
 * The caller creates foreign keys again.
 */
void
sl_shell_refresh_parts(const SlTable *table, const SlDefinition *definition)
{
	Parts		parts = {0};
	SlDefinition *on_router = sl_definition_read_local(table->relid);

	begin_parts(&parts, table, definition);
	drop_obsolete(&parts, on_router);
	create_missing(&parts, on_router);
}

/* Back ------------------------------------------------------------------------ */

/* Is it something that a plain table has, and a shell table may lack? */
static bool
is_restored(const SlDefinitionItem *item)
{
	static const char *const kinds[] = {"primary_key", "unique", "exclusion", "index", "trigger", "trigger_state",
	"replica_identity"};

	for (int i = 0; i < (int) lengthof(kinds); i++)
	{
		if (strcmp(item->kind, kinds[i]) == 0)
			return true;
	}
	return false;
}

/*
 * Gives a table that was attached, and is a plain one with its rows now, the keys
 * that were plain indexes, and its triggers.  What cannot be created is an error.
 */
void
sl_shell_restore_parts(Oid relid, const SlDefinition *definition)
{
	SlDefinition *on_router = sl_definition_read_local(relid);
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);
		const SlDefinitionItem *index = sl_definition_find(on_router, "index", item->name);
		Part		part = {.item = item,.kind = &(PartKind) {.kind = item->kind}};

		if (!is_restored(item) || is_present(on_router, &part))
			continue;
		if (index != NULL && item->phase <= SL_PHASE_INDEXES)
			sl_shell_drop_part(index);
		sl_received_execute(sl_received_parse(item->ddl, definition, InvalidOid), item->ddl);
	}
}
