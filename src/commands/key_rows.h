/*
 * key_rows.h
 *		The rows of one key: all tables of a map that have some.
 */
#ifndef SL_KEY_ROWS_H
#define SL_KEY_ROWS_H

#include "metadata/table.h"

/* A table of the map; its rows of the key are those that the condition holds for. */
typedef struct SlKeyTable
{
	Oid			relid;
	char	   *schema;
	char	   *label;			/* its name */
	char	   *name;			/* both, quoted */
	char	   *condition;
	List	   *referenced;		/* SlKeyTables that its foreign keys lead to */
	bool		is_listed;		/* private to key_tables.c */
} SlKeyTable;

/* A table that refers to one of the map and has no key itself. */
typedef struct SlKeylessTable
{
	char	   *name;			/* qualified and quoted */
	char	   *referenced;		/* the same of the map's table */
	char	   *constraint;
} SlKeylessTable;

typedef struct SlKeyRows
{
	SlMap	   *map;
	SlShard    *shard;			/* that owns the key */
	List	   *tables;			/* of SlKeyTable; those referred to come first */
	List	   *keyless;		/* of SlKeylessTable */
} SlKeyRows;

/* key_tables.c */
extern SlKeyRows *sl_key_rows_open(FunctionCallInfo fcinfo, int first, bool writes);
extern void sl_key_rows_warn_keyless(const SlKeyRows *rows, const char *outcome);
extern int64 sl_key_rows_count(const SlKeyTable *table);

/* key_rows.c */
extern int	sl_key_rows_begin(void);
extern void sl_key_rows_end(int level);

#endif							/* SL_KEY_ROWS_H */
