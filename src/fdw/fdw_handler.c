/*
 * fdw_handler.c
 *		Handler and validator of the foreign data wrapper.
 *
 * The wrapper exists for its servers, each of which is a shard, and for their
 * user mappings.  A foreign table that someone made on such a server by hand
 * belongs to no map, so a statement on it is refused when it is planned.
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "foreign/fdwapi.h"
#include "utils/lsyscache.h"

#include "base/base.h"

PG_FUNCTION_INFO_V1(shardlet_wrapper_handler);
PG_FUNCTION_INFO_V1(shardlet_wrapper_validator);

static void
refuse_table(PlannerInfo *root, RelOptInfo *relation, Oid table)
{
	ereport(ERROR,
			errcode(ERRCODE_WRONG_OBJECT_TYPE),
			errmsg("foreign table \"%s\" belongs to no map and no shard", get_rel_name(table)),
			errhint("Tables on servers of this wrapper are made by functions of schema shardlet."));
}

static ForeignScan *
refuse_plan(PlannerInfo *root, RelOptInfo *relation, Oid table, ForeignPath *best_path,
			List *target_list, List *clauses, Plan *outer_plan)
{
	refuse_table(root, relation, table);
	return NULL;
}

Datum
shardlet_wrapper_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	routine->GetForeignRelSize = refuse_table;
	routine->GetForeignPaths = refuse_table;
	routine->GetForeignPlan = refuse_plan;
	PG_RETURN_POINTER(routine);
}

Datum
shardlet_wrapper_validator(PG_FUNCTION_ARGS)
{
	sl_option_validate(untransformRelOptions(PG_GETARG_DATUM(0)), PG_GETARG_OID(1));
	PG_RETURN_VOID();
}
