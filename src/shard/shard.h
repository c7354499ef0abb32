/*
 * shard.h
 *		Making databases shards, changing and forgetting them.
 */
#ifndef SL_SHARD_H
#define SL_SHARD_H

#include "remote/remote.h"

/* shard_hook.c */
extern void sl_shard_hook_init(void);
extern bool sl_shard_is_registering;

/* provision.c: work on the database that becomes a shard */
extern List *sl_provision_local(const char *shard);
extern char *sl_provision_shard(SlConn *conn, int32 id, bool install, bool *other_collation);

/* twin.c: is it a database that we have already */
extern void sl_twin_refuse_router(SlConn *conn);
extern SlShard *sl_twin_find(SlConn *conn, const char *identity);

#endif							/* SL_SHARD_H */
