/*
 * write_sql.c
 *		The statements by which rows are written on shards.
 *
 * Names are the same on the shards.  Parameters are cast to the type that the
 * column has on the router, if it is a built-in one: so the query string
 * differs after the column's type was changed, and prepared statements of the
 * old type are not used.  Returned values are cast likewise.
 */
#include "postgres.h"

#include "access/transam.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"
#include "base/base.h"

static Form_pg_attribute
column_of(Relation relation, int number)
{
	return TupleDescAttr(RelationGetDescr(relation), number - 1);
}

void
sl_write_relation(StringInfo sql, Relation relation)
{
	char	   *schema = get_namespace_name(RelationGetNamespace(relation));

	appendStringInfoString(sql, quote_qualified_identifier(schema,
														   RelationGetRelationName(relation)));
}

static void
write_column(StringInfo sql, Relation relation, int number)
{
	appendStringInfoString(sql, quote_identifier(NameStr(column_of(relation, number)->attname)));
}

/* The cast of a user-defined type is left to the shard. */
static void
write_cast(StringInfo sql, Oid type)
{
	type = getBaseType(type);
	if (type < FirstNormalObjectId)
		appendStringInfo(sql, "::%s", format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN |
														   FORMAT_TYPE_FORCE_QUALIFY));
}

static void
write_param(StringInfo sql, Relation relation, int column, int number)
{
	appendStringInfo(sql, "$%d", number);
	write_cast(sql, column_of(relation, column)->atttypid);
}

/* Without an alias, a column could be taken for EXCLUDED's. */
static void
write_returning(StringInfo sql, Relation relation, const char *alias, List *returning)
{
	ListCell   *cell;

	foreach(cell, returning)
	{
		appendStringInfoString(sql, cell == list_head(returning) ? " RETURNING " : ", ");
		if (alias != NULL)
			appendStringInfo(sql, "%s.", alias);
		write_column(sql, relation, lfirst_int(cell));
		write_cast(sql, column_of(relation, lfirst_int(cell))->atttypid);
	}
}

/* Writes one row of VALUES, with parameters from the given number on. */
static void
write_row(StringInfo sql, Relation relation, List *columns, int first_param)
{
	int			param = first_param;
	ListCell   *cell;

	foreach(cell, columns)
	{
		appendStringInfoString(sql, cell == list_head(columns) ? "(" : ", ");
		write_param(sql, relation, lfirst_int(cell), param++);
	}
	appendStringInfoChar(sql, ')');
}

static void
write_insert_head(StringInfo sql, Relation relation, List *columns, const char *conflict)
{
	ListCell   *cell;

	appendStringInfoString(sql, "INSERT INTO ");
	sl_write_relation(sql, relation);
	if (conflict != NULL)
		appendStringInfoString(sql, " AS " SL_INSERT_ALIAS);
	foreach(cell, columns)
	{
		appendStringInfoString(sql, cell == list_head(columns) ? " (" : ", ");
		write_column(sql, relation, lfirst_int(cell));
	}
	appendStringInfoString(sql, columns != NIL ? ") " : " ");
}

/* INSERT of one row; "conflict" is NULL, or the ON CONFLICT clause. */
char *
sl_write_insert(Relation relation, List *columns, const char *conflict, List *returning)
{
	StringInfoData sql;

	initStringInfo(&sql);
	write_insert_head(&sql, relation, columns, conflict);
	if (columns == NIL)
		appendStringInfoString(&sql, "DEFAULT VALUES");
	else
	{
		appendStringInfoString(&sql, "VALUES ");
		write_row(&sql, relation, columns, 1);
	}
	if (conflict != NULL)
		appendStringInfoString(&sql, conflict);
	write_returning(&sql, relation, conflict != NULL ? SL_INSERT_ALIAS : NULL, returning);
	return sql.data;
}

/*
 * INSERT of several rows.  The parameters of the clause come after those of
 * the first row, as in a statement of one row.
 */
void
sl_write_batch(StringInfo sql, Relation relation, List *columns, int rows, int clause_params,
			   const char *conflict)
{
	int			count = list_length(columns);

	write_insert_head(sql, relation, columns, conflict);
	for (int i = 0; i < rows; i++)
	{
		appendStringInfoString(sql, i == 0 ? "VALUES " : ", ");
		write_row(sql, relation, columns, i == 0 ? 1 : clause_params + i * count + 1);
	}
	appendStringInfoString(sql, conflict);
}

/* The condition that identifies one row: its ctid and the OID of its table. */
static void
write_identity(StringInfo sql, int first_param)
{
	appendStringInfo(sql, " WHERE ctid = $%d::pg_catalog.tid AND tableoid = $%d::pg_catalog.oid",
					 first_param, first_param + 1);
}

/*
 * UPDATE of one row; the parameters of its location follow the column values.
 */
char *
sl_write_update(Relation relation, List *columns, List *returning)
{
	StringInfoData sql;
	ListCell   *cell;
	int			param = 1;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "UPDATE ");
	sl_write_relation(&sql, relation);
	foreach(cell, columns)
	{
		appendStringInfoString(&sql, param == 1 ? " SET " : ", ");
		write_column(&sql, relation, lfirst_int(cell));
		appendStringInfoString(&sql, " = ");
		write_param(&sql, relation, lfirst_int(cell), param++);
	}
	write_identity(&sql, param);
	write_returning(&sql, relation, NULL, returning);
	return sql.data;
}

char *
sl_write_delete(Relation relation, List *returning)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "DELETE FROM ");
	sl_write_relation(&sql, relation);
	write_identity(&sql, 1);
	write_returning(&sql, relation, NULL, returning);
	return sql.data;
}

/*
 * Locks one row; returns a row if it is unchanged.  With "or_own" also if it
 * was this transaction that has changed it.
 */
char *
sl_write_lock(Relation relation, bool or_own)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, or_own ? "SELECT 1 FROM (SELECT FROM " : "SELECT 1 FROM ");
	sl_write_relation(&sql, relation);
	write_identity(&sql, 1);
	appendStringInfoString(&sql, " FOR UPDATE");
	if (or_own)
		appendStringInfoString(&sql, ") locked UNION ALL SELECT 1 WHERE " SL_INTERNAL_SCHEMA ".has_changed_row($2::pg_catalog.oid, $1::pg_catalog.tid)");
	return sql.data;
}
