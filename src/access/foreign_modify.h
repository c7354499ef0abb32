/*
 * foreign_modify.h
 *		Writing to distributed tables.
 */
#ifndef SL_FOREIGN_MODIFY_H
#define SL_FOREIGN_MODIFY_H

#include "foreign/fdwapi.h"
#include "nodes/execnodes.h"
#include "parser/parse_node.h"

#include "executor/multi_shard.h"
#include "executor/row_routing.h"
#include "metadata/table.h"

/* Names of the junk columns that locate a row. */
#define SL_JUNK_CTID "ctid"
#define SL_JUNK_SHARD "shardlet_shard"
#define SL_JUNK_TABLE "shardlet_table"
#define SL_JUNK_WHOLE_ROW "wholerow"	/* the old row, in an UPDATE */
#define SL_JUNK_REFERENCED "shardlet_column_%d" /* a column of it, in a DELETE */

/* write_sql.c: the statements that shards get */
extern void sl_write_relation(StringInfo sql, Relation relation);
extern void sl_write_batch(StringInfo sql, Relation relation, List *columns, int rows,
						   int clause_params, const char *conflict);
extern char *sl_write_insert(Relation relation, List *columns, const char *conflict,
							 List *returning);
extern char *sl_write_update(Relation relation, List *columns, List *returning);
extern char *sl_write_delete(Relation relation, List *returning);
extern char *sl_write_lock(Relation relation, bool or_own);

/* The name of the table in an INSERT with ON CONFLICT. */
#define SL_INSERT_ALIAS "r"

/* Items of fdw_private of a ModifyTable. */
enum
{
	SL_MODIFY_COLUMNS,			/* IntList: columns that are sent */
	SL_MODIFY_RETURNING,		/* IntList: columns that are returned */
	SL_MODIFY_CONFLICT,			/* String: ON CONFLICT ..., or empty */
	SL_MODIFY_CONFLICT_PARAMS,	/* List of expressions for its parameters, $1
								 * and on */
	SL_MODIFY_CONFLICT_UPDATES	/* Integer: it is DO UPDATE */
};

/*
 * State of one target table of ModifyTable, or of COPY.  Rows whose replies
 * are not awaited are sent and count as written; the actual number is known at
 * the end.
 */
typedef struct SlModify
{
	dlist_node	node;			/* in the list of active ones */
	MemoryContext context;
	MemoryContextCallback callback;
	EState	   *estate;
	Relation	relation;
	char	   *lock_sql;
	char	   *claim_sql;		/* locks a row, or finds that this transaction
								 * has changed it */
	SlFailure  *lock_failure;	/* the error if it finds no row */
	SlStatement *statement;
	SlRowRoute	route;
	SlStatementPipeline *pipe;
	uint64		claimed;		/* rows that were sent and count as written */
	uint64		awaited;		/* rows of the pipeline whose replies were
								 * awaited */
	uint64		copied;			/* rows of COPYs that have ended */
	int64		corrected;		/* subtracted from the count already */
	MemoryContext work;			/* reset for every row */
	CmdType		operation;
	Oid			user;

	/* returned columns */
	List	   *returning;
	SlDecoder  *decoder;
	SlShard    *decoder_shard;	/* whose columns it was made for */

	/* INSERT */
	List	   *insert_columns;
	char	   *insert_sql;		/* NULL: not prepared yet */
	SlCopyRow  *insert_values;
	SlCopyToShards *copy;
	SlCopyRow  *copy_row;
	uint64		inserted;		/* rows so far */

	/* ON CONFLICT */
	const char *conflict;		/* the clause; NULL: none */
	List	   *conflict_params;	/* ExprStates */
	List	   *conflict_types; /* OIDs */
	const char **conflict_values;
	ExprContext *conflict_context;
	List	   *batches;		/* rows that will be sent together */
	int			conflict_param_count;

	/* UPDATE and DELETE */
	int			wire_count;		/* of returned columns */
	List	   *update_columns;
	char	   *update_sql;
	SlCopyRow  *update_values;
	char	   *delete_sql;
	char	   *move_sql;		/* DELETE of a row that moves to another shard */
	List	   *referrers;		/* queries for rows that reference it */
	AttrNumber	ctid_junk;
	AttrNumber	shard_junk;
	AttrNumber	table_junk;

	/* execution mode */
	bool		counts;			/* its rows count for the command tag */
	bool		needs_reply;	/* each row's reply is awaited */
	bool		is_bulk;		/* many rows are expected */
	bool		returning_binary;
	bool		shuns_copy;		/* COPY was ended too often */
	bool		conflict_updates;
	bool		key_may_change;
} SlModify;

/* foreign_modify.c */
extern void sl_modify_init(void);
extern void sl_fdw_add_modify(FdwRoutine *routine);
extern SlModify *sl_modify_begin(PlanState *parent, const ModifyTable *plan, ResultRelInfo *info,
								 List *private);
extern TupleTableSlot *sl_modify_insert_row(SlModify *modify, TupleTableSlot *slot);
extern void sl_modify_end(SlModify *modify);
extern SlModify *sl_modify_begin_copy(EState *estate, ResultRelInfo *info);
extern int64 sl_modify_end_copy(SlModify *modify);
extern bool sl_modify_take_reply(SlModify *modify, SlShard *shard, const char *sql,
								 PGresult *result, TupleTableSlot *slot);
extern void sl_modify_flush_all(EState *estate);

/* modify_plan.c */
extern void sl_modify_plan_init(void);
extern void sl_modify_add_targets(PlannerInfo *root, Index index, RangeTblEntry *entry,
								  Relation relation);
extern bool sl_modify_has_row_trigger(Relation relation, CmdType operation);
extern List *sl_modify_late_checks(const ModifyTable *plan, int subplan, Relation relation);
extern List *sl_modify_plan(PlannerInfo *root, ModifyTable *plan, Index index, int subplan);
extern void sl_modify_explain(CmdType operation, Relation relation, List *private,
							  struct ExplainState *es);

/* modify_node.c */
extern void sl_modify_node_init(void);

/* modify_node_exec.c */
extern Node *sl_modify_node_create(CustomScan *scan);

/* router_foreign_key_check.c: foreign keys that refer to rows of shards */
typedef struct SlRouterKeyCheck SlRouterKeyCheck;

extern void sl_router_key_check_init(void);
extern SlRouterKeyCheck *sl_router_key_check_begin(EState *estate, Relation relation, CmdType operation);
extern void sl_router_key_check_add(SlRouterKeyCheck *check, TupleTableSlot *old_row, TupleTableSlot *new_row);

/* router_foreign_key_probe.c */
typedef struct SlRouterKeyProbe SlRouterKeyProbe;

extern SlRouterKeyProbe *sl_router_key_probe_make(Relation relation, const Trigger *trigger);
extern bool sl_router_key_probe_finds(const SlRouterKeyProbe *probe, TupleTableSlot *slot);

/* router_foreign_key_rule.c */
extern void sl_router_key_rule_init(void);
extern bool sl_router_key_keep(Oid constraint);
extern List **sl_router_key_defer(List **constraints);
extern void sl_router_key_check(List *constraints);

/* on_conflict.c: ON CONFLICT, as the shards get it */
typedef struct SlConflict
{
	const char *clause;
	List	   *params;			/* expressions of the router that it needs */
	bool		updates;
} SlConflict;

extern void sl_conflict_plan(PlannerInfo *root, ModifyTable *plan, Relation relation,
							 SlConflict *conflict);
extern List *sl_conflict_types(List *params);
extern const char **sl_conflict_values(List *states, List *types, ExprContext *context);

/* referencing_rows.c */
extern void sl_referrer_check(SlModify *modify, SlShard *shard, int count,
							  const char *const *identity);

/* insert.c */
extern void sl_insert_prepare(SlModify *modify);
extern TupleTableSlot *sl_insert_row(SlModify *modify, TupleTableSlot *slot);
extern void sl_insert_flush(SlModify *modify);
extern bool sl_insert_send_rows(SlModify *modify, SlShard *shard, TupleTableSlot *slot);

/* update.c */
extern void sl_update_prepare(SlModify *modify, Plan *subplan);
extern TupleTableSlot *sl_update_row(SlModify *modify, TupleTableSlot *slot,
									 TupleTableSlot *plan_slot);
extern TupleTableSlot *sl_delete_row(SlModify *modify, TupleTableSlot *slot,
									 TupleTableSlot *plan_slot);

/* copy_hook.c */
extern void sl_copy_hook_init(void);

/* copy_from.c: COPY FROM without the executor */
extern bool sl_copy_from_is_plain(const CopyStmt *statement, Relation relation);
extern uint64 sl_copy_from(ParseState *pstate, const CopyStmt *statement, Relation relation);

extern void sl_copy_from_check(const CopyStmt *statement, Relation relation);

/* copy_from_rows.c: COPY FROM into a shell table */
extern uint64 sl_copy_from_rows(ParseState *pstate, const CopyStmt *statement, Relation relation);

/* copy_lines.c: which line of the file a row of a shard's COPY was */
typedef struct SlCopyLines SlCopyLines;

extern SlCopyLines *sl_copy_lines_make(void);
extern void sl_copy_lines_add(SlCopyLines *lines, const SlShard *shard, uint64 line,
							  bool is_simple);
extern void sl_copy_lines_explain(void *arg, SlShard *shard, int64 first, SlFailure *failure);

/* truncate_hook.c */
extern void sl_truncate_hook_init(void);
extern bool sl_truncate_has_shells(void);
extern char *sl_truncate_shells_on(const SlShard *shard);

/* truncate.c */
extern void sl_truncate(List *relations, DropBehavior behavior, bool restart_sequences);

#endif							/* SL_FOREIGN_MODIFY_H */
