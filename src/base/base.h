/*
 * base.h
 *		Used by all areas: settings, catalog tables, options, checks.
 */
#ifndef SL_BASE_H
#define SL_BASE_H

#include "access/htup.h"
#include "nodes/pg_list.h"
#include "storage/itemptr.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"

#include "base/errcodes.h"

/* The extension's schemas: for users, and for its own statements. */
#define SL_SCHEMA				"shardlet"
#define SL_INTERNAL_SCHEMA		"shardlet_internal"

/* The foreign data wrapper, and the server that all sharded tables share. */
#define SL_WRAPPER_NAME			"shardlet"
#define SL_TABLES_SERVER_NAME	"shardlet_tables"

/* The access method of tables that have their rows on shards. */
#define SL_ACCESS_METHOD_NAME	"shardlet"

/* Ends the query string of a statement that may be an autocommit write. */
#define SL_AUTOCOMMIT_MARK " /* shardlet: writes */"

/* The same if several shards of a server get it, followed by their number. */
#define SL_COHOSTED_MARK " /" "* shardlet: shards here: "

/* guc.c */
extern int	sl_connect_timeout;
extern int	sl_shard_timeout;
extern int	sl_silence_timeout;
extern int	sl_max_parallel_shards;
extern int	sl_recovery_interval;
extern int	sl_analyze_interval;
extern int	sl_deadlock_timeout;
extern int	sl_move_rate;
extern int	sl_move_wait_timeout;
extern bool sl_carry_ddl;
extern bool sl_consistent_reads;
extern bool sl_partial_results;
extern int	sl_cross_shard;
extern bool sl_ship_statements;
extern bool sl_scatter_statements;
extern bool sl_multi_shard_transactions;
extern bool sl_router;
extern char *sl_fault_setting;

/* forward_names.c */
#define SL_MAX_FORWARDED 8

extern void sl_forward_init(void);
extern struct List *sl_forward_names(void);

/* new_table_setting.c */
typedef struct SlNewTableSetting
{
	const char *map;
	const char *column;			/* tables that have it are distributed */
	bool		local_unique;	/* as the argument of distribute() */
} SlNewTableSetting;

extern void sl_new_table_setting_init(void);
extern bool sl_new_table_setting(SlNewTableSetting *result);
extern const char *sl_new_table_setting_value(void);

/* Values of sl_cross_shard. */
enum
{
	SL_CROSS_SHARD_ALLOW,
	SL_CROSS_SHARD_WARN,
	SL_CROSS_SHARD_FORBID
};

extern void sl_base_init(void);
extern void sl_guc_init(void);
extern bool sl_preloaded(void);
extern void sl_guc_set_plain(void);

/* catalog_access.c: the extension's tables, indexes and sequences */
typedef enum SlCatalog
{
	SL_MAP_TABLE,
	SL_MAP_ID_INDEX,
	SL_MAP_NAME_INDEX,
	SL_MAP_SHARD_TABLE,
	SL_MAP_SHARD_INDEX,
	SL_SHARDLET_TABLE,
	SL_SHARDLET_ID_INDEX,
	SL_SHARDLET_TOKEN_INDEX,
	SL_SHARDLET_SHARD_INDEX,
	SL_GUARD_MAP_TABLE,
	SL_GUARD_MAP_INDEX,
	SL_GUARD_TABLE,
	SL_GUARD_ID_INDEX,
	SL_GUARD_TOKEN_INDEX,
	SL_ORPHANED_TABLE,
	SL_ORPHANED_INDEX,
	SL_MOVE_TABLE,
	SL_MOVE_ID_INDEX,
	SL_MOVE_SHARDLET_INDEX,
	SL_SECRET_TABLE,
	SL_ROUTER_TABLE,
	SL_DROPPED_MAP_TABLE,
	SL_DROPPED_MAP_INDEX,
	SL_GUARD_ROUTER_TABLE,
	SL_TABLE_TABLE,
	SL_TABLE_INDEX,
	SL_MISSED_DDL_TABLE,
	SL_MISSED_DDL_INDEX,
	SL_OBJECT_TABLE,
	SL_OBJECT_INDEX,
	SL_MAP_SEQUENCE,
	SL_SHARD_SEQUENCE,
	SL_SHARDLET_SEQUENCE,
	SL_MOVE_SEQUENCE,
	SL_MISSED_DDL_SEQUENCE,
	SL_ID_SEQUENCE
} SlCatalog;

#define SL_CATALOG_COUNT (SL_ID_SEQUENCE + 1)

extern Oid	sl_catalog_find(SlCatalog object);
extern Oid	sl_catalog_oid(SlCatalog object);
extern Oid	sl_catalog_function(const char *schema, const char *name, int arg_count,
								const Oid *arg_types);
extern bool sl_catalog_is_installed(void);
extern Relation sl_catalog_open(SlCatalog table, LOCKMODE lockmode);
extern int64 sl_catalog_next_id(SlCatalog sequence);
extern void sl_catalog_insert(Relation relation, HeapTuple tuple);
extern void sl_catalog_update(Relation relation, ItemPointer tid, HeapTuple tuple);
extern void sl_catalog_delete(Relation relation, ItemPointer tid);

/* hmac.c */
extern char *sl_hmac_make_key(void);
extern char *sl_hmac_make(const char *key, List *fields);
extern bool sl_hmac_is_equal(const char *a, const char *b);

/* options.c: options of servers and user mappings */
extern bool sl_option_is_libpq(const char *keyword);
extern bool sl_option_is_credential(const char *keyword);
extern const char *sl_option_get(List *options, const char *keyword);
extern bool sl_option_is_on(List *options, const char *keyword);
extern List *sl_option_merge(List *base, List *changes);
extern List *sl_option_changes(List *current, List *wanted);
extern void sl_option_validate(List *options, Oid catalog);
extern List *sl_option_parse_conninfo(const char *conninfo);
extern void sl_option_parse_address(const char *address, char **host,
									char **port, char **dbname);

/* checks.c */
extern void sl_check_writable(const char *function);
extern void sl_check_sees_all(const char *function);
extern char *sl_check_name(Datum name, const char *kind);
extern void sl_check_move_position(const char *source);

#endif							/* SL_BASE_H */
