/*
 * table_args.c
 *		What the functions on tables have in common.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "ddl/definition.h"

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

/* Returns the properties of a distributed table; fails if it is not distributed. */
SlTable *
sl_table_arg_distributed(Oid relid)
{
	SlTable    *table = sl_table_get(relid);

	if (table == NULL)
		ereport(ERROR,
				errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("table \"%s\" is not distributed", get_rel_name(relid)),
				errhint("View shardlet.tables lists those that do."));
	if (table->is_partition)
		ereport(ERROR,
				errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("table \"%s\" is a partition of a distributed table", get_rel_name(relid)),
				errhint("Name the partitioned table."));
	return table;
}
