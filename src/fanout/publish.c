/*
 * publish.c
 *		Tells shards what they own, in the transaction that changes it.
 *
 * A shard keeps the entries of its own shardlets and of those that left it, for
 * its guard (src/guard).  When a change of a map is complete, each shard that it
 * concerns gets its part as a call of guard_change(), as part of the session's
 * transaction: router and shards commit together or not at all.
 *
 * Shards without the extension have no guard.  One that is offline is noted as
 * being behind, and gets everything anew before it is online again.
 *
 * The default of a list owns what no entry names; so its shard has to know the
 * entries of all others, too.
 *
 * A shard that rows are on their way to is told so with the entry of their shardlet,
 * in whichever letter that is: its guard refuses TRUNCATE as long as it knows that.
 *
 * After the fact the worker sends a copy of the whole map to each of its shards:
 * nothing is decided by it, but the guard can name the owner of a key, and a lost
 * router can be rebuilt.  One shard has nothing to do with another there.
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
#include "base/fault.h"
#include "fanout/fanout.h"

/* Copies of larger maps are not sent around. */
#define MAX_COPIED 20000

/* So long a shard waits for transactions that have written to a shardlet. */
#define WAIT_MS 5000

/* An entry as one shard gets it. */
typedef struct Entry
{
	const SlShardletRow *row;
	const char *owner;			/* NULL: the shard itself */
} Entry;

/* What one shard is told. */
typedef struct Letter
{
	SlShard    *shard;
	bool		replaces;		/* what the shard knew of the map is void */
	List	   *gone;			/* of const SlShardletRow */
	List	   *entries;		/* of Entry */
} Letter;

#define CHANGE_PARAMS 20

static const char change_sql[] =
"SELECT shardlet.guard_change($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,"
" $16, $17, $18, $19, $20)";

/* Writing a letter ---------------------------------------------------------------- */

static Letter *
letter_to(List **letters, int32 shard_id)
{
	ListCell   *cell;
	Letter	   *letter;

	foreach(cell, *letters)
	{
		letter = lfirst(cell);
		if (letter->shard->id == shard_id)
			return letter;
	}
	letter = palloc0(sizeof(Letter));
	letter->shard = sl_shard_by_id(shard_id);
	*letters = lappend(*letters, letter);
	return letter;
}

static void
add_entry(Letter *letter, const SlShardletRow *row)
{
	Entry	   *entry = palloc0(sizeof(Entry));

	entry->row = row;
	if (row->shard_id != letter->shard->id)
		entry->owner = NameStr(sl_shard_by_id(row->shard_id)->name);
	letter->entries = lappend(letter->entries, entry);
}

/* Rows of a map that one shard has to know. */
typedef struct Selection
{
	Letter	   *letter;
	bool		all;
} Selection;

static bool
select_row(const SlShardletRow *row, void *context)
{
	Selection  *selection = context;

	if (selection->all || row->shard_id == selection->letter->shard->id)
		add_entry(selection->letter, memcpy(palloc(sizeof(SlShardletRow)), row,
											sizeof(SlShardletRow)));
	return true;
}

/* Makes a letter tell everything about the map. */
static void
tell_all(Letter *letter, int32 map_id, bool all)
{
	Selection	selection = {.letter = letter,.all = all};

	letter->replaces = true;
	letter->gone = NIL;
	letter->entries = NIL;
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
add_change(List **letters, const SlShardletChange *change, int32 default_id)
{
	const SlShardletRow *row = &change->row;
	Letter	   *letter;

	if (change->is_gone)
	{
		letter = letter_to(letters, change->old_shard_id);
		letter->gone = lappend(letter->gone, (void *) row);
		letter = default_id != 0 ? letter_to(letters, default_id) : letter;
		letter->gone = list_append_unique_ptr(letter->gone, (void *) row);
		return;
	}
	add_entry(letter_to(letters, row->shard_id), row);
	if (change->old_shard_id != 0 && change->old_shard_id != row->shard_id)
		add_entry(letter_to(letters, change->old_shard_id), row);
	if (default_id != 0 && default_id != row->shard_id && default_id != change->old_shard_id)
		add_entry(letter_to(letters, default_id), row);
}

/* Sending it ---------------------------------------------------------------------- */

/* Values of one column, as an array's text. */
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
put(Column *column, Datum value, bool is_null)
{
	column->values[column->count] = value;
	column->nulls[column->count++] = is_null;
}

static void
put_text(Column *column, const char *value)
{
	put(column, value != NULL ? CStringGetTextDatum(value) : (Datum) 0, value == NULL);
}

/* A bound is an array itself; it goes as its text. */
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
int8s(const Column *column)
{
	return array_text(column, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
}

static char *
texts(const Column *column)
{
	return array_text(column, TEXTOID, -1, false, TYPALIGN_INT);
}

static char *
bools(const Column *column)
{
	return array_text(column, BOOLOID, sizeof(bool), true, TYPALIGN_CHAR);
}

static char *
key_types_text(const SlMapRow *map)
{
	Column		column = make_column(map->key_count);

	for (int i = 0; i < map->key_count; i++)
		put(&column, ObjectIdGetDatum(map->key_oids[i]), false);
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

/* Of what is elsewhere only this is followed: whether its rows are on their way. */
static SlState
entry_state(const Entry *entry, List *arriving)
{
	if (entry->owner == NULL)
		return entry->row->state;
	return is_arriving(entry, arriving) ? SL_STATE_MOVING : SL_STATE_ONLINE;
}

/* Writes the entries as parameters, beginning with the shardlets' ids. */
static void
write_entries(const SlMapRow *map, const Letter *letter, const char **params)
{
	List	   *arriving = sl_stray_arriving(map->id, letter->shard->id);
	int			size = list_length(letter->entries);
	Column		columns[10];
	ListCell   *cell;

	for (int i = 0; i < (int) lengthof(columns); i++)
		columns[i] = make_column(size);
	foreach(cell, letter->entries)
	{
		const Entry *entry = lfirst(cell);
		const SlShardletRow *row = entry->row;

		put(&columns[0], Int64GetDatum(row->id), false);
		put(&columns[1], Int64GetDatum(row->low_token), !row->has_low_token);
		put(&columns[2], Int64GetDatum(row->high_token), !row->has_high_token);
		put_bound(&columns[3], row->low);
		put_bound(&columns[4], row->high);
		put(&columns[5], BoolGetDatum(row->is_default), false);
		put_text(&columns[6], sl_state_name(entry_state(entry, arriving)));
		put(&columns[7], BoolGetDatum(row->pinned), false);
		put(&columns[8], Int64GetDatum(row->version), false);
		put_text(&columns[9], entry->owner);
	}
	params[0] = int8s(&columns[0]);
	params[1] = int8s(&columns[1]);
	params[2] = int8s(&columns[2]);
	params[3] = texts(&columns[3]);
	params[4] = texts(&columns[4]);
	params[5] = bools(&columns[5]);
	params[6] = texts(&columns[6]);
	params[7] = bools(&columns[7]);
	params[8] = int8s(&columns[8]);
	params[9] = texts(&columns[9]);
}

static char *
gone_text(const Letter *letter)
{
	Column		column = make_column(list_length(letter->gone));
	ListCell   *cell;

	foreach(cell, letter->gone)
		put(&column, Int64GetDatum(((const SlShardletRow *) lfirst(cell))->id), false);
	return int8s(&column);
}

/*
 * Whoever may change maps need not have a way to the shards of his own: then it
 * is done in the name of the shard's owner.
 */
static Oid
find_user(const SlShard *shard)
{
	if (superuser() ||
		sl_option_get(sl_remote_credentials(GetUserId(), shard->server), "password") != NULL)
		return GetUserId();
	return GetForeignServer(shard->server)->owner;
}

/* Runs a command on a shard, whether that takes writes of users or not. */
static void
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
}

static void
run_on(SlShard *shard, const char *sql, int param_count, const char *const *params)
{
	Oid			user;
	int			context;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(find_user(shard), context | SECURITY_LOCAL_USERID_CHANGE);
	run_as_is(shard, sql, param_count, params);
	SetUserIdAndSecContext(user, context);
}

/* Writes the parameters of guard_change(). */
static void
write_letter(const SlMapRow *map, const Letter *letter, const char **params)
{
	int			wait_ms = LockTimeout > 0 ? Min(LockTimeout, WAIT_MS) : WAIT_MS;

	params[0] = NameStr(map->name);
	params[1] = psprintf("%d", map->id);
	params[2] = sl_kind_name(map->kind);
	params[3] = key_types_text(map);
	params[4] = map->via;
	params[5] = psprintf("%lld", (long long) map->version);
	params[6] = NameStr(letter->shard->name);
	params[7] = letter->replaces ? "replace" : "change";
	params[8] = psprintf("%d", wait_ms);
	params[9] = gone_text(letter);
	write_entries(map, letter, &params[10]);
}

static void
send_letter(const SlMapRow *map, const Letter *letter)
{
	const char *params[CHANGE_PARAMS];

	write_letter(map, letter, params);
	run_on(letter->shard, change_sql, lengthof(params), params);
}

/* Can the shard be told?  One that is offline is told later. */
static bool
can_be_told(SlShard *shard, int32 map_id)
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
			sl_stat_flag(sl_stat_shard(lfirst_int(cell)), SL_SHARD_MAPS);
		if (outdated != NIL)
			sl_stat_wake_launcher();
	}
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		outdated = NIL;
}

/* Sends all of a map, so that the shard can name owners. */
static SlFailure *
send_copy(SlConn *conn, SlShard *shard, const SlMapRow *map, int limit_ms)
{
	Letter		letter = {.shard = shard};
	const char *params[CHANGE_PARAMS];
	SlFailure  *failure;

	tell_all(&letter, map->id, true);
	if (list_length(letter.entries) > MAX_COPIED)
		return NULL;
	write_letter(map, &letter, params);
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

		if (sl_stat_has_flag(sl_stat_shard(id), SL_SHARD_MAPS))
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
	SlShardSlot *slot = sl_stat_shard(shard_id);
	uint32		changes = pg_atomic_read_u32(&slot->changes);

	limit_connecting(limit_ms);
	if (shard->exists && shard->state != SL_STATE_OFFLINE && !shard->bare &&
		!send_copies(shard, limit_ms))
		return false;
	(void) sl_stat_unflag(slot, SL_SHARD_MAPS, changes);
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
introduce(Letter *letter, const SlMapRow *map)
{
	tell_all(letter, map->id, true);
	if (list_length(letter->entries) > MAX_COPIED)
		tell_all(letter, map->id, false);
}

static List *
write_letters(const SlMapRow *map, const SlMapChange *change)
{
	int32		default_id = default_shard_id(map);
	List	   *letters = NIL;
	ListCell   *cell;

	foreach(cell, change->shardlets)
		add_change(&letters, lfirst(cell), default_id);
	foreach(cell, change->joined)
		introduce(letter_to(&letters, lfirst_int(cell)), map);
	foreach(cell, change->shardlets)
	{
		const SlShardletChange *shardlet = lfirst(cell);

		if (map->kind == SL_KIND_LIST && is_new_default(shardlet))
			tell_all(letter_to(&letters, shardlet->row.shard_id), map->id, true);
	}
	return letters;
}

static void
publish(const SlMapRow *map, const SlMapChange *change)
{
	ListCell   *cell;

	foreach(cell, write_letters(map, change))
	{
		const Letter *letter = lfirst(cell);

		if (letter->shard->id != change->dropped_id && can_be_told(letter->shard, map->id))
			send_letter(map, letter);
	}
	note_change(map->id);
	sl_fault("map_published");
}

static void
publish_drop(const SlMap *map)
{
	const char *params[] = {NameStr(map->name)};
	ListCell   *cell;

	foreach(cell, sl_map_shard_ids(map->id))
	{
		SlShard    *shard = sl_shard_by_id(lfirst_int(cell));

		if (can_be_told(shard, map->id))
			run_on(shard, "SELECT shardlet.guard_drop($1)", lengthof(params), params);
	}
}

/* One shard ---------------------------------------------------------------------------- */

/*
 * Tells a shard all that it has to know: it is new, or was offline.  The caller
 * has locked its maps, so that no change is under way that goes without it.
 */
void
sl_publish_all_to(SlShard *shard)
{
	List	   *ids = sl_map_ids_of_shard(shard->id);
	Column		names = make_column(list_length(ids));
	const char *params[1];
	ListCell   *cell;

	if (shard->bare)
		return;
	foreach(cell, ids)
	{
		Letter		letter = {.shard = shard};
		SlMapRow	map;

		if (!sl_map_row_read_id(lfirst_int(cell), &map))
			continue;
		tell_all(&letter, map.id, default_shard_id(&map) == shard->id);
		send_letter(&map, &letter);
		put_text(&names, NameStr(map.name));
		sl_map_shard_set_behind(map.id, shard->id, false);
	}
	params[0] = texts(&names);
	run_on(shard, "SELECT shardlet.guard_keep($1)", 1, params);
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
 * Tells a shard about a shardlet of another one: that rows of it are on their way,
 * or are no more.
 */
void
sl_publish_arrival(const SlMap *map, const SlShardletRow *row, SlShard *shard)
{
	SlMapRow	map_row = read_map(map);
	Letter		letter = {.shard = shard};

	if (!can_be_told(shard, map->id))
		return;
	add_entry(&letter, row);
	send_letter(&map_row, &letter);
}

/* Tells a shard that a shardlet of another one is gone, and its rows will not come. */
void
sl_publish_gone(const SlMap *map, int64 shardlet, SlShard *shard)
{
	SlMapRow	map_row = read_map(map);
	SlShardletRow row = {.id = shardlet};
	Letter		letter = {.shard = shard};

	if (!can_be_told(shard, map->id))
		return;
	letter.gone = list_make1(&row);
	send_letter(&map_row, &letter);
}

void
sl_publish_init(void)
{
	sl_map_publish = publish;
	sl_map_publish_drop = publish_drop;
	RegisterXactCallback(at_transaction_end, NULL);
}
