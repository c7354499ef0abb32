/*
 * map.h
 *		Maps, shardlets and shards as the router knows them.
 *
 * A map is found through a cache of the session (map_cache.c); a change goes
 * through map_change.c, which locks the map, raises its version and
 * invalidates the caches of all sessions.
 */
#ifndef SL_MAP_H
#define SL_MAP_H

#include "access/htup.h"
#include "foreign/foreign.h"
#include "storage/lockdefs.h"
#include "utils/array.h"
#include "utils/snapshot.h"

#include "base/enum_names.h"
#include "metadata/key.h"

#define SL_MAX_SHARDLETS 65536

/*
 * A shard: a SERVER of the foreign data wrapper that has an id.  The struct is
 * never freed, so that maps can point to it, and is updated when a server
 * changes.  Its strings are valid until then.
 */
typedef struct SlShard
{
	int32		id;				/* hash key; never changes */
	bool		exists;			/* false: dropped since */
	bool		bare;			/* has no extension */
	bool		other_collation;	/* sorts text in another way than the
									 * router */
	SlState		state;
	Oid			server;
	NameData	name;
	float4		weight;
	const char *identity;		/* NULL: not known */
	const char *region;
	const char *host;			/* for applications; may be NULL */
	const char *port;
	const char *dbname;
} SlShard;

/* A shardlet of a loaded map.  Value bounds are in SlMap. */
typedef struct SlShardlet
{
	int64		id;
	int64		version;
	int64		low_token;		/* hash: first token */
	int64		last_token;		/* hash: last token, included */
	SlShard    *shard;
	SlState		state;
	bool		pinned;
	bool		is_default;		/* list: keys that no entry names */
} SlShardlet;

typedef struct SlOrphanedRange SlOrphanedRange;

/*
 * A map in the session's cache.  The struct is never freed; "load" changes
 * whenever the content was read again, and then all pointers in it are new.
 *
 * hash:	shardlets by low_token, also in low_tokens for the binary search
 * range:	shardlets by low bound, with lows and highs beside them
 * list:	only the default shardlet; others are looked up (list_lookup.c)
 * spread:	one shardlet for each shard
 */
typedef struct SlMap
{
	NameData	name;			/* hash key */
	int32		id;				/* 0: no such map */
	uint64		load;
	MemoryContext context;		/* of everything below */
	SlMapKind	kind;
	int64		version;
	TransactionId xmin;			/* of the map's row: see map_cache.c */
	int			key_count;
	Oid			key_oids[SL_MAX_KEYS];
	SlKeyType  *key_types;
	const char *via_text;
	SlVia	   *via;			/* NULL: the key itself is looked up */
	int			value_count;	/* of what is looked up: keys, or via's value */
	SlKeyType  *value_types;
	int			shardlet_count;
	SlShardlet *shardlets;
	int64	   *low_tokens;
	SlBound    *lows;
	SlBound    *highs;
	void	   *list_memo;		/* cache of looked-up keys, list_lookup.c */
	int			orphaned_count; /* see orphaned_rows.c */
	SlOrphanedRange *orphaned;
} SlMap;

/* Rows of the catalog tables. */
typedef struct SlMapRow
{
	int32		id;
	NameData	name;
	SlMapKind	kind;
	int			key_count;
	Oid			key_oids[SL_MAX_KEYS];
	char	   *via;			/* or NULL */
	int64		version;
	TransactionId xmin;
} SlMapRow;

typedef struct SlShardletRow
{
	int64		id;
	int32		map_id;
	int32		shard_id;
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
	ItemPointerData tid;		/* of a row that was read */
} SlShardletRow;

/*
 * Rows that a shard may have and does not own.  Before the switch of a move
 * the target has them, and the range is in the state that the move requires;
 * after it the source has them.
 */
struct SlOrphanedRange
{
	int64		move;
	SlShard    *shard;
	TransactionId xmin;			/* of the row */
	bool		is_after_switch;	/* after the switch, which xmin has done */
	SlShardletRow range;		/* map, bounds, is_default and state only */
};

/* router_identity.c: see there */
typedef struct SlRouter
{
	bool		exists;			/* a shard was added once */
	bool		is_valid;		/* false: dormant */
	char		id[40];
	int64		epoch;
} SlRouter;

#define SL_ROUTER_HINT "Run shardlet.take_over() here to make this database the router. The other one cannot use its shards any more then."

extern void sl_router_init(void);
extern const SlRouter *sl_router_get(void);
extern char *sl_router_name(void);
extern void sl_router_make(void);
extern void sl_router_set_epoch(int64 epoch);
extern const char *sl_router_refusal(void);
extern void sl_router_check(void);

/* shard_cache.c */
extern void sl_shard_init(void);
extern void sl_shard_refresh(void);
extern SlShard *sl_shard_by_id(int32 id);
extern SlShard *sl_shard_by_name(const char *name, bool missing_ok);
extern List *sl_shard_all(void);
extern void sl_shard_lock(SlShard *shard, LOCKMODE mode);

/* The version of a map that a shard must have. */
typedef struct SlMapShardVersion
{
	int32		map_id;
	int64		version;
	bool		is_changing;	/* by this transaction: any will do */
} SlMapShardVersion;

/* map_catalog.c: rows; every read sees what is committed now */
typedef bool (*SlShardletVisitor) (const SlShardletRow *row, void *context);

extern bool sl_map_row_read(const char *name, Snapshot snapshot, SlMapRow *row);
extern bool sl_map_row_read_id(int32 id, SlMapRow *row);
extern void sl_map_row_insert(const SlMapRow *row);
extern void sl_map_row_set_version(int32 map_id, int64 version);
extern void sl_map_row_set_via(int32 map_id, const char *via);
extern void sl_map_row_delete(int32 map_id);
extern bool sl_shardlet_row_read(int64 id, SlShardletRow *row);
extern void sl_shardlet_row_scan(int32 map_id, Snapshot snapshot,
								 SlShardletVisitor visitor, void *context);
extern void sl_shardlet_row_scan_default(int32 map_id, Snapshot snapshot,
										 SlShardletVisitor visitor, void *context);
extern void sl_shardlet_row_scan_token(int32 map_id, int64 token,
									   SlShardletVisitor visitor, void *context);
extern void sl_shardlet_row_insert(const SlShardletRow *rows, int count);
extern void sl_shardlet_row_update(const SlShardletRow *row);
extern void sl_shardlet_row_delete(const SlShardletRow *row);
extern List *sl_map_shard_ids(int32 map_id);
extern List *sl_map_ids_of_shard(int32 shard_id);
extern int64 sl_map_count_shardlets(int32 shard_id, int32 map_id);
extern void sl_map_shard_insert(int32 map_id, int32 shard_id);
extern void sl_map_shard_delete(int32 map_id, int32 shard_id);
extern void sl_map_shard_set_behind(int32 map_id, int32 shard_id, bool is_behind);
extern bool sl_map_shard_is_behind(int32 shard_id);
extern void sl_map_shard_set_version(int32 map_id, int32 shard_id, int64 version);
extern List *sl_map_shard_versions(int32 shard_id);
extern void sl_map_note_dropped_map(int32 map_id);
extern bool sl_map_was_dropped(int32 map_id);
extern List *sl_map_dropped_ids(void);
extern List *sl_map_all_ids(void);
extern SlShard *sl_map_lost_shard_beside(int32 shard_id);
extern int	sl_map_begin_plain_output(void);
extern void sl_map_end_plain_output(int nest_level);

/* map_cache.c */
extern void sl_map_init(void);
extern void sl_map_invalidate_all(void);
extern bool sl_map_is_settled(const char *name, int64 version);
extern SlMap *sl_map_get(const char *name);
extern SlMap *sl_map_get_now(const char *name);
extern void sl_map_refresh(SlMap *map);
extern SlMap *sl_map_get_by_id(int32 id);

/* map_lookup.c */
extern const char *sl_shardlet_text(SlMap *map, int index);
extern const SlShardlet *sl_map_lookup(SlMap *map, const Datum *key);
extern const SlShardlet *sl_map_find(SlMap *map, const Datum *key);
extern const SlShardlet *sl_map_next_slot(SlMap *map);
extern int	sl_map_find_value(SlMap *map, Datum value);
extern void sl_map_check_readable(const SlMap *map, const SlShardlet *shardlet);
extern void sl_map_check_writable(const SlMap *map, const SlShardlet *shardlet);

/* list_lookup.c */
extern const SlShardlet *sl_map_list_lookup(SlMap *map, const Datum *values);
extern bool sl_map_list_find(SlMap *map, int64 token, const Datum *values,
							 SlShardletRow *row);
extern ArrayType *sl_map_values_to_text(SlMap *map, const Datum *values);
extern void sl_map_text_to_values(SlMap *map, ArrayType *stored, Datum *values);

/* map_change.c */
extern SlMap *sl_map_open_for_change(const char *name);
extern SlMap *sl_map_open_at_rest(const char *name);
extern SlMap *sl_map_open_for_move(int64 shardlet, SlShardletRow *row);
extern SlMap *sl_map_open_shardlet(int64 shardlet, SlShardletRow *row);
extern void sl_map_lock_names(void);
extern int64 sl_map_next_version(const SlMap *map);
extern void sl_map_finish_change(const SlMap *map);
extern void sl_map_announce_drop(const SlMap *map);
extern void sl_map_raise_version(const SlMap *map, int64 above);
extern void sl_map_finish_rebuild(const SlMapRow *map);
extern SlShardletRow sl_map_new_shardlet(const SlMap *map, const SlShard *shard,
										 int64 version);
extern void sl_map_touch_shard(int32 shard_id);
extern void sl_map_forget_shard(int32 shard_id);
extern void sl_map_join_shard(SlMap *map, SlShard *shard);
extern void sl_map_include_shard(SlMap *map, SlShard *shard);
extern void sl_map_check_slot(const SlMap *map, const SlShard *shard, int64 move);
extern SlShard **sl_map_place(SlMap *map, int count);

/* map_isolate.c: cutting shardlets */
extern int64 sl_shardlet_last_token(const SlShardletRow *row);
extern SlShardletRow sl_shardlet_copy(const SlShardletRow *row, int64 version);
extern void sl_map_check_room(const SlMap *map, int more);
extern SlShardletRow sl_map_isolate_key(SlMap *map, const Datum *key);

/*
 * map_change_log.c: what a change has done, for the metadata updates of shards
 */
typedef struct SlShardletChange
{
	int32		old_shard_id;	/* 0: the shardlet is new */
	bool		is_gone;
	SlShardletRow row;			/* as it is now, or was */
} SlShardletChange;

typedef struct SlMapChange
{
	List	   *shardlets;		/* of SlShardletChange, in order */
	List	   *joined;			/* ids of shards that are new in the map */
	int32		dropped_id;		/* of a shard that is dropped; 0: none */
} SlMapChange;

extern void sl_map_note_begin(void);
extern void sl_map_note_shardlet(const SlShardletRow *row, int32 old_shard_id, bool is_gone);
extern void sl_map_note_joined(int32 shard_id);
extern void sl_map_note_dropped(int32 shard_id);
extern void sl_map_note_end(int32 map_id);

/* orphaned_rows.c */

/* The lock of a map that makes moves wait: the objsubid. */
#define SL_ORPHANED_HOLD 1

extern void sl_orphaned_load(SlMap *map, int32 map_id, Snapshot snapshot);
extern void sl_orphaned_insert(const SlOrphanedRange *orphan);
extern void sl_orphaned_delete(int32 map_id, int64 move);
extern void sl_orphaned_delete_all(int32 map_id);
extern void sl_orphaned_hold(int32 map_id);

/* shard_secret.c */
extern char *sl_shard_secret_get(int32 shard_id, bool may_make);

/* orphaned_rows.c */
extern bool sl_orphaned_is_followed(const SlMap *map);
extern bool sl_orphaned_is_newer(const SlMap *map, Snapshot snapshot);
extern void sl_orphaned_check_writable(const SlMap *map);
extern const SlOrphanedRange *sl_orphaned_find(const SlMap *map, int64 move);
extern void sl_orphaned_refuse_lost(const SlMap *map);
extern List *sl_orphaned_arriving(int32 map_id, int32 shard_id);
extern int64 sl_map_move_with(int32 shard_id, int32 map_id, int64 except);
extern void sl_map_refuse_moving_default(const SlMap *map);
extern void sl_map_refuse_moving(int64 shardlet);

/* function_args.c: arguments of the functions */
extern char *sl_map_arg_name(FunctionCallInfo fcinfo, int argument, const char *what);
extern char *sl_map_arg_text(FunctionCallInfo fcinfo, int argument, const char *what);
extern int64 sl_map_arg_int64(FunctionCallInfo fcinfo, int argument, const char *what);
extern List *sl_map_arg_shards(FunctionCallInfo fcinfo, int argument);
extern List *sl_map_listed_shards(ArrayType *array);
extern void sl_map_check_key_count(const SlMap *map, int given, int expected);
extern char *sl_map_key_label(const SlMap *map);
extern void sl_map_coerce_key(SlMap *map, bool as_value, const SlKeyArgs *args,
							  Datum *key);

/* The keys of an array: of one column each, or records of several. */
typedef struct SlKeyArray
{
	SlMap	   *map;
	bool		as_value;		/* looked-up values, not keys: differs with
								 * via */
	int			count;
	Oid			element_type;
	Datum	   *elements;
	bool	   *nulls;
	bool		prepared;
	Oid			from[SL_MAX_KEYS];
	SlCoercion	coercions[SL_MAX_KEYS];
} SlKeyArray;

extern void sl_map_key_array_open(SlKeyArray *keys, SlMap *map, bool as_value,
								  ArrayType *array);
extern void sl_map_key_array_get(SlKeyArray *keys, int index, Datum *key);

#endif							/* SL_MAP_H */
