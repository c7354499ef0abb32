/*
 * new_table_setting.c
 *		The setting shardlet.new_tables: which new tables become sharded ones.
 *
 * It is defined here, with the others, since a setting that is defined after its prefix was
 * reserved loses the value that the configuration file has given it.  What it
 * does is in commands/new_tables.c.
 */
#include "postgres.h"

#include "utils/guc.h"
#include "utils/varlena.h"

#include "base/base.h"

/* The third field, which is optional. */
#define LOCAL_UNIQUE "local_unique"

static char *new_tables;

/*
 * Reads "map:column" or "map:column:local_unique"; names are quoted where necessary.
 * Returns false if it is something else.  The names belong to "value", which changes.
 */
static bool
parse_setting(char *value, SlNewTableSetting *result)
{
	List	   *fields = NIL;
	int			count;

	if (!SplitIdentifierString(value, ':', &fields))
		return false;
	count = list_length(fields);
	memset(result, 0, sizeof(SlNewTableSetting));
	if (count == 0)
		return true;
	if (count < 2 || count > 3 || (count == 3 && strcmp(lthird(fields), LOCAL_UNIQUE) != 0))
		return false;
	result->map = linitial(fields);
	result->column = lsecond(fields);
	result->local_unique = count == 3;
	return true;
}

static bool
check_setting(char **value, void **extra, GucSource source)
{
	SlNewTableSetting setting;

	if (parse_setting(pstrdup(*value), &setting))
		return true;
	GUC_check_errdetail("It is a map and a column: 'map:column', or 'map:column:" LOCAL_UNIQUE "'.");
	return false;
}

/*
 * Reads the setting.  Returns false if it is empty: no new table becomes a sharded
 * one.  The names are in the current memory context.
 */
bool
sl_new_table_setting(SlNewTableSetting *result)
{
	return new_tables[0] != '\0' && parse_setting(pstrdup(new_tables), result) && result->map != NULL;
}

/* The value, for messages. */
const char *
sl_new_table_setting_value(void)
{
	return new_tables;
}

void
sl_new_table_setting_init(void)
{
	DefineCustomStringVariable("shardlet.new_tables",
							   "Map, and column, by which CREATE TABLE makes sharded tables: 'map:column'.", NULL,
							   &new_tables, "", PGC_USERSET, 0, check_setting, NULL, NULL);
}
