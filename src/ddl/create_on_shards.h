/*
 * create_on_shards.h
 *		Shards that get the same commands, for the files that create things on them.
 */
#ifndef SL_CREATE_ON_SHARDS_H
#define SL_CREATE_ON_SHARDS_H

#include "ddl/definition.h"

/* The shards that a command goes to. */
typedef struct SlRound
{
	SlReply    *replies;
	int			count;
} SlRound;

/* create_on_shards.c */
extern void sl_round_query(SlRound *round, const char *sql, int count, const char *const *params);
extern void sl_round_query_about(SlRound *round, const char *sql, const char *name);
extern void sl_round_run(SlRound *round, const char *sql);
extern bool sl_round_says_yes(const SlReply *reply);
extern SlRound sl_round_without_yes(const SlRound *round);

/* create_objects.c */
extern void sl_object_create(SlRound *round, const SlDefinition *definition, const SlDefinitionItem *item);

/* create_role.c */
extern void sl_role_create(const SlRound *round, const char *role, int32 map_id);

#endif							/* SL_CREATE_ON_SHARDS_H */
