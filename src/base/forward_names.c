/*
 * forward_names.c
 *		The setting shardlet.forward_settings: names of custom settings that the
 *		shards get as well.
 *
 * Only custom settings, with a dot in their names, can be listed: others that matter
 * are kept the same anyway, or have another meaning on a shard.  A superuser
 * chooses them, since the user of a connection may be allowed to change settings of
 * extensions, such as those of an audit log, that the router's user may not.
 */
#include "postgres.h"

#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

#include "base/base.h"

static char *forward_settings;

/* The list that the setting stands for, in TopMemoryContext. */
static List *forward_names = NIL;
static bool is_read = false;

/* Is it a name as SET accepts it for a custom setting: identifiers with dots between? */
static bool
is_custom_name(const char *name)
{
	bool		has_dot = false;
	bool		is_start = true;

	for (; *name != '\0'; name++)
	{
		if (*name == '.')
		{
			if (is_start)
				return false;
			has_dot = is_start = true;
		}
		else if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", *name) != NULL || IS_HIGHBIT_SET(*name))
			is_start = false;
		else if (is_start || strchr("0123456789$", *name) == NULL)
			return false;
	}
	return has_dot && !is_start;
}

static bool
is_listed_before(List *names, int position)
{
	for (int i = 0; i < position; i++)
	{
		if (strcmp(list_nth(names, i), list_nth(names, position)) == 0)
			return true;
	}
	return false;
}

static bool
check_names(List *names)
{
	if (list_length(names) > SL_MAX_FORWARDED)
	{
		GUC_check_errdetail("At most %d settings can be listed.", SL_MAX_FORWARDED);
		return false;
	}
	for (int i = 0; i < list_length(names); i++)
	{
		const char *name = list_nth(names, i);

		if (!is_custom_name(name) || pg_strncasecmp(name, "shardlet.", 9) == 0)
		{
			GUC_check_errdetail("\"%s\" is not the name of a custom setting, such as \"app.tenant\".", name);
			return false;
		}
		if (is_listed_before(names, i))
		{
			GUC_check_errdetail("\"%s\" is listed twice.", name);
			return false;
		}
	}
	return true;
}

static bool
check_setting(char **value, void **extra, GucSource source)
{
	char	   *copy = pstrdup(*value);
	List	   *names = NIL;
	bool		result = SplitIdentifierString(copy, ',', &names);

	if (!result)
		GUC_check_errdetail("List syntax is invalid.");
	result = result && check_names(names);
	list_free(names);
	pfree(copy);
	return result;
}

static void
note_change(const char *value, void *extra)
{
	is_read = false;
}

/* Returns the names of the settings that the shards get as well. */
List *
sl_forward_names(void)
{
	MemoryContext old_context;
	List	   *names = NIL;
	ListCell   *cell;

	if (is_read)
		return forward_names;
	list_free_deep(forward_names);
	forward_names = NIL;
	(void) SplitIdentifierString(pstrdup(forward_settings), ',', &names);
	old_context = MemoryContextSwitchTo(TopMemoryContext);
	foreach(cell, names)
		forward_names = lappend(forward_names, pstrdup(lfirst(cell)));
	MemoryContextSwitchTo(old_context);
	is_read = true;
	return forward_names;
}

/* Defines the setting. */
void
sl_forward_init(void)
{
	DefineCustomStringVariable("shardlet.forward_settings",
							   "Custom settings of the session that the shards get with its statements.", NULL,
							   &forward_settings, "", PGC_SUSET, GUC_LIST_INPUT,
							   check_setting, note_change, NULL);
}
