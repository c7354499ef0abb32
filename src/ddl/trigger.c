/*
 * trigger.c
 *		CREATE TRIGGER on shell tables.
 *
 * The trigger is created on the router, where it is shown and never fires, and on the
 * shards, which fire it.  What it needs, such as its function, is created there if it is missing.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/formatting.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "ddl/ddl_internal.h"
#include "deparse/deparse.h"

typedef struct NewTrigger
{
	const SlTable *table;
	const CreateTrigStmt *statement;
} NewTrigger;

/* Returns the definition of the trigger that the router has, names qualified. */
static char *
write_trigger(Oid trigger, bool replaces)
{
	static const char start[] = "CREATE TRIGGER ";
	int			nest_level = sl_deparse_begin_plain();
	char	   *definition = TextDatumGetCString(DirectFunctionCall2(pg_get_triggerdef_ext, ObjectIdGetDatum(trigger),
																	 BoolGetDatum(false)));

	sl_deparse_end_plain(nest_level);
	return replaces && strncmp(definition, start, strlen(start)) == 0 ?
		psprintf("CREATE OR REPLACE TRIGGER %s", definition + strlen(start)) : definition;
}

/* Skips a comment or string that begins here; returns its end, or the argument. */
static const char *
skip_quoted(const char *at)
{
	const char *end = at;

	if (strncmp(at, "--", 2) == 0)
		end = strchr(at, '\n');
	else if (strncmp(at, "/*", 2) == 0)
		end = (end = strstr(at + 2, "*/")) != NULL ? end + 2 : NULL;
	else if (*at == '\'')
		end = (end = strchr(at + 1, '\'')) != NULL ? end + 1 : NULL;
	return end != NULL ? end : at + strlen(at);
}

static bool
is_one_of(const char *word, size_t length, const char *const *words)
{
	for (; *words != NULL; words++)
	{
		if (strlen(*words) == length && strncmp(word, *words, length) == 0)
			return true;
	}
	return false;
}

/* Has a body, in lower case, a FROM or JOIN that names a table, as far as words tell? */
static bool
reads_tables(const char *body)
{
	static const char *const clauses[] = {"from", "join", NULL};
	static const char *const no_clauses[] = {"distinct", "extract", "substring", "trim", "overlay", "both", "leading", "trailing", NULL};
	bool		is_argument[64] = {false};	/* for each depth of parentheses */
	int			depth = 0;
	bool		follows = false;	/* one of no_clauses is the last word */

	while (*body != '\0')
	{
		const char *end = skip_quoted(body);
		size_t		length = strspn(body, "abcdefghijklmnopqrstuvwxyz0123456789_");

		if (end != body)
			body = end;
		else if (length > 0)
		{
			if (is_one_of(body, length, clauses) && !follows && !is_argument[depth])
				return true;
			follows = is_one_of(body, length, no_clauses);
			body += length;
		}
		else
		{
			if (*body == '(' && depth + 1 < (int) lengthof(is_argument))
				is_argument[++depth] = follows;
			else if (*body == ')' && depth > 0)
				depth--;
			body++;
		}
	}
	return false;
}

/* Warns of what a function does that is not the same on a shard. */
static void
warn_of_body(const SlTable *table, Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		is_null;
	Datum		body;
	char	   *source;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	body = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &is_null);
	source = is_null ? pstrdup("") : asc_tolower(TextDatumGetCString(body), strlen(TextDatumGetCString(body)));
	ReleaseSysCache(tuple);
	if (strstr(source, "notify") != NULL)
		ereport(WARNING,
				errmsg("trigger function %s() seems to use NOTIFY", get_func_name(function)),
				errdetail("A shard cannot prepare a transaction that has sent notifications: writes to several shards at a time would fail."));
	if (strstr(source, "nextval") != NULL)
		ereport(WARNING,
				errmsg("trigger function %s() seems to use a sequence", get_func_name(function)),
				errdetail("The triggers of table \"%s\" fire on the shards, which do not have the router's sequences.",
						  get_rel_name(table->relid)));
	if (reads_tables(source))
		ereport(WARNING,
				errmsg("trigger function %s() seems to read tables", get_func_name(function)),
				errdetail("The triggers of table \"%s\" fire on the shards, each of which sees its own rows only.",
						  get_rel_name(table->relid)));
}

static void
finish_trigger(SlDdl *ddl)
{
	const NewTrigger *new = ddl->state;
	Oid			trigger = get_trigger_oid(new->table->relid, new->statement->trigname, false);
	Oid			function = LookupFuncName(new->statement->funcname, 0, NULL, false);

	if (isAnyTempNamespace(get_func_namespace(function)))
		sl_ddl_refuse(new->table, "use a temporary function for a trigger of", "Create the function in another schema.");
	warn_of_body(new->table, function);
	sl_ddl_add_step(ddl, sl_table_homes(new->table), write_trigger(trigger, new->statement->replace));
}

bool
sl_ddl_plan_create_trigger(SlDdl *ddl)
{
	CreateTrigStmt *statement = castNode(CreateTrigStmt, ddl->node);
	SlTable    *table = sl_ddl_table(statement->relation);
	NewTrigger *new;

	if (table == NULL || !sl_ddl_is_remote(table))
		return false;
	sl_ddl_lock(statement->relation, ShareRowExclusiveLock);
	new = palloc(sizeof(NewTrigger));
	new->table = table;
	new->statement = statement;
	ddl->state = new;
	ddl->finish = finish_trigger;
	sl_ddl_watch_needs(ddl, table);
	sl_ddl_add_shards(ddl, sl_table_homes(table));
	sl_ddl_run_on_router(ddl, statement);
	return true;
}
