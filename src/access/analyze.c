/*
 * analyze.c
 *		ANALYZE of a distributed table: a random sample of all rows, from
 *		all shards.
 *
 * A shard knows approximately how many rows it has.  Each one returns a random
 * sample of a size such that there are enough rows from all of them together,
 * and the final sample is taken from these on the router.  A shard samples by
 * row: sampling by block would be too coarse for small tables.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/vacuum.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/sampling.h"

#include "access/access.h"
#include "base/base.h"
#include "compat.h"

/* Oversampling, as the size of a random sample varies. */
#define SAMPLE_MARGIN 1.3

/* Rows of all shards, at random, about as many as wanted or all. */
struct SlSample
{
	Relation	relation;
	int			target;			/* the wanted number of rows */
	double		known_rows;		/* in all shards, approximately */
	double		seen;			/* rows that have come */
	List	   *columns;		/* attribute numbers of the result columns */
	TupleTableSlot *slot;
	SlMultiShardScan *scan;
};

/* The final sample, taken from these. */
typedef struct Reservoir
{
	HeapTuple  *rows;
	double		skip;			/* rows to skip until the next one; -1: not
								 * known */
	ReservoirStateData state;
} Reservoir;

static char *
name_of(Relation relation)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
									  RelationGetRelationName(relation));
}

/* Runs a query on all shards of the table. */
static SlMultiShardScan *
query_shards(const SlTable *table, const char *sql, TupleDesc wanted, SlCaller *caller)
{
	SlMultiShardSpec spec = {0};

	spec.shards = sl_table_owners(table);
	sl_missing_shards_check(&spec.shards, false, false);
	spec.sql = sql;
	spec.wanted = wanted;
	spec.shard_column = -1;
	spec.use.needs_savepoint = true;
	caller->transaction = GetCurrentSubTransactionId();
	caller->user = GetUserId();
	spec.caller = *caller;
	return sl_multi_shard_begin(&spec);
}

/*
 * Returns the approximate numbers of rows and pages, as reported by the
 * shards.
 */
void
sl_sample_count(Relation relation, const SlTable *table, double *rows, double *pages)
{
	SlCaller	caller = {0};
	TupleDesc	wanted = CreateTemplateTupleDesc(3);
	TupleTableSlot *slot;
	SlMultiShardScan *scan;
	char	   *sql = psprintf("SELECT sum(CASE WHEN c.reltuples >= 0 AND c.relpages > 0"
							   " THEN c.reltuples / c.relpages ELSE 0 END * p.pages),"
							   " sum(p.pages)::pg_catalog.float8, bool_or(c.reltuples < 0 AND p.pages > 0)::int4::float8"
							   " FROM (SELECT %s::pg_catalog.regclass UNION SELECT t.relid FROM"
							   " pg_catalog.pg_partition_tree(%s) t) t(relid)"
							   " JOIN pg_catalog.pg_class c ON c.oid = t.relid,"
							   " LATERAL (SELECT pg_catalog.pg_relation_size(c.oid) / %d AS pages) p"
							   " WHERE c.relkind = 'r'", quote_literal_cstr(name_of(relation)),
							   quote_literal_cstr(name_of(relation)), BLCKSZ);

	for (int i = 1; i <= 3; i++)
		TupleDescInitEntry(wanted, (AttrNumber) i, "n", FLOAT8OID, -1, 0);
	slot = MakeSingleTupleTableSlot(wanted, &TTSOpsVirtual);
	scan = query_shards(table, sql, wanted, &caller);
	*rows = *pages = 0;
	while (sl_multi_shard_next(scan, slot))
	{
		double		shard_pages = slot->tts_isnull[1] ? 0 : DatumGetFloat8(slot->tts_values[1]);

		*pages += shard_pages;

		/* A shard without statistics returns all its rows. */
		if (slot->tts_isnull[0] || (!slot->tts_isnull[2] && DatumGetFloat8(slot->tts_values[2]) > 0))
			continue;
		*rows += DatumGetFloat8(slot->tts_values[0]);
	}
	sl_multi_shard_end(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/* Are there many more rows than needed, so that shards return only some? */
static bool
is_partial(const SlSample *sample)
{
	return sample->known_rows > SAMPLE_MARGIN * sample->target;
}

/*
 * Makes the query for a sample; for all rows if there are not many more than
 * needed.
 */
static char *
make_sample_sql(SlSample *sample)
{
	TupleDesc	descriptor = RelationGetDescr(sample->relation);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT");
	for (int i = 1; i <= descriptor->natts; i++)
	{
		if (TupleDescAttr(descriptor, i - 1)->attisdropped)
			continue;
		appendStringInfo(&sql, "%s%s", sample->columns == NIL ? " " : ", ",
						 quote_identifier(NameStr(TupleDescAttr(descriptor, i - 1)->attname)));
		sample->columns = lappend_int(sample->columns, i);
	}
	appendStringInfo(&sql, " FROM %s", name_of(sample->relation));
	if (is_partial(sample))
		appendStringInfo(&sql, " TABLESAMPLE BERNOULLI (%.6f)",
						 Min(100.0, 100.0 * SAMPLE_MARGIN * sample->target / sample->known_rows));
	return sql.data;
}

static TupleDesc
wanted_columns(Relation relation, List *columns)
{
	TupleDesc	wanted = CreateTemplateTupleDesc(list_length(columns));
	ListCell   *cell;

	foreach(cell, columns)
		TupleDescCopyEntry(wanted, (AttrNumber) (foreach_current_index(cell) + 1),
						   RelationGetDescr(relation), (AttrNumber) lfirst_int(cell));
	return wanted;
}

/*
 * Begins to fetch a sample of about "target" rows, or of all rows if there are not
 * many more.  The sample is in the current memory context.
 */
SlSample *
sl_sample_begin(Relation relation, const SlTable *table, double known_rows, int target)
{
	SlSample   *sample = palloc0(sizeof(SlSample));
	SlCaller	caller = {0};
	char	   *sql;

	sample->relation = relation;
	sample->target = target;
	sample->known_rows = known_rows;
	sql = make_sample_sql(sample);
	sample->slot = MakeSingleTupleTableSlot(wanted_columns(relation, sample->columns), &TTSOpsVirtual);
	sample->scan = query_shards(table, sql, sample->slot->tts_tupleDescriptor, &caller);
	return sample;
}

/* Fetches the next row.  Returns false if there is none. */
bool
sl_sample_next(SlSample *sample)
{
	if (!sl_multi_shard_next(sample->scan, sample->slot))
		return false;
	sl_vacuum_delay_point();
	sample->seen += 1;
	return true;
}

/* Makes a tuple of the table from the row that was fetched. */
HeapTuple
sl_sample_make_tuple(const SlSample *sample)
{
	TupleDesc	descriptor = RelationGetDescr(sample->relation);
	Datum	   *values = palloc0(sizeof(Datum) * Max(descriptor->natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(descriptor->natts, 1));
	HeapTuple	tuple;
	ListCell   *cell;

	memset(nulls, true, sizeof(bool) * descriptor->natts);
	foreach(cell, sample->columns)
	{
		values[lfirst_int(cell) - 1] = sample->slot->tts_values[foreach_current_index(cell)];
		nulls[lfirst_int(cell) - 1] = sample->slot->tts_isnull[foreach_current_index(cell)];
	}
	tuple = heap_form_tuple(descriptor, values, nulls);
	pfree(values);
	pfree(nulls);
	return tuple;
}

/* Ends the sample, and returns the number of rows that the table has. */
double
sl_sample_end(SlSample *sample)
{
	sl_multi_shard_end(sample->scan);
	ExecDropSingleTupleTableSlot(sample->slot);
	return is_partial(sample) ? sample->known_rows : sample->seen;
}

/* Reservoir sampling: takes the row that was fetched into the sample, or not. */
static void
choose_row(Reservoir *reservoir, const SlSample *sample)
{
	double		before = sample->seen - 1;
	int			place;

	if (before < sample->target)
	{
		reservoir->rows[(int) before] = sl_sample_make_tuple(sample);
		return;
	}
	if (reservoir->skip < 0)
		reservoir->skip = reservoir_get_next_S(&reservoir->state, before, sample->target);
	if (reservoir->skip <= 0)
	{
		place = (int) (sample->target * sampler_random_fract(&reservoir->state.randstate));
		heap_freetuple(reservoir->rows[place]);
		reservoir->rows[place] = sl_sample_make_tuple(sample);
	}
	reservoir->skip -= 1;
}

static int
acquire_rows(Relation relation, int level, HeapTuple *rows, int target, double *total,
			 double *total_dead)
{
	SlTable    *table = sl_table_get(RelationGetRelid(relation));
	Reservoir	reservoir = {.rows = rows,.skip = -1};
	double		known_rows;
	double		pages;
	SlSample   *sample;
	int			count;

	sl_sample_count(relation, table, &known_rows, &pages);
	reservoir_init_selection_state(&reservoir.state, target);
	sample = sl_sample_begin(relation, table, known_rows, target);
	while (sl_sample_next(sample))
		choose_row(&reservoir, sample);
	count = (int) Min(sample->seen, target);
	*total = sl_sample_end(sample);
	*total_dead = 0;
	ereport(level,
			errmsg("\"%s\": table contains %.0f rows, %d rows in sample",
				   RelationGetRelationName(relation), *total, count));
	return count;
}

bool
sl_fdw_analyze(Relation relation, AcquireSampleRowsFunc *function, BlockNumber *pages)
{
	SlTable    *table = sl_table_get(RelationGetRelid(relation));
	double		rows;
	double		all_pages;

	if (table == NULL)
		return false;
	sl_sample_count(relation, table, &rows, &all_pages);
	*pages = (BlockNumber) Min(all_pages, (double) MaxBlockNumber);
	*function = acquire_rows;
	return true;
}
