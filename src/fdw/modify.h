/*
 * modify.h
 *		Writing to tables whose rows live on shards.
 */
#ifndef SL_MODIFY_H
#define SL_MODIFY_H

#include "foreign/fdwapi.h"
#include "nodes/execnodes.h"
#include "parser/parse_node.h"

#include "fanout/fanout.h"
#include "fanout/row_route.h"
#include "map/table.h"

/* Names of the junk columns that tell where a row is. */
#define SL_JUNK_CTID "ctid"
#define SL_JUNK_SHARD "shardlet_shard"
#define SL_JUNK_TABLE "shardlet_table"

/* write_sql.c: the statements that shards get */
extern void sl_write_relation(StringInfo sql, Relation relation);
extern void sl_write_batch(StringInfo sql, Relation relation, List *columns, int rows,
						   int clause_params, const char *conflict);
extern char *sl_write_insert(Relation relation, List *columns, const char *conflict,
							 List *returning);
extern char *sl_write_update(Relation relation, List *columns, List *returning);
extern char *sl_write_delete(Relation relation, List *returning);
extern char *sl_write_lock(Relation relation);

/* The name of the table in an INSERT with ON CONFLICT. */
#define SL_INSERT_ALIAS "r"

/* Items of the private list of a plan. */
enum
{
	SL_MODIFY_COLUMNS,			/* IntList: that are sent */
	SL_MODIFY_RETURNING,		/* IntList: that come back */
	SL_MODIFY_CONFLICT,			/* String: ON CONFLICT ..., or empty */
	SL_MODIFY_CONFLICT_PARAMS,	/* List of expressions, $1 and on, in it */
	SL_MODIFY_CONFLICT_UPDATES	/* Integer: it updates */
};

/*
 * What one ModifyTable node, or COPY, does to one table.  Rows whose fate need
 * not be known at once are sent without waiting, and count as written; how many
 * were shows at the end.
 */
typedef struct SlModify
{
	dlist_node	node;			/* in the list of those that are under way */
	MemoryContext context;
	MemoryContextCallback callback;
	EState	   *estate;
	Relation	relation;
	HTAB	   *changed;		/* rows, if they are not locked; or NULL */
	char	   *lock_sql;
	SlFailure  *lock_failure;	/* what it means that it finds no row */
	SlStatement *statement;
	SlRowRoute	route;
	SlPipe	   *pipe;
	uint64		claimed;		/* rows that were sent and count as written */
	uint64		asked;			/* rows that were waited for, of the pipe's */
	uint64		copied;			/* rows of COPYs that have ended */
	int64		corrected;		/* was taken off the count already */
	MemoryContext work;			/* reset for every row */
	CmdType		operation;
	Oid			user;

	/* columns that come back */
	List	   *returning;
	SlDecoder  *decoder;

	/* INSERT */
	List	   *insert_columns;
	char	   *insert_sql;		/* NULL: not prepared yet */
	SlCopyRow  *insert_values;
	SlCopyIn   *copy;
	SlCopyRow  *copy_row;
	uint64		inserted;		/* rows so far */

	/* ON CONFLICT */
	const char *conflict;		/* the clause; NULL: none */
	List	   *conflict_params;	/* ExprStates */
	List	   *conflict_types; /* OIDs */
	const char **conflict_values;
	ExprContext *conflict_context;
	List	   *batches;		/* rows that wait to be sent together */
	int			conflict_param_count;

	/* UPDATE and DELETE */
	int			wire_count;		/* of columns that come back */
	List	   *update_columns;
	char	   *update_sql;
	SlCopyRow  *update_values;
	char	   *delete_sql;
	char	   *move_sql;		/* DELETE of a row that changes shards */
	List	   *referrers;		/* what is known of rows that refer to it */
	AttrNumber	ctid_junk;
	AttrNumber	shard_junk;
	AttrNumber	table_junk;

	/* what kind of work it is */
	bool		counts;			/* its rows count for the command's tag */
	bool		needs_reply;	/* each row's fate must be known at once */
	bool		is_bulk;		/* many rows are expected */
	bool		returning_binary;
	bool		shuns_copy;		/* COPY was ended too often */
	bool		conflict_updates;
	bool		key_may_change;
} SlModify;

/* modify.c */
extern void sl_modify_init(void);
extern void sl_fdw_add_modify(FdwRoutine *routine);
extern bool sl_modify_take_reply(SlModify *modify, SlShard *shard, const char *sql,
								 PGresult *result, TupleTableSlot *slot);
extern int64 sl_modify_lost_in_copy(void);

/* modify_plan.c */
extern void sl_modify_add_targets(PlannerInfo *root, Index index, RangeTblEntry *entry,
								  Relation relation);
extern List *sl_modify_plan(PlannerInfo *root, ModifyTable *plan, Index index, int subplan);
extern void sl_modify_explain(ModifyTableState *state, ResultRelInfo *info, List *private,
							  int subplan, struct ExplainState *es);

/* conflict.c: ON CONFLICT, as the shards get it */
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

/* referrer.c */
extern void sl_referrer_check(SlModify *modify, SlShard *shard, int count,
							  const char *const *identity);

/* insert.c */
extern void sl_insert_prepare(SlModify *modify);
extern TupleTableSlot *sl_insert_row(SlModify *modify, TupleTableSlot *slot);
extern void sl_insert_flush(SlModify *modify);
extern bool sl_insert_ask(SlModify *modify, SlShard *shard, TupleTableSlot *slot);

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

/* copy_lines.c: which line of the file a row of a shard's COPY was */
typedef struct SlCopyLines SlCopyLines;

extern SlCopyLines *sl_copy_lines_make(void);
extern void sl_copy_lines_add(SlCopyLines *lines, const SlShard *shard, uint64 line,
							  bool is_simple);
extern void sl_copy_lines_explain(void *arg, SlShard *shard, int64 first, SlFailure *failure);

/* truncate.c */
extern void sl_truncate(List *relations, DropBehavior behavior, bool restart_sequences);

#endif							/* SL_MODIFY_H */
