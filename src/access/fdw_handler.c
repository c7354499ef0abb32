/*
 * fdw_handler.c
 *		Handler and validator of the foreign data wrapper.
 *
 * Its servers are the shards, with user mappings of their own, and the common
 * server of all tables.
 */
#include "postgres.h"

#include "access/reloptions.h"

#include "access/access.h"
#include "access/foreign_modify.h"
#include "base/base.h"
#include "base/hooks.h"

PG_FUNCTION_INFO_V1(shardlet_wrapper_handler);
PG_FUNCTION_INFO_V1(shardlet_wrapper_validator);

Datum
shardlet_wrapper_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	routine->GetForeignRelSize = sl_fdw_rel_size;
	routine->GetForeignPaths = sl_fdw_paths;
	routine->GetForeignJoinPaths = sl_fdw_join_paths;
	routine->GetForeignUpperPaths = sl_fdw_upper_paths;
	routine->GetForeignPlan = sl_fdw_plan;
	routine->BeginForeignScan = sl_fdw_begin_scan;
	routine->IterateForeignScan = sl_fdw_next;
	routine->ReScanForeignScan = sl_fdw_rescan;
	routine->EndForeignScan = sl_fdw_end_scan;
	routine->ExplainForeignScan = sl_fdw_explain_scan;
	routine->PlanDirectModify = sl_fdw_plan_direct;
	routine->BeginDirectModify = sl_fdw_begin_scan;
	routine->IterateDirectModify = sl_fdw_next_direct;
	routine->EndDirectModify = sl_fdw_end_scan;
	routine->ExplainDirectModify = sl_fdw_explain_scan;
	routine->AnalyzeForeignTable = sl_fdw_analyze;
	sl_fdw_add_modify(routine);
	routine->ImportForeignSchema = sl_hooks.import_foreign_schema;
	PG_RETURN_POINTER(routine);
}

Datum
shardlet_wrapper_validator(PG_FUNCTION_ARGS)
{
	sl_option_validate(untransformRelOptions(PG_GETARG_DATUM(0)), PG_GETARG_OID(1));
	PG_RETURN_VOID();
}
