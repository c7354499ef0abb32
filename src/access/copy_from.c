/*
 * copy_from.c
 *		COPY FROM without the executor: sends input lines to the shards
 *		unchanged.
 *
 * PostgreSQL reads the lines, in the database's encoding, and splits them into
 * fields; only those of the key are converted.  Then the line itself is sent
 * to its shard, whose COPY has the same format.  That costs a fraction of
 * converting all fields to values and back to text.
 *
 * It is possible if there is nothing to do on the router: no WHERE, no defaults
 * for columns that are not in the file.  Everything else is sent as rows.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_proc.h"
#include "commands/copy.h"
#include "commands/copyfrom_internal.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"

#include "access/foreign_modify.h"
#include "compat.h"

/* A key column's field in a line, and its input function. */
typedef struct KeyField
{
	int			field;			/* from 0 */
	int			column;			/* attribute number, less 1 */
	FmgrInfo	input;
	Oid			io_param;
	int32		typmod;
} KeyField;

typedef struct Copying
{
	CopyFromState state;
	Relation	relation;
	SlRowRoute	route;
	KeyField	keys[SL_MAX_KEYS];
	SlCopyToShards *copy;
	SlCopyLines *lines;
	StringInfoData line;
	MemoryContext work;			/* reset for every line */
} Copying;

/* May it be done? ------------------------------------------------------------- */

/* Options that mean the same on router and shard, or are handled here. */
static bool
is_plain_option(const DefElem *option)
{
	static const char *const known[] = {
		"delimiter", "null", "header", "quote", "escape", "force_not_null", "force_null",
		"encoding"
	};

	if (strcmp(option->defname, "format") == 0)
		return strcmp(defGetString((DefElem *) option), "binary") != 0;
	for (int i = 0; i < (int) lengthof(known); i++)
	{
		if (strcmp(known[i], option->defname) == 0)
			return true;
	}
	return false;
}

static bool
has_column(List *names, const char *name)
{
	ListCell   *cell;

	foreach(cell, names)
	{
		if (strcmp(strVal(lfirst(cell)), name) == 0)
			return true;
	}
	return names == NIL;
}

/* Does the router have to compute a column that is not in the file? */
static bool
needs_defaults(const CopyStmt *statement, TupleDesc descriptor)
{
	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, i);

		if (!column->attisdropped && column->attgenerated == '\0' &&
			(column->atthasdef || column->attidentity != '\0') &&
			!has_column(statement->attlist, NameStr(column->attname)))
			return true;
	}
	return false;
}

/* A domain may have a default of its own. */
static bool
has_domain_default(TupleDesc descriptor)
{
	for (int i = 0; i < descriptor->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, i);

		if (!column->attisdropped && get_typdefault(column->atttypid) != NULL)
			return true;
	}
	return false;
}

/* Would a shard read the same value? 'now' depends on its clock. */
static bool
reads_equally(Oid type)
{
	Oid			function;
	Oid			io_param;

	getTypeInputInfo(getBaseType(type), &function, &io_param);
	return func_volatile(function) == PROVOLATILE_IMMUTABLE;
}

/* Does each line contain the key, in a form that the shard reads equally? */
static bool
has_key(const CopyStmt *statement, Relation relation)
{
	TupleDesc	descriptor = RelationGetDescr(relation);
	SlTable    *table = sl_table_get(RelationGetRelid(relation));

	for (int i = 0; i < table->key_count; i++)
	{
		Form_pg_attribute column = TupleDescAttr(descriptor, table->key[i] - 1);

		if (column->attgenerated != '\0' || !reads_equally(column->atttypid) ||
			!has_column(statement->attlist, NameStr(column->attname)))
			return false;
	}
	return true;
}

/* Can the lines be sent to the shards unchanged? */
bool
sl_copy_from_is_plain(const CopyStmt *statement, Relation relation)
{
	ListCell   *cell;

	if (statement->whereClause != NULL || ExecutorCheckPerms_hook != NULL ||
		sl_copy_row_columns(RelationGetDescr(relation)) == NIL)
		return false;
	foreach(cell, statement->options)
	{
		if (!is_plain_option(lfirst(cell)))
			return false;
	}
	return has_key(statement, relation) &&
		!needs_defaults(statement, RelationGetDescr(relation)) &&
		(statement->attlist == NIL || !has_domain_default(RelationGetDescr(relation)));
}

/* Privileges ------------------------------------------------------------------ */

/* The messages are PostgreSQL's own. */
static void
check_source(const CopyStmt *statement)
{
	if (statement->filename == NULL)
		return;
	if (statement->is_program && !has_privs_of_role(GetUserId(), ROLE_PG_EXECUTE_SERVER_PROGRAM))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("must be superuser or have privileges of the pg_execute_server_program role to COPY to or from an external program"),
				errhint("Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."));
	if (!statement->is_program && !has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("must be superuser or have privileges of the pg_read_server_files role to COPY from a file"),
				errhint("Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone."));
}

static void
check_table(const CopyStmt *statement, Relation relation)
{
	Oid			relid = RelationGetRelid(relation);
	ListCell   *cell;

	if (pg_class_aclcheck(relid, GetUserId(), ACL_INSERT) == ACLCHECK_OK)
		return;
	foreach(cell, CopyGetAttnums(RelationGetDescr(relation), relation, statement->attlist))
	{
		if (pg_attribute_aclcheck(relid, (AttrNumber) lfirst_int(cell), GetUserId(),
								  ACL_INSERT) != ACLCHECK_OK)
			aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(relation->rd_rel->relkind),
						   RelationGetRelationName(relation));
	}
}

/* Raises an error unless the user may execute the statement. */
void
sl_copy_from_check(const CopyStmt *statement, Relation relation)
{
	check_source(statement);
	check_table(statement, relation);
	if (check_enable_rls(RelationGetRelid(relation), InvalidOid, false) == RLS_ENABLED)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("COPY FROM not supported with row-level security"),
				errhint("Use INSERT statements instead."));
	PreventCommandIfReadOnly("COPY FROM");
}

/* The shards' command --------------------------------------------------------- */

static void
write_columns(StringInfo sql, const Copying *work, const char *option, const bool *flags)
{
	TupleDesc	descriptor = RelationGetDescr(work->relation);
	const char *before = option;
	ListCell   *cell;

	foreach(cell, work->state->attnumlist)
	{
		if (flags != NULL && !flags[lfirst_int(cell) - 1])
			continue;
		appendStringInfo(sql, "%s%s", before,
						 quote_identifier(NameStr(TupleDescAttr(descriptor,
																lfirst_int(cell) - 1)->attname)));
		before = ", ";
	}
	if (before != option)
		appendStringInfoChar(sql, ')');
}

/*
 * The header is read on the router, and lines are in the connection's
 * encoding.
 */
static char *
make_command(const Copying *work)
{
	const CopyFormatOptions *options = &work->state->opts;
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "COPY ");
	sl_write_relation(&sql, work->relation);
	write_columns(&sql, work, " (", NULL);
	appendStringInfo(&sql, " FROM STDIN (FORMAT %s, DELIMITER %s, NULL %s",
					 options->csv_mode ? "csv" : "text", quote_literal_cstr(options->delim),
					 quote_literal_cstr(options->null_print));
	if (options->csv_mode)
	{
		appendStringInfo(&sql, ", QUOTE %s, ESCAPE %s", quote_literal_cstr(options->quote),
						 quote_literal_cstr(options->escape));
		write_columns(&sql, work, ", FORCE_NOT_NULL (", options->force_notnull_flags);
		write_columns(&sql, work, ", FORCE_NULL (", options->force_null_flags);
	}
	appendStringInfoChar(&sql, ')');
	return sql.data;
}

/* Lines ----------------------------------------------------------------------- */

static void
find_keys(Copying *work)
{
	TupleDesc	descriptor = RelationGetDescr(work->relation);
	const SlTable *table = work->route.table;
	ListCell   *cell;

	for (int i = 0; i < table->key_count; i++)
	{
		KeyField   *key = &work->keys[i];
		Form_pg_attribute column = TupleDescAttr(descriptor, table->key[i] - 1);
		Oid			function;

		foreach(cell, work->state->attnumlist)
		{
			if (lfirst_int(cell) == table->key[i])
				key->field = foreach_current_index(cell);
		}
		key->column = table->key[i] - 1;
		key->typmod = column->atttypmod;
		getTypeInputInfo(column->atttypid, &function, &key->io_param);
		fmgr_info(function, &key->input);
	}
}

/*
 * Does the line have the right number of fields?  The messages are
 * PostgreSQL's own.
 */
static void
check_fields(const Copying *work, int count)
{
	TupleDesc	descriptor = RelationGetDescr(work->relation);
	List	   *columns = work->state->attnumlist;

	if (count > list_length(columns))
		ereport(ERROR,
				errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
				errmsg("extra data after last expected column"));
	if (count < list_length(columns))
		ereport(ERROR,
				errcode(ERRCODE_BAD_COPY_FILE_FORMAT),
				errmsg("missing data for column \"%s\"",
					   NameStr(TupleDescAttr(descriptor, list_nth_int(columns, count) - 1)->attname)));
}

static char *
field_value(const Copying *work, const KeyField *key, char *field)
{
	const CopyFormatOptions *options = &work->state->opts;

	if (!options->csv_mode)
		return field;
	if (field == NULL && options->force_notnull_flags[key->column])
		return options->null_print;
	if (field != NULL && options->force_null_flags[key->column] &&
		strcmp(field, options->null_print) == 0)
		return NULL;
	return field;
}

/* Reads the key of a line, and finds its shard. */
static SlShard *
route_line(Copying *work, char **fields)
{
	CopyFromState state = work->state;
	MemoryContext old_context = MemoryContextSwitchTo(work->work);
	Datum		values[SL_MAX_KEYS] = {0};
	bool		nulls[SL_MAX_KEYS] = {0};
	SlShard    *shard;

	for (int i = 0; i < work->route.table->key_count; i++)
	{
		KeyField   *key = &work->keys[i];
		char	   *value = field_value(work, key, fields[key->field]);

		state->cur_attname = NameStr(TupleDescAttr(RelationGetDescr(work->relation),
												   key->column)->attname);
		state->cur_attval = value;
		nulls[i] = value == NULL;
		values[i] = InputFunctionCall(&key->input, value, key->io_param, key->typmod);
		state->cur_attname = NULL;
		state->cur_attval = NULL;
	}
	shard = sl_row_route_key(&work->route, values, nulls);
	MemoryContextSwitchTo(old_context);
	MemoryContextReset(work->work);
	return shard;
}

/* A line of \. alone would end the shard's COPY, and is a value here. */
static bool
looks_like_end(const Copying *work)
{
	const StringInfoData *line = &work->state->line_buf;

	return work->state->opts.csv_mode && line->len == 2 && memcmp(line->data, "\\.", 2) == 0;
}

static void
put_line(Copying *work, SlShard *shard)
{
	StringInfo	line = &work->state->line_buf;
	const char *quote = looks_like_end(work) ? work->state->opts.quote : "";

	resetStringInfo(&work->line);
	appendStringInfoString(&work->line, quote);
	appendBinaryStringInfo(&work->line, line->data, line->len);
	appendStringInfoString(&work->line, quote);
	appendStringInfoChar(&work->line, '\n');
	sl_copy_lines_add(work->lines, shard, work->state->cur_lineno,
					  memchr(line->data, '\n', line->len) == NULL &&
					  memchr(line->data, '\r', line->len) == NULL);
	sl_copy_to_shards_put(work->copy, shard, work->line.data, work->line.len);
}

/*
 * Sends all lines.  PostgreSQL's error context is valid only within this
 * function.
 */
static void
copy_lines(Copying *work)
{
	ErrorContextCallback callback;

	callback.callback = CopyFromErrorCallback;
	callback.arg = work->state;
	for (;;)
	{
		SlShard    *shard;
		char	  **fields;
		int			count;

		CHECK_FOR_INTERRUPTS();
		callback.previous = error_context_stack;
		error_context_stack = &callback;
		if (!NextCopyFromRawFields(work->state, &fields, &count))
			break;
		check_fields(work, count);
		shard = route_line(work, fields);
		error_context_stack = callback.previous;
		put_line(work, shard);
	}
	error_context_stack = callback.previous;
}

/*
 * Executes a COPY that sl_copy_from_is_plain() allows.  Returns the number of
 * rows that the shards inserted.
 */
uint64
sl_copy_from(ParseState *pstate, const CopyStmt *statement, Relation relation)
{
	Copying		work = {.relation = relation};
	uint64		rows;

	sl_row_route_init(&work.route, relation);
	work.state = BeginCopyFrom(pstate, relation, NULL, statement->filename, statement->is_program,
							   NULL, statement->attlist, statement->options);
	find_keys(&work);
	work.work = AllocSetContextCreate(CurrentMemoryContext, "shardlet copied line",
									  ALLOCSET_SMALL_SIZES);
	work.lines = sl_copy_lines_make();
	initStringInfo(&work.line);
	work.copy = sl_copy_to_shards_begin(make_command(&work), false, GetUserId(), NULL);
	sl_copy_to_shards_explain(work.copy, sl_copy_lines_explain, work.lines);
	copy_lines(&work);
	rows = sl_copy_to_shards_end(work.copy);
	EndCopyFrom(work.state);
	return rows;
}
