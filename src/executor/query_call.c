/*
 * query_call.c
 *		From the arguments of query() and query_key() to a scan.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "executor/multi_shard.h"

#define SHARD_COLUMN "shardlet_shard"

/* The protocol counts them in 16 bits, and one may be added for LIMIT. */
#define MAX_PARAMS 65534

/* Arguments of query(). */
enum
{
	QUERY_MAP, QUERY_SQL, QUERY_PARAMS, QUERY_SHARDS, QUERY_ON_ERROR, QUERY_PER_SHARD
};

/* Arguments of query_key(); the key follows. */
enum
{
	KEY_MAP, KEY_SQL, KEY_PARAMS, KEY_FIRST
};

static char *
get_name(const SlCall *call, int argument, const char *what)
{
	if (call->nulls[argument])
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("%s must not be NULL", what));
	return sl_check_name(call->values[argument], what);
}

static char *
get_sql(const SlCall *call, int argument)
{
	if (call->nulls[argument])
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("query must not be NULL"));
	return TextDatumGetCString(call->values[argument]);
}

static ArrayType *
get_array(const SlCall *call, int argument)
{
	return call->nulls[argument] ? NULL : DatumGetArrayTypeP(call->values[argument]);
}

/* Takes the array of a query's parameters apart.  A NULL array is none. */
void
sl_query_call_params(ArrayType *array, int *count, const char ***params)
{
	Datum	   *values;
	bool	   *nulls;

	*count = 0;
	*params = palloc0(sizeof(char *));
	if (array == NULL)
		return;
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, count);
	if (*count > MAX_PARAMS)
		ereport(ERROR,
				errcode(ERRCODE_TOO_MANY_ARGUMENTS),
				errmsg("too many parameters"),
				errdetail("A query can have %d parameters, and %d are given.", MAX_PARAMS, *count));

	/* One more may be added for LIMIT. */
	*params = palloc0(sizeof(char *) * (*count + 1));
	for (int i = 0; i < *count; i++)
		(*params)[i] = nulls[i] ? NULL : TextDatumGetCString(values[i]);
}

bool
sl_query_call_on_error_skips(const char *on_error)
{
	if (strcmp(on_error, "skip") == 0)
		return true;
	if (strcmp(on_error, "fail") != 0)
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("invalid value for \"on_error\": \"%s\"", on_error),
				errhint("Valid values are \"fail\" and \"skip\"."));
	return false;
}

/* Shards --------------------------------------------------------------------- */

/* The shards that own a shardlet of the map, in the order of their ids. */
static List *
shards_of_map(const SlMap *map)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_map_shard_ids(map->id))
	{
		SlShard    *shard = sl_shard_by_id(lfirst_int(cell));

		if (sl_map_count_shardlets(shard->id, map->id) > 0)
			result = lappend(result, shard);
	}
	return result;
}

/* The named ones, which must all be among those that the query can go to. */
static List *
shards_named(List *all, const SlMap *map, ArrayType *names)
{
	List	   *result = sl_map_listed_shards(names);
	ListCell   *cell;

	foreach(cell, result)
	{
		SlShard    *shard = lfirst(cell);

		if (!list_member_ptr(all, shard))
			ereport(ERROR,
					errcode(SL_ERR_INVALID),
					errmsg("map \"%s\" has nothing on shard \"%s\"",
						   NameStr(map->name), NameStr(shard->name)));
	}
	return result;
}

static List *
choose_shards(const char *map_name, ArrayType *names)
{
	SlMap	   *map = map_name != NULL ? sl_map_get(map_name) : NULL;
	List	   *all = map != NULL ? shards_of_map(map) : sl_shard_all();

	return names != NULL ? shards_named(all, map, names) : all;
}

/*
 * Returns the shards that a query goes to: all of a map, or those of them that
 * are named; without a map, all that there are.  Also which of their rows are
 * orphaned.  Both are of one version of the maps.
 */
List *
sl_query_call_shards(const char *map_name, ArrayType *names, const SlQueryString *query, List **orphaned)
{
	List	   *maps;
	List	   *shards;
	uint64		stamp;

	*orphaned = NIL;
	if (!query->may_read)
		return choose_shards(map_name, names);
	maps = sl_query_orphaned_hold(map_name);
	do
	{
		stamp = sl_query_orphaned_stamp(maps);
		shards = choose_shards(map_name, names);
		*orphaned = sl_query_orphaned_rows(maps, shards);
	} while (sl_query_orphaned_stamp(maps) != stamp);
	if (query->is_write)
		sl_query_orphaned_check_writable(maps, shards);
	return shards;
}

/* The column list -------------------------------------------------------------- */

/* Finds the column that receives the shard's name, or -1. */
static int
find_shard_column(TupleDesc wanted)
{
	for (int i = 0; i < wanted->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(wanted, i);

		if (strcmp(NameStr(attribute->attname), SHARD_COLUMN) != 0)
			continue;
		if (attribute->atttypid != NAMEOID && attribute->atttypid != TEXTOID &&
			attribute->atttypid != VARCHAROID)
			ereport(ERROR,
					errcode(ERRCODE_DATATYPE_MISMATCH),
					errmsg("column \"%s\" must be of type name or text", SHARD_COLUMN));
		return i;
	}
	return -1;
}

/* LIMIT and OFFSET -------------------------------------------------------------- */

/* The value of a LIMIT or OFFSET; false if there is none. */
static bool
limit_value(const SlLimit *limit, const SlMultiShardSpec *spec, const char *what, int64 *value)
{
	if (!limit->is_given)
		return false;
	*value = limit->value;
	if (limit->param > 0)
	{
		if (limit->param > spec->params.count)
			ereport(ERROR,
					errcode(ERRCODE_UNDEFINED_PARAMETER),
					errmsg("there is no parameter $%d", limit->param));
		if (spec->params.values[limit->param - 1] == NULL)
			return false;
		*value = DatumGetInt64(DirectFunctionCall1(int8in,
												   CStringGetDatum(spec->params.values[limit->param - 1])));
	}
	if (*value < 0)
		ereport(ERROR,
				errcode(strcmp(what, "LIMIT") == 0 ? ERRCODE_INVALID_ROW_COUNT_IN_LIMIT_CLAUSE :
						ERRCODE_INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE),
				errmsg("%s must not be negative", what));
	return true;
}

/* Applies LIMIT and OFFSET to all shards together. */
static void
set_limits(SlMultiShardSpec *spec)
{
	SlQueryString *query = spec->query;
	int64		per_shard;

	spec->has_limit = limit_value(&query->limit, spec, "LIMIT", &spec->limit);
	if (!limit_value(&query->offset, spec, "OFFSET", &spec->offset))
		spec->offset = 0;
	if (query->limit_param > 0 && spec->has_limit)
	{
		per_shard = spec->limit > PG_INT64_MAX - spec->offset ? PG_INT64_MAX :
			spec->limit + spec->offset;
		spec->params.values[query->limit_param - 1] = psprintf("%lld", (long long) per_shard);
	}
	spec->params.count = Max(spec->params.count, query->limit_param);

	/*
	 * They are not in the query any more, where a shard could find their
	 * types.
	 */
	spec->params.types = palloc0(sizeof(Oid) * Max(spec->params.count, 1));
	if (query->limit.param > 0 && !query->limit.is_used)
		spec->params.types[query->limit.param - 1] = INT8OID;
	if (query->offset.param > 0 && !query->offset.is_used)
		spec->params.types[query->offset.param - 1] = INT8OID;
}

/* query() and query_key() ---------------------------------------------------- */

/* Fails if the statement has queried shards, and rows of the map were moved since. */
static void
check_not_moved(const SlCall *call, const char *map)
{
	if (call->begun != NULL && sl_orphaned_is_newer(sl_map_get(map), call->begun))
		sl_statement_refuse_moved_rows();
}

/* Says which statement of the router the query belongs to. */
static void
set_statement(SlTxnUse *use, const SlCall *call)
{
	use->statement = use->writes ? 0 : call->statement;
	use->reader = call->reader;
	use->is_of_writer = call->reader != NULL && call->reader->is_kept;
}

/*
 * Chooses the shards and begins the scan; once more if rows were moved while
 * snapshots that agree were waited for (see remote_scan.c).
 */
static SlMultiShardScan *
query_shards(const SlCall *call, const char *map, SlMultiShardSpec *spec)
{
	for (;;)
	{
		uint64		stamp = sl_map_get_now(map)->load;
		SlMultiShardScan *multi;

		spec->shards = sl_query_call_shards(map, get_array(call, QUERY_SHARDS), spec->query, &spec->orphaned);
		check_not_moved(call, map);
		sl_missing_shards_reset();
		sl_missing_shards_check(&spec->shards, spec->use.writes, spec->skip_failures);
		sl_txn_check_span(spec->shards, spec->use.writes);
		set_statement(&spec->use, call);
		spec->may_restart = call->may_restart;
		sl_consistent_choose(spec);
		multi = sl_multi_shard_begin(spec);
		if (spec->use.writes || !sl_consistent_reads || sl_map_get_now(map)->load == stamp)
			return multi;
		sl_multi_shard_end(multi);
	}
}

static SlMultiShardScan *
begin_query(const SlCall *call, TupleDesc wanted)
{
	SlMultiShardSpec spec = {0};
	bool		per_shard = !call->nulls[QUERY_PER_SHARD] &&
	DatumGetBool(call->values[QUERY_PER_SHARD]);
	SlQueryString *query = sl_query_string_parse(get_sql(call, QUERY_SQL));
	const char *map = get_name(call, QUERY_MAP, "map");

	if (call->nulls[QUERY_ON_ERROR])
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("\"on_error\" must not be NULL"));
	spec.skip_failures = sl_query_call_on_error_skips(TextDatumGetCString(call->values[QUERY_ON_ERROR]));
	spec.caller = call->caller;
	spec.wanted = wanted;
	spec.shard_column = find_shard_column(wanted);
	sl_query_call_params(get_array(call, QUERY_PARAMS), &spec.params.count, &spec.params.values);
	if (query->whole != NULL && !per_shard && spec.shard_column < 0)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("results of the shards cannot be merged"),
				errdetail("%s", query->whole),
				errhint("For one result per shard add a column \"%s\" to the column list, or use per_shard => true.",
						SHARD_COLUMN));
	spec.query = query;
	spec.use.writes = query->is_write;
	spec.own_param_count = spec.params.count;
	if (!per_shard && query->whole == NULL)
	{
		sl_query_string_rewrite(query, spec.params.count);
		spec.merge = query->order != NIL;
		set_limits(&spec);
	}
	spec.sql = query->sql;
	if (spec.use.writes)
		PreventCommandIfReadOnly("shardlet.query() of a query that writes");
	spec.use.scope = call->scope;
	spec.use.needs_savepoint = !spec.use.writes || spec.skip_failures;
	return query_shards(call, map, &spec);
}

/* Which shard has the key?  It must be available. */
static SlShard *
route_key(const SlCall *call, const char *map_name, bool is_write)
{
	SlMap	   *map = sl_map_get(map_name);
	SlKeyArgs	args;
	Datum		key[SL_MAX_KEYS];
	const SlShardlet *shardlet;

	sl_key_args_split(call->values + KEY_FIRST, call->nulls + KEY_FIRST, call->types + KEY_FIRST,
					  call->count - KEY_FIRST, call->is_variadic, &args);
	sl_map_coerce_key(map, false, &args, key);
	shardlet = sl_map_lookup(map, key);
	sl_map_check_readable(map, shardlet);
	if (is_write)
		sl_map_check_writable(map, shardlet);
	return shardlet->shard;
}

/* Chooses the shard that has the key, and which of its rows are orphaned. */
static void
choose_shard(const SlCall *call, SlMultiShardSpec *spec)
{
	const char *map = get_name(call, KEY_MAP, "map");
	List	   *maps = sl_query_orphaned_hold(map);
	uint64		stamp;

	do
	{
		stamp = sl_query_orphaned_stamp(maps);
		spec->shards = list_make1(route_key(call, map, spec->use.writes));
		spec->orphaned = sl_query_orphaned_rows(maps, spec->shards);
	} while (sl_query_orphaned_stamp(maps) != stamp);
	check_not_moved(call, map);
}

static SlMultiShardScan *
begin_query_key(const SlCall *call, TupleDesc wanted)
{
	SlMultiShardSpec spec = {0};
	SlQueryString *query = sl_query_string_parse(get_sql(call, KEY_SQL));

	sl_query_call_params(get_array(call, KEY_PARAMS), &spec.params.count, &spec.params.values);
	spec.own_param_count = spec.params.count;
	spec.query = query;
	spec.use.writes = query->is_write;
	spec.sql = query->sql;
	spec.caller = call->caller;
	spec.wanted = wanted;
	spec.shard_column = find_shard_column(wanted);
	if (spec.use.writes)
		PreventCommandIfReadOnly("shardlet.query_key() of a query that writes");
	set_statement(&spec.use, call);
	spec.use.scope = spec.use.writes && call->is_last ? sl_txn_scope_of_write(call->scope) :
		call->scope;
	spec.use.needs_savepoint = !spec.use.writes;
	choose_shard(call, &spec);
	sl_missing_shards_reset();
	return sl_multi_shard_begin(&spec);
}

/* Begins the scan for a call of query() or query_key(). */
SlMultiShardScan *
sl_query_call_begin(const SlCall *call, TupleDesc wanted)
{
	return call->is_key ? begin_query_key(call, wanted) : begin_query(call, wanted);
}
