/*
 * misplaced_rows.c
 *		Counts the rows of a table that are on a shard which does not own them.
 *
 * The shards of a hash or range map count for themselves: they get what they own as a
 * condition.  For a list map, and for a user-defined hash function, shards return
 * their keys with the number of rows of each, and the router looks these up.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/base.h"
#include "commands/commands.h"

/* What is looked at. */
typedef struct Search
{
	SlMap	   *map;
	char	   *name;			/* qualified and quoted */
	char	   *columns[SL_MAX_KEYS];	/* quoted */
} Search;

static char *
type_name(Oid type)
{
	return format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

/* Hash: the token is in one of the shard's ranges.  Adjacent ranges become one. */
static char *
owned_tokens(const Search *search, const SlShard *shard)
{
	const SlMap *map = search->map;
	StringInfoData condition;

	initStringInfo(&condition);
	for (int i = 0; i < map->shardlet_count; i++)
	{
		int			last = i;

		if (map->shardlets[i].shard != shard)
			continue;
		while (last + 1 < map->shardlet_count && map->shardlets[last + 1].shard == shard &&
			   map->shardlets[last + 1].low_token - 1 == map->shardlets[last].last_token)
			last++;
		appendStringInfo(&condition, "%st.token BETWEEN '%lld' AND '%lld'", condition.len > 0 ? " OR " : "",
						 (long long) map->shardlets[i].low_token,
						 (long long) map->shardlets[last].last_token);
		i = last;
	}
	return psprintf("SELECT pg_catalog.count(*) FROM (SELECT %s AS token FROM %s) t WHERE (%s) IS NOT TRUE",
					sl_key_token_sql(map->key_oids, map->key_count, (char **) search->columns), search->name,
					condition.len > 0 ? condition.data : "false");
}

static void
add_bound(StringInfo condition, const Search *search, const char *operator, const SlBound *bound)
{
	SlKeyType  *type = &search->map->value_types[0];

	if (bound->unbounded)
		return;
	appendStringInfo(condition, " AND t.key %s %s::%s", operator,
					 quote_literal_cstr(sl_key_to_text(type, bound->value)), type_name(type->type));
}

/* Range: the key is in one of the shard's ranges, in the order that maps use. */
static char *
owned_values(const Search *search, const SlShard *shard)
{
	SlMap	   *map = search->map;
	StringInfoData condition;
	int			level = sl_map_begin_plain_output();

	initStringInfo(&condition);
	for (int i = 0; i < map->shardlet_count; i++)
	{
		if (map->shardlets[i].shard != shard)
			continue;
		appendStringInfo(&condition, "%s(t.key IS NOT NULL", condition.len > 0 ? " OR " : "");
		add_bound(&condition, search, ">=", &map->lows[i]);
		add_bound(&condition, search, "<", &map->highs[i]);
		appendStringInfoChar(&condition, ')');
	}
	sl_map_end_plain_output(level);
	return psprintf("SELECT pg_catalog.count(*) FROM (SELECT %s::%s%s AS key FROM %s) t WHERE (%s) IS NOT TRUE",
					search->columns[0], type_name(map->key_oids[0]),
					OidIsValid(map->value_types[0].order_collation) ? " COLLATE pg_catalog.\"C\"" : "", search->name,
					condition.len > 0 ? condition.data : "false");
}

/* The shard that owns a key, or NULL. */
static const SlShard *
find_owner(SlMap *map, const Datum *key)
{
	Datum		value;
	const Datum *values = key;
	const SlShardlet *shardlet;
	int			index;

	if (map->via != NULL)
	{
		value = sl_via_apply(map->via, map->key_count, key);
		values = &value;
	}
	if (map->kind == SL_KIND_LIST)
	{
		shardlet = sl_map_list_lookup(map, values);
		return shardlet != NULL ? shardlet->shard : NULL;
	}
	index = sl_map_find_value(map, values[0]);
	if (index < 0 || (!map->highs[index].unbounded &&
					  sl_key_compare(&map->value_types[0], values[0], map->highs[index].value) >= 0))
		return NULL;
	return map->shardlets[index].shard;
}

static bool
shard_owns_key(SlMap *map, const SlShard *shard, char **values)
{
	Datum		key[SL_MAX_KEYS] = {0};

	for (int i = 0; i < map->key_count; i++)
	{
		if (values[i] == NULL)
			return false;
		key[i] = sl_key_from_text(&map->key_types[i], values[i]);
	}
	return find_owner(map, key) == shard;
}

static int64
count_keys(const Search *search, const SlShard *shard, SlConn *conn)
{
	SlMap	   *map = search->map;
	StringInfoData sql;
	int64		count = 0;
	ListCell   *cell;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT");
	for (int i = 0; i < map->key_count; i++)
		appendStringInfo(&sql, " %s::text,", search->columns[i]);
	appendStringInfo(&sql, " pg_catalog.count(*) FROM %s GROUP BY", search->name);
	for (int i = 0; i < map->key_count; i++)
		appendStringInfo(&sql, "%s %s", i > 0 ? "," : "", search->columns[i]);
	foreach(cell, sl_remote_rows(conn, sql.data, 0, NULL, map->key_count + 1))
	{
		char	  **values = lfirst(cell);

		if (!shard_owns_key(map, shard, values))
			count += sl_protocol_count(conn, values[map->key_count]);
	}
	return count;
}

/* The only value of the only row is how many there are. */
static int64
query_count(SlConn *conn, const char *sql)
{
	List	   *rows = sl_remote_rows(conn, sql, 0, NULL, 1);

	return sl_protocol_count(conn, rows != NIL ? ((char **) linitial(rows))[0] : NULL);
}

static int64
count_on_shard(const Search *search, const SlShard *shard, SlConn *conn)
{
	const SlMap *map = search->map;
	char	   *sql;

	if (map->kind == SL_KIND_LIST || map->via != NULL)
		return count_keys(search, shard, conn);
	sql = map->kind == SL_KIND_HASH ? owned_tokens(search, shard) : owned_values(search, shard);
	return query_count(conn, sql);
}

/* A spread map has no keys: rows are misplaced if the shard has no shardlet. */
static int64
count_without_queue(const Search *search, const SlShard *shard, SlConn *conn)
{
	if (sl_map_count_shardlets(shard->id, search->map->id) > 0)
		return 0;
	return query_count(conn, psprintf("SELECT pg_catalog.count(*) FROM %s", search->name));
}

static int64
count_of_table(SlMap *map, const SlTable *table, SlReply *reply)
{
	Search		search = {.map = map};
	SlTxnUse	use = {0};
	ListCell   *cell;

	search.name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(table->relid)),
											 get_rel_name(table->relid));
	foreach(cell, sl_table_key_of(table))
		search.columns[foreach_current_index(cell)] = pstrdup(quote_identifier(lfirst(cell)));
	sl_txn_join(reply->conn, &use);
	return map->kind == SL_KIND_SPREAD ? count_without_queue(&search, reply->shard, reply->conn) :
		count_on_shard(&search, reply->shard, reply->conn);
}

/* Counts the rows of all tables of a map that a shard has and does not own. */
int64
sl_misplaced_count(SlMap *map, SlShard *shard)
{
	SlReply    *reply = NULL;
	int64		total = 0;
	int			count;
	int			level = sl_definition_begin_output();
	ListCell   *cell;

	foreach(cell, sl_table_all())
	{
		const SlTable *table = lfirst(cell);

		if (table->kind != SL_TABLE_SHARDED || strcmp(table->map, NameStr(map->name)) != 0)
			continue;
		if (reply == NULL)
			reply = sl_command_begin(list_make1(shard), false, &count);
		total += count_of_table(map, table, reply);
	}
	AtEOXact_GUC(true, level);
	return total;
}

static void
refuse_misplaced(const char *name, int64 total, const char *lines)
{
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg_plural("%lld row of table \"%s\" is on a shard that does not own it",
						  "%lld rows of table \"%s\" are on shards that do not own them",
						  (unsigned long) total, (long long) total, name),
			errdetail_internal("%s", lines),
			errhint("Correct the map or move the rows; verify => false attaches the table all the same, and these rows may be read or not."));
}

/*
 * Refuses a table with rows in wrong places.  The key columns are those that the
 * map has keys for, by their names on the shards.
 */
void
sl_misplaced_check(SlMap *map, const char *schema, const char *name, List *columns,
				   SlReply *replies, int count)
{
	Search		search = {.map = map,.name = quote_qualified_identifier(schema, name)};
	SlTxnUse	use = {0};
	StringInfoData lines;
	int64		total = 0;
	ListCell   *cell;
	int			level;

	if (map->kind == SL_KIND_SPREAD)
		return;
	foreach(cell, columns)
		search.columns[foreach_current_index(cell)] = pstrdup(quote_identifier(lfirst(cell)));
	initStringInfo(&lines);
	level = sl_definition_begin_output();
	for (int i = 0; i < count; i++)
	{
		int64		misplaced;

		sl_txn_join(replies[i].conn, &use);
		misplaced = count_on_shard(&search, replies[i].shard, replies[i].conn);
		if (misplaced == 0)
			continue;
		total += misplaced;
		appendStringInfo(&lines, "%sshard \"%s\": %lld", lines.len > 0 ? "\n" : "",
						 NameStr(replies[i].shard->name), (long long) misplaced);
	}
	AtEOXact_GUC(true, level);
	if (total > 0)
		refuse_misplaced(name, total, lines.data);
}
