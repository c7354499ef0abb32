/*
 * router_foreign_key_probe.c
 *		Asks whether rows of a table of the router refer to a row of a shell table.
 *
 * PostgreSQL's trigger looks for the same key in the referenced table first, which
 * takes a round trip to a shard for each row.  Most rows that are deleted are not
 * referred to, and that can be found out on the router alone: the trigger is called
 * for the others only.
 *
 * The query does not lock rows, and reads as the owner of the table, as that of the
 * trigger does.  Where the trigger compares in a way of its own, by another collation
 * or by periods, there is no probe, and it is called for each row.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "access/foreign_modify.h"
#include "compat.h"

struct SlRouterKeyProbe
{
	SPIPlanPtr	plan;
	Oid			owner;			/* of the referring table */
	int			count;			/* of columns */
	AttrNumber	referenced[INDEX_MAX_KEYS];
};

/* The columns of a foreign key. */
typedef struct KeyColumns
{
	int			count;
	AttrNumber	own[INDEX_MAX_KEYS];
	AttrNumber	referenced[INDEX_MAX_KEYS];
	Oid			operators[INDEX_MAX_KEYS];
	bool		has_period;
} KeyColumns;

static void
read_columns(Oid constraint, KeyColumns *columns)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for constraint %u", constraint);
	DeconstructFkConstraintRow(tuple, &columns->count, columns->own, columns->referenced, columns->operators,
							   NULL, NULL, NULL, NULL);
	columns->has_period = sl_constraint_has_period((Form_pg_constraint) GETSTRUCT(tuple));
	ReleaseSysCache(tuple);
}

static bool
has_plain_collation(Relation relation, AttrNumber column)
{
	Oid			collation = TupleDescAttr(RelationGetDescr(relation), column - 1)->attcollation;

	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
}

/* Does equality mean the same as in PostgreSQL's trigger? */
static bool
is_comparable(const KeyColumns *columns, Relation relation, Relation referring)
{
	for (int i = 0; i < columns->count; i++)
	{
		if (!has_plain_collation(relation, columns->referenced[i]) || !has_plain_collation(referring, columns->own[i]))
			return false;
	}
	return !columns->has_period;
}

static Oid
type_of_column(Relation relation, AttrNumber column)
{
	return TupleDescAttr(RelationGetDescr(relation), column - 1)->atttypid;
}

/* Writes the query, and sets the types of its parameters. */
static char *
write_query(const KeyColumns *columns, Relation relation, Relation referring, Oid *types)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT 1 FROM %s%s x WHERE ",
					 referring->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? "" : "ONLY ",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(referring)),
												RelationGetRelationName(referring)));
	for (int i = 0; i < columns->count; i++)
	{
		char	   *param = psprintf("$%d", i + 1);
		char	   *name = psprintf("x.%s", quote_identifier(get_attname(RelationGetRelid(referring),
																		 columns->own[i], false)));

		types[i] = type_of_column(relation, columns->referenced[i]);
		if (i > 0)
			appendStringInfoString(&sql, " AND ");
		generate_operator_clause(&sql, param, types[i], columns->operators[i], name,
								 type_of_column(referring, columns->own[i]));
	}
	return sql.data;
}

static void
become_owner(Oid owner, Oid *user, int *security)
{
	GetUserIdAndSecContext(user, security);
	SetUserIdAndSecContext(owner, *security | SECURITY_LOCAL_USERID_CHANGE | SECURITY_NOFORCE_RLS);
}

/*
 * Prepares the query for a foreign key to the relation.  Returns NULL if there is no
 * probe for it.  The caller is connected to SPI.
 */
SlRouterKeyProbe *
sl_router_key_probe_make(Relation relation, const Trigger *trigger)
{
	Relation	referring = table_open(trigger->tgconstrrelid, RowShareLock);
	SlRouterKeyProbe *probe = NULL;
	Oid			types[INDEX_MAX_KEYS];
	KeyColumns	columns;
	Oid			user;
	int			security;

	read_columns(trigger->tgconstraint, &columns);
	if (is_comparable(&columns, relation, referring))
	{
		probe = palloc0(sizeof(SlRouterKeyProbe));
		probe->owner = referring->rd_rel->relowner;
		probe->count = columns.count;
		memcpy(probe->referenced, columns.referenced, sizeof(probe->referenced));
		become_owner(probe->owner, &user, &security);
		probe->plan = SPI_prepare(write_query(&columns, relation, referring, types), columns.count, types);
		SetUserIdAndSecContext(user, security);
		if (probe->plan == NULL)
			elog(ERROR, "could not prepare the check of a foreign key: %s", SPI_result_code_string(SPI_result));
	}
	table_close(referring, NoLock);
	return probe;
}

/*
 * Does a row refer to this one?  Rows that were committed after the transaction's
 * snapshot count.
 */
bool
sl_router_key_probe_finds(const SlRouterKeyProbe *probe, TupleTableSlot *slot)
{
	Snapshot	snapshot = InvalidSnapshot;
	Datum		values[INDEX_MAX_KEYS];
	Oid			user;
	int			security;
	int			result;

	for (int i = 0; i < probe->count; i++)
	{
		bool		is_null;

		values[i] = slot_getattr(slot, probe->referenced[i], &is_null);
		if (is_null)
			return false;
	}
	if (IsolationUsesXactSnapshot())
	{
		CommandCounterIncrement();
		snapshot = GetLatestSnapshot();
	}
	become_owner(probe->owner, &user, &security);
	result = SPI_execute_snapshot(probe->plan, values, NULL, snapshot, InvalidSnapshot, false, false, 1);
	SetUserIdAndSecContext(user, security);
	if (result != SPI_OK_SELECT)
		elog(ERROR, "could not check a foreign key: %s", SPI_result_code_string(result));
	SPI_freetuptable(SPI_tuptable);
	return SPI_processed > 0;
}
