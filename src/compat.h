/*
 * compat.h
 *		Every difference between PostgreSQL 15, 16, 17 and 18, in one place.
 *
 * The rest of the sources is written for the newest form of an API; what an
 * older server lacks is supplied here.  Code elsewhere never tests
 * PG_VERSION_NUM.
 */
#ifndef SL_COMPAT_H
#define SL_COMPAT_H

#include "access/stratnum.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/memutils.h"

#if PG_VERSION_NUM < 150000
#error "shardlet needs PostgreSQL 15 or later"
#endif

/* 16 replaced the per-catalog privilege checks by one. */
#if PG_VERSION_NUM < 160000
#define sl_server_ownercheck(serverid, roleid) \
	pg_foreign_server_ownercheck(serverid, roleid)
#else
#define sl_server_ownercheck(serverid, roleid) \
	object_ownercheck(ForeignServerRelationId, serverid, roleid)
#endif

#if PG_VERSION_NUM < 160000
#define sl_wrapper_aclcheck(wrapper, roleid) \
	pg_foreign_data_wrapper_aclcheck(wrapper, roleid, ACL_USAGE)
#define sl_function_aclcheck(function, roleid) \
	pg_proc_aclcheck(function, roleid, ACL_EXECUTE)
#define sl_relation_ownercheck(relid, roleid) pg_class_ownercheck(relid, roleid)
#define sl_function_ownercheck(function, roleid) pg_proc_ownercheck(function, roleid)
#else
#define sl_wrapper_aclcheck(wrapper, roleid) \
	object_aclcheck(ForeignDataWrapperRelationId, wrapper, roleid, ACL_USAGE)
#define sl_function_aclcheck(function, roleid) \
	object_aclcheck(ProcedureRelationId, function, roleid, ACL_EXECUTE)
#define sl_function_ownercheck(function, roleid) \
	object_ownercheck(ProcedureRelationId, function, roleid)
#define sl_relation_ownercheck(relid, roleid) \
	object_ownercheck(RelationRelationId, relid, roleid)
#endif

/* 18 put what writes EXPLAIN's lines into a header of its own. */
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

/* 16 declares the entry point of a library. */
#if PG_VERSION_NUM < 160000
extern PGDLLEXPORT void _PG_init(void);
#endif

/* 18 moved the attribute to the front of a declaration. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

/* 17 ties a set of wait events to a resource owner instead of a context. */
#if PG_VERSION_NUM < 170000
#define sl_create_wait_event_set(count) \
	CreateWaitEventSet(TopMemoryContext, count)
#else
#define sl_create_wait_event_set(count) \
	CreateWaitEventSet(NULL, count)
#endif

/*
 * Rows of the running statement come one by one, or with a newer libpq in
 * bunches, which costs less.
 */
#ifdef LIBPQ_HAS_CHUNK_MODE
#define SL_ROWS_AT_ONCE 64
#define sl_stream_rows(pg) PQsetChunkedRowsMode(pg, SL_ROWS_AT_ONCE)
#define sl_is_part_of_rows(status) \
	((status) == PGRES_TUPLES_CHUNK || (status) == PGRES_SINGLE_TUPLE)
#else
#define sl_stream_rows(pg) PQsetSingleRowMode(pg)
#define sl_is_part_of_rows(status) ((status) == PGRES_SINGLE_TUPLE)
#endif

/*
 * What looks at the client's next message.  Its header, libpq/libpq.h, wants
 * the headers of Kerberos, which an extension has no other use for.  17 tells
 * how many bytes wait here instead of whether.
 */
extern void pq_startmsgread(void);
extern void pq_endmsgread(void);
extern int	pq_peekbyte(void);
extern bool pq_buffer_has_data(void);
extern bool pq_check_connection(void);
extern ssize_t pq_buffer_remaining_data(void);
#if PG_VERSION_NUM < 170000
#define sl_client_has_sent_more() pq_buffer_has_data()
#else
#define sl_client_has_sent_more() (pq_buffer_remaining_data() > 0)
#endif

/* 16 has aggregates that are not written as a function call. */
#if PG_VERSION_NUM < 160000
#define sl_is_json_aggregate(node) false
#else
#define sl_is_json_aggregate(node) (IsA(node, JsonArrayAgg) || IsA(node, JsonObjectAgg))
#endif

/* 16 added soft errors to the functions that parse names. */
#if PG_VERSION_NUM < 160000
#define sl_split_name(name) stringToQualifiedNameList(name)
#define sl_parse_type(name, type, modifier) parseTypeString(name, type, modifier, false)
#else
#define sl_split_name(name) stringToQualifiedNameList(name, NULL)
#define sl_parse_type(name, type, modifier) ((void) parseTypeString(name, type, modifier, NULL))
#endif

/* 17 changes the expression of a generated column. */
#if PG_VERSION_NUM < 170000
#define AT_SetExpression AT_DropExpression
#endif

/* 16 calls where a relation's files are a locator. */
#if PG_VERSION_NUM < 160000
#define sl_relation_locator(relation) ((relation)->rd_node)
#define sl_sequence_record_locator(record) ((record).node)
#else
#define sl_relation_locator(relation) ((relation)->rd_locator)
#define sl_sequence_record_locator(record) ((record).locator)
#endif

/* From 18 on triggers fire as the user who caused them: the owner, if a foreign key did. */
#define SL_ACTIONS_FIRE_AS_OWNER (PG_VERSION_NUM >= 180000)

/* 17 lets a message be flushed at once. */
#if PG_VERSION_NUM < 170000
#define sl_log_message(prefix, message, size) LogLogicalMessage(prefix, message, size, true)
#else
#define sl_log_message(prefix, message, size) LogLogicalMessage(prefix, message, size, true, false)
#endif

/* 16 moved the user whose privileges count from the range table to the plan. */
#if PG_VERSION_NUM < 160000
static inline Oid
sl_scan_user(const ForeignScan *plan, EState *estate)
{
	Index		index = plan->scan.scanrelid > 0 ? plan->scan.scanrelid :
	(Index) bms_next_member(plan->fs_relids, -1);
	RangeTblEntry *entry = exec_rt_fetch(index, estate);

	return OidIsValid(entry->checkAsUser) ? entry->checkAsUser : GetUserId();
}
#else
#define sl_scan_user(plan, estate) \
	(OidIsValid((plan)->checkAsUser) ? (plan)->checkAsUser : GetUserId())
#endif

/* 17 and 18 gave paths of a foreign scan more arguments. */
#if PG_VERSION_NUM < 170000
#define sl_create_foreignscan_path(root, rel, target, rows, startup, total, keys, outer, inner, private) \
	create_foreignscan_path(root, rel, target, rows, startup, total, keys, outer, inner, private)
#elif PG_VERSION_NUM < 180000
#define sl_create_foreignscan_path(root, rel, target, rows, startup, total, keys, outer, inner, private) \
	create_foreignscan_path(root, rel, target, rows, startup, total, keys, outer, inner, NIL, private)
#else
#define sl_create_foreignscan_path(root, rel, target, rows, startup, total, keys, outer, inner, private) \
	create_foreignscan_path(root, rel, target, rows, 0, startup, total, keys, outer, inner, NIL, private)
#endif

#if PG_VERSION_NUM < 170000
#define sl_create_foreign_join_path(root, rel, target, rows, startup, total, keys, outer, inner, private) \
	create_foreign_join_path(root, rel, target, rows, startup, total, keys, outer, inner, private)
#define sl_create_foreign_upper_path(root, rel, target, rows, startup, total, keys, inner, private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, keys, inner, private)
#elif PG_VERSION_NUM < 180000
#define sl_create_foreign_join_path(root, rel, target, rows, startup, total, keys, outer, inner, private) \
	create_foreign_join_path(root, rel, target, rows, startup, total, keys, outer, inner, NIL, private)
#define sl_create_foreign_upper_path(root, rel, target, rows, startup, total, keys, inner, private) \
	create_foreign_upper_path(root, rel, target, rows, startup, total, keys, inner, NIL, private)
#else
#define sl_create_foreign_join_path(root, rel, target, rows, startup, total, keys, outer, inner, private) \
	create_foreign_join_path(root, rel, target, rows, 0, startup, total, keys, outer, inner, NIL, private)
#define sl_create_foreign_upper_path(root, rel, target, rows, startup, total, keys, inner, private) \
	create_foreign_upper_path(root, rel, target, rows, 0, startup, total, keys, inner, NIL, private)
#endif

/* 16 knows clauses that exist in several copies, for outer joins. */
#if PG_VERSION_NUM < 160000
#define sl_make_base_restriction(root, clause, level, relids) \
	make_restrictinfo(root, clause, true, false, false, level, relids, NULL, NULL)
#else
#define sl_make_base_restriction(root, clause, level, relids) \
	make_restrictinfo(root, clause, true, false, false, false, level, relids, NULL, NULL)
#endif

/* 18 asks in which operator family expressions are equal. */
#if PG_VERSION_NUM < 180000
#define sl_exprs_known_equal(root, a, b) exprs_known_equal(root, a, b)
#else
#define sl_exprs_known_equal(root, a, b) exprs_known_equal(root, a, b, InvalidOid)
#endif

/* 18 has constraints that are not enforced, and such of periods. */
#if PG_VERSION_NUM < 180000
#define sl_is_enforcement(type) false
#define sl_is_of_periods(constraint) false
#define sl_constraint_has_period(row) ((void) (row), false)
#else
#define sl_is_enforcement(type) \
	((type) == CONSTR_ATTR_ENFORCED || (type) == CONSTR_ATTR_NOT_ENFORCED)
#define sl_is_of_periods(constraint) ((constraint)->without_overlaps)
#define sl_constraint_has_period(row) ((row)->conperiod)
#endif

/* 18 lets RETURNING tell what a row was before. */
#if PG_VERSION_NUM < 180000
#define sl_returns_old(node, context) false
#else
static inline bool
sl_returns_old(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varreturningtype == VAR_RETURNING_OLD;
	if (IsA(node, ReturningExpr) && ((ReturningExpr *) node)->retold)
		return true;
	return expression_tree_walker(node, sl_returns_old, context);
}
#endif

#if PG_VERSION_NUM < 180000
#define sl_is_returning_expr(node) false
#else
#define sl_is_returning_expr(node) IsA(node, ReturningExpr)
#endif

/*
 * 17 keeps the condition of MERGE apart from WHERE, which is that of a view, can act
 * on rows that no source row matches, and returns rows.
 */
#if PG_VERSION_NUM < 170000
#define SL_MERGE_CONDITION_APART false
#define sl_merge_condition(query) ((query)->jointree->quals)
#define sl_is_not_matched_by_source(action) ((void) (action), false)
#define sl_is_merge_action_call(node) false
#else
#define SL_MERGE_CONDITION_APART true
#define sl_merge_condition(query) ((query)->mergeJoinCondition)
#define sl_is_not_matched_by_source(action) ((action)->matchKind == MERGE_WHEN_NOT_MATCHED_BY_SOURCE)
#define sl_is_merge_action_call(node) IsA(node, MergeSupportFunc)
#endif

/* 18 keeps the expressions that rows are grouped by in the range table. */
#if PG_VERSION_NUM < 180000
#define sl_is_group_entry(entry) false
#define sl_group_exprs(entry) ((entry)->values_lists)
#else
#define sl_is_group_entry(entry) ((entry)->rtekind == RTE_GROUP)
#define sl_group_exprs(entry) ((entry)->groupexprs)
#endif

/* 17 has NOT NULL among the constraints, of domains first. */
#if PG_VERSION_NUM < 170000
#define CONSTRAINT_NOTNULL 'n'
#endif

/* 18 wants to know which command pauses. */
#if PG_VERSION_NUM < 180000
#define sl_vacuum_delay_point() vacuum_delay_point()
#else
#define sl_vacuum_delay_point() vacuum_delay_point(true)
#endif

/* 18 says how a path key sorts by a comparison type, not by a strategy. */
#if PG_VERSION_NUM < 180000
#define sl_pathkey_is_descending(key) ((key)->pk_strategy == BTGreaterStrategyNumber)
#else
#define sl_pathkey_is_descending(key) ((key)->pk_cmptype == COMPARE_GT)
#endif

/* 18 took an argument from ExecutorRun(). */
#if PG_VERSION_NUM < 180000
#define SL_EXECUTOR_RUN_PARAMS \
	QueryDesc *query, ScanDirection direction, uint64 count, bool execute_once
#define SL_EXECUTOR_RUN_ARGS query, direction, count, execute_once
#else
#define SL_EXECUTOR_RUN_PARAMS QueryDesc *query, ScanDirection direction, uint64 count
#define SL_EXECUTOR_RUN_ARGS query, direction, count
#endif

/*
 * 18 lets RETURNING refer to the old and the new row; NULL means that there is
 * none.  Both may be NULL if nothing refers to them.
 */
#if PG_VERSION_NUM < 180000
#define sl_set_returned_rows(estate, info, old_row, new_row) \
	((void) (estate), (void) (info), (void) (old_row), (void) (new_row))
#else
static inline void
sl_set_returned_rows(EState *estate, ResultRelInfo *info, TupleTableSlot *old_row, TupleTableSlot *new_row)
{
	ProjectionInfo *projection = info->ri_projectReturning;
	ExprContext *context = projection->pi_exprContext;
	uint8	   *flags = &projection->pi_state.flags;

	*flags &= ~(EEO_FLAG_OLD_IS_NULL | EEO_FLAG_NEW_IS_NULL);
	*flags |= (old_row == NULL ? EEO_FLAG_OLD_IS_NULL : 0) | (new_row == NULL ? EEO_FLAG_NEW_IS_NULL : 0);
	context->ecxt_oldtuple = old_row != NULL || (*flags & EEO_FLAG_HAS_OLD) == 0 ? old_row :
		ExecGetAllNullSlot(estate, info);
	context->ecxt_newtuple = new_row != NULL || (*flags & EEO_FLAG_HAS_NEW) == 0 ? new_row :
		ExecGetAllNullSlot(estate, info);
}
#endif

/* 16 tells as whom access to a result relation is checked. */
#if PG_VERSION_NUM < 160000
static inline Oid
sl_result_user(const ResultRelInfo *info, EState *estate)
{
	Index		index = info->ri_RangeTableIndex != 0 || info->ri_RootResultRelInfo == NULL ?
	info->ri_RangeTableIndex : info->ri_RootResultRelInfo->ri_RangeTableIndex;
	RangeTblEntry *entry = exec_rt_fetch(index, estate);

	return OidIsValid(entry->checkAsUser) ? entry->checkAsUser : GetUserId();
}
#else
#define sl_result_user(info, estate) ExecGetResultRelCheckAsUser(info, estate)
#endif

/* 17 moved the number of the transaction in its session. */
#if PG_VERSION_NUM < 170000
#define sl_local_transaction_id() (MyProc->lxid)
#else
#define sl_local_transaction_id() (MyProc->vxid.lxid)
#endif

/* 17 gave the number of the session's process a variable. */
#if PG_VERSION_NUM < 170000
#define sl_own_proc_number() (MyProc->pgprocno)
#else
#define sl_own_proc_number() (MyProcNumber)
#endif

/* 17 finds sessions by the number of their process, and not by one of their own. */
#if PG_VERSION_NUM < 170000
#include "storage/sinvaladt.h"
#define sl_proc_of_session(number) BackendIdGetProc(number)
#define sl_transaction_of_proc(proc) ((proc)->lxid)
#else
#include "storage/procarray.h"
#define sl_proc_of_session(number) ProcNumberGetProc(number)
#define sl_transaction_of_proc(proc) ((proc)->vxid.lxid)
#endif

/*
 * Minor releases of 2026 export a list of the libpq options that are safe in a
 * server process.  A weak reference finds it where it is there; the name is
 * resolved when the library is loaded, so one build serves every minor.
 */
extern bool libpqsrv_is_valid_proxy_option(const char *keyword) __attribute__((weak));

/* Since 18 what groups are made of is a relation of its own in a query. */
static inline Node *
sl_group_expression(const RangeTblEntry *entry, AttrNumber number)
{
#if PG_VERSION_NUM >= 180000
	if (entry->rtekind == RTE_GROUP)
		return (Node *) list_nth(entry->groupexprs, number - 1);
#endif
	return NULL;
}

/* The columns of joins, replaced by those of what is joined; 16 wants to know more. */
static inline Node *
sl_flatten_join_columns(Query *query, Node *node)
{
#if PG_VERSION_NUM >= 160000
	return flatten_join_alias_vars(NULL, query, copyObject(node));
#else
	return flatten_join_alias_vars(query, copyObject(node));
#endif
}

/*
 * Privileges of a relation in a query: as whom they are checked, and the relation
 * as part of a plan so that they are.  16 keeps them apart from the range table.
 */
static inline Oid
sl_relation_checked_as(const Query *query, RangeTblEntry *entry)
{
#if PG_VERSION_NUM >= 160000
	return entry->perminfoindex == 0 ? InvalidOid :
		getRTEPermissionInfo(query->rteperminfos, entry)->checkAsUser;
#else
	return entry->checkAsUser;
#endif
}

static inline void
sl_relation_add(PlannedStmt *statement, const Query *query, RangeTblEntry *entry)
{
	RangeTblEntry *copy = (RangeTblEntry *) palloc(sizeof(RangeTblEntry));

	*copy = *entry;
	copy->subquery = NULL;
	copy->securityQuals = NIL;
	copy->eref = copyObject(entry->eref);
	statement->rtable = lappend(statement->rtable, copy);
#if PG_VERSION_NUM >= 160000
	copy->perminfoindex = 0;
	if (entry->perminfoindex != 0)
	{
		statement->permInfos = lappend(statement->permInfos,
									   copyObject(getRTEPermissionInfo(query->rteperminfos, entry)));
		copy->perminfoindex = (Index) list_length(statement->permInfos);
	}
#endif
}

/* A query's privileges, which 16 keeps apart from its range table. */
#if PG_VERSION_NUM < 160000
#define sl_copy_permissions(to, from) ((void) (to), (void) (from))
#define sl_forget_permissions(query) ((void) (query))
#else
#define sl_copy_permissions(to, from) \
	((to)->rteperminfos = copyObject((from)->rteperminfos))
#define sl_forget_permissions(query) ((query)->rteperminfos = NIL)
#endif

/* 16 leaves out groups that others make superfluous. */
#if PG_VERSION_NUM < 160000
#define sl_group_clauses(root) ((root)->parse->groupClause)
#else
#define sl_group_clauses(root) ((root)->processed_groupClause)
#endif

/* The number of the relation that a query's groups are since 18; 0: there is none. */
static inline int
sl_find_groups(const Query *query)
{
#if PG_VERSION_NUM >= 180000
	ListCell   *cell;

	foreach(cell, query->hasGroupRTE ? query->rtable : NIL)
	{
		if (lfirst_node(RangeTblEntry, cell)->rtekind == RTE_GROUP)
			return foreach_current_index(cell) + 1;
	}
#endif
	return 0;
}

/* Makes that relation one without meaning, for a query without groups. */
static inline void
sl_forget_groups(Query *query)
{
#if PG_VERSION_NUM >= 180000
	ListCell   *cell;

	query->hasGroupRTE = false;
	foreach(cell, query->rtable)
	{
		RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (entry->rtekind != RTE_GROUP)
			continue;
		entry->rtekind = RTE_RESULT;
		entry->groupexprs = NIL;
	}
#endif
}

/* A column of the groups, in a query where these are another relation. */
static inline Var *
sl_move_group_column(const Var *column, int number)
{
	Var		   *result = copyObject((Var *) column);

	result->varno = number;
	result->varnosyn = (Index) number;
#if PG_VERSION_NUM >= 180000
	if (result->varnullingrels != NULL)
		result->varnullingrels = bms_make_singleton(number);
#endif
	return result;
}

/* 16 renamed the callback that makes a table's file, and its argument. */
#if PG_VERSION_NUM < 160000
#include "storage/relfilenode.h"
#define RelFileLocator RelFileNode
#define relation_set_new_filelocator relation_set_new_filenode
#define RelationSetNewRelfilenumber RelationSetNewRelfilenode
#define PGIOAlignedBlock PGAlignedBlock
#endif

/* 17 replaced the number of a session by that of its process. */
#if PG_VERSION_NUM < 170000
#define sl_open_file(locator) smgropen(locator, InvalidBackendId)
#else
#define sl_open_file(locator) smgropen(locator, INVALID_PROC_NUMBER)
#endif

/* 16 distinguishes which indexes an UPDATE has to change. */
#if PG_VERSION_NUM < 160000
#define SL_UPDATE_INDEXES bool
#else
#define SL_UPDATE_INDEXES TU_UpdateIndexes
#endif

/*
 * 17 lets ANALYZE take the blocks of its sample from a stream; before, the block
 * was an argument.
 */
#if PG_VERSION_NUM < 170000
#define SL_ANALYZE_BLOCK_PARAMS TableScanDesc scan, BlockNumber block, BufferAccessStrategy strategy
#define SL_ANALYZE_BLOCK_ARGS scan, block, strategy
#define sl_analyze_has_block() true
#else
#include "storage/read_stream.h"
#define SL_ANALYZE_BLOCK_PARAMS TableScanDesc scan, ReadStream *stream
#define SL_ANALYZE_BLOCK_ARGS scan, stream
#define sl_analyze_has_block() sl_analyze_take_block(stream)
static inline bool
sl_analyze_take_block(ReadStream * stream)
{
	BufferAccessStrategy strategy;

	return read_stream_next_block(stream, &strategy) != InvalidBlockNumber;
}
#endif

/* 16 separated permissions from the range table, 18 wants unpruned relations. */
#if PG_VERSION_NUM < 160000
#define sl_init_copy_range_table(estate, copy) ExecInitRangeTable(estate, (copy)->range_table)
#elif PG_VERSION_NUM < 180000
#define sl_init_copy_range_table(estate, copy) \
	ExecInitRangeTable(estate, (copy)->range_table, (copy)->rteperminfos)
#else
#define sl_init_copy_range_table(estate, copy) \
	ExecInitRangeTable(estate, (copy)->range_table, (copy)->rteperminfos, bms_make_singleton(1))
#endif

/* 17 lets COPY skip rows that cannot be read, 18 limits their number. */
#if PG_VERSION_NUM < 170000
#define sl_copy_skips_row(copy) false
#define sl_copy_note_skipped(copy) ((void) 0)
#else
#include "commands/copyfrom_internal.h"
static inline bool
sl_copy_skips_row(CopyFromState copy)
{
	if (copy->opts.on_error != COPY_ON_ERROR_IGNORE || !copy->escontext->error_occurred)
		return false;
	copy->escontext->error_occurred = false;
#if PG_VERSION_NUM >= 180000
	if (copy->opts.reject_limit > 0 && copy->num_errors > (uint64) copy->opts.reject_limit)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				errmsg("skipped more than REJECT_LIMIT (%lld) rows due to data type incompatibility",
					   (long long) copy->opts.reject_limit));
#endif
	return true;
}

static inline void
sl_copy_note_skipped(CopyFromState copy)
{
#if PG_VERSION_NUM >= 180000
	if (copy->opts.log_verbosity < COPY_LOG_VERBOSITY_DEFAULT)
		return;
#endif
	if (copy->opts.on_error != COPY_ON_ERROR_STOP && copy->num_errors > 0)
		ereport(NOTICE,
				errmsg_plural("%llu row was skipped due to data type incompatibility",
							  "%llu rows were skipped due to data type incompatibility",
							  (unsigned long) copy->num_errors, (unsigned long long) copy->num_errors));
}
#endif

/* 17 passes the REINDEX statement, for messages. */
#if PG_VERSION_NUM < 170000
#define sl_reindex_relation(relid, flags) reindex_relation(relid, flags, &(ReindexParams) {0})
#else
#define sl_reindex_relation(relid, flags) reindex_relation(NULL, relid, flags, &(ReindexParams) {0})
#endif

/* Sets relpages and reltuples alone; 18 counts the pages that are frozen. */
#if PG_VERSION_NUM < 180000
#define sl_update_relation_size(relation, pages, tuples) \
	vac_update_relstats(relation, pages, tuples, 0, (relation)->rd_rel->relhasindex, \
						InvalidTransactionId, InvalidMultiXactId, NULL, NULL, true)
#else
#define sl_update_relation_size(relation, pages, tuples) \
	vac_update_relstats(relation, pages, tuples, 0, 0, (relation)->rd_rel->relhasindex, \
						InvalidTransactionId, InvalidMultiXactId, NULL, NULL, true)
#endif

#endif							/* SL_COMPAT_H */
