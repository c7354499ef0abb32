/*
 * add_column.c
 *		ADD COLUMN: what existing rows get, and where new values come from.
 *
 * A default that is evaluated once for all rows, as now() is, has one value for the
 * rows of all shards: the router computes it.  A default that draws from a sequence
 * draws from the router's; the rows that exist are numbered by a sequence that each
 * shard has for the length of the statement, beginning where the one before ends.
 * After that, such a column has no default on the shards but shardlet.next_id(), for
 * sessions that insert there directly.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/heap.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_sequence.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_node.h"
#include "parser/parse_type.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/ddl_internal.h"

static bool
find_nextval(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, NextValueExpr))
		return true;
	if (IsA(node, FuncExpr) && ((FuncExpr *) node)->funcid == F_NEXTVAL)
		return true;
	return expression_tree_walker(node, find_nextval, context);
}

/* Returns the column's default, NULL if it has none or is generated. */
static Node *
default_of(Oid relid, const char *column)
{
	AttrNumber	number = get_attnum(relid, column);
	Relation	relation;
	Node	   *result = NULL;

	if (number <= 0)
		return NULL;
	relation = table_open(relid, NoLock);
	if (TupleDescAttr(RelationGetDescr(relation), number - 1)->attgenerated == '\0')
		result = build_column_default(relation, number);
	table_close(relation, NoLock);
	return result;
}

/* Do the column's values come from a sequence? */
bool
sl_ddl_draws(Oid relid, const char *column)
{
	return find_nextval(default_of(relid, column), NULL);
}

static SlDdlStep *
make_step(List *shards, char *sql)
{
	SlDdlStep  *step = palloc0(sizeof(SlDdlStep));

	step->shards = shards;
	step->sql = sql;
	return step;
}

/* Returns the steps that give a column the default that it has on shards. */
static List *
own_default_steps(const SlTable *table, const char *table_name, const char *column)
{
	bool		is_wide = get_atttype(table->relid, get_attnum(table->relid, column)) == INT8OID;
	bool		draws = is_wide && OidIsValid(sl_ddl_own_function("next_id")) && sl_ddl_draws(table->relid, column);
	List	   *with = NIL;
	List	   *without = NIL;
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_table_homes(table))
	{
		SlShard    *shard = lfirst(cell);

		if (draws && !shard->bare)
			with = lappend(with, shard);
		else
			without = lappend(without, shard);
	}
	if (with != NIL)
		result = lappend(result, make_step(with, psprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT shardlet.next_id()",
														  table_name, quote_identifier(column))));
	if (without != NIL)
		result = lappend(result, make_step(without, psprintf("ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT",
															 table_name, quote_identifier(column))));
	return result;
}

void
sl_ddl_set_own_default(SlDdl *ddl, const SlTable *table, const char *table_name,
					   const char *column)
{
	ddl->steps = list_concat(ddl->steps, own_default_steps(table, table_name, column));
}

/* Returns where a clause of the column's definition stands. */
static SlSpan
clause_span(const ColumnDef *column, int location, SlSpan whole)
{
	SlSpan		span = {location, whole.end};
	ListCell   *cell;

	foreach(cell, column->constraints)
	{
		int			other = ((Constraint *) lfirst(cell))->location;

		if (other > location)
			span.end = Min(span.end, other);
	}
	if (column->collClause != NULL && column->collClause->location > location)
		span.end = Min(span.end, column->collClause->location);
	return span;
}

static const Constraint *
find_clause(const ColumnDef *column, ConstrType type)
{
	ListCell   *cell;

	foreach(cell, column->constraints)
	{
		const Constraint *constraint = lfirst(cell);

		if (constraint->contype == type)
			return constraint;
	}
	return NULL;
}

/* Returns the changes that qualify the tables that it refers to. */
static List *
target_changes(const SlDdl *ddl, const ColumnDef *column)
{
	List	   *changes = NIL;
	ListCell   *cell;

	foreach(cell, column->constraints)
		changes = sl_ddl_qualify_target(ddl, changes, lfirst(cell));
	return changes;
}

/* Returns a change that puts something in the place of DEFAULT. */
static SlChange *
replace_default(const SlDdl *ddl, const SlTable *table, const ColumnDef *column, SlSpan whole,
				const char *replacement)
{
	const Constraint *clause = find_clause(column, CONSTR_DEFAULT);
	SlChange   *change = palloc(sizeof(SlChange));
	int			location = column->typeName->location;

	if (clause == NULL)
		clause = find_clause(column, CONSTR_IDENTITY);
	if (clause != NULL)
	{
		change->span = clause_span(column, clause->location, whole);
		change->replacement = psprintf("%s ", replacement);
		return change;
	}

	/* Serial: it is a word in the place of a type, and nothing else. */
	change->span.start = location;
	change->span.end = location + (int) strcspn(ddl->source + location, " \t\n\r\f\v,;/-)\"");
	if (ddl->source[location] == '"')
		change->span.end = location + 2 + (int) strcspn(ddl->source + location + 1, "\"");
	change->replacement = psprintf("%s %s",
								   format_type_be_qualified(get_atttype(table->relid, get_attnum(table->relid, column->colname))),
								   replacement);
	return change;
}

/*
 * Counts the rows of a table on each of its shards.  No session can add one from then
 * on, not even one that is connected to a shard directly.
 */
static int64
count_rows(const SlTable *table, const char *table_name, SlReply **replies, int *count)
{
	int64		total = 0;

	sl_ddl_run_now(sl_table_homes(table), psprintf("LOCK TABLE %s", table_name));
	*replies = sl_ddl_query_shard(sl_table_homes(table),
								  psprintf("SELECT pg_catalog.count(*) FROM %s", table_name), NULL, count);
	for (int i = 0; i < *count; i++)
		total += sl_protocol_count((*replies)[i].conn, (*replies)[i].value);
	return total;
}

pg_noreturn static void
refuse_rows(const SlTable *table, const char *column, const char *detail)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("cannot add column \"%s\" with this default to table \"%s\", which has rows",
				   column, get_rel_name(table->relid)),
			errdetail_internal("%s", detail),
			errhint("Add the column without a default, fill it with UPDATE, and set the default then."));
}

/* Returns the sequence that belongs to the column, and only to that. */
static Oid
own_sequence(const SlTable *table, const char *column)
{
	FmgrInfo	function;

	LOCAL_FCINFO(call, 2);
	Datum		name;

	fmgr_info(F_PG_GET_SERIAL_SEQUENCE, &function);
	InitFunctionCallInfoData(*call, &function, 2, InvalidOid, NULL, NULL);
	call->args[0].value = CStringGetTextDatum(sl_ddl_name(table->relid));
	call->args[0].isnull = false;
	call->args[1].value = CStringGetTextDatum(column);
	call->args[1].isnull = false;
	name = FunctionCallInvoke(call);
	if (call->isnull)
		return InvalidOid;
	return RangeVarGetRelid(makeRangeVarFromNameList(sl_split_name(TextDatumGetCString(name))),
							NoLock, false);
}

static int64
increment_of(Oid sequence)
{
	HeapTuple	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(sequence));
	int64		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for sequence %u", sequence);
	result = ((Form_pg_sequence) GETSTRUCT(tuple))->seqincrement;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Numbers the rows that exist: shard after shard gets a range of the router's
 * sequence, from which no other session has taken a value.
 */
static void
number_rows(SlColumnText *result, const SlTable *table, const char *column, const char *fill,
			const SlReply *replies, int count, int64 total)
{
	Oid			sequence = own_sequence(table, column);
	int64		next;
	int64		increment;

	if (!OidIsValid(sequence))
		refuse_rows(table, column, "Its values come from a sequence that others use as well.");
	next = nextval_internal(sequence, false);
	increment = increment_of(sequence);
	DirectFunctionCall2(setval_oid, ObjectIdGetDatum(sequence),
						Int64GetDatum(next + increment * (total - 1)));
	for (int i = 0; i < count; i++)
	{
		char	   *sql = psprintf("CREATE SEQUENCE %s START WITH " INT64_FORMAT " INCREMENT BY " INT64_FORMAT
								   " MINVALUE -9223372036854775808 MAXVALUE 9223372036854775807",
								   fill, next, increment);

		result->before = lappend(result->before, make_step(list_make1(replies[i].shard), sql));
		next += increment * sl_protocol_count(replies[i].conn, replies[i].value);
	}
}

static bool
has_rows_on_router(Oid relid)
{
	Relation	relation = table_open(relid, NoLock);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(relation, snapshot, 0, NULL);
	bool		result = table_scan_getnextslot(scan, ForwardScanDirection, slot);

	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	table_close(relation, NoLock);
	return result;
}

static bool
is_not_null(Oid relid, const char *column)
{
	Relation	relation = table_open(relid, NoLock);
	AttrNumber	number = get_attnum(relid, column);
	bool		result = TupleDescAttr(RelationGetDescr(relation), number - 1)->attnotnull;

	table_close(relation, NoLock);
	return result;
}

/* A column whose values the router draws. */
static void
add_drawing_column(const SlDdl *ddl, const SlTable *table, const char *table_name,
				   const ColumnDef *column, SlSpan span, SlColumnText *result)
{
	char	   *fill = sl_ddl_name_in(table->relid, makeObjectName("shardlet_fill", column->colname, NULL));
	SlReply    *replies = NULL;
	int			count = 0;
	int64		total = 0;
	char	   *clause = "";

	if (sl_ddl_is_remote(table))
		total = count_rows(table, table_name, &replies, &count);
	else if (has_rows_on_router(table->relid))
		refuse_rows(table, column->colname, "The copies of a reference table must be the same.");
	if (total > 0)
	{
		number_rows(result, table, column->colname, fill, replies, count, total);
		clause = psprintf("DEFAULT pg_catalog.nextval(%s)", quote_literal_cstr(fill));
	}

	/* Serial and identity imply it; a default does not. */
	if (find_clause(column, CONSTR_NOTNULL) == NULL && is_not_null(table->relid, column->colname))
		clause = psprintf("%s NOT NULL", clause);
	result->piece = sl_ddl_changed(ddl, span, lappend(target_changes(ddl, column),
													  replace_default(ddl, table, column, span, clause)));
	result->after = own_default_steps(table, table_name, column->colname);
	if (total > 0)
		result->after = lappend(result->after,
								make_step(sl_table_homes(table), psprintf("DROP SEQUENCE %s", fill)));
}

/* Computes the default as ALTER TABLE does, once, and returns it as a literal. */
static char *
evaluate_default(Node *expression, Oid type, int32 typmod)
{
	EState	   *estate = CreateExecutorState();
	ExprState  *state = ExecPrepareExpr((Expr *) expression, estate);
	bool		is_null;
	Datum		value = ExecEvalExprSwitchContext(state, GetPerTupleExprContext(estate), &is_null);
	char	   *result = NULL;
	Oid			output;
	bool		is_varlena;

	if (!is_null)
	{
		getTypeOutputInfo(type, &output, &is_varlena);
		result = OidOutputFunctionCall(output, value);
	}
	result = psprintf("%s::%s", sl_ddl_literal(result), format_type_with_typemod(type, typmod));
	FreeExecutorState(estate);
	return result;
}

/* A default that is the same for all rows of the statement, but not for ever. */
static void
add_stable_column(const SlDdl *ddl, const SlTable *table, const char *table_name,
				  const ColumnDef *column, SlSpan span, Node *expression, SlColumnText *result)
{
	Oid			type;
	int32		typmod;
	Oid			collation;
	char	   *value;
	char	   *written = deparse_expression(expression, NIL, false, false);

	get_atttypetypmodcoll(table->relid, get_attnum(table->relid, column->colname),
						  &type, &typmod, &collation);
	value = psprintf("DEFAULT %s", evaluate_default(expression, type, typmod));
	result->piece = sl_ddl_changed(ddl, span, lappend(target_changes(ddl, column),
													  replace_default(ddl, table, column, span, value)));
	result->after = list_make1(make_step(sl_table_homes(table),
										 psprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s",
												  table_name, quote_identifier(column->colname), written)));
}

/* Is the default, as it will be evaluated for existing rows, NULL? */
static bool
is_null_default(Node *expression)
{
	EState	   *estate = CreateExecutorState();
	ExprState  *state = ExecPrepareExpr((Expr *) expression, estate);
	bool		is_null;

	(void) ExecEvalExprSwitchContext(state, GetPerTupleExprContext(estate), &is_null);
	FreeExecutorState(estate);
	return is_null;
}

/* Is it what looks like a type, and is a default as well? */
static bool
is_serial(const TypeName *type)
{
	static const char *const names[] = {"smallserial", "serial2", "serial", "serial4", "bigserial", "serial8"};

	for (int i = 0; i < (int) lengthof(names); i++)
	{
		if (list_length(type->names) == 1 && strcmp(strVal(linitial(type->names)), names[i]) == 0)
			return true;
	}
	return false;
}

static bool
is_users(Oid function, void *context)
{
	return function >= FirstNormalObjectId;
}

/* Finds what runs code of a user: functions, and checks of domains. */
static bool
find_users_code(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, CoerceToDomain) || check_functions_in_node(node, is_users, context))
		return true;
	return expression_tree_walker(node, find_users_code, context);
}

/*
 * Can a column be added without a look at rows, which all get the same value, and
 * without running code of a user, which could do anything on the shard?  The
 * column does not exist yet.  Domains may have defaults and checks of their own.
 */
bool
sl_ddl_adds_constant(const SlTable *table, const ColumnDef *column)
{
	int32		typmod;
	Oid			type;
	bool		wants_value = false;
	Node	   *expression = NULL;
	ListCell   *cell;

	if (is_serial(column->typeName))
		return false;
	typenameTypeIdAndMod(NULL, column->typeName, &type, &typmod);
	if (getBaseType(type) != type)
		return false;
	foreach(cell, column->constraints)
	{
		const Constraint *constraint = lfirst(cell);

		if (constraint->contype == CONSTR_NOTNULL)
			wants_value = true;
		else if (constraint->contype == CONSTR_DEFAULT)
			expression = cookDefault(make_parsestate(NULL), copyObject(constraint->raw_expr), type, typmod,
									 column->colname, 0);
		else if (constraint->contype != CONSTR_NULL)
			return false;
	}
	if (contain_volatile_functions(expression) || find_users_code(expression, NULL))
		return false;
	return !wants_value || (expression != NULL && !is_null_default(expression));
}

/*
 * Writes how shards add a column that has been added here.  The steps must run
 * before and after that.
 */
SlColumnText
sl_ddl_add_column(const SlDdl *ddl, const SlTable *table, const char *table_name,
				  const ColumnDef *column, SlSpan span)
{
	SlColumnText result = {0};
	Node	   *expression = default_of(table->relid, column->colname);

	/* What is applied later would get the default of then. */
	if (find_clause(column, CONSTR_GENERATED) != NULL || contain_mutable_functions(expression))
		sl_ddl_check_rest(table, "add a column with computed values to");
	sl_ddl_check_default_at_rest(table, expression);
	if (expression != NULL && find_nextval(expression, NULL))
		add_drawing_column(ddl, table, table_name, column, span, &result);
	else if (expression == NULL || find_clause(column, CONSTR_DEFAULT) == NULL ||
			 !contain_mutable_functions(expression))
		result.piece = sl_ddl_changed(ddl, span, target_changes(ddl, column));
	else if (!contain_volatile_functions(expression))
		add_stable_column(ddl, table, table_name, column, span, expression, &result);
	else
	{
		/* Each row has a value of its own, wherever that is made. */
		if (!sl_ddl_is_remote(table) && has_rows_on_router(table->relid))
			refuse_rows(table, column->colname, "The copies of a reference table must be the same.");
		result.piece = sl_ddl_changed(ddl, span, target_changes(ddl, column));
	}
	return result;
}
