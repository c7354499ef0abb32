/*
 * function_later.c
 *		Functions of a shard that is offline.
 *
 * What the shard has cannot be found out, so what is stored for it finds out when it is
 * executed (replay.c): a DO block creates or replaces a function, unless the shard has
 * another one that is not the router's (SL006, and the shard stays offline).
 *
 * A new function is listed for the shard at once (object_list.c), as created there by
 * the router.  Its statement has a condition that tells whether the shard has got one of
 * that name meanwhile; then it stays the shard's, and is taken off the list.  Until that
 * is known, statements that need to know it are refused, and so are those that give the
 * function another name, under which it would not be found in the list.
 *
 * All of this is checked before any shard gets its part of the statement.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/base.h"
#include "ddl/ddl_internal.h"
#include "ddl/definition.h"
#include "metadata/missed_ddl.h"

#define OWN_FUNCTION "SELECT CASE WHEN pg_catalog.to_regprocedure("

/* Asks whether the shard lacks a function: 't', or the name of the one that it has. */
static char *
own_function_condition(const char *signature)
{
	char	   *literal = quote_literal_cstr(signature);

	return psprintf(OWN_FUNCTION "%s) IS NULL THEN 't' ELSE %s END", literal, literal);
}

/* Does a shard still have to create the function, or any if the signature is NULL? */
static bool
is_pending(const SlShard *shard, const char *signature)
{
	char	   *condition = signature != NULL ? own_function_condition(signature) : NULL;
	ListCell   *cell;

	foreach(cell, sl_missed_ddl_list(shard->id))
	{
		const SlMissedDdl *missed = lfirst(cell);

		if (missed->condition != NULL &&
			(condition != NULL ? strcmp(missed->condition, condition) == 0 :
			 strncmp(missed->condition, OWN_FUNCTION, strlen(OWN_FUNCTION)) == 0))
			return true;
	}
	return false;
}

pg_noreturn static void
refuse_later(const SlShard *shard, const char *detail)
{
	ereport(ERROR,
			errcode(SL_ERR_UNREACHABLE),
			errmsg("shard \"%s\" is offline", NameStr(shard->name)),
			errdetail_internal("%s", detail),
			errhint("shardlet.alter_shard('%s', state => 'online') brings it back.", NameStr(shard->name)));
}

/* Raises an error if a shard still has to create the function, or any if it is NULL. */
void
sl_ddl_refuse_pending(List *shards, const char *signature)
{
	ListCell   *cell;

	foreach(cell, sl_ddl_offline_shards(shards, true))
	{
		const SlShard *shard = lfirst(cell);

		if (is_pending(shard, signature))
			refuse_later(shard, signature != NULL ?
						 psprintf("It has not created function %s yet, and may have its own by that name.", signature) :
						 "It has not created all functions yet, and may have its own by their names.");
	}
}

/* An object that is no function cannot be created later. */
void
sl_ddl_refuse_offline(List *shards, const char *kind, const char *name)
{
	List	   *offline = sl_ddl_offline_shards(shards, true);

	if (offline != NIL)
		refuse_later(linitial(offline), psprintf("The statement needs %s %s there.", kind, name));
}

/* Texts -------------------------------------------------------------------------------- */

/*
 * The beginning of a DO block.  Definitions are compared in the settings in which the
 * router wrote its own; commands are executed in those of the session.
 */
static char *
begin_block(const char *signature, const char *wanted, const char *former, bool is_ours)
{
	static const char template[] = "DECLARE signature pg_catalog.text := %s;"
	" names pg_catalog.text[] := '{search_path,datestyle,intervalstyle,timezone,extra_float_digits,bytea_output,quote_all_identifiers}';"
	" plain pg_catalog.text[] := '{\"pg_catalog, pg_temp\",\"ISO, YMD\",postgres,UTC,3,hex,off}'; saved pg_catalog.text[]; found pg_catalog.text; needed pg_catalog.bool;"
	" wanted pg_catalog.text := %s; former pg_catalog.text := %s;"
	" BEGIN"
	" FOR i IN 1 .. 7 LOOP saved[i] := pg_catalog.current_setting(names[i]); PERFORM pg_catalog.set_config(names[i], plain[i], true); END LOOP;"
	" found := (SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.oid = to_regprocedure(signature));"
	" IF found <> wanted AND found IS DISTINCT FROM former AND NOT %s THEN RAISE EXCEPTION USING ERRCODE = 'SL006', MESSAGE = %s; END IF;"
	" needed := found IS DISTINCT FROM wanted;"
	" FOR i IN 1 .. 7 LOOP PERFORM pg_catalog.set_config(names[i], saved[i], true); END LOOP;";

	return psprintf(template, quote_literal_cstr(signature), quote_literal_cstr(wanted),
					former != NULL ? quote_literal_cstr(former) : "NULL", is_ours ? "true" : "false",
					quote_literal_cstr(psprintf("function %s differs on the shard", signature)));
}

static char *
write_role_test(const char *role)
{
	return psprintf("EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) %s)",
					quote_literal_cstr(role));
}

/* Lets the function belong to its owner, where the user of the connection can do that. */
static char *
write_owner(const char *signature, const char *owner)
{
	return psprintf(" IF EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) CURRENT_USER AND r.rolsuper)"
					" AND %s THEN EXECUTE %s; END IF;", write_role_test(owner),
					quote_literal_cstr(psprintf("ALTER ROUTINE %s OWNER TO %s", signature, quote_identifier(owner))));
}

static char *
write_grant(const char *signature, const char *role)
{
	char	   *grant = psprintf(" EXECUTE %s;",
								 quote_literal_cstr(psprintf("GRANT EXECUTE ON ROUTINE %s TO %s", signature,
															 role[0] != '\0' ? quote_identifier(role) : "PUBLIC")));

	return role[0] != '\0' ? psprintf(" IF %s THEN%s END IF;", write_role_test(role), grant) : grant;
}

/* What gives a new or changed function its owner and privileges. */
static char *
write_privileges(const SlDefinition *definition, const char *signature)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (item->phase != SL_PHASE_TYPES || item->ddl == NULL || strcmp(item->name, signature) != 0)
			continue;
		if (strcmp(item->kind, "function_owner") == 0)
			appendStringInfoString(&sql, write_owner(signature, item->ddl));
		else if (strcmp(item->kind, "function_private") == 0)
			appendStringInfo(&sql, " EXECUTE %s;", quote_literal_cstr(psprintf("REVOKE ALL ON ROUTINE %s FROM PUBLIC", signature)));
		else if (strcmp(item->kind, "function_grant") == 0)
			appendStringInfoString(&sql, write_grant(signature, item->ddl));
	}
	return sql.data;
}

static char *
write_do(const char *body)
{
	return psprintf("DO %s", quote_literal_cstr(body));
}

/* Storing ------------------------------------------------------------------------------- */

static SlDdlStep *
make_step(SlShard *shard, char *sql, char *condition)
{
	SlDdlStep  *step = palloc(sizeof(SlDdlStep));

	step->shards = list_make1(shard);
	step->sql = sql;
	step->condition = condition;
	return step;
}

/* Roles of definers have to exist, which cannot be seen now. */
static void
check_function(const SlDefinition *definition, const SlDefinitionItem *item, const SlShard *shard)
{
	if (item->ddl == NULL)
		refuse_later(shard, psprintf("The statement needs function %s there, which cannot be created.", item->name));
	if (sl_definition_find(definition, "function_definer", item->name) != NULL)
		refuse_later(shard, psprintf("Whether function %s can belong to its owner there cannot be determined.", item->name));
	if (strncmp(item->name, "pg_temp_", strlen("pg_temp_")) == 0)
		refuse_later(shard, "Temporary functions cannot be used on shards.");
	if (!superuser() && strcmp(sl_ddl_remote_role(shard), GetUserNameFromId(GetUserId(), false)) != 0)
		sl_object_refuse_create(item->name, shard);
}

static SlDdlStep *
store_function(const SlDefinition *definition, const SlDefinitionItem *item, const char *schema, SlShard *shard)
{
	bool		is_changed = definition->replaced != NULL && strcmp(definition->replaced, item->name) == 0;
	bool		is_listed = sl_object_list_has("function", item->name, shard->id);
	bool		is_ours = is_listed && !is_pending(shard, item->name);
	StringInfoData body;

	check_function(definition, item, shard);
	initStringInfo(&body);
	appendStringInfo(&body, "%s IF needed THEN", begin_block(item->name, item->ddl, is_changed ? definition->replaced_ddl : NULL, is_ours));
	if (schema != NULL)
		appendStringInfo(&body, " IF pg_catalog.to_regnamespace(%s) IS NULL THEN EXECUTE %s; END IF;",
						 quote_literal_cstr(quote_identifier(schema)),
						 quote_literal_cstr(psprintf("CREATE SCHEMA %s", quote_identifier(schema))));
	appendStringInfo(&body, " EXECUTE wanted;%s END IF; END", write_privileges(definition, item->name));
	if (!is_listed)
		sl_object_list_add("function", item->name, shard->id, definition->map_id);
	return make_step(shard, write_do(body.data), is_listed ? NULL : own_function_condition(item->name));
}

/* Has the shard something already, as far as the router knows? */
static bool
is_known(const SlDefinition *definition, const SlDefinition *before, const SlDefinitionItem *item, const SlShard *shard)
{
	if (definition->replaced != NULL && strcmp(definition->replaced, item->name) == 0 && strcmp(item->kind, "function") == 0)
		return false;
	return sl_object_list_has(item->kind, item->name, shard->id) ||
		(before != NULL && sl_definition_find(before, item->kind, item->name) != NULL);
}

/* Returns the steps for a shard.  Items of kinds that are not listed here belong to functions. */
static List *
store_items(const SlDefinition *definition, const SlDefinition *before, SlShard *shard)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (item->phase < SL_PHASE_NEEDS || item->phase > SL_PHASE_TYPES || is_known(definition, before, item, shard))
			continue;
		if (strcmp(item->kind, "function") == 0)
			result = lappend(result, store_function(definition, item, sl_object_schema_name("function", item->name), shard));
		else if (strcmp(item->kind, "type") == 0 || strcmp(item->kind, "extension") == 0)
			refuse_later(shard, psprintf("The statement needs %s %s there.", item->kind, item->name));
		else if (strcmp(item->kind, "required") == 0)
			refuse_later(shard, psprintf("The statement needs %s %s there.", item->ddl, item->name));
	}
	return result;
}

/*
 * Returns the SlDdlSteps that create later, on those of the shards that are offline, what
 * a definition says; raises an error if that is impossible.  "before" is what the shards
 * are known to have, or NULL.
 */
List *
sl_ddl_store_needs(List *shards, const SlDefinition *definition, const SlDefinition *before)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sl_ddl_offline_shards(shards, true))
		result = list_concat(result, store_items(definition, before, lfirst(cell)));
	return result;
}

/* Adds the step that keeps a shard offline if its function differs. */
void
sl_ddl_check_same_later(SlDdl *ddl, List *shards, const char *signature, const char *definition)
{
	ListCell   *cell;

	sl_ddl_refuse_pending(shards, signature);
	foreach(cell, sl_ddl_offline_shards(shards, true))
	{
		SlShard    *shard = lfirst(cell);

		if (definition != NULL && !sl_object_list_has("function", signature, shard->id))
			sl_ddl_add_step(ddl, list_make1(shard),
							write_do(psprintf("%s END", begin_block(signature, definition, NULL, false))));
	}
}

/* Adds the step that gives a listed function the owner that the router's has. */
void
sl_ddl_set_owner_later(SlDdl *ddl, List *shards, const SlDefinition *definition)
{
	List	   *offline = sl_ddl_offline_shards(shards, true);
	ListCell   *cell;

	if (offline == NIL)
		return;
	sl_ddl_refuse_pending(offline, definition->replaced);
	if (sl_definition_find(definition, "function_definer", definition->replaced) != NULL)
		refuse_later(linitial(offline), psprintf("Whether function %s can belong to its owner there cannot be determined.",
												 definition->replaced));
	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (strcmp(item->kind, "function_owner") == 0 && strcmp(item->name, definition->replaced) == 0)
			sl_ddl_add_step(ddl, offline, write_do(psprintf("BEGIN%s END", write_owner(item->name, item->ddl))));
	}
}
