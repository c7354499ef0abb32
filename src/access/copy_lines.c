/*
 * copy_lines.c
 *		Maps the row number of a shard's COPY to the line of the input file.
 *
 * A shard counts the lines that it got; the user wants to know the line of the
 * file.  For each shard the distances between its lines are stored, usually
 * one byte each.  Recording stops when a limit is reached, or at a row with
 * embedded line breaks; errors of later rows do not name a line.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "access/foreign_modify.h"

/* Maximum size for each shard, in bytes. */
#define MAX_BYTES (16 * 1024 * 1024)

#define LINE_MARK ", line "

typedef struct ShardLines
{
	const SlShard *shard;
	uint64		last;			/* line of the last row */
	int64		count;			/* rows recorded */
	bool		is_closed;		/* recording has stopped */
	StringInfoData steps;		/* variable-length numbers of seven bits a
								 * byte, low ones first */
} ShardLines;

struct SlCopyLines
{
	MemoryContext context;
	List	   *shards;			/* of ShardLines */
	ShardLines *current;
};

SlCopyLines *
sl_copy_lines_make(void)
{
	SlCopyLines *lines = palloc0(sizeof(SlCopyLines));

	lines->context = CurrentMemoryContext;
	return lines;
}

static ShardLines *
find_shard(SlCopyLines *lines, const SlShard *shard)
{
	ListCell   *cell;

	if (lines->current != NULL && lines->current->shard == shard)
		return lines->current;
	lines->current = NULL;
	foreach(cell, lines->shards)
	{
		ShardLines *known = lfirst(cell);

		if (known->shard == shard)
			lines->current = known;
	}
	return lines->current;
}

static ShardLines *
add_shard(SlCopyLines *lines, const SlShard *shard)
{
	MemoryContext old_context = MemoryContextSwitchTo(lines->context);
	ShardLines *added = palloc0(sizeof(ShardLines));

	added->shard = shard;
	initStringInfo(&added->steps);
	lines->shards = lappend(lines->shards, added);
	lines->current = added;
	MemoryContextSwitchTo(old_context);
	return added;
}

/*
 * Records the line of the next row for the shard; simple: it is a single line.
 */
void
sl_copy_lines_add(SlCopyLines *lines, const SlShard *shard, uint64 line, bool is_simple)
{
	ShardLines *kept = find_shard(lines, shard);
	uint64		step;

	if (kept == NULL)
		kept = add_shard(lines, shard);
	kept->is_closed = kept->is_closed || !is_simple || kept->steps.len >= MAX_BYTES;
	if (kept->is_closed)
		return;
	step = line - kept->last;
	while (step >= 0x80)
	{
		appendStringInfoCharMacro(&kept->steps, (char) (0x80 | (step & 0x7f)));
		step >>= 7;
	}
	appendStringInfoCharMacro(&kept->steps, (char) step);
	kept->last = line;
	kept->count++;
}

/* Returns the line of a row, 0 if it is not known. */
static uint64
line_of(const ShardLines *kept, int64 row)
{
	uint64		line = 0;
	int			at = 0;

	if (kept == NULL || row < 0 || row >= kept->count)
		return 0;
	for (int64 i = 0; i <= row; i++)
	{
		int			shift = 0;

		while (kept->steps.data[at] & 0x80)
		{
			line += (uint64) (kept->steps.data[at++] & 0x7f) << shift;
			shift += 7;
		}
		line += (uint64) kept->steps.data[at++] << shift;
	}
	return line;
}

/*
 * Replaces the line in the context of a shard's error, as in "COPY t, line 3,
 * column c: ...", by that of the file.  If it is not known, the line is
 * removed.
 */
void
sl_copy_lines_explain(void *arg, SlShard *shard, int64 first, SlFailure *failure)
{
	const char *mark = strstr(failure->context, LINE_MARK);
	const char *digits;
	char	   *rest;
	uint64		line;

	if (mark == NULL)
		return;
	digits = mark + strlen(LINE_MARK);
	line = line_of(find_shard(arg, shard), first + (int64) strtoull(digits, &rest, 10) - 1);
	failure->context = line > 0 ?
		psprintf("%.*s%llu%s", (int) (digits - failure->context), failure->context,
				 (unsigned long long) line, rest) :
		psprintf("%.*s%s", (int) (mark - failure->context), failure->context, rest);
}
