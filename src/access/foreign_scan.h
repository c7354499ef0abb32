/*
 * foreign_scan.h
 *		Executor state of a foreign scan; private to the foreign data
 *		wrapper.
 */
#ifndef SL_FOREIGN_SCAN_H
#define SL_FOREIGN_SCAN_H

#include "access/access.h"

typedef struct SlScan
{
	SlRemoteScan scan;
	List	   *columns;		/* attribute numbers, in the order of the
								 * result */
	TupleTableSlot *row;		/* NULL: remote rows have the scan's row type */
	bool		is_unlocked;	/* its rows will be locked one by one */
	bool		is_done;		/* a direct modification without RETURNING */
} SlScan;

#endif							/* SL_FOREIGN_SCAN_H */
