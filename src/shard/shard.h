/*
 * shard.h
 *		What runs on shards.
 *
 * A shard is the authority over what it owns.  It has the map entries of its
 * own shardlets, and of those that left it, in two tables that change in the
 * same two-phase commit as the router's.  The guard, a trigger on its tables,
 * checks the key of every written row against them.
 *
 * Locks are transaction-level advisory locks, in a name space of their own.  A
 * writer takes ShareLock on the shardlet, or, after SL_GUARD_MAX_LOCKS
 * shardlets, on the map.  A change of an entry takes ExclusiveLock on the
 * shardlet, and then RowExclusiveLock on the map, which conflicts with writers
 * that hold the map; in this order, because a writer that requests the map may
 * hold the shardlet.  All of them survive PREPARE TRANSACTION.
 */
#ifndef SL_SHARD_H
#define SL_SHARD_H

#include "access/htup.h"
#include "nodes/nodes.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/hsearch.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "base/enum_names.h"
#include "metadata/key.h"

/* As pg_locks shows them: objsubid of an advisory lock. */
#define SL_GUARD_SHARDLET_TAG	21324	/* classid, objid: halves of the id */
#define SL_GUARD_MAP_TAG		21325	/* objid: the map's id */
#define SL_GUARD_ROUTER_TAG		21326	/* which router the shard belongs to */

/* A transaction locks at most so many shardlets, and then whole maps. */
#define SL_GUARD_MAX_LOCKS 16

/* Functions of the triggers, in the extension's schema. */
#define SL_GUARD_FUNCTION "guard"

/* ownership_catalog.c: rows; every read sees what is committed now */
typedef struct SlGuardMapRow
{
	NameData	name;
	int32		id;
	SlMapKind	kind;
	int			key_count;
	Oid			key_oids[SL_MAX_KEYS];
	char	   *via;			/* or NULL */
	int64		version;
	NameData	shard;			/* the router's name for this shard */
	int64		copy_version;	/* the version of its entries of other shards */
	char	   *hide_key;		/* the key of hide_rows() proofs, or NULL */
	char	   *router;			/* that it belongs to, or NULL */
} SlGuardMapRow;

typedef struct SlGuardRow
{
	NameData	map;
	int64		id;
	bool		has_low_token;
	bool		has_high_token;
	int64		low_token;
	int64		high_token;		/* not included */
	ArrayType  *low;			/* text[], or NULL */
	ArrayType  *high;			/* text[], or NULL; not included */
	bool		is_default;
	SlState		state;
	bool		pinned;
	int64		version;
	bool		is_own;
	NameData	owner;			/* if it is not */
	ItemPointerData tid;		/* of a row that was read */
	TransactionId xmin;			/* that wrote it */
} SlGuardRow;

typedef bool (*SlGuardVisitor) (const SlGuardRow *row, void *context);

extern bool sl_guard_map_row_read(const char *map, SlGuardMapRow *row);
extern void sl_guard_map_row_write(const SlGuardMapRow *row);
extern List *sl_guard_map_names(void);
extern bool sl_guard_row_read(const char *map, int64 shardlet, SlGuardRow *row);
extern void sl_guard_row_scan(const char *map, SlGuardVisitor visitor, void *context);
extern void sl_guard_row_scan_at(const char *map, Snapshot snapshot, SlGuardVisitor visitor,
								 void *context);
extern void sl_guard_row_scan_token(const char *map, int64 token, SlGuardVisitor visitor,
									void *context);
extern void sl_guard_row_insert(const SlGuardRow *rows, int count);
extern void sl_guard_row_update(const SlGuardRow *row);
extern void sl_guard_row_delete(const SlGuardRow *row);
extern void sl_guard_map_delete(const char *map);

/* ownership_lock.c */
extern bool sl_guard_lock_shardlet(int32 map_id, int64 shardlet);
extern void sl_guard_lock_map(int32 map_id);
extern void sl_guard_lock_exclusively(int64 shardlet, int wait_ms);
extern void sl_guard_lock_for_change(int32 map_id, int wait_ms);
extern void sl_guard_lock_router(void);
extern void sl_guard_lock_router_for_change(int wait_ms);

/* router_epoch.c */
extern void sl_guard_check_router(const char *router, int64 epoch);

/* ownership_cache.c: a map as far as this shard knows it */
typedef struct SlGuardEntry
{
	int64		id;
	SlState		state;
	TransactionId xmin;			/* that wrote it */
	LocalTransactionId held;	/* the transaction that has locked and checked
								 * it */
	int64		low_token;
	int64		last_token;		/* hash: included */
	SlBound		low;			/* range */
	SlBound		high;
} SlGuardEntry;

/*
 * In the session's cache.  The struct is never freed; "load" changes whenever
 * the content was read again, and then all pointers in it are new.  Only own
 * entries are in it: by low token or bound; of a list the default alone, and a
 * cache of looked-up keys (ownership_list.c).
 */
typedef struct SlGuardMap
{
	NameData	name;			/* hash key */
	bool		is_current;
	bool		is_known;		/* this shard knows such a map */
	uint64		load;
	LocalTransactionId held;	/* the transaction that has locked the whole
								 * map */
	MemoryContext context;		/* of everything below */
	int32		id;
	SlMapKind	kind;
	int64		version;
	int64		copy_version;
	int			key_count;
	SlKeyType  *key_types;
	SlVia	   *via;			/* NULL: the key itself is looked up */
	int			value_count;	/* of what is looked up: keys, or via's value */
	SlKeyType  *value_types;
	int			entry_count;
	SlGuardEntry *entries;
	HTAB	   *memo;			/* ownership_list.c */
} SlGuardMap;

extern void sl_guard_map_init(void);
extern SlGuardMap *sl_guard_map_get(const char *name);
extern SlGuardMap *sl_guard_map_get_known(const char *name);
extern void sl_guard_map_refresh(SlGuardMap *map);
extern SlGuardEntry *sl_guard_map_find(SlGuardMap *map, const Datum *key);
extern bool sl_guard_row_has(SlGuardMap *map, const SlGuardRow *row, const Datum *key);

/* ownership_list.c */
extern bool sl_guard_list_has(SlGuardMap *map, const SlGuardRow *row, const Datum *values);
extern SlGuardEntry *sl_guard_list_find(SlGuardMap *map, const Datum *values);

/* ownership_check.c */
extern SlGuardEntry *sl_guard_claim(SlGuardMap *map, const Datum *key, bool writes);
extern void sl_guard_claim_map(SlGuardMap *map);
extern void sl_guard_claim_all(SlGuardMap *map);

/* statement_snapshot.c */
extern void sl_use_snapshot_init(void);

/* autocommit_mark.c */
extern void sl_autocommit_mark_init(void);

/* parallel_workers.c */
extern void sl_parallel_workers_init(void);

/* run_as_owner.c */
extern void sl_run_as_owner_init(void);

/* hide_rows.c */
extern void sl_hide_init(void);

/* hide_rows_condition.c */
extern void sl_hide_check(const char *source);
extern Node *sl_hide_condition(Relation relation, const char *source);

#endif							/* SL_SHARD_H */
