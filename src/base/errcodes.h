/*
 * errcodes.h
 *		SQLSTATEs of class SL, one line each.
 *
 * A standard SQLSTATE is used where one fits.  These are for conditions that an
 * application must distinguish and that have no standard SQLSTATE.
 * docs/reference.md has the same table, and tools/check-docs compares the two.
 */
#ifndef SL_ERRCODES_H
#define SL_ERRCODES_H

#include "utils/elog.h"

/* no shardlet for the key */
#define SL_ERR_NO_SHARDLET		MAKE_SQLSTATE('S','L','0','0','1')
/* this shard does not own the key */
#define SL_ERR_NOT_OWNER		MAKE_SQLSTATE('S','L','0','0','2')
/* shard or shardlet is read-only */
#define SL_ERR_READ_ONLY		MAKE_SQLSTATE('S','L','0','0','3')
/* shard unreachable or offline */
#define SL_ERR_UNREACHABLE		MAKE_SQLSTATE('S','L','0','0','4')
/* transaction would span shards while that is forbidden */
#define SL_ERR_MULTI_SHARD		MAKE_SQLSTATE('S','L','0','0','5')
/* schemas or rows differ between shards */
#define SL_ERR_DIFFERENT		MAKE_SQLSTATE('S','L','0','0','6')
/* already exists or overlaps */
#define SL_ERR_EXISTS			MAKE_SQLSTATE('S','L','0','0','7')
/* invalid operation on a map, shard or shardlet */
#define SL_ERR_INVALID			MAKE_SQLSTATE('S','L','0','0','8')
/* the shard is not the one that was registered; a table is not connected */
#define SL_ERR_IDENTITY			MAKE_SQLSTATE('S','L','0','0','9')

#endif							/* SL_ERRCODES_H */
