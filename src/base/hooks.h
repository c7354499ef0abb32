/*
 * hooks.h
 *		Calls from a lower area to a higher one.
 *
 * src/LAYERS lets an area call only those below it.  The few calls that have to go up
 * are the entries of this table.  The area that has the function sets its entry when
 * the library is loaded (_PG_init), so no entry is NULL afterwards and none changes.
 */
#ifndef SL_HOOKS_H
#define SL_HOOKS_H

#include "nodes/parsenodes.h"

struct SlMap;
struct SlMapChange;
struct SlMapRow;
struct SlShard;

typedef struct SlHooks
{
	/*
	 * Waits for shards (connection/wait.c) call this each time
	 * shardlet.deadlock_timeout has passed without an answer: only the area
	 * "transaction" knows which sessions wait for each other.  It raises an
	 * error if this session is to end a deadlock.
	 */
	void		(*check_deadlock) (void);

	/*
	 * A change of a map (metadata/map_change_log.c) is sent to the shards in
	 * the transaction that makes it: rows of the catalog are written below
	 * connections, their effect is sent over them (executor).
	 */
	void		(*publish_map_change) (const struct SlMapRow *map, const struct SlMapChange *change);
	void		(*publish_map_drop) (const struct SlMap *map);

	/*
	 * A shard that joins a map (metadata/map_change.c), by a command or by a
	 * move, gets the map's tables: how they are made is known to the area
	 * "commands".
	 */
	void		(*add_map_tables) (struct SlMap *map, struct SlShard *shard);

	/*
	 * IMPORT FOREIGN SCHEMA is an entry of the foreign data wrapper
	 * (access/fdw_handler.c), and attaches tables as the command attach()
	 * does.
	 */
	List	   *(*import_foreign_schema) (ImportForeignSchemaStmt *statement, Oid server);
} SlHooks;

extern SlHooks sl_hooks;		/* in shardlet.c */

#endif							/* SL_HOOKS_H */
