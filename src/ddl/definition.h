/*
 * definition.h
 *		Tables as router and shards define them: reading a definition, comparing
 *		definitions, making a table by one, and its rows.
 */
#ifndef SL_DEFINITION_H
#define SL_DEFINITION_H

#include "compat.h"
#include "connection/connection.h"
#include "executor/multi_shard.h"
#include "metadata/table.h"

/* Phases of a definition, in the order in which they run. */
typedef enum SlPhase
{
	SL_PHASE_COLUMNS,			/* no commands: columns one by one, to compare */
	SL_PHASE_NEEDS,				/* schemas, extensions */
	SL_PHASE_TYPES,				/* and functions, in the order of their
								 * dependencies */
	SL_PHASE_TABLE,				/* the table and its partitions; rows may come */
	SL_PHASE_KEYS,				/* primary keys, unique, exclusion */
	SL_PHASE_INDEXES,
	SL_PHASE_CHECKS,
	SL_PHASE_STATISTICS,
	SL_PHASE_FOREIGN_KEYS,
	SL_PHASE_TRIGGERS,
	SL_PHASE_COMMENTS,
	SL_PHASE_GRANTS,
	SL_PHASE_IDENTITY,
	SL_PHASE_POLICIES			/* of shell tables only: after the rows */
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

/* How a table was made, or what one of its parts needs. */
typedef struct SlDefinition
{
	char	   *schema;
	char	   *name;
	List	   *items;			/* of SlDefinitionItem, in order */
	List	   *partitions;		/* of RangeVar, if received_ddl.c has found
								 * them */
	int32		map_id;			/* that objects are listed for; 0: none */
	const char *replaced;		/* name of a function that is being changed */
	const char *replaced_ddl;	/* what it was before */
} SlDefinition;

/* table_definition_sql.c */
extern const char sl_definition_sql[];
extern const char sl_definition_policy_sql[];
extern const char sl_definition_type_sql[];
extern const char sl_definition_referenced_sql[];
extern const char sl_definition_needs_sql[];
extern const char sl_definition_dependent_sql[];
extern const char sl_definition_required_sql[];

/* table_definition.c */
extern int	sl_definition_begin_output(void);
extern SlDefinition *sl_definition_read_local(Oid relid);
extern SlDefinition *sl_definition_read_needs(Oid class_id, Oid object_id);
extern SlDefinition *sl_definition_read_remote(SlConn *conn, const char *schema,
											   const char *name);
extern SlDefinitionItem *sl_definition_find(const SlDefinition *definition,
											const char *kind, const char *name);

/* create_on_shards.c */
extern bool sl_definition_has_next_id(void);
extern void sl_definition_create(List *shards, const SlDefinition *definition,
								 SlPhase first, SlPhase last);
extern void sl_definition_copy_as_owner(List *shards, bool is_on);

/* object_list.c */
extern void sl_object_list_lock(void);
extern bool sl_object_list_has(const char *kind, const char *object, int32 shard_id);
extern void sl_object_list_add(const char *kind, const char *object, int32 shard_id, int32 map_id);
extern void sl_object_list_remove(const char *kind, const char *object);
extern void sl_object_list_remove_from(const char *kind, const char *object, int32 shard_id);
extern int32 sl_object_list_map(const char *kind, const char *object);
extern List *sl_object_list_shards(const char *kind, const char *object);

/* create_objects.c */
extern void sl_object_set_owner(List *shards, const SlDefinition *definition);
pg_noreturn extern void sl_object_refuse_create(const char *signature, const SlShard *shard);

/* policy.c */
extern void sl_policy_check_bypass(Oid relid, List *shards);
extern void sl_policy_check_attached(Oid relid, List *shards);

/* refresh_columns.c: types and columns that the shards have */
extern void sl_definition_make_types_on_router(const SlDefinition *definition);
extern void sl_definition_refresh_columns(Oid relid, const SlDefinition *definition);

/* create_shell_table.c: the shell table for what the shards have */
extern Oid	sl_shell_create_table(const SlDefinition *definition);
extern void sl_shell_refresh_table(const SlTable *table, const SlDefinition *definition);

/* create_shell_parts.c: its keys, indexes and other parts */
typedef void (*SlShellAction) (void *state);

extern bool sl_shell_try(SlShellAction action, void *state, char **message);
extern void sl_shell_drop_obsolete_parts(const SlTable *table, const SlDefinition *definition);
extern void sl_shell_refresh_parts(const SlTable *table, const SlDefinition *definition);
extern void sl_shell_drop_part(const SlDefinitionItem *item);
extern void sl_shell_restore_parts(Oid relid, const SlDefinition *definition);

/* shell_foreign_key.c */
extern void sl_shell_drop_foreign_keys(Oid relid, bool incoming_only);
extern void sl_shell_refresh_foreign_keys(const SlTable *table, SlConn *conn);

/* compare_tables.c */
extern void sl_definition_compare(SlDefinition **definitions, SlShard **shards, int count);

/* table_args.c */
extern Oid	sl_table_arg(FunctionCallInfo fcinfo, int argument);
extern SlTable *sl_table_arg_distributed(Oid relid);

/* received_ddl.c */
pg_noreturn extern void sl_received_refuse(const char *sql, const char *schema, const char *name);
extern void sl_received_run(const char *sql, const char *schema, const char *name);
extern void sl_received_run_own(const char *sql);
extern Node *sl_received_parse(const char *sql, const SlDefinition *definition, Oid referenced);
extern void sl_received_execute(Node *statement, const char *sql);
extern void sl_received_find_partitions(SlDefinition *definition);

/* check_table.c */
extern void sl_table_check_own(Oid relid);
extern void sl_table_check_kind(Oid relid);
extern void sl_table_check_plain(const SlTable *target);

/* copy_rows.c */
extern uint64 sl_table_send_rows(const SlTable *target);

/* fetch_rows.c */
extern uint64 sl_table_fetch_rows(Oid relid, List *shards);

/* foreign_key.c */
typedef struct SlForeignKey
{
	char	   *name;
	Oid			relid;
	Oid			referenced;
	char	   *definition;		/* FOREIGN KEY ... REFERENCES ... */
	List	   *columns;		/* names */
	List	   *referenced_columns;
	Oid			constraint;		/* on the router, or invalid */
} SlForeignKey;

extern List *sl_foreign_key_list(Oid relid);
extern List *sl_foreign_key_list_remote(SlConn *conn, const char *schema, const char *name);
extern char *sl_foreign_key_add_sql(const SlForeignKey *key);
extern char *sl_foreign_key_drop_sql(const SlForeignKey *key);
extern List *sl_foreign_key_follow(const SlForeignKey *key, List *columns, bool to_referenced);
extern bool sl_foreign_key_is_local(List *referenced_columns, bool is_local_unique, List *referenced_key);
extern bool sl_foreign_key_follows(const SlForeignKey *key, List *key_columns,
								   List *referenced_key);
extern List *sl_foreign_key_columns_of(const SlTable *table);
extern void sl_foreign_key_warn(const SlForeignKey *key, const char *reason, const char *when);

/* replay.c */
extern void sl_ddl_replay(const SlShard *shard);

#endif							/* SL_DEFINITION_H */
