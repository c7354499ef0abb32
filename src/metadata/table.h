/*
 * table.h
 *		Distributed tables, as the router's catalogs describe them.
 *
 * A sharded or placed table is a shell table (shell_table.c): an ordinary table without
 * rows, which a row of pg_foreign_table connects to the common server with the options
 * "map" and "key", or "shard_id".  A reference table is a plain table with triggers of
 * this extension.
 */
#ifndef SL_TABLE_H
#define SL_TABLE_H

#include "access/attnum.h"
#include "utils/relcache.h"
#include "utils/reltrigger.h"

#include "metadata/map.h"

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
	bool		is_attached;	/* it was attached, not distributed */
	bool		is_local_unique;	/* may have unique keys without the shard
									 * key, which each shard enforces */
	bool		is_partition;	/* of another shell table */
} SlTable;

/* The function of the triggers of reference tables. */
#define SL_REFERENCE_FUNCTION "reference_change"

/* The trigger argument of an attached table. */
#define SL_REFERENCE_ATTACHED "attached"

/* Names of the options in the row of pg_foreign_table. */
#define SL_OPTION_MAP "map"
#define SL_OPTION_KEY "key"
#define SL_OPTION_SHARD_ID "shard_id"
#define SL_OPTION_ATTACHED "attached"
#define SL_OPTION_LOCAL_UNIQUE "local_unique"

/* table_cache.c */
extern void sl_table_init(void);
extern uint64 sl_table_changes(void);
extern SlTable *sl_table_get(Oid relid);
extern bool sl_table_is_remote(Oid relid, char relkind);
extern bool sl_table_has_shells(void);
extern void sl_table_check_snapshot(Oid relid);
extern SlTable *sl_table_get_as(Oid relid, List *options);
extern List *sl_table_key_names(const char *key);
extern List *sl_table_owners(const SlTable *table);
extern List *sl_table_homes(const SlTable *table);
extern List *sl_table_all(void);
extern List *sl_table_shards(void);
extern List *sl_table_get_all(List *relids);
extern List *sl_table_names_of(const SlMap *map, const SlShard *shard);
extern List *sl_table_key_of(const SlTable *table);
extern char *sl_table_list_names(List *names);
extern const SlShardlet *sl_table_route(const SlTable *table, const Datum *key);

/* shell_table.c */
extern bool sl_shell_is_connected(Oid relid);
extern bool sl_shell_is_shell(Oid relid, char relkind);
extern void sl_shell_add_row(Oid relid, List *options);
extern void sl_shell_copy_row(Oid relid, Oid source);
extern SlTable *sl_shell_get_table(Oid relid);
extern void sl_shell_remove_row(Oid relid);
extern void sl_shell_set_option(Oid relid, const char *name, const char *value);

/* shell_catalog.c: the list of shell tables that is dumped */
typedef struct SlListedTable
{
	char	   *schema;
	char	   *name;
	List	   *options;		/* those of its row of pg_foreign_table */
} SlListedTable;

extern void sl_shell_list_add(Oid relid);
extern void sl_shell_list_remove(Oid relid);
extern void sl_shell_list_remove_entry(const SlListedTable *entry);
extern bool sl_shell_list_has(Oid relid);
extern List *sl_shell_list_all(void);
extern void sl_shell_list_follow_table(Oid relid);
extern void sl_shell_list_follow_schema(Oid schema_id);

#endif							/* SL_TABLE_H */
