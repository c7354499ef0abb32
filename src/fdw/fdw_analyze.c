/*
 * fdw_analyze.c
 *		ANALYZE of a table on shards: a sample of all rows, from all shards.
 *
 * A shard knows about how many rows it has.  Each is asked for so many at random
 * that enough come from all of them together, and of these the sample is taken
 * here.  What is asked for more than once is sampled by the shard itself, block
 * by block being too coarse for small tables.
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

#include "base/base.h"
#include "compat.h"
#include "fdw/fdw.h"

/* So much more than needed is asked for, as it is a matter of chance. */
#define SAMPLE_MARGIN 1.3

typedef struct Sample
{
	HeapTuple  *rows;
	int			target;			/* so many are wanted */
	double		seen;
	double		skip;			/* rows until the next one that is taken; -1:
								 * not known */
	ReservoirStateData state;
} Sample;

static char *
name_of(Relation relation)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
									  RelationGetRelationName(relation));
}

/* Rows of a query that runs on all shards of the table. */
static SlFanout *
ask_shards(const SlTable *table, const char *sql, TupleDesc wanted, SlHome *home)
{
	SlFanoutSpec spec = {0};

	spec.shards = sl_table_owners(table);
	sl_call_check_states(&spec.shards, false, false);
	spec.sql = sql;
	spec.wanted = wanted;
	spec.shard_column = -1;
	spec.use.is_part = true;
	home->transaction = GetCurrentSubTransactionId();
	home->user = GetUserId();
	spec.home = *home;
	return sl_fanout_begin(&spec);
}

/* About how many rows and pages there are, as the shards say. */
static void
count_rows(Relation relation, const SlTable *table, double *rows, double *pages)
{
	SlHome		home = {0};
	TupleDesc	wanted = CreateTemplateTupleDesc(3);
	TupleTableSlot *slot;
	SlFanout   *fanout;
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
	fanout = ask_shards(table, sql, wanted, &home);
	*rows = *pages = 0;
	while (sl_fanout_next(fanout, slot))
	{
		double		shard_pages = slot->tts_isnull[1] ? 0 : DatumGetFloat8(slot->tts_values[1]);

		*pages += shard_pages;

		/* A shard that does not know is asked for all it has. */
		if (slot->tts_isnull[0] || (!slot->tts_isnull[2] && DatumGetFloat8(slot->tts_values[2]) > 0))
			continue;
		*rows += DatumGetFloat8(slot->tts_values[0]);
	}
	sl_fanout_end(fanout);
	ExecDropSingleTupleTableSlot(slot);
}

/* The query for a sample; all rows if there are not many more than needed. */
static char *
sample_sql(Relation relation, double known_rows, int target, List **columns)
{
	TupleDesc	descriptor = RelationGetDescr(relation);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT");
	for (int i = 1; i <= descriptor->natts; i++)
	{
		if (TupleDescAttr(descriptor, i - 1)->attisdropped)
			continue;
		appendStringInfo(&sql, "%s%s", *columns == NIL ? " " : ", ",
						 quote_identifier(NameStr(TupleDescAttr(descriptor, i - 1)->attname)));
		*columns = lappend_int(*columns, i);
	}
	appendStringInfo(&sql, " FROM %s", name_of(relation));
	if (known_rows > SAMPLE_MARGIN * target)
		appendStringInfo(&sql, " TABLESAMPLE BERNOULLI (%.6f)",
						 Min(100.0, 100.0 * SAMPLE_MARGIN * target / known_rows));
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

/* A row in the shape of the table. */
static HeapTuple
make_row(Relation relation, TupleTableSlot *slot, List *columns)
{
	TupleDesc	descriptor = RelationGetDescr(relation);
	Datum	   *values = palloc0(sizeof(Datum) * Max(descriptor->natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(descriptor->natts, 1));
	HeapTuple	tuple;
	ListCell   *cell;

	memset(nulls, true, sizeof(bool) * descriptor->natts);
	foreach(cell, columns)
	{
		values[lfirst_int(cell) - 1] = slot->tts_values[foreach_current_index(cell)];
		nulls[lfirst_int(cell) - 1] = slot->tts_isnull[foreach_current_index(cell)];
	}
	tuple = heap_form_tuple(descriptor, values, nulls);
	pfree(values);
	pfree(nulls);
	return tuple;
}

/* Takes a row into the sample, or not: each has the same chance. */
static void
sample_row(Sample *sample, Relation relation, TupleTableSlot *slot, List *columns)
{
	int			place;

	if (sample->seen < sample->target)
		sample->rows[(int) sample->seen] = make_row(relation, slot, columns);
	else
	{
		if (sample->skip < 0)
			sample->skip = reservoir_get_next_S(&sample->state, sample->seen, sample->target);
		if (sample->skip <= 0)
		{
			place = (int) (sample->target * sampler_random_fract(&sample->state.randstate));
			heap_freetuple(sample->rows[place]);
			sample->rows[place] = make_row(relation, slot, columns);
		}
		sample->skip -= 1;
	}
	sample->seen += 1;
}

static int
acquire_rows(Relation relation, int level, HeapTuple *rows, int target, double *total,
			 double *total_dead)
{
	SlTable    *table = sl_table_get(RelationGetRelid(relation));
	SlHome		home = {0};
	List	   *columns = NIL;
	double		known_rows;
	double		pages;
	Sample		sample = {.rows = rows,.target = target,.skip = -1};
	TupleTableSlot *slot;
	SlFanout   *fanout;
	char	   *sql;

	count_rows(relation, table, &known_rows, &pages);
	sql = sample_sql(relation, known_rows, target, &columns);
	slot = MakeSingleTupleTableSlot(wanted_columns(relation, columns), &TTSOpsVirtual);
	reservoir_init_selection_state(&sample.state, target);
	fanout = ask_shards(table, sql, slot->tts_tupleDescriptor, &home);
	while (sl_fanout_next(fanout, slot))
	{
		sl_vacuum_delay_point();
		sample_row(&sample, relation, slot, columns);
	}
	sl_fanout_end(fanout);
	ExecDropSingleTupleTableSlot(slot);
	*total = known_rows > SAMPLE_MARGIN * target ? known_rows : sample.seen;
	*total_dead = 0;
	ereport(level,
			errmsg("\"%s\": table contains %.0f rows, %d rows in sample",
				   RelationGetRelationName(relation), *total, (int) Min(sample.seen, target)));
	return (int) Min(sample.seen, target);
}

bool
sl_fdw_analyze(Relation relation, AcquireSampleRowsFunc *function, BlockNumber *pages)
{
	SlTable    *table = sl_table_get(RelationGetRelid(relation));
	double		rows;
	double		all_pages;

	if (table == NULL)
		return false;
	count_rows(relation, table, &rows, &all_pages);
	*pages = (BlockNumber) Min(all_pages, (double) MaxBlockNumber);
	*function = acquire_rows;
	return true;
}
