/*
 * table.h
 *		Tables whose rows live on shards, as the router's catalogs say.
 *
 * A sharded or placed table is a foreign table of the common server, and what
 * makes it one are options of that foreign table: "map" and "key", or
 * "shard_id".  They are changed with it, rolled back with it and dumped with it.
 * A reference table is a plain one with triggers of ours.
 */
#ifndef SL_TABLE_H
#define SL_TABLE_H

#include "access/attnum.h"

#include "map/map.h"

typedef enum SlTableKind
{
	SL_TABLE_SHARDED,
	SL_TABLE_PLACED,
	SL_TABLE_REFERENCE
} SlTableKind;

typedef struct SlTable
{
	Oid			relid;
	SlTableKind kind;
	char	   *map;			/* sharded */
	int			key_count;		/* sharded; 0 with a spread map */
	AttrNumber	key[SL_MAX_KEYS];
	Oid			key_types[SL_MAX_KEYS]; /* of these columns */
	int32		shard_id;		/* placed */
	bool		is_attached;	/* the shards' tables were there before */
} SlTable;

/* The triggers of reference tables call this function of ours. */
#define SL_REFERENCE_FUNCTION "reference_change"

/* With this argument the shards' tables were there before. */
#define SL_REFERENCE_ATTACHED "attached"

/* Names of the options of a foreign table. */
#define SL_OPTION_MAP "map"
#define SL_OPTION_KEY "key"
#define SL_OPTION_SHARD_ID "shard_id"
#define SL_OPTION_ATTACHED "attached"

/* What decides on a conflict is hidden from the planner under this name. */
#define SL_ARBITER_NAME "shardlet_arbiter"

/* table.c */
extern void sl_table_init(void);
extern uint64 sl_table_changes(void);
extern SlTable *sl_table_get(Oid relid);
extern SlTable *sl_table_get_as(Oid relid, List *options);
extern List *sl_table_key_names(const char *key);
extern List *sl_table_owners(const SlTable *table);
extern List *sl_table_homes(const SlTable *table);
extern List *sl_table_all(void);
extern List *sl_table_get_all(List *relids);
extern List *sl_table_names_of(const SlMap *map, const SlShard *shard);
extern List *sl_table_key_of(const SlTable *table);
extern char *sl_table_list_names(List *names);
extern const SlShardlet *sl_table_route(const SlTable *table, const Datum *key);

/* primary_key.c */
typedef struct SlPrimaryKey
{
	Oid			constraint;
	char	   *name;
	List	   *columns;		/* their numbers */
} SlPrimaryKey;

extern SlPrimaryKey *sl_primary_key_get(Oid relid);
extern void sl_primary_key_forget(Oid relid);
extern void sl_primary_key_declare(const SlTable *table, const char *name, List *columns);

#endif							/* SL_TABLE_H */
