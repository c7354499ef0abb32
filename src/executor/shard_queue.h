/*
 * shard_queue.h
 *		What goes to many shards at once, through a queue for each of them.
 *
 * Private to statement_pipeline.c and copy_to_shards.c, whose own structs begin
 * with these.
 */
#ifndef SL_SHARD_QUEUE_H
#define SL_SHARD_QUEUE_H

#include "lib/ilist.h"

#include "executor/multi_shard.h"

typedef struct SlQueueSet SlQueueSet;

/* What goes to one shard. */
typedef struct SlShardQueue
{
	SlQueueSet *set;
	SlShard    *shard;
	SlConn	   *conn;			/* NULL: not opened yet */
} SlShardQueue;

typedef struct SlQueueMethods
{
	Size		queue_size;		/* of the struct that begins with SlShardQueue */
	const char *refusal;		/* the message when the set is over */
	void		(*yield) (SlConn *conn);	/* empties the queue that owns it */
	void		(*abandon) (SlShardQueue *queue);	/* without waiting */
} SlQueueMethods;

/* The queues of one statement. */
struct SlQueueSet
{
	dlist_node	node;			/* in the list of those that are under way */
	const SlQueueMethods *methods;
	SubTransactionId transaction;	/* that it ends with */
	MemoryContext context;
	MemoryContextCallback callback;
	const SlStatement *statement;	/* or NULL */
	Oid			user;			/* whose connections are used */
	bool		is_over;
	List	   *queues;			/* of SlShardQueue */
	SlShardQueue *last;			/* that was found last */
};

extern void sl_queue_set_begin(SlQueueSet *set, const SlQueueMethods *methods, MemoryContext context,
							   Oid user, const SlStatement *statement);
extern void sl_queue_set_check(const SlQueueSet *set);
extern void sl_queue_set_end(SlQueueSet *set);
extern void *sl_shard_queue_find(SlQueueSet *set, SlShard *shard, bool *is_new);
extern SlFailure *sl_shard_queue_take_conn(SlShardQueue *queue);
extern SlFailure *sl_shard_queue_join(SlShardQueue *queue);
extern void sl_shard_queue_give_conn(SlShardQueue *queue);
extern SlFailure *sl_shard_queue_time_out(const SlShardQueue *queue);

#endif							/* SL_SHARD_QUEUE_H */
