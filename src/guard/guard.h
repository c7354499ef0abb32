/*
 * guard.h
 *		What runs on shards.
 *
 * A shard is the authority over what it owns.  It keeps the map entries of its
 * own shardlets, and of those that left it, in two tables that change in the
 * same two-phase commit as the router's.  The guard, a trigger on its tables,
 * compares the key of every written row with them.
 *
 * Locks are transaction-level ones of the kind that PostgreSQL calls advisory,
 * in a name space of their own.  A writer holds ShareLock on the shardlet, or,
 * after SL_GUARD_MAX_LOCKS shardlets, on the map.  Whoever changes an entry
 * holds ExclusiveLock on the shardlet, and RowExclusiveLock on the map, which
 * keeps those out that hold the map; in this order, because a writer that asks
 * for the map may hold the shardlet.  All of them survive PREPARE TRANSACTION.
 */
#ifndef SL_GUARD_H
#define SL_GUARD_H

#include "access/htup.h"
#include "nodes/nodes.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/hsearch.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "base/words.h"
#include "key/key.h"

/* As pg_locks shows them: objsubid of an advisory lock. */
#define SL_GUARD_SHARDLET_TAG	21324	/* classid, objid: halves of the id */
#define SL_GUARD_MAP_TAG		21325	/* objid: the map's id */

/* A transaction locks so many shardlets, and then whole maps. */
#define SL_GUARD_MAX_LOCKS 16

/* The triggers have this name: it sorts before those of others. */
#define SL_GUARD_TRIGGER "!shardlet_guard"

/* Functions of the triggers, in our schema. */
#define SL_GUARD_FUNCTION "guard"
#define SL_GUARD_REFERENCE_FUNCTION "guard_reference"

/* guard_catalog.c: rows; every read sees what is committed now */
typedef struct SlGuardMapRow
{
	NameData	name;
	int32		id;
	SlMapKind	kind;
	int			key_count;
	Oid			key_oids[SL_MAX_KEYS];
	char	   *via;			/* or NULL */
	int64		version;
	NameData	shard;			/* what the router calls this one */
	int64		copy_version;	/* what it knows of others is from */
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

/* guard_lock.c */
extern bool sl_guard_lock_shardlet(int32 map_id, int64 shardlet);
extern void sl_guard_lock_map(int32 map_id);
extern void sl_guard_lock_exclusively(int64 shardlet, int wait_ms);
extern void sl_guard_lock_for_change(int32 map_id, int wait_ms);

/* guard_map.c: a map as far as this shard knows it */
typedef struct SlGuardEntry
{
	int64		id;
	SlState		state;
	TransactionId xmin;			/* that wrote it */
	LocalTransactionId held;	/* by which it was locked and judged */
	int64		low_token;
	int64		last_token;		/* hash: included */
	SlBound		low;			/* range */
	SlBound		high;
} SlGuardEntry;

/*
 * In the session's cache.  The struct stays at its place; "load" changes
 * whenever the content was read anew, and then everything behind a pointer is
 * new.  Only own entries are in it: by low token or bound; of a list the default
 * alone, and keys that were looked up lately (guard_list.c).
 */
typedef struct SlGuardMap
{
	NameData	name;			/* hash key */
	bool		is_current;
	bool		is_known;		/* this shard knows such a map */
	uint64		load;
	LocalTransactionId held;	/* by which the whole map was locked */
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
	HTAB	   *memo;			/* guard_list.c */
} SlGuardMap;

extern void sl_guard_map_init(void);
extern SlGuardMap *sl_guard_map_get(const char *name);
extern SlGuardMap *sl_guard_map_get_known(const char *name);
extern void sl_guard_map_refresh(SlGuardMap *map);
extern SlGuardEntry *sl_guard_map_find(SlGuardMap *map, const Datum *key);
extern bool sl_guard_row_has(SlGuardMap *map, const SlGuardRow *row, const Datum *key);

/* guard_list.c */
extern bool sl_guard_list_has(SlGuardMap *map, const SlGuardRow *row, const Datum *values);
extern SlGuardEntry *sl_guard_list_find(SlGuardMap *map, const Datum *values);

/* guard_claim.c */
extern SlGuardEntry *sl_guard_claim(SlGuardMap *map, const Datum *key, bool writes);
extern void sl_guard_claim_map(SlGuardMap *map);
extern void sl_guard_claim_all(SlGuardMap *map);

/* use_snapshot.c */
extern void sl_use_snapshot_init(void);

/* lone_write.c */
extern void sl_lone_write_init(void);

/* neighbours.c */
extern void sl_neighbours_init(void);

/* hide.c */
extern void sl_hide_init(void);

/* hide_condition.c */
extern void sl_hide_check(const char *source);
extern Node *sl_hide_condition(Relation relation, const char *source);

#endif							/* SL_GUARD_H */
