/*
 * next_id.c
 *		next_id(): ids that grow with time and are unique over router and
 *		shards.
 *
 * An id has 41 bits of milliseconds since 2024, 10 bits for the database (the
 * shard's id; 0 on the router) and 12 bits of a counter.  No coordination is
 * needed: a sequence of the database holds the time and the counter of the
 * last id.  The next one has the clock's time if that is later, and its
 * counter is one more in any case.  So a clock that goes backwards, or
 * thousands of ids in a millisecond, only make ids run ahead of the clock.
 * The counter does not restart with each millisecond: its lowest bits would
 * nearly always be 0, and a rule such as id % 16 would put all rows on one
 * shard.
 *
 * The sequence is not advanced with nextval() and setval().  Another session
 * could intervene between the two, and nextval() would change the result of
 * lastval() for the application.  Instead the tuple is updated in place, as
 * nextval() does, under the lock on its page.  The WAL record has a value that
 * is ahead by a second, so that there is one record a second: after a crash
 * the sequence continues from there.  It has to be logged again after a
 * checkpoint as well, since recovery begins there.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/indexing.h"
#include "catalog/pg_db_role_setting.h"
#include "commands/sequence.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/base.h"
#include "compat.h"

PG_FUNCTION_INFO_V1(shardlet_next_id);

#define NODE_BITS 10
#define COUNT_BITS 12
#define TIME_BITS 41
#define COUNT_MASK ((INT64CONST(1) << COUNT_BITS) - 1)

/* Days from 2000-01-01, where PostgreSQL's time begins, to 2024-01-01. */
#define EPOCH_DAYS 8766

/* How far ahead the logged value is. */
#define LOGGED_AHEAD (INT64CONST(1000) << COUNT_BITS)

/* This database's number; -1: not read yet. */
static int	known_node = -1;

/* The number ---------------------------------------------------------------- */

/* Returns the value of a setting in an array of "name=value", or NULL. */
static char *
find_setting(ArrayType *settings, const char *name)
{
	Datum	   *elements;
	int			count;
	size_t		length = strlen(name);

	if (settings == NULL)
		return NULL;
	deconstruct_array(settings, TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &count);
	for (int i = 0; i < count; i++)
	{
		char	   *setting = TextDatumGetCString(elements[i]);

		if (strncmp(setting, name, length) == 0 && setting[length] == '=')
			return setting + length + 1;
	}
	return NULL;
}

/*
 * Returns what ALTER DATABASE ... SET says of this database, or NULL.  The
 * session's own setting would not do: it may be older, or set by the user.
 */
static ArrayType *
read_database_settings(void)
{
	Relation	relation = table_open(DbRoleSettingRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	ArrayType  *result = NULL;

	ScanKeyInit(&keys[0], Anum_pg_db_role_setting_setdatabase, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(MyDatabaseId));
	ScanKeyInit(&keys[1], Anum_pg_db_role_setting_setrole, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(InvalidOid));
	scan = systable_beginscan(relation, DbRoleSettingDatidRolidIndexId, true, NULL, 2, keys);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		is_null;
		Datum		settings = heap_getattr(tuple, Anum_pg_db_role_setting_setconfig,
											RelationGetDescr(relation), &is_null);

		if (!is_null)
			result = DatumGetArrayTypePCopy(settings);
	}
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return result;
}

/*
 * Returns this database's number.  That of a shard never changes; a database
 * without one may become a shard at any time, so it is looked up again in each
 * transaction.
 */
static int
get_node(void)
{
	static TimestampTz looked_up_at = 0;
	ArrayType  *settings;
	char	   *setting;
	long		id;

	if (known_node >= 0)
		return known_node;
	if (looked_up_at == GetCurrentTransactionStartTimestamp())
		return 0;
	settings = read_database_settings();
	setting = find_setting(settings, "shardlet.shard_id");
	if (setting == NULL && find_setting(settings, "shardlet.identity") != NULL)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("shardlet.next_id() does not know the number of this shard"),
				errhint("Set it to the id that view shardlet.shards of the router shows: ALTER DATABASE ... SET shardlet.shard_id = ..."));
	if (setting == NULL)
	{
		looked_up_at = GetCurrentTransactionStartTimestamp();
		return 0;
	}
	id = strtol(setting, NULL, 10);
	if (id <= 0 || id >= (1 << NODE_BITS))
		ereport(ERROR,
				errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("shard number %s is too large for shardlet.next_id()", setting),
				errdetail("An id has room for shard numbers from 1 to %d.", (1 << NODE_BITS) - 1),
				errhint("Take ids from a sequence of the router on this shard."));
	known_node = (int) id;
	return known_node;
}

/* The sequence ---------------------------------------------------------------- */

/* Returns the clock's time in milliseconds. */
static int64
clock_milliseconds(void)
{
	int64		microseconds = GetCurrentTimestamp() - EPOCH_DAYS * USECS_PER_DAY;

	return Max(microseconds / 1000, 0);
}

/* Returns the successor of a value of the sequence. */
static int64
value_after(int64 last, int64 milliseconds)
{
	int64		next = last + 1;

	return Max(next, milliseconds << COUNT_BITS | (next & COUNT_MASK));
}

/* Logs the tuple with a value that is ahead, from which recovery continues. */
static void
log_ahead(Relation sequence, Buffer buffer, HeapTuple tuple, int64 value)
{
	Form_pg_sequence_data data = (Form_pg_sequence_data) GETSTRUCT(tuple);
	xl_seq_rec	record;
	XLogRecPtr	position;

	data->last_value = value;
	data->log_cnt = 0;
	data->is_called = true;
	XLogBeginInsert();
	XLogRegisterBuffer(0, buffer, REGBUF_WILL_INIT);
	sl_sequence_record_locator(record) = sl_relation_locator(sequence);
	XLogRegisterData((char *) &record, sizeof(xl_seq_rec));
	XLogRegisterData((char *) tuple->t_data, tuple->t_len);
	position = XLogInsert(RM_SEQ_ID, XLOG_SEQ_LOG);
	PageSetLSN(BufferGetPage(buffer), position);
}

/* Updates the tuple in place.  The caller has locked the page. */
static int64
advance_sequence(Relation sequence, Buffer buffer, int64 milliseconds)
{
	Page		page = BufferGetPage(buffer);
	ItemId		item = PageGetItemId(page, FirstOffsetNumber);
	HeapTupleData tuple;
	Form_pg_sequence_data data;
	int64		value;
	int64		logged;
	bool		must_log;

	tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
	tuple.t_len = ItemIdGetLength(item);
	data = (Form_pg_sequence_data) GETSTRUCT(&tuple);
	logged = data->last_value + data->log_cnt;
	value = value_after(data->last_value, milliseconds);
	must_log = RelationNeedsWAL(sequence) &&
		(value > logged || PageGetLSN(page) <= GetRedoRecPtr());

	/* With an xid assigned, commit waits until the WAL record is flushed. */
	if (must_log)
		(void) GetTopTransactionId();
	START_CRIT_SECTION();
	MarkBufferDirty(buffer);
	if (must_log)
	{
		logged = value + LOGGED_AHEAD;
		log_ahead(sequence, buffer, &tuple, logged);
	}
	data->last_value = value;
	data->log_cnt = Max(logged - value, 0);
	data->is_called = true;
	END_CRIT_SECTION();
	return value;
}

static int64
next_value(void)
{
	Relation	sequence = relation_open(sl_catalog_oid(SL_ID_SEQUENCE), RowExclusiveLock);
	Buffer		buffer = ReadBuffer(sequence, 0);
	int64		value;

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	value = advance_sequence(sequence, buffer, clock_milliseconds());
	UnlockReleaseBuffer(buffer);
	relation_close(sequence, NoLock);
	return value;
}

/* next_id() */
Datum
shardlet_next_id(PG_FUNCTION_ARGS)
{
	int			node;
	int64		value;
	int64		milliseconds;

	sl_check_writable("shardlet.next_id()");
	node = get_node();
	value = next_value();
	milliseconds = value >> COUNT_BITS;
	if (milliseconds >= INT64CONST(1) << TIME_BITS)
		ereport(ERROR,
				errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
				errmsg("no id is left for shardlet.next_id()"),
				errdetail("Ids have room for the time until 2093."),
				errhint("Set the server's clock right."));
	PG_RETURN_INT64(milliseconds << (NODE_BITS + COUNT_BITS) |
					(int64) node << COUNT_BITS | (value & COUNT_MASK));
}
