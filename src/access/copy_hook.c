/*
 * copy_hook.c
 *		COPY of distributed tables.
 *
 * COPY FROM sends lines where possible (copy_from.c), otherwise rows
 * (copy_from_rows.c).  COPY TO becomes COPY (SELECT ...) TO.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "commands/copy.h"
#include "nodes/makefuncs.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"

static ProcessUtility_hook_type next_utility = NULL;

/* Returns the table if it is sharded or placed, or InvalidOid. */
static Oid
table_of(const CopyStmt *statement, LOCKMODE lock)
{
	Oid			relid;

	if (statement->relation == NULL)
		return InvalidOid;
	relid = RangeVarGetRelid(statement->relation, lock, true);
	return OidIsValid(relid) && sl_table_is_remote(relid, get_rel_relkind(relid)) ? relid : InvalidOid;
}

static ResTarget *
make_target(const char *column)
{
	ResTarget  *target = makeNode(ResTarget);
	ColumnRef  *reference = makeNode(ColumnRef);

	reference->fields = list_make1(makeString(pstrdup(column)));
	reference->location = -1;
	target->val = (Node *) reference;
	target->location = -1;
	return target;
}

/* Returns the columns that COPY of a plain table writes. */
static List *
make_targets(const CopyStmt *statement, Relation relation)
{
	TupleDesc	descriptor = RelationGetDescr(relation);
	List	   *result = NIL;
	ListCell   *cell;

	/* Checks the names, too. */
	foreach(cell, CopyGetAttnums(descriptor, relation, statement->attlist))
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, lfirst_int(cell) - 1);

		result = lappend(result, make_target(NameStr(column->attname)));
	}
	return result;
}

/* Turns COPY t TO into COPY (SELECT columns FROM t) TO. */
static PlannedStmt *
make_query(PlannedStmt *planned, Oid relid)
{
	PlannedStmt *result = copyObject(planned);
	CopyStmt   *statement = castNode(CopyStmt, result->utilityStmt);
	SelectStmt *query = makeNode(SelectStmt);
	Relation	relation = table_open(relid, AccessShareLock);

	query->targetList = make_targets(statement, relation);
	query->fromClause = list_make1(makeRangeVar(get_namespace_name(RelationGetNamespace(relation)),
												pstrdup(RelationGetRelationName(relation)), -1));
	table_close(relation, NoLock);
	statement->relation = NULL;
	statement->attlist = NIL;
	statement->query = (Node *) query;
	return result;
}

static void
copy_from(const CopyStmt *statement, Oid relid, const char *source, QueryCompletion *completion)
{
	Relation	relation = table_open(relid, RowExclusiveLock);
	bool		is_plain = sl_copy_from_is_plain(statement, relation);
	ParseState *pstate = make_parsestate(NULL);
	uint64		rows;

	pstate->p_sourcetext = source;
	sl_copy_from_check(statement, relation);
	rows = is_plain ? sl_copy_from(pstate, statement, relation) :
		sl_copy_from_rows(pstate, statement, relation);
	if (completion != NULL)
		SetQueryCompletion(completion, CMDTAG_COPY, rows);
	free_parsestate(pstate);
	table_close(relation, NoLock);
}

static void
run_next(PlannedStmt *planned, const char *source, bool is_read_only, ProcessUtilityContext context,
		 ParamListInfo params, QueryEnvironment *environment, DestReceiver *receiver,
		 QueryCompletion *completion)
{
	if (next_utility != NULL)
		next_utility(planned, source, is_read_only, context, params, environment, receiver,
					 completion);
	else
		standard_ProcessUtility(planned, source, is_read_only, context, params, environment,
								receiver, completion);
}

static void
on_utility(PlannedStmt *planned, const char *source, bool is_read_only,
		   ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *environment,
		   DestReceiver *receiver, QueryCompletion *completion)
{
	CopyStmt   *statement = IsA(planned->utilityStmt, CopyStmt) ?
	(CopyStmt *) planned->utilityStmt : NULL;
	Oid			relid = statement != NULL ?
	table_of(statement, statement->is_from ? RowExclusiveLock : AccessShareLock) : InvalidOid;

	if (OidIsValid(relid) && statement->is_from)
	{
		copy_from(statement, relid, source, completion);
		return;
	}
	if (OidIsValid(relid))
		planned = make_query(planned, relid);
	run_next(planned, source, is_read_only, context, params, environment, receiver, completion);
}

void
sl_copy_hook_init(void)
{
	next_utility = ProcessUtility_hook;
	ProcessUtility_hook = on_utility;
}
