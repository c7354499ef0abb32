/*
 * copy_from_rows.c
 *		COPY FROM into a shell table, row by row.
 *
 * PostgreSQL's own COPY chooses by the relation's kind where rows go, and a shell
 * table is a plain one to it.  This is for what copy_from.c cannot send as lines:
 * WHERE, defaults, binary format, ON_ERROR.  PostgreSQL still reads the input;
 * rows are sent to the shards as those of an INSERT are.
 *
 * No trigger fires on the router.  Constraints are checked by the shards, and
 * row-level security is refused, as PostgreSQL does.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "commands/copy.h"
#include "commands/copyfrom_internal.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/prep.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "compat.h"

/* Columns that are computed later cannot be in the condition. */
static void
refuse_generated(Relation relation, Node *condition)
{
	Bitmapset  *columns = NULL;
	bool		has_row;

	pull_varattnos(condition, 1, &columns);
	has_row = bms_is_member(-FirstLowInvalidHeapAttributeNumber, columns);
	for (int i = 1; i <= RelationGetNumberOfAttributes(relation); i++)
	{
		Form_pg_attribute column = TupleDescAttr(RelationGetDescr(relation), i - 1);

		if (column->attgenerated != '\0' &&
			(has_row || bms_is_member(i - FirstLowInvalidHeapAttributeNumber, columns)))
			ereport(ERROR,
					errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
					errmsg("generated columns are not supported in COPY FROM WHERE conditions"),
					errdetail("Column \"%s\" is a generated column.", NameStr(column->attname)));
	}
}

/* Returns the condition as a list for ExecInitQual(). */
static List *
transform_condition(ParseState *pstate, ParseNamespaceItem *item, Relation relation, Node *raw)
{
	Node	   *condition;

	if (raw == NULL)
		return NIL;
	addNSItemToQuery(pstate, item, false, true, true);
	condition = coerce_to_boolean(pstate, transformExpr(pstate, raw, EXPR_KIND_COPY_WHERE), "WHERE");
	assign_expr_collations(pstate, condition);
	refuse_generated(relation, condition);
	condition = eval_const_expressions(NULL, condition);
	return make_ands_implicit(canonicalize_qual((Expr *) condition, false));
}

/* The state of a COPY while its rows are read. */
typedef struct RowCopy
{
	CopyFromState input;
	EState	   *estate;
	ResultRelInfo *target;
	ExprState  *condition;
	TupleTableSlot *slot;
	SlModify   *modify;
	uint64		processed;
} RowCopy;

/* Reads the next row into the slot.  Returns false at the end of the input. */
static bool
read_row(RowCopy *copy)
{
	ExprContext *context = GetPerTupleExprContext(copy->estate);
	ErrorContextCallback callback;
	bool		result;

	callback.callback = CopyFromErrorCallback;
	callback.arg = copy->input;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	ExecClearTuple(copy->slot);
	result = NextCopyFrom(copy->input, context, copy->slot->tts_values, copy->slot->tts_isnull);
	error_context_stack = callback.previous;
	return result;
}

/* Sends a row, unless the condition is false. */
static void
copy_row(RowCopy *copy)
{
	TupleTableSlot *slot = copy->slot;
	const TupleConstr *constraints = slot->tts_tupleDescriptor->constr;

	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(copy->target->ri_RelationDesc);
	if (copy->condition != NULL)
	{
		GetPerTupleExprContext(copy->estate)->ecxt_scantuple = slot;
		if (!ExecQual(copy->condition, GetPerTupleExprContext(copy->estate)))
			return;
	}
	if (constraints != NULL && constraints->has_generated_stored)
		ExecComputeStoredGenerated(copy->target, copy->estate, slot, CMD_INSERT);
	(void) sl_modify_insert_row(copy->modify, slot);
	copy->processed++;
}

static void
copy_rows(RowCopy *copy)
{
	MemoryContext old_context;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(copy->estate);
		old_context = MemoryContextSwitchTo(GetPerTupleMemoryContext(copy->estate));
		if (!read_row(copy))
			break;
		if (!sl_copy_skips_row(copy->input))
			copy_row(copy);
		MemoryContextSwitchTo(old_context);
	}
	MemoryContextSwitchTo(old_context);
}

/* Executes COPY FROM.  Returns the number of rows that the shards inserted. */
uint64
sl_copy_from_rows(ParseState *pstate, const CopyStmt *statement, Relation relation)
{
	ParseNamespaceItem *item = addRangeTableEntryForRelation(pstate, relation, RowExclusiveLock, NULL, false, false);
	List	   *condition = transform_condition(pstate, item, relation, copyObject(statement->whereClause));
	RowCopy		copy = {0};

	copy.input = BeginCopyFrom(pstate, relation, (Node *) condition, statement->filename, statement->is_program,
							   NULL, statement->attlist, statement->options);
	copy.estate = CreateExecutorState();
	copy.target = makeNode(ResultRelInfo);
	sl_init_copy_range_table(copy.estate, copy.input);
	ExecInitResultRelation(copy.estate, copy.target, 1);
	copy.condition = condition != NIL ? ExecInitQual(condition, NULL) : NULL;
	copy.slot = MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsVirtual);
	copy.modify = sl_modify_begin_copy(copy.estate, copy.target);
	copy_rows(&copy);
	copy.processed -= (uint64) sl_modify_end_copy(copy.modify);
	sl_copy_note_skipped(copy.input);
	EndCopyFrom(copy.input);
	ExecDropSingleTupleTableSlot(copy.slot);
	ExecResetTupleTable(copy.estate->es_tupleTable, false);
	ExecCloseResultRelations(copy.estate);
	ExecCloseRangeTableRelations(copy.estate);
	FreeExecutorState(copy.estate);
	return copy.processed;
}
