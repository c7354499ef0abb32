/*
 * shell_access.h
 *		Shell tables: distributed tables that are ordinary tables, without rows, in
 *		the router's catalogs; what may access their heap, and their statistics.
 */
#ifndef SL_SHELL_ACCESS_H
#define SL_SHELL_ACCESS_H

#include "access/tableam.h"
#include "commands/vacuum.h"
#include "nodes/parsenodes.h"
#include "utils/rel.h"

#include "compat.h"

/* Whose rows the heap of a shell table has. */
typedef enum SlShellState
{
	/* A command of this extension works on the table: it is a heap. */
	SL_SHELL_OPEN,
	/* The rows are on shards; the heap is empty, and must not be accessed. */
	SL_SHELL_CONNECTED,
	/* Restored from a dump with its rows, or being restored: it is a heap. */
	SL_SHELL_RESTORED,
	/* Restored without rows: neither connected nor a heap. */
	SL_SHELL_DORMANT
} SlShellState;

/* shell_access.c */
extern void sl_shell_init(void);
extern void sl_shell_open(Oid relid);
extern void sl_shell_close(Oid relid);
extern bool sl_shell_is_open(Oid relid);
extern bool sl_shell_is_restoring(void);
extern Oid	sl_shell_rewritten_table(Relation relation);
extern bool sl_shell_has_blocks(Relation relation);
extern SlShellState sl_shell_state(Relation relation);
extern bool sl_shell_is_heap(Relation relation);
extern void sl_shell_check_access(Relation relation);

/* shell_planning.c */
extern void sl_shell_planning_init(void);
extern void sl_shell_substitute(Query *query);

/* table_access_method.c */
extern bool sl_shell_has_access_method(Relation relation);
extern bool sl_shell_are_known(void);

/* shell_statistics.c */
extern void sl_shell_statistics_init(void);
extern TableScanDesc sl_shell_begin_analyze(Relation relation, uint32 flags);
extern bool sl_shell_is_analyze(TableScanDesc scan);
extern void sl_shell_end_analyze(TableScanDesc scan);
extern bool sl_shell_next_sample(TableScanDesc scan, double *live_rows, TupleTableSlot *slot);
extern uint64 sl_shell_size(Relation relation, ForkNumber fork);
extern void sl_shell_estimate_size(Relation relation, int32 *widths, BlockNumber *pages, double *tuples,
								   double *visible);
extern void sl_shell_vacuum(Relation relation, VacuumParams *params, BufferAccessStrategy strategy);

#endif							/* SL_SHELL_ACCESS_H */
