/*
 * ddl_internal.h
 *		What the files of this area share.
 *
 * A statement becomes an SlDdl: what of it runs on the router, and which SQL goes to
 * which shards.  A rule (utility_hook.c) makes it, before anything has happened; what
 * depends on its result on the router is added by "finish".
 */
#ifndef SL_DDL_INTERNAL_H
#define SL_DDL_INTERNAL_H

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "parser/parse_node.h"
#include "storage/lockdefs.h"

#include "connection/connection.h"
#include "metadata/table.h"

typedef struct SlDdl SlDdl;

struct SlDdl
{
	Node	   *node;			/* the statement, which is not to be changed */
	const char *source;			/* the query string, maybe with other
								 * statements */
	int			start;			/* where it begins in there */
	int			length;
	bool		has_text;		/* source is not that of another statement */
	bool		is_top_level;
	bool		is_separate;	/* outside of the transaction, shards first */
	bool		is_router_first;	/* though it is separate */
	bool		keeps_columns;	/* CASCADE must not drop columns of tables */
	List	   *shards;			/* that must be available: SlShards */
	List	   *offline;		/* those of them that execute it later */
	char	   *condition;		/* for these: see SlDdlStep */
	List	   *dropped;		/* OIDs of tables that the shards drop too */
	List	   *opened;			/* OIDs of shell tables that statements on the
								 * router may access; InvalidOid: they may
								 * create some */
	List	   *local;			/* statements to run on the router, in this
								 * order */
	List	   *steps;			/* SlDdlSteps, in this order */
	const SlTable *watched;		/* whose parts may need more objects than
								 * before, or NULL */
	List	   *referenced;		/* ObjectAddresses of what they refer to
								 * before the statement runs */
	void		(*finish) (SlDdl *ddl); /* or NULL */
	void	   *state;			/* for "finish" */
};

/* SQL for some shards. */
typedef struct SlDdlStep
{
	List	   *shards;
	char	   *sql;
	char	   *condition;		/* for shards that execute it later: a query
								 * that says whether they have to, or NULL */
} SlDdlStep;

/* Part of a source, both ends as offsets. */
typedef struct SlSpan
{
	int			start;
	int			end;
} SlSpan;

/* A replacement for part of a source. */
typedef struct SlChange
{
	SlSpan		span;
	const char *replacement;
} SlChange;

/* send.c */
extern void sl_ddl_add_shards(SlDdl *ddl, List *shards);
extern void sl_ddl_add_step(SlDdl *ddl, List *shards, char *sql);
extern void sl_ddl_add_step_if(SlDdl *ddl, List *shards, char *sql, char *condition);
extern void sl_ddl_add_guard(SlDdl *ddl, const SlTable *table, List *key);
extern void sl_ddl_check_shards(SlDdl *ddl);
extern void sl_ddl_send(SlDdl *ddl);
extern void sl_ddl_run_now(List *shards, char *sql);
extern SlReply *sl_ddl_query_shard(List *shards, const char *sql, const char *param, int *count);
extern List *sl_ddl_shards_with_role(List *shards, const char *role);
extern void sl_ddl_create_role(List *shards, const char *role, int32 map_id);
extern List *sl_ddl_shards_that(List *shards, const char *sql, const char *param, bool answer);

/* offline_shard.c */
extern char *sl_ddl_role_condition(const char *role, const SlTable *table);
extern List *sl_ddl_offline_shards(List *shards, bool is_offline);
extern void sl_ddl_note_offline(SlDdl *ddl);
extern const char *sl_ddl_remote_role(const SlShard *shard);
extern void sl_ddl_store_missed(const SlDdl *ddl);

/* statement_text.c */
extern char *sl_ddl_text(const SlDdl *ddl);
extern char *sl_ddl_changed(const SlDdl *ddl, SlSpan span, List *changes);
extern SlSpan sl_ddl_whole(const SlDdl *ddl);
extern SlSpan sl_ddl_type_span(const SlDdl *ddl);
extern List *sl_ddl_rename_in(const SlDdl *ddl, List *changes, const RangeVar *name,
							  const char *qualified);
extern List *sl_ddl_split(const SlDdl *ddl, const RangeVar *relation);
extern char *sl_ddl_literal(const char *value);

/* target_tables.c */
extern SlTable *sl_ddl_table(const RangeVar *relation);
extern SlTable *sl_ddl_table_by_names(List *names);
extern SlTable *sl_ddl_table_by_oid(Oid relid);
extern void sl_ddl_lock(const RangeVar *relation, LOCKMODE mode);
extern void sl_ddl_check_owner(Oid relid);
extern char *sl_ddl_name(Oid relid);
extern char *sl_ddl_name_in(Oid relid, const char *object);
extern bool sl_ddl_is_remote(const SlTable *table);
extern List *sl_ddl_with_partitions(const SlTable *table);
extern void sl_ddl_open_shell(SlDdl *ddl, const SlTable *table);
extern Node *sl_ddl_transform(const SlTable *table, Node *raw, ParseExprKind kind);
extern Oid	sl_ddl_own_function(const char *name);
extern Oid	sl_ddl_reference_function(void);
extern bool sl_ddl_has_lost_shard(const SlTable *table);
extern List *sl_ddl_all_tables(void);
extern bool sl_ddl_is_key(const SlTable *table, const char *column);
extern List *sl_ddl_groups(List *tables);
extern void sl_ddl_run_on_router(SlDdl *ddl, void *statement);
pg_noreturn extern void sl_ddl_refuse(const SlTable *table, const char *what, const char *hint);

extern void sl_ddl_check_reference_trigger(const SlTable *table, const char *trigger,
										   const char *what);

/* Tables that live on the same shards. */
typedef struct SlDdlGroup
{
	List	   *shards;
	List	   *tables;
	bool		is_reference;
} SlDdlGroup;

/* constraint.c */
extern void sl_ddl_check_constraint(const SlTable *table, const Constraint *constraint,
									const char *column);
extern void sl_ddl_check_unique_index(const SlTable *table, const IndexStmt *statement);
extern List *sl_ddl_qualify_target(const SlDdl *ddl, List *changes,
								   const Constraint *constraint);
extern AttrNumber sl_ddl_not_null_column(Oid constraint);

/* constraint_name.c */
extern List *sl_ddl_list_constraints(Oid relid);
extern List *sl_ddl_unnamed_constraints(Oid relid, const AlterTableStmt *statement, List *before);
extern List *sl_ddl_name_constraint(const AlterTableStmt *statement, List **made, const Constraint *constraint,
									List *changes);

/* alter_table.c */
extern bool sl_ddl_plan_alter(SlDdl *ddl);

/* partition.c */
extern bool sl_ddl_plan_create_table(SlDdl *ddl);
extern void sl_ddl_check_attached(const SlTable *table, const RangeVar *name);
extern void sl_ddl_open_attached(SlDdl *ddl, const AlterTableCmd *command);
extern void sl_ddl_unguard_attached(const AlterTableCmd *command);
extern void sl_ddl_guard_detached(SlDdl *ddl, const AlterTableCmd *command);

/* object_list.c: objects that the router has created on shards */
typedef struct SlListedObject
{
	char	   *kind;			/* schema, function, type or role */
	char	   *name;			/* qualified */
	Oid			oid;			/* of the router */
} SlListedObject;

extern Oid	sl_object_class(const char *kind);
extern Oid	sl_object_find(const char *kind, const char *object);
extern char *sl_object_name(const char *kind, Oid oid);
extern Oid	sl_object_schema(const SlListedObject *object);
extern char *sl_object_schema_name(const char *kind, const char *name);
extern List *sl_object_note_names(void);
extern void sl_object_follow_names(const List *noted);

/* object_needs.c */
typedef struct SlDependents
{
	List	   *shards;			/* of tables that need the object */
	int32		map_id;			/* of one of them, or 0 */
	List	   *drops;			/* SlDdlSteps that drop the parts that do */
} SlDependents;

extern int32 sl_ddl_map_id(const SlTable *table);
extern void sl_ddl_watch_needs(SlDdl *ddl, const SlTable *table);
extern void sl_ddl_watch_alter(SlDdl *ddl, const SlTable *table);
extern void sl_ddl_create_needs(SlDdl *ddl);
extern SlDependents sl_ddl_find_dependents(Oid class_id, Oid object_id);

/* function.c */
extern bool sl_ddl_plan_create_function(SlDdl *ddl);
extern bool sl_ddl_plan_alter_function(SlDdl *ddl);
extern bool sl_ddl_plan_rename_function(SlDdl *ddl);
extern bool sl_ddl_plan_function_schema(SlDdl *ddl);
extern bool sl_ddl_plan_owner(SlDdl *ddl);

/* function_later.c */
struct SlDefinition;

extern void sl_ddl_refuse_pending(List *shards, const char *signature);
extern void sl_ddl_refuse_offline(List *shards, const char *kind, const char *name);
extern List *sl_ddl_store_needs(List *shards, const struct SlDefinition *definition, const struct SlDefinition *before);
extern void sl_ddl_check_same_later(SlDdl *ddl, List *shards, const char *signature, const char *definition);
extern void sl_ddl_set_owner_later(SlDdl *ddl, List *shards, const struct SlDefinition *definition);

/* drop_objects.c */
extern bool sl_ddl_plan_drop_objects(SlDdl *ddl);

/* trigger.c */
extern bool sl_ddl_plan_create_trigger(SlDdl *ddl);

/* add_column.c */
typedef struct SlColumnText
{
	char	   *piece;			/* that adds the column */
	List	   *before;			/* SlDdlSteps */
	List	   *after;
} SlColumnText;

extern SlColumnText sl_ddl_add_column(const SlDdl *ddl, const SlTable *table, const char *table_name,
									  const ColumnDef *column, SlSpan span);
extern bool sl_ddl_adds_constant(const SlTable *table, const ColumnDef *column);
extern bool sl_ddl_draws(Oid relid, const char *column);
extern void sl_ddl_set_own_default(SlDdl *ddl, const SlTable *table, const char *table_name,
								   const char *column);

/* during_move.c */
extern void sl_ddl_check_exposed(const SlDdl *ddl);
extern void sl_ddl_check_rest(const SlTable *table, const char *what);
extern void sl_ddl_check_index_at_rest(const SlTable *table, const char *qualified);
extern void sl_ddl_check_default_at_rest(const SlTable *table, const Node *expression);
extern void sl_ddl_check_alter_at_rest(const SlTable *table, const AlterTableCmd *command);

/* index.c */
typedef struct SlIndex
{
	char	   *name;			/* qualified */
	SlTable    *table;
} SlIndex;

extern SlIndex *sl_ddl_find_index(const RangeVar *name);
extern bool sl_ddl_plan_create_index(SlDdl *ddl);
extern bool sl_ddl_plan_alter_index(SlDdl *ddl);
extern bool sl_ddl_plan_reindex(SlDdl *ddl);
extern bool sl_ddl_plan_cluster(SlDdl *ddl);

/* drop.c */
extern bool sl_ddl_plan_drop(SlDdl *ddl);

/* grant.c */
extern bool sl_ddl_plan_grant(SlDdl *ddl);

/* policy.c */
extern bool sl_ddl_plan_create_policy(SlDdl *ddl);
extern bool sl_ddl_plan_alter_policy(SlDdl *ddl);
extern bool sl_ddl_plan_drop_policy(SlDdl *ddl);
extern bool sl_ddl_plan_rename_policy(SlDdl *ddl);

/* rename.c */
extern bool sl_ddl_plan_rename(SlDdl *ddl);
extern bool sl_ddl_plan_schema(SlDdl *ddl);

/* comment_statistics.c */
typedef struct SlStatistics
{
	char	   *name;			/* qualified */
	SlTable    *table;
} SlStatistics;

extern SlStatistics *sl_ddl_find_statistics(List *names);
extern bool sl_ddl_plan_comment(SlDdl *ddl);
extern bool sl_ddl_plan_create_statistics(SlDdl *ddl);
extern bool sl_ddl_plan_alter_statistics(SlDdl *ddl);

/* type.c */
extern List *sl_ddl_shards_with_schema(Oid schema);
extern bool sl_ddl_plan_enum(SlDdl *ddl);
extern bool sl_ddl_plan_domain(SlDdl *ddl);
extern bool sl_ddl_plan_composite(SlDdl *ddl);
extern bool sl_ddl_plan_type_name(SlDdl *ddl, List *names);

/* lock_vacuum.c */
extern bool sl_ddl_plan_lock(SlDdl *ddl);
extern bool sl_ddl_plan_vacuum(SlDdl *ddl);

#endif							/* SL_DDL_INTERNAL_H */
