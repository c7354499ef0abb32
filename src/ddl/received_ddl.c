/*
 * received_ddl.c
 *		DDL that a shard has written, before it is run on the router.
 *
 * attach(), undistribute() and IMPORT FOREIGN SCHEMA make tables of the router by
 * the commands that a shard's catalogs give for its own.  The shard may be another
 * one than it seems, or taken over, and the caller is often a superuser.  So such a
 * command is parsed first.  It must be one statement, of a kind that defines a
 * table, an index or a type, and concern the table that it was asked for, or one
 * of the partitions that the router makes along with it.  Its expressions
 * (defaults, generated columns, CHECK constraints, index expressions, partition
 * bounds) may compute values and nothing more: they would be evaluated with the
 * rights of the router's users, and what a default returns is stored on the shard.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_statistic_ext.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "tcop/dest.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "ddl/definition.h"

/* The table that a command may concern, and its partitions, if it may have any. */
typedef struct Received
{
	const char *sql;
	const char *schema;
	const char *name;
	List	   *partitions;		/* of RangeVar */
	bool		is_shell;		/* foreign keys refer to "referenced" only */
	Oid			referenced;		/* or invalid: there may be none */
} Received;

/* Raises the error for a command that does not define what it was asked for. */
void
sl_received_refuse(const char *sql, const char *schema, const char *name)
{
	ereport(ERROR,
			errcode(ERRCODE_PROTOCOL_VIOLATION),
			errmsg("a shard has sent a definition that is not one of table %s",
				   quote_qualified_identifier(schema, name)),
			errdetail("It is: %s", sql));
}

pg_noreturn static void
refuse_command(const Received *received)
{
	sl_received_refuse(received->sql, received->schema, received->name);
}

/* Functions ------------------------------------------------------------------- */

/* Built-in functions that do not always return the same, and read or change nothing. */
static bool
is_safe_volatile(const char *name)
{
	static const char *const names[] = {"clock_timestamp", "gen_random_uuid", "random", "random_normal",
	"timeofday", "uuidv4", "uuidv7"};

	for (int i = 0; i < (int) lengthof(names); i++)
	{
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return false;
}

/* Built-in stable functions that return what is in tables or settings. */
static bool
reads_database(const char *name)
{
	return strstr(name, "_to_xml") != NULL || strcmp(name, "current_setting") == 0;
}

static bool
is_built_in_safe(const Form_pg_proc function)
{
	const char *name = NameStr(function->proname);

	if (function->provolatile == PROVOLATILE_STABLE)
		return !reads_database(name);
	return is_safe_volatile(name);
}

/* Does a function compute a value, and nothing more? */
static bool
is_safe_function(Oid oid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(oid));
	Form_pg_proc function;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	function = (Form_pg_proc) GETSTRUCT(tuple);
	result = function->provolatile == PROVOLATILE_IMMUTABLE ||
		(oid < FirstGenbkiObjectId && is_built_in_safe(function));
	ReleaseSysCache(tuple);
	return result;
}

/* next_id() is what columns of ids have instead of a shard's own sequence. */
static bool
is_next_id(const List *name)
{
	return list_length(name) == 2 && strcmp(strVal(linitial(name)), SL_SCHEMA) == 0 &&
		strcmp(strVal(lsecond(name)), "next_id") == 0;
}

/* All functions that the name could mean: which one it is depends on types. */
static bool
is_safe_call(List *name)
{
	FuncCandidateList candidates = FuncnameGetCandidates(name, -1, NIL, false, false, false, true);

	for (; candidates != NULL; candidates = candidates->next)
	{
		if (!is_safe_function(candidates->oid))
			return is_next_id(name);
	}
	return true;
}

static bool
is_safe_operator(List *name)
{
	FuncCandidateList candidates = OpernameGetCandidates(name, '\0', true);

	for (; candidates != NULL; candidates = candidates->next)
	{
		if (!is_safe_function(get_opcode(candidates->oid)))
			return false;
	}
	return true;
}

pg_noreturn static void
refuse_function(const Received *received, List *name)
{
	ereport(ERROR,
			errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("the definition of table \"%s\" on the shards calls %s, which may do more than compute a value",
				   received->name, NameListToString(name)),
			errdetail("It would be called on the router, with the rights of its users."),
			errhint("Drop the default or constraint on the shards, and add it on the router afterwards."));
}

static bool
check_expression(Node *node, void *context)
{
	const Received *received = context;

	if (node == NULL)
		return false;
	if (IsA(node, FuncCall) && !is_safe_call(castNode(FuncCall, node)->funcname))
		refuse_function(received, castNode(FuncCall, node)->funcname);
	if (IsA(node, A_Expr) && !is_safe_operator(castNode(A_Expr, node)->name))
		refuse_function(received, castNode(A_Expr, node)->name);
	if (IsA(node, SubLink))
		refuse_command(received);
	return raw_expression_tree_walker(node, check_expression, context);
}

/* Clauses --------------------------------------------------------------------- */

static void
check_index_elements(Received *received, List *elements)
{
	ListCell   *cell;

	foreach(cell, elements)
		(void) check_expression(lfirst_node(IndexElem, cell)->expr, received);
}

/* A foreign key restricts changes of the table that it refers to. */
static void
check_referenced(const Received *received, const RangeVar *referenced)
{
	if (!OidIsValid(received->referenced) || referenced->schemaname == NULL ||
		RangeVarGetRelid(referenced, NoLock, true) != received->referenced)
		refuse_command(received);
}

static void
check_constraint(Received *received, const Constraint *constraint)
{
	ListCell   *cell;

	if (constraint->contype == CONSTR_FOREIGN && received->is_shell)
		check_referenced(received, constraint->pktable);
	(void) check_expression(constraint->raw_expr, received);
	(void) check_expression(constraint->where_clause, received);
	foreach(cell, constraint->exclusions)
	{
		(void) check_expression(linitial_node(IndexElem, lfirst(cell))->expr, received);
		if (!is_safe_operator(lsecond(lfirst(cell))))
			refuse_function(received, lsecond(lfirst(cell)));
	}
}

/* Definitions add foreign keys by ALTER TABLE, whose caller knows the other table. */
static void
refuse_foreign_key(const Received *received, Node *element)
{
	if (IsA(element, Constraint) && castNode(Constraint, element)->contype == CONSTR_FOREIGN)
		refuse_command(received);
}

static void
check_column(Received *received, const ColumnDef *column)
{
	ListCell   *cell;

	(void) check_expression(column->raw_default, received);
	foreach(cell, column->constraints)
	{
		refuse_foreign_key(received, lfirst(cell));
		check_constraint(received, lfirst_node(Constraint, cell));
	}
}

/* A column, a constraint, the default or the type of a column. */
static void
check_element(Received *received, Node *element)
{
	if (element == NULL)
		return;
	if (IsA(element, ColumnDef))
		check_column(received, (ColumnDef *) element);
	else if (IsA(element, Constraint))
		check_constraint(received, (Constraint *) element);
	else if (!IsA(element, List) && !IsA(element, ReplicaIdentityStmt) && !IsA(element, String) && !IsA(element, Integer))
		(void) check_expression(element, received);
}

static bool
is_named(const RangeVar *relation, const char *schema, const char *name)
{
	return relation->schemaname != NULL && strcmp(relation->schemaname, schema) == 0 &&
		strcmp(relation->relname, name) == 0;
}

static bool
is_partition(const Received *received, const RangeVar *relation)
{
	ListCell   *cell;

	foreach(cell, received->partitions)
	{
		const RangeVar *partition = lfirst_node(RangeVar, cell);

		if (is_named(relation, partition->schemaname, partition->relname))
			return true;
	}
	return false;
}

static void
check_relation(const Received *received, const RangeVar *relation)
{
	if (relation == NULL ||
		(!is_named(relation, received->schema, received->name) && !is_partition(received, relation)))
		refuse_command(received);
}

/* The same for a table that exists on the router. */
static void
check_relation_oid(const Received *received, Oid relid)
{
	if (!OidIsValid(relid) || get_rel_name(relid) == NULL)
		refuse_command(received);
	check_relation(received, makeRangeVar(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid), -1));
}

static void
check_index(const Received *received, const RangeVar *index)
{
	Oid			oid = RangeVarGetRelid(index, NoLock, true);

	if (!OidIsValid(oid) ||
		(get_rel_relkind(oid) != RELKIND_INDEX && get_rel_relkind(oid) != RELKIND_PARTITIONED_INDEX))
		refuse_command(received);
	check_relation_oid(received, IndexGetRelation(oid, false));
}

/* PARTITION BY; columns without an expression are named. */
static void
check_partition_key(Received *received, const PartitionSpec *key)
{
	ListCell   *cell;

	if (key == NULL)
		return;
	foreach(cell, key->partParams)
		(void) check_expression(lfirst_node(PartitionElem, cell)->expr, received);
}

/* ATTACH PARTITION ... FOR VALUES */
static void
check_partition_bound(Received *received, const PartitionCmd *command)
{
	if (!is_partition(received, command->name) || command->bound == NULL)
		refuse_command(received);
	(void) check_expression((Node *) command->bound->listdatums, received);
	(void) check_expression((Node *) command->bound->lowerdatums, received);
	(void) check_expression((Node *) command->bound->upperdatums, received);
}

/* Statements ------------------------------------------------------------------ */

static void
check_create(Received *received, const CreateStmt *statement)
{
	ListCell   *cell;

	check_relation(received, statement->relation);
	if (statement->inhRelations != NIL || statement->partbound != NULL || statement->ofTypename != NULL ||
		statement->accessMethod != NULL || statement->tablespacename != NULL)
		refuse_command(received);
	foreach(cell, statement->tableElts)
	{
		if (IsA(lfirst(cell), TableLikeClause))
			refuse_command(received);
		refuse_foreign_key(received, lfirst(cell));
		check_element(received, lfirst(cell));
	}
	foreach(cell, statement->constraints)
		check_element(received, lfirst(cell));
	check_partition_key(received, statement->partspec);
}

static bool
may_alter(AlterTableType type)
{
	switch (type)
	{
		case AT_AddColumn:
		case AT_ColumnDefault:
		case AT_DropNotNull:
		case AT_SetNotNull:
		case AT_SetStatistics:
		case AT_SetOptions:
		case AT_SetStorage:
		case AT_SetCompression:
		case AT_DropColumn:
		case AT_AddConstraint:
		case AT_DropConstraint:
		case AT_AlterColumnType:
		case AT_ClusterOn:
		case AT_SetRelOptions:
		case AT_EnableTrig:
		case AT_EnableAlwaysTrig:
		case AT_EnableReplicaTrig:
		case AT_DisableTrig:
		case AT_ReplicaIdentity:
		case AT_AttachPartition:
			return true;
		default:
			return false;
	}
}

static void
check_alter(Received *received, const AlterTableStmt *statement)
{
	ListCell   *cell;

	if (statement->objtype == OBJECT_INDEX)
		check_index(received, statement->relation);
	else
		check_relation(received, statement->relation);
	foreach(cell, statement->cmds)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);

		if (!may_alter(command->subtype))
			refuse_command(received);
		if (command->subtype == AT_AlterColumnType || command->subtype == AT_AddColumn ||
			command->subtype == AT_AddConstraint || command->subtype == AT_ColumnDefault)
			check_element(received, command->def);
		else if (command->subtype == AT_AttachPartition)
			check_partition_bound(received, castNode(PartitionCmd, command->def));
	}
}

static void
check_create_index(Received *received, const IndexStmt *statement)
{
	check_relation(received, statement->relation);
	check_index_elements(received, statement->indexParams);
	(void) check_expression(statement->whereClause, received);
}

static void
check_create_trigger(Received *received, const CreateTrigStmt *statement)
{
	check_relation(received, statement->relation);
	(void) check_expression(statement->whenClause, received);
}

static void
check_create_statistics(Received *received, const CreateStatsStmt *statement)
{
	ListCell   *cell;

	if (list_length(statement->relations) != 1 || !IsA(linitial(statement->relations), RangeVar))
		refuse_command(received);
	check_relation(received, linitial(statement->relations));
	foreach(cell, statement->exprs)
		(void) check_expression(lfirst_node(StatsElem, cell)->expr, received);
}

static void
check_create_domain(Received *received, const CreateDomainStmt *statement)
{
	ListCell   *cell;

	foreach(cell, statement->constraints)
		check_element(received, lfirst(cell));
}

/* The table that statistics are of. */
static Oid
table_of_statistics(List *names)
{
	Oid			oid = get_statistics_object_oid(names, true);
	HeapTuple	tuple = SearchSysCache1(STATEXTOID, ObjectIdGetDatum(oid));
	Oid			result;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	result = ((Form_pg_statistic_ext) GETSTRUCT(tuple))->stxrelid;
	ReleaseSysCache(tuple);
	return result;
}

/* The name of a part of a table begins with that of the table. */
static void
check_comment(Received *received, const CommentStmt *statement)
{
	List	   *names;

	if (statement->object == NULL || !IsA(statement->object, List))
		refuse_command(received);
	names = castNode(List, statement->object);
	switch (statement->objtype)
	{
		case OBJECT_TABLE:
			check_relation(received, makeRangeVarFromNameList(names));
			break;
		case OBJECT_COLUMN:
		case OBJECT_TABCONSTRAINT:
		case OBJECT_TRIGGER:
			check_relation(received, makeRangeVarFromNameList(list_copy_head(names, list_length(names) - 1)));
			break;
		case OBJECT_INDEX:
			check_index(received, makeRangeVarFromNameList(names));
			break;
		case OBJECT_STATISTIC_EXT:
			check_relation_oid(received, table_of_statistics(names));
			break;
		default:
			refuse_command(received);
	}
}

static void
check_statement(Received *received, Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_CreateStmt:
			check_create(received, (CreateStmt *) statement);
			break;
		case T_AlterTableStmt:
			check_alter(received, (AlterTableStmt *) statement);
			break;
		case T_IndexStmt:
			check_create_index(received, (IndexStmt *) statement);
			break;
		case T_CreateTrigStmt:
			check_create_trigger(received, (CreateTrigStmt *) statement);
			break;
		case T_CreateStatsStmt:
			check_create_statistics(received, (CreateStatsStmt *) statement);
			break;
		case T_CreateDomainStmt:
			check_create_domain(received, (CreateDomainStmt *) statement);
			break;
		case T_CommentStmt:
			check_comment(received, (CommentStmt *) statement);
			break;
		case T_CreateSchemaStmt:
			if (((CreateSchemaStmt *) statement)->schemaElts != NIL || ((CreateSchemaStmt *) statement)->authrole != NULL)
				refuse_command(received);
			break;
		case T_CreateEnumStmt:
		case T_CompositeTypeStmt:
		case T_CreateRangeStmt:
			break;
		default:
			refuse_command(received);
	}
}

static Node *
parse_command(const Received *received)
{
	List	   *statements = raw_parser(received->sql, RAW_PARSE_DEFAULT);

	if (list_length(statements) != 1)
		refuse_command(received);
	return linitial_node(RawStmt, statements)->stmt;
}

/*
 * Refuses a command that a shard has written unless it defines something of a table,
 * or a type that the table uses, and its expressions only compute values.
 */
static void
check_received(const char *sql, const char *schema, const char *name)
{
	Received	received = {.sql = sql,.schema = schema,.name = name};

	check_statement(&received, parse_command(&received));
}

/* From now on DDL of the router is not carried to the shards; returns the level to end. */
static int
begin_router_only(void)
{
	int			level = NewGUCNestLevel();

	(void) set_config_option("shardlet.carry_ddl", "off", PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, DEBUG5, false);
	return level;
}

/* Runs such a command on the router, and only there: DDL is not carried to the shards. */
void
sl_received_run(const char *sql, const char *schema, const char *name)
{
	check_received(sql, schema, name);
	sl_received_run_own(sql);
}

/* Runs a command of this extension on the router only. */
void
sl_received_run_own(const char *sql)
{
	int			level = begin_router_only();

	if (SPI_connect() != SPI_OK_CONNECT || SPI_execute(sql, false, 0) < 0)
		elog(ERROR, "could not run: %s", sql);
	SPI_finish();
	AtEOXact_GUC(true, level);
}

/* Tables with partitions ------------------------------------------------------ */

/*
 * Returns the statement that a command is, checked, for sl_received_execute().
 * "referenced" is the table that a foreign key may refer to, if any.  A table becomes a heap without options, whatever it is on the shards: access
 * methods and their options need not exist on the router.
 */
Node *
sl_received_parse(const char *sql, const SlDefinition *definition, Oid referenced)
{
	Received	received = {.sql = sql,.schema = definition->schema,.name = definition->name,
	.partitions = definition->partitions,.is_shell = true,.referenced = referenced};
	Node	   *statement = parse_command(&received);

	if (IsA(statement, CreateStmt))
	{
		castNode(CreateStmt, statement)->accessMethod = NULL;
		castNode(CreateStmt, statement)->options = NIL;
	}
	check_statement(&received, statement);
	if (IsA(statement, CreateStmt) && castNode(CreateStmt, statement)->partspec == NULL)
		castNode(CreateStmt, statement)->accessMethod = pstrdup("heap");
	return statement;
}

/* Runs a statement of sl_received_parse(), which it changes, on the router only. */
void
sl_received_execute(Node *statement, const char *sql)
{
	int			level = begin_router_only();
	PlannedStmt *wrapper = makeNode(PlannedStmt);

	wrapper->commandType = CMD_UTILITY;
	wrapper->utilityStmt = statement;
	wrapper->stmt_location = -1;
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	ProcessUtility(wrapper, sql, false, PROCESS_UTILITY_QUERY, NULL, NULL, None_Receiver, NULL);
	PopActiveSnapshot();
	CommandCounterIncrement();
	AtEOXact_GUC(true, level);
}

/*
 * Finds the names of the partitions that a definition makes: commands may concern
 * those too.  What a partition has is named after it without its schema, so no
 * two of them may have the same name.
 */
void
sl_received_find_partitions(SlDefinition *definition)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);
		Received	received = {.sql = item->ddl,.schema = definition->schema,.name = definition->name};
		Node	   *statement;

		if (strcmp(item->kind, "partition") != 0)
			continue;
		statement = parse_command(&received);
		if (!IsA(statement, CreateStmt) || castNode(CreateStmt, statement)->relation->schemaname == NULL ||
			strcmp(castNode(CreateStmt, statement)->relation->relname, item->name) != 0)
			refuse_command(&received);
		if (sl_definition_find(definition, "partition", item->name) != item)
			ereport(ERROR,
					errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("table \"%s\" has two partitions with the name \"%s\"", definition->name, item->name));
		definition->partitions = lappend(definition->partitions, castNode(CreateStmt, statement)->relation);
	}
}
