/*
 * publish_metadata.c
 *		Sends shards what they own, in the transaction that changes it.
 *
 * A shard keeps the entries of its own shardlets and of those that left it, for
 * its guard (src/shard).  When a change of a map is complete, each shard that it
 * concerns gets its part as a call of guard_change(), as part of the session's
 * transaction: router and shards commit together or not at all.
 *
 * Shards without the extension have no guard.  One that is offline is noted as
 * being behind, and gets everything again before it is online.
 *
 * The default of a list owns what no entry names; so its shard has to know the
 * entries of all others, too.
 *
 * A shard that rows are being moved to has the state "moving" in the entry of their
 * shardlet, whichever update that is sent with: its guard refuses TRUNCATE until an
 * update takes it back.
 *
 * Afterwards the worker sends a copy of the whole map to each of its shards:
 * nothing is decided by it, but the guard can name the owner of a key, and a lost
 * router can be rebuilt.  These copies are sent to each shard on its own.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "base/hooks.h"
#include "base/fault_points.h"
#include "executor/multi_shard.h"

/* Copies of larger maps are not sent around. */
#define MAX_COPIED 20000

/* How long a shard waits for transactions that have written to a shardlet. */
#define WAIT_MS 5000

/* An entry as one shard gets it. */
typedef struct Entry
{
	const SlShardletRow *row;
	const char *owner;			/* NULL: the shard itself */
} Entry;

/* What one shard gets. */
typedef struct MetadataUpdate
{
	SlShard    *shard;
	bool		replaces;		/* what the shard knew of the map is void */
	List	   *gone;			/* of const SlShardletRow */
	List	   *entries;		/* of Entry */
} MetadataUpdate;

#define CHANGE_PARAMS 23

static const char change_sql[] =
"SELECT shardlet.guard_change($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,"
" $16, $17, $18, $19, $20, $21, $22, $23)";

/* Writing an update --------------------------------------------------------------- */

static MetadataUpdate *
update_for_shard(List **updates, int32 shard_id)
{
	ListCell   *cell;
	MetadataUpdate *update;

	foreach(cell, *updates)
	{
		update = lfirst(cell);
		if (update->shard->id == shard_id)
			return update;
	}
	update = palloc0(sizeof(MetadataUpdate));
	update->shard = sl_shard_by_id(shard_id);
	*updates = lappend(*updates, update);
	return update;
}

static void
add_entry(MetadataUpdate *update, const SlShardletRow *row)
{
	Entry	   *entry = palloc0(sizeof(Entry));

	entry->row = row;
	if (row->shard_id != update->shard->id)
		entry->owner = NameStr(sl_shard_by_id(row->shard_id)->name);
	update->entries = lappend(update->entries, entry);
}

/* Rows of a map that one shard has to know. */
typedef struct Selection
{
	MetadataUpdate *update;
	bool		all;
} Selection;

static bool
select_row(const SlShardletRow *row, void *context)
{
	Selection  *selection = context;

	if (selection->all || row->shard_id == selection->update->shard->id)
		add_entry(selection->update, memcpy(palloc(sizeof(SlShardletRow)), row,
											sizeof(SlShardletRow)));
	return true;
}

/* Makes an update contain all of the map. */
static void
include_all(MetadataUpdate *update, int32 map_id, bool all)
{
	Selection	selection = {.update = update,.all = all};

	update->replaces = true;
	update->gone = NIL;
	update->entries = NIL;
	sl_shardlet_row_scan(map_id, NULL, select_row, &selection);
}

static bool
get_shard(const SlShardletRow *row, void *context)
{
	*(int32 *) context = row->shard_id;
	return false;
}

/* The shard that has what no entry of a list names, or 0. */
static int32
default_shard_id(const SlMapRow *map)
{
	int32		result = 0;

	if (map->kind == SL_KIND_LIST)
		sl_shardlet_row_scan_default(map->id, NULL, get_shard, &result);
	return result;
}

static void
add_change(List **updates, const SlShardletChange *change, int32 default_id)
{
	const SlShardletRow *row = &change->row;
	MetadataUpdate *update;

	if (change->is_gone)
	{
		update = update_for_shard(updates, change->old_shard_id);
		update->gone = lappend(update->gone, (void *) row);
		update = default_id != 0 ? update_for_shard(updates, default_id) : update;
		update->gone = list_append_unique_ptr(update->gone, (void *) row);
		return;
	}
	add_entry(update_for_shard(updates, row->shard_id), row);
	if (change->old_shard_id != 0 && change->old_shard_id != row->shard_id)
		add_entry(update_for_shard(updates, change->old_shard_id), row);
	if (default_id != 0 && default_id != row->shard_id && default_id != change->old_shard_id)
		add_entry(update_for_shard(updates, default_id), row);
}

/* Sending it ---------------------------------------------------------------------- */

/* Values of one column, for an array in text form. */
typedef struct Column
{
	Datum	   *values;
	bool	   *nulls;
	int			count;
} Column;

static Column
make_column(int size)
{
	Column		column = {0};

	column.values = palloc0(sizeof(Datum) * Max(size, 1));
	column.nulls = palloc0(sizeof(bool) * Max(size, 1));
	return column;
}

static void
put_value(Column *column, Datum value, bool is_null)
{
	column->values[column->count] = value;
	column->nulls[column->count++] = is_null;
}

static void
put_text(Column *column, const char *value)
{
	put_value(column, value != NULL ? CStringGetTextDatum(value) : (Datum) 0, value == NULL);
}

/* A bound is an array itself, in text form. */
static void
put_bound(Column *column, const ArrayType *bound)
{
	put_text(column, bound != NULL ?
			 OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(bound)) : NULL);
}

static char *
array_text(const Column *column, Oid type, int length, bool by_value, char align)
{
	int			dimensions[1] = {column->count};
	int			lower_bounds[1] = {1};
	ArrayType  *array = column->count == 0 ? construct_empty_array(type) :
	construct_md_array(column->values, column->nulls, 1, dimensions, lower_bounds, type,
					   length, by_value, align);

	return OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(array));
}

static char *
write_int8_array(const Column *column)
{
	return array_text(column, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
}

static char *
write_text_array(const Column *column)
{
	return array_text(column, TEXTOID, -1, false, TYPALIGN_INT);
}

static char *
write_bool_array(const Column *column)
{
	return array_text(column, BOOLOID, sizeof(bool), true, TYPALIGN_CHAR);
}

static char *
key_types_text(const SlMapRow *map)
{
	Column		column = make_column(map->key_count);

	for (int i = 0; i < map->key_count; i++)
		put_value(&column, ObjectIdGetDatum(map->key_oids[i]), false);
	return array_text(&column, OIDOID, sizeof(Oid), true, TYPALIGN_INT);
}

static bool
is_arriving(const Entry *entry, List *arriving)
{
	ListCell   *cell;

	foreach(cell, arriving)
	{
		if (*(int64 *) lfirst(cell) == entry->row->id)
			return true;
	}
	return false;
}

/* Of shardlets of other shards, only whether their rows are being moved to this one is sent. */
static SlState
entry_state(const Entry *entry, List *arriving)
{
	if (entry->owner == NULL)
		return entry->row->state;
	return is_arriving(entry, arriving) ? SL_STATE_MOVING : SL_STATE_ONLINE;
}

/* Writes the entries as parameters, beginning with the shardlets' ids. */
static void
write_entries(const SlMapRow *map, const MetadataUpdate *update, const char **params)
{
	List	   *arriving = sl_orphaned_arriving(map->id, update->shard->id);
	int			size = list_length(update->entries);
	Column		columns[10];
	ListCell   *cell;

	for (int i = 0; i < (int) lengthof(columns); i++)
		columns[i] = make_column(size);
	foreach(cell, update->entries)
	{
		const Entry *entry = lfirst(cell);
		const SlShardletRow *row = entry->row;

		put_value(&columns[0], Int64GetDatum(row->id), false);
		put_value(&columns[1], Int64GetDatum(row->low_token), !row->has_low_token);
		put_value(&columns[2], Int64GetDatum(row->high_token), !row->has_high_token);
		put_bound(&columns[3], row->low);
		put_bound(&columns[4], row->high);
		put_value(&columns[5], BoolGetDatum(row->is_default), false);
		put_text(&columns[6], sl_state_name(entry_state(entry, arriving)));
		put_value(&columns[7], BoolGetDatum(row->pinned), false);
		put_value(&columns[8], Int64GetDatum(row->version), false);
		put_text(&columns[9], entry->owner);
	}
	params[0] = write_int8_array(&columns[0]);
	params[1] = write_int8_array(&columns[1]);
	params[2] = write_int8_array(&columns[2]);
	params[3] = write_text_array(&columns[3]);
	params[4] = write_text_array(&columns[4]);
	params[5] = write_bool_array(&columns[5]);
	params[6] = write_text_array(&columns[6]);
	params[7] = write_bool_array(&columns[7]);
	params[8] = write_int8_array(&columns[8]);
	params[9] = write_text_array(&columns[9]);
}

static char *
gone_text(const MetadataUpdate *update)
{
	Column		column = make_column(list_length(update->gone));
	ListCell   *cell;

	foreach(cell, update->gone)
		put_value(&column, Int64GetDatum(((const SlShardletRow *) lfirst(cell))->id), false);
	return write_int8_array(&column);
}

/*
 * Returns the user to connect as.  A user who may change maps need not have a user
 * mapping for the shards: then it is the owner of the shard's server.
 */
static Oid
find_user(const SlShard *shard)
{
	if (superuser() ||
		sl_option_get(sl_remote_credentials(GetUserId(), shard->server), "password") != NULL)
		return GetUserId();
	return GetForeignServer(shard->server)->owner;
}

/*
 * Runs a command on a shard, whether that takes writes of users or not.  Returns the
 * first value of its first row.
 */
static char *
run_as_is(SlShard *shard, const char *sql, int param_count, const char *const *params)
{
	SlTxnUse	use = {.writes = true};
	SlReply    *replies;
	int			count;

	replies = sl_broadcast_make(list_make1(shard), true, &count);
	sl_command_open(replies, count);
	sl_command_check(replies, count, NULL);
	sl_command_run(replies, count, sql, param_count, params, &use);
	sl_command_check(replies, count, sql);
	return replies[0].value != NULL ? replies[0].value : "";
}

static char *
run_on(SlShard *shard, const char *sql, int param_count, const char *const *params)
{
	Oid			user;
	int			context;
	char	   *value;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(find_user(shard), context | SECURITY_LOCAL_USERID_CHANGE);
	value = run_as_is(shard, sql, param_count, params);
	SetUserIdAndSecContext(user, context);
	return value;
}

/* Writes the parameters of guard_change().  "may_make": the transaction changes a map. */
static void
write_update(const SlMapRow *map, const MetadataUpdate *update, bool may_make, const char **params)
{
	int			wait_ms = LockTimeout > 0 ? Min(LockTimeout, WAIT_MS) : WAIT_MS;

	params[0] = NameStr(map->name);
	params[1] = psprintf("%d", map->id);
	params[2] = sl_kind_name(map->kind);
	params[3] = key_types_text(map);
	params[4] = map->via;
	params[5] = psprintf("%lld", (long long) map->version);
	params[6] = NameStr(update->shard->name);
	params[7] = update->replaces ? "replace" : "change";
	params[8] = psprintf("%d", wait_ms);
	params[9] = gone_text(update);
	write_entries(map, update, &params[10]);
	params[20] = sl_shard_secret_get(update->shard->id, may_make);
	params[21] = sl_router_get()->id;
	params[22] = psprintf("%lld", (long long) sl_router_get()->epoch);
}

static void
send_update(const SlMapRow *map, const MetadataUpdate *update)
{
	const char *params[CHANGE_PARAMS];

	write_update(map, update, true, params);
	(void) run_on(update->shard, change_sql, lengthof(params), params);
	sl_map_shard_set_version(map->id, update->shard->id, map->version);
}

/* Can the update be sent?  A shard that is offline gets it later. */
static bool
can_send_to(SlShard *shard, int32 map_id)
{
	if (!shard->exists || shard->bare)
		return false;
	if (shard->state != SL_STATE_OFFLINE)
		return true;
	sl_map_shard_set_behind(map_id, shard->id, true);
	return false;
}

/* Copies ------------------------------------------------------------------------------ */

/* Shards whose copies of maps are old when this transaction has committed. */
static List *outdated = NIL;

static void
note_change(int32 map_id)
{
	MemoryContext old_context = MemoryContextSwitchTo(TopTransactionContext);

	outdated = list_union_int(outdated, sl_map_shard_ids(map_id));
	MemoryContextSwitchTo(old_context);
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	ListCell   *cell;

	if (event == XACT_EVENT_COMMIT)
	{
		foreach(cell, outdated)
			sl_shmem_flag(sl_shmem_shard(lfirst_int(cell)), SL_SHARD_MAPS);
		if (outdated != NIL)
			sl_shmem_wake_launcher();
	}
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		outdated = NIL;
}

/* Sends all of a map, so that the shard can name owners. */
static SlFailure *
send_copy(SlConn *conn, SlShard *shard, const SlMapRow *map, int limit_ms)
{
	MetadataUpdate update = {.shard = shard};
	const char *params[CHANGE_PARAMS];
	SlFailure  *failure;

	include_all(&update, map->id, true);
	if (list_length(update.entries) > MAX_COPIED)
		return NULL;
	write_update(map, &update, false, params);
	params[7] = "copy";
	(void) sl_remote_try(conn, change_sql, lengthof(params), params, sl_wait_deadline(limit_ms),
						 &failure);
	return failure;
}

/* Brings the copies of one shard up to date; true if that went well. */
static bool
send_copies(SlShard *shard, int limit_ms)
{
	SlFailure  *failure;
	SlConn	   *conn = sl_remote_try_open_as(shard, GetUserId(), &failure);
	ListCell   *cell;

	if (conn == NULL)
		return false;
	foreach(cell, sl_map_ids_of_shard(shard->id))
	{
		SlMapRow	map;

		if (failure == NULL && sl_map_row_read_id(lfirst_int(cell), &map))
			failure = send_copy(conn, shard, &map, limit_ms);
	}
	sl_conn_close(conn);
	return failure == NULL;
}

static void
limit_connecting(int limit_ms)
{
	if (limit_ms < sl_connect_timeout)
		(void) set_config_option("shardlet.connect_timeout", psprintf("%d", limit_ms), PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

/* Returns the ids of the shards whose copies of maps may be old. */
List *
sl_publish_outdated(void)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_shard_all())
	{
		int32		id = ((SlShard *) lfirst(cell))->id;

		if (sl_shmem_has_flag(sl_shmem_shard(id), SL_SHARD_MAPS))
			result = lappend_int(result, id);
	}
	return result;
}

/*
 * Brings a shard's copies of maps up to date, over a connection of its own and in
 * a transaction that does nothing else.  Connecting, and each map, may take so
 * long.  Called by the worker, some time after maps have changed; what fails is
 * tried again with its next pass.
 */
bool
sl_publish_copies_to(int32 shard_id, int limit_ms)
{
	SlShard    *shard = sl_shard_by_id(shard_id);
	SlShardSlot *slot = sl_shmem_shard(shard_id);
	uint32		changes = pg_atomic_read_u32(&slot->changes);

	limit_connecting(limit_ms);
	if (shard->exists && shard->state != SL_STATE_OFFLINE && !shard->bare &&
		!send_copies(shard, limit_ms))
		return false;
	(void) sl_shmem_unflag(slot, SL_SHARD_MAPS, changes);
	return true;
}

/* Changes of maps ------------------------------------------------------------------- */

static bool
is_new_default(const SlShardletChange *change)
{
	return !change->is_gone && change->row.is_default &&
		change->old_shard_id != change->row.shard_id;
}

/* A shard is new in the map: it gets to know all of it, unless that is much. */
static void
include_map(MetadataUpdate *update, const SlMapRow *map)
{
	include_all(update, map->id, true);
	if (list_length(update->entries) > MAX_COPIED)
		include_all(update, map->id, false);
}

static List *
write_updates(const SlMapRow *map, const SlMapChange *change)
{
	int32		default_id = default_shard_id(map);
	List	   *updates = NIL;
	ListCell   *cell;

	foreach(cell, change->shardlets)
		add_change(&updates, lfirst(cell), default_id);
	foreach(cell, change->joined)
		include_map(update_for_shard(&updates, lfirst_int(cell)), map);
	foreach(cell, change->shardlets)
	{
		const SlShardletChange *shardlet = lfirst(cell);

		if (map->kind == SL_KIND_LIST && is_new_default(shardlet))
			include_all(update_for_shard(&updates, shardlet->row.shard_id), map->id, true);
	}
	return updates;
}

static void
publish_change(const SlMapRow *map, const SlMapChange *change)
{
	ListCell   *cell;

	foreach(cell, write_updates(map, change))
	{
		const MetadataUpdate *update = lfirst(cell);

		if (update->shard->id != change->dropped_id && can_send_to(update->shard, map->id))
			send_update(map, update);
	}
	note_change(map->id);
	sl_fault("map_published");
}

static void
publish_drop(const SlMap *map)
{
	const char *params[] = {NameStr(map->name), sl_router_get()->id};
	ListCell   *cell;

	foreach(cell, sl_map_shard_ids(map->id))
	{
		SlShard    *shard = sl_shard_by_id(lfirst_int(cell));

		if (can_send_to(shard, map->id))
			(void) run_on(shard, "SELECT shardlet.guard_drop($1, $2)", lengthof(params), params);
	}
}

static char *
write_ids(List *ids)
{
	Column		column = make_column(list_length(ids));
	ListCell   *cell;

	foreach(cell, ids)
		put_value(&column, Int32GetDatum(lfirst_int(cell)), false);
	return array_text(&column, INT4OID, sizeof(int32), true, TYPALIGN_INT);
}

/*
 * Makes a shard belong to this router, in the session's transaction.  "takeover": even
 * if it belongs to another one, or to another copy of this one; then the router's
 * epoch may rise.
 */
void
sl_publish_claim(SlShard *shard, bool takeover)
{
	const SlRouter *router = sl_router_get();
	const char *params[4];
	int64		epoch;

	if (shard->bare || !router->exists)
		return;
	params[0] = router->id;
	params[1] = sl_router_name();
	params[2] = psprintf("%lld", (long long) router->epoch);
	params[3] = takeover ? "true" : "false";
	sl_state_exempt(shard->id);
	epoch = strtoll(run_on(shard, "SELECT shardlet.router_claim($1, $2, $3, $4)", lengthof(params), params),
					NULL, 10);
	sl_state_exempt(0);
	if (epoch > sl_router_get()->epoch)
		sl_router_set_epoch(epoch);
}

/* One shard ---------------------------------------------------------------------------- */

/*
 * Sends a shard all that it has to know: it is new, or was offline.  The caller has
 * locked its maps, so that no change is under way that would not reach it.
 */
void
sl_publish_all_to(SlShard *shard)
{
	List	   *ids = sl_map_ids_of_shard(shard->id);
	Column		names = make_column(list_length(ids));
	const char *params[3];
	ListCell   *cell;

	if (shard->bare)
		return;
	foreach(cell, ids)
	{
		MetadataUpdate update = {.shard = shard};
		SlMapRow	map;

		if (!sl_map_row_read_id(lfirst_int(cell), &map))
			continue;
		include_all(&update, map.id, default_shard_id(&map) == shard->id);
		send_update(&map, &update);
		put_text(&names, NameStr(map.name));
		sl_map_shard_set_behind(map.id, shard->id, false);
	}
	params[0] = write_text_array(&names);
	params[1] = sl_router_get()->id;
	params[2] = write_ids(list_concat(sl_map_all_ids(), sl_map_dropped_ids()));
	(void) run_on(shard, "SELECT shardlet.guard_keep($1, $2, $3)", lengthof(params), params);
}

/* Sends a shard all that it has to know of one map. */
void
sl_publish_map_to(SlShard *shard, int32 map_id)
{
	MetadataUpdate update = {.shard = shard};
	SlMapRow	map;

	if (!sl_map_row_read_id(map_id, &map) || !can_send_to(shard, map_id))
		return;
	include_all(&update, map.id, default_shard_id(&map) == shard->id);
	send_update(&map, &update);
	note_change(map_id);
}

/* Makes a shard forget a map that belongs to that router. */
void
sl_publish_forget(SlShard *shard, const char *map, const char *router)
{
	const char *params[] = {map, router};

	(void) run_on(shard, "SELECT shardlet.guard_drop($1, $2)", lengthof(params), params);
}

/* Makes a shard forget the maps of all other routers. */
void
sl_publish_forget_others(SlShard *shard)
{
	const char *params[] = {sl_router_get()->id};

	if (!shard->bare)
		(void) run_on(shard, "SELECT shardlet.guard_drop(m.map, m.router) FROM shardlet.catalog_guard_map m"
					  " WHERE m.router OPERATOR(pg_catalog.<>) $1", lengthof(params), params);
}

/* Makes a map on a shard belong to this router, and no longer to that one. */
void
sl_publish_adopt(SlShard *shard, const char *map, const char *router)
{
	const char *params[] = {map, router, sl_router_get()->id};

	(void) run_on(shard, "SELECT shardlet.guard_adopt($1, $2, $3)", lengthof(params), params);
}

static SlMapRow
read_map(const SlMap *map)
{
	SlMapRow	row;

	if (!sl_map_row_read_id(map->id, &row))
		elog(ERROR, "could not find map %d", map->id);
	return row;
}

/*
 * Sends a shard the entry of another one's shardlet: that its rows are being moved
 * to it, or are not any more.
 */
void
sl_publish_arrival(const SlMap *map, const SlShardletRow *row, SlShard *shard)
{
	SlMapRow	map_row = read_map(map);
	MetadataUpdate update = {.shard = shard};

	if (!can_send_to(shard, map->id))
		return;
	add_entry(&update, row);
	send_update(&map_row, &update);
}

/* Removes the entry of another one's shardlet: its rows will not come. */
void
sl_publish_gone(const SlMap *map, int64 shardlet, SlShard *shard)
{
	SlMapRow	map_row = read_map(map);
	SlShardletRow row = {.id = shardlet};
	MetadataUpdate update = {.shard = shard};

	if (!can_send_to(shard, map->id))
		return;
	update.gone = list_make1(&row);
	send_update(&map_row, &update);
}

void
sl_publish_init(void)
{
	sl_hooks.publish_map_change = publish_change;
	sl_hooks.publish_map_drop = publish_drop;
	RegisterXactCallback(at_transaction_end, NULL);
}
