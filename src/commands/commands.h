/*
 * commands.h
 *		Adding and changing shards; making tables sharded, placed or plain again,
 *		and attaching those that the shards have.
 */
#ifndef SL_COMMANDS_H
#define SL_COMMANDS_H

#include "ddl/definition.h"

/* server_hook.c */
extern void sl_shard_hook_init(void);
extern bool sl_shard_is_registering;

/* provision_shard.c: work on the database that becomes a shard */
extern List *sl_provision_local(const char *shard);
extern char *sl_provision_shard(SlConn *conn, int32 id, bool install, bool *other_collation);

/* duplicate_database.c: is the database a shard already, or the router? */
extern void sl_duplicate_refuse_router(SlConn *conn);
extern SlShard *sl_duplicate_find(SlConn *conn, const char *identity);

/* misplaced_rows.c */
extern int64 sl_misplaced_count(SlMap *map, SlShard *shard);
extern void sl_misplaced_check(SlMap *map, const char *schema, const char *name,
							   List *columns, SlReply *replies, int count);

/* attach.c */
typedef struct SlAttachment
{
	SlMap	   *map;			/* sharded */
	const char *key;
	SlShard    *shard;			/* placed */
	bool		verify;
	List	   *options;		/* in the row of pg_foreign_table */
	SlReply    *replies;		/* open shards */
	int			count;
} SlAttachment;

extern void sl_attach_begin(SlAttachment *attachment);
extern SlDefinition *sl_attach_read(const SlAttachment *attachment, const char *schema,
									const char *name);
extern Oid	sl_attach_create_shell(const SlAttachment *attachment, SlDefinition *definition);

/* add_shard_tables.c */
extern void sl_new_shard_init(void);

/* import_schema.c */
extern void sl_import_init(void);

/* distribute.c */

/* A local table that goes to the shards. */
typedef struct SlArrival
{
	SlTable    *target;			/* what it becomes */
	List	   *options;		/* in the row of pg_foreign_table */
	List	   *homes;			/* shards */
	SlDefinition *definition;
} SlArrival;

/* What the caller of distribute() can choose. */
typedef struct SlDistributeOptions
{
	bool		drops_foreign_keys; /* those that cannot be kept */
	bool		local_unique;	/* keeps unique keys without the shard key */
	bool		is_new;			/* the tables are gone if this fails */
} SlDistributeOptions;

extern void sl_table_check_server(void);
extern void sl_distribute_tables(List *relids, List *keys, const char *map_name, SlDistributeOptions choices);

/* new_tables.c */
extern void sl_new_tables_init(void);

/* table_key.c */
extern void sl_table_check_key(const SlTable *table, const SlMap *map);
extern void sl_table_check_key_of(const SlDefinition *definition, const SlMap *map,
								  const char *key);
extern List *sl_table_options_sharded(const SlMap *map, const char *key, bool is_attached);
extern List *sl_table_options_placed(const SlShard *shard, bool is_attached);

/* foreign_key_plan.c */
extern void sl_foreign_key_plan(List *arrivals, SlDistributeOptions choices);
extern Oid	sl_foreign_key_root(Oid relid);
extern void sl_foreign_key_drop_on_router(const SlForeignKey *key);

/* shell_swap.c */
extern void sl_shell_connect(Oid relid, List *options, const char *verb);
extern uint64 sl_shell_disconnect(Oid relid, List *shards, const char *verb);

#endif							/* SL_COMMANDS_H */
