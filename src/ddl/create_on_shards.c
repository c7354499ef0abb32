/*
 * create_on_shards.c
 *		Makes a table on shards, phase by phase, in the session's transaction.
 *
 * What the table needs comes first (create_objects.c).  A role that a shard lacks is
 * created there (create_role.c); if it cannot be, it gets no grant there.
 *
 * Serial and identity columns: values come from the router's sequence.  A shard
 * that has the extension gets next_id() as the default of such a column, if it
 * is bigint, so that rows which applications insert there directly never clash
 * with the router's; other shards get none.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "base/base.h"
#include "ddl/create_on_shards.h"
#include "ddl/definition.h"

/* Queries all shards; operators and names in the query are PostgreSQL's. */
void
sl_round_query(SlRound *round, const char *sql, int count, const char *const *params)
{
	int			level = sl_definition_begin_output();

	sl_command_everywhere(round->replies, round->count, sql, count, params, false);
	AtEOXact_GUC(true, level);
}

void
sl_round_query_about(SlRound *round, const char *sql, const char *name)
{
	sl_round_query(round, sql, 1, &name);
}

void
sl_round_run(SlRound *round, const char *sql)
{
	sl_command_everywhere(round->replies, round->count, sql, 0, NULL, true);
}

bool
sl_round_says_yes(const SlReply *reply)
{
	return reply->value != NULL && reply->value[0] == 't';
}

/* Returns those that said no to the last question, or did not say yes. */
SlRound
sl_round_without_yes(const SlRound *round)
{
	SlRound		result = {palloc0(sizeof(SlReply) * Max(round->count, 1)), 0};

	for (int i = 0; i < round->count; i++)
	{
		if (!sl_round_says_yes(&round->replies[i]))
			result.replies[result.count++] = round->replies[i];
	}
	return result;
}

static void
create_table(SlRound *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	const char *params[] = {definition->schema, item->name};

	sl_round_query(round, "SELECT pg_catalog.count(*) > 0 FROM pg_catalog.pg_class c"
				   " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
				   " WHERE n.nspname = $1::text AND c.relname = $2::text", lengthof(params), params);
	for (int i = 0; i < round->count; i++)
	{
		if (sl_round_says_yes(&round->replies[i]))
			ereport(ERROR,
					errcode(SL_ERR_EXISTS),
					errmsg("relation \"%s.%s\" already exists on shard \"%s\"",
						   definition->schema, item->name, NameStr(round->replies[i].shard->name)),
					errhint("Drop or rename it there; shardlet.attach() adopts tables that the shards have."));
	}
	sl_round_run(round, item->ddl);
}

/* Does the shard have the function next_id()? */
bool
sl_definition_has_next_id(void)
{
	return OidIsValid(sl_catalog_function(SL_SCHEMA, "next_id", 0, NULL));
}

static void
set_id_default(SlRound *round, const SlDefinitionItem *item)
{
	SlRound		able = {palloc0(sizeof(SlReply) * Max(round->count, 1)), 0};

	if (!sl_definition_has_next_id())
		return;
	for (int i = 0; i < round->count; i++)
	{
		if (!round->replies[i].shard->bare)
			able.replies[able.count++] = round->replies[i];
	}
	sl_round_run(&able, item->ddl);
}

/*
 * The answer to whether a role can be granted to.  Versions before 17 do not have the
 * privilege MAINTAIN, which is left out there.
 */
#define ROLE_SQL \
	" WHEN $1::text = '' THEN 'yes'" \
	" WHEN $1::text = CURRENT_USER THEN 'self'" \
	" WHEN EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1::text) THEN 'yes'" \
	" ELSE 'no' END"

static const char role_sql[] = "SELECT CASE" ROLE_SQL;
static const char maintain_sql[] =
"SELECT CASE WHEN pg_catalog.current_setting('server_version_num')::int < 170000 THEN 'never'" ROLE_SQL;

static void
grant_on_shards(SlRound *round, const SlDefinitionItem *item, int32 map_id)
{
	SlRound		able = {palloc0(sizeof(SlReply) * Max(round->count, 1)), 0};

	if (strcmp(item->kind, "grant_owner") != 0)
		sl_role_create(round, item->name, map_id);
	sl_round_query_about(round, strcmp(item->kind, "grant_maintain") == 0 ? maintain_sql : role_sql, item->name);
	for (int i = 0; i < round->count; i++)
	{
		const SlReply *reply = &round->replies[i];

		if (reply->value != NULL && strcmp(reply->value, "yes") == 0)
			able.replies[able.count++] = *reply;
		else if (reply->value != NULL && strcmp(reply->value, "no") == 0)
			ereport(NOTICE,
					errmsg("role \"%s\" does not exist on shard \"%s\", its privileges are left out there",
						   item->name, NameStr(reply->shard->name)));
	}
	sl_round_run(&able, item->ddl);
}

/*
 * A table that a superuser makes belongs to the role that owns the other one, if the shard
 * has that role and it can use the schema: what the table runs for its rows is run as
 * its owner.
 */
static const char owner_sql[] =
"SELECT pg_catalog.current_setting('is_superuser') = 'on' AND $1::text <> CURRENT_USER AND EXISTS ("
"SELECT FROM pg_catalog.pg_roles r, pg_catalog.pg_namespace n WHERE r.rolname = $1::text AND n.nspname = $2::text"
" AND pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE'))";

static void
set_owner(SlRound *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	const char *params[] = {item->name, definition->schema};
	SlRound		able = {palloc0(sizeof(SlReply) * Max(round->count, 1)), 0};

	sl_round_query(round, owner_sql, lengthof(params), params);
	for (int i = 0; i < round->count; i++)
	{
		if (sl_round_says_yes(&round->replies[i]))
			able.replies[able.count++] = round->replies[i];
	}
	sl_round_run(&able, item->ddl);
}

/* Those of the shards on which a superuser writes, and can do so as a table's owner, or the others. */
static SlRound
choose_by_owner(const SlReply *replies, int count, bool as_owner)
{
	SlRound		result = {palloc0(sizeof(SlReply) * Max(count, 1)), 0};

	for (int i = 0; i < count; i++)
	{
		const SlConn *conn = replies[i].conn;
		const char *is_superuser = PQparameterStatus(conn->pg, "is_superuser");

		if ((!conn->is_bare && is_superuser != NULL && strcmp(is_superuser, "on") == 0) == as_owner)
			result.replies[result.count++] = replies[i];
	}
	return result;
}

/*
 * For the rest of the transaction, or not any more, rows come to these shards as if the
 * tables' owners had copied them.
 */
void
sl_definition_copy_as_owner(List *shards, bool is_on)
{
	int			count;
	SlReply    *replies = sl_command_begin(shards, true, &count);
	SlRound		able = choose_by_owner(replies, count, true);

	sl_round_run(&able, is_on ? "SELECT shardlet.copy_as_owner(true, true)" : "SELECT shardlet.copy_as_owner(false, true)");
}

/* Rows exist already, and are checked as the table's owner. */
static void
create_check(SlRound *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	char	   *name = quote_qualified_identifier(definition->schema, definition->name);
	SlRound		able = choose_by_owner(round->replies, round->count, true);
	SlRound		others = choose_by_owner(round->replies, round->count, false);

	sl_round_run(&able, psprintf("SELECT shardlet.run_as_owner(%s::pg_catalog.regclass, %s)", quote_literal_cstr(name),
								 quote_literal_cstr(item->ddl)));
	sl_round_run(&others, item->ddl);
}

/* Without a role that it is for, a policy is left out: no user sees more rows without it. */
static void
create_policy(SlRound *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	SlRound		able = *round;
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *role = lfirst(cell);

		if (strcmp(role->kind, "policy_role") != 0 || strcmp(role->name, item->name) != 0)
			continue;
		sl_role_create(&able, role->ddl, definition->map_id);
		sl_round_query_about(&able, "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1::text)", role->ddl);
		for (int i = 0; i < able.count; i++)
		{
			if (sl_round_says_yes(&able.replies[i]))
				ereport(NOTICE,
						errmsg("role \"%s\" does not exist on shard \"%s\", policy \"%s\" is left out there",
							   role->ddl, NameStr(able.replies[i].shard->name), item->name));
		}
		able = sl_round_without_yes(&able);
	}
	sl_round_run(&able, item->ddl);
}

static void
create_item(SlRound *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	if (item->phase <= SL_PHASE_TYPES)
		sl_object_create(round, definition, item);
	else if (strcmp(item->kind, "table") == 0)
		create_table(round, definition, item);
	else if (strcmp(item->kind, "owner") == 0)
		set_owner(round, definition, item);
	else if (item->phase == SL_PHASE_CHECKS && item->ddl != NULL)
		create_check(round, definition, item);
	else if (strcmp(item->kind, "id_default") == 0)
		set_id_default(round, item);
	else if (strncmp(item->kind, "grant", strlen("grant")) == 0)
		grant_on_shards(round, item, definition->map_id);
	else if (strcmp(item->kind, "policy") == 0)
		create_policy(round, definition, item);
	else if (item->ddl != NULL && strcmp(item->kind, "policy_role") != 0)
		sl_round_run(round, item->ddl);
}

/*
 * Makes on all these shards what belongs to phases from the first to the last
 * one.  An item without a command was taken out by the caller, or has to exist.
 */
void
sl_definition_create(List *shards, const SlDefinition *definition, SlPhase first, SlPhase last)
{
	SlRound		round;
	ListCell   *cell;

	round.replies = sl_command_begin(shards, true, &round.count);
	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (item->phase >= Max(first, SL_PHASE_NEEDS) && item->phase <= last)
			create_item(&round, definition, item);
	}
}
