/*
 * shardlet_sizes.c
 *		How many rows and bytes each shardlet of a map has, and how much it is used.
 *
 * Each shard counts rows and their bytes by shardlet, of a large table those of a sample of
 * its blocks.  So a token range with one large tenant is as large as that tenant, and
 * reading takes no longer for larger tables.  Bytes are those of values: the size of files
 * would make a shard look full that much has just left.  A hash map's rows are put into their ranges by a binary
 * search of the shard; those of other maps by one condition after the other.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/base.h"
#include "deparse/ownership_filter.h"
#include "executor/multi_shard.h"
#include "move/shardlet_sizes.h"

/* A table with more bytes than that is sampled. */
#define SAMPLED_BYTES (64.0 * 1024 * 1024)

/* What a row has besides its values. */
#define ROW_HEADER 24

/* With more shardlets on a shard than that, conditions would take too long. */
#define MAX_CONDITIONS 200

typedef struct Reading
{
	SlMap	   *map;
	SlShardletSize *sizes;
	int			count;
	int			allocated;
	SlShard    *shard;			/* that is at work */
	SlConn	   *conn;
	int		   *own;			/* places of its shardlets, in order */
	int			own_count;
} Reading;

static bool
add_shardlet(const SlShardletRow *row, void *context)
{
	Reading    *reading = context;

	if (reading->count == reading->allocated)
	{
		reading->allocated = Max(64, reading->allocated * 2);
		reading->sizes = reading->sizes == NULL ?
			palloc_extended(sizeof(SlShardletSize) * reading->allocated, MCXT_ALLOC_HUGE) :
			repalloc_huge(reading->sizes, sizeof(SlShardletSize) * reading->allocated);
	}
	memset(&reading->sizes[reading->count], 0, sizeof(SlShardletSize));
	reading->sizes[reading->count++].row = *row;
	return true;
}

static int
compare_rows(const void *a, const void *b)
{
	const SlShardletRow *left = &((const SlShardletSize *) a)->row;
	const SlShardletRow *right = &((const SlShardletSize *) b)->row;

	if (left->low_token != right->low_token)
		return left->low_token < right->low_token ? -1 : 1;
	return left->id < right->id ? -1 : 1;
}

static void
find_own(Reading *reading)
{
	reading->own_count = 0;
	for (int i = 0; i < reading->count; i++)
	{
		if (reading->sizes[i].row.shard_id == reading->shard->id)
			reading->own[reading->own_count++] = i;
	}
}

/* SQL for a shard ----------------------------------------------------------------------- */

/*
 * Hash: the number of the range, counted from 0, or NULL.  Borders are those of the
 * shard's own ranges: bucket 2n + 1 is the n-th, all others are gaps.  A range that
 * begins where the one before ends leaves a gap without any token.
 */
static char *
piece_of_token(const Reading *reading, List *columns)
{
	StringInfoData borders;
	char	   *names[SL_MAX_KEYS];
	ListCell   *cell;

	initStringInfo(&borders);
	for (int i = 0; i < reading->own_count; i++)
	{
		const SlShardletRow *row = &reading->sizes[reading->own[i]].row;

		appendStringInfo(&borders, "%s%lld", i > 0 ? "," : "", (long long) row->low_token);
		if (row->has_high_token)
			appendStringInfo(&borders, ",%lld", (long long) row->high_token);
	}
	foreach(cell, columns)
		names[foreach_current_index(cell)] = lfirst(cell);
	return psprintf("pg_catalog.width_bucket(%s, '{%s}'::pg_catalog.int8[])",
					sl_key_token_sql(reading->map->key_oids, reading->map->key_count, names), borders.data);
}

/* Others: the same numbers, 2n + 1 for the n-th. */
static char *
piece_of_key(const Reading *reading, List *columns)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "CASE");
	for (int i = 0; i < reading->own_count; i++)
		appendStringInfo(&sql, " WHEN %s THEN %d", sl_range_sql(reading->map, &reading->sizes[reading->own[i]].row, columns),
						 2 * i + 1);
	appendStringInfoString(&sql, " END");
	return sql.data;
}

/* $1: a table.  The bytes of its file, or of those of all partitions. */
static const char size_sql[] =
"SELECT coalesce(pg_catalog.sum(pg_catalog.pg_relation_size(r.oid)), 0)::pg_catalog.int8 FROM ("
"SELECT pg_catalog.to_regclass($1)::pg_catalog.oid AS oid"
" UNION SELECT relid::pg_catalog.oid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass($1))) r WHERE r.oid IS NOT NULL";

/* Tables ---------------------------------------------------------------------------------- */

static List *
run(const Reading *reading, const char *sql, int param_count, const char *const *params, int column_count)
{
	SlTxnUse	use = {0};

	sl_txn_join(reading->conn, &use);
	return sl_remote_rows(reading->conn, sql, param_count, params, column_count);
}

static double
number_of(const char *value)
{
	return value != NULL ? strtod(value, NULL) : 0;
}

/* What a query returns: number of the piece, rows, bytes. */
enum
{
	COUNT_PIECE, COUNT_ROWS, COUNT_BYTES, COUNT_COLUMNS
};

/* Adds what a table's rows are; a sample stands for "factor" times as many. */
static void
add_counts(const Reading *reading, List *counts, double factor)
{
	ListCell   *cell;

	foreach(cell, counts)
	{
		char	  **values = lfirst(cell);
		int			bucket = values[COUNT_PIECE] != NULL ? atoi(values[COUNT_PIECE]) : 0;
		SlShardletSize *size;

		if (bucket % 2 == 0 || bucket / 2 >= reading->own_count)
			continue;
		size = &reading->sizes[reading->own[bucket / 2]];
		size->rows += number_of(values[COUNT_ROWS]) * factor;
		size->bytes += number_of(values[COUNT_BYTES]) * factor;
	}
}

/* Every shardlet has as much as the others: too many to tell their rows apart. */
static void
spread_evenly(const Reading *reading, List *counts, double factor)
{
	ListCell   *cell;

	foreach(cell, counts)
	{
		char	  **values = lfirst(cell);

		for (int i = 0; i < reading->own_count; i++)
		{
			reading->sizes[reading->own[i]].rows += number_of(values[COUNT_ROWS]) * factor / reading->own_count;
			reading->sizes[reading->own[i]].bytes += number_of(values[COUNT_BYTES]) * factor / reading->own_count;
		}
	}
}

/* The bytes of a row: of its header, and of all values as they are stored. */
static char *
row_bytes_sql(Oid relid)
{
	Relation	relation = RelationIdGetRelation(relid);
	TupleDesc	descriptor = RelationGetDescr(relation);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "%d", ROW_HEADER);
	for (int i = 0; i < descriptor->natts; i++)
	{
		if (!TupleDescAttr(descriptor, i)->attisdropped)
			appendStringInfo(&sql, " OPERATOR(pg_catalog.+) coalesce(pg_catalog.pg_column_size(%s), 0)",
							 quote_identifier(NameStr(TupleDescAttr(descriptor, i)->attname)));
	}
	RelationClose(relation);
	return sql.data;
}

static void
read_table(const Reading *reading, const SlTable *table)
{
	char	   *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(table->relid)),
												  get_rel_name(table->relid));
	const char *param = name;
	double		file_bytes = number_of(((char **) linitial(run(reading, size_sql, 1, &param, 1)))[0]);
	double		part = file_bytes > SAMPLED_BYTES ? SAMPLED_BYTES / file_bytes : 1;
	char	   *sample = part < 1 ? psprintf(" TABLESAMPLE SYSTEM (%.6f) REPEATABLE (1)", part * 100) : "";
	bool		is_even = reading->map->kind != SL_KIND_HASH && reading->own_count > MAX_CONDITIONS;
	List	   *columns = NIL;
	char	   *piece = "1";
	ListCell   *cell;
	List	   *counts;

	foreach(cell, sl_table_key_of(table))
		columns = lappend(columns, (void *) quote_identifier(lfirst(cell)));
	if (!is_even)
		piece = reading->map->kind == SL_KIND_HASH ? piece_of_token(reading, columns) : piece_of_key(reading, columns);
	counts = run(reading, psprintf("SELECT %s, pg_catalog.count(*), pg_catalog.sum(%s) FROM %s%s GROUP BY 1", piece,
								   row_bytes_sql(table->relid), name, sample), 0, NULL, COUNT_COLUMNS);
	if (is_even)
		spread_evenly(reading, counts, 1 / part);
	else
		add_counts(reading, counts, 1 / part);
}

static void
read_shard(Reading *reading)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "shardlet sizes", ALLOCSET_DEFAULT_SIZES);
	List	   *tables = sl_table_all();
	ListCell   *cell;

	find_own(reading);
	foreach(cell, tables)
	{
		const SlTable *table = lfirst(cell);
		MemoryContext old_context;

		if (reading->own_count == 0 || table->kind != SL_TABLE_SHARDED || table->is_partition ||
			strcmp(table->map, NameStr(reading->map->name)) != 0)
			continue;
		old_context = MemoryContextSwitchTo(context);
		read_table(reading, table);
		MemoryContextSwitchTo(old_context);
		MemoryContextReset(context);
	}
	MemoryContextDelete(context);
}

/*
 * Reads the sizes of all shardlets of a map.  A shard that cannot be reached is left out
 * with a WARNING and put into "missing": its shardlets have no size.
 */
SlShardletSize *
sl_shardlet_sizes_read(SlMap *map, List *shards, int *count, List **missing)
{
	Reading		reading = {.map = map};
	SlReply    *replies;
	int			reply_count;

	*missing = NIL;
	sl_shardlet_row_scan(map->id, NULL, add_shardlet, &reading);
	if (reading.count > 0)
		qsort(reading.sizes, reading.count, sizeof(SlShardletSize), compare_rows);
	reading.own = palloc_extended(sizeof(int) * Max(reading.count, 1), MCXT_ALLOC_HUGE);
	replies = sl_broadcast_make(shards, true, &reply_count);
	sl_command_open(replies, reply_count);
	for (int i = 0; i < reply_count; i++)
	{
		if (replies[i].failure != NULL)
		{
			*missing = lappend(*missing, replies[i].shard);
			ereport(WARNING,
					errcode(replies[i].failure->sqlstate),
					errmsg("shard \"%s\" is left out", NameStr(replies[i].shard->name)),
					errdetail_internal("%s", replies[i].failure->message));
			continue;
		}
		reading.shard = replies[i].shard;
		reading.conn = replies[i].conn;
		read_shard(&reading);
	}
	*count = reading.count;
	return reading.sizes;
}

/* Load -------------------------------------------------------------------------------------- */

static int
find_id(const SlShardletSize *sizes, int count, int64 id)
{
	for (int i = 0; i < count; i++)
	{
		if (sizes[i].row.id == id)
			return i;
	}
	return -1;
}

/* Adds how many statements each shardlet has had, by the view stat_shardlets. */
void
sl_shardlet_sizes_add_load(SlMap *map, SlShardletSize *sizes, int count)
{
	Oid			types[] = {NAMEOID};
	Datum		params[] = {NameGetDatum(&map->name)};

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute("SELECT pg_catalog.to_regclass('shardlet.stat_shardlets') IS NULL", true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not look for statistics");
	if (SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1)[0] == 't')
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("there are no statistics of shardlets"),
				errhint("Plan by 'size' or 'rows'."));
	if (SPI_execute_with_args("SELECT shardlet, (coalesce(reads, 0) + coalesce(writes, 0))::float8 FROM shardlet.stat_shardlets WHERE map = $1",
							  1, types, params, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read statistics of shardlets");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		const char *id = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);
		int			place = id != NULL ? find_id(sizes, count, strtoll(id, NULL, 10)) : -1;

		if (place >= 0)
			sizes[place].load += number_of(SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 2));
	}
	SPI_finish();
}
