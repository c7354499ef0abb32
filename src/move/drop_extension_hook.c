/*
 * drop_extension_hook.c
 *		Keeps the extension from being dropped while shardlets are moved.
 *
 * What a move has created on the shards would stay: a slot without a consumer keeps
 * the source's WAL until its disk is full, and a subscription goes on.
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "move/move.h"

static object_access_hook_type next_object_access = NULL;

/* By its name: without the extension nothing else can be looked up. */
static bool
is_move_table(Oid relid)
{
	const char *name = get_rel_name(relid);
	const char *schema;

	if (name == NULL || strcmp(name, "catalog_move") != 0)
		return false;
	schema = get_namespace_name(get_rel_namespace(relid));
	return schema != NULL && strcmp(schema, "shardlet") == 0 && sl_catalog_is_installed();
}

/* The table goes with the extension, and after its indexes. */
static void
check_no_moves(void)
{
	SlMove		move;

	if (!sl_move_find_open(&move))
		return;
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_IN_USE),
			errmsg("cannot drop extension \"shardlet\" while shardlets are moved"),
			errdetail("Move %lld is in phase \"%s\".", (long long) move.id,
					  sl_move_phase_name(move.phase)),
			errhint("CALL shardlet.cancel_move(%lld), or wait until it is over.", (long long) move.id));
}

static void
watch_objects(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (next_object_access)
		next_object_access(access, class_id, object_id, sub_id, arg);
	if (access == OAT_DROP && class_id == RelationRelationId && sub_id == 0 && is_move_table(object_id))
		check_no_moves();
}

void
sl_move_init(void)
{
	next_object_access = object_access_hook;
	object_access_hook = watch_objects;
}
