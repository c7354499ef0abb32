/*
 * move_table.c
 *		move_table: a placed table goes to another shard.
 *
 * It comes back to the router and is placed again, in one transaction over the router and
 * both shards: so it is here or there, with all that belongs to it, whatever dies on the
 * way.  Statements that use the table wait until that is over.  undistribute() and place()
 * do the work, as the caller would call them.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/base.h"
#include "base/fault_points.h"
#include "commands/commands.h"

PG_FUNCTION_INFO_V1(shardlet_move_table);

static void
call(const char *sql, Oid relid, const SlShard *shard)
{
	Oid			types[] = {REGCLASSOID, NAMEOID};
	Datum		params[] = {ObjectIdGetDatum(relid), NameGetDatum(&shard->name)};

	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args(sql, lengthof(types), types, params, NULL, false, 0) != SPI_OK_SELECT ||
		SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "could not move the table");
}

/* move_table(tbl, shard) */
Datum
shardlet_move_table(PG_FUNCTION_ARGS)
{
	Oid			relid = sl_table_arg(fcinfo, 0);
	SlShard    *to = sl_shard_by_name(sl_map_arg_name(fcinfo, 1, "shard"), false);
	const SlTable *table;

	sl_check_writable("shardlet.move_table()");
	table = sl_table_arg_distributed(relid);
	if (table->kind != SL_TABLE_PLACED)
		ereport(ERROR,
				errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("table \"%s\" is not placed on a shard", get_rel_name(relid)),
				errhint("CALL shardlet.move_shardlet() moves rows of sharded tables."));
	if (table->is_attached)
		ereport(ERROR,
				errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("table \"%s\" was attached, and is not moved", get_rel_name(relid)),
				errdetail("The shard's table is not shardlet's to drop."),
				errhint("undistribute() it, place() it, and drop what is left on the shard."));
	if (table->shard_id == to->id)
	{
		ereport(NOTICE,
				errmsg("table \"%s\" is already on shard \"%s\"", get_rel_name(relid), NameStr(to->name)));
		PG_RETURN_VOID();
	}
	call("SELECT shardlet.undistribute($1), $2", relid, to);
	CommandCounterIncrement();
	sl_fault("move_table_between");
	call("SELECT shardlet.place($1, $2)", relid, to);
	PG_RETURN_VOID();
}
