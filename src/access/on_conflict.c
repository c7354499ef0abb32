/*
 * on_conflict.c
 *		Deparses ON CONFLICT of an INSERT.
 *
 * The assigned values are computed on the shard, where the row is; parts that
 * need no column are evaluated on the router and sent as parameters.  A clause
 * that is not shippable is refused, since the router does not know which rows
 * conflict.
 *
 * The key cannot be assigned: the row would be on the wrong shard.  Assigning
 * EXCLUDED's value is common and allowed: a row can conflict only with one of
 * the same key.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "access/access.h"
#include "access/foreign_modify.h"
#include "base/base.h"
#include "compat.h"
#include "metadata/router_foreign_key.h"

/* The clause that is being deparsed. */
typedef struct Clause
{
	Relation	relation;
	ModifyTable *plan;
	OnConflictExpr *conflict;
	Index		target;
	SlShippableContext ship;
	List	   *context;		/* for deparse_expression() */
	StringInfoData sql;
} Clause;

static char *
write_expression(const Clause *clause, Node *expression, bool with_names)
{
	return sl_deparse_strings(deparse_expression(expression, clause->context, with_names, false));
}

/* Deparses the arbiter, with unqualified columns. */
static void
write_arbiter(Clause *clause, const OnConflictExpr *arbiter)
{
	ListCell   *cell;

	if (arbiter->arbiterElems == NIL && !OidIsValid(arbiter->constraint))
		return;
	if (OidIsValid(arbiter->constraint))
	{
		appendStringInfo(&clause->sql, " ON CONSTRAINT %s",
						 quote_identifier(get_constraint_name(arbiter->constraint)));
		return;
	}
	foreach(cell, arbiter->arbiterElems)
		appendStringInfo(&clause->sql, "%s%s", cell == list_head(arbiter->arbiterElems) ? " (" : ", ",
						 write_expression(clause, lfirst(cell), false));
	appendStringInfoChar(&clause->sql, ')');
	if (arbiter->arbiterWhere != NULL)
		appendStringInfo(&clause->sql, " WHERE %s",
						 write_expression(clause, arbiter->arbiterWhere, false));
}

/* Does it contain a column of (a, b) = (SELECT ...)? */
static bool
is_of_several(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind == PARAM_MULTIEXPR;
	return expression_tree_walker(node, is_of_several, context);
}

/* Deparses an expression in shippable form. */
static void
write_shippable(Clause *clause, Node *expression, const char *what)
{
	Node	   *shipped = is_of_several(expression, NULL) ? NULL :
	sl_shippable_make_expr(&clause->ship, expression);

	if (shipped == NULL)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("%s of ON CONFLICT DO UPDATE cannot be computed on the shards", what),
				errdetail("It calls a function, or reads something, that shards may not have or that differs between them."),
				errhint("Use built-in functions that are not volatile; compute the rest in the inserted rows, and refer to EXCLUDED."));
	appendStringInfoString(&clause->sql, write_expression(clause, shipped, true));
}

static bool
is_own_value(const Clause *clause, Node *expression, AttrNumber column)
{
	const Var  *var = (const Var *) expression;

	return IsA(expression, Var) && var->varattno == column && var->varlevelsup == 0 &&
		((Index) var->varno == clause->target ||
		 (int) var->varno == clause->conflict->exclRelIndex);
}

static void
check_key(const Clause *clause, Node *expression, AttrNumber column)
{
	SlTable    *table = sl_table_get(RelationGetRelid(clause->relation));

	for (int i = 0; i < table->key_count; i++)
	{
		if (table->key[i] == column && !is_own_value(clause, expression, column))
			ereport(ERROR,
					errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("ON CONFLICT DO UPDATE cannot set column \"%s\" of table \"%s\"",
						   get_attname(table->relid, column, false),
						   RelationGetRelationName(clause->relation)),
					errdetail("The column is part of the key by which rows find their shard."),
					errhint("Use an UPDATE."));
	}
}

static void
write_set(Clause *clause)
{
	ListCell   *cell;
	ListCell   *column;
	Oid			relid = RelationGetRelid(clause->relation);

	forboth(cell, clause->plan->onConflictSet, column, clause->plan->onConflictCols)
	{
		TargetEntry *entry = lfirst(cell);

		char	   *name = get_attname(relid, (AttrNumber) lfirst_int(column), false);

		check_key(clause, (Node *) entry->expr, (AttrNumber) lfirst_int(column));
		appendStringInfo(&clause->sql, "%s%s = ",
						 cell == list_head(clause->plan->onConflictSet) ? " DO UPDATE SET " : ", ",
						 quote_identifier(name));
		write_shippable(clause, (Node *) entry->expr, psprintf("value of column \"%s\"", name));
	}
}

static void
write_where(Clause *clause)
{
	List	   *conditions = (List *) clause->plan->onConflictWhere;

	if (conditions == NIL)
		return;
	appendStringInfoString(&clause->sql, " WHERE ");
	write_shippable(clause, (Node *) make_ands_explicit(conditions), "condition");
}

/* Returns the deparse context: with two relations, columns are qualified. */
static void
make_context(Clause *clause)
{
	PlannedStmt *frame = makeNode(PlannedStmt);
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, clause->ship.root->parse->rtable)
	{
		int			index = foreach_current_index(cell) + 1;
		RangeTblEntry *entry = makeNode(RangeTblEntry);

		*entry = *lfirst_node(RangeTblEntry, cell);
		if (entry->rtekind == RTE_RELATION)
			entry->alias = NULL;
		frame->rtable = lappend(frame->rtable, entry);
		names = lappend(names, index == clause->conflict->exclRelIndex ? "excluded" :
						(Index) index == clause->target ? SL_INSERT_ALIAS :
						psprintf("r%d", index));
	}
	clause->context = deparse_context_for_plan_tree(frame, names);
}

/* The first parameters are those of the row. */
static List *
reserve_params(Relation relation)
{
	List	   *result = NIL;

	for (int i = list_length(sl_copy_row_columns(RelationGetDescr(relation))); i > 0; i--)
		result = lappend(result, makeNullConst(VOIDOID, -1, InvalidOid));
	return result;
}

/* The old row is not returned by the shard. */
static void
refuse_old(Relation relation, List *returning)
{
	if (sl_returns_old((Node *) returning, NULL))
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("ON CONFLICT DO UPDATE of table \"%s\" cannot return OLD",
					   RelationGetRelationName(relation)),
				errdetail("The table is distributed, and its shards return the new row only."));
}

/* The old values of the rows that are updated are not known on the router. */
static void
refuse_router_keys(Relation relation, const ModifyTable *plan)
{
	if (!sl_router_key_is_assigned(relation, plan->onConflictCols))
		return;
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("ON CONFLICT DO UPDATE cannot change columns of table \"%s\" that a foreign key refers to",
				   RelationGetRelationName(relation)),
			errdetail("Shards find out which rows are updated, and the router checks the foreign key, which is of a table that is not distributed."),
			errhint("Use ON CONFLICT DO NOTHING and UPDATE."));
}

/* Policies for an UPDATE apply to the old row, and only the shard has it. */
static void
refuse_policies(Relation relation, const ModifyTable *plan)
{
	ListCell   *cell;

	foreach(cell, plan->withCheckOptionLists != NIL ? linitial(plan->withCheckOptionLists) : NIL)
	{
		WCOKind		kind = lfirst_node(WithCheckOption, cell)->kind;

		if (kind == WCO_RLS_UPDATE_CHECK || kind == WCO_RLS_CONFLICT_CHECK)
			ereport(ERROR,
					errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					errmsg("ON CONFLICT DO UPDATE of table \"%s\" cannot check its row-level security policies",
						   RelationGetRelationName(relation)),
					errdetail("Shards find out which rows are updated, and the router checks the policies."),
					errhint("Use ON CONFLICT DO NOTHING and UPDATE."));
	}
}

/* Deparses the clause for the INSERT that is being planned. */
void
sl_conflict_plan(PlannerInfo *root, ModifyTable *plan, Relation relation, SlConflict *conflict)
{
	Clause		clause = {.relation = relation,.plan = plan};
	int			reserved;
	Relids		relids;
	int			nest_level;

	clause.conflict = root->parse->onConflict;
	clause.target = root->parse->resultRelation;
	relids = bms_make_singleton(clause.target);
	if (clause.conflict->exclRelIndex > 0)
		relids = bms_add_member(relids, clause.conflict->exclRelIndex);
	sl_fdw_ship_init(&clause.ship, root, relids, sl_table_get(RelationGetRelid(relation)));
	clause.ship.params = reserve_params(relation);
	reserved = list_length(clause.ship.params);
	nest_level = sl_deparse_begin_plain();
	make_context(&clause);
	initStringInfo(&clause.sql);
	appendStringInfoString(&clause.sql, " ON CONFLICT");
	write_arbiter(&clause, clause.conflict);
	if (plan->onConflictAction == ONCONFLICT_NOTHING)
		appendStringInfoString(&clause.sql, " DO NOTHING");
	else
	{
		refuse_old(relation, root->parse->returningList);
		refuse_policies(relation, plan);
		write_set(&clause);
		write_where(&clause);
		refuse_router_keys(relation, plan);
		conflict->updates = true;
	}
	sl_deparse_end_plain(nest_level);
	conflict->clause = clause.sql.data;
	conflict->params = list_copy_tail(clause.ship.params, reserved);
	fix_opfuncids((Node *) conflict->params);
}

/* Returns the types of the parameters, as OIDs. */
List *
sl_conflict_types(List *params)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, params)
		result = lappend_oid(result, exprType(lfirst(cell)));
	return result;
}

/* Evaluates the parameters, as text, in the current memory context. */
const char **
sl_conflict_values(List *states, List *types, ExprContext *context)
{
	int			count = list_length(states);
	Datum	   *values = palloc(sizeof(Datum) * Max(count, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(count, 1));
	const char **result = palloc0(sizeof(char *) * Max(count, 1));
	int			nest_level;

	for (int i = 0; i < count; i++)
		values[i] = ExecEvalExprSwitchContext(list_nth(states, i), context, &nulls[i]);

	/*
	 * They are evaluated with the session's settings, and written with fixed
	 * ones.
	 */
	nest_level = sl_map_begin_plain_output();
	for (int i = 0; i < count; i++)
	{
		Oid			function;
		bool		is_varlena;

		getTypeOutputInfo(list_nth_oid(types, i), &function, &is_varlena);
		result[i] = nulls[i] ? NULL : OidOutputFunctionCall(function, values[i]);
	}
	sl_map_end_plain_output(nest_level);
	return result;
}
