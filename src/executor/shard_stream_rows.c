/*
 * shard_stream_rows.c
 *		The rows of one shard's stream.
 *
 * They are decoded one by one, as the caller wants them; the row before the current
 * one stays, to check the order.  When a connection is needed for another statement,
 * or more shards take part than may run at a time, rows that have come are kept in a
 * tuplestore, and returned from there.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "base/base.h"
#include "executor/shard_stream.h"

/* Rows ----------------------------------------------------------------------- */

/* Makes the current row the former one, and room for the next. */
static void
begin_row(SlStream *stream)
{
	Datum	   *values = stream->values;
	bool	   *nulls = stream->nulls;
	MemoryContext context = stream->row_context;

	if (stream->stat != NULL)
		stream->stat->rows++;
	if (!stream->keeps_former)
	{
		MemoryContextReset(context);
		return;
	}
	stream->values = stream->former_values;
	stream->nulls = stream->former_nulls;
	stream->row_context = stream->former_context;
	stream->former_values = values;
	stream->former_nulls = nulls;
	stream->former_context = context;
	stream->rows_held = Min(stream->rows_held + 1, 2);
	MemoryContextReset(stream->row_context);
}

/* How much came with the row? */
static void
note_bytes(SlStream *stream)
{
	for (int i = 0; i < PQnfields(stream->result); i++)
		stream->stat->bytes += PQgetlength(stream->result, stream->next_row, i);
}

static void
row_is_taken(SlStream *stream)
{
	if (stream->stat != NULL)
		note_bytes(stream);
	if (++stream->next_row < PQntuples(stream->result))
		return;
	PQclear(stream->result);
	stream->result = NULL;
}

static void
decode_row(SlStream *stream)
{
	MemoryContext old_context;

	begin_row(stream);
	old_context = MemoryContextSwitchTo(stream->row_context);
	sl_decoder_row(stream->decoder, stream->conn, stream->result, stream->next_row,
				   stream->values, stream->nulls);
	MemoryContextSwitchTo(old_context);
	row_is_taken(stream);
}

/* Copies a value that the slot's next row would take along. */
static Datum
copy_value(const SlStream *stream, Form_pg_attribute attribute, Datum value)
{
	MemoryContext old_context;
	Datum		result;

	if (attribute->attbyval)
		return value;
	old_context = MemoryContextSwitchTo(stream->row_context);
	result = datumCopy(value, false, attribute->attlen);
	MemoryContextSwitchTo(old_context);
	return result;
}

/* Takes a row that was kept.  Returns false if there is none left. */
static bool
take_spilled(SlStream *stream)
{
	TupleDesc	descriptor = sl_decoder_wire_descriptor(stream->decoder);
	TupleTableSlot *slot = stream->spill_slot;
	ResourceOwner old_owner = CurrentResourceOwner;
	bool		found;

	CurrentResourceOwner = stream->resources;
	found = tuplestore_gettupleslot(stream->spill, true, false, slot);
	CurrentResourceOwner = old_owner;
	if (!found)
		return false;
	slot_getallattrs(slot);
	begin_row(stream);
	for (int i = 0; i < descriptor->natts; i++)
	{
		stream->nulls[i] = slot->tts_isnull[i];
		stream->values[i] = slot->tts_isnull[i] ? (Datum) 0 :
			copy_value(stream, TupleDescAttr(descriptor, i), slot->tts_values[i]);
	}
	return true;
}

/*
 * Makes the next row the current one; the row before it stays until the next call.
 * Returns false if none has come: see the state.
 */
bool
sl_stream_take_row(SlStream *stream)
{
	if (stream->spill != NULL && take_spilled(stream))
		return true;
	if (stream->state == STREAM_RUNNING && stream->result == NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(stream->context);

		sl_stream_step_running(stream);
		MemoryContextSwitchTo(old_context);
	}
	if (stream->result == NULL)
		return false;
	decode_row(stream);
	return true;
}

/* Yielding ------------------------------------------------------------------ */

static void
open_spill(SlStream *stream)
{
	TupleDesc	descriptor = sl_decoder_wire_descriptor(stream->decoder);

	stream->spill = tuplestore_begin_heap(false, false, work_mem);
	stream->spill_slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);
}

/* Puts what has come into the spill. */
static void
spill_rows(SlStream *stream)
{
	TupleDesc	descriptor = sl_decoder_wire_descriptor(stream->decoder);
	Datum	   *values = palloc(sizeof(Datum) * Max(descriptor->natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(descriptor->natts, 1));
	MemoryContext work = AllocSetContextCreate(stream->context, "shardlet spilled row",
											   ALLOCSET_SMALL_SIZES);

	if (stream->spill == NULL)
		open_spill(stream);
	while (stream->result != NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(work);

		sl_decoder_row(stream->decoder, stream->conn, stream->result, stream->next_row, values,
					   nulls);
		MemoryContextSwitchTo(old_context);
		tuplestore_putvalues(stream->spill, descriptor, values, nulls);
		MemoryContextReset(work);
		row_is_taken(stream);
	}
	MemoryContextDelete(work);
	pfree(values);
	pfree(nulls);
}

/* Keeps what has come, so that more can come. */
void
sl_stream_spill(SlStream *stream)
{
	MemoryContext old_context = MemoryContextSwitchTo(stream->context);
	ResourceOwner old_owner = CurrentResourceOwner;

	CurrentResourceOwner = stream->resources;
	do
	{
		if (stream->result != NULL)
			spill_rows(stream);
		sl_stream_step_running(stream);
	} while (stream->result != NULL);
	CurrentResourceOwner = old_owner;
	MemoryContextSwitchTo(old_context);
}

/* Throws away what has come, so that more can come. */
void
sl_stream_skip(SlStream *stream)
{
	MemoryContext old_context = MemoryContextSwitchTo(stream->context);

	do
	{
		if (stream->result != NULL)
			PQclear(stream->result);
		stream->result = NULL;
		sl_stream_step_running(stream);
	} while (stream->result != NULL);
	MemoryContextSwitchTo(old_context);
}

/*
 * One step to empty the connection, so that it can be given back.  Returns true if
 * something has to arrive first.  libpq's buffer is emptied before more is read,
 * since libpq moves what is in it to read more.
 */
bool
sl_stream_drain_step(SlStream *stream)
{
	MemoryContext old_context = MemoryContextSwitchTo(stream->context);
	ResourceOwner old_owner = CurrentResourceOwner;

	CurrentResourceOwner = stream->resources;
	if (stream->state == STREAM_RUNNING)
		sl_stream_spill(stream);
	sl_stream_step(stream);
	if (stream->state == STREAM_RUNNING)
		sl_stream_spill(stream);
	CurrentResourceOwner = old_owner;
	MemoryContextSwitchTo(old_context);
	return stream->conn->owner == stream && sl_stream_needs_wait(stream);
}
