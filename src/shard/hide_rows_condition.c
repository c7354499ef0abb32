/*
 * hide_rows_condition.c
 *		On a shard: validates the conditions of hide_rows().
 *
 * A condition is accepted from a router only (hide_rows.c).  It is evaluated
 * below views, unseen by their authors, as the user of the statement; so that
 * a router with another definition of a table does no harm, it must have no
 * side effects: it is made of a few kinds of expressions, and everything in it
 * is built in and immutable.  And it uses only columns that the user may read,
 * in all rows, or the table's key: users who read a table through a view only
 * must see each row once as well.
 *
 * The condition is checked when hide_rows() is called as far as that needs no
 * lock on the table, and parsed whenever a plan is made, because the table may
 * have changed.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/transam.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "parser/parse_clause.h"
#include "parser/parse_collate.h"
#include "parser/parse_func.h"
#include "parser/parse_relation.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"

#include "base/base.h"
#include "compat.h"
#include "shard/shard.h"

pg_noreturn static void
refuse(const char *reason)
{
	ereport(ERROR,
			errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("condition of hidden rows is not allowed"),
			errdetail("%s", reason));
}

/* Raises an error unless it is a single expression. */
void
sl_hide_check(const char *source)
{
	const char *reason;

	if (sl_expression_parse(source, &reason) == NULL)
		refuse(reason);
}

/* What is in it ------------------------------------------------------------------- */

static bool
is_foreign_function(Oid function, void *context)
{
	return function >= FirstNormalObjectId;
}

/* A column may be of a domain: reading it has no side effects. */
static bool
is_allowed_column(const Var *column)
{
	return column->varattno > 0 && getBaseType(column->vartype) < FirstNormalObjectId;
}

/* Is it of a kind without side effects? */
static bool
is_allowed_kind(const Node *node)
{
	switch (nodeTag(node))
	{
		case T_List:
		case T_Const:
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_RowCompareExpr:
		case T_BoolExpr:
		case T_BooleanTest:
		case T_NullTest:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_CollateExpr:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_ArrayExpr:
		case T_SubscriptingRef:
		case T_RowExpr:
			return true;
		default:
			return false;
	}
}

/*
 * A user-defined operator with a built-in function may have a user-defined
 * negator.
 */
static bool
has_foreign_operator(const Node *node)
{
	ListCell   *cell;

	switch (nodeTag(node))
	{
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return ((const OpExpr *) node)->opno >= FirstNormalObjectId;
		case T_ScalarArrayOpExpr:
			return ((const ScalarArrayOpExpr *) node)->opno >= FirstNormalObjectId;
		case T_RowCompareExpr:
			foreach(cell, ((const RowCompareExpr *) node)->opnos)
			{
				if (lfirst_oid(cell) >= FirstNormalObjectId)
					return true;
			}
			return false;
		default:
			return false;
	}
}

static bool
has_foreign_type(const Node *node)
{
	return !IsA(node, List) && !IsA(node, CaseWhen) && exprType(node) >= FirstNormalObjectId;
}

static bool
find_forbidden(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return !is_allowed_column((Var *) node);
	return !is_allowed_kind(node) || has_foreign_type(node) || has_foreign_operator(node) ||
		check_functions_in_node(node, is_foreign_function, NULL) ||
		expression_tree_walker(node, find_forbidden, context);
}

/* Whose columns are in it --------------------------------------------------------- */

/* A policy of the table applies to what the user reads, and not in a view. */
static bool
may_read(Oid relid, AttrNumber column)
{
	Oid			user = GetUserId();

	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return false;
	return pg_class_aclcheck(relid, user, ACL_SELECT) == ACLCHECK_OK ||
		pg_attribute_aclcheck(relid, column, user, ACL_SELECT) == ACLCHECK_OK;
}

/* The guard's trigger arguments are the map and the key columns. */
static bool
is_key(Relation relation, const char *column)
{
	Oid			function = sl_catalog_function(SL_INTERNAL_SCHEMA, SL_GUARD_FUNCTION, 0, NULL);
	const TriggerDesc *triggers = relation->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		for (int j = 1; trigger->tgfoid == function && j < trigger->tgnargs; j++)
		{
			if (strcmp(trigger->tgargs[j], column) == 0)
				return true;
		}
	}
	return false;
}

static void
check_columns(Relation relation, Node *condition)
{
	Bitmapset  *columns = NULL;
	int			member = -1;

	pull_varattnos(condition, 1, &columns);
	while ((member = bms_next_member(columns, member)) >= 0)
	{
		AttrNumber	column = (AttrNumber) (member + FirstLowInvalidHeapAttributeNumber);
		const char *name = get_attname(RelationGetRelid(relation), column, false);

		if (!may_read(RelationGetRelid(relation), column) && !is_key(relation, name))
			ereport(ERROR,
					errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					errmsg("permission denied for column \"%s\" of table \"%s\"", name,
						   RelationGetRelationName(relation)),
					errdetail("A condition of hidden rows is over columns that you may read in all rows, or over the key of a guarded table."));
	}
}

/* Reading it ---------------------------------------------------------------------- */

/* Parses an expression over the columns of a table, which has index 1. */
static Node *
analyse(Relation relation, const char *source)
{
	ParseState *state = make_parsestate(NULL);
	int			nest_level = NewGUCNestLevel();
	const char *reason;
	Node	   *expression = sl_expression_parse(source, &reason);
	ParseNamespaceItem *item;

	/* A literal becomes a value here: it must not depend on the session. */
	sl_guc_set_plain();
	(void) set_config_option("search_path", "pg_catalog", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	state->p_sourcetext = source;
	item = addRangeTableEntryForRelation(state, relation, AccessShareLock, NULL, false, false);
	addNSItemToQuery(state, item, false, true, true);
	expression = transformWhereClause(state, expression, EXPR_KIND_WHERE, "WHERE");
	assign_expr_collations(state, expression);
	free_parsestate(state);
	AtEOXact_GUC(true, nest_level);
	return expression;
}

/*
 * Returns the condition on a table, which has index 1 in it, or raises an
 * error.  The current user must be the one that called hide_rows().
 */
Node *
sl_hide_condition(Relation relation, const char *source)
{
	Node	   *condition = analyse(relation, source);

	if (find_forbidden(condition, NULL) || contain_mutable_functions(condition))
		refuse("It may have nothing but built-in immutable functions, operators and types.");
	check_columns(relation, condition);
	return condition;
}
