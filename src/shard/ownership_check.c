/*
 * ownership_check.c
 *		May this transaction use a key on this shard?
 *
 * The lock comes before the check: a transaction that changes an entry holds
 * the lock until its commit, and its invalidations are sent before the lock is
 * released.  So after the lock pending invalidations are accepted, and if
 * there were any, the map is read again, with a new snapshot.  The result is
 * valid until the end of the transaction.
 *
 * A key without an own entry may be arriving by a move.  So the key is refused
 * only under the lock on the map, which waits for a transaction that adds the
 * entry.
 *
 * An own entry may be newer than the transaction's snapshot: a REPEATABLE READ
 * snapshot from before the key was moved to this shard does not see its rows.
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/proc.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"

#include "base/base.h"
#include "compat.h"
#include "shard/shard.h"

/* Refusals ------------------------------------------------------------------------ */

/* The owner of a key, as far as this shard knows. */
typedef struct Owner
{
	SlGuardMap *map;
	const Datum *key;
	int64		version;
	NameData	name;			/* empty: not known */
} Owner;

static bool
match_owner(const SlGuardRow *row, void *context)
{
	Owner	   *owner = context;

	if (!row->is_own && row->version >= owner->version &&
		sl_guard_row_has(owner->map, row, owner->key))
	{
		owner->version = row->version;
		owner->name = row->owner;
	}
	return true;
}

pg_noreturn static void
refuse_key(SlGuardMap *map, const Datum *key)
{
	Owner		owner = {.map = map,.key = key};
	char	   *location;

	if (map->is_known)
		sl_guard_row_scan(NameStr(map->name), match_owner, &owner);
	location = NameStr(owner.name)[0] != '\0' ?
		psprintf("key is on shard \"%s\"", NameStr(owner.name)) :
		pstrdup("key is not on this shard");
	ereport(ERROR,
			errcode(SL_ERR_NOT_OWNER),
			errmsg("this shard does not own the key"),
			errdetail_internal("map \"%s\" version %lld: %s", NameStr(map->name),
							   (long long) Max(map->version, map->copy_version), location),
			errhint("shardlet.locate() on the router tells where a key is."));
}

static void
check_state(const SlGuardMap *map, const SlGuardEntry *entry, bool writes)
{
	if (entry->state == SL_STATE_OFFLINE)
		ereport(ERROR,
				errcode(SL_ERR_UNREACHABLE),
				errmsg("shardlet %lld of map \"%s\" is offline", (long long) entry->id,
					   NameStr(map->name)));
	if (writes && entry->state == SL_STATE_READ_ONLY)
		ereport(ERROR,
				errcode(SL_ERR_READ_ONLY),
				errmsg("key of map \"%s\" is read-only", NameStr(map->name)),
				errdetail("It is in shardlet %lld on this shard.", (long long) entry->id));
}

/* What the transaction sees -------------------------------------------------------- */

typedef struct Past
{
	SlGuardMap *map;
	const SlGuardEntry *entry;
	const Datum *key;
	bool		was_own;
} Past;

/*
 * Changed bounds do not change the owner; in a list the key's own entry must
 * have existed.
 */
static bool
match_past(const SlGuardRow *row, void *context)
{
	Past	   *past = context;

	past->was_own = row->is_own && (past->map->kind == SL_KIND_LIST ? row->id == past->entry->id :
									sl_guard_row_has(past->map, row, past->key));
	return !past->was_own;
}

/*
 * Raises an error if the transaction's snapshot is from before the key was
 * moved to this shard.  Only an entry that is newer than the snapshot needs a
 * check.
 */
static void
check_snapshot(SlGuardMap *map, const SlGuardEntry *entry, const Datum *key)
{
	Past		past = {.map = map,.entry = entry,.key = key};
	Snapshot	snapshot = GetTransactionSnapshot();

	if (!XidInMVCCSnapshot(entry->xmin, snapshot) || TransactionIdIsCurrentTransactionId(entry->xmin))
		return;
	sl_guard_row_scan_at(NameStr(map->name), snapshot, match_past, &past);
	if (!past.was_own)
		ereport(ERROR,
				errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				errmsg("could not serialize access due to a move of shardlet %lld", (long long) entry->id),
				errdetail("The transaction does not see rows that came to this shard after it began."),
				errhint("Run the transaction again."));
}

/* Claiming ------------------------------------------------------------------------- */

static bool
is_held(const SlGuardMap *map, const SlGuardEntry *entry)
{
	LocalTransactionId mine = sl_local_transaction_id();

	return map->held == mine || (entry != NULL && entry->held == mine);
}

/*
 * The key was coerced to the types that the map had before.  A map that was
 * dropped and created again while waiting can have others.
 */
static void
read_again(SlGuardMap *map)
{
	Oid			types[SL_MAX_KEYS];
	int			count = map->is_known ? map->key_count : 0;

	for (int i = 0; i < count; i++)
		types[i] = map->key_types[i].type;
	sl_guard_map_refresh(map);
	for (int i = 0; i < count; i++)
	{
		if (!map->is_known || map->key_count != count || map->key_types[i].type != types[i])
			ereport(ERROR,
					errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					errmsg("map \"%s\" was replaced by another one", NameStr(map->name)));
	}
}

/* Locks the key's shardlet, or the map; true if the entry is unchanged. */
static bool
lock_entry(SlGuardMap *map, SlGuardEntry *entry)
{
	uint64		load = map->load;
	bool		has_map = true;

	if (entry != NULL)
		has_map = sl_guard_lock_shardlet(map->id, entry->id);
	else
		sl_guard_lock_map(map->id);
	AcceptInvalidationMessages();
	if (!map->is_current)
		read_again(map);
	if (map->load != load)
		return false;
	if (has_map)
		map->held = sl_local_transaction_id();
	else
		entry->held = sl_local_transaction_id();
	return true;
}

/*
 * Makes sure that this shard owns a key, until the transaction ends.  Returns
 * its entry; anything else is an error.  Spread maps have no key.
 */
SlGuardEntry *
sl_guard_claim(SlGuardMap *map, const Datum *key, bool writes)
{
	SlGuardEntry *entry;

	do
	{
		entry = map->is_known ? sl_guard_map_find(map, key) : NULL;
	} while (!is_held(map, entry) && !lock_entry(map, entry));
	if (entry == NULL)
		refuse_key(map, key);
	if (entry->state != SL_STATE_ONLINE)
		check_state(map, entry, writes);
	if (IsolationUsesXactSnapshot())
		check_snapshot(map, entry, key);
	return entry;
}

/* The same for all keys of this shard, whatever their states. */
void
sl_guard_claim_map(SlGuardMap *map)
{
	while (map->held != sl_local_transaction_id() && !lock_entry(map, NULL))
		;
}

typedef struct Obstacle
{
	bool		found;
	SlGuardRow	row;
} Obstacle;

static bool
find_obstacle(const SlGuardRow *row, void *context)
{
	Obstacle   *obstacle = context;

	obstacle->found = row->is_own ? row->state != SL_STATE_ONLINE : row->state == SL_STATE_MOVING;
	obstacle->row = *row;
	return !obstacle->found;
}

/*
 * TRUNCATE affects all rows of the map on this shard.  Logical replication
 * could not distinguish those of one shardlet: none may be moving, from or to
 * this shard.
 */
void
sl_guard_claim_all(SlGuardMap *map)
{
	Obstacle	obstacle = {0};

	sl_guard_claim_map(map);
	sl_guard_row_scan(NameStr(map->name), find_obstacle, &obstacle);
	if (obstacle.found)
		ereport(ERROR,
				errcode(SL_ERR_READ_ONLY),
				errmsg("table cannot be truncated now"),
				errdetail("Shardlet %lld of map \"%s\" is %s.", (long long) obstacle.row.id,
						  NameStr(map->name),
						  obstacle.row.is_own ? sl_state_name(obstacle.row.state) : "being moved to this shard"));
}
