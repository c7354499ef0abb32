/*
 * create_on_shards.c
 *		Makes a table on shards, phase by phase, in the session's transaction.
 *
 * What a shard may have already is looked up first.  A schema is used as it is,
 * and so is a type of the same definition; another type of that name is an error
 * (SL006).  Extensions and functions are not made: a shard that lacks one is an
 * error that says what to do.  A role that a shard lacks gets no grant there.
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
#include "ddl/definition.h"

/* The shards that a command goes to. */
typedef struct Round
{
	SlReply    *replies;
	int			count;
} Round;

/* Queries all shards; operators and names in the query are PostgreSQL's. */
static void
query_all(Round *round, const char *sql, int count, const char *const *params)
{
	int			level = sl_definition_begin_output();

	sl_command_everywhere(round->replies, round->count, sql, count, params, false);
	AtEOXact_GUC(true, level);
}

static void
query_about(Round *round, const char *sql, const char *name)
{
	query_all(round, sql, 1, &name);
}

static void
run_on_all(Round *round, const char *sql)
{
	sl_command_everywhere(round->replies, round->count, sql, 0, NULL, true);
}

static bool
says_yes(const SlReply *reply)
{
	return reply->value != NULL && reply->value[0] == 't';
}

/* Returns those that said no to the last question, or did not say yes. */
static Round
without_yes(const Round *round)
{
	Round		result = {palloc0(sizeof(SlReply) * Max(round->count, 1)), 0};

	for (int i = 0; i < round->count; i++)
	{
		if (!says_yes(&round->replies[i]))
			result.replies[result.count++] = round->replies[i];
	}
	return result;
}

static void
create_schema(Round *round, const SlDefinitionItem *item)
{
	Round		missing;

	query_about(round, "SELECT pg_catalog.count(*) > 0 FROM pg_catalog.pg_namespace WHERE nspname = $1::text", item->name);
	missing = without_yes(round);
	run_on_all(&missing, item->ddl);
}

static void
check_extension(Round *round, const SlDefinitionItem *item)
{
	Round		missing;
	const char *shard;

	query_about(round, "SELECT pg_catalog.count(*) > 0 FROM pg_catalog.pg_extension WHERE extname = $1::text", item->name);
	missing = without_yes(round);
	if (missing.count == 0)
		return;
	shard = NameStr(missing.replies[0].shard->name);
	ereport(ERROR,
			errcode(ERRCODE_UNDEFINED_OBJECT),
			errmsg("shard \"%s\" lacks extension \"%s\"", shard, item->name),
			errdetail("The table uses objects of that extension."),
			errhint("SELECT shardlet.execute(NULL, '%s');", item->ddl));
}

static void
check_function(Round *round, const SlDefinitionItem *item)
{
	Round		missing;

	query_about(round, "SELECT pg_catalog.to_regprocedure($1::text) IS NOT NULL", item->name);
	missing = without_yes(round);
	if (missing.count == 0)
		return;
	ereport(ERROR,
			errcode(ERRCODE_UNDEFINED_FUNCTION),
			errmsg("shard \"%s\" lacks function %s",
				   NameStr(missing.replies[0].shard->name), item->name),
			errdetail("A trigger, default, constraint or index of the table calls it, and those work on the shards."),
			errhint("Create the function on the shards with shardlet.execute() first."));
}

static void
create_type(Round *round, const SlDefinitionItem *item)
{
	Round		missing = {palloc0(sizeof(SlReply) * Max(round->count, 1)), 0};

	query_about(round, sl_definition_type_sql, item->name);
	for (int i = 0; i < round->count; i++)
	{
		const SlReply *reply = &round->replies[i];

		if (reply->value == NULL)
			missing.replies[missing.count++] = *reply;
		else if (item->ddl != NULL && strcmp(item->ddl, reply->value) != 0)
			ereport(ERROR,
					errcode(SL_ERR_DIFFERENT),
					errmsg("type %s differs on shard \"%s\"",
						   item->name, NameStr(reply->shard->name)),
					errdetail("Here: %s\nOn the shard: %s", item->ddl,
							  reply->value[0] != '\0' ? reply->value : "a type of another kind"),
					errhint("Rename or drop the type on the shard."));
	}
	if (missing.count == 0)
		return;
	if (item->ddl == NULL)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("shard \"%s\" lacks type %s",
					   NameStr(missing.replies[0].shard->name), item->name),
				errdetail("It is no enum, domain, range or composite type of its own."),
				errhint("Create the type on the shards with shardlet.execute() first."));
	run_on_all(&missing, item->ddl);
}

static void
create_table(Round *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	const char *params[] = {definition->schema, item->name};

	query_all(round, "SELECT pg_catalog.count(*) > 0 FROM pg_catalog.pg_class c"
			  " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
			  " WHERE n.nspname = $1::text AND c.relname = $2::text", lengthof(params), params);
	for (int i = 0; i < round->count; i++)
	{
		if (says_yes(&round->replies[i]))
			ereport(ERROR,
					errcode(SL_ERR_EXISTS),
					errmsg("relation \"%s.%s\" already exists on shard \"%s\"",
						   definition->schema, item->name, NameStr(round->replies[i].shard->name)),
					errhint("Drop or rename it there; shardlet.attach() adopts tables that the shards have."));
	}
	run_on_all(round, item->ddl);
}

/* Does the shard have the function next_id()? */
bool
sl_definition_has_next_id(void)
{
	return OidIsValid(sl_catalog_function(SL_SCHEMA, "next_id", 0, NULL));
}

static void
set_id_default(Round *round, const SlDefinitionItem *item)
{
	Round		able = {palloc0(sizeof(SlReply) * Max(round->count, 1)), 0};

	if (!sl_definition_has_next_id())
		return;
	for (int i = 0; i < round->count; i++)
	{
		if (!round->replies[i].shard->bare)
			able.replies[able.count++] = round->replies[i];
	}
	run_on_all(&able, item->ddl);
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
grant_on_shards(Round *round, const SlDefinitionItem *item)
{
	Round		able = {palloc0(sizeof(SlReply) * Max(round->count, 1)), 0};

	query_about(round, strcmp(item->kind, "grant") == 0 ? role_sql : maintain_sql, item->name);
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
	run_on_all(&able, item->ddl);
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
set_owner(Round *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	const char *params[] = {item->name, definition->schema};
	Round		able = {palloc0(sizeof(SlReply) * Max(round->count, 1)), 0};

	query_all(round, owner_sql, lengthof(params), params);
	for (int i = 0; i < round->count; i++)
	{
		if (says_yes(&round->replies[i]))
			able.replies[able.count++] = round->replies[i];
	}
	run_on_all(&able, item->ddl);
}

/* Those of the shards on which a superuser writes, and can do so as a table's owner, or the others. */
static Round
choose_by_owner(const SlReply *replies, int count, bool as_owner)
{
	Round		result = {palloc0(sizeof(SlReply) * Max(count, 1)), 0};

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
	Round		able = choose_by_owner(replies, count, true);

	run_on_all(&able, is_on ? "SELECT shardlet.copy_as_owner(true, true)" : "SELECT shardlet.copy_as_owner(false, true)");
}

/* Rows exist already, and are checked as the table's owner. */
static void
create_check(Round *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	char	   *name = quote_qualified_identifier(definition->schema, definition->name);
	Round		able = choose_by_owner(round->replies, round->count, true);
	Round		others = choose_by_owner(round->replies, round->count, false);

	run_on_all(&able, psprintf("SELECT shardlet.run_as_owner(%s::pg_catalog.regclass, %s)", quote_literal_cstr(name),
							   quote_literal_cstr(item->ddl)));
	run_on_all(&others, item->ddl);
}

/* Without a role that it is for, a policy is left out: no user sees more rows without it. */
static void
create_policy(Round *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	Round		able = *round;
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *role = lfirst(cell);

		if (strcmp(role->kind, "policy_role") != 0 || strcmp(role->name, item->name) != 0)
			continue;
		query_about(&able, "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1::text)", role->ddl);
		for (int i = 0; i < able.count; i++)
		{
			if (says_yes(&able.replies[i]))
				ereport(NOTICE,
						errmsg("role \"%s\" does not exist on shard \"%s\", policy \"%s\" is left out there",
							   role->ddl, NameStr(able.replies[i].shard->name), item->name));
		}
		able = without_yes(&able);
	}
	run_on_all(&able, item->ddl);
}

static void
create_item(Round *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	if (strcmp(item->kind, "schema") == 0)
		create_schema(round, item);
	else if (strcmp(item->kind, "extension") == 0)
		check_extension(round, item);
	else if (strcmp(item->kind, "function") == 0)
		check_function(round, item);
	else if (strcmp(item->kind, "type") == 0)
		create_type(round, item);
	else if (strcmp(item->kind, "table") == 0)
		create_table(round, definition, item);
	else if (strcmp(item->kind, "owner") == 0)
		set_owner(round, definition, item);
	else if (item->phase == SL_PHASE_CHECKS && item->ddl != NULL)
		create_check(round, definition, item);
	else if (strcmp(item->kind, "id_default") == 0)
		set_id_default(round, item);
	else if (strcmp(item->kind, "grant") == 0 || strcmp(item->kind, "grant_maintain") == 0)
		grant_on_shards(round, item);
	else if (strcmp(item->kind, "policy") == 0)
		create_policy(round, definition, item);
	else if (item->ddl != NULL && strcmp(item->kind, "policy_role") != 0)
		run_on_all(round, item->ddl);
}

/*
 * Makes on all these shards what belongs to phases from the first to the last
 * one.  An item without a command was taken out by the caller, or has to exist.
 */
void
sl_definition_create(List *shards, const SlDefinition *definition, SlPhase first, SlPhase last)
{
	Round		round;
	ListCell   *cell;

	round.replies = sl_command_begin(shards, true, &round.count);
	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (item->phase >= Max(first, SL_PHASE_NEEDS) && item->phase <= last)
			create_item(&round, definition, item);
	}
}
