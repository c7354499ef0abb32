/*
 * verify.c
 *		Compares the rows of two shards: their number, and a checksum that does
 *		not depend on their order.
 *
 * Both shards count at the same time, several tables each.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "base/base.h"
#include "move/move_internal.h"

/* What one shard says of one table. */
typedef struct Sum
{
	char	   *rows;
	char	   *checksum;
} Sum;

/* The connections are those of the source, then those of the target. */
typedef struct Comparison
{
	SlConnectionSet set;
	List	   *tables;
	int			next[2];		/* table, for either side */
	int		   *current;		/* table, for each connection */
	Sum		   *sums[2];
} Comparison;

static int
side_of(const Comparison *comparison, int index)
{
	return index < comparison->set.count / 2 ? 0 : 1;
}

static char *
next_table(SlConnectionSet *set, int index)
{
	Comparison *comparison = (Comparison *) set;
	int			number = comparison->next[side_of(comparison, index)]++;
	const SlMoveTable *table;

	if (number >= list_length(comparison->tables))
		return NULL;
	comparison->current[index] = number;
	table = list_nth(comparison->tables, number);
	return psprintf("SELECT pg_catalog.count(*), coalesce(pg_catalog.sum(%s), 0) FROM %s WHERE %s",
					table->checksum, table->name, table->condition);
}

static void
take_sum(SlConnectionSet *set, int index, const PGresult *row)
{
	Comparison *comparison = (Comparison *) set;
	Sum		   *sum = &comparison->sums[side_of(comparison, index)][comparison->current[index]];

	if (row == NULL)
		elog(ERROR, "a shard has not counted its rows");
	sum->rows = pstrdup(sl_protocol_value(set->conns[index], row, 0, 0));
	sum->checksum = pstrdup(sl_protocol_value(set->conns[index], row, 0, 1));
}

static void
compare_sums(const SlMover *mover, const SlMoveTable *table, const Sum *source, const Sum *target)
{
	if (strcmp(source->rows, target->rows) == 0 && strcmp(source->checksum, target->checksum) == 0)
		return;
	ereport(ERROR,
			errcode(SL_ERR_DIFFERENT),
			errmsg("rows of table \"%s\" differ between shard \"%s\" and shard \"%s\"", table->label,
				   NameStr(mover->from->name), NameStr(mover->to->name)),
			errdetail("There are %s rows with checksum %s, and %s rows with checksum %s.", source->rows,
					  source->checksum, target->rows, target->checksum),
			errhint("One of the shards was written to directly."));
}

/*
 * Fails if the tables' rows in the range are not the same on both shards, to
 * which there are so many connections each.
 */
void
sl_move_compare_rows(SlMover *mover, SlConn **sources, SlConn **targets, int count)
{
	int			table_count = list_length(mover->tables);
	Comparison	comparison = {.set = {.mover = mover,.count = 2 * count,.next = next_table,.take = take_sum},
	.tables = mover->tables};

	comparison.set.conns = palloc(sizeof(SlConn *) * 2 * count);
	memcpy(comparison.set.conns, sources, sizeof(SlConn *) * count);
	memcpy(comparison.set.conns + count, targets, sizeof(SlConn *) * count);
	comparison.current = palloc0(sizeof(int) * 2 * count);
	for (int side = 0; side < 2; side++)
		comparison.sums[side] = palloc0(sizeof(Sum) * Max(table_count, 1));
	sl_move_run_statements(&comparison.set);
	for (int i = 0; i < table_count; i++)
		compare_sums(mover, list_nth(mover->tables, i), &comparison.sums[0][i], &comparison.sums[1][i]);
}
