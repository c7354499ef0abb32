/*
 * missed_ddl.h
 *		The DDL statements that an offline shard has missed.
 */
#ifndef SL_MISSED_DDL_H
#define SL_MISSED_DDL_H

#include "nodes/pg_list.h"

typedef struct SlMissedDdl
{
	int64		id;				/* the order of execution */
	char	   *statement;
	char	   *condition;		/* a query: whether the shard has to execute
								 * it; NULL: it has to */
	char	   *role;			/* that executes it on the shard */
	List	   *settings;		/* "name=value", as the session had them */
} SlMissedDdl;

/* missed_ddl.c */
extern void sl_missed_ddl_insert(int32 shard_id, const SlMissedDdl *missed);
extern List *sl_missed_ddl_list(int32 shard_id);
extern void sl_missed_ddl_forget(int32 shard_id);

#endif							/* SL_MISSED_DDL_H */
