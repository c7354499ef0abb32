/*
 * table_args.c
 *		What the functions on tables have in common.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "table/table_area.h"

/* Returns the table that an argument names. */
Oid
sl_table_arg(FunctionCallInfo fcinfo, int argument)
{
	Oid			relid;

	if (PG_ARGISNULL(argument))
		ereport(ERROR,
				errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				errmsg("table must not be NULL"));
	relid = PG_GETARG_OID(argument);
	if (get_rel_name(relid) == NULL)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("relation with OID %u does not exist", relid));
	return relid;
}

/* Returns what it is, if it is a table of ours. */
SlTable *
sl_table_arg_ours(Oid relid)
{
	SlTable    *table = sl_table_get(relid);

	if (table == NULL)
		ereport(ERROR,
				errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("table \"%s\" does not live on shards", get_rel_name(relid)),
				errhint("View shardlet.tables lists those that do."));
	return table;
}

/* Runs a command here, and only here: DDL is not carried to the shards. */
void
sl_table_run_local(const char *sql)
{
	int			level = NewGUCNestLevel();

	(void) set_config_option("shardlet.carry_ddl", "off", PGC_SUSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, DEBUG5, false);
	if (SPI_connect() != SPI_OK_CONNECT || SPI_execute(sql, false, 0) < 0)
		elog(ERROR, "could not run: %s", sql);
	SPI_finish();
	AtEOXact_GUC(true, level);
}
