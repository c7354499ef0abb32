/*
 * statistics.c
 *		Analyzes distributed tables that have changed, as autovacuum does with others.
 *
 * Autovacuum counts changes of the router's heaps, which are empty, and must not
 * wait for shards.  So a process of this extension makes a pass over each router's
 * database every shardlet.analyze_interval.  It asks the shards how many rows were
 * inserted, updated and deleted in their tables since ever, which PostgreSQL counts
 * there: also those of sessions that are connected to a shard directly, and without
 * cost for statements.  What has come since the last ANALYZE of this process is
 * compared with the threshold that autovacuum would use.
 *
 * The counts at that ANALYZE are in shardlet.catalog_analyzed, one of each shard.  A
 * shard that has crashed begins to count again: fewer than before are all new.
 *
 * The pass asks all shards at the same time and, for each, waits no longer than for
 * a connection and a short query.  A table is left alone while one of its shards
 * is offline or does not answer, so no process waits for a shard that is down.
 * Statements run as the table's owner, with the owner's user mapping.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "postmaster/bgworker.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/base.h"
#include "compat.h"
#include "deparse/deparse.h"
#include "executor/multi_shard.h"
#include "metadata/table.h"
#include "worker/worker.h"

PGDLLEXPORT void shardlet_statistics_main(Datum arg);

/* What one shard may take for the counts, and for its part of a sample. */
#define COUNT_TIMEOUT_MS 10000
#define SAMPLE_TIMEOUT_MS 300000

typedef struct Candidate
{
	Oid			relid;
	Oid			owner;
	char	   *name;			/* qualified */
	double		rows;			/* as ANALYZE has found; negative: it never
								 * was */
	double		threshold;		/* of changes */
	List	   *shards;			/* that have the table */
	int			answers;		/* of these */
	StringInfoData shard_ids;	/* that have answered, as an array */
	StringInfoData counts;		/* of changes since ever, on each of them */
	double		count;			/* on the shard whose answer is read */
	double		size;			/* bytes on all shards */
} Candidate;

static const char count_sql[] =
"SELECT string_agg(concat_ws(' ', number, changes, size), ',') FROM ("
"SELECT number, sum(pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid) + pg_stat_get_tuples_deleted(oid)) AS changes,"
" sum(pg_relation_size(oid)) AS size"
" FROM unnest($1::text[]) WITH ORDINALITY AS t (name, number),"
" LATERAL (SELECT to_regclass(name) UNION SELECT relid FROM pg_partition_tree(to_regclass(name))) AS r (oid)"
" GROUP BY number) AS counts";

/* Candidates -------------------------------------------------------------------- */

/* Reads the settings of a table; false if it is not to be analyzed. */
static bool
read_threshold(Candidate *candidate, Relation relation)
{
	const StdRdOptions *options = relation->rd_rel->relkind == RELKIND_RELATION ?
	(const StdRdOptions *) relation->rd_options : NULL;
	double		base = autovacuum_anl_thresh;
	double		scale = autovacuum_anl_scale;

	candidate->owner = relation->rd_rel->relowner;
	candidate->rows = relation->rd_rel->reltuples;
	if (options != NULL && options->autovacuum.analyze_threshold >= 0)
		base = options->autovacuum.analyze_threshold;
	if (options != NULL && options->autovacuum.analyze_scale_factor >= 0)
		scale = options->autovacuum.analyze_scale_factor;
	candidate->threshold = base + scale * Max(candidate->rows, 0);
	return options == NULL || options->autovacuum.enabled;
}

/* Returns the tables that could be analyzed.  One that is locked is left for the next pass. */
static List *
find_candidates(void)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);
		Oid			relid = table->relid;
		Candidate  *candidate;
		Relation	relation;

		if (!ConditionalLockRelationOid(relid, AccessShareLock))
			continue;
		relation = try_table_open(relid, NoLock);
		if (relation == NULL)
			continue;
		candidate = palloc0(sizeof(Candidate));
		candidate->relid = relid;
		initStringInfo(&candidate->shard_ids);
		initStringInfo(&candidate->counts);
		candidate->name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
													 RelationGetRelationName(relation));
		table = sl_table_get(relid);
		candidate->shards = table != NULL ? list_copy(sl_table_homes(table)) : NIL;
		if (read_threshold(candidate, relation) && candidate->shards != NIL)
			result = lappend(result, candidate);
		table_close(relation, NoLock);
	}
	return result;
}

/* Counts ------------------------------------------------------------------------ */

/* Takes in what a shard has counted: "number changes size", with commas. */
static void
add_counts(const List *tables, const SlShard *shard, const char *answer)
{
	ListCell   *cell;

	foreach(cell, tables)
		((Candidate *) lfirst(cell))->count = 0;
	while (answer != NULL && *answer != '\0')
	{
		char	   *end;
		long		number = strtol(answer, &end, 10);
		double		changes = strtod(end, &end);
		double		size = strtod(end, &end);

		if (number >= 1 && number <= list_length(tables) && changes >= 0 && size >= 0)
		{
			Candidate  *candidate = list_nth(tables, (int) number - 1);

			candidate->count = changes;
			candidate->size += size;
		}
		answer = strchr(answer, ',');
		answer = answer != NULL ? answer + 1 : NULL;
	}
	foreach(cell, tables)
	{
		Candidate  *candidate = lfirst(cell);

		if (!list_member_ptr(candidate->shards, shard))
			continue;
		appendStringInfo(&candidate->shard_ids, "%c%d", candidate->answers > 0 ? ',' : '{', shard->id);
		appendStringInfo(&candidate->counts, "%c%.0f", candidate->answers > 0 ? ',' : '{', candidate->count);
		candidate->answers++;
	}
}

static char *
names_of(const List *tables)
{
	StringInfoData names;
	ListCell   *cell;

	initStringInfo(&names);
	foreach(cell, tables)
	{
		const char *name = ((const Candidate *) lfirst(cell))->name;

		appendStringInfoString(&names, cell == list_head(tables) ? "{\"" : ",\"");
		for (; *name != '\0'; name++)
		{
			if (*name == '"' || *name == '\\')
				appendStringInfoChar(&names, '\\');
			appendStringInfoChar(&names, *name);
		}
		appendStringInfoChar(&names, '"');
	}
	appendStringInfoChar(&names, '}');
	return names.data;
}

/* Queries the shards of the tables of one owner, who is the current user. */
static void
count_changes(const List *tables)
{
	const char *params[] = {names_of(tables)};
	SlTxnUse	use = {.scope = SL_SCOPE_AUTOCOMMIT};
	List	   *shards = NIL;
	SlReply    *replies;
	int			count;
	int			level;
	ListCell   *cell;

	foreach(cell, tables)
		shards = list_concat_unique_ptr(shards, ((const Candidate *) lfirst(cell))->shards);
	replies = sl_broadcast_make(shards, false, &count);
	sl_command_open(replies, count);
	level = sl_deparse_begin_plain();
	sl_command_run(replies, count, count_sql, lengthof(params), params, &use);
	sl_deparse_end_plain(level);
	for (int i = 0; i < count; i++)
	{
		if (replies[i].failure == NULL)
			add_counts(tables, replies[i].shard, replies[i].value);
		else
			ereport(DEBUG1,
					errmsg("could not count changes on shard \"%s\": %s", NameStr(replies[i].shard->name),
						   replies[i].failure->message));
	}
}

static void
count_all(const List *candidates)
{
	List	   *owners = NIL;
	Oid			user;
	int			security;
	ListCell   *cell;

	foreach(cell, candidates)
		owners = list_append_unique_oid(owners, ((const Candidate *) lfirst(cell))->owner);
	GetUserIdAndSecContext(&user, &security);
	foreach(cell, owners)
	{
		List	   *tables = NIL;
		ListCell   *table_cell;

		foreach(table_cell, candidates)
		{
			if (((const Candidate *) lfirst(table_cell))->owner == lfirst_oid(cell))
				tables = lappend(tables, lfirst(table_cell));
		}
		SetUserIdAndSecContext(lfirst_oid(cell), security | SECURITY_LOCAL_USERID_CHANGE);
		count_changes(tables);
		SetUserIdAndSecContext(user, security);
	}
}

/* What was counted before ------------------------------------------------------------ */

/* Runs SQL on the list of counts: $1 is the table, $2 and $3 are what its shards have counted now. */
static void
execute_sql(const char *sql, const Candidate *candidate)
{
	Oid			types[] = {OIDOID, TEXTOID, TEXTOID};
	Datum		values[] = {ObjectIdGetDatum(candidate->relid),
		CStringGetTextDatum(psprintf("%s}", candidate->shard_ids.data)),
	CStringGetTextDatum(psprintf("%s}", candidate->counts.data))};

	if (SPI_execute_with_args(sql, lengthof(types), types, values, NULL, false, 0) < 0)
		elog(ERROR, "could not execute \"%s\"", sql);
}

/* Returns how many changes are new, or -1 if the table was not seen before. */
static double
count_new_changes(const Candidate *candidate)
{
	bool		is_null;
	double		result;

	SPI_connect();
	execute_sql("SELECT coalesce(sum(n.changes - CASE WHEN f.changes <= n.changes THEN f.changes ELSE 0 END)"
				" FILTER (WHERE EXISTS (SELECT FROM shardlet.catalog_analyzed WHERE relid = $1)), -1)"
				" FROM unnest($2::int[], $3::float8[]) n (shard_id, changes)"
				" LEFT JOIN shardlet.catalog_analyzed f ON f.relid = $1 AND f.shard_id = n.shard_id", candidate);
	result = DatumGetFloat8(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null));
	SPI_finish();
	return result;
}

static void
store_counts(const Candidate *candidate)
{
	SPI_connect();
	execute_sql("DELETE FROM shardlet.catalog_analyzed WHERE relid = $1 AND $2 IS NOT NULL AND $3 IS NOT NULL", candidate);
	execute_sql("INSERT INTO shardlet.catalog_analyzed SELECT $1, n.* FROM unnest($2::int[], $3::float8[]) n", candidate);
	SPI_finish();
}

/* Tables that are gone are removed. */
static void
remove_old_counts(void)
{
	SPI_connect();
	if (SPI_execute("DELETE FROM shardlet.catalog_analyzed a WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = a.relid)",
					false, 0) < 0)
		elog(ERROR, "could not remove old counts");
	SPI_finish();
}

/* Has a table changed enough?  One that has not been seen before begins to be counted. */
static bool
needs_analyze(const Candidate *candidate)
{
	double		changes;

	if (candidate->answers < list_length(candidate->shards))
		return false;
	if (candidate->rows < 0)
		return candidate->size > 0;
	changes = count_new_changes(candidate);
	if (changes < 0)
		store_counts(candidate);
	return changes > candidate->threshold;
}

/* The pass --------------------------------------------------------------------------- */

static void
begin_transaction(void)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
commit_transaction(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* Returns the candidates to be analyzed, in the caller's context. */
static List *
choose_tables(void)
{
	MemoryContext context = CurrentMemoryContext;
	List	   *result = NIL;
	List	   *candidates;
	ListCell   *cell;

	begin_transaction();
	sl_shard_timeout = COUNT_TIMEOUT_MS;
	candidates = sl_catalog_is_installed() ? find_candidates() : NIL;
	if (candidates != NIL)
	{
		count_all(candidates);
		remove_old_counts();
	}
	foreach(cell, candidates)
	{
		Candidate  *candidate = lfirst(cell);
		MemoryContext old_context;

		if (!needs_analyze(candidate))
			continue;
		old_context = MemoryContextSwitchTo(context);
		result = lappend(result, memcpy(palloc(sizeof(Candidate)), candidate, sizeof(Candidate)));
		((Candidate *) llast(result))->name = pstrdup(candidate->name);
		((Candidate *) llast(result))->shard_ids.data = pstrdup(candidate->shard_ids.data);
		((Candidate *) llast(result))->counts.data = pstrdup(candidate->counts.data);
		MemoryContextSwitchTo(old_context);
	}
	commit_transaction();
	MemoryContextSwitchTo(context);
	return result;
}

/* Analyzes a table as its owner. */
static void
analyze_as_owner(const Candidate *candidate)
{
	Oid			user;
	int			security;

	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(candidate->owner, security | SECURITY_LOCAL_USERID_CHANGE);
	SPI_connect();
	if (SPI_execute(psprintf("ANALYZE %s", candidate->name), false, 0) < 0)
		elog(ERROR, "could not analyze %s", candidate->name);
	SPI_finish();
	SetUserIdAndSecContext(user, security);
}

/* Analyzes a table in a transaction of its own, unless it is locked.  An error is this table's alone. */
static void
analyze_table(const Candidate *candidate)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		begin_transaction();
		sl_shard_timeout = SAMPLE_TIMEOUT_MS;
		if (ConditionalLockRelationOid(candidate->relid, ShareUpdateExclusiveLock) &&
			get_rel_name(candidate->relid) != NULL)
		{
			analyze_as_owner(candidate);
			store_counts(candidate);
		}
		commit_transaction();
	}
	PG_CATCH();
	{
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
}

/* As autovacuum: what users have set for all sessions must not matter. */
static void
set_own_settings(void)
{
	SetConfigOption("search_path", "", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("statement_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);

	/* On the router: partitions are locked by ANALYZE. */
	SetConfigOption("lock_timeout", "10s", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_read_only", "off", PGC_SUSET, PGC_S_OVERRIDE);
}

void
shardlet_statistics_main(Datum arg)
{
	List	   *tables;
	ListCell   *cell;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
	MemoryContextSwitchTo(AllocSetContextCreate(TopMemoryContext, "shardlet statistics", ALLOCSET_DEFAULT_SIZES));
	set_own_settings();
	tables = choose_tables();
	foreach(cell, tables)
		analyze_table(lfirst(cell));
}
