/*
 * reference_columns.c
 *		What has to be known of a reference table to change its copies.
 *
 * Columns are named, never counted: attribute numbers of router and shards differ as
 * soon as a column was dropped on one of them.  Values are sent as text and cast on
 * the shard, to types that have the same name there.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/sysattr.h"
#include "catalog/pg_am.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_operator.h"
#include "commands/trigger.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "base/base.h"
#include "reference/reference.h"

/* Columns --------------------------------------------------------------------- */

static void
init_column(SlRefColumn *column, Form_pg_attribute attribute)
{
	bool		is_varlena;

	column->attnum = attribute->attnum;
	column->name = pstrdup(quote_identifier(NameStr(attribute->attname)));
	column->is_generated = attribute->attgenerated != '\0';

	/* Without a length: "character" alone would be one character. */
	column->type = format_type_extended(attribute->atttypid, -1,
										FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
	getTypeOutputInfo(attribute->atttypid, &column->output, &is_varlena);
}

static void
find_columns(SlRefColumns *columns)
{
	TupleDesc	descriptor = columns->descriptor;

	columns->columns = palloc0(sizeof(SlRefColumn) * Max(descriptor->natts, 1));
	for (int i = 0; i < descriptor->natts; i++)
	{
		if (!TupleDescAttr(descriptor, i)->attisdropped)
			init_column(&columns->columns[columns->column_count++], TupleDescAttr(descriptor, i));
	}
}

/* The key --------------------------------------------------------------------- */

static char *
equality_of(Relation index, int position)
{
	Oid			type = index->rd_opcintype[position];
	Oid			operator = get_opfamily_member(index->rd_opfamily[position], type, type,
											   BTEqualStrategyNumber);
	HeapTuple	tuple = OidIsValid(operator) ?
	SearchSysCache1(OPEROID, ObjectIdGetDatum(operator)) : NULL;
	Form_pg_operator row;
	char	   *result;

	if (!HeapTupleIsValid(tuple) || index->rd_rel->relam != BTREE_AM_OID)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("primary key \"%s\" cannot be that of a reference table",
					   RelationGetRelationName(index)),
				errdetail("It is not made of values that are equal or not."));
	row = (Form_pg_operator) GETSTRUCT(tuple);
	result = psprintf("OPERATOR(%s.%s)", quote_identifier(get_namespace_name(row->oprnamespace)),
					  NameStr(row->oprname));
	ReleaseSysCache(tuple);
	return result;
}

static int
column_with(const SlRefColumns *columns, AttrNumber attnum)
{
	for (int i = 0; i < columns->column_count; i++)
	{
		if (columns->columns[i].attnum == attnum)
			return i;
	}
	elog(ERROR, "column %d of table %s is not there", attnum, columns->name);
}

static void
find_key(SlRefColumns *columns, Relation relation)
{
	Oid			constraint = InvalidOid;
	Bitmapset  *attnums = get_primary_key_attnos(columns->relid, true, &constraint);
	Relation	index;

	if (attnums == NULL)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("table \"%s\" has no primary key", RelationGetRelationName(relation)),
				errdetail("Rows of a reference table are found on the shards by their primary key."),
				errhint("ALTER TABLE %s ADD PRIMARY KEY (...);", columns->name));
	index = index_open(get_constraint_index(constraint), AccessShareLock);
	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
	{
		int			column = column_with(columns, index->rd_index->indkey.values[i]);

		columns->columns[column].equals = equality_of(index, i);
		columns->key[columns->key_count++] = column;
	}
	index_close(index, AccessShareLock);
}

/* Constraints ------------------------------------------------------------------ */

static bool
is_on_shards(Oid constraint, char **name)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	Form_pg_constraint row;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	row = (Form_pg_constraint) GETSTRUCT(tuple);
	result = sl_reference_is(row->conrelid);
	*name = quote_qualified_identifier(get_namespace_name(row->connamespace),
									   NameStr(row->conname));
	ReleaseSysCache(tuple);
	return result;
}

/*
 * The router has checked constraints at the time at which its session wants it.  On
 * the shards those that are deferrable are deferred until the end: a session that has
 * deferred them on the router may have changed half of what belongs together.
 * Triggers of PostgreSQL's own tell which they are, also those of foreign keys to
 * this table.
 */
static char *
make_defer_sql(Relation relation)
{
	TriggerDesc *triggers = relation->trigdesc;
	List	   *seen = NIL;
	StringInfoData sql;

	initStringInfo(&sql);
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];
		char	   *name;

		if (!trigger->tgisinternal || !trigger->tgdeferrable ||
			list_member_oid(seen, trigger->tgconstraint) ||
			!is_on_shards(trigger->tgconstraint, &name))
			continue;
		seen = lappend_oid(seen, trigger->tgconstraint);
		appendStringInfo(&sql, "%s%s", sql.len == 0 ? "SET CONSTRAINTS " : ", ", name);
	}
	if (seen == NIL)
		return NULL;
	appendStringInfoString(&sql, " DEFERRED");
	return sql.data;
}

static bool
is_action(char action)
{
	return action == FKCONSTR_ACTION_CASCADE || action == FKCONSTR_ACTION_SETNULL ||
		action == FKCONSTR_ACTION_SETDEFAULT;
}

static bool
has_in_key(const SlRefColumns *columns, const ForeignKeyCacheInfo *foreign_key)
{
	for (int i = 0; i < foreign_key->nkeys; i++)
	{
		for (int j = 0; j < columns->key_count; j++)
		{
			if (columns->columns[columns->key[j]].attnum == foreign_key->conkey[i])
				return true;
		}
	}
	return false;
}

/* Do foreign keys act on rows of this table? */
static void
find_actions(SlRefColumns *columns, Relation relation)
{
	ListCell   *cell;

	foreach(cell, RelationGetFKeyList(relation))
	{
		ForeignKeyCacheInfo *foreign_key = lfirst(cell);
		HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(foreign_key->conoid));
		Form_pg_constraint row;

		if (!HeapTupleIsValid(tuple))
			continue;
		row = (Form_pg_constraint) GETSTRUCT(tuple);
		columns->is_acted_on = columns->is_acted_on || is_action(row->confdeltype) ||
			is_action(row->confupdtype);
		columns->key_is_acted_on = columns->key_is_acted_on ||
			((is_action(row->confupdtype) || row->confdeltype == FKCONSTR_ACTION_SETDEFAULT) &&
			 has_in_key(columns, foreign_key));
		ReleaseSysCache(tuple);
	}
}

/*
 * Returns how the table is written to, in the current memory context; the
 * relation stays open meanwhile.  A table without a primary key is an error.
 */
SlRefColumns *
sl_reference_columns(Relation relation)
{
	SlRefColumns *columns = palloc0(sizeof(SlRefColumns));

	columns->relid = RelationGetRelid(relation);
	columns->schema = get_namespace_name(RelationGetNamespace(relation));
	columns->relname = pstrdup(RelationGetRelationName(relation));
	columns->name = quote_qualified_identifier(columns->schema, columns->relname);
	columns->descriptor = RelationGetDescr(relation);
	find_columns(columns);
	find_key(columns, relation);
	columns->defer_sql = make_defer_sql(relation);
	find_actions(columns, relation);
	return columns;
}

static SlRefUnique *
make_unique(Relation index)
{
	SlRefUnique *unique = palloc0(sizeof(SlRefUnique));
	List	   *expressions = RelationGetIndexExpressions(index);
	List	   *predicate = RelationGetIndexPredicate(index);
	Bitmapset  *used = NULL;
	int			number = -1;

	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
	{
		if (index->rd_index->indkey.values[i] > 0)
			unique->attnums = bms_add_member(unique->attnums, index->rd_index->indkey.values[i]);
	}
	pull_varattnos((Node *) expressions, 1, &used);
	pull_varattnos((Node *) predicate, 1, &used);
	while ((number = bms_next_member(used, number)) >= 0)
		unique->attnums = bms_add_member(unique->attnums,
										 number + FirstLowInvalidHeapAttributeNumber);
	unique->is_plain = expressions == NIL && predicate == NIL && index->rd_index->indisunique &&
		!index->rd_index->indisexclusion;
	return unique;
}

/* Returns what must be unique at any time, not only at the end: SlRefUniques. */
List *
sl_reference_uniques(Relation relation)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, RelationGetIndexList(relation))
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);
		Form_pg_index row = index->rd_index;

		if (row->indimmediate && (row->indisunique || row->indisexclusion))
			result = lappend(result, make_unique(index));
		index_close(index, AccessShareLock);
	}
	return result;
}
