/*
 * foreign_sql.c
 *		Deparses a planned relation into the query for the shards.
 *
 * The query returns the columns that the router needs and no others.  For a
 * base relation the scan's row type is that of the table, and columns that are
 * not fetched are NULL; for joins and upper relations it is the list of result
 * columns.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/planmain.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "access/access.h"
#include "compat.h"

/* State of deparsing one query. */
typedef struct Writing
{
	PlannerInfo *root;
	RelOptInfo *rel;
	const SlRel *info;
	SlShippableContext ship;
	SlDeparse	deparse;
	List	   *columns;		/* attribute numbers, of a base relation */
	List	   *result;			/* TargetEntries, otherwise */
	List	   *remote;			/* clauses that the shards check */
	List	   *local;			/* clauses that the router checks */
	List	   *sort;			/* items of SL_SCAN_SORT */
	char	   *lock;			/* FOR UPDATE ..., or NULL */
	List	   *owned;			/* SL_SCAN_FILTERS */
	List	   *places;			/* SL_SCAN_PLACES */
	int			flags;
} Writing;

static bool
is_base(const Writing *writing)
{
	return IS_SIMPLE_REL(writing->rel);
}

/* What it returns ------------------------------------------------------------------ */

/* Returns the columns of a base relation that the router needs. */
static List *
needed_columns(const Writing *writing)
{
	RelOptInfo *rel = writing->rel;
	Relation	relation = table_open(planner_rt_fetch(rel->relid, writing->root)->relid, NoLock);
	TupleDesc	columns = RelationGetDescr(relation);
	Bitmapset  *used = NULL;
	List	   *result = NIL;
	bool		needs_all;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &used);
	pull_varattnos((Node *) writing->local, rel->relid, &used);
	needs_all = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, used);
	for (int i = 1; i <= columns->natts; i++)
	{
		if (!TupleDescAttr(columns, i - 1)->attisdropped &&
			(needs_all || bms_is_member(i - FirstLowInvalidHeapAttributeNumber, used)))
			result = lappend_int(result, i);
	}
	table_close(relation, NoLock);
	return result;
}

/* Does the router need the location of a row? */
static bool
needs_identity(const Writing *writing)
{
	RelOptInfo *rel = writing->rel;
	Bitmapset  *used = NULL;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &used);
	pull_varattnos((Node *) writing->local, rel->relid, &used);
	for (int i = FirstLowInvalidHeapAttributeNumber + 1; i < 0; i++)
	{
		if (i != TableOidAttributeNumber && bms_is_member(i - FirstLowInvalidHeapAttributeNumber, used))
			return true;
	}
	return false;
}

/*
 * Deparses the target list of a base relation.  After the columns comes the
 * location of the row: its ctid and, as the shard's table may have partitions,
 * its tableoid.
 */
static void
write_columns(Writing *writing)
{
	StringInfo	sql = &writing->deparse.sql;
	Index		index = writing->rel->relid;
	ListCell   *cell;

	writing->columns = needed_columns(writing);
	if (needs_identity(writing))
		writing->flags |= SL_SCAN_IDENTITY;
	foreach(cell, writing->columns)
	{
		appendStringInfoString(sql, foreach_current_index(cell) == 0 ? " " : ", ");
		sl_deparse_column(&writing->deparse, index, (AttrNumber) lfirst_int(cell));
	}
	if ((writing->flags & SL_SCAN_IDENTITY) != 0)
		appendStringInfo(sql, "%s r%u.ctid, r%u.tableoid::int8",
						 writing->columns == NIL ? "" : ",", index, index);
}

/* Returns the columns of a join that the router needs. */
static List *
joined_columns(const Writing *writing)
{
	List	   *result = add_to_flat_tlist(NIL, pull_var_clause((Node *) writing->rel->reltarget->exprs,
																PVC_RECURSE_PLACEHOLDERS));

	return add_to_flat_tlist(result, pull_var_clause((Node *) writing->local,
													 PVC_RECURSE_PLACEHOLDERS));
}

static void
write_result(Writing *writing)
{
	StringInfo	sql = &writing->deparse.sql;
	ListCell   *cell;

	writing->result = writing->info->input != NULL ? copyObject(writing->info->target) :
		joined_columns(writing);
	if (writing->info->is_distinct)
		appendStringInfoString(sql, " DISTINCT");
	foreach(cell, writing->result)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		appendStringInfoString(sql, foreach_current_index(cell) == 0 ? " " : ", ");
		if (IsA(entry->expr, Var) && ((Var *) entry->expr)->varattno == 0)
			appendStringInfo(sql, "NULL::%s", format_type_be_qualified(((Var *) entry->expr)->vartype));
		else
			sl_deparse_expr(&writing->deparse, (Node *) entry->expr);
		appendStringInfo(sql, " AS c%d", foreach_current_index(cell) + 1);
	}
}

/* Where it comes from ----------------------------------------------------------------- */

static void write_from(Writing *writing, const RelOptInfo *rel, bool has_conditions);

static const char *
join_word(JoinType type)
{
	switch (type)
	{
		case JOIN_LEFT:
			return "LEFT JOIN";
		case JOIN_FULL:
			return "FULL JOIN";
		default:
			return "INNER JOIN";
	}
}

static void
write_on(Writing *writing, List *clauses)
{
	if (clauses == NIL)
		appendStringInfoString(&writing->deparse.sql, "true");
	else
		sl_deparse_conditions(&writing->deparse, clauses);
}

/* Deparses a table whose conditions are checked before it is joined. */
static void
write_selected(Writing *writing, const RelOptInfo *rel)
{
	const SlRel *info = rel->fdw_private;
	StringInfo	sql = &writing->deparse.sql;

	appendStringInfo(sql, "(SELECT r%u.* FROM ", rel->relid);
	sl_deparse_relation(&writing->deparse, rel->relid);
	appendStringInfoString(sql, " WHERE ");
	sl_deparse_conditions(&writing->deparse, sl_fdw_clauses(info->remote_clauses));
	appendStringInfo(sql, ") r%u", rel->relid);
}

/*
 * Deparses a relation for FROM.  Its conditions are included if they must be
 * checked before a join above it; otherwise they go to WHERE.
 */
static void
write_from(Writing *writing, const RelOptInfo *rel, bool has_conditions)
{
	const SlRel *info = rel->fdw_private;
	StringInfo	sql = &writing->deparse.sql;
	List	   *clauses = info->join_clauses;

	if (info->outer == NULL && has_conditions && info->remote_clauses != NIL)
		write_selected(writing, rel);
	else if (info->outer == NULL)
		sl_deparse_relation(&writing->deparse, rel->relid);

	/* The inner side of semijoins is in a condition: see write_exists(). */
	else if (info->join_type == JOIN_SEMI || info->join_type == JOIN_ANTI)
		write_from(writing, info->outer, false);
	else
	{
		if (has_conditions)
			clauses = list_concat_copy(clauses, sl_fdw_clauses(info->remote_clauses));
		appendStringInfoChar(sql, '(');
		write_from(writing, info->outer, has_conditions || info->join_type == JOIN_FULL);
		appendStringInfo(sql, " %s ", join_word(info->join_type));
		write_from(writing, info->inner, has_conditions || info->join_type != JOIN_INNER);
		appendStringInfoString(sql, " ON ");
		write_on(writing, clauses);
		appendStringInfoChar(sql, ')');
	}
}

/* Conditions ---------------------------------------------------------------------------- */

static void
write_and(StringInfo sql, bool *is_first)
{
	appendStringInfoString(sql, *is_first ? " WHERE " : " AND ");
	*is_first = false;
}

static void write_where(Writing *writing, const RelOptInfo *rel, List *clauses, bool *is_first);

static void
write_exists(Writing *writing, const SlRel *info, bool *is_first)
{
	StringInfo	sql = &writing->deparse.sql;
	bool		is_first_inside = true;

	write_and(sql, is_first);
	appendStringInfo(sql, "%sEXISTS (SELECT 1 FROM ", info->join_type == JOIN_ANTI ? "NOT " : "");
	write_from(writing, info->inner, false);
	write_where(writing, info->inner, NIL, &is_first_inside);
	if (info->join_clauses != NIL)
	{
		write_and(sql, &is_first_inside);
		sl_deparse_conditions(&writing->deparse, info->join_clauses);
	}
	appendStringInfoChar(sql, ')');
}

/*
 * Deparses the conditions of a relation and of those below it that are checked
 * after all joins.  The clauses are those of the plan, which may have more
 * than the relation.
 */
static void
write_where(Writing *writing, const RelOptInfo *rel, List *clauses, bool *is_first)
{
	const SlRel *info = rel->fdw_private;
	StringInfo	sql = &writing->deparse.sql;

	if (clauses == NIL)
		clauses = sl_fdw_clauses(info->remote_clauses);
	if (clauses != NIL)
	{
		write_and(sql, is_first);
		sl_deparse_conditions(&writing->deparse, clauses);
	}
	if (info->outer == NULL)
		return;
	if (info->join_type != JOIN_FULL)
		write_where(writing, info->outer, NIL, is_first);
	if (info->join_type == JOIN_INNER)
		write_where(writing, info->inner, NIL, is_first);
	if (info->join_type == JOIN_SEMI || info->join_type == JOIN_ANTI)
		write_exists(writing, info, is_first);
}

/* Returns the tables that WHERE can refer to, without those of EXISTS. */
static List *
visible_members(const RelOptInfo *rel)
{
	const SlRel *info = rel->fdw_private;
	const SlMember *member;

	if (info->outer != NULL && (info->join_type == JOIN_SEMI || info->join_type == JOIN_ANTI))
		return visible_members(info->outer);
	if (info->outer != NULL)
		return list_concat(visible_members(info->outer), visible_members(info->inner));
	member = linitial(info->members);
	if (member->table->kind != SL_TABLE_SHARDED)
		return NIL;
	return list_make1(sl_ownership_filter_member(member->table, psprintf("r%u", member->index)));
}

/* Records the position of an ownership filter. */
static void
note_place(Writing *writing, const RelOptInfo *source, bool has_where)
{
	List	   *members = writing->info->is_single ? NIL : visible_members(source);

	if (members != NIL)
		writing->owned = list_make1(sl_ownership_filter_place(writing->deparse.sql.len, has_where, members));
}

/* Groups, order, limit -------------------------------------------------------------------- */

static void
write_groups(Writing *writing)
{
	StringInfo	sql = &writing->deparse.sql;
	ListCell   *cell;

	foreach(cell, writing->info->group)
	{
		appendStringInfoString(sql, foreach_current_index(cell) == 0 ? " GROUP BY " : ", ");
		sl_deparse_expr(&writing->deparse, lfirst(cell));
	}
	if (writing->info->having != NIL)
	{
		appendStringInfoString(sql, " HAVING ");
		sl_deparse_conditions(&writing->deparse, writing->info->having);
	}
}

/*
 * Returns the number of an expression in the target list.  Adds it if it is
 * not there.
 */
static int
order_place(Writing *writing, Expr *expression)
{
	ListCell   *cell;

	if (is_base(writing))
	{
		Var		   *column = (Var *) expression;

		foreach(cell, writing->columns)
		{
			if (IsA(expression, Var) && lfirst_int(cell) == column->varattno)
				return foreach_current_index(cell);
		}
		return -1;
	}
	foreach(cell, writing->result)
	{
		if (equal(lfirst_node(TargetEntry, cell)->expr, expression))
			return foreach_current_index(cell);
	}
	return -1;
}

/*
 * Returns the sort operator for the path key, which is in the type's default
 * order.
 */
static Oid
order_operator(const PathKey *key, Oid type)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);

	return sl_pathkey_is_descending(key) ? entry->gt_opr : entry->lt_opr;
}

static void
write_order(Writing *writing, List *keys)
{
	StringInfo	sql = &writing->deparse.sql;
	RelOptInfo *rel = writing->rel;
	ListCell   *cell;

	foreach(cell, keys)
	{
		PathKey    *key = lfirst_node(PathKey, cell);
		Expr	   *expression = sl_fdw_order_expr(writing->info, key, rel);
		int			place = order_place(writing, expression);
		Oid			operator = order_operator(key, exprType((Node *) expression));

		if (place < 0 || !OidIsValid(operator))
			elog(ERROR, "could not find a column to sort by");
		appendStringInfoString(sql, foreach_current_index(cell) == 0 ? " ORDER BY " : ", ");
		appendStringInfo(sql, "%d%s NULLS %s", place + 1,
						 sl_pathkey_is_descending(key) ? " DESC" : " ASC",
						 key->pk_nulls_first ? "FIRST" : "LAST");
		writing->sort = lappend(writing->sort,
								list_make4_oid((Oid) place, operator,
											   key->pk_eclass->ec_collation,
											   key->pk_nulls_first ? 1 : 0));
	}
}

/* Locks --------------------------------------------------------------------------------- */

static const char *
lock_word(LockClauseStrength strength)
{
	switch (strength)
	{
		case LCS_FORKEYSHARE:
			return " FOR KEY SHARE";
		case LCS_FORSHARE:
			return " FOR SHARE";
		case LCS_FORNOKEYUPDATE:
			return " FOR NO KEY UPDATE";
		case LCS_FORUPDATE:
			return " FOR UPDATE";
		default:
			return NULL;
	}
}

/* May the UPDATE move rows to other shards? */
static bool
may_move(const Writing *writing, Index index)
{
	const SlTable *table = ((const SlMember *) linitial(writing->info->members))->table;
	Relation	relation = table_open(table->relid, NoLock);
	bool		result = (int) index != writing->root->parse->resultRelation;

	for (int i = 0; i < table->key_count; i++)
	{
		result = result || list_member_int(writing->root->update_colnos, table->key[i]) ||
			TupleDescAttr(RelationGetDescr(relation), table->key[i] - 1)->attgenerated != '\0';
	}
	table_close(relation, NoLock);
	return result;
}

/*
 * Rows that the statement modifies or locks are locked on the shards.  The
 * locking clause is stored apart from the query and appended at execution: a
 * rescan must not see what the statement itself has written, and does not
 * lock.
 */
static void
make_lock(Writing *writing)
{
	Query	   *query = writing->root->parse;
	Index		index = ((const SlMember *) linitial(writing->info->members))->index;
	PlanRowMark *mark = get_plan_rowmark(writing->root->rowMarks, index);
	const char *word = NULL;

	if (list_length(writing->info->members) > 1)
		return;

	if ((query->commandType == CMD_UPDATE || query->commandType == CMD_DELETE) &&
		bms_is_member(index, writing->root->all_result_relids))
	{
		word = " FOR UPDATE";
		writing->flags |= SL_REMOTE_SCAN_TARGET;
		if (query->commandType == CMD_UPDATE && may_move(writing, index))
			writing->flags |= SL_SCAN_MOVES;
	}
	else if (mark != NULL)
		word = lock_word(mark->strength);
	if (word == NULL)
		return;
	writing->flags |= SL_REMOTE_SCAN_LOCKS;
	writing->lock = psprintf("%s%s", word,
							 mark != NULL && mark->waitPolicy == LockWaitSkip ? " SKIP LOCKED" :
							 mark != NULL && mark->waitPolicy == LockWaitError ? " NOWAIT" : "");
}

/* Are rows locked that a limit over all shards selects? */
static bool
is_limited_lock(const Writing *writing)
{
	return (writing->flags & SL_REMOTE_SCAN_LOCKS) != 0 && writing->info->limit_count != NULL &&
		!writing->info->is_single;
}

/*
 * The rows that a limit selects are locked by their ctid, with an additional
 * column and condition: records their positions.  There is always a condition
 * already.
 */
static void
note_limited_lock(Writing *writing, int columns_end, int conditions_end)
{
	Index		index = ((const SlMember *) linitial(writing->info->members))->index;

	writing->flags |= SL_REMOTE_SCAN_LIMITED;
	writing->places = list_make3_int(columns_end, conditions_end, (int) index);
}

/* All of it --------------------------------------------------------------------------------- */

static void
write_statement(Writing *writing, List *keys)
{
	StringInfo	sql = &writing->deparse.sql;
	const RelOptInfo *source = writing->info->input != NULL ? writing->info->input : writing->rel;
	bool		is_first = true;
	int			columns_end;
	int			conditions_end;

	make_lock(writing);
	appendStringInfoString(sql, "SELECT");
	if (is_base(writing))
		write_columns(writing);
	else
		write_result(writing);
	columns_end = sql->len;
	appendStringInfoString(sql, " FROM ");
	write_from(writing, source, false);
	write_where(writing, source, writing->info->input != NULL ? NIL : writing->remote, &is_first);
	if (is_first && is_limited_lock(writing))
	{
		write_and(sql, &is_first);
		appendStringInfoString(sql, "true");
	}
	conditions_end = sql->len;
	note_place(writing, source, !is_first);
	write_groups(writing);
	write_order(writing, keys);
	if (is_limited_lock(writing))
		note_limited_lock(writing, columns_end, conditions_end);
	if (writing->info->has_groups && writing->info->group == NIL)
		writing->flags |= SL_REMOTE_SCAN_ONE_ROW;
	if (writing->info->input != NULL && writing->info->is_single)
		writing->flags |= SL_REMOTE_SCAN_SINGLE;
}

/* Each clause of the plan is checked by the shards or by the router. */
static void
check_clauses(Writing *writing, List *clauses)
{
	ListCell   *cell;

	if (!is_base(writing))
	{
		writing->remote = sl_fdw_clauses(writing->info->remote_clauses);
		writing->local = sl_fdw_clauses(writing->info->local_clauses);
		return;
	}
	foreach(cell, clauses)
	{
		RestrictInfo *restriction = lfirst_node(RestrictInfo, cell);

		if (restriction->pseudoconstant)
			continue;
		if (list_member_ptr(writing->info->remote_clauses, restriction) ||
			(!list_member_ptr(writing->info->local_clauses, restriction) &&
			 sl_fdw_is_remote(&writing->ship, writing->rel, restriction)))
			writing->remote = lappend(writing->remote, restriction->clause);
		else
			writing->local = lappend(writing->local, restriction->clause);
	}
}

/* Makes the shard pruning programs, one for each table. */
static List *
make_programs(const Writing *writing, List *clauses, List **expressions)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, writing->info->members)
	{
		const SlMember *member = lfirst(cell);
		List	   *program = member->is_nullable ? NIL :
		sl_pruning_make(&writing->ship, member->index, member->table, clauses, expressions);

		if (program != NIL || foreach_current_index(cell) == 0)
			result = lappend(result, list_make2(makeInteger((int) member->table->relid), program));
	}
	return result;
}

/* Collects all conditions on the rows of the members, of all levels. */
static List *
all_clauses(const RelOptInfo *rel, List *clauses)
{
	const SlRel *info = rel->fdw_private;

	if (info->input != NULL)
		return all_clauses(info->input, clauses);
	if (clauses == NIL)
		clauses = list_concat(sl_fdw_clauses(info->remote_clauses),
							  sl_fdw_clauses(info->local_clauses));
	if (info->outer == NULL)
		return clauses;
	clauses = list_concat(list_copy(clauses), all_clauses(info->outer, NIL));
	if (info->join_type == JOIN_INNER)
	{
		clauses = list_concat(clauses, list_copy(info->join_clauses));
		clauses = list_concat(clauses, all_clauses(info->inner, NIL));
	}
	return clauses;
}

static char *
relation_names(const Writing *writing)
{
	StringInfoData names;
	ListCell   *cell;

	initStringInfo(&names);
	foreach(cell, writing->info->members)
	{
		const SlMember *member = lfirst(cell);

		appendStringInfo(&names, "%s%s", names.len == 0 ? "" : ", ",
						 quote_identifier(planner_rt_fetch(member->index, writing->root)->eref->aliasname));
	}
	return names.data;
}

static List *
limit_places(const SlRel *info, List **expressions)
{
	int			places[2] = {-1, -1};

	if (info->limit_count != NULL)
	{
		places[0] = list_length(*expressions);
		*expressions = lappend(*expressions, copyObject(info->limit_count));
	}
	if (info->limit_offset != NULL)
	{
		places[1] = list_length(*expressions);
		*expressions = lappend(*expressions, copyObject(info->limit_offset));
	}
	return list_make2_int(places[0], places[1]);
}

static ForeignScan *
make_plan(Writing *writing, ForeignPath *path, List *target_list)
{
	List	   *expressions = NIL;
	List	   *clauses = list_concat(list_copy(writing->remote), list_copy(writing->local));
	List	   *programs = make_programs(writing, all_clauses(writing->rel, clauses), &expressions);
	List	   *limits = limit_places(writing->info, &expressions);
	int			param_count = list_length(writing->ship.params);
	List	   *private;

	private = list_make5(makeString(writing->deparse.sql.data), writing->columns,
						 makeInteger(writing->flags), makeInteger(param_count), programs);
	private = lappend(private, writing->sort);
	private = lappend(private, limits);
	private = lappend(private, makeString(relation_names(writing)));
	private = lappend(private, makeString(writing->lock != NULL ? writing->lock : ""));
	private = lappend(private, writing->owned);
	private = lappend(private, writing->places);
	return make_foreignscan(target_list, writing->local,
							is_base(writing) ? writing->rel->relid : 0,
							list_concat(writing->ship.params, expressions), private,
							writing->result, is_base(writing) ? copyObject(writing->remote) : NIL,
							NULL);
}

ForeignScan *
sl_fdw_plan(PlannerInfo *root, RelOptInfo *rel, Oid table, ForeignPath *path, List *target_list,
			List *clauses, Plan *outer_plan)
{
	Writing		writing = {.root = root,.rel = rel,.info = rel->fdw_private};
	int			nest_level = sl_deparse_begin_plain();

	writing.ship = writing.info->ship;
	writing.ship.params = NIL;
	check_clauses(&writing, clauses);
	sl_deparse_init(&writing.deparse, &writing.ship);
	write_statement(&writing, path->path.pathkeys);
	sl_deparse_end_plain(nest_level);
	return make_plan(&writing, path, target_list);
}
