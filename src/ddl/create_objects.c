/*
 * create_objects.c
 *		Schemas, functions and types that tables need, created on shards.
 *
 * What a table needs is found by the dependencies in PostgreSQL's catalogs: the body of
 * a function that is a string is not looked into.  An object that a shard has already is
 * used as it is, if it is the same, and stays the shard's.  One that differs is an error
 * (SL006), unless the router has created it there (object_list.c).  Members of extensions
 * and objects that cannot be written down as one command have to exist.
 *
 * Security: a function is created by the user of the user mapping, often a superuser of
 * the shard, and then belongs to the role that owns it on the router.  A function that
 * runs as its owner is an error where it cannot belong to that role.  Others run as the
 * user of the user mapping, too: so a user who is not a superuser may have functions
 * created only where the user mapping leads to a user of the same name.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/formatting.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/create_on_shards.h"
#include "ddl/ddl_internal.h"
#include "deparse/deparse.h"
#include "executor/multi_shard.h"

/* The definition that a function has on a shard; empty for an aggregate. */
static const char function_sql[] =
"SELECT CASE WHEN p.prokind <> 'a' THEN pg_catalog.pg_get_functiondef(p.oid) ELSE '' END"
" FROM pg_catalog.pg_proc p WHERE p.oid = pg_catalog.to_regprocedure($1::text)";

static SlRound
make_round(int count)
{
	SlRound		result = {palloc0(sizeof(SlReply) * Max(count, 1)), 0};

	return result;
}

static void
add_to_round(SlRound *round, const SlReply *reply)
{
	round->replies[round->count++] = *reply;
}

/* What shards lack ------------------------------------------------------------------- */

static void
check_extension(SlRound *round, const SlDefinitionItem *item)
{
	SlRound		missing;
	const char *shard;

	sl_round_query_about(round, "SELECT pg_catalog.count(*) > 0 FROM pg_catalog.pg_extension WHERE extname = $1::text",
						 item->name);
	missing = sl_round_without_yes(round);
	if (missing.count == 0)
		return;
	shard = NameStr(missing.replies[0].shard->name);
	ereport(ERROR,
			errcode(ERRCODE_UNDEFINED_OBJECT),
			errmsg("shard \"%s\" lacks extension \"%s\"", shard, item->name),
			errdetail("The table uses objects of that extension."),
			errhint("SELECT shardlet.execute(NULL, '%s');", item->ddl));
}

/* A sequence is the router's: a shard would draw the same values again. */
static void
check_required(SlRound *round, const SlDefinitionItem *item)
{
	const char *params[] = {item->name, item->ddl};
	SlRound		missing;

	if (strcmp(item->ddl, "sequence") == 0)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("sequence %s cannot be used on shards", item->name),
				errdetail("A function, constraint, index, trigger or policy of the table uses it."),
				errhint("Draw values in the default of a column, which the router computes, or with shardlet.next_id()."));
	sl_round_query(round, sl_definition_required_sql, lengthof(params), params);
	missing = sl_round_without_yes(round);
	if (missing.count > 0)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("shard \"%s\" lacks %s %s", NameStr(missing.replies[0].shard->name), item->ddl, item->name),
				errdetail("The table uses it."),
				errhint("SELECT shardlet.execute(NULL, 'CREATE %s %s ...');",
						asc_toupper(item->ddl, strlen(item->ddl)), item->name));
}

void
sl_object_refuse_create(const char *signature, const SlShard *shard)
{
	ereport(ERROR,
			errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("permission denied to create function %s on the shards", signature),
			errdetail("The router connects to shard \"%s\" as a user of another name, whose privileges the function would have.",
					  NameStr(shard->name)),
			errhint("A superuser creates it there: SELECT shardlet.execute(NULL, 'CREATE FUNCTION ...');"));
}

/* Raises an error unless the user may have functions created on the shards. */
static void
check_may_create(SlRound *round, const char *signature)
{
	SlRound		others;

	if (superuser())
		return;
	sl_round_query_about(round, "SELECT CURRENT_USER = $1::text", GetUserNameFromId(GetUserId(), false));
	others = sl_round_without_yes(round);
	if (others.count > 0)
		sl_object_refuse_create(signature, others.replies[0].shard);
}

/*
 * The constraints of a domain would be evaluated by the user of the user mapping.  A type
 * that the router does not have comes from another shard.
 */
static void
check_type(const SlDefinitionItem *item)
{
	Oid			type = superuser() ? InvalidOid : sl_object_find(item->kind, item->name);

	if (OidIsValid(type))
		sl_privilege_check_type(type);
}

pg_noreturn static void
refuse_missing(const SlDefinitionItem *item, const SlShard *shard)
{
	ereport(ERROR,
			errcode(strcmp(item->kind, "type") == 0 ? ERRCODE_UNDEFINED_OBJECT : ERRCODE_UNDEFINED_FUNCTION),
			errmsg("shard \"%s\" lacks %s %s", NameStr(shard->name), item->kind, item->name),
			strcmp(item->kind, "type") == 0 ?
			errdetail("It is no enum, domain, range or composite type of its own.") :
			errdetail("It is an aggregate."),
			errhint("Create the %s on the shards with shardlet.execute() first.", item->kind));
}

pg_noreturn static void
refuse_different(const SlDefinitionItem *item, const SlReply *reply)
{
	if (strcmp(item->kind, "type") == 0)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("type %s differs on shard \"%s\"", item->name, NameStr(reply->shard->name)),
				errdetail("Here: %s\nOn the shard: %s", item->ddl,
						  reply->value[0] != '\0' ? reply->value : "a type of another kind"),
				errhint("Rename or drop the type on the shard."));
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("function %s differs on shard \"%s\"", item->name, NameStr(reply->shard->name)),
			errhint("Make both the same, or give this one another name."));
}

/* Creating ---------------------------------------------------------------------------- */

static bool
is_replaced(const SlDefinition *definition, const SlDefinitionItem *item, const SlReply *reply)
{
	if (strcmp(item->kind, "function") != 0)
		return false;
	if (definition->replaced != NULL && strcmp(definition->replaced, item->name) == 0 &&
		strcmp(definition->replaced_ddl, reply->value) == 0)
		return true;
	return sl_object_list_has(item->kind, item->name, reply->shard->id);
}

/*
 * Returns the shards that lack an object, and those whose function is to be replaced.  An
 * object that others need, too, is listed for this map as well.
 */
static SlRound
find_missing(SlRound *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	static const char schema_sql[] = "SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname = $1::text";
	bool		is_schema = strcmp(item->kind, "schema") == 0;
	SlRound		result = make_round(round->count);

	sl_round_query_about(round, is_schema ? schema_sql : strcmp(item->kind, "type") == 0 ? sl_definition_type_sql :
						 function_sql, item->name);
	for (int i = 0; i < round->count; i++)
	{
		const SlReply *reply = &round->replies[i];
		bool		is_same = reply->value != NULL && (is_schema || item->ddl == NULL || strcmp(item->ddl, reply->value) == 0);

		if (reply->value != NULL && !is_same && !is_replaced(definition, item, reply))
			refuse_different(item, reply);
		if (!is_same)
			add_to_round(&result, reply);
		else if (definition->replaced == NULL && sl_object_list_has(item->kind, item->name, reply->shard->id))
			sl_object_list_add(item->kind, item->name, reply->shard->id, definition->map_id);
	}
	return result;
}

/*
 * Creates an object where it is missing, and returns these shards.  Another
 * session may have created it before this one got the lock.
 */
static SlRound
create_missing(SlRound *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	SlRound		missing = find_missing(round, definition, item);

	if (missing.count == 0)
		return missing;
	if (strcmp(item->kind, "schema") == 0 && strncmp(item->name, "pg_temp_", strlen("pg_temp_")) == 0)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("temporary functions and types cannot be used on shards"),
				errhint("Create the function or type in another schema."));
	if (item->ddl == NULL)
		refuse_missing(item, missing.replies[0].shard);
	if (strcmp(item->kind, "function") == 0)
		check_may_create(&missing, item->name);
	else if (strcmp(item->kind, "type") == 0)
		check_type(item);
	sl_object_list_lock();
	missing = find_missing(&missing, definition, item);
	for (int i = 0; i < missing.count; i++)
	{
		/* A function of the shard that is replaced stays the shard's. */
		if (missing.replies[i].value == NULL)
			sl_object_list_add(item->kind, item->name, missing.replies[i].shard->id, definition->map_id);
	}
	sl_round_run(&missing, item->ddl);
	return missing;
}

/* Owners and privileges of functions ---------------------------------------------------- */

static const char owner_sql[] =
"SELECT CASE WHEN NOT r.rolsuper THEN CASE WHEN CURRENT_USER = $1::text THEN 'self' ELSE 'no' END"
" WHEN EXISTS (SELECT FROM pg_catalog.pg_roles o WHERE o.rolname = $1::text) THEN 'set' ELSE 'missing' END"
" FROM pg_catalog.pg_roles r WHERE r.rolname = CURRENT_USER";

pg_noreturn static void
refuse_definer(const char *signature, const char *owner, const SlShard *shard)
{
	ereport(ERROR,
			errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("cannot create SECURITY DEFINER function %s on shard \"%s\"", signature, NameStr(shard->name)),
			errdetail("It would run with the privileges of the user by whom the router connects, not with those of its owner \"%s\".",
					  owner),
			errhint("ALTER FUNCTION ... SECURITY INVOKER, or let a superuser of the shard create the role and the function there."));
}

/*
 * Lets a function belong to the role that owns it on the router.  For one that runs as
 * its owner the role is created, and it is an error if that is impossible.
 */
static void
set_owner(SlRound *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	bool		is_definer = strcmp(item->kind, "function_definer") == 0;
	SlRound		able = make_round(round->count);

	if (is_definer)
		sl_role_create(round, item->ddl, definition->map_id);
	sl_round_query_about(round, owner_sql, item->ddl);
	for (int i = 0; i < round->count; i++)
	{
		const char *state = round->replies[i].value != NULL ? round->replies[i].value : "no";

		if (strcmp(state, "set") == 0)
			add_to_round(&able, &round->replies[i]);
		else if (is_definer && strcmp(state, "self") != 0)
			refuse_definer(item->name, item->ddl, round->replies[i].shard);
	}
	sl_round_run(&able, psprintf("ALTER ROUTINE %s OWNER TO %s", item->name, quote_identifier(item->ddl)));
}

/* Roles that the shard lacks cannot execute it anyway. */
static void
grant_execute(SlRound *round, const SlDefinitionItem *item)
{
	static const char sql[] = "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1::text)";
	SlRound		able = *round;

	if (item->ddl[0] != '\0')
	{
		sl_round_query_about(&able, sql, item->ddl);
		able = sl_round_without_yes(&able);
	}
	sl_round_run(&able, psprintf("GRANT EXECUTE ON ROUTINE %s TO %s", item->name,
								 item->ddl[0] != '\0' ? quote_identifier(item->ddl) : "PUBLIC"));
}

/* Gives a function that was created or changed its owner and privileges. */
static void
finish_function(SlRound *round, const SlDefinition *definition, const char *signature)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (round->count == 0 || item->phase != SL_PHASE_TYPES || item->ddl == NULL || strcmp(item->name, signature) != 0)
			continue;
		if (strcmp(item->kind, "function_owner") == 0 || strcmp(item->kind, "function_definer") == 0)
			set_owner(round, definition, item);
		else if (strcmp(item->kind, "function_private") == 0)
			sl_round_run(round, psprintf("REVOKE ALL ON ROUTINE %s FROM PUBLIC", signature));
		else if (strcmp(item->kind, "function_grant") == 0)
			grant_execute(round, item);
	}
}

/* Gives the function that a definition is of its owner again, on shards that have it. */
void
sl_object_set_owner(List *shards, const SlDefinition *definition)
{
	SlRound		round;
	ListCell   *cell;

	round.replies = sl_command_begin(shards, true, &round.count);
	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (definition->replaced != NULL && strcmp(item->name, definition->replaced) == 0 &&
			(strcmp(item->kind, "function_owner") == 0 || strcmp(item->kind, "function_definer") == 0))
			set_owner(&round, definition, item);
	}
}

/* Creates on the shards that lack it what an item of the first phases says. */
void
sl_object_create(SlRound *round, const SlDefinition *definition, const SlDefinitionItem *item)
{
	if (strcmp(item->kind, "extension") == 0)
		check_extension(round, item);
	else if (strcmp(item->kind, "required") == 0)
		check_required(round, item);
	else if (strcmp(item->kind, "schema") == 0 || strcmp(item->kind, "type") == 0)
		(void) create_missing(round, definition, item);
	else if (strcmp(item->kind, "function") == 0)
	{
		SlRound		created = create_missing(round, definition, item);

		finish_function(&created, definition, item->name);
	}
}
