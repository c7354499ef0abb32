/*
 * table_area.h
 *		Making tables sharded, placed or plain again, and adopting those that the
 *		shards have.
 */
#ifndef SL_TABLE_AREA_H
#define SL_TABLE_AREA_H

#include "compat.h"
#include "fanout/fanout.h"
#include "map/table.h"
#include "remote/remote.h"

/* Phases of a definition, in the order in which they run. */
typedef enum SlPhase
{
	SL_PHASE_COLUMNS,			/* no commands: columns one by one, to compare */
	SL_PHASE_NEEDS,				/* schemas, extensions, functions */
	SL_PHASE_TYPES,
	SL_PHASE_TABLE,				/* the table and its partitions; rows may come */
	SL_PHASE_KEYS,				/* primary keys, unique, exclusion */
	SL_PHASE_INDEXES,
	SL_PHASE_CHECKS,
	SL_PHASE_STATISTICS,
	SL_PHASE_FOREIGN_KEYS,
	SL_PHASE_TRIGGERS,
	SL_PHASE_COMMENTS,
	SL_PHASE_GRANTS,
	SL_PHASE_IDENTITY
} SlPhase;

/* One command of a definition. */
typedef struct SlDefinitionItem
{
	SlPhase		phase;
	char	   *kind;			/* "column", "table", "index" ... */
	char	   *name;			/* of a partition's part: "partition.name" */
	char	   *ddl;			/* NULL: has to exist, cannot be made */
	int			level;			/* 0: of the table; above: of a partition */
} SlDefinitionItem;

/* How a table was made. */
typedef struct SlDefinition
{
	char	   *schema;
	char	   *name;
	List	   *items;			/* of SlDefinitionItem, in order */
} SlDefinition;

/* definition_sql.c */
extern const char sl_definition_sql[];
extern const char sl_definition_type_sql[];

/* definition.c */
extern int	sl_definition_begin_output(void);
extern SlDefinition *sl_definition_read_local(Oid relid);
extern SlDefinition *sl_definition_read_remote(SlConn *conn, const char *schema,
											   const char *name);
extern SlDefinitionItem *sl_definition_find(const SlDefinition *definition,
											const char *kind, const char *name);

/* definition_create.c */
extern bool sl_definition_has_next_id(void);
extern void sl_definition_create(List *shards, const SlDefinition *definition,
								 SlPhase first, SlPhase last);

/* definition_here.c: the foreign table for what the shards have */
extern void sl_definition_make_types_here(const SlDefinition *definition);
extern char *sl_definition_foreign_table_sql(const SlDefinition *definition, List *options);
extern void sl_definition_refresh_here(Oid relid, const SlDefinition *definition);
extern void sl_definition_declare_key(const SlTable *table, const SlDefinition *definition);

/* compare.c */
extern void sl_definition_compare(SlDefinition **definitions, SlShard **shards, int count);

/* misplaced.c */
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
	List	   *options;		/* of the foreign table */
	SlReply    *replies;		/* open shards */
	int			count;
} SlAttachment;

extern void sl_attach_begin(SlAttachment *attachment);
extern SlDefinition *sl_attach_read(const SlAttachment *attachment, const char *schema,
									const char *name);

/* new_shard.c */
extern void sl_new_shard_init(void);

/* import.c */
extern void sl_import_init(void);

/* table_args.c */
extern Oid	sl_table_arg(FunctionCallInfo fcinfo, int argument);
extern SlTable *sl_table_arg_ours(Oid relid);
extern void sl_table_run_local(const char *sql);

/* distribute.c */
extern void sl_table_check_server(void);

/* table_check.c */
extern void sl_table_check_own(Oid relid);
extern void sl_table_check_kind(Oid relid);
extern void sl_table_check_plain(const SlTable *target);

/* table_key.c */
extern void sl_table_check_key(const SlTable *table, const SlMap *map);
extern void sl_table_check_key_of(const SlDefinition *definition, const SlMap *map,
								  const char *key);
extern List *sl_table_options_sharded(const SlMap *map, const char *key, bool is_attached);
extern List *sl_table_options_placed(const SlShard *shard, bool is_attached);

/* table_rows.c */
extern uint64 sl_table_send_rows(const SlTable *target);

/* undistribute.c */
extern void sl_table_fetch_rows(Oid relid, List *shards);

/* foreign_key.c */
typedef struct SlForeignKey
{
	char	   *name;
	Oid			relid;
	Oid			referenced;
	char	   *definition;		/* FOREIGN KEY ... REFERENCES ... */
	List	   *columns;		/* names */
	List	   *referenced_columns;
	Oid			constraint;		/* here; invalid: it was set aside */
} SlForeignKey;

extern List *sl_foreign_key_list(Oid relid);
extern List *sl_foreign_key_list_remote(SlConn *conn, const char *schema, const char *name);
extern char *sl_foreign_key_add_sql(const SlForeignKey *key);
extern char *sl_foreign_key_drop_sql(const SlForeignKey *key);
extern void sl_foreign_key_set_aside(const SlForeignKey *key);
extern void sl_foreign_key_forget(const SlForeignKey *key);
extern void sl_foreign_key_forget_table(Oid relid);
extern bool sl_foreign_key_holds(const SlForeignKey *key, const SlTable *from,
								 const SlTable *to);
pg_noreturn extern void sl_foreign_key_refuse(const SlForeignKey *key);
extern void sl_foreign_key_plan_own(const SlTable *target, SlDefinition *definition);
extern void sl_foreign_key_plan_others(const SlTable *target);
extern void sl_foreign_key_arrive(const SlTable *table);

/* swap.c */
extern void sl_swap_to_foreign(Oid relid, List *options, const char *verb);
extern void sl_swap_to_plain(Oid relid, const char *verb);

#endif							/* SL_TABLE_AREA_H */
