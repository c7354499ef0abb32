/*
 * fdw_scan.h
 *		A scan of shards while it runs; private to the wrapper.
 */
#ifndef SL_FDW_SCAN_H
#define SL_FDW_SCAN_H

#include "fdw/fdw.h"

typedef struct SlScan
{
	SlAsk		ask;
	List	   *columns;		/* of the table, in the order of the result */
	TupleTableSlot *row;		/* NULL: rows have the right shape */
	bool		is_unlocked;	/* its rows will be locked one by one */
	bool		is_done;		/* what returns no rows */
} SlScan;

#endif							/* SL_FDW_SCAN_H */
