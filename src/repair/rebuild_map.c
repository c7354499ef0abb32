/*
 * rebuild_map.c
 *		rebuild_map(): maps of the router from what the shards know.
 *
 * For a router that is lost, or was restored from an older backup.  Each shard says
 * what it owns: together that is the map, with the ids, versions, states and pins that
 * it had.  It is refused where two shards claim a range, and where a range has no owner
 * although some shard knows of one: that owner is not registered yet, or has lost it.
 *
 * The shards keep what they know; only the router that they have it from changes.  Tables
 * are found by their guards and attached.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "base/base.h"
#include "executor/multi_shard.h"
#include "move/move.h"
#include "repair/rebuild.h"
#include "transaction/transaction.h"

PG_FUNCTION_INFO_V1(shardlet_rebuild_map);

enum
{
	REBUILD_MAP, REBUILD_ACTION, REBUILD_SHARDLET, REBUILD_LOW, REBUILD_HIGH, REBUILD_SHARD,
	REBUILD_PROBLEM, REBUILD_COLUMNS
};

/* Writing the map ------------------------------------------------------------------- */

/* Makes sure that new ids are above those that are used. */
static void
pass_id(SlCatalog sequence, int64 id)
{
	while (sl_catalog_next_id(sequence) < id)
		CHECK_FOR_INTERRUPTS();
}

static bool
is_claimed_by(const SlRebuild *rebuild, int64 shardlet, int32 shard_id)
{
	ListCell   *cell;

	foreach(cell, rebuild->claims)
	{
		const SlKnownShardlet *claim = lfirst(cell);

		if (claim->row.id == shardlet && claim->shard->id == shard_id)
			return true;
	}
	return false;
}

/*
 * The router may have been in a move when it was saved.  If the target owns the shardlet
 * by now it is over; otherwise what was copied is removed.
 */
static void
end_moves(const SlRebuild *rebuild)
{
	ListCell   *cell;

	foreach(cell, sl_move_list_open())
	{
		SlMove	   *move = lfirst(cell);

		if (move->map_id != rebuild->row.id || sl_move_is_past_undo(move))
			continue;
		sl_move_lock(move->id);
		if (!sl_move_read(move->id, move))
			continue;
		move->last_error = pstrdup("the map was rebuilt");
		if (move->phase == SL_MOVE_PHASE_QUEUED || is_claimed_by(rebuild, move->shardlet, move->to_shard))
		{
			move->is_open = false;
			move->phase = SL_MOVE_PHASE_FAILED;
			sl_orphaned_delete(rebuild->row.id, move->id);
		}
		else
			move->phase = SL_MOVE_PHASE_UNDO_REMOVE;
		sl_move_update(move);
	}
}

/* Opens the map for a change, a new one if the router has none; without shardlets. */
static void
open_map(SlRebuild *rebuild)
{
	SlMapRow	row = rebuild->row;
	ListCell   *cell;

	if (rebuild->exists)
	{
		(void) sl_map_open_for_change(NameStr(rebuild->row.name));
		end_moves(rebuild);
		foreach(cell, sl_repair_read_router(&rebuild->row))
			sl_shardlet_row_delete(&((SlKnownShardlet *) lfirst(cell))->row);
		return;
	}
	sl_map_lock_names();
	pass_id(SL_MAP_SEQUENCE, rebuild->row.id);

	/* The version comes last: by it caches know that they are old. */
	row.version = 0;
	sl_map_row_insert(&row);
	(void) sl_map_open_for_change(NameStr(rebuild->row.name));
}

/* The shards that know the map are its shards; the others are not, unless they cannot say. */
static void
write_shards(const SlRebuild *rebuild)
{
	int32		map_id = rebuild->row.id;
	List	   *present = sl_map_shard_ids(map_id);
	List	   *found = NIL;
	ListCell   *cell;

	foreach(cell, rebuild->maps)
	{
		const SlKnownMap *known = lfirst(cell);

		found = lappend_int(found, known->shard->id);
		if (!list_member_int(present, known->shard->id))
			sl_map_shard_insert(map_id, known->shard->id);
		sl_map_shard_set_version(map_id, known->shard->id, known->row.version);
		if (known->router == NULL || strcmp(known->router, sl_router_get()->id) != 0)
			sl_publish_adopt(known->shard, NameStr(rebuild->row.name), known->router ? known->router : "");
	}
	foreach(cell, present)
	{
		SlShard    *shard = sl_shard_by_id(lfirst_int(cell));

		if (!list_member_int(found, shard->id) && !sl_rebuild_is_silent(shard))
			sl_map_shard_delete(map_id, shard->id);
	}
}

static void
write_map(SlRebuild *rebuild)
{
	int64		last_id = 0;
	ListCell   *cell;

	open_map(rebuild);
	foreach(cell, rebuild->claims)
	{
		SlShardletRow row = ((SlKnownShardlet *) lfirst(cell))->row;

		row.map_id = rebuild->row.id;
		last_id = Max(last_id, row.id);
		sl_shardlet_row_insert(&row, 1);
	}
	pass_id(SL_SHARDLET_SEQUENCE, last_id);
	write_shards(rebuild);
	sl_map_finish_rebuild(&rebuild->row);
}

/* Tables ----------------------------------------------------------------------------- */

/* Runs a command of this file, with text parameters. */
static void
run_sql(const char *sql, int count, const char *const *params)
{
	Datum		values[3] = {0};
	char		nulls[3] = {0};
	Oid			types[3] = {0};

	for (int i = 0; i < count; i++)
	{
		types[i] = TEXTOID;
		nulls[i] = params[i] == NULL ? 'n' : ' ';
		values[i] = params[i] != NULL ? CStringGetTextDatum(params[i]) : (Datum) 0;
	}
	if (SPI_execute_with_args(sql, count, types, values, nulls, false, 0) < 0)
		elog(ERROR, "could not run \"%s\"", sql);
}

static void
attach_table(const SlGuardedTable *table)
{
	const char *params[] = {table->name, table->map, table->key};

	run_sql(psprintf("CREATE SCHEMA IF NOT EXISTS %s", quote_identifier(table->schema)), 0, NULL);
	if (table->map == NULL)
		run_sql("SELECT shardlet.attach($1)", 1, params);
	else
		run_sql("SELECT shardlet.attach($1, $2::pg_catalog.name, $3)", 3, params);
}

/* Attaches the tables, reference tables first: others refer to them. */
static void
attach_tables(List *tables)
{
	int			nest_level = NewGUCNestLevel();
	ListCell   *cell;

	(void) set_config_option("shardlet.carry_ddl", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
	foreach(cell, tables)
	{
		if (((SlGuardedTable *) lfirst(cell))->map == NULL)
			attach_table(lfirst(cell));
	}
	foreach(cell, tables)
	{
		if (((SlGuardedTable *) lfirst(cell))->map != NULL)
			attach_table(lfirst(cell));
	}
	SPI_finish();
	AtEOXact_GUC(true, nest_level);
}

/* The function ------------------------------------------------------------------------ */

static void
put_text(Datum *values, bool *nulls, int column, const char *value)
{
	nulls[column] = value == NULL;
	values[column] = value != NULL ? CStringGetTextDatum(value) : (Datum) 0;
}

static void
put_name(Datum *values, bool *nulls, int column, const char *value)
{
	nulls[column] = value == NULL;
	values[column] = value != NULL ? DirectFunctionCall1(namein, CStringGetDatum(value)) : (Datum) 0;
}

static void
put_action(ReturnSetInfo *result, const SlRebuildAction *action)
{
	Datum		values[REBUILD_COLUMNS];
	bool		nulls[REBUILD_COLUMNS];

	put_name(values, nulls, REBUILD_MAP, action->map);
	put_text(values, nulls, REBUILD_ACTION, action->action);
	nulls[REBUILD_SHARDLET] = action->shardlet == 0;
	values[REBUILD_SHARDLET] = Int64GetDatum(action->shardlet);
	put_text(values, nulls, REBUILD_LOW, action->low);
	put_text(values, nulls, REBUILD_HIGH, action->high);
	put_name(values, nulls, REBUILD_SHARD, action->shard);
	put_text(values, nulls, REBUILD_PROBLEM, action->problem);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* Raises an error if there are problems: the first ones are its detail. */
static void
refuse_problems(List *actions)
{
	StringInfoData detail;
	int			count = 0;
	ListCell   *cell;

	initStringInfo(&detail);
	foreach(cell, actions)
	{
		const SlRebuildAction *action = lfirst(cell);

		if (action->problem == NULL || count++ >= 5)
			continue;
		appendStringInfo(&detail, "%s%s%s%s: %s", detail.len > 0 ? "\n" : "",
						 action->map != NULL ? psprintf("map \"%s\"", action->map) : action->action,
						 action->low != NULL ? psprintf(" from %s", action->low) : "",
						 action->shard != NULL ? psprintf(", shard \"%s\"", action->shard) : "", action->problem);
	}
	if (count > 0)
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("maps cannot be rebuilt from what the shards know"),
				errdetail_internal("%s", detail.data),
				errhint("shardlet.rebuild_map() shows all problems."));
}

/* rebuild_map(map, dry_run) */
Datum
shardlet_rebuild_map(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const char *only = PG_ARGISNULL(0) ? NULL : NameStr(*PG_GETARG_NAME(0));
	bool		dry_run = PG_ARGISNULL(1) || PG_GETARG_BOOL(1);
	SlRebuildPlan plan;
	ListCell   *cell;

	if (!dry_run)
		sl_check_writable("shardlet.rebuild_map()");
	sl_router_check();
	InitMaterializedSRF(fcinfo, 0);
	sl_rebuild_plan(only, &plan);
	if (!dry_run)
	{
		refuse_problems(plan.actions);
		sl_state_exempt(SL_STATE_ALL_SHARDS);
		foreach(cell, plan.maps)
			write_map(lfirst(cell));
		attach_tables(plan.tables);
	}
	foreach(cell, plan.actions)
		put_action(result, lfirst(cell));
	return (Datum) 0;
}
