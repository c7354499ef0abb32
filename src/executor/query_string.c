/*
 * query_string.c
 *		Analyzes the query string of query(), query_key() and execute().
 *
 * It is parsed, to find out whether each shard's result is simply a part of the
 * whole, how rows are ordered, and what LIMIT and OFFSET are.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_target.h"
#include "parser/parser.h"
#include "tcop/cmdtag.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "compat.h"
#include "executor/multi_shard.h"

void
sl_query_string_refuse(const char *detail, const char *hint)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("query cannot be run on several shards"),
			errdetail("%s", detail),
			errhint("%s", hint));
}

/* Is it a part of the whole? ---------------------------------------------- */

static bool
is_aggregate_name(const char *name)
{
	CatCList   *list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
	bool		found = false;

	for (int i = 0; i < list->n_members && !found; i++)
		found = ((Form_pg_proc) GETSTRUCT(&list->members[i]->tuple))->prokind == PROKIND_AGGREGATE;
	ReleaseSysCacheList(list);
	return found;
}

static const char over_window[] = "A window function needs the rows of all shards.";
static const char over_rows[] = "An aggregate needs the rows of all shards.";

/* What a call computes over several rows, or NULL. */
static const char *
why_call(const FuncCall *call)
{
	if (call->over != NULL)
		return over_window;
	if (call->agg_star || call->agg_distinct || call->agg_order || call->agg_filter ||
		call->agg_within_group || is_aggregate_name(strVal(llast(call->funcname))))
		return over_rows;
	return NULL;
}

/*
 * Finds what is computed over several rows, on this level of the query.  An
 * aggregate in a subquery without FROM is one of this level.
 */
static bool
find_over_rows(Node *node, const char **what)
{
	if (node == NULL || IsA(node, SelectStmt))
		return false;
	if (IsA(node, SubLink))
	{
		const SelectStmt *select = (SelectStmt *) ((SubLink *) node)->subselect;

		return IsA(select, SelectStmt) && select->op == SETOP_NONE && select->fromClause == NIL &&
			find_over_rows((Node *) select->targetList, what);
	}
	if (IsA(node, FuncCall))
		*what = why_call((FuncCall *) node);
	else if (sl_is_json_aggregate(node))
		*what = over_rows;
	return *what != NULL || raw_expression_tree_walker(node, find_over_rows, (void *) what);
}

/* The query in FROM, if there is nothing else. */
static const SelectStmt *
only_subquery(const SelectStmt *select)
{
	const RangeSubselect *item;

	if (list_length(select->fromClause) != 1 || !IsA(linitial(select->fromClause), RangeSubselect))
		return NULL;
	item = linitial(select->fromClause);
	return IsA(item->subquery, SelectStmt) ? (const SelectStmt *) item->subquery : NULL;
}

/*
 * Below the top only what can never be right is looked for: one row of each
 * shard, or some rows of each.  Groups may well be parts of the whole, if all
 * rows of a group are on one shard.
 */
static const char *
why_whole_below(const SelectStmt *select)
{
	const char *what = NULL;

	while ((select = only_subquery(select)) != NULL && select->op == SETOP_NONE)
	{
		CHECK_FOR_INTERRUPTS();
		if (select->limitCount != NULL || select->limitOffset != NULL)
			return "LIMIT in a subquery needs the rows of all shards.";
		if (select->groupClause == NIL &&
			find_over_rows((Node *) select->targetList, &what) && what == over_rows)
			return what;
	}
	return NULL;
}

/* Why a query without set operations is not simply a part of the whole. */
static const char *
why_whole_simple(const SelectStmt *select)
{
	const char *what = NULL;

	if (select->distinctClause != NIL)
		return "DISTINCT needs the rows of all shards.";
	if (select->groupClause != NIL || select->havingClause != NULL)
		return "GROUP BY and HAVING need the rows of all shards.";
	if (!find_over_rows((Node *) select->targetList, &what))
		(void) find_over_rows((Node *) select->sortClause, &what);
	return what != NULL ? what : why_whole_below(select);
}

/*
 * Why a shard's result is not simply a part of the whole, or NULL.  A long
 * chain of UNION ALL leans to the left, so that side is not recursed into.
 */
static const char *
why_whole(const SelectStmt *select, bool in_set)
{
	check_stack_depth();
	for (;; select = select->larg)
	{
		const char *what;

		CHECK_FOR_INTERRUPTS();
		in_set = in_set || select->op != SETOP_NONE;
		if (select->op != SETOP_NONE && (select->op != SETOP_UNION || !select->all))
			return "UNION, INTERSECT and EXCEPT need the rows of all shards.";
		if (in_set && (select->limitCount != NULL || select->limitOffset != NULL))
			return "LIMIT in a set operation needs the rows of all shards.";
		if (select->op == SETOP_NONE)
			return why_whole_simple(select);
		what = why_whole(select->rarg, true);
		if (what != NULL)
			return what;
	}
}

/* Does WITH change something?  That is possible at the top only. */
static bool
writes_in_with(const SelectStmt *select)
{
	ListCell   *cell;

	if (select->withClause == NULL)
		return false;
	foreach(cell, select->withClause->ctes)
	{
		if (!IsA(((CommonTableExpr *) lfirst(cell))->ctequery, SelectStmt))
			return true;
	}
	return false;
}

/* LIMIT and OFFSET -------------------------------------------------------- */

/* What stands for a number: a constant, rounded as PostgreSQL rounds it. */
static int64
limit_constant(A_Const *constant, const char *what)
{
	Datum		number;

	switch (nodeTag(&constant->val))
	{
		case T_Integer:
			return constant->val.ival.ival;
		case T_Float:
			number = DirectFunctionCall3(numeric_in, CStringGetDatum(constant->val.fval.fval),
										 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
			return DatumGetInt64(DirectFunctionCall1(numeric_int8, number));
		case T_String:
			return DatumGetInt64(DirectFunctionCall1(int8in,
													 CStringGetDatum(constant->val.sval.sval)));
		default:
			sl_query_string_refuse(psprintf("%s is not a number.", what),
								   "Write a number or a parameter.");
	}
}

/* Takes off what does not change a number: casts, and a plus sign. */
static Node *
strip_number(Node *node)
{
	for (;;)
	{
		A_Expr	   *expression = (A_Expr *) node;

		if (node != NULL && IsA(node, TypeCast))
			node = ((TypeCast *) node)->arg;
		else if (node != NULL && IsA(node, A_Expr) && expression->kind == AEXPR_OP &&
				 expression->lexpr == NULL && list_length(expression->name) == 1 &&
				 strcmp(strVal(linitial(expression->name)), "+") == 0)
			node = expression->rexpr;
		else
			return node;
	}
}

static SlLimit
read_limit(Node *node, const char *what)
{
	SlLimit		limit = {0};

	node = strip_number(node);
	if (node == NULL || (IsA(node, A_Const) && ((A_Const *) node)->isnull))
		return limit;
	limit.is_given = true;
	if (IsA(node, ParamRef))
		limit.param = ((ParamRef *) node)->number;
	else if (IsA(node, A_Const))
		limit.value = limit_constant((A_Const *) node, what);
	else
		sl_query_string_refuse(psprintf("%s is an expression.", what),
							   "Write a number or a parameter.");
	return limit;
}

/* ORDER BY ---------------------------------------------------------------- */

static bool
is_star(const ResTarget *target)
{
	Node	   *value = target->val;

	return (IsA(value, ColumnRef) && IsA(llast(((ColumnRef *) value)->fields), A_Star)) ||
		(IsA(value, A_Indirection) && IsA(llast(((A_Indirection *) value)->indirection), A_Star));
}

static char *
target_name(const ResTarget *target)
{
	return target->name != NULL ? target->name : FigureColname(target->val);
}

/* The leftmost query of a set operation gives the names of its columns. */
static const SelectStmt *
leftmost_query(const SelectStmt *select)
{
	while (select->op != SETOP_NONE)
		select = select->larg;
	return select;
}

/* Is a name one of the select list's?  Then PostgreSQL orders by that. */
static bool
names_output(List *targets, const char *name)
{
	ListCell   *cell;

	foreach(cell, targets)
	{
		ResTarget  *target = lfirst(cell);

		if (!is_star(target) && strcmp(target_name(target), name) == 0)
			return true;
	}
	return false;
}

/*
 * May there be columns whose names the router does not know?  Those of a star, or
 * of VALUES.
 */
static bool
has_unknown_names(const SelectStmt *select)
{
	ListCell   *cell;

	foreach(cell, select->targetList)
	{
		if (is_star(lfirst(cell)))
			return true;
	}
	return select->valuesLists != NIL;
}

/*
 * Which column of the select list is this expression?  -1: none for sure.
 * After a star the columns' numbers are not known.
 */
static int
find_output(List *targets, Node *expression)
{
	ListCell   *cell;

	foreach(cell, targets)
	{
		ResTarget  *target = lfirst(cell);

		if (is_star(target))
			break;
		if (equal(target->val, expression))
			return foreach_current_index(cell);
	}
	return -1;
}

static const char *
bare_name(Node *node)
{
	if (!IsA(node, ColumnRef) || list_length(((ColumnRef *) node)->fields) != 1 ||
		!IsA(linitial(((ColumnRef *) node)->fields), String))
		return NULL;
	return strVal(linitial(((ColumnRef *) node)->fields));
}

/* "targets" is the select list, of the leftmost query of a set operation. */
static SlOrderItem *
read_order_item(SlQueryString *query, const SelectStmt *select, List *targets, SortBy *sort)
{
	SlOrderItem *item = palloc0(sizeof(SlOrderItem));
	Node	   *node = sort->node;
	const char *name;

	CHECK_FOR_INTERRUPTS();
	if (sort->sortby_dir == SORTBY_USING)
		sl_query_string_refuse("ORDER BY ... USING names an operator of the shard's.",
							   "Write ASC or DESC.");
	item->column = -1;
	item->descending = sort->sortby_dir == SORTBY_DESC;
	item->nulls_first = sort->sortby_nulls == SORTBY_NULLS_DEFAULT ? item->descending :
		sort->sortby_nulls == SORTBY_NULLS_FIRST;
	if (IsA(node, CollateClause))
	{
		item->collation = get_collation_oid(((CollateClause *) node)->collname, false);
		node = ((CollateClause *) node)->arg;
	}
	name = node == sort->node ? bare_name(node) : NULL;
	if (node == sort->node && IsA(node, A_Const) && IsA(&((A_Const *) node)->val, Integer))
		item->column = intVal(&((A_Const *) node)->val) - 1;
	else if (name != NULL && (names_output(targets, name) || select->op != SETOP_NONE))
		item->name = pstrdup(name);
	else if (name != NULL && has_unknown_names(select))
	{
		item->name = pstrdup(name);
		item->is_guess = true;
	}
	else if ((item->column = find_output(select->targetList, node)) < 0)
		item->carried = ++query->carried_count;
	return item;
}

/* The whole ------------------------------------------------------------------ */

static void
parse_select(SlQueryString *query, SelectStmt *select)
{
	List	   *targets = leftmost_query(select)->targetList;
	ListCell   *cell;

	if (select->intoClause != NULL)
		sl_query_string_refuse("SELECT INTO makes a table.", "Use shardlet.execute().");
	query->writes_in_with = writes_in_with(select);
	query->is_write = query->writes_in_with || select->lockingClause != NIL;
	query->whole = why_whole(select, false);
	foreach(cell, select->sortClause)
		query->order = lappend(query->order, read_order_item(query, select, targets, lfirst(cell)));
	if (query->whole != NULL)
		return;
	if (select->limitOption == LIMIT_OPTION_WITH_TIES)
		sl_query_string_refuse("WITH TIES depends on the rows of all shards.", "Leave it out.");
	query->limit = read_limit(select->limitCount, "LIMIT");
	query->offset = read_limit(select->limitOffset, "OFFSET");
}

/*
 * The columns are known now.  Names of ORDER BY that were guessed to be among
 * them, and are not, are of the tables: they are carried along.  Returns false
 * if there is none.
 */
bool
sl_query_string_correct_order(SlQueryString *query, const SlPrepared *prepared)
{
	bool		any = false;
	ListCell   *cell;

	foreach(cell, query->order)
	{
		SlOrderItem *item = lfirst(cell);
		bool		found = false;

		for (int i = 0; item->is_guess && i < prepared->column_count; i++)
			found = found || strcmp(prepared->names[i], item->name) == 0;
		if (!item->is_guess || found)
			continue;
		item->is_guess = false;
		item->name = NULL;
		item->carried = ++query->carried_count;
		any = true;
	}
	return any;
}

static void
explain_error(void *arg)
{
	sl_check_move_position(arg);
}

/* Parses; the position of an error is one in this string. */
static List *
parse_commands(const char *source)
{
	ErrorContextCallback callback = {.callback = explain_error};
	List	   *commands;

	callback.arg = unconstify(char *, source);
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	commands = raw_parser(source, RAW_PARSE_DEFAULT);
	error_context_stack = callback.previous;
	return commands;
}

static void
refuse_command(const char *detail, const char *hint)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("command cannot be run on shards this way"),
			errdetail("%s", detail),
			errhint("%s", hint));
}

static void
check_set(const VariableSetStmt *set)
{
	if (set->kind == VAR_SET_MULTI)
		refuse_command("Transactions on shards follow the session's.",
					   "Use SET TRANSACTION in the session.");
	if (!set->is_local)
		refuse_command("It changes a connection that later statements use.",
					   "Set it in the session, if it is one of those that shards follow, or with ALTER ROLE or ALTER DATABASE on the shards; or use SET LOCAL.");
	if (set->name != NULL && (sl_session_keeps(set->name) || strcmp(set->name, "role") == 0 ||
							  strcmp(set->name, "session_authorization") == 0))
		refuse_command("Shards follow the session in this setting.", "Set it in the session.");
}

/*
 * Connections are used by later statements, and their transactions are the
 * session's.  So commands that change a connection, and not the database, are
 * refused.
 */
static void
check_command(Node *command)
{
	switch (nodeTag(command))
	{
		case T_TransactionStmt:
			refuse_command("Transactions on shards follow the session's.",
						   "Use BEGIN, COMMIT, ROLLBACK and SAVEPOINT in the session.");
			break;
		case T_VariableSetStmt:
			check_set((VariableSetStmt *) command);
			break;
		case T_DiscardStmt:
		case T_ListenStmt:
		case T_UnlistenStmt:
		case T_PrepareStmt:
		case T_ExecuteStmt:
		case T_DeallocateStmt:
		case T_DeclareCursorStmt:
		case T_FetchStmt:
		case T_ClosePortalStmt:
			refuse_command("It changes, or depends on, the state of a connection.",
						   "Connections are shardlet's own: shardlet.close_connections() closes them.");
			break;
		case T_ExplainStmt:
			check_command(((ExplainStmt *) command)->query);
			break;
		default:
			break;
	}
}

static bool
is_change(Node *command)
{
	return IsA(command, InsertStmt) || IsA(command, UpdateStmt) || IsA(command, DeleteStmt) ||
		IsA(command, MergeStmt);
}

/* EXPLAIN ANALYZE runs the command. */
static bool
explain_writes(const ExplainStmt *explain)
{
	bool		runs = false;
	ListCell   *cell;

	foreach(cell, explain->options)
	{
		DefElem    *option = lfirst(cell);

		if (strcmp(option->defname, "analyze") == 0)
			runs = defGetBoolean(option);
	}
	if (!runs)
		return false;
	if (IsA(explain->query, SelectStmt))
		return writes_in_with((SelectStmt *) explain->query) ||
			((SelectStmt *) explain->query)->lockingClause != NIL;
	return true;
}

/* Does a utility command run queries, in its own words or a function's? */
static bool
runs_queries(Node *command)
{
	return IsA(command, CreateTableAsStmt) || IsA(command, RefreshMatViewStmt) ||
		IsA(command, CopyStmt) || IsA(command, DoStmt) || IsA(command, CallStmt);
}

/* Parses a query string; more than one command, or none, is an error. */
SlQueryString *
sl_query_string_parse(const char *source)
{
	SlQueryString *query = palloc0(sizeof(SlQueryString));
	List	   *commands = parse_commands(source);
	Node	   *command;

	query->source = source;
	query->sql = pstrdup(source);
	if (list_length(commands) != 1)
		ereport(ERROR,
				errcode(ERRCODE_SYNTAX_ERROR),
				commands == NIL ? errmsg("query is empty") :
				errmsg("query has more than one command"),
				errhint("Give one command at a time."));
	command = linitial_node(RawStmt, commands)->stmt;
	check_command(command);
	query->command = GetCommandTagName(CreateCommandTag(command));
	query->may_read = true;
	if (IsA(command, SelectStmt))
		parse_select(query, (SelectStmt *) command);
	else if (IsA(command, ExplainStmt) || IsA(command, VariableShowStmt))
	{
		query->whole = "A utility command gives one result for each shard.";
		query->is_write = IsA(command, ExplainStmt) && explain_writes((ExplainStmt *) command);
	}
	else
	{
		query->is_write = true;
		query->is_utility = !is_change(command);
		query->may_read = !query->is_utility || runs_queries(command);
	}
	return query;
}
