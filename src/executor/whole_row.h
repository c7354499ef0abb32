/*
 * whole_row.h
 *		Remote scans whose row is needed as one value.
 */
#ifndef SL_WHOLE_ROW_H
#define SL_WHOLE_ROW_H

#include "executor/executor.h"

typedef struct SlWholeRow
{
	bool		is_wanted;
	TupleDesc	columns;		/* without it */
	TupleTableSlot *slot;		/* for a row that is checked again, or NULL */
} SlWholeRow;

extern void sl_whole_row_open(SlWholeRow *whole, TupleDesc scanned, bool is_wanted);
extern void sl_whole_row_add(const SlWholeRow *whole, ScanState *node, TupleTableSlot *slot);
extern bool sl_whole_row_recheck(SlWholeRow *whole, ScanState *node, TupleTableSlot *slot,
								 ExecScanAccessMtd access);

#endif							/* SL_WHOLE_ROW_H */
