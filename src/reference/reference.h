/*
 * reference.h
 *		Reference tables: plain tables of the router with a copy on every shard.
 */
#ifndef SL_REFERENCE_H
#define SL_REFERENCE_H

#include "access/tupdesc.h"
#include "nodes/bitmapset.h"
#include "utils/tuplestore.h"

#include "ddl/definition.h"

/* A column of a reference table that exists. */
typedef struct SlRefColumn
{
	AttrNumber	attnum;			/* on the router */
	char	   *name;			/* quoted */
	char	   *type;			/* as a cast writes it */
	char	   *equals;			/* of a key column: the operator */
	bool		is_generated;
	bool		is_changed;		/* by the update that is sent */
	Oid			output;			/* function */
} SlRefColumn;

/* What must be unique, at once: a change of one of the columns may violate it. */
typedef struct SlRefUnique
{
	Bitmapset  *attnums;
	bool		is_plain;		/* columns, and all rows: equal is equal */
} SlRefUnique;

/* How a reference table is written to. */
typedef struct SlRefColumns
{
	Oid			relid;
	char	   *schema;
	char	   *relname;
	char	   *name;			/* qualified and quoted */
	TupleDesc	descriptor;		/* of the relation, while that is open */
	int			column_count;
	SlRefColumn *columns;
	int			key_count;
	int			key[INDEX_MAX_KEYS];	/* of the columns */
	char	   *defer_sql;		/* SET CONSTRAINTS, or NULL */
	bool		is_acted_on;	/* foreign keys change or delete its rows */
	bool		key_is_acted_on;	/* and the values of its key */
} SlRefColumns;

/* Rows, as values of the router's columns. */
typedef struct SlRefRows
{
	int			count;
	int			width;			/* attributes */
	Datum	   *values;
	bool	   *nulls;
} SlRefRows;

/* make_reference.c */
extern List *sl_reference_all(void);
extern bool sl_reference_is(Oid relid);
extern void sl_reference_lock_shards(void);
extern void sl_reference_add_triggers(Oid relid, bool is_attached);
extern void sl_reference_create(List *shards, List *relids);
extern Relation sl_reference_open_table(Oid relid);
extern void sl_reference_undo(Oid relid, bool drops_copies);

/* reference_columns.c */
extern SlRefColumns *sl_reference_columns(Relation relation);
extern List *sl_reference_uniques(Relation relation);

/* reference_send.c: statements for the shards */
extern SlReply *sl_reference_open(List *shards, int *count);
extern void sl_reference_run(SlReply *replies, int count, const char *sql, int param_count,
							 const char *const *params);
extern void sl_reference_run_with_hint(SlReply *replies, int count, const char *sql,
									   int sqlstate, const char *hint);
extern void sl_reference_check_copied(const char *name, uint64 rows, uint64 expected);
extern SlRefRows *sl_reference_read(Tuplestorestate *store, TupleDesc descriptor);
extern void sl_reference_insert(const SlRefColumns *columns, SlReply *replies, int count,
								const SlRefRows *rows);
extern void sl_reference_delete(const SlRefColumns *columns, SlReply *replies, int count,
								const SlRefRows *rows, const char *condition);
extern void sl_reference_overwrite(SlRefColumns *columns, SlReply *replies, int count,
								   const SlRefRows *rows);
extern void sl_reference_update(SlRefColumns *columns, SlReply *replies, int count,
								const SlRefRows *before, const SlRefRows *after,
								Relation relation);

/* change_trigger.c */
extern void sl_reference_change_init(void);

/* attach_reference.c */
extern Oid	sl_reference_attach(const char *schema, const char *name, bool verify);

/* refresh_shard.c */
extern void sl_reference_catch_up(SlShard *shard);

#endif							/* SL_REFERENCE_H */
